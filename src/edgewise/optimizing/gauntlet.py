"""What every variant has to come through before it may race: loading, agreement, a slice of the data, all of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from edgewise.errors import BadInput, EdgewiseError, RunFailed
from edgewise.evaluating.examination import guess_notes
from edgewise.optimizing.accuracy import Examiner, Marks
from edgewise.optimizing.choice import accuracy_words, check_bounds, limit_of
from edgewise.optimizing.commission import Commission
from edgewise.optimizing.state import Entry, State, Witness, sizes_of
from edgewise.optimizing.variant import ORIGINAL, Candidate, Number
from edgewise.record import Job, ModelRef, RuntimeSpec, Scenario, Stopping, TargetSpec
from edgewise.run.plan import Axes, make_plan
from edgewise.units import significant

LEAST_SNR_DB = 20.0
"""Without data: of outputs on random inputs against the original's. Below, they differ by a tenth of the signal."""


class Gauntlet:
    """Examines variants, the original first."""

    def __init__(self, commission: Commission, examiner: Examiner, state: State, witness: Witness) -> None:
        self._commission = commission
        self._examiner = examiner
        self._state = state
        self._witness = witness

    def admit_original(self, job: Job) -> None:
        """Judge the original. Raises `RunFailed` where it does not run, `BadInput` where data and model don't fit."""
        look = self._examiner.begin(self._witness.answered)
        if look.failure is not None:
            raise RunFailed(
                f"the original does not run in {job.runtime.name}: {look.failure.message}",
                advice=look.failure.advice or "try another engine with -r",
            )
        if look.broken:
            raise BadInput(f"the original is {look.broken}", advice="check model, data and how samples are prepared")
        marks = self._examiner.original
        if marks is not None and not marks.answers.records:
            raise BadInput(
                "not one sample could be used to judge the original",
                advice="look at the data, or at how samples are prepared (--prepare)",
            )
        candidate = Candidate(
            id=ORIGINAL,
            parent=None,
            runtime=job.runtime,
            model=job.model,
            stage="judged",
            metrics={**sizes_of(job.model), **(marks.metrics if marks else self._own_agreement())},
            why="what the others are compared with",
        )
        self._state.entries[ORIGINAL] = Entry(candidate=candidate, job=job, marks=marks)
        if marks is not None and marks.evaluation is not None and "accuracy_top1" in marks.metrics:
            notes = guess_notes(marks.metrics["accuracy_top1"].low, marks.evaluation.confusion)
            self._state.notes += [f"the original: {note}" for note in notes]
        self._witness.examined(candidate)

    def _own_agreement(self) -> dict[str, Number]:
        """What the original has of the headline where its own outputs are taken as right."""
        whole = Number(value=1.0, low=1.0, high=1.0, basis="derived", method="the original against itself")
        return {self._examiner.headline: whole} if self._examiner.headline else {}

    def examine(self, entry: Entry, model: ModelRef) -> None:
        """The cheap checks first; the entry says how far it came, and why no further."""
        entry.advance("made", sizes_of(model))
        try:
            entry.job = job_of(model, entry.candidate.runtime, self._commission)
            entry.candidate = replace(entry.candidate, runtime=entry.job.runtime)
            why = self._walk(entry, entry.job)
        except EdgewiseError as error:  # its inputs or outputs don't fit the data: no variant of this model
            why = f"not usable: {error.message}"
        if why:
            entry.drop(why)
        self._witness.examined(entry.candidate)

    def _walk(self, entry: Entry, job: Job) -> str:
        """Why it is out; empty where it is not."""
        look = self._examiner.look(job)
        if look.failure is not None:
            return look.broken
        entry.advance("loaded", look.metrics)
        if look.broken:
            return look.broken
        if self._commission.judged is None and (why := _find_strange(look.metrics)):
            return why
        entry.advance("agreed", {})
        marks = self._examiner.grade_slice(job)
        if marks is not None:
            entry.advance("sliced", marks.metrics)
            if self._is_hopeless(marks):
                return f"{self.words(marks)} on a part of the data, more than what it may lose"
        marks = self._examiner.grade(job, progress=self._witness.answered)
        if marks is not None and marks.answers.failure is not None:
            late = marks.answers.failure.cause == "Timeout" and "time budget" in marks.answers.failure.message
            return f"{'not judged' if late else 'failed on the data'}: {marks.answers.failure.message}"
        entry.marks = marks
        entry.advance("judged", marks.metrics if marks is not None else {})
        return self._find_unmet(entry, marks)

    def _find_unmet(self, entry: Entry, marks: Marks | None) -> str:
        """The bound on accuracy that it does not meet."""
        about = [one for one in self._commission.bounds if one.metric in ("accuracy_drop", self._examiner.headline)]
        unmet = check_bounds(entry.candidate.metrics, about, self._state.original.candidate.metrics)
        if not unmet or marks is None:
            return ""
        return f"{self.words(marks)}: {unmet[0]}"

    def _is_hopeless(self, marks: Marks) -> bool:
        """Whether even the best that the slice allows loses too much."""
        bound = next((one for one in self._commission.bounds if one.metric == "accuracy_drop"), None)
        drop = marks.metrics.get("accuracy_drop")
        limit = None if bound is None else limit_of(bound, self._state.original.candidate.metrics)
        return limit is not None and drop is not None and drop.low is not None and drop.low > limit

    def words(self, marks: Marks) -> str:
        """How the headline moved."""
        drop = marks.metrics.get("accuracy_drop") or Number(value=None, absent_because="not known")
        return accuracy_words(drop, self._examiner.headline)


def _find_strange(metrics: Mapping[str, Number]) -> str:
    """Where there is no data to judge on: what is wrong with outputs that are not like the original's."""
    snr, worst = metrics.get("output_snr"), metrics.get("output_max_abs_error")
    if worst is not None and worst.value == 0.0:
        return ""
    if snr is None or snr.value is None:
        because = "they were not compared" if snr is None else snr.absent_because
        return f"nothing shows that its outputs are like the original's: {because}"
    if snr.value < LEAST_SNR_DB:
        words = f"an SNR of {significant(snr.value)} dB on random inputs, under {LEAST_SNR_DB:g} dB"
        return f"broken: outputs are not like the original's ({words}); give --data to judge it by its accuracy"
    return ""


def job_of(model: ModelRef, runtime: RuntimeSpec, commission: Commission) -> Job:
    """How a model is run in this search. Raises `BadInput`, `Unavailable`."""
    plan = make_plan(
        [model.path],
        axes=Axes(
            runtimes=(f"{runtime.name}/{runtime.provider}" if runtime.provider else runtime.name,),
            threads=(runtime.threads or commission.threads or 1,),
            precisions=(runtime.precision,) if runtime.precision else (),
            shapes=commission.shapes,
        ),
        scenario=Scenario(),
        stopping=Stopping(),
        target=TargetSpec(memory_limit_bytes=commission.memory_limit),
        seed=commission.seed,
    )
    job = plan.jobs[0]
    return replace(job, runtime=replace(job.runtime, options=dict(runtime.options)))
