"""Leases of devices: rows in a store that several hosts share. Expiry is judged by the database's clock alone."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import text

from edgewise.store.connection import Database

_ACQUIRE = """
INSERT INTO leases (device, holder, fence, expires) VALUES (:device, :holder, 1, {now} + :seconds)
ON CONFLICT (device) DO UPDATE SET holder = excluded.holder, fence = leases.fence + 1, expires = excluded.expires
WHERE leases.expires <= {now} RETURNING fence
"""
_RENEW = "UPDATE leases SET expires = {now} + :seconds WHERE device = :device AND fence = :fence"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to measure on a device until it expires.

    Attributes:
        device: its URL.
        fence: grows by one with every new lease of the device: a smaller number is an older lease.
    """

    device: str
    fence: int


class Leases:
    """The leases in one store. Every method raises `StoreError` where the database fails."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._now = str(database.now)

    def acquire(self, device: str, holder: str, *, seconds: float) -> Lease | str:
        """Return a lease for `seconds`, or the holder of the one that is in force."""
        with self._database.writing() as connection:
            found = connection.execute(
                text(_ACQUIRE.format(now=self._now)), {"device": device, "holder": holder, "seconds": seconds}
            ).scalar()
            if found is not None:
                return Lease(device=device, fence=int(found))
            told = connection.execute(text("SELECT holder FROM leases WHERE device = :device"), {"device": device})
            return str(told.scalar())

    def renew(self, lease: Lease, *, seconds: float) -> bool:
        """Let a lease last `seconds` from now; False where another one was given since."""
        with self._database.writing() as connection:
            found = connection.execute(
                text(_RENEW.format(now=self._now)), {"device": lease.device, "fence": lease.fence, "seconds": seconds}
            )
            return bool(found.rowcount)

    def fence(self, device: str) -> int | None:
        """Return the fence of the latest lease of a device; None where it has had none."""
        with self._database.reading() as connection:
            return connection.execute(
                text("SELECT fence FROM leases WHERE device = :device"), {"device": device}
            ).scalar()

    def release(self, lease: Lease) -> None:
        """End a lease now; one that was lost is left alone."""
        self.renew(lease, seconds=0.0)
