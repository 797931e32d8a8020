"""What a step can be told: values from YAML, flags or Python, checked once and made canonical.

A canonical value is JSON-shaped and reads back as itself. YAML is read without guessing types, so a number may come as
text. A fraction such as ``1/255`` stays text: dividing by 255 and multiplying by 0.00392… differ in the last bit.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgewise.errors import BadInput
from edgewise.text import one_line

if TYPE_CHECKING:
    from edgewise.evaluating.dataset import Kind

MAX_SIDE = 16_384
"""Pixels of an image's side that a step may make."""
MAX_FRAMES = 2**27
"""Frames of audio, or elements of an axis."""
MAX_VALUES = 4096
"""Values of a list: channels."""
MAX_RATE = 768_000
"""Frames per second."""

_FRACTION = re.compile(r"\s*([-+]?[0-9.eE+]+)\s*/\s*([-+]?[0-9.eE+]+)\s*")
_WORD_CHARACTERS = 80


class Refused(Exception):
    """A value that a setting does not take.

    Args:
        possible: what it takes, in words.
    """

    def __init__(self, possible: str) -> None:
        super().__init__(possible)
        self.possible = possible


Parse = Callable[[Any], Any]
"""A value as written → its canonical form. Raises `Refused`."""

REQUIRED: Any = object()
"""The default of a setting that must be given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One setting of a step.

    Attributes:
        parse: reads a value.
        default: what holds where it is left out, canonical; `REQUIRED`: it can't be.
        meaning: for people.
    """

    parse: Parse
    default: Any = REQUIRED
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepKind:
    """A kind of step.

    Attributes:
        name: in YAML and flags.
        summary: what it does, one line.
        main: the setting that a bare value stands for (``resize: 256``); None where it takes no bare value.
        settings: by name.
        takes: kinds of data that it can work on.
        gives: the kind of the data after it; None: as before.
        real: it says how integers become real numbers.
        build: canonical settings → what to do to an `Item`. Raises `BadInput` for settings that contradict each other
            and `Unavailable` for a package that is not there.
    """

    name: str
    summary: str
    main: str | None = None
    settings: Mapping[str, Choice]
    takes: tuple[Kind, ...]
    gives: Kind | None = None
    real: bool = False
    build: Callable[[Mapping[str, Any]], Action]


@dataclass(slots=True, kw_only=True)
class Item:
    """A sample on its way to one input; steps change it in place.

    Attributes:
        data: an array, or text.
        sample: what messages call the sample.
        input: name of the input that it is for.
        alone: whether that is the model's only input.
        rate: frames per second of audio.
        channels: axis of an image's channels (−1 last, 0 first); None where nobody knows.
        stored: (width, height) of the image as stored; None where it is none.
        pixels: (width, height) of the image now; None where it is none, or pixels were moved in a way that scale and
            offset can't tell.
        scale, offset: so far: pixel now = pixel as stored × scale + offset, (x, y); coordinates are of the edges of
            pixels, so that an image spans 0 to its width.
    """

    data: Any
    sample: str
    input: str
    alone: bool = True
    rate: int | None = None
    channels: int | None = None
    stored: tuple[int, int] | None = None
    pixels: tuple[int, int] | None = None
    scale: tuple[float, float] = (1.0, 1.0)
    offset: tuple[float, float] = (0.0, 0.0)


Action = Callable[[Item], None]
"""Does a step to one sample. Raises `CorruptSample` where this sample is at fault, `BadInput` for anything else."""


def make_settings(kind: StepKind, raw: Any, where: str) -> dict[str, Any]:
    """Canonical settings of one step, defaults included.

    Args:
        raw: a bare value, a mapping, or None (or "") for none at all.
        where: what messages call the step, such as ``digits.yaml: step 2 of 'image', resize``.

    Raises:
        BadInput: a setting that is unknown, missing or refused: which, and what is possible.
    """
    if raw is None or (isinstance(raw, str) and not raw.strip()):
        raw = {}
    elif not isinstance(raw, Mapping):
        if kind.main is None:
            raise BadInput(f"{where} takes no bare value: {show(raw)}", advice=_describe(kind))
        raw = {kind.main: raw}
    for key in raw:
        if key not in kind.settings:
            known = suggest(str(key), kind.settings)
            raise BadInput(f"{where} has no setting {show(key)}", advice=f"{known}; {_describe(kind)}")
    found = {}
    for name, choice in kind.settings.items():
        if name not in raw:
            if choice.default is REQUIRED:
                raise BadInput(f"{where} needs {name!r}: {choice.meaning}", advice=_describe(kind))
            found[name] = choice.default
            continue
        try:
            found[name] = raw[name] if _is_default(raw[name], choice) else choice.parse(raw[name])
        except Refused as refused:
            raise BadInput(f"{where}: {name} is {show(raw[name])}", advice=f"it takes {refused.possible}") from None
    return found


def _is_default(value: Any, choice: Choice) -> bool:
    return value is None and choice.default is None


def _describe(kind: StepKind) -> str:
    if not kind.settings:
        return f"{kind.name} has no settings"
    parts = [name if choice.default is REQUIRED else f"[{name}]" for name, choice in kind.settings.items()]
    return f"{kind.name} takes {', '.join(parts)}"


def suggest(word: str, known: Iterable[str]) -> str:
    """What someone may have meant, and all that there is."""
    names = [name for name in known if name]
    near = difflib.get_close_matches(word, names, n=1)
    listed = f"possible: {', '.join(names)}" if names else "there are none"
    return f"did you mean {near[0]!r}? {listed}" if near else listed


def show(value: Any) -> str:
    """A value as it was written, on one short line."""
    text = one_line(repr(value) if isinstance(value, str) else str(value))
    return text if len(text) <= _WORD_CHARACTERS else text[: _WORD_CHARACTERS - 1] + "…"


def split(value: Any) -> list[Any]:
    """A list, or text with commas, as a list; one value as a list of one."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",")]
    return list(value) if isinstance(value, list | tuple) else [value]


def to_number(value: Any) -> float:
    """The real number that a canonical number stands for."""
    if isinstance(value, str):
        above, below = value.split("/")
        return float(above) / float(below)
    return float(value)


def number(value: Any) -> Any:
    """A finite number, or a fraction as text: ``0.5``, ``"1/255"``."""
    possible = "a number such as 0.5 or a fraction such as 1/255"
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise Refused(possible)
    try:
        fraction = _FRACTION.fullmatch(value) if isinstance(value, str) else None
        if fraction is not None:
            above, below = (float(part) for part in fraction.groups())
            if math.isfinite(above) and math.isfinite(below) and below and math.isfinite(above / below):
                return "/".join(fraction.groups())
            raise Refused(possible)
        found = float(value)
    except (ValueError, OverflowError):
        raise Refused(possible) from None
    if not math.isfinite(found):
        raise Refused("a finite number")
    return int(found) if found.is_integer() and abs(found) < 2**53 else found


def divisor(value: Any) -> Any:
    """A number other than 0."""
    found = number(value)
    if to_number(found) == 0:
        raise Refused("a number other than 0")
    return found


def several(each: Parse) -> Parse:
    """A parser of one value or a list of values, one per channel; always a list."""

    def parse(value: Any) -> list[Any]:
        parts = split(value)
        if not 1 <= len(parts) <= MAX_VALUES:
            raise Refused(f"one value, or one per channel (at most {MAX_VALUES})")
        return [each(part) for part in parts]

    return parse


def whole(low: int, high: int) -> Parse:
    """A parser of whole numbers within bounds."""

    def parse(value: Any) -> int:
        try:
            if isinstance(value, bool) or (isinstance(value, str) and len(value) > 32):
                raise ValueError
            found = int(value)
            if isinstance(value, float) and found != value:
                raise ValueError
        except (ValueError, TypeError, OverflowError):
            raise Refused(f"a whole number from {low} to {high}") from None
        if not low <= found <= high:
            raise Refused(f"a whole number from {low} to {high}")
        return found

    return parse


def wholes(low: int, high: int, most: int) -> Parse:
    """A parser of lists of whole numbers."""
    one = whole(low, high)

    def parse(value: Any) -> list[int]:
        parts = split(value)
        if not 1 <= len(parts) <= most:
            raise Refused(f"1 to {most} whole numbers")
        return [one(part) for part in parts]

    return parse


_SIDE = whole(1, MAX_SIDE)


def height_width(value: Any) -> list[int]:
    """``[height, width]``; one number is both."""
    parts = split(value)
    if len(parts) not in (1, 2):
        raise Refused("a number of pixels, or height,width")
    sides: list[int] = [_SIDE(part) for part in parts]
    return sides * 2 if len(sides) == 1 else sides


def side_or_size(value: Any) -> int | list[int]:
    """One number, or ``[height, width]``, each meaning something else."""
    parts = split(value)
    if len(parts) not in (1, 2):
        raise Refused("a number of pixels, or height,width")
    sides: list[int] = [_SIDE(part) for part in parts]
    return sides[0] if len(sides) == 1 else sides


def one_of(*words: str) -> Parse:
    """A parser of one of some words."""

    def parse(value: Any) -> str:
        found = str(value).strip().lower()
        if found not in words:
            near = difflib.get_close_matches(found, words, n=1)
            raise Refused(" or ".join(words) + (f"; did you mean {near[0]!r}?" if near else ""))
        return found

    return parse


def yes_no(value: Any) -> bool:
    """``true`` or ``false``."""
    words = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
    found = words.get(str(value).strip().lower())
    if found is None:
        raise Refused("true or false")
    return found


def positive(value: Any) -> Any:
    """A number above 0."""
    found = number(value)
    if to_number(found) <= 0:
        raise Refused("a number above 0")
    return found


def not_negative(value: Any) -> Any:
    """A number of 0 or more."""
    found = number(value)
    if to_number(found) < 0:
        raise Refused("a number of 0 or more")
    return found


def text(value: Any) -> str:
    """Text of at most 4096 characters."""
    if not isinstance(value, str) or not value.strip() or len(value) > 4096 or "\0" in value:
        raise Refused("the name of a file")
    return value
