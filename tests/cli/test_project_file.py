"""``edgewise.toml``: defaults of options for a folder, and what may not stand there."""

import json
import os

import pytest

import edgewise
from edgewise.cli.main import run
from edgewise.cli.parsing import Parsed
from edgewise.cli.project import PLACES, read_project
from edgewise.device import devices
from edgewise.verbs.command import Command
from edgewise.verbs.option import option


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EDGEWISE_STORE", raising=False)
    monkeypatch.delenv("EDGEWISE_DEVICES", raising=False)
    (tmp_path / ".git").mkdir()
    return tmp_path


def write(folder, text):
    (folder / "edgewise.toml").write_text(text)


def settings(capsys, *words):
    assert run(["config", "show", "--json", *words]) == 0
    found = json.loads(capsys.readouterr().out)
    return {row["setting"]: (row["value"], row["source"]) for row in found["settings"]}


@pytest.fixture
def bench(folder):
    """The request that `bench` makes of these words."""

    def request(capsys, *words):
        code = run(["bench", "m.onnx", "--dry-run", "--json", *words])
        printed = capsys.readouterr()
        return code, json.loads(printed.out) if code == 0 else None, printed.err

    (folder / "m.onnx").write_bytes(b"")
    return request


def test_options_of_the_nearest_file_hold_and_the_command_line_comes_first(folder, bench, capsys, monkeypatch):
    write(folder, '[bench]\nruntime = ["fake"]\nthreads = [1, 2]\nsessions = 3\n[profile]\nsessions = 9\n')
    below = folder / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    (below / "m.onnx").write_bytes(b"")
    code, request, err = bench(capsys)
    assert code == 0
    assert (request["runtimes"], request["threads"], request["sessions"]) == (["fake"], [1, 2], 3)
    assert "edgewise.toml sets --threads 1 --threads 2 --sessions 3 --runtime fake" in err
    code, request, err = bench(capsys, "--sessions", "5", "--quiet")
    assert code == 0 and request["sessions"] == 5 and request["threads"] == [1, 2] and "edgewise.toml" not in err
    (folder / "a" / "edgewise.toml").write_text("[bench]\nsessions = 4\n")
    code, request, _ = bench(capsys)
    assert code == 0 and request["sessions"] == 4 and request["threads"] == []


def test_a_file_above_the_repository_is_not_read(folder, monkeypatch):
    write(folder, "[bench]\nsessions = 3\n")
    inner = folder / "other"
    (inner / ".git").mkdir(parents=True)
    assert read_project().file == folder / "edgewise.toml"
    monkeypatch.chdir(inner)
    assert read_project().file is None


def test_in_a_folder_that_was_removed_commands_work(folder, capsys, monkeypatch):
    gone = folder / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert run(["zoo", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


def test_the_store_and_the_devices_of_the_project(folder, capsys, monkeypatch):
    write(folder, 'store = "runs/all.db"\ndevices-file = "boards.toml"\n')
    (folder / "boards.toml").write_text('[pi4]\nurl = "ssh://pi@pi4"\n')
    assert settings(capsys) == {
        "store": (str(folder / "runs/all.db"), "edgewise.toml"),
        "devices-file": (str(folder / "boards.toml"), "edgewise.toml"),
    }
    assert run(["devices", "list"]) == 0 and "pi4" in capsys.readouterr().out
    assert "EDGEWISE_STORE" not in os.environ and "EDGEWISE_DEVICES" not in os.environ
    monkeypatch.setenv("EDGEWISE_STORE", "sqlite:///other.db")
    assert settings(capsys)["store"] == (str(folder / "other.db"), "EDGEWISE_STORE")


def test_the_variable_of_the_devices_is_theirs():
    assert PLACES["devices-file"] == devices.ENVIRONMENT_VARIABLE


def test_a_password_in_the_store_is_not_shown(folder, capsys):
    write(folder, 'store = "postgresql://me:geheim@db/runs"\n')
    value, source = settings(capsys)["store"]
    assert "geheim" not in value and "me:***@db/runs" in value and source == "edgewise.toml"


def test_files_are_named_from_the_folder_of_the_file(folder, bench, capsys, monkeypatch):
    write(folder, '[bench]\ninput_data = "x.npz"\n')
    (folder / "x.npz").write_bytes(b"")
    below = folder / "a"
    below.mkdir()
    monkeypatch.chdir(below)
    _, request, _ = bench(capsys)
    assert request["input_data"] == str(folder / "x.npz")


def test_a_flag_that_says_no_and_one_that_is_required(folder):
    write(folder, '[try]\nmeters = false\nrate = 2.5\nname = ["a", "b"]\n')
    given = {}
    options = (
        option("--meters/--no-meters", "X", "Meters.", bool, default=True),
        option("--rate X", "X", "Rate.", float, default=..., minimum=1),
        option("--name A", "X", "Names.", list[str]),
    )
    command = Parsed("try", Command(lambda values: given.update(values), options))
    import click

    project = read_project()
    group = click.Group("edgewise", {"try": command})
    with group.make_context("edgewise", ["try"], obj=project) as context:
        context.command.invoke(context)
    assert given == {"meters": False, "rate": 2.5, "name": ["a", "b"]}


@pytest.mark.parametrize(
    ("text", "message", "advice"),
    [
        ("[bench]\nruntim = 'a'\n", "[bench] runtim is no option of this command", "did you mean runtime?"),
        ("[bench]\nthreads = true\n", "threads must be a text, a number or a list of them", "--threads"),
        ("[bench]\nquiet = 'yes'\n", "quiet must be true or false", "--quiet"),
        ("[bench]\nruntime = [['a']]\n", "runtime must be a text, a number or a list of them", "docs/cli.md"),
        ("[bench]\nsessions = 'x'\n", "--sessions must be a whole number, not 'x'", "edgewise bench --help"),
        ("[bench]\ninput_data = 'a.py:load'\n", "names Python code", "type --input-data"),
        ("bench = 3\n", "bench is not a table", "write [bench]"),
        ("store = 3 = 4\n", "can't be read", "correct it"),
    ],
)
def test_what_is_wrong_is_one_error_with_the_file(folder, bench, capsys, text, message, advice):
    write(folder, text)
    code, _, err = bench(capsys)
    assert code == 2 and err.count("error:") == 1
    assert str(folder / "edgewise.toml") in err and message in err and advice in err


def test_show_checks_the_whole_file(folder, capsys):
    write(folder, "[benc]\nsessions = 3\n")
    assert run(["config", "show"]) == 2 and "[benc] is no command" in capsys.readouterr().err
    write(folder, "[runs.lst]\nall = true\n")
    assert run(["config", "show"]) == 2 and "lst is no command of 'runs'" in capsys.readouterr().err
    write(folder, "[profile]\nsessions = 3\n")
    assert settings(capsys)["profile --sessions"] == ("3", "edgewise.toml")
    assert run(["config", "show"]) == 0
    assert "profile --sessions = 3 (edgewise.toml)" in capsys.readouterr().out


def test_python_does_not_read_the_file(folder):
    write(folder, "[bench]\nsessions = 'x'\n")
    with pytest.raises(edgewise.BadInput, match="no such file"):
        edgewise.bench("nothing.onnx", runtimes=["fake"])


@pytest.mark.parametrize("words", [["-m", "m.onnx"], ["--model", "m.onnx"], ["--model=m.onnx"]])
def test_the_model_may_have_a_flag(folder, capsys, words):
    (folder / "m.onnx").write_bytes(b"")
    assert run(["bench", *words, "--runtime", "fake", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["models"] == ["m.onnx"]


def test_words_behind_two_dashes_are_the_programs_own(folder, capsys):
    assert run(["exec", "--dry-run", "--json", "--", "tool", "-m", "x"]) == 0
    assert json.loads(capsys.readouterr().out)["command"] == ["tool", "-m", "x"]
