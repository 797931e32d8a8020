"""ONNX files in ONNX Runtime's own format."""

from __future__ import annotations

from pathlib import Path

from edgewise.converting.base import ConvertOptions, calling
from edgewise.model.identity import open_model


def write_ort(source: Path, path: Path, options: ConvertOptions) -> None:
    """Write ``.ort`` with ONNX Runtime's optimisations that hold on every processor."""
    del options
    open_model(source)  # refuses weights outside the model's folder before the engine reads them
    with calling("ONNX Runtime", to=".ort"):
        import onnxruntime

        settings = onnxruntime.SessionOptions()
        settings.log_severity_level = 4
        settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        settings.optimized_model_filepath = str(path)
        settings.add_session_config_entry("session.save_model_format", "ORT")
        onnxruntime.InferenceSession(str(source), settings, providers=["CPUExecutionProvider"])
