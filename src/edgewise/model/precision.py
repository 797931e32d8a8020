"""In which number formats a network computes, as its operators state it; an engine may compute in others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from edgewise.model.graph import BITS, Graph, Operator, Tensor

_PRODUCTS = ("convolution", "transposed-convolution", "matrix-multiplication", "recurrent", "attention")
_HALVES = frozenset({"float16", "bfloat16"})


_NAMES = {
    "f32": "float32", "fp32": "float32", "float": "float32", "single": "float32",
    "f16": "float16", "fp16": "float16", "half": "float16", "bf16": "bfloat16",
    "f64": "float64", "fp64": "float64", "double": "float64",
    "i8": "int8", "s8": "int8", "u8": "uint8", "i16": "int16", "s16": "int16",
}  # fmt: skip


def plain_precision(word: str) -> str:
    """Return the name that graphs have for the precision `word`: ``float32`` for ``FP32``; other words as they are."""
    word = word.strip().lower()
    return _NAMES.get(word, word)


def arithmetic(precision: str) -> str:
    """Return what `find_precision` says, without how weights are stored that are computed in the type of the data.

    Weights in half precision are made ``float32`` before the product: such networks compute as those in float32 do.
    """
    words = []
    for word in precision.split(", "):
        data, _, weights = word.removesuffix(" weights").partition(" with ")
        data = plain_precision(data)
        words.append(data if plain_precision(weights) in _HALVES and data == "float32" else plain_precision(word))
    return ", ".join(dict.fromkeys(words))


def count_products(graph: Graph) -> Counter[str]:
    """Type of arithmetic → the number of a network's convolutions and products that work on it."""
    return Counter(_precisions(graph))


def find_precision(graph: Graph) -> str:
    """Types that the products of a network work on, the most operators first; of all its data where it has none."""
    found = count_products(graph)
    if not found:
        return ", ".join(dict.fromkeys(graph.tensors[name].dtype for name in graph.inputs))
    return ", ".join(word for word, _ in found.most_common())


def is_of_integers(graph: Graph) -> bool:
    """Whether all products of a network work on integers, so that the format of real numbers hardly matters to it."""
    found = count_products(graph)
    return bool(found) and all(_is_quantized(word.removesuffix(" weights").partition(" with ")[0]) for word in found)


def reduced_precision(graph: Graph) -> str:
    """Which of a network's arithmetic is narrower than float32, such as ``int8``; "" where none is.

    Counted are products (through a dequantise, or a fake quantise, before them) and quantised tensors. Weights that are
    only stored in float16 are computed in float32; weights of 8 bits or fewer count, since engines may quantise the
    data for them as they go.
    """
    for word in _precisions(graph):
        data, _, weights = word.removesuffix(" weights").partition(" with ")
        if _is_quantized(data) or data in _HALVES or _is_quantized(weights):
            return word
    for each in _all_graphs(graph):
        for operator in each.operators:
            tensors = (*each.input_tensors(operator), *each.output_tensors(operator))
            for tensor in tensors:
                rounded = operator.kind in ("quantize", "dequantize") or tensor.quantization is not None
                if rounded and _is_quantized(tensor.dtype):
                    return tensor.dtype
            if word := _fake_quantized(operator):
                return word
    return ""


def _is_quantized(dtype: str) -> bool:
    """Whether `dtype` is one that real numbers are rounded to: integers and floats of 16 bits or fewer, no halves."""
    return dtype not in _HALVES | {"bool"} and BITS.get(dtype, 64) <= 16


def _all_graphs(graph: Graph) -> Iterator[Graph]:
    yield graph
    for inner in graph.subgraphs.values():
        yield from _all_graphs(inner)


def _precisions(graph: Graph) -> Iterator[str]:
    """Yield the types that each product works on, branches and loop bodies included."""
    for each in _all_graphs(graph):
        producers = each.producers()
        for operator in each.operators:
            if operator.kind in _PRODUCTS:
                yield _precision_of(operator, each, producers)


def _precision_of(operator: Operator, graph: Graph, producers: Mapping[str, int]) -> str:
    """Return the type of an operator's data, and that of its weights where it is another one."""
    at = int(operator.geometry.get("data", 0))
    names = [name for name in operator.inputs if name]
    if at >= len(names):
        return "unknown"
    data, _ = _origin(names[at], graph, producers)
    others = [*operator.weights, *names[:at], *names[at + 1 :]]
    found = (dtype for name in others for dtype, constant in [_origin(name, graph, producers)] if constant)
    other = next(found, data)
    return data if other == data or other in ("int32", "int64") else f"{data} with {other} weights"


def _origin(name: str, graph: Graph, producers: Mapping[str, int]) -> tuple[str, bool]:
    """Return the type in which a value was last stored, and whether it is constant: through dequantising and moving
    it.
    """
    while (maker := producers.get(name)) is not None:
        operator = graph.operators[maker]
        first = _moved(operator, graph)
        if first is None:
            break
        if operator.kind == "dequantize":
            return first.dtype, first.constant
        if word := _fake_quantized(operator):
            return word, first.constant
        same_values = operator.kind == "movement" or (
            operator.kind == "pooling" and not operator.geometry.get("average")
        )
        if not same_values or first.constant:
            break
        name = first.name
    return graph.tensors[name].dtype, graph.tensors[name].constant


def _moved(operator: Operator, graph: Graph) -> Tensor | None:
    """Return the input whose values an operator passes on: the first, but no condition (Where) and no indices or axis
    (EMBEDDING_LOOKUP, SPLIT) before the data.
    """
    inputs = [graph.tensors[name] for name in operator.inputs if name]
    if operator.kind != "movement" or not inputs or not operator.outputs:
        return inputs[0] if inputs else None
    dtype = graph.tensors[operator.outputs[0]].dtype
    alike = [each for each in inputs if each.dtype == dtype]
    if inputs[0].dtype == dtype or not alike:
        return inputs[0]
    return min(alike, key=lambda each: each.constant)  # a fill value says nothing of the data beside it


def _fake_quantized(operator: Operator) -> str:
    """Return the integers that an operator rounds real numbers to without storing them so (OpenVINO's
    FakeQuantize), or "".
    """
    if operator.op not in ("FakeQuantize", "FAKE_QUANT"):
        return ""
    levels, bits = operator.attributes.get("levels"), operator.attributes.get("num_bits")
    fits = (isinstance(levels, int) and levels <= 2**8) or (isinstance(bits, int) and bits <= 8)
    return "int8" if fits else "int16"
