"""Values of the command line that are converted without Typer are the values that Typer makes."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
import typer

from edgewise.cli.main import MOST_OPTIONS, _place, _take_plain_values, build, commands, run

LINES = [
    ["serve"],
    ["serve", "--port", "0", "--root", ".", "--root", "no such folder", "--host", "lab", "--open", "--no-open"],
    ["serve", "--port", "65536"],
    ["serve", "--port", "-1"],
    ["serve", "--port", "+7"],
    ["serve", "--port", "٣"],
    ["serve", "--port", "9" * 5000],
    ["serve", "--root", ""],
    ["bench", "a.onnx", "b.onnx", "--threads", "1,2", "--seed", "007", "--fps", "2.5", "-o", "x.md", "-q"],
    ["bench", "größe.onnx", "--device", "\udcff"],
    ["bench"],
    ["bench", "a.onnx", "--iterations", "many"],
    ["bench", "a.onnx", "--nothing"],
    ["profile", "a.onnx", "--top", "-1"],
    ["runs", "list", "--limit", "3"],
    ["devices", "add", "x"],
    *([name] for name in commands()),
]


def outcome(group, line, capsys):
    """The values that a command line gives a command, or the error that it ends with, and what it prints."""
    found = []

    def take(command):
        for inner in getattr(command, "commands", {}).values():
            take(inner)
            inner.callback = lambda **values: found.append(values)

    take(group)
    try:
        group(line, standalone_mode=False)
    except Exception as error:  # of Typer's own family
        found.append((type(error), error.format_message() if hasattr(error, "format_message") else str(error)))
    return found, capsys.readouterr()


def test_values_and_errors_are_those_of_typer(capsys):
    plain, by_typer = (typer.main.get_command(build("*")) for _ in range(2))
    _take_plain_values(plain)
    for line in LINES:
        assert outcome(plain, line, capsys) == outcome(by_typer, line, capsys), line


def test_a_common_command_line_is_read_without_pydantic():
    code = (
        "import sys, typer; from edgewise.cli.main import _take_plain_values, build\n"
        "group = typer.main.get_command(build('bench')); _take_plain_values(group)\n"
        "context = group.commands['bench'].make_context('bench', ['a.onnx', '--threads', '1,2', '--seed', '3'])\n"
        "print(context.params['models'], context.params['seed'], 'pydantic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "['a.onnx'] 3 False\n"


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_is_printed_and_nothing_is_run(capsys, flag):
    group = typer.main.get_command(build("serve"))
    _take_plain_values(group)
    assert outcome(group, ["serve", flag], capsys)[0] == []


@pytest.mark.parametrize("words", [[], ["bench"], ["runs"], ["runs", "show"], ["studio", "export"]])
def test_help_shows_no_types_of_python(capsys, words):
    assert run([*words, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "--help" in shown and "bool" not in shown and "list[" not in shown


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["runs", "delete", "last"], " runs rm"),
        (["devices", "delete", "x"], " devices rm"),
        (["quantize", "a.onnx"], " optimize"),
        (["runs", "nothing"], " runs --help'"),
    ],
)
def test_another_word_for_a_command_leads_to_it(capsys, words, meant):
    assert run(words) == 2
    assert capsys.readouterr().err.splitlines()[1].endswith(meant)


def test_threads_have_a_short_flag(capsys):
    assert run(["bench", "a.onnx", "-t", "1,2", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["threads"] == [1, 2]


def test_the_help_is_in_groups_with_three_examples(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["--help"]) == 0
    text = capsys.readouterr().out
    assert re.findall("╭─ (\\w+)", text)[1:] == ["Measure", "Understand", "Improve", "Predict", "Keep"]
    rows = [line for line in text.splitlines() if line.startswith("│ ")]
    assert [line.split()[1] for line in rows[3:]] == [
        name for name, _ in sorted(commands().items(), key=_place)
    ]  # each on one line
    assert text.count("edgewise bench ") == text.count("edgewise optimize ") == text.count("edgewise estimate ") == 1


@pytest.mark.parametrize("name", ["bench", "profile", "evaluate", "optimize", "compare", "gate", "estimate"])
def test_the_help_of_a_long_command_is_short_and_leads_to_the_long_one(capsys, name):
    options = [
        one
        for one in typer.main.get_command(build(name)).commands[name].params
        if one.param_type_name == "option" and not one.hidden
    ]
    assert len(options) > MOST_OPTIONS
    shown = {}
    for flag in ("--help", "--help-all"):
        assert run([name, flag]) == 0
        words = set(capsys.readouterr().out.split())
        shown[flag] = {one.name for one in options if words & {*one.opts}}
    assert shown["--help-all"] == {one.name for one in options}
    assert {"output", "json"} <= shown["--help"] < shown["--help-all"] and len(shown["--help"]) <= 20
