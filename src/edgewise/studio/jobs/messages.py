"""Messages of a job's process, one JSON object per line, and the state of the job that follows from them.

| ``kind`` | fields |
|---|---|
| ``stage`` | ``title`` |
| ``job`` | ``label``, ``index`` (from 0), ``total``: what is measured now |
| ``session`` | ``index`` (from 0), ``total`` |
| ``steps`` | ``done``, ``total`` (or null), ``of``: what is counted |
| ``speed`` | ``done``, ``elapsed_s``, ``prefill_rate``, ``decode_rate``: of the latest requests of this session |
| ``headline`` | ``metric``, ``unit``, ``value``, ``low``, ``high``, ``n``, ``sessions``: of the sessions so far |
| ``waiting`` | ``text``: for whom |
| ``run`` | ``id``, ``label``, ``status`` of a run that is complete |
| ``saved`` | ``id`` of a run in the store |
| ``log`` | ``text``, as the command line prints it |
| ``end`` | fields of `End` |
"""

from __future__ import annotations

import io
import json
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from edgewise.text import one_line

if TYPE_CHECKING:
    from edgewise.errors import EdgewiseError
    from edgewise.progress import Event
    from edgewise.store.jobs import End as EndStatus

Message = dict[str, Any]
EVERY_S = 0.2
"""Shortest time between two messages about steps, s: there may be thousands of steps in a second."""

MOST_LINES = 200
MOST_HEADLINES = 12
MOST_SPEEDS = 240
WAITING = "waiting for "
"""How the lines begin that `edgewise.device.lease` logs while another process measures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How a job ended: the last message of its process, or what the studio found out.

    Attributes:
        exit_code: of the command that does the same; None where it did not get that far.
        error: class of the error, such as ``RunFailed``; "" where there was none.
        message, advice: what went wrong and what to do, for a person.
    """

    status: EndStatus
    exit_code: int | None = None
    error: str = ""
    message: str = ""
    advice: str = ""

    @staticmethod
    def failed(*errors: EdgewiseError, exit_code: int | None = None) -> End:
        """Return the end of a job that failed for these reasons; its code is that of the first one unless given."""
        messages, advice = ([*dict.fromkeys(filter(None, each))] for each in
                            zip(*((one.message, one.advice) for one in errors), strict=True))  # fmt: skip
        return End(
            status="failed",
            exit_code=int(errors[0].exit_code if exit_code is None else exit_code),
            error=type(errors[0]).__name__,
            message="; ".join(messages),
            advice=" ".join(advice),
        )

    @staticmethod
    def of(message: Message) -> End:
        """Return the end that a message tells."""
        return End(**{name: value for name, value in message.items() if name != "kind"})

    def to_message(self) -> Message:
        """As it is sent."""
        return {"kind": "end", **asdict(self)}


class Reporter:
    """A `edgewise.progress.Progress` that sends events as messages."""

    def __init__(self, say: Callable[[Message], None], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._say = say
        self._clock = clock
        self._said = float("-inf")

    def __call__(self, event: Event, /) -> None:
        """Send one event."""
        message = message_of(event)
        if message is None:
            return
        if message["kind"] == "steps" and message["done"] != message["total"]:
            now = self._clock()
            if now - self._said < EVERY_S:
                return
            self._said = now
        self._say(message)


def message_of(event: Event) -> Message | None:
    """Return the message of an event; None for one that goes to the log only."""
    from edgewise import progress

    match event:
        case progress.StageStarted(title=title):
            return {"kind": "stage", "title": title}
        case progress.JobStarted(job=job, index=index, total=total):
            return {"kind": "job", "label": job.label, "index": index, "total": total}
        case progress.SamplesStarted(job=job):
            return {"kind": "job", "label": job.label, "index": 0, "total": 1}
        case progress.SessionStarted(index=index, total=total):
            return {"kind": "session", "index": index, "total": total}
        case progress.InferencesDone(done=done):
            return {"kind": "steps", "done": done, "total": None, "of": "inferences"}
        case progress.RequestsDone():
            return {"kind": "speed", **asdict(event)}
        case progress.HeadlineUpdated():
            return {"kind": "headline", **asdict(event)}
        case progress.SamplesDone(done=done, total=total):
            return {"kind": "steps", "done": done, "total": total, "of": "samples"}
        case progress.BinDone(elapsed_s=elapsed, total_s=total):
            return {"kind": "steps", "done": round(min(elapsed, total)), "total": round(total), "of": "s"}
        case progress.RunFinished(run=run):
            return {"kind": "run", "id": run.id, "label": run.job.label, "status": run.status}
        case progress.LogLine(text=text) if text.startswith(WAITING):
            return {"kind": "waiting", "text": text}
    return None


class LogLines(io.TextIOBase):
    """A text file whose lines become messages."""

    def __init__(self, say: Callable[[Message], None]) -> None:
        super().__init__()
        self._say = say
        self._begun = ""

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, text: str, /) -> int:
        """Send the lines that are complete."""
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            self._say({"kind": "log", "text": line.rstrip()})
        return len(text)


@dataclass(slots=True, kw_only=True)
class JobState:
    """What is known of a running job.

    Attributes:
        job, session, steps: the latest message of that kind; None before the first.
        waiting: which process holds the device; empty while the job works.
        headlines: for each run so far, its label and the messages of its headline, one after each session.
        speeds: the latest messages of that kind of the current run, with ``at_s``: the time of its requests until then.
        runs: messages of complete runs; `saved` has the ids of those in the store.
        log: the latest lines.
    """

    id: str
    title: str
    verb: str
    status: str = "running"
    stage: str = ""
    waiting: str = ""
    job: Message | None = None
    session: Message | None = None
    steps: Message | None = None
    message: str = ""
    advice: str = ""
    headlines: deque[Message] = field(default_factory=lambda: deque(maxlen=MOST_HEADLINES))
    speeds: deque[Message] = field(default_factory=lambda: deque(maxlen=MOST_SPEEDS))
    runs: list[Message] = field(default_factory=list)
    saved: list[str] = field(default_factory=list)
    log: deque[str] = field(default_factory=lambda: deque(maxlen=MOST_LINES))
    _session_begin_s: float = 0.0

    @property
    def shown(self) -> str:
        """The status as pages show it: a process that waits for the device does not measure yet."""
        return "waiting" if self.status == "running" and self.waiting else self.status

    def apply(self, message: Message) -> None:
        """Update the state by a message."""
        match message["kind"]:
            case "stage":
                self.stage, self.job, self.session, self.steps = message["title"], None, None, None
            case "job":
                self.job, self.session, self.steps = message, None, None
                self.speeds.clear()
            case "session":
                self.session, self.steps = message, None
                self._session_begin_s = self.speeds[-1]["at_s"] if self.speeds else 0.0
            case "steps":
                self.steps = message
            case "speed" if self.job is not None:  # several models that take turns have no chart
                self.steps = {"done": message["done"], "total": None, "of": "requests"}
                self.speeds.append({**message, "at_s": self._session_begin_s + message["elapsed_s"]})
            case "headline":
                label = self.job["label"] if self.job else ""
                if message["sessions"] == 1 or not self.headlines or self.headlines[-1]["label"] != label:
                    self.headlines.append({"label": label, "points": []})
                self.headlines[-1]["points"].append(message)
            case "run":
                self.runs.append(message)
            case "saved":
                self.saved = [*dict.fromkeys([*self.saved, message["id"]])]
            case "end":
                self.status, self.message, self.advice = message["status"], message["message"], message["advice"]
            case "log":
                self.log.append(one_line(message["text"]))
        self.waiting = message["text"] if message["kind"] == "waiting" else self.waiting
        if message["kind"] in ("stage", "job", "session"):
            self.waiting = ""

    @property
    def where(self) -> str:
        """The progress in words."""
        words = []
        if self.job is not None:
            place = f"{self.job['index'] + 1} of {self.job['total']}: " if self.job["total"] > 1 else ""
            words.append(f"{place}{one_line(self.job['label'])}")
        if self.session is not None:
            what = "session" if self.job is not None else "round"
            words.append(f"{what} {self.session['index'] + 1} of {self.session['total']}")
        if self.steps is not None:
            total = "" if self.steps["total"] is None else f" of {self.steps['total']}"
            words.append(f"{self.steps['done']}{total} {self.steps['of']}")
        return ", ".join(words)

    @property
    def share(self) -> float | None:
        """Share of the current run that is done, from 0 to 1; None where it is not known."""
        steps: float = self.steps["done"] / self.steps["total"] if self.steps and self.steps["total"] else 0.0
        if self.session is None:
            return steps if self.steps and self.steps["total"] else None
        return float(min(1.0, (self.session["index"] + steps) / max(1, self.session["total"])))


def line_of(message: Message) -> bytes:
    """`message` as it goes through the pipe."""
    return json.dumps(message).encode() + b"\n"
