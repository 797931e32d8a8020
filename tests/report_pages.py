"""The pages of measured runs and of profiles, for tests of their words."""

from __future__ import annotations

from collections.abc import Sequence
from html.parser import HTMLParser
from typing import Any

from edgewise.record import Run
from edgewise.report.bench.page import bench_page
from edgewise.report.document.page import render_document_page
from edgewise.report.profile.page import profile_page

VOID = {"meta", "br", "hr", "img", "input", "link", "wbr"}


def render_html(runs: Sequence[Run], **settings: Any) -> str:
    """The page of `runs`, with the `settings` of `bench_page`."""
    return render_document_page(bench_page(runs, **settings), kind="report")


def render_profile_html(runs: Sequence[Run], **settings: Any) -> str:
    """The page of profiles, with the `settings` of `profile_page`."""
    return render_document_page(profile_page(runs, **settings), kind="profile")


class Outline(HTMLParser):
    """Elements, attributes and text; fails on tags that don't nest."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.attributes, self.texts = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("script", "style"):
            self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())
