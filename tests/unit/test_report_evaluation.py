"""An evaluation as text, Markdown, CSV, JSON and files: accuracy with its interval beside the latency."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest

from edgewise.errors import StoreError
from edgewise.evaluating.evaluation import EvaluationResults
from edgewise.formatting import interval_text, points_range, points_text, share_text, value_text, with_range
from edgewise.record import Caution
from edgewise.report.evaluation.charts import score_chart
from edgewise.report.evaluation.document import (
    confused_lines,
    describe_results,
    evaluation_document,
    sections_of,
    title_of,
)
from edgewise.report.evaluation.tables import model_labels
from edgewise.report.runs.cells import chief_metric, judged_rows
from edgewise.store import from_document, to_document
from edgewise.verbs.evaluate.presentation import FORMAT as EVALUATION
from sample_optimizations import (
    detection_run,
    evaluated,
    evaluation,
    evaluation_text,
    one_model,
    two_models,
    with_failure,
)
from sample_runs import make_run, measured

TOP_AT_80 = """\
vww.tflite is worse than kws.onnx on 900 of 1000 samples: top-1 accuracy 92.33 %
against 94.56 %, −2.22 pt [−3.61, −0.89], p < 0.001, 2 could not be used (a.wav:
truncated; …), limited by --limit 902

Accuracy and latency
                                                                    Model
                                                         Latency   memory
Model        Runtime                   Top-1 accuracy       (µs)    (MiB)
─────────────────────────────────────────────────────────────────────────
kws.onnx     onnxruntime/cpu   94.56 % [92.85, 95.86]   420 ± 11     13.7
vww.tflite   litert/cpu        92.33 % [90.63, 93.64]   210 ± 11     13.7
"""

DIFFERENCES = """\
vww.tflite minus kws.onnx on the same samples
Metric             Difference    95 % interval         p     n
──────────────────────────────────────────────────────────────
Top-1 accuracy   −2.22 pt [5]   [−3.61, −0.89]   < 0.001   900
cross_entropy     +0.0500 [6]              n/a       n/a   900
AUC (ROC)             n/a [7]                              900
"""


def test_cautions_on_the_accuracy_stand_before_the_tables():
    told = evaluated()
    told = replace(told, run=replace(told.run, cautions=(Caution.of("better-preparation", "--prepare pad=32,32"),)))
    lines = evaluation_text(EvaluationResults(models=(told,))).splitlines()
    at = lines.index("Cautions on the accuracy")
    assert lines[at - 2 : at] == [lines[at - 2], ""] and lines[at - 2]
    assert lines[at + 1].startswith("  --prepare pad=32,32 → ") and at < 5


@pytest.mark.parametrize(("changed", "is_first"), [(900, False), (899, True)])
def test_a_change_that_all_samples_share_is_said_once_below_the_answer(changed, is_first):
    told = evaluated()
    message = f"of 900 samples {changed} converted from grey to RGB"
    judged = replace(told.run.evaluation, n=900, changes={"converted from grey to RGB": changed})
    run = replace(told.run, evaluation=judged, cautions=(Caution.of("samples-changed", message),))
    text = evaluation_text(EvaluationResults(models=(replace(told, run=run),)), width=200)
    first, _, rest = text.partition("Accuracy and latency")
    assert ("converted" in first) == is_first
    assert (message in rest) != is_first and text.count(message) == 1


def test_at_80_columns_accuracy_and_latency_stand_in_one_row():
    text = evaluation_text(two_models())
    assert text.startswith(TOP_AT_80)
    assert DIFFERENCES in text


def test_one_model_has_its_accuracy_in_the_headline():
    assert title_of(one_model()) == (
        "kws.onnx: top-1 accuracy 94.56 % [92.85, 95.86] on 900 of 1000 samples, "
        "2 could not be used (a.wav: truncated; …), limited by --limit 902, latency 420 ± 11 µs"
    )  # fmt: skip


def test_the_conditions_are_told():
    text = evaluation_text(one_model(), width=200)
    assert (
        "kws_test.npz (npz, split test): 900 of 1000 samples evaluated (at most 902, chosen by seed 7), data sha256 dddd"
        in text
    )
    assert "2 skipped: a.wav (truncated); b.wav (no frames)" in text
    assert "image: scale 1/255 → float32 [1, 49, 10, 1] (from kws.onnx.yaml)" in text
    assert "classification: output logits, top 5" in text
    # What was done to samples is also among the notes of the pass, and is told once.
    assert text.count("scale 1/255") == 1


def brief_of(*confusions):
    """Return the short line on the models with these matrices, of whatever engine."""
    models = [evaluated(place) for place in range(1, len(confusions) + 1)]
    models = [
        replace(one, run=replace(one.run, evaluation=evaluation(confusion=counts)))
        for one, counts in zip(models, confusions, strict=True)
    ]
    sections = describe_results(EvaluationResults(models=tuple(models))).sections
    (brief,) = (section.brief for section in sections if section.title == "Most confused")
    return brief


def test_models_that_confuse_the_same_classes_share_a_line():
    some, more, other = ((280, 15), (20, 280)), ((280, 15), (24, 276)), ((280, 20), (2, 298))
    assert brief_of(some) == brief_of(some, some) == "no taken for yes: 20 of 300"
    assert brief_of(some, more, some) == "no taken for yes: 20 of 300 and 24 of 300"
    assert brief_of(some, other) == (
        "no taken for yes: 20 of 300 (onnxruntime/cpu · #1); yes taken for no: 20 of 300 (onnxruntime/cpu · #2)"
    )
    assert brief_of(((1, 0), (0, 1)), ((1, 0), (0, 1))) == "no sample was classified wrongly"


def test_the_most_confused_pairs_come_first():
    assert confused_lines(evaluation()) == [
        "no taken for yes: 20 of 300", "yes taken for no: 15 of 300", "silence taken for no: 9 of 300",
        "yes taken for silence: 5 of 300",
    ]  # fmt: skip
    unnamed = evaluation(classes=(), confusion=((1, 2), (0, 3)))
    assert confused_lines(unnamed) == ["class 0 taken for class 1: 2 of 3"]
    assert confused_lines(evaluation(confusion=((1, 0), (0, 3)))) == ["no sample was classified wrongly"]
    assert confused_lines(evaluation(confusion=None)) == []
    many = tuple(tuple(0 if row == column else 1 for column in range(5)) for row in range(5))
    assert confused_lines(evaluation(confusion=many))[-1] == "12 other pairs with 12 samples"


def test_a_failure_is_told_with_its_reason():
    text = evaluation_text(with_failure())
    assert "Unsupported" in text
    assert "operator 'Einsum' is not supported" in text


def test_two_models_that_are_as_good_are_so_in_accuracy():
    found = two_models()
    first, second = found.models
    (gap, *others) = second.differences
    second = replace(second, differences=(replace(gap, difference=0.001, low=-0.01, high=0.012, p_value=None), *others))
    title = title_of(replace(found, models=(first, second)))
    told, scores = "900 of 1000 samples: ", "92.33 % against 94.56 %, "
    assert title.startswith(f"vww.tflite can't be told apart from kws.onnx in top-1 accuracy on {told}{scores}+0.10 pt")
    assert title_of(found).startswith(f"vww.tflite is worse than kws.onnx on {told}top-1 accuracy {scores}−2.22 pt")


def test_of_three_models_the_title_says_how_each_differs_from_the_first():
    found = two_models()
    third = replace(found.models[1], run=replace(found.models[1].run, id="0193-3"))
    (gap, *others) = third.differences
    third = replace(third, differences=(replace(gap, difference=0.001, low=-0.01, high=0.012), *others))
    title = title_of(replace(found, models=(*found.models, third)))
    assert title.startswith("Top-1 accuracy of 3 models on kws_test.npz: kws.onnx")
    assert " 94.56 %; " in title and "is worse than it: −2.22 pt [−3.61, −0.89]; " in title
    assert "can't be told apart from it: +0.10 pt [−1.00, +1.20], 2 could not be used" in title


def test_several_models_that_are_as_good_are_one_phrase_with_their_range():
    """Of six models the title took eight lines, five times with the same words."""
    found = two_models()
    (gap, *others) = found.models[1].differences
    alike = [
        replace(
            found.models[1],
            run=replace(found.models[1].run, id=f"0193-{number}"),
            differences=(replace(gap, difference=points / 100, low=-0.03, high=0.03), *others),
        )
        for number, points in enumerate((0.5, -1.0, 0.0))
    ]
    title = title_of(replace(found, models=(found.models[0], *alike)))
    assert "none of the others can be told apart from it (−1.00 pt to +0.50 pt)" in title
    title = title_of(replace(found, models=(*found.models, *alike)))
    assert "; 3 others can't be told apart from it (−1.00 pt to +0.50 pt); " in title
    assert title.count("told apart") == 1 and "is worse than it: −2.22 pt [−3.61, −0.89]" in title


def test_models_of_one_name_are_told_apart_by_their_engines():
    first, second = evaluated(1), evaluated(2, runtime="openvino")
    assert model_labels(EvaluationResults(models=(first, second))) == ["onnxruntime/cpu", "openvino/cpu"]


def test_an_interrupted_pass_and_lost_runs_are_told():
    results = replace(one_model(), interrupted=True, save_errors=(StoreError("the disk is full", advice=""),))
    text = evaluation_text(results)
    assert "interrupted: the results above are incomplete" in text
    assert "the disk is full" in text


def test_without_a_latency_the_table_says_so():
    one = evaluated()
    rows = (*judged_rows(one.run), measured("inference_time", 149e-6))
    run = replace(one.run, measurements=rows, sessions=(), trust=None)
    text = evaluation_text(EvaluationResults(models=(replace(one, run=run),)))
    assert "latency was not measured" in text
    assert "Latency" not in text and "Inference time" not in text.partition("latency was not measured")[0]
    assert "latency" not in text.partition("\n")[0]


def test_nothing_evaluated():
    assert title_of(EvaluationResults(models=())) == "Nothing was evaluated"
    assert evaluation_document(EvaluationResults(models=()))["metrics"] == []
    assert EVALUATION.render(EvaluationResults(models=()), ".html")


def test_json_has_the_first_model_on_top_and_every_difference():
    document = json.loads(EVALUATION.render(two_models(), ".json"))
    assert document["schema"] == 1
    first = document["metrics"][0]
    assert {key: first[key] for key in ("id", "n", "method", "absent_because")} == {
        "id": "accuracy_top1", "n": 900, "method": "share of samples, Wilson's 95 % interval", "absent_because": None,
    }  # fmt: skip
    assert first["value"] == pytest.approx(851 / 900)
    assert document["metrics"][3] == {
        "id": "auroc", "unit": "1", "value": None, "low": None, "high": None, "n": 900, "method": "",
        "absent_because": "there is one class",
    }  # fmt: skip
    assert document["confusion"] == {
        "classes": ["yes", "no", "silence"], "counts": [[280, 15, 5], [20, 280, 0], [0, 9, 291]]
    }  # fmt: skip
    assert document["run"] == json.loads(json.dumps(to_document(two_models().models[0].run)))
    assert [one["model"] for one in document["evaluations"]] == ["kws.onnx", "vww.tflite"]
    assert document["differences"][0] == {
        "a": "kws.onnx", "b": "vww.tflite", "metric": "accuracy_top1", "difference": -0.0222, "low": -0.0361,
        "high": -0.0089, "p_value": 0.0007, "n": 900, "method": "McNemar's exact test; 8 gained, 28 lost",
        "absent_because": None,
    }  # fmt: skip


def test_the_run_of_the_document_can_be_read_back():
    run = one_model().models[0].run
    assert from_document(evaluation_document(one_model())["run"]) == run


def test_csv_has_a_row_a_model_and_metric():
    rows = list(csv.DictReader(io.StringIO(EVALUATION.render(two_models(), ".csv"))))
    assert len(rows) == 16  # four scores of each model, and four values that were measured beside them
    assert (rows[0]["Model"], rows[0]["Metric"], rows[0]["n"]) == ("kws.onnx", "accuracy_top1", "900")
    assert float(rows[0]["Value"]) == pytest.approx(851 / 900)
    assert rows[0]["Difference to the first"] == "n/a"
    assert rows[4]["Metric"] == "latency" and float(rows[4]["Value"]) > 0
    assert (rows[8]["Difference to the first"], rows[8]["p"]) == ("-0.0222", "0.0007")
    assert rows[8]["Difference to the first low"] == "-0.0361"
    assert (rows[3]["Value"], rows[3]["Notes"]) == ("n/a", "Value: there is one class")
    failed = list(csv.DictReader(io.StringIO(EVALUATION.render(with_failure(), ".csv"))))[-1]
    assert (failed["Status"], failed["Value"]) == ("failed", "n/a")
    assert "Einsum" in failed["Notes"]


def test_csv_names_the_file_beside_the_engine_of_one_model_in_two():
    first = two_models().models[0]
    runtime = replace(first.run.job.runtime, name="openvino")
    told = {**first.run.effective, "threads": 2}
    run = replace(first.run, id="other", job=replace(first.run.job, runtime=runtime), effective=told)
    other = replace(first, run=run)
    results = replace(two_models(), models=(first, other))
    rows = list(csv.DictReader(io.StringIO(EVALUATION.render(results, ".csv"))))
    assert {row["Model"] for row in rows} == {"kws.onnx"}
    assert {(row["Runtime"], row["Threads"]) for row in rows} == {("onnxruntime", "1"), ("openvino", "2")}


def test_the_chart_has_every_model_that_has_a_score():
    chart = score_chart(two_models())
    assert [round(row["x"], 2) for row in chart.spec["data"]["values"]] == [94.56, 92.33]
    assert "vww.tflite: 92.33 % [90.63, 93.64]" in chart.description
    assert score_chart(one_model()) is None
    assert score_chart(with_failure()) is None


def test_the_document_has_all_that_is_printed():
    titles = [section.title for section in describe_results(two_models()).sections]
    assert titles[0] == "Most confused" and titles.count("Most confused") == 1
    assert titles[1:4] == ["Data", "How samples were prepared", "Task"]


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.98222, "98.22 %"), (0.0, "0.00 %"), (1.0, "100.00 %"), (0.00002, "0.002 %"), (0.999999, "99.9999 %")],
)
def test_a_share_never_reads_as_nothing_or_all_where_it_is_not(share, text):
    assert share_text(share) == text


def test_ends_of_a_share_are_rounded_outwards():
    assert interval_text("accuracy_top1", "1", 0.98, 0.970049, 0.989551) == "[97.00, 98.96] %"
    assert interval_text("accuracy_top1", "1", 0.575, 0.57, 0.58) == "[57.00, 58.00] %"
    assert interval_text("accuracy_top1", "1", 0.575, None, 0.58) == ""
    assert with_range("mae", "1", 0.214, 0.2, 0.23) == "0.214 [0.200, 0.230]"
    assert points_range("accuracy_top1", -0.00921, 0.00921) == "[−0.93, +0.93]"
    assert points_text("accuracy_top1", 0.0021) == "+0.21 pt"
    assert points_text("output_snr", -1.5) == "−1.50 dB"
    assert value_text("accuracy_top1", "1", None) == "n/a"
    assert value_text("latency", "s", 0.0042) == "4.20 ms"
    assert value_text("parameters", "1", 2_270_514.0) == "2,270,514"
    assert value_text("macs", "1", 144_907_992.0) == "144,907,992"
    assert value_text("depth", "1", 44.0) == "44"


def test_one_metric_stands_for_a_run():
    assert chief_metric(make_run(1)) is None  # the agreement of engines is no accuracy
    assert chief_metric(one_model().models[0].run) == "accuracy_top1"
    assert chief_metric(detection_run()) == "map_50_95"
    agreed = replace(make_run(1), evaluation=evaluation(task="agreement"))
    assert chief_metric(agreed) == "agreement_top1"


def test_cautions_on_the_latency_do_not_advise_options_that_evaluate_lacks():
    found = one_model()
    (first,) = found.models
    caution = Caution.of("stopped-early", "the interval within this run is ± 9 %, wider than the target of ± 1 %")
    assert "--duration" in caution.advice or "--time-budget" in caution.advice
    models = (replace(first, run=replace(first.run, cautions=(caution,))),)
    (section,) = [one for one in sections_of(replace(found, models=models)) if one.title == "Cautions on the latency"]
    assert any("wider than the target" in line for line in section.lines)
    assert section.lines[-1] == "'edgewise bench' measures the latency longer, and has options for it"
    assert not any("--" in line for line in section.lines)
