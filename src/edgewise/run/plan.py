"""From axes to the jobs of a sweep, in a stable order: model, runtime, provider, precision, threads, batch."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import file_digest
from itertools import product
from math import isfinite
from pathlib import Path

from edgewise.device.devices import LOCAL
from edgewise.device.environments import engine_in, variable_sets
from edgewise.errors import BadInput, EdgewiseError, Unavailable
from edgewise.model.eager import EAGER, example_inputs
from edgewise.model.identity import Model, open_model
from edgewise.model.recognition import advise_conversion
from edgewise.record import InputSpec, Job, Origin, RuntimeSpec, Scenario, Stopping, TargetSpec, Workload
from edgewise.registry import Registry
from edgewise.run.executor import WORKER, executor_at, executor_for, executor_of, name_of_executor, target_of
from edgewise.run.facts import (
    DOWNLOADS,
    advise_readers,
    availability_at,
    conversion_of,
    cores_at,
    find_engine,
    require_workers,
)
from edgewise.run.language_models import check_language_model, check_room, generates
from edgewise.run.limits import check_settings
from edgewise.runtime.base import (
    ExplainsProviders,
    Provider,
    RunsSignatures,
    Runtime,
    SweepsProviders,
    runtimes,
    settings_of,
)
from edgewise.text import enumerate_few, listing
from edgewise.workload.input_shapes import ASSUMED, batch_of, has_open_batch, open_axes, other_inputs, resolve_inputs
from edgewise.workload.inputs import read_arrays, read_shapes
from edgewise.workload.prompts import read_prompts


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """What is varied. Every axis is a sequence; the plan is their product.

    Attributes:
        runtimes: names, or ``name/provider``; empty means every installed runtime that reads the model.
        providers: empty means each runtime's first.
        threads: None in it means one thread (all usable cores in the offline scenario).
        precisions: as `precision_word` understands them; empty means the like-for-like default.
        signatures: entry points of files that have several; empty means each file's default.
        environments: Python environments on the device, or containers of this machine, with the engines; empty, None
            and ``local`` mean edgewise's own.
        variables: environment variables, ``NAME=VALUE`` each; several values of one name are varied.
        shapes: input name → shape for open dimensions; the name "" means the only input.
        settings: of the engines, by their own names, as `setting_value` reads them; each engine gets those it has.
        prompt_tokens, depths: of the scenario generate; empty means those of the scenario.
    """

    runtimes: Sequence[str] = ()
    providers: Sequence[str] = ()
    threads: Sequence[int] = ()
    batches: Sequence[int] = (1,)
    precisions: Sequence[str] = ()
    signatures: Sequence[str] = ()
    environments: Sequence[str | None] = ()
    variables: Sequence[str] = ()
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    prompt_tokens: Sequence[int] = ()
    depths: Sequence[int] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "precisions", tuple(map(precision_word, self.precisions)))
        named = (None if one == LOCAL else one for one in self.environments)
        object.__setattr__(self, "environments", tuple(dict.fromkeys(named)))


def setting_value(text: str) -> bool | int | float | str:
    """Return the value of an engine setting: ``true`` or ``false``, a number, or else the text itself."""
    word = text.strip()
    if word.lower() in ("true", "false"):
        return word.lower() == "true"
    for kind in (int, float):
        try:
            if isfinite(number := kind(word)):
                return number
        except (ValueError, OverflowError):
            continue
    return word


def precision_word(text: str) -> str:
    """Return what records call a precision: ``"f16"`` for ``fp16``, ``float16`` and ``half``; other words as they
    are.
    """
    word = text.strip().lower()
    return _PRECISIONS.get(word, word)


_PRECISIONS = {
    "fp32": "f32", "float32": "f32", "float": "f32", "fp16": "f16", "float16": "f16", "half": "f16", "bfloat16": "bf16",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkFile:
    """A file that a command made of a function's network, and the engines for which it did.

    Attributes:
        name: of the network, as records have it.
        runtimes: names, or ``name/provider``, as in `Axes`.
        input_data: the network's example inputs, an ``.npz`` file with its arrays by position; None for random inputs.
    """

    path: Path
    name: str
    origin: Origin
    runtimes: tuple[str, ...]
    input_data: Path | None = None

    def __fspath__(self) -> str:
        return str(self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Jobs in a stable order.

    Attributes:
        skipped: what was asked for and could not become a job, each with the reason.
        open_batches: names of the models that leave the batch open and run with a batch of 1 alone.
    """

    jobs: tuple[Job, ...]
    skipped: tuple[str, ...] = ()
    open_batches: tuple[str, ...] = ()


def make_plan(
    paths: Sequence[str | os.PathLike[str]],
    *,
    axes: Axes,
    scenario: Scenario,
    stopping: Stopping,
    target: TargetSpec,
    seed: int = 0,
    input_data: Path | None = None,
    profile: bool = False,
    with_tools: bool = False,
) -> Plan:
    """Return the plan of a sweep; with `profile` every job's layers are timed too.

    Args:
        with_tools: whether engines can do the work that no worker runs, which give no outputs and take no turns; the
            others then also run with each provider of a sweep.

    Raises:
        BadInput: a setting or a model that can't be used.
        Unavailable: a runtime that was asked for and is not installed, or no runtime for a model.
    """
    check_settings(
        threads=axes.threads,
        batches=axes.batches,
        scenario=scenario,
        stopping=stopping,
        target=target,
        seed=seed,
    )
    digest = _digest(input_data, prompts=scenario.kind == "generate") if input_data is not None else None
    if not with_tools:
        require_workers(target)
    if axes.environments or axes.variables:
        plans = [
            make_plan(
                paths,
                axes=replace(
                    axes,
                    environments=(),
                    variables=(),
                    runtimes=axes.runtimes or tuple(filter(None, [engine_in(one or "")])),
                ),
                scenario=scenario,
                stopping=stopping,
                target=replace(target, environment=one, variables=variables or target.variables),
                seed=seed,
                input_data=input_data,
                profile=profile,
            )
            for one in axes.environments or (target.environment,)
            for variables in variable_sets(axes.variables)
        ]
        return Plan(
            jobs=tuple(job for plan in plans for job in plan.jobs),
            skipped=tuple(dict.fromkeys(reason for plan in plans for reason in plan.skipped)),
            open_batches=tuple(dict.fromkeys(name for plan in plans for name in plan.open_batches)),
        )
    registry = runtimes()
    jobs: list[Job] = []
    skipped: list[str] = []
    open_batches: list[str] = []
    taken: dict[str, Collection[str]] = {}
    for path, signature in product(paths, axes.signatures or ("",)):
        if scenario.kind == "generate" and not isinstance(path, NetworkFile):
            check_room(path, target)
        model, wanted = open_model(path, signature), axes
        own_data = path.input_data if isinstance(path, NetworkFile) else _own_inputs(model)
        if isinstance(path, NetworkFile):
            model = replace(model, ref=replace(model.ref, name=path.name, origin=path.origin))
            # A shape was for building the network; an export may name its inputs differently.
            known = {"", *(spec.name for spec in model.signature.inputs)}
            shapes = {name: shape for name, shape in axes.shapes.items() if name in known}
            wanted = replace(axes, runtimes=path.runtimes, shapes=shapes)
        _check_place(model, target)
        scenarios = _scenarios(scenario, axes, model)
        wanted = _generating(model, wanted, registry) if scenario.kind == "generate" else wanted
        file = "" if isinstance(path, NetworkFile) else os.fspath(path)
        choices = list(_choose_engines(model, wanted, registry, skipped, target, file=file, with_tools=with_tools))
        if not choices and not isinstance(path, NetworkFile):
            raise _no_engine(model, axes, registry, target, file=file, skipped=skipped)
        taken |= {f"{name}/{provider.name}": settings_of(runtime, provider) for name, runtime, provider, _ in choices}
        # What is fed depends on the model and the batch alone: read and checked once, not for every engine.
        workloads = []
        for batch, one in product(axes.batches, scenarios):
            data = input_data or (own_data if batch == 1 and not axes.shapes else None)
            try:
                inputs = () if one.kind == "generate" else _inputs_of(model, batch, wanted.shapes, data)
            except BadInput as error:
                if not isinstance(path, NetworkFile) or path.origin.original or input_data is not None:
                    raise
                skipped.append(f"{', '.join(path.runtimes)}: {model.ref.format} takes other inputs: {error.message}")
                continue
            workload = Workload(
                scenario=one,
                batch=batch if batch != 1 or not inputs else batch_of(model.signature, inputs),
                inputs=inputs,
                seed=seed,
                input_data=digest if data is input_data or data is None else _digest(data),
                input_path=None if data is None else str(data.resolve()),
                profile=profile,
                stopping=stopping,
            )
            workloads.append(workload)
            if inputs and data is None and not wanted.shapes and workload.batch == 1 == max(axes.batches):
                open_batches += [model.ref.name] if has_open_batch(model.signature) else []
        for (name, runtime, provider, precision), threads, workload in product(
            choices, axes.threads or (_default_threads(scenario, target),), workloads
        ):
            spec = RuntimeSpec(
                name=name,
                version=availability_at(target, name, runtime).version,
                provider=provider.name,
                threads=threads,
                precision=precision,
                options={
                    word: setting_value(text)
                    for word, text in axes.settings.items()
                    if word in taken[f"{name}/{provider.name}"]
                },
            )
            job = Job(model=model.ref, runtime=spec, target=target, workload=workload)
            executor_for(job).check(job, own_inputs=input_data is not None)
            jobs.append(job)
    skipped += _unknown_settings(axes.settings, taken)
    if paths and not jobs:
        raise BadInput("no engine can run it with these settings", advice="; ".join(dict.fromkeys(skipped)))
    return Plan(
        jobs=tuple(jobs), skipped=tuple(dict.fromkeys(skipped)), open_batches=tuple(dict.fromkeys(open_batches))
    )


def _scenarios(scenario: Scenario, axes: Axes, model: Model) -> list[Scenario]:
    """`scenario` with each length of a prompt at each depth. Raises as `check_language_model`."""
    prompts, depths = axes.prompt_tokens or (scenario.prompt_tokens,), axes.depths or (scenario.depth,)
    found = [replace(scenario, prompt_tokens=each, depth=depth) for depth, each in product(depths, prompts)]
    for each in found:
        check_language_model(model.ref, each)
    return found


def _generating(model: Model, axes: Axes, registry: Registry[Runtime]) -> Axes:
    """`axes` with the runtimes that make text of `model`. Raises `BadInput` where none of those asked for does."""
    able = [name for name, runtime in registry if generates(runtime, model.ref.format)]
    asked = [name for name in axes.runtimes or able if name.partition("/")[0] in able]
    if not asked:
        what = f"{model.ref.name} ({model.ref.format})"
        other = "give a language model: a GGUF file, or a folder with genai_config.json or openvino_tokenizer.xml"
        raise BadInput(
            f"no runtime that was asked for makes text with {what}" if able else f"no runtime makes text with {what}",
            advice=f"use ⟦runtime={','.join(able)}⟧" if able else other,
        )
    return replace(axes, runtimes=tuple(asked))


def _unknown_settings(settings: Mapping[str, str], known: Mapping[str, Collection[str]]) -> list[str]:
    """Return a line for each setting that only some engines have. Raises `BadInput` for one that none has.

    Args:
        known: engine → the names of its settings.
    """
    lines = []
    for name in settings:
        without = [engine for engine, names in known.items() if name not in names]
        if known and len(without) == len(known):
            has = "; ".join(f"{engine}: {', '.join(sorted(names)) or 'none'}" for engine, names in known.items())
            raise BadInput(f"no engine that measures here has the setting {name!r}", advice=f"settings of {has}")
        lines += [f"{name} on {', '.join(without)}: no such setting, measured without it"] if without else []
    return lines


def with_other_sizes(job: Job) -> tuple[Job, ...]:
    """Return the job with other plausible sizes instead of those that were assumed, the likeliest first.

    Each input notes what an engine refused before.
    """
    workload = job.workload
    if workload.input_path is not None or not any(ASSUMED in spec.note for spec in workload.inputs):
        return ()
    signature = open_model(job.model).signature
    given = {spec.name: spec.shape for spec in workload.inputs if not open_axes(spec)}
    return tuple(
        replace(job, workload=replace(workload, inputs=_noted(inputs, workload.inputs)))
        for inputs in other_inputs(signature, batch=workload.batch, overrides=given)
    )


def _noted(inputs: tuple[InputSpec, ...], refused: tuple[InputSpec, ...]) -> tuple[InputSpec, ...]:
    return tuple(
        spec if spec.shape == old.shape else replace(spec, note=f"{spec.note}; the engine rejected {list(old.shape)}")
        for spec, old in zip(inputs, refused, strict=True)
    )


Choice = tuple[str, Runtime, Provider, str | None]


def _choose_engines(
    model: Model,
    axes: Axes,
    registry: Registry[Runtime],
    skipped: list[str],
    target: TargetSpec,
    *,
    file: str,
    with_tools: bool,
) -> Iterator[Choice]:
    """Runtimes × providers × precisions that can take this model's format."""
    asked = [word.partition("/") for word in axes.runtimes]
    rare = model.ref.format not in _COMMON_FORMATS
    names = [(name, provider) for name, _, provider in asked] or [
        (name, "") for name, runtime in registry if is_default(runtime, target, with_tools=with_tools, rare=rare)
    ]
    for name, wanted_provider in names:
        runtime = find_engine(name, model.ref.format, target, file=file)
        reads = model.ref.format in runtime.formats
        if not reads or not _runs_signature(runtime, model):
            why = f"runs only the signature {model.ref.signatures[0]}" if reads else f"does not read {model.ref.format}"
            skipped += [f"{model.ref.name}: {name} {why}"] if axes.runtimes or reads else []
            continue
        if not with_tools and (refusal := executor_of(runtime).without_outputs(name)) is not None:
            raise refusal
        availability = availability_at(target, name, runtime)
        if not availability:
            if axes.runtimes:
                raise Unavailable(f"{name} can't be used: {availability.reason}", advice=availability.install_hint)
            skipped.append(f"{name}: {availability.reason} ({availability.install_hint})")
            continue
        wanted = [wanted_provider] if wanted_provider else axes.providers
        known = [provider.name for provider in runtime.providers]
        for word in wanted:
            if word in known:
                continue
            lacking = runtime.lacking(word) if isinstance(runtime, ExplainsProviders) else None
            if lacking is not None and wanted_provider and target.device == LOCAL:
                raise Unavailable(f"{name}/{word} can't be used: {lacking.reason}", advice=lacking.install_hint)
            skipped.append(f"{name}{_LACKS}provider {word} (it has: {', '.join(known)})")
        for provider in _choose_providers(runtime, wanted, sweeps=with_tools):
            for precision in axes.precisions or (None,):
                if precision is not None and precision not in provider.precisions:
                    has = ", ".join(provider.precisions)
                    skipped.append(f"{name}/{provider.name}{_LACKS}precision {precision} (it has: {has})")
                    continue
                yield name, runtime, provider, precision


def _runs_signature(runtime: Runtime, model: Model) -> bool:
    """Whether `runtime` can run the signature of `model`; each engine runs the default."""
    return not model.ref.signature or (
        isinstance(runtime, RunsSignatures) and model.ref.format in runtime.signature_formats
    )


_LACKS = " has no "
_COMMON_FORMATS = frozenset({"onnx", "tflite", "openvino"})


def is_default(runtime: Runtime, target: TargetSpec, *, with_tools: bool, rare: bool = False) -> bool:
    """Whether a sweep without ``-r`` tries `runtime` on `target`.

    Args:
        rare: whether few runtimes read the model's format, so that those count too that no other sweep includes.
    """
    place, own = target_of(target), name_of_executor(runtime)
    if own != WORKER and (not with_tools or own == name_of_executor(place.transport)):
        return with_tools
    return executor_at(target).without_workers(place) is None and (runtime.in_default or rare)


def tell_conversions(
    file: str, form: str, target: TargetSpec, *, formats: Collection[str], with_tools: bool
) -> dict[str, str]:
    """Return the word for a format → which engines of a sweep could measure `file` in it, and the command for that.

    Args:
        file: as the user wrote it.
        form: its format, which those engines can't read.
        formats: of all files that are measured; for these nothing is told.
    """
    found = {}
    for to in (to for reads, to in DOWNLOADS if reads == form and to not in formats):
        names = [
            name
            for name, runtime in runtimes()
            if to in runtime.formats and form not in runtime.formats
            if is_default(runtime, target, with_tools=with_tools) and availability_at(target, name, runtime)
        ]
        if names:
            that = "it measures" if len(names) == 1 else "they measure"
            found[to] = f"{listing(names)} can't read .{form}: {conversion_of(file, to)} makes a file that {that}"
    return found


def _choose_providers(runtime: Runtime, wanted: Sequence[str], *, sweeps: bool) -> list[Provider]:
    """Return the providers that are wanted; else those of a sweep, or the first: a comparison has one variant per
    model.
    """
    if not wanted and sweeps and isinstance(runtime, SweepsProviders):
        wanted = runtime.default_providers
    if not wanted:
        return [runtime.providers[0]]
    return [provider for provider in runtime.providers if provider.name in wanted]


def _no_engine(
    model: Model, axes: Axes, registry: Registry[Runtime], target: TargetSpec, *, file: str, skipped: Sequence[str]
) -> EdgewiseError:
    """Why no job could be made for `model`; `skipped` says what engines that read it lack."""
    readers = [(name, runtime) for name, runtime in registry if model.ref.format in runtime.formats]
    conversion = advise_conversion(model.ref.format, model.files[0])
    if not readers and conversion:
        return Unavailable(
            f"no runtime reads {model.ref.name} ({model.ref.format}), but 'edgewise inspect' does", advice=conversion
        )
    able = [name for name, runtime in readers if _runs_signature(runtime, model)]
    if len(able) < len(readers):
        return Unavailable(
            f"none of these runtimes can run the signature {model.ref.signature} of {model.ref.file_name}",
            advice=f"use ⟦runtime={','.join(able)}⟧" if able else "no runtime runs another signature than the default",
        )
    if axes.runtimes or axes.providers or axes.precisions:
        asked = dict.fromkeys(word.partition("/")[0] for word in axes.runtimes)
        deaf = [name for name in asked if name not in able]
        reasons = [
            *([f"{' and '.join(deaf)} can't read this format"] if deaf else []),
            *(each for each in skipped if _LACKS in each),
        ]
        why = f": {enumerate_few(reasons)}" if reasons else ""
        if file and axes.precisions == ("int8",):  # the arithmetic is then the file's, not a setting
            made = f"edgewise optimize {shlex.quote(file)} --data DATA"
            conversion = "; or ".join(filter(None, (f"a file in int8: {made}", conversion)))
        return BadInput(
            f"none of the requested runtimes can run {model.ref.name} ({model.ref.format}){why}",
            advice=advise_readers(model.ref.format, deaf, target, file=file)
            + (f"; or {conversion}" if conversion else ""),
        )
    hints = dict.fromkeys(availability_at(target, name, runtime).install_hint for name, runtime in readers)
    return Unavailable(
        f"no installed runtime reads {model.ref.name} ({model.ref.format})",
        advice="; ".join(filter(None, hints)) or "see 'edgewise doctor'",
    )


def _inputs_of(
    model: Model, batch: int, shapes: Mapping[str, tuple[int, ...]], data: Path | None
) -> tuple[InputSpec, ...]:
    """Return the inputs of one inference, which must fit `data`, where there is any."""
    if data is not None and "" not in shapes:
        shapes = read_shapes(data, model.signature.inputs) | dict(shapes)
    inputs = resolve_inputs(model.signature, batch=batch, overrides=shapes, given=data is not None)
    return inputs if data is None else _with_data(data, inputs)


def _with_data(path: Path, inputs: tuple[InputSpec, ...]) -> tuple[InputSpec, ...]:
    """Return the inputs with a note on converted data. A wrong file is one clear error here and not a failed worker."""
    _, notes = read_arrays(path, inputs)
    return tuple(
        replace(spec, note="; ".join(filter(None, (spec.note, note)))) for spec, note in zip(inputs, notes, strict=True)
    )


def _digest(path: Path, *, prompts: bool = False) -> str:
    """SHA-256 of what a model is fed; a wrong file of prompts is one clear error here and not a failed worker."""
    if prompts:
        read_prompts(path)
    try:
        with path.open("rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise BadInput(f"can't read {path}: {error.strerror}", advice="give an .npz file to ⟦input_data⟧") from error


def _own_inputs(model: Model) -> Path | None:
    """Return the example inputs that a model's author gave: random ones may be invalid, such as indices of an
    embedding.
    """
    return example_inputs(model.files[0]) if model.ref.format == EAGER else None


def _check_place(model: Model, target: TargetSpec) -> None:
    """Raise `BadInput` for a module of PyTorch code on another device: code is never sent."""
    if model.ref.format == EAGER and not target_of(target).is_here:
        raise BadInput(
            f"{model.ref.name} is a PyTorch module, whose code is not sent to {target.environment or target.device}",
            advice="export it and measure the file there: torch.export.save, torch.onnx.export",
        )


def _default_threads(scenario: Scenario, target: TargetSpec) -> int:
    """One thread, so that engines and machines compare; all usable cores where throughput is the question."""
    return count_cores(target) if scenario.kind == "offline" else 1


def count_cores(target: TargetSpec | None = None) -> int:
    """Cores that a job may use on `target`, which is this machine by default."""
    return len(cores_at(target or TargetSpec())) or os.cpu_count() or 1
