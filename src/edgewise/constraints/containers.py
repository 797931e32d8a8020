"""Containers of Docker and Podman that hold the limits of a program. Standard library only.

The first process of a container is a shell. It waits for a line before it starts the program, so that the counters of
the container's control group are known from the beginning, and for another line after the program has ended, so that
they can be read before the runtime removes the group.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Self
from uuid import uuid4

from edgewise.constraints.base import CONTAINER_NAMES, PERIOD_S, Usage
from edgewise.constraints.cgroups import PREFIX, V1, V2, Cgroup
from edgewise.constraints.hierarchy import ROOT, cgroup_folders, read_text
from edgewise.errors import BadInput, Unavailable
from edgewise.text import one_line

ASK_S = 60.0
"""Longest time for a short request to the runtime, s."""
_READY, _ENDED = "edgewise: ready", "edgewise: ended"
SCRIPT = f"""exec 3>&2 4<&0 2>&1 </dev/null
echo '{_READY}' >&3
read _ <&4 || exit 1
"$@" 3>&- 4<&-
echo "{_ENDED} $?" >&3
read _ <&4"""
"""Shell script of a container. Its standard output carries all output of the program; its standard error, two lines."""
OWN_PROCESSES = 1
"""The shell."""
_SUMMED = ("cpu_s", "periods", "throttled_periods", "throttled_s", "limit_hits", "read_bytes", "written_bytes")
_PAGE = 4096


def ask(*command: str) -> str:
    """Return the output of a short command of a runtime. Raises `Unavailable` with its last line where it fails."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=ASK_S,
            start_new_session=True,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{' '.join(command[:2])} failed: {error}") from error
    if done.returncode:
        told = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise Unavailable(f"{' '.join(command[:2])} failed: {one_line(told)[:500]}")
    return done.stdout.strip()


def why_not(runtime: str) -> str:
    """Why a container runtime does not answer here; "" if it does."""
    if shutil.which(runtime) is None:
        return f"{runtime}: no such command"
    try:
        ask(runtime, "ps", "--quiet")
    except Unavailable as error:
        return error.message
    return ""


def find_runtime(name: str | None = None) -> str:
    """Return the container runtime `name`, or the first that works here. Raises `Unavailable` with the reasons."""
    reasons = {each: why_not(each) for each in (CONTAINER_NAMES if name is None else (name,))}
    for each, reason in reasons.items():
        if not reason:
            return each
    raise Unavailable(
        f"no container can be run here: {'; '.join(reasons.values())}",
        advice="install Docker or Podman, start its service and check your permission with 'docker ps'; limits of "
        "exec also work without containers",
    )


def limit_options(cpus: float | None, memory_bytes: int | None) -> list[str]:
    """Options of ``run`` for limits. A quota is not compared with the number of processors, as ``--cpus`` is."""
    period = round(PERIOD_S * 1e6)
    words = [f"--cpu-period={period}", f"--cpu-quota={round(cpus * period)}"] if cpus else []
    return words + ([f"--memory={memory_bytes}", f"--memory-swap={memory_bytes}"] if memory_bytes else [])


@dataclass(slots=True, kw_only=True)
class Container:
    """A container for one execution of a program. Leaving its context kills and removes it.

    Attributes:
        runtime: ``docker`` or ``podman``.
        folder: mounted under the same path, and the working folder there; None is the image's working folder.
        options: further options of ``run``.
        cannot_hold: limits that were not found in the container's control group; empty if all were.
        image_id: digest of the image, once the container has started.
        group: its control group, once it has started; None where it is not visible here.
    """

    runtime: str
    image: str
    cpus: float | None = None
    memory_bytes: int | None = None
    folder: Path | None = None
    options: Sequence[str] = ()
    name: str = field(default_factory=lambda: f"{PREFIX}{os.getpid()}-{uuid4().hex[:8]}")
    cannot_hold: str = ""
    image_id: str = ""
    _pid: int = 0
    group: Cgroup | None = None
    _before: Usage = field(default_factory=Usage)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for command in self.removal:
            with contextlib.suppress(Unavailable):
                ask(*command)

    @property
    def mechanism(self) -> str:
        """As `edgewise.constraints.base.Group.mechanism`."""
        return self.runtime

    @property
    def removal(self) -> tuple[tuple[str, ...], ...]:
        """Commands that end it. ``rm`` alone gives the program ten seconds in Podman."""
        return (self.runtime, "kill", self.name), (self.runtime, "rm", "--force", self.name)

    def command(self, program: Sequence[str]) -> list[str]:
        """Return the command line that starts it; `program` waits in it. Raises `BadInput` for a folder with a
        comma.
        """
        words = [self.runtime, "run", "--rm", "--interactive", "--name", self.name, "--log-driver", "none"]
        words += limit_options(self.cpus, self.memory_bytes)
        if self.folder is not None:
            place = str(self.folder.absolute())
            if "," in place:
                raise BadInput(f"the folder {place} can't be mounted: it has a comma", advice="rename the folder")
            words += ["--mount", f"type=bind,source={place},target={place}", "--workdir", place]
        return [*words, *self.options, "--entrypoint", "/bin/sh", self.image, "-c", SCRIPT, "sh", *program]

    def examine(self) -> None:
        """Find the control group of the container that has started, and verify the limits. Raises `Unavailable`."""
        pid, identity, self.image_id = inspect(self.runtime, self.name)
        self._pid, self.group = int(pid), group_of(pid, identity)
        if self.group is None:
            self.cannot_hold = "the limits were not verified: the container's control group is not visible here"
            return
        lacking = missing_limits(self.group, cpus=self.cpus, memory_bytes=self.memory_bytes)
        self.cannot_hold = f"{self.runtime} did not set a limit: {', '.join(lacking)}" if lacking else ""
        self._before = self.group.usage()

    def usage(self) -> Usage:
        """Counters since `examine`; those of a container whose group is not visible are None."""
        if self.group is None:
            return Usage()
        now = self.group.usage()
        past = {name: (getattr(now, name), getattr(self._before, name)) for name in _SUMMED}
        return replace(now, **{name: a - b for name, (a, b) in past.items() if a is not None and b is not None})

    def process_count(self) -> int:
        """Return the number of processes of the program in it."""
        procs = [] if self.group is None else [folder / "cgroup.procs" for folder in self.group.folders.values()]
        return max(0, len((read_text(procs[0]) or "").split()) - OWN_PROCESSES) if procs else 0

    def ran_out_of_memory(self) -> bool:
        """Whether the runtime says so; for a container whose control group is not visible."""
        with contextlib.suppress(Unavailable):
            return ask(self.runtime, "inspect", "--format", "{{.State.OOMKilled}}", self.name) == "true"
        return False

    @property
    def network_root(self) -> Path | None:
        """The folder in ``/proc`` of its first process, which has the traffic of the container's own interfaces."""
        return Path(f"/proc/{self._pid}") if self.group is not None else None

    def kill(self) -> None:
        """Kill all its processes."""
        with contextlib.suppress(Unavailable):
            ask(*self.removal[0])


def inspect(runtime: str, name: str) -> tuple[str, str, str]:
    """Return the number of a container's first process, its identity, and the digest of its image.

    Raises `Unavailable`.
    """
    pid, identity, image = ask(runtime, "inspect", "--format", "{{.State.Pid}} {{.Id}} {{.Image}}", name).split()
    return pid, identity, image


def missing_limits(group: Cgroup, *, cpus: float | None, memory_bytes: int | None) -> list[str]:
    """Return the limits that the files of a control group do not have: ``memory.max is max, not 1048576``."""
    return [
        f"{file} is {found}, not {value}"
        for controller, file, value in group.version.settings(cpus, memory_bytes)[0]
        if not _is_set(value, found := (read_text(group.folders[controller] / file) or "absent").strip())
    ]


def group_of(pid: str, identity: str, root: Path = ROOT) -> Cgroup | None:
    """Return the control group of a container; None where the number belongs to another machine or namespace.

    Args:
        pid: number of a process in it.
        identity: of the container, which is a part of the group's name.
    """
    if identity not in (read_text(root / f"proc/{pid}/cgroup") or ""):
        return None
    for version in (V2, V1):
        folders: dict[str, Path] = {}
        for controller in version.controllers:
            levels = cgroup_folders(controller, root, process=pid)
            # A runtime may keep the processes in a group below the one that has the limits.
            own = [each for each in levels if identity in each.name] or list(levels[:1])
            is_v2 = bool(own) and (own[0] / "cgroup.controllers").exists()
            if own and own[0].is_dir() and is_v2 == (version is V2):
                folders[controller] = own[0]
        if {"cpu", "memory"} <= set(folders):
            return Cgroup(version=version, parents={}, folders=folders)
    return None


def _is_set(value: str, found: str) -> bool:
    """Whether a file of the kernel has a value; memory is rounded to pages there."""
    if re.fullmatch(r"\d+", value) and re.fullmatch(r"\d+", found):
        return 0 <= int(value) - int(found) < _PAGE
    return value == found


@dataclass(slots=True, kw_only=True)
class ContainerStart:
    """The lines that a container's shell and its runtime print on standard error, as they come.

    Attributes:
        exit_code: of the program, once it has ended; None where the container ended first.
        told: the last line of the runtime.
    """

    descriptor: int
    show: Callable[[str], object]
    is_ready: bool = False
    is_closed: bool = False
    exit_code: int | None = None
    told: str = ""
    _rest: bytes = b""

    def read(self) -> None:
        """Read what is there, which blocks if nothing is."""
        piece = os.read(self.descriptor, 2**16)
        self.is_closed = not piece
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            text = line.decode("utf-8", "replace")
            if text == _READY:
                self.is_ready = True
            elif text.startswith(f"{_ENDED} ") and text.removeprefix(f"{_ENDED} ").isdecimal():
                self.exit_code = int(text.removeprefix(f"{_ENDED} "))
            elif text.strip():
                # Docker's last line only names its help.
                self.told = self.told if text.startswith(("Run 'docker", "See 'docker")) else text
                self.show(f"{text}\n")


def signal_or_code(code: int) -> int:
    """Return an exit code as a shell tells it, 128 + N for signal N, in the form −N."""
    return 128 - code if 128 < code < 128 + 65 else code
