"""SavedModels as TFLite files, by TensorFlow's converter."""

from __future__ import annotations

from pathlib import Path

from edgewise.converting.base import ConvertOptions, calling
from edgewise.runtime.tensorflow import TensorFlow


def write_tflite(source: Path, path: Path, options: ConvertOptions) -> None:
    """Convert the SavedModel whose ``saved_model.pb`` is `source`, in float32."""
    del options
    with calling("TensorFlow", to="TFLite"):
        import tensorflow

        # By itself it converts every signature, also those that only the graph of objects still has.
        names = [next(iter(TensorFlow().describe_signatures(source)))]
        converter = tensorflow.lite.TFLiteConverter.from_saved_model(str(source.parent), signature_keys=names)
        path.write_bytes(converter.convert())
