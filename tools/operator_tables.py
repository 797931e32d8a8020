"""Finds out which operators the installed engines take, by giving each of them every operator as a model of its own.

Writes ``src/edgewise/data/operators/*.json``, which `edgewise inspect` answers from without any engine. Run it again
when engines move: ``python tools/operator_tables.py``. Facts about the engines' behaviour, found by trying; nothing is
taken from their documentation.

ONNX models have one operator of unknown rank, so that an engine gets as far as looking for its kernel. An engine that
loads such a model supports the operator; one that says that it has no kernel, no conversion rule or no such operator
does not. Any other complaint (about shapes, missing options) may come before that look: then ONNX Runtime's own
registry of kernels answers, and where it has none either, the table says "unknown". OpenVINO also gets each operator
as networks use it (`operator_contexts`): it takes an operator that it takes in one model.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from functools import cache, partial
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Generic, TypeVar

import onnx
from onnx import TensorProto, helper

from operator_contexts import contexts, with_option

FOLDER = Path(__file__).parents[1] / "src" / "edgewise" / "data" / "operators"
#: ONNX's word in type strings → number in TensorProto, numpy's name
TYPES = {
    name.lower().replace("_", ""): (number, {"FLOAT": "float32", "DOUBLE": "float64"}.get(name, name.lower()))
    for name, number in TensorProto.DataType.items()
}
#: attributes without which an operator is no valid one, beyond those its schema requires
ATTRIBUTES: dict[str, dict[str, Any]] = {
    "Cast": {"to": 1},
    "BitShift": {"direction": "LEFT"},
    "Einsum": {"equation": "ij,jk->ik"},
    "Constant": {"value_float": 1.0},
    "DictVectorizer": {"int64_vocabulary": [1]},
    "ZipMap": {"classlabels_int64s": [1]},
}
GIVEN = {"INT": 1, "FLOAT": 1.0, "STRING": "x", "INTS": [1, 1], "FLOATS": [1.0], "STRINGS": ["x"],
         "TENSOR": helper.make_tensor("t", TensorProto.FLOAT, [1], [1.0])}  # fmt: skip
#: kinds of options that are numbers, words and lists of them
SIMPLE = [onnx.AttributeProto.AttributeType.Value(kind) for kind in ("INT", "FLOAT", "STRING")]
#: how ONNX Runtime writes "and all later versions" in the range of a kernel
FOREVER = 2**31 - 1
#: custom operators that models of MediaPipe, TensorFlow and its converter have; LiteRT brings kernels for some
CUSTOM = (
    "AudioSpectrogram", "Convolution2DTransposeBias", "FlexConv2D", "FlexErf", "Landmarks2TransformMatrix",
    "MaxPoolingWithArgmax2D", "MaxUnpooling2D", "Mfcc", "NumericVerify", "RandomUniform",
    "TFLite_Detection_PostProcess", "TFSentencepieceTokenizeOp", "TransformLandmarks", "TransformTensorBilinear",
)  # fmt: skip

#: what a trial tells: supported, not supported, or neither
Answer = bool | None
Told = TypeVar("Told")


class Trials(Generic[Told]):
    """Runs trials in a process of their own, since some models crash an engine; a crash tells nothing."""

    def __init__(self, trial: Callable[[bytes], Told]) -> None:
        self.trial = trial
        self.pool: ProcessPoolExecutor | None = None

    def __call__(self, model: bytes) -> Told | None:
        """Return what the trial tells of `model`; None where it crashes."""
        self.pool = self.pool or ProcessPoolExecutor(1, mp_context=get_context("spawn"))
        try:
            return self.pool.submit(self.trial, model).result()
        except BrokenProcessPool:
            self.pool = None
            return None


def type_of(text: str) -> onnx.TypeProto:
    """Return a type from ONNX's word for it, such as ``seq(tensor(float))``."""
    answer = onnx.TypeProto()
    outer, _, inner = text.rstrip(")").partition("(")
    if outer == "tensor":
        answer.tensor_type.elem_type = TYPES[inner][0]
    elif outer == "seq":
        answer.sequence_type.elem_type.CopyFrom(type_of(inner + ")"))
    elif outer == "map":
        key, _, value = inner.partition(", ")
        answer.map_type.key_type = TYPES[key][0]
        answer.map_type.value_type.CopyFrom(type_of(value if value.startswith("tensor(") else f"tensor({value})"))
    elif outer == "optional":
        answer.optional_type.elem_type.CopyFrom(type_of(inner + "))" if inner.count("(") > 1 else inner + ")"))
    else:
        raise KeyError(text)
    return answer


def body_of(op: str, attribute: str) -> onnx.GraphProto:
    """Return the smallest body that operators with subgraphs take."""

    def value(name: str, kind: int, shape: list[int] | None = None) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, kind, shape)

    if op == "Loop":
        nodes = [helper.make_node("Identity", ["c"], ["d"])]
        return helper.make_graph(
            nodes, attribute, [value("i", TensorProto.INT64, []), value("c", TensorProto.BOOL, [])],
            [value("d", TensorProto.BOOL, [])],
        )  # fmt: skip
    nodes = [helper.make_node("Identity", ["a"], ["b"])]
    inputs = [value("a", TensorProto.FLOAT)]
    if op == "If":
        one = helper.make_tensor("v", TensorProto.FLOAT, [1], [1.0])
        nodes, inputs = [helper.make_node("Constant", [], ["b"], value=one)], []
    return helper.make_graph(nodes, attribute, inputs, [value("b", TensorProto.FLOAT)])


@cache
def successors() -> dict[tuple[str, str, int], int]:
    """Domain, operator and version → the version that replaces it."""
    pairs = zip(schemas(), schemas()[1:], strict=False)
    return {
        (own.domain, own.name, own.since_version): later.since_version
        for own, later in pairs
        if (own.domain, own.name) == (later.domain, later.name)
    }


def last_opset(schema: Any) -> int:
    """Return the last operator set in which this definition of an operator holds."""
    since = schema.since_version
    return successors().get((schema.domain, schema.name, since), since + 1) - 1


def build(schema: Any, types: dict[str, str]) -> bytes:
    """Return a model of one operator, of the last opset where its definition holds; optional inputs are left out.

    Raises:
        KeyError: it can't be built.
    """
    opset = last_opset(schema)
    names, infos = [], []
    for at, formal in enumerate(schema.inputs):
        if formal.option.name == "Optional" or (schema.name == "Loop" and at == 2):
            names.append("")
            continue
        names.append(f"i{at}")
        info = onnx.ValueInfoProto(name=names[-1])
        info.type.CopyFrom(type_of(types.get(formal.typeStr, formal.typeStr)))
        infos.append(info)
    while names and not names[-1]:
        names.pop()
    outputs = [f"o{at}" for at, formal in enumerate(schema.outputs) if formal.option.name != "Optional"] or ["o0"]
    if schema.name == "Loop":
        outputs = []
    attributes = dict(ATTRIBUTES.get(schema.name, {}))
    for name, attribute in schema.attributes.items():
        if attribute.required and name not in attributes:
            kind = attribute.type.name
            attributes[name] = body_of(schema.name, name) if kind == "GRAPH" else GIVEN[kind]
    node = helper.make_node(schema.name, names, outputs, domain=schema.domain, **attributes)
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph([node], "g", infos, results)
    sets = [helper.make_opsetid(schema.domain, opset)] + ([helper.make_opsetid("", 17)] if schema.domain else [])
    return bytes(helper.make_model(graph, opset_imports=sets, ir_version=10).SerializeToString())


def build_relu(opsets: dict[str, int], *, ir: int = 8) -> bytes:
    """Return a model of one Relu that imports the operator sets `opsets` besides ONNX's own."""
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", value[:1], value[1:])
    sets = [helper.make_opsetid(domain, number) for domain, number in ({"": 17} | opsets).items()]
    return bytes(helper.make_model(graph, opset_imports=sets, ir_version=ir).SerializeToString())


def find_limits(supports: Callable[[bytes], Answer]) -> dict[str, Any]:
    """Return the newest IR version and, per domain, the newest operator set of a model that is loaded; None: no
    limit found.

    A domain's limit counts for every model that imports it, whether it uses it or not.
    """

    def newest(build: Callable[[int], bytes]) -> int | None:
        loaded = [number for number in range(1, 101) if supports(build(number))]
        return None if 100 in loaded else max(loaded)

    domains = ("", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview.training", "com.microsoft")
    return {
        "newest_ir": newest(lambda number: build_relu({}, ir=number)),
        "newest_opsets": {
            domain or "ai.onnx": newest(lambda number, domain=domain: build_relu({domain: number}))
            for domain in domains
        },
    }


def schemas() -> list[Any]:
    """Every version of every operator that ONNX Runtime has a definition of, but those that only it makes."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    found = [each for each in state.get_all_operator_schema() if not each.domain.startswith("com.ms.internal")]
    return sorted(found, key=lambda each: (each.domain, each.name, each.since_version))


@cache
def kernels() -> dict[tuple[str, str], list[Any]]:
    """Domain and operator → the kernels that ONNX Runtime registers for the processor."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    found: dict[tuple[str, str], list[Any]] = {}
    for kernel in state.get_all_opkernel_def():
        if kernel.provider == "CPUExecutionProvider":
            found.setdefault((kernel.domain, kernel.op_name), []).append(kernel)
    return found


def kernels_of(schema: Any) -> Iterator[dict[str, list[str]]]:
    """Yield the types that each kernel takes which ONNX Runtime registers for this version of an operator."""
    for kernel in kernels().get((schema.domain, schema.name), []):
        first, last = kernel.version_range
        if first == schema.since_version or (last != FOREVER and first < schema.since_version <= last):
            taken = sorted(kernel.type_constraints.items())
            # Kernels write map(int64,tensor(float)) where definitions have map(int64, float).
            yield {name: sorted(re.sub(r",tensor\((\w+)\)", r", \1", kind) for kind in kinds) for name, kinds in taken}


def has_kernel(schema: Any, types: dict[str, str]) -> bool:
    """Whether ONNX Runtime registers a kernel for this version of an operator with these types."""
    return any(all(kind in taken.get(name, [kind]) for name, kind in types.items()) for taken in kernels_of(schema))


def combinations(schema: Any, allowed: dict[str, list[str]], parameter: str, kind: str) -> Iterator[dict[str, str]]:
    """Types for an operator with `kind` for one parameter: with float32, with the same, and with those of a kernel."""
    usual = {name: "tensor(float)" if "tensor(float)" in kinds else kinds[0] for name, kinds in allowed.items()}
    yield usual | {parameter: kind}
    yield {name: kind if kind in kinds else usual[name] for name, kinds in allowed.items()}
    for taken in sorted(kernels_of(schema), key=str):
        fitting = {
            name: [each for each in taken.get(name, kinds) if each in kinds] for name, kinds in allowed.items()
        } | {parameter: [kind]}
        if kind in taken.get(parameter, [kind]) and all(fitting.values()):
            yield {name: kinds[0] for name, kinds in fitting.items()}


def to_try() -> list[Any]:
    """Return the versions of operators that a table has: all."""
    return schemas()


def probe_onnx(probe: Callable[[Any], Any], limits: dict[str, Any]) -> dict[str, Any]:
    """Operator → since which opset → what `probe` tells of it, None where it is not supported."""
    found: dict[str, Any] = {}
    for schema in to_try():
        newest = limits["newest_opsets"].get(schema.domain or "ai.onnx")
        if newest is None or schema.since_version <= newest:
            found.setdefault(name_of(schema), {})[str(schema.since_version)] = probe(schema)
    return found


def name_of(schema: Any) -> str:
    """Return the name of an operator with its domain, as the tables have it."""
    return f"{schema.domain}.{schema.name}" if schema.domain else str(schema.name)


def probe_schema(schema: Any, supports: Callable[[Any, dict[str, str]], Answer]) -> dict[str, Any] | str | None:
    """Input → numpy's names of the types that are supported there, where that is fewer than defined.

    ``unknown`` has the types of each input of which no trial told. None: no type is supported; "unknown": none told.
    """
    allowed = {each.type_param_str: sorted(each.allowed_type_strs) for each in schema.type_constraints}
    if not allowed:
        return {True: {}, None: "unknown", False: None}[supports(schema, {})]

    tried: dict[tuple[tuple[str, str], ...], Answer] = {}

    def ask(parameter: str, kind: str) -> Answer:
        answers = set()
        for types in combinations(schema, allowed, parameter, kind):
            key = tuple(types.items())
            tried[key] = tried[key] if key in tried else supports(schema, types)
            if tried[key]:
                return True
            answers.add(tried[key])
        return None if None in answers else False

    told = {parameter: {kind: ask(parameter, kind) for kind in kinds} for parameter, kinds in allowed.items()}
    answers = {answer for each in told.values() for answer in each.values()}
    if True not in answers:
        return "unknown" if None in answers else None
    supported: dict[str, Any] = {}
    untold: dict[str, list[str]] = {}
    for parameter, kinds in told.items():
        position = next((at for at, each in enumerate(schema.inputs) if each.typeStr == parameter), None)
        # Only what is narrower than the operator's definition is worth keeping.
        if position is None or all(kinds.values()):
            continue
        plain = [(TYPES[kind[7:-1]][1], answer) for kind, answer in kinds.items() if kind.startswith("tensor(")]
        supported[str(position)] = [kind for kind, answer in plain if answer]
        if unsure := [kind for kind, answer in plain if answer is None]:
            untold[str(position)] = unsure
    return supported | ({"unknown": untold} if untold else {})


def load_onnxruntime(model: bytes) -> Answer:
    """Whether ONNX Runtime loads `model`, by what it says."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    try:
        onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    except Exception as error:
        words = (
            r"Could not find an implementation|Failed to find kernel|InsertedPrecisionFreeCast|is till opset|"
            r"not a registered function|No Op registered|is deprecated in domain_version|Unsupported model IR version"
        )
        return False if re.search(words, str(error)) else None
    return True


def onnxruntime_table() -> dict[str, Any]:
    """ONNX Runtime's CPU provider."""
    loads = Trials(load_onnxruntime)

    def supports(schema: Any, types: dict[str, str]) -> Answer:
        try:
            told = loads(build(schema, types))
        except KeyError:
            told = None  # what can't be built can't be tried
        return True if told is None and has_kernel(schema, types) else told

    limits = find_limits(loads)
    return {"name": "onnxruntime/cpu", "title": "ONNX Runtime, CPU", "format": "onnx", "complete": True, **limits,
            "engine": f"ONNX Runtime {version('onnxruntime')}",
            "operators": probe_onnx(partial(probe_schema, supports=supports), limits)}  # fmt: skip


@cache
def openvino_core() -> Any:
    """OpenVINO, started once in a process."""
    import openvino

    return openvino.Core()


def say_openvino(model: bytes, *, suffix: str = ".onnx", compiles: bool = False) -> str:
    """Return what OpenVINO says where it does not read a file, or does not compile it; "" where it does.

    From a file, as `edgewise bench` gives it: from memory, functions such as Bernoulli are replaced by their bodies.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"model{suffix}"
        file.write_bytes(model)
        try:
            network = openvino_core().read_model(file)
            if compiles:
                openvino_core().compile_model(network, "CPU")
        except Exception as error:
            return str(error) or type(error).__name__
    return ""


class OpenVinoTrials:
    """Trials of ONNX operators in OpenVINO. It converts types itself, so only operators and options are refused."""

    def __init__(self) -> None:
        self.alone = Trials(say_openvino)
        self.in_context = Trials(partial(say_openvino, compiles=True))

    def reads(self, model: bytes) -> bool:
        """Whether OpenVINO reads `model`."""
        return self.alone(model) == ""

    def probe(self, schema: Any) -> dict[str, Any] | str | None:
        """``{}``, or its ``refused`` options, where a model with the operator is taken; None where none is as it has no
        rule for it; "unknown" where all are refused for something else.
        """
        accepted: dict[tuple[object, ...], onnx.ModelProto] = {}
        refused, said = [], []
        for model in contexts(schema.domain, schema.name, last_opset(schema)):
            options = sorted(options_of(schema.name, model).items())
            words = tuple((option, value if is_choice(value) else "") for option, value in options)
            if words in accepted:
                continue  # it tells nothing new
            said.append(self.in_context(model.SerializeToString()))
            if said[-1] == "":
                accepted[words] = model
            else:
                refused.append(model)
        if accepted:
            found = self.refused_options(schema.name, [*accepted.values()], refused)
            return {"refused": found} if found else {}
        said += [self.alone(model) for model in self._models_alone(schema)]
        if "" in said:
            return {}
        lacks = re.compile(rf"No conversion rule[^\n]*[ :]{re.escape(name_of(schema))}(-\d+)?(,|\s|$)")
        return None if any(lacks.search(words or "") for words in said) else "unknown"

    def _models_alone(self, schema: Any) -> Iterator[bytes]:
        """Yield the operator alone, with each combination of types."""
        allowed = {each.type_param_str: sorted(each.allowed_type_strs) for each in schema.type_constraints}
        pairs = [(parameter, kind) for parameter, kinds in allowed.items() for kind in kinds]
        tried = {tuple(types.items()): types for pair in pairs for types in combinations(schema, allowed, *pair)}
        for types in tried.values() or [{}]:
            with suppress(KeyError):  # what can't be built can't be tried
                yield build(schema, types)

    def refused_options(
        self, name: str, accepted: Sequence[onnx.ModelProto], refused: Sequence[onnx.ModelProto]
    ) -> dict[str, list[str | None]]:
        """Option → its values in refused models alone that make accepted models refused, too; None: left out."""
        good, bad = [options_of(name, each) for each in accepted], [options_of(name, each) for each in refused]
        found: dict[str, list[str | None]] = {}
        for option in sorted({option for each in good + bad for option in each}):
            suspects = {each.get(option) for each in bad} - {each.get(option) for each in good}
            for value in sorted((each for each in suspects if is_choice(each)), key=str):
                changed = [model for base in accepted for model in with_option(base, name, option, value)]
                if changed and all(self.in_context(model.SerializeToString()) for model in changed):
                    found.setdefault(option, []).append(value)
        return found


def is_choice(value: object) -> bool:
    """Whether an option's value alone can be at fault: a word or left out; numbers must fit the shapes."""
    return value is None or isinstance(value, str)


def options_of(name: str, model: onnx.ModelProto) -> dict[str, Any]:
    """Return the options of the operator `name` in a model; lists as tuples, words as text."""
    node = next(each for each in model.graph.node if each.op_type == name)
    values = {each.name: helper.get_attribute_value(each) for each in node.attribute if each.type in SIMPLE}
    return {key: value.decode() if isinstance(value, bytes) else value for key, value in values.items()}


def refused_types(trials: OpenVinoTrials) -> list[str]:
    """Types of tensors, by numpy's names, that OpenVINO reads in no model."""
    cast = next(each for each in reversed(schemas()) if not each.domain and each.name == "Cast")
    kinds = next(sorted(each.allowed_type_strs) for each in cast.type_constraints if each.type_param_str == "T1")
    read = {kind: trials.reads(build(cast, {"T1": kind, "T2": "tensor(float)"})) for kind in kinds}
    return [TYPES[kind[7:-1]][1] for kind, answer in read.items() if not answer]


def openvino_onnx_table() -> dict[str, Any]:
    """OpenVINO's reader of ONNX. The operators tried are those that the installed ONNX Runtime defines."""
    trials = OpenVinoTrials()
    limits = find_limits(trials.reads)
    # An input, not an option, tells that a Dropout trains.
    training = trials.in_context(next(contexts("", "Dropout in training", 22)).SerializeToString())
    return {"name": "openvino/cpu", "title": "OpenVINO, CPU", "format": "onnx", "complete": False, **limits,
            "engine": f"OpenVINO {version('openvino')}", "defined_by": f"ONNX Runtime {version('onnxruntime')}",
            "refused_types": refused_types(trials), "inference_only": ["Dropout"] if training else [],
            "operators": probe_onnx(trials.probe, limits)}  # fmt: skip


def builtin_names() -> dict[int, str]:
    """Return number → name of every builtin operator of the TFLite schema."""
    from tflite import BuiltinOperator

    names = {number: name for name, number in vars(BuiltinOperator).items() if not name.startswith("_")}
    return {number: name for number, name in sorted(names.items()) if not name.startswith(("PLACEHOLDER", "CUSTOM"))}


def build_vector(builder: Any, start: Any, writers: list[Callable[[int], None]], values: list[int]) -> int:
    """Return a flatbuffers vector, written from its end."""
    start(builder, len(values))
    for write, value in zip(reversed(writers), reversed(values), strict=True):
        write(value)
    return int(builder.EndVector())


def build_tflite(code: int, number: int, custom: str = "") -> bytes:
    """Return a TFLite model of one operator of version `number`, without options, from one tensor to another."""
    import flatbuffers
    import tflite
    from flatbuffers import flexbuffers

    builder = flatbuffers.Builder(256)

    def vector(start: Any, offsets: list[int]) -> int:
        return build_vector(builder, start, [builder.PrependUOffsetTRelative] * len(offsets), offsets)

    def numbers(start: Any, value: int) -> int:
        return build_vector(builder, start, [builder.PrependInt32], [value])

    name = builder.CreateString("x")
    shape = numbers(tflite.TensorStartShapeVector, 1)
    tensors = []
    for _ in range(2):
        tflite.TensorStart(builder)
        tflite.TensorAddShape(builder, shape)
        tflite.TensorAddName(builder, name)
        tensors.append(tflite.TensorEnd(builder))
    inputs, outputs = numbers(tflite.OperatorStartInputsVector, 0), numbers(tflite.OperatorStartOutputsVector, 1)
    options = builder.CreateByteVector(flexbuffers.Dumps({}))
    tflite.OperatorStart(builder)
    if custom:
        tflite.OperatorAddCustomOptions(builder, options)
    tflite.OperatorAddInputs(builder, inputs)
    tflite.OperatorAddOutputs(builder, outputs)
    operator = tflite.OperatorEnd(builder)
    tensor_vector = vector(tflite.SubGraphStartTensorsVector, tensors)
    operator_vector = vector(tflite.SubGraphStartOperatorsVector, [operator])
    first, last = numbers(tflite.SubGraphStartInputsVector, 0), numbers(tflite.SubGraphStartOutputsVector, 1)
    tflite.SubGraphStart(builder)
    tflite.SubGraphAddTensors(builder, tensor_vector)
    tflite.SubGraphAddInputs(builder, first)
    tflite.SubGraphAddOutputs(builder, last)
    tflite.SubGraphAddOperators(builder, operator_vector)
    subgraph = tflite.SubGraphEnd(builder)
    custom_name = builder.CreateString(custom)
    tflite.OperatorCodeStart(builder)
    if custom:
        tflite.OperatorCodeAddCustomCode(builder, custom_name)
    tflite.OperatorCodeAddDeprecatedBuiltinCode(builder, min(code, 127))
    tflite.OperatorCodeAddBuiltinCode(builder, code)
    tflite.OperatorCodeAddVersion(builder, number)
    operator_code = tflite.OperatorCodeEnd(builder)
    tflite.BufferStart(builder)
    buffer = tflite.BufferEnd(builder)
    subgraphs = vector(tflite.ModelStartSubgraphsVector, [subgraph])
    codes = vector(tflite.ModelStartOperatorCodesVector, [operator_code])
    buffers = vector(tflite.ModelStartBuffersVector, [buffer])
    tflite.ModelStart(builder)
    tflite.ModelAddVersion(builder, 3)
    tflite.ModelAddOperatorCodes(builder, codes)
    tflite.ModelAddSubgraphs(builder, subgraphs)
    tflite.ModelAddBuffers(builder, buffers)
    builder.Finish(tflite.ModelEnd(builder), b"TFL3")
    return bytes(builder.Output())


def load_litert(model: bytes) -> Answer:
    """Whether LiteRT finds a kernel for the operator of a TFLite model."""
    from ai_edge_litert.interpreter import Interpreter

    try:
        Interpreter(model_content=model).allocate_tensors()
    except Exception as error:
        # XNNPACK looks at its custom operators before the interpreter looks for kernels: what it says of one knows it.
        known = re.search(r"in node CUSTOM #0|in CUSTOM node #0", str(error))
        words = r"Didn't find op for builtin opcode|unresolved custom op|Select TensorFlow op"
        return bool(known) or not re.search(words, str(error))
    return True


def litert_table() -> dict[str, Any]:
    """LiteRT's kernels: operator → the newest version of it that is taken, 0 for none; custom ones by their name."""
    loads = Trials(load_litert)
    newest = {
        # A crash comes after the look for a kernel.
        name: max((number for number in range(1, 25) if loads(build_tflite(code, number)) is not False), default=0)
        for code, name in builtin_names().items()
    }
    return {"name": "litert/interpreter", "title": "LiteRT, CPU", "format": "tflite", "versions": newest,
            "custom": {name: loads(build_tflite(32, 1, name)) for name in CUSTOM},
            "engine": f"LiteRT {version('ai-edge-litert')}"}  # fmt: skip


def read_openvino_file(model: bytes, suffix: str, words: str) -> Answer:
    """Whether OpenVINO reads a file without complaining in one of `words`."""
    return not re.search(words, say_openvino(model, suffix=suffix))


def openvino_tflite_table() -> dict[str, Any]:
    """OpenVINO's reader of TFLite: operator → whether it has a translator."""
    reads = Trials(partial(read_openvino_file, suffix=".tflite", words="No translator found"))
    return {"name": "openvino/cpu", "title": "OpenVINO, CPU", "format": "tflite",
            "translators": {name: reads(build_tflite(code, 1)) for code, name in builtin_names().items()},
            "custom": {name: reads(build_tflite(32, 1, name)) for name in CUSTOM},
            "engine": f"OpenVINO {version('openvino')}"}  # fmt: skip


def build_ir(op: str, opset: str, ir: int = 11) -> bytes:
    """Return an OpenVINO IR of one operation with one input."""
    port = 'precision="FP32"><dim>1</dim></port>'
    state = '<data variable_id="v" variable_shape="1" variable_type="f32"/>' if op in ("ReadValue", "Assign") else ""
    layers = (
        '<layer id="0" name="x" type="Parameter" version="opset1"><data shape="1" element_type="f32"/>'
        f'<output><port id="0" {port}</output></layer>'
        f'<layer id="1" name="o" type="{op}" version="{opset}">{state}<input><port id="0" {port}</input>'
        f'<output><port id="1" {port}</output></layer>'
        f'<layer id="2" name="y" type="Result" version="opset1"><input><port id="0" {port}</input></layer>'
    )
    edges = (
        '<edge from-layer="0" from-port="0" to-layer="1" to-port="0"/>'
        '<edge from-layer="1" from-port="1" to-layer="2" to-port="0"/>'
    )
    return f'<net name="n" version="{ir}"><layers>{layers}</layers><edges>{edges}</edges></net>'.encode()


def openvino_ir_table() -> dict[str, Any]:
    """OpenVINO's reader of its own format: the first and last IR version, and operation → spans of operator sets."""
    from edgewise.model.dialects.openvino import OPERATIONS

    reads = Trials(partial(read_openvino_file, suffix=".xml", words="doesn't contain|Cannot create|Unable to read"))
    spans = {}
    for name in OPERATIONS:
        if numbers := [number for number in range(1, 31) if reads(build_ir(name, f"opset{number}"))]:
            starts = [number for number in numbers if number - 1 not in numbers]
            spans[name] = list(zip(starts, [number for number in numbers if number + 1 not in numbers], strict=True))
    versions = [number for number in range(1, 31) if reads(build_ir("ReLU", "opset1", number))]
    return {"name": "openvino/cpu", "title": "OpenVINO, CPU", "format": "openvino", "operations": spans,
            "ir_versions": [versions[0], versions[-1]], "engine": f"OpenVINO {version('openvino')}"}  # fmt: skip


def tables() -> Iterator[tuple[str, dict[str, Any]]]:
    """File name → table."""
    yield "onnxruntime.json", onnxruntime_table()
    yield "openvino_onnx.json", openvino_onnx_table()
    yield "litert.json", litert_table()
    yield "openvino_tflite.json", openvino_tflite_table()
    yield "openvino_ir.json", openvino_ir_table()


def as_text(table: dict[str, Any]) -> str:
    """Return the table as JSON with a line per operator."""
    parts = []
    for key, value in sorted(table.items()):
        text = json.dumps(value)
        if isinstance(value, dict):
            rows = (f"  {json.dumps(name)}: {json.dumps(row, sort_keys=True)}" for name, row in sorted(value.items()))
            text = "{\n" + ",\n".join(rows) + "\n }"
        parts.append(f" {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> None:
    """Write every table."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, table in tables():
        (FOLDER / name).write_text(as_text(table))
        print(f"{name}: {table['engine']}", file=sys.stderr)


if __name__ == "__main__":
    main()
