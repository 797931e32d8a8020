"""SavedModels as TFLite files, by TensorFlow's converter."""

from __future__ import annotations

from pathlib import Path

from edgewise.converting.base import ConvertOptions, calling


def write_tflite(source: Path, path: Path, options: ConvertOptions) -> None:
    """Convert the SavedModel whose ``saved_model.pb`` is `source`, in float32."""
    del options
    with calling("TensorFlow", to="TFLite"):
        import tensorflow

        converter = tensorflow.lite.TFLiteConverter.from_saved_model(str(source.parent))
        path.write_bytes(converter.convert())
