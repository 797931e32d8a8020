"""Carries out `exec`: programs within the limits of a smaller device."""

from __future__ import annotations

import errno
import hashlib
import os
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from edgewise.cancellation import Cancelled
from edgewise.device.devices import LOCAL
from edgewise.errors import BadField, BadInput, Unavailable
from edgewise.progress import RunFinished, StageStarted, emit
from edgewise.record import (
    Constraints,
    Job,
    ModelRef,
    Run,
    RuntimeSpec,
    Scenario,
    Stopping,
    TargetSpec,
    Workload,
    new_run_id,
)
from edgewise.run.command import Execution, execute
from edgewise.run.command_run import build_run
from edgewise.run.environment import fingerprint
from edgewise.units import format_bytes
from edgewise.verbs.context import Context
from edgewise.verbs.exec.container_image import with_image
from edgewise.verbs.exec.request import PLACEHOLDER, ExecRequest
from edgewise.verbs.measuring import Measured

MOST_MODELS = 1000
MOST_LIST_BYTES = 2**20


def plan_commands(request: ExecRequest) -> list[Job]:
    """One job per model, or a single one. Raises `BadInput`."""
    models = list(request.model_names)
    if request.models_file is not None:
        models += _read_lines(Path(request.models_file))
    if len(models) > MOST_MODELS:
        raise BadField(f"at most {MOST_MODELS} models can be given, not {len(models)}")
    if any("\0" in word for word in (*models, *request.command)):
        raise BadInput("a word of the command contains a null byte", advice="models and arguments are text")
    folder = Path(request.run_in) if request.run_in is not None else Path()
    if not folder.is_dir():
        raise BadField(f"⟦run_in={folder}⟧ is not a folder")
    jobs = []
    names = list(dict.fromkeys(models)) or [""]
    for model in names:
        command = tuple(word.replace(PLACEHOLDER, model) for word in request.command)
        program = _program(command[0], folder) if request.image is None else Path(command[0])
        jobs.append(
            Job(
                model=_reference(folder / model if model else program, is_program=not model),
                runtime=RuntimeSpec(name="command"),
                target=TargetSpec(constraints=request.constraints()),
                workload=Workload(
                    scenario=Scenario(kind="command"),
                    seed=request.seed,
                    interleave="rounds" if len(names) > 1 else None,
                    stopping=Stopping(sessions=request.repeat, timeout_s=request.timeout or 0.0),
                ),
                command=command,
            )
        )
    return jobs


def run_commands(request: ExecRequest, context: Context) -> Measured:
    """Execute every command `repeat` times, in rounds of random order, and save each run when it is complete.

    An image is built first, where the request has a Dockerfile.
    """
    request = with_image(request)
    jobs = plan_commands(request)
    environment, group, order = fingerprint(), new_run_id(), random.Random(request.seed)  # noqa: S311 - an order, no secret
    done: list[list[Execution]] = [[] for _ in jobs]
    runs: dict[int, Run] = {}
    interrupted = False

    def build(index: int) -> Run:
        return build_run(
            jobs[index], done[index], environment=environment, group=group, not_applied=request.not_applied
        )

    with context.measuring(LOCAL), context.saving() as saver:
        try:
            for number in range(request.repeat):
                for index in order.sample(range(len(jobs)), len(jobs)):
                    round_text = f" ({number + 1} of {request.repeat})" if request.repeat > 1 else ""
                    emit(StageStarted(title=f"{jobs[index].label}{round_text}"))
                    done[index].append(_execute(jobs[index], request))
                    if done[index][-1].interrupted:
                        raise Cancelled("interrupted")
                    if number + 1 == request.repeat:
                        runs[index] = build(index)
                        _save(runs[index], saver.save)
        except (Cancelled, KeyboardInterrupt):
            interrupted = True
            for index, executions in enumerate(done):
                if executions and index not in runs:
                    run = build(index)
                    runs[index] = replace(run, status="cancelled" if run.status == "done" else run.status)
                    _save(runs[index], saver.save)
            if not runs:
                raise
    return Measured(runs=[runs[index] for index in sorted(runs)], save_errors=saver.errors, interrupted=interrupted)


def _execute(job: Job, request: ExecRequest) -> Execution:
    try:
        return execute(
            job.command,
            constraints=request.constraints() or Constraints(),
            sample_s=request.sample,
            timeout_s=request.timeout,
            folder=None if request.run_in is None else Path(request.run_in),
            mount=request.mount,
            container_options=request.container_options,
        )
    except OSError as error:
        if error.errno == errno.E2BIG:
            raise BadInput("the command line is too long for the system", advice="pass long lists in a file") from error
        raise Unavailable(
            f"the limits can't be set: {error.strerror or error}", advice="name another ⟦mechanism⟧ or raise the limits"
        ) from error


def _save(run: Run, save: Callable[[Run], None]) -> None:
    emit(RunFinished(run=run))
    save(run)


def _program(name: str, folder: Path) -> Path:
    """Return the file of a program. Raises `BadInput`."""
    found = shutil.which(str(folder.absolute() / name) if os.sep in name else name)
    if found is None:
        raise BadInput(
            f"the command {name!r} does not exist or is not executable",
            advice="check its name and path; shell syntax needs a shell: -- sh -c 'A | B'",
        )
    return Path(found)


def _reference(path: Path, *, is_program: bool) -> ModelRef:
    """Return the identity of a model or program: that of its file, or of its name where there is no such file."""
    try:
        is_file = path.is_file()
    except OSError:  # too long for a path
        is_file = False
    if not is_file:
        digest = hashlib.sha256(str(path).encode()).hexdigest()
        return ModelRef(name=path.name, path=str(path), format="name", sha256=digest, size_bytes=0)
    try:
        with path.open("rb") as content:
            is_program |= content.read(4).startswith((b"#!", b"\x7fELF"))
            content.seek(0)
            digest = hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        raise BadInput(f"can't read {path}: {error.strerror}") from error
    size = path.stat().st_size
    kind = "program" if is_program else path.suffix.removeprefix(".") or "file"
    return ModelRef(name=path.name, path=str(path.absolute()), format=kind, sha256=digest, size_bytes=size)


def _read_lines(path: Path) -> Sequence[str]:
    """Return the models in a file, one per line; lines that begin with # are comments. Raises `BadInput`."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_LIST_BYTES + 1)
        if len(content) > MOST_LIST_BYTES:
            raise BadField(f"⟦models_file={path}⟧ is larger than {format_bytes(MOST_LIST_BYTES)}")
        lines = content.decode("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise BadField(f"can't read ⟦models_file={path}⟧: {reason}") from error
    models = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if not models:
        raise BadField(f"⟦models_file={path}⟧ names no model", advice="write one model per line")
    return models
