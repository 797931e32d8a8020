"""Ten tasks that a script carries out with the tools of `edgewise mcp` alone: do the first lines hold the verdict?

    python benchmarks/agents.py

The script is in the place of an agent: it starts commands, waits, and reads what `wait` returns, which is the ending
and the first lines of the result. It uses the networks and images that `edgewise example` writes.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

import anyio
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

DATA = "--data digits.npz --task classification --prepare scale=1/255"
COMPARED = r" (?:is|needs) (?:[\d.]+× \w+ than|as fast as) "
"""A proven order, or none worth mentioning; "is probably 1.20× faster than" is no verdict."""
LONGER = "3min"
"""Time limit of a comparison that is repeated because it ended in no verdict, as the skill says."""


@dataclass(frozen=True, slots=True)
class Task:
    """A question, the commands that answer it, and a pattern of the verdict in the first lines of each."""

    question: str
    steps: tuple[tuple[str, str], ...]


TASKS = (
    Task("which engine and how many threads", (("bench model.onnx --threads 1,2", r"^Recommended: \S+/"),)),
    Task("why is it slow", (("profile model.onnx -r openvino", r"heaviest layer"),)),
    Task("how accurate is it", ((f"evaluate model.onnx {DATA} --no-latency", r"accuracy [\d.]+ % \["),)),
    Task(
        "make it faster and prove it",
        (
            (f"optimize model.onnx {DATA} -r onnxruntime --time-budget 3min -o fast", r"^(\S+) against \S+: .* faster"),
            ("compare model.onnx {}", COMPARED),
        ),
    ),
    Task("is the int8 file faster here", (("compare model.tflite model_int8.tflite", COMPARED),)),
    Task(
        "may this change be merged",
        (
            (
                f"gate model_int8.tflite --baseline model.tflite --max-regression 3% --budget accuracy_drop=1pt {DATA}",
                r"^Gate (passed|failed)",
            ),
        ),
    ),
    Task(
        "where do two files begin to differ",
        (("diff model.tflite model_int8.tflite --data digits.npz --prepare scale=1/255", r"layer"),),
    ),
    Task("which board holds it", (("estimate model_int8.tflite --fits", r"\d+ of \d+ boards"),)),
    Task("how fast on a Cortex-M4", (("estimate model_int8.tflite -d cortex-m4@120MHz", r"cortex-m4"),)),
    Task(
        "the same network for OpenVINO, and is it faster",
        (
            ("convert model.onnx --to openvino -o model.xml", r"Agrees\n.*\n.* yes"),
            ("compare model.onnx model.xml -r openvino", COMPARED),
        ),
    ),
)


async def carry_out(client: Client, task: Task, number: int) -> tuple[int, str]:
    """Carry out the steps; return the number of the next job, and "" or the lines without a verdict.

    ``{}`` in a command stands for the file that the verdict before it names.
    """
    named = ""
    for words, pattern in task.steps:
        command = words.format(named)
        number, text, verdict = await _ask(client, command, pattern, number)
        if verdict is None and (longer := _give_time(command, text)):
            number, text, verdict = await _ask(client, longer, pattern, number)
        if verdict is None:
            return number, text
        named = "".join(verdict.groups()[:1])
    return number, ""


def _give_time(command: str, text: str) -> str:
    """Return the command with the time limit that its answer or the skill names; "" where more time is no help."""
    named = re.search(r"→ --time-budget (\w+)", text)
    undecided = command.startswith("compare ") and re.search(r"No verdict|is probably", text)
    if not named and not undecided:
        return ""
    return re.sub(r" --time-budget \S+", "", command) + f" --time-budget {named[1] if named else LONGER}"


async def _ask(client: Client, command: str, pattern: str, number: int) -> tuple[int, str, re.Match[str] | None]:
    """Start a command and wait. Returns the number of the next job, the first lines, and the verdict in them."""
    answer = await client.call_tool("start", {"command": command})
    text = answer.content[0].text
    if answer.is_error:
        return number, text, None
    while "running" in text.partition("\n")[0]:
        text = (await client.call_tool("wait", {"job": f"job-{number}", "seconds": 60})).content[0].text
    verdict = re.search(pattern, text, re.MULTILINE)
    return number + 1, text, verdict if re.search(r"exit code [05]:", text) else None


async def run() -> int:
    """Carry out all tasks; print a table."""
    right = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ |= {"EDGEWISE_STORE": f"{folder}/runs.db"}
        subprocess.run([sys.executable, "-m", "edgewise", "example"], check=True)
        server = StdioServerParameters(
            command=sys.executable, args=["-m", "edgewise", "mcp", "--root", folder], env=dict(os.environ)
        )
        number = 1
        async with Client(stdio_client(server)) as client:
            for task in TASKS:
                begin = time.perf_counter()
                number, failed = await carry_out(client, task, number)
                right += not failed
                print(f"{task.question:48} {'verdict' if not failed else 'none'} {time.perf_counter() - begin:6.1f} s")
                if failed:
                    print("  " + failed.replace("\n", "\n  "))
    print(f"{right} of {len(TASKS)} tasks ended in a verdict")
    return int(right < len(TASKS))


if __name__ == "__main__":
    sys.exit(anyio.run(run))
