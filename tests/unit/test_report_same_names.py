"""Two files of one name, in two folders: everything that names models tells them apart by the folder."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from edgewise.comparing.assessment import assess
from edgewise.comparing.comparison import Variant
from edgewise.comparing.criteria import Criteria
from edgewise.comparing.gate import GateResult
from edgewise.evaluating.evaluation import EvaluationResults, ModelEvaluation
from edgewise.record import Run
from edgewise.report.bench.document import bench_document
from edgewise.report.comparison.document import comparison_document
from edgewise.report.comparison.gate import gate_document
from edgewise.report.document.text import to_text
from edgewise.report.evaluation.document import describe_results
from edgewise.report.files import render_report, runs_document, runs_for_others
from edgewise.report.runs.conditions import names_of
from edgewise.report.runs.field_tables import FIELD_TABLES
from edgewise.store import open_store
from report_pages import render_html
from sample_runs import make_run, run_id

NAMES = ("old/net.onnx", "new/net.onnx")


@pytest.fixture
def runs() -> list[Run]:
    """Two files called net.onnx, the second faster."""
    found = []
    for number, name in enumerate(NAMES, start=1):
        run = make_run(number, latency=4e-4 / number)
        model = replace(run.job.model, name="net.onnx", path=f"/models/{name}", sha256=f"{number}" * 64)
        found.append(replace(run, job=replace(run.job, model=model)))
    return found


def test_bench_ranks_and_recommends_each_by_its_folder(runs, monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    text = to_text(bench_document(runs), width=80)
    assert all(name in text for name in NAMES) and text.splitlines()[0].startswith("Fastest: new/net.onnx")
    assert [each["group"].partition(",")[0] for each in runs_document(runs)["recommendations"]] == list(NAMES)
    assert all(name in render_html(runs) for name in NAMES)


def test_so_do_the_tables_of_the_field_and_files_for_others(runs):
    for table in FIELD_TABLES:
        assert all(name in render_report(runs, ".md", table=table) for name in NAMES), table
    assert [run.job.model.name for run in runs_for_others(runs, ".html")] == list(NAMES)
    assert [run.job.model.name for run in runs_for_others(runs, ".json")] == ["net.onnx"] * 2


def test_a_list_of_stored_runs_has_the_same_names(runs, tmp_path, monkeypatch):
    again = replace(runs[1], id=run_id(3), job=replace(runs[1].job, model=replace(runs[1].job.model, sha256="3" * 64)))
    hashed = ["old/net.onnx", "new/net.onnx (sha256 22222222)", "new/net.onnx (sha256 33333333)"]
    with open_store(str(tmp_path / "runs.db")) as store:
        for run in (*runs, again):
            store.save(run)
        assert [row.model for row in store.named(store.list())][::-1] == names_of([*runs, again]) == hashed
        monkeypatch.setattr(Path, "cwd", lambda: Path("/models/new"))
        store.remove([again.id])
        assert [row.model for row in store.named(store.list())][::-1] == names_of(runs) == ["old/net.onnx", "net.onnx"]


def test_so_do_compare_gate_and_evaluate(runs):
    variants = [Variant(label=label, run=run) for label, run in zip(("baseline", "candidate"), runs, strict=True)]
    findings = assess(variants, Criteria())
    gate = GateResult(checks=(), findings=findings, policy="retry", attempts=1)
    evaluated = EvaluationResults(models=tuple(ModelEvaluation(run=run) for run in runs))
    for document in (comparison_document(findings), gate_document(gate), describe_results(evaluated)):
        text = to_text(document, width=120, details=True)
        assert all(name in text for name in NAMES), text
