"""What of a profile is there only because the model is quantised, and what computes in floating point all the same."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from edgewise.profiling.roofline import find_dtype
from edgewise.record import Finding, Layer, Profile
from edgewise.units import format_quantity

LEAST_HELD_BACK = 1 / 3
"""A smaller share of the latency outside of int8 products is not worth a sentence."""
LEAST_AROUND = 0.05
"""As `LEAST_HELD_BACK`, of the steps around convolutions that are quantised while the network runs."""
LEAST_QUANTISED = 0.1
"""A model with a smaller share of its multiplications quantised is no quantised model: a layer of it may be."""
DOT_PRODUCTS = (
    ("amx_int8", "AMX"), ("avx512_vnni", "AVX-512 VNNI"), ("avx_vnni", "AVX-VNNI"), ("sme2", "SME2"),
    ("i8mm", "I8MM"), ("svei8mm", "SVE I8MM"), ("asimddp", "Arm dot products"),
)  # fmt: skip
"""Instructions that make int8 arithmetic fast, the strongest first, as ``/proc/cpuinfo`` names them, and their names.
x86: Intel's and AMD's instruction set references; Arm: the Linux kernel's list of hwcaps."""

CONVERSIONS = frozenset({
    "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QUANTIZE", "DEQUANTIZE", "FakeQuantize",
})  # fmt: skip
INTEGER_PRODUCTS = frozenset({"ConvInteger", "MatMulInteger"})
"""Products of integers that leave it to further operators to scale what they make."""
_SCALING = frozenset({"Cast", "Mul", "Add"})
_INTEGER_KERNELS = re.compile(r"integer|dynamicquantize|qlinear|qgemm|[iu]8|q[dsuc]8", re.IGNORECASE)
"""In the names of kernels that compute in integers, whatever the type of their first input."""
_MOST_NAMES = 4
_NARROW = frozenset({"int8", "uint8", "int4", "uint4"})


def time_of(layers: Iterable[Layer]) -> float:
    """Sum of the layers' times as far as they are known, s."""
    return sum(layer.time or 0.0 for layer in layers)


def is_conversion(layer: Layer) -> bool:
    """Whether all that it does is to quantise or dequantise."""
    return (layer.kind == "operator" and layer.op in CONVERSIONS) or layer.op == "conversion of type"


def is_product(layer: Layer) -> bool:
    """Whether it multiplies and accumulates."""
    return layer.kind == "operator" and bool(layer.macs)


def is_quantised(layer: Layer) -> bool:
    """Whether a product's data or weights are integers of eight bits or fewer in the model."""
    if not is_product(layer):
        return False
    return (
        find_dtype(layer) == "int8"
        or layer.op in INTEGER_PRODUCTS
        or any(tensor.dtype in _NARROW for tensor in layer.inputs)
        # Weights that are kept in a byte each, and the scales beside them.
        or bool(layer.parameters and layer.weight_bytes and layer.weight_bytes < 2 * layer.parameters)
    )


def quantised_share(layers: Sequence[Layer]) -> float:
    """Share of the multiplications that is in quantised products; 0 where there are none."""
    total = sum(layer.macs or 0 for layer in layers if is_product(layer))
    return sum(layer.macs or 0 for layer in filter(is_quantised, layers)) / total if total else 0.0


def is_integer(layer: Layer) -> bool:
    """Whether the engine computes a product in integers."""
    return is_product(layer) and (find_dtype(layer) == "int8" or bool(_INTEGER_KERNELS.search(layer.engine_op)))


def takes_integers(layer: Layer) -> bool:
    """Whether what the engine executes for a layer, a product or not, works on integers of 8 bits or fewer.

    Some kernels name the type of their first input, which may be a scale.
    """
    return layer.dtype in _NARROW or bool(_INTEGER_KERNELS.search(layer.engine_op))


def is_float(layer: Layer) -> bool:
    """Whether the engine computes a product in floating point."""
    floats = find_dtype(layer) in ("float32", "float16", "bfloat16")
    return is_product(layer) and floats and not is_integer(layer)


def is_dynamic(layer: Layer) -> bool:
    """Whether it quantises activations while the network runs, or is a product that needs that."""
    return layer.op in INTEGER_PRODUCTS or "DynamicQuantize" in f"{layer.op} {layer.engine_op}"


def names_of(layers: Iterable[Layer]) -> str:
    """``Conv and Gemm``: the operators with the most time first, few of many."""
    times: dict[str, float] = defaultdict(float)
    for layer in layers:
        times[layer.op] += layer.time or 0.0
    names = sorted(times, key=lambda op: -times[op])
    shown = names[:_MOST_NAMES] + (["others"] if len(names) > _MOST_NAMES else [])
    return " and ".join(part for part in (", ".join(shown[:-1]), *shown[-1:]) if part)


def find_held_back(
    layers: Sequence[Layer], profile: Profile, *, instructions: Collection[str] | None
) -> Finding | None:
    """Return what keeps a quantised model from gaining by its int8 arithmetic; None where hardly anything does.

    Args:
        instructions: of the processor; None where the system does not list them.
    """
    products = [layer for layer in layers if is_product(layer)]
    if quantised_share(layers) < LEAST_QUANTISED:
        return None
    around = find_around(layers)
    floats = [layer for layer in products if is_float(layer)]
    integers = [layer for layer in products if is_integer(layer)]
    outside = [layer for layer in layers if layer.kind == "overhead" and not layer.engine_nodes]
    spent = {
        "int8": time_of(integers),
        "around": time_of(around),
        "floats": time_of(floats),
        "outside": time_of(outside),
    }
    least = LEAST_HELD_BACK * profile.latency
    held = sum(spent.values()) - spent["int8"]
    is_lacking = instructions is not None and not any(flag in instructions for flag, _ in DOT_PRODUCTS)
    is_dynamic_convolution = any(layer.op == "ConvInteger" for layer in products)
    worth = held >= least or (is_lacking and spent["int8"] >= least)
    if not worth and not (is_dynamic_convolution and spent["around"] >= LEAST_AROUND * profile.latency):
        return None

    def share(part: str) -> str:
        return f"{format_quantity(spent[part], 's')} ({spent[part] / profile.latency:.0%})"

    parts = [f"of the latency of this quantised model {share('int8')} goes to products in int8"]
    if around:
        parts.append(f"{share('around')} to {len(around)} steps that quantise, scale or convert ({names_of(around)})")
    if floats:
        parts.append(
            f"{share('floats')} to {len(floats)} of its {len(products)} convolutions and matrix products, which the "
            f"engine computes in floating point ({names_of(floats)})"
        )
    if spent["outside"] >= LEAST_AROUND * profile.latency:
        parts.append(f"{share('outside')} passes outside the operators")
    if is_lacking and integers:
        parts.append("and the processor lists no instructions for int8 dot products (such as VNNI, AMX or I8MM)")
    advice = "`edgewise profile FLOAT INT8` shows whether int8 is slower than floating point on this machine, and why"
    if around and any(map(is_dynamic, layers)):
        advice = f"static QDQ (`edgewise optimize FLOAT --data …`) needs very few such steps; {advice}"
    elif floats and spent["floats"] + spent["around"] >= least:
        advice = (
            f"quantise only operators with int8 kernels in the engine, or keep that part in floating point; {advice}"
        )
    return Finding(
        code="int8-held-back",
        message=", ".join(parts),
        suggestion=advice,
        saving=held,
        layers=tuple(layer.index for layer in (*around, *floats)),
        evidence={f"{name}_time": seconds for name, seconds in spent.items()},
        method="the time of these parts without the int8 products",
    )


def find_around(layers: Sequence[Layer]) -> list[Layer]:
    """Return the steps that are there only because the model is quantised."""
    found = set(find_wrapping(layers)) | {at for at, layer in enumerate(layers) if is_conversion(layer)}
    return [layers[at] for at in sorted(found) if not is_product(layers[at])]


def find_wrapping(layers: Sequence[Layer]) -> dict[int, list[int]]:
    """Position of each layer that exists for the sake of quantised ones → positions of those it belongs to.

    These are conversions, which belong to what takes their output (at the end of a network, to what makes their
    input), and behind a product of integers the cast, the scaling and the bias, which belong to the product.
    """
    makers: dict[str, int] = {}
    takers: dict[str, list[int]] = {}
    for at, layer in enumerate(layers):
        if layer.kind != "eliminated":
            makers.update((tensor.name, at) for tensor in layer.outputs)
            for tensor in layer.inputs:
                takers.setdefault(tensor.name, []).append(at)
    found: dict[int, list[int]] = {}
    for at, layer in enumerate(layers):
        if layer.kind == "operator" and layer.op in CONVERSIONS:
            before = [makers[tensor.name] for tensor in layer.inputs if tensor.name in makers]
            after = [taker for tensor in layer.outputs for taker in takers.get(tensor.name, ())]
            found[at] = list(dict.fromkeys(after)) or before
        elif layer.kind == "operator" and layer.op in INTEGER_PRODUCTS:
            found.update(_find_scaling(at, layers, makers, takers))
    return found


def _find_scaling(
    product: int, layers: Sequence[Layer], makers: Mapping[str, int], takers: Mapping[str, Sequence[int]]
) -> dict[int, list[int]]:
    """Return what scales the sums of an integer product: its only reader, that one's, and what makes their scales."""
    found: dict[int, list[int]] = {}
    at = product
    while True:
        readers = [reader for tensor in layers[at].outputs for reader in takers.get(tensor.name, ())]
        if len(readers) != 1 or layers[readers[0]].op not in _SCALING:
            return found
        at = readers[0]
        scales = [makers[tensor.name] for tensor in layers[at].inputs if tensor.name in makers]
        others = [maker for maker in scales if maker not in found and maker != product]
        if others and not all(_is_scale(layers[maker]) for maker in others):
            return found  # a sum of two branches of the network
        found[at] = [product]
        found.update({maker: [product] for maker in others})


def _is_scale(layer: Layer) -> bool:
    """Whether it makes single numbers, such as the product of two scales."""
    return layer.op == "Mul" and all(
        all(size == 1 for size in tensor.shape or (1,)) for tensor in layer.outputs if tensor.shape is not None
    )
