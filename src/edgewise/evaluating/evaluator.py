"""A pass over data: sample after sample through a model in a worker process, and what a task makes of the outputs."""

from __future__ import annotations

import contextlib
import hashlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from edgewise import __version__
from edgewise.errors import BadInput
from edgewise.evaluating.dataset import CorruptSample, Dataset, Sample
from edgewise.evaluating.instructions import Instructions
from edgewise.evaluating.notebook import Entry, Notebook, place_notebook
from edgewise.evaluating.preparing import Preparer
from edgewise.evaluating.task import Drives, Feed, Judge, Ranks, Record, Watches
from edgewise.model.graph import Quantization
from edgewise.model.identity import read_graph
from edgewise.record import Failure, InputSpec, Job
from edgewise.run.assembly import Assembly
from edgewise.run.inference import Inference, InferenceFailed
from edgewise.workload.sizes import with_sizes_of

Array = np.ndarray[Any, np.dtype[Any]]

MOST_TIMED = 1000
"""Inferences of which the times are kept: the first ones of a pass."""
MOST_WAITING = 4096
"""Samples of which it is kept how long they took to prepare, until they are answered."""

MOST_TRIED = 16
"""Samples that are looked at to find one that shows whether data fit."""

Progress = Callable[[int, int], None]
"""Told how many samples of how many are done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What models are asked.

    Attributes:
        indices: numbers of the samples, ascending.
        limit: how many were asked for; None is all.
        strict: a sample that can't be used ends the pass instead of being skipped.
    """

    data: Dataset
    indices: Sequence[int]
    limit: int | None = None
    seed: int = 0
    strict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Pupil:
    """Who is asked: a model on an engine, with what is done to a sample before it is fed."""

    job: Job
    instructions: Instructions


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What one model said.

    Attributes:
        entries: of every sample that was reached, in order.
        notes: what was done to samples, one line each.
        fed: input → smallest and largest value that this pass fed to it, as real numbers.
        failure: why the pass could not go on; the entries are those until then.
        resumed: how many entries an earlier pass had left.
        seconds: of this pass.
        times: (preparing, engine, reading the answer) of each of the first inferences of this pass, s.
        example: what the model said of the first sample of this pass, as `Evaluation.example` has it.
    """

    entries: tuple[Entry, ...]
    notes: tuple[str, ...] = ()
    fed: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    effective: Mapping[str, Any] = field(default_factory=dict)
    failure: Failure | None = None
    interrupted: bool = False
    resumed: int = 0
    seconds: float = 0.0
    times: Sequence[tuple[float, float, float]] = ()
    example: Mapping[str, Any] | None = None

    @property
    def records(self) -> list[Any]:
        """Of samples that were judged, in order."""
        return [entry.record for entry in self.entries if not entry.reason]


class Prompter:
    """One model's side of the pass: prepares samples for it, runs it, and gives real outputs per sample."""

    def __init__(self, pupil: Pupil, data: Dataset, *, assembly: Assembly, end_by: float | None = None) -> None:
        job = pupil.job
        self._end_by = end_by
        self.identity = identify(pupil)
        specs = job.workload.inputs
        graph = read_graph(Path(job.model.path), shapes={spec.name: spec.shape for spec in specs})
        self._batch = job.workload.batch
        self._scales = [graph.tensors[name].quantization for name in graph.outputs]
        self._names = list(graph.outputs)
        self._inputs = [spec.name for spec in specs]
        self.ranges: dict[str, tuple[float, float]] = {}
        self._preparing: dict[int, float] = {}
        self.times: list[tuple[float, float, float]] = []
        self.example: Mapping[str, Any] | None = None
        self._fed = [graph.tensors[spec.name].quantization if spec.name in graph.tensors else None for spec in specs]

        def make_preparer(batch: int) -> Preparer:
            single = [_single(spec, batch) for spec in specs]
            return Preparer(pupil.instructions, specs=single, quantizations=self._fed, kind=data.kind)

        self._preparer = make_preparer(self._batch)
        fixed = _leading(specs) if self._batch == 1 else 1
        # A leading dimension that the model fixes may be a batch: the first sample tells, by what it fits into.
        self._batched = (fixed, make_preparer(fixed)) if fixed > 1 else None
        self.notes = tuple(self._preparer.notes)
        self.inference = Inference(job, assembly=assembly, end_by=end_by)

    def prepare(self, sample: Sample) -> tuple[list[Array], Feed]:
        """As `Preparer.prepare`, with the arrays in the feed as real numbers."""
        begin = time.perf_counter()
        try:
            arrays, feed = self._preparer.prepare(sample)
        except BadInput as error:
            if self._batched is None:
                raise
            size, preparer = self._batched
            try:
                arrays, feed = preparer.prepare(sample)
            except BadInput:
                raise error from None
            self._batch, self._preparer = size, preparer
            self.notes = (*preparer.notes, f"{size} samples at a time, as the model takes them")
        self._batched = None
        if len(self._preparing) < MOST_WAITING:
            self._preparing[sample.index] = time.perf_counter() - begin
        real = tuple(_dequantize(array, scale, "") for array, scale in zip(arrays, self._fed, strict=True))
        for name, array in zip(self._inputs, real, strict=True):
            if array.size:
                low, high = self.ranges.get(name, (math.inf, -math.inf))
                self.ranges[name] = min(low, float(array.min())), max(high, float(array.max()))
        return arrays, replace(feed, fed=real)

    def infer(self, feeds: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """Real outputs of every sample, each with a leading dimension of 1. Raises `InferenceFailed`, `BadInput`."""
        if self._batch == 1:
            return [self._real(outputs) for outputs in self.inference.infer(feeds)]
        split = [self._split(self._real(outputs)) for outputs in self.inference.infer(self.join(feeds))]
        return [each for answers in split for each in answers][: len(feeds)]

    def join(self, feeds: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """The arrays of samples as the model takes them, a batch at a time, the last filled up with its last sample."""
        if self._batch == 1:
            return [list(feed) for feed in feeds]
        if len({tuple(array.shape for array in feed) for feed in feeds}) > 1:
            raise BadInput(
                "samples of different sizes can't share a batch", advice="--batch 1, or --prepare length=N or resize=…"
            )
        groups = [list(feeds[at : at + self._batch]) for at in range(0, len(feeds), self._batch)]
        full = [group + [group[-1]] * (self._batch - len(group)) for group in groups]
        return [[np.concatenate(column) for column in zip(*group, strict=True)] for group in full]

    def note_times(self, indices: Sequence[int], reading: Sequence[float]) -> None:
        """Keep how long each inference on the samples `indices` took; `reading` is that of each answer, s."""
        preparing = [self._preparing.pop(index, None) for index in indices]
        for place, engine in enumerate(self.inference.seconds):
            part = slice(place * self._batch, (place + 1) * self._batch)
            known = [seconds for seconds in preparing[part] if seconds is not None]
            if len(known) == self._batch and len(self.times) < MOST_TIMED:
                self.times.append((sum(known), engine, sum(reading[part])))

    def is_late(self) -> bool:
        """Whether the time of this pass is over."""
        return self._end_by is not None and time.monotonic() > self._end_by

    def infer_one(self, arrays: Sequence[Array]) -> list[Array]:
        """Real outputs of one sample."""
        return self.infer([arrays])[0]

    def room(self, feed: Sequence[Array], sample: Sample) -> int:
        """How many samples like this one to take at once."""
        data = list(sample.data.values()) if isinstance(sample.data, Mapping) else [sample.data]
        stored = [array for array in data if isinstance(array, np.ndarray)]
        # An image may be far larger as it is stored than as it is fed.
        size = self.inference.batch_size([*feed, *stored])
        return max(1, size // self._batch) * self._batch

    def _real(self, outputs: Sequence[Array]) -> list[Array]:
        return [
            _dequantize(array, scale, name)
            for array, scale, name in zip(outputs, self._scales, self._names, strict=True)
        ]

    def _split(self, outputs: Sequence[Array]) -> list[list[Array]]:
        for array, name in zip(outputs, self._names, strict=True):
            if not array.shape or array.shape[0] != self._batch:
                raise BadInput(
                    f"output {name!r} of shape {array.shape} can't be split into a batch of {self._batch}",
                    advice="export the model with a batch of 1",
                )
        return [[array[at : at + 1] for array in outputs] for at in range(self._batch)]


def ask(
    pupil: Pupil,
    question: Question,
    judge: Judge,
    *,
    assembly: Assembly,
    progress: Progress | None = None,
    identity: Mapping[str, Any] | None = None,
    fresh: bool = False,
    notebooks: Path | None = None,
    end_by: float | None = None,
) -> Answers:
    """Put every sample of `question` to the model and keep what `judge` makes of its outputs.

    Args:
        identity: what else, besides model, settings, data and preparation, makes this pass the same as an earlier one
            that was cut off and is resumed; None keeps no notebook.
        fresh: forget an earlier pass.
        notebooks: a folder in which notebooks stay, complete ones too; None is the user's cache, where they go once
            they are complete.
        end_by: monotonic time, s, at which the pass ends with what it has.
        judge: entered for the pass where it is a context manager.

    Raises:
        BadInput: samples that don't fit the model, labels that don't fit the task, or, where `strict`, a sample that
            can't be used.
    """
    begin = time.monotonic()
    place = None if identity is None else place_notebook(_identify(pupil, question, identity), folder=notebooks)
    if place is not None and fresh:
        place.unlink(missing_ok=True)
    prompter = Prompter(pupil, question.data, assembly=assembly, end_by=end_by)
    failure, interrupted = None, False
    with Notebook(place) as notebook:
        resumed = sum(_is_done(notebook.entries.get(index), question) for index in question.indices)
        try:
            left = [index for index in question.indices if not _is_done(notebook.entries.get(index), question)]
            if left:
                held = judge if isinstance(judge, contextlib.AbstractContextManager) else contextlib.nullcontext()
                with prompter.inference, held:
                    _walk(prompter, question, judge, notebook, left=left, progress=progress)
        except InferenceFailed as error:
            failure = error.failure
        except KeyboardInterrupt:
            interrupted = True
    wanted = set(question.indices)
    entries = tuple(entry for index, entry in sorted(notebook.entries.items()) if index in wanted)
    if failure is None and not interrupted and notebooks is None:
        notebook.forget()
    return Answers(
        entries=entries,
        notes=prompter.notes,
        fed=prompter.ranges,
        effective=prompter.inference.effective,
        failure=failure,
        interrupted=interrupted,
        resumed=resumed,
        seconds=time.monotonic() - begin,
        times=prompter.times,
        example=prompter.example,
    )


def fit_sizes(pupil: Pupil, question: Question, *, assembly: Assembly) -> Pupil:
    """The pupil, fed in the sizes of the first usable sample where sizes were assumed.

    Raises `BadInput`, `Unavailable` for data that does not fit the model.
    """
    prompter = Prompter(pupil, question.data, assembly=assembly)
    for index in question.indices[:MOST_TRIED]:
        try:
            sample = question.data.read(index)
            arrays, _ = prompter.prepare(sample)
        except CorruptSample:
            continue
        workload = pupil.job.workload
        if workload.batch != 1:
            return pupil
        inputs = with_sizes_of(workload.inputs, arrays, sample.name)
        return replace(pupil, job=replace(pupil.job, workload=replace(workload, inputs=inputs)))
    return pupil


def _is_done(entry: Entry | None, question: Question) -> bool:
    """Whether an earlier pass judged a sample. One that it skipped is looked at again where that is to be an error."""
    return entry is not None and not (question.strict and entry.reason)


def _walk(
    prompter: Prompter,
    question: Question,
    judge: Judge,
    notebook: Notebook,
    *,
    left: Sequence[int],
    progress: Progress | None,
) -> None:
    total = len(question.indices)
    for index in left:
        notebook.entries.pop(index, None)
    # An earlier pass may have left more than what is asked for now.
    others = len(notebook.entries) - (total - len(left))
    for batch in _batches(prompter, question, notebook, left):
        if prompter.is_late():
            done = len(notebook.entries) - others
            message = f"the time budget ended after {done} of {total} samples"
            advice = "give more with --time-budget, or judge fewer samples with --limit"
            raise InferenceFailed(Failure(cause="Timeout", message=message, phase="samples", advice=advice))
        if isinstance(judge, Watches):
            judge.watch([sample for sample, _, _ in batch])
        if isinstance(judge, Drives):
            _drive(prompter, question, judge, notebook, batch)
        else:
            answers, reading = prompter.infer([arrays for _, arrays, _ in batch]), []
            for (sample, _, feed), outputs in zip(batch, answers, strict=True):
                begin = time.perf_counter()
                record = judge.record(outputs, sample, feed)
                reading.append(time.perf_counter() - begin)
                _note(notebook, sample, record)
                if prompter.example is None and isinstance(judge, Ranks) and (told := judge.rank(outputs, sample)):
                    prompter.example = {"sample": sample.name, **told}
            prompter.note_times([sample.index for sample, _, _ in batch], reading)
        if progress is not None:
            progress(len(notebook.entries) - others, total)


def _drive(prompter: Prompter, question: Question, judge: Any, notebook: Notebook, batch: Sequence[Prepared]) -> None:
    """Samples for which the judge runs the model itself, one by one."""
    for sample, arrays, feed in batch:
        try:
            outputs = judge.drive(prompter.infer_one, arrays, sample)
        except CorruptSample as error:
            _skip(notebook, question, sample.index, error)
        else:
            _note(notebook, sample, judge.record(outputs, sample, feed))


def _note(notebook: Notebook, sample: Sample, record: Record) -> None:
    notebook.write(Entry(index=sample.index, name=sample.name, digest=sample.digest(), record=record))


def _skip(notebook: Notebook, question: Question, index: int, error: CorruptSample) -> None:
    """Note a sample that can't be used. Raises `BadInput` where that is not to be."""
    if question.strict:
        raise BadInput(
            f"{error.name} can't be used: {error.reason}", advice="mend it, or leave --strict out to skip it"
        ) from error
    notebook.write(Entry(index=index, name=error.name, reason=error.reason))


Prepared = tuple[Sample, list[Array], Feed]


def _batches(
    prompter: Prompter, question: Question, notebook: Notebook, left: Sequence[int]
) -> Iterator[list[Prepared]]:
    """Samples, prepared, as many at once as are to be handed over; those that can't be used are noted and left out."""
    batch: list[Prepared] = []
    for index in left:
        try:
            sample = question.data.read(index)
            arrays, feed = prompter.prepare(sample)
        except CorruptSample as error:
            _skip(notebook, question, index, error)
            continue
        batch.append((sample, arrays, feed))
        if len(batch) >= prompter.room(arrays, sample) or prompter.is_late():
            yield batch
            batch = []
    if batch:
        yield batch


def _identify(pupil: Pupil, question: Question, identity: Mapping[str, Any]) -> dict[str, Any]:
    """What makes a pass the same as an earlier one. Samples differ: the notebook knows which it has."""
    return {
        "edgewise": __version__,
        **identify(pupil),
        "data": [str(question.data.path), question.data.format, question.data.split, question.data.stamp()],
        **identity,
    }


def identify(pupil: Pupil) -> dict[str, Any]:
    """What makes a pupil's answers the same as an earlier one's: model, engine, settings, and what is fed, how."""
    job = pupil.job
    return {
        "model": job.model.sha256,
        "runtime": [job.runtime.name, job.runtime.version, job.runtime.provider, job.runtime.precision],
        "threads": job.runtime.threads,
        "options": dict(job.runtime.options),
        "inputs": [[spec.name, list(spec.shape), spec.dtype] for spec in job.workload.inputs],
        "instructions": pupil.instructions.to_document(),
        "files": _digest_files(pupil.instructions),
    }


def _digest_files(instructions: Instructions) -> dict[str, str]:
    """Name → SHA-256 of files that steps and options name, such as a tokenizer's vocabulary."""
    words = [value for steps in instructions.steps.values() for step in steps for value in step.settings.values()]
    found = {}
    for word in [*words, *instructions.task_options.values()]:
        if isinstance(word, str) and "/" in word:
            with contextlib.suppress(OSError), Path(word).open("rb") as file:
                found[word] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def _single(spec: InputSpec, batch: int) -> InputSpec:
    """The input as one sample of a batch fills it."""
    return spec if batch == 1 or not spec.shape else replace(spec, shape=(spec.shape[0] // batch, *spec.shape[1:]))


def _leading(specs: Sequence[InputSpec]) -> int:
    """The leading dimension that all inputs share; 1 where they don't."""
    sizes = {spec.shape[0] if spec.shape else 1 for spec in specs}
    return sizes.pop() if len(sizes) == 1 else 1


def _dequantize(array: Array, scale: Quantization | None, name: str) -> Array:
    """Integers that stand for real numbers, as these; everything else as it is."""
    if scale is None or not np.issubdtype(array.dtype, np.integer):
        return array
    if scale.channels != 1:
        raise BadInput(
            f"output {name!r} is quantised with {scale.channels} scales, which is not read",
            advice="export the model with a float output, or one scale",
        )
    return (array.astype(np.float64) - scale.zero_point) * scale.scale
