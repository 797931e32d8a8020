"""Compares the outputs of an exported file with those of the module, on a few inputs."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.optimizing.libraries import CannotApply, refusing

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

TOLERANCE = 1e-3
"""Largest error of an output, as a share of its largest magnitude: far above float32's rounding (about 1e-6 in shallow
nets), far below the error of a wrongly translated operator."""
TOLERANCE_INT8 = 0.05
"""The same for quantised modules: two engines may round a tie differently, and the step of 1/255 may grow."""


def check_agreement(
    path: Path,
    feeds: Sequence[Sequence[Array]],
    expected: Sequence[Sequence[Array]],
    *,
    tolerance: float = TOLERANCE,
) -> str:
    """Run the file on `feeds` and compare with `expected` (per feed: one array per output).

    Args:
        tolerance: largest error of an output, as a share of its largest magnitude.

    Returns:
        A note with the largest error.

    Raises:
        CannotApply: the outputs differ, in number, shape or by more than `tolerance`, or the file can't be run.
    """
    engine, run = _open(path)
    worst = 0.0
    for feed, wanted in zip(feeds, expected, strict=True):
        with refusing(f"{engine} can't run the exported file"):
            made = run(feed)
        worst = max(worst, _compare(made, wanted, tolerance))
    return f"agrees with the original in {engine}: largest error {worst:.1e} of the largest output"


def _compare(made: Sequence[Array], wanted: Sequence[Array], tolerance: float) -> float:
    import numpy as np

    if [each.shape for each in made] != [each.shape for each in wanted]:
        shapes = [[list(each.shape) for each in side] for side in (made, wanted)]
        raise CannotApply(f"the exported file gives outputs of shapes {shapes[0]}, the module {shapes[1]}")
    worst = 0.0
    for got, want in zip(made, wanted, strict=True):
        if want.dtype.kind in "iub":
            # Ties may be decided differently; any other difference is an error.
            error = 0.0 if not want.size or float((got == want).mean()) >= 0.99 else 1.0
        else:
            scale = float(np.abs(want).max(initial=0.0)) or 1.0
            error = float(np.abs(got.astype(np.float64) - want).max(initial=0.0)) / scale
        if not error <= tolerance:  # also for NaN
            raise CannotApply(f"the exported file differs from the module by {error:.1e} of the largest output")
        worst = max(worst, error)
    return worst


def _open(path: Path) -> tuple[str, Callable[[Sequence[Array]], list[Array]]]:
    if path.suffix == ".tflite":
        return "LiteRT", _open_tflite(path)
    if path.suffix == ".pte":
        return "ExecuTorch", _open_pte(path)
    if importlib.util.find_spec("onnxruntime") is not None:
        return "ONNX Runtime", _open_onnxruntime(path)
    return "ONNX's reference implementation", _open_reference(path)


def _open_pte(path: Path) -> Callable[[Sequence[Array]], list[Array]]:
    from edgewise.runtime.base import LoadOptions
    from edgewise.runtime.executorch import ExecuTorch

    with refusing("ExecuTorch can't run the exported file"):
        session = ExecuTorch().load(path, LoadOptions(provider="cpu"))

    def run(feed: Sequence[Array]) -> list[Array]:
        session.bind(feed)
        session.invoke()
        return list(session.read_outputs())

    return run


def _open_onnxruntime(path: Path) -> Callable[[Sequence[Array]], list[Array]]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    return lambda feed: list(session.run(None, dict(zip(names, feed, strict=True))))


def _open_reference(path: Path) -> Callable[[Sequence[Array]], list[Array]]:
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(str(path))
    names = list(evaluator.input_names)
    return lambda feed: list(evaluator.run(None, dict(zip(names, feed, strict=True))))


def _open_tflite(path: Path) -> Callable[[Sequence[Array]], list[Array]]:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=str(path), num_threads=1)
    runner = interpreter.get_signature_runner() if interpreter.get_signature_list() else None
    if runner is not None:
        inputs, outputs = (_in_order(each) for each in (runner.get_input_details(), runner.get_output_details()))

        def run_signature(feed: Sequence[Array]) -> list[Array]:
            made = runner(**dict(zip(inputs, feed, strict=True)))
            return [made[name] for name in outputs]

        return run_signature
    interpreter.allocate_tensors()

    def run(feed: Sequence[Array]) -> list[Array]:
        for detail, array in zip(interpreter.get_input_details(), feed, strict=True):
            interpreter.set_tensor(detail["index"], array)
        interpreter.invoke()
        return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]

    return run


def _in_order(names: Iterable[str]) -> list[str]:
    """Sort ``args_0``, ``args_1``, …, ``args_10`` by their number."""
    return sorted(names, key=lambda name: (len(name), name))
