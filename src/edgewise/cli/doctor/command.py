"""``edgewise doctor``: runtimes, meters and devices that can be used, and how fit a machine is for measuring."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from edgewise.constraints.base import PROCESS_NAME
from edgewise.device.devices import LOCAL, find_device
from edgewise.errors import Unavailable
from edgewise.metrics import METRICS
from edgewise.registry import Availability, Registry, availability_of
from edgewise.report.document import Cell, Column, Document, Section, Table, Tone, filled
from edgewise.text import listing, one_line
from edgewise.units import format_bytes, format_si, parse_duration
from edgewise.verbs import choices
from edgewise.verbs import shared_options as options
from edgewise.verbs.command import takes
from edgewise.verbs.option import Values, option

if TYPE_CHECKING:
    from edgewise.run.device_check import DeviceCheck

T = TypeVar("T")
TONES: dict[str, Tone] = {"A": "good", "B": "good", "C": "poor", "D": "bad"}
QUIET_S = 1.0
OF_CHECK = ("python", "version", "free_bytes", "clock", "missing")
"""Keys of `edgewise.run.device_check.DeviceCheck` that the row of a remote device has too."""
CALIBRATION_STEP_S = 4.0
"""Time between the starts of two sessions while calibrating."""


OPTIONS = (
    options.AS_JSON,
    option(
        "-d --device NAME",
        options.OUTPUT,
        "Device to examine: its name, or a URL such as ssh://USER@HOST",
        default=LOCAL,
        choices=choices.measured_devices,
    ),
    option(
        "--calibrate 10min",
        options.OUTPUT,
        "Learn how the machine's speed varies between runs: measure the bundled network for this long",
    ),
    option(
        "--forget",
        options.OUTPUT,
        "Forget how the machine's speed varied until now, such as in a noisy hour, which widens intervals no more; "
        "also its best peaks, which are the limits of profiles",
        bool,
    ),
    option(
        "--bundle support.zip",
        options.OUTPUT,
        "Also write what a report of a fault needs: this, versions, causes of failed runs; without names and paths",
        Path,
    ),
    options.FORCE,
    options.STORE,
)


@takes(*OPTIONS)
def command(values: Values) -> int:
    """List runtimes, meters and devices, and grade how suitable this machine is for measuring.

    The machine, or the one that --device names, is observed for one second. Only --calibrate runs an engine.
    Grades: A, nothing speaks against the numbers; B and C, something does, and it is named; D, measure again.
    """
    from edgewise.report.document.text import print_document
    from edgewise.terminal.console import err, out, print_json

    store, calibrate, device = values["store"], values["calibrate"], values["device"]
    bundle: Path | None = values["bundle"]
    find_device(device)
    if bundle is not None:
        from edgewise.folders import check_place

        check_place(bundle, overwrite=values["force"], example="support.zip")
    if values["forget"]:
        times, peaks = _forget(store, device)
        err().print(
            f"forgot {times} reference time{'' if times == 1 else 's'} and {peaks} peak{'' if peaks == 1 else 's'} of "
            f"{device}; its runs are kept"
        )
    code = 0 if calibrate is None else _calibrate(parse_duration(calibrate), store, device)
    if code:
        return code
    err().print(f"[dim]observing the machine for {QUIET_S:g} s: start nothing else meanwhile[/]")
    document = examine(device=device, store=store)
    if values["json"]:
        print_json(document)
    else:
        print_document(_document(document), out())
    if bundle is not None:
        from edgewise.cli.doctor.bundle import write_bundle

        write_bundle(bundle, document, store=store, overwrite=values["force"])
        err().print(f"wrote {bundle}: look at it before you send it", markup=False, highlight=False, soft_wrap=True)
    return 0


def _calibrate(duration_s: float, store: str | None, device: str) -> int:
    """Measure the bundled network over `duration_s` and save the run; later runs use its reference times.

    Returns:
        The exit code. Raises `BadInput` for too short a time, `Unavailable` without an engine or a real processor.
    """
    from edgewise.cli.verb import Output, with_context
    from edgewise.data import path as bundled
    from edgewise.device.devices import transport_of
    from edgewise.errors import BadInput
    from edgewise.record import Scenario, Stopping, TargetSpec
    from edgewise.run.facts import require_real_processor
    from edgewise.run.plan import Axes, Plan, make_plan
    from edgewise.stats.between_runs import LEAST_SPAN_S
    from edgewise.terminal.errors import tell_ending
    from edgewise.verbs.measuring import RunPresentation, execute

    if duration_s < LEAST_SPAN_S * 1.2:
        raise BadInput(
            f"--calibrate {duration_s:g}s is too short to see how the machine's speed varies",
            advice=f"{LEAST_SPAN_S * 1.2 / 60:g}min or more; 10min is a good start",
        )
    target = TargetSpec(device=device, transport=transport_of(device))
    require_real_processor(target)
    count = round(duration_s / CALIBRATION_STEP_S) + 1
    plan = make_plan(
        [bundled("digits_cnn.onnx")],
        axes=Axes(),
        scenario=Scenario(),
        stopping=Stopping(sessions=count, spread_s=duration_s, min_s=0.05, max_s=0.1),
        target=target,
    )
    output = Output(store=store)
    measured = with_context(output, lambda context: execute(Plan(jobs=plan.jobs[:1]), context, meters=False))
    return tell_ending(RunPresentation().ending(measured, kept=output.keep))


def _forget(store: str | None, device: str) -> tuple[int, int]:
    """Forget the reference times and the peaks of a device; how many of each."""
    from edgewise.device.devices import transport_of
    from edgewise.record import TargetSpec
    from edgewise.record.reference import machine_key
    from edgewise.run.environment import fingerprint
    from edgewise.run.peaks import forget_peaks
    from edgewise.store import open_store

    key = machine_key(fingerprint() if device == LOCAL else _check(device).environment)
    peaks = forget_peaks(TargetSpec(device=device, transport=transport_of(device)))
    if key is None:
        return 0, peaks
    with open_store(store) as opened:
        return opened.forget_readings(key), peaks


def examine(
    device: str = LOCAL, *, sleep: Callable[[float], None] = time.sleep, store: str | None = None
) -> dict[str, Any]:
    """Everything `command` shows, JSON-shaped.

    Args:
        sleep: waits while this machine is observed.
        store: of the earlier runs that tell how the machine's speed varies.

    Raises `Unavailable` where the device can't be reached or its Python can't be used.
    """
    from edgewise.constraints.choice import examine_mechanisms
    from edgewise.record import TargetSpec
    from edgewise.record.caution import CAUTIONS
    from edgewise.run.environment import fingerprint
    from edgewise.run.executor import executor_of, target_of
    from edgewise.run.meters.base import meters
    from edgewise.run.peaks import kept_peaks
    from edgewise.run.variation import SpeedHistory, half_width_of, stored_history
    from edgewise.runtime.base import runtimes

    found = None if device == LOCAL else _check(device)
    spec = TargetSpec() if found is None else TargetSpec(device=device, transport=found.device.transport)
    environment = fingerprint() if found is None else found.environment
    speed = SpeedHistory(environment, stored_history(store))
    variation = speed.usual()
    target = target_of(spec)
    executor = executor_of(target.transport)
    quiet = executor.activity(target, QUIET_S, sleep=sleep)
    fitness = executor.fitness(environment, quiet)
    mechanisms = examine_mechanisms() if found is None else {}
    is_bare = executor.words(environment) is not None
    there = {} if found is None or is_bare else {key: found.to_document()[key] for key in OF_CHECK}
    return {
        "schema": 1,
        "runtimes": list(_describe_runtimes(runtimes(), found, only_available=is_bare)),
        "meters": list(_describe_meters(meters(), found, device)),
        "limits": [
            {"name": name, "available": not reason, "reason": reason or None} for name, reason in mechanisms.items()
        ],
        "devices": [
            {"name": device, "transport": spec.transport, "available": True, "environment": environment, **there}
        ],
        "fitness": {
            "grade": fitness.grade,
            "reasons": list(fitness.reasons),
            "advice": list(fitness.advice),
            "watched": quiet,
        },
        "expected_grade": max(fitness.grade, CAUTIONS["variation-assumed"][0])
        if variation.source == "assumed" and (executor.is_worker or executor.varies)
        else fitness.grade,
        "variation": {
            "sigma": variation.sigma,
            "half_width": half_width_of(variation),
            "source": variation.source,
            "method": variation.method,
            "history": [asdict(period) for period in speed.periods(time.time())],
        },
        "peaks": [asdict(peak) for peak in kept_peaks(spec)] if executor.is_worker else [],
    }


def _check(device: str) -> DeviceCheck:
    """Return what a remote device has."""
    from edgewise.verbs.devices.work import check

    found = check(find_device(device))
    if not found.environment:
        raise Unavailable(f"{device} can't be examined: {found.missing[0].what}", advice=found.missing[0].advice)
    return found


def _describe_runtimes(
    registry: Registry[Any], found: DeviceCheck | None, *, only_available: bool
) -> Iterator[dict[str, Any]]:
    """One row per runtime; those that are only used by name, such as the fake one, are left out."""
    from edgewise.runtime.base import RunsLanguageModels, settings_of

    def is_listed(runtime: Any) -> bool:
        return runtime.in_default or ("fake" not in runtime.formats and isinstance(runtime, RunsLanguageModels))

    for name, runtime, availability in _ask(registry, {} if found is None else found.engines):
        if runtime is None:
            yield {"name": name, "title": name, **_availability(availability), "formats": [], "providers": []}
        elif availability if only_available else is_listed(runtime):
            yield {
                "name": name,
                "title": runtime.title,
                **_availability(availability),
                "formats": list(runtime.formats),
                "providers": [
                    {
                        "name": provider.name,
                        "title": provider.title,
                        "precisions": list(provider.precisions),
                        "settings": sorted(settings_of(runtime, provider)),
                    }
                    for provider in runtime.providers
                ],
            }


def _describe_meters(registry: Registry[Any], found: DeviceCheck | None, device: str) -> Iterator[dict[str, Any]]:
    """One row per meter; the last one is the power meter in the supply of the device, if it has one."""
    from edgewise.run.meters.base import Traits, traits_of
    from edgewise.run.power_meter.meter import meter_of

    there = {} if found is None else found.sensors
    rows: list[tuple[str, Any, Availability]] = [*_ask(registry, there)]
    if (own := meter_of(device)) is not None:
        rows.append((own.name, own, there.get(own.name) or availability_of(own)))
    for name, meter, availability in rows:
        title, metrics = (name, []) if meter is None else (meter.title, list(meter.metrics))
        here = Traits() if meter is None else traits_of(meter)
        traits = asdict(here if found is None else found.traits.get(name, here))
        yield {"name": name, "title": title, "metrics": metrics, **_availability(availability), **traits}


def _ask(registry: Registry[T], there: Mapping[str, Availability]) -> Iterator[tuple[str, T | None, Availability]]:
    """Every plug-in and whether it can be used: as `there` has it, otherwise here; a broken one has the reason."""
    for name in registry.names():
        plugin: Any = None
        try:
            plugin = registry.get(name)
            availability = there[name] if name in there else availability_of(plugin)
        except Unavailable as error:
            availability = Availability(False, error.message, error.advice)
        yield name, plugin, availability


def _availability(availability: Availability) -> dict[str, Any]:
    return {
        "available": availability.available,
        "version": availability.version,
        "reason": availability.reason or None,
        "install_hint": availability.install_hint or None,
    }


def _document(found: Mapping[str, Any]) -> Document:
    """Return what `examine` found, for a person."""
    from edgewise.record import TargetSpec
    from edgewise.run.executor import executor_at

    fitness, variation = found["fitness"], found["variation"]
    findings = zip(fitness["reasons"], fitness["advice"], strict=True)
    (device,) = found["devices"]
    words = executor_at(TargetSpec(device=device["name"])).words(device["environment"])
    where = "" if device["name"] == LOCAL else f" -d {device['name']}"
    assumed = "every interval of a time includes this variation → measure it with: "
    assumed += f"edgewise doctor --calibrate 10min{where}"
    limits = _table("Mechanisms for --cpus and --memory", [(row["name"], _mechanism(row)) for row in found["limits"]])
    return Document(
        title="",
        answer=_answer(found),
        lead=(
            Section(
                title=f"Fitness for measuring: {fitness['grade']}",
                lines=tuple(f"{reason} → {advice}" for reason, advice in findings),
                tone=TONES[fitness["grade"]],
            ),
        ),
        tables=(
            _plugin_table("Runtimes", found["runtimes"], lambda row: f"reads {', '.join(row['formats'])}"),
            _plugin_table("Meters", found["meters"], _meter_in_words),
            *((limits,) if found["limits"] else ()),
            _table("Devices", [(one_line(device["name"]), Cell(text=one_line(words or _device_in_words(device))))]),
        ),
        sections=(
            Section(
                title=f"Variation of the machine's speed between runs: ± {variation['half_width']:.1%} (95 %), "
                f"{variation['method']}",
                lines=(
                    *((_history_in_words(variation["history"], where),) if variation["history"] else ()),
                    *((assumed,) if variation["source"] == "assumed" and words is None else ()),
                ),
            ),
            *filled([_peaks_section(found["peaks"], where)]),
        ),
    )


def _answer(found: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what the device can measure, and the best grade that a run on it can get."""
    (device,), reasons = found["devices"], found["fitness"]["reasons"]
    engines = [row["name"] for row in found["runtimes"] if row["available"]]
    meters = [f"{row['name']} ({', '.join(row['metrics'])})" for row in found["meters"] if row["available"]]
    grade = found["expected_grade"]
    if grade != found["fitness"]["grade"]:
        reasons = [f"how its speed varies between runs is assumed: ± {found['variation']['half_width']:.1%}"]
    because = f": {reasons[0]}" if reasons and grade != "A" else ""
    return (
        f"{one_line(device['name'])} can measure models in {listing(engines) if engines else 'no engine'}; "
        f"meters that work: {listing(meters) if meters else 'none'}",
        f"Expect grade {grade}{' at best' if grade != 'A' else ''}{because}",
    )


def _peaks_section(peaks: Sequence[Mapping[str, Any]], where: str) -> Section:
    """Return the best peaks that were measured so far, and how they are forgotten."""
    from edgewise.record import Peak
    from edgewise.report.profile.cells import peak_rows

    return Section(
        title=f"Peaks, the limits of profiles → forget them: edgewise doctor --forget{where}",
        lines=tuple(f"{name}: {rate} ({how})" for name, rate, how in peak_rows([Peak(**each) for each in peaks])),
    )


def _history_in_words(periods: Sequence[Mapping[str, Any]], where: str) -> str:
    """Return what the history has of each period, and how it is forgotten."""
    told = [f"± {each['half_width']:.1%} {each['title']} ({each['blocks']} blocks of sessions)" for each in periods]
    return f"{', '.join(told)}; what is near in time weighs more → forget all of it: edgewise doctor --forget{where}"


def _meter_in_words(row: Mapping[str, Any]) -> str:
    """Metrics and traits of a meter; what is not known is left out."""
    words = [f"gives {', '.join(row['metrics'])}"]
    if row["place"] == "host":
        words.append("on this machine, beside the target")
    if row["rate_hz"]:
        words.append(format_si(row["rate_hz"], "Hz"))
    words += [
        f"{metric} in steps of {format_si(step, METRICS[metric].unit)}" for metric, step in row["resolution"].items()
    ]
    if row["cannot_see"]:
        words.append(f"can't see {row['cannot_see']}")
    return "; ".join(words)


def _plugin_table(title: str, rows: Sequence[Mapping[str, Any]], ability: Callable[[Mapping[str, Any]], str]) -> Table:
    """Plug-ins that are available, and why others are not; the command that installs one is a footnote."""

    def status(row: Mapping[str, Any]) -> Cell:
        if row["available"]:
            words = filter(None, (row["title"], row.get("version"), ability(row)))
            return Cell(text=" ".join(words), tone="good")
        hints = (row["install_hint"],) if row["install_hint"] else ()
        return Cell(text=row["reason"] or "not available", notes=hints, tone="poor")

    return _table(title, [(row["name"], status(row)) for row in rows])


def _mechanism(row: Mapping[str, Any]) -> Cell:
    held = (
        "whole cores, memory of each process" if row["name"] == PROCESS_NAME else "processors, memory of all processes"
    )
    return Cell(text=f"limits {held}", tone="good") if row["available"] else Cell(text=row["reason"], tone="poor")


def _table(title: str, rows: Sequence[tuple[str, Cell]]) -> Table:
    columns = (Column(title="Name", folds=True), Column(title="Found"))
    return Table(title=title, columns=columns, rows=tuple((Cell(text=name), cell) for name, cell in rows))


def _device_in_words(device: Mapping[str, Any]) -> str:
    environment = device["environment"]
    cpu, memory = environment["cpu"], environment["memory"]["total_bytes"]
    words = [
        cpu["model"] or "processor not known",
        f"{cpu['usable_cores']} usable cores" if cpu["usable_cores"] else "cores not known",
        f"{format_bytes(memory)} memory" if memory else "memory not known",
        environment["os"]["name"] or "system not known",
        environment["architecture"],
    ]
    if "python" in device:
        words.append(f"Python {device['version']} ({device['python']})")
        if device["free_bytes"] is not None:
            words.append(f"{format_bytes(device['free_bytes'])} free")
        if device["clock"] is not None:
            words.append("clock {offset_s:+.3f} s from this machine's, ± {error_s:.3f} s".format(**device["clock"]))
    return one_line(", ".join(words))
