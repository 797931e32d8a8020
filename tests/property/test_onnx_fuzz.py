"""Whatever is done to an ONNX file, reading its graph ends in a graph or in one clear error, soon and in little memory."""

from __future__ import annotations

import random
import resource
import time
import warnings
from functools import cache
from pathlib import Path

import onnx
import pytest
from onnx import defs, helper

from edgewise.errors import BadModel
from edgewise.model.cost import total_of
from edgewise.model.graph import Graph
from edgewise.model.readers import onnx_shapes
from edgewise.model.readers.onnx import OnnxReader
from tiny_models import write_tiny_onnx

DATA = Path(onnx.__file__).parent / "backend/test/data"
EXTREMES = [
    0,
    1,
    -1,
    2,
    3,
    7,
    64,
    65,
    127,
    128,
    255,
    2**16,
    2**31 - 1,
    2**31,
    -(2**31),
    2**32,
    2**40,
    2**63 - 1,
    -(2**63),
]
LENGTHS = [
    b"\xff\xff\xff\xff\x0f",
    b"\x80\x80\x80\x80\x01",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\x80",
    b"\0",
]
SECONDS, MIB = 60, 300
"""Of one model, and of all together on top of what Python takes: far above what is seen, far below harm."""


@cache
def light():
    return sorted((DATA / "light").glob("*.onnx"))


@cache
def small():
    return sorted((DATA / "simple").glob("*/model.onnx")) + sorted((DATA / "pytorch-operator").glob("*/model.onnx"))


def damage_bytes(rng, data):
    """Flipped bits, extremes, cuts, splices and lengths that lie."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(changed)) if rng.random() < 0.7 else rng.randrange(min(len(changed), 300))
        match rng.randrange(7):
            case 0 | 1 | 2:
                changed[at] ^= 1 << rng.randrange(8)
            case 3:
                changed[at] = rng.choice([0, 1, 127, 128, 255])
            case 4:
                del changed[at : at + rng.randint(1, 16)]
            case 5:
                source = rng.randrange(len(changed))
                changed[at:at] = changed[source : source + rng.randint(1, 200)]
            case 6:
                length = rng.choice(LENGTHS)
                changed[at : at + len(length)] = length
        if rng.random() < 0.02:
            del changed[max(1, at) :]
    return bytes(changed)


def damage_meaning(rng, data):
    """A whole protobuf whose nodes, attributes, constants and shapes make no sense: this is what gets far."""
    model = onnx.ModelProto.FromString(data)
    graph = model.graph
    for _ in range(rng.randint(1, 5)):
        node, other = rng.choice(graph.node), rng.choice(graph.node)
        match rng.randrange(8):
            case 0:
                node.op_type = rng.choice(operators())
            case 1 if node.input:
                node.input[rng.randrange(len(node.input))] = rng.choice([*other.input, *other.output, ""])
            case 2 if node.input:
                node.input.extend(list(other.input)) if rng.random() < 0.5 else node.input.pop()
            case 3 if node.attribute:
                damage_attribute(rng, rng.choice(node.attribute))
            case 4 if graph.initializer:
                tensor = rng.choice(graph.initializer)
                tensor.dims.append(rng.choice(EXTREMES)) if rng.random() < 0.5 else setattr(
                    tensor, "data_type", rng.randrange(26)
                )
            case 5 if graph.input:
                kind = rng.choice(graph.input).type.tensor_type
                dim = rng.choice(kind.shape.dim) if kind.shape.dim and rng.random() < 0.7 else kind.shape.dim.add()
                dim.dim_value = rng.choice(EXTREMES)
            case 6:
                if defs.has(node.op_type) and (names := sorted(defs.get_schema(node.op_type).attributes)):
                    given = rng.choice(
                        [rng.choice(EXTREMES), [rng.choice(EXTREMES) for _ in range(4)], 1.5, "SAME_UPPER"]
                    )
                    node.attribute.append(helper.make_attribute(rng.choice(names), given))
            case 7:
                model.opset_import[0].version = rng.randint(1, 27)
    return model.SerializeToString()


@cache
def operators():
    return sorted({schema.name for schema in defs.get_all_schemas() if not schema.domain})


def damage_attribute(rng, attribute):
    match rng.randrange(3):
        case 0:
            attribute.i = rng.choice(EXTREMES)
        case 1:
            attribute.ints.extend(rng.choice(EXTREMES) for _ in range(rng.randint(1, 5)))
        case 2:
            attribute.type = rng.randrange(15)


def check(path, data):
    """Reads a damaged file; returns whether it still told a graph."""
    path.write_bytes(data)
    begin = time.monotonic()
    try:
        graph = OnnxReader().read_graph(path)
    except BadModel as error:
        assert error.message
        assert "\n" not in error.message
        return False
    finally:
        # real time: a bomb takes hours, and nothing else a minute
        assert time.monotonic() - begin < SECONDS
    assert isinstance(graph, Graph)
    check_graph(graph)
    total_of(graph)
    return True


def check_graph(graph):
    texts = {
        graph.name,
        *graph.tensors,
        *(each.name for each in graph.operators),
        *(each.op for each in graph.operators),
    }
    texts.update(key for each in graph.operators for key in each.attributes)
    assert all(isinstance(text, str) for text in texts)
    made = {*graph.inputs, *(name for name, tensor in graph.tensors.items() if tensor.constant)}
    assert len({each.name for each in graph.operators}) == len(graph.operators)
    for index, each in enumerate(graph.operators):
        assert each.index == index
        assert {*filter(None, (*each.inputs, *each.outputs, *each.weights))} <= graph.tensors.keys()
        assert {*each.subgraphs} <= graph.subgraphs.keys()
        assert made.isdisjoint(filter(None, each.outputs))
        made.update(each.outputs)
    for inner in graph.subgraphs.values():
        check_graph(inner)


@pytest.fixture
def bounded():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MIB * 1024


@pytest.fixture
def no_other_process(monkeypatch):
    """Starting one for every model is what takes time; what happens there can't harm this one."""
    monkeypatch.setattr(onnx_shapes, "_ask_process", lambda *given, **options: (None, "not asked"))


@pytest.mark.parametrize("start", [0, *(pytest.param(start, marks=pytest.mark.long) for start in (700, 1400))])
def test_damaged_bytes(tmp_path, bounded, no_other_process, start):
    models = [path.read_bytes() for path in light() if path.stat().st_size < 100_000]
    models += [write_tiny_onnx(tmp_path / "t.onnx", extra_inputs=["z", "ids"]).read_bytes()] * len(models)
    rng = random.Random(start)
    told = sum(check(tmp_path / "m.onnx", damage_bytes(rng, rng.choice(models))) for _ in range(700))
    assert 20 < told < 650  # both ends are met


@pytest.mark.parametrize("byte", [0, 0x7F, 0xFF])
def test_every_byte_once(tmp_path, no_other_process, byte):
    """Not least the texts: every name, domain, type and key in the file becomes none, once."""
    nodes = [
        helper.make_node("Constant", [], ["k"], name="n", value_ints=[1, 2]),
        helper.make_node("Odd", ["x", "k"], ["a"], domain="d", text="s", doc_string="doc"),
        helper.make_node("f", ["a"], ["y"], domain="d"),
    ]
    weight = onnx.TensorProto(name="w", data_type=1, dims=[2], data_location=1, doc_string="doc")
    weight.external_data.add(key="location", value="w.bin")
    weight.external_data.add(key="length", value="8")
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("d", 1)]
    function = helper.make_function("d", "f", ["p"], ["q"], [helper.make_node("Relu", ["p"], ["q"])], opsets)
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, ["N", 4])],
        [helper.make_tensor_value_info("y", 1, ["N"])],
        [weight],
        value_info=[helper.make_tensor_value_info("a", 1, ["M"])],
    )
    model = helper.make_model(graph, opset_imports=opsets, functions=[function], producer_name="p", doc_string="doc")
    model.metadata_props.add(key="key", value="value")
    data = model.SerializeToString()
    assert check(tmp_path / "m.onnx", data)
    for at in range(len(data)):
        check(tmp_path / "m.onnx", data[:at] + bytes([byte]) + data[at + 1 :])


@pytest.mark.parametrize("start", [0, pytest.param(1, marks=pytest.mark.long)])
def test_damaged_meaning(tmp_path, bounded, no_other_process, start):
    models = [path.read_bytes() for path in small()]
    rng = random.Random(start)
    told = sum(check(tmp_path / "m.onnx", damage_meaning(rng, rng.choice(models))) for _ in range(500))
    assert told > 50


@pytest.mark.long
def test_damaged_meaning_with_another_process_where_it_is_needed(tmp_path, bounded):
    models = [path.read_bytes() for path in small()]
    rng = random.Random(99)
    told = sum(check(tmp_path / "m.onnx", damage_meaning(rng, rng.choice(models))) for _ in range(25))
    assert told > 10


@pytest.mark.long
def test_every_operator_of_the_standard(tmp_path, monkeypatch):
    """The onnx package's own models of single operators, and of the functions that define some of them."""
    # Symbolic inference, which takes most of a second each time, is asked of the models below.
    monkeypatch.setattr(onnx_shapes, "_find_script", lambda: None)
    cases = pytest.importorskip("onnx.backend.test.case.node")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy's, of the numbers that go with the models
        found = cases.collect_testcases(None)
    told = 0
    for case in found[::10]:
        if case.model is not None:
            assert check(tmp_path / "m.onnx", case.model.SerializeToString()), case.name
            told += 1
    assert told > 100


@pytest.mark.long
def test_every_model_in_the_onnx_package(tmp_path):
    for path in [*light(), *small()]:
        assert check(tmp_path / "m.onnx", path.read_bytes()), path
