"""What a Keras configuration must not contain: code, and classes that are not Keras' own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_DEPTH, MAX_OBJECTS = 60, 1_000_000
ADVICE = "edgewise runs no code from a file; give the function that makes the model (MODULE:FUNCTION), or ONNX"


def find_code(document: Any) -> tuple[str, str] | None:
    """Why a model's configuration must not be built, and advice; None where Keras' own classes are all that it names.

    Only of Keras' own classes is it known that making them runs nothing else.
    """
    todo, count = [(document, 0)], 0
    while todo:
        value, depth = todo.pop()
        count += 1
        if depth > MAX_DEPTH or count > MAX_OBJECTS:
            return "its configuration is nested too deeply or too large", "export or download it again"
        if isinstance(value, dict):
            if "class_name" in value and (reason := _why_foreign(value)):
                return reason, ADVICE
            todo += [(each, depth + 1) for each in value.values()]
        elif isinstance(value, list):
            todo += [(each, depth + 1) for each in value]
    return None


def _why_foreign(value: Mapping[str, Any]) -> str:
    kind, module = str(value["class_name"])[:60], value.get("module")
    if kind in ("Lambda", "__lambda__"):
        return "it has a Lambda layer, which is Python code"
    own = module is None or (isinstance(module, str) and (module == "builtins" or f"{module}.".startswith("keras.")))
    registered = value.get("registered_name")
    # A registered name with a package ("mine>Swish") is somebody's own class.
    if not own or (isinstance(registered, str) and ">" in registered and not registered.startswith("keras")):
        return f"its class {kind!r} is not one of Keras' own"
    return ""
