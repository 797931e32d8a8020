"""A child process that applies one pass to its tasks, one after the other. It may crash, hang or use all memory.

``python -m edgewise.optimizing.pass_worker`` reads the tasks from standard input and writes a line of JSON per result
to standard output. What libraries print on standard output goes to standard error.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from edgewise.errors import BadInput, Unavailable
from edgewise.optimizing.base import PassResult, PassTask
from edgewise.optimizing.libraries import CannotApply
from edgewise.registry import load_class
from edgewise.run.sandbox import die_with_host, limit_memory
from edgewise.runtime.arrays import tell
from edgewise.text import means_out_of_memory

DISK_ERRORS = frozenset({errno.EFBIG, errno.ENOSPC, errno.EDQUOT})


def main() -> int:
    """Apply the pass to each task and write each result as soon as it is there."""
    channel = open_channel()
    request = json.load(sys.stdin)
    limit_memory(request["memory_limit"])
    one = load_class(request["pass"])()
    for fields in request["tasks"]:
        begin = time.monotonic()
        answer = apply(one, read_task(fields))
        channel.write(json.dumps({**answer, "seconds": time.monotonic() - begin}) + "\n")
        channel.flush()
    return 0


def open_channel() -> TextIO:
    """Return standard output for answers alone: what is printed goes to standard error. The process ends with its
    parent.
    """
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    die_with_host()
    return channel


def apply(one: Any, task: PassTask[Any]) -> dict[str, Any]:
    """Fields of a `PassResult`, JSON-shaped, whatever the pass raises."""
    task.folder.mkdir(parents=True, exist_ok=True)
    try:
        result: PassResult = one.apply(task)
        if not result.unchanged and (result.model is None or not result.model.is_file()):
            name = "" if result.model is None else result.model.name
            return {"cause": "failed", "reason": f"the pass made no file {name}".rstrip()}
        return {
            "model": str(result.model),
            "notes": [str(note) for note in result.notes],
            "versions": {str(name): str(version) for name, version in result.versions.items()},
            "unchanged": result.unchanged,
        }
    except (CannotApply, BadInput, Unavailable) as error:
        return {"cause": "unsuitable", "reason": error_line(error)}
    except MemoryError:
        return {"cause": "memory", "reason": "there was not enough memory"}
    except OSError as error:
        cause = "disk" if error.errno in DISK_ERRORS else "failed"
        return {"cause": cause, "reason": f"{error.strerror or error}"}
    except Exception as error:  # libraries raise anything
        cause = "memory" if means_out_of_memory(str(error)) else "failed"
        reason = f"{type(error).__name__}: {error_line(error)}"
        return {"cause": cause, "reason": reason}


def read_task(fields: Mapping[str, Any]) -> PassTask[Any]:
    """Return the task from its JSON shape (`edgewise.optimizing.pass_runner.write_task`)."""
    settings = fields["settings"]
    return PassTask(
        **{**fields, "settings": load_class(settings["type"])(**settings["values"]), "folder": Path(fields["folder"])}
        | {name: tuple(fields[name]) for name in ("keep_float", "only")}
        | {name: None if fields[name] is None else Path(fields[name]) for name in ("calibration", "weights")}
        | {"shapes": {name: tuple(shape) for name, shape in fields["shapes"].items()}}
    )


def error_line(error: BaseException) -> str:
    """Return the message of an error in one printable line."""
    return tell(str(error)) if str(error).strip() else type(error).__name__


if __name__ == "__main__":
    sys.exit(main())
