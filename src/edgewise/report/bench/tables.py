"""The tables of `edgewise bench`: a row per run, or per model from the fastest to the slowest."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import median

from edgewise.comparing.fairness import limits_text
from edgewise.formatting import factor_text, quantity, times_text, value_text
from edgewise.metrics import METRICS, SHARES
from edgewise.record import Run
from edgewise.record.facts import environment_words, precision_of, threads_of, variable_words
from edgewise.report.bench.answer import chosen_of
from edgewise.report.bench.generated import GENERATED_COLUMNS, GENERATED_ENERGY, depth_of, is_generated, prompt_of
from edgewise.report.bench.ranking import RankedModel, comparable_groups, rank_models, sweeps, why_open
from edgewise.report.bench.recommendation import group_title
from edgewise.report.bench.values import parts_of_start_up
from edgewise.report.document import DASH, Cell, Column, Table, Tone, absent, table_by_columns
from edgewise.report.runs.cells import Scale, basis_notes, cell_of, chief_metric, failure_of, reason_of_absence, times
from edgewise.report.runs.conditions import (
    command_of,
    elsewhere,
    engine_of,
    mechanisms_of,
    path_of,
    processor_of,
    provider_of,
    scenario_of,
    shared_command,
    short_engines,
)
from edgewise.report.runs.provenance import how_of
from edgewise.text import listing, one_line, tells_apart
from edgewise.units import SCALES, significant

GRADE_TONES: dict[str, Tone] = {"A": "good", "B": "fair", "C": "poor", "D": "bad"}
_PREFIXES = {
    "s": (("s", 1.0), ("ms", 1e3), ("µs", 1e6), ("ns", 1e9)),
    "B": tuple((name, 1 / size) for size, name in SCALES["B"]),
    "1/s": (("1/s", 1.0),),
}
MEMORY_PARTS = ("parameters_size", "memory_activations", "memory_engine")
"""What the memory of the model consists of."""
COMMAND_COLUMNS = (
    ("total_time", 0, True), ("cpu_utilization", 0, False), ("cpu_utilization_peak", 4, False),
    ("cpu_time", 1, True), ("throttled_time", 1, False), ("memory_average", 2, False),
    ("memory_group_peak", 0, False), ("memory_limit", 3, False), ("memory_limit_hits", 3, False),
    ("network_received", 5, False), ("network_sent", 5, False), ("block_read", 5, False), ("block_written", 5, False),
    ("page_faults", 6, False), ("page_faults_major", 6, False), ("context_switches", 6, False),
)  # fmt: skip
"""(metric, rank, interval in the text) of runs of commands."""
COLD_START_COLUMNS = (
    ("startup_time", 0, True), ("load_time", 0, False), ("latency_first", 0, False), ("import_time", 1, False),
    ("compile_time", 1, False), ("memory_delta", 2, False), ("memory_peak", 4, False),
)  # fmt: skip
"""(metric, rank, interval in the text) of cold starts; after the engine's import follows the start of Python."""
_EXPORT_COLUMNS = (("model_size", 2, False), ("output_max_abs_error", 0, False))
"""(metric, rank, interval in the text) that runs of a network's exports have besides."""
_START_UP = (
    "each start-up is the sum of its parts: Python, engine import, load, first inference, and compiling where the "
    "engine does that; medians of parts need not add up to the median of sums, and First is the call alone, without "
    "up to a few ms around it in edgewise's process"
)
PERCENT = frozenset({"cpu_utilization", "cpu_utilization_peak"})
"""Metrics that may exceed 1 and are printed in percent; 100 % is one core."""
_TITLES = {
    "cpu_utilization": "CPU", "memory_group_peak": "Peak memory", "memory_limit_hits": "Limit reached",
    "latency_first": "First", "ttft": "First text", "ttft_model": "First token", "ttft_first": "First text, cold",
    "decode_rate": "Tokens", "prefill_rate": "Prompt tokens", "memory_delta": "Model memory",
    "memory_peak": "Process peak", "parameters_size": "Weights", "memory_activations": "Activations",
    "memory_engine": "Engine", "output_max_abs_error": "Max error",
}  # fmt: skip
_SMALLEST = 0.00995
"""Smallest value of a column whose median gives it its unit."""
_WIDEST = 1e5
"""A column has one unit unless its largest value would then need more digits than this."""


def bench_tables(runs: Sequence[Run]) -> list[Table]:
    """One table per kind of scenario, each with the columns of that scenario."""
    kinds = dict.fromkeys(run.job.workload.scenario.kind for run in runs)
    return [
        bench_table([run for run in runs if run.job.workload.scenario.kind == kind], by_turns=True) for kind in kinds
    ]


def bench_table(runs: Sequence[Run], *, by_turns: bool = False) -> Table:
    """One row per run; columns with one value in every row are hidden, and only CSV files have them.

    Args:
        by_turns: where runs took turns with the one to take, a column has their ratios to it, which order the rows.
    """
    first = firsts_in_turns(runs) if by_turns else {}
    runs = _in_order_of_turns(runs, first) if first else runs
    columns = _identity(runs)
    exported = any(run.job.model.origin is not None for run in runs)
    if exported:
        paths = [path_of(run) for run in runs]
        columns.append((Column(title="Path"), [Cell(text=whole or "–", short=short) for whole, short in paths]))
    # With the name of the model 80 columns have no room for its memory beside the ratio, which orders the rows.
    without = {"memory_delta": 2} if first and len({run.job.model.name for run in runs}) > 1 else {}
    for metric, rank, interval in [*_metric_columns(runs), *(_EXPORT_COLUMNS if exported else ())]:
        columns.append(metric_column(runs, metric, rank=without.get(metric, rank), interval=interval))
        if metric == "import_time":
            columns.append(_python_column(runs, rank=rank))
        is_time = metric not in ("throughput", "decode_rate", "cpu_time")
        if interval and is_time and (found := _percentile_column(runs, metric, "p99")):
            columns.append(found)
    columns.append((Column(title="Grade", rank=0), [_grade(run) for run in runs]))
    notes = (
        [_START_UP] if any(map(parts_of_start_up, runs)) and any(run.headline == "startup_time" for run in runs) else []
    )
    if first:
        columns.append((Column(title="In turns", numeric=True), [turns_cell(run, first.get(run.id)) for run in runs]))
        several = len({run.id for run in first.values()}) > 1
        what = listing(list(dict.fromkeys(METRICS[run.headline].label.lower() for run in first.values())))
        row = "the row with 1 above it" if several else "the first row"
        notes += [
            f"in turns: {what} as a multiple of that of {row}, within these minutes, which decides; the other columns "
            "are of each run measured alone"
        ]
    return table_by_columns(_table_title(runs), columns, notes=notes)


def _python_column(runs: Sequence[Run], *, rank: int) -> tuple[Column, list[Cell]]:
    """Return the part of a start-up before anything is imported, the median over the processes."""
    known = [parts_of_start_up(run).get("starting Python", []) for run in runs]
    word, scale = _common_unit([median(times) for times in known if times], "s")

    def cell(times: Sequence[float]) -> Cell:
        if not times:
            return absent("the record has no times of the parts of a start-up")
        value = median(times)
        return Cell(text=significant(scale(value)) if word else quantity(value, "s"), value=scale(value))

    return _column("Python", word, scale, "startup_time", rank=rank), list(map(cell, known))


def firsts_in_turns(runs: Sequence[Run]) -> dict[str, Run]:
    """Return for each run of `sweeps` whose runs took turns the one of them to take, by id; {} where none did."""
    first = dict[str, Run]()
    for sweep in sweeps(runs) if any(run.in_turns for run in runs) else ():
        chosen = chosen_of(sweep)
        if chosen is not None and any(run.turns_against(chosen) for run in sweep):
            first |= {run.id: chosen for run in sweep}
    return first


def _in_order_of_turns(runs: Sequence[Run], first: Mapping[str, Run]) -> list[Run]:
    """Return each run to take, those that took turns with it by their ratios, and the rest as they were."""

    def place(run: Run) -> tuple[int, float]:
        chosen = first.get(run.id)
        turns = run.turns_against(chosen) if chosen is not None else None
        if chosen is None or run.id == chosen.id or turns is None:
            return (0 if chosen is not None and run.id == chosen.id else 2), 0.0
        return 1, -turns.ratio if METRICS[chosen.headline].better == "higher" else turns.ratio

    return [run for sweep in sweeps(runs) for run in sorted(sweep, key=place)]


def turns_cell(run: Run, chosen: Run | None) -> Cell:
    """Return the ratio in turns to the run to take; a dash where it took no turns with that."""
    if chosen is not None and run.id == chosen.id:
        return Cell(text="1", value=1.0)
    if chosen is None or (turns := run.turns_against(chosen)) is None:
        return DASH
    text = times_text(turns.ratio, turns.low, turns.high)
    open_ = "no order of the two is proven"
    notes = (why_open(turns, open_) or open_,) if turns.verdict == "inconclusive" else ()
    short = factor_text(turns.ratio)
    return Cell(text=text, short=short, value=turns.ratio, low=turns.low, high=turns.high, notes=notes)


def ranking_table(runs: Sequence[Run], *, where: str = "") -> Table:
    """One row per model, the fastest first; `where` ends the title."""
    ranked = rank_models(runs)
    chosen = [one.run for one in ranked]
    identity = {column.title: (column, cells) for column, cells in _identity(chosen)}
    memory = "memory_group_peak" if chosen[0].job.command else "memory_delta"
    found = [
        identity["Run"],
        (Column(title="Place"), list(map(_place, ranked))),
        identity["Model"],
        identity["Runtime"],
        metric_column(chosen, chosen[0].headline, rank=0, interval=True),
        *([] if all(map(command_of, chosen)) else [metric_column(chosen, "model_size", rank=2, interval=False)]),
        metric_column(chosen, memory, rank=0, interval=False),
        (Column(title="Grade", rank=1), [_grade(run) for run in chosen]),
    ]
    places = [one.place for one in ranked if one.place is not None]
    notes = ["models that share a place: none is proven faster than another"] if len({*places}) < len(places) else []
    if any(one.is_likely_apart for one in ranked):
        notes.append("a ratio within a place may leave out 1: its 95 % interval is narrower than what a proof takes")
    if any(one.place is None for one in ranked):
        notes.append("–: not ranked, as no run of the model qualifies (failed, unreliable or outputs differ)")
    scope = group_title(chosen[0]).partition(", ")[2]
    return table_by_columns(f"Models, fastest first: {scope}{where}", found, notes=notes)


def _place(one: RankedModel) -> Cell:
    return Cell(text=str(one.place or "–"), value=one.place, notes=(one.note,) if one.note else ())


def _table_title(runs: Sequence[Run]) -> str:
    groups = comparable_groups(runs)
    if len(groups) == 1:
        return group_title(groups[0][0]) + elsewhere(runs)
    kinds = {run.job.workload.scenario.kind for run in runs}
    shared = f": {shared}" if (shared := shared_command(runs)) else ""
    return (f"Benchmark, {kinds.pop()}{shared}" if len(kinds) == 1 else "Benchmark") + elsewhere(runs)


def _identity(runs: Sequence[Run]) -> list[tuple[Column, list[Cell]]]:
    """Return the columns that identify a row; those that all rows share are left out first on a narrow terminal."""
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
        name = title == "Model" or (needed and varies)
        return Column(title=title, rank=rank, hidden=not (varies or always), name=name), cells

    limited = any(run.job.target.constraints for run in runs)
    model = column("Model", lambda run: one_line(run.job.model.name), always=True)
    mechanism = len(runs) > 1 == len(mechanisms_of(runs)) and all(run.job.command for run in runs)
    runtime, names = column("Runtime", provider_of, always=True)
    engines = short_engines(cell.text for cell in names)
    names = [replace(cell, short=engines[cell.text]) for cell in names]
    return [
        (Column(title="Run", hidden=True), [Cell(text=run.id) for run in runs]),
        (Column(title="Status", hidden=True), [Cell(text=_status(run)) for run in runs]),
        model,
        (replace(runtime, rank=3 if mechanism else 0, name=not mechanism), names),
        column("Threads", lambda run: str(threads) if (threads := threads_of(run)) else None),
        column("Batch", lambda run: str(run.job.workload.batch)),
        column("Precision", precision_of),
        *([column("Prompt", prompt_of), column("Depth", depth_of)] if any(map(is_generated, runs)) else []),
        column("Scenario", lambda run: None if is_generated(run) else scenario_of(run)),
        column("Device", lambda run: one_line(run.job.target.device)),
        *([column("Limits", lambda run: limits_text(run.job))] if limited else []),
        column("Environment", lambda run: environment_words(run.job.target.environment)),
        column("Variables", lambda run: variable_words(run.job.target.variables)),
        (Column(title="Engine version", hidden=True), [Cell(text=engine_of(run)) for run in runs]),
        (Column(title="Processor", hidden=True), [Cell(text=processor_of(run) or "not reported") for run in runs]),
    ]


def _status(run: Run) -> str:
    return f"{run.status}: {run.failure.cause}" if run.failure is not None else run.status


def _metric_columns(runs: Sequence[Run]) -> list[tuple[str, int, bool]]:
    """(metric, rank, interval in the text) of the columns that these scenarios call for, each metric once."""
    apart = {"total_time": COMMAND_COLUMNS, "startup_time": COLD_START_COLUMNS, "tpot": GENERATED_COLUMNS}
    others = [run for run in runs if run.headline not in apart]
    columns = _inference_columns(others) if others else []
    if any(run.value("energy_per_token") is not None for run in runs):
        apart["tpot"] += GENERATED_ENERGY
    for headline in dict.fromkeys(run.headline for run in runs if run.headline in apart):
        known = {metric for metric, _, _ in columns}
        columns += [column for column in apart[headline] if column[0] not in known]
    if all(run.measurement("compile_time") is None for run in runs):
        columns = [column for column in columns if column[0] != "compile_time"]
    return columns


def _inference_columns(runs: Sequence[Run]) -> list[tuple[str, int, bool]]:
    """Return the same of runs that time inferences."""
    headlines = {run.headline for run in runs}
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
    word, scale = ("", times(1.0)) if plain or metric == "memory_limit" else _common_unit(known, unit)
    title = _TITLES.get(metric, METRICS[metric].label)
    cells = []
    for run in runs:
        if run.status == "failed" and (metric == run.headline or run.value(metric) is None):
            cells.append(_failed(run, metric))
            continue
        cell = cell_of(run, metric, scale=scale, interval=interval)
        if not (word or plain) and cell.value is not None:
            cell = replace(cell, text=value_text(metric, unit, cell.value))
        cells.append(cell)
    return _column(title, word, scale, metric, rank=rank), cells


def _column(title: str, word: str, scale: Scale, metric: str, *, rank: int) -> Column:
    """Return the column of a metric whose numbers are shown in the unit `word`; no word where cells have their own."""
    unit = METRICS[metric].unit
    in_si = (f"{title} ({unit})", 1.0 / scale(1.0)) if word not in ("", "%") else None
    return Column(
        title=f"{title} ({word})" if word else title, numeric=True, rank=rank, unit="" if word else unit, in_si=in_si
    )


def _failed(run: Run, metric: str) -> Cell:
    """Return the cause of the failure in the headline's column, a dash in others that are not known."""
    if metric == run.headline:
        return Cell(
            text=run.failure.cause if run.failure is not None else "failed", notes=(failure_of(run),), tone="bad"
        )
    return DASH


def _common_unit(values: Sequence[float], unit: str) -> tuple[str, Scale]:
    """Return the unit of a column and the scale from the SI unit to it; no unit where cells need their own."""
    choices = (("%", 100.0),) if unit == "1" else _PREFIXES.get(unit)
    positive = [abs(value) for value in values if value and math.isfinite(value)]
    if choices is None or not positive:
        return ("%", times(100.0)) if unit == "1" else ("", times(1.0))
    least, middle, largest = min(positive), median(positive), max(positive)
    for word, factor in choices:
        # The usual value has up to three digits before the point, even if a small one then begins with zeros.
        readable = least * factor >= 0.0995 or (least * factor >= _SMALLEST and middle * factor >= 0.9995)
        if readable and largest * factor >= 0.9995:
            return (word, times(factor)) if largest * factor < _WIDEST else ("", times(1.0))
    word, factor = choices[-1]
    return word, times(factor)


def _percentile_column(runs: Sequence[Run], metric: str, name: str) -> tuple[Column, list[Cell]] | None:
    """Return a percentile down the rows; None where no run has enough samples for it."""
    rows = [row for run in runs if (row := run.measurement(metric)) is not None]
    if not any(row.summary is not None and name in row.summary.percentiles for row in rows):
        return None
    unit = METRICS[metric].unit
    word, scale = _common_unit([row.value for row in rows if row.value is not None], unit)

    def cell(run: Run) -> Cell:
        row = run.measurement(metric)
        if run.status == "failed" and (metric == run.headline or row is None or row.value is None):
            return DASH
        if row is None or row.value is None:
            return absent(reason_of_absence(run, metric))
        value = row.summary.percentiles.get(name) if row.summary is not None else None
        if value is None:
            return absent(f"too few samples for {name}")
        text = significant(scale(value)) if word else quantity(value, unit)
        return Cell(text=text, value=scale(value), notes=basis_notes(row), how=how_of(run, metric))

    title = name if metric == "latency" else f"paced {name}"
    return _column(title, word, scale, metric, rank=3), list(map(cell, runs))


def _grade(run: Run) -> Cell:
    if run.status != "done":
        return Cell(text=run.status, tone="bad")
    if run.trust is None:
        return absent("the run has no trust grade")
    return Cell(text=run.trust.grade, tone=GRADE_TONES[run.trust.grade])
