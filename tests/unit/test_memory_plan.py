"""Memory plans: exact ones by hand, and what holds for every graph."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.model import memory_plan
from edgewise.model.graph import Graph, Operator, Tensor
from edgewise.model.memory_plan import find_folded, find_lifetimes, plan_memory


def make_graph(steps, sizes, *, inputs=("x",), outputs=(), constants=(), variables=()):
    """A graph of int8 tensors: `steps` are (inputs, outputs) of operators, `sizes` bytes by name."""
    names = {*inputs, *outputs, *(name for step in steps for side in step for name in side)}
    tensors = {
        name: Tensor(
            name=name,
            shape=(sizes[name],) if sizes.get(name) is not None else (None,),
            dtype="int8",
            constant=name in constants,
            variable=name in variables,
        )
        for name in names
    }
    operators = tuple(
        Operator(index=at, name=f"op{at}", op="Op", inputs=tuple(taken), outputs=tuple(made))
        for at, (taken, made) in enumerate(steps)
    )
    return Graph(
        name="g", format="test", tensors=tensors, operators=operators, inputs=tuple(inputs), outputs=tuple(outputs)
    )


def test_a_chain_reuses_memory():
    # x(64) → a(32) → b(16) → y(48): at op0 x+a = 96 live, at op1 a+b = 48, at op2 b+y = 64
    graph = make_graph(
        [(["x"], ["a"]), (["a"], ["b"]), (["b"], ["y"])], {"x": 64, "a": 32, "b": 16, "y": 48}, outputs=["y"]
    )
    plan = plan_memory(graph)
    assert plan.live_bytes == (96, 48, 64)
    assert plan.lower_bound_bytes == 96
    assert plan.peak_operator == 0
    offsets = {each.tensor: (each.offset, each.first, each.last) for each in plan.placements}
    # by size: x at 0; y lives only at op2, where nothing placed lives → 0; a beside x → 64; b beside y (0..48) and a (64..96): 48
    assert offsets == {"x": (0, 0, 0), "y": (0, 2, 2), "a": (64, 0, 1), "b": (48, 1, 2)}
    assert plan.arena_bytes == 96
    assert plan.persistent_bytes == 0
    assert plan.scratch_bytes == 96


def test_outputs_live_to_the_end_and_weights_need_no_arena():
    graph = make_graph(
        [(["x", "w"], ["early"]), (["x"], ["late"])],
        {"x": 16, "w": 1000, "early": 32, "late": 8},
        outputs=["early", "late"],
        constants=["w"],
    )
    assert find_lifetimes(graph) == {"x": (0, 1), "early": (0, 1), "late": (1, 1)}
    assert plan_memory(graph).lower_bound_bytes == 16 + 32 + 8


def test_states_are_persistent():
    graph = make_graph(
        [(["x", "state"], ["a"]), (["a"], ["y"])],
        {"x": 16, "state": 64, "a": 16, "y": 16},
        outputs=["y"],
        variables=["state"],
    )
    plan = plan_memory(graph)
    assert plan.persistent_bytes == 64
    assert find_lifetimes(graph)["state"] == (0, 1)
    assert plan.scratch_bytes == plan.arena_bytes - 64


def test_alignment_rounds_offsets_up():
    graph = make_graph([(["x"], ["y"])], {"x": 10, "y": 10}, outputs=["y"])
    assert plan_memory(graph).arena_bytes == 16 + 10
    assert plan_memory(graph, alignment=1).arena_bytes == 20


def test_unknown_sizes_are_told_and_not_planned():
    graph = make_graph([(["x"], ["y"])], {"x": 8, "y": None}, outputs=["y"])
    plan = plan_memory(graph)
    assert plan.unknown == ("y",)
    assert [each.tensor for each in plan.placements] == ["x"]


def test_a_graph_without_operators():
    graph = make_graph([], {"x": 8}, outputs=["x"])
    plan = plan_memory(graph)
    assert (plan.arena_bytes, plan.lower_bound_bytes, plan.peak_operator) == (8, 0, None)


def test_too_many_tensors_have_no_plan_but_a_bound(monkeypatch):
    monkeypatch.setattr(memory_plan, "MAX_PAIRS", 2)
    graph = make_graph([(["x"], ["a", "b", "y"])], {"x": 1, "a": 1, "b": 1, "y": 1}, outputs=["y"])
    plan = plan_memory(graph)
    assert plan.arena_bytes is None and plan.scratch_bytes is None and plan.placements == ()
    assert plan.lower_bound_bytes == 4


@st.composite
def graphs(draw):
    steps, alive, sizes = [], ["x"], {"x": draw(st.integers(0, 200))}
    for at in range(draw(st.integers(0, 12))):
        taken = draw(st.lists(st.sampled_from(alive), max_size=3))
        made = [f"t{at}_{i}" for i in range(draw(st.integers(0, 3)))]
        sizes.update({name: draw(st.integers(0, 300)) for name in made})
        alive += made
        steps.append((taken, made))
    outputs = draw(st.lists(st.sampled_from(alive), unique=True, max_size=3))
    variables = draw(st.lists(st.sampled_from(alive), unique=True, max_size=2))
    return make_graph(steps, sizes, outputs=outputs, variables=variables)


@settings(max_examples=30, deadline=None)
@given(graphs(), st.sampled_from([1, 4, 16, 64]))
def test_no_two_living_tensors_overlap_and_the_bound_holds(graph, alignment):
    plan = plan_memory(graph, alignment=alignment)
    placed = list(plan.placements)
    assert {each.tensor for each in placed} == set(find_lifetimes(graph)) - find_folded(graph)
    for at, one in enumerate(placed):
        assert one.offset % alignment == 0
        for other in placed[at + 1 :]:
            together = one.first <= other.last and other.first <= one.last
            apart = one.offset + one.size_bytes <= other.offset or other.offset + other.size_bytes <= one.offset
            assert not together or apart or 0 in (one.size_bytes, other.size_bytes)
    assert plan.arena_bytes >= plan.lower_bound_bytes
    assert plan.lower_bound_bytes == max(plan.live_bytes, default=0)
    for step, live in enumerate(plan.live_bytes):
        assert live == sum(each.size_bytes for each in placed if each.first <= step <= each.last)


@settings(max_examples=20, deadline=None)
@given(graphs())
def test_the_estimate_of_the_work_counts_pairs(graph):
    spans = list(find_lifetimes(graph).values())
    pairs = sum(one[0] <= other[1] and other[0] <= one[1] for at, one in enumerate(spans) for other in spans[at + 1 :])
    steps = sum(last - first + 1 for first, last in spans)
    assert memory_plan._count_pairs(spans, max(len(graph.operators), 1)) == max(pairs, steps)


def test_between_dequantize_and_quantize_only_the_quantised_tensors_need_memory():
    # float x → Q → q(16) → DQ → conv → activation → Q → r(8) → DQ → add with the branch → y (float output)
    steps = [
        ("QuantizeLinear", "quantize", ["x"], ["q"]),
        ("DequantizeLinear", "dequantize", ["q"], ["q_float"]),
        ("Conv", "convolution", ["q_float"], ["c"]),
        ("Relu", "activation", ["c"], ["a"]),
        ("QuantizeLinear", "quantize", ["a"], ["r"]),
        ("DequantizeLinear", "dequantize", ["r"], ["r_float"]),
        ("DequantizeLinear", "dequantize", ["q"], ["branch"]),
        ("Add", "elementwise", ["r_float", "branch"], ["y"]),
    ]
    sizes = {"x": 64, "q": 16, "q_float": 64, "c": 32, "a": 32, "r": 8, "r_float": 32, "branch": 64, "y": 32}
    graph = make_graph([(taken, made) for _, _, taken, made in steps], sizes, outputs=["y"])
    operators = tuple(
        replace(each, op=op, kind=kind) for each, (op, kind, _, _) in zip(graph.operators, steps, strict=True)
    )
    plan = plan_memory(replace(graph, operators=operators))
    spans = {each.tensor: (each.first, each.last) for each in plan.placements}
    assert spans == {"x": (0, 0), "q": (0, 7), "r": (2, 7), "y": (7, 7)}
    assert plan.fused_bytes == 64 + 32 + 32 + 32 + 64
    assert plan.live_bytes == (80, 16, 24, 24, 24, 24, 24, 56)
    # Where a float consumer reads c as well, the kernel has to write it.
    kept = (*operators, Operator(index=8, name="op8", op="Op", inputs=("c",), outputs=("z",)))
    tensors = {**graph.tensors, "z": replace(graph.tensors["y"], name="z")}
    plan = plan_memory(replace(graph, operators=kept, tensors=tensors))
    assert {each.tensor for each in plan.placements} == {"x", "q", "c", "r", "y", "z"}


def test_what_follows_from_constants_alone_is_no_activation():
    graph = make_graph(
        [(["w"], ["v"]), (["v"], ["u"]), (["x", "u"], ["y"]), ([], ["random"])],
        {"w": 64, "v": 64, "u": 32, "x": 16, "y": 16, "random": 8},
        outputs=["y"],
        constants=["w"],
    )
    plan = plan_memory(graph)
    assert plan.folded_bytes == 96
    assert {each.tensor for each in plan.placements} == {"x", "y", "random"}


def test_ties_are_broken_the_same_way_every_time():
    graph = make_graph([(["x"], ["b", "a"]), (["a", "b"], ["y"])], {"x": 8, "a": 8, "b": 8, "y": 8}, outputs=["y"])
    assert plan_memory(graph) == plan_memory(graph)


@pytest.mark.parametrize("alignment", [1, 16])
def test_greedy_by_size_equals_the_bound_on_a_chain_of_equal_tensors(alignment):
    steps = [([f"t{i}"], [f"t{i + 1}"]) for i in range(9)]
    graph = make_graph(steps, {f"t{i}": 16 for i in range(10)}, inputs=["t0"], outputs=["t9"])
    plan = plan_memory(graph, alignment=alignment)
    assert plan.arena_bytes == plan.lower_bound_bytes == 32


def test_a_value_that_a_body_takes_from_outside_lives_until_then():
    from graphs import graph, op, tensor

    body = graph([tensor("late", 4), tensor("a", 4)], [op("I", "movement", ["late"], ["a"])], outputs=["a"])
    outer = graph(
        [tensor("x", 4), tensor("late", 4), tensor("b", 4), tensor("y", 4)],
        [
            op("A", "movement", ["x"], ["late"]),
            op("B", "movement", ["x"], ["b"]),
            op("If", "branch", ["b"], ["y"], subgraphs=["body"]),
        ],
        inputs=["x"],
        outputs=["y"],
        subgraphs={"body": body},
    )
    assert find_lifetimes(outer)["late"] == (0, 2)


def test_what_a_body_needs_inside_lives_while_its_operator_runs():
    from graphs import graph, op, tensor

    def nested(**geometry):
        wide = graph(
            [tensor("x", 4), tensor("a", 100), tensor("b", 100), tensor("y", 4)],
            [op("A", "movement", ["x"], ["a"]), op("B", "movement", ["a"], ["b"]), op("C", "movement", ["b"], ["y"])],
            outputs=["y"],
        )
        empty = graph([tensor("x", 4)], [], outputs=["x"])
        return plan_memory(
            graph(
                [tensor("x", 4), tensor("y", 4)],
                [op("If", "branch", ["x"], ["y"], subgraphs=["wide", "empty"], **geometry)],
                inputs=["x"],
                outputs=["y"],
                subgraphs={"wide": wide, "empty": empty},
            )
        )

    assert nested().lower_bound_bytes == 4 * (4 + 4)  # which branch runs is not known
    assert nested(branch="wide").lower_bound_bytes == 4 * (4 + 4 + 200)
    assert [each.tensor for each in nested(branch="wide").placements] == ["inside If", "x", "y"]
    assert nested(branch="empty").lower_bound_bytes == 4 * (4 + 4)
