"""What a host of a lab tells of a conversion."""

from __future__ import annotations

import json
from dataclasses import asdict
from math import inf
from pathlib import Path

import pytest

from edgewise.converting.agreement import OutputAgreement
from edgewise.converting.localizing import WrongOperator
from edgewise.converting.result import Agreement, Conversion
from edgewise.errors import BadInput
from edgewise.verbs.convert.in_lab import read_row, row_of


def test_a_refused_conversion_is_read_as_it_was():
    output = OutputAgreement(
        name="y", max_abs=inf, max_rel=inf, snr_db=None, top1=None, close=False, why="other shape", allowed=""
    )
    result = Conversion(
        source={"name": "m.onnx", "path": "/m.onnx"}, to="ort", path=None, model={"size_bytes": 3}, steps=("one",),
        lost=(), agreement=Agreement(outputs=(output,)), wrong=WrongOperator(why="fused"), calibration={"samples": [1]},
        provenance=Path("p.json"),
    )  # fmt: skip
    row = json.loads(json.dumps(row_of(result), allow_nan=False))
    assert (row["model"], row["to"]) == ("m.onnx", "ort")
    assert asdict(read_row(row)) == asdict(result)


@pytest.mark.parametrize("row", [{}, {"conversion": "{}"}, {"conversion": "["}])
def test_a_row_of_another_form_is_refused(row):
    with pytest.raises(BadInput, match="can't be read"):
        read_row(row)
