"""What a sweep gives: a table of models and places, and what failed."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from edgewise.device.devices import LOCAL
from edgewise.folders import MODELS
from edgewise.formatting import UNKNOWN, is_unknown, quantity, scale_of, times_text
from edgewise.grouping import by_key
from edgewise.metrics import METRICS
from edgewise.record import InTurns, Run
from edgewise.record.caution import loads_of
from edgewise.record.reference import machine_key
from edgewise.report.bench.page import environment_documents
from edgewise.report.bench.ranking import UNRELIABLE, words_of_open
from edgewise.report.bench.undecided import compare_command, is_comparable
from edgewise.report.document import (
    Cell,
    Column,
    Columns,
    Document,
    Section,
    Table,
    absent,
    table_by_columns,
    table_of,
    text_cell,
)
from edgewise.report.document.columns import text_column
from edgewise.report.runs.cells import amount_cell, label_of, vague_notes
from edgewise.run.environment import fingerprint
from edgewise.store.exchange import write_file
from edgewise.text import enumerate_few, listing, one_line
from edgewise.units import format_duration
from edgewise.verbs.measuring import finals_of
from edgewise.verbs.outcome import Outcome
from edgewise.verbs.rows import Row
from edgewise.verbs.sweep.cells import ZOO, name_place, words_of_threads
from edgewise.verbs.sweep.cells import Cell as SuiteCell
from edgewise.verbs.sweep.conditions import again_command, cells_tables, pattern_of, sections_of_runs, vague_sections
from edgewise.verbs.sweep.front import fronts_of
from edgewise.verbs.sweep.standing import IN_TURNS, LOOKS_BETTER, Standing, rivals_in, standings_of
from edgewise.verbs.sweep.values import Value, Values, sign_of, values_of

_Standings = Mapping[str, Standing]
Finals = list[list[Run]]
SCHEMA = 1
FEW_COLUMNS = 4
"""Places beyond which they are rows, if there are fewer models."""
BEST, EQUAL, LIKE_BEST, BEYOND, VAGUE = "★", "=", "≈", "!", "?"
_LEGEND = {
    BEST: "best of its model",
    EQUAL: "as fast as the best in turns, within 3 % or 0.2 µs",
    LIKE_BEST: "can't be told from the best; among these the fewest threads, the grade, memory and start-up decide, or "
    "the value where runs are not in the store of this machine; places without it are worse than one of these",
    VAGUE: "grade D: too uncertain to be ranked",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """The cells of a suite, and how each ended.

    Attributes:
        outcomes: one per cell; None where it is not finished.
        left_out: why combinations of the suite are no cells, with their numbers; "" where none is left out.
        limits: metric → the worst value that is wanted, in SI units.
        interrupted: whether the sweep was cancelled.
        not_counted: results of a scheduler that are of no cell as it is now, a line per reason.
        folder: where results are kept; "" for none.
        in_lab: whether a lab carries out what is left.
        held: the runs of the cells that the store of this machine has.
        command: what carries the whole suite out; "" where that is not known.
        only: what chose the cells among those of the suite.
        emitted: the files that were written for a scheduler, and what to do with them.
    """

    suite: str
    verb: str
    folder: str
    cells: Sequence[SuiteCell]
    outcomes: Sequence[Outcome | None]
    left_out: str = ""
    limits: Mapping[str, float] = field(default_factory=dict)
    interrupted: bool = False
    not_counted: Sequence[str] = ()
    emitted: Sequence[str] = ()
    in_lab: bool = False
    held: Sequence[Run] = ()
    command: str = ""
    only: Sequence[str] = ()

    @property
    def failed(self) -> list[Outcome]:
        """The cells that ended without a result."""
        return [one for one in self.outcomes if one is not None and one.status != "done"]

    def rows(self) -> Iterator[Row]:
        """Yield a row per finished run or estimate, with its cell, in the order of the suite."""
        for cell, one in sorted(zip(self.cells, self.outcomes, strict=True), key=lambda pair: pair[0].number):
            if one is None:
                continue
            for row in one.rows:
                if row.get("status", "done") == "done":
                    yield {"cell": one.key, "suite": self.suite, "verb": self.verb, "named": cell.model, **row}

    def to_document(self) -> dict[str, Any]:
        """JSON-shaped."""
        return {
            "schema": SCHEMA,
            "suite": self.suite,
            "verb": self.verb,
            "folder": self.folder,
            "interrupted": self.interrupted,
            "left_out": self.left_out or None,
            "cells": [
                {"name": cell.name, "key": one.key if one else None, "status": one.status if one else "left",
                 "seconds": one.seconds if one else None, "waited": one.waited if one else None,
                 "cause": (one.cause or None) if one else None,
                 "rows": list(one.rows) if one else []}
                for cell, one in zip(self.cells, self.outcomes, strict=True)
            ],
            "best": self._best(),
            "unknown": self._unknown(),
            "not_counted": list(self.not_counted),
            "emitted": list(self.emitted),
        }  # fmt: skip

    def write(self, folder: Path) -> None:
        """Write ``board.json`` and ``measurements.jsonl`` to `folder`. Raises `StoreError`."""
        write_file(folder / "board.json", json.dumps(self.to_document(), indent=1), overwrite=True)
        lines = (json.dumps(row) + "\n" for row in self.rows())
        write_file(folder / "measurements.jsonl", lines, overwrite=True)

    def describe(self) -> Document:
        """Return the answer, a table per metric, and what failed."""
        rows, places, whole, found, standings = self._judged()
        zoo = {row["run"]: row["named"] for row in rows if row.get("run") and row["named"].startswith(ZOO)}
        fronts = fronts_of(rows, places, whole)
        sections = (
            [Section(title="Failed", lines=_failures(self.failed, self._again), tone="poor")] if self.failed else []
        )
        by_keys = {one.key: one for one in self.outcomes if one is not None}
        without = {model: one.without_turns for each in standings.values() for model, one in each.items()}
        ways = {model: self._way_to_turns(model, runs) for model, runs in without.items() if runs}
        told = tuple(one_line(f"{model}: {way}") for model, way in ways.items() if way)
        sections += [Section(title="Not measured in turns", lines=told)] if len(set(ways.values())) > 1 else []
        sections += [Section(title="In turns", lines=lines)] if (lines := _turns_lines(found, standings, whole)) else []
        shown = [with_name_of_model(run, zoo.get(run.id, run.job.model.name)) for run in self.held]
        sections += vague_sections(shown, rows, by_keys, command=self.command, chosen=self.only)
        if self.not_counted:
            sections.append(Section(title="Results that do not count", lines=tuple(map(one_line, self.not_counted))))
        sections += [front.section() for front in fronts]
        kept = f"{self.folder}: cells.jsonl, board.json, measurements.jsonl"
        sections += sections_of_runs(shown, rows)
        if self.folder:
            files = dict.fromkeys(
                f"{zoo[run.id]}: {Path(self.folder, MODELS, run.job.model.file_name)}"
                for run in self.held if run.id in zoo
            )  # fmt: skip
            sections.append(Section(title="Files", lines=tuple(self.emitted) or (kept, *files)))
        best = [
            line
            for name, values in found.items()
            for line in _best_lines(
                name,
                values,
                standings[name],
                whole,
                self.limits.get(name),
                way=self._way_to_best,
                ways={model: ways[model] for model, one in standings[name].items() if one.without_turns},
            )
        ]
        matrices = [
            _matrix(name, values, standings[name], self.limits.get(name), self._absence)
            for name, values in found.items()
        ]
        return Document(
            title=f"Sweep {one_line(self.suite)}",
            answer=self._answer(best),
            tables=(*matrices, *cells_tables(rows, by_keys)),
            sections=tuple(sections),
            charts=(lambda: [front.chart() for front in fronts]) if fronts else tuple,
            parts=(lambda: [("Conditions", environment_documents(self.held))]) if self.held else tuple,
        )

    def _judged(self) -> tuple[list[Row], list[str], Mapping[str, str], dict[str, Values], dict[str, _Standings]]:
        """Return the rows with the place of each, each place in full, and of each metric the values and standings."""
        rows = list(self.rows())
        places, whole = _places(rows, self.cells)
        metrics = list(dict.fromkeys(name for row in rows for name in row["headlines"]))
        held = {run.id: run for run in self.held}
        found = {name: values for name in metrics if (values := values_of(rows, places, name, held))}
        return rows, places, whole, found, {name: standings_of(name, values) for name, values in found.items()}

    def _best(self) -> list[dict[str, Any]]:
        """Return the best place of each model in each metric, JSON-shaped."""
        _, _, whole, _, standings = self._judged()
        return [
            {"metric": metric, "model": model, "place": whole[one.best], "why": one.why or None,
             "in_turns": bool(one.turns),
             "ratios": {whole[place]: _ratio(turns) for place, turns in one.turns.items()},
             "alike": [whole[place] for place in sorted(one.alike)],
             "equal": [whole[place] for place in sorted(one.equal)]}
            for metric, of_metric in standings.items()
            for model, one in of_metric.items()
            if one.best is not None
        ]  # fmt: skip

    def _unknown(self) -> list[dict[str, Any]]:
        """Return the values whose intervals say next to nothing, JSON-shaped."""
        _, _, whole, found, _ = self._judged()
        return [
            {"metric": metric, "model": model, "place": whole[place], "why": UNKNOWN}
            for metric, values in found.items()
            for model, of_model in values.items()
            for place, value in of_model.items()
            if is_unknown(value.value, value.low, value.high)
        ]

    def _answer(self, best: Sequence[str]) -> tuple[str, ...]:
        """Return what is the best; how many cells are finished stands first where it was interrupted."""
        if not self.interrupted:
            return (*best, self._state())
        so_far = [f"so far: {line}" for line in best[:1]]
        return ("; ".join([self._state(), *so_far]), *best[1:])

    def finals(self, *, only: Callable[[str], bool] = lambda model: True) -> Iterator[tuple[str, list[Run], Finals]]:
        """Yield each model, its runs in all places, and those of them that this machine can yet measure in turns.

        Args:
            only: models that are asked about.
        """
        if self.verb != "bench" or self.in_lab or not self.held:
            return
        rows = list(self.rows())
        places, _ = _places(rows, self.cells)
        held, here = {run.id: run for run in self.held}, machine_key(fingerprint())
        for metric in dict.fromkeys(run.headline for run in self.held):
            for model, of_model in values_of(rows, places, metric, held).items():
                runs = [run for run in rivals_in(of_model) if _can_be_repeated(run, here)]
                if only(model) and (finals := finals_of(runs, drifted=True)):
                    yield model, runs, finals

    def _way_to_turns(self, model: str, runs: Sequence[Run]) -> str:
        """Return the command that measures `runs` of `model` in turns; "" where nothing here can."""
        due = self.finals(only=lambda name: name == model)
        own = {run.id for _, _, finals in due for few in finals for run in few}
        same = self.command if own >= {run.id for run in runs} else ""
        return same or compare_command(runs, places=True)

    def all_metrics(self) -> Table:
        """Return the tables of all metrics side by side, for a CSV file."""
        tables = [table for table in self.describe().tables if not table.detail]
        names = list(dict.fromkeys(row[0].text for table in tables for row in table.rows))
        columns: list[tuple[Column, Sequence[Cell]]] = [
            (Column(title=tables[0].columns[0].title if tables else "Model"), [Cell(text=name) for name in names])
        ]
        for table in tables:
            rows = {row[0].text: row for row in table.rows}
            for at, column in enumerate(table.columns[1:], 1):
                columns.append((column, [rows[name][at] if name in rows else absent(self._absence) for name in names]))
        return table_by_columns("", columns)

    @property
    def _again(self) -> str:
        """Return the command that measures all cells again; where it is not known, what it needs."""
        return again_command(self.command, self.only)

    def _way_to_best(self, models: Sequence[str]) -> str:
        """Return how a best of `models` is found: by measuring cells that are missing, else all of theirs again."""
        if any(told is None and cell.model in models for cell, told in zip(self.cells, self.outcomes, strict=True)):
            return f"first measure the missing cells with {self.command or 'the same command'}"
        left = {cell.model for cell in self.cells} - set(models)
        only = [pattern_of(model) for model in models] if left else self.only
        return f"measure again with {again_command(self.command, only)}"

    @property
    def _absence(self) -> str:
        """Why a combination of model and place may have no value."""
        reasons = {
            "left out of the suite": bool(self.left_out),
            "not finished": None in self.outcomes,
            "failed": bool(self.failed),
        }
        return " or ".join(reason for reason, given in reasons.items() if given) or "no cell of the suite"

    def _state(self) -> str:
        count, failed, left = len(self.cells), len(self.failed), list(self.outcomes).count(None)
        done = count - failed - left
        words = [f"{done} of {count} cells {'is' if done == 1 else 'are'} finished"]
        words += [f"{failed} failed"] if failed else []
        in_lab = ", queued in the lab: the same command collects them" if self.in_lab else ""
        words += [f"{left} left{in_lab}"] if left else []
        waited = sum(one.waited or 0.0 for one in self.outcomes if one is not None)
        words += [f"waited {format_duration(waited)} for busy devices (not part of the cells' times)"] if waited else []
        words += [f"left out: {self.left_out}"] if self.left_out else []
        return "; ".join(words)


def with_name_of_model(run: Run, name: str) -> Run:
    """Return the run with another name of its model."""
    return replace(run, job=replace(run.job, model=replace(run.job.model, name=name)))


def _places(rows: Sequence[Row], cells: Sequence[SuiteCell]) -> tuple[list[str], Mapping[str, str]]:
    """Where and how each row was made, in the words that differ between rows or cells; and each place in full.

    Rows of one device that several processors made, as hosts of a lab do, are different places.
    """
    processors: dict[str, set[str | None]] = {}
    for row in rows:
        processors.setdefault(row["device"], set()).add(row.get("processor"))
    parts = [
        (
            f"{row['device']} ({row.get('processor')})" if len(processors[row["device"]]) > 1 else row["device"],
            row["runtime"] or "",
            words_of_threads(row["threads"]),
            row["precision"] or "",
        )
        for row in rows
    ]
    axes = [(cell.device, cell.runtime, cell.threads, cell.precision) for cell in cells]
    differ = [at for at in range(4) if any(len({one[at] for one in each}) > 1 for each in (parts, axes))] or [
        0 if not any(p[1] for p in parts) else 1
    ]
    places = [", ".join(filter(None, (part[at] for at in differ))) or part[0] for part in parts]
    return places, {place: name_place(*part) for place, part in zip(places, parts, strict=True)}


def _short_place(place: str) -> str:
    """``"litert 2T"`` of ``"litert, 2 threads"``."""
    return re.sub(r"(\d+) threads?\b", r"\1T", place).replace(", ", " ")


def _matrix(metric: str, values: Values, standings: Mapping[str, Standing], limit: float | None, absence: str) -> Table:
    """Return a row per model and a column per place; the other way round where that makes fewer columns.

    The best of each model is marked, what can't be told from it, and what is beyond the limit. A narrow terminal has a
    row for each value.

    Args:
        absence: why a combination has no value.
    """
    every = [value for of_model in values.values() for value in of_model.values()]
    places = sorted({place for of_model in values.values() for place in of_model})
    cells = {model: _cells_of(metric, of_model) for model, of_model in values.items()}
    marks = {model: _marks_of_model(metric, values[model], standings[model], limit) for model in values}
    grid = [
        [
            _marked(of_model[place], values[model][place].grade, marks[model][place])
            if place in of_model
            else absent(absence)
            for place in places
        ]
        for model, of_model in cells.items()
    ]
    titles, names, head = places, list(values), "Model"
    if len(values) < len(places) > FEW_COLUMNS:
        titles, names, head = names, places, "Place"
        grid = [list(column) for column in zip(*grid, strict=True)]
    unit = f" ({METRICS[metric].unit})" if METRICS[metric].unit != "1" else ""
    columns = (
        Column(title=head, name=True),
        *(
            Column(title=one_line(title), numeric=True, in_si=(f"{one_line(title)}: {label_of(metric)}{unit}", 1.0))
            for title in titles
        ),
    )
    rows = tuple((text_cell(name), *cells) for name, cells in zip(names, grid, strict=True))
    repeated = max((value.number for value in every), default=1)
    used = {mark for of_model in marks.values() for own in of_model.values() for mark in own}
    notes = [
        *(f"{mark} {words}" for mark, words in _LEGEND.items() if mark in used),
        *([f"medians of {repeated} repeats; intervals hold all of theirs"] if repeated > 1 else []),
    ]
    if limit is not None and BEYOND in used:
        notes.append(f"{BEYOND} beyond the limit, {quantity(limit, METRICS[metric].unit)}")
    narrow = _list(metric, values, cells, marks, tuple(notes))
    return Table(title=label_of(metric), columns=columns, rows=rows, notes=tuple(notes), narrow=narrow)


def _list(
    metric: str,
    values: Values,
    cells: Mapping[str, Mapping[str, Cell]],
    marks: Mapping[str, Mapping[str, Sequence[str]]],
    notes: tuple[str, ...],
) -> Table:
    """Return a row per value, model by model: the best, what can't be told from it, then from the best value on."""

    def order(model: str, place: str) -> tuple[bool, bool, bool, float]:
        own, value = marks[model][place], values[model][place]
        return VAGUE in own, BEST not in own, not {EQUAL, LIKE_BEST} & set(own), sign_of(metric) * value.value

    pairs = [
        (model, place) for model, of_model in cells.items() for place in sorted(of_model, key=partial(order, model))
    ]
    graded = any(values[model][place].grade for model, place in pairs)

    def judged(pair: tuple[str, str]) -> Cell:
        model, place = pair
        return Cell(text=" ".join(filter(None, (values[model][place].grade, "".join(marks[model][place])))))

    columns: Columns[tuple[str, str]] = [
        text_column("Model", lambda pair: pair[0], name=True),
        (Column(title="Place", name=True), lambda pair: Cell(text=one_line(pair[1]), short=_short_place(pair[1]))),
        (Column(title=label_of(metric), numeric=True), lambda pair: cells[pair[0]][pair[1]]),
        (Column(title="Grade" if graded else "", hidden=not (graded or any(map(any, marks.values())))), judged),
    ]
    return table_of(label_of(metric), pairs, columns, notes=notes)


def _cells_of(metric: str, of_model: Mapping[str, Value]) -> dict[str, Cell]:
    """Return the values of a model by place, with those intervals that say something; footnotes tell the rest."""
    cells = {}
    for place, value in of_model.items():
        scale = scale_of(metric, METRICS[metric].unit, [value.value])
        cell = amount_cell(metric, value.value, value.low, value.high, scale)
        text = cell.short if is_unknown(value.value, value.low, value.high) else cell.text
        cells[place] = replace(cell, text=text, short="", notes=vague_notes(value.value, value.low, value.high))
    return cells


def _marked(cell: Cell, grade: str, marks: Sequence[str]) -> Cell:
    """Return a value with its grade and marks behind it."""
    return replace(cell, text=" ".join(filter(None, (cell.text, grade, "".join(marks)))))


def _marks_of_model(
    metric: str, of_model: Mapping[str, Value], standing: Standing, limit: float | None
) -> dict[str, list[str]]:
    return {place: _marks_of(metric, place, value, standing, limit) for place, value in of_model.items()}


def _marks_of(metric: str, place: str, value: Value, standing: Standing, limit: float | None) -> list[str]:
    """Return the marks of the value of a model in a place, in the order in which they are shown."""
    said = {
        BEST: place == standing.best,
        EQUAL: place in standing.equal,
        LIKE_BEST: place in standing.alike,
        VAGUE: value.vague and place not in standing.ranked,
        BEYOND: _is_beyond(metric, value, limit),
    }
    return [mark for mark, holds in said.items() if holds]


def _is_beyond(metric: str, value: Value, limit: float | None) -> bool:
    """Return whether a value is worse than the limit, if there is one."""
    return limit is not None and sign_of(metric) * (value.value - limit) > 0


def _best_lines(
    metric: str,
    values: Values,
    standings: Mapping[str, Standing],
    whole: Mapping[str, str],
    limit: float | None,
    *,
    way: Callable[[Sequence[str]], str],
    ways: Mapping[str, str],
) -> list[str]:
    """``"Latency: best for 3 of 4 models: litert, 1 thread; open for det.onnx"``, or a line for each of a few models.

    Open are models with places that can't be told from the best.

    Args:
        whole: place → its full name.
        way: how a best of some models is found that have none.
        ways: model that took no turns → the command that measures it in turns; "" for none.
    """
    words, each = list[str](), list[str]()
    winners = {model: whole[standings[model].best or ""] for model in values if standings[model].best is not None}
    models = list(winners)
    decided = [model for model in models if not standings[model].alike]
    best = Counter(winners[model] for model in decided or models).most_common()
    if len(models) == 1 or (len(models) <= FEW_COLUMNS and (len(best) > 1 or 0 < len(decided) < len(models))):
        each += [
            f"{'best' if model in decided else 'open'} for {model}: "
            f"{_with_alike(metric, values[model], standings[model], whole)}"
            for model in models
        ]
    elif best:
        most = best[0][1]
        first = [place for place, count in best if count == most]
        share = "all" if most == len(models) else f"{most} of"
        whose = f"{share} {len(models)} models{' each' if len(first) > 1 else ''}"
        if decided:
            proven = sum(standings[model].why == IN_TURNS for model in decided if winners[model] in first)
            held = len(first) * most
            how = f", {IN_TURNS}{'' if proven == held else f' for {proven}'}" if proven else ""
            words.append(f"best for {whose}: {_listed(first)}{how}")
        else:
            words.append(f"open for {whose}: {_listed(first)} can't be told from other places")
        if decided and (left := [model for model in models if model not in decided]):
            words.append(f"open for {enumerate_few(left)}")
    # What turns decide needs no second command.
    words += _without_best(values, standings, whole, lambda some: "" if all(map(ways.get, some)) else way(some))
    words += _without_turns(ways, len(values))
    unranked: dict[str, list[str]] = {}
    for model, standing in standings.items():
        if standing.best is None:
            continue
        for place, why in standing.unranked.items():
            value = quantity(values[model][place].value, METRICS[metric].unit)
            whose = f" for {model}" if len(standings) > 1 else ""
            unranked.setdefault(why, []).append(f"{value} of {_short_place(whole[place])}{whose}")
    for why, told in unranked.items():
        words.append(f"{enumerate_few(told)} {'is' if len(told) == 1 else 'are'} not ranked ({why})")
    if limit is not None:
        every = [value for of_model in values.values() for value in of_model.values()]
        beyond = sum(_is_beyond(metric, value, limit) for value in every)
        words.append(f"{beyond} of {len(every)} values are beyond {quantity(limit, METRICS[metric].unit)}")
    told = [*each, *(["; ".join(words)] if words else [])] if len(each) > 1 else ["; ".join([*each, *words])]
    return [one_line(f"{label_of(metric)}: {line}") for line in told if line]


def _without_best(
    values: Values,
    standings: Mapping[str, Standing],
    whole: Mapping[str, str],
    way: Callable[[Sequence[str]], str],
) -> list[str]:
    """Return why no best of some models can be named; empty where each has one, or is in one place."""
    without = [model for model, standing in standings.items() if standing.best is None and standing.unranked]
    none = [model for model in without if standings[model].sole is None]
    one = [model for model in without if standings[model].sole is not None]
    words = []
    for models in filter(None, (none, one)):
        whys = list(dict.fromkeys(why for model in models for why in standings[model].unranked.values()))
        left = [values[model][place] for model in models for place in standings[model].unranked]
        runs = [run for value in left for run in value.runs]
        busy = ", as the machine was busy" if runs and all(loads_of(run.cautions) for run in runs) else ""
        whose = "" if len(models) == len(standings) else f" for {enumerate_few(models)}"
        total = sum(len(values[model]) for model in models)
        many = f"all {total}" if len(left) == total else f"{len(left)} of {total}"
        have = f"{many} values have" if whys == [UNRELIABLE] else f"{len(left)} values:"
        why = f"{have} {listing(whys)}{busy}"
        if models is one:
            places = list(dict.fromkeys(whole[standings[model].sole or ""] for model in models))
            why = f"only {_listed(places)} could be ranked (elsewhere {listing(whys)}{busy})"
        words.append(f"no best can be named{whose}: {'; '.join(filter(None, [why, way(models)]))}")
    return words


def _without_turns(ways: Mapping[str, str], total: int) -> list[str]:
    """Return which of a total of models took no turns, with the first command of those that decide."""
    if not ways:
        return []
    model, way = next((pair for pair in ways.items() if pair[1]), ("", ""))
    whose = f" for {enumerate_few(list(ways))}" if len(ways) < total else ""
    which = f" for {model}" if len(set(ways.values())) > 1 else ""
    return [f"not measured in turns{whose}{f': {way} decides{which}' if way else ''}"]


def _with_alike(metric: str, of_model: Mapping[str, Value], standing: Standing, whole: Mapping[str, str]) -> str:
    """``"openvino, 1 thread, 207 µs, proven in turns"``: the best place, and what can't be told from it."""
    best, unit = standing.best or "", METRICS[metric].unit
    told = f"{whole[best]}, {quantity(of_model[best].value, unit)}"
    told += f", {UNRELIABLE}" if of_model[best].vague else ""

    def name(place: str) -> str:
        value, short = of_model[place], _short_place(whole[place])
        if sign_of(metric) * (value.value - of_model[best].value) >= 0:
            return short
        return f"{short} ({quantity(value.value, unit)}{f', {UNRELIABLE}' if value.vague else ''}, {LOOKS_BETTER})"

    even = [name(place) for place in whole if place in standing.equal]
    fast = [f"{listing(even)} {'is' if len(even) == 1 else 'are'} as fast in turns"] if even else []
    if standing.alike:
        alike = by_key((standing.likely.get(place, ""), name(place)) for place in whole if place in standing.alike)
        words = [
            f"{listing(names)} {words_of_open(likely, len(names), in_turns=bool(standing.turns))}"
            for likely, names in alike.items()
        ]
        return f"{told} ({'; '.join([standing.why, *fast, *words])})"
    if even:
        return f"{told} ({'; '.join([standing.why, *fast])})"
    behind = [place for place in whole if place in standing.ranked and name(place) != _short_place(whole[place])]
    aside = f"; {listing(list(map(name, behind)))} {'is' if len(behind) == 1 else 'are'} slower" if behind else ""
    return f"{told}{f', {standing.why}' if standing.why else ''}{aside}"


def _turns_lines(
    found: Mapping[str, Values], standings: Mapping[str, _Standings], whole: Mapping[str, str]
) -> tuple[str, ...]:
    """``"fresh.onnx, latency over that of openvino, 1 thread: onnxruntime 2T 1.210× [1.150, 1.280]"``, one a model."""
    lines = []
    for metric in found:
        for model, one in standings[metric].items():
            order = sorted(one.turns.items(), key=lambda each: sign_of(metric) * each[1].ratio)
            told = [
                f"{_short_place(whole[at])} {times_text(turns.ratio, turns.low, turns.high)}" for at, turns in order
            ]
            if one.best is not None and told:
                of = f"{model}, {label_of(metric).lower()} over that of {whole[one.best]}"
                lines.append(one_line(f"{of}: {listing(told)}"))
    return tuple(lines)


def _ratio(turns: InTurns) -> dict[str, float | None]:
    return {"ratio": turns.ratio, "low": turns.low, "high": turns.high}


def _listed(places: Sequence[str]) -> str:
    """Return the place, or several in their short forms, which have no commas."""
    return listing(places if len(places) == 1 else [_short_place(place) for place in places])


def _can_be_repeated(run: Run, here: str | None) -> bool:
    """Whether turns on this machine, of the key `here`, say something of `run`, and its scenario has any."""
    scenario, device = run.job.workload.scenario, run.job.target.device
    is_own = run.lab is None and run.source is None and (device != LOCAL or machine_key(run.environment) == here)
    return is_own and scenario.kind != "cold-start" and scenario.sustained_s is None and is_comparable(run)


def _failures(failed: Sequence[Outcome], command: str) -> tuple[str, ...]:
    """Return a line per cause, with the cells that it stopped."""
    cells: dict[str, list[str]] = {}
    for one in failed:
        advice = f" ({one.advice})" if one.advice else ""
        again = "" if one.status != "refused" else f"; it is tried again by: {command}"
        cells.setdefault(f"{one.cause}{advice}{again}", []).append(one.cell)
    return tuple(one_line(f"{enumerate_few(names)}: {cause}") for cause, names in cells.items())
