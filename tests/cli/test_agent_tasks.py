"""The tasks of `benchmarks/agents.py` and the commands of the skill: their first lines hold the verdict.

Commands are carried out here, where `edgewise mcp` would start them; what measures does so with the fake engine.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace

import anyio
import numpy as np
import pytest

pytest.importorskip("mcp", reason="the tools of an agent need the extra mcp")

import fake_passes as scripted
from edgewise.cli.main import run
from edgewise.cli.mcp.jobs import WIDTH
from edgewise.cli.mcp.server import BEGINNING
from edgewise.testing import write_fake_model
from small_selections import NET, rows
from threaded_workers import install

REPOSITORY = Path(__file__).parents[2]
SKILL = REPOSITORY / "skills" / "edgewise" / "SKILL.md"
COUNT, CLASSES = 60, 3
MS = 1_000_000


@pytest.fixture(scope="module")
def agents():
    path = REPOSITORY / "benchmarks" / "agents.py"
    if not path.exists():
        pytest.skip("benchmarks/agents.py is not part of this distribution")
    spec = importlib.util.spec_from_file_location("benchmark_agents", path)
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch) -> Path:
    """A folder of this test's own, and lines as wide as an agent gets them."""
    for name in ("EDGEWISE_STORE", "EDGEWISE_LOCKS", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Server:
    """Answers as `edgewise mcp` does; `told` holds the commands that were started."""

    def __init__(self, capsys, *, answers=(), words=lambda command: command) -> None:
        self._capsys, self._answers, self._words = capsys, list(answers), words
        self.told: list[str] = []

    async def call_tool(self, tool: str, given: dict[str, str]) -> SimpleNamespace:
        assert tool == "start"
        self.told.append(given["command"])
        text = self._answers.pop(0) if self._answers else self._carry_out(given["command"])
        return SimpleNamespace(is_error=False, content=[SimpleNamespace(text=text)])

    def _carry_out(self, command: str) -> str:
        self._capsys.readouterr()
        code = run(shlex.split(self._words(command)))
        printed = self._capsys.readouterr()
        lines = printed.out.splitlines()[:BEGINNING]
        return "\n".join([f"job-{len(self.told)}: ended with exit code {code}: {printed.err if code else ''}", *lines])


def carry_out(agents, server: Server, task) -> tuple[int, str]:
    async def talk():
        return await agents.carry_out(server, task, 1)

    return anyio.run(talk)


def find(agents, question: str):
    return next(task for task in agents.TASKS if task.question == question)


def to_fakes(command: str) -> str:
    """The same command on the files of `fakes`."""
    for before, after in ((r"\.(onnx|tflite)\b", ".fake"), (r"-r \w+", "-r fake"), (r"--prepare \S+", "")):
        command = re.sub(before, after, command)
    return command


@pytest.fixture
def fakes(place, monkeypatch):
    """model.fake of 4 ms, model_int8.fake of 2 ms, with the same outputs, and digits.npz, of which nine in ten fit."""
    install(monkeypatch, turns=20)
    monkeypatch.setattr("edgewise.run.peaks.find_peaks", lambda *_, **__: ((), "no kernel was timed"))
    scripted.install(monkeypatch, place, scripted.Faster)
    outputs = [{"name": "y", "shape": [1, CLASSES], "dtype": "float32"}]
    layers = [{"name": "mix", "op": "Mix", "originals": ["mix"], "times_ns": [3 * MS]}]
    for name, milliseconds in (("model", 4), ("model_int8", 2)):
        write_fake_model(
            f"{name}.fake", graph=NET, outputs=outputs, latency_ns=[milliseconds * MS], layers=layers, load_ns=milliseconds
        )  # fmt: skip
    labels = [CLASSES - 1 if index % 10 else 0 for index in range(COUNT)]
    np.savez("digits.npz", x_test=rows(COUNT), y_test=labels, x_train=rows(20), y_train=[0] * 20)


@pytest.mark.usefixtures("fakes")
@pytest.mark.parametrize("question", [
    "which engine and how many threads", "why is it slow", "how accurate is it", "make it faster and prove it",
    "is the int8 file faster here", "may this change be merged",
])  # fmt: skip
def test_what_measures_ends_in_a_verdict(agents, capsys, question):
    task = find(agents, question)
    server = Server(capsys, words=to_fakes)
    number, failed = carry_out(agents, server, task)
    assert not failed
    assert number == 1 + len(task.steps) == 1 + len(server.told)


@pytest.mark.engine
@pytest.mark.parametrize("question", [
    "how accurate is it", "where do two files begin to differ", "which board holds it", "how fast on a Cortex-M4"
])  # fmt: skip
def test_what_times_nothing_ends_in_a_verdict_on_the_networks_of_the_example(agents, capsys, question):
    for engine in ("onnxruntime", "ai_edge_litert"):
        pytest.importorskip(engine)
    assert run(["example"]) == 0
    assert carry_out(agents, Server(capsys), find(agents, question)) == (2, "")


PROVEN = "job-1: ended with exit code 0: done\nb.onnx is 1.20× faster than a.onnx (ratio 0.833)"
PROBABLE = "job-1: ended with exit code 0: done\nb.onnx is probably 1.20× faster than a.onnx, which is not proven"
OPEN = "job-1: ended with exit code 0: done\nNo verdict yet on b.onnx against a.onnx in latency (ratio 0.995)"


@pytest.mark.parametrize(("answers", "failed"), [
    ([PROVEN], ""), ([OPEN, PROVEN], ""), ([PROBABLE, PROVEN], ""), ([OPEN, OPEN], OPEN), ([PROBABLE, PROBABLE], PROBABLE),
])  # fmt: skip
def test_a_comparison_without_a_verdict_is_repeated_once_for_longer(agents, capsys, answers, failed):
    server = Server(capsys, answers=answers)
    task = agents.Task("is it faster", (("compare a.onnx b.onnx", agents.COMPARED),))
    assert carry_out(agents, server, task) == (1 + len(answers), failed)
    assert server.told == ["compare a.onnx b.onnx", "compare a.onnx b.onnx --time-budget 3min"][: len(answers)]


def test_a_search_that_had_too_little_time_gets_what_it_names(agents, capsys):
    late = "job-1: ended with exit code 0: done\nNo variant is proven faster (→ --time-budget 6min)"
    done = "job-2: ended with exit code 0: done\nfast/m.onnx against a.onnx: 2.15× faster"
    server = Server(capsys, answers=[late, done])
    task = agents.Task("make it faster", (("optimize a.onnx --time-budget 3min -o fast", r"^(\S+) against .* faster"),))
    assert carry_out(agents, server, task) == (3, "")
    assert server.told[1:] == ["optimize a.onnx -o fast --time-budget 6min"]


def test_every_command_of_the_skill_is_one_that_edgewise_takes(capsys):
    if not SKILL.exists():
        pytest.skip("the skill is not part of this distribution")
    assert run(["example"]) == 0
    commands = re.findall(r"`edgewise ([a-z]+ [^`]+)`", SKILL.read_text(encoding="utf-8"))
    stand_ins = {
        "MODEL.tflite": "model.tflite", "MODEL": "model.onnx", "A": "model.tflite", "B": "model_int8.tflite",
        "DATA": "digits.npz", "ORIGINAL": "model.onnx", "CHOSEN": "model.tflite", "RUN": "model.onnx",
        "STEP=VALUE": "scale=1/255",
    }  # fmt: skip
    taken = set()
    for command in commands:
        words = [stand_ins.get(word, word) for word in command.split()]
        if words[0] in ("calibrate", "mcp") or "NAME" in words or "COMMAND" in words:
            continue
        assert run([*words, "--dry-run", "--json"]) == 0, (command, capsys.readouterr().err)
        taken.add(words[0])
    assert {"bench", "profile", "evaluate", "optimize", "compare", "gate", "diff", "estimate", "inspect"} <= taken
