"""From what an engine tells of its steps to all that they execute."""

import pytest

from edgewise.runtime.onnxruntime_mapping import map_operators
from edgewise.runtime.operator_mapping import Outline, OutlineNode, complete_claims, name_operators


def outline(*rows, constants=()):
    """Rows: ``name op inputs -> outputs``."""
    nodes = []
    for row in rows:
        left, right = row.split("->")
        name, op, *inputs = left.split()
        nodes.append(OutlineNode(name.strip("-"), op, tuple(inputs), tuple(right.split()), signature=op))
    return Outline(tuple(nodes), frozenset(constants))


CHAIN = outline("c Conv x w -> c1", "b Bn c1 s -> b1", "r Relu b1 -> r1", "p Pool r1 -> y", constants=["w", "s"])


def test_what_lies_before_a_tensor_that_is_left_belongs_to_the_step_that_makes_it():
    assert complete_claims(CHAIN, [{2}, {3}], visible={2, 3}) == [(0, 1, 2), (3,)]


def test_what_follows_a_hidden_tensor_belongs_to_the_step_that_made_it():
    assert complete_claims(CHAIN, [{0}, {3}], visible={3}) == [(0, 1, 2), (3,)]


def test_nothing_follows_a_tensor_that_is_left():
    assert complete_claims(CHAIN, [{0}, {3}], visible={0, 3}) == [(0,), (1, 2, 3)]


def test_a_sum_belongs_to_the_later_of_the_steps_that_feed_it():
    graph = outline("a Conv x -> a1", "b Conv a1 -> b1", "s Add b1 a1 -> s1", "p Pool s1 -> y")
    assert complete_claims(graph, [{0}, {1}, {3}], visible={3}) == [(0,), (1, 2), (3,)]


def test_constants_copies_and_operators_that_pass_on_belong_to_nobody():
    graph = outline(
        "k Constant -> k1",
        "f Mul k1 w -> f1",
        "a Conv x f1 -> a1",
        "b Conv x f1 -> b1",
        "d Dropout b1 -> d1",
        "s Add a1 d1 -> y",
        constants=["w"],
    )
    assert complete_claims(graph, [{2}, {5}], visible={2, 5}) == [(2,), (5,)]


def test_a_conversion_that_several_steps_repeat_is_listed_with_the_first():
    graph = outline("q Q x -> q1", "d DequantizeLinear q1 -> d1", "a Conv d1 -> a1", "b Pool d1 -> b1")
    assert complete_claims(graph, [{0}, {2}, {3}], visible={0, 2, 3}) == [(0,), (1, 2), (3,)]


def test_a_change_of_order_between_steps_that_share_a_hidden_tensor_is_gone():
    graph = outline("c Conv x -> c1", "t Transpose c1 -> t1", "s Sigmoid t1 -> s1", "u Transpose s1 -> y")
    assert complete_claims(graph, [{0}, {2}], visible=set()) == [(0,), (2,)]
    # Between tensors that are left it was done by who takes the one and makes the other.
    assert complete_claims(graph, [{0}, {2}], visible={0, 2}) == [(0,), (1, 2)]


def test_an_operator_that_nothing_tells_of_belongs_to_nobody():
    assert complete_claims(CHAIN, [set(), set()], visible=set()) == [(), ()]


def test_a_graph_in_the_wrong_order_does_no_harm():
    backwards = Outline(tuple(reversed(CHAIN.nodes)), CHAIN.constants)
    assert complete_claims(backwards, [{1}, {0}], visible={0, 1})[1] == (0,)


def test_names_are_those_of_one_operator_alone():
    graph = outline("a Conv x -> c1", "-- Relu c1 -> r1", "a Conv r1 -> c2", "b Pool c2 -> y")
    assert name_operators(graph) == ("c1", "r1", "c2", "b")


MODEL = outline("conv Conv x w -> c1", "relu Relu c1 -> r1", "pool Pool r1 -> p1", "cast Cast p1 -> y", constants=["w"])


@pytest.mark.parametrize(
    ("rows", "originals", "roles"),
    [
        # layouts: operators called after the tensor they made, and reorders
        (
            [
                "-- ReorderInput x -> t0",
                "c1_nchwc Conv t0 w -> t1",
                "r1_nchwc_token_3 Pool t1 -> t2",
                "ReorderOutput ReorderOutput t2 -> p1",
                "cast Cast p1 -> y",
            ],
            [(), ("conv", "relu"), ("pool",), (), ("cast",)],
            ["layout", "operator", "operator", "layout", "operator"],
        ),
        # a conversion that the model does not have, and one that it has
        (
            [
                "conv/fused FusedConv x w -> r1",
                "Inserted Cast r1 -> h",
                "pool Pool h -> g",
                "InsertedToo Cast g -> p1",
                "cast Cast p1 -> y",
            ],
            [("conv", "relu"), (), ("pool",), (), ("cast",)],
            ["operator", "precision", "operator", "precision", "operator"],
        ),
        # an operator that was unfolded into several, the first of them with names of the engine's own
        (
            ["u1 Im2Col x -> u", "u2 Gemm u w -> c1", "relu Relu c1 -> r1", "pool Pool r1 -> p1", "cast Cast p1 -> y"],
            [("conv",), ("conv",), ("relu",), ("pool",), ("cast",)],
            ["operator"] * 5,
        ),
    ],
)
def test_operators_of_the_engines_graph(rows, originals, roles):
    found = map_operators(MODEL, outline(*rows, constants=["w"]))
    assert [each.originals for each in found] == originals
    assert [each.role for each in found] == roles


def test_copies_between_memories_are_told_apart():
    found = map_operators(MODEL, outline("m MemcpyFromHost x -> m1", "conv Conv m1 w -> c1"))
    assert [(each.role, each.originals) for each in found] == [("copy", ()), ("operator", ("conv",))]


def test_tensors_and_places_of_the_model():
    found = map_operators(
        MODEL, outline("r1_nchwc Conv x w -> t", "ReorderOutput ReorderOutput t -> r1", "pool Pool r1 -> p1")
    )
    assert [(each.inputs, each.outputs, each.place) for each in found] == [
        (("x", "w"), ("r1",), 0),
        (("r1",), ("r1",), None),
        (("r1",), ("p1",), 2),
    ]


def test_twins_of_what_is_kept_are_left_out_with_what_leads_to_them_alone():
    # x → c0 → b0 and x → c1 → b1 do the same; the engine keeps the second pair, known by b1 alone
    nodes = (
        OutlineNode(name="c0", op="Conv", inputs=("x", "w0"), outputs=("p0",), signature="s"),
        OutlineNode(name="b0", op="BatchNormalization", inputs=("p0",), outputs=("q0",), signature="t"),
        OutlineNode(name="c1", op="Conv", inputs=("x", "w1"), outputs=("p1",), signature="s"),
        OutlineNode(name="b1", op="BatchNormalization", inputs=("p1",), outputs=("q1",), signature="t"),
        OutlineNode(name="cat", op="Concat", inputs=("q0", "q1"), outputs=("y",), signature="u"),
    )
    outline = Outline(nodes, frozenset({"w0", "w1"}), {"w0": "equal", "w1": "equal"})
    assert complete_claims(outline, [{3}, {4}], visible={3, 4}) == [(2, 3), (4,)]


GELU = (
    "conv Conv x w -> c",
    "bias Add c b -> a",
    "div Div a two -> d",
    "erf Erf d -> e",
    "one Add e one -> o",
    "half Mul a half -> h",
    "mul Mul h o -> g",
    "same Identity g -> i",
    "next Conv i w -> n",
    "sum Add n b -> y",
)
"""A convolution, GELU as exporters write it, and a convolution."""
CONSTANTS = ["w", "b", "two", "one", "half"]


@pytest.mark.parametrize("last", ["ReorderOutput ReorderOutput t3 -> y", "ReorderOutput ReorderOutput t3 -> t4"])
def test_a_chain_that_became_one_step_between_convolutions_is_that_step(last):
    # All tensors between have names of the engine's own; convolutions are called after what they made with their bias.
    rows = ["a_nchwc Conv x w b -> t1", "Gelu Gelu t1 -> t2", "y_nchwc Conv t2 w b -> t3", last]
    found = map_operators(outline(*GELU, constants=CONSTANTS), outline(*rows, constants=CONSTANTS))
    assert [each.originals for each in found] == [
        ("conv", "bias"),
        ("div", "erf", "one", "half", "mul"),
        ("next", "sum"),
        (),
    ]


def test_a_chain_whose_output_kept_its_name_is_not_the_convolution_before_it():
    rows = ["a_nchwc Conv x w b -> t1", "Gelu Gelu t1 -> t2", "R ReorderOutput t2 -> g", "n Conv g w b -> y"]
    found = map_operators(outline(*GELU, constants=CONSTANTS), outline(*rows, constants=CONSTANTS))
    assert [each.originals for each in found] == [
        ("conv", "bias"),
        ("div", "erf", "one", "half", "mul"),
        (),
        ("next", "sum"),
    ]


def test_an_activation_that_nothing_is_known_of_is_no_part_of_the_convolution_behind_it():
    # Without an Erf in the model it is not known which operators became the Gelu.
    rows = ["c_nchwc Conv x w -> t1", "Gelu Gelu t1 -> t2", "y_nchwc Conv t2 w -> t3"]
    model = outline("conv Conv x w -> c", "odd Odd c -> o", "next Conv o w -> y", constants=["w"])
    found = map_operators(model, outline(*rows, constants=["w"]))
    assert [each.originals for each in found] == [("conv",), ("odd",), ("next",)]


def test_operators_without_names_between_convolutions_are_steps_of_their_own():
    model = outline("conv Conv x w -> c", "- Sigmoid c -> s", "- Mul c s -> m", "next Conv m w -> y", constants=["w"])
    rows = ["c_nchwc Conv x w -> t1", "- Sigmoid t1 -> t2", "- Mul t1 t2 -> t3", "y_nchwc Conv t3 w -> t4"]
    found = map_operators(model, outline(*rows, constants=["w"]))
    assert [each.originals for each in found] == [("conv",), ("s",), ("m",), ("next",)]


def test_of_two_convolutions_that_may_be_the_step_none_is_guessed():
    model = outline("p Conv x w -> p1", "q Conv x v -> q1", "s Add p1 q1 -> y", constants=["w", "v"])
    rows = ["y_nchwc Conv x w q1 -> t", "ReorderOutput ReorderOutput t -> y"]
    (step, _) = map_operators(model, outline(*rows, constants=["w", "v"]))
    assert step.originals == ("p", "q", "s")
