"""The one drawer of progress on the terminal, told events alone."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from edgewise.formatting import scale_of
from edgewise.progress import (
    Event,
    HeadlineUpdated,
    InferencesDone,
    JobStarted,
    LayerTested,
    LogLine,
    RequestsDone,
    RunFinished,
    SamplesDone,
    SamplesFinished,
    SamplesStarted,
    SessionStarted,
    StageStarted,
    VariantPredicted,
    VariantTested,
)
from edgewise.report.bench.values import headline_text
from edgewise.report.runs.cells import amount_cell
from edgewise.terminal.progress import ProgressLines
from messages import wording
from sample_runs import make_run


def draw(*events: Event, quiet: bool = False, terminal: bool = False) -> str:
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=100, highlight=False, color_system=None)
    with ProgressLines(console, quiet=quiet) as lines:
        for event in events:
            lines(event)
    return file.getvalue()


RUN = make_run(1)
JOB = JobStarted(job=RUN.job, index=0, total=2)
HEADLINE = HeadlineUpdated(metric="latency", unit="s", value=2e-3, low=1.9e-3, high=2.1e-3, n=50, sessions=1)
SPEED = RequestsDone(done=7, elapsed_s=2.0, prefill_rate=1000.0, decode_rate=93.04)
ALL: tuple[Event, ...] = (
    StageStarted(title="The [original]"),
    JOB,
    SessionStarted(index=0, total=3),
    InferencesDone(done=50, average_s=0.01),
    SPEED,
    HEADLINE,
    RunFinished(run=RUN),
    SessionStarted(index=5, total=90),
    SamplesStarted(job=RUN.job, total=10),
    SamplesDone(done=3, total=10),
    SamplesFinished(answered=9, skipped=1, resumed=2, seconds=2.0),
    VariantPredicted(name="ort-static", speedup=1.5, low=1.2, high=1.8, because="int8"),
    VariantTested(id="v1", stage="made", accepted=True, why="", metrics={"output_snr": 31.4, "accuracy_drop": 0.002}),
    LayerTested(layer="conv[1]", op="Conv", snr_db=None, absent_because="failed"),
    LogLine(text="a line"),
)


@pytest.mark.parametrize("order", [1, -1])
def test_another_file_of_the_same_name_has_its_folder(order):
    model = replace(RUN.job.model, path=f"{Path.cwd()}/new/{RUN.job.model.name}")
    first, second = replace(RUN.job.model, path=f"{Path.cwd()}/{model.name}"), model
    events = [
        event
        for each in (first, second)[::order]
        for job in [replace(RUN.job, model=each)]
        for event in (JobStarted(job=job, index=0, total=2), RunFinished(run=replace(RUN, job=job)))
    ]
    lines = [line.partition("] ")[2].partition(" ")[0] for line in draw(*events).splitlines()]
    assert lines == [model.name, f"new/{model.name}"][::order]


@pytest.mark.parametrize("order", [1, -1])
def test_models_that_answer_samples_one_after_the_other_have_their_folders(order):
    """As a gate judges them: each alone, and the one in the folder may be the first."""
    places = ("clothes.onnx", "lastweek/clothes.onnx")[::order]
    events = []
    for place in places:
        job = replace(RUN.job, model=replace(RUN.job.model, name="clothes.onnx", path=f"{Path.cwd()}/{place}"))
        done = SamplesFinished(answered=9, skipped=0, resumed=0, seconds=2.0)
        events += [JobStarted(job=job, index=0, total=1), SamplesStarted(job=job, total=9), done]
    assert [line.partition(" ")[0] for line in draw(*events).splitlines()] == list(places)


def test_a_job_on_another_device_names_it():
    job = replace(RUN.job, target=replace(RUN.job.target, device="pi"))
    lines = draw(JobStarted(job=job, index=0, total=1), RunFinished(run=replace(RUN, job=job)))
    assert lines.startswith(f"[1/1] {RUN.job.label} on pi  ")


def test_a_job_in_another_environment_names_it():
    job = replace(RUN.job, target=replace(RUN.job.target, environment="onnxruntime==1.31.0"))
    lines = draw(JobStarted(job=job, index=0, total=1), RunFinished(run=replace(RUN, job=job)))
    assert lines.startswith(f"[1/1] {RUN.job.label} in onnxruntime==1.31.0  ")


def test_a_finished_run_has_the_interval_that_answers_and_tables_have():
    row = replace(RUN.measurement("latency"), value=381e-6, low=362.4e-6, high=5791e-6)
    run = replace(RUN, measurements=(row,))
    cell = amount_cell("latency", row.value, row.low, row.high, scale_of("latency", "s", [row.value]))
    assert cell.text == headline_text(run) == "381 [362, 5800] µs"
    assert draw(JOB, RunFinished(run=run)).endswith(f"  {cell.text}  grade B\n")


def test_every_event_is_drawn_on_plain_lines():
    lines = draw(*ALL).splitlines()
    assert lines[0].startswith("The [original] ")
    assert lines[1].startswith(f"[1/2] {RUN.job.label}  ") and "grade" in lines[1]
    assert lines[2] == wording("rounds-fresh-processes-no-verdict", index=5)
    assert lines[3] == f"{RUN.job.label}  9 samples in 2.00 s, 1 skipped (2 answered before)"
    assert lines[4:] == [
        "  ort-static  1.50× [1.20, 1.80]  int8",
        "✓ v1  SNR 31 dB, accuracy drop 0.0020",
        "  conv[1] (Conv)  n/a  failed",
        "a line",
    ]


def test_quiet_draws_nothing():
    assert draw(*ALL, quiet=True) == draw(*ALL, quiet=True, terminal=True) == ""


def test_a_terminal_sees_a_live_line_that_is_gone_in_the_end():
    assert "0/3" in draw(JOB, SessionStarted(index=0, total=3), terminal=True)
    assert wording("side-side-rounds") in draw(SessionStarted(index=5, total=90), terminal=True)
    shown = draw(*ALL, terminal=True)
    assert "0/10" in shown and shown.splitlines()[-1] == "a line"


@pytest.mark.parametrize("title", ["\x1b[31mred", "two\nlines", "[bold]x"])
def test_names_from_files_are_harmless(title: str):
    (line,) = draw(StageStarted(title=title)).splitlines()
    assert "\x1b" not in line and ("[bold]x" in line or "[bold]" not in title)


def test_samples_that_nobody_announced_are_not_drawn():
    assert draw(SamplesDone(done=1, total=2), SamplesDone(done=2, total=2)) == ""


def test_the_running_headline_stands_on_the_live_line_only():
    events = (JOB, SessionStarted(index=0, total=3), HEADLINE, SessionStarted(index=1, total=3))
    assert "2.00 ± 0.10 ms" in draw(*events, terminal=True)
    assert draw(*events) == ""
    assert "2.00 ms" not in draw(*events[:3], JOB, *events[1:2], terminal=True)  # of another job


def test_a_predicted_speedup_has_the_digits_of_the_table():
    event = VariantPredicted(name="ort-static", speedup=1.2345, low=1.096, high=1.386, because="int8")
    assert "1.23× [1.09, 1.39]" in draw(event)


def test_a_terminal_sees_how_fast_a_language_model_is():
    begun = (JOB, SessionStarted(index=0, total=3))
    assert "93.0 tokens/s" in draw(*begun, SPEED, terminal=True)
    assert "tokens/s" not in draw(*begun, replace(SPEED, decode_rate=None), terminal=True)
    assert "tokens/s" not in draw(SessionStarted(index=0, total=3), SPEED, terminal=True)  # which model is not known
