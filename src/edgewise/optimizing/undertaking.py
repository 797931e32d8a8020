"""From a commission to its result: engines, the original, samples for passes, the search and its conclusion."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from edgewise.errors import BadInput, RunFailed, Unavailable
from edgewise.evaluating.evaluator import Question
from edgewise.model.identity import open_model, read_graph
from edgewise.model.user_code import is_factory
from edgewise.optimizing.accuracy import ANSWERS, Examiner
from edgewise.optimizing.base import Facts, passes
from edgewise.optimizing.calibration import write_calibration
from edgewise.optimizing.commission import Commission
from edgewise.optimizing.conclusion import conclude
from edgewise.optimizing.gauntlet import job_of
from edgewise.optimizing.making import Makery, Order
from edgewise.optimizing.ordering import make_bounds
from edgewise.optimizing.planning import Attempt, find_readers
from edgewise.optimizing.search import Search
from edgewise.optimizing.state import Witness
from edgewise.optimizing.variant import ORIGINAL, Optimization
from edgewise.record import DataRef, Job, ModelRef, Run, RuntimeSpec
from edgewise.registry import availability_of
from edgewise.run.assembly import METERS_OFF, Assembly
from edgewise.runtime.base import runtimes

_FIRST = {"torch": "torch-to-onnx", "keras": "keras-to-litert"}
"""What makes a file of a module, so that there is something to compare with."""


def undertake(commission: Commission, *, save: Callable[[Run], None], witness: Witness) -> Optimization:
    """Find the best variant of the model within the bounds, by measuring.

    Raises:
        BadInput, BadModel, Unavailable: before anything was measured.
        RunFailed: the original itself does not run.
    """
    begin = time.monotonic()
    _make_folder(commission.folder)
    if commission.fresh:
        shutil.rmtree(commission.folder / ANSWERS, ignore_errors=True)
    makery = Makery(
        folder=commission.folder,
        seed=commission.seed,
        threads=commission.threads or 1,
        pass_s=commission.budget_s,
        memory_limit=commission.memory_limit,
        fresh=commission.fresh,
        shapes=commission.shapes,
    )
    model = _convert(commission, makery) if commission.is_module else open_model(commission.model).ref
    engines = choose_engines(model.format, commission.runtimes)
    given = _open_given(commission.also, model, engines)
    original = job_of(model, RuntimeSpec(name=engines[0]), commission)
    if not commission.is_module:
        _check_layers((model, *given), commission)
    examiner = Examiner(commission, original, assembly=Assembly(save=_forget, sensors=METERS_OFF))
    commission = _settle_bounds(commission, examiner)
    others = [job_of(one, RuntimeSpec(name=find_readers(one.format, engines)[0]), commission) for one in given]
    calibration, notes = _calibrate(commission, [original, *others], examiner, makery)
    search = Search(
        commission,
        original=original,
        engines=engines,
        examiner=examiner,
        makery=makery,
        save=save,
        witness=witness,
        begin=begin,
        given=given,
    )
    search.state.notes += notes
    interrupted = search.run()
    return conclude(
        search,
        commission,
        headline=examiner.headline,
        form=examiner.form,
        calibration=calibration,
        save=save,
        elapsed_s=time.monotonic() - begin,
        interrupted=interrupted,
    )


def _settle_bounds(commission: Commission, examiner: Examiner) -> Commission:
    """Where there are no labels, bounds that suit what the original's outputs are. Raises `BadInput`."""
    form = examiner.find_form()
    if form is None or commission.judged is None:
        return commission
    settled = replace(commission, bounds=make_bounds(commission.limits, headline=form.headline))
    examiner.adopt(settled)
    return settled


def choose_engines(form: str, asked: Sequence[str]) -> list[str]:
    """Engines that may be used, first the one in which the original runs: the format's own where it may.

    Raises:
        Unavailable: one that was asked for is not installed, or none reads the format.
    """
    registry = runtimes()
    for name in asked:
        availability = availability_of(registry.get(name))
        if not availability:
            raise Unavailable(f"{name} can't be used: {availability.reason}", advice=availability.install_hint)
    names = list(asked) or [name for name, one in registry if one.in_default and availability_of(one)]
    readers = find_readers(form, names)
    if not readers:
        raise Unavailable(
            f"no engine that may be used reads {form}", advice="see 'edgewise doctor', or name others with -r"
        )
    return [readers[0], *(name for name in names if name != readers[0])]


def _open_given(paths: Sequence[str], original: ModelRef, engines: Sequence[str]) -> list[ModelRef]:
    """The further files of the network. Raises `BadInput`, `BadModel`, `Unavailable`."""
    found: list[ModelRef] = []
    for path in paths:
        if is_factory(path):
            raise BadInput(f"--also {path}: a factory can't stand beside a file", advice="make it MODEL, alone")
        model = open_model(path).ref
        if model.sha256 in (original.sha256, *(one.sha256 for one in found)):
            raise BadInput(f"--also {path} is the same file as another one", advice="leave it out")
        if not find_readers(model.format, engines):
            raise Unavailable(
                f"no engine that may be used reads {path} ({model.format})",
                advice="see 'edgewise doctor', or name others with -r",
            )
        found.append(model)
    return found


def _check_layers(models: Sequence[ModelRef], commission: Commission) -> None:
    """Refuse names of layers that there are not: who misspells one believes it spared. Raises `BadInput`."""
    # A layer may have got its name from a pass that comes before.
    if not commission.keep_float or any("simplify" in word for word in commission.passes):
        return
    known = [operator.name for model in models for operator in read_graph(model.path).operators]
    for name in commission.keep_float:
        if name not in known:
            near = get_close_matches(name, known, n=3, cutoff=0.4)
            raise BadInput(
                f"{' or '.join(model.name for model in models)} has no layer called {name!r}",
                advice=f"such as {', '.join(near or known[:3])}; 'edgewise inspect' lists them all",
            )


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".edgewise"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise BadInput(f"can't write to {folder}: {error.strerror or error}", advice="name another folder") from error


def _convert(commission: Commission, makery: Makery) -> ModelRef:
    """A file of the module: what the variants are compared with. Raises `Unavailable`, `RunFailed`."""
    name = _FIRST[commission.format]
    one = passes().get(name)
    availability = availability_of(one)
    if not availability:
        raise Unavailable(f"{name} can't be used: {availability.reason}", advice=availability.install_hint)
    recipe = next(iter(one.recipes(_no_facts(commission))), None)
    if recipe is None:
        raise BadInput(f"{name} has no way to convert {commission.model}", advice="export the model yourself")
    attempt = Attempt(one=one, recipe=recipe, parent=ORIGINAL, engines=())
    # Always anew: what a factory loads besides its own file can't be known.
    order = Order(attempt=attempt, source=commission.model, format=commission.format, digest=f"{time.time_ns()}")
    piece = next(makery.make([order]))
    if piece.model is None:
        raise RunFailed(f"{commission.model} could not be converted: {piece.why}", advice="see what the pass printed")
    return piece.model


def _no_facts(commission: Commission) -> Facts:
    """What a conversion may know before there is a file."""
    from edgewise.model.graph import Graph
    from edgewise.model.signature import Signature
    from edgewise.run.plan import count_cores

    graph = Graph(name="", format=commission.format, tensors={}, inputs=(), outputs=(), operators=())
    return Facts(
        path=Path(commission.model.partition(":")[0]),
        format=commission.format,
        graph=graph,
        signature=Signature(inputs=(), outputs=()),
        quantized=False,
        runtimes=(),
        cores=count_cores(),
    )


def _calibrate(
    commission: Commission, jobs: Sequence[Job], examiner: Examiner, makery: Makery
) -> tuple[DataRef | None, list[str]]:
    """Write the samples that passes may look at; say what they are, and what was left out. Raises `BadInput`.

    Args:
        jobs: of the original and of the other given files: samples are prepared for each.
    """
    if commission.training is not None and commission.is_module:
        makery.training = _keep_samples(commission, commission.training, "training.npz", jobs[0], examiner)[0]
    if commission.calibration is None:
        return None, []
    found, notes = None, []
    for index, job in enumerate(jobs, start=1):
        name = "calibration.npz" if index == 1 else f"calibration-{index}.npz"
        kept, data = _keep_samples(commission, commission.calibration, name, job, examiner)
        makery.calibration[job.model.sha256] = kept
        found = found or data
        asked = len(commission.calibration.indices)
        if data.size < asked:
            notes.append(f"{asked - data.size} of {asked} samples to calibrate {job.model.name} could not be used")
    return found, notes


def _keep_samples(
    commission: Commission, question: Question, name: str, job: Job, examiner: Examiner
) -> tuple[tuple[Path, str], DataRef]:
    """Samples, prepared, in a file of the search's folder: where, their digest, what they are. Raises `BadInput`."""
    prepared = examiner.prepare(question, job)
    if not prepared.feeds:
        raise BadInput(
            f"not one sample of {question.data.name} can be used to calibrate",
            advice="look at the data, or at how samples are prepared (--prepare)",
        )
    file = commission.folder / name
    try:
        write_calibration(file, prepared.feeds, prepared.labels)
    except OSError as error:
        raise BadInput(
            f"the calibration samples can't be written to {commission.folder}: {error.strerror or error}",
            advice="free some space, or name another folder with -o",
        ) from error
    data = question.data
    found = DataRef(
        name=data.name,
        path=None if data.path is None else str(data.path.resolve()),
        format=data.format,
        split=data.split,
        size=len(prepared.feeds),
        sha256=prepared.digest,
    )
    return (file, prepared.fed), found


def _forget(run: Run) -> None:
    """Passes over data save nothing by themselves."""
