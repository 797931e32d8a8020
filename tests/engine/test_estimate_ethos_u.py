"""Estimates for Ethos-U; the oracle is what Vela prints when it is run by itself."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import numpy as np
import pytest

import edgewise
from edgewise.child_process import Outcome
from edgewise.cli.main import run as edgewise_command
from edgewise.errors import RunFailed
from edgewise.estimating import ethos_u
from edgewise.estimating.mcu.cortex_m import CortexM
from mcu_graphs import Net, open_reshape
from messages import has, is_in, says, wording
from tflite_writer import FLOAT, INT8, Writer

pytestmark = pytest.mark.engine
pytest.importorskip("ethosu.vela", reason="ethos-u-vela is not installed")

INT8_MODELS = ("ad01_int8", "kws_ref_model", "pretrainedResnet_quant", "str_ww_ref_model", "vww_96_int8")


def printed_by_vela(path, folder, *flags):
    words = [sys.executable, "-c", "import sys; from ethosu.vela.vela import main; sys.exit(main(sys.argv[1:]))"]
    done = subprocess.run([*words, path, "--output-dir", folder, *flags], capture_output=True, text=True, check=True)
    return done.stdout


LONG = pytest.mark.long


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=LONG if name in ("ad01_int8", "str_ww_ref_model") else ()) for name in INT8_MODELS],
)
def test_totals_are_those_that_vela_prints_and_layers_add_up(shared_models, tmp_path, name):
    path = shared_models / f"{name}.tflite"
    found = edgewise.estimate(path, "ethos-u55-128")
    text = printed_by_vela(
        path, tmp_path, "--accelerator-config", "ethos-u55-128", "--config", "Arm/vela.ini",
        "--system-config", "Ethos_U55_High_End_Embedded", "--memory-mode", "Shared_Sram", "--verbose-cycle-estimate",
    )  # fmt: skip
    cycles = int(re.search(r"Total cycles +(\d+)", text)[1])
    rows = {row.metric: row for row in found.measurements}
    assert rows["accelerator_cycles"].value == cycles
    assert rows["latency"].value == cycles / 500e6 and rows["latency"].basis == "estimated"
    assert rows["latency"].low is None
    assert rows["memory_sram"].value / 1024 == pytest.approx(
        float(re.search(r"SRAM used +([\d.]+)", text)[1]), abs=0.01
    )
    assert rows["flash"].value / 1024 == pytest.approx(float(re.search(r"Flash used +([\d.]+)", text)[1]), abs=0.01)
    assert rows["energy"].value is None
    assert sum(layer.cycles or 0 for layer in found.layers) == cycles
    graph = edgewise.inspect(path).graph
    assert [layer.index for layer in found.layers] == list(range(len(graph.operators)))
    assert all(0 < layer.utilization <= 1 for layer in found.layers if layer.utilization is not None)
    assert found.refused is None and not any(layer.unit == "CPU" for layer in found.layers)


@pytest.mark.parametrize("device", ["ethos-u65-256", "ethos-u85-2048"])
def test_other_families_take_other_memories(shared_models, device):
    found = edgewise.estimate(shared_models / "kws_ref_model.tflite", device)
    assert found.measurement("memory_dram").value > 0 and found.device.clock_hz == 1e9
    assert sum(layer.cycles or 0 for layer in found.layers) == found.measurement("accelerator_cycles").value


def test_a_clock_changes_the_time_and_not_the_cycles(shared_models):
    path = shared_models / "kws_ref_model.tflite"
    usual, slow = (edgewise.estimate(path, f"ethos-u55-64{clock}") for clock in ("", "@100MHz"))
    assert slow.device.clock_hz == 1e8
    assert slow.measurement("accelerator_cycles").value == usual.measurement("accelerator_cycles").value
    assert slow.measurement("latency").value == pytest.approx(5 * usual.measurement("latency").value)


def small(tmp_path, *, cumsum):
    """A fully connected layer in int8, followed by CUMSUM, which Ethos-U does not execute."""
    writer = Writer()
    scale = {"scale": [0.1]}
    tensors = [
        writer.tensor("x", [1, 16], INT8, **scale),
        writer.tensor("w", [8, 16], INT8, 1, **scale),
        writer.tensor("h", [1, 8], INT8, **scale),
        writer.tensor("axis", [], 2, 2),
        writer.tensor("y", [1, 8], INT8, **scale),
    ]
    steps = [writer.operator(0, [0, 1], [2], FullyConnected={})]
    if cumsum:
        steps.append(writer.operator(1, [2, 3], [4], Cumsum={}))
    graph = writer.graph(tensors, steps, [0], [4 if cumsum else 2])
    weights = np.arange(128, dtype=np.int8).tobytes()
    data = writer.finish([graph], ["FULLY_CONNECTED", "CUMSUM"], [weights, np.int32(1).tobytes()])
    path = tmp_path / "small.tflite"
    path.write_bytes(data)
    return path


def test_an_operator_that_stays_on_the_cpu_leaves_the_latency_unknown(tmp_path):
    found = edgewise.estimate(small(tmp_path, cumsum=True), "ethos-u55-128")
    latency = found.measurement("latency")
    assert latency.value is None and "CUMSUM" in latency.absent_because and "cortex-m55" not in found.software
    dense, total = found.layers
    assert dense.unit == "NPU" and dense.cycles == found.measurement("accelerator_cycles").value > 0
    assert total.unit == "CPU" and total.cycles is None and total.because
    alone = edgewise.estimate(small(tmp_path, cumsum=False), "ethos-u55-128")
    assert alone.measurement("latency").value == alone.measurement("accelerator_cycles").value / 500e6


@pytest.fixture
def rearranged(tmp_path):
    """A convolution, then DEPTH_TO_SPACE, which Ethos-U55 does not execute and edgewise lowers to C."""
    net = Net()
    value = net.tensor([1, 8, 8, 4], 0.1, name="x")
    weights = net.tensor([8, 1, 1, 4], np.full(8, 0.01, np.float32), data=np.ones((8, 1, 1, 4), np.int8))
    made, moved = net.tensor([1, 8, 8, 8], 0.1, name="made"), net.tensor([1, 16, 16, 2], 0.1, name="moved")
    net.inputs.append(value)
    window = {"stride_h": 1, "stride_w": 1, "dilation_h_factor": 1, "dilation_w_factor": 1, "padding": 1}
    net.step("CONV_2D", [value, weights], [made], Conv2D=window)
    net.step("DEPTH_TO_SPACE", [made], [moved], DepthToSpace={"block_size": 2})
    net.outputs.append(moved)
    return net.finish(tmp_path / "rearranged.tflite")


def test_the_processor_beside_the_npu_executes_the_rest(rearranged):
    available = CortexM().availability()
    if not available:
        pytest.skip(available.reason)
    found = edgewise.estimate(rearranged, "ethos-u55-128", settings={"cpu": "cortex-m4@100MHz"})
    alone = edgewise.estimate(rearranged, "cortex-m4@100MHz")
    conv, moved = found.layers
    assert (conv.unit, moved.unit) == ("NPU", "CPU") and conv.cycles == found.measurement("accelerator_cycles").value
    assert moved.instructions == alone.layers[1].instructions > 0 and moved.because == "Unsupported opType"
    assert moved.time == alone.layers[1].time and "CMSIS-NN" in found.software and "Vela" in found.software
    latency, cycles, whole = found.measurement("latency"), found.measurement("cpu_cycles"), alone.measurement("latency")
    assert latency.value == pytest.approx(conv.time + moved.time) and latency.low is None
    assert cycles.value == pytest.approx(moved.time * 100e6)
    assert cycles.low / cycles.value == pytest.approx(whole.low / whole.value)


def test_a_core_without_published_latencies_leaves_the_latency_unknown(rearranged):
    core = edgewise.estimate(rearranged, "cortex-m55@500MHz", settings={"counts": "table"}).measurement("latency")
    latency = edgewise.estimate(rearranged, "ethos-u55-128").measurement("latency")
    if core.value is None:
        assert core.absent_because in latency.absent_because and re.search(says("npu-takes"), latency.absent_because)
    else:
        assert latency.value > 640 / 500e6


def test_operators_on_shapes_leave_the_latency_known(tmp_path):
    available = CortexM().availability()
    if not available:
        pytest.skip(available.reason)
    found = edgewise.estimate(open_reshape(tmp_path / "open.tflite"), "ethos-u55-128")
    npu = found.measurement("accelerator_cycles").value
    assert found.measurement("latency").value == pytest.approx(npu / 500e6)
    assert found.measurement("cpu_cycles").value is None
    assert "nothing is executed for SHAPE" in " ".join(found.conditions)


def test_a_model_with_int8_weights_alone_is_not_sent_to_quantise_itself_again(tmp_path):
    net = Net()
    given, out = net.tensor([1, 8], kind=FLOAT), net.tensor([1, 8], kind=FLOAT)
    weights = net.tensor([8, 8], 0.1, data=np.ones((8, 8), np.int8))
    net.step("FULLY_CONNECTED", [given, weights], [out], FullyConnected={})
    net.inputs, net.outputs = [given], [out]
    found = edgewise.estimate(net.finish(tmp_path / "hybrid.tflite"), "ethos-u55-128")
    assert re.search(says("npu-can-execute-none-model"), found.refused)
    assert found.advice.startswith("only the weights are int8") and "FLOAT_MODEL" in found.advice


def test_a_float_model_is_refused(capsys):
    path = edgewise.__path__[0] + "/data/digits_cnn.tflite"
    assert edgewise_command(["estimate", path, "-d", "ethos-u55-128", "--json"]) == 4
    document = json.loads(capsys.readouterr().out)
    assert "Float32" in document["refused"] and "optimize" in document["advice"] and document["estimates"] == []


def test_an_int8_model_that_the_npu_leaves_to_the_cpu_is_not_to_be_quantised(tmp_path):
    net = Net()
    net.inputs, net.outputs = [net.tensor([1, 8], 0.1)], [net.tensor([1, 8], 0.1)]
    net.step(":MyOwn", net.inputs, net.outputs)
    found = edgewise.estimate(net.finish(tmp_path / "own.tflite"), "ethos-u55-128")
    assert re.search(says("npu-can-execute-none-model"), found.refused) and re.search(
        says("edgewise-estimate-d-cortex-m55"), found.advice
    )


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["-d", "ethos-u55-12"], "ethos-u55-128"),
        (["-d", "ethos-u55-128@fast"], "'fast' is not a frequency"),
        (["-d", "ethos-u55-128@1Hz"], says("no-clock-npu")),
        (["-d", "ethos-u55-128", "--set", "memory_mode=x"], "Shared_Sram"),
        (["-d", "ethos-u55-128", "--set", "system_config=Ethos_U85_SYS_DRAM_Mid"], "Ethos_U55_High_End_Embedded"),
        (["-d", "ethos-u55-128", "--set", "speed=x"], "system_config, memory_mode, optimise, cpu"),
        (["-d", "ethos-u55-128", "--set", "optimise=x"], says("optimise-performance-size-not")),
        (["-d", "ethos-u55-128", "--set", "cpu=cortex-m99"], "unknown device 'cortex-m99'"),
        (["-d", "ethos-u55-128", "--set", "cpu=ethos-u55-32"], "must be a core, not ethos-u55-32"),
        ([], "give a device, or --fits"),
    ],
)
def test_what_can_not_be_used_is_said_with_what_can(tmp_path, capsys, words, problem):
    assert edgewise_command(["estimate", str(small(tmp_path, cumsum=False)), *words]) == 2
    assert is_in(problem, capsys.readouterr().err)


def test_a_measurement_on_it_is_refused_with_the_command_that_estimates(capsys):
    path = edgewise.__path__[0] + "/data/digits_cnn.tflite"
    assert edgewise_command(["bench", path, "-d", "ethos-u55-128", "--no-store"]) == 3
    assert f"edgewise estimate {path} -d ethos-u55-128" in capsys.readouterr().err


def test_a_profile_on_it_is_its_estimate(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    path = small(tmp_path, cumsum=False)
    store = str(tmp_path / "store.db")
    words = [str(path), "-d", "ethos-u55-128@100MHz", "--set", "optimise=Size", "--store", store]
    assert edgewise_command(["profile", *words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    found = edgewise.profile(path, device="ethos-u55-128@100MHz", settings={"optimise": "Size"})
    assert document == json.loads(json.dumps(found.to_document()))
    (layer,) = found.layers
    assert layer.time == layer.cycles / 1e8 and (layer.ops, layer.parameters, layer.live_bytes) == (256, 128, 24)
    assert not (tmp_path / "store.db").exists()  # an estimate is no run
    assert edgewise_command(["profile", *words, "--details"]) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80 and "1x16" in shown
    assert edgewise_command(["profile", *words, "--threads", "2"]) == 2
    assert re.search(says("can-only-estimated-estimate-does", listing=has("--threads")), capsys.readouterr().err)
    assert edgewise_command(["profile", *words, "--dry-run", "--json"]) == 0
    (tmp_path / "request.json").write_text(capsys.readouterr().out)
    assert edgewise_command(["run", str(tmp_path / "request.json"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == document


def test_a_file_that_vela_can_not_read_is_bad_input(tmp_path, capsys):
    path = tmp_path / "broken.tflite"
    path.write_bytes(small(tmp_path, cumsum=False).read_bytes()[:200])
    assert edgewise_command(["estimate", str(path), "-d", "ethos-u55-128"]) == 2
    assert "Traceback" not in capsys.readouterr().err
    onnx = edgewise.__path__[0] + "/data/digits_cnn.onnx"
    assert edgewise_command(["estimate", onnx, "-d", "ethos-u55-128"]) == 2
    assert re.search(says("vela-compiles-tflite-files-only"), capsys.readouterr().err)


def test_the_terminal_the_files_and_the_list_of_devices(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    path = small(tmp_path, cumsum=True)
    files = ["-o", str(tmp_path / "e.md"), "-o", str(tmp_path / "e.csv"), "-o", str(tmp_path / "e.json")]
    assert edgewise_command(["estimate", str(path), "-d", "ethos-u55-128", *files]) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80 and "Accelerator cycles" in shown and "Shared_Sram" in shown
    assert "| 1 | y | CUMSUM | CPU" in (tmp_path / "e.md").read_text()
    assert (tmp_path / "e.csv").read_text().count("\n") == 3
    assert json.loads((tmp_path / "e.json").read_text())["layers"][1]["unit"] == "CPU"
    assert edgewise_command(["estimate", "--devices", "--json"]) == 0
    devices = json.loads(capsys.readouterr().out)["devices"]
    assert {each["name"] for each in devices} >= {"ethos-u55-32", "ethos-u65-512", "ethos-u85-2048"}
    assert all(each["available"] for each in devices)
    assert edgewise_command(["estimate", "--devices"]) == 0
    listed = " ".join(capsys.readouterr().out.split())
    assert re.search(r"ethos-u55-32 Arm Ethos-U55 NPU, 32 MACs per cycle \[\d+\]", listed)
    assert "--set memory_mode=…: Memory mode of Vela: which memory holds weights" in listed
    assert "defaults of --set: system_config=Ethos_U55_High_End_Embedded, memory_mode=Shared_Sram, optimise=" in listed


def test_a_crash_of_vela_is_no_matter_of_size(tmp_path, monkeypatch):
    crash = Outcome(returncode=-8, cause="crashed", failure="crashed (SIGFPE)")
    monkeypatch.setattr(ethos_u, "run_child", lambda *_, **__: crash)
    with pytest.raises(RunFailed, match="SIGFPE") as caught:
        edgewise.estimate(open_reshape(tmp_path / "m.tflite"), "ethos-u55-128")
    assert caught.value.advice.startswith(wording("fault-vela-try-another-version"))
