"""The worker's side of an evaluation: outputs for the samples that the host sends, batch after batch.

Arrays travel as files in the job's folder. Standard library and numpy only, as everything that is sent to a device.
"""

from __future__ import annotations

import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from edgewise.model.signature import shapes_fit
from edgewise.run.language_samples import answer_question
from edgewise.runtime.base import Generates, Session, UnsupportedModel, reset_state, states_of

Array = np.ndarray[Any, np.dtype[Any]]

MAX_OUTPUT_BYTES = 256 * 2**20
"""Of the outputs that a worker hands over at once: the host's memory and disk are not a model's to fill."""

MOST_SESSIONS = 4
"""Sessions that are kept for samples of other sizes; the oldest is closed first."""

SIGN_S = 1.0
"""Interval of `alive` messages, so that the host does not take a slow model for a hung one."""


def answer_samples(
    session: Session,
    folder: Path,
    *,
    reload: Callable[[Sequence[Array]], Session],
    keep_state: bool = False,
    tell: Callable[..., None],
    next_order: Callable[[], Mapping[str, Any]],
) -> dict[str, Any]:
    """Send ``ready`` and run the model on every sample of each file that an ``infer`` names, until ``end``.

    The answer to ``infer`` is ``inferred`` with a file of outputs and the time of each inference, copying in and out
    included, ns. Every sample starts from the model's initial state.

    Args:
        reload: a new session for samples like an example, in its initial state.
        keep_state: the samples are one sequence: each starts from the state that the one before left.

    Returns:
        ``count``: the number of samples; ``reloaded``: whether the model was loaded again to reset its state.
    """
    sessions = _Sessions(session, reload, keep_state=keep_state)
    total, told = 0, time.monotonic()
    tell("ready")
    while (order := next_order())["kind"] == "infer":
        file = folder / Path(order["file"]).name
        feeds = read_feeds(file)
        file.unlink(missing_ok=True)
        answers: list[list[Array]] = []
        times: list[int] = []
        size = 0
        for feed in feeds:
            fitting = sessions.ready(feed)
            begin = time.perf_counter_ns()
            answers.append(_infer(fitting, feed))
            times.append(time.perf_counter_ns() - begin)
            if (size := size + sum(array.nbytes for array in answers[-1])) > MAX_OUTPUT_BYTES:
                count = "a sample" if len(answers) == 1 else f"{len(answers)} samples"
                raise UnsupportedModel(f"the outputs of {count} have {size} B; the limit is {MAX_OUTPUT_BYTES} B")
            if time.monotonic() - told > SIGN_S:
                told = time.monotonic()
                tell("alive")
        file = folder / f"answers-{total}.npz"
        write_feeds(file, answers)
        total += len(feeds)
        tell("inferred", file=file.name, times_ns=times)
    return {"count": total, "reloaded": sessions.reloaded}


class _Sessions:
    """The sessions of one model: one is enough for an engine that takes any size, others need one a size."""

    def __init__(self, first: Session, reload: Callable[[Sequence[Array]], Session], *, keep_state: bool) -> None:
        self.reloaded = False
        self._first = first
        self._reload = reload
        self._keep_state = keep_state
        self._others: dict[tuple[tuple[int, ...], ...], Session] = {}

    def ready(self, feed: Sequence[Array]) -> Session:
        """One that takes a sample of these sizes, in the state in which the sample is to start."""
        session = self._find(feed)
        if self._keep_state or reset_state(session):
            return session
        self.reloaded = True
        session.close()
        again = self._reload(feed)
        if session is self._first:
            self._first = again
        else:
            self._others[tuple(array.shape for array in feed)] = again
        return again

    def _find(self, feed: Sequence[Array]) -> Session:
        """One that takes a sample of these sizes."""
        if len(self._first.inputs) != len(feed) or all(
            shapes_fit(spec.shape, array.shape) for spec, array in zip(self._first.inputs, feed, strict=True)
        ):
            return self._first
        if self._keep_state and states_of(self._first):
            raise UnsupportedModel("samples of several sizes can't share one state; omit ⟦keep_state⟧")
        shapes = tuple(array.shape for array in feed)
        if shapes not in self._others:
            if len(self._others) >= MOST_SESSIONS:
                self._others.pop(next(iter(self._others))).close()
            self._others[shapes] = self._reload(feed)
        return self._others[shapes]


def _infer(session: Session, feed: Sequence[Array]) -> list[Array]:
    if isinstance(session, Generates) and not session.inputs:
        return answer_question(session, feed)
    session.bind(feed)
    session.invoke()
    outputs = session.read_outputs()
    for spec, array in zip(session.outputs, outputs, strict=False):
        if array is None or np.asarray(array).dtype.kind not in "biuf":
            raise UnsupportedModel(f"output {spec.name!r} is {spec.dtype}; only tensors of numbers can be evaluated")
    return [np.asarray(array) for array in outputs]


def write_feeds(path: Path, feeds: Sequence[Sequence[Array]]) -> None:
    """Keep the arrays of several samples, each a list of the same length, in one file at `path`."""
    named: dict[str, Array] = {"count": np.array([len(feeds), len(feeds[0]) if feeds else 0])}
    for place in range(int(named["count"][1])):
        column = [feed[place] for feed in feeds]
        if all(array.shape == column[0].shape and array.dtype == column[0].dtype for array in column):
            named[f"all_{place}"] = np.stack(column)
        else:  # outputs whose shape depends on the data
            named |= {f"one_{place}_{index}": array for index, array in enumerate(column)}
    np.savez(path, allow_pickle=False, **named)


def load_outputs(path: Path) -> Any:
    """Return the ``.npz`` that a worker wrote. Raises as numpy does, and ValueError where it holds more than it may."""
    with zipfile.ZipFile(path) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
    if size > 2 * MAX_OUTPUT_BYTES:  # with the headers of many arrays
        raise ValueError(f"{path.name} holds {size} B")
    return np.load(path, allow_pickle=False)


def read_feeds(path: Path, *, load: Callable[[Path], Any] = partial(np.load, allow_pickle=False)) -> list[list[Array]]:
    """Return what `write_feeds` wrote: per sample, one array per place."""
    with load(path) as data:
        samples, places = (int(number) for number in data["count"])
        columns: list[Sequence[Array]] = []
        for place in range(places):
            if f"all_{place}" in data.files:
                columns.append(data[f"all_{place}"])
            else:
                columns.append([data[f"one_{place}_{index}"] for index in range(samples)])
        if any(len(column) != samples for column in columns):
            raise ValueError(f"{path.name} does not contain {samples} samples")
        return [[column[index] for column in columns] for index in range(samples)]
