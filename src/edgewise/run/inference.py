"""A model alive in a worker process, answering samples: the host's side of a pass over data."""

from __future__ import annotations

import os
import time
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

import numpy as np

from edgewise.device.transport import transports
from edgewise.folders import job_folder
from edgewise.record import Failure, Job
from edgewise.run.assembly import Assembly
from edgewise.run.host import LiveSession
from edgewise.run.sample_pass import load_outputs, read_feeds, write_feeds

Array = np.ndarray[Any, np.dtype[Any]]

BATCH_S, BATCH_BYTES, BATCH_SAMPLES = 0.5, 32 * 2**20, 1024
"""Samples handed over at once: as many as take about so long, but no more than these, nor with larger outputs. The
worker keeps answering within its deadline, and a failure or Ctrl-C costs no more than one batch."""


class InferenceFailed(Exception):
    """The worker is gone or could not go on; `failure` says why."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Inference:
    """A context in which a worker holds the model of `job` and answers samples.

    Attributes:
        effective: what came into force in the engine; complete once the context was left without a failure.
        seconds: of each of the last inferences by the worker's clock, copying in and out included.

    Args:
        assembly: of the command, for the worker's request.
        end_by: monotonic time, s, at which the worker is given up.
    """

    def __init__(self, job: Job, *, assembly: Assembly, end_by: float | None = None) -> None:
        self.effective: Mapping[str, Any] = {}
        self.seconds: Sequence[float] = ()
        self._job = job
        self._assembly = assembly
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
            request = self._assembly.request(self._job, index=0, samples=True)
            self._live = stack.enter_context(LiveSession(request, folder=self._folder, end_by=self._end_by))
            transport = transports().get(self._job.target.transport)
            self._live.start(transport, environment=dict(os.environ))
            self._require(self._live.listen("ready"))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._live is not None
        if kind is None and self._live.result.failure is None:
            self._live.order("end")
            self._live.listen("done")
        else:
            self._live.dismiss()
        self._stack.__exit__(kind, error, trace)
        facts = self._live.result.facts
        self.effective = {**facts.get("effective", {}), "engine_version": facts.get("engine_version")}

    def batch_size(self, feed: Sequence[Array]) -> int:
        """How many samples like `feed` to hand over at once, from how long the last ones took."""
        size = max(1, sum(array.nbytes for array in feed), self._answer_bytes)
        return max(1, min(self._size, BATCH_BYTES // size, BATCH_SAMPLES))

    def infer(self, feeds: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """The outputs of every sample, in order.

        Args:
            feeds: per sample, one array per input as the engine takes it.

        Raises:
            InferenceFailed: the engine refused a sample, crashed or was silent for too long.
        """
        assert self._live is not None
        file = self._folder / f"samples-{self._count}.npz"
        self._count += 1
        try:
            write_feeds(file, feeds)
        except OSError as error:
            message = f"the samples can't be handed to the worker: {error.strerror or error}"
            raise InferenceFailed(Failure(cause="Unavailable", message=message, phase="samples")) from error
        begin = time.monotonic()
        self._live.order("infer", file=file.name)
        self._require(self._live.listen("inferred"))
        seconds = max(time.monotonic() - begin, 1e-6)
        # At most eight times as many: the first inferences are slow, and so say little of the next ones.
        self._size = min(8 * len(feeds), max(1, int(BATCH_S / seconds * len(feeds))))
        answers = self._live.result.answers
        assert answers is not None
        try:
            outputs = read_feeds(answers, load=load_outputs)
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

    def _require(self, heard: bool) -> None:
        """End the worker and tell why, unless it said what it was to say."""
        if heard:
            return
        assert self._live is not None
        # Left without an error, so that how the process ended becomes the failure's text.
        self._live.__exit__(None, None, None)
        failure = self._live.result.failure
        raise InferenceFailed(failure or Failure(cause="Garbage", message="the worker ended early", phase="samples"))
