"""A process that outlives edgewise for a moment: it kills a group when edgewise died without doing so itself.

It waits for the end of its standard input, which is a pipe from edgewise. The text ``done`` before the end means that
there is nothing to do.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from edgewise.constraints.base import Group
from edgewise.constraints.cgroups import Cgroup, kill_all, remove
from edgewise.constraints.containers import ASK_S, Container
from edgewise.constraints.process_limits import MARK, ProcessLimits


@contextlib.contextmanager
def guarded(group: Group | Container) -> Iterator[None]:
    """Inside, the processes of an entered `group` end with this process, however it ends."""
    folders = dict.fromkeys(group.folders.values()) if isinstance(group, Cgroup) else {}
    task = {
        "mark": "" if isinstance(group, Container) else group.environment.get(MARK, ""),
        "folders": [str(each) for each in folders],
        "commands": group.removal if isinstance(group, Container) else (),
    }
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
