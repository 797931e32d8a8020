"""Makes the firmware of a model."""

from __future__ import annotations

import shutil
from pathlib import Path

from edgewise.errors import BadInput, Unavailable
from edgewise.estimating.base import find_device
from edgewise.estimating.mcu.cores import CORES
from edgewise.folders import job_folder


def make_firmware(model: Path, *, device: str, folder: Path, identity: str, force: bool) -> Path:
    """Write the firmware of `model` to `folder` and return the image; nothing is written where that fails.

    Args:
        device: a core or a board with one, as `edgewise estimate` has it.
        identity: name of the model that the firmware reports.
        force: write into a folder that is not empty.

    Raises:
        BadInput: a device without an emulated core, or a folder that can't be used.
        EdgewiseError: as `edgewise.estimating.mcu.runner.write_firmware`.
    """
    from edgewise.estimating.mcu.cortex_m import emulation_availability
    from edgewise.estimating.mcu.runner import IMAGE, write_firmware

    if not model.is_file():
        raise BadInput(f"{model} does not exist or is not a file")
    _, found = find_device(device)
    if found.core not in CORES:
        advice = f"cores: {', '.join(CORES)}, and boards with one"
        raise BadInput(f"no firmware can be made for {device}", advice=advice)
    if not (state := emulation_availability()):
        raise Unavailable(f"firmware can't be made: {state.reason}", advice=state.install_hint)
    try:
        if folder.exists() and any(folder.iterdir()) and not force:
            raise BadInput(f"{folder} is not empty", advice="name another folder, or use --force to write into it")
        with job_folder() as fresh:
            write_firmware(model, fresh, core=CORES[found.core], identity=identity)
            shutil.copytree(fresh, folder, dirs_exist_ok=True)
    except OSError as error:
        raise BadInput(f"can't write to {folder}: {error.strerror or error}", advice="name another folder") from error
    return folder / IMAGE
