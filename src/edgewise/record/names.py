"""What models and runs are called wherever several are named: in lists, tables, reports, progress and on pages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePath

from edgewise.record.job import ModelRef
from edgewise.record.run import Run
from edgewise.text import one_line


def model_names(models: Sequence[ModelRef], *, hashed: bool = True) -> list[str]:
    """Return the name of each model; files of one name in several places also have their folders, as few as tell
    them apart. Beside other names, ``model.onnx`` and the like have one too, as exporters call every network so.

    Folders count from the working folder, as people type them.

    Args:
        hashed: different files at one place, one after the other, have their hash.
    """
    names = [one_line(model.name).strip() or "model without a name" for model in models]
    folders = [_folders(model) for model in models]
    found = list(names)
    for name in set(names):
        alike = [index for index, each in enumerate(names) if each == name]
        deepest = max(len(folders[index]) for index in alike)
        says_nothing = PurePath(name).stem == "model" and len(set(names)) > 1
        for depth in range(min(deepest, int(says_nothing)), 1 + deepest):
            for index in alike:
                own = folders[index]
                found[index] = "/".join((*own[max(0, len(own) - depth) :], name))
            if len({found[index] for index in alike}) == len({folders[index] for index in alike}):
                break
        for label in {found[index] for index in alike}:
            here = [index for index in alike if found[index] == label]
            if hashed and len({models[index].family for index in here}) > 1:
                for index in here:
                    found[index] = f"{label} (sha256 {models[index].sha256[:8]})"
    return found


def run_names(runs: Sequence[Run]) -> list[str]:
    """Return ``"run 2 (14:02)"`` for each run, by its place in this view; one run keeps its number.

    The time (UTC) is there where it differs between all of them: the hour and minute within a day, else the date, else
    both.
    """
    places = {run.id: place for place, run in enumerate({run.id: run for run in runs}.values(), start=1)}
    moments = {run.id: run.created_at[:16].replace("T", " ") for run in runs}
    one_day = len({moment[:10] for moment in moments.values()}) == 1
    for part in (slice(11, 16),) if one_day else (slice(0, 10), slice(0, 16)):
        told = {key: moment[part] for key, moment in moments.items()}
        if len(set(told.values())) == len(told) > 1:
            return [f"run {places[run.id]} ({told[run.id]})" for run in runs]
    return [f"run {places[run.id]}" for run in runs]


def _folders(model: ModelRef) -> tuple[str, ...]:
    """Where the file or its function is, from the working folder; nowhere for what a command made for itself."""
    folder = PurePath(model.path if model.origin is None else model.origin.target).parent
    if model.origin is None and folder.name.startswith("edgewise-build-"):
        return ()
    here = Path.cwd()
    folder = folder.relative_to(here if folder.is_relative_to(here) else folder.anchor)
    return tuple(map(one_line, folder.parts))
