"""Runs a search from its settings to its result: engines, the original, samples for passes, search, files."""

from __future__ import annotations

import shlex
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from tempfile import TemporaryDirectory

from edgewise.clock import now
from edgewise.converting.base import TARGETS
from edgewise.converting.checked import ConversionTask, convert_checked
from edgewise.converting.signature_file import name_with, take_signature
from edgewise.device.devices import LOCAL
from edgewise.errors import BadInput, RunFailed, Unavailable, as_flag
from edgewise.evaluating.evaluator import SampleSelection
from edgewise.model.build import build_graph
from edgewise.model.callable_loader import is_factory
from edgewise.model.eager import EAGER, example_inputs, write_eager
from edgewise.model.graph import Graph
from edgewise.model.identity import Model, open_model, read_graph
from edgewise.model.signature import Signature
from edgewise.optimizing.accuracy import ANSWERS, AccuracyChecker
from edgewise.optimizing.base import Facts, passes
from edgewise.optimizing.calibration import write_calibration
from edgewise.optimizing.candidate_checks import job_of
from edgewise.optimizing.planning import PlannedTask, Source, find_readers
from edgewise.optimizing.processor import processor_of
from edgewise.optimizing.result_builder import build_result
from edgewise.optimizing.search import Search
from edgewise.optimizing.search_settings import SearchSettings, make_bounds
from edgewise.optimizing.untrained import CONVERSIONS
from edgewise.optimizing.variant import ABSENT_ENGINES, ORIGINAL, Optimization
from edgewise.optimizing.variant_cache import VariantCache
from edgewise.record import DataRef, Job, ModelRef, Run, RuntimeSpec, TargetSpec
from edgewise.registry import availability_of
from edgewise.run.facts import (
    advise_readers,
    availability_at,
    environment_at,
    find_engine,
    require_real_processor,
    require_workers,
)
from edgewise.run.plan import count_cores, tell_conversions
from edgewise.run.run_builder import METERS_OFF, RunBuilder
from edgewise.runtime.base import runtimes

_FIRST = {"torch": ("torch-to-onnx", "torch-to-litert", "torch-to-executorch"), "keras": ("keras-to-litert",)}
"""Format of a module → the passes that convert it to the file that is the original, the usual one first."""
_READABLE = {"torch": "onnx", "savedmodel": "tflite"}
"""Format of a file that no pass reads → the word for the format that it is converted to first."""


def find_best_variant(settings: SearchSettings, *, save: Callable[[Run], None]) -> Optimization:
    """Find the best variant of the model within the bounds, by measuring.

    Raises:
        BadInput, BadModel, Unavailable: before anything was measured.
        RunFailed: the original does not run.
    """
    require_workers(settings.target)
    require_real_processor(settings.target)
    with processor_of(environment_at(settings.target)):
        return _find(settings, save=save)


def _find(settings: SearchSettings, *, save: Callable[[Run], None]) -> Optimization:
    existed = settings.folder.exists()
    _make_folder(settings.folder)
    try:
        with TemporaryDirectory(prefix="edgewise-module-") as folder:
            return _find_in(Path(folder), _take_signature(settings), save=save)
    finally:
        if not existed:  # a search that fails before it made anything leaves no empty folder
            with suppress(OSError):
                settings.folder.rmdir()


def _find_in(modules: Path, settings: SearchSettings, *, save: Callable[[Run], None]) -> Optimization:
    """Find the best variant; `modules` is a folder for the module as it is, which exists as long as the search."""
    begin = now()
    if settings.fresh:
        shutil.rmtree(settings.folder / ANSWERS, ignore_errors=True)
    cache = VariantCache(
        folder=settings.folder,
        seed=settings.seed,
        threads=settings.threads or 1,
        pass_s=settings.budget_s,
        memory_limit=settings.memory_limit,
        fresh=settings.fresh,
        shapes=settings.shapes,
    )
    module, export = _find_module(settings, modules), None
    if module is not None:
        cache.weights = module.files[-1]
        settings = replace(settings, fed=example_inputs(module.files[0]))
    model = _convert(settings, cache) if settings.is_module else _open_original(settings)
    if module is not None:
        model, export = module.ref, model
    file = "" if settings.is_module or settings.whole is not None else settings.model
    engines = choose_engines(model.format, settings.runtimes, settings.target, file=file)
    if settings.judge is not None:  # one engine for the accuracy
        engines = engines[:1]
    given = _open_given(settings.also, export or model, engines)
    given = given if export is None else [export, *given]
    original = job_of(model, RuntimeSpec(name=engines[0]), settings)
    if not settings.is_module:
        _check_layers((model, *given), settings)
    checker = AccuracyChecker(settings, original, builder=RunBuilder(save=lambda run: None, sensors=METERS_OFF))
    settings = _settle_bounds(settings, checker)
    others = [job_of(one, RuntimeSpec(name=find_readers(one.format, engines)[0]), settings) for one in given]
    calibration, seen, notes = _calibrate(settings, [original, *others], checker, cache)
    search = Search(
        settings,
        original=original,
        engines=engines,
        checker=checker,
        cache=cache,
        save=save,
        begin=begin,
        given=given,
        export=export,
    )
    found = search.run()
    conversions = _tell_conversions(settings, file, [model.format, *(one.format for one in given)])
    begun = (*filter(None, [settings.assumed]), *_tell_signature(settings), *notes)
    return build_result(
        replace(found, notes=(*begun, *found.notes, *conversions)),
        settings,
        headline=checker.headline,
        form=checker.form,
        calibration=calibration,
        calibrated_on=seen,
        save=save,
        elapsed_s=now() - begin,
    )


def _tell_conversions(settings: SearchSettings, file: str, formats: Sequence[str]) -> list[str]:
    """Return which installed engines could measure the original, `file`, in a format that a command makes of it, and
    how they come into the search.
    """
    if not file or settings.runtimes or settings.judge is not None:
        return []
    file = Path(file).name if Path(file).is_absolute() else file  # reports are for others too
    found = tell_conversions(file, settings.format, settings.target, formats=formats, with_tools=False)
    return [
        f"{ABSENT_ENGINES}{line}, with {as_flag('also', shlex.quote(Path(file).stem + TARGETS[to].suffix))}"
        for to, line in found.items()
    ]


def _take_signature(settings: SearchSettings) -> SearchSettings:
    """Return settings whose model is a file of one signature that passes read; as they are for other models."""
    if settings.format in _READABLE and not is_factory(settings.model):
        usual = settings.format not in _FIRST or choose_conversion(settings) == _FIRST[settings.format][0]
        return _take_converted(settings) if usual else settings
    if settings.is_module:
        return settings
    file, whole = take_signature(settings.model, settings.signature, settings.folder / "signature")
    if whole is None:
        return replace(settings, signature="")
    return replace(settings, model=file, signature=whole.signature or whole.signatures[0], whole=whole)


def _take_converted(settings: SearchSettings) -> SearchSettings:
    """Return settings whose model is made of a ``.pt2`` file or a SavedModel. Raises as `convert_checked`."""
    whole, to = open_model(settings.model, settings.signature).ref, _READABLE[settings.format]
    folder = settings.folder / "converted"
    folder.mkdir(exist_ok=True)
    task = ConversionTask(
        source=settings.model,
        signature=settings.signature,
        to=to,
        output=folder / f"{name_with(Path(whole.file_name).stem, settings.signature)}{TARGETS[to].suffix}",
        overwrite=True,
        seed=settings.seed,
        memory_limit=settings.memory_limit,
    )
    made = convert_checked(task)
    if made.path is None:
        raise RunFailed(
            f"the outputs of {whole.name} and its conversion to {TARGETS[to].title} differ",
            advice=f"see 'edgewise convert {settings.model} --to {to}'",
        )
    return replace(settings, model=str(made.path), format=TARGETS[to].format, whole=whole)


def _tell_signature(settings: SearchSettings) -> list[str]:
    if settings.whole is None:
        return []
    if settings.whole.format in _READABLE:
        return [f"what is optimised is {settings.model}, which 'edgewise convert' makes of {settings.whole.name}"]
    return [f"what is optimised is {settings.model}, a file of one signature: {settings.whole.signature_words}"]


def _open_original(settings: SearchSettings) -> ModelRef:
    """Return the file to optimise; one of a signature has the name that runs of the user's file have."""
    own, whole = open_model(settings.model).ref, settings.whole
    if whole is None or not whole.signatures:
        return own
    others = (name for name in whole.signatures if name != settings.signature)
    return replace(own, name=whole.name, signatures=(settings.signature, *others))


def _settle_bounds(settings: SearchSettings, checker: AccuracyChecker) -> SearchSettings:
    """Return the settings; without labels, with bounds for the format of the original's outputs. Raises `BadInput`."""
    form = checker.find_form()
    if form is None or settings.judged is None:
        return settings
    settled = replace(settings, bounds=make_bounds(settings.limits, headline=form.headline))
    checker.adopt(settled)
    return settled


def choose_engines(form: str, asked: Sequence[str], target: TargetSpec, *, file: str = "") -> list[str]:
    """Usable engines; the first, in which the original runs, is the format's own if possible.

    Args:
        file: the original as the user wrote it; "" where a command made it.

    Raises:
        Unavailable: a requested engine is not installed, or none reads the format.
    """
    registry = runtimes()
    for name in asked:
        availability = availability_at(target, name, find_engine(name, form, target, file=file))
        if not availability:
            raise Unavailable(f"{name} can't be used: {availability.reason}", advice=availability.install_hint)
    names = list(asked) or [name for name, one in registry if one.in_default and availability_at(target, name, one)]
    readers = find_readers(form, names)
    if not readers:
        raise Unavailable(
            f"no selected engine reads {form}",
            advice=f"name others with ⟦runtime⟧; {advise_readers(form, names, target, file=file)}",
        )
    return [readers[0], *(name for name in names if name != readers[0])]


def _open_given(paths: Sequence[str], original: ModelRef, engines: Sequence[str]) -> list[ModelRef]:
    """Return the further files of the network. Raises `BadInput`, `BadModel`, `Unavailable`."""
    found: list[ModelRef] = []
    for path in paths:
        if is_factory(path):
            raise BadInput(
                f"⟦also⟧ {path} is a factory; ⟦also⟧ takes files", advice="give the factory as MODEL, without ⟦also⟧"
            )
        model = open_model(path).ref
        if model.sha256 in (original.sha256, *(one.sha256 for one in found)):
            raise BadInput(f"⟦also⟧ {path} is the same file as another one", advice=f"omit ⟦also⟧ {path}")
        if not find_readers(model.format, engines):
            raise Unavailable(
                f"no selected engine reads {path} ({model.format})",
                advice="see 'edgewise doctor', or select other engines with ⟦runtime⟧",
            )
        found.append(model)
    return found


def _check_layers(models: Sequence[ModelRef], settings: SearchSettings) -> None:
    """Raise `BadInput` for a layer in `keep_float` that no given file has."""
    # A simplifying pass may have named the layer.
    if not settings.keep_float or any("simplify" in word for word in settings.passes):
        return
    known = [operator.name for model in models for operator in read_graph(model.path).operators]
    for name in settings.keep_float:
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
        raise BadInput(
            f"can't write to {folder}: {error.strerror or error}", advice="choose another folder with ⟦output⟧"
        ) from error


def _find_module(settings: SearchSettings, folder: Path) -> Model | None:
    """Return the module as its framework runs it, with one set of weights for all its exports, written to `folder`.

    None where the model is a file, or no engine of this search runs the module as it is.

    Raises:
        BadInput: the function fails, or its module can't run on its example inputs.
    """
    if settings.format != "torch" or settings.target.device != LOCAL or settings.judge is not None:
        return None
    if not is_factory(settings.model):  # a file, which is no module with layers
        return None
    registry = runtimes()
    names = settings.runtimes or [name for name, one in registry if one.in_default]
    readers = find_readers(EAGER, [name.partition("/")[0] for name in names])
    usable = [name for name in readers if availability_at(settings.target, name, registry.get(name))]
    if not usable:
        return None
    built = build_graph(settings.model, shapes=settings.shapes)
    return open_model(write_eager(built, folder)) if built.made.kind == "torch" else None


def choose_conversion(settings: SearchSettings) -> str:
    """Return the first pass that converts the module for a selected engine; the usual one where none is selected."""
    names, asked = _FIRST[settings.format], [each.partition("/")[0] for each in settings.runtimes]
    return next((name for name in names if find_readers(passes().get(name).capabilities.writes, asked)), names[0])


def _convert(settings: SearchSettings, cache: VariantCache) -> ModelRef:
    """Convert the module to the file that is the original. Raises `Unavailable`, `RunFailed`."""
    int8 = settings.judge is not None and settings.judge.int8
    name = CONVERSIONS[settings.format] if int8 else choose_conversion(settings)
    one = passes().get(name)
    availability = availability_of(one)
    if not availability:
        raise Unavailable(f"{name} can't be used: {availability.reason}", advice=availability.install_hint)
    # The function has not made its file yet, so the network is not known.
    graph = Graph(name="", format=settings.format, tensors={}, inputs=(), outputs=(), operators=())
    facts = Facts(
        path=Path(settings.model.partition(":")[0]), format=settings.format, graph=graph,
        signature=Signature(inputs=(), outputs=()), quantized=False, runtimes=(), cores=count_cores(settings.target),
    )  # fmt: skip
    recipe = next(iter(one.recipes(facts)), None)
    if recipe is None:
        raise BadInput(f"{name} can't convert {settings.model}", advice="export the model yourself")
    # Never from an earlier search: the factory may read files that are not known here.
    source = Source(variant=ORIGINAL, facts=facts, model=settings.model, format=settings.format,
                    digest=f"{time.time_ns()}")  # fmt: skip
    result = next(cache.make([PlannedTask(one=one, recipe=recipe, source=source)]))
    if result.ref is None:
        raise RunFailed(
            f"{settings.model} could not be converted: {result.why}",
            advice="fix the cause, or export the model yourself",
        )
    return result.ref


def _calibrate(
    settings: SearchSettings, jobs: Sequence[Job], checker: AccuracyChecker, cache: VariantCache
) -> tuple[DataRef | None, tuple[str, ...], list[str]]:
    """Write the samples for passes. Raises `BadInput`.

    Args:
        jobs: of the original and of the further given files; samples are prepared for each.

    Returns:
        Their identity, the digest of each, and notes on unusable samples.
    """
    if settings.training is not None and settings.is_module:
        cache.training = _keep_samples(settings, settings.training, "training.npz", jobs[0], checker)[0]
    if settings.calibration is None:
        return None, (), []
    found, seen, notes = None, dict[str, None](), []
    for index, job in enumerate(jobs, start=1):
        name = "calibration.npz" if index == 1 else f"calibration-{index}.npz"
        kept, data, digests = _keep_samples(settings, settings.calibration, name, job, checker)
        cache.calibration[job.model.sha256] = kept
        seen |= dict.fromkeys(digests)
        found = found or data
        asked = len(settings.calibration.indices)
        if data.size < asked:
            notes.append(f"{asked - data.size} of {asked} samples to calibrate {job.model.name} could not be used")
    return found, tuple(seen), notes


def _keep_samples(
    settings: SearchSettings, question: SampleSelection, name: str, job: Job, checker: AccuracyChecker
) -> tuple[tuple[Path, str], DataRef, list[str]]:
    """Write prepared samples to the search's folder: file with digest, identity, digests. Raises `BadInput`."""
    prepared = checker.prepare(question, job)
    file = settings.folder / name
    try:
        write_calibration(file, prepared.feeds, prepared.labels)
    except OSError as error:
        raise BadInput(
            f"the calibration samples can't be written to {settings.folder}: {error.strerror or error}",
            advice="free some space, or choose another folder with ⟦output⟧",
        ) from error
    data = question.data
    found = DataRef(
        name=data.name,
        path=None if data.path is None else str(data.path.resolve()),
        format=data.format,
        split=data.split,
        size=len(prepared.feeds),
        sha256=prepared.digest,
        data_sha256=prepared.digest,
    )
    return (file, prepared.fed), found, prepared.digests
