"""Quantise the bundled digits network to int8, as microcontrollers run it, and write down how that was done.

Run it after ``train.py``, with edgewise and its extras ``optimize`` and ``litert`` installed. The ranges come from all
calibration images; inputs and outputs become int8, and every operator does.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import tempfile
from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter

from edgewise.optimizing.base import PassTask
from edgewise.optimizing.calibration import write_calibration
from edgewise.optimizing.passes.litert_static import LitertStatic, LitertStaticSettings

BUNDLED = Path(__file__).parents[2] / "src" / "edgewise" / "data"
NAME = "digits_cnn_int8.tflite"


def read_images(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Inputs as float32 (n, 1, 32, 32), 0..1, and labels."""
    with np.load(path) as data:
        return data["x"].astype(np.float32) / np.float32(255), data["y"]


def quantise(folder: Path) -> dict[str, str]:
    """Write `NAME` to `folder`; returns the versions of the packages that made it."""
    images, _ = read_images(folder / "digits_calibration.npz")
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        write_calibration(place / "samples.npz", [[image[None]] for image in images], None)
        settings = LitertStaticSettings(io="int8", scope="all")
        model, samples = str(folder / "digits_cnn.tflite"), place / "samples.npz"
        result = LitertStatic().apply(
            PassTask(model=model, format="tflite", settings=settings, folder=place, calibration=samples)
        )
        shutil.copy(result.model, folder / NAME)
    return dict(result.versions)


def accuracy(folder: Path) -> float:
    """Share of test images whose largest output is at the label."""
    images, labels = read_images(folder / "digits_test.npz")
    interpreter = Interpreter(str(folder / NAME))
    interpreter.allocate_tensors()
    (taken,), (given,) = interpreter.get_input_details(), interpreter.get_output_details()
    scale, zero = taken["quantization"]
    right = 0
    for image, label in zip(images, labels, strict=True):
        value = np.clip(np.rint(image[None] / scale + zero), -128, 127).astype(np.int8)
        interpreter.set_tensor(taken["index"], value)
        interpreter.invoke()
        right += int(interpreter.get_tensor(given["index"]).argmax()) == label
    return right / len(labels)


def main() -> None:
    """Quantise, judge, describe."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=BUNDLED, help="folder with the files of train.py")
    folder: Path = parser.parse_args().output
    versions = quantise(folder)
    description = json.loads((folder / "digits_cnn.json").read_text("utf-8"))
    description["int8"] = {
        "script": "examples/digits/quantise.py",
        "test_accuracy": accuracy(folder),
        "versions": versions,
    }
    description["sha256"][NAME] = hashlib.sha256((folder / NAME).read_bytes()).hexdigest()
    text = json.dumps(description, indent=2, ensure_ascii=False)
    (folder / "digits_cnn.json").write_text(text + "\n", encoding="utf-8")
    print(f"test accuracy {description['int8']['test_accuracy']:.4f}, {(folder / NAME).stat().st_size} B")


if __name__ == "__main__":
    main()
