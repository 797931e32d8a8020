"""What an evaluation says: one conclusion, tables, what is mixed up most, and the conditions; also as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from edgewise.amounts import points_range
from edgewise.evaluating.examination import Examined, Results
from edgewise.evaluating.plausibility import CODE
from edgewise.evaluating.scores import Gap, Score
from edgewise.metrics import METRICS
from edgewise.record import Evaluation
from edgewise.report.accuracy import change_text, with_range
from edgewise.report.cells import failure_of, label_of
from edgewise.report.comparison_words import listing, lower_label, p_text
from edgewise.report.conditions import engine_of, flatten
from edgewise.report.document import Document, Section
from edgewise.report.evaluation_tables import differences_table, metrics_table, model_labels, overview_table
from edgewise.text import one_line
from edgewise.units import format_duration, significant

if TYPE_CHECKING:
    from rich.console import Console

SCHEMA = 1
MOST_CONFUSED = 8
MOST_SKIPPED = 5
IMPLAUSIBLE = "This accuracy is implausible"
NO_CHIEF = "the pass over the data gave no score"


def print_evaluation(results: Results, console: Console, *, details: bool = False) -> None:
    """Print `results` on `console`, readable at 80 columns."""
    from rich.text import Text

    from edgewise.report.text import print_document

    document = describe_results(results)
    console.print(Text(one_line(document.title), style="bold"))
    if document.tables:
        console.print()
    print_document(document, console, details=details)


def describe_results(results: Results) -> Document:
    """The whole evaluation; its title is the conclusion."""
    labels = model_labels(results)
    tables = [overview_table(results)] if results.examined else []
    several = len(results.examined) > 1
    rest = [metrics_table(one, label) for one, label in _pairs(results)]
    rest += [differences_table(one, label, labels[0]) for one, label in _pairs(results)]
    tables += [replace(table, detail=several) for table in rest if table is not None]
    return Document(title=title_of(results), tables=tuple(tables), sections=tuple(sections_of(results)))


def evaluation_document(results: Results) -> dict[str, Any]:
    """The JSON document of ``edgewise evaluate``; what stands at the top is the first model's."""
    from edgewise.store import to_document

    labels = model_labels(results)
    evaluations = [
        {
            "model": label,
            "headline": one.headline or None,
            "metrics": [_metric(score) for score in one.scores],
            "confusion": _confusion(one.run.evaluation),
            "notes": list(one.notes),
            "resumed": one.resumed,
            "run": to_document(one.run),
        }
        for one, label in zip(results.examined, labels, strict=True)
    ]
    first: dict[str, Any] = evaluations[0] if evaluations else {"metrics": [], "confusion": None, "run": None}
    return {
        "schema": SCHEMA,
        "metrics": first["metrics"],
        "confusion": first["confusion"],
        "run": first["run"],
        "evaluations": evaluations,
        "differences": [
            {"a": labels[0], "b": label, **asdict(gap)}
            for one, label in zip(results.examined, labels, strict=True)
            for gap in one.gaps
        ],
        "interrupted": results.interrupted,
        "save_errors": [str(error) for error in results.save_errors],
    }


def _metric(score: Score) -> dict[str, Any]:
    return {
        "id": score.metric,
        "unit": METRICS[score.metric].unit,
        "value": score.value,
        "low": score.low,
        "high": score.high,
        "n": score.n,
        "method": score.method,
        "absent_because": score.absent_because,
    }


def _confusion(evaluation: Evaluation | None) -> dict[str, Any] | None:
    """Rows are labels, columns answers."""
    if evaluation is None or evaluation.confusion is None:
        return None
    return {"classes": list(evaluation.classes), "counts": [list(row) for row in evaluation.confusion]}


def sections_of(results: Results) -> list[Section]:
    """Failures first, then what is mixed up most, then the conditions."""
    several = len(results.examined) > 1
    found = [
        Section(title="Failed", lines=_failures(results), tone="bad"),
        Section(title="Not saved", lines=_lines([str(error) for error in results.save_errors]), tone="bad"),
        Section(title=IMPLAUSIBLE, lines=_doubts(results), tone="poor"),
        *(
            Section(title=f"Most confused: {label}" if several else "Most confused", lines=lines, brief=lines[0])
            for one, label in _pairs(results)
            if one.run.evaluation is not None and (lines := tuple(confused_lines(one.run.evaluation)))
        ),
        Section(title="One sample", lines=_shared(results, example_lines), brief=""),
        Section(title="Data", lines=_shared(results, data_lines), brief=next(iter(_shared(results, data_lines)), "")),
        Section(title="How samples were prepared", lines=_shared(results, preparation_lines), brief=""),
        Section(title="Task", lines=_shared(results, task_lines), brief=""),
        Section(
            title="How far the latency can be trusted",
            lines=_grades(results),
            tone="poor",
            brief=", ".join(f"{label} grade {one.run.trust.grade}" for one, label in _pairs(results) if one.run.trust),
        ),
        Section(title="Notes", lines=_notes(results)),
    ]
    return [section for section in found if section.lines]


def title_of(results: Results) -> str:
    """The conclusion in one sentence."""
    labels = model_labels(results)
    if not labels:
        return "Nothing was evaluated"
    if len(labels) == 1:
        return f"{labels[0]}: {_conclusion(results.examined[0])}"
    if len(labels) == 2 and (gap := chief_gap(results.examined[1])) is not None:
        p_value = (
            ""
            if gap.p_value is None
            else f", p {p_text(gap.p_value) if gap.p_value < 0.001 else f'= {p_text(gap.p_value)}'}"
        )
        interval = points_range(gap.metric, gap.low, gap.high)
        change = f"{label_of(gap.metric)} {change_text(gap.metric, gap.difference)} {interval}".rstrip()
        return f"{labels[1]} against {labels[0]}: {change}{p_value}"
    chief = next((one.headline for one in results.examined if one.headline), "")
    data = next((one.run.evaluation.data.name for one in results.examined if one.run.evaluation is not None), "")
    where = f" on {one_line(data)}" if data else ""
    return f"{label_of(chief) if chief else 'Evaluation'} of {len(labels)} models{where}"


def chief_gap(one: Examined) -> Gap | None:
    """The difference in the metric that the task is about; None where there is none."""
    return next((gap for gap in one.gaps if gap.metric == one.headline and gap.difference is not None), None)


def chief_score(one: Examined) -> Score | None:
    """The score of the metric that the task is about."""
    return next((score for score in one.scores if score.metric == one.headline), None)


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


def example_lines(evaluation: Evaluation) -> list[str]:
    """The best classes of one sample, with the scores that the model gave."""
    example = evaluation.example or {}
    top = example.get("top") or ()
    try:
        told = [f"{class_name(evaluation, int(number))} ({significant(float(score))})" for number, score in top]
        label = class_name(evaluation, int(example["label"]))
    except (KeyError, TypeError, ValueError, ArithmeticError):  # records come from anywhere
        return []
    return [f"{example.get('sample')}, labelled {label}; best by the model's scores: {', '.join(told)}"] if told else []


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
    # On the line itself: of several models, lines that all have are told once, away from those of each.
    said_by = f" (from {evaluation.preprocessing_from})" if evaluation.preprocessing_from else ""
    return [f"{line}{said_by}" for line in lines]


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


def _doubts(results: Results) -> tuple[str, ...]:
    """Why an accuracy says more of how samples were prepared or labels numbered than of the model."""
    several = len(results.examined) > 1
    found = [(one, label, each) for one, label in _pairs(results) for each in one.run.cautions if each.code == CODE]
    told = [f"{f'{label}: ' if several else ''}{part}" for _, label, each in found for part in each.message.split("; ")]
    return _lines([*told, *(each.advice for _, _, each in found)])


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
