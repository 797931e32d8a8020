"""Generated int8 networks on emulated Cortex-M cores: an estimate is an error unless all outputs are tflite-micro's."""

from __future__ import annotations

import shutil

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import edgewise
from edgewise.estimating.mcu.cmsis import CMSIS_NN
from edgewise.estimating.mcu.lowering import LOWERINGS
from mcu_graphs import chain, write_chains

pytestmark = pytest.mark.engine
pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")
pytest.importorskip("bakenn", reason="bakenn, which brings CMSIS-NN, is not installed")
if not shutil.which("arm-none-eabi-gcc") or not shutil.which("qemu-system-arm"):
    pytest.skip("gcc-arm-none-eabi or qemu-system-arm is not installed", allow_module_level=True)

# The chains end with DEQUANTIZE by themselves; the next three are RESHAPE and SPLIT with other operands; READ_VARIABLE
# brings the other operators of states.
CODES = {*LOWERINGS} - {
    "DEQUANTIZE", "EXPAND_DIMS", "SPLIT_V", "SQUEEZE", "ASSIGN_VARIABLE", "CALL_ONCE", "VAR_HANDLE",
}  # fmt: skip
FILES = settings(
    derandomize=True, deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.generate, Phase.shrink),
    database=None,
)  # fmt: skip


def check(folder, chains, core):
    """An estimate of the file with `chains`, which raises where one byte differs."""
    found = edgewise.estimate(write_chains(folder.mktemp("graphs") / "chains.tflite", chains), core)
    assert found.refused is None
    assert found.measurement("instructions").value > 0
    return found


def files(chains, codes=CODES):
    """This many chains, each with a seed of its own."""
    return st.lists(chain(codes), min_size=chains, max_size=chains, unique_by=lambda each: each[0])


@pytest.mark.long
def test_chains_of_generated_operators(tmp_path_factory):
    codes = sorted(CODES)
    chains = [(seed, [codes[(seed + step) % len(codes)] for step in (0, 7, 20)]) for seed in range(2 * len(codes))]
    found = check(tmp_path_factory, chains, "cortex-m4")
    assert {"CMSIS-NN", "C"} == {step for layer in found.layers for step in layer.steps}


@pytest.mark.long
@settings(FILES, max_examples=12)
@given(chains=files(20))
def test_generated_graphs_on_a_cortex_m4(tmp_path_factory, chains):
    check(tmp_path_factory, chains, "cortex-m4")


@pytest.mark.long
@pytest.mark.parametrize("core", ["cortex-m0plus", "cortex-m4", "cortex-m55"])
@settings(FILES, max_examples=5)
@given(chains=files(12, {*CMSIS_NN, "QUANTIZE", "TRANSPOSE", "SLICE"}))
def test_generated_graphs_on_cmsis_nn(tmp_path_factory, chains, core):
    check(tmp_path_factory, chains, core)


@pytest.mark.long
@pytest.mark.parametrize("core", ["cortex-m0plus", "cortex-m3", "cortex-m55"])
@settings(FILES, max_examples=5)
@given(chains=files(12))
def test_generated_graphs_on_other_cores(tmp_path_factory, chains, core):
    check(tmp_path_factory, chains, core)
