"""Rehearsals: a pass applied to an excerpt of a network, and both timed in an engine. Measured once and kept.

The machine is asked in processes of their own (`edgewise.optimizing.kernel_worker`). What they measured is kept per
processor, engine, pass, versions and excerpt in the user's cache folder, so that it is measured once.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from edgewise.folders import job_folder

_SCHEMA = 1
_MOST_KEPT = 2000
_WORKER = (sys.executable, "-P", "-m", "edgewise.optimizing.kernel_worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What an engine spends on one type of step. `product`: it computes convolutions or matrix products."""

    op: str
    product: bool
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """What came of trying a pass on an excerpt.

    Attributes:
        original, changed: seconds of an inference per turn, in pairs; empty where it did not come to that.
        before, after: where the time goes, as the engine's profiler tells; empty where it does not.
        unchanged: the pass found nothing to do.
        failed: why there are no times; empty where there are some.
        lasting: trying again would give the same: it did not merely crash or lack memory.
        precisions: type of arithmetic → how many convolutions and products of the result compute in it.
    """

    original: tuple[float, ...] = ()
    changed: tuple[float, ...] = ()
    before: tuple[Step, ...] = ()
    after: tuple[Step, ...] = ()
    unchanged: bool = False
    failed: str = ""
    lasting: bool = True
    precisions: Mapping[str, int] = field(default_factory=dict)


def ask(request: Mapping[str, Any], *, timeout: float) -> dict[str, Any]:
    """What a fresh worker answers; ``{"died": why}`` where it crashed, ``{"late": True}`` after `timeout` seconds."""
    threads = str(request["threads"])
    environment = os.environ | {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
    environment |= {"TMPDIR": request["folder"]} if "folder" in request else {}
    try:
        process = subprocess.Popen(
            _WORKER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment,
            start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        return {"died": str(error)}
    try:
        data, _ = process.communicate(json.dumps(request).encode(), timeout=timeout)
        answer = json.loads(data)
    except subprocess.TimeoutExpired:
        return {"late": True}
    except ValueError:
        return {"died": _say_end(process.returncode)}
    finally:
        _end(process)
    return answer if isinstance(answer, dict) else {"died": "it answered nonsense"}


def _end(process: subprocess.Popen[bytes]) -> None:
    """Leave nothing behind of the process and of those it started."""
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
    process.wait()


def _say_end(code: int | None) -> str:
    if code is not None and code < 0:
        with suppress(ValueError):
            return f"it was ended by {signal.Signals(-code).name}"
    return f"it ended with code {code} and no answer"


def rehearse(change: Mapping[str, Any], race: Mapping[str, Any], *, until: float) -> Rehearsal | None:
    """Apply the pass and time what it made; None where the time ran out (`until` on the monotonic clock)."""
    with job_folder() as folder:
        room = {"folder": str(folder)}
        made = ask({**change, **room, "kind": "change"}, timeout=max(0.1, until - time.monotonic()))
        if made.get("late"):
            return None
        if made.get("unchanged"):
            return Rehearsal(unchanged=True)
        if "changed" not in made:
            return Rehearsal(failed=_say_failure(made), lasting="cannot" in made)
        files = {"original": made["original"], "changed": made["changed"]}
        times = ask({**race, **files, **room, "kind": "race"}, timeout=max(0.1, until - time.monotonic()))
    if times.get("late"):
        return None
    if not isinstance(times.get("original"), list):
        return Rehearsal(failed=_say_refusal(times), lasting="refused" in times)
    before, after = times["profiles"]
    return _read({**asdict(Rehearsal(precisions=made["precisions"])), **times, "before": before, "after": after})


def _say_failure(answer: Mapping[str, Any]) -> str:
    if "cannot" in answer:
        return f"it can't be applied: {answer['cannot']}"
    return f"it failed in a rehearsal: {answer.get('error') or answer.get('died')}"


def _say_refusal(answer: Mapping[str, Any]) -> str:
    if "refused" in answer:
        which = "the model as it is" if answer["refused"] == "original" else "what the pass makes"
        return f"the engine refuses {which}: {answer['message']}"
    return f"the engine failed in a rehearsal: {answer.get('error') or answer.get('died')}"


def _read(document: Mapping[str, Any]) -> Rehearsal:
    """A rehearsal from its JSON shape. Raises KeyError, TypeError or ValueError where it has another."""
    return Rehearsal(
        original=tuple(map(float, document["original"])),
        changed=tuple(map(float, document["changed"])),
        before=tuple(Step(**step) for step in document["before"]),
        after=tuple(Step(**step) for step in document["after"]),
        unchanged=bool(document["unchanged"]),
        failed=str(document["failed"]),
        lasting=bool(document["lasting"]),
        precisions={str(word): int(number) for word, number in document["precisions"].items()},
    )


def key_of(parts: Sequence[Any]) -> str:
    """The name under which a rehearsal is kept, of everything that it depends on."""
    return sha256(json.dumps([_SCHEMA, *parts], sort_keys=True, default=str).encode()).hexdigest()


class Cache:
    """Rehearsals in a file that several processes may use at once.

    Args:
        file: None is the user's cache folder.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file

    @property
    def file(self) -> Path:
        """Where it is."""
        if self._file is None:
            from platformdirs import user_cache_path

            self._file = user_cache_path("edgewise") / "kernels.json"
        return self._file

    def get(self, key: str) -> Rehearsal | None:
        """What is kept under `key`; None where nothing is, or it is damaged."""
        try:
            found = _read(self._entries()[key])
        except (KeyError, TypeError, ValueError, AttributeError):
            return None
        sound = len(found.original) == len(found.changed) and min((*found.original, *found.changed, 1.0)) > 0
        return found if sound else None

    def put(self, key: str, rehearsal: Rehearsal) -> None:
        """Keep `rehearsal` beside what others keep; a cache that can't be written costs only time."""
        with suppress(OSError):
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with _locked(self.file.with_suffix(".lock")):
                entries = self._entries()
                entries.pop(key, None)
                entries[key] = asdict(rehearsal)
                kept = dict(list(entries.items())[-_MOST_KEPT:])
                with tempfile.NamedTemporaryFile("w", dir=self.file.parent, delete=False) as stream:
                    json.dump(kept, stream)
                Path(stream.name).replace(self.file)

    def _entries(self) -> dict[str, Any]:
        try:
            document = json.loads(self.file.read_text())
        except (OSError, ValueError):
            return {}
        return document if isinstance(document, dict) else {}


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """One writer at a time, where the system has locks; the file is replaced as a whole in any case."""
    with file.open("a") as stream:
        with suppress(ImportError, OSError):
            import fcntl

            fcntl.flock(stream, fcntl.LOCK_EX)
        yield
