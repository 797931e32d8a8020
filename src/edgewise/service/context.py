"""Where a request is carried out: the store, who is told of progress, and what stops it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from edgewise.cancellation import CancelToken, cancellable
from edgewise.errors import StoreError
from edgewise.progress import Progress, reporting_to
from edgewise.record import Run
from edgewise.run.variation import History, stored_history
from edgewise.store import Store, open_store

Unsaved = Callable[[StoreError, Sequence[Run]], None]


def warn_of_unsaved(error: StoreError, runs: Sequence[Run]) -> None:
    """A `RuntimeWarning`: the results are returned all the same."""
    del runs
    warnings.warn(f"not saved: {error.message}", RuntimeWarning, stacklevel=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Everything around a request.

    Attributes:
        store: where runs are kept and looked up: a store, or its URL; None is the user's own.
        keep: whether runs are saved at all.
        progress: is told what happens; None leaves that in force.
        cancel: stops the work; None leaves the one in force.
        runs: by id, runs that a request names and that the caller holds already.
        on_unsaved: is told of runs that could not be saved, once the work is done, however it ended.
    """

    store: str | Store | None = None
    keep: bool = True
    progress: Progress | None = None
    cancel: CancelToken | None = None
    runs: Mapping[str, Run] = field(default_factory=dict)
    on_unsaved: Unsaved = warn_of_unsaved

    @property
    def history(self) -> History:
        """The reference times of earlier runs on this machine."""
        store = self.store
        if store is None or isinstance(store, str):
            return stored_history(store)
        return lambda machine: store.readings(machine)  # noqa: PLW0108 - a store without any is asked for none

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Progress is reported, and the work can be cancelled, inside."""
        with reporting_to(self.progress), cancellable(self.cancel):
            yield

    @contextmanager
    def saving(self) -> Iterator[Callable[[Run], None]]:
        """What saves a run at once, and raises `StoreError` where it can't: a failing store costs no measurement."""
        saver = _Saver(self)
        try:
            yield saver.save
        finally:
            saver.close()


class _Saver:
    """Saves runs in a store that is opened with the first of them, and remembers those that it could not save."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._opened: Store | None = None
        self._unsaved: dict[str, Run] = {}
        self._error: StoreError | None = None

    def save(self, run: Run) -> None:
        if not self._context.keep:
            return
        try:
            self._find_store().save(run)
        except StoreError as error:
            self._unsaved[run.id] = run
            self._error = self._error or error
            raise
        self._unsaved.pop(run.id, None)

    def _find_store(self) -> Store:
        store = self._context.store
        if not (store is None or isinstance(store, str)):
            return store
        if self._opened is None:
            self._opened = open_store(store)
        return self._opened

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
        if self._error is not None:
            self._context.on_unsaved(self._error, list(self._unsaved.values()))
