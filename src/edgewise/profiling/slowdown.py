"""Why a quantised model is slower than the one in floating point, in one sentence, from the profiles of both.

Nothing is said where it is not slower, or where the profiles do not show the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgewise.profiling.layer_matching import are_reliable, pair_layers, spread_of
from edgewise.profiling.quantisation import (
    LEAST_QUANTISED,
    find_around,
    is_dynamic,
    is_float,
    is_product,
    names_of,
    quantised_share,
    time_of,
)
from edgewise.record import Layer, Run
from edgewise.units import format_quantity

_NOTABLE = 0.1
"""What explains less than this share of a difference is not worth a word."""
_MOST = 0.5
"""What explains less than this share of a difference is not the reason for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ProductLayers:
    """One run's part of the products that both runs compute.

    Attributes:
        products: layers that multiply.
        wrapping: layers around them that are there because they are quantised.
    """

    products: tuple[Layer, ...]
    wrapping: tuple[Layer, ...]

    @property
    def both(self) -> tuple[Layer, ...]:
        """All of them."""
        return (*self.products, *self.wrapping)


def explain_slowdown(before: Run, after: Run, *, labels: tuple[str, str]) -> str | None:
    """One sentence where one of the runs is quantised, more than the other, and surely slower.

    Args:
        labels: what to call the two.
    """
    shares = [quantised_share(run.layers) for run in (before, after)]
    if shares[0] == shares[1] or max(shares) < LEAST_QUANTISED:
        return None
    at = shares.index(max(shares))
    slow, fast = ((before, after), (after, before))[at]
    name, other = labels[at], labels[1 - at]
    ratio = _ratio(slow, fast)
    if ratio is None or slow.profile is None or fast.profile is None:
        return None
    if not are_reliable(slow, fast):
        return f"whether {name} is slower than {other} is not known: the latency of one of them has grade D"
    grown = slow.profile.latency - fast.profile.latency
    start = f"{name} is {ratio:.2f}\u00d7 slower than {other}"
    pairs = [pair for pair in pair_layers(before, after) if pair.is_alike]
    sides = [_products([pair.before for pair in pairs]), _products([pair.after for pair in pairs])]
    slow_side, fast_side = sides[at], sides[1 - at]
    unknown = "; the profiles do not show which layers cause it"
    if grown <= 0:
        return start + unknown
    reason = _say_products(slow_side, fast_side, grown, floating=other) or _say_parts(slow, fast, grown)
    return start + (reason or unknown)


def _ratio(slow: Run, fast: Run) -> float | None:
    """Of the latencies; None unless their intervals say that the first is longer."""
    one, other = slow.measurement("latency"), fast.measurement("latency")
    if one is None or other is None or not one.value or not other.value or one.low is None or other.high is None:
        return None
    return one.value / other.value if one.low > other.high else None


def _products(parts: Sequence[tuple[Layer, ...]]) -> _ProductLayers:
    layers = [layer for part in parts if any(map(is_product, part)) for layer in part]
    return _ProductLayers(products=tuple(filter(is_product, layers)), wrapping=tuple(find_around(layers)))


def _say_products(slow: _ProductLayers, fast: _ProductLayers, grown: float, *, floating: str) -> str:
    """Return the products with the steps around them, where they are the reason."""
    difference = time_of(slow.both) - time_of(fast.products)
    if difference <= spread_of((*slow.both, *fast.products)) or difference < _MOST * grown:
        return ""
    old, new = names_of(fast.products), names_of(slow.products)
    new = f"{new} in the quantised model" if new == old else new
    if slow.wrapping:
        them = "them" if len({layer.op for layer in slow.products}) > 1 else "it"
        new += f" and the steps that quantise, scale and convert around {them} ({names_of(slow.wrapping)})"
    took = f"{format_quantity(time_of(slow.both), 's')} where {old} took {format_quantity(time_of(fast.products), 's')}"
    return f" because {new} take {took}; {_advise(slow, floating)}"


def _advise(slow: _ProductLayers, floating: str) -> str:
    """Return what to do about products that are slower quantised."""
    search = f"`edgewise optimize {floating} --data \u2026`"
    if any(layer.op == "ConvInteger" for layer in slow.products):
        return f"dynamic int8 convolutions are slower here: use static QDQ ({search})"
    if any(map(is_dynamic, slow.both)):
        return f"dynamic int8 products are slower here: keep them in floating point, or try static QDQ ({search})"
    if time_of(filter(is_float, slow.products)) > _MOST * time_of(slow.products):
        return f"the engine still computes them in floating point: keep them in float, or try {search}"
    return f"int8 does not pay off for these layers on this machine: keep them in floating point, or try {search}"


def _say_parts(slow: Run, fast: Run, grown: float) -> str:
    """Return the parts of the difference that matter, where together they are the reason."""
    one, other = _split(slow.layers), _split(fast.layers)
    around = one["around"]
    told = {
        "around": f"{len(around)} steps that quantise, scale or convert ({names_of(around)}) take {{}}",
        "products": "its convolutions and matrix products take {} more",
        "others": f"its other operators ({names_of(one['others'])}) take {{}} more",
        "outside": "{} more are outside its operators",
    }
    more = {name: time_of(one[name]) - time_of(other[name]) for name in told}
    sure = [name for name in told if more[name] > max(_NOTABLE * grown, spread_of((*one[name], *other[name])))]
    if sum(more[name] for name in sure) < _MOST * grown:
        return ""
    parts = [told[name].format(format_quantity(more[name], "s")) for name in sorted(sure, key=lambda each: -more[each])]
    return f" because {' and '.join((', '.join(parts[:-1]), *parts[-1:])) if len(parts) > 1 else parts[0]}"


def _split(layers: Sequence[Layer]) -> dict[str, list[Layer]]:
    """Return the layers by what they do, each once."""
    around = find_around(layers)
    known = set(map(id, around))
    rest = [layer for layer in layers if id(layer) not in known]
    return {
        "around": around,
        "products": [layer for layer in rest if is_product(layer)],
        "others": [layer for layer in rest if layer.kind == "operator" and not is_product(layer)],
        "outside": [layer for layer in rest if layer.kind == "overhead" and not layer.engine_nodes],
    }
