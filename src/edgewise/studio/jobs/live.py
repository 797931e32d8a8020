"""The states of running jobs, and the events of those that changed. Without listeners no event is made."""

from __future__ import annotations

import copy
import json
import secrets
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator

from edgewise.formatting import interval_text, value_text
from edgewise.metrics import METRICS
from edgewise.studio.jobs.chart import headline_chart, speed_chart
from edgewise.studio.jobs.messages import JobState, Message
from edgewise.text import plural
from edgewise.units import significant

LIST = ""
"""Stands for the list of jobs among those that changed."""

RATE = 2
"""Largest number of events about one job per second and browser."""

KEPT = 20
"""Jobs that ended lately and are kept, for browsers that were away for a moment."""


class Live:
    """States by job, each with the number of its latest change.

    Attributes:
        boot: distinguishes the numbers of this server from those of an earlier one.
        closed: whether the server ends, and with it all streams.
    """

    def __init__(self) -> None:
        self.boot = secrets.token_hex(4)
        self.closed = False
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

    def touch(self) -> None:
        """Note that the list of jobs has changed."""
        self._note(LIST)

    def close(self) -> None:
        """End all streams."""
        self.closed = True
        self._call(self._listeners)

    def get(self, job_id: str) -> JobState | None:
        """Return the state of a job as it is now; None where it did not run here lately."""
        with self._lock:
            return copy.deepcopy(self._states.get(job_id))

    def running(self) -> JobState | None:
        """Return the running job that changed last; None where none runs."""
        with self._lock:
            found = [each for each in self._states.values() if each.status == "running"]
            return max(found, key=lambda each: self._changed[each.id], default=None)

    @property
    def number(self) -> int:
        """The number of the latest change."""
        return self._number

    @property
    def listeners(self) -> int:
        """How many listen."""
        return len(self._listeners)

    def changed_since(self, number: int) -> dict[str, int]:
        """Job → number of its latest change, of those that changed after `number`, in the order of change."""
        with self._lock:
            found = ((job_id, last) for job_id, last in self._changed.items() if last > number)
            return dict(sorted(found, key=lambda each: each[1]))

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
        self._call(self._listeners)

    def _call(self, listeners: set[Callable[[], None]]) -> None:
        with self._lock:
            found = list(listeners)
        for listener in found:
            listener()


def document_of(state: JobState) -> Message:
    """Return the state of a job as its page shows it: words, and the parts that move, as JSON."""
    return {
        "id": state.id,
        "title": state.title,
        "status": state.status,
        "shown": state.shown,
        "stage": state.stage,
        "where": state.where or ("starting" if state.status == "running" and not state.stage + state.waiting else ""),
        "share": state.share,
        "waiting": state.waiting,
        "message": state.message,
        "advice": state.advice,
        "headlines": [
            *(_headline(each, sessions=(state.session or {}).get("total", 0)) for each in state.headlines),
            *_speeds(state),
        ],
        "runs": [{**run, "saved": run["id"] in state.saved} for run in state.runs],
        "log": list(state.log),
    }


def _headline(told: Message, *, sessions: int) -> Message:
    """Return what the page shows of a run's headline: value, interval, what both rest on, and the chart."""
    last = told["points"][-1]
    metric, unit = last["metric"], last["unit"]
    interval = interval_text(metric, unit, last["value"], last["low"], last["high"])
    count = f"{last['n']} samples of {plural(last['sessions'], 'session')}"
    return {
        "label": told["label"],
        "name": METRICS[metric].label,
        "value": value_text(metric, unit, last["value"]),
        "basis": f"95 % interval {interval or 'not known yet'}; measured, {count} so far",
        "chart": headline_chart(told["points"], sessions=sessions),
    }


def _speeds(state: JobState) -> list[Message]:
    """Return what the page shows of a language model's speed in the current run: the page has the last one first."""
    cards = []
    for metric in ("prefill_rate", "decode_rate"):
        points = [(each["at_s"], each[metric]) for each in state.speeds if each[metric] is not None]
        if points:
            cards.append(
                {
                    "label": state.job["label"] if state.job else "",
                    "name": METRICS[metric].label,
                    "value": f"{significant(points[-1][1])} tokens/s",
                    "basis": "of the latest requests, measured; the result follows from all of them",
                    "chart": speed_chart(metric, points),
                }
            )
    return cards


class Feed:
    """The events of one browser: the state of each job that changed, at most `RATE` times a second.

    Args:
        since: id of the last event that the browser has; it gets what changed since. Any other text gets it all.
    """

    def __init__(self, live: Live, since: str) -> None:
        self._live = live
        boot, _, number = since.partition("-")
        known = boot == live.boot and number.isascii() and number.isdigit() and len(number) < 16
        self._since = int(number) if known else 0
        self._told: dict[str, int] = {}
        self._times: dict[str, deque[float]] = defaultdict(lambda: deque([float("-inf")] * RATE, maxlen=RATE))

    def due(self, now: float) -> Iterator[bytes]:
        """Yield the events to send at `now`, s on any clock."""
        for job_id in self._pending():
            if self._times[job_id][0] + 1.0 > now:
                continue
            self._times[job_id].append(now)
            self._told[job_id] = self._live.number
            state = self._live.get(job_id)
            data = json.dumps(document_of(state) if state is not None else {})
            # What a browser has by this event: everything before the first change that still waits.
            have = min(self._pending().values(), default=self._live.number + 1) - 1
            kind = "job" if job_id else "list"
            yield f"id: {self._live.boot}-{have}\nevent: {kind}\ndata: {data}\n\n".encode()

    def wait_s(self, now: float) -> float | None:
        """How long until something is due that has changed already; None where nothing has."""
        return min((max(0.0, self._times[job_id][0] + 1.0 - now) for job_id in self._pending()), default=None)

    def _pending(self) -> dict[str, int]:
        changed = self._live.changed_since(self._since)
        return {job_id: number for job_id, number in changed.items() if number > self._told.get(job_id, 0)}
