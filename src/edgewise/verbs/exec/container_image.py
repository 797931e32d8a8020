"""Builds the image of a container in which `exec` runs a program."""

from __future__ import annotations

import os
import re
from pathlib import Path

from edgewise.constraints.base import CONTAINER_NAMES, MECHANISMS
from edgewise.constraints.containers import ask, find_runtime, limit_options
from edgewise.device.bootstrap import run_reported
from edgewise.device.transports.local import LocalTransport
from edgewise.errors import BadField, Unavailable
from edgewise.folders import job_folder
from edgewise.progress import LogLine, emit
from edgewise.text import one_line
from edgewise.verbs.exec.request import ExecRequest


def with_image(request: ExecRequest) -> ExecRequest:
    """`request` with the image that its Dockerfile gives; without one where no image can be built.

    Where the request names a container runtime, there is no way out: then it raises `Unavailable`.
    """
    if request.dockerfile is None or request.mechanism in MECHANISMS:
        return request
    try:
        runtime = find_runtime(request.mechanism)
        image = _build(runtime, request.dockerfile, Path(request.build_context or request.run_in or "."))
        # An image can be built where no container can be run, and options may not be accepted.
        options = (*limit_options(request.cpus, request.memory), *request.container_options)
        ask(runtime, "run", "--rm", *options, "--entrypoint", "/bin/sh", image, "-c", "exit 0")
    except Unavailable as error:
        if request.mechanism in CONTAINER_NAMES:
            raise
        reason = one_line(error.message)
        emit(LogLine(text=f"the program runs on this machine itself, not in a container: {reason}"))
        return request.model_copy(update={"not_applied": (*request.not_applied, reason)})
    emit(LogLine(text=f"the program runs in a container of {image} ({runtime})"))
    return request.model_copy(update={"image": image, "mechanism": runtime, "mount": False, "not_applied": ()})


def _build(runtime: str, dockerfile: str, context: Path) -> str:
    """Return the name of the image. Raises `Unavailable`, and `BadField` without the folder."""
    if not context.is_dir():
        raise BadField(f"⟦build_context={context}⟧ is not a folder")
    name = re.sub(r"[^a-z0-9]+", "-", context.absolute().name.lower()).strip("-") or "program"
    image = f"localhost/edgewise-{name}"
    with job_folder() as folder:
        (folder / "Dockerfile").write_text(dockerfile)
        try:
            run_reported(
                LocalTransport(),
                (runtime, "build", "--file", str(folder / "Dockerfile"), "--tag", image, str(context.absolute())),
                folder=folder,
                environment=os.environ,
                advice="",
            )
        except OSError as error:
            raise Unavailable(
                f"the image could not be built: {error}",
                advice="correct IMAGEREPO and what is installed on it, or name another ⟦mechanism⟧: "
                "affinity-rlimit and control groups need no image",
            ) from error
    return image
