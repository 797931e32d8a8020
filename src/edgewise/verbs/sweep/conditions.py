"""Under which conditions the cells of a sweep were measured: machine, engine, date, grade and cautions."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from glob import escape
from shlex import quote

from edgewise.errors import as_flag
from edgewise.formatting import FACTOR_UNKNOWN, VERY_WIDE, is_unknown
from edgewise.grouping import by_key
from edgewise.record import Run, Stopping
from edgewise.record.caution import loads_of
from edgewise.report.bench.page import facts_section
from edgewise.report.bench.ranking import worst_load
from edgewise.report.document import Cell, Column, Section, Table, absent, table_of, text_cell
from edgewise.report.runs.cautions import caution_sections
from edgewise.report.runs.conditions import told_apart
from edgewise.text import enumerate_few, one_line
from edgewise.verbs.outcome import Outcome
from edgewise.verbs.rows import Row

MOST_AGAIN = 4
"""Cells that the advice names one by one."""
FEW, MORE = 2, Stopping().sessions
"""Sessions whose interval is wide, with one degree of freedom, and those that are usual."""
_ABSENT = "not reported"
_BUSY = "the machine was busy"
_CAP = " (at best D)"
"""Ends the reasons that alone make a grade D."""


def cells_tables(rows: Sequence[Row], outcomes: Mapping[str, Outcome]) -> list[Table]:
    """Return a table with grade, engine, processor and date of each run among `rows`; none where there is no run.

    Args:
        outcomes: by the keys of their cells.
    """
    measured = [row for row in rows if row.get("run")]

    def known(text: str | None) -> Cell:
        return text_cell(text) if text else absent(_ABSENT)

    table = table_of(
        "Cells",
        measured,
        [
            (Column(title="Cell", name=True), lambda row: text_cell(outcomes[row["cell"]].cell or row["named"])),
            (Column(title="Grade"), lambda row: known(row["grade"])),
            (Column(title="Engine"), lambda row: known(" ".join(filter(None, (row["runtime"], row.get("version")))))),
            (Column(title="Processor", rank=2), lambda row: known(row.get("processor"))),
            (Column(title="Ended, UTC", rank=1), lambda row: text_cell(_moment(outcomes[row["cell"]].finished))),
        ],
        detail=True,
    )
    return [table] if measured else []


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(seconds))


def sections_of_runs(runs: Sequence[Run], rows: Sequence[Row]) -> list[Section]:
    """Return what was measured, and the cautions; both only of the runs that the store has, and how many it lacks."""
    missing = len({row["run"] for row in rows if row.get("run")} - {run.id for run in runs})
    words = f"{missing} run{' is' if missing == 1 else 's are'} not in the store of this machine: no cautions are known"
    lacking = [Section(title="Runs elsewhere", lines=(words,), brief="")] if missing else []
    if not runs:
        return lacking
    runs, facts = told_apart(runs), facts_section(runs)
    return [Section(title=facts.title, lines=facts.lines, brief=""), *caution_sections(runs), *lacking]


def vague_sections(
    runs: Sequence[Run],
    rows: Sequence[Row],
    outcomes: Mapping[str, Outcome],
    *,
    command: str,
    chosen: Sequence[str],
) -> list[Section]:
    """Return why cells have grade D, and how they are measured again; nothing where none has it.

    Args:
        command: what carries the whole suite out; "" where that is not known.
        chosen: what chose the cells among those of the suite.
    """
    held = {run.id: run for run in runs}
    vague = [row for row in rows if row.get("grade") == "D"]
    names = list(dict.fromkeys(outcomes[row["cell"]].cell for row in vague))
    if not names:
        return []
    why = by_key((_why_vague(held.get(row.get("run") or "")), row) for row in vague)
    every = {outcomes[row["cell"]].cell for row in rows}
    lines = []
    for reason, some in why.items():
        cells = list(dict.fromkeys(outcomes[row["cell"]].cell for row in some))
        many = f"{len(cells)} of {len(every)} cells" if len(cells) > MOST_AGAIN else enumerate_few(cells)
        who = f"all {len(cells)} cells" if len(cells) == len(every) > 1 else many
        # A cell may have several runs, of which not each has grade D.
        of_cells = sum(outcomes[row["cell"]].cell in cells for row in rows)
        if of_cells > len(vague):
            who = f"{len(some)} of {of_cells} runs of {who}"
        load = f": {worst_load([held[row['run']] for row in some])}" if reason == _BUSY else ""
        lines.append(f"{who}: {reason}{load}")
    only = _patterns_of(names, rows, outcomes) if len(names) < len(every) else chosen
    again = f"{again_command(command, only)} measures them again"
    lines = [f"{lines[0]}; {again}"] if len(lines) == 1 else [*lines, again]
    lines += _lines_on_width(vague, held)
    # A page has the answer and its table first: what of these cells took turns is decided all the same.
    return [Section(title="Grade D", lines=tuple(map(one_line, lines)), tone="fair")]


def _lines_on_width(vague: Sequence[Row], held: Mapping[str, Run]) -> list[str]:
    """Return why intervals of `vague` are not printed, and what narrows them; empty where all are."""
    numbers = [(row, row["metrics"].get(name)) for row in vague for name in row["headlines"]]
    wide = [row for row, number in numbers if number and is_unknown(*(number[end] for end in ("value", "low", "high")))]
    if not wide:
        return []
    few = [run for row in wide if (run := held.get(row.get("run") or "")) is not None and len(run.sessions) == FEW]
    why = f"; {FEW} sessions hardly show how a third one differs" if few else ""
    return [
        f"no interval is printed that reaches beyond a factor of {FACTOR_UNKNOWN}{why} → more sessions narrow it: "
        f"'sessions: {MORE}' among the suite's options, on a quiet machine"
    ]


def _patterns_of(names: Sequence[str], rows: Sequence[Row], outcomes: Mapping[str, Outcome]) -> list[str]:
    """Return what chooses the cells of these names: a pattern for a model all of whose cells are among them."""
    cells = by_key((row["named"], outcomes[row["cell"]].cell) for row in rows)
    patterns = {
        name: pattern_of(model) if len(set(own)) > 1 and set(own) <= set(names) else name
        for model, own in cells.items()
        for name in own
    }
    return list(dict.fromkeys(patterns[name] for name in names))


def pattern_of(model: str) -> str:
    """``"fresh.onnx on *"``: the pattern that the names of all cells of a model match, and no others."""
    return f"{escape(model)} on *"


def again_command(command: str, only: Sequence[str]) -> str:
    """Return the command that measures cells again, all or those that `only` names; without `command` its options."""
    return " ".join(filter(None, (command, as_flag("again"), *(as_flag("only", quote(name)) for name in only))))


def _why_vague(run: Run | None) -> str:
    if run is None:
        return "the reason is in the record of the run, which is not in the store of this machine"
    if loads_of(run.cautions):
        return _BUSY
    reasons = run.trust.reasons if run.trust is not None else ()
    decisive = [each.removesuffix(_CAP) for each in reasons if each.endswith(_CAP)] or reasons
    # The table has the interval.
    wide = ("the 95 % interval " + VERY_WIDE if each.endswith(VERY_WIDE) else each for each in decisive)
    return "; ".join(wide) or "no reason is recorded"
