"""Short names of layers: exporters write long ones that differ in a few characters, which must stay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from edgewise.record import Run
from edgewise.text import one_line

_SEPARATORS = "/.;:_ "


def shorten(text: str, width: int | None) -> str:
    """`text` in at most `width` cells with its middle left out, mostly its end kept; whole where there is no limit."""
    text = one_line(text)
    if width is None or len(text) <= width:
        return text
    tail = (width - 1) * 2 // 3
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}"


def short_names(names: Sequence[str], width: int | None) -> list[str]:
    """Names in at most `width` cells each, as distinct as possible: what all share is left out first."""
    whole = [one_line(name) for name in names]
    if width is None or all(len(name) <= width for name in whole):
        return whole
    whole = _own_parts(whole, width)
    prefix = _shared_beginning(whole)
    forms = [
        [shorten(name, width) for name in whole],
        [name if len(name) <= width else shorten(f"…{name[prefix:]}", width) for name in whole],
        [name if len(name) <= width else _head(f"…{name[prefix:]}", width) for name in whole],
    ]
    wanted = len(set(whole))
    # The first form that tells all apart, else the one that tells most.
    best = max(forms, key=lambda form: (len(set(form)) == wanted, len(set(form))))
    return _part_alike(whole, best, width)


def distinct_names(names: Sequence[str], width: int = 34) -> list[str]:
    """As `short_names`, with a number on names that are equal."""
    short = short_names(names, width)
    return [name if short.count(name) == 1 else f"{name} #{index + 1}" for index, name in enumerate(short)]


def _part_alike(whole: Sequence[str], short: Sequence[str], width: int) -> list[str]:
    """Short names that came out alike, again from where the whole ones begin to differ."""
    alike: dict[str, list[str]] = {}
    for name, shown in zip(whole, short, strict=True):
        alike.setdefault(shown, []).append(name)
    return [
        shown if len(set(alike[shown])) < 2 else _head(f"…{name[_shared_beginning(alike[shown]) :]}", width)
        for name, shown in zip(whole, short, strict=True)
    ]


def _own_parts(names: Sequence[str], width: int) -> list[str]:
    """Of names that TFLite's converter joins with ``;`` the part that the fewest others have: its own, mostly."""
    count = Counter(part for name in names for part in set(name.split(";")))

    def own(name: str) -> str:
        parts = [part for part in name.split(";") if part]
        return min(parts, key=lambda part: count[part]) if parts and len(name) > width else name

    return [own(name) for name in names]


def layer_names(run: Run, width: int | None) -> dict[int, str]:
    """Index of a layer → its name in at most `width` cells, told apart from the others' as well as can be."""
    names = short_names([layer.title for layer in run.layers], width)
    return {layer.index: name for layer, name in zip(run.layers, names, strict=True)}


def _head(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _shared_beginning(names: Sequence[str]) -> int:
    """How many characters the names that are too long all begin with, up to a separator."""
    # Of all names in order the first and the last differ the earliest.
    first, last = min(names), max(names)
    if first == last:
        return 0
    same = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    return max(first.rfind(mark, 0, same) for mark in _SEPARATORS) + 1
