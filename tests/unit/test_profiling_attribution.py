"""Engine steps find their operators, by names, by tensors and by order."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.profiling import alignment
from edgewise.profiling.alignment import align
from edgewise.profiling.attribution import attribute
from edgewise.runtime.base import EngineNode
from graphs import convnet, graph, op, tensor


def node(name, *, op="Kernel", **more):
    return EngineNode(name=name, op=op, times_ns=(1.0,), **more)


def groups(found):
    return [(group.steps, group.operators) for group in found.groups]


def test_names_of_operators_and_of_the_tensors_they_make():
    nodes = [node("f0", originals=("Conv0", "r0")), node("f1", originals=("c1",)), node("f2", originals=("Add0",))]
    found = attribute(convnet(), nodes, ordered=True)
    # r0 is what Relu0 makes; Reshape0 moves data only and nobody names it: eliminated
    assert groups(found) == [((0,), (0, 1)), ((1,), (2,)), ((2,), (3,))]
    assert found.without_step == (4,)
    assert found.overheads == found.unattributed == ()


def test_tensors_bound_what_a_fused_step_executes():
    nodes = [node("f0", inputs=("x",), outputs=("r0",)), node("f1", inputs=("r0", "r0"), outputs=("a0",))]
    found = attribute(convnet(), nodes, ordered=False)
    assert groups(found) == [((0,), (0, 1)), ((1,), (2, 3))]


def test_a_step_that_only_tells_its_output_executes_what_makes_it():
    found = attribute(convnet(), [node("f0", outputs=("c1",))], ordered=False)
    assert groups(found) == [((0,), (2,))]


def test_order_and_kind_tell_what_names_do_not():
    nodes = [
        node("Convolution 1", kinds=("convolution",)),
        node("Convolution 2", kinds=("convolution",)),
        node("Add", kinds=("elementwise",)),
    ]
    found = attribute(convnet(), nodes, ordered=True)
    # Relu0 has no step of its own: fused into the convolution that makes its input
    assert groups(found) == [((0,), (0, 1)), ((1,), (2,)), ((2,), (3,))]
    assert found.without_step == (4,)


def test_without_order_nothing_is_guessed():
    nodes = [node("Convolution 1", kinds=("convolution",))]
    found = attribute(convnet(), nodes, ordered=False)
    assert groups(found) == [] and found.unattributed == (0,)
    assert found.without_step == (0, 1, 2, 3, 4)


def test_overheads_are_told_apart_and_claim_nothing():
    nodes = [
        node("reorder", role="layout", originals=("Conv0",)),
        node("f0", originals=("Conv0",)),
        node("what", kinds=()),
    ]
    found = attribute(
        graph([tensor("x", 1), tensor("c0", 1)], [op("Conv0", "convolution", ["x"], ["c0"])]), nodes, ordered=True
    )
    assert groups(found) == [((1,), (0,))]
    assert found.overheads == (0,)
    assert found.unattributed == (2,)


def test_steps_that_share_work_are_one_row():
    nodes = [node("part 1", originals=("Conv0",)), node("part 2", originals=("Conv0", "Relu0"))]
    assert groups(attribute(convnet(), nodes, ordered=True))[0] == ((0, 1), (0, 1))


def test_a_shared_reshape_ties_nothing_together():
    nodes = [node("f0", originals=("Conv1", "Reshape0")), node("f1", originals=("Add0", "Reshape0"))]
    found = attribute(convnet(), nodes, ordered=False)
    rows = groups(found)
    assert [row[0] for row in rows] == [(0,), (1,)]
    assert 4 in rows[0][1] and 4 not in rows[1][1]


def test_a_padding_goes_with_the_convolution_behind_it():
    made = graph(
        [tensor("x", 1), tensor("p", 1), tensor("c", 1)],
        [op("Pad0", "movement", ["x"], ["p"], op="PAD"), op("Conv0", "convolution", ["p"], ["c"], reduction=1)],
        inputs=["x"],
        outputs=["c"],
    )
    found = attribute(made, [node("Convolution", kinds=("convolution",))], ordered=True)
    assert groups(found) == [((0,), (0, 1))]


def test_a_conversion_goes_with_the_operator_that_takes_it():
    made = graph(
        [tensor("x", 1), tensor("d", 1), tensor("w", 1, constant=True), tensor("dw", 1), tensor("c", 1)],
        [
            op("DQ0", "dequantize", ["x"], ["d"], per_element=2),
            op("DQ1", "dequantize", ["w"], ["dw"], per_element=2),
            op("Conv0", "convolution", ["d", "dw"], ["c"], reduction=1),
        ],
        inputs=["x"],
        outputs=["c"],
    )
    found = attribute(made, [node("QLinearConv", originals=("Conv0",))], ordered=False)
    assert groups(found) == [((0,), (0, 2))]
    assert found.without_step == (1,)  # works on constants alone: computed beforehand


def test_names_fix_points_between_which_order_decides():
    nodes = [
        node("a", kinds=("convolution",)),
        node("b", originals=("Conv1",)),
        node("c", kinds=("elementwise", "convolution")),
    ]
    assert groups(attribute(convnet(), nodes, ordered=True)) == [((0,), (0, 1)), ((1,), (2,)), ((2,), (3,))]


def kinds(*words):
    return [frozenset(word.split("|")) if word else frozenset() for word in words]


@pytest.mark.parametrize(
    ("steps", "operators", "expected"),
    [
        (kinds("convolution"), ["convolution", "activation"], [0]),
        (kinds("convolution", "activation"), ["convolution", "activation"], [0, 1]),
        (kinds("movement", "convolution"), ["convolution"], [None, 0]),
        (kinds("convolution", "softmax"), ["convolution", "movement", "matrix-multiplication", "softmax"], [0, 3]),
        (kinds("convolution|matrix-multiplication"), ["movement", "matrix-multiplication"], [1]),
        (kinds(""), ["convolution"], [0]),
        (kinds("convolution"), ["softmax"], [None]),
        (kinds("convolution"), [], [None]),
        ([], ["convolution"], []),
        # the first of two equal candidates goes first
        (kinds("convolution", "convolution"), ["convolution", "activation", "convolution", "activation"], [0, 2]),
    ],
)
def test_align(steps, operators, expected):
    assert align(steps, operators) == expected


KINDS = ["convolution", "activation", "movement", "elementwise", "softmax", ""]


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.sets(st.sampled_from(KINDS[:-1]), max_size=2).map(frozenset), max_size=12),
    st.lists(st.sampled_from(KINDS), max_size=12),
)
def test_alignments_keep_the_order_and_fit(steps, operators):
    found = align(steps, operators)
    places = [place for place in found if place is not None]
    assert len(found) == len(steps)
    assert places == sorted(set(places))
    for step, place in zip(steps, found, strict=True):
        if place is not None and step and operators[place]:
            assert operators[place] in step


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(KINDS[:-1]), min_size=1, max_size=15), st.data())
def test_what_an_engine_left_out_is_found_again(operators, data):
    """Steps made from the operators by leaving out only what engines merge are aligned with all of the others."""
    mergeable = {"activation", "movement"}
    kept = [at for at, kind in enumerate(operators) if kind not in mergeable or data.draw(st.booleans())]
    found = align([frozenset({operators[at]}) for at in kept], operators)
    assert None not in found
    firm = [at for at in kept if operators[at] not in mergeable]
    assert set(firm) <= set(found)


def test_huge_alignments_are_refused(monkeypatch):
    monkeypatch.setattr(alignment, "MAX_CELLS", 3)
    assert align(kinds("convolution", "convolution"), ["convolution", "convolution"]) == [None, None]


def test_names_that_operators_and_tensors_share_mean_one_of_both_throughout():
    made = graph(
        [tensor("x", 1), tensor("q", 1), tensor("y", 1)],
        [op("p", "convolution", ["x"], ["q"], reduction=1), op("q", "pooling", ["q"], ["y"], window=1)],
        inputs=["x"],
        outputs=["y"],
    )
    # the engine tells tensors: q is what p makes, y is what the operator q makes
    found = attribute(made, [node("a", originals=("q",)), node("b", originals=("y",))], ordered=False)
    assert groups(found) == [((0,), (0,)), ((1,), (1,))]


def test_a_step_called_after_an_operator_that_does_nothing_executes_the_one_before():
    made = graph(
        [tensor("x", 1), tensor("c", 1), tensor("y", 1)],
        [op("Concat0", "movement", ["x"], ["c"], op="Concat"), op("Dropout0", "movement", ["c"], ["y"], op="Dropout")],
        inputs=["x"],
        outputs=["y"],
    )
    found = attribute(made, [node("a", originals=("Dropout0",))], ordered=False)
    assert groups(found) == [((0,), (0, 1))] and found.without_step == ()
    apart = [node("a", originals=("Concat0",)), node("b", originals=("Dropout0",))]
    assert groups(attribute(made, apart, ordered=False)) == [((0,), (0,)), ((1,), (1,))]


def test_the_reshape_behind_a_product_does_not_compute_the_addition_it_hands_on():
    made = graph(
        [tensor("x", 4, 4), tensor("w", 4, 4, constant=True), tensor("m", 4, 4), tensor("y", 4, 4)],
        [
            op("MatMul0", "matrix-multiplication", ["x", "w"], ["m"], reduction=4),
            op("Add0", "elementwise", ["m"], ["y"], per_element=1),
        ],
        inputs=["x"],
        outputs=["y"],
    )
    told = [
        node("first", kinds=("movement",), originals=("MatMul0",)),
        node("gemm", kinds=("matrix-multiplication",), originals=("MatMul0",)),
        node("last", kinds=("movement",), originals=("Add0",)),
    ]
    assert groups(attribute(made, told, ordered=False)) == [((0, 1, 2), (0, 1))]
    # a reshape of the model itself stays what it is
    told[2] = node("last", kinds=("movement", "elementwise"), originals=("Add0",))
    assert groups(attribute(made, told, ordered=False)) == [((0, 1), (0,)), ((2,), (1,))]
