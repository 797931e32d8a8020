"""PyTorch modules for passes: built from their factory, fed with samples, exported to ONNX, and compared with the file.

A factory is the user's own code and is run because the user asks for it. Files (``.pt2``) are not: PyTorch's loader of
exports unpickles example inputs and pickled weights and evaluates expressions, so that a file could run anything.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgewise.errors import BadInput
from edgewise.optimizing.base import PassTask
from edgewise.optimizing.calibration import Calibration, read_calibration
from edgewise.optimizing.libraries import CannotApply

if TYPE_CHECKING:
    import numpy as np

    from edgewise.model.graph import Graph

    Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchModel:
    """A module that a factory made, in inference mode.

    Attributes:
        target: the factory, as it was given.
        module: a ``torch.nn.Module``; None where the factory gave an ``ExportedProgram``, which has no layers.
        program: the module as a ``torch.export.ExportedProgram``.
        inputs: its example inputs.
        graph: its network; an operator's ``attributes["module"]`` is the layer that it comes from.
    """

    target: str
    module: Any
    program: Any
    inputs: tuple[Any, ...]
    graph: Graph

    def layer_of(self, operator: str) -> str:
        """The path of the layer that an operator comes from. Raises `BadInput`."""
        for each in self.graph.operators:
            if each.name == operator:
                layer = each.attributes.get("module")
                if not layer:
                    raise BadInput(f"the operator {operator!r} of {self.target} comes from no layer of the module")
                return str(layer)
        raise BadInput(f"{self.target} has no operator {operator!r}", advice="see edgewise inspect for their names")


def load_model(task: PassTask[Any]) -> TorchModel:
    """Build the module that `task` is about.

    ``task.shapes`` stand in for example inputs where the factory gives none.

    Raises:
        BadInput: the factory fails, or its module can't be exported.
        CannotApply: it makes something else, or it is a file.
    """
    if task.model.endswith(".pt2"):
        raise CannotApply(
            "PyTorch can't load a .pt2 file without unpickling parts of it: give a function that returns the module"
        )
    import torch

    from edgewise.model.build import build_graph
    from edgewise.model.build_network import export_program

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
    program = export_program(network, shapes, task.model)
    inputs = tuple(each.detach() if isinstance(each, torch.Tensor) else each for each in program.example_inputs[0])
    return _checked(TorchModel(target=task.model, module=module, program=program, inputs=inputs, graph=built.graph))


def _checked(model: TorchModel) -> TorchModel:
    import torch

    if not model.inputs or not all(isinstance(each, torch.Tensor) for each in model.inputs):
        raise CannotApply(f"{model.target} takes inputs that are no tensors, which no engine can feed")
    return model


def need_module(model: TorchModel) -> Any:
    """The module with its layers. Raises `CannotApply` where there is only an exported program."""
    if model.module is None:
        raise CannotApply(f"{model.target} gives an exported program, whose layers can't be changed any more")
    return model.module


@contextlib.contextmanager
def reproducible(task: PassTask[Any]) -> Iterator[None]:
    """At most `task.threads` threads, everything random from `task.seed`, deterministic algorithms; then as before."""
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
    """The samples of `task`, checked against what the module takes. Raises `BadInput`."""
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


def as_tensors(samples: Calibration, model: TorchModel) -> tuple[Any, ...]:
    """All samples as tensors of the types that the module takes, samples along the first axis."""
    import torch

    return tuple(
        torch.from_numpy(array).to(wanted.dtype) for array, wanted in zip(samples.arrays, model.inputs, strict=True)
    )


def probe_feeds(model: TorchModel, samples: Calibration | None, *, count: int = 2) -> list[tuple[Any, ...]]:
    """Some inputs of the shapes of the example inputs: samples where there are any, else random (`torch.randn`).

    Integers without samples are those of the example: which others are allowed can't be known.
    """
    import torch

    if samples is None:
        return [
            tuple(torch.randn_like(each) if each.dtype.is_floating_point else each for each in model.inputs)
            for _ in range(count)
        ]
    tensors = as_tensors(samples, model)
    found = []
    for start in range(count):
        feed = []
        for tensor, wanted in zip(tensors, model.inputs, strict=True):
            batch = wanted.shape[0] if wanted.dim() else 1
            chosen = [(start * batch + offset) % len(tensor) for offset in range(batch)]
            feed.append(tensor[chosen].reshape(wanted.shape))
        found.append(tuple(feed))
    return found


def flatten_outputs(value: Any) -> list[Any]:
    """The tensors of whatever a module gives, in the order in which exporters write them."""
    import torch

    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, Mapping):
        return [each for part in value.values() for each in flatten_outputs(part)]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [each for part in value for each in flatten_outputs(part)]
    return []


def run_module(module: Any, feeds: Sequence[tuple[Any, ...]]) -> list[list[Array]]:
    """Outputs of a module (or of an exported program's) on each of `feeds`, as arrays."""
    import torch

    with torch.no_grad():
        return [[each.detach().numpy() for each in flatten_outputs(module(*feed))] for feed in feeds]


def runnable(model: TorchModel) -> Any:
    """What can be called: the module, or the exported program's own."""
    return model.module if model.module is not None else model.program.module()
