"""What the memory of a model consists of: weights, activations, and what the engine adds."""

from __future__ import annotations

import pytest
from onnx import TensorProto, helper

from edgewise.model.identity import read_graph
from edgewise.model.memory_plan import find_peak, plan_memory
from edgewise.run.complexity import with_engine_memory
from messages import wording
from sample_runs import measured, missing


def rows(*, delta=10e6, weights=1e6, activations=2e6):
    given = {"memory_delta": delta, "parameters_size": weights, "memory_activations": activations}
    return tuple(missing(name, "why") if value is None else measured(name, value) for name, value in given.items())


def engine_row(told):
    return next((row for row in with_engine_memory(told) if row.metric == "memory_engine"), None)


def test_what_is_neither_weights_nor_activations_is_the_engines():
    assert engine_row(rows()).value == 7e6
    assert engine_row(rows()).basis == "derived"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"weights": None}, wording("size-weights-activations-unknown")),
        ({"activations": None}, wording("size-weights-activations-unknown")),
        ({"delta": 2.5e6}, wording("process-grew-less-than-weights")),
    ],
)
def test_an_overhead_that_cant_be_known_is_absent_with_the_reason(given, why):
    found = engine_row(rows(**given))
    assert found.value is None and why in found.absent_because


def test_without_a_memory_of_the_model_there_is_nothing_to_divide():
    assert engine_row(rows(delta=None)) is None


def test_the_peak_of_activations_is_the_plans_lower_bound(tmp_path):
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 256])  # noqa: E731
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Add", ["a", "x"], ["y"])]
    graph = helper.make_graph(nodes, "g", [value("x")], [value("y")])
    path = tmp_path / "m.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
    read = read_graph(path)
    assert find_peak(read) == plan_memory(read).lower_bound_bytes == 3 * 256 * 4
