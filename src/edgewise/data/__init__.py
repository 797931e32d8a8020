"""The bundled model and data set: a small network for handwritten digits and its test images.

The network is there as ONNX, as TFLite, and as TFLite in int8.

``digits_cnn.json`` says where everything comes from: script, seeds, versions, split, accuracy and sha256 of each file.
Images in ``digits_test.npz`` and ``digits_calibration.npz`` are uint8; the network's input is ``x / 255`` as float32.
``digits_cnn.yaml`` says that to ``evaluate`` and ``optimize``.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from edgewise.errors import BadInput

NAMES = (
    "digits_calibration.npz",
    "digits_cnn.json",
    "digits_cnn.onnx",
    "digits_cnn.tflite",
    "digits_cnn.yaml",
    "digits_cnn_int8.tflite",
    "digits_test.npz",
)
"""What is bundled."""


def path(name: str) -> Path:
    """Where the bundled file `name` is.

    Args:
        name: one of `NAMES`.

    Returns:
        A path inside the installed package; edgewise is never installed as a zip file.

    Raises:
        BadInput: for a name that is not bundled.
    """
    if name not in NAMES:
        raise BadInput(f"no bundled file is called {name!r}", advice=f"bundled: {', '.join(NAMES)}")
    return Path(str(files("edgewise.data"))) / name
