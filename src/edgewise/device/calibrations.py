"""Where calibrations are kept: beside the store. Imports no numpy: every ``estimate`` looks here first."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.errors import BadInput
from edgewise.store.location import default_path, find_location

if TYPE_CHECKING:
    from edgewise.store import Store

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_FOLDER = "calibrations"


def is_calibrated(device: str, store: str | Store | None = None) -> bool:
    """Whether there is a calibration called `device`."""
    return _NAME.fullmatch(device) is not None and file_of(device, store).is_file()


def calibrations_folder(store: str | Store | None = None) -> Path:
    """Return the folder of the calibrations that belong to `store`; None asks the environment.

    It lies beside a file that was chosen, such as ``runs.calibrations`` beside ``runs.db``; the calibrations of the
    user's own store, and those of stores on servers and in memory, are in the user's data folder.
    """
    path = find_location(store if store is None or isinstance(store, str) else store.name).path
    if path is None or path == default_path():
        return default_path().with_name(_FOLDER)
    return path.with_suffix(f".{_FOLDER}")


def file_of(name: str, store: str | Store | None = None) -> Path:
    """Where the calibration `name` is kept. Raises `BadInput` for what can't be a name."""
    if not _NAME.fullmatch(name):
        raise BadInput(f"{name!r} can't be the name of a device", advice="letters, digits, _ and - (64 at most)")
    return calibrations_folder(store) / f"{name}.json"


def names(store: str | Store | None = None) -> list[str]:
    """Return the names of the calibrations that belong to `store`, sorted."""
    return sorted(path.stem for path in calibrations_folder(store).glob("*.json") if _NAME.fullmatch(path.stem))


def models_used(document: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """Metric → how many models its law was fitted to, and how many were measured, as the file of a calibration has it.

    Of a model that a law can't be fitted to, it has no value under ``left_out``.
    """
    counts = {}
    for metric, found in document["metrics"].items():
        number, laws = len(found["points"]), found.get("laws") or ()
        counts[metric] = (sum(one is not None for one in laws[0]["left_out"]) if laws else number, number)
    return counts


def count_text(used: int, measured: int) -> str:
    """``5``, or ``4 of 5`` where the law was not fitted to all."""
    return str(measured) if used == measured else f"{used} of {measured}"
