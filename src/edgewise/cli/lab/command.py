"""``edgewise lab``: hosts that share their devices by way of a team's store."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.errors import BadInput
from edgewise.folders import absolute_path
from edgewise.terminal.console import err, out, print_json
from edgewise.text import one_line
from edgewise.units import format_bytes, format_duration, parse_size
from edgewise.verbs import choices
from edgewise.verbs.command import takes
from edgewise.verbs.option import Values, argument, option
from edgewise.verbs.shared_options import JSON_TOO, PLAIN, STORE_TOO

if TYPE_CHECKING:
    from edgewise.store import Store

SCHEMA = 1


def _open(values: Values) -> Store:
    """Return the store, which may hold a lab; a warning where the connection is exposed."""
    from edgewise.store import open_store
    from edgewise.verbs.lab.client import EXPOSED
    from edgewise.verbs.lab.engine import require_engine

    require_engine()
    store = open_store(values["store"])
    if store.lab.is_exposed:
        _say(EXPOSED)
    return store


def _say(line: str) -> None:
    err().print(one_line(line), markup=False, highlight=False, soft_wrap=True)


@takes(
    argument("store", "postgresql://USER@HOST/DATABASE (default: EDGEWISE_STORE).", str, metavar="URL", default=None),
    option("--most-file SIZE", PLAIN, "The largest file that a job may bring", default="2GiB"),
    option(
        "--files URL",
        PLAIN,
        "Folder for files of jobs that all hosts reach, such as s3://BUCKET/lab, or 'database' (default: as it is)",
    ),
)
def init(values: Values) -> None:
    """Make the tables of a lab in a store, or move a lab to this version of edgewise. What is there stays."""
    from edgewise.store.lab import LabSettings
    from edgewise.store.lab_folder import check_folder
    from edgewise.verbs.lab.engine import make_engine, protocol
    from edgewise.version import __version__

    most = parse_size(values["most_file"])
    with _open(values) as store:
        if values["files"] in (None, "database"):
            keeps = values["files"] is None and store.lab.exists
            files = store.lab.settings().files if keeps else ""
        else:
            files = check_folder(values["files"])
        settings = LabSettings(version=__version__, most_file=most, files=files, protocol=protocol())
        store.lab.make(settings, make_engine)
        place = f", which are in {files}" if files else ""
        _say(
            f"the lab in {store.name} works with edgewise {__version__} and takes files of up to "
            f"{format_bytes(most)}{place}"
        )


@takes(
    option(
        "--devices A,B",
        PLAIN,
        "Devices of this host by name (default: this machine and all registered ones)",
        choices=choices.measured_devices,
    ),
    option("--tags A,B", PLAIN, "Tags of all these devices, beside the setting 'tags' of their registration"),
    option("--host NAME", PLAIN, "Name of this host in the lab (default: its network name)"),
    option("--allow-code FOLDER", PLAIN, "Let jobs run code and read files in this folder of the host", Path),
    option("--cache FOLDER", PLAIN, "Folder for files of jobs (default: in your cache folder)", Path),
    option("--cache-size SIZE", PLAIN, "The most that this folder holds", default="20GiB"),
    STORE_TOO,
)
def work(values: Values) -> None:
    """Carry out jobs on the devices of this host, one at a time on each, until Ctrl-C or 'edgewise lab drain'.

    Ctrl-C queues the running jobs again. Each device is gauged before and after blocks of jobs, and takes no more of
    them where it differs from its own earlier gauges.
    """
    from platformdirs import user_cache_path

    from edgewise.verbs.lab.files import FileCache
    from edgewise.verbs.lab.gauge import ChildGauge
    from edgewise.verbs.lab.job import JobRunner
    from edgewise.verbs.lab.worker import Host, devices_of

    host = values["host"] or socket.gethostname()
    if not host.isprintable() or not 0 < len(host) <= 128:
        raise BadInput("⟦host⟧ must be 1 to 128 printable characters", advice="leave ⟦host⟧ out")
    names, tags = (
        [one.strip() for one in (values[name] or "").split(",") if one.strip()] for name in ("devices", "tags")
    )
    folder = absolute_path(values["cache"] or user_cache_path("edgewise", appauthor=False) / "lab")
    with _open(values) as store:
        lab = store.lab
        runner = JobRunner(
            store=lab.url,
            cache=FileCache(folder / host, lab.files, most=parse_size(values["cache_size"])),
            allow_code=values["allow_code"],
            most_file=lab.settings().most_file,
        )
        devices = devices_of(host, names, tags)
        _say(f"{host} works for the lab in {store.name}: {', '.join(one.name for one in devices)}")
        Host(lab=lab, name=host, devices=devices, work=runner, say=_say, ask=ChildGauge(lab.url)).run()


@takes(STORE_TOO, JSON_TOO)
def status(values: Values) -> None:
    """Show the devices of the lab, what they do and since when, and the queue."""
    from edgewise.verbs.lab.engine import protocol
    from edgewise.version import __version__

    with _open(values) as store:
        settings = store.lab.settings()
        found = store.lab.status()
    same = settings.protocol == protocol()
    if values["json"]:
        versions = {"version": settings.version, "version_here": __version__, "works_with_this_version": same}
        print_json({"schema": SCHEMA, **versions, **found})
        return
    from rich.table import Table
    from rich.text import Text

    table = Table("Host", "Device", "State", "Job", "Since", box=None, padding=(0, 2, 0, 0))
    for one in found["devices"]:
        since = ""
        if one["since"] is not None:
            moment = time.strftime("%H:%M:%S", time.localtime(one["since"]))
            since = f"{moment} ({format_duration(one['busy_s'])})"
        state = "busy" if one["state"] == "ready" and one["job"] else one["state"]
        table.add_row(
            *(Text(one_line(text)) for text in (one["host"], one["device"], state, one["title"] or "", since))
        )
    out().print(table)
    out().print()
    doubted = {one["identity"]: one for one in found["devices"] if one["verdict"] != "fit"}
    for one in doubted.values():
        line = f"{one['device']} of {one['host']} is {one['verdict']}: {one['why']}"
        out().print(one_line(line), markup=False, highlight=False, soft_wrap=True)
        if one["verdict"] == "suspect":
            clear = f"  once it is as it should be: edgewise lab clear {one['host']}/{one['device']}"
            out().print(one_line(clear), markup=False, highlight=False, soft_wrap=True)
    if doubted:
        out().print()
    states = ("queued", "running", "done", "failed", "cancelled")
    for head, counts in (("For", found["jobs"]), ("Suite", found["suites"])):
        table = Table(head, *map(str.capitalize, states), box=None, padding=(0, 2, 0, 0))
        for name, numbers in counts.items():
            table.add_row(Text(one_line(name)), *(str(numbers.get(state, 0)) for state in states))
        out().print(table)
        out().print()
    if found["schedules"]:
        table = Table("Schedule", "Suite", "Cells", "When, UTC", "Next, here", box=None, padding=(0, 2, 0, 0))
        for one in found["schedules"]:
            moment = time.strftime("%Y-%m-%d %H:%M", time.localtime(one["due"]))
            told = (one["name"], one["suite"], str(one["cells"]), one["cron"], moment)
            table.add_row(*(Text(one_line(text)) for text in told))
        out().print(table)
        out().print()
    out().print(f"{found['ended_within_an_hour']} jobs ended within the last hour", highlight=False)
    others = {one["host"]: one["version"] for one in found["devices"] if one["version"] != settings.version}
    for line in (
        *(f"{host} has edgewise {version}" for host, version in others.items()),
        f"the lab works with edgewise {settings.version}; here is {__version__}"
        + ("" if same else ", whose requests or results have another form"),
    ):
        out().print(one_line(line), markup=False, highlight=False, soft_wrap=True)


@takes(
    argument("names", "Parts of the names of cells, or keys.", list[str], metavar="NAME…", default=None),
    option("--all", PLAIN, "Cancel all jobs", bool),
    option("--schedule SUITE", PLAIN, "Instead: do not queue this suite again by its schedule", field="schedule"),
    STORE_TOO,
)
def cancel(values: Values) -> None:
    """Cancel queued jobs and stop running ones, by parts of their names; or end the schedule of a suite."""
    names, suite = values["names"] or [], values["schedule"]
    if [bool(names), values["all"], suite is not None].count(True) != 1:
        raise BadInput("give parts of names, --all or --schedule", advice="'edgewise lab status' shows what there is")
    with _open(values) as store:
        store.lab.settings()
        if suite is not None:
            store.lab.schedules.remove(suite)
            _say(f"{suite} is not queued again")
            return
        queued, running = store.lab.jobs.end_all(names)
    _say(f"{queued} cancelled, {running} being stopped")


@takes(argument("host", "Name of the host.", str, metavar="HOST"), STORE_TOO)
def drain(values: Values) -> None:
    """Have a host finish its running jobs, take no more, and end."""
    with _open(values) as store:
        store.lab.settings()
        store.lab.drain(values["host"])
    _say(f"{values['host']} ends after its running jobs")


@takes(
    argument("device", "Its name, HOST/NAME, or its identity.", str, metavar="DEVICE"),
    option("--forget", PLAIN, "Learn anew what is usual for it, as after a change of its system", bool),
    STORE_TOO,
)
def clear(values: Values) -> None:
    """Let a suspect device work again, once you have looked at it."""
    with _open(values) as store:
        store.lab.settings()
        names = store.lab.clear(values["device"], forget=values["forget"])
    _say(f"{', '.join(names)} may work again")


COMMANDS = {"init": init, "work": work, "status": status, "cancel": cancel, "drain": drain, "clear": clear}
