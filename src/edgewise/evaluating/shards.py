"""Shards of an evaluation, which other processes run: which samples each has, its results as text, and all together."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from edgewise.errors import BadInput
from edgewise.evaluating.checkpoint import Entry
from edgewise.evaluating.evaluator import ModelUnderTest, SampleResults
from edgewise.version import __version__

_KEPT = ("notes", "fed", "effective", "example")
"""Fields of `SampleResults` that a shard gives beside its entries."""


def select_shard(indices: Sequence[int], number: int, count: int) -> Sequence[int]:
    """Return the samples of shard `number` of `count`, from 1: a run of `indices`, as long as those of the others."""
    return indices[len(indices) * (number - 1) // count : len(indices) * number // count]


def write_results(tested: ModelUnderTest, results: SampleResults) -> str:
    """Return the results of a shard as text, NaN as JSON lacks it. Raises `BadInput` where shards change answers."""
    if results.batch > 1:
        raise BadInput(
            f"{tested.job.model.name} answers {results.batch} samples at once, and which ones depends on the shards",
            advice="leave ⟦lab⟧ out, or export the model with a batch of 1",
        )
    kept = {name: getattr(results, name) for name in _KEPT}
    kept |= {"engine": engine_of(tested), "entries": [entry.to_document() for entry in results.entries]}
    return json.dumps(kept, default=dict, separators=(",", ":"))


def engine_of(tested: ModelUnderTest) -> list[str]:
    """Return what must be the same for all shards: the engine, its version and settings, and what prepares samples."""
    runtime = tested.job.runtime
    own = (runtime.name, runtime.version, runtime.provider, runtime.precision, f"with edgewise {__version__}")
    return [str(one) for one in own if one]


def read_results(text: str, tested: ModelUnderTest, wanted: Sequence[int], host: str) -> SampleResults:
    """Return what `write_results` gave at `host`. Raises `BadInput` for another engine, and samples but `wanted`."""
    found: dict[str, Any] = json.loads(text)
    entries = tuple(map(Entry.read, found["entries"]))
    if found["engine"] != engine_of(tested):
        theirs, ours = (" ".join(one) for one in (found["engine"], engine_of(tested)))
        raise BadInput(f"{host} runs {tested.job.model.name} in {theirs}, and this machine has {ours}",
                       advice="install the same versions on all of them; then ⟦fresh⟧")  # fmt: skip
    if [entry.index for entry in entries] != list(wanted):
        raise BadInput(f"{host} gave {len(entries)} of {len(wanted)} samples", advice="try again with ⟦fresh⟧")
    fed = {name: (low, high) for name, (low, high) in found["fed"].items()}  # JSON has lists
    return SampleResults(
        entries=entries, notes=tuple(found["notes"]), fed=fed, effective=found["effective"], example=found["example"],
        hosts={host: len(entries)},
    )  # fmt: skip


def join_results(
    shards: Sequence[SampleResults], *, seconds: float, processors: Mapping[str, str] = MappingProxyType({})
) -> SampleResults:
    """Return the results of all shards as those of one process, but for its times; failed where one of them has.

    `processors`: of hosts, where they are known.
    """
    fed: dict[str, tuple[float, float]] = {}
    hosts = Counter[str]()
    for shard in shards:
        hosts.update(shard.hosts)
        for name, (low, high) in shard.fed.items():
            lowest, highest = fed.get(name, (low, high))
            fed[name] = min(lowest, low), max(highest, high)
    return replace(
        shards[0], entries=tuple(entry for shard in shards for entry in shard.entries), fed=fed, hosts=hosts,
        processors={host: processors[host] for host in hosts if host in processors},
        failure=next((shard.failure for shard in shards if shard.failure is not None), None),
        seconds=seconds, untimed="hosts of a lab ran the samples: 'edgewise bench' measures latency",
        example=next((shard.example for shard in shards if shard.example is not None), None),
    )  # fmt: skip
