"""Processes in containers of Docker or Podman on this machine: each process has a container of its own.

The containers of all devices share one volume, in which the agent keeps workers, models and inputs. The supervisor is
the first process of a container; a kill of the container ends everything in it.
"""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath, PurePosixPath
from uuid import uuid4

from edgewise.constraints.base import CONTAINER_NAMES, IMAGE_NAME
from edgewise.constraints.cgroups import PREFIX
from edgewise.constraints.containers import (
    ask,
    find_runtime,
    group_of,
    inspect,
    limit_options,
    missing_limits,
    signal_or_code,
)
from edgewise.constraints.guard import guarding
from edgewise.device.link import TargetError
from edgewise.device.supervised import await_start, supervisor_words
from edgewise.device.transports.local import LocalProcess, LocalTransport
from edgewise.errors import BadInput, Unavailable
from edgewise.progress import LogLine, emit
from edgewise.units import parse_size

START_S = 600.0
"""How long a container may take until the supervisor reports its process; a missing image is downloaded before."""
VOLUME = "edgewise"
"""Name of the volume, mounted below the root of every container."""


class Containers:
    """Opens ``container://IMAGE``."""

    name = "container"
    settings: Mapping[str, str] = {
        "runtime": "docker or podman; the first that works by default",
        "python": "command of the Python interpreter in the image",
        "cpus": "number of processors that a container may use, such as 0.5",
        "memory": "memory that a container may use, such as 512MiB",
        "options": "further options of docker run or podman run, such as --gpus all",
    }

    def open(self, name: str, address: str, settings: Mapping[str, str]) -> ContainerTransport:
        """As `edgewise.device.transport.OpensDevices.open`."""
        if not IMAGE_NAME.fullmatch(address):
            raise BadInput(f"{name}: container://{address} names no image", advice="write container://IMAGE")
        if (runtime := settings.get("runtime")) not in (None, *CONTAINER_NAMES):
            raise BadInput(f"{name}: runtime must be {' or '.join(CONTAINER_NAMES)}, not {runtime!r}")
        try:
            cpus = float(settings["cpus"]) if "cpus" in settings else None
            options = shlex.split(settings.get("options", ""))
        except ValueError as error:
            raise BadInput(f"{name}: a setting can't be read: {error}", advice="for example cpus=0.5") from error
        if cpus is not None and not cpus >= 0.01:
            raise BadInput(f"{name}: cpus must be at least 0.01, not {settings['cpus']}")
        memory = parse_size(settings["memory"]) if "memory" in settings else None
        return ContainerTransport(
            name, address, runtime=runtime, python=settings.get("python", "python3"), options=options, cpus=cpus,
            memory_bytes=memory,
        )  # fmt: skip


class ContainerTransport:
    """Starts processes in containers of one image.

    Args:
        runtime: ``docker`` or ``podman``; None is the first that works.
        python: command of the interpreter in the image.
        options: further options of ``run``.
        cpus, memory_bytes: limits of each container; None sets none.
    """

    home: PurePath = PurePosixPath("/")
    shares_this_machine = True

    def __init__(
        self,
        name: str,
        image: str,
        *,
        runtime: str | None,
        python: str,
        options: Sequence[str],
        cpus: float | None = None,
        memory_bytes: int | None = None,
    ) -> None:
        self.name = name
        self.python: Sequence[str] = (python,)
        self._image, self._named, self._options = image, runtime, options
        self._cpus, self._memory = cpus, memory_bytes
        self._runtime, self._is_verified = "", False
        self._label = f"edgewise={os.getpid()}-{uuid4().hex[:8]}"
        self._guard = contextlib.ExitStack()

    def start(
        self, command: Sequence[str], *, folder: PurePath, environment: Mapping[str, str], stderr: Path
    ) -> ContainerProcess:
        """As `edgewise.device.transport.Transport.start`.

        Raises:
            TargetError: no runtime works here, the image can't be used, or Python in it is missing or too old.
            LinkLost: the container did not report its process in time.
        """
        if not self._runtime:
            self._prepare()
        container = f"{PREFIX}{os.getpid()}-{uuid4().hex[:8]}"
        words = [self._runtime, "run", "--rm", "--interactive", "--name", container, "--label", self._label]
        words += ["--log-driver", "none", "--user", "0", "--workdir", "/"]
        words += ["--mount", f"type=volume,source={VOLUME},target=/{VOLUME}"]
        words += [*limit_options(self._cpus, self._memory), *self._options]
        words += ["--entrypoint", self.python[0], self._image]
        words += ["-c", *supervisor_words(command, folder=folder, environment=environment)]
        child = LocalTransport().start(words, folder=Path("/"), environment=os.environ, stderr=stderr)
        process = ContainerProcess(child, remove=(self._runtime, "kill", container))

        def explain(_: str) -> OSError:
            process.wait(10.0)
            process.kill()
            lines = [line for line in stderr.read_text(errors="replace").splitlines() if line.strip()]
            reason = next((line for line in reversed(lines) if not line.startswith(("Run '", "See '"))), "no answer")
            message = f"no container of the image {self._image} can be started: {reason[:500]}"
            return TargetError(message, advice=self._advice())

        process.pid = await_start(process, self.python[0], timeout_s=START_S, advice=self._advice(), explain=explain)
        try:
            self._verify(container)
        except BaseException:
            process.kill()
            raise
        return process

    def close(self) -> None:
        """As `edgewise.device.transport.Closes.close`."""
        self._guard.close()
        self._runtime = ""

    def _prepare(self) -> None:
        """Find the runtime, and have the containers killed when this process dies. Raises `TargetError`."""
        try:
            self._runtime = find_runtime(self._named)
        except Unavailable as error:
            raise TargetError(error.message, advice=error.advice) from error
        script = f"{self._runtime} ps --quiet --filter label={self._label} | xargs -r {self._runtime} kill"
        self._guard.enter_context(guarding(commands=[("/bin/sh", "-c", script)]))

    def _verify(self, container: str) -> None:
        """Read the limits back once. Raises `TargetError` where the runtime did not set them."""
        if self._is_verified or (self._cpus is None and self._memory is None):
            return
        try:
            pid, identity, _ = inspect(self._runtime, container)
        except Unavailable as error:
            raise TargetError(error.message) from error
        group = group_of(pid, identity)
        if group is None:
            emit(LogLine(text=f"{self.name}: its limits were not verified: no control group of it is visible here"))
        elif lacking := missing_limits(group, cpus=self._cpus, memory_bytes=self._memory):
            raise TargetError(
                f"{self._runtime} did not set a limit: {', '.join(lacking)}",
                advice="run it as root, or on a system with control groups of version 2",
            )
        self._is_verified = True

    def _advice(self) -> str:
        return (
            "check the image's name and that it has Python 3.11 or newer, numpy and the engine; the device's setting "
            "python is the command of the interpreter in the image"
        )


class ContainerProcess:
    """A process in a container, as the caller sees it: that of the runtime's command, whose streams it has.

    Attributes:
        pid: the number in the container.
    """

    def __init__(self, child: LocalProcess, *, remove: tuple[str, ...]) -> None:
        self.pid = 0
        self._child = child
        self._remove = remove
        self.stdin, self.stdout, self.stderr = child.stdin, child.stdout, child.stderr
        self.end_descriptor = child.end_descriptor

    @property
    def returncode(self) -> int | None:
        """As `edgewise.device.transport.Process.returncode`."""
        code = self._child.returncode
        return None if code is None else signal_or_code(code)

    def wait(self, timeout: float | None = None) -> int:
        """As `edgewise.device.transport.Process.wait`."""
        return signal_or_code(self._child.wait(timeout))

    def kill(self) -> None:
        """As `edgewise.device.transport.Process.kill`."""
        if self._child.returncode is None:
            with contextlib.suppress(TimeoutError):
                self._child.wait(0.0)
        if self._child.returncode is None:
            with contextlib.suppress(Unavailable):
                ask(*self._remove)
        self._child.kill()
