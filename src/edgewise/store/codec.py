"""Runs as JSON documents and back: validation with the path of the bad field, and the published JSON Schema.

A number that is not finite is not JSON: in a document it is null. A headline that was not finite becomes absent with
that reason; a null among raw samples or statistics is read back as NaN.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from functools import cache, reduce
from typing import TYPE_CHECKING, Any

from edgewise.errors import BadInput
from edgewise.metrics import METRICS, OWN_METRIC
from edgewise.record import SCHEMA, Run
from edgewise.record.sustained import ALWAYS
from edgewise.store.upgrade import upgrade

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

SCHEMA_ID = f"urn:edgewise:schema:run:{SCHEMA}"

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._\-]{0,63}")
_SUMMARY_NUMBERS = ("mean", "std", "min", "max", "median", "mad")
_NULLABLE = (
    ("measurements", "*", "samples"),
    ("sessions", "*", "warmup_samples"),
    ("sessions", "*", "phases"),
    *(("measurements", "*", "summary", name) for name in (*_SUMMARY_NUMBERS, "percentiles")),
)
"""Paths of numbers that are null where they were not finite: raw samples, statistics and phases."""
_UNITS = {
    "s": "second", "B": "byte", "J": "joule", "W": "watt", "K": "kelvin", "Hz": "hertz", "1/s": "per second",
    "1": "a pure number", "dB": "decibel", "J/token": "joule per token",
}  # fmt: skip


def to_document(run: Run) -> dict[str, Any]:
    """`run` as plain JSON types (dict, list, str, int, finite float, bool, None), sharing nothing mutable with it.

    Raises:
        BadInput: a value that JSON has no place for, or a setting of the job that is not finite; the message names it.
    """
    _check(run)
    document: dict[str, Any] = _plain(run, path="")
    _require_finite(run.job, path="job")
    for row, measurement in zip(document["measurements"], run.measurements, strict=True):
        if measurement.value is not None and row["value"] is None:
            row["absent_because"] = row["absent_because"] or f"the number obtained was {measurement.value}"
    return document


def encode(run: Run) -> str:
    """`run` as the JSON text that is stored, in ASCII. Raises `BadInput`."""
    return json.dumps(to_document(run), separators=(",", ":"), allow_nan=False)


def from_document(document: Mapping[str, Any]) -> Run:
    """Return the run in `document`, upgraded to the present schema; fields that are not known are ignored.

    Raises:
        BadInput: a missing or wrong field, named by its path; an unknown or newer schema.
    """
    if not isinstance(document, Mapping):
        raise BadInput("a record is a JSON object", advice="check that edgewise wrote this document")
    try:
        text = json.dumps(reduce(_with_nan, _NULLABLE, upgrade(document)))
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInput(f"not a JSON document: {error}") from error
    return _validated(text)


def decode(text: str) -> Run:
    """Return the run in the JSON `text`. Raises `BadInput`."""
    from pydantic import ValidationError

    try:
        run = _adapter().validate_json(text, strict=True)
    except ValidationError:
        # Rare: an older schema, or nulls that stand for NaN. The long way says what is wrong if anything is.
        return from_document(parse(text))
    if run.schema != SCHEMA:
        return from_document(parse(text))
    _check(run)
    return run


def parse(text: str | bytes) -> Any:
    """Return the JSON value in `text`, which must be UTF-8 and without NaN. Raises `BadInput`."""

    def refuse(constant: str) -> float:
        raise BadInput(f"not JSON: {constant} is not a number", advice="write null for an unknown number")

    try:
        return json.loads(text, parse_constant=refuse)
    except RecursionError as error:
        raise BadInput("not a record: nested too deeply") from error
    except ValueError as error:
        if not text.strip():
            raise BadInput("not JSON: it is empty", advice="check that the file is complete") from error
        raise BadInput(f"not JSON: {error}", advice="check that the file is complete") from error


def parse_time(text: str, *, what: str = "created_at") -> datetime:
    """Return the moment in `text`, ISO 8601; UTC where it names no offset. Raises `BadInput`."""
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise BadInput(f"{what}: {text!r} is not a time", advice="write it like 2026-01-31T12:00:00Z") from error


def time_before(earlier: str, later: str) -> str:
    """``"3 days ago"``, ``"just before"``: how long before `later` `earlier` was, both ISO 8601. Raises `BadInput`."""
    seconds = (parse_time(later) - parse_time(earlier)).total_seconds()
    for size, unit in ((86400.0, "day"), (3600.0, "hour"), (60.0, "minute")):
        if (count := int(seconds // size)) >= 1:
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "just before"


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a run: what `edgewise runs schema` publishes."""
    schema = _adapter().json_schema()
    measurement = schema["$defs"]["Measurement"]["properties"]
    measurement["metric"] |= {
        "anyOf": [{"enum": sorted(METRICS)}, {"pattern": f"^{OWN_METRIC}$"}],
        "description": "An id of the metric catalogue, or score:NAME or loss:NAME of a metric of the user's own; "
        "readers should accept ids that they don't know.",
    }
    measurement["unit"] |= {
        "enum": sorted({metric.unit for metric in METRICS.values()}),
        "description": "SI base unit of every number in this measurement: "
        + ", ".join(f"{unit} ({name})" for unit, name in _UNITS.items()),
    }
    # What is not finite is written as null, and a schema that says otherwise would be wrong.
    session = schema["$defs"]["SessionRecord"]["properties"]
    for samples in (measurement["samples"], session["warmup_samples"]):
        samples["items"] = {"type": ["number", "null"]}
    for name in _SUMMARY_NUMBERS:
        schema["$defs"]["Summary"]["properties"][name]["type"] = ["number", "null"]
    # The number is what tells a reader of another version what it has before it: never left out.
    schema["properties"]["schema"] = {"const": SCHEMA, "description": "The version of this schema.", "type": "integer"}
    schema["required"] = ["schema", *schema["required"]]
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA_ID}
    return head | schema | {"title": "edgewise run"}


@cache
def _adapter() -> TypeAdapter[Run]:
    from pydantic import TypeAdapter

    return TypeAdapter(Run)


def _validated(text: str) -> Run:
    from pydantic import ValidationError

    try:
        run = _adapter().validate_json(text, strict=True)
    except ValidationError as error:
        raise _explained(error) from error
    _check(run)
    for index, row in enumerate(run.measurements):
        if any(number is not None and not math.isfinite(number) for number in (row.value, row.low, row.high)):
            raise BadInput(f"measurements[{index}]: a value that is not finite", advice="write null and absent_because")
    return run


def _explained(error: ValidationError) -> BadInput:
    """Return the first thing that is wrong, as ``measurements[0].basis: …``, and how many more there are."""
    details = error.errors(include_url=False, include_context=False, include_input=False)
    path = ""
    for part in details[0]["loc"]:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
    return BadInput(
        f"{path or 'record'}: {details[0]['msg'].lower()}{more}",
        advice="'edgewise runs schema' prints the schema of a record",
    )


def _check(run: Run) -> None:
    """Check what types alone don't say. Raises `BadInput`."""
    if not _ID.fullmatch(run.id):
        raise BadInput(
            f"id: {run.id[:80]!r} is not a run id", advice=("use letters, digits, '.', '_' and '-', at most 64")
        )
    if run.schema != SCHEMA:
        raise BadInput(f"schema: {run.schema} is not {SCHEMA}, which this edgewise writes")
    parse_time(run.created_at)
    for index, row in enumerate(run.measurements):
        if row.metric in METRICS and row.unit != METRICS[row.metric].unit:
            raise BadInput(
                f"measurements[{index}].unit: {row.metric} is in {METRICS[row.metric].unit}, not {row.unit[:20]!r}",
                advice="units must be SI; check that edgewise wrote this document",
            )
        if row.session_lengths and (min(row.session_lengths) < 0 or sum(row.session_lengths) != len(row.samples)):
            raise BadInput(
                f"measurements[{index}].session_lengths: they sum to {sum(row.session_lengths)}, "
                f"and there are {len(row.samples)} samples",
                advice="check that edgewise wrote this document",
            )
    if run.profile is not None and run.profile.memory is not None:
        _check_memory(run.profile.memory)
    if run.sustained is not None:
        _check_series(run.sustained.series)


def _check_series(series: Mapping[str, tuple[float | None, ...]]) -> None:
    """Check what reports read of the bins of a sustained run. Raises `BadInput`."""
    missing = [name for name in ALWAYS if name not in series]
    unequal = len(set(map(len, series.values()))) > 1
    if missing or unequal:
        what = f"no column {missing[0]}" if missing else "columns of unequal length"
        raise BadInput(f"sustained.series: {what}", advice="check that edgewise wrote this document")


def _check_memory(memory: Mapping[str, Any]) -> None:
    """Check what reports read of a memory plan. Raises `BadInput`."""
    sizes = [("peak_operator", memory.get("peak_operator"))]
    sizes += [(name, memory.get(name)) for name in ("arena_bytes", "lower_bound_bytes")]
    for name in ("live_bytes", "unknown"):
        items = memory.get(name) or []
        if not isinstance(items, list | tuple):
            raise BadInput(f"profile.memory.{name}: is not a list", advice="check that edgewise wrote this document")
        sizes += [(name, item) for item in items] if name == "live_bytes" else []
    for name, size in sizes:
        if not (size is None and name != "live_bytes") and (not isinstance(size, int) or size < 0):
            raise BadInput(f"profile.memory.{name}: not a count", advice="check that edgewise wrote this document")


def _plain(value: Any, *, path: str) -> Any:
    """`value` as JSON types, what is not finite as None."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, int):
        return int(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: _plain(getattr(value, field.name), path=f"{path}.{field.name}" if path else field.name)
            for field in fields(value)
        }
    if isinstance(value, Mapping):
        return {_text(str(key)): _plain(item, path=f"{path}.{key}") for key, item in value.items()}
    if isinstance(value, list | tuple):
        if _all_finite_floats(value):
            return list(value)
        return [_plain(item, path=f"{path}[{index}]") for index, item in enumerate(value)]
    if hasattr(value, "tolist"):  # numpy's scalars and arrays, without importing numpy
        return _plain(value.tolist(), path=path)
    if hasattr(value, "__fspath__"):
        return _text(str(value))
    raise BadInput(f"{path}: {type(value).__name__} can't be stored", advice="give numbers, text, lists and mappings")


def _text(value: str) -> str:
    """`value` as valid Unicode: what is none, such as stray bytes of a file name, becomes a visible escape."""
    return str(value) if value.isascii() else value.encode("utf-8", "backslashreplace").decode()


def _all_finite_floats(values: Iterable[Any]) -> bool:
    """Whether all are finite floats: a run may have 100,000 samples, so no Python code runs per item."""
    return set(map(type, values)) == {float} and math.isfinite(sum(values))


def _require_finite(value: Any, *, path: str) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise BadInput(f"{path}: {value} is not a setting", advice="omit it to leave the choice open")
    if is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            _require_finite(getattr(value, field.name), path=f"{path}.{field.name}")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            _require_finite(item, path=f"{path}.{key}")


def _with_nan(value: Any, path: tuple[str, ...]) -> Any:
    """`value` with NaN in place of null at `path`; ``*`` in the path is every item of a list."""
    if not path:
        return _nan_for_null(value)
    first, *rest = path
    if first == "*":
        return [_with_nan(item, tuple(rest)) for item in value] if isinstance(value, list | tuple) else value
    if not isinstance(value, Mapping) or first not in value:
        return value
    return {**value, first: _with_nan(value[first], tuple(rest))}


def _nan_for_null(value: Any) -> Any:
    if value is None:
        return math.nan
    if isinstance(value, list | tuple):
        return [math.nan if item is None else item for item in value] if None in value else value
    if isinstance(value, Mapping):
        return {key: math.nan if item is None else item for key, item in value.items()}
    return value
