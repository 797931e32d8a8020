"""What holds for every page of the studio, on a store in which every name is an attack.

The pages come from the application's own routes: a new page is tested without a change here.
"""

from __future__ import annotations

import json
import re
from importlib.resources import files
from itertools import pairwise
from urllib.parse import urlencode

import pytest

pytest.importorskip("starlette")

from filled import HOSTILE, fill

import chromium
from edgewise.studio.routes import ROUTES
from patience import LIMIT_S
from sample_profiles import faster_run, profiled_run
from tiny_models import write_tiny_onnx

NO_PAGES = ("/enter", "/static/{name:path}", "/events")
PLACES = [route.path for route in ROUTES if "GET" in (route.methods or ()) and route.path not in NO_PAGES]
PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
HOSTILE_RUN = "0195f0c0-0000-7000-8000-000000abc008"
QUERIES = {
    "/compare": f"?run={profiled_run().id}&run={faster_run().id}",
    "/share": "?of=/runs",
    "/trend": "?model=kws.onnx",
    "/runs/download": f"?run={profiled_run().id}&format=.md",
    "/compare/file": f"?run={profiled_run().id}&run={faster_run().id}&format=.md",
}


@pytest.fixture(scope="module")
def studio(serve, tmp_path_factory):
    """A studio whose store and folder of models are full of hostile names."""
    root = tmp_path_factory.mktemp("root") / "models <b>&"
    root.mkdir()
    for number, name in enumerate(HOSTILE):
        name = re.sub(r"[/\x00]", "", name)[:60]
        write_tiny_onnx(root / f"{number}{name}.onnx")
    running = serve(roots=(root,))
    fill(running.store)
    result = running.folder / "jobs" / running.store.jobs.list()[0].id / "result"
    result.mkdir(parents=True)
    for name in ("part.html", "result.html", "result.json"):
        (result / name).write_text(f"<p>{HOSTILE[0]}</p>" if name == "result.html" else "<h1>whole</h1>")
    return running


@pytest.fixture(scope="module")
def addresses(studio):
    """Route → path of an example, whose names are hostile where there is a choice."""
    model = studio.studio.models.entries()[0]
    # The page of a model that is being read loads itself again.
    studio.studio.readings.read(model, wait_s=LIMIT_S)
    examples = {
        "run": HOSTILE_RUN,
        "verb": "bench",
        "key": model.key.replace("/", "\0"),
        "job": studio.store.jobs.list()[0].id,
        "id": studio.store.jobs.list()[0].id,
        "file": "result.html",
        "kind": "models",
    }

    def fill_in(match):
        from urllib.parse import quote

        return "/".join(quote(part, safe="") for part in examples[match[1]].split("\0"))

    entry = studio.studio.models.entries()[0]
    studio.studio.readings.read(entry, "graph", wait_s=300)
    queries = {**QUERIES, "/graph": f"?{urlencode({'model': entry.key})}"}
    return {place: PARAMETER.sub(fill_in, place) + queries.get(place, "") for place in PLACES}


@pytest.fixture(scope="module")
def tab(browser, studio):
    """One logged-in tab for all pages."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    name, value = studio.cookie
    context.add_cookies([{"name": name, "value": value, "url": studio.url, "sameSite": "Strict", "httpOnly": True}])
    page = context.new_page()
    page.complaints = []
    page.on("console", lambda message: message.type in ("error", "warning") and page.complaints.append(message.text))
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("dialog", lambda dialog: (page.complaints.append(dialog.message), dialog.dismiss()))
    page.on(
        "request", lambda one: one.url.startswith((studio.url, "data:", "blob:")) or page.complaints.append(one.url)
    )
    yield page
    context.close()


@pytest.fixture(scope="module")
def client(studio):
    with studio.client() as client:
        yield client


@pytest.fixture(scope="module")
def axe():
    package = pytest.importorskip("axe_playwright_python")
    return files(package.__name__).joinpath("axe.min.js").read_text()


@pytest.mark.parametrize("place", PLACES)
def test_a_page(studio, tab, client, addresses, axe, place):
    """Everything that holds for each page, with one load of it."""
    answer = client.get(addresses[place])
    assert answer.status_code == 200, answer.text[-500:]
    saved = answer.headers.get("content-disposition", "").startswith("attachment")
    if saved or not answer.headers["content-type"].startswith("text/html") or "<main" not in answer.text:
        return  # a file, or data for a script
    check_that_no_script_is_needed(answer.text)
    tab.complaints.clear()
    tab.goto(studio.url + addresses[place])
    check_headings(tab)
    check_keyboard(tab)
    check_widths(tab)
    check_print(tab)
    check_axe(tab, axe)
    # Hostile names ran nothing, and the policy had nothing to stop.
    assert tab.evaluate("window.__hit") is None
    assert tab.complaints == []


def check_axe(page, axe):
    """No violation in either theme; what does not depend on colours is looked at once."""
    page.evaluate(axe)
    for theme, rules in (("light", None), ("dark", ["color-contrast"])):
        page.emulate_media(color_scheme=theme)
        options = {"resultTypes": ["violations"]} | ({"runOnly": rules} if rules else {})
        found = page.evaluate("(options) => axe.run(document, options)", options)["violations"]
        assert [(one["id"], one["nodes"][0]["html"][:300], one["nodes"][0]["failureSummary"]) for one in found] == []
    page.emulate_media(color_scheme="light")


def check_widths(page):
    """The page scrolls only downwards, no cell lies over another, and none out of sight makes a row tall."""
    for width in (400, 500, 1400):
        page.set_viewport_size({"width": width, "height": 900})
        wide = page.evaluate(
            """() => document.documentElement.scrollWidth <= innerWidth ? [] :
                 [...document.querySelectorAll("body *")].filter((one) => one.getBoundingClientRect().right > innerWidth + 1
                   && !one.closest(".scroll")).map((one) => one.outerHTML.slice(0, 160)).slice(0, 5)"""
        )
        assert wide == [], width
        assert page.evaluate(chromium.COVERED) == [] and page.evaluate(chromium.TALL) == [], width
    page.set_viewport_size({"width": 1280, "height": 900})


def check_headings(page):
    """One of the first level, and none skips a level."""
    levels = page.evaluate(
        "[...document.querySelectorAll('h1,h2,h3,h4,h5,h6')].filter((one) => one.checkVisibility()).map((one) => Number(one.tagName[1]))"
    )
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


FOCUSABLE = """() => [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")]
  .filter((one) => !one.disabled && one.type !== "hidden" && one.tabIndex >= 0 && one.checkVisibility({
    contentVisibilityAuto: true, visibilityProperty: true }) && one.getClientRects().length
    && !(one.type === "radio" && !one.checked && [...document.getElementsByName(one.name)].some((other) =>
         other !== one && (other.checked || other.compareDocumentPosition(one) & 4))))"""


def check_keyboard(page):
    """Tab reaches everything in the page's order and shows where it is."""
    page.evaluate(
        f"""() => {{ window.__all = ({FOCUSABLE})(); window.__at = [];
          document.body.prepend(Object.assign(document.createElement("a"), {{ id: "start", href: "#" }}));
          document.getElementById("start").focus();
          window.__note = ({{ target: one }}) => {{
            const style = getComputedStyle(one);
            __at.push([__all.indexOf(one), style.outlineStyle !== "none" || style.boxShadow !== "none",
                       one.outerHTML.slice(0, 160)]); }};
          document.addEventListener("focusin", __note); }}"""
    )
    count = min(page.evaluate("__all.length"), 30)
    assert count > 4
    for _ in range(count):
        page.keyboard.press("Tab")
    page.evaluate(
        """() => { document.removeEventListener("focusin", __note); document.getElementById("start").remove();
             document.activeElement.blur(); }"""
    )
    seen = page.evaluate("__at")
    # Fields of dates have several stops.
    order = list(dict.fromkeys(index for index, _, _ in seen))
    assert order == list(range(len(order))) and len(order) > 4, json.dumps(seen, indent=1)
    assert [html for _, visible, html in seen if not visible and 'type="date' not in html] == []


def check_print(page):
    """Paper shows the content and no navigation."""
    page.emulate_media(media="print")
    assert page.locator("main h1:visible").count() == 1
    assert not page.locator("header.bar nav").is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") in (
        "rgb(255, 255, 255)",
        "rgba(0, 0, 0, 0)",
    )
    page.emulate_media(media="screen")


def check_that_no_script_is_needed(text):
    """The page is whole without one, and none stands in it."""
    assert "</main>" in text
    assert re.findall(r"<script(?![^>]* src=)(?! type=.application/json)[^>]*>", text) == []
    attributes = re.sub(r'"[^"]*"', lambda one: one[0] if "<" not in one[0] else '""', text)
    assert re.findall(r"\son[a-z]+=[\"']", attributes) == []
    assert "javascript:" not in "".join(re.findall(r'(?:href|action|src)="([^"]*)"', text))
