"""Formats that only engines take apart: ONNX Runtime's ``.ort``, and TensorFlow's and Paddle's, which OpenVINO reads.

The engine says what the inputs and outputs are, in a process of its own with limits (`edgewise.runtime.describing`), so
that a hostile file can't harm this one. No reader here tells a network.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any

from edgewise.child_process import run_child
from edgewise.errors import BadModel, Unavailable
from edgewise.model.readers.base import SelfContained, damaged, identify_version, make_signature
from edgewise.model.signature import Signature, TensorSpec
from edgewise.registry import Registry
from edgewise.wire import BYTES, Damaged, read_fields

TIMEOUT_S = 120
_MOST_FILES = 10_000


_LENGTH = rb"[\x80-\xff]*[\x00-\x7f]"


class _EngineFormat(SelfContained):
    """What the readers share.

    Attributes:
        format, title: as `edgewise.model.readers.base.Reader` has them.
        beginning: of every file of the format, and of no other.
        advice: for a file that its engine can't read.
    """

    format = title = advice = ""
    beginning: re.Pattern[bytes]

    def sniff(self, head: bytes, path: Path) -> bool:
        """Whether the file begins as the format does."""
        return self.beginning.match(head) is not None

    def read_signature(self, path: Path) -> Signature:
        """Return inputs and outputs as the engine that reads the format names them.

        Raises:
            BadModel: the engine can't read it.
            Unavailable: no engine that reads it is installed.
        """
        return _ask_engine(identify_version(path), self.format, self.title, self.advice)


class OrtReader(_EngineFormat):
    """Reads ONNX Runtime's own format, a flatbuffer."""

    format, title, advice = "ort", "ONNX Runtime (.ort)", "export it again with this version of ONNX Runtime"
    beginning = re.compile(rb".{4}ORTM", re.DOTALL)


class SavedModelReader(_EngineFormat):
    """Reads TensorFlow SavedModels: ``saved_model.pb``, its variables in a folder beside it."""

    format, title = "savedmodel", "TensorFlow SavedModel"
    advice = "give the folder that contains saved_model.pb and variables/"
    # Version 1, then a MetaGraphDef that begins with its facts: operators, tags or TensorFlow's version.
    beginning = re.compile(rb"\x08\x01\x12" + _LENGTH + rb"\x0a" + _LENGTH + rb"[\x12\x22\x2a]")

    def read_signature(self, path: Path) -> Signature:
        """Return inputs and outputs of the default signature, as the engine names them."""
        return next(iter(self.read_signatures(path).values()), None) or super().read_signature(path)

    def read_signatures(self, path: Path) -> Mapping[str, Signature]:
        """Return the signatures of a file that has several, the default first; empty where no installed engine
        tells them.
        """
        return _ask_signatures(identify_version(path)) if _has_several_signatures(path) else {}

    def weight_files(self, path: Path) -> tuple[Path, ...]:
        """Files of variables and assets, by name. Raises `BadModel` for one that a link leads to from elsewhere."""
        folder = path.absolute().parent
        inside = chain.from_iterable((folder / name).rglob("*") for name in ("variables", "assets"))
        files = sorted(islice((file for file in inside if file.is_file()), _MOST_FILES + 1))
        if len(files) > _MOST_FILES:
            raise damaged(path, f"there are more than {_MOST_FILES} files in its folder")
        for file in files:
            if not file.resolve().is_relative_to(folder.resolve()):
                where = file.relative_to(folder)
                raise damaged(
                    path, (f"{where} is a link to a file outside its folder"), advice=("replace the link with the file")
                )
        return tuple(files)


def _has_several_signatures(path: Path) -> bool:
    """Whether a graph of a SavedModel has several signatures: fields 5 of the ``MetaGraphDef``, a map by name."""
    data = path.read_bytes()
    try:
        for _, number, wire, start, end in read_fields(data, 0, len(data)):
            if (number, wire) != (2, BYTES):
                continue
            entries = [each[3:] for each in read_fields(data, start, end) if each[1:3] == (5, BYTES)]
            names = (
                data[at:stop] for entry in entries for _, key, _, at, stop in read_fields(data, *entry) if key == 1
            )
            if sum(not name.startswith(b"__") for name in names) > 1:
                return True
    except Damaged:
        return False  # the engine says what is wrong
    return False


class TensorFlowReader(_EngineFormat):
    """Reads frozen TensorFlow graphs (``GraphDef``), binary or text."""

    format, title = "tensorflow", "TensorFlow graph (.pb)"
    advice = "OpenVINO reads frozen graphs: give a SavedModel, or freeze the graph"
    # A NodeDef: a name, then the type of an operator.
    beginning = re.compile(
        rb"\x0a" + _LENGTH + rb"\x0a[\x01-\x7f][\w.][\w.>/\\-]*\x12[\x01-\x7f][A-Z_]\w|\s*node\s*\{\s*name:"
    )


class PaddleReader(_EngineFormat):
    """Reads Paddle's programs: ``NAME.pdmodel``, its weights in ``NAME.pdiparams`` beside it."""

    format, title = "paddle", "Paddle (.pdmodel)"
    advice = "OpenVINO reads NAME.pdmodel with NAME.pdiparams beside it"
    # A ProgramDesc: block 0, which has no parent (−1).
    beginning = re.compile(rb"\x0a" + _LENGTH + rb"\x08\x00\x10\xff{9}\x01")

    def weight_files(self, path: Path) -> tuple[Path, ...]:
        """``NAME.pdiparams``, where there is one: a network without weights has none."""
        weights = path.with_suffix(".pdiparams")
        return (weights,) if weights.is_file() else ()


@lru_cache(maxsize=64)
def _ask_engine(version: tuple[Path, int, int, int], form: str, title: str, advice: str) -> Signature:
    """Return what the first engine that can read the file says; kept for as long as the file does not change."""
    path, hints, failures = version[0], list[str](), list[str]()
    registry: Registry[Any] = Registry("edgewise.runtimes", "runtime")
    for name, runtime in registry:
        if form not in runtime.formats or not hasattr(runtime, "describe"):
            continue
        if not (availability := runtime.availability()):
            hints.append(availability.install_hint)
            continue
        answer = _run(path, registry.location(name))
        if "error" not in answer and answer["outputs"]:
            return _make_signature(path, answer["inputs"], answer["outputs"])
        failures.append(f"{runtime.title} can't read {path.name}: {answer.get('error', 'it has no outputs')}")
    if failures:
        raise BadModel("; ".join(failures), advice=advice)
    raise Unavailable(
        f"{path.name}: no installed engine reads the format {title}",
        advice=" or ".join(hints) or "see 'edgewise doctor'",
    )


@lru_cache(maxsize=64)
def _ask_signatures(version: tuple[Path, int, int, int]) -> Mapping[str, Signature]:
    """Return what the first engine says that tells the signatures of a SavedModel; empty without such an engine."""
    registry: Registry[Any] = Registry("edgewise.runtimes", "runtime")
    for name, runtime in registry:
        if "savedmodel" in runtime.formats and hasattr(runtime, "describe_signatures") and runtime.availability():
            answer = _run(version[0], registry.location(name), signatures=True).get("signatures", ())
            return {key: _make_signature(version[0], inputs, outputs) for key, inputs, outputs in answer}
    return {}


def _make_signature(path: Path, inputs: Sequence[Any], outputs: Sequence[Any]) -> Signature:
    """Return what an engine's process answer."""
    taken, given = (
        [
            TensorSpec(name=name, shape=None if shape is None else tuple(shape), dtype=dtype)
            for name, shape, dtype in one
        ]
        for one in (inputs, outputs)
    )
    return make_signature(path, inputs=taken, outputs=given)


def _run(path: Path, location: str, *, signatures: bool = False) -> dict[str, Any]:
    request = json.dumps({"runtime": location, "path": str(path.absolute()), "signatures": signatures}).encode()
    done = run_child([sys.executable, "-P", "-m", "edgewise.runtime.describing"], request=request, seconds=TIMEOUT_S)
    if done.returncode == 1:  # the engine raised an error
        return {"error": done.tail.rpartition("\n")[2]}
    if done.failure:
        return {"error": f"its process {done.failure}"}
    try:
        answer = json.loads(done.output)
    except ValueError:
        answer = None
    return answer if isinstance(answer, dict) else {"error": "its process gave no answer"}
