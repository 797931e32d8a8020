"""The queue of a lab, for those who put requests into it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from edgewise.errors import BadInput
from edgewise.progress import LogLine, emit
from edgewise.text import one_line
from edgewise.verbs.lab.engine import ANY, queue_of, require_engine, ring, settings_of
from edgewise.verbs.lab.files import Packer
from edgewise.verbs.lab.safety import MEASURING, check_verb
from edgewise.version import __version__

if TYPE_CHECKING:
    from edgewise.store.lab import Lab, LabDevice, LabJobs
    from edgewise.verbs.request import Request

EXPOSED = "the connection to the lab may not be encrypted: add sslmode=verify-full to the URL of the store"


@dataclass(frozen=True, kw_only=True)
class Queue:
    """Puts requests into a lab.

    Attributes:
        devices: name or tag → the devices that answer to it.
    """

    jobs: LabJobs
    packer: Packer
    devices: Mapping[str, Sequence[LabDevice]]

    def answering(self, device: str) -> Sequence[LabDevice]:
        """The devices that answer to a name or a tag. Raises `BadInput` where there is none."""
        if device not in self.devices:
            near = get_close_matches(device, self.devices, n=1)
            raise BadInput(
                f"no device of the lab answers to {device!r}",
                advice=(f"did you mean {near[0]}? " if near else "") + f"known: {', '.join(self.devices) or 'none'}",
            )
        return self.devices[device]

    def check(self, verb: str, device: str) -> None:
        """Raise `BadInput` where no worker of the lab carries out `verb` for `device`."""
        check_verb(verb)
        if verb in MEASURING:
            self.answering(device)
        elif not self.devices:
            raise BadInput("the lab has no host", advice="'edgewise lab work' makes a machine one")

    def job(
        self, key: str, title: str, device: str, request: Request, *, suite: str = "", model: str = ""
    ) -> dict[str, Any]:
        """A job to queue; its files are in the lab then.

        Args:
            suite: the name of the suite that the cell is of.
            model: as the suite names it.

        Raises:
            BadInput: no worker carries it out for `device`, or a file is too large.
            StoreError: the database fails.
        """
        self.check(request.verb, device)
        measures = request.verb in MEASURING
        identities = {one.identity for one in self.answering(device)} if measures else set()
        document = request.with_changed_paths(self.packer.pack).to_document()
        return {
            "id": key, "queue": queue_of(device) if measures else ANY, "device": device, "verb": request.verb,
            "title": one_line(title), "request": json.dumps(document), "version": __version__, "suite": suite,
            "model": one_line(model),
            "lock": identities.pop() if len(identities) == 1 else None,
        }  # fmt: skip

    def add(self, jobs: Sequence[Mapping[str, Any]]) -> int:
        """Queue jobs; how many are new or had ended."""
        return self.jobs.add(jobs, ring)


def open_queue(lab: Lab) -> Queue:
    """The queue of a lab. Raises `Unavailable` where there is none, or one of another version; `StoreError`."""
    require_engine()
    settings = settings_of(lab)
    if lab.is_exposed:
        emit(LogLine(text=EXPOSED))
    devices: dict[str, list[LabDevice]] = {}
    for device in lab.devices():
        for answer in device.answers:
            devices.setdefault(answer, []).append(device)
    return Queue(jobs=lab.jobs, packer=Packer(lab.files, most=settings.most_file), devices=devices)
