"""Steps are pydantic models of their settings, read from YAML, flags or Python; a wrong setting is one clear error.

A canonical setting is JSON-shaped and reads back as itself. YAML is read without guessing types, so a number may come
as text. A fraction such as ``1/255`` stays text: dividing by 255 and multiplying by 0.00392… differ in the last bit.
"""

from __future__ import annotations

import difflib
import math
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_args, get_origin

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

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
_SHOWN_CHARACTERS = 80
_NUMBER = "a number such as 0.5 or a fraction such as 1/255"


@dataclass(slots=True, kw_only=True)
class Item:
    """A sample on its way to one input; steps change it in place.

    Attributes:
        data: an array, or text.
        sample: its name in messages.
        input: name of the input that it is for.
        alone: whether that is the model's only input.
        rate: frames per second of audio.
        channels: axis of an image's channels (−1 last, 0 first); None where unknown.
        stored: (width, height) of the image as stored; None for anything else.
        pixels: (width, height) of the image now; None where it is no image, or pixels were moved in a way that scale
            and offset can't express.
        scale, offset: so far: pixel now = pixel as stored × scale + offset, (x, y); coordinates are of the edges of
            pixels, so that an image spans 0 to its width.
        changes: what was changed or cut off, for the record of the sample.
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
    changes: list[str] = field(default_factory=list)


class Step(BaseModel):
    """A step of the preparation: its fields are its settings, its docstring describes it.

    Attributes:
        name: in YAML and flags.
        main: the setting that a bare value sets (``resize: 256``); None where it takes no bare value.
        takes: kinds of data that it works on.
        gives: the kind of the data after it; None: as before.
        real: whether it turns integers into real numbers.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    name: ClassVar[str] = ""
    main: ClassVar[str | None] = None
    takes: ClassVar[tuple[Kind, ...]] = ()
    gives: ClassVar[Kind | None] = None
    real: ClassVar[bool] = False

    def __init_subclass__(
        cls,
        *,
        name: str = "",
        main: str | None = None,
        takes: tuple[Kind, ...] = (),
        gives: Kind | None = None,
        real: bool = False,
    ) -> None:
        super().__init_subclass__()
        cls.name, cls.main, cls.takes, cls.gives, cls.real = name, main, takes, gives, real

    def apply(self, item: Item) -> None:
        """Change the sample `item` in place.

        Raises:
            CorruptSample: this sample can't be used.
            BadInput: no such sample can be.
        """
        self._apply(item)

    def check(self) -> None:
        """Raise `BadInput` for settings that contradict each other, `Unavailable` where a package is missing."""
        self._check()

    @abstractmethod
    def _apply(self, item: Item) -> None: ...

    def _check(self) -> None: ...

    @classmethod
    def settings(cls) -> dict[str, FieldInfo]:
        """Return the settings by their names in YAML."""
        return {field.alias or name: field for name, field in cls.model_fields.items()}

    def to_document(self) -> dict[str, Any]:
        """Return the settings, defaults included, JSON-shaped."""
        return self.model_dump(by_alias=True)

    def is_default(self, key: str, value: Any) -> bool:
        """Return whether a setting need not be written."""
        setting = self.settings()[key]
        return not setting.is_required() and bool(value == setting.default)

    def describe(self) -> str:
        """Return the step in a few words, without settings at their default: ``resize 224,224``."""
        words = [self.name]
        for key, value in self.to_document().items():
            if not self.is_default(key, value):
                shown = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
                words.append(shown if key == self.main else f"{key}={shown}")
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class Accepts:
    """Metadata of a setting's type: the values that it accepts, in words."""

    words: str


def accepted(annotation: Any, metadata: Iterable[Any] = ()) -> str:
    """Return the values that a type accepts, in words: from `Accepts`, bounds or a `Literal`, the outermost first."""
    flat = [inner for each in metadata for inner in (each.metadata if isinstance(each, FieldInfo) else [each])]
    words = [each.words for each in flat if isinstance(each, Accepts)]
    if words:
        return str(words[-1])
    bounds = [getattr(each, bound) for bound in ("ge", "le") for each in flat if hasattr(each, bound)]
    if bounds:
        return "a whole number from {} to {}".format(*bounds)
    if get_origin(annotation) is Literal:
        return " or ".join(get_args(annotation))
    inner = getattr(annotation, "__metadata__", ())
    return next(filter(None, (accepted(each, inner) for each in get_args(annotation))), "")


def parse_settings(kind: type[Step], raw: Any, where: str) -> Step:
    """Return a step with its settings.

    Args:
        raw: a bare value, a mapping, or None (or "") for none at all.
        where: the step in messages, such as ``digits.yaml: step 2 of 'image', resize``.

    Raises `BadInput`: an unknown, missing or invalid setting: which, and what is possible.
    """
    if raw is None or (isinstance(raw, str) and not raw.strip()):
        raw = {}
    elif not isinstance(raw, Mapping):
        if kind.main is None:
            raise BadInput(f"{where} takes no bare value: {show(raw)}", advice=_describe(kind))
        raw = {kind.main: raw}
    known = kind.settings()
    for key in raw:
        if key not in known:
            advice = f"{suggest(str(key), known)}; {_describe(kind)}"
            raise BadInput(f"{where} has no setting {show(key)}", advice=advice)
    try:
        return kind.model_validate({key: _not_a_bool(value) for key, value in raw.items()})
    except ValidationError as error:
        details = error.errors(include_url=False)
    setting = str(details[0]["loc"][0])
    field = known[setting]
    if details[0]["type"] == "missing":
        raise BadInput(f"{where} needs {setting!r}: {field.description}", advice=_describe(kind))
    possible = next((str(each["ctx"]["error"]) for each in details if each["type"] == "value_error"), None)
    possible = possible or accepted(field.annotation, field.metadata)
    near = difflib.get_close_matches(str(raw[setting]), possible.split(" or "), n=1)
    raise BadInput(
        f"{where}: {setting} is {show(raw[setting])}",
        advice=f"it takes {possible}" + (f"; did you mean {near[0]!r}?" if near else ""),
    )


def _describe(kind: type[Step]) -> str:
    parts = [name if field.is_required() else f"[{name}]" for name, field in kind.settings().items()]
    return f"{kind.name} takes {', '.join(parts)}" if parts else f"{kind.name} has no settings"


def suggest(word: str, known: Iterable[str]) -> str:
    """Return the nearest of the known words, and all of them."""
    names = [name for name in known if name]
    near = difflib.get_close_matches(word, names, n=1)
    listed = f"possible: {', '.join(names)}" if names else "there are none"
    return f"did you mean {near[0]!r}? {listed}" if near else listed


def show(value: Any) -> str:
    """Return a value as it was written, on one short line."""
    text = one_line(repr(value) if isinstance(value, str) else str(value))
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"


def to_number(value: Any) -> float:
    """Return the value of a canonical number."""
    if isinstance(value, str):
        above, below = value.split("/")
        return float(above) / float(below)
    return float(value)


# Validators raise ValueError with the words for what they accept.


def _not_a_bool(value: Any) -> Any:
    """Return a bool as text: it is not a number, although pydantic takes it for one."""
    return str(value) if isinstance(value, bool) else value


def _split(value: Any) -> list[Any]:
    """Return a list, or text with commas, as a list; one value as a list of one."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",")]
    parts = list(value) if isinstance(value, list | tuple) else [value]
    return [_not_a_bool(part) for part in parts]


def _read_number(value: Any) -> int | float | str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(_NUMBER)  # noqa: TRY004 - what pydantic turns into its own error
    try:
        fraction = _FRACTION.fullmatch(value) if isinstance(value, str) else None
        if fraction is not None:
            above, below = (float(part) for part in fraction.groups())
            if math.isfinite(above) and math.isfinite(below) and below and math.isfinite(above / below):
                return "/".join(fraction.groups())
            raise ValueError(_NUMBER)
        found = float(value)
    except (ValueError, OverflowError):
        raise ValueError(_NUMBER) from None
    if not math.isfinite(found):
        raise ValueError("a finite number")
    return int(found) if found.is_integer() and abs(found) < 2**53 else found


def _that(holds: Callable[[float], bool], words: str) -> AfterValidator:
    def check(value: Any) -> Any:
        if not holds(to_number(value)):
            raise ValueError(words)
        return value

    return AfterValidator(check)


Number = Annotated[int | float | str, BeforeValidator(_read_number), Accepts(_NUMBER)]
"""A finite number, or a fraction as text: ``0.5``, ``"1/255"``."""
Divisor = Annotated[Number, _that(lambda value: value != 0, "a number other than 0")]
Positive = Annotated[Number, _that(lambda value: value > 0, "a number above 0")]
NotNegative = Annotated[Number, _that(lambda value: value >= 0, "a number of 0 or more")]


def _of_channels(value: Any) -> list[Any]:
    parts = _split(value)
    if not 1 <= len(parts) <= MAX_VALUES:
        raise ValueError(f"one value, or one per channel (at most {MAX_VALUES})")
    return parts


Numbers = Annotated[list[Number], BeforeValidator(_of_channels), Accepts(_NUMBER)]
"""One number, or one per channel; always a list."""
Divisors = Annotated[list[Divisor], BeforeValidator(_of_channels), Accepts(_NUMBER)]


def _one_or_two(value: Any) -> list[Any]:
    parts = _split(value)
    if len(parts) not in (1, 2):
        raise ValueError("a number of pixels, or height,width")
    return parts


def _bare(value: Any) -> Any:
    parts = _one_or_two(value)
    return parts[0] if len(parts) == 1 else parts


_Side = Annotated[int, Field(ge=1, le=MAX_SIDE)]
HeightWidth = Annotated[list[_Side], BeforeValidator(lambda value: (_one_or_two(value) * 2)[:2])]
"""``[height, width]``; one number is both."""
SideOrSize = Annotated[_Side | Annotated[list[_Side], Field(min_length=2, max_length=2)], BeforeValidator(_bare)]
"""One number, or ``[height, width]``, each with its own meaning."""

AS_LIST = BeforeValidator(_split)
LOWER_CASE = BeforeValidator(lambda value: str(value).strip().lower())
YesNo = Annotated[bool, LOWER_CASE, Accepts("true or false")]
FileName = Annotated[str, Field(max_length=4096, pattern=r"^[^\x00]*\S[^\x00]*$"), Accepts("the name of a file")]
