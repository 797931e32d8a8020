"""What holds for every page: texts keep inside their charts, the keyboard gets everywhere, paper loses nothing."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import chromium
from edgewise.estimating.fits import Fits, Limits, rank
from edgewise.verbs.calibrate.presentation import FORMAT as CALIBRATIONS
from edgewise.verbs.compare.presentation import FORMAT as COMPARISON
from edgewise.verbs.diff.presentation import FORMAT as DIFF
from edgewise.verbs.estimate.presentation import FORMAT as ESTIMATES
from edgewise.verbs.evaluate.presentation import FORMAT as EVALUATION
from edgewise.verbs.fits.presentation import FORMAT as FITS
from edgewise.verbs.optimize.presentation import FORMAT as OPTIMIZATION
from edgewise.verbs.predict.presentation import FORMAT as FORECASTS
from estimates import estimated, on_board
from report_pages import render_html, render_profile_html
from sample_calibrations import calibration, forecasts
from sample_comparisons import four_variants
from sample_diffs import diffed
from sample_optimizations import found, two_models
from sample_profiles import faster_run, profiled_run
from sample_runs import all_runs

SQUARE = "语音唤醒模型_量化后的版本.onnx"


def runs_with_wide_names():
    """Those of `all_runs`, some under a name whose characters are as wide as high."""
    return [
        replace(run, job=replace(run.job, model=replace(run.job.model, name=SQUARE))) if place == 1 else run
        for place, run in enumerate(all_runs())
    ]


def estimated_once():
    """The estimate of a small network, whose model file is not needed any longer."""
    with TemporaryDirectory() as folder:
        return estimated(Path(folder))


def boards():
    """Boards with names as long as those of real ones."""
    names = ("mimxrt1060-evk", "arduino-portenta-h7", "stm32f746g-disco")
    return Fits(model={}, candidates=rank([on_board(name, ram=4000, latency=0.1) for name in names], Limits()))


PAGES = {
    "bench": lambda: render_html(runs_with_wide_names()),
    "profile": lambda: render_profile_html([profiled_run()]),
    "profiles": lambda: render_profile_html([profiled_run(), faster_run()]),
    "comparison": lambda: COMPARISON.render(four_variants(), ".html"),
    "evaluation": lambda: EVALUATION.render(two_models(), ".html"),
    "optimization": lambda: OPTIMIZATION.render(found(), ".html"),
    "calibration": lambda: CALIBRATIONS.render(calibration(), ".html"),
    "estimates": lambda: FORECASTS.render(forecasts(), ".html"),
    "fits": lambda: FITS.render(boards(), ".html"),
    "diff": lambda: DIFF.render(diffed(), ".html"),
    "estimate": lambda: ESTIMATES.render(estimated_once(), ".html"),
}
ELSEWHERE = """<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>/usr/share/fonts/truetype/dejavu</dir><cachedir>{}</cachedir></fontconfig>"""
OUTSIDE = """() => [...document.querySelectorAll("figure svg")].flatMap((svg) => {
  const around = svg.getBoundingClientRect();
  return [...svg.querySelectorAll("text")].filter((text) => {
    const box = text.getBoundingClientRect();
    return box.width && (box.left < around.left - 1 || box.right > around.right + 1 || box.top < around.top - 1
      || box.bottom > around.bottom + 1);
  }).map((text) => text.textContent);
})"""
OVERLAPPING = """() => [...document.querySelectorAll("figure svg")].flatMap((svg) => {
  const parts = [...svg.querySelectorAll(".role-legend-label text, .role-legend-symbol path")]
    .map((part) => [part.textContent, part.getBoundingClientRect()]);
  return parts.flatMap(([name, a], at) => parts.slice(at + 1).filter(([, b]) =>
    Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2).map(([other]) => [name, other]));
})"""
CONTRAST = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const light = (colours) => {
    canvas.clearRect(0, 0, 1, 1);
    for (const colour of colours) {
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
    }
    const parts = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((part) => part / 255);
    const linear = parts.map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  // What is under an element, the lowest first: some of it may be seen through.
  const grounds = (element) => element ? [...grounds(element.parentElement), getComputedStyle(element).backgroundColor]
    : ["rgb(255, 255, 255)"];
  const told = [...document.querySelectorAll("h1, h3, h4, td, th, li, p, dt, dd, figcaption")];
  return Math.min(...told.map((each) => {
    const [a, b] = [light([getComputedStyle(each).color]), light(grounds(each))].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  }));
}"""
"""The least contrast of words with what is under them (WCAG 2, relative luminance)."""
BROKEN_WORDS = """() => [...document.querySelectorAll("tbody th")].flatMap((head) => {
  const texts = document.createTreeWalker(head, NodeFilter.SHOW_TEXT), broken = [];
  while (texts.nextNode()) {
    for (const word of texts.currentNode.data.matchAll(/(?<![^\\s-])[^\\s-]{2,16}(?![^\\s-])/g)) {
      const range = document.createRange();
      range.setStart(texts.currentNode, word.index);
      range.setEnd(texts.currentNode, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map((box) => box.top)).size > 1) broken.push(word[0]);
    }
  }
  return broken;
})"""
"""Words of up to 16 characters that a line's end parts in the names of rows."""
UNEXPLAINED = """(itself) => [...document.querySelectorAll("td.number")].map((cell) => {
  const table = cell.closest("table"), heading = table.tHead?.rows[0].cells[cell.cellIndex];
  const how = cell.querySelector("button") || heading?.querySelector(".how") || table.caption?.querySelector(".how");
  return how || cell.matches(".soft, .faint") || !/[0-9]/.test(cell.firstChild?.textContent) ? "" : heading?.textContent.trim() ?? "?";
}).filter((title) => title && !itself.includes(title))"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    pytest.importorskip("vl_convert")
    folder = tmp_path_factory.mktemp("pages")
    for name, render in PAGES.items():
        (folder / f"{name}.html").write_text(render(), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def page(offline):
    page = offline.new_page()
    yield page
    page.close()


@pytest.fixture(scope="module")
def page_elsewhere(browser, folder):
    """In a browser that has none of the fonts that charts are laid out with."""
    settings = folder / "fonts.conf"
    settings.write_text(ELSEWHERE.format(folder / "cache"))
    environment = {**os.environ, "FONTCONFIG_FILE": str(settings)}
    other = chromium.launch(browser.browser_type, env=environment)
    yield other.new_page(viewport={"width": 1280, "height": 900})
    other.close()


@pytest.mark.parametrize("name", PAGES)
def test_texts_keep_inside_charts_and_legends_apart_whatever_the_fonts(page, page_elsewhere, folder, name):
    for each in (page, page_elsewhere):
        each.goto((folder / f"{name}.html").as_uri())
        each.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        assert each.evaluate(OUTSIDE) == []
        assert each.evaluate(OVERLAPPING) == []


@pytest.mark.parametrize("name", PAGES)
def test_a_page(page, folder, name):
    """Everything else that holds for each page, with one load of it."""
    page.goto((folder / f"{name}.html").as_uri())
    check_headings(page)
    check_contrast(page)
    check_widths(page)
    check_numbers(page)


def check_headings(page):
    """None skips a level."""
    levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3,h4,h5')].map((one) => Number(one.tagName[1]))")
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def check_contrast(page):
    """Words can be read in both themes."""
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate(CONTRAST) >= 4.5, scheme


def check_widths(page):
    """The page scrolls only downwards, and what scrolls sideways in it is reached from the keyboard."""
    page.set_viewport_size({"width": 390, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate(BROKEN_WORDS) == []
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    for width in (390, 500):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(chromium.COVERED) == [] and page.evaluate(chromium.TALL) == [], width
    page.reload()
    page.set_viewport_size({"width": 390, "height": 900})
    scrolling = page.evaluate(
        """() => [...document.querySelectorAll("main *")].filter((one) =>
             one.scrollWidth > one.clientWidth + 1 && ["auto", "scroll"].includes(getComputedStyle(one).overflowX))
           .map((one) => [one.getAttribute("tabindex"), Boolean(one.getAttribute("aria-label"))])"""
    )
    page.set_viewport_size({"width": 1280, "height": 900})
    assert scrolling
    assert all(one == ["0", True] for one in scrolling)


def check_numbers(page):
    """Every one opens how it is known."""
    assert (
        page.evaluate(
            UNEXPLAINED, ["#", "Index", "Layers", "Threads", "n", "95 % interval", "90% interval", "Interval", "Clock"]
        )
        == []
    )
    opened = page.locator("button.value, button.how")
    opened = opened.evaluate_all("(all) => all.map((one) => one.popoverTargetElement?.id)")
    known = page.locator("[popover]")
    assert set(opened) == set(known.evaluate_all("(all) => all.map((one) => one.id)")) != set()
    for text in known.evaluate_all("(all) => all.map((one) => one.textContent)"):
        assert "Value" in text and "nterval" in text and ("Method" in text or "Basis" in text), text
    page.locator("button.value").first.press("Enter")
    assert page.locator(":popover-open").is_visible()
    page.keyboard.press("Escape")
    assert page.locator(":popover-open").count() == 0


def test_tab_leads_to_a_chart_and_arrows_scroll_it(page, folder):
    page.set_viewport_size({"width": 390, "height": 900})
    page.goto((folder / "profile.html").as_uri())
    for _ in range(200):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.className") == "chart":
            break
    page.keyboard.press("ArrowRight")
    for _ in range(1000):  # the page's policy allows no script that would wait for it
        if page.evaluate("document.activeElement.scrollLeft") > 0:
            break
        page.wait_for_timeout(20)
    assert page.evaluate("document.activeElement.matches('.chart') && document.activeElement.scrollLeft > 0")
    page.set_viewport_size({"width": 1280, "height": 900})


def test_paper_repeats_the_heads_of_tables_and_keeps_colours(page, folder):
    page.goto((folder / "profile.html").as_uri())
    page.emulate_media(media="print")
    style = "(element, name) => getComputedStyle(element).getPropertyValue(name)"
    assert page.locator("table.opening thead").evaluate(style, "display") == "table-header-group"
    assert page.locator("table.opening thead").evaluate(style, "break-inside") == "avoid"
    # A button in it would keep Chromium from repeating it.
    assert page.locator("table.opening thead button").first.evaluate(style, "display") == "contents"
    assert page.locator("tbody.foot").first.evaluate(style, "print-color-adjust") == "exact"
    assert page.locator("tbody.foot").first.evaluate(style, "background-color") != "rgba(0, 0, 0, 0)"
    page.emulate_media(media="screen")
