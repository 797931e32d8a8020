"""Bodies of an OpenVINO IR's loops and branches, and states that live on from run to run."""

from __future__ import annotations

import re
import struct

import pytest

from edgewise.model.cost import total_of
from messages import says, wording
from openvino_writer import Ir, const, layer, network, parameter, port, result


@pytest.fixture
def read(tmp_path):
    """Write an IR and read its graph."""
    return Ir(tmp_path).read


@pytest.fixture
def refuse(tmp_path):
    """Write an IR and say why it is refused."""
    return Ir(tmp_path).refuse


def test_states(read):
    layers = [
        layer(3, "Assign", [port(0, (1, 4))], [port(1, (1, 4))], variable_id="7"),
        parameter(0, (1, 4)),
        layer(1, "ReadValue", [port(0, (1, 4))], [port(1, (1, 4))], variable_id="7", variable_shape="1,4"),
        layer(2, "Add", [port(0, (1, 4)), port(1, (1, 4))], [port(2, (1, 4))]),
        result(4, (1, 4)),
    ]
    graph = read(layers, (0, 0, 1, 0), (1, 1, 2, 0), (0, 0, 2, 1), (0, 0, 3, 0), (2, 2, 4, 0))
    assert [operator.op for operator in graph.operators] == ["ReadValue", "Assign", "Add"]  # read before written
    assert [operator.inputs for operator in graph.operators[:2]] == [("Parameter_0", "7"), ("Parameter_0", "7")]
    state = graph.tensors["7"]
    assert (state.shape, state.variable, state.constant) == ((1, 4), True, False)
    assert graph.operators[1].outputs == ()


def loop(entries, back, body, inputs, outputs, *, kind="Loop"):
    maps = "".join(f"<{side} " + " ".join(f'{k}="{v}"' for k, v in entry.items()) + "/>" for side, entry in entries)
    returns = "".join(f'<edge from-layer="{a}" to-layer="{b}"/>' for a, b in back)
    rest = f"<port_map>{maps}</port_map><back_edges>{returns}</back_edges><body>{body}</body>"
    return layer(5, kind, inputs, outputs, rest=rest, version="opset5")


BODY = network(
    [
        parameter(0, (4, 1, 8)), parameter(1, (4, 1, 8)), parameter(2, (8, 8)),
        layer(3, "MatMul", [port(0, (4, 1, 8)), port(1, (8, 8))], [port(2, (4, 1, 8))]),
        layer(4, "Add", [port(0, (4, 1, 8)), port(1, (4, 1, 8))], [port(2, (4, 1, 8))]),
        const(5, (), 8, 1, dtype="boolean", precision="BOOL"), result(6, ()), result(7, (4, 1, 8)),
    ],
    (0, 0, 3, 0), (2, 0, 3, 1), (3, 2, 4, 0), (1, 0, 4, 1), (5, 0, 6, 0), (4, 2, 7, 0),
)  # fmt: skip
SLICED = ("input", {"axis": 1, "external_port_id": 2, "internal_layer_id": 0, "start": 0, "end": -1, "part_size": 1})
ENTRIES = [
    SLICED,
    ("input", {"external_port_id": 3, "internal_layer_id": 1}),
    ("input", {"external_port_id": 4, "internal_layer_id": 2}),
    ("output", {"external_port_id": 5, "internal_layer_id": 7}),
    ("output", {"external_port_id": -1, "internal_layer_id": 6, "purpose": "execution_condition"}),
]
OUTSIDE = [
    const(0, (), 0, 8, dtype="i64", precision="I64"), const(1, (), 8, 1, dtype="boolean", precision="BOOL"),
    parameter(2, (4, 3, 8)), parameter(3, (4, 1, 8)), const(4, (8, 8), 9, 256, name="w"), result(6, (4, 1, 8)),
]  # fmt: skip
LOOP_PORTS = [port(0, (), "I64"), port(1, (), "BOOL"), port(2, (4, 3, 8)), port(3, (4, 1, 8)), port(4, (8, 8))]
WIRED = [(0, 0, 5, 0), (1, 0, 5, 1), (2, 0, 5, 2), (3, 0, 5, 3), (4, 0, 5, 4), (5, 5, 6, 0)]


def weigh(trips, condition=1):
    return struct.pack("<qB", trips, condition) + bytes(256)


@pytest.mark.parametrize(("trips", "condition", "runs"), [(3, 1, 3), (2, 1, 2), (0, 1, 0), (-1, 1, 3), (3, 0, 0)])
def test_loop(read, trips, condition, runs):
    cell = loop(ENTRIES, [(7, 1)], BODY, LOOP_PORTS, [port(5, (4, 1, 8))])
    graph = read([*OUTSIDE, cell], *WIRED, weights=weigh(trips, condition))
    operator = graph.operators[0]
    assert (operator.kind, operator.geometry, operator.subgraphs) == ("loop", {"trips": runs}, ("Loop_5/body",))
    body = graph.subgraphs["Loop_5/body"]
    assert body.inputs == ("Parameter_0", "Parameter_1")  # the third is the constant outside, by its name there
    assert body.operators[0].weights == ("w:0",)
    # 4 rows of 8 outputs: 8 products and one sum each
    found = total_of(graph)
    assert (found.macs, found.ops, found.parameters) == (256 * runs, 544 * runs, 64)
    assert operator.attributes["back_edges"] == [["7", "1"]]
    assert operator.attributes["port_map"][0]["axis"] == "1"


def test_a_loop_of_unknown_length(read):
    layers = [
        parameter(0, (), dtype="i64"),
        *OUTSIDE[1:],
        loop(ENTRIES, [(7, 1)], BODY, LOOP_PORTS, [port(5, (4, 1, 8))]),
    ]
    graph = read(layers, *WIRED, weights=weigh(1))
    assert graph.operators[0].geometry == {}
    assert total_of(graph).macs is None
    assert wording("number-repetitions-depends-data") in total_of(graph).why


@pytest.mark.parametrize(
    ("option", "runs"),
    [({}, 3), ({"part_size": 3}, 1), ({"start": -1, "end": 0, "stride": -1}, 3), ({"end": 1}, 2), ({"axis": 9}, None),
     ({"part_size": 0}, None), ({"start": 7}, None), ({"axis": -2}, 3), ({"axis": "x"}, None)],
)  # fmt: skip
def test_tensor_iterator(read, option, runs):
    entries = [("input", SLICED[1] | option), *ENTRIES[1:4]]
    cell = loop(entries, [(7, 1)], BODY, LOOP_PORTS, [port(5, (4, 1, 8))], kind="TensorIterator")
    graph = read([*OUTSIDE, cell], *WIRED, weights=weigh(1))
    assert graph.operators[0].geometry.get("trips") == runs


def test_if(read):
    def branch(kind):
        return network([parameter(0, (2, 3)), layer(1, kind, [port(0, (2, 3))], [port(1, (2, 3))]), result(2, (2, 3))],
                       (0, 0, 1, 0), (1, 1, 2, 0))  # fmt: skip

    def choose(then, other):
        ends = '<input external_port_id="1" internal_layer_id="0"/><output external_port_id="2" internal_layer_id="2"/>'
        rest = f"<then_port_map>{ends}</then_port_map><else_port_map>{ends}</else_port_map>"
        rest += f"<then_body>{branch(then)}</then_body><else_body>{branch(other)}</else_body>"
        cell = layer(2, "If", [port(0, (), "BOOL"), port(1, (2, 3))], [port(2, (2, 3))], rest=rest)
        layers = [parameter(0, (), dtype="boolean"), parameter(1, (2, 3)), cell, result(3, (2, 3))]
        return read(layers, (0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0))

    graph = choose("ReLU", "Tanh")
    assert graph.operators[0].subgraphs == ("If_2/then_body", "If_2/else_body")
    assert (total_of(graph).macs, total_of(graph).ops) == (0, None)
    assert total_of(choose("ReLU", "Exp")).ops == 6


@pytest.mark.parametrize(
    ("entry", "back"),
    [({"external_port_id": 9, "internal_layer_id": 0}, []), ({"external_port_id": 2, "internal_layer_id": 9}, []),
     ({"external_port_id": 2, "internal_layer_id": 3}, []), ({}, []), ({}, [(9, 0)]), (None, [(7, 3)]), (None, [(0, 1)])],
)  # fmt: skip
def test_bodies_that_are_connected_to_nowhere(refuse, entry, back):
    entries = [*ENTRIES[1:], ("input", entry)] if entry is not None else ENTRIES
    cell = loop(entries, back, BODY, LOOP_PORTS, [port(5, (4, 1, 8))])
    message = refuse([*OUTSIDE, cell], *WIRED, weights=weigh(1))
    assert "connections" in message or re.search(says("loop-carried-value-no-source"), message)


def test_bodies_nested_too_deep(refuse):
    body = network([parameter(0, (1,)), result(1, (1,))], (0, 0, 1, 0))
    for _ in range(20):
        body = network([parameter(0, (1,)), loop([], [], body, [], []), result(1, (1,))], (0, 0, 1, 0))
    assert wording("bodies-nested-more-than-deep", max_nesting=16) in refuse(
        [parameter(0, (1,)), loop([], [], body, [], []), result(1, (1,))], (0, 0, 1, 0)
    )
