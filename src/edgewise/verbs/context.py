"""The context of a request: its store, its progress events and its cancel token."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from edgewise.cancellation import CancelToken, cancellable
from edgewise.device.lease import measuring_on
from edgewise.errors import StoreError, as_argument, unmarked
from edgewise.progress import Progress, reporting_to
from edgewise.record import Run
from edgewise.run.variation import History, stored_history
from edgewise.verbs.leasing import leased

if TYPE_CHECKING:
    from edgewise.store import Store

Unsaved = Callable[[StoreError, Sequence[Run]], None]


def warn_of_unsaved(error: StoreError, runs: Sequence[Run]) -> None:
    """Give a `RuntimeWarning`: the results are returned all the same."""
    del runs
    warnings.warn(f"not saved: {unmarked(error.marked.message, as_argument)}", RuntimeWarning, stacklevel=2)


class Rehearsed(BaseException):
    """The dry run has reached the point where the work would begin, and nothing was refused.

    A `BaseException`, so that no `except Exception` on the way takes it for a failure.
    """


def note_nothing(run: Run) -> None:
    """Most callers get the runs with the result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Everything around a request.

    Attributes:
        store: where runs are kept and looked up: a store, or its URL; None is the user's own.
        keep: whether runs are saved at all.
        progress: receives the events; None leaves the one in force.
        cancel: stops the work; None leaves the one in force.
        runs: by id, runs that a request names and that the caller holds already.
        on_unsaved: called with runs that could not be saved, once the work has ended in any way.
        on_saved: called with each run that was saved, and again where it was saved again.
        save: keeps runs in place of the store; None saves them there.
        rehearses: whether requests are only checked, as `edgewise.verbs.verb.rehearse` does.
    """

    store: str | Store | None = None
    keep: bool = True
    progress: Progress | None = None
    cancel: CancelToken | None = None
    runs: Mapping[str, Run] = field(default_factory=dict)
    on_unsaved: Unsaved = warn_of_unsaved
    on_saved: Callable[[Run], None] = note_nothing
    save: Callable[[Run], None] | None = None
    rehearses: bool = False

    def begin(self, *models: str) -> None:
        """Mark where a verb has refused all that it can, and what takes time or changes something begins.

        Args:
            models: files that the work reads first; they are recognised in a rehearsal.

        Raises:
            Rehearsed: in a rehearsal.
            BadInput, BadModel: in a rehearsal, for one of `models`.
        """
        if not self.rehearses:
            return
        from edgewise.model.callable_loader import is_factory
        from edgewise.model.identity import open_model

        for model in models:
            if not is_factory(model):
                open_model(model)
        raise Rehearsed

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
    def measuring(self, device: str, *, needed: bool = True) -> Iterator[None]:
        """Hold a device inside: its machine's lock, and a lease in the store where this is a server's.

        Args:
            device: its name or URL.
            needed: whether something is measured at all.

        Raises `Unavailable`, `BadInput` and `Cancelled`, as `edgewise.device.lease.measuring_on`.
        """
        self.begin()
        with measuring_on(device, needed=needed), leased(self.store, device) if needed else nullcontext():
            yield

    @contextmanager
    def reading(self) -> Iterator[Store | None]:
        """Yield the store to look runs up in; None where none are kept.

        Raises `StoreError` where there is none yet.
        """
        from edgewise.store import Store, open_store

        if not self.keep or isinstance(self.store, Store):
            yield self.store if self.keep and isinstance(self.store, Store) else None
            return
        with open_store(self.store, create=False) as store:
            yield store

    @contextmanager
    def saving(self) -> Iterator[Saver]:
        """Save runs in the store inside; say afterwards which could not be saved."""
        saver = Saver(self)
        try:
            yield saver
        finally:
            saver.close()


class Saver:
    """Saves runs in a store that is opened with the first of them. A failing store costs no measurement.

    Attributes:
        unsaved: by id, runs that could not be saved.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._opened: Store | None = None
        self._errors: dict[str, StoreError] = {}
        self.unsaved: dict[str, Run] = {}

    @property
    def errors(self) -> tuple[StoreError, ...]:
        """Why runs could not be saved, each reason once."""
        return tuple(self._errors.values())

    def save(self, run: Run) -> None:
        """Save `run`, or remember it and why it can't be saved."""
        if not self._context.keep:
            return
        if self._context.save is not None:
            self._context.save(run)
            return
        store = self._context.store
        try:
            if store is None or isinstance(store, str):
                from edgewise.store import open_store

                store = self._opened = self._opened or open_store(store)
            store.save(run)
        except StoreError as error:
            self.unsaved[run.id] = run
            self._errors.setdefault(error.message, error)
        else:
            self.unsaved.pop(run.id, None)
            self._context.on_saved(run)

    def close(self) -> None:
        """Close the store if it was opened here, and tell the context of runs that are not saved."""
        if self._opened is not None:
            self._opened.close()
        if self.errors:
            self._context.on_unsaved(self.errors[0], list(self.unsaved.values()))
