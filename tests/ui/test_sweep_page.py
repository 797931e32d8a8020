"""The page of a sweep in a real Chromium, from a file, without a network."""

from __future__ import annotations

import pytest

from edgewise.report.document.page import render_document_page
from sample_sweeps import with_front


@pytest.fixture
def page(open_quietly, tmp_path):
    pytest.importorskip("vl_convert")
    path = tmp_path / "sweep.html"
    path.write_text(render_document_page(with_front().describe(), kind="sweep"), encoding="utf-8")
    return open_quietly(path)


def test_speed_against_accuracy_is_drawn_beside_the_tables_and_failures(page):
    assert page.locator("figure h3").all_inner_texts() == ["Latency against top-1 accuracy"]
    svg = page.locator("figure svg")
    assert svg.bounding_box()["width"] > 600
    assert set(svg.locator("text").all_text_contents()) >= {"on the front", "may be on the front", "behind the front"}
    assert page.locator("h2").all_inner_texts()[1:4] == ["Latency", "Top-1 accuracy", "Charts"]
    assert page.get_by_text("1: fast, fake, 1 thread").is_visible()
    assert page.get_by_text("broken on fake, 1 thread: it broke").is_visible()


@pytest.mark.parametrize("width", [400, 1400])
def test_it_scrolls_only_downwards(page, width):
    page.set_viewport_size({"width": width, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
