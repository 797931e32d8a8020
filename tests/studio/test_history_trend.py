"""A model over time: which runs are one trend, what changed between them, the chart and its table."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace

import pytest

from made_runs import HOSTILE, made_run, rows_of
from sample_runs import failed_run, run_id


@pytest.fixture(scope="module")
def filled(serve):
    """Runs 1 to 20 of kws.onnx on openvino; 11 and later are slower, 15 and later of another version; others beside."""
    it = serve()
    for number in range(1, 21):
        slow = 1.5 if number > 10 else 1.0
        it.store.save(
            made_run(number, runtime="openvino", latency=2e-3 * slow, version="2.0" if number >= 15 else "1.0")
        )
    it.store.save(made_run(30, runtime="openvino", device="pi4", latency=9e-3))
    it.store.save(made_run(0, runtime="litert", basis="simulated", latency=4e-3))
    it.store.save(made_run(31, model="my_kws.onnx", runtime="openvino"))
    it.store.save(made_run(32, model=HOSTILE))
    it.store.save(replace(failed_run(33), created_at="2026-02-01T00:00:00.000+00:00"))
    return it


@pytest.fixture
def browse(filled):
    with filled.client() as client:
        yield client


def test_a_trend_has_the_runs_of_one_setting_oldest_first(browse):
    rows = rows_of(browse.get("/trend?model=kws.onnx&runtime=openvino&device=local").text)
    assert len(rows) == 20
    assert rows[0] == ["2026-01-01 01:00", "2.00 ms", "1.96 ms to 2.04 ms", "measured", "B", ""]
    assert rows[14][0] == "2026-01-01 15:00"
    assert "runtime version: 1.0 → 2.0" in rows[14][5]
    assert [index for index, row in enumerate(rows) if "runtime version" in row[5]] == [14]
    assert [(index, row[5]) for index, row in enumerate(rows) if "level" in row[5]] == [
        (10, "level: 2.00 ms → 3.00 ms")
    ]


def test_another_metric_and_its_table(browse):
    text = browse.get("/trend?model=kws.onnx&runtime=openvino&device=local&metric=memory_peak").text
    rows = rows_of(text)
    assert len(rows) == 20
    assert rows[3][1:4] == ["48.0 MB", "47.9 MB to 48.1 MB", "measured"]
    assert not [row for row in rows if "level" in row[5]]
    assert re.findall(r'<option value="(\w+)"', text) == ["latency", "memory_peak", "model_size"]
    assert '<option value="memory_peak" selected>' in text
    assert "No finished run" in browse.get("/trend?model=kws.onnx&metric=energy").text


def test_the_chart_of_a_page_without_scripts(browse):
    text = browse.get("/trend?model=kws.onnx&runtime=openvino&device=local").text
    line = re.search(r'<polyline points="([^"]+)"', text)[1].split()
    assert len(line) == 20
    # 3.06 ms is the top: 2 ms and 3 ms are at 220 − 220 × 2/3.06 and 220 − 220 × 3/3.06.
    assert (line[0], line[-1]) == ("0.0,76.2", "800.0,4.3")
    assert text.count("<line ") == 2
    assert "<svg" not in browse.get("/trend?model=kws.onnx").text


def test_what_is_left_open_is_as_in_the_newest_run(browse):
    text = browse.get("/trend?model=kws.onnx").text
    assert rows_of(text) == [["2026-01-02 06:00", "9.00 ms", "8.82 ms to 9.18 ms", "measured", "B", ""]]
    chosen = re.findall(r'aria-current="true"><span>([^<]+)', text)
    assert chosen == ["openvino", "pi4", "1x49x10x1", "cpu, 1 thread, batch 1, single-stream"]
    assert ">local<" in text


def test_the_table_as_csv_is_exact(browse):
    answer = browse.get("/trend?model=kws.onnx&runtime=litert&format=.csv")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [(row["id"], row["value"], row["low"], row["unit"], row["basis"]) for row in rows] == [
        (run_id(0), "0.004", "0.00392", "s", "simulated")
    ]
    assert answer.headers["content-disposition"] == "attachment; filename=trend.csv"


@pytest.mark.parametrize(
    "query", ["", "?model=", "?model=nothing", "?model=kws.onnx&runtime=none", "?model=kws", "?model=%00", "?model=%ff"]
)
def test_no_runs_are_said(browse, query):
    answer = browse.get(f"/trend{query}")
    assert answer.status_code == 200
    assert "<table" not in answer.text
    assert "No finished run of" in answer.text or "Name a model" in answer.text


def test_hostile_names_are_text(browse):
    from urllib.parse import quote

    text = browse.get(f"/trend?model={quote(HOSTILE)}").text
    assert "<script>alert" not in text
    assert 'name="model" value="&lt;script&gt;' in text


def test_the_chart_is_read_and_zoomed_by_keyboard_and_saved(open_page, filled):
    page = open_page("/trend?model=kws.onnx&runtime=openvino&device=local", at=filled)
    chart = page.locator("#trend")
    page.locator("#trend canvas").wait_for()
    chart.focus()
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    told = page.locator("#told")
    assert told.inner_text() == "2026-01-01 19:00: 3.00 ms (2.94 ms to 3.06 ms), measured, grade B"
    page.keyboard.press("Home")
    assert told.inner_text().startswith("2026-01-01 01:00: 2.00 ms")
    page.keyboard.press("+")
    page.keyboard.press("Escape")
    with page.expect_download() as saved:
        page.get_by_role("button", name="PNG").click()
    assert saved.value.path().read_bytes().startswith(b"\x89PNG")
    page.keyboard.press("Shift+Tab")
    chart.focus()
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/runs/{run_id(20)}")
