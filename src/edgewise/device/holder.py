"""The name of this process for those who wait for a device that it holds."""

from __future__ import annotations

import getpass
import os
import socket
import sys
from datetime import UTC, datetime
from pathlib import Path


def holder() -> str:
    """Return user, machine, process and command of this process, and the time."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    began = datetime.now(UTC).isoformat(timespec="seconds")
    command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:2]])
    return f"{user}@{socket.gethostname()}, process {os.getpid()} ({command}), since {began}"
