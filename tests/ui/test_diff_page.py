"""The page of a difference by layer in a real Chromium, from a file, without a network."""

from __future__ import annotations

import pytest

from edgewise.verbs.diff.presentation import FORMAT as DIFF
from sample_diffs import diffed


@pytest.fixture
def page(open_quietly, tmp_path):
    file = tmp_path / "diff.html"
    DIFF.write(diffed(), file, overwrite=False)
    page = open_quietly(file)
    page.wait_for_selector("#graph-stage[data-drawn]:not([aria-busy])")
    return page


def told(page):
    return page.locator("#graph-told").text_content()


def test_the_graph_shows_what_each_layer_loses_and_why_one_is_not_known(page):
    assert page.locator(".brand").inner_text().casefold() == "edgewise diff"
    assert page.get_attribute("#graph-stage", "data-metric") == "loss"
    assert page.get_attribute("#graph-stage", "data-layout") == "graph"
    page.fill("#graph-search", "conv1")
    page.press("#graph-search", "Enter")
    assert told(page).startswith("Conv1, Conv. Loss: 30.0 dB.")
    worst = page.get_attribute("#graph-stage", "data-colour")
    page.fill("#graph-search", "conv0")
    page.press("#graph-search", "Enter")
    assert told(page).startswith("Conv0, Conv. Loss: 0.0 dB.")
    assert page.get_attribute("#graph-stage", "data-colour") != worst
    page.select_option("#graph-metric", "snr")
    page.fill("#graph-search", "add0")
    page.press("#graph-search", "Enter")
    assert "integers without one scale" in told(page)


def test_the_table_is_sorted_by_a_press_on_its_heading(page):
    for _ in range(2):
        page.locator("table.sortable thead th:nth-child(4) button").first.click()
    losses = page.locator("table.sortable tbody tr td:nth-child(4)").all_inner_texts()
    assert "30.0" in losses[0]
