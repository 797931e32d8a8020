"""What in a profile costs time that could be won: each finding with its numbers, the dearest first.

A saving is an upper bound by the stated method, never a promise. A finding below `LEAST_SHARE` of the latency is not
worth a reader's time and is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from edgewise.model.graph import Graph, Operator
from edgewise.profiling.attribution import PRODUCTS
from edgewise.profiling.conservation import TOLERANCE, UNTOUCHED
from edgewise.profiling.quantisation import find_held_back, time_of
from edgewise.profiling.roofline import find_dtype, peak_of
from edgewise.record import Finding, Layer, Profile
from edgewise.units import format_quantity

LEAST_SHARE = 0.01
FAR_FROM_ROOF = 0.3
TINY_SHARE = 0.005
"""A layer with less of the latency than this, and fewer than `TINY_OPS` operations, is tiny."""
TINY_OPS = 20_000
STORM_LAYERS = 20
SLOW_START = 5.0
"""So many times slower than the steady state is a first inference that compiles or allocates."""
LEAST_START_S = 0.010

FINDINGS: dict[str, str] = {
    "provider-fallback": "layers that the accelerated provider does not support",
    "layout-changes": "the engine changes the layout of tensors between layers",
    "type-conversions": "tensors are converted between types inside the network",
    "unfused-activation": "an activation runs as a separate step after the layer that makes its input",
    "depthwise-far-from-roof": "depthwise convolutions are far below the machine's limits",
    "far-from-roof": "layers with much arithmetic are far below the machine's limits",
    "dynamic-shapes": "the engine computes shapes at run time because of open dimensions",
    "int8-held-back": "much of a quantised model's time is not int8 arithmetic",
    "integer-run-as-float": "quantised layers are computed in floating point",
    "tiny-operators": "many operators do hardly any work",
    "engine-overhead": "much of the latency passes outside the operators",
    "slow-first-inference": "the first inference is much slower than the others",
}
"""Every code that a finding may have and what it means."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ProfileView:
    """What the rules look at.

    Attributes:
        settled: the profile's latency is that of the run.
        instructions: of the processor; None where they are not known.
    """

    layers: Sequence[Layer]
    profile: Profile
    graph: Graph
    first: float | None
    settled: bool
    instructions: Collection[str] | None

    def operators(self, layer: Layer) -> list[Operator]:
        """The operators in `layer`."""
        return [self.graph.operators[index] for index in layer.operators]

    def share(self, seconds: float) -> str:
        """Seconds as a share of the whole, in words."""
        return f"{format_quantity(seconds, 's')} ({seconds / self.profile.latency:.1%} of the whole)"


def find(
    layers: Sequence[Layer],
    profile: Profile,
    *,
    graph: Graph,
    first: float | None = None,
    latency: float | None = None,
    instructions: Collection[str] | None = None,
) -> tuple[Finding, ...]:
    """All findings in a profile, what is won with every inference before what is won once.

    Args:
        first: time of the first inference, s, where it was measured.
        latency: as the run measured it, s. Where the profile's own is another, what is left over is not known.
        instructions: that the processor lists; None where it lists none.
    """
    settled = latency is None or abs(profile.latency / latency - 1) <= TOLERANCE
    view = _ProfileView(
        layers=layers, profile=profile, graph=graph, first=first, settled=settled, instructions=instructions
    )
    found = [finding for rule in _RULES for finding in rule(view)]
    worth = [each for each in found if each.once or each.saving >= LEAST_SHARE * profile.latency]
    return tuple(sorted(worth, key=lambda each: (each.once, -each.saving, each.code)))


def _fallback(view: _ProfileView) -> Iterator[Finding]:
    layers = [layer for layer in view.layers if layer.supported is False and layer.time]
    if layers:
        lost = time_of(layers)
        yield Finding(
            code="provider-fallback",
            message=f"{_several(len(layers), 'layer')} outside the accelerated provider take {view.share(lost)}; "
            f"the first is {layers[0].title!r} ({layers[0].op})",
            suggestion="replace these operators, or convert the model to an operator set that the provider supports",
            saving=lost,
            layers=_indices(layers),
            evidence={"layers": len(layers), "time": lost},
            method="all of their time",
        )


def _overheads(view: _ProfileView, code: str, op: str, noun: str, suggestion: str) -> Iterator[Finding]:
    layers = [layer for layer in view.layers if layer.kind == "overhead" and layer.op == op and layer.time]
    if layers:
        lost = time_of(layers)
        yield Finding(
            code=code,
            message=f"{_several(len(layers), noun)} added by the engine: {view.share(lost)}",
            suggestion=suggestion,
            saving=lost,
            layers=_indices(layers),
            evidence={"steps": len(layers), "time": lost},
            method="all of their time",
        )


def _layouts(view: _ProfileView) -> Iterator[Finding]:
    yield from _overheads(
        view, "layout-changes", "change of layout", "change of layout",
        "use kinds of operators for which the engine has fast layouts, feed inputs in its layout, or try another "
        "graph optimisation level",
    )  # fmt: skip


def _conversions(view: _ProfileView) -> Iterator[Finding]:
    yield from _overheads(
        view, "type-conversions", "conversion of type", "conversion of type",
        "also quantise the operators in between, or keep the whole network in one type",
    )  # fmt: skip
    inner = [layer for layer in view.layers if layer.time and _only(view, layer, ("quantize", "dequantize"))]
    ends = {*view.graph.inputs, *view.graph.outputs}
    inner = [layer for layer in inner if not ends & {each.name for each in (*layer.inputs, *layer.outputs)}]
    if inner:
        lost = time_of(inner)
        yield Finding(
            code="type-conversions",
            message=f"{len(inner)} quantise or dequantise operators inside the network take {view.share(lost)}",
            suggestion="quantise the operators in between too, or leave this part of the network in floating point",
            saving=lost,
            layers=_indices(inner),
            evidence={"operators": len(inner), "time": lost},
            method="all of their time",
        )


def _only(view: _ProfileView, layer: Layer, kinds: Sequence[str]) -> bool:
    operators = view.operators(layer)
    return bool(operators) and all(operator.kind in kinds for operator in operators)


def _activations(view: _ProfileView) -> Iterator[Finding]:
    producers = view.graph.producers()
    layers = []
    for layer in view.layers:
        if layer.kind == "operator" and layer.time and _only(view, layer, ("activation",)):
            makers = [producers[each.name] for each in layer.inputs if each.name in producers]
            if any(view.graph.operators[index].kind in PRODUCTS for index in makers):
                layers.append(layer)
    if layers:
        lost = time_of(layers)
        kinds = ", ".join(sorted({layer.op for layer in layers}))
        yield Finding(
            code="unfused-activation",
            message=f"{_several(len(layers), 'activation')} ({kinds}) directly after a convolution or matrix product "
            f"and not fused with it: {view.share(lost)}",
            suggestion="use an activation that the engine fuses (ReLU, ReLU6, often hard-swish), or another engine",
            saving=lost,
            layers=_indices(layers),
            evidence={"activations": len(layers), "time": lost},
            method="all of their time",
        )


def _far(view: _ProfileView) -> Iterator[Finding]:
    far = [
        layer
        for layer in view.layers
        if layer.roof and layer.ops and layer.macs and layer.time and _quickest(layer) < FAR_FROM_ROOF
    ]
    deep = [layer for layer in far if _is_depthwise(view, layer)]
    rest = [layer for layer in far if layer not in deep]
    yield from _far_from_roof(
        view, deep, code="depthwise-far-from-roof", noun="depthwise convolution",
        suggestion="merge each with its pointwise neighbour if the engine can, use more channels at lower "
                   "resolution, or try another engine, because depthwise kernels differ widely",
    )  # fmt: skip
    yield from _far_from_roof(
        view, rest, code="far-from-roof", noun="layer with arithmetic",
        suggestion="channel counts that are multiples of 8 or 16 suit most kernels; try more work per call (batch), "
        "another layout or another engine",
    )  # fmt: skip


def _quickest(layer: Layer) -> float:
    """The share of its roof that a layer may reach at most, by the interval of its time."""
    low = layer.time if layer.low is None else layer.low
    return (layer.ops or 0) / low / layer.roof if low and layer.roof else float("inf")


def _is_depthwise(view: _ProfileView, layer: Layer) -> bool:
    return any(operator.geometry.get("depthwise") for operator in view.operators(layer))


def _far_from_roof(
    view: _ProfileView, layers: Sequence[Layer], *, code: str, noun: str, suggestion: str
) -> Iterator[Finding]:
    if layers:
        time = time_of(layers)
        least = sum((layer.ops or 0) / layer.roof for layer in layers if layer.roof)
        worst = min(layers, key=lambda layer: layer.roof_share or 0.0)
        yield Finding(
            code=code,
            message=f"{_several(len(layers), noun)} below {FAR_FROM_ROOF:.0%} of the roof: {view.share(time)}; at "
            f"the roof it would be {format_quantity(least, 's')}. The furthest is {worst.name!r} at "
            f"{worst.roof_share:.1%}",
            suggestion=suggestion,
            saving=time - least,
            layers=_indices(layers),
            evidence={"layers": len(layers), "time": time, "time_at_roof": least, "worst": worst.roof_share or 0.0},
            method="their time minus the time at the measured roof",
        )


_SHAPE_OPS = frozenset(
    {"Shape", "ShapeOf", "SHAPE", "Size", "SIZE", "RANK", "Range", "RANGE", "ConstantOfShape", "FILL"}
)


def _dynamic(view: _ProfileView) -> Iterator[Finding]:
    open_ = [
        name
        for name in view.graph.tensors
        if (shape := view.graph.tensors[name].shape) is None or not all(isinstance(size, int) for size in shape)
    ]
    layers = [
        layer
        for layer in view.layers
        if layer.kind == "operator" and layer.time and any(each.op in _SHAPE_OPS for each in view.operators(layer))
    ]
    if layers:
        lost = time_of(layers)
        yield Finding(
            code="dynamic-shapes",
            message=f"{_several(len(layers), 'step')} to compute shapes while the network runs: {view.share(lost)}"
            + (f"; {len(open_)} tensors have shapes that are open in the file" if open_ else ""),
            suggestion="export the model with fixed shapes, or simplify it (onnxslim), so that they are computed "
            "beforehand",
            saving=lost,
            layers=_indices(layers),
            evidence={"steps": len(layers), "time": lost, "open_tensors": len(open_)},
            method="all of their time",
        )


_INTEGERS = frozenset({"int8", "uint8"})
_FLOATS = frozenset({"float32", "float16", "bfloat16"})


def _as_float(view: _ProfileView) -> Iterator[Finding]:
    layers = [
        layer
        for layer in view.layers
        if layer.macs and layer.time and find_dtype(layer) in _FLOATS and _quantised(view, layer)
    ]
    integer, floating = peak_of(view.profile.peaks, "int8"), peak_of(view.profile.peaks, "float32")
    if layers and integer is not None and floating is not None and integer.value > floating.value:
        time = time_of(layers)
        ratio = integer.value / floating.value
        yield Finding(
            code="integer-run-as-float",
            message=f"{len(layers)} quantised layers run in floating point and take {view.share(time)}; this machine's "
            f"8-bit products are {ratio:.1f}× as fast",
            suggestion="use a quantisation scheme the engine has kernels for (symmetric 8-bit weights, per channel; "
            "8-bit activations), or another engine",
            saving=time * (1 - 1 / ratio),
            layers=_indices(layers),
            evidence={"layers": len(layers), "time": time, "peak_ratio": ratio},
            method="their time × (1 − measured float peak / measured 8-bit peak)",
        )


def _quantised(view: _ProfileView, layer: Layer) -> bool:
    """Whether data and weights of its products are 8-bit integers in the model, directly or behind a dequantise."""
    producers = view.graph.producers()
    for operator in view.operators(layer):
        if operator.kind not in PRODUCTS:
            continue
        sources = []
        for name in operator.inputs[:2]:
            tensor = view.graph.tensors.get(name)
            maker = producers.get(name)
            if maker is not None and view.graph.operators[maker].kind == "dequantize":
                tensor = view.graph.tensors[view.graph.operators[maker].inputs[0]]
            sources.append(tensor is not None and tensor.dtype in _INTEGERS)
        if len(sources) == 2 and all(sources):
            return True
    return False


def _held_back(view: _ProfileView) -> Iterator[Finding]:
    found = find_held_back(view.layers, view.profile, instructions=view.instructions)
    if found is not None:
        yield found


def _tiny(view: _ProfileView) -> Iterator[Finding]:
    timed = [layer for layer in view.layers if layer.kind == "operator" and layer.time]
    tiny = [
        layer for layer in timed if (layer.share or 0.0) < TINY_SHARE and layer.ops is not None and layer.ops < TINY_OPS
    ]
    if len(tiny) >= STORM_LAYERS:
        # Each may be shorter than the engine's clock can tell: what is sure is what counts.
        lost = sum(layer.time or 0.0 if layer.low is None else layer.low for layer in tiny)
        yield Finding(
            code="tiny-operators",
            message=f"{len(tiny)} of {len(timed)} layers have fewer than {TINY_OPS:,} operations each and together "
            f"take at least {view.share(lost)}",
            suggestion="simplify the graph (constant folding, onnxslim), or write them as fewer, larger operators",
            saving=lost,
            layers=_indices(tiny),
            evidence={"layers": len(tiny), "time": lost, "of": len(timed)},
            method="all of their time",
        )


def _outside(view: _ProfileView) -> Iterator[Finding]:
    places = [layer for layer in view.layers if layer.kind == "overhead" and not layer.engine_nodes and layer.time]
    lost = time_of(places)
    if places and lost > 0.1 * view.profile.latency and view.settled:
        steps = sum(1 for layer in view.layers if layer.kind == "operator" and layer.time)
        between = time_of([layer for layer in places if layer.name not in UNTOUCHED])
        yield Finding(
            code="engine-overhead",
            message=f"{view.share(lost)} pass outside the operators, {format_quantity(between, 's')} of that between "
            f"{steps} steps",
            suggestion="use more work per inference (batch), fewer and larger operators, another engine, or one "
            "thread if several wait for each other",
            saving=lost,
            layers=_indices(places),
            evidence={"time": lost, "between_operators": between, "steps": steps},
            method="all of it",
        )


def _start(view: _ProfileView) -> Iterator[Finding]:
    steady = view.profile.latency
    if view.first is not None and view.first > SLOW_START * steady and view.first - steady > LEAST_START_S:
        yield Finding(
            code="slow-first-inference",
            message=f"the first inference takes {format_quantity(view.first, 's')}, "
            f"{view.first / steady:.0f}× as long as later ones",
            suggestion="run one inference during start-up, or enable the engine's compilation cache",
            saving=view.first - steady,
            evidence={"first": view.first, "steady": steady},
            method="first minus steady",
            once=True,
        )


def _several(count: int, noun: str) -> str:
    """``1 change of layout``, ``2 changes of layout``: the first word of `noun` that is one takes the s."""
    if count == 1:
        return f"1 {noun}"
    first, _, rest = noun.partition(" ")
    if first == "depthwise":
        return f"{count} {noun}s"
    return f"{count} {first}s{' ' + rest if rest else ''}"


def _indices(layers: Sequence[Layer]) -> tuple[int, ...]:
    return tuple(layer.index for layer in layers)


_RULES: tuple[Callable[[_ProfileView], Iterator[Finding]], ...] = (
    _fallback, _layouts, _conversions, _activations, _far, _dynamic, _as_float, _held_back, _tiny, _outside, _start,
)  # fmt: skip
