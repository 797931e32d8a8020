"""Control groups on a fake tree: which folder is chosen, what is written, and what the counters say."""

import contextlib
import os
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from edgewise.constraints.base import Usage
from edgewise.constraints.cgroups import PREFIX, V1, V2, Cgroup, find_cgroup, remove_stale
from edgewise.constraints.containers import group_of, missing_limits, signal_or_code
from edgewise.constraints.memory_watch import MemoryWatch, watch_memory
from edgewise.constraints.process_limits import ProcessLimits
from edgewise.errors import BadField
from edgewise.formatting import value_text
from edgewise.record import Constraints, Job, ModelRef, RuntimeSpec, Scenario, TargetSpec, Workload
from edgewise.report.bench.tables import bench_table
from edgewise.run.command import Execution
from edgewise.run.command_run import build_run, cautions_of, failure_of, measurements_of
from edgewise.run.program import network_bytes
from edgewise.units import format_limit
from edgewise.verbs.exec.request import ExecRequest
from edgewise.verbs.shared import check_constraints
from messages import says, wording

MIB = 2**20


def write(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def tree(root, *, mounts, own):
    """A machine whose ``/proc`` names these mounts (folder, type, options) and these own groups."""
    write(root / "proc/self", {
        "cgroup": own,
        "mountinfo": "".join(f"30 1 0:1 / /{place} rw - {kind} x {options}\n" for place, kind, options in mounts),
    })  # fmt: skip
    return root


def test_version_1_is_found_in_the_own_folder_of_each_hierarchy(tmp_path):
    mounts = [(f"sys/fs/cgroup/{one}", "cgroup", f"rw,{one}") for one in ("cpu,cpuacct", "memory")]
    root = tree(tmp_path, mounts=mounts, own="3:cpu,cpuacct:/\n2:memory:/mine\n")
    write(root / "sys/fs/cgroup/cpu,cpuacct", {"cgroup.procs": ""})
    write(root / "sys/fs/cgroup/memory/mine", {"cgroup.procs": ""})
    found = find_cgroup(V1, cpus=0.5, memory_bytes=MIB, root=root)
    assert isinstance(found, Cgroup)
    assert dict(found.parents) == {
        "cpu": root / "sys/fs/cgroup/cpu,cpuacct",
        "cpuacct": root / "sys/fs/cgroup/cpu,cpuacct",
        "memory": root / "sys/fs/cgroup/memory/mine",
    }
    assert find_cgroup(V2, cpus=0.5, root=root) == wording("no-writable-hierarchy", name="cgroup-v2", lacking="cpu")


def test_version_2_is_found_where_the_children_have_the_controllers(tmp_path):
    root = tree(tmp_path, mounts=[("sys/fs/cgroup", "cgroup2", "rw")], own="0::/user/app\n")
    base = root / "sys/fs/cgroup"
    for folder, children in (("", "cpu memory io"), ("user", "cpu memory"), ("user/app", "")):
        write(
            base / folder, {"cgroup.procs": "", "cgroup.controllers": "cpu memory", "cgroup.subtree_control": children}
        )
    found = find_cgroup(V2, cpus=1.0, memory_bytes=MIB, root=root)
    assert isinstance(found, Cgroup)
    # io is delegated further up only, and no limit needs it
    assert dict(found.parents) == {"cpu": base / "user", "memory": base / "user"}
    (base / "user" / "cgroup.subtree_control").write_text("cpu")
    found = find_cgroup(V2, cpus=1.0, memory_bytes=MIB, root=root)
    assert isinstance(found, Cgroup)
    assert set(found.parents.values()) == {base}
    assert find_cgroup(V1, cpus=1.0, root=root) == wording(
        "no-writable-hierarchy", name="cgroup-v1", lacking="cpu, cpuacct"
    )


ID = "c0ffee" * 10


def put_process(root, pid, own):
    """A process of another control group on the machine of `tree`."""
    write(root / f"proc/{pid}", {"cgroup": own})


@pytest.mark.parametrize("place", [f"system.slice/docker-{ID}.scope", f"machine.slice/libpod-{ID}.scope/container"])
def test_the_group_of_a_container_is_the_one_with_its_identity(tmp_path, place):
    root = tree(tmp_path, mounts=[("sys/fs/cgroup", "cgroup2", "rw")], own="0::/user/app\n")
    put_process(root, 77, f"0::/{place}\n")
    limits = {"cgroup.controllers": "cpu memory", "cpu.max": "50000 100000\n", "memory.max": "1044480\n"}
    named = write(root / "sys/fs/cgroup" / place.removesuffix("/container"), limits)
    if place.endswith("/container"):
        write(
            named / "container", {"cgroup.controllers": "cpu memory", "cpu.max": "max 100000\n", "memory.max": "max\n"}
        )
    group = group_of("77", ID, root)
    assert group is not None
    assert (group.version, set(group.folders.values())) == (V2, {named})
    assert missing_limits(group, cpus=0.5, memory_bytes=1044480 + 4095) == []
    assert missing_limits(group, cpus=1.0, memory_bytes=1044480 + 4096) == [
        "cpu.max is 50000 100000, not 100000 100000", "memory.max is 1044480, not 1048576",
    ]  # fmt: skip
    (named / "memory.max").write_text("max\n")
    assert missing_limits(group, cpus=None, memory_bytes=MIB) == ["memory.max is max, not 1048576"]


def test_a_process_number_of_another_machine_is_no_container(tmp_path):
    root = tree(tmp_path, mounts=[("sys/fs/cgroup", "cgroup2", "rw")], own="0::/user/app\n")
    put_process(root, 77, "0::/user/another\n")
    assert group_of("77", ID, root) is None
    assert group_of("78", ID, root) is None


@pytest.mark.parametrize(
    ("version", "settings"),
    [
        (V1, [("cpu", "cpu.cfs_period_us", "100000"), ("cpu", "cpu.cfs_quota_us", "150000"),
              ("memory", "memory.limit_in_bytes", "1048576")]),
        (V2, [("cpu", "cpu.max", "150000 100000"), ("memory", "memory.max", "1048576")]),
    ],
)  # fmt: skip
def test_limits_are_written_as_the_kernel_reads_them(version, settings):
    assert version.settings(1.5, MIB)[0] == settings
    assert version.settings(None, None) == ([], [])


def test_counters_of_version_1_are_read_in_si_units(tmp_path):
    write(tmp_path, {
        "cpuacct.usage": "2500000000\n", "cpu.stat": "nr_periods 20\nnr_throttled 7\nthrottled_time 1250000000\n",
        "memory.usage_in_bytes": "5000\n", "memory.stat": "cache 9\ninactive_file 1\ntotal_inactive_file 1000\n",
        "memory.max_usage_in_bytes": "9000\n", "memory.failcnt": "3\n", "memory.oom_control": "under_oom 0\noom_kill 2\n",
    })  # fmt: skip
    group = Cgroup(version=V1, parents={}, folders=dict.fromkeys(V1.controllers, tmp_path))
    assert group.usage() == Usage(
        cpu_s=2.5, periods=20, throttled_periods=7, throttled_s=1.25, memory_bytes=4000, memory_peak_bytes=9000,
        limit_hits=3, oom_kills=2,
    )  # fmt: skip


def test_counters_of_version_2_are_read_in_si_units_and_what_is_missing_is_none(tmp_path):
    write(tmp_path, {
        "cpu.stat": "usage_usec 2500000\nuser_usec 1\nnr_periods 20\nnr_throttled 7\nthrottled_usec 1250000\n",
        "memory.current": "5000\n", "memory.stat": "inactive_file 1000\n", "io.stat": "",
        "memory.events": "low 0\nhigh 0\nmax 3\noom 1\noom_kill 2\noom_group_kill 0\n",
    })  # fmt: skip
    group = Cgroup(version=V2, parents={}, folders=dict.fromkeys(V2.controllers, tmp_path))
    assert group.usage() == Usage(
        cpu_s=2.5, periods=20, throttled_periods=7, throttled_s=1.25, memory_bytes=4000, memory_peak_bytes=None,
        limit_hits=3, oom_kills=2, read_bytes=0, written_bytes=0,
    )  # fmt: skip


def test_only_groups_whose_edgewise_is_gone_are_removed(tmp_path):
    (tmp_path / f"{PREFIX}1-old").mkdir()
    (tmp_path / "others").mkdir()
    with Cgroup(version=V1, parents={"memory": tmp_path}) as group:
        (kept,) = group.folders.values()
        assert remove_stale(tmp_path) == 0
        assert sorted(each.name for each in tmp_path.iterdir()) == sorted([kept.name, "others"])
    assert [each.name for each in tmp_path.iterdir()] == ["others"]


def test_a_process_of_another_namespace_does_not_end_edgewise(tmp_path):
    write(tmp_path, {"cgroup.procs": "0\n"})
    code = "import sys; from pathlib import Path; from edgewise.constraints.cgroups import kill_all; "
    code += "assert kill_all((Path(sys.argv[1]),)) == 0"
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, start_new_session=True)


def test_network_counts_leave_loopback_out(tmp_path):
    rows = ("lo: 100 1 0 0 0 0 0 0 100 1 0 0 0 0 0 0", "eth0: 7 1 0 0 0 0 0 0 30 1 0 0 0 0 0 0",
            "wlan0:5 1 0 0 0 0 0 0 2 1 0 0 0 0 0 0")  # fmt: skip
    write(tmp_path / "proc/self/net", {"dev": "Inter-|\n face |bytes\n" + "\n".join(f"  {row}" for row in rows)})
    assert network_bytes(tmp_path / "proc/self") == (12, 32)
    assert network_bytes(tmp_path / "nowhere") is None


def test_affinity_and_rlimits_say_what_they_cannot_hold():
    assert ProcessLimits().cannot_hold == ""
    assert ProcessLimits(cpus=0.5).cannot_hold == "0.5 CPUs are held as 1 whole core"
    assert wording("memory-limit-counts-private-memory") in ProcessLimits(memory_bytes=MIB).cannot_hold


def test_processes_with_the_mark_are_pinned_limited_and_killed():
    code = (
        "import resource, os, sys; print(len(os.sched_getaffinity(0)), resource.getrlimit(resource.RLIMIT_DATA)[0]); "
    )
    code += "sys.stdout.flush(); sys.stdin.read()"
    group = ProcessLimits(cpus=0.5, memory_bytes=300 * MIB)
    child = subprocess.Popen(
        ["/bin/sh", "-c", 'read _ && exec "$@"', "sh", sys.executable, "-I", "-S", "-c", code],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **group.environment},
    )  # fmt: skip
    with group, child:
        group.admit(child.pid)
        child.stdin.write(b"\n")
        child.stdin.flush()
        assert child.stdout.readline().split() == [b"1", str(300 * MIB).encode()]
        usage = group.usage()
        assert usage.cpu_s >= 0
        assert usage.memory_bytes > MIB
        assert group.kill() == 1
        assert child.wait() == -9
        assert group.usage() == Usage()


def kill_record(group, name="python3"):
    """A record of the kernel's log about a process that it killed."""
    return (
        f"4,751,1624,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/a/{group},"
        f"task_memcg=/a/{group},task={name},pid=1126,uid=0\n"
    )


def test_reports_of_the_memory_limit_name_what_was_killed_in_this_group(tmp_path):
    memory = write(tmp_path / "edgewise-1-a", {"memory.events": "oom_kill 0\n"})
    log = write(tmp_path / "dev", {"kmsg": kill_record("edgewise-1-a", "earlier")}) / "kmsg"
    group = Cgroup(version=V2, parents={}, folders={"memory": memory})
    with log.open("rb", buffering=0) as kernel, contextlib.ExitStack() as kept:
        kernel.seek(0, os.SEEK_END)
        watch = MemoryWatch(group=group, descriptor=-1, clear=lambda: 0.0, log=kernel.fileno(), kills=0, kept=kept)
        assert (watch.look(), watch.names()) == (0, [])
        for name, text in (("edgewise-2-b", "other"), ("edgewise-1-a", "a,pid=1,b\x1b"), ("edgewise-1-a", "")):
            with log.open("a") as more:
                more.write(kill_record(name, text))
            write(memory, {"memory.events": "oom_kill 2\n"})
            assert watch.names() == (["a,pid=1,b (process 1126)"] if "a," in text else [])
        assert (watch.look(), watch.look()) == (2, 0)


def test_a_memory_limit_that_can_not_be_watched_is_none(tmp_path):
    for version in (V1, V2):
        assert watch_memory(Cgroup(version=version, parents={}, folders={"memory": tmp_path}), root=tmp_path) is None
    assert watch_memory(Cgroup(version=V2, parents={}, folders={})) is None


def execution(**changes):
    told = {"seconds": 2.0, "usage": Usage(cpu_s=1.0, memory_peak_bytes=50 * MIB, oom_kills=0)}
    return Execution(started_at="2026-01-01T00:00:00Z", mechanism="cgroup-v1", cannot_hold="", **(told | changes))


def codes(limits, *executions):
    return [one.code for one in cautions_of(executions, limits, failed=False)]


def test_cautions_tell_whether_limits_held_and_processors_were_used():
    limits = Constraints(cpus=0.5, memory_bytes=100 * MIB)
    assert codes(limits, execution(), execution()) == []
    assert codes(limits, execution()) == ["single-session"]
    over = execution(usage=Usage(cpu_s=1.3, memory_peak_bytes=101 * MIB))
    assert codes(limits, over, over) == ["limit-not-held", "limit-not-held"]
    idle = execution(usage=Usage(cpu_s=0.8))
    assert codes(limits, execution(), idle) == ["cpu-not-used"]
    assert codes(limits, execution(left=2), execution()) == ["processes-left"]
    assert codes(limits, execution(paused_s=1.5), execution()) == ["edgewise-paused"]
    assert codes(limits, execution(paused_s=0.9), execution()) == []
    assert codes(Constraints(cpus=1000), execution(), execution()) == ["limit-not-held", "cpu-not-used"]
    assert codes(Constraints(memory_bytes=2**50), execution(), execution()) == ["limit-not-held"]
    (alone,) = cautions_of([execution()], Constraints(), failed=False)
    assert "--repeat" in alone.advice and "--sessions" not in alone.advice


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({}, None),
        ({"usage": Usage(oom_kills=1), "returncode": -9}, "OutOfMemory"),
        ({"usage": Usage(oom_kills=1)}, "OutOfMemory"),
        ({"returncode": 1, "tail": "MemoryError"}, "OutOfMemory"),
        ({"returncode": 1, "tail": "ValueError"}, "CommandFailed"),
        ({"returncode": -9, "late": True}, "Timeout"),
        ({"returncode": -9}, "Killed"),
        ({"returncode": 127}, "CommandFailed"),
    ],
)
def test_each_end_has_its_cause(changes, cause):
    failure = failure_of(execution(**changes), Constraints(memory_bytes=MIB))
    assert (failure and failure.cause) == cause


def test_measurements_are_counters_and_totals():
    samples = [(0.5, Usage(cpu_s=0.4, memory_bytes=10)), (1.0, Usage(cpu_s=0.5, memory_bytes=30))]
    rows = {row.metric: row for row in measurements_of([execution(samples=samples, network=(5, 6))] * 2, Constraints())}
    values = {name: row.value for name, row in rows.items()}
    assert values["total_time"] == 2.0
    assert values["cpu_time"] == 1.0
    assert values["cpu_utilization"] == 0.5
    assert values["cpu_utilization_peak"] == pytest.approx(0.8)
    assert values["memory_average"] == 20
    assert values["memory_group_peak"] == 50 * MIB
    assert (values["network_received"], values["network_sent"]) == (5, 6)
    assert rows["block_read"].absent_because == wording("mechanism-mechanism-does-not-count").format(
        mechanism="cgroup-v1"
    )
    assert rows["memory_limit"].absent_because == wording("no-memory-limit-set")


def test_the_peak_of_processor_use_is_at_least_its_average():
    samples = [(0.5, Usage(cpu_s=0.1, memory_bytes=10))]
    rows = {row.metric: row for row in measurements_of([execution(samples=samples)], Constraints())}
    assert (rows["cpu_utilization"].value, rows["cpu_utilization_peak"].value) == (0.5, 0.5)
    assert rows["memory_average"].value is None  # one sample of a start is no average
    assert "too few samples" in rows["memory_average"].absent_because
    rows = {row.metric: row for row in measurements_of([execution()], Constraints())}
    assert (
        rows["cpu_utilization_peak"].value is None
        and wording("command-ended-before-second-sample") in rows["cpu_utilization_peak"].absent_because
    )


@pytest.mark.parametrize(
    ("times", "known"),
    [([0.5], False), ([0.1, 0.2], False), ([1.5, 1.9], False), ([0.5, 1.0], True), ([0.1, 1.0, 1.9], True)],
)
def test_samples_that_cover_little_of_the_time_give_no_average_memory(times, known):
    samples = [(at, Usage(cpu_s=0.1, memory_bytes=MIB)) for at in times]
    rows = {row.metric: row for row in measurements_of([execution(samples=samples)], Constraints())}
    assert rows["memory_average"].value == (MIB if known else None)


def test_a_limit_is_shown_as_it_was_typed():
    told = [format_limit(size) for size in (256 * MIB, 3 * 1024 * MIB, 1536 * MIB, 256_000_000, MIB // 2, 0)]
    assert told == ["256 MiB", "3 GiB", "1536 MiB", "256 MB (244 MiB)", "512 KiB", "0 B"]
    row = next(
        row
        for row in measurements_of([execution()], Constraints(memory_bytes=256 * MIB))
        if row.metric == "memory_limit"
    )
    assert value_text(row.metric, row.unit, row.value) == "256 MiB"
    failure = failure_of(execution(usage=Usage(oom_kills=1)), Constraints(memory_bytes=256 * MIB))
    assert "the memory limit of 256 MiB was reached" in failure.message


def test_the_peak_of_edgewise_itself_is_not_the_programs():
    def peak(rss, **changes):
        usage = resource.struct_rusage((0.0, 0.0, rss // 1024, *[0] * 13))
        one = execution(usage=Usage(), rusage=usage, own_rss_bytes=70 * MIB, **changes)
        return next(row for row in measurements_of([one], Constraints()) if row.metric == "memory_group_peak")

    assert peak(70 * MIB).value is None and wording("no-sample-taken-ru-maxrss") in peak(70 * MIB).absent_because
    assert peak(70 * MIB, samples=[(0.5, Usage(memory_bytes=2 * MIB))]).value == 2 * MIB
    assert peak(90 * MIB, samples=[(0.5, Usage(memory_bytes=2 * MIB))]).value == 90 * MIB


def test_pages_that_another_group_read_first_are_in_the_peak_of_memory():
    def told(mechanism, rss):
        usage = resource.struct_rusage((0.0, 0.0, rss // 1024, *[0] * 13))
        one = replace(execution(rusage=usage, own_rss_bytes=40 * MIB), mechanism=mechanism)
        limits = Constraints(memory_bytes=55 * MIB)
        row = next(row for row in measurements_of([one], limits) if row.metric == "memory_group_peak")
        return row.value, failure_of(one, limits)

    assert told("cgroup-v1", 45 * MIB) == (50 * MIB, None)
    assert told("cgroup-v1", 60 * MIB) == (60 * MIB, None)  # the limit counts what the group read itself
    assert told("podman", 60 * MIB) == (50 * MIB, None)  # that of the client
    # Below the peak of edgewise itself ru_maxrss says nothing; the highest of the samples does.
    one = execution(resident_bytes=63 * MIB, own_rss_bytes=90 * MIB)
    row = next(row for row in measurements_of([one], Constraints()) if row.metric == "memory_group_peak")
    assert row.value == 63 * MIB
    assert "limit-not-held" in codes(Constraints(memory_bytes=55 * MIB), one, one)
    assert "limit-not-held" not in codes(Constraints(memory_bytes=64 * MIB), one, one)
    met = replace(one, usage=replace(one.usage, limit_hits=1))
    row = next(row for row in measurements_of([met], Constraints()) if row.metric == "memory_group_peak")
    assert row.value == 50 * MIB  # the limit is about this number


def test_a_run_of_failures_has_no_total_time():
    job = Job(model=ModelRef(name="x", path="/x", format="program", sha256="0" * 64, size_bytes=1),
              runtime=RuntimeSpec(name="command"), command=("x",))  # fmt: skip
    run = build_run(job, [execution(returncode=3, tail="why")], environment={}, group="g")
    assert run.status == "failed"
    assert run.failure.exit_code == 3
    assert run.failure.stderr_tail == "why"
    assert (
        run.measurement("total_time").absent_because == "the command did not finish: the command ended with exit code 3"
    )
    run = build_run(job, [execution(), execution(returncode=3), execution(seconds=4.0)], environment={}, group="g")
    assert (run.status, run.value("total_time"), run.measurement("total_time").samples) == ("failed", 3.0, (2.0, 4.0))
    assert run.failure.message == "1 of 3 executions failed and is left out: the command ended with exit code 3"


def test_a_command_out_of_memory_shows_its_limit_and_is_no_model():
    limits = Constraints(memory_bytes=64 * MIB)
    job = Job(model=ModelRef(name="x", path="/x", format="program", sha256="0" * 64, size_bytes=1),
              runtime=RuntimeSpec(name="command"), target=TargetSpec(constraints=limits),
              workload=Workload(scenario=Scenario(kind="command")), command=("x",))  # fmt: skip
    run = build_run(job, [execution(usage=Usage(oom_kills=1), returncode=-9)], environment={}, group="g")
    assert run.failure.advice == "raise --memory, or make the command use less"
    table = bench_table([run])
    (cell,) = (cell for row in table.rows for cell, column in zip(row, table.columns, strict=True)
               if column.title == "Memory limit")  # fmt: skip
    assert (cell.value, cell.text) == (64 * MIB, "64 MiB")
    free = failure_of(execution(usage=Usage(oom_kills=1), returncode=-9), Constraints())
    assert "--memory" not in free.advice


def test_limits_are_part_of_the_key_of_a_job_and_their_absence_is_not():
    model = ModelRef(name="x", path="/x", format="onnx", sha256="0" * 64, size_bytes=1)
    plain = Job(model=model, runtime=RuntimeSpec(name="onnxruntime"))
    assert plain.key == "36002eb154ef5ffd"
    limited = Job(model=model, runtime=plain.runtime, target=TargetSpec(constraints=Constraints(cpus=1.0)))
    assert limited.key != plain.key


@pytest.mark.parametrize(
    "limits",
    [Constraints(cpus=0.0), Constraints(cpus=5000), Constraints(memory_bytes=1000), Constraints(mechanism="docker")],
)
def test_limits_that_no_program_can_run_in_are_refused(limits):
    with pytest.raises(BadField):
        check_constraints(limits)


def test_a_placeholder_and_models_need_each_other():
    with pytest.raises(BadField, match=says("placeholder-command-needs-model-names", named_command="command")):
        ExecRequest(command=("run", "{model}"))
    with pytest.raises(BadField, match=says("model-names-models-file-need")):
        ExecRequest(command=("run",), model_names=("a",))
    assert ExecRequest(command=("run", "--model={model}"), models_file="f").functions == ("run --model={model}",)


def test_the_hierarchy_of_this_machine_is_read():
    assert isinstance(find_cgroup(V1, root=Path("/nowhere")), str)


def test_exit_codes_of_a_shell_above_128_are_signals():
    assert [signal_or_code(code) for code in (0, 1, 127, 128, 137, 139, 255)] == [0, 1, 127, 128, -9, -11, 255]
