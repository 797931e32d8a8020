"""Quantisation by NNCF with accuracy control: layers that cost too much accuracy go back to float."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from edgewise.optimizing.base import CannotApply, Capabilities, Facts, Packaged, Product, Recipe, Work

if TYPE_CHECKING:
    from edgewise.optimizing.passes.nncf_tools import Subject


class NncfAccuracy(Packaged):
    """`edgewise.optimizing.base.Pass` around ``nncf.quantize_with_accuracy_control``.

    The accuracy it controls is top-1 on the calibration samples, the only ones a pass is given.

    Settings:
        max_drop: of top-1, as a share: 0.01 is one point.
        preset: as of nncf-ptq.
        samples: to calibrate on, at most; all are used to judge.
    """

    name = "nncf-accuracy"
    title = "NNCF int8, accuracy controlled"
    capabilities = Capabilities(
        kind="quantisation",
        reads=("onnx", "openvino"),
        writes="",
        arithmetic="int8",
        calibrates=True,
        labels=True,
        keeps_float=True,
        distributions=("nncf", "openvino"),
    )

    def recipes(self, facts: Facts) -> Sequence[Recipe]:
        """One with each preset."""
        from edgewise.optimizing.passes.nncf_tools import worth_quantizing

        if facts.quantized or not worth_quantizing(facts.graph):
            return ()
        base = {"max_drop": 0.01, "preset": "mixed", "samples": 300}
        return (
            Recipe(settings=base, rank=1),
            Recipe(label="performance", settings={**base, "preset": "performance"}, rank=2),
        )

    def apply(self, work: Work) -> Product:
        """Quantise. Raises `CannotApply` without samples or labels, or where no class can be told from the output."""
        from edgewise.optimizing.passes.nncf_tools import make_dataset, make_scope, open_subject, read_samples, refusals
        from edgewise.optimizing.passes.openvino_tools import import_nncf
        from edgewise.optimizing.passes.thread_limits import at_most

        nncf = import_nncf()
        settings = work.settings
        with at_most(work.threads), open_subject(work) as subject:
            calibration = read_samples(subject, work)
            if calibration.labels is None:
                raise CannotApply("accuracy control needs the labels of its samples")
            scores: list[float] = []
            with refusals():
                model = nncf.quantize_with_accuracy_control(
                    subject.model,
                    make_dataset(subject, calibration),
                    make_dataset(subject, calibration, labels=True),
                    _judge(subject, scores),
                    max_drop=float(settings.get("max_drop", 0.01)),
                    preset=nncf.QuantizationPreset(settings.get("preset", "mixed")),
                    subset_size=min(len(calibration), int(settings.get("samples", 300))),
                    ignored_scope=make_scope(subject),
                    advanced_quantization_parameters=subject.parameters(),
                )
            count = subject.quantized(model)
            if not count:
                raise CannotApply("with every operator back in float, or none to begin with, nothing is quantised")
            fitted = subject.finish(model)
            path = subject.save(model, work.folder)
            notes = (
                f"{count} of {subject.heavy} heavy operators quantised",
                f"top-1 on {len(calibration)} calibration samples: {scores[0]:.4f} before, judged {len(scores)} times",
                fitted,
                subject.note,
            )
            return Product(model=path, notes=tuple(filter(None, notes)), versions=subject.versions())


def _judge(subject: Subject, scores: list[float]) -> Callable[[Any, Iterable[Any]], tuple[float, list[float]]]:
    """NNCF's validation function: top-1, and each sample's 0 or 1; every result over samples is added to `scores`.

    NNCF calls it for single samples too, to rank layers, and hands over an OpenVINO model compiled, an ONNX model not.
    """
    import numpy as np

    last: list[tuple[Any, Callable[[Any], Any]]] = []

    def answer(model: Any) -> Callable[[Any], Any]:
        if subject.format != "onnx":
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
    """The first output of an ONNX model, as a function of its feed."""
    import onnxruntime

    session = onnxruntime.InferenceSession(
        model.SerializeToString(), onnxruntime.SessionOptions(), providers=["CPUExecutionProvider"]
    )
    return lambda feed: session.run(None, feed)[0]
