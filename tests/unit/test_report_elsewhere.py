"""Where everything ran on a device other than this machine, the first lines of every output name it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgewise.record.run import Variation
from edgewise.report.bench.document import bench_document, interval_sections
from edgewise.report.document.text import to_text
from edgewise.report.files import render_report
from edgewise.report.profile.document import profile_document
from edgewise.report.runs.document import listing_document
from edgewise.store import open_store
from edgewise.verbs.compare.presentation import FORMAT as COMPARISON
from edgewise.verbs.evaluate.presentation import FORMAT as EVALUATION
from edgewise.verbs.gate.presentation import FORMAT as GATE
from sample_comparisons import judged, two_variants
from sample_optimizations import two_models
from sample_profiles import profiled_run
from sample_runs import failed_run, make_run, same_model_runs


def on(device, run):
    return replace(run, job=replace(run.job, target=replace(run.job.target, device=device)))


def compared(device):
    found = two_variants()
    return replace(found, variants=tuple(replace(one, run=on(device, one.run)) for one in found.variants))


def evaluated(device):
    found = two_models()
    return replace(found, models=tuple(replace(one, run=on(device, one.run)) for one in found.models))


def gated(device):
    found = judged()
    variants = tuple(replace(one, run=on(device, one.run)) for one in found.findings.variants)
    return replace(found, findings=replace(found.findings, variants=variants))


def first_lines(text, count=4):
    return "\n".join([line for line in text.splitlines() if line.strip()][:count])


@pytest.mark.parametrize("runs", [same_model_runs(), same_model_runs()[:1], [failed_run()]])
def test_bench_names_it_in_the_title_of_its_table(runs):
    there = [on("pi4", run) for run in runs]
    title = to_text(bench_document(there)).partition("single-stream, batch 1")[2].partition("\n")[0]
    assert title.startswith(", on pi4")
    assert ", on " not in to_text(bench_document(runs))
    assert "pi4" in first_lines(render_report(there, ".md"))


def test_an_interval_for_a_rerun_names_it():
    known = Variation(sigma=0.02, degrees=9.0, source="learnt", method="8 runs of this job")
    run = replace(make_run(1), variation=known)
    for device, place in (("pi4", "pi4"), ("local", "this machine")):
        (section,) = interval_sections([on(device, run)])
        assert section.brief == f"for a re-run on {place}, 95 %"


@pytest.mark.parametrize(
    ("form", "made"),
    [(COMPARISON, compared), (EVALUATION, evaluated), (GATE, gated)],
    ids=["compare", "evaluate", "gate"],
)
def test_results_name_it_in_their_first_line(form, made):
    assert ", on pi4" in first_lines(form.render(made("pi4"), ".md"))
    assert ", on pi4" in form.render(made("pi4"), ".html").partition("</h1>")[0]
    assert ", on pi4" not in form.render(made("local"), ".md") and "on local" not in form.render(made("local"), ".md")


def test_csv_has_a_column_for_it_where_it_is_not_this_machine():
    for there, here in (
        (COMPARISON.render(compared("pi4"), ".csv"), COMPARISON.render(compared("local"), ".csv")),
        (EVALUATION.render(evaluated("pi4"), ".csv"), EVALUATION.render(evaluated("local"), ".csv")),
        (render_report([on("pi4", profiled_run())], ".csv"), render_report([profiled_run()], ".csv")),
    ):
        header, *rows = there.splitlines()
        assert "Device" in header.split(",") and all("pi4" in row for row in rows)
        assert "Device" not in here.splitlines()[0].split(",")


def test_a_profile_names_it_beside_the_engine():
    lines = profile_document([on("pi4", profiled_run())]).lead[0].lines
    assert any(line.partition(") · ")[0].endswith(", on pi4") for line in lines), lines


def test_a_narrow_listing_of_runs_has_their_devices(tmp_path):
    with open_store(str(tmp_path / "runs.db")) as store:
        for run in (make_run(1), on("pi4", make_run(2))):
            store.save(run)
        rows = list(store.rows())
        text = to_text(listing_document(rows, id_size=store.id_size([row.id for row in rows])), width=80)
    assert "pi4" in text and "local" in text and "Machine" in text
