"""Finds the ranges of a network's tensors on samples by onnxruntime's calibrators, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from edgewise.model.readers.base import identify_version
from edgewise.optimizing.base import PassTask
from edgewise.optimizing.calibration import Calibration, load_calibration
from edgewise.optimizing.passes.ort_preparation import Prepared
from edgewise.optimizing.passes.thread_limits import at_most

CHUNK_BYTES = 2**28
"""Most bytes of activations that a histogram calibrator holds at once."""
Method = Literal["minmax", "entropy", "percentile"]
_METHODS = {"minmax": "MinMax", "entropy": "Entropy", "percentile": "Percentile"}


def model_inputs(model: Any) -> list[str]:
    """Names of an ONNX model's inputs, without weights that are listed among them."""
    weights = {tensor.name for tensor in model.graph.initializer}
    return [info.name for info in model.graph.input if info.name not in weights]


class FeedReader:
    """A calibrator's source of samples, one at a time."""

    def __init__(self, feeds: Sequence[dict[str, Any]]) -> None:
        self._feeds: Iterator[dict[str, Any]] = iter(feeds)

    def get_next(self) -> dict[str, Any] | None:
        """Return the next sample by input names; None after the last."""
        return next(self._feeds, None)


def find_ranges(prepared: Prepared, task: PassTask[Any], *, method: Method, samples: int) -> Any:
    """Ranges of all tensors that can be quantised, an ``onnxruntime.quantization.TensorsData``.

    The last result is kept, since one process quantises the same model layer by layer.

    Args:
        samples: most samples to use.
    """
    names = model_inputs(prepared.model)
    calibration = load_calibration(task, inputs=len(names))
    facts = [identify_version(path) for path in (Path(task.model), task.calibration) if path is not None]
    key = (*facts, method, samples)
    if key not in _LAST:
        _LAST.clear()
        _LAST[key] = _calibrate(prepared, calibration, method=method, samples=samples, threads=task.threads)
    return _LAST[key]


_LAST: dict[tuple[Any, ...], Any] = {}


def _calibrate(prepared: Prepared, calibration: Calibration, *, method: Method, samples: int, threads: int) -> Any:
    from onnxruntime.quantization import create_calibrator
    from onnxruntime.quantization.calibrate import CalibrationMethod

    augmented = prepared.folder / "augmented.onnx"
    with at_most(threads):
        calibrator = create_calibrator(
            prepared.path,
            quantizable_types(),
            augmented_model_path=str(augmented),
            calibrate_method=CalibrationMethod[_METHODS[method]],
        )
    names = model_inputs(prepared.model)
    feeds = [dict(zip(names, feed, strict=True)) for feed in calibration.feeds(samples)]
    chunk = 1 if method == "minmax" else _chunk(calibrator.infer_session, feeds[0])
    for start in range(0, len(feeds), chunk):
        calibrator.collect_data(FeedReader(feeds[start : start + chunk]))
        calibrator.clear_collected_data()
    return calibrator.compute_data()


def _chunk(session: Any, feed: dict[str, Any]) -> int:
    """Return number of samples whose activations fit in `CHUNK_BYTES`."""
    size = sum(array.nbytes for array in session.run(None, feed))
    return int(max(1, CHUNK_BYTES // max(1, size)))


def quantizable_types() -> list[str]:
    """Types of operators that onnxruntime's static quantiser supports, sorted."""
    from onnxruntime.quantization.registry import QDQRegistry, QLinearOpsRegistry

    return sorted({*QLinearOpsRegistry, *QDQRegistry})
