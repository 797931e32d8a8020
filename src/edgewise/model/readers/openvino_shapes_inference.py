"""What is known of the tensors of one OpenVINO network while it is read: shapes the file states, shapes and values that
follow from the inputs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from edgewise.errors import BadInput
from edgewise.model.graph import Tensor
from edgewise.model.readers.base import MAX_DIMENSION, damaged
from edgewise.model.readers.openvino_constants import Constant, Weights
from edgewise.model.readers.openvino_layers import Layer
from edgewise.model.readers.openvino_options import read_version
from edgewise.model.readers.openvino_shapes import settle_outputs
from edgewise.model.readers.openvino_shapes_steps import Elements, ShapeConflict, Step
from edgewise.model.readers.openvino_shapes_values import follow


@dataclass(slots=True)
class Inference:
    """Goes through a network's layers in the order they run.

    Attributes:
        constants: name of a tensor → where its values are.
    """

    path: Path
    weights: Weights
    constants: Mapping[str, Constant]
    _stated: dict[str, Tensor] = field(init=False, default_factory=dict)
    _elements: dict[str, Elements | None] = field(init=False, default_factory=dict)

    def open(self, tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
        """The input with the concrete `shape`. Raises `BadInput`."""
        stated = tensor.shape
        fits = stated is None or (
            len(stated) == len(shape)
            and all(not isinstance(old, int) or old == new for old, new in zip(stated, shape, strict=True))
        )
        if not fits or any(not 0 <= size <= MAX_DIMENSION for size in shape) or math.prod(shape) > MAX_DIMENSION:
            raise BadInput(
                f"input {tensor.name!r} of shape {stated} can't take {shape}", advice="give a shape that fits it"
            )
        return self._know(tensor, tuple(shape))

    def _know(self, tensor: Tensor, shape: tuple[int | str | None, ...]) -> Tensor:
        if shape == tensor.shape:
            return tensor
        self._stated[tensor.name] = tensor
        return replace(tensor, shape=shape)

    def stated(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The tensors as the file has them."""
        return [self._stated.get(tensor.name, tensor) for tensor in tensors]

    def settle(
        self, layer: Layer, options: Mapping[str, Any], *, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
    ) -> list[Tensor]:
        """Outputs as the file has them → with all that is known of them. Raises `BadModel`."""
        step = Step(
            op=layer.type.lower(),
            version=read_version(layer.version),
            options=options,
            shapes=tuple(tensor.shape for tensor in inputs),
            elements=lambda at: self.read_elements(inputs[at].name) if 0 <= at < len(inputs) else None,
            outputs=len(outputs),
        )
        try:
            # A port without dimensions is a scalar or of unknown rank: nothing to hold a shape against.
            shapes = settle_outputs(step, [tensor.shape or None for tensor in outputs])
        except ShapeConflict as error:
            reason = f"it is shape-inconsistent at layer {layer.name!r} ({layer.type}): {error}"
            raise damaged(self.path, reason) from error
        settled = [
            tensor if shape is None else self._know(tensor, shape)
            for tensor, shape in zip(outputs, shapes, strict=True)
        ]
        found = follow(step, outputs=[tensor.shape for tensor in settled], dtype=settled[0].dtype) if settled else ()
        for tensor, elements in zip(settled, found, strict=True):
            if elements is not None:
                self._elements[tensor.name] = elements
        return settled

    def read_elements(self, name: str) -> Elements | None:
        """Elements of the tensor `name`, as far as they are known; None where it is no small tensor."""
        if name not in self._elements:
            constant = self.constants.get(name)
            self._elements[name] = self.weights.read_values(constant) if constant is not None else None
        return self._elements[name]

    def read_values(self, name: str) -> tuple[int | float, ...] | None:
        """Elements of the tensor `name`, where it is small and a constant or follows from shapes."""
        found = self.read_elements(name)
        return None if found is None or None in found else tuple(each for each in found if each is not None)
