"""Operator sets of the runtimes edgewise comes with, from tables that ``tools/operator_tables.py`` found by trying.

A question ends in one of three answers: the engine supports the operator, it does not (`refusal` says why), or it is
unknown (`unknown` says why), since it was not tried or the trial told nothing. Unknown is never taken for a refusal.
Where a newer release of the engine is installed than the one that was tried, what that one refused is unknown.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from typing import Any, Literal

from edgewise.model.flex import flex_words
from edgewise.model.graph import Graph, Operator
from edgewise.model.onnx_schema import find_wrong_type

#: None: supported; else the answer and why it is this one
Answer = tuple[Literal["no", "unknown"], str] | None


class _Table(ABC):
    """A table in `edgewise.data`, read when it is first asked."""

    name = ""
    file = ""
    #: what installs the engine
    package = ""
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
    def engine(self) -> str:
        """The engine that was tried, with its version."""
        return str(self.table["engine"])

    @property
    def source(self) -> str:
        """Which engine was tried."""
        return f"each operator was tried alone on {self.engine}"

    @property
    def limits(self) -> str:
        """Versions of the format beyond which the engine refuses a whole model; "" where the trials found none."""
        return ""

    def refusal(self, operator: Operator, graph: Graph) -> str | None:
        """Why the engine does not support `operator`; None where it does, or where it is not known."""
        answer = self.answer(operator, graph)
        return answer[1] if answer and answer[0] == "no" else None

    def unknown(self, operator: Operator, graph: Graph) -> str | None:
        """Why it is not known whether the engine supports `operator`; None where it is known."""
        answer = self.answer(operator, graph)
        return answer[1] if answer and answer[0] == "unknown" else None

    def answer(self, operator: Operator, graph: Graph) -> Answer:
        """Whether the installed engine supports `operator`, or the one that was tried where none is installed."""
        verdict = self.look_up(operator, graph)
        if verdict is None or verdict[0] != "no" or not self.newer:
            return verdict
        return "unknown", f"{verdict[1]}; the installed {self.newer} was not tried"

    @abstractmethod
    def look_up(self, operator: Operator, graph: Graph) -> Answer:
        """Return what the table says of `operator`."""

    @cached_property
    def newer(self) -> str:
        """The installed release of the engine where it is newer than the one that was tried; else ""."""
        try:
            installed = version(self.package)
        except PackageNotFoundError:
            return ""
        engine, _, tried = self.engine.rpartition(" ")
        return f"{engine} {installed}" if _release(installed) > _release(tried) else ""


def _release(text: str) -> tuple[int, ...]:
    """Return the first two numbers of a version: engines learn operators and formats with those."""
    return tuple(map(int, re.findall(r"\d+", text)[:2]))


class _OnnxTable(_Table):
    """ONNX operators by the operator set since which they are defined so, with the types each input may have."""

    formats: Sequence[str] = ("onnx",)
    #: what an engine lacks for an operator that it does not support
    missing = "kernel"
    #: whether the engine refuses a model whose types the definitions of its operators forbid
    checks_types = True

    @property
    def limits(self) -> str:
        """The newest IR version and operator sets."""
        newest, ir = self.table["newest_opsets"], self.table["newest_ir"]
        sets = [f"{domain} up to opset {limit}" for domain, limit in newest.items() if limit is not None]
        return ", ".join([*([f"IR version up to {ir}"] if ir is not None else []), *sets])

    def look_up(self, operator: Operator, graph: Graph) -> Answer:
        """Return what the table says of the model's versions, of `operator` and of the types of its inputs."""
        opsets = _find_opsets(graph)
        if (too_new := self._find_limit(graph, opsets)) is not None:
            return "no", too_new
        name = _qualified(operator)
        versions = self.table["operators"].get(name)
        if versions is None and self.table["complete"]:
            return "no", f"{self.engine} has no operator {name}; it needs an extension"
        if versions is None:
            return "unknown", f"{name} was not tried on {self.engine}"
        opset = opsets.get(operator.domain or "ai.onnx")
        since = _find_version(versions, opset)
        if since is None:
            return "no", f"{name} is not defined in opset {opset}"
        types = versions[since]
        if types is None:
            return "no", f"{self.engine} has no {self.missing} for {name} of opset {since}"
        if types == "unknown":
            return "unknown", f"a trial of {name} of opset {since} on {self.engine} was inconclusive"
        answer = self._judge_use(operator, graph, types) or self._judge_types(operator, graph, types)
        if answer is None and (wrong := find_wrong_type(operator, graph, opsets)) is not None:
            return ("no", wrong) if self.checks_types else ("unknown", f"{wrong}; not tried on {self.engine}")
        return answer

    def _find_limit(self, graph: Graph, opsets: Mapping[str, int]) -> str | None:
        """Why the engine refuses the whole model: its IR version, or an operator set that it imports, is too new."""
        ir, newest = graph.metadata.get("ir_version"), self.table["newest_ir"]
        if ir is not None and newest is not None and ir > newest:
            return f"{self.engine} reads ONNX up to IR version {newest}, not {ir}"
        for domain, number in opsets.items():
            limit = self.table["newest_opsets"].get(domain)
            if limit is not None and number > limit:
                return f"{self.engine} reads {domain} up to opset {limit}, not {number}"
        return None

    def _judge_use(self, operator: Operator, graph: Graph, known: Mapping[str, Any]) -> Answer:
        """Return what the engine refuses of an operator that it has: an option, training, a type of tensors."""
        for option, refused in known.get("refused", {}).items():
            if (value := operator.attributes.get(option)) in refused:
                use = f"without {option}" if value is None else f"with {option}={value}"
                return "no", f"{self.engine} does not take {operator.op} {use}"
        # As its dialect has it: a Dropout that infers moves its input.
        if operator.op in self.table.get("inference_only", ()) and operator.kind != "movement":
            text = f"{self.engine} does not take {operator.op} in training mode"
            return ("no", text) if operator.kind else ("unknown", f"{text}, which depends on an input")
        for at in range(len(operator.inputs)):
            if (dtype := _dtype_of(operator, graph, at)) in self.table.get("refused_types", ()):
                return "no", f"{self.engine} reads no tensors of {dtype}"
        return None

    def _judge_types(self, operator: Operator, graph: Graph, types: Mapping[str, Any]) -> Answer:
        unsure = types.get("unknown", {})
        for position in filter(str.isdigit, types):
            dtype = _dtype_of(operator, graph, int(position))
            # Sequences and optional values are not in the table: nothing is said about them.
            if dtype is None or not re.fullmatch(r"[a-z]+[0-9]+[a-z0-9_]*|bool|string", dtype):
                continue
            if dtype in unsure.get(position, ()):
                return "unknown", f"a trial of {operator.op} on {dtype} on {self.engine} was inconclusive"
            if dtype not in types[position]:
                return "no", f"{self.engine} has no kernel for {operator.op} on {dtype}"
        return None


def _dtype_of(operator: Operator, graph: Graph, at: int) -> str | None:
    """Return the type of an input as ONNX writes it: float8e4m3fn where graphs have float8_e4m3fn."""
    name = operator.inputs[at] if at < len(operator.inputs) else ""
    return (graph.tensors[name].container or graph.tensors[name].dtype).replace("_", "") if name else None


def _find_opsets(graph: Graph) -> Mapping[str, int]:
    """Domain → version of the operator sets that a model imports; of ONNX's own from the graph's version alone."""
    match = re.search(r"opset (\d+)", graph.version)
    return graph.metadata.get("opsets") or ({"ai.onnx": int(match[1])} if match else {})


def _qualified(operator: Operator) -> str:
    """Return the operator's name with its domain, as the tables have it."""
    return f"{operator.domain}.{operator.op}" if operator.domain not in ("", "ai.onnx") else operator.op


def _find_version(versions: Mapping[str, Any], opset: int | None) -> str | None:
    """Return the definition that a model of `opset` means: the newest that is not newer; any for an unknown one."""
    numbers = sorted(map(int, versions))
    fitting = numbers if opset is None else [number for number in numbers if number <= opset]
    return str(fitting[-1]) if fitting else None


class OnnxRuntimeCpu(_OnnxTable):
    """ONNX Runtime's CPU provider."""

    name = "onnxruntime/cpu"
    file = "onnxruntime.json"
    package = "onnxruntime"


class OpenVinoOnnx(_OnnxTable):
    """OpenVINO's reader of ONNX models."""

    name = "openvino/cpu"
    file = "openvino_onnx.json"
    package = "openvino"
    missing = "conversion rule"
    checks_types = False

    @property
    def source(self) -> str:
        """Which engine was tried, and in which models."""
        return f"each operator was tried alone and in ONNX's own examples on {self.engine}"


class _TfliteTable(_Table):
    """TFLite's operators; custom ones are told by their names where these were tried."""

    formats: Sequence[str] = ("tflite",)
    #: what an engine lacks for an operator that it does not support
    missing = "kernel"
    #: key of the table: operator → the newest version, or whether there is any
    builtin = "versions"

    def look_up(self, operator: Operator, graph: Graph) -> Answer:
        """Return what the table says of `operator`."""
        if operator.custom:
            return self._judge_custom(operator)
        newest = self.table[self.builtin].get(operator.op)
        if newest is None:
            return "unknown", f"{operator.op} was not tried on {self.engine}"
        if not newest:
            return "no", f"{self.engine} has no {self.missing} for {operator.op}"
        if newest is not True and operator.version > newest:
            return "no", f"{self.engine} has {operator.op} up to version {newest}, not {operator.version}"
        return None

    def _judge_custom(self, operator: Operator) -> Answer:
        # All operators of TensorFlow come with one delegate, or not at all.
        tried = self.table["custom"].get("FlexErf" if operator.op.startswith("Flex") else operator.op)
        if tried is None:
            return "unknown", f"the custom operator {operator.op} was not tried on {self.engine}"
        if not tried and (words := flex_words(operator.op, self.engine)):
            return "no", words
        text = f"{self.engine} does not have the custom operator {operator.op}; the application must register it"
        return None if tried else ("no", text)


class LiteRtInterpreter(_TfliteTable):
    """LiteRT's kernels, each up to a version."""

    name = "litert/interpreter"
    file = "litert.json"
    package = "ai-edge-litert"


class OpenVinoTflite(_TfliteTable):
    """OpenVINO's reader of TFLite models."""

    name = "openvino/cpu"
    file = "openvino_tflite.json"
    package = "openvino"
    missing = "translator"
    builtin = "translators"

    @property
    def source(self) -> str:
        """What was tried."""
        return f"{self.engine} has a translator for the operator, found by reading it alone; none was compiled or run"


class OpenVinoIr(_Table):
    """OpenVINO's reader of its own format: each of its operator sets has some operations."""

    name = "openvino/cpu"
    file = "openvino_ir.json"
    package = "openvino"
    formats: Sequence[str] = ("openvino",)

    @property
    def source(self) -> str:
        """What was tried."""
        return f"{self.engine} lists the operator in its operator sets; none was compiled or run"

    @property
    def limits(self) -> str:
        """The IR versions."""
        return "IR version {} to {}".format(*self.table["ir_versions"])

    @cached_property
    def operations(self) -> Mapping[str, Sequence[tuple[int, int]]]:
        """Operation, in small letters as IRs may write them → spans (first, last) of the operator sets that have it."""
        return {name.lower(): spans for name, spans in self.table["operations"].items()}

    def look_up(self, operator: Operator, graph: Graph) -> Answer:
        """Whether the reader takes the IR's version, and its operator set has `operator`."""
        version = re.fullmatch(r"IR (\d+)", graph.version)
        first, last = self.table["ir_versions"]
        if version and not first <= int(version[1]) <= last:
            return "no", f"{self.engine} reads IR versions {first} to {last}, not {version[1]}"
        spans = self.operations.get(operator.op.lower())
        if operator.custom or spans is None:
            return "no", f"{operator.op} is in no operator set of {self.engine}; it needs an extension"
        if operator.version == 0:
            return (
                "unknown",
                f"{operator.op} of an operator set without a number was not tried on {self.engine}",
            )
        if not any(first <= operator.version <= last for first, last in spans):
            sets = ", ".join(f"{first} to {last}" if first < last else str(first) for first, last in spans)
            return "no", f"{operator.op} is in operator sets {sets} of {self.engine}, not in {operator.version}"
        return None


class TorchPrograms:
    """PyTorch, for what ``torch.export`` writes: the operators of a program are PyTorch's own, so it has them all."""

    name = "torch/eager"
    title = "PyTorch"
    formats: Sequence[str] = ("torch",)
    source = "torch.export writes a program in PyTorch's own operators; none was tried"

    def refusal(self, operator: Operator, graph: Graph) -> str | None:
        """None: what PyTorch has exported, it supports."""
        return None

    def unknown(self, operator: Operator, graph: Graph) -> str | None:
        """Why it is not known whether PyTorch supports `operator`: another library's, or of a newer PyTorch."""
        if operator.custom:
            return f"{operator.op} is not PyTorch's own: the process must import the library that registers it"
        try:
            installed = version("torch")
        except PackageNotFoundError:
            return None
        exported = graph.producer.removeprefix("PyTorch ")
        if _release(exported) > _release(installed):
            return f"the program was exported by PyTorch {exported}; the installed one is {installed}"
        return None
