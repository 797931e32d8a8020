"""What stands beside a model: its task, what to do to a sample before it is fed, how to read its outputs, its classes.

Instructions come from a YAML file beside the model (``digits.yaml`` for ``digits.onnx``, or ``digits.onnx.yaml``), from
metadata inside a ``.tflite``, and from flags, each winning over the ones before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing done to a sample, by its name in `edgewise.evaluating.preparing.STEPS`, with its settings."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Instructions:
    """Attributes:
    steps: input name → steps in order; the name ``""`` stands for the only input.
    task: name of a task; None where nobody says.
    task_options: how outputs are read.
    classes: names in the order of the model's outputs; empty where nobody knows.
    origins: where they came from, in words, such as ``digits.yaml`` or ``flags``.
    """

    steps: Mapping[str, tuple[Step, ...]] = field(default_factory=dict)
    task: str | None = None
    task_options: Mapping[str, str] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()

    def to_document(self) -> dict[str, Any]:
        """As the YAML file has it; `read_document` reads it back."""
        raise NotImplementedError


def find_instructions(model: Path, *, form: str, flags: Sequence[str] = (), file: Path | None = None) -> Instructions:
    """Everything that is known of how to use the model at `model`.

    Args:
        form: the model's format.
        flags: ``STEP=VALUE`` words in order (``resize=256``, ``crop=224``, ``scale=1/255``,
            ``mean=0.485,0.456,0.406``); any of them replaces all steps of the file and of the metadata.
        file: a YAML file to read instead of the one beside the model.

    Raises:
        BadInput: a file that is broken or names an unknown step, key or value: the file, the key and what is possible.
    """
    raise NotImplementedError


def write_instructions(instructions: Instructions, path: Path) -> None:
    """Write them as YAML that `find_instructions` reads."""
    raise NotImplementedError
