"""Networks that can't be lowered to C: the reasons, and what to do."""

from __future__ import annotations

import re

import numpy as np
import pytest

from edgewise.errors import BadModel
from edgewise.estimating.mcu.arena import plan_arena
from edgewise.estimating.mcu.emit import CanNotLower
from edgewise.estimating.mcu.folding import fold_shapes, is_folded
from edgewise.estimating.mcu.lowering import lower
from edgewise.estimating.mcu.network import read_network
from mcu_graphs import INT16, RESOURCE, Net, open_reshape
from messages import says, wording
from tflite_writer import FLOAT, INT4, INT8, INT32


def refusal(tmp_path, net):
    network = read_network(net.finish(tmp_path / "m.tflite"))
    with pytest.raises(CanNotLower) as caught:
        lower(network, plan_arena(network)[1])
    return caught.value.message, caught.value.advice


def chain_of(kinds, codes, *, weights=None):
    """Operators one after the other; the tensors between them have these kinds."""
    net = Net()
    tensors = [net.tensor([1, 8], 0.1 if kind in (INT8, INT16) else None, kind=kind) for kind in kinds]
    for code, before, after in zip(codes, tensors[:-1], tensors[1:], strict=True):
        more = [net.tensor([8, 8], 0.1, data=np.ones((8, 8), weights))] if code == "FULLY_CONNECTED" else []
        options = {"FULLY_CONNECTED": {"FullyConnected": {}}}.get(code, {})
        net.step(code, [before, *more], [after], **options)
    net.inputs, net.outputs = tensors[:1], tensors[-1:]
    return net


@pytest.mark.parametrize(
    ("kinds", "codes", "weights", "reason", "advice"),
    [
        ([FLOAT] * 3, ["TANH", "RELU"], None,
         "each of 2 operators (TANH and 1 other type; the first is operator 0) works on float32",
         "quantise the model to int8: 'edgewise convert MODEL --precision int8 --data DATA', or with a check of its "
         "accuracy and speed 'edgewise optimize MODEL --data DATA --task TASK -d DEVICE'"),
        ([INT8, FLOAT, FLOAT, FLOAT], ["DEQUANTIZE", "TANH", "RELU"], None,
         "each of 2 of 3 operators (TANH and 1 other type; the first is operator 1) works on float32",
         "quantise the model to int8"),
        ([FLOAT] * 2, ["FULLY_CONNECTED"], np.int8, "operator 0 (FULLY_CONNECTED) works on float32",
         "only the weights are int8: quantise the activations, too"),
        ([INT8, INT8, FLOAT, FLOAT, INT8], ["RELU", "DEQUANTIZE", "TANH", "QUANTIZE"], None,
         "operator 2 (TANH) works on float32", "quantise the operators between DEQUANTIZE and QUANTIZE, too"),
        ([INT16] * 2, ["RELU"], None, "operator 0 (RELU) works on int16", "quantise activations to int8"),
        ([INT8] * 2, [":MyOwn"], None, "not supported: custom operator MyOwn (operator 0)",
         "replace these operators"),
        ([FLOAT] * 3, ["RELU", ":FlexErf"], None, "not supported: custom operator FlexErf (operator 1)",
         "convert the original again with built-in operators only"),
    ],
)  # fmt: skip
def test_the_reason_and_the_advice_fit_the_model(tmp_path, kinds, codes, weights, reason, advice):
    message, found = refusal(tmp_path, chain_of(kinds, codes, weights=weights))
    assert message.startswith(reason) and found.startswith(advice) and bool(found) == bool(advice)


def test_four_bit_weights_beside_float_activations_are_called_what_they_are(tmp_path):
    net = Net()
    given, made = net.tensor([1, 8], kind=FLOAT), net.tensor([1, 8], kind=FLOAT)
    weights = net.tensor([8, 8], 0.1, kind=INT4, data=np.zeros(32, np.int8))
    net.step("FULLY_CONNECTED", [given, weights], [made], FullyConnected={})
    net.inputs, net.outputs = [given], [made]
    assert refusal(tmp_path, net)[1].startswith("only the weights are int4: quantise the activations, too")


def test_a_state_that_nothing_assigns_is_refused(tmp_path):
    net = Net()
    handle, out = net.tensor([1], kind=RESOURCE), net.tensor([1, 8], 0.1)
    net.step("VAR_HANDLE", [], [handle], VarHandle={"shared_name": "s"})
    net.step("READ_VARIABLE", [handle], [out], ReadVariable={})
    net.outputs = [out]
    assert refusal(tmp_path, net)[0] == "operator 1 (READ_VARIABLE) uses a state that no operator assigns"


def test_an_output_of_another_shape_than_the_input_gives_is_refused(tmp_path):
    net = Net()
    source, out = net.tensor([1, 9, 14, 1], 0.1), net.tensor([1, 5, 5, 2], 0.1)
    weights = net.tensor([2, 3, 3, 1], 0.1, data=np.ones((2, 3, 3, 1), np.int8))
    net.step("CONV_2D", [source, weights], [out], Conv2D={"stride_h": 2, "stride_w": 2})
    net.inputs, net.outputs = [source], [out]
    assert refusal(tmp_path, net)[0] == "operator 0 (CONV_2D) makes 7 rows or columns of 14, and its output has 5"


@pytest.mark.parametrize(("kernel", "stride"), [(-5, 1), (0, 1), (2, 0)])
def test_a_window_without_a_size_is_refused(tmp_path, kernel, stride):
    net = Net()
    source, out = net.tensor([1, 4, 4, 1], 0.1), net.tensor([1, 4, 4, 1], 0.1)
    options = {"filter_height": kernel, "filter_width": 1, "stride_h": stride, "stride_w": 1}
    net.step("MAX_POOL_2D", [source], [out], Pool2D=options)
    net.inputs, net.outputs = [source], [out]
    assert f"has the kernel {kernel}, the stride {stride} and the dilation 1" in refusal(tmp_path, net)[0]


@pytest.mark.parametrize("code", ["PAD", "MIRROR_PAD"])
def test_an_output_without_room_for_the_input_is_refused(tmp_path, code):
    net = Net()
    source, out = net.tensor([4, 9], 0.1), net.tensor([6, 8], 0.1)
    net.step(code, [source, net.words([[1, 1], [0, 0]])], [out])
    net.inputs, net.outputs = [source], [out]
    assert re.search(says("elements-shape-move"), refusal(tmp_path, net)[0])


def test_an_axis_outside_of_the_shape_is_refused(tmp_path):
    net = Net()
    source, out = net.tensor([1, 4, 8], 0.1), net.tensor([1, 8], 0.1)
    net.step("MEAN", [source, net.words([4])], [out], Reducer={"keep_dims": False})
    net.inputs, net.outputs = [source], [out]
    assert refusal(tmp_path, net)[0] == "operator 0 (MEAN) has the axis 4 of 3 dimensions"


def test_activations_that_no_microcontroller_holds_are_refused_before_they_are_made(tmp_path):
    net = Net()
    net.inputs = net.outputs = [net.tensor([2**20, 2**10], 0.1)]
    assert refusal(tmp_path, net)[0] == wording("activations-need-b-more-than", arena_bytes="1,073,741,824")


def test_a_zero_point_outside_of_int8_is_damage(tmp_path):
    net = Net()
    net.inputs = net.outputs = [net.tensor([1, 8], 0.1, 200)]
    with pytest.raises(BadModel, match=says("tensor-zero-point-which-cant", at=0, zero=200, dtype="int8")):
        read_network(net.finish(tmp_path / "m.tflite"))


@pytest.mark.parametrize("scale", [1e20, -0.1, np.inf, np.nan])
def test_a_scale_without_a_fixed_point_number_is_refused(tmp_path, scale):
    net = Net()
    source, out = net.tensor([1, 8], scale), net.tensor([1, 8], 0.1)
    net.step("LEAKY_RELU", [source], [out], LeakyRelu={"alpha": 0.5})
    net.inputs, net.outputs = [source], [out]
    assert re.search(says("shapes-options-cant", error=says("scales-give-factor-which-not")), refusal(tmp_path, net)[0])


def test_constants_alone_need_no_folding(tmp_path):
    """The operator is executed: tflite-micro does not compute constants beforehand either."""
    net = Net()
    constant = net.tensor([1, 8], 0.1, data=np.arange(8, dtype=np.int8))
    source, made, out = (net.tensor([1, 8], 0.1) for _ in range(3))
    net.step("ABS", [constant], [made])
    net.step("MAXIMUM", [source, made], [out], MaximumMinimum={})
    net.inputs, net.outputs = [source], [out]
    network = read_network(net.finish(tmp_path / "m.tflite"))
    assert lower(network, plan_arena(network)[1]).kernels == ["C", "C"]


def test_operators_on_shapes_are_constants(tmp_path):
    network = fold_shapes(read_network(open_reshape(tmp_path / "m.tflite", batch=3)))
    relu, shape, first, wanted, reshape = network.operators
    assert [is_folded(each) for each in network.operators] == [False, True, True, True, False]
    made = [each.outputs[0].data for each in (shape, first, wanted)]
    assert [each.tolist() for each in made] == [[3, 4, 2], 3, [3, 8]]
    assert reshape.inputs[1].data.tolist() == [3, 8] and relu.outputs[0].data is None
    assert lower(network, plan_arena(network)[1]).calls[1:4] == ["", "", ""]


@pytest.mark.parametrize(
    ("code", "operands", "shape", "values", "options"),
    [
        ("CONCATENATION", [[1, 2], [3]], [3], [1, 2, 3], {"Concatenation": {"axis": 0}}),
        ("GATHER", [[5, 6, 7], [2, 0]], [2], [7, 5], {"Gather": {"axis": 0}}),
        ("REDUCE_PROD", [[2, 3, 4], [0]], [1], [24], {"Reducer": {"keep_dims": True}}),
        ("ADD", [[2, 3], [4, 5]], [2], [6, 8], {"Add": {}}),
        ("SUB", [[2, 3], [4, 5]], [2], [-2, -2], {"Sub": {}}),
        ("MUL", [[2, 3], [4, 5]], [2], [8, 15], {"Mul": {}}),
        ("RESHAPE", [[1, 2, 3, 4], [2, 2]], [2, 2], [[1, 2], [3, 4]], {"Reshape": {}}),
        ("STRIDED_SLICE", [[1, 2, 3, 4], [1], [4], [2]], [2], [2, 4], {"StridedSlice": {}}),
        ("GATHER", [[5, 6, 7], [3]], [1], None, {"Gather": {"axis": 0}}),
        ("ADD", [[2, 3], [4, 5]], [3], None, {"Add": {}}),
    ],
)
def test_integers_that_are_known_are_computed(tmp_path, code, operands, shape, values, options):
    net = Net()
    net.step(code, [net.words(each) for each in operands], [out := net.tensor(shape, kind=INT32)], **options)
    net.inputs, net.outputs = [net.tensor([1], 0.1)], [out]
    (operator,) = fold_shapes(read_network(net.finish(tmp_path / "m.tflite"))).operators
    found = operator.outputs[0].data
    assert (None if found is None else found.tolist()) == values


def test_integers_of_an_input_are_not_constants(tmp_path):
    net = Net()
    given, out = net.tensor([2], kind=INT32), net.tensor([2], kind=INT32)
    net.step("ADD", [given, net.words([1, 1])], [out], Add={})
    net.inputs, net.outputs = [given], [out]
    (operator,) = fold_shapes(read_network(net.finish(tmp_path / "m.tflite"))).operators
    assert not is_folded(operator)
