"""How the numbers of a profile are known: one answer per column of a table of layers, and per tile."""

from __future__ import annotations

from functools import partial

from edgewise.record import Profile, Run
from edgewise.report.document import How, Provenance
from edgewise.report.provenance import basis_text, facts_of_run, provenance_of_column, provenance_of_number
from edgewise.text import one_line

ELSEWHERE = "in the profile of this run, beside the time of the layer"
HOW_COUNTED = partial(provenance_of_column, "Operations", "derived", "counted from the shapes", "none: exact")


def how_layers(run: Run, profile: Profile, whole: str) -> dict[str, How]:
    """How the columns of the table of layers are known, by heading without unit; `whole` is what shares refer to."""
    peaks = "; ".join(dict.fromkeys(one_line(peak.method) for peak in profile.peaks))
    interval, facts = "none: it follows from the times, which have one", facts_of_run(run)

    def derived(title: str, method: str) -> How:
        return partial(provenance_of_column, title, "derived", method, interval, facts)

    return {
        "Time": how_times(run),
        "%": derived("Share of the whole", f"time of the layer over the whole: {whole}"),
        "Σ %": derived("Running sum of the shares", "shares of this layer and of all slower ones, added up"),
        "MACs": HOW_COUNTED,
        "GOP/s": derived("Rate of a layer", "operations, counted from the shapes of the layer, over its time"),
        "Roof (%)": derived("Share of the roof", f"rate of the layer over the rate that the peaks allow: {peaks}"),
    }


def how_times(run: Run, *, title: str = "Time of a layer", interval: str = "beside each time, where a ± stands") -> How:
    """How the times of the layers of `run` are known; None without a profile."""
    if run.profile is None:
        return None
    latency = run.measurement("latency")
    basis = None if latency is None else latency.basis
    return partial(provenance_of_column, title, basis, timing_line(run, run.profile), interval, facts_of_run(run))


def timing_line(run: Run, profile: Profile) -> str:
    """How the layers were timed, and in how many inferences of how many processes."""
    if run.source is not None:  # its layers and its latency are of one process
        return one_line(profile.method)
    processes = f"{profile.sessions} process{'es' if profile.sessions != 1 else ''}"
    return f"{one_line(profile.method)}; {profile.inferences} inferences in {processes} of their own"


def provenance_of_derived(run: Run, title: str, unit: str, value: float, method: str) -> Provenance:
    """How a number is known that is computed from the profile of `run` and has no interval."""
    facts = [("Basis", basis_text("derived")), ("Method", method), *facts_of_run(run)]
    return provenance_of_number(title, unit, (value, None, None), facts)
