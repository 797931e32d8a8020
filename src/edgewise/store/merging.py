"""Two records of one run: a run is saved when it was measured, and again when more is known of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgewise.record import Run
from edgewise.store.codec import to_document
from edgewise.store.redaction import redact_run

_GROWING = ("measurements", "cautions", "artifacts")


def later_version(a: Run, b: Run) -> Run | None:
    """Of two records with the same id the one that holds all of the other; `a` where they are equal, tags aside.

    A later version adds: measurements and cautions (and with these another trust), or what was empty before, such as
    the evaluation. None where each holds what the other does not.
    """
    # An export does not say where the model lay.
    for one, other in ((a, b), (redact_run(a), redact_run(b))):
        first, second = to_document(one), to_document(other)
        if _extends(first, second):
            return a
        if _extends(second, first):
            return b
    return None


def _extends(more: Mapping[str, Any], less: Mapping[str, Any]) -> bool:
    for name, value in less.items():
        if name == "created_at" and more["source"] and less["source"]:
            continue  # of an imported run it may be the time of the file, which copying changes
        if name == "tags" or (name == "trust" and more["cautions"] != less["cautions"]):
            continue
        if name in _GROWING:
            if any(row not in more[name] for row in value):
                return False
        elif value not in (more[name], None, [], {}):
            return False
    return True
