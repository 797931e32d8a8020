"""Short names of layers: exporters write long ones that differ in a few characters, which must stay."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import compress

from edgewise.grouping import by_key
from edgewise.record import Run
from edgewise.text import one_line

_SEPARATORS = "/.;:_ "
_MARKS = ("/", " ", ";", ".:", "_")
"""What ends a segment of a name; those that divide into the largest parts first."""
_ENDING = re.compile(r"^(\S*\w)\.[a-z]\w+$")
_LEAST_END = 3
"""Characters of a path's end that say something alone, as ``Add``."""
MOST_NEEDED = 32
"""A column is not made wider than this for whole segments alone."""


def shorten(text: str, width: int | None) -> str:
    """`text` in at most `width` cells with its middle left out, mostly its end kept; whole where there is no limit."""
    text = one_line(text)
    if width is None or len(text) <= width:
        return text
    tail = (width - 1) * 2 // 3
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}"


def keep_end(text: str, width: int | None) -> str:
    """`text` in at most `width` cells with its beginning left out: whole segments, or words that fill half."""
    text = one_line(text)
    if width is None or len(text) <= width:
        return text
    for marks in _MARKS:
        kept = ""
        for segment in reversed(_segments(text, marks)):
            if len(segment) + len(kept) >= width:
                break
            kept = segment + kept
        if len(kept) >= (_LEAST_END if marks == "/" else (width - 1) // 2):
            return f"…{kept}"
    return f"…{text[len(text) - width + 1 :]}"


def _segments(name: str, marks: str) -> list[str]:
    """Return the parts of `name` that end in one of `marks`, with it."""
    return re.findall(rf"[^{marks}]*[{marks}]|[^{marks}]+$", name)


def short_names(names: Sequence[str], width: int | None, *, ends: bool = False) -> list[str]:
    """Names in at most `width` cells each, as distinct as possible: of those that come out alike, what they share goes.

    Args:
        ends: whether their ends tell most, as those of layers do: whole beginnings are left out, not the middle.
    """
    whole = [one_line(name) for name in names]
    if width is None or all(len(name) <= width for name in whole):
        return whole
    whole = _without_endings(_own_parts(whole, width), width)
    alike: dict[str, dict[str, None]] = {}
    for name in whole:
        alike.setdefault((keep_end if ends else shorten)(name, width), {})[name] = None
    short: dict[str, str] = {}
    for shown, group in alike.items():
        short |= _told_apart(list(group), width, ends=ends) if len(group) > 1 else dict.fromkeys(group, shown)
    count = Counter(short.values())
    if left := [name for name, shown in short.items() if count[shown] > 1]:
        short |= _told_apart(left, width, ends=ends)
    return [short[name] for name in whole]


def distinct_names(names: Sequence[str], width: int = 34) -> list[str]:
    """As `short_names`, with a number on names that are equal."""
    short = short_names(names, width)
    return [name if short.count(name) == 1 else f"{name} #{index + 1}" for index, name in enumerate(short)]


def _told_apart(names: Sequence[str], width: int, *, ends: bool) -> dict[str, str]:
    """Names whose short forms are alike → other short forms: the first kind that tells all apart, else the most."""
    # Of all names in order the first and the last differ the earliest.
    first, last = min(names), max(names)
    same = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    start = max(first.rfind(mark, 0, same) for mark in _SEPARATORS) + 1
    whole = _whole_segments(names, width) if ends else []
    if len(set(whole)) == len(names) and max(map(len, whole)) <= width:
        return dict(zip(names, whole, strict=True))
    forms = [
        [shorten(f"…{name[start:]}", width) for name in names],
        *([[_head(name, width) for name in _varying_parts(names)]] if ends else []),
        [_head(f"…{name[start:]}", width) for name in names],
        [_head(f"…{name[same:]}", width) for name in names],
    ]
    return dict(zip(names, max(forms, key=lambda form: len(set(form))), strict=True))


def _whole_segments(names: Sequence[str], width: int) -> list[str]:
    """``"…features.3/…Conv"``: the last segment, those that tell names apart, from the end those that fit `width`."""
    marks = next((each for each in _MARKS if any(mark in name for name in names for mark in each)), "/")
    parts = [_segments(name, marks) for name in names]
    kept = [{len(part) - 1} for part in parts]
    while True:
        shown = [_elide(part, places) for part, places in zip(parts, kept, strict=True)]
        groups = by_key((form, at) for at, form in enumerate(shown)).values()
        alike = next((group for group in groups if len(group) > 1), [])
        deepest = max((len(parts[at]) for at in alike), default=0)
        told = next(
            (
                at
                for at in range(deepest)
                if len({parts[one][at] if at < len(parts[one]) else "" for one in alike}) > 1
                and any(at < len(parts[one]) and at not in kept[one] for one in alike)
            ),
            None,
        )
        if told is None:
            break
        for one in alike:
            kept[one] |= {told} if told < len(parts[one]) else set()
    for part, places in zip(parts, kept, strict=True):
        for at in range(len(part) - 2, -1, -1):
            if at not in places and len(_elide(part, places | {at})) > width:
                break
            places.add(at)
    return [_elide(part, places) for part, places in zip(parts, kept, strict=True)]


def _elide(part: Sequence[str], kept: set[int]) -> str:
    """Return the segments at the places `kept`, an ellipsis for each gap."""
    found = "".join(segment if at in kept else "\0" for at, segment in enumerate(part))
    return re.sub("\0+", "…", found)


def needed_width(names: Sequence[str]) -> int:
    """Return the cells that names of layers need to keep whole segments and to be told apart, `MOST_NEEDED` at most."""
    names = list(dict.fromkeys(map(one_line, names)))
    return min(max(map(len, _whole_segments(names, 0)), default=0), MOST_NEEDED)


def _varying_parts(names: Sequence[str]) -> list[str]:
    """``"…2…1…Conv"`` of ``"/stages.2/blocks.1/mixer/Conv"``: the parts that names do not share, and the last."""
    parts = [re.split(f"[{_SEPARATORS}]", name) for name in names]
    if len(set(map(len, parts))) > 1:
        return list(names)
    kept = [len(set(column)) > 1 for column in zip(*parts, strict=True)]
    kept[-1] = True
    return [f"…{'…'.join(compress(each, kept))}" for each in parts]


def _own_parts(names: Sequence[str], width: int) -> list[str]:
    """Of names that TFLite's converter joins with ``;`` the part that the fewest others have: its own, mostly."""
    count = Counter(part for name in names for part in set(name.split(";")))

    def own(name: str) -> str:
        parts = [part for part in name.split(";") if part]
        return min(parts, key=lambda part: count[part]) if parts and len(name) > width else name

    found = [own(name) for name in names]
    return found if len(set(found)) == len(set(names)) else list(names)


def _without_endings(names: Sequence[str], width: int) -> list[str]:
    """`names` of files, those that are too long without the ending of the format, where it tells no two apart."""
    stems = [_ENDING.sub(r"\1", name) if len(name) > width else name for name in names]
    if len(set(stems)) < len(set(names)):
        return list(names)
    return [f"{stem}…" if len(stem) < min(width, len(name)) else stem for stem, name in zip(stems, names, strict=True)]


def layer_names(run: Run, width: int | None) -> dict[int, str]:
    """Index of a layer → its name in at most `width` cells, told apart from the others' as well as can be."""
    names = short_names([layer.title for layer in run.layers], width, ends=True)
    return {layer.index: name for layer, name in zip(run.layers, names, strict=True)}


def _head(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
