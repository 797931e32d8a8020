"""The devices that ``-d`` can name: this machine, those registered in ``devices.toml``, plug-ins, and URLs.

    [pi4]
    url = "ssh://pi@192.168.1.7:2222"
    python = "~/venv/bin/python"

The scheme of a URL is the name of the transport that opens it. ``power_meter`` is a power meter in the device's supply
that is read here, and ``tags`` are for a lab; every other key is a setting of the transport. ``[local]`` with
``url = "local"`` is this machine.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

from edgewise.device.transport import OpensDevices, Transport, transports
from edgewise.errors import BadInput, EdgewiseError, Unavailable

ENVIRONMENT_VARIABLE = "EDGEWISE_DEVICES"
LOCAL = "local"
MOST_BYTES = 2**20
POWER_METER = "power_meter"
TAGS = "tags"
"""Names, parted by commas, by which jobs of a lab ask for any device that has one."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_SCHEME = re.compile(r"([a-z][a-z0-9+-]*)://(.*)", re.DOTALL)
_HOST = re.compile(r"[\w.-]+@[\w.:-]+|[\w-]+(\.[\w-]+)+(:[0-9]+)?")
"""What SSH calls USER@HOST, and hosts whose names have a dot."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A device by name.

    Attributes:
        name: as ``-d`` and records have it; the URL itself where it is not registered.
        url: ``scheme://…``; for this machine and for plug-ins without URLs their name.
        settings: of the transport, by name.
    """

    name: str
    url: str
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def transport(self) -> str:
        """The name of the transport that reaches it."""
        found = _SCHEME.fullmatch(self.url)
        return found[1] if found else self.url

    @property
    def address(self) -> str:
        """The part of the URL behind ``scheme://``."""
        found = _SCHEME.fullmatch(self.url)
        return found[2] if found else ""

    @property
    def is_of_host(self) -> bool:
        """Whether its URL is another device's at another host: a port, a container, whatever is connected there."""
        place = self.address.rpartition("@")[2]
        return self.transport == "container" or not place or place.startswith(("/", "localhost", "127.", "[::1]"))


def devices_file(path: Path | None = None) -> Path:
    """`path`, else ``EDGEWISE_DEVICES``, else ``devices.toml`` in the user's folder of settings."""
    if path is not None:
        return path
    if named := os.environ.get(ENVIRONMENT_VARIABLE):
        return Path(named).expanduser()
    from platformdirs import user_config_path

    return user_config_path("edgewise", appauthor=False) / "devices.toml"


def read_devices(path: Path | None = None) -> dict[str, Device]:
    """Return registered devices by name, in the order of the file; empty without a file. Raises `BadInput`."""
    file = devices_file(path)
    try:
        content = tomllib.loads(_read(file))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise BadInput(f"{file} can't be read: {reason}", advice="correct it, or name another file") from error
    return {name: _device(name, table, file) for name, table in content.items()}


def _read(file: Path) -> str:
    """Return the text of the file. Raises OSError; ValueError where it is too large or not UTF-8."""
    with file.open("rb") as stream:
        content = stream.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"it is larger than {MOST_BYTES} B")
    return content.decode("utf-8-sig")


def _device(name: str, table: object, file: Path) -> Device:
    if not isinstance(table, dict) or not all(isinstance(value, str) for value in table.values()):
        raise BadInput(f"{file}: {name} is not a table of texts", advice=f'write [{name}] and url = "ssh://USER@HOST"')
    settings = dict(table)
    if not isinstance(url := settings.pop("url", None), str):
        raise BadInput(f"{file}: [{name}] has no url", advice='add url = "ssh://USER@HOST"')
    return Device(name=name, url=url, settings=settings)


def add_device(device: Device, path: Path | None = None) -> tuple[Path, Device | None]:
    """Write `device` to the file; return that and what had its name. Raises `BadInput` for a wrong name or value."""
    file = devices_file(path)
    is_here = (device.name, device.url) == (LOCAL, LOCAL)
    if not _NAME.fullmatch(device.name) or (device.name in transports().names() and not is_here):
        raise BadInput(
            f"{device.name!r} can't be the name of a device",
            advice="use 1 to 64 letters, digits, _ and -, and not the name of a transport",
        )
    words = {"url": device.url, **device.settings}
    if any(_CONTROL.search(value) for value in words.values()) or not all(map(_NAME.fullmatch, words)):
        raise BadInput(f"{device.name}: a URL or a setting has a control character or no valid name")
    open_transport(device)
    # A JSON string without control characters is a TOML string.
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in words.items()]

    old: list[Device] = []

    def write(before: str) -> str:
        if device.name in (known := read_devices(file)):
            old.append(known[device.name])
            before = _without(device.name, before)
        return before + ("\n" if before else "") + f"[{device.name}]\n" + "".join(lines)

    return _rewrite(file, write), next(iter(old), None)


def remove_device(name: str, path: Path | None = None) -> Path:
    """Remove a device from the file, with its lines only, and return the file. Raises `BadInput`."""
    file = devices_file(path)
    if name not in read_devices(file):
        raise BadInput(f"{name} is not in {file}", advice="see 'edgewise devices list'")
    return _rewrite(file, lambda before: _without(name, before))


def _without(name: str, text: str) -> str:
    """Return the text of the file without a device's lines."""
    section = rf"^[ \t]*\[[ \t]*\"?{re.escape(name)}\"?[ \t]*\].*?(?=^[ \t]*\[|\Z)"
    left = re.sub(section, "", text, count=1, flags=re.MULTILINE | re.DOTALL).rstrip("\n")
    if name in tomllib.loads(left):
        raise BadInput(f"{name} is not written as a table [{name}]", advice="remove it from the file by hand")
    return left and f"{left}\n"


def _rewrite(file: Path, edit: Callable[[str], str]) -> Path:
    """Replace the text of the file at once, so that a full disk loses nothing. Raises `BadInput`."""
    place = file.resolve()
    try:
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(place.parent, os.O_RDONLY)  # two commands at once lose no device
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            text = edit(_read(place) if place.exists() else "")
            fresh = place.with_name(f"{place.name}.new")
            fresh.write_text(text, encoding="utf-8")
            if place.exists():
                shutil.copymode(place, fresh)
            fresh.replace(place)
        finally:
            os.close(lock)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadInput(f"{file} can't be written: {reason}", advice="name another file with ⟦file⟧") from error
    return file


def find_device(name: str, path: Path | None = None) -> Device:
    """Return the device that a name or a URL stands for. Raises `Unavailable`, or `BadInput` for a damaged file."""
    found = _SCHEME.fullmatch(name)
    names = transports().names()
    if found and found[1] not in names:
        schemes = ", ".join(f"{each}://" for each, plugin in transports() if isinstance(plugin, OpensDevices))
        raise Unavailable(f"{name}: no transport for {found[1]}://", advice=f"known: {schemes}")
    if found or name in names:
        return Device(name=name, url=name)
    registered = read_devices(path)
    if name in registered:
        return registered[name]
    plugins = [each for each, plugin in transports() if each != LOCAL and not isinstance(plugin, OpensDevices)]
    known = [LOCAL, *registered, *plugins]
    near = get_close_matches(name, known, n=1)
    raise Unavailable(
        f"unknown device {name!r}",
        advice=(f"did you mean {near[0]}? " if near else "") + f"known devices: {', '.join(known)}; local is this "
        "machine; register one with 'edgewise devices add', or give a URL such as ssh://USER@HOST",
    )


def is_device(name: str) -> bool:
    """Whether models can run on the device called `name`. Raises `BadInput` for a damaged file."""
    try:
        find_device(name)
    except Unavailable:
        return False
    return True


def transport_of(name: str) -> str:
    """Return the name of the transport to a device; `name` itself where it is not known here."""
    try:
        return find_device(name).transport
    except EdgewiseError:
        return name


def open_transport(device: Device) -> Transport:
    """Return the transport to `device`; no connection is made yet.

    Raises:
        BadInput: an address or a setting that its transport does not know.
        Unavailable: the transport, or a package that it needs, is missing.
    """
    if _HOST.fullmatch(device.url) and device.url not in transports().names():
        raise BadInput(f"{device.name}: {device.url!r} is not a URL", advice=f"write ssh://{device.url}")
    plugin = transports().get(device.transport)
    settings = {name: value for name, value in device.settings.items() if name not in (POWER_METER, TAGS)}
    if not isinstance(plugin, OpensDevices):
        if device.address or settings:
            raise BadInput(f"{device.name}: the transport {device.transport} has no address and no settings")
        return plugin
    unknown = sorted(set(settings) - set(plugin.settings))
    if unknown:
        raise BadInput(
            f"{device.name}: unknown setting {unknown[0]!r}",
            advice=f"settings of {device.transport}: {', '.join([*plugin.settings, POWER_METER, TAGS])}",
        )
    return plugin.open(device.name, device.address, settings)
