"""How the devices of a lab were before and after blocks of jobs, and whether they are fit; bounded."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import delete, insert, select, text

from edgewise.record.reference import Reading
from edgewise.store.connection import Database
from edgewise.store.lab_tables import gauges

Moment = Literal["before", "after"]
Verdict = Literal["fit", "suspect", "not judged"]
MOST_KEPT = 400
"""Gauges of a device and a moment, the newest."""
_SENSORS = ("load", "temperature", "clock")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """How a device was at a moment; None is what can't be read there.

    Attributes:
        load: busy share of its cores, 0…1.
        temperature: of its processor, K.
        clock: Hz.
        readings: of the reference kernels; their times count from that of the gauge.
    """

    load: float | None = None
    temperature: float | None = None
    clock: float | None = None
    readings: tuple[Reading, ...] = ()

    @classmethod
    def of(cls, told: Mapping[str, Any], *, at: float | None = None) -> Gauge:
        """Return a gauge from what `edgewise.run.facts_worker.gauge` told.

        Args:
            at: when that was, s since 1970; None leaves the times of the readings as the device has them.

        Raises `KeyError`, `TypeError`.
        """
        found = told.get("readings", ())
        shift = 0.0 if at is None or not found else at - found[0]["at"]
        return cls(
            **{name: None if told.get(name) is None else float(told[name]) for name in _SENSORS},
            readings=tuple(
                Reading(version=told["version"], at=one["at"] + shift, compute=one["compute_s"], copy=one["copy_s"])
                for one in found
            ),
        )


class LabGauges:
    """The gauges of a lab. A device is suspect as long as it has one that is."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def earlier(self, identity: str, moment: Moment) -> Sequence[Gauge]:
        """Return what a device was like at this moment of earlier blocks, the newest first; without those that
        are suspect.
        """
        query = select(gauges.c.document, gauges.c.at).where(gauges.c.identity == identity, gauges.c.moment == moment)
        query = query.where(gauges.c.verdict != "suspect").order_by(gauges.c.id.desc()).limit(MOST_KEPT)
        with self._database.reading() as connection:
            return [Gauge.of(json.loads(row.document), at=row.at) for row in connection.execute(query)]

    def add(self, identity: str, moment: Moment, told: Mapping[str, Any], *, verdict: Verdict, why: str) -> None:
        """Keep what `edgewise.run.facts_worker.gauge` told, and what follows from it; the oldest go."""
        mine = (gauges.c.identity == identity) & (gauges.c.moment == moment)
        row = {"identity": identity, "moment": moment, "at": self._database.now, "verdict": verdict, "why": why}
        oldest = select(gauges.c.id).where(mine).order_by(gauges.c.id.desc()).offset(MOST_KEPT).scalar_subquery()
        with self._database.writing() as connection:
            connection.execute(insert(gauges).values(**row, document=json.dumps(told)))
            connection.execute(delete(gauges).where(gauges.c.id.in_(oldest)))

    def verdicts(self) -> dict[str, tuple[Verdict, str]]:
        """Identity → the verdict on the device, and why: the first that is suspect, otherwise the newest."""
        query = """
        SELECT DISTINCT ON (identity) identity, verdict, why FROM lab_gauges
        ORDER BY identity, verdict <> 'suspect', id DESC
        """
        with self._database.reading() as connection:
            return {row.identity: (row.verdict, row.why) for row in connection.execute(text(query))}

    def clear(self, identities: Collection[str], *, forget: bool) -> int:
        """Let suspect devices work again; how many gauges that forgets.

        Args:
            forget: all of their gauges, so that what is usual is learnt anew.
        """
        mine = gauges.c.identity.in_(identities)
        with self._database.writing() as connection:
            doubted = mine if forget else mine & (gauges.c.verdict == "suspect")
            return connection.execute(delete(gauges).where(doubted)).rowcount
