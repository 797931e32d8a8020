"""An evaluation as a document: conclusion, tables, most frequent confusions and conditions; also as JSON."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from typing import Any

from edgewise.evaluating.class_order import ORDER, doubt_order
from edgewise.evaluating.evaluation import EvaluationResults, ModelEvaluation
from edgewise.evaluating.plausibility import CODE
from edgewise.evaluating.run_records import are_converted_alike
from edgewise.evaluating.scores import MetricDifference, Score
from edgewise.formatting import amount_text, p_text, points_range, points_text, value_text, with_range
from edgewise.grouping import by_key
from edgewise.metrics import METRICS
from edgewise.record import ABOUT_DATA, Evaluation
from edgewise.report.comparison.words import lower_label
from edgewise.report.document import Document, Section, filled, lines_of
from edgewise.report.evaluation.changed_answers import AGAINST_REFERENCE, changed_tables
from edgewise.report.evaluation.charts import evaluation_charts
from edgewise.report.evaluation.tables import (
    NO_CHIEF,
    changed_models,
    chief_score,
    class_name,
    differences_table,
    metrics_table,
    model_labels,
    overview_table,
)
from edgewise.report.runs.cautions import FIXED, caution_lines
from edgewise.report.runs.cells import failure_of, label_of, preparation_of
from edgewise.report.runs.conditions import elsewhere, engine_of, flatten
from edgewise.runtime.base import KEEPS_STATE
from edgewise.text import listing, one_line, plural
from edgewise.units import format_duration, significant

SCHEMA = 1
MOST_CONFUSED = 8
MOST_SKIPPED = 5
IMPLAUSIBLE = "This accuracy is implausible"
ABOUT_ACCURACY = "Cautions on the accuracy"
ALIKE = "How all samples were changed"
CHANGED = "samples-changed"
ALIKE_VERDICT = "can't be told apart from"


def describe_results(results: EvaluationResults) -> Document:
    """Return the whole evaluation; its title is the conclusion."""
    labels = model_labels(results)
    tables = [overview_table(results)] if results.models else []
    several = len(results.models) > 1
    more = [metrics_table(one, label) for one, label in _pairs(results)]
    more += [differences_table(one, label, labels[0]) for one, label in _pairs(results)]
    tables += [replace(table, detail=several) for table in more if table is not None]
    tables += changed_tables(changed_models(results), AGAINST_REFERENCE, thumbnails=results.thumbnails)
    lead: list[Section] = []
    rest: list[Section] = []
    for section in sections_of(results):
        (lead if section.title in (IMPLAUSIBLE, ABOUT_ACCURACY) else rest).append(section)
    return Document(
        title=title_of(results),
        tables=tuple(tables),
        sections=tuple(rest),
        lead=tuple(lead),
        charts=lambda: evaluation_charts(results),
    )


def evaluation_document(results: EvaluationResults) -> dict[str, Any]:
    """Return the JSON document of ``edgewise evaluate``; the top level repeats the first model."""
    from edgewise.store import to_document

    labels = model_labels(results)
    evaluations = [
        {
            "model": label,
            "headline": one.headline or None,
            "metrics": [_metric(score) for score in one.scores],
            "samples": _samples(one.run.evaluation),
            "confusion": _confusion(one.run.evaluation),
            "changed_answers": None if one.changed is None else one.changed.to_document(),
            "notes": list(one.notes),
            "resumed": one.resumed,
            "run": to_document(one.run),
        }
        for one, label in zip(results.models, labels, strict=True)
    ]
    nothing: dict[str, Any] = {"metrics": [], "samples": None, "confusion": None, "run": None}
    return {
        "schema": SCHEMA,
        **{name: (evaluations or [nothing])[0][name] for name in nothing},
        "evaluations": evaluations,
        "differences": [
            {"a": labels[0], "b": label, **asdict(gap)}
            for one, label in zip(results.models, labels, strict=True)
            for gap in one.differences
        ],
        "interrupted": results.interrupted,
        "save_errors": [str(error) for error in results.save_errors],
    }


def _metric(score: Score) -> dict[str, Any]:
    fields = ("value", "low", "high", "n", "method", "absent_because")
    known = {name: getattr(score, name) for name in fields}
    return {"id": score.metric, "unit": METRICS[score.metric].unit, **known}


def _samples(evaluation: Evaluation | None) -> dict[str, Any] | None:
    """Return the evaluated samples, those left out, and why; what was changed in the evaluated ones."""
    if evaluation is None:
        return None
    return {
        "n": evaluation.n,
        "of": evaluation.data.size,
        "limit": evaluation.limit,
        "left_out": evaluation.skipped_count,
        "why": [asdict(each) for each in evaluation.skipped],
        "changes": dict(evaluation.changes),
        "words": samples_words(evaluation.n, evaluation),
    }


def _confusion(evaluation: Evaluation | None) -> dict[str, Any] | None:
    """Rows are labels, columns answers."""
    if evaluation is None or evaluation.confusion is None:
        return None
    return {"classes": list(evaluation.classes), "counts": [list(row) for row in evaluation.confusion]}


def sections_of(results: EvaluationResults) -> list[Section]:
    """Failures first, then the most frequent confusions, then the conditions."""
    grades = ", ".join(f"{label} grade {one.run.trust.grade}" for one, label in _pairs(results) if one.run.trust)
    found = [
        Section(title="Failed", lines=_failures(results), tone="bad"),
        Section(title="Not saved", lines=lines_of(map(str, results.save_errors)), tone="bad"),
        Section(title=IMPLAUSIBLE, lines=_doubts(results), tone="poor"),
        Section(title=ABOUT_ACCURACY, lines=_caution_lines(results, ABOUT_DATA, advice=True), tone="poor"),
        Section(title=ALIKE, lines=_caution_lines(results, ABOUT_DATA, advice=True, alike=True)),
        Section(title="Most confused", lines=_shared(results, confused_lines), brief=_brief_confused(results)),
        Section(title="One sample", lines=_shared(results, example_lines), brief=""),
        Section(title="State", lines=_caution_lines(results, (KEEPS_STATE,))),
        Section(title="Fixed sizes", lines=_caution_lines(results, (FIXED,))),
        Section(title="Data", lines=_shared(results, data_lines), brief=next(iter(_shared(results, data_lines)), "")),
        Section(title="How samples were prepared", lines=_shared(results, preparation_lines), brief=""),
        Section(title="Task", lines=_shared(results, task_lines), brief=""),
        Section(title="How far the latency can be trusted", lines=_grades(results), tone="poor", brief=grades),
        Section(title="Cautions on the latency", lines=_latency_cautions(results), tone="poor", brief=""),
        Section(title="Notes", lines=_notes(results)),
    ]
    return filled(found)


def title_of(results: EvaluationResults) -> str:
    """Return the conclusion in one sentence, and where the models ran unless on this machine."""
    return _title(results) + elsewhere(one.run for one in results.models)


def _title(results: EvaluationResults) -> str:
    labels = model_labels(results)
    if not labels:
        return "Nothing was evaluated"
    if len(labels) == 1:
        return f"{labels[0]}: {_conclusion(results.models[0])}"
    if len(labels) == 2 and (gap := chief_gap(results.models[1])) is not None:
        p_value = (
            ""
            if gap.p_value is None
            else f", p {p_text(gap.p_value) if gap.p_value < 0.001 else f'= {p_text(gap.p_value)}'}"
        )
        interval = points_range(gap.metric, gap.low, gap.high)
        change = f"{_both_scores(results, gap)}{points_text(gap.metric, gap.difference)} {interval}".rstrip()
        size = 0 if results.models[0].run.evaluation is None else results.models[0].run.evaluation.data.size
        on = f" on {gap.n} of {size} samples" if gap.n < size else ""
        verdict, what = _verdict(gap), lower_label(gap.metric)
        # Their latencies, in the table below, may well be told apart.
        told = f" in {what}{on}: " if verdict == ALIKE_VERDICT else f"{on}: {what} "
        return f"{labels[1]} {verdict} {labels[0]}{told}{change}{p_value}{_altered(results)}"
    chief = next((one.headline for one in results.models if one.headline), "")
    data = next((one.run.evaluation.data.name for one in results.models if one.run.evaluation is not None), "")
    where = f" on {one_line(data)}" if data else ""
    title = f"{label_of(chief) if chief else 'Evaluation'} of {len(labels)} models{where}"
    told = "; ".join(_against_first(results, labels))
    return f"{title}{f': {told}' if told else ''}{_altered(results)}"


def _verdict(gap: MetricDifference) -> str:
    """Which of two models is better, as far as the interval of the difference proves it."""
    direction = METRICS[gap.metric].better
    if gap.low is None or gap.high is None or direction == "none":
        return "against"
    if gap.low <= 0.0 <= gap.high:
        return ALIKE_VERDICT
    return "is better than" if (gap.low > 0.0) == (direction == "higher") else "is worse than"


def _both_scores(results: EvaluationResults, gap: MetricDifference) -> str:
    """``87.2 % against 89.3 %, ``: the second model's first; no scores where they are of other samples."""
    scores = [score for one in reversed(results.models) if (score := chief_score(one)) and score.n == gap.n]
    told = [value_text(score.metric, METRICS[score.metric].unit, score.value) for score in scores]
    return f"{' against '.join(told)}, " if len(told) > 1 else ""


def _against_first(results: EvaluationResults, labels: Sequence[str]) -> list[str]:
    """Return the first model's score, and how the others differ from it: ``b is worse than it: −2.2 pt [−3, −1]``.

    Several that can't be told apart from it are one phrase with the range of their differences.
    """
    score = chief_score(results.models[0])
    first = [] if score is None or score.value is None else [
        f"{labels[0]} {value_text(score.metric, METRICS[score.metric].unit, score.value)}"
    ]  # fmt: skip
    found = [(label, gap) for one, label in zip(results.models[1:], labels[1:], strict=True) if (gap := chief_gap(one))]
    alike = [gap for _, gap in found if _verdict(gap) == ALIKE_VERDICT]
    told = [
        f"{label} {_verdict(gap)} it: {points_text(gap.metric, gap.difference)} "
        f"{points_range(gap.metric, gap.low, gap.high)}".rstrip()
        for label, gap in found
        if gap not in alike or len(alike) < 2
    ]
    if len(alike) < 2:
        return first + told
    who = "none of the others" if len(alike) == len(labels) - 1 else f"{len(alike)} others"
    ends = sorted(alike, key=lambda gap: gap.difference or 0.0)
    least, most = (points_text(gap.metric, gap.difference) for gap in (ends[0], ends[-1]))
    apart = "can" if who.startswith("none") else "can't"
    return [*first, f"{who} {apart} be told apart from it ({least if least == most else f'{least} to {most}'})", *told]


def samples_words(n: int, evaluation: Evaluation | None) -> str:
    """Return the number of samples behind a score, of how many, why not of all, and what was changed in them."""
    if evaluation is None:
        return plural(n, "sample")
    size = evaluation.data.size
    words = f"{n} of {size} samples" if n < size else plural(n, "sample")
    return ", ".join([words, *_alterations(evaluation)])


def _alterations(evaluation: Evaluation) -> list[str]:
    """Return what keeps the score from being one of all samples as they are stored, in a few words each."""
    found = []
    if count := evaluation.skipped_count:
        first = next(iter(evaluation.skipped), None)
        such = f" ({first.name}: {first.reason}{'; …' if count > 1 else ''})" if first is not None else ""
        found.append(one_line(f"{count} could not be used{such}"))
    if evaluation.limit is not None and evaluation.limit < evaluation.data.size:
        found.append(f"limited by --limit {evaluation.limit}")
    if are_converted_alike(evaluation):
        return found
    converted = {change: count for change, count in evaluation.changes.items() if change.startswith("converted ")}
    for word in dict.fromkeys(change.rpartition(" to ")[2] for change in converted):
        count = sum(count for change, count in converted.items() if change.endswith(f" to {word}"))
        found.append(f"{count} converted to {word}")
    return found + [f"{count} {change}" for change, count in evaluation.changes.items() if change not in converted]


def _altered(results: EvaluationResults) -> str:
    """For a title about several models: what `_alterations` tells of any of them."""
    told = [each for one in results.models if one.run.evaluation for each in _alterations(one.run.evaluation)]
    return "".join(f", {each}" for each in dict.fromkeys(told))


def chief_gap(one: ModelEvaluation) -> MetricDifference | None:
    """Return the difference in the metric that the task is about; None where there is none."""
    return next((gap for gap in one.differences if gap.metric == one.headline and gap.difference is not None), None)


def _conclusion(one: ModelEvaluation) -> str:
    score = chief_score(one)
    if score is None or score.value is None:
        why = failure_of(one.run) or (score.absent_because if score is not None else "") or NO_CHIEF
        return f"no {label_of(one.headline) if one.headline else 'score'}: {one_line(why)}"
    unit = METRICS[score.metric].unit
    words = f"{lower_label(score.metric)} {with_range(score.metric, unit, score.value, score.low, score.high)}"
    words += f" on {samples_words(score.n, one.run.evaluation)}"
    words += f"; {doubt}" if (doubt := doubt_order(one.run.evaluation)) else ""
    words += " as one sequence (--keep-state)" if one.run.job.workload.keep_state else ""
    latency, rate = one.run.measurement("latency"), one.run.value("decode_rate")
    if latency is not None and latency.value is not None:
        words += f", latency {amount_text('s', latency.value, latency.low, latency.high)}"
    words += f", {significant(rate)} tokens/s" if rate is not None else ""
    return words + (" (interrupted)" if one.run.status == "cancelled" else "")


def confused_lines(evaluation: Evaluation) -> list[str]:
    """Which classes were mistaken for which others, the most frequent first."""
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
        return ["no sample was classified wrongly"]
    wrong.sort(key=lambda each: (-each[0], each[1], each[2]))
    lines = [
        f"{class_name(evaluation, label)} taken for {class_name(evaluation, answer)}: {count} of {sum(counts[label])}"
        for count, label, answer in wrong[:MOST_CONFUSED]
    ]
    if rest := wrong[MOST_CONFUSED:]:
        lines.append(f"{len(rest)} other pairs with {sum(count for count, _, _ in rest)} samples")
    return lines


def _brief_confused(results: EvaluationResults) -> str:
    """``"0_tshirt taken for 6_shirt: 8 of 100"``: the first line of each model; those that agree on it are one."""
    first = [
        (told[0].rpartition(": ")[::2], label)
        for one, label in _pairs(results)
        if one.run.evaluation is not None and (told := confused_lines(one.run.evaluation))
    ]
    found = by_key((pair or count, (count if pair else "", label)) for (pair, count), label in first)
    lines = []
    for what, some in found.items():
        counts = listing(list(dict.fromkeys(count for count, _ in some if count)))
        names = "" if len(some) == len(results.models) else f" ({listing([label for _, label in some])})"
        lines.append(f"{what}{f': {counts}' if counts else ''}{names}")
    return "; ".join(lines)


def example_lines(evaluation: Evaluation) -> list[str]:
    """Return the best classes of one sample, with the scores that the model gave."""
    example = evaluation.example or {}
    top = example.get("top") or ()
    try:
        told = [f"{class_name(evaluation, int(number))} ({significant(float(score))})" for number, score in top]
        label = class_name(evaluation, int(example["label"]))
    except (KeyError, TypeError, ValueError, ArithmeticError):  # records come from anywhere
        return []
    return [f"{example.get('sample')}, labelled {label}; best by the model's scores: {', '.join(told)}"] if told else []


def data_lines(evaluation: Evaluation) -> list[str]:
    """Return the data, the number of samples, and skipped samples."""
    data = evaluation.data
    chosen = "" if evaluation.limit is None else f" (at most {evaluation.limit}, chosen by seed {evaluation.seed})"
    lines = [
        f"{data.name} ({data.format}, split {data.split}): {evaluation.n} of {data.size} samples evaluated{chosen}, "
        f"{data.hashes()}"
    ]
    if evaluation.skipped_count:
        named = [f"{each.name} ({each.reason})" for each in evaluation.skipped[:MOST_SKIPPED]]
        rest = evaluation.skipped_count - len(named)
        more = f" and {rest} more" if rest else ""
        lines.append(f"{evaluation.skipped_count} skipped: {'; '.join(named)}{more}")
    if evaluation.reference is not None:
        lines.append(f"reference: the outputs of the model with sha256 {evaluation.reference[:16]}")
    if evaluation.hosts:
        lines.append(f"run in a lab, at {', '.join(f'{name} ({n})' for name, n in evaluation.hosts.items())}")
    if evaluation.seconds is not None:
        lines.append(f"the evaluation took {format_duration(evaluation.seconds)}, including preprocessing")
    return lines


def preparation_lines(evaluation: Evaluation) -> list[str]:
    """Return the preprocessing of every sample, and where it was specified."""
    # On the line itself: of several models, lines that all have are told once, away from those of each.
    said_by = f" (from {evaluation.preprocessing_from})" if evaluation.preprocessing_from else ""
    return [f"{line}{said_by}" for line in preparation_of(evaluation)]


def task_lines(evaluation: Evaluation) -> list[str]:
    """Return the task and its settings."""
    settings = ", ".join(f"{name} {value}" for name, value in flatten(evaluation.settings) if name != ORDER)
    return [f"{evaluation.task}: {settings}" if settings else evaluation.task]


def _shared(results: EvaluationResults, tell: Any) -> tuple[str, ...]:
    """Lines of each model, with its name where not all models have the same."""
    told = {
        label: tuple(one_line(line) for line in tell(one.run.evaluation))
        for one, label in _pairs(results)
        if one.run.evaluation is not None
    }
    if len(set(told.values())) <= 1:
        return next(iter(told.values()), ())
    by_line = by_key((line, label) for label, lines in told.items() for line in lines)
    return tuple(line if len(who) == len(told) else f"{listing(who)}: {line}" for line, who in by_line.items())


def _failures(results: EvaluationResults) -> tuple[str, ...]:
    return tuple(
        f"{label} in {engine_of(one.run)}: {failure_of(one.run)}"
        for one, label in _pairs(results)
        if one.run.status == "failed"
    )


def _doubts(results: EvaluationResults) -> tuple[str, ...]:
    """Why an accuracy is likely due to wrong preprocessing or label order rather than the model."""
    found = [(who, each) for one, who in _named(results) for each in one.run.cautions if each.code == CODE]
    doubts = [f"{who}{part}" for who, each in found for part in each.message.split("; ")]
    return lines_of([*doubts, *(each.advice for _, each in found)])


def _caution_lines(
    results: EvaluationResults, codes: Collection[str], *, advice: bool = False, alike: bool = False
) -> tuple[str, ...]:
    """Return cautions with one of `codes`, and what to do; `alike`: those on changes that all samples share."""
    found = by_key(
        (f"{each.message}{f' → {each.advice}' if advice else ''}", label)
        for one, label in _pairs(results)
        for each in one.run.cautions
        if each.code in codes and (each.code == CHANGED and are_converted_alike(one.run.evaluation)) == alike
    )
    return lines_of(
        text if len(set(labels)) == len(results.models) else f"{listing(list(dict.fromkeys(labels)))}: {text}"
        for text, labels in found.items()
    )


def _latency_cautions(results: EvaluationResults) -> tuple[str, ...]:
    """Return what is to be known of the latencies; cautions on the accuracy have sections of their own."""
    told_apart = (CODE, FIXED, *ABOUT_DATA)
    kept = [tuple(each for each in one.run.cautions if each.code not in told_apart) for one in results.models]
    # Their advice names options of `bench`, which `evaluate` lacks.
    plain = [tuple(replace(each, advice="") for each in cautions) for cautions in kept]
    runs = [replace(one.run, cautions=cautions) for one, cautions in zip(results.models, plain, strict=True)]
    lines = tuple(caution_lines(runs))
    return (*lines, "'edgewise bench' measures the latency longer, and has options for it") if any(kept) else lines


def _grades(results: EvaluationResults) -> tuple[str, ...]:
    """Reasons of grades below A, which concern the latency only."""
    return lines_of(
        f"{who}grade {trust.grade}: {'; '.join(trust.reasons)}"
        for one, who in _named(results)
        if (trust := one.run.trust) is not None and trust.reasons and one.run.status != "failed"
    )


def _notes(results: EvaluationResults) -> tuple[str, ...]:
    notes = ["interrupted: the results above are incomplete"] if results.interrupted else []
    shared = set(results.models[0].notes).intersection(*(one.notes for one in results.models)) if results.models else ()
    for place, (one, who) in enumerate(_named(results)):
        known = () if one.run.evaluation is None else preparation_of(one.run.evaluation)
        notes += [note if note in shared else f"{who}{note}" for note in one.notes if note not in known]
        if one.resumed:
            notes.append(f"{who}{one.resumed} answers are from an earlier, interrupted pass")
        if place and one.scores and not one.differences:
            notes.append(f"{who}no paired difference: no sample was answered by both models")
    return lines_of(notes)


def _pairs(results: EvaluationResults) -> list[tuple[ModelEvaluation, str]]:
    return list(zip(results.models, model_labels(results), strict=True))


def _named(results: EvaluationResults) -> list[tuple[ModelEvaluation, str]]:
    """Each model with the beginning of a line about it: its name where there are several."""
    several = len(results.models) > 1
    return [(one, f"{label}: " if several else "") for one, label in _pairs(results)]
