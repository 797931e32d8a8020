"""Runs samples through a model in a worker process, and keeps what a task records of the outputs."""

from __future__ import annotations

import contextlib
import hashlib
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from edgewise.cancellation import check
from edgewise.clock import now
from edgewise.errors import BadInput, as_flag
from edgewise.evaluating.checkpoint import Checkpoint, Entry, checkpoint_path
from edgewise.evaluating.dataset import CorruptSample, Dataset, Sample
from edgewise.evaluating.instructions import Instructions
from edgewise.evaluating.preparing import Preparer
from edgewise.evaluating.task import Preparation, RanksClasses, ReadsAhead, Record, RunsModel, Scorer
from edgewise.model.graph import Quantization
from edgewise.model.identity import read_graph
from edgewise.progress import SamplesDone, SamplesFinished, SamplesStarted, emit
from edgewise.record import Failure, Job
from edgewise.run.inference import Inference, InferenceFailed
from edgewise.run.run_builder import RunBuilder
from edgewise.version import __version__
from edgewise.workload.arrays import Array
from edgewise.workload.input_shapes import with_sizes_of

STATE = "the model keeps a state"
MOST_TIMED = 1000
"""Inferences whose times are kept: the first ones."""
MOST_WAITING = 4096
"""Samples whose preparation time is kept until they are answered."""

MOST_TRIED = 16
"""Samples that are read to find one that shows whether the data fits the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSelection:
    """The samples of a data set that models are evaluated on.

    Attributes:
        indices: numbers of the samples, ascending.
        limit: the requested number of samples; None is all.
        strict: a sample that can't be used ends the evaluation instead of being skipped.
    """

    data: Dataset
    indices: Sequence[int]
    limit: int | None = None
    seed: int = 0
    strict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUnderTest:
    """A model on an engine, with how samples are prepared for it."""

    job: Job
    instructions: Instructions


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleResults:
    """What became of the samples of one model.

    Attributes:
        entries: of every sample that was reached, in order.
        notes: how samples were prepared, one line per input.
        fed: input → smallest and largest value fed to it, as real numbers.
        failure: why it ended early; the entries are those until then.
        resumed: entries that come from an earlier, interrupted evaluation.
        seconds: how long it took.
        times: (preparing, engine, reading the answer) of each of the first inferences, s.
        untimed: why `times` can't be used; "" where they can.
        example: the model's answer to the first sample, as `Evaluation.example` has it.
        batch: how many samples the model answers at once.
        hosts: of samples that hosts of a lab ran, the host → their number; empty otherwise.
        processors: of `hosts`, where they are known.
        checkpoint: from which it can be resumed; None where others ran the samples.
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
    untimed: str = ""
    example: Mapping[str, Any] | None = None
    batch: int = 1
    hosts: Mapping[str, int] = field(default_factory=dict)
    processors: Mapping[str, str] = field(default_factory=dict)
    checkpoint: Checkpoint | None = field(default=None, repr=False, compare=False)

    @property
    def records(self) -> list[Any]:
        """Of the samples that were scored, in order."""
        return [entry.record for entry in self.entries if not entry.reason]


class ModelAdapter:
    """Prepares samples for one model, runs it, and gives its outputs per sample as real numbers."""

    def __init__(
        self, tested: ModelUnderTest, data: Dataset, *, builder: RunBuilder, end_by: float | None = None
    ) -> None:
        job = tested.job
        self._end_by = end_by
        self.identity = identify(tested)
        specs = job.workload.inputs
        graph = read_graph(job.model, shapes={spec.name: spec.shape for spec in specs})
        self.batch = job.workload.batch
        self._keep_state = job.workload.keep_state
        self._scales = [graph.tensors[name].quantization for name in graph.outputs]
        self._names = list(graph.outputs)
        self._inputs = [spec.name for spec in specs]
        self.ranges: dict[str, tuple[float, float]] = {}
        self._preparing: dict[int, float] = {}
        self.times: list[tuple[float, float, float]] = []
        self._fed = [graph.tensors[spec.name].quantization if spec.name in graph.tensors else None for spec in specs]

        def make_preparer(batch: int) -> Preparer:
            """Return the preparer of one sample of a batch."""
            single = [
                replace(spec, shape=(spec.shape[0] // batch, *spec.shape[1:])) if spec.shape else spec for spec in specs
            ]
            return Preparer(
                tested.instructions, specs=single, quantizations=self._fed, kind=data.kind, example=lambda: data.read(0)
            )

        self._preparer = make_preparer(self.batch)
        leading = {spec.shape[0] if spec.shape else 1 for spec in specs}
        fixed = leading.pop() if self.batch == 1 and len(leading) == 1 else 1
        # A leading dimension fixed by the model may be a batch: the first sample decides, by which shape it fits.
        self._batched = (fixed, make_preparer(fixed)) if fixed > 1 else None
        self.notes = tuple(self._preparer.notes)
        self.inference = Inference(job, builder=builder, end_by=end_by)

    def prepare(self, sample: Sample) -> tuple[list[Array], Preparation]:
        """As `Preparer.prepare`; `Preparation.fed` holds the arrays as real numbers."""
        begin = time.perf_counter()
        try:
            arrays, preparation = self._preparer.prepare(sample)
        except BadInput as error:
            if self._batched is None:
                raise
            size, preparer = self._batched
            try:
                arrays, preparation = preparer.prepare(sample)
            except BadInput:
                raise error from None
            self.batch, self._preparer = size, preparer
            self.notes = (*preparer.notes, f"{size} samples at a time, as the model takes them")
        self._batched = None
        if len(self._preparing) < MOST_WAITING:
            self._preparing[sample.index] = time.perf_counter() - begin
        real = tuple(_dequantize(array, scale, "") for array, scale in zip(arrays, self._fed, strict=True))
        for name, array in zip(self._inputs, real, strict=True):
            if array.size:
                low, high = self.ranges.get(name, (math.inf, -math.inf))
                self.ranges[name] = min(low, float(array.min())), max(high, float(array.max()))
        return arrays, replace(preparation, fed=real)

    def infer(self, feeds: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """Return real outputs of every sample with a leading dimension of 1. Raises `InferenceFailed`, `BadInput`."""
        if self.batch == 1:
            return [self._real(outputs) for outputs in self.inference.infer(feeds)]
        if self._keep_state:
            raise BadInput(
                f"the model takes {self.batch} samples at a time, which can't be one sequence",
                advice="omit ⟦keep_state⟧, or export the model with a batch of 1",
            )
        split = [self._split(self._real(outputs)) for outputs in self.inference.infer(self.join(feeds))]
        return [each for results in split for each in results][: len(feeds)]

    def join(self, feeds: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """Return the arrays in batches of the model's size; the last batch is filled up with its last sample."""
        if self.batch == 1:
            return [list(preparation) for preparation in feeds]
        if len({tuple(array.shape for array in preparation) for preparation in feeds}) > 1:
            raise BadInput(
                "samples of different sizes can't share a batch",
                advice="use ⟦batch=1⟧, or ⟦prepare⟧ length=N or resize=…",
            )
        groups = [list(feeds[at : at + self.batch]) for at in range(0, len(feeds), self.batch)]
        full = [group + [group[-1]] * (self.batch - len(group)) for group in groups]
        return [[np.concatenate(column) for column in zip(*group, strict=True)] for group in full]

    def note_times(self, indices: Sequence[int], reading: Sequence[float]) -> None:
        """Keep how long each inference on the samples `indices` took; `reading` is that of each answer, s."""
        preparing = [self._preparing.pop(index, None) for index in indices]
        for place, engine in enumerate(self.inference.seconds):
            part = slice(place * self.batch, (place + 1) * self.batch)
            known = [seconds for seconds in preparing[part] if seconds is not None]
            if len(known) == self.batch and len(self.times) < MOST_TIMED:
                self.times.append((sum(known), engine, sum(reading[part])))

    def is_late(self) -> bool:
        """Return whether the time budget is used up."""
        return self._end_by is not None and now() > self._end_by

    def room(self, preparation: Sequence[Array], sample: Sample) -> int:
        """Return how many samples like this one to hand to the worker at once."""
        data = list(sample.data.values()) if isinstance(sample.data, Mapping) else [sample.data]
        stored = [array for array in data if isinstance(array, np.ndarray)]
        # An image may be far larger as it is stored than as it is fed.
        size = self.inference.batch_size([*preparation, *stored])
        return max(1, size // self.batch) * self.batch

    def _real(self, outputs: Sequence[Array]) -> list[Array]:
        return [
            _dequantize(array, scale, name)
            for array, scale, name in zip(outputs, self._scales, self._names, strict=True)
        ]

    def _split(self, outputs: Sequence[Array]) -> list[list[Array]]:
        for array, name in zip(outputs, self._names, strict=True):
            if not array.shape or array.shape[0] != self.batch:
                raise BadInput(
                    f"output {name!r} of shape {array.shape} can't be split into a batch of {self.batch}",
                    advice="export the model with a batch of 1",
                )
        return [[array[at : at + 1] for array in outputs] for at in range(self.batch)]


def run_samples(
    tested: ModelUnderTest,
    selection: SampleSelection,
    scorer: Scorer,
    *,
    builder: RunBuilder,
    identity: Mapping[str, Any] | None = None,
    fresh: bool = False,
    checkpoints: Path | None = None,
    holding: contextlib.ExitStack | None = None,
    end_by: float | None = None,
    running: ModelAdapter | None = None,
    adapter: ModelAdapter | None = None,
) -> SampleResults:
    """Run every sample of `selection` through the model, and keep the scorer's record of each.

    Emits `SamplesStarted`, `SamplesDone` and `SamplesFinished`. Ctrl-C and the cancel token in force end it with the
    samples that are finished.

    Args:
        scorer: entered where it is a context manager.
        identity: what else, besides model, settings, data and preparation, must be the same for an interrupted
            evaluation to be resumed; None keeps no checkpoint.
        fresh: ignore an earlier checkpoint.
        checkpoints: folder of the checkpoint files; None is the user's cache.
        holding: keeps the checkpoint from other evaluations until it is closed; None: until this function ends.
        end_by: monotonic time, s, at which it ends with what it has.
        running: the model with its worker, which has started and goes on afterwards; None starts a worker for this.
        adapter: the model, whose worker has not started; None makes one.

    Raises `BadInput`: samples that don't fit the model, labels that don't fit the task, or, where `strict`, a sample
    that can't be used.
    """
    begin = now()
    # A sequence can't be resumed in its middle: the state is gone.
    path = None
    if identity is not None and not tested.job.workload.keep_state:
        path = checkpoint_path(_identify(tested, selection, identity), folder=checkpoints)
    adapter = running or adapter or ModelAdapter(tested, selection.data, builder=builder, end_by=end_by)
    failure, interrupted = None, False
    emit(SamplesStarted(job=tested.job, total=len(selection.indices)))
    with contextlib.ExitStack() as own:
        checkpoint = (own if holding is None else holding).enter_context(Checkpoint(path, fresh=fresh))
        loop = _SampleLoop(adapter, selection, scorer, checkpoint)
        try:
            loop.run(contextlib.nullcontext() if running else adapter.inference)
        except InferenceFailed as error:
            failure = error.failure
        except KeyboardInterrupt:
            interrupted = True
    wanted = set(selection.indices)
    entries = tuple(entry for index, entry in sorted(checkpoint.entries.items()) if index in wanted)
    results = SampleResults(
        entries=entries, notes=(*adapter.notes, *_tell_state(tested.job, adapter.inference)), fed=adapter.ranges,
        effective=adapter.inference.effective, failure=failure, interrupted=interrupted, resumed=loop.resumed,
        seconds=now() - begin, times=adapter.times, untimed=adapter.inference.untimed, example=loop.example,
        batch=adapter.batch, checkpoint=checkpoint,
    )  # fmt: skip
    emit(
        SamplesFinished(
            answered=len(results.records), skipped=len(entries) - len(results.records), resumed=results.resumed,
            seconds=results.seconds, failure="" if failure is None else failure.message,
        )
    )  # fmt: skip
    return results


def _tell_state(job: Job, inference: Inference) -> Iterator[str]:
    """Yield how the state of the model was treated, where it keeps one or that was expected."""
    names = ", ".join(map(str, inference.effective.get("states", ())))
    if names and job.workload.keep_state:
        yield f"{STATE} ({names}), kept from sample to sample as one sequence ({as_flag('keep_state')})"
    elif names:
        how = "the engine can't reset it, so the model was loaded again" if inference.reloaded else "reset"
        yield f"{STATE} ({names}); {how} before each sample"
    elif inference.effective and job.workload.keep_state:
        yield f"{as_flag('keep_state')} changed nothing: the engine reports no state of the model"


def fit_sizes(tested: ModelUnderTest, selection: SampleSelection, *, builder: RunBuilder) -> ModelUnderTest:
    """Return the model with the input sizes of the first usable sample, where sizes were assumed.

    Raises `BadInput`, `Unavailable` for data that does not fit the model.
    """
    adapter = ModelAdapter(tested, selection.data, builder=builder)
    for index in selection.indices[:MOST_TRIED]:
        try:
            sample = selection.data.read(index)
            arrays, _ = adapter.prepare(sample)
        except CorruptSample:
            continue
        workload = tested.job.workload
        if workload.batch != 1:
            return tested
        inputs = with_sizes_of(workload.inputs, arrays, sample.name)
        return replace(tested, job=replace(tested.job, workload=replace(workload, inputs=inputs)))
    return tested


Prepared = tuple[Sample, list[Array], Preparation]


class _SampleLoop:
    """Reads, prepares, runs and records the samples that are not in the checkpoint yet.

    Attributes:
        resumed: samples that the checkpoint had.
        example: as `SampleResults.example`.
    """

    def __init__(
        self, adapter: ModelAdapter, selection: SampleSelection, scorer: Scorer, checkpoint: Checkpoint
    ) -> None:
        self.example: Mapping[str, Any] | None = None
        self._adapter, self._selection, self._scorer, self._checkpoint = adapter, selection, scorer, checkpoint
        # With `strict` a skipped sample is read again, to raise its error.
        known = {index for index, entry in checkpoint.entries.items() if not (selection.strict and entry.reason)}
        self._left = [index for index in selection.indices if index not in known]
        self._total = len(selection.indices)
        self.resumed = self._total - len(self._left)

    def run(self, worker: contextlib.AbstractContextManager[object]) -> None:
        """Run the model in `worker`. Raises `InferenceFailed`, `KeyboardInterrupt`, `BadInput`."""
        scorer, adapter = self._scorer, self._adapter
        if not self._left:
            return
        for index in self._left:
            self._checkpoint.entries.pop(index, None)
        # An earlier evaluation may have left more samples than are selected now.
        others = len(self._checkpoint.entries) - self.resumed
        held = scorer if isinstance(scorer, contextlib.AbstractContextManager) else contextlib.nullcontext()
        with worker, held:
            for batch in self._batches():
                done = len(self._checkpoint.entries) - others
                if adapter.is_late():
                    message = f"the time budget ended after {done} of {self._total} samples"
                    advice = "increase ⟦time_budget⟧, or evaluate fewer samples with ⟦limit⟧"
                    raise InferenceFailed(Failure(cause="Timeout", message=message, phase="samples", advice=advice))
                if isinstance(scorer, ReadsAhead):
                    scorer.begin_batch([sample for sample, _, _ in batch])
                if isinstance(scorer, RunsModel):
                    self._run_by_scorer(scorer, batch)
                else:
                    self._run_batch(batch)
                emit(SamplesDone(done=len(self._checkpoint.entries) - others, total=self._total))

    def _batches(self) -> Iterator[list[Prepared]]:
        """Yield prepared samples, as many as the worker gets at once; unusable ones are noted and left out."""
        batch: list[Prepared] = []
        for index in self._left:
            check()
            try:
                sample = self._selection.data.read(index)
                arrays, preparation = self._adapter.prepare(sample)
            except CorruptSample as error:
                self._skip(index, error)
                continue
            batch.append((sample, arrays, preparation))
            if len(batch) >= self._adapter.room(arrays, sample) or self._adapter.is_late():
                yield batch
                batch = []
        if batch:
            yield batch

    def _run_batch(self, batch: Sequence[Prepared]) -> None:
        scorer, reading = self._scorer, []
        outputs_of_batch = self._adapter.infer([arrays for _, arrays, _ in batch])
        for (sample, _, preparation), outputs in zip(batch, outputs_of_batch, strict=True):
            begin = time.perf_counter()
            try:
                record = scorer.record(outputs, sample, preparation)
            except CorruptSample as error:
                self._skip(sample.index, error)
                continue
            finally:
                reading.append(time.perf_counter() - begin)
            self._note(sample, record, preparation)
            if (
                self.example is None
                and isinstance(scorer, RanksClasses)
                and (top := scorer.top_classes(outputs, sample))
            ):
                self.example = {"sample": sample.name, **top}
        self._adapter.note_times([sample.index for sample, _, _ in batch], reading)

    def _run_by_scorer(self, scorer: Any, batch: Sequence[Prepared]) -> None:
        """Let the scorer run the model on the samples, one by one."""
        for sample, arrays, preparation in batch:
            try:
                outputs = scorer.run_model(lambda feed: self._adapter.infer([feed])[0], arrays, sample)
            except CorruptSample as error:
                self._skip(sample.index, error)
            else:
                self._note(sample, scorer.record(outputs, sample, preparation), preparation)

    def _note(self, sample: Sample, record: Record, preparation: Preparation) -> None:
        self._checkpoint.write(
            Entry(
                index=sample.index, name=sample.name, digest=sample.digest(), record=record, changes=preparation.changes
            )
        )

    def _skip(self, index: int, error: CorruptSample) -> None:
        """Note a sample that can't be used. Raises `BadInput` with `strict`."""
        if self._selection.strict:
            raise BadInput(
                f"{error.name} can't be used: {error.reason}", advice="fix it, or omit ⟦strict⟧ to skip it"
            ) from error
        self._checkpoint.write(Entry(index=index, name=error.name, reason=error.reason))


def _identify(tested: ModelUnderTest, selection: SampleSelection, identity: Mapping[str, Any]) -> dict[str, Any]:
    """Return all that must be the same to resume an evaluation; the checkpoint itself holds the samples."""
    return {
        "edgewise": __version__,
        "records": 3,  # of the built-in scorers; other checkpoints are not resumed
        **identify(tested),
        "data": [str(selection.data.path), selection.data.format, selection.data.split, selection.data.stamp()],
        **identity,
    }


def identify(tested: ModelUnderTest) -> dict[str, Any]:
    """Return all that decides a model's answers: model, engine, settings, inputs and their preparation."""
    job = tested.job
    return {
        "model": job.model.sha256,
        "runtime": [job.runtime.name, job.runtime.version, job.runtime.provider, job.runtime.precision],
        "threads": job.runtime.threads,
        "options": dict(job.runtime.options),
        "inputs": [[spec.name, list(spec.shape), spec.dtype] for spec in job.workload.inputs],
        "instructions": tested.instructions.to_document(),
        "files": _digest_files(tested.instructions),
    }


def _digest_files(instructions: Instructions) -> dict[str, str]:
    """Return name → SHA-256 of files that steps and options name, such as a tokenizer's vocabulary."""
    words = [value for steps in instructions.steps.values() for step in steps for value in step.to_document().values()]
    found = {}
    for word in [*words, *instructions.task_options.values()]:
        if isinstance(word, str) and "/" in word:
            with contextlib.suppress(OSError), Path(word).open("rb") as file:
                found[word] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def _dequantize(array: Array, scale: Quantization | None, name: str) -> Array:
    """Return quantised integers as real numbers; everything else as it is."""
    if scale is None or not np.issubdtype(array.dtype, np.integer):
        return array
    if scale.channels != 1:
        raise BadInput(
            f"output {name!r} has {scale.channels} quantisation scales, which is not supported",
            advice="export the model with a float output, or with one scale",
        )
    return (array.astype(np.float64) - scale.zero_point) * scale.scale
