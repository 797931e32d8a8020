"""Firmware that `edgewise firmware` writes, in QEMU behind a pseudo-terminal; the oracle is tflite-micro."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from edgewise.cli.main import run as edgewise_command
from edgewise.device.board import Board
from edgewise.device.link import TargetError
from edgewise.device.mlperf_tiny import encode
from edgewise.device.target import close_targets
from edgewise.estimating.mcu.cores import CORES
from edgewise.estimating.mcu.network import read_network
from edgewise.estimating.mcu.reference import run_reference
from mcu_graphs import dense

pytestmark = pytest.mark.engine
pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")
pytest.importorskip("bakenn", reason="bakenn, which brings CMSIS-NN, is not installed")
if not shutil.which("arm-none-eabi-gcc") or not shutil.which("qemu-system-arm"):
    pytest.skip("gcc-arm-none-eabi or qemu-system-arm is not installed", allow_module_level=True)

NS = 8
"""Of an instruction in QEMU with -icount shift=3, the command in README.md."""


def firmware(model, folder, *words, core="cortex-m4", code=0):
    """Write the firmware of a model; the words of QEMU's command line from its README.md."""
    assert edgewise_command(["firmware", str(model), "-d", core, "-o", str(folder), *words]) == code
    if code == 0:
        (command,) = re.findall(r"^    (qemu-system-arm (?:.*\\\n)*.*)$", (folder / "README.md").read_text(), re.M)
        return command.replace("\\\n", "").split()
    return []


@contextlib.contextmanager
def qemu(words, folder):
    """The port of a running board."""
    process = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield re.search(r"/dev/pts/\d+", process.stdout.readline())[0]
    finally:
        close_targets()
        process.kill()
        process.communicate()


@contextlib.contextmanager
def greeted(words, folder):
    """A connection to the board."""
    with qemu(words, folder) as port:
        board = Board(port, 115200)
        try:
            board.greet()
            yield board
        finally:
            board.close()


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A small model, its firmware for a Cortex-M4, and the words of QEMU's command line."""
    model = dense(tmp_path_factory.mktemp("model"))
    folder = tmp_path_factory.mktemp("firmware")
    return model, folder, firmware(model, folder)


def random_inputs(model, *, seed):
    """One array per input, int8."""
    random = np.random.default_rng(seed)
    return [random.integers(-128, 128, each.shape).astype(np.int8) for each in read_network(model).inputs]


def steps_of(results, model):
    """The integers that the printed numbers stand for."""
    (tensor,) = read_network(model).outputs
    exact = np.array(results) / float(tensor.scales[0]) + tensor.zero_point
    assert np.abs(exact - np.round(exact)).max() < 0.1  # enough decimals to tell the steps apart
    return np.round(exact).astype(int).tolist()


def expected(model, arrays):
    """tflite-micro's output, integers."""
    return run_reference(model, [arrays], outputs=1).outputs[0][0].astype(int).tolist()


@pytest.mark.parametrize("core", [name if name == "cortex-m4" else pytest.param(name) for name in CORES])
def test_the_firmware_answers_on_every_core(tmp_path, small, core):
    model, folder, words = small
    if core != "cortex-m4":
        folder = tmp_path / "fw"
        words = firmware(model, folder, core=core)
    with greeted(words, folder) as board:
        assert board.name.endswith(f"on QEMU {CORES[core].board.name}") and board.model == "custom"
        for seed in range(3):
            arrays = random_inputs(model, seed=seed)
            board.load(arrays[0].tobytes())
            window = board.infer(5, warmup=1, seconds=600)
            assert steps_of(window.results, model) == expected(model, arrays)
            assert steps_of(board.results(), model) == expected(model, arrays)
        assert board.infer(1000, warmup=0, seconds=600).elapsed_us > 0


def test_bench_of_the_firmware_gives_instructions_times_ns_and_the_outputs_of_tflite_micro(
    tmp_path, shared_models, capsys
):
    model = shared_models / "kws_ref_model.tflite"
    words = firmware(model, tmp_path / "fw", "--model-id", "kws01")
    capsys.readouterr()
    with qemu(words, tmp_path / "fw") as port:
        bench = ["bench", str(model), "-d", f"serial://{port}", "--iterations", "5", "--sessions", "1", "--no-store"]
        assert edgewise_command([*bench, "--json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert edgewise_command(["estimate", str(model), "-d", "cortex-m4", "--json"]) == 0
    estimates = {row["metric"]: row for row in json.loads(capsys.readouterr().out)["estimates"]}
    rows = {row["metric"]: row for row in run["measurements"]}
    latency = rows["latency"]
    assert latency["basis"] == "simulated"
    assert latency["value"] == pytest.approx(estimates["instructions"]["value"] * NS * 1e-9, rel=0.01)
    # 4 decimals of probabilities in steps of 1/256
    assert rows["output_max_abs_error"]["value"] <= 0.5e-4 and rows["agreement_top1"]["value"] == 1
    assert run["environment"]["board"]["model"] == "kws01" and run["environment"]["board"]["timer_resolution_s"] == 1e-6
    assert not {"board-clock", "output-mismatch"} & {caution["code"] for caution in run["cautions"]}


def test_the_inputs_and_the_score_of_anomaly_detection_are_those_of_mlperf_tiny(tmp_path, shared_models):
    model = shared_models / "ad01_int8.tflite"
    network = read_network(model)
    (source,), (out,) = network.inputs, network.outputs
    (array,) = random_inputs(model, seed=4)
    real = ((array.astype(np.float64) - source.zero_point) * float(source.scales[0])).astype(np.float32)
    with greeted(firmware(model, tmp_path / "fw", "--model-id", "ad01"), tmp_path / "fw") as board:
        board.load(real.tobytes())
        (score,) = board.infer(1, warmup=0, seconds=600).results
    rebuilt = (np.array(expected(model, [array])) - out.zero_point) * float(out.scales[0])
    assert score == pytest.approx(float(np.mean((rebuilt - real.ravel()) ** 2)), rel=1e-4)


def test_images_arrive_as_uint8(tmp_path, shared_models):
    model = shared_models / "pretrainedResnet_quant.tflite"
    arrays = random_inputs(model, seed=2)
    with greeted(firmware(model, tmp_path / "fw", "--model-id", "ic01"), tmp_path / "fw") as board:
        board.load(encode(arrays, "uint8"))
        assert steps_of(board.infer(1, warmup=0, seconds=600).results, model) == expected(model, arrays)


def test_wrong_commands_are_errors_and_the_next_one_works(small):
    model, folder, words = small
    wrong = {
        "db ff": "Bytes need 'db load' before them",
        "db load 17": "The input of this model has 16 bytes",
        "db load x": "The input of this model has 16 bytes",
        "db": "Unknown command: db",
        "infer 0 0": "Inference iterations must be >0",
        "infer 1 -1": "Inference warmup must be >=0",
        "infer 9999999999 0": "Inference iterations must be >0",
        "names": "Unknown command: names",
        "db " + "00" * 40: "Commands have at most 80 characters",
        "x" * 500: "Commands have at most 80 characters",
    }
    with greeted(words, folder) as board:
        for command, message in wrong.items():
            with pytest.raises(TargetError, match=re.escape(message)):
                board.command(command)
        board.command("db load 16")
        with pytest.raises(TargetError, match="pairs of hexadecimal digits"):
            board.command("db 0g")
        with pytest.raises(TargetError, match="pairs of hexadecimal digits"):
            board.command("db 000")
        assert [line.text for line in board.command("%%\r\nhelp")]
        arrays = random_inputs(model, seed=0)
        board.load(arrays[0].tobytes() + b"")
        assert steps_of(board.infer(1, warmup=0, seconds=600).results, model) == expected(model, arrays)


def test_the_folder_builds_by_itself(small):
    _, folder, _ = small
    assert {"LICENSE.txt"} == {path.name for path in folder.glob("cmsis/*/LICENSE.txt")}
    assert len(list(folder.glob("cmsis/*/LICENSE.txt"))) == 2
    (command,) = re.findall(r"^    (arm-none-eabi-gcc (?:.*\\\n)*.*)$", (folder / "README.md").read_text(), re.M)
    before = subprocess.run(["arm-none-eabi-size", "firmware.elf"], cwd=folder, capture_output=True, check=True).stdout
    (folder / "firmware.elf").unlink()
    subprocess.run(["bash", "-c", command], cwd=folder, check=True)
    after = subprocess.run(["arm-none-eabi-size", "firmware.elf"], cwd=folder, capture_output=True, check=True).stdout
    assert before.split()[-6:-2] == after.split()[-6:-2]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["-d", "ethos-u55-128"], 2, "no firmware can be made for ethos-u55-128"),
        (["-d", "cortex-m4", "--model-id", 'a"b'], 2, "--model-id 'a\"b' can't be used"),
        (["-d", "cortex-m4", "-o", "FULL"], 2, "is not empty"),
        (["-d", "cortex-m4", "-o", "FULL/file"], 2, "can't write to"),
    ],
)
def test_what_can_not_be_made(tmp_path, capsys, words, code, message):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("")
    words = [word.replace("FULL", str(tmp_path / "full")) for word in words]
    model = dense(tmp_path)
    if "-o" not in words:
        words += ["-o", str(tmp_path / "new")]
    assert edgewise_command(["firmware", str(model), *words]) == code
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "new").exists() and (tmp_path / "full" / "file").read_text() == ""


def test_a_float_model_and_a_missing_one(tmp_path, capsys, shared_models):
    model = shared_models / "kws_ref_model_float32.tflite"
    assert edgewise_command(["firmware", str(model), "-d", "cortex-m4", "-o", str(tmp_path / "new")]) == 2
    assert "optimize" in capsys.readouterr().err
    assert edgewise_command(["firmware", "nothing.tflite", "-d", "cortex-m4", "-o", str(tmp_path / "new")]) == 2
    assert "no such file: nothing.tflite" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
