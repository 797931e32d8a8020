"""``edgewise devices``: register, list, check and remove the devices that ``-d`` names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.errors import BadInput, ExitCode
from edgewise.terminal.console import err, out, print_json
from edgewise.verbs import choices
from edgewise.verbs.command import takes
from edgewise.verbs.option import Values, argument, option
from edgewise.verbs.shared_options import JSON_TOO, PLAIN

if TYPE_CHECKING:
    from edgewise.run.device_check import DeviceCheck

SCHEMA = 1
_FILE = option(
    "--file F.toml",
    PLAIN,
    "File of registered devices (default: EDGEWISE_DEVICES, otherwise in your configuration folder)",
    Path,
)


@takes(
    argument("name", "Name for -d.", str, metavar="NAME", choices=choices.registered_devices),
    argument(
        "url", "ssh://USER@HOST:PORT, adb://SERIAL, container://IMAGE, serial:///dev/PORT or local.", str, metavar="URL"
    ),
    option("--set KEY=VALUE", PLAIN, "Setting, such as 'python=~/venv/bin/python' (in quotes); repeatable", list[str]),
    _FILE,
)
def add(values: Values) -> None:
    """Register a device, or change a registered one: with the same URL it keeps settings that are not given.

    No connection: see 'edgewise devices check'.
    """
    from edgewise.device.devices import Device, read_devices
    from edgewise.estimating.base import is_known
    from edgewise.verbs.devices.work import register
    from edgewise.verbs.words import once

    name, file = values["name"], values["file"]
    pairs = [word.partition("=") for word in values["set"] or []]
    if any(not key or not value for key, _, value in pairs):
        raise BadInput("--set needs KEY=VALUE", advice="for example --set 'python=~/venv/bin/python'")
    before = read_devices(file).get(name)
    kept = before.settings if before is not None and before.url == values["url"] else {}
    settings = {**kept, **once((key, value) for key, _, value in pairs)}
    place, old = register(Device(name=name, url=values["url"], settings=settings), file)
    words = [] if old is None else [old.url, *(f"{key}={value}" for key, value in old.settings.items())]
    said = f"{name} added to {place}" if old is None else f"{name} replaced in {place}; it was {', '.join(words)}"
    err().print(said, markup=False, highlight=False, soft_wrap=True)
    if is_known(name):
        warning = (
            f"'edgewise estimate -d {name}' goes on estimating the one that edgewise knows by this name, and measures "
            "nothing on yours: better give it another name"
        )
        err().print(warning, markup=False, highlight=False, soft_wrap=True)


@takes(
    _FILE, option("--atlas", PLAIN, "Also list the devices whose results 'edgewise atlas import' read", bool), JSON_TOO
)
def list_devices(values: Values) -> None:
    """List this machine, the registered devices, without connecting to them, and the calibrated ones."""
    from edgewise.device.devices import LOCAL, Device, read_devices
    from edgewise.predicting.atlas import devices_of, stamp, tables
    from edgewise.predicting.calibration import summaries
    from edgewise.report.document import Document
    from edgewise.report.document.text import print_document
    from edgewise.report.estimate.forecast import atlas_devices_table, calibrations_table
    from edgewise.run.device_check import device_document

    devices = list({LOCAL: Device(name=LOCAL, url=LOCAL), **read_devices(values["file"])}.values())
    calibrated, with_atlas = summaries(), values["atlas"]
    published = devices_of(tables(stamp())) if with_atlas else []
    if values["json"]:
        documents = [device_document(device) for device in devices]
        extra = {"atlas": published} if with_atlas else {}
        print_json({"schema": SCHEMA, "devices": documents, "calibrated": calibrated, **extra})
        return
    from rich.table import Table
    from rich.text import Text

    table = Table("Name", "URL", "Settings", box=None, padding=(0, 2, 0, 0))
    for device in devices:
        settings = ", ".join(f"{key}={value}" for key, value in device.settings.items())
        table.add_row(Text(device.name), Text(device.url), Text(settings))
    out().print(table)
    if calibrated:
        out().print()
        print_document(Document(title="", tables=(calibrations_table(calibrated),)), out())
    if published:
        out().print()
        print_document(Document(title="", tables=(atlas_devices_table(published),)), out())
    elif with_atlas:
        out().print("\nThe atlas is empty: 'edgewise atlas import' reads published results.", highlight=False)


@takes(
    argument("name", "Name of the device.", str, metavar="NAME", choices=choices.registered_devices),
    _FILE,
    option("--calibration", PLAIN, "Remove the calibration of a registered device, not the device", bool),
)
def rm(values: Values) -> None:
    """Remove a device from the file, or a calibrated device. Nothing on the device changes."""
    from edgewise.device.calibrations import names
    from edgewise.device.devices import read_devices, remove_device
    from edgewise.predicting.calibration import remove

    name, file = values["name"], values["file"]
    if values["calibration"] or (file is None and name in names() and name not in read_devices(file)):
        err().print(f"calibration removed: {remove(name)}", markup=False, highlight=False)
        return
    err().print(f"{name} removed from {remove_device(name, file)}", markup=False, highlight=False)


@takes(
    argument(
        "name", "Name or URL of the device.", str, metavar="NAME", default="local", choices=choices.measured_devices
    ),
    option("--bootstrap", PLAIN, "First install numpy and engines on the device, in ~/edgewise/venv", bool),
    option("--engines A,B", PLAIN, "Engines for --bootstrap", default="onnxruntime", choices=choices.runtimes),
    JSON_TOO,
)
def check(values: Values) -> int:
    """Connect to a device and list what is there and what is missing. Exit code 3 if no engine can be used."""
    from edgewise.cancellation import CancelToken, cancellable, cancelled_by_signal
    from edgewise.device.devices import find_device
    from edgewise.progress import LogLine, reporting_to
    from edgewise.verbs.devices.work import check as check_device

    def show(event: object) -> None:
        if isinstance(event, LogLine):
            err().print(event.text, markup=False, highlight=False, style="dim", soft_wrap=True)

    install = [word for word in values["engines"].split(",") if word] if values["bootstrap"] else None
    token = CancelToken()
    with cancelled_by_signal(token), cancellable(token), reporting_to(show):
        found = check_device(find_device(values["name"]), install=install)
    if values["json"]:
        print_json({"schema": SCHEMA, **found.to_document()})
    else:
        _print(found)
    return ExitCode.DONE if found.usable else ExitCode.UNAVAILABLE


def _print(found: DeviceCheck) -> None:
    from rich.table import Table
    from rich.text import Text

    from edgewise.run.device_check import missing_engines
    from edgewise.text import listing, one_line
    from edgewise.units import format_bytes

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    machine = found.environment
    rows = [
        ("device", f"{found.device.name}  {found.device.url}"),
        ("Python", " ".join((found.version, found.python)).strip()),
        ("product", " ".join(filter(None, machine.get("device", {}).values()))),
        ("processor", str(machine.get("cpu", {}).get("model") or "")),
        ("emulator", str(machine.get("virtualisation", {}).get("emulator") or "")),
        ("system", " ".join(filter(None, (machine.get("os", {}).get("name"), machine.get("android", {}).get("abi"))))),
        ("free space", "" if found.free_bytes is None else format_bytes(found.free_bytes)),
    ]
    if found.clock is not None:
        rows.append(("clock", f"{found.clock.wall_s:+.3f} s from this machine's, ± {found.clock.error_s:.3f} s"))
    for kind, members in (("engine", found.engines), ("sensor", found.sensors)):
        rows += [(kind, f"{name} {state.version or ''}") for name, state in members.items() if state]
    engines = [name for name, state in found.engines.items() if state]
    answer = ": can't measure yet"
    if not found.connected:
        answer = f" can't be reached: {'; '.join(one_line(each.what) for each in found.missing)}"
    elif engines:
        answer = f": can measure with {listing(engines)}"
    elif found.engines:
        answer += ": it has no engine, and one is enough"
    out().print(Text(f"{found.device.name}{answer}", style="bold"))
    for label, text in rows:
        if text:
            table.add_row(Text(label, style="dim"), Text(one_line(text)))
    others = [each for each in missing_engines(found.engines) if engines and each in found.missing]
    for each in found.missing:
        if each in others:  # one is enough
            continue
        if found.connected:
            table.add_row(Text("missing", style="yellow"), Text(one_line(each.what)))
        table.add_row(
            Text("" if found.connected else "to do", style="yellow"), Text(one_line(each.advice), style="cyan")
        )
    if others:
        names = listing([each.what.partition(":")[0] for each in others])
        table.add_row(Text("no engine", style="dim"), Text(f"{names}: --json says why, and what installs it"))
    out().print(table)


COMMANDS = {"add": add, "list": list_devices, "rm": rm, "check": check}
