"""Fields of requests as the flags of the command line, and a request as the command that does the same."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from edgewise.errors import BadField, EdgewiseError

if TYPE_CHECKING:
    from edgewise.service.request import Request

FLAGS = {
    "runtimes": "--runtime",
    "providers": "--provider",
    "batches": "--batch",
    "precisions": "--precision",
    "signatures": "--signature",
    "shapes": "--shape",
    "hash_weights": "--hash",
    "data_options": "--data-option",
    "task_options": "--task-option",
    "own_metrics": "--metric",
    "floors": "--floor",
    "folder": "--output",
    "cases": "--what-if",
    "model_names": "--models",
    "targets": "--target",
    "command": "the command",
}
"""Field → flag, where the flag is not called like the field."""
_COMMANDS = {"fits": ("estimate", "--fits"), "predict": ("estimate",), "suggest": ("calibrate",)}
"""Verb → the words that ask for it, where they are not the verb."""
_POSITIONAL = ("model", "models", "subjects", "candidate", "name")
_SECONDS = ("timeout", "sample", "duration", "spread", "sustained", "time_budget", "max_latency")
_BYTES = ("memory", "memory_limit", "max_size", "max_memory", "max_ram", "max_flash")
_REPEATED = ("also", "prepare", "keep_float", "passes", "own_metrics", "max_regression", "budget", "measurements")


def flag_of(field: str, value: str | None = None) -> str:
    """``--batch`` for the field ``batches``; with a value ``--batch 8``, ``--no-latency`` where that is ``False``."""
    if field in _POSITIONAL:
        return value or field.upper()
    flag = FLAGS.get(field, "--" + field.replace("_", "-"))
    if value == "False":
        return flag.replace("--", "--no-", 1)
    return flag if value in (None, "True") else f"{flag} {value}"


@contextmanager
def named_for_python() -> Iterator[None]:
    """Errors raised inside call fields as Python calls them, where parts below call them by their flags."""
    try:
        yield
    except BadField:
        raise
    except EdgewiseError as error:
        error.message, error.advice = (_FLAG.sub(_field_of, text) for text in (error.message, error.advice))
        error.args = (error.message,)
        raise


_VERBS = "bench|profile|compare|convert|estimate|evaluate|optimize|calibrate|gate|inspect|devices|doctor|exec|runs"
_FLAG = re.compile(rf"'edgewise [^']*'|\bedgewise (?:{_VERBS}) (?:[^,;]|,(?! ))*|(?<![\w-])--([a-z][a-z-]+)")
"""A flag, or a whole command line, in quotes or up to ", " or ";", whose flags keep their names."""


def _field_of(flag: re.Match[str]) -> str:
    if flag[1] is None:
        return flag[0]
    return next((field for field, name in FLAGS.items() if name == flag[0]), flag[1].replace("-", "_"))


def command_of(request: Request) -> str:
    """The line to type for what `request` asks for."""
    return shlex.join(["edgewise", *_COMMANDS.get(request.verb, (request.verb,)), *words_of(request)])


def words_of(request: Request, *, only: Sequence[str] = ()) -> list[str]:
    """What stands behind the verb on that line: the fields that are not at their defaults.

    Args:
        only: these fields; empty is all.
    """
    things: list[str] = []
    flags: list[str] = []
    command: list[str] = []
    for field, value in request.changed_fields().items():
        if only and field not in only:
            continue
        if field == "command":
            command = ["--", *value]
        elif field in _POSITIONAL:
            things += [str(one) for one in (value if isinstance(value, tuple) else [value])]
        elif isinstance(value, bool):
            flags.append(flag_of(field, str(value)))
        else:
            for text in _texts(field, value):
                flags += [flag_of(field), text]
    return things + flags + command


def _texts(field: str, value: Any) -> Iterator[str]:
    """The words of one field; each is given with its flag."""
    if field == "cases":
        for name in dict.fromkeys(name for case in value for name in case):
            yield f"{name}=" + ",".join(dict.fromkeys(repr(case[name]) for case in value))
    elif field == "min_snr":
        yield f"{value:g}dB"
    elif field in ("labels", "not_applied") or (field == "classes" and not isinstance(value, str)):
        return  # names that Python gave: no flag takes them
    elif field == "shapes":
        yield from (("" if not name else f"{name}=") + "x".join(map(str, shape)) for name, shape in value.items())
    elif field in ("floors", "targets"):
        from edgewise.metrics import METRICS

        yield from (f"{name}={number!r}{METRICS[name].unit}" for name, number in value.items())
    elif isinstance(value, Mapping):
        yield from (f"{name}={one}" for name, one in value.items())
    elif isinstance(value, tuple):
        yield from map(str, value) if field in _REPEATED else [",".join(map(str, value))]
    elif field in _SECONDS:
        yield f"{value:g}s" if float(f"{value:g}") == value else f"{value!r}s"
    elif field in _BYTES:
        yield f"{value}B"
    else:
        yield str(value)
