"""An option that takes one value is refused where it is given several; nothing of a command line is left out."""

from __future__ import annotations

import pytest

from edgewise.cli.main import run
from edgewise.errors import ExitCode


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("estimate m.tflite -d a --device b", "--device is given 2 times"),
        ("profile m.onnx -d local -d pi4", "'edgewise profile' takes one value"),
        ("evaluate m.onnx --data a --data b --data c", "--data is given 3 times"),
        ("bench m.onnx --timeout 1s --timeout=2s", "--timeout is given 2 times"),
        ("bench m.onnx --meters --no-meters", "--meters/--no-meters is given 2 times"),
        ("devices check a --engines x --engines y", "'edgewise devices check' takes one value"),
        ("runs list --since 1d --since 2d", "--since is given 2 times"),
        ("bench m.onnx --shape x=1 --shape x=2", "--shape: x is given twice"),
        ("inspect m.py:f --what-if a=1 --what-if a=2", "give its values together: a="),
        ("compare a.onnx b.onnx --floor latency=1us,latency=2us", "--floor: latency is given twice"),
        ("bench m.onnx --set a=1 --set a=2", "--set: a is given twice"),
    ],
)
def test_a_second_value_is_refused(words, told, capsys):
    assert run(words.split()) == ExitCode.BAD_INPUT
    assert told in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("words", ["devices list --json --json", "devices list --help --file a --file b"])
def test_a_repeated_flag_changes_nothing_and_help_is_always_given(words, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("EDGEWISE_DEVICES", str(tmp_path / "devices.toml"))
    assert run(words.split()) == 0
    assert capsys.readouterr().err == ""


def test_what_stands_behind_two_dashes_is_the_other_programs_own(capsys):
    assert run(["exec", "--dry-run", "--", "tool", "--memory", "1", "--memory", "2"]) == 0
    assert "--memory 1 --memory 2" in capsys.readouterr().out
