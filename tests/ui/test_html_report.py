"""The page in a real Chromium, from a file, without a network."""

from __future__ import annotations

import pytest

from edgewise.report.runs.field_tables import Options
from report_pages import render_html
from sample_runs import all_runs


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(render_html(all_runs(), options=Options(reference="https://example.org/")), encoding="utf-8")
    return path


@pytest.fixture
def page(open_quietly, file):
    return open_quietly(file)


def column(page, number):
    return page.locator(f"table.sortable >> nth=0 >> css=tbody tr > :nth-child({number})").all_inner_texts()


def test_clicking_a_heading_sorts_with_what_is_not_known_last(page):
    head = page.get_by_role("button", name="Latency (ms)").first
    before = column(page, 2)
    head.click()
    assert column(page, 2) == [
        "openvino/cpu",
        "fake/cpu",
        "onnxruntime/cpu",
        "litert/interpreter",
        "litert/interpreter",
    ]
    assert column(page, 3)[-1].startswith("Unsupported")
    assert page.locator("th[aria-sort=ascending]").count() == 1
    head.click()
    assert column(page, 3)[0].startswith("2.10")
    assert column(page, 3)[-1].startswith("Unsupported")
    assert column(page, 2) != before
    page.get_by_role("button", name="Runtime").first.click()
    assert column(page, 2) == sorted(before)


def test_headings_sort_from_the_keyboard(page):
    page.get_by_role("button", name="Process peak (MiB)").first.focus()
    page.keyboard.press("Enter")
    assert column(page, 2)[0] == "fake/cpu"


def test_details_open_by_click_and_all_at_once(page):
    first = page.locator("details[id^=run-]").first
    assert not first.locator("table").first.is_visible()
    first.locator("summary").click()
    assert first.locator("table").first.is_visible()
    page.get_by_role("button", name="Open all").first.click()
    assert page.locator("details[id^=run-][open]").count() == 7
    page.get_by_role("button", name="Close all").first.click()
    assert page.locator("details[id^=run-][open]").count() == 0


def test_a_runs_link_opens_its_details(page):
    page.locator("table.sortable a", has_text="openvino/cpu").first.click()
    page.wait_for_selector("details[id^=run-][open]")
    assert page.locator("details[id^=run-][open] summary").inner_text().startswith("kws.onnx · openvino/cpu")


def test_charts_are_drawn_with_the_pages_colours_in_both_schemes(page):
    dots = page.locator("figure svg circle")
    assert dots.count() > 100
    for scheme, colour in (("light", "rgb(47, 111, 208)"), ("dark", "rgb(110, 162, 242)")):
        page.emulate_media(color_scheme=scheme)
        blue = page.locator("figure svg [fill='var(--series-1)']").first
        assert blue.evaluate("element => getComputedStyle(element).fill") == colour


def test_the_page_does_not_scroll_sideways(page):
    for width in (360, 768, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_paper_gets_every_detail(page):
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.locator("details[id^=run-][open]").count() == 0


def test_it_reads_without_scripts(browser, file):
    context = browser.new_context(java_script_enabled=False, offline=True)
    page = context.new_page()
    page.goto(file.as_uri())
    page.locator("details[id^=run-] summary").first.click()
    assert page.locator("details[id^=run-] table").first.is_visible()
    context.close()
