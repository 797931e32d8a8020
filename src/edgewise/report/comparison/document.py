"""A comparison as a document: conclusion, before and after by metric, and the evidence of the verdicts."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations
from operator import attrgetter

from edgewise.comparing.comparison import Comparison, ComparisonResult, Ranked, Ranking, Side, TokenAgreement, Variant
from edgewise.formatting import percent, ratio_text, scale_of, share_text
from edgewise.grouping import by_key
from edgewise.metrics import METRICS
from edgewise.record import Measurement, Run
from edgewise.record.facts import precision_of, threads_of
from edgewise.record.names import run_names
from edgewise.record.run import ID_SIZES
from edgewise.report.bench.document import input_sections
from edgewise.report.bench.facts import share_of_scale, why_programs_differ
from edgewise.report.bench.ranking import LOAD, load_lines
from edgewise.report.bench.values import headline_text, use_of
from edgewise.report.comparison.charts import CHARTS
from edgewise.report.comparison.tables import NO_REASON, before_after_table, compared_labels, conclusion_of
from edgewise.report.comparison.words import disagreement_text, lower_label, quotient_note, ranking_conclusion
from edgewise.report.document import (
    DASH,
    Cell,
    Column,
    Columns,
    Document,
    Section,
    Table,
    absent,
    filled,
    lines_of,
    table_by_columns,
    table_of,
    text_cell,
    value_cell,
)
from edgewise.report.document.columns import text_column
from edgewise.report.runs.cautions import FIXED, fixed_dimension_lines, merge_cautions, typed_path
from edgewise.report.runs.cells import failure_of, label_of, reason_of_absence
from edgewise.report.runs.conditions import elsewhere, engine_of, names_of
from edgewise.report.runs.provenance import how_of, provenance_of_column
from edgewise.run.agreement import BEYOND, REAL_INPUTS, compared_with, not_compared
from edgewise.stats.comparison import RISK
from edgewise.text import listing, one_line, plural
from edgewise.units import format_duration, significant

_DESIGNS = {
    "interleaved": "fresh processes of all variants took turns in random order",
    "sessions": "fresh processes that were measured apart",
    "paired": "the same samples of the data",
    "intervals": "two quoted intervals",
    "exact": "both numbers are exact",
    "same-run": "the two are one run",
    "none": "no evidence",
}


def comparison_document(findings: ComparisonResult) -> Document:
    """Return the whole comparison; its title is the conclusion."""
    differing = dict.fromkeys(one_line(line).partition(":")[0] for line in findings.stated)
    tables = [table for table in (ranking_table(findings),) if table is not None]
    tables += [before_after_table(findings, label) for label in compared_labels(findings)]
    tables += [table for table in (environments_table(findings), variants_table(findings)) if table is not None]
    runs = [each.run for each in findings.variants]
    front, cautions = tuple(front_lines(findings)), tuple(caution_lines(findings))
    conditions, amounts = lines_of(findings.conditions), "; ".join(_amount_lines(findings))
    codes = ", ".join(line if line.startswith(FIXED) else line.partition(":")[0] for line in cautions)
    load = (*load_lines(runs), *disagreement_lines(findings))
    sections = [
        Section(title="Failed", lines=lines_of(f"{who}: {why}" for who, why in findings.failures.items()), tone="bad"),
        Section(title="Not saved", lines=lines_of(map(str, findings.save_errors)), tone="bad"),
        Section(title="Not a fair comparison: it was forced", lines=lines_of(findings.obstacles), tone="bad"),
        Section(title="Other causes that can't be ruled out", lines=lines_of(findings.not_excluded), tone="poor"),
        Section(title="Agreement of the tokens", lines=tuple(token_lines(findings)), brief=token_brief(findings)),
        Section(title="What differs", lines=lines_of(findings.stated), brief=", ".join(differing)),
        *input_sections(runs),
        Section(title="Pareto front", lines=front, brief=next(iter(front), "")),
        Section(title="Basis of the verdicts", lines=tuple(evidence_lines(findings)), brief=amounts),
        Section(title="Reference kernels meanwhile", lines=conditions, brief="; ".join(conditions)),
        Section(title="Notes", lines=lines_of(findings.notes)),
        Section(title="Cautions about the variants' own numbers", lines=cautions, tone="poor", brief=codes),
    ]
    said = [
        *output_lines(findings),
        *variant_lines(findings),
        *agreement_lines(findings),
        *reason_lines(findings),
        *why_programs_differ(runs),
        *not_finite_lines(findings),
    ]
    return Document(
        title=title_of(findings),
        tables=tuple(tables),
        sections=tuple(filled(sections)),
        answer=lines_of([*said, *fixed_dimension_lines(winners_of(findings))]),
        lead=tuple(filled([Section(title=LOAD, lines=load, tone="poor")])),
        charts=lambda: [make(findings) for make in CHARTS],
    )


def title_of(findings: ComparisonResult) -> str:
    """Return the conclusion in one sentence, with the variants that failed."""
    failed = failed_text(findings)
    mark = "; " if findings.comparisons else ": "
    first, further, rest = _conclusion(findings).partition("; ")
    where = elsewhere(variant.run for variant in findings.variants)
    unlike = _unlike_of(findings)
    told = f"{unlike[0]}; " if len(unlike) == 1 and len(findings.variants) == 2 else ""
    return f"{told}{first}{where}{further}{rest}" + (f"{mark}{failed}" if failed else "")


def _outputs_of(findings: ComparisonResult) -> list[tuple[Variant, Variant, Measurement]]:
    """Return which file's outputs were held against which other one's, and how far they are apart."""
    found = []
    for one, other in permutations(findings.variants, 2):
        row = one.run.measurement("output_max_rel_error")
        if row is None or one.run.job.model.family == other.run.job.model.family:
            continue
        name = other.run.job.model.name
        if row.method.startswith(compared_with(name)) or (row.absent_because or "").startswith(not_compared(name)):
            found.append((one, other, row))
    return found


def _unlike_of(findings: ComparisonResult) -> list[str]:
    """``"B does not compute the same as A (outputs differ by 81.7 % of their scale, more than rounding explains)"``."""
    return [
        f"{one_line(one.label)} does not compute the same as {one_line(other.label)} (outputs differ by "
        f"{share_of_scale(row.value)} of their scale, {BEYOND})"
        for one, other, row in _outputs_of(findings)
        if row.value is not None and row.method.endswith(BEYOND)
    ]


def output_lines(findings: ComparisonResult) -> list[str]:
    """Whether the files compute the same, as far as that was tried; of those that don't, what tells more."""
    lines = _unlike_of(findings) if len(findings.variants) > 2 else []  # of two the title has it
    for one, other, row in _outputs_of(findings):
        names = one_line(one.label), one_line(other.label)
        if row.value is None:
            lines.append(f"Outputs: {names[0]} {one_line(row.absent_because or NO_REASON)}")
        elif row.method.endswith(BEYOND):
            paths = shlex.join([typed_path(other.run), typed_path(one.run)])
            lines.append(one_line(f"more: edgewise diff {paths}, and edgewise evaluate {paths} --data DATA"))
        else:
            lines.append(
                f"Outputs: {names[0]} agrees with {names[1]} within {share_of_scale(row.value)} of their scale"
            )
    return lines


def variant_lines(findings: ComparisonResult) -> list[str]:
    """Return what was found of each variant, a line each: the verdict, where the title has not that of each, and what
    a program used of its limits.
    """
    labels = compared_labels(findings)
    lines = []
    for one in findings.variants:
        if len(labels) > 1 and one.label in labels:
            lines.append(conclusion_of(findings, one.label) + use_of(one.run))
        elif use := use_of(one.run):
            lines.append(f"{one_line(one.label)}: {lower_label(one.run.headline)} {headline_text(one.run)}{use}")
    return lines


def winners_of(findings: ComparisonResult) -> list[Run]:
    """Return the run of each variant that is proven faster than another one."""
    headlines = {each.run.headline for each in findings.variants}
    rows = [row for row in findings.comparisons if row.metric in headlines]
    faster = {row.b for row in rows if row.verdict == "faster"} | {row.a for row in rows if row.verdict == "slower"}
    return [each.run for each in findings.variants if each.label in faster]


def disagreement_lines(findings: ComparisonResult) -> list[str]:
    """Where the statistics of one ratio say different things, a line for each variant: a time and its rate have one."""
    several = len(compared_labels(findings)) > 1
    told = {row.b: row for row in reversed(findings.comparisons) if row.disagreement is not None}
    return [
        f"{label_of(row.metric)}{f' of {one_line(row.b)}' if several else ''}: {disagreement_text(row.disagreement)}"
        for row in reversed(told.values())
    ]


def reason_lines(findings: ComparisonResult) -> list[str]:
    """Why variants are faster or slower, in a line each."""
    several = len(compared_labels(findings)) > 1
    return [f"{label}: {why}" if several else why for label, why in findings.reasons.items() if why]


def not_finite_lines(findings: ComparisonResult) -> list[str]:
    """Say which variants compute NaN or infinity, and what helps; nothing where all outputs are numbers."""
    labels = [
        one_line(each.label)
        for each in findings.variants
        if any(caution.code == "output-not-finite" for caution in each.run.cautions)
    ]
    told = f"outputs of {listing(labels)} are NaN or infinite with these inputs, so they can't be compared"
    return [f"{told}: {REAL_INPUTS}"] if labels else []


def agreement_lines(findings: ComparisonResult) -> list[str]:
    """``"tokens agree in 97 % of positions and on 13 of 16 prompts in full; first difference at token 31"``."""
    several = len(findings.agreement) > 1
    lines = []
    for label, one in findings.agreement.items():
        if one.share is None:
            told = f"agreement of the tokens is not known: {one_line(one.because)}"
        elif one.equal_positions == one.positions:
            told = f"the same tokens on {plural(one.prompts, 'prompt')}, all {one.positions}"
        else:
            whole = f"{one.equal_prompts} of {plural(one.prompts, 'prompt')}"
            told = f"tokens agree in {share_text(one.share, places=1)} of positions, and in full on {whole}; "
            told += f"first difference at token {one.first_difference}"
        lines.append(f"{one_line(label)}: {told}" if several else told)
    return lines


def token_brief(findings: ComparisonResult) -> str:
    """``"13 of 16 prompts in full, 95 % interval 57.0 % to 93.4 %"``; empty without any."""
    several = len(findings.agreement) > 1
    return "; ".join(
        (f"{one_line(label)} " if several else "") + f"{one.equal_prompts} of {plural(one.prompts, 'prompt')} in full, "
        f"95 % interval {share_text(one.low, places=1)} to {share_text(one.high, places=1)}"
        for label, one in findings.agreement.items()
        if one.low is not None and one.high is not None
    )


def token_lines(findings: ComparisonResult) -> list[str]:
    """How the agreement of the tokens is known, and what is not."""
    lines = []
    for label, one in findings.agreement.items():
        if one.share is None or one.low is None or one.high is None:
            continue
        name = one_line(label)
        lines.append(
            f"{name}: {one.equal_positions} of {one.positions} greedy tokens are those of the first variant, counted "
            f"position by position; {one.equal_prompts} of {plural(one.prompts, 'prompt')} agree in full, "
            f"95 % interval {share_text(one.low, places=1)} to {share_text(one.high, places=1)} of prompts like these"
        )
        lines += [
            f"{one_line(each)} itself made other tokens of one prompt in another process" for each in one.unsteady
        ]
    return [*lines, *(line for label, one in findings.agreement.items() for line in _divergence_lines(label, one))]


def _divergence_lines(label: str, one: TokenAgreement) -> list[str]:
    """How far the probabilities are apart, as far as the engines tell them."""
    found, lines = one.divergence, []
    where = f"over {found.places} tokens of {plural(found.prompts, 'prompt')}"
    if found.kl is None:
        lines.append(f"{one_line(label)}: the KL divergence of the logits is not known: {one_line(found.because)}")
    else:
        known = found.low is not None and found.high is not None
        ends = f", 95 % interval {found.low:.3g} to {found.high:.3g}" if known else ", no interval below 10 prompts"
        lines.append(f"{one_line(label)}: KL divergence {found.kl:.3g} nats a token from the first{ends}, {where}")
    if found.log_probability_difference is not None:
        apart = f"{found.log_probability_difference:.3g}"
        lines.append(f"{one_line(label)}: ln p of the text's own tokens differs by {apart} in the mean, {where}")
    return lines


def failed_text(findings: ComparisonResult) -> str:
    """``"B failed"``; empty where all went well."""
    cancelled = {variant.label for variant in findings.variants if variant.run.status == "cancelled"}
    failed = [one_line(label) for label in findings.failures if label not in cancelled]
    return f"{listing(failed)} failed" if failed else ""


def _conclusion(findings: ComparisonResult) -> str:
    labels = compared_labels(findings)
    if findings.ranking is not None and len(findings.ranking.places) > 2:
        return ranking_conclusion(findings.ranking)
    if len(labels) == 1:
        return conclusion_of(findings, labels[0])
    if labels:
        first = findings.comparisons[0].a
        return f"{listing([one_line(label) for label in labels])} against {one_line(first)}"
    return "Nothing could be compared"


def ranking_table(findings: ComparisonResult) -> Table | None:
    """Places, groups that can't be told apart, and ratios to the best; None where nothing is ranked."""
    ranking = findings.ranking
    if ranking is None:
        return None
    metric, places = METRICS[ranking.metric], ranking.places
    convert, name = scale_of(ranking.metric, metric.unit, [one.value for one in places if one.value is not None])
    method = "; ".join(dict.fromkeys(row.method for row in findings.comparisons if row.metric == ranking.metric))
    runs = {variant.label: variant.run for variant in findings.variants}
    how = partial(provenance_of_column, "Ratio to the best", "derived", method, "beside each ratio")

    def value(one: Ranked) -> Cell:
        if one.value is None:
            return absent(_why_absent(findings, one.label, ranking.metric))
        text = f"{significant(convert(one.value))} {name}".rstrip()
        return Cell(text=text, value=one.value, how=how_of(runs.get(one.label), ranking.metric))

    def ratio(one: Ranked) -> Cell:
        if one.label == places[0].label:
            return DASH
        if one.ratio is None:
            return absent("no ratio to the best is known")
        text, notes = ratio_text(one.ratio, one.low, one.high), _quotient_notes(findings, ranking, one)
        return Cell(text=text, value=one.ratio, low=one.low, high=one.high, notes=notes)

    columns: Columns[Ranked] = [
        (Column(title="Place"), lambda one: Cell(text=str(one.place), value=one.place) if one.groups else DASH),
        text_column("Variant", lambda one: one.label),
        text_column("Group", lambda one: one.groups),
        (Column(title=label_of(ranking.metric), numeric=True), value),
        (Column(title="Ratio to the best (95 % interval)", numeric=True, how=how), ratio),
    ]
    notes = ["two variants share a letter exactly where they can't be told apart"]
    if _is_place_before_ratio(ranking):
        notes.append(
            "a place is behind those proven better: a ratio that nothing is proven of may stand before a better one"
        )
    if any(not one.groups and one.value is not None for one in places):
        notes.append("runs of grade D that are not proven better, worse or the same have no place")
    values = [one.value for one in places if one.value is not None and one.ratio is not None]
    if values != sorted(values, reverse=metric.better == "higher"):
        notes.append(
            "within a place the order is that of the ratios, of neighbours in time or of whole processes; values are "
            "of all samples"
        )
    return table_of(f"Ranking by {lower_label(ranking.metric)}", places, columns, notes=notes)


def _is_place_before_ratio(ranking: Ranking) -> bool:
    """Whether a variant stands before one with a better ratio: its interval is so wide that nothing is proven of it."""
    ratios = [one.ratio for one in ranking.places if one.groups and one.ratio is not None]
    return ratios != sorted(ratios, reverse=METRICS[ranking.metric].better == "higher")


def _quotient_notes(findings: ComparisonResult, ranking: Ranking, one: Ranked) -> tuple[str, ...]:
    """Why the ratio of `one` to the best is not that of the two values in the table; empty where it is."""
    best = ranking.places[0].value
    rows = [row for row in findings.comparisons if row.metric == ranking.metric and one.label in (row.a, row.b)]
    against = [replace(row, before=Side(value=best), after=Side(value=one.value), ratio=one.ratio) for row in rows[:1]]
    return tuple(filter(None, map(quotient_note, against)))


def _why_absent(findings: ComparisonResult, label: str, metric: str) -> str:
    run = next((variant.run for variant in findings.variants if variant.label == label), None)
    return reason_of_absence(run, metric) if run is not None else one_line(findings.failures.get(label, NO_REASON))


def front_lines(findings: ComparisonResult) -> list[str]:
    """Return the variants on the Pareto front, and by which ones the others are beaten."""
    front = findings.front
    if front is None:
        return []
    over = listing([lower_label(metric) for metric in front.metrics])
    undecided = {row.metric for row in findings.comparisons if row.verdict == "inconclusive"}
    if (missing := [lower_label(metric) for metric in front.metrics if metric in undecided]) and not front.beaten:
        return [f"no variant is proven worse yet, as there is no verdict on {listing(missing)}"]
    members = listing([one_line(label) for label in front.members]) or "none"
    lines = [f"variants that no other beats in {over}: {members}"]
    for label, by in front.beaten.items():
        lines.append(f"{one_line(label)} is beaten by {listing([one_line(each) for each in by])}")
    if front.beaten:
        lines.append("to beat is to be proven better in one of these and proven no worse in the others")
    return lines


def environments_table(findings: ComparisonResult) -> Table | None:
    """Where the environments of runs measured apart differ; None where they don't."""
    if not findings.environments:
        return None
    names = [one_line(variant.label) for variant in findings.variants]
    a, b = names if len(names) == 2 else ("Baseline", "Other")
    columns = [text_column(title, attrgetter(name)) for title, name in (("Condition", "name"), (a, "a"), (b, "b"))]
    return table_of("Where the environments differ", findings.environments, columns)


def variants_table(findings: ComparisonResult) -> Table | None:
    """Return the run of each label; None without variants."""
    if not findings.variants:
        return None
    runs = [variant.run for variant in findings.variants]
    unsaid, ungraded = "chosen and not reported by the engine", "the run was not graded"
    threads = [value_cell(threads_of(run), str, failure_of(run) or unsaid) for run in runs]
    grades = [text_cell(run.trust.grade) if run.trust else absent(failure_of(run) or ungraded) for run in runs]
    labels = [variant.label for variant in findings.variants]
    # Names by place and time say nothing elsewhere: here they have their runs.
    by_place = any(label.endswith(name) for label, name in zip(labels, run_names(runs), strict=True))
    short = next((size for size in ID_SIZES if len({run.id[:size] for run in runs}) == len(runs)), None)
    ids = [Cell(text=one_line(run.id), short=one_line(run.id[:short])) for run in runs]
    when = [text_cell(run.created_at[:19].replace("T", " ")) for run in runs]
    columns = [
        (Column(title="Variant"), list(map(text_cell, labels))),
        (Column(title="Model"), [Cell(text=name) for name in names_of(runs)]),
        (Column(title="Runtime"), [Cell(text=engine_of(run)) for run in runs]),
        (Column(title="Threads", numeric=True, rank=2), threads),
        (Column(title="Precision", rank=3), list(map(_precision, runs))),
        (Column(title="Grade", rank=1), grades),
        *([(Column(title="Measured (UTC)"), when)] if by_place else []),
        (Column(title="Run", rank=0 if by_place else 4), ids),
    ]
    return table_by_columns("What was compared", columns, detail=bool(findings.comparisons) and not by_place)


def _precision(run: Run) -> Cell:
    precision = precision_of(run)
    return absent(failure_of(run) or "not reported by the engine") if precision is None else text_cell(precision)


def evidence_lines(findings: ComparisonResult) -> list[str]:
    """Return the design, the amount of measuring and why it stopped, the margins, and the error risk."""
    rows = findings.comparisons
    if not rows:
        return []
    by_method = by_key(((row.design, "" if row.design == "exact" else one_line(row.method)), row) for row in rows)
    lines = []
    for (design, method), found in by_method.items():
        lines.append(f"{_DESIGNS[design]}{f' ({method})' if method else ''}: {listing(_whose(found, rows))}")
    reruns = dict.fromkeys(one_line(row.rerun_method) for row in rows if row.rerun_method)
    lines += [f"variation of the ratio between comparisons: {method}" for method in reruns]
    return [*lines, *_amount_lines(findings), *_margin_lines(rows)]


def _whose(found: Sequence[Comparison], rows: Sequence[Comparison]) -> list[str]:
    """Return the metrics of `found`, with the variant only where not all of `rows` in that metric are among them."""
    words = []
    for row in found:
        whole = all(each in found for each in rows if each.metric == row.metric)
        words.append(lower_label(row.metric) + ("" if whole else f" of {one_line(row.b)}"))
    return list(dict.fromkeys(words))


def _amount_lines(findings: ComparisonResult) -> list[str]:
    told = []
    if findings.pairs is not None:
        word = "pair" if len(findings.variants) <= 2 else "round"
        told.append(f"{findings.pairs} {word}{'s' if findings.pairs != 1 else ''} of fresh processes")
    if findings.elapsed_s is not None:
        told.append(f"{format_duration(findings.elapsed_s)} of measuring")
    amount = " in ".join(told)
    if findings.interrupted:
        amount += f"{', ' if amount else ''}interrupted"
    if findings.stopped_because:
        amount += f"{'; ' if amount else ''}stopped because: {one_line(findings.stopped_because)}"
    return [amount] if amount else []


def _margin_lines(rows: Sequence[Comparison]) -> list[str]:
    """Return the differences that are too small to matter, and the condition for a verdict."""
    margins = by_key((percent(row.margin), row) for row in rows if row.margin is not None and row.design != "same-run")
    if not margins:
        return []
    said = [
        f"± {text}" + (f" for {listing(_whose(found, rows))}" if len(margins) > 1 else "")
        for text, found in margins.items()
    ]
    return [
        f"too small to matter: {'; '.join(said)}",
        f"a difference needs p < {RISK:g} after Holm's correction over all rows; 'same' needs the whole interval "
        "within what is too small to matter, at every look",
    ]


def caution_lines(findings: ComparisonResult) -> list[str]:
    """Cautions of the runs: one line per kind, equal messages merged.

    Without the advice, which is for measuring one thing alone: turns share most of what disturbs.
    """
    labelled = ((one_line(variant.label), variant.run) for variant in findings.variants)
    lines = []
    for code, messages in merge_cautions(labelled).items():
        said = "; ".join(f"{listing(who)}: {message}" for message, who in messages.items())
        lines.append(f"{one_line(code)}: {said}")
    return lines
