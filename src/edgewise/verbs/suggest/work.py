"""Carries out `calibrate --suggest`: reference networks to measure next on a device, as files."""

from __future__ import annotations

import csv
import io
import shlex
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.device.calibrations import file_of
from edgewise.device.devices import read_devices
from edgewise.predicting.base import Subject
from edgewise.predicting.calibration import load
from edgewise.predicting.features import profile_of
from edgewise.predicting.suggestion import Suggestion, select
from edgewise.store.exchange import write_file
from edgewise.verbs.zoo.work import write
from edgewise.workload.resolved_graph import read_resolved_graph
from edgewise.zoo.networks import REFERENCES, Reference, make
from edgewise.zoo.onnx import to_onnx

if TYPE_CHECKING:
    from edgewise.verbs.context import Context
    from edgewise.verbs.suggest.request import SuggestRequest

SMALLEST = 32
"""Resolution of a candidate: below it some networks have no outputs."""
TABLE = "measured.csv"


def suggest(request: SuggestRequest, context: Context) -> Suggestion:
    """Choose networks, write their files and a table for the measurements.

    Raises:
        BadInput: a name that can't be one, more networks than there are, or files that can't be written.
    """
    device, folder = request.name, Path(request.folder or f"{request.name}-models")
    measured = _measured(device, context)
    candidates = list(_candidates(request.format))
    chosen = select([one.subject for one in candidates], measured, request.suggest)
    by_name = {one.subject.name: one for one in candidates}
    for subject in chosen:
        candidate = by_name[subject.name]
        write(candidate.reference, folder, **candidate.settings, seed=0, format=request.format, overwrite=request.force)
    table = folder / TABLE
    if not table.exists():
        write_file(table, _table(chosen), overwrite=False)
    return Suggestion(
        device=device, subjects=chosen, measured=len(measured), folder=folder, table=table,
        steps=_steps(device, table, [str(folder / one.name) for one in chosen]),
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """A variant of a network; `settings` are the width and the resolution."""

    subject: Subject
    reference: Reference
    settings: Mapping[str, Any]


def _measured(device: str, context: Context) -> list[Subject]:
    """Return the models with a profile that an existing calibration of the device rests on."""
    if not file_of(device, context.store).exists():
        return []
    known = load(device, context.store).points
    points = {point.subject.name: point.subject for found in known.values() for point in found}
    return [subject for subject in points.values() if subject.profile is not None and subject.profile.work]


def _candidates(ending: str) -> Iterator[_Candidate]:
    """All networks at full size, and at half the width and, where that is possible, half the resolution.

    Args:
        ending: of the files.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "candidate.onnx"
        for reference in REFERENCES.values():
            half = reference.input[-1] // 2
            smaller = half if reference.resizable and half >= SMALLEST else None
            for width, resolution in ((1.0, None), (0.5, smaller)):
                settings: dict[str, Any] = {"width": width, "resolution": resolution}
                name = reference.variant(**settings)
                path.write_bytes(to_onnx(make(reference, **settings, seed=None), name=name, weights=False))
                graph = read_resolved_graph(path, shapes={}).graph
                subject = Subject(
                    name=f"{name}.{ending}", family=reference.name, precision="float32", profile=profile_of(graph)
                )
                yield _Candidate(subject=subject, reference=reference, settings=settings)


def _table(subjects: Sequence[Subject]) -> str:
    """Return a row for each model, without values."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["model", "latency_ms", "family"])
    writer.writerows([subject.name, "", subject.family] for subject in subjects)
    return text.getvalue()


def _steps(device: str, table: Path, files: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return what to do next; a registered device is measured by edgewise itself."""
    runs = str(table.with_suffix(".json"))
    if device in read_devices():
        there, results = shlex.join(["edgewise", "bench", *files, "-d", device, "-o", runs]), runs
    else:
        there, results = f"measure the files, and write the latencies into {table}", str(table)
    return (
        ("on this machine", shlex.join(["edgewise", "bench", *files])),
        (f"on {device}", there),
        ("then", shlex.join(["edgewise", "calibrate", device, "--measurements", results])),
    )
