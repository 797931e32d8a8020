"""Engine settings that may make an unchanged file faster: threads, graph level, precision, hints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from edgewise.optimizing.base import Capabilities, EngineSettings, Facts, PassResult, PassTask, Recipe
from edgewise.optimizing.libraries import CannotApply
from edgewise.optimizing.processor import read_processor
from edgewise.registry import Availability


class Tune:
    """`edgewise.optimizing.base.Pass` whose recipes are settings of engines: `EngineSettings`."""

    name = "tune"
    title = "engine settings"
    capabilities = Capabilities(kind="tuning", reads=("onnx", "tflite", "openvino"), writes="", extra="engines")

    def availability(self) -> Availability:
        """Return that it is always available; the recipes depend on the engines."""
        return Availability(True)

    def recipes(self, facts: Facts) -> Sequence[Recipe]:
        """Return settings of the installed engines that read the format; on several cores, numbers of threads first."""
        found: list[Recipe] = []
        for runtime in facts.runtimes:
            formats, settings = _ENGINES.get(runtime, ((), None))
            if settings is not None and facts.format in formats:
                found += _threads(runtime, facts.cores)
                found += settings(facts)
        return tuple(sorted(found, key=lambda recipe: recipe.rank))

    def apply(self, task: PassTask[EngineSettings]) -> PassResult:
        """Not called for tuning. Raises `CannotApply`."""
        raise CannotApply("settings of engines change no file")


def _threads(runtime: str, cores: int) -> Iterator[Recipe]:
    """One thread, two, four … and every core; one and all of them first."""
    counts = sorted({1, cores, *(2**power for power in range(1, 8) if 2**power < cores)})
    for count in counts if cores > 1 else ():
        noun = "thread" if count == 1 else "threads"
        settings = EngineSettings(runtime=runtime, threads=count)
        yield _recipe(f"{count} {noun}", settings, rank=0 if count in (1, cores) else 1)


def _recipe(label: str, settings: EngineSettings, *, rank: int) -> Recipe:
    return Recipe(label=f"{settings.runtime}, {label}", settings=settings, rank=rank)


def _onnxruntime(facts: Facts) -> Iterator[Recipe]:
    """Yield settings of onnxruntime by their names in its session configuration."""
    if facts.quantized:
        # Computes in float, which is faster where integer kernels are missing.
        yield _onnxruntime_options("float arithmetic", {"session.disable_quant_qdq": "1"}, rank=1)
    for label, options, rank in (
        # Results below 1e-38 become 0: computing with such numbers is slow.
        ("denormals as zero", {"session.set_denormal_as_zero": "1"}, 1),
        ("graph level extended", {"graph_optimization_level": "extended"}, 2),
        ("graph level basic", {"graph_optimization_level": "basic"}, 2),
        ("parallel branches", {"execution_mode": "parallel"}, 2),
        ("no spinning", {"session.intra_op.allow_spinning": "0"}, 2),
        ("no weight prepacking", {"session.disable_prepacking": "1"}, 2),
        ("no memory pattern", {"enable_mem_pattern": False}, 2),
        ("no arena", {"enable_cpu_mem_arena": False}, 2),
    ):
        yield _onnxruntime_options(label, options, rank=rank)


def _onnxruntime_options(label: str, options: Mapping[str, Any], *, rank: int) -> Recipe:
    return _recipe(label, EngineSettings(runtime="onnxruntime", options=options), rank=rank)


def _openvino(facts: Facts) -> Iterator[Recipe]:
    """Properties of OpenVINO's CPU plug-in; reduced precision where the processor computes in it."""
    processor = read_processor()
    for precision, dtype in (("bf16", "bfloat16"), ("f16", "float16")):
        if processor.instructions(dtype):
            yield _recipe(precision, EngineSettings(runtime="openvino", precision=precision), rank=1)
    for label, options in (
        ("no pinning", {"ENABLE_CPU_PINNING": False}),
        ("throughput hint", {"PERFORMANCE_HINT": "THROUGHPUT"}),
        ("dynamic quantisation", {"DYNAMIC_QUANTIZATION_GROUP_SIZE": 32}),
    ):
        yield _recipe(label, EngineSettings(runtime="openvino", options=options), rank=2)


def _litert(facts: Facts) -> Iterator[Recipe]:
    """Other ways of LiteRT to run a model: compiled, or without XNNPACK."""
    yield _recipe("compiled", EngineSettings(runtime="litert", provider="compiled"), rank=1)
    yield _recipe("without XNNPACK", EngineSettings(runtime="litert", provider="interpreter-noxnnpack"), rank=2)


_ENGINES: Mapping[str, tuple[tuple[str, ...], Callable[[Facts], Iterator[Recipe]]]] = {
    "onnxruntime": (("onnx",), _onnxruntime),
    "openvino": (("openvino", "onnx", "tflite"), _openvino),
    "litert": (("tflite",), _litert),
}
