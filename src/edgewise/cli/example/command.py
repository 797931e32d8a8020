"""``edgewise example``: the files that the documentation's examples use."""

from __future__ import annotations

import io
from pathlib import Path

from edgewise.verbs.command import takes
from edgewise.verbs.option import Values, argument, option
from edgewise.verbs.shared_options import PLAIN

FILES = ("model.onnx", "model.tflite", "model_int8.tflite", "digits.npz", "model.yaml", "model_int8.yaml")


@takes(
    argument("folder", "Folder to write to; created if missing", Path, metavar="FOLDER", default=Path()),
    option("--force", PLAIN, "Overwrite existing files that differ", bool),
)
def command(values: Values) -> None:
    """Write model.onnx, model.tflite, model_int8.tflite, a small network for digits, digits.npz, images of them, and
    model.yaml and model_int8.yaml, which say how the images are fed.
    """
    from edgewise.errors import BadInput
    from edgewise.terminal.console import err

    contents, folder = read_example(), values["folder"]
    taken = [
        name
        for name, content in contents.items()
        if (folder / name).exists() and not ((folder / name).is_file() and (folder / name).read_bytes() == content)
    ]
    if taken and not values["force"]:
        raise BadInput(
            f"{', '.join(str(folder / name) for name in taken)} exists already and differs",
            advice="name another folder, or use --force to overwrite",
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            (folder / name).write_bytes(content)
    except OSError as error:
        raise BadInput(f"can't write to {folder}: {error.strerror or error}", advice="name another folder") from error
    err().print(f"wrote {', '.join(str(folder / name) for name in contents)}", soft_wrap=True, markup=False)


def read_example() -> dict[str, bytes]:
    """Name → content of each of `FILES`; the same bytes every time.

    ``digits.npz`` has ``x_train`` and ``y_train`` to calibrate with, ``x_test`` and ``y_test`` to judge on. The YAML
    files say the task and how pixels become inputs.
    """
    import numpy as np

    from edgewise.data import path

    packed = io.BytesIO()
    with np.load(path("digits_calibration.npz")) as train, np.load(path("digits_test.npz")) as test:
        np.savez(packed, x_train=train["x"], y_train=train["y"], x_test=test["x"], y_test=test["y"])
    *models, data, instructions, instructions_of_int8 = FILES
    says = (
        f"# How {models[0]} and {models[1]} are fed: pixels of 0 to 255.\n",
        f"# How {models[2]} is fed: pixels of 0 to 255.\n",
    )
    _, _, fed = path("digits_cnn.yaml").read_text(encoding="utf-8").partition("\n")
    return {
        **{name: path(name.replace("model", "digits_cnn")).read_bytes() for name in models},
        data: packed.getvalue(),
        instructions: f"{says[0]}{fed}".encode(),
        instructions_of_int8: f"{says[1]}{fed}".encode(),
    }
