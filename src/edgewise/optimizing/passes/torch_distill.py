"""Distillation: a smaller PyTorch module learns what the given one says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgewise.optimizing.base import Capabilities, Facts, Packaged, PassResult, PassTask, Recipe
from edgewise.optimizing.libraries import CannotApply
from edgewise.optimizing.passes import torch_modules
from edgewise.optimizing.passes.torch_channels import ChannelPruner
from edgewise.optimizing.passes.torch_export import write_trained
from edgewise.optimizing.passes.torch_training import TrainingSettings, make_training_data, train


@dataclass(frozen=True, slots=True, kw_only=True)
class DistillSettings(TrainingSettings):
    """Settings of torch-distill: the share of channels that the student lacks."""

    ratio: float = 0.5


class TorchDistill(Packaged):
    """Trains a student on the samples: the module itself with fewer channels.

    The loss is that of `torch_training.find_loss`: of the labels plus T² times the divergence from the teacher at
    temperature T = 4; without labels the teacher's part alone.
    """

    name = "torch-distill"
    title = "distillation (PyTorch)"
    capabilities = Capabilities(
        kind="distillation",
        reads=("torch",),
        writes="onnx",
        calibrates=True,
        labels=True,
        trains=True,
        distributions=("torch", "torch-pruning", "onnxscript"),
        extra="torch-optimize",
    )

    def recipes(self, facts: Facts) -> Sequence[Recipe]:
        """The module with half, and with a quarter, of its channels."""
        if facts.quantized or sum(bool(each.weights) for each in facts.graph.operators) < 2:
            return ()
        return tuple(
            Recipe(label=f"−{ratio:.0%}", settings=DistillSettings(ratio=ratio), rank=2) for ratio in (0.5, 0.75)
        )

    def apply(self, task: PassTask[DistillSettings]) -> PassResult:
        """Write ``model.onnx``, the student.

        Raises:
            CannotApply: there are no samples, or nothing can be removed.
            BadInput: a sample or label that can't be used.
        """
        settings = task.settings
        with torch_modules.reproducible(task):
            teacher = torch_modules.load_model(task)
            samples = torch_modules.load_samples(task, teacher)
            if samples is None:
                raise CannotApply("distillation needs samples to learn from: give --data")
            inputs = torch_modules.as_tensors(samples, teacher)
            data = make_training_data(torch_modules.runnable(teacher), inputs, samples.labels, batch=settings.batch)
            pruner = ChannelPruner(teacher, ratio=settings.ratio)
            pruner.shrink()
            note = f"student: the teacher with {pruner.describe()}"
            result = train(pruner.module, data, settings, seed=task.seed, max_seconds=task.max_seconds)
            notes = (note, data.describe(), *result.describe())
            return write_trained(
                teacher, pruner.module, task, samples=samples, notes=notes, packages=("torch-pruning",)
            )
