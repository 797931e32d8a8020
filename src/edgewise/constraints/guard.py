"""A process that outlives edgewise for a moment: it kills a group when edgewise died without doing so itself.

It waits for the end of its standard input, which is a pipe from edgewise. The text ``done`` before the end means that
there is nothing to do.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from edgewise.constraints.base import Group
from edgewise.constraints.cgroups import Cgroup, kill_all, remove
from edgewise.constraints.process_limits import MARK, ProcessLimits


@contextlib.contextmanager
def guarded(group: Group) -> Iterator[None]:
    """Inside, the processes of an entered `group` end with this process, however it ends."""
    words = [str(each) for each in dict.fromkeys(group.folders.values())] if isinstance(group, Cgroup) else []
    mark = group.environment.get(MARK, "")
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "edgewise.constraints.guard", f"mark={mark}", *words],
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
    mark, folders = sys.argv[1].removeprefix("mark="), [Path(word) for word in sys.argv[2:]]
    sys.stdout.write("r")
    sys.stdout.flush()
    if sys.stdin.read() == "done":
        return
    if mark:
        ProcessLimits(mark=mark).kill()
    kill_all(folders)
    for folder in folders:
        remove(folder)


if __name__ == "__main__":
    main()
