"""Control groups of the kernel, version 1 and 2: cgroups(7), and ``admin-guide/cgroup-v1``, ``cgroup-v2`` of Linux.

A group's folder is locked (``flock``) for as long as edgewise uses it. A folder whose lock is free belongs to an
edgewise that died: the next one kills what is in it and removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self
from uuid import uuid4

from edgewise.constraints.base import PERIOD_S, V1_NAME, V2_NAME, Usage
from edgewise.constraints.hierarchy import ROOT, cgroup_folders, read_text

PREFIX = "edgewise-"
KILL_TRIES = 200
KILL_PAUSE_S = 0.01

Setting = tuple[str, str, str]
"""Controller, file and value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counter:
    """Where a number stands: all matches of `pattern` in a file are added and multiplied by `factor`.

    Attributes:
        empty: whether a file without a match means 0.
    """

    controller: str
    file: str
    pattern: str = r"^(\d+)$"
    factor: float = 1
    empty: bool = False

    def read(self, folders: Mapping[str, Path]) -> float | None:
        folder = folders.get(self.controller)
        text = None if folder is None else read_text(folder / self.file)
        found = [int(number) for number in re.findall(self.pattern, text or "", re.MULTILINE)]
        if text is None or not (found or self.empty):
            return None
        return sum(found) * self.factor


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """Files of one version of control groups.

    Attributes:
        controllers: those that are used where they exist.
        required: limit → controllers without which it can't be set.
        counters: field of `Usage` → where it stands; ``droppable`` is page cache that does not count as used.
    """

    name: str
    controllers: tuple[str, ...]
    required: Mapping[str, tuple[str, ...]]
    counters: Mapping[str, _Counter]

    def settings(self, cpus: float | None, memory_bytes: int | None) -> tuple[list[Setting], list[Setting]]:
        """Return what to write for these limits, and what to write beside it where the file exists (no swap)."""
        quota, period = round((cpus or 0) * PERIOD_S * 1e6), round(PERIOD_S * 1e6)
        if self.name == V2_NAME:
            needed = [("cpu", "cpu.max", f"{quota} {period}")] if cpus else []
            needed += [("memory", "memory.max", str(memory_bytes))] if memory_bytes else []
            return needed, [("memory", "memory.swap.max", "0")] if memory_bytes else []
        needed = [("cpu", "cpu.cfs_period_us", str(period)), ("cpu", "cpu.cfs_quota_us", str(quota))] if cpus else []
        needed += [("memory", "memory.limit_in_bytes", str(memory_bytes))] if memory_bytes else []
        swap = [("memory", "memory.swappiness", "0"), ("memory", "memory.memsw.limit_in_bytes", str(memory_bytes))]
        return needed, swap if memory_bytes else []


V2 = Version(
    name=V2_NAME,
    controllers=("cpu", "memory", "io"),
    required={"cpus": ("cpu",), "memory": ("memory",)},
    counters={
        "cpu_s": _Counter(controller="cpu", file="cpu.stat", pattern=r"^usage_usec (\d+)$", factor=1e-6),
        "periods": _Counter(controller="cpu", file="cpu.stat", pattern=r"^nr_periods (\d+)$"),
        "throttled_periods": _Counter(controller="cpu", file="cpu.stat", pattern=r"^nr_throttled (\d+)$"),
        "throttled_s": _Counter(controller="cpu", file="cpu.stat", pattern=r"^throttled_usec (\d+)$", factor=1e-6),
        "memory_bytes": _Counter(controller="memory", file="memory.current"),
        "droppable": _Counter(controller="memory", file="memory.stat", pattern=r"^inactive_file (\d+)$"),
        "memory_peak_bytes": _Counter(controller="memory", file="memory.peak"),
        "limit_hits": _Counter(controller="memory", file="memory.events", pattern=r"^max (\d+)$"),
        "oom_kills": _Counter(controller="memory", file="memory.events", pattern=r"^oom_kill (\d+)$"),
        "read_bytes": _Counter(controller="io", file="io.stat", pattern=r"\brbytes=(\d+)", empty=True),
        "written_bytes": _Counter(controller="io", file="io.stat", pattern=r"\bwbytes=(\d+)", empty=True),
    },
)
V1 = Version(
    name=V1_NAME,
    # Not blkio: newer kernels count nothing there without a limit on I/O, and never what is written through the cache.
    controllers=("cpu", "cpuacct", "memory", "freezer"),
    required={"cpus": ("cpu", "cpuacct"), "memory": ("memory",)},
    counters={
        "cpu_s": _Counter(controller="cpuacct", file="cpuacct.usage", factor=1e-9),
        "periods": _Counter(controller="cpu", file="cpu.stat", pattern=r"^nr_periods (\d+)$"),
        "throttled_periods": _Counter(controller="cpu", file="cpu.stat", pattern=r"^nr_throttled (\d+)$"),
        "throttled_s": _Counter(controller="cpu", file="cpu.stat", pattern=r"^throttled_time (\d+)$", factor=1e-9),
        "memory_bytes": _Counter(controller="memory", file="memory.usage_in_bytes"),
        "droppable": _Counter(controller="memory", file="memory.stat", pattern=r"^total_inactive_file (\d+)$"),
        "memory_peak_bytes": _Counter(controller="memory", file="memory.max_usage_in_bytes"),
        "limit_hits": _Counter(controller="memory", file="memory.failcnt"),
        "oom_kills": _Counter(controller="memory", file="memory.oom_control", pattern=r"^oom_kill (\d+)$"),
    },
)
_SECONDS = ("cpu_s", "throttled_s")
_FREEZERS = {"cgroup.freeze": ("0", "1"), "freezer.state": ("THAWED", "FROZEN")}
"""File that stops all processes of a group, of version 2 and 1 → what lets them run and what stops them."""


@dataclass(slots=True, kw_only=True)
class Cgroup:
    """One control group, in every hierarchy that has one of its controllers.

    Attributes:
        parents: controller → folder in which the group is made.
    """

    version: Version
    parents: Mapping[str, Path]
    cpus: float | None = None
    memory_bytes: int | None = None
    cannot_hold: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    folders: dict[str, Path] = field(default_factory=dict)
    _locks: dict[Path, int] = field(default_factory=dict)

    @property
    def mechanism(self) -> str:
        """``cgroup-v1`` or ``cgroup-v2``."""
        return self.version.name

    def __enter__(self) -> Self:
        try:
            for parent in dict.fromkeys(self.parents.values()):
                remove_stale(parent)
            name = f"{PREFIX}{os.getpid()}-{uuid4().hex[:8]}"
            for controller, parent in self.parents.items():
                self.folders[controller] = self._make(parent / name)
            needed, wished = self.version.settings(self.cpus, self.memory_bytes)
            for controller, file, value in needed:
                _write(self.folders[controller] / file, value)
            for controller, file, value in wished:
                with contextlib.suppress(OSError):
                    _write(self.folders[controller] / file, value)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _make(self, folder: Path) -> Path:
        """Return the folder, made and locked.

        An edgewise that starts now may take it for a stale one before it is locked.
        """
        while folder not in self._locks:
            folder.mkdir(exist_ok=True)
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if folder.is_dir():
                self._locks[folder] = lock
            else:
                os.close(lock)
        return folder

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        for folder, lock in self._locks.items():
            remove(folder)
            os.close(lock)
        self._locks.clear()
        self.folders.clear()

    def admit(self, pid: int) -> None:
        """Put a process into the group. Raises OSError."""
        for folder in self._locks:
            _write(folder / "cgroup.procs", str(pid))

    def usage(self) -> Usage:
        """Return the counters of the kernel."""
        found = {name: counter.read(self.folders) for name, counter in self.version.counters.items()}
        droppable, memory = found.pop("droppable"), found["memory_bytes"]
        if memory is not None and droppable is not None:
            found["memory_bytes"] = max(0, memory - droppable)
        whole = {name: value if name in _SECONDS or value is None else int(value) for name, value in found.items()}
        return Usage(**whole)  # type: ignore[arg-type]

    def pids(self) -> list[int]:
        """Return the processes in the group, without those of groups that they made below it."""
        folder = next(iter(self._locks), None)
        return [] if folder is None else [int(pid) for pid in (read_text(folder / "cgroup.procs") or "").split()]

    def kill_count(self) -> int:
        """Return the number of processes that the kernel has killed because of the memory limit; 0 where it
        does not count.
        """
        return int(self.version.counters["oom_kills"].read(self.folders) or 0)

    def kill(self) -> int:
        """Kill all processes of the group."""
        return kill_all(tuple(self._locks))


def find_cgroup(
    version: Version, *, cpus: float | None = None, memory_bytes: int | None = None, root: Path = ROOT
) -> Cgroup | str:
    """Return a group of `version` that can be made here, or the reason why there is none."""
    asked = [name for name, value in (("cpus", cpus), ("memory", memory_bytes)) if value]
    required = [one for name in asked or ("cpus",) for one in version.required[name]]
    parents = (
        {one: folder for one in version.controllers if (folder := _parent_v1(one, root)) is not None}
        if version is V1
        else _parents_v2(version.controllers, required, root)
    )
    lacking = [one for one in required if one not in parents]
    if lacking:
        return f"{version.name}: no writable hierarchy for {', '.join(lacking)}"
    group = Cgroup(version=version, parents=parents, cpus=cpus, memory_bytes=memory_bytes)
    if root == ROOT:
        try:
            with group:
                pass
        except OSError as error:
            return f"{version.name}: {error.strerror or error}: {error.filename}"
    return group


def _parent_v1(controller: str, root: Path) -> Path | None:
    """Return the own folder in the hierarchy of a controller of version 1, if groups can be made in it."""
    folders = cgroup_folders(controller, root)
    if not folders or (folders[0] / "cgroup.controllers").exists():
        return None
    return folders[0] if _is_writable(folders[0]) else None


def _parents_v2(controllers: Sequence[str], required: Sequence[str], root: Path) -> dict[str, Path]:
    """Return the nearest folder upwards in which groups with all `required` controllers can be made, for each that
    it has.
    """
    for folder in cgroup_folders(required[0], root):
        children_have = (read_text(folder / "cgroup.subtree_control") or "").split()
        if set(required) <= set(children_have) and _is_writable(folder):
            return {one: folder for one in controllers if one in children_have}
    return {}


def _is_writable(folder: Path) -> bool:
    return os.access(folder, os.W_OK | os.X_OK) and os.access(folder / "cgroup.procs", os.W_OK)


def remove_stale(parent: Path) -> int:
    """Remove the groups below `parent` that an edgewise left behind when it was killed. Return how many."""
    removed = 0
    for folder in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                kill_all((folder,))
                removed += remove(folder)
            finally:
                os.close(lock)
    return removed


def kill_all(folders: Sequence[Path]) -> int:
    """Kill the processes in `folders` and in groups below until there are none. Return how many different ones."""
    seen: set[int] = set()
    for _ in range(KILL_TRIES):
        _freeze(folders, frozen=True)  # otherwise a fork bomb makes processes faster than they are killed
        every = [inner for folder in folders for inner in _with_inner(folder)]
        left = {int(pid) for folder in every for pid in (read_text(folder / "cgroup.procs") or "").split()}
        left.discard(0)  # a process of another namespace; to kill, 0 means this process and its group
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        _freeze(folders, frozen=False)
        if not left:
            break
        seen |= left
        time.sleep(KILL_PAUSE_S)
    return len(seen)


def _freeze(folders: Sequence[Path], *, frozen: bool) -> None:
    """Stop the processes of these groups and of those below them, or let them run; nothing without a freezer."""
    for folder in folders:
        for name, words in _FREEZERS.items():
            with contextlib.suppress(OSError):
                _write(folder / name, words[frozen])


def _with_inner(folder: Path) -> list[Path]:
    """Return a group's folder and those of the groups in it, the innermost first."""
    return [Path(top) for top, _, _ in os.walk(folder, topdown=False)]


def remove(folder: Path) -> bool:
    """Remove an empty group and the groups in it; killed processes may take a moment to leave. Return success."""
    for _ in range(KILL_TRIES):
        for inner in _with_inner(folder):
            with contextlib.suppress(OSError):
                inner.rmdir()
        if not folder.exists():
            return True
        time.sleep(KILL_PAUSE_S)
    return False


def _write(file: Path, value: str) -> None:
    # Opened for update: the file must be the kernel's, never one made by this write.
    with file.open("r+") as stream:
        stream.write(value)
