"""Benchmark tools of engines that run on a device without Python: their command lines, and what they print.

Their formats are those of their sources: for LiteRT's benchmark_model, TensorFlow 2.4 to 2.20, ``tensorflow/lite``:
``tools/benchmark/benchmark_model.cc`` and ``benchmark_tflite_model.cc``, ``profiling/profile_summarizer.cc``, and
``tsl/util/stats_calculator.cc``, and for LiteRT 2's tool of the same name ``litert/tools/benchmark_litert_model.h`` of
github.com/google-ai-edge/LiteRT; for onnxruntime_perf_test, ONNX Runtime 1.14 to 1.23, ``onnxruntime/test/perftest``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from edgewise.model.signature import Shape
from edgewise.runtime.base import EngineNode, EngineProfile, OnDevices, Provider, Runtime, UnsupportedModel
from edgewise.runtime.litert_xnnpack import interpret_steps

EXECUTOR = "device-tools"
ToolMode = Literal["measure", "layers", "memory"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRequest:
    """What one execution of a tool is to do.

    Attributes:
        program, model, results: paths on the device: the tool, the model, a file for results that are not printed.
        runs, warmup: number of timed inferences, at least, and of untimed ones before; None leaves them to the tool.
        seconds: least measuring time; None where `runs` alone counts.
        most_seconds: the tool starts no further inference after this time.
        inputs: name → the model's own shape and the one to run, in the model's order.
        mode: what to find out: latency, times of layers, or the peak of memory.
    """

    program: str
    model: str
    results: str
    provider: str
    precision: str | None = None
    threads: int | None = None
    runs: int | None = None
    warmup: int | None = None
    seconds: float | None = None
    most_seconds: float
    inputs: Mapping[str, tuple[Shape | None, tuple[int, ...]]] = field(default_factory=dict)
    mode: ToolMode = "measure"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAnswer:
    """What a tool printed.

    Attributes:
        latency_ns: time of every timed inference; where the tool gives only statistics, their mean alone.
        statistics: the tool's own figures of the timed inferences, s: ``mean``, ``min``, ``max``, ``std`` and others;
            ``count`` is their number. Empty where the tool gives every time.
        load_ns, first_ns: time to load the model, and of the first inference; None where the tool gives none.
        memory: bytes by what they are: ``load`` and ``delta``, growth since the start of the tool after loading and
            after the last inference; ``peak`` of the process.
        delegates: what delegates took: ``name``, ``nodes``, ``of`` (None where not told), ``partitions``.
        threads: number of threads that the tool says it uses; None where it does not say.
        applied: whether the tool says that it applied the provider that was asked for.
        ignored: a flag that the tool says it does not know, although its result depends on it; "" for none.
        profile: times of layers, where they were asked for and are there.
    """

    latency_ns: tuple[int, ...]
    statistics: Mapping[str, float] = field(default_factory=dict)
    load_ns: int | None = None
    first_ns: int | None = None
    memory: Mapping[str, int] = field(default_factory=dict)
    delegates: tuple[Mapping[str, Any], ...] = ()
    threads: int | None = None
    applied: bool = True
    ignored: str = ""
    profile: EngineProfile | None = None


@runtime_checkable
class DeviceTool(Runtime, Protocol):
    """A runtime whose sessions are executions of a program on a device.

    Attributes:
        executor: ``device-tools``.
        clock: what times the inferences, in words.
        modes: what it can find out.
    """

    executor: str
    clock: str
    modes: Sequence[ToolMode]

    def command(self, request: ToolRequest) -> Sequence[str]:
        """Return the words of the command line. Raises `UnsupportedModel` for a setting that the tool does not have."""

    def read(self, output: str, results: str, request: ToolRequest) -> ToolAnswer:
        """Understand standard output and error together, and the file of results. Raises ValueError."""


_NUMBER = r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"


_APPLIED = {"gpu": ("gpu", "litert_"), "npu": ("dispatchdelegate",)}
"""Provider → what the names of its delegates contain, in small letters. LiteRT 2 calls one of GPUs LITERT_CL."""
_DECISIVE = ("--input_layer_shape=", "--xnnpack_force_fp16=true")
"""Flags of TensorFlow Lite's tool on which a result depends and that LiteRT 2 does not have."""


class BenchmarkModel(OnDevices):
    """The ``benchmark_model`` of TensorFlow Lite and of LiteRT 2, each of which ignores the other's flags."""

    name = "benchmark_model"
    executor = EXECUTOR
    title = "LiteRT benchmark_model"
    formats = ("tflite",)
    providers = (
        Provider(name="xnnpack", title="XNNPACK", precisions=("f32", "f16")),
        Provider(name="builtin", title="built-in kernels"),
        Provider(name="gpu", title="TfLiteGpuDelegateV2", precisions=("f32", "f16"), accelerator=True),
        Provider(name="npu", title="DispatchDelegate", accelerator=True),
        Provider(name="nnapi", title="TfLiteNnapiDelegate", precisions=("f32", "f16"), accelerator=True),
    )
    clock = "benchmark_model's own timer (whole microseconds), mean over the inferences of each session"
    modes: Sequence[ToolMode] = ("measure", "layers", "memory")

    def command(self, request: ToolRequest) -> Sequence[str]:
        """As `DeviceTool.command`."""
        half = str(request.precision == "f16").lower()
        flags: dict[str, Any] = {
            "graph": request.model, "use_xnnpack": str(request.provider == "xnnpack").lower(),
            "num_threads": request.threads, "num_runs": request.runs or 1, "min_secs": request.seconds or 0,
            "max_secs": request.most_seconds, "warmup_runs": request.warmup,
            "warmup_min_secs": None if request.warmup is None else 0,
        }  # fmt: skip
        if request.provider == "xnnpack":
            flags["xnnpack_force_fp16"] = half
        if request.provider == "gpu":
            flags |= {"use_gpu": "true", "gpu_precision_loss_allowed": half, "allow_fp16": half}
        if request.provider == "npu":
            libraries = request.program.rpartition("/")[0]
            flags |= {"use_npu": "true", "dispatch_library_path": libraries, "compiler_plugin_library_path": libraries}
        if request.provider == "nnapi":
            flags |= {"use_nnapi": "true", "nnapi_allow_fp16": half}
        if any(own != shape for own, shape in request.inputs.values()):
            flags["input_layer"] = ",".join(request.inputs)
            flags["input_layer_shape"] = ":".join(",".join(map(str, shape)) for _, shape in request.inputs.values())
        if request.mode == "layers":
            flags["enable_op_profiling"] = "true"
        if request.mode == "memory":
            flags["report_peak_memory_footprint"] = "true"
        words = {name: f"{value:g}" if isinstance(value, float) else value for name, value in flags.items()}
        return [request.program, *(f"--{name}={word}" for name, word in words.items() if word is not None)]

    def read(self, output: str, results: str, request: ToolRequest) -> ToolAnswer:
        """As `DeviceTool.read`."""
        statistics = [_statistics(line) for line in re.findall(r"^(?:INFO: )?(count=[1-9].*)$", output, re.MULTILINE)]
        times = _times_ns(output, statistics[-1]["mean"]) if statistics else None
        if times is None:
            raise ValueError("it printed no 'Inference timings'")
        load, first, mean = times
        if min(times) < 0 or not all(0 <= value < math.inf for value in statistics[-1].values()):
            raise ValueError("it printed times that are not possible")
        delegates = tuple(
            {"name": name, "nodes": int(nodes), "of": int(of) if of else None, "partitions": int(partitions)}
            for nodes, of, name, partitions in re.findall(
                r"Replacing (\d+)(?: out of (\d+))? node\(s\) with delegate \((\w+)\) node, yielding (\d+) partitions",
                output,
            )
        )
        # Each tool's word for it: "Explicitly applied GPU delegate", "Replacing … with delegate (TfLiteGpuDelegateV2)".
        told = " ".join(
            [*re.findall(r"Explicitly applied (\w+) delegate", output), *(each["name"] for each in delegates)]
        ).lower()
        applied = any(word in told for word in _APPLIED.get(request.provider, (request.provider,)))
        if request.provider == "builtin":
            applied = not told  # LiteRT 2 can't leave XNNPACK out
        return ToolAnswer(
            latency_ns=(mean,), statistics=statistics[-1], load_ns=load, first_ns=first, memory=_memory(output),
            delegates=delegates,
            threads=_scaled(r"#threads used for CPU inference: \[(\d+)\]", output, 1)
            or _scaled(r"Num threads: \[(\d+)\]", output, 1),
            ignored=next((flag.rstrip("=") for flag in _DECISIVE if re.search(rf"Unconsumed .*{flag}", output)), ""),
            applied=applied and f"failed to apply {request.provider}" not in output.lower(),
            profile=_profile(output, mean, int(statistics[-1]["count"])) if request.mode == "layers" else None,
        )  # fmt: skip


def _times_ns(output: str, mean_s: float) -> tuple[int, int, int] | None:
    """Return the times to load, of the first inference and of the mean; None where the tool printed no results."""
    if timings := re.search(
        rf"Inference timings in us: Init: ({_NUMBER}), First inference: ({_NUMBER}), "
        rf"Warmup \(avg\): \S+, Inference \(avg\): ({_NUMBER})",
        output,
    ):
        load, first, mean = (round(float(value) * 1e3) for value in timings.groups())
        return load, first, mean
    results = output.rpartition("BENCHMARK RESULTS")[2]
    load_ns = _scaled(rf"Model initialization: ({_NUMBER}) ms", results, 1e6)
    first_ns = _scaled(rf"(?:Warmup \(first\)|First inference): +({_NUMBER}) ms", results, 1e6)
    return None if load_ns is None or first_ns is None else (load_ns, first_ns, round(mean_s * 1e9))


def _statistics(line: str) -> dict[str, float]:
    """One ``count=… first=… avg=…`` line, times in s; for times that are all the same the tool prints only ``curr``."""
    told = {name: float(value) for name, value in re.findall(rf"(\w+)=({_NUMBER})", line)}
    if "avg" not in told:
        told |= {**dict.fromkeys(("avg", "min", "max"), told.get("curr", math.nan)), "std": 0.0}
    names = {"avg": "mean", "min": "min", "max": "max", "std": "std", "p5": "p5", "median": "median", "p95": "p95"}
    return {"count": told["count"]} | {new: told[old] * 1e-6 for old, new in names.items() if old in told}


def _memory(output: str) -> dict[str, int]:
    """Bytes; the tool prints KiB divided by 1024 and calls them MB."""
    found = {}
    growth = re.search(
        rf"(?:Memory footprint delta from the start of the tool|Peak memory footprint) \(MB\): "
        rf"init=({_NUMBER}) overall=({_NUMBER})",
        output,
    ) or re.search(rf"Init footprint: +({_NUMBER}) MB\n.*Overall footprint: +({_NUMBER}) MB", output)
    if growth is not None:
        found = {"load": round(float(growth[1]) * 2**20), "delta": round(float(growth[2]) * 2**20)}
    if peak := re.search(
        rf"(?:Overall peak memory footprint \(MB\) via periodic monitoring|Peak memory): +({_NUMBER})", output
    ):
        found["peak"] = round(float(peak[1]) * 2**20)
    return found


def _profile(output: str, mean_ns: int, count: int) -> EngineProfile | None:
    """Return the table "Run Order" of the regular runs; None where there is none.

    XNNPACK's own steps stand beside the operator that contains them, which is left out then.
    """
    _, header, section = output.partition("Operator-wise Profiling Info for Regular Benchmark Runs:")
    lines = section.partition("= Run Order =")[2].splitlines() if header else []
    titles: list[str] = []
    rows: list[dict[str, str]] = []
    for line in lines[1:]:
        cells = [cell.strip() for cell in line.split("\t") if cell.strip()]
        if not titles and "[Name]" in cells:
            titles = cells
        elif titles and len(cells) == len(titles):
            rows.append(dict(zip(titles, cells, strict=True)))
        elif titles:
            break
    inner = [row for row in rows if row["[node type]"] == "DelegateOpInvoke"]
    if inner:
        rows = [row for row in rows if "XNNPackDelegate" not in row["[node type]"]]
    nodes = [_node(row) for row in rows]
    if not nodes:
        return None
    apart = " XNNPACK's steps are in the order of the tool's table." if inner else ""
    return EngineProfile(
        method="benchmark_model --enable_op_profiling: mean time of each operator over the inferences of a session",
        resolution_ns=1000.0, truncates=False, nodes=tuple(nodes), inference_ns=(mean_ns,), inferences=count,
        notes=(f"The tool gives means per operator, not single times.{apart}",),
    )  # fmt: skip


def _node(row: Mapping[str, str]) -> EngineNode:
    kind, name = row["[node type]"], row["[Name]"]
    calls = max(1, round(float(row.get("[times called]", "1"))))
    time = (float(row["[avg ms]"]) * 1e6 * calls,)
    if kind == "DelegateOpInvoke":
        tag = name.removeprefix("Delegate/").rpartition(":")[0]
        (meaning,) = interpret_steps([tag], ())
        return EngineNode(
            name=name, op=tag, times_ns=time, role="operator", kinds=meaning.kinds, dtype=meaning.dtype,
            provider="XNNPACK",
        )  # fmt: skip
    outputs = tuple(part for part in re.sub(r"^\[(.*)\](?::\d+)?$", r"\1", name).split(", ") if part)
    delegate = kind.startswith("TfLite")
    return EngineNode(
        name=name, op=kind.partition("/")[0], times_ns=time,
        # A delegate's operator names what it hands on, not all that it computes.
        originals=() if delegate else outputs, outputs=outputs if delegate else (),
        provider=kind if delegate else "built-in",
    )  # fmt: skip


class OrtPerfTest(OnDevices):
    """ONNX Runtime's ``onnxruntime_perf_test``."""

    name = "onnxruntime_perf_test"
    executor = EXECUTOR
    title = "onnxruntime_perf_test"
    formats = ("onnx", "ort")
    providers = (
        Provider(name="cpu", title="CPUExecutionProvider"),
        Provider(name="xnnpack", title="XnnpackExecutionProvider", accelerator=True),
        Provider(name="nnapi", title="NnapiExecutionProvider", accelerator=True),
        Provider(name="qnn", title="QNNExecutionProvider", accelerator=True),
    )
    clock = "onnxruntime_perf_test's own timer around each run"
    modes: Sequence[ToolMode] = ("measure",)

    def command(self, request: ToolRequest) -> Sequence[str]:
        """As `DeviceTool.command`, with a number of runs or a time, not both.

        The tool makes one untimed run; further ones are timed and left out.
        """
        count = ["-m", "times", "-r", str((request.runs or 1) + (request.warmup or 0))]
        if request.seconds is not None:
            count = ["-m", "duration", "-t", str(math.ceil(request.seconds))]
        words = [request.program, "-I", "-e", request.provider, *count, "-x", str(request.threads or 0)]
        for name, size in _open_dimensions(request).items():
            words += ["-f", f"{name}:{size}"]
        return [*words, request.model, request.results]

    def read(self, output: str, results: str, request: ToolRequest) -> ToolAnswer:
        """As `DeviceTool.read`. Each line of `results`: name of the model, seconds, …, number of the run."""
        times = [round(float(line.split(",")[1]) * 1e9) for line in results.splitlines() if line.count(",") >= 4]
        times = times[request.warmup or 0 :]
        if not times or min(times) <= 0:
            raise ValueError("its file of results has no times")
        peak = _scaled(rf"Peak working set size: ({_NUMBER}) bytes", output, 1)
        return ToolAnswer(
            latency_ns=tuple(times),
            load_ns=_scaled(rf"Session creation time cost: ({_NUMBER}) s", output, 1e9),
            first_ns=_scaled(rf"First inference time cost: ({_NUMBER}) ms", output, 1e6),
            memory={} if peak is None else {"peak": peak},
            threads=_scaled(r"Setting intra_op_num_threads to (\d+)", output, 1),
        )


def _open_dimensions(request: ToolRequest) -> dict[str, int]:
    """Sizes of the open dimensions by name. Raises `UnsupportedModel` for a size that needs a name and has none."""
    found = {}
    for name, (own, shape) in request.inputs.items():
        for dimension, size in zip(own or [None] * len(shape), shape, strict=True):
            if isinstance(dimension, str):
                found[dimension] = size
            elif size != (dimension or 1):
                raise UnsupportedModel(
                    f"onnxruntime_perf_test can set only dimensions with a name; input: {name} {shape}"
                )
    return found


def _scaled(pattern: str, output: str, factor: float) -> int | None:
    found = re.search(pattern, output)
    return None if found is None else round(float(found[1]) * factor)
