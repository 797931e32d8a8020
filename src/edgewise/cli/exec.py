"""``edgewise exec``: run any program as if on a smaller device."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.cli import options
from edgewise.cli.bench import RunPresentation
from edgewise.cli.options import Values, argument, option, request_of, takes
from edgewise.cli.verb import output_of, perform
from edgewise.cli.words import words
from edgewise.errors import BadInput
from edgewise.units import parse_duration

if TYPE_CHECKING:
    from edgewise.service.env_file import EnvFile
    from edgewise.service.requests import ExecRequest

OPTIONS = (
    argument(
        "command",
        "Program and arguments, after --; {model} stands for a model.",
        list[str],
        metavar="-- CMD…",
        default=None,
    ),
    *options.CONSTRAINTS,
    option(
        "--sample T",
        options.MEASURE,
        "Time between samples of the counters; 0s takes none",
        read=parse_duration,
        default="0.5s",
    ),
    option("--timeout T", options.MEASURE, "Kill the command after this time", read=parse_duration),
    option("--repeat N", options.MEASURE, "Number of executions; several give intervals", int, default=1),
    option(
        "-m --models A,B",
        options.VARY,
        "Models to put in place of {model}; each is measured, and they are ranked",
        list[str],
        read=words,
    ),
    option("-f --models-file F", options.VARY, "File with one model per line", Path),
    option("--run-in F", options.MEASURE, "Folder in which the command runs (default: the current folder)", Path),
    option(
        "-e --env-file F",
        options.MEASURE,
        "Take command, folder, limits and sampling from an env.template of auptimizer's Profiler",
        Path,
    ),
    options.SEED.worded("Random seed of the order of executions"),
    options.OUTPUTS,
    *options.REPORTING,
)
PRESENTATION = RunPresentation()


@takes(*OPTIONS)
def command(values: Values) -> int:
    """Run a program as if on a smaller device: processor and memory limits, and what it used, with intervals.

    The program's standard input is empty, and its output goes to standard error.
    """
    from edgewise.service.env_file import read_env_file
    from edgewise.service.requests import ExecRequest

    output = output_of(values)
    if values["env_file"] is None:
        if not values["command"]:
            raise BadInput("no command given", advice="write it after --: edgewise exec --cpus 1 -- python3 infer.py")
        return perform(request_of(ExecRequest, OPTIONS, values), PRESENTATION, output)
    if values["command"] or values["run_in"]:
        raise BadInput("--env-file has the command and its folder", advice="give either --env-file or a command")
    typed = {"command": ("true",), "models": None, "models_file": None}  # the file has the command
    limits = request_of(ExecRequest, OPTIONS, {**values, **typed}).changed_fields()
    limits.pop("command")
    models = words(values["models"] or [])
    request = request_from_env_file(
        read_env_file(values["env_file"]),
        model_names=models,
        models_file=None if values["models_file"] is None else str(values["models_file"]),
        **limits,
    )
    return perform(request, PRESENTATION, output)


def request_from_env_file(
    env_file: EnvFile, *, model_names: tuple[str, ...], models_file: str | None, **typed: Any
) -> ExecRequest:
    """The request that an environment file describes; what was typed wins. Raises `BadInput`."""
    from edgewise.service.reading import make_request
    from edgewise.service.requests import ExecRequest

    fields = env_file.fields(has_models=bool(model_names or models_file))
    return make_request(ExecRequest, **{**fields, **typed, "model_names": model_names, "models_file": models_file})
