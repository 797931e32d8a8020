"""The tools that ``edgewise mcp`` offers to an agent."""

from __future__ import annotations

import json
import shlex
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import Field

from edgewise.cli.mcp.jobs import Ended, Job, Jobs
from edgewise.metrics import METRICS
from edgewise.verbs.command import COMMANDS
from edgewise.verbs.shared_options import OUTPUT
from edgewise.verbs.verb import VERBS
from edgewise.version import __version__

INSTRUCTIONS = """edgewise measures and improves neural networks on this machine and its devices.
Usual way: doctor; inspect a model; start "bench MODEL", "profile MODEL", "evaluate MODEL --data D --task T", \
"optimize MODEL --data D --task T", "compare A B" or "gate MODEL …"; wait; result. The first lines are the answer.
A number without an interval or with grade D decides nothing: use "compare A B", which measures in turns.
Start one measurement at a time: others on the same device wait for it."""
PART = 6000
"""Characters of a result that one call returns."""
AT_ONCE_S = 2.0
"""Time within which a mistake, such as a file that is not there, ends a command."""
BEGINNING = 12
"""Lines of a result that `wait` shows."""
CODES = {
    0: "done", 2: "bad input", 3: "not available", 4: "a run failed", 5: "a limit is exceeded, or it became worse",
    130: "interrupted; finished runs are kept",
}  # fmt: skip
READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
Tool = Callable[..., Awaitable[str]]
JobName = Annotated[str, Field(description="such as job-1")]


def make_server(root: Path, *, read_only: bool = False, allow_code: bool = False) -> MCPServer:
    """Return the server.

    Args:
        root: the folder in which commands run.
        read_only: without the tools that measure or write.
        allow_code: start commands that run programs or functions of the user, too.
    """
    scratch = tempfile.TemporaryDirectory(prefix="edgewise-mcp-", ignore_cleanup_errors=True)
    jobs = Jobs(root, Path(scratch.name))

    @asynccontextmanager
    async def life(_: MCPServer) -> AsyncIterator[None]:
        with scratch:
            try:
                yield
            finally:
                await jobs.close()

    server = MCPServer("edgewise", version=__version__, instructions=INSTRUCTIONS, lifespan=life, log_level="ERROR")
    tools = Tools(jobs, allow_code=allow_code)
    reading: list[Tool] = [tools.doctor, tools.inspect, tools.find_runs, tools.explain]
    working: list[Tool] = [] if read_only else [tools.start, tools.wait, tools.result, tools.cancel]
    for tool in reading:
        server.tool(annotations=READS, structured_output=False)(tool)
    for tool in working:
        server.tool(structured_output=False)(tool)
    return server


class Tools:
    """The tools; their docstrings are what an agent reads."""

    def __init__(self, jobs: Jobs, *, allow_code: bool) -> None:
        self._jobs = jobs
        self._allow_code = allow_code

    async def doctor(self, device: str = "local") -> str:
        """List engines and sensors, and grade this machine or a device for measuring."""
        return await self._ask(["doctor", f"--device={device}"])

    async def inspect(self, model: str) -> str:
        """Count a model's MACs, parameters and memory, and check which engines support it. Runs nothing."""
        return await self._ask(["inspect", "--", model])

    async def find_runs(
        self,
        model: Annotated[str, Field(description="part of its name, or the beginning of its sha256")] = "",
        since: Annotated[str, Field(description="such as 7d, 36h or 2026-01-31")] = "",
        limit: Annotated[int, Field(ge=1, le=200)] = 20,
    ) -> str:
        """List stored runs, newest first: id, model, engine, latency with interval, grade."""
        filters = [f"--{name}={value}" for name, value in (("model", model), ("since", since)) if value]
        return await self._ask(["runs", "list", f"--limit={limit}", *filters])

    async def explain(self, topic: str) -> str:
        """Explain a run (by its id, or last), a command (its options) or a metric (its definition)."""
        if metric := METRICS.get(topic.strip().lower().replace(" ", "_")):
            return f"{metric.label} ({metric.unit or 'no unit'}; {metric.better} is better): {metric.definition}"
        if topic.strip() in {*_started(), *COMMANDS.names()}:
            return await self._ask([topic.strip(), "--help-all" if topic.strip() in _started() else "--help"])
        return await self._ask(["runs", "show", "--", topic])

    async def start(
        self, command: Annotated[str, Field(description="such as: bench model.onnx -r onnxruntime --threads 1,2")]
    ) -> str:
        """Start an edgewise command and return its job's name at once. explain("bench") lists the options of bench."""
        words = _words(command)
        verb = words[0]
        if verb not in _started():
            raise ToolError(f"{verb!r} can't be started. Try: {', '.join(_started())}")
        document = await self._ask([verb, "--dry-run", "--json", *words[1:]])
        if not self._allow_code and (code := _code_in(document)):
            raise ToolError(f"this runs code: {code}. The server's owner can allow it: edgewise mcp --allow-code")
        reports = [one.flag for one in VERBS.get(verb).all_options() if (one.kind, one.panel) == (list[Path], OUTPUT)]
        name = await self._jobs.start(words, report="".join(reports[:1]))
        if await self._job(name).ends_within(AT_ONCE_S):
            return f"{name}: {await self.wait(name, 0)}"
        return f"{name} is running: edgewise {shlex.join(words)}"

    async def wait(self, job: JobName, seconds: Annotated[float, Field(ge=0, le=300)] = 50) -> str:
        """Wait for a job. Returns its progress while it runs, and how its result begins once it has ended."""
        it = self._job(job)
        if not await it.ends_within(seconds):
            return f"{job} is still running: {next(reversed(it.messages), 'begun')}"
        lines = it.text.splitlines()
        more = [f"… {len(lines) - BEGINNING} more lines: result"] if len(lines) > BEGINNING else []
        return "\n".join([_ending(it), *lines[:BEGINNING], *more])

    async def result(self, job: JobName, offset: Annotated[int, Field(ge=0)] = 0) -> str:
        """Return what an ended job printed, from a character on, and the file with the whole result as JSON."""
        it = self._job(job)
        if not await it.ends_within(0):
            raise ToolError(f"{job} is still running. Try: wait")
        text, end = it.text, offset + PART
        rest = f"\n… {len(text) - end} more characters: offset={end}" if len(text) > end else ""
        whole = f"\nJSON: {it.result}" if it.result else ""
        return f"{_ending(it)}\n{text[offset:end]}{rest}{whole}"

    async def cancel(self, job: JobName) -> str:
        """Interrupt a job; runs that are finished are kept."""
        it = self._job(job)
        await it.interrupt()
        return _ending(it)

    def _job(self, name: str) -> Job:
        if job := self._jobs.get(name.strip()):
            return job
        raise ToolError(f"there is no job {name!r}. Try: {', '.join(self._jobs.names) or 'start'}")

    async def _ask(self, words: Sequence[str]) -> str:
        """Return what a quick command prints. Raises `ToolError` with its error and advice."""
        try:
            ended: Ended = await self._jobs.run(words)
        except TimeoutError:
            raise ToolError(f"edgewise {shlex.join(words)} took too long") from None
        if ended.code:
            raise ToolError(f"{CODES.get(ended.code, ended.code)}\n{ended.messages or ended.text}")
        return ended.text


def _started() -> list[str]:
    """Return the commands that can be started: those that make requests."""
    return [name for name, verb in VERBS if not verb.asked_by]


def _words(command: str) -> list[str]:
    """Return the words of a command, without ``edgewise`` before them. Raises `ToolError`."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ToolError(f"{command!r} can't be read: {error}") from None
    words = words[1:] if words[:1] == ["edgewise"] else words
    if not words:
        raise ToolError('name a command, such as "bench model.onnx"')
    return words


def _code_in(document: str) -> str:
    """Return what a request would run besides engines: functions, and the program of ``exec``; "" for nothing."""
    from edgewise.verbs.reading import read_request

    return ", ".join(read_request(json.loads(document)).functions)


def _ending(job: Job) -> str:
    """How a job ended, with its notes and errors."""
    code = job.process.returncode or 0
    said = [line for line in job.messages if line.startswith(("error:", "try:", "note:"))]
    return "\n".join([f"ended with exit code {code}: {CODES.get(code, 'failed')}", *said])
