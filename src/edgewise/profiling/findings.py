"""Avoidable costs in a profile: each finding with its numbers, the largest saving first.

A saving is an upper bound by the stated method, never a promise, until it is measured with the setting that `TRIED`
has. A finding below `LEAST_SHARE` of the latency is not worth a reader's time and is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median

from edgewise.errors import as_flag
from edgewise.model.graph import Graph, Operator
from edgewise.profiling.attribution import PRODUCTS
from edgewise.profiling.conservation import TOLERANCE, UNTOUCHED
from edgewise.profiling.quantisation import find_held_back, time_of
from edgewise.profiling.roofline import find_dtype, peak_of
from edgewise.record import Finding, Layer, Profile
from edgewise.text import listing
from edgewise.units import format_quantity

LEAST_SHARE = 0.01
FAR_FROM_ROOF = 0.3
TINY_SHARE = 0.005
"""A layer with less of the latency than this, and fewer than `TINY_OPS` operations, is tiny."""
TINY_OPS = 20_000
STORM_LAYERS = 20
LEAST_DENORMALS = 1e-3
"""Share of a layer's weights that are denormal. At this share, convolutions of ONNX Runtime 1.32 on an x86 server took
four times as long; at a tenth of it, no longer than without any."""
SLOW_START = 5.0
"""A first inference that compiles or allocates is at least this many times slower than the steady state."""
LEAST_START_S = 0.010

FINDINGS: dict[str, str] = {
    "provider-fallback": "layers that the accelerated provider does not support",
    "layout-changes": "the engine changes the layout of tensors between layers",
    "type-conversions": "tensors are converted between types inside the network",
    "unfused-activation": "an activation runs as a separate step after the layer that makes its input",
    "element-wise-chains": "element-wise operators in a row run one by one, each reading and writing all of its data",
    "unfused-batch-norm": "a batch normalization runs as a separate step after the layer that makes its input",
    "depthwise-far-from-roof": "depthwise convolutions are far below the machine's limits",
    "channel-counts": "slow layers have channel counts that are no multiples of 8",
    "far-from-roof": "layers with much arithmetic are far below the machine's limits",
    "denormal-weights": "layers far below the machine's limits have denormal weights, which are slow to compute with",
    "dynamic-shapes": "the engine computes shapes at run time because of open dimensions",
    "int8-held-back": "much of a quantised model's time is not int8 arithmetic",
    "integer-run-as-float": "quantised layers are computed in floating point",
    "tiny-operators": "many operators do hardly any work",
    "engine-overhead": "much of the latency passes outside the operators",
    "slow-first-inference": "the first inference is much slower than the others",
}
"""Every code that a finding may have and what it means."""

TRIED: dict[str, tuple[str, str]] = {"denormal-weights": ("session.set_denormal_as_zero", "1")}
"""Code of a finding → the setting of the engine that shows by measuring what can be saved."""


@dataclass(frozen=True, kw_only=True)
class _ProfileView:
    """What the rules look at.

    Attributes:
        layers: with the times that are more than an upper bound; `every` has the other times too.
        settled: the profile's latency is that of the run.
        instructions: of the processor; None where they are not known.
        threads: that the run used; None where that is not known.
        denormals: weight → how many of its elements are denormal, where the engine computes with them.
    """

    layers: Sequence[Layer]
    every: Sequence[Layer]
    profile: Profile
    graph: Graph
    first: float | None
    settled: bool
    instructions: Collection[str] | None
    threads: int | None
    denormals: Mapping[str, int]

    def operators(self, layer: Layer) -> list[Operator]:
        """Return the operators in `layer`."""
        return [self.graph.operators[index] for index in layer.operators]

    @property
    def is_onnx(self) -> bool:
        """Whether tools for ONNX files can change the network."""
        return self.graph.format == "onnx"

    @property
    def eager(self) -> bool:
        """Whether PyTorch ran operator by operator: under their own names, and no kernel that it generated."""
        steps = [layer.engine_op for layer in self.layers if layer.engine_op]
        return bool(steps) and all("::" in step for step in steps)

    @cached_property
    def producers(self) -> dict[str, int]:
        """Name of a tensor → the operator that makes it."""
        return self.graph.producers()

    def follows_product(self, layer: Layer) -> bool:
        """Whether a convolution or matrix product in another layer makes an input of `layer`."""
        producers = self.producers
        makers = {producers[each.name] for each in layer.inputs if each.name in producers}
        return any(self.graph.operators[index].kind in PRODUCTS for index in makers)

    @cached_property
    def last_products(self) -> frozenset[int]:
        """Products that no other one follows: what the network is for sets the number of their outputs."""
        last, followed = set[int](), set[str]()
        for operator in reversed(self.graph.operators):
            precedes, is_product = not followed.isdisjoint(operator.outputs), operator.kind in PRODUCTS
            if is_product and not precedes:
                last.add(operator.index)
            if is_product or precedes:
                followed.update(operator.inputs)
        return frozenset(last)

    def may_have_better_channels(self, layer: Layer) -> bool:
        """Whether a product of `layer` has sizes that the network is free to choose, and that are no multiples of 8."""
        return any(
            any(isinstance(size, int) and size % 8 for size in self._channels(operator))
            for operator in self.operators(layer)
            if operator.kind in PRODUCTS and operator.index not in self.last_products
        )

    def has_even_channels(self, layer: Layer) -> bool:
        """Whether all products of `layer`, at least one, have sizes that are known multiples of 8."""
        sizes = [size for each in self.operators(layer) if each.kind in PRODUCTS for size in self._channels(each)]
        return bool(sizes) and all(isinstance(size, int) and not size % 8 for size in sizes)

    def _channels(self, operator: Operator) -> Sequence[object]:
        """Return the output channels of a convolution, both sizes of a matrix; an unknown one where no weights tell."""
        shape = next((self.graph.tensors[name].shape for name in operator.weights), None)
        if not shape:
            return (None,)
        return shape[-2:] if operator.kind == "matrix-multiplication" else shape[:1]

    def count_denormals(self, layers: Sequence[Layer]) -> tuple[int, int]:
        """Return how many weights of `layers` are denormal, and how many there are."""
        names = dict.fromkeys(
            name for layer in layers for operator in self.operators(layer) for name in operator.weights
        )
        sizes = [self.graph.tensors[name].elements or 0 for name in names]
        return sum(self.denormals.get(name, 0) for name in names), sum(sizes)

    def has_denormals(self, layer: Layer) -> bool:
        """Whether the share of denormal weights in `layer` is one that was measured to slow convolutions down."""
        count, weights = self.count_denormals([layer])
        return count > 0 and count >= LEAST_DENORMALS * weights

    def behind(self, layers: Sequence[Layer]) -> set[int]:
        """Return indices of `layers` and of those that their outputs reach, directly or through others."""
        own = {index for layer in layers for index in layer.operators}
        reached = {name for index in own for name in self.graph.operators[index].outputs}
        for operator in self.graph.operators:
            if not reached.isdisjoint(operator.inputs):
                own.add(operator.index)
                reached.update(operator.outputs)
        return {layer.index for layer in self.every if not own.isdisjoint(layer.operators)}

    def share(self, layers: Sequence[Layer]) -> str:
        """Return the time of `layers` and its share of the whole, in words."""
        seconds = time_of(layers)
        return f"{format_quantity(seconds, 's')} ({seconds / self.profile.latency:.1%} of the whole)"


def find(
    layers: Sequence[Layer],
    profile: Profile,
    *,
    graph: Graph,
    first: float | None = None,
    latency: float | None = None,
    instructions: Collection[str] | None = None,
    threads: int | None = None,
    denormals: Mapping[str, int] | None = None,
) -> tuple[Finding, ...]:
    """All findings in a profile, what is won with every inference before what is won once.

    Args:
        first: time of the first inference, s, where it was measured.
        latency: as the run measured it, s. Where the profile's own is another, what is left over is not known.
        instructions: that the processor lists; None where it lists none.
        threads: that the run used; None where that is not known.
        denormals: weight → how many of its elements are denormal, where the engine computes with them.
    """
    settled = latency is None or abs(profile.latency / latency - 1) <= TOLERANCE
    sure = [replace(layer, time=None) if layer.is_bounded else layer for layer in layers]
    view = _ProfileView(
        layers=sure,
        every=layers,
        profile=profile,
        graph=graph,
        first=first,
        settled=settled,
        instructions=instructions,
        threads=threads,
        denormals=denormals or {},
    )
    found = [finding for rule in _RULES for finding in rule(view)]
    # Where layers are timed as longer than the whole, no more than the whole can be saved, less what stays of them.
    found = [
        each if each.once else replace(each, saving=min(each.saving, _most_saved(each, profile))) for each in found
    ]
    worth = [each for each in found if each.once or each.saving >= LEAST_SHARE * profile.latency]
    return tuple(sorted(worth, key=lambda each: (each.once, -each.saving, each.code)))


def _most_saved(finding: Finding, profile: Profile) -> float:
    """Return the whole less the time of the finding's layers at their roofs, s."""
    return max(0.0, profile.latency - finding.evidence.get("time_at_roof", 0.0))


def _finding(
    code: str,
    message: str,
    suggestion: str,
    layers: Sequence[Layer],
    *,
    noun: str = "layers",
    saving: float | None = None,
    method: str = "all of their time",
    **evidence: float,
) -> list[Finding]:
    """Return the finding about `layers`, if there are any; their time is the saving unless that is given.

    Args:
        noun: the name of their number in the evidence.
    """
    if not layers:
        return []
    lost = time_of(layers)
    return [
        Finding(
            code=code,
            message=message,
            suggestion=suggestion,
            saving=lost if saving is None else saving,
            layers=tuple(layer.index for layer in layers),
            evidence={noun: len(layers), "time": lost, **evidence},
            method=method,
        )
    ]


def _fallback(view: _ProfileView) -> list[Finding]:
    layers = [layer for layer in view.layers if layer.supported is False and layer.time]
    first = f"; the first is {layers[0].title!r} ({layers[0].op})" if layers else ""
    return _finding(
        "provider-fallback",
        f"{_several(layers, 'layer')} outside the accelerated provider take {view.share(layers)}{first}",
        "replace these operators, or convert the model to an operator set that the provider supports",
        layers,
    )


def _added(view: _ProfileView, code: str, op: str, suggestion: str) -> list[Finding]:
    """Overheads of one type that the engine added."""
    layers = [layer for layer in view.layers if layer.kind == "overhead" and layer.op == op and layer.time]
    message = f"{_several(layers, op)} added by the engine: {view.share(layers)}"
    return _finding(code, message, suggestion, layers, noun="steps")


def _layouts(view: _ProfileView) -> list[Finding]:
    return _added(
        view, "layout-changes", "change of layout",
        "use kinds of operators for which the engine has fast layouts, feed inputs in its layout, or try another "
        "graph optimisation level",
    )  # fmt: skip


def _conversions(view: _ProfileView) -> list[Finding]:
    inner = [layer for layer in view.layers if layer.time and _only(view, layer, ("quantize", "dequantize"))]
    ends = {*view.graph.inputs, *view.graph.outputs}
    inner = [layer for layer in inner if not ends & {each.name for each in (*layer.inputs, *layer.outputs)}]
    return [
        *_added(
            view, "type-conversions", "conversion of type",
            "also quantise the operators in between, or keep the whole network in one type",
        ),
        *_finding(
            "type-conversions",
            f"{len(inner)} quantise or dequantise operators inside the network take {view.share(inner)}",
            "quantise the operators in between too, or leave this part of the network in floating point",
            inner,
            noun="operators",
        ),
    ]  # fmt: skip


def _only(view: _ProfileView, layer: Layer, kinds: Sequence[str]) -> bool:
    operators = view.operators(layer)
    return bool(operators) and all(operator.kind in kinds for operator in operators)


_COMPILE = (
    f"compile it with torch.compile ({as_flag('runtime', 'torch/compile')}), or convert it for an engine that fuses "
    "operators"
)


_ELEMENTWISE = ("elementwise", "activation")
_MOST_TYPES = 4
"""Types of operators that a message names."""


def _chained(view: _ProfileView) -> list[list[Layer]]:
    """Layers of element-wise operators alone of which one takes what the other makes, at least two in each chain."""
    alone = [layer for layer in view.layers if layer.kind == "operator" and layer.time]
    alone = [layer for layer in alone if _only(view, layer, _ELEMENTWISE)]
    makers: dict[str, int] = {}
    chains: dict[int, list[Layer]] = {}
    for layer in alone:
        chain: list[Layer] = []
        for name in dict.fromkeys(name for operator in view.operators(layer) for name in operator.inputs):
            before = chains.get(makers.get(name, -1), chain)
            if before is not chain:
                before.extend(chain)
                chains.update((each.index, before) for each in chain)
                chain = before
        chain.append(layer)
        chains[layer.index] = chain
        makers.update((name, layer.index) for operator in view.operators(layer) for name in operator.outputs)
    return [chain for chain in {id(chain): chain for chain in chains.values()}.values() if len(chain) > 1]


IN_TWO = f" (a profile of two, {as_flag('runtime', 'ENGINE,ENGINE')}, says what the other one fuses)"


def _chains(view: _ProfileView) -> list[Finding]:
    chains = _chained(view)
    layers = sorted((layer for chain in chains for layer in chain), key=lambda layer: layer.index)
    times: dict[str, float] = {}
    for layer in layers:
        times[layer.op] = times.get(layer.op, 0.0) + (layer.time or 0.0)
    types = sorted(times, key=lambda op: -times[op])
    more = f" and {len(types) - _MOST_TYPES} more types" if len(types) > _MOST_TYPES else ""
    # A chain behind a product can run within it; another one takes at least one step, here its slowest.
    kept = [
        max(layer.time or 0.0 for layer in chain)
        for chain in chains
        if not any(view.follows_product(layer) for layer in chain)
    ]
    one_by_one = f"{len(layers)} element-wise operators in {len(chains)} chain{'s' if len(chains) != 1 else ''}"
    return _finding(
        "element-wise-chains",
        f"{one_by_one} ({', '.join(types[:_MOST_TYPES])}{more}) run one by one: {view.share(layers)}",
        f"PyTorch runs each operator by itself: {_COMPILE}"
        if view.eager
        else f"try an engine that fuses them{IN_TWO}, or export each chain as one operator (HardSwish, Gelu"
        f"{'; a newer operator set has more' if view.is_onnx else ''})",
        layers,
        noun="operators",
        saving=time_of(layers) - sum(kept),
        method="their time, less the slowest step of each chain that no convolution or matrix product precedes",
        chains=len(chains),
    )


def _activations(view: _ProfileView) -> list[Finding]:
    chained = {layer.index for chain in _chained(view) for layer in chain}
    layers = [
        layer
        for layer in view.layers
        if layer.kind == "operator" and layer.time and _only(view, layer, ("activation",))
        if layer.index not in chained and view.follows_product(layer)
    ]
    kinds = ", ".join(sorted({layer.op for layer in layers}))
    suggestion = "use an activation that the engine fuses (ReLU, ReLU6, often hard-swish), or another engine"
    return _finding(
        "unfused-activation",
        f"{_several(layers, 'activation')} ({kinds}) directly after a convolution or matrix product and not fused "
        f"with it: {view.share(layers)}",
        f"PyTorch runs each operator by itself: {_COMPILE}" if view.eager else suggestion,
        layers,
        noun="activations",
    )


def _batch_norms(view: _ProfileView) -> list[Finding]:
    layers = [
        layer
        for layer in view.layers
        if layer.kind == "operator" and layer.time and view.follows_product(layer)
        if all("batchnorm" in each.op.lower().replace("_", "") for each in view.operators(layer))
    ]
    return _finding(
        "unfused-batch-norm",
        f"{_several(layers, 'batch-normalization')} directly after a convolution or matrix product and not folded into "
        f"its weights: {view.share(layers)}",
        "fold each into the layer before it: its scale and offset are constants "
        "(PyTorch: torch.nn.utils.fusion.fuse_conv_bn_eval)",
        layers,
        noun="normalizations",
    )


def _far(view: _ProfileView) -> list[Finding]:
    far = [
        layer
        for layer in view.layers
        if layer.roof and layer.ops and layer.macs and layer.time and _quickest(layer) < FAR_FROM_ROOF
    ]
    slowed = [layer for layer in far if view.has_denormals(layer)]
    far = [layer for layer in far if layer not in slowed]
    deep = [layer for layer in far if any(each.geometry.get("depthwise") for each in view.operators(layer))]
    others = [layer for layer in far if layer not in deep]
    channels = _CHANNELS if any(view.may_have_better_channels(layer) for layer in others) else ""
    return [
        *_denormals(view, slowed),
        *_far_from_roof(
            view, deep, "depthwise-far-from-roof", "depthwise convolution",
            "merge each with its pointwise neighbour if the engine can, use more channels at lower resolution, or try "
            "another engine, because depthwise kernels differ widely",
        ),
        *_slow_layers(view, others, channels),
    ]  # fmt: skip


def _denormals(view: _ProfileView, slowed: Sequence[Layer]) -> list[Finding]:
    count, weights = view.count_denormals(slowed)
    found = _far_from_roof(
        view, slowed, "denormal-weights", "layer with arithmetic",
        f"{count} of the {weights} weights of these layers are denormal, nearer to 0 than 1e-38, and the processor is "
        "slow with such numbers, and with what they make in the layers behind: make them 0 in the file "
        f"(docs/profile.md has the lines), or give {_DENORMALS_AS_ZERO}, which holds in a program only if its first "
        "session of ONNX Runtime has it",
    )  # fmt: skip
    # Layers behind such weights may gain, as their inputs may be such numbers; only the others surely gain nothing.
    gaining = view.behind([layer for layer in view.every if view.count_denormals([layer])[0]])
    rest = [layer for layer in view.every if layer.operators and layer.index not in gaining]
    kept = sum((layer.time if layer.low is None else layer.low) or 0.0 for layer in rest)
    method = "the whole, less the lower ends of the times of layers that no denormal weight reaches"
    return [
        replace(
            one,
            saving=max(0.0, view.profile.latency - kept),
            method=method,
            evidence={name: value for name, value in one.evidence.items() if name != "time_at_roof"},
        )
        for one in found
    ]


_DENORMALS_AS_ZERO = as_flag("set", "=".join(TRIED["denormal-weights"]))
_CHANNELS = "channel counts inside the network that are multiples of 8 or 16 suit most kernels; "


def _slow_layers(view: _ProfileView, layers: Sequence[Layer], channels: str) -> list[Finding]:
    """Return what is known of layers far from their roofs: channel counts, other findings, or nothing."""
    by_channels = _odd_channels(view, layers, channels)
    told = {at for finding in by_channels for at in finding.layers}
    rest = [layer for layer in layers if layer.index not in told]
    known = {at for rule in (_fallback, _as_float, _held_back) for finding in rule(view) for at in finding.layers}
    ways = "try more work per call (batch), another layout or another engine"
    if any(layer.index not in known for layer in rest):
        ways = (
            f"{NOT_KNOWN}: a profile in two engines ({as_flag('runtime', 'ENGINE,ENGINE')}) shows whether another one "
            "runs them faster; more work per call (batch) or another layout may help"
        )
    return [*by_channels, *_far_from_roof(view, rest, "far-from-roof", "layer with arithmetic", ways)]


NOT_KNOWN = "why these layers are slow is not known"


def _odd_channels(view: _ProfileView, layers: Sequence[Layer], channels: str) -> list[Finding]:
    """Return those of `layers` that have channel counts that suit few kernels, if these cost much."""
    others = [layer for layer in view.layers if layer.roof and layer.macs and layer.time]
    reached = [layer.roof_share for layer in others if layer.roof_share and view.has_even_channels(layer)]
    if not reached:
        return []
    usual = min(1.0, median(reached))
    gains = {
        layer.index: (layer.time or 0.0) - _least_time(layer) / usual
        for layer in layers
        if view.may_have_better_channels(layer)
    }
    odd = [layer for layer in layers if gains.get(layer.index, 0.0) > 0.0]
    saving = sum(gains[layer.index] for layer in odd)
    if saving < LEAST_SHARE * view.profile.latency:
        return []
    most = max(odd, key=lambda layer: gains[layer.index])
    return _finding(
        "channel-counts",
        f"{_several(odd, 'layer')} with channel counts that are no multiples of 8, surely below {FAR_FROM_ROOF:.0%} of "
        f"the machine's limit: {view.share(odd)}; half of the layers with such multiples reach {usual:.0%} of theirs. "
        f"The most is lost in {most.name!r}",
        f"{channels}try the next multiple in these layers",
        odd,
        saving=saving,
        method="their time minus the time at the share of the limit that half of the layers with multiples of 8 reach",
        usual_share=usual,
    )


def _quickest(layer: Layer) -> float:
    """Return the share of its roof that a layer may reach at most, by the interval of its time."""
    low = layer.time if layer.low is None else layer.low
    return (layer.ops or 0) / low / layer.roof if low and layer.roof else float("inf")


def _far_from_roof(view: _ProfileView, layers: Sequence[Layer], code: str, noun: str, suggestion: str) -> list[Finding]:
    if not layers:
        return []
    least = sum(map(_least_time, layers))
    worst = max(layers, key=lambda layer: (layer.time or 0.0) - _least_time(layer))
    return _finding(
        code,
        f"{_several(layers, noun)} surely below {FAR_FROM_ROOF:.0%} of the machine's limit: {view.share(layers)}, "
        f"which at the limit would be {format_quantity(least, 's')}. "
        f"The most is lost in {worst.name!r}: {format_quantity(worst.time or 0.0, 's')} at {worst.roof_share:.1%} of "
        "its limit",
        suggestion,
        layers,
        saving=time_of(layers) - least,
        method="their time minus the time at the measured roof",
        time_at_roof=least,
        worst=worst.roof_share or 0.0,
    )


def _least_time(layer: Layer) -> float:
    """Return what a layer would take at its roof, s."""
    return (layer.ops or 0) / layer.roof if layer.roof else 0.0


_SHAPE_OPS = frozenset(
    {"Shape", "ShapeOf", "SHAPE", "Size", "SIZE", "RANK", "Range", "RANGE", "ConstantOfShape", "FILL"}
)


def _dynamic(view: _ProfileView) -> list[Finding]:
    shapes = [tensor.shape for tensor in view.graph.tensors.values()]
    count = sum(shape is None or not all(isinstance(size, int) for size in shape) for shape in shapes)
    layers = [
        layer
        for layer in view.layers
        if layer.kind == "operator" and layer.time and any(each.op in _SHAPE_OPS for each in view.operators(layer))
    ]
    return _finding(
        "dynamic-shapes",
        f"{_several(layers, 'step')} to compute shapes while the network runs: {view.share(layers)}"
        + (f"; {count} tensors have shapes that are open in the file" if count else ""),
        f"export the model with fixed shapes{', or simplify it (onnxslim)' if view.is_onnx else ''}, so that they are "
        "computed beforehand",
        layers,
        noun="steps",
        open_tensors=count,
    )


_INTEGERS = frozenset({"int8", "uint8"})
_FLOATS = frozenset({"float32", "float16", "bfloat16"})


def _as_float(view: _ProfileView) -> list[Finding]:
    layers = [
        layer
        for layer in view.layers
        if layer.macs and layer.time and find_dtype(layer) in _FLOATS and _quantised(view, layer)
    ]
    integer, floating = peak_of(view.profile.peaks, "int8"), peak_of(view.profile.peaks, "float32")
    if integer is None or floating is None or integer.value <= floating.value:
        return []
    ratio = integer.value / floating.value
    return _finding(
        "integer-run-as-float",
        f"{len(layers)} quantised layers run in floating point and take {view.share(layers)}; this machine's 8-bit "
        f"products are {ratio:.1f}× as fast",
        "use a quantisation scheme the engine has kernels for (symmetric 8-bit weights, per channel; 8-bit "
        "activations), or another engine",
        layers,
        saving=time_of(layers) * (1 - 1 / ratio),
        method="their time × (1 − measured float peak / measured 8-bit peak)",
        peak_ratio=ratio,
    )


def _quantised(view: _ProfileView, layer: Layer) -> bool:
    """Whether data and weights of its products are 8-bit integers in the model, directly or behind a dequantise."""
    producers = view.producers

    def is_integer(name: str) -> bool:
        tensor, maker = view.graph.tensors.get(name), producers.get(name)
        if maker is not None and view.graph.operators[maker].kind == "dequantize":
            tensor = view.graph.tensors[view.graph.operators[maker].inputs[0]]
        return tensor is not None and tensor.dtype in _INTEGERS

    products = [operator for operator in view.operators(layer) if operator.kind in PRODUCTS]
    return any(len(each.inputs) > 1 and all(map(is_integer, each.inputs[:2])) for each in products)


def _held_back(view: _ProfileView) -> list[Finding]:
    found = find_held_back(view.layers, view.profile, instructions=view.instructions)
    return [] if found is None else [found]


def _tiny(view: _ProfileView) -> list[Finding]:
    timed = [layer for layer in view.every if layer.kind == "operator" and layer.time]
    tiny = [
        layer for layer in timed if (layer.share or 0.0) < TINY_SHARE and layer.ops is not None and layer.ops < TINY_OPS
    ]
    if len(tiny) < STORM_LAYERS:
        return []
    # Each may be shorter than the engine's clock can tell, so only the sure part of its time counts.
    sure = [replace(layer, time=layer.time if layer.low is None else layer.low) for layer in tiny]
    return _finding(
        "tiny-operators",
        f"{len(tiny)} of {len(timed)} layers have fewer than {TINY_OPS:,} operations each and together take at least "
        f"{view.share(sure)}",
        f"simplify the graph (constant folding{', onnxslim' if view.is_onnx else ''}), or write them as fewer, larger "
        "operators",
        sure,
        of=len(timed),
    )


def _outside(view: _ProfileView) -> list[Finding]:
    places = [layer for layer in view.layers if layer.kind == "overhead" and not layer.engine_nodes and layer.time]
    if time_of(places) <= 0.1 * view.profile.latency or not view.settled:
        return []
    steps = sum(1 for layer in view.layers if layer.kind == "operator" and layer.time)
    between = time_of([layer for layer in places if layer.name not in UNTOUCHED])
    ways = ["more work per inference (batch)", "fewer and larger operators", "another engine"]
    ways += ["one thread if several wait for each other"] if view.threads != 1 else []
    return _finding(
        "engine-overhead",
        f"{view.share(places)} pass outside the operators, {format_quantity(between, 's')} of that between {steps} "
        "steps",
        f"Python runs between the operators: {_COMPILE}, or use more work per inference (batch)"
        if view.eager
        else f"use {listing(ways, 'or')}",
        places,
        noun="places",
        method="all of it",
        between_operators=between,
        steps=steps,
    )


def _start(view: _ProfileView) -> list[Finding]:
    steady = view.profile.latency
    if view.first is None or view.first <= SLOW_START * steady or view.first - steady <= LEAST_START_S:
        return []
    return [
        Finding(
            code="slow-first-inference",
            message=f"the first inference takes {format_quantity(view.first, 's')}, "
            f"{view.first / steady:.0f}× as long as later ones",
            suggestion="run one inference during start-up, or enable the engine's compilation cache",
            saving=view.first - steady,
            evidence={"first": view.first, "steady": steady},
            method="first minus steady",
            once=True,
        )
    ]


def _several(layers: Sequence[Layer], noun: str) -> str:
    """``1 change of layout``, ``2 changes of layout``: the number of layers with the plural of a noun."""
    first, _, rest = noun.partition(" ")
    if len(layers) == 1:
        return f"1 {noun}"
    return f"{len(layers)} {noun}s" if first == "depthwise" else f"{len(layers)} {first}s {rest}".rstrip()


_RULES: tuple[Callable[[_ProfileView], list[Finding]], ...] = (
    _fallback, _layouts, _conversions, _chains, _activations, _batch_norms, _far, _dynamic, _as_float, _held_back,
    _tiny, _outside, _start,
)  # fmt: skip
