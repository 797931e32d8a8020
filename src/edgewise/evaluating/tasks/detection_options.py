"""How a detector's outputs are read: from the user's options, else from names and shapes that are unambiguous."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field

from edgewise.errors import BadInput
from edgewise.evaluating.step_settings import Accepts
from edgewise.evaluating.task import TaskContext
from edgewise.evaluating.tasks import outputs as common
from edgewise.evaluating.tasks.boxes import ORDERS, Anchors, BoxDecoding, Order
from edgewise.evaluating.tasks.labels import describe_order, fold_name, share_names
from edgewise.model.signature import TensorSpec
from edgewise.safe_yaml import read_text
from edgewise.workload.arrays import Array

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

_COCO_NAMES = (
    "person,bicycle,car,motorcycle,airplane,bus,train,truck,boat,traffic light,fire hydrant,,stop sign,parking meter,"
    "bench,bird,cat,dog,horse,sheep,cow,elephant,bear,zebra,giraffe,,backpack,umbrella,,,handbag,tie,suitcase,frisbee,"
    "skis,snowboard,sports ball,kite,baseball bat,baseball glove,skateboard,surfboard,tennis racket,bottle,,wine glass,"
    "cup,fork,knife,spoon,bowl,banana,apple,sandwich,orange,broccoli,carrot,hot dog,pizza,donut,cake,chair,couch,"
    "potted plant,bed,,dining table,,,toilet,,tv,laptop,mouse,remote,keyboard,cell phone,microwave,oven,toaster,sink,"
    "refrigerator,,book,clock,vase,scissors,teddy bear,hair drier,toothbrush"
)

COCO91: tuple[str | None, ...] = tuple(name or None for name in _COCO_NAMES.split(","))
"""By category id less 1; None where COCO has no class of that id. The order of TensorFlow's models."""

COCO80: tuple[str, ...] = tuple(name for name in COCO91 if name is not None)
"""Without the gaps: the order of the YOLO family."""

_LARGEST_FILE = 64 * 2**20

_Unset = BeforeValidator(lambda value: None if value == "none" else value)
_Share = Annotated[float, Field(ge=0, le=1), Accepts("a number from 0 to 1")]


def _read_scales(value: str) -> tuple[float, ...]:
    scales = tuple(float(each) for each in value.split(","))
    if len(scales) != 4 or not all(0 < each < float("inf") for each in scales):
        raise ValueError(value)
    return scales


class DetectionOptions(common.TaskOptions):
    """Options of detection. An absent one is found from the outputs, or is the decoder's."""

    decode: str | None = Field(None, description=" or ".join(DECODERS))
    outputs: str | None = Field(None, description="boxes,scores,… (the role of each output, - for none)")
    order: str | None = Field(None, description=" or ".join(ORDERS))
    normalised: common.YesNo | None = Field(None, description="yes or no (boxes are parts of the input's size)")
    conf: Annotated[_Share | None, _Unset] = Field(0.001, description="NUMBER (lower scores are dropped)")
    iou: Annotated[_Share | None, _Unset] = Field(None, description="NUMBER (overlap that suppresses) or none")
    max: Annotated[int, Field(ge=1, lt=10**9), Accepts("a whole number of at least 1")] = Field(
        100, description="NUMBER (of boxes per image)"
    )
    agnostic: common.YesNo = Field("no", description="yes or no (boxes suppress those of other classes)")
    anchors: Path | None = Field(None, description="FILE (.npy or .csv)")
    scales: Annotated[tuple[float, ...], BeforeValidator(_read_scales), Accepts("four positive numbers")] = Field(
        (10.0, 10.0, 5.0, 5.0), description="10,10,5,5 (of an SSD's encodings)"
    )
    activation: Literal["sigmoid", "softmax", "none"] | None = Field(None, description="sigmoid, softmax or none")
    background: Annotated[common.Count | None, _Unset] = Field(None, description="NUMBER (of the class) or none")
    labels: Literal["all", "best"] = Field("all", description="all or best (classes of a YOLO's box)")
    axis: Literal["rows", "columns", "auto"] = Field("auto", description="rows, columns or auto (of a YOLO's boxes)")
    class_map: str | None = Field(None, description="identity, coco80, coco91 or FILE")


def read_decoding(
    options: DetectionOptions, outputs: Sequence[TensorSpec], *, categories: int
) -> tuple[BoxDecoding, dict[str, Any]]:
    """Return the decoding, and its description for the record.

    Args:
        outputs: of the model.
        categories: number of the data's; 0 where it is not known.

    Raises `BadInput`: an invalid option, or outputs that need one.
    """
    roles = _read_roles(options.outputs, outputs)
    decode, chosen_by = options.decode, "the user"
    if decode is None:
        decode, chosen_by = _recognise(outputs, roles=roles, anchors=options.anchors is not None, categories=categories)
    if decode not in DECODERS:
        raise BadInput(f"there is no decoder {decode!r}", advice=_list_decoders())
    ssd, yolo = decode == "ssd", decode.startswith("yolo")
    background = options.background if "background" in options.model_fields_set else 0 if ssd else None
    if yolo and background is not None:
        raise BadInput("YOLO outputs have no background class", advice="leave background= out")
    if ssd and options.activation is None:
        raise BadInput(
            "the class scores of this SSD may be logits or probabilities",
            advice="set activation=sigmoid, softmax or none",
        )
    default_overlap = {"ssd": 0.5, "yolov5": 0.65, "yolov8": 0.65}.get(decode)
    reading = BoxDecoding(
        decode=decode, roles=roles or _find_roles(decode, outputs), order=_find_order(options.order, decode, outputs),
        normalised=_are_normalised(options.normalised, decode, outputs), confidence=options.conf or 0.0,
        overlap=options.iou if "iou" in options.model_fields_set else default_overlap, most=options.max,
        agnostic=options.agnostic == "yes", every_class=options.labels == "all",
        columns=options.axis == "columns" if decode == "yolov8" and options.axis != "auto" else None,
        anchors=_load_anchors(options) if ssd else None, activation=(options.activation or "none") if ssd else "none",
        background=background,
    )  # fmt: skip
    return reading, _describe_decoding(reading, chosen_by=chosen_by, order=options.order)


def read_class_map(context: TaskContext, word: str | None) -> tuple[tuple[int | None, ...] | None, str]:
    """Map each of the model's classes to the data's category, None where it has none, and say by what they match.

    None instead of a tuple: they are the same, and their number is not known. Raises `BadInput`: a file that can't be
    read, or names of which the data has none.
    """
    data = tuple(context.data.classes)
    names: Sequence[str | None]
    if word == "identity" or (word is None and (not data or not context.classes or _share_no_name(context))):
        return (tuple(range(len(data))) if data else None), "class numbers of the model are those of the data"
    if word is None:
        of = f" ({context.classes_from})" if context.classes_from else ""
        names, origin = context.classes, f"by the names of the model's classes{of}"
    elif word in ("coco80", "coco91"):
        names, origin = (COCO80 if word == "coco80" else COCO91), f"by COCO's names ({word})"
    else:
        try:
            names = [line.strip() or None for line in read_text(Path(word)).splitlines()]
        except BadInput as error:
            raise BadInput(f"class_map={word}: {error.marked.message}", advice="one name per line, in UTF-8") from error
        origin = f"by the names in {Path(word).name}"
    if not data:
        raise BadInput("the data does not name its classes", advice="class_map=identity, or data with class names")
    places = {fold_name(name): index for index, name in reversed(list(enumerate(data)))}
    mapped = tuple(None if name is None else places.get(fold_name(name)) for name in names)
    known = len({each for each in mapped if each is not None})
    if not known:
        raise BadInput(
            f"no class of the model has the name of one of the data's ({', '.join(data[:3])} …)",
            advice="class_map=identity, coco80, coco91 or a file with one name per line in the model's order",
        )
    return mapped, f"{origin}; {known} of the data's {len(data)} classes are known to the model"


def _share_no_name(context: TaskContext) -> bool:
    """Return whether the names in the model's own file are none of the data's, and both have as many classes."""
    same_number = len(context.classes) == len(context.data.classes)
    return bool(context.classes_from) and same_number and not share_names(context.data.classes, context.classes)


def describe_classes(context: TaskContext, options: DetectionOptions, classes: Sequence[int | None] | None) -> str:
    """Describe doubts about the order of the classes; empty where the user gave it or the names agree."""
    data = context.data.classes
    if options.class_map is not None or classes is None:
        return ""
    by_name = bool(context.classes) and not _share_no_name(context)
    missing = [name for index, name in enumerate(data) if index not in classes]
    found = describe_order(data, context.classes, context.classes_from, matched=classes if by_name else None)
    if missing:
        found += f"; {len(missing)} of the data's {len(data)} classes are not the model's: {', '.join(missing[:5])}"
    return found


def _find_order(given: str | None, decode: str, outputs: Sequence[TensorSpec]) -> Order:
    default: str | None = {"rows": "ltrb", "yolov5": "cxcywh", "yolov8": "cxcywh"}.get(decode)
    if decode == "boxes" and _is_postprocess(outputs):
        default = "yxyx"
    # An SSD's encodings are in the order of its anchors: TensorFlow's with y first, Caffe's and torchvision's with x.
    orders: tuple[str, ...] = ("cxcywh", "cycxhw") if decode == "ssd" else ORDERS
    word = given or default
    if word not in orders:
        problem = "the order of a box's four numbers is not known" if word is None else f"there is no order {word!r}"
        raise BadInput(problem, advice=f"order= one of {', '.join(orders)}")
    return "cxcywh" if decode == "ssd" else word  # type: ignore[return-value]


def _are_normalised(given: str | None, decode: str, outputs: Sequence[TensorSpec]) -> bool | None:
    seven = decode == "rows" and len(outputs) == 1 and (outputs[0].shape or ())[-1:] == (7,)
    if given is not None:
        return given == "yes"
    if _is_postprocess(outputs) or decode == "ssd" or seven:
        return True
    if decode in ("boxes", "rows"):
        raise BadInput(
            "boxes may be in pixels of the input or relative to its size", advice="set normalised=no or normalised=yes"
        )
    return None


def _load_anchors(options: DetectionOptions) -> Anchors:
    """Return the anchors of ``anchors=FILE``, as centre x, centre y, width, height."""
    path = options.anchors
    if path is None:
        raise BadInput("an SSD needs its anchors", advice="anchors=FILE.npy or .csv with 4 columns")
    boxes = _read_anchors(path)
    if boxes.ndim != 2 or boxes.shape[1] != 4 or not len(boxes) or not np.isfinite(boxes).all():
        raise BadInput(f"{path.name} is not a list of anchors: its shape is {boxes.shape}", advice="4 numbers each")
    return Anchors(boxes=boxes, scales=options.scales, y_first=options.order == "cycxhw")


def _read_anchors(path: Path) -> Array:
    advice = "a .npy file, or a .csv file with 4 numbers per line"
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise BadInput(f"{path.name} is too large for a list of anchors", advice=advice)
        if path.suffix == ".npy":
            # Mapped, so that a header can't claim more than the file has.
            return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False), np.float64)
        lines = filter(str.strip, path.read_text(encoding="utf-8").splitlines())
        return np.array([[float(word) for word in line.split(",")] for line in lines], np.float64)
    except (OSError, EOFError, ValueError, TypeError) as error:
        raise BadInput(f"anchors can't be read from {path}: {error}", advice=advice) from error


def _describe_decoding(reading: BoxDecoding, *, chosen_by: str, order: str | None) -> dict[str, Any]:
    """Return the decoding for the record, JSON-shaped."""
    told: dict[str, Any] = {
        "decode": reading.decode, "decode_from": chosen_by, "outputs": [role or "-" for role in reading.roles],
        "order": order or reading.order,
        "normalised": "no, assumed" if reading.normalised is None else reading.normalised, "conf": reading.confidence,
        "iou": reading.overlap, "max": reading.most, "agnostic": reading.agnostic, "background": reading.background,
    }  # fmt: skip
    if reading.decode.startswith("yolo"):
        told["labels"] = "all" if reading.every_class else "best"
    if reading.anchors is not None:
        sha256 = hashlib.sha256(reading.anchors.boxes.tobytes()).hexdigest()
        told |= {"anchors": len(reading.anchors.boxes), "anchors_sha256": sha256}
        told["scales"] = list(reading.anchors.scales)
        told["activation"] = reading.activation
    return told


def _recognise(
    outputs: Sequence[TensorSpec], *, roles: tuple[str, ...], anchors: bool, categories: int
) -> tuple[str, str]:
    """Return the only decoder that fits the outputs, and what showed it. Raises `BadInput` with the decoders."""
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
    raise BadInput(f"it is not clear how to read boxes from the outputs: {told}", advice=_list_decoders())


def _list_decoders() -> str:
    """Return advice that lists every decoder."""
    return "decode=NAME with one of " + "; ".join(f"{name}: {what}" for name, what in DECODERS.items())


def _read_roles(given: str | None, outputs: Sequence[TensorSpec]) -> tuple[str, ...]:
    """Return the roles of ``outputs=boxes,scores,…``, empty without that option. Raises `BadInput`."""
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


def _find_roles(decode: str, outputs: Sequence[TensorSpec]) -> tuple[str, ...]:
    """Return the role of each output for a decoder. Raises `BadInput` where that takes ``outputs=``."""
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
    """Return the role of every output by names and shapes, each role once; empty where that is ambiguous."""
    if len(outputs) < 2:
        return ()
    if _is_postprocess(outputs):
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


def _is_postprocess(outputs: Sequence[TensorSpec]) -> bool:
    """Return whether they are those of TensorFlow Lite's custom operator, whose order and units are known."""
    names = [each.name for each in outputs]
    return names == [_POSTPROCESS, *(f"{_POSTPROCESS}:{number}" for number in (1, 2, 3))]
