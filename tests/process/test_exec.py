"""Programs within real limits: what the kernel counted, how they end, and that nothing is left of them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from edgewise.cancellation import wait_readable
from edgewise.cli.main import run
from edgewise.constraints.base import PERIOD_S
from edgewise.constraints.cgroups import V1, V2, Cgroup, find_cgroup
from edgewise.constraints.memory_watch import _watch_file
from edgewise.errors import ExitCode
from edgewise.run.counters import Counters
from edgewise.stats.comparison import RISK
from edgewise.testing import write_fake_model
from patience import LIMIT_S, wait_until

pytestmark = pytest.mark.cold
MIB = 2**20
BURN = "import time\nend = time.process_time() + {cpu}\nwhile time.process_time() < end: pass"
HUNGRY = "x = bytearray(400 << 20)"


def best():
    """The control groups of this machine, or why there are none."""
    found = [find_cgroup(version, cpus=0.5, memory_bytes=MIB) for version in (V2, V1)]
    return next((one for one in found if isinstance(one, Cgroup)), "; ".join(map(str, found)))


@pytest.fixture
def parents():
    """The folders in which groups are made; the test is skipped where none can be made."""
    found = best()
    if isinstance(found, str):
        pytest.skip(f"no control group can be made here: {found}")
    return tuple(found.parents.values())


def execute(capfd, *words, code=ExitCode.DONE):
    assert run(["exec", "--no-store", "--quiet", "--json", *words]) == code
    (record,) = json.loads(capfd.readouterr().out)["runs"]
    return record


def value(record, metric):
    return next(row["value"] for row in record["measurements"] if row["metric"] == metric)


def find_cgroup_here():
    found = best()
    assert isinstance(found, Cgroup)
    return found


def groups(parents, pid=None):
    """Groups that this process, or process `pid`, made; other tests on this machine have theirs."""
    return [each for parent in parents for each in parent.glob(f"edgewise-{pid or os.getpid()}-*")]


def is_running(mark):
    def has(folder):
        try:
            return mark.encode() in (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            return False

    return any(has(folder) for folder in Path("/proc").glob("[0-9]*"))


def gone(condition):
    """Once `condition` has ended: a killed process takes a moment."""
    return wait_until(lambda: not condition())


@pytest.mark.slow
@pytest.mark.parametrize(("cpus", "burnt_s"), [(0.1, 0.25), (0.5, 1.0)])
def test_a_quota_holds_processor_time_per_wall_time(capfd, parents, cpus, burnt_s):
    code = BURN.format(cpu=burnt_s)
    record = execute(capfd, "--cpus", str(cpus), "--", sys.executable, "-I", "-S", "-c", code)
    facts = record["sessions"][0]["facts"]
    assert record["effective"]["mechanism"] in ("cgroup-v1", "cgroup-v2")
    # At 0.1 CPUs, 0.25 s of processor time take 2.5 s; a busy machine may take longer, a limit that holds never less.
    assert value(record, "total_time") >= 0.95 * (burnt_s / cpus - PERIOD_S)
    # The end may fall behind the quota's share of a period that has only begun.
    assert value(record, "cpu_time") <= 1.05 * cpus * (value(record, "total_time") + PERIOD_S)
    # A busy machine may leave the program less than half a processor, but not less than a tenth for all of the time.
    assert facts["throttled_periods"] > 0 or cpus > 0.1
    # A period in which the kernel paused the program had its full quota, whatever else the machine did.
    assert value(record, "cpu_time") >= 0.95 * cpus * PERIOD_S * facts["throttled_periods"]
    assert value(record, "cpu_time") <= 1.05 * cpus * PERIOD_S * (facts["periods"] + 1)
    assert record["job"]["target"]["constraints"]["cpus"] == cpus
    assert record["job"]["command"][0] == sys.executable
    assert not groups(parents)


def test_a_hungry_program_runs_out_of_memory(capfd, parents):
    record = execute(
        capfd, "--memory", "200MiB", "--", sys.executable, "-I", "-S", "-c", HUNGRY, code=ExitCode.RUN_FAILED
    )
    assert record["failure"]["cause"] == "OutOfMemory"
    assert record["failure"]["signal"] == "SIGKILL"
    facts = record["sessions"][0]["facts"]
    assert (facts["oom_kills"], facts["memory_limit_told_by"]) == (1, "kernel")
    assert value(record, "memory_group_peak") <= 200 * MIB
    assert not groups(parents)


def test_memory_is_counted_for_all_processes(capfd, parents):
    code = "import os\nchild = os.fork()\nx = bytearray(b'1' * (40 << 20))\nif child: os.wait()"
    record = execute(capfd, "--memory", "500MiB", "--", sys.executable, "-I", "-S", "-c", code)
    assert value(record, "memory_group_peak") >= 2 * 40 * MIB
    assert value(record, "page_faults") > 0
    assert value(record, "context_switches") > 0


def test_affinity_and_rlimits_stand_in_for_control_groups(capfd):
    limits = ["--mechanism", "affinity-rlimit", "--cpus", "1", "--memory", "200MiB", "--"]
    code = "import os; assert len(os.sched_getaffinity(0)) == 1"
    record = execute(capfd, *limits, sys.executable, "-I", "-S", "-c", code)
    assert record["effective"]["mechanism"] == "affinity-rlimit"
    assert "limit-not-held" in [one["code"] for one in record["cautions"]]
    assert value(record, "cpu_time") > 0
    record = execute(capfd, *limits, sys.executable, "-I", "-S", "-c", HUNGRY, code=ExitCode.RUN_FAILED)
    assert record["failure"]["cause"] == "OutOfMemory"


@pytest.mark.parametrize("mechanism", ["best", "affinity-rlimit"])
def test_a_program_that_never_ends_is_killed_with_its_daemons(capfd, mechanism):
    chosen = [] if mechanism == "best" else ["--mechanism", mechanism]
    mark = f"731.{os.getpid()}"
    words = ["--timeout", "0.5s", *chosen, "--", "sh", "-c", f"setsid sleep {mark} & exec sleep {mark}"]
    record = execute(capfd, *words, code=ExitCode.RUN_FAILED)
    assert record["failure"]["cause"] == "Timeout"
    assert gone(lambda: is_running(mark))


@pytest.mark.parametrize("mechanism", ["best", "affinity-rlimit"])
def test_daemons_that_a_program_leaves_are_killed_and_reported(capfd, mechanism):
    chosen = [] if mechanism == "best" else ["--mechanism", mechanism]
    mark = f"732.{os.getpid()}"
    record = execute(capfd, *chosen, "--", "sh", "-c", f"setsid sleep {mark} & sleep 0.2")
    assert record["sessions"][0]["facts"]["processes_left"] == 1
    assert "processes-left" in [one["code"] for one in record["cautions"]]
    assert gone(lambda: is_running(mark))


def test_nothing_is_left_when_edgewise_is_killed():
    mark = f"733.{os.getpid()}"
    found = best()
    command = [sys.executable, "-P", "-m", "edgewise", "exec", "--no-store", "--", "sh", "-c"]
    parent = subprocess.Popen([*command, f"setsid sleep {mark} & exec sleep {mark}"], stderr=subprocess.DEVNULL)
    try:
        assert gone(lambda: not is_running(mark))
    finally:
        parent.kill()
        parent.wait()
    assert gone(lambda: is_running(mark))
    if isinstance(found, Cgroup):
        assert gone(lambda: groups(found.parents.values(), parent.pid))


def test_a_stop_of_edgewise_itself_is_a_caution(tmp_path):
    flag, end = tmp_path / "runs", tmp_path / "end"
    script = f"touch {flag}; until [ -e {end} ]; do sleep 0.1; done"
    line = [sys.executable, "-m", "edgewise", "exec", "--no-store", "-q", "--json", "--", "sh", "-c", script]
    parent = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert gone(lambda: not flag.exists())
    parent.send_signal(signal.SIGSTOP)
    time.sleep(3.0)  # real time: what the kernel keeps it stopped for, at least
    parent.send_signal(signal.SIGCONT)
    end.touch()
    (record,) = json.loads(parent.communicate(timeout=600)[0])["runs"]
    assert "edgewise-paused" in [one["code"] for one in record["cautions"]]


def test_ctrl_c_ends_the_program():
    mark = f"734.{os.getpid()}"
    command = [sys.executable, "-P", "-m", "edgewise", "exec", "--no-store", "--json", "--"]
    command += ["sh", "-c", f"exec sleep {mark}"]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert gone(lambda: not is_running(mark))
        parent.send_signal(signal.SIGINT)
        parent.communicate(timeout=600)
    finally:
        parent.kill()
    assert parent.returncode == ExitCode.INTERRUPTED
    assert gone(lambda: is_running(mark))


WAITS = """
import os, signal, sys
if os.fork() == 0:
    try:
        x = bytearray(400 << 20)
    except MemoryError:
        print("MemoryError", flush=True)
        os._exit(1)
signal.pause()
"""
"""A program that waits for ever, as a pool does whose worker was killed."""


def exec_until_said(*words):
    """Interrupt an edgewise that says something of a memory limit; return its lines, exit code and record."""
    command = [sys.executable, "-P", "-m", "edgewise", "exec", "--no-store", "--json", *words, "--"]
    command += [sys.executable, "-I", "-S", "-c", WAITS]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        lines = []
        while not (lines and "memory limit" in lines[-1]):
            lines.append(parent.stderr.readline())
            assert lines[-1], "it ended without a word"
        parent.send_signal(signal.SIGINT)
        out, _ = parent.communicate(timeout=LIMIT_S)
    finally:
        parent.kill()
    (record,) = json.loads(out)["runs"]
    return lines[-1], parent.returncode, record


def test_a_child_that_the_limit_kills_is_said_at_once_and_recorded(parents):
    said, code, record = exec_until_said("--memory", "200MiB")
    assert "memory limit of 200 MiB was reached: the kernel killed " in said and "raise --memory" in said
    assert code == ExitCode.INTERRUPTED
    failure, (session,) = record["failure"], record["sessions"]
    assert failure["cause"] == "OutOfMemory" and "the command had not ended after" in failure["message"]
    assert session["stopped_because"] == "interrupted after the memory limit was reached"
    facts = session["facts"]
    assert facts["oom_kills"] == 1 and facts["memory_limit_told_by"] == "kernel"
    assert facts["memory_limit_reached_s"] >= 0
    if os.access("/dev/kmsg", os.R_OK):
        (name,) = facts["killed"]
        assert name in said and name.startswith("python")
    assert not groups(parents)


def test_without_control_groups_the_output_of_a_child_tells_of_the_limit():
    said, code, record = exec_until_said("--memory", "200MiB", "--mechanism", "affinity-rlimit")
    assert "may be reached: the output of the command says that a process got no memory" in said
    assert code == ExitCode.INTERRUPTED and record["failure"]["cause"] == "OutOfMemory"
    assert record["sessions"][0]["facts"]["memory_limit_told_by"] == "output"


@pytest.fixture
def unified():
    """A new group of version 2, whatever its controllers."""
    for mount in (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified")):
        folder = mount / f"edgewise-test-{os.getpid()}"
        if (mount / "cgroup.controllers").exists() and os.access(mount, os.W_OK):
            with contextlib.suppress(OSError):
                folder.mkdir()
                break
    else:
        pytest.skip("no control group of version 2 can be made here")
    yield folder
    folder.rmdir()


def test_a_file_of_version_2_that_changes_wakes_the_watch(unified):
    """The kernel marks cgroup.events in the same way as memory.events, and needs no controller for it."""
    with contextlib.ExitStack() as stack:
        descriptor, clear = _watch_file(unified / "cgroup.events", stack)
        assert wait_readable([descriptor], 0.0) == []
        child = stack.enter_context(subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL))
        (unified / "cgroup.procs").write_text(str(child.pid))
        assert wait_readable([descriptor], LIMIT_S) == [descriptor]
        assert clear() == 0.0 and wait_readable([descriptor], 0.0) == []
        child.kill()
        child.wait()
        assert wait_readable([descriptor], LIMIT_S) == [descriptor]


def test_a_null_byte_in_a_list_of_models_is_bad_input(capfd, tmp_path):
    (tmp_path / "list.txt").write_bytes(b"a\0b\n")
    assert run(["exec", "--no-store", "-f", str(tmp_path / "list.txt"), "--", "echo", "{model}"]) == ExitCode.BAD_INPUT
    assert "null byte" in capfd.readouterr().err


def test_a_daemon_that_forks_all_the_time_is_killed(capfd):
    mark = f"walker.{os.getpid()}"
    code = "import os\nfor _ in range(50_000):\n    if os.fork(): os._exit(0)"
    record = execute(capfd, "--mechanism", "affinity-rlimit", "--", sys.executable, "-I", "-S", "-c", code, mark)
    assert "processes-left" in [one["code"] for one in record["cautions"]]
    assert gone(lambda: is_running(mark))


def test_groups_in_a_group_are_killed_and_removed_with_it(parents):
    with find_cgroup_here() as outer, Cgroup(version=outer.version, parents=outer.folders) as inner:
        child = subprocess.Popen(["sleep", "600"])
        inner.admit(child.pid)
        assert outer.kill() == 1
        assert child.wait() == -signal.SIGKILL
    assert not groups(parents)


def test_blocks_are_counted(capfd, tmp_path):
    code = (
        "import os, resource, sys\nfile = open(sys.argv[1], 'wb')\nfile.write(bytes(8 << 20))\nos.fsync(file.fileno())"
    )
    code += "\nprint(resource.getrusage(resource.RUSAGE_SELF).ru_oublock * 512)"
    assert run(["exec", "--no-store", "-q", "--json", "--", sys.executable, "-I", "-c", code, str(tmp_path / "f")]) == 0
    told = capfd.readouterr()
    (record,) = json.loads(told.out)["runs"]
    assert value(record, "block_written") == pytest.approx(int(told.err.split()[-1]), rel=0.05)


def test_models_are_put_in_the_command_and_ranked(capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("edgewise.run.command.read_counters", lambda: Counters(monotonic_ns=0))  # no load of others
    Path("a.bin").write_bytes(b"12345")
    Path("list.txt").write_bytes(b"\xef\xbb\xbf# the models\r\na.bin\r\n\r\nb.bin\n")
    words = ["exec", "--no-store", "--repeat", "2", "-f", "list.txt", "--sample", "0s"]
    assert run([*words, "--json", "--", "test", "{model}", "!=", "c.bin"]) == ExitCode.DONE
    told = json.loads(capfd.readouterr().out)
    assert [one["job"]["command"] for one in told["runs"]] == [
        ["test", "a.bin", "!=", "c.bin"], ["test", "b.bin", "!=", "c.bin"],
    ]  # fmt: skip
    assert [one["job"]["model"]["size_bytes"] for one in told["runs"]] == [5, 0]
    assert all(len(one["sessions"]) == 2 for one in told["runs"])
    assert {one["job"]["workload"]["interleave"] for one in told["runs"]} == {"rounds"}
    assert told["recommendation"] is None
    assert run([*words, "-m", "c.bin", "--details", "--", "sh", "-c", "true {model}"]) == ExitCode.DONE
    shown = capfd.readouterr().out
    assert "Models, fastest first: command" in shown
    told = shown.partition("\n\n")[0]
    assert ("Fastest: " in told or "can't be told apart" in " ".join(told.split())) and "(mechanism" not in told
    assert "Recommended" not in shown


def test_output_goes_to_standard_error_and_a_failure_keeps_its_end(capfd):
    assert run(["exec", "--no-store", "--json", "--", "sh", "-c", "echo out; echo err >&2; exit 3"]) == 4
    told = capfd.readouterr()
    (record,) = json.loads(told.out)["runs"]
    assert "out\nerr\n" in told.err
    assert (record["failure"]["cause"], record["failure"]["exit_code"]) == ("CommandFailed", 3)
    assert record["failure"]["stderr_tail"] == "out\nerr"


def test_a_request_says_the_same_as_the_command_line(capfd, tmp_path):
    line = ["exec", "--cpus", "1", "--memory", "64MiB", "--no-store", "--dry-run"]
    assert run([*line, "--json", "--", "echo", "--debug", "-x"]) == ExitCode.DONE
    text = capfd.readouterr().out
    assert json.loads(text)["command"] == ["echo", "--debug", "-x"]
    (tmp_path / "request.json").write_text(text)
    assert run(["run", "--no-store", str(tmp_path / "request.json")]) == ExitCode.DONE
    told = capfd.readouterr()
    assert "this request runs code: echo --debug -x" in told.err
    assert "total time" in told.out
    assert run([*line, "--", "echo", "a b"]) == ExitCode.DONE
    shown = capfd.readouterr().out.splitlines()[0]
    assert shown == "would run: edgewise exec --cpus 1.0 --memory 67108864B -- echo 'a b'"


def test_the_terminal_names_command_and_mechanism(capfd):
    words = ["--cpus", "1", "--mechanism", "affinity-rlimit", "--", "true"]
    assert run(["exec", "--no-store", *words]) == ExitCode.DONE
    shown = capfd.readouterr()
    assert shown.out.startswith("true (mechanism affinity-rlimit): total time ")
    begun, ended = shown.err.splitlines()
    assert begun.startswith("true (") and begun.endswith(" s after the start)") and ended.startswith("true  ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--", "no-such-program"], "does not exist or is not executable"),
        (["--cpus", "0", "--", "true"], "--cpus must be 0.01 to 1024, not 0"),
        (["--memory", "1KiB", "--", "true"], "--memory must be at least 1 MiB and less than 8 EiB, not 1024 B"),
        (["--memory", "1e400", "--", "true"], "'1e400' is not a size"),
        (["-m", 20 * "x" * 10_000, "--", "true", "{model}"], "the command line is too long"),
        (["-f", "/dev/zero", "--", "echo", "{model}"], "--models-file /dev/zero is larger than 1.00 MiB"),
        (["--sample", "1ms", "--", "true"], "--sample must be 0 or at least 0.01 s"),
        (["--repeat", "0", "--", "true"], "--repeat must be at least 1"),
        (["--mechanism", "magic", "--", "true"], "--mechanism must be one of"),
        (["-m", "a", "--", "true"], "need a placeholder in the command"),
        ([], "no command given"),
    ],
)
def test_bad_input_has_exit_code_2_and_advice(capfd, words, message):
    assert run(["exec", "--no-store", *words]) == ExitCode.BAD_INPUT
    assert message in capfd.readouterr().err


def bench(capfd, *words, code=ExitCode.DONE):
    line = ["bench", "m.fake", "-r", "fake", "--iterations", "30", "--sessions", "1", "--no-meters", "--no-store", "-q"]
    assert run([*line, "--json", *words]) == code
    (record,) = json.loads(capfd.readouterr().out)["runs"]
    return record


def test_a_worker_runs_within_the_limits(capfd, tmp_path, monkeypatch, parents):
    monkeypatch.chdir(tmp_path)
    write_fake_model("m.fake", latency_ns=[2_000_000])
    record = bench(capfd, "--cpus", "1", "--memory", "1GiB")
    assert record["job"]["target"]["constraints"] == {
        "cpus": 1.0, "memory_bytes": 2**30, "mechanism": None, "image": None,
    }  # fmt: skip
    told = record["sessions"][0]["facts"]["constraints"]
    assert told["mechanism"] in ("cgroup-v1", "cgroup-v2")
    assert 0 < told["memory_peak_bytes"] < 2**30
    assert told["cpu_s"] > 0
    assert record["environment"]["cpu"]["quota_cores"] == 1.0
    assert bench(capfd)["job"]["target"]["constraints"] is None
    assert not groups(parents)


def test_a_worker_that_the_memory_limit_kills_ran_out_of_memory(capfd, tmp_path, monkeypatch, parents):
    monkeypatch.chdir(tmp_path)
    write_fake_model("m.fake", latency_ns=[2_000_000])
    record = bench(capfd, "--memory", "8MiB", code=ExitCode.RUN_FAILED)
    assert record["failure"]["cause"] == "OutOfMemory"
    assert "raise --memory," in record["failure"]["advice"]
    assert not groups(parents)


@pytest.mark.parametrize("verb", ["bench", "profile", "evaluate", "compare"])
def test_limits_apply_to_this_machine_only(capfd, verb):
    data = ["--data", "d.npz"] if verb == "evaluate" else []
    assert run([verb, "m.fake", *data, "--cpus", "1", "-d", "elsewhere"]) == ExitCode.BAD_INPUT
    assert "--cpus and --memory apply only to --device local" in capfd.readouterr().err


def test_runs_under_different_limits_are_not_compared(capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_fake_model("m.fake", latency_ns=[2_000_000])
    for words in (["--mechanism", "affinity-rlimit", "--cpus", "1"], []):
        line = ["bench", "m.fake", "-r", "fake", "--iterations", "30", "--sessions", "1", "-q", "--store", "runs.db"]
        assert run([*line, *words]) == ExitCode.DONE
    assert run(["compare", "last", "last~1", "--store", "runs.db"]) == ExitCode.BAD_INPUT
    assert "limits: " in capfd.readouterr().err


def test_without_permission_for_control_groups_the_next_mechanism_is_used(capfd):
    """In a mount namespace where every control group is read-only, as for a user without delegation."""
    readonly = "for each in /sys/fs/cgroup /sys/fs/cgroup/*/; do mount -o remount,bind,ro $each 2>/dev/null; done; "
    command = f"{readonly} exec '{sys.executable}' -P -m edgewise exec -q --json --no-store --cpus 1 -- true"
    done = subprocess.run(["unshare", "-m", "sh", "-c", command], capture_output=True, text=True, check=False)
    if "unshare" in done.stderr:
        pytest.skip(f"no mount namespace can be made here: {done.stderr.strip()}")
    assert done.returncode == ExitCode.DONE
    (record,) = json.loads(done.stdout)["runs"]
    assert record["effective"]["mechanism"] == "affinity-rlimit"
    assert any("cgroup-v1: no writable hierarchy for cpu" in why for why in record["effective"]["passed_over"])


def test_stored_runs_of_commands_are_compared_in_pairs_of_rounds(capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["exec", "--store", "runs.db", "-q", "--json", "--repeat", "4", "-m", "0.02,0.8", "--", "sleep", "{model}"]
    assert run(words) == ExitCode.DONE
    ids = [one["id"] for one in json.loads(capfd.readouterr().out)["runs"]]
    assert run(["compare", *ids, "--store", "runs.db", "--metrics", "total_time", "--json"]) == ExitCode.DONE
    told = json.loads(capfd.readouterr().out)
    (row,) = told["comparisons"]
    assert row["before"]["replicates"] == 4 and "4 pairs of fresh processes" in row["method"]
    assert row["before"]["value"] >= 0.02 and row["after"]["value"] >= 0.8
    # A pause of a busy machine may make a sleep of 20 ms as long as the other, and then four pairs prove nothing.
    assert row["verdict"] == ("slower" if row["p_adjusted"] < RISK else "inconclusive"), row
    assert any(text.startswith("command: ") for text in told["stated"])
    assert told["notes"] == []
    assert told["not_excluded"] == []
