"""Options of ``exec``, and what they ask for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.errors import BadInput
from edgewise.units import parse_duration
from edgewise.verbs import shared_options as options
from edgewise.verbs.option import Values, argument, option, request_of
from edgewise.verbs.words import words

if TYPE_CHECKING:
    from edgewise.verbs.exec.request import ExecRequest

OPTIONS = (
    argument(
        "command",
        "Program and arguments, after --; {model} is replaced by each model of --models.",
        list[str],
        metavar="-- CMD…",
        default=None,
        files=True,
    ),
    *options.CONSTRAINTS,
    option(
        "--image IMAGE",
        options.LIMITS,
        "Image of a container in which the command runs; --mechanism docker or podman names the runtime",
    ),
    option(
        "--sample T",
        options.MEASURE,
        "Time between samples of the counters; 0s takes no samples (default: 0.5s)",
        read=parse_duration,
    ),
    option("--timeout T", options.MEASURE, "Kill the command after this time", read=parse_duration),
    option("--repeat N", options.MEASURE, "Number of executions; several give intervals", int, default=1),
    option(
        "-m --models A,B",
        options.VARY,
        "Models to put in place of {model}; each is measured, and three or more are ranked",
        list[str],
        read=words,
        field="model_names",
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


def read(values: Values) -> ExecRequest:
    """The request that the options describe. Raises `BadInput`."""
    from edgewise.verbs.exec.env_file import read_env_file
    from edgewise.verbs.exec.request import ExecRequest

    fields: dict[str, Any] = {}
    if values["env_file"] is not None:
        if values["command"] or values["run_in"]:
            raise BadInput("--env-file has the command and its folder", advice="give either --env-file or a command")
        found = read_env_file(values["env_file"]).fields(has_models=bool(values["models"] or values["models_file"]))
        fields = {name: value for name, value in found.items() if values.get(name) is None}
    elif not values["command"]:
        raise BadInput("no command given", advice="write it after --: edgewise exec --cpus 1 -- python3 infer.py")
    return request_of(ExecRequest, OPTIONS, values, **fields)
