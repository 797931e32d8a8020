"""Files ``env.template`` of auptimizer's Profiler, read as data: reading executes nothing of them.

Variables: https://github.com/LGE-ARC-AdvancedAI/auptimizer, ``src/aup/profiler/README.md``.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgewise.errors import BadInput
from edgewise.verbs.exec.request import PLACEHOLDER

MOST_BYTES = 2**20
MOST_DIGITS = 30
REQUIRED = ("DIR", "SCRIPT", "COMMAND")
IMAGE_VARIABLES = ("IMAGEREPO", "APTREQUIREMENTS", "PIPREQUIREMENTS", "PRERUN", "DOCKER_ARGS", "DOCK_ARGS")
"""What makes and starts a container; it has no effect where the program runs on this machine itself."""
APP = "/app"
"""Folder in the image that has the files of DIR, as in Profiler."""
_KNOWN = (*REQUIRED, *IMAGE_VARIABLES, "SAMPLETIME", "OUTPUTFILE", "DOCFILE", "DOCKCPUS", "DOCKMEMORY")
_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)")
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)([bkmg]?)b?", re.IGNORECASE)
_FACTORS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30}
"""Docker's suffixes are powers of 1024."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvFile:
    """The variables of a file.

    Attributes:
        path: the file.
        variables: name → value, without quotes; those that are empty are left out.
    """

    path: Path
    variables: dict[str, str]

    @property
    def output(self) -> Path:
        """The file for the summary, in the current folder."""
        return Path(self.variables.get("OUTPUTFILE", "out.txt"))

    def fields(self, *, has_models: bool) -> dict[str, Any]:
        """Return the fields of an `ExecRequest` that does the same on this machine. Raises `BadInput`.

        Args:
            has_models: whether the name of a model follows the script, as in Profiler.
        """
        told = self.variables
        folder = Path(told["DIR"]).expanduser()
        if not folder.is_absolute() and not folder.is_dir():
            folder = self.path.absolute().parent / folder
        if not folder.is_dir():
            raise BadInput(f"DIR in {self.path}: there is no folder {told['DIR']}", advice="give a path that exists")
        if not (folder / told["SCRIPT"]).is_file():
            raise BadInput(f"SCRIPT in {self.path}: there is no file {told['SCRIPT']} in {folder}")
        command = [*_split(told["COMMAND"], "COMMAND", self.path), told["SCRIPT"]]
        found: dict[str, Any] = {
            "command": (*command, PLACEHOLDER) if has_models else tuple(command),
            "run_in": str(folder),
            "not_applied": tuple(f"{name}={told[name]}" for name in IMAGE_VARIABLES if name in told),
        }
        if (own := self._dockerfile()) is not None:
            found["dockerfile"] = own
            found["build_context"] = "."
        elif "IMAGEREPO" in told:
            found["dockerfile"] = self.instructions()
        if "dockerfile" in found:
            found["container_options"] = tuple(
                word for name in ("DOCKER_ARGS", "DOCK_ARGS") for word in _split(told.get(name, ""), name, self.path)
            )
        if "DOCKCPUS" in told:
            found["cpus"] = self._number("DOCKCPUS")
        if "SAMPLETIME" in told:
            found["sample"] = self._number("SAMPLETIME")
        if "DOCKMEMORY" in told:
            size = _MEMORY.fullmatch(told["DOCKMEMORY"].strip())
            if size is None or len(size[1]) > MOST_DIGITS:
                raise BadInput(
                    f"DOCKMEMORY in {self.path}: {told['DOCKMEMORY']!r} is not a size", advice="such as 512m"
                )
            found["memory"] = int(float(size[1]) * _FACTORS[size[2].lower()])
        return found

    def instructions(self) -> str:
        """Return the Dockerfile that the variables describe, for the files of DIR."""
        told = self.variables
        lines = [f"FROM {told['IMAGEREPO']}"]
        if "APTREQUIREMENTS" in told:
            lines += [f"RUN apt-get update && apt-get install -y {told['APTREQUIREMENTS']}"]
        lines += [f"WORKDIR {APP}", "COPY . ."]
        lines += [f"RUN {told['PRERUN']}"] if "PRERUN" in told else []
        lines += [f"RUN pip install {told['PIPREQUIREMENTS']}"] if "PIPREQUIREMENTS" in told else []
        return "\n".join(lines) + "\n"

    def _dockerfile(self) -> str | None:
        """Return the text of the user's own Dockerfile; None without the file. Raises `BadInput`."""
        if "DOCFILE" not in self.variables or not (file := Path(self.variables["DOCFILE"])).is_file():
            return None
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"DOCFILE in {self.path}: {file} can't be read: {error}") from error

    def _number(self, name: str) -> float:
        try:
            return float(self.variables[name])
        except ValueError:
            raise BadInput(f"{name} in {self.path}: {self.variables[name]!r} is not a number") from None


def read_env_file(path: Path) -> EnvFile:
    """Return the variables in a file of lines ``NAME=value``. Raises `BadInput`."""
    try:
        with path.open("rb") as file:
            text = file.read(MOST_BYTES + 1).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise BadInput(f"can't read the env file {path}: {reason}") from error
    if len(text) > MOST_BYTES:
        raise BadInput(f"{path} is too large for an environment file")
    variables: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = _LINE.fullmatch(line.strip())
        if found is None or found[1] not in _KNOWN:
            what = "is not NAME=value" if found is None else f"has the unknown variable {found[1]}"
            raise BadInput(f"line {number} of {path} {what}", advice=f"known variables: {', '.join(_KNOWN)}")
        value = " ".join(_split(found[2], found[1], path))
        if value.strip():
            variables[found[1]] = value
    if lacking := [name for name in REQUIRED if name not in variables]:
        raise BadInput(f"{path} lacks {', '.join(lacking)}", advice="write it as NAME=value, one per line")
    return EnvFile(path=path, variables=variables)


def _split(text: str, name: str, path: Path) -> list[str]:
    """Return the words of a value as a shell splits them, with quotes removed. Raises `BadInput`."""
    try:
        return shlex.split(text, comments=True)
    except ValueError as error:
        raise BadInput(f"{name} in {path}: {str(error).lower()}", advice="close the quotes") from error
