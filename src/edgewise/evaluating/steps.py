"""All steps by name, and how a step is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgewise.errors import BadInput
from edgewise.evaluating import steps_array, steps_audio, steps_image, steps_text
from edgewise.evaluating.step_settings import Step, parse_settings, show, suggest

STEPS: Mapping[str, type[Step]] = {
    kind.name: kind for module in (steps_image, steps_array, steps_audio, steps_text) for kind in module.STEPS
}


def parse_step(name: str, raw: Any, *, where: str) -> Step:
    """Return the step called `name` with its settings.

    Args:
        raw: a bare value, a mapping of settings, or None.
        where: its place in messages.

    Raises `BadInput`: an unknown step or setting, or an invalid value: where, and what is possible.
    """
    kind = STEPS.get(name)
    if kind is None:
        raise BadInput(f"{where}: there is no step {show(name)}", advice=suggest(name, STEPS))
    return parse_settings(kind, raw, f"{where}, {name}")
