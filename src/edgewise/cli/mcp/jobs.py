"""Commands of edgewise in processes of their own, for a server that goes on answering."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

QUICK_S = 120.0
"""Time limit of a command whose answer is waited for."""
STOP_S = 20.0
"""Time that an interrupted command has to keep what was measured."""
WIDTH = 100
"""Columns of the text that a tool returns."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that ended.

    Attributes:
        code: its exit code; below 0 the signal that ended it.
        text: what it printed.
        messages: its progress, notes and errors.
    """

    code: int
    text: str
    messages: str


@dataclass(slots=True)
class Job:
    """A command that was started, and the files with what it prints."""

    words: Sequence[str]
    folder: Path
    process: asyncio.subprocess.Process

    @property
    def text(self) -> str:
        """What it has printed so far."""
        return (self.folder / "stdout").read_text("utf-8", errors="replace")

    @property
    def messages(self) -> list[str]:
        """The lines of its progress, notes and errors so far."""
        return (self.folder / "stderr").read_text("utf-8", errors="replace").splitlines()

    @property
    def result(self) -> Path | None:
        """The whole result as JSON; None where there is none."""
        path = self.folder / "result.json"
        return path if path.exists() else None

    async def ends_within(self, seconds: float) -> bool:
        """Whether it has ended after `seconds` at most."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.process.wait(), seconds)
        return self.process.returncode is not None

    async def interrupt(self) -> None:
        """End it as Ctrl-C does: runs that are finished are kept."""
        for number in (signal.SIGINT, signal.SIGKILL):
            if self.process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(self.process.pid, number)
                await self.ends_within(STOP_S)


class Jobs:
    """The jobs of one server; `folder` gets a folder for each, and commands run in `root`."""

    def __init__(self, root: Path, folder: Path) -> None:
        self._root = root
        self._folder = folder
        self._jobs: dict[str, Job] = {}

    async def start(self, words: Sequence[str], *, report: str) -> str:
        """Start ``edgewise`` with `words`, the first being its command, and name the job.

        Args:
            report: the command's flag for a file with its result; "" where it has none.
        """
        name = f"job-{len(self._jobs) + 1}"
        folder = self._folder / name
        folder.mkdir()
        more = [report, str(folder / "result.json")] if report else []
        with (folder / "stdout").open("wb") as text, (folder / "stderr").open("wb") as messages:
            process = await asyncio.create_subprocess_exec(
                *_command([words[0], *more, *words[1:]]),
                cwd=self._root,
                env=_environment(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=text,
                stderr=messages,
                start_new_session=True,
            )
        self._jobs[name] = Job(words, folder, process)
        return name

    def get(self, name: str) -> Job | None:
        """Return the job of that name."""
        return self._jobs.get(name)

    @property
    def names(self) -> Sequence[str]:
        """The jobs that were started."""
        return tuple(self._jobs)

    async def run(self, words: Sequence[str]) -> Ended:
        """Carry out ``edgewise`` with `words` and wait for it. Raises `TimeoutError` after `QUICK_S`."""
        process = await asyncio.create_subprocess_exec(
            *_command(words),
            cwd=self._root,
            env=_environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            text, messages = await asyncio.wait_for(process.communicate(), QUICK_S)
        finally:
            if process.returncode is None:
                process.kill()
        return Ended(process.returncode or 0, text.decode("utf-8", "replace"), messages.decode("utf-8", "replace"))

    async def close(self) -> None:
        """Interrupt what still runs."""
        await asyncio.gather(*(job.interrupt() for job in self._jobs.values()))


def _command(words: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "edgewise", *words]


def _environment() -> dict[str, str]:
    # An agent fetches no model by its name, unless the owner's environment says so.
    return {"HF_HUB_OFFLINE": "1", **os.environ, "COLUMNS": str(WIDTH), "NO_COLOR": "1"}
