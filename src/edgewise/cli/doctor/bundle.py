"""``edgewise doctor --bundle``: what a report of a fault needs, without names and paths."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from edgewise.device.devices import LOCAL

FAILURES = 20
"""The newest failed runs that are in the file."""
OF_FAILURE = (
    "created_at", "format", "runtime", "version", "provider", "threads", "precision", "batch", "scenario", "cause"
)  # fmt: skip
"""Fields of `edgewise.store.tables.RunRow` that tell of no model and no device. Messages of engines name tensors and
files, so none is there."""
_URL = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s\"'<>]+")
_PATH = re.compile(r"(?<![\w.~*/-])(?:~?/|[A-Za-z]:\\)(?!(?:sys|proc|usr/bin|usr/lib)/)[^\s\"'<>,;:()]+")


def write_bundle(path: Path, found: Mapping[str, Any], *, store: str | None, overwrite: bool = False) -> None:
    """Write a zip file of JSON: what `edgewise.cli.doctor.command.examine` found, versions, and failed runs.

    Args:
        store: of the failed runs; None is the default store.

    Raises `BadInput` where the file is there or can't be written, `StoreError` for a bad disk.
    """
    from edgewise.store.exchange import write_file

    (device,) = found["devices"]
    is_here = device["name"] == LOCAL
    clean = cleaner(() if is_here else (device["name"],))
    doctor = {**found, "devices": [device if is_here else {**device, "name": "device"}]}
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, document in (("doctor", doctor), ("versions", _versions()), ("failures", _failures(store))):
            text = json.dumps(clean(document), indent=2, ensure_ascii=False)
            # The time that a file of the archive has: no more than the format's first day.
            archive.writestr(zipfile.ZipInfo(f"{name}.json"), f"{text}\n")
    write_file(path, content.getvalue(), overwrite=overwrite)


def cleaner(names: tuple[str, ...] = ()) -> Callable[[Any], Any]:
    """Return a function that copies a JSON document with ``PATH``, ``URL`` and ``NAME`` in place of such words.

    Files of the system under ``/sys``, ``/proc``, ``/usr/bin`` and ``/usr/lib`` keep their paths.

    Args:
        names: to replace besides those of this machine and its user.
    """
    known = sorted({*names, *_names_here()} - {"", "root", "localhost"}, key=len, reverse=True)
    word = re.compile("|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in known) or r"(?!)", re.IGNORECASE)

    def clean(value: Any) -> Any:
        match value:
            case str():
                return word.sub("NAME", _PATH.sub("PATH", _URL.sub("URL", value)))
            case Mapping():
                return {key: clean(each) for key, each in value.items()}
            case list() | tuple():
                return [clean(each) for each in value]
        return value

    return clean


def _names_here() -> set[str]:
    import getpass
    import platform

    names = {platform.node(), platform.node().partition(".")[0], Path.home().name}
    with suppress(OSError, KeyError):  # no user of this number has a name
        names.add(getpass.getuser())
    return names


def _versions() -> dict[str, str]:
    """Version of edgewise and of the installed packages that it and its extras need."""
    from importlib.metadata import requires

    from packaging.requirements import Requirement

    from edgewise.packages import versions_of
    from edgewise.version import __version__

    needed = sorted({Requirement(line).name for line in requires("edgewise") or ()} - {"edgewise"})
    return {"edgewise": __version__, **versions_of(*needed)}


def _failures(store: str | None) -> dict[str, Any]:
    """Return the newest failed runs of the store, or why it can't be read."""
    from edgewise.errors import StoreError
    from edgewise.store import open_store

    try:
        with open_store(store, create=False) as opened:
            rows = opened.list(status="failed", limit=FAILURES)
    except StoreError as error:
        return {"runs": [], "absent_because": error.message}
    return {"runs": [{name: getattr(row, name) for name in OF_FAILURE} for row in rows], "absent_because": None}
