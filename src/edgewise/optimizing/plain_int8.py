"""Converts a model to a plain int8 file: weights and activations, with ranges from samples, without a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.converting.agreement import Comparer, compare_answers
from edgewise.converting.base import TARGETS
from edgewise.converting.checked import ConversionTask, check_output, convert_checked, keep
from edgewise.converting.losses import only_signature
from edgewise.converting.result import Agreement, Conversion
from edgewise.converting.signature_file import take_signature
from edgewise.errors import BadInput, RunFailed, Unavailable
from edgewise.evaluating.calibrated import shorten_digests
from edgewise.evaluating.data_options import DataOptions, open_splits, read_instructions
from edgewise.evaluating.dataset import SPLITS_TO_CALIBRATE, choose_samples, choose_split
from edgewise.evaluating.evaluator import SampleSelection
from edgewise.folders import job_folder
from edgewise.model.callable_loader import is_factory
from edgewise.model.identity import describe_file, open_model, read_graph
from edgewise.optimizing.accuracy import AccuracyChecker, Prepared
from edgewise.optimizing.base import PassSettings, PassTask, passes
from edgewise.optimizing.calibration import write_calibration
from edgewise.optimizing.candidate_checks import job_of
from edgewise.optimizing.pass_runner import apply_pass
from edgewise.optimizing.passes.litert_static import LitertStaticSettings
from edgewise.optimizing.passes.ort_static import StaticSettings
from edgewise.optimizing.planning import find_readers, installed_runtimes, is_quantized
from edgewise.optimizing.search_settings import CALIBRATION_SAMPLES, SearchSettings
from edgewise.progress import StageStarted, emit
from edgewise.record import RuntimeSpec
from edgewise.registry import availability_of
from edgewise.run.run_builder import METERS_OFF, RunBuilder

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

PASSES: dict[str, tuple[str, PassSettings]] = {
    "tflite": ("litert-static", LitertStaticSettings(scope="all")),
    "onnx": ("ort-static", StaticSettings()),
}
"""Format → the pass that quantises files of this format, and its settings."""
COMPARED = 16
"""Number of samples on which source and result are compared."""

FAR = "the outputs differ by more than int8 usually explains"


def convert_to_int8(task: ConversionTask, options: DataOptions) -> Conversion:
    """Convert to the task's format where the source has another, quantise, compare, and write with provenance.

    Args:
        options: of the samples for the ranges of the activations. Without a split, calibration or training data.

    Raises:
        BadInput: as `convert_checked`; also data that does not fit, or a model that is quantised or has nothing to
            quantise.
        Unavailable: a converter or the pass is not installed.
        RunFailed: the pass failed, or the result does not run.
    """
    check_output(task)
    one = passes().get(PASSES[task.to][0])
    if not (state := availability_of(one)):
        raise Unavailable(f"{one.title} can't be used: {state.reason}", advice=state.install_hint)
    with job_folder() as scratch:
        plain, steps, lost = _in_format(task, scratch)
        if not isinstance(plain, Path):
            return plain
        source = Path(task.source)
        # Instructions lie beside the user's file.
        instructions = read_instructions(source if source.is_file() else plain, options)
        emit(StageStarted(title=f"Samples of {options.source} to calibrate with"))
        settings = SearchSettings(model=str(plain), format=task.to, instructions=instructions, shapes=task.shapes)
        selection, prepared, names = read_samples(settings, options)
        feeds = prepared.feeds
        samples = scratch / "samples.npz"
        write_calibration(samples, feeds, None)
        emit(StageStarted(title=f"Quantising with {one.title}"))
        place = scratch / "int8"
        wanted: PassTask[Any] = PassTask(model=str(plain), format=task.to, settings=PASSES[task.to][1], folder=place,
                                         calibration=samples, seed=task.seed)  # fmt: skip
        (made,) = apply_pass(
            passes().location(one.name), [wanted], seconds=task.timeout_s, memory_limit=task.memory_limit
        )
        if made.model is None or made.unchanged:
            kind = BadInput if made.unchanged or made.cause == "unsuitable" else RunFailed
            quantised = is_quantized(read_graph(plain))
            raise kind(f"{task.source} can't be quantised: {made.reason or made.why}",
                       advice="use the file as it is, or give the network in float" if quantised
                       else "'edgewise optimize' tries other passes")  # fmt: skip
        path = made.model.rename(made.model.with_name(task.output.name))
        versions = ", ".join(f"{name} {version}" for name, version in made.versions.items())
        notes = [
            f"ranges of the activations: {len(feeds)} samples of {selection.data.name}, split {selection.data.split}",
            "inputs and outputs stay float32: 'edgewise optimize MODEL --data DATA -d BOARD' makes files for boards",
        ]
        agreement = _compare(task, plain, path, feeds[:COMPARED], names)
        if not agreement.close:
            notes.append(f"{FAR}: 'edgewise evaluate' measures the accuracy, 'edgewise optimize' keeps layers in float")
        result = Conversion(
            source=describe_file(task.source, read_all=True) if source.exists() else {"name": task.source},
            to=task.to,
            path=None,
            model={key: describe_file(path, read_all=True)[key] for key in ("name", "format", "size_bytes", "sha256")},
            steps=(*steps, f"{one.title} ({versions})"),
            lost=(*lost, *made.notes, *notes),
            agreement=agreement,
            calibration={
                "name": selection.data.name,
                "split": selection.data.split,
                "sha256": prepared.digest,
                "samples": shorten_digests(prepared.digests),
            },
            command=task.command,
        )
        return keep(task, path, result)


def _in_format(task: ConversionTask, scratch: Path) -> tuple[Path | Conversion, tuple[str, ...], tuple[str, ...]]:
    """Return the source in the task's format with the steps and losses of the way there; a refused conversion as it
    is.
    """
    if not is_factory(task.source) and open_model(task.source, task.signature).ref.format == TARGETS[task.to].format:
        path, whole = take_signature(task.source, task.signature, scratch)
        return Path(path), (), () if whole is None else (only_signature(whole),)
    output = scratch / f"plain{TARGETS[task.to].suffix}"
    found = convert_checked(replace(task, output=output, precision=""))
    return output if found.accepted else found, found.steps, found.lost


def read_samples(settings: SearchSettings, options: DataOptions) -> tuple[SampleSelection, Prepared, list[str]]:
    """Return the chosen samples, the same prepared, and the names of the inputs."""
    data = choose_split(open_splits(options), options.split, SPLITS_TO_CALIBRATE)
    count = options.limit or CALIBRATION_SAMPLES
    indices = tuple(choose_samples(len(data), limit=count, seed=options.seed))
    selection = SampleSelection(data=data, indices=indices, limit=count, seed=options.seed, strict=options.strict)
    model = open_model(settings.model).ref
    readers = find_readers(model.format, installed_runtimes(model.format))
    if not readers:
        raise Unavailable(f"no installed engine reads {model.format}", advice="see 'edgewise doctor'")
    job = job_of(model, RuntimeSpec(name=readers[0]), settings)
    checker = AccuracyChecker(
        replace(settings, judged=selection), job, builder=RunBuilder(save=lambda run: None, sensors=METERS_OFF)
    )
    return selection, checker.prepare(selection, job), [spec.name for spec in job.workload.inputs]


def _compare(
    task: ConversionTask, source: Path, result: Path, feeds: Sequence[list[Array]], names: Sequence[str]
) -> Agreement:
    emit(StageStarted(title="Comparing the outputs of source and result"))
    comparer = Comparer(timeout_s=task.timeout_s, memory_limit=task.memory_limit)
    wanted, engine = comparer.run(source, list(feeds), names)
    found, own = comparer.run(result, list(feeds), names)
    outputs = [spec.name for spec in open_model(source).signature.outputs]
    specs = open_model(result).signature.outputs
    agreement = compare_answers(outputs, wanted, found, specs, reduced="the result computes in int8")
    if why := next((each.why for each in agreement if each.why), ""):
        raise RunFailed(
            f"the outputs of the int8 model are broken: {why}", advice="'edgewise optimize' tries other passes"
        )
    words = f"{len(feeds)} samples of the calibration"
    return Agreement(outputs=agreement, inputs=words, source_engine=engine, result_engine=own)
