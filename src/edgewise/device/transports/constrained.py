"""Processes on this machine within the limits of a smaller device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath

from edgewise.constraints.base import Group, gated
from edgewise.device.transports.local import LocalProcess, LocalTransport


class ConstrainedTransport:
    """Starts processes in an entered group; each is put into the group before its program starts."""

    name = "local"

    def __init__(self, group: Group) -> None:
        self.group = group

    def start(
        self, command: Sequence[str], *, folder: PurePath, environment: Mapping[str, str], stderr: Path
    ) -> LocalProcess:
        """As `LocalTransport.start`. Raises OSError, too where the group does not take the process."""
        process = LocalTransport().start(
            gated(command), folder=folder, environment={**environment, **self.group.environment}, stderr=stderr
        )
        try:
            self.group.admit(process.pid)
            process.stdin.write(b"\n")
            process.stdin.flush()
        except OSError:
            process.kill()
            raise
        return process
