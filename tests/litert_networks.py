"""Small TFLite networks that LiteRT runs, written with its own schema classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgewise.model.identity import open_model
from edgewise.model.readers.tflite import TfliteReader
from edgewise.optimizing.base import Facts, Pass, PassResult, PassTask
from edgewise.optimizing.calibration import write_calibration
from pass_settings import settings_of


class NetworkWriter:
    """Builds the first subgraph of a model, operator by operator; weights are random but for a seed."""

    def __init__(self, seed: int = 0) -> None:
        from ai_edge_litert import schema_py_generated as schema

        self.schema = schema
        self.random = np.random.default_rng(seed)
        self.model = schema.ModelT(version=3, operatorCodes=[], buffers=[schema.BufferT()], subgraphs=[])
        self.graph = schema.SubGraphT(tensors=[], operators=[], inputs=[], outputs=[])
        self.model.subgraphs.append(self.graph)
        self.old_codes = False

    def tensor(self, name: str, shape: tuple[int, ...], *, dtype: str = "float32", data: Any = None) -> int:
        """A tensor; a constant where there is `data`. A first size of −1 is open."""
        schema = self.schema
        kinds = {"float32": schema.TensorType.FLOAT32, "float16": schema.TensorType.FLOAT16}
        kinds["int32"] = schema.TensorType.INT32
        tensor = schema.TensorT(name=name, type=kinds[dtype], shape=[max(1, size) for size in shape], buffer=0)
        if -1 in shape:
            tensor.shapeSignature = list(shape)
        if data is not None:
            tensor.buffer = len(self.model.buffers)
            content = np.frombuffer(np.ascontiguousarray(data, dtype=dtype).tobytes(), dtype=np.uint8)
            self.model.buffers.append(schema.BufferT(data=content))
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    def weight(self, name: str, shape: tuple[int, ...], *, half: bool = False) -> int:
        """Random weights; `half`: stored as float16 behind a DEQUANTIZE."""
        data = self.random.normal(0, 1 / np.sqrt(np.prod(shape[1:])), shape)
        if not half:
            return self.tensor(name, shape, data=data)
        stored, decoded = self.tensor(f"{name}/half", shape, dtype="float16", data=data), self.tensor(name, shape)
        self.operator("DEQUANTIZE", [stored], decoded)
        return decoded

    def operator(self, kind: str, inputs: list[int], output: int, options: Any = None) -> int:
        """An operator; the index of its output."""
        schema = self.schema
        number = getattr(schema.BuiltinOperator, kind)
        code = schema.OperatorCodeT(version=1, builtinCode=number, deprecatedBuiltinCode=min(number, 127))
        if self.old_codes:
            code.builtinCode = 0
        made = schema.OperatorT(opcodeIndex=len(self.model.operatorCodes), inputs=inputs, outputs=[output])
        if options is not None:
            made.builtinOptions = options
            made.builtinOptionsType = getattr(schema.BuiltinOptions, type(options).__name__.removesuffix("T"))
        self.model.operatorCodes.append(code)
        self.graph.operators.append(made)
        return output

    def convolution(self, source: int, name: str, shape: tuple[int, ...], filters: int, *, half: bool = False) -> int:
        """A 3×3 convolution without an activation; `shape` is that of the source and, but for channels, the result."""
        weight = self.weight(f"{name}/weight", (filters, 3, 3, shape[3]), half=half)
        bias = self.tensor(f"{name}/bias", (filters,), data=self.random.normal(0, 0.1, filters))
        options = self.schema.Conv2DOptionsT(strideW=1, strideH=1, dilationWFactor=1, dilationHFactor=1)
        return self.operator("CONV_2D", [source, weight, bias], self.tensor(name, (*shape[:3], filters)), options)

    def activation(self, source: int, name: str, shape: tuple[int, ...], kind: str = "RELU") -> int:
        """An activation alone."""
        return self.operator(kind, [source], self.tensor(name, shape))

    def dense(self, source: int, name: str, size: int, units: int, *, batch: int = 1) -> int:
        """A matrix product without an activation."""
        weight = self.weight(f"{name}/weight", (units, size))
        options = self.schema.FullyConnectedOptionsT()
        return self.operator("FULLY_CONNECTED", [source, weight, -1], self.tensor(name, (batch, units)), options)

    def entry(self, key: str, inputs: dict[str, int], outputs: dict[str, int], *, subgraph: int = 0) -> None:
        """Add an entry point."""
        schema = self.schema
        maps = [
            [schema.TensorMapT(name=name, tensorIndex=at) for name, at in each.items()] for each in (inputs, outputs)
        ]
        made = schema.SignatureDefT(inputs=maps[0], outputs=maps[1], signatureKey=key, subgraphIndex=subgraph)
        self.model.signatureDefs = [*(self.model.signatureDefs or []), made]

    def save(self, path: Path, *, inputs: list[int], outputs: list[int]) -> Path:
        """Write the model."""
        import flatbuffers

        self.graph.inputs, self.graph.outputs = inputs, outputs
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        path.write_bytes(bytes(builder.Output()))
        return path


def infer(path: Path, *arrays: Any) -> list[Any]:
    """Outputs of LiteRT for one set of inputs in the model's order, integers as the real numbers they stand for."""
    return infer_all(path, [arrays])[0]


def infer_all(path: Path, feeds: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """The same for one set of inputs after the other."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(path), num_threads=1)
    for detail, array in zip(interpreter.get_input_details(), feeds[0], strict=True):
        if tuple(detail["shape"]) != array.shape:
            interpreter.resize_tensor_input(detail["index"], array.shape)
    interpreter.allocate_tensors()
    return [_infer_once(interpreter, arrays) for arrays in feeds]


def _infer_once(interpreter: Any, arrays: Sequence[Any]) -> list[Any]:
    for detail, array in zip(interpreter.get_input_details(), arrays, strict=True):
        if detail["dtype"] == np.int8:
            scale, zero = detail["quantization"]
            array = np.clip(np.round(array / scale) + zero, -128, 127).astype(np.int8)
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    results = []
    for detail in interpreter.get_output_details():
        result = interpreter.get_tensor(detail["index"])
        if detail["dtype"] == np.int8:
            scale, zero = detail["quantization"]
            result = (result.astype(np.float32) - zero) * np.float32(scale)
        results.append(result)
    return results


def snr_db(expected: Any, got: Any) -> float:
    """Signal over error of all outputs together, dB."""
    signal = sum(float(np.square(np.float64(one)).sum()) for one in expected)
    error = sum(float(np.square(np.float64(one) - other).sum()) for one, other in zip(expected, got, strict=True))
    return 10 * np.log10(signal / max(error, 1e-30))


def write_samples(path: Path, *shapes: tuple[int, ...], count: int = 8, seed: int = 1) -> Path:
    """Normal samples for a calibration."""
    random = np.random.default_rng(seed)
    write_calibration(path, [[random.normal(0, 1, s).astype(np.float32) for s in shapes] for _ in range(count)], None)
    return path


def facts_of(path: Path, *, quantized: bool = False) -> Facts:
    """Facts of a model."""
    model, graph = open_model(path), TfliteReader().read_graph(path)
    return Facts(
        path=path, format="tflite", graph=graph, signature=model.signature, quantized=quantized,
        runtimes=("litert",), cores=1,
    )  # fmt: skip


def dtypes(path: Path) -> dict[str, list[str]]:
    """Type of operator → dtypes of the results of its operators, in the network's order."""
    graph = TfliteReader().read_graph(path)
    found: dict[str, list[str]] = {}
    for operator in graph.operators:
        found.setdefault(operator.op, []).append(next(graph.output_tensors(operator)).dtype)
    return found


def interface(path: Path) -> Any:
    """What users hold on to: inputs, outputs, entry points."""
    signature = TfliteReader().read_signature(path)
    entries = TfliteReader().read_graph(path).metadata.get("signatures")
    keys = None if entries is None else {key: [sorted(each[f]) for f in each] for key, each in entries.items()}
    return signature.inputs, signature.outputs, keys


def names_of(path: Path, op: str) -> list[str]:
    """Names of the operators of a type."""
    return [operator.name for operator in TfliteReader().read_graph(path).operators if operator.op == op]


def apply_in(folder: Path) -> Callable[..., PassResult]:
    """A function that applies a pass to a file, each time in a new folder inside `folder`."""

    def apply(one: Pass, model: Path, samples: Path | None = None, **settings: Any) -> PassResult:
        keep, only = (tuple(settings.pop(name, ())) for name in ("keep", "only"))
        made = folder / f"made{len(list(folder.iterdir()))}"
        made.mkdir()
        task = PassTask(
            model=str(model), format="tflite", settings=settings_of(one, **settings), folder=made, keep_float=keep, only=only,
            calibration=samples,
        )  # fmt: skip
        return one.apply(task)

    return apply


def write_subgraphs(path: Path, build: Callable[..., None], *, signatures: dict[str, int] | None = None) -> Path:
    """A TFLite file of the subgraphs that `build` makes with the schema's classes.

    Args:
        build: takes the schema, and functions that add a subgraph, a tensor and an operator.
        signatures: name → subgraph.
    """
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT(version=3, operatorCodes=[], buffers=[schema.BufferT()], subgraphs=[])

    def graph():
        made = schema.SubGraphT(tensors=[], operators=[], inputs=[], outputs=[])
        model.subgraphs.append(made)
        return made

    def tensor(graph, name, shape, data=None, kind=schema.TensorType.FLOAT32, **more):
        made = schema.TensorT(name=name, shape=list(shape), type=kind, buffer=0, **more)
        if data is not None:
            made.buffer = len(model.buffers)
            dtype = {schema.TensorType.INT8: np.int8, schema.TensorType.INT32: np.int32}.get(kind, np.float32)
            content = np.broadcast_to(np.asarray(data, dtype), shape)
            model.buffers.append(schema.BufferT(data=np.frombuffer(content.tobytes(), np.uint8)))
        graph.tensors.append(made)
        return len(graph.tensors) - 1

    def step(graph, kind, inputs, outputs, options):
        number = getattr(schema.BuiltinOperator, kind)
        code = schema.OperatorCodeT(version=1, builtinCode=number, deprecatedBuiltinCode=min(number, 127))
        model.operatorCodes.append(code)
        form = getattr(schema.BuiltinOptions, type(options).__name__.removesuffix("T"))
        graph.operators.append(
            schema.OperatorT(
                opcodeIndex=len(model.operatorCodes) - 1, inputs=inputs, outputs=outputs, builtinOptions=options,
                builtinOptionsType=form,
            )
        )  # fmt: skip

    build(schema, graph, tensor, step)
    model.signatureDefs = [
        schema.SignatureDefT(
            signatureKey=name,
            subgraphIndex=at,
            inputs=[schema.TensorMapT(name=f"{name}_in", tensorIndex=each) for each in model.subgraphs[at].inputs],
            outputs=[schema.TensorMapT(name=f"{name}_out", tensorIndex=each) for each in model.subgraphs[at].outputs],
        )
        for name, at in (signatures or {}).items()
    ]
    builder = flatbuffers.Builder()
    builder.Finish(model.Pack(builder), b"TFL3")
    path.write_bytes(bytes(builder.Output()))
    return path
