"""Layer timing in ONNX Runtime, from the profile that the engine writes, mapped to the model's operators.

A separate session is profiled, so that the ordinary one is never slowed. It also saves the graph that the engine made
of the model; `edgewise.runtime.operator_mapping` starts from the names and tensors that this graph shares with the
model's file.
"""

from __future__ import annotations

import re
import tempfile
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from edgewise.runtime.arrays import closed, time_calls
from edgewise.runtime.base import EngineNode, EngineOverhead, EngineProfile, Role, UnsupportedModel
from edgewise.runtime.onnx_functions import has_functions, write_inlined
from edgewise.runtime.onnxruntime_mapping import MappedNode, map_operators
from edgewise.runtime.onnxruntime_session import OnnxSession
from edgewise.runtime.onnxruntime_trace import KernelTimes, KernelTrace, read_trace
from edgewise.runtime.operator_mapping import Outline
from edgewise.runtime.profiler_cost import MOST_EXTRA, Alternation, share_out, take_turns, time_both
from edgewise.runtime.protowire import read_outline
from edgewise.stats.undisturbed import usual_times
from edgewise.wire import Damaged

WARMUP = 3
"""Inferences of the profiled session that are not counted."""
_METHOD = (
    "ONNX Runtime's profiler: the time of each kernel's call, minus the cost of profiling (measured in turns with "
    "inferences without it; the part inside kernels is divided equally)"
)
_RESOLUTION_NS = 1000.0

_NUMBERED = re.compile(r"_token_\d+$")

_EPILOGUE = ("elementwise", "activation", "normalization", "quantize")
_FUSING = ("dequantize", *_EPILOGUE)
#: kinds of operators (`edgewise.model.cost.KINDS`) that a kernel may execute, its own first → kernels
_KERNELS: dict[tuple[str, ...], str] = {
    ("convolution", *_EPILOGUE): "Conv FusedConv NhwcFusedConv NhwcConv",
    ("convolution", *_FUSING): "QLinearConv ConvInteger", ("transposed-convolution", *_EPILOGUE): "ConvTranspose",
    ("matrix-multiplication", *_FUSING): "MatMul FusedMatMul Gemm FusedGemm MatMulNBits QLinearMatMul QGemm "
    "MatMulInteger MatMulIntegerToFloat DynamicQuantizeMatMul",
    ("attention", "matrix-multiplication", "softmax", "movement", *_EPILOGUE): "Attention MultiHeadAttention "
    "GroupQueryAttention QAttention",
    ("recurrent",): "LSTM GRU RNN DynamicQuantizeLSTM",
    ("elementwise", "activation"): "Add Sub Mul Div Sum Pow Sqrt Neg Abs Max Min Mean Where Equal",
    ("elementwise", *_FUSING): "QLinearAdd QLinearMul",
    ("activation", "elementwise"): "Relu LeakyRelu PRelu Clip Sigmoid HardSigmoid HardSwish Tanh Elu Selu Softplus Erf "
    "Exp Log Gelu FastGelu BiasGelu QuickGelu BiasSplitGelu",
    ("activation", "dequantize", "quantize"): "QLinearSigmoid QLinearLeakyRelu",
    ("normalization", "elementwise", "reduction", "activation"): "BatchNormalization LayerNormalization "
    "SkipLayerNormalization SimplifiedLayerNormalization InstanceNormalization GroupNorm LRN LpNormalization "
    "EmbedLayerNormalization",
    ("softmax", "dequantize", "quantize"): "Softmax LogSoftmax QLinearSoftmax",
    ("pooling", "reduction", "dequantize", "quantize"): "MaxPool AveragePool GlobalAveragePool GlobalMaxPool "
    "QLinearAveragePool QLinearGlobalAveragePool",
    ("reduction", "dequantize", "quantize"): "ReduceMean ReduceSum ReduceMax ReduceMin ReduceProd ReduceL2 ArgMax "
    "ArgMin QLinearReduceMean",
    ("resize",): "Resize Upsample", ("quantize",): "QuantizeLinear DynamicQuantizeLinear",
    ("dequantize",): "DequantizeLinear",
    ("movement", "dequantize", "quantize"): "Reshape Flatten Transpose Concat QLinearConcat Split Slice Squeeze "
    "Unsqueeze Pad Gather GatherElements GatherND Expand Tile Identity Shape DepthToSpace SpaceToDepth",
    ("elementwise", "movement"): "Cast", ("sorting",): "TopK NonMaxSuppression NonZero Unique", ("branch",): "If",
    ("loop",): "Loop Scan",
}  # fmt: skip
_KINDS = {kernel: kinds for kinds, kernels in _KERNELS.items() for kernel in kernels.split()}


_MOST_EVENTS = 900_000


class ProfiledOnnxSession(OnnxSession):
    """A session that can time its layers.

    Args:
        path: of the model's file.
        reopen: opens a file with the same settings after its second argument has changed them.
    """

    def __init__(
        self, session: Any, *, path: Path, reopen: Callable[[str, Callable[[Any], None]], Any], **given: Any
    ) -> None:
        super().__init__(session, **given)
        self._path = path
        self._reopen = reopen
        self._given = given
        self._arrays: Sequence[Any] | None = None

    def bind(self, arrays: Sequence[Any]) -> None:
        """Copy one array per input into values that stay bound. Raises ValueError where they don't fit."""
        super().bind(arrays)
        self._arrays = [array.copy() for array in arrays]

    def profile_layers(self, inferences: int) -> EngineProfile:
        """Run inferences in a profiled session of the same settings, and as many ordinary ones in between.

        Raises `CannotProfile`: the engine's profile is damaged, cut off, or differs from one inference to the next.
        """
        if self._arrays is None:
            closed()
        with tempfile.TemporaryDirectory(prefix="edgewise-profile-") as folder:
            path = _write_out(self._path, Path(folder))
            session, saved = self._open(path, Path(folder))
            timing, file = self._run(session, _fitting(inferences, saved or path))
            traced = read_trace(file, inferences=timing.total, counted=timing.counted)
            executed, note = _follow(path, saved, traced.steps)
        return _assemble(traced, timing, executed, note)

    def _open(self, path: Path, folder: Path) -> tuple[Any, Path | None]:
        """Return a profiled session, and the file of the graph it made; None where the engine can't save that."""
        saved = folder / "optimised.onnx"

        def record(settings: Any) -> None:
            settings.enable_profiling = True
            settings.profile_file_prefix = str(folder / "profile")

        def record_and_save(settings: Any) -> None:
            record(settings)
            settings.optimized_model_filepath = str(saved)
            # Weights in a file of their own: a graph of more than 2 GB could not be saved otherwise.
            settings.add_session_config_entry("session.optimized_model_external_initializers_file_name", "weights")
            settings.add_session_config_entry("session.optimized_model_external_initializers_min_size_in_bytes", "64")

        try:
            return self._reopen(str(path), record_and_save), saved
        except Exception:
            # Graphs that a provider has compiled can't be saved. The session itself opened before.
            return self._reopen(str(path), record), None

    def _run(self, engine: Any, inferences: int) -> tuple[Alternation, Path]:
        """Return times of profiled and ordinary inferences, and the engine's profile."""
        session = OnnxSession(engine, **self._given)
        try:
            if self.effective["call"] != session.effective["call"]:
                session.fall_back()
            session.bind(self._arrays or ())
            time_calls(session.invoke, WARMUP)
            alone = self.effective["provider"] == "cpu" and self.effective["threads"] == 1
            profiled = partial(time_both, session.invoke)
            timing = take_turns(self.invoke, profiled, inferences, begun=WARMUP, by_processor=alone)
        finally:
            file = engine.end_profiling()
            session.close()
        return timing, Path(file)

    def close(self) -> None:
        """Release the session."""
        self._arrays = None
        super().close()


def _write_out(path: Path, folder: Path) -> Path:
    """Return the file in which the operators inside functions have the names that the model's reader gives them, too.

    The engine runs both alike, but the names that it makes up itself don't tell one call of a function from another.
    """
    with suppress(UnsupportedModel):  # without the package onnx the names stay the engine's
        return write_inlined(path, folder) if has_functions(path) else path
    return path


def _fitting(inferences: int, path: Path) -> int:
    """As many inferences as the engine's profile, which keeps a million events, has room for; at least three."""
    try:
        steps = len(read_outline(path).nodes)
    except (Damaged, OSError):
        return inferences
    room = _MOST_EVENTS // max(1, steps) - WARMUP
    return max(3, min(inferences, int(room / MOST_EXTRA)))


def _follow(path: Path, saved: Path | None, steps: Sequence[KernelTimes]) -> tuple[list[MappedNode], tuple[str, ...]]:
    """Return what each step executes of the model, and a note where that is not known."""
    empty = [MappedNode() for _ in steps]
    if saved is None:
        return empty, ("the engine can't save the graph that it runs, so steps are known only by type and order",)
    try:
        original, optimised = read_outline(path), read_outline(saved)
    except (Damaged, OSError) as error:
        return empty, (f"the graph that the engine runs could not be read back ({error})",)
    return match_steps(steps, optimised, map_operators(original, optimised))


def match_steps(
    steps: Sequence[KernelTimes], optimised: Outline, executed: Sequence[MappedNode]
) -> tuple[list[MappedNode], tuple[str, ...]]:
    """Return what each timed step executes: the saved graph's operators by name and type, equal ones in order."""
    waiting: dict[tuple[str, str], deque[int]] = {}
    for index, node in enumerate(optimised.nodes):
        waiting.setdefault((node.name, node.op), deque()).append(index)
    found, lost = [], 0
    for step in steps:
        # The engine makes up a name for an operator that has none: its type and a number.
        queue = waiting.get((step.name, step.op)) or waiting.get(("", step.op))
        lost += not queue
        found.append(executed[queue.popleft()] if queue else MappedNode())
    return found, (f"{lost} steps of the engine are not in the graph it saved",) if lost else ()


def _assemble(
    traced: KernelTrace, timing: Alternation, executed: Sequence[MappedNode], notes: tuple[str, ...]
) -> EngineProfile:
    steps = traced.steps
    lengths, outside, whole = _usual_times(traced, timing)
    taken = share_out(timing.excess_us(1e3 * whole) - outside, lengths)
    # Scaled, for a difference of single readings could fall below 0 and the parts would no longer add up.
    times = [
        [value * (1 - less / length) if length else 0.0 for value in step.durations]
        for step, length, less in zip(steps, lengths, taken, strict=True)
    ]
    runs = range(len(timing.walls))
    names: dict[str, int] = {}
    elsewhere = sorted({step.provider for step in steps if step.provider} - {"CPUExecutionProvider"})
    if elsewhere:
        notes += (f"kernels of {', '.join(elsewhere)} may continue after the reported time, which is that of the call",)
    places = [what.place for what in executed if what.place is not None]
    return EngineProfile(
        method=_METHOD, resolution_ns=_RESOLUTION_NS, truncates=True,
        nodes=tuple(
            _node(step, own, less, what, names=names)
            for step, own, less, what in zip(steps, times, taken, executed, strict=True)
        ),
        overheads=(
            _overhead("between operators", [traced.executions[run] - sum(own[run] for own in times) for run in runs]),
            _overhead("session", [traced.sessions[run] - traced.executions[run] for run in runs]),
            _overhead("call", [timing.walls[run] / 1e3 - traced.sessions[run] for run in runs]),
        ),
        **timing.as_times(), ordered=bool(places) and places == sorted(places),
        notes=(timing.describe_cost(taken), *notes),
    )  # fmt: skip


def _usual_times(traced: KernelTrace, timing: Alternation) -> tuple[list[float], float, float]:
    """Mean µs of each kernel, of the time between them, and of an inference, without interruptions."""
    durations = np.array([step.durations for step in traced.steps], dtype=float).reshape(len(traced.steps), -1)
    executions, walls = np.array(traced.executions, dtype=float), np.array(timing.walls) / 1e3
    between = executions - durations.sum(axis=0)
    parts = 1e3 * np.vstack([durations, between, walls - executions])
    means, whole = usual_times(parts, steps=len(durations), processor=timing.processor)
    return [float(mean) / 1e3 for mean in means[:-2]], float(whole - means[:-2].sum() - means[-1]) / 1e3, whole / 1e3


def _overhead(name: str, microseconds: Sequence[float]) -> EngineOverhead:
    return EngineOverhead(name=name, times_ns=tuple(1e3 * value for value in microseconds))


def _node(
    step: KernelTimes, times: Sequence[float], taken: float, executed: MappedNode, *, names: dict[str, int]
) -> EngineNode:
    role: Role = "copy" if step.op.startswith("Memcpy") else executed.role
    name = _stable_name(step, executed)
    names[name] = names.get(name, 0) + 1
    return EngineNode(
        name=name if names[name] == 1 else f"{name} ({names[name]})", op=step.op,
        times_ns=tuple(1e3 * value for value in times), role=role,
        kinds=_KINDS.get(step.op, ()) if role == "operator" else (), originals=executed.originals,
        inputs=executed.inputs, outputs=executed.outputs, start_ns=1e3 * median(step.starts), provider=step.provider,
        dtype=step.dtype,
        # What was taken out follows from times that were cut: less of it, by half a step.
        truncates=False if taken else None, type=step.op, taken_out_ns=1e3 * taken, detail=step.detail,
    )  # fmt: skip


def _stable_name(step: KernelTimes, executed: MappedNode) -> str:
    """Return the engine's name without what differs from one session to the next: numbers, in no fixed order."""
    plain = _NUMBERED.sub("", step.name)
    tensors = (*executed.outputs, *executed.inputs)
    return plain if executed.role == "operator" or not tensors else f"{plain} {tensors[0]}"
