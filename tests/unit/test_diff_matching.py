"""Which tensors of two files of one network are candidates for the same value."""

from __future__ import annotations

from edgewise.verbs.diff.matching import Match, match_tensors
from graphs import graph, op, tensor


def network(*, fused):
    """x → Conv → (Relu →) Conv → y: with the activation in the first convolution, or behind it."""
    tensors = [tensor(name, 1, 4) for name in ("x", "a", "r", "y")] + [tensor("w", 4, 4, constant=True)]
    conv = op("Conv0", "convolution", ["x", "w"], ["a"], weights=["w"], activation="clamp" if fused else "none")
    relu = op("Relu0", "activation", ["a"], ["r"], activation="relu")
    last = op("Conv1", "convolution", ["a" if fused else "r", "w"], ["y"], weights=["w"])
    return graph(tensors, [conv, last] if fused else [conv, relu, last], inputs=["x"], outputs=["y"])


def first_layer(reference, other) -> Match:
    return next(each for each in match_tensors(network(fused=reference), network(fused=other)) if each.name == "Conv0")


def test_a_product_of_the_same_name_may_be_what_was_joined_with_the_activation():
    separate = first_layer(False, True)
    assert (separate.first, separate.second) == (("a", "r"), ("a",))
    joined = first_layer(True, False)
    assert (joined.first, joined.second) == (("a",), ("a", "r"))


def test_products_that_both_are_joined_or_not_have_one_candidate():
    for fused in (False, True):
        found = first_layer(fused, fused)
        assert (found.first, found.second) == (("a",), ("a",))
