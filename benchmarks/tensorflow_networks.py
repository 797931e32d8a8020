"""Keras networks as ``.keras`` files and SavedModels, and ``timeit`` around the frameworks' own calls of them.

TensorFlow is imported only in processes of their own.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import timeit
from functools import cache
from pathlib import Path

from taking_turns import MeanOf


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="edgewise-benchmark-"))
    subprocess.run([sys.executable, __file__, str(folder)], check=True, capture_output=True)
    return folder


def keras_models() -> dict[str, Path]:
    return {path.stem: path for path in sorted(_folder().glob("*.keras"))}


def saved_models() -> dict[str, Path]:
    return {path.stem: path.with_suffix("") for path in keras_models().values()}


def _build(folder: Path) -> None:
    import keras

    keras.utils.set_random_seed(0)
    layers = keras.layers
    small = [layers.Conv2D(16, 3, activation="relu"), layers.GlobalAveragePooling2D(), layers.Dense(10)]
    networks = {
        "small": keras.Sequential([keras.Input((32, 32, 3)), *small]),
        "mobilenet_v2": keras.applications.MobileNetV2(weights=None),
    }
    for name, model in networks.items():
        model.save(folder / f"{name}.keras")
        model.export(folder / name, format="tf_saved_model", verbose=False)


def timer(path: str, call: str) -> MeanOf:
    """Python's `timeit` around a call of the model at `path`.

    Args:
        call: ``signature`` (a SavedModel's concrete function), ``function`` (`tf.function` of a Keras model) or
            ``call`` (``model(x, training=False)``).
    """
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    if call == "signature":
        loaded = tf.saved_model.load(path)
        signature = loaded.signatures["serving_default"]
        ((name, spec),) = signature.structured_input_signature[1].items()
        tensor = tf.random.uniform((1, *spec.shape[1:]))
        run = lambda: signature(**{name: tensor})  # noqa: E731
    else:
        import keras

        model = keras.saving.load_model(path)
        tensor = tf.random.uniform((1, *model.inputs[0].shape[1:]))
        traced = tf.function(lambda image: model(image, training=False), autograph=False)
        function = traced.get_concrete_function(tf.TensorSpec(tensor.shape))
        run = (lambda: function(tensor)) if call == "function" else (lambda: model(tensor, training=False))
    timed = timeit.Timer(run)
    return lambda count: timed.timeit(count) / count


if __name__ == "__main__":
    _build(Path(sys.argv[1]))
