"""What is said of a memory limit while a program runs: once, at once, and with what is known."""

from __future__ import annotations

import pytest

from edgewise.constraints.base import Usage
from edgewise.record import Constraints
from edgewise.run.command import Execution
from edgewise.run.command_run import failure_of, measurements_of
from edgewise.run.limit_alarm import MOST_LINES, LimitAlarm
from messages import wording

MIB = 2**20


class Watch:
    """Reports as the kernel's: (number of killed processes, their names)."""

    descriptor = 7

    def __init__(self, *reports):
        self.reports = list(reports)

    def look(self):
        return self.reports[0][0]

    def names(self):
        return self.reports.pop(0)[1]


def alarm(watch=None, memory_bytes=64 * MIB):
    return LimitAlarm(memory_bytes=memory_bytes, pid=10, watch=watch)


def test_a_killed_process_is_named_with_what_to_do(capsys):
    one = alarm(Watch((1, ["python3 (process 12)"])))
    assert one.descriptors == [7]
    one.look(1.5)
    assert capsys.readouterr().err.strip() == (
        "edgewise: the memory limit of 64 MiB was reached: the kernel killed python3 (process 12). A command that waits "
        "for an ended process waits for ever: end it with Ctrl-C, and raise --memory"
    )
    assert (one.reached_s, one.told_by, one.killed) == (1.5, "kernel", ["python3 (process 12)"])


def test_reclaimed_memory_is_no_limit_that_ended_anything(capsys):
    one = alarm(Watch((0, [])))
    one.look(1.5)
    assert one.reached_s is None and capsys.readouterr().err == ""


def test_the_command_itself_waits_for_nothing(capsys):
    alarm(Watch((1, ["sh (process 10)"]))).look(1.5)
    assert "waits for ever" not in capsys.readouterr().err


def test_a_program_that_starts_again_what_was_killed_gets_few_lines(capsys):
    one = alarm(Watch(*[(2, []), *[(1, ["a (process 11)"])] * 9]))
    for second in range(10):
        one.look(float(second))
    lines = capsys.readouterr().err.split("\n\n")
    assert len(lines) == MOST_LINES and "killed 2 processes" in lines[0] and "no more lines" in lines[-1]
    assert one.reached_s == 0.0 and len(one.killed) == 9


def test_without_reports_of_the_kernel_samples_count(capsys):
    one = alarm()
    for kills, now in ((None, 0.5), (0, 1.0), (1, 1.5), (1, 2.0)):
        one.count(Usage(oom_kills=kills), now)
    assert one.reached_s == 1.5 and capsys.readouterr().err.count("killed 1 process.") == 1


@pytest.mark.parametrize(
    "pieces", [("MemoryError",), ("terminate: std::bad", "_alloc\n"), ("x" * 999, "out of memory")]
)
def test_where_nothing_counts_the_output_tells(capsys, pieces):
    one = alarm()
    for number, piece in enumerate(pieces, 1):
        one.read(piece, float(number))
    assert (one.reached_s, one.told_by) == (len(pieces), "output")
    assert (
        "64 MiB may be reached: the output of the command says that a process got no memory" in capsys.readouterr().err
    )


def test_output_of_a_program_without_a_limit_or_with_a_watch_tells_nothing(capsys):
    for one in (alarm(memory_bytes=0), alarm(Watch())):
        one.read("MemoryError", 1.0)
        assert one.reached_s is None
    assert capsys.readouterr().err == ""


def execution(**facts):
    return Execution(started_at="", mechanism="cgroup-v1", cannot_hold="", **facts)


@pytest.mark.parametrize("end", ["late", "interrupted"])
def test_a_command_that_waited_for_a_killed_process_ran_out_of_memory(end):
    one = execution(
        seconds=30.0, limit_reached_s=1.2, killed=("python3 (process 12)",), usage=Usage(oom_kills=1), **{end: True}
    )
    failure = failure_of(one, Constraints(memory_bytes=64 * MIB))
    assert failure.cause == "OutOfMemory" and failure.message == (
        "the command ran out of memory: the memory limit of 64 MiB was reached after 1.2 s, the kernel killed python3 "
        "(process 12), and the command had not ended after 30 s"
    )
    assert one.facts()["memory_limit_reached_s"] == 1.2 and one.facts()["killed"] == ["python3 (process 12)"]


def test_a_command_that_got_no_memory_and_went_on_is_no_failure():
    one = execution(seconds=30.0, limit_reached_s=1.2, limit_told_by="output")
    assert failure_of(one, Constraints(memory_bytes=64 * MIB)) is None


def test_a_program_that_raises_memory_error_below_the_limit_did_not_reach_it():
    usage = Usage(oom_kills=0, limit_hits=0, memory_peak_bytes=3 * MIB)
    one = execution(seconds=0.1, returncode=1, tail="MemoryError: x", usage=usage)
    failure = failure_of(one, Constraints(memory_bytes=300 * MIB))
    assert (failure.cause, failure.advice) == ("CommandFailed", "see its output")
    assert failure.message == (
        "the command ended with exit code 1, and its output says that memory ran out; the memory limit of 300 MiB was not "
        "reached: the highest memory seen was 3.00 MiB"
    )


@pytest.mark.parametrize("end", [{"late": True}, {"interrupted": True}, {"returncode": 1}])
def test_where_nothing_counts_the_output_alone_does_not_say_that_the_limit_was_reached(end):
    samples = [(1.0, Usage(memory_bytes=3 * MIB))]
    told = {"limit_reached_s": 1.2, "limit_told_by": "output", "tail": "MemoryError", "samples": samples}
    failure = failure_of(execution(seconds=30.0, **told, **end), Constraints(memory_bytes=64 * MIB))
    assert failure.cause == "OutOfMemory" and failure.message.endswith(
        "its output says that memory ran out; the memory limit of 64 MiB was not seen to be reached: the highest memory "
        "seen was 3.00 MiB"
    )
    samples = [(1.0, Usage(memory_bytes=64 * MIB))]
    failure = failure_of(
        execution(seconds=30.0, **told | {"samples": samples}, **end), Constraints(memory_bytes=64 * MIB)
    )
    assert failure.message.startswith("the command ran out of memory: the memory limit of 64 MiB was reached")


def test_the_limit_is_a_reason_only_where_it_was_reached_and_a_program_has_no_model():
    def advice(peak, **changes):
        one = execution(usage=Usage(memory_peak_bytes=peak, oom_kills=0), returncode=7)
        return failure_of(one, Constraints(memory_bytes=64 * MIB), **changes).advice

    assert advice(3 * MIB) == "see its output"
    assert advice(64 * MIB) == "see its output; the memory limit of 64 MiB may be the reason"
    killed = execution(usage=Usage(oom_kills=1), returncode=-9)
    limits = Constraints(memory_bytes=64 * MIB)
    assert failure_of(killed, limits).advice == "raise --memory, or make the command use less"
    assert failure_of(killed, limits, has_model=True).advice == "raise --memory, or use a smaller model"


@pytest.mark.parametrize(("kills", "hits", "value"), [(1, 0, None), (1, 2, 2.0), (0, 0, 0.0)])
def test_a_counter_that_missed_a_kill_is_absent(kills, hits, value):
    one = execution(seconds=1.0, usage=Usage(oom_kills=kills, limit_hits=hits))
    rows = {row.metric: row for row in measurements_of([one], Constraints(memory_bytes=64 * MIB))}
    row = rows["memory_limit_hits"]
    assert row.value == value
    assert value is not None or row.absent_because == (wording("did-not-count-limit-which", mechanism="cgroup-v1"))
