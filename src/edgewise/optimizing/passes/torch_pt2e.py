"""Static int8 quantisation of PyTorch modules by torchao's PT2E flow, as ONNX with QuantizeLinear/DequantizeLinear.

The quantiser is torchao's for x86 (uint8 activations per tensor, int8 weights per channel), whose scheme ONNX Runtime's
and OpenVINO's integer kernels share.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgewise.converting.torch_program import TorchSource
from edgewise.optimizing.base import Capabilities, Facts, Packaged, PassResult, PassSettings, PassTask, Recipe
from edgewise.optimizing.libraries import CannotApply, refusing
from edgewise.optimizing.passes.torch_agreement import TOLERANCE_INT8
from edgewise.optimizing.passes.torch_modules import (
    TorchModel,
    check_export,
    export_onnx,
    load_model,
    need_samples,
    probe_feeds,
    reproducible,
    run_module,
)
from edgewise.optimizing.processor import sums_saturate
from edgewise.packages import versions_of

_INTEGER_OPS = ("QuantizeLinear", "DequantizeLinear")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pt2eSettings(PassSettings):
    """Settings of torch-pt2e.

    Attributes:
        reduce_range: activations in 7 bits; the default where 8-bit sums saturate on this processor.
        samples: most samples to find ranges on; more change the ranges little and take longer.
    """

    reduce_range: bool = field(default_factory=sums_saturate)
    samples: int = 128


class TorchPt2e(Packaged):
    """Finds ranges on samples, quantises convolutions and linear layers to 8 bits, and exports the result."""

    name = "torch-pt2e"
    title = "static int8 (torchao PT2E)"
    capabilities = Capabilities(
        kind="quantisation",
        reads=("torch",),
        writes="onnx",
        arithmetic="int8",
        calibrates=True,
        keeps_float=True,
        runtimes=("onnxruntime", "openvino"),
        distributions=("torch", "torchao", "onnxscript"),
        extra="torch-optimize",
    )

    def recipes(self, facts: Facts) -> Sequence[Recipe]:
        """8 bits, or 7 where this processor's sums of 8-bit products saturate; then the other."""
        if facts.quantized:
            return ()
        saturate = sums_saturate()
        other = Recipe(label="8-bit" if saturate else "7-bit", settings=Pt2eSettings(reduce_range=not saturate), rank=1)
        return (Recipe(settings=Pt2eSettings(reduce_range=saturate)), other)

    def apply(self, task: PassTask[Pt2eSettings]) -> PassResult:
        """Write ``model.onnx``.

        Raises:
            CannotApply: there are no samples, nothing was quantised, or the export fails.
            BadInput: a sample that can't be used.
        """
        with reproducible(task):
            model = load_model(task)
            feeds, note = calibration_feeds(model, task, most=task.settings.samples)
            program = _quantize(model, feeds, task)
            notes = _export(model, program, feeds, task.folder)
        return PassResult(
            model=task.folder / "model.onnx",
            notes=(note, *notes),
            versions=versions_of("torch", "torchao", "onnx", "onnxscript", "onnxruntime"),
        )


def calibration_feeds(model: TorchModel, task: PassTask[Any], *, most: int) -> tuple[list[tuple[Any, ...]], str]:
    """Return inputs to find ranges on, of at most `most` samples, and a note with the number of samples.

    Raises:
        CannotApply: there are no samples.
        BadInput: a sample that can't be used.
    """
    samples = need_samples(task, model)
    batch = model.inputs[0].shape[0] if model.inputs[0].dim() else 1
    count = max(1, min(most, len(samples)) // max(1, batch))
    return probe_feeds(model, samples, seed=task.seed, count=count), f"ranges from {count * batch} samples"


def quantize_program(model: TorchModel, feeds: Sequence[tuple[Any, ...]], quantizer: Any) -> Any:
    """Return the module as an exported program, quantised as `quantizer` says with ranges from `feeds`.

    Raises `CannotApply`.
    """
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

        with torch.no_grad(), refusing(f"torchao can't quantise {model.target}"):
            prepared = prepare_pt2e(TorchSource(model.program).trace(), quantizer)
            for feed in feeds:
                prepared(*feed)
            return torch.export.export(convert_pt2e(prepared), model.inputs)


def _quantize(model: TorchModel, feeds: list[tuple[Any, ...]], task: PassTask[Pt2eSettings]) -> Any:
    """Return the quantised module as an exported program."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

        config = x86.get_default_x86_inductor_quantization_config(reduce_range=task.settings.reduce_range)
        quantizer = x86.X86InductorQuantizer()
        if task.only:
            for name in task.only:
                quantizer.set_module_name_qconfig(model.layer_of(name), config)
        else:
            quantizer.set_global(config)
        for name in task.keep_float:
            quantizer.set_module_name_qconfig(model.layer_of(name), None)
    return quantize_program(model, feeds, quantizer)


def _export(model: TorchModel, program: Any, feeds: list[tuple[Any, ...]], folder: Path) -> tuple[str, ...]:
    """Write the file and compare it with the quantised module. Both round, so outputs may differ by single steps."""
    import onnx

    path = export_onnx(program, folder)
    kinds = [node.op_type for node in onnx.load(str(path)).graph.node]
    if not any(kind in _INTEGER_OPS for kind in kinds):
        raise CannotApply(f"torchao found no operator to quantise in {model.target}")
    expected = run_module(program.module(), feeds[:2])
    agreed = check_export(path, feeds[:2], expected, tolerance=TOLERANCE_INT8)
    counted = f"{kinds.count('QuantizeLinear')} QuantizeLinear, {kinds.count('DequantizeLinear')} DequantizeLinear"
    return counted, agreed
