"""Keras files as Keras itself builds them: wiring, parameters, and files that Keras refuses."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from edgewise.errors import BadInput, BadModel
from edgewise.model.cost import total_of
from edgewise.model.graph import Graph
from edgewise.model.readers.keras import KerasReader
from keras_documents import layer, sequential, small, start, write

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(find_spec("keras") is None, reason="Keras is not installed"),
]


def read(path: Path, document: Any, **options: Any) -> Graph:
    return KerasReader().read_graph(write(path, document), **options)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "m.keras"


def test_a_layer_that_is_used_twice_has_its_weights_once(file: Path):
    made = read(file, small(), shapes={"a": (2, 8), "b": (2, 8)})
    assert [(each.name, each.op) for each in made.operators] == [
        ("twin", "Dense"), ("twin_2", "Dense"), ("sum", "Add"), ("head", "Dense"), ("head/activation", "Activation"),
    ]  # fmt: skip
    assert (made.inputs, made.outputs) == (("a", "b"), ("head",))
    assert made.operators[0].geometry["activation"] == "relu"
    assert made.operators[4].kind == "softmax"
    assert made.operators[0].weights == made.operators[1].weights == ("twin/kernel", "twin/bias")
    total = total_of(made)
    # 8 · 4 + 4 and 4 · 3 + 3.
    assert total.parameters == 36 + 15
    # 2 · 8 outputs of 8 MACs, 6 of 4.
    assert total.macs == 128 + 24
    # Two Dense of 8 outputs: bias and ReLU; Add 8; head's bias 6; softmax 5 · 6.
    assert total.ops == 2 * 152 + 2 * 16 + 8 + 6 + 30
    assert KerasReader().read_signature(file).outputs[0].shape == (None, 3)


@pytest.mark.parametrize(
    ("document", "shape"),
    [
        (sequential(start("x", None, 6), layer("Dense", "d", units=2)), (None, 6)),
        (sequential(layer("Dense", "d", units=2), build_input_shape=[None, 6]), (None, 6)),
    ],
)
def test_a_sequential_models_input_is_found(file: Path, document: dict[str, Any], shape: tuple[int | None, ...]):
    made = read(file, document)
    assert made.tensors[made.inputs[0]].shape == shape
    assert made.tensors[made.outputs[0]].shape == (shape[0], 2)


def test_models_in_models_keep_their_path(file: Path):
    block = sequential(layer("Dense", "d", units=4), layer("Dropout", "drop", rate=0.1), name="block")
    made = read(file, sequential(start("x", 2, 4), block, sequential(block, name="outer")))
    assert [each.name for each in made.operators] == ["block/d", "block/drop", "outer/block/d", "outer/block/drop"]
    assert total_of(made).parameters == 2 * 20


def test_what_keras_can_not_build_has_a_reason(file: Path):
    for odd in (layer("LayerOfTheFuture", "odd"), layer("Conv2D", "odd", filters=-2, kernel_size=3),
                layer("Dense", "odd", units=2, activation="mine")):  # fmt: skip
        with pytest.raises(BadModel, match="the layers of a Keras model are not known: ") as caught:
            read(file, sequential(start("x", 2, 6), odd))
        assert "\n" not in caught.value.message


def test_a_hostile_size_costs_no_memory(file: Path):
    try:
        made = read(file, sequential(start("x", 1, 2**30), layer("Dense", "d", units=2**30)))
        assert total_of(made).parameters == 2**60 + 2**30
    except BadModel as error:
        assert "Keras" in error.message
    with pytest.raises(BadModel):
        read(file, sequential(start("x", 1, 2**40), layer("Dense", "d", units=2**40)))


def test_shapes_that_the_layers_refuse(file: Path):
    document = sequential(start("x", None, None, 4), layer("Conv1D", "c", filters=2, kernel_size=5))
    assert read(file, document, shapes={"x": (1, 7, 4)}).tensors["c"].shape == (1, 3, 2)
    with pytest.raises(BadInput, match="the network does not support 'x'") as caught:
        read(file, document, shapes={"x": (1, 3, 4)})
    assert not isinstance(caught.value, BadModel)
