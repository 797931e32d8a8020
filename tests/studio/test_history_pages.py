"""The list of runs and the page of one in Chromium: by keyboard, with and without scripts."""

from __future__ import annotations

import pytest

from made_runs import HOSTILE, made_run
from sample_runs import make_run, run_id


@pytest.fixture(scope="module")
def filled(serve):
    it = serve()
    for number in range(1, 61):
        it.store.save(made_run(number, model=HOSTILE if number == 60 else f"net{number % 3}.onnx"))
    it.store.save(make_run(99))
    return it


def test_a_filter_narrows_the_list_and_ticked_runs_can_be_compared(open_page, filled):
    page = open_page("/runs", at=filled)
    page.get_by_role("searchbox", name="Model").fill("net1")
    page.get_by_role("button", name="Filter").press("Enter")
    page.wait_for_url("**/runs?model=net1*")
    boxes = page.locator("input[name=run]")
    assert boxes.count() == 20
    compare = page.get_by_role("button", name="Compare")
    assert compare.count() == 0
    lying = "(bar) => getComputedStyle(bar).position"
    assert page.locator(".actions").evaluate(lying) == "static"  # over no row before there is something to do
    boxes.nth(0).check()
    assert compare.is_disabled()
    assert page.locator(".actions").evaluate(lying) == "sticky"
    boxes.nth(1).check()
    assert compare.is_enabled()
    assert page.locator("#how-many").inner_text() == "With the 2 ticked:"
    page.locator("#tick-all").check()
    assert page.locator("input[name=run]:checked").count() == 20


def test_a_number_is_opened_and_closed_by_keyboard(open_page, filled):
    page = open_page(f"/runs/{run_id(99)}", at=filled)
    value = page.locator(".numbers").get_by_role("button", name="420 µs")
    value.focus()
    page.keyboard.press("Enter")
    more = page.locator("#m0")
    assert more.is_visible()
    assert "0.000409 to 0.000431 s" in more.inner_text()
    page.keyboard.press("Escape")
    assert not more.is_visible()
    assert value.evaluate("it => it === document.activeElement")
    page.goto(f"{filled.url}/runs/{run_id(99)}#m0")
    more.wait_for(state="visible")
    page.locator("#part svg").first.wait_for(state="attached")
    assert page.locator("#part table thead th").count() > 0


def test_numbers_open_and_runs_are_sorted_without_scripts(open_page, filled):
    page = open_page("/runs", at=filled, java_script_enabled=False)
    page.get_by_role("link", name="Result").click()
    assert "sort=result" in page.url
    page.goto(f"{filled.url}/runs/{run_id(99)}")
    page.locator(".numbers").get_by_role("button", name="420 µs").click()
    assert page.locator("#m0").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("#m0").is_visible()


def test_paper_has_the_runs_and_no_controls(open_page, filled):
    page = open_page("/runs", at=filled)
    page.emulate_media(media="print")
    for control in (".filters", ".facet", ".columns", ".pages", ".actions"):
        assert page.locator(control).count() and not page.locator(control).first.is_visible(), control
    assert page.locator("table.runs").is_visible()
