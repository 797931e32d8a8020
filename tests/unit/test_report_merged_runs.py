"""What a run lacks in the field's tables, from other runs of the same model, engine and machine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgewise.cli.main import run as run_command
from edgewise.record import DataRef, Evaluation, Run
from edgewise.report.document.csv import render_csv
from edgewise.report.document.markdown import render_markdown
from edgewise.report.runs.field_tables import Options, field_document
from edgewise.report.runs.merged import ACCURACY, merge_runs
from edgewise.store import open_store
from sample_runs import ENVIRONMENT, KWS, make_run, measured, run_id

MACHINE = {
    **ENVIRONMENT,
    "cpu": {**ENVIRONMENT["cpu"], "usable_cores": 2, "quota_cores": None},
    "memory": {"total_bytes": 8_100_000_000, "limit_bytes": None},
    "virtualisation": {"vendor": None},
}
DATA = DataRef(name="words.npz", path=None, format="npz", split="test", size=90, sha256="d" * 64)


def bench(number: int = 1, **settings) -> Run:
    return replace(make_run(number, **settings), environment=MACHINE)


def evaluated(number: int = 2, *, known=(("accuracy_top1", 0.9), ("error_rate", 0.1)), **settings) -> Run:
    """A run of ``evaluate --no-latency``."""
    rows = tuple(measured(metric, value) for metric, value in known)
    return replace(
        bench(number, **settings),
        measurements=rows,
        created_at=f"2026-03-05T05:06:{number:02}.000+00:00",
        evaluation=Evaluation(task="classification", data=DATA, n=90),
    )


def test_accuracy_and_task_come_from_an_evaluation_of_the_same_model_and_engine():
    document = field_document("zoo", [bench()], options=Options(known=[evaluated()]))
    (row,) = document.tables[0].rows
    assert [cell.text for cell in row[1:4]] == ["Classification", "90.00 %", "0.420 ± 0.011"]
    assert row[0].notes == (
        "Accuracy from run 0195f0c0-0000 of 2026-03-05, judged on words.npz (npz, test), 90 of 90 samples, "
        "task classification, data sha256 dddddddddddddddd",
    )
    assert "[^1]: Accuracy from run 0195f0c0-0000" in render_markdown(document, only_tables=True)


def test_metrics_of_one_evaluation_stay_together():
    newer = evaluated(3, known=[("accuracy_top1", 0.8)])
    joined = merge_runs([bench()], [ACCURACY], known=[evaluated(), newer])[0].run
    assert joined.value("accuracy_top1") == 0.8
    assert joined.measurement("error_rate") is None
    own = replace(evaluated(4, known=[("accuracy_top1", 0.7)]), status="done")
    assert merge_runs([own], [ACCURACY], known=[newer])[0].run.value("accuracy_top1") == 0.7


@pytest.mark.parametrize(
    "other",
    [
        evaluated(model=replace(KWS, sha256="c" * 64)),
        evaluated(runtime="openvino"),
        evaluated(provider="dnnl"),
        replace(evaluated(), environment={**MACHINE, "cpu": {**MACHINE["cpu"], "model": "Another CPU"}}),
        replace(evaluated(), environment={}),
        replace(evaluated(), effective={"precision": "bf16"}),
        replace(evaluated(), status="cancelled"),
        replace(evaluated(), evaluation=Evaluation(task="agreement", data=DATA, n=90)),
    ],
    ids=["model", "engine", "provider", "machine", "unknown machine", "precision", "cancelled", "agreement"],
)
def test_nothing_comes_from_another_model_engine_or_machine(other):
    assert not merge_runs([bench()], [ACCURACY], known=[other])[0].sources


WRONG_ORDER = Evaluation(
    task="classification", data=DATA, n=90, classes=("a", "b", "c"), confusion=((0, 30, 0), (0, 0, 30), (30, 0, 0))
)
DOUBT = "likely the order of the classes is wrong: another gives 100.00 %"


def test_an_accuracy_in_a_wrong_order_of_classes_gives_way_to_another_or_is_marked():
    wrong = replace(evaluated(4, known=[("accuracy_top1", 0.0), ("error_rate", 1.0)]), evaluation=WRONG_ORDER)
    right = evaluated(known=[("accuracy_top1", 0.9)])
    joined = merge_runs([wrong], [ACCURACY], known=[right])[0].run
    assert joined.value("accuracy_top1") == 0.9 and joined.measurement("error_rate") is None
    assert not merge_runs([bench()], [ACCURACY], known=[wrong])[0].sources
    for name, at in (("zoo", 2), ("long", 2)):
        (row,) = field_document(name, [wrong]).tables[0].rows
        assert (row[at].text, row[at].notes) == ("0.00 %", (DOUBT,))
    assumed = Evaluation(
        task="classification", data=DATA, n=90, settings={"class_order": "the data's order is assumed"}
    )
    (row,) = field_document("zoo", [replace(right, evaluation=assumed)]).tables[0].rows
    assert (row[2].text, row[2].notes) == ("90.00 %", ("the data's order is assumed",))


def test_one_latency_of_several_is_that_of_the_best_grade_then_the_newest():
    runs = [
        replace(bench(number, grade=grade), created_at=f"2026-03-0{number}") for number, grade in enumerate("CBBD", 1)
    ]
    joined = merge_runs([replace(bench(5), measurements=())], ["latency"], known=runs)[0]
    assert joined.sources["latency"].id == run_id(3)


def test_times_and_energy_hold_for_the_same_settings_only_and_counts_for_any_engine():
    lacking = replace(bench(), measurements=())
    metrics = ("latency", "energy", "parameters")
    known = replace(bench(2), measurements=(*bench(2).measurements, measured("parameters", 1e5)))
    assert set(merge_runs([lacking], metrics, known=[known])[0].sources) == {"latency", "parameters"}
    for other in (bench(2, threads=2), bench(2, batch=4), bench(2, runtime="openvino")):
        other = replace(other, measurements=known.measurements)
        assert set(merge_runs([lacking], metrics, known=[other])[0].sources) == {"parameters"}


def test_a_run_that_did_not_end_gets_no_times_of_an_earlier_one():
    known = replace(bench(2), measurements=(*bench(2).measurements, measured("parameters", 1e5)))
    for status in ("failed", "cancelled"):
        run = replace(bench(), status=status, measurements=())
        joined = merge_runs([run], ("latency", "parameters", ACCURACY), known=[known, evaluated(3)])
        assert set(joined[0].sources) == {"parameters"}


def test_an_evaluation_without_latency_shares_the_row_of_its_bench():
    assert [each.run.id for each in merge_runs([bench(), evaluated()], [ACCURACY])] == [run_id(1)]
    assert len(merge_runs([bench(), bench(3)], [ACCURACY])) == 2
    assert len(merge_runs([evaluated()], [ACCURACY], known=[bench()])) == 1


def test_the_test_environment_has_cores_and_memory():
    notes = field_document("platform", [bench()]).tables[0].notes
    assert notes == (
        "Test environment: Example CPU @ 2.00 GHz, 2 of 4 logical cores, 7.54 GiB RAM, no GPU used, "
        "Debian GNU/Linux 12 x86_64; onnxruntime 1.2.3; 1 thread",
        "All values: run 0195f0c0-0000 of 2026-03-04",
    )


def test_a_number_of_grade_d_is_marked_whatever_run_it_comes_from():
    judged, vague = evaluated(), bench(grade="D")
    for runs, known in (([vague], [judged]), ([replace(judged, trust=None)], [vague])):
        document = field_document("zoo", runs, options=Options(known=known))
        (row,) = document.tables[0].rows
        assert row[3].text == "0.420 ± 0.011 (grade D)"
        assert row[3].notes == ("grade D, the lowest: measure again before you quote the number",)
        assert "Accuracy (%)" in render_csv(document.tables[0]).splitlines()[0].split(",")
        assert "grade D, the lowest" in render_csv(document.tables[0])
        assert "(grade D)[^" in render_markdown(document)
    good = field_document("zoo", [bench()], options=Options(known=[judged])).tables[0]
    assert good.rows[0][3].text == "0.420 ± 0.011"
    assert good.notes[-1] == "All other values: run 0195f0c0-0000 of 2026-03-04"


def test_the_run_of_each_row_is_named():
    note = field_document("zoo", [bench(), bench(7, runtime="openvino")]).tables[0].notes[-1]
    assert note == ("All values: runs 0195f0c0-0000 (onnxruntime/cpu) and 0195f0c0-0000 (openvino/cpu)")


@pytest.mark.parametrize("name", ["networks", "zoo"])
def test_notes_that_differ_in_the_run_alone_are_one(name):
    runs = [bench(), bench(7, runtime="openvino")]
    known = [replace(evaluated(), id="0195f0c1-2"), replace(evaluated(3, runtime="openvino"), id="0195f0c1-3")]
    document = field_document(name, runs, options=Options(known=known))
    (note,) = {note for row in document.tables[0].rows for note in row[0].notes}
    data = "judged on words.npz (npz, test), 90 of 90 samples"
    assert note.startswith(
        "Accuracy from run 0195f0c1-2 of 2026-03-05 (onnxruntime/cpu) and run 0195f0c1-3 of 2026-03-05 (openvino/cpu)"
    )
    assert render_markdown(document).count(data) == 1


def test_report_looks_in_the_store_for_what_a_run_lacks(tmp_path, capsys):
    path = str(tmp_path / "runs.db")
    with open_store(path) as store:
        store.save(bench())
        store.save(evaluated())
        store.save(evaluated(3, runtime="openvino", known=[("accuracy_top1", 0.5)]))
    assert run_command(["report", run_id(1), "--table", "zoo", "--store", path]) == 0
    assert "| kws.onnx[^1] | Classification | 90.00 % | 0.420 ± 0.011 |" in capsys.readouterr().out
    page = tmp_path / "page.html"
    assert run_command(["report", run_id(1), "-o", str(page), "--store", path]) == 0
    assert "Accuracy from run 0195f0c0-0000 of 2026-03-05" in page.read_text("utf-8")
