"""What a pass did to a PyTorch module, as an ONNX file that was compared with it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.errors import Unavailable
from edgewise.optimizing.base import PassResult, PassTask
from edgewise.optimizing.libraries import CannotApply, versions_of
from edgewise.optimizing.passes.torch_agreement import check_agreement
from edgewise.optimizing.passes.torch_modules import TorchModel, probe_feeds, run_module

if TYPE_CHECKING:
    from edgewise.optimizing.calibration import Calibration


def export_onnx(model: TorchModel, program: Any, folder: Path) -> Path:
    """Write `program` as ``model.onnx``, weights inside, by PyTorch's own exporter. Raises `CannotApply`."""
    from edgewise.model.build import BuiltModel, export_runnable
    from edgewise.model.build_network import ModelObject

    network = ModelObject("exported", "a PyTorch export", program)
    try:
        return export_runnable(BuiltModel(target=model.target, graph=model.graph, made=network), folder)
    except Unavailable as error:
        raise CannotApply(error.message) from error


def export_module(model: TorchModel, module: Any, folder: Path) -> Path:
    """Write a changed `module` with the inputs of `model` as ``model.onnx``. Raises `CannotApply`, `BadInput`."""
    from edgewise.model.build_network import ModelObject, export_program

    program = export_program(ModelObject("torch", "a PyTorch module", module, model.inputs), {}, model.target)
    return export_onnx(model, program, folder)


def write_trained(
    model: TorchModel,
    module: Any,
    task: PassTask[Any],
    *,
    samples: Calibration,
    notes: tuple[str, ...],
    packages: tuple[str, ...],
) -> PassResult:
    """The trained `module`, with the inputs of `model`, as a product with `notes` and what it costs.

    Raises:
        CannotApply: it can't be exported, or the file does not compute what the module does.
    """
    path = export_module(model, module.eval(), task.folder)
    feeds = probe_feeds(model, samples)
    agreed = check_agreement(path, [[each.numpy() for each in feed] for feed in feeds], run_module(module, feeds))
    return PassResult(
        model=path,
        notes=(*notes, *_describe_macs(model, path), agreed),
        versions=versions_of("torch", "onnx", "onnxscript", "onnxruntime", *packages),
    )


def _describe_macs(model: TorchModel, path: Path) -> tuple[str, ...]:
    from edgewise.model.cost import total_of
    from edgewise.model.identity import read_graph

    before, after = total_of(model.graph).macs, total_of(read_graph(path)).macs
    if not before or after is None:
        return ()
    return (f"multiply-accumulates {before:,} → {after:,} ({after / before:.0%})",)
