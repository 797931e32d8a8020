"""What a search found: one conclusion, before and after, every variant and why it lost, and how to make it again."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.folders import VARIANTS
from edgewise.optimizing.variant import (
    ABOUT_ORIGINAL,
    ABSENT_ENGINES,
    BUSY_MACHINE,
    AppliedPass,
    Candidate,
    Optimization,
)
from edgewise.report.bench.ranking import LOAD, load_lines
from edgewise.report.charts import Chart, Matrix
from edgewise.report.document import Document, Section, Table, filled, lines_of, pairs_table
from edgewise.report.evaluation.changed_answers import changed_tables
from edgewise.report.evaluation.charts import confusion_matrix
from edgewise.report.optimization.charts import CHARTS
from edgewise.report.optimization.tables import before_after_table, featured, front_table, layers_table, variants_table
from edgewise.report.optimization.words import (
    condition_lines,
    fixed_lines,
    fixed_messages,
    folded_notes,
    headline_of,
    int8_line,
    loss_lines,
    number_of,
    precision_line,
    reason_line,
    samples_line,
)
from edgewise.report.runs.conditions import flatten
from edgewise.text import one_line, plural

if TYPE_CHECKING:
    from rich.console import Console


def print_optimization(result: Optimization, console: Console, *, details: bool = False) -> None:
    """Print `result` on `console`, readable at 80 columns."""
    from edgewise.report.document.text import print_document

    headline, evidence = headline_of(result)
    _print_line(console, headline, style="bold")
    lines = (precision_line(result), int8_line(result), reason_line(result), *fixed_lines(result), evidence)
    for line in filter(None, lines):
        _print_line(console, line)
    document = describe_optimization(result, width=console.width)
    if not document.lead:  # a section begins with an empty line
        console.print()
    print_document(document, console, details=details)


def _print_line(console: Console, line: str, *, style: str = "") -> None:
    """Print `line` folded between words; a path that is wider than the terminal stays whole, on a line of its own."""
    from rich.cells import cell_len
    from rich.text import Text

    for is_wide, words in groupby(one_line(line).split(" "), key=lambda word: cell_len(word) > console.width):
        console.print(Text(" ".join(words), style=style), soft_wrap=is_wide)


def describe_optimization(result: Optimization, *, width: int | None = None) -> Document:
    """Return the whole search; its title is the conclusion. `width`: cells of a terminal that tables must fit."""
    narrow = width is not None
    sections = sections_of(result, narrow=narrow)
    shown = result if narrow else replace(result, files={k: _in_its_folder(path) for k, path in result.files.items()})
    headline, evidence = headline_of(shown)
    tables = [
        before_after_table(result, narrow=narrow),
        variants_table(result, narrow=narrow) if result.candidates else None,
        front_table(result),
        *changed_tables(result.changed, thumbnails=result.thumbnails),
        layers_table(result, narrow=narrow),
        None if narrow else provenance_table(result),
    ]
    return Document(
        title="; ".join(
            filter(
                None,
                (headline, precision_line(shown), int8_line(shown), reason_line(shown), *fixed_lines(shown), evidence),
            )
        ),
        tables=tuple(table for table in tables if table is not None),
        sections=tuple(section for section in sections if section.tone != "poor"),
        lead=tuple(section for section in sections if section.tone == "poor"),
        charts=lambda: _charts(result),
    )


def _charts(result: Optimization) -> list[Chart | Matrix | None]:
    other, _ = featured(result)
    judged = [one for one in (result.baseline, other) if one is not None and one.accuracy is not None]
    matrices = [confusion_matrix(one.accuracy.evaluation, one_line(one.id)) for one in judged if one.accuracy]
    return [*(make(result) for make in CHARTS), *matrices]


def sections_of(result: Optimization, *, narrow: bool) -> list[Section]:
    """Return what tables don't say.

    Args:
        narrow: for the terminal: with the reasons why variants lost and where the file comes from, which wide tables
            have, and with the paths of files, which pages must not disclose.
    """
    notes = folded_notes(result.notes)
    doubts = tuple(note for note in notes if note.startswith(ABOUT_ORIGINAL))
    raced = [one.measured for one in (result.baseline, *result.candidates) if one.measured is not None]
    busy = tuple(note for note in notes if note.startswith(BUSY_MACHINE))
    said = (*doubts, *busy, *(note for note in notes if note.startswith(ABSENT_ENGINES)))
    lost, made = (loss_lines(result), provenance_lines(result)) if narrow else ([], [])
    files = [f"{name}: {path if narrow else _in_its_folder(path)}" for name, path in result.files.items()]
    brief = "; ".join(filter(None, (samples_line(result), *fixed_messages(result))))
    found = [
        Section(title=LOAD, lines=(*load_lines(raced), *busy), tone="poor"),
        Section(title="Not saved", lines=lines_of(map(str, result.save_errors)), tone="bad"),
        Section(title="Cautions on the accuracy", lines=doubts, tone="poor"),
        Section(title="Why other variants were not chosen", lines=tuple(lost), brief=""),
        Section(title="Files", lines=lines_of(files)),
        Section(title="Made by", lines=tuple(made), brief=""),
        Section(title="To make it again", lines=lines_of([result.command]), brief=""),
        Section(title="Conditions", lines=tuple(condition_lines(result)), brief=brief),
        Section(title="Notes", lines=tuple(note for note in notes if note not in said)),
    ]
    return filled(found)


def _in_its_folder(path: str) -> str:
    """Return the path within the results' folder: files of variants have one name, ``variants/VARIANT/model.onnx``."""
    file = Path(path)
    return str(Path(*file.parts[-3:])) if file.parent.parent.name == VARIANTS else file.name


def provenance_lines(result: Optimization) -> list[str]:
    """Where the chosen file comes from: its parent, pass by pass, with versions."""
    if result.chosen is None:
        return []
    chosen = result.candidate(result.chosen)
    lines = []
    parent = result.root_of(result.chosen)
    lines.append(f"from {parent.name}, sha256 {parent.sha256[:16]}")
    lines += [pass_text(each) for each in chosen.passes] or ["no pass: the file as it was given"]
    lines.append(f"runs in {runtime_text(chosen)}")
    return list(dict.fromkeys(lines))


def provenance_table(result: Optimization) -> Table | None:
    """Everything that leads to the chosen file; None where there is none."""
    if result.chosen is None:
        return None
    chosen, parent = result.candidate(result.chosen), result.baseline.model
    pairs: list[tuple[str, str | None]] = [("Variant", chosen.id)]
    if chosen.model is not None:
        size = number_of(chosen, "model_size").value
        pairs.append(("sha256", chosen.model.sha256))
        pairs.append(("Format", chosen.model.format + (f", {size:.0f} B" if size is not None else "")))
    if parent is not None:
        pairs += [("Made from", f"{parent.name} ({parent.format})"), ("Its sha256", parent.sha256)]
    for place, one in enumerate(chosen.passes, 1):
        took = f" ({one.seconds:.1f} s)" if one.seconds is not None else ""
        pairs.append((f"Pass {place}", f"{pass_text(one)}{took}"))
        pairs += [("", note) for note in one.notes]
    pairs.append(("Runs in", runtime_text(chosen)))
    for name, data in (("Judged on", result.data), ("Calibrated on", result.calibration)):
        if data is not None:
            pairs.append((name, f"{data.name}, split {data.split}, {data.hashes(64)}"))
    pairs.append(("Run in the store", chosen.run))
    return replace(pairs_table("The chosen file", pairs), detail=True)


def pass_text(applied: AppliedPass) -> str:
    """``"ort-static per-tensor (activations u8), onnxruntime 1.31.0, in float: conv1"``."""
    settings = ", ".join(f"{name} {value}" for name, value in flatten(applied.settings))
    words = [f"{applied.name} {applied.label}".strip() + (f" ({settings})" if settings else "")]
    words += [f"{name} {version}" for name, version in applied.versions.items()]
    words += [f"in float: {' '.join(applied.keep_float)}"] if applied.keep_float else []
    return one_line(", ".join(words))


def runtime_text(candidate: Candidate) -> str:
    """Engine, provider, threads and settings of a variant."""
    runtime = candidate.runtime
    words = [" ".join(word for word in (runtime.name, runtime.version) if word)]
    words += [runtime.provider] if runtime.provider else []
    words += [plural(runtime.threads, "thread")] if runtime.threads else []
    words += [f"setting precision {runtime.precision}"] if runtime.precision else []
    words += [f"{name} {value}" for name, value in flatten(runtime.options)]
    return one_line(", ".join(words))
