"""Files for others say nothing of where things lie here, nor who works here."""

from __future__ import annotations

import html
import json
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath, PureWindowsPath

from edgewise.record import Run
from edgewise.store.codec import encode, from_document

_ESCAPED = r"(?<=\\[nrt])"
"""After a line's end as JSON writes it: a path may begin there."""
_USERS = re.compile(
    rf"(?:(?:(?<![\w.~-])|{_ESCAPED})/(?:home|Users)/|\b[A-Za-z]:\\{{1,2}}Users\\{{1,2}})[^/\\\s\"'<>&,;]+"
)


def redact_paths(text: str, paths: Iterable[str | Path] = ()) -> str:
    """`text` of a file with relative paths: the user's folder is ``~``, the folders of `paths` are left out.

    Args:
        text: of any format; paths in it may be written as JSON or HTML writes them.
        paths: of models, wherever they lay.
    """
    folders = {str(_pure(path).parent) for path in paths if _pure(path).is_absolute()}
    here = {str(Path.cwd()), tempfile.gettempdir()}
    for folder in sorted(folders | here, key=len, reverse=True):
        text = _replace(text, folder, "")
    return _USERS.sub("~", _replace(text, str(Path.home()), "~/"))


def redact_run_paths(text: str, runs: Iterable[Run]) -> str:
    """Return `text` with the folders of the runs' model files removed, as `redact_paths` does."""
    return redact_paths(text, {run.job.model.path for run in runs})


def redact_run(run: Run) -> Run:
    """`run` as it may leave this machine: nothing in it says where its model lies."""
    return from_document(json.loads(redact_run_paths(encode(run), [run])))


def _pure(path: str | Path) -> PurePosixPath | PureWindowsPath:
    text = str(path)
    return PureWindowsPath(text) if re.match(r"[A-Za-z]:\\", text) else PurePosixPath(text)


def _replace(text: str, folder: str, word: str) -> str:
    """`text` with `word` for `folder` and the separator after it, and the folder's own name where nothing follows."""
    if len(_pure(folder).parts) < 2:
        return text
    own = word.rstrip("/") or _pure(folder).name
    for form in {folder, json.dumps(folder)[1:-1], json.dumps(folder, ensure_ascii=False)[1:-1], html.escape(folder)}:
        if form in text:
            pattern = rf"(?:(?<![\w.~/-])|{_ESCAPED}){re.escape(form)}(?:([/\\]+)|(?![\w-]|\.\w))"
            text = re.sub(pattern, lambda match: word if match[1] else own, text)
    return text
