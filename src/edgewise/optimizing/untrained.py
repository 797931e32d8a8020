"""Models that a function makes as int8 ``.tflite`` files, before they are trained, for devices that compute in int8."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from edgewise.converting.conversion import export_runnable
from edgewise.errors import BadInput, RunFailed, Unavailable
from edgewise.model.build import BuiltModel, build_graph
from edgewise.model.identity import open_model
from edgewise.optimizing.base import PassSettings, PassTask, passes
from edgewise.optimizing.calibration import write_calibration
from edgewise.optimizing.pass_runner import apply_pass
from edgewise.optimizing.passes.litert_static import LitertStaticSettings
from edgewise.optimizing.planning import is_quantized
from edgewise.registry import availability_of
from edgewise.workload.inputs import make_arrays
from edgewise.workload.resolved_graph import read_resolved_graph

CONVERSIONS = {"torch": "torch-to-litert", "exported": "torch-to-litert", "keras": "keras-to-litert"}
"""What a function made → the pass that writes it as a float ``.tflite`` file."""
QUANTISATION = "litert-static"
SAMPLES = 8
SECONDS = 600.0


def build_int8(
    target: str, folder: Path, *, what_if: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]
) -> tuple[Path, BuiltModel, tuple[str, ...]]:
    """Call the function that `target` names and write its model to `folder`, in int8 if it computes in float.

    A file that is not ``.tflite``, and one that is quantised, stays as it is. The ranges of the activations come from
    random inputs.

    Args:
        target, what_if, shapes: as in `edgewise.model.build.build_graph`.
        folder: an empty folder, which the file must not outlive.

    Returns:
        The file, what the function made, and a sentence on each conversion.

    Raises:
        BadInput: as `build_graph`, or the model can't be converted.
        Unavailable: a package that converts it is missing.
        RunFailed: a conversion failed.
    """
    built = build_graph(target, what_if=what_if, shapes=shapes)
    notes: list[str] = []
    if (conversion := CONVERSIONS.get(built.made.kind)) is None:
        path = export_runnable(built, folder)
    else:
        path = _convert(
            conversion, built, _without_parameters(built, folder), folder, settings=PassSettings(), shapes=shapes
        )
        notes.append(f"{target} returned {built.thing}, which was written as float32 .tflite.")
    if open_model(path).ref.format == "tflite" and not is_quantized(read_resolved_graph(path, shapes=shapes).graph):
        samples = folder / "samples.npz"
        write_calibration(samples, list(_random_inputs(path, shapes)), None)
        settings = LitertStaticSettings(io="int8", scope="all")
        path = _convert(QUANTISATION, built, str(path), folder, settings=settings, calibration=samples)
        notes.append(
            f"The model was quantised to int8 with ranges from {SAMPLES} random inputs, so its outputs mean nothing. "
            "Its latency and memory are about those of a trained model."
        )
    return path, built, tuple(notes)


def _random_inputs(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> Iterator[list[Any]]:
    inputs = read_resolved_graph(path, shapes=shapes).inputs
    for seed in range(SAMPLES):
        yield make_arrays(inputs, seed=seed)


def _without_parameters(built: BuiltModel, folder: Path) -> str:
    """Return a function without parameters that makes the same model, as passes call it in a process of their own."""
    if not built.parameters:
        return built.target
    path = folder / "build_again.py"
    path.write_text(
        "from edgewise.model.build import build_graph\n\n\ndef make_model():\n"
        f"    made = build_graph({built.target!r}, what_if={dict(built.parameters)!r}).made\n"
        "    return made.value if made.inputs is None else (made.value, made.keywords or made.inputs)\n"
    )
    return f"{path}:make_model"


def _convert(name: str, built: BuiltModel, model: str, folder: Path, *, settings: Any, **more: Any) -> Path:
    """Return the file that the pass called `name` makes of `model`; `more` are fields of its task."""
    one = passes().get(name)
    state = availability_of(one)
    if not state:
        raise Unavailable(
            f"{built.target} returned {built.thing}, and {one.title} can't be used: {state.reason}",
            advice=f"{state.install_hint}; or let the function return the path of an int8 .tflite file",
        )
    place = folder / name
    task = PassTask(model=model, format=one.capabilities.reads[0], settings=settings, folder=place, **more)
    (result,) = apply_pass(passes().location(name), [task], seconds=SECONDS)
    if result.model is None:
        kind = BadInput if result.cause == "unsuitable" else RunFailed
        raise kind(f"{built.target}: {one.title}: {result.reason or result.why}")
    return result.model
