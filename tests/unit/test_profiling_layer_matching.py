"""Which layers do the same work in a float model and its quantised twin, and why the twin is slower."""

from __future__ import annotations

import re
import sys
from dataclasses import replace

import pytest

from edgewise.profiling.layer_matching import are_alike, pair_layers
from edgewise.profiling.quantisation import find_held_back, find_wrapping
from edgewise.profiling.slowdown import explain_slowdown
from edgewise.record import LayerTensor, Trust
from edgewise.report.document.markdown import render_markdown
from edgewise.report.document.text import to_text
from edgewise.report.profile.diff import diff_table
from edgewise.report.profile.document import profile_document
from messages import has, says, wording
from report_pages import render_profile_html
from sample_profiles import layer_of, sample_profile
from sample_runs import make_run

MACS = 1_000_000
NAMES = ("float.onnx", "int8.onnx")


def row(name, op, micros, reads, makes, *, dtype="float32", nodes=(), **more):
    """A layer that reads and makes tensors, given as names with their type behind a colon."""

    def tensors(words):
        parts = [word.partition(":") for word in words]
        return tuple(LayerTensor(name=each, shape=(1, 8), dtype=kind or "float32") for each, _, kind in parts)

    values = {"macs": 0, "inputs": tensors(reads), "outputs": tensors(makes), "dtype": dtype, "engine_op": op, **more}
    return layer_of(0, name, op, micros, nodes=nodes or (name,), **values)


def run_of(*layers, latency=None, half=1e-6, outside=0.0, number=1):
    """A run with these layers, µs; `outside` pass outside them."""
    total = sum(layer.time or 0.0 for layer in layers) + outside * 1e-6
    latency = total if latency is None else latency * 1e-6
    if outside:
        layers = (*layers, layer_of(0, "call", "the call of the engine", outside, kind="overhead", nodes=()))
    layers = tuple(replace(layer, index=index) for index, layer in enumerate(layers))
    profile = replace(sample_profile(), latency=latency, overheads_time=outside * 1e-6, findings=())
    return replace(make_run(number, latency=latency, half=half), layers=layers, profile=profile)


def product(name, op, micros, reads, makes, **more):
    return row(name, op, micros, reads, makes, **{"macs": MACS, "parameters": 1000, "weight_bytes": 4000, **more})


def float_net(first=100, second=80):
    """Conv with its Relu in one step, then a Conv alone."""
    return run_of(
        product("conv0", "Conv", first, ["x"], ["r0"], nodes=("conv0", "relu0")),
        product("conv1", "Conv", second, ["r0"], ["y"], macs=2 * MACS),
        number=1,
    )


def chain(at, reads, makes, *, micros, around, macs=MACS):
    """What a dynamically quantised Conv becomes."""
    step = around / 5
    return (
        row(f"{reads}_Quantize", "DynamicQuantizeLinear", step, [reads], [f"{reads}_q:uint8", f"{reads}_s"]),
        product(
            f"conv{at}_quant", "ConvInteger", micros, [f"{reads}_q:uint8"], [f"i{at}:int32"], dtype="uint8", macs=macs,
            weight_bytes=1000,
        ),
        row(f"cast{at}", "Cast", step, [f"i{at}:int32"], [f"f{at}"]),
        replace(
            row(f"scales{at}", "Mul", step, [f"{reads}_s"], [f"ss{at}"]),
            outputs=(LayerTensor(name=f"ss{at}", shape=(1,), dtype="float32"),),
        ),
        row(f"mul{at}", "Mul", step, [f"f{at}", f"ss{at}"], [f"m{at}"]),
        row(f"bias{at}", "Add", step, [f"m{at}"], [makes]),
    )  # fmt: skip


def dynamic_net(kernel=1.2, around=20.0):
    """`float_net` as ONNX Runtime's `quantize_dynamic` writes it."""
    return run_of(
        *chain(0, "x", "c0", micros=100 * kernel, around=around),
        row("relu0", "Relu", 5, ["c0"], ["r0"]),
        *chain(1, "r0", "y", micros=80 * kernel, around=around, macs=2 * MACS),
        number=2,
    )


def verdicts(before, after):
    return {row[0].text: row[6].text for row in diff_table([before, after]).rows}


def test_a_dynamic_chain_is_one_row_with_the_operator_whose_work_it_does():
    pairs = pair_layers(float_net(), dynamic_net())
    assert [(len(pair.before), len(pair.after)) for pair in pairs] == [(1, 7), (1, 6)] or [
        (len(pair.before), len(pair.after)) for pair in pairs
    ] == [(1, 6), (1, 7)]
    assert all(pair.is_alike for pair in pairs)
    change = {pair.before[0].name: pair.change for pair in pairs}
    assert change["conv0"] == pytest.approx((120 + 20 + 5 - 100) * 1e-6)
    assert change["conv1"] == pytest.approx((96 + 20 - 80) * 1e-6)
    assert "faster" not in verdicts(float_net(), dynamic_net()).values()


def test_one_conversion_for_several_products_joins_them():
    before = run_of(*(product(f"mm{at}", "MatMul", 10, ["x"], [f"y{at}"]) for at in range(3)))
    after = run_of(
        row("x_Quantize", "DynamicQuantizeLinear", 6, ["x"], ["x_q:uint8"]),
        *(product(f"mm{at}_quant", "MatMulInteger", 5, ["x_q:uint8"], [f"y{at}"], dtype="uint8") for at in range(3)),
    )
    (pair,) = pair_layers(before, after)
    assert pair.times == (pytest.approx(30e-6), pytest.approx(21e-6))


def test_files_without_common_names_are_paired_by_their_multiplications_in_order():
    before = run_of(
        *(product(f"a{at}", "CONV_2D", 10, [f"t{at}"], [f"t{at + 1}"], macs=MACS * (at + 1)) for at in (0, 1, 2))
    )
    after = run_of(
        *(product(f"b{at}", "CONV_2D", 4, [f"u{at}"], [f"u{at + 1}"], macs=MACS * (at + 1)) for at in (0, 1, 2))
    )
    assert [(pair.before[0].name, pair.after[0].name) for pair in pair_layers(before, after)] == [
        ("a0", "b0"), ("a1", "b1"), ("a2", "b2"),
    ]  # fmt: skip
    other = run_of(
        *(product(f"b{at}", "CONV_2D", 4, [f"u{at}"], [f"u{at + 1}"], macs=MACS * (3 - at)) for at in (0, 1, 2))
    )
    assert not are_alike(before, other)


def test_what_can_be_told_by_its_multiplications_is_paired_beside_what_can_not():
    before = run_of(
        *(product(f"a{at}", "Conv", 10, [f"t{at}"], [f"t{at + 1}"], macs=(at + 1) * MACS) for at in (0, 1, 2))
    )
    after = run_of(*(product(f"b{at}", "Conv", 4, [f"u{at}"], [f"u{at + 1}"], macs=(at + 1) * MACS) for at in (0, 1)))
    assert [(len(pair.before), len(pair.after)) for pair in pair_layers(before, after)] == [(1, 0), (1, 1), (1, 1)]


def test_no_verdict_where_multiplications_are_not_known():
    before = run_of(product("mm", "MatMul", 10, ["x"], ["y"]))
    after = run_of(product("mm_quant", "QLinearMatMul", 2, ["x:uint8"], ["y"], macs=None))
    assert verdicts(before, after)["mm"] == "unclear"


def test_no_claim_is_made_for_work_that_moved():
    before = float_net()
    # The first product's multiplications are in a row whose operators are not known.
    after = run_of(
        row("relu0", "Relu", 5, ["c0"], ["r0"]),
        product("conv1", "Conv", 80, ["r0"], ["y"], macs=2 * MACS),
        product("mystery", "Conv", 90, ["q"], ["p"], macs=MACS // 2),
        product("riddle", "Conv", 9, ["p"], ["o"], macs=MACS // 2),
    )
    told = verdicts(before, after)
    assert told["conv0"] == "moved"
    assert told["mystery"] == told["riddle"] == "unpaired"
    table = diff_table([before, after])
    total = next(row for row in table.rows if row[0].text == "all 2 unpaired operators")
    assert (total[2].value, total[3].value) == (0, pytest.approx(99))


def test_a_product_that_no_step_stands_for_has_no_time():
    gone = replace(
        product("conv0", "Conv", 0, ["x"], ["r0"]), kind="unmatched", time=None, low=None, high=None, share=None
    )
    (pair,) = pair_layers(run_of(product("conv0", "Conv", 10, ["x"], ["r0"])), run_of(gone, latency=10))
    assert pair.change is None


def test_scaling_ends_where_two_branches_meet():
    layers = [
        *chain(0, "x", "c0", micros=10, around=5),
        row("other", "Relu", 5, ["x"], ["o"]),
        row("sum", "Add", 5, ["c0", "o"], ["y"]),
    ]
    found = find_wrapping(layers)
    assert {layers[at].name for at in found} == {"x_Quantize", "cast0", "scales0", "mul0", "bias0"}


def test_why_a_dynamic_model_is_slower():
    sentence = explain_slowdown(float_net(), dynamic_net(), labels=NAMES)
    assert sentence == (
        "int8.onnx is 1.45\u00d7 slower than float.onnx because ConvInteger and the steps that quantise, scale and convert "
        "around it (Mul, DynamicQuantizeLinear, Cast and Add) take 256 \u00b5s where Conv took 180 \u00b5s; dynamic int8 "
        "convolutions are slower here: use static QDQ (`edgewise optimize float.onnx --data \u2026`)"
    )
    # in any order of the files
    assert explain_slowdown(dynamic_net(), float_net(), labels=NAMES[::-1]) == sentence


def test_grade_d_gives_no_verdict():
    before, after = float_net(), replace(dynamic_net(), trust=Trust(grade="D", reasons=("a wide interval",)))
    unsure = "whether int8.onnx is slower than float.onnx is not known: the latency of one of them has grade D"
    assert explain_slowdown(before, after, labels=NAMES) == unsure
    assert explain_slowdown(after, before, labels=NAMES[::-1]) == unsure
    assert "slower" in verdicts(before, dynamic_net()).values()
    assert set(verdicts(before, after).values()) == {"unclear", "not proven"}


def test_nothing_is_said_of_a_quantised_model_that_is_not_slower(monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)  # drawing charts takes seconds
    assert explain_slowdown(float_net(), dynamic_net(kernel=0.3, around=5.0), labels=NAMES) is None
    near = dynamic_net(kernel=0.8, around=20.0)
    unsure = replace(near, measurements=make_run(3, latency=190e-6, half=20e-6).measurements)
    assert explain_slowdown(float_net(), unsure, labels=NAMES) is None
    assert explain_slowdown(float_net(), float_net(first=200), labels=NAMES) is None
    assert "slower than" not in to_text(profile_document([float_net(), dynamic_net(kernel=0.3, around=5.0)]))
    assert re.search(says("slower-than"), to_text(profile_document([float_net(), dynamic_net()])))
    assert re.search(says("slower-than"), render_markdown(profile_document([float_net(), dynamic_net()])))
    assert re.search(says("slower-than"), render_profile_html([float_net(), dynamic_net()]))


def quantised(name, micros, reads, makes, **more):
    """A product of integers with its requantisation inside."""
    return product(
        name, "Conv", micros, [f"{reads}:uint8"], [f"{makes}:uint8"], dtype="uint8", weight_bytes=1000, **more
    )


def test_why_a_static_model_is_slower_whose_operators_stay_in_floating_point():
    after = run_of(
        *(
            layer
            for at, (reads, makes) in enumerate((("x", "r0"), ("r0", "y")))
            for layer in (
                row(f"dq{at}", "DequantizeLinear", 30, [f"{reads}_q:uint8"], [reads]),
                product(f"conv{at}", "Conv", 100, [reads], [makes], macs=(1 + at) * MACS, weight_bytes=1000),
                row(f"q{at}", "QuantizeLinear", 30, [makes], [f"{makes}_q:uint8"]),
            )
        ),
        number=2,
    )
    sentence = explain_slowdown(float_net(), after, labels=NAMES)
    assert "Conv in the quantised model and the steps that quantise, scale and convert around it" in sentence
    assert re.search(says("engine-still-computes-them-floating"), sentence)
    found = find_held_back(after.layers, after.profile, instructions=None)
    assert wording("latency-quantised-model-goes-products", share="0 s (0%)") in found.message
    assert re.search(
        says("convolutions-matrix-products-which-engine", floats_count=has("200 µs (62%) to 2"), products_count=2),
        found.message,
    )
    assert "120 \u00b5s (38%) to 4 steps" in found.message


def test_why_a_tiny_model_is_slower_whose_time_passes_outside_its_operators():
    before = run_of(product("conv0", "Conv", 3, ["x"], ["y"]), outside=4, half=1e-7)
    after = run_of(quantised("conv0", 2, "x", "y"), outside=12, half=1e-7)
    sentence = explain_slowdown(before, after, labels=NAMES)
    assert sentence.endswith("because 8.00 µs more are outside its operators")
    found = find_held_back(after.layers, after.profile, instructions={"avx512_vnni"})
    assert re.search(says("passes-outside-operators", share=has("12.0 µs (86%)")), found.message)


def test_a_reason_that_the_profiles_do_not_show_is_not_made_up():
    after = replace(dynamic_net(), profile=replace(dynamic_net().profile, latency=100e-6))
    assert explain_slowdown(float_net(), after, labels=NAMES).endswith(wording("profiles-do-not-show-which"))


def test_an_int8_model_in_int8_products_has_nothing_to_say():
    run = run_of(quantised("conv0", 90, "x", "y"), outside=10)
    assert find_held_back(run.layers, run.profile, instructions={"avx512_vnni"}) is None
    assert find_held_back(run.layers, run.profile, instructions=None) is None
    lacking = find_held_back(run.layers, run.profile, instructions={"avx2"})
    assert wording("processor-lists-no-instructions-int8") in lacking.message
    assert find_held_back(float_net().layers, float_net().profile, instructions={"avx2"}) is None


def test_a_layer_that_an_engine_quantises_is_no_quantised_model():
    run = run_of(
        product("conv0", "CONV_2D", 90, ["x"], ["r"], macs=100 * MACS),
        product("fc", "FULLY_CONNECTED", 1, ["r"], ["y"], dtype="int8", weight_bytes=1000),
    )
    assert find_held_back(run.layers, run.profile, instructions=None) is None


def test_convolutions_quantised_while_running_are_told_of():
    run = dynamic_net()
    found = find_held_back(run.layers, run.profile, instructions={"avx512_vnni"})
    assert re.search(says("steps-quantise-scale-convert", around_count=has("40.0 µs (15%) to 10")), found.message)
    assert found.suggestion.startswith("static QDQ (`edgewise optimize FLOAT --data")
