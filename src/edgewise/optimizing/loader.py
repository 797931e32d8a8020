"""Writes a small program beside the chosen file that loads it as chosen, prepares a sample as the search did, and runs
it. The program needs the engine, numpy and, for pictures, Pillow.

For steps that take more than a few lines (sound, text, letterboxes …) it calls edgewise, which reads the instructions
beside the file; its first lines then say that it needs edgewise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from edgewise.evaluating.dataset import Kind
from edgewise.evaluating.input_conversion import InputPlan, steps_for
from edgewise.evaluating.instructions import Instructions
from edgewise.evaluating.step_settings import Step
from edgewise.model.graph import Quantization
from edgewise.model.identity import read_graph
from edgewise.record import InputSpec, Job, RuntimeSpec
from edgewise.runtime.base import runtimes
from edgewise.runtime.onnxruntime import SETTING_WORDS
from edgewise.text import listing, one_line

_PROGRAM = '''"""{{ title }}

    python {{ own }} SAMPLE

SAMPLE is {{ what }}. Needs the Python packages {{ needs }}.
Written by `edgewise optimize`; change it as you like.
"""

import sys
from pathlib import Path

import numpy as np

MODEL = str(Path(__file__).with_name({{ model|repr }}))
{% if classes %}
CLASSES = {{ classes|repr }}
{% endif %}
USAGE = "SAMPLE is {{ what }}"


{% if kind == "image" %}
def read(path):
    """Pixels by height, width and channels: 1 of a grey picture, else 3; transparency is dropped."""
    from PIL import Image, ImageOps

    picture = ImageOps.exif_transpose(Image.open(path))
    if picture.mode.startswith("I"):  # grey of 16 bits
        return (np.asarray(picture).astype(np.uint16) >> 8).astype(np.uint8)[:, :, None]
    if picture.mode in ("1", "L", "LA"):
        return np.array(picture.convert("L"))[:, :, None]
    return np.array((picture.convert("RGBA") if picture.mode in ("P", "PA") else picture).convert("RGB"))
{% else %}
def read(path):
    """One array, or with several inputs one for each by its name."""
    found = np.load(path)
    return found if isinstance(found, np.ndarray) else {name: found[name] for name in found}
{% endif %}


def prepare(sample):
{% if preparation is none %}
    from edgewise.evaluating.preparing import prepare_as_written

    return prepare_as_written(MODEL, sample, kind={{ (kind or "array")|repr }}, shapes={{ shapes|repr }})
{% else %}
    arrays = []
{% for line in preparation %}
    {{ line }}
{% endfor %}
    return arrays
{% endif %}


def load():
{% if engine == "onnxruntime" %}
    import onnxruntime

    options = onnxruntime.SessionOptions()
{% for line in settings %}
    options.{{ line }}
{% endfor %}
    session = onnxruntime.InferenceSession(MODEL, options, providers=[{{ provider|repr }}])
    names = {{ shapes|list|repr }}
    return lambda arrays: session.run(None, dict(zip(names, arrays)))
{% elif engine == "openvino" %}
    import openvino

    core = openvino.Core()
    model = core.read_model(MODEL)
    if model.is_dynamic():
        model.reshape({{ sizes|repr }})
    settings = {{ settings|repr }}
    compiled = core.compile_model(model, {{ provider|repr }}, settings)

    request = compiled.create_infer_request()

    # compiled(arrays) is shorter, and takes far longer than a small network itself.
    def run(arrays):
        arrays = [np.ascontiguousarray(array) for array in arrays]
        for index, array in enumerate(arrays):
            request.set_input_tensor(index, openvino.Tensor(array, shared_memory=True))
        request.infer(share_outputs=True)
        return [request.get_output_tensor(index).data.copy() for index in range(len(compiled.outputs))]

    return run
{% elif provider == "compiled" %}
    from ai_edge_litert.compiled_model import CompiledModel
    from ai_edge_litert.options import CpuOptions, HardwareAccelerator, Options

    settings = {{ settings|repr }}
    processor = CpuOptions(**settings)
    options = Options(hardware_accelerators=HardwareAccelerator.CPU, cpu_options=processor)
    model = CompiledModel.from_file(MODEL, options=options)
    key, names = next(iter(model.get_signature_list().items()))
    details = model.get_output_tensor_details(key)
    types = [np.dtype(details[name]["dtype"]) for name in names["outputs"]]
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)

    def run(arrays):
        for buffer, array in zip(inputs, arrays):
            buffer.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
        model.run_by_index(0, inputs, outputs)
        found = []
        for buffer, dtype in zip(outputs, types):
            shape = tuple(buffer.get_tensor_details()["shape"])
            count = int(np.prod(shape)) * dtype.itemsize
            found.append(buffer.read(count, np.uint8).view(dtype).reshape(shape))
        return found

    return run
{% else %}
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    kernels = OpResolverType.{{ provider }}
    settings = {{ settings|repr }}
    interpreter = Interpreter(MODEL, experimental_op_resolver_type=kernels, **settings)
    inputs = [each["index"] for each in interpreter.get_input_details()]
    outputs = [each["index"] for each in interpreter.get_output_details()]
    for index, shape in zip(inputs, {{ sizes.values()|list|repr }}):
        interpreter.resize_tensor_input(index, shape)
    interpreter.allocate_tensors()

    def run(arrays):
        for index, array in zip(inputs, arrays):
            interpreter.set_tensor(index, array)
        interpreter.invoke()
        return [interpreter.get_tensor(index) for index in outputs]

    return run
{% endif %}


def main(path):
    run = load()
    for output in run(prepare(read(path))):
        print(output.dtype, list(output.shape), output.reshape(-1))
{% if classes %}
        if output.size == len(CLASSES):
            for place in np.argsort(output.reshape(-1))[::-1][:3]:
                print(f"{CLASSES[place]}: {output.reshape(-1)[place]}")
{% endif %}


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: python {sys.argv[0]} SAMPLE; {USAGE}")
    main(sys.argv[1])
'''
_PACKAGES = {"litert": "ai-edge-litert"}
"""Packages of engines that have another name."""
_RECOLOUR = {
    None: (),
    1: ("if x.shape[2] == 3:", "    from PIL import Image",
        "    x = np.array(Image.fromarray(x).convert('L'))[:, :, None]"),
    3: ("if x.shape[2] == 1:", "    x = np.repeat(x, 3, axis=2)"),
}  # fmt: skip
_RESOLVERS = {"interpreter": "AUTO", "interpreter-noxnnpack": "BUILTIN_WITHOUT_DEFAULT_DELEGATES",
              "interpreter-reference": "BUILTIN_REF"}  # fmt: skip


def write_loader(file: Path, job: Job, instructions: Instructions, *, kind: Kind | None, title: str) -> Path | None:
    """Write the program for the model at `file` with the settings of `job`; None where the engine is not supported.

    Args:
        kind: of the samples; None without data.
    """
    if job.runtime.name not in ("onnxruntime", "openvino", "litert"):
        return None
    import jinja2

    specs = job.workload.inputs
    preparation = _prepare(Path(job.model.path), specs, instructions, kind)
    needs = [_PACKAGES.get(job.runtime.name, job.runtime.name), "numpy"]
    needs += ["Pillow"] if kind == "image" else []
    needs += ["edgewise (for the preparation of samples)"] if preparation is None else []
    place = file.with_name(f"{file.name}.load.py")
    # A file's name may contain quotes; in the program it must not become code.
    words = {word: one_line(value).replace("\\", "/").replace('"', "'") for word, value in
             {"title": title, "own": place.name}.items()}  # fmt: skip
    provider, settings = _configure(job.runtime)
    environment = jinja2.Environment(trim_blocks=True, keep_trailing_newline=True)  # noqa: S701 - no page, a program
    environment.filters["repr"] = repr
    text = environment.from_string(_PROGRAM).render(
        **words,
        what="a picture" if kind == "image" else "a .npy file, or .npz with an array for each input",
        model=file.name,
        kind=kind,
        preparation=preparation,
        classes=instructions.classes if instructions.task == "classification" else (),
        needs=listing(needs),
        shapes={spec.name: spec.shape for spec in specs},
        sizes={index: list(spec.shape) for index, spec in enumerate(specs)},
        engine=job.runtime.name,
        provider=provider,
        settings=settings,
    )
    place.write_text(text, encoding="utf-8")
    return place


def _configure(runtime: RuntimeSpec) -> tuple[str, Any]:
    """Return the provider as the engine names it, and settings: lines for onnxruntime, else arguments."""
    threads, options = runtime.threads, dict(runtime.options)
    if runtime.name == "onnxruntime":
        titles = {one.name: one.title for one in runtimes().get("onnxruntime").providers}
        return titles.get(runtime.provider or "cpu", "CPUExecutionProvider"), list(_onnxruntime_lines(runtime))
    if runtime.name == "openvino":
        usual = {"INFERENCE_PRECISION_HINT": runtime.precision or "f32", "PERFORMANCE_HINT": "LATENCY"}
        own = {} if threads is None else {"INFERENCE_NUM_THREADS": threads}
        return (runtime.provider or "cpu").upper(), usual | own | options
    if runtime.provider == "compiled":
        return "compiled", {"num_threads": threads or 0, **options}
    return _RESOLVERS[runtime.provider or "interpreter"], {"num_threads": threads, **options}


def _onnxruntime_lines(runtime: RuntimeSpec) -> Iterator[str]:
    """Yield settings as attributes and calls of a ``SessionOptions``."""
    if runtime.threads is not None:
        yield f"intra_op_num_threads = {runtime.threads}"
        yield "inter_op_num_threads = 1"
    for name, value in runtime.options.items():
        if name in SETTING_WORDS:
            kind, words = SETTING_WORDS[name]
            yield f"{name} = onnxruntime.{kind}.{words[str(value)]}"
            if value == "parallel" and runtime.threads is not None:
                yield f"inter_op_num_threads = {runtime.threads}"
        elif "." in name:
            yield f"add_session_config_entry({name!r}, {str(value)!r})"
        else:
            yield f"{name} = {value!r}"


def _prepare(
    model: Path, specs: Sequence[InputSpec], instructions: Instructions, kind: Kind | None
) -> list[str] | None:
    """Return the lines that make the input arrays of a sample; None where a step takes more than a few lines."""
    graph = read_graph(model, shapes={spec.name: spec.shape for spec in specs})
    lines: list[str] = []
    for spec in specs:
        steps = instructions.steps.get(spec.name, instructions.steps.get("", ()))
        tensor = graph.tensors.get(spec.name)
        written = _steps(steps, kind, None if tensor is None else tensor.quantization, spec)
        if written is None:
            return None
        lines += [f"x = sample[{spec.name!r}] if isinstance(sample, dict) else sample", *written]
    return lines


def _steps(
    steps: Sequence[Step], kind: Kind | None, quantization: Quantization | None, spec: InputSpec
) -> list[str] | None:
    """Return the lines for one input; None where a step takes more than a few lines."""
    channels: int | None = -1 if kind == "image" else None
    lines: list[str] = []
    real = False
    plan = InputPlan(spec=spec, quantization=quantization, steps=steps_for(steps, spec, kind=kind))
    if kind == "image":
        lines += _RECOLOUR[plan.channels]
    for step in plan.steps:
        settings = step.to_document()
        if step.name in _ARITHMETIC:
            written = _arithmetic(step, channels)
            real = True
        elif step.name == "layout" and channels is not None:
            written = {
                (-1, "nchw"): ["x = x.transpose(2, 0, 1)"], (0, "nhwc"): ["x = x.transpose(1, 2, 0)"]
            }.get((channels, settings["to"]), [])  # fmt: skip
            channels = 0 if settings["to"] == "nchw" else -1
        elif step.name == "transpose":
            written, channels = [f"x = x.transpose({tuple(settings['axes'])!r})"], None
        elif step.name in ("reshape", "flatten"):
            written, channels = [f"x = x.reshape({list(settings.get('shape', [-1]))!r})"], None
        elif step.name == "resize" and channels == -1 and not real and not isinstance(settings["size"], int):
            height, width = settings["size"]
            method = f"Image.Resampling.{settings['filter'].upper()}"
            written = ["from PIL import Image",
                       "picture = Image.fromarray(x[:, :, 0] if x.shape[2] == 1 else x)",
                       f"picture = picture.resize(({width}, {height}), {method})",
                       f"x = np.asarray(picture).reshape({height}, {width}, -1)"]  # fmt: skip
        else:
            return None
        if written is None:
            return None
        lines += written
    return [*lines, *_finish(quantization, spec)]


_ARITHMETIC = {"scale": "by", "offset": "by", "mean": "values", "std": "values", "cast": "to"}
_SIGNS = {"scale": "*", "offset": "+", "mean": "-", "std": "/"}


def _arithmetic(step: Step, channels: int | None) -> list[str] | None:
    value = step.to_document()[_ARITHMETIC[step.name]]
    if step.name == "cast":
        whole = not str(value).startswith("float")
        return [f"x = {'np.rint(x)' if whole else 'x'}.astype(np.{'bool_' if value == 'bool' else value})"]
    axis = step.to_document().get("axis")
    axis = channels if axis is None else axis
    if len(value) > 1:
        if axis not in (0, -1):
            return None
        numbers = f"np.array({[str(each) for each in value]}, np.float32)".replace("'", "")
        return [f"x = x.astype(np.float32) {_SIGNS[step.name]} {numbers}{'[:, None, None]' if axis == 0 else ''}"]
    above, slash, below = str(value[0]).partition("/")
    if slash and step.name == "scale":
        times = "" if float(above) == 1.0 else f" * np.float32({above})"
        return [f"x = x.astype(np.float32){times} / np.float32({below})"]
    return [f"x = x.astype(np.float32) {_SIGNS[step.name]} np.float32({value[0]})"]


def _finish(quantization: Quantization | None, spec: InputSpec) -> list[str]:
    """Return the lines that convert to the input's type and shape."""
    lines = []
    if quantization is not None and spec.dtype in ("int8", "uint8", "int16", "uint16"):
        scale, zero = quantization.scale, quantization.zero_point
        lines += [
            "if x.dtype.kind == 'f':",
            f"    limits = np.iinfo(np.{spec.dtype})",
            f"    x = np.clip(np.rint(x / np.float32({scale!r})) + {zero}, limits.min, limits.max)",
        ]
    return [*lines, f"arrays.append(np.ascontiguousarray(x.astype(np.{spec.dtype}).reshape({list(spec.shape)!r})))"]
