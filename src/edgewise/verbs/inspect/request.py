"""The request of ``inspect``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from edgewise.errors import BadField
from edgewise.verbs.declared import declared_options, request_of
from edgewise.verbs.fields import Cases, InputShapes, Signature
from edgewise.verbs.option import Values, argument, option, worded
from edgewise.verbs.request import FilePath, Request
from edgewise.verbs.shared import check_cases, check_signature
from edgewise.verbs.shared_options import (
    ABSOLUTE,
    AS_JSON,
    BUILD,
    DRY_RUN,
    FORCE,
    MODEL,
    OUTPUTS,
    TOP,
    models_or_factory,
)  # fmt: skip


class InspectRequest(Request):
    """Count what a model costs, without timing it."""

    PATHS = ("model",)

    OTHER_OPTIONS = (
        BUILD,
        TOP,
        OUTPUTS.worded("Also write a file: .md, .html, .csv (layers) or .json; repeatable"),
        FORCE,
        AS_JSON,
        DRY_RUN,
        ABSOLUTE,
    )

    verb: Literal["inspect"] = "inspect"
    model: Annotated[
        FilePath,
        argument(
            "model",
            ".onnx, .tflite, OpenVINO .xml, .pt2, .pte, .keras, .gguf, the folder "
            "of a language model, or FILE.py:FUNCTION.",
            str,
            metavar="MODEL",
            optional=True,
        ),
    ]
    cases: Cases = ({},)
    shapes: Annotated[InputShapes, worded(panel=MODEL)] = Field(default_factory=dict)
    signature: Signature = ""
    hash_weights: Annotated[
        bool, option("--hash", MODEL, "Compute the model's hash, for which its weight files are read")
    ] = False
    sparsity: Annotated[
        bool, option("--sparsity", MODEL, "Count the zeros of the weights and find their patterns; reads all weights")
    ] = False

    def check(self) -> None:
        """Reject cases without a factory, and counting zeros without a model file."""
        from edgewise.model.callable_loader import is_factory

        check_cases(self.cases, (self.model,))
        check_signature(self.signature, self.model)
        if self.sparsity and is_factory(self.model):
            raise BadField(
                "⟦sparsity⟧ needs a model file, not a function",
                advice="write a file with 'edgewise convert FILE.py:FUNCTION --to onnx', then inspect the file",
            )


def read(values: Values) -> InspectRequest:
    """Return the request that the options describe. Raises `BadInput`."""
    (model,) = models_or_factory([values["model"]] if values["model"] else None, values["build"])
    return request_of(InspectRequest, declared_options(InspectRequest), values, model=model)
