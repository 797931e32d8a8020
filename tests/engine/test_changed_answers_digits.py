"""The digits network against a copy with other weights: every changed sample as onnxruntime itself answers it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import edgewise
from edgewise import data
from edgewise.evaluating.data_options import DataOptions
from edgewise.model.identity import open_model
from edgewise.optimizing.accuracy import AccuracyChecker
from edgewise.optimizing.candidate_checks import job_of
from edgewise.optimizing.search_settings import SearchSettings, build_settings
from edgewise.optimizing.thumbnails import draw_thumbnails
from edgewise.record import RuntimeSpec
from edgewise.report.evaluation.document import describe_results, evaluation_document
from edgewise.run.run_builder import METERS_OFF, RunBuilder
from edgewise.verbs.evaluate.presentation import FORMAT as EVALUATION
from small_pictures import pixels_of

pytestmark = pytest.mark.engine
COUNT = 120


def leaning(path: Path) -> Path:
    """The digits network with a bias towards threes."""
    onnx = pytest.importorskip("onnx")
    model = onnx.load(data.path("digits_cnn.onnx"))
    bias = next(one for one in model.graph.initializer if one.name == "classifier.bias")
    array = onnx.numpy_helper.to_array(bias).copy()
    array[3] += 9.0
    bias.CopyFrom(onnx.numpy_helper.from_array(array, bias.name))
    onnx.save(model, path)
    return path


def test_changed_samples_are_those_that_the_engine_answers_differently(tmp_path):
    ort = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    files = [Path(data.path("digits_cnn.onnx")), leaning(tmp_path / "leaning.onnx")]
    options = DataOptions(
        source=str(data.path("digits_test.npz")), limit=COUNT, file=Path(data.path("digits_cnn.yaml"))
    )
    wanted = SearchSettings(model=str(files[0]), runtimes=("onnxruntime",))
    settings = build_settings(wanted, folder=tmp_path / "out", options=options)
    original, variant = (job_of(open_model(file).ref, RuntimeSpec(name="onnxruntime"), settings) for file in files)
    checker = AccuracyChecker(settings, original, builder=RunBuilder(save=lambda run: None, sensors=METERS_OFF))
    assert not checker.begin().broken
    changes = checker.measure(variant).changes

    with np.load(data.path("digits_test.npz")) as test:
        x, y = test["x"], test["y"]
    indices = np.array(settings.judged.indices)
    rows = [
        ort.InferenceSession(file, providers=["CPUExecutionProvider"]).run(
            None, {"image": x[indices].astype(np.float32) / 255}
        )[0]
        for file in files
    ]
    before, after = (each.argmax(1) for each in rows)
    labels, differ = y[indices], before != after
    assert changes.n == len(indices) and changes.changed == differ.sum() > 5
    assert changes.counts["lost"] == (differ & (before == labels)).sum()
    assert changes.counts["gained"] == (differ & (after == labels)).sum()
    places = {int(index): place for place, index in enumerate(indices)}
    for one in changes.samples:
        at = places[one.index]
        assert (one.label, one.before, one.after) == (labels[at], before[at], after[at]) and one.after == 3
        assert (one.before_score, one.after_score) == pytest.approx((rows[0][at].max(), rows[1][at].max()), rel=1e-4)
    pictures, _ = draw_thumbnails(settings.judged.data, changes.samples)
    assert set(pictures) == {one.index for one in changes.samples}
    for index, uri in pictures.items():
        assert np.array_equal(pixels_of(uri)[0], x[index, 0])


def test_the_hash_of_the_data_is_that_of_an_evaluation_wherever_it_lies(tmp_path):
    """The search sets samples apart to calibrate with; an evaluation of a copy judges these, too."""
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    model, copy = data.path("digits_cnn.onnx"), tmp_path / "copy.npz"
    copy.write_bytes(Path(data.path("digits_test.npz")).read_bytes())
    options = DataOptions(source=str(data.path("digits_test.npz")), file=Path(data.path("digits_cnn.yaml")))
    wanted = SearchSettings(model=str(model), runtimes=("onnxruntime",))
    settings = build_settings(wanted, folder=tmp_path / "out", options=options)
    original = job_of(open_model(model).ref, RuntimeSpec(name="onnxruntime"), settings)
    checker = AccuracyChecker(settings, original, builder=RunBuilder(save=lambda run: None, sensors=METERS_OFF))
    checker.begin()
    (one,) = edgewise.evaluate(
        model, data=copy, instructions=data.path("digits_cnn.yaml"), latency=False, store=str(tmp_path / "runs.db")
    ).runs
    searched, evaluated = checker.original.evaluation.data, one.evaluation.data
    assert len(settings.set_apart) + checker.original.evaluation.n == one.evaluation.n == 540
    assert searched.data_sha256 == evaluated.data_sha256 == evaluated.sha256 != searched.sha256
    assert evaluated.hashes() == f"data sha256 {evaluated.sha256[:16]}"
    assert searched.hashes() == f"{evaluated.hashes()}, of these samples {searched.sha256[:16]}"
    assert replace(searched, data_sha256="").hashes() == f"data sha256 {searched.sha256[:16]}"  # of an older record


def test_an_evaluation_against_a_reference_shows_the_samples_with_another_answer(tmp_path):
    ort = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    reference, model = Path(data.path("digits_cnn.onnx")), leaning(tmp_path / "leaning.onnx")
    results = edgewise.evaluate(
        model,
        data=data.path("digits_test.npz"),
        reference=reference,
        prepare=["scale=1/255"],
        limit=COUNT,
        latency=False,
        store=str(tmp_path / "runs.db"),
    )
    (one,) = results.models
    places = {entry.index: place for place, (entry, *_) in enumerate(one.answers)}
    with np.load(data.path("digits_test.npz")) as test:
        x = test["x"][list(places)].astype(np.float32) / 255
    before, after = (
        ort.InferenceSession(file, providers=["CPUExecutionProvider"]).run(None, {"image": x})[0].argmax(1)
        for file in (reference, model)
    )
    assert one.changed.n == COUNT and one.changed.counts == {"other": (before != after).sum()}
    assert one.changed.changed > 5
    for sample in one.changed.samples:
        at = places[sample.index]
        assert (sample.label, sample.before, sample.after) == (None, before[at], 3)
    assert set(results.thumbnails[0]) == {sample.index for sample in one.changed.samples}
    page = EVALUATION.render(results, ".html")
    assert page.count('src="data:image/png') == len(one.changed.samples)
    told = evaluation_document(results)["evaluations"][0]["changed_answers"]
    assert told["changed"] == one.changed.changed and len(told["samples"]) == len(one.changed.samples)
    tables = [table for table in describe_results(results).tables if "hanged" in table.title]
    assert [table.title for table in tables] == ["Changed answers", "Changed samples: leaning.onnx"]
    assert [column.title for column in tables[1].columns] == ["Sample", "Reference", "Model"]
