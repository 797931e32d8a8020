"""Draws the pictures of the README from real runs: ``python docs/picture.py`` on a quiet machine.

With names (``bench``, ``profile``) it draws those only.
"""

from __future__ import annotations

import io
import os
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI

import edgewise
from edgewise.data import path as bundled
from edgewise.report.bench.document import bench_document
from edgewise.report.document.text import print_document
from edgewise.report.profile.charts import render_chart

IMAGES = Path(__file__).parent / "images"


def draw_bench() -> str:
    """What ``edgewise bench`` prints of the bundled model."""
    runs = edgewise.bench("digits_cnn.tflite", runtimes=["litert", "openvino"])
    console = Console(record=True, width=92, file=io.StringIO(), force_terminal=True, highlight=False)
    console.print("[bold]$ edgewise bench digits_cnn.tflite[/]")
    print_document(bench_document(runs), console)
    # Rich refers to a font on a server; a picture in a repository asks nobody for anything.
    return re.sub(
        r"@font-face \{.*?\}|<!--.*?-->", "", console.export_svg(title="edgewise bench", theme=MONOKAI), flags=re.S
    )


def draw_profile() -> str:
    """The layers of the bundled model by time, as ``edgewise profile -o layers.svg`` draws them."""
    (run,) = edgewise.profile("digits_cnn.onnx", runtimes=["openvino"])
    drawn = render_chart(run, "layers", ".svg")
    return drawn if isinstance(drawn, str) else drawn.decode()


PICTURES = {"bench": draw_bench, "profile": draw_profile}


def main() -> None:
    """Measure and write the pictures."""
    os.chdir(bundled("digits_cnn.onnx").parent)
    IMAGES.mkdir(exist_ok=True)
    for name in sys.argv[1:] or PICTURES:
        drawn = PICTURES[name]()
        (IMAGES / f"{name}.svg").write_text(
            "\n".join(line.rstrip() for line in drawn.splitlines() if line.strip()) + "\n"
        )


if __name__ == "__main__":
    main()
