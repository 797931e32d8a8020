"""Options of ``convert``."""

from __future__ import annotations

from edgewise.units import parse_duration
from edgewise.verbs import shared_options as options
from edgewise.verbs.option import argument, option

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
    option(
        "-o --output F",
        options.OUTPUT,
        "File to write, or a SavedModel's folder (default: MODEL's name)",
        field="folder",
    ),
    options.FORCE,
    options.DETAILS,
    options.AS_JSON,
    options.QUIET,
    options.DRY_RUN,
    options.ABSOLUTE,
)
