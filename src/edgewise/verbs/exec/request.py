"""The request to run any program."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from edgewise.constraints.base import IMAGE_NAME
from edgewise.errors import BadField
from edgewise.record import Constraints
from edgewise.run.limits import require_at_least, require_time
from edgewise.units import parse_duration
from edgewise.verbs.fields import Seed
from edgewise.verbs.option import argument, option, worded
from edgewise.verbs.request import FilePath, Number, Texts, Whole
from edgewise.verbs.shared import CPUS, LimitedRequest, check_constraints
from edgewise.verbs.shared_options import LIMITS, MEASURE, OUTPUTS, REPORTING, VARY

PLACEHOLDER = "{model}"
SHORTEST_SAMPLE_S = 0.01
"""Reading the counters more often would disturb what they count."""


class ExecRequest(LimitedRequest):
    """Run a program within the limits of a smaller device.

    Attributes:
        model_names: names or paths to put in place of ``{model}``; they count from the folder in which the command
            runs.
        mount: whether the container has `run_in` as its working folder; otherwise it is the image's own.
        container_options: further options for the start of the container.
        dockerfile: text of a Dockerfile from which the image is built; where that fails, and `mechanism` names no
            container runtime, the command runs on the machine itself.
        build_context: folder with the files for `dockerfile`; None is `run_in`.
        not_applied: requirements of another tool's file that are not met here; each run says so.
    """

    PATHS = ("models_file", "run_in", "build_context")

    OTHER_OPTIONS = (
        option(
            "-e --env-file F",
            MEASURE,
            "Take command, folder, limits and sampling from an env.template of auptimizer's Profiler",
            Path,
        ),
        OUTPUTS,
        *REPORTING,
    )

    verb: Literal["exec"] = "exec"
    cpus: Annotated[
        Number | None,
        replace(CPUS, instead="execute it once with each number, then run 'edgewise compare last~1 last'"),
    ] = None
    image: Annotated[
        str | None,
        option(
            "--image IMAGE",
            LIMITS,
            "Image of a container in which the command runs; --mechanism docker or podman names the runtime",
        ),
    ] = None
    mount: bool = True
    container_options: Texts = ()
    dockerfile: str | None = None
    build_context: str | None = None
    command: Annotated[
        Texts,
        argument(
            "command",
            "Program and arguments, after --; {model} is replaced by each model of --models.",
            list[str],
            metavar="-- CMD…",
            files=True,
            optional=True,
        ),
    ] = Field(min_length=1)
    model_names: Annotated[
        Texts,
        option(
            "-m --models A,B",
            VARY,
            "Models or variants to put in place of {model}; each is measured, and three or more are ranked",
            common=True,
        ),
    ] = ()
    models_file: Annotated[
        FilePath | None, option("-f --models-file F", VARY, "File with one model per line", Path)
    ] = None
    run_in: Annotated[
        FilePath | None,
        option("--run-in F", MEASURE, "Folder in which the command runs (default: the current folder)", Path),
    ] = None
    not_applied: Texts = ()
    sample: Annotated[
        Number,
        option(
            "--sample T",
            MEASURE,
            "Time between samples of the counters; 0s takes no samples (default: 0.5s)",
            read=parse_duration,
        ),
    ] = 0.5
    timeout: Annotated[
        Number | None, option("--timeout T", MEASURE, "Kill the command after this time", read=parse_duration)
    ] = None
    repeat: Annotated[
        Whole, option("--repeat N", MEASURE, "Number of executions; several give intervals", common=True)
    ] = 1
    seed: Annotated[Seed, worded("Random seed of the order of executions")] = 0

    @property
    def functions(self) -> Texts:
        """The command, and what makes and starts its container: code that this request runs."""
        return (" ".join(self.command), *filter(None, (self.dockerfile, " ".join(self.container_options))))

    def constraints(self) -> Constraints | None:
        """As a job has them; None where there are none."""
        limits = replace(super().constraints() or Constraints(), image=self.image)
        return limits if limits != Constraints() else None

    def check(self) -> None:
        """Reject limits that no program can run in, and models without a place in the command."""
        limits = self.constraints() or Constraints()
        check_constraints(limits if self.dockerfile is None else replace(limits, mechanism=None))
        if self.dockerfile is not None and self.image is not None:
            raise BadField("give either ⟦image⟧ or ⟦dockerfile⟧")
        if self.image is not None and not IMAGE_NAME.fullmatch(self.image):
            raise BadField(f"⟦image⟧: {self.image!r} is not the name of an image", advice="such as python:3.13-slim")
        require_time(timeout=self.timeout, sample=self.sample or None)
        if 0 < self.sample < SHORTEST_SAMPLE_S:
            raise BadField(f"⟦sample⟧ must be 0 or at least {SHORTEST_SAMPLE_S:g} s, not {self.sample:g} s")
        require_at_least(1, repeat=self.repeat)
        require_at_least(0, seed=self.seed)
        has_place = any(PLACEHOLDER in word for word in self.command)
        if has_place and not (self.model_names or self.models_file):
            raise BadField(
                "the placeholder in ⟦command⟧ needs ⟦model_names⟧ or ⟦models_file⟧",
                advice="for example ⟦model_names=a.onnx,b.onnx⟧",
            )
        if not has_place and (self.model_names or self.models_file):
            raise BadField(
                "⟦model_names⟧ and ⟦models_file⟧ need a placeholder in the command",
                advice="write the word model in braces, { and }, where the name of the model belongs",
            )
