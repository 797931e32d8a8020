"""Structured pruning of PyTorch modules: whole channels go, step by step, and training makes up for them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from edgewise.optimizing.base import CannotApply, Capabilities, Facts, Packaged, Product, Recipe, Work

if TYPE_CHECKING:
    from edgewise.optimizing.passes.torch_slimming import Slimmer
    from edgewise.optimizing.passes.torch_training import Lesson, Outcome, Plan

STEPS = 4
"""A choice, not a finding: on the bundled digits network at a ratio of 0.5, one seed each, 1, 2 and 4 steps left
97.6 %, 98.1 % and 97.8 % of 540 test images right, which is too close to tell them apart."""


class TorchPrune(Packaged):
    """Removes channels by group norm and trains what is left on the samples: their labels and the module's own outputs.

    Without labels, or where the outputs score no classes, it learns from the module's outputs alone.
    """

    name = "torch-prune"
    title = "channel pruning (PyTorch)"
    capabilities = Capabilities(
        kind="pruning",
        reads=("torch",),
        writes="onnx",
        calibrates=True,
        labels=True,
        trains=True,
        keeps_float=True,
        distributions=("torch", "torch-pruning", "onnxscript"),
        extra="torch-optimize",
    )

    def recipes(self, facts: Facts) -> Sequence[Recipe]:
        """A half and a quarter of the channels; nothing where the only layer's channels are the outputs'."""
        if facts.quantized or sum(bool(each.weights) for each in facts.graph.operators) < 2:
            return ()
        return tuple(Recipe(label=f"{ratio:.0%}", settings={"ratio": ratio}, rank=1) for ratio in (0.5, 0.25))

    def apply(self, work: Work) -> Product:
        """Write ``model.onnx``, smaller.

        Settings: ``ratio`` of channels to remove (0.5), ``steps`` to remove them in (4), ``round_to`` (see
        `torch_slimming.Slimmer`), and those of `torch_training.Plan`; ``epochs`` and ``max_seconds`` are of all steps.

        Raises:
            CannotApply: nothing can be removed, there are no samples, or the module has no layers to change.
            BadInput: a setting, sample or label that can't be used.
        """
        from edgewise.optimizing.passes import torch_modules
        from edgewise.optimizing.passes.torch_export import write_trained
        from edgewise.optimizing.passes.torch_slimming import Slimmer, read_ratio
        from edgewise.optimizing.passes.torch_training import make_lesson, read_plan

        settings = work.settings
        ratio, plan = read_ratio(settings.get("ratio", 0.5)), read_plan(settings)
        steps = max(1, torch_modules.read_count(settings, "steps", STEPS))
        round_to = torch_modules.read_count(settings, "round_to", 0)
        with torch_modules.reproducible(work):
            model = torch_modules.load_model(work)
            module = torch_modules.need_module(model)
            samples = torch_modules.load_samples(work, model)
            if samples is None:
                raise CannotApply("pruning needs samples to train on: give --data")
            lesson = make_lesson(module, torch_modules.as_tensors(samples, model), samples.labels, batch=plan.batch)
            slimmer = Slimmer(model, ratio=ratio, steps=steps, round_to=round_to, keep=work.keep_float, only=work.only)
            outcomes = shrink_and_train(slimmer, lesson, plan, steps=steps, seed=work.seed)
            notes = (
                slimmer.describe(),
                lesson.describe(),
                *replace(outcomes[-1], cut=any(each.cut for each in outcomes)).describe(),
            )
            return write_trained(model, slimmer.module, work, samples=samples, notes=notes, packages=("torch-pruning",))


def shrink_and_train(slimmer: Slimmer, lesson: Lesson, plan: Plan, *, steps: int, seed: int) -> list[Outcome]:
    """Shrink in `steps` steps and train after each, within the epochs and seconds of `plan` altogether.

    Raises:
        CannotApply: no step removed anything.
    """
    from edgewise.optimizing.passes.torch_training import Outcome, train

    started, outcomes = time.monotonic(), list[Outcome]()
    epochs, removed = plan.epochs_for(len(lesson)), False
    for step in range(steps):
        removed = slimmer.shrink() or removed
        if not removed:
            continue  # rounding left it whole so far; what it would have been trained is for the steps to come
        share = max(1, epochs // (steps - step))
        left = max(0.0, plan.max_seconds - (time.monotonic() - started)) / (steps - step)
        outcomes.append(
            train(slimmer.module, lesson, replace(plan, epochs=share, max_seconds=left), seed=seed, stage=step)
        )
        epochs -= share
    slimmer.describe()
    return outcomes
