"""The result of a gate as a document, on the terminal and as a pull-request comment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from edgewise.comparing.comparison import Comparison
from edgewise.comparing.fairness import is_same_job
from edgewise.comparing.gate import BASELINE, CANDIDATE, OF_BASELINE, Check, CheckVerdict, GateResult
from edgewise.comparing.requirement import format_limit
from edgewise.formatting import ratio_text
from edgewise.grouping import by_key
from edgewise.metrics import METRICS, WITHOUT_A_RUN
from edgewise.record import ABOUT_DATA, Run
from edgewise.record.facts import threads_of
from edgewise.report.comparison.document import comparison_document, disagreement_lines, reason_lines
from edgewise.report.comparison.words import quotient_note
from edgewise.report.document import Cell, Column, Document, Section, Tone, absent, table_by_columns
from edgewise.report.runs.conditions import elsewhere, engine_of, provider_of, told_apart
from edgewise.report.runs.provenance import how_of, provenance_of_column
from edgewise.text import listing, one_line, plural
from edgewise.units import format_duration

MARKER = "<!-- edgewise gate -->"
"""First line of the Markdown comment, so that a bot finds the comment it made and updates it."""

_MARKS = {
    ".md": (MARKER,),
    ".xml": ('<testsuites name="edgewise gate"',),
    ".html": ('<meta name="generator" content="edgewise', "<title>Gate "),
    ".json": ('"gate_notes": [',),
}
_MARKED_BYTES = 65536
_TONES: dict[CheckVerdict, Tone] = {"pass": "good", "fail": "bad", "inconclusive": "poor", "unmeasured": "bad"}
_SIGNS: dict[CheckVerdict, str] = {"pass": "✓", "fail": "✗", "inconclusive": "?", "unmeasured": "?"}


def describe_check(check: Check) -> str:
    """Return the verdict in one line with its numbers."""
    before, after, ratio = _limited(check.before, check), _limited(check.value, check), _ratio(check)
    texts = {"baseline": before, "candidate": after, "ratio": ratio}
    numbers = [f"{name} {text}" for name, text in texts.items() if text]
    words = f"{check.verdict}: {check.because}" if check.because else check.verdict
    return f"{words} ({', '.join(numbers)})" if numbers else words


def gate_document(outcome: GateResult, *, folded: bool = True) -> Document:
    """Return the checks as a table, then how they came about.

    Args:
        folded: for narrow places: reasons as footnotes and not in a column of their own.
    """
    checks, runs = outcome.checks, {variant.label: variant.run for variant in outcome.findings.variants}
    columns = [(Column(title="Requirement"), [Cell(text=check.requirement.text) for check in checks])]
    if any(check.requirement.needs_baseline for check in checks):
        columns.append((Column(title="Baseline", numeric=True), [_baseline_cell(check, runs) for check in checks]))
    columns.append((Column(title="Candidate", numeric=True), [_candidate_cell(check, runs) for check in checks]))
    if any(check.ratio is not None for check in checks):
        compared = {row.metric: row for row in outcome.findings.comparisons}
        ratios = [_ratio_cell(check, compared) for check in checks]
        methods = "; ".join(dict.fromkeys(row.method for row in outcome.findings.comparisons))
        how = partial(provenance_of_column, "Candidate over baseline", "derived", methods, "beside each ratio")
        columns.append((Column(title="Ratio", numeric=True, how=how), ratios))
    verdicts = (Column(title="Verdict", decides=True), [_verdict_cell(check, folded=folded) for check in checks])
    # A page cuts off columns at its right edge, a terminal never this one.
    columns.insert(len(columns) if folded else 0, verdicts)
    if not folded:
        columns.append((Column(title="Why"), [Cell(text=one_line(check.because)) for check in checks]))
    table = table_by_columns("Checks", columns)
    measured = Section(title="How it was measured", lines=tuple(_details(outcome)), tone=_tone(outcome))
    proven = outcome.passed and not outcome.count("inconclusive")
    measured = replace(measured, brief=_origin_of_baseline(outcome) if proven else None)
    answer = (f"Gate {conclusion_of(outcome)}", *_reasons(outcome), *_doubts(outcome))
    return Document(title="edgewise gate", tables=(table,), sections=(measured,), answer=answer)


def gate_page(outcome: GateResult) -> Document:
    """As `gate_document`, with room for the reasons, and the comparison that the checks rest on."""
    document = gate_document(outcome, folded=False)
    title, *doubts = document.answer
    found = comparison_document(outcome.findings)
    # The page's own charts are those of the comparison.
    parts = [("The comparison", [replace(found, charts=tuple)])] if outcome.findings.variants else []
    return replace(document, title=title, answer=tuple(doubts), charts=found.charts, parts=lambda: parts)


def _reasons(outcome: GateResult) -> list[str]:
    """Return why the candidate is faster or slower than the baseline, where a check is not met."""
    return [] if all(check.verdict == "pass" for check in outcome.checks) else reason_lines(outcome.findings)


def _details(outcome: GateResult) -> list[str]:
    """Return the statements without the cautions that stand above them."""
    cautions = {one_line(caution.message) for one in outcome.findings.variants for caution in one.run.cautions}
    return [line for line in statements_of(outcome) if line.partition(": ")[2] not in cautions]


def _doubts(outcome: GateResult) -> list[str]:
    """Return what casts doubt on checks that passed.

    How accuracies were judged and cautions on that, one file against itself, and what differs beside the model.
    """
    stated = outcome.findings.stated
    differing = [one_line(f"differs: {line}") for line in stated if not line.startswith("model: ")]
    runs = [variant.run for variant in outcome.findings.variants if variant.run is not None]
    cautions = by_key(
        (caution.message, variant.label)
        for variant in outcome.findings.variants
        for caution in variant.run.cautions
        if caution.code in ABOUT_DATA
    )
    told = [
        f"caution: {message}" if len(labels) == len(runs) else f"caution on {listing(labels)}: {message}"
        for message, labels in cautions.items()
    ]
    return [*map(one_line, (*outcome.judging, *told)), *_one_file(runs), *differing]


def _one_file(runs: Sequence[Run]) -> list[str]:
    """State that baseline and candidate took turns as one file with the same settings, so that no change can show."""
    if len(runs) < 2 or any(run.id == runs[0].id or not is_same_job(runs[0], run) for run in runs[1:]):
        return []
    return [
        "caution: baseline and candidate are the same file on the same engine, both measured now, so what changed "
        "since the baseline was stored can't show; --stored compares with the stored run"
    ]


def conclusion_of(outcome: GateResult) -> str:
    """Return the conclusion with the engine, and where it was measured unless on this machine."""
    verdict, colon, rest = one_line(outcome.conclusion).partition(": ")
    word, comma, why = verdict.partition(", ")
    place = elsewhere(variant.run for variant in outcome.findings.variants)
    return f"{word}{_on_engine(outcome)}{comma}{why}{place}{colon}{rest}"


def _on_engine(outcome: GateResult) -> str:
    """``" on openvino/cpu with 4 threads"``; empty for several engines, programs and checks that need no run."""
    runs = [variant.run for variant in outcome.findings.variants]
    engines = {provider_of(run) for run in runs if not run.job.command}
    if len(engines) != 1 or all(check.requirement.metric in WITHOUT_A_RUN for check in outcome.checks):
        return ""
    threads = {threads_of(run) for run in runs}
    (count,) = threads if len(threads) == 1 else (None,)
    return f" on {engines.pop()}{f' with {count} threads' if count and count > 1 else ''}"


def _origin_of_baseline(outcome: GateResult) -> str:
    """Whether the baseline's values are those of its stored run or of a new measurement; "" without a stored run."""
    return one_line("; ".join(note for note in outcome.notes if note.startswith(OF_BASELINE)))


def statements_of(outcome: GateResult) -> list[str]:
    """How the checks came about and what to know about them, a line each."""
    findings = outcome.findings
    runs = told_apart([variant.run for variant in findings.variants])
    lines = [f"{one.label}: {describe_run(run)}" for one, run in zip(findings.variants, runs, strict=True)]
    if outcome.count("inconclusive") and outcome.policy == "pass":
        lines.append(
            f"inconclusive checks pass (--on-inconclusive pass): {outcome.count('inconclusive')} "
            "of them passed without proof"
        )
    if outcome.attempts > 1:
        lines.append(f"measured {outcome.attempts} times, each with twice the time of the one before")
    if findings.pairs is not None and findings.elapsed_s is not None:
        pairs = "1 pair" if findings.pairs == 1 else f"{findings.pairs} pairs"
        last = " in the last measurement" if outcome.attempts > 1 else ""
        whole = " in all" if outcome.attempts > 1 else ""
        lines.append(f"{pairs} of fresh processes{last}, {format_duration(findings.elapsed_s)}{whole}")
    lines += [f"stopped because {findings.stopped_because}"] if findings.stopped_because else []
    lines += [*disagreement_lines(findings), *outcome.notes]
    lines += [f"{label} has no result: {why}" for label, why in findings.failures.items()]
    lines += [f"differs: {line}" for line in findings.stated]
    lines += [f"can't be ruled out: {line}" for line in findings.not_excluded]
    lines += [f"environments differ: {one.name}: {one.a} before, {one.b} now" for one in findings.environments]
    return [one_line(line) for line in (*lines, *findings.notes)]


def describe_run(run: Run) -> str:
    """Return what was measured: model, engine, settings."""
    job = run.job
    runtime = job.runtime
    words = [job.model.name, engine_of(run)]
    words += [plural(runtime.threads, "thread")] if runtime.threads else []
    words += [f"batch {job.workload.batch}"] if job.workload.batch != 1 else []
    words += [runtime.precision] if runtime.precision else []
    words += [scenario] if (scenario := job.workload.scenario.kind_in_words) != "single-stream" else []
    return one_line(f"{', '.join(words)} (run {run.id})")


def render_gate_markdown(outcome: GateResult) -> str:
    """Return a comment for a pull request: marker, verdict, checks, everything else folded away."""
    from edgewise.report.document.markdown import render_markdown
    from edgewise.text import for_markdown

    sign = "✓" if outcome.passed and not outcome.count("inconclusive") else "?"
    sign = "✗" if not outcome.passed else sign
    document = gate_document(outcome, folded=False)
    checks = Document(title="Checks", tables=document.tables)
    table = render_markdown(checks).partition("\n\n")[2]
    lines = [MARKER, f"### {sign} edgewise gate {for_markdown(conclusion_of(outcome))}", "", table.strip(), ""]
    for said in filter(None, (*_reasons(outcome), _origin_of_baseline(outcome), *_doubts(outcome))):
        lines += [for_markdown(f"{said[:1].upper()}{said[1:]}."), ""]
    details = [f"- {for_markdown(line)}" for line in _details(outcome)]
    if outcome.findings.comparisons:
        details += ["", *_comparisons(outcome)]
    if details:
        lines += ["<details><summary>How this was measured</summary>", "", *details, "", "</details>", ""]
    return "\n".join(lines)


def is_gate_report(path: Path) -> bool:
    """Whether a gate wrote the file at `path`: the next one may replace it, as pipelines run in one folder again."""
    try:
        with path.open("rb") as file:
            head = file.read(_MARKED_BYTES)
            file.seek(max(0, path.stat().st_size - _MARKED_BYTES))
            ends = (head + file.read(_MARKED_BYTES)).decode("utf-8", "replace")
    except OSError:
        return False
    return all(mark in ends for mark in _MARKS.get(path.suffix.lower(), ("\0",)))


def _baseline_cell(check: Check, runs: Mapping[str, Run]) -> Cell:
    if not check.requirement.needs_baseline:
        return Cell(text="")
    how = how_of(runs.get(BASELINE), check.requirement.metric)
    return absent() if check.before is None else Cell(text=_limited(check.before, check), value=check.before, how=how)


def _candidate_cell(check: Check, runs: Mapping[str, Run]) -> Cell:
    if check.value is None:
        return absent()
    how = how_of(runs.get(CANDIDATE), check.requirement.metric)
    return Cell(text=_limited(check.value, check), value=check.value, low=check.low, high=check.high, how=how)


def _ratio_cell(check: Check, compared: Mapping[str, Comparison]) -> Cell:
    text, row = _ratio(check), compared.get(check.requirement.metric)
    notes = (note,) if text and row is not None and (note := quotient_note(row)) else ()
    short = text.partition(" (")[0]
    return Cell(text=text, short=short, value=check.ratio, low=check.ratio_low, high=check.ratio_high, notes=notes)


def _verdict_cell(check: Check, *, folded: bool) -> Cell:
    notes = (one_line(check.because),) if folded and check.because else ()
    text = check.verdict if folded else f"{_SIGNS[check.verdict]} {check.verdict}"
    return Cell(text=text, notes=notes, tone=_TONES[check.verdict])


def _limited(value: float | None, check: Check) -> str:
    """Return a value of the metric that is checked; empty where there is none."""
    return "" if value is None else format_limit(value, METRICS[check.requirement.metric])


def _ratio(check: Check) -> str:
    """Candidate over baseline; empty where there is none."""
    return "" if check.ratio is None else ratio_text(check.ratio, check.ratio_low, check.ratio_high)


def _comparisons(outcome: GateResult) -> list[str]:
    """Return the table of all metrics that were compared, as Markdown below the headings of a comment."""
    from edgewise.report.comparison.tables import before_after_table, compared_labels
    from edgewise.report.document.markdown import render_markdown

    labels = compared_labels(outcome.findings)
    tables = tuple(before_after_table(outcome.findings, label) for label in labels)
    return render_markdown(Document(title="", tables=tables)).replace("\n## ", "\n#### ").splitlines()[2:]


def _tone(outcome: GateResult) -> Tone:
    if not outcome.passed:
        return "bad"
    return "poor" if outcome.count("inconclusive") else "good"
