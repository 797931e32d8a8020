"""Where this user's calibrations are kept. Imports no numpy: every ``estimate`` looks here first."""

from __future__ import annotations

import re
from pathlib import Path

from edgewise.errors import BadInput

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def is_calibrated(device: str) -> bool:
    """Whether there is a calibration called `device`."""
    return _NAME.fullmatch(device) is not None and file_of(device).is_file()


def calibrations_folder() -> Path:
    """The folder of this user's calibrations."""
    from platformdirs import user_data_path

    return user_data_path("edgewise", appauthor=False) / "calibrations"


def file_of(name: str) -> Path:
    """Where the calibration `name` is kept. Raises `BadInput` for what can't be a name."""
    if not _NAME.fullmatch(name):
        raise BadInput(f"{name!r} can't be the name of a device", advice="letters, digits, _ and - (64 at most)")
    return calibrations_folder() / f"{name}.json"


def names() -> list[str]:
    """The names of this user's calibrations, sorted."""
    return sorted(path.stem for path in calibrations_folder().glob("*.json") if _NAME.fullmatch(path.stem))
