"""The search for the smallest slower part of a network."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("onnx", reason="parts of ONNX models")
import onnx

from edgewise.converting.onnx_part import Network
from edgewise.errors import RunFailed
from edgewise.verbs.bisect.part import MOST_PARTS, _search

COUNT = 32


@pytest.fixture(scope="module")
def network():
    """Operators in a row, of which the 20th is an Abs."""
    value = onnx.helper.make_tensor_value_info
    nodes = [onnx.helper.make_node("Abs" if at == 20 else "Relu", [f"x{at}"], [f"x{at + 1}"]) for at in range(COUNT)]
    ends = [value(name, onnx.TensorProto.FLOAT, [1, 4]) for name in ("x0", f"x{COUNT}")]
    graph = onnx.helper.make_graph(nodes, "g", ends[:1], ends[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    return Network(onnx.shape_inference.infer_shapes(model), {f"x{at}": (1, 4) for at in range(COUNT + 1)})


def search(network, begin, is_slow, *, clear=False):
    sizes = []

    def compare(file):
        ops = [node.op_type for node in onnx.load(file).graph.node]
        sizes.append(len(ops))
        return SimpleNamespace(verdict="slower" if is_slow(ops) else "same", ratio=1.1, low=1.0, high=1.2)

    found, why = _search(network, begin, compare, clear=clear)
    return None if found is None else [node.op_type for node in found[0].graph.node], sizes, why


@pytest.mark.parametrize("begin", [{20}, {3}, set()])
def test_halves_lead_to_the_operator_wherever_the_search_begins(network, begin):
    found, sizes, why = search(network, begin, lambda ops: "Abs" in ops)
    assert found == ["Abs"] and sizes[0] == COUNT and len(sizes) <= MOST_PARTS and why == ""


def test_an_operator_that_grew_clearly_is_tried_first_and_then_what_is_around_it(network):
    assert search(network, {20}, lambda ops: "Abs" in ops, clear=True)[:2] == (["Abs"], [1])
    assert search(network, {20}, lambda ops: len(ops) >= 3, clear=True)[1] == [1, 3]


def test_what_only_the_whole_network_shows_stays_whole_and_what_nothing_shows_is_none(network):
    found, sizes, _ = search(network, {20}, lambda ops: len(ops) == COUNT)
    assert len(found) == COUNT and sizes == [COUNT, COUNT // 2, COUNT // 2]
    assert search(network, {20}, lambda ops: False)[:2] == (None, [COUNT])


def test_parts_that_can_not_be_compared_are_no_slower_and_the_reason_is_told(network):
    def broken(file):
        raise RunFailed("the engine ended")

    assert _search(network, {20}, broken, clear=True) == (None, "the engine ended")
