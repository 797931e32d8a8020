"""Words of a command line become values, or one error; help shows what a command takes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from edgewise.cli.help import MOST_OPTIONS
from edgewise.cli.main import commands, run
from edgewise.verbs.command import COMMANDS, Command
from edgewise.verbs.option import option
from edgewise.verbs.verb import VERBS
from edgewise.verbs.words import words
from edgewise.version import __version__
from patience import LIMIT_S


@pytest.fixture
def given(monkeypatch):
    """The values that a command line gives its command, which then does nothing."""
    found = []
    monkeypatch.setattr(Command, "__call__", lambda command, values: found.append(values) or 0)

    def read(line):
        assert run(line if isinstance(line, list) else line.split()) == 0
        return found.pop()

    return read


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("serve", "port", 8765),
        ("serve --port 0", "port", 0),
        ("serve --port +7", "port", 7),
        ("serve --root . --root none", "root", [Path(), Path("none")]),
        (["serve", "--root", ""], "root", [Path()]),
        ("serve", "root", None),
        ("serve --no-open", "open", False),
        ("bench a b", "models", ["a", "b"]),
        ("bench a -- -b --nothing", "models", ["a", "-b", "--nothing"]),
        ("bench a --seed -5", "seed", -5),
        ("bench a --seed=-5", "seed", -5),
        ("bench a --seed 007", "seed", 7),
        ("bench a --seed 5.0", "seed", 5),
        ("bench a --fps 2.5", "fps", 2.5),
        ("bench a -rA -r B --runtime=C", "runtime", ["A", "B", "C"]),
        ("bench a -qrA -t1", "threads", ["1"]),
        ("bench a", "meters", True),
        ("bench a --no-meters", "meters", False),
        (["bench", "a", "--device", ""], "device", [""]),
        (["bench", "größe", "--device", "\udcff"], "device", ["\udcff"]),
        ("optimize a", "sensitivity", None),
        ("optimize a --no-sensitivity", "sensitivity", False),
        ("estimate", "models", None),
        ("exec --cpus 0.5 -- tool --help --debug --version", "command", ["tool", "--help", "--debug", "--version"]),
        ("exec tool --debug", "command", ["tool"]),
        ("--debug exec tool", "command", ["tool"]),
        ("runs rm -y a", "yes", True),
    ],
)
def test_words_become_values(given, line, name, value):
    assert given(line)[name] == value


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("serve --port 65536", "--port must be at most 65535, not 65536"),
        ("serve --port=-1", "--port must be at least 0, not -1"),
        (["serve", "--port", "9" * 5000], f"--port must be a whole number, not '{'9' * 60}'"),
        (["bench", "a", "--seed", ""], "--seed must be a whole number, not ''"),
        ("bench a --seed 1.5", "--seed must be a whole number, not '1.5'"),
        ("bench a --fps many", "--fps must be a number, not 'many'"),
        ("bench a --seed", "Option '--seed' requires an argument."),
        ("bench a --json=1", "Option '--json' does not take a value."),
        ("bench", "Missing argument 'MODEL'."),
        ("gate a b", "Got unexpected extra argument"),
        ("--nothing", "No such option: --nothing"),
        ("runs tag last", "give the run that the tag 'last' is for, or --delete"),
        ("runs tag a last --delete", "give a run or --delete, not both"),
        ("estimate a.tflite", "give a device, or --fits"),
        ("estimate -d cortex-m4", "give a model, and either a device or --fits"),
    ],
)
def test_what_can_not_be_read_is_one_error(capsys, line, told):
    assert run(line if isinstance(line, list) else line.split()) == 2
    out, err = capsys.readouterr()
    error, advice = err.splitlines()
    assert out == "" and error.startswith("error: ") and told in error and advice.startswith("try: ")


def test_several_limits_of_a_program_are_several_runs(capsys):
    assert run(["exec", "--cpus", "1,2", "--", "tool"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "error: --cpus must be a number, not '1,2'",
        "try: execute it once with each number, then run 'edgewise compare last~1 last'",
    ]


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("runs delete last", "edgewise runs rm"),
        ("devices delete x", "edgewise devices rm"),
        ("quantize a.onnx", "edgewise optimize"),
        ("benhc a.onnx", "edgewise bench"),
        ("runs lst", "edgewise runs list"),
        ("runs nothing", "see 'edgewise runs --help'"),
        ("bench a --runtimes x", "did you mean --runtime? see 'edgewise bench --help'"),
        ("bench a --nothing", "see 'edgewise bench --help'"),
        ("bench a --durations 5", "did you mean --duration or --iterations? see 'edgewise bench --help'"),
        ("exec --memory 256MiB python3 -c pass", "write -- before the program, so that its options are its own; see "),
        ("runs tag last", "'edgewise runs tag NAME last' tags the newest run"),
        ("estimate a.tflite", "'edgewise estimate --devices' lists devices"),
        ("runs list -o x", "edgewise runs export -o FILE"),
        ("compare a b --data c", "'edgewise gate B --baseline A --max-regression 3% --data DATA' judges accuracy and "),
        ("compare a b --data c -t 1", "'edgewise gate B --baseline A --max-regression 3% --data DATA' judges accuracy"),
        ("compare a b --task detection", "'edgewise gate B --baseline A"),
        (
            "inspect a b",
            "'edgewise diff A B' shows what changed in the network, without timing; 'edgewise compare A B'",
        ),
        ("evaluate a b --nothing", "see 'edgewise evaluate --help'"),
        ("devices add x", "write 'edgewise devices add NAME URL'; see 'edgewise devices add --help'"),
        (
            "firmware a -o y",
            "--device takes: Core or board, such as cortex-m4 or nucleo-l4r5zi; see 'edgewise firmware ",
        ),
        ("bench a --seed", "see 'edgewise bench --help'"),
    ],
)
def test_the_advice_leads_to_what_was_meant(capsys, line, advice):
    assert run(line.split()) == 2
    assert capsys.readouterr().err.splitlines()[1].startswith(f"try: {advice}")


@pytest.mark.parametrize("line", ["--version", "bench --version", "--debug --version"])
def test_the_version_is_printed_wherever_it_is_asked_for(capsys, line):
    assert run(line.split()) == 0
    assert capsys.readouterr().out == f"edgewise {__version__}\n"


def test_an_option_is_declared_in_one_line():
    one = option("-r --runtime A,B", "What to vary", "Runtimes", list[str], read=words)
    assert (one.name, one.flags, one.metavar, one.repeatable, one.item) == (
        "runtime", ("-r", "--runtime"), "A,B", True, str,
    )  # fmt: skip
    meters = option("--meters/--no-meters", "Output", "Read sensors", bool, default=True)
    assert (meters.flags, meters.off, meters.metavar, meters.shown_default) == (
        ("--meters",), "--no-meters", "", "--meters",
    )  # fmt: skip


def loaded_after(*line):
    """Modules that a command line loads."""
    code = f"import sys; from edgewise.cli.main import run; run({[*line]!r}); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=LIMIT_S)
    return set(done.stderr.split())


def test_declarations_load_no_library_of_a_door():
    code = "import sys, edgewise.verbs.shared_options, edgewise.verbs.command; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=LIMIT_S)
    assert not {"click", "rich", "pydantic", "numpy", "sqlalchemy"} & {*done.stdout.split()}


def test_help_loads_only_the_command_that_is_asked_for():
    modules = {f"edgewise.verbs.{name}.request" for name in VERBS.names()} | {
        COMMANDS.location(name).partition(":")[0] + ".command" for name in COMMANDS.names()
    }
    heavy = modules | {"pydantic", "numpy", "sqlalchemy"}
    assert not loaded_after("--help") & heavy
    assert loaded_after("bench", "--help") & heavy == {"edgewise.verbs.bench.request", "pydantic"}


@pytest.mark.parametrize("words", [[], ["bench"], ["runs"], ["runs", "show"], ["studio", "export"]])
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_shows_no_types_of_python(capsys, words, flag):
    assert run([*words, flag]) == 0
    shown = capsys.readouterr().out
    assert "--help" in shown and "bool" not in shown and "list[" not in shown


def test_threads_have_a_short_flag(capsys):
    assert run(["bench", "a.onnx", "-t", "1,2", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["threads"] == [1, 2]


def test_the_help_is_in_groups_with_three_examples(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["--help"]) == 0
    text = capsys.readouterr().out
    assert re.findall("╭─ (\\w+)", text)[1:] == ["Measure", "Understand", "Improve", "Predict", "Keep"]
    rows = [line for line in text.splitlines() if line.startswith("│ ")]
    assert [line.split()[1] for line in rows[3:]] == list(commands())  # each on one line
    lines = [line.strip() for line in text.splitlines()]
    assert "edgewise estimate int8.tflite -d nucleo-l4r5zi  what would a board take?" in lines
    assert "edgewise bench model.onnx --threads 1,2         which engine is fastest here?" in lines
    assert text.count("edgewise bench ") == text.count("edgewise optimize ") == text.count("edgewise estimate ") == 1


@pytest.mark.parametrize("words", [[], ["runs"], ["studio"]])
def test_a_group_without_a_command_shows_its_help_as_bad_usage(capsys, words):
    assert run(words) == 2
    text = capsys.readouterr().out
    assert "Usage: edgewise" in text and ("edgewise serve" in text or words != ["studio"])


def test_the_short_help_of_convert_has_the_format_which_most_conversions_need(capsys):
    assert run(["convert", "--help"]) == 0
    assert "│ --to FORMAT " in capsys.readouterr().out


@pytest.mark.parametrize("name", ["bench", "profile", "evaluate", "optimize", "compare", "gate", "estimate", "bisect"])
def test_the_help_of_a_long_command_is_short_and_leads_to_the_long_one(capsys, name):
    options = [one for one in VERBS.get(name).all_options() if one.flags]
    assert len(options) > MOST_OPTIONS
    shown = {}
    for flag in ("--help", "--help-all"):
        assert run([name, flag]) == 0
        text = capsys.readouterr().out
        first = {*re.findall(r"^│ (?:[ *]  )?(--[a-z-]+)", text, re.MULTILINE)}
        shown[flag] = {one.name for one in options if one.flag in first}
        rest = len(options) - len(shown[flag])
        assert (f"{rest} more options: edgewise {name} --help-all" in text) == (flag == "--help")
    assert shown["--help-all"] == {one.name for one in options}
    assert {"output", "json"} <= shown["--help"] < shown["--help-all"] and len(shown["--help"]) <= 20
    assert {one.name for one in options if one.is_required} <= shown["--help"]
