"""The tables that the field's model zoos and guides use, column for column, and one of networks by engine.

Five shapes: ``zoo`` (the short table of a model zoo), ``networks`` (network, engine and threads with latency, grade and
accuracy, for a README), ``long`` (the table of Keras Applications), ``watch`` (the watch metrics of model and hardware,
one column a run) and ``platform`` (choosing a target device). MB and KB are 10⁶ and 10³ bytes. Only finished runs have
rows; of several runs of a network with the same settings one has. What a run does not know comes from another run of
the same model, engine and machine, named in a footnote; what none of them knows is ``n/a`` with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePath

from edgewise.errors import BadInput
from edgewise.evaluating.class_order import ORDER, doubt_order
from edgewise.evaluating.run_records import tell_calibrated
from edgewise.grouping import by_key
from edgewise.metrics import SHARES
from edgewise.record import Measurement, Run
from edgewise.record.facts import is_unreliable, network_precision, precision_of, threads_of
from edgewise.record.reference import machine_key
from edgewise.report.bench.tables import firsts_in_turns, turns_cell
from edgewise.report.document import Cell, Column, Document, Table, absent, table_by_columns, table_of
from edgewise.report.document.columns import text_column
from edgewise.report.runs.cells import (
    NOT_MEASURED,
    cell_of,
    cell_of_measurement,
    celsius,
    chief_metric,
    failure_of,
    judged_on,
    label_of,
    reason_of_absence,
    times,
)
from edgewise.report.runs.conditions import (
    device_of,
    environments_of,
    labels_of,
    platform_of,
    processing_unit_of,
    provider_of,
    scenario_of,
    short_engines,
    told_apart,
)
from edgewise.report.runs.merged import ACCURACY, MergedRun, merge_runs, name_run
from edgewise.report.runs.provenance import provenance_of
from edgewise.store.preference import preference_of
from edgewise.text import enumerate_few, listing, one_line, plural, tells_apart
from edgewise.units import JOULES_PER_MWH, format_si, significant

_LINK = re.compile(r"\[([^\]\n]+)\]\((https?://[^\s()<>]+)\)")
_URL = re.compile(r"https?://[^\s<>\"]+")
_NO_PLATFORM = "the run's record does not name the platform"
_VAGUE = "grade D, the lowest: measure again before you quote the number"
_TURNS = (
    "the other rows have their latencies as multiples of this one's, measured in turns, which decide; those in ms are "
    "of each run alone"
)
_OTHERWISE = (
    "measured alone it has another place than in turns, which decide: measure again on an idle machine before you "
    "quote the number"
)
_NO_DEVICE = "the run's record does not name the device"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Information for a table that the runs lack.

    Attributes:
        task: such as ``"Image Classification"``.
        reference: words, an http(s) address, or ``[words](address)``.
        known: other runs, which may know what those of the table lack.
    """

    task: str | None = None
    reference: str | None = None
    known: Sequence[Run] = ()


def field_document(name: str, runs: Sequence[Run], *, options: Options | None = None, title: str = "") -> Document:
    """Return the table called `name` (a key of `FIELD_TABLES`) as a document.

    Raises `BadInput` for another name, where no run is done, and for a table of networks where all are of programs.
    """
    if name not in FIELD_TABLES:
        raise BadInput(f"there is no table {name!r}", advice=f"one of: {', '.join(FIELD_TABLES)}")
    if not any(run.status == "done" for run in runs):
        why = enumerate_few(list(dict.fromkeys(map(failure_of, runs))))
        raise BadInput(
            f"the table {name!r} has rows of finished runs only; {why}",
            advice="'edgewise runs list' shows which runs are done",
        )
    if not (tables := field_tables(name, runs, options=options or Options())):
        raise BadInput(
            f"the table {name!r} is for networks, and these are runs of programs", advice="use ⟦table⟧ usage"
        )
    own = tables[0].title if len(tables) == 1 else f"{name.capitalize()} metrics"
    return Document(title=title or own, tables=tuple(tables))


def field_tables(name: str, runs: Sequence[Run], *, options: Options) -> list[Table]:
    """Make the tables `name` (a key of `FIELD_TABLES`), with runs of one model merged into a row.

    Notes name the run of each row, the machine, and what was left out: runs that did not end, and of networks those of
    programs and all but one of the same settings; [] where nothing is left.
    """
    networks = [run for run in runs if name not in _OF_NETWORKS or not run.job.command]
    done = told_apart([run for run in networks if run.status == "done"])
    if not done:
        return []
    kept = _side_by_side(_best_of_each(done)) if name in _OF_NETWORKS else done
    joined = merge_runs(kept, JOINED[name], known=(*options.known, *done))
    rows = [each.run for each in joined]
    first, *others = FIELD_TABLES[name](rows, options)
    labels = labels_of(rows)
    origins = _origin_notes(joined, labels, with_data=name != "networks")  # its accuracies have theirs
    told = list(dict.fromkeys(note for notes in origins for note in notes))
    own = [f"{run.id[:13]} ({label})" for run, label in zip(rows, labels, strict=True)]
    ids = f"{'All other' if told else 'All'} values: {name_run(rows[0]) if len(rows) == 1 else f'runs {listing(own)}'}"
    if name != "watch":  # there a run is a column
        named = zip(origins, first.rows, strict=True)
        first = replace(first, rows=tuple((_noted(row[0], *notes), *row[1:]) for notes, row in named))
        told = []
    used = {run.id for run in (*kept, *(source for each in joined for source in each.sources.values()))}
    left = {
        "of programs, which are no networks": len(runs) - len(networks),
        "without a result: failed or cancelled": len(networks) - len(done),
        "older or of a worse grade than another of the same file and settings; the grade counts first": len(
            {r.id for r in done} - used
        ),
    }
    places = tuple(environments_of(rows, labels))
    notes = (*first.notes, *places, ids, *told, *_left_out(left))
    return [replace(first, notes=notes, environment=places), *others]


def _origin_notes(joined: Sequence[MergedRun], labels: Sequence[str], *, with_data: bool) -> list[list[str]]:
    """Return for each row where values of other runs are from; those that differ in the run alone have one note."""
    found = [[(what, data if with_data else "", of) for what, of, data in each.origins()] for each in joined]
    shared = by_key(
        ((what, data), (of, label)) for parts, label in zip(found, labels, strict=True) for what, data, of in parts
    )

    def words(what: str, data: str) -> str:
        rows = by_key((of.id, (of, label)) for of, label in shared[what, data]).values()
        named = [
            name_run(some[0][0]) + (f" ({listing([label for _, label in some])})" if len(joined) > 1 else "")
            for some in rows
        ]
        return f"{what} from {listing(named)}{f', judged on {data}' if data else ''}"

    return [[words(what, data) for what, data, _ in parts] for parts in found]


def _left_out(counts: Mapping[str, int]) -> list[str]:
    """``["Left out: 1 run of programs, which are no networks"]``: a line for each reason that holds for runs."""
    return [f"Left out: {plural(count, 'run')} {why}" for why, count in counts.items() if count]


def _best_of_each(runs: Sequence[Run]) -> list[Run]:
    """Return one of those of each network with the same settings: with a latency, of the best grade, the newest."""
    groups = by_key((_settings(run), run) for run in runs).values()
    best = {min(group, key=lambda run: (run.value("latency") is None, *preference_of(run))).id for group in groups}
    return [run for run in runs if run.id in best]


def _side_by_side(runs: Sequence[Run]) -> list[Run]:
    """Return `runs` with those of each network together, and of these those of each engine, by number of threads."""
    place: dict[tuple[str, ...], int] = {}

    def order(run: Run) -> tuple[int, int, int]:
        model = (run.job.model.sha256, run.job.model.name)
        engine = (*model, provider_of(run))
        return place.setdefault(model, len(place)), place.setdefault(engine, len(place)), threads_of(run) or 0

    return sorted(runs, key=order)


def _settings(run: Run) -> tuple[object, ...]:
    """Return what makes a row of its own: file, engine, threads, device, precision, and how the model was run."""
    runtime, workload, target = run.job.runtime, run.job.workload, run.job.target
    shapes = tuple((spec.name, spec.shape) for spec in workload.inputs)
    place = (target.transport, target.device, target.constraints, target.environment, machine_key(run.environment))
    model = (run.job.model.sha256, run.job.model.name, shapes, workload.batch, workload.scenario)
    return (*model, provider_of(run), threads_of(run), precision_of(run), str(runtime.options), *map(str, place))


Field = Callable[[Run], Cell]
Columns = list[tuple[Column, Field]]


def _name(run: Run) -> Cell:
    return Cell(text=one_line(run.job.model.name))


def _measured(metric: str, factor: float = 1.0) -> Field:
    return lambda run: cell_of(run, metric, scale=times(factor))


def _temperature(run: Run) -> Cell:
    return cell_of(run, "temperature", scale=celsius)


def _share(metric: str, *, sign: bool = False) -> Field:
    return lambda run: _percent(run, metric, sign=sign)


def _count(metric: str, unit: str = "") -> Field:
    """Return a count or rate with an SI prefix: ``22.9 M``; ``1 G`` of operations is 10⁹."""
    return lambda run: _rewritten(cell_of(run, metric), lambda value: format_si(value, unit))


_HARDWARE = ("throughput", "memory_peak", "energy", "startup_time", "temperature", "clock_rate", "deployment_time")
JOINED: dict[str, tuple[str, ...]] = {
    "zoo": (ACCURACY, "latency"),
    "networks": (ACCURACY, "latency"),
    "long": (ACCURACY, "latency", "parameters", "depth"),
    "watch": (ACCURACY, "latency", "inference_time", "parameters_size", *_HARDWARE, "cpu_utilization", "ops"),
    "platform": (ACCURACY, "latency", *_HARDWARE, "ops"),
}
"""Name of a table → the metrics that other runs may tell."""
_OF_NETWORKS = ("zoo", "networks", "long")


def _told(text: str | None, reason: str) -> Cell:
    return Cell(text=one_line(text)) if text and text.strip() else absent(reason)


def _reference(reference: str | None) -> Cell:
    """Words, a link, or absent; only http and https lead anywhere."""
    if not reference or not reference.strip():
        return absent("no reference was given (--reference)")
    text = one_line(reference)
    if match := _LINK.fullmatch(text):
        return Cell(text=match[1], link=match[2])
    return Cell(text=text, link=text if _URL.fullmatch(text) else None)


def _rewritten(cell: Cell, words: Callable[[float], str]) -> Cell:
    """`cell` with its number in other words."""
    return cell if cell.value is None else replace(cell, text=words(cell.value))


def _memory(run: Run) -> Cell:
    cell = cell_of(run, "memory_peak", scale=times(1e-6))
    return _rewritten(cell, lambda value: f"{cell.text} MB")


def _noted(cell: Cell, *notes: str) -> Cell:
    return replace(cell, notes=(*cell.notes, *notes))


def _latency(run: Run, *, marked: bool = True) -> Cell:
    """Milliseconds; grade D is `marked`, and the batch is named where an inference is more than one sample."""
    cell = cell_of(run, "latency", scale=times(1e3))
    if marked and cell.value is not None and is_unreliable(run):
        cell = _noted(replace(cell, text=f"{cell.text} (grade D)"), _VAGUE)
    if cell.value is None or run.job.workload.batch == 1:
        return cell
    return _noted(cell, f"time of one inference of batch {run.job.workload.batch}")


def _inference_time(run: Run) -> Cell:
    """Return the field counts pre- and postprocessing here."""
    if run.measurement("inference_time") is None:
        return absent("pre- and postprocessing, which this row includes, are measured by 'edgewise evaluate'")
    return cell_of(run, "inference_time", scale=times(1e3))


def _time_on(run: Run, unit: str) -> Cell:
    """Return the latency, if the run took place on that processing unit."""
    used = processing_unit_of(run)
    if used == unit:
        return _latency(run)
    if used is None:
        return absent("the record does not say which processing unit ran the model")
    return absent(f"this run used the {used}")


def _percent(run: Run, metric: str, *, sign: bool = False) -> Cell:
    cell = cell_of(run, metric, scale=times(100.0))
    cell = cell if cell.value is None else _noted(cell, *_doubts(run))
    number, _, interval = cell.text.partition(" ")
    return _rewritten(cell, lambda value: f"{number} % {interval}".rstrip()) if sign else cell


def _task_of(run: Run) -> str | None:
    """Return what the run's answers were judged by; None where that is no task by itself."""
    task = run.evaluation.task if run.evaluation is not None else ""
    return task.replace("-", " ").capitalize() if task not in ("", "own", "agreement") else None


def _accuracy(run: Run, *, sign: bool = False) -> Cell:
    """Return the main accuracy metric in percent; a footnote names it where it is not the top-1 accuracy."""
    metric = chief_metric(run)
    if metric is None:
        return absent("accuracy not measured in this engine: 'edgewise evaluate MODEL -r ENGINE --data PATH' does that")
    if metric == "accuracy_top1":
        return _percent(run, "accuracy_top1", sign=sign)
    if metric == "agreement_top1":
        return absent("without labels the run has agreement with its reference, not accuracy")
    if metric not in SHARES:
        found = cell_of(run, metric)
        known = f" {found.text}" if found.value is not None else ""
        return absent(f"the task is judged by {label_of(metric)}{known}, which is not a share")
    cell = _percent(run, metric, sign=sign)
    return _noted(cell, label_of(metric)) if cell.value is not None else cell


def _doubts(run: Run) -> list[str]:
    """Return what limits an accuracy: an order of the classes that is not certain, samples that calibrated the file."""
    assumed = run.evaluation.settings.get(ORDER) if run.evaluation is not None else None
    order = doubt_order(run.evaluation) or str(assumed or "")
    seen = tell_calibrated(run.evaluation.calibrated) if run.evaluation and run.evaluation.calibrated else ""
    return [one_line(doubt) for doubt in (order, seen) if doubt]


def _model_size(run: Run) -> Cell:
    """Return the measured size of the model's files; the one in the model's identity where there is no measurement."""
    if run.value("model_size") is not None or not run.job.model.is_known:
        return cell_of(run, "model_size", scale=times(1e-6))
    row = Measurement.of("model_size", run.job.model.size_bytes, "size of the model's files")
    cell = cell_of_measurement(row, scale=times(1e-6), interval=False)
    return replace(cell, how=partial(provenance_of, run, row))


def _workload(run: Run) -> Cell:
    """Utilization of the CPU, and a note that the other units were not measured."""
    cell = cell_of(run, "cpu_utilization", scale=times(100.0))
    if cell.value is None:
        return cell
    note = f"100 % is one core fully busy; GPU, NPU, TPU, VPU: {NOT_MEASURED}"
    return _noted(replace(cell, text=f"CPU {cell.text}"), note)


def _bandwidth(run: Run) -> Cell:
    row = run.measurement("network_bytes")
    if row is None or row.value is None:
        return absent(reason_of_absence(run, "network_bytes"))
    return absent(f"{significant(row.value * 1e-6)} MB were moved; how long that took by itself was not measured")


def _specs(run: Run) -> Cell:
    """Name, format, size, precision."""
    model = run.job.model
    file = [model.format, f"{significant(model.size_bytes * 1e-6)} MB"] if model.is_known else ["file not known"]
    words = [one_line(model.name), *file]
    words += [precision] if (precision := network_precision(run)) else []
    return Cell(text=", ".join(words))


_ENERGY = _measured("energy", 1 / JOULES_PER_MWH)
_MODEL_WATCH: dict[str, Field] = {
    "Model Params Size (MB)": _measured("parameters_size", 1e-6),
    "Model Size (MB)": _model_size,
    "Accuracy (%)": _accuracy,
    "Latency (ms)": _latency,
    "Inference Time (ms)": _inference_time,
    "Throughput (inferences/sec)": _measured("throughput"),
    "Memory Footprint (MB)": _measured("memory_peak", 1e-6),
    "Error Rate (%)": _share("error_rate"),
    "Deployment Time (s)": _measured("deployment_time"),
}
_MICROCONTROLLER_WATCH = {"RAM (KB)": _measured("memory_arena", 1e-3), "Flash (KB)": _measured("flash", 1e-3)}
_HARDWARE_WATCH: dict[str, Field] = {
    "Computing Workload (%): CPU, GPU, NPU, TPU, VPU": _workload,
    "Computing Speed (MHz)": _measured("clock_rate", 1e-6),
    "Energy Consumption (mWh)": _ENERGY,
    "Temperature (°C)": _temperature,
    "Startup Time (ms)": _measured("startup_time", 1e3),
    "Network Bandwidth (MB/s)": _bandwidth,
    "Model Complexity (FLOPs)": _count("ops"),
}


def _zoo_tables(runs: Sequence[Run], options: Options) -> list[Table]:
    """``Model | Task | Accuracy | Latency (ms) | Model Size (MB) | Platform | References``."""
    columns: Columns = [
        (Column(title="Model"), _name),
        (
            Column(title="Task", rank=3),
            lambda run: _told(options.task or _task_of(run), "the task was not given (--task)"),
        ),
        (Column(title="Accuracy", numeric=True, rank=2, unit="%"), lambda run: _accuracy(run, sign=True)),
        (Column(title="Latency (ms)", numeric=True), _latency),
        (Column(title="Model Size (MB)", numeric=True, rank=1), _model_size),
        (Column(title="Platform"), lambda run: _told(platform_of(run), _NO_PLATFORM)),
        (Column(title="References", rank=4), lambda run: _reference(options.reference)),
    ]
    return [table_of("Model zoo", runs, columns)]


def _network_tables(runs: Sequence[Run], options: Options) -> list[Table]:
    """``Model | Runtime | Threads | Latency (ms) | Grade | Model Size (MB) | Accuracy``.

    Ratios in turns stand before the latencies, where the runs have them: they decide. The precision follows the threads
    where there are several networks. It, batch, scenario and device have columns where they tell rows apart, accuracy
    where one was measured, and all of them always in a file for machines.
    """
    engines = short_engines(map(provider_of, runs))
    shared = 3 if len({threads_of(run) for run in runs}) == 1 else 0
    columns: Columns = [
        (Column(title="Model", name=True), _name),
        (Column(title="Runtime"), lambda run: Cell(text=provider_of(run), short=engines[provider_of(run)])),
        text_column("Threads", lambda run: threads_of(run) or "not reported", numeric=True, rank=shared),
    ]
    settings = (
        ("Precision", lambda run: network_precision(run) or "not reported"),
        ("Batch", lambda run: str(run.job.workload.batch)),
        ("Scenario", scenario_of),
        ("Device", lambda run: one_line(run.job.target.device)),
    )
    chosen = [[cell(run).text for _, cell in columns] for run in runs]
    several = len({run.job.model.sha256 for run in runs}) > 1 and any(map(network_precision, runs))
    for title, words in settings:
        needed = any(tells_apart(chosen, [words(run) for run in runs]))
        chosen = [[*own, words(run)] for own, run in zip(chosen, runs, strict=True)]
        wanted = title == "Precision" and several
        columns.append(text_column(title, words, hidden=not needed and not wanted, rank=0 if needed else 2))
    turns = _turns_column(runs)
    rank = 0 if not turns and sum(not column.hidden for column, _ in columns) == 3 else 1
    columns += [
        *turns,
        (Column(title="Latency (ms)", numeric=True), partial(_latency_beside_turns, firsts_in_turns(runs))),
        (Column(title="Grade"), _grade),
        (Column(title="Model Size (MB)", numeric=True, rank=rank), _model_size),
    ]
    judged = any(_accuracy(run).value is not None or run.evaluation is not None for run in runs)
    columns.append((Column(title="Accuracy", numeric=True, unit="%", hidden=not judged), _accuracy_and_data))
    return [table_of("Networks by engine", runs, columns)]


def _turns_column(runs: Sequence[Run]) -> Columns:
    """Return the column of ratios in turns; empty where no run took turns with the one to take."""
    if not (first := firsts_in_turns(runs)):
        return []

    def cell(run: Run) -> Cell:
        chosen = first.get(run.id)
        told = turns_cell(run, chosen)
        return _noted(told, _TURNS) if chosen is not None and run.id == chosen.id else told

    return [(Column(title="In turns", numeric=True), cell)]


def _latency_beside_turns(first: Mapping[str, Run], run: Run) -> Cell:
    """Return the latency measured alone; a footnote says where turns with the first row have the other order."""
    cell, chosen = _latency(run, marked=False), first.get(run.id)
    turns = run.turns_against(chosen) if chosen is not None else None
    if chosen is None or turns is None or cell.value is None or not (own := chosen.value("latency")):
        return cell
    alone = (run.value("latency") or 0.0) / own
    is_other = (turns.low or 0.0) > 1.0 > alone or (turns.high is not None and turns.high < 1.0 < alone)
    return _noted(cell, _OTHERWISE) if is_other else cell


def _grade(run: Run) -> Cell:
    """Return how far the latency can be trusted."""
    if run.value("latency") is None or run.trust is None:
        return absent(reason_of_absence(run, "latency"))
    return Cell(text=run.trust.grade, notes=(_VAGUE,) if is_unreliable(run) else ())


def _accuracy_and_data(run: Run) -> Cell:
    """Return the accuracy with a footnote on the data; without its interval where there is no room."""
    cell = _accuracy(run, sign=True)
    if cell.value is None:
        return cell
    data = f"judged on {judged_on(run)}" if run.evaluation is not None else ""
    return replace(cell, short=cell.text.partition(" [")[0], notes=(*cell.notes, *filter(None, [data])))


def _long_tables(runs: Sequence[Run], options: Options) -> list[Table]:
    """``Model | Size (MB) | Top-1 | Top-5 | Parameters | Depth | Time (ms) per inference step (CPU) | … (GPU)``."""
    columns: Columns = [
        (Column(title="Model"), _name),
        (Column(title="Size (MB)", numeric=True, rank=1), _model_size),
        (Column(title="Top-1 Accuracy", numeric=True, rank=3), _share("accuracy_top1", sign=True)),
        (Column(title="Top-5 Accuracy", numeric=True, rank=4), _share("accuracy_top5", sign=True)),
        (Column(title="Parameters", numeric=True, rank=2), _count("parameters")),
        (Column(title="Depth", numeric=True, rank=5), lambda run: _rewritten(cell_of(run, "depth"), "{:.0f}".format)),
        (Column(title="Time (ms) per inference step (CPU)", numeric=True), lambda run: _time_on(run, "CPU")),
        (Column(title="Time (ms) per inference step (GPU)", numeric=True, rank=6), lambda run: _time_on(run, "GPU")),
    ]
    notes = [
        "Time is the median of single inferences after warm-up with its 95 % interval; Depth counts operators on the "
        "longest path from an input to an output."
    ]
    for run, label in zip(runs, labels_of(runs), strict=True):
        platform = platform_of(run) or "platform not reported"
        notes.append(f"{label}: {platform}, batch {run.job.workload.batch}, {scenario_of(run)}")
    return [table_of("Models in detail", runs, columns, notes=notes)]


def _platform_tables(runs: Sequence[Run], options: Options) -> list[Table]:
    """Twelve columns from ``Target Device`` to ``Deployment Time (s)``: one row per run."""
    columns: Columns = [
        (Column(title="Target Device"), lambda run: _told(device_of(run), _NO_DEVICE)),
        (Column(title="Model Specs"), _specs),
        (Column(title="Accuracy (%)", numeric=True, rank=4), _accuracy),
        (Column(title="Latency (ms)", numeric=True), _latency),
        (Column(title="Throughput (inf/s)", numeric=True, rank=1), _measured("throughput")),
        (Column(title="Memory Usage (RAM)", numeric=True, rank=2), _memory),
        (Column(title="Energy (mWh)", numeric=True, rank=3), _ENERGY),
        (Column(title="Startup Time (ms)", numeric=True, rank=5), _measured("startup_time", 1e3)),
        (Column(title="Temperature (°C)", numeric=True, rank=6), _temperature),
        (Column(title="Complexity (OPS)", numeric=True, rank=7), _count("ops")),
        (Column(title="Compute Speed (MHz/GHz)", numeric=True, rank=8), _count("clock_rate", "Hz")),
        (Column(title="Deployment Time (s)", numeric=True, rank=9), _measured("deployment_time")),
    ]
    return [table_of("Target platforms", runs, columns)]


def _watch_tables(runs: Sequence[Run], options: Options) -> list[Table]:
    """Return the watch metrics of the model and of the hardware, a row per metric and a column per run."""
    small = any(run.value(metric) is not None for run in runs for metric in ("memory_arena", "flash"))
    parts = {
        "Model Watch Metrics": _MODEL_WATCH,
        "Target HW Platform Watch Metrics": (_MICROCONTROLLER_WATCH if small else {}) | _HARDWARE_WATCH,
    }
    tables = []
    for title, fields in parts.items():
        columns = [(Column(title=title), [Cell(text=name) for name in fields])]
        for label, run in zip(labels_of(runs), runs, strict=True):
            columns.append((Column(title=label, numeric=True), [cell(run) for cell in fields.values()]))
        tables.append(table_by_columns(title, columns))
    return tables


FIELD_TABLES: dict[str, Callable[[Sequence[Run], Options], list[Table]]] = {
    "zoo": _zoo_tables,
    "networks": _network_tables,
    "long": _long_tables,
    "watch": _watch_tables,
    "platform": _platform_tables,
}
"""Name on the command line → the tables it makes."""

_STEPS = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def usage_table(runs: Sequence[Run]) -> Table:
    """One row per run. Columns and units are Profiler's; the values come from counters, not from samples alone."""

    def name(run: Run) -> str:
        model = run.job.model
        return PurePath(model.name).stem if model.format != "program" else run.job.command[-1]

    def share(metric: str) -> Callable[[Run], str]:
        return lambda run: "n/a" if (value := run.value(metric)) is None else f"{100 * value:.2f}%"

    def sizes(*metrics: str) -> Callable[[Run], str]:
        return lambda run: " / ".join(binary_size(run.value(metric)) for metric in metrics)

    def memory(run: Run) -> str:
        limit = run.value("memory_limit")
        return f"{binary_size(run.value('memory_average'))} / {'no limit' if limit is None else binary_size(limit)}"

    columns: Columns = [
        text_column("NAME", name),
        text_column("AVG CPU %", share("cpu_utilization")),
        text_column("PEAK CPU", share("cpu_utilization_peak")),
        text_column("AVG MEM USAGE / LIMIT", memory),
        text_column("PEAK MEM", sizes("memory_group_peak")),
        text_column("NET I/O", sizes("network_received", "network_sent")),
        text_column("BLOCK I/O", sizes("block_read", "block_written")),
        (Column(title="TOTAL TIME (ms)", numeric=True), _total_time),
    ]
    return table_of("Final Usage Stats", runs, columns)


def _total_time(run: Run) -> Cell:
    total = run.value("total_time")
    return absent(failure_of(run)) if total is None else Cell(text=f"{1000 * total:.0f}", value=1000 * total)


def binary_size(value: float | None) -> str:
    """``"117.9 MiB"``, as Docker writes sizes; ``"n/a"`` where there is none."""
    if value is None:
        return "n/a"
    step, unit = next(((step, unit) for step, unit in _STEPS if value >= step), (1, "B"))
    return f"{value / step:.1f} {unit}" if step > 1 else f"{significant(value)} B"


def as_text(table: Table) -> str:
    """Return the table with aligned columns and dashes below the headings, in lines that end with a newline."""
    lines = [[column.title for column in table.columns], *([cell.text for cell in row] for row in table.rows)]
    widths = [max(len(line[index]) for line in lines) for index in range(len(table.columns))]
    lines.insert(1, ["-" * width for width in widths])
    return "".join("  ".join(map(str.ljust, line, widths)).rstrip() + "\n" for line in lines)
