"""The states of running jobs, for those who watch. While nobody does, a change costs nothing but the change."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable

from edgewise.studio.jobs.messages import JobState, Message

KEPT = 20
"""Jobs that ended lately and are kept, for browsers that were away for a moment."""


class Live:
    """States by job, each with the number of its latest change.

    Attributes:
        boot: tells this server's numbers from an earlier one's.
    """

    def __init__(self) -> None:
        self.boot = secrets.token_hex(4)
        self._lock = threading.Lock()
        self._states: dict[str, JobState] = {}
        self._changed: dict[str, int] = {}
        self._number = 0
        self._listeners: set[Callable[[], None]] = set()

    def begin(self, state: JobState) -> None:
        """Add a job, or begin anew with it."""
        with self._lock:
            self._states.pop(state.id, None)
            for old in [each.id for each in self._states.values() if each.status != "running"][:-KEPT]:
                del self._states[old], self._changed[old]
            self._states[state.id] = state
        self._note(state.id)

    def tell(self, job_id: str, message: Message) -> None:
        """Take a message of a job's process into account."""
        with self._lock:
            self._states[job_id].apply(message)
        self._note(job_id)

    def end(self, job_id: str, status: str, *, message: str = "", advice: str = "") -> None:
        """The job has ended."""
        with self._lock:
            state = self._states[job_id]
            state.status, state.message, state.advice = status, message, advice
        self._note(job_id)

    def get(self, job_id: str) -> Message | None:
        """The state of a job as a document; None where it did not run here lately."""
        with self._lock:
            state = self._states.get(job_id)
            return None if state is None else state.to_document()

    def running(self) -> list[Message]:
        """Id and title of each running job."""
        with self._lock:
            return [{"id": each.id, "title": each.title} for each in self._states.values() if each.status == "running"]

    @property
    def number(self) -> int:
        """The number of the latest change."""
        return self._number

    def changed_since(self, number: int) -> dict[str, int]:
        """Job → number of its latest change, of those that changed after `number`, in the order of change."""
        with self._lock:
            found = ((job_id, last) for job_id, last in self._changed.items() if last > number)
            return dict(sorted(found, key=lambda each: each[1]))

    def text_of(self, job_id: str) -> str:
        """The state of a job as JSON."""
        return json.dumps(self.get(job_id))

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener`, from any thread, after each change; what is returned ends that."""
        with self._lock:
            self._listeners.add(listener)

        def end() -> None:
            with self._lock:
                self._listeners.discard(listener)

        return end

    def _note(self, job_id: str) -> None:
        with self._lock:
            self._number += 1
            self._changed[job_id] = self._number
            listeners = list(self._listeners)
        for listener in listeners:
            listener()
