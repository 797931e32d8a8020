"""What an error tells those who call Python functions."""

from __future__ import annotations

import pickle
import traceback

import pytest

import edgewise
from edgewise.errors import BadInput, EdgewiseError


def test_a_traceback_ends_with_the_advice(tiny_onnx):
    with pytest.raises(EdgewiseError) as caught:
        edgewise.bench(tiny_onnx(), runtimes=["onxruntime"])
    error = caught.value
    assert "onnxruntime" in error.advice and error.advice not in str(error)
    assert traceback.format_exception(error)[-1].strip() == error.advice


def test_notes_follow_the_advice_and_keep_others():
    error = BadInput("wrong", advice="first")
    error.add_note("of the caller")
    error.advice = "second"
    assert error.__notes__ == ["second", "of the caller"]
    assert pickle.loads(pickle.dumps(error)).__notes__ == error.__notes__
    assert getattr(BadInput("wrong"), "__notes__", []) == []
