"""Makes Python environments on the machine that it runs on, edgewise's own or a device, and keeps them in a cache.

Asked as a process, it answers one JSON object with one (`main`). Standard library only.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from edgewise.child_process import run_child, serve

FOREIGN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
"""Variables with what belongs to one Python, which must not be found by another one."""
MAKE_S = 1800.0
"""Deadline for each step of making an environment: a large engine over a slow network."""
ASK_S = 120.0


def find_python(text: str) -> str:
    """Return the interpreter that a path names, itself or its environment's folder; "" where there is none."""
    path = Path(text).expanduser().absolute()
    files = (path, path / "bin" / "python", path / "bin" / "python3")
    return next((str(each) for each in files if each.is_file() and os.access(each, os.X_OK)), "")


def provide(cache: Path, requirements: Sequence[str], *, make: bool, any_python: bool = False) -> dict[str, str]:
    """Return the interpreter of the environment with `requirements` and numpy, as ``python``.

    Args:
        cache: the folder of all environments.
        requirements: ``NAME==VERSION`` each, sorted.
        make: whether one that is missing or broken is made; otherwise ``python`` is empty then.
        any_python: whether packages are taken that do not name this Python among those that they run in.

    Where it can't be made, the answer has ``failure``, how a step ended, and ``tail``, what that printed last.
    """
    version = ".".join(map(str, sys.version_info[:3]))
    folder = cache / hashlib.sha256(" ".join((version, *requirements)).encode()).hexdigest()[:16]
    try:
        with _locked(folder):
            if not _is_whole(folder):
                if not make:
                    return {"python": ""}
                if failed := _make(folder, requirements, any_python=any_python):
                    shutil.rmtree(folder, ignore_errors=True)
                    return failed
    except OSError as error:
        reason = error.strerror or str(error)
        return {"failure": reason, "tail": reason}
    return {"python": str(folder / "bin" / "python")}


def list_releases(package: str) -> dict[str, str]:
    """Return what pip tells of the releases of `package` for this Python: ``output``, ``failure`` and ``tail``."""
    command = [sys.executable, "-m", "pip", "index", "versions", package, "--disable-pip-version-check"]
    done = run_child(command, seconds=ASK_S)
    return {"output": done.output.decode(errors="replace"), "failure": done.failure, "tail": done.tail}


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Two commands that need one environment make it once. Raises OSError where the cache can't be written."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _is_whole(folder: Path) -> bool:
    """Whether it was made to its end, its interpreter still starts, and no file of its packages was removed since."""
    python = folder / "bin" / "python"
    try:
        made = json.loads((folder / "made.json").read_bytes())
    except (OSError, ValueError):
        return False
    whole = _count_files(folder) >= made.get("files", 0)
    return whole and run_child([str(python), "-I", "-c", ""], seconds=ASK_S).failure == ""


def _count_files(folder: Path) -> int:
    """How many files of packages it has, without what Python compiled."""
    return sum(not name.endswith(".pyc") for _, _, names in os.walk(folder / "lib") for name in names)


def _make(folder: Path, requirements: Sequence[str], *, any_python: bool) -> dict[str, str]:
    """Make it anew; what failed, as `provide` answers it. Raises OSError."""
    shutil.rmtree(folder, ignore_errors=True)
    python = str(folder / "bin" / "python")
    if not any_python and (uv := shutil.which("uv")):  # which has no such option
        make = [[uv, "venv", "--quiet", "--python", sys.executable, str(folder)]]
        install = [uv, "pip", "install", "--quiet", "--python", python]
    else:
        # In two steps: venv itself does not tell why it could not install pip.
        make = [[sys.executable, "-m", "venv", "--without-pip", str(folder)], [python, "-m", "ensurepip"]]
        install = [python, "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]
        # Of a package that has left this Python behind, pip would try to build the newest source.
        install += ["--ignore-requires-python", "--only-binary=:all:"] if any_python else []
    own = {name: value for name, value in os.environ.items() if name not in FOREIGN}
    for step in (*make, [*install, *requirements, "numpy"]):
        done = run_child(step, seconds=MAKE_S, environment=own)
        if done.failure:
            return {"failure": done.failure, "tail": done.tail or done.output.decode(errors="replace")}
    (folder / "made.json").write_text(json.dumps({"requirements": list(requirements), "files": _count_files(folder)}))
    return {}


def _answer(request: bytes) -> bytes:
    """Return a question has a ``path``, or the package whose ``releases`` are asked for, or what `provide` takes."""
    asked: dict[str, Any] = json.loads(request)
    if "path" in asked:
        answer = {"python": find_python(asked["path"])}
    elif "releases" in asked:
        answer = list_releases(asked["releases"])
    else:
        answer = provide(Path(asked["cache"]).expanduser(), asked["requirements"], make=asked["make"])
    return json.dumps(answer).encode()


def main() -> None:
    """Entry point of the process."""
    os._exit(serve(_answer))
