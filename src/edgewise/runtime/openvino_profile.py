"""Layer timing in OpenVINO, from its performance counters, mapped to the model's operators.

A counter of the CPU plug-in is the sum of its readings, each cut to whole microseconds, divided by their number and cut
again (``PerfCount`` and ``Graph::GetPerfData`` in https://github.com/openvinotoolkit/openvino). It starts with the cold
first inference and is never reset. So the model is compiled anew for every block of inferences: while they are few, the
sum is known to a few microseconds, and the difference between two sums is the time of the inferences between them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, islice
from pathlib import Path
from statistics import fmean
from typing import Any

from edgewise.runtime.arrays import closed
from edgewise.runtime.base import CannotProfile, EngineNode, EngineOverhead, EngineProfile, LoadOptions, Role
from edgewise.runtime.openvino_mapping import ExecutionStep, StepOrigin, find_origins
from edgewise.runtime.openvino_session import DTYPES, PASSIVE, OpenVinoSession, call_of, fill
from edgewise.runtime.profiler_cost import Alternation, Timed, take_turns, time_both

BLOCKS = 20
"""Largest number of blocks of inferences; the model is compiled for each."""
COMPILE_S = 8.0
"""Fewer blocks, but three, where compiling takes longer than this in all."""
LEAST_BLOCK = 4
"""Inferences of a block, where there are few: each block begins with `WARMUP` of them that are not counted."""
BLOCK = 20
"""Inferences of a block at most: an interruption spoils the whole block, and a longer one is hardly read better."""
WARMUP = 3
"""Inferences at the beginning of each block that are not counted."""
LONG_NS = 1_000_000
"""Of inferences that take at least this, the counters are read after every one: some microseconds more or less matter
less than interruptions, which meet every block of them beside other work."""
_METHOD = "OpenVINO's performance counters: differences of their sums, over blocks of inferences"
_RESOLUTION_NS = 1000.0
_GENERIC = frozenset({"Eltwise", "Subgraph"})
"""Types that say less than the operators they execute."""

_EPILOGUE = ("elementwise", "activation", "normalization", "quantize", "dequantize")
#: kinds of operators (`edgewise.model.cost.KINDS`) that a layer may execute, its own first → types of layers
_LAYERS: dict[tuple[str, ...], str] = {
    ("convolution", *_EPILOGUE): "Convolution GroupConvolution",
    ("transposed-convolution", *_EPILOGUE): "Deconvolution",
    ("matrix-multiplication", *_EPILOGUE): "FullyConnected MatMul",
    ("attention", "matrix-multiplication", "softmax"): "ScaledDotProductAttention ScaledAttn MHA",
    ("recurrent",): "RNNSeq RNNCell", _EPILOGUE: "Eltwise", (*_EPILOGUE, "softmax", "reduction"): "Subgraph",
    ("quantize", "dequantize"): "FakeQuantize", ("quantize", "dequantize", "elementwise", "movement"): "Convert",
    ("normalization", "reduction", "elementwise"): "MVN NormalizeL2 Lrn RMSNorm", ("softmax",): "Softmax LogSoftmax",
    ("pooling", "reduction", "quantize", "dequantize"): "Pooling AdaptivePooling",
    ("reduction", "pooling", *_EPILOGUE): "Reduce", ("resize",): "Interpolate",
    ("movement",): "Reshape Transpose Concatenation Split StridedSlice Gather GatherND GatherElements Broadcast Tile "
    "Pad ShapeOf DepthToSpace SpaceToDepth ShuffleChannels",
    ("sorting", "reduction"): "TopK NonMaxSuppression NonZero Unique", ("branch",): "If",
    ("loop", "recurrent"): "TensorIterator Loop",
}  # fmt: skip
_KINDS = {layer: kinds for kinds, layers in _LAYERS.items() for layer in layers.split()}


@dataclass(slots=True)
class _Block:
    """Of one block of inferences: their number, mean times in ns, and of every step its mean time in µs.

    Attributes:
        processor: mean processor time.
    """

    count: int
    wall: float
    latency: float
    processor: float
    times: list[float]


@dataclass(slots=True)
class _Counters:
    """What the counters of one compiled model said after some of its inferences.

    Attributes:
        averages: inferences → µs of every step.
    """

    names: list[str] = field(default_factory=list)
    kinds: list[tuple[str, str]] = field(default_factory=list)
    averages: dict[int, list[int]] = field(default_factory=dict)

    def read(self, request: Any, inferences: int) -> None:
        """Keep the counters' values after this number of inferences."""
        told = request.get_profiling_info()
        if not self.names:
            self.names = [entry.node_name for entry in told]
            self.kinds = [(entry.node_type, entry.exec_type) for entry in told]
        self.averages[inferences] = [round(entry.real_time.total_seconds() * 1e6) for entry in told]

    def columns(self) -> list[dict[int, int]]:
        """Of every step: inferences → µs."""
        return [{count: row[at] for count, row in self.averages.items()} for at in range(len(self.names))]


class ProfiledOpenVinoSession(OpenVinoSession):
    """A session that can time its layers.

    Args:
        model: as the engine read it.
        path: of its file.
        compile_anew: the same model compiled once more, with performance counters.
    """

    def __init__(
        self, compiled: Any, options: LoadOptions, tell_more: Callable[[], Mapping[str, Any]], *, model: Any,
        path: Path, compile_anew: Callable[[], Any],
    ) -> None:  # fmt: skip
        super().__init__(compiled, options, tell_more)
        self._model = model
        self._path = path
        self._compile_anew = compile_anew

    def profile_layers(self, inferences: int) -> EngineProfile:
        """Run this number of inferences, at most 400 and the first of each window, with performance counters.

        Each block is one reading. Raises `CannotProfile`: the device is not the CPU, or its counters show nothing.
        """
        if self._arrays is None:
            closed()
        device = self.effective.get("device")
        if device != "CPU":
            raise CannotProfile(f"OpenVINO's counters are supported only on the CPU, not on {device}")
        begin = time.monotonic()
        compiled = self._compile_anew()
        each = time.monotonic() - begin
        most = min(BLOCKS, max(3, inferences // LEAST_BLOCK), max(3, int(COMPILE_S / max(each, 1e-3))))
        count = min(inferences, most)
        blocks: list[_Block] = []
        turns: list[Alternation] = []
        steps = None
        for index in range(count):
            if compiled is None:
                compiled = self._compile_anew()
            found, taken, counters = self._run(compiled, min(BLOCK, (inferences + index) // count))
            blocks += found
            turns.append(taken)
            if steps is None:
                steps = _Steps(compiled, counters)
            # Names that the engine makes up have a number that grows from one compilation to the next.
            if counters.kinds != steps.kinds:
                raise CannotProfile("OpenVINO compiled the same model to different steps the second time")
            compiled = None
        assert steps is not None
        origins = dict(zip(steps.placed, find_origins(self._model, self._path, steps.parts()), strict=True))
        return _assemble(blocks, turns, steps, origins)

    def _run(self, compiled: Any, count: int) -> tuple[list[_Block], Alternation, _Counters]:
        """One compiled model: inferences with counters in turns with ordinary ones, after a few to warm up.

        They are one block, or, of long inferences, each is one.
        """
        request = compiled.create_infer_request()
        fill(request, self._arrays or [])
        invoke, counters = call_of(request), _Counters()
        # Reading the counters takes a while and cools the caches: no more often than is needed.
        _time(invoke, request, 1)
        counters.read(request, 1)
        is_long = min(min(wall, spent) for wall, spent, _ in _time(invoke, request, WARMUP - 1)) >= LONG_NS
        counters.read(request, WARMUP)
        calls: list[_Call] = []

        def profiled(number: int) -> list[Timed]:
            for _ in range(number):
                calls.extend(_time(invoke, request, 1))
                if is_long:
                    counters.read(request, WARMUP + len(calls))
            return [(wall, spent) for wall, spent, _ in calls[-number:]]

        turns = take_turns(self.invoke, profiled, count, by_processor=self.effective.get("threads") == 1)
        if not is_long:
            counters.read(request, WARMUP + turns.total)
        columns = counters.columns()
        if is_long:
            return [_block([calls[at]], columns, reading=at + 2) for at in turns.counted], turns, counters
        # The counters leave no inference out, so none is left out here.
        return [_block(calls, columns, reading=2)], turns, counters

    def close(self) -> None:
        """Release requests and models."""
        self._model = None
        super().close()


_Call = tuple[int, int, float]


def _block(calls: Sequence[_Call], columns: Sequence[Mapping[int, int]], *, reading: int) -> _Block:
    """Means of `calls`, which were between the reading before and this one, by its place."""
    wall, processor, latency = (fmean(times) for times in zip(*calls, strict=True))
    times = [mean_increase(dict(islice(column.items(), reading + 1))) for column in columns]
    return _Block(len(calls), wall, latency, processor, times)


def _time(invoke: Callable[[], object], request: Any, count: int) -> list[_Call]:
    """Nanoseconds of `count` calls by our clock, of processor time, and by the engine's clock."""
    return [(*time_both(invoke, 1)[0], request.latency * 1e6) for _ in range(count)]


class _Steps:
    """The steps of a compiled model.

    Attributes:
        kinds: type and kernel of everything the counters list.
        placed: names of all that have a place in the graph that runs, in the order of execution.
        shown: those that can run, with their place among what the counters list; views on another's memory never do.
        ran: those that took a whole microsecond, be it the first time.
    """

    def __init__(self, compiled: Any, counters: _Counters) -> None:
        self.kinds = counters.kinds
        self.info: dict[str, dict[str, str]] = {}
        self._fed_with: dict[str, tuple[str, ...]] = {}
        for op in compiled.get_runtime_model().get_ordered_ops():
            info = op.get_rt_info()
            name = op.get_friendly_name()
            self.info[name] = {key: info[key].astype(str) for key in info}
            sources = [port.get_source_output().get_node().get_friendly_name() for port in op.inputs()]
            self._fed_with[name] = tuple(sources)
        self.types = dict(zip(counters.names, counters.kinds, strict=True))
        # What was fused into a step is listed after it and has no place in the graph that runs.
        self.placed = [name for name in self.types if self.layer(name) not in PASSIVE]
        self.ran = {
            name for name, column in zip(counters.names, counters.columns(), strict=True) if any(column.values())
        }
        self.shown = {
            name: counters.names.index(name)
            for name in self.placed
            if name in self.ran or not self.types[name][1].startswith("unknown")
        }
        if not self.ran & self.shown.keys():
            raise CannotProfile("no step in OpenVINO's counters takes a whole microsecond: the model is too small")

    def parts(self) -> list[ExecutionStep]:
        """Return what the engine says each step was made of."""
        return [
            ExecutionStep((name, self.info[name].get("originalLayersNames", "")), self._fed_with[name])
            for name in self.placed
        ]

    def layer(self, name: str) -> str:
        """Type of layer; one that nothing shows counts as passive."""
        return self.info.get(name, {}).get("layerType", "Const")

    def precision(self, name: str) -> str:
        """Of its outputs."""
        return self.info.get(name, {}).get("outputPrecisions", "")

    def role(self, name: str, origin: StepOrigin) -> Role:
        """Return what a step is for."""
        layer = self.layer(name)
        if origin.originals:
            return "operator"
        if layer in ("Reorder", "Convert") and self.precision(name) != self.precision(
            "".join(self._fed_with[name][:1])
        ):
            return "precision"
        if layer in ("Reorder", "Transpose"):
            return "layout"
        conversions = {"Convert", "FakeQuantize", "Multiply", "Subtract", "Transpose"}
        made = origin.types or {name.partition("_")[0]}
        if made <= conversions and made & {"Convert", "FakeQuantize"}:
            return "precision"
        return "operator"


def mean_increase(averages: Mapping[int, int]) -> float:
    """Mean of the readings between the last two counts, µs, from the running averages at some counts of readings.

    The sum after n readings lies between n × average and n × average + n − 1, and never falls; its middle is taken.
    Where the last average is below 1 it counts as 0: most readings were cut to 0, and more is not known. `averages`:
    number of readings → their average in whole microseconds, cut; at least two, in rising order.
    """
    counts = list(averages)
    if not averages[counts[-1]]:
        return 0.0
    low = list(accumulate((count * averages[count] for count in counts), max))
    tops = (count * averages[count] + count - 1 for count in reversed(counts))
    high = list(accumulate(tops, min))[::-1]
    increase = (low[-1] + high[-1] - low[-2] - high[-2]) / 2
    return max(0.0, increase) / (counts[-1] - counts[-2])


def _assemble(
    blocks: Sequence[_Block], turns: Sequence[Alternation], steps: _Steps, origins: Mapping[str, StepOrigin]
) -> EngineProfile:
    """Return the profile; `origins` of all steps that have a place."""
    total = sum(block.count for block in blocks)
    gaps = [block.latency - 1e3 * sum(block.times[at] for at in steps.shown.values()) for block in blocks]
    places = [place for name in steps.shown if (place := origins[name].place) is not None]
    idle = [each for name, origin in origins.items() if name not in steps.shown for each in origin.originals]
    return EngineProfile(
        method=_METHOD, resolution_ns=_RESOLUTION_NS, truncates=True,
        nodes=tuple(
            _node(name, [1e3 * block.times[at] for block in blocks], steps, origins[name])
            for name, at in steps.shown.items()
        ),
        overheads=(
            EngineOverhead(name="between operators", times_ns=tuple(gaps)),
            EngineOverhead(name="call", times_ns=tuple(block.wall - block.latency for block in blocks)),
        ),
        inference_ns=tuple(round(block.wall) for block in blocks),
        unprofiled_ns=tuple(plain for each in turns for plain in each.plain),
        pairs_ns=tuple(pair for each in turns for pair in each.pairs),
        processor_ns=tuple(block.processor for block in blocks if turns[0].which), inferences=total,
        ordered=bool(places) and places == sorted(places), idle=tuple(dict.fromkeys(idle)),
        notes=(
            f"each of the {len(blocks)} readings is the mean of a block of inferences, {total} in total, because the "
            "engine reports only sums",
        ),
    )  # fmt: skip


def _node(name: str, times: Sequence[float], steps: _Steps, origin: StepOrigin) -> EngineNode:
    layer, (kind, kernel), info = steps.layer(name), steps.types[name], steps.info[name]
    role = steps.role(name, origin)
    told = (("layout", "outputLayouts"), ("made_of", "originalLayersNames"))
    detail: Mapping[str, Any] = {"type": kind, **{title: info[key] for title, key in told if info.get(key)}}
    return EngineNode(
        name=name, op=f"{layer} {kernel}", times_ns=tuple(times), role=role,
        kinds=(_KINDS.get(kind) or _KINDS.get(layer, ())) if role == "operator" else (), originals=origin.originals,
        provider="CPU", dtype=DTYPES.get(info.get("runtimePrecision", "")), type="" if layer in _GENERIC else layer,
        detail=detail,
    )  # fmt: skip
