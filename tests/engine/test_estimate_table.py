"""The table of operator costs beside the emulator: generated operators, models, scratch memory, missing programs."""

from __future__ import annotations

import json
import re
import shutil

import numpy as np
import pytest

import edgewise
from edgewise.cli.main import run as edgewise_command
from edgewise.estimating.mcu import cortex_m
from edgewise.estimating.mcu.arena import plan_arena
from edgewise.estimating.mcu.calls import FAMILIES
from edgewise.estimating.mcu.cmsis import CMSIS_NN
from edgewise.estimating.mcu.cores import CORES
from edgewise.estimating.mcu.firmware import emulate
from edgewise.estimating.mcu.loops import scratch_bytes
from edgewise.estimating.mcu.lowering import lower
from edgewise.estimating.mcu.network import read_network
from edgewise.estimating.mcu.table import load_table
from edgewise.registry import Availability
from mcu_graphs import write_chains
from messages import has, says, wording

pytestmark = pytest.mark.engine
pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")
pytest.importorskip("bakenn", reason="bakenn, which brings CMSIS-NN, is not installed")
if not shutil.which("arm-none-eabi-gcc") or not shutil.which("qemu-system-arm"):
    pytest.skip("gcc-arm-none-eabi or qemu-system-arm is not installed", allow_module_level=True)

LONG = pytest.mark.long  # the first run on a core compiles CMSIS-NN for it
# A Cortex-M85 executes what a Cortex-M55 does.
ALL_CORES = [each if each == "cortex-m4" else pytest.param(each, marks=LONG) for each in CORES if each != "cortex-m85"]
FAMILY = ("cortex-m0plus", "cortex-m4", "cortex-m55")
"""One core of each of CMSIS-NN's kinds of kernels."""
MODELS = ("ad01_int8", "kws_ref_model", "pretrainedResnet_quant", "str_ww_ref_model", "vww_96_int8")


def compiled(core):
    """The core that the code for `core` is compiled for."""
    return CORES[core].compiled_for or core


def both(path, core):
    """Per executed operator: the counted instructions and the prediction; then the network's C and the emulation."""
    network = read_network(path)
    plan, offsets = plan_arena(network)
    lowered = lower(network, offsets)
    emulated = emulate(
        network, lowered, core=CORES[core], offsets=offsets, arena_bytes=plan.arena_bytes,
        inputs=cortex_m.sample_inputs(network)[:1],
    )  # fmt: skip
    predicted = load_table().predict(lowered, compiled(core))
    pairs = zip(lowered.calls, emulated.costs[0], predicted, strict=True)
    return [(counted.instructions, each) for call, counted, each in pairs if each.costs.instructions], lowered, emulated


@pytest.mark.parametrize("core", ALL_CORES)
def test_generated_operators_cost_what_the_emulator_counts(tmp_path, core):
    """Shapes that the sweep does not have; many are so small that a branch more is 1 %."""
    codes = ["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "MAX_POOL_2D", "ADD", "TRANSPOSE", "LOGISTIC", "MEAN"]
    chains = [(1000 + seed, [codes[(seed + step) % 8] for step in (0, 3, 5)]) for seed in range(24)]
    rows, *_ = both(write_chains(tmp_path / "chains.tflite", chains), core)
    errors = np.array([each.costs.instructions / counted - 1 for counted, each in rows])
    stated = np.array([each.error for _, each in rows])
    assert len(errors) > 50
    assert np.median(np.abs(errors)) < 0.03
    assert np.mean(np.abs(errors) <= 2 * stated + 0.02) > 0.9


@pytest.mark.parametrize("core", ALL_CORES)
def test_kernels_without_branches_on_data_are_exact(tmp_path, core):
    chains = [(seed, ["LOGISTIC", "HARD_SWISH", "RELU"]) for seed in range(12)]
    rows, *_ = both(write_chains(tmp_path / "tables.tflite", chains), core)
    for counted, each in rows:
        assert abs(each.costs.instructions - counted) <= 5  # what the emulator's clock adds


@pytest.mark.parametrize(
    ("name", "core"),
    [
        ("kws_ref_model", "cortex-m4"),
        *(pytest.param("kws_ref_model", core, marks=LONG) for core in CORES if core not in ("cortex-m4", "cortex-m85")),
        *(pytest.param(name, core, marks=LONG) for name in MODELS if "kws" not in name for core in FAMILY),
    ],
)
def test_the_interval_of_a_model_contains_the_emulated_count(shared_models, name, core):
    path = shared_models / f"{name}.tflite"
    predicted = edgewise.estimate(path, core, settings={"counts": "table"})
    emulated = edgewise.estimate(path, core, settings={"counts": "emulation"})
    ours, counted = (each.measurement("instructions") for each in (predicted, emulated))
    assert ours.low <= counted.value <= ours.high
    assert ours.value == pytest.approx(counted.value, rel=0.02)
    ours, counted = (each.measurement("flash_read").value for each in (predicted, emulated))
    # The bounds of flash_read and of the classes are those that docs/microcontrollers.md states.
    assert ours == pytest.approx(counted, rel=0.06)
    least = 0.01 * emulated.measurement("instructions").value
    for one, other in zip(predicted.layers, emulated.layers, strict=True):
        if (other.instructions or 0) >= least:
            classes, right = one.instruction_classes, other.instruction_classes
            assert all(abs(classes[name] - right[name]) < 0.04 * other.instructions for name in right)
    assert predicted.measurement("memory_arena") == emulated.measurement("memory_arena")
    assert not any("far larger" in line for line in predicted.conditions)


@pytest.mark.parametrize("core", ALL_CORES)
def test_scratch_memory_is_what_cmsis_nn_asks_for(tmp_path, core):
    for code in sorted(CMSIS_NN):
        chains = [(seed, [code, code]) for seed in range(3)]
        _, lowered, emulated = both(write_chains(tmp_path / f"{code}.tflite", chains), core)
        assert max(scratch_bytes(call, FAMILIES[compiled(core)]) for call in lowered.calls) == emulated.scratch_bytes, (
            code
        )


def test_without_the_compiler_the_table_answers_with_what_to_install(shared_models, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    path = str(shared_models / "kws_ref_model.tflite")
    assert edgewise_command(["estimate", path, "-d", "cortex-m4", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    rows = {row["metric"]: row for row in document["estimates"]}
    assert rows["instructions"]["basis"] == "estimated" and rows["memory_arena_tflm"]["basis"] == "measured"
    assert document["conditions"][0] == (
        "arm-none-eabi-gcc is not installed. For counted instructions: apt-get install gcc-arm-none-eabi "
        "libnewlib-arm-none-eabi qemu-system-arm."
    )
    assert edgewise_command(["estimate", path, "-d", "cortex-m4", "--set", "counts=emulation"]) == 3
    told = capsys.readouterr().err
    assert (
        re.search(says("not-installed", command=has("arm-none-eabi-gcc")), told)
        and wording("apt-get-install-gcc-arm") in told
    )


def test_without_tflite_micro_its_arena_is_absent(shared_models, monkeypatch):
    def missing(distribution, **rest):
        if distribution == "tflite-micro":
            return Availability(False, "the package tflite-micro is not installed", "pip install 'edgewise[mcu]'")
        return true(distribution, **rest)

    true = cortex_m.package_availability
    monkeypatch.setattr(cortex_m, "package_availability", missing)
    found = edgewise.estimate(shared_models / "kws_ref_model.tflite", "cortex-m4")
    assert found.measurement("instructions").basis == "estimated"
    row = found.measurement("memory_arena_tflm")
    assert row.value is None
    assert row.absent_because == "the package tflite-micro is not installed: pip install 'edgewise[mcu]'"
