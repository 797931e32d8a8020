"""Pages that need no server: any page of the studio as one file, a whole export, and the data of charts."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from urllib.parse import quote

import pytest

from edgewise.cli.main import run as run_command
from edgewise.record import Failure
from edgewise.report.charts.files import chart_csv
from edgewise.report.document.page import as_part
from edgewise.studio.sharing import frozen
from edgewise.verbs.calibrate.presentation import FORMAT as CALIBRATIONS
from edgewise.verbs.evaluate.presentation import FORMAT as EVALUATION
from edgewise.verbs.optimize.presentation import FORMAT as OPTIMIZATION
from messages import says, wording
from sample_optimizations import evaluation
from sample_profiles import HOSTILE, profiled_run
from sample_runs import make_run, measured, run_id

A, B, HOSTILE_RUN, PROFILED = run_id(1), run_id(2), run_id(3), run_id(21)
PLACE = "/srv/secret-project/models/kws.onnx"


@pytest.fixture(scope="module")
def filled(serve):
    studio = serve()
    hostile = make_run(3)
    for run in (make_run(1), make_run(2, latency=1.7e-4, half=4e-6), profiled_run(), hostile):
        model = replace(run.job.model, path=PLACE)
        if run is hostile:
            model = replace(model, name=HOSTILE, sha256="c" * 64)
        studio.store.save(replace(run, group=None, job=replace(run.job, model=model)))
    return studio


@pytest.fixture(scope="module")
def exported(filled, tmp_path_factory):
    folder = tmp_path_factory.mktemp("export") / "pages"
    assert run_command(["studio", "export", str(folder), "--store", filled.settings.store]) == 0
    return folder


def offline(browser, address, **settings):
    """A page of a browser that has no network, and everything that it asks for."""
    context = browser.new_context(offline=True, **settings)
    page, asked, complaints = context.new_page(), [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: message.type in ("error", "warning") and complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(address)
    return page, asked, complaints


@pytest.mark.long
def test_an_export_opens_from_files_without_any_request_elsewhere(exported, browser):
    page, asked, complaints = offline(browser, (exported / "index.html").as_uri())
    for kind in ("runs", "comparisons"):
        page.locator(f'a[href^="{kind}/"]').first.click()
        page.locator("h1").first.wait_for()
        assert page.locator("figure svg").count() >= 1
        assert page.locator("form, select, input[name]").count() == 0
        page.get_by_role("link", name="All pages").click()
    assert {url for url in asked if not url.startswith(("file:", "data:"))} == set()
    assert complaints == []
    page.context.close()


def test_every_link_of_an_export_leads_to_a_file_or_a_place_that_is_there(exported):
    files = sorted(exported.rglob("*.html"))
    assert [str(file.relative_to(exported)) for file in files] == [
        f"comparisons/{A}.html", "index.html", *(f"runs/{one}.html" for one in sorted((A, B, HOSTILE_RUN, PROFILED))),
    ]  # fmt: skip
    for file in files:
        text = file.read_text(encoding="utf-8")
        for target in re.findall(r'<a\b[^>]*? href="([^"]*)"', text):
            path, _, place = target.partition("#")
            assert not path.startswith(("/", "?")), target
            assert not path or (file.parent / path).is_file(), target
            assert not place or re.search(rf'id="{re.escape(place)}"', text), target
        for loaded in re.findall(r'\b(?:src|srcset|data|action)="([^"]*)"|url\(([^)]*)\)|@import', text):
            assert all(one.startswith(("#", "data:")) or not one for one in loaded), loaded


def test_the_index_is_the_atlas_of_the_exported_runs_and_a_failed_one_has_no_value(studio, tmp_path):
    lost = Failure(cause="LinkLost", message="unplugged", phase="steady")
    for run in (make_run(1), make_run(2, latency=1.7e-4), replace(make_run(3), status="failed", failure=lost)):
        studio.store.save(run)
    studio.store.save(make_run(4, latency=1e-6))  # better, and not exported
    folder = tmp_path / "pages"
    chosen = [run_id(1), run_id(2), run_id(3)]
    assert run_command(["studio", "export", str(folder), *chosen, "--store", studio.settings.store]) == 0
    text = (folder / "index.html").read_text(encoding="utf-8")
    atlas, listed = text[text.index('<table class="atlas"') :].split("<h2>Runs</h2>")
    assert re.findall(r'<a href="([^"]+)"><strong>([^<]+)', atlas) == [(f"runs/{run_id(2)}.html", "170 µs")]
    assert "2 runs" in atlas and run_id(4) not in text
    rows = [re.findall("<t[hd][^>]*>(?:<a[^>]*>)?([^<]*)", row) for row in re.findall("<tr>(.*?)</tr>", listed)[1:]]
    assert [(row[0], row[2], row[6], row[7]) for row in rows] == [
        ("kws.onnx", "failed: LinkLost", "1", "1x49x10x1"),
        ("kws.onnx", "170 µs", "1", "1x49x10x1"),
        ("kws.onnx", "420 µs", "1", "1x49x10x1"),
    ]


def test_an_export_has_no_path_of_this_machine_and_hostile_names_stay_text(exported, filled):
    for file in exported.rglob("*.html"):
        text = file.read_text(encoding="utf-8")
        assert "secret-project" not in text
        assert str(filled.folder.parent) not in text
        assert str(Path.home()) + "/" not in text
        assert "<script>alert" not in text


def test_an_export_is_not_written_over_what_is_there(exported, filled, capsys):
    before = (exported / "index.html").read_bytes()
    assert run_command(["studio", "export", str(exported), A, "--store", filled.settings.store]) == 2
    assert re.search(says("folder-content"), capsys.readouterr().err)
    assert (exported / "index.html").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["nowhere"], "there is no run 'nowhere'"),
        ([A, "--tag", "golden"], wording("use-one-them")),
    ],
)
def test_what_can_not_be_exported_is_an_error_and_writes_nothing(filled, tmp_path, capsys, words, problem):
    assert run_command(["studio", "export", str(tmp_path / "new"), *words, "--store", filled.settings.store]) == 2
    assert problem in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_store_that_is_not_there_is_not_made(tmp_path):
    assert run_command(["studio", "export", str(tmp_path / "new"), "--store", str(tmp_path / "none.db")]) == 3
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("address", [f"/runs/{PROFILED}", "/trend?model=kws.onnx", "/atlas"])
def test_any_page_is_one_file(filled, address):
    with filled.client() as client:
        answer = client.get(f"/share?of={quote(address)}")
    assert answer.status_code == 200
    assert re.fullmatch(r'attachment; filename="edgewise-[\w-]+\.html"', answer.headers["content-disposition"])
    assert "secret-project" not in answer.text
    assert "<h1" in answer.text
    assert ("<svg" in answer.text) == (address != "/atlas")
    assert re.findall(r'<form|<select|<input [^>]*name=|(?:href|src|action)="/', answer.text) == []


def test_the_page_of_an_evaluated_run_has_its_confusion(filled):
    run = make_run(31)
    rows = (*run.measurements, measured("accuracy_top1", 0.9167, half=0.018))
    filled.store.save(replace(run, measurements=rows, evaluation=evaluation()))
    with filled.client() as client:
        text = client.get(f"/share?of=/runs/{run.id}").text
    filled.store.remove([run.id])
    assert '<table class="confusion"' in text
    assert "91.67 %" in text


@pytest.mark.parametrize(
    "address",
    ["", "/", "/share?of=/runs", "/enter?key=x", "/static/report.css", "http://example.org/runs", "//example.org/runs",
     "/runsx", "/runs/../static/x.css", "/etc/passwd", "/runs/download?run=" + A],
)  # fmt: skip
def test_only_pages_can_be_kept(filled, address):
    with filled.client() as client:
        answer = client.get(f"/share?of={quote(address)}")
    assert answer.status_code == 400
    assert wording("there-no-page-keep-address") in answer.text


def test_freezing_keeps_text_and_drawings_and_drops_what_needs_a_server():
    page = (
        '<html><head><title>A &amp; B – edgewise</title><script type="module" src="/static/studio.js?1"></script></head>'
        '<body><main id="main"><p>1 &lt; 2</p><form><label>Find <input name="q"></label><table><tr><td>kept</td></tr>'
        '</table><button>Go</button></form><form data-live><p>gone</p></form><button>Sort</button><div data-live><p>gone</p><br><svg></svg></div><a href="/runs/1">one</a>'
        '<a href="/runs/2">two</a><a href="#x">here</a><svg viewBox="0 0 1 1"><linearGradient id="g"/></svg>'
        '<noscript><b>still</b></noscript><img src="/x.png"><script>alert(1)</script></main><footer>no</footer></body></html>'
    )
    text = frozen(page, lambda address: "2.html" if address == "/runs/2" else None)
    main = text[text.index('<main id="main">') : text.index("</main>")]
    assert main.split("\n")[1] == (
        '<p>1 &lt; 2</p><table><tr><td>kept</td></tr></table><button>Sort</button>one<a href="2.html">two</a><a href="#x">here</a>'
        '<svg viewBox="0 0 1 1"><linearGradient id="g"/></svg><b>still</b>'
    )
    assert "<title>A &amp; B</title>" in text
    assert "studio.js" not in text


def test_the_data_of_a_chart_is_a_table_with_the_axes_titles():
    rows = [{"x": 1.5, "label": "=cmd()"}, {"x": 2, "label": "b", "low": None}]
    spec = {
        "data": {"values": rows},
        "layer": [
            {"mark": "point", "encoding": {"x": {"field": "x", "title": "Latency (µs)"}}},
            {"data": {"values": rows}, "mark": "rule"},
            {"data": {"values": [{"one": 1}]}, "mark": "rule"},
            {"data": {"values": [{"at": 3, "to": 4}]}, "mark": "rule"},
        ],
    }
    assert list(csv.reader(io.StringIO(chart_csv(spec)))) == [
        ["Latency (µs)", "label", "low", "at", "to"],
        ["1.5", "'=cmd()", "", "", ""],
        ["2", "b", "", "", ""],
        ["", "", "", "3", "4"],
    ]


@pytest.mark.long
def test_charts_are_saved_as_drawings_and_data(filled, open_page):
    page = open_page(f"/compare?run={A}&run={B}", at=filled)
    figure = page.locator("figure").first
    saved = {}
    for kind in ("SVG", "PNG", "CSV"):
        with page.expect_download() as waiting:
            figure.get_by_role("button", name=kind).click()
        saved[kind] = Path(waiting.value.path()).read_bytes()
        assert waiting.value.suggested_filename == f"Latency-samples.{kind.lower()}"
    assert b"var(--" not in saved["SVG"]
    assert b'xmlns="http://www.w3.org/2000/svg"' in saved["SVG"]
    assert saved["PNG"].startswith(b"\x89PNG")
    table = list(csv.reader(io.StringIO(saved["CSV"].decode("utf-8-sig"))))
    assert "Latency (µs): x" in table[0]
    assert len(table) > 100


def test_reports_do_not_grow_by_the_data_of_their_charts(filled):
    with filled.client() as client:
        assert "chart-data" not in client.get("/compare/file", params={"run": [A, B], "format": ".html"}).text
        assert "chart-data" in client.get("/compare", params={"run": [A, B]}).text


def test_finished_jobs_are_exported_with_their_own_page(studio, tmp_path):
    jobs = studio.store.jobs
    for status, title in (("done", HOSTILE), ("failed", "a failed one")):
        job = jobs.add({"verb": "compare"}, title=title, queue="q", device="local")
        claimed = jobs.claim("q", "nobody")
        assert jobs.finish(claimed, status)
        result = studio.studio.jobs.folder_of(job) / "result" / "result.html"
        result.parent.mkdir(parents=True)
        result.write_text(f"the page of {status}", encoding="utf-8")
        result.with_name("part.html").write_text(f"<h1>the part of {status}</h1>", encoding="utf-8")
    folder = tmp_path / "pages"
    assert run_command(["studio", "export", str(folder), "--store", studio.settings.store]) == 0
    (page,) = (folder / "jobs").iterdir()
    assert page.read_text(encoding="utf-8") == "the page of done"
    index = (folder / "index.html").read_text(encoding="utf-8")
    assert f'<a href="jobs/{page.name}">' in index
    assert re.search(r", 20\d\d-\d\d-\d\d \d\d:\d\d UTC</a>", index)  # tells jobs of one title apart
    with studio.client() as client:
        assert "<h1>the part of done</h1>" in client.get(f"/share?of=/jobs/{page.stem}").text
    assert "<script>alert" not in index


@pytest.mark.parametrize(
    ("kind", "sample"),
    [
        (OPTIMIZATION, "sample_optimizations:found"),
        (EVALUATION, "sample_optimizations:two_models"),
        (CALIBRATIONS, "sample_calibrations:calibration"),
    ],
    ids=["optimization", "evaluation", "calibration"],
)
def test_the_part_of_a_result_has_all_charts_and_matrices_of_its_page(kind, sample):
    name, _, function = sample.partition(":")
    result = getattr(import_module(name), function)()
    whole = kind.render(result, ".html")
    with as_part():
        part = kind.render(result, ".html")
    for mark in ("<figure", "<svg", '<table class="confusion"', "<h2"):
        assert part.count(mark) == whole.count(mark), mark
    assert part.count("<figure") > 0
    assert part.count('class="chart-data"') == part.count('<div class="chart"')
