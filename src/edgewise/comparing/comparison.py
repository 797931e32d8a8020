"""The result of a comparison: one row per metric of B against A, and what holds for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from edgewise.errors import StoreError
from edgewise.formatting import ratio_text
from edgewise.metrics import METRICS
from edgewise.record import Disagreement, Run
from edgewise.shown import Shown
from edgewise.stats.between_runs import Scatter
from edgewise.stats.comparison import RISK

Verdict = Literal["faster", "slower", "same", "inconclusive"]
Design = Literal["interleaved", "sessions", "paired", "intervals", "exact", "same-run", "none"]

SCHEMA = 1
NO_KL = "runs have the tokens without the probabilities of the others"

#: unit → words for better and worse
_WORDS: dict[str, tuple[str, str]] = {
    "s": ("faster", "slower"),
    "1/s": ("faster", "slower"),
    "B": ("smaller", "larger"),
    "J": ("less energy", "more energy"),
    "J/token": ("less energy", "more energy"),
    "W": ("less power", "more power"),
    "K": ("cooler", "hotter"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One thing that is compared: a label and the run that was measured of it.

    Attributes:
        scatter: variance of the logarithm of its time between fresh processes, as an earlier run of the same job tells
            it (`edgewise.comparing.session_values.scatter_of_processes`); that of turns is pooled with it.
    """

    label: str
    run: Run
    scatter: Scatter | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side of a comparison: its headline and its own 95 % interval, in the metric's unit; None where not known."""

    value: float | None
    low: float | None = None
    high: float | None = None
    replicates: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """B against A in one metric.

    Attributes:
        a, b: labels of the variants; A is the baseline.
        metric: an id of the metric catalogue.
        before, after: A's and B's own numbers.
        ratio: B over A; None where it can't be known, and then `because` says why.
        low, high: its 95 % interval under the conditions of the measurement.
        rerun_low, rerun_high: its 95 % interval for a comparison at another time on this machine; None where the sides
            did not take turns, since their interval contains that, or where it is not known.
        rerun_sigma: standard deviation of the logarithms of such ratios.
        rerun_method: how that came about.
        proof_low, proof_high: the interval that a verdict rests on, with a risk of error of 1 % over all metrics, where
            it contains 1 though `low` to `high` leaves it out; else None.
        p_value, p_adjusted: of a ratio of 1, over all looks, without and with Holm's correction over all metrics;
            `p_value` is below 0.05 exactly where `low` to `high` leaves out 1.
        margin: relative difference that doesn't matter here: the threshold, or the absolute floor over the smaller
            value.
        verdict: of B against A. For every metric ``faster`` is the better side and ``slower`` the worse one.
        design: where the evidence comes from. ``interleaved``: processes that took turns; ``sessions``: fresh processes
            measured apart; ``paired``: the same samples of a data set; ``intervals``: two quoted intervals;
            ``exact``: numbers without any spread; ``same-run``: a run is compared with itself.
        method: how ratio and interval came about.
        because: why there is no ratio or no verdict.
        disagreement: the ratios of several statistics, where the interval spans them; None where the ratio is of one.
        decides_in_s: how much longer measuring would decide it, if nothing changes; None where that can't be known or
            where it is decided.
    """

    a: str
    b: str
    metric: str
    before: Side
    after: Side
    verdict: Verdict
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    rerun_low: float | None = None
    rerun_high: float | None = None
    rerun_sigma: float | None = None
    rerun_method: str = ""
    proof_low: float | None = None
    proof_high: float | None = None
    p_value: float | None = None
    p_adjusted: float | None = None
    margin: float | None = None
    design: Design = "none"
    method: str = ""
    because: str = ""
    disagreement: Disagreement | None = None
    decides_in_s: float | None = None

    @property
    def unit(self) -> str:
        """SI base unit of the two values."""
        return METRICS[self.metric].unit

    @property
    def word(self) -> str:
        """The verdict in the words of the metric: ``smaller`` for bytes, ``better`` for accuracy."""
        if self.verdict in ("same", "inconclusive"):
            return self.verdict
        row = METRICS[self.metric]
        better, worse = _WORDS.get(row.unit, ("better", "worse"))
        return better if self.verdict == "faster" else worse

    def is_ahead(self, label: str) -> bool:
        """Whether the side called `label` has the better number, proven or not."""
        if label not in (self.a, self.b) or self.ratio is None or self.ratio == 1.0:
            return False
        return (label == self.b) == ((self.ratio < 1.0) == (METRICS[self.metric].better == "lower"))

    def ratio_of(self, label: str) -> tuple[float | None, float | None, float | None]:
        """Return the side called `label` over the other one, with its 95 % interval."""
        if label == self.b or self.ratio is None:
            return self.ratio, self.low, self.high
        low, high = (None if end is None or end <= 0.0 else 1.0 / end for end in (self.high, self.low))
        return 1.0 / self.ratio, low, high

    def rerun_of(self, label: str) -> tuple[float | None, float | None]:
        """Return the interval at another time of the ratio that `ratio_of` gives."""
        return self._ends_of(label, self.rerun_low, self.rerun_high)

    def proof_of(self, label: str) -> tuple[float | None, float | None]:
        """Return the interval that a verdict rests on, of the ratio that `ratio_of` gives."""
        return self._ends_of(label, self.proof_low, self.proof_high)

    def _ends_of(self, label: str, low: float | None, high: float | None) -> tuple[float | None, float | None]:
        return (low, high) if label == self.b or not low or not high else (1.0 / high, 1.0 / low)

    def to_document(self) -> dict[str, Any]:
        """Return the row of the JSON document."""
        return {**asdict(self), "unit": self.unit, "word": self.word, "because": self.because or None}


def why_unproven(ratio: float, low: float | None, high: float | None, *, over: str = "pairs") -> str:
    """Return why an interval of 95 % proves nothing: ``"a proof takes the 99 % interval over all pairs, 0.9 to 28"``.

    Args:
        low, high: the interval that a verdict rests on; None in older records.
    """
    if low is None or high is None:
        return f"a proof takes a risk of error below {100 * RISK:g} % over all {over}, the interval has 5 %"
    ends = ratio_text(ratio, low, high).partition(" (")[2].removesuffix(")")
    return f"a proof takes the {100 * (1.0 - RISK):g} % interval over all {over}, {ends}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """A place in the ranking.

    Attributes:
        place: from 1, behind those that are proven better; nothing is proven among those of one place.
        groups: letters; two variants share one exactly where they can't be told apart. "" where the variant can't be
            ranked.
        ratio, low, high: to the first of the ranking, with the 95 % interval; None where it can't be known.
    """

    label: str
    place: int
    groups: str
    value: float | None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Three or more variants in the order of one metric, best first."""

    metric: str
    places: tuple[Ranked, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParetoFront:
    """Variants that no other beats: none is proven better in one metric and proven no worse in the others.

    Attributes:
        members: labels of the front, in the order of the variants.
        beaten: label → labels of what beats it.
    """

    metrics: tuple[str, ...]
    members: tuple[str, ...]
    beaten: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A condition in which two runs differ, in words a person reads."""

    name: str
    a: str
    b: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """How far the probabilities of B are from those of A, on the same text.

    Attributes:
        kl: KL divergence of B from A, nats, the mean over `places`; None where an engine does not tell all
            probabilities, and then `because` says why.
        low, high: its 95 % interval for texts like these; None for fewer than 10 prompts.
        prompts, places: of the text, and tokens that were predicted in it.
        log_probability_difference: mean of |ln p_B − ln p_A| of the text's own tokens; None where nothing is known.
    """

    kl: float | None = None
    low: float | None = None
    high: float | None = None
    prompts: int = 0
    places: int = 0
    log_probability_difference: float | None = None
    because: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenAgreement:
    """Greedy tokens of B against those of A, on the same prompts.

    Attributes:
        prompts, equal_prompts: answered by both; with the same tokens from the first to the last.
        low, high: 95 % interval of the share of `equal_prompts` among prompts like these.
        positions, equal_positions: of all these answers; with the same token on both sides.
        first_difference: the earliest position, from 1, at which answers to a prompt differ; None where none do.
        unsteady: labels of variants that answered one prompt differently in different processes.
        because: why nothing is known; "" where something is.
        divergence: of the probabilities, where the models were at hand.
    """

    prompts: int = 0
    equal_prompts: int = 0
    low: float | None = None
    high: float | None = None
    positions: int = 0
    equal_positions: int = 0
    first_difference: int | None = None
    unsteady: tuple[str, ...] = ()
    because: str = ""
    divergence: Divergence = Divergence(because=NO_KL)

    @property
    def share(self) -> float | None:
        """Positions with the same token, 0…1; None where nothing is known."""
        return self.equal_positions / self.positions if self.positions else None

    def to_document(self) -> dict[str, Any]:
        """Return the row of the JSON document."""
        row = asdict(self)
        del row["divergence"]
        found = self.divergence
        told = {
            "share": self.share, "kl_divergence": found.kl, "kl_low": found.low, "kl_high": found.high,
            "kl_absent_because": found.because or None, "kl_places": found.places,
            "log_probability_difference": found.log_probability_difference,
        }  # fmt: skip
        return {**row, **told, "because": self.because or None}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ComparisonResult(Shown):
    """The result of comparing two or more variants.

    Attributes:
        comparisons: every later variant against the first, metric by metric.
        stated: intended differences, such as another engine, precision or thread count.
        obstacles: what makes the comparison unfair, where it was forced.
        not_excluded: what else may have caused a difference between runs measured apart.
        environments: where the environments of runs measured apart differ.
        notes: further one-line statements, such as that two files are identical.
        conditions: the state of the machine meanwhile, as the reference kernels tell it.
        stopped_because: why measuring ended; empty where nothing was measured.
        elapsed_s: time spent measuring.
        pairs: pairs (rounds) of fresh processes.
        failures: label → why a variant has no result.
        reasons: label → why it is faster or slower than the first, in one line.
        agreement: label → do a language model and the first one make the same tokens; empty for other models.
        interrupted: whether Ctrl-C ended the measuring.
        save_errors: why runs could not be saved.
    """

    variants: tuple[Variant, ...]
    comparisons: tuple[Comparison, ...]
    ranking: Ranking | None = None
    front: ParetoFront | None = None
    stated: tuple[str, ...] = ()
    obstacles: tuple[str, ...] = ()
    not_excluded: tuple[str, ...] = ()
    environments: tuple[Difference, ...] = ()
    notes: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    stopped_because: str = ""
    elapsed_s: float | None = None
    pairs: int | None = None
    failures: Mapping[str, str] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    agreement: Mapping[str, TokenAgreement] = field(default_factory=dict)
    interrupted: bool = False
    save_errors: tuple[StoreError, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether nothing failed and nothing is proven worse."""
        return not self.failures and not any(row.verdict == "slower" for row in self.comparisons)

    def to_document(self) -> dict[str, Any]:
        """Return the JSON document of ``edgewise compare``."""
        document: dict[str, Any] = {
            "schema": SCHEMA,
            "comparisons": [row.to_document() for row in self.comparisons],
            "passed": self.passed,
            "variants": [
                {"label": variant.label, "run": variant.run.id, "status": variant.run.status}
                for variant in self.variants
            ],
            "ranking": None,
            "pareto": None,
            "stated": list(self.stated),
            "obstacles": list(self.obstacles),
            "not_excluded": list(self.not_excluded),
            "environments": [asdict(one) for one in self.environments],
            "notes": list(self.notes),
            "conditions": list(self.conditions),
            "stopped_because": self.stopped_because or None,
            "elapsed_s": self.elapsed_s,
            "pairs": self.pairs,
            "failures": dict(self.failures),
            "reasons": dict(self.reasons),
            "agreement": {label: one.to_document() for label, one in self.agreement.items()},
            "interrupted": self.interrupted,
        }
        if self.ranking is not None:
            document["ranking"] = asdict(self.ranking)
        if self.front is not None:
            document["pareto"] = asdict(self.front)
        return document
