"""Do two language models make the same tokens? Their answers to the same prompts, position by position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edgewise.comparing.comparison import TokenAgreement, Variant
from edgewise.record import Run
from edgewise.stats.proportions import wilson_interval


def compare_tokens(variants: Sequence[Variant]) -> dict[str, TokenAgreement]:
    """Label → agreement with the first variant, of every later one; empty where no language model made text."""
    if not all(each.run.job.workload.scenario.kind == "generate" for each in variants):
        return {}
    return {each.label: agreement_of(variants[0], each) for each in variants[1:]}


def agreement_of(a: Variant, b: Variant) -> TokenAgreement:
    """Agreement of the answers of `b` with those of `a`."""
    if any(each.run.job.workload.scenario.depth for each in (a, b)):
        return TokenAgreement(because="at a depth the first token of each prompt is one that the model made itself")
    found = {each.label: _answers(each.run) for each in (a, b)}
    if silent := [label for label, (answers, _) in found.items() if not answers]:
        return TokenAgreement(because=f"no tokens on record of {' and of '.join(silent)}")
    (ours, _), (theirs, _) = found.values()
    pairs = [(ours[prompt], theirs[prompt]) for prompt in ours if prompt in theirs]
    if not pairs:
        return TokenAgreement(because="they have no prompt in common: another text, or a tokenizer that divides it")
    places = [_first_difference(*pair) for pair in pairs]
    differing = [place for place in places if place is not None]
    equal = len(pairs) - len(differing)
    low, high = wilson_interval(equal, len(pairs))
    return TokenAgreement(
        prompts=len(pairs),
        equal_prompts=equal,
        low=low,
        high=high,
        positions=sum(min(map(len, pair)) for pair in pairs),
        equal_positions=sum(one == other for pair in pairs for one, other in zip(*pair, strict=False)),
        first_difference=min(differing, default=None),
        unsteady=tuple(label for label, (_, steady) in found.items() if not steady),
    )


def _answers(run: Run) -> tuple[dict[str, Sequence[int]], bool]:
    """Prompt → the tokens of its first answer, and whether all later ones to it were the same."""
    found: dict[str, Sequence[int]] = {}
    steady = True
    for session in run.sessions:
        told = session.facts.get("generation")
        for prompt, tokens in told.get("answers", ()) if isinstance(told, Mapping) else ():
            steady &= _first_difference(found.setdefault(prompt, tokens), tokens) is None
    return found, steady


def _first_difference(a: Sequence[int], b: Sequence[int]) -> int | None:
    """From 1; None where they are equal as far as both go."""
    pairs = enumerate(zip(a, b, strict=False), 1)
    return next((place for place, (one, other) in pairs if one != other), None)
