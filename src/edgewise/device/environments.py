"""Python environments in which an engine has another version: made once, where it runs, and kept in a cache there.

An environment is named by its requirements, ``onnxruntime==1.30.0``, several parted by blanks, or by the path of one
that exists: its folder, or its interpreter. A worker needs numpy and the engine there, and nothing of edgewise. An
image of a container, ``container://IMAGE``, is one too, and so is a registered device of that kind.
"""

from __future__ import annotations

import hashlib
import os
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.device import environment_maker as maker
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
_NO_VENV = re.compile(r"ensurepip is|No module named '?(ensurepip|venv)")


def is_container(environment: str) -> bool:
    """Whether an environment is the image of a container, or a registered device of that kind."""
    return transport_of(environment) == CONTAINER


def requirement(package: str, version: str) -> str:
    """Return the name of an environment with `version` of `package`; of ``python`` the path itself, of
    ``container`` an image.

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
    """Return the runtime whose version an environment names; "" where it names none."""
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
    """Return the names of environment variables."""
    return {text.partition("=")[0] for text in variables}


def variable_sets(variables: Sequence[str]) -> list[tuple[str, ...]]:
    """Each combination of values, where a name occurs several times: ``A=1 A=2 B=1`` → ``A=1 B=1``, ``A=2 B=1``."""
    values: dict[str, list[str]] = {}
    for text in dict.fromkeys(variables):
        values.setdefault(text.partition("=")[0], []).append(text)
    return list(product(*values.values()))


@cache
def python_of(environment: str, *, any_python: bool = False, size: str = "") -> str:
    """Return the interpreter of an environment of this machine, which is made where it is not there yet or broken.

    Args:
        any_python: as for `edgewise.device.environment_maker.provide`.
        size: about what is downloaded to make it, such as ``170 MB``; "" says nothing of it.

    Raises as `ask_for_python`.
    """
    if os.sep not in environment and Path(environment).exists():
        environment = f".{os.sep}{environment}"

    def ask(question: Mapping[str, Any]) -> Mapping[str, str]:
        if "path" in question:
            return {"python": maker.find_python(question["path"])}
        return maker.provide(_cache(), question["requirements"], make=question["make"], any_python=any_python)

    return ask_for_python(environment, ask, size=size)


def ask_for_python(
    environment: str, ask: Callable[[Mapping[str, Any]], Mapping[str, str]], *, where: str = "", size: str = ""
) -> str:
    """Return the interpreter of an environment on the machine that `ask` asks; made where it is not there yet or
    broken.

    Args:
        ask: takes a question of `edgewise.device.environment_maker` and gives its answer.
        where: what follows "made" in an error: `` on pi4``.
        size: as for `python_of`.

    Raises:
        BadInput: neither requirements with versions nor a path with an interpreter, or a version that does not exist.
        Unavailable: it can't be made: no index, no wheel for that Python, a full disk.
    """
    if os.sep in environment:
        if python := ask({"path": environment}).get("python"):
            return python
        advice = "name the folder of a virtual environment, or its python"
        raise BadInput(f"there is no Python at {environment}{where}", advice=advice)
    requirements = sorted(set(environment.split()))
    if wrong := [one for one in requirements if not _REQUIREMENT.fullmatch(one)] or ([""] if not requirements else []):
        advice = "write NAME==VERSION, or the path of an environment"
        raise BadInput(f"{wrong[0]!r} is no package with a version", advice=advice)
    question = {"requirements": requirements, "make": False}
    answer = ask(question)
    if not (answer.get("python") or answer.get("failure")):
        much = f": about {size} are downloaded" if size else ""
        title = f"Making a Python environment with {' '.join(requirements)}{where}{much}; it is kept"
        emit(StageStarted(title=title))
        answer = ask({**question, "make": True})
    if python := answer.get("python"):
        return python
    raise _why(" ".join(requirements), answer.get("tail", ""), answer.get("failure", "no reason was told"), where)


@cache
def worker_file() -> str:
    """Return the archive with the worker, which every environment runs; kept until a source file changes."""
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


def _why(wanted: str, tail: str, failure: str, where: str) -> BadInput | Unavailable:
    """Return what to tell of an environment that could not be made."""
    if is_unreachable(tail):
        return _unmade(wanted, "the package index can't be reached", where)
    if versions := _KNOWN_VERSIONS.search(tail):
        known = [one.strip() for one in versions[1].split(",") if one.strip() not in ("", "none")]
        asked = wanted.rsplit("==", maxsplit=1)[-1]
        near = nearest_versions(asked, known)
        if known:
            python = f"the Python{where}" if where else "this Python"
            return BadInput(f"{wanted} does not exist for {python}", advice=f"versions near it: {', '.join(near)}")
    if means_disk_full(tail):
        return _unmade(wanted, "the disk is full", where)
    if _NO_VENV.search(tail):
        return _unmade(wanted, "its Python has no module venv (Debian: apt install python3-venv)", where)
    lines = [line for line in tail.splitlines() if line.strip()]
    reason = next((line for line in reversed(lines) if line.lower().startswith("error")), lines[-1] if lines else "")
    return _unmade(wanted, one_line(reason)[:300] or failure, where)


def _unmade(wanted: str, reason: str, where: str) -> Unavailable:
    return Unavailable(
        f"no Python environment with {wanted} can be made{where}: {reason}",
        advice="check the package index and the free space, or name an environment that you made",
    )


def is_unreachable(tail: str) -> bool:
    """Whether the last words of pip or uv are of an index that does not answer."""
    return bool(_NO_INDEX.search(tail))


def parse_versions(texts: Iterable[str]) -> list[Version]:
    """Return the versions among `texts`, the oldest first."""
    from packaging.version import InvalidVersion, Version

    found = set()
    for text in texts:
        with suppress(InvalidVersion):
            found.add(Version(text))
    return sorted(found)


def nearest_versions(asked: str, known: Sequence[str], *, most: int = 3) -> list[str]:
    """Return the versions closest to `asked` in their order, the closest first; the newest where it is none."""
    versions = list(parse_versions(known))
    wanted = next(iter(parse_versions([asked])), None)
    place = len(versions) if wanted is None else bisect_left(versions, wanted) - 0.5
    return [str(versions[at]) for at in sorted(range(len(versions)), key=lambda at: (abs(at - place), at))[:most]]
