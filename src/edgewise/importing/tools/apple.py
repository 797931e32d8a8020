"""Xcode's performance report of a Core ML model.

Apple documents no field of ``report.json`` in the bundle ``NAME.mlperf`` (``NAME.mlperfreport`` of older versions of
Xcode). Places and units are those of reports that developers published, with jsonVersion 1 and deviceResultVersion 4.
The identity of the device (deviceID, serialNumber, displayName) and the path in modelUrl are private and not read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from edgewise.errors import BadInput
from edgewise.importing.extraction import MOST_ROWS, Part, items_at, make_layer
from edgewise.importing.reading import parse_json, to_word
from edgewise.importing.spec import Field, Form, Importer
from edgewise.record import InputSpec, Layer
from edgewise.record.layer import ESTIMATED_SHARE

_JSON_VERSION = 1
_COMPUTE_UNITS = {"0": "cpu", "1": "cpu+gpu", "2": "all", "3": "cpu+neural-engine"}
"""Values of MLComputeUnits → provider."""
_NO_TIMES = "Core ML estimates the share of each operator in the cost, and times none"
_EPOCH = datetime(2001, 1, 1, tzinfo=UTC)
"""Apple's reference date: times count seconds from here."""
_OPERATIONS = "deviceResults.modelStructure.program._0.functions.main.block.operations[*]"


def _finish(part: Part) -> None:
    version, unit = _find_first(part, part.json, "jsonVersion"), part.settings.get("provider")
    if version != _JSON_VERSION:
        problem = f"jsonVersion is {to_word(version)!r}; only {_JSON_VERSION} is known"
        raise part.source.error("jsonVersion", problem, "export the report from Xcode 16")
    if unit not in (None, *_COMPUTE_UNITS.values()):
        choices = ", ".join(f"{number} ({words})" for number, words in _COMPUTE_UNITS.items())
        raise part.source.error("computeUnit", f"computeUnit is {unit!r}; expected one of {choices}")
    if (start := _find_first(part, part.json, "deviceResults.predict.startTime")) is not None:
        at = "deviceResults.predict.startTime"
        try:
            moment = _EPOCH + timedelta(seconds=part.number(start, "s", at=at, what="startTime"))
        except OverflowError:
            raise part.source.error(at, f"startTime is {to_word(start)!r}; expected seconds since 2001") from None
        part.settings["created"] = moment.isoformat()
    if system := _find_first(part, part.json, "deviceInfo.osNameAndVersionWithoutBuildNumber"):
        part.environment["os"] = {"name": to_word(system)}
    _split_experiments(part)
    _describe_model(part)
    part.layers = _read_operations(part)
    part.effective["preferred_units"] = dict(Counter(layer.provider or "not reported" for layer in part.layers))


def _find_first(part: Part, value: Any, place: str) -> Any:
    """Return the first value at a place of `value`; None without one."""
    return next((raw for _, raw in items_at(part.source, value, place)), None)


def _split_experiments(part: Part) -> None:
    """Divide the times by experiment, and the cold first prediction of each from the others."""
    count, (times,) = part.settings.get("iterations"), part.samples.get("latency", [[]])
    if count is None or not times or len(times) % count:
        problem = f"{len(times)} times of predictions, in experiments of {count or 'an unknown number of'} predictions"
        raise part.source.error("deviceResults.predict.samples", f"{problem}; expected {part.form.expects}")
    experiments = len(times) // count
    for metric, (values,) in part.samples.items():
        size = len(values) if len(values) % experiments else len(values) // experiments
        part.samples[metric] = [values[begin : begin + size] for begin in range(0, len(values), size)]
    part.samples["latency_first"] = [values[:1] for values in part.samples["latency"]]
    part.samples["latency"] = [values[1:] for values in part.samples["latency"] if count > 1]
    part.notes["latency"] = "without the first prediction of each experiment, which is cold: see First inference"
    part.settings["iterations"] = count - 1
    if count == 1:
        del part.samples["latency"], part.settings["iterations"]


def _read_operations(part: Part) -> list[Layer]:
    """Return the operators that Core ML's plan gives a cost, with the compute unit that it prefers for each."""
    layers, pending = list[Layer](), items_at(part.source, part.json, _OPERATIONS)[::-1]
    while pending and len(layers) <= MOST_ROWS:
        at, operation = pending.pop()
        inner = items_at(part.source, operation, "blocks[*].operations[*]")
        pending += [(f"{at}.{place}", each) for place, each in reversed(inner)]
        if (weight := _find_first(part, operation, "cost.weight")) is None:
            continue
        kind = to_word(_find_first(part, operation, "operatorName") or "")
        unit = _find_first(part, operation, "deviceUsage.preferred.deviceType")
        unit = next(iter(unit), "") if isinstance(unit, Mapping) else ""
        layer = make_layer(
            _find_first(part, operation, "outputs[*].name") or kind, kind.rpartition(".")[2], kernel=kind,
            provider="neural-engine" if unit == "neuralEngine" else unit, time=None,
        )  # fmt: skip
        share = part.number(weight, "1", at=f"{at}.cost.weight", what="the weight of an operator")
        layers.append(replace(layer, time_absent_because=_NO_TIMES, attributes={ESTIMATED_SHARE: share}))
    if pending:
        raise part.source.error(at, f"more than {MOST_ROWS} operators")
    return layers


def _describe_model(part: Part) -> None:
    """Read precision and inputs from a JSON text inside the report: a list of one object."""
    at = "modelMetadata.rawMetadata"
    try:
        found = parse_json(replace(part.source, text=str(_find_first(part, part.json, at) or "[]")))
    except BadInput:
        raise part.source.error(at, "expected JSON text") from None
    told = found[0] if isinstance(found, list) and found and isinstance(found[0], Mapping) else {}
    for name, key in (("storage_precision", "storagePrecision"), ("compute_precision", "computePrecision")):
        if word := to_word(told.get(key, "")):
            part.effective[name] = word
    if words := part.effective.get("compute_precision"):
        floats = set(re.findall(r"Float([0-9]+)", words))  # "Mixed (Float16, Int32)" has one floating-point type
        part.settings["precision"] = f"f{floats.pop()}" if len(floats) == 1 else words
    for _, row in items_at(part.source, told, "inputSchema[*]"):
        name, kind, shape, flexible = (
            to_word(_find_first(part, row, key) or "") for key in ("name", "dataType", "shape", "hasShapeFlexibility")
        )
        if flexible not in ("", "0") or not re.fullmatch(r"\[[0-9]{1,9}(, ?[0-9]{1,9}){0,9}\]", shape):
            part.inputs = ()  # an image, or a shape that the report does not have
            return
        sizes = tuple(map(int, shape.strip("[]").split(",")))
        part.inputs += (InputSpec(name=name, shape=sizes, dtype=kind.lower()),)


class CoreMlReport(Importer):
    """``report.json`` of a Core ML performance report."""

    title = "Xcode's Core ML performance report"
    runtime = "coreml"
    absent: Mapping[str, str] = {"latency": "each experiment made one prediction, which is the first inference"}
    forms = (
        Form(
            title="report.json", kind="json", mark=r'"(?:deviceResultVersion|deviceResults|modelMetadata)"\s*:',
            expects="the list deviceResults.predict.samples, and deviceResults.perfRunConfig.predictionCount",
            method="its own timer around each call of Core ML",
            sessions="experiments one after another, taken as processes (the report does not say whether they are)",
            fields=(
                Field("model", "modelMetadata.fileName"),
                Field("model_size", "modelMetadata.size", unit="B"),
                Field("device", "deviceInfo.modelName"),
                Field("provider", "computeUnit", words=_COMPUTE_UNITS),
                Field("iterations", "deviceResults.perfRunConfig.predictionCount"),
                Field("latency", "deviceResults.predict.samples", unit="s", samples=True),
                Field("load_time", "deviceResults.load.samples", unit="s", samples=True),
                Field("compile_time", "deviceResults.compile.samples", unit="s", samples=True),
            ),
            finish=_finish, gives=("latency_first", "precision", "created", "layers"),
        ),
    )  # fmt: skip
