"""All steps by name, and the one way in which a step is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgewise.errors import BadInput
from edgewise.evaluating import steps_array, steps_audio, steps_image, steps_text
from edgewise.evaluating.step_settings import StepKind, make_settings, show, suggest

STEPS: Mapping[str, StepKind] = {
    kind.name: kind for module in (steps_image, steps_array, steps_audio, steps_text) for kind in module.KINDS
}
"""Name → what it is."""


def read_step(name: str, raw: Any, *, where: str) -> dict[str, Any]:
    """Canonical settings of the step called `name`.

    Args:
        raw: a bare value, a mapping of settings, or None.
        where: what messages call the place that it stands in.

    Raises:
        BadInput: there is no such step or setting, or the setting refuses its value: where, and what is possible.
    """
    kind = STEPS.get(name)
    if kind is None:
        raise BadInput(f"{where}: there is no step {show(name)}", advice=suggest(name, STEPS))
    return make_settings(kind, raw, f"{where}, {name}")


def describe_step(name: str, settings: Mapping[str, Any]) -> str:
    """A step in a few words: ``resize 224 × 224 bilinear``, without what is as it would be anyway."""
    kind = STEPS[name]
    words = [name]
    for key, value in settings.items():
        choice = kind.settings.get(key)
        if choice is not None and value == choice.default:
            continue
        said = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        words.append(said if key == kind.main else f"{key}={said}")
    return " ".join(words)
