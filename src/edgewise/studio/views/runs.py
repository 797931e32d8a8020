"""All stored runs: filters, pages, columns; and what can be done with those that are ticked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import FormData, QueryParams
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from edgewise.errors import BadInput, StoreError
from edgewise.formatting import interval_text, value_text
from edgewise.record.run import half_width
from edgewise.report.runs.cells import label_of
from edgewise.store import Store
from edgewise.store.filters import RunFilter
from edgewise.store.tables import RunRow
from edgewise.studio.pages import page
from edgewise.studio.studio import studio_of
from edgewise.text import plural
from edgewise.units import significant

PAGE = 50
"""Rows of a page."""
MOST_CHOICES = 12
"""Values of a filter that can be picked; others are typed into the address, or found by the model's name."""
STATUSES = ("done", "failed", "cancelled")
FILTERS = ("model", "runtime", "device", "tag", "status", "since", "until")
GRADE_TONES = {"A": "good", "B": "fair", "C": "poor", "D": "bad"}


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its heading, its text for a row, and the key that its rows are sorted by (None: no value, last)."""

    title: str
    text: Callable[[RunRow], str]
    key: Callable[[RunRow], Any] | None = None
    numeric: bool = False


def runs(request: Request) -> Response:
    """Return a page of the runs that match the filters in the query."""
    store, query = studio_of(request).store, request.query_params
    wanted = filter_of(query)
    sort = query.get("sort", "")
    if sort and sort.removeprefix("-") not in COLUMNS:
        raise BadInput(f"there is no column {sort!r}", advice=f"sort by one of: {', '.join(COLUMNS)}")
    count, facets = store.count_and_facets(**wanted, most=MOST_CHOICES)
    bounded = any(one.more for choices in facets.values() for one in choices)
    wanted["limit"] = PAGE + 1
    rows = store.list(**wanted)
    more = len(rows) > PAGE
    # Going back, the row beyond the page is the newest.
    shown = rows[1:] if more and "after" in wanted else rows[:PAGE]
    newer = bool(shown) and (more if "after" in wanted else "before" in wanted)
    older = bool(shown) and ("after" in wanted or more)
    return page(
        request,
        "runs.html.jinja",
        title="Runs",
        styles=("history.css",),
        scripts=("history.js",),
        rows=sorted_rows(store.named(shown), sort),
        columns=COLUMNS,
        shown=[name for name in query.getlist("column") if name in COLUMNS]
        or [name for name in USUAL if any(map(COLUMNS[name].text, shown))],
        words={name: query.get(name, "") for name in (*FILTERS, "sort")},
        kept=partial(_kept, query),
        link=partial(link, request),
        cleared=dict.fromkeys(FILTERS, ""),
        filtered=any(query.get(name) for name in FILTERS),
        facets=facets,
        bounded=bounded,
        count=f"{count} run{'' if (count.value, count.more) == (1, False) else 's'}",
        newer=link(request, after=shown[0].id) if newer else None,
        older=link(request, before=shown[-1].id) if older else None,
        address=urlencode(_kept(query)),
        read_only=store.read_only,
        tones=GRADE_TONES,
    )


def filter_of(query: Mapping[str, str]) -> RunFilter:
    """Return the filter in a query; empty words set none. Raises `BadInput` for a date or status that is none."""
    names = ("model", "runtime", "device", "tag", "status", "before", "after")
    found: RunFilter = {name: query[name] for name in names if query.get(name)}  # type: ignore[assignment]
    if found.get("status", "done") not in STATUSES:
        raise BadInput(f"{found['status']!r} is not a status", advice=f"one of: {', '.join(STATUSES)}")
    if since := query.get("since"):
        found["since"] = _day(since)
    if until := query.get("until"):
        found["until"] = _day(until, end=True)
    return found


def link(request: Request, *, same_page: bool = False, **changes: str) -> str:
    """Return the address of this page with other words in its query; an empty one takes a word out.

    Args:
        same_page: whether it stays on its page of the list; otherwise it is the first.
    """
    kept = _kept(request.query_params, *changes, *(() if same_page else ("before", "after")))
    return f"{request.url.path}?{urlencode([*kept, *((name, word) for name, word in changes.items() if word)])}"


def _kept(query: QueryParams, *without: str) -> list[tuple[str, str]]:
    """Return the words of a query, but for those of the names `without` and those that are empty."""
    return [(name, word) for name, word in query.multi_items() if word and name not in without]


def sorted_rows(rows: Sequence[RunRow], sort: str) -> Sequence[RunRow]:
    """`rows` by the column `sort`, downwards with ``-`` before its name; what has no value comes last."""
    column = COLUMNS.get(sort.removeprefix("-"))
    if column is None:
        return rows
    key: Callable[[RunRow], Any] = column.key or (lambda row: column.text(row).casefold() or None)
    known = [row for row in rows if key(row) is not None]
    known.sort(key=key, reverse=sort.startswith("-"))
    return [*known, *(row for row in rows if key(row) is None)]


def result_of(row: RunRow) -> str:
    """Return the headline as a person reads it, or why there is none."""
    if row.status != "done":
        return COLUMNS["status"].text(row)
    if row.value is None or row.unit is None or row.metric is None:
        return "absent"
    return value_text(row.metric, row.unit, row.value)


def interval_of(row: RunRow) -> str:
    """Return the interval of a run's headline value as text; empty without one and for a run that is not finished."""
    if row.status != "done" or not (row.metric and row.unit):
        return ""
    return interval_text(row.metric, row.unit, row.value, row.low, row.high)


def _spread_of(row: RunRow) -> float | None:
    return half_width(row.value, row.low, row.high)


def _spread_text(row: RunRow) -> str:
    spread = _spread_of(row)
    return "" if spread is None else f"{significant(spread * 100, 2)} %"


COLUMNS: Mapping[str, Column] = {
    "made": Column("Made (UTC)", lambda row: row.created_at[:16].replace("T", " "), lambda row: row.created_at),
    "model": Column("Model", lambda row: row.model),
    "runtime": Column("Runtime", lambda row: "/".join(dict.fromkeys(filter(None, (row.runtime, row.provider))))),
    "device": Column("Device", lambda row: row.device),
    "result": Column(
        "Result", result_of, lambda row: None if row.value is None else (row.metric, row.value), numeric=True
    ),
    "interval": Column("95 % interval", interval_of),
    "spread": Column("± relative", _spread_text, _spread_of, numeric=True),
    "basis": Column("Basis", lambda row: row.basis or ""),
    "trust": Column("Trust", lambda row: row.grade or ""),
    "tags": Column("Tags", lambda row: ", ".join(row.tags)),
    "status": Column("Status", lambda row: row.status + (f": {row.cause}" if row.cause else "")),
    "metric": Column("Metric", lambda row: label_of(row.metric) if row.metric else ""),
    "machine": Column("Machine", lambda row: row.machine or ""),
    "scenario": Column("Scenario", lambda row: row.scenario),
    "threads": Column("Threads", lambda row: str(row.threads or ""), lambda row: row.threads, numeric=True),
    "batch": Column("Batch", lambda row: str(row.batch), lambda row: row.batch, numeric=True),
    "shapes": Column("Shapes", lambda row: row.shapes or ""),
    "precision": Column("Precision", lambda row: row.precision or ""),
    "version": Column("Version", lambda row: row.version or ""),
    "format": Column("Format", lambda row: row.format),
    "sha256": Column("SHA-256", lambda row: row.sha256[:16]),
    "id": Column("Id", lambda row: row.id),
}
USUAL = ("model", "runtime", "result", "trust", "made", "basis", "threads", "shapes", "device", "tags")
"""A narrow screen shows the first ones."""


def _day(text: str, *, end: bool = False) -> datetime:
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC) + timedelta(days=int(end))
    except (ValueError, OverflowError):
        raise BadInput(f"{text!r} is not a date", advice="write it like 2026-01-31") from None


def remove(request: Request, form: FormData) -> Response:
    """Remove the ticked runs, once that is confirmed; before, show which they are."""
    store = studio_of(request).store
    ids = store.find(ticked(form))
    if form.get("sure") != "yes":
        return _ask(request, form, f"Remove {plural(len(ids), 'run')}?")
    store.remove(ids)
    return RedirectResponse(_list_address(form), 303)


def tag(request: Request, form: FormData) -> Response:
    """Name the one ticked run, once the name is there."""
    ids, name = ticked(form), str(form.get("name", "")).strip()
    if len(ids) > 1:
        raise BadInput(f"a tag names one run, and {len(ids)} are ticked", advice="tick one run")
    if not name:
        return _ask(request, form, "Tag this run")
    studio_of(request).store.tag(name, ids[0], move=form.get("move") == "yes")
    return RedirectResponse(_list_address(form), 303)


def _ask(request: Request, form: FormData, title: str) -> Response:
    store = studio_of(request).store
    rows = [(one, _title_of(store, one)) for one in store.find(ticked(form))]
    return question(request, "run", rows, title=title, back=str(form.get("back", "")))


def question(request: Request, kind: str, rows: Sequence[tuple[str, str]], *, title: str, back: str) -> Response:
    """Return the page that asks for a name or confirms a removal; `rows` has id and title of each run or job."""
    return page(request, "ticked.html.jinja", title=title, styles=("history.css",), kind=kind, rows=rows, back=back)


def ticked(words: FormData | QueryParams, kind: str = "run") -> Sequence[str]:
    """Return the runs, or jobs, that a form or a query names, each once. Raises `BadInput` where it names none."""
    found = list(dict.fromkeys(str(word) for word in words.getlist(kind) if word))
    if not found:
        raise BadInput(f"no {kind} is ticked", advice=f"go back and tick the {kind}s that you mean")
    return found


def _list_address(form: FormData) -> str:
    """Return the list with the filters that it had."""
    kept = parse_qsl(str(form.get("back", "")))
    return "/runs" + (f"?{urlencode(kept)}" if kept else "")


def _title_of(store: Store, one: str) -> str:
    try:
        run = store.get(one)
    except StoreError as error:
        return error.message
    return f"{run.job.label}, {run.created_at[:16].replace('T', ' ')} UTC"
