"""From a float network to a file that a device which is not at hand runs: the advice as it is typed ends the search."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from edgewise.cli.main import run
from edgewise.errors import ExitCode
from edgewise.estimating.mcu.cortex_m import emulation_availability
from messages import wording

pytestmark = pytest.mark.engine


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch) -> Path:
    pytest.importorskip("ai_edge_quantizer")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EDGEWISE_STORE", str(tmp_path / "runs.db"))
    assert run(["example", "."]) == ExitCode.DONE
    return tmp_path


@pytest.mark.parametrize("device", ["nucleo-l4r5zi", "ethos-u55-128", "cortex-m4"])
def test_the_advice_of_an_estimate_ends_at_a_file_that_it_accepts(device, capsys):
    if device.startswith("ethos"):
        pytest.importorskip("ethosu.vela")
    elif not (missing := emulation_availability()):
        pytest.skip(missing.reason)
    assert run(["estimate", "model.tflite", "-d", device]) == ExitCode.RUN_FAILED
    err = " ".join(capsys.readouterr().err.split())
    command = re.search(r"'edgewise (optimize .*)'", err)
    assert command is not None and command[1] == f"optimize model.tflite --data DATA --task TASK -d {device}"
    words = shlex.split(command[1].replace("DATA", "digits.npz").replace("TASK", "classification"))
    words += ["--prepare", "scale=1/255", "--limit", "200", "-o", "out", "--json"]
    assert run(words) == ExitCode.DONE
    captured = capsys.readouterr()
    # A wrong preparation is seen before any variant is made.
    told = captured.err.partition("Variants: ")[0]
    assert re.search(r"\nthe original: Top-1 accuracy 9\d\.\d+ %\n", told)
    found = json.loads(captured.out)
    chosen = next(one for one in found["variants"] if one["id"] == found["chosen"])
    time = "cpu_cycles" if device == "cortex-m4" else "latency"
    assert chosen["metrics"][time]["basis"] == "estimated" and chosen["metrics"]["accuracy_top1"]["basis"] == "measured"
    assert chosen["metrics"]["accuracy_top1"]["value"] > 0.9 and found["baseline"]["device"]["refused"]
    file = found["files"]["chosen"]
    assert run(["estimate", file, "-d", device, "--json"]) == ExitCode.DONE
    estimates = {row["metric"]: row for row in json.loads(capsys.readouterr().out)["estimates"]}
    for metric in (time, "memory_sram", "flash"):
        for key in ("value", "at_least"):
            assert estimates[metric][key] == chosen["metrics"][metric][key], metric
    assert estimates["flash"]["value"] or estimates["flash"]["at_least"]
    # The command that makes the file again is for the device, too.
    assert f"--device {device}" in found["command"] or f"-d {device}" in found["command"]
    # A file that the device runs already needs nothing.
    assert run(["optimize", file, *words[2:]]) == ExitCode.DONE
    again = json.loads(capsys.readouterr().out)
    assert again["chosen"] is None and again["baseline"]["metrics"][time]["value"] == estimates[time]["value"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["model.tflite"], ExitCode.BAD_INPUT, wording("add-data-path")),
        (
            ["model.onnx", "--data", "digits.npz"],
            ExitCode.BAD_INPUT,
            "edgewise convert model.onnx --to tflite, then edgewise optimize model.tflite --data digits.npz -d nucleo-l4r5zi",
        ),
        (
            ["model.tflite", "-d", "stm32l4r5"],
            ExitCode.BAD_INPUT,
            wording("did-you-mean-in-devices", near="nucleo-l4r5zi"),
        ),
        (["model.tflite", "-d", "no-such-thing"], ExitCode.BAD_INPUT, "unknown device 'no-such-thing'"),
    ],
)
def test_what_cant_be_optimised_for_a_device_is_one_error(words, code, said, capsys):
    device = [] if "-d" in words else ["-d", "nucleo-l4r5zi"]
    assert run(["optimize", *words, *device, "-o", "out"]) == code
    err = " ".join(capsys.readouterr().err.split())
    assert said in err and err.count("error:") == 1 and "Traceback" not in err
