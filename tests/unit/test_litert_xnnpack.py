"""What XNNPACK's steps stand for, from their types and order alone."""

import pytest

from edgewise.model.cost import KINDS
from edgewise.runtime.litert_xnnpack import (
    _COMPUTING,
    _FREE_OPERATORS,
    _FREE_STEPS,
    KINDS_OF_STEPS,
    LiteRtOperator,
    dtype_of,
    interpret_steps,
    type_of,
)

CONV = "Convolution (NHWC, QC8) IGEMM"
POINTWISE = "Fully Connected (NC, QS8, QC8W) GEMM"
RESHAPE = "Static Reshape (NC)"


def operators(*ops, first=0):
    return tuple(LiteRtOperator(index=first + at, op=op, output=f"t{first + at}") for at, op in enumerate(ops))


def originals(tags, network):
    return [meaning.originals for meaning in interpret_steps(tags, network)]


def test_tables_speak_of_known_kinds():
    assert {kind for kinds in KINDS_OF_STEPS.values() for kind in kinds} <= set(KINDS)
    assert {name for names in _COMPUTING.values() for name in names} <= set(KINDS_OF_STEPS) - set(_FREE_STEPS)
    assert set(_FREE_STEPS) <= set(KINDS_OF_STEPS)
    assert not set(_COMPUTING) & set(_FREE_OPERATORS)
    assert set(_FREE_OPERATORS.values()) <= set(_FREE_STEPS.values())


@pytest.mark.parametrize(
    ("tag", "kind", "dtype"),
    [
        (CONV, "Convolution", "int8"),
        ("Convolution (NHWC, F32) DWConv", "Convolution", "float32"),
        ("Fully Connected (NC, QDU8, F32, QC8W) GEMM", "Fully Connected", "int8"),
        ("Softmax (NC, F16)", "Softmax", "float16"),
        ("Max Pooling (NHWC, U8)", "Max Pooling", "uint8"),
        ("Add (ND)", "Add", None),
        ("Convert (NC, F32, QDU8)", "Convert", None),
        ("Copy (NC, X32)", "Copy", None),
        ("Something New", "Something New", None),
    ],
)
def test_words_of_a_tag(tag, kind, dtype):
    assert (type_of(tag), dtype_of(tag)) == (kind, dtype)


def test_an_activation_of_its_own_step_belongs_to_the_operator_before():
    network = operators("CONV_2D", "ADD", "CONV_2D")
    tags = [CONV, "Add (ND)", "Clamp (NC)", CONV]
    assert originals(tags, network) == [("t0",), ("t1",), ("t1",), ("t2",)]


def test_a_model_with_activations_of_its_own():
    network = operators("ADD", "RELU", "ADD", "RELU")
    assert originals(["Add (ND)", "Clamp (NC)", "Add (ND)", "Clamp (NC)"], network) == [
        ("t0",), ("t1",), ("t2",), ("t3",),
    ]  # fmt: skip
    # One was merged: which one is open, so that neither is named.
    both = operators("ADD", "RELU", "RELU6")
    assert originals(["Add (ND)", "Clamp (NC)"], both) == [("t0",), ()]


def test_reshapes_around_a_fully_connected_layer():
    assert originals([RESHAPE, POINTWISE], operators("FULLY_CONNECTED")) == [("t0",), ("t0",)]
    network = operators("RESHAPE", "FULLY_CONNECTED")
    assert originals([RESHAPE, RESHAPE, POINTWISE], network) == [("t0",), ("t1",), ("t1",)]
    # The model's or the layer's own: it can't be told.
    assert originals([RESHAPE, POINTWISE], network) == [(), ("t1",)]
    assert originals([RESHAPE, CONV], operators("RESHAPE", "CONV_2D")) == [("t0",), ("t1",)]


def test_a_padding_may_vanish():
    network = operators("PAD", "CONV_2D", "PAD", "CONV_2D")
    assert originals([CONV, CONV], network) == [("t1",), ("t3",)]
    pad = "Constant Pad (ND, X8)"
    assert originals([pad, CONV, pad, CONV], network) == [("t0",), ("t1",), ("t2",), ("t3",)]


def test_conversions_that_the_model_does_not_ask_for():
    tags = ["Convert (NC, F32, QDU8)", "Convolution (NHWC, QDU8, F32, QC8W) IGEMM"]
    inserted, convolution = interpret_steps(tags, operators("CONV_2D"))
    assert (inserted.role, inserted.originals) == ("precision", ("t0",))
    assert (convolution.role, convolution.originals) == ("operator", ("t0",))
    asked = interpret_steps(["Convert (NC, F32, QS8)", CONV], operators("QUANTIZE", "CONV_2D"))
    assert [(each.role, each.originals) for each in asked] == [("operator", ("t0",)), ("operator", ("t1",))]
    # Nothing is known of the operators: it may well be the model's.
    assert interpret_steps(tags, ())[0].role == "operator"


@pytest.mark.parametrize(
    ("tags", "network"),
    [
        pytest.param([CONV], operators("CONV_2D", "CONV_2D"), id="fewer"),
        pytest.param([CONV, CONV], operators("CONV_2D"), id="more"),
        pytest.param(["Add (ND)"], operators("MUL"), id="another type"),
        pytest.param([CONV], operators("SOMETHING_NEW"), id="unknown operator"),
        pytest.param(["Something New (ND)"], operators("ADD"), id="unknown step"),
        pytest.param([CONV], (), id="nothing known"),
    ],
)
def test_steps_that_can_not_be_told_get_no_names(tags, network):
    assert originals(tags, network) == [()] * len(tags)
