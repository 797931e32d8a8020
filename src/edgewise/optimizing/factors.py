"""What a speed-up is made of: the engine, the change of the network, and the engine's settings, each by itself.

Every factor is the ratio of two variants that took turns in one race, so that their product is the whole but for noise.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgewise.comparing.comparison import Findings
from edgewise.comparing.metrics import compare_pairs
from edgewise.comparing.terms import Terms
from edgewise.optimizing.choice import speedup_of
from edgewise.optimizing.state import Entry, State
from edgewise.optimizing.variant import ORIGINAL, Factor, Number

_TERMS = Terms(metrics=("latency",), force=True)
_ARITHMETIC = ("quantisation", "compression")


def find_engine_step(entry: Entry, state: State) -> str | None:
    """Id of the user's file as it is in the engine of a variant; None where there is no such variant."""
    assert entry.job is not None
    root, engine = state.root_of(entry.candidate.id), entry.job.runtime.name
    for name, other in state.entries.items():
        plain = not other.candidate.passes and other.job is not None
        if plain and other.candidate.model == root and other.job is not None and other.job.runtime.name == engine:
            return name
    return None


def find_factors(chosen: str, state: State, races: Sequence[Findings]) -> tuple[Factor, ...]:
    """The factors of a variant's speed-up, in the order in which they were won; none where there is only one.

    Args:
        races: in the order in which they were run.
    """
    entry = state.entries[chosen]
    tuned = entry.attempt is not None and entry.attempt.one.capabilities.kind == "tuning"
    plain = state.entries[entry.candidate.parent or ORIGINAL] if tuned else entry
    if plain.job is None or state.original.job is None:
        return ()
    step = find_engine_step(plain, state)
    kinds = _kinds_of(plain, state)
    network = "precision" if any(kind in _ARITHMETIC for kind in kinds) else "network"
    passes = " + ".join(f"{one.name} {one.label}".strip() for one in plain.candidate.passes)
    steps: list[tuple[str, str, str | None, str]] = []
    if step != ORIGINAL:
        steps.append(("engine", plain.job.runtime.name, ORIGINAL, step or "the file as it was given"))
    if plain.candidate.passes:
        steps.append((network, passes, step, plain.candidate.id))
    if tuned and entry.attempt is not None:
        only = set(entry.attempt.recipe.settings) <= {"threads", "runtime"}
        label = entry.candidate.id.removeprefix(f"{plain.candidate.id}, ")
        steps.append(("threads" if only else "settings", label, plain.candidate.id, chosen))
    if len(steps) < 2:
        return ()
    return tuple(
        Factor(kind=kind, what=what, before=before or "", after=after, number=_ratio(before, after, races))
        for kind, what, before, after in steps
    )


def _kinds_of(entry: Entry, state: State) -> list[str]:
    """The kinds of the passes that made a variant."""
    kinds: list[str] = []
    while entry.attempt is not None:
        kinds.append(entry.attempt.one.capabilities.kind)
        entry = state.entries[entry.candidate.parent or ORIGINAL]
    return kinds


def _ratio(before: str | None, after: str, races: Sequence[Findings]) -> Number:
    """How many times as fast one is as the other, from the last race that both took part in."""
    for findings in reversed(races):
        places = {one.label: place for place, one in enumerate(findings.variants) if one.run.sessions}
        if before in places and after in places:
            pair = (places[before or ""], places[after])
            (row,) = compare_pairs(findings.variants, [pair], ["latency"], terms=_TERMS)
            return speedup_of(row)
    return Number(value=None, absent_because=f"{before or 'the file as it was given'} and {after} were not in one race")
