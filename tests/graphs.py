"""Small hand-made graphs for tests."""

from __future__ import annotations

from edgewise.model.graph import Graph, Operator, Tensor


def tensor(name, *shape, dtype="float32", **more):
    return Tensor(name=name, shape=tuple(shape), dtype=dtype, **more)


def op(name, kind, inputs, outputs, *, op=None, weights=(), attributes=None, subgraphs=(), why="", **geometry):
    return Operator(
        index=0,
        name=name,
        op=op or name.rstrip("0123456789"),
        kind=kind,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        weights=tuple(weights),
        geometry=geometry,
        attributes=attributes or {},
        subgraphs=tuple(subgraphs),
        unknown_because=why,
    )


def graph(tensors, operators, *, inputs=(), outputs=(), subgraphs=None, name="g"):
    from dataclasses import replace

    return Graph(
        name=name,
        format="test",
        tensors={each.name: each for each in tensors},
        operators=tuple(replace(each, index=at) for at, each in enumerate(operators)),
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        subgraphs=subgraphs or {},
    )


def convnet():
    """x → Conv0 → Relu0 → Conv1 → Add0(with the first's output) → y, and a Reshape0 that moves data."""
    return graph(
        [
            tensor("x", 1, 3, 8, 8),
            tensor("w0", 4, 3, 3, 3, constant=True),
            tensor("b0", 4, constant=True),
            tensor("c0", 1, 4, 8, 8),
            tensor("r0", 1, 4, 8, 8),
            tensor("w1", 4, 4, 1, 1, constant=True),
            tensor("c1", 1, 4, 8, 8),
            tensor("a0", 1, 4, 8, 8),
            tensor("y", 1, 256),
        ],
        [
            op("Conv0", "convolution", ["x", "w0", "b0"], ["c0"], weights=["w0", "b0"], reduction=27, bias=True),
            op("Relu0", "activation", ["c0"], ["r0"], activation="relu"),
            op("Conv1", "convolution", ["r0", "w1"], ["c1"], weights=["w1"], reduction=4),
            op("Add0", "elementwise", ["c1", "r0"], ["a0"], per_element=1),
            op("Reshape0", "movement", ["a0"], ["y"]),
        ],
        inputs=["x"],
        outputs=["y"],
    )
