"""Runs of programs in tables of stored runs: beside runs of models, by their command lines, and with their cautions."""

import csv
import io
from dataclasses import replace

from edgewise.constraints.base import Usage
from edgewise.record import Constraints, Job, ModelRef, RuntimeSpec, Scenario, TargetSpec, Workload
from edgewise.report.bench.document import bench_document
from edgewise.report.files import render_report
from edgewise.report.runs.document import _facts
from edgewise.run.command import Execution
from edgewise.run.command_run import build_run
from edgewise.run.counters import usable_cores
from sample_runs import make_run


def run_of(script, *, cpus=None, seconds=2.0, busy=(1.0, 0.8)):
    """A run of ``python SCRIPT``, an execution for each of the processor times `busy`."""
    job = Job(
        model=ModelRef(name="python", path="/usr/bin/python", format="program", sha256="ab" * 32, size_bytes=17600),
        runtime=RuntimeSpec(name="command"),
        target=TargetSpec(constraints=Constraints(cpus=cpus)),
        workload=Workload(scenario=Scenario(kind="command")),
        command=("python", script),
    )
    executions = [
        Execution(
            started_at="2026-01-01T00:00:00Z", mechanism="cgroup-v1", cannot_hold="", seconds=seconds,
            usage=Usage(cpu_s=one, memory_peak_bytes=50 * 2**20, oom_kills=0),
        )
        for one in busy
    ]  # fmt: skip
    return build_run(job, executions, environment={}, group="")


def test_a_file_of_models_and_programs_has_the_values_of_both():
    model, program = make_run(1), run_of("burn.py")
    rows = list(csv.DictReader(io.StringIO(render_report([model, program], ".csv"))))
    assert [row["Model"] for row in rows] == [model.job.model.name, "python burn.py"]
    assert (rows[0]["Latency (s)"], rows[0]["Total time (s)"]) == (f"{model.value('latency')}", "n/a")
    assert (rows[1]["Latency (s)"], rows[1]["Total time (s)"], rows[1]["Peak memory (B)"]) == ("n/a", "2", "52428800")
    assert "Total time" not in rows[1]["Notes"]
    alone = next(csv.reader(io.StringIO(render_report([program], ".csv"))))
    assert [title for title in alone if title in rows[0]] == alone


def test_what_starts_a_program_is_no_model_with_a_size():
    document = bench_document([run_of("burn.py"), run_of("rest.py", seconds=4.0)])
    assert not any("Smallest" in line for line in document.answer)
    assert any("python burn.py" in line for line in document.answer)


def test_each_line_of_the_answer_says_which_program_it_is_about():
    runs = [make_run(1), *(run_of(name, cpus=cpus) for name, cpus in (("a.py", 1), ("b.py", 0.5), ("b.py", 0.5)))]
    lines = bench_document(runs).answer
    assert lines[0].startswith("single-stream, batch 1: ")
    assert lines[1].startswith("python a.py (mechanism cgroup-v1): total time ") and "(limit 1)" in lines[1]
    assert lines[2].startswith("python b.py, command, limits: 0.5 processors: ")


def test_a_run_in_full_has_its_limits():
    facts = dict(_facts(run_of("a.py", cpus=0.3)))
    assert facts["Limits"] == "0.3 processors" and dict(_facts(make_run(1)))["Limits"] == ""


def test_a_limit_that_is_none_is_said_in_words_without_details():
    run = run_of("burn.py", cpus=1000)
    (section,) = [one for one in bench_document([run]).sections if one.title == "Cautions"]
    (caution,) = [one for one in run.cautions if one.code == "limit-not-held"]
    assert f"limit-not-held ({caution.message})" in section.brief
    (section,) = [one for one in bench_document([run, replace(run, id="b")]).sections if one.title == "Cautions"]
    assert f"limit-not-held (2 of 2 runs: {caution.message})" in section.brief


def test_the_share_of_the_processors_is_named_as_the_lowest_of_several():
    (several,) = run_of("burn.py", cpus=1, busy=(1.0, 1.5, 0.5)).cautions
    alone, *_ = run_of("burn.py", cpus=1, busy=(0.5,)).cautions
    assert several.code == alone.code == "cpu-not-used"
    assert several.message == f"{alone.message}, the lowest of 3 processes"
    (more,) = [one for one in run_of("burn.py", cpus=1000).cautions if one.code == "cpu-not-used"]
    assert f"of {len(usable_cores())} CPUs" in more.message
