"""ONNX files as TFLite files, by onnx2tf: its requirements contradict edgewise's, so it has an environment of its own.

Inputs that can be pictures, N×C×H×W with 1, 3 or 4 channels, get their channels last, as TFLite's convolutions read
them; the other inputs keep their layout. Open dimensions become what the test inputs have.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from edgewise.converting.base import ConvertOptions, calling
from edgewise.device.environment_maker import FOREIGN
from edgewise.device.environments import python_of
from edgewise.errors import BadInput, Unavailable
from edgewise.model.identity import list_files, open_model
from edgewise.model.signature import Signature, TensorSpec
from edgewise.run.facts import DOWNLOADS
from edgewise.workload.input_shapes import open_axes, resolve_inputs

TOOL = "onnx2tf"
REQUIREMENT = f"{TOOL}==2.6.9"
SIZE = DOWNLOADS["onnx", "tflite"]
"""What pip downloads for it: 161 MB on Linux x86-64 for Python 3.12, and some MB of small packages."""
_TESTED = (3, 12)
"""The oldest Python that its authors name. It runs in 3.11 too, and what it writes is compared with the source."""
_COLOURS = (1, 3, 4)
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


def find_program() -> str:
    """Return the path of onnx2tf: beside this Python, on PATH, or in an environment that is made where it is not
    there yet.

    Raises `Unavailable`: the environment can't be made.
    """
    places = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    if found := shutil.which(TOOL, path=places):
        return found
    try:
        python = python_of(REQUIREMENT, any_python=sys.version_info < _TESTED, size=SIZE)
    except Unavailable as error:
        advice = f"check the package index and the free space, or put the program {TOOL} of your own on PATH"
        raise Unavailable(error.message, advice=advice) from error
    return str(Path(python).with_name(TOOL))


def write_tflite(source: Path, path: Path, options: ConvertOptions) -> str:
    """Convert in float32, and return the version in words.

    Raises:
        Unavailable: onnx2tf can't convert this model, or the options name no program.
        BadInput: an open dimension needs a shape.
    """
    if not options.program:
        raise Unavailable(
            f"{TOOL} converts files, and a function gives the network",
            advice="write the network to an .onnx file, and convert that",
        )
    inputs = open_model(source).signature.inputs  # refuses weights outside the model's folder
    with calling(TOOL, to="TFLite"), tempfile.TemporaryDirectory(dir=path.parent) as folder:
        for file in list_files(source):  # onnx2tf simplifies the file that it reads, in its place
            own = Path(folder, file.relative_to(source.parent))
            own.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, own)
        _run(options.program, "-i", source.name, "-o", "made", *_settings(inputs, options), folder=folder)
        (made,) = Path(folder, "made").glob("*_float32.tflite")
        made.replace(path)
        return f"version {_run(options.program, '-V', folder=folder).split()[-1]}"


def _settings(inputs: Sequence[TensorSpec], options: ConvertOptions) -> list[str]:
    """Return the arguments for open dimensions, and for inputs that keep their layout. Raises `BadInput`."""
    words, kept = [], []
    for spec, own in zip(resolve_inputs(Signature(inputs=tuple(inputs), outputs=()), batch=1, overrides=options.shapes),
                         inputs, strict=True):  # fmt: skip
        shape = ",".join(map(str, spec.shape))
        if open_axes(spec):
            raise BadInput(
                f"input {spec.name} has open dimensions, and TFLite for a microcontroller needs their sizes",
                advice=f"give them with ⟦shape={spec.name}={shape.replace(',', 'x')}⟧, or with the sizes of training",
            )
        if own.dynamic:
            words.append(f"{spec.name}:{shape}")
        if not (len(spec.shape) == 4 and spec.shape[1] in _COLOURS):
            kept.append(spec.name)
    return [*(["-ois", *words] if words else []), *(["-kat", *kept] if kept else [])]


def _run(program: str, *words: str, folder: str) -> str:
    """Return what it prints. It is in this process's group and ends with it. Raises RuntimeError where it fails."""
    own = {name: value for name, value in os.environ.items() if name not in FOREIGN}
    own["PATH"] = os.pathsep.join((str(Path(program).parent), own.get("PATH", os.defpath)))  # it calls onnxsim
    done = subprocess.run(
        [program, *words], cwd=folder, env=own, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    text = _ESCAPES.sub("", done.stdout.decode(errors="replace"))
    if done.returncode:
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        raise RuntimeError(next((line for line in reversed(lines) if "error" in line.lower()), (lines or [""])[-1]))
    return text
