"""Perplexity: how well a language model predicts a text.

Perplexity is exp(−mean of ln p) over the predicted tokens, where p is the probability that the model gives a token
behind those before it (F. Jelinek et al., "Perplexity—a measure of the difficulty of speech recognition tasks", 1977).
It depends on how a tokenizer divides the text; bits per byte, −log₂ of the probability of the text over its bytes in
UTF-8, does not.

As in llama.cpp's ``perplexity``, the first part of each window is context alone. There, the second half of windows that
follow one another is predicted, and so half of the text. Here, each window ends with a sample and is filled with the
text before it, so that every token of the text is predicted once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from edgewise.errors import BadInput
from edgewise.evaluating.dataset import Kind, Sample
from edgewise.evaluating.task import MetricTable, Preparation, Record, Table, TaskContext
from edgewise.evaluating.tasks.language import (
    LONGEST_TOKEN,
    ContextOptions,
    check_room,
    choose_context,
    require_language_model,
    text_of,
)
from edgewise.evaluating.tasks.outputs import OutputTask, brief
from edgewise.workload.arrays import Array

CONTEXT = 512
"""Tokens of a window, as llama.cpp has them."""
METRICS = ("perplexity", "bits_per_byte", "tokens_scored", "tokens_before")
_MOST_NATS = 700.0
"""Of a sample's share: more is no float64."""
_COUNTED = "a count, which no other sample would change"


class PerplexityTable(Table):
    """Of each sample: −ln of its probability (NaN where that is unknown), tokens, bytes, and tokens before it.

    Attributes:
        tokens: of each sample, float64 (n,).
        parts: as `HasParts.parts`.
    """

    def __init__(self, rows: Sequence[Sequence[float | None]]) -> None:
        columns = np.array(rows, np.float64).reshape(-1, 4).T
        self.n = len(rows)
        self.bounds = dict.fromkeys(METRICS, (0.0, math.inf)) | {"perplexity": (1.0, math.inf)}
        self.no_interval: Mapping[str, str] = dict.fromkeys(METRICS[2:], _COUNTED)
        self.tokens: Array = columns[1]
        self._columns: Array = columns
        # Their geometric mean is the perplexity, so that two models can be paired sample by sample.
        shares = columns[0] / (self.tokens.mean() if self.n else 1.0)
        self.parts: Mapping[str, Array] = {"perplexity": np.exp(np.minimum(shares, _MOST_NATS))}

    def _calculate(self, counts: Array) -> Mapping[str, float]:
        if not counts.sum():
            return dict.fromkeys(METRICS, math.nan)
        nats, tokens, size, _ = self._columns @ counts
        with np.errstate(over="ignore"):
            perplexity = float(np.exp(nats / tokens))
        before = float(counts @ self._columns[3] / counts.sum())
        return {
            "perplexity": perplexity,
            "bits_per_byte": float(nats / math.log(2.0) / size),
            "tokens_scored": float(tokens),
            "tokens_before": before,
        }

    def explain(self, metric: str) -> str | None:
        """Return why `metric` is not defined."""
        unknown = int(np.count_nonzero(~np.isfinite(self._columns[0])))
        return f"the model gives {unknown} of {self.n} samples no finite probability" if unknown else None

    def unlike(self, other: object, metric: str) -> str:
        """Return why `metric` of `other`, of the same samples, is another quantity; "" where it is not."""
        if metric != "perplexity" or not isinstance(other, PerplexityTable) or (self.tokens == other.tokens).all():
            return ""
        return "their tokenizers divide the text differently: see bits per byte"


class PerplexityScorer:
    """Records: ``[−ln of the probability, tokens, bytes, tokens before]``."""

    headline = "perplexity"

    def __init__(self, context: TaskContext, options: ContextOptions, *, task: str) -> None:
        require_language_model(context, task)
        self._context = choose_context(options, CONTEXT, context)
        self.settings: Mapping[str, Any] = {
            "context": self._context,
            "window": "ends with the sample, filled with the text before it",
            "predicted": "each token of each sample, once",
        }

    def question(self, sample: Sample) -> Mapping[str, Any]:
        """As `AsksLanguageModel.question`."""
        if not isinstance(sample.label, str):
            raise BadInput(
                f"{sample.name} has the label {brief(sample.label)}, which is no text to predict",
                advice="give a .txt file, or prompts with one reference each",
            )
        before = text_of(sample)[-LONGEST_TOKEN * self._context :]
        return {"before": before, "texts": [sample.label], "context": self._context}

    def record(self, outputs: Sequence[Array], sample: Sample, preparation: Preparation) -> Record:
        """As `Scorer.record`."""
        probability, tokens, before = outputs[0][0].tolist()
        check_room(sample, "the text", int(tokens), int(before), self._context)
        nats = -probability if math.isfinite(probability) else None
        return [nats, int(tokens), len(sample.label.encode()), int(before)]

    def tabulate(self, records: Sequence[Record]) -> MetricTable:
        """As `Scorer.tabulate`."""
        return PerplexityTable(records)


class Perplexity(OutputTask):
    """``perplexity``: how well a language model predicts a text."""

    name = "perplexity"
    title = "Perplexity of a text"
    kinds: Sequence[Kind] = ("text",)
    metrics: Sequence[str] = METRICS
    language_models = True
    options = ContextOptions
    scorer = PerplexityScorer
