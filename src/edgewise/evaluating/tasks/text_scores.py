"""Scores of text against reference texts, from numbers per sample that add up, so that samples can be weighed.

Exact match and F1 are those of P. Rajpurkar et al., "SQuAD: 100,000+ Questions for Machine Comprehension of Text"
(2016): answers are compared in lower case, without punctuation, articles and extra spaces; of several references the
best counts. ROUGE-L is that of C.-Y. Lin, "ROUGE: A Package for Automatic Evaluation of Summaries" (2004), as the F1
of precision and recall, with words as in Google's rouge-score: letters and digits, lower case, not stemmed. BLEU is
sacreBLEU's, with its default settings (M. Post, "A Call for Clarity in Reporting BLEU Scores", 2018).
"""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from edgewise.errors import Unavailable
from edgewise.evaluating.task import Table
from edgewise.text import one_line
from edgewise.workload.arrays import Array

ORDERS = 4
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WORDS = re.compile(r"[a-z0-9]+")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalise(answer: str) -> str:
    """Return it in lower case, without ASCII punctuation, English articles and extra white space."""
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split())


def match_exactly(answer: str, references: Sequence[str]) -> float:
    """Return 1 where the answer equals any reference, normalised, else 0."""
    return float(any(normalise(answer) == normalise(each) for each in references))


def f1_of_tokens(answer: str, references: Sequence[str]) -> float:
    """Return the F1 score of the answer's tokens, normalised, for the reference that it fits best.

    Where either has no tokens left, 1 if both have none, as in SQuAD 2.0 (P. Rajpurkar et al., 2018).
    """
    return max(_f1(normalise(answer).split(), normalise(each).split()) for each in references)


def rouge_l(answer: str, references: Sequence[str]) -> float:
    """Return the F1 of the longest common subsequence of words, for the reference that fits best; 0 without words."""
    words = _WORDS.findall(answer.lower())
    return max(_f1_of_subsequence(words, _WORDS.findall(each.lower())) for each in references)


def _f1_of_subsequence(mine: Sequence[str], other: Sequence[str]) -> float:
    if not mine or not other:
        return 0.0
    # Bits for the words of one side (H. Hyyrö, "Bit-parallel LCS-length computation revisited", 2004).
    places: dict[str, int] = {}
    for place, word in enumerate(mine):
        places[word] = places.get(word, 0) | 1 << place
    row = every = (1 << len(mine)) - 1
    for word in other:
        matched = row & places.get(word, 0)
        row = (row + matched | row - matched) & every
    return 2.0 * (len(mine) - row.bit_count()) / (len(mine) + len(other))


class Bleu:
    """sacreBLEU's corpus score from sums per sample: resamples need no new tokens. Raises `Unavailable` without it."""

    def __init__(self) -> None:
        try:
            from sacrebleu.metrics import BLEU
        except ImportError as error:
            raise Unavailable("BLEU needs sacrebleu", advice="pip install 'edgewise[data]'") from error
        # The option changes the score of single sentences, which is not used, and silences a warning about it.
        self._sentences: Any = BLEU(effective_order=True)

    def statistics(self, answer: str, references: Sequence[str]) -> list[int]:
        """Return a sample's length, that of the closest reference, and matches and n-grams of orders 1 to 4."""
        found = self._sentences.sentence_score(answer, list(references))
        return [found.sys_len, found.ref_len, *found.counts, *found.totals]

    def score(self, sums: Sequence[float]) -> float:
        """Return BLEU, 0 to 1, of the sums of `statistics` over a corpus."""
        length, closest, *rest = (round(each) for each in sums)  # it prints them as whole numbers
        found = self._sentences.compute_bleu(rest[:ORDERS], rest[ORDERS:], length, closest, smooth_method="exp")
        return float(found.score) / 100.0


class TextTable(Table):
    """Answers and references of n samples.

    Args:
        answers: of the model.
        references: of every sample one text or more.
        bleu: None: there is no BLEU, for the reason `missing`.
    """

    def __init__(
        self, answers: Sequence[str], references: Sequence[Sequence[str]], *, bleu: Bleu | None, missing: str = ""
    ) -> None:
        pairs = list(zip(answers, references, strict=True))
        self.n = len(pairs)
        self.proportions = {"exact_match": np.array([match_exactly(*pair) for pair in pairs])}
        self._f1 = np.array([f1_of_tokens(*pair) for pair in pairs])
        self._rouge = np.array([rouge_l(*pair) for pair in pairs])
        self._bleu = bleu
        rows = [] if bleu is None else [bleu.statistics(*pair) for pair in pairs]
        self._statistics = np.array(rows, np.float64).reshape(-1, 2 + 2 * ORDERS)
        self._missing = missing

    def _calculate(self, counts: Array) -> Mapping[str, float]:
        total = float(counts.sum())
        if total <= 0:
            return dict.fromkeys(("exact_match", "f1_tokens", "rouge_l", "bleu"), math.nan)
        return {
            "exact_match": float(counts @ self.proportions["exact_match"]) / total,
            "f1_tokens": float(counts @ self._f1) / total,
            "rouge_l": float(counts @ self._rouge) / total,
            "bleu": math.nan if self._bleu is None else self._bleu.score((counts @ self._statistics).tolist()),
        }

    def explain(self, metric: str) -> str | None:
        """Return why `metric` is not defined."""
        return one_line(self._missing) if metric == "bleu" and self._bleu is None else None


def _f1(mine: Sequence[str], other: Sequence[str]) -> float:
    if not mine or not other:
        return float(mine == other)
    shared = (Counter(mine) & Counter(other)).total()
    return 2.0 * shared / (len(mine) + len(other))
