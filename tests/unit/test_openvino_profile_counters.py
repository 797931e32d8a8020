"""OpenVINO's counters and names: the parts that need no engine."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.runtime.lineage import Outline, OutlineNode
from edgewise.runtime.openvino_lineage import Part, claims_of, tensors_by_flow, tensors_by_order
from edgewise.runtime.openvino_profile import mean_increase


def averages(readings, counts):
    """What a counter says after so many readings."""
    return {count: sum(readings[:count]) // count for count in counts}


def test_a_cold_reading_is_told_from_the_rest():
    readings = [700] + [40] * 12
    assert mean_increase(averages(readings, (1, 3, 13))) == pytest.approx(40, abs=0.8)


def test_a_step_below_the_clock():
    assert mean_increase({1: 0, 3: 0, 13: 0}) == 0
    assert mean_increase({1: 5, 3: 1, 13: 0}) == 0


@given(st.integers(0, 5000), st.lists(st.integers(0, 200), min_size=3, max_size=60))
def test_the_mean_is_known_to_what_cutting_leaves_open(cold, readings):
    every = [cold, *readings]
    counts = (1, 3, len(every))
    truth = sum(every[3:]) / max(1, len(every) - 3)
    if len(every) > 3:
        found = mean_increase(averages(every, counts))
        # Half of what both sums may be off by; an average below 1 counts as 0.
        slack = (len(every) - 1 + 2) / 2 / (len(every) - 3)
        assert abs(found - truth) <= slack + 1


def outline(*rows, constants=()):
    nodes = []
    for row in rows:
        left, right = row.split("->")
        name, op, *inputs = left.split()
        nodes.append(OutlineNode(name, op, tuple(inputs), tuple(right.split())))
    return Outline(tuple(nodes), frozenset(constants))


def part(name, made_of="", *fed_with):
    return Part((name, made_of), fed_with)


GRAPH = outline(
    "c Convolution x -> c1", "b Add c1 -> b1", "r Relu b1 -> r1", "m ReduceMean r1 -> m1", "y MatMul m1 -> y"
)


def test_names_that_a_step_lists():
    assert claims_of(GRAPH, [part("c", "c,b,r"), part("m", "m"), part("y", "y")]) == [(0, 1, 2), (3,), (4,)]


def test_what_was_replaced_belongs_to_the_step_that_lists_what_follows_it():
    assert claims_of(GRAPH, [part("Multiply_9", "Multiply_9,b,r"), part("m", "m"), part("y", "y")]) == [
        (0, 1, 2),
        (3,),
        (4,),
    ]


def test_a_step_with_a_name_of_the_engines_own_takes_what_its_type_stands_for():
    parts = [part("c", "c,b,r"), part("ReduceMean_7", "ReduceMean_7", "c"), part("y", "y", "ReduceMean_7")]
    assert claims_of(GRAPH, parts) == [(0, 1, 2), (3,), (4,)]
    fused = [part("c", "c,b,Relu_8"), part("m", "m", "c"), part("y", "y", "m")]
    assert claims_of(GRAPH, fused) == [(0, 1, 2), (3,), (4,)]


def test_suffixes_of_the_engine_and_names_with_commas():
    graph = outline("a,b MatMul x -> a1", "c Relu a1 -> y")
    assert claims_of(graph, [part("a,b/DequantizationMultiply", "a,b/DequantizationMultiply,Multiply_3,c")]) == [(0, 1)]


def test_tensors_of_what_an_operator_was_unfolded_into():
    found = tensors_by_flow(GRAPH, [(), ("sum",), (), (), ("y",)])
    assert found == [("sum",), ("sum",), ("y",), ("y",), ("y",)]


def tflite(*rows, constants=()):
    return outline(*(f"- {row}" for row in rows), constants=constants)


#: conv → conv (branch), conv (branch) → add → softmax
FILE = tflite("3 x w -> a", "3 a w -> b", "3 a w -> c", "0 b c -> s", "25 s -> y", constants=["w"])


def test_heavy_operators_are_those_of_the_file_in_the_order_they_were_made():
    # The engine's order puts the second branch first.
    graph = outline(
        "Convolution_10 Convolution x k -> a",
        "Convolution_30 Convolution a k -> c",
        "Convolution_20 Convolution a k -> b",
        "Transpose_90 Relu b -> r",
        "Transpose_91 Add r c -> s",
        "4 Softmax s -> y",
        constants=["k"],
    )
    none = [()] * 6
    assert tensors_by_order(graph, none, FILE) == [("a",), ("c",), ("b",), (), ("s",), ("y",)]


def test_pairs_that_the_data_flow_does_not_confirm_are_dropped():
    graph = outline(
        "Convolution_10 Convolution x k -> a",
        "Convolution_20 Convolution a k -> b",
        "Convolution_30 Convolution b k -> c",
        "4 Softmax c -> y",
        constants=["k"],
    )
    found = tensors_by_order(graph, [()] * 4, FILE)
    assert found[2] == ()
    assert found[3] == ("y",)


def test_other_counts_pair_nothing():
    graph = outline("Convolution_10 Convolution x k -> a", "Convolution_20 Convolution a k -> y", constants=["k"])
    assert tensors_by_order(graph, [()] * 2, FILE) == [(), ()]
    assert tensors_by_order(graph, [("a",), ()], FILE) == [("a",), ()]
