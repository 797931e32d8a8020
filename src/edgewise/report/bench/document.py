"""What `edgewise bench` prints: the answer, also by device, tables, recommendation, settings, cautions, absences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from edgewise.device.devices import LOCAL
from edgewise.formatting import quantity, width_text
from edgewise.grouping import by_key
from edgewise.metrics import METRICS
from edgewise.record import Run
from edgewise.record.facts import precision_of, threads_of
from edgewise.report.bench.answer import answer_of
from edgewise.report.bench.busy import is_decided_by_load
from edgewise.report.bench.generated import generated_answer, is_generated
from edgewise.report.bench.ranking import (
    UNRELIABLE,
    Candidate,
    comparable_groups,
    disagreement_lines,
    factor_of,
    in_order,
    is_faster,
    likely_verdict,
    noun_of,
    objection_of,
    sweeps,
)
from edgewise.report.bench.recommendation import Recommendation, group_title, recommendations
from edgewise.report.bench.speeds import speed_lines
from edgewise.report.bench.sustained import sustained_sections
from edgewise.report.bench.tables import bench_tables, ranking_table
from edgewise.report.document import Document, Section, Table, filled
from edgewise.report.runs.cautions import (
    caution_sections,
    command_of_runs,
    default_precision_lines,
    fixed_dimension_lines,
)
from edgewise.report.runs.cells import judged_on, label_of, reason_of_absence
from edgewise.report.runs.conditions import (
    delegates_of,
    elsewhere,
    engine_of,
    environments_of,
    input_text,
    is_original,
    labels_of,
    lines_by_run,
    path_of,
    processor_of,
    provider_of,
    scenario_of,
    shared_command,
    system_of,
    threads_words,
    told_apart,
)
from edgewise.run.agreement import BEYOND, NO_MAJORITY, REFERENCE
from edgewise.run.variation import half_width_of
from edgewise.text import enumerate_few, listing, one_line
from edgewise.units import significant

MOST_LINES = 3
"""Of settings that ran on several devices, as many are told; the table has the others."""


def devices_of(runs: Sequence[Run]) -> list[str]:
    """Return the names of the devices, in order of first appearance."""
    return list(dict.fromkeys(one_line(run.job.target.device) for run in runs))


def _by_device(runs: Sequence[Run]) -> dict[str, list[Run]]:
    return by_key((one_line(run.job.target.device), run) for run in runs)


def title_of_group(group: Sequence[Run], runs: Sequence[Run]) -> str:
    """Return the title of comparable runs, with the device where `runs` are of several, or of another machine."""
    several = len(devices_of(runs)) > 1
    return group_title(group[0]) + (f", on {devices_of(group)[0]}" if several else elsewhere(group))


def recommendations_by_device(runs: Sequence[Run]) -> list[Recommendation]:
    """As `recommendations`, each with its device where there are several."""
    parts = _by_device(told_apart(runs))
    if len(parts) < 2:
        return recommendations(runs)
    return [
        replace(one, group=f"{one.group}, on {device}")
        for device, part in parts.items()
        for one in recommendations(part)
    ]


def recommended_runs(runs: Sequence[Run]) -> list[Run]:
    """Return the recommended runs of several; none of one."""
    ids = {one.run for one in recommendations_by_device(runs)} if len(runs) > 1 else set()
    return [run for run in runs if run.id in ids]


def answer_by_device(runs: Sequence[Run], *, each: bool = False) -> tuple[str, ...]:
    """Return the conclusion; of several devices which is faster, then one for each. `each`: models have a line, too."""
    if made := [run for run in runs if is_generated(run)]:
        others = [run for run in runs if not is_generated(run)]
        return (*generated_answer(made), *(answer_by_device(others, each=each) if others else ()))
    parts = _by_device(runs)
    if len(parts) < 2:
        return answer_of(runs, each=each)
    lines = by_key((line, device) for device, part in parts.items() for line in answer_of(part, each=each))
    return (*_faster_devices(runs), *(f"{listing(devices)}: {line}" for line, devices in lines.items()))


def summary_of(runs: Sequence[Run]) -> tuple[str, ...]:
    """Return what was measured with what and where, and what failed; empty for one run."""
    if len(runs) < 2:
        return ()
    told = {
        "of {} model": [run.job.model.name for run in runs],
        "in {} engine": [run.job.runtime.name for run in runs if not run.job.command],
        "on {} device": [run.job.target.device for run in runs],
    }
    counted = [
        f"{words.format(len(names))}{'s' if len(names) > 1 else ''} ({one_line(enumerate_few(names))})"
        for words, some in told.items()
        if (names := list(dict.fromkeys(some)))
    ]
    failed = [
        f"{label} ({one_line(run.failure.message) if run.failure is not None else 'no reason is recorded'})"
        for run, label in zip(runs, labels_of(runs), strict=True)
        if run.status == "failed"
    ]
    lines = [f"{len(runs)} runs {' '.join(counted)}{'' if failed else '; none failed'}"]
    return (*lines, *([f"{len(failed)} of {len(runs)} failed: {enumerate_few(failed)}"] if failed else []))


def _faster_devices(runs: Sequence[Run]) -> list[str]:
    """Which device is faster, a line for each file, engine and setting that ran on several."""
    groups = by_key((_setting_of(run), run) for run in runs).values()
    shared = [group for group in groups if len(devices_of(group)) > 1]
    labels = labels_of([group[0] for group in shared]) if len(shared) > 1 else [""]
    lines = [(f"{label}: " if label else "") + _fastest_of(group) for label, group in zip(labels, shared, strict=False)]
    rest = [f"the table has {len(lines) - MOST_LINES} more settings that ran on several devices"]
    return lines if len(lines) <= MOST_LINES else lines[:MOST_LINES] + rest


def _setting_of(run: Run) -> tuple[object, ...]:
    """File, engine, settings and limits of a run, and what it is about."""
    job, limits = run.job, (run.job.target.memory_limit_bytes, run.job.target.constraints)
    setting = (threads_of(run) or job.runtime.threads, precision_of(run) or job.runtime.precision)
    same = (job.model.sha256, job.command, provider_of(run), *setting, job.workload.batch, scenario_of(run))
    return (*same, *limits, run.headline)


def _fastest_of(group: Sequence[Run]) -> str:
    """``"pi is 1.31× [1.2, 1.4] faster than local (latency …)"``, or why that can't be told."""
    last = {device: part[-1] for device, part in _by_device(group).items()}
    objections = {device: brief for device, run in last.items() if (brief := objection_of(run).brief)}
    left_out = enumerate_few([f"{device} ({brief})" for device, brief in objections.items()])
    ranked = [
        Candidate(run, device, row)
        for device, run in last.items()
        if device not in objections and (row := run.measurement(run.headline)) is not None
    ]
    if len(ranked) < 2:
        return f"Which device is faster can't be told: {_why_not_told(last, objections)}"
    metric = METRICS[ranked[0].row.metric]
    best, *others = in_order(ranked)
    said = [f"{factor_of(best, other)} faster than {other.label}" for other in others if is_faster(best, other)]
    likely = [other for other in others if likely_verdict(best, other) == "faster"]
    said += [f"probably {factor_of(best, other)} faster than {other.label}" for other in likely]
    alike = [other.label for other in others if not is_faster(best, other) and other not in likely]
    words = f"{best.label} is {listing(said)}" if said else f"{listing([best.label, *alike])} can't be told apart"
    words += f" and can't be told apart from {listing(alike)}" if said and alike else ""
    facts = [f"{noun_of(best.run)}: " + ", ".join(f"{one.label} {quantity(one.value, metric.unit)}" for one in ranked)]
    facts += ["no difference that matters is proven"] if alike else []
    facts += ["what is probable is not proven"] if likely else []
    facts += ["the last run on each"] if len(group) > len(last) else []
    facts += [f"left out: {left_out}"] if objections else []
    return f"{words} ({'; '.join(facts)})"


def _why_not_told(last: Mapping[str, Run], objections: Mapping[str, str]) -> str:
    """Return ``"the value of pi has grade D; measure again, idle: edgewise bench … -d pi"``."""
    vague = [device for device, brief in objections.items() if brief == UNRELIABLE]
    others = [f"{device} ({brief})" for device, brief in objections.items() if brief != UNRELIABLE]
    told = [f"the value of {each} has grade D" for each in vague]
    if not vague or others or last[vague[0]].job.command:
        return enumerate_few([*told, *others])
    commands = [command_of_runs([last[each]], "bench") for each in vague]
    return f"{enumerate_few(told)}; measure again, idle: {'; '.join(commands)}"


MOST_INPUT_LINES = 4
"""Number of different inputs that are printed without `--details`."""
LEAST_RANKED = 3
"""Number of models from which on a table ranks them; of two, the first line says which is faster."""


def bench_document(runs: Sequence[Run], *, title: str = "", places: bool = False) -> Document:
    """Tables, recommendation, cautions, agreement of outputs and missing values of `runs`, in their order.

    Args:
        places: whether commands have the paths of models outside the current folder, which files for others must not
            disclose.
    """
    runs = told_apart(runs)
    tables = bench_tables(runs)
    in_engines = [run for run in runs if not run.job.command]
    answer = (*answer_by_device(runs), *default_precision_lines(runs, verb="bench", places=places))
    sections = [
        *recommendation_sections([run for run in in_engines if not is_generated(run)]),
        *sustained_sections(runs),
        Section(
            title="Also worth measuring", lines=tuple(fixed_dimension_lines(recommended_runs(runs), places=places))
        ),
        *input_sections(runs),
        _settings(in_engines),
        *interval_sections(runs),
        Section(title="In turns", lines=tuple(disagreement_lines(runs))),
        Section(title="Several speeds", lines=tuple(line for line in speed_lines(runs) if line not in answer)),
        *caution_sections(runs, answer),
        _agreement(runs),
        _paths(runs),
        Section(title="Accuracy", lines=lines_by_run(runs, judged_on)),
        _absences(runs, tables),
    ]
    several = len(devices_of(runs)) > 1
    rankings = [
        ranking_table(sweep, where=f", on {devices_of(sweep)[0]}" if several else elsewhere(sweep))
        for sweep in sweeps(runs)
        if len(comparable_groups(sweep)) >= LEAST_RANKED and not is_decided_by_load(sweep)
    ]
    environment = tuple(environments_of(runs, labels_of(runs)))
    return Document(
        title=title or default_title(runs),
        tables=(*rankings, *(replace(table, environment=environment) for table in tables)),
        sections=tuple(filled(sections)),
        answer=answer,
    )


def default_title(runs: Sequence[Run]) -> str:
    """Return the models of the runs and the processor they were measured on."""
    models = list(dict.fromkeys(one_line(run.job.model.name) for run in runs))
    names = ", ".join(models) if len(models) <= 3 else f"{len(models)} models"
    names = f"{shared}: {names}" if (shared := shared_command(runs)) else names
    if len(devices := devices_of(runs)) > 1:
        return f"{names} on {enumerate_few(devices)}"
    places = list(dict.fromkeys(place for run in runs if (place := _machine_of(run))))
    return f"{names} on {places[0]}" if len(places) == 1 else names


def _machine_of(run: Run) -> str:
    """Return the processor, behind the name of a device that is not this machine."""
    processor, device = processor_of(run) or system_of(run) or "", one_line(run.job.target.device)
    return processor if device == LOCAL else f"{device} ({processor})" if processor else device


def input_sections(runs: Sequence[Run]) -> list[Section]:
    """Return the inputs that the models were given."""
    told = lines_by_run(runs, lambda run: run.job.model.signature_words)
    entries = [Section(title="Signature", lines=told, brief=told[0] if len(told) == 1 else None)] if told else []
    lines = lines_by_run(runs, input_text)
    if not lines:
        return entries
    brief = lines[0] if len(lines) == 1 else f"{len(lines)} different inputs" if len(lines) > MOST_INPUT_LINES else None
    return [*entries, Section(title="Inputs", lines=lines, brief=brief)]


def _settings(runs: Sequence[Run]) -> Section:
    """Return settings in force in each engine, as defaults differ: threads, precision; and the engine's own timing."""

    def settings(run: Run) -> str:
        words = [engine_of(run), threads_words(run), precision_of(run) or "precision not reported"]
        words += delegates_of(run)
        words += [one_line(run.job.runtime.options_in_words)] if run.job.runtime.options else []
        if (engine := run.value("latency_engine")) is not None:
            words.append(f"{quantity(engine, 's')} by the engine's own clock")
        if (used := run.value("background_cpu")) is not None:
            words.append(f"{significant(used)} cores used by the background load")
        return ", ".join(words) if run.status != "failed" else ""

    return Section(title="Ran with", lines=lines_by_run(runs, settings), brief="")


def interval_sections(runs: Sequence[Run]) -> list[Section]:
    """Return what the intervals of the table cover, and the narrower intervals within each run."""
    within: list[str] = []
    told: list[Run] = []
    for run, label in zip(runs, labels_of(runs), strict=True):
        row = run.measurement(run.headline)
        low, high = (None, None) if row is None else row.within_ends
        if run.variation is None or row is None or not row.value or low is None or high is None:
            continue
        width = width_text(row.value, low, high, row.unit)
        within.append(f"{label} {width}" if len(runs) > 1 else width)
        told.append(run)
    if not within:
        return []
    between = [f"between runs: {line}" for line in lines_by_run(told, _variation_text)]
    lines = (f"for a re-run on {_place_of(runs)}, 95 %", *between)
    said = (*lines, f"within this run: {', '.join(within)}")
    return [Section(title="Intervals", lines=said, brief=lines[0])]


def _variation_text(run: Run) -> str:
    """Return how much runs like `run` differ, and how that is known."""
    return f"± {half_width_of(run.variation):.1%}, {one_line(run.variation.method)}" if run.variation else ""


def _place_of(runs: Sequence[Run]) -> str:
    """Where the runs could be repeated."""
    devices = {run.job.target.device for run in runs}
    if devices == {LOCAL}:
        return "the same machine" if any(run.source is not None for run in runs) else "this machine"
    return one_line(devices.pop()) if len(devices) == 1 else "the same device"


def recommendation_sections(runs: Sequence[Run]) -> list[Section]:
    """One section per group of comparable runs; none for a run alone, which nothing was measured against."""
    found = recommendations_by_device(runs)

    def section(one: Recommendation) -> Section:
        scope = f" for {one.group}" if len(found) > 1 else ""
        if one.run is None:
            return Section(title=f"No recommendation{scope}", lines=one.why, tone="poor", brief="")
        return Section(title=f"Recommended{scope}: {one.label}", lines=one.why, tone="good", brief="")

    return [section(one) for one in found if one.of > 1]


def _agreement(runs: Sequence[Run]) -> Section:
    """How far each run's outputs are from the reference's, one line per way of comparing."""
    found: dict[str, list[str]] = {}
    absent: dict[str, list[str]] = {}
    for run, label in zip(runs, labels_of(runs), strict=True):
        error, top1 = run.measurement("output_max_abs_error"), run.measurement("agreement_top1")
        if error is None or error.absent_because == REFERENCE:
            continue
        if error.value is None:
            reason = reason_of_absence(run, "output_max_abs_error")
            absent.setdefault(reason, []).append(label)
            continue
        words = [f"max abs error {significant(error.value)}"]
        words += [f"top-1 agreement {top1.value:.1%}"] if top1 is not None and top1.value is not None else []
        method = one_line(error.method).partition(f"; {BEYOND}")[0]
        # Without a majority the caution is on all runs, also on those that agree with the reference.
        odd = any(each.code == "output-mismatch" and NO_MAJORITY not in each.message for each in run.cautions)
        verdict = "differs" if error.method.endswith(BEYOND) or odd else "agrees"
        found.setdefault(method, []).append(f"{label} {verdict} ({', '.join(words)})")
    uncompared = [f"{', '.join(labels)} not compared: {reason}" for reason, labels in absent.items()]
    lines = [*(f"{method}: {'; '.join(said)}" for method, said in found.items()), *uncompared]
    unequal = uncompared + [words for said in found.values() for words in said if " agrees (" not in words]
    if any(is_original(run) for run in runs):
        with_what = "with the original"
    else:
        is_one = len({run.job.model.name for run in runs}) == 1
        with_what = "between runtimes" if is_one else "between the runs of each network"
    rows = [row for run in runs if (row := run.measurement("output_max_abs_error")) is not None]
    references = sum(row.absent_because == REFERENCE for row in rows)
    count = f"{sum(map(len, found.values()))} compared"
    count += f" with {'the reference' if references == 1 else f'{references} references'}" if references else ""
    brief = "; ".join(unequal) if unequal else f"agree {with_what} ({count})"
    return Section(title="Outputs", lines=tuple(lines), brief=brief)


def _paths(runs: Sequence[Run]) -> Section:
    """How the file of each run was made of its network, and what the export lost."""

    def words(run: Run) -> str:
        origin, (path, _) = run.job.model.origin, path_of(run)
        if origin is None:
            return ""
        if origin.original:
            return f"the network as {one_line(origin.target)} builds it"
        return path + (f"; lost: {one_line('; '.join(origin.lost))}" if origin.lost else "; nothing known to be lost")

    return Section(title="Paths", lines=lines_by_run(runs, words))


def _absences(runs: Sequence[Run], tables: Sequence[Table]) -> Section:
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
    return Section(title="Not known", lines=tuple(lines), tone="faint", brief=brief)
