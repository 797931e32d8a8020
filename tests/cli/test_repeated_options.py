"""An option that takes one value is refused where it is given several; nothing of a command line is left out."""

from __future__ import annotations

import pytest

from edgewise.cli.main import run
from edgewise.errors import ExitCode
from messages import has, is_in, says, wording


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("estimate m.tflite -d a --device b", says("given-times", flag=has("--device"), count=2)),
        ("profile m.onnx -d local -d pi4", wording("give-once-takes-one-value", path="edgewise profile")),
        ("evaluate m.onnx --data a --data b --data c", says("given-times", flag=has("--data"), count=3)),
        ("optimize m.onnx -o best -o page.html", "; --report page.html writes a report besides"),
        ("optimize m.onnx -o page.html --output best", "; --report page.html writes a report besides"),
        ("optimize m.onnx -o best -o worse", "; --report F writes a report besides"),
        ("bench m.onnx --timeout 1s --timeout=2s", says("given-times", flag=has("--timeout"), count=2)),
        ("bench m.onnx --meters --no-meters", says("given-times", flag=has("--meters/--no-meters"), count=2)),
        ("devices check a --engines x --engines y", "'edgewise devices check' takes one value"),
        ("runs list --since 1d --since 2d", says("given-times", flag=has("--since"), count=2)),
        ("bench m.onnx --shape x=1 --shape x=2", says("given-twice-in-words", name=has("--shape: x"))),
        ("inspect m.py:f --what-if a=1 --what-if a=2", wording("give-values-together-0-5", strip="a")),
        (
            "compare a.onnx b.onnx --floor latency=1us,latency=2us",
            says("given-twice-in-words", name=has("--floor: latency")),
        ),
        ("bench m.onnx --set a=1 --set a=2", says("given-twice-in-words", name=has("--set: a"))),
    ],
)
def test_a_second_value_is_refused(words, told, capsys):
    assert run(words.split()) == ExitCode.BAD_INPUT
    assert is_in(told, " ".join(capsys.readouterr().err.split()))


@pytest.mark.parametrize("words", ["devices list --json --json", "devices list --help --file a --file b"])
def test_a_repeated_flag_changes_nothing_and_help_is_always_given(words, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("EDGEWISE_DEVICES", str(tmp_path / "devices.toml"))
    assert run(words.split()) == 0
    assert capsys.readouterr().err == ""


def test_what_stands_behind_two_dashes_is_the_other_programs_own(capsys):
    assert run(["exec", "--dry-run", "--", "tool", "--memory", "1", "--memory", "2"]) == 0
    assert "--memory 1 --memory 2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("word", "advice"),
    [
        ("list", "edgewise runs list or edgewise devices list or edgewise atlas list"),
        ("ls", "edgewise runs list or edgewise devices list or edgewise atlas list"),
        ("tag", "edgewise runs tag"),
        ("benhc", "edgewise bench"),
        ("zzz", "see 'edgewise --help'"),
    ],
)
def test_an_unknown_command_is_looked_for_in_the_groups_too(word, advice, capsys):
    assert run([word]) == ExitCode.BAD_INPUT
    error, told = capsys.readouterr().err.splitlines()
    assert (error, told) == (f"error: No such command '{word}'.", f"try: {advice}")
