"""Options of ``profile``, and what they ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgewise.verbs import choices
from edgewise.verbs import shared_options as options
from edgewise.verbs.option import Values, option, request_of
from edgewise.verbs.shared_options import models_or_factory

if TYPE_CHECKING:
    from edgewise.verbs.profile.request import ProfileRequest

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


def read(values: Values) -> ProfileRequest:
    """The request that the options describe. Raises `BadInput`."""
    from edgewise.verbs.profile.request import ProfileRequest

    models = models_or_factory(values["models"], values["build"])
    return request_of(ProfileRequest, OPTIONS, values, models=models)
