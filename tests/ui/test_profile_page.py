"""The page of profiles in a real Chromium, from a file, without a network."""

from __future__ import annotations

import sys

import pytest

from edgewise.report.document.page import MOST_PRESSED
from report_pages import render_profile_html
from sample_profiles import FORMULA, LONG, faster_run, many_layers_run, profiled_run, unprofiled_run

LAYERS = "table.opening"
"""The table of layers."""

RUNS = {
    "one": [profiled_run()],
    "two": [profiled_run(), faster_run()],
    "many": [many_layers_run()],
    "none": [unprofiled_run()],
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    for name, runs in RUNS.items():
        (folder / f"{name}.html").write_text(render_profile_html(runs), encoding="utf-8")
    return folder


@pytest.fixture
def visit(open_quietly, pages):
    """Opens one of `RUNS`."""
    return lambda name: open_quietly(pages / f"{name}.html")


def numbers(page, part="tbody:first-of-type"):
    return page.locator(f"{LAYERS} > {part} > tr > td:first-child").all_inner_texts()


@pytest.mark.parametrize("name", RUNS)
def test_pages_open_offline_and_do_not_scroll_sideways(visit, name):
    page = visit(name)
    for opened in (False, True):
        page.locator("details").evaluate_all(f"all => all.forEach((one) => (one.open ||= {str(opened).lower()}))")
        for width in (375, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_overview_fits_a_narrow_screen(visit):
    page = visit("one")
    page.set_viewport_size({"width": 400, "height": 900})
    box = page.get_by_role("region", name="Overview").first
    assert box.evaluate("(box) => box.scrollWidth <= box.clientWidth")


def test_layers_are_sorted_by_headings_and_overheads_stay_below(visit):
    page = visit("one")
    assert numbers(page) == ["0", "2", "3", "5", "6", "8", "7"]
    head = page.locator(LAYERS).get_by_role("button", name="Time (µs)").first
    head.click()
    assert numbers(page) == ["8", "6", "5", "3", "2", "0", "7"]
    assert page.locator(f"{LAYERS} th[aria-sort=ascending]").count() == 1
    head.click()
    assert numbers(page) == ["0", "2", "3", "5", "6", "8", "7"]
    page.locator(LAYERS).get_by_role("button", name="#").focus()
    page.keyboard.press("Enter")
    assert numbers(page) == ["0", "2", "3", "5", "6", "7", "8"]
    assert numbers(page, "tbody.foot")[:3] == ["+", "+", "+"]


def test_the_filter_says_what_it_leaves_and_its_sum(visit):
    page = visit("one")
    page.get_by_label("Filter").fill("conv 64")
    assert page.locator(f"{LAYERS} tr[data-words]:visible").count() == 0
    page.get_by_label("Filter").fill("conv RELU")
    assert page.locator(f"{LAYERS} tr[data-words]:visible").count() == 3
    assert page.locator(".filter output").inner_text() == "3 of 10 rows: 750 µs, 75.0 %"
    page.get_by_label("Filter").fill("")
    assert page.locator(f"{LAYERS} tr[data-words]:visible").count() == 10


def test_rows_open_with_what_is_known_of_a_layer(visit):
    page = visit("one")
    row = page.locator("#layer-1-2")
    assert not row.locator("dl").is_visible()
    row.locator("summary").click()
    assert LONG in row.locator("dl").inner_text()
    assert "b 1×64×?×w float32" in row.locator("dl").inner_text()


def test_hostile_names_are_text(visit):
    page = visit("one")
    names = page.locator(f"{LAYERS} summary").all_inner_texts()
    assert """conv "one" </td><script>alert(1)</script> & 'two'""" in names
    assert FORMULA in names
    assert page.locator("script").count() == 1
    assert page.locator("#layer-1-0 dd", has_text="<b>bold</b>").count() == 1
    assert page.locator("b", has_text="bold").count() == 0


def test_charts_lead_to_the_rows_of_their_layers(visit):
    pytest.importorskip("vl_convert")
    page = visit("one")
    assert page.locator("figure").count() == 4
    mark = page.locator("figure [data-layer='3']").first
    mark.scroll_into_view_if_needed()
    mark.hover()
    assert page.locator("#tip").inner_text().split("\n") == [
        "pw1", "Conv +1", "200 ± 4 µs · 20.0 %", "4.00 M MACs", "67 % of its roof, bound by compute",
    ]  # fmt: skip
    mark.click()
    assert page.locator("#layer-1-3.chosen details[open]").count() == 1
    page.mouse.move(0, 0)
    assert page.locator("#tip").is_hidden()


def test_findings_lead_to_their_layers(visit):
    page = visit("one")
    finding = page.locator("table", has=page.get_by_role("columnheader", name="Saves")).locator("tbody tr").first
    assert finding.locator("td").first.inner_text() == "at most 225 µs"
    finding.locator("a").first.click()
    page.wait_for_selector("#layer-1-2.chosen")


def test_two_engines_are_compared_after_the_tables_of_each(visit):
    page = visit("two")
    titles = [title.partition(":")[0] for title in page.locator("main h2").all_inner_texts()]
    assert titles[0] == "Overview" and titles.index("Engine against engine") > titles.index("Layers by time")
    assert page.locator("header p").nth(1).inner_text().startswith("least latency: openvino/cpu; onnxruntime/cpu takes")
    rows = page.locator("table", has_text="Engine against engine").locator("tbody tr").all_inner_texts()
    assert rows[0].split() == ["pw1", "faster", "Conv", "200", "±", "4", "100", "±", "31", "-100", "0.500"]
    assert page.locator(LAYERS).count() == 2
    identities = page.locator("[id]").evaluate_all("all => all.map((one) => one.id)")
    assert len(identities) == len(set(identities))


def test_long_tables_begin_with_twenty_rows(visit):
    page = visit("many")
    rows = page.locator(f"{LAYERS} tr[data-words]")
    shown = page.locator(f"{LAYERS} tr[data-words]:visible")
    assert rows.count() == 60
    assert shown.count() < 25
    page.get_by_role("button", name="Show all 60 rows").first.click()
    assert shown.count() == 60
    page = visit("many")
    page.get_by_label("Filter").fill("conv")  # looks at all of them
    assert page.get_by_role("button", name="Show all 60 rows").count() < 2
    assert shown.count() > 0


def test_a_run_without_a_profile_says_why(visit):
    assert visit("none").get_by_text("litert 9.9 is not a version whose profiler is known").is_visible()


def test_charts_follow_the_scheme(visit):
    pytest.importorskip("vl_convert")
    page = visit("one")
    for scheme, colour in (("light", "rgb(47, 111, 208)"), ("dark", "rgb(110, 162, 242)")):
        page.emulate_media(color_scheme=scheme)
        blue = page.locator("figure svg [fill='var(--series-1)']").first
        assert blue.evaluate("element => getComputedStyle(element).fill") == colour


def test_it_reads_without_scripts(browser, pages):
    context = browser.new_context(java_script_enabled=False, offline=True)
    page = context.new_page()
    page.goto((pages / "one.html").as_uri())
    page.locator("#layer-1-2 summary").click()
    assert page.locator("#layer-1-2 dl").is_visible()
    assert page.locator(".filter").is_hidden()
    context.close()


@pytest.mark.long
def test_a_long_table_opens_how_its_numbers_are_known_and_keeps_its_place(open_quietly, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    path = tmp_path / "long.html"
    path.write_text(render_profile_html([many_layers_run(count=MOST_PRESSED + 1)]), encoding="utf-8")
    page = open_quietly(path)
    assert page.locator(f"{LAYERS} td button").count() == 0
    assert page.locator("[popover]").count() < 20
    page.get_by_role("button", name="Show all").first.click()
    cell = page.locator(f"{LAYERS} tbody tr").nth(200).locator("td.number").nth(1)
    cell.scroll_into_view_if_needed()
    place = page.evaluate("scrollY")
    cell.click()
    assert "Time of a layer" in page.locator(":popover-open").inner_text()
    page.keyboard.press("Escape")
    assert page.locator(":popover-open").count() == 0 and page.evaluate("scrollY") == place
    page.locator(LAYERS).get_by_role("button", name="How MACs is known").press("Enter")
    assert "counted from the shapes" in page.locator(":popover-open").inner_text()
