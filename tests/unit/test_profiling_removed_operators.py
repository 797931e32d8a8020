"""What proves that an engine need not execute an operator."""

import pytest

from edgewise.profiling.attribution import attribute
from edgewise.profiling.removed_operators import BEFOREHAND, IDLE, MOVED, PASSES, UNUSED, prove_removed
from edgewise.runtime.base import EngineNode, EngineProfile
from graphs import graph, op, tensor


def network(*between):
    """x → a (convolution) → what is between → y (a convolution that takes m), and an open tensor o."""
    return graph(
        [
            tensor("x", 1, 4, 8, 8),
            tensor("o", 1, "n"),
            tensor("k", 4, constant=True),
            tensor("w", 4, 4, 1, 1, constant=True),
            *(tensor(name, 1, 4, 8, 8) for name in ("a", "f", "g", "m", "u", "y")),
        ],
        [
            op("first", "convolution", ["x", "w"], ["a"], weights=["w"], reduction=4),
            *between,
            op("last", "convolution", ["m", "w"], ["y"], weights=["w"], reduction=4),
        ],
        inputs=["x", "o"],
        outputs=["y"],
    )


def proofs(*between, others=(), idle=()):
    nodes = [EngineNode(name=name, op="k", times_ns=(1.0,), originals=(name,)) for name in ("first", "last")]
    nodes += [EngineNode(name=f"s{at}", op="k", times_ns=(1.0,), role=role) for at, role in enumerate(others)]
    profile = EngineProfile(
        method="", resolution_ns=1, truncates=False, nodes=tuple(nodes), inference_ns=(9,), ordered=False, idle=idle
    )
    graph = network(*between)
    found = attribute(graph, profile.nodes, ordered=False)
    return {graph.operators[index].name: why for index, why in prove_removed(graph, found, profile).items()}


def test_what_follows_from_constants_and_known_shapes_was_computed_beforehand():
    fixed = [
        op("shape", "movement", ["x"], ["f"], op="Shape"),
        op("cast", "convolution", ["f", "k"], ["g"], reduction=4),
        op("reshape", "movement", ["a", "g"], ["m"], op="Reshape"),
    ]
    assert proofs(*fixed) == {"shape": BEFOREHAND, "cast": BEFOREHAND, "reshape": PASSES}
    opened = op("shape", "movement", ["o"], ["f"], op="Shape")
    assert proofs(opened, *fixed[1:], others=["operator"]) == {"reshape": PASSES}


def test_what_nothing_uses():
    assert proofs(
        op("dead", "convolution", ["a", "w"], ["u"], reduction=4), op("pass", "movement", ["a"], ["m"], op="Identity")
    ) == {"dead": UNUSED, "pass": PASSES}


def test_what_the_engine_lists_and_never_runs():
    concat = op("concat", "movement", ["a", "x"], ["m"], op="Concat")
    assert proofs(concat, others=["operator"], idle=("concat",)) == {"concat": IDLE}
    assert proofs(concat, others=["operator"], idle=("m",)) == {"concat": IDLE}
    heavy = op("heavy", "convolution", ["a", "w"], ["m"], reduction=4)
    assert proofs(heavy, idle=("heavy",)) == {}


@pytest.mark.parametrize(
    ("others", "found"),
    [([], {"slice": MOVED}), (["precision"], {"slice": MOVED}), (["operator"], {}), (["layout"], {})],
)
def test_a_movement_is_gone_where_no_step_is_left_that_could_do_it(others, found):
    assert proofs(op("slice", "movement", ["a"], ["m"], op="Slice"), others=others) == found


@pytest.mark.parametrize("kind", ["convolution", "softmax", "reduction", ""])
def test_what_computes_is_not_removed(kind):
    more = {"reduction": 4} if kind == "convolution" else {}
    assert proofs(op("c", kind, ["a", "w"], ["m"], op="X", **more)) == {}
