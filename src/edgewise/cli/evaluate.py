"""``edgewise evaluate``: the accuracy of models, on labelled data or against another model's outputs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.cli.console import complain
from edgewise.cli.verb import Output, Presentation, output_of, perform
from edgewise.verbs import shared_options as options
from edgewise.verbs.command import takes
from edgewise.verbs.option import Values, option, request_of

if TYPE_CHECKING:
    from rich.console import Console

    from edgewise.evaluating.evaluation import EvaluationResults
    from edgewise.service.requests import EvaluateRequest

OPTIONS = (
    options.MODELS.worded(".onnx, .tflite or OpenVINO .xml files."),
    option("--data PATH", options.DATA, "Class folders, .npz, CSV, COCO, IDX, WAV … or MODULE:FUNCTION", default=...),
    options.JUDGING[0],
    option(
        "--metric M",
        options.DATA,
        "A metric of your own: MODULE:FUNCTION, FILE.py:FUNCTION, hf:FOLDER; append =lower if less is better; "
        "repeatable",
        list[str],
    ),
    option("--reference MODEL", options.DATA, "Model whose outputs count as correct, for data without labels", Path),
    *options.JUDGING[1:],
    options.RUNTIMES.worded("Runtimes (default: the runtime of the model's own format)"),
    options.DEVICE,
    options.PROVIDERS,
    options.THREADS.worded("Number of inference threads", kind=int, default=1, read=None, metavar="N"),
    options.PRECISIONS,
    options.SIGNATURES,
    options.SHAPES,
    option("--latency/--no-latency", options.MEASURE, "Measure the latency too", bool, default=True),
    option("--sessions N", options.MEASURE, "Number of fresh processes for the latency", int, default=3),
    option("--meters/--no-meters", options.MEASURE, "Read sensors, about 3 s per run", bool),
    *options.WORKER,
    *options.CONSTRAINTS,
    option("--keep-state", options.MEASURE, "Keep a model's state from sample to sample: they are one sequence", bool),
    option("--fresh", options.MEASURE, "Start anew instead of resuming an interrupted evaluation", bool),
    options.OUTPUTS.worded("Also write .md, .html, .csv or .json; repeatable"),
    *options.REPORTING,
)


class EvaluatePresentation(Presentation["EvaluationResults"]):
    """How results of an evaluation are shown."""

    files = "EVALUATION"
    left = "run the same command again to resume"

    def document(self, result: EvaluationResults) -> Any:
        """Metrics, and the runs."""
        from edgewise.report.evaluation import evaluation_document

        return evaluation_document(result)

    def show(self, result: EvaluationResults, console: Console, *, output: Output) -> None:
        """Metrics with intervals, and what differs."""
        from edgewise.report.evaluation import describe_results
        from edgewise.report.text import print_titled

        print_titled(describe_results(result), console, details=output.details)

    def has_failed(self, result: EvaluationResults) -> bool:
        """Whether a run failed; says which."""
        failed = [one.run for one in result.models if one.run.status == "failed"]
        for run in failed:
            complain(f"{run.job.label}: {run.failure.message if run.failure else run.status}")
        return bool(failed)


PRESENTATION = EvaluatePresentation()


@takes(*OPTIONS)
def command(values: Values) -> int:
    """Measure the accuracy of models on your data, with intervals, and their latency."""
    return perform(request_from(values), PRESENTATION, output_of(values))


def request_from(values: Values) -> EvaluateRequest:
    """The request that the command line describes. Raises `BadInput`."""
    from edgewise.service.requests import EvaluateRequest

    return request_of(EvaluateRequest, OPTIONS, values)
