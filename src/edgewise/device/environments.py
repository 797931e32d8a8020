"""Python environments of this machine, in which an engine has another version: made once, and kept in a cache.

An environment is named by its requirements, ``onnxruntime==1.30.0``, several parted by blanks, or by the path of one
that exists: its folder, or its interpreter. A worker needs numpy and the engine there, and nothing of edgewise. An
image of a container, ``container://IMAGE``, is one too, and so is a registered device of that kind.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import sys
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.child_process import Outcome, run_child
from edgewise.device.bundle import make_bundle
from edgewise.device.devices import LOCAL, transport_of
from edgewise.errors import BadInput, Unavailable
from edgewise.progress import StageStarted, emit
from edgewise.text import means_disk_full, one_line

if TYPE_CHECKING:
    from packaging.version import Version

ENGINES = {
    "onnxruntime": "onnxruntime", "openvino": "openvino", "ai-edge-litert": "litert", "torch": "torch",
    "keras": "keras", "tensorflow": "tensorflow", "numpy": "",
}  # fmt: skip
"""Packages whose versions can be varied by their names → the runtime that runs them."""
PYTHON, CONTAINER = "python", "container"
MAKE_S = 1800.0
"""Deadline for making an environment: a large engine over a slow network."""
_ASK_S = 120.0
_PACKAGE = Path(__file__).parents[1]
_REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9,._-]+\])?==[A-Za-z0-9][A-Za-z0-9.!+_-]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OURS = ("TMPDIR", "EDGEWISE_")
"""How the names of variables begin that edgewise sets for its workers."""
_KNOWN_VERSIONS = re.compile(r"from versions: ([^)]*)\)")
_NO_INDEX = re.compile(
    r"connection error|connection broken|Failed to establish|error sending request|Could not fetch URL|timed out"
    r"|Name or service not known|Temporary failure in name resolution|dns error|Could not connect",
    re.IGNORECASE,
)


def is_container(environment: str) -> bool:
    """Whether an environment is the image of a container, or a registered device of that kind."""
    return transport_of(environment) == CONTAINER


def requirement(package: str, version: str) -> str:
    """The name of an environment with `version` of `package`; of ``python`` the path itself, of ``container`` an image.

    Raises `BadInput` for a device that is no container on this machine.
    """
    if package == CONTAINER:
        if "://" in version and not is_container(version):
            raise BadInput(f"{version} is no container", advice="write container=IMAGE, or local for no container")
        return version if version == LOCAL or is_container(version) else f"{CONTAINER}://{version}"
    if package != PYTHON:
        return f"{package}=={version}"
    return version if os.sep in version else f".{os.sep}{version}"


def engine_in(environment: str) -> str:
    """The runtime whose version an environment names; "" where it names none."""
    packages = [one.partition("==")[0] for one in environment.split()]
    return next((ENGINES[name] for name in packages if ENGINES.get(name)), "")


def check_variables(variables: Sequence[str]) -> None:
    """Reject what is no ``NAME=VALUE`` that a worker can be started with. Raises `BadInput`."""
    for text in variables:
        name, equals, value = text.partition("=")
        if not _VARIABLE.fullmatch(name):
            what = f"{name!r} is not a name of an environment variable" if name else f"{text!r} names no variable"
            raise BadInput(what, advice="letters, digits and _, the first no digit: OMP_WAIT_POLICY")
        if not equals or not value:
            raise BadInput(f"the environment variable {name} has no value", advice=f"for example {name}=1")
        if not value.isprintable():
            raise BadInput(f"the environment variable {name} has unprintable characters", advice="give plain text")
        if name.startswith(_OURS):
            raise BadInput(f"edgewise itself sets the environment variable {name}", advice="leave it out")


def names_of(variables: Sequence[str]) -> set[str]:
    """The names of environment variables."""
    return {text.partition("=")[0] for text in variables}


def variable_sets(variables: Sequence[str]) -> list[tuple[str, ...]]:
    """Each combination of values, where a name occurs several times: ``A=1 A=2 B=1`` → ``A=1 B=1``, ``A=2 B=1``."""
    values: dict[str, list[str]] = {}
    for text in dict.fromkeys(variables):
        values.setdefault(text.partition("=")[0], []).append(text)
    return list(product(*values.values()))


@cache
def python_of(environment: str) -> str:
    """The interpreter of an environment, which is made where it is not there yet or broken.

    Raises:
        BadInput: neither requirements with versions nor a path with an interpreter, or a version that does not exist.
        Unavailable: it can't be made: no index, no wheel for this Python, a full disk.
    """
    if os.sep in environment or Path(environment).exists():
        return _existing(environment)
    requirements = sorted(set(environment.split()))
    if wrong := [one for one in requirements if not _REQUIREMENT.fullmatch(one)] or ([""] if not requirements else []):
        advice = "write NAME==VERSION, or the path of an environment"
        raise BadInput(f"{wrong[0]!r} is no package with a version", advice=advice)
    version = ".".join(map(str, sys.version_info[:3]))
    name = hashlib.sha256(" ".join((version, *requirements)).encode()).hexdigest()[:16]
    folder = _cache() / name
    with _locked(folder):
        if not _is_whole(folder):
            _make(folder, requirements)
    return str(folder / "bin" / "python")


@cache
def worker_file() -> str:
    """The archive with the worker, which every environment runs; kept until a source file changes."""
    sources = sorted((str(file), file.stat()) for file in _PACKAGE.rglob("*.py"))
    marks = "\n".join(f"{name} {status.st_size} {status.st_mtime_ns}" for name, status in sources)
    path = _cache() / f"worker-{hashlib.sha256(marks.encode()).hexdigest()[:16]}.zip"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(f".{os.getpid()}")
        fresh.write_bytes(make_bundle())  # which takes 0.4 s
        fresh.replace(path)
    return str(path)


def _cache() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("edgewise") / "environments"


def _existing(text: str) -> str:
    path = Path(text).expanduser().absolute()
    for python in (path, path / "bin" / "python", path / "bin" / "python3"):
        if python.is_file() and os.access(python, os.X_OK):
            return str(python)
    raise BadInput(f"there is no Python at {text}", advice="name the folder of a virtual environment, or its python")


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Two commands that need one environment make it once. Raises `Unavailable` where the cache can't be written."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = folder.with_suffix(".lock").open("ab")
    except OSError as error:
        raise _unmade(folder.name, error.strerror or str(error)) from error
    with lock:
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
    return whole and run_child([str(python), "-I", "-c", ""], seconds=_ASK_S).failure == ""


def _count_files(folder: Path) -> int:
    """How many files of packages it has, without what Python compiled."""
    return sum(not name.endswith(".pyc") for _, _, names in os.walk(folder / "lib") for name in names)


def _make(folder: Path, requirements: Sequence[str]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    wanted = " ".join(requirements)
    emit(StageStarted(title=f"Making a Python environment with {wanted}; it is kept"))
    python = str(folder / "bin" / "python")
    if uv := shutil.which("uv"):
        make = [uv, "venv", "--quiet", "--python", sys.executable, str(folder)]
        install = [uv, "pip", "install", "--quiet", "--python", python]
    else:
        make = [sys.executable, "-m", "venv", str(folder)]
        install = [python, "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]
    for step in (make, [*install, *requirements, "numpy"]):
        done = run_child(step, seconds=MAKE_S)
        if done.failure:
            shutil.rmtree(folder, ignore_errors=True)
            raise _why(wanted, done)
    (folder / "made.json").write_text(json.dumps({"requirements": list(requirements), "files": _count_files(folder)}))


def _why(wanted: str, done: Outcome) -> BadInput | Unavailable:
    """What to tell of an environment that could not be made."""
    if is_unreachable(done.tail):
        return _unmade(wanted, "the package index can't be reached")
    if versions := _KNOWN_VERSIONS.search(done.tail):
        known = [one.strip() for one in versions[1].split(",") if one.strip() not in ("", "none")]
        asked = wanted.rsplit("==", maxsplit=1)[-1]
        near = nearest_versions(asked, known)
        if known:
            return BadInput(f"{wanted} does not exist for this Python", advice=f"versions near it: {', '.join(near)}")
    if means_disk_full(done.tail):
        return _unmade(wanted, "the disk is full")
    lines = [line for line in done.tail.splitlines() if line.strip()]
    reason = next((line for line in reversed(lines) if line.lower().startswith("error")), lines[-1] if lines else "")
    return _unmade(wanted, one_line(reason)[:300] or done.failure)


def is_unreachable(tail: str) -> bool:
    """Whether the last words of pip or uv are of an index that does not answer."""
    return bool(_NO_INDEX.search(tail))


def parse_versions(texts: Iterable[str]) -> list[Version]:
    """The versions among `texts`, the oldest first."""
    from packaging.version import InvalidVersion, Version

    found = set()
    for text in texts:
        with suppress(InvalidVersion):
            found.add(Version(text))
    return sorted(found)


def nearest_versions(asked: str, known: Sequence[str], *, most: int = 3) -> list[str]:
    """The versions that are closest to `asked` in their order, the closest first; the newest where it is none."""
    versions = list(parse_versions(known))
    wanted = next(iter(parse_versions([asked])), None)
    place = len(versions) if wanted is None else bisect_left(versions, wanted) - 0.5
    return [str(versions[at]) for at in sorted(range(len(versions)), key=lambda at: (abs(at - place), at))[:most]]


def _unmade(wanted: str, reason: str) -> Unavailable:
    return Unavailable(
        f"no Python environment with {wanted} can be made: {reason}",
        advice="check the package index and the free space, or name an environment that you made",
    )
