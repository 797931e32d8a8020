"""Results in Python: the interpreter and a notebook show one as the command line prints it, and it gives its rows."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any, Protocol

from edgewise.errors import Unavailable


class Presenter(Protocol):
    """What shows results."""

    def text_of(self, result: Any) -> str:
        """Return `result` as the command line prints it."""

    def html_of(self, result: Any) -> str:
        """Return `result` as a notebook shows it."""

    def rows_of(self, result: Any) -> list[dict[str, Any]]:
        """Return the rows of its CSV file."""

    def write(self, result: Any, path: str | os.PathLike[str], *, overwrite: bool) -> None:
        """Write it as a file."""


class Shown:
    """Base class of results."""

    __slots__ = ()

    def __repr__(self) -> str:
        return object.__repr__(self) if presenter is None else presenter().text_of(self)

    def _repr_html_(self) -> str:
        return _presenter().html_of(self)

    def to_frame(self) -> Any:
        """Return `as_rows` as a ``DataFrame`` of pandas or, where that is not installed, of Polars.

        Columns that say nothing in any row are left out: no value is known, or both ends of an interval are the value.

        Raises:
            Unavailable: neither is installed.
        """
        rows = _without_empty(self.as_rows())
        with suppress(ImportError):
            return import_module("pandas").DataFrame(rows)
        with suppress(ImportError):
            return import_module("polars").DataFrame(rows, infer_schema_length=None)
        raise Unavailable("neither pandas nor Polars is installed", advice="pip install pandas, or use as_rows()")

    def as_rows(self) -> list[dict[str, Any]]:
        """Return a dictionary for each row of the result's CSV table, for ``pandas.DataFrame(result.as_rows())``.

        The keys are the same words for every result, those of JSON and of ``edgewise runs export``: ``model``,
        ``runtime``, ``threads``; of a layer ``index``, ``name``, ``op``. A metric has its id with its SI unit:
        ``latency (s)``; ``latency (s) low`` and ``latency (s) high`` are the ends of its interval. Numbers are at full
        precision; None stands for a value that is not known, whose reason is in ``notes``.

        Runs that are not profiled have one dictionary each, with keys that are the same for every bench.
        """
        return _presenter().rows_of(self)

    def write(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write a report: a page (``.html``), Markdown (``.md``), a table (``.csv``) or all data (``.json``).

        Raises:
            BadInput: for another extension, a file that exists, or one that can't be written.
        """
        _presenter().write(self, path, overwrite=overwrite)


def _without_empty(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows with the keys that have a value in one of them, and both ends of intervals that have a width."""
    kept: set[str] = set()
    for row in rows:
        for key, value in row.items():
            of = key.removesuffix(" low").removesuffix(" high")
            if value not in (None, "") and (of == key or value != row.get(of)):
                kept |= {key} if of == key else {f"{of} low", f"{of} high"}
    return [{key: value for key, value in row.items() if key in kept} for row in rows]


presenter: Callable[[], Presenter] | None = None
"""`edgewise.api` sets it, since reports stand above the results that they show."""


def _presenter() -> Presenter:
    if presenter is None:
        import_module("edgewise.api")
    assert presenter is not None
    return presenter()
