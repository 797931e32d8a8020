"""What every runtime that times its layers must do; `edgewise.testing.check_runtime` asks for it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from edgewise.model.cost import KINDS
from edgewise.profiling.message import read_profile
from edgewise.runtime.base import CannotProfile, EngineProfile, LoadOptions, ProfilesLayers, Runtime, Session
from edgewise.testing.rules import requiring

_require = requiring("runtime: layers")

INFERENCES = 8
TOLERANCE = 1e-6
"""Largest difference between outputs before and after, relative to the largest output."""


def check_profile(runtime: Runtime, path: Path, options: LoadOptions, inputs: Sequence[Any]) -> tuple[str, ...]:
    """Check how `runtime` times the layers of the model at `path`; raises AssertionError naming the rule.

    Args:
        options: how the model is loaded; with `LoadOptions.profile` added.
        inputs: one numpy array per input.

    Returns:
        The rule ``"layers"``; nothing where this engine, as it is installed, does not time its layers.
    """
    session = runtime.load(path, replace(options, profile=True))
    try:
        if not isinstance(session, ProfilesLayers):
            return ()
        before = infer(session, inputs)
        try:
            profile = session.profile_layers(INFERENCES)
        except CannotProfile as error:
            _require(bool(str(error)), "CannotProfile is raised without a message")
            return ()
        _check_counts(profile)
        _check_times(profile)
        _check_words(profile)
        _check_message(profile)
        _check_session(session, before)
    finally:
        session.close()
    return ("layers",)


def infer(session: Session, inputs: Sequence[Any]) -> list[Any]:
    """Return outputs of one inference on `inputs`."""
    session.bind(inputs)
    session.invoke()
    return list(session.read_outputs())


def _check_counts(profile: EngineProfile) -> None:
    """Check that there are no more readings than inferences (means of blocks), never more."""
    count = len(profile.inference_ns)
    _require(0 < count <= INFERENCES, f"inference_ns: {count} times of {INFERENCES} inferences")
    parts = [(node.name, node.times_ns) for node in profile.nodes]
    parts += [(overhead.name, overhead.times_ns) for overhead in profile.overheads]
    for name, times in parts:
        _require(len(times) == count, f"times_ns: {name!r} has {len(times)} times, inference_ns has {count}")


def _check_times(profile: EngineProfile) -> None:
    _require(profile.resolution_ns > 0, "resolution_ns: it is not above 0")
    for what, times in (("inference_ns", profile.inference_ns), ("unprofiled_ns", profile.unprofiled_ns)):
        _require(all(time > 0 for time in times), f"{what}: an inference took no time")
    for node in profile.nodes:
        _require(all(time >= 0 for time in node.times_ns), f"times_ns: {node.name!r} has a time below 0")
    steps = sum(sum(node.times_ns) for node in profile.nodes)
    # Every reading may be a step of the clock too long; with one thread steps don't overlap.
    slack = profile.resolution_ns * len(profile.nodes) * len(profile.inference_ns)
    whole = sum(profile.inference_ns)
    _require(steps <= whole + slack, f"times_ns: all steps take {steps:.0f} ns, the inferences {whole:.0f} ns")
    starts = [node.start_ns for node in profile.nodes if node.start_ns is not None]
    _require(all(one <= other for one, other in pairwise(starts)), "nodes: they are not in the order of execution")


def _check_words(profile: EngineProfile) -> None:
    _require(bool(profile.method), "method: it is empty")
    for what, names in (
        ("nodes", [node.name for node in profile.nodes]),
        ("overheads", [overhead.name for overhead in profile.overheads]),
    ):
        _require(all(names), f"{what}: one has no name")
        _require(len(set(names)) == len(names), f"{what}: two have one name")
    for node in profile.nodes:
        unknown = set(node.kinds) - set(KINDS)
        _require(not unknown, f"kinds: {node.name!r} has {', '.join(sorted(unknown))}, of which there is none")


def _check_message(profile: EngineProfile) -> None:
    """Check that the host reads back what a worker sends as JSON."""
    try:
        document = json.loads(json.dumps(asdict(profile), allow_nan=False))
        received = read_profile(document)
    except (TypeError, ValueError, LookupError) as error:
        raise AssertionError(f"runtime: layers: the profile can't be sent: {error}") from error
    _require(received == profile, "the profile is another one after it was sent as JSON")


def _check_session(session: Session, before: Sequence[Any]) -> None:
    """Check that the session goes on as if nothing had been."""
    import numpy as np

    session.invoke()
    for one, other in zip(before, session.read_outputs(), strict=True):
        left, right = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
        limit = TOLERANCE * float(np.max(np.abs(left), initial=0.0))
        same = left.shape == right.shape and np.allclose(left, right, rtol=0.0, atol=limit, equal_nan=True)
        _require(same, "after layers were timed the same inputs give other outputs")
