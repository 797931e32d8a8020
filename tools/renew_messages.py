"""Writes ``tests/golden/messages.jsonl``: every message of edgewise with the key by which tests name it.

A line of the file holds the key, the text with its fields in braces, and the functions that hold the text. A renewal
keeps a key where the text is the same or, in the same function or module, similar; so tests, which name keys and fields
(`tests/messages.py`), stay as they are when words change or code moves. `message_flow.py` says what a message is.

Run it without arguments after each change of a message, and after each merge; then read the differences.
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from itertools import count as count_from
from pathlib import Path

from message_flow import find_messages

ROOT = Path(__file__).resolve().parents[1]
SNAPSHOT = ROOT / "tests" / "golden" / "messages.jsonl"
SIMILAR = 0.6
"""Texts that are at least so similar are one message, reworded."""
SMALL = frozenset(
    re.findall(
        r"\w+", "a an and are as at be been but by for from has have in is it its of on or that the this to was with"
    )
)
"""Words that no key needs."""
_FIELD = re.compile(r"(?<!\{)\{\w+(!r)?\}")


@dataclass(frozen=True, kw_only=True)
class Message:
    """One text."""

    key: str
    text: str
    sites: tuple[str, ...]

    @cached_property
    def words(self) -> str:
        """The text whatever its fields are called."""
        return _FIELD.sub(r"{\1}", self.text)

    def line(self) -> str:
        """How the file holds it."""
        return json.dumps([self.key, self.text, *self.sites], ensure_ascii=False)


def read_snapshot(path: Path = SNAPSHOT) -> list[Message]:
    """Return what the file holds. After a merge it may hold a key twice: both stay until `renewed` has chosen."""
    if not path.is_file():
        return []
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
    return [Message(key=key, text=text, sites=tuple(sites)) for key, text, *sites in lines]


def renewed(old: Iterable[Message], found: dict[str, set[str]]) -> list[Message]:
    """Return the messages of `found`, with the keys of `old` where they are the same messages; by key."""
    new: dict[str, Message] = {}
    gone = list(old)
    left = [Message(key="", text=text, sites=tuple(sorted(sites))) for text, sites in sorted(found.items())]
    for marks, least in _SAME:
        for before, after in _pairs(gone, left, marks, least):
            if before not in gone or after not in left or before.key in new:
                continue
            # A field keeps its name while the words are the same: tests know it by that.
            text = before.text if before.words == after.words else after.text
            new[before.key] = Message(key=before.key, text=text, sites=after.sites)
            gone.remove(before)
            left.remove(after)
    for message in left:
        key = next(key for key in _slugs(message) if key not in new)
        new[key] = Message(key=key, text=message.text, sites=message.sites)
    return sorted(new.values(), key=lambda one: one.key)


_SAME: tuple[tuple[Callable[[Message], Iterable[object]], float], ...] = (
    (lambda one: [one.text], 0),
    (lambda one: [(one.words, site) for site in one.sites], 0),
    (lambda one: [one.words], 0),
    (lambda one: one.sites, SIMILAR),
    (lambda one: dict.fromkeys(site.split(":")[0] for site in one.sites), SIMILAR),
    (lambda one: one.sites, 0),
)
"""What two messages share that are one, and how similar they are at least; the surest first."""


def _pairs(
    gone: list[Message], left: list[Message], marks: Callable[[Message], Iterable[object]], least: float
) -> list[tuple[Message, Message]]:
    by_mark: dict[object, list[Message]] = defaultdict(list)
    for one in left:
        for mark in marks(one):
            by_mark[mark].append(one)
    pairs = {(one, other): _similarity(one, other) for one in gone for mark in marks(one) for other in by_mark[mark]}
    return [pair for pair in sorted(pairs, key=lambda pair: -pairs[pair]) if pairs[pair] >= least]


def _similarity(one: Message, other: Message) -> float:
    return (
        float(one.words == other.words)
        or SequenceMatcher(None, one.words.split(), other.words.split(), autojunk=False).ratio()
    )


def _slugs(message: Message) -> Iterator[str]:
    """Keys of a few of its words; the first that is free is taken."""
    plain = _FIELD.sub(" ", message.text)
    telling = _telling(plain)
    if len(telling) < 2:
        telling = _telling(_FIELD.sub(lambda found: found[0].strip("{}").replace("_", " "), message.text))
    telling = telling or ["message"]
    for count in range(5, 9):
        yield "-".join(telling[:count])
    where = (
        message.sites[0].split(":")[0].removesuffix(".py").removesuffix("/__init__").split("/")[-1].replace("_", "-")
    )
    base = "-".join([*telling[:5], "in", *[where]])
    yield base
    for number in count_from(2):
        yield f"{base}-{number}"


def _telling(text: str) -> list[str]:
    words = re.findall(r"[a-z0-9]+", re.sub(r"'s?(?=t?\b)", "", text.lower()))
    return [word for word in words if word not in SMALL]


def main(path: Path = SNAPSHOT) -> int:
    """Write the snapshot anew."""
    messages = renewed(read_snapshot(path), find_messages())
    path.write_text("".join(one.line() + "\n" for one in messages), encoding="utf-8")
    print(f"{path.relative_to(ROOT)}: {len(messages)} messages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
