"""The studio's pages of a lab, on a real PostgreSQL, and without a lab."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import quote

import pytest

pytest.importorskip("starlette")

from test_every_view import axe, check_axe, check_headings, check_keyboard, check_widths  # noqa: F401

from edgewise.store.lab import LabDevice, LabSettings
from edgewise.verbs.lab.engine import make_engine, protocol
from edgewise.version import __version__
from postgresql import Server, find_programs
from sample_runs import make_run
from sample_sweeps import with_front

ROOT = "/srv/secret nets/"
HOSTILE = '"><script>window.__hit=1</script>'
PAGES = ("/lab", "/lab?suite=nightly", "/lab?host=h1&device=d2", f"/lab?suite={quote(f'odd{HOSTILE}')}")


def test_without_a_lab_the_page_says_how_to_make_one(client):
    assert "lab init" in client.get("/lab").text
    assert 'href="/lab"' not in client.get("/").text


@pytest.fixture(scope="module")
def url():
    pytest.importorskip("procrastinate", reason="needs procrastinate: no page of a lab was tested")
    if find_programs() is None:
        pytest.skip("PostgreSQL is not installed: no page of a lab was tested")
    server = Server()
    yield server.url
    server.close()


def no_ring(_connection, _jobs):
    """The engine delivers nothing."""


def job(suite, model, place, device="d1"):
    return {"id": f"{suite} {model} {place}"[-64:], "queue": device, "device": device, "verb": "evaluate",
            "title": f"{model} on {place}", "request": "{}", "version": protocol(), "lock": None,
            "suite": suite, "model": model}  # fmt: skip


def begin(lab, one, *, host="h1", device="d1"):
    return lab.jobs.begin(one["id"], version=protocol(), host=host, place=device, worker="w", delivery=1)


def ended(lab, one, outcome, runs=(), **place):
    assert lab.jobs.end(begin(lab, one, **place), outcome, runs)


def fill(lab):
    """Devices in each state, and a suite with cells in each state."""

    lab.make(LabSettings(version=__version__, protocol=protocol(), most_file=1), make_engine)
    for host, names in (("h1", ("d1", "d2")), ("h2", ("d3",)), ("h3", (f"d4{HOSTILE}",))):
        devices = [LabDevice(host=host, name=name, identity=name, answers=(name, "any")) for name in names]
        lab.register(host, f"{host}:77:abc", version=__version__, boot=host, devices=devices)
    lab.drain("h2")
    lab.leave("h3", "h3:77:abc")
    result = with_front()
    jobs = [job("nightly", f"{ROOT}{cell.model}", cell.place) for cell in result.cells]
    jobs.append(job(f"odd{HOSTILE}", f"{ROOT}{HOSTILE}", "x"))
    lab.jobs.add(jobs, no_ring)
    for number, (one, outcome) in enumerate(zip(jobs, result.outcomes, strict=False)):
        if number == 0:
            begin(lab, one, device="d1")
        elif number > 1:
            cause = f"can't read {one['model']}" if outcome.status == "failed" else ""
            told = {"key": "", "cell": one["title"], "status": outcome.status, "seconds": 1.0, "finished": 1.0,
                    "rows": list(outcome.rows), "cause": cause, "advice": ""}  # fmt: skip
            ended(lab, one, told, [make_run(number)] if outcome.status == "done" else (), device="d2")


@pytest.fixture(scope="module")
def lab_studio(url, serve):
    running = serve(store=url)
    fill(running.store.lab)
    return running


@pytest.fixture
def get(lab_studio):
    with lab_studio.client() as client:
        yield lambda path: client.get(path)


def rows(page):
    """The words of each row of the page's tables."""
    words = [unescape(re.sub(r"<[^>]+>", "\t", row)) for row in re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL)]
    return [[word.strip() for word in row.split("\t") if word.strip()] for row in words]


def test_the_first_page_leads_to_devices_with_what_they_do_and_to_the_queue(get):
    assert 'href="/lab"' in get("/").text
    answer = get("/lab")
    found = {row[0]: row for row in rows(answer.text)}
    assert found["d1"][:4] == ["d1", "h1", "busy", "slow on fake, 1 thread"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \(.+\)", found["d1"][4])
    assert found["d1"][5] == "2"
    assert found["d1"][6].endswith(" ago") and found["d1"][7] == "h1:77:abc"
    assert found["d2"][2] == "free" and found["d3"][2] == "draining"
    (gone,) = (row for name, row in found.items() if name.startswith("d4"))
    assert gone[2] == "gone" and "left" in gone
    assert found["nightly"] == ["nightly", "1", "1", "4", "1", "0"]
    assert "5 jobs ended within the last hour" in answer.text


def test_a_suite_shows_the_states_of_its_cells_and_its_results_so_far(get, lab_studio):
    answer = get("/lab?suite=nightly")
    found = {row[0]: row[1:] for row in reversed(rows(answer.text.partition('id="part"')[0]))}
    assert found == {
        "Model": ["fake, 1 thread"], "slow": ["running"], "fast": ["queued"], "worse": ["done"], "alike": ["done"],
        "same": ["done"], "half": ["done"], "broken": ["failed: can't read broken"],
    }  # fmt: skip
    assert answer.text.count('href="/runs/') == 4
    part = answer.text.partition('id="part"')[2]
    assert "Latency against top-1 accuracy" in part and "<svg" in part
    assert "4 of 7 cells are finished; 1 failed; 2 left" in part
    assert "cells.jsonl" not in part


def test_a_device_shows_what_it_did_last(get):
    found = rows(get("/lab?host=h1&device=d2").text)
    assert found[1][:2] == ["broken on fake, 1 thread", "failed: can't read broken"]
    assert found[2][:3] == ["half on fake, 1 thread", "done", "2.00 ± 0.02 ms, measured, grade B"]
    assert len(found) == 6
    assert "No job has ended on it" in get("/lab?host=h1&device=d1").text


def test_what_is_not_there_is_said(get):
    assert "It has queued no cell" in get("/lab?suite=unknown").text
    assert "No job has ended on it" in get("/lab?host=x&device=y").text


@pytest.mark.parametrize("path", PAGES)
def test_a_page_and_its_file_name_no_folder(get, path):
    for text_of in (get(path).text, get(f"/share?of={quote(path, safe='')}").text):
        assert "<h2>" in text_of and "secret" not in text_of and "<script>window" not in text_of


@pytest.mark.parametrize("path", PAGES)
def test_a_page_in_a_browser(open_page, lab_studio, axe, path):  # noqa: F811
    page = open_page(path, at=lab_studio)
    check_headings(page)
    check_keyboard(page)
    check_widths(page)
    check_axe(page, axe)
    assert page.evaluate("window.__hit") is None


def test_the_matrix_of_a_suite_fills_up_while_it_is_open(open_page, lab_studio):
    lab = lab_studio.store.lab
    one = job("live", f"{ROOT}m", "x", "d9")
    lab.jobs.add([one], no_ring)
    page = open_page("/lab?suite=live", at=lab_studio)
    assert page.locator("#lab td").all_inner_texts() == ["queued"]
    begun = begin(lab, one, device="d9")
    page.get_by_text("running", exact=True).wait_for()
    lab.jobs.end(begun, {"status": "done", "cause": "", "advice": "", "rows": []})
    page.locator("#lab td").get_by_text("done").wait_for()


def test_without_scripts_the_page_asks_again_by_itself(get):
    assert '<noscript><meta http-equiv="refresh"' in get("/lab").text
