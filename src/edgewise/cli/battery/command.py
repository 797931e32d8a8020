"""``edgewise battery``: how long a battery lasts at a number of inferences an hour."""

from __future__ import annotations

from dataclasses import astuple
from typing import TYPE_CHECKING

from edgewise.units import ENERGIES, POWERS, parse_capacity, parse_interval
from edgewise.verbs import choices
from edgewise.verbs import shared_options as options
from edgewise.verbs.command import takes
from edgewise.verbs.option import Values, argument, option

if TYPE_CHECKING:
    from edgewise.record import Run
    from edgewise.run.battery import BatteryLife

SCHEMA = 1
OPTIONS = (
    argument(
        "runs",
        "Stored runs (id, its beginning, tag, 'last') or exported files, which measured the energy.",
        list[str],
        metavar="RUN…",
        default=None,
        choices=choices.runs,
        files=True,
    ),
    option(
        "--capacity 10Wh", options.MEASURE, "Usable capacity of the battery: 10Wh, 36kJ or 2000mAh@3.7V", default=...
    ),
    option(
        "--idle-power 50mW±5mW",
        options.MEASURE,
        "Power of the device between inferences, with its uncertainty if you know it",
        default=...,
    ),
    option("--per-hour N", options.MEASURE, "Number of inferences an hour", float, default=...),
    option(
        "--energy 3mJ±10%",
        options.MEASURE,
        "Energy of one inference above the idle power (default: the energy that the run measured)",
    ),
    options.STORE,
    options.AS_JSON,
)


@takes(*OPTIONS)
def command(values: Values) -> int:
    """Compute how long a battery lasts, from the energy per inference that a run measured or that you give.

    A run without a measured energy needs --energy. The number of inferences an hour must fit the run's latency.
    """
    from edgewise.cli.report.command import read_runs
    from edgewise.errors import BadInput
    from edgewise.run.battery import Quantity, battery_life, energy_of
    from edgewise.terminal.console import print_json

    given = values["energy"] and Quantity(*parse_interval(values["energy"], ENERGIES, what="energy"))
    runs: list[Run | None] = list(read_runs(values["runs"], store=values["store"])) if values["runs"] else []
    if not runs and given is None:
        raise BadInput("no energy per inference given", advice="name a run that measured it, or give --energy 3mJ")
    capacity_j = parse_capacity(values["capacity"])
    idle_power = Quantity(*parse_interval(values["idle_power"], POWERS, what="power"))
    found = [
        (
            run,
            battery_life(
                capacity_j=capacity_j,
                idle_power=idle_power,
                energy=energy_of(run) if given is None and run is not None else given,
                per_hour=values["per_hour"],
                latency_s=None if run is None else run.value("latency"),
                source="given with --energy" if given is not None or run is None else f"measured by run {run.id}",
            ),
        )
        for run in runs or [None]
    ]
    if values["json"]:
        rows = [
            {"run": run and run.id, "model": run and run.job.model.name} | life.to_document() for run, life in found
        ]
        print_json({"schema": SCHEMA, "battery": rows})
    else:
        for run, life in found:
            _print(run, life)
    return 0


def _print(run: Run | None, life: BatteryLife) -> None:
    from rich.table import Table
    from rich.text import Text

    from edgewise.formatting import plus_minus, share_text, with_range
    from edgewise.run.battery import DAY_S, HOUR_S
    from edgewise.terminal.console import out

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    scale, unit = (DAY_S, "days") if life.life.value >= 2 * DAY_S else (HOUR_S, "hours")
    low, high = (None if end is None else end / scale for end in (life.life.low, life.life.high))
    rows = [] if run is None else [("model", run.job.model.name)]
    rows += [
        ("battery life", f"{plus_minus(life.life.value / scale, low, high)} {unit}"),
        ("mean power", with_range("power", "W", *astuple(life.mean_power))),
        ("inferences", f"{share_text(life.inference_share, places=0)} of the mean power"),
        ("basis", f"derived: {life.method}"),
    ]
    for label, text in rows:
        table.add_row(Text(label, style="dim"), Text(text))
    out().print(table)
