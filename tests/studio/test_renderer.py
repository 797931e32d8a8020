"""The renderer: stored runs drawn in a child process, whatever becomes of the child and of the runs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import replace
from importlib.resources import files

import psutil
import pytest

import warm_start
from edgewise.errors import BadInput, Unavailable
from edgewise.report.document.page import as_part
from edgewise.store import open_store
from edgewise.studio.renderer import Renderer
from messages import says
from patience import LIMIT_S, wait_until
from sample_optimizations import evaluation
from sample_profiles import profiled_run
from sample_runs import make_run, measured, run_id

A, B, PROFILED, EVALUATED = run_id(1), run_id(2), run_id(21), run_id(5)


def evaluated_run():
    run = make_run(5)
    rows = (*run.measurements, measured("accuracy_top1", 0.9167, half=0.018))
    return replace(run, measurements=rows, evaluation=evaluation())


@pytest.fixture(scope="module")
def location(tmp_path_factory):
    path = tmp_path_factory.mktemp("renderer") / "runs.db"
    with open_store(str(path)) as store:
        for run in (make_run(1), make_run(2, latency=1.7e-4, half=4e-6), profiled_run(), evaluated_run()):
            store.save(run)
    return str(path)


@contextmanager
def opened(location, **settings):
    with open_store(location) as store:
        renderer = Renderer(store, location, **settings)
        try:
            yield renderer
        finally:
            renderer.close()


@pytest.fixture(scope="module")
def renderer(location):
    with opened(location) as renderer:
        yield renderer


def without_numbers(content: bytes) -> bytes:
    """The drawing library numbers the clip paths of all charts that a process draws."""
    return re.sub(rb"(id=\"|url\(#)c\d+-\d+", rb"\1c", content)


def child_of(renderer):
    return psutil.Process(renderer._child._process.pid)


def test_a_part_is_the_page_of_the_report_without_its_frame(renderer, location):
    from report_pages import render_html

    with open_store(location) as store, as_part():
        expected = render_html(store.resolve([A, B]))
    assert without_numbers(renderer.part("runs", [A, B]).encode()) == without_numbers(expected.encode())
    assert '<div class="result">' in expected
    assert "<svg" in expected
    assert "<script" not in expected
    assert "<html" not in expected


@pytest.mark.parametrize(
    ("kind", "runs", "words"),
    [
        ("profile", [PROFILED], "Profile of kws.onnx on"),
        ("comparison", [A, B], "faster"),
        ("evaluation", [EVALUATED], "91.67 %"),
    ],
)
def test_every_kind_of_part_is_drawn(renderer, kind, runs, words):
    assert words in renderer.part(kind, runs)


@pytest.mark.parametrize(
    ("kind", "runs", "settings", "problem"),
    [
        ("runs", ["nowhere"], {}, says("there-no-run-in-references-2", reference="'nowhere'")),
        ("runs", [], {}, says("no-run-picked")),
        ("runs", ["all"], {}, says("page-does-not-show-all")),
        ("profile", [A], {}, says("none-these-runs-profiled")),
        ("evaluation", [A], {}, says("none-these-runs-evaluated")),
        ("comparison", [A], {}, "nothing to compare|two"),
        ("poem", [A], {}, says("there-no-page-kind", kind="poem")),
        ("runs", [A], {"title": "x" * 40_000}, says("setting-page-too-long")),
    ],
)
def test_what_can_not_be_drawn_is_refused_with_the_reason(renderer, kind, runs, settings, problem):
    with pytest.raises(BadInput, match=problem):
        renderer.part(kind, runs, **settings)


def test_a_path_is_never_a_run(renderer, location):
    """The command line takes files where the studio takes runs alone."""
    with pytest.raises(BadInput, match=says("there-no-run-in-references")):
        renderer.part("comparison", [A, location])


@pytest.mark.parametrize("extension", [".md", ".html", ".csv", ".json", ".trace.json", ".nodes.json", ".mltk.json"])
def test_files_are_those_that_the_command_line_writes(renderer, location, extension, tmp_path):
    from edgewise.report.files import write_report

    with open_store(location) as store:
        write_report(store.resolve([PROFILED]), tmp_path / f"report{extension}")
    expected = (tmp_path / f"report{extension}").read_bytes()
    assert without_numbers(renderer.file([PROFILED], extension)) == without_numbers(expected)


def test_drawings_are_files_too_and_no_file_holds_a_path_of_this_machine(renderer):
    assert renderer.file([PROFILED], ".png").startswith(b"\x89PNG")
    assert renderer.file([PROFILED], ".svg", word="roofline").startswith(b"<svg")
    for kind, runs in (("report", [A]), ("comparison", [A, B]), ("evaluation", [EVALUATED])):
        for extension in (".html", ".json", ".md", ".csv"):
            assert b"/models/" not in renderer.file(runs, extension, kind=kind)
    with pytest.raises(BadInput, match=says("reports-cant-written", extension=".exe")):
        renderer.file([A], ".exe")


@pytest.mark.long
def test_what_was_drawn_is_kept_until_the_run_changes_and_a_killed_child_is_replaced(location):
    with opened(location) as renderer:
        first = renderer.part("runs", [A])
        child = child_of(renderer)
        child.kill()
        assert renderer.part("runs", [A]) == first
        assert renderer._store.tag("golden", A) == A
        assert "golden" in renderer.part("runs", [A])
        assert child_of(renderer) != child
        assert renderer._store.untag("golden") == 1


def test_memory_for_what_was_drawn_is_bounded(renderer, monkeypatch):
    monkeypatch.setattr("edgewise.studio.renderer.MOST_KEPT", 1000)
    monkeypatch.setattr(renderer, "_kept", type(renderer._kept)())
    for number in range(8):
        renderer._keep(str(number), bytes(240))
    renderer._keep("large", bytes(260))
    assert list(renderer._kept) == ["4", "5", "6", "7"]
    assert renderer._find("4") == bytes(240)
    renderer._keep("new", bytes(240))
    assert list(renderer._kept) == ["6", "7", "4", "new"]


SILENT = "import sys, time\nfor line in sys.stdin: time.sleep(600)"
ONCE = (
    'import sys, time\nprint(\'{"content": "eJxLKUoszwMABkACHQ=="}\', flush=True)\n'
    "sys.stdin.readline(); sys.stdin.readline(); time.sleep(600)"
)


@pytest.mark.long
def test_a_child_that_hangs_is_killed_and_the_next_page_has_a_new_one(location):
    with opened(location, command=[sys.executable, "-c", SILENT], draw_s=0.5) as renderer:
        with pytest.raises(Unavailable, match=r"took longer than 0\.5 s") as caught:
            renderer.part("runs", [A])
        assert "edgewise report" in caught.value.advice
        assert renderer._child is None
        assert not warm_start.children()
    with opened(location, command=[sys.executable, "-c", ONCE], draw_s=2) as renderer:
        assert renderer.part("runs", [A]) == "drawn"
        with pytest.raises(Unavailable, match="took longer"):
            renderer.part("runs", [B])
        assert renderer.part("runs", [B]) == "drawn"


def test_a_child_that_can_not_work_is_said_with_its_reason(location):
    with (
        opened(location, command=[sys.executable, "-c", "raise SystemExit('no drawing today')"]) as renderer,
        pytest.raises(Unavailable, match="exit code 1: no drawing today"),
    ):
        renderer.part("runs", [A])
    with (
        opened(location, command=["/nowhere/python"]) as renderer,
        pytest.raises(Unavailable, match="No such file"),
    ):
        renderer.part("runs", [A])


def test_who_waits_too_long_is_told(location):
    with opened(location, command=[sys.executable, "-c", SILENT], draw_s=600, wait_s=0.1) as renderer:

        def draw():
            with pytest.raises(Unavailable):
                renderer.part("runs", [A])

        first = threading.Thread(target=draw)
        first.start()
        wait_until(lambda: renderer._child is not None)
        with pytest.raises(Unavailable, match=says("other-pages-still-being-drawn")):
            renderer.part("runs", [B])
        for _ in range(23):
            renderer._waiting.acquire()
        with pytest.raises(Unavailable, match=says("too-many-pages-being-drawn")):
            renderer.part("runs", [B])
        child_of(renderer).kill()
        first.join()


@pytest.mark.long
def test_many_tabs_get_the_same_page_drawn_once(location):
    with opened(location) as renderer:
        asked, found = [], []
        ask = renderer._ask
        renderer._ask = lambda request: asked.append(request) or ask(request)
        tabs = [threading.Thread(target=lambda: found.append(renderer.part("runs", [A, B]))) for _ in range(20)]
        for tab in tabs:
            tab.start()
        for tab in tabs:
            tab.join()
        assert len(asked) == 1
        assert len(set(found)) == 1
        assert len(found) == 20


@pytest.mark.long
def test_a_child_without_work_ends(location):
    with opened(location, idle_s=0.2) as renderer:
        renderer.part("runs", [A])
        child = child_of(renderer)
        child.wait(LIMIT_S)
        wait_until(lambda: renderer._child is None)


@pytest.mark.long
def test_two_hundred_runs_are_one_page_and_more_are_refused(tmp_path):
    location = str(tmp_path / "runs.db")
    with open_store(location) as store:
        for number in range(201):
            store.save(replace(make_run(1), id=run_id(1000 + number)))
    runs = [run_id(1000 + number) for number in range(201)]
    with opened(location) as renderer:
        part = renderer.part("runs", runs[:200])
        assert part.count('<details id="run-') == 200
        with pytest.raises(BadInput, match="201 runs are too many"):
            renderer.part("runs", runs)


def test_the_child_ends_with_its_server_even_in_the_middle_of_a_drawing(location):
    """The child blocks in a library that holds the interpreter's lock: no thread of it can see that its server died."""
    held = (
        "import sys, ctypes; from edgewise.studio import draw\n"
        "draw.answer = lambda request: (sys.stderr.write('busy\\n'), ctypes.PyDLL(None).sleep(600))\n"
        "draw.main()"
    )
    server = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-c', {held!r}], stdin=subprocess.PIPE)\n"
        "child.stdin.write(b'{}\\n'); child.stdin.flush()\nprint(child.pid, flush=True)\ntime.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", server], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        child = psutil.Process(int(process.stdout.readline()))
        assert process.stderr.readline() == b"busy\n"
        os.kill(process.pid, signal.SIGKILL)
        child.wait(LIMIT_S)


@pytest.mark.long
def test_the_server_stays_light(location):
    """Neither numpy nor an engine, a drawing library or the reports' tables reach the process that serves."""
    code = (
        "import json, sys\nfrom edgewise.store import open_store\nfrom edgewise.studio.renderer import Renderer\n"
        f"store = open_store({location!r}); renderer = Renderer(store, {location!r})\n"
        f"part = renderer.part('comparison', [{A!r}, {B!r}]); renderer.close()\n"
        "print(json.dumps([len(part) > 1000, sorted({name.split('.')[0] for name in sys.modules})]))"
    )
    drawn, modules = json.loads(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout)
    assert drawn
    assert {"numpy", "vl_convert", "onnx", "scipy", "jinja2"} & set(modules) == set()


def test_styles_of_reports_leave_the_frame_of_the_studio_alone():
    frame = (files("edgewise.studio") / "templates/frame.html.jinja").read_text()
    names = {name for group in re.findall(r'class="([\w -]+)"', frame) for name in group.split()}
    own = {"bar", "working", "where"}
    assert own <= names
    sheet = (files("edgewise.report") / "templates/report.css").read_text()
    text = re.sub(r"/\*.*?\*/", "", sheet, flags=re.DOTALL)
    begun = {
        name for selectors in re.findall(r"([^{}]+)\{", text) for name in re.findall(r"(?:^|,)\s*\.([\w-]+)", selectors)
    }
    assert begun and own & begun == set()


def test_a_cell_of_the_list_of_runs_has_no_frame_of_its_own():
    """The column "basis" has a class that legends use as well."""
    sheet = (files("edgewise.studio") / "static/history.css").read_text()
    assert not re.search(r"(?m)^\.basis [{]", sheet)
