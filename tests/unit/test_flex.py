"""Operators of TensorFlow in TFLite files: what is said, and that paths are not taken for them."""

import re

import pytest

from edgewise.converting.base import calling
from edgewise.errors import Unavailable
from edgewise.model.flex import flex_words
from messages import says


@pytest.mark.parametrize(
    "text",
    ["Node number 0 (FlexErf) failed to prepare.", "No translator found for FlexErf node.", "FlexErf"],
)
def test_the_operator_and_the_way_out_are_named(text):
    words = flex_words(text, "LiteRT")
    assert re.match(says("operator-tensorflow-itself-needs-tensorflow", found="FlexErf"), words)
    assert re.search(says("operator-tensorflow-itself-needs-tensorflow", engine="LiteRT"), words)
    assert re.search(says("operator-tensorflow-itself-needs-tensorflow"), words)


@pytest.mark.parametrize(
    "text", ["", "Could not open /home/me/FlexNet.tflite", "can't read FlexNet.tflite", "Flexible shapes"]
)
def test_other_texts_name_none(text):
    assert flex_words(text, "LiteRT") == ""


def test_a_converter_that_stops_at_one_is_told_from_one_without_an_operator():
    with pytest.raises(Unavailable, match="TensorFlow's delegate") as refused, calling("OpenVINO", to="IR"):
        raise RuntimeError("No translator found for FlexErf node.")
    assert "built-in operators only" in refused.value.advice
