"""Writes docs/notebook.ipynb with the outputs of real runs: ``python docs/notebook.py`` on a quiet machine.

It needs ``pip install nbclient ipykernel pandas`` beside edgewise and its engines.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import v4

PLACE = Path(__file__).with_name("notebook.ipynb")
CELLS = (
    "# edgewise in a notebook\n\nA network, its accuracy, its layers, and a proven answer to *which is faster*. "
    "`edgewise example` writes the files; cells show progress while they run.",
    "!edgewise example\nimport edgewise",
    "## How fast is it?\n\nEach engine runs in fresh processes. The interval is that of a re-run on this machine.",
    'runs = edgewise.bench("model.onnx", runtimes=["onnxruntime", "openvino"], sessions=3)\nruns',
    "A run is data, too: SI units, each value with its interval.",
    'runs.to_frame()[["runtime", "latency (s)", "latency (s) low", "latency (s) high", "grade"]]',
    "## Where does the time go?",
    'edgewise.profile("model.onnx", runtimes=["onnxruntime"])',
    "## Is int8 faster, and is it as right?",
    'edgewise.compare(["model.tflite", "model_int8.tflite"], runtimes=["litert"])',
    "edgewise.evaluate(\n"
    '    ["model.tflite", "model_int8.tflite"],\n'
    '    data="digits.npz",\n'
    '    task="classification",\n'
    '    prepare="scale=1/255",\n'
    "    latency=False,\n)",
    "## What would a microcontroller take?",
    'edgewise.estimate("model_int8.tflite", device="cortex-m4")',
)


def make_cell(text: str, name: str) -> nbformat.NotebookNode:
    """A cell of prose, or of code."""
    make = v4.new_code_cell if re.match(r"!|edgewise\.|runs", text) else v4.new_markdown_cell
    return make(text, id=name)


def write() -> None:
    """Run the cells in an empty folder, and write them with what they show."""
    found = v4.new_notebook(cells=[make_cell(text, f"cell-{index}") for index, text in enumerate(CELLS)])
    with tempfile.TemporaryDirectory() as folder:
        os.environ["EDGEWISE_STORE"] = str(Path(folder, "runs.db"))
        NotebookClient(found, resources={"metadata": {"path": folder}}).execute()
    for cell in found["cells"]:
        cell["metadata"] = {}  # the times of the cells
        if cell["cell_type"] == "code":  # progress is no result
            cell["outputs"] = [one for one in cell["outputs"] if one.get("name") != "stderr"]
    found["metadata"] = {"language_info": {"name": "python"}}
    PLACE.write_text(nbformat.writes(found) + "\n")


if __name__ == "__main__":
    write()
