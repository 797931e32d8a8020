"""One network from beginning to end: searches, tools, answers, race, cells. Every step is kept, so that a run goes on
where an earlier one was cut off.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from optimizing.cells import find_cells, measure_cells
from optimizing.entries import ENGINES, FREE, Entry, entry_of
from optimizing.judging import check_jobs, couples_of, judge_answers, race
from optimizing.subjects import Subject
from optimizing.tools import TOOLS, make

import edgewise
from edgewise.errors import EdgewiseError
from edgewise.evaluating.output_format import OutputFormat
from edgewise.optimizing.search_settings import LEAST_SNR_DB
from edgewise.record import RuntimeSpec
from edgewise.units import parse_duration

SAMPLES = 128
BEST = "onnxruntime"
"""Whose float file a search with the engine left free starts from, and is compared with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How much is done.

    Attributes:
        budget: of every search in one engine and of every tool; ``60s,resnet50=150s`` gives a network its own. The
            search with the engine left free has twice as much: it starts from two files.
        race: of the race of everybody.
        cells: of an engine's race of pre-flight cells; ``0s`` leaves them out.
        limit: judged samples; None is all.
        agreement_drop: what a search may lose where there are no labels, as a share of best classes that differ.
        min_snr: dB, where outputs are compared by that.
    """

    budget: str = "300s"
    race: str = "600s"
    cells: str = "90s"
    limit: int | None = None
    drop: str = "1pt"
    agreement_drop: str = "100pt"
    min_snr: float = LEAST_SNR_DB

    def budget_s(self, name: str) -> float:
        """Of one network, s."""
        usual, *others = self.budget.split(",")
        own = dict(each.split("=", 1) for each in others)
        return parse_duration(own.get(name, usual))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The work on one network.

    Attributes:
        folder: what is kept of it.
        tell: is told what begins.
    """

    subject: Subject
    settings: Settings
    folder: Path
    olive: str
    tell: Callable[[str], None]

    def run(self) -> dict[str, Any]:
        """Return the network's document, from an earlier run where that came to its end."""
        result = self.folder / "result.json"
        if result.is_file():
            return json.loads(result.read_text(encoding="utf-8"))  # type: ignore[no-any-return]
        self.folder.mkdir(parents=True, exist_ok=True)
        begin, load = time.monotonic(), os.getloadavg()[0]
        searches = {key: self._search(key) for key in self._keys()}
        entries = [
            *self._floats(),
            *map(self._tool, TOOLS),
            *(self._ours(key, found) for key, found in searches.items()),
        ]
        check_jobs(entries)
        document = {
            "net": self.subject.name,
            "labelled": self.subject.labelled,
            "min_snr": self.settings.min_snr if self.subject.by_snr else None,
            "files": self.subject.hashes(),
            "searches": {key: _summarise(found) for key, found in searches.items()},
            **self._race(self._judge(entries, _form_of(searches))),
            "cells": self._measure_cells(searches),
            "load_before": load,
            "load_after": os.getloadavg()[0],
            "seconds_now": time.monotonic() - begin,
        }
        _write(result, document)
        return document

    def _keys(self) -> Iterator[str]:
        """Engines, then, of a network that more than one form is of, the search with the engine left free."""
        yield from (engine for engine in ENGINES if self.subject.form_for(engine))
        if len(self.subject.files) > 1:
            yield FREE

    def _search(self, key: str) -> dict[str, Any]:
        """Return the document of `edgewise.optimize`, or ``{"error": …}``."""
        kept = self.folder / f"search-{key}.json"
        if kept.is_file():
            return json.loads(kept.read_text(encoding="utf-8"))  # type: ignore[no-any-return]
        self.tell(f"edgewise optimize, {key}")
        limits: dict[str, Any] = {"max_accuracy_drop": self.settings.drop}
        if not self.subject.labelled:
            limits = {"max_accuracy_drop": self.settings.agreement_drop, "task": "classification"}
        if self.subject.by_snr:
            limits = {"min_snr": self.settings.min_snr}
        files = self.subject.files
        first, *others = [files[self.subject.form_for(key) or ""]] if key in ENGINES else files.values()
        budget_s = self.settings.budget_s(self.subject.name)
        try:
            found = edgewise.optimize(
                first,
                also=others,
                data=self.subject.data,
                output=self.folder / "edgewise" / key,
                limit=self.settings.limit,
                calibration_limit=SAMPLES,
                instructions=self.subject.instructions,
                **limits,
                runtimes=[key] if key in ENGINES else [],
                threads=1,
                time_budget=2 * budget_s if key == FREE else budget_s,
            )
        except EdgewiseError as error:
            document: dict[str, Any] = {"error": error.message}
        else:
            if found.interrupted:
                raise KeyboardInterrupt
            document = found.to_document()
        _write(kept, document)
        return document

    def _floats(self) -> Iterator[Entry]:
        for engine in ENGINES:
            path = self.subject.files.get(self.subject.form_for(engine) or "")
            if path is not None:
                yield Entry(name=f"float {engine}", title="float", kind="float", key=engine, engine=engine, path=path,
                            spec=RuntimeSpec(name=engine, threads=1))  # fmt: skip

    def _tool(self, name: str) -> Entry:
        tool = TOOLS[name]
        kept = self.folder / "tools" / name / "entry.json"
        if kept.is_file():
            return entry_of(json.loads(kept.read_text(encoding="utf-8")))
        self.tell(tool.title)
        entry = Entry(name=f"tool {name}", title=tool.title, kind="tool", key=name, engine=tool.engine, path=None)
        form = next((form for form in tool.forms if form in self.subject.files), "")
        model, samples = self.subject.files.get(form), self._samples(form)
        if model is None or samples is None:
            missing = f"n/a: no {' or '.join(tool.forms)} file"
            return replace(entry, why=missing if model is None else "n/a: no samples")
        if tool.labels and not self.subject.labelled:
            return replace(entry, why="n/a: it needs labels")
        made = make(
            name, model, samples, kept.parent, olive=self.olive, seconds=self.settings.budget_s(self.subject.name)
        )
        spec = RuntimeSpec(name=tool.engine, threads=1)
        entry = replace(entry, path=made.path, spec=spec, seconds=made.seconds, why=made.why)
        if not made.why.startswith("n/a"):
            _write(kept, entry.to_document())
        return entry

    def _samples(self, form: str) -> Path | None:
        """Return what edgewise's passes were given for a file of this format: tools get the same."""
        keys = [engine for engine in ENGINES if form and self.subject.form_for(engine) == form]
        files = [self.folder / "edgewise" / key / "calibration.npz" for key in keys]
        return next((file for file in files if file.is_file()), None)

    def _ours(self, key: str, found: dict[str, Any]) -> Entry:
        """Return what edgewise recommends: the chosen variant, else the file as it is in its own engine."""
        entry = Entry(name=f"edgewise {key}", title=f"edgewise, {_engine_words(key)}", kind="edgewise", key=key,
                      engine=key if key in ENGINES else BEST, path=None)  # fmt: skip
        if "error" in found:
            return replace(entry, why=f"failed: {found['error']}")
        variants = {one["id"]: one for one in (found["baseline"], *found["variants"])}
        chosen = variants[found["chosen"] or "original"]
        spec = RuntimeSpec(**chosen["runtime"])
        why = f"{chosen['id']}: {chosen['why']}" if found["chosen"] else "nothing was proven faster: the original"
        return replace(
            entry, engine=spec.name, path=Path(chosen["path"]), spec=spec, seconds=found["elapsed_s"], why=why
        )

    def _judge(self, entries: list[Entry], form: OutputFormat | None) -> list[Entry]:
        asked = [one.to_document() for one in entries]
        known = self._known("answers", asked)
        if known is not None:
            return [entry_of(one) for one in known]
        self.tell("answers on the data")
        judge_answers(self.subject, entries, limit=self.settings.limit, form=form)
        self._keep("answers", asked, [one.to_document() for one in entries])
        return entries

    def _known(self, name: str, asked: Any) -> Any:
        """Return what an earlier run found for the same question; None where there is nothing."""
        kept = self.folder / f"{name}.json"
        found = json.loads(kept.read_text(encoding="utf-8")) if kept.is_file() else {}
        return found.get("found") if found.get("asked") == json.loads(json.dumps(asked)) else None

    def _keep(self, name: str, asked: Any, found: Any) -> None:
        _write(self.folder / f"{name}.json", {"asked": asked, "found": found})

    def _race(self, entries: list[Entry]) -> dict[str, Any]:
        asked = [one.to_document() for one in entries]
        known = self._known("race", asked)
        if known is not None:
            return known  # type: ignore[no-any-return]
        self.tell("race")
        found = race(entries, list(couples_of(entries)), budget_s=parse_duration(self.settings.race))
        for one in entries:
            if one.name in found.twins and (latency := found.latencies.get(found.twins[one.name])):
                one.numbers["latency"] = latency
            if found.twins.get(one.name) in found.failures:
                one.why, one.path = f"failed in the race: {found.failures[found.twins[one.name]]}", None
        document = {
            "entries": [one.to_document() for one in entries],
            "rows": [row.to_document() | {"a": a, "b": b} for (a, b), row in found.rows.items()],
            "twins": found.twins,
            "race": {"pairs": found.pairs, "elapsed_s": found.elapsed_s, "stopped_because": found.stopped_because},
        }
        self._keep("race", asked, document)
        return document

    def _measure_cells(self, searches: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
        """Of the searches in one engine each: there prediction and measurement are both about that engine."""
        budget_s, found = parse_duration(self.settings.cells), []
        for engine in ENGINES:
            kept = self.folder / f"cells-{engine}.json"
            if kept.is_file():
                found += json.loads(kept.read_text(encoding="utf-8"))
                continue
            if not budget_s or "baseline" not in searches.get(engine, {}):
                continue
            self.tell(f"pre-flight cells, {engine}")
            cells = list(find_cells(searches[engine], engine))
            measure_cells(cells, budget_s=budget_s)
            _write(kept, cells)
            found += cells
        return found


def _form_of(searches: dict[str, dict[str, Any]]) -> OutputFormat | None:
    """Return what the searches took the outputs for, so that everybody is judged as they judged; None for class
    scores.
    """
    told = next((found["judged_by"] for found in searches.values() if found.get("judged_by")), None)
    if told is None or told["outputs"] != "values":
        return None
    return OutputFormat(kind="values", because=told["because"], probabilities=tuple(told["probabilities"]))


def _engine_words(key: str) -> str:
    return f"{key} only" if key in ENGINES else "engine free"


def _summarise(found: dict[str, Any]) -> dict[str, Any]:
    """Return what is worth a place in the network's document."""
    if "error" in found:
        return found
    keys = ("chosen", "stopped_because", "elapsed_s", "command", "notes", "conditions")
    return {key: found[key] for key in keys} | {"variants": len(found["variants"])}


def describe(settings: Settings) -> dict[str, Any]:
    """JSON-shaped."""
    return asdict(settings)


def _write(path: Path, document: Any) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(document, indent=1, ensure_ascii=False), encoding="utf-8")
    part.replace(path)
