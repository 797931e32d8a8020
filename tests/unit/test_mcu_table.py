"""Loop counts of the kernels, and costs from the table, without a compiler or an emulator."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import edgewise
from edgewise.cli.main import run as edgewise_command
from edgewise.errors import Unavailable
from edgewise.estimating.mcu import cortex_m, table
from edgewise.estimating.mcu.arena import plan_arena
from edgewise.estimating.mcu.calls import FAMILIES, UnknownKernel
from edgewise.estimating.mcu.cores import CORES as CORES_OF_QEMU
from edgewise.estimating.mcu.emit import CanNotLower
from edgewise.estimating.mcu.loops import kernel_loops, scratch_bytes
from edgewise.estimating.mcu.lowering import LOWERINGS, Lowered, lower
from edgewise.estimating.mcu.network import read_network
from edgewise.estimating.mcu.prediction import prediction_conditions
from edgewise.estimating.mcu.table import load_table
from edgewise.estimating.mcu.toolchain import INSTALL
from edgewise.registry import Availability
from mcu_graphs import Net, write_chains
from messages import says, wording

# Those of test_estimate_generated.py, whose chains can all be lowered.
CODES = {*LOWERINGS} - {
    "DEQUANTIZE", "EXPAND_DIMS", "SPLIT_V", "SQUEEZE", "ASSIGN_VARIABLE", "CALL_ONCE", "VAR_HANDLE",
}  # fmt: skip
CORES = tuple(FAMILIES)  # those that code is compiled for


def layer(tmp_path, code, *, shape, out, kernel=(1, 1), stride=1, dilation=1, padding="SAME", multiple=1):
    """A file with one operator."""
    net, random = Net(), np.random.default_rng(1)
    value = net.tensor(shape, 0.05, 3, name="x")
    net.inputs.append(value)
    weights = {"CONV_2D": [out[-1], *kernel, shape[-1]], "DEPTHWISE_CONV_2D": [1, *kernel, out[-1]]}.get(
        code, [out[-1], shape[-1]]
    )
    strides = {"stride_h": stride, "stride_w": stride, "padding": int(padding == "VALID")}
    dilations = {"dilation_h_factor": dilation, "dilation_w_factor": dilation}
    options = {
        "CONV_2D": {"Conv2D": {**strides, **dilations}},
        "DEPTHWISE_CONV_2D": {"DepthwiseConv2D": {**strides, **dilations, "depth_multiplier": multiple}},
        "FULLY_CONNECTED": {"FullyConnected": {}},
        "MAX_POOL_2D": {"Pool2D": {**strides, "filter_height": kernel[0], "filter_width": kernel[1]}},
        "LOGISTIC": {},
    }[code]
    inputs = [value]
    if code not in ("MAX_POOL_2D", "LOGISTIC"):
        data = random.integers(-127, 128, weights).astype(np.int8)
        inputs.append(net.tensor(weights, 0.01, data=data))
    made = net.tensor(out, *((1 / 256, -128) if code == "LOGISTIC" else (0.05, 3)), name="y")
    net.step(code, inputs, [made], **options)
    net.outputs.append(made)
    return net.finish(tmp_path / f"{code}-{'-'.join(map(str, (*shape, *out, *kernel)))}.tflite")


def lowered_of(path):
    network = read_network(path)
    return lower(network, plan_arena(network)[1])


def loops_of(path, family):
    lowered = lowered_of(path)
    return kernel_loops(lowered.calls[0], lowered.constants, family)


def test_a_convolution_with_padding_counts_what_its_loops_do(tmp_path):
    path = layer(tmp_path, "CONV_2D", shape=[1, 3, 3, 5], out=[1, 3, 3, 3], kernel=(3, 3))
    (counts,) = loops_of(path, "dsp").values()
    copies = (2 + 3 + 2) ** 2  # taps inside the input, along a side: 2, 3 and 2 of 3
    assert (counts["pixels"], counts["copies"], counts["fills"]) == (9, copies, 81 - copies)
    assert (counts["copies, by 4"], counts["copies, by 1"]) == (copies, copies)
    # 9 pixels are 4 pairs and one more; 3 channels are one pair and one more; 45 weights are 11 fours and one more.
    assert counts["two columns by two channels, by 4"] == 4 * 11 and counts["two columns by two channels, by 1"] == 4
    assert counts["two columns by channel, by 4"] == 4 * 11 and counts["column by channel, by 4"] == 3 * 11


@pytest.mark.parametrize(
    ("options", "scalar", "dsp", "helium"),
    [
        ({"kernel": (1, 1)}, *["arm_convolve_1x1_s8_fast"] * 3),
        ({"kernel": (1, 1), "stride": 2}, *["arm_convolve_1x1_s8"] * 3),
        ({"kernel": (3, 3)}, *["arm_convolve_s8"] * 3),
        ({"kernel": (3, 3), "dilation": 2}, *["arm_convolve_s8"] * 3),
        ({"kernel": (1, 3), "rows": 1}, "arm_convolve_s8", "arm_convolve_s8", "arm_convolve_1_x_n_s8"),
        (
            {"code": "DEPTHWISE_CONV_2D", "kernel": (3, 3)},
            "arm_depthwise_conv_3x3_s8", "arm_depthwise_conv_3x3_s8", "arm_depthwise_conv_s8_opt",
        ),
        (
            {"code": "DEPTHWISE_CONV_2D", "kernel": (5, 5)},
            "depthwise_conv_s8_generic", "arm_depthwise_conv_s8_opt", "arm_depthwise_conv_s8_opt",
        ),
        ({"code": "DEPTHWISE_CONV_2D", "kernel": (3, 3), "multiple": 4}, *["depthwise_conv_s8_mult_4"] * 3),
        ({"code": "DEPTHWISE_CONV_2D", "kernel": (3, 3), "multiple": 2}, *["depthwise_conv_s8_generic"] * 3),
        ({"code": "DEPTHWISE_CONV_2D", "kernel": (3, 3), "dilation": 2}, *["depthwise_conv_s8_generic"] * 3),
    ],
)  # fmt: skip
def test_the_kernel_is_the_one_that_cmsis_nn_picks(tmp_path, options, scalar, dsp, helium):
    options = {"code": "CONV_2D", "rows": 8, **options}
    rows, code = options.pop("rows"), options.pop("code")
    stride, channels = options.get("stride", 1), 4 * options.get("multiple", 1)
    path = layer(
        tmp_path, code, shape=[1, rows, 8, 4], out=[1, -(-rows // stride), 8 // stride, channels], **options
    )  # fmt: skip
    assert [*loops_of(path, "scalar"), *loops_of(path, "dsp"), *loops_of(path, "helium")] == [scalar, dsp, helium]


@pytest.mark.parametrize("core", CORES)
def test_the_table_has_costs_of_every_operator_that_can_be_lowered(tmp_path, core):
    codes = sorted(CODES)
    chains = [(seed, [codes[(seed + step) % len(codes)] for step in (0, 7, 20)]) for seed in range(2 * len(codes))]
    path = write_chains(tmp_path / "chains.tflite", chains)
    lowered, operators = lowered_of(path), read_network(path).operators
    predicted = load_table().predict(lowered, core)
    assert {*CODES, "DEQUANTIZE"} - {operator.code for operator in operators} <= {"PACK"}
    for operator, call, each in zip(operators, lowered.calls, predicted, strict=True):
        idle = not call or operator.code == "CALL_ONCE"
        assert (each.costs.instructions == 0) is idle, operator.code
        assert 0 <= each.error < 1


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize(
    ("code", "shapes"),
    [
        ("CONV_2D", [{"shape": [1, n, n, 8], "out": [1, n, n, 8], "kernel": (3, 3)} for n in (2, 4, 8, 16)]),
        ("CONV_2D", [{"shape": [1, 6, 6, c], "out": [1, 6, 6, 8], "kernel": (3, 3)} for c in (4, 8, 16, 32, 64)]),
        ("CONV_2D", [{"shape": [1, 6, 6, 16], "out": [1, 6, 6, c]} for c in (4, 8, 16, 32, 64)]),
        ("DEPTHWISE_CONV_2D", [{"shape": [1, 8, 8, c], "out": [1, 8, 8, c], "kernel": (3, 3)} for c in (4, 16, 64)]),
        ("DEPTHWISE_CONV_2D", [{"shape": [1, 9, 9, 8], "out": [1, 9, 9, 8], "kernel": (k, k)} for k in (2, 4, 5, 7)]),
        ("FULLY_CONNECTED", [{"shape": [1, n], "out": [1, 12]} for n in (16, 32, 64, 512)]),
        ("FULLY_CONNECTED", [{"shape": [1, 64], "out": [1, n]} for n in (6, 12, 24, 120)]),
        ("MAX_POOL_2D", [{"shape": [1, 8, 8, 16], "out": [1, 8, 8, 16], "kernel": (k, k)} for k in (1, 2, 3, 5)]),
        ("LOGISTIC", [{"shape": [1, n], "out": [1, n]} for n in (16, 32, 1024)]),
    ],
)
def test_more_work_costs_more_instructions(tmp_path, core, code, shapes):
    costs = [
        load_table().predict(lowered_of(layer(tmp_path, code, **each)), core)[0].costs.instructions for each in shapes
    ]
    assert costs == sorted(set(costs))


def test_a_layer_far_beyond_the_sweep_is_named(tmp_path):
    for elements, beyond in ((50, False), (2_000_000, True)):
        path = layer(tmp_path, "LOGISTIC", shape=[1, elements], out=[1, elements])
        (predicted,) = load_table().predict(lowered_of(path), "cortex-m4")
        assert predicted.beyond == (("ew_lookup_s8",) if beyond else ())
        conditions = prediction_conditions(read_network(path), [predicted], load_table())
        assert ("far larger than those of the table" in str(conditions)) is beyond


def test_a_kernel_without_costs_is_refused():
    with pytest.raises(UnknownKernel, match="ew_new_s8"):
        kernel_loops("ew_new_s8((ew_arena + 0), 4);", b"", "dsp")
    lowered = Lowered(calls=["ew_new_s8((ew_arena + 0), 4);"], kernels=["C"])
    with pytest.raises(CanNotLower, match=says("table-operator-costs-no-kernel", error="ew_new_s8")):
        load_table().predict(lowered, "cortex-m4")
    with pytest.raises(CanNotLower, match="no cortex-m1"):
        load_table().predict(lowered, "cortex-m1")


def test_a_core_with_the_code_of_another_one_has_its_costs(tmp_path):
    path = layer(tmp_path, "CONV_2D", shape=[1, 8, 8, 8], out=[1, 8, 8, 8], kernel=(3, 3))
    one, other = (edgewise.estimate(path, core, settings={"counts": "table"}) for core in ("cortex-m55", "cortex-m85"))
    assert one.measurement("instructions") == other.measurement("instructions")
    assert any("QEMU does not emulate the Cortex-M85" in line for line in other.conditions)
    assert not any("does not emulate" in line for line in one.conditions)


def test_every_emulated_core_is_in_the_table():
    assert {core.compiled_for or core.name for core in CORES_OF_QEMU.values()} == set(load_table().cores) == set(CORES)


def test_each_image_of_a_batch_counts(tmp_path):
    one, three = (
        loops_of(layer(tmp_path, "CONV_2D", shape=[n, 4, 4, 6], out=[n, 4, 4, 8], kernel=(3, 3)), "dsp") for n in (1, 3)
    )
    assert three == {name: {loop: 3 * count for loop, count in counts.items()} for name, counts in one.items()}


def test_a_model_that_no_microcontroller_holds_is_refused(tmp_path):
    path = layer(tmp_path, "LOGISTIC", shape=[1, 2**30], out=[1, 2**30])
    found = edgewise.estimate(path, "cortex-m4", settings={"counts": "table"})
    assert found.refused == wording("activations-need-b-more-than", arena_bytes="2,147,483,648")


def test_scratch_memory_by_kernel(tmp_path):
    pointwise = lowered_of(layer(tmp_path, "CONV_2D", shape=[1, 4, 4, 6], out=[1, 4, 4, 8])).calls[0]
    square = lowered_of(layer(tmp_path, "CONV_2D", shape=[1, 4, 4, 6], out=[1, 4, 4, 8], kernel=(3, 3))).calls[0]
    options = {"shape": [1, 4, 4, 6], "out": [1, 4, 4, 6], "kernel": (3, 3)}
    depthwise = lowered_of(layer(tmp_path, "DEPTHWISE_CONV_2D", **options)).calls[0]
    families = ("scalar", "dsp", "helium")
    assert [scratch_bytes(pointwise, each) for each in families] == [0, 0, 0]
    assert [scratch_bytes(square, each) for each in families] == [4 * 54, 4 * 54, 4 * 56]
    assert [scratch_bytes(depthwise, each) for each in families] == [0, 2 * 54, 4 * 124 * 9]
    assert scratch_bytes("ew_copy((ew_arena + 0), (ew_arena + 16), 12);", "dsp") == 0


def test_a_prediction_has_its_basis_and_an_interval(tmp_path, capsys):
    path = layer(tmp_path, "CONV_2D", shape=[1, 8, 8, 8], out=[1, 8, 8, 8], kernel=(3, 3))
    assert edgewise_command(["estimate", str(path), "-d", "cortex-m4", "--set", "counts=table", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    rows = {row["metric"]: row for row in document["estimates"]}
    total = rows["instructions"]
    assert total["basis"] == "estimated" and total["low"] < total["value"] < total["high"]
    only, *rest = document["layers"]
    assert total["value"] == only["instructions"] == sum(only["instruction_classes"].values())
    assert not any(each["instructions"] for each in rest)
    assert rows["flash_read"]["value"] == only["flash_read_bytes"] > 8 * 8 * 9  # at least the weights, once
    assert rows["flash"]["value"] is None and re.search(
        says("size-program-needs-compiler-weights"), rows["flash"]["absent_because"]
    )
    assert rows["memory_sram"]["value"] > rows["memory_arena"]["value"] == 2 * 8 * 8 * 8
    assert "predicted from edgewise's table" in document["software"]
    assert any("not compared with tflite-micro's" in line for line in document["conditions"])


def test_other_counts_are_an_error(tmp_path, capsys):
    path = layer(tmp_path, "LOGISTIC", shape=[1, 16], out=[1, 16])
    assert edgewise_command(["estimate", str(path), "-d", "cortex-m4", "--set", "counts=guess"]) == 2
    assert "counts must be emulation or table, not 'guess'" in capsys.readouterr().err


@pytest.mark.parametrize("content", [None, b"", b"{}", b'{"columns": 1}', b"\xff"])
def test_a_damaged_table_is_one_clear_error(tmp_path, monkeypatch, content):
    load_table.cache_clear()
    monkeypatch.setattr(table.resources, "files", lambda package: tmp_path)
    if content is not None:
        (tmp_path / table.FILE).write_bytes(content)
    try:
        with pytest.raises(Unavailable, match=says("missing-damaged", file="operator_costs.json")):
            load_table()
        monkeypatch.setattr(cortex_m, "emulation_availability", lambda: Availability(False, "no compiler", INSTALL))
        state = cortex_m.CortexM().availability()
        assert not state and state.reason == wording("missing-damaged", file="operator_costs.json")
    finally:
        load_table.cache_clear()
