"""The part of a network that stands for all of it."""

from __future__ import annotations

from dataclasses import replace

from edgewise.model.graph import Graph
from edgewise.optimizing.subgraph import choose_subgraph
from graphs import convnet, graph, op, tensor


def stack(blocks: int, *, width: int = 8, prefix: str = "", wide_at: int | None = None) -> Graph:
    """x → stem → `blocks` residual blocks of two convolutions → head → y."""
    tensors = [tensor("x", 1, 3, 8, 8), tensor(f"{prefix}ws", width, 3, 3, 3, constant=True)]
    operators = [op("Stem", "convolution", ["x", f"{prefix}ws"], [f"{prefix}s"], weights=[f"{prefix}ws"], reduction=27)]
    tensors.append(tensor(f"{prefix}s", 1, width, 8, 8))
    last = f"{prefix}s"
    for at in range(blocks):
        names = [f"{prefix}{letter}{at}" for letter in ("wa", "a", "wb", "b", "c")]
        size = 5 if at == wide_at else 3
        tensors += [tensor(names[0], width, width, size, size, constant=True), tensor(names[1], 1, width, 8, 8)]
        tensors += [tensor(names[2], width, width, 3, 3, constant=True)]
        tensors += [tensor(names[3], 1, width, 8, 8), tensor(names[4], 1, width, 8, 8)]
        reduction = width * size * size
        operators += [
            op(
                f"Conv{at}a",
                "convolution",
                op="Conv",
                inputs=[last, names[0]],
                outputs=[names[1]],
                weights=[names[0]],
                reduction=reduction,
            ),
            op(
                f"Conv{at}b",
                "convolution",
                op="Conv",
                inputs=[names[1], names[2]],
                outputs=[names[3]],
                weights=[names[2]],
                reduction=72,
            ),
            op(f"Add{at}", "elementwise", [names[3], last], [names[4]], per_element=1),
        ]
        last = names[4]
    tensors.append(tensor(f"{prefix}y", 1, 512))
    operators.append(op("Reshape", "movement", [last], [f"{prefix}y"]))
    return graph(tensors, operators, inputs=["x"], outputs=[f"{prefix}y"])


def test_a_network_that_is_cheap_to_try_is_taken_whole():
    network = stack(6)
    subgraph = choose_subgraph(network, seconds=10.0)
    assert subgraph is not None
    assert (subgraph.extent, subgraph.share) == ("whole", 1.0)
    assert subgraph.kept == tuple(range(len(network.operators)))
    assert subgraph.outputs == ("y",)


def test_an_output_in_the_middle_is_an_output_of_the_subgraph():
    network = replace(stack(6), outputs=("a4", "y"))
    subgraph = choose_subgraph(network, seconds=10.0)
    assert subgraph is not None
    assert subgraph.outputs == ("a4", "y")


def test_a_large_network_is_sampled_in_runs_of_neighbours():
    network = stack(40, wide_at=0)
    subgraph = choose_subgraph(network, seconds=1.0)
    assert subgraph is not None
    assert subgraph.extent == "sampled"
    assert 0.1 < subgraph.share < 0.7
    assert 0.012 * len(subgraph.kept) < 0.5
    runs = sum(1 for a, b in zip(subgraph.kept, subgraph.kept[1:], strict=False) if b != a + 1) + 1
    assert 2 <= runs <= 4
    made = {name for index in subgraph.kept for name in network.operators[index].outputs}
    for boundary in subgraph.inputs:
        assert boundary.name not in made
        assert boundary.shape == (1, 8, 8, 8)
    assert set(subgraph.outputs) <= made
    assert len(subgraph.outputs) >= runs


def test_a_format_that_cannot_be_cut_is_taken_whole_or_not_at_all():
    assert choose_subgraph(stack(6), seconds=0.61, cuttable=False) is None
    whole = choose_subgraph(stack(6), seconds=10.0, cuttable=False)
    assert whole is not None
    assert whole.extent == "whole"


def test_a_network_with_bodies_is_not_cut():
    looping = replace(stack(6), subgraphs={"body": convnet()})
    assert choose_subgraph(looping, seconds=0.61) is None


def test_one_operator_that_is_too_large_gives_no_excerpt():
    huge = graph(
        [tensor("x", 1, 20000), tensor("w", 20000, 20000, constant=True), tensor("y", 1, 20000)],
        [op("MatMul", "matrix-multiplication", ["x", "w"], ["y"], weights=["w"], reduction=20000)],
        inputs=["x"],
        outputs=["y"],
    )
    assert choose_subgraph(huge, seconds=5.0) is None


def test_the_digest_looks_at_operators_and_not_at_names_or_weights():
    def digest(network: Graph) -> str:
        subgraph = choose_subgraph(network, seconds=10.0)
        assert subgraph is not None
        return subgraph.digest

    assert digest(stack(3)) == digest(stack(3, prefix="other_"))
    assert digest(stack(3)) != digest(stack(4))
    assert digest(stack(3)) != digest(stack(3, wide_at=1))
    assert digest(stack(3)) != digest(stack(3, width=16))


def test_an_empty_network_is_whole():
    empty = Graph(name="", format="test", tensors={}, operators=(), inputs=(), outputs=())
    subgraph = choose_subgraph(empty, seconds=1.0)
    assert subgraph is not None
    assert subgraph.kept == ()
