"""The check that tests don't depend on how fast the machine is: what it finds, what it leaves, and this very tree."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools" / "check_test_clocks.py"


@pytest.fixture(scope="module")
def found():
    """A function: the problems in the body of a test, by the number of their lines."""
    spec = importlib.util.spec_from_file_location("check_test_clocks", TOOL)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return lambda text: dict(tool.problems(text))


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("time.sleep(0.1)", "sleeps"),
        ("asyncio.sleep(1)", "sleeps"),
        ("assert time.monotonic() - begin < 60", "asserts a real time"),
        ("assert 1.0 < time.perf_counter() < end", "asserts a real time"),
        ("end = time.monotonic() + 5", "a deadline below 60 s"),
        ("process.wait(10)", "waits for less than 60 s"),
        ("process.communicate(timeout=30)", "waits for less than 60 s"),
        ("subprocess.run(words, timeout=5.0)", "waits for less than 60 s"),
        ("thread.join(1)", "waits for less than 60 s"),
        ("page.wait_for_selector('x', timeout=5000)", "waits for less than 60 s"),
        ("edgewise.bench(path, timeout=3.0)", "a deadline below 60 s"),
        ("monkeypatch.setattr(module, 'PATIENCE_S', 0.3)", "a constant of less than 60 real seconds"),
        ("threading.Timer(0.5, stop).start()", "a timer of real seconds"),
        ("assert threading.active_count() == 1", "active_count is the machine's as much as the test's"),
        ("threading.enumerate()", "enumerate is the machine's as much as the test's"),
        ("process.num_ctx_switches()", "num_ctx_switches is the machine's as much as the test's"),
    ],
)
def test_what_a_busy_machine_fails_is_found(found, line, what):
    text = f"def test_it(path):\n    {line}\n"
    assert found(text) == {2: what}
    assert found(f"def test_it(path):\n    {line}  # real time: it has to end\n") == {}
    assert found(f"def test_it(path):\n    # real time: it has to end\n    {line}\n") == {}
    assert found(f"def test_it(path):\n    {line}  # real time:\n") == {2: what}  # no reason


def test_names_that_hold_a_real_time_are_followed(found):
    text = "def test_it():\n    begin = time.monotonic()\n    took = time.monotonic() - begin\n    assert took < 100\n"
    assert found(text) == {4: "asserts a real time"}
    assert found("def test_it():\n    run = measure(end_by=time.monotonic() + 600)\n    assert run.value < 3\n") == {}


@pytest.mark.parametrize(
    "line",
    [
        "asyncio.sleep(0)", "process.wait(60)", "process.wait(0)", "subprocess.run(words, timeout=120)",
        "', '.join(words)", "names.get('a')", "page.wait_for_selector('x', timeout=60_000)", "assert run.seconds < 5",
        "edgewise.bench(path, timeout=120)", "monkeypatch.setattr(module, 'PATIENCE_S', 600.0)",
    ],
)  # fmt: skip
def test_what_does_no_harm_is_left_alone(found, line):
    assert found(f"def test_it(path):\n    {line}\n") == {}


@pytest.mark.parametrize(
    "text",
    [
        "def test_it(clock):\n    edgewise.bench(path, timeout=3.0)\n",
        "@pytest.fixture\ndef played(threads):\n    pass\ndef test_it(played):\n    edgewise.bench(path, timeout=3.0)\n",
        "pytestmark = pytest.mark.usefixtures('threads')\ndef test_it():\n    edgewise.bench(path, timeout=3.0)\n",
        "@pytest.fixture(autouse=True)\ndef all(clock):\n    pass\ndef test_it():\n    wait(time_budget=1)\n",
    ],
)
def test_where_a_test_writes_the_time_deadlines_of_edgewise_may_be_short(found, text):
    assert found(text) == {}
    assert found(text.replace("edgewise.bench(path, timeout=3.0)", "time.sleep(3)").replace("wait(time_budget=1)", "time.sleep(3)"))  # fmt: skip


def test_the_tests_of_this_tree_pass_and_a_bad_one_fails(tmp_path):
    def check(folder):
        return subprocess.run([sys.executable, TOOL, folder], capture_output=True, text=True, check=False)

    done = check(ROOT / "tests")
    assert done.returncode == 0, done.stdout
    (tmp_path / "test_x.py").write_text("import time\ndef test_it():\n    time.sleep(1)\n")
    done = check(tmp_path)
    assert done.returncode == 1 and done.stdout.splitlines()[0] == f"{tmp_path}/test_x.py:3: sleeps"
