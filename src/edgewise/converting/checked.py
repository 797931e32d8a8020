"""Converts a model in a child process, compares the result with its source, and keeps it only if both agree."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

from edgewise.child_process import run_child
from edgewise.converting.agreement import Comparer, OutputAgreement, compare_answers, compare_tensor, reduced_words
from edgewise.converting.base import TARGETS
from edgewise.converting.exposing import Point
from edgewise.converting.localizing import WrongOperator, find_operator
from edgewise.converting.losses import only_signature
from edgewise.converting.onnx_tflite import find_program
from edgewise.converting.paths import KERAS_MODEL, MODULE, SEPARATE, find_path
from edgewise.converting.result import RANDOM_INPUTS, Agreement, Conversion
from edgewise.converting.signature_file import take_signature
from edgewise.errors import BadInput, EdgewiseError, RunFailed, Unavailable, error_of
from edgewise.folders import check_place, job_folder
from edgewise.model.callable_loader import is_factory
from edgewise.model.identity import SAVED_MODEL, describe_file, list_files, open_model, read_graph
from edgewise.model.random_operators import random_words
from edgewise.progress import StageStarted, emit
from edgewise.record import ModelRef
from edgewise.run.agreement import NOT_FINITE, REAL_INPUTS
from edgewise.run.sample_mode import read_feeds
from edgewise.run.sandbox import available_memory

_CHANGING = "the source gives different outputs for the same inputs"
_RUN_BY = {MODULE: "PyTorch", KERAS_MODEL: "Keras"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionTask:
    """What to convert, and how.

    Attributes:
        source: a model file, a SavedModel's folder, or ``FILE.py:FUNCTION``.
        signature: entry point of a file that has several; "" is its default.
        to: a key of `edgewise.converting.base.TARGETS`.
        output: where the result goes.
        overwrite: whether files there are replaced.
        opset, precision, shapes: as in `edgewise.converting.base.ConvertOptions`.
        input_data: an ``.npz`` file with one array per input to compare on; None generates random inputs from `seed`.
        timeout_s: time limit of each conversion, and longest silence of a worker, s.
        memory_limit: bytes that a process may allocate; None is the available memory.
        command: the command that does the same, for the record.
        program: as in `edgewise.converting.base.ConvertOptions`; `convert_checked` finds it.
    """

    source: str
    to: str
    output: Path
    signature: str = ""
    overwrite: bool = False
    opset: int | None = None
    precision: str = ""
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    input_data: Path | None = None
    seed: int = 0
    timeout_s: float = 600.0
    memory_limit: int | None = None
    command: str = ""
    program: str = ""


def convert_checked(task: ConversionTask) -> Conversion:
    """Convert, compare, and write the result with its provenance, whole or not at all.

    Returns:
        The conversion; one whose outputs differ is not `Conversion.accepted`, and nothing was written.

    Raises:
        BadInput: the source can't be read, an option is wrong, or a file is in the way.
        Unavailable: a converter is missing, or can't convert this model.
        RunFailed: the converter crashed or took too long, or source or result do not run.
    """
    title, file = TARGETS[task.to].title, not is_factory(task.source)
    if file:
        model = open_model(task.source, task.signature)
        steps = find_path(model.ref.format, task.to, name=model.ref.name)
    check_output(task)
    if file and steps[0] in SEPARATE:
        task = replace(task, program=find_program())
    with job_folder() as scratch:
        source, whole = take_signature(task.source, task.signature, scratch) if file else (task.source, None)
        emit(StageStarted(title=f"Converting {task.source if whole is None else whole.name} to {title}"))
        return _convert(replace(task, source=source), scratch, whole)


def _convert(task: ConversionTask, scratch: Path, whole: ModelRef | None) -> Conversion:
    """Return the conversion of `task`, whose source was made of the signature `whole` where there is one."""
    made = _run_converter(task, scratch / "converted")
    emit(StageStarted(title="Comparing the outputs of source and result"))
    comparer = Comparer(timeout_s=task.timeout_s, memory_limit=task.memory_limit)
    agreement = _compare(task, made, comparer)
    chosen = () if whole is None else (only_signature(whole),)
    written = describe_file(made.path, read_all=True)
    result = Conversion(
        source=_describe_source(task, made, whole), to=task.to, path=None,
        model={key: written[key] for key in ("name", "format", "size_bytes", "sha256")},
        steps=made.steps, lost=(*chosen, *made.lost), agreement=agreement, command=task.command,
    )  # fmt: skip
    if not agreement.close and (random := _find_random(task, made, comparer)):
        agreement = Agreement(inputs=agreement.inputs, absent_because=random)
        result = replace(result, agreement=agreement)
    if not agreement.close:
        emit(StageStarted(title="Looking for the operator that differs"))
        return replace(result, wrong=_find_wrong(task, made, comparer, agreement, scratch))
    return keep(task, made.path, result)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """What the child process made, with its fields in `edgewise.converting.worker`."""

    folder: Path
    answer: Mapping[str, Any]

    @property
    def path(self) -> Path:
        return Path(self.answer["path"])

    @property
    def steps(self) -> tuple[str, ...]:
        return tuple(self.answer["steps"])

    @property
    def lost(self) -> tuple[str, ...]:
        return tuple(self.answer["lost"])

    def arrays(self, name: str) -> Any:
        """Arrays that the child wrote."""
        return read_feeds(self.folder / f"{name}.npz")


def _run_converter(task: ConversionTask, folder: Path, *, expose: Sequence[str] | None = None) -> _Made:
    folder.mkdir()
    request = {
        "source": task.source, "to": task.to, "folder": str(folder),
        "options": {
            "name": task.output.name.removesuffix(TARGETS[task.to].suffix),
            "opset": task.opset,
            "precision": task.precision,
            "program": task.program,
        },
        "shapes": task.shapes, "input_data": None if task.input_data is None else str(task.input_data),
        "seed": task.seed, "expose": expose, "memory_limit": task.memory_limit or available_memory(),
    }  # fmt: skip
    environment = {"PYTHONWARNINGS": "ignore", "TF_CPP_MIN_LOG_LEVEL": "3", "TMPDIR": str(folder)}
    outcome = run_child(
        [sys.executable, "-P", "-m", "edgewise.converting.worker"],
        request=json.dumps(request).encode(),
        seconds=task.timeout_s,
        environment={**os.environ, **environment},
    )
    if outcome.failure:
        advice = {
            "late": "give it more time with ⟦timeout⟧",
            "memory": "raise ⟦memory_limit⟧, or convert on a machine with more memory",
        }.get(outcome.cause, "report it to the converter's authors, or convert to another format")
        raise RunFailed(f"the converter {outcome.failure}", advice=advice)
    answer = json.loads(outcome.output)
    if "error" in answer:
        raise error_of(answer)
    return _Made(folder=folder, answer=answer)


def _compare(task: ConversionTask, made: _Made, comparer: Comparer) -> Agreement:
    inputs = (
        f"{task.input_data.name}" if task.input_data else f"3 {RANDOM_INPUTS}, seeds {task.seed} to {task.seed + 2}"
    )
    try:
        feeds, names = made.arrays("feeds"), made.answer["inputs"]
        try:
            wanted, engine = _reference(made, comparer)
        except RunFailed as error:  # no reason against a result that runs
            comparer.run(made.path, feeds, names)
            return Agreement(inputs=inputs, absent_because=error.message)
        found, own = comparer.run(made.path, feeds, names)
    except (Unavailable, BadInput) as error:
        return Agreement(inputs=inputs, absent_because=error.message)
    outputs = compare_answers(
        made.answer["outputs"], wanted, found, open_model(made.path).signature.outputs, reduced=_reduced(task, made)
    )
    if outputs and not any(each.compared for each in outputs):
        return Agreement(inputs=inputs, absent_because=f"{NOT_FINITE} ({inputs}): {REAL_INPUTS}")
    return Agreement(outputs=outputs, inputs=inputs, source_engine=engine, result_engine=own)


def _reference(made: _Made, comparer: Comparer) -> tuple[Any, str]:
    """Return outputs of the source, and what computed them."""
    kind = made.answer["kind"]
    if kind in _RUN_BY:
        return made.arrays("reference"), _RUN_BY[kind]
    return comparer.run(Path(made.answer["source"]), made.arrays("feeds"), made.answer["inputs"])


def _find_random(task: ConversionTask, made: _Made, comparer: Comparer) -> str:
    """Why no conversion can have the outputs of the source: it draws random numbers, or keeps a state; "" if it can."""
    kind = made.answer["kind"]
    if kind in _RUN_BY:
        return str(made.answer["random"])
    try:
        random = random_words(read_graph(Path(task.source)))
    except EdgewiseError:  # its reader tells no network
        random = ""
    if random:
        return random
    (first, _), (again, _) = _reference(made, comparer), _reference(made, comparer)
    return "" if _agree(first, again) else _CHANGING


def _reduced(task: ConversionTask, made: _Made) -> str:
    """Arithmetic or weights that are narrower than float32, in words."""
    if task.precision:
        return f"the result stores its weights in {task.precision}"
    if made.answer["describe"] is not None:
        word = made.answer["reduced"]
        return f"the source computes in {word}" if word else ""
    return reduced_words(Path(task.source))


def _find_wrong(
    task: ConversionTask, made: _Made, comparer: Comparer, agreement: Agreement, scratch: Path
) -> WrongOperator:
    points = [Point(**{**each, "inputs": tuple(each["inputs"])}) for each in made.answer["points"]]
    places = {point.output: point.tensor for point in points if point.output is not None}
    known = {places[at]: each for at, each in enumerate(agreement.outputs) if at in places}
    reduced = _reduced(task, made)
    first, _ = _reference(made, comparer)
    rounds = count()
    if made.answer["kind"] == MODULE and not _agree(made.arrays("reference"), made.arrays("exported")):
        return WrongOperator(
            why="the program that torch.export made already differs from the module: forward() computes something else "
            "when it is exported"
        )

    def compare(tensors: Sequence[str]) -> dict[str, OutputAgreement]:
        exposed = _run_converter(task, scratch / f"exposed-{next(rounds)}", expose=tensors)
        names = exposed.answer["outputs"]
        wanted, _ = _reference(exposed, comparer)
        if not _agree(first, wanted):
            raise RunFailed("the function makes another network each time it is called")
        found, _ = comparer.run(exposed.path, exposed.arrays("feeds"), exposed.answer["inputs"])
        if not len(wanted[0]) == len(found[0]) == len(names):
            raise RunFailed("source and result have different numbers of intermediate tensors")
        own = [places.get(at, name) for at, name in enumerate(names)]
        return {
            name: compare_tensor(name, [each[at] for each in wanted], [each[at] for each in found], reduced=reduced)
            for at, name in enumerate(own)
        }

    try:
        return find_operator(points, known, compare)
    except EdgewiseError as error:
        return WrongOperator(why=f"the operator could not be found: {error.message}")


def _agree(source: Any, result: Any) -> bool:
    """Whether every output is close, over all inputs."""
    return all(
        compare_tensor("", [each[at] for each in source], [each[at] for each in result], reduced="").close
        for at in range(len(source[0]))
    )


def _describe_source(task: ConversionTask, made: _Made, whole: ModelRef | None) -> dict[str, Any]:
    if whole is not None:
        return {**describe_file(whole.path, read_all=True), "name": whole.name}
    return made.answer["describe"] or describe_file(task.source, read_all=True)


def check_output(task: ConversionTask) -> None:
    """Raise `BadInput` where the result can't be written."""
    output = task.output
    if TARGETS[task.to].suffix or not output.is_dir():
        check_place(output, overwrite=task.overwrite, example=f"model{TARGETS[task.to].suffix}")
    elif not (output / SAVED_MODEL).is_file():
        raise BadInput(f"{output} is a folder without a SavedModel", advice="name a new folder with ⟦output⟧")
    elif not task.overwrite:
        raise BadInput(f"{output} exists already", advice="use ⟦force⟧ to overwrite it, or another name")
    if output.exists() and Path(task.source).exists() and output.samefile(task.source):
        raise BadInput(f"{output} is the source itself", advice="name another file with ⟦output⟧")


def keep(task: ConversionTask, made: Path, result: Conversion) -> Conversion:
    """Move the result and its weight files to their place, with the provenance beside them."""
    output = task.output
    provenance = output.with_name(f"{output.name}.provenance.json")
    result = replace(result, path=output, provenance=provenance)
    files = [made] if made.is_dir() else list(reversed(list_files(made)))
    for file in (*files[:-1], provenance):
        check_place(output.parent / file.name, overwrite=task.overwrite, example=output.name)
    try:
        # In the same folder, so that every file appears whole.
        with tempfile.TemporaryDirectory(dir=output.parent, prefix=".edgewise-") as name:
            staged = Path(name)
            for file in files:
                copy = shutil.copytree if file.is_dir() else shutil.copyfile
                copy(file, staged / file.name)
            (staged / provenance.name).write_text(_provenance_text(result), encoding="utf-8")
            if made.is_dir() and output.is_dir():
                output.rename(staged / "replaced")
            for file in files:
                (staged / file.name).replace(output.parent / file.name)
            (staged / provenance.name).replace(provenance)
    except OSError as error:
        reason = error.strerror or str(error)
        raise BadInput(f"can't write {output}: {reason}", advice="name another place with ⟦output⟧") from error
    return result


def _provenance_text(result: Conversion) -> str:
    from edgewise.version import __version__

    document = result.to_document()
    facts = {
        "schema": document["schema"],
        "edgewise": __version__,
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "model": document["model"],
        "parent": {name: value for name, value in document["source"].items() if name != "path"},
        **{name: document[name] for name in ("steps", "lost", "agreement", "command")},
        **({} if result.calibration is None else {"calibration": dict(result.calibration)}),
    }
    return json.dumps(facts, indent=2, ensure_ascii=False) + "\n"
