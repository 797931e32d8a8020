"""Carries out `convert`."""

from __future__ import annotations

from pathlib import Path

from edgewise.converting.base import TARGETS
from edgewise.converting.checked import ConversionTask, convert_checked
from edgewise.converting.result import Conversion
from edgewise.converting.signature_file import name_with
from edgewise.evaluating.data_options import DataOptions
from edgewise.model.callable_loader import is_factory
from edgewise.optimizing.plain_int8 import convert_to_int8
from edgewise.verbs.context import Context
from edgewise.verbs.convert.in_lab import convert_in_lab
from edgewise.verbs.convert.request import ConvertRequest
from edgewise.verbs.verb import command_of


def convert(request: ConvertRequest, context: Context) -> Conversion:
    """Convert the model and compare the outputs. Nothing is saved in the store."""
    to = request.target_word
    output = default_output(request.model, to, request.signature)
    if request.precision == "int8":
        output = output.with_name(f"{output.stem}_int8{output.suffix}")
    task = ConversionTask(
        source=request.model,
        to=to,
        output=output if request.folder is None else Path(request.folder),
        signature=request.signature,
        overwrite=request.force,
        opset=request.opset,
        precision="f16" if request.precision == "f16" else "",
        shapes=request.shapes,
        input_data=None if request.input_data is None else Path(request.input_data),
        seed=request.seed,
        timeout_s=request.timeout,
        memory_limit=request.memory_limit,
        command=command_of(request.model_copy(update={"lab": False})),
    )
    context.begin(request.model)
    if request.lab:
        return convert_in_lab(request, task, context)
    if request.precision != "int8" or request.data is None:
        return convert_checked(task)
    options = DataOptions(
        source=request.data, split=request.split, limit=request.limit, seed=request.seed, prepare=request.prepare
    )
    return convert_to_int8(task, options)


def default_output(model: str, to: str, signature: str = "") -> Path:
    """Return a file in the current folder that is called like the model; ``net-make_model.onnx`` for
    ``net.py:make_model``.

    With the `signature` of a file ``net-decode.onnx``.
    """
    if is_factory(model):
        module, _, function = model.rpartition(":")
        stem = f"{Path(module).stem}-{function}"
    else:
        path = Path(model)
        stem = name_with((path.absolute().parent if path.name == "saved_model.pb" else path).stem, signature)
    suffix = TARGETS[to].suffix
    return Path(f"{stem}{suffix or '-' + to}")
