"""``estimate --devices``: list the devices that can be estimated."""

from __future__ import annotations

from edgewise.verbs.verb import Verb


class Hardware(Verb):
    """List the devices that can be estimated, with their settings."""

    name = "hardware"
    summary = "List the devices that can be estimated, with their settings."
    group = "Predict"
    request = ".request:HardwareRequest"
    work = ".listing:list_hardware"
    shown = ".listing:HardwarePresentation"
    reports = ""
    asked_by = ("estimate", "--devices")
    keeps_runs = False
