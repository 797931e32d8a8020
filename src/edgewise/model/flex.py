"""Operators of TensorFlow itself in TFLite files (``FlexErf``), which run in TensorFlow's own delegate."""

from __future__ import annotations

import re


def flex_words(text: str, engine: str) -> str:
    """Why `engine` can't run the operator of TensorFlow that `text` names, and what helps; "" where it names none."""
    found = re.search(r"(?<![\w/.-])Flex[A-Z]\w*(?![\w/.-])", text)  # and no part of a path
    if found is None:
        return ""
    return (
        f"{found[0]} is an operator of TensorFlow itself: it needs TensorFlow's delegate (Flex), which {engine} does "
        "not contain; convert the original again with built-in operators only (tf.lite.OpsSet.TFLITE_BUILTINS)"
    )
