"""Will a pass help *here*? Told before time is spent on it, from operator coverage, the processor and micro-kernels."""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

from edgewise import __version__
from edgewise.folders import job_folder
from edgewise.optimizing.base import Facts, Pass, PassTask, Recipe
from edgewise.optimizing.microbenchmarks import Cache, PassTiming, key_of, time_pass
from edgewise.optimizing.processor import Processor, read_processor
from edgewise.optimizing.reasons import explain
from edgewise.optimizing.subgraph import Extent, Subgraph, choose_subgraph
from edgewise.optimizing.subgraph_files import CUTTERS, CutSettings
from edgewise.optimizing.variant import Prediction
from edgewise.registry import availability_of
from edgewise.runtime.base import runtimes

MODEL_ERROR: Mapping[Extent, float] = {"whole": 0.06, "abridged": 0.1, "sampled": 0.1}
"""Standard deviation of ln(predicted / measured) besides the scatter of the times, per extent of the subgraph.

From benchmarks/preflight.py on two busy cores of an AVX-512 processor: 40 cells of networks × passes × engines for the
whole, and ten with ``--subgraph 2.5``, rounded up.
"""
SHARE_ERROR = 0.2
"""The same per share of the work that a sampled subgraph lacks; from the same ten."""
_RACE_S = 1.0
_LEAST_S = 1.0
"""With less time left a timing is not begun."""
_PARTS = 4
"""One timing's subgraph is so small that so many of them fit the budget."""
_MEMORY_SHARE = 0.8


class Preflight:
    """Predicts what passes do to the speed of one model on this machine.

    Micro-kernels are measured when they are first needed, in processes of their own: the model's own heavy operators,
    float and as the pass would leave them, in the engine in question.

    Args:
        facts: of the model.
        threads: inference threads.
        budget_s: all measuring together takes no longer; what could not be measured has no prediction.
        excerpt_s: what a pass may take for the part of the network that it is tried on; None is a quarter of the
            budget, so that four fit, or a half where the file can't be cut.
        cache: where measurements are kept; None is the user's cache folder.
    """

    def __init__(
        self,
        facts: Facts,
        *,
        threads: int = 1,
        budget_s: float = 30.0,
        subgraph_s: float | None = None,
        cache: Path | None = None,
    ) -> None:
        self._facts = facts
        self._threads = threads
        self._left_s = budget_s
        # What can't be cut is timed on as it is, or not at all: it may take what two others would.
        parts = _PARTS if facts.format in CUTTERS else _PARTS / 2
        self._subgraph_s = max(_LEAST_S, budget_s / parts) if subgraph_s is None else subgraph_s
        self._cache = Cache(cache)

    def predict(self, one: Pass, recipe: Recipe, *, runtime: str, keep_float: Sequence[str] = ()) -> Prediction:
        """The speed-up to expect of the pass's result in `runtime` over the model as it is in the same engine.

        Args:
            keep_float: operators that the pass shall leave as they are.
        """
        because = _say_unfit(one, self._facts, runtime)
        if because:
            return Prediction(speedup=None, because=because)
        subgraph = self._subgraph
        if subgraph is None:
            return Prediction(speedup=None, because="the network is too large to try the pass on in the time given")
        timing = self._time_pass(one, recipe, runtime=runtime, keep_float=keep_float)
        if timing is None:
            return Prediction(speedup=None, because="the time for the pre-flight was used up")
        if timing.failed:
            return Prediction(speedup=None, because=timing.failed)
        if timing.unchanged:
            return Prediction(speedup=None, because="it finds nothing to change")
        return self._weigh(timing, subgraph, one, runtime)

    @cached_property
    def _subgraph(self) -> Subgraph | None:
        return choose_subgraph(self._facts.graph, seconds=self._subgraph_s, cuttable=self._facts.format in CUTTERS)

    @cached_property
    def _processor(self) -> Processor:
        return read_processor()

    @cached_property
    def _folder(self) -> Path:
        stack = ExitStack()
        weakref.finalize(self, stack.close)
        return stack.enter_context(job_folder())

    def _time_pass(self, one: Pass, recipe: Recipe, *, runtime: str, keep_float: Sequence[str]) -> PassTiming | None:
        """From the cache, or measured now; None where no time is left."""
        assert self._subgraph is not None
        import psutil

        registry = runtimes()
        engine = registry.get(runtime)
        provider = engine.providers[0].name
        location = f"{type(one).__module__}:{type(one).__qualname__}"
        processor = self._processor
        key = key_of([
            processor.model, processor.architecture, sorted(processor.flags or ()), runtime,
            availability_of(engine).version, provider, location, availability_of(one).version, __version__,
            recipe.settings.to_document(), list(keep_float), self._subgraph.digest, self._subgraph.extent,
            self._threads,
        ])  # fmt: skip
        if (kept := self._cache.get(key)) is not None:
            return kept
        if self._left_s < _LEAST_S:
            return None
        limit = int(psutil.virtual_memory().available * _MEMORY_SHARE)
        settings = CutSettings(cut=self._cut, input_shapes=self._shapes)
        form = self._facts.format
        cut = PassTask(model=str(self._facts.path), format=form, settings=settings, folder=self._folder)
        task = PassTask(
            model="", format=form, settings=recipe.settings, folder=self._folder, keep_float=tuple(keep_float),
            calibration=self._folder if one.capabilities.calibrates else None, threads=self._threads,
        )  # fmt: skip
        race = {
            "runtime": registry.location(runtime), "provider": provider, "threads": self._threads,
            "shapes": self._shapes, "memory_limit": limit, "seconds": _RACE_S,
        }  # fmt: skip
        begin = time.monotonic()
        found = time_pass(cut, location, task, race, until=begin + self._left_s)
        self._left_s -= time.monotonic() - begin
        if found is not None and found.lasting:
            self._cache.put(key, found)
        return found

    @cached_property
    def _shapes(self) -> dict[str, list[int]]:
        """Concrete shapes of everything that may be fed."""
        assert self._subgraph is not None
        graph = self._facts.graph
        known = {name: graph.tensors[name].shape for name in graph.inputs}
        known.update({boundary.name: boundary.shape for boundary in self._subgraph.inputs})
        sizes = {name: [size for size in shape or () if isinstance(size, int)] for name, shape in known.items()}
        return {name: found for name, found in sizes.items() if len(found) == len(known[name] or ())}

    @cached_property
    def _cut(self) -> dict[str, Any]:
        """What `edgewise.optimizing.subgraph_files.cut_model` needs, JSON-shaped; empty: the file as it is."""
        graph, subgraph = self._facts.graph, self._subgraph
        if subgraph is None or subgraph.extent == "whole":
            return {}
        kept = [graph.operators[index] for index in subgraph.kept]
        return {
            "format": self._facts.format,
            "operators": [
                {"index": each.index, "inputs": list(each.inputs), "outputs": list(each.outputs)} for each in kept
            ],
            "made": [name for operator in graph.operators for name in operator.outputs if name],
            "renamed": dict(subgraph.renamed),
            "inputs": [{"name": each.name, "shape": list(each.shape), "dtype": each.dtype} for each in subgraph.inputs],
            "outputs": list(subgraph.outputs),
        }

    def _weigh(self, timing: PassTiming, subgraph: Subgraph, one: Pass, runtime: str) -> Prediction:
        ratios = [math.log(a / b) for a, b in zip(timing.original, timing.changed, strict=True)]
        centre = median(ratios)
        # The standard error of a median, from the median absolute deviation, as of normal values.
        scatter = 1.4826 * median(abs(ratio - centre) for ratio in ratios)
        error = 1.2533 * scatter / math.sqrt(len(ratios))
        reach = 1.96 * math.hypot(error, MODEL_ERROR[subgraph.extent], SHARE_ERROR * (1.0 - subgraph.share))
        speedup = math.exp(centre)
        remark = self._processor.remark(one.capabilities.arithmetic, helps=speedup > 1.0)
        return Prediction(
            speedup=speedup,
            low=speedup * math.exp(-reach),
            high=speedup * math.exp(reach),
            because=explain(timing, speedup=speedup, remark=remark),
            method=_describe(subgraph, self._facts, one.name, runtime),
        )


def _say_unfit(one: Pass, facts: Facts, runtime: str) -> str:
    """Why nothing can be told of this pass; empty where it can be tried."""
    abilities = one.capabilities
    if abilities.kind == "tuning":
        return "measured directly"
    if abilities.trains:
        return "the result of training can't be predicted"
    if facts.format not in abilities.reads:
        return f"it does not support {facts.format} files"
    if abilities.exact:
        return "it changes no arithmetic and is quick to try"
    if abilities.runtimes and runtime not in abilities.runtimes:
        return f"its results run only in {', '.join(abilities.runtimes)}"
    if runtime not in runtimes().names():
        return f"no runtime is called {runtime}"
    engine = runtimes().get(runtime)
    if not (available := availability_of(engine)):
        return available.reason
    if not (available := availability_of(one)):
        return available.reason
    for form in (facts.format, abilities.writes or facts.format):
        if form not in engine.formats:
            return f"{engine.title} reads no {form} files, so that before and after can't be compared in it"
    return ""


def _describe(subgraph: Subgraph, facts: Facts, name: str, runtime: str) -> str:
    """The method, in words."""
    count, total = len(subgraph.kept), len(facts.graph.operators)
    what = {
        "whole": f"the network's {total} operators",
        "abridged": f"{count} of {total} operators (of repeated blocks two are left)",
        "sampled": f"{count} of {total} operators, {subgraph.share:.0%} of the work",
    }[subgraph.extent]
    return f"{name} on {what}, calibrated on random data; both timed in turns in {runtime}"
