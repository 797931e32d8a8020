"""A spec applied to a file: the numbers and settings of each of its runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from edgewise.importing.reading import UNITS, SourceFile, parse_json, parse_yaml, to_number, to_word
from edgewise.importing.spec import COUNTS, SETTINGS, Field, Form, Rows
from edgewise.record.run import Basis

MOST_RUNS = 10_000
MOST_ROWS = 100_000
MOST_SAMPLES, MOST_PROCESSES = 1_000_000, 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerRow:
    """One layer as a tool gives it.

    Attributes:
        time: s per inference; None where the tool gives none.
        executed: whether the engine executed it; False for one that it eliminated or fused.
    """

    name: str
    op: str = ""
    kernel: str = ""
    provider: str | None = None
    time: float | None = None
    executed: bool = True


@dataclass(slots=True)
class Found:
    """What a part of a file says: all in SI.

    Attributes:
        values: metric → value; `notes`: metric → an addition to its method.
        per_call: metrics in `values` that are rates of calls.
        samples: metric → raw samples of each process.
        settings: by the names of `SETTINGS`.
        absent: metric → why the file does not have it.
        basis: metric → its basis, where it is not measured.
    """

    values: dict[str, float] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    per_call: set[str] = field(default_factory=set)
    samples: dict[str, list[list[float]]] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    layers: list[LayerRow] = field(default_factory=list)
    layers_method: str = ""
    absent: dict[str, str] = field(default_factory=dict)
    basis: dict[str, Basis] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Part:
    """The part of a file that is one run.

    Attributes:
        text, begin: of a text: the part, and its position in the file; "" and 0 in JSON.
        value, path, root: of JSON and YAML: the part, its path, and the whole document.
    """

    source: SourceFile
    form: Form
    text: str = ""
    begin: int = 0
    value: Any = None
    path: str = ""
    root: Any = None
    found: Found = field(default_factory=Found)

    @property
    def where(self) -> str:
        """The place of the whole part, in words."""
        if self.form.kind != "text":
            return self.path or "the document"
        end = self.begin + len(self.text.rstrip())
        return f"lines {self.source.line_at(self.begin)}–{self.source.line_at(end)}"

    def line_of(self, position: int) -> str:
        """The place of a position in `text`."""
        return f"line {self.source.line_at(self.begin + position)}"

    def set(self, name: str, raw: Any, *, at: str, unit: str = "", words: Mapping[str, Any] | None = None) -> None:
        """Take one value. Raises `BadInput` with the place if it is none."""
        if name not in SETTINGS:
            self.found.values[name] = self.number(raw, unit, at=at, what=name)
        elif name in COUNTS:
            least = 0 if name == "warmup" else 1
            value = to_number(raw, self.source, at=at, what=name, least=least)
            if value != int(value) or value >= 2**31:
                raise self.source.error(at, f"{name} is {to_word(raw)!r}; expected a whole number")
            self.found.settings[name] = int(value)
        elif word := to_word(raw):
            self.found.settings[name] = (words or {}).get(word, word)

    def number(self, raw: Any, unit: str, *, at: str, what: str) -> float:
        """A value of `unit` in SI. Raises `BadInput` with the place."""
        if unit not in UNITS:
            raise self.source.error(at, f"{what} has the unit {to_word(unit)!r}; expected one of {', '.join(UNITS)}")
        # Twelve digits: 530.66 us is 0.00053066 s and not 0.0005306599999999999.
        return float(f"{to_number(raw, self.source, at=at, what=what) * UNITS[unit]:.12g}")


def extract(source: SourceFile, form: Form) -> list[Part]:
    """Every run of a file. Raises `BadInput` with the line or the JSON path of what is wrong."""
    parts = list(_text_parts(source, form) if form.kind == "text" else _json_parts(source, form))
    if len(parts) > MOST_RUNS:
        raise source.error("the file", f"it holds {len(parts)} results; at most {MOST_RUNS} are read")
    inherited: dict[str, Any] = {}
    for part in parts:
        part.found.settings |= inherited
        for one in form.fields:
            (_read_text_field if form.kind == "text" else _read_json_field)(part, one)
            if one.per_call and one.name in part.found.values:
                part.found.per_call.add(one.name)
        if form.ends:
            inherited = dict(part.found.settings)
        if form.rows is not None:
            rows = list(_text_rows(part, form.rows) if form.kind == "text" else _json_rows(part, form.rows))
            part.found.layers = _averaged(rows) if form.rows.averaged else rows
            part.found.layers_method = form.rows.method
        if form.finish is not None:
            form.finish(part)
        found = part.found
        _check_sizes(part)
        if not (found.values or found.samples or found.layers):
            end = part.line_of(len(part.text.rstrip())) if form.kind == "text" else part.where
            raise source.error(end, f"the results are missing; expected {form.expects}")
    return parts


def _check_sizes(part: Part) -> None:
    """Refuse more samples than statistics are computed for. Raises `BadInput`."""
    for metric, processes in part.found.samples.items():
        count = sum(map(len, processes))
        if count > MOST_SAMPLES or len(processes) > MOST_PROCESSES:
            problem = f"{metric} has {count} values of {len(processes)} processes"
            advice = f"at most {MOST_SAMPLES} values of {MOST_PROCESSES} processes are read"
            raise part.source.error(part.where, problem, advice)


def _text_parts(source: SourceFile, form: Form) -> Iterator[Part]:
    text = source.text
    matches = list(re.finditer(form.each, text, re.MULTILINE)) if form.each else []
    if not matches:
        yield Part(source=source, form=form, text=text)
        return
    # What stands before the first run belongs to it: versions and settings are printed once.
    if form.ends:
        bounds = [0, *(min(match.end() + 1, len(text)) for match in matches)]
    else:
        bounds = [0, *(match.start() for match in matches[1:]), len(text)]
    for begin, end in pairwise(bounds):
        yield Part(source=source, form=form, text=text[begin:end], begin=begin)


def _json_parts(source: SourceFile, form: Form) -> Iterator[Part]:
    root = parse_json(source) if form.kind == "json" else parse_yaml(source)
    if form.items is not None:
        try:
            items = form.items(root)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            reason = f"it lacks {error}" if isinstance(error, KeyError) else "a part of it has another type"
            raise source.error("the document", f"{reason}; expected {form.expects}") from None
        if not items:
            raise source.error("the document", f"the results are missing; expected {form.expects}")
        for path, value in items:
            yield Part(source=source, form=form, value=value, path=path, root=root)
        return
    if not form.each:
        yield Part(source=source, form=form, value=root, root=root)
        return
    for path, value in _items(source, root, f"{form.each}[*]"):
        yield Part(source=source, form=form, value=value, path=path, root=root)


def _read_text_field(part: Part, one: Field) -> None:
    matches = list(re.finditer(one.at, part.text, re.MULTILINE))
    if one.samples and matches:
        part.found.samples[one.name] = [
            [part.number(each[1], one.unit, at=part.line_of(each.start()), what=one.name) for each in matches]
        ]
    elif matches:
        match = matches[0] if one.once else matches[-1]
        other = next((each for each in matches if each[1] != match[1]), None)
        if other is not None and not one.once and one.name not in SETTINGS:
            problem = (
                f"{one.name} is {to_word(other[1])!r} here and {to_word(match[1])!r} in {part.line_of(match.start())}"
            )
            raise part.source.error(part.line_of(other.start()), problem, "give each run of the tool a file of its own")
        unit = match.groupdict().get("unit") or one.unit
        part.set(one.name, match[1], at=part.line_of(match.start()), unit=unit, words=one.words)


def _read_json_field(part: Part, one: Field) -> None:
    path, value = one.at, part.value
    prefix = f"{part.path}." if part.path else ""
    if path.startswith("$."):
        path, value, prefix = path[2:], part.root, ""
    found = [(prefix + at, each) for at, each in _items(part.source, value, path) if each is not None]
    if not found:
        return
    if one.samples:
        lists = [
            [(f"{at}[{index}]", each) for index, each in enumerate(values)]
            for at, values in found
            if isinstance(values, list)
        ]
        # Single numbers, one in each item of a list, are the samples of one process.
        singles = [(at, each) for at, each in found if not isinstance(each, list)]
        processes = [
            [part.number(each, one.unit, at=at, what=one.name) for at, each in values]
            for values in (*lists, singles)
            if values
        ]
        if processes:
            part.found.samples[one.name] = processes
        return
    at, value = found[0] if one.once else found[-1]
    if isinstance(value, list | dict):
        raise part.source.error(at, f"expected a number or text, not {type(value).__name__}")
    part.set(one.name, value, at=at, unit=one.unit, words=one.words)


def _items(source: SourceFile, value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every value at `path` with its own path; nothing where a key is missing. Raises `BadInput` for another type."""
    found: list[tuple[str, Any]] = [("", value)]
    for step in re.findall(r"\[\*\]|[^.\[\]]+", path):
        after: list[tuple[str, Any]] = []
        for at, each in found:
            if step == "[*]":
                if not isinstance(each, list):
                    raise source.error(at or "the document", f"expected a list, not {type(each).__name__}")
                after += [(f"{at}[{index}]", item) for index, item in enumerate(each)]
            elif isinstance(each, Mapping):
                after += [(f"{at}.{step}" if at else step, each[step])] if step in each else []
            elif each is not None:
                raise source.error(at or "the document", f"expected an object with {step!r}, not {type(each).__name__}")
        found = after
    yield from found


def _text_rows(part: Part, rows: Rows) -> Iterator[LayerRow]:
    begin, end = 0, len(part.text)
    if rows.begin:
        first = re.search(rows.begin, part.text, re.MULTILINE)
        begin = end if first is None else first.end()
    if rows.until and (last := re.compile(rows.until, re.MULTILINE).search(part.text, begin)):
        end = last.start()
    for index, match in enumerate(re.compile(rows.at, re.MULTILINE).finditer(part.text, begin, end)):
        yield _layer(part, match.groupdict(), rows, at=part.line_of(match.start()), index=index)


def _json_rows(part: Part, rows: Rows) -> Iterator[LayerRow]:
    for index, (at, row) in enumerate(_items(part.source, part.value, rows.at)):
        if not isinstance(row, Mapping):
            raise part.source.error(at, f"expected an object, not {type(row).__name__}")
        cells = {name: row.get(key) for name, key in rows.columns.items()}
        if cells["name"] is not None:
            yield _layer(part, cells, rows, at=at, index=index)


def _layer(part: Part, cells: Mapping[str, Any], rows: Rows, *, at: str, index: int) -> LayerRow:
    if index >= MOST_ROWS:
        raise part.source.error(at, f"more than {MOST_ROWS} layers")
    raw, status = cells.get("time"), str(cells.get("status") or "EXECUTED")
    executed = status.rpartition(".")[2] == "EXECUTED"
    time = None if raw is None or not executed else part.number(raw, rows.unit, at=at, what="the time of a layer")
    if time is not None and cells.get("calls"):
        time *= part.number(cells["calls"], "1", at=at, what="the number of calls")
    return LayerRow(
        name=to_word(cells["name"]),
        op=to_word(cells.get("op") or ""),
        kernel=to_word(cells.get("kernel") or ""),
        provider=to_word(cells["provider"]) if cells.get("provider") else None,
        time=time,
        executed=executed,
    )


def _averaged(rows: list[LayerRow]) -> list[LayerRow]:
    """One row per name, in the order of first appearance, with the mean time."""
    times: dict[str, list[float]] = {}
    first: dict[str, LayerRow] = {}
    for row in rows:
        first.setdefault(row.name, row)
        times.setdefault(row.name, []).extend([] if row.time is None else [row.time])
    return [
        replace(row, time=sum(times[name]) / len(times[name]) if times[name] else None) for name, row in first.items()
    ]
