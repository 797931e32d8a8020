"""The conclusion of a benchmark, a line each: the recommended runtime, or the fastest and the smallest model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from edgewise.metrics import METRICS
from edgewise.record import Run
from edgewise.record.facts import is_unreliable
from edgewise.report.bench.against import (
    better_of,
    cost_beside,
    cost_of,
    how_apart,
    in_full_precision,
    in_order_of_turns,
    nearest,
    open_texts,
    text_on_lower_precision,
    text_on_open,
    text_on_second_engine,
    text_on_threads,
    tied_texts,
    words_when_open,
)
from edgewise.report.bench.busy import is_decided_by_load, line_under_load
from edgewise.report.bench.facts import (
    is_only_judged,
    line_of_evaluation,
    lines_on_assumed_sizes,
    lines_on_files,
    lines_on_smallest,
    lines_on_start_ups,
    why_programs_differ,
)
from edgewise.report.bench.ranking import (
    AHEAD,
    NOT_TOLD,
    UNRELIABLE,
    Candidate,
    RankedModel,
    are_apart,
    brief_of,
    candidates_of,
    comparable_groups,
    every_candidate,
    factor_of,
    has_better_value,
    in_order,
    is_faster,
    levels,
    likely_verdict,
    load_lines,
    may_be_as_fast,
    noun_of,
    objection_of,
    prefer,
    rank_models,
    sweeps,
    turns_of,
)
from edgewise.report.bench.recommendation import group_title, recommendations, scope_of
from edgewise.report.bench.speeds import speed_lines
from edgewise.report.bench.undecided import (
    compare_command,
    find_overlooked,
    find_undecided,
    lines_of_overlooked,
    lines_of_undecided,
)
from edgewise.report.bench.values import headline_text, judged_text, namer, use_of, where_of
from edgewise.report.runs.cells import failure_of
from edgewise.report.runs.conditions import (
    command_of,
    labels_by_id,
    labels_of,
    provider_of,
)
from edgewise.text import enumerate_few, one_line

MOST_OF_FIRST_LINE = 120
"""Characters of what to take and what ties with it: beside the words before it, two lines of a terminal."""


MOST_LINES = 8
"""Number of models with a line each in an answer."""


def answer_of(runs: Sequence[Run], *, each: bool = False) -> tuple[str, ...]:
    """Return the conclusion, a line each: the recommended runtime, or the fastest and the smallest model.

    Networks of different tasks have a line each, as no order of them answers anything.

    Args:
        each: whether several models also have a line each, as several programs always have.
    """
    judged = list(filter(is_only_judged, runs))
    lines = list(map(line_of_evaluation, judged[:MOST_LINES]))
    lines += [f"{left} more evaluations: see the table"] if (left := len(judged) - MOST_LINES) > 0 else []
    found = sweeps([run for run in runs if not is_only_judged(run)])
    several = len({scope_of(sweep[0]) for sweep in found}) > 1
    tasks = not several and len(found) > 1  # one order of all would say nothing
    shown = found[:MOST_LINES] if tasks else found
    for sweep in shown:
        groups = comparable_groups(sweep)
        scope = f"{scope_of(sweep[0])}: " if several else ""
        if tasks and len(groups) == 1 < len(sweep):  # of one run the line itself has its model
            scope = f"{one_line(sweep[0].job.model.name)}: "
        if scope and len(groups) == 1 and sweep[0].job.command:  # of one run the line itself has all of it
            scope = f"{group_title(sweep[0])}: " if len(sweep) > 1 else ""
        told = _of_models(sweep) if len(groups) > 1 else _of_group(sweep)
        lines += [f"{scope}{line}" for line in told if not tasks or line not in _doubts(sweep)]
        if (each or sweep[0].job.command) and len(groups) > 1:
            lines += [
                (f"{group_title(group[0])}: " if len(group) > 1 else scope)
                + "; ".join(_of_runtimes(group, alone=False))
                for group in groups[:MOST_LINES]
            ]
            left = len(groups) - MOST_LINES
            lines += [f"{left} more models: see the recommendation of each"] if left > 0 else []
            lines += why_programs_differ(sweep)
    lines += [f"{left} more networks: see the recommendation of each"] if (left := len(found) - len(shown)) else []
    lines += _doubts([run for sweep in found if not is_decided_by_load(sweep) for run in sweep]) if tasks else []
    return (*lines, *lines_on_start_ups(runs), *lines_on_files(runs), *lines_on_assumed_sizes(runs))


def _of_models(runs: Sequence[Run]) -> list[str]:
    """Which model is the fastest, with a line for each further fact, and which is the smallest."""
    ranked = rank_models(runs)
    overlooked = list[Run]()
    if is_decided_by_load(runs):
        lines = [line_under_load(runs)]
    elif not any(one.place == 1 for one in ranked):
        lines = ["Fastest: can't be told", *_doubts(runs)]
    else:
        lines, overlooked = _of_ranked(runs, ranked)
    seen = {run.job.model.family for run in overlooked}
    if is_decided_by_load(runs):  # the line names all that have a processor time
        seen |= {run.job.model.family for run in runs if run.status == "done" and run.value("cpu_time")}
    unranked = [one for one in ranked if one.place is None and one.run.job.model.family not in seen]
    left = [f"{one.model} ({objection_of(one.run).brief})" for one in unranked]
    return [*lines, *([f"Not ranked: {enumerate_few(left)}"] if left else []), *lines_on_smallest(ranked, runs)]


def chosen_of(runs: Sequence[Run]) -> Run | None:
    """Return the run of one of `sweeps` that the answer says to take; None where it names none."""
    if len(comparable_groups(runs)) == 1:
        return next((run for run in runs if run.id == recommendations(runs)[0].run), None)
    every = every_candidate(runs)
    leading = {one.run.id for one in rank_models(runs) if one.place == 1}
    leaders = [one for one in in_order(every) if one.run.id in leading]
    return prefer(leaders, every)[0].run if leaders else None


def _of_ranked(runs: Sequence[Run], ranked: Sequence[RankedModel]) -> tuple[list[str], list[Run]]:
    """Return what to take of models of which one is the first, a line for each fact; and the `find_overlooked` runs."""
    every, name = in_order(every_candidate(runs)), namer(runs)
    own = {one.run.id: one for one in every}
    leaders = [own[one.run.id] for one in ranked if one.place == 1]
    chosen, _ = prefer(leaders, every)
    tied = [one for one in levels(every)[0] if one is not chosen and not are_apart(one, chosen)]
    tied = in_order_of_turns(tied, chosen)
    overlooked, undecided = find_overlooked(runs, chosen, every), find_undecided(runs, chosen, every)
    family = [one for one in every if one.run.job.model.family == chosen.run.job.model.family]
    of = OF_RANKED if any(may_be_as_fast(run, chosen) for run in overlooked) else ""
    is_apart = not tied or all(one in family for one in tied)
    # Programs that are compared do one work. Which network somebody needs is not known.
    take = ("Of the ranked runs take " if of else "Take ") if command_of(chosen.run) else f"Among the fastest{of}: "
    lead = UNTIL_THEN if undecided else f"Fastest{of}: " if is_apart else take
    if tied and is_apart:
        lead += f"{one_line(chosen.run.job.model.name)}; of its runs take "
    if tied:
        named = [chosen, *tied] if is_apart else [replace(one, label=name(one.run)) for one in (chosen, *tied)]
        first, *others = _tie_of(named, leaders)
    else:
        first, others = f"{name(chosen.run)}, {_value_of_chosen(chosen, every, name)}", []
    rest = [one for one in family if one not in tied]
    threads, rival = text_on_threads(chosen, family)
    facts = [threads, text_on_open(chosen, rest, rival if threads else None)]
    after = next((one.run for one in ranked if one.place == 2), None)
    shown = [chosen, *tied]
    if after is not None:
        cost, better = cost_of(own[after.id], chosen, [*leaders, *every], name), better_of(own[after.id], every)
        between = any(has_better_value(one, own[after.id]) for one in every if one not in shown)
        why = "; ".join(filter(None, [cost, better]))
        words = f"ext{' model' if between else ''} {name(after)}, {headline_text(after)} ({why})"
        if tied or better or is_unreliable(chosen.run):
            facts.append(f"N{words}")
        else:
            first += f"; n{words}"
        shown.append(own[after.id])
    told = {provider_of(one.run) for one in shown}
    second = nearest(chosen, [one for one in every if provider_of(one.run) not in told]) if len(told) < 2 else None
    if second is not None and ((said := cost_beside(second, chosen)) or second not in family):
        words = f"is {said}" if said else words_when_open(second, chosen)
        facts.append(f"{name(second.run)} {words}{how_apart(second, chosen)}")
    # Proofs in a circle: by intervals it is slower than what is slower than the fastest.
    against = next((one for one in ranked if one.place and is_faster(own[one.run.id], chosen)), None)
    facts += [f"But {against.model} is faster in turns: repeat it on an idle machine"] if against else []
    facts += lines_of_overlooked([run for run in overlooked if run is not undecided], chosen, name)
    doubt = lines_of_undecided(undecided, chosen.run, name) if undecided else []
    return [*doubt, lead + first, *others, *filter(None, facts), *_doubts(runs)], overlooked


OF_RANKED = " of the ranked runs"


UNTIL_THEN = "Until then take "
"""Begins what is advised where a run of grade D leaves open which is the fastest."""

AHEAD_ONLY = f"Not decided; {AHEAD}: "
"""Begins what is advised where the ratio in turns is all that speaks for it, and proves nothing."""


_ALONE = f"measured alone: {UNRELIABLE}"


def _value_of_chosen(chosen: Candidate, every: Sequence[Candidate], name: Callable[[Run], str]) -> str:
    """``100 ± 1 µs``; of grade D ``1.55 [0.4, 9.3] ms (measured alone: grade D; 1.50× [1.4, 1.6] faster than A in
    turns)``.
    """
    if not is_unreliable(chosen.run):
        return headline_text(chosen.run)
    turned = [one for one in every if is_faster(chosen, one) and turns_of(chosen, one) is not None]
    proof = f"; {factor_of(chosen, turned[0])} faster than {name(turned[0].run)} in turns" if turned else ""
    return f"{headline_text(chosen.run)} ({_ALONE}{proof})"


def _tie_of(named: Sequence[Candidate], leaders: Sequence[Candidate]) -> list[str]:
    """Return which of `named` to take and why, as nothing proves an order of them, then the others where many.

    Args:
        leaders: the recommended runs of their models.
    """
    chosen, *tied = named
    way = " in turns" if any(turns_of(one, chosen) is not None for one in tied) else ""
    for some in (named, [one for one in named if any(each.run is one.run for each in leaders)]):
        best, reasons = prefer(some)
        if best is chosen:
            break
    why = f" ({brief_of(reasons)})" if best is chosen else ""
    told, alike = f"{chosen.label}{why}, {headline_text(chosen.run)}", tied_texts(tied, chosen)
    likely = any(likely_verdict(one, chosen) for one in tied)
    line = f"{told}; {open_texts(tied, chosen) if likely else f'{enumerate_few(alike, 3)} {NOT_TOLD}{way}'}"
    if len(alike) == 1 or len(line) <= MOST_OF_FIRST_LINE:
        return [line]
    words = f"of {len(alike)} others none is proven slower{way}" if likely else f"{len(alike)} others {NOT_TOLD}{way}"
    rest = open_texts(tied, chosen) if likely else enumerate_few(alike, 3)
    return [f"{told}; {words}", f"The others: {rest}"]


def _of_group(runs: Sequence[Run]) -> list[str]:
    """Return the recommended runtime of one model, and where that may not hold."""
    return [*_of_runtimes(runs), *_doubts(runs)]


def _doubts(runs: Sequence[Run]) -> list[str]:
    """Return the load of others, else that runs have several speeds, a line at most; the rest stands below."""
    return load_lines(runs) or speed_lines(runs)


def _of_runtimes(runs: Sequence[Run], *, alone: bool = True) -> list[str]:
    """Return the recommended runtime of one model, and a line for each further advantage.

    Args:
        alone: whether no other model is named beside it.
    """
    if len(runs) == 1:
        run = runs[0]
        what = failure_of(run) if run.status != "done" else f"{noun_of(run)} {judged_text(run)}{use_of(run)}"
        where = where_of(run) if alone or not run.job.command else ""
        return [f"{one_line(run.job.model.name)}{where}: {what}"]
    (found,) = recommendations(runs)
    if found.run is None:
        said = [f"{label} ({objection_of(run).brief})" for run, label in zip(runs, labels_of(runs), strict=True)]
        return [f"No run can be recommended: {enumerate_few(said)}{_least_value(runs)}"]
    ranked, _ = candidates_of(runs)
    chosen = next(one for one in ranked if one.run.id == found.run)
    full = in_full_precision(ranked)
    threads, rival = text_on_threads(chosen, full)
    not_told = text_on_open(chosen, full, rival if threads else None)
    told = [threads, text_on_second_engine(chosen, full), not_told, text_on_lower_precision(chosen, ranked)]
    told += [] if found.rivals else [found.tie]
    # Of a single run its sentence repeats the number that stands before it.
    why = found.why[0].partition(": ")[0] if len(ranked) == 1 else found.why[0]
    first, *facts = [*filter(None, told)] or [why]
    labels = labels_by_id(runs)

    def name(run: Run) -> str:
        return labels[run.id]

    overlooked, undecided = find_overlooked(runs, chosen, ranked), find_undecided(runs, chosen, ranked)
    value = judged_text(chosen.run)
    if is_unreliable(chosen.run):  # the proof stands behind it
        value = f"{headline_text(chosen.run)} ({_ALONE})"
    begin = UNTIL_THEN if undecided else AHEAD_ONLY if found.rivals else "Recommended: "
    lead = f"{begin}{found.label}, {noun_of(chosen.run)} {value}"
    doubt = lines_of_undecided(undecided, chosen.run, name) if undecided else []
    rest = lines_of_overlooked([run for run in overlooked if run is not undecided], chosen, name)
    command = compare_command([chosen.run, *found.rivals]) if found.rivals else ""
    rest += [f"To decide, with less running beside it: {command}"] if command else []
    return [*doubt, f"{lead}; {first}", *facts, *rest]


def _least_value(runs: Sequence[Run]) -> str:
    """Return the best value of several unreliable runs, which proves nothing; "" where fewer than two are done."""
    labels = labels_by_id(runs)
    done = [(value, run) for run in runs if run.status == "done" and (value := run.value(run.headline))]
    if len(done) < 2:
        return ""
    is_rate = METRICS[done[0][1].headline].better == "higher"
    _, best = (max if is_rate else min)(done, key=lambda each: each[0])
    return f"; the {'highest' if is_rate else 'lowest'} value is that of {labels[best.id]}, {headline_text(best)}"
