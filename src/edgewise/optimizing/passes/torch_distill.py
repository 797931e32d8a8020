"""Distillation: a smaller PyTorch module learns to give the outputs of the given one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from edgewise.optimizing.base import Facts, Packaged, PassResult, PassTask, Recipe
from edgewise.optimizing.passes.torch_channels import ChannelPruner
from edgewise.optimizing.passes.torch_modules import open_training, reproducible, write_trained
from edgewise.optimizing.passes.torch_prune import TorchPrune
from edgewise.optimizing.passes.torch_training import TrainingSettings, train


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
    capabilities = replace(TorchPrune.capabilities, kind="distillation", keeps_float=False)

    def recipes(self, facts: Facts) -> Sequence[Recipe]:
        """Return the module with half, and with a quarter, of its channels."""
        if facts.quantized or sum(bool(each.weights) for each in facts.graph.operators) < 2:
            return ()
        return tuple(
            Recipe(label=f"−{ratio:.0%}", settings=DistillSettings(ratio=ratio), rank=2) for ratio in (0.5, 0.75)
        )

    def apply(self, task: PassTask[DistillSettings]) -> PassResult:
        """Write ``model.onnx``, the student.

        Raises:
            CannotApply: there are no samples, or no channel can be removed.
            BadInput: a sample or label that can't be used.
        """
        with reproducible(task):
            training = open_training(task)
            pruner = ChannelPruner(training.model, ratio=task.settings.ratio)
            pruner.shrink()
            note = f"student: the teacher with {pruner.describe()}"
            result = train(pruner.module, training.data, task.settings, seed=task.seed, max_seconds=task.max_seconds)
            notes = (note, training.data.describe(), *result.describe())
            return write_trained(training, pruner.module, task, notes=notes)
