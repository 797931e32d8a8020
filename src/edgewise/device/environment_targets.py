"""Targets whose workers run in another Python environment, on this machine or on a device, or in a container."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgewise.device import environment_maker, environments
from edgewise.device.asking import ask
from edgewise.device.devices import LOCAL, find_device, open_transport
from edgewise.device.environment_maker import ASK_S, FOREIGN, MAKE_S
from edgewise.device.lease import measuring_on
from edgewise.device.link import LinkLost, Unreachable
from edgewise.device.target import (
    LAUNCH,
    LocalTarget,
    LocalWorkspace,
    RemoteTarget,
    RemoteWorkspace,
    Workspace,
    find_target,
    keep_target,
)
from edgewise.device.transport import Process, RunsPrograms, SharesMachine, Transport
from edgewise.errors import BadInput, Unavailable
from edgewise.folders import job_folder

_MAKER = "edgewise.device.environment_maker"
_ADVICE = "it needs Python 3.11 or newer, numpy and the engine"


class EnvironmentWorkspace(LocalWorkspace):
    """As `LocalWorkspace`; the worker runs in another Python environment."""

    def __init__(self, transport: Transport, folder: Path, python: str) -> None:
        super().__init__(transport, folder)
        self._python = python

    def start(self, module: str, *, environment: Mapping[str, str] | None = None) -> Process:
        """Start the module of the bundle, which needs only numpy and the engine there."""
        # What belongs to edgewise's own Python must not be found by another one.
        kept = {name: value for name, value in os.environ.items() if name not in FOREIGN}
        own = {**kept, **(environment or {}), "TMPDIR": str(self._folder)}
        command = (self._python, "-P", "-c", LAUNCH, environments.worker_file(), module)
        return self._transport.start(command, folder=self._folder, environment=own, stderr=self._folder / "stderr")


class EnvironmentTarget(LocalTarget):
    """This machine, with workers in another Python environment.

    Attributes:
        environment: as `edgewise.device.environments.python_of` takes it.
    """

    def __init__(self, transport: Transport, environment: str) -> None:
        super().__init__(transport)
        self.environment = environment
        self._python = environments.python_of(environment)

    def workspace(self, folder: Path, files: Mapping[str, Path] | None = None) -> EnvironmentWorkspace:
        """`folder` itself."""
        del files
        return EnvironmentWorkspace(self.transport, folder, self._python)

    def unavailable(self, error: Exception) -> Unavailable:
        """Return the error for users, where `error` shows that the environment can't be used."""
        message = f"the environment {self.environment} can't be used: {error}"
        return Unavailable(message, advice=_ADVICE)


class RemoteEnvironment:
    """A device, with workers in another Python environment there. Its agent, and so its lock, is that of the device.

    Attributes:
        device: as it is without the environment.
        environment: as `edgewise.device.environments.python_of` takes it; paths are of the device.
    """

    is_here = False

    def __init__(self, device: RemoteTarget, environment: str) -> None:
        self.name, self.transport = device.name, device.transport
        self.device, self.environment = device, environment
        self._python = environments.ask_for_python(environment, self._ask, where=f" on {device.name}")

    def _ask(self, question: Mapping[str, Any]) -> Mapping[str, str]:
        home = self.transport.home
        asked = {**question, "cache": str(home / "edgewise" / "cache" / "environments")}
        if (path := question.get("path")) and not path.startswith("~"):
            asked["path"] = str(home / path)
        if question.get("make"):  # which would disturb others who measure there
            with measuring_on(self.name):
                return ask_maker(self.device, asked, timeout_s=2 * MAKE_S)
        return ask_maker(self.device, asked, timeout_s=2 * MAKE_S)  # another command may be making it

    def close(self) -> None:
        """Its connection is the device's."""

    def workspace(self, folder: Path, files: Mapping[str, Path] | None = None) -> RemoteWorkspace:
        """As `RemoteTarget.workspace`."""
        there = self.device.workspace(folder, files)
        there.python = self._python
        return there

    def locate(self, workspace: Workspace, name: str, file: Path) -> str:
        """In the workspace."""
        return self.device.locate(workspace, name, file)

    def unavailable(self, error: Exception) -> Unavailable:
        """Return the error for users, where `error` shows that the environment or the device can't be used."""
        if isinstance(error, LinkLost | Unreachable):
            return self.device.unavailable(error)
        message = f"the environment {self.environment} on {self.name} can't be used: {error}"
        return Unavailable(message, advice=getattr(error, "advice", "") or _ADVICE)


def ask_maker(device: RemoteTarget, question: Mapping[str, Any], *, timeout_s: float) -> Mapping[str, str]:
    """Return what `edgewise.device.environment_maker` answers on a device. Raises `Unavailable`."""
    try:
        with job_folder() as folder:
            told = ask(device, _MAKER, question, folder=folder, timeout_s=timeout_s)
        return {str(name): str(value) for name, value in told.items()}
    except (OSError, ValueError, TypeError) as error:
        raise device.unavailable(error) from error


def find_environment(environment: str, device: str = LOCAL) -> EnvironmentTarget | RemoteEnvironment | RemoteTarget:
    """Return a device with that Python environment, which is made where it is not there yet, or a container.

    Raises as `edgewise.device.environments.ask_for_python` and `_keeper`.
    """
    if environments.is_container(environment):
        if device != LOCAL:
            raise BadInput(f"containers run on this machine, not on {device}", advice="leave ⟦device⟧ out")
        if isinstance(there := find_target(environment), RemoteTarget):
            return there
    if device == LOCAL:
        here = open_transport(find_device(LOCAL))
        return keep_target(f"{LOCAL} {environment}", lambda: EnvironmentTarget(here, environment))
    keeper = _keeper(device)
    return keep_target(f"{device} {environment}", lambda: RemoteEnvironment(keeper, environment))


def list_releases(package: str, device: str = LOCAL) -> Mapping[str, str]:
    """As `edgewise.device.environment_maker.list_releases`, on a device. Raises as `_keeper`, and `Unavailable`."""
    if device == LOCAL:
        return environment_maker.list_releases(package)
    return ask_maker(_keeper(device), {"releases": package}, timeout_s=2 * ASK_S)


def _keeper(device: str) -> RemoteTarget:
    """Return the target of a device that keeps environments. Raises as `find_target`; `BadInput` for another."""
    found = find_target(device)
    if isinstance(found, LocalTarget) or isinstance(found.transport, SharesMachine | RunsPrograms):
        advice = "environments are for this machine and for devices with Python over ssh"
        raise BadInput(f"{device} keeps no Python environments", advice=advice)
    return found
