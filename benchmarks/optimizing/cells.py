"""The pre-flight's predictions in a search's document, beside what the same files do in a race with their parents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from optimizing.entries import Entry
from optimizing.judging import race

from edgewise.record import RuntimeSpec

SAME = 0.05
ROUNDS = 5
"""Of fresh processes: the first number at which a comparison is judged."""


def find_cells(document: Mapping[str, Any], engine: str) -> Iterator[dict[str, Any]]:
    """One per pass: its first recipe that was predicted and made, else one that was predicted, else its first."""
    variants = {one["id"]: one for one in (document["baseline"], *document["variants"])}
    by_pass: dict[str, list[Mapping[str, Any]]] = {}
    for one in document["variants"]:
        predicted = one["predicted"]
        if predicted is not None and one["runtime"]["name"] == engine:
            # What was not made has no pass applied; its name begins with the pass's.
            name = one["passes"][-1]["name"] if one["path"] else one["id"].partition(" + ")[2] or one["id"]
            by_pass.setdefault(name.partition(" ")[0], []).append(one)
    for name, found in by_pass.items():
        one = min(found, key=lambda each: (each["predicted"]["speedup"] is None, not each["path"]))
        predicted = one["predicted"]
        yield {
            "pass": name, "variant": one["id"], "engine": engine, "path": one["path"],
            "parent": variants[one["parent"]]["path"], "predicted": predicted["speedup"], "low": predicted["low"],
            "high": predicted["high"], "because": predicted["because"], "measured": None,
            "why": "" if one["path"] else one["why"],
        }  # fmt: skip


def measure_cells(cells: Sequence[dict[str, Any]], *, budget_s: float) -> None:
    """Put ``measured`` into the cells of one engine, in place, or ``why`` there is nothing."""
    made = [cell for cell in cells if cell["path"] and cell["predicted"] is not None]
    if not made:
        return
    entries = {str(path): _entry(path, made[0]["engine"]) for cell in made for path in (cell["parent"], cell["path"])}
    couples = [(cell["parent"], cell["path"]) for cell in made]
    found = race(list(entries.values()), couples, budget_s=budget_s, rounds=ROUNDS)
    for cell, couple in zip(made, couples, strict=True):
        row = found.rows.get(couple)
        if row is None or not row.ratio:
            cell["why"] = "" if row is None else row.because
            cell["why"] = cell["why"] or found.failures.get(cell["path"], "the same file as its parent")
            continue
        cell["measured"] = 1.0 / row.ratio
        cell["measured_low"] = None if not row.high else 1.0 / row.high
        cell["measured_high"] = None if not row.low else 1.0 / row.low


def judge_sign(cell: Mapping[str, Any]) -> str:
    """``right``, ``WRONG``, or ``none`` where there is nothing to hold against each other.

    Measured within 5 % of no change: right where the predicted interval comes as near. Else right where prediction and
    measurement are on the same side of no change.
    """
    measured, predicted = cell["measured"], cell["predicted"]
    if measured is None or predicted is None:
        return "none"
    if 1 / (1 + SAME) <= measured <= 1 + SAME:
        low, high = cell["low"] or predicted, cell["high"] or predicted
        return "right" if low <= 1 + SAME and high >= 1 / (1 + SAME) else "WRONG"
    return "right" if (predicted > 1) == (measured > 1) else "WRONG"


def _entry(path: str, engine: str) -> Entry:
    return Entry(name=path, title=path, kind="tool", key=path, engine=engine, path=Path(path),
                 spec=RuntimeSpec(name=engine, threads=1))  # fmt: skip
