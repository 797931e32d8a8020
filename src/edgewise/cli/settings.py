"""How words on the command line become settings: comma lists, shapes, times, sizes."""

from __future__ import annotations

from collections.abc import Sequence

from edgewise.errors import BadInput
from edgewise.units import parse_duration, parse_size


def split_words(values: Sequence[str] | None) -> list[str]:
    """``["a,b", "c"]`` → ``["a", "b", "c"]``; a flag may be repeated or take a comma list."""
    return [word.strip() for value in values or () for word in value.split(",") if word.strip()]


def split_numbers(values: Sequence[str] | None, flag: str) -> list[int]:
    """The same for whole numbers. Raises `BadInput` naming `flag`."""
    numbers = []
    for word in split_words(values):
        try:
            numbers.append(int(word))
        except ValueError:
            raise BadInput(f"{flag} {word!r} is not a whole number", advice=f"for example {flag} 1,2") from None
    return numbers


def split_shapes(values: Sequence[str] | None) -> dict[str, tuple[int, ...]]:
    """``NAME=1x3x224x224``, repeated; without a name for a model with one input."""
    from edgewise.workload.inputs import parse_shape

    return dict(parse_shape(value) for value in values or ())


def seconds(value: str | None) -> float | None:
    """A duration such as ``5s`` or ``500ms``; None stays None."""
    return None if value is None else parse_duration(value)


def size(value: str | None) -> int | None:
    """A size such as ``2GiB``; None stays None."""
    return None if value is None else parse_size(value)
