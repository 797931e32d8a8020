"""Runs of programs in tables of stored runs: beside runs of models, by their command lines, and with their cautions."""

import csv
import io
from dataclasses import replace

import pytest

from edgewise.cli.main import run as run_command
from edgewise.comparing.assessment import assess
from edgewise.comparing.comparison import Variant
from edgewise.comparing.criteria import Criteria
from edgewise.constraints.base import Usage
from edgewise.record import Constraints, Job, Measurement, ModelRef, RuntimeSpec, Scenario, TargetSpec, Workload
from edgewise.report.bench.document import bench_document
from edgewise.report.comparison.document import comparison_document, title_of
from edgewise.report.files import render_report
from edgewise.report.runs.conditions import labels_of, names_of
from edgewise.report.runs.document import _facts
from edgewise.run.command import Execution
from edgewise.run.command_run import build_run
from edgewise.run.counters import usable_cores
from sample_runs import make_run


def run_of(script, *, cpus=None, seconds=2.0, busy=(1.0, 0.8), paused_s=None, others=None, memory=50 * 2**20):
    """A run of ``python SCRIPT``, an execution for each of the processor times `busy`, beside the load `others`."""
    job = Job(
        model=ModelRef(name="python", path="/usr/bin/python", format="program", sha256="ab" * 32, size_bytes=17600),
        runtime=RuntimeSpec(name="command"),
        target=TargetSpec(constraints=Constraints(cpus=cpus)),
        workload=Workload(scenario=Scenario(kind="command")),
        command=("python", script),
    )
    times = seconds if isinstance(seconds, tuple) else (seconds,) * len(busy)
    executions = [
        Execution(
            started_at="2026-01-01T00:00:00Z", mechanism="cgroup-v1", cannot_hold="", seconds=total,
            counters={"busy_share_of_others": others}, usage=Usage(cpu_s=one, throttled_s=paused_s, memory_peak_bytes=memory, oom_kills=0),
        )
        for one, total in zip(busy, times, strict=True)
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
    assert any("burn.py" in line for line in document.answer)


def as_model(run, size=180):
    """Return `run` with its script in place of ``{model}``, as records of earlier versions have it, too."""
    name = run.job.command[-1]
    model = ModelRef(name=name, path=f"/{name}", format="py", sha256=name * 8, size_bytes=size)
    size_row = Measurement.of("model_size", float(size), "size of the file")
    return replace(run, job=replace(run.job, model=model), measurements=(*run.measurements, size_row))


WHY = (
    "Why one is faster is not measured. Of programs that run a network, these measure the parts: what starting costs "
    "(Python, import, load, first inference): edgewise bench MODEL --scenario cold-start -r A,B; what an inference takes, "
    "with the threads and precision of each: edgewise bench MODEL -r A,B --threads 1,2"
)


def test_of_scripts_memory_is_ranked_and_not_the_length_of_the_file():
    small, large = as_model(run_of("a.py")), as_model(run_of("b.py", seconds=4.0, memory=80 * 2**20), size=205)
    answer = bench_document([small, large]).answer
    assert not any("Smallest" in line for line in answer)
    assert "Least peak memory: a.py, 50.0 MiB (b.py 80.0 MiB)" in answer
    assert WHY in answer
    alike = as_model(run_of("b.py", seconds=4.0, memory=51 * 2**20))
    assert not any("Least peak memory" in line for line in bench_document([small, alike]).answer)


def test_variants_of_one_program_start_alike():
    assert WHY not in bench_document(variants_of(PLAIN, FFT, STRIDE)).answer
    assert WHY not in bench_document([run_of("a.py", cpus=cpus) for cpus in (1, 0.5)]).answer


def test_two_scripts_are_compared_by_memory():
    runs = [as_model(run_of("a.py")), as_model(run_of("b.py", memory=80 * 2**20), size=205)]
    findings = assess([Variant(label=run.job.model.name, run=run) for run in runs], Criteria())
    assert [row.metric for row in findings.comparisons] == ["total_time", "cpu_time", "memory_group_peak"]
    assert WHY in comparison_document(findings).answer
    models = [replace(run, job=replace(run.job, model=replace(run.job.model, format="onnx"))) for run in runs]
    findings = assess([Variant(label=run.job.model.name, run=run) for run in models], Criteria())
    assert "model_size" in [row.metric for row in findings.comparisons]


def test_each_line_of_the_answer_says_which_program_it_is_about():
    runs = [make_run(1), *(run_of(name, cpus=cpus) for name, cpus in (("a.py", 1), ("b.py", 0.5), ("b.py", 0.5)))]
    lines = bench_document(runs).answer
    assert lines[0].startswith("single-stream, batch 1: ")
    assert lines[1].startswith("a.py (mechanism cgroup-v1): total time ") and "(limit 1)" in lines[1]
    assert lines[2].startswith("b.py, command, limits: 0.5 processors: ")


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


def test_limits_tell_rows_labels_and_lines_apart():
    runs = [run_of("burn.py", cpus=cpus) for cpus in (1, 0.5, None)]
    rows = list(csv.DictReader(io.StringIO(render_report(runs, ".csv"))))
    assert [row["Limits"] for row in rows] == ["1 processor", "0.5 processors", "none"]
    assert {row["Runtime"] for row in rows} == {"command/cgroup-v1"}
    table = bench_document(runs).tables[0]
    assert [column.title for column in table.columns if not column.hidden][:3] == ["Model", "Runtime", "Limits"]
    assert labels_of(runs) == [
        f"command/cgroup-v1 · {limits}" for limits in ("1 processor", "0.5 processors", "no limits")
    ]
    assert "Limits" not in next(csv.reader(io.StringIO(render_report([make_run(1)], ".csv"))))


def test_different_programs_are_not_ranked_against_each_other():
    runs = [run_of(name, cpus=1, seconds=seconds) for name, seconds in (("a.py", 2.0), ("b.py", 4.0), ("c.py", 9.0))]
    document = bench_document(runs)
    assert [line.partition(":")[0] for line in document.answer] == [
        f"{name} (mechanism cgroup-v1)" for name in ("a.py", "b.py", "c.py")
    ]
    assert not any("slower" in line or "Fastest" in line for line in document.answer)
    assert [table.title for table in document.tables] == ["Benchmark, command: python …"]


def variants_of(*busy, others=0.88, group="g", seconds=(2.0, 2.0, 2.0)):
    """Runs of ``python fir.py VARIANT 600`` that took turns, with the processor times `busy` of each variant.

    Args:
        seconds: total time of an execution of each, or of each of its executions.
    """
    runs = []
    for name, times, total in zip(("plain", "fft", "stride"), busy, seconds, strict=True):
        run = run_of("fir.py", busy=times, others=others, seconds=total)
        model = ModelRef(name=name, path=name, format="name", sha256=name * 8, size_bytes=0)
        workload = replace(run.job.workload, interleave="rounds")
        job = replace(run.job, model=model, command=("python", "fir.py", name, "600"), workload=workload)
        runs.append(replace(run, job=job, group=group))
    return runs


PLAIN, FFT, STRIDE = (0.2, 0.201, 0.199, 0.2, 0.2), (0.3, 0.301, 0.299, 0.3, 0.3), (0.2, 0.21, 0.19, 0.2, 0.21)


def test_on_a_busy_machine_the_processor_time_of_programs_is_compared():
    document = bench_document(variants_of(PLAIN, FFT, STRIDE))
    assert document.answer[0] == (
        "Which is fastest can't be told on this busy machine (other processes used up to 88% of the processor time); "
        "least processor time: plain, 200 ± 1 ms; fft needs 1.500× [1.497, 1.503] as much; "
        "stride (200 ms) can't be told apart from it"
    )
    assert [line.partition(":")[0] for line in document.answer[1:]] == ["plain", "fft", "stride"]
    assert [table.title for table in document.tables] == ["Benchmark, command: python fir.py … 600"]
    (section,) = [one for one in document.sections if one.title == "Cautions"]
    assert "busy-host (3 of 3 runs)" in section.brief
    quiet = bench_document(variants_of(PLAIN, FFT, STRIDE, others=0.05))
    tie = "Take plain (by its value alone), 2.00 ± 0.01 s; fft (2.00 s) and stride (2.00 s) can't be told apart from it"
    assert quiet.answer[0] == tie and "mechanism" not in quiet.answer[0]
    assert quiet.tables[0].title.startswith("Models, fastest first")


def test_where_executions_in_turns_and_processor_time_agree_load_leaves_the_order():
    half = (0.1, 0.1005, 0.0995, 0.1, 0.1)
    seconds = ((0.5, 0.6, 0.4, 0.5, 0.7), (1.01, 1.19, 0.8, 1.0, 1.41), (0.75, 0.9, 0.61, 0.75, 1.04))
    first, *_ = bench_document(variants_of(half, FFT, PLAIN, seconds=seconds)).answer
    assert first == (
        "Fastest: plain, 500 [407, 690] ms; stride is 1.502× [1.482, 1.523] slower and fft is 2.003× [1.983, 2.024] slower, "
        "in turns within these minutes; processor times say the same (other processes used up to 88% of the processor time)"
    )
    alike = ((0.5, 0.6, 0.4, 0.5, 0.7), (1.01, 1.19, 0.8, 1.0, 1.41), (0.55, 0.55, 0.45, 0.45, 0.75))
    first, *_ = bench_document(variants_of(half, FFT, PLAIN, seconds=alike)).answer
    assert first == (
        "Which of plain and stride is fastest can't be told on this busy machine (other processes used up to 88% of the "
        "processor time); least processor time: plain, 100 ± 1 ms; stride needs 2.000× as much and fft needs "
        "3.000× [2.995, 3.006] as much; in total time fft is 2.003× [1.983, 2.024] slower than plain; "
        "excluded are differences of total time from plain above 19 % for stride"
    )


def test_what_is_named_by_its_processor_time_is_not_said_to_be_left_out():
    seconds = ((0.2, 2.0, 0.3, 1.0, 0.9), (0.3, 3.0, 0.2, 2.0, 0.4), (0.5, 0.6, 0.4, 0.5, 0.7))
    first, *_ = bench_document(variants_of(PLAIN, FFT, STRIDE, seconds=seconds)).answer
    assert "not ranked" not in first and all(name in first for name in ("plain", "fft", "stride"))


def test_programs_are_called_by_the_words_that_differ():
    document = bench_document(variants_of(PLAIN, FFT, STRIDE))
    names = [column.title for column in document.tables[0].columns].index("Model")
    assert [row[names].text for row in document.tables[0].rows] == ["plain", "fft", "stride"]
    assert document.title.startswith("python fir.py … 600: plain, fft, stride")
    rows = csv.DictReader(io.StringIO(render_report(variants_of(PLAIN, FFT, STRIDE), ".csv")))
    assert [row["Model"] for row in rows] == [f"python fir.py {name} 600" for name in ("plain", "fft", "stride")]
    commands = [("sort", "-n", "3", "a"), ("sort", "-n", "4", "a")]
    runs = [run_of("x") for _ in commands]
    runs = [replace(run, job=replace(run.job, command=words)) for run, words in zip(runs, commands, strict=True)]
    assert names_of(runs) == ["-n 3", "-n 4"]
    longer = replace(runs[1], job=replace(runs[1].job, command=("sort", "-n", "3", "a", "b")))
    assert names_of([runs[0], longer]) == ["sort -n 3 a", "sort -n 3 a b"]


def test_one_program_with_several_models_still_ranks_them():
    models = [ModelRef(name=name, path=f"/m/{name}", format="name", sha256=name * 8, size_bytes=0) for name in "xyz"]
    runs = [run_of(f"--net=/m/{model.name}", seconds=n) for n, model in enumerate(models, 2)]
    runs = [replace(run, job=replace(run.job, model=model)) for run, model in zip(runs, models, strict=True)]
    document = bench_document(runs)
    assert document.tables[0].title.startswith("Models, fastest first")
    fastest, *others = document.answer
    tied = "--net=/m/y (3.00 s) and --net=/m/z (4.00 s) can't be told apart from it"
    assert fastest == f"Take --net=/m/x (by its value alone), 2.00 s; {tied}"
    assert [line.partition(":")[0] for line in others] == [f"--net=/m/{name}" for name in "xyz"]
    assert all("; peak memory 50.0 MiB, 0." in line for line in others)


def compare_limits(*runs):
    times = [f"2026-01-01T00:00:{second:02}.000Z" for second in (0, 28, 56)[: len(runs)]]
    dated = [
        replace(run, id=f"r{time}", created_at=time, group=f"g{time}") for run, time in zip(runs, times, strict=True)
    ]
    labels = ("1 processor", "2 processors", "3 processors")[: len(runs)]
    return assess([Variant(label=label, run=run) for label, run in zip(labels, dated, strict=True)], Criteria())


def test_a_limit_that_never_held_a_program_back_made_it_neither_faster_nor_slower():
    """Other work slowed the first down; its processor time is the same and no execution was paused."""
    slow = run_of("a.py", cpus=1, seconds=2.5, busy=(0.904, 0.905, 0.906, 0.905, 0.905), paused_s=0.0)
    fast = run_of("a.py", cpus=2, seconds=1.0, busy=(0.899, 0.900, 0.901, 0.900, 0.900), paused_s=0.0)
    found = compare_limits(slow, fast)
    why = "the processor limit never held the program back: 905 ms and 900 ms of processor time"
    assert title_of(found).endswith(f", {why}, measured 28 s apart, not in turns)")
    assert title_of(found).startswith("No verdict on 2 processors against 1 processor in total time (ratio 0.4000, ")
    assert {(row.metric, row.verdict, row.because) for row in found.comparisons} == {
        ("total_time", "inconclusive", why),
        ("cpu_time", "inconclusive", why),
        ("memory_group_peak", "same", ""),
    }


@pytest.mark.parametrize(
    ("busy", "paused_s"),
    [
        ((0.9, 0.9, 0.9, 0.9, 0.9), 0.5),  # paused
        ((0.9, 0.9, 0.9, 0.9, 0.9), None),  # not counted
        ((0.9, 0.9, 0.9, 0.9, 2.5), 0.0),  # one execution used all it had
    ],
)
def test_a_limit_that_may_have_held_a_program_back_has_a_verdict_that_says_measured_apart(busy, paused_s):
    slow = run_of("a.py", cpus=1, seconds=2.5, busy=busy, paused_s=paused_s)
    found = compare_limits(slow, run_of("a.py", cpus=2, seconds=1.0, busy=[0.9] * 5, paused_s=0.0))
    assert title_of(found).startswith("2 processors is 2.50× faster than 1 processor in total time (ratio 0.4000, ")
    assert title_of(found).endswith(", measured 28 s apart, not in turns)")


def test_what_also_differs_otherwise_has_its_verdict():
    one, other = (run_of("a.py", cpus=cpus, seconds=2.5 / cpus, busy=[0.9] * 5, paused_s=0.0) for cpus in (1, 2))
    target = replace(other.job.target, variables=("OMP_NUM_THREADS=2",))
    assert "the processor limit" not in title_of(
        compare_limits(one, replace(other, job=replace(other.job, target=target)))
    )


def test_the_first_lines_say_what_was_found_of_each_of_three_programs():
    used = {"busy": (0.904, 0.905, 0.906, 0.905, 0.905), "paused_s": 0.0}
    runs = [run_of("a.py", cpus=cpus, seconds=seconds, **used) for cpus, seconds in ((1, 2.5), (2, 1.0), (3, 1.25))]
    first, *others = comparison_document(compare_limits(*runs)).answer
    use = "; peak memory 50.0 MiB, {} processors in use (limit {}, never paused by it)"
    assert first == "1 processor: total time 2.50 ± 0.01 s" + use.format("0.36", 1)
    for line, cpus, busy in zip(others, (2, 3), ("0.91", "0.72"), strict=True):
        assert line.startswith(f"No verdict on {cpus} processors against 1 processor in total time (ratio 0.")
        assert "the processor limit never held the program back" in line and line.endswith(use.format(busy, cpus))


def test_the_short_help_of_exec_shows_how_variants_are_compared(capsys):
    assert run_command(["exec", "--help"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "edgewise exec --repeat 25 --models plain,fft -- python fir.py {model}" in words
    assert "--models -m A,B" in words and "--repeat N" in words
