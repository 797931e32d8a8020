"""The page as text: complete, escaped, self-contained, and whole without the chart library."""

from __future__ import annotations

import copy
import html
import json
import re
import subprocess
import sys
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.errors import Unavailable
from edgewise.formatting import quantity
from edgewise.metrics import METRICS
from edgewise.record import Caution
from edgewise.record.run import Trust
from edgewise.report.bench import charts
from edgewise.report.bench.charts import Series
from edgewise.report.bench.page import bench_page
from edgewise.report.charts import colour_of, render_svg
from edgewise.report.files import write_report
from edgewise.report.runs.field_tables import Options
from patience import LIMIT_S
from report_pages import Outline, render_html
from sample_runs import VWW, all_runs, failed_run, make_run, run_id, same_model_runs, sampled


@cache
def whole_page():
    """The page of all sample runs, which tests only read."""
    options = Options(task="Keyword Spotting", reference="https://example.org/paper")
    return Outline(render_html(all_runs(), title="Three engines", options=options))


@pytest.fixture
def without_charts(monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)


def test_the_page_nests_and_has_every_part():
    outline = whole_page()
    for words in (
        "Three engines", "Recommended for", "Benchmark", "Charts", "Tables of the field", "Conditions", "What the metrics mean",
        "231 µs", "1.429× [1.382, 1.476] faster than fake/cpu", "operator 'Einsum' is not supported", "ERROR: no kernel", "Keyword Spotting",
        "one process only", "rapl: /sys/class/powercap has no intel-rapl domain", "precision reached", "avx512_vnni",
    ):  # fmt: skip
        assert words in outline.text, words
    assert ("html", "lang", "en") in outline.attributes
    assert outline.tags.count("h1") == 1
    assert outline.tags.count("table") == outline.tags.count("caption")


def test_every_measurement_is_there_with_its_method_or_reason():
    run = make_run(1)
    text = Outline(render_html([run])).text
    for row in run.measurements:
        assert METRICS[row.metric].label in text
        assert (row.method or row.absent_because) in text
        assert METRICS[row.metric].definition in text
    # How a value is made of samples is told where it is made of several.
    assert "(median, lower is better)" in text and "(last" not in text and "(ratio" not in text


def test_a_number_says_how_it_is_known_once_however_many_tables_show_it(without_charts):
    run = make_run(1)
    page = render_html([run])
    ((identity, known),) = re.findall(r'<h3 id="(how-[0-9]+)-name">Latency: 420 µs</h3>(.*?)</dl>', page, re.DOTALL)
    for words in ("0.00042 s", "0.000409 to 0.000431 s", "measured: read from a clock or a sensor", run.measurement("latency").method,
                  "1200 in 5 sessions", "p99 0.000", "Example CPU @ 2.00 GHz", "kws.onnx"):  # fmt: skip
        assert words in html.unescape(known), words
    assert page.count(f'class="value" popovertarget="{identity}"') > 1


def test_a_list_of_runs_begins_as_on_a_terminal_and_says_what_ran_and_what_failed(without_charts):
    said = [
        re.sub("<[^>]*>", "", line) for line in re.findall('<p class="evidence">(.*?)</p>', render_html(all_runs()))
    ]
    assert said[0].startswith("single-stream, batch 1: Fastest: kws.onnx on openvino/cpu, 231 ± 4 µs")
    (at,) = (at for at, line in enumerate(said) if line.startswith("7 runs of"))
    assert said[at : at + 2] == [
        "7 runs of 2 models (kws.onnx and vww.tflite) in 4 engines (onnxruntime, openvino, fake and litert) on 1 device "
        "(local)",
        "1 of 7 failed: kws.onnx · litert/interpreter (operator &#39;Einsum&#39; is not supported)",
    ]
    assert (
        "kws.onnx, single-stream, batch 1: Recommended: openvino/cpu, latency 231 ± 4 µs, grade B; "
        "fake/cpu is 1.429× [1.382, 1.476] slower, by their processes" in said
    )
    (one,) = re.findall("<h1>.*?<nav", render_html([make_run(1)]), re.DOTALL)
    assert "runs of" not in one and ">kws.onnx on onnxruntime/cpu: latency 420" in one


def test_numbers_stand_before_why_no_run_is_recommended(without_charts):
    """With grade D, reasons of a screen or two stood above the table; that none is recommended is said at the top."""
    page = render_html([replace(run, trust=replace(run.trust, grade="D")) for run in same_model_runs()])
    places = [page.index(words) for words in ("No run can be recommended", "</table>", ">No recommendation<")]
    assert places == sorted(places)


def test_each_variation_between_runs_names_its_run(without_charts):
    said = [html.unescape(line) for line in re.findall("<li>(between runs: .*?)</li>", render_html(same_model_runs()))]
    assert said == [
        f"between runs: {name}: ± {width}%, of earlier runs"
        for name, width in (("onnxruntime/cpu", 2.7), ("openvino/cpu", 1.7), ("fake/cpu", 2.8))
    ]
    (one,) = re.findall("<li>(between runs: .*?)</li>", render_html([make_run(1)]))
    assert one == "between runs: ± 2.7%, of earlier runs"


def test_links_within_the_page_lead_somewhere_and_ids_are_unique():
    outline = whole_page()
    ids = [value for _, name, value in outline.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    links = {value for tag, name, value in outline.attributes if name == "href" and tag == "a"}
    assert {link[1:] for link in links if link.startswith("#")} <= set(ids)
    used = re.findall(r"url\(#([^)]+)\)", " ".join(value for _, _, value in outline.attributes))
    assert set(used) <= set(ids)


def test_nothing_is_fetched():
    outline = whole_page()
    addresses = [
        (tag, value) for tag, name, value in outline.attributes if name in ("src", "href", "data", "action", "srcset")
    ]
    assert {value for tag, value in addresses if not value.startswith("#")} == {"https://example.org/paper"}
    assert {tag for tag, _ in addresses} == {"a"}
    policy = next(
        value for tag, name, value in outline.attributes if tag == "meta" and name == "content" and "default" in value
    )
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-")


HOSTILE = "<script>alert(1)</script>\n\"'><img src=x onerror=alert(2)>{{ 7*7 }}&amp;\x00\x1b[31m"


def poisoned():
    """Runs with a hostile text wherever a model, a path or an engine could put one."""
    run = make_run(1, cautions=(Caution(code="drift", message=HOSTILE, advice=HOSTILE),))
    job = replace(
        run.job,
        model=replace(run.job.model, name=HOSTILE, path=HOSTILE),
        runtime=replace(run.job.runtime, name=HOSTILE, version=HOSTILE),
        workload=replace(run.job.workload, inputs=(replace(run.job.workload.inputs[0], name=HOSTILE, note=HOSTILE),)),
    )
    rows = tuple(
        replace(row, method=HOSTILE) if row.value is not None else replace(row, absent_because=HOSTILE)
        for row in run.measurements
    )
    run = replace(
        run, job=job, measurements=rows, tags=(HOSTILE,), environment={HOSTILE: HOSTILE, "cpu": {"model": HOSTILE}},
        effective={"precision": HOSTILE, HOSTILE: [HOSTILE]},
        sessions=(replace(run.sessions[0], stopped_because=HOSTILE, phases={HOSTILE: 1.0}),),
    )  # fmt: skip
    failed = failed_run(2, message=HOSTILE)
    failure = replace(failed.failure, stderr_tail=HOSTILE, advice=HOSTILE, phase=HOSTILE, signal=HOSTILE)
    return [run, replace(failed, failure=failure, job=replace(failed.job, model=job.model))]


def test_hostile_texts_stay_texts():
    text = render_html(poisoned(), title=HOSTILE, options=Options(task=HOSTILE, reference=HOSTILE))
    outline = Outline(text)
    assert outline.tags.count("script") == 1
    assert "img" not in outline.tags
    assert not [name for _, name, _ in outline.attributes if name.startswith("on")]
    assert "49" not in re.findall(r"\{\{ ?(\d+)", text)
    assert "<script>alert(1)</script> \"'><img src=x onerror=alert(2)>{{ 7*7 }}&amp; [31m" in outline.text
    assert "\x00" not in text
    assert "\x1b" not in text


@settings(max_examples=15, deadline=None)
@given(name=st.text(max_size=40))
def test_any_name_leaves_the_page_whole(name):
    run = make_run(1)
    run = replace(run, job=replace(run.job, model=replace(run.job.model, name=name)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "vl_convert", None)
        Outline(render_html([run])).text.encode()


def test_without_the_chart_library_the_rest_stands(without_charts):
    with pytest.raises(Unavailable):
        render_svg({})
    outline = Outline(render_html(same_model_runs()))
    assert "charts need the package vl-convert-python" in outline.text
    assert "pip install 'edgewise[charts]'" in outline.text
    assert "231 µs" in outline.text
    assert "svg" not in outline.tags


def series(runs):
    return [Series(run=run, label=f"run {index}", colour=colour_of(index)) for index, run in enumerate(runs)]


def drawn(chart):
    """Rows of the data of every layer."""
    rows = list(chart.spec.get("data", {}).get("values", []))
    return rows + [row for layer in chart.spec["layer"] for row in layer.get("data", {}).get("values", [])]


@pytest.mark.parametrize(("latency", "titles"), [(1e-3, ["Latency by run"]), (1e-2, [
    "kws.onnx, single-stream, batch 1: Latency by run", "vww.tflite, single-stream, batch 1: Latency by run",
])])  # fmt: skip
def test_runs_of_one_task_have_one_axis_unless_one_is_too_short_to_be_seen(latency, titles):
    found = bench_page([make_run(1), make_run(2, model=VWW, latency=latency)]).charts()
    assert [chart.title for chart in found if chart is not None and chart.title.endswith("Latency by run")] == titles


def test_the_curve_of_programs_is_of_their_executions():
    run = make_run(1)
    series = Series(
        run=replace(run, job=replace(run.job, command=("python", "a.py"))), label="a.py", colour=colour_of(0)
    )
    assert charts.curve_chart([series]).title == "Share of executions done within a time"
    assert charts.curve_chart([replace(series, run=run)]).title == "Share of inferences done within a time"


def test_charts_hold_the_runs_numbers_and_say_what_they_leave_out():
    group = series(same_model_runs())
    chart = charts.distribution_chart(group)
    box = next(row for row in drawn(chart) if row["run"] == "run 1" and "value" in row)
    assert (box["value"], box["low"], box["high"]) == (231.0, 227.0, 235.0)
    assert box["q1"] < 231.0 < box["q3"]
    assert "run 1: latency 231 ± 4 µs" in chart.description
    samples = [value for one in same_model_runs()[:3] for value in one.measurement("latency").samples]
    limit = max(row["x"] for row in drawn(chart) if "jitter" in row)
    said = int(re.search(r"(\d+) of 3600 samples lie beyond the axis", chart.caption)[1])
    assert 0 < said <= sum(value * 1e6 > limit for value in samples)
    shares = [row["share"] for row in drawn(charts.curve_chart(group)) if row["run"] == "run 0"]
    assert shares == sorted(shares)
    memory = charts.memory_chart(group)
    assert {row["run"]: row["peak"] for row in drawn(memory)} == {"run 0": 45.776, "run 1": 87.738, "run 2": 28.61}
    assert "229 of 1200 samples are picked: of each of 60 equal stretches" in charts.series_chart(group[0]).caption
    edges = [row["i"] for row in drawn(charts.series_chart(group[0])) if set(row) == {"i"}]
    assert edges == [240, 480, 720, 960]


@pytest.mark.parametrize("zoomed", [False, True])
def test_an_interval_of_grade_d_does_not_stretch_the_axis(zoomed):
    steady, vague = (replace(make_run(number), measurements=(sampled("latency", 63e-6, half=1e-6, seed=7),))
                     for number in (1, 2))  # fmt: skip
    wide = replace(vague.measurements[0], low=1e-7, high=0.445)
    vague = replace(vague, measurements=(wide,), trust=Trust(grade="D", reasons=()))
    chart = charts.distribution_chart(series([steady, vague]), zoomed=zoomed)
    axis = chart.spec["layer"][0]["encoding"]["x"]["scale"]
    lower, upper = axis["domain"] if zoomed else (axis["domainMin"], axis["domainMax"])
    assert upper < 100  # µs
    box = next(row for row in drawn(chart) if row["run"] == "run 1" and "value" in row)
    assert (box["value"], box["low"], box["high"]) == (63.0, lower if zoomed else 0.1, upper)
    ends = {row[end] for row in drawn(chart) for end in ("first", "last") if end in row}
    assert ends == ({lower, upper} if zoomed else {upper})
    assert box["beyond"] == "[0.100, 445000] µs"
    assert "An arrow marks an interval of grade D that goes on beyond the axis." in chart.caption
    assert charts.curve_chart(series([steady, vague])).spec["layer"][0]["encoding"]["x"]["scale"]["domainMax"] < 100
    graded = replace(vague, trust=Trust(grade="C", reasons=()))
    assert "arrow" not in charts.distribution_chart(series([steady, graded]), zoomed=zoomed).caption


def test_thinned_series_keep_the_extremes_of_every_stretch():
    run = replace(make_run(1), measurements=(sampled("latency", 1e-3, half=1e-5, seed=7, n=5000),))
    (one,) = series([run])
    chart = charts.series_chart(one)
    values = [row["x"] for row in drawn(chart) if "x" in row]
    samples = run.measurements[0].samples
    assert len(values) <= charts.SERIES_POINTS
    assert f"up to {quantity(max(samples), 's')}" in chart.caption
    for place in range(60):
        stretch = [value * 1e3 for value in samples[place * 5000 // 60 : (place + 1) * 5000 // 60]]
        assert float(f"{min(stretch):.5g}") in values
        assert max(stretch) > max(values) or float(f"{max(stretch):.5g}") in values
    dots = [row["x"] for row in drawn(charts.distribution_chart([one])) if "jitter" in row]
    assert len(dots) <= charts.STRIP_POINTS and min(dots) == min(values)


@pytest.mark.long
def test_a_page_of_twenty_runs_is_small():
    pytest.importorskip("vl_convert")
    runs = [
        replace(
            run,
            id=run_id(100 + place),
            variation=None,
            measurements=(sampled("latency", 1e-3, half=1e-5, seed=place, n=2000), *rest),
        )
        for place, (run, rest) in enumerate((make_run(1), make_run(1).measurements[1:]) for _ in range(20))
    ]
    assert len(render_html(runs).encode()) <= 1_000_000


def test_control_characters_do_not_end_the_process():
    """vl-convert ends the whole process on a control character in a text."""
    pytest.importorskip("vl_convert")
    (one,) = series(same_model_runs()[:1])
    chart = charts.memory_chart([replace(one, label="a\x1b[31mb\0\ufffe\ud800")])
    code = f"from edgewise.report.charts import render_svg; print(render_svg({chart.spec!r})[:4])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT_S)
    assert (done.returncode, done.stdout) == (0, "<svg\n")


def test_a_page_tells_no_folder_of_the_machine(tmp_path):
    run = failed_run()
    model = replace(run.job.model, path="/srv/alice-smith/kws.onnx")
    tail = (
        "Load model from /srv/alice-smith/kws.onnx failed\n/home/alice-smith/my models/a.so, layer /model/layers.0/Conv"
    )
    failure = replace(run.failure, message="can't read /Users/alice-smith/x.tflite", stderr_tail=tail)
    write_report([replace(run, job=replace(run.job, model=model), failure=failure)], tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "alice-smith" not in page
    assert "Load model from kws.onnx failed" in page and "layer /model/layers.0/Conv" in page


def test_nothing_to_draw_gives_no_chart():
    bare = replace(make_run(1), measurements=())
    for make in charts.GROUP_CHARTS:
        assert make(series([bare, failed_run()])) is None
    assert charts.series_chart(series([bare])[0]) is None
    assert "There are no charts" in Outline(render_html([bare])).text


def test_specifications_are_data_that_every_tool_can_read():
    for make in charts.GROUP_CHARTS:
        json.dumps(make(series(same_model_runs())).spec, allow_nan=False)


def test_rendering_leaves_the_runs_alone_and_is_repeatable(without_charts):
    runs = all_runs()
    before = copy.deepcopy(runs)
    assert render_html(runs) == render_html(runs)
    assert runs == before
