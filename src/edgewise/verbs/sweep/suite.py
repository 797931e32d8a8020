"""A suite: which verb is carried out for which models, where and with which settings, as a YAML file says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema

from edgewise.errors import BadInput
from edgewise.safe_yaml import lines_of, parse_value, read_text
from edgewise.verbs import words
from edgewise.verbs.checking import describe_problem

Place = tuple[str | int, ...]
AXES = ("model", "device", "runtime", "threads", "precision")


def _several(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


# A file is read as text; what people write, and editors check, are numbers and truth values as well.
_SCALAR: Any = {"type": ["string", "number", "boolean"]}
_SEVERAL: Any = {"anyOf": [_SCALAR, {"type": "array", "items": _SCALAR}]}
Texts = Annotated[tuple[str, ...], BeforeValidator(_several), WithJsonSchema(_SEVERAL)]
Numbers = Annotated[tuple[Annotated[int, Field(ge=1)], ...], BeforeValidator(_several), WithJsonSchema(_SEVERAL)]
Text = Annotated[str, WithJsonSchema(_SCALAR)]


class Suite(BaseModel):
    """The content of a suite.

    Attributes:
        verb: what is done in each cell.
        models: paths, patterns such as ``models/*.tflite``, ``zoo:NAME`` or ``zoo:NAME@WIDTH`` of a reference network.
        devices, runtimes, threads, precisions: what is varied, as the verb's options take it; without runtimes every
            cell is measured on all that read the model.
        options: further options of the verb by their names without dashes, as the command line takes their values.
        include: each sets options of the cells that have its axes, or adds a cell where none has.
        exclude: cells that have all of an entry's axes are left out; values may be patterns.
        limits: metric → largest value, or smallest of a metric where more is better; values beyond are marked.
        repeats: how often each cell is carried out.
        order: of the cells of a device: ``random`` (by `seed`) or ``listed``.
        schedule: name → when a lab queues all cells again, as five fields of cron in UTC.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    verb: str = "bench"
    models: Annotated[Texts, Field(min_length=1)]
    devices: Annotated[Texts, Field(min_length=1)] = ("local",)
    runtimes: Texts = ()
    threads: Numbers = ()
    precisions: Texts = ()
    options: dict[str, Texts] = Field(default_factory=dict)
    include: tuple[dict[str, Texts], ...] = ()
    exclude: tuple[dict[str, Text], ...] = ()
    limits: dict[str, Text] = Field(default_factory=dict)
    repeats: int = Field(default=1, ge=1, le=1000)
    order: Literal["random", "listed"] = "random"
    seed: int = 0
    schedule: dict[Annotated[str, Field(min_length=1, max_length=64)], Text] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteFile:
    """A suite, and its file with its text."""

    suite: Suite
    path: Path
    text: str

    @property
    def limits(self) -> Mapping[str, float]:
        """The limits in SI units. Raises `BadInput`, which names the line."""
        found: dict[str, float] = {}
        for metric, text in self.suite.limits.items():
            try:
                found |= words.limits([f"{metric}={text}"])
            except BadInput as error:
                raise self.error(("limits", metric), *error.marked) from None
        return found

    def error(self, place: Place, message: str, advice: str = "") -> BadInput:
        """Return an error that names the line of a value, or of the innermost value around it."""
        lines = lines_of(self.text, self.path.name)
        while place and place not in lines:
            place = place[:-1]
        return BadInput(f"{self.path.name}, line {lines.get(place, 1)}: {message}", advice=advice)


def read_suite(path: Path) -> SuiteFile:
    """Return the suite in a file. Raises `BadInput`, which names the line."""
    text = read_text(path)
    found = parse_value(text, path.name)
    if not isinstance(found, dict):
        raise BadInput(f"{path.name} is no suite: it is not a mapping", advice="begin it with 'models: [model.onnx]'")
    try:
        return SuiteFile(suite=Suite(**found), path=path, text=text)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        place = tuple(problem["loc"])
        name = ".".join(map(str, place))
        if problem["type"] == "extra_forbidden":
            message, advice = f"{name!r} is not part of a suite", f"one of: {', '.join(Suite.model_fields)}"
        elif problem["type"] == "int_parsing":
            message, advice = f"{name} must be a whole number, not {problem['input'][:60]!r}", ""
        else:
            message = f"{name} {describe_problem(problem['type'], problem['msg'], problem.get('input'))}"
            advice = "docs/sweep.md has the parts of a suite"
        raise SuiteFile(suite=Suite.model_construct(), path=path, text=text).error(place, message, advice) from None
