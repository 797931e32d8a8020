"""Hand-made searches and evaluations for tests of everything that reads them: no engine, no clock."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from edgewise.evaluating.evaluation import EvaluationResults, ModelEvaluation
from edgewise.evaluating.scores import MetricDifference, Score
from edgewise.optimizing.changed_answers import ChangedAnswers, ChangedSample
from edgewise.optimizing.variant import (
    AppliedPass,
    Bound,
    Candidate,
    LayerSensitivity,
    MetricValue,
    Optimization,
    Prediction,
)
from edgewise.record import DataRef, Evaluation, ModelRef, RuntimeSpec, Skipped
from edgewise.report.document.text import plain_text, print_titled
from edgewise.report.evaluation.document import describe_results
from edgewise.report.optimization.document import print_optimization
from sample_comparisons import HOSTILE
from sample_runs import KWS, failed_run, make_run, measured

TEST = DataRef(name="kws_test.npz", path="/data/kws_test.npz", format="npz", split="test", size=1000, sha256="d" * 64)
TRAIN = replace(TEST, name="kws_train.npz", split="train", size=128, sha256="e" * 64)
WILSON = "share of samples, Wilson's 95 % interval, n = 1000"
NO_TIME = "the time for the pre-flight was used up"
NO_VNNI = "ConvInteger has no VNNI kernel here"


def number(value, low=None, high=None, **facts) -> MetricValue:
    """A measured number."""
    return MetricValue(value=value, low=low, high=high, **facts)


def exact(value: float) -> MetricValue:
    """A number without doubt."""
    return number(value, value, value)


def model(name: str, size: int, mark: str) -> ModelRef:
    """A file that is nowhere."""
    return ModelRef(name=name, path=f"/out/{name}", format="onnx", sha256=mark * 64, size_bytes=size)


def original(**metrics: MetricValue) -> Candidate:
    """What the others are compared with."""
    told = {
        "model_size": exact(53_936.0),
        "accuracy_top1": number(0.9167, 0.898, 0.9323, method=WILSON),
        "latency": number(4.2e-4, 4.1e-4, 4.3e-4),
        "memory_peak": number(48e6, 47.9e6, 48.1e6),
    }
    return Candidate(
        id="original", parent=None, runtime=RuntimeSpec(name="onnxruntime", version="1.2.3", threads=1), model=KWS,
        stage="judged", why="the baseline of all comparisons", metrics={**told, **metrics}, run="run-0",
    )  # fmt: skip


def variant(name: str, *, engine: str = "openvino", stage="raced", why: str = "", **facts) -> Candidate:
    """A variant of the original, as far as its stage."""
    passes = (AppliedPass(name=name.partition(" ")[0], label=name.partition(" ")[2], settings={"per_channel": True},
                          keep_float=("stem",), versions={"onnxruntime": "1.2.3"}, notes=("a note",), seconds=1.5),)  # fmt: skip
    told = {"runtime": RuntimeSpec(name=engine, version="2.0", provider="cpu", threads=1),
            "model": model(f"{name}.onnx", 15_410, "c"), "passes": passes}  # fmt: skip
    return Candidate(id=f"{name} @ {engine}", parent="original", stage=stage, why=why, **{**told, **facts})


def chosen_variant() -> Candidate:
    """2.97× faster, and as accurate."""
    return variant(
        "ort-static",
        why="faster: 2.97× [2.91, 3.03]; Top-1 accuracy +0.00 pt [−0.92, +0.92]",
        accepted=True,
        predicted=Prediction(speedup=2.8, low=2.2, high=3.6, because="5 of 6 heavy operators compute in int8"),
        metrics={
            "model_size": exact(15_410.0), "accuracy_top1": number(0.9167, 0.898, 0.9323, method=WILSON),
            "accuracy_drop": number(-0.0, -0.0092, 0.0092), "agreement_top1": number(0.99, 0.95, 1.0),
            "output_snr": number(35.0, 34.0, 36.0), "latency": number(1.414e-4, 1.40e-4, 1.43e-4),
            "memory_peak": number(47.95e6, 47.8e6, 48.1e6), "speedup": number(2.97, 2.91, 3.03, basis="derived"),
            "memory_reduction": number(1.001, 0.997, 1.005, basis="derived"),
        },
        run="run-1",
    )  # fmt: skip


def losers() -> tuple[Candidate, ...]:
    """One for every stage at which a variant can fall out."""
    small = {"model_size": exact(15_000.0)}
    off = {**small, "output_snr": number(3.1, 2.9, 3.3), "agreement_top1": number(0.4, 0.3, 0.5)}
    lost = {**off, "accuracy_top1": number(0.88, 0.86, 0.9), "accuracy_drop": number(0.041, 0.035, 0.047)}
    return (
        variant("ort-dynamic", engine="onnxruntime", why=f"slower: 0.410× [0.400, 0.420]; {NO_VNNI}",
                predicted=Prediction(speedup=0.45, low=0.3, high=0.7, because=NO_VNNI),
                metrics={**lost, "accuracy_drop": number(0.002, -0.001, 0.005), "latency": number(1.02e-3, 1.0e-3, 1.05e-3),
                         "memory_peak": number(None, absent_because="VmHWM can't be reset here"),
                         "speedup": number(0.41, 0.40, 0.42, basis="derived")}),
        variant("nncf-ptq", stage="screened", why="not raced: in a short measurement it took 1.4× the time of the last",
                predicted=Prediction(speedup=None, because=NO_TIME), metrics=lost),
        variant("onnx-fp16", stage="judged", why="Top-1 accuracy −4.10 pt [−4.70, −3.50]: a drop of 4.10 pt is over "
                "--max-accuracy-drop 1pt", metrics=lost),
        variant("nncf-weights", stage="loaded", why="broken: output 0 is not finite for 3 of 16 samples", metrics=off),
        variant("ort-int4", stage="made", why="failed in phase load: no kernel for MatMulNBits", metrics=small),
        variant("torch-prune", stage="planned", why="MemoryError: the pass needed more than 4 GB", model=None, passes=()),
    )  # fmt: skip


def layers() -> tuple[LayerSensitivity, ...]:
    """The planted one is fragile, another was not reached."""
    return (
        LayerSensitivity(layer="stem/Conv_1", op="Conv", snr_db=6.1, fragile=True),
        *(LayerSensitivity(layer=f"block/Conv_{place}", op="Conv", snr_db=20.0 + place) for place in range(12)),
        LayerSensitivity(layer="head/Gemm", op="Gemm", absent_because="the time for this test was over"),
    )


def found() -> Optimization:
    """One variant is clearly better; every kind of loser beside it."""
    best = chosen_variant()
    return Optimization(
        baseline=original(),
        candidates=(*losers(), best),
        front=("original", best.id),
        front_metrics=("latency", "model_size", "memory_peak", "accuracy_top1"),
        chosen=best.id,
        reason="6 of 6 heavy operators compute in int8; QLinearConv is 3.1× faster than Conv here",
        bounds=(Bound(metric="accuracy_drop", limit=0.01, words="--max-accuracy-drop 1pt"),),
        task="classification",
        headline="accuracy_top1",
        data=TEST,
        calibration=TRAIN,
        sensitivity=layers(),
        files={"chosen": "/out/kws.ort-static.onnx", "provenance": "/out/kws.ort-static.onnx.provenance.json"},
        command="edgewise optimize kws.onnx --data kws.npz --passes ort-static -r openvino --seed 0",
        notes=("torch-pt2e was not tried: torch is not installed", "torch-distill was not tried: torch is not installed",
               "the host was busy"),
        stopped_because="everything that was planned is done",
        elapsed_s=187.2,
        conditions={"threads": 1, "seed": 0, "budget_s": 240.0, "aim": "latency", "original_runtime": "onnxruntime",
                    "shapes": {"input": [1, 49, 10, 1]}},
    )  # fmt: skip


def nothing_found() -> Optimization:
    """The only pass is slower."""
    return replace(
        found(), candidates=losers()[:1], chosen=None, front=("original",), sensitivity=(), files={}, command=""
    )


def bounds_unmet() -> Optimization:
    """Nothing is as fast as it must be."""
    bounds = (
        Bound(metric="latency", limit=1e-4, words="--max-latency 100us"),
        Bound(metric="model_size", limit=9e3, words="--max-size 9kB"),
    )
    best = replace(
        chosen_variant(), accepted=False, why="faster: 2.97×, but Latency 141 µs is over --max-latency 100us"
    )
    return replace(
        found(), candidates=(*losers(), best), chosen=None, bounds=bounds, closest=best.id, files={}, command="",
        unmet="Latency 141 µs is over --max-latency 100us; Model size 15.0 KiB is over --max-size 9 kB (8.79 KiB)",
    )  # fmt: skip


def without_data() -> Optimization:
    """No labels and no race: only agreement is known."""
    agreed = {"model_size": exact(15_410.0), "output_snr": number(35.0, 34.0, 36.0)}
    baseline = replace(original(), metrics={"model_size": exact(53_936.0)})
    one = variant("onnx-fp16", stage="judged", why="not raced: the time budget left no room", metrics=agreed)
    return Optimization(baseline=baseline, candidates=(one,), stopped_because="the time budget")


def hostile_search() -> Optimization:
    """Names and reasons that want to be markup."""
    one = replace(chosen_variant(), id=HOSTILE, why=f"{HOSTILE}: {HOSTILE}")
    changed = changed_answers(HOSTILE, classes={0: HOSTILE, 1: f'" onerror="alert(1) {HOSTILE}'})
    bad = replace(losers()[0], id=f"{HOSTILE} 2", why=HOSTILE)
    return replace(
        found(), candidates=(bad, one), chosen=HOSTILE, front=("original", HOSTILE), notes=(HOSTILE,), command=HOSTILE,
        files={"chosen": HOSTILE}, stopped_because=HOSTILE, data=replace(TEST, name=HOSTILE),
        changed={HOSTILE: changed}, thumbnails=({7: PICTURE}, HOSTILE),
        sensitivity=(LayerSensitivity(layer=HOSTILE, op=HOSTILE, snr_db=3.0, fragile=True),),
    )  # fmt: skip


PICTURE = "data:image/png;base64,iVBORw0KGgo="


def changed_answers(name: str = "net.png", **facts) -> ChangedAnswers:
    """Of 400 samples one was lost, one gained, and one is wrong in another way."""
    told = {"name": name, "digest": "f" * 64, "before_score": 0.97, "after_score": 0.5}
    return ChangedAnswers(**{
        "n": 400,
        "counts": {"lost": 1, "gained": 1, "other": 1},
        "samples": (
            ChangedSample(**told, index=7, change="lost", label=0, before=0, after=1),
            ChangedSample(**told, index=8, change="gained", label=1, before=2, after=1),
            ChangedSample(**{**told, "after_score": None}, index=9, change="other", label=0, before=1, after=None),
        ),
        "classes": {0: "yes", 1: "no"},
        **facts,
    })  # fmt: skip


def changed_search() -> Optimization:
    """The chosen variant changes nothing, another one some answers; two of three samples have a picture."""
    result = found()
    none = ChangedAnswers(n=400, counts={"lost": 0, "gained": 0, "other": 0})
    other = "ort-dynamic @ onnxruntime"
    pictures = {7: PICTURE, 8: PICTURE}, "Pictures: samples as they are stored; 1 without a picture: 9: damaged"
    return replace(result, changed={result.chosen: none, other: changed_answers()}, thumbnails=pictures)


def optimization_text(result: Optimization, *, width: int = 80, details: bool = True) -> str:
    """What is printed of `result` as plain text without colours, at most `width` cells wide."""
    return plain_text(partial(print_optimization, result, details=details), width=width)


def evaluation_text(results: EvaluationResults, *, width: int = 80, details: bool = True) -> str:
    """What is printed of `results` as plain text without colours, at most `width` cells wide."""
    return plain_text(partial(print_titled, describe_results(results), details=details), width=width)


def evaluation(**facts) -> Evaluation:
    """900 of 1000 samples, three classes, two that could not be read."""
    told = {
        "task": "classification", "data": TEST, "n": 900, "limit": 902, "seed": 7,
        "preprocessing": {"edgewise": 1, "done": ["image: scale 1/255 → float32 [1, 49, 10, 1]"]},
        "preprocessing_from": "kws.onnx.yaml", "settings": {"output": "logits", "top": 5},
        "classes": ("yes", "no", "silence"), "confusion": ((280, 15, 5), (20, 280, 0), (0, 9, 291)),
        "skipped": (Skipped(name="a.wav", reason="truncated"), Skipped(name="b.wav", reason="no frames")),
        "skipped_count": 2, "seconds": 3.2,
    }  # fmt: skip
    return Evaluation(**{**told, **facts})


def scores(top1: float = 851 / 900) -> tuple[Score, ...]:
    """A proportion with its outcomes, one with a bootstrap, one without an interval, one that is not defined."""
    hits = round(top1 * 900)
    return (
        Score(metric="accuracy_top1", value=top1, low=top1 - 0.017, high=top1 + 0.013, n=900,
              method="share of samples, Wilson's 95 % interval", outcomes=(1.0,) * hits + (0.0,) * (900 - hits)),
        Score(metric="f1_macro", value=0.9451, low=0.93, high=0.9588, n=900, method="BCa bootstrap over samples"),
        Score(metric="loss:cross_entropy", value=0.2143, low=None, high=None, n=900, method="no interval: it is slow"),
        Score(metric="auroc", value=None, low=None, high=None, n=900, method="", absent_because="there is one class"),
    )  # fmt: skip


def evaluated(
    place: int = 1, *, top1: float = 851 / 900, differences: tuple[MetricDifference, ...] = (), **facts
) -> ModelEvaluation:
    """A model that was judged."""
    from edgewise.evaluating.run_records import measurement_of

    rated = scores(top1)
    run = make_run(place, **facts)
    kept = tuple(row for row in run.measurements if row.metric not in ("agreement_top1", "output_max_abs_error"))
    run = replace(run, evaluation=evaluation(), measurements=kept + tuple(map(measurement_of, rated)))
    return ModelEvaluation(
        run=run,
        scores=rated,
        differences=differences,
        headline="accuracy_top1",
        notes=("image: scale 1/255 → float32 [1, 49, 10, 1]",),
    )


def gaps() -> tuple[MetricDifference, ...]:
    """Against the first model, which is better."""
    return (
        MetricDifference(metric="accuracy_top1", difference=-0.0222, low=-0.0361, high=-0.0089, p_value=0.0007, n=900,
            method="McNemar's exact test; 8 gained, 28 lost"),
        MetricDifference(metric="loss:cross_entropy", difference=0.05, low=None, high=None, p_value=None, n=900, method="no interval"),
        MetricDifference(metric="auroc", difference=None, low=None, high=None, p_value=None, n=900, method="", absent_because="A has no value"),
    )  # fmt: skip


def one_model() -> EvaluationResults:
    """One model."""
    return EvaluationResults(models=(evaluated(),))


def two_models() -> EvaluationResults:
    """A better one in onnxruntime, a worse one in litert, and one that failed."""
    from sample_runs import VWW

    second = replace(
        evaluated(2, top1=831 / 900, differences=gaps(), model=VWW, runtime="litert", latency=2.1e-4), resumed=120
    )
    return EvaluationResults(models=(evaluated(), second))


def with_failure() -> EvaluationResults:
    """The second could not be run."""
    return EvaluationResults(models=(evaluated(), ModelEvaluation(run=failed_run(4), headline="accuracy_top1")))


def hostile_evaluation() -> EvaluationResults:
    """Names of models, classes, samples and reasons that want to be markup."""
    one = evaluated()
    told = evaluation(classes=(HOSTILE, "no", "silence"), data=replace(TEST, name=HOSTILE),
                      skipped=(Skipped(name=HOSTILE, reason=HOSTILE),), skipped_count=1, settings={HOSTILE: HOSTILE})  # fmt: skip
    run = replace(one.run, evaluation=told, job=replace(one.run.job, model=replace(KWS, name=HOSTILE)))
    return EvaluationResults(models=(replace(one, run=run, notes=(HOSTILE,)),))


def detection_run():
    """A run whose answers were judged by mAP."""
    run = make_run(1)
    told = evaluation(task="detection", confusion=None)
    return replace(run, evaluation=told, measurements=(*run.measurements, measured("map_50_95", 0.372, half=0.01)))
