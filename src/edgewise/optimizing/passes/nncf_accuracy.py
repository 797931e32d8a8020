"""Quantisation by NNCF with accuracy control: layers that cost too much accuracy go back to float."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from edgewise.optimizing.base import Facts, Packaged, PassResult, PassSettings, PassTask, Recipe
from edgewise.optimizing.calibration import load_calibration
from edgewise.optimizing.libraries import CannotApply, refusing
from edgewise.optimizing.passes.nncf_ptq import NncfPtq
from edgewise.optimizing.passes.nncf_tools import NncfModel, make_dataset, make_scope, open_model, worth_quantizing
from edgewise.optimizing.passes.openvino_tools import import_nncf
from edgewise.optimizing.passes.thread_limits import at_most


@dataclass(frozen=True, slots=True, kw_only=True)
class AccuracySettings(PassSettings):
    """Settings of nncf-accuracy.

    Attributes:
        max_drop: of top-1, as a share: 0.01 is one point.
        preset: as of nncf-ptq.
        samples: most samples to calibrate on; all are used to judge.
    """

    max_drop: float = 0.01
    preset: Literal["mixed", "performance"] = "mixed"
    samples: int = 300


class NncfAccuracy(Packaged):
    """`edgewise.optimizing.base.Pass` around ``nncf.quantize_with_accuracy_control``.

    The controlled accuracy is top-1 on the calibration samples: a pass has no others.
    """

    name = "nncf-accuracy"
    title = "NNCF int8, accuracy controlled"
    capabilities = replace(NncfPtq.capabilities, labels=True)

    def recipes(self, facts: Facts) -> Sequence[Recipe]:
        """One with each preset."""
        if facts.quantized or not worth_quantizing(facts.graph):
            return ()
        return (
            Recipe(settings=AccuracySettings(), rank=1),
            Recipe(label="performance", settings=AccuracySettings(preset="performance"), rank=2),
        )

    def apply(self, task: PassTask[AccuracySettings]) -> PassResult:
        """Quantise. Raises `CannotApply` without samples or labels, or where NNCF fails."""
        nncf = import_nncf()
        settings = task.settings
        with at_most(task.threads), open_model(task) as opened:
            calibration = load_calibration(task, inputs=len(opened.inputs))
            if calibration.labels is None:
                raise CannotApply("accuracy control needs the labels of its samples")
            scores: list[float] = []
            with refusing("NNCF fails on the model"):
                model = nncf.quantize_with_accuracy_control(
                    opened.model,
                    make_dataset(opened, calibration),
                    make_dataset(opened, calibration, labels=True),
                    _judge(opened, scores),
                    max_drop=settings.max_drop,
                    preset=nncf.QuantizationPreset(settings.preset),
                    subset_size=min(len(calibration), settings.samples),
                    ignored_scope=make_scope(opened),
                    advanced_quantization_parameters=opened.parameters(),
                )
            judged = f"top-1 on {len(calibration)} calibration samples: {scores[0]:.4f} before"
            return opened.deliver(
                model,
                task.folder,
                nothing="NNCF quantised nothing, or put every operator back to float",
                notes=(f"{judged}, judged {len(scores)} times",),
            )


def _judge(opened: NncfModel, scores: list[float]) -> Callable[[Any, Iterable[Any]], tuple[float, list[float]]]:
    """NNCF's validation function: top-1, and each sample's 0 or 1; every result over samples is added to `scores`.

    NNCF calls it for single samples too, to rank layers, and hands over an OpenVINO model compiled, an ONNX model not.
    """
    import numpy as np

    last: list[tuple[Any, Callable[[Any], Any]]] = []

    def answer(model: Any) -> Callable[[Any], Any]:
        if opened.format != "onnx":
            return lambda feed: model(feed)[0]
        if not last or last[0][0] is not model:
            last[:] = [(model, _open(model))]
        return last[0][1]

    def judge(model: Any, items: Iterable[Any]) -> tuple[float, list[float]]:
        run = answer(model)
        hits = [float(int(np.asarray(run(feed)).reshape(-1).argmax()) == label) for feed, label in items]
        score = sum(hits) / len(hits)
        if len(hits) > 1:
            scores.append(score)
        return score, hits

    return judge


def _open(model: Any) -> Callable[[Any], Any]:
    """Return the first output of an ONNX model, as a function of its feed."""
    import onnxruntime

    session = onnxruntime.InferenceSession(
        model.SerializeToString(), onnxruntime.SessionOptions(), providers=["CPUExecutionProvider"]
    )
    return lambda feed: session.run(None, feed)[0]
