"""The pages of measured runs and of profiles, for tests of their words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edgewise.record import Run
from edgewise.report.bench.page import bench_page
from edgewise.report.document.page import render_document_page
from edgewise.report.profile.page import profile_page


def render_html(runs: Sequence[Run], **settings: Any) -> str:
    """The page of `runs`, with the `settings` of `bench_page`."""
    return render_document_page(bench_page(runs, **settings), kind="report")


def render_profile_html(runs: Sequence[Run], **settings: Any) -> str:
    """The page of profiles, with the `settings` of `profile_page`."""
    return render_document_page(profile_page(runs, **settings), kind="profile")
