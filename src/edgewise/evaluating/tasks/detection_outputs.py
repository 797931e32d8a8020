"""The roles of a detector's outputs, where names and shapes are unambiguous."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from edgewise.errors import BadInput
from edgewise.model.signature import TensorSpec

DECODERS: Mapping[str, str] = {
    "boxes": "lists of boxes, scores, classes (and a count), as TFLite_Detection_PostProcess has them",
    "rows": "rows of 7 (image, class, score, left, top, right, bottom) or 6 (left, top, right, bottom, score, class)",
    "ssd": "box encodings and class scores against anchors=FILE",
    "yolov5": "rows of centre, size, objectness and class scores",
    "yolov8": "centre, size and class scores, by row or by column",
}
_ROLES = ("boxes", "scores", "classes", "count")
_WORDS = {"boxes": r"box", "scores": r"score|conf|prob", "classes": r"class|label|categ", "count": r"num|count|valid"}
_POSTPROCESS = "TFLite_Detection_PostProcess"


def recognise(
    outputs: Sequence[TensorSpec], *, roles: tuple[str, ...], anchors: bool, categories: int
) -> tuple[str, str]:
    """The only decoder that fits the outputs, and what showed it. Raises `BadInput` with the decoders."""
    shapes = [each.shape for each in outputs]
    if anchors and len(outputs) == 2:
        return "ssd", "anchors= and two outputs"
    if {"boxes", "scores"} <= set(roles):
        return "boxes", "outputs="
    if not roles and _named_roles(outputs):
        return "boxes", "the outputs' names and shapes"
    if len(shapes) == 1 and shapes[0] is not None:
        shape = shapes[0]
        if len(shape) == 4 and shape[3] == 7:
            return "rows", f"the output's shape {list(shape)}"
        fits = []
        if len(shape) == 3:
            rows, columns = shape[1], shape[2]
            sizes = isinstance(rows, int) and isinstance(columns, int)
            if categories and columns == 5 + categories:
                fits.append("yolov5")
            if categories and 4 + categories in (rows, columns):
                fits.append("yolov8")
            # yolov5 never has its rows as columns
            if not fits and sizes and 4 < int(rows or 0) < int(columns or 0):
                fits.append("yolov8")
        if len(fits) == 1:
            return fits[0], f"the output's shape {list(shape)}"
    told = ", ".join(f"{each.name} {list(each.shape or ())}" for each in outputs)
    raise BadInput(f"it is not clear how to read boxes from the outputs: {told}", advice=list_decoders())


def list_decoders() -> str:
    """Advice with every decoder."""
    return "decode=NAME with one of " + "; ".join(f"{name}: {what}" for name, what in DECODERS.items())


def read_roles(given: str | None, outputs: Sequence[TensorSpec]) -> tuple[str, ...]:
    """The roles of ``outputs=boxes,scores,…``, empty without that option. Raises `BadInput`."""
    if given is None:
        return ()
    roles = tuple(word.strip() for word in given.split(","))
    wrong = len(roles) != len(outputs) or any(role not in (*_ROLES, "-") for role in roles)
    if wrong or "boxes" not in roles or any(roles.count(role) > 1 for role in _ROLES):
        raise BadInput(
            f"outputs={given} does not name the role of each of the model's {len(outputs)} outputs",
            advice=f"one of {', '.join(_ROLES)} or - for each, in their order: "
            + ", ".join(each.name for each in outputs),
        )
    return tuple("" if role == "-" else role for role in roles)


def roles_of(decode: str, outputs: Sequence[TensorSpec]) -> tuple[str, ...]:
    """What the outputs are to a decoder. Raises `BadInput` where that takes ``outputs=``."""
    if decode == "boxes":
        found = _named_roles(outputs)
    elif decode == "ssd":
        four = [each.shape is not None and each.shape[-1:] == (4,) for each in outputs]
        if sum(four) != 1:  # a model of four classes
            four = [re.search(r"box|loc", each.name, re.IGNORECASE) is not None for each in outputs]
        found = tuple("boxes" if each else "scores" for each in four) if len(four) == 2 and sum(four) == 1 else ()
    else:
        found = ("boxes",) if len(outputs) == 1 else ()
    if not found:
        names = ", ".join(f"{each.name} {list(each.shape or ())}" for each in outputs)
        raise BadInput(
            f"it is not clear which output is what: {names}",
            advice=f"outputs=WORDS, one of {', '.join(_ROLES)} or - for each output in that order",
        )
    return found


def _named_roles(outputs: Sequence[TensorSpec]) -> tuple[str, ...]:
    """The role of every output by names and shapes, each role once; empty where that is ambiguous."""
    if len(outputs) < 2:
        return ()
    if is_postprocess(outputs):
        return ("boxes", "classes", "scores", "count")
    roles = []
    for each in outputs:
        fits = [role for role, words in _WORDS.items() if re.search(words, each.name, re.IGNORECASE)]
        if each.shape is not None and len(each.shape) in (2, 3) and each.shape[-1] == 4:
            fits = ["boxes"]
        elif "boxes" in fits and len(fits) > 1:  # such as num_boxes, box_scores
            fits.remove("boxes")
        roles.append(fits[0] if len(fits) == 1 else "")
    once = all(roles.count(role) == 1 for role in roles)
    return tuple(roles) if once and {"boxes", "scores"} <= set(roles) and "" not in roles else ()


def is_postprocess(outputs: Sequence[TensorSpec]) -> bool:
    """Whether they are those of TensorFlow Lite's custom operator, whose order and units are known."""
    names = [each.name for each in outputs]
    return names == [_POSTPROCESS, *(f"{_POSTPROCESS}:{number}" for number in (1, 2, 3))]
