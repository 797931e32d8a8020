"""Scores of text against reference texts, from numbers per sample that add up, so that samples can be weighed.

Exact match and F1 are those of P. Rajpurkar et al., "SQuAD: 100,000+ Questions for Machine Comprehension of Text"
(2016): answers are compared in lower case, without punctuation, articles and extra spaces; of several references the
best counts. BLEU is that of K. Papineni et al., "BLEU: a Method for Automatic Evaluation of Machine Translation" (2002)
over the whole corpus, with the settings of M. Post, "A Call for Clarity in Reporting BLEU Scores" (2018): tokens as
mteval-v13a cuts them, mixed case, orders 1 to 4, the closest reference length (the shorter of two), and exponential
smoothing of orders without a match (B. Chen and C. Cherry, 2014, method 3).
"""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from edgewise.errors import Unavailable
from edgewise.text import one_line

Array = np.ndarray[Any, np.dtype[Any]]
Tokenize = Callable[[str], str]
"""Text → the same with a space between tokens."""

ORDERS = 4
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalise(answer: str) -> str:
    """Lower case, without ASCII punctuation, English articles and extra white space."""
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split())


def match_exactly(answer: str, references: Sequence[str]) -> float:
    """1 where the answer equals any reference, normalised, else 0."""
    return float(any(normalise(answer) == normalise(each) for each in references))


def f1_of_tokens(answer: str, references: Sequence[str]) -> float:
    """Harmonic mean of precision and recall of the answer's tokens, normalised; of the reference that it fits best.

    Where either has no tokens left, 1 if both have none, as in SQuAD 2.0 (P. Rajpurkar et al., 2018).
    """
    return max(_f1(normalise(answer).split(), normalise(each).split()) for each in references)


def bleu_statistics(answer: str, references: Sequence[str], tokenize: Tokenize) -> list[int]:
    """What one sample adds to BLEU: its length, that of the closest reference, matches and n-grams of orders 1 to 4."""
    mine = tokenize(answer.rstrip()).split()
    others = [tokenize(each.rstrip()).split() for each in references]
    matches, totals = [], []
    for order in range(1, ORDERS + 1):
        allowed: Counter[tuple[str, ...]] = Counter()
        for each in others:
            allowed |= _grams(each, order)
        found = _grams(mine, order)
        matches.append((found & allowed).total())
        totals.append(found.total())
    closest = min((len(each) for each in others), key=lambda length: (abs(length - len(mine)), length))
    return [len(mine), closest, *matches, *totals]


def bleu_of(sums: Sequence[float]) -> float:
    """BLEU, 0 to 1, of the sums of `bleu_statistics` over a corpus."""
    length, closest = sums[0], sums[1]
    matches, totals = sums[2 : 2 + ORDERS], sums[2 + ORDERS :]
    if not any(matches) or not all(totals):
        return 0.0
    smoothing, logarithms = 1.0, 0.0
    for found, total in zip(matches, totals, strict=True):
        if found == 0:
            smoothing *= 2.0
        logarithms += math.log(found / total if found else 1.0 / (smoothing * total))
    penalty = 1.0 if length >= closest else math.exp(1.0 - closest / length)
    return penalty * math.exp(logarithms / ORDERS)


def open_bleu_tokenizer() -> Tokenize:
    """The 13a tokenizer of sacreBLEU. Raises `Unavailable`."""
    try:
        from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
    except ImportError as error:
        raise Unavailable(
            "BLEU needs sacrebleu for its tokens", advice="pip install 'edgewise[huggingface]'"
        ) from error
    found: Tokenize = Tokenizer13a()
    return found


class TextTable:
    """Answers and references of n samples.

    Args:
        answers: of the model.
        references: of every sample one text or more.
        tokenize: for BLEU; None: there is no BLEU, for the reason `missing`.
    """

    def __init__(
        self,
        answers: Sequence[str],
        references: Sequence[Sequence[str]],
        *,
        tokenize: Tokenize | None,
        missing: str = "",
    ) -> None:
        pairs = list(zip(answers, references, strict=True))
        self.n = len(pairs)
        self.proportions: Mapping[str, Array] = {"exact_match": np.array([match_exactly(*pair) for pair in pairs])}
        self.bounds: Mapping[str, tuple[float, float]] = {}
        self._f1 = np.array([f1_of_tokens(*pair) for pair in pairs])
        self._bleu: Array | None = None
        if tokenize is not None:
            rows = [bleu_statistics(*pair, tokenize) for pair in pairs]
            self._bleu = np.array(rows, np.float64).reshape(-1, 2 + 2 * ORDERS)
        self._missing = missing

    def values(self, weights: Array | None = None) -> Mapping[str, float]:
        """Exact match, F1 and BLEU; NaN without samples, and BLEU without sacrebleu."""
        each = np.ones(self.n) if weights is None else np.asarray(weights, np.float64)
        total = float(each.sum())
        if total <= 0:
            return dict.fromkeys(("exact_match", "f1_tokens", "bleu"), math.nan)
        return {
            "exact_match": float(each @ self.proportions["exact_match"]) / total,
            "f1_tokens": float(each @ self._f1) / total,
            "bleu": math.nan if self._bleu is None else bleu_of((each @ self._bleu).tolist()),
        }

    def explain(self, metric: str) -> str | None:
        """Why `metric` is not defined."""
        return one_line(self._missing) if metric == "bleu" and self._bleu is None else None


def _f1(mine: Sequence[str], other: Sequence[str]) -> float:
    if not mine or not other:
        return float(mine == other)
    shared = (Counter(mine) & Counter(other)).total()
    return 2.0 * shared / (len(mine) + len(other))


def _grams(tokens: Sequence[str], order: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(tokens[at : at + order]) for at in range(len(tokens) - order + 1))
