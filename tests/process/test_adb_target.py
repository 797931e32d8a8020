"""Commands on a recorded Android device: the real adb client, a server with recorded outputs of the device's tools."""

from __future__ import annotations

import hashlib
import json
import shutil
import statistics
import sys
import threading
from pathlib import Path

import pytest

# `phone` is a fixture: tests take it as an argument of that name, which is what F811 complains of below.
from adb_devices import GETPROP, SERIAL, TMP, phone, register  # noqa: F401
from device_tool_outputs import (
    ONNXRUNTIME,
    benchmark_model,
    litert_benchmark_model,
    onnxruntime_results,
    profile_table,
)
from edgewise import data
from edgewise.cancellation import CancelToken, cancellable
from edgewise.cli.main import run as edgewise_command
from edgewise.device import target
from edgewise.device.devices import find_device, open_transport
from edgewise.model.identity import read_graph
from edgewise.testing import check_target, write_fake_model
from edgewise.verbs.bench.request import BenchRequest
from edgewise.verbs.context import Context
from edgewise.verbs.measuring import measure
from far_targets import far_python  # noqa: F401
from patience import wait_until

MODEL = data.path("digits_cnn.tflite")
ONNX = data.path("digits_cnn.onnx")
FOLDER = f"{TMP}/edgewise"


def command(capsys, *words, code=0):
    """The JSON document that a command prints."""
    found = edgewise_command([*map(str, words), "--json"])
    streams = capsys.readouterr()
    assert found == code, streams.err
    return json.loads(streams.out)


def bench(capsys, *words, model=MODEL, device="phone", code=0):
    """The only run of a bench on the device, and its measurements by metric."""
    (run,) = command(capsys, "bench", model, "-d", device, "--no-store", *words, code=code)["runs"]
    return run, {row["metric"]: row for row in run["measurements"]}


def refused(capsys, *words, code=3):
    """What a command prints that can't do its work."""
    assert edgewise_command(list(map(str, words))) == code
    return " ".join(capsys.readouterr().err.split())


def record(phone, *outputs, name="benchmark_model", code=0, results=()):  # noqa: F811
    """Install a tool that prints one recorded output after the other, and for its memory or layers the last."""
    folder = phone.root / "recorded"
    folder.mkdir(exist_ok=True)
    for index, text in enumerate(outputs):
        (folder / f"{name}.{index}").write_text(text)
    for index, text in enumerate(results):
        (folder / f"{name}.{index}.csv").write_text(text)
    last = len(outputs) - 1
    phone.script(
        phone.tmp / name,
        f"n=$(cat {folder}/count 2>/dev/null || echo 0)\n"
        f'case "$*" in *report_peak*|*op_profiling*) n={last};; *) echo $((n + 1)) > {folder}/count;; esac\n'
        f"[ $n -gt {last} ] && n={last}\n"
        f'for word in "$@"; do results=$word; done\n'
        f'[ -f {folder}/{name}.$n.csv ] && cat {folder}/{name}.$n.csv > "$results"\n'
        f"cat {folder}/{name}.$n\nexit {code}",
    )


# --- LiteRT's tool ---


def test_bench_takes_latency_memory_and_delegates_from_the_tool(phone, capsys):  # noqa: F811
    means = ("5000.5", "5100.5", "4900.5")
    record(
        phone,
        *(benchmark_model(mean, init=12000 + 1000 * at) for at, mean in enumerate(means)),
        benchmark_model(peak="61.5"),
    )
    run, rows = bench(capsys, "-r", "benchmark_model", "--sessions", "3", "--threads", "2")
    assert run["status"] == "done", run["failure"]
    latency = rows["latency"]
    assert latency["samples"] == pytest.approx([5000.5e-6, 5100.5e-6, 4900.5e-6])
    assert latency["value"] == pytest.approx(5000.5e-6) and latency["low"] < 4900.5e-6 and latency["high"] > 5100.5e-6
    assert "benchmark_model's own timer" in latency["method"] and "600 inferences" in latency["method"]
    summary = latency["summary"]
    assert summary["n"] == 600 and summary["percentiles"] == {} and summary["median"] is None
    assert (summary["min"], summary["max"]) == (pytest.approx(4800e-6), pytest.approx(6000e-6))
    # 200 each around their means: the variance is that within sessions plus that of the three means.
    spread = (100**2 + statistics.pvariance([5000.5, 5100.5, 4900.5])) ** 0.5
    assert summary["mean"] == pytest.approx(5000.5e-6) and summary["std"] == pytest.approx(spread * 1e-6)
    assert rows["throughput"]["value"] == pytest.approx(1 / 5000.5e-6)
    assert rows["latency_first"]["value"] == pytest.approx(9000e-6)
    assert rows["load_time"]["value"] == pytest.approx(13000e-6)
    assert rows["memory_delta"]["value"] == 8.25 * 2**20 and rows["memory_peak"]["value"] == 61.5 * 2**20
    assert rows["startup_time"]["value"] is None and "does not tell" in rows["startup_time"]["absent_because"]
    assert rows["temperature"]["value"] == pytest.approx(31.4 + 273.15)
    delegate = {"name": "TfLiteXNNPackDelegate", "nodes": 9, "of": 10, "partitions": 1}
    assert run["effective"]["delegates"] == [delegate] and run["effective"]["threads"] == 1
    assert run["job"]["runtime"]["version"].startswith("sha256 ")
    assert {each["code"] for each in run["cautions"]} >= {"settings-ignored"}  # the recorded tool ran with 1 thread
    (first, *_) = phone.commands("benchmark_model --graph=")
    assert "--num_threads=2 --num_runs=20 --min_secs=1 --max_secs=15" in first and "--use_xnnpack=true" in first
    assert len(phone.commands("--report_peak_memory_footprint=true")) == 1


def test_the_machine_is_in_the_fingerprint_and_conditions_are_in_the_sessions(phone, capsys):  # noqa: F811
    record(phone, benchmark_model())
    run, _ = bench(capsys, "-r", "benchmark_model", "--sessions", "1")
    machine = run["environment"]
    assert machine["device"] == {"vendor": "Google", "model": "Pixel 8"} and machine["architecture"] == "aarch64"
    assert machine["android"] == {
        "soc": "Google Tensor G3",
        "sdk": "34",
        "abi": "arm64-v8a",
        "build": "AP2A.240805.005",
    }
    assert machine["os"]["name"] == "Android 14" and machine["os"]["kernel"] == "5.15.137-android14-11"
    assert machine["cpu"]["model"] == "Cortex-A510 + Cortex-A710" and machine["cpu"]["usable_cores"] == 8
    assert machine["memory"]["total_bytes"] == 7832576 * 1024 and machine["clock"]["governor"] == "sched_pixel"
    assert SERIAL not in json.dumps(machine)
    before = run["sessions"][0]["facts"]["conditions"]["before"]
    assert before == {
        "battery_level": 0.87, "battery_voltage": 4.312, "battery_temperature": 304.55, "charging": False,
        "powered_by": ["USB"], "thermal_status": 0, "temperatures": {"VIRTUAL-SKIN": 309.55, "BIG": 314.4},
    }  # fmt: skip
    assert not {"charging", "thermal-status"} & {each["code"] for each in run["cautions"]}


def test_an_emulator_is_a_virtual_machine(phone, capsys):  # noqa: F811
    record(phone, benchmark_model())
    phone.script(phone.root / "bin" / "getprop", f"echo '{GETPROP}[ro.boot.qemu]: [1]'")
    run, _ = bench(capsys, "--sessions", "1")
    assert run["environment"]["virtualisation"]["vendor"] == "Android Emulator"
    assert run["variation"]["sigma"] == 0.02


def test_sessions_spread_over_minutes_show_the_variation_themselves(phone, capsys, monkeypatch):  # noqa: F811
    record(phone, benchmark_model())
    monkeypatch.setattr("edgewise.run.variation.SPREAD_S", 0.2)  # real time: no deadline
    run, _ = bench(capsys, "--sessions", "3", "--spread", "0.2s")
    assert run["variation"]["source"] == "spread"


def test_a_charging_and_a_hot_phone_are_cautions(phone, capsys):  # noqa: F811
    record(phone, benchmark_model())
    phone.set_conditions(status=2, thermal=3)
    run, _ = bench(capsys, "-r", "benchmark_model", "--sessions", "1")
    messages = {each["code"]: each["message"] for each in run["cautions"]}
    assert "charging" in messages and "reached 3" in messages["thermal-status"]
    assert run["trust"]["grade"] == "C"


def test_files_are_sent_once_and_checked(phone, capsys):  # noqa: F811
    record(phone, benchmark_model())
    run, rows = bench(capsys, "--sessions", "2")
    first, second = (each["facts"]["link"] for each in run["sessions"])
    size = MODEL.stat().st_size
    assert (first["pushed_bytes"], second["pushed_bytes"], second["kept_bytes"]) == (size, 0, size)
    assert rows["deployment_time"]["value"] > 0 and rows["network_bytes"]["value"] == size
    (pushed,) = phone.commands("push ")
    stored = Path(phone.root, pushed.removeprefix(f"push {TMP}/").removesuffix(".part"))
    assert stored.name == MODEL.name
    stored = phone.tmp / pushed.removeprefix(f"push {TMP}/").removesuffix(".part")
    assert hashlib.sha256(stored.read_bytes()).digest() == hashlib.sha256(MODEL.read_bytes()).digest()
    # A file that was damaged there is sent again.
    stored.write_bytes(b"damaged")
    run, _ = bench(capsys, "--sessions", "1")
    assert run["sessions"][0]["facts"]["link"]["pushed_bytes"] == size and len(phone.commands("push ")) == 2


def test_a_tool_on_this_machine_is_sent(phone, capsys, tmp_path, monkeypatch):  # noqa: F811
    record(phone, benchmark_model())
    own = tmp_path / "my_benchmark_model"
    shutil.move(phone.tmp / "benchmark_model", own)
    register(tmp_path / "devices.toml", monkeypatch, benchmark_model=str(own))
    run, _ = bench(capsys, "--sessions", "1")
    digest = hashlib.sha256(own.read_bytes()).hexdigest()
    assert run["status"] == "done" and run["job"]["runtime"]["version"] == f"sha256 {digest[:12]}"
    assert phone.commands(f"{FOLDER}/tools/{digest[:32]}/benchmark_model --graph=")


def test_iterations_duration_and_shapes_reach_the_tool(phone, capsys):  # noqa: F811
    record(phone, benchmark_model(delegate=""))
    words = ("--iterations", "7", "--warmup", "2", "--sessions", "1", "--timeout", "30s")
    bench(capsys, "-r", "benchmark_model/builtin", *words)
    assert "--use_xnnpack=false" in phone.commands("--num_runs=7 ")[0]
    assert "--min_secs=0 --max_secs=30 --warmup_runs=2 --warmup_min_secs=0" in phone.commands("--num_runs=7 ")[0]
    assert "input_layer" not in phone.commands("--num_runs=7 ")[0]
    record(phone, benchmark_model())
    bench(capsys, "-r", "benchmark_model", "--duration", "2", "--sessions", "1", "--batch", "4")
    (line,) = phone.commands("--min_secs=2 ")
    assert "--num_runs=1 " in line and "--input_layer=serving_default_args_0 --input_layer_shape=4,1,32,32" in line


def test_a_delegate_that_was_not_applied_is_no_measurement_of_it(phone, capsys):  # noqa: F811
    record(phone, benchmark_model(delegate=""))
    run, _ = bench(capsys, "-r", "benchmark_model/gpu", "--sessions", "1", code=4)
    assert run["failure"]["cause"] == "Unsupported" and "did not apply gpu" in run["failure"]["message"]
    record(phone, benchmark_model(delegate="gpu"))
    run, _ = bench(capsys, "-r", "benchmark_model/gpu", "--precision", "f16", "--sessions", "1")
    assert run["effective"]["delegates"][0]["nodes"] == 8
    assert phone.commands("--use_gpu=true --gpu_precision_loss_allowed=true")


def test_the_npu_is_measured_by_the_tool_of_litert_2(phone, capsys):  # noqa: F811
    record(phone, litert_benchmark_model())
    run, rows = bench(capsys, "-r", "benchmark_model/npu", "--sessions", "1")
    assert rows["latency"]["value"] == pytest.approx(947.132e-6) and rows["load_time"]["value"] == pytest.approx(
        5.76e-3
    )
    assert rows["memory_peak"]["value"] == 35.5 * 2**20
    assert run["effective"]["delegates"] == [{"name": "DispatchDelegate", "nodes": 2, "of": 3, "partitions": 3}]
    assert phone.commands(f"--use_npu=true --dispatch_library_path={TMP} --compiler_plugin_library_path={TMP}")
    record(phone, litert_benchmark_model("TfLiteXNNPackDelegate"))
    run, _ = bench(capsys, "-r", "benchmark_model/npu", "--sessions", "1", code=4)
    assert "did not apply npu" in run["failure"]["message"]


def test_a_flag_that_the_tool_does_not_know_is_no_result_of_it(phone, capsys):  # noqa: F811
    text = litert_benchmark_model("TfLiteXNNPackDelegate")
    record(phone, text.replace("flags: ", "flags: --input_layer=x --input_layer_shape=4,1,32,32 "))
    run, _ = bench(capsys, "-r", "benchmark_model", "--batch", "4", "--sessions", "1", code=4)
    assert run["failure"]["cause"] == "Unsupported"
    assert run["failure"]["message"] == "this benchmark_model does not know --input_layer_shape"


def test_nnapi_is_measured_with_a_caution(phone, capsys):  # noqa: F811
    text = benchmark_model(delegate="gpu").replace("GPU", "NNAPI").replace("TfLiteGpuDelegateV2", "TfLiteNnapiDelegate")
    record(phone, text)
    run, rows = bench(capsys, "-r", "benchmark_model/nnapi", "--sessions", "1")
    assert rows["latency"]["value"] == pytest.approx(5000.5e-6)
    (caution,) = [each for each in run["cautions"] if each["code"] == "nnapi-deprecated"]
    assert caution["message"] == "NNAPI is deprecated since Android 15"


@pytest.mark.parametrize("start", [True, False])
def test_profile_attributes_the_tools_operators(phone, capsys, start):  # noqa: F811
    graph = read_graph(MODEL)
    times = [0.1, 1.0, 2.0, 0.05, 0.5, 0.05, 0.4, 0.3, 0.2, 0.3]
    table = [
        (each.op, time, f"[{each.outputs[0]}]:{each.index}") for each, time in zip(graph.operators, times, strict=True)
    ]
    table = profile_table(table, start=start)
    record(phone, benchmark_model("4900", delegate=""), benchmark_model("5000", delegate="", profile=table))
    words = ("profile", MODEL, "-d", "phone", "-r", "benchmark_model/builtin", "--sessions", "1", "--no-store")
    (run,) = command(capsys, *words)["runs"]
    assert run["profile_absent_because"] is None
    found = {layer["name"]: layer["time"] for layer in run["layers"] if layer["kind"] == "operator"}
    assert found == pytest.approx({each.name: time / 1e3 for each, time in zip(graph.operators, times, strict=True)})
    assert run["profile"]["operators_time"] == pytest.approx(4.9e-3) and run["profile"]["latency"] == pytest.approx(
        4.9e-3
    )
    assert run["profile"]["peaks"] == [] and run["profile"]["peaks_absent_because"]
    assert phone.commands("--enable_op_profiling=true")


def test_profile_of_xnnpack_counts_its_steps_once(phone, capsys):  # noqa: F811
    names = [each.outputs[0] for each in read_graph(MODEL).operators]
    steps = [
        ("Convolution (NHWC, F32) DWConv", 1.0), ("Convolution (NHWC, F32) GEMM", 2.0), ("Convolution (NHWC, F32) IGEMM", 0.5),
        ("Convolution (NHWC, F32) IGEMM", 0.5), ("Convolution (NHWC, F32) GEMM", 0.3), ("Average Pooling (NHWC, F32)", 0.2),
        ("Fully Connected (NC, F32) GEMM", 0.3),
    ]  # fmt: skip
    table = [("RESHAPE", 0.1, f"[{names[0]}]:0"), ("TfLiteXNNPackDelegate", 4.8, f"[{names[-1]}]:10")]
    table += [("DelegateOpInvoke", time, f"Delegate/{tag}:{index}") for index, (tag, time) in enumerate(steps)]
    record(phone, benchmark_model("4900"), benchmark_model("5000", profile=profile_table(table)))
    (run,) = command(capsys, "profile", MODEL, "-d", "phone", "--sessions", "1", "--no-store")["runs"]
    assert run["profile_absent_because"] is None
    assert run["profile"]["operators_time"] == pytest.approx(4.9e-3)
    rows = [(layer["op"], layer["time"]) for layer in run["layers"] if layer["kind"] == "operator" and layer["time"]]
    assert ("FULLY_CONNECTED", pytest.approx(0.3e-3)) in rows and ("DEPTHWISE_CONV_2D", pytest.approx(1e-3)) in rows


def test_reports_and_comparisons_read_such_runs(phone, capsys, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setenv("EDGEWISE_STORE", str(tmp_path / "runs.db"))
    fast, slow = (
        [benchmark_model(f"{mean + at:.1f}", least=mean - 50, most=mean + 900) for at in range(5)]
        for mean in (4000, 8000)
    )
    record(phone, *fast, *slow)
    ids = [command(capsys, "bench", MODEL, "-d", "phone", "--sessions", "5")["runs"][0]["id"] for _ in range(2)]
    assert edgewise_command(["report", ids[0]]) == 0
    assert "TfLiteXNNPackDelegate took 9 of 10 operators" in " ".join(capsys.readouterr().out.split())
    found = command(capsys, "compare", *ids)
    (row,) = [each for each in found["comparisons"] if each["metric"] == "latency"]
    assert row["ratio"] == pytest.approx(8002 / 4002, rel=1e-3) and row["verdict"] == "slower"
    report = tmp_path / "report.md"
    assert edgewise_command(["report", *ids, "-o", str(report)]) == 0
    assert "benchmark_model" in report.read_text()


# --- ONNX Runtime's tool ---


def test_onnxruntime_perf_test_gives_every_time(phone, capsys):  # noqa: F811
    times = [0.00502, 0.00501, 0.00503, 0.00505, 0.00499] * 3
    record(phone, ONNXRUNTIME, name="onnxruntime_perf_test", results=[onnxruntime_results([0.9, *times])])
    run, rows = bench(capsys, "--iterations", "15", "--warmup", "1", "--sessions", "2", model=ONNX)
    assert run["status"] == "done", run["failure"]
    assert rows["latency"]["samples"] == pytest.approx(times * 2)
    assert rows["latency"]["value"] == pytest.approx(0.00502) and rows["latency"]["summary"]["n"] == 30
    assert rows["load_time"]["value"] == pytest.approx(0.0175) and rows["latency_first"]["value"] == pytest.approx(
        0.012
    )
    assert rows["memory_peak"]["value"] == 30_000_000 and run["effective"]["threads"] == 1
    (line, *_) = phone.commands("onnxruntime_perf_test -I")
    assert "-I -e cpu -m times -r 16 -x 1" in line
    assert not list(phone.tmp.glob("edgewise/results*"))
    words = ("profile", ONNX, "-d", "phone", "-r", "onnxruntime_perf_test", "--sessions", "1", "--no-store")
    (run,) = command(capsys, *words, code=3)["runs"]
    assert run["status"] == "done" and "does not time layers" in run["profile_absent_because"]


# --- devices check and list ---


def test_a_check_lists_tools_and_the_machine(phone, capsys):  # noqa: F811
    record(phone, benchmark_model())
    found = command(capsys, "devices", "check", "phone")
    assert found["usable"] and found["engines"]["benchmark_model"]["available"]
    assert found["environment"]["android"]["abi"] == "arm64-v8a"
    (missing,) = found["missing"]
    assert f"no file {TMP}/onnxruntime_perf_test" in missing["what"] and "adb push" in missing["advice"]
    assert edgewise_command(["devices", "check", "phone"]) == 0
    told = capsys.readouterr().out
    assert "Google Pixel 8" in told and "Android 14 arm64-v8a" in told
    assert edgewise_command(["devices", "list"]) == 0
    assert f"adb://{SERIAL}" in capsys.readouterr().out


def test_a_check_without_any_tool(phone, capsys):  # noqa: F811
    found = command(capsys, "devices", "check", f"adb://{SERIAL}", code=3)
    assert not found["usable"] and len(found["missing"]) == 2


# --- Python on the device ---


def test_the_conformance_suite_passes_with_a_python_there(phone, far_python, tmp_path, monkeypatch):  # noqa: F811
    register(tmp_path / "devices.toml", monkeypatch, python=str(far_python))
    folder = tmp_path / "check"
    folder.mkdir()
    check_target(open_transport(find_device("phone")), folder=folder)


@pytest.mark.engine
def test_engines_run_in_a_python_there(phone, far_python, capsys, tmp_path, monkeypatch):  # noqa: F811
    pytest.importorskip("onnxruntime", reason="needs ONNX Runtime")
    register(tmp_path / "devices.toml", monkeypatch, python=str(far_python))
    words = ("-r", "onnxruntime", "--iterations", "10", "--sessions", "1", "--no-meters")
    run, rows = bench(capsys, *words, model=ONNX)
    assert run["status"] == "done", run["failure"]
    assert run["job"]["runtime"]["name"] == "onnxruntime" and rows["latency"]["value"] > 0
    assert run["environment"]["device"]["model"] == "Pixel 8"
    assert not list((phone.tmp / "edgewise" / "work").iterdir())


def test_doctor_shows_a_phone_with_a_python(phone, far_python, capsys, tmp_path, monkeypatch):  # noqa: F811
    register(tmp_path / "devices.toml", monkeypatch, python=str(far_python))
    assert edgewise_command(["doctor", "-d", "phone"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "phone Cortex-A510 + Cortex-A710, 8 usable cores" in told and str(far_python) in told.replace(" ", "")
    assert " free" not in told and "clock +" not in told  # nothing there tells them


def test_a_worker_ends_where_the_link_drops_and_the_next_run_works(phone, far_python, tmp_path, monkeypatch):  # noqa: F811
    register(tmp_path / "devices.toml", monkeypatch, python=str(far_python))
    path, pid = tmp_path / "m.fake", tmp_path / "pid"
    write_fake_model(path, latency_ns=[1_000_000], behaviour={"at": "invoke", "after": 0, "do": "hang"})
    workers = []

    def unplug():
        workers.extend(wait_until(phone.workers))
        pid.write_text(str(workers[0]))
        phone.unplug()

    thread = threading.Thread(target=unplug, daemon=True)
    thread.start()
    request = BenchRequest(models=(str(path),), device="phone", sessions=1, meters=False)
    (run,) = measure(request, Context(keep=False)).runs
    assert run.failure.cause == "LinkLost", run.failure
    thread.join()
    assert_ended(pid)
    write_fake_model(path, latency_ns=[1_000_000])
    (run,) = measure(request, Context(keep=False)).runs
    assert run.status == "done", run.failure


# --- what can't work ---


def test_evaluate_optimize_and_compare_need_python_there(phone, capsys):  # noqa: F811
    record(phone, benchmark_model())
    words = ("--data", data.path("digits_test.npz"), "--task", "classification", "-d", "phone")
    told = refused(capsys, "evaluate", MODEL, *words, "-r", "benchmark_model")
    assert "phone has no Python set" in told and "python = PATH" in told
    for line in (
        ("evaluate", MODEL, *words), ("optimize", MODEL, *words),
        ("compare", MODEL, f"b={MODEL}", "-d", "phone", "-r", "benchmark_model"),
        ("gate", MODEL, "--baseline", MODEL, "-d", "phone", "--max-regression", "3%"),
    ):  # fmt: skip
        assert "bench and profile only" in refused(capsys, *line)
    assert "single-stream" in refused(capsys, "bench", MODEL, "-d", "phone", "--scenario", "offline", code=2)


def test_a_tool_gives_no_outputs_where_there_is_a_python_too(phone, capsys, tmp_path, monkeypatch, far_python):  # noqa: F811
    record(phone, benchmark_model())
    register(tmp_path / "devices.toml", monkeypatch, python=str(far_python))
    words = ("--data", data.path("digits_test.npz"), "--task", "classification", "-d", "phone", "-r", "benchmark_model")
    assert "gives no outputs" in refused(capsys, "evaluate", MODEL, *words)


def test_on_this_machine_the_tools_name_a_device(capsys):
    told = refused(capsys, "bench", MODEL, "-r", "benchmark_model")
    assert "runs on Android devices" in told and "--device adb://SERIAL" in told


@pytest.mark.parametrize(
    ("state", "words", "advice"),
    [
        ("unauthorized", "unauthorized", "accept this computer's key"),
        ("offline", "offline", "reconnect the device"),
        ("many", "more than one device", "adb://SERIAL"),
        ("none", "no devices/emulators", "USB debugging"),
    ],
)
def test_a_device_that_can_not_be_used_is_one_clear_error(phone, capsys, state, words, advice):  # noqa: F811
    phone.state = state
    told = refused(capsys, "bench", MODEL, "-d", "phone" if state != "many" else "adb://")
    assert words in told and advice in told


def test_another_serial_an_address_that_is_none_and_no_adb(phone, capsys, monkeypatch):  # noqa: F811
    assert "'emulator-5554' not found" in refused(capsys, "bench", MODEL, "-d", "adb://emulator-5554")
    assert "names no device" in refused(capsys, "bench", MODEL, "-d", "adb://-x y", code=2)
    monkeypatch.setenv("PATH", "/nowhere")
    target.close_targets()
    told = refused(capsys, "bench", MODEL, "-d", "phone")
    assert "needs adb, which is not installed" in told and "apt install adb" in told


def test_a_server_that_can_not_be_reached(phone, capsys, monkeypatch):  # noqa: F811
    monkeypatch.setenv("ADB_SERVER_SOCKET", "tcp:127.0.0.1:1")
    told = refused(capsys, "bench", MODEL, "-d", "phone")
    assert "cannot connect to daemon" in told and "ADB_SERVER_SOCKET" in told


def test_a_device_unplugged_in_the_middle_is_a_failed_run(phone, capsys):  # noqa: F811
    record(phone, benchmark_model())
    phone.unplug_at = "--graph="
    run, _ = bench(capsys, "--sessions", "1", code=4)
    assert run["failure"]["cause"] == "LinkLost" and "unplugged" in run["failure"]["message"]
    phone.unplug_at = ""
    assert bench(capsys, "--sessions", "1")[0]["status"] == "done"


def test_a_full_disk_leaves_no_part_behind(phone, capsys):  # noqa: F811
    record(phone, benchmark_model())
    phone.disk_full = True
    run, _ = bench(capsys, "--sessions", "1", code=4)
    assert run["failure"]["cause"] == "Unavailable" and "no space left" in run["failure"]["message"]
    assert "remove files" in run["failure"]["advice"] and phone.commands("rm -f")


@pytest.mark.parametrize(
    ("body", "cause", "words"),
    [
        ("kill -SEGV $$", "EngineError", "crashed (SIGSEGV)"),
        ("kill -KILL $$", "Killed", "was killed"),
        ("echo \"/system/bin/sh: $0: not executable: 64-bit ELF file\" >&2; exit 126", "Unavailable", "64-bit ELF file"),
        ("echo 'CANNOT LINK EXECUTABLE \"x\": library \"libc++_shared.so\" not found' >&2; exit 1", "Unavailable", "libc++"),
        ("echo 'ERROR: Failed to load model x'; echo 'ERROR: Benchmarking failed.'; exit 1", "BadModel", "Failed to load"),
        ("echo 'ERROR: TfLiteGpuDelegate Init: x'; echo 'ERROR: Failed to apply GPU delegate.'; exit 1", "Unsupported", "Init: x"),
        ("echo 'terminate called: std::bad_alloc' >&2; exit 1", "OutOfMemory", "ran out of memory"),
        ("echo 'ERROR: something'; exit 3", "EngineError", "exit code 3: ERROR: something"),
        ("echo hello", "Garbage", "no 'Inference timings'"),
        ("head -c 20000000 /dev/zero", "Garbage", "the answer has more than"),
        ("echo 'count=x'; echo 'Inference timings in us: Init: 1, First inference: 1, Warmup (avg): nan, Inference (avg): nan'",
         "Garbage", "can't be read"),
    ],
)  # fmt: skip
def test_a_tool_that_fails_is_a_failed_run_with_its_cause(phone, capsys, body, cause, words):  # noqa: F811
    phone.script(phone.tmp / "benchmark_model", body)
    run, _ = bench(capsys, "--sessions", "1", code=4)
    assert run["failure"]["cause"] == cause and words in run["failure"]["message"], run["failure"]


def test_a_device_that_lies_about_itself(phone, capsys):  # noqa: F811
    record(phone, benchmark_model("4900"), benchmark_model("1e999"))
    run, _ = bench(capsys, "--sessions", "2", code=4)
    assert run["failure"]["cause"] == "Garbage"
    twice = profile_table([("CONV_2D", 1.0, "[x]:0"), ("CONV_2D", 1.0, "[x]:0")])
    record(phone, benchmark_model("4900"), benchmark_model("5000", profile=twice))
    words = ("profile", MODEL, "-d", "phone", "-r", "benchmark_model", "--sessions", "1", "--no-store")
    (run,) = command(capsys, *words, code=4)["runs"]
    assert "two steps of one name" in run["profile_absent_because"]
    target.close_targets()
    phone.script(
        phone.root / "bin" / "getprop",
        "yes '[ro.product.model]: [A very long name]' | head -c 100000; head -c 99999 /dev/zero; echo",
    )
    phone.script(
        phone.root / "bin" / "dumpsys", "echo '== /proc/../../x'; yes 'level: 99999999999999' | head -c 100000"
    )
    phone.script(
        phone.root / "bin" / "uname",
        "head -c 100000 /dev/zero | tr '\\0' a; echo; echo '== /proc/../../../etc/x'; echo y",
    )
    run, _ = bench(capsys, "-r", "benchmark_model", "--sessions", "1")
    assert (
        run["environment"]["device"]["model"] == "A very long name" and len(run["environment"]["architecture"]) == 100
    )
    assert run["sessions"][0]["facts"]["conditions"]["before"]["battery_level"] is None
    phone.script(phone.root / "bin" / "getprop", "cat /dev/zero")
    target.close_targets()
    assert "the answer has more than" in refused(capsys, "bench", MODEL, "-d", "phone")


def test_a_tool_without_the_right_to_be_executed(phone, capsys):  # noqa: F811
    record(phone, benchmark_model())
    (phone.tmp / "benchmark_model").chmod(0o644)
    run, _ = bench(capsys, "--sessions", "1", code=4)
    assert run["failure"]["cause"] == "Unavailable" and "can't be executed" in run["failure"]["message"]
    assert "ABI" in run["failure"]["advice"]


def test_a_tool_that_hangs_is_killed(phone, capsys, clock):  # noqa: F811
    pid = phone.root / "pid"
    clock.silent_when = lambda: pid.exists() and pid.read_text().strip() != ""
    phone.script(phone.tmp / "benchmark_model", f"echo $$ > {phone.root}/pid\nexec sleep 1000")
    run, _ = bench(capsys, "--sessions", "1", "--iterations", "1", "--timeout", "120s", code=4)
    assert run["failure"]["cause"] == "Timeout" and "was killed" in run["failure"]["message"]
    assert_ended(pid)


def test_a_cancelled_command_ends_the_tool_there(phone):  # noqa: F811
    phone.script(phone.tmp / "benchmark_model", f"echo $$ > {phone.root}/pid\nexec sleep 1000")
    token, pid = CancelToken(), phone.root / "pid"

    def cancel():
        wait_until(lambda: pid.exists() and pid.read_text().strip())
        token.cancel()

    threading.Thread(target=cancel, daemon=True).start()
    request = BenchRequest(models=(str(MODEL),), device="phone", sessions=1)
    with cancellable(token):
        found = measure(request, Context(keep=False))
    assert found.interrupted and [run.status for run in found.runs] == ["cancelled"]
    assert_ended(pid)


def assert_ended(pid):
    """The process whose number is in a file has ended, or does so soon: the kernel may take a moment."""
    process = Path(f"/proc/{pid.read_text().strip()}/cmdline")
    wait_until(lambda: not (process.exists() and process.read_bytes()))


def test_a_python_that_can_not_be_used(phone, capsys, tmp_path, monkeypatch):  # noqa: F811
    register(tmp_path / "devices.toml", monkeypatch, python="/nowhere/python3")
    told = refused(capsys, "bench", ONNX, "-r", "onnxruntime", "-d", "phone")
    assert "no process can be started" in told and "devices check" in told
    python = tmp_path / "python"
    phone.script(python, 'echo \'edgewise-process {"version": "3.9.2", "pid": 1}\'; sleep 100')
    register(tmp_path / "devices.toml", monkeypatch, python=str(python))
    target.close_targets()
    assert "is Python 3.9.2; 3.11 or newer" in refused(capsys, "bench", ONNX, "-r", "onnxruntime", "-d", "phone")


def test_two_measurements_of_one_device_take_turns(phone):  # noqa: F811
    from edgewise.device.agent import lock_file, try_lock
    from edgewise.device.lease import measuring_on

    file = lock_file().with_name(f"edgewise-measuring-{SERIAL}.lock")
    with measuring_on("phone"):
        assert "process" in try_lock(file, "another")
    with measuring_on(f"adb://{SERIAL}"):
        assert sys.argv[0].rpartition("/")[2] in try_lock(file, "another")
