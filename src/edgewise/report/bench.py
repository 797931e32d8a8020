"""What `edgewise bench` prints: tables, recommendation, cautions and footnotes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from edgewise.formatting import quantity, value_text
from edgewise.metrics import METRICS, SHARES
from edgewise.record import CAUTIONS, Run
from edgewise.record.facts import precision_of, threads_of
from edgewise.report.accuracy import chief_metric, judged_on
from edgewise.report.cells import Scale, basis_notes, cell_of, failure_of, label_of, reason_of_absence, times
from edgewise.report.conditions import (
    delegates_of,
    input_text,
    is_original,
    labels_of,
    path_of,
    processor_of,
    provider_of,
    scenario_of,
    short_providers,
    system_of,
)
from edgewise.report.document import DASH, Cell, Column, Document, Section, Table, Tone, absent
from edgewise.report.recommendation import (
    answer_of,
    comparable_groups,
    group_title,
    rank_models,
    recommendations,
    sweeps,
)
from edgewise.report.sustained import sustained_sections
from edgewise.run.agreement import BEYOND, NO_MAJORITY, REFERENCE
from edgewise.run.variation import reach_of
from edgewise.text import enumerate_few, one_line, tells_apart
from edgewise.units import significant

GRADE_TONES: dict[str, Tone] = {"A": "good", "B": "fair", "C": "poor", "D": "bad"}

_PREFIXES = {
    "s": (("s", 1.0), ("ms", 1e3), ("µs", 1e6), ("ns", 1e9)),
    "B": (("GB", 1e-9), ("MB", 1e-6), ("kB", 1e-3), ("B", 1.0)),
    "1/s": (("1/s", 1.0),),
}
MEMORY_PARTS = ("parameters_size", "memory_activations", "memory_engine")
"""What the memory of the model consists of."""

MOST_INPUT_LINES = 4
"""Number of different inputs that are printed without `--details`."""

LEAST_RANKED = 3
"""Number of models from which on a table ranks them; of two, the first line says which is faster."""

COMMAND_COLUMNS = (
    ("total_time", 0, True),
    ("cpu_utilization", 0, False),
    ("cpu_utilization_peak", 1, False),
    ("memory_average", 1, False),
    ("memory_group_peak", 0, False),
    ("memory_limit", 2, False),
    ("network_received", 3, False),
    ("network_sent", 3, False),
    ("block_read", 3, False),
    ("block_written", 3, False),
    ("cpu_time", 4, False),
    ("throttled_time", 4, False),
    ("memory_limit_hits", 5, False),
    ("page_faults", 6, False),
    ("page_faults_major", 6, False),
    ("context_switches", 6, False),
)
"""(metric, rank, interval in the text) of runs of commands."""

COLD_START_COLUMNS = (
    ("startup_time", 0, True),
    ("load_time", 0, False),
    ("latency_first", 0, False),
    ("import_time", 1, False),
    ("memory_delta", 2, False),
    ("memory_peak", 4, False),
)
"""(metric, rank, interval in the text) of cold starts."""

_EXPORT_COLUMNS = (("model_size", 1, False), ("output_max_abs_error", 0, False))
"""(metric, rank, interval in the text) that runs of a network's exports have besides."""

PERCENT = frozenset({"cpu_utilization", "cpu_utilization_peak"})
"""Metrics that may exceed 1 and are printed in percent; 100 % is one core."""

_TITLES = {
    "cpu_utilization": "CPU",
    "memory_group_peak": "Peak memory",
    "latency_first": "First",
    "memory_delta": "Model memory",
    "memory_peak": "Process peak",
    "parameters_size": "Weights",
    "memory_activations": "Activations",
    "memory_engine": "Engine",
    "output_max_abs_error": "Max error",
}

_WIDEST = 1e5
"""A column has one unit unless its largest value would then need more digits than this."""


def bench_document(runs: Sequence[Run], *, title: str = "") -> Document:
    """Tables, recommendation, cautions, agreement of outputs and missing values of `runs`, in their order."""
    tables = bench_tables(runs)
    in_engines = [run for run in runs if not run.job.command]
    sections = [
        *recommendation_sections(in_engines),
        *sustained_sections(runs),
        *input_sections(runs),
        *_settings(in_engines),
        *interval_sections(runs),
        *caution_sections(runs),
        *_agreement(runs),
        *_paths(runs),
        *_judged(runs),
        *_absences(runs, tables),
    ]
    rankings = [_ranking(sweep) for sweep in sweeps(runs) if len(comparable_groups(sweep)) >= LEAST_RANKED]
    return Document(
        title=title or default_title(runs),
        tables=(*rankings, *tables),
        sections=tuple(sections),
        answer=answer_of(runs),
    )


def default_title(runs: Sequence[Run]) -> str:
    """The models of the runs and the processor they were measured on."""
    models = list(dict.fromkeys(one_line(run.job.model.name) for run in runs))
    names = ", ".join(models) if len(models) <= 3 else f"{len(models)} models"
    places = list(dict.fromkeys(place for run in runs if (place := processor_of(run) or system_of(run))))
    return f"{names} on {places[0]}" if len(places) == 1 else names


def bench_tables(runs: Sequence[Run]) -> list[Table]:
    """One table per kind of scenario, each with the columns of that scenario."""
    kinds = dict.fromkeys(run.job.workload.scenario.kind for run in runs)
    return [bench_table([run for run in runs if run.job.workload.scenario.kind == kind]) for kind in kinds]


def bench_table(runs: Sequence[Run]) -> Table:
    """One row per run; columns with one value in every row are hidden, and only CSV files have them."""
    columns: list[Column] = []
    cells: list[list[Cell]] = []

    def add(column: Column, column_cells: list[Cell]) -> None:
        columns.append(column)
        cells.append(column_cells)

    for column, column_cells in _identity(runs):
        add(column, column_cells)
    exported = any(run.job.model.origin is not None for run in runs)
    if exported:
        paths = [path_of(run) for run in runs]
        add(Column(title="Path"), [Cell(text=whole or "–", short=short) for whole, short in paths])
    for metric, rank, interval in [*_metric_columns(runs), *(_EXPORT_COLUMNS if exported else ())]:
        add(*metric_column(runs, metric, rank=rank, interval=interval))
        if interval and metric != "throughput" and (found := _percentile_column(runs, metric, "p99")):
            add(*found)
    add(Column(title="Grade", rank=0), [_grade(run) for run in runs])
    rows = zip(*cells, strict=True) if runs else ()
    return Table(title=_table_title(runs), columns=tuple(columns), rows=tuple(tuple(row) for row in rows))


def _ranking(runs: Sequence[Run]) -> Table:
    """One row per model, the fastest first."""
    ranked = rank_models(runs)
    chosen = [one.run for one in ranked]
    identity = {column.title: (column, cells) for column, cells in _identity(chosen)}
    memory = "memory_group_peak" if chosen[0].job.command else "memory_delta"
    found = [
        identity["Run"],
        (Column(title="Place"), [Cell(text=str(one.place or "–"), value=one.place) for one in ranked]),
        identity["Model"],
        identity["Runtime"],
        metric_column(chosen, chosen[0].headline, rank=0, interval=True),
        metric_column(chosen, "model_size", rank=0, interval=False),
        metric_column(chosen, memory, rank=0, interval=False),
        (Column(title="Grade", rank=1), [_grade(run) for run in chosen]),
    ]
    notes = ["models that share a place are not proven different from its first: intervals overlap or are not known"]
    if any(one.place is None for one in ranked):
        notes.append("–: not ranked, as no run of the model qualifies (failed, unreliable or outputs differ)")
    columns, cells = zip(*found, strict=True)
    scope = group_title(chosen[0]).partition(", ")[2]
    return Table(
        title=f"Models, fastest first: {scope}",
        columns=columns,
        rows=tuple(zip(*cells, strict=True)),
        notes=tuple(notes),
    )


def _table_title(runs: Sequence[Run]) -> str:
    groups = comparable_groups(runs)
    if len(groups) == 1:
        return group_title(groups[0][0])
    kinds = {run.job.workload.scenario.kind for run in runs}
    return f"Benchmark, {kinds.pop()}" if len(kinds) == 1 else "Benchmark"


def _identity(runs: Sequence[Run]) -> list[tuple[Column, list[Cell]]]:
    """The columns that identify a row; those that all rows share are left out first on a narrow terminal."""
    chosen: list[list[str]] = [[] for _ in runs]

    def column(title: str, words: Callable[[Run], str | None], *, always: bool = False) -> tuple[Column, list[Cell]]:
        found = [words(run) for run in runs]
        # A run whose engine does not report the value does not differ from the others in it.
        varies = len({word for word in found if word}) > 1
        told = [word or "" for word in found]
        needed = any(tells_apart(chosen, told))
        for own, word in zip(chosen, told, strict=True):
            own.append(word)
        cells = [
            Cell(text=word or ("–" if run.status == "failed" else "not reported"))
            for word, run in zip(found, runs, strict=True)
        ]
        rank = 0 if needed else 2 if varies else 9
        return Column(title=title, rank=rank, hidden=not (varies or always), name=title == "Model"), cells

    model = column("Model", lambda run: one_line(run.job.model.name), always=True)
    short, engines = short_providers(runs), [provider_of(run) for run in runs]
    runtime, names = column("Runtime", provider_of, always=True)
    names = [replace(cell, text=words, short=short.get(words, "")) for cell, words in zip(names, engines, strict=True)]
    return [
        (Column(title="Run", hidden=True), [Cell(text=run.id) for run in runs]),
        (Column(title="Status", hidden=True), [Cell(text=_status(run)) for run in runs]),
        model,
        (replace(runtime, rank=0, name=True), names),
        column("Threads", lambda run: str(threads) if (threads := threads_of(run)) else None),
        column("Batch", lambda run: str(run.job.workload.batch)),
        column("Precision", precision_of),
        column("Scenario", scenario_of),
        column("Device", lambda run: one_line(run.job.target.device)),
    ]


def _status(run: Run) -> str:
    return f"{run.status}: {run.failure.cause}" if run.failure is not None else run.status


def _metric_columns(runs: Sequence[Run]) -> list[tuple[str, int, bool]]:
    """(metric, rank, interval in the text) of the columns that these scenarios call for."""
    headlines = {run.headline for run in runs}
    if headlines == {"total_time"}:
        return list(COMMAND_COLUMNS)
    if headlines == {"startup_time"}:
        return list(COLD_START_COLUMNS)
    columns: list[tuple[str, int, bool]] = []
    if "latency_paced" in headlines:
        columns += [("latency_paced", 0, True), ("deadline_miss_rate", 1, False)]
    columns += [(metric, 0, True) for metric in ("latency_engine", "latency_mean") if metric in headlines]
    if headlines - {"throughput"}:
        columns.append(("latency", 0 if "latency" in headlines else 2, True))
    columns.append(("memory_delta", 0, False))
    if headlines - {"latency_paced"}:
        columns.append(("throughput", 0 if headlines == {"throughput"} else 3, "throughput" in headlines))
    judged = dict.fromkeys(metric for run in runs if (metric := chief_metric(run)) is not None)
    columns += [(metric, 1, True) for metric in judged]
    columns += [("latency_first", 5, False), ("load_time", 6, False), ("memory_peak", 4, False)]
    if any(run.value("energy") is not None for run in runs):
        columns.append(("energy", 4, False))
    parts = [metric for metric in MEMORY_PARTS if any(run.value(metric) is not None for run in runs)]
    return columns + [(metric, 7, False) for metric in parts]


def metric_column(runs: Sequence[Run], metric: str, *, rank: int, interval: bool) -> tuple[Column, list[Cell]]:
    """One metric down the rows, in one unit where that reads well, else with a unit per cell."""
    unit = METRICS[metric].unit
    known = [value for run in runs if (value := run.value(metric)) is not None]
    # What has no unit and is not a share, such as an error in the labels' own, is read as it is.
    plain = unit == "1" and metric not in SHARES | PERCENT
    word, scale = ("", times(1.0)) if plain else _common_unit(known, unit)
    title = _TITLES.get(metric, METRICS[metric].label)
    shown = f"{title} ({word})" if word else title
    cells = []
    for run in runs:
        if run.status == "failed":
            cells.append(_failed(run, metric))
            continue
        cell = cell_of(run, metric, scale=scale, interval=interval)
        if not (word or plain) and cell.value is not None:
            cell = replace(cell, text=value_text(metric, unit, cell.value))
        cells.append(cell)
    return Column(title=shown, numeric=True, rank=rank, unit="" if word else unit), cells


def _failed(run: Run, metric: str) -> Cell:
    """The cause of the failure in the headline's column, a dash in the others."""
    if metric == run.headline:
        return Cell(
            text=run.failure.cause if run.failure is not None else "failed", notes=(failure_of(run),), tone="bad"
        )
    return DASH


def _common_unit(values: Sequence[float], unit: str) -> tuple[str, Scale]:
    """The unit of a column and the scale from the SI unit to it; no unit where cells need their own."""
    choices = (("%", 100.0),) if unit == "1" else _PREFIXES.get(unit)
    positive = [abs(value) for value in values if value and math.isfinite(value)]
    if choices is None or not positive:
        return ("%", times(100.0)) if unit == "1" else ("", times(1.0))
    least, largest = min(positive), max(positive)
    for word, factor in choices:
        if least * factor >= 0.0995 and largest * factor >= 0.9995:
            return (word, times(factor)) if largest * factor < _WIDEST else ("", times(1.0))
    word, factor = choices[-1]
    return word, times(factor)


def _percentile_column(runs: Sequence[Run], metric: str, name: str) -> tuple[Column, list[Cell]] | None:
    """A percentile down the rows; None where no run has enough samples for it."""
    found = [_percentile(run, metric, name) for run in runs]
    known = [value for value in found if value is not None]
    if not known:
        return None
    word, scale = _common_unit(
        [value for run in runs if (value := run.value(metric)) is not None], METRICS[metric].unit
    )
    cells = []
    for run, value in zip(runs, found, strict=True):
        if run.status == "failed":
            cells.append(DASH)
        elif value is None:
            reason = reason_of_absence(run, metric) if run.value(metric) is None else f"too few samples for {name}"
            cells.append(absent(reason))
        else:
            text = significant(scale(value)) if word else quantity(value, METRICS[metric].unit)
            row = run.measurement(metric)
            cells.append(Cell(text=text, value=scale(value), notes=basis_notes(row) if row else ()))
    title = name if metric == "latency" else f"paced {name}"
    return Column(title=f"{title} ({word})" if word else title, numeric=True, rank=3, unit="" if word else "s"), cells


def _percentile(run: Run, metric: str, name: str) -> float | None:
    row = run.measurement(metric)
    return row.summary.percentiles.get(name) if row is not None and row.summary is not None else None


def _grade(run: Run) -> Cell:
    if run.status != "done":
        return Cell(text=run.status, tone="bad")
    if run.trust is None:
        return absent("the run has no trust grade")
    return Cell(text=run.trust.grade, tone=GRADE_TONES[run.trust.grade])


def input_sections(runs: Sequence[Run]) -> list[Section]:
    """The inputs that the models were given."""
    lines = _grouped(runs, input_text)
    if not lines:
        return []
    brief = lines[0] if len(lines) == 1 else f"{len(lines)} different inputs" if len(lines) > MOST_INPUT_LINES else None
    return [Section(title="Inputs", lines=lines, brief=brief)]


def _grouped(runs: Sequence[Run], words_of: Callable[[Run], str]) -> tuple[str, ...]:
    """What `words_of` says of each run, one line for those of which it says the same; nothing where it is empty."""
    said: dict[str, list[str]] = {}
    for run, label in zip(runs, labels_of(runs), strict=True):
        if words := words_of(run):
            said.setdefault(words, []).append(label)
    return tuple(f"{_who(who, len(runs))}{words}" for words, who in said.items())


def _settings(runs: Sequence[Run]) -> list[Section]:
    """Settings in force in each engine, as defaults differ: threads, precision; and the engine's own timing."""

    def settings(run: Run) -> str:
        threads = threads_of(run)
        words = ["threads not reported" if threads is None else f"{threads} thread{'s' if threads > 1 else ''}"]
        words.append(precision_of(run) or "precision not reported")
        words += delegates_of(run)
        words += [one_line(run.job.runtime.options_in_words)] if run.job.runtime.options else []
        if (engine := run.value("latency_engine")) is not None:
            words.append(f"{quantity(engine, 's')} by the engine's own clock")
        if (used := run.value("background_cpu")) is not None:
            words.append(f"{significant(used)} cores used by the background load")
        return ", ".join(words) if run.status != "failed" else ""

    lines = _grouped(runs, settings)
    return [Section(title="Ran with", lines=lines, brief="")] if lines else []


def interval_sections(runs: Sequence[Run]) -> list[Section]:
    """What the intervals of the table cover, and the narrower intervals within each run."""
    within: list[str] = []
    methods: dict[str, None] = {}
    for run, label in zip(runs, labels_of(runs), strict=True):
        row = run.measurement(run.headline)
        if run.variation is None or row is None or row.within_half_width is None:
            continue
        within.append(f"{label} ± {row.within_half_width:.1%}" if len(runs) > 1 else f"± {row.within_half_width:.1%}")
        methods[f"± {reach_of(run.variation):.1%}, {one_line(run.variation.method)}"] = None
    if not within:
        return []
    machine = "the same" if any(run.source is not None for run in runs) else "this"
    lines = (f"for a re-run on {machine} machine, 95 %", *(f"between runs: {method}" for method in methods))
    said = (*lines, f"within this run: {', '.join(within)}")
    return [Section(title="Intervals", lines=said, brief=lines[0])]


def recommendation_sections(runs: Sequence[Run]) -> list[Section]:
    """One section per group of comparable runs."""
    sections = []
    found = recommendations(runs)
    for one in found:
        scope = f" for {one.group}" if len(found) > 1 else ""
        if one.run is None:
            sections.append(Section(title=f"No recommendation{scope}", lines=one.why, tone="poor", brief=""))
        else:
            sections.append(Section(title=f"Recommended{scope}: {one.label}", lines=one.why, tone="good", brief=""))
    return sections


def caution_lines(runs: Sequence[Run]) -> list[str]:
    """One line per kind of caution: the runs, the observation, the advice; equal messages are merged."""
    labels = labels_of(runs)
    by_code: dict[str, dict[str, list[str]]] = {}
    advice: dict[str, str] = {}
    for run, label in zip(runs, labels, strict=True):
        for caution in run.cautions:
            by_code.setdefault(caution.code, {}).setdefault(one_line(caution.message), []).append(label)
            advice.setdefault(caution.code, one_line(caution.advice))
    lines = []
    for code, messages in by_code.items():
        said = "; ".join(f"{_who(who, len(runs))}{message}" for message, who in messages.items())
        lines.append(f"{code}: {said}" + (f" → {advice[code]}" if advice[code] else ""))
    graded: dict[str, list[str]] = {}
    for run, label in zip(runs, labels, strict=True):
        if run.status == "done" and run.trust is not None:
            for reason in uncovered_reasons(run):
                graded.setdefault(f"grade {run.trust.grade}: {reason}", []).append(label)
    return lines + [f"{_who(who, len(runs))}{said}" for said, who in graded.items()]


def uncovered_reasons(run: Run) -> list[str]:
    """Reasons of the run's grade that none of its cautions has said."""
    said = tuple(one_line(caution.message) for caution in run.cautions)
    reasons = map(one_line, run.trust.reasons) if run.trust is not None else ()
    return [reason for reason in reasons if not (said and reason.startswith(said))]


def _who(labels: Sequence[str], total: int) -> str:
    """The runs that a statement is about, as the beginning of a line."""
    if total == 1:
        return ""
    return "all runs: " if len(labels) == total else f"{enumerate_few(labels)}: "


def caution_sections(runs: Sequence[Run]) -> list[Section]:
    """Cautions and the reasons of the grades."""
    lines = caution_lines(runs)
    return [Section(title="Cautions", lines=tuple(lines), tone="poor", brief=_brief_cautions(runs))] if lines else []


def _brief_cautions(runs: Sequence[Run]) -> str:
    """Every kind of caution with the number of runs that have it, the most severe first."""
    by_code: dict[str, list[str]] = {}
    for run, label in zip(runs, labels_of(runs), strict=True):
        for code in dict.fromkeys(one_line(each.code) for each in run.cautions):
            by_code.setdefault(code, []).append(label)
    if not by_code:
        return "see the reasons of the grades"
    unequal = ("output-mismatch", "output-not-finite")
    order = sorted(by_code, key=lambda code: (code in unequal, CAUTIONS.get(code, ("A", ""))[0]), reverse=True)
    if len(runs) == 1:
        return ", ".join(order)
    first, *rest = [f"{code} ({len(by_code[code])}" for code in order]
    return f"{first} of {len(runs)} runs)" + "".join(f", {words})" for words in rest)


def _agreement(runs: Sequence[Run]) -> list[Section]:
    """How far each run's outputs are from the reference's, one line per way of comparing."""
    found: dict[str, list[str]] = {}
    for run, label in zip(runs, labels_of(runs), strict=True):
        error, top1 = run.measurement("output_max_abs_error"), run.measurement("agreement_top1")
        if error is None:
            continue
        if error.absent_because == REFERENCE:
            continue
        if error.value is None:
            reason = reason_of_absence(run, "output_max_abs_error")
            found.setdefault(reason, []).append(f"{label} n/a")
            continue
        words = [f"max abs error {significant(error.value)}"]
        words += [f"top-1 agreement {top1.value:.1%}"] if top1 is not None and top1.value is not None else []
        method, _, _ = one_line(error.method).partition(f"; {BEYOND}")
        verdict = "differs" if error.method.endswith(BEYOND) or _is_odd(run) else "agrees"
        found.setdefault(method, []).append(f"{label} {verdict} ({', '.join(words)})")
    lines = [f"{method}: {'; '.join(said)}" for method, said in found.items()]
    unequal = [words for said in found.values() for words in said if " agrees (" not in words]
    with_what = "with the original" if any(is_original(run) for run in runs) else "between runtimes"
    brief = "; ".join(unequal) if unequal else f"agree {with_what} ({sum(map(len, found.values()))} compared)"
    return [Section(title="Outputs", lines=tuple(lines), brief=brief)] if lines else []


def _paths(runs: Sequence[Run]) -> list[Section]:
    """How the file of each run was made of its network, and what the export lost."""

    def words(run: Run) -> str:
        origin, (path, _) = run.job.model.origin, path_of(run)
        if origin is None:
            return ""
        if origin.original:
            return f"the network as {one_line(origin.target)} builds it"
        return path + (f"; lost: {one_line('; '.join(origin.lost))}" if origin.lost else "; nothing known to be lost")

    lines = _grouped(runs, words)
    return [Section(title="Paths", lines=lines)] if lines else []


def _is_odd(run: Run) -> bool:
    """Whether a majority of runs has other outputs. Without a majority the caution is on all runs, also on those
    that agree with the reference.
    """
    return any(each.code == "output-mismatch" and NO_MAJORITY not in each.message for each in run.cautions)


def _judged(runs: Sequence[Run]) -> list[Section]:
    """The data that accuracies were measured on."""
    lines = _grouped(runs, judged_on)
    return [Section(title="Accuracy", lines=lines)] if lines else []


def _absences(runs: Sequence[Run], tables: Sequence[Table]) -> list[Section]:
    """Values that the runs could not measure, with reasons, unless a footnote of a table has them."""
    said = {note for table in tables for row in table.rows for cell in row for note in cell.notes} | {REFERENCE}
    by_reason: dict[str, dict[str, list[str]]] = {}
    for run, label in zip(runs, labels_of(runs), strict=True):
        for row in run.measurements:
            if row.value is None and (reason := reason_of_absence(run, row.metric)) not in said:
                by_reason.setdefault(reason, {}).setdefault(label_of(row.metric), []).append(label)
    telling = sum(run.status != "failed" for run in runs)
    lines = []
    brief = ", ".join(dict.fromkeys(metric for metrics in by_reason.values() for metric in metrics))
    for reason, metrics in by_reason.items():
        who = list(dict.fromkeys(label for labels in metrics.values() for label in labels))
        scope = "" if len(who) == telling else f" ({enumerate_few(who)})"
        lines.append(f"{', '.join(metrics)}{scope}: {reason}")
    return [Section(title="Not known", lines=tuple(lines), tone="faint", brief=brief)] if lines else []
