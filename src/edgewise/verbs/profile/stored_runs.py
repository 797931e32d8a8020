"""What stored runs of a profiled model measured already of what the profile would advise to try."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from edgewise.errors import StoreError
from edgewise.formatting import amount_text, factor_text
from edgewise.record import Run
from edgewise.record.facts import threads_of
from edgewise.store.codec import time_before
from edgewise.store.preference import preference
from edgewise.text import one_line

if TYPE_CHECKING:
    from edgewise.store import Store
    from edgewise.store.tables import RunRow
    from edgewise.verbs.context import Context

MOST_READ = 30
"""The newest runs of other files that are read for whether optimize made them of this one."""
_SAME = ("device", "machine", "scenario", "batch", "shapes", "metric", "basis")
"""What runs have in common whose values compare."""


def find_measured(runs: Sequence[Run], context: Context) -> dict[str, dict[str, str]]:
    """Return by run, what was measured of ``threads`` and ``int8`` before, a line each; nothing without a store."""
    try:
        with context.reading() as store:
            profiled = [] if store is None else [run for run in runs if run.profile is not None]
            return {run.id: measured_before(run, store) for run in profiled if store is not None}
    except StoreError:  # the advice is general then
        return {}


def measured_before(run: Run, store: Store) -> dict[str, str]:
    """Return the best runs of the same work with more threads, and of the variants that optimize made of the model."""
    rows = store.list(model=run.job.model.sha256, status="done")
    own = next((row for row in rows if row.id == run.id), None)
    if own is None or own.value is None or own.metric != "latency":
        return {}
    more = [row for row in rows if _compares(own, row) and (row.threads or 0) > (threads_of(run) or 0)]
    more = [
        row for row in more if (row.runtime, row.provider, row.precision) == (own.runtime, own.provider, own.precision)
    ]
    others = (row for row in store.rows(status="done", device=own.device, metric="latency", limit=MOST_READ))
    made = [row for row in others if _compares(own, row) and row.sha256 != own.sha256 and _is_variant(row, own, store)]
    found = {"threads": _best(more), "int8": _best(made)}
    return {kind: _words(kind, row, own) for kind, row in found.items() if row is not None}


def _compares(own: RunRow, row: RunRow) -> bool:
    """Whether a run did the same work as `own`, and its value can be told: never one of grade D."""
    is_told = row.id != own.id and row.grade not in (None, "D") and bool(row.value)
    return is_told and all(getattr(row, name) == getattr(own, name) for name in _SAME)


def _is_variant(row: RunRow, own: RunRow, store: Store) -> bool:
    """Whether optimize made the model of a run of that of `own`, accepted it, and it computes in int8."""
    for each in store.get(row.id).artifacts:
        if each.get("kind") == "variant" and each.get("parent") == own.sha256 and each.get("accepted"):
            return "int8" in str(each.get("passes", "")) or "int8" in (row.precision or "")
    return False


def _best(rows: Iterable[RunRow]) -> RunRow | None:
    """Return the fastest of the runs that stand for their settings."""
    kept: Mapping[object, RunRow] = {
        (row.sha256, row.threads, row.runtime, row.provider): row
        for row in sorted(rows, key=lambda row: preference(row, row.grade), reverse=True)
    }
    return min(kept.values(), key=lambda row: row.value or 0.0, default=None)


def _words(kind: str, row: RunRow, own: RunRow) -> str:
    """``"2 threads: 1.4× faster (190 µs against 266 µs here), run 0195f0c0-…, grade B, measured 3 days ago"``."""
    ends = (own.low, own.high, row.low, row.high)
    slow, fast = (own, row) if (own.value or 0.0) >= (row.value or 0.0) else (row, own)
    times = factor_text((slow.value or 0.0) / (fast.value or 1.0))
    is_clear = None not in ends and (slow.low or 0.0) > (fast.high or 0.0)
    verdict = f"{times} {'faster' if slow is own else 'slower'}" if is_clear else "no clear difference"
    values = [amount_text("s", each.value or 0.0, each.low, each.high) for each in (row, own)]
    name = f"{row.threads} threads" if kind == "threads" else f"{one_line(row.model)} on {row.runtime}/{row.provider}"
    when = f"measured {time_before(row.created_at, own.created_at)}"
    return f"{name}: {verdict} ({values[0]} against {values[1]} here), run {row.id}, grade {row.grade}, {when}"
