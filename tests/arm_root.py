"""An Arm userland for tests: Python and the engines for aarch64, run by qemu's user-mode emulation.

``python tests/arm_root.py`` makes it, prints the command of its Python, and ends with 3 and the reason where that is
not possible. It is kept below the temporary folder and made again when a version changes. It needs qemu-user, apt-get
with a Debian mirror, pip with a package index, and the permission to make a mount namespace.

The packages are unpacked, never installed: apt works in folders of its own, so this machine's packages stay as they are.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

DEBIAN_PACKAGES = ("python3", "libstdc++6")
WHEELS = ("numpy", "ml-dtypes", "onnxruntime", "ai-edge-litert", "openvino")
GLIBC = ("2_35", "2_28", "2_27", "2_17")
"""Versions of glibc, one for each tag of wheels that the userland can run."""
CPU = "cortex-a72"
LIMIT_S = 600.0

_APT = """\
APT::Architecture "arm64";
APT::Architectures {{ "arm64"; }};
APT::Sandbox::User "root";
APT::Install-Recommends "false";
Dir::State "{0}";
Dir::State::lists "{0}/lists";
Dir::State::status "{0}/status";
Dir::Cache "{0}";
Dir::Cache::archives "{0}/archives";
"""

_CPUINFO = """\
processor\t: {0}
BogoMIPS\t: 108.00
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 cpuid
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x0
CPU part\t: 0xd08
CPU revision\t: 3

"""

# The engines read the kind of processor from /proc/cpuinfo, and crash on the real one's.
_WRAPPER = """\
#!/bin/sh
root=$(dirname "$(readlink -f "$0")")
export PYTHONHOME="$root/usr"
[ "$(id -u)" = 0 ] && namespace=-m || namespace=-rm
exec unshare $namespace sh -c 'mount --bind "$1" /proc/cpuinfo && shift && exec "$@"' sh "$root/cpuinfo" \\
    {qemu} -cpu {cpu} -L "$root" -0 "$root/python" "$root/usr/bin/python3" "$@"
"""


class Missing(Exception):
    """Something that the userland needs is not here."""


def find_python() -> Path:
    """The command of the Arm Python, made where there is none. Raises `Missing`."""
    qemu = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
    for command, package in (
        (qemu, "qemu-user"),
        (shutil.which("apt-get"), "apt"),
        (shutil.which("unshare"), "util-linux"),
    ):
        if command is None:
            raise Missing(f"needs the package {package}")
    try:
        wheels = [f"{name}=={version(name)}" for name in WHEELS]
    except PackageNotFoundError as error:
        raise Missing(f"needs {error.name}, whose version is installed for Arm") from error
    recipe = hashlib.sha256("\n".join([*wheels, Path(__file__).read_text()]).encode()).hexdigest()[:12]
    root = Path(tempfile.gettempdir()) / f"edgewise-arm-{os.getuid()}-{recipe}"
    with (root.parent / f"{root.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not root.exists():
            with tempfile.TemporaryDirectory(dir=root.parent) as scratch:
                fresh = Path(scratch) / "root"
                _make(fresh, Path(scratch), str(qemu), wheels)
                fresh.rename(root)
    return root / "python"


def _make(root: Path, scratch: Path, qemu: str, wheels: list[str]) -> None:
    for package in _download_packages(scratch):
        _run("dpkg-deb", "-x", package, root)
    (python,) = (path.name for path in (root / "usr/bin").glob("python3.*") if re.fullmatch(r"python3\.\d+", path.name))
    site = root / f"usr/local/lib/{python}/dist-packages"
    site.mkdir(parents=True)
    platforms = [word for tag in GLIBC for word in ("--platform", f"manylinux_{tag}_aarch64")]
    _run(
        sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
        "--only-binary=:all:", "--python-version", python.removeprefix("python"), *platforms, "-d", scratch / "wheels", *wheels,
    )  # fmt: skip
    for wheel in (scratch / "wheels").glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
    (root / "cpuinfo").write_text("".join(map(_CPUINFO.format, range(os.cpu_count() or 1))))
    (root / "python").write_text(_WRAPPER.format(qemu=qemu, cpu=CPU))
    (root / "python").chmod(0o755)
    told = _run(root / "python", "-c", "import platform, numpy; print(platform.machine())")
    if told.strip() != "aarch64":
        raise Missing(f"the emulated Python says {told!r}")


def _download_packages(scratch: Path) -> list[Path]:
    """The files of the Debian packages and of everything that they depend on."""
    for name in ("lists/partial", "archives/partial"):
        (scratch / name).mkdir(parents=True)
    (scratch / "status").touch()
    (scratch / "apt.conf").write_text(_APT.format(scratch))
    environment = {**os.environ, "APT_CONFIG": str(scratch / "apt.conf")}
    _run("apt-get", "update", "-q", environment=environment)
    _run("apt-get", "install", "-q", "-y", "--download-only", *DEBIAN_PACKAGES, environment=environment)
    found = sorted((scratch / "archives").glob("*.deb"))
    if not found:
        raise Missing("no package for arm64 was downloaded")
    return found


def _run(*command: object, environment: dict[str, str] | None = None) -> str:
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words, env=environment, capture_output=True, text=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(f"{words[0]}: {error}") from error
    if done.returncode:
        told = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        raise Missing(f"{words[0]} ended with {done.returncode}: {told[-1]}")
    return done.stdout


if __name__ == "__main__":
    try:
        print(find_python())
    except Missing as error:
        print(error)
        raise SystemExit(3) from None
