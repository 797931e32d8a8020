"""An Android device as its shell describes it: the machine, the benchmark tools there, battery and heat.

The machine is read as any Linux machine is, from copies of its ``/proc`` and ``/sys``. ``dumpsys battery`` prints what
Android's BatteryService writes, ``dumpsys thermalservice`` (from Android 10 on) what ThermalManagerService does.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgewise.device.target import digest_of
from edgewise.device.transport import RunsPrograms
from edgewise.folders import job_folder
from edgewise.registry import Availability
from edgewise.run.counters import usable_cores
from edgewise.run.environment import fingerprint
from edgewise.run.executor import Facts
from edgewise.runtime.base import runtimes
from edgewise.runtime.device_tools import DeviceTool
from edgewise.text import one_line

PATIENCE_S = 30.0
MOST_OUTPUT = 4 * 2**20
MOST_FILE, MOST_WORD = 2**18, 100
"""Characters of one file, and of one property, that are kept."""
_CPU = "/sys/devices/system/cpu"
_FILES = (
    "/proc/cpuinfo", "/proc/meminfo", "/proc/self/status", "/proc/loadavg", "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/randomize_va_space", f"{_CPU}/online",
    *(f"{_CPU}/cpu[0-9]*/cpufreq/{name}" for name in (
        "scaling_governor", "scaling_driver", "cpuinfo_min_freq", "cpuinfo_max_freq", "scaling_cur_freq")),
    *(f"{_CPU}/cpu[0-9]*/topology/{name}" for name in ("physical_package_id", "core_id", "cluster_id")),
)  # fmt: skip
_PLACES = ("/data/local/tmp/{0}", "/data/local/tmp/android_aarch64_{0}", "/data/local/tmp/{0}_plus_flex")
"""Where tools are usually copied to; the second and third names are those of LiteRT's ready-made files."""
_CHARGING = 2  # BatteryManager.BATTERY_STATUS_CHARGING
_ZERO_C = 273.15
_COLDEST_C = -50.0
"""Sensors that are not there report less."""


def describe_phone(transport: RunsPrograms) -> Facts:
    """Return what the shell of a device tells, asked at once: its engines are the tools. Raises OSError.

    In ``environment``, ``android`` has SoC, version and ABI; the version of a tool is the start of its SHA-256.
    """
    names = [name for name, runtime in runtimes() if isinstance(runtime, DeviceTool)]
    own = {name: file for name in names if (file := _own_file(transport, name)) is not None}
    lines = [f'for f in {" ".join(_FILES)}; do [ -r "$f" ] && echo "== $f" && cat "$f"; done']
    lines += ['echo "== getprop"', "getprop", 'echo "== uname"', "uname -m"]
    for name in names:
        given = transport.programs.get(name)
        places = " ".join(shlex.quote(place.format(name)) for place in ([given] if given else _PLACES))
        lines.append(f'echo "== tool {name}"\nfor p in {places}; do [ -f "$p" ] && sha256sum "$p" && break; done')
    told = _sections(transport.shell("\n".join(lines), timeout_s=PATIENCE_S, most=MOST_OUTPUT).output)
    programs, tools = {}, {}
    for name in names:
        found = re.match(r"([0-9a-f]{64})\s+(\S.*)", told.get(f"tool {name}", ""))
        if name in own:
            programs[name] = str(own[name])
            tools[name] = _version(digest_of(own[name]))
        elif found:
            programs[name], tools[name] = found[2].strip(), _version(found[1])
        else:
            where = transport.programs.get(name) or _PLACES[0].format(name)
            reason = f"the device has no file {where}"
            tools[name] = Availability(
                False, reason, f"adb push {name} {_PLACES[0].format(name)}, or set {name} = PATH"
            )
    with job_folder() as root:
        for path, text in told.items():
            # The device names these paths: only plain ones below the folder are written.
            if re.fullmatch(r"/(?:proc|sys)/[A-Za-z0-9_/]+", path):
                file = root / path.lstrip("/")
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text[:MOST_FILE], encoding="utf-8")
        environment, cores = fingerprint(root=root), usable_cores(root)
    return Facts(engines=tools, sensors={}, environment=_android(environment, told), cores=cores, programs=programs)


def read_conditions(transport: RunsPrograms) -> dict[str, Any]:
    """Battery and heat now, in SI units; what the device does not tell is None. Raises OSError.

    ``battery_level`` (0 to 1), ``battery_voltage``, ``battery_temperature``, ``charging``, ``powered_by``,
    ``thermal_status`` (0 none to 6 shutdown), ``temperatures`` by sensor.
    """
    line = "dumpsys battery\necho '== thermal'\ndumpsys thermalservice"
    answer = transport.shell(line, timeout_s=PATIENCE_S, most=MOST_OUTPUT).output
    battery, _, thermal = answer.partition("== thermal")

    def number(name: str, text: str = battery) -> int | None:
        found = re.search(rf"^\s*{name}: (-?\d{{1,9}})\s*$", text, re.MULTILINE)
        return int(found[1]) if found else None

    level, scale = number("level"), number("scale")
    voltage, temperature, status = number("voltage"), number("temperature"), number("status")
    live = thermal.partition("Current temperatures from HAL:")[2] or thermal.partition("Cached temperatures:")[2]
    sensors = re.findall(r"Temperature\{mValue=(-?\d{1,4}(?:\.\d{1,9})?), mType=-?\d+, mName=([^,}]{1,60}),", live)
    return {
        "battery_level": level / scale if level is not None and scale else None,
        "battery_voltage": None if voltage is None else voltage / 1000,
        "battery_temperature": None if temperature is None else round(temperature / 10 + _ZERO_C, 2),
        "charging": None if status is None else status == _CHARGING,
        "powered_by": re.findall(r"^\s*(\w+) powered: true", battery, re.MULTILINE),
        "thermal_status": number("Thermal Status", thermal),
        "temperatures": {
            name: round(float(value) + _ZERO_C, 2) for value, name in sensors if float(value) > _COLDEST_C
        },
    }


def _own_file(transport: RunsPrograms, name: str) -> Path | None:
    """Return the file on this machine that a setting names; None for a path on the device."""
    given = Path(transport.programs.get(name, "")).expanduser()
    return given if given.is_file() else None


def _version(sha256: str) -> Availability:
    return Availability(True, version=f"sha256 {sha256[:12]}")


def _sections(text: str) -> dict[str, str]:
    """Title of a line ``== title`` → the text up to the next one."""
    parts = re.split(r"^== (.+)$", text, flags=re.MULTILINE)
    return {title.strip(): content.strip("\n") for title, content in zip(parts[1::2], parts[2::2], strict=True)}


def _android(environment: dict[str, Any], told: Mapping[str, str]) -> dict[str, Any]:
    """Return the fingerprint with what Android tells; what describes this machine instead is left out."""
    properties = dict(re.findall(r"^\[([\w.]+)\]: \[(.*)\]$", told.get("getprop", ""), re.MULTILINE))

    def first(*names: str) -> str | None:
        return next((one_line(properties[name])[:MOST_WORD] for name in names if properties.get(name)), None)

    maker, chip = first("ro.soc.manufacturer"), first("ro.soc.model", "ro.board.platform", "ro.hardware")
    release = first("ro.build.version.release")
    environment["architecture"] = one_line(told.get("uname", "").strip())[:MOST_WORD] or first("ro.product.cpu.abi")
    environment["device"] = {"vendor": first("ro.product.manufacturer"), "model": first("ro.product.model")}
    environment["os"] |= {"name": f"Android {release}" if release else None, "libc": None}
    environment["python"] = None
    environment["android"] = {
        "soc": " ".join(word for word in (maker, chip) if word) or None,
        "sdk": first("ro.build.version.sdk"),
        "abi": first("ro.product.cpu.abi"),
        "build": first("ro.build.id"),
    }
    environment["state"]["battery"] = True
    if "1" in (properties.get("ro.boot.qemu"), properties.get("ro.kernel.qemu")):
        environment["virtualisation"] |= {"hypervisor": True, "vendor": "Android Emulator"}
    known = {"device.vendor", "device.model", "os.name"}
    environment["absent"] = {name: why for name, why in environment["absent"].items() if name not in known}
    if environment["cpu"]["model"] is None and chip:
        environment["cpu"]["model"] = environment["android"]["soc"]
        environment["absent"].pop("cpu.model", None)
    return environment
