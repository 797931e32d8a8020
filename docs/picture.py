"""Draws the picture of the README from a real run: ``python docs/picture.py`` on a quiet machine."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI

import edgewise
from edgewise.data import path as bundled
from edgewise.report.bench import bench_document
from edgewise.report.text import print_document

PICTURE = Path(__file__).parent / "images" / "bench.svg"


def main() -> None:
    """Measure the bundled model as ``edgewise bench`` does and write what it prints as an SVG."""
    os.chdir(bundled("digits_cnn.onnx").parent)
    runs = edgewise.bench("digits_cnn.tflite", runtimes=["litert", "openvino"])
    console = Console(record=True, width=92, file=io.StringIO(), force_terminal=True, highlight=False)
    console.print("[bold]$ edgewise bench digits_cnn.tflite[/]")
    print_document(bench_document(runs), console)
    PICTURE.parent.mkdir(exist_ok=True)
    # Rich refers to a font on a server; a picture in a repository asks nobody for anything.
    drawn = re.sub(
        r"@font-face \{.*?\}|<!--.*?-->", "", console.export_svg(title="edgewise bench", theme=MONOKAI), flags=re.S
    )
    PICTURE.write_text("\n".join(line.rstrip() for line in drawn.splitlines() if line.strip()) + "\n")


if __name__ == "__main__":
    main()
