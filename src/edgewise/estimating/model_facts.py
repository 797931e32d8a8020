"""What the network of an estimate tells besides the estimator: operations, weights, shapes, memory, energy ratios."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from edgewise.estimating.base import Estimate, EstimatedLayer
from edgewise.model.cost import count, total_of
from edgewise.model.graph import Graph, Tensor
from edgewise.model.memory_plan import plan_memory
from edgewise.record import LayerTensor, Measurement

COUNTED = "counted from the model's graph"


def with_model_facts(estimate: Estimate, graph: Graph) -> Estimate:
    """`estimate` with the facts of its network: per layer, and as rows behind those of the estimator.

    A layer without an energy gets its share of the total by time, as a device draws about the same power in all layers.

    Args:
        graph: the network that was estimated; `EstimatedLayer.index` counts its operators.
    """
    estimate = replace(
        estimate,
        inputs=_tensors(graph.tensors[name] for name in graph.inputs),
        outputs=_tensors(graph.tensors[name] for name in graph.outputs),
    )
    if estimate.refused is not None:
        return estimate
    live = plan_memory(graph).live_bytes
    energy, latency = (row.value if row else None for row in map(estimate.measurement, ("energy", "latency")))
    power = energy / latency if energy is not None and latency else None
    layers = tuple(_with_facts(layer, graph, live=live, power=power) for layer in estimate.layers)
    rows = (*estimate.measurements, *_rows(estimate, graph))
    ratios = dict.fromkeys(("energy_per_op", "energy_per_mac"), estimate.coverage.get("energy"))
    coverage = {**estimate.coverage, **{metric: share for metric, share in ratios.items() if share is not None}}
    return replace(estimate, layers=layers, measurements=rows, coverage=coverage)


def _with_facts(layer: EstimatedLayer, graph: Graph, *, live: tuple[int, ...], power: float | None) -> EstimatedLayer:
    if layer.energy is None and layer.time is not None and power is not None:
        layer = replace(layer, energy=layer.time * power)
    if layer.index is None:
        return layer
    operator = graph.operators[layer.index]
    cost = count(operator, graph)
    return replace(
        layer,
        ops=cost.ops,
        parameters=cost.parameters,
        weight_bytes=cost.weight_bytes,
        live_bytes=live[layer.index] if live else None,
        inputs=_tensors(tensor for tensor in graph.input_tensors(operator) if not tensor.constant),
        outputs=_tensors(graph.output_tensors(operator)),
        attributes=dict(operator.attributes),
    )


def _tensors(tensors: Iterable[Tensor]) -> tuple[LayerTensor, ...]:
    return tuple(LayerTensor(name=each.name, shape=each.shape, dtype=each.dtype) for each in tensors)


def _rows(estimate: Estimate, graph: Graph) -> list[Measurement]:
    """Return the rows that the estimator did not give: counts of the network, and the energy per operation and per
    MAC.
    """
    total = total_of(graph)
    counts = {
        "macs": total.macs,
        "ops": total.ops,
        "parameters": total.parameters,
        "parameters_size": total.weight_bytes,
    }
    rows = [
        Measurement.absent(metric, total.why)
        if value is None
        else Measurement.of(metric, value, COUNTED, basis="derived")
        for metric, value in counts.items()
        if estimate.measurement(metric) is None
    ]
    return [
        *rows,
        _energy_per("energy_per_op", estimate, total.ops),
        _energy_per("energy_per_mac", estimate, total.macs),
    ]


def _energy_per(metric: str, estimate: Estimate, number: int | None) -> Measurement:
    energy = estimate.measurement("energy")
    if energy is None or energy.value is None:
        return Measurement.absent(metric, (energy and energy.absent_because) or "the energy is not estimated")
    if not number:
        return Measurement.absent(metric, "the number of them is 0 or not known")
    low, high = (None if end is None else end / number for end in (energy.low, energy.high))
    return Measurement.of(metric, energy.value / number, f"energy / {number:,}", basis="derived", low=low, high=high)
