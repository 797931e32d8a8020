"""Half precision for ONNX models, by the converter that comes with onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edgewise.optimizing.base import CannotApply, Capabilities, Facts, Packaged, Product, Recipe, Work


class OnnxFp16(Packaged):
    """`edgewise.optimizing.base.Pass` around ``onnxruntime.transformers.float16``. It has no settings.

    Inputs and outputs stay float32.
    """

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
        """One, where there are float32 weights."""
        weights = (facts.graph.tensors[name] for each in facts.graph.operators for name in each.weights)
        return (Recipe(rank=1),) if any(weight.dtype == "float32" for weight in weights) else ()

    def apply(self, work: Work) -> Product:
        """Convert. Raises `CannotApply` where the converter or the engine does not take the model."""
        from onnx import TensorProto

        from edgewise.optimizing.passes.onnx_files import first_line, load_model, save_model, versions_of

        model = load_model(work.model)
        names = {node.name for node in model.graph.node}
        kept = set(work.keep_float) | (names - set(work.only) if work.only else set())
        before = model.ByteSize()
        try:
            converted = _convert(model, sorted(kept & names))
        except MemoryError:
            raise
        except Exception as error:  # it asserts what it takes for granted
            raise CannotApply(f"onnxruntime's float16 converter fails on the model: {first_line(error)}") from error
        halves = sum(tensor.data_type == TensorProto.FLOAT16 for tensor in converted.graph.initializer)
        if not halves:
            raise CannotApply("it has no float32 weights that can be float16")
        casts = sum(node.op_type == "Cast" for node in converted.graph.node)
        casts -= sum(node.op_type == "Cast" for node in model.graph.node)
        path = save_model(converted, work.folder / "model.onnx")
        return Product(
            model=path,
            notes=(
                f"{halves} of {len(converted.graph.initializer)} constants are float16 now, {casts} casts added",
                f"{before} → {converted.ByteSize()} bytes; inputs and outputs stay float32",
            ),
            versions=versions_of("onnxruntime", "onnx"),
        )


def _convert(model: Any, kept: list[str]) -> Any:
    from onnxruntime.transformers.float16 import convert_float_to_float16

    from edgewise.optimizing.passes.onnx_files import sort_nodes

    copy = type(model)()
    copy.CopyFrom(model)
    return sort_nodes(convert_float_to_float16(copy, keep_io_types=True, node_block_list=kept))
