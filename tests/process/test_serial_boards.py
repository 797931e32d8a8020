"""Boards at a serial port: a board of Python code behind a real pseudo-terminal, well-behaved and hostile."""

from __future__ import annotations

import errno
import json
import os
import re

import numpy as np
import pytest

from boards import fake_board
from edgewise import data
from edgewise.cli.main import run as edgewise_command
from edgewise.device import board as board_module
from edgewise.device.board import Board
from edgewise.device.devices import Device, open_transport
from edgewise.device.target import close_targets
from edgewise.errors import BadInput
from edgewise.record import InputSpec
from edgewise.workload.inputs import make_arrays

MODEL = data.path("digits_cnn.tflite")
CLASSES = 10


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Boards that answer have the time that a busy machine needs, and no connection is left over."""
    monkeypatch.setattr(board_module, "GREET_S", 600.0)
    monkeypatch.setattr(board_module, "ANSWER_S", 600.0)
    yield
    close_targets()


def bench(capsys, board, *words, query="", code=0):
    """The only run of a bench on the board, and its measurements by metric."""
    url = f"serial://{board.port}{query}"
    found = edgewise_command(["bench", str(MODEL), "-d", url, "--no-store", "--json", *words])
    streams = capsys.readouterr()
    assert found == code, streams.err
    (run,) = json.loads(streams.out)["runs"]
    return run, {row["metric"]: row for row in run["measurements"]}


def refused(capsys, *words, code=3):
    """What a command prints that can't do its work, on one line."""
    assert edgewise_command(list(map(str, words))) == code
    return " ".join(capsys.readouterr().err.split())


def greeted(board):
    """A connection to the board, greeted."""
    found = Board(board.port, 115200)
    found.greet()
    return found


# --- measuring ---


def test_bench_times_windows_of_at_least_a_second_by_the_timer_of_the_board(capsys):
    with fake_board(latency_us=7001, results=[0.1] * CLASSES) as board:
        run, rows = bench(capsys, board, "--sessions", "3")
    latency = rows["latency"]
    assert latency["value"] == pytest.approx(7.001e-3, rel=1e-5) and latency["basis"] == "measured"
    assert len(latency["samples"]) == 6 and latency["summary"]["percentiles"] == {}
    assert latency["low"] < 7.001e-3 < latency["high"]
    assert "6 windows of at least 1 s" in latency["method"] and "858 inferences in 3 session(s)" in latency["method"]
    windows = run["sessions"][0]["facts"]["board"]["windows"]
    assert [each["inferences"] for each in windows] == [143, 143]  # 143 × 7.001 ms is the first number above 1 s
    assert board.commands.count("infer 143 0") == 6
    assert rows["energy"]["absent_because"].startswith("MLPerf Tiny's protocol reports times and outputs only")
    assert rows["throughput"]["value"] == pytest.approx(1 / 7.001e-3, rel=1e-5)
    machine = run["environment"]
    assert machine["device"]["model"] == "fake board" and machine["architecture"] is None
    assert machine["board"]["model"] == "custom" and machine["board"]["timer_resolution_s"] == 1e-6
    assert run["job"]["target"]["transport"] == "serial" and run["job"]["runtime"]["name"] == "mlperf_tiny"
    # The times of the fake board pass at once, which this machine's clock contradicts only in longer windows.
    assert "settings-ignored" not in {each["code"] for each in run["cautions"]}


def test_the_board_gets_the_inputs_that_every_engine_gets(capsys):
    with fake_board(results=[0.1] * CLASSES) as board:
        bench(capsys, board, "--sessions", "1", "--seed", "5")
    (array,) = make_arrays([InputSpec(name="x", shape=(1, 1, 32, 32), dtype="float32")], seed=5)
    assert board.loaded == array.tobytes() and f"db load {array.nbytes}" in board.commands
    assert max(map(len, board.commands)) <= 80  # MLCommons' firmware takes no longer commands


@pytest.mark.parametrize(
    ("words", "commands"),
    [
        (["--iterations", "17", "--warmup", "3"], ["infer 1 0", "infer 1 3", "infer 50 0", "infer 17 0"]),
        (
            ["--duration", "10s"],
            ["infer 1 0", "infer 1 1", "infer 50 0", "infer 5000 0"],
        ),  # MLPerf Tiny's rule, with --sessions 5
    ],
)
def test_a_session_is_one_window_of_the_requested_length(capsys, words, commands):
    with fake_board(latency_us=2000, results=[0.1] * CLASSES) as board:
        bench(capsys, board, "--sessions", "1", *words)
    assert [each for each in board.commands if each.startswith("infer")] == commands


def test_a_window_shorter_than_requested_is_measured_again_with_more_inferences(capsys):
    faster = iter([1000, 1000])  # the first inferences are slow

    with fake_board(latency_us=20000, results=[0.1] * CLASSES) as board:

        def override(command):
            if command.startswith("infer 50"):
                board.latency_us = next(faster, board.latency_us)

        board.override = override
        _, rows = bench(capsys, board, "--sessions", "1")
    assert rows["latency"]["samples"] == pytest.approx([1e-3, 1e-3])
    assert [each for each in board.commands if "infer 1000" in each] == ["infer 1000 0"] * 2


def test_a_board_whose_inferences_never_stop_getting_faster_is_an_error(capsys):
    with fake_board(latency_us=20000, results=[0.1] * CLASSES) as board:

        def override(command):
            board.latency_us /= 1 + command.startswith("infer")

        board.override = override
        run, _ = bench(capsys, board, "--sessions", "1", code=4)
    assert "falls from window to window" in run["failure"]["message"]


def test_steps_of_a_coarse_timer_are_found_and_are_in_the_interval(capsys):
    with fake_board(latency_us=50_000, results=[0.1] * CLASSES) as board:
        _, rows = bench(capsys, board, "--sessions", "2")
    assert "steps of 1000 µs" in rows["latency"]["method"]
    assert rows["latency"]["high"] - rows["latency"]["value"] >= 1000e-6 / 20


def test_a_timer_of_32_bits_may_wrap_within_a_window():
    with fake_board(latency_us=1000) as board:
        connection = greeted(board)
        board.timer = 2**32 - 5000
        window = connection.infer(20, warmup=0, seconds=600)
    assert window.end_us < window.begin_us and window.elapsed_us == 20_000


def test_outputs_equal_to_tflite_micro_agree_and_others_are_a_caution(capsys, tmp_path):
    pytest.importorskip("tflite_micro")
    from tflite_micro import runtime

    (array,) = make_arrays([InputSpec(name="x", shape=(1, 1, 32, 32), dtype="float32")], seed=0)
    interpreter = runtime.Interpreter.from_file(str(MODEL))
    interpreter.set_input(array, 0)
    interpreter.invoke()
    right = interpreter.get_output(0).ravel()
    with fake_board(results=[f"{value:.3f}" for value in right]) as board:
        run, rows = bench(capsys, board, "--sessions", "1")
    assert rows["output_max_abs_error"]["value"] == pytest.approx(
        max(abs(np.float32(f"{value:.3f}") - value) for value in right)
    )
    assert rows["agreement_top1"]["value"] == 1 and "tflite-micro" in rows["agreement_top1"]["method"]
    assert "output-mismatch" not in {each["code"] for each in run["cautions"]}
    with fake_board(results=[f"{value:.3f}" for value in right[::-1]]) as board:
        run, _ = bench(capsys, board, "--sessions", "1")
    (caution,) = [each for each in run["cautions"] if each["code"] == "output-mismatch"]
    assert "mlperf_tiny/firmware and tflite-micro on this machine compute different outputs" in caution["message"]
    assert "check that the board holds this model" in caution["advice"]


def test_an_emulated_board_is_simulated_and_a_wrong_timer_is_a_caution(capsys):
    names = {"name": b"m-name-dut-[edgewise on QEMU mps2-an386]\r\nm-ready\r\n"}
    with fake_board(latency_us=2000, results=[0.1] * CLASSES, override=names.get) as board:
        _, rows = bench(capsys, board, "--sessions", "1")
    assert rows["latency"]["basis"] == rows["throughput"]["basis"] == "simulated"
    assert "timer counts instructions" in rows["latency"]["method"]


def test_evaluate_sends_every_sample(capsys, tmp_path):
    images = np.zeros((3, 1, 32, 32), np.float32)
    np.savez(tmp_path / "data.npz", images=images, labels=np.array([1, 1, 0]))
    with fake_board(latency_us=2000, results=[0.25, 0.5, *[0.0] * 8]) as board:
        code = edgewise_command(["evaluate", str(MODEL), "--data", str(tmp_path / "data.npz"), "--task",
            "classification", "-d", f"serial://{board.port}", "--no-latency", "--no-store", "--json"])  # fmt: skip
        streams = capsys.readouterr()
    assert code == 0, streams.err
    (top1,) = [row for row in json.loads(streams.out)["metrics"] if row["id"] == "accuracy_top1"]
    assert top1["value"] == pytest.approx(2 / 3) and top1["n"] == 3
    assert board.commands.count("db load 4096") == board.commands.count("infer 1 0") == 3


@pytest.mark.parametrize("model", ["ic01", "vww01"])
def test_uint8_images_are_int8_plus_128_for_the_benchmarks_that_take_them(model):
    from edgewise.device.board import encoding_of
    from edgewise.device.mlperf_tiny import encode

    array = np.array([-128, -1, 0, 127], np.int8)
    assert encode([array], encoding_of(model, None)) == bytes([0, 127, 128, 255])
    assert (
        encode([array], encoding_of(model, "tensor")) == encode([array], encoding_of("kws01", None)) == array.tobytes()
    )


def test_a_board_without_results_is_measured_and_not_compared(capsys):
    with fake_board(results=()) as board:
        run, rows = bench(capsys, board, "--sessions", "1")
    assert (
        run["status"] == "done" and rows["output_max_abs_error"]["absent_because"] == "the board printed no m-results"
    )


def test_data_of_the_user_reaches_the_board(capsys, tmp_path):
    array = np.linspace(0, 1, 1024, dtype=np.float32).reshape(1, 1, 32, 32)
    np.savez(tmp_path / "x.npz", serving_default_args_0=array)
    with fake_board(results=[0.1] * CLASSES) as board:
        bench(capsys, board, "--sessions", "1", "--input-data", str(tmp_path / "x.npz"))
    assert board.loaded == array.tobytes()


def test_a_registered_board_has_its_settings(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("EDGEWISE_DEVICES", str(tmp_path / "devices.toml"))
    with fake_board(results=[0.1] * CLASSES) as board:
        words = ["devices", "add", "nucleo", f"serial://{board.port}", "--set", "baud=9600", "--set", "input=tensor"]
        assert edgewise_command(words) == 0
        capsys.readouterr()
        code = edgewise_command(["bench", str(MODEL), "-d", "nucleo", "--sessions", "1", "--no-store", "--json"])
        (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert code == 0 and run["job"]["target"]["device"] == "nucleo" and run["environment"]["board"]["baud"] == 9600


def test_two_stored_runs_of_boards_are_compared(capsys, tmp_path, monkeypatch):
    store = f"sqlite:///{tmp_path / 'runs.db'}"
    monkeypatch.setenv("EDGEWISE_DEVICES", str(tmp_path / "devices.toml"))
    for latency_us in (2000, 3000):
        with fake_board(latency_us=latency_us, results=[0.1] * CLASSES) as board:
            # A name of its own: the second board may have another port than the first.
            assert edgewise_command(["devices", "add", "board", f"serial://{board.port}"]) == 0
            assert edgewise_command(["bench", str(MODEL), "-d", "board", "--store", store]) == 0
        close_targets()
    capsys.readouterr()
    assert edgewise_command(["runs", "list", "--store", store, "--json"]) == 0
    ids = [each["id"] for each in json.loads(capsys.readouterr().out)["rows"]]
    assert edgewise_command(["compare", *reversed(ids), "--store", store, "--json"]) == 0
    (row,) = [each for each in json.loads(capsys.readouterr().out)["comparisons"] if each["metric"] == "latency"]
    assert row["ratio"] == pytest.approx(1.5) and row["verdict"] == "slower"


# --- doctor, devices, and what a board can't do ---


def test_doctor_and_devices_check_show_the_board(capsys):
    with fake_board(model="kws01") as board:
        assert edgewise_command(["doctor", "-d", f"serial://{board.port}", "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert edgewise_command(["devices", "check", f"serial://{board.port}"]) == 0
        shown = capsys.readouterr().out
        assert edgewise_command(["doctor", "-d", f"serial://{board.port}"]) == 0
        words = " ".join(capsys.readouterr().out.split())
    assert document["devices"][0]["environment"]["board"]["model"] == "kws01" and document["fitness"]["grade"] == "A"
    assert [row["name"] for row in document["runtimes"]] == ["mlperf_tiny"]
    assert "fake board" in shown and "mlperf_tiny" in shown and "onnxruntime" not in shown
    assert "fake board, firmware ULPMark for tinyML Firmware V0.0.1, model kws01" in words


@pytest.mark.parametrize(
    ("words", "message", "code"),
    [
        (["profile", MODEL], "can't be profiled", 3),
        (["compare", MODEL, MODEL], "holds one model and takes no turns", 3),
        (["bench", MODEL, "--batch", "2"], "single-stream scenario, batch 1 and one thread", 2),
        (["bench", MODEL, "--threads", "2"], "single-stream scenario, batch 1 and one thread", 2),
        (["bench", MODEL, "--scenario", "offline"], "single-stream scenario, batch 1 and one thread", 2),
        (["bench", MODEL, "--duration", "3601s"], "at most 3600s", 2),
        (["bench", MODEL, "-r", "litert"], "runs only its own firmware", 3),
        (["bench", data.path("digits_cnn.onnx")], "no installed runtime reads", 3),
    ],
)
def test_what_a_board_can_not_do_is_said_before_it_measures(capsys, words, message, code):
    with fake_board() as board:
        assert message in refused(capsys, *words, "-d", f"serial://{board.port}", code=code)
    assert not [each for each in board.commands if each.startswith("infer")]


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("serial://ttyACM0", "is not the path of a port"),
        ("serial:///dev/ttyACM0?baud=fast", "baud must be a number"),
        ("serial:///dev/ttyACM0?baud=0", "baud must be a number"),
        ("serial:///dev/ttyACM0?parity=even", "unknown option 'parity'"),
        ("serial:///dev/ttyACM0?input=int4", "input must be tensor, uint8, float32"),
    ],
)
def test_wrong_addresses(url, message):
    with pytest.raises(BadInput, match=re.escape(message)):
        open_transport(Device(name=url, url=url))


# --- hostile boards and ports ---


def test_a_missing_port_and_a_file_that_is_no_port(capsys, tmp_path):
    found = refused(capsys, "bench", MODEL, "-d", "serial:///dev/ttyNOTHING")
    assert "/dev/ttyNOTHING does not exist" in found and "/dev/serial/by-id" in found
    (tmp_path / "file").write_text("")
    assert "is not a serial port" in refused(capsys, "bench", MODEL, "-d", f"serial://{tmp_path / 'file'}")
    assert "is not a serial port" in refused(capsys, "bench", MODEL, "-d", f"serial://{tmp_path}")


def test_a_port_without_permission(capsys, monkeypatch):
    real = os.open

    def as_another_user(path, *words, **more):  # root may open every file
        if path == "/dev/ttyDenied":
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(path, *words, **more)

    monkeypatch.setattr(os, "open", as_another_user)
    found = refused(capsys, "bench", MODEL, "-d", "serial:///dev/ttyDenied")
    assert "may not be used by this user" in found and "dialout" in found


def test_a_port_that_another_program_uses(capsys):
    with fake_board() as board:
        first = greeted(board)
        assert "is used by another program" in refused(capsys, "bench", MODEL, "-d", f"serial://{board.port}")
        first.close()


def test_a_silent_board(capsys, clock):
    clock.silent_when = lambda: True
    with fake_board(override=lambda command: b"") as board:
        found = refused(capsys, "bench", MODEL, "-d", f"serial://{board.port}?baud=9600")
    assert "no answer to 'name' within 600 s" in found and "9600 baud" in found


def test_garbage_of_a_wrong_speed(capsys, clock):
    with fake_board(override=lambda command: b"\xf8\x00\xfe\x9c\x80\n\xe0") as board:
        clock.silent_when = lambda: board.answers > 0
        found = refused(capsys, "bench", MODEL, "-d", f"serial://{board.port}")
    assert "that are not MLPerf Tiny's protocol" in found and "it was 115200 baud" in found


def test_the_boot_text_and_its_m_ready_are_dropped():
    with fake_board(boot="\0\0Booting...\r\nm-timestamp-mode-performance\r\nm-init-done\r\nm-ready\r\n") as board:
        found = greeted(board)
        assert (found.name, found.model) == ("fake board", "custom")
        assert found.infer(10, warmup=2, seconds=600).elapsed_us == 20_000


def test_a_command_that_was_lost_while_booting_is_repeated(monkeypatch):
    monkeypatch.setattr(board_module, "RETRY_S", 0.3)  # real time: a period
    ignored = iter([b"", b"m-na"])
    with fake_board(override=lambda command: next(ignored, None)) as board:
        found = greeted(board)
    assert found.name == "fake board" and board.commands[:3] == ["name", "name", "name"]


ANSWERS = {
    "restart": (b"m-warmup-done\r\nm-init-done\r\nm-ready\r\n", "the board restarted during 'infer", "EngineError"),
    "error": (b"e-[Inference iterations must be >0]\r\nm-ready\r\n", "answered 'infer", "EngineError"),
    "no times": (b"m-infer-done\r\nm-ready\r\n", "has 0 times (m-lap-us) instead of 2", "EngineError"),
    "timer stands": (b"m-lap-us-5\r\nm-lap-us-5\r\nm-ready\r\n", "timer went from 5 to 5", "EngineError"),
    "timer back": (b"m-lap-us-90000000\r\nm-lap-us-5\r\nm-ready\r\n", "timer went from 90000000 to 5", "EngineError"),
    "other count": (b"m-infer-start-7\r\nm-ready\r\n", "made 7 inferences instead of", "EngineError"),
    "words": (b"m-lap-us-1\nm-lap-us-9\nm-results-[a,b]\nm-ready\n", "not a list of numbers: 'a,b'", "EngineError"),
    "flood": (b"m-results-[0.5]\r\n" * 20_000, "does not end", "EngineError"),
    "partial": (b"m-infer-st", "no m-ready after 'infer", "Timeout"),
    "unplugged": (b"unplug", "is gone", "LinkLost"),
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_a_board_that_fails_in_the_second_session_keeps_the_first(capsys, monkeypatch, request, kind):
    answer, message, cause = ANSWERS[kind]
    windows, said = [], []
    if kind == "partial":  # the board says no more: the time until the host gives up is scripted
        request.getfixturevalue("clock").silent_when = lambda: bool(said) and board.answers > said[0]
        monkeypatch.setattr(board_module, "QUIET_S", 0.0)
    with fake_board(latency_us=2000, results=[0.1] * CLASSES) as board:

        def override(command):
            windows.extend([command] if command == "infer 500 0" else [])
            if len(windows) == 3 and command == "infer 500 0":
                said.append(board.answers)
                return answer
            return None

        board.override = override
        run, rows = bench(capsys, board, "--sessions", "2", code=4)
    assert run["status"] == "failed" and message in run["failure"]["message"], run["failure"]
    assert run["failure"]["cause"] == cause and run["failure"]["advice"]
    assert rows["latency"]["samples"] == pytest.approx([2e-3, 2e-3])  # of the session before


def test_input_that_the_board_does_not_confirm(capsys):
    lost = {"db load 4096": b"Supplied buffer size 4096 exceeds maximum of 1024\nm-ready\n"}
    with fake_board(override=lost.get) as board:
        board._lines = lambda words: [] if words[0] == "db" else type(board)._lines(board, words)
        run, _ = bench(capsys, board, "--sessions", "1", code=4)
    assert "did not confirm 4096 B of input" in run["failure"]["message"]
