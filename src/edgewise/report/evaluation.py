"""What an evaluation says: accuracy and latency in one row a model, every metric, paired differences, the conditions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from edgewise.evaluating.examination import Examined, Results
from edgewise.evaluating.scores import Gap, Score
from edgewise.metrics import METRICS
from edgewise.record import Evaluation
from edgewise.report.accuracy import points_range, points_text, range_text, value_text, with_range
from edgewise.report.bench import metric_column
from edgewise.report.cells import failure_of, label_of, reason_of_absence
from edgewise.report.comparison_words import listing, lower_label, p_text
from edgewise.report.conditions import engine_of, flatten, labels_of, provider_of
from edgewise.report.document import Cell, Column, Document, Section, Table, absent
from edgewise.text import one_line
from edgewise.units import format_duration

if TYPE_CHECKING:
    from rich.console import Console

SCHEMA = 1
MOST_CONFUSED = 8
MOST_SKIPPED = 5
NO_CHIEF = "the pass over the data gave no score"


def print_evaluation(results: Results, console: Console) -> None:
    """Print `results` on `console`, readable at 80 columns."""
    from rich.text import Text

    from edgewise.report.text import print_document

    document = describe_results(results)
    console.print(Text(one_line(document.title), style="bold"))
    if document.tables:
        console.print()
    print_document(document, console)


def describe_results(results: Results) -> Document:
    """The whole evaluation; its title is the conclusion."""
    labels = model_labels(results)
    tables = [overview_table(results)] if results.examined else []
    tables += [table for one, label in _pairs(results) if (table := metrics_table(one, label)) is not None]
    tables += [table for one, label in _pairs(results) if (table := differences_table(one, label, labels[0]))]
    return Document(title=title_of(results), tables=tuple(tables), sections=tuple(sections_of(results)))


def sections_of(results: Results) -> list[Section]:
    """Failures first, then what is mixed up most, then the conditions."""
    several = len(results.examined) > 1
    found = [
        Section(title="Failed", lines=_failures(results), tone="bad"),
        Section(title="Not saved", lines=_lines([str(error) for error in results.save_errors]), tone="bad"),
        *(
            Section(title=f"Most confused: {label}" if several else "Most confused", lines=lines)
            for one, label in _pairs(results)
            if one.run.evaluation is not None and (lines := tuple(confused_lines(one.run.evaluation)))
        ),
        Section(title="Data", lines=_shared(results, data_lines)),
        Section(title="How samples were prepared", lines=_shared(results, preparation_lines)),
        Section(title="Task", lines=_shared(results, task_lines)),
        Section(title="How far the latency can be trusted", lines=_grades(results), tone="poor"),
        Section(title="Notes", lines=_notes(results)),
    ]
    return [section for section in found if section.lines]


def model_labels(results: Results) -> list[str]:
    """One short name per model; of the same model in several engines, what tells these apart."""
    names = [one_line(one.run.job.model.name) for one in results.examined]
    if len(set(names)) == len(names):
        return names
    return labels_of([one.run for one in results.examined])


def title_of(results: Results) -> str:
    """The conclusion in one sentence."""
    labels = model_labels(results)
    if not labels:
        return "Nothing was evaluated"
    if len(labels) == 1:
        return f"{labels[0]}: {_conclusion(results.examined[0])}"
    if len(labels) == 2 and (gap := chief_gap(results.examined[1])) is not None:
        p_value = "" if gap.p_value is None else f", p {p_text(gap.p_value)}"
        interval = points_range(gap.metric, gap.low, gap.high)
        change = f"{label_of(gap.metric)} {points_text(gap.metric, gap.difference)} {interval}".rstrip()
        return f"{labels[1]} against {labels[0]}: {change}{p_value}"
    chief = next((one.headline for one in results.examined if one.headline), "")
    data = next((one.run.evaluation.data.name for one in results.examined if one.run.evaluation is not None), "")
    where = f" on {one_line(data)}" if data else ""
    return f"{label_of(chief) if chief else 'Evaluation'} of {len(labels)} models{where}"


def chief_gap(one: Examined) -> Gap | None:
    """The difference in the metric that the task is about; None where there is none."""
    return next((gap for gap in one.gaps if gap.metric == one.headline and gap.difference is not None), None)


def _conclusion(one: Examined) -> str:
    score = chief_score(one)
    if score is None or score.value is None:
        why = failure_of(one.run) or (score.absent_because if score is not None else "") or NO_CHIEF
        return f"no {label_of(one.headline) if one.headline else 'score'}: {one_line(why)}"
    unit = METRICS[score.metric].unit
    words = f"{lower_label(score.metric)} {with_range(score.metric, unit, score.value, score.low, score.high)}"
    words += f" on {score.n} sample{'s' if score.n != 1 else ''}"
    latency = one.run.value("latency")
    words += f", latency {format_duration(latency)}" if latency is not None else ""
    return words + (" (interrupted)" if one.run.status == "cancelled" else "")


def chief_score(one: Examined) -> Score | None:
    """The score of the metric that the task is about."""
    return next((score for score in one.scores if score.metric == one.headline), None)


def overview_table(results: Results) -> Table:
    """One row a model, with accuracy and latency beside each other."""
    runs = [one.run for one in results.examined]
    names = [one_line(run.job.model.name) for run in runs]
    engines = {provider_of(run) for run in runs}
    columns = [
        Column(title="Run", hidden=True),
        Column(title="Model", rank=9 if len(runs) > 1 and len(set(names)) == 1 else 0),
        Column(title="Runtime", rank=1 if len(engines) == 1 else 0),
    ]
    cells = [
        [Cell(text=run.id) for run in runs],
        [Cell(text=name) for name in names],
        [Cell(text=provider_of(run)) for run in runs],
    ]
    for metric in dict.fromkeys(one.headline for one in results.examined if one.headline):
        columns.append(Column(title=label_of(metric), numeric=True, folds=True))
        cells.append([_score_cell(one, metric) for one in results.examined])
    for metric, rank in (("latency", 0), ("model_size", 2), ("memory_peak", 4)):
        if any(run.measurement(metric) is not None for run in runs):
            column, found = metric_column(runs, metric, rank=rank, interval=metric == "latency")
            columns.append(column)
            cells.append(found)
    if any(run.trust is not None for run in runs):
        columns.append(Column(title="Grade", rank=3))
        cells.append([_grade(one) for one in results.examined])
    notes = () if any(run.measurement("latency") for run in runs) else ("latency was not measured",)
    rows = tuple(tuple(row) for row in zip(*cells, strict=True))
    return Table(title="Accuracy and latency", columns=tuple(columns), rows=rows, notes=notes)


def _score_cell(one: Examined, metric: str) -> Cell:
    score = next((each for each in one.scores if each.metric == metric), None)
    if score is None or score.value is None:
        why = (score.absent_because if score is not None else "") or reason_of_absence(one.run, metric)
        return absent(one_line(why))
    text = with_range(metric, METRICS[metric].unit, score.value, score.low, score.high)
    return Cell(text=text, value=score.value, low=score.low, high=score.high)


def _grade(one: Examined) -> Cell:
    if one.run.status == "failed":
        return Cell(text=one.run.status, tone="bad")
    return absent("the run was not graded") if one.run.trust is None else Cell(text=one.run.trust.grade)


def metrics_table(one: Examined, label: str) -> Table | None:
    """Every metric with its interval; None where the pass failed."""
    if not one.scores:
        return None
    columns = (
        Column(title="Metric"),
        Column(title="Value", numeric=True),
        Column(title="95 % interval", numeric=True, folds=True),
        Column(title="n", numeric=True, rank=1),
    )
    return Table(title=f"Metrics of {label}", columns=columns, rows=tuple(map(_metric_row, one.scores)))


def _metric_row(score: Score) -> tuple[Cell, ...]:
    unit = METRICS[score.metric].unit
    method = (one_line(score.method),) if score.method else ()
    if score.value is None:
        value, interval = absent(one_line(score.absent_because or "it is not known why")), Cell(text="")
    else:
        value = Cell(
            text=value_text(score.metric, unit, score.value), value=score.value, low=score.low, high=score.high,
            notes=method,
        )  # fmt: skip
        text = range_text(score.metric, unit, score.low, score.high)
        # The value's own note says why there is no interval.
        interval = Cell(text=text) if text else Cell(text="n/a", tone="faint")
    return Cell(text=label_of(score.metric)), value, interval, Cell(text=str(score.n), value=score.n)


def differences_table(one: Examined, label: str, first: str) -> Table | None:
    """Against the first model, on the samples that both answered; None for the first, and where there are none."""
    if not one.gaps:
        return None
    columns = (
        Column(title="Metric"),
        Column(title="Difference", numeric=True),
        Column(title="95 % interval", numeric=True, folds=True),
        Column(title="p", numeric=True),
        Column(title="n", numeric=True, rank=1),
    )
    return Table(
        title=f"{label} less {first}, sample by sample", columns=columns, rows=tuple(map(_gap_row, one.gaps))
    )


def _gap_row(gap: Gap) -> tuple[Cell, ...]:
    method = (one_line(gap.method),) if gap.method else ()
    count = Cell(text=str(gap.n), value=gap.n)
    if gap.difference is None:
        why = absent(one_line(gap.absent_because or "it is not known why"))
        return Cell(text=label_of(gap.metric)), why, Cell(text=""), Cell(text=""), count
    difference = Cell(
        text=points_text(gap.metric, gap.difference), value=gap.difference, low=gap.low, high=gap.high, notes=method
    )
    interval = points_range(gap.metric, gap.low, gap.high)
    return (
        Cell(text=label_of(gap.metric)),
        difference,
        Cell(text=interval) if interval else Cell(text="n/a", tone="faint"),
        Cell(text="n/a", tone="faint") if gap.p_value is None else Cell(text=p_text(gap.p_value), value=gap.p_value),
        count,
    )


def class_name(evaluation: Evaluation, index: int) -> str:
    """The name of a class, or its number where it has none."""
    return one_line(evaluation.classes[index]) if index < len(evaluation.classes) else f"class {index}"


def confused_lines(evaluation: Evaluation) -> list[str]:
    """Which labels were answered with which other classes, the most frequent first."""
    counts = evaluation.confusion
    if counts is None:
        return []
    wrong = [
        (count, label, answer)
        for label, row in enumerate(counts)
        for answer, count in enumerate(row)
        if count and label != answer
    ]
    if not wrong:
        return ["no sample was taken for another class"]
    wrong.sort(key=lambda each: (-each[0], each[1], each[2]))
    lines = [
        f"{class_name(evaluation, label)} taken for {class_name(evaluation, answer)}: {count} of {sum(counts[label])}"
        for count, label, answer in wrong[:MOST_CONFUSED]
    ]
    if rest := wrong[MOST_CONFUSED:]:
        lines.append(f"{len(rest)} other pairs with {sum(count for count, _, _ in rest)} samples")
    return lines


def data_lines(evaluation: Evaluation) -> list[str]:
    """Which data, how much of it, and what could not be used."""
    data = evaluation.data
    chosen = "" if evaluation.limit is None else f" (at most {evaluation.limit}, chosen by seed {evaluation.seed})"
    lines = [
        f"{data.name} ({data.format}, split {data.split}): {evaluation.n} of {data.size} samples judged{chosen}, "
        f"sha256 {data.sha256[:16]}"
    ]
    if evaluation.skipped_count:
        named = [f"{each.name} ({each.reason})" for each in evaluation.skipped[:MOST_SKIPPED]]
        rest = evaluation.skipped_count - len(named)
        more = f" and {rest} more" if rest else ""
        lines.append(f"{evaluation.skipped_count} skipped: {'; '.join(named)}{more}")
    if evaluation.reference is not None:
        lines.append(f"taken as right: the outputs of the model with sha256 {evaluation.reference[:16]}")
    if evaluation.seconds is not None:
        lines.append(f"the pass over the data took {format_duration(evaluation.seconds)}, preparing included")
    return lines


def preparation_lines(evaluation: Evaluation) -> list[str]:
    """What was done to every sample, and who said so."""
    done = evaluation.preprocessing.get("done", ())
    lines = [str(each) for each in done] if isinstance(done, list | tuple) else [str(done)]
    if evaluation.preprocessing_from:
        lines.append(f"from {evaluation.preprocessing_from}")
    return lines


def task_lines(evaluation: Evaluation) -> list[str]:
    """How outputs were read."""
    settings = ", ".join(f"{name} {value}" for name, value in flatten(evaluation.settings))
    return [f"{evaluation.task}: {settings}" if settings else evaluation.task]


def _shared(results: Results, tell: Any) -> tuple[str, ...]:
    """Lines of each model, with its name where not all models have the same."""
    told = {
        label: tuple(one_line(line) for line in tell(one.run.evaluation))
        for one, label in _pairs(results)
        if one.run.evaluation is not None
    }
    if len(set(told.values())) <= 1:
        return next(iter(told.values()), ())
    by_line: dict[str, list[str]] = {}
    for label, lines in told.items():
        for line in lines:
            by_line.setdefault(line, []).append(label)
    return tuple(
        line if len(who) == len(told) else f"{listing(who)}: {line}" for line, who in by_line.items()
    )  # fmt: skip


def _failures(results: Results) -> tuple[str, ...]:
    return tuple(
        f"{label} in {engine_of(one.run)}: {failure_of(one.run)}"
        for one, label in _pairs(results)
        if one.run.status == "failed"
    )


def _grades(results: Results) -> tuple[str, ...]:
    """Reasons of every grade that is not A, which counts for the latency alone."""
    several = len(results.examined) > 1
    return _lines(
        [
            f"{f'{label}: ' if several else ''}grade {trust.grade}: {'; '.join(trust.reasons)}"
            for one, label in _pairs(results)
            if (trust := one.run.trust) is not None and trust.reasons and one.run.status != "failed"
        ]
    )


def _notes(results: Results) -> tuple[str, ...]:
    notes = ["interrupted: what is above is what was known by then"] if results.interrupted else []
    several = len(results.examined) > 1
    for place, (one, label) in enumerate(_pairs(results)):
        who = f"{label}: " if several else ""
        evaluation = one.run.evaluation
        known = () if evaluation is None else tuple(map(str, evaluation.preprocessing.get("done", ())))
        notes += [f"{who}{note}" for note in one.notes if note not in known]
        if one.resumed:
            notes.append(f"{who}{one.resumed} answers are from an earlier pass that was cut off")
        if place and one.scores and not one.gaps:
            notes.append(f"{who}no paired difference: no sample was answered by both models")
    return _lines(notes)


def _pairs(results: Results) -> list[tuple[Examined, str]]:
    return list(zip(results.examined, model_labels(results), strict=True))


def _lines(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for text in map(one_line, texts) if text))
