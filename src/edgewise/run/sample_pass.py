"""The worker's side of a pass over data: what each sample comes out as, batch after batch, as the host hands them over.

Arrays travel as files in the job's folder. Standard library and numpy only, as everything that is sent to a device.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgewise.runtime.base import Session

Array = np.ndarray[Any, np.dtype[Any]]

SIGN_S = 1.0
"""A sign of life so often, so that slow models outlive the host's deadline."""


def answer_samples(
    session: Session, folder: Path, *, tell: Callable[..., None], next_order: Callable[[], Mapping[str, Any]]
) -> int:
    """Say ``ready`` and run the model on every sample of each file that an ``infer`` names, until ``end``.

    The answer to ``infer`` is ``inferred`` with a file of outputs. Returns how many samples there were.
    """
    total, told = 0, time.monotonic()
    tell("ready")
    while (order := next_order())["kind"] == "infer":
        feeds = read_feeds(folder / Path(order["file"]).name)
        answers = []
        for feed in feeds:
            answers.append(_infer(session, feed))
            if time.monotonic() - told > SIGN_S:
                told = time.monotonic()
                tell("alive")
        file = folder / f"answers-{total}.npz"
        write_feeds(file, answers)
        total += len(feeds)
        tell("inferred", file=file.name)
    return total


def _infer(session: Session, feed: Sequence[Array]) -> list[Array]:
    session.bind(feed)
    session.invoke()
    # A sequence or a map is no array: nothing stands in its place, so that the others keep theirs.
    return [np.empty(0) if array is None else np.asarray(array) for array in session.read_outputs()]


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


def read_feeds(path: Path) -> list[list[Array]]:
    """What `write_feeds` wrote: per sample, one array per place."""
    with np.load(path, allow_pickle=False) as data:
        samples, places = (int(number) for number in data["count"])
        columns: list[Sequence[Array]] = []
        for place in range(places):
            if f"all_{place}" in data.files:
                columns.append(data[f"all_{place}"])
            else:
                columns.append([data[f"one_{place}_{index}"] for index in range(samples)])
        if any(len(column) != samples for column in columns):
            raise ValueError(f"{path.name} does not hold {samples} samples")
        return [[column[index] for column in columns] for index in range(samples)]
