"""Runs on several devices: every line names its device, and the first says which is faster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgewise.record import Failure, InTurns, Run
from edgewise.report.bench.document import bench_document, default_title
from edgewise.report.document.text import to_text
from edgewise.report.files import runs_document
from report_pages import render_html
from sample_runs import KWS, make_run, run_id


def on(device: str, number: int, **facts) -> Run:
    run = make_run(number, **facts)
    return replace(run, job=replace(run.job, target=replace(run.job.target, device=device)))


LOCAL = make_run(1, latency=1.11e-4, half=1e-6)
PI = on("pi", 2, latency=2.22e-4, half=2e-6)


def test_every_line_names_its_device_and_the_first_tells_which_is_faster():
    document = bench_document([LOCAL, PI])
    assert document.title == default_title([LOCAL, PI]) == "kws.onnx on local and pi"
    assert document.answer == (
        "local is 2.001× [1.973, 2.028] faster than pi (latency: local 111 µs, pi 222 µs)",
        "local: kws.onnx on onnxruntime/cpu: latency 111 ± 1 µs, grade B",
        "pi: kws.onnx on onnxruntime/cpu: latency 222 ± 2 µs, grade B",
    )
    assert not any(section.title.startswith("Recommended") for section in document.sections)  # one run on each
    second = replace(LOCAL, id=run_id(7), job=replace(LOCAL.job, runtime=replace(LOCAL.job.runtime, name="openvino")))
    titles = [section.title for section in bench_document([LOCAL, second, PI]).sections]
    assert titles[0].startswith("Recommended for kws.onnx, single-stream, batch 1, on local: ")
    assert not titles[1].startswith(("Recommended", "No recommendation"))
    groups = [one["group"] for one in runs_document([LOCAL, PI])["recommendations"]]
    assert groups == ["kws.onnx, single-stream, batch 1, on local", "kws.onnx, single-stream, batch 1, on pi"]
    assert "kws.onnx, single-stream, batch 1, on pi" in render_html([LOCAL, PI])


@pytest.mark.parametrize("varied", [PI, make_run(7, threads=2)], ids=["device", "threads"])
def test_a_continued_table_has_what_tells_its_rows_apart(varied):
    _, continued = to_text(bench_document([LOCAL, varied]), width=80, details=True).split("(continued)")
    word = "pi" if varied is PI else "2"
    assert [line.split()[1] for line in continued.splitlines()[4:6]] == ["local" if varied is PI else "1", word]


def test_what_can_not_be_told_apart_or_relied_on_is_not_called_faster():
    close, doubtful = on("pi", 3, latency=1.12e-4, half=5e-6), on("pi", 4, grade="D")
    assert bench_document([LOCAL, close]).answer[0] == (
        "local and pi can't be told apart (latency: local 111 µs, pi 112 µs; no difference that matters is proven)"
    )
    first, likely = make_run(1, latency=1.11e-4, half=1e-5), on("pi", 3, latency=1.3e-4, half=1e-5)
    assert bench_document([first, likely]).answer[0] == (
        "local is probably 1.171× [1.040, 1.319] faster than pi (latency: local 111 µs, pi 130 µs; what is probable is not "
        "proven)"
    )
    assert bench_document([LOCAL, doubtful]).answer[0] == (
        "Which device is faster can't be told: the value of pi has grade D; measure again, idle: "
        "edgewise bench kws.onnx -r onnxruntime -d pi"
    )
    failed = replace(on("pi", 4), status="failed", failure=Failure(cause="Timeout", message="too slow"))
    assert bench_document([LOCAL, failed]).answer[0] == "Which device is faster can't be told: pi (Timeout)"
    third = on("nano", 5, latency=3.33e-4, half=1e-6)
    assert (
        bench_document([LOCAL, doubtful, third])
        .answer[0]
        .endswith("faster than nano (latency: local 111 µs, nano 333 µs; left out: pi (grade D))")
    )
    assert (
        bench_document([LOCAL, close, third])
        .answer[0]
        .startswith("local is 2.999× [2.966, 3.033] faster than nano and can't be told apart from pi (")
    )


def test_each_setting_on_both_devices_has_its_line_whoever_took_turns_and_others_have_none():
    slow = make_run(4, runtime="litert", provider="interpreter", latency=1.5e-4, half=1e-6)
    turns = InTurns(against=LOCAL.id, verdict="slower", ratio=1.35, low=1.3, high=1.4, method="")
    slow = replace(slow, in_turns=(turns,))
    fast = on("pi", 5, runtime="litert", provider="interpreter", latency=1.2e-4, half=1e-6)
    answer = bench_document([LOCAL, slow, PI, fast]).answer
    assert answer[:2] == (
        "onnxruntime/cpu: local is 2.001× [1.973, 2.028] faster than pi (latency: local 111 µs, pi 222 µs)",
        "litert/interpreter: pi is 1.251× [1.236, 1.266] faster than local (latency: local 150 µs, pi 120 µs)",
    )
    assert [line.partition(":")[0] for line in answer[2:]] == ["local", "pi"]
    assert answer[2].endswith("litert/interpreter is 1.350× [1.300, 1.400] slower in turns")
    assert [line.partition(":")[0] for line in bench_document([LOCAL, fast]).answer] == ["local", "pi"]


def test_models_are_ranked_for_each_device_by_name():
    models = [replace(KWS, name=f"m{number}.onnx", sha256=f"{number}" * 64) for number in range(3)]
    here = [make_run(number, model=model) for number, model in enumerate(models, 1)]
    there = [on("pi", number, model=model) for number, model in enumerate(models, 4)]
    titles = [table.title for table in bench_document([*here, *there]).tables[:2]]
    assert titles == [f"Models, fastest first: single-stream, batch 1, on {device}" for device in ("local", "pi")]
