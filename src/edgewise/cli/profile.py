"""``edgewise profile``: time every layer, find out where the time goes and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgewise.cli import estimate
from edgewise.cli.bench import RunPresentation
from edgewise.cli.verb import Output, output_of, perform, say_skipped
from edgewise.errors import BadInput, ExitCode
from edgewise.verbs import choices
from edgewise.verbs import shared_options as options
from edgewise.verbs.command import takes
from edgewise.verbs.option import Values, option, request_of
from edgewise.verbs.shared_options import models_or_factory

if TYPE_CHECKING:
    from rich.console import Console

    from edgewise.service.measuring import Measured
    from edgewise.service.requests import ProfileRequest

OPTIONS = (
    options.MODELS.worded(
        ".onnx, .tflite, OpenVINO .xml, .pt2 or .keras files, or FILE.py:FUNCTION.", kind=list[str], default=None
    ),
    options.BUILD,
    options.CASES,
    options.RUNTIMES,
    options.DEVICE.worded(
        "Device to measure on: its name, or a URL such as ssh://USER@HOST; or one to estimate, such as cortex-m33",
        choices=choices.devices,
    ),
    options.PROVIDERS,
    options.THREADS,
    options.SETTINGS.worded(
        "Setting of the engine by its own name, such as channels_last=true for torch; or of the estimator; repeatable"
    ),
    *options.FED,
    *options.PROTOCOL,
    options.DURATION.worded("Time of inferences with and without the profiler, in turns, per session"),
    option("--sessions N", options.MEASURE, "Number of fresh processes that time latency and layers", int, default=3),
    *options.WORKER,
    *options.CONSTRAINTS,
    options.TOP,
    options.OUTPUTS.worded(
        "Also write .html, .md, .csv, .json, .trace.json (Perfetto), .nodes.json (Model Explorer), .mltk.json, .svg or "
        ".png; of a device that is estimated, the files of 'edgewise estimate'; repeatable"
    ),
    *options.REPORTING,
)


class ProfilePresentation(RunPresentation):
    """How profiles are shown."""

    profiles = True

    def check_request(self, request: ProfileRequest, output: Output) -> None:
        """Refuse files that hold one run where there will be several, before measuring."""
        from edgewise.report.files import extension_of
        from edgewise.report.profile_files import PROFILE_EXTENSIONS, SEVERAL
        from edgewise.service.measuring import planned

        single = set(PROFILE_EXTENSIONS) - set(SEVERAL)
        path = next((path for path in output.files if extension_of(path) in single), None)
        if path is None:
            return
        with planned(request) as plan:
            if len(plan.jobs) > 1:
                raise BadInput(
                    f"{path.name} holds one run, and this measures {len(plan.jobs)}",
                    advice="name one runtime, such as -r onnxruntime",
                )

    def show(self, result: Measured, console: Console, *, output: Output) -> None:
        """The table of layers."""
        from edgewise.report.profile import profile_document
        from edgewise.report.text import print_document

        if result.runs:
            top = output.top or max(len(run.layers) for run in result.runs)
            document = profile_document(result.runs, top=top, width=console.width)
            print_document(document, console, details=output.details)
        say_skipped(result.skipped)

    def finish(self, result: Measured, *, output: Output) -> int:
        """The exit code of `bench`; where all have a latency, whether each has layers too."""
        from edgewise.run.profiled import is_profiling_failed

        if code := super().finish(result, output=output):
            return code
        if any(map(is_profiling_failed, result.runs)):
            return ExitCode.RUN_FAILED
        return ExitCode.UNAVAILABLE if any(run.profile is None for run in result.runs) else ExitCode.DONE


PRESENTATION = ProfilePresentation()


@takes(*OPTIONS)
def command(values: Values) -> int:
    """Measure the time of each layer and show where it goes and why: attribution, roofline, memory, ranked findings."""
    request = request_from(values).in_effect()
    return perform(request, PRESENTATION if request.verb == "profile" else estimate.PRESENTATION, output_of(values))


def request_from(values: Values) -> ProfileRequest:
    """The request that the command line describes. Raises `BadInput`."""
    from edgewise.service.requests import ProfileRequest

    models = models_or_factory(values["models"], values["build"])
    return request_of(ProfileRequest, OPTIONS, values, models=models)
