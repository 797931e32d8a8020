"""What pip leaves beside the modules of an installed package: metadata with entry points."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path


def write_metadata(folder: Path, name: str, points: Mapping[str, Mapping[str, str]] | str) -> None:
    """Make a package known once `folder` is on the path of imports.

    Args:
        points: group → name → ``module:object``, or the tables of ``pyproject.toml`` that say so.
    """
    if not isinstance(points, str):
        points = "".join(
            f"[{group}]\n" + "".join(f"{key} = {place}\n" for key, place in members.items())
            for group, members in points.items()
        )
    text = re.sub(r'\[project\.entry-points\."([^"]+)"\]', r"[\1]", points).replace('"', "")
    metadata = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(text)
