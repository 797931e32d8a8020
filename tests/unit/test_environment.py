import getpass
import json
import socket
from pathlib import Path

import pytest

from edgewise.record.reference import machine_key
from edgewise.run.environment import emulator_of, fingerprint
from messages import wording

X86 = """processor\t: 0
vendor_id\t: GenuineIntel
model name\t: Intel(R) Core(TM) i7-1185G7 @ 3.00GHz
flags\t\t: fpu sse4_1 avx2 avx512f avx512_vnni avx_vnni amx_int8 fma f16c rdrand{}

processor\t: 1
vendor_id\t: GenuineIntel
"""
CPU = "sys/devices/system/cpu"


def put(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


@pytest.fixture
def laptop(tmp_path):
    """A made-up laptop: two cores with two threads each, of which three may be used."""
    put(
        tmp_path,
        {
            "proc/cpuinfo": X86.format(""),
            "proc/self/status": "Cpus_allowed_list:\t0-2\n",
            f"{CPU}/online": "0-3\n",
            f"{CPU}/smt/active": "1\n",
            f"{CPU}/cpufreq/boost": "1\n",
            f"{CPU}/cpu0/cache/index0/level": "1\n",
            f"{CPU}/cpu0/cache/index0/type": "Data\n",
            f"{CPU}/cpu0/cache/index0/size": "48K\n",
            f"{CPU}/cpu0/cache/index0/shared_cpu_list": "0,2\n",
            "proc/meminfo": "MemTotal: 8000 kB\nMemAvailable: 3000 kB\nSwapTotal: 900 kB\nSwapFree: 650 kB\n",
            "proc/loadavg": "0.52 0.58 0.59 1/389 12345\n",
            "etc/os-release": 'NAME="X"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n',
            "proc/sys/kernel/osrelease": "6.1.0-18-amd64\n",
            "proc/sys/kernel/randomize_va_space": "2\n",
            "proc/sys/kernel/perf_event_paranoid": "3\n",
            "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
            "sys/bus/event_source/devices/cpu/type": "4\n",
            "sys/class/dmi/id/sys_vendor": "LENOVO\n",
            "sys/class/dmi/id/product_name": "ThinkPad\n",
            "sys/class/dmi/id/product_serial": "SECRET\n",
            "etc/machine-id": "SECRET\n",
            "sys/class/power_supply/BAT0/type": "Battery\n",
            "sys/class/power_supply/AC/type": "Mains\n",
            "sys/class/power_supply/AC/online": "0\n",
            "proc/self/cgroup": "0::/user.slice/job\n",
            "proc/self/mountinfo": "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            "sys/fs/cgroup/user.slice/job/cpu.max": "max 100000\n",
            "sys/fs/cgroup/user.slice/cpu.max": "150000 100000\n",
            "sys/fs/cgroup/user.slice/job/memory.max": "4096000\n",
            "sys/fs/cgroup/user.slice/memory.max": "max\n",
        },
    )
    for core in range(4):
        put(
            tmp_path,
            {
                f"{CPU}/cpu{core}/topology/physical_package_id": "0\n",
                f"{CPU}/cpu{core}/topology/core_id": f"{core % 2}\n",
                f"{CPU}/cpu{core}/cpufreq/scaling_governor": "powersave\n",
                f"{CPU}/cpu{core}/cpufreq/scaling_driver": "intel_pstate\n",
                f"{CPU}/cpu{core}/cpufreq/cpuinfo_min_freq": "400000\n",
                f"{CPU}/cpu{core}/cpufreq/cpuinfo_max_freq": f"{4_000_000 + core}\n",
                f"{CPU}/cpu{core}/cpufreq/scaling_max_freq": f"{4_000_000 + core}\n",
                f"{CPU}/cpu{core}/cpufreq/scaling_cur_freq": f"{1_000_000 * (core + 1)}\n",
            },
        )
    return tmp_path


def test_a_machine_exactly(laptop):
    found = fingerprint(root=laptop)
    assert found["cpu"] == {
        "model": "Intel(R) Core(TM) i7-1185G7 @ 3.00GHz",
        "vendor": "GenuineIntel",
        "logical_cores": 4,
        "physical_cores": 2,
        "usable_cores": 3,
        "quota_cores": 1.5,
        "smt_active": True,
        "flags": ["amx_int8", "avx2", "avx512_vnni", "avx512f", "avx_vnni", "f16c", "fma", "sse4_1"],
        "caches": [{"level": 1, "type": "data", "size_bytes": 49152, "shared_by": 2}],
    }
    assert found["memory"] == {"total_bytes": 8_192_000, "limit_bytes": 4_096_000}
    assert found["clock"] == {
        "governor": "powersave",
        "driver": "intel_pstate",
        "min_hz": 400_000_000,
        "max_hz": 4_000_002_000,
        "boost": True,
        "limit_hz": None,
    }
    assert found["os"]["name"] == "Debian GNU/Linux 12 (bookworm)"
    assert found["os"]["kernel"] == "6.1.0-18-amd64"
    assert found["device"] == {"vendor": "LENOVO", "model": "ThinkPad"}
    assert found["virtualisation"] == {"hypervisor": False, "vendor": None, "container": "none seen", "emulator": None}
    assert found["settings"] == {
        "aslr": 2,
        "transparent_hugepages": "madvise",
        "perf_event_paranoid": 3,
        "performance_counters": True,
    }
    assert found["state"] == {
        "load_average": [0.52, 0.58, 0.59],
        "clock_hz": 2_000_000_000,
        "memory_available_bytes": 3_072_000,
        "swap_used_bytes": 256_000,
        "battery": True,
        "on_mains": False,
    }
    assert found["absent"] == {}


def test_a_clock_limit_is_told_where_there_is_one(laptop):
    free = fingerprint(root=laptop)
    for core in range(4):
        put(laptop, {f"{CPU}/cpu{core}/cpufreq/scaling_max_freq": "1200000\n"})
    limited = fingerprint(root=laptop)
    assert limited["clock"] == free["clock"] | {"limit_hz": 1_200_000_000}
    assert machine_key(free) != machine_key(limited)


def test_nothing_private_is_in_it(laptop):
    assert "SECRET" not in json.dumps(fingerprint(root=laptop))
    here = json.dumps(fingerprint())
    machine_id = Path("/etc/machine-id")
    private = {socket.gethostname(), machine_id.read_text().strip() if machine_id.exists() else ""}
    private |= {getpass.getuser()} - {"root", "user", "docker"}
    # Short names such as "vm" are parts of ordinary words.
    assert not [word for word in private if len(word) > 5 and f'"{word}"' in here]


def test_this_machine_is_stable_but_for_its_state_and_json_shaped():
    first, second = fingerprint(), fingerprint()
    assert json.loads(json.dumps(first)) == first
    assert {**first, "state": None} == {**second, "state": None}


LEAVES_THAT_MAY_BE_NONE_AND_KNOWN = {
    "clock.limit_hz",  # no limit
    "cpu.quota_cores",  # no quota
    "memory.limit_bytes",  # no limit
    "virtualisation.vendor",  # no hypervisor
    "virtualisation.emulator",  # none visible
}


def leaves(document, prefix=""):
    for key, value in document.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


@pytest.mark.parametrize("made", ["empty", "this machine", "a laptop"])
def test_whatever_is_none_has_a_reason_and_only_that(made, tmp_path, request):
    if made == "this machine":
        found = fingerprint()
    else:
        found = fingerprint(root=request.getfixturevalue("laptop") if made == "a laptop" else tmp_path)
    absent = found.pop("absent")
    unknown = {name for name, value in leaves(found) if value is None} - LEAVES_THAT_MAY_BE_NONE_AND_KNOWN
    unknown -= {"state.memory_available_bytes", "state.swap_used_bytes"} if "memory.total_bytes" in absent else set()
    assert unknown == set(absent) - LEAVES_THAT_MAY_BE_NONE_AND_KNOWN
    assert all(absent.values())


def test_an_empty_tree_invents_nothing(tmp_path):
    found = fingerprint(root=tmp_path)
    assert found["cpu"]["model"] is None
    assert found["cpu"]["usable_cores"] is None
    assert found["memory"]["total_bytes"] is None
    assert found["virtualisation"]["hypervisor"] is None
    assert found["absent"]["clock.governor"] == "no /sys/devices/system/cpu/cpu*/cpufreq"


def test_version_1_limits(tmp_path):
    put(
        tmp_path,
        {
            "proc/self/cgroup": "4:cpu,cpuacct:/a\n5:memory:/a\n",
            "proc/self/mountinfo": "1 0 0:1 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
            "2 0 0:2 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
            "sys/fs/cgroup/cpu/a/cpu.cfs_quota_us": "50000\n",
            "sys/fs/cgroup/cpu/a/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "9223372036854771712\n",
        },
    )
    found = fingerprint(root=tmp_path)
    assert found["cpu"]["quota_cores"] == 0.5
    assert found["memory"]["limit_bytes"] is None


def test_arm_cores_by_name_and_by_number(tmp_path):
    blocks = [(0x41, 0xD05), (0x41, 0xD05), (0x41, 0xD0B), (0x99, 0x123)]
    info = "\n".join(
        f"processor\t: {index}\nFeatures\t: fp asimd asimddp i8mm sve crc32\nCPU implementer\t: {who:#x}\nCPU part\t: {part:#x}\n"
        for index, (who, part) in enumerate(blocks)
    )
    put(tmp_path, {"proc/cpuinfo": info, "proc/device-tree/model": "Raspberry Pi 5 Model B Rev 1.0\0"})
    found = fingerprint(root=tmp_path)
    assert found["cpu"]["model"] == "Cortex-A55 + Cortex-A76 + implementer 0x99 part 0x123"
    assert found["cpu"]["flags"] == ["asimd", "asimddp", "i8mm", "sve"]
    assert found["cpu"]["logical_cores"] == 4
    assert found["device"]["model"] == "Raspberry Pi 5 Model B Rev 1.0"


@pytest.mark.parametrize(
    ("flag", "files", "hypervisor", "vendor"),
    [
        (" hypervisor", {"sys/devices/system/clocksource/clocksource0/available_clocksource": "kvm-clock tsc\n"}, True, "KVM"),
        (" hypervisor", {"sys/class/dmi/id/sys_vendor": "VMware, Inc.\n"}, True, "VMware"),
        (" hypervisor", {"sys/class/dmi/id/sys_vendor": "Amazon EC2\n"}, True, "Amazon EC2"),
        (" hypervisor", {}, True, None),
        ("", {"sys/class/dmi/id/sys_vendor": "Amazon EC2\n"}, False, None),
        ("", {}, False, None),
    ],
)  # fmt: skip
def test_hypervisors(tmp_path, flag, files, hypervisor, vendor):
    put(tmp_path, {"proc/cpuinfo": X86.format(flag), **files})
    found = fingerprint(root=tmp_path)
    assert (found["virtualisation"]["hypervisor"], found["virtualisation"]["vendor"]) == (hypervisor, vendor)
    assert ("virtualisation.vendor" in found["absent"]) == (hypervisor and vendor is None)


def test_a_cloud_name_on_arm_does_not_tell_virtual_from_bare(tmp_path):
    put(tmp_path, {"sys/class/dmi/id/sys_vendor": "Amazon EC2\n"})
    assert fingerprint(root=tmp_path)["virtualisation"]["hypervisor"] is None
    put(tmp_path, {"sys/class/dmi/id/product_name": "KVM Virtual Machine\n"})
    assert fingerprint(root=tmp_path)["virtualisation"]["vendor"] == "KVM"


@pytest.mark.parametrize(
    ("files", "container"),
    [
        ({"run/systemd/container": "lxc\n"}, "lxc"),
        ({".dockerenv": ""}, "docker"),
        ({"run/.containerenv": ""}, "podman"),
        ({"proc/self/cgroup": "0::/kubepods.slice/pod1\n"}, "kubernetes"),
        ({"proc/sys/kernel/osrelease": "5.15.90.1-microsoft-standard-WSL2\n"}, "wsl"),
        ({}, "none seen"),
    ],
)
def test_containers(tmp_path, files, container):
    put(tmp_path, files)
    assert fingerprint(root=tmp_path)["virtualisation"]["container"] == container


@pytest.mark.parametrize(("no_turbo", "boost"), [("0", True), ("1", False), ("x", None)])
def test_turbo_is_the_opposite_of_no_turbo(tmp_path, no_turbo, boost):
    put(tmp_path, {f"{CPU}/intel_pstate/no_turbo": no_turbo})
    assert fingerprint(root=tmp_path)["clock"]["boost"] is boost


def test_a_file_that_holds_no_number(tmp_path):
    put(tmp_path, {"proc/sys/kernel/randomize_va_space": "many\n"})
    found = fingerprint(root=tmp_path)
    assert found["settings"]["aslr"] is None
    assert found["absent"]["settings.aslr"] == wording("contains-no-number", path="/proc/sys/kernel/randomize_va_space")


def elf(file: Path, machine: int, *, order: str = "little") -> Path:
    """A program for a kind of processor: the part of its header that tells which (elf(5))."""
    head = b"\x7fELF\x02" + (b"\x01" if order == "little" else b"\x02") + bytes(12)
    file.write_bytes(head + machine.to_bytes(2, order))
    return file


X86_64, AARCH64, ARM, S390 = 62, 183, 40, 22


@pytest.mark.parametrize(
    ("kernels", "own", "machine", "emulator"),
    [
        (("python3", X86_64), "python3", "x86_64", None),
        (("python3", AARCH64), "python3", "aarch64", None),
        (("python3", ARM), "python3", "aarch64", None),  # 32-bit programs on a 64-bit kernel
        (("python3", ARM), "python3", "armv7l", None),
        (("qemu-aarch64-static", X86_64), "python3", "aarch64", "qemu-aarch64-static"),
        (("qemu-i386", X86_64), "python3", "i686", "qemu-i386"),  # the same family, another program
        (("rosetta", AARCH64), "rosetta", "x86_64", "rosetta"),  # does not replace /proc/self/exe
        (("python3", 9999), "python3", "x86_64", None),  # an unknown number proves nothing
        (("python3", X86_64), "python3", "alpha", None),
    ],
)
def test_emulators_of_programs_are_seen_by_what_the_kernel_runs(tmp_path, kernels, own, machine, emulator):
    name, number = kernels
    put(tmp_path, {"proc/cpuinfo": X86.format("")})
    elf(tmp_path / name, number)
    for which, program in (("thread-self", name), ("self", own)):
        (tmp_path / "proc" / which).mkdir()
        (tmp_path / "proc" / which / "exe").symlink_to(tmp_path / program)
    assert emulator_of(tmp_path, machine) == emulator


def test_the_order_of_bytes_of_a_program_is_that_of_its_header(tmp_path):
    elf(tmp_path / "python3", S390, order="big")
    for which in ("thread-self", "self"):
        (tmp_path / "proc" / which).mkdir(parents=True)
        (tmp_path / "proc" / which / "exe").symlink_to(tmp_path / "python3")
    assert emulator_of(tmp_path, "s390x") is None and emulator_of(tmp_path, "x86_64") == "python3"


def test_qemus_emulation_of_a_whole_machine_is_seen_by_the_processors_name(tmp_path):
    put(tmp_path, {"proc/cpuinfo": "processor\t: 0\nmodel name\t: QEMU TCG CPU version 2.5+\n"})
    assert emulator_of(tmp_path, "x86_64") == "QEMU TCG"


@pytest.mark.parametrize(
    ("kernel", "machine", "emulator"),
    [
        ("x86_64", "aarch64", wording("emulator-kernel", kernel="x86_64")),
        ("aarch64", "armv7l", None),
        ("x86_64", "x86_64", None),
        ("sw64", "x86_64", None),
    ],
)
def test_the_kernel_tells_its_processor(tmp_path, kernel, machine, emulator):
    put(tmp_path, {"proc/sys/kernel/arch": f"{kernel}\n"})
    assert emulator_of(tmp_path, machine) == emulator


def test_without_proc_no_emulator_is_seen(tmp_path):
    assert emulator_of(tmp_path, "x86_64") is None
