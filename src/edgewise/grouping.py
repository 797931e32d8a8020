"""Things put together by what they share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def by_key(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Collect the values of each key; keys are in the order of their first appearance, values in theirs."""
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def in_levels(order: Sequence[K], ahead: Mapping[K, Set[K]]) -> list[list[K]]:
    """Return those that none of `order` is ahead of, then those that none of the rest is ahead of, and so on.

    Where somebody is ahead of each, as in a circle, the first one leads.

    Args:
        ahead: of each one, those that are ahead of it.
    """
    left, found = list(order), list[list[K]]()
    while left:
        rest = frozenset(left)
        found.append([one for one in left if rest.isdisjoint(ahead[one])] or left[:1])
        left = [one for one in left if one not in found[-1]]
    return found
