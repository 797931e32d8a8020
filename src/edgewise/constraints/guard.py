"""A process that outlives edgewise for a moment: it kills a group when edgewise died without doing so itself.

It waits for the end of its standard input, which is a pipe from edgewise. The text ``done`` before the end means that
there is nothing to do.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from edgewise.constraints.base import Group
from edgewise.constraints.cgroups import Cgroup, kill_all, remove
from edgewise.constraints.containers import ASK_S, Container
from edgewise.constraints.process_limits import MARK, ProcessLimits


def guarded(group: Group | Container) -> contextlib.AbstractContextManager[None]:
    """Inside, the processes of an entered `group` end with this process, however it ends."""
    if isinstance(group, Container):
        return guarding(commands=group.removal)
    folders = dict.fromkeys(group.folders.values()) if isinstance(group, Cgroup) else {}
    return guarding(mark=group.environment.get(MARK, ""), folders=tuple(folders))


@contextlib.contextmanager
def guarding(*, mark: str = "", folders: Sequence[Path] = (), commands: Sequence[Sequence[str]] = ()) -> Iterator[None]:
    """Clean up where this process dies inside.

    Args:
        mark: kill the processes with this mark in their environment.
        folders: kill what is in these control groups, and remove them.
        commands: execute these.
    """
    task = {"mark": mark, "folders": [str(each) for each in folders], "commands": commands}
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "edgewise.constraints.guard", json.dumps(task)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert child.stdin is not None and child.stdout is not None
    try:
        child.stdout.read(1)  # it waits now, so that its start takes no time from the command
        yield
    finally:
        with contextlib.suppress(OSError):
            child.stdin.write(b"done")
            child.stdin.close()
        child.stdout.close()
        child.wait()


def main() -> None:
    """Wait for the end of edgewise, then clean up."""
    task = json.loads(sys.argv[1])
    folders = [Path(word) for word in task["folders"]]
    sys.stdout.write("r")
    sys.stdout.flush()
    if sys.stdin.read() == "done":
        return
    if task["mark"]:
        ProcessLimits(mark=task["mark"]).kill()
    for command in task["commands"]:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(command, capture_output=True, timeout=ASK_S, check=False)
    kill_all(folders)
    for folder in folders:
        remove(folder)


if __name__ == "__main__":
    main()
