"""PyTorch exports read without PyTorch: programs, symbols, subgraphs, and files that mean harm."""

from __future__ import annotations

import copy
import json
import random
import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest

from edgewise.errors import BadInput, BadModel
from edgewise.model.cost import cost_of, total_of
from edgewise.model.graph import Graph, Quantization
from edgewise.model.readers import archive
from edgewise.model.readers.base import HEAD_BYTES, ReadsGraph
from edgewise.model.readers.torch import TorchReader
from edgewise.model.readers.torch_shapes import UnknownSize, read_expression, size_of
from edgewise.model.signature import TensorSpec
from exported_programs import LONG, graph, meta, node, program, small_network, tensor, write_program
from messages import says

READER = TorchReader()


def sniff(path: Path) -> bool:
    with path.open("rb") as stream:
        return READER.sniff(stream.read(HEAD_BYTES), path)


def read(path: Path, document: Any, **options: Any) -> Graph:
    return READER.read_graph(write_program(path, document), **options)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "m.pt2"


@pytest.mark.parametrize("layout", ["new", "old"])
def test_both_layouts_are_read(file: Path, layout: str):
    write_program(file, small_network(), layout=layout)
    assert sniff(file)
    signature = READER.read_signature(file)
    assert signature.inputs == (TensorSpec(name="x", shape=("n", 3, 8, 8), dtype="float32"),)
    assert signature.outputs == (TensorSpec(name="y", shape=("n", 5), dtype="float32"),)
    assert READER.weight_files(file) == ()
    assert isinstance(READER, ReadsGraph)


def test_parameters_have_the_modules_names_and_steps_their_place(file: Path):
    made = read(file, small_network())
    assert [each.op for each in made.operators] == [
        "aten.conv2d.default", "aten.relu.default", "aten.mean.dim", "aten.permute.default", "aten.mm.default",
    ]  # fmt: skip
    conv = made.operators[0]
    assert conv.inputs == ("x", "features.0.weight", "features.0.bias")
    assert conv.weights == ("features.0.weight", "features.0.bias")
    assert conv.attributes == {"stride": [1, 1], "padding": [1, 1], "module": "features.0"}
    assert conv.title == f"features.0/{conv.name}"
    assert made.tensors["features.0.weight"].constant
    assert made.tensors["features.0.weight"].shape == (4, 3, 3, 3)
    assert (made.format, made.version, made.producer) == ("torch", "schema 8.20", "PyTorch 2.13.0")
    assert made.metadata == {"dimensions": {"n": [1, 16]}}
    assert made.inputs == ("x",)


def test_a_parameter_that_is_turned_belongs_to_who_multiplies_with_it(file: Path):
    made = read(file, small_network())
    assert made.operators[3].weights == ()
    assert made.operators[4].weights == ("head.weight",)
    # 4 · 3 · 9 + 4 + 5 · 4
    assert total_of(made).parameters == 108 + 4 + 20


def test_shapes_bind_symbols_everywhere(file: Path):
    made = read(file, small_network(), shapes={"x": (2, 3, 8, 8)})
    assert made.tensors["y"].shape == (2, 5)
    # Convolution: 2 · 4 · 64 outputs of 27 MACs; product: 2 · 5 outputs of 4.
    assert total_of(made).macs == 512 * 27 + 10 * 4
    # Bias 512, ReLU 512, mean 512 + 8.
    assert total_of(made).ops == 2 * (512 * 27 + 40) + 512 + 512 + 520


def test_without_shapes_costs_are_unknown_and_not_those_of_the_example(file: Path):
    total = total_of(read(file, small_network()))
    assert total.macs is None
    assert "open" in total.why


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ({"z": (1,)}, says("not-input-model", name="z")),
        ({"x": (1, 3, 8)}, says("dimensions-not", sizes_count=4, shape_count=3)),
        ({"x": (1, 3, 8, 9)}, says("cant-shape", map="1x3x8x9")),
        ({"x": (17, 3, 8, 8)}, says("cant-size-exported", low=1, high=16)),
    ],
)
def test_shapes_that_do_not_fit_are_refused(file: Path, shapes: dict[str, tuple[int, ...]], words: str):
    with pytest.raises(BadInput, match=words) as caught:
        read(file, small_network(), shapes=shapes)
    assert caught.value.advice
    assert not isinstance(caught.value, BadModel)


def test_a_multiple_of_a_symbol_is_solved(file: Path):
    body = graph(
        [node("aten.relu.default", {"self": "x"}, "y")],
        {"x": meta("2*s0", 3), "y": meta("2*s0", 3)}, ["x"], ["y"],
    )  # fmt: skip
    made = read(file, program(body), shapes={"x": (6, 3)})
    assert made.tensors["y"].shape == (6, 3)
    with pytest.raises(BadInput, match="7x3"):
        read(file, program(body), shapes={"x": (7, 3)})


def test_buffers_that_a_run_changes_are_variables(file: Path):
    body = graph(
        [
            node("aten.add.Tensor", {"self": "b", "other": "x"}, "sum"),
            node("aten.clone.default", {"self": "sum"}, "y"),
        ],
        {"b": meta(4), "x": meta(4), "sum": meta(4), "y": meta(4)}, ["b", "x"], ["sum", "y"],
    )  # fmt: skip
    made = read(file, program(body, buffers={"b": "state"}, mutated={"sum": "state"}))
    assert made.outputs == ("y",)
    assert made.tensors["state"].variable
    assert not made.tensors["state"].constant
    assert made.operators[0].weights == ()


def test_branches_and_loops_are_graphs_of_their_own(file: Path):
    def branch(op: str) -> dict[str, Any]:
        return graph(
            [node(op, {"input": "h", "weight": "w"}, "r")],
            {"h": meta(2, 4), "w": meta(4, 4), "r": meta(2, 4)}, ["h", "w"], ["r"],
        )  # fmt: skip

    cond = node("higher_order.cond", {}, "y")
    cond["inputs"] = [
        {"name": "", "arg": tensor("p")},
        {"name": "", "arg": {"as_graph": {"name": "true", "graph": branch("aten.linear.default")}}},
        {"name": "", "arg": {"as_graph": {"name": "false", "graph": branch("aten.linear.default")}}},
        {"name": "", "arg": {"as_tensors": [{"name": "x"}, {"name": "w"}]}},
    ]
    scan = node("higher_order.scan", {}, "carry", "all")
    inner = graph(
        [node("aten.mul.Tensor", {"self": "c", "other": "s"}, "m")],
        {"c": meta(4), "s": meta(4), "m": meta(4)}, ["c", "s"], ["m", "m"],
    )  # fmt: skip
    scan["inputs"] = [
        {"name": "", "arg": {"as_graph": {"name": "step", "graph": inner}}},
        {"name": "", "arg": {"as_tensors": [{"name": "h"}]}},
        {"name": "", "arg": {"as_tensors": [{"name": "y"}]}},
    ]
    body = graph(
        [cond, scan],
        {
            "p": meta(), "x": meta(2, 4), "w": meta(4, 4), "y": meta(2, 4), "h": meta(4), "carry": meta(4), "all": meta(2, 4),
        },
        ["w", "p", "x", "h"], ["all"],
    )  # fmt: skip
    made = read(file, program(body, parameters={"w": "gate.weight"}))
    assert made.operators[0].subgraphs == ("y.true", "y.false")
    assert made.subgraphs["y.true"].operators[0].weights == ("gate.weight",)
    assert made.subgraphs["y.true"].inputs == ("h",)
    # Both branches: 8 outputs of 4 MACs. The scan multiplies 4 numbers in each of 2 steps.
    assert cost_of(made.operators[0], made).macs == 32
    assert cost_of(made.operators[1], made).ops == 8
    assert total_of(made).parameters == 16


def test_lists_and_omitted_tensors_keep_their_places(file: Path):
    norm = node(
        "aten.batch_norm.default",
        {"input": "x", "weight": {"as_none": True}, "bias": {"as_none": True}, "running_mean": "m", "running_var": "v",
         "training": {"as_bool": False}, "eps": {"as_float": 1e-5}},
        "n",
    )  # fmt: skip
    joined = node(
        "aten.cat.default", {"tensors": {"as_tensors": [{"name": "n"}, {"name": "x"}]}, "dim": {"as_int": 1}}, "c"
    )
    picked = node(
        "aten.index.Tensor",
        {"self": "c", "indices": {"as_optional_tensors": [{"as_none": True}, {"as_tensor": {"name": "i"}}]}}, "y",
    )  # fmt: skip
    body = graph(
        [norm, joined, picked],
        {"x": meta(2, 3), "m": meta(3), "v": meta(3), "i": meta(2, dtype=LONG), "n": meta(2, 3), "c": meta(2, 6), "y": meta(2, 2)},
        ["m", "v", "x", "i"], ["y"],
    )  # fmt: skip
    made = read(file, program(body, buffers={"m": "bn.mean", "v": "bn.var"}))
    assert made.operators[0].inputs == ("x", "", "", "bn.mean", "bn.var")
    assert made.operators[0].attributes == {"training": False, "eps": 1e-5}
    assert made.operators[1].inputs == ("n", "x")
    assert made.operators[2].inputs == ("c", "", "i")
    assert made.tensors["i"].dtype == "int64"


def test_reference_quantisers_tell_the_scale(file: Path):
    quantized = node(
        "quantized_decomposed.quantize_per_tensor.default",
        {"input": "x", "scale": {"as_float": 0.25}, "zero_point": {"as_int": -3}, "dtype": {"as_scalar_type": 2}}, "q",
    )  # fmt: skip
    body = graph([quantized], {"x": meta(4), "q": meta(4, dtype=2)}, ["x"], ["q"])
    made = read(file, program(body))
    assert made.tensors["q"].quantization == Quantization(scale=0.25, zero_point=-3)
    assert made.tensors["q"].dtype == "int8"
    assert made.operators[0].attributes["dtype"] == "int8"


def test_operators_of_others_are_custom_and_unknown(file: Path):
    body = graph([node("mylib.swish.default", {"x": "x"}, "y")], {"x": meta(4), "y": meta(4)}, ["x"], ["y"])
    made = read(file, program(body))
    assert made.operators[0].custom
    assert cost_of(made.operators[0], made).macs is None
    assert not read(file, program(copy.deepcopy(body)) | {}).operators[0].weights


def test_several_programs_are_signatures(file: Path):
    with zipfile.ZipFile(file, "w") as written:
        for name in ("model", "decode"):
            written.writestr(f"m/models/{name}.json", json.dumps(small_network()))
    made, alone = READER.read_graph(file), total_of(READER.read_graph(file))
    assert made.signature == "model"
    assert {name: [each.name for each in inputs] for name, inputs in made.signatures.items()} == {
        "model": ["x"],
        "decode": ["x"],
    }
    with zipfile.ZipFile(file, "w") as written:
        written.writestr("m/models/model.json", json.dumps(small_network()))
    assert total_of(READER.read_graph(file)).parameters == alone.parameters


@pytest.mark.parametrize(
    ("text", "bindings", "value"),
    [
        ("Symbol('s77', positive=True, integer=True)", {}, "s77"),
        ("s0", {"s0": 7}, 7),
        ("Mul(Integer(2), Symbol('s0'))", {"s0": 3}, 6),
        ("Mul(Integer(2), Symbol('s0'))", {}, "2*s0"),
        ("Add(Symbol('a'), Integer(-1))", {}, "a + -1"),
        ("((s0 - 1)//2) + 1", {"s0": 8}, 4),
        ("((s0 - 1)//2) + 1", {}, "(s0 - 1)//2 + 1"),
        ("FloorDiv(Symbol('a'), Integer(4))", {"a": 9}, 2),
        ("CeilDiv(a, 4)", {"a": 9}, 3),
        ("Mod(a, 4)", {"a": 9}, 1),
        ("Max(1, a)", {"a": 9}, 9),
        ("a**2", {"a": 9}, 81),
        ("Pow(Symbol('a'), Integer(2))", {"a": 3}, 9),
    ],
)
def test_expressions_of_sizes(text: str, bindings: dict[str, int], value: int | str):
    assert read_expression(text, bindings) == value


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')", "a.b", "[1]", "lambda: 1", "1/0", "FloorDiv(1, 0)", "9**9**9", "2**(2**20)",
        "(" * 300 + "1" + ")" * 300, "-" * 4000 + "1", "9" * 3000, "IntTrueDiv(7, 2)", "", "x" * 5000, "Add()", "1.5",
        "Mod(1, 2, 3)", "True", "'s0'", "f(x)", "a if a else b", "\x00", "1 +", "Mul(" * 100 + "2" + ")" * 100,
    ],
)  # fmt: skip
def test_expressions_that_are_no_sizes_stay_unknown(text: str):
    with pytest.raises(UnknownSize):
        read_expression(text, {})
    assert size_of(text, {}) is None


def test_a_size_that_is_negative_is_unknown():
    assert size_of("a - 5", {"a": 3}) is None


def broken(change: Any) -> dict[str, Any]:
    document = small_network()
    change(document, document["graph_module"]["graph"])
    return document


BROKEN = {
    "cycle": lambda d, g: g["nodes"].reverse(),
    "undefined": lambda d, g: g["nodes"][2]["inputs"][0].update(arg=tensor("nowhere")),
    "twice": lambda d, g: g["nodes"].append(g["nodes"][2]),
    "input twice": lambda d, g: g["inputs"].append(tensor("x")),
    "lost output": lambda d, g: d["graph_module"]["signature"].update(
        output_specs=[{"user_output": {"arg": tensor("gone")}}]
    ),
    "no outputs": lambda d, g: d["graph_module"]["signature"].update(output_specs=[]),
    "no graph": lambda d, g: d["graph_module"].pop("graph"),
    "no signature": lambda d, g: d["graph_module"].pop("signature"),
    "nodes": lambda d, g: g.update(nodes={"a": 1}),
    "node": lambda d, g: g.update(nodes=["conv"]),
    "target": lambda d, g: g["nodes"][1].update(target=7),
    "negative": lambda d, g: g["tensor_values"]["x"]["sizes"].__setitem__(1, {"as_int": -3}),
    "huge": lambda d, g: g["tensor_values"]["x"]["sizes"].__setitem__(1, {"as_int": 2**63}),
    "vast": lambda d, g: g["tensor_values"].update(p_c=meta(2**40, 2**40)),
    "rank": lambda d, g: g["tensor_values"].update(x=meta(*[1] * 65)),
    "no sizes": lambda d, g: g["tensor_values"]["x"].pop("sizes"),
    "untyped": lambda d, g: g["tensor_values"].pop("p_c"),
    "name": lambda d, g: g["nodes"][1].update(outputs=[tensor("n" * 5000)]),
    "inputs": lambda d, g: g["nodes"][1].update(inputs=None),
}


@pytest.mark.parametrize("change", BROKEN.values(), ids=BROKEN.keys())
def test_programs_that_are_wrong_are_refused(file: Path, change: Any):
    with pytest.raises(BadModel) as caught:
        read(file, broken(change))
    assert "\n" not in caught.value.message
    assert caught.value.advice


@pytest.mark.parametrize(
    "content",
    [
        b"", b"nonsense", b"[]", b"null", b'{"graph_module": {}}', b"[" * 100_000, b'{"a":' * 50_000, b"\xff\xfe",
        b"[" + b"[]," * 7_000_000 + b"[]]", b'{"graph_module": ' + b"9" * 5000 + b"}", b'{"a": "\\ud800"}',
        json.dumps({"graph_module": 3}).encode(),
    ],
    ids=range(12),
)  # fmt: skip
def test_what_is_no_program_is_refused(file: Path, content: bytes):
    with pytest.raises(BadModel):
        read(file, content)


def test_graphs_that_are_nested_without_end_are_refused(file: Path):
    inner = graph([node("aten.relu.default", {"self": "x"}, "y")], {"x": meta(1), "y": meta(1)}, ["x"], ["y"])
    for _ in range(45):
        step = node("higher_order.wrap", {}, "y")
        step["inputs"] = [
            {"name": "", "arg": {"as_graph": {"name": "g", "graph": inner}}},
            {"name": "", "arg": tensor("x")},
        ]
        inner = graph([step], {"x": meta(1), "y": meta(1)}, ["x"], ["y"])
    with pytest.raises(BadModel, match="nested"):
        read(file, program(inner))


def test_a_zip_bomb_is_refused_by_what_its_directory_says(file: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(archive, "MAX_JSON_BYTES", 2**20)
    write_program(file, b'{"a": "' + b" " * 2**21 + b'"}', compression=zipfile.ZIP_DEFLATED)
    assert file.stat().st_size < 2**13
    with pytest.raises(BadModel, match=says("bytes-more-than", file_size=2097161, limit=1048576)):
        READER.read_graph(file)


def test_an_entry_that_is_longer_than_its_directory_says_is_refused(file: Path):
    write_program(file, small_network(), compression=zipfile.ZIP_DEFLATED)
    data = bytearray(file.read_bytes())
    # The directory's entry of the program: its uncompressed size lies 24 bytes after the mark.
    at = data.rindex(b"m/models/model.json") - 46
    assert data[at : at + 4] == b"PK\x01\x02"
    struct.pack_into("<I", data, at + 24, 10)
    file.write_bytes(data)
    with pytest.raises(BadModel):
        READER.read_graph(file)


def test_names_of_entries_lead_nowhere(file: Path, tmp_path: Path):
    with zipfile.ZipFile(file, "w") as written:
        written.writestr("../../evil.json", "{}")
        written.writestr("/etc/models/x.json", "{}")
        written.writestr("m/models/../../x.json", "{}")
        written.writestr("m/archive_format", "pt2")
    assert sniff(file)
    with pytest.raises(BadModel, match=says("contains-compiled-code-no-program")):
        READER.read_graph(file)
    assert [each.name for each in tmp_path.iterdir()] == ["m.pt2"]


def test_pickles_and_other_archives_are_none(file: Path):
    with zipfile.ZipFile(file, "w") as written:
        written.writestr("archive/data.pkl", b"\x80\x02.")
        written.writestr("archive/data/0", b"")
        written.writestr("archive/version", "3")
    assert not sniff(file)
    file.write_bytes(b"PK\x03\x04")
    assert not sniff(file)
    file.write_bytes(b"")
    assert not sniff(file)


def test_a_truncated_export_is_one_still(file: Path):
    data = write_program(file, small_network()).read_bytes()
    file.write_bytes(data[: len(data) // 2])
    assert sniff(file)
    with pytest.raises(BadModel, match=says("not-complete-zip-archive")):
        READER.read_signature(file)


def mutate(value: Any, chance: random.Random) -> Any:
    """A JSON document with something in it changed."""
    strange = [
        None,
        -1,
        0,
        2**64,
        1e308,
        "",
        "x",
        "p_c",
        "Symbol('n')",
        [],
        {},
        [[]],
        True,
        {"as_int": "1"},
        {"name": "y"},
    ]
    if isinstance(value, dict) and value:
        found = dict(value)
        key = chance.choice(list(found))
        roll = chance.random()
        if roll < 0.1:
            del found[key]
        elif roll < 0.2:
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


def check(file: Path) -> bool:
    """Whether a file is read; anything but a graph or `BadModel` fails."""
    try:
        made = READER.read_graph(file)
        READER.read_signature(file)
    except BadModel:
        return False
    for operator in made.operators:
        assert set(filter(None, (*operator.inputs, *operator.outputs, *operator.weights))) <= set(made.tensors)
        cost_of(operator, made)
        json.dumps(dict(operator.attributes), allow_nan=False)
    total_of(made)
    return True


def test_mutated_programs_are_a_graph_or_refused(file: Path):
    chance = random.Random(7)
    read_well = 0
    for _ in range(600):
        document: Any = small_network()
        for _ in range(chance.randint(1, 4)):
            document = mutate(document, chance)
        read_well += check(write_program(file, document))
    assert 60 < read_well < 540


def test_mutated_bytes_are_a_graph_or_refused(file: Path):
    original = write_program(file, small_network(), compression=zipfile.ZIP_DEFLATED).read_bytes()
    chance = random.Random(11)
    for _ in range(500):
        data = bytearray(original)
        for _ in range(chance.randint(1, 6)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        if chance.random() < 0.2:
            del data[chance.randrange(len(data)) :]
        file.write_bytes(bytes(data) or b"P")
        sniff(file)
        check(file)
