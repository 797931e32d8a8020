"""What ``estimate --fits`` prints: the boards of the catalogue that hold a model."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from edgewise.errors import as_flag
from edgewise.estimating.boards import CORE_TITLES, MVP, Fit, kib
from edgewise.estimating.fits import REACHES_BELOW, Candidate, Fits, size_of
from edgewise.estimating.mcu.timing import fitted
from edgewise.estimating.memory_only import UPPER_BOUNDS
from edgewise.formatting import amount_text, quantity
from edgewise.report.document import DASH, Cell, Column, Columns, Document, Section, Table, absent, table_of
from edgewise.report.document.columns import number_column, text_column
from edgewise.report.estimate.document import interval_cell, provenance_of_estimate, settings_of
from edgewise.report.runs.provenance import provenance_of_column
from edgewise.run.battery import DAY_S
from edgewise.text import listing, one_line
from edgewise.units import format_si

MOST_NAMED = 3
"""Boards that the answer names."""
_UNKNOWN = "latency not known"
"""How the reason ends for which a board without a latency is left out."""
_HOW_MEMORY = partial(
    provenance_of_column, "Memory", "estimated", "by the estimate / by the board's data sheet", "none"
)


def fits_document(fits: Fits) -> Document:
    """Return the boards that hold the model, and the number of boards left out, with the reasons."""
    sections = []
    if fits.left_out:
        number = sum(bool(each.left_out) for each in fits.candidates)
        counts = tuple(_counted(fits, reason, count) for reason, count in fits.left_out.items())
        sections.append(Section(title=f"{number} of {len(fits.candidates)} boards left out", lines=counts))
    software = dict.fromkeys(
        "; ".join((each.estimate.software, *settings_of(each.estimate.device, " "))) for each in fits.listed
    )
    if lines := tuple(map(one_line, (*fits.conditions, *software))):
        sections.append(Section(title="Estimated by", lines=lines))
    sure = [each for each in fits.listed if each.fit.fits]
    possible = [each for each in fits.listed if not each.fit.fits]
    held = "Boards that hold the model" if _has_latency(sure) else "Boards with enough memory for the model"
    titles = (held, "Boards that may hold the model: its memory is not known well enough")
    tables = tuple(
        boards_table(those, title, once=True) for title, those in zip(titles, (sure, possible), strict=True) if those
    )
    name = one_line(str(fits.model.get("name", "")))
    return Document(
        title=f"Boards that hold {name}", answer=_answer(fits, sure), tables=tables, sections=tuple(sections)
    )


def _has_latency(candidates: Sequence[Candidate]) -> bool:
    return any((row := each.estimate.measurement("latency")) and row.value is not None for each in candidates)


def _why_no_latency(candidates: Sequence[Candidate]) -> str:
    """Return the reason that most of the boards have, with the first of them in its commands."""
    candidates = [each for each in candidates if not _has_latency([each])]
    rows = [(each.fit.board.name, each.estimate.measurement("latency")) for each in candidates]
    reasons = [one_line(row.absent_because or "").replace(name, "this board") for name, row in rows if row is not None]
    return Counter(reasons).most_common(1)[0][0].replace("-d DEVICE", f"-d {candidates[0].fit.board.name}")


def _answer(fits: Fits, sure: Sequence[Candidate]) -> tuple[str, ...]:
    """How many boards hold the model; then, a line each, what is not sure of them, the smallest, and the fastest."""
    if fits.refused is not None:
        return (_refused(fits),) if fits.candidates else ()
    able, others = len(sure), fits.listed[len(sure) :]
    words = [f"{able} of {len(fits.candidates)} boards {'has' if able == 1 else 'have'} enough memory{_named(sure)}"]
    words += [f"{len(others)} may have{_named(others)}"] if others else []
    more: list[str] = []
    first = fits.listed[0]
    row = first.estimate.measurement("latency")
    if row is not None and row.value is not None:
        limited = any(not reason.startswith("not enough") for reason in fits.left_out)
        held = f"{'holds' if able == 1 else 'hold'} the model{' within the limits' if limited else ''}"
        names = _named(sure) if able > 1 else ""
        words[0] = f"{able} of {len(fits.candidates)} boards {held}{names}"
        words[1:] = [f"{len(others)} may hold it{_named(others)}"] if others else []
        if above := sum(each.may_exceed for each in fits.listed):
            more.append(f"{above} of them may take longer than the limit, by their intervals")
        more += _undecided(fits)
        more += [_smallest(sure)] if able > 1 else []
        more.append(_fastest(fits.listed, whose=sum(_has_latency([each]) for each in sure), of=able))
    elif row is not None and not _has_latency(fits.listed):
        words.append(f"no latency is known: {_why_no_latency(fits.listed)}")
    lines = [f"{line[:1].upper()}{line[1:]}." for line in more]
    return tuple(filter(None, (f"{'; '.join(words)}.", *lines, _computed_with(fits.listed))))


def _undecided(fits: Fits) -> list[str]:
    """How many boards hold the model and are left out though their latency may be within the limit."""
    reasons = [
        each.left_out[0] for each in fits.candidates if each.left_out and each.left_out[0].startswith("holds it")
    ]
    told = ((REACHES_BELOW, "may be within the limit, by the interval"), (_UNKNOWN, "the latency is not known"))
    counts = [(sum(one.endswith(end) for one in reasons), words) for end, words in told]
    return [f"{count} more hold{'s' if count == 1 else ''} it: {words}" for count, words in counts if count]


def _software_of(candidate: Candidate) -> str:
    """Return what computes the model in the estimate of its latency, in words; "" where that is not known."""
    software = candidate.estimate.device.settings.get("software", "") if _has_latency([candidate]) else ""
    return f"its accelerator, {MVP} ({software})" if software and candidate.fit.board.accelerator == MVP else software


def _usual_software(candidates: Sequence[Candidate]) -> str:
    """Return what computes the model on most of the boards; "" where no latency is known."""
    found = Counter(filter(None, map(_software_of, candidates)))
    return found.most_common(1)[0][0] if found else ""


def _computed_with(candidates: Sequence[Candidate]) -> str:
    """State what computes the model, on which boards it is something else, and which software else there is."""
    usual, titles = _usual_software(candidates), fitted()["software"]
    if not usual:
        return ""
    those: dict[str, list[str]] = {}
    for each in candidates:
        if (own := _software_of(each)) and own != usual:
            those.setdefault(own, []).append(each.fit.board.name)
    words = [f"{usual} ({titles[usual]['title']})" if usual in titles else usual]
    words += [f"on {_few(names)} with {own}" for own, names in those.items()]
    others = [name for name in titles if name != usual]
    rest = f"; other software: {as_flag('set', 'software=NAME')} ({listing(others, 'or')})" if usual in titles else ""
    return f"Latencies are with {', '.join(words)}{rest}."


def _few(names: Sequence[str]) -> str:
    return listing(names) if len(names) <= MOST_NAMED else f"{len(names)} boards"


def _refused(fits: Fits) -> str:
    """State that no board is listed, what the nearest one would need, and why latencies are not known."""
    nearest = fits.nearest
    lacking = nearest.fit.lacking
    within = "" if all(each.fit.lacking for each in fits.candidates) else " within the limits"
    needs = [
        f"{_need(nearest.fit, memory).text} KiB of {memory}"
        + (f" where it has {kib(_sizes(nearest.fit, memory)[1])} KiB" if memory in lacking else "")
        for memory in lacking or ("RAM", "flash")
    ]
    row = nearest.estimate.measurement("latency")
    takes = "" if lacking or row is None or row.value is None else f", and takes {quantity(row.value, row.unit)}"
    reasons = "" if lacking else f" ({', '.join(nearest.left_out)})"
    words = f"the nearest is {nearest.fit.board.name}: the model needs {listing(needs)}{takes}{reasons}"
    answer = f"No board of {len(fits.candidates)} holds the model{within}; {words}"
    if unknown := [each for each in fits.candidates if each.left_out and each.left_out[0].endswith(_UNKNOWN)]:
        answer += f"; the latency of {len(unknown)} is not known: {_why_no_latency(unknown)}"
    return f"{answer.removesuffix('.')}."


def _fastest(listed: Sequence[Candidate], *, whose: int, of: int) -> str:
    """Return the fastest of the boards, those that are as fast, and how many can't be told apart from it.

    Args:
        listed: at least one with a known latency.
        whose, of: number of boards that surely hold the model with a known latency, and in all.
    """
    first, *others = sorted((each for each in listed if _has_latency([each])), key=_latency)
    row, latency = first.estimate.measurement("latency"), _number(first, "latency").text
    assert row is not None
    equal = [each for each in others if _number(each, "latency").text == latency]
    doubts = [interval_cell(row, first.estimate).text, _slower(first) if first.fit.board.flash_beside else ""]
    slower = f" ({'; '.join(filter(None, doubts))})" if any(doubts) else ""
    names = listing([each.fit.board.name for each in (first, *equal)])
    known = "" if whose == of else f" of the {whose} whose latency is known"
    lows = [told.low for each in others if (told := each.estimate.measurement("latency")) and each not in equal]
    near = sum(low is not None and row.high is not None and low <= row.high for low in lows)
    by = "their intervals" if equal else "its interval"
    alike = f"; by {by}, {near} other{' is' if near == 1 else 's are'} perhaps as fast" if near else ""
    return f"the fastest{known} {'are' if equal else 'is'} {names}: {latency}{slower}{alike}"


def _latency(candidate: Candidate) -> float:
    row = candidate.estimate.measurement("latency")
    return math.inf if row is None or row.value is None else row.value


def _named(candidates: Sequence[Candidate]) -> str:
    """``": b, c"``: the boards, if they are few."""
    few = 0 < len(candidates) <= MOST_NAMED
    return f": {', '.join(each.fit.board.name for each in candidates)}" if few else ""


def _smallest(sure: Sequence[Candidate]) -> str:
    """Return the boards with the least RAM, of those the ones with the least flash, whose latency holds the limit; and
    the smaller ones that hold it by their values, but not by their intervals.
    """
    within = [each for each in sure if not each.may_exceed] or sure
    words = f"the smallest{' whose intervals are within it' if len(within) < len(sure) else ''}: {_with_sizes(within)}"
    if min(map(size_of, sure)) < min(map(size_of, within)):
        words += f"; smaller, and perhaps within it: {_with_sizes(sure)}"
    return words


def _with_sizes(candidates: Sequence[Candidate]) -> str:
    """Return the smallest of the boards, with their latencies and memories."""
    ram, flash = min(map(size_of, candidates))
    smallest = [each for each in candidates if size_of(each) == (ram, flash)]
    return f"{listing([_with_latency(each) for each in smallest])}: {kib(ram)} KiB of RAM, {kib(flash)} KiB of flash"


def _with_latency(candidate: Candidate) -> str:
    """``"nucleo-f446re (64.7 [42.0, 99.7] ms)"``; the name alone where no latency is known."""
    row = candidate.estimate.measurement("latency")
    if row is None or row.value is None:
        return candidate.fit.board.name
    return f"{candidate.fit.board.name} ({amount_text(row.unit, row.value, row.low, row.high)})"


def _counted(fits: Fits, reason: str, count: int) -> str:
    """Return a reason with its number of boards, by name where they are few or only their latency is in the way."""
    those = [each for each in fits.candidates if each.left_out[:1] == (reason,)]
    names = ", ".join(each.fit.board.name for each in those)
    named = f" ({names})" if "hold" in reason or count <= MOST_NAMED else ""
    why = f"; {_why_no_latency(those)}" if reason.endswith(_UNKNOWN) and fits.listed else ""
    return f"{reason}: {count}{named}{why}"


def csv_table(fits: Fits) -> Table:
    """One row per board of the catalogue, also of those left out."""
    return boards_table(fits.candidates)


def boards_table(candidates: Sequence[Candidate], title: str = "Boards", *, once: bool = False) -> Table:
    """One row per board; RAM and flash as needed / available, in KiB.

    Args:
        once: whether what most boards need is told in the title; cells have what is available, and what others need
            is in their footnotes.
    """
    usual = {memory: _usual_need(candidates, memory) if once else None for memory in ("RAM", "flash")}
    software = _usual_software(candidates)
    coverages = {each.estimate.coverage.get("latency") for each in candidates if _interval(each).text}
    (coverage,) = coverages if len(coverages) == 1 else (None,)
    interval = "Interval" if coverage is None else f"{coverage:.0%} interval"
    columns: Columns[Candidate] = [
        text_column("-d", lambda each: each.fit.board.name),
        text_column("Core", lambda each: CORE_TITLES[each.fit.board.core].removeprefix("Arm "), rank=5),
        number_column("Clock", lambda each: each.fit.board.clock_hz, partial(format_si, unit="Hz"), rank=4, unit="Hz"),
        (
            Column(title="RAM (KiB)", numeric=True, how=_HOW_MEMORY),
            lambda each: _memory(each.fit, "RAM", usual["RAM"]),
        ),
        (
            Column(title="Flash (KiB)", numeric=True, how=_HOW_MEMORY),
            lambda each: _memory(each.fit, "flash", usual["flash"]),
        ),
        (
            Column(title="Latency", numeric=True, unit="s"),
            lambda each: _marked(_number(each, "latency"), each, software),
        ),
        # A limit is judged by the interval.
        (
            Column(title=interval, numeric=True, rank=0 if any(each.may_exceed for each in candidates) else 1),
            lambda each: _interval(each, covered=len(coverages) != 1),
        ),
        (Column(title="Energy", numeric=True, rank=3, unit="J"), lambda each: _number(each, "energy")),
        (Column(title="Battery", numeric=True, unit="s"), lambda each: _number(each, "battery_life")),
        (
            Column(title="RAM of the board (KiB)", numeric=True, hidden=True),
            lambda each: _kib(each.fit.board.ram_bytes),
        ),
        (
            Column(title="Flash of the board (KiB)", numeric=True, hidden=True),
            lambda each: _kib(each.fit.board.flash_bytes),
        ),
        text_column("Software", _software_of, hidden=True),
        text_column("Fits", lambda each: _FITS[each.fit.fits], hidden=True),
        text_column("Left out", lambda each: ", ".join(each.left_out), hidden=True),
    ]
    empty = {
        "Battery": all(each.estimate.measurement("battery_life") is None for each in candidates),
        interval: not any(_interval(each).text for each in candidates),
    }
    columns = [column for column in columns if not empty.get(column[0].title)]
    notes = [note for need in usual.values() if need is not None for note in need.notes]
    return table_of(f"{title} ({_memory_words(usual, candidates)})", candidates, columns, notes=notes)


def _marked(cell: Cell, candidate: Candidate, usual: str) -> Cell:
    """`cell`, a latency, with a footnote where something else computes than on most boards."""
    own = _software_of(candidate)
    return replace(cell, notes=(*cell.notes, f"with {own}")) if own not in ("", usual) else cell


def _memory_words(usual: Mapping[str, Cell | None], candidates: Sequence[Candidate]) -> str:
    """Return what most boards need of the memories, as far as that is not in the cells, and what these have."""
    apart = [memory for memory, need in usual.items() if need is None]
    if len(apart) == len(usual):
        return "memory: needed / of the board"
    needs = listing([f"{need.text} KiB of {memory}" for memory, need in usual.items() if need is not None])
    unlike = [_except(need, memory, candidates) for memory, need in usual.items() if need is not None]
    return "; ".join(
        [f"it needs {needs}", *filter(None, unlike), *(f"{memory}: needed / of the board" for memory in apart)]
    )


def _except(usual: Cell, memory: str, candidates: Sequence[Candidate]) -> str:
    """State on which boards it needs something else, which their footnotes tell; "" where there are none."""
    needs = [(each, _need(each.fit, memory)) for each in candidates]
    names = [each.fit.board.name for each, need in needs if (need.short or need.text) != usual.text]
    return f"not this {memory} on {_few(names)}: see the footnote{'' if len(names) == 1 else 's'}" if names else ""


_FITS = {True: "yes", False: "no", None: "maybe"}


def _kib(size: int) -> Cell:
    return Cell(text=kib(size), value=size / 1024)


def _need(fit: Fit, memory: str) -> Cell:
    """Return what the model needs of a memory, in KiB, with footnotes on its bounds, and the shorter form if any."""
    needed, there = _sizes(fit, memory)
    if needed is None:
        return Cell(text="?", notes=("what the model needs is not known",))
    least, most = fit.at_least.get(memory), fit.at_most.get(memory)
    told = "" if most is None else f"; at most: {UPPER_BOUNDS[memory]}"
    notes = () if least is None else (f"{memory} ≥: {least}{told}",)
    text = fit.amount(memory, needed).replace("at least", "≥").replace(" to ", "–")
    # The lower bound matters where the upper one is more than the board has.
    short = f"≤ {kib(most)}" if least is not None and most is not None and most <= there else ""
    return Cell(text=text, value=needed / 1024, notes=notes, short=short)


def _sizes(fit: Fit, memory: str) -> tuple[int | None, int]:
    """Return what is needed of a memory, None where that is not known, and what the board has; bytes."""
    return (fit.ram_bytes, fit.board.ram_bytes) if memory == "RAM" else (fit.flash_bytes, fit.board.flash_bytes)


def _usual_need(candidates: Sequence[Candidate], memory: str) -> Cell | None:
    """Return what most of the boards need of a memory; None where they differ, or where one is all."""
    found = [_need(each.fit, memory) for each in candidates]
    needs = {need.short or need.text: need for need in found}
    text, count = Counter(need.short or need.text for need in found).most_common(1)[0]
    if text == "?" or count <= max(1, len(candidates) / 2):
        return None
    bound = (f"{memory} ≤: {UPPER_BOUNDS[memory]}",) if needs[text].short else needs[text].notes
    return Cell(text=text, notes=bound)


def _memory(fit: Fit, memory: str, usual: Cell | None) -> Cell:
    """Return what is needed of a memory / what the board has; the latter alone where most boards need `usual`."""
    need, there = _need(fit, memory), kib(_sizes(fit, memory)[1])
    if usual is None:
        return replace(need, text=f"{need.text} / {there}", short=need.short and f"{need.short} / {there}")
    unlike = "; ".join([f"needs {need.text} KiB of {memory}", *need.notes])
    return Cell(text=there, value=need.value, notes=() if usual.text == (need.short or need.text) else (unlike,))


def _number(candidate: Candidate, metric: str) -> Cell:
    row = candidate.estimate.measurement(metric)
    if row is None:
        return DASH
    if row.value is None:
        # Boards with the same reason share a footnote.
        cell = absent(one_line(row.absent_because or "").replace(candidate.fit.board.name, "this board"))
        least = candidate.estimate.at_least.get(metric)
        return cell if least is None else replace(cell, text=f"≥ {quantity(least, row.unit)}")
    text = f"{row.value / DAY_S:.3g} days" if metric == "battery_life" else quantity(row.value, row.unit)
    how = partial(provenance_of_estimate, row, candidate.estimate)
    notes: list[str] = [_slower(candidate)] if metric == "latency" and candidate.fit.board.flash_beside else []
    notes += [_ABOVE] if metric == "latency" and candidate.may_exceed else []
    return Cell(text=text, value=row.value, low=row.low, high=row.high, how=how, notes=tuple(notes))


_ABOVE = "its interval reaches above the limit"


def _slower(candidate: Candidate) -> str:
    """State that the latency may be longer where the program is not on the microcontroller."""
    return f"can be longer, also beyond the interval: {candidate.fit.board.flash_beside}"


def _interval(candidate: Candidate, *, covered: bool = True) -> Cell:
    row = candidate.estimate.measurement("latency")
    return Cell(text="") if row is None else interval_cell(row, candidate.estimate, covered=covered)
