"""Two records of one run: a run is saved when it was measured, and again when more is known of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgewise.record import Run
from edgewise.store.codec import to_document

_GROWING = ("measurements", "cautions", "artifacts")


def later_version(a: Run, b: Run) -> Run | None:
    """Of two records with the same id the one that holds all of the other; `a` where they are equal, tags aside.

    A later version adds: measurements and cautions (and with these another trust), or what was empty before, such as
    the evaluation. None where each holds what the other does not.
    """
    first, second = to_document(a), to_document(b)
    if _extends(first, second):
        return a
    return b if _extends(second, first) else None


def _extends(more: Mapping[str, Any], less: Mapping[str, Any]) -> bool:
    for name, value in less.items():
        if name == "tags" or (name == "trust" and more["cautions"] != less["cautions"]):
            continue
        if name in _GROWING:
            if any(row not in more[name] for row in value):
                return False
        elif value not in (more[name], None, [], {}):
            return False
    return True
