"""The process of one job of a lab: ``python -m edgewise.verbs.lab.child FOLDER KEY``.

It carries out ``request.json`` in FOLDER. It leaves its runs in ``runs.jsonl`` and its outcome in ``outcome-KEY.json``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from edgewise.errors import EdgewiseError, StoreError
from edgewise.record import Run
from edgewise.run.sandbox import die_with_host
from edgewise.store.codec import encode
from edgewise.verbs.context import Context
from edgewise.verbs.optimize.presentation import leave_reports
from edgewise.verbs.optimize.request import OptimizeRequest
from edgewise.verbs.outcome import PREFIX, carry_out_and_note
from edgewise.verbs.reading import read_request

RUNS = "runs.jsonl"


def main(folder: Path, key: str) -> None:
    """Carry the job out; it ends with the worker."""
    die_with_host()
    with (folder / RUNS).open("w", encoding="ascii") as file:

        def keep(run: Run) -> None:
            file.write(f"{encode(run)}\n")
            file.flush()

        request = read_request(json.loads((folder / "request.json").read_bytes()))
        try:
            result = carry_out_and_note(folder / f"{PREFIX}{key}.json", request, Context(save=keep))
            if isinstance(request, OptimizeRequest) and request.folder:
                leave_reports(result, Path(request.folder))
        except StoreError as error:
            sys.exit(error.message)
        except EdgewiseError:  # which is noted
            pass


if __name__ == "__main__":
    words = sys.argv[1:]
    sys.argv[:] = ["edgewise", "lab"]  # the name of this process for others that wait for the device
    main(Path(words[0]), words[1])
