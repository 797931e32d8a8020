"""From a sample as stored to the arrays that a model is fed, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from edgewise.evaluating.dataset import Kind, Sample
from edgewise.evaluating.instructions import Instructions
from edgewise.evaluating.task import Feed
from edgewise.model.graph import Quantization
from edgewise.record import InputSpec

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]


class Preparer:
    """Prepares samples for one model.

    Args:
        instructions: what to do.
        specs: what the model is fed, in its order; every leading dimension is that of one sample.
        quantizations: of each input, None where it is not quantised: real values are then brought to integers by it.
        kind: of the samples.

    Raises:
        BadInput: steps that don't fit the kind or the inputs, or nothing that says how pixels become real numbers.
    """

    def __init__(
        self,
        instructions: Instructions,
        *,
        specs: Sequence[InputSpec],
        quantizations: Sequence[Quantization | None],
        kind: Kind,
    ) -> None:
        raise NotImplementedError

    def prepare(self, sample: Sample) -> tuple[list[Array], Feed]:
        """One array per input, of exactly its shape and dtype, and how an image was brought there.

        Raises:
            CorruptSample: this sample can't be used (not finite, wrong size without a resize, too short).
            BadInput: no sample of this data set can be: it ends the evaluation.
        """
        raise NotImplementedError
