"""Files → runs: which importer reads a file, and what is wrong where none does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from edgewise.errors import BadInput, Unavailable
from edgewise.importing.building import Told, build_run
from edgewise.importing.extraction import extract
from edgewise.importing.reading import HEAD_CHARACTERS, MOST_WORD, SourceFile, read_source, to_word
from edgewise.importing.spec import COUNTS, Form, Importer
from edgewise.record import Run
from edgewise.registry import Registry
from edgewise.store.exchange import read_runs

IMPORTERS: Registry[Importer] = Registry(
    "edgewise.importers", "importer", members=("title", "runtime", "forms", "absent")
)
TELLABLE = ("threads", "batch", "precision", "provider", "version")
"""Settings that a user may add with ``--set``."""
AUTO = "auto"
_JSON = re.compile(r"\s*(?:\{|\[\s*[\[{\]\"])")
"""The beginning of a JSON object or list; ``[ INFO ]`` and ``[Step`` are text."""
_OWN = re.compile(r'\{\s*"schema"')
"""The beginning of what edgewise writes."""
_PERHAPS_OWN = re.compile(r'"(?:schema|runs)"\s*:')
"""A key of exports and runs, whatever the order of their keys."""


def read_settings(words: Mapping[str, str]) -> dict[str, Any]:
    """Check the settings of ``--set NAME=VALUE``. Raises `BadInput`."""
    found: dict[str, Any] = {}
    for name, value in words.items():
        text = to_word(value)
        if name not in TELLABLE:
            raise BadInput(f"⟦set⟧ {name}: unknown setting", advice=f"one of: {', '.join(TELLABLE)}")
        if not text:
            raise BadInput(f"⟦set⟧ {name}: no value", advice=f"write {name}=VALUE")
        if name in COUNTS and not re.fullmatch("0*[1-9][0-9]{0,6}", text):
            raise BadInput(f"⟦set⟧ {name}={text}: not a whole number of at least 1", advice=f"write {name}=4")
        found[name] = int(text) if name in COUNTS else text
    return found


def import_file(path: str | Path, tool: str = AUTO, told: Told | None = None) -> list[Run]:
    """Return the runs of another tool's file.

    Args:
        tool: name of an importer; ``auto`` recognises the file by its content.
        told: what the file does not have.

    Raises `BadInput`: no importer of this name; a file that is unreadable, unknown, malformed (with its line or JSON
    path), or at odds with `told`.
    """
    told = told or Told()
    source = read_source(Path(path))
    name, importer, form = _recognise(source, tool)
    parts = extract(source, form)
    if told.model is not None and len({part.settings.get("model") for part in parts}) > 1:
        raise BadInput(
            f"{path} has results of several models, and ⟦model⟧ names one", advice="leave out ⟦model⟧ for this file"
        )
    return [build_run(part, importer=importer, name=name, index=index, told=told) for index, part in enumerate(parts)]


def read_any(path: str | Path, tool: str = AUTO, told: Told | None = None) -> Iterator[Run]:
    """Read the runs of an export of edgewise, or of another tool's file. Raises as `import_file` and `read_runs`."""
    path = Path(path)
    if tool != AUTO or not _is_own(path):
        return iter(import_file(path, tool, told))
    if told is not None and told != Told():
        raise BadInput(
            f"{path} is an export of edgewise, which has all settings",
            advice="leave out ⟦model⟧, ⟦device⟧ and ⟦set⟧ for this file",
        )
    return read_runs(path)


def _is_own(path: Path) -> bool:
    """Return whether `read_runs` is to read the file: it has the errors for what can't be read and for other JSON."""
    try:
        if not path.is_file():
            # A pipe can be read only once: --from reads one of another tool. A folder is a report of Xcode.
            return not path.is_dir()
        with path.open("rb") as file:
            beginning = file.read(HEAD_CHARACTERS).decode("utf-8", "replace").removeprefix("\ufeff").lstrip()
    except (OSError, ValueError):
        return True
    if not beginning or _OWN.match(beginning):
        return True
    perhaps = beginning.startswith(("{", "[")) and _PERHAPS_OWN.search(beginning)
    return bool(perhaps) and not any(_matches(beginning, form) for _, importer in IMPORTERS for form in importer.forms)


def _recognise(source: SourceFile, tool: str) -> tuple[str, Importer, Form]:
    """Return the importer and the form of a file. Raises `BadInput` where there is none."""
    try:
        importers = list(IMPORTERS) if tool == AUTO else [(tool, IMPORTERS.get(tool))]
    except Unavailable as error:
        raise BadInput(f"⟦from⟧ {tool[:MOST_WORD]}: {error.marked.message}", advice=error.marked.advice) from None
    for name, importer in importers:
        for form in importer.forms:
            if _matches(source.head, form, is_text=source.not_text is None):
                return name, importer, form
    if source.not_text is not None:
        raise source.not_text
    line = next((number for number, text in enumerate(source.head.splitlines(), 1) if text.strip()), 1)
    if tool == AUTO:
        raise source.error(
            f"line {line}",
            "not recognised as an export of edgewise or the output of a tool",
            f"name the tool with ⟦from⟧: {', '.join(IMPORTERS.names())}",
        )
    forms = "; ".join(f"{form.title}: {form.expects}" for form in importers[0][1].forms)
    raise source.error(f"line {line}", f"no output of {importers[0][1].title}", f"expected {forms}")


def _matches(head: str, form: Form, *, is_text: bool = True) -> bool:
    if is_text == (form.kind == "binary"):
        return False
    is_json = _JSON.match(head) is not None
    return is_json == (form.kind in ("json", "jsonl")) and re.search(form.mark, head, re.MULTILINE) is not None
