"""Conversion to OpenVINO's own format, which loads faster and which NNCF compresses best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from edgewise.model.readers.onnx import OnnxReader
from edgewise.optimizing.base import Capabilities, Facts, Packaged, PassResult, PassSettings, PassTask, Recipe
from edgewise.optimizing.libraries import versions_of
from edgewise.optimizing.passes.openvino_tools import convert_model, save_model

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

    def recipes(self, facts: Facts) -> Sequence[Recipe]:
        """One, also for quantised models."""
        del facts
        return (Recipe(),)

    def apply(self, task: PassTask[PassSettings]) -> PassResult:
        """Convert. Raises `CannotApply` if OpenVINO can't read the model."""
        self.check(Path(task.model))
        model = convert_model(task.model)
        operations = sum(each.get_type_name() not in _PASSIVE for each in model.get_ops())
        path = save_model(model, task.folder / "model.xml")
        return PassResult(
            model=path, notes=(f"{operations} operations; weights keep their type",), versions=versions_of("openvino")
        )

    def check(self, model: Path) -> None:
        """Raise `BadModel` for weights outside the model's folder, before the engine reads them."""
        OnnxReader().weight_files(model)


class LitertToOpenVino(OnnxToOpenVino):
    """The same for TFLite files, which NNCF does not support."""

    name = "litert-to-openvino"
    title = "TFLite → OpenVINO IR"
    capabilities = replace(OnnxToOpenVino.capabilities, reads=("tflite",))

    def check(self, model: Path) -> None:
        """TFLite files contain their weights."""
