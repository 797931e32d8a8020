"""One measurement at a time on a machine: a lock that every measuring command holds while it runs.

The lock is an ``flock`` on a file of the machine that is measured: the kernel releases it however its holder ends. On
another machine the agent there holds it: two hosts, and a local user, exclude one another as two local commands do.
"""

from __future__ import annotations

import contextlib
import os
import re
import warnings
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path

from edgewise.cancellation import sleep
from edgewise.clock import now
from edgewise.device.agent import lock_file, try_lock, why_no_lock
from edgewise.device.devices import LOCAL
from edgewise.device.holder import holder
from edgewise.device.target import LocalTarget, RemoteTarget, find_target, report_no_lock
from edgewise.device.transport import Attached, SharesMachine
from edgewise.errors import BadInput
from edgewise.progress import LogLine, emit, is_watched
from edgewise.text import one_line

RETRY_S = 1.0
INHERITED = "EDGEWISE_MEASURING"
"""Set while this machine's lock is held: a command that `edgewise exec` starts does not wait for its parent."""

_inherited = INHERITED in os.environ
_waits: ContextVar[list[float] | None] = ContextVar("edgewise_waits", default=None)
_held: ContextVar[frozenset[str]] = ContextVar("edgewise_held_devices", default=frozenset())


@contextlib.contextmanager
def measuring_on(device: str, *, needed: bool = True) -> Iterator[None]:
    """Hold the lock of a device; wait until it is free, and report the holder as progress.

    Args:
        device: its name or URL.
        needed: whether something is measured at all; otherwise only the name is checked.

    Raises:
        Unavailable: the device is unknown or can't be reached.
        BadInput: its registration, or the folder of locks that the user named, can't be used.
        Cancelled: the wait was stopped.
    """
    target = find_target(device)
    is_here = _is_this_machine(target)
    key = LOCAL if is_here else device
    if not needed or key in _held.get() or (is_here and _inherited):
        yield
        return
    before = _held.set(_held.get() | {key})
    try:
        with _lock_of(target):
            yield
    finally:
        _held.reset(before)


def _is_this_machine(target: LocalTarget | RemoteTarget) -> bool:
    """Whether processes of the target run on this machine, in containers or not."""
    transport = target.transport
    if target.is_here:
        return not isinstance(transport, Attached)
    return isinstance(transport, SharesMachine) and transport.shares_this_machine


def _lock_of(target: LocalTarget | RemoteTarget) -> contextlib.AbstractContextManager[None]:
    if _is_this_machine(target):
        return _held_here(LOCAL, lock_file())
    if not isinstance(target.transport, Attached):
        assert not isinstance(target, LocalTarget)
        return _held_there(target)
    # Whoever measures a device at this machine without an agent does so from here.
    identity = re.sub(r"\W", "_", target.transport.serial)
    return _held_here(target.name, lock_file().with_name(f"edgewise-measuring-{identity}.lock"))


@contextlib.contextmanager
def _held_here(name: str, file: Path) -> Iterator[None]:
    descriptor, turn = -1, None

    def attempt() -> str | None:
        nonlocal descriptor, turn
        if turn is None:  # only who is next in the queue tries: a loop of commands can't starve one that waits
            ahead = try_lock(file.with_suffix(".next"), holder())
            if isinstance(ahead, str):
                with contextlib.suppress(OSError):
                    return file.read_text(encoding="utf-8", errors="replace") or ahead
                return ahead
            turn = ahead
        found = try_lock(file, holder())
        if isinstance(found, str):
            return found
        descriptor = found
        return None

    try:
        wait_for_lock(name, attempt)
    finally:
        if turn is not None and turn >= 0:
            os.close(turn)
    if descriptor < 0:
        why = why_no_lock(file)
        if os.environ.get("EDGEWISE_LOCKS") and not file.parent.is_dir():
            raise BadInput(f"EDGEWISE_LOCKS: {why}", advice="name a folder in which you can write")
        report_no_lock(name, why)
    if name == LOCAL:
        os.environ[INHERITED] = LOCAL
    try:
        yield
    finally:
        if name == LOCAL:
            os.environ.pop(INHERITED, None)
        if descriptor >= 0:
            os.ftruncate(descriptor, 0)  # a waiting command must not name a holder that has released it
            os.close(descriptor)


@contextlib.contextmanager
def _held_there(target: RemoteTarget) -> Iterator[None]:
    try:
        target.hold(holder(), wait=lambda attempt: wait_for_lock(target.name, attempt))
    except OSError as error:
        raise target.unavailable(error) from error
    try:
        yield
    finally:
        target.release()


def wait_for_lock(device: str, attempt: Callable[[], str | None]) -> None:
    """Call `attempt` until it returns None; every new holder that it returns is reported. Raises `Cancelled`.

    Without a receiver of progress, as in a plain Python script, a `RuntimeWarning` names the first holder.
    """
    told, begun = None, now()
    try:
        while (found := attempt()) is not None:
            if found != told:
                words = f"waiting for {device}: in use by {one_line(found)[:300] or 'another process'}"
                emit(LogLine(text=words))
                if told is None and not is_watched():
                    warnings.warn(words, RuntimeWarning, stacklevel=2)
                told = found
            sleep(RETRY_S)
    finally:
        if told is not None and (waits := _waits.get()) is not None:
            waits.append(now() - begun)


@contextlib.contextmanager
def noting_waits() -> Iterator[list[float]]:
    """Collect how long each wait for a device took inside, s."""
    waits: list[float] = []
    before = _waits.set(waits)
    try:
        yield waits
    finally:
        _waits.reset(before)
