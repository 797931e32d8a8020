"""What every variant has to come through before it may race: loading, agreement, a slice of the data, all of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from edgewise.errors import BadInput, EdgewiseError, RunFailed
from edgewise.evaluating.agreement import WORST
from edgewise.optimizing.accuracy import Examiner, Marks
from edgewise.optimizing.choice import check_bounds, is_identical, judged_words, limit_of
from edgewise.optimizing.commission import LEAST_SNR_DB, Commission
from edgewise.optimizing.state import Entry, State, Witness, sizes_of
from edgewise.optimizing.variant import ORIGINAL, Candidate, Number
from edgewise.record import Job, ModelRef, RuntimeSpec, Scenario, Stopping, TargetSpec
from edgewise.run.plan import Axes, make_plan
from edgewise.units import significant


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
        form = self._examiner.form
        if form is not None and self._commission.judged is not None:
            self._state.notes.append(f"variants are judged by {_JUDGED_BY[form.kind]}, for the outputs: {form.because}")
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
        if marks is not None and marks.doubt is not None:
            self._state.notes.append(f"the original: {marks.doubt.message}; {marks.doubt.advice}")
        self._witness.examined(candidate)

    def _own_agreement(self) -> dict[str, Number]:
        """What the original has of the headline where its own outputs are taken as right."""
        headline = self._examiner.headline
        whole = Number(value=1.0, low=1.0, high=1.0, basis="derived", method="the original against itself")
        if headline == WORST:
            whole = Number(value=None, absent_because="outputs are compared with its own")
        return {headline: whole} if headline else {}

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
        if self._commission.judged is None and (why := _find_strange(look.metrics, self._commission)):
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
        about = [
            one for one in self._commission.bounds if one.metric in ("accuracy_drop", self._examiner.headline, WORST)
        ]
        unmet = check_bounds(entry.candidate.metrics, about, self._state.original.candidate.metrics)
        if not unmet or marks is None:
            return ""
        return f"{self.words(marks)}: {unmet[0]}"

    def _is_hopeless(self, marks: Marks) -> bool:
        """Whether even the best that the slice allows loses too much."""
        for bound in self._commission.bounds:
            number = marks.metrics.get(bound.metric)
            limit = limit_of(bound, self._state.original.candidate.metrics)
            if bound.metric not in ("accuracy_drop", WORST) or limit is None or number is None:
                continue
            best = number.low if bound.upper else number.high
            if best is not None and (best > limit if bound.upper else best < limit):
                return True
        return False

    def words(self, marks: Marks) -> str:
        """How the headline moved."""
        words = judged_words(marks.metrics, self._examiner.headline)
        return f"{words} at output {marks.worst}" if marks.worst else words


_JUDGED_BY = {
    "classes": "top-1 agreement with the original",
    "boxes": "the boxes that they share with the original",
    "values": "the signal-to-noise ratio of their worst output against the original's",
}


def _find_strange(metrics: Mapping[str, Number], commission: Commission) -> str:
    """Where there is no data to judge on: what is wrong with outputs that are not like the original's."""
    snr, least = metrics.get(WORST, metrics.get("output_snr")), commission.limits.least_snr_db
    least = LEAST_SNR_DB if least is None else least
    if is_identical(metrics):
        return ""
    if snr is None or snr.value is None:
        because = "they were not compared" if snr is None else snr.absent_because
        return f"nothing shows that its outputs are like the original's: {because}"
    if snr.value < least:
        words = f"an SNR of {significant(snr.value)} dB on random inputs, under --min-snr {least:g}dB"
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
