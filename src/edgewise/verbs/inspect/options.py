"""Options of ``inspect``, and what they ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgewise.verbs import shared_options as options
from edgewise.verbs.option import Values, argument, option, request_of
from edgewise.verbs.shared_options import models_or_factory

if TYPE_CHECKING:
    from edgewise.verbs.inspect.request import InspectRequest

OPTIONS = (
    argument(
        "model",
        ".onnx, .tflite, OpenVINO .xml, .pt2, .keras, or FILE.py:FUNCTION.",
        str,
        metavar="MODEL",
        default=None,
    ),
    options.BUILD,
    options.CASES,
    options.SHAPES.worded("Shape of an input with open dimensions; repeatable", panel=options.MODEL),
    options.SIGNATURE,
    option(
        "--hash",
        options.MODEL,
        "Compute the model's hash, for which its weight files are read",
        bool,
        field="hash_weights",
    ),
    option(
        "--sparsity", options.MODEL, "Count the zeros of the weights and find their patterns; reads all weights", bool
    ),
    options.TOP,
    options.OUTPUTS.worded("Also write a file: .md, .html, .csv (layers) or .json; repeatable"),
    options.FORCE,
    options.AS_JSON,
    options.DRY_RUN,
    options.ABSOLUTE,
)


def read(values: Values) -> InspectRequest:
    """The request that the options describe. Raises `BadInput`."""
    from edgewise.verbs.inspect.request import InspectRequest

    (model,) = models_or_factory([values["model"]] if values["model"] else None, values["build"])
    return request_of(InspectRequest, OPTIONS, values, model=model)
