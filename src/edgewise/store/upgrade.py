"""Old documents made new, on read, by a chain of pure functions: one step a schema number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from edgewise.errors import BadInput
from edgewise.record import SCHEMA
from edgewise.units import format_quantity

Document = dict[str, Any]
Step = Callable[[Document], Document]

_CALL = "monotonic clock around each call of the engine"
_ENGINE = "the engine's own clock around each inference"


def _latency_is_the_call(document: Document) -> Document:
    """Schema 1 → 2: `latency` and `latency_paced` are the engine's call; `latency_engine` is the engine's own clock.

    In schema 1 they were by the engine's own clock where it had one, and ``latency_call`` was the call. Where the call
    was not recorded, the latency becomes absent: nothing tells what the call took.
    """
    rows = document.get("measurements")
    if not isinstance(rows, list | tuple) or not all(isinstance(row, Mapping) for row in rows):
        return document
    if any(row.get("metric") == "latency_call" for row in rows):
        names = {"latency": "latency_engine", "latency_call": "latency"}
        rows = [{**row, "metric": names.get(str(row.get("metric")), row.get("metric"))} for row in rows]
        rows.sort(key=lambda row: row["metric"] != "latency")  # the headline first
    elif by_engine := [row for row in rows if _is_by_engine(row, document)]:
        # Of a paced run the headline, which comes first: the schema has one figure by the engine's clock.
        engine = {**by_engine[0], "metric": "latency_engine"}
        engine["method"] = str(engine["method"]).replace(_CALL, _ENGINE)
        rows = [_without_call(row) if row in by_engine else _about_engine(row) for row in rows] + [engine]
        if by_engine[0]["metric"] == _headline(document) and document.get("trust"):
            document["trust"] = {"grade": "D", "reasons": ["no headline value"]}
    else:
        return document
    sessions = document.get("sessions")
    if isinstance(sessions, list | tuple):
        document["sessions"] = [_with_engine_warmup(one) if isinstance(one, Mapping) else one for one in sessions]
    return {**document, "measurements": rows}


def _is_by_engine(row: Mapping[str, Any], document: Document) -> bool:
    """Whether a latency of schema 1 is by the engine's own clock; of paced runs on OpenVINO the method was wrong."""
    method = str(row.get("method"))
    wrong = _headline(document) == "latency_paced" and _at(document, "job", "runtime", "name") == "openvino"
    return (
        row.get("metric") in ("latency", "latency_paced")
        and isinstance(row.get("value"), float)
        and (method.startswith("the engine's own clock") or (wrong and method.startswith(_CALL)))
    )


def _without_call(row: Mapping[str, Any]) -> Document:
    value = format_quantity(row["value"], "s")
    why = f"this record of schema 1 has it by the engine's own clock alone (median {value}), not around the call"
    return {"metric": row["metric"], "unit": "s", "basis": None, "method": "", "value": None, "absent_because": why}


def _about_engine(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The ratio of two latencies, saying that both were by the engine's clock; any other row as it is."""
    if row.get("metric") != "idle_gap_penalty":
        return row
    return {**row, "method": f"{row.get('method')}, both by the engine's own clock"}


def _with_engine_warmup(session: Mapping[str, Any]) -> Mapping[str, Any]:
    """The warm-up's times by the engine's clock, kept where they pretend nothing."""
    times, facts = session.get("warmup_samples"), session.get("facts") or {}
    if not times or not isinstance(facts, Mapping):
        return session
    return {**session, "warmup_samples": [], "facts": {**facts, "warmup_samples_engine": times}}


def _headline(document: Document) -> str:
    return "latency_paced" if _at(document, "job", "workload", "scenario", "kind") == "paced" else "latency"


def _at(value: Any, *path: str) -> Any:
    """What lies at `path` in nested mappings; None where nothing does."""
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


#: schema number → the function that turns a document of that number into one of the next. Steps may change the
#: document they are given: `upgrade` hands them one that nobody else holds at its top level, and they must not
#: change what lies below in place.
STEPS: dict[int, Step] = {1: _latency_is_the_call}


def upgrade(document: Mapping[str, Any], *, steps: Mapping[int, Step] = STEPS, target: int = SCHEMA) -> Document:
    """`document` as one of schema `target`, by as many of `steps` as it takes. The argument is not changed.

    Raises:
        BadInput: no schema number, one that is newer than `target`, or one that no step leads away from.
    """
    schema = schema_of(document)
    if schema > target:
        raise BadInput(
            f"this record has schema {schema}: it was written by a newer edgewise (this one reads up to {target})",
            advice="update edgewise",
        )
    current = dict(document)
    for number in range(schema, target):
        if number not in steps:
            raise BadInput(
                f"schema {schema} can't be upgraded to {target}", advice=("report this to the authors of edgewise")
            )
        current = {**steps[number](current), "schema": number + 1}
    return current


def schema_of(document: Mapping[str, Any]) -> int:
    """The schema number that `document` carries. Raises `BadInput` where it carries none."""
    schema = document.get("schema")
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise BadInput(
            "schema: a record must have its schema number, a whole number from 1",
            advice="check that edgewise wrote this document",
        )
    return schema
