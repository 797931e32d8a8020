"""How a detector's outputs are read: from the user's options, else from outputs that leave no doubt."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgewise.errors import BadInput
from edgewise.evaluating.task import TaskContext
from edgewise.evaluating.tasks.boxes import ORDERS, Anchors, Array, Order
from edgewise.evaluating.tasks.coco_classes import COCO80, COCO91
from edgewise.evaluating.tasks.detection_outputs import (
    DECODERS,
    is_postprocess,
    list_decoders,
    read_roles,
    recognise,
    roles_of,
)
from edgewise.model.signature import TensorSpec

OPTIONS = (
    "decode", "outputs", "order", "normalised", "conf", "iou", "max", "agnostic", "anchors", "scales", "activation",
    "background", "labels", "axis", "class_map",
)  # fmt: skip
_LARGEST_FILE = 64 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxDecoding:
    """How boxes are decoded from outputs.

    Attributes:
        decode: one of `edgewise.evaluating.tasks.detection_outputs.DECODERS`.
        roles: what each output is, in the model's order; "" for one that isn't used.
        order: of a box's four numbers.
        normalised: whether boxes are parts of the input's size; None: pixels are assumed, and refused where all boxes
            are smaller than two of them.
        confidence: scores that are not larger are dropped.
        overlap: intersection over union above which the weaker of two boxes goes; None: none goes.
        most: detections that are kept of an image.
        agnostic: whether boxes suppress those of other classes.
        every_class: whether a row of a YOLO counts for all its classes or for its best.
        columns: of yolov8: whether every column is a box, [1, 4 + C, N], or every row; None: what fits the number of
            the data's classes, else the longer side are boxes.
        activation: of an SSD's class scores: ``sigmoid``, ``softmax`` or ``none``.
        background: number of the class that is none.
    """

    decode: str
    roles: tuple[str, ...]
    order: Order
    normalised: bool | None
    confidence: float
    overlap: float | None
    most: int
    agnostic: bool
    every_class: bool = True
    columns: bool | None = None
    anchors: Anchors | None = None
    activation: str = "none"
    background: int | None = None


def read_options(context: TaskContext, *, categories: int) -> tuple[BoxDecoding, dict[str, Any]]:
    """The decoding, and its description for the record.

    Args:
        categories: number of the data's; 0 where it is not known.

    Raises:
        BadInput: an option that is unknown or invalid, or outputs that need one.
    """
    given = dict(context.options)
    for name in given:
        if name not in OPTIONS:
            raise BadInput(f"detection has no option {name!r}", advice=f"it has: {', '.join(OPTIONS)}")
    outputs = context.signature.outputs
    roles = read_roles(given, outputs)
    decode = given.get("decode")
    chosen_by = "the user"
    if decode is None:
        decode, chosen_by = recognise(outputs, roles=roles, anchors="anchors" in given, categories=categories)
    if decode not in DECODERS:
        raise BadInput(f"there is no decoder {decode!r}", advice=list_decoders())
    roles = roles or roles_of(decode, outputs)
    default_overlap = {"ssd": 0.5, "yolov5": 0.65, "yolov8": 0.65}.get(decode)
    reading = BoxDecoding(
        decode=decode,
        roles=roles,
        order=_order(given, decode, outputs),
        normalised=_normalised(given, decode, outputs),
        confidence=_number(given, "conf", 0.001) or 0.0,
        overlap=_number(given, "iou", default_overlap),
        most=_whole(given, "max", 100, low=1),
        agnostic=_yes(given, "agnostic", default=False) or False,
        every_class=_one_of(given, "labels", ("all", "best"), default="all") == "all",
        columns=_columns(given) if decode == "yolov8" else None,
        anchors=_anchors(given) if decode == "ssd" else None,
        activation=_activation(given) if decode == "ssd" else "none",
        background=_background(given, decode),
    )
    if decode.startswith("yolo") and reading.background is not None:
        raise BadInput("YOLO outputs have no background class", advice="leave background= out")
    return reading, _told(reading, chosen_by=chosen_by, given=given)


def read_class_map(context: TaskContext) -> tuple[tuple[int | None, ...] | None, str]:
    """The category of each of the model's classes (None where the data has no such one), and how that came about.

    None instead of a tuple: they are the same, and their number is not known.

    Raises:
        BadInput: a file that can't be read, or names of which the data has none.
    """
    word = context.options.get("class_map")
    data = tuple(context.data.classes)
    names: Sequence[str | None]
    if word == "identity" or (word is None and (not data or not context.classes or tuple(context.classes) == data)):
        return (tuple(range(len(data))) if data else None), "class numbers of the model are those of the data"
    if word is None:
        names, origin = context.classes, "by the names of the model's classes"
    elif word in ("coco80", "coco91"):
        names, origin = (COCO80 if word == "coco80" else COCO91), f"by COCO's names ({word})"
    else:
        names, origin = _read_names(Path(word)), f"by the names in {Path(word).name}"
    if not data:
        raise BadInput("the data does not name its classes", advice="class_map=identity, or data with class names")
    places = {name.strip().casefold(): index for index, name in reversed(list(enumerate(data)))}
    mapped = tuple(None if name is None else places.get(name.strip().casefold()) for name in names)
    known = len({each for each in mapped if each is not None})
    if not known:
        raise BadInput(
            f"no class of the model has the name of one of the data's ({', '.join(data[:3])} …)",
            advice="class_map=identity, coco80, coco91 or a file with one name per line in the model's order",
        )
    return mapped, f"{origin}; {known} of the data's {len(data)} classes are known to the model"


def _order(given: Mapping[str, str], decode: str, outputs: Sequence[TensorSpec]) -> Order:
    default: str | None = {"rows": "ltrb", "yolov5": "cxcywh", "yolov8": "cxcywh"}.get(decode)
    if decode == "boxes" and is_postprocess(outputs):
        default = "yxyx"
    # An SSD's encodings are in the order of its anchors: TensorFlow's with y first, Caffe's and torchvision's with x.
    orders: tuple[str, ...] = ("cxcywh", "cycxhw") if decode == "ssd" else ORDERS
    word = given.get("order", default)
    if word not in orders:
        problem = "the order of a box's four numbers is not known" if word is None else f"there is no order {word!r}"
        raise BadInput(problem, advice=f"order= one of {', '.join(orders)}")
    return "cxcywh" if decode == "ssd" else word  # type: ignore[return-value]


def _normalised(given: Mapping[str, str], decode: str, outputs: Sequence[TensorSpec]) -> bool | None:
    seven = decode == "rows" and len(outputs) == 1 and (outputs[0].shape or ())[-1:] == (7,)
    known = is_postprocess(outputs) or decode == "ssd" or seven
    found = _yes(given, "normalised", default=True if known else None)
    if found is None and decode in ("boxes", "rows"):
        raise BadInput(
            "boxes may be in pixels of the input or relative to its size",
            advice="set normalised=no or normalised=yes",
        )
    return found


def _columns(given: Mapping[str, str]) -> bool | None:
    word = _one_of(given, "axis", ("rows", "columns", "auto"), default="auto")
    return None if word == "auto" else word == "columns"


def _activation(given: Mapping[str, str]) -> str:
    if "activation" not in given:
        raise BadInput(
            "the class scores of this SSD may be logits or probabilities",
            advice="set activation=sigmoid, softmax or none",
        )
    return _one_of(given, "activation", ("sigmoid", "softmax", "none"), default="")


def _background(given: Mapping[str, str], decode: str) -> int | None:
    word = given.get("background", "0" if decode == "ssd" else "none")
    return None if word == "none" else _whole({"background": word}, "background", 0, low=0)


def _anchors(given: Mapping[str, str]) -> Anchors:
    """The anchors of ``anchors=FILE``, as centre x, centre y, width, height."""
    if "anchors" not in given:
        raise BadInput("an SSD needs its anchors", advice="anchors=FILE.npy or .csv with 4 columns")
    path = Path(given["anchors"])
    boxes = _read_anchors(path)
    if boxes.ndim != 2 or boxes.shape[1] != 4 or not len(boxes) or not np.isfinite(boxes).all():
        raise BadInput(f"{path.name} is not a list of anchors: its shape is {boxes.shape}", advice="4 numbers each")
    scales = _scales(given)
    return Anchors(boxes=boxes, scales=scales, y_first=given.get("order") == "cycxhw")


def _read_anchors(path: Path) -> Array:
    advice = "a .npy file, or a .csv file with 4 numbers per line"
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise BadInput(f"{path.name} is too large for a list of anchors", advice=advice)
        if path.suffix == ".npy":
            # Mapped, so that a header can't claim more than the file has.
            return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False), np.float64)
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        return np.array([[float(word) for word in line.split(",")] for line in lines], np.float64)
    except (OSError, EOFError, ValueError, TypeError) as error:
        raise BadInput(f"anchors can't be read from {path}: {error}", advice=advice) from error


def _scales(given: Mapping[str, str]) -> tuple[float, float, float, float]:
    word = given.get("scales", "10,10,5,5")
    try:
        a, b, c, d = (float(each) for each in word.split(","))
    except ValueError:
        a = b = c = d = float("nan")
    if not all(0 < each < float("inf") for each in (a, b, c, d)):
        raise BadInput(f"scales={word} are not four positive numbers", advice="such as 10,10,5,5")
    return a, b, c, d


def _read_names(path: Path) -> list[str | None]:
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise BadInput(f"{path.name} is too large for a list of classes", advice="one name per line")
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(
            f"class_map={path} can't be read: {error}",
            advice="identity, coco80, coco91, or a file with one name per line",
        ) from error
    return [line.strip() or None for line in lines]


def _number(given: Mapping[str, str], name: str, default: float | None) -> float | None:
    """An option from 0 to 1; ``none`` is None."""
    word = given.get(name)
    if word is None or word == "none":
        return default if word is None else None
    try:
        found = float(word)
    except ValueError:
        found = float("nan")
    if not 0.0 <= found <= 1.0:
        raise BadInput(f"{name} must be a number from 0 to 1, not {word}", advice=f"such as {name}={default or 0.5}")
    return found


def _whole(given: Mapping[str, str], name: str, default: int, *, low: int) -> int:
    word = given.get(name, str(default))
    if not word.isascii() or not word.isdecimal() or int(word[:9]) < low or len(word) > 9:
        raise BadInput(f"{name} must be a whole number of at least {low}, not {word}", advice=f"such as {default}")
    return int(word)


def _yes(given: Mapping[str, str], name: str, *, default: bool | None) -> bool | None:
    return _one_of(given, name, ("yes", "no"), default="no") == "yes" if name in given else default


def _one_of(given: Mapping[str, str], name: str, words: Sequence[str], *, default: str) -> str:
    word = given.get(name, default)
    if word not in words:
        raise BadInput(f"{name} must be {' or '.join(words)}, not {word}", advice=f"such as {name}={words[0]}")
    return word


def _told(reading: BoxDecoding, *, chosen_by: str, given: Mapping[str, str]) -> dict[str, Any]:
    """The decoding for the record, JSON-shaped."""
    told: dict[str, Any] = {
        "decode": reading.decode,
        "decode_from": chosen_by,
        "outputs": [role or "-" for role in reading.roles],
        "order": given.get("order", reading.order),
        "normalised": "no, assumed" if reading.normalised is None else reading.normalised,
        "conf": reading.confidence,
        "iou": reading.overlap,
        "max": reading.most,
        "agnostic": reading.agnostic,
        "background": reading.background,
    }
    if reading.decode.startswith("yolo"):
        told["labels"] = "all" if reading.every_class else "best"
    if reading.anchors is not None:
        sha256 = hashlib.sha256(reading.anchors.boxes.tobytes()).hexdigest()
        told |= {"anchors": len(reading.anchors.boxes), "anchors_sha256": sha256}
        told["scales"] = list(reading.anchors.scales)
        told["activation"] = reading.activation
    return told
