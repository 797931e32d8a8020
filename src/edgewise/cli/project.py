"""The project file ``edgewise.toml``: defaults of options for the commands typed in its folder and those below it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgewise.errors import BadInput
from edgewise.store.location import ENVIRONMENT_VARIABLE as STORE
from edgewise.verbs.option import Option

FILE = "edgewise.toml"
PLACES = {"store": STORE, "devices-file": "EDGEWISE_DEVICES"}
"""Settings of the whole project → the environment variable that each stands for, which comes first.

The second is `edgewise.device.devices.ENVIRONMENT_VARIABLE`, which few commands need to import.
"""
MOST_BYTES = 1 << 20
_IS_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+:")
_RUNS_CODE = re.compile(r"\.py(:|$)")


@dataclass(frozen=True, slots=True)
class Project:
    """What a project file says.

    Attributes:
        file: the file; None where neither this folder nor one above it has one.
        content: its tables as read.
    """

    file: Path | None = None
    content: Mapping[str, Any] = field(default_factory=dict)

    def place_of(self, name: str) -> str | None:
        """Return the path or URL that the file gives for one of `PLACES`; None where it does not. Raises `BadInput`."""
        return self._place(self._text(name, self.content[name])) if name in self.content else None

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Set the environment variables of `PLACES` that are not set inside, as the file says."""
        found = {variable: self.place_of(name) for name, variable in PLACES.items() if not os.environ.get(variable)}
        added = {variable: place for variable, place in found.items() if place is not None}
        os.environ.update(added)
        try:
            yield
        finally:
            for variable in added:
                os.environ.pop(variable, None)

    def defaults(self, command: Sequence[str], options: Sequence[Option]) -> dict[str, Any]:
        """Return the values for `options` of a command, by their names: texts as typed, or a bool.

        Args:
            command: the words of the command: ``("runs", "list")`` reads the table ``[runs.list]``.

        Raises:
            BadInput: a key that is no option of the command, a value of another type, or one that runs code.
        """
        table: Any = self.content
        for word in command:
            table = table.get(word, {})
            if not isinstance(table, Mapping):
                raise self._refuse(word, "is not a table", f"write [{'.'.join(command)}] and its options below")
        by_flag = {flag.lstrip("-"): one for one in options for flag in one.flags}
        found = {}
        for key, value in table.items():
            name = key.replace("_", "-")
            one = by_flag.get(name)
            if one is None:
                from difflib import get_close_matches  # only a mistake needs it

                near = get_close_matches(name, by_flag, 1)
                advice = f"did you mean {near[0]}?" if near else f"see 'edgewise {' '.join(command)} --help-all'"
                raise self._refuse(f"[{'.'.join(command)}] {key}", "is no option of this command", advice)
            found[one.name] = self._value(key, value, one)
        return found

    def _value(self, key: str, value: Any, one: Option) -> Any:
        if (one.kind is bool) != isinstance(value, bool):
            needed = "true or false" if one.kind is bool else "a text, a number or a list of them"
            raise self._refuse(key, f"must be {needed}", f"{one.flag}: {one.help}")
        if isinstance(value, bool):
            return value
        texts = [self._text(key, item) for item in (value if isinstance(value, list) else [value])]
        if any(_RUNS_CODE.search(text) for text in texts):
            raise self._refuse(key, "names Python code, which a project file may not run", f"type {one.flag} instead")
        if one.files:
            texts = [self._place(text, must_exist=True) for text in texts]
        return texts if one.repeatable else ",".join(texts)

    def _text(self, key: str, value: Any) -> str:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise self._refuse(key, "must be a text, a number or a list of them", "see docs/cli.md")
        return str(value)

    def _place(self, text: str, *, must_exist: bool = False) -> str:
        """Return a path from the file's folder on; a URL, and with `must_exist` what is no path there, stays as
        it is.
        """
        assert self.file is not None
        path = self.file.parent / Path(text).expanduser()
        return text if _IS_URL.match(text) or (must_exist and not path.exists()) else str(path)

    def _refuse(self, key: str, reason: str, advice: str) -> BadInput:
        return BadInput(f"{self.file}: {key} {reason}", advice=advice)


def read_project() -> Project:
    """Return the project file of the working folder or the nearest folder above it, up to the root of its repository.

    Raises `BadInput` where it can't be read.
    """
    file = _find()
    return Project() if file is None else Project(file, _read(file))


def _find() -> Path | None:
    with suppress(OSError):  # the folder was removed, or one above it can't be searched
        folder = Path.cwd()
        for place in (folder, *folder.parents):
            if (place / FILE).is_file():
                return place / FILE
            if (place / ".git").exists():
                break
    return None


def _read(file: Path) -> Mapping[str, Any]:
    import tomllib  # few folders have such a file

    try:
        with file.open("rb") as stream:
            content = stream.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise ValueError(f"it is larger than {MOST_BYTES} B")
        return tomllib.loads(content.decode("utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise BadInput(f"{file} can't be read: {reason}", advice="correct it, or rename it") from error
