"""Holds a lease of a device in a store that is a server's, so that hosts that share the store take turns."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from edgewise.device.devices import find_device
from edgewise.device.holder import holder
from edgewise.device.lease import wait_for_lock
from edgewise.errors import StoreError
from edgewise.progress import LogLine, emit
from edgewise.store.location import find_location

if TYPE_CHECKING:
    from edgewise.store import Store
    from edgewise.store.leases import Lease, Leases

LEASE_S = 120.0
RENEW_S = 30.0


@contextlib.contextmanager
def leased(store: str | Store | None, device: str) -> Iterator[None]:
    """Hold the lease of `device` inside, renewed by a thread; wait for the holder of another one.

    A device that only this machine has needs none, and neither does a store in a file, which is one host's. A store
    that fails costs no measurement: the lock of the device's machine is held all the same.
    """
    url = store if isinstance(store, str) or store is None else ""
    if (not url and store is not None) or find_location(url).path is not None or find_device(device).is_of_host:
        yield
        return
    from edgewise.store import open_store

    with contextlib.ExitStack() as stack:
        try:
            leases = stack.enter_context(open_store(url)).leases
            lease = _acquire(leases, device)
        except StoreError as error:
            emit(LogLine(text=f"no lease of {device}: {error.message}"))
            yield
            return
        ended = threading.Event()
        lost: list[str] = []
        thread = threading.Thread(target=_keep, args=(leases, lease, ended, lost), daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            with contextlib.suppress(StoreError):
                leases.release(lease)
            if lost:
                emit(LogLine(text=f"the lease of {device} was lost while it was measured: {lost[0]}"))


def _acquire(leases: Leases, device: str) -> Lease:
    """Return the lease, by the URL of the device, which hosts may give different names.

    Raises `StoreError`, `Cancelled`.
    """
    url, own, got = find_device(device).url, holder(), []

    def attempt() -> str | None:
        found = leases.acquire(url, own, seconds=LEASE_S)
        if isinstance(found, str):
            return found
        got.append(found)
        return None

    wait_for_lock(device, attempt)
    return got[0]


def _keep(leases: Leases, lease: Lease, ended: threading.Event, lost: list[str]) -> None:
    """Renew a lease until `ended` is set; a reason why it was lost goes into `lost`."""
    while not ended.wait(RENEW_S):
        try:
            if not leases.renew(lease, seconds=LEASE_S):
                lost.append("another host has it")
                return
        except StoreError as error:
            lost[:] = [error.message]
