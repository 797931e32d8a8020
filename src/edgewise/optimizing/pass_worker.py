"""One fresh process that applies one pass, once or to one layer after the other: it may crash, hang or eat all memory.

``python -m edgewise.optimizing.pass_worker FOLDER``: ``FOLDER/work.json`` says what to do, one line of
``FOLDER/results.jsonl`` tells what came of each work. Whatever libraries print goes where the host points it.
"""

from __future__ import annotations

import errno
import json
import re
import sys
import time
import traceback
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from edgewise.errors import BadInput
from edgewise.optimizing.base import CannotApply, Product, Work
from edgewise.run.confinement import die_with_host, limit_memory
from edgewise.runtime.arrays import tell

DISK_ERRORS = frozenset({errno.EFBIG, errno.ENOSPC, errno.EDQUOT})
_OUT_OF_MEMORY = re.compile(r"bad_alloc|[Oo]ut of memory|allocate memory|[Nn]ot enough memory")
"""What libraries say that have no exception of their own for it."""


def main(folder: Path) -> int:
    """Do everything in ``work.json``, writing each result as soon as it is there."""
    die_with_host()
    request = json.loads((folder / "work.json").read_text())
    limit_memory(request["memory_limit"])
    module, _, name = request["pass"].partition(":")
    one = getattr(import_module(module), name)()
    with (folder / "results.jsonl").open("a", encoding="utf-8") as results:
        for fields in request["works"]:
            begin = time.monotonic()
            answer = _apply(one, read_work(fields))
            results.write(json.dumps({**answer, "seconds": time.monotonic() - begin}) + "\n")
            results.flush()
    return 0


def _apply(one: Any, work: Work) -> dict[str, Any]:
    work.folder.mkdir(parents=True, exist_ok=True)
    try:
        product: Product = one.apply(work)
        if not product.unchanged and not product.model.is_file():
            return {"cause": "failed", "reason": f"the pass made no file {product.model.name}"}
        return {
            "model": str(product.model),
            "notes": [str(note) for note in product.notes],
            "versions": {str(name): str(version) for name, version in product.versions.items()},
            "unchanged": product.unchanged,
        }
    except (CannotApply, BadInput) as error:
        return {"cause": "unsuitable", "reason": _line(error)}
    except MemoryError:
        return {"cause": "memory", "reason": "there was not enough memory"}
    except OSError as error:
        traceback.print_exc()
        cause = "disk" if error.errno in DISK_ERRORS else "failed"
        return {"cause": cause, "reason": f"{error.strerror or error}"}
    except Exception as error:  # somebody else's library may raise anything
        traceback.print_exc()
        cause = "memory" if _OUT_OF_MEMORY.search(str(error)) else "failed"
        return {"cause": cause, "reason": f"{type(error).__name__}: {_line(error)}"}


def read_work(fields: Mapping[str, Any]) -> Work:
    """The work in its JSON shape."""
    return Work(
        model=fields["model"],
        format=fields["format"],
        settings=fields["settings"],
        folder=Path(fields["folder"]),
        keep_float=tuple(fields["keep_float"]),
        only=tuple(fields["only"]),
        calibration=None if fields["calibration"] is None else Path(fields["calibration"]),
        seed=fields["seed"],
        threads=fields["threads"],
    )


def _line(error: BaseException) -> str:
    return tell(str(error)) if str(error).strip() else type(error).__name__


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
