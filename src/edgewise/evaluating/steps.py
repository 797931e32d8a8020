"""All steps by name, and how a step is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgewise.errors import BadInput
from edgewise.evaluating import steps_array, steps_audio, steps_image, steps_text
from edgewise.evaluating.step_settings import StepSettings, parse_settings, show, suggest

STEPS: Mapping[str, type[StepSettings]] = {
    kind.name: kind for module in (steps_image, steps_array, steps_audio, steps_text) for kind in module.STEPS
}


def parse_step(name: str, raw: Any, *, where: str) -> StepSettings:
    """The step called `name` with its settings.

    Args:
        raw: a bare value, a mapping of settings, or None.
        where: its place in messages.

    Raises:
        BadInput: there is no such step or setting, or a setting refuses its value: where, and what is possible.
    """
    kind = STEPS.get(name)
    if kind is None:
        raise BadInput(f"{where}: there is no step {show(name)}", advice=suggest(name, STEPS))
    return parse_settings(kind, raw, f"{where}, {name}")


def read_step(name: str, raw: Any, *, where: str) -> dict[str, Any]:
    """The canonical settings of the step called `name`. Raises `BadInput` as `parse_step`."""
    return parse_step(name, raw, where=where).to_document()


def describe_step(name: str, settings: Mapping[str, Any]) -> str:
    """A step in a few words, without settings at their default: ``resize 224,224``."""
    kind = STEPS[name]
    fields = kind.settings()
    words = [name]
    for key, value in settings.items():
        if key in fields and not fields[key].is_required() and value == fields[key].default:
            continue
        said = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        words.append(said if key == kind.main else f"{key}={said}")
    return " ".join(words)
