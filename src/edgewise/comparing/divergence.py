"""How far the probabilities of two language models differ on the same text: KL divergence, or what engines tell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from edgewise.comparing.comparison import ComparisonResult, Divergence
from edgewise.errors import EdgewiseError, as_flag
from edgewise.record import Run
from edgewise.run.inference import Inference, InferenceFailed
from edgewise.run.language_samples import pack_text
from edgewise.run.run_builder import METERS_OFF, RunBuilder
from edgewise.stats.resampling import bootstrap
from edgewise.workload.prompts import read_prompts

Array = np.ndarray[Any, np.dtype[Any]]

MOST_PROMPTS = 32
MOST_TOKENS = 64
"""Tokens of a prompt whose probabilities are asked for: of each of them for the whole vocabulary."""
MOST_BYTES = 2**29
"""Of the probabilities of one model; prompts beyond are left out."""
LEAST_PROMPTS = 10
"""For an interval."""
RESAMPLES = 1999
NO_TEXT = f"it needs sentences to compare on: give them with {as_flag('input_data')}"


def with_divergence(findings: ComparisonResult, save: Callable[[Run], None]) -> ComparisonResult:
    """Return `findings` with how far each language model is from the first, on the prompts that they were given.

    Each model is loaded once more, one after the other.
    """
    if not findings.agreement or findings.interrupted or findings.failures:
        return findings
    path, *others = {variant.run.job.workload.input_path for variant in findings.variants}
    if path is None or others:
        found = dict.fromkeys(findings.agreement, Divergence(because=NO_TEXT))
    else:
        texts = read_prompts(Path(path))[:MOST_PROMPTS]
        try:
            found = _measure(findings, texts, RunBuilder(save=save, sensors=METERS_OFF))
        except KeyboardInterrupt:  # what was measured is kept
            found = dict.fromkeys(findings.agreement, Divergence(because="interrupted"))
            findings = replace(findings, interrupted=True)
    told = {label: replace(one, divergence=found[label]) for label, one in findings.agreement.items()}
    return replace(findings, agreement=told)


def _measure(findings: ComparisonResult, texts: Sequence[str], builder: RunBuilder) -> dict[str, Divergence]:
    first, *others = findings.variants
    try:
        ours = _ask(first.run, texts, builder)
    except (InferenceFailed, EdgewiseError) as error:
        return dict.fromkeys(findings.agreement, Divergence(because=f"{first.label}: {error}"))
    found = {}
    for other in others:
        try:
            found[other.label] = divergence_of(ours, _ask(other.run, texts, builder))
        except (InferenceFailed, EdgewiseError) as error:
            found[other.label] = Divergence(because=f"{other.label}: {error}")
    return found


def _ask(run: Run, texts: Sequence[str], builder: RunBuilder) -> list[list[Array]]:
    """Return what a model tells of each text, as `edgewise.run.language_samples.pack_text` has it."""
    answers: list[list[Array]] = []
    size = 0
    with Inference(run.job, builder=builder) as inference:
        for text in texts:
            answers += inference.infer([pack_text(text, MOST_TOKENS)])
            size += sum(each.nbytes for each in answers[-1])
            if size > MOST_BYTES:
                break
    return answers


def divergence_of(ours: Sequence[Sequence[Array]], theirs: Sequence[Sequence[Array]]) -> Divergence:
    """Return the divergence of B from A, whose probabilities count.

    KL = mean over the places of Σ p_A · (ln p_A − ln p_B), the sum over all tokens of the vocabulary, in nats. It is 0
    for equal probabilities. The difference is the mean of |ln p_B − ln p_A| of the text's own tokens.

    Args:
        ours, theirs: of each text, as `edgewise.run.language_samples.pack_text` has it.
    """
    pairs = [(a, b) for a, b in islice(zip(ours, theirs, strict=False), MOST_PROMPTS) if len(a[0]) > 1]
    if not pairs:
        return Divergence(because="no prompt has two tokens or more")
    if not all(np.array_equal(a[0], b[0]) for a, b in pairs):
        return Divergence(because="their tokenizers divide the prompts otherwise")
    apart = [np.abs(b[1] - a[1]) for a, b in pairs]
    told = Divergence(
        prompts=len(pairs),
        places=sum(map(len, apart)),
        log_probability_difference=float(np.concatenate(apart).mean()),
    )
    sizes = {each[2].shape[-1] for pair in pairs for each in pair}
    if 0 in sizes:
        return replace(told, because="not given by the engine: it tells the probability of the text's own tokens alone")
    if len(sizes) > 1:
        return replace(told, because=f"their vocabularies have {' and '.join(map(str, sorted(sizes)))} tokens")
    sums = np.array([_divergences(a[2], b[2]).sum() for a, b in pairs])
    if not np.isfinite(sums).all():
        return replace(told, because="a token has the probability 0 in one of them and not in the other")
    counts = np.array([len(a[2]) for a, _ in pairs])
    low, high = _interval(sums, counts)
    return replace(told, kl=float(sums.sum() / counts.sum()), low=low, high=high)


def _divergences(a: Array, b: Array) -> Array:
    """KL divergence of each row of logarithms of probabilities, nats, float64."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    shares = np.exp(a)
    with np.errstate(invalid="ignore"):
        terms = np.where(shares > 0, shares * (a - b), 0.0)
    found: Array = np.maximum(terms.sum(axis=1), 0.0)  # below 0 by rounding alone
    return found


def _interval(sums: Array, counts: Array) -> tuple[float | None, float | None]:
    """95 % interval by a bootstrap over prompts, as the places of one are not independent; None for a few."""
    many = len(sums)
    if many < LEAST_PROMPTS:
        return None, None
    drawn = np.random.default_rng(0).integers(many, size=(RESAMPLES, many))
    left_out = (sums.sum() - sums) / (counts.sum() - counts)
    replicates = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    found = bootstrap(sums.sum() / counts.sum(), replicates, left_out, np.ones(many))
    low, high = found.interval()
    return max(0.0, float(low)), float(high)
