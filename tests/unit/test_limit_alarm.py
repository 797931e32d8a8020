"""What is said of a memory limit while a program runs: once, at once, and with what is known."""

from __future__ import annotations

import pytest

from edgewise.constraints.base import Usage
from edgewise.record import Constraints
from edgewise.run.command import Execution
from edgewise.run.command_run import failure_of
from edgewise.run.limit_alarm import MOST_LINES, LimitAlarm

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
        "edgewise: the memory limit of 67.1 MB was reached: the kernel killed python3 (process 12). A command that waits "
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
        "67.1 MB may be reached: the output of the command says that a process got no memory" in capsys.readouterr().err
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
        "the command ran out of memory: the memory limit of 67.1 MB was reached after 1.2 s, the kernel killed python3 "
        "(process 12), and the command had not ended after 30 s"
    )
    assert one.facts()["memory_limit_reached_s"] == 1.2 and one.facts()["killed"] == ["python3 (process 12)"]


def test_a_command_that_got_no_memory_and_went_on_is_no_failure():
    one = execution(seconds=30.0, limit_reached_s=1.2, limit_told_by="output")
    assert failure_of(one, Constraints(memory_bytes=64 * MIB)) is None
