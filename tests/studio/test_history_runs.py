"""The list of runs and the page of one, as a browser without scripts sees them."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from urllib.parse import quote_plus

import pytest

from edgewise.record import Caution, Measurement, ModelRef, RuntimeSpec
from edgewise.record.job import Scenario
from edgewise.store import from_document
from made_runs import HOSTILE, made_run, rows_of
from sample_profiles import profiled_run
from sample_runs import failed_run, make_run, run_id, single_session

COUNT = 120


@pytest.fixture(scope="module")
def filled(serve):
    """A studio with 120 runs: number i is made in hour i; every third is openvino's, every fourth on pi4."""
    it = serve()
    for number in range(COUNT):
        it.store.save(
            made_run(
                number,
                model="kws.onnx" if number % 2 else "vww.onnx",
                runtime="onnxruntime" if number % 3 else "openvino",
                device="local" if number % 4 else "pi4",
                latency=1e-3 * (1 + (number * 7) % 120),
                tags=("baseline",) if number == 7 else (),
            )
        )
    it.store.save(replace(failed_run(COUNT), created_at="2026-01-06T00:00:00.000+00:00"))
    return it


@pytest.fixture
def studio(emptied):
    return emptied


def ids_of(text):
    return re.findall(r'name="run" value="([^"]+)"', text)


def numbers_of(text):
    return [int(one[-12:], 16) for one in ids_of(text)]


def href(text, label):
    """The address that the link with `label` leads to."""
    return html.unescape(re.search(rf'<a href="([^"]+)"[^>]*>{label}', text)[1])


def test_newest_first_with_value_interval_basis_threads_shape_and_grade(browse):
    rows = rows_of(browse.get("/runs").text)
    assert len(rows) == 50
    assert [rows[0][1], *rows[0][3:5], *rows[0][6:]] == [
        "models/kws.onnx", "failed: Unsupported", "D", "", "1", "1x49x10x1", "local",
    ]  # fmt: skip
    assert [*rows[1][3:5], *rows[1][6:]] == ["114 ms ± 3 ms", "B", "measured", "1", "1x49x10x1", "local"]
    assert [row[2].replace(" ", "") for row in rows[:2]] == ["litert/interpreter", "onnxruntime/cpu"]


def test_pages_lead_through_all_runs_once_in_both_directions(browse):
    text = browse.get("/runs?device=local").text
    assert "91 runs, newest first" in text
    pages = [numbers_of(text)]
    while "Older →" in text:
        assert ("← Newer" in text) == (len(pages) > 1)
        text = browse.get(href(text, "Older")).text
        pages.append(numbers_of(text))
    local = [number for number in range(COUNT, -1, -1) if number % 4 or number == COUNT]
    assert pages == [local[:50], local[50:]]
    back = browse.get(href(text, "← Newer")).text
    assert numbers_of(back) == pages[0]
    assert "← Newer" not in back
    assert "Older →" in back
    end = browse.get(f"/runs?before={run_id(0)}").text
    assert numbers_of(end) == []


def test_going_back_shows_the_page_before_not_the_first(browse):
    text = browse.get(f"/runs?after={run_id(10)}").text
    assert numbers_of(text) == list(range(60, 10, -1))
    assert numbers_of(browse.get(href(text, "← Newer")).text) == list(range(110, 60, -1))
    assert numbers_of(browse.get(href(text, "Older")).text) == list(range(10, -1, -1))


def test_facets_count_the_alternatives_within_the_other_filters(browse):
    text = browse.get("/runs?runtime=openvino&model=kws").text
    lists = {
        name: re.findall(r"<span>([^<]+)</span> <span[^>]*>([^<]+)", items)
        for name, items in re.findall(r'<ul aria-labelledby="facet-(\w+)">(.*?)</ul>', text, re.DOTALL)
    }
    assert lists["runtime"] == [("onnxruntime", "40"), ("openvino", "×"), ("litert", "1")]
    assert "20 runs, newest first" in text
    assert href(text, "<span>onnxruntime") == "/runs?model=kws&runtime=onnxruntime"
    assert href(text, "<span>openvino") == "/runs?model=kws"
    assert "facet-tag" not in text


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("model=KWS&runtime=openvino", range(117, 0, -6)),
        ("model=vww&device=pi4&runtime=openvino", range(108, -1, -12)),
        ("status=failed", [COUNT]),
        ("tag=baseline", [7]),
        ("since=2026-01-05&runtime=openvino&device=pi4", [108, 96]),
        ("since=2026-01-02&until=2026-01-02&runtime=openvino", range(45, 23, -3)),
        ("until=2026-01-01&device=pi4", range(20, -1, -4)),
        ("model=nothing", []),
        ("device=", list(range(COUNT, COUNT - 50, -1))),
        ("model=%27%20OR%201%3D1%20--", []),
    ],
)
def test_filters_give_exactly_their_runs(browse, query, expected):
    assert numbers_of(browse.get(f"/runs?{query}").text) == list(expected)[:50]


def test_sorting_is_within_the_page_and_what_has_no_value_comes_last(browse):
    down = browse.get("/runs?sort=-result&column=made&column=result").text
    values = [float(row[2].split()[0]) for row in rows_of(down)[:-1]]
    assert values == sorted(values, reverse=True)
    assert rows_of(down)[-1][2] == "failed: Unsupported"
    assert "sorted within this page" in down
    up = numbers_of(browse.get("/runs?sort=result").text)
    assert up[:-1] == numbers_of(down)[-2::-1]
    assert up[-1] == COUNT


def test_a_tag_has_a_chip_though_one_run_has_it(browse):
    assert href(browse.get("/runs").text, "<span>baseline") == "/runs?tag=baseline"


def test_columns_are_in_the_address_and_stay_while_filtering(browse):
    text = browse.get("/runs?column=id&column=scenario&column=nonsense&model=kws").text
    assert re.findall(r'<th scope="col"[^>]*><a[^>]*>([^<]*)', text) == ["Id", "Scenario"]
    assert rows_of(text)[0][1:] == [run_id(COUNT), "single-stream"]
    assert "column=id&column=scenario" in href(text, "Id")
    assert '<input type="hidden" name="column" value="id">' in text


@pytest.mark.parametrize(
    "query",
    ["status=odd", "since=yesterday", "since=2026-02-31", "until=1", "until=9999-12-31", "sort=-size", "before=zzzz"],
)
def test_what_a_filter_does_not_know_is_said_with_advice(browse, query):
    answer = browse.get(f"/runs?{query}")
    assert answer.status_code == 400
    assert 'role="alert"' in answer.text


def test_an_empty_store_says_how_to_fill_it(client):
    text = client.get("/runs").text
    assert "There are no runs yet" in text
    assert "<table" not in text
    assert "No runs match" in client.get("/runs?model=x").text


def test_tag_needs_one_run_and_a_name_that_can_be_one(studio, client):
    for number in (1, 2):
        studio.store.save(made_run(number))
    two = {"run": [run_id(1), run_id(2)], "back": "model=kws"}
    assert client.post("/runs/tag", data=two).status_code == 400
    asked = client.post("/runs/tag", data={"run": run_id(1), "back": "model=kws"})
    assert asked.status_code == 200
    assert 'name="name"' in asked.text
    assert client.post("/runs/tag", data={"run": run_id(1), "name": "all"}).status_code == 400
    done = client.post("/runs/tag", data={"run": run_id(1), "name": "best", "back": "model=kws&device=a%26b"})
    assert (done.status_code, done.headers["location"]) == (303, "/runs?model=kws&device=a%26b")
    taken = client.post("/runs/tag", data={"run": run_id(2), "name": "best"})
    assert taken.status_code == 400
    assert client.post("/runs/tag", data={"run": run_id(2), "name": "best", "move": "yes"}).status_code == 303
    assert studio.store.get("best").id == run_id(2)


def test_removal_is_confirmed_first(studio, client):
    for number in (1, 2, 3):
        studio.store.save(made_run(number))
    asked = client.post("/runs/remove", data={"run": [run_id(1), run_id(2)], "back": "sort=made"})
    assert "Remove 2 runs?" in asked.text
    assert len(studio.store.list()) == 3
    done = client.post("/runs/remove", data={"run": [run_id(1), run_id(2)], "sure": "yes", "back": "//evil.example"})
    assert (done.status_code, done.headers["location"]) == (303, "/runs")
    assert [row.id for row in studio.store.list()] == [run_id(3)]
    assert client.post("/runs/remove", data={}).status_code == 400
    assert client.get("/runs/remove").status_code in (400, 404, 405)


def test_hostile_names_are_text(studio, client):
    found = made_run(1, model=HOSTILE, device="<b>x</b>", runtime="<i>", tags=("t",))
    found = replace(found, cautions=(), environment={"<u>key</u>": "</dd><script>alert(2)</script>"})
    studio.store.save(found)
    for path in ("/runs", f"/runs/{run_id(1)}", f"/runs?model={'%3Cscript%3E'}"):
        text = client.get(path).text
        assert "<script>alert" not in text
        assert "<b>x</b>" not in text
        assert "<u>key" not in text
        assert "{{ 7*7 }}" in html.unescape(text) or "%7B%7B" in text or "No runs match" in text
    asked = client.post("/runs/remove", data={"run": run_id(1), "back": '"><script>alert(3)</script>'})
    assert "<script>alert" not in asked.text


def test_every_number_has_its_basis_method_interval_samples_conditions_and_cautions(studio, client):
    studio.store.save(make_run(1))
    text = client.get(f"/runs/{run_id(1)}").text
    rows = {row[0]: row[1:] for row in rows_of(text)}
    assert rows["Latency"] == ["420 µs", "± 11 µs", "± 2.7 %", "measured"]
    assert rows["Model size"] == ["52.7 KiB", "none", "", "measured"]
    assert "Energy" not in rows
    assert "rapl: /sys/class/powercap has no intel-rapl domain" in text
    more = text.partition('id="m0"')[2].partition("<div popover")[0]
    for words in ("0.00042 s", "0.000409 to 0.000431 s", "measured: read from a clock or a sensor",
                  "monotonic clock around each call of the engine, 5 fresh processes", "1200 in 5 sessions", "p99",
                  "Example CPU @ 2.00 GHz", "single-stream, batch 1"):  # fmt: skip
        assert words in html.unescape(more), words
    assert len(re.findall(r'popovertarget="m\d+">', text)) == len(rows) + 1  # the headline stands above, too


def test_a_throughput_of_a_mean_far_above_the_median_says_so(studio, client):
    run = make_run(1, cautions=(Caution.of("mean-above-median", "far above"),))
    latency = run.measurement("latency")
    skewed = replace(latency, summary=replace(latency.summary, mean=1.02e-3))
    rows = tuple(skewed if each is latency else each for each in run.measurements)
    studio.store.save(replace(run, measurements=rows))
    text = client.get(f"/runs/{run_id(1)}").text
    assert text.count("of the mean latency, 1.02 ms; the latency of 420 µs is the median") == 1
    assert text.index(">Throughput<br>") < text.index("of the mean latency") < text.index("</tbody>")


def test_cautions_stand_with_the_numbers_that_they_concern(studio, client):
    studio.store.save(make_run(1, cautions=(single_session(),)))
    text = client.get(f"/runs/{run_id(1)}").text
    latency, size = (
        text.partition(f'aria-labelledby="m{index}-name"')[2].partition("<div popover")[0] for index in (0, 11)
    )
    assert "single-session" in latency
    assert "Model size" in size
    assert "single-session" not in size


def test_counts_of_a_run_are_in_full(studio, client):
    one = make_run(1)
    counts = (("parameters", 2_270_514.0), ("macs", 144_907_992.0), ("operations", 293_983_792.0))
    rows = [
        Measurement(metric=name, unit="1", basis="derived", method="made up", value=value) for name, value in counts
    ]
    studio.store.save(replace(one, measurements=(*one.measurements[:1], *rows)))
    text = client.get(f"/runs/{run_id(1)}").text
    assert all(f'">{value:,.0f}</button>' in text for _, value in counts)
    assert "2270000" not in text


def test_a_failed_run_says_why(studio, client):
    studio.store.save(failed_run(4))
    text = html.unescape(client.get(f"/runs/{run_id(4)}").text)
    assert "the run failed in phase load: Unsupported: operator 'Einsum' is not supported; try another runtime" in text
    assert "ERROR: no kernel" in text
    assert "This run has no numbers." in text


def test_a_tag_or_the_beginning_of_an_id_leads_to_the_permalink(studio, client):
    studio.store.save(made_run(1, tags=("best",)))
    for reference in ("best", "last", run_id(1)[:30]):
        answer = client.get(f"/runs/{reference}")
        assert (answer.status_code, answer.headers["location"]) == (303, f"/runs/{run_id(1)}")
    assert client.get("/runs/nothing").status_code == 400


def test_tags_are_given_and_taken_on_the_page_of_a_run(studio, client):
    studio.store.save(made_run(1))
    address = f"/runs/{run_id(1)}"
    assert client.post(f"{address}/tag", data={"name": "good"}).headers["location"] == address
    assert studio.store.get(run_id(1)).tags == ("good",)
    assert client.post(f"{address}/tag", data={"remove": "good"}).status_code == 303
    assert studio.store.get(run_id(1)).tags == ()
    assert client.post(f"{address}/tag", data={"name": "1x"}).status_code == 400
    studio.store.save(made_run(2, tags=("moved",)))
    assert client.post(f"{address}/tag", data={"remove": "moved"}).status_code == 400
    assert studio.store.get(run_id(2)).tags == ("moved",)


def test_a_document_that_cannot_be_read_is_said_and_can_be_removed(studio, client):
    from sqlalchemy import text

    studio.store.save(made_run(1))
    studio.store.save(made_run(2))
    with studio.store._database.writing() as connection:
        connection.execute(text("UPDATE documents SET document = '{broken' WHERE id = :id"), {"id": run_id(1)})
    assert numbers_of(client.get("/runs").text) == [2, 1]
    answer = client.get(f"/runs/{run_id(1)}")
    assert answer.status_code == 500
    assert "can&#39;t be read" in answer.text
    asked = client.post("/runs/remove", data={"run": run_id(1)})
    assert "can&#39;t be read" in asked.text
    assert client.post("/runs/remove", data={"run": run_id(1), "sure": "yes"}).status_code == 303
    assert numbers_of(client.get("/runs").text) == [2]


def test_downloads_are_what_the_reports_write(studio, client):
    studio.store.save(made_run(1))
    studio.store.save(made_run(2, latency=2e-3))
    both = f"run={run_id(2)}&run={run_id(1)}"
    answer = client.get(f"/runs/download?{both}&format=.json")
    assert [from_document(run).id for run in answer.json()["runs"]] == [run_id(2), run_id(1)]
    assert answer.headers["content-disposition"].endswith('"edgewise-0195f0c0-0000-7000-and-1-more.json"')
    assert "/m/kws.onnx" not in answer.text
    lines = client.get(f"/runs/download?{both}&format=.csv").text.splitlines()
    assert len(lines) == 3
    assert client.get(f"/runs/download?run={run_id(1)}&format=.trace.json").status_code == 400
    assert client.get(f"/runs/download?run={run_id(1)}&format=../../etc/passwd").status_code == 400
    assert client.get("/runs/download").status_code == 400


def test_the_report_comes_as_a_fragment_and_without_scripts_in_the_page(studio, client):
    studio.store.save(made_run(1))
    part = client.get(f"/runs/{run_id(1)}/report").text
    assert part.startswith('<div class="result">')
    assert part in client.get(f"/runs/{run_id(1)}?report=1").text


def test_the_report_of_a_profile_begins_with_findings_and_has_the_time_by_type_of_operator(studio, client):
    studio.store.save(profiled_run())
    part = client.get(f"/runs/{profiled_run().id}/report").text
    places = [part.index(f">{title}<") for title in ("Findings", "Time by type of operator", "Layers by time")]
    assert places == sorted(places)


def test_programs_have_their_command_and_equal_names_their_folder(studio, client):
    runs = [made_run(number) for number in (1, 2, 3)]
    jobs = [
        replace(runs[at].job, model=replace(runs[at].job.model, path=f"/nets/{folder}/kws.onnx", sha256=str(at) * 64))
        for at, folder in enumerate(("old", "new"))
    ]
    command = replace(
        jobs[0], model=replace(jobs[0].model, name="python3", sha256="e" * 64), command=("python3", "a.py"),
        runtime=RuntimeSpec(name="command"),
        workload=replace(jobs[0].workload, scenario=Scenario(kind="command")),
    )  # fmt: skip
    for run, job in zip(runs, (*jobs, command), strict=True):
        studio.store.save(replace(run, job=job))
    assert [row[1] for row in rows_of(client.get("/runs").text)] == ["python3 a.py", "new/kws.onnx", "old/kws.onnx"]


def test_a_run_of_another_schema_shows_what_it_has(studio, client):
    """A metric that the catalogue lacks keeps its id; a value without an interval says so."""
    row = Measurement(metric="score:mine", unit="1", basis="estimated", method="m", value=0.25)
    model = ModelRef(name="x" * 300, path="/x", format="onnx", sha256="0" * 64, size_bytes=0)
    found = made_run(1)
    studio.store.save(replace(found, job=replace(found.job, model=model), measurements=(row,), trust=None))
    text = client.get(f"/runs/{run_id(1)}").text
    assert rows_of(text) == [["mine", "0.250", "none", "", "estimated"]]
    assert "estimated: from a model of the hardware" in text


def test_a_run_of_a_model_that_the_studio_has_can_be_measured_again(serve, tmp_path):
    (tmp_path / "net.onnx").write_bytes(b"x")
    it = serve(roots=(tmp_path,))
    found = made_run(1, device="pi4")
    model = replace(found.job.model, path=str(tmp_path / "net.onnx"))
    it.store.save(replace(found, job=replace(found.job, model=model)))
    it.store.save(made_run(2))
    with it.client() as client:
        text = client.get(f"/runs/{run_id(1)}").text
        key = it.studio.models.entries()[0].key
        words = f"model={quote_plus(key)}&runtime=onnxruntime&provider=cpu&threads=1&batch=1&device=pi4"
        assert f"/new/bench?{words}" in html.unescape(text)
        assert "Measure again" not in client.get(f"/runs/{run_id(2)}").text


def test_a_store_that_is_read_only_offers_no_changes_and_takes_none(studio, client, monkeypatch):
    studio.store.save(made_run(1, tags=("kept",)))
    monkeypatch.setattr(studio.store, "_database", replace(studio.store._database, read_only=True))
    text = client.get("/runs").text
    assert "The store can only be read" in text
    assert "/runs/remove" not in text
    page = client.get(f"/runs/{run_id(1)}").text
    assert 'method="post"' not in page
    for path, data in (
        ("/runs/remove", {"run": run_id(1), "sure": "yes"}),
        ("/runs/tag", {"run": run_id(1), "name": "x"}),
        (f"/runs/{run_id(1)}/tag", {"remove": "kept"}),
    ):
        answer = client.post(path, data=data)
        assert answer.status_code >= 400
        assert "is read-only" in answer.text
    assert studio.store.list()[0].tags == ("kept",)


def test_on_a_narrow_screen_results_of_the_list_are_seen_whole(studio, open_page):
    """At 400 pixels the list ended in "1…": results began at the edge of the box, and the rest was beyond it.

    Units stood in the shade at the edge, which says that the table goes on.
    """
    studio.store.save(made_run(1, model="digits_cnn_int8.tflite", latency=3.86e-3))
    studio.store.save(made_run(2, model="mobilenet_v2_1.0_224_quantised.tflite", latency=999e-6))
    page = open_page("/runs", viewport={"width": 400, "height": 900})
    outside = page.evaluate(
        """() => { const end = document.querySelector(".scroll").getBoundingClientRect().right - 16;
          return [...document.querySelectorAll("table.runs tr > td.number:nth-child(4)")].map((cell) => {
            const words = document.createRange();
            words.selectNodeContents(cell);
            return Math.max(0, words.getBoundingClientRect().right - end);
          }); }"""
    )
    assert outside == [0, 0]


def test_the_list_leaves_out_empty_columns_and_begins_with_what_a_narrow_screen_shows(studio, open_page):
    """Name, engine, value and grade were outside of 400 pixels, and an empty column for tags made 1400 scroll."""
    studio.store.save(made_run(1, model="denoise.onnx", latency=3.86e-3))
    page = open_page("/runs", viewport={"width": 400, "height": 900})
    heads = page.locator("table.runs thead th").all_inner_texts()[1:]
    assert [head.split("\n")[0] for head in heads[:4]] == ["Model", "Runtime", "Result", "Trust"]
    assert "Tags" not in heads
    ends = page.locator("table.runs tbody tr > :nth-child(-n + 5)").evaluate_all(
        "(cells) => cells.map((cell) => cell.getBoundingClientRect().right <= 386)"
    )
    assert ends == [True] * 5
    studio.store.tag("kept", run_id(1))
    page.reload()
    assert "Tags" in page.locator("table.runs thead th").all_inner_texts()
