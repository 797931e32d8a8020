"""Whole searches on the bundled digits network with real engines: what the field's worst surprises come to here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import edgewise
from edgewise import data
from edgewise.evaluating.calibrated import read_calibrated
from edgewise.optimizing.placement import Placement
from edgewise.optimizing.processor import read_processor
from edgewise.optimizing.variant import Optimization

FRAGILE = "/features/features.2/features.2.0/Conv"
UNDECIDED = (
    "not proven faster: ", "probably faster, not proven: ", "not faster by an amount that matters: ", "probably slower, not proven: ", "undecided: ",
    "not raced: the time budget ", "not raced: short measurements of others ",
)  # fmt: skip
"""How a variant is told whose speed a busy machine hid."""

pytestmark = [pytest.mark.engine, pytest.mark.long]


@pytest.fixture(autouse=True)
def for_a_quiet_machine(monkeypatch):
    """A race has the time that a quiet machine needs: what stays open after it is told as that."""
    monkeypatch.setattr("edgewise.optimizing.race.UNDECIDED_SHARE", 0.0)


@pytest.fixture(scope="module")
def digits(tmp_path_factory) -> Path:
    """The bundled data in one file: passes look at its training part, the test part is judged."""
    path = tmp_path_factory.mktemp("digits") / "digits.npz"
    with np.load(data.path("digits_test.npz")) as test, np.load(data.path("digits_calibration.npz")) as train:
        np.savez(path, x_test=test["x"], y_test=test["y"], x_train=train["x"], y_train=train["y"])
    return path


def optimize(model, digits, folder, **settings) -> Optimization:
    result = edgewise.optimize(
        model,
        data=digits,
        output=folder / "out",
        instructions=data.path("digits_cnn.yaml"),
        store=f"sqlite:///{folder / 'runs.db'}",
        **{"time_budget": 300.0, "max_accuracy_drop": "1pt", **settings},
    )
    for one in (candidate for candidate in result.candidates if candidate.accepted):
        assert one.metrics["speedup"].low > 1.0 and one.metrics["accuracy_drop"].value <= 0.01
    return result


def plant(path: Path) -> Path:
    """The digits network with one layer that int8 ruins, whatever its scales: weights that only ever meet zeros.

    One channel before the layer is silenced, so that the layer's weights for it don't matter, and these become so
    large that with them in the range all others are rounded away.
    """
    onnx = pytest.importorskip("onnx")
    model = onnx.load(data.path("digits_cnn.onnx"))
    tensors = {one.name: one for one in model.graph.initializer}

    def change(name, to):
        array = onnx.numpy_helper.to_array(tensors[name]).copy()
        to(array)
        tensors[name].CopyFrom(onnx.numpy_helper.from_array(array, name))

    before = onnx.numpy_helper.to_array(tensors["features.1.0.weight"])
    channel = int(np.abs(before).sum(axis=(1, 2, 3)).argmin())
    for name in ("features.1.0.weight", "features.1.0.bias"):
        change(name, lambda array: array.__setitem__(channel, 0.0))
    change("features.2.0.weight", lambda array: array.__setitem__((slice(None), channel), 1000.0))
    onnx.save(model, path)
    return path


def test_dynamic_int8_is_refused_and_it_says_that_it_is_slower(digits, tmp_path):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    result = optimize(
        data.path("digits_cnn.onnx"), digits, tmp_path, passes=["ort-dynamic"], runtimes=["onnxruntime"]
    )  # fmt: skip
    assert result.chosen is None and result.unmet == "" and list(result.files) == ["int8"]
    assert Path(result.files["int8"]).is_file()
    (usual,) = [one for one in result.candidates if one.id == "ort-dynamic @ onnxruntime"]
    assert usual.why.startswith(("slower: ", *UNDECIDED)), usual.why
    assert not usual.why.startswith("slower: ") or usual.metrics["speedup"].high < 1.0
    assert not any(one.accepted for one in result.candidates)


def test_static_int8_is_proven_faster_within_its_bound(digits, tmp_path):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    result = optimize(
        data.path("digits_cnn.onnx"), digits, tmp_path, passes=["ort-static"], runtimes=["onnxruntime"], threads=1
    )  # fmt: skip
    made = result.candidate("ort-static @ onnxruntime").model
    own = json.loads(Path(f"{made.path}.provenance.json").read_text())
    assert own["model"]["sha256"] == made.sha256 and len(own["calibration"]["samples"]) == 128
    assert read_calibrated(made) == frozenset(own["calibration"]["samples"])
    if result.chosen is None:
        assert result.candidate("ort-static @ onnxruntime").why.startswith(UNDECIDED), result.candidates
        return
    chosen = result.candidate(result.chosen)
    assert chosen.accepted and chosen.why.startswith("faster: ") and "Top-1 accuracy" in chosen.why
    # The program beside it runs as it is, and is right about a picture that it prepares by itself.
    with np.load(data.path("digits_test.npz")) as test:
        np.save(tmp_path / "sample.npy", test["x"][0])
        label = int(test["y"][0])
    words = [sys.executable, result.files["loader"], str(tmp_path / "sample.npy")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # The scores, then the three highest, each with its class.
    scores = done.stdout[: done.stdout.rindex("]") + 1].removeprefix("float32 [1, 10] ")
    row = [float(word) for word in scores.strip("[]").split()]
    assert len(row) == 10 and int(np.argmax(row)) == label
    assert done.stdout[len("float32 [1, 10] ") + len(scores) :].split(":")[0].strip() == str(label)
    assert result.data.size == 540 and result.calibration.size == 128 and result.calibration.split == "train"
    assert result.baseline.metrics["accuracy_top1"].value > 0.9

    # What was written runs, and is what the evidence says.
    (again,) = edgewise.evaluate(
        result.files["chosen"], data=digits, latency=False, store=f"sqlite:///{tmp_path / 'runs.db'}"
    ).models
    values = {score.metric: score.value for score in again.scores}
    assert values["accuracy_top1"] == chosen.metrics["accuracy_top1"].value
    drop = result.baseline.metrics["accuracy_top1"].value - values["accuracy_top1"]
    assert chosen.metrics["accuracy_drop"].value == pytest.approx(drop, abs=1e-12)
    provenance = json.loads(Path(result.files["provenance"]).read_text())
    assert provenance["calibration"]["sha256"] == result.calibration.sha256
    assert provenance["parent"]["sha256"] == result.baseline.model.sha256
    with edgewise.open_store(f"sqlite:///{tmp_path / 'runs.db'}") as store:
        assert store.get(chosen.run).evaluation.n == 540


def test_a_planted_fragile_layer_is_named_and_spared(digits, tmp_path):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    model = plant(tmp_path / "planted.onnx")
    result = optimize(
        model, digits, tmp_path, passes=["ort-static:per-tensor"], runtimes=["onnxruntime"], threads=1
    )  # fmt: skip
    ruined = next(one for one in result.candidates if one.id == "ort-static per-tensor @ onnxruntime")
    assert not ruined.accepted and ruined.metrics["accuracy_drop"].value > 0.1
    assert [one.layer for one in result.sensitivity if one.fragile] == [FRAGILE]
    first, *others = result.sensitivity
    assert first.layer == FRAGILE and first.snr_db < min(one.snr_db for one in others if one.snr_db is not None) - 6.0
    assert first.accuracy_drop > 0.1
    mixed = result.candidate("ort-static per-tensor sparing 1 @ onnxruntime")
    assert mixed.passes[0].keep_float == (FRAGILE,)
    assert mixed.metrics["accuracy_drop"].value <= 0.01
    # Whether it is faster, too, depends on the processor and on what else runs on it.
    if result.chosen is None:
        assert mixed.why.startswith(("slower: ", "no difference that matters: ", *UNDECIDED)), mixed.why
    else:
        assert result.chosen == mixed.id and mixed.accepted
        assert f"--keep-float {FRAGILE}" in result.command


def test_a_layer_that_is_faster_in_float_is_float_in_one_more_file(digits, tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    timed = []

    def find(before, after):
        timed.append((before, after))
        return Placement(layers=(FRAGILE,), names=("Conv",), saving=0.5, noise=0.0, before=2.0, after=1.5)

    monkeypatch.setattr("edgewise.optimizing.search.find_placement", find)
    result = optimize(
        data.path("digits_cnn.onnx"), digits, tmp_path, passes=["ort-static:float-stem"], runtimes=["onnxruntime"],
        threads=1,
    )  # fmt: skip
    ((before, after),) = timed
    assert before.layers and after.layers and before.job.model.sha256 == result.baseline.model.sha256
    mixed = result.candidate("ort-static float-stem slow layers in float @ onnxruntime")
    assert mixed.passes[0].keep_float == (FRAGILE,) and mixed.stage == "raced"
    assert mixed.predicted.speedup == 2.0 and mixed.predicted.because == (
        "Conv in float, where int8 takes 500 ms of 1.50 s more, conversions counted"
    )
    if result.chosen == mixed.id:
        assert f"--keep-float {FRAGILE}" in result.command


def test_static_int8_of_a_tflite_file_is_proven_faster_where_the_processor_has_instructions_for_it(digits, tmp_path):
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
    pytest.importorskip("ai_edge_quantizer", reason="ai-edge-quantizer is not installed")
    result = optimize(
        data.path("digits_cnn.tflite"), digits, tmp_path, passes=["litert-static"], runtimes=["litert"], threads=1
    )  # fmt: skip
    if result.chosen is None:
        why = result.candidate("litert-static @ litert").why
        if not why.startswith(UNDECIDED):
            assert why.startswith(("slower: ", "no difference that matters: ")) and not read_processor().instructions(
                "int8"
            )
            assert "this processor has no int8 dot products" in why
        return
    chosen = result.candidate(result.chosen)
    assert chosen.accepted and chosen.why.startswith("faster: ")
    assert chosen.metrics["model_size"].value < result.baseline.metrics["model_size"].value / 2
