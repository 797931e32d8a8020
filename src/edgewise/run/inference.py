"""The host's side of an evaluation: a worker that holds a model and runs it on samples."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

import numpy as np

from edgewise.clock import now
from edgewise.device.link import LinkLost
from edgewise.folders import job_folder
from edgewise.record import Failure, Job
from edgewise.record.run import Cause
from edgewise.run.executor import target_of
from edgewise.run.host import LiveSession
from edgewise.run.run_builder import RunBuilder
from edgewise.run.sample_mode import load_outputs, read_feeds, write_feeds

Array = np.ndarray[Any, np.dtype[Any]]

BATCH_S, BATCH_BYTES, BATCH_SAMPLES = 0.5, 32 * 2**20, 1024
"""A batch of samples: about this many seconds of inference, and at most these bytes and this number. The worker answers
within its deadline, and a failure or Ctrl-C costs at most one batch."""

LINK_S = 2.0
"""On a remote target, what a batch may take besides on its way there and back."""


class InferenceFailed(Exception):
    """The worker ended or failed; `failure` says why."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Inference:
    """A context in which a worker holds the model of `job` and answers samples.

    Attributes:
        effective: settings in effect in the engine; complete once the context was left without a failure.
        untimed: why `seconds` can't be used, complete once the context was left; "" where they can.
        reloaded: whether the model was loaded again before each sample, to reset its state; complete likewise.
        seconds: of each of the last inferences by the worker's clock, copying in and out included.

    Args:
        builder: of the command, for the worker's request.
        end_by: monotonic time, s, at which the worker is ended.
    """

    def __init__(self, job: Job, *, builder: RunBuilder, end_by: float | None = None) -> None:
        self.effective: Mapping[str, Any] = {}
        self.untimed = ""
        self.reloaded = False
        self.seconds: Sequence[float] = ()
        self._job = job
        self._builder = builder
        self._end_by = end_by
        self._stack = ExitStack()
        self._live: LiveSession | None = None
        self._count = 0
        self._size = 1
        self._answer_bytes = 0

    def __enter__(self) -> Self:
        """Start the worker and wait until the model is loaded. Raises `InferenceFailed`."""
        with self._stack as stack:
            self._folder = stack.enter_context(job_folder())
            request = self._builder.request(self._job, index=0, mode="samples")
            self._live = stack.enter_context(LiveSession(request, folder=self._folder, end_by=self._end_by))
            self._live.start(target_of(self._job.target))
            self._require(self._live.wait_for("ready"))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._live is not None
        if kind is None and self._live.result.failure is None:
            self._live.send("end")
            self._live.wait_for("done")
        else:
            self._live.dismiss()
        self._stack.__exit__(kind, error, trace)
        facts = self._live.result.facts
        self.reloaded = bool(facts.get("samples", {}).get("reloaded"))
        again = "the model was loaded again before each sample, so each inference was the first one of its session"
        self.untimed = self._live.result.clock_jump or (again if self.reloaded else "")
        self.effective = {**facts.get("effective", {}), "engine_version": facts.get("engine_version")}

    def batch_size(self, feed: Sequence[Array]) -> int:
        """Return number of samples like `feed` in the next batch, from how long the last ones took."""
        size = max(1, sum(array.nbytes for array in feed), self._answer_bytes)
        return max(1, min(self._size, BATCH_BYTES // size, BATCH_SAMPLES))

    def infer(self, feeds: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """Return the outputs of every sample, in order.

        Args:
            feeds: per sample, one array per input as the engine takes it.

        Raises:
            InferenceFailed: the engine refused a sample, crashed or was silent for too long.
        """
        assert self._live is not None
        file = self._folder / f"samples-{self._count}.npz"
        self._count += 1
        assert self._live.workspace is not None
        begin = now()
        try:
            write_feeds(file, feeds)
            self._live.workspace.send(file)
        except OSError as error:
            cause: Cause = "LinkLost" if isinstance(error, LinkLost) else "Unavailable"
            message = f"the samples can't be sent to the worker: {error.strerror or error}"
            advice = getattr(error, "advice", "")
            raise InferenceFailed(Failure(cause=cause, message=message, phase="samples", advice=advice)) from error
        self._live.send("infer", file=file.name)
        self._require(self._live.wait_for("inferred"))
        self._learn_size(len(feeds), seconds=max(now() - begin, 1e-6))
        answers = self._live.result.answers
        assert answers is not None
        try:
            self._live.workspace.pull(answers.name)
            outputs = read_feeds(answers, load=load_outputs)
        except LinkLost as error:
            raise InferenceFailed(Failure(cause="LinkLost", message=str(error), phase="samples")) from error
        except (OSError, ValueError, EOFError, KeyError, MemoryError, zipfile.BadZipFile) as error:
            message = f"the worker's outputs can't be read: {error}"
            raise InferenceFailed(Failure(cause="Garbage", message=message, phase="samples")) from error
        finally:
            file.unlink(missing_ok=True)
            answers.unlink(missing_ok=True)
        self.seconds = [value * 1e-9 for value in self._live.result.answer_ns]
        if not len(outputs) == len(self.seconds) == len(feeds):
            message = f"{len(outputs)} answers and {len(self.seconds)} times for {len(feeds)} samples"
            raise InferenceFailed(Failure(cause="Garbage", message=message, phase="samples"))
        self._answer_bytes = max((sum(array.nbytes for array in output) for output in outputs), default=0)
        return outputs

    def _learn_size(self, count: int, *, seconds: float) -> None:
        """Set the next batch by how long one of `count` samples took."""
        assert self._live is not None
        if self._live.result.link is not None:
            # The latency of a link is the same for one sample and for many.
            seconds = max(seconds - LINK_S, sum(self._live.result.answer_ns) * 1e-9, 1e-6)
        # At most eight times as many: the first inferences are slow, and so say little of the next ones.
        self._size = min(8 * count, max(1, int(BATCH_S / seconds * count)))

    def _require(self, arrived: bool) -> None:
        """Raise `InferenceFailed` with the worker's failure unless the awaited message arrived."""
        if arrived:
            return
        assert self._live is not None
        # Left without an error, so that how the process ended becomes the failure's text.
        self._live.__exit__(None, None, None)
        failure = self._live.result.failure
        raise InferenceFailed(
            failure or Failure(cause="Garbage", message=("the worker ended too early"), phase="samples")
        )
