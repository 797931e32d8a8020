"""Operator sets of the runtimes edgewise comes with, from tables that ``tools/operator_tables.py`` found by trying."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib.resources import files
from typing import Any

from edgewise.model.dialects.openvino import OPERATIONS
from edgewise.model.graph import Graph, Operator


class _Table:
    """A table in `edgewise.data`, read when it is first asked."""

    name = ""
    file = ""
    formats: Sequence[str] = ()

    @cached_property
    def table(self) -> Mapping[str, Any]:
        """The whole document."""
        text = (files("edgewise.data") / "operators" / self.file).read_text(encoding="utf-8")
        document: Mapping[str, Any] = json.loads(text)
        return document

    @property
    def title(self) -> str:
        """For people."""
        return str(self.table["title"])

    @property
    def source(self) -> str:
        """Which engine was tried."""
        return f"{self.table['engine']} was given every operator by itself"


class _OnnxTable(_Table):
    """ONNX operators by the operator set since which they are defined so, with the types each input may have."""

    formats: Sequence[str] = ("onnx",)

    def refusal(self, operator: Operator, graph: Graph) -> str | None:
        """Why the engine would not take `operator`; operators of nobody's standard are never taken."""
        opset = _find_opset(graph)
        if opset is not None and opset > self.table["newest"]:
            return f"{self.table['engine']} reads ONNX up to opset {self.table['newest']}, not {opset}"
        versions = self.table["operators"].get(_qualified(operator))
        if versions is None:
            return f"{self.table['engine']} knows no operator {_qualified(operator)}"
        since = _find_version(versions, opset if "." not in _qualified(operator) else None)
        if since is None:
            return f"{operator.op} is not defined in opset {opset}"
        types = versions[since]
        if types is None:
            return f"{self.table['engine']} has no kernel for {operator.op} of opset {since}"
        return self._refused_type(operator, graph, types)

    def _refused_type(self, operator: Operator, graph: Graph, types: Mapping[str, Sequence[str]]) -> str | None:
        for position, taken in types.items():
            at = int(position)
            name = operator.inputs[at] if at < len(operator.inputs) else ""
            dtype = graph.tensors[name].dtype if name else None
            # Sequences and optional values are not in the table: nothing is said about them.
            known = dtype is not None and re.fullmatch(r"[a-z]+[0-9]+[a-z0-9_]*|bool|string", dtype)
            # ONNX writes float8e4m3fn where graphs have float8_e4m3fn.
            if known and dtype is not None and dtype.replace("_", "") not in taken:
                return f"{self.table['engine']} has no kernel for {operator.op} on {dtype}"
        return None


def _find_opset(graph: Graph) -> int | None:
    match = re.search(r"opset (\d+)", graph.version)
    return int(match[1]) if match else None


def _qualified(operator: Operator) -> str:
    """The operator's name with its domain, as the tables have it."""
    return f"{operator.domain}.{operator.op}" if operator.domain not in ("", "ai.onnx") else operator.op


def _find_version(versions: Mapping[str, Any], opset: int | None) -> str | None:
    """The definition that a model of `opset` means: the newest that is not newer; any for an unknown one."""
    numbers = sorted(map(int, versions))
    fitting = numbers if opset is None else [number for number in numbers if number <= opset]
    return str(fitting[-1]) if fitting else None


class OnnxRuntimeCpu(_OnnxTable):
    """ONNX Runtime's CPU provider."""

    name = "onnxruntime/cpu"
    file = "onnxruntime.json"


class OpenVinoOnnx(_OnnxTable):
    """OpenVINO's reader of ONNX models."""

    name = "openvino/cpu"
    file = "openvino_onnx.json"


class LiteRtInterpreter(_Table):
    """LiteRT's built-in kernels, each up to a version; custom operators need code of their authors."""

    name = "litert/interpreter"
    file = "litert.json"
    formats: Sequence[str] = ("tflite",)

    def refusal(self, operator: Operator, graph: Graph) -> str | None:
        """Why the engine would not take `operator`."""
        del graph
        if operator.custom:
            return f"{operator.op} is a custom operator, whose kernel the application must bring"
        newest = self.table["versions"].get(operator.op)
        if not newest:
            return f"{self.table['engine']} has no kernel for {operator.op}"
        if operator.version > newest:
            return f"{self.table['engine']} has {operator.op} up to version {newest}, not {operator.version}"
        return None


class OpenVinoTflite(_Table):
    """OpenVINO's reader of TFLite models."""

    name = "openvino/cpu"
    file = "openvino_tflite.json"
    formats: Sequence[str] = ("tflite",)

    def refusal(self, operator: Operator, graph: Graph) -> str | None:
        """Why the engine would not take `operator`."""
        del graph
        if operator.custom or not self.table["translators"].get(operator.op):
            return f"{self.table['engine']} has no translator for {operator.op}"
        return None


_IR_OPERATIONS = frozenset(name.lower() for name in OPERATIONS)


class OpenVinoIr:
    """OpenVINO's own operations: what its operator sets define its CPU plug-in takes; extensions are their authors'."""

    name = "openvino/cpu"
    title = "OpenVINO, CPU"
    formats: Sequence[str] = ("openvino",)
    source = "the operations that OpenVINO's operator sets 1 to 17 define"

    def refusal(self, operator: Operator, graph: Graph) -> str | None:
        """Why the engine would not take `operator`."""
        del graph
        if operator.custom or operator.op.lower() not in _IR_OPERATIONS:
            return f"{operator.op} is in none of OpenVINO's operator sets 1 to 17; an extension must bring it"
        return None
