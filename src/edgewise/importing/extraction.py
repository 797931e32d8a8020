"""A spec applied to a file: the numbers and settings of each of its runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import fmean
from typing import Any, get_args

from edgewise.importing.reading import (
    UNITS,
    SourceFile,
    parse_json,
    parse_json_lines,
    parse_table,
    parse_yaml,
    to_number,
    to_word,
)
from edgewise.importing.spec import COUNTS, FROM_ZERO, SETTINGS, Field, Form, LayerRows
from edgewise.record import Failure, InputSpec, Layer
from edgewise.record.job import ScenarioKind
from edgewise.record.run import Basis, Cause
from edgewise.text import means_out_of_memory, printable

MOST_RUNS = 10_000
MOST_ROWS = 100_000
MOST_SAMPLES, MOST_PROCESSES = 1_000_000, 10_000
MOST_TAIL = 2_000
"""Characters of a failed run's log that are kept, from the first line that names the error."""
_TRACEBACK = r"^Traceback \(most recent call last\):\n(?:[ \t].{0,1000}\n){1,200}(\S.{0,1000})$"
"""How Python reports an error that ends a program; the last line has the message."""
NOT_ATTRIBUTED = "the rows are the tool's own, not attributed to operators of a model"


@dataclass(slots=True, kw_only=True)
class Part:
    """The part of a file that is one run, and what was found in it, in SI.

    Attributes:
        text: of a text: the part; else "".
        begin: position in the file; 0 in JSON.
        json, path, root: of JSON and YAML: the part, its path, and the whole document.
        values: metric → value.
        samples: metric → raw samples of each process.
        notes: metric → an addition to its method.
        basis: metric → its basis, where it is not measured.
        settings: by the names of `SETTINGS`.
        effective, environment, inputs: further facts of the run, as in `Run` and `Workload`.
        layers, layers_method: rows of the tool, and how it timed them.
        failure: why the run failed, as the tool recorded it; a run that failed has no values, samples and layers.
        left_out: which samples were left out and why, in words; "" if none were.
        reasons: metric → why this run lacks it. A run with reasons and no values is one that can't be mapped.
        beside: SHA-256 of another file that belongs to the run; "" without one.
    """

    source: SourceFile
    form: Form
    text: str = ""
    begin: int = 0
    json: Any = None
    path: str = ""
    root: Any = None
    values: dict[str, float] = field(default_factory=dict)
    samples: dict[str, list[list[float]]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    basis: dict[str, Basis] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    effective: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    inputs: tuple[InputSpec, ...] = ()
    layers: list[Layer] = field(default_factory=list)
    layers_method: str = ""
    failure: Failure | None = None
    left_out: str = ""
    reasons: dict[str, str] = field(default_factory=dict)
    beside: str = ""

    @property
    def where(self) -> str:
        """The place of the whole part, in words."""
        if self.form.kind != "text":
            return self.path or "the document"
        end = self.begin + len(self.text.rstrip())
        return f"lines {self.source.line_at(self.begin)}–{self.source.line_at(end)}"

    @property
    def end(self) -> str:
        """The place of its last line that is not blank; in JSON that of the whole part."""
        return self.line_of(len(self.text.rstrip())) if self.form.kind == "text" else self.where

    def line_of(self, position: int) -> str:
        """Return the place of a position in `text`."""
        return f"line {self.source.line_at(self.begin + position)}"

    def set(self, name: str, raw: Any, *, at: str, unit: str = "", words: Mapping[str, Any] | None = None) -> None:
        """Take one value. Raises `BadInput` with the place if it is none."""
        if name not in SETTINGS:
            self.values[name] = self.number(raw, unit, at=at, what=name)
        elif name in COUNTS:
            value = to_number(raw, self.source, at=at, what=name, least=0 if name in FROM_ZERO else 1)
            if value != int(value) or value >= 2**31:
                raise self.source.error(at, f"{name} is {to_word(raw)!r}; expected a whole number")
            self.settings[name] = int(value)
        elif word := to_word(raw):
            value = (words or {}).get(word, word)
            if name == "scenario" and value not in get_args(ScenarioKind):
                raise self.source.error(at, f"the scenario is {word!r}; expected one of {', '.join(words or {})}")
            self.settings[name] = value

    def fail(self, message: str, *, cause: Cause = "EngineError", tail: str = "", exit_code: int | None = None) -> None:
        """Record that the run failed; its values, samples and layers are no result and are dropped."""
        self.failure = Failure(
            cause="OutOfMemory" if means_out_of_memory(message) else cause,
            message=to_word(message),
            exit_code=exit_code,
            stderr_tail=printable(tail),
        )
        self.values, self.samples, self.layers = {}, {}, []

    def number(self, raw: Any, unit: str, *, at: str, what: str) -> float:
        """Return a value of `unit` in SI. Raises `BadInput` with the place."""
        if unit not in UNITS:
            raise self.source.error(at, f"{what} has the unit {to_word(unit)!r}; expected one of {', '.join(UNITS)}")
        # Twelve digits: 530.66 us is 0.00053066 s and not 0.0005306599999999999.
        return float(f"{to_number(raw, self.source, at=at, what=what) * UNITS[unit]:.12g}")


def make_layer(
    name: Any, op: Any = "", *, kernel: Any = "", provider: Any = None, time: float | None, executed: bool = True
) -> Layer:
    """Return a row of the tool as a layer, without a model to attribute it to.

    Args:
        time: s per inference; None where the tool gives none.
        executed: whether the engine executed it; False for one that it eliminated or fused.
    """
    absent = "the tool gives no time" if executed else "not executed by the engine"
    return Layer(
        index=0, name=to_word(name), op=to_word(op or ""), kind="operator" if executed else "eliminated",
        engine_nodes=(to_word(name),), engine_op=to_word(kernel or ""),
        provider=to_word(provider) if provider else None, time=time,
        time_absent_because=absent if time is None else None, cost_unknown_because=NOT_ATTRIBUTED,
    )  # fmt: skip


def extract(source: SourceFile, form: Form) -> list[Part]:
    """Return every run of a file. Raises `BadInput` with the line or the JSON path of what is wrong."""
    parts = list(_split_text(source, form) if form.kind == "text" else _split_json(source, form))
    if len(parts) > MOST_RUNS:
        raise source.error("the file", f"it holds {len(parts)} results; at most {MOST_RUNS} are read")
    inherited: dict[str, Any] = {}
    for part in parts:
        part.settings |= inherited
        for one in form.fields:
            _read_field(part, one)
        if form.ends:
            inherited = {name: value for name, value in part.settings.items() if name != "model"}
        _read_failure(part, form.failed)
        if part.failure is not None:
            continue
        if form.rows is not None:
            part.layers, part.layers_method = _read_rows(part, form.rows), form.rows.method
        if form.finish is not None:
            form.finish(part)
        for metric, processes in part.samples.items():
            count = sum(map(len, processes))
            if count > MOST_SAMPLES or len(processes) > MOST_PROCESSES:
                problem = f"{metric} has {count} values of {len(processes)} processes"
                advice = f"at most {MOST_SAMPLES} values of {MOST_PROCESSES} processes are read"
                raise source.error(part.where, problem, advice)
        if not (part.values or part.samples or part.layers or part.failure):
            _read_failure(part, "|".join(f"(?:{pattern})" for pattern in (*form.errors, _TRACEBACK)))
        if not (part.values or part.samples or part.layers or part.failure or part.reasons):
            raise source.error(part.end, f"the results are missing; expected {form.expects}")
    return parts


def _read_failure(part: Part, verdict: str) -> None:
    """Record the failure of a text in which the regular expression `verdict` matches, in the tool's own words."""
    found = re.search(verdict, part.text, re.MULTILINE) if verdict and part.form.kind == "text" else None
    if found is None:
        return
    errors = (re.search(pattern, part.text, re.MULTILINE) for pattern in (*part.form.errors, _TRACEBACK))
    told = next((error for error in errors if error is not None), None)
    message = found[0] if told is None else told[1]
    begin = part.text.rfind("\n", 0, found.start() if told is None else min(told.start(), found.start())) + 1
    part.fail(message, tail=part.text[begin : begin + MOST_TAIL].strip())


def _split_text(source: SourceFile, form: Form) -> Iterator[Part]:
    text = source.text
    matches = list(re.finditer(form.each, text, re.MULTILINE)) if form.each else []
    # What stands before the first run belongs to it: versions and settings are printed once.
    if form.ends and matches:
        bounds = [0, *(min(match.end() + 1, len(text)) for match in matches)]
        if form.failed and re.compile(form.failed, re.MULTILINE).search(text, bounds[-1]):
            bounds.append(len(text))  # the tool ended at a run that failed, without its last line
    else:
        bounds = [0, *(match.start() for match in matches[1:]), len(text)]
    for begin, end in pairwise(bounds):
        yield Part(source=source, form=form, text=text[begin:end], begin=begin)


def _split_json(source: SourceFile, form: Form) -> Iterator[Part]:
    root: Any = None
    if form.kind == "table" and form.items is not None:
        root = [row for _, row in parse_table(source, form.mark)]
    elif form.kind in ("jsonl", "table"):
        lines = parse_json_lines(source) if form.kind == "jsonl" else parse_table(source, form.mark)
        if not lines:
            raise source.error("the document", f"the results are missing; expected {form.expects}")
        for number, value in lines:
            if not isinstance(value, Mapping):
                raise source.error(f"line {number}", f"expected an object, not {type(value).__name__}")
            begin = source.position_of(number)
            yield Part(source=source, form=form, json=value, begin=begin, path=f"line {number}", root=value)
        return
    elif form.kind == "binary":
        root = decode_binary(source, form)
    else:
        root = parse_json(source) if form.kind == "json" else parse_yaml(source)
    found: Sequence[tuple[str, Any]] = items_at(source, root, f"{form.each}[*]" if form.each else "")
    if form.items is not None:
        try:
            found = form.items(root)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            reason = f"it lacks {error}" if isinstance(error, KeyError) else "a part of it has another type"
            raise source.error("the document", f"{reason}; expected {form.expects}") from None
        if not found:
            raise source.error("the document", f"the results are missing; expected {form.expects}")
    for path, value in found:
        yield Part(source=source, form=form, json=value, path=path, root=root)


def decode_binary(source: SourceFile, form: Form) -> Any:
    """Return the document that a binary form makes of a file. Raises `BadInput` where it can't."""
    assert form.decode is not None
    try:
        # What is text by chance has other characters than bytes.
        return form.decode(source.text.encode("latin-1"))
    except ValueError as error:
        reason = "it is text" if isinstance(error, UnicodeError) else str(error)
        raise source.error("the document", f"{reason}; expected {form.expects}") from None


def _find(part: Part, place: str, begin: int = 0, end: int | None = None) -> list[tuple[str, Any]]:
    """Find a place of the spec: its matches in text from `begin` to `end`, or values in JSON, with line or path."""
    if part.form.kind == "text":
        matches = re.compile(place, re.MULTILINE).finditer(part.text, begin, len(part.text) if end is None else end)
        return [(part.line_of(match.start()), match) for match in matches]
    value, prefix = part.json, f"{part.path}." if part.path else ""
    if place.startswith("$."):
        value, prefix, place = part.root, "", place[2:]
    found = [(at, each) for at, each in items_at(part.source, value, place) if each is not None]
    return [(part.path if part.form.kind == "table" else prefix + at, each) for at, each in found]


def _read_field(part: Part, one: Field) -> None:
    found = [(at, each, one.unit) for at, each in _find(part, one.at)]
    if not found:
        return
    if part.form.kind == "text":
        found = [(at, match[1], match.groupdict().get("unit") or unit) for at, match, unit in found]
    if one.note:
        part.notes[one.name] = one.note
    if one.samples:
        lists = [[(f"{at}[{i}]", each) for i, each in enumerate(raw)] for at, raw, _ in found if isinstance(raw, list)]
        # Single numbers, one in each item of a list, are the samples of one process.
        singles = [(at, raw) for at, raw, _ in found if not isinstance(raw, list)]
        processes = [
            [part.number(raw, one.unit, at=at, what=one.name) for at, raw in values]
            for values in (*lists, singles)
            if values
        ]
        if processes:
            part.samples[one.name] = processes
            if not part.form.sessions:
                part.settings["iterations"] = sum(map(len, processes))
        return
    if one.adds:
        numbers = (part.number(raw, unit, at=at, what=one.name) for at, raw, unit in found)
        part.values[one.name] = sum(numbers, part.values.get(one.name, 0.0))
        return
    at, raw, unit = found[0] if one.once else found[-1]
    if isinstance(raw, list | dict):
        raise part.source.error(at, f"expected a number or text, not {type(raw).__name__}")
    other = next((each for each in found if each[1] != raw), None)
    if other is not None and not one.once and one.name not in SETTINGS:
        problem = f"{one.name} is {to_word(other[1])!r} here and {to_word(raw)!r} in {at}"
        raise part.source.error(other[0], problem, "give each run of the tool a file of its own")
    part.set(one.name, raw, at=at, unit=unit, words=one.words)


def items_at(source: SourceFile, value: Any, path: str) -> list[tuple[str, Any]]:
    """Return every value at `path` with its path; none where a key is missing. Raises `BadInput` for another type."""
    found: list[tuple[str, Any]] = [("", value)]
    for step in re.findall(r"\[\*\]|'[^']+'|[^.\[\]]+", path):
        key, after = step.strip("'"), list[tuple[str, Any]]()
        for at, each in found:
            if step == "[*]":
                if not isinstance(each, list):
                    raise source.error(at or "the document", f"expected a list, not {type(each).__name__}")
                after += [(f"{at}[{index}]", item) for index, item in enumerate(each)]
            elif isinstance(each, Mapping):
                after += [(f"{at}.{key}" if at else key, each[key])] if key in each else []
            elif each is not None:
                raise source.error(at or "the document", f"expected an object with {key!r}, not {type(each).__name__}")
        found = after
    return found


def _read_rows(part: Part, rows: LayerRows) -> list[Layer]:
    begin, end = 0, len(part.text)
    if rows.begin:
        first = re.search(rows.begin, part.text, re.MULTILINE)
        begin = end if first is None else first.end()
    if rows.until and (last := re.compile(rows.until, re.MULTILINE).search(part.text, begin)):
        end = last.start()
    found = _find(part, rows.at, begin, end)
    if len(found) > MOST_ROWS:
        raise part.source.error(found[MOST_ROWS][0], f"more than {MOST_ROWS} layers")
    layers = []
    for at, row in found:
        cells = row.groupdict() if part.form.kind == "text" else row
        if not isinstance(cells, Mapping):
            raise part.source.error(at, f"expected an object, not {type(row).__name__}")
        if rows.columns:
            cells = {name: cells.get(key) for name, key in rows.columns.items()}
        if cells["name"] is not None:
            layers.append(_make_layer_of_row(part, cells, rows.unit, at=at))
    return _average_repetitions(layers) if rows.averaged else layers


def _make_layer_of_row(part: Part, cells: Mapping[str, Any], unit: str, *, at: str) -> Layer:
    raw, status = cells.get("time"), str(cells.get("status") or "EXECUTED")
    executed = status.rpartition(".")[2] == "EXECUTED"
    time = None if raw is None or not executed else part.number(raw, unit, at=at, what="the time of a layer")
    if time is not None and cells.get("calls"):
        time *= part.number(cells["calls"], "1", at=at, what="the number of calls")
    return make_layer(
        cells["name"], cells.get("op"), kernel=cells.get("kernel"), provider=cells.get("provider"), time=time,
        executed=executed,
    )  # fmt: skip


def _average_repetitions(layers: list[Layer]) -> list[Layer]:
    """Return one layer per name, in the order of first appearance, with the mean time."""
    averaged: dict[str, Layer] = {}
    times: dict[str, list[float]] = {}
    for layer in layers:
        if layer.name not in averaged or (layer.time is not None and layer.name not in times):
            averaged[layer.name] = layer
        if layer.time is not None:
            times.setdefault(layer.name, []).append(layer.time)
    return [replace(layer, time=fmean(times[name])) if name in times else layer for name, layer in averaged.items()]
