"""Who reads what a command prints decides neither the exit code nor the files; nothing printed is an internal error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from comparable_runs import noise, row_of, run_of
from edgewise.errors import ExitCode
from edgewise.store.exchange import export_runs
from edgewise.testing import write_fake_model

GONE = "{ sleep 0.01; %s; echo $? >rc; } | head -c 0"
"""A reader that has gone before the first line."""


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    """A folder with a run that takes 1.1 ms, and a model."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EDGEWISE_STORE", str(tmp_path / "runs.db"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    export_runs([run_of(row_of("latency", [noise(20, seed=2, scale=1.1e-3)]), processes=1)], "slow.json")
    write_fake_model(tmp_path / "m.fake", latency_ns=[2_000_000])
    return tmp_path


GATE = "edgewise gate slow.json --budget latency=1ms -o gate.xml -o gate.md"


def shell(line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """What `line` does in a shell; its exit code is that of the last command."""
    return subprocess.run(
        ["bash", "-c", line],
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        pytest.param(GATE + " >out", False, id="file"),
        pytest.param(GONE % GATE, False, id="gone"),
        pytest.param(GATE + " >&-", False, id="closed"),
        pytest.param(GATE + " >/dev/full", True, id="full"),
        pytest.param(GATE + " >out </dev/null 2>&-", False, id="no errors"),
        pytest.param("PYTHONUNBUFFERED=1; export PYTHONUNBUFFERED; " + GONE % GATE, False, id="unbuffered"),
    ],
)
def test_a_failed_gate_fails_and_writes_its_files_whoever_reads(place, line, said):
    done = shell(line)
    code = int(Path("rc").read_text()) if Path("rc").exists() else done.returncode
    assert code == ExitCode.BUDGET_EXCEEDED, done.stderr
    assert "<failure" in Path("gate.xml").read_text() and "failed" in Path("gate.md").read_text()
    assert ("standard output can't be written: No space left" in done.stderr) == said
    assert "Traceback" not in done.stderr and "internal" not in done.stderr and "ignored" not in done.stderr


def test_results_that_a_full_disk_swallows_are_no_success(place):
    done = shell("edgewise runs import slow.json && edgewise runs show last >/dev/full")
    assert done.returncode == ExitCode.UNAVAILABLE
    assert "No space left on device" in done.stderr and "internal" not in done.stderr


def test_what_was_measured_is_kept_without_a_store_and_without_a_reader(place):
    Path("file").write_text("no database, and no folder")
    bench = "edgewise bench m.fake --iterations 10 -q --store file -o a.md -o b.csv"
    done = shell(GONE % bench)
    assert Path("rc").read_text() == f"{ExitCode.UNAVAILABLE}\n", done.stderr
    assert Path("a.md").is_file() and Path("b.csv").is_file()
    (recovery,) = Path().glob("edgewise-recovery-*.json")
    assert f"edgewise runs import {recovery.absolute()}" in done.stderr
    assert shell(f"edgewise runs import {recovery}").returncode == 0


def test_one_report_that_fails_costs_neither_the_others_nor_the_verdict(place):
    slow_disk = "import sys; from edgewise.report.files import ResultFormat; from edgewise.errors import StoreError\n"
    slow_disk += "write = ResultFormat.write\n"
    slow_disk += "def fail(self, outcome, path, overwrite):\n"
    slow_disk += "    if path.suffix == '.xml': raise StoreError('the disk is full')\n"
    slow_disk += "    write(self, outcome, path, overwrite=overwrite)\n"
    slow_disk += "ResultFormat.write = fail\nfrom edgewise.cli.main import run\nsys.exit(run(sys.argv[1:]))"
    done = subprocess.run([sys.executable, "-c", slow_disk, *GATE.split()[1:]], capture_output=True, text=True)
    assert done.returncode == ExitCode.BUDGET_EXCEEDED
    assert "the disk is full" in done.stderr and Path("gate.md").is_file() and not Path("gate.xml").exists()


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_an_encoding_without_our_characters_is_no_error(place, encoding):
    done = shell(GATE, PYTHONIOENCODING=encoding)
    assert done.returncode == ExitCode.BUDGET_EXCEEDED and done.stdout and "internal" not in done.stderr
    done = shell("edgewise bench --help && edgewise doctor --json", PYTHONIOENCODING=encoding)
    assert done.returncode == 0 and json.loads(done.stdout[done.stdout.index("\n{") :])["fitness"]


@pytest.mark.parametrize(
    "columns",
    ["0", "²", "99999999999", "1"],
)
def test_a_width_that_is_none_is_not_believed(place, columns):
    done = shell(f"{GATE}; edgewise --help", COLUMNS=columns, LINES=columns)
    assert done.returncode == 0 and "internal" not in done.stderr and "Traceback" not in done.stderr
    widest = max(map(len, done.stdout.splitlines()))
    assert done.stdout and (widest <= 80 or columns == "1")


def test_ctrl_c_is_one_line_from_the_first_import_on(place):
    """Sent while our code imports what it needs, up to the command itself."""
    hook = "import os, signal, sys\nfrom edgewise import __main__\n"
    hook += "def trace(event, arguments, after=sys.argv.pop(1)):\n"
    hook += "    if event == 'import' and arguments[0] == after: os.kill(os.getpid(), signal.SIGINT)\n"
    hook += "sys.addaudithook(trace)\nsys.exit(__main__.main())"
    for module in ("edgewise.cli", "click", "rich.console", "edgewise.units", "sqlalchemy"):
        words = [sys.executable, "-c", hook, module, "runs", "list"]
        done = subprocess.run(words, capture_output=True, text=True)
        assert (done.returncode, "Traceback" in done.stderr) == (130, False), (module, done.stderr)
