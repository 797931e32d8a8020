"""Where an imported run comes from: the file of another tool."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The part of another tool's file that a run was made from.

    Attributes:
        tool: the tool that measured, such as ``OpenVINO benchmark_app``.
        importer: name of the importer, as ``runs import --from`` takes it.
        form: which of the tool's files it is, such as ``text`` or ``JSON of -json_stats``.
        file: name of the file, without its folder.
        sha256: hash of the whole file.
        part: the part of the file, such as ``lines 1–60`` or ``benchmarks[0]``.
        told: what the user added on import, by name; the file does not have it.
        unknown: settings that neither the file nor the user gives.
        time_from: where `Run.created_at` comes from: ``file`` (the tool's own time) or ``modified`` (the time at which
            the file was last modified).
    """

    tool: str
    importer: str
    form: str
    file: str
    sha256: str
    part: str
    told: dict[str, Any] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    time_from: str = "modified"
