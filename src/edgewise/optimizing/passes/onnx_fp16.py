"""Half precision for ONNX models, by the converter that comes with onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence

from edgewise.optimizing.base import Capabilities, Facts, Packaged, PassResult, PassSettings, PassTask, Recipe
from edgewise.optimizing.libraries import CannotApply, refusing
from edgewise.optimizing.passes.onnx_files import copy_model, count_nodes, load_model, save_model, sort_nodes
from edgewise.packages import versions_of


class OnnxFp16(Packaged):
    """`edgewise.optimizing.base.Pass` around ``onnxruntime.transformers.float16``. Inputs and outputs stay float32."""

    name = "onnx-fp16"
    title = "float16"
    capabilities = Capabilities(
        kind="compression",
        reads=("onnx",),
        writes="onnx",
        arithmetic="f16",
        keeps_float=True,
        distributions=("onnxruntime",),
    )

    def recipes(self, facts: Facts) -> Sequence[Recipe]:
        """One, if there are float32 weights."""
        weights = (facts.graph.tensors[name] for each in facts.graph.operators for name in each.weights)
        return (Recipe(rank=1),) if any(weight.dtype == "float32" for weight in weights) else ()

    def apply(self, task: PassTask[PassSettings]) -> PassResult:
        """Convert. Raises `CannotApply` if the converter fails or finds no weights."""
        from onnx import TensorProto
        from onnxruntime.transformers.float16 import convert_float_to_float16

        model = load_model(task.model)
        kept = sorted(node.name for node in model.graph.node if task.spares(node.name))
        with refusing("onnxruntime's float16 converter fails on the model"):
            converted = convert_float_to_float16(copy_model(model), keep_io_types=True, node_block_list=kept)
            sort_nodes(converted)
        halves = sum(tensor.data_type == TensorProto.FLOAT16 for tensor in converted.graph.initializer)
        if not halves:
            raise CannotApply("it has no float32 weights that can be float16")
        casts = count_nodes(converted)["Cast"] - count_nodes(model)["Cast"]
        return PassResult(
            model=save_model(converted, task.folder / "model.onnx"),
            notes=(
                f"{halves} of {len(converted.graph.initializer)} constants are float16 now, {casts} casts added",
                f"{model.ByteSize()} → {converted.ByteSize()} bytes; inputs and outputs stay float32",
            ),
            versions=versions_of("onnxruntime", "onnx"),
        )
