"""Facts about the target of a job: engines, cores, the fingerprint of the machine."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from edgewise.errors import Unavailable
from edgewise.record import TargetSpec
from edgewise.record.facts import emulation_of
from edgewise.registry import Availability, availability_of
from edgewise.run.counters import usable_cores
from edgewise.run.environment import fingerprint
from edgewise.run.executor import executor_at, facts_of, target_of
from edgewise.runtime.base import Runtime, runtimes

DOWNLOADS = {("onnx", "tflite"): "170 MB"}
"""(Format of a file, word for another one) → about what `convert` downloads, once, for a converter between them."""


def require_workers(spec: TargetSpec) -> None:
    """Raise `Unavailable` where a target starts no workers, which give outputs and take turns."""
    if (why := executor_at(spec).without_workers(target_of(spec))) is not None:
        raise why


def availability_at(spec: TargetSpec, name: str, runtime: Runtime) -> Availability:
    """Whether an engine can be used on a target, and in which version. Raises `Unavailable`."""
    facts = facts_of(spec)
    return availability_of(runtime) if facts is None else facts.engines[name]


def find_engine(name: str, form: str, target: TargetSpec, *, file: str = "") -> Runtime:
    """Return the engine called `name`.

    Args:
        file: as for `advise_readers`.

    Raises:
        Unavailable: there is none. Where `name` is another word for an engine that can't read models of the format
            `form`, the advice has those that can.
    """
    registry = runtimes()
    try:
        return registry.get(name)
    except Unavailable as error:
        meant = registry.meant.get(name, "").partition("/")[0]
        if meant and form not in registry.get(meant).formats:
            error.advice = f"{meant} can't read {form}; {advise_readers(form, [meant], target, file=file)}"
        raise


def advise_readers(form: str, deaf: Sequence[str], target: TargetSpec, *, file: str = "") -> str:
    """Return the installed engines that read models of the format `form`, and how those in `deaf` get a file of
    their own.

    Args:
        file: the model's, as the user wrote it; "" where a command made it.
    """
    registry = runtimes()
    known = "; ".join(
        f"{name}: providers {', '.join(p.name for p in runtime.providers)}, "
        f"precisions {', '.join(sorted({x for p in runtime.providers for x in p.precisions}))}"
        for name, runtime in registry
        if form in runtime.formats and availability_at(target, name, runtime)
    )
    own = {to: name for name in deaf for to in ("onnx", "tflite") if to != form and to in registry.get(name).formats}
    ways = []
    for to, name in own.items():
        if file and (size := DOWNLOADS.get((form, to))):
            ways.append(f"for {name}: {conversion_of(file, to)} (the first time it downloads about {size})")
        else:
            ways.append(f"for {name}, from PyTorch or Keras: edgewise convert FILE.py:FUNCTION --to {to}")
    return "; ".join([f"installed runtimes that read it: {known or 'none'}", *ways])


def conversion_of(file: str, to: str) -> str:
    """Return the command that converts a file to the format that the word `to` names."""
    return f"edgewise convert {shlex.quote(file)} --to {to}"


def cores_at(spec: TargetSpec) -> tuple[int, ...]:
    """Return the processors that a job may use on its target."""
    facts = facts_of(spec)
    return usable_cores() if facts is None else facts.cores


def environment_at(spec: TargetSpec) -> dict[str, Any]:
    """Return the fingerprint of the target's machine."""
    facts = facts_of(spec)
    return fingerprint() if facts is None else dict(facts.environment)


def require_real_processor(spec: TargetSpec) -> None:
    """Raise `Unavailable` where the target's processor is emulated: its times can't be compared."""
    if emulated := emulation_of(environment_at(spec)):
        raise Unavailable(
            f"{spec.device}: {emulated}, so times there can't be compared",
            advice="compare and optimize on a real device; bench and evaluate give outputs, accuracy and sizes there",
        )
