"""What a conversion that was refused advises."""

from __future__ import annotations

import math

import pytest

from edgewise.converting.agreement import OutputAgreement
from edgewise.converting.localizing import WrongOperator
from edgewise.converting.result import Agreement, Conversion
from edgewise.run.agreement import ELSEWHERE
from edgewise.verbs.convert.presentation import ConvertPresentation


@pytest.mark.parametrize(
    ("inputs", "why", "real"),
    [
        ("3 random inputs, seeds 0 to 2", ELSEWHERE, True),
        ("x.npz", ELSEWHERE, False),
        ("3 random inputs", "other", False),
    ],
)
def test_real_inputs_where_random_ones_give_nan(inputs, why, real):
    output = OutputAgreement(
        name="y", max_abs=math.inf, max_rel=math.inf, snr_db=None, top1=None, close=False, why=why, allowed=""
    )
    refused = Conversion(
        source={"name": "m.onnx"}, to="openvino", path=None, model={}, steps=(), lost=(),
        agreement=Agreement(outputs=(output,), inputs=inputs), wrong=WrongOperator(why="no layer"),
    )  # fmt: skip
    (problem,) = ConvertPresentation().problems(refused)
    assert ("input" in problem.advice and "random" in problem.advice) is real
    assert "replace the operator" in problem.advice
