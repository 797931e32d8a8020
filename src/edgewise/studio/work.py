"""The process of one job: ``python -m edgewise.studio.work FOLDER``.

It reads ``request.json`` in FOLDER, carries it out, and leaves the folder ``result`` there, whole or not at all. Its
standard output has messages (`edgewise.studio.jobs.messages`). A byte on standard input cancels the job; its end, which
is the server's, ends this process and what it started.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from edgewise.cancellation import CancelToken
from edgewise.errors import BadInput, EdgewiseError, ExitCode, StoreError, name_fields
from edgewise.progress import Event
from edgewise.run.sandbox import die_with_host
from edgewise.studio.jobs.messages import End, LogLines, Message, Reporter, line_of
from edgewise.terminal.progress import ProgressLines
from edgewise.verbs.presentation import Ending, Presentation
from edgewise.verbs.verb import VERBS

FILES = (".json", ".html", ".md", ".csv", ".xml", ".txt")
"""Extensions of the files of a result; a verb may lack some, but not the first."""

_LOG_WIDTH = 160


def main(folder: Path) -> int:
    """Carry the job out."""
    die_with_host()  # the end of standard input is seen late where a library holds the interpreter's lock
    control, stream = os.dup(0), os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what libraries print is no message
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    lock = threading.Lock()

    def say(message: Message) -> None:
        with lock:
            stream.write(line_of(message))

    token = CancelToken()
    threading.Thread(target=_obey, args=(control, token), daemon=True).start()
    say(_without_folders(carry_out(folder, say, token), folder).to_message())
    return 0


def _without_folders(end: End, folder: Path) -> End:
    """Return `end` as a browser shows it: of a file its name, not where it lies on this machine."""
    from edgewise.store.redaction import redact_paths
    from edgewise.verbs.reading import read_request

    paths = [folder / "x"]
    with contextlib.suppress(EdgewiseError, OSError, ValueError):
        request = read_request(json.loads((folder / "request.json").read_bytes()))
        for field in request.fields_with_paths:
            value = getattr(request, field)
            paths += map(Path, [value] if isinstance(value, str) else value or ())
    return replace(end, message=redact_paths(end.message, paths), advice=redact_paths(end.advice, paths))


def _obey(control: int, token: CancelToken) -> None:
    while os.read(control, 1):
        token.cancel()
    os.killpg(0, signal.SIGKILL)


def carry_out(folder: Path, say: Callable[[Message], None], token: CancelToken) -> End:
    """How the job in `folder` ended."""
    from edgewise.verbs.context import Context
    from edgewise.verbs.reading import read_request
    from edgewise.verbs.verb import carry_out as carry_out_request

    log = LogLines(say)
    # Rich only writes to the file and flushes it, and the log has these two.
    console = Console(file=log, width=_LOG_WIDTH, highlight=False, emoji=False)  # type: ignore[arg-type]
    lines, reporter = ProgressLines(console), Reporter(say)

    def progress(event: Event, /) -> None:
        lines(event)
        reporter(event)

    context = Context(
        progress=progress,
        cancel=token,
        on_saved=lambda run: say({"kind": "saved", "id": run.id}),
        on_unsaved=lambda error, runs: say({"kind": "log", "text": f"{len(runs)} runs not saved: {error.message}"}),
    )
    try:
        document = json.loads((folder / "request.json").read_bytes())
        request = read_request(document).in_effect()
        presentation = VERBS.get(request.verb).presentation()
        result = carry_out_request(request, context)
        with contextlib.redirect_stderr(log):
            write_result(result, presentation, folder, extensions=(*FILES, *presentation.more_files))
        for note in presentation.notes(result):
            say({"kind": "log", "text": note})
        ending = presentation.ending(result, kept=True)
        _label_fields([*ending.problems, *ending.shown], request.verb)
        return end_of(ending)
    except KeyboardInterrupt:
        message = "cancelled before anything was finished"
        return End(status="cancelled", exit_code=ExitCode.INTERRUPTED, message=message)
    except EdgewiseError as error:
        _label_fields([error], document["verb"])
        return End.failed(error)
    except Exception as error:  # whatever it is, the job's page shows it
        traceback.print_exc(file=log)
        message = f"internal error: {type(error).__name__}: {error}"
        return End.failed(EdgewiseError(message, advice="report the log of this job"))


def write_result(result: Any, presentation: Presentation[Any], folder: Path, *, extensions: Sequence[str]) -> None:
    """Write the files of a result, and ``part.html``, into the folder ``result`` in `folder`: all of them or none.

    Raises `BadInput` where there is nothing to write, `StoreError` where the disk is full.
    """
    from edgewise.report.document.page import as_part

    new, place = folder / ".result", folder / "result"
    try:
        for old in (new, place):
            shutil.rmtree(old, ignore_errors=True)
        new.mkdir()
        for extension in extensions:
            try:
                presentation.check_file(new / f"result{extension}", overwrite=False)
                presentation.write(result, new / f"result{extension}", overwrite=False)
            except BadInput:
                if extension == extensions[0]:
                    raise
        if (new / "result.html").exists():
            with as_part():
                presentation.write(result, new / "part.html", overwrite=False)
        new.rename(place)
    except OSError as error:
        raise StoreError(
            f"can't write {place}: {error.strerror}", advice="free some space, and run it again"
        ) from error
    finally:
        shutil.rmtree(new, ignore_errors=True)


def end_of(ending: Ending) -> End:
    """Return the end of a job whose result, which is written, ended so."""
    if ending.interrupted:
        return End(status="cancelled", exit_code=ending.code, message="cancelled: what was finished is below")
    if errors := (*ending.problems, *ending.shown):
        return End.failed(*errors, exit_code=ending.code)
    return End(status="done", exit_code=ending.code)  # with the code of its verdict: that of a gate


def _label_fields(errors: Sequence[EdgewiseError], verb: str) -> None:
    """Call the fields of `errors` as the form of `verb` does."""
    from edgewise.studio.forms import maker_of

    if form := maker_of(verb):
        for error in errors:
            name_fields(error, form.name_field)


if __name__ == "__main__":
    place = Path(sys.argv[1])
    sys.argv[:] = ["edgewise", "serve"]  # the name of this process for others that wait for the device
    raise SystemExit(main(place))
