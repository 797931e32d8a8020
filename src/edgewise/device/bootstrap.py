"""Makes a virtual environment on a device, with numpy and the packages of engines."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from edgewise.cancellation import wait_readable
from edgewise.clock import now
from edgewise.device.environments import ENGINES
from edgewise.device.link import LinkLost, TargetError
from edgewise.device.target import RemoteTarget
from edgewise.device.transport import Remote, Transport
from edgewise.device.transports.container import ContainerTransport
from edgewise.device.transports.ssh import BOOTSTRAPPED, SshTransport
from edgewise.folders import job_folder
from edgewise.progress import LogLine, emit
from edgewise.text import one_line

TIMEOUT_S = 1800.0
LINE_BYTES = 2**16
PACKAGES = {engine: package for package, engine in ENGINES.items() if engine} | {"keras": "keras tensorflow"}
"""Engine → the packages that it needs on a device; edgewise itself is not needed there."""


def how_to_install(transport: Remote, engine: str, hint: str = "") -> str:
    """How `engine`, or numpy, gets onto a device. `hint`: for one without a package of its own, as it is here."""
    python = " ".join(transport.python)
    if engine not in PACKAGES and engine != "numpy":
        return hint and f"on {transport.name}: {hint}"
    # A Python that the user has set is taken instead of the one that --bootstrap makes.
    if isinstance(transport, SshTransport) and "/" not in python:
        return f"edgewise devices check {transport.name} --bootstrap" + (
            "" if engine == "numpy" else f" --engines {engine}"
        )
    where = "in the image" if isinstance(transport, ContainerTransport) else f"on {transport.name}"
    return f"{where}: {python} -m pip install {PACKAGES.get(engine, engine)}"


def bootstrap(target: RemoteTarget, packages: Sequence[str]) -> None:
    """Make the environment below the home folder there, where it is missing, and install `packages` into it.

    Raises OSError: `TargetError` with the last line that the failing command printed, `LinkLost`.
    """
    pip = (f"~/{BOOTSTRAPPED}/bin/python3", "-m", "pip", "install", "--disable-pip-version-check")
    for command in (
        (*target.transport.python, "-m", "venv", BOOTSTRAPPED),
        (*pip, "--", "numpy", *" ".join(packages).split()),
    ):
        run_reported(
            target.transport, command, folder=target.transport.home, environment={},
            advice="the device needs Python's venv module (Debian: apt install python3-venv) and a package index",
        )  # fmt: skip


def run_reported(
    transport: Transport, command: Sequence[str], *, folder: PurePath, environment: Mapping[str, str], advice: str
) -> None:
    """Run a command in a folder of a target; its lines are reported as progress.

    Args:
        environment: as `edgewise.device.transport.Transport.start` takes it.
        advice: for the error.

    Raises OSError: `TargetError` with the last line that a failing command printed, `LinkLost` after half an hour.
    """
    emit(LogLine(text=f"{transport.name}: {' '.join(command)}"))
    with job_folder() as own:
        process = transport.start(command, folder=folder, environment=environment, stderr=own / "stderr")
        try:
            process.stdin.close()
            last = _read_lines(process.stdout.fileno(), now() + TIMEOUT_S)
            code = process.wait(10.0)
        except TimeoutError as error:
            raise LinkLost(f"{' '.join(command)} did not end: {error}") from error
        finally:
            process.kill()
        if code:
            told = process.stderr.read_text(errors="replace").strip().splitlines() or [last]
            raise TargetError(f"{' '.join(command)} ended with exit code {code}: {told[-1][-300:]}", advice=advice)


def _read_lines(descriptor: int, end_by: float) -> str:
    """Report lines until the end of the stream and return the last one. Raises TimeoutError."""
    data, last = b"", ""
    while wait_readable([descriptor], max(0.0, end_by - now())):
        piece = os.read(descriptor, LINE_BYTES)
        *lines, data = (data + piece).split(b"\n")
        for line in lines:
            last = line.decode(errors="replace")
            emit(LogLine(text=one_line(last)[:200]))
        data = data[-LINE_BYTES:]
        if not piece:
            return data.decode(errors="replace") or last
    raise TimeoutError(f"it took longer than {TIMEOUT_S:g} s")
