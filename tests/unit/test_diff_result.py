"""What a difference by layer says: which layer is named and tinted, and its sentences on a page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from edgewise.stats.differences import Sums
from edgewise.verbs.diff.result import NO_TWIN, NOT_ALONE, DiffResult, LayerGap, change_line
from edgewise.verbs.diff.structure import LoneOperator, branches_of
from edgewise.verbs.diff.tensor_worker import NOT_FINITE
from graphs import convnet
from sample_diffs import diffed


def layer(name: str, *, loss: float, own: float | None = None) -> LayerGap:
    """A layer behind which 20 dB are left."""
    return LayerGap(
        name=name, op="Conv", other=name, snr_db=20.0, before_db=20.0 + loss, loss_db=loss, own_loss_db=own, cosine=1.0,
        largest=0.1, zeros=0.0,
    )  # fmt: skip


def result(*layers: LayerGap) -> DiffResult:
    model = {"name": "m.onnx", "engine": "e 1", "format": "onnx", "sha256": "0"}
    return DiffResult(models=(model, model), samples=1, fed="1 sample", layers=layers, outputs={"y": 20.0})


def test_the_error_begins_in_the_layer_that_loses_most_of_those_that_add_some():
    found = result(layer("a", loss=12, own=12), layer("b", loss=30, own=0), layer("c", loss=7), layer("d", loss=5))
    assert found.begins is not None and found.begins.name == "a"
    told = found.describe()
    assert [row[0].tone for row in told.tables[0].rows] == ["bad", "plain", "poor", "plain"]
    assert told.answer[0].startswith("The error of m.onnx begins in a (Conv): 32.0 dB before it, 20.0 dB behind it")
    assert len(told.answer) == 3 and told.answer[2] == "Next: c (−7.0 dB)"


@pytest.mark.parametrize(("own", "words"), [(0.0, "none loses 6 dB by itself, given the right inputs;"), (6.0, "")])
def test_layers_that_only_make_an_error_larger_do_not_stand_out(own, words):
    first, *_ = result(layer("a", loss=30, own=own)).describe().answer
    assert words in first and first.startswith("No layer of" if words else "The error of")


def test_what_a_layer_loses_by_itself_is_told_where_no_layer_stands_out():
    first, *_ = result(layer("a", loss=5, own=0), layer("b", loss=4, own=6.8)).describe().answer
    assert "none makes the error 6 dB larger; by itself b loses 6.8 dB, but the layers before it have lost" in first
    assert first.endswith("the lowest signal to noise is 20.0 dB in a")


def lone(name: str, *, is_added: bool = True) -> LoneOperator:
    return LoneOperator(name=name, op="Conv", title=name, is_added=is_added, before="a", after="b")


def of_many(*layers: LayerGap, lone: Sequence[LoneOperator] = ()) -> DiffResult:
    """Two files of other names, of whose layers 2 are shown."""
    one, two = ({"name": name, "engine": "e 1", "format": "onnx", "sha256": "0"} for name in ("old.onnx", "new.onnx"))
    return replace(result(*layers), models=(one, two), lone=lone, top=2)


SAME = replace(layer("a", loss=0), snr_db=math.inf, before_db=math.inf)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (math.inf, math.inf, "; with these inputs it changes no value"),
        (math.inf, 31.0, "; exact before it, 31.0 dB behind it"),
        (30.0, math.inf, "; 30.0 dB before it, exact behind it"),
        (None, 31.0, ""),
    ],
)
def test_an_added_layer_stands_behind_the_first_line_with_what_it_changes(before, after, words):
    own = replace(layer("d", loss=0), is_added=True, before_db=before, snr_db=after)
    told = of_many(SAME, own, layer("c", loss=30), lone=[lone("d")]).describe()
    assert told.answer[0].startswith("The error of new.onnx begins in c (Conv)")
    assert told.answer[1] == f"d (Conv) was added between a and b{words}"
    assert told.tables[0].title == "The only one of 3 layers that loses, and what was added, in order of execution"
    assert [row[0].text for row in told.tables[0].rows] == ["d (added)", "c"]


def test_an_added_branch_is_one_line_and_the_error_begins_with_it():
    branch = [
        LoneOperator(name="v", op="Conv", title="attn", is_added=True, before="b", after="gate"),
        LoneOperator(name="g", op="Sigmoid", title="gate", is_added=True, before="attn", after="scale"),
        LoneOperator(name="s", op="Mul", title="scale", is_added=True, before="b", after="c"),
    ]
    told = of_many(SAME, layer("c", loss=30), lone=branch).describe()
    assert told.answer[:2] == (
        "The error of new.onnx begins with what was added before c (Conv): 50.0 dB before it, 20.0 dB behind it",
        "attn (Conv), gate (Sigmoid) and scale (Mul) were added between b and c",
    )
    others = [replace(each, title=f"{each.title}2", before="x", after="y") for each in branch]
    assert branches_of([branch[0], *others, *branch[1:]]) == [[others[0]], [others[1]], [others[2]], branch]


def test_layers_without_values_have_no_rows_but_a_note():
    lacking = LayerGap(name="n", op="Add", other="n", why="integers without one scale")
    told = of_many(SAME, layer("c", loss=30), lone=[lone("r", is_added=False), lone("s")])
    assert told.describe().answer[1:3] == ("r (Conv) was removed between a and b", "s (Conv) was added between a and b")
    table = replace(told, layers=(*told.layers, lacking), top=0).describe().tables[0]
    assert [row[0].text for row in table.rows] == ["a", "c"]
    assert table.notes == ("1 not compared: integers without one scale",)


def test_a_layer_with_nan_has_a_row():
    broken = LayerGap(name="n", op="Add", other="n", why=NOT_FINITE)
    assert [row[0].text for row in of_many(SAME, broken).describe().tables[0].rows] == ["a", "n"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "is the same network with the same weights"),
        ({"retyped": {"float32 → int8": 9}}, "is the same network with weights float32 → int8 in 9 of 10 layers"),
        (
            {"retyped": {"float32 → int8": 9}, "reweighted": 1, "structure": ["Conv, weights float32 → int8 (9: a)"]},
            "is the same network with weights float32 → int8 in 9 of 10 layers and other weights in 1 of 10 layers",
        ),
        (
            {"structure": ["only in new.onnx: 3 QuantizeLinear"]},
            "is the same network as far as its weights can be read ",
        ),
        ({"structure": ["only in new.onnx: Conv (1: a)"]}, "is a changed network: other operators or options (see "),
        ({"reweighted": 6}, "has the same structure and other weights in 6 of 10 layers"),
        (
            {"reweighted": 6, "structure": ["Conv, weights with other values (6: a, b, c and 3 others)"]},
            "has the same structure and other weights in 6 of 10 layers",
        ),
        (
            {"reweighted": 6, "structure": ["Conv, weights 3×3 → 5×5 (6: a, b, c and 3 others)"]},
            "is another network: other weights in 6 of 10 layers",
        ),
        (
            {"reweighted": 6, "structure": ["only in new.onnx: Conv (1: a)"]},
            "is another network: other weights in 6 of 10 layers",
        ),
    ],
)
def test_the_first_line_says_whether_it_is_the_same_network(settings, words):
    models = tuple({**model, "sha256": model["name"]} for model in of_many().models)
    told = replace(of_many(SAME), models=models, weighted=10, **settings).describe()
    assert told.answer[0].startswith(f"new.onnx {words}")


def test_the_second_line_says_what_changed_in_size():
    before = {"sha256": "0", "size_bytes": 4096, "macs": 2_000_000, "parameters": 1000, "precision": "float32"}
    after = {"sha256": "1", "size_bytes": 1024, "macs": 2_000_000, "parameters": 1500, "precision": "int8"}
    assert change_line(before, after) == (
        "File 4.00 KiB → 1.00 KiB (−75 %), MACs 2.00 M (unchanged), parameters 1.00 k → 1.50 k (+50 %), "
        "precision float32 → int8"
    )
    assert change_line(before, {**after, "macs": None}).split(", ")[1] == "MACs 2.00 M → n/a"
    assert change_line(before, before) == ""


def test_many_added_layers_are_a_number():
    told = of_many(SAME, lone=[lone("r", is_added=False), *(lone(name) for name in "stu")]).describe()
    assert told.answer[1] == "Of the operators, 3 were added and 1 was removed: see Structure"


def test_layers_that_lose_nothing_are_left_out_of_many():
    table = of_many(SAME, SAME, layer("b", loss=0.04), layer("c", loss=0.05)).describe().tables[0]
    assert table.title == "The only one of 4 layers that loses, in order of execution"
    assert [row[0].text for row in table.rows] == ["c"]
    table = of_many(*(layer(name, loss=loss) for name, loss in (("a", 1), ("b", 2), ("c", 3)))).describe().tables[0]
    assert table.title == "The 2 of 3 layers that lose most, in order of execution"


def test_where_no_layer_loses_the_least_alike_stands_alone():
    table = of_many(SAME, replace(SAME, name="b", snr_db=130.0), SAME).describe().tables[0]
    assert table.title == "None of 3 layers loses; the least alike, in order of execution"
    assert [row[0].text for row in table.rows] == ["b"]


def test_ratios_of_equal_values_are_null_in_json():
    told = LayerGap(name="a", op="Conv", other="b", snr_db=math.inf, before_db=math.inf).to_document()
    assert told["exact"] and told["snr_db"] is None and told["before_db"] is None


def test_zeros_at_the_end_of_a_type_are_not_saturated():
    """Behind a ReLU, the least integer is 0."""
    sums = Sums()
    raw = np.array([-128, -128, 5, 127], dtype=np.int8)
    real = (raw.astype(float) + 128) * 0.5
    sums.add(real, real, raw)
    assert (sums.zeros, sums.saturated) == (2, 1)


def test_the_graph_is_coloured_by_what_each_layer_loses():
    drawn = diffed().describe().graph()
    values = {
        key: dict(zip([pair.name for pair in drawn.pairs], drawn.values[key], strict=False)) for key in drawn.metrics
    }
    assert drawn.first == "loss" and list(drawn.metrics)[:4] == ["loss", "own", "snr", "largest"]
    assert values["loss"] == {"Conv0": 0.0, "Relu0": 0.0, "Conv1": 30.0, "Add0": None, "Reshape0": None}
    assert values["own"]["Conv1"] == 29.0 and values["own"]["Conv0"] is None
    why = {key: [drawn.why[key].get(at, "") for at in range(5)] for key in ("loss", "own", "snr")}
    assert why["snr"] == ["", "the values are the same", "", "integers without one scale", NO_TWIN]
    assert why["own"][0] == NOT_ALONE and why["loss"][3] == "integers without one scale"


@pytest.mark.parametrize(("reweighted", "is_another"), [(10, True), (6, True), (5, False), (0, False)])
def test_a_network_with_other_weights_has_no_error(reweighted, is_another):
    found = replace(of_many(SAME, layer("c", loss=30)), weighted=10, reweighted=reweighted, graph=convnet())
    told = replace(found, typed=["old.onnx", "other/new.onnx"]).describe()
    if not is_another:
        assert told.answer[0].startswith("The error of new.onnx begins in c (Conv): ")
        assert len(told.tables) == 1 and told.graph is not None
        return
    assert told.answer[0] == (
        "The outputs of its layers can't be compared; how good both are: edgewise evaluate old.onnx other/new.onnx "
        "--data DATA"
    )
    assert found.begins is None and told.tables == () and told.graph is None


def test_nan_in_another_network_is_still_named():
    broken = LayerGap(name="n", op="Add", other="n", why=NOT_FINITE)
    told = replace(of_many(SAME, broken), weighted=10, reweighted=10).describe()
    assert told.answer[0] == "Values are NaN or infinite from n (Add) on"


@pytest.mark.parametrize(
    ("snr", "words"), [(127.0, "ov 2 agrees with ort 1 on m.onnx: "), (50.0, "No layer of m.onnx in ov 2 stands out")]
)
def test_one_file_in_two_engines_agrees_or_not(snr, words):
    one, two = ({"name": "m.onnx", "engine": name, "format": "onnx", "sha256": "0"} for name in ("ort 1", "ov 2"))
    told = replace(result(replace(layer("c", loss=0), snr_db=snr)), models=(one, two)).describe()
    assert told.answer[0].startswith(words)
