"""The page of measured runs, for tests of its words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edgewise.record import Run
from edgewise.report.bench_page import bench_page
from edgewise.report.document_html import render_document_page


def render_html(runs: Sequence[Run], **settings: Any) -> str:
    """The page of `runs`, with the `settings` of `bench_page`."""
    return render_document_page(bench_page(runs, **settings), kind="report")
