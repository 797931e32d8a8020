"""OpenVINO's counters and names: the parts that need no engine."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.runtime.openvino_mapping import ExecutionStep, claims_of, tensors_by_flow, tensors_by_order
from edgewise.runtime.openvino_profile import mean_increase
from edgewise.runtime.operator_mapping import Outline, OutlineNode


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
    return ExecutionStep((name, made_of), fed_with)


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


def test_an_operator_that_was_moved_across_a_view_belongs_to_the_step_that_replaced_it():
    graph = outline("l LSTMSequence x -> l1", "s Squeeze l1 -> s1", "r Relu s1 -> r1", "c Convolution r1 -> y")
    parts = [part("l", "l"), part("Relu_9", "Relu_9", "l"), part("s", "s", "Relu_9"), part("c", "c", "s")]
    assert claims_of(graph, parts) == [(0,), (2,), (1,), (3,)]


def test_slices_that_became_one_split_belong_to_it():
    graph = outline(
        "c Convolution x -> c1", "a Slice c1 -> a1", "b Slice c1 -> b1", "s Power a1 -> s1", "t Add s1 b1 -> y"
    )
    parts = [part("c", "c"), part("VariadicSplit_9", "VariadicSplit_9", "c"), part("s", "s,t", "VariadicSplit_9")]
    assert claims_of(graph, parts) == [(0,), (1, 2), (3, 4)]


def test_suffixes_of_the_engine_and_names_with_commas():
    graph = outline("a,b MatMul x -> a1", "c Relu a1 -> y")
    assert claims_of(graph, [part("a,b/DequantizationMultiply", "a,b/DequantizationMultiply,Multiply_3,c")]) == [(0, 1)]


def test_tensors_of_what_an_operator_was_unfolded_into():
    found = tensors_by_flow(GRAPH, [(), ("sum",), (), (), ("y",)])
    assert found == [("sum",), ("sum",), ("y",), ("y",), ("y",)]


def tflite(*rows, constants=()):
    return outline(*(f"- {row}" for row in rows), constants=constants)


#: conv → conv (branch), conv (branch) → add → softmax
FILE = tflite(
    "CONV_2D x w -> a", "CONV_2D a w -> b", "CONV_2D a w -> c", "ADD b c -> s", "SOFTMAX s -> y", constants=["w"]
)


def test_heavy_operators_are_those_of_the_file_in_the_order_they_were_made():
    # The engine's order puts the second branch first.
    graph = outline(
        "Convolution_10 Convolution x k -> Convolution_10:0",
        "Convolution_30 Convolution Convolution_10:0 k -> Convolution_30:0",
        "Convolution_20 Convolution Convolution_10:0 k -> Convolution_20:0",
        "Transpose_90 Relu Convolution_20:0 -> Relu_22:0",
        "Transpose_91 Add Relu_22:0 Convolution_30:0 -> Add_40:0",
        "4 Softmax Add_40:0 -> Softmax_50:0",
        constants=["k"],
    )
    none = [()] * 6
    found, beside = tensors_by_order(graph, none, FILE)
    assert found == [("a",), ("c",), ("b",), (), ("s",), ("y",)]
    # The activation was made with the convolution before it.
    assert beside == [(), (), (), ("b",), (), ()]


def test_an_operator_is_as_old_as_its_tensor_whatever_layout_it_is_called_after():
    # prelu and prelu on two branches: changes of layout were moved across the second branch first
    file = tflite(
        "CONV_2D x w -> a", "PRELU a p -> b", "PRELU a p -> c", "CONCATENATION b c -> y", constants=["w", "p"]
    )
    graph = outline(
        "Convolution_10 Convolution x k -> Convolution_10:0",
        "Transpose_99 PRelu Convolution_10:0 k -> PRelu_20:0",
        "Transpose_90 PRelu Convolution_10:0 k -> PRelu_30:0",
        "Concat_40 Concat PRelu_20:0 PRelu_30:0 -> Concat_40:0",
        constants=["k"],
    )
    assert tensors_by_order(graph, [()] * 4, file)[0] == [("a",), ("b",), ("c",), ("y",)]


def test_constants_that_enter_at_other_operators_do_not_break_a_pair():
    # float16 weights: the file converts them and the bias for the convolution; in the engine's model the bias is added
    # after it.
    file = tflite("DEQUANTIZE b16 -> b", "DEQUANTIZE w16 -> w", "CONV_2D x w b -> y", constants=["b16", "w16"])
    graph = outline(
        "Transpose_91 Convert w16 -> Convert_6:0",
        "Convolution_7 Convolution x Convert_6:0 -> Convolution_7:0",
        "Transpose_92 Convert b16 -> Convert_5:0",
        "Transpose_93 Add Convolution_7:0 Convert_5:0 -> Add_8:0",
        constants=["b16", "w16"],
    )
    found, beside = tensors_by_order(graph, [("w",), (), ("b",), ()], file)
    assert found == [("w",), ("y",), ("b",), ()]
    assert beside == [(), (), (), ("y",)]


def test_what_may_be_another_operators_own_work_is_not_taken_for_a_bias():
    # 999: a type without a known heart
    file = tflite("CONV_2D x w -> a", "CUSTOM a -> b", "SOFTMAX b -> y", constants=["w"])
    graph = outline(
        "Convolution_10 Convolution x k -> Convolution_10:0",
        "Erf_12 Erf Convolution_10:0 -> Erf_12:0",
        "Softmax_20 Softmax Erf_12:0 -> Softmax_20:0",
        constants=["k"],
    )
    assert tensors_by_order(graph, [()] * 3, file) == ([("a",), (), ("y",)], [()] * 3)


def test_an_activation_of_its_own_is_told_from_those_inside_a_convolution():
    # convolution with RELU6 → pooling → RELU6 → convolution with RELU6
    file = tflite("CONV_2D x w -> a", "MAX_POOL_2D a -> b", "RELU6 b -> c", "CONV_2D c w -> y", constants=["w"])
    graph = outline(
        "Convolution_10 Convolution x k -> Convolution_10:0",
        "Clamp_12 Clamp Convolution_10:0 -> Clamp_12:0",
        "MaxPool_20 MaxPool Clamp_12:0 -> MaxPool_20:0",
        "Transpose_91 Clamp MaxPool_20:0 -> Clamp_30:0",
        "Convolution_40 Convolution Clamp_30:0 k -> Convolution_40:0",
        "Transpose_92 Clamp Convolution_40:0 -> Clamp_42:0",
        constants=["k"],
    )
    found, beside = tensors_by_order(graph, [()] * 6, file)
    assert found == [("a",), (), ("b",), ("c",), ("y",), ()]
    assert beside == [(), ("a",), (), (), (), ("y",)]


def test_pairs_that_the_data_flow_does_not_confirm_are_dropped():
    graph = outline(
        "Convolution_10 Convolution x k -> Convolution_10:0",
        "Convolution_20 Convolution Convolution_10:0 k -> Convolution_20:0",
        "Convolution_30 Convolution Convolution_20:0 k -> Convolution_30:0",
        "4 Softmax Convolution_30:0 -> Softmax_40:0",
        constants=["k"],
    )
    found, _ = tensors_by_order(graph, [()] * 4, FILE)
    assert found[2] == ()
    assert found[3] == ("y",)


def test_other_counts_pair_nothing():
    graph = outline("Convolution_10 Convolution x k -> a", "Convolution_20 Convolution a k -> y", constants=["k"])
    assert tensors_by_order(graph, [()] * 2, FILE)[0] == [(), ()]
    assert tensors_by_order(graph, [("a",), ()], FILE)[0] == [("a",), ()]
