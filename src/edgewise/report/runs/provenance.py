"""How numbers are known: basis, method, interval, samples, conditions and cautions, for the page that shows them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from edgewise.formatting import value_text
from edgewise.metrics import METRICS
from edgewise.record import Caution, Measurement, Run, Summary
from edgewise.record.facts import precision_of, threads_of
from edgewise.report.document import How, Provenance
from edgewise.report.runs.conditions import engine_of, machine_of, provider_of, scenario_of
from edgewise.text import plural

BASES = {
    "measured": "read from a clock or a sensor, or counted",
    "derived": "computed from measured numbers or from the file",
    "simulated": "from a simulator of the hardware",
    "estimated": "from a model of the hardware",
}


def how_of(run: Run | None, metric: str) -> How:
    """How the value of `metric` of `run` is known; None without a value."""
    row = None if run is None else run.measurement(metric)
    return None if run is None or row is None or row.value is None else partial(provenance_of, run, row)


def provenance_of(run: Run, row: Measurement) -> Provenance:
    """How the value of `row`, a measurement of `run`, is known."""
    label = METRICS[row.metric].label if row.metric in METRICS else row.metric  # newer records have other metrics, too
    facts = [("Model", run.job.model.name), *measurement_facts(run, row)]
    facts.append(("Cautions", "; ".join(each.message for each in cautions_of(run, row))))
    return Provenance(f"{label}: {value_text(row.metric, row.unit, row.value)}", facts)


def provenance_of_number(
    title: str,
    unit: str,
    ends: tuple[float | None, float | None, float | None],
    facts: Iterable[tuple[str, str]],
    run: Run | None = None,
    *,
    interval: str = "95 % interval",
) -> Provenance:
    """How a number that is no measurement of one run is known, such as one side of a comparison.

    Args:
        ends: the value and its interval.
        facts: basis, method and what else is known of it.
        run: whose conditions hold for it.
        interval: name of the interval.
    """
    conditions = "" if run is None else conditions_text(run)
    return Provenance(title, [*interval_facts(unit, *ends, interval), *facts, ("Conditions", conditions)])


def provenance_of_column(
    title: str, basis: str | None, method: str, interval: str, more: Iterable[tuple[str, str]] = ()
) -> Provenance:
    """How the numbers of a column are known, with `more`, such as `facts_of_run`, where conditions matter."""
    known = [("95 % interval", interval), ("Basis", basis_text(basis)), ("Method", method)]
    return Provenance(title, [("Values", "one per row"), *known, *more])


def facts_of_run(run: Run) -> list[tuple[str, str]]:
    """Return what holds for all numbers that rest on the times of `run`."""
    cautions = "; ".join(each.message for each in run.cautions)
    return [("Model", run.job.model.name), ("Conditions", conditions_text(run)), ("Cautions", cautions)]


def interval_facts(
    unit: str, value: float | None, low: float | None, high: float | None, interval: str = "95 % interval"
) -> list[tuple[str, str]]:
    """Return a value and its interval, called `interval`, at full precision, in `unit`."""
    return [("Value", _exact(unit, value)), (interval, _exact(unit, low, high) or "none recorded")]


def measurement_facts(run: Run, row: Measurement, *, summary: bool = False) -> Iterator[tuple[str, str]]:
    """How a measurement is known, with `summary` also its samples' statistics; a text is empty where none is known."""
    if row.value is None:
        yield "Why it is absent", row.absent_because or "no reason was recorded"
        return
    yield from interval_facts(row.unit, row.value, row.low, row.high)
    yield "Within this run", _exact(row.unit, row.within_low, row.within_high)
    yield "Basis", basis_text(row.basis)
    yield "Method", row.method or "no method was recorded"
    if run.variation is not None and row.within_low is not None:
        yield "Run to run", f"{run.variation.sigma:.2%} ({run.variation.source}): {run.variation.method}"
    sessions = len(row.session_lengths)
    within = f" in {plural(sessions, 'session')}" if sessions else ""
    yield "Samples", f"{len(row.samples)}{within}" if row.samples else ""
    if summary and row.summary is not None:
        yield from _summary_facts(row.summary, row.unit)
    elif row.summary is not None:
        percentiles = ", ".join(f"{name} {_exact(row.unit, value)}" for name, value in row.summary.percentiles.items())
        yield "Percentiles", percentiles and f"{percentiles}; of the samples, without intervals"
    yield "Conditions", conditions_text(run)


def _summary_facts(found: Summary, unit: str) -> Iterator[tuple[str, str]]:
    spread = {name: getattr(found, name) for name in ("mean", "std", "min", "median", "max", "mad")}
    for name, value in {**spread, **found.percentiles}.items():
        yield name, _exact(unit, value)
    yield "Outliers", f"{found.outliers} of {found.n}, all included"
    if found.between_sessions is not None:
        yield "Between sessions", f"{found.between_sessions:.2%} relative standard deviation of their medians"
    if found.autocorrelation is not None:
        yield "Autocorrelation", f"{found.autocorrelation:.3g}, lag 1"


def basis_text(basis: str | None) -> str:
    """``"estimated: from a model of the hardware"``; empty for None."""
    return f"{basis}: {BASES[basis]}" if basis else ""


def cautions_of(run: Run, row: Measurement) -> tuple[Caution, ...]:
    """Return the cautions of `run` that concern `row`: sizes and counts are exact, whatever the machine did."""
    return run.cautions if row.samples or row.low is not None else ()


def conditions_text(run: Run) -> str:
    """Return the conditions of a run in one line."""
    return "; ".join(f"{name.lower()} {words}" for name, words in conditions_of(run) if words)


def conditions_of(run: Run) -> Iterator[tuple[str, str | None]]:
    """Device, machine, engine, threads, precision and scenario of a run; None where the record lacks it."""
    threads = threads_of(run)
    yield "Device", run.job.target.device
    yield "Machine", machine_of(run)
    yield "Engine", f"{engine_of(run)} ({provider_of(run).partition('/')[2] or 'default provider'})"
    yield "Threads", None if threads is None else str(threads)
    yield "Precision", precision_of(run)
    yield "Scenario", f"{scenario_of(run)}, batch {run.job.workload.batch}"


def _exact(unit: str, *values: float | None) -> str:
    """``"1 to 2 s"``: all digits except the last ones, which are rounding errors; empty where a value is None."""
    known = [f"{value:.15g}" for value in values if value is not None]
    return " to ".join(known) + ("" if unit == "1" else f" {unit}") if len(known) == len(values) else ""
