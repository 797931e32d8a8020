"""The result of a search: variants with their provenance, their metrics and why each was accepted or not."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from edgewise.errors import StoreError
from edgewise.model.eager import EAGER
from edgewise.progress import VariantTested, emit
from edgewise.record import DataRef, Job, ModelRef, Run, RuntimeSpec
from edgewise.record.run import Basis
from edgewise.shown import Shown

if TYPE_CHECKING:
    from edgewise.comparing.allowed_loss import LimitCheck
    from edgewise.comparing.comparison import Verdict
    from edgewise.optimizing.accuracy import Accuracy
    from edgewise.optimizing.base import PassKind
    from edgewise.optimizing.changed_answers import ChangedAnswers
    from edgewise.optimizing.planning import PlannedTask

SCHEMA = 1
ORIGINAL = "original"
"""Id of the baseline of all comparisons."""
ABOUT_ORIGINAL = "the original: "
"""Begins the notes that doubt its accuracy."""
UNTRIED_SETTINGS = "settings of "
"""Begins the note on settings of an engine for which there was no time."""
ABSENT_ENGINES = "no part taken: "
"""Begins the note on engines that read only another format of the network."""

BUSY_MACHINE = "the machine was busy: "
"""Begins the note on variants that a short measurement on a busy machine left undecided."""

MOST_FILE_WORDS = 100
"""Characters of a variant's id that the name of its file has, of which systems allow 255 in all."""
EXPORT = "export"
"""Begins the id of a module's file that no pass has changed: ``export @ onnxruntime``."""

Stage = Literal["planned", "made", "loaded", "agreed", "sliced", "judged", "screened", "raced", "estimated"]
"""The last stage of a variant: planned; its file exists; an engine loads it; its outputs agree on a few samples; judged
on a part of the data, and on all of it; timed in a short race; raced to a verdict, or estimated for a device that is
not at hand."""


SMALLER = 0.95
"""A file counts as smaller with at most this share of the other's bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricValue:
    """A value with its interval, in the unit of its metric.

    `speedup`, `memory_reduction` and `accuracy_drop` are pure numbers.

    Attributes:
        coverage: share of cases in which the interval contains the true value.
        at_least: a part of an absent value that is known.
        verdict: of a ratio, on the variant: what its race proved, adjusted for all of the race's comparisons; None of
            other numbers.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    basis: Basis = "measured"
    method: str = ""
    absent_because: str | None = None
    coverage: float = 0.95
    at_least: float | None = None
    verdict: Verdict | None = None

    def to_document(self) -> dict[str, Any]:
        """As JSON has it."""
        return {**asdict(self), "basis": self.basis if self.value is not None else None}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceEstimate:
    """What is known of a model on a device that is not at hand.

    Attributes:
        device, title: its name as the user gave it, and what it is.
        software: what computed the numbers, with its version.
        metrics: ``latency``, ``memory_sram``, ``flash`` …, each with its basis.
        untimed: types of the operators whose time is not known, one entry each.
        bound: what is known of a latency that is not known as a whole, in words.
        fit: whether it fits into the memories of a board, in words; empty where the device is no board.
        refused: why there is no estimate; empty where there is one.
        advice: what to do about `refused`.
    """

    device: str
    title: str = ""
    software: str = ""
    metrics: Mapping[str, MetricValue] = field(default_factory=dict)
    untimed: tuple[str, ...] = ()
    bound: str = ""
    fit: str = ""
    refused: str = ""
    advice: str = ""

    def to_document(self) -> dict[str, Any]:
        """As JSON has it, without the metrics, which are among those of the variant."""
        return {"name": self.device, "title": self.title, "software": self.software, "untimed": list(self.untimed),
                "fit": self.fit or None, "refused": self.refused or None}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The pre-flight's prediction of a pass on this model, engine and machine.

    Attributes:
        speedup: predicted time before over time after; None where there is no prediction.
        low, high: 95 % interval.
        because: the evidence, or why there is no prediction, in one line.
        method: in words.
    """

    speedup: float | None
    low: float | None = None
    high: float | None = None
    because: str = ""
    method: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedPass:
    """A pass with the settings with which it was applied."""

    name: str
    label: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    keep_float: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSensitivity:
    """The effect of changing one layer alone.

    Attributes:
        layer: the operator's name.
        op: its type.
        snr_db: SNR of the network's outputs when only this layer is changed, dB; lower is more fragile.
        gain_db: gain in SNR when only this layer is spared from a change of all layers, dB.
        accuracy_drop: on a part of the data, when only this layer is changed; None where it was not measured.
        fragile: whether it is kept in float by mixed precision.
    """

    layer: str
    op: str
    snr_db: float | None = None
    gain_db: float | None = None
    accuracy_drop: float | None = None
    fragile: bool = False
    absent_because: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A variant: a model file with engine settings, its provenance and its results.

    Attributes:
        id: short and unique: ``ort-static per-channel @ onnxruntime``; the baseline's is ``original``.
        parent: id of the variant that it was made from; None for the baseline.
        model: None where it could not be made.
        passes: all, from the original on.
        accepted: proven faster (or smaller, with the aim ``size``) within every bound.
        why: the reason for the decision, one line.
        metrics: from the race ``latency``, ``memory_peak`` and the ratios of the original's to the variant's,
            ``speedup`` and ``memory_reduction``; from the checks ``model_size``, the task's headline metric,
            ``accuracy_drop``, ``agreement_top1``, ``output_snr_worst`` …
        run: id of its run in the store.
        task: the task that made its file; None for given files.
        job: None until its file was made.
        accuracy: on all of the data.
        measured: its run in the race.
        beside: the original as measured in that race.
        quality: whether its loss is proven to be within its bound; None where it was not accepted, or none is known.
        elsewhere: its estimate for a device that is not at hand; None where variants are raced.
        rejected: whether the variant is out, because of `why`.
        behind: of an accepted one, how much slower than the chosen one it is, in words; empty where no race tells.
        unreached: whether it is out only because the search ended before its next step, by its time or by Ctrl-C.
    """

    id: str
    parent: str | None
    runtime: RuntimeSpec
    model: ModelRef | None = None
    passes: tuple[AppliedPass, ...] = ()
    predicted: Prediction | None = None
    stage: Stage = "planned"
    accepted: bool = False
    why: str = ""
    metrics: Mapping[str, MetricValue] = field(default_factory=dict)
    run: str | None = None
    task: PlannedTask | None = field(default=None, repr=False, compare=False)
    job: Job | None = field(default=None, repr=False, compare=False)
    accuracy: Accuracy | None = field(default=None, repr=False, compare=False)
    measured: Run | None = field(default=None, repr=False, compare=False)
    beside: Candidate | None = field(default=None, repr=False, compare=False)
    quality: LimitCheck | None = None
    elsewhere: DeviceEstimate | None = field(default=None, repr=False, compare=False)
    rejected: bool = False
    unreached: bool = False
    behind: str = ""

    @property
    def may_race(self) -> bool:
        """Whether it passed every check so far."""
        return self.stage == "judged" and not self.rejected and self.job is not None

    @property
    def whole_why(self) -> str:
        """The reason for the decision, and how much slower than the chosen one it is."""
        return "; ".join(filter(None, (self.why, self.behind)))

    @property
    def is_undecided(self) -> bool:
        """Whether it is out only because it was timed beside other processes, which may have slowed it."""
        return self.stage == "screened" and self.unreached

    @property
    def unproven(self) -> str:
        """What is not proven about its loss, in words; empty where nothing is open."""
        is_open = self.quality is not None and self.quality.verdict == "inconclusive"
        return self.quality.because if self.quality is not None and is_open else ""

    @property
    def kind(self) -> PassKind | None:
        """Kind of the pass that made it; None for given files."""
        return None if self.task is None else self.task.capabilities.kind

    @property
    def family(self) -> str:
        """Family of the pass that made it, such as ``int8``; empty for given files and exact passes."""
        return "" if self.task is None else self.task.capabilities.family

    @property
    def is_export(self) -> bool:
        """Whether it is a file of the network as it is: given, or converted and not changed otherwise."""
        return self.parent is not None and self.kind in (None, "conversion")

    def value(self, metric: str) -> float | None:
        """Return the number of a metric; None where it is absent."""
        number = self.metrics.get(metric)
        return None if number is None else number.value

    def advance(self, stage: Stage, metrics: Mapping[str, MetricValue] | None = None) -> Candidate:
        """Return the candidate with this stage and further metrics."""
        return replace(self, stage=stage, metrics={**self.metrics, **(metrics or {})})

    def reject(self, why: str) -> Candidate:
        """Return the candidate, rejected for this reason."""
        return replace(self, why=why, rejected=True)

    def leave(self, why: str) -> Candidate:
        """Return the candidate, out because the search ended before its next step."""
        return replace(self.reject(why), unreached=True)

    def to_document(self) -> dict[str, Any]:
        """Return the row of the JSON document."""
        return {
            "id": self.id,
            "path": None if self.model is None else self.model.path,
            "parent": self.parent,
            "runtime": asdict(self.runtime),
            "passes": [asdict(one) for one in self.passes],
            "predicted": None if self.predicted is None else asdict(self.predicted),
            "stage": self.stage,
            "accepted": self.accepted,
            "why": self.whole_why,
            "metrics": {name: number.to_document() for name, number in self.metrics.items()},
            "model": None if self.model is None else asdict(self.model),
            "run": self.run,
            "allowed_loss": None if self.quality is None else self.quality.to_document(),
            "device": None if self.elsewhere is None else self.elsewhere.to_document(),
        }


def smallest(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates with the smallest file, and those whose file is not counted as larger."""
    most = min(map(size_of, candidates)) / SMALLER
    return [one for one in candidates if size_of(one) <= most]


def size_of(one: Candidate) -> float:
    """Bytes of its file, or infinity where they are not known."""
    size = one.value("model_size")
    return math.inf if size is None else size


def emit_candidate(candidate: Candidate) -> None:
    """Report a variant's stage and metrics, or why it was rejected."""
    known = {name: number.value for name, number in candidate.metrics.items() if number.value is not None}
    emit(VariantTested(id=candidate.id, stage=candidate.stage, accepted=candidate.accepted, why=candidate.why,
                       metrics=known))  # fmt: skip


def file_words_of(variant: str) -> str:
    """``nncf-ptq-thorough``: what the name of a file has of the id of its variant, which the engine's settings end."""
    words = re.sub(r"[^a-z0-9]+", "-", (variant.rpartition(" @ ")[0] or variant).lower())
    return words[-MOST_FILE_WORDS:].strip("-")  # an id may begin with the path of a given file


def root_of(name: str, candidates: Mapping[str, Candidate]) -> ModelRef:
    """Return the given file that a variant was made of; it may be the variant's own."""
    candidate = candidates[name]
    while candidate.parent is not None and candidate.passes:
        candidate = candidates[candidate.parent]
    assert candidate.model is not None
    return candidate.model


def made_of(one: Candidate, known: Mapping[str, Candidate]) -> Candidate:
    """Return the variant that has the file of `one`, without further settings of the engine."""
    while one.kind == "tuning" and one.parent is not None and one.parent in known:
        one = known[one.parent]
    return one


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A limit on a metric, such as ``latency`` ≤ 0.005 s.

    Attributes:
        metric: a key of `Candidate.metrics`.
        words: as given: ``--max-latency 5ms``.
        upper: whether the limit is the highest value, else the lowest.
        relative_to: metric of the original of which the limit is a share; None for an absolute limit.
    """

    metric: str
    limit: float
    words: str
    upper: bool = True
    relative_to: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotTried:
    """Variants for which the time budget left no room.

    Attributes:
        variants: ids of the variants that were planned and not judged.
        of: number of planned variants.
        families: families of passes without a judged variant: ``int8``, ``pruning`` …
        budget_s: the budget to try next, s: twice the given one.
    """

    variants: tuple[str, ...] = ()
    of: int = 0
    families: tuple[str, ...] = ()
    budget_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionWithData:
    """The predicted speed-up of a pass that lacks samples; the pre-flight used random ones.

    Attributes:
        variant: id of the result.
        engine: of the model and of the result.
    """

    variant: str
    engine: str
    prediction: Prediction

    def to_document(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"variant": self.variant, "engine": self.engine, **asdict(self.prediction), "basis": "estimated"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Factor:
    """A part of the chosen variant's speed-up.

    Attributes:
        kind: ``engine``, ``precision`` (quantisation and compression), ``network`` (other passes), ``threads`` or
            ``settings``; several, with `` + ``, where no race separates them.
        what: the engine, the passes or the settings.
        before, after: ids of the two variants.
        number: time before over time after.
    """

    kind: str
    what: str
    before: str
    after: str
    number: MetricValue

    def to_document(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"kind": self.kind, "what": self.what, "before": self.before, "after": self.after,
                **self.number.to_document()}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Optimization(Shown):
    """The result of a search.

    Attributes:
        baseline: the original with its measurements.
        candidates: all other variants, in the order of the plan.
        front: ids on the Pareto front of `front_metrics`.
        chosen: id of the recommended variant; None where none beats the original.
        reason: why the chosen variant is faster: the kernels of its layers, else how its file differs; empty where
            neither is known.
        chosen_because: why it, of those that no race tells from the fastest; empty where there are none.
        factors: of the chosen variant's speed-up; empty where there is only one.
        precision_steps: each raced file that an inexact pass made, against the unchanged file in the same engine: what
            the pass alone gains; also against the chosen variant where its file is unchanged; empty where no race had
            both.
        with_data: without samples, the best prediction of a pass that needs some; else None.
        unmet: why no variant meets the bounds, nor the original; empty where one does.
        closest: id of the variant closest to meeting the bounds; None where they are met.
        task, headline: the task, and the id of the metric that accuracy means.
        judged_by: without labels, the format of the outputs: ``outputs`` (``classes``, ``boxes`` or ``values``),
            ``because``, ``metric`` …; with labels None.
        data: on which variants were judged; None without data.
        judged: number of samples of `data`; None without data.
        calibration: samples for passes; None without.
        calibrated_on: the digest of each of them; the provenance has them, the document does not.
        changed: variant → the samples that it answers with another class than the original: the chosen variant, those
            on the Pareto front and other judged ones, 8 at most; empty where answers are not classes.
        thumbnails: pictures of the samples of `changed_most`, as `draw_thumbnails` returns them; not in the document.
        sensitivity: layers, the most fragile first; empty where it was not measured.
        files: written files: ``chosen``, ``provenance``, ``instructions``, ``loader`` → path; and ``int8``, the file of
            `fastest_int8` if it is not the chosen one and smaller than the original.
        command: command line that makes the chosen file again; "" where none was chosen.
        stopped_because: why the search ended.
        device: that is not at hand, for which variants are estimated; "" where they were raced.
        conditions: threads, seed, time budget and other conditions of all numbers, JSON-shaped.
    """

    baseline: Candidate
    candidates: tuple[Candidate, ...] = ()
    front: tuple[str, ...] = ()
    front_metrics: tuple[str, ...] = ()
    chosen: str | None = None
    reason: str = ""
    chosen_because: str = ""
    factors: tuple[Factor, ...] = ()
    precision_steps: tuple[Factor, ...] = ()
    not_tried: NotTried = field(default_factory=NotTried)
    with_data: PredictionWithData | None = None
    bounds: tuple[Bound, ...] = ()
    unmet: str = ""
    closest: str | None = None
    task: str = ""
    headline: str = ""
    judged_by: Mapping[str, Any] | None = None
    data: DataRef | None = None
    judged: int | None = None
    calibration: DataRef | None = None
    calibrated_on: tuple[str, ...] = field(default=(), repr=False)
    changed: Mapping[str, ChangedAnswers] = field(default_factory=dict)
    thumbnails: tuple[Mapping[int, str], str] = field(default=({}, ""), repr=False, compare=False)
    sensitivity: tuple[LayerSensitivity, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    notes: tuple[str, ...] = ()
    stopped_because: str = ""
    elapsed_s: float | None = None
    device: str = ""
    conditions: Mapping[str, Any] = field(default_factory=dict)
    interrupted: bool = False
    save_errors: tuple[StoreError, ...] = ()

    def candidate(self, name: str) -> Candidate:
        """Return the candidate called `name`, the baseline included. Raises KeyError."""
        return self._by_id()[name]

    @property
    def runs_nowhere(self) -> bool:
        """Whether neither the original nor a variant has an estimate for the device that is not at hand."""
        refused = self.baseline.elsewhere is not None and bool(self.baseline.elsewhere.refused)
        return refused and self.chosen is None and bool(self.candidates) and not self.unmet

    @property
    def best_export(self) -> Candidate | None:
        """The fastest raced export of a module that nothing else changed: what another engine alone gives.

        None where the original is a file.
        """
        if self.baseline.model is None or self.baseline.model.format != EAGER:
            return None
        raced = [one for one in self.candidates if one.is_export and one.stage == "raced" and one.value("speedup")]
        return max(raced, key=lambda one: one.value("speedup") or 0.0, default=None)

    @property
    def best_int8(self) -> Candidate | None:
        """The fastest raced variant whose file computes in int8, where nothing was chosen; else None."""
        return None if self.chosen is not None else self.fastest_int8

    @property
    def fastest_int8(self) -> Candidate | None:
        """The fastest raced variant whose file computes in int8, an accepted one before others; None without one.

        Of those whose intervals overlap with the fastest one's, the smallest within 5 %, then the one with the smallest
        drop of accuracy.
        """
        raced = [one for one in self.candidates if one.stage == "raced" and one.value("speedup")]
        int8 = [one for one in raced if self.made(one).family == "int8"]
        best = max(int8, key=lambda one: (one.accepted, one.value("speedup") or 0.0), default=None)
        if best is None or (low := best.metrics["speedup"].low) is None:
            return best
        known = [one for one in int8 if one.accepted == best.accepted]
        alike = smallest([one for one in known if (one.metrics["speedup"].high or 0.0) >= low])
        return min(alike, key=lambda one: one.value("accuracy_drop") or 0.0)

    def made(self, one: Candidate) -> Candidate:
        """Return the variant that has the file of `one`, without further settings of the engine."""
        return made_of(one, self._by_id())

    @property
    def changed_most(self) -> str | None:
        """Id of the first variant in `changed` that has changed samples; None where there is none."""
        return next((name for name, one in self.changed.items() if one.samples), None)

    def root_of(self, name: str) -> ModelRef:
        """Return the given file that a variant was made of. Raises KeyError."""
        return root_of(name, self._by_id())

    def _by_id(self) -> dict[str, Candidate]:
        return {one.id: one for one in (self.baseline, *self.candidates)}

    def to_document(self) -> dict[str, Any]:
        """Return the JSON document of ``edgewise optimize``."""
        return {
            "schema": SCHEMA,
            "baseline": self.baseline.to_document(),
            "variants": [one.to_document() for one in self.candidates],
            "pareto": list(self.front),
            "pareto_metrics": list(self.front_metrics),
            "chosen": self.chosen,
            "reason": self.reason or None,
            "chosen_because": self.chosen_because or None,
            "best_export": None if self.best_export is None else self.best_export.id,
            "factors": [one.to_document() for one in self.factors],
            "precision_steps": [one.to_document() for one in self.precision_steps],
            "not_tried": asdict(self.not_tried),
            "with_data": None if self.with_data is None else self.with_data.to_document(),
            "constraints": [asdict(bound) for bound in self.bounds],
            "unmet": self.unmet or None,
            "closest": self.closest,
            "task": self.task or None,
            "headline": self.headline or None,
            "judged_by": None if self.judged_by is None else dict(self.judged_by),
            "data": None if self.data is None else asdict(self.data),
            "judged": self.judged,
            "calibration": None if self.calibration is None else asdict(self.calibration),
            "changed_answers": {name: one.to_document() for name, one in self.changed.items()},
            "sensitivity": [asdict(one) for one in self.sensitivity],
            "files": dict(self.files),
            "command": self.command or None,
            "notes": list(self.notes),
            "stopped_because": self.stopped_because,
            "elapsed_s": self.elapsed_s,
            "device": self.device or None,
            "conditions": dict(self.conditions),
            "interrupted": self.interrupted,
        }
