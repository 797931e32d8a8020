"""The version of edgewise: a package has that of its tag, written while it was built; a clone that of its commit.

This module is imported by every process: it starts none, and imports nothing that Python has not imported at its start.
"""

from os import path


def _find_version() -> str:
    package = path.dirname(path.abspath(__file__))
    git = path.join(path.dirname(path.dirname(package)), ".git")
    try:
        if path.exists(git):  # what a build left here is older than the clone
            return f"0+source.g{_read_commit(git)[:9]}"
        return _read(path.join(package, "version.txt"))
    except (OSError, UnicodeError, StopIteration):
        return "0+source"


def _read_commit(git: str) -> str:
    """Return the commit that a clone is at, from git's own files.

    Raises `OSError` or `StopIteration` where they have none.
    """
    if path.isfile(git):  # of a worktree: the place of its folder
        git = path.join(path.dirname(git), _read(git).removeprefix("gitdir: "))
    head = _read(path.join(git, "HEAD"))
    if not head.startswith("ref: "):
        return head
    common = path.join(git, "commondir")
    shared, name = path.join(git, _read(common)) if path.exists(common) else git, head.removeprefix("ref: ")
    if path.exists(path.join(shared, name)):
        return _read(path.join(shared, name))
    packed = _read(path.join(shared, "packed-refs")).splitlines()
    return next(line for line in packed if line.endswith(f" {name}"))


def _read(file: str) -> str:
    with open(file, encoding="utf-8") as opened:
        return opened.read().strip()


__version__ = _find_version()
