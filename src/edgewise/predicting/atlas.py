"""The atlas: tables of what models take on many devices, imported from a user's own copies of public results."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from edgewise.errors import BadInput

GROUP_LENGTH = 30
"""Devices whose names begin with as many equal characters are taken for the same hardware."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AtlasRow:
    """One measurement.

    Attributes:
        variant: which of several networks of that name, such as an input size; "" where there is one.
        group: hardware that counts as one, however many rows it has.
        unit: what computes: CPU, GPU, NPU; "" where unknown.
        setting: of the device beside that, such as ``4 threads``.
        batch: inputs at a time.
        latency_s: of one input, > 0.
        source, licence: where the number is from, and under which terms; "" where it is not stated.
    """

    model: str
    variant: str = ""
    device: str
    group: str = ""
    runtime: str = ""
    precision: str = ""
    unit: str = ""
    setting: str = ""
    batch: int = 1
    latency_s: float
    source: str = ""
    licence: str = ""


_COLUMNS = tuple(field.name for field in fields(AtlasRow))


@lru_cache(maxsize=2**14)
def normal(name: str) -> str:
    """`name` as names of models are compared: without folder and ending of a file, case, and ``-``, ``_``, space.

    Between digits a separator stays, as ``_``: ``regnet_1_6`` is not ``regnet_16``.
    """
    stem = re.sub(r"\.(onnx|tflite|pt2|pte|xml|param|keras|h5)$", "", re.split(r"[/\\]", name.strip())[-1].casefold())
    return re.sub(r"(?<=\d)[-_ ]+(?=\d)", "_", re.sub(r"(?<!\d)[-_ ]+|[-_ ]+(?!\d)", "", stem))


def atlas_folder() -> Path:
    """Return the folder of this user's tables."""
    from platformdirs import user_data_path

    return user_data_path("edgewise", appauthor=False) / "atlas"


def file_of(name: str) -> Path:
    """Where the table `name` is kept. Raises `BadInput` for what can't be a name."""
    if not _NAME.fullmatch(name):
        raise BadInput(f"{name!r} can't be the name of a table", advice="letters, digits, _, . and - (64 at most)")
    return atlas_folder() / f"{name}.csv"


def names() -> list[str]:
    """Return the names of this user's tables, sorted."""
    return sorted(path.stem for path in atlas_folder().glob("*.csv") if _NAME.fullmatch(path.stem))


def save(name: str, rows: Iterable[AtlasRow], *, overwrite: bool) -> Path:
    """Keep `rows` as the table `name`. Raises `BadInput` where it exists and `overwrite` is not set, or that fails."""
    from edgewise.store.exchange import write_with_folder

    path = file_of(name)
    if path.exists() and not overwrite:
        raise BadInput(f"the atlas has a table {name!r} already", advice="⟦force⟧ replaces it, ⟦name⟧ gives another")
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    writer.writerows([getattr(row, column) for column in _COLUMNS] for row in rows)
    write_with_folder(path, text.getvalue(), overwrite=overwrite)
    return path


def remove(name: str) -> Path:
    """Remove the table `name`. Raises `BadInput` where there is none."""
    path = file_of(name)
    try:
        path.unlink()
    except FileNotFoundError:
        raise BadInput(f"the atlas has no table {name!r}", advice=f"tables: {', '.join(names()) or 'none'}") from None
    except OSError as error:
        raise BadInput(f"{path} can't be removed: {error}", advice="check the rights of your data folder") from None
    return path


def load(name: str) -> Sequence[AtlasRow]:
    """Return the rows of the table `name`. Raises `BadInput` where its file is damaged."""
    path = file_of(name)
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return tuple(_row(cells) for cells in csv.DictReader(file))
    except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
        raise BadInput(
            f"{path} is damaged: {error!r}", advice=f"'edgewise atlas rm {name}', and import the table again"
        ) from None


def _row(cells: dict[str, str]) -> AtlasRow:
    latency, batch = float(cells["latency_s"]), int(cells["batch"])
    if not (math.isfinite(latency) and latency > 0):
        raise ValueError(f"{latency} is not a latency")
    return AtlasRow(**{**{column: cells[column] for column in _COLUMNS}, "latency_s": latency, "batch": batch})  # type: ignore[arg-type]


Stamp = tuple[tuple[str, str, int, int], ...]


def stamp() -> Stamp:
    """Return what changes whenever the atlas does: folder, name, time and size of each table."""
    found = [(name, file_of(name).stat()) for name in names()]
    return tuple((str(atlas_folder()), name, state.st_mtime_ns, state.st_size) for name, state in found)


@lru_cache(maxsize=2)
def tables(state: Stamp) -> dict[str, Sequence[AtlasRow]]:
    """All tables of the atlas as it is at `state`, which is `stamp()`."""
    return {name: load(name) for _, name, _, _ in state}


def devices_of(tables: Mapping[str, Sequence[AtlasRow]]) -> list[dict[str, Any]]:
    """Devices of `tables`, JSON-shaped, by name, runtime and processing unit; models count once for all precisions."""
    found: dict[tuple[str, str, str], list[tuple[str, AtlasRow]]] = {}
    for name, rows in tables.items():
        for row in rows:
            found.setdefault((row.device, row.runtime, row.unit), []).append((name, row))
    return [
        {
            "device": device,
            "runtime": runtime,
            "unit": unit,
            "precisions": sorted({row.precision for _, row in members if row.precision}),
            "models": len({(row.model, row.variant) for _, row in members}),
            "tables": sorted({name for name, _ in members}),
        }
        for (device, runtime, unit), members in sorted(found.items())
    ]
