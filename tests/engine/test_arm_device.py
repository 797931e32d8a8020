"""An emulated Arm device behind a real sshd: the same outputs as on this machine, and never a time.

ONNX Runtime, LiteRT and OpenVINO (which uses the Arm Compute Library there) run for aarch64 in qemu's user-mode
emulation, see `arm_root`.
"""

from __future__ import annotations

import json
import subprocess
from importlib.metadata import version

import numpy as np
import pytest

from arm_root import Missing, find_python
from edgewise import data
from edgewise.cli.main import run as edgewise_command
from edgewise.device import target
from edgewise.record import Scenario, Stopping, TargetSpec
from edgewise.run.dispatch import Dispatcher
from edgewise.run.executor import facts_of
from edgewise.run.plan import Axes, make_plan
from edgewise.run.run_builder import METERS_OFF
from patience import LIMIT_S
from ssh_devices import SSHD, SshServer, register

pytestmark = [pytest.mark.engine, pytest.mark.long]

ONNX, TFLITE = data.path("digits_cnn.onnx"), data.path("digits_cnn.tflite")
TOLERANCE = 1e-5
"""Largest difference, relative to the largest output: float32 has 24 bits, and kernels for Arm add in another order."""
QUICK = ("--iterations", "1", "--warmup", "1", "--sessions", "1", "--timeout", "1800s")


@pytest.fixture(scope="module")
def arm(tmp_path_factory):
    """The device ``arm``; skipped where the emulator, the packages or sshd are missing."""
    for name in ("asyncssh", "onnxruntime", "openvino", "ai_edge_litert"):
        pytest.importorskip(name, reason=f"needs {name}")
    if SSHD is None:
        pytest.skip("needs sshd (Debian: apt-get install openssh-server)")
    try:
        python = find_python()
    except Missing as error:
        pytest.skip(f"no emulated Arm: {error}")
    server = SshServer(tmp_path_factory.mktemp("arm"))
    with pytest.MonkeyPatch.context() as patch:
        register(server, server.root / "devices.toml", patch, name="arm", python=str(python))
        yield python
        target.close_targets()
    server.close()


def command(capsys, *words, code=0):
    """The JSON document that a command prints."""
    assert edgewise_command([*map(str, words), "--json", "--no-store", "--quiet"]) == code, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def test_facts_are_those_of_the_emulated_processor(arm):
    facts = facts_of(TargetSpec(device="arm", transport="ssh"))
    assert facts.environment["architecture"] == "aarch64"
    assert facts.environment["cpu"]["model"] == "Cortex-A72"
    assert facts.environment["virtualisation"]["emulator"].startswith("qemu-aarch64")
    packages = {"onnxruntime": "onnxruntime", "litert": "ai-edge-litert", "openvino": "openvino"}
    for engine, package in packages.items():
        assert facts.engines[engine].available and facts.engines[engine].version == version(package)


def outputs_of(engine, model):
    """The outputs of a model on the Arm device and on this machine."""
    found = []
    for device, transport in (("arm", "ssh"), ("local", "local")):
        plan = make_plan(
            [model],
            axes=Axes(runtimes=(engine,)),
            scenario=Scenario(),
            stopping=Stopping(iterations=1, warmup=1, sessions=1, timeout_s=3 * LIMIT_S),
            target=TargetSpec(device=device, transport=transport),
        )
        dispatcher = Dispatcher(save=lambda run: None, sensors=METERS_OFF)
        (run,) = dispatcher.execute(plan)
        assert run.status == "done", run.failure
        assert (run.environment["architecture"] == "aarch64") == (device == "arm")
        assert (run.value("latency") is None) == (device == "arm")
        (output,) = dispatcher._builder.outputs[run.id].arrays
        found.append(output)
    return found


@pytest.mark.parametrize(
    ("engine", "model"),
    [("onnxruntime", ONNX), ("litert", TFLITE), ("openvino", ONNX)],
    ids=["onnxruntime", "litert", "openvino"],
)
def test_outputs_equal_those_of_this_machine(arm, engine, model):
    there, here = outputs_of(engine, model)
    assert there.shape == here.shape == (1, 10) and there.dtype == here.dtype == np.float32
    assert np.ptp(here) > 1.0  # scores that tell classes apart
    np.testing.assert_allclose(there, here, rtol=0, atol=TOLERANCE * np.abs(here).max())


def test_8_bit_outputs_differ_by_one_step_at_most(arm, shared_models):
    there, here = outputs_of("litert", shared_models / "kws_ref_model.tflite")
    assert there.dtype == here.dtype == np.int8 and there.shape == here.shape and np.ptp(here.astype(int)) > 10
    assert np.abs(there.astype(int) - here.astype(int)).max() <= 1


def test_openvino_computes_with_the_arm_compute_library_there(arm):
    code = """if True:
        import sys, openvino
        model = openvino.Core().compile_model(sys.argv[1], "CPU").get_runtime_model()
        print(*{str(node.get_rt_info()["primitiveType"].astype(str)) for node in model.get_ordered_ops()})
    """
    done = subprocess.run([arm, "-P", "-c", code, ONNX], capture_output=True, text=True, timeout=LIMIT_S, check=True)
    assert "acl" in done.stdout, done.stdout


def test_bench_gives_sizes_and_agreement_but_no_times(arm, capsys):
    runs = command(capsys, "bench", TFLITE, "-r", "litert,openvino", "-d", "arm", *QUICK)["runs"]
    for run in runs:
        assert run["status"] == "done"
        rows = {row["metric"]: row for row in run["measurements"]}
        measured = {metric for metric, row in rows.items() if row["value"] is not None}
        assert {"model_size", "network_bytes", "macs", "parameters"} <= measured
        assert not measured & {
            "latency", "latency_first", "throughput", "load_time", "startup_time", "import_time", "deployment_time",
            "energy", "power", "clock_rate", "temperature", "cpu_utilization", "memory_peak", "memory_load", "memory_engine",
        }  # fmt: skip
        assert rows["latency"]["absent_because"].startswith("emulated processor: qemu-aarch64")
        assert (
            rows["energy"]["absent_because"]
            == rows["throughput"]["absent_because"]
            == rows["latency"]["absent_because"]
        )
        assert not run["sessions"][0]["phases"] and not run["sessions"][0]["warmup_samples"]
        assert "emulated-processor" in [caution["code"] for caution in run["cautions"]]
    other = {row["metric"]: row for row in runs[1]["measurements"]}
    assert other["agreement_top1"]["value"] == 1.0 and 0 <= other["output_max_rel_error"]["value"] < TOLERANCE


def test_evaluate_finds_the_same_accuracy(arm, capsys):
    found = []
    for device in ("arm", "local"):
        words = ("evaluate", ONNX, "--data", data.path("digits_test.npz"), "--task", "classification", "--limit", "30")
        document = command(capsys, *words, "--no-latency", "--timeout", "1800s", "-d", device, "-r", "onnxruntime")
        found.append({row["id"]: (row["value"], row["n"]) for row in document["metrics"]})
        times = [row for row in document["run"]["measurements"] if row["metric"] == "inference_time"]
        assert (times[0]["value"] is None) == (device == "arm")
    assert found[0] == found[1] and found[0]["accuracy_top1"][0] > 0.9


def test_what_needs_times_is_refused(arm, capsys):
    samples = ("--data", data.path("digits_test.npz"), "--task", "classification")
    for words in (("compare", ONNX, f"b={ONNX},threads=1"), ("optimize", ONNX, *samples)):
        assert edgewise_command([*map(str, words), "-d", "arm", "--no-store"]) == 3
        assert "emulated processor: qemu-aarch64" in capsys.readouterr().err
