"""Where the kernel keeps the control groups of this process. Standard library only: devices need this module too."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path("/")


def cgroup_folders(controller: str, root: Path = ROOT, *, process: str = "self") -> tuple[Path, ...]:
    """Folders of the cgroup that holds a process, its own first, then its visible parents (cgroups(7)).

    Args:
        controller: ``cpu`` or ``memory``. A version 1 hierarchy of that controller wins over the unified one, as it
            does in the kernel.
        process: number of the process; ``self`` is this process.
    """
    paths: dict[str, str] = {}
    for line in (read_text(root / f"proc/{process}/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2) if line.count(":") >= 2 else ("", "?", "")
        paths |= dict.fromkeys(controllers.split(","), path)
    kind, path = ("cgroup", paths[controller]) if controller in paths else ("cgroup2", paths.get("", ""))
    for line in (read_text(root / "proc/self/mountinfo") or "").splitlines():
        before, _, after = line.partition(" - ")
        fields, system = before.split(), after.split()
        if len(fields) < 5 or len(system) < 3 or system[0] != kind:
            continue
        if kind == "cgroup" and controller not in system[2].split(","):
            continue
        return _levels(root / _unescape(fields[4]).lstrip("/"), top=_unescape(fields[3]), path=path)
    return ()


def _levels(mount: Path, *, top: str, path: str) -> tuple[Path, ...]:
    """`mount` shows the hierarchy from `top` down; `path` is this process's place in the whole of it."""
    inside = path.removeprefix(top.rstrip("/")).strip("/")
    # Outside of what the mount shows, only the top of the mount itself is known.
    parts = [] if ".." in inside.split("/") or not inside else inside.split("/")
    return tuple(mount.joinpath(*parts[:count]) for count in range(len(parts), -1, -1))


def _unescape(field: str) -> str:
    """Return a mountinfo field: blanks and backslashes are octal escapes there."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)


def read_text(path: Path) -> str | None:
    """Return the text of a small kernel file, or None where it is absent or unreadable."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return None
