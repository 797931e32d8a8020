"""What turns of earlier runs in the store proved, where those of a benchmark leave it open or find otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from edgewise.comparing.judging import judge
from edgewise.errors import StoreError
from edgewise.formatting import times_text
from edgewise.metrics import METRICS
from edgewise.record import InTurns, Run
from edgewise.report.bench.answer import chosen_of
from edgewise.report.bench.ranking import sweeps
from edgewise.report.runs.conditions import labels_by_id
from edgewise.store.codec import time_before
from edgewise.store.series import series_of

if TYPE_CHECKING:
    from edgewise.store import Store
    from edgewise.store.tables import RunRow
    from edgewise.verbs.context import Context

MOST_READ = 20
"""The newest runs like the one that is advised are read for their turns."""
MOST_TOLD = 3


def find_earlier_turns(runs: Sequence[Run], context: Context) -> list[str]:
    """Return what earlier turns of the advised run, else the first, with others of `runs` proved that these don't.

    A line each, `MOST_TOLD` at most; none without a store. The earlier runs are of the same files, engine versions,
    settings and machine.
    """
    try:
        with context.reading() as store:
            lines = [] if store is None else [line for sweep in sweeps(runs) for line in _lines(sweep, store)]
    except StoreError:  # this command's own numbers stand all the same
        return []
    return lines[:MOST_TOLD]


def _lines(sweep: Sequence[Run], store: Store) -> Iterator[str]:
    done, labels = [run for run in sweep if run.status == "done"], labels_by_id(sweep)
    if len(done) < 2:
        return
    chosen = chosen_of(sweep) or done[0]
    others = [run for run in done if run is not chosen]
    own = {run.id for run in sweep}
    found = _turns_before(chosen, own, store)
    for other in others if found else ():
        alike = {row.id for row in _rows_like(other, store)} - own
        earlier = next(((when, turns) for when, turns in found if turns.against in alike), None)
        if earlier is not None and (now := judge(other, chosen).verdict) != earlier[1].verdict:
            when, turns = earlier
            says = "leaves that open" if now == "inconclusive" else "finds otherwise"
            yield (
                f"{time_before(when, chosen.created_at).capitalize()}, in turns: {labels[chosen.id]} was "
                f"{_factor(turns, chosen)} {turns.verdict} than {labels[other.id]}; this benchmark {says}"
            )


def _turns_before(run: Run, own: set[str], store: Store) -> list[tuple[str, InTurns]]:
    """Return when runs like `run` were measured, and their turns that proved an order, the newest first."""
    rows = [row for row in _rows_like(run, store) if row.id not in own][:MOST_READ]
    before = (store.get(row.id) for row in rows)
    return [(each.created_at, turns) for each in before for turns in each.in_turns if turns.verdict in _ORDERS]


_ORDERS = ("faster", "slower")


def _rows_like(run: Run, store: Store) -> list[RunRow]:
    """Return the stored runs of the same file, engine version, settings and machine, `run` among them."""
    rows = store.list(model=run.job.model.sha256, status="done", device=run.job.target.device)
    same = next((row for row in rows if row.id == run.id), None)
    return [] if same is None else [row for row in rows if _key(row) == _key(same)]


def _key(row: RunRow) -> tuple[object, ...]:
    return row.sha256, row.version, *series_of(row)


def _factor(turns: InTurns, run: Run) -> str:
    """``"1.12× [1.08, 1.16]"``: how many times as fast or slow `run` was, as its verdict says."""
    is_rate = METRICS[run.headline].better == "higher"
    if (turns.verdict == "faster") == is_rate:
        return times_text(turns.ratio, turns.low, turns.high)
    low, high = (None if end is None else 1.0 / end for end in (turns.high, turns.low))
    return times_text(1.0 / turns.ratio, low, high)
