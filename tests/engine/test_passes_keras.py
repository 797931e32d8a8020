"""Keras models as LiteRT files, with PyTorch behind Keras and no TensorFlow."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

os.environ.setdefault("KERAS_BACKEND", "torch")
pytest.importorskip("torch", reason="PyTorch, which stands behind Keras here, is not installed")
keras = pytest.importorskip("keras", reason="Keras is not installed")
pytest.importorskip("litert_torch", reason="litert-torch, which Keras writes LiteRT files with, is not installed")

from edgewise.errors import BadInput  # noqa: E402
from edgewise.model.identity import read_graph  # noqa: E402
from edgewise.optimizing.base import CannotApply, PassSettings, PassTask, passes  # noqa: E402
from edgewise.optimizing.calibration import write_calibration  # noqa: E402

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

CODE = """
import keras

L = keras.layers


def image():
    return keras.Sequential([
        keras.Input((16, 16, 3)), L.Conv2D(8, 3, padding="same"), L.BatchNormalization(), L.ReLU(),
        L.DepthwiseConv2D(3, strides=2, padding="same"), L.GlobalAveragePooling2D(), L.Dense(5, activation="softmax"),
    ])


def two():
    a, b = keras.Input((8,), name="zeta"), keras.Input((4,), name="alpha")
    x = L.Concatenate()([L.Dense(4)(a), b])
    return keras.Model([a, b], [L.Dense(3)(x), L.Dense(5)(x)])


def module():
    import torch

    return torch.nn.Linear(2, 2), torch.zeros(1, 2)
"""


@pytest.fixture
def task(tmp_path: Path):
    (tmp_path / "net.py").write_text(CODE)

    def make(factory: str, **options) -> PassTask:
        return PassTask(
            model=f"{tmp_path / 'net.py'}:{factory}", format="keras", settings=PassSettings(), folder=tmp_path, **options
        )  # fmt: skip

    return make


PASS = passes().get("keras-to-litert")


def test_images_stay_channels_last_and_agree(task, tmp_path):
    samples = tmp_path / "samples.npz"
    write_calibration(samples, list(np.random.default_rng(0).random((4, 1, 1, 16, 16, 3), np.float32)), None)
    result = PASS.apply(task("image", calibration=samples))
    graph = read_graph(result.model)
    assert [each.op for each in graph.operators] == [
        "CONV_2D", "DEPTHWISE_CONV_2D", "MEAN", "FULLY_CONNECTED", "SOFTMAX"
    ]  # fmt: skip
    assert graph.tensors[graph.inputs[0]].shape == (1, 16, 16, 3)
    assert any("torch behind it" in note for note in result.notes)
    assert any("largest error" in note for note in result.notes)
    assert {"keras", "litert-torch"} <= set(result.versions)


def test_several_inputs_and_outputs_keep_their_order(task):
    graph = read_graph(PASS.apply(task("two")).model)
    assert [graph.tensors[each].shape for each in graph.inputs] == [(1, 8), (1, 4)]
    assert [graph.tensors[each].shape for each in graph.outputs] == [(1, 3), (1, 5)]


def test_samples_of_another_layout_are_named(task, tmp_path):
    samples = tmp_path / "samples.npz"
    write_calibration(samples, [[np.zeros((1, 3, 16, 16), np.float32)]], None)
    with pytest.raises(BadInput, match="the samples have the shapes"):
        PASS.apply(task("image", calibration=samples))


def test_what_is_no_keras_model_is_refused(task):
    with pytest.raises(CannotApply, match="no Keras model"):
        PASS.apply(task("module"))
