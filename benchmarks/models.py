"""Models for the benchmarks: real architectures that packages ship, and the bundled one, as files in a folder.

Run with the engines and `onnx` installed. MLPerf Tiny's files are used where ``../shared/models`` exists.
"""

from __future__ import annotations

from pathlib import Path

import onnx

from edgewise.data import path as bundled

MLPERF_TINY = Path(__file__).resolve().parents[2] / "shared" / "models" / "mlperf_tiny"


def light_onnx(name: str) -> Path:
    """One of the real architectures (weights are constants) in the onnx package's own tests."""
    return Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / f"light_{name}.onnx"


def onnx_models() -> dict[str, Path]:
    """From tens of microseconds to tens of milliseconds on one core."""
    return {
        "digits": bundled("digits_cnn.onnx"),
        "shufflenet": light_onnx("shufflenet"),
        "squeezenet": light_onnx("squeezenet"),
        "inception_v1": light_onnx("inception_v1"),
        "resnet50": light_onnx("resnet50"),
    }


def tflite_models() -> dict[str, Path]:
    """MLPerf Tiny where it is at hand, and the bundled model."""
    models = {"digits": bundled("digits_cnn.tflite")}
    names = ("kws_ref_model_float32", "pretrainedResnet", "pretrainedResnet_quant", "vww_96_float", "vww_96_int8")
    for name in names:
        file = MLPERF_TINY / f"{name}.tflite"
        if file.exists():
            models[name] = file
    return models
