"""What requests of a lab's queue may ask for: who can queue must not run code on the hosts, nor read their files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from edgewise.errors import BadInput
from edgewise.model.callable_loader import is_factory
from edgewise.text import listing, one_line
from edgewise.verbs.lab.files import is_lab_path
from edgewise.verbs.verb import VERBS

if TYPE_CHECKING:
    from edgewise.store.lab_jobs import LabJob
    from edgewise.verbs.request import Request

_RUN_CODE = ("cases", "environments", "own_metrics", "variables")
"""Fields whose values run code, install packages or change what a process loads."""


def measures(verb: str) -> bool:
    """Whether it measures on a device of the lab."""
    return "measure" in (VERBS.get(verb).in_lab or ())


def makes_files(verb: str) -> bool:
    """Whether it makes files that go back to who asked for them."""
    return "make" in (VERBS.get(verb).in_lab or ())


def verbs_in_labs() -> list[str]:
    """Return what a lab carries out, by name: these give all that they find."""
    return sorted(name for name, verb in VERBS if verb.in_lab is not None)


def takes_times(job: LabJob) -> bool:
    """Whether a job times its device, which has to be fit for that."""
    request = json.loads(job.request)
    return measures(job.verb) and request.get("latency") is not False and request.get("lab") != "make"


def check_verb(verb: str) -> None:
    """Raise `BadInput` for a verb that no lab carries out."""
    if verb not in verbs_in_labs():
        why = VERBS.get(verb).not_in_lab or f"a lab carries out {listing(verbs_in_labs())}, not {verb}"
        raise BadInput(why, advice="leave ⟦lab⟧ out")


def check_request(request: Request, root: Path | None) -> None:
    """Raise `BadInput` for what a worker does not carry out.

    Args:
        root: of the code and files of this host that requests may name; None allows none.
    """
    check_verb(request.verb)
    paths: list[str] = []

    def note(path: str) -> str:
        paths.append(path)
        return path

    request.with_changed_paths(note)
    foreign = [path for path in paths if not is_lab_path(path)]
    if root is not None:
        for path in foreign:
            is_within = Path(path).is_absolute() and Path(path).resolve().is_relative_to(root.resolve())
            if not is_within and not is_factory(path):  # modules are installed, as the owner wants them
                raise _refused(f"{path} is not in {root}", "name files in it")
        return
    if functions := request.functions:
        raise _refused(f"{functions[0]} runs code")
    if code := [name for name in _RUN_CODE if request.changed_fields().get(name)]:
        raise _refused(f"{code[0]} may run code")
    if foreign:
        raise _refused(f"{foreign[0]} is a path of the worker's host")
    known = {path for path in paths if is_lab_path(path)}
    for text in _texts(request.to_document()):
        if text not in known and (text.startswith(("/", "~")) or ".." in PurePath(text).parts):
            raise _refused(f"{text} is a path of the worker's host")


def _refused(
    why: str, advice: str = "the worker's owner can allow it: edgewise lab work ⟦allow_code=FOLDER⟧"
) -> BadInput:
    return BadInput(one_line(f"the worker refuses this request: {why}"), advice=advice)


def _texts(value: Any) -> Iterator[str]:
    """All texts in a JSON document."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
