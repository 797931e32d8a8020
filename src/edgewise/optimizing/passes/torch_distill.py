"""Distillation: a smaller PyTorch module learns what the given one says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edgewise.errors import BadInput
from edgewise.optimizing.base import CannotApply, Capabilities, Facts, Packaged, Product, Recipe, Work
from edgewise.optimizing.passes.torch_modules import TorchModel


class TorchDistill(Packaged):
    """Trains a student on the samples: one that is given, or the module itself with fewer channels.

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
        """The module with half, and with a quarter, of its channels; which other student fits only its author knows."""
        if facts.quantized or sum(bool(each.weights) for each in facts.graph.operators) < 2:
            return ()
        return tuple(Recipe(label=f"−{ratio:.0%}", settings={"ratio": ratio}, rank=2) for ratio in (0.5, 0.75))

    def apply(self, work: Work) -> Product:
        """Write ``model.onnx``, the student.

        Settings: ``student``, a factory; or ``ratio`` of channels to remove (0.5) and ``weights``: ``kept`` (what is
        left of the teacher's) or ``fresh`` (as the layers initialise themselves); and those of `torch_training.Plan`.

        Raises:
            CannotApply: there are no samples, the student does not fit the teacher, or nothing can be removed.
            BadInput: a setting, sample or label that can't be used.
        """
        from edgewise.optimizing.passes import torch_modules
        from edgewise.optimizing.passes.torch_export import write_trained
        from edgewise.optimizing.passes.torch_training import make_lesson, read_plan, train

        plan = read_plan(work.settings)
        with torch_modules.reproducible(work):
            teacher = torch_modules.load_model(work)
            samples = torch_modules.load_samples(work, teacher)
            if samples is None:
                raise CannotApply("distillation needs samples to learn from: give --data")
            inputs = torch_modules.as_tensors(samples, teacher)
            lesson = make_lesson(torch_modules.runnable(teacher), inputs, samples.labels, batch=plan.batch)
            student, note = _find_student(work, teacher)
            outcome = train(student, lesson, plan, seed=work.seed)
            notes = (note, lesson.describe(), *outcome.describe())
            return write_trained(teacher, student, work, samples=samples, notes=notes, packages=("torch-pruning",))


def _find_student(work: Work, teacher: TorchModel) -> tuple[Any, str]:
    given = work.settings.get("student")
    if given is not None:
        return _build_student(work, teacher, given)
    from edgewise.optimizing.passes.torch_modules import read_count
    from edgewise.optimizing.passes.torch_slimming import Slimmer, read_ratio

    weights = work.settings.get("weights", "kept")
    if weights not in ("kept", "fresh"):
        raise BadInput(f"the setting weights is {weights!r}", advice="give kept or fresh")
    ratio = read_ratio(work.settings.get("ratio", 0.5))
    slimmer = Slimmer(teacher, ratio=ratio, round_to=read_count(work.settings, "round_to", 0))
    slimmer.shrink()
    note = f"student: the teacher with {slimmer.describe()}, weights {weights}"
    if weights == "fresh":
        for each in slimmer.module.modules():
            if callable(getattr(each, "reset_parameters", None)):
                each.reset_parameters()
    return slimmer.module, note


def _build_student(work: Work, teacher: TorchModel, given: object) -> tuple[Any, str]:
    """The student that a factory makes; it must take what the teacher takes and give what it gives."""
    import torch

    from edgewise.model.build import is_factory
    from edgewise.optimizing.passes.torch_modules import build_module, flatten_outputs, runnable

    if not isinstance(given, str) or not is_factory(given):
        raise BadInput(
            f"the student {given!r} names no function", advice="give module:function or path/to/file.py:function"
        )
    student = build_module(given, example=teacher)
    student.requires_grad_(True)
    with torch.no_grad():
        try:
            made = flatten_outputs(student(*teacher.inputs))
        except Exception as error:  # whatever the student's own code raises at the teacher's inputs
            message = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
            raise CannotApply(f"the student {given} does not take the teacher's inputs: {message}") from error
        wanted = flatten_outputs(runnable(teacher)(*teacher.inputs))
    if [each.shape for each in made] != [each.shape for each in wanted]:
        shapes = [[list(each.shape) for each in side] for side in (made, wanted)]
        raise CannotApply(f"the student {given} gives outputs of shapes {shapes[0]}, the teacher {shapes[1]}")
    return student, f"student: {given}"
