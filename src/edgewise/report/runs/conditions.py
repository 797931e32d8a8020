"""The conditions of a run as text: machine, engine, settings, and labels that distinguish runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

from edgewise.comparing.environments import value_text
from edgewise.comparing.labels import limit_names
from edgewise.device.devices import LOCAL
from edgewise.grouping import by_key
from edgewise.model.eager import EXAMPLE_INPUTS
from edgewise.record import Run
from edgewise.record.facts import NOT_A_MODEL, differing_variables, environment_words, precision_of, threads_of
from edgewise.record.job import LONGEST_LABEL, UNKNOWN_DEVICE
from edgewise.record.names import model_names
from edgewise.text import enumerate_few, listing, one_line, plural, tells_apart
from edgewise.units import format_bytes, format_limit

#: the first word of a provider's name that says which processing unit it uses
_UNITS: dict[str, tuple[str, ...]] = {
    "CPU": (
        "cpu", "builtin", "xnnpack", "interpreter", "interpreter-reference", "interpreter-noxnnpack", "compiled",
        "dnnl",
    ),
    "GPU": ("gpu", "cuda", "tensorrt", "rocm", "migraphx", "dml", "opencl", "vulkan", "metal", "mps", "webgpu"),
    "NPU": ("npu", "qnn", "hexagon", "ethos", "vitisai", "nnapi"),
    "TPU": ("tpu", "edgetpu", "coral"),
    "VPU": ("vpu", "myriad"),
}  # fmt: skip
_PROCESSOR = ("cpu", "interpreter")
"""The providers that engines have unless another one is asked for: they say nothing but that it ran on the CPU."""


def look_up(environment: Mapping[str, Any], *paths: str) -> str | None:
    """Return the first of dotted `paths` that leads to a text or number, as one line."""
    for path in paths:
        value: Any = environment
        for key in path.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        if value is not None and not isinstance(value, Mapping | list | tuple) and str(value).strip():
            return one_line(str(value))
    return None


def processor_of(run: Run) -> str | None:
    """Return the processor's name, or None where the environment lacks it."""
    return processor_in(run.environment)


def processor_in(environment: Mapping[str, Any]) -> str | None:
    """As `processor_of`, of an environment."""
    return look_up(environment, "cpu.model", "cpu")


def system_of(run: Run) -> str | None:
    """Operating system and architecture, or None where the environment lacks it."""
    return system_in(run.environment)


def system_in(environment: Mapping[str, Any]) -> str | None:
    """As `system_of`, of an environment."""
    system = look_up(environment, "os.name", "os")
    architecture = look_up(environment, "architecture")
    words = [word for word in (system, architecture) if word]
    return " ".join(words) or None


def elsewhere(runs: Iterable[Run]) -> str:
    """``", on pi4"`` where all took place on one device other than this machine; else empty."""
    devices = {one_line(run.job.target.device) for run in runs}
    return f", on {devices.pop()}" if len(devices) == 1 and not devices & {LOCAL, UNKNOWN_DEVICE} else ""


def engine_of(run: Run) -> str:
    """Runtime and version, ``"onnxruntime 1.31.0"``."""
    version = run.job.runtime.version or run.effective.get("engine_version")
    return one_line(f"{run.job.runtime.name} {version}" if version else run.job.runtime.name)


def differ_in_engine(first: Run, second: Run) -> bool:
    """Whether two runs are of different engines, or providers of one."""
    return provider_of(first) != provider_of(second)


def are_alternatives(first: Run, second: Run) -> bool:
    """Whether two runs are of engines, or of numbers of threads, and so not one before and one after a change."""
    same_file = first.job.model.sha256 == second.job.model.sha256
    return differ_in_engine(first, second) or (same_file and threads_of(first) != threads_of(second))


def provider_of(run: Run) -> str:
    """``"onnxruntime/cpu"``."""
    runtime = run.job.runtime
    if run.job.command:
        return one_line(f"{runtime.name}/{run.effective.get('mechanism', '?')}")
    return one_line(f"{runtime.name}/{runtime.provider}" if runtime.provider else runtime.name)


def short_engines(names: Iterable[str]) -> dict[str, str]:
    """``"litert"`` for ``"litert/interpreter"``: without the provider if it is the processor, and the engine's only
    one here.
    """
    names = set(names)
    engines = Counter(name.partition("/")[0] for name in names)
    return {
        name: engine if engines[engine] == 1 and provider in _PROCESSOR else name
        for name in names
        for engine, _, provider in [name.partition("/")]
    }


def mechanisms_of(runs: Sequence[Run]) -> set[str]:
    """Return the mechanisms that limited the programs among `runs`."""
    return {str(run.effective.get("mechanism", "?")) for run in runs if run.job.command}


def processing_unit_of(run: Run) -> str | None:
    """``CPU``, ``GPU``, ``NPU``, ``TPU`` or ``VPU``: what executed the model; None where the record does not say."""
    told = (run.effective.get("accelerator"), run.effective.get("device"), run.job.runtime.provider)
    for word in told:
        name = str(word or "").lower().split(":")[0].split(".")[0]
        for unit, names in _UNITS.items():
            if name in names:
                return unit
    return None


MOST_INPUTS = 6


def input_text(run: Run) -> str:
    """Return the inputs: ``"x float32 1×3×224×224 from 0 to 1, random"``; "" where the record has none."""
    workload = run.job.workload
    told = run.effective.get("inputs")
    ranges = {}
    for each in told if isinstance(told, list) else ():
        if isinstance(each, Mapping) and all(isinstance(each.get(key), int | float) for key in ("low", "high")):
            low, high = f"{each['low']:.3g}", f"{each['high']:.3g}"
            ranges[str(each.get("name"))] = f", all {each['low']:g}" if low == high else f" from {low} to {high}"
    words = [
        one_line(f"{spec.name} {spec.dtype} {'×'.join(map(str, spec.shape)) or 'scalar'}{ranges.get(spec.name, '')}")
        for spec in workload.inputs
    ]
    if not words:
        return ""
    more = f" and {len(words) - MOST_INPUTS} more" if len(words) > MOST_INPUTS else ""
    source = f"random from seed {workload.seed}" if workload.input_data is None else "from --input-data"
    if workload.input_path is not None and workload.input_path.endswith(EXAMPLE_INPUTS):
        source = "the example inputs of its author"
    if any("tool" in session.facts for session in run.sessions):
        source = "random, made by the tool"
    if run.source is not None:
        source = "chosen by the tool"
    handed = _HANDED_OVER.get(str(run.effective.get("inputs_handed_over")), "")
    return f"{', '.join(words[:MOST_INPUTS])}{more}; {source}{handed}"


_HANDED_OVER = {
    "before the timing": "; handed to the engine before the timing, not with each call",
    "with each call": "; handed to the engine with each call, which is timed",
}


def delegates_of(run: Run) -> list[str]:
    """``"TfLiteGpuDelegateV2 took 9 of 10 operators"`` for each delegate that the engine reports."""
    told = run.effective.get("delegates")
    found = []
    for each in told if isinstance(told, list) else ():
        if isinstance(each, Mapping) and isinstance(each.get("nodes"), int):
            whole = f" of {each['of']}" if isinstance(each.get("of"), int) else ""
            found.append(one_line(f"{each.get('name')} took {each['nodes']}{whole} operators"))
    return found


def scenario_of(run: Run) -> str:
    """``"single-stream"``, ``"paced 30 fps"``, ``"offline"``, ``"single-stream, sustained for 30 min"``."""
    return run.job.workload.scenario.words


def file_of(run: Run) -> str:
    """Format and size of the model file, ``"onnx, 52.7 KiB"``. The file of an imported run may not be known."""
    model = run.job.model
    return one_line(f"{model.format}, {format_bytes(model.size_bytes)}") if model.is_known else "file not known"


def is_original(run: Run) -> bool:
    """Whether the run is of a network in its own framework, which the other runs are its exports of."""
    return run.job.model.origin is not None and run.job.model.origin.original


def path_of(run: Run) -> tuple[str, str]:
    """How the file was made of its network, whole and in one word: ``("torch.onnx.export 2.13 → onnx", "onnx")``.

    Empty for a file that the user gave.
    """
    model = run.job.model
    if model.origin is None:
        return "", ""
    if is_original(run):
        return "original", "original"
    return one_line(" → ".join((*model.origin.steps, model.format))), one_line(model.format)


def platform_of(run: Run) -> str | None:
    """Where the run took place and with what: system, processor, engine; None where the environment is empty."""
    words = [word for word in (system_of(run), processor_of(run)) if word]
    return ", ".join([*words, f"{engine_of(run)} ({', '.join(_settings(run))})"]) if words else None


def machine_of(run: Run) -> str | None:
    """Processor, cores, memory, whether a GPU was used, and system; None where the record has none of these."""
    usable, logical, quota = (look_up(run.environment, f"cpu.{name}_cores") for name in ("usable", "logical", "quota"))
    cores = f"{usable} of {logical}" if usable and usable != logical else logical
    total, limit = (_number(run.environment, "memory", f"{name}_bytes") for name in ("total", "limit"))
    words = [processor] if (processor := processor_of(run)) else []
    words += [f"{cores} logical core{'' if cores == '1' else 's'}"] if cores else []
    words += [f"limited to {quota} cores"] if quota else []
    words += [f"{format_bytes(total)} RAM"] if total else []
    words += [f"limited to {format_limit(limit)}"] if limit and total and limit < total else []
    if not words:
        return None
    words += ["no GPU used"] if processing_unit_of(run) == "CPU" else []
    return ", ".join([*words, *([system] if (system := system_of(run)) else [])])


def environments_of(runs: Sequence[Run], labels: Sequence[str]) -> list[str]:
    """Return machine, engines with their versions and threads: one line, or one for each machine with the labels of its
    runs.
    """
    machines = by_key((machine_of(run), (run, label)) for run, label in zip(runs, labels, strict=True))
    lines = []
    for machine, some in machines.items():
        engines = sorted({engine_of(run) for run, _ in some if not run.job.command})
        threads = sorted({count for run, _ in some if (count := threads_of(run))})
        used = f"{listing(list(map(str, threads)))} thread{'' if threads == [1] else 's'}" if threads else ""
        if words := "; ".join(filter(None, [machine, listing(engines), used])):
            of = "" if len(machines) == 1 else f" of {listing([label for _, label in some])}"
            lines.append(f"Test environment{of}: {words}")
    return lines


def _number(environment: Mapping[str, Any], group: str, name: str) -> float | None:
    """Return a number of the record; None where it is not a positive number."""
    found = environment.get(group)
    value = found.get(name) if isinstance(found, Mapping) else None
    return float(value) if isinstance(value, int | float) and 0 < value < 2**63 else None


def _settings(run: Run) -> list[str]:
    """Return provider, threads and precision, as far as they are known."""
    threads, precision = threads_of(run), precision_of(run)
    words = [run.job.runtime.provider or "default provider"]
    words += [plural(threads, "thread")] if threads else []
    return words + ([precision] if precision else [])


def device_of(run: Run) -> str | None:
    """Return the device's name; the processor's where the job ran on this machine; None where it is not reported."""
    return processor_of(run) if run.job.target.device == "local" else one_line(run.job.target.device)


def names_of(runs: Sequence[Run]) -> list[str]:
    """Return the name of each run's model, with folders where several files have one name; of a program, the words of
    its command line that differ from those of the other programs.
    """
    names = model_names([run.job.model for run in runs])
    own = own_words([run.job.command for run in runs if command_of(run)])
    return [
        own.get(run.job.command, command_of(run)) if command_of(run) else name
        for run, name in zip(runs, names, strict=True)
    ]


def own_words(commands: Sequence[tuple[str, ...]]) -> dict[tuple[str, ...], str]:
    """Return for each command the words between those that all begin and end with; {} where that leaves one nothing."""
    start, end = _shared_ends(commands)
    own = {command: one_line(" ".join(command[start : len(command) - end])) for command in commands}
    return own if all(own.values()) and max(map(len, own.values()), default=0) <= LONGEST_LABEL else {}


def _shared_ends(commands: Sequence[tuple[str, ...]]) -> tuple[int, int]:
    """Return how many words all commands begin with and end with; an option stays with its value."""
    start, first = _count_shared(commands), commands[0] if commands else ()
    while start and first[start - 1].startswith("-"):
        start -= 1
    return start, _count_shared([command[start:][::-1] for command in commands])


def _count_shared(commands: Sequence[tuple[str, ...]]) -> int:
    """Return how many words all begin with."""
    return sum(1 for _ in takewhile(lambda words: len(set(words)) == 1, zip(*commands, strict=False)))


def shared_command(runs: Sequence[Run]) -> str:
    """``"python3 fir.py … 600000"``: what the command lines share that `names_of` leaves out; "" where nothing is."""
    commands = [run.job.command for run in runs if command_of(run)]
    if len(commands) < len(runs) or not own_words(commands):
        return ""
    start, end = _shared_ends(commands)
    first = commands[0]
    return one_line(" ".join((*first[:start], "…", *first[len(first) - end :]))) if start + end else ""


def command_of(run: Run) -> str:
    """Return the command line of a run of a program, as `edgewise runs list` has it; "" for a model."""
    return one_line(run.job.label) if run.job.command and run.job.model.format in NOT_A_MODEL else ""


def told_apart(runs: Sequence[Run], *, whole: bool = False) -> list[Run]:
    """Return `runs` whose models are called as `names_of` says, for documents that show a model by its name in many
    places.

    Args:
        whole: programs are called by their whole command lines instead, and models of one name alike.
    """

    def called(run: Run, name: str) -> Run:
        model = run.job.model
        return run if name == model.name else replace(run, job=replace(run.job, model=replace(model, name=name)))

    names = [command_of(run) or run.job.model.name for run in runs] if whole else names_of(runs)
    return [called(run, name) for run, name in zip(runs, names, strict=True)]


def labels_of(runs: Sequence[Run]) -> list[str]:
    """One short name per run, with only the words that distinguish the runs, and a number where none does."""
    parts = [
        ("model", names_of(runs)),
        ("runtime", [provider_of(run) for run in runs]),
        ("path", [path_of(run)[1] or "as given" for run in runs]),
        ("threads", [threads_words(run) for run in runs]),
        ("batch", [f"batch {run.job.workload.batch}" for run in runs]),
        ("precision", [precision_of(run) or "precision not reported" for run in runs]),
        ("scenario", [scenario_of(run) for run in runs]),
        ("device", [one_line(run.job.target.device) for run in runs]),
        ("limits", limit_names([run.job for run in runs])),
        ("environment", [environment_words(run.job.target.environment) for run in runs]),
        ("variables", differing_variables([run.job.target.variables for run in runs])),
    ]
    chosen: list[list[str]] = [[] for _ in runs]
    for name, words in parts:
        told = tells_apart(chosen, words)
        # Where one run has its number of threads, a reader asks for those of the others.
        is_everywhere = name == "runtime" or (name == "model" and len(set(words)) > 1)
        is_everywhere |= name == "threads" and any(told)
        needed = [is_everywhere or each for each in told]
        for own, word, wanted in zip(chosen, words, needed, strict=True):
            own.extend([word] if wanted else [])
    labels = [" · ".join(words) for words in chosen]
    seen: dict[str, int] = {}
    for index, label in enumerate(labels):
        seen[label] = seen.get(label, 0) + 1
        if labels.count(label) > 1:
            chosen[index].append(f"#{seen[label]}")
    return [" · ".join(words) for words in chosen]


def labels_by_id(runs: Sequence[Run]) -> dict[str, str]:
    """Return the id of each run → its label of `labels_of`."""
    return dict(zip([run.id for run in runs], labels_of(runs), strict=True))


def threads_words(run: Run) -> str:
    """``"2 threads"``, or that the number is not reported."""
    threads = threads_of(run)
    return "threads not reported" if threads is None else plural(threads, "thread")


def flatten(mapping: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """``("cpu.model", "…")`` pairs of a nested mapping, in its order; sizes and clocks as a person reads them."""
    for key, value in mapping.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from flatten(value, f"{name}.")
        elif isinstance(value, list | tuple):
            yield one_line(name), ", ".join(value_text(name, item) for item in value) or "none"
        else:
            yield one_line(name), value_text(name, value)


def namer(runs: Sequence[Run]) -> Callable[[Sequence[int]], str]:
    """Return a function that names the runs with these indices, as the beginning of the line that is about them.

    Empty for the only run; models instead of runs where the line is about all runs of these models.
    """
    labels, models = labels_of(runs), names_of(runs)
    number = Counter(models)

    def names(who: Sequence[int]) -> str:
        if len(runs) == 1:
            return ""
        who = list(dict.fromkeys(who))
        if len(who) == len(runs):
            return "all runs: "
        about = list(dict.fromkeys(models[index] for index in who))
        whole = len(about) < len(who) == sum(number[model] for model in about)
        return f"{enumerate_few(about if whole else [labels[index] for index in who])}: "

    return names


def lines_by_run(runs: Sequence[Run], words_of: Callable[[Run], str]) -> tuple[str, ...]:
    """Return what `words_of` says of each run, a line for those of which it says the same; none where it is empty."""
    said = by_key((words, index) for index, run in enumerate(runs) if (words := words_of(run)))
    names = namer(runs)
    return tuple(f"{names(who)}{words}" for words, who in said.items())
