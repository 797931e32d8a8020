"""What forms offer: engines, hardware that can be estimated, tasks and formats of data.

Plug-ins say what they have, so a process of its own asks them: ``python -m edgewise.studio.catalogue``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache

from edgewise.errors import Unavailable
from edgewise.registry import FOR_TESTS, availability_of, installed_stamp

PATIENCE_S = 60
ESTIMATED = "Estimated"
_RUN_CODE = ("loader",)
"""Formats of data that run a function of the user's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One value that a form offers.

    Attributes:
        group: heading under which it stands; of hardware that is estimated it begins with `ESTIMATED`.
        note: what to know of it; of what can't be used the reason.
        formats: of models that it reads, of an engine.
    """

    value: str
    text: str
    group: str = ""
    note: str = ""
    usable: bool = True
    formats: Sequence[str] = ()


Catalogue = Mapping[str, Sequence[Choice]]
"""``runtime``, ``hardware``, ``task`` and ``data_format`` → what is installed here."""


def catalogue() -> Catalogue:
    """Return what is installed here now. Raises `Unavailable`."""
    return _read(installed_stamp())


@lru_cache(maxsize=1)
def _read(stamp: tuple[tuple[str, int], ...]) -> Catalogue:
    from edgewise.child_process import run_child

    del stamp  # the key of the cache
    found = run_child([sys.executable, "-P", "-m", "edgewise.studio.catalogue"], seconds=PATIENCE_S)
    if found.failure:
        raise Unavailable(f"the list of what is installed {found.failure}", advice="see 'edgewise doctor'")
    return {name: [Choice(**each) for each in choices] for name, choices in json.loads(found.output).items()}


def collect() -> Catalogue:
    """Return what is installed here; imports every plug-in."""
    from edgewise.estimating.base import estimators
    from edgewise.evaluating.dataset import data_formats
    from edgewise.evaluating.task import tasks
    from edgewise.runtime.base import runtimes

    engines = []
    for name, runtime in runtimes():
        state, formats = availability_of(runtime), tuple(runtime.formats)
        hint = f": {state.install_hint}" if runtime.in_default else ""  # the others run on devices only
        note = f"reads {', '.join(formats)}" if state else f"{state.reason}{hint}"
        if name not in FOR_TESTS:
            engines.append(Choice(value=name, text=runtime.title, note=note, usable=bool(state), formats=formats))
    hardware = []
    for _, estimator in estimators():
        state = availability_of(estimator)
        note = "" if state else f"{state.reason}: {state.install_hint}"
        for device in estimator.devices():
            group = "boards" if device.board else "cores" if device.name == device.core else "accelerators"
            text, group = f"{device.title} ({device.name})", f"{ESTIMATED}: {group}"
            hardware.append(Choice(value=device.name, text=text, group=group, note=note, usable=bool(state)))
    return {
        "runtime": engines,
        "hardware": hardware,
        "task": listed(tasks().names()),
        "data_format": listed([name for name in data_formats().names() if name not in _RUN_CODE]),
    }


def listed(words: Sequence[str]) -> list[Choice]:
    """Values that are their own names."""
    return [Choice(value=word, text=word) for word in words]


if __name__ == "__main__":
    json.dump({name: [asdict(each) for each in choices] for name, choices in collect().items()}, sys.stdout)
