"""A model over time: which runs are one trend, what changed between them, the chart and its table."""

from __future__ import annotations

import csv
import html
import io
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from edgewise.record.run import Trust
from made_runs import HOSTILE, made_run, rows_of
from sample_runs import failed_run, make_run, paced_run, run_id

SVG = "{http://www.w3.org/2000/svg}"


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
    for number in (40, 42):
        it.store.save(made_run(number, model="vague.onnx"))
    it.store.save(_vague(made_run(41, model="vague.onnx")))
    it.store.save(replace(failed_run(33), created_at="2026-02-01T00:00:00.000+00:00"))
    return it


def _vague(run):
    """`run` with grade D, and an interval from 1 µs to 90 ms about its 1 ms."""
    latency, *rest = run.measurements
    return replace(
        run,
        measurements=(replace(latency, low=1e-6, high=0.09), *rest),
        trust=Trust(grade="D", reasons=("vague",)),
    )


def test_a_trend_has_the_runs_of_one_setting_oldest_first(browse):
    rows = rows_of(browse.get("/trend?model=kws.onnx&runtime=openvino&device=local").text)
    assert len(rows) == 20
    assert rows[0] == ["2026-01-01 01:00", "2.00 ms", "± 0.04 ms", "measured", "B", ""]
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
    assert rows[3][1:4] == ["45.8 MiB", "± 0.2 MiB", "measured"]
    assert not [row for row in rows if "level" in row[5]]
    assert re.findall(r'<option value="(\w+)"', text) == ["latency", "memory_peak", "model_size"]
    assert '<option value="memory_peak" selected>' in text
    assert "No finished run" in browse.get("/trend?model=kws.onnx&metric=energy").text


def test_the_chart_as_svg_draws_the_runs_of_the_page_in_the_colours_of_a_scheme(browse):
    pytest.importorskip("vl_convert")
    address = "/trend?model=kws.onnx&runtime=openvino&device=local&format=.svg"
    answer = browse.get(address)
    assert answer.headers["content-type"] == "image/svg+xml"
    assert answer.headers["content-disposition"] == 'attachment; filename="trend.svg"'
    root = ElementTree.fromstring(answer.text)
    marks = {group.get("class", ""): group for group in root.iter(f"{SVG}g")}

    def paths(kind, layer):
        return list(marks[f"mark-{kind} role-mark layer_{layer}_marks"].iter(f"{SVG}{kind_of[kind]}"))

    kind_of = {"area": "path", "rule": "line", "line": "path", "symbol": "path"}
    assert [len(paths(*each)) for each in (("area", 0), ("rule", 1), ("rule", 2), ("line", 3))] == [1, 1, 1, 1]
    points = [place(each) for each in paths("symbol", 4)]
    assert len(points) == 20
    # From 0 to 3.06 ms × 1.08 on 300 pixels, at even distances on 860; red at run 11, dashed at run 15.
    assert points[0] == pytest.approx((0, 300 - 300 * 2 / 3.06 / 1.08), abs=0.01)
    assert points[-1] == pytest.approx((860, 300 - 300 * 3 / 3.06 / 1.08), abs=0.01)
    assert [place(paths("rule", layer)[0])[0] for layer in (1, 2)] == pytest.approx([points[14][0], points[10][0]])
    light, dark = answer.text, browse.get(f"{address}&scheme=dark").text
    for text, line, red, paper in ((light, "#2f6fd0", "#a92323", "#ffffff"), (dark, "#6ea2f2", "#f08585", "#171c23")):
        assert f'stroke="{line}"' in text
        assert f'stroke="{red}"' in text
        assert f'fill="{paper}"' in text
        assert "var(" not in text
    assert browse.get("/trend?model=nothing&format=.svg").status_code == 400


def place(mark) -> tuple[float, float]:
    """Where a mark of a drawing is, in pixels of the plot."""
    x, y = re.fullmatch(r"translate\(([-\d.]+),\s?([-\d.]+)\)", mark.get("transform")).groups()
    return float(x), float(y)


def test_a_saved_page_has_the_chart_in_it_with_its_data(browse):
    pytest.importorskip("vl_convert")
    text = browse.get("/share?of=%2Ftrend%3Fmodel%3Dkws.onnx%26runtime%3Dopenvino%26device%3Dlocal").text
    figure = re.search(r"<figure.*?</figure>", text, re.DOTALL)[0]
    assert "20 runs, the first 2.00 ms (± 0.04 ms), the last 3.00 ms (± 0.06 ms); " in figure
    assert "level: 2.00 ms → 3.00 ms" in figure
    data = list(csv.reader(io.StringIO(re.search(r'<pre class="chart-data"[^>]*>([^<]+)', figure)[1])))
    assert data[0] == ["Made (UTC)", "basis", "mark", "Latency (ms): v", "Latency (ms): low", "Latency (ms): high"]
    assert data[1] == ["2026-01-01T01:00:00.000+00:00", "measured", "", "2.0", "1.96", "2.04"]
    assert len(data) == 21


def test_the_chart_of_a_page_without_scripts_is_in_the_colours_of_the_scheme(open_page, filled):
    pytest.importorskip("vl_convert")
    address = "/trend?model=kws.onnx&runtime=openvino&device=local"
    page = open_page(address, at=filled, java_script_enabled=False, color_scheme="dark")
    image = page.locator("main img")
    image.wait_for()
    told = image.evaluate("one => [one.complete, one.naturalWidth > 860, one.currentSrc.includes('scheme=dark')]")
    assert told == [True, True, True]


def test_an_interval_of_grade_d_does_not_stretch_the_axis_of_a_trend(browse, filled, open_page):
    """It went to 90 ms, for values of 1 ms."""
    pytest.importorskip("vl_convert")
    address = "/trend?model=vague.onnx"
    text = browse.get(address).text
    # The axis ends at 1.08 times the largest known number; the table and the CSV have the whole interval.
    assert re.findall(r'data-low="([^"]*)" data-high="([^"]*)"(.*?) data-basis', text) == [
        ("0.98", "1.02", ""),
        ("0.001", "1.1016", ' data-last="1.1016" data-beyond=""'),
        ("0.98", "1.02", ""),
    ]
    assert 'data-top="1.1016"' in text
    assert [row[2] for row in rows_of(text)] == ["± 0.02 ms", "[0.00100, 90.0] ms", "± 0.02 ms"]
    assert [row["high"] for row in csv.DictReader(io.StringIO(browse.get(f"{address}&format=.csv").text))] == [
        "0.00102", "0.09", "0.00102"
    ]  # fmt: skip
    words = "An arrow marks an interval of grade D that goes on beyond the axis."
    assert text.count(words) == 2
    assert words not in browse.get("/trend?model=kws.onnx&runtime=openvino&device=local").text
    root = ElementTree.fromstring(browse.get(f"{address}&format=.svg").text)
    (arrows,) = [group for group in root.iter(f"{SVG}g") if group.get("class", "").endswith("layer_5_marks")]
    assert [place(one)[1] for one in arrows.iter(f"{SVG}path")] == [0.0]
    saved = browse.get("/share?of=%2Ftrend%3Fmodel%3Dvague.onnx").text
    data = list(csv.reader(io.StringIO(re.search(r'<pre class="chart-data"[^>]*>([^<]+)', saved)[1])))
    assert [row[:2] for row in data[1:]] == [
        [f"2026-01-02T{hour}:00:00.000+00:00", "measured"] for hour in (16, 17, 18)
    ]
    page = open_page(address, at=filled)
    page.locator("#trend canvas").wait_for()
    # The topmost row of the plot, in the middle, where the second of three runs is, has the colour of text.
    dark = page.evaluate(
        """() => {
            const canvas = document.querySelector("#trend canvas"), context = canvas.getContext("2d");
            const pixels = context.getImageData(0, 22 * devicePixelRatio, canvas.width, 1).data;
            const isDark = (x) => pixels[4 * x + 3] === 255 && pixels[4 * x] + pixels[4 * x + 1] + pixels[4 * x + 2] < 150;
            return [...Array(canvas.width).keys()].filter(isDark).map((x) => x / canvas.width);
        }"""
    )
    assert dark and all(0.4 < x < 0.65 for x in dark)


def test_what_is_left_open_is_as_in_the_newest_run(browse):
    text = browse.get("/trend?model=kws.onnx").text
    assert rows_of(text) == [["2026-01-02 06:00", "9.00 ms", "± 0.18 ms", "measured", "B", ""]]
    chosen = re.findall(r'aria-current="true"><span>([^<]+)', text)
    assert chosen == ["openvino", "pi4", "1x49x10x1", "cpu, 1 thread, batch 1, single-stream"]
    assert ">local<" in text


def test_a_run_leads_to_the_trend_of_its_own_setting(studio, client):
    """The link of a run on two threads led to the trend of the newest run's threads, provider and shapes."""
    cpu, gpu = (replace(made_run(number, latency=1e-3 * (number + 1)), tags=()) for number in (0, 1))
    gpu = replace(gpu, job=replace(gpu.job, runtime=replace(gpu.job.runtime, provider="gpu")))
    two = make_run(2, threads=2, latency=3e-3)
    paced = paced_run(3)
    runs = [cpu, gpu, two, paced]
    for one in runs:
        studio.store.save(replace(one, job=replace(one.job, model=cpu.job.model)))
    for one in runs:
        (place,) = re.findall(r'href="(/trend[^"]+)"', client.get(f"/runs/{one.id}").text)
        text = client.get(html.unescape(place)).text
        assert re.findall(r'href="/runs/([0-9a-f-]+)"', text) == [one.id], one
    assert rows_of(client.get(f"/trend?model=kws.onnx&run={cpu.id}&settings=nowhere").text) == []
    assert len(rows_of(client.get("/trend?model=kws.onnx&run=gone").text)) == 1


def test_the_table_as_csv_is_exact(browse):
    answer = browse.get("/trend?model=kws.onnx&runtime=litert&format=.csv")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [(row["id"], row["value"], row["low"], row["unit"], row["basis"]) for row in rows] == [
        (run_id(0), "0.004", "0.00392", "s", "simulated")
    ]
    assert answer.headers["content-disposition"] == 'attachment; filename="trend.csv"'


@pytest.mark.parametrize(
    "query", ["", "?model=", "?model=nothing", "?model=kws.onnx&runtime=none", "?model=kws", "?model=%00", "?model=%ff"]
)
def test_no_runs_are_said(browse, query):
    answer = browse.get(f"/trend{query}")
    assert answer.status_code == 200
    assert "<table" not in answer.text
    assert "No finished run of" in answer.text or "Name a model" in answer.text
    assert all("<li>" in facet for facet in re.findall('<dl class="facet".*?</dl>', answer.text, re.DOTALL))


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
    assert told.inner_text() == "2026-01-01 19:00: 3.00 ms (± 0.06 ms), measured, grade B"
    page.keyboard.press("Home")
    assert told.inner_text().startswith("2026-01-01 01:00: 2.00 ms")
    page.keyboard.press("+")
    page.keyboard.press("Escape")
    with page.expect_download() as saved:
        page.get_by_role("button", name="PNG").click()
    assert saved.value.path().read_bytes().startswith(b"\x89PNG")
    with page.expect_download() as saved:
        page.get_by_role("link", name="SVG").click()
    assert saved.value.suggested_filename == "trend.svg"
    assert saved.value.url.endswith("&format=.svg&scheme=light")
    page.keyboard.press("Shift+Tab")
    chart.focus()
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/runs/{run_id(20)}")
