"""PyTorch modules for passes: built from their factory, fed with samples, exported to ONNX, and compared with the file.

A factory is the user's own code. A file (``.pt2``) is loaded without running anything that it brings.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.converting.torch_program import TorchSource, load_torch
from edgewise.errors import BadInput, as_flag
from edgewise.optimizing.base import PassResult, PassTask
from edgewise.optimizing.calibration import Calibration, make_probes, read_calibration
from edgewise.optimizing.libraries import CannotApply, refusing
from edgewise.optimizing.passes import torch_training
from edgewise.optimizing.passes.torch_agreement import TOLERANCE, check_agreement
from edgewise.optimizing.passes.torch_training import TrainingData, TrainingSettings, flatten_outputs
from edgewise.packages import versions_of

if TYPE_CHECKING:
    import numpy as np

    from edgewise.model.graph import Graph

    Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchModel:
    """A module that a factory made, in inference mode, or a file of ``torch.export``.

    Attributes:
        target: the factory or the file, as it was given.
        module: a ``torch.nn.Module``; None where there is only an ``ExportedProgram``, which has no layers.
        program: the module as a ``torch.export.ExportedProgram``.
        inputs: its example inputs.
        graph: its network; an operator's ``attributes["module"]`` is the layer that it comes from.
    """

    target: str
    module: Any
    program: Any
    inputs: tuple[Any, ...]
    graph: Graph

    @property
    def runnable(self) -> Any:
        """The module, or the exported program's own one."""
        return TorchSource(self.program, self.module).runnable

    def layer_of(self, operator: str) -> str:
        """Return the path of the layer that an operator comes from. Raises `BadInput`."""
        for each in self.graph.operators:
            if each.name == operator:
                layer = each.attributes.get("module")
                if not layer:
                    raise BadInput(f"the operator {operator!r} of {self.target} comes from no layer of the module")
                return str(layer)
        raise BadInput(f"{self.target} has no operator {operator!r}", advice="see edgewise inspect for their names")


def load_model(task: PassTask[Any]) -> TorchModel:
    """Build or load the module of `task`. Where a factory gives no example inputs, ``task.shapes`` are their shapes.

    Raises:
        BadInput: the factory fails, or its module can't be exported.
        CannotApply: the factory makes something else, or the file can't be loaded.
    """
    import torch

    from edgewise.model.build import build_graph
    from edgewise.model.build_network import export_program
    from edgewise.model.identity import read_graph

    if task.model.endswith(".pt2"):
        with refusing(f"PyTorch can't load {task.model}"):
            source = load_torch(Path(task.model))
        return _checked(TorchModel(
            target=task.model, module=None, program=source.program, inputs=source.inputs,
            graph=read_graph(Path(task.model)),
        ))  # fmt: skip

    shapes = dict(task.shapes)
    built = build_graph(task.model, shapes=shapes)
    network = built.made
    if network.kind == "exported":
        given, _ = network.value.example_inputs or ((), {})
        return _checked(TorchModel(
            target=task.model, module=None, program=network.value, inputs=tuple(given), graph=built.graph
        ))  # fmt: skip
    if network.kind != "torch":
        raise CannotApply(f"{task.model} makes {network.title} and no PyTorch module")
    module = network.value.eval()
    if task.weights is not None:
        module.load_state_dict(torch.load(task.weights, weights_only=True))
    program = export_program(network, shapes, task.model)
    inputs = tuple(each.detach() if isinstance(each, torch.Tensor) else each for each in program.example_inputs[0])
    return _checked(TorchModel(target=task.model, module=module, program=program, inputs=inputs, graph=built.graph))


def _checked(model: TorchModel) -> TorchModel:
    import torch

    if not model.inputs or not all(isinstance(each, torch.Tensor) for each in model.inputs):
        raise CannotApply(f"{model.target} takes inputs other than tensors, which no engine supports")
    return model


def need_module(model: TorchModel) -> Any:
    """Return the module with its layers. Raises `CannotApply` where there is only an exported program."""
    if model.module is None:
        raise CannotApply(f"{model.target} gives an exported program, whose layers can't be changed")
    return model.module


@contextlib.contextmanager
def reproducible(task: PassTask[Any]) -> Iterator[None]:
    """Inside, PyTorch runs deterministic algorithms on `task.threads` threads, with random numbers from `task.seed`."""
    import torch

    threads, strict = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.set_num_threads(max(1, task.threads))
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(task.seed)
            yield
    finally:
        torch.use_deterministic_algorithms(strict, warn_only=warn_only)
        torch.set_num_threads(threads)


def load_samples(task: PassTask[Any], model: TorchModel) -> Calibration | None:
    """Return the samples of `task`, checked against what the module takes. Raises `BadInput`."""
    if task.calibration is None:
        return None
    samples = read_calibration(task.calibration)
    if len(samples.arrays) != len(model.inputs):
        raise BadInput(f"the samples have {len(samples.arrays)} inputs; {model.target} takes {len(model.inputs)}")
    for index, (array, wanted) in enumerate(zip(samples.arrays, model.inputs, strict=True)):
        if array.shape[1:] != tuple(wanted.shape[1:]):
            raise BadInput(
                f"input {index} of the samples has the shape {list(array.shape[1:])}; "
                f"{model.target} takes {list(wanted.shape[1:])}",
                advice="the first dimension is the batch; check the layout and size that the data is prepared with",
            )
        if (array.dtype.kind == "f") != wanted.dtype.is_floating_point:
            raise BadInput(f"input {index} of the samples is {array.dtype}; {model.target} takes {wanted.dtype}")
    return samples if len(samples) else None


def need_samples(task: PassTask[Any], model: TorchModel) -> Calibration:
    """Return the samples of `task`. Raises `CannotApply` where there are none, and `BadInput`."""
    samples = load_samples(task, model)
    if samples is None:
        raise CannotApply(f"needs samples: give {as_flag('data')}")
    return samples


def as_tensors(samples: Calibration, model: TorchModel) -> tuple[Any, ...]:
    """All samples as tensors of the types that the module takes, samples along the first axis."""
    import torch

    return tuple(
        torch.from_numpy(array).to(wanted.dtype) for array, wanted in zip(samples.arrays, model.inputs, strict=True)
    )


def probe_feeds(model: TorchModel, samples: Calibration | None, *, seed: int, count: int = 2) -> list[tuple[Any, ...]]:
    """Return inputs of the shapes of the example inputs, as `make_probes` makes them."""
    import torch

    probes = make_probes([each.detach().numpy() for each in model.inputs], samples, seed=seed, count=count)
    return [tuple(map(torch.from_numpy, probe)) for probe in probes]


def run_module(module: Any, feeds: Sequence[tuple[Any, ...]]) -> list[list[Array]]:
    """Return outputs of a module (or of an exported program's) on each of `feeds`, as arrays."""
    import torch

    with torch.no_grad():
        return [[each.detach().numpy() for each in flatten_outputs(module(*feed))] for feed in feeds]


def check_export(
    path: Path, feeds: Sequence[tuple[Any, ...]], expected: Sequence[Sequence[Array]], *, tolerance: float = TOLERANCE
) -> str:
    """Compare the file's outputs on `feeds` with `expected`, the module's; returns a note. Raises `CannotApply`."""
    return check_agreement(path, [[each.numpy() for each in feed] for feed in feeds], expected, tolerance=tolerance)


def export_onnx(program: Any, folder: Path) -> Path:
    """Write `program` as ``model.onnx`` with its weights, by PyTorch's own exporter. Raises `Unavailable`."""
    from edgewise.converting.base import ConvertOptions
    from edgewise.converting.torch_program import write_onnx

    path = folder / "model.onnx"
    write_onnx(TorchSource(program), path, ConvertOptions())
    return path


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """A module, and samples with its outputs to train a smaller one."""

    model: TorchModel
    samples: Calibration
    data: TrainingData


def open_training(task: PassTask[Any]) -> Training:
    """Return the module of `task` with its samples.

    Raises:
        CannotApply: there are no samples, or the factory gives an exported program.
        BadInput: a sample or label can't be used.
    """
    settings: TrainingSettings = task.settings
    model = load_model(task)
    module = need_module(model)
    samples = need_samples(task, model)
    inputs = as_tensors(samples, model)
    data = torch_training.make_training_data(module, inputs, samples.labels, batch=settings.batch)
    return Training(model=model, samples=samples, data=data)


def write_trained(training: Training, module: Any, task: PassTask[Any], *, notes: tuple[str, ...]) -> PassResult:
    """Write the trained `module` as ``model.onnx``; the notes get its cost and its agreement with the module.

    Raises:
        CannotApply: the module can't be exported, or the file's outputs differ from the module's.
        BadInput: as `export_program`.
    """
    from edgewise.model.build_network import ModelObject, export_program

    model = training.model
    network = ModelObject("torch", "a PyTorch module", module.eval(), model.inputs)
    path = export_onnx(export_program(network, {}, model.target), task.folder)
    feeds = probe_feeds(model, training.samples, seed=task.seed)
    agreed = check_export(path, feeds, run_module(module, feeds))
    return PassResult(
        model=path,
        notes=(*notes, *_describe_macs(model, path), agreed),
        versions=versions_of("torch", "onnx", "onnxscript", "onnxruntime", "torch-pruning"),
    )


def _describe_macs(model: TorchModel, path: Path) -> tuple[str, ...]:
    from edgewise.model.cost import total_of
    from edgewise.model.identity import read_graph

    before, after = total_of(model.graph).macs, total_of(read_graph(path)).macs
    if not before or after is None:
        return ()
    return (f"multiply-accumulates {before:,} → {after:,} ({after / before:.0%})",)
