"""Writes reference networks to files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from edgewise.errors import BadInput
from edgewise.store.exchange import write_file
from edgewise.zoo.networks import REFERENCES, WITHOUT_ACCURACY, Reference, find, make
from edgewise.zoo.onnx import to_onnx
from edgewise.zoo.tflite import to_tflite

FORMATS: Mapping[str, Callable[..., bytes]] = {"onnx": to_onnx, "tflite": to_tflite}
"""Ending of a file → function of the layers and a name that returns its bytes."""


def build(
    names: Sequence[str], folder: Path, *, width: float = 1.0, resolution: int | None = None, seed: int = 0,
    format: str = "onnx", overwrite: bool = False,
) -> list[Path]:  # fmt: skip
    """Write networks to `folder`, which is made if it is missing. Returns the files, in the order of `names`.

    A file that exists with the same content stays.

    Args:
        names: of `edgewise.zoo.networks.REFERENCES`.
        width, resolution, seed: as `edgewise.zoo.networks.make`.

    Raises:
        BadInput: an unknown name or format, a value that a network does not take, or another file at its place.
        Unavailable: a package that writes the format is not installed.
    """
    if format not in FORMATS:
        raise BadInput(f"⟦format⟧ {format} is unknown", advice=f"one of: {', '.join(FORMATS)}")
    settings: dict[str, Any] = {"width": width, "resolution": resolution}
    references = [find(name) for name in dict.fromkeys(names)]
    for reference in references:
        make(reference, **settings, seed=None)  # all are checked before the first is written
    return [
        write(reference, folder, **settings, seed=seed, format=format, overwrite=overwrite) for reference in references
    ]


def write(reference: Reference, folder: Path, *, format: str = "onnx", overwrite: bool, **settings: Any) -> Path:
    """Write one network; `settings` are those of `edgewise.zoo.networks.make`. Raises `BadInput` as `build`."""
    variant = reference.variant(**settings)
    path = folder / f"{variant}.{format}"
    content = FORMATS[format](make(reference, **settings), name=variant)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        same = path.is_file() and path.read_bytes() == content
    except OSError as error:
        raise BadInput(f"can't write to {folder}: {error.strerror or error}", advice="name another folder") from None
    if not same:
        write_file(path, content, overwrite=overwrite)
    return path


def documents() -> list[dict[str, Any]]:
    """Return what is known of each network, as JSON; the fewest MACs first."""
    return [
        {
            "name": row.name,
            "family": row.family,
            "input": [1, *row.input],
            "resizable": row.resizable,
            "macs": row.macs,
            "parameters": row.parameters,
            "source": row.source,
            "accuracy": None,
            "accuracy_absent_because": WITHOUT_ACCURACY,
        }
        for row in sorted(REFERENCES.values(), key=lambda row: (row.macs, row.name))
    ]
