"""The samples that a model was calibrated on, from the provenance beside its file, and its score without them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from edgewise.evaluating.evaluator import SampleResults
from edgewise.evaluating.scores import score
from edgewise.evaluating.task import Scorer
from edgewise.record import CalibratedPart, ModelRef

DIGITS = 16
"""Of a sample's SHA-256 that a provenance has: enough to tell the samples of any data set apart."""
_MOST_BYTES = 2**22


def shorten_digests(digests: Sequence[str]) -> list[str]:
    """Return the digests of samples as a provenance has them."""
    return [digest[:DIGITS] for digest in digests]


def read_calibrated(model: ModelRef) -> frozenset[str]:
    """Return the short digests of the samples that `model` was calibrated on; none where that is not on record.

    A provenance of another file, or one that can't be read, tells nothing.
    """
    path = Path(model.path)
    file = path.with_name(f"{path.name}.provenance.json")
    try:
        if file.stat().st_size > _MOST_BYTES:
            return frozenset()
        document = json.loads(file.read_text("utf-8"))
        if document["model"]["sha256"] != model.sha256:
            return frozenset()
        return frozenset(map(str, document["calibration"]["samples"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return frozenset()


def score_without(
    calibrated: frozenset[str], results: SampleResults, scorer: Scorer, *, seed: int
) -> CalibratedPart | None:
    """Return how many of the scored samples also calibrated the model, and its headline without them; None for none."""
    scored = [entry for entry in results.entries if not entry.reason]
    others = [entry.record for entry in scored if entry.digest[:DIGITS] not in calibrated]
    count, headline = len(scored) - len(others), scorer.headline
    if not count:
        return None
    if not others:
        return CalibratedPart(samples=count, metric=headline, n=0)
    found = score(scorer.tabulate(others), seed=seed, only=(headline,))
    own = next((one for one in found if one.metric == headline), None)
    ends = (None, None, None) if own is None else (own.value, own.low, own.high)
    return CalibratedPart(samples=count, metric=headline, n=len(others), value=ends[0], low=ends[1], high=ends[2])
