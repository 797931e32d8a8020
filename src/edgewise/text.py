"""Words from anywhere, made fit to be printed, and the words that tell things apart."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
"""How a formula begins; spreadsheets take the wide signs too."""
_SPECIAL = re.compile(r"[\\`*<>\[\]|~$#!&]")
# GitHub makes no emphasis of an underscore between two word characters.
_UNDERSCORE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
_LEADING = re.compile(r"^(\d+)([.)])(?=\s|$)|^([-+=])")
_NO_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def one_line(text: str) -> str:
    """`text` with every run of white space and control characters made one space: names and errors are hostile."""
    cleaned = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(cleaned.split())


def first_line(error: BaseException, limit: int = 200) -> str:
    """Return the first line with text of an error's message, at most `limit` characters; its type without a message."""
    lines = (line.strip() for line in str(error).splitlines())
    return next((line[:limit] for line in lines if line), type(error).__name__)


def for_csv(text: str) -> str:
    """`text` as one line that a spreadsheet does not take for a formula."""
    cleaned = one_line(text)
    return f"'{cleaned}" if cleaned.startswith(_FORMULA) else cleaned


def csv_text(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table as CSV that no spreadsheet takes for formulas."""
    import csv  # not for the worker, which has this module, too
    import io

    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(map(for_csv, heads))
    writer.writerows([for_csv(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)
    return buffer.getvalue()


def for_markdown(text: str) -> str:
    """`text` as one line that Markdown shows as it is."""
    cleaned = _UNDERSCORE.sub(r"\\_", _SPECIAL.sub(lambda match: "\\" + match[0], one_line(text)))
    # GitHub turns bare addresses and @names into links even where nobody asked for one.
    cleaned = cleaned.replace("://", ":&#47;&#47;").replace("www.", "www&#46;")
    cleaned = re.sub(r"@(?=\w)", "&#64;", cleaned)
    return _LEADING.sub(lambda match: f"{match[1]}\\{match[2]}" if match[1] else f"\\{match[3]}", cleaned)


def enumerate_few(words: Sequence[str], most: int = 4) -> str:
    """Return ``"a, b, c, d and 3 others"``: at most `most` of `words`, or one more where that is the last."""
    rest = len(words) - most
    if rest > 1:
        return f"{', '.join(words[:most])} and {rest} others"
    return listing(words)


def listing(words: Sequence[str], last: str = "and") -> str:
    """Return ``"A, B and C"``."""
    return f" {last} ".join(", ".join(part) for part in (words[:-1], words[-1:]) if part)


def plural(count: int, noun: str) -> str:
    """Return ``"1 thread"``, ``"2 threads"``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def shape_text(sizes: Iterable[int | str | None], by: str = "×") -> str:
    """Return ``"1×49×10×1"``; ``?`` for an open dimension without a name, "" for a scalar."""
    return by.join("?" if size is None else one_line(str(size)) for size in sizes)


def without_controls(text: str) -> str:
    """`text` with U+FFFD for every character that XML or UTF-8 can't hold: controls but tab and newline, surrogates."""
    return _NO_TEXT.sub("\ufffd", text)


def printable(text: str) -> str:
    """`text` with U+FFFD for every character that a terminal does not print, but newline and tab."""
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)


def tells_apart(chosen: Sequence[Sequence[str]], words: Sequence[str]) -> list[bool]:
    """Per thing: is there another one with the same words so far that differs in this one?

    Args:
        chosen: the words of each thing so far.
        words: one more word of each.
    """
    kinds: dict[tuple[str, ...], set[str]] = {}
    for own, word in zip(chosen, words, strict=True):
        kinds.setdefault(tuple(own), set()).add(word)
    return [len(kinds[tuple(own)]) > 1 for own in chosen]


# TensorFlow Lite says "failed to allocate tensors" of every graph that it can't prepare.
_OUT_OF_MEMORY = re.compile(
    r"bad_alloc|bad allocation|failed to allocate(?! tensors)|(cannot|can't|could not|unable to) allocate|"
    r"out of memory|not enough memory|memory allocation|memory exhausted|MemoryError|failed to map segment|"
    r"CL_MEM_OBJECT_ALLOC|CL_OUT_OF_(HOST_)?",
    re.IGNORECASE,
)


def means_out_of_memory(text: str) -> bool:
    """Whether what an engine, a library or the system printed or raised says that memory ran out."""
    return _OUT_OF_MEMORY.search(text) is not None


_DISK_FULL = re.compile(r"No space left on device|Disk quota exceeded|File too large")


def means_disk_full(text: str) -> bool:
    """Whether what an engine, a library or the system printed or raised says that a file has no room."""
    return _DISK_FULL.search(text) is not None
