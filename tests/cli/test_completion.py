"""A shell completes commands, flags, files and values; what it is told comes from the scripts that edgewise prints."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from edgewise.cli.main import run
from edgewise.store import open_store
from made_runs import made_run
from patience import LIMIT_S


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with models, a store with two runs, a registered device, and ``edgewise`` on the path."""
    here = tmp_path / "here"
    (tmp_path / "bin").mkdir()
    here.mkdir()
    for name in ("model.onnx", "model.tflite", "notes.txt"):
        (here / name).touch()
    script = tmp_path / "bin" / "edgewise"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m edgewise "$@"\n')
    script.chmod(0o755)
    with open_store(str(tmp_path / "runs.db")) as store:
        for number in (1, 2):
            store.save(made_run(number))
        store.tag("baseline", made_run(1).id)
    (tmp_path / "devices.toml").write_text('[pi4]\nurl = "ssh://pi@192.0.2.7"\n')
    (tmp_path / "runs.calibrations").mkdir()
    (tmp_path / "runs.calibrations" / "my-board.json").write_text("{}")
    monkeypatch.setenv("EDGEWISE_STORE", str(tmp_path / "runs.db"))
    monkeypatch.setenv("EDGEWISE_DEVICES", str(tmp_path / "devices.toml"))
    monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(here)
    return tmp_path


@pytest.fixture
def offered(place, monkeypatch, capsys):
    """The words that edgewise offers for the last word of a line, in the protocol of bash."""

    def ask(line):
        monkeypatch.setenv("_EDGEWISE_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
        assert run([]) == 0
        out, err = capsys.readouterr()
        assert err == ""
        return [answer.removeprefix("plain,") for answer in out.split()]

    return ask


NEW, OLD = made_run(2).id, made_run(1).id


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("edgewise ben", ["bench"]),
        ("edgewise r", ["run", "report", "runs"]),
        ("edgewise runs re", ["reindex"]),
        ("edgewise bench --thr", ["--threads"]),
        ("edgewise bench --no-m", ["--no-meters"]),
        ("edgewise bench m -r li", ["litert"]),
        ("edgewise bench m -r onnxruntime,li", ["onnxruntime,litert"]),
        ("edgewise bench m --runtime = li", ["litert"]),
        ("edgewise bench m --runtime=li", ["--runtime=litert"]),
        ("edgewise bench m -d ", ["local", "pi4"]),
        ("edgewise estimate m -d my", ["my-board"]),
        ("edgewise estimate m -d ethos-u55-1", ["ethos-u55-128"]),
        ("edgewise profile m -d p", ["pi4"]),
        ("edgewise devices rm ", ["pi4"]),
        ("edgewise evaluate m --task seg", ["segmentation"]),
        ("edgewise evaluate m --data-format n", ["npz"]),
        ("edgewise bench m --scenario o", ["offline"]),
        ("edgewise report ", ["last", "all", "baseline", NEW, OLD]),
        (f"edgewise runs show {OLD[:8]}", [NEW, OLD]),
        ("edgewise compare ", ["model.onnx", "model.tflite", "notes.txt", "last", "all", "baseline", NEW, OLD]),
        ("edgewise runs list --tag ", ["baseline"]),
        ("edgewise runs list --metric latency_p9", ["latency_p99", "latency_p90", "latency_p95"]),
        ("edgewise bench mod", ["file,mod"]),
        ("edgewise bench m --input-data mod", ["file,mod"]),
        ("edgewise bench m --fps ", []),
        ("edgewise completion f", ["fish"]),
    ],
)
def test_what_is_offered(offered, line, words):
    assert offered(line) == words


def test_the_store_that_the_line_names_is_read(offered, place):
    with open_store(str(place / "other.db")) as other:
        other.save(made_run(7))
    assert offered(f"edgewise report --store {place / 'other.db'} ") == ["last", "all", made_run(7).id]


def test_a_store_is_only_read(offered, place):
    before = (place / "runs.db").read_bytes()
    assert len(offered("edgewise report ")) == 5
    assert (place / "runs.db").read_bytes() == before
    assert [path.name for path in place.glob("runs.db*")] == ["runs.db"]
    (place / "runs.db").unlink()
    assert offered("edgewise report ") == ["last", "all"] and not (place / "runs.db").exists()


def test_a_store_in_use_is_read_as_it_is_now(offered, place):
    with open_store(str(place / "runs.db")) as store:
        store.save(made_run(3))
        assert (place / "runs.db-wal").exists()
        assert offered("edgewise report ")[3:] == [made_run(3).id, NEW, OLD]


def test_what_is_broken_is_left_out_without_a_word(offered, place):
    (place / "runs.db").write_text("no database")
    (place / "devices.toml").write_text("[")
    assert offered("edgewise report m") == ["file,m"]
    assert offered("edgewise bench m -d ") == []


def test_an_unknown_shell_is_refused(capsys):
    assert run(["completion", "tcsh"]) == 2
    assert "one of: bash, zsh, fish" in capsys.readouterr().err


BASH = """
eval "$(edgewise completion bash)"
while read -r line; do
    read -ra COMP_WORDS <<< "$line"
    [[ $line == *' ' ]] && COMP_WORDS+=('')
    COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 )) COMPREPLY=()
    _edgewise_completion edgewise
    printf '%s\\n' "${COMPREPLY[*]}"
done
"""
FISH = """
edgewise completion fish | source
while read line
    complete -C $line | string replace -r '\\t.*' '' | string join ' '
end
"""
ZSH = """
compdef() { : }
_describe() { print -r -- ${(@P)3%%:*} }
compadd() { local name=${@[-1]}; print -r -- ${(@P)name} }
_path_files() { print -r -- files }
eval "$(edgewise completion zsh)"
while IFS= read -r line; do
    words=(${(s: :)line}); [[ $line == *' ' ]] && words+=('')
    CURRENT=$#words; _edgewise_completion
done
"""


@pytest.mark.parametrize(("shell", "program"), [("bash", BASH), ("fish", FISH), ("zsh", ZSH)])
def test_the_shell_itself_completes(place, shell, program):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    lines = ["edgewise ben", "edgewise bench m -r onnxruntime,li", "edgewise runs re", "edgewise runs show base"]
    done = subprocess.run(
        [shell, "-c", program],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.stdout.split() == ["bench", "onnxruntime,litert", "reindex", "baseline"], done.stderr
