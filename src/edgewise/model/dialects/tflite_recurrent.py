"""TFLite's recurrent layers, after tensorflow/lite/kernels/*lstm*.cc, *rnn*.cc and svdf.cc.

What the kind ``recurrent`` describes is described by it; the rest (coupled gates, layer normalisation, clipping, other
functions than tanh, auxiliary inputs) is counted here by the same rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgewise.model.cost import ACTIVATIONS
from edgewise.model.dialects.base import (
    RawOperator,
    Semantics,
    add,
    counted,
    elements,
    mean,
    multiply,
    other_functions,
    size_of,
)
from edgewise.model.dialects.tflite_layers import fused, positive

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


def _sequence(raw: RawOperator) -> tuple[int | None, int | None]:
    """Steps and batch of data [time, batch, features] (time-major), [batch, time, features] or [batch, features]."""
    first, second = size_of(raw.input(0), 0), size_of(raw.input(0), 1)
    if raw.op in ("LSTM", "RNN"):
        return 1, first
    major = raw.attributes.get("time_major", raw.op == "BIDIRECTIONAL_SEQUENCE_LSTM")
    return (first, second) if major else (second, first)


def run_lstm(raw: RawOperator) -> Semantics:
    """LSTM (one step), UNIDIRECTIONAL_SEQUENCE_LSTM and BIDIRECTIONAL_SEQUENCE_LSTM."""
    steps, batch = _sequence(raw)
    if raw.op == "LSTM" and raw.attributes.get("kernel_type") == "BASIC":
        # All weights are in one matrix [4 × hidden, input + hidden].
        rows, features = size_of(raw.input(2), 0), size_of(raw.input(0), -1)
        hidden = rows // 4 if rows is not None else None
        return mean("recurrent", gates=4, hidden=hidden, input=features, steps=1, batch=batch, biases=1, weights=(2, 3))
    cells = [_TWO_FORWARD, _TWO_BACKWARD] if raw.op == "BIDIRECTIONAL_SEQUENCE_LSTM" else [_FORWARD]
    weights = tuple(at for cell in cells for at in cell.weights)
    if len(cells) == 1 and _is_plain(raw, cell := cells[0]):
        return mean(
            "recurrent",
            gates=4,
            hidden=size_of(raw.input(cell.gates[1]), 0),
            input=size_of(raw.input(cell.gates[1]), 1),
            steps=steps,
            batch=batch,
            state=size_of(raw.input(cell.recurrent[1]), 1),
            biases=1 if _there(raw, cell.biases) else 0,
            peepholes=len(_there(raw, cell.peepholes)),
            projection=size_of(raw.input(cell.projection), 0),
            weights=weights,
        )
    macs, ops = zip(*(_count_lstm(raw, cell) for cell in cells), strict=True)
    return counted(multiply(steps, batch, add(*macs)), multiply(steps, batch, add(*ops)), weights=weights)


def filter_in_time(raw: RawOperator) -> Semantics:
    """SVDF: data, weights over features [filters, features], over time [filters, memory], bias [units], state.

    Each step projects the features and filters the last `memory` projections; `rank` filters are summed to one unit.
    """
    batch, filters = size_of(raw.input(0), 0), size_of(raw.input(1), 0)
    rank = positive(raw, "rank")
    units = filters // rank if filters is not None and rank else None
    features, memory = size_of(raw.input(1), 1), size_of(raw.input(2), 1)
    macs = multiply(batch, filters, add(features, memory))
    sums = multiply(units, rank - 1) if rank else None
    bias = units if raw.given(3) else 0
    function = ACTIVATIONS.get(fused(raw))
    ops = add(multiply(2, macs), multiply(batch, add(sums, bias, multiply(units, function))))
    return counted(macs, ops, weights=(1, 2, 3))


def _there(raw: RawOperator, positions: Sequence[int]) -> list[int]:
    return [at for at in positions if raw.given(at)]


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
    hidden = size_of(raw.input(cell.gates[1]), 0)
    function = ACTIVATIONS.get(fused(raw))
    macs = add(*(elements(raw.input(at)) for at in (*gates, *_there(raw, (*cell.auxiliary, *cell.recurrent)))))
    projection = _there(raw, [cell.projection])
    macs = add(macs, *(elements(raw.input(at)) for at in projection))
    # Sigmoids of the gates but the cell's, the function twice, the sums of input and state, f∘c + i∘g and o∘….
    per_unit = add(4 * (len(gates) - 1), multiply(2, function), len(gates), 4)
    per_unit = add(
        per_unit,
        len(_there(raw, cell.biases)),
        2 * len(_there(raw, cell.peepholes)),
        _NORMALIZATION * len(_there(raw, cell.norms)),
        len(_there(raw, cell.auxiliary)),
        1 if len(gates) == 3 else 0,
        2 if raw.attributes.get("cell_clip") else 0,
    )
    outputs = size_of(raw.input(cell.projection), 0) if projection else 0
    after = len(_there(raw, [cell.projection_bias])) + (2 if raw.attributes.get("proj_clip") else 0)
    return macs, add(multiply(2, macs), multiply(hidden, per_unit), multiply(outputs, after))


def run_rnn(raw: RawOperator) -> Semantics:
    """RNN (one step), UNIDIRECTIONAL_SEQUENCE_RNN and BIDIRECTIONAL_SEQUENCE_RNN.

    Per direction: weights, recurrent weights, bias and, both ways, auxiliary weights.
    """
    steps, batch = _sequence(raw)
    cells = [(1, 2, 3, 10), (5, 6, 7, 11)] if raw.op == "BIDIRECTIONAL_SEQUENCE_RNN" else [(1, 2, 3)]
    positions = tuple(at for cell in cells for at in cell)
    function = ACTIVATIONS.get(fused(raw))
    sizes = {(size_of(raw.input(cell[0]), 0), size_of(raw.input(cell[0]), 1)) for cell in cells}
    auxiliary = _there(raw, [at for cell in cells for at in cell[3:]])
    if function is not None and len(sizes) == 1 and not auxiliary:
        hidden, features = sizes.pop()
        further = len(cells) * other_functions(1, [function])
        return mean(
            "recurrent",
            gates=1,
            hidden=hidden,
            input=features,
            steps=steps,
            batch=batch,
            directions=len(cells),
            biases=1,
            further=further,
            weights=positions,
        )
    products = add(*(elements(raw.input(at)) for cell in cells for at in cell[:2]))
    macs = multiply(steps, batch, add(products, *(elements(raw.input(at)) for at in auxiliary)))
    units = add(*(size_of(raw.input(cell[0]), 0) for cell in cells))
    more = add(multiply(units, add(function, 2)), *(size_of(raw.input(at), 0) for at in auxiliary))
    return counted(macs, add(multiply(2, macs), multiply(steps, batch, more)), weights=positions)
