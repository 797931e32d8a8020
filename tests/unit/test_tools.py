"""The tools of the repository that decide something: what failed, and what is newer."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def tools(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))


def test_the_busy_runs_are_of_the_readmes_tests():
    import run_tests_busy

    assert run_tests_busy.test_command()[:3] == [sys.executable, "-m", "pytest"]
    assert run_tests_busy.test_command()[-2:] == ["-m", "not long"]


def test_each_failure_is_named_and_an_end_without_one_is_told():
    import run_tests_busy

    output = (
        "=== short test summary info ===\nSKIPPED [1] tests/a.py:3: FAILED there\nFAILED tests/a.py::test_x[a - b] - assert 1 == 2\n"
        "FAILED tests/b.py::test_y\nERROR tests/c.py::test_z - OSError: no\n2 failed, 1 error\n"
    )
    named = ["tests/a.py::test_x[a - b]", "tests/b.py::test_y", "tests/c.py::test_z"]
    assert run_tests_busy.failures(output, 1) == named
    assert run_tests_busy.failures("1 passed", 0) == []
    assert run_tests_busy.failures("", 3) == ["pytest ended with 3"]


def test_constraints_are_what_pip_reports_without_edgewise_and_local_versions():
    import renew_constraints

    rows = [("torch", "2.13.0+cpu"), ("Typing_Extensions", "4.16.0"), ("edgewise", "0.1.0")]
    report = {"install": [{"metadata": {"name": name, "version": version}} for name, version in rows]}
    assert renew_constraints.versions(report) == {"torch": "2.13.0", "typing-extensions": "4.16.0"}


def test_what_is_newer_new_or_gone_is_a_line(tmp_path):
    import renew_constraints

    path = tmp_path / "all.txt"
    assert renew_constraints.read(path) == {}
    path.write_text("# written by\na==1.0\nb==1.0\nc==2\n")
    old = renew_constraints.read(path)
    assert renew_constraints.differences(old, old) == []
    assert renew_constraints.differences(old, {"a": "1.0", "b": "1.1", "d": "3"}) == [
        "b 1.0 → 1.1", "c 2 → absent", "d absent → 3",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["all", "torch", "tensorflow"])
def test_every_set_of_packages_has_its_constraints(name):
    import renew_constraints

    assert name in renew_constraints.SETS
    found = renew_constraints.read(renew_constraints.FOLDER / f"{name}.txt")
    assert {"numpy", "onnx", "pytest"} <= set(found) and "edgewise" not in found
