"""What a reference to stored runs names: an id or its beginning, a tag, ``last``, ``group:ID`` or ``all``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

from sqlalchemy import Connection, func, or_, select

from edgewise.errors import BadInput
from edgewise.record.run import ID_SIZES
from edgewise.store.tables import NEWEST, documents, runs, tags

MIN_PREFIX = 4
_AT_ONCE = 100
_MAX_LISTED = 8
_LAST = re.compile(r"last(?:~([0-9]{1,9}))?")


def find_one(connection: Connection, reference: str) -> str:
    """Return the id that `reference` names. Raises `BadInput`."""
    require_text(reference)
    last = _LAST.fullmatch(reference)
    if last is not None:
        return _last(connection, int(last[1] or 0), reference)
    if connection.scalar(select(documents.c.id).where(documents.c.id == reference)) is not None:
        return reference
    found = tagged(connection, reference)
    if not found and len(reference) >= MIN_PREFIX:
        found = _beginning(connection, documents.c.id, reference)
    if len(found) > 1:
        raise _ambiguous(reference, found)
    if not found:
        short = f" (give at least {MIN_PREFIX} characters of an id)" if len(reference) < MIN_PREFIX else ""
        raise BadInput(f"there is no run {reference!r}{short}", advice=similar_tags(connection, reference))
    return found[0]


def find_all(connection: Connection, references: Iterable[str]) -> dict[str, None]:
    """Return the ids of all that `references` name, in that order, each once. Raises `BadInput`."""
    ids: dict[str, None] = {}
    for reference in references:
        ids |= dict.fromkeys(_find_several(connection, reference))
    return ids


def unique_size(connection: Connection, ids: Sequence[str]) -> int | None:
    """Return the characters by which each of `ids` names one run of the store; None where it takes all.

    Runs that are measured side by side begin in the same millisecond: the next digits tell them apart.
    """
    for size in ID_SIZES:
        prefixes = sorted({one[:size] for one in ids})
        if len(prefixes) < len(ids):
            continue
        number = 0
        for first in range(0, len(prefixes), _AT_ONCE):
            some = or_(*(begins(connection, documents.c.id, one) for one in prefixes[first : first + _AT_ONCE]))
            number += connection.scalar(select(func.count()).select_from(documents).where(some)) or 0
        if number == len(ids):
            return size
    return None


def _find_several(connection: Connection, reference: str) -> Sequence[str]:
    in_order = select(runs.c.id).order_by(runs.c.created, runs.c.id)
    if reference == "all":
        return connection.scalars(in_order).all()
    if not reference.startswith("group:"):
        return [find_one(connection, reference)]
    group = _find_group(connection, reference.removeprefix("group:"))
    return connection.scalars(in_order.where(runs.c.group == group)).all()


def similar_tags(connection: Connection, name: str) -> str:
    """Advice for a name that no run has: tags like it, else where runs are listed."""
    near = get_close_matches(name, connection.scalars(select(tags.c.name).distinct()).all(), n=3)
    return (f"similar tags: {', '.join(near)}; " if near else "") + "see 'edgewise runs list'"


def tagged(connection: Connection, name: str) -> list[str]:
    """Return the ids of the runs with the tag `name`, sorted."""
    query = select(tags.c.run).where(tags.c.name == name).order_by(tags.c.run)
    return list(connection.scalars(query).all())


def _last(connection: Connection, back: int, reference: str) -> str:
    query = select(runs.c.id).order_by(*NEWEST).limit(1).offset(back)
    found = connection.scalar(query)
    if found is None:
        count = connection.scalar(select(func.count()).select_from(runs)) or 0
        raise BadInput(f"there is no run {reference!r}: the store has {count}", advice="see 'edgewise runs list'")
    return str(found)


def begins(connection: Connection, column: Any, prefix: str) -> Any:
    """Return the condition that `column` begins with `prefix`, without wildcards; SQLite can find such values in an
    index.
    """
    exactly = func.substr(column, 1, len(prefix)) == prefix
    if connection.dialect.name != "sqlite":  # whose order need not be that of characters' codes
        return exactly
    return exactly & (column >= prefix) & (column < prefix[:-1] + chr(ord(prefix[-1]) + 1))


def _beginning(connection: Connection, column: Any, prefix: str) -> list[str]:
    """Return the first few values of `column` that begin with `prefix`, and one more than are listed."""
    query = select(column).where(begins(connection, column, prefix)).distinct().order_by(column)
    return list(connection.scalars(query.limit(_MAX_LISTED + 1)).all())


def require_text(reference: str) -> None:
    """Refuse stray bytes of a command line, which a database can't even be asked for. Raises `BadInput`."""
    if not reference.isprintable():
        raise BadInput(f"there is no run {reference!a}", advice="see 'edgewise runs list'")


def _find_group(connection: Connection, reference: str) -> str:
    require_text(reference)
    if reference == "last":
        newest = select(runs.c.group).where(runs.c.group.is_not(None)).order_by(*NEWEST)
        found = [str(group) for group in connection.scalars(newest.limit(1))]
    else:
        found = _beginning(connection, runs.c.group, reference) if len(reference) >= MIN_PREFIX else []
        found = [reference] if reference in found else found
    if len(found) > 1:
        raise _ambiguous(f"group:{reference}", found)
    if not found:
        raise BadInput(f"there is no group {reference!r}", advice="see 'edgewise runs list --json'")
    return found[0]


def _ambiguous(reference: str, found: Sequence[str]) -> BadInput:
    listed = ", ".join(found[:_MAX_LISTED]) + (", …" if len(found) > _MAX_LISTED else "")
    return BadInput(f"{reference!r} matches several runs: {listed}", advice="give more of the id")
