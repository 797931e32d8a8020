"""ONNX's dialect as a whole: every operator there is, and whatever a hostile file says of one."""

from __future__ import annotations

import random
import re

import onnx.defs
import pytest

from case_tables import with_each
from edgewise.model.cost import KINDS
from edgewise.model.dialects.base import RawOperator, Semantics
from edgewise.model.dialects.onnx import OPERATORS, interpret
from edgewise.model.graph import Tensor
from messages import says
from onnx_cases import Case, ask, check, cost_of_question, ints, truths

EVERY = [(domain, op) for domain, table in OPERATORS.items() for op in table]


@with_each(sorted({(each.domain, each.name) for each in onnx.defs.get_all_schemas_with_history()}))
def test_every_operator_that_onnx_defines_is_in_a_table(schema):
    domain, op = schema
    rule = OPERATORS[domain][op]
    if isinstance(rule, Semantics):
        assert rule.kind in KINDS or rule.why


def test_a_constant_meaning_speaks_of_what_its_kind_knows():
    for domain, op in EVERY:
        rule = OPERATORS[domain][op]
        if isinstance(rule, Semantics) and rule.kind:
            assert set(rule.geometry) <= set(KINDS[rule.kind].geometry), (domain, op)


def test_the_standard_set_has_two_names():
    relu = Case("Relu", [(2, 3)], [(2, 3)], 0, 6, domain="ai.onnx")
    assert interpret(ask(relu)).geometry == {"activation": "relu"}


@pytest.mark.parametrize(
    ("domain", "op"), [("", "Conw"), ("com.example", "Conv"), ("", "conv"), ("com.microsoft", "Conv")]
)
def test_an_operator_of_another_set_is_unknown(domain, op):
    semantics, cost = cost_of_question(RawOperator(op=op, domain=domain))
    assert semantics == Semantics()
    assert cost.macs is None and cost.ops is None and op in cost.why


@pytest.mark.parametrize(
    ("dtype", "weights"),
    [("float32", (0, 1)), ("float16", (0, 1)), ("int8", (0, 1)), ("int64", (0,)), ("int32", (0,)), ("bool", (0,))],
)
def test_integers_beside_a_tensor_are_no_parameters(dtype, weights):
    assert interpret(ask(Case("Mul", [(2, 3), (dtype, (3,))], [(2, 3)], 0, 6))).weights == weights


def test_inputs_that_are_left_out_are_no_parameters():
    assert interpret(ask(Case("LSTM", [(5, 2, 3), (1, 16, 3), (1, 16, 4)], [(5, 1, 2, 4)], 0, 0))).weights == (1, 2)


ODD_OPTIONS = (
    None, -1, 0, 1, 2, 2**63, -(2**70), 1.5, float("nan"), float("inf"), "", "max", "x" * 10_000, "ij,jk->ik", "...", (),
    (-1,), (2**63,) * 200, (1, 2), ("a", None), (1.5,), ((1,),), {}, True,
)  # fmt: skip
ODD_SHAPES = (
    None, (), (0,), (1,), (3,), (None,), ("n", 2), (2, 3), (0, 0), (2**62, 2**62), (1, 2, 3), (1, 4, 4, 4), (4, 2, 3, 3),
    (1, 0, 3, 3), (1, 2, 3, 4, 5), (2,) * 64, ("n", "m", "n", "k"),
)  # fmt: skip
ODD_VALUES = (None, (), (0,), (-2,), (2,), (7,), (1.5,), (float("nan"),), (2**70,), (True,), ("a",), (1, 2, 3, 4))
OWN_NAMES: dict[tuple[str, str], set[str]] = {}
for schema in onnx.defs.get_all_schemas_with_history():
    OWN_NAMES.setdefault((schema.domain, schema.name), set()).update(schema.attributes)
#: Options of onnxruntime's own operators, which the onnx package does not list.
THEIR_NAMES = [
    "num_heads",
    "kv_num_heads",
    "q_num_heads",
    "K",
    "N",
    "alpha",
    "beta",
    "transA",
    "transB",
    "transBatchA",
    "transBatchB",
    "activation",
    "do_rotary",
    "softcap",
    "channels_last",
    "qkv_hidden_sizes",
    "past_present_share_buffer",
    "rotary_embedding_dim",
    "kernel_shape",
    "group",
    "signal_ndim",
    "metric",
    "mode",
    "smooth_softmax",
    "update_rule",
    "hidden_size",
    "direction",
    "activations",
    "clip",
    "scales",
    "approximate",
]


def odd_question(dice, domain, op):
    def odd_tensor(name):
        if dice.random() < 0.15:
            return None
        dtype = dice.choice(("float32", "int64", "uint8", "bool", "string", "no-such-type"))
        return Tensor(name=name, shape=dice.choice(ODD_SHAPES), dtype=dtype, constant=dice.random() < 0.3)

    values = {at: dice.choice(ODD_VALUES) for at in range(10)}
    names = sorted(OWN_NAMES.get((domain, op), THEIR_NAMES))
    return RawOperator(
        op=op,
        domain=domain,
        version=dice.choice((0, 1, 6, 8, 9, 11, 13, 17, 28, -1)),
        attributes={name: dice.choice(ODD_OPTIONS) for name in dice.sample(names, dice.randint(0, min(len(names), 4)))},
        inputs=[odd_tensor(f"i{at}") for at in range(dice.randrange(10))],
        outputs=[odd_tensor(f"o{at}") for at in range(dice.randrange(4))],
        values=values.get,
    )


def test_whatever_a_file_says_there_is_an_answer():
    dice = random.Random(20)
    known = 0
    for domain, op in EVERY:
        for _ in range(25):
            semantics, cost = cost_of_question(odd_question(dice, domain, op))
            assert cost.macs is None or cost.macs >= 0, (op, semantics)
            assert cost.ops is None or cost.ops >= 0, (op, semantics)
            assert cost.why or (cost.macs is not None and cost.ops is not None)
            known += cost.macs is not None
    assert known > 1000  # it is not all refused


@pytest.mark.parametrize(
    ("op", "options", "why"),
    [
        ("Conv", {"kernel_shape": (3, -3)}, says("option-not-size")),
        ("Conv", {"kernel_shape": (2,) * 65}, says("option-not-list-most")),
        ("Conv", {"group": "two"}, says("option-not-whole-number")),
        ("MaxPool", {"kernel_shape": 3}, says("option-not-list-most")),
        ("Gelu", {"approximate": 1}, says("option-not-text")),
        ("Swish", {"alpha": "high"}, says("option-not-number")),
        ("Scan", {"num_scan_inputs": 9}, says("scans-inputs", scanned=9)),
        ("LSTM", {"hidden_size": -4}, says("option-not-size")),
        ("Einsum", {"equation": "a" * 5000}, says("equation-characters", equation_count=5000)),
    ],
)
def test_an_option_that_makes_no_sense_is_named(op, options, why):
    semantics = interpret(ask(Case(op, [(1, 4, 8, 8), "rank unknown"], [(1, 4, 6, 6)], None, None, options=options)))
    assert semantics.kind == "" and re.search(why, semantics.why)


def test_a_mask_of_truth_values_selects_and_one_of_numbers_adds():
    heads = [(1, 1, 2, 2)] * 3
    # Four scores of 4 MACs and 6 operations each; a number that is added to every score is one more.
    for mask, ops in ((truths(2, 2), 56), ((2, 2), 60)):
        check(Case("Attention", [*heads, mask], [(1, 1, 2, 2)], 16, ops, kind="attention"))


def test_a_constant_that_is_no_size_is_named():
    semantics = interpret(ask(Case("Loop", [ints(), None, (2, 8)], [(2, 8)], None, None, values={0: (-8,)})))
    assert semantics.kind == "" and re.search(says("input-not-size"), semantics.why)
