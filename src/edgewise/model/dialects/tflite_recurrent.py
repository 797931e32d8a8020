"""TFLite's recurrent layers, after tensorflow/lite/kernels/*lstm*.cc, *rnn*.cc and svdf.cc.

What the kind ``recurrent`` describes is described by it; the rest (coupled gates, layer normalisation, clipping, other
functions than tanh, auxiliary inputs) is counted here by the same rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgewise.model.cost import ACTIVATIONS
from edgewise.model.dialects.base import RawOperator, Semantics
from edgewise.model.dialects.tflite_sizes import (
    elements_at,
    fused,
    known,
    positive,
    product,
    size_at,
    tensor_at,
    total,
)

_NORMALIZATION = 8  # per element: mean 1, variance 3, normalise 2, scale and shift 2


@dataclass(frozen=True, slots=True)
class _Cell:
    """Positions of the inputs of one direction of an LSTM, in the order input, forget, cell, output gate."""

    gates: Sequence[int]
    recurrent: Sequence[int]
    peepholes: Sequence[int]
    biases: Sequence[int]
    projection: int
    projection_bias: int
    norms: Sequence[int] = ()
    auxiliary: Sequence[int] = ()

    @property
    def weights(self) -> tuple[int, ...]:
        named = (*self.gates, *self.recurrent, *self.peepholes, *self.biases, self.projection, self.projection_bias)
        return (*named, *self.norms, *self.auxiliary)


_FORWARD = _Cell(range(1, 5), range(5, 9), range(9, 12), range(12, 16), 16, 17, range(20, 24))
_TWO_FORWARD = _Cell(range(1, 5), range(5, 9), range(9, 12), range(12, 16), 16, 17, (), range(40, 44))
_TWO_BACKWARD = _Cell(range(18, 22), range(22, 26), range(26, 29), range(29, 33), 33, 34, (), range(44, 48))


def run_lstm_step(raw: RawOperator) -> Semantics:
    """LSTM: one step. The basic kernel keeps all its weights in one matrix [4 × hidden, input + hidden]."""
    if raw.attributes.get("kernel_type") != "BASIC":
        return _run_lstm(raw, steps=1, batch=size_at(raw, 0, 0), cells=[_FORWARD])
    rows, features = size_at(raw, 2, 0), size_at(raw, 0, -1)
    hidden = rows // 4 if rows is not None else None
    geometry = known(gates=4, hidden=hidden, input=features, steps=1, batch=size_at(raw, 0, 0), directions=1, biases=1)
    return Semantics(kind="recurrent", geometry=geometry, weights=(2, 3))


def run_lstm(raw: RawOperator) -> Semantics:
    """UNIDIRECTIONAL_SEQUENCE_LSTM."""
    steps, batch = _sequence(raw)
    return _run_lstm(raw, steps=steps, batch=batch, cells=[_FORWARD])


def run_lstm_both_ways(raw: RawOperator) -> Semantics:
    """BIDIRECTIONAL_SEQUENCE_LSTM."""
    steps, batch = _sequence(raw, major=True)
    return _run_lstm(raw, steps=steps, batch=batch, cells=[_TWO_FORWARD, _TWO_BACKWARD])


def run_rnn_step(raw: RawOperator) -> Semantics:
    """RNN: one step."""
    return _run_rnn(raw, steps=1, batch=size_at(raw, 0, 0), cells=[(1, 2, 3, None)])


def run_rnn(raw: RawOperator) -> Semantics:
    """UNIDIRECTIONAL_SEQUENCE_RNN."""
    steps, batch = _sequence(raw)
    return _run_rnn(raw, steps=steps, batch=batch, cells=[(1, 2, 3, None)])


def run_rnn_both_ways(raw: RawOperator) -> Semantics:
    """BIDIRECTIONAL_SEQUENCE_RNN."""
    steps, batch = _sequence(raw)
    return _run_rnn(raw, steps=steps, batch=batch, cells=[(1, 2, 3, 10), (5, 6, 7, 11)])


def filter_in_time(raw: RawOperator) -> Semantics:
    """SVDF: data, weights over features [filters, features], over time [filters, memory], bias [units], state.

    Each step projects the features and filters the last `memory` projections; `rank` filters are summed to one unit.
    """
    batch, filters = size_at(raw, 0, 0), size_at(raw, 1, 0)
    rank = positive(raw, "rank")
    units = filters // rank if filters is not None and rank else None
    features, memory = size_at(raw, 1, 1), size_at(raw, 2, 1)
    macs = product(batch, filters, total(features, memory))
    sums = product(units, rank - 1) if rank else None
    bias = units if tensor_at(raw.inputs, 3) is not None else 0
    function = ACTIVATIONS.get(fused(raw))
    ops = total(product(2, macs), product(batch, total(sums, bias, product(units, function))))
    return Semantics(kind="counted", geometry=known(macs=macs, ops=ops), weights=(1, 2, 3))


def _sequence(raw: RawOperator, *, major: bool = False) -> tuple[int | None, int | None]:
    """Steps and batch of an input [time, batch, features] (time-major) or [batch, time, features]."""
    first, second = size_at(raw, 0, 0), size_at(raw, 0, 1)
    return (first, second) if raw.attributes.get("time_major", major) else (second, first)


def _there(raw: RawOperator, positions: Sequence[int]) -> list[int]:
    return [at for at in positions if tensor_at(raw.inputs, at) is not None]


def _run_lstm(raw: RawOperator, *, steps: int | None, batch: int | None, cells: Sequence[_Cell]) -> Semantics:
    weights = tuple(at for cell in cells for at in cell.weights)
    if len(cells) == 1 and _is_plain(raw, cells[0]):
        cell = cells[0]
        hidden = size_at(raw, cell.gates[1], 0)
        projection = size_at(raw, cell.projection, 0) if _there(raw, [cell.projection]) else None
        geometry = known(
            gates=4,
            hidden=hidden,
            input=size_at(raw, cell.gates[1], 1),
            steps=steps,
            batch=batch,
            directions=1,
            state=size_at(raw, cell.recurrent[1], 1),
            biases=1 if _there(raw, cell.biases) else 0,
            peepholes=len(_there(raw, cell.peepholes)),
            projection=projection,
        )
        return Semantics(kind="recurrent", geometry=geometry, weights=weights)
    counts = [_count_lstm(raw, cell) for cell in cells]
    macs = product(steps, batch, total(*(each[0] for each in counts)))
    ops = product(steps, batch, total(*(each[1] for each in counts)))
    return Semantics(kind="counted", geometry=known(macs=macs, ops=ops), weights=weights)


def _is_plain(raw: RawOperator, cell: _Cell) -> bool:
    """Four gates with tanh, and nothing else that the kind ``recurrent`` does not count."""
    options = raw.attributes
    extras = _there(raw, [*cell.norms, *cell.auxiliary, cell.projection_bias])
    clips = options.get("cell_clip", 0) or options.get("proj_clip", 0) or options.get("diagonal_recurrent_tensors")
    return (
        len(_there(raw, cell.gates)) == 4
        and len(_there(raw, cell.biases)) in {0, 4}
        and not extras
        and not clips
        and fused(raw) == "tanh"
    )


def _count_lstm(raw: RawOperator, cell: _Cell) -> tuple[int | None, int | None]:
    """MACs and ops of one step of one sequence.

    Without an input gate, that is 1 − the forget gate. A clip is two comparisons; a diagonal recurrent weight is one
    product per unit.
    """
    gates = _there(raw, cell.gates)
    hidden = size_at(raw, cell.gates[1], 0)
    function = ACTIVATIONS.get(fused(raw))
    products = [elements_at(raw.inputs, at) for at in (*gates, *_there(raw, cell.auxiliary))]
    recurrent = [elements_at(raw.inputs, at) for at in _there(raw, cell.recurrent)]
    projection = _there(raw, [cell.projection])
    macs = total(*products, *recurrent, *(elements_at(raw.inputs, at) for at in projection))
    # Sigmoids of the gates but the cell's, the function twice, the sums of input and state, f∘c + i∘g and o∘….
    per_unit = total(4 * (len(gates) - 1), product(2, function), len(gates), 4)
    per_unit = total(per_unit, len(_there(raw, cell.biases)), 2 * len(_there(raw, cell.peepholes)))
    per_unit = total(
        per_unit,
        _NORMALIZATION * len(_there(raw, cell.norms)),
        len(_there(raw, cell.auxiliary)),
        1 if len(gates) == 3 else 0,
        2 if raw.attributes.get("cell_clip") else 0,
    )
    outputs = size_at(raw, cell.projection, 0) if projection else 0
    after = len(_there(raw, [cell.projection_bias])) + (2 if raw.attributes.get("proj_clip") else 0)
    return macs, total(product(2, macs), product(hidden, per_unit), product(outputs, after))


def _run_rnn(
    raw: RawOperator, *, steps: int | None, batch: int | None, cells: Sequence[tuple[int, int, int, int | None]]
) -> Semantics:
    """`cells`: positions of the weights, the recurrent weights, the bias and the auxiliary weights, per direction."""
    positions = tuple(at for cell in cells for at in cell if at is not None)
    function = fused(raw)
    sizes = [(size_at(raw, cell[0], 0), size_at(raw, cell[0], 1)) for cell in cells]
    auxiliary = [at for cell in cells if (at := cell[3]) is not None and tensor_at(raw.inputs, at) is not None]
    if function == "tanh" and len(set(sizes)) == 1 and not auxiliary:
        hidden, features = sizes[0]
        geometry = known(
            gates=1, hidden=hidden, input=features, steps=steps, batch=batch, directions=len(cells), biases=1
        )
        return Semantics(kind="recurrent", geometry=geometry, weights=positions)
    products = [elements_at(raw.inputs, at) for cell in cells for at in cell[:2]]
    macs = product(steps, batch, total(*products, *(elements_at(raw.inputs, at) for at in auxiliary)))
    each = total(ACTIVATIONS.get(function), 2)
    units = total(*(hidden for hidden, _ in sizes))
    more = total(product(units, each), *(size_at(raw, at, 0) for at in auxiliary))
    ops = total(product(2, macs), product(steps, batch, more))
    return Semantics(kind="counted", geometry=known(macs=macs, ops=ops), weights=positions)
