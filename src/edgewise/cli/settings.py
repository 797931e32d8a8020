"""How words on the command line become settings: comma lists, shapes, times, sizes."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from edgewise.errors import BadInput, Unavailable
from edgewise.record import Scenario, TargetSpec
from edgewise.units import parse_duration, parse_size

if TYPE_CHECKING:
    from edgewise.run.plan import Axes


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
    from edgewise.workload.sizes import parse_shape

    return dict(parse_shape(value) for value in values or ())


def seconds(value: str | None) -> float | None:
    """A duration such as ``5s`` or ``500ms``; None stays None."""
    return None if value is None else parse_duration(value)


def decibels(value: str | None) -> float | None:
    """``20dB`` or ``20``; None stays None. Raises `BadInput`."""
    if value is None:
        return None
    try:
        return float(value.strip().lower().removesuffix("db"))
    except ValueError:
        raise BadInput(f"--min-snr {value!r} is no amount in dB", advice="such as 20dB") from None


def axes(
    runtime: Sequence[str] | None,
    *,
    provider: Sequence[str] | None,
    threads: Sequence[str] | None,
    batch: Sequence[str] | None,
    precision: Sequence[str] | None,
    shape: Sequence[str] | None,
) -> Axes:
    """What to vary, from the words of the command line. Raises `BadInput`."""
    from edgewise.run.plan import Axes

    return Axes(
        runtimes=split_words(runtime),
        providers=split_words(provider),
        threads=split_numbers(threads, "--threads"),
        batches=split_numbers(batch, "--batch") or (1,),
        precisions=split_words(precision),
        shapes=split_shapes(shape),
    )


def scenario(
    kind: str, *, fps: float | None = None, streams: int | None = None, requests: int | None = None
) -> Scenario:
    """How inferences follow one another. Raises `BadInput` for an unknown `kind`."""
    from edgewise.record.job import ScenarioKind

    known = next((word for word in get_args(ScenarioKind) if word == kind), None)
    if known is None:
        raise BadInput(f"--scenario {kind!r} is unknown", advice="single-stream, offline or paced")
    return Scenario(kind=known, fps=fps, streams=streams, requests=requests)


def check_outputs(paths: Sequence[Path], check: Callable[..., None], *, overwrite: bool) -> None:
    """Refuse report files before measuring rather than after, with `check` of each and none named twice."""
    for index, path in enumerate(paths):
        check(path, overwrite=overwrite)
        if path in paths[:index]:
            raise BadInput(f"{path} is named twice as an output", advice="name each file once")


def target(device: str, *, memory_limit: int | None) -> TargetSpec:
    """Where to run. Raises `Unavailable` for a device that is not known here."""
    if device != "local":
        raise Unavailable(f"no device {device!r} is known here", advice="-d local is this machine")
    return TargetSpec(device=device, memory_limit_bytes=memory_limit)


def size(value: str | None) -> int | None:
    """A size such as ``2GiB``; None stays None."""
    return None if value is None else parse_size(value)


def read_share(text: str, flag: str) -> float:
    """``"3%"`` and ``"0.03"`` are both 0.03. Raises `BadInput` unless it is above 0 and at most 1000 %."""
    number, percent, rest = text.strip().partition("%")
    try:
        share = float(number) / 100.0 if percent else float(number)
    except ValueError:
        share = math.nan
    if rest.strip() or not 0.0 < share <= 10.0:
        raise BadInput(f"{flag} {text!r} is not a share above 0", advice=f"for example {flag} 3%")
    return share


def read_floors(words: Sequence[str]) -> dict[str, float]:
    """``["latency=1us", "memory_peak=2MiB"]`` → metric → SI value. Raises `BadInput`."""
    from edgewise.comparing.metrics import check_metric
    from edgewise.comparing.requirement import BARE
    from edgewise.metrics import METRICS

    floors: dict[str, float] = {}
    for word in words:
        name, equals, amount = word.partition("=")
        if not equals:
            raise BadInput(f"--floor {word!r} is not METRIC=AMOUNT", advice="for example --floor latency=1us")
        unit = METRICS[check_metric(name.strip())].unit
        if unit in ("s", "B") and BARE.fullmatch(amount):
            raise BadInput(f"--floor {word!r} has no unit", advice="for example --floor latency=1us")
        if unit == "s":
            floors[name.strip()] = parse_duration(amount)
        elif unit == "B":
            floors[name.strip()] = float(parse_size(amount))
        else:
            floors[name.strip()] = _read_number(amount, unit, word)
    return floors


def _read_number(amount: str, unit: str, word: str) -> float:
    try:
        value = float(amount.strip().removesuffix(unit).strip())
    except ValueError:
        value = math.nan
    if not 0.0 <= value < math.inf:
        raise BadInput(f"--floor {word!r}: {amount!r} is no amount in {unit}", advice=f"a number, in {unit}")
    return value


MAX_CASES = 1000


def split_what_if(values: Sequence[str] | None) -> list[dict[str, Any]]:
    """``["width=0.5,1", "layers=4"]`` → one mapping per combination; Python literals where they are, else words.

    A comma parts values only outside brackets and quotes. Raises `BadInput` for what is not NAME=VALUE.
    """
    axes: dict[str, list[Any]] = {}
    for value in values or ():
        name, equals, text = value.partition("=")
        if not equals or not name.strip().isidentifier():
            raise BadInput(f"--what-if {value!r} is not NAME=VALUE", advice="for example --what-if width=0.5")
        axes[name.strip()] = _read_values(text.strip())
    cases = math.prod(map(len, axes.values()))
    if cases > MAX_CASES:
        raise BadInput(f"--what-if asks for {cases} models, more than {MAX_CASES}", advice="give fewer values")
    return [dict(zip(axes, combination, strict=True)) for combination in product(*axes.values())]


def _read_values(text: str) -> list[Any]:
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return [_read_value(word) for word in text.split(",")]
    # A bare "1,2" reads as a tuple: several values. One in brackets is one value.
    return list(found) if isinstance(found, tuple) and not text.startswith("(") else [found]


def _read_value(word: str) -> Any:
    try:
        return ast.literal_eval(word.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return word.strip()
