"""Keras files read without Keras: wiring, shapes, parameters, and files that mean harm. Layers: see tests/engine."""

from __future__ import annotations

import json
import random
import zipfile
from pathlib import Path
from typing import Any

import pytest

from edgewise.errors import BadInput, BadModel
from edgewise.model.cost import cost_of, total_of
from edgewise.model.graph import Graph
from edgewise.model.readers import keras_graph
from edgewise.model.readers.base import HEAD_BYTES, ReadsGraph
from edgewise.model.readers.keras import KerasReader
from edgewise.model.signature import TensorSpec

READER = KerasReader()


def layer(kind: str, name: str, *, module: str = "keras.layers", **options: Any) -> dict[str, Any]:
    return {
        "module": module,
        "class_name": kind,
        "config": {"name": name, **options},
        "registered_name": None,
        "name": name,
    }


def start(name: str, *shape: int | None, dtype: str = "float32") -> dict[str, Any]:
    return layer("InputLayer", name, batch_shape=list(shape), dtype=dtype)


def taken(name: str, shape: list[int | None] | None = None, node: int = 0, at: int = 0) -> dict[str, Any]:
    return {
        "class_name": "__keras_tensor__",
        "config": {"shape": shape, "dtype": "float32", "keras_history": [name, node, at]},
    }


def calls(document: dict[str, Any], *arguments: list[Any], **keywords: Any) -> dict[str, Any]:
    return {**document, "inbound_nodes": [{"args": each, "kwargs": keywords} for each in arguments]}


def sequential(*layers: dict[str, Any], name: str = "net", **options: Any) -> dict[str, Any]:
    return {
        "module": "keras",
        "class_name": "Sequential",
        "config": {"name": name, "layers": list(layers), **options},
        "name": name,
    }


def functional(layers: list[Any], inputs: Any, outputs: Any, name: str = "net") -> dict[str, Any]:
    options = {"name": name, "layers": layers, "input_layers": inputs, "output_layers": outputs}
    return {"module": "keras", "class_name": "Functional", "config": options, "name": name}


def small() -> dict[str, Any]:
    """x [n, 8] twice through one Dense, added, then softmax."""
    dense = calls(layer("Dense", "twin", units=4, activation="relu"), [taken("a")], [taken("b")])
    return functional(
        [
            start("a", None, 8), start("b", None, 8), dense,
            calls(layer("Add", "sum"), [[taken("twin"), taken("twin", node=1)]]),
            calls(layer("Dense", "head", units=3, activation="softmax"), [taken("sum")]),
        ],
        [["a", 0, 0], ["b", 0, 0]], ["head", 0, 0],
    )  # fmt: skip


def write(path: Path, document: Any, *, compression: int = zipfile.ZIP_STORED) -> Path:
    content = document if isinstance(document, bytes) else json.dumps(document).encode()
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("metadata.json", '{"keras_version": "3.9.0"}')
        archive.writestr("config.json", content)
        archive.writestr("model.weights.h5", b"\x89HDF\r\n\x1a\n not read")
    return path


def read(path: Path, document: Any, **options: Any) -> Graph:
    return READER.read_graph(write(path, document), **options)


def sniff(path: Path) -> bool:
    with path.open("rb") as stream:
        return READER.sniff(stream.read(HEAD_BYTES), path)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "m.keras"


def test_a_functional_model_is_wired(file: Path):
    made = read(file, small())
    assert sniff(file)
    assert [(each.name, each.op) for each in made.operators] == [
        ("twin", "Dense"), ("twin_2", "Dense"), ("sum", "Add"), ("head", "Dense"), ("head/activation", "Activation"),
    ]  # fmt: skip
    assert made.inputs == ("a", "b")
    assert made.outputs == ("head/activation",)
    assert (made.producer, made.format, made.name) == ("Keras 3.9.0", "keras", "net")
    signature = READER.read_signature(file)
    assert signature.inputs[0] == TensorSpec(name="a", shape=(None, 8), dtype="float32")
    assert signature.outputs[0].shape == (None, 3)
    assert READER.weight_files(file) == ()
    assert isinstance(READER, ReadsGraph)


def test_a_layer_that_is_used_twice_has_its_weights_once(file: Path):
    made = read(file, small(), shapes={"a": (2, 8), "b": (2, 8)})
    assert made.operators[0].weights == made.operators[1].weights == ("twin/kernel", "twin/bias")
    total = total_of(made)
    # 8 · 4 + 4 and 4 · 3 + 3.
    assert total.parameters == 36 + 15
    # 2 · 8 outputs of 8 MACs, 6 of 4.
    assert total.macs == 128 + 24
    # Two Dense of 8 outputs: bias and ReLU; Add 8; head's bias 6; softmax 5 · 6.
    assert total.ops == 2 * 152 + 2 * 16 + 8 + 6 + 30


def test_a_softmax_is_a_step_of_its_own_and_a_relu_is_not(file: Path):
    made = read(file, small())
    assert made.operators[0].geometry["activation"] == "relu"
    assert made.operators[4].kind == "softmax"
    assert made.operators[4].attributes["layer"] == "head/activation"


def test_the_wiring_of_keras_2_is_read(file: Path):
    inner = functional(
        [{**layer("InputLayer", "i", batch_input_shape=[None, 4]), "inbound_nodes": []},
         {**layer("Dense", "d", units=2), "inbound_nodes": [[["i", 0, 0, {}]]]}],
        [["i", 0, 0]], [["d", 0, 0]], name="inner",
    )  # fmt: skip
    document = functional(
        [{**layer("InputLayer", "x", batch_input_shape=[None, 4]), "inbound_nodes": []},
         {**inner, "inbound_nodes": [[["x", 0, 0, {}]]]},
         {**layer("Activation", "soft", activation="softmax"), "inbound_nodes": [[["inner", 1, 0, {}]]]}],
        [["x", 0, 0]], [["soft", 0, 0], ["inner", 1, 0]],
    )  # fmt: skip
    made = read(file, document)
    assert [each.name for each in made.operators] == ["inner/d", "soft"]
    assert made.outputs == ("soft", "inner/d")


@pytest.mark.parametrize(
    ("document", "shape"),
    [
        (sequential(start("x", None, 6), layer("Dense", "d", units=2)), (None, 6)),
        (sequential(layer("Dense", "d", units=2, batch_input_shape=[5, 6])), (5, 6)),
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


CUSTOM = [
    (layer("Lambda", "odd", function={"class_name": "__lambda__", "config": {"code": "4wEA"}}), "never run"),
    (layer("Swirl", "odd", module="mylib.layers"), "not one of Keras' own"),
    ({**layer("Swirl", "odd"), "registered_name": "mine>Swirl"}, "not one of Keras' own"),
    (layer("LayerOfTheFuture", "odd"), "no rule for the layer LayerOfTheFuture"),
    (layer("Dense", "odd", units=2, dtype={"config": {"source_name": "float32", "mode": "int8"}}), "quantised"),
]


@pytest.mark.parametrize(("odd", "why"), CUSTOM, ids=["lambda", "module", "registered", "future", "quantised"])
def test_what_is_not_known_is_unknown_with_a_reason(file: Path, odd: dict[str, Any], why: str):
    document = functional(
        [start("x", 2, 6), calls(odd, [taken("x", [2, 6])]), calls(layer("Dense", "d", units=3), [taken("odd", [2, 9])])],
        [["x", 0, 0]], [["d", 0, 0]],
    )  # fmt: skip
    made = read(file, document)
    cost = cost_of(made.operators[0], made)
    assert cost.macs is None
    assert why in cost.why
    # The file says what shape it gives, so that what follows is known: 2 · 3 outputs of 9 MACs.
    assert made.tensors["odd"].shape == (2, 9)
    assert cost_of(made.operators[1], made).macs == 54
    assert total_of(made).macs is None


def test_after_an_unknown_layer_of_unknown_shape_all_is_unknown(file: Path):
    made = read(file, sequential(start("x", 2, 6), CUSTOM[0][0], layer("Dense", "d", units=3)))
    assert made.tensors[made.outputs[0]].shape is None
    assert "not known" in cost_of(made.operators[1], made).why


def test_no_code_of_a_file_runs(file: Path, monkeypatch: pytest.MonkeyPatch):
    model = sequential(start("x", 2, 6), CUSTOM[0][0], layer("Thing", "t", module="os"))
    read(file, model)  # Python's own imports unmarshal too: first without watching
    monkeypatch.setattr("marshal.loads", lambda *_: pytest.fail("unmarshalled"))
    monkeypatch.setattr("pickle.loads", lambda *_: pytest.fail("unpickled"))
    monkeypatch.setattr("importlib.import_module", lambda *_: pytest.fail("imported"))
    read(file, model)


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ({"z": (1, 8)}, "'z' is no input"),
        ({"a": (1, 8, 1)}, "can't have the shape 1x8x1"),
        ({"a": (1, 9)}, "can't have the shape 1x9"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(file: Path, shapes: dict[str, tuple[int, ...]], words: str):
    with pytest.raises(BadInput, match=words) as caught:
        read(file, small(), shapes=shapes)
    assert not isinstance(caught.value, BadModel)
    assert caught.value.advice


def test_a_recurrent_layer_with_other_functions_is_counted_with_them(file: Path):
    lstm = layer("LSTM", "l", units=4, activation="relu", recurrent_activation="hard_sigmoid")
    made = read(file, sequential(start("x", 2, 5, 3), lstm))
    # 10 cells of 4 · 4 · (3 + 4) MACs; per unit 3 · 4 (hard sigmoid) + 2 · 1 (ReLU) + 8; one bias of 16.
    cost = cost_of(made.operators[0], made)
    assert (cost.macs, cost.ops) == (1120, 10 * (224 + 16 + 4 * 22))


def test_a_gru_has_the_biases_of_its_reset(file: Path):
    for after, biases in ((True, 2), (False, 1)):
        made = read(file, sequential(start("x", 1, 1, 3), layer("GRU", "g", units=4, reset_after=after)))
        # 3 · 4 · 7 MACs; biases of 12 each; 4 · (2 · 4 + 5 + 8) for the functions.
        assert cost_of(made.operators[0], made).ops == 168 + 12 * biases + 84
        assert total_of(made).parameters == 36 + 48 + 12 * biases


def test_a_convolutional_recurrent_layer_is_counted(file: Path):
    made = read(file, sequential(start("x", 1, 3, 6, 2), layer("ConvLSTM1D", "c", filters=4, kernel_size=3)))
    # 3 steps of 4 places of 4 filters are 48 cells; 4 gates · 3 · (2 + 4) = 72 MACs; 3 · 4 + 2 · 5 + 8 + 4 more.
    cost = cost_of(made.operators[0], made)
    assert (cost.macs, cost.ops) == (48 * 72, 48 * (144 + 34))
    assert made.tensors["c"].shape == (1, 4, 4)


def test_attention_without_projections_is_counted(file: Path):
    def attend(kind: str, **options: Any) -> Graph:
        used = calls(layer(kind, "a", **options), [[taken("q"), taken("v")]])
        return read(
            file, functional([start("q", 2, 3, 8), start("v", 2, 5, 8), used], [["q", 0, 0], ["v", 0, 0]], ["a", 0, 0])
        )

    # 2 · 3 · 5 = 30 scores of 8 + 8 MACs.
    assert cost_of(attend("Attention").operators[0], attend("Attention")).macs == 480
    added = attend("AdditiveAttention")
    # tanh(q + v) is 6 operations for each of 8, its scaled sum 8 MACs, a softmax 5, the values 8 MACs.
    cost = cost_of(added.operators[0], added)
    assert (cost.macs, cost.ops) == (30 * 16, 30 * (2 * 16 + 8 * 6 + 5))
    assert total_of(added).parameters == 8


def test_repeated_layers_are_bodies(file: Path):
    document = sequential(start("x", 2, 7, 5), layer("TimeDistributed", "t", layer=layer("Dense", "d", units=3)))
    made = read(file, document)
    # 7 steps of 2 · 3 outputs of 5 MACs.
    assert cost_of(made.operators[0], made).macs == 7 * 30
    assert made.tensors["t"].shape == (2, 7, 3)
    assert total_of(made).parameters == 18


def edit(**changes: Any) -> dict[str, Any]:
    return {**small(), **changes}


def bad_layer(kind: str, shape: list[Any], **options: Any) -> dict[str, Any]:
    return sequential(start("x", *shape), layer(kind, "bad", **options))


BROKEN = {
    "no config": {"class_name": "Functional"},
    "no class": {"config": {}},
    "its own class": {"module": "mine", "class_name": "Net", "config": {"name": "n", "width": 3}},
    "no layers": sequential(),
    "not built": sequential(layer("Dense", "d", units=2)),
    "no input": functional([], [["a", 0, 0]], [["a", 0, 0]]),
    "bad reference": functional([start("a", 1)], [["a", 0, 0]], [["a", 0, 5]]),
    "no reference": functional([start("a", 1)], [["a", 0, 0]], 7),
    "deep reference": functional([start("a", 1)], [["a", 0, 0]], [[[[[[[[[[[[[[[[[[[[[[[[["a", 0, 0]]]]]]]]]]]]]]]]]]]]]]]]]),
    "two of a name": functional([start("a", 1), start("a", 2)], [["a", 0, 0]], [["a", 0, 0]]),
    "cycle": functional(
        [start("a", 1, 4), calls(layer("Add", "s"), [[taken("a"), taken("t")]]), calls(layer("ReLU", "t"), [taken("s")])],
        [["a", 0, 0]], [["t", 0, 0]],
    ),
    "ranks": bad_layer("Conv2D", [None, 8, 8], filters=2, kernel_size=3),
    "kernel": bad_layer("Conv2D", [None, 8, 8, 1], filters=2, kernel_size="3"),
    "kernels": bad_layer("Conv2D", [None, 8, 8, 1], filters=2, kernel_size=[3, 3, 3]),
    "zero stride": bad_layer("Conv2D", [None, 8, 8, 1], filters=2, kernel_size=3, strides=0),
    "negative": bad_layer("Conv2D", [None, 8, 8, 1], filters=-2, kernel_size=3),
    "groups": bad_layer("Conv2D", [None, 8, 8, 3], filters=2, kernel_size=3, groups=2),
    "window": bad_layer("MaxPooling2D", [None, 1, 1, 3], pool_size=4),
    "units": bad_layer("Dense", [None, 8], units=2**70),
    "vast": bad_layer("Dense", [2**40, 2**40], units=3),
    "reshape": bad_layer("Reshape", [None, 7], target_shape=[3, -1]),
    "permute": bad_layer("Permute", [None, 7, 2], dims=[1, 1]),
    "crop": bad_layer("Cropping1D", [None, 3, 2], cropping=2),
    "axis": bad_layer("BatchNormalization", [None, 3], axis=7),
    "equation": bad_layer("EinsumDense", [None, 3], equation="abc", output_shape=3),
    "concatenate": functional(
        [start("a", 1, 2), start("b", 1, 2, 3), calls(layer("Concatenate", "c"), [[taken("a"), taken("b")]])],
        [["a", 0, 0], ["b", 0, 0]], [["c", 0, 0]],
    ),
    "add": functional(
        [start("a", 1, 2), start("b", 1, 3), calls(layer("Add", "c"), [[taken("a"), taken("b")]])],
        [["a", 0, 0], ["b", 0, 0]], [["c", 0, 0]],
    ),
    "shape": sequential(layer("InputLayer", "x", batch_shape=[None, -4]), layer("Dense", "d", units=2)),
    "rank": sequential(start("x", *[1] * 63), layer("Embedding", "e", input_dim=2, output_dim=2), layer("Embedding", "f", input_dim=2, output_dim=2)),
}  # fmt: skip


@pytest.mark.parametrize("document", BROKEN.values(), ids=BROKEN.keys())
def test_models_that_are_wrong_are_refused(file: Path, document: dict[str, Any]):
    with pytest.raises(BadModel) as caught:
        read(file, document)
    assert "\n" not in caught.value.message
    assert caught.value.advice


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"nonsense", b"[" * 100_000, b'{"a":' * 50_000, b"\xff", b"{}"], ids=range(7)
)
def test_what_is_no_configuration_is_refused(file: Path, content: bytes):
    with pytest.raises(BadModel):
        read(file, content)


def test_a_class_of_its_own_is_explained(file: Path):
    with pytest.raises(BadModel, match="layers are in its Python code") as caught:
        read(file, BROKEN["its own class"])
    assert "--build" in caught.value.advice


@pytest.mark.parametrize("innermost", [[layer("ReLU", "r")], []], ids=["steps", "nothing"])
def test_models_in_models_that_multiply_are_refused(file: Path, monkeypatch: pytest.MonkeyPatch, innermost: list[Any]):
    monkeypatch.setattr(keras_graph, "MAX_CALLS", 3000)
    document = sequential(*innermost, name="m0")
    for depth in range(1, 25):
        # Each model calls the one inside it twice: 2²⁴ steps in a file of a few kilobytes.
        used = calls(document, [taken("x")], [taken(f"m{depth - 1}")])
        last = 1 + ("input_layers" in document["config"])
        document = functional([start("x", 1, 2), used], [["x", 0, 0]], [[f"m{depth - 1}", last, 0]], name=f"m{depth}")
    with pytest.raises(BadModel, match="make more than"):
        read(file, document)


def test_layers_that_are_nested_without_end_are_refused(file: Path):
    document = layer("ReLU", "r")
    for _ in range(60):
        document = layer("TimeDistributed", "t", layer=document)
    with pytest.raises(BadModel, match="nested"):
        read(file, sequential(start("x", *[1] * 62), document))


def test_other_archives_are_none(file: Path):
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("config.json", "{}")
    assert not sniff(file)
    write(file, small())
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2])
    assert sniff(file)
    with pytest.raises(BadModel, match="zip"):
        READER.read_signature(file)


def mutate(value: Any, chance: random.Random) -> Any:
    """A JSON document with something in it changed."""
    strange = [
        None,
        -1,
        0,
        2**64,
        0.5,
        "",
        "x",
        "twin",
        [],
        {},
        [[]],
        True,
        [None, 4],
        taken("a"),
        layer("LSTM", "l", units=3),
    ]
    if isinstance(value, dict) and value:
        found = dict(value)
        key = chance.choice(list(found))
        if chance.random() < 0.12:
            found[key] = chance.choice(strange)
        else:
            found[key] = mutate(found[key], chance)
        return found
    if isinstance(value, list) and value:
        listed = list(value)
        at = chance.randrange(len(listed))
        roll = chance.random()
        if roll < 0.1:
            del listed[at]
        elif roll < 0.2:
            listed.append(listed[at])
        else:
            listed[at] = mutate(listed[at], chance)
        return listed
    return chance.choice(strange)


def rich() -> dict[str, Any]:
    lstm = layer("LSTM", "lstm", units=3, return_sequences=True)
    return functional(
        [
            start("a", 2, 6, 4), calls(layer("Conv1D", "c", filters=4, kernel_size=3, padding="same"), [taken("a")]),
            calls(layer("MultiHeadAttention", "m", num_heads=2, key_dim=3), [taken("c"), taken("a")]),
            calls(layer("Bidirectional", "b", layer=lstm), [taken("m")]),
            calls(layer("TimeDistributed", "t", layer=layer("Dense", "d", units=3)), [taken("b")]),
            calls(layer("BatchNormalization", "n", axis=-1), [taken("t")]),
            calls(layer("Reshape", "r", target_shape=[3, -1]), [taken("n")]),
            calls(layer("GetItem", "g", module="keras.src.ops.numpy"), [taken("r"), [{"class_name": "__slice__", "config": {"start": 0, "stop": 1, "step": None}}, 1]]),
            calls(layer("EinsumDense", "e", equation="ab,bc->ac", output_shape=[5], bias_axes="c"), [taken("g")]),
        ],
        [["a", 0, 0]], ["e", 0, 0],
    )  # fmt: skip


@pytest.mark.parametrize("make", [small, rich])
def test_mutated_configurations_are_a_graph_or_refused(file: Path, make: Any):
    chance = random.Random(5)
    read_well = 0
    for _ in range(400):
        document: Any = make()
        for _ in range(chance.randint(1, 4)):
            document = mutate(document, chance)
        try:
            made = read(file, document)
        except BadModel:
            continue
        read_well += 1
        for operator in made.operators:
            assert {*operator.inputs, *operator.outputs, *operator.weights} <= set(made.tensors)
            json.dumps(dict(operator.attributes), allow_nan=False)
        total_of(made)
    assert 40 < read_well < 380
