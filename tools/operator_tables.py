"""Finds out which operators the installed engines take, by giving each of them every operator as a model of its own.

Writes ``src/edgewise/data/operators/*.json``, which `edgewise inspect` answers from without any engine. Run it again
when engines move: ``python tools/operator_tables.py``. Facts about the engines' behaviour, found by trying; nothing is
taken from their documentation.

ONNX models have one operator of unknown rank, so that an engine gets as far as looking for its kernel. A refusal counts
only where the engine says that it has no kernel, no conversion rule or no registered operator; any other complaint
(about shapes, missing constants) comes after that look and means that there is one.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper

FOLDER = Path(__file__).parents[1] / "src" / "edgewise" / "data" / "operators"
DOMAINS = ("", "ai.onnx.ml")
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
}
GIVEN = {"INT": 1, "FLOAT": 1.0, "STRING": "x", "INTS": [1, 1], "FLOATS": [1.0], "STRINGS": ["x"]}
#: operators of Microsoft's own domain that exporters and quantisers write
CONTRIBUTED = [
    "Attention", "BiasAdd", "BiasGelu", "BiasSplitGelu", "BiasSoftmax", "ConvTransposeWithDynamicPads",
    "DecoderMaskedMultiHeadAttention", "DequantizeBFP", "DequantizeLinear", "DynamicQuantizeLSTM",
    "DynamicQuantizeMatMul", "EmbedLayerNormalization", "ExpandDims", "FastGelu", "FusedConv", "FusedGemm",
    "FusedMatMul", "FusedMatMulActivation", "GatherBlockQuantized", "GatherND", "Gelu", "GemmFastGelu",
    "GemmFloat8", "GridSample", "GroupNorm", "GroupQueryAttention", "Inverse", "LongformerAttention",
    "MatMulBnb4", "MatMulFpQ4", "MatMulInteger16", "MatMulIntegerToFloat", "MatMulNBits", "MaxpoolWithMask",
    "MoE", "MultiHeadAttention", "NGramRepeatBlock", "NhwcConv", "NhwcFusedConv", "NhwcMaxPool",
    "PackedAttention", "Pad", "QAttention", "QGemm", "QLinearAdd", "QLinearAveragePool", "QLinearConcat",
    "QLinearConv", "QLinearGlobalAveragePool", "QLinearLeakyRelu", "QLinearMul", "QLinearReduceMean",
    "QLinearSigmoid", "QLinearSoftmax", "QLinearWhere", "QMoE", "QOrderedAttention", "QuantizeLinear",
    "QuickGelu", "RelativePositionBias", "RemovePadding", "RotaryEmbedding", "SampleOp", "SkipGroupNorm",
    "SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "SimplifiedLayerNormalization",
    "SparseAttention", "SparseToDenseMatMul", "Tokenizer", "TorchEmbedding", "TransposeMatMul", "Trilu", "Unique",
    "WhisperBeamSearch", "WordConvEmbedding",
]  # fmt: skip


def type_of(text: str) -> onnx.TypeProto:
    """A type from ONNX's word for it, such as ``seq(tensor(float))``."""
    answer = onnx.TypeProto()
    outer, _, inner = text.rstrip(")").partition("(")
    if outer == "tensor":
        answer.tensor_type.elem_type = TYPES[inner][0]
    elif outer == "seq":
        answer.sequence_type.elem_type.CopyFrom(type_of(inner + ")"))
    elif outer == "optional":
        answer.optional_type.elem_type.CopyFrom(type_of(inner + "))" if inner.count("(") > 1 else inner + ")"))
    else:
        raise KeyError(text)
    return answer


def body_of(op: str, attribute: str) -> onnx.GraphProto:
    """The smallest body that operators with subgraphs take."""

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


def build(schema: Any, opset: int, types: dict[str, str]) -> bytes:
    """A model of one operator; optional inputs are left out. Raises KeyError for what can't be built."""
    names, infos = [], []
    for at, formal in enumerate(schema.inputs):
        if formal.option.name == "Optional" or (schema.name == "Loop" and at == 2):
            names.append("")
            continue
        names.append(f"i{at}")
        info = onnx.ValueInfoProto(name=names[-1])
        info.type.CopyFrom(type_of(types.get(formal.type_str, formal.type_str)))
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


def latest_opset(refuses: Callable[[bytes], str | None]) -> int:
    """The newest ONNX operator set that an engine loads at all."""
    schema = onnx.defs.get_schema("Identity", 1)
    newest = 0
    for opset in range(1, onnx.defs.onnx_opset_version() + 4):
        if refuses(build(schema, opset, {"T": "tensor(float)"})) is None:
            newest = opset
    return newest


def probe_onnx(refuses: Callable[[bytes], str | None], newest: int) -> dict[str, Any]:
    """Operator → since which opset → the types of each input that are taken, or None where the operator is not."""
    found: dict[str, Any] = {}
    for schema in sorted(onnx.defs.get_all_schemas_with_history(), key=lambda each: (each.name, each.since_version)):
        if schema.domain not in DOMAINS or (not schema.domain and schema.since_version > newest):
            continue
        name = f"{schema.domain}.{schema.name}" if schema.domain else schema.name
        found.setdefault(name, {})[str(schema.since_version)] = probe_schema(schema, refuses)
    return found


def probe_schema(schema: Any, refuses: Callable[[bytes], str | None]) -> dict[str, list[str]] | None:
    """Input → numpy's names of the types that are taken there, where that is fewer than defined; None where none is."""
    allowed = {each.type_param_str: list(each.allowed_type_strs) for each in schema.type_constraints}
    usual = {name: "tensor(float)" if "tensor(float)" in kinds else kinds[0] for name, kinds in allowed.items()}
    answer: dict[str, list[str]] = {}
    for parameter, kinds in allowed.items():
        position = next((at for at, each in enumerate(schema.inputs) if each.type_str == parameter), None)
        taken = [kind for kind in kinds if _taken(schema, usual | {parameter: kind}, refuses)]
        if not taken:
            return None
        # Only what is narrower than the operator's definition is worth keeping.
        if position is not None and len(taken) < len(kinds):
            answer[str(position)] = [TYPES[kind[7:-1]][1] for kind in taken if kind.startswith("tensor(")]
    if not allowed and not _taken(schema, {}, refuses):
        return None
    return answer


def _taken(schema: Any, types: dict[str, str], refuses: Callable[[bytes], str | None]) -> bool:
    try:
        model = build(schema, schema.since_version, types)
    except KeyError:
        return True  # what can't be built can't be refuted
    return refuses(model) is None


def onnxruntime_table() -> dict[str, Any]:
    """ONNX Runtime's CPU provider."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)

    def refuses(model: bytes) -> str | None:
        try:
            onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        except Exception as error:
            text = str(error)
            words = r"Could not find an implementation|not a registered function|No Op registered|is under development"
            return text if re.search(words, text) else None
        return None

    newest = latest_opset(refuses)
    operators = probe_onnx(refuses, newest)
    for name in CONTRIBUTED:
        node = helper.make_node(name, [], ["y"], domain="com.microsoft")
        graph = helper.make_graph([node], "g", [], [onnx.ValueInfoProto(name="y")])
        sets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=sets, ir_version=10).SerializeToString()
        operators[f"com.microsoft.{name}"] = {"1": {} if refuses(model) is None else None}
    return {"name": "onnxruntime/cpu", "title": "ONNX Runtime, CPU", "format": "onnx", "newest": newest,
            "engine": f"ONNX Runtime {version('onnxruntime')}", "operators": operators}  # fmt: skip


def openvino_onnx_table() -> dict[str, Any]:
    """OpenVINO's reader of ONNX. It converts types itself, so only operators are refused."""
    import openvino

    core = openvino.Core()

    def refuses(model: bytes) -> str | None:
        try:
            core.read_model(model)
        except Exception as error:
            return str(error) if "No conversion rule" in str(error) else None
        return None

    newest = latest_opset(refuses)
    operators = probe_onnx(refuses, newest)
    plain = {
        name: {since: None if types is None else {} for since, types in found.items()}
        for name, found in operators.items()
    }
    return {"name": "openvino/cpu", "title": "OpenVINO, CPU", "format": "onnx", "newest": newest,
            "engine": f"OpenVINO {version('openvino')}", "operators": plain}  # fmt: skip


def builtin_names() -> dict[int, str]:
    """Number → name of every builtin operator of the TFLite schema."""
    from tflite import BuiltinOperator

    names = {number: name for name, number in vars(BuiltinOperator).items() if not name.startswith("_")}
    return {number: name for number, name in sorted(names.items()) if not name.startswith(("PLACEHOLDER", "CUSTOM"))}


def build_tflite(code: int, number: int) -> bytes:
    """A TFLite model of one operator of version `number`, without options, from one tensor to another."""
    import flatbuffers
    import tflite

    builder = flatbuffers.Builder(256)

    def vector(start: Any, offsets: list[int]) -> int:
        start(builder, len(offsets))
        for offset in reversed(offsets):
            builder.PrependUOffsetTRelative(offset)
        return int(builder.EndVector())

    def numbers(start: Any, value: int) -> int:
        start(builder, 1)
        builder.PrependInt32(value)
        return int(builder.EndVector())

    name = builder.CreateString("x")
    shape = numbers(tflite.TensorStartShapeVector, 1)
    tensors = []
    for _ in range(2):
        tflite.TensorStart(builder)
        tflite.TensorAddShape(builder, shape)
        tflite.TensorAddName(builder, name)
        tensors.append(tflite.TensorEnd(builder))
    inputs, outputs = numbers(tflite.OperatorStartInputsVector, 0), numbers(tflite.OperatorStartOutputsVector, 1)
    tflite.OperatorStart(builder)
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
    tflite.OperatorCodeStart(builder)
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


def litert_table() -> dict[str, Any]:
    """LiteRT's built-in kernels: operator → the newest version of it that is taken, 0 for none."""
    from ai_edge_litert.interpreter import Interpreter

    def taken(code: int, number: int) -> bool:
        try:
            Interpreter(model_content=build_tflite(code, number))
        except Exception as error:
            return "Didn't find op for builtin opcode" not in str(error)
        return True

    newest = {
        name: max((number for number in range(1, 25) if taken(code, number)), default=0)
        for code, name in builtin_names().items()
    }
    return {"name": "litert/interpreter", "title": "LiteRT, CPU", "format": "tflite", "versions": newest,
            "engine": f"LiteRT {version('ai-edge-litert')}"}  # fmt: skip


def openvino_tflite_table() -> dict[str, Any]:
    """OpenVINO's reader of TFLite: operator → 1 where it has a translator, else 0."""
    import tempfile

    import openvino

    core = openvino.Core()
    found: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.tflite"
        for code, name in builtin_names().items():
            file.write_bytes(build_tflite(code, 1))
            try:
                core.read_model(file)
                found[name] = 1
            except Exception as error:
                found[name] = (
                    0 if re.search(r"No translator|No conversion rule|not supported|unsupported", str(error)) else 1
                )
    return {"name": "openvino/cpu", "title": "OpenVINO, CPU", "format": "tflite", "translators": found,
            "engine": f"OpenVINO {version('openvino')}"}  # fmt: skip


def tables() -> Iterator[tuple[str, dict[str, Any]]]:
    """File name → table."""
    yield "onnxruntime.json", onnxruntime_table()
    yield "openvino_onnx.json", openvino_onnx_table()
    yield "litert.json", litert_table()
    yield "openvino_tflite.json", openvino_tflite_table()


def main() -> None:
    """Write every table."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, table in tables():
        (FOLDER / name).write_text(json.dumps(table, indent=1, sort_keys=True) + "\n")
        print(f"{name}: {table['engine']}", file=sys.stderr)


if __name__ == "__main__":
    main()
