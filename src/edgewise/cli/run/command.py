"""``edgewise run``: carry out a request that was written down."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

from edgewise.cli.verb import output_of, perform
from edgewise.errors import BadField, BadInput
from edgewise.folders import check_place
from edgewise.terminal.console import err
from edgewise.text import one_line
from edgewise.verbs import shared_options as options
from edgewise.verbs.command import takes
from edgewise.verbs.option import Values, argument, option
from edgewise.verbs.shared_options import OUTPUT
from edgewise.verbs.verb import named_for_python

MOST_BYTES = 16 * 2**20
OPTIONS = (
    argument(
        "request", "Output of 'edgewise COMMAND … --dry-run --json'; - reads standard input.", str, metavar="FILE"
    ),
    options.TOP,
    options.OUTPUTS.worded("Also write a report, in a format of the request's command; repeatable"),
    option(
        "--outcome F",
        OUTPUT,
        "Also write how the request ended, as JSON that 'edgewise sweep' collects",
        Path,
    ),
    *options.REPORTING,
)


@takes(*OPTIONS)
def command(values: Values) -> int:
    """Carry out a request written by --dry-run --json, with the output and exit code of the command that wrote it.

    Relative paths in the request count from its file's folder, or from the current folder for standard input.
    """
    from edgewise.verbs.outcome import carry_out_and_note
    from edgewise.verbs.reading import read_request

    name = values["request"]
    try:
        with named_for_python():
            request = read_request(_read(name))
            if name != "-":
                request = request.with_paths_from(Path(name).absolute().parent)
            if functions := request.functions:
                err().print(f"this request runs code: {one_line(', '.join(functions))}", soft_wrap=True, markup=False)
            output, outcome = output_of(values), values["outcome"]
            if outcome is None:
                return perform(request, output)
            check_place(outcome, overwrite=output.force, example="outcome.json")
            return perform(request, output, partial(carry_out_and_note, outcome))
    except BadField as error:  # is named as in the request, not as a flag
        raise BadInput(error.message, advice=error.advice) from error


def _read(name: str) -> Any:
    """Return the JSON document. Raises `BadInput`."""
    try:
        with sys.stdin.buffer if name == "-" else Path(name).open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise BadInput(f"{name} is too large for a request", advice="a request has some kilobytes")
        return json.loads(content)
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not JSON"
        raise BadInput(
            f"can't read the request {name}: {reason}", advice="'edgewise bench MODEL --dry-run --json' writes one"
        ) from error
