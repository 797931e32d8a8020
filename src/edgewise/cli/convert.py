"""``edgewise convert``: a model in another format, kept only if its outputs agree with the source's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgewise.cli.console import complain
from edgewise.cli.verb import Output, Presentation, output_of, perform
from edgewise.errors import ExitCode
from edgewise.units import parse_duration
from edgewise.verbs import shared_options as options
from edgewise.verbs.command import takes
from edgewise.verbs.option import Values, argument, option, request_of

if TYPE_CHECKING:
    from rich.console import Console

    from edgewise.converting.result import Conversion
    from edgewise.service.requests import ConvertRequest

HOW = "How to convert"

OPTIONS = (
    argument(
        "model",
        ".onnx, .tflite, .pt2, .keras, .pb, .pdmodel, a SavedModel's folder, or FILE.py:FUNCTION.",
        str,
        metavar="MODEL",
    ),
    options.SIGNATURE,
    option(
        "--to FORMAT",
        HOW,
        "onnx, ort, openvino, tflite, pt2, keras or savedmodel (default: by the ending of -o)",
        choices=("onnx", "ort", "openvino", "tflite", "pt2", "keras", "savedmodel"),
    ),
    option("--opset N", HOW, "Version of ONNX's operator set (default: the exporter's)", int),
    option(
        "--precision P",
        HOW,
        "f16 stores the weights of OpenVINO IR in 16 bits; int8 quantises weights and activations of .tflite and .onnx "
        "(default: f32, unchanged)",
    ),
    option("--data PATH", options.DATA, "For --precision int8: samples for the ranges of the activations"),
    option("--split NAME", options.DATA, "Part of the data to use (default: calibration, train, training or all)"),
    option("--limit N", options.DATA, "Number of samples to use, chosen at random by --seed (default: 128)", int),
    option(
        "--prepare STEP=VALUE",
        options.DATA,
        "Preparation of a sample, in order: resize=256, crop=224, scale=1/255; replaces the YAML's steps",
        list[str],
    ),
    options.SHAPES.worded(
        "Shape of an input with open dimensions: of the test inputs, of the export of a module without example inputs, "
        "and of OpenVINO IR; repeatable",
        panel=HOW,
    ),
    options.INPUT_DATA.worded(
        "File with one array per input, on which source and result are compared (default: 3 random inputs)"
    ),
    options.SEED,
    option("--timeout T", options.MEASURE, "Time limit of the conversion", read=parse_duration, default="10min"),
    options.MEMORY_LIMIT.worded("Memory that the converter and a worker may allocate (default: available memory)"),
    option("-o --output F", options.OUTPUT, "File to write, or a SavedModel's folder (default: MODEL's name)"),
    options.FORCE,
    options.DETAILS,
    options.AS_JSON,
    options.QUIET,
    options.DRY_RUN,
    options.ABSOLUTE,
)


class ConvertPresentation(Presentation["Conversion"]):
    """How a conversion is shown."""

    files = "CONVERSIONS"

    def show(self, result: Conversion, console: Console, *, output: Output) -> None:
        """The file, the steps, what changed, and the agreement of each output."""
        from edgewise.report.conversion import conversion_document
        from edgewise.report.text import print_document

        print_document(conversion_document(result), console, details=output.details)

    def finish(self, result: Any, *, output: Output) -> int:
        """Say why a result was refused."""
        del output
        if result.accepted:
            return ExitCode.DONE
        advice = "replace the operator, or convert to another format; report it to the converter's authors"
        if "--precision f16" in result.command:
            advice = "convert without --precision f16"
        complain(f"nothing was written: {result.refused_because}", advice)
        return ExitCode.RUN_FAILED


PRESENTATION = ConvertPresentation()


@takes(*OPTIONS)
def command(values: Values) -> int:
    """Convert a model to another format with the engines' own converters; the result is kept if its outputs agree."""
    return perform(request_from(values), PRESENTATION, output_of({**values, "output": ()}))


def request_from(values: Values) -> ConvertRequest:
    """The request that the command line describes. Raises `BadInput`."""
    from edgewise.service.requests import ConvertRequest

    return request_of(ConvertRequest, OPTIONS, values)
