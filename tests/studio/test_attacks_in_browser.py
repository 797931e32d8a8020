"""Pages of other sites in the browser of somebody who is in the studio, and what browsers do with cookies of one host."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

pytest.importorskip("starlette")

from test_attacks import WRITES, fill, snapshot

from sample_runs import all_runs

ATTACK = """<!doctype html><title>elsewhere</title><h1>elsewhere</h1>
<iframe name="frame"></iframe><iframe id="framed" src="{studio}/runs"></iframe>
<img id="image" src="{studio}/runs"><script src="{studio}/static/studio.js"></script>
<a id="link" href="{studio}/runs">runs</a><a id="enter" href="{link}">enter</a>
<form id="form" method="post" target="frame"></form>
<script>
window.found = [];
window.onerror = () => true;
const record = (name) => (answer) => found.push([name, String(answer.type || answer)]);
async function attack(targets) {{
  for (const target of targets) {{
    const url = "{studio}" + target;
    await fetch(url, {{ method: "POST", mode: "no-cors", credentials: "include", body: "delete=1" }}).then(record("no-cors"), () => 0);
    await fetch(url, {{ method: "POST", credentials: "include", headers: {{ "X-A": "b" }} }}).then(record("read"), () => 0);
    await fetch(url, {{ credentials: "include" }}).then(record("read"), () => 0);
    await fetch(url, {{ method: "DELETE", credentials: "include" }}).then(record("read"), () => 0);
    navigator.sendBeacon(url, new URLSearchParams({{ delete: "1" }}));
    for (const kind of ["application/x-www-form-urlencoded", "multipart/form-data", "text/plain"]) {{
      const form = document.getElementById("form");
      form.action = url; form.enctype = kind;
      const done = new Promise((resolve) => {{ document.querySelector("iframe").onload = resolve; setTimeout(resolve, 400); }});
      form.submit();
      await done;
    }}
  }}
  const stream = new EventSource("{studio}/events", {{ withCredentials: true }});
  stream.onmessage = record("read");
  await new Promise((resolve) => {{ stream.onerror = resolve; stream.onopen = () => {{ record("read")("stream"); resolve(); }}; }});
  stream.close();
  return found.filter(([name]) => name === "read");
}}
</script>"""


@pytest.fixture(scope="module")
def studio(serve):
    running = serve()
    for run in all_runs():
        running.store.save(run)
    return running


@pytest.fixture
def elsewhere(studio):
    """Another program of this machine that serves a page: on another port, so that browsers send it our cookies."""
    link = studio.link()

    class Page(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(ATTACK.format(studio=studio.url, link=link).encode())

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


@pytest.fixture
def context(browser, studio):
    context = browser.new_context()
    name, value = studio.cookie
    context.add_cookies([{"name": name, "value": value, "url": studio.url, "sameSite": "Strict", "httpOnly": True}])
    yield context
    context.close()


@pytest.mark.parametrize("host", ["127.0.0.1", pytest.param("localhost", marks=pytest.mark.long)])
def test_another_page_changes_and_reads_nothing(studio, elsewhere, context, host):
    before = snapshot(studio)
    page = context.new_page()
    page.goto(f"http://{host}:{elsewhere}/")
    targets = [fill(route, all_runs()[0].id) for route in WRITES] or ["/runs"]
    assert page.evaluate("(targets) => attack(targets)", [*targets, "/runs"]) == []
    assert page.evaluate("document.getElementById('image').naturalWidth") == 0
    assert "chrome-error://chromewebdata/" in {frame.url for frame in page.frames}  # what the policy leaves of a frame
    assert snapshot(studio) == before


def test_a_link_on_another_site_leads_in_who_is_in(studio, elsewhere, context):
    page = context.new_page()
    page.goto(f"http://localhost:{elsewhere}/")  # a site of its own, so that the strict cookie is kept back at first
    page.locator("#link").click()
    page.get_by_role("heading", name="Runs").wait_for()
    assert page.url == f"{studio.url}/runs"


def test_a_link_on_another_site_leads_nobody_else_in(studio, elsewhere, browser):
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"http://localhost:{elsewhere}/")
    page.locator("#link").click()
    page.get_by_text("this browser is not in the studio").wait_for()
    context.close()


def test_the_one_time_link_works_from_another_site(studio, elsewhere, browser):
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"http://localhost:{elsewhere}/")
    page.locator("#enter").click()
    page.get_by_role("heading", name="Models", level=1).wait_for()
    assert page.url == f"{studio.url}/"
    assert page.evaluate("document.cookie") == ""
    context.close()


def test_an_opened_window_is_out_of_reach(studio, elsewhere, context):
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{elsewhere}/")
    with page.expect_popup() as opened:
        page.evaluate("(url) => { window.other = window.open(url); }", f"{studio.url}/runs")
    opened.value.get_by_role("heading", name="Runs").wait_for()
    assert page.evaluate("window.other.closed || window.other.location === undefined")
    assert opened.value.evaluate("window.opener") is None


@pytest.mark.long
def test_twenty_tabs_are_open_and_the_studio_answers(studio, open_page):
    first = open_page("/jobs", at=studio)
    tabs = [first, *(first.context.new_page() for _ in range(19))]
    for tab in tabs[1:]:
        tab.goto(f"{studio.url}/jobs")
    assert tabs[-1].title() == "Jobs – edgewise"
    assert tabs[-1].evaluate("fetch('/runs').then((answer) => answer.status)") == 200
    with studio.client() as client:
        assert client.get("/").status_code == 200


def test_runs_are_browsed_and_compared_without_scripts(studio, open_page):
    page = open_page("/", at=studio, java_script_enabled=False)
    page.get_by_role("link", name="Runs", exact=True).click()
    boxes = page.locator("input[type=checkbox][name=run]")
    assert boxes.count() >= 2
    boxes.nth(0).check()
    boxes.nth(1).check()
    page.get_by_role("button", name="Compare").first.click()
    page.wait_for_url("**/compare?*run=*")
    assert page.locator("h1").count() == 1
    page.go_back()
    page.locator("tbody th a, tbody td a").first.click()
    assert "/runs/" in page.url
