"""The words of a search for a device that is not at hand: what runs there, on which basis, and what does not."""

from __future__ import annotations

from edgewise.formatting import value_text, with_range
from edgewise.metrics import METRICS
from edgewise.optimizing.elsewhere import NO_ESTIMATE
from edgewise.optimizing.variant import Candidate, Optimization
from edgewise.report.comparison.words import lower_label
from edgewise.report.runs.cells import label_of
from edgewise.text import listing, one_line

MOST = 3
"""Metrics of the device in a headline."""
_TIMES = ("latency", "cpu_cycles", "accelerator_cycles")
_REST = ("memory_sram", "flash", "memory_peak", "energy")


def device_metrics(result: Optimization) -> list[str]:
    """Return the estimated metrics that any variant has: time or cycles, then memory and energy."""
    known = {
        name
        for one in (result.baseline, *result.candidates)
        if one.elsewhere is not None
        for name, number in one.elsewhere.metrics.items()
        if number.value is not None or number.at_least is not None
    }
    times = [name for name in _TIMES if name in known][:1]
    return [*(times or ["latency"]), *(name for name in _REST if name in known)]


def basis_of(result: Optimization, metric: str) -> str:
    """``estimated``, ``simulated`` …: the basis of a metric of the device; "" for other metrics."""
    if not result.device or metric not in device_metrics(result):
        return ""
    for one in (*result.candidates, result.baseline):
        number = None if one.elsewhere is None else one.elsewhere.metrics.get(metric)
        if number is not None and number.value is not None:
            return number.basis
    return "estimated"


def titled(result: Optimization, metric: str, title: str) -> str:
    """``"Latency (estimated)"`` for a metric of the device; other titles as they are."""
    basis = basis_of(result, metric)
    return f"{title} ({basis})" if basis else title


def needs_of(result: Optimization, one: Candidate) -> str:
    """``"latency 595 ms [495, 714] (estimated), RAM 73.0 KiB (simulated)"``: what a variant needs on the device."""
    words = []
    fit = one.elsewhere is not None and bool(one.elsewhere.fit)  # it has the memory
    for metric in device_metrics(result)[:MOST]:
        if fit and metric in ("memory_sram", "flash"):
            continue
        number = one.metrics.get(metric)
        if number is not None and number.at_least is not None and one.elsewhere is not None:
            least = f"at least {value_text(metric, METRICS[metric].unit, number.at_least)}"
            words.append(f"{lower_label(metric)} {one.elsewhere.bound if metric == 'latency' else least}")
        elif number is not None and number.value is None:
            words.append(f"{lower_label(metric)} not known")
        elif number is not None and number.value is not None:
            text = with_range(metric, METRICS[metric].unit, number.value, number.low, number.high)
            words.append(f"{lower_label(metric)} {text} ({number.basis})")
    return ", ".join(words)


def conclude_elsewhere(result: Optimization, gains: str) -> tuple[str, str]:
    """Return the conclusion, with the chosen variant's `gains` in words, and what the device makes of the original."""
    device, begun = one_line(result.device), "interrupted; the best so far: " if result.interrupted else ""
    original = _original_words(result)
    if result.chosen is not None:
        chosen = result.candidate(result.chosen)
        file = one_line(result.files.get("chosen") or chosen.id)
        needs = needs_of(result, chosen)
        fit = "" if chosen.elsewhere is None else chosen.elsewhere.fit
        headline = f"{begun}{file} for {device}: {'; '.join(filter(None, (needs, fit, gains)))}"
        return headline, "; ".join(
            filter(
                None, (_without_latency(chosen), one_line(chosen.unproven), original, one_line(result.chosen_because))
            )
        )
    if result.interrupted:
        return f"Interrupted: nothing was chosen for {device}", original
    if result.unmet:
        bounds = listing([one_line(bound.words) for bound in result.bounds])
        return f"No variant meets {bounds} on {device}", f"in the way: {one_line(result.unmet)}; {original}"
    runs = result.baseline.elsewhere is not None and not result.baseline.elsewhere.refused
    headline = f"Nothing is shown to be better than the original on {device}" if runs else f"No variant for {device}"
    last = max(result.candidates, key=lambda one: len(one.metrics), default=None)
    if last is None and runs:
        return f"Nothing to quantise for {device}: {original}", ""
    if last is None:
        return headline, f"no variant was tried; {original}"
    return headline, f"{one_line(last.id)}: {one_line(last.why)}; {original}"


def _without_latency(one: Candidate) -> str:
    """Why the chosen variant has no latency, which says what to do about it; "" where it has one or a lower bound."""
    latency = one.metrics.get("latency")
    if one.elsewhere is None or latency is None or latency.value is not None or latency.at_least is not None:
        return ""
    return f"no latency: {one_line(latency.absent_because or 'not estimated')}"


def _original_words(result: Optimization) -> str:
    found = result.baseline.elsewhere
    if found is None:
        return "the original was not estimated"
    if found.refused:
        return f"{NO_ESTIMATE}: {one_line(found.refused)}"
    return f"the original there: {needs_of(result, result.baseline)}"


def device_lines(result: Optimization) -> list[str]:
    """Who computed the numbers of the device, and what was measured here."""
    if not result.device:
        return []
    found = next(
        (one.elsewhere for one in (*result.candidates, result.baseline) if one.elsewhere and one.elsewhere.software),
        result.baseline.elsewhere,
    )
    words = [f"for {result.device}"] + ([] if found is None or not found.title else [f"({found.title})"])
    by = "" if found is None or not found.software else f" by {found.software}"
    labels = listing([f"{label_of(name)} {basis_of(result, name)}" for name in device_metrics(result)])
    shares = {
        number.coverage
        for one in result.candidates
        for number in one.metrics.values()
        if number.basis == "estimated" and number.low is not None
    }
    share = f"; intervals of estimates hold in {min(shares):.0%} of cases" if shares else ""
    return [
        f"{' '.join(words)}: {labels}{by}{share}; accuracy measured on this machine in {result.baseline.runtime.name}"
    ]
