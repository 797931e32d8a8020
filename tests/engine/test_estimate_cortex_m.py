"""Int8 models on emulated Cortex-M cores; the oracle is tflite-micro, byte for byte."""

from __future__ import annotations

import json
import os
import re
import shutil

import numpy as np
import pytest

import edgewise
from edgewise.cli.main import run as edgewise_command
from edgewise.errors import BadInput, RunFailed
from edgewise.estimating.boards import kib
from edgewise.estimating.mcu import cores, cortex_m, firmware
from edgewise.estimating.mcu.arena import arena_on_32_bits
from edgewise.estimating.mcu.network import read_network
from edgewise.estimating.mcu.reference import run_reference, runs_in
from edgewise.report.estimate.document import estimate_document
from mcu_graphs import dense, open_reshape
from messages import says, wording
from tflite_writer import FLOAT, INT8, INT32, Writer

pytestmark = pytest.mark.engine
pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")
pytest.importorskip("bakenn", reason="bakenn, which brings CMSIS-NN, is not installed")
if not shutil.which("arm-none-eabi-gcc") or not shutil.which("qemu-system-arm"):
    pytest.skip("gcc-arm-none-eabi or qemu-system-arm is not installed", allow_module_level=True)

CORES = tuple(cores.CORES)
LONG = pytest.mark.long  # the first run on a core compiles CMSIS-NN for it


@pytest.mark.parametrize("core", [each if each == "cortex-m4" else pytest.param(each, marks=LONG) for each in CORES])
def test_a_small_network_runs_on_every_core(tmp_path, core):
    found = edgewise.estimate(dense(tmp_path), core)
    rows = {row.metric: row for row in found.measurements}
    total = rows["instructions"]
    assert total.basis == "simulated" and 0 < total.low <= total.value <= total.high < 10_000
    assert rows["memory_arena"].value == 16 + 8 and rows["macs"].value == 128
    assert rows["memory_sram"].value > rows["memory_arena"].value
    assert rows["latency"].value is None and rows["energy"].value is None  # without a clock
    known = core not in ("cortex-m3", "cortex-m23", "cortex-m55", "cortex-m85")
    assert (rows["cpu_cycles"].value is not None) == known
    told = {row["metric"]: row for row in found.to_document()["estimates"]}
    assert (
        told["instructions"]["low"] == total.low and told["instructions"]["coverage"] is None
    )  # extremes, no interval
    layer = found.layers[0]
    assert layer.instructions == total.value and layer.steps == ("CMSIS-NN",) and (layer.cycles is not None) == known
    again = edgewise.estimate(dense(tmp_path), core)
    assert again.measurement("instructions").value == total.value  # deterministic


@pytest.mark.parametrize(
    ("name", "most"),
    [("ad01_int8", 0.6e6), ("kws_ref_model", 8e6), ("pretrainedResnet_quant", 33e6), ("str_ww_ref_model", 2.3e6)],
)
def test_the_models_of_mlperf_tiny_compute_what_tflite_micro_computes(shared_models, name, most):
    """An estimate whose outputs differ is an error, see below."""
    found = edgewise.estimate(shared_models / f"{name}.tflite", "cortex-m4")
    total = found.measurement("instructions").value
    assert found.refused is None and 0.9 * most < total < most
    assert sum(layer.instructions or 0 for layer in found.layers) == pytest.approx(total, rel=0.001)


def test_the_inputs_of_the_check_are_not_counted_as_flash(shared_models):
    found = edgewise.estimate(shared_models / "vww_96_int8.tflite", "cortex-m4")
    reason = found.measurement("flash").absent_because
    weights = int(re.search(r"([\d,]+) B of weights", reason)[1].replace(",", ""))
    assert weights < found.at_least["flash"] < weights + 40_000  # the five inputs are 138,240 B


@pytest.mark.parametrize(
    ("name", "published_kib", "own_kib"),
    [
        ("ad01_int8", 7.546875, 1.3),
        ("kws_ref_model", 27.109375, 17.5),
        ("pretrainedResnet_quant", 58.109375, 51.1),
        ("vww_96_int8", 104.1015625, 68.3),
    ],
)
def test_the_sram_is_that_of_published_programs_with_tflite_micro(shared_models, name, published_kib, own_kib):
    """RAM of EdgeMark's whole programs (TFLM + STM, q_full_int_only) with these networks: up to 5 KiB more."""
    found = edgewise.estimate(shared_models / f"{name}.tflite", "nucleo-l4r5zi")
    sram, least = (found.measurement(each) for each in ("memory_sram", "memory_sram_least"))
    assert published_kib - 5 < sram.value / 1024 < published_kib
    assert least.value / 1024 == pytest.approx(own_kib, abs=0.1)
    assert (sram.basis, least.basis) == ("estimated", "simulated")
    assert found.fit.ram_bytes == sram.value
    assert found.fit.arena_bytes == found.measurement("memory_arena_tflm_32bit").value
    answer = estimate_document(found).answer[1]
    assert answer.startswith(
        f"fits: RAM {kib(sram.value)} of 640 KiB, {kib(640 * 1024 - sram.value)} left (estimated); "
    )
    parts = ("memory_arena_tflm_32bit", "memory_scratch", "memory_stack")
    assert sum(found.measurement(part).value for part in parts) == sram.value


def test_the_ram_of_other_software_is_a_bound(shared_models):
    found = edgewise.estimate(shared_models / "kws_ref_model.tflite", "nucleo-l4r5zi", settings={"software": "vendor"})
    sram, least = (found.measurement(each) for each in ("memory_sram", "memory_sram_least"))
    assert sram.value is None and sram.absent_because == "the arena of vendor is not known"
    assert found.at_least["memory_sram"] == found.fit.ram_bytes == least.value
    assert found.fit.at_most["RAM"] == 2 * 16_000 + 65_536 and found.fit.fits is True
    assert str(found.fit).startswith("fits: RAM at most 95.2 of 640 KiB, at least 544.8 left;")


@LONG
@pytest.mark.parametrize("core", CORES)
def test_every_core_computes_a_network_with_every_kernel(shared_models, core):
    for name in ("vww_96_int8", "pretrainedResnet_quant"):
        assert edgewise.estimate(shared_models / f"{name}.tflite", core).refused is None


@LONG
def test_helium_takes_fewer_instructions(shared_models):
    path = shared_models / "kws_ref_model.tflite"
    plain, helium = (
        edgewise.estimate(path, core).measurement("instructions").value for core in ("cortex-m4", "cortex-m55")
    )
    assert helium < plain / 3


def test_a_device_is_named_with_its_settings_and_a_latency_with_its_interval(tmp_path, capsys):
    assert edgewise_command(["estimate", str(dense(tmp_path)), "-d", "cortex-m4@100MHz"]) == 0
    printed = capsys.readouterr().out
    assert "\n  Arm Cortex-M4 with DSP extension and FPU at 100 MHz; software cmsis-nn.\n" in printed
    assert re.search(r"Latency +[\d.]+ µs +90%: \[[\d.]+, [\d.]+\] µs +estimated", printed)
    command = ["estimate", str(dense(tmp_path)), "-d", "cortex-m4@100MHz", "--set", "software=vendor", "--json"]
    assert edgewise_command(command) == 0
    told = json.loads(capsys.readouterr().out)
    rows = {row["metric"]: row for row in told["estimates"]}
    assert told["device"]["settings"]["software"] == "vendor" and rows["latency"]["coverage"] == 0.9
    assert edgewise_command([*command[:-2], "software=fast"]) == 2
    assert "not 'fast'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "on_32_bits"),
    [
        ("kws_ref_model", 24_908), ("pretrainedResnet_quant", 56_492), ("vww_96_int8", 102_796), ("ad01_int8", 4_508),
        ("str_ww_ref_model", 17_404),
    ],
)  # fmt: skip
def test_the_arena_of_tflite_micro_is_known_for_32_bits(shared_models, name, on_32_bits):
    """The oracle is tflite-micro's benchmark on WebAssembly, less what it keeps for itself."""
    path = shared_models / f"{name}.tflite"
    network = read_network(path)
    reference = run_reference(path, [[np.zeros(each.shape, np.int8) for each in network.inputs]], outputs=1)
    assert arena_on_32_bits(reference, network) == pytest.approx(on_32_bits - 2_128, rel=0.004)


def test_an_arena_that_is_no_size_names_the_setting(tmp_path):
    with pytest.raises(BadInput, match="settings arena: 'x' is not a size"):
        edgewise.estimate(dense(tmp_path), "cortex-m4", settings={"arena": "x"})


@pytest.mark.long
def test_the_smallest_arena_runs_the_model_and_16_bytes_less_do_not(tmp_path):
    path = dense(tmp_path)
    found = edgewise.estimate(path, "cortex-m4", settings={"arena": "0"})
    size = int(found.measurement("memory_arena_smallest").value)
    inputs = [[np.zeros((1, 16), np.int8)]]
    assert runs_in(size, path, inputs) and not runs_in(size - 16, path, inputs)
    assert found.measurement("memory_arena_tflm").value <= size
    assert found.measurement("memory_arena_tflm_32bit").value < found.measurement("memory_arena_tflm").value


@pytest.mark.parametrize(("arena", "code"), [("-1", 0), ("4kB", 0), ("1TB", 0), ("500", 2), ("some", 2)])
@pytest.mark.long
def test_an_arena_that_is_too_small_is_an_error(tmp_path, capsys, arena, code):
    assert edgewise_command(["estimate", str(dense(tmp_path)), "-d", "cortex-m4", "--set", f"arena={arena}"]) == code
    told = capsys.readouterr()
    assert ("memory_arena_smallest" not in told.out) and ("Traceback" not in told.err)
    if arena == "500":
        assert "tflite-micro can't execute the model in an arena of 500 B" in told.err
        assert "on a microcontroller" in told.err


def test_the_memory_plan_tells_which_tensors_live_when(tmp_path, capsys):
    arguments = ["estimate", str(dense(tmp_path)), "-d", "cortex-m4"]
    assert edgewise_command([*arguments, "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)["memory_plan"]
    rows = [tuple(each[key] for key in ("name", "offset", "size_bytes", "first", "last")) for each in plan["tensors"]]
    assert rows == [("y", 16, 8, 0, 0), ("x", 0, 16, 0, 0)] or rows == [("x", 0, 16, 0, 0), ("y", 16, 8, 0, 0)]
    assert plan["arena_bytes"] == plan["lower_bound_bytes"] == 24 and plan["peak_operator"] == 0
    assert edgewise_command([*arguments, "--details"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert re.search(r"\(greedy by size, offsets on \d+ B\).*; at least 24 B live at once", told)
    assert "Memory plan" in told


def test_a_model_without_operators_is_refused(tmp_path):
    writer = Writer()
    graph = writer.graph([writer.tensor("x", [1, 4], INT8, scale=[0.1])], [], [0], [0])
    path = tmp_path / "empty.tflite"
    path.write_bytes(writer.finish([graph], [], []))
    assert edgewise.estimate(path, "cortex-m4").refused == wording("model-no-operators")


def test_outputs_that_differ_are_an_error(tmp_path, monkeypatch):
    def lie(*arguments, **options):
        told = true(*arguments, **options)
        told.outputs[1][0] = told.outputs[1][0] + np.int8(1)
        return told

    true = cortex_m.run_reference
    monkeypatch.setattr(cortex_m, "run_reference", lie)
    with pytest.raises(
        RunFailed, match=says("bytes-differ-tflite-micro-input", wrong=8, one_count=8, name_2="y", number=1)
    ):
        edgewise.estimate(dense(tmp_path), "cortex-m4")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"kind": FLOAT}, "operator 0 (FULLY_CONNECTED) works on float32, not on quantised int8"),
        ({"code": "CUMSUM"}, "not supported: CUMSUM (operator 0)"),
    ],
)
def test_what_can_not_be_lowered_is_refused(tmp_path, capsys, options, reason):
    assert edgewise_command(["estimate", str(dense(tmp_path, **options)), "-d", "cortex-m4", "--json"]) == 4
    document = json.loads(capsys.readouterr().out)
    assert reason in document["refused"] and document["estimates"] == []


def test_a_refusal_on_a_board_tells_what_is_known_of_its_memories(tmp_path, capsys):
    path = dense(tmp_path, code="CUMSUM")
    assert edgewise_command(["estimate", str(path), "-d", "nucleo-l4r5zi"]) == 4
    told = capsys.readouterr()
    assert "fits: " in told.out and "at least the weights, without code; at most the weights, or all of" in " ".join(
        told.out.split()
    )
    assert told.err.count("CUMSUM") == 1 and "CUMSUM" not in told.out
    assert edgewise_command(["estimate", str(path), "-d", "nucleo-l4r5zi", "--json"]) == 4
    fit = json.loads(capsys.readouterr().out)["fit"]
    assert fit["fits"] is True and set(fit["at_least"]) == set(fit["at_most"]) == {"RAM", "flash"}


def test_a_reshape_with_an_open_batch_is_executed(tmp_path):
    """Its outputs are compared with those of tflite-micro, which computes the shape with each inference."""
    found = edgewise.estimate(open_reshape(tmp_path / "open.tflite"), "cortex-m4")
    assert found.refused is None and found.measurement("instructions").value > 0
    assert [layer.unit for layer in found.layers[:5]][1:4] == ["", "", ""]
    assert "nothing is executed for SHAPE, STRIDED_SLICE, PACK" in " ".join(found.conditions)


def test_all_that_can_not_be_lowered_is_listed(tmp_path):
    writer, scale = Writer(), {"scale": [0.1]}
    tensors = [writer.tensor(f"t{at}", [1, 8], INT8, **scale) for at in range(5)]
    tensors += [writer.tensor(f"w{at}", [1, 8], INT32) for at in range(2)]
    codes = ["CUMSUM", "FLOOR_MOD", "TANH", "CUMSUM", "ADD"]
    steps = [writer.operator(at, [at], [at + 1]) for at in (0, 1, 2)]
    steps += [writer.operator(3, [3], [4]), writer.operator(4, [5, 5], [6], Add={})]
    path = tmp_path / "many.tflite"
    path.write_bytes(writer.finish([writer.graph(tensors, steps, [0, 5], [4, 6])], codes))
    refused = edgewise.estimate(path, "cortex-m4").refused
    assert refused == (
        "not supported: CUMSUM (operator 0, 3), FLOOR_MOD (operator 1); operator 2 (TANH) has an output that is not in steps "
        "of 1/128 from 0; operator 4 (ADD) works on int32, not on quantised int8"
    )


def run_instead(monkeypatch, call):
    """Execute `call` in place of the first operator."""

    def replaced(*arguments):
        lowered = lower(*arguments)
        lowered.calls[0] = call
        return lowered

    lower = cortex_m.lower
    monkeypatch.setattr(cortex_m, "lower", replaced)


@pytest.mark.parametrize(
    ("call", "what"),
    [
        ("*(volatile int *)0xDEAD0000 = 1;", "bus fault at the address 0xdead0000"),
        ('__asm__ volatile("udf #0");', "usage fault"),
    ],
)
def test_a_fault_names_the_operator_and_the_address(tmp_path, monkeypatch, call, what):
    run_instead(monkeypatch, call)
    reason = (
        rf"^the emulated firmware failed: {what} in operator 0 \(FULLY_CONNECTED\), by the instruction at 0x[\da-f]+$"
    )
    with pytest.raises(RunFailed, match=reason):
        edgewise.estimate(dense(tmp_path), "cortex-m4")


def test_firmware_that_never_ends_is_ended(tmp_path, monkeypatch):
    run_instead(monkeypatch, "for (;;) {}")
    monkeypatch.setattr(firmware, "RUN_S", 1.0)  # real time: it has to end, on any machine
    with pytest.raises(RunFailed, match="the emulated firmware failed: qemu-system-arm took longer than 1 s"):
        edgewise.estimate(dense(tmp_path), "cortex-m4")


@pytest.mark.parametrize("printed", ["", "t 99999999999999999999999999\n", "failed x\noutput zz\n", r"\0377\0376 t\n"])
def test_an_emulator_that_tells_garbage_is_an_error(tmp_path, monkeypatch, printed):
    (tmp_path / "qemu-system-arm").write_text(f"#!/bin/sh\nprintf '{printed}'\n")
    (tmp_path / "qemu-system-arm").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(RunFailed, match=says("emulated-firmware-ended-early-reported")):
        edgewise.estimate(dense(tmp_path), "cortex-m4")


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.98])
def test_a_damaged_file_is_one_clear_error(tmp_path, capsys, kept):
    path = dense(tmp_path)
    path.write_bytes(path.read_bytes()[: int(kept * path.stat().st_size)])
    assert edgewise_command(["estimate", str(path), "-d", "cortex-m4"]) == 2
    told = capsys.readouterr().err
    assert "dense.tflite" in told and "Traceback" not in told


@LONG
@pytest.mark.parametrize(
    ("core", "mebibytes"), [("cortex-m4", 6), ("cortex-m33", 6), ("cortex-m55", 6), ("cortex-m4", 17)]
)
def test_the_weights_have_16_mebibytes(tmp_path, core, mebibytes):
    writer, columns = Writer(), 1024 * mebibytes
    tensors = [
        writer.tensor("x", [1, 1024], INT8, scale=[0.1]),
        writer.tensor("w", [columns, 1024], INT8, 1, scale=[0.1]),
        writer.tensor("y", [1, columns], INT8, scale=[10.0]),
    ]
    graph = writer.graph(tensors, [writer.operator(0, [0, 1], [2], FullyConnected={})], [0], [2])
    path = tmp_path / "large.tflite"
    weights = np.random.default_rng(0).integers(-128, 128, 1024 * columns).astype(np.int8)
    path.write_bytes(writer.finish([graph], ["FULLY_CONNECTED"], [weights.tobytes()]))
    found = edgewise.estimate(path, core)
    if mebibytes > 16:
        assert found.measurement("instructions").basis == "estimated"
        assert "B more flash than the emulated board has" in found.conditions[0]
        refused = edgewise.estimate(path, core, settings={"counts": "emulation"}).refused
        assert "B more flash than the emulated board has" in refused
    else:
        assert found.refused is None and found.measurement("flash_read").value > weights.size


def test_a_board_executes_its_core_within_its_memories(tmp_path):
    found = edgewise.estimate(dense(tmp_path), "nucleo-l4r5zi@80MHz")
    core = edgewise.estimate(dense(tmp_path), "cortex-m4")
    assert found.refused is None and found.device.clock_hz == 80e6
    assert found.measurement("instructions").value == core.measurement("instructions").value
    assert found.fit.fits is True and found.fit.at_least.keys() == {"flash"}
    assert found.fit.ram_bytes == core.measurement("memory_sram").value
    assert found.fit.flash_bytes == core.at_least["flash"] and core.fit is None


def test_a_model_that_is_too_large_for_its_board_has_numbers_and_an_exit_code(tmp_path, capsys):
    """Input and output of 20,000 B each; the board has 32 KiB RAM."""
    writer = Writer()
    tensors = [writer.tensor(name, [1, 20_000], INT8, scale=[0.1]) for name in "xy"]
    graph = writer.graph(tensors, [writer.operator(0, [0], [1])], [0], [1])
    path = tmp_path / "wide.tflite"
    path.write_bytes(writer.finish([graph], ["RELU"]))
    assert edgewise_command(["estimate", str(path), "-d", "arduino-uno-r4"]) == 4
    told = capsys.readouterr()
    assert "Instructions" in told.out and "Does not fit" in told.out
    assert re.search(says("model-does-not-fit", name="arduino-uno-r4"), told.err) and "; the board lacks " in told.err
    assert edgewise_command(["estimate", str(path), "-d", "arduino-uno-r4", "--json"]) == 4
    document = json.loads(capsys.readouterr().out)
    assert document["fit"]["lacking"].keys() == {"RAM", "contiguous RAM"} and re.search(
        says("model-does-not-fit"), document["refused"]
    )
    assert any(row["metric"] == "instructions" and row["value"] for row in document["estimates"])


@LONG
def test_the_boards_that_hold_a_model(shared_models):
    found = edgewise.fits(shared_models / "kws_ref_model.tflite", max_ram=2**20)
    boards = {each.fit.board.name: each for each in found.candidates}
    assert found.refused is None and not boards["nucleo-l4r5zi"].left_out
    assert boards["nucleo-l4r5zi"].fit == edgewise.estimate(shared_models / "kws_ref_model.tflite", "nucleo-l4r5zi").fit
    assert boards["nucleo-l4r5zi"].fit.fits is True is boards["esp32-devkitc"].fit.fits
    assert boards["nucleo-f446re"].fit.ram_bytes == boards["nucleo-l4r5zi"].fit.ram_bytes  # the same core
