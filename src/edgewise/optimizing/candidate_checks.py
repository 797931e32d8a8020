"""The checks that a variant must pass before it may race: loading, agreement, a part of the data, all of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from edgewise.errors import BadInput, EdgewiseError, RunFailed, as_flag
from edgewise.evaluating.agreement import WORST
from edgewise.evaluating.class_order import find_better_order
from edgewise.evaluating.run_records import are_converted_alike, cautions_of
from edgewise.formatting import value_text
from edgewise.metrics import METRICS
from edgewise.optimizing.accuracy import Accuracy, AccuracyChecker
from edgewise.optimizing.choice import check_bounds, is_identical, judged_words, limit_of
from edgewise.optimizing.search_settings import LEAST_SNR_DB, SearchSettings
from edgewise.optimizing.variant import ABOUT_ORIGINAL, ORIGINAL, Candidate, MetricValue, emit_candidate
from edgewise.progress import LogLine, emit
from edgewise.record import Caution, Evaluation, Failure, Job, ModelRef, RuntimeSpec, Scenario, Stopping
from edgewise.run.plan import Axes, make_plan
from edgewise.units import significant


class CandidateChecks:
    """Checks variants against the original, which is checked first.

    Attributes:
        original: the original with its metrics.
        notes: warnings about the original, and how variants are judged.
    """

    def __init__(self, settings: SearchSettings, checker: AccuracyChecker, job: Job) -> None:
        """Check the original.

        Raises:
            RunFailed: the original does not run.
            BadInput: data and model don't fit.
        """
        self._settings = settings
        self._checker = checker
        self.notes: list[str] = []
        self.original = self._check_original(job)
        emit_candidate(self.original)
        self._tell_doubts()

    def _tell_doubts(self) -> None:
        """Say at once how good the original is on the data: a wrong preparation would cost the whole search."""
        headline, value = self._checker.headline, self.original.value(self._checker.headline)
        if self.original.accuracy is not None and value is not None:
            words = f"{METRICS[headline].label} {value_text(headline, METRICS[headline].unit, value)}"
            emit(LogLine(text=f"{ABOUT_ORIGINAL}{words}"))
        for note in self.notes:
            if note.startswith(ABOUT_ORIGINAL):
                emit(LogLine(text=note))

    def _check_original(self, job: Job) -> Candidate:
        check = self._checker.begin()
        if check.failure is not None:
            raise RunFailed(
                f"the original does not run in {job.runtime.name}: {check.failure.message}",
                advice=check.failure.advice or "try another engine with ⟦runtime⟧",
            )
        if check.broken and self._settings.judged is None and self._settings.fed is None:
            raise BadInput(
                "with random inputs the original's outputs are NaN or infinite, so no variant can be compared with it "
                f"({check.broken.removeprefix('broken: ')})",
                advice="give real inputs with ⟦data⟧; if their outputs are such too, check the model",
            )
        if check.broken:
            raise BadInput(
                f"the original is {check.broken}",
                advice="check the model, the data and the preparation of samples (⟦prepare⟧)",
            )
        accuracy, form = self._checker.original, self._checker.form
        if accuracy is not None and not accuracy.answers.records:
            raise BadInput(
                "no sample can be used to judge the original",
                advice="check the data and the preparation of samples (⟦prepare⟧)",
            )
        if form is not None and self._settings.judged is not None:
            self.notes.append(f"variants are judged by {_JUDGED_BY[form.kind]}, for the outputs: {form.because}")
        if accuracy is not None:
            about_data = () if accuracy.evaluation is None else cautions_of(accuracy.evaluation)
            for doubt in (*accuracy.doubts, *about_data):
                self.notes.append(note_on(doubt, accuracy.evaluation))
        return Candidate(
            id=ORIGINAL,
            parent=None,
            runtime=job.runtime,
            model=job.model,
            stage="judged",
            metrics={**sizes_of(job.model), **(accuracy.metrics if accuracy else self._own_agreement())},
            why="the baseline of all comparisons",
            job=job,
            accuracy=accuracy,
        )

    def _own_agreement(self) -> dict[str, MetricValue]:
        """Return the original's headline metric where its own outputs are the reference."""
        headline = self._checker.headline
        whole = MetricValue(value=1.0, low=1.0, high=1.0, basis="derived", method="the original against itself")
        if headline == WORST:
            whole = MetricValue(value=None, absent_because="outputs are compared with its own")
        return {headline: whole} if headline else {}

    def check(self, candidate: Candidate) -> Candidate:
        """Check the candidate's file, the quick checks first. The result says how far it came and why no further."""
        model = candidate.model
        assert model is not None
        candidate = candidate.advance("made", sizes_of(model))
        try:
            job = job_of(model, candidate.runtime, self._settings)
            with self._checker.one_worker():
                for step in self._steps(replace(candidate, runtime=job.runtime, job=job), job):
                    candidate = step
                    if step.rejected:
                        break
        except EdgewiseError as error:  # inputs or outputs don't fit the data
            candidate = candidate.reject(f"not usable: {error.message}")
        emit_candidate(candidate)
        return candidate

    def _steps(self, candidate: Candidate, job: Job) -> Iterator[Candidate]:
        """Yield the candidate after each check; a rejected one is the last."""
        yield candidate
        check = self._checker.check_outputs(job)
        if check.failure is not None:
            late = _late(check.failure)
            yield candidate.leave(late) if late else candidate.reject(check.broken)
        yield (candidate := candidate.advance("loaded", check.metrics))
        if check.broken:
            yield candidate.reject(check.broken)
        if self._settings.judged is None and (why := _find_strange(check.metrics, self._settings)):
            yield candidate.reject(why)
        yield (candidate := candidate.advance("agreed"))
        part = self._checker.measure_part(job)
        if part is not None:
            yield (candidate := candidate.advance("sliced", part.metrics))
            if self._is_hopeless(part):
                yield candidate.reject(f"{self.words(part)} on a part of the data, which is more than the limit allows")
        accuracy = self._checker.measure(job)
        if accuracy is not None and (failure := accuracy.answers.failure) is not None:
            late = _late(failure)
            yield candidate.leave(late) if late else candidate.reject(f"failed on the data: {failure.message}")
        candidate = replace(candidate, accuracy=accuracy)
        yield (candidate := candidate.advance("judged", None if accuracy is None else accuracy.metrics))
        if why := self._find_unmet(candidate):
            yield candidate.reject(why)

    def _find_unmet(self, candidate: Candidate) -> str:
        """Return the first bound on accuracy that the candidate does not meet; empty where it meets all."""
        metrics = ("accuracy_drop", self._checker.headline, WORST)
        about = [one for one in self._settings.bounds if one.metric in metrics]
        unmet = check_bounds(candidate.metrics, about, self.original.metrics)
        if not unmet or candidate.accuracy is None:
            return ""
        return f"{self.words(candidate.accuracy)}: {unmet[0]}"

    def _is_hopeless(self, accuracy: Accuracy) -> bool:
        """Whether the loss on a part of the data is beyond a limit with its whole interval."""
        for bound in self._settings.bounds:
            number = accuracy.metrics.get(bound.metric)
            limit = limit_of(bound, self.original.metrics)
            if bound.metric not in ("accuracy_drop", WORST) or limit is None or number is None:
                continue
            best = number.low if bound.upper else number.high
            if best is not None and (best > limit if bound.upper else best < limit):
                return True
        return False

    def words(self, accuracy: Accuracy) -> str:
        """Return the change of the headline metric in words."""
        words = judged_words(accuracy.metrics, self._checker.headline)
        return f"{words} at output {accuracy.worst}" if accuracy.worst else words


def _late(failure: Failure) -> str:
    """Why a variant was not judged, where the search's time ended; else empty."""
    late = failure.cause == "Timeout" and "time budget" in failure.message
    return f"not judged: {failure.message}" if late else ""


_JUDGED_BY = {
    "classes": "top-1 agreement with the original",
    "boxes": "the boxes that they share with the original",
    "values": "the signal-to-noise ratio of their worst output against the original's",
}


def _find_strange(metrics: Mapping[str, MetricValue], settings: SearchSettings) -> str:
    """Why outputs on random inputs are too far from the original's; empty where they are near enough."""
    snr, least = metrics.get(WORST, metrics.get("output_snr")), settings.limits.least_snr_db
    least = LEAST_SNR_DB if least is None else least
    if is_identical(metrics):
        return ""
    if snr is None or snr.value is None:
        because = "they were not compared" if snr is None else snr.absent_because
        return f"nothing shows that its outputs are like the original's: {because}"
    if snr.value < least:
        words = f"an SNR of {significant(snr.value)} dB on random inputs, under {as_flag('min_snr')} {least:g}dB"
        return (
            f"broken: outputs are not like the original's ({words}); give {as_flag('data')} to judge it by its accuracy"
        )
    return ""


def sizes_of(model: ModelRef) -> dict[str, MetricValue]:
    """Return the size of a model's files."""
    size = float(model.size_bytes)
    return {"model_size": MetricValue(value=size, low=size, high=size, method="all files of the model on disk")}


def job_of(model: ModelRef, runtime: RuntimeSpec, settings: SearchSettings) -> Job:
    """How a model is run in this search. Raises `BadInput`, `Unavailable`."""
    plan = make_plan(
        [model.path],
        axes=Axes(
            runtimes=(f"{runtime.name}/{runtime.provider}" if runtime.provider else runtime.name,),
            threads=(runtime.threads or settings.threads or 1,),
            precisions=(runtime.precision,) if runtime.precision else (),
            shapes=settings.shapes,
        ),
        scenario=Scenario(),
        stopping=Stopping(),
        target=settings.target,
        seed=settings.seed,
        input_data=settings.fed,
    )
    job = plan.jobs[0]
    renamed = replace(job.model, name=model.name, signatures=model.signatures)
    return replace(job, model=renamed, runtime=replace(job.runtime, options=dict(runtime.options)))


def note_on(doubt: Caution, evaluation: Evaluation | None) -> str:
    """Return what a caution on the original's accuracy says; as one on the original where it may be wrong.

    Samples of another type that are all converted alike are usual, as are files that name no classes.
    """
    if doubt.code == "class-order" and evaluation is not None and find_better_order(evaluation) is None:
        return f"{doubt.message}; {as_flag('classes')} FILE gives another order"
    usual = doubt.code == "samples-changed" and are_converted_alike(evaluation)
    return f"{'' if usual else ABOUT_ORIGINAL}{doubt.message}; {doubt.advice}"
