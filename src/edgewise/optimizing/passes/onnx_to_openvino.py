"""Conversion to OpenVINO's own format, which loads faster and which NNCF compresses best."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from edgewise.converting.base import ConvertOptions
from edgewise.converting.openvino_ir import write_from_file
from edgewise.optimizing.base import Capabilities, Packaged, PassResult, PassSettings, PassTask
from edgewise.optimizing.passes.openvino_tools import read_model
from edgewise.packages import versions_of

_PASSIVE = ("Constant", "Parameter", "Result")


class OnnxToOpenVino(Packaged):
    """`edgewise.optimizing.base.Pass` around ``openvino.convert_model``. Weights keep their type."""

    name = "onnx-to-openvino"
    title = "ONNX → OpenVINO IR"
    capabilities = Capabilities(
        kind="conversion",
        reads=("onnx",),
        writes="openvino",
        exact=True,
        runtimes=("openvino",),
        distributions=("openvino",),
        extra="openvino",
    )

    def apply(self, task: PassTask[PassSettings]) -> PassResult:
        """Convert. Raises `BadModel` for weights outside the model's folder, `Unavailable` if OpenVINO can't."""
        path = task.folder / "model.xml"
        write_from_file(Path(task.model), path, ConvertOptions())
        operations = sum(each.get_type_name() not in _PASSIVE for each in read_model(path).get_ops())
        return PassResult(
            model=path, notes=(f"{operations} operations; weights keep their type",), versions=versions_of("openvino")
        )


class LitertToOpenVino(OnnxToOpenVino):
    """The same for TFLite files, which NNCF does not support."""

    name = "litert-to-openvino"
    title = "TFLite → OpenVINO IR"
    capabilities = replace(OnnxToOpenVino.capabilities, reads=("tflite",))
