"""Tables on data, tasks, steps and passes, which the pages on evaluating and optimising include."""

from __future__ import annotations

import json
import re
from typing import Any, get_args

from markdown_tables import NOTE, plain, table
from pydantic.fields import FieldInfo

from edgewise.evaluating.dataset import data_formats
from edgewise.evaluating.step_settings import accepted
from edgewise.evaluating.steps import STEPS
from edgewise.evaluating.task import tasks
from edgewise.optimizing.base import PassKind, passes
from edgewise.registry import Registry


def built_in(registry: Registry[Any]) -> list[Any]:
    """What comes with edgewise; a plug-in that happens to be installed is on no page."""
    return [one for _, one in registry if type(one).__module__.startswith("edgewise.")]


def formats_table() -> str:
    """The formats of data sets, which the page on evaluating includes."""
    order = ("npz", "folders", "csv", "coco", "idx", "wav", "huggingface", "text", "jsonl", "loader")
    found = sorted(built_in(data_formats()), key=lambda one: order.index(one.name))
    return NOTE + table(("Format", "What it is"), ((f"`{one.name}`", one.title) for one in found))


def tasks_table() -> str:
    """The tasks with their metrics, which the page on evaluating includes."""
    rows = (
        (f"`{one.name}`", one.title, ", ".join(one.kinds), ", ".join(f"`{metric}`" for metric in one.metrics))
        for one in built_in(tasks())
    )
    return NOTE + table(("Task", "What it is", "Samples", "Metrics, the headline first"), rows)


def steps_table() -> str:
    """What can be done to a sample, and what each step can be told, which the page on evaluating includes."""
    steps = (
        (
            f"`{kind.name}`",
            str(kind.__doc__).removesuffix("."),
            ", ".join(kind.takes),
            f"`{kind.main}`" if kind.main else "none",
        )
        for kind in STEPS.values()
    )
    alike: dict[tuple[str, str, str, str], list[str]] = {}
    for kind in STEPS.values():
        for name, field in kind.settings().items():
            row = (name, possible_values(field), default_of(field), str(field.description))
            alike.setdefault(row, []).append(kind.name)
    settings = (
        (", ".join(f"`{step}`" for step in names), f"`{row[0]}`", plain(row[1]), row[2], row[3])
        for row, names in alike.items()
    )
    text = table(("Step", "What it does", "Samples", "A bare value sets"), steps)
    return NOTE + text + "\n" + table(("Step", "Setting", "Values", "Default", "Meaning"), settings)


def possible_values(field: FieldInfo) -> str:
    """The values that a setting accepts, as its error says it."""
    words = accepted(field.annotation, field.metadata)
    words = words.replace("a number such as 0.5 or a fraction such as 1/255", "a number, a fraction")
    return re.sub(r"a whole number from (\S+) to (\S+)", r"\1 … \2", words).replace(" or ", ", ")


def default_of(field: FieldInfo) -> str:
    """The value of a setting that is left out."""
    if field.is_required():
        return "required"
    return "none" if field.default is None else f"`{json.dumps(field.default, ensure_ascii=False)}`".replace('"', "")


FORMATS = {
    "onnx": "ONNX",
    "tflite": "TFLite",
    "openvino": "OpenVINO",
    "torch": "PyTorch",
    "keras": "Keras",
    "executorch": "ExecuTorch",
}


def passes_table() -> str:
    """The passes with what they need, which the page on optimising includes."""
    kinds, formats = list(get_args(PassKind)), list(FORMATS)

    def rank(one: Any) -> tuple[int, int]:
        return formats.index(one.capabilities.reads[0]), kinds.index(one.capabilities.kind)

    rows = []
    for one in sorted(built_in(passes()), key=rank):
        able = one.capabilities
        made = "settings" if able.kind == "tuning" else FORMATS.get(able.writes, "the same")
        needs = [("samples", able.calibrates), ("labels", able.labels), ("training", able.trains)]
        rows.append(
            (
                f"`{one.name}`",
                one.title,
                f"{', '.join(FORMATS[name] for name in able.reads)} → {made}",
                able.kind,
                able.arithmetic or "as before",
                ", ".join(word for word, needed in needs if needed) or "nothing",
                ", ".join(able.distributions) or "none",
                f"`{able.extra}`",
            )
        )
    return NOTE + table(("Pass", "Title", "Changes", "Kind", "Computes in", "Looks at", "Packages", "Extra"), rows)
