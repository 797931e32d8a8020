"""Runs on a target, sent there as source: keeps files by content, makes work folders, and tells the time.

``python -c SOURCE ROOT``. A request is one JSON line on standard input, the answer one on standard output; the bytes of
a file follow the line that announces them. The end of standard input ends the agent and removes its work folders.
Standard library only.
"""

from __future__ import annotations

import compileall
import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import stat
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

BLOCK = 2**16
LEAST_FREE = 2**16
"""With less free space after unpacking, compiled files may be cut short: Python 3.11 reports no error then."""
MOST_HOLDER = 500
PATIENCE_S = 5.0
"""How long a killed agent may take to end."""


def lock_file() -> Path:
    """Return the file whose lock a measurement holds: the same one for all users of this machine."""
    return Path(os.environ.get("EDGEWISE_LOCKS") or "/tmp") / "edgewise-measuring.lock"  # noqa: S108


def try_lock(file: Path, holder: str) -> int | str:
    """Return the descriptor that holds the lock, or who holds it; −1 where there can't be a lock."""
    try:
        try:
            descriptor = os.open(file, os.O_RDWR | os.O_NOFOLLOW)
        except FileNotFoundError:
            _make_folder(file.parent)
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
            os.fchmod(descriptor, 0o666)  # other users lock it too, whatever the umask is
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            return -1
    except FileExistsError:  # another process was faster
        return try_lock(file, holder)
    except OSError:
        return -1
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        told = os.pread(descriptor, MOST_HOLDER, 0).decode(errors="replace")
        os.close(descriptor)
        return told
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, holder.encode()[:MOST_HOLDER], 0)
    return descriptor


def _make_folder(folder: Path) -> None:
    """Make the folder of locks that the user named, if there is none, for the user alone."""
    if os.environ.get("EDGEWISE_LOCKS"):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def why_no_lock(file: Path) -> str:
    """Why `try_lock` gives −1."""
    try:
        _make_folder(file.parent)
    except OSError as error:
        return f"the folder {file.parent} can't be made: {error.strerror}"
    return f"{file} can't be opened for writing" if file.parent.is_dir() else f"there is no folder {file.parent}"


def count_oom_kills() -> int:
    """How many processes the kernel has killed for want of memory since it started; 0 where it does not count them."""
    found = re.search(r"^oom_kill (\d+)$", Path("/proc/vmstat").read_text(), re.MULTILINE)
    return int(found[1]) if found else 0


class Agent:
    """The requests that a host can make, each a method named by ``do``.

    `root`: folder for all files: ``cache`` has contents by their SHA-256, ``work`` the folders of jobs.
    """

    def __init__(self, root: Path, requests: BinaryIO, answers: BinaryIO) -> None:
        self._requests = requests
        self._answers = answers
        self._cache, self._work = root / "cache", root / "work"
        self._cache.mkdir(parents=True, exist_ok=True)
        self._work.mkdir(exist_ok=True)
        self._folders: dict[Path, int] = {}
        self._lock = -1

    def serve(self) -> None:
        """Answer until the host is gone."""
        self._sweep()
        self._answer(python=sys.executable, version=sys.version.split()[0])
        try:
            while line := self._requests.readline(BLOCK):
                request = json.loads(line)
                try:
                    getattr(self, f"do_{request.pop('do')}")(**request)
                except OSError as error:
                    self._answer(error=error.strerror or str(error))
                    if "size" in request:
                        return  # the rest of the file is on its way; a new connection begins behind it
        except OSError:
            return  # the host is gone
        finally:
            for folder in list(self._folders):
                self._remove(folder)

    def do_ping(self) -> None:
        """Answer with the time here."""
        self._answer(monotonic_ns=time.monotonic_ns(), time_ns=time.time_ns())

    def do_space(self) -> None:
        """Free space for contents."""
        self._answer(free_bytes=shutil.disk_usage(self._cache).free)

    def do_lock(self, *, holder: str) -> None:
        """Hold this machine's lock until `do_unlock` or the agent's end, or tell who holds it."""
        own = f"{holder}\n{os.getpid()}"
        found = try_lock(lock_file(), own) if self._lock < 0 else self._lock
        if isinstance(found, str) and found.startswith(f"{holder}\n"):
            self._end_predecessor(found)
            found = try_lock(lock_file(), own)
        if isinstance(found, str):
            self._answer(held_by=found.partition("\n")[0])
        else:
            self._lock = found
            self._answer(held_by=None, no_lock="" if found >= 0 else why_no_lock(lock_file()))

    def _end_predecessor(self, told: str) -> None:
        """End the agent and the workers of this host's earlier connection, which have not noticed that it is gone."""
        with contextlib.suppress(OSError, ValueError):
            pid = int(told.rpartition("\n")[2])
            # Every user can write the lock file: only a process with this command line is an agent of this host.
            if pid > 1 and _command_line(pid)[1:] == _command_line(os.getpid())[1:]:
                os.kill(pid, signal.SIGKILL)
        give_up = time.monotonic() + PATIENCE_S
        while not self._is_free(lock_file()) and time.monotonic() < give_up:
            time.sleep(0.05)
        stale = [str(folder) for folder in self._work.iterdir() if self._is_free(folder)]
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if os.readlink(process / "cwd").removesuffix(" (deleted)") in stale:  # noqa: PTH115
                    os.kill(int(process.name), signal.SIGKILL)

    @staticmethod
    def _is_free(path: Path) -> bool:
        """Whether no process holds the lock of a file or folder."""
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return True

    def do_unlock(self) -> None:
        """Release the lock."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
        self._answer()

    def do_have(self, *, sha256: str) -> None:
        """How many bytes of a content are here."""
        file = self._cache / _checked(sha256)
        partial = file.with_suffix(".part")
        kept = file if file.exists() else partial
        self._answer(bytes=kept.stat().st_size if kept.exists() else 0, complete=file.exists())

    def do_put(self, *, sha256: str, offset: int, size: int) -> None:
        """Take the last `size` bytes of a content that begin at `offset`."""
        file = self._cache / _checked(sha256)
        partial = file.with_suffix(".part")
        with os.fdopen(os.open(partial, os.O_RDWR | os.O_CREAT, 0o644), "r+b") as target:
            fcntl.flock(target, fcntl.LOCK_EX)
            if file.exists():  # another agent was faster, and this is its file now
                with Path(os.devnull).open("wb") as nowhere:
                    self._receive(nowhere, size)
                self._answer()
                return
            target.truncate(offset)
            target.seek(offset)
            try:
                self._receive(target, size)
                os.fsync(target.fileno())  # a board that loses its power must not keep an empty file under this name
            except ConnectionError:
                raise
            except OSError:
                # A full disk stays full otherwise. What is still in the buffer goes into the file that has no name.
                partial.unlink()
                os.ftruncate(target.fileno(), 0)
                raise
            target.seek(0)
            whole = hashlib.file_digest(target, "sha256").hexdigest() == sha256
            if whole:
                partial.chmod(0o444)
                partial.replace(file)
            else:
                partial.unlink()
        self._answer(**({} if whole else {"error": "the content was damaged in transit"}))

    def do_unpack(self, *, sha256: str) -> None:
        """Answer with the folder that has what the archive of this content holds, compiled."""
        folder = self._cache / f"{_checked(sha256)}.d"
        if not folder.exists():
            fresh = Path(tempfile.mkdtemp(dir=self._cache))
            try:
                with zipfile.ZipFile(self._cache / sha256) as archive:
                    archive.extractall(fresh)
                compileall.compile_dir(fresh, quiet=2)
                if shutil.disk_usage(fresh).free < LEAST_FREE:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                fresh.rename(folder)
            except OSError:
                shutil.rmtree(fresh, ignore_errors=True)
                if not folder.exists():  # no other agent was faster
                    raise
        self._answer(path=str(folder))

    def do_folder(self) -> None:
        """Answer with a new, empty work folder."""
        folder = Path(tempfile.mkdtemp(dir=self._work))
        self._folders[folder] = os.open(folder, os.O_RDONLY)
        fcntl.flock(self._folders[folder], fcntl.LOCK_EX)
        self._answer(path=str(folder))

    def do_place(self, *, sha256: str, folder: str, name: str) -> None:
        """Put a content into a work folder under a name."""
        file = self._inside(folder, name)
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(self._cache / _checked(sha256), file)
        except OSError:
            shutil.copyfile(self._cache / sha256, file)
        self._answer()

    def do_write(self, *, folder: str, name: str, size: int) -> None:
        """Take a file of `size` bytes that is not kept."""
        with self._inside(folder, name).open("wb") as target:
            self._receive(target, size)
        self._answer()

    def do_read(self, *, folder: str, name: str) -> None:
        """Send a file, and delete it."""
        file = self._inside(folder, name)
        with file.open("rb") as content:
            size = os.fstat(content.fileno()).st_size
            self._answer(size=size)
            while size and (block := content.read(min(BLOCK, size))):
                self._answers.write(block)
                size -= len(block)
        self._answers.flush()
        file.unlink()

    def do_oom_kills(self) -> None:
        """How many processes the kernel has killed for want of memory."""
        self._answer(count=count_oom_kills())

    def do_remove(self, *, folder: str) -> None:
        """Remove a work folder."""
        self._remove(self._inside(folder, "").resolve())
        self._answer()

    def _inside(self, folder: str, name: str) -> Path:
        """Return a path in a work folder of this agent; OSError for any other."""
        if Path(folder) not in self._folders:
            raise FileNotFoundError(2, f"{folder} is not a work folder")
        file = (Path(folder) / name).resolve()
        if not file.is_relative_to(Path(folder).resolve()):
            raise PermissionError(1, f"{name} is outside the work folder")
        return file

    def _remove(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        descriptor = self._folders.pop(folder, None)
        if descriptor is not None:
            os.close(descriptor)

    def _sweep(self) -> None:
        """Remove the work folders of agents that were killed, which are those whose lock is free."""
        for folder in self._work.iterdir():
            try:
                descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            except OSError:  # another agent was faster
                continue
            try:
                if time.time() - os.fstat(descriptor).st_mtime > 60.0:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)
            except OSError:
                continue
            finally:
                os.close(descriptor)

    def _receive(self, target: BinaryIO, size: int) -> None:
        """Write each block at once: what has arrived stays when the link drops."""
        while size:
            block = os.read(self._requests.fileno(), min(BLOCK, size))
            if not block:
                raise ConnectionError("the host has disconnected")
            target.write(block)
            target.flush()
            size -= len(block)

    def _answer(self, **fields: Any) -> None:
        self._answers.write(json.dumps(fields).encode() + b"\n")
        self._answers.flush()


def _command_line(pid: int) -> list[bytes]:
    return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")


def _checked(sha256: str) -> str:
    if not re.fullmatch("[0-9a-f]{64}", sha256):
        raise ValueError(sha256)
    return sha256


if __name__ == "__main__":
    try:
        # Unbuffered: the bytes behind a line must not be read with it.
        agent = Agent(Path(sys.argv[1]).expanduser(), os.fdopen(0, "rb", 0), os.fdopen(os.dup(1), "wb"))
    except OSError as error:
        print(json.dumps({"error": f"{error.filename}: {error.strerror}"}))
    else:
        agent.serve()
