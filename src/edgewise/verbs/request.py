"""What all requests share: the types of their fields, JSON, and paths."""

from __future__ import annotations

import ast
import json
import numbers
import operator
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, Self, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, ValidationInfo, model_validator

from edgewise.errors import BadField
from edgewise.folders import absolute_path
from edgewise.verbs.option import Option
from edgewise.verbs.shared_options import OUTPUTS, REPORTING

SCHEMA: Final = 1
"""Version of the requests' shape. Fields may be added; none changes its meaning within a version."""


def _whole(value: Any) -> Any:
    return operator.index(value) if hasattr(value, "__index__") and not isinstance(value, bool) else _refuse(value)


def _number(value: Any) -> Any:
    unit = " (seconds where it is a time)" if isinstance(value, str) else ""
    return _refuse(value, unit) if isinstance(value, bool | str) else value


def _refuse(value: Any, unit: str = "") -> Any:
    raise ValueError(f"must be a number{unit}, not {value!r}")


def _setting(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else str(value) if isinstance(value, int | float) else value


def _path(value: Any) -> Any:
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _written(value: Any) -> Any:
    """Return a keyword argument in JSON: as it is where JSON has it, else as Python writes it. Raises `ValueError`."""
    try:
        if repr(json.loads(json.dumps(value))) == repr(value) and not _is_python(value):
            return value
    except (TypeError, ValueError):
        pass
    text = repr(value)
    try:
        if ast.literal_eval(text) == value:
            return {"python": text}
    except (ValueError, SyntaxError):
        pass
    raise ValueError(f"{text} can't be written")


def _read_written(value: Any, info: ValidationInfo) -> Any:
    return ast.literal_eval(value["python"]) if info.context == FROM_JSON and _is_python(value) else value


FROM_JSON = {"from": "json"}
"""The context in which a written request is read."""


def _is_python(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {"python"} and isinstance(value["python"], str)


Whole = Annotated[int, BeforeValidator(_whole)]
Number = Annotated[float, BeforeValidator(_number), Field(allow_inf_nan=False)]
FilePath = Annotated[str, BeforeValidator(_path)]
Texts = tuple[str, ...]
Settings = dict[str, Annotated[str, BeforeValidator(_setting)]]
Shapes = dict[str, tuple[Whole, ...]]
Argument = Annotated[Any, BeforeValidator(_read_written), PlainSerializer(_written, when_used="json")]
Case = dict[str, Argument]


class Request(BaseModel):
    """Base of all requests. What a field is for, its option says; times are in s, and sizes in bytes.

    Attributes:
        schema_version: ``schema`` in JSON.
        verb: the command that does the same.
        PATHS: the fields that hold paths.
        OTHER_OPTIONS: options that fill no field: those about output, and what the verb's `reader` reads.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)
    PATHS: ClassVar[tuple[str, ...]] = ()
    OTHER_OPTIONS: ClassVar[tuple[Option, ...]] = (OUTPUTS, *REPORTING)

    schema_version: Literal[1] = Field(default=SCHEMA, alias="schema")
    verb: str

    @model_validator(mode="before")
    @classmethod
    def _one_as_several(cls, fields: Any, info: ValidationInfo) -> Any:
        """`fields`, in Python with a number or a text for a sequence as a sequence of one."""
        if info.context == FROM_JSON:
            return fields
        several = {name for name, each in cls.model_fields.items() if get_origin(each.annotation) is tuple}
        alone = (str, numbers.Number, os.PathLike)
        return {name: (value,) if name in several and isinstance(value, alone) else value
                for name, value in fields.items()}  # fmt: skip

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.check()
        return self

    def check(self) -> None:
        """Reject values that can't be used, alone or together. Raises `BadInput`."""

    def in_effect(self) -> Request:
        """Return the request that is carried out in its place: another one where only that can be done on the
        device.
        """
        return self

    def to_document(self) -> dict[str, Any]:
        """Return the request as JSON; `read_request` reads it. Raises `BadField` for factory arguments that
        JSON lacks.
        """
        try:
            return self.model_dump(mode="json", by_alias=True)
        except ValueError as error:  # pydantic's PydanticSerializationError:
            raise BadField(
                "an argument in ⟦cases⟧ can't be written to a request", advice="numbers, text, lists and tuples can"
            ) from error

    def changed_fields(self) -> dict[str, Any]:
        """Return the fields that are not at their defaults, but for schema and verb."""
        found = {}
        for field, info in type(self).model_fields.items():
            value = getattr(self, field)
            if field not in ("schema_version", "verb") and (
                info.is_required() or value != info.get_default(call_default_factory=True)
            ):
                found[field] = value
        return found

    def check_formats(self, formats: Mapping[str, str]) -> None:
        """Reject files that can't be used, before they are read.

        Args:
            formats: names of the files → their formats.
        """

    @property
    def fields_with_paths(self) -> tuple[str, ...]:
        """Those of `PATHS` that hold paths in this request."""
        return self.PATHS

    @property
    def functions(self) -> tuple[str, ...]:
        """The functions that this request calls, ``FILE.py:function`` or ``module:function``: they run code."""
        from edgewise.model.callable_loader import is_factory

        return tuple(
            one for field in self.fields_with_paths for one in _several(getattr(self, field)) if is_factory(one)
        )

    def with_paths_from(self, folder: Path) -> Self:
        """Return the same with absolute paths; those that are relative count from `folder`."""
        return self._with_paths(lambda text: absolute(text, folder))

    def with_changed_paths(self, change: Callable[[str], str]) -> Self:
        """Return the same with each path as `change` makes it; of functions in files it gets ``FILE.py``."""
        return self._with_paths(lambda text: _on_path(text, change))

    def _with_paths(self, change: Callable[[str], str]) -> Self:
        changed = self._with_files_in_words(change)
        for field in self.fields_with_paths:
            value = getattr(self, field)
            if isinstance(value, tuple):
                changed[field] = tuple(map(change, value))
            elif value is not None:
                changed[field] = change(value)
        return self.model_copy(update=changed)

    def _with_files_in_words(self, change: Callable[[str], str]) -> dict[str, Any]:
        """Return the fields whose words name files, such as a tokenizer, with each path as `change` makes it."""
        fields = ("prepare", "task_options", "data_options")
        given = {name: value for name in fields if (value := getattr(self, name, ()))}
        if getattr(self, "data", None) in self.functions:
            given.pop("data_options", None)  # arguments of a function
        if not given:
            return {}
        from edgewise.evaluating.instructions import change_flags, change_options  # it takes 0.2 s to import

        return {
            name: change_flags(value, change) if name == "prepare" else change_options(value, change)
            for name, value in given.items()
        }


def _several(value: Any) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else () if value is None else (value,)


def absolute(text: str, folder: Path) -> str:
    """Return the path in `text` made absolute; ``FILE.py:function`` and ``hf:FOLDER`` hold one, ``module:function``
    none.
    """
    from edgewise.model.callable_loader import is_factory

    def from_folder(path: str) -> str:
        if path == text and is_factory(path) and not (folder / path).exists():
            return path
        return str(absolute_path(folder / Path(path).expanduser()))

    return _on_path(text, from_folder)


def _on_path(text: str, change: Callable[[str], str]) -> str:
    """`text` with its path as `change` makes it."""
    if text.startswith("hf:"):
        return "hf:" + _on_path(text.removeprefix("hf:"), change)
    code, _, name = text.rpartition(":")
    return f"{change(code)}:{name}" if code.endswith(".py") else change(text)
