"""The summary of auptimizer's Profiler for runs of commands: the same columns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from edgewise.record import Run
from edgewise.report.cells import failure_of
from edgewise.report.document import Cell, Column, Table, absent
from edgewise.text import one_line
from edgewise.units import significant

_STEPS = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def usage_table(runs: Sequence[Run]) -> Table:
    """One row per run. Columns and units are Profiler's; the values come from counters, not from samples alone."""
    titles = ("NAME", "AVG CPU %", "PEAK CPU", "AVG MEM USAGE / LIMIT", "PEAK MEM", "NET I/O", "BLOCK I/O")
    return Table(
        title="Final Usage Stats",
        columns=(*(Column(title=title) for title in titles), Column(title="TOTAL TIME (ms)", numeric=True)),
        rows=tuple(_row(run) for run in runs),
    )


def _row(run: Run) -> tuple[Cell, ...]:
    def share(metric: str) -> str:
        value = run.value(metric)
        return "n/a" if value is None else f"{100 * value:.2f}%"

    def size(metric: str) -> str:
        return binary_size(run.value(metric))

    total = run.value("total_time")
    limit = run.value("memory_limit")
    name = one_line(PurePath(run.job.model.name).stem if run.job.model.format != "program" else run.job.command[-1])
    return (
        Cell(text=name),
        Cell(text=share("cpu_utilization")),
        Cell(text=share("cpu_utilization_peak")),
        Cell(text=f"{size('memory_average')} / {'no limit' if limit is None else binary_size(limit)}"),
        Cell(text=size("memory_group_peak")),
        Cell(text=f"{size('network_received')} / {size('network_sent')}"),
        Cell(text=f"{size('block_read')} / {size('block_written')}"),
        absent(failure_of(run)) if total is None else Cell(text=f"{1000 * total:.0f}", value=1000 * total),
    )


def binary_size(value: float | None) -> str:
    """``"117.9 MiB"``, as Docker writes sizes; ``"n/a"`` where there is none."""
    if value is None:
        return "n/a"
    step, unit = next(((step, unit) for step, unit in _STEPS if value >= step), (1, "B"))
    return f"{value / step:.1f} {unit}" if step > 1 else f"{significant(value)} B"


def as_text(table: Table) -> str:
    """The table with aligned columns and a line of dashes below the headings, in lines that end with a newline."""
    lines = [[column.title for column in table.columns], *([cell.text for cell in row] for row in table.rows)]
    widths = [max(len(line[index]) for line in lines) for index in range(len(table.columns))]
    lines.insert(1, ["-" * width for width in widths])
    return "".join("  ".join(map(str.ljust, line, widths)).rstrip() + "\n" for line in lines)
