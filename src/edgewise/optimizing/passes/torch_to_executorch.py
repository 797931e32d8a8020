"""PyTorch module → ExecuTorch (``.pte``), in float32 and in int8, lowered to XNNPACK as far as its partitioner goes.

The quantiser is ExecuTorch's for XNNPACK: weights in int8 per channel, activations in int8 per tensor.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from edgewise.converting.base import ConvertOptions
from edgewise.converting.torch_program import TorchSource, write_executorch
from edgewise.optimizing.base import Capabilities, Packaged, PassResult, PassSettings, PassTask
from edgewise.optimizing.libraries import CannotApply
from edgewise.optimizing.passes.torch_agreement import TOLERANCE, TOLERANCE_INT8
from edgewise.optimizing.passes.torch_modules import (
    TorchModel,
    check_export,
    load_model,
    load_samples,
    probe_feeds,
    reproducible,
    run_module,
)
from edgewise.optimizing.passes.torch_pt2e import calibration_feeds, quantize_program
from edgewise.packages import versions_of

SAMPLES = 128
"""Most samples to find ranges on; more change the ranges little and take longer."""
_PACKAGES = ("torch", "executorch")


class TorchToExecutorch(Packaged):
    """Converts a module, and compares the program's outputs with the module's."""

    name = "torch-to-executorch"
    title = "PyTorch → ExecuTorch"
    capabilities = Capabilities(
        kind="conversion",
        reads=("torch",),
        writes="executorch",
        exact=True,
        distributions=_PACKAGES,
        extra="executorch",
    )

    def apply(self, task: PassTask[PassSettings]) -> PassResult:
        """Write ``model.pte``. Raises `CannotApply` where its outputs differ from the module's."""
        with reproducible(task):
            model = load_model(task)
            feeds = probe_feeds(model, load_samples(task, model), seed=task.seed)
            return _write(TorchSource(model.program, model.module), feeds, task, tolerance=TOLERANCE)


class ExecutorchStatic(Packaged):
    """Finds ranges on samples, and quantises weights and activations of what XNNPACK computes in int8."""

    name = "executorch-static"
    title = "ExecuTorch static int8"
    capabilities = Capabilities(
        kind="quantisation",
        reads=("torch",),
        writes="executorch",
        arithmetic="int8",
        calibrates=True,
        distributions=(*_PACKAGES, "torchao"),
        extra="executorch",
    )

    def apply(self, task: PassTask[PassSettings]) -> PassResult:
        """Write ``model.pte``.

        Raises:
            CannotApply: there are no samples, nothing was quantised, or the program can't be made.
            BadInput: a sample that can't be used.
        """
        with reproducible(task):
            model = load_model(task)
            feeds, note = calibration_feeds(model, task, most=SAMPLES)
            source = _quantize(model, feeds, dynamic=False)
            return _write(source, feeds[:2], task, tolerance=TOLERANCE_INT8, notes=(note,))


class ExecutorchDynamic(Packaged):
    """Quantises the weights of linear layers; their inputs are quantised in each inference, by their own range."""

    name = "executorch-dynamic"
    title = "ExecuTorch dynamic int8"
    capabilities = Capabilities(
        kind="quantisation",
        reads=("torch",),
        writes="executorch",
        arithmetic="int8-dynamic",
        distributions=(*_PACKAGES, "torchao"),
        extra="executorch",
    )

    def apply(self, task: PassTask[PassSettings]) -> PassResult:
        """Write ``model.pte``. Raises `CannotApply`: nothing was quantised, or the program can't be made."""
        with reproducible(task):
            model = load_model(task)
            feeds = probe_feeds(model, load_samples(task, model), seed=task.seed)
            source = _quantize(model, feeds, dynamic=True)
            return _write(source, feeds, task, tolerance=TOLERANCE_INT8)


def _quantize(model: TorchModel, feeds: Sequence[tuple[Any, ...]], *, dynamic: bool) -> TorchSource:
    """Return the quantised module. Raises `CannotApply`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from executorch.backends.xnnpack.quantizer import xnnpack_quantizer as xnnpack

        config = xnnpack.get_symmetric_quantization_config(is_per_channel=True, is_dynamic=dynamic)
        program = quantize_program(model, feeds, xnnpack.XNNPACKQuantizer().set_global(config))
    if not any("quantize" in str(node.target) for node in program.graph.nodes):
        raise CannotApply(f"ExecuTorch's quantiser found no operator to quantise in {model.target}")
    return TorchSource(program)


def _write(
    source: TorchSource,
    feeds: Sequence[tuple[Any, ...]],
    task: PassTask[Any],
    *,
    tolerance: float,
    notes: tuple[str, ...] = (),
) -> PassResult:
    """Write the program and compare it with the module that it is made of; a note names what XNNPACK does not run."""
    path = task.folder / "model.pte"
    expected = run_module(source.runnable, feeds)
    told = write_executorch(source, path, ConvertOptions())
    agreed = check_export(path, feeds, expected, tolerance=tolerance)
    versions = versions_of("torch", "executorch", "torchao")
    return PassResult(model=path, notes=(*notes, told, agreed), versions=versions)
