"""The request of ``inspect``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from edgewise.errors import BadField
from edgewise.verbs.request import Case, FilePath, Request, Shapes
from edgewise.verbs.shared import check_cases, check_signature


class InspectRequest(Request):
    """Count what a model costs, without timing it.

    Attributes:
        model: a file or folder; ``file.py:function`` and ``module:function`` are called to make one.
        cases: keyword arguments of the factory, one model each.
        shapes: input name → shape, for inputs with open dimensions.
        signature: name of the entry point of a file that has several; "" is its default.
        hash_weights: read weight files too, for the model's hash.
        sparsity: read all weights, count their zeros and find patterns of them.
    """

    PATHS = ("model",)

    verb: Literal["inspect"] = "inspect"
    model: FilePath
    cases: tuple[Case, ...] = ({},)
    shapes: Shapes = Field(default_factory=dict)
    signature: str = ""
    hash_weights: bool = False
    sparsity: bool = False

    def check(self) -> None:
        """Reject cases without a factory, and counting zeros without a model file."""
        from edgewise.model.callable_loader import is_factory

        check_cases(self.cases, (self.model,))
        check_signature(self.signature, self.model)
        if self.sparsity and is_factory(self.model):
            raise BadField(
                "{sparsity} needs a model file, not a function",
                advice="write a file with 'edgewise convert FILE.py:FUNCTION --to onnx', then inspect the file",
            )
