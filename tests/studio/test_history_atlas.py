"""Models × devices: the best run of each, by basis; devices from calibrations and imported tables."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace

import pytest

from edgewise.device import calibrations
from edgewise.record import InputSpec
from edgewise.record.run import Trust
from edgewise.studio.views import atlas as views
from estimates import estimated
from made_runs import HOSTILE, made_run, rows_of
from messages import says
from sample_calibrations import forecasts
from sample_runs import make_run, run_id


@pytest.fixture(scope="module")
def filled(serve):
    """Two models on two devices; on pi4, kws.onnx is measured, simulated and estimated."""
    it = serve()
    for number, latency in enumerate((3e-3, 2e-3, 4e-3)):
        it.store.save(made_run(number, device="pi4", latency=latency))
    it.store.save(made_run(10, device="pi4", basis="estimated", latency=1e-3))
    it.store.save(made_run(11, device="pi4", basis="simulated", latency=1.5e-3, runtime="openvino"))
    it.store.save(made_run(12, device="jetson", latency=5e-3, runtime="openvino"))
    it.store.save(made_run(13, device="jetson", latency=6e-3))
    it.store.save(made_run(14, model="vww_net.onnx", device="jetson", latency=7e-3))
    it.store.save(made_run(15, model="vww_net.onnx", device="<i>board", latency=8e-3))
    return it


@pytest.fixture
def studio(emptied):
    return emptied


def head_of(text):
    return re.findall(r'<th scope="col">([^<]*)</th>', text)


def test_the_best_of_each_basis_stands_in_its_own_place(browse):
    text = browse.get("/atlas").text
    assert "batch 1: the best of the newest run of each setting</caption>" in text
    assert head_of(text) == ["Model", "&lt;i&gt;board", "jetson", "pi4"]
    assert rows_of(text) == [
        [
            "kws.onnx 08080808 1x49x10x1", "no run", "5.00 ms B ± 0.10 ms measured: openvino/cpu, 1 thread; chosen from 2 runs of all settings; trend",
            "4.00 ms B ± 0.08 ms measured: onnxruntime/cpu, 1 thread; chosen from 3 runs of all settings; trend "
            "1.50 ms B ± 0.03 ms simulated: openvino/cpu, 1 thread; trend "
            "1.00 ms B ± 0.02 ms estimated: onnxruntime/cpu, 1 thread; trend",
        ],
        [
            "vww_net.onnx 0c0c0c0c 1x49x10x1", "8.00 ms B ± 0.16 ms measured: onnxruntime/cpu, 1 thread; trend",
            "7.00 ms B ± 0.14 ms measured: onnxruntime/cpu, 1 thread; trend", "no run",
        ],
    ]  # fmt: skip
    assert text.index("</table>") < text.index("Of each setting")  # the values stand before how they were chosen
    assert f'<a href="/runs/{run_id(2)}"><strong>4.00 ms' in text
    assert f"/trend?model=kws.onnx&amp;metric=latency&amp;run={run_id(2)}" in text


@pytest.mark.parametrize(
    ("query", "columns", "models"),
    [
        ("runtime=openvino", ["jetson", "pi4"], ["kws.onnx 08080808 1x49x10x1"]),
        ("model=VWW", ["&lt;i&gt;board", "jetson"], ["vww_net.onnx 0c0c0c0c 1x49x10x1"]),
        ("model=kws&runtime=onnxruntime", ["jetson", "pi4"], ["kws.onnx 08080808 1x49x10x1"]),
        (
            "workload=latency/single-stream/1&model=vww",
            ["&lt;i&gt;board", "jetson"],
            ["vww_net.onnx 0c0c0c0c 1x49x10x1"],
        ),
        ("workload=latency/single-stream/8", [], []),
        ("precision=f16", [], []),
        ("model=nothing", [], []),
    ],
)
def test_filters(browse, query, columns, models):
    text = browse.get(f"/atlas?{query}").text
    assert head_of(text)[1:] == columns
    assert [row[0] for row in rows_of(text)] == models
    assert ("Show all" in text) == (not models)


@pytest.mark.parametrize("workload", ["latency", "a/b/c", "/", "a/b/99999999999999999999", "latency/x/1 OR 1=1"])
def test_a_workload_that_is_none_is_refused(browse, workload):
    answer = browse.get("/atlas", params={"workload": workload})
    assert answer.status_code == 400
    assert re.search(says("not-workload"), answer.text)


def test_workloads_do_not_mix(studio, client):
    studio.store.save(make_run(1))
    studio.store.save(make_run(2, batch=8, latency=9e-3))
    studio.store.save(make_run(3, batch=8, latency=8e-3))
    text = client.get("/atlas").text
    assert rows_of(text)[0][1].startswith("8.00 ms")
    assert re.findall(r'<option value="([^"]+)"', text)[:2] == ["latency/single-stream/8", "latency/single-stream/1"]
    assert rows_of(client.get("/atlas?workload=latency/single-stream/1").text)[0][1].startswith("420 µs")


def test_runs_of_grade_d_are_counted_beside_the_best_with_the_command_that_repeats_them(studio, client):
    studio.store.save(made_run(1, device="pi4", latency=3.95e-3))
    for number, latency in ((2, 100e-6), (3, 63e-6)):
        studio.store.save(replace(made_run(number, device="pi4", latency=latency), trust=Trust(grade="D")))
    other = made_run(4, device="pi4", latency=1e-6)
    of_batch = replace(other.job, workload=replace(other.job.workload, batch=8))
    studio.store.save(replace(other, job=of_batch, trust=Trust(grade="D")))
    studio.store.save(made_run(5, device="jetson", model="vww_net.onnx"))
    studio.store.save(replace(made_run(6, device="jetson", latency=1e-3), trust=Trust(grade="D")))
    text = client.get("/atlas?workload=latency/single-stream/1").text
    kws, vww = rows_of(text)
    again = "measure again: edgewise bench kws.onnx -r onnxruntime -d"
    assert kws[2].startswith("3.95 ms B")
    assert kws[2].endswith(f"left out: 2 runs of grade D, the smallest 63.0 µs ; {again} pi4")
    assert kws[1].startswith("no best") and kws[1].endswith(f"1 run of grade D, the smallest 1.00 ms ; {again} jetson")
    assert f'<a href="/runs/{run_id(3)}">63.0 µs</a>' in text
    assert "grade D" not in " ".join(vww)
    assert "1 run of grade D" not in client.get("/atlas?workload=latency/single-stream/1&model=vww").text


def test_shapes_of_one_file_do_not_mix_in_the_atlas_and_in_trends(studio, client):
    for number, side in enumerate((224, 320, 224, None)):
        one = made_run(number, device="pi4", latency=1e-3 * (number + 1))
        shape = InputSpec(name="x", shape=(1, 3, side, side), dtype="float32")
        workload = replace(one.job.workload, inputs=() if side is None else (shape,))
        studio.store.save(replace(one, job=replace(one.job, workload=workload)))
    rows = rows_of(client.get("/atlas").text)
    assert [(title, cell.split(" B ")[0], cell.partition("thread; ")[2]) for title, cell in rows] == [
        ("kws.onnx 08080808 shape unknown", "4.00 ms", "trend"),
        ("kws.onnx 08080808 1x3x224x224", "3.00 ms", "chosen from 2 runs of all settings; trend"),
        ("kws.onnx 08080808 1x3x320x320", "2.00 ms", "trend"),
    ]
    times = [row[1] for row in rows_of(client.get("/trend?model=kws.onnx&shapes=1x3x224x224").text)]
    assert times == ["1.00 ms", "3.00 ms"]
    assert [row[1] for row in rows_of(client.get("/trend?model=kws.onnx").text)] == ["4.00 ms"]
    links = re.findall(r'href="(/trend[^"]+)"', client.get("/atlas").text)
    trends = [[row[1] for row in rows_of(client.get(html.unescape(each)).text)] for each in links]
    assert trends == [["4.00 ms"], ["1.00 ms", "3.00 ms"], ["2.00 ms"]]
    columns = client.get("/runs?column=made&column=shapes").text
    assert [row[2] for row in rows_of(columns)] == ["", "1x3x224x224", "1x3x320x320", "1x3x224x224"]


def test_devices_from_files_are_listed_and_damaged_files_said(studio, client, tmp_path, monkeypatch):
    folder = calibrations.calibrations_folder(studio.store)
    monkeypatch.setattr(views, "default_path", lambda: tmp_path / "data" / "runs.db")
    assert "edgewise calibrate" in client.get("/atlas").text
    folder.mkdir(parents=True)
    document = {"runtime": "litert", "metrics": {"latency": {"points": [{}, {}, {}]}}}
    (folder / "board1.json").write_text(json.dumps(document))
    laws = [{"left_out": [0.1, None, 0.2]}]
    few = {"runtime": "", "metrics": {"latency": {"points": [{}, {}, {}], "laws": laws}}}
    (folder / "board3.json").write_text(json.dumps(few))
    (folder / "board2.json").write_text("[]")
    tables = tmp_path / "data" / "atlas"
    tables.mkdir(parents=True)
    head = "model,variant,device,group,runtime,precision,unit,setting,batch,latency_s,source,licence\n"
    (tables / "ncnn.csv").write_text(
        head + "a,,Phone <b>,,ncnn,,CPU,,1,0.1,src,BSD\nb,,Phone <b>,,ncnn,,CPU,,1,0.2,src,BSD\n"
    )
    (tables / "bad.csv").write_bytes(b"\xff\xfe")
    text = client.get("/atlas").text
    assert "<strong>board1</strong> (litert): Latency learnt from 3 models" in text
    assert "<strong>board3</strong>: Latency learnt from 2 of 3 models" in text
    assert "board2</strong>: its file is damaged" in text
    assert "2 measurements of 2 models on 1 devices" in text
    assert "Phone &lt;b&gt;" in text
    assert "src BSD" in text
    assert "bad <span" in text


def test_the_first_page_shows_new_results_with_interval_and_grade(studio, client):
    studio.store.save(replace(made_run(1, latency=0.0171), trust=Trust(grade="D")))
    (row,) = rows_of(client.get("/").text)
    assert row[:4] == ["kws.onnx", "17.1 ms", "± 0.4 ms", "D"]


def test_an_empty_store_and_hostile_names(studio, client):
    assert "No finished run matches." in client.get("/atlas").text
    studio.store.save(made_run(1, model=HOSTILE, device="<script>alert(2)</script>", runtime="<u>"))
    text = client.get("/atlas").text
    assert "<script>alert" not in text
    assert "<u>" not in text


def keep_job(studio, verb, document, **request):
    """A finished job whose result is `document`; its id."""
    jobs = studio.store.jobs
    one = jobs.add({"verb": verb, **request}, title=verb, queue="without a dispatcher", device="local")
    assert jobs.finish(jobs.claim("without a dispatcher", "nobody"), "done")
    folder = studio.studio.jobs.folder_of(one) / "result"
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(document if isinstance(document, str) else json.dumps(document))
    return one


def test_estimates_of_jobs_stand_beside_runs_with_their_interval_or_reason(studio, client, tmp_path):
    estimate = estimated(tmp_path).to_document()
    name = estimate["device"]["name"]
    sha256 = estimate["model"]["sha256"] = "ab" * 32
    studio.store.save(made_run(1, model="dense.tflite", device="pi4"))
    estimate["model"]["name"] = "dense.tflite"
    latency = next(row for row in estimate["estimates"] if row["metric"] == "latency")
    latency["value"] = 0.5e-3
    keep_job(studio, "estimate", estimate)
    latency |= {"value": 1e-3, "coverage": 0.9}
    newest = keep_job(studio, "estimate", estimate)
    latency |= {"value": None, "basis": None, "absent_because": "no clock <is> given"}
    estimate["device"] |= {"name": "core", "clock_hz": None}
    keep_job(studio, "estimate", estimate)
    keep_job(studio, "estimate", "[damaged")
    keep_job(studio, "inspect", estimate)
    text = client.get("/atlas").text
    clock = next(each for each in head_of(text) if each.startswith(name))
    assert head_of(text) == sorted(["Model", "core", clock, "pi4"], key=lambda each: (each != "Model", each))
    of_run, of_job = rows_of(text)
    assert of_run[0] == "dense.tflite 0c0c0c0c 1x49x10x1"
    assert of_run[1:].count("no run") == 2
    cells = dict(zip(head_of(text), of_job, strict=True))
    assert cells["Model"] == f"dense.tflite {sha256[:8]} shape unknown"
    assert cells["pi4"] == "no run"
    assert cells[clock] == "1.00 ms ± 0.10 ms, 90 % interval estimated: by a job of the studio"
    assert cells["core"] == "absent absent: no clock <is> given"
    assert f'<a href="/jobs/{newest}"><strong>1.00 ms' in text
    assert "by a job" not in client.get("/atlas?runtime=onnxruntime").text
    assert "by a job" not in client.get("/atlas?workload=latency/single-stream/8").text
    assert "No finished run matches." in client.get("/atlas?model=other").text


def test_predictions_of_jobs_are_of_the_files_that_were_named(studio, client):
    document = forecasts().to_document()
    one = keep_job(studio, "predict", document, models=["/m/dense.tflite"])
    text = client.get("/atlas").text
    column = head_of(text).index("phone")
    assert [
        (row[0].removesuffix(" shape unknown"), row[column].split(" ms ")[0])
        for row in rows_of(text)
        if row[column] != "no run"
    ] == [
        (row["model"], f"{row['value'] * 1e3:.3g}" if row["value"] else f"absent absent: {row['refused']}")
        for row in sorted(document["estimates"], key=lambda row: row["model"])
    ]
    assert f"/jobs/{one}" in text
