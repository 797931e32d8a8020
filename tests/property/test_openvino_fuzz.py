"""Whatever is done to an OpenVINO IR, reading its network ends in a graph that holds together or in one clear error."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgewise.errors import BadModel
from edgewise.model.cost import count, total_of
from edgewise.model.graph import Graph
from edgewise.model.memory_plan import plan_memory
from edgewise.model.readers.openvino import OpenVinoReader
from messages import says

FEW_AND_MANY = [400, pytest.param(4000, marks=pytest.mark.long)]
HEAD = '<?xml version="1.0"?>\n<net name="m" version="11">'


def port(number: int, dims: str, precision: str = "FP32", names: str = "") -> str:
    named = f' names="{names}"' if names else ""
    sizes = "".join(f"<dim>{size}</dim>" for size in dims.split())
    return f'<port id="{number}" precision="{precision}"{named}>{sizes}</port>'


def layer(number: int, kind: str, data: str, inputs: str, outputs: str, *, rest: str = "") -> str:
    inside = (f"<input>{inputs}</input>" if inputs else "") + (f"<output>{outputs}</output>" if outputs else "")
    return f'<layer id="{number}" name="{kind}_{number}" type="{kind}" version="opset8"><data {data}/>{rest}{inside}</layer>'


def edge(*ends: int) -> str:
    return '<edge from-layer="{}" from-port="{}" to-layer="{}" to-port="{}"/>'.format(*ends)


BODY = (
    "<port_map>"
    '<input axis="0" external_port_id="2" internal_layer_id="0" start="0" end="-1" stride="1" part_size="1"/>'
    '<input external_port_id="3" internal_layer_id="1"/><output external_port_id="4" internal_layer_id="3"/>'
    '<output external_port_id="-1" internal_layer_id="5" purpose="execution_condition"/></port_map>'
    '<back_edges><edge from-layer="3" to-layer="1"/></back_edges><body><layers>'
    + layer(0, "Parameter", 'shape="1,4" element_type="f32"', "", port(0, "1 4"))
    + layer(1, "Parameter", 'shape="1,4" element_type="f32"', "", port(0, "1 4"))
    + layer(2, "Add", 'auto_broadcast="numpy"', port(0, "1 4") + port(1, "1 4"), port(2, "1 4", names="carried"))
    + layer(3, "Result", "", port(0, "1 4"), "")
    + layer(4, "Const", 'shape="" element_type="boolean" offset="112" size="1"', "", port(0, "", "BOOL"))
    + layer(5, "Result", "", port(0, "", "BOOL"), "")
    + f"</layers><edges>{edge(0, 0, 2, 0)}{edge(1, 0, 2, 1)}{edge(2, 2, 3, 0)}{edge(4, 0, 5, 0)}</edges></body>"
)
"""Of a loop: adds up the rows of its input."""

IR = (
    HEAD
    + "<layers>"
    + layer(0, "Parameter", 'shape="3,4" element_type="f32"', "", port(0, "3 4", names="x,y"))
    + layer(1, "Const", 'shape="4, 4" element_type="f16" offset="0" size="32"', "", port(0, "4 4", "FP16"))
    + layer(2, "Convert", 'destination_type="f32"', port(0, "4 4", "FP16"), port(1, "4 4"),
            rest='<rt_info><attribute name="decompression" version="0"/></rt_info>')
    + layer(3, "MatMul", 'transpose_a="false" transpose_b="true"', port(0, "3 4") + port(1, "4 4"), port(2, "3 4"))
    + layer(4, "Const", 'shape="4, 1" element_type="i8" offset="32" size="4"', "", port(0, "4 1", "I8"))
    + layer(5, "Convert", 'destination_type="f32"', port(0, "4 1", "I8"), port(1, "4 1"))
    + layer(6, "Const", 'shape="4, 1" element_type="f32" offset="36" size="16"', "", port(0, "4 1"))
    + layer(7, "Multiply", "", port(0, "4 1") + port(1, "4 1"), port(2, "4 1"))
    + layer(8, "Reshape", 'special_zero="false"', port(0, "4 1") + port(1, "1", "I64"), port(2, "4"))
    + layer(9, "Const", 'shape="1" element_type="i64" offset="56" size="8"', "", port(0, "1", "I64"))
    + layer(10, "Add", "", port(0, "3 4") + port(1, "4"), port(2, "3 4"))
    + layer(11, "Const", 'shape="" element_type="i64" offset="64" size="8"', "", port(0, "", "I64"))
    + layer(12, "Const", 'shape="" element_type="boolean" offset="112" size="1"', "", port(0, "", "BOOL"))
    + layer(13, "Const", 'shape="1, 4" element_type="f32" offset="72" size="16"', "", port(0, "1 4"))
    + layer(14, "Loop", "", port(0, "", "I64") + port(1, "", "BOOL") + port(2, "3 4") + port(3, "1 4"), port(4, "1 4"),
            rest=BODY)
    + layer(15, "ReadValue", 'variable_id="v" variable_shape="1,4" variable_type="f32"', port(0, "1 4"), port(1, "1 4"))
    + layer(16, "Add", "", port(0, "1 4") + port(1, "1 4"), port(2, "1 4"))
    + layer(17, "Assign", 'variable_id="v"', port(0, "1 4"), port(1, "1 4"))
    + layer(18, "Result", "", port(0, "1 4"), "")
    + "</layers><edges>"
    + "".join(edge(*ends) for ends in [
        (0, 0, 3, 0), (1, 0, 2, 0), (2, 1, 3, 1), (3, 2, 10, 0), (4, 0, 5, 0), (5, 1, 7, 0), (6, 0, 7, 1), (7, 2, 8, 0),
        (9, 0, 8, 1), (8, 2, 10, 1), (10, 2, 14, 2), (11, 0, 14, 0), (12, 0, 14, 1), (13, 0, 14, 3), (13, 0, 15, 0),
        (14, 4, 16, 0), (15, 1, 16, 1), (16, 2, 17, 0), (16, 2, 18, 0)])
    + '</edges><rt_info><info name="OpenVINO Runtime" value="1.0"/></rt_info></net>\n'
)  # fmt: skip
WEIGHTS = bytes(56) + (4).to_bytes(8, "little") + (3).to_bytes(8, "little") + bytes(40) + b"\1"
VALUES = ["", "-1", "0", "1", "2", "3", "13", "4294967296", "9223372036854775807", "18446744073709551616", "-9", "1,2",
          "4,4", "?", "...", "1..8", "f32", "u4", "i64", "string", "nan", "x", "Loop", "If", "Const", "Result",
          "Parameter", "Assign", "Convert", "TensorIterator", "Einsum", "LSTMSequence", "&lt;a&gt;&#10;", "é" * 70]  # fmt: skip


def mutate(chance: random.Random) -> bytes:
    """The IR with bytes flipped, attributes and dimensions changed, elements dropped, doubled or swapped."""
    data = IR.encode()
    for _ in range(chance.choice([1, 1, 1, 2, 3, 6])):
        match chance.randrange(7):
            case 0:
                at = chance.randrange(len(data))
                data = data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
            case 1:
                data = data[: chance.randrange(len(data))] if chance.random() < 0.2 else data
            case 2 | 3:
                data = replace(data, rb'="[^"]*"', f'="{chance.choice(VALUES)}"'.encode(), chance)
            case 4:
                data = replace(data, rb"<dim>[^<]*", f"<dim>{chance.choice(VALUES)}".encode(), chance)
            case 5:
                data = replace(
                    data, rb"<(edge|port|layer|data|input|output|body|back_edges)\b.*?(/>|</\1>)", b"", chance
                )
            case 6:
                found = list(re.finditer(rb"<(edge|port|layer|dim|input|output)\b.*?(/>|</\1>)", data, re.DOTALL))
                if found:
                    one, other = chance.choice(found), chance.choice(found)
                    data = data[: one.start()] + other.group() + data[one.start() :]
    return data


def replace(data: bytes, pattern: bytes, by: bytes, chance: random.Random) -> bytes:
    found = list(re.finditer(pattern, data, re.DOTALL))
    if not found:
        return data
    one = chance.choice(found)
    return data[: one.start()] + by + data[one.end() :]


def graphs(graph: Graph) -> Iterator[Graph]:
    yield graph
    for inner in graph.subgraphs.values():
        yield from graphs(inner)


def hold(graph: Graph) -> None:
    """Refuse a graph that a reader must never give."""
    for each in graphs(graph):
        made = {name for name, tensor in each.tensors.items() if tensor.constant or tensor.variable} | set(each.inputs)
        for place, operator in enumerate(each.operators):
            assert operator.index == place
            assert {name for name in operator.inputs if name} <= made, "an operator runs before its input is made"
            assert set(operator.weights) <= set(operator.inputs)
            made |= set(operator.outputs)
            assert set(operator.subgraphs) <= set(each.subgraphs)
            count(operator, each)
        assert made <= set(each.tensors)
        assert set(each.outputs) <= made
        assert all(key == tensor.name for key, tensor in each.tensors.items())
        assert len({operator.name for operator in each.operators}) == len(each.operators)
        plan_memory(each)
    total_of(graph)


def check(path: Path) -> bool:
    """Whether there is a graph."""
    try:
        graph = OpenVinoReader().read_graph(path)
    except BadModel as error:
        assert error.message
        assert "\n" not in error.message
        return False
    hold(graph)
    return True


def run(folder: Path, mutations: int, seed: int = 7) -> int:
    """How many of `mutations` were read as a graph."""
    chance = random.Random(seed)
    path = folder / "m.xml"
    read = 0
    for _ in range(mutations):
        path.write_bytes(mutate(chance))
        short = chance.random() < 0.2
        path.with_suffix(".bin").write_bytes(WEIGHTS[: chance.randrange(len(WEIGHTS))] if short else WEIGHTS)
        read += check(path)
    return read


def test_the_seed_is_a_graph_of_everything(tmp_path: Path) -> None:
    (tmp_path / "m.xml").write_text(IR)
    (tmp_path / "m.bin").write_bytes(WEIGHTS)
    graph = OpenVinoReader().read_graph(tmp_path / "m.xml")
    hold(graph)
    assert [operator.op for operator in graph.operators] == ["MatMul", "Add", "Loop", "ReadValue", "Add", "Assign"]
    # 3 × 4 × 4 products; additions of 12 and, three times, 4 elements; 4 more behind the loop
    assert (total_of(graph).macs, total_of(graph).ops) == (48, 96 + 12 + 12 + 4)
    assert total_of(graph).parameters == 16 + 4


@pytest.mark.parametrize("mutations", FEW_AND_MANY)
def test_mutations(tmp_path: Path, mutations: int) -> None:
    read = run(tmp_path, mutations)
    assert mutations * 0.05 < read < mutations * 0.9, "the mutations are all fatal or all harmless: a fuzz of nothing"


@pytest.mark.parametrize("length", range(0, len(WEIGHTS), 7))
def test_truncated_weights_are_noticed(tmp_path: Path, length: int) -> None:
    (tmp_path / "m.xml").write_text(IR)
    (tmp_path / "m.bin").write_bytes(WEIGHTS[:length])
    with pytest.raises(BadModel, match=says("truncated-bytes-constant-ends")):
        OpenVinoReader().read_graph(tmp_path / "m.xml")


if __name__ == "__main__":  # many more: python tests/property/test_openvino_fuzz.py FOLDER COUNT SEED
    import sys

    begin = time.perf_counter()
    print(run(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])), time.perf_counter() - begin)
