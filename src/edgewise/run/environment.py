"""The fingerprint of the machine: what a measurement depends on besides the model and the engine.

Read from ``/proc``, ``/sys`` and ``/etc`` under a root, so that a made-up tree gives an exact answer. Nothing that
names the machine or its user is read: no host name, machine id, serial number, address or user name.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any, Literal

from edgewise.constraints.hierarchy import ROOT, cgroup_folders, read_text
from edgewise.run.counters import parse_cpu_list, usable_cores

_CPUS = "/sys/devices/system/cpu"
#: Instructions that inference kernels choose their code by, as ``/proc/cpuinfo`` names them.
_FLAGS = frozenset({
    "sse4_1", "sse4_2", "avx", "avx2", "fma", "f16c", "avx_vnni", "avx_vnni_int8", "avx_vnni_int16", "avx_ne_convert",
    "avx_ifma", "avx10", "avx512f", "avx512bw", "avx512vl", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile",
    "amx_int8", "amx_bf16", "amx_fp16", "amx_complex", "neon", "vfpv4", "asimd", "asimdhp", "fphp", "asimddp",
    "asimdfhm", "i8mm", "bf16", "sve", "sve2", "svei8mm", "svebf16", "sme", "sme2",
})  # fmt: skip
#: Arm's main identification register: (implementer, part) → core, from Arm's technical reference manuals.
_ARM_CORES = {
    (0x41, 0xC07): "Cortex-A7", (0x41, 0xC09): "Cortex-A9", (0x41, 0xC0F): "Cortex-A15",
    (0x41, 0xD03): "Cortex-A53", (0x41, 0xD04): "Cortex-A35", (0x41, 0xD05): "Cortex-A55",
    (0x41, 0xD07): "Cortex-A57", (0x41, 0xD08): "Cortex-A72", (0x41, 0xD09): "Cortex-A73",
    (0x41, 0xD0A): "Cortex-A75", (0x41, 0xD0B): "Cortex-A76", (0x41, 0xD0C): "Neoverse-N1",
    (0x41, 0xD0D): "Cortex-A77", (0x41, 0xD40): "Neoverse-V1", (0x41, 0xD41): "Cortex-A78",
    (0x41, 0xD42): "Cortex-A78AE", (0x41, 0xD44): "Cortex-X1", (0x41, 0xD46): "Cortex-A510",
    (0x41, 0xD47): "Cortex-A710", (0x41, 0xD48): "Cortex-X2", (0x41, 0xD49): "Neoverse-N2",
    (0x41, 0xD4F): "Neoverse-V2",
}  # fmt: skip
#: A hypervisor's own clock or product name gives it away.
_HYPERVISORS = {
    "kvm": "KVM", "qemu": "QEMU", "vmware": "VMware", "virtualbox": "VirtualBox", "hyperv": "Hyper-V", "xen": "Xen",
    "parallels": "Parallels",
}  # fmt: skip
#: Clouds rent out bare metal under the same names: these say whose machine it is, not whether it is virtual.
_CLOUDS = {
    "amazon ec2": "Amazon EC2", "google compute engine": "Google Compute Engine", "openstack": "OpenStack",
    "microsoft corporation virtual": "Hyper-V",
}  # fmt: skip
#: ELF machine numbers (elf(5), ``e_machine``) → the family of processors that runs such programs.
_ELF_FAMILIES = {3: "x86", 62: "x86", 40: "arm", 183: "arm", 243: "riscv", 258: "loongarch", 22: "s390", 21: "ppc64"}
#: The beginning of ``platform.machine()`` → the same families.
_MACHINE_FAMILIES = {
    "x86": "x86", "i386": "x86", "i686": "x86", "amd64": "x86", "arm": "arm", "aarch64": "arm", "riscv": "riscv",
    "loongarch": "loongarch", "s390": "s390", "ppc64": "ppc64",
}  # fmt: skip
_NO_CPUFREQ = f"no {_CPUS}/cpu*/cpufreq"
#: field → why it is absent where none of its sources has it
_REASONS = {
    "device.vendor": "neither DMI tables nor a device tree have it",
    "device.model": "neither DMI tables nor a device tree have it",
    "cpu.model": "not in /proc/cpuinfo",
    "cpu.vendor": "/proc/cpuinfo has no vendor_id",
    "cpu.logical_cores": "neither in /proc/cpuinfo nor in /sys",
    "cpu.physical_cores": f"no {_CPUS}/cpu*/topology",
    "cpu.usable_cores": "not in /proc/self/status",
    "cpu.flags": "not in /proc/cpuinfo",
    "memory.total_bytes": "not in /proc/meminfo",
    "clock.governor": _NO_CPUFREQ,
    "clock.driver": _NO_CPUFREQ,
    "clock.min_hz": _NO_CPUFREQ,
    "clock.max_hz": _NO_CPUFREQ,
    "clock.boost": f"neither {_CPUS}/cpufreq/boost nor {_CPUS}/intel_pstate/no_turbo",
    "os.name": "no /etc/os-release with a PRETTY_NAME",
    "os.libc": "the C library of Python's executable is unknown",
    "virtualisation.hypervisor": "this processor has no flag for a hypervisor, and nothing else shows one",
    "settings.performance_counters": "no /sys/bus/event_source/devices",
    "state.clock_hz": f"no {_CPUS}/cpu*/cpufreq/scaling_cur_freq",
    "state.on_mains": "no mains supply in /sys/class/power_supply",
}


def fingerprint(*, root: Path = ROOT) -> dict[str, Any]:
    """Return the machine as JSON-shaped data; sizes in bytes, clocks in Hz.

    Two calls on one machine differ in ``state`` only (load, clock, memory and power of now), unless it was changed in
    between. What can't be read is None and named in ``absent``, ``{"cpu.caches": "why"}``.

    Args:
        root: what ``/proc``, ``/sys`` and ``/etc`` are under.
    """
    probe = _Probe(root)
    document: dict[str, Any] = {
        "architecture": platform.machine(),
        "device": _device(probe),
        "cpu": _cpu(probe),
        "memory": _memory(probe),
        "clock": _clock(probe),
        "os": _os(probe),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "virtualisation": _virtualisation(probe),
        "settings": _settings(probe),
        "state": _state(probe),
    }
    for name, reason in _REASONS.items():
        group, _, field = name.partition(".")
        if document[group][field] is None:
            probe.miss(name, reason)
    _ask_python(document, probe)
    return {**document, "absent": dict(sorted(probe.absent.items()))}


class _Probe:
    """Reads files under a root and keeps why a field stayed empty."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.absent: dict[str, str] = {}
        self.cores = usable_cores(root)

    def text(self, path: str) -> str | None:
        """Return the file's text without surrounding blanks and NULs; None where it is absent, unreadable or empty."""
        return (read_text(self.root / path.lstrip("/")) or "").strip("\0 \t\n") or None

    def field(self, name: str, path: str) -> str | None:
        """`text`, and where there is none, `name` is noted as absent."""
        value = self.text(path)
        if value is None:
            there = (self.root / path.lstrip("/")).exists()
            self.miss(name, f"{path} can't be read" if there else f"no {path}")
        return value

    def number(self, name: str, path: str) -> int | None:
        """`field` as a whole number."""
        value = self.field(name, path)
        if value is not None and not re.fullmatch(r"-?\d{1,18}", value):
            self.miss(name, f"{path} contains no number")
            return None
        return None if value is None else int(value)

    def miss(self, name: str, reason: str) -> None:
        """Note why `name` is absent."""
        self.absent[name] = reason

    def per_core(self, file: str) -> list[str]:
        """Return the texts of a file of every usable core, where there is one; `file` is relative to ``cpuN``."""
        texts = (self.text(f"{_CPUS}/cpu{core}/{file}") for core in self.cores)
        return [text for text in texts if text]


def _device(probe: _Probe) -> dict[str, str | None]:
    """Maker and product, from the device tree or the firmware's tables."""
    model = probe.text("/proc/device-tree/model") or probe.text("/sys/class/dmi/id/product_name")
    return {"vendor": probe.text("/sys/class/dmi/id/sys_vendor"), "model": model}


def _cpu(probe: _Probe) -> dict[str, Any]:
    info = probe.text("/proc/cpuinfo") or ""
    online = parse_cpu_list(probe.text(f"{_CPUS}/online") or "")
    logical = len(online) or len(re.findall(r"^processor\s*:", info, re.MULTILINE)) or None
    flags = _line(info, "flags") or _line(info, "Features")
    smt = probe.number("cpu.smt_active", f"{_CPUS}/smt/active")
    return {
        "model": _cpu_model(info),
        "vendor": _line(info, "vendor_id"),
        "logical_cores": logical,
        "physical_cores": _physical_cores(probe, online),
        "usable_cores": len(probe.cores) or None,
        "quota_cores": _quota(probe),
        "smt_active": None if smt is None else bool(smt),
        "flags": None if flags is None else sorted(_FLAGS.intersection(flags.split())),
        "caches": _caches(probe),
    }


def _cpu_model(info: str) -> str | None:
    """Return the processor's name; on Arm, where the kernel gives numbers, the names of its kinds of core."""
    if name := _line(info, "model name") or _line(info, "uarch"):
        return name
    implementers = re.findall(r"^CPU implementer\s*:\s*(0x[0-9a-f]+)", info, re.MULTILINE)
    parts = re.findall(r"^CPU part\s*:\s*(0x[0-9a-f]+)", info, re.MULTILINE)
    keys = dict.fromkeys((int(who, 16), int(part, 16)) for who, part in zip(implementers, parts, strict=False))
    names = [_ARM_CORES.get(key, f"implementer 0x{key[0]:x} part 0x{key[1]:x}") for key in keys]
    return " + ".join(names) or None


def _line(info: str, key: str) -> str | None:
    match = re.search(rf"^{key}[ \t]*:[ \t]*(.*\S)", info, re.MULTILINE)
    return match[1] if match else None


def _physical_cores(probe: _Probe, online: tuple[int, ...]) -> int | None:
    """Different (package, core) pairs among the processors that are online."""
    pairs = set()
    for core in online:
        package = probe.text(f"{_CPUS}/cpu{core}/topology/physical_package_id")
        number = probe.text(f"{_CPUS}/cpu{core}/topology/core_id")
        cluster = probe.text(f"{_CPUS}/cpu{core}/topology/cluster_id")
        if package is None or number is None:
            return None
        pairs.add((package, cluster, number))
    return len(pairs) or None


def _quota(probe: _Probe) -> float | None:
    """Processors' worth of time that the tightest cgroup allows; None where there is no limit or none is visible."""
    folders = cgroup_folders("cpu", probe.root)
    if not folders:
        probe.miss("cpu.quota_cores", "/proc/self/cgroup and /proc/self/mountinfo do not lead to a cgroup")
    quotas = []
    for folder in folders:
        unified = (read_text(folder / "cpu.max") or "").split()
        legacy = [(read_text(folder / f"cpu.cfs_{name}_us") or "").strip() for name in ("quota", "period")]
        words = unified if len(unified) == 2 else legacy
        if words[0].isdecimal() and words[1].isdecimal() and int(words[1]) > 0:
            quotas.append(int(words[0]) / int(words[1]))
    return min(quotas, default=None)


def _caches(probe: _Probe) -> list[dict[str, Any]] | None:
    """Return the caches that the first usable core sees; `shared_by` counts the processors on one cache."""
    folder = f"{_CPUS}/cpu{probe.cores[0] if probe.cores else 0}/cache"
    caches = []
    for index in sorted((probe.root / folder.lstrip("/")).glob("index*")):
        values = {
            name: (read_text(index / name) or "").strip() for name in ("level", "type", "size", "shared_cpu_list")
        }
        if values["level"].isdecimal() and (size := re.fullmatch(r"(\d{1,12})([KMG]?)", values["size"])):
            caches.append(
                {
                    "level": int(values["level"]),
                    "type": values["type"].lower(),
                    "size_bytes": int(size[1]) * {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}[size[2]],
                    "shared_by": len(parse_cpu_list(values["shared_cpu_list"])) or None,
                }
            )
    if not caches:
        probe.miss("cpu.caches", f"no {folder}")
    return caches or None


def _memory(probe: _Probe) -> dict[str, int | None]:
    info = probe.text("/proc/meminfo") or ""
    limits = []
    for folder in cgroup_folders("memory", probe.root):
        text = (read_text(folder / "memory.max") or read_text(folder / "memory.limit_in_bytes") or "").strip()
        # Version 1 says "no limit" with the largest number of pages there is.
        limits += [int(text)] if text.isdecimal() and int(text) < 2**60 else []
    return {"total_bytes": _kibibytes(info, "MemTotal"), "limit_bytes": min(limits, default=None)}


def _kibibytes(info: str, name: str) -> int | None:
    match = re.search(rf"^{name}:\s+(\d+) kB", info, re.MULTILINE)
    return int(match[1]) * 1024 if match else None


def _clock(probe: _Probe) -> dict[str, Any]:
    governors, drivers = probe.per_core("cpufreq/scaling_governor"), probe.per_core("cpufreq/scaling_driver")
    lows = [int(text) for text in probe.per_core("cpufreq/cpuinfo_min_freq") if text.isdecimal()]
    highs = [int(text) for text in probe.per_core("cpufreq/cpuinfo_max_freq") if text.isdecimal()]
    limits = [int(text) for text in probe.per_core("cpufreq/scaling_max_freq") if text.isdecimal()]
    is_limited = bool(limits and highs) and max(limits) < max(highs)
    if not limits:
        probe.miss("clock.limit_hz", f"no {_CPUS}/cpu*/cpufreq/scaling_max_freq")
    return {
        "governor": ", ".join(sorted(set(governors))) or None,
        "driver": ", ".join(sorted(set(drivers))) or None,
        "min_hz": min(lows) * 1000 if lows else None,
        "max_hz": max(highs) * 1000 if highs else None,
        "boost": _boost(probe),
        "limit_hz": max(limits) * 1000 if is_limited else None,
    }


def _boost(probe: _Probe) -> bool | None:
    """Whether the clock may go above its base for a while (Intel's turbo, AMD's boost)."""
    no_turbo = probe.text(f"{_CPUS}/intel_pstate/no_turbo")
    if no_turbo in {"0", "1"}:
        return no_turbo == "0"
    texts = {probe.text(f"{_CPUS}/cpufreq/boost"), *probe.per_core("cpufreq/boost")} & {"0", "1"}
    return "1" in texts if texts else None


def _os(probe: _Probe) -> dict[str, str | None]:
    release = probe.text("/etc/os-release") or ""
    name = re.search(r"^PRETTY_NAME=[\"']?(.*?)[\"']?$", release, re.MULTILINE)
    libc = " ".join(word for word in platform.libc_ver() if word)
    return {
        "name": name[1] if name else None,
        "kernel": probe.field("os.kernel", "/proc/sys/kernel/osrelease"),
        "libc": libc or None,
    }


def _virtualisation(probe: _Probe) -> dict[str, Any]:
    """Hypervisor and container. ``container`` is ``"none seen"`` where no known mark of one is there."""
    flags = _line(probe.text("/proc/cpuinfo") or "", "flags")
    flagged = None if flags is None else "hypervisor" in flags.split()
    vendor = _hypervisor_vendor(probe, flagged=flagged)
    hypervisor = True if vendor else flagged
    if hypervisor and vendor is None:
        probe.miss("virtualisation.vendor", "there is a hypervisor, but its name is not visible")
    emulator = emulator_of(probe.root, platform.machine())
    return {"hypervisor": hypervisor, "vendor": vendor, "container": _container(probe), "emulator": emulator}


def emulator_of(root: Path, machine: str) -> str | None:
    """Return the program that emulates this processor, such as ``qemu-aarch64``; None where none is visible.

    An emulator of single programs answers for the processor, and it replaces ``/proc/self/exe``. The kernel's own
    ``/proc/thread-self/exe`` stays: there the emulator is visible, as a program for another kind of processor, or as
    another program than ``/proc/self/exe``. Linux 6.1 and later also tell their own kind of processor. Of emulators of
    whole machines only QEMU's on x86 is visible.

    Args:
        root: what ``/proc`` is under.
        machine: what Python takes the processor for: ``platform.machine()``.
    """
    if "QEMU TCG" in (_line(read_text(root / "proc/cpuinfo") or "", "model name") or ""):
        return "QEMU TCG"
    expected, kernel = _family_of(machine), (read_text(root / "proc/sys/kernel/arch") or "").strip()
    with suppress(OSError):
        exe, own = (root / "proc" / which / "exe" for which in ("thread-self", "self"))
        with exe.open("rb") as file:
            header = file.read(20)
        order: Literal["little", "big"] = "big" if header[5:6] == b"\x02" else "little"
        family = _ELF_FAMILIES.get(int.from_bytes(header[18:20], order))
        if exe.readlink() != own.readlink() or (family and expected and family != expected):
            return exe.readlink().name
    return f"an emulator on {kernel}" if expected and _family_of(kernel) not in (None, expected) else None


def _family_of(machine: str) -> str | None:
    """Return the family of processors that a name such as ``aarch64`` belongs to; None where it is not known."""
    return next((name for begin, name in _MACHINE_FAMILIES.items() if machine.lower().startswith(begin)), None)


def _hypervisor_vendor(probe: _Probe, *, flagged: bool | None) -> str | None:
    """Who runs this virtual machine; firmware names count only where the processor does not deny being virtual."""
    clocks = "/sys/devices/system/clocksource/clocksource0/available_clocksource"
    signs = [probe.text(path) for path in ("/sys/hypervisor/type", "/proc/device-tree/hypervisor/compatible", clocks)]
    firmware = " ".join(probe.text(f"/sys/class/dmi/id/{name}") or "" for name in ("sys_vendor", "product_name"))
    if flagged is not False:
        signs.append(firmware)
    known = _HYPERVISORS | (_CLOUDS if flagged else {})
    found = (name for sign in signs if sign for mark, name in known.items() if mark in sign.lower())
    return next(found, None)


def _container(probe: _Probe) -> str:
    if told := probe.text("/run/systemd/container"):
        return told
    for path, name in (("/.dockerenv", "docker"), ("/run/.containerenv", "podman")):
        if (probe.root / path.lstrip("/")).exists():
            return name
    groups = probe.text("/proc/self/cgroup") or ""
    for mark, name in (("kubepods", "kubernetes"), ("docker", "docker"), ("libpod", "podman"), ("lxc", "lxc")):
        if mark in groups:
            return name
    return "wsl" if "microsoft" in (probe.text("/proc/sys/kernel/osrelease") or "").lower() else "none seen"


def _settings(probe: _Probe) -> dict[str, Any]:
    """Kernel settings that move measurements: address randomisation, huge pages, performance counters."""
    pages = probe.field("settings.transparent_hugepages", "/sys/kernel/mm/transparent_hugepage/enabled")
    chosen = re.search(r"\[(\w+)\]", pages or "")
    events = probe.root / "sys/bus/event_source/devices"
    units = [path.name for path in events.glob("*") if re.match(r"cpu|armv\d", path.name)]
    return {
        "aslr": probe.number("settings.aslr", "/proc/sys/kernel/randomize_va_space"),
        "transparent_hugepages": chosen[1] if chosen else None,
        "perf_event_paranoid": probe.number("settings.perf_event_paranoid", "/proc/sys/kernel/perf_event_paranoid"),
        "performance_counters": bool(units) if events.is_dir() else None,
    }


def _state(probe: _Probe) -> dict[str, Any]:
    """Return what changes from moment to moment."""
    info = probe.text("/proc/meminfo") or ""
    swap = (_kibibytes(info, "SwapTotal"), _kibibytes(info, "SwapFree"))
    load = re.findall(r"\d+\.\d+", probe.field("state.load_average", "/proc/loadavg") or "")[:3]
    clocks = [int(text) * 1000 for text in probe.per_core("cpufreq/scaling_cur_freq") if text.isdecimal()]
    supplies = [(path / "type", path / "online") for path in (probe.root / "sys/class/power_supply").glob("*")]
    kinds = [(read_text(kind) or "").strip() for kind, _ in supplies]
    mains = [
        (read_text(online) or "").strip() for kind, online in supplies if (read_text(kind) or "")[:3] in {"Mai", "USB"}
    ]
    available = _kibibytes(info, "MemAvailable")
    return {
        "load_average": [float(word) for word in load] or None,
        "clock_hz": median(clocks) if clocks else None,
        "memory_available_bytes": available,
        "swap_used_bytes": None if None in swap else (swap[0] or 0) - (swap[1] or 0),
        "battery": "Battery" in kinds,
        "on_mains": "1" in mains if {"0", "1"}.intersection(mains) else None,
    }


def _ask_python(document: dict[str, Any], probe: _Probe) -> None:
    """Where there is no ``/proc``, Python and psutil may know some of it all the same."""
    if probe.root != ROOT:
        return

    def ask_psutil(function: str, attribute: str = "", **arguments: Any) -> Any:
        import psutil

        answer = getattr(psutil, function)(**arguments)
        return getattr(answer, attribute) if attribute else answer

    known: dict[tuple[str, str], Callable[[], Any]] = {
        ("cpu", "logical_cores"): lambda: ask_psutil("cpu_count"),
        ("cpu", "physical_cores"): lambda: ask_psutil("cpu_count", logical=False),
        ("memory", "total_bytes"): lambda: ask_psutil("virtual_memory", "total"),
        ("state", "memory_available_bytes"): lambda: ask_psutil("virtual_memory", "available"),
        ("os", "name"): lambda: platform.system() or None,
        ("os", "kernel"): lambda: platform.release() or None,
    }
    for (group, name), ask in known.items():
        value = None
        with suppress(ImportError):  # psutil is not sent to devices
            value = ask() if document[group][name] is None else None
        if value is not None:
            document[group][name] = value
            probe.absent.pop(f"{group}.{name}", None)
