"""The request of ``estimate --devices``."""

from __future__ import annotations

from typing import Literal

from edgewise.verbs.request import Request


class HardwareRequest(Request):
    """List the devices that can be estimated."""

    verb: Literal["hardware"] = "hardware"
