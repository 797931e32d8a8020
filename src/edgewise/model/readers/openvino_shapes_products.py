"""Shapes behind OpenVINO's operations that accumulate products: matrix products, attention, recurrent layers."""

from __future__ import annotations

from edgewise.model.readers.openvino_shapes_steps import Shape, ShapeConflict, Step, broadcast, merge, show
from edgewise.model.signature import Dimension


def multiply_matrices(step: Step) -> Shape | None:
    """[…, rows, inner] · […, inner, columns]; a vector is a row on the left and a column on the right."""
    one, other = step.shape(0), step.shape(1)
    if one is None or other is None:
        return None
    if not one or not other:
        raise ShapeConflict(f"{show(one)} · {show(other)}")
    left = (1, *one) if len(one) == 1 else _turn(one, step.flag("transpose_a", usual=False))
    right = (*other, 1) if len(other) == 1 else _turn(other, step.flag("transpose_b", usual=False))
    if left[-1] is not None and right[-2] is not None and left[-1] != right[-2]:
        raise ShapeConflict(f"{show(one)} · {show(other)}")
    lead = broadcast(left[:-2], right[:-2]) or ()
    rows: Shape = () if len(one) == 1 else (left[-2],)
    columns: Shape = () if len(other) == 1 else (right[-1],)
    return (*lead, *rows, *columns)


def _turn(shape: Shape, turned: bool) -> Shape:
    return (*shape[:-2], shape[-1], shape[-2]) if turned else shape


def sum_products(step: Step) -> Shape | None:
    """Einsum without ellipses: a label has one size everywhere, or 1."""
    equation = str(step.options.get("equation", "")).replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if not arrow or "." in equation or len(terms) != len(step.shapes):
        return None
    sizes: dict[str, Dimension] = {}
    for term, shape in zip(terms, step.shapes, strict=True):
        if shape is None:
            continue
        if len(term) != len(shape):
            raise ShapeConflict(f"{show(shape)} as {term[:40]!r}")
        for label, size in zip(term, shape, strict=True):
            stretched = broadcast((sizes.get(label, 1),), (size,))
            sizes[label] = stretched[0] if stretched is not None else None
    return tuple(sizes.get(label) for label in right) if set(right) <= set(sizes) else None


def attend(step: Step) -> Shape | None:
    """Query […, L, E], key […, S, E] and value […, S, V] give […, L, V]."""
    query, key, value = (step.shape(at) for at in range(3))
    if query is None or key is None or value is None or not len(query) == len(key) == len(value) >= 3:
        return None
    merge(query[-1], key[-1])
    merge(key[-2], value[-2])
    lead = broadcast(broadcast(query[:-2], key[:-2]), value[:-2])
    return None if lead is None else (*lead, query[-2], value[-1])


def recur(step: Step) -> list[Shape | None] | None:
    """A sequence: all outputs [N, D, T, H] and the last states [N, D, H]; a cell: its states [N, H]."""
    data, state, hidden = step.shape(0), step.shape(1), step.number("hidden_size")
    sequence = step.op.endswith("sequence")
    rank = 3 if sequence else 2
    if data is None or hidden is None or hidden < 0 or len(data) != rank:
        return None
    batch = merge(data[0], state[0]) if state is not None and len(state) == rank else data[0]
    states = 2 if step.op.startswith("lstm") else 1
    if not sequence:
        last: Shape = (batch, hidden)
        return [last] * states
    directions = 2 if step.word("direction", "forward") == "bidirectional" else 1
    last = (batch, directions, hidden)
    return [(batch, directions, data[1], hidden), *[last] * states]
