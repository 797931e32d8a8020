"""NVIDIA's AIPerf: the statistics of requests to a server of a language model.

Format: ``profile_export_aiperf.json`` with the schemas 1.0 to 1.5 (``docs/reference/json-export-schema.md`` and
``src/aiperf/common/models/export_models.py`` of github.com/ai-dynamo/aiperf). The configuration has two shapes: of
``UserConfig`` (``endpoint.model_names``, ``loadgen``) and, since 0.9, of ``BenchmarkConfig`` (``models.items``,
``phases``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgewise.importing.extraction import Part
from edgewise.importing.reading import to_word
from edgewise.importing.spec import Field, Form, Importer

_METRICS = (
    ("ttft", "time_to_first_token", "p50", "median of the requests, with the network and the queue of the server"),
    ("tpot", "inter_token_latency", "avg", "mean of the requests' means, with the network"),
    ("decode_rate", "output_token_throughput_per_user", "avg", "mean of the requests' rates, with the network"),
)
"""Metric, key, statistic that the metric is, and what it is of."""
_LENGTHS = (("prompt_tokens", "input_sequence_length"), ("new_tokens", "output_sequence_length"))
_RATE = "tokens/sec"


def _finish(part: Part) -> None:
    for metric, key, statistic, note in _METRICS:
        block = _find_block(part, key)
        if statistic not in block:
            continue
        unit = str(block.get("unit", ""))
        unit = "1/s" if unit.startswith(_RATE) else unit
        at = f"{key}.{statistic}"
        part.values[metric] = part.number(block[statistic], unit, at=at, what=metric)
        part.notes[metric] = note
    for name, key in _LENGTHS:
        block = _find_block(part, key)
        if "min" in block and block["min"] == block.get("max"):  # requests of several lengths have none of their own
            part.set(name, block["min"], at=f"{key}.min")
    part.settings["batch"] = 1  # a request has one sequence
    if version := part.json.get("aiperf_version"):
        part.effective["aiperf_version"] = to_word(version)
    _find_failures(part)


def _find_failures(part: Part) -> None:
    """Tell of requests that failed, whose times AIPerf leaves out, and of a benchmark that was ended early."""
    failed, done = (
        part.number(_find_block(part, key).get("avg", 0), "1", at=f"{key}.avg", what="a number of requests")
        for key in ("error_request_count", "request_count")
    )
    told = [f"{failed:g} of {failed + done:g} requests failed and are left out"] if failed else []
    told += ["the benchmark was cancelled before its end"] if part.json.get("was_cancelled") is True else []
    part.left_out = "; ".join(told)


def _find_block(part: Part, key: str) -> Mapping[str, Any]:
    """Return the statistics of one of AIPerf's metrics; empty where the file lacks it."""
    block = part.json.get(key) or {}
    if not isinstance(block, Mapping):
        raise part.source.error(key, f"expected an object, not {type(block).__name__}")
    return {name: value for name, value in block.items() if value is not None}


class AIPerf(Importer):
    """``profile_export_aiperf.json`` of ``aiperf profile``."""

    title = "AIPerf"
    runtime = "server"
    absent: Mapping[str, str] = {
        "ttft": "the requests were not streamed",
        "tpot": "the requests were not streamed",
        "decode_rate": "the requests were not streamed",
        "ttft_model": "AIPerf times the answers of a server and not its model",
        "prefill_rate": "AIPerf divides by the time to first text, with the network and the queue of the server",
    }
    forms = (
        Form(
            title="profile_export_aiperf.json", kind="json",
            mark=r'"aiperf_version"\s*:[\s\S]*"request_latency"\s*:\s*\{',
            expects="the objects time_to_first_token and inter_token_latency", method="AIPerf's clock of the client",
            fields=(
                Field("model", "input_config.endpoint.model_names[*]"),
                Field("model", "input_config.models.items[*].name"),
                Field("requests", "input_config.loadgen.concurrency"),
                Field("created", "start_time"),
            ),
            finish=_finish, gives=("ttft", "tpot", "decode_rate", "prompt_tokens", "new_tokens", "batch"),
            scenario="generate", one_at_a_time=False,
        ),
    )  # fmt: skip
