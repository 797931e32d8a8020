"""The page that compares stored runs: its verdicts are those of the command line."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from dataclasses import replace

import pytest

from comparable_runs import row_of, run_of
from edgewise.cli.main import run as run_command
from edgewise.record import InTurns
from messages import has, says
from sample_profiles import HOSTILE, faster_run, profiled_run
from sample_runs import VWW, make_run, run_id

A, B, C, OTHER, UNFAIR = map(run_id, range(1, 6))


@pytest.fixture(scope="module")
def filled(serve):
    studio = serve()
    runs = [
        make_run(1),
        make_run(2, latency=1.7e-4, half=4e-6),
        replace(make_run(3, latency=4.21e-4), created_at="2026-03-06T05:06:07.000+00:00"),
        make_run(4, model=VWW),
        make_run(5, model=VWW, batch=8),
    ]
    for run in runs:
        studio.store.save(replace(run, group=None))
    studio.store.tag("golden", A)
    return studio


@pytest.fixture
def client(filled):
    with filled.client() as client:
        yield client


def test_the_verdicts_are_those_of_the_command_line(filled, client, capsys):
    assert run_command(["compare", A, B, "--store", filled.settings.store, "--json"]) == 0
    expected = json.loads(capsys.readouterr().out)
    got = client.get("/compare/file", params={"run": [A, B], "format": ".json"}).json()
    assert got["comparisons"] == expected["comparisons"]
    assert {row["verdict"] for row in expected["comparisons"]} >= {"faster", "same"}
    page = client.get("/compare", params={"run": [A, B]}).text
    faster = next(row for row in expected["comparisons"] if row["metric"] == "latency")
    assert faster["verdict"] == "faster"
    assert f"{1 / faster['ratio']:.2f}× faster" in html.unescape(page)


def test_runs_in_turns_have_the_interval_for_another_time_as_on_the_command_line(filled, client, capsys):
    machine = make_run(1).environment | {
        "virtualisation": {"hypervisor": False, "vendor": None, "container": "none seen"},
        "clock": {"governor": None, "boost": None},
    }
    rows = ([4.0e-4, 4.1e-4, 4.05e-4, 4.02e-4, 4.08e-4], [2.0e-4, 2.04e-4, 2.03e-4, 2.01e-4, 2.05e-4])
    runs = [
        replace(
            run_of(row_of("latency", [[value] * 3 for value in values]), interleave="turns", number=number),
            environment=machine,
        )
        for number, values in zip((30, 31), rows, strict=True)
    ]
    for run in runs:
        filled.store.save(run)
    ids = [run.id for run in runs]
    assert run_command(["compare", *ids, "--store", filled.settings.store, "--json"]) == 0
    expected = json.loads(capsys.readouterr().out)["comparisons"]
    (latency,) = (row for row in expected if row["metric"] == "latency")
    assert latency["rerun_low"] < latency["low"] < latency["high"] < latency["rerun_high"]
    got = client.get("/compare/file", params={"run": ids, "format": ".json"}).json()
    assert got["comparisons"] == expected
    assert ", at another time 0." in client.get("/compare", params={"run": ids}).text
    table = client.get("/compare/file", params={"run": ids, "format": ".csv"}).text
    (row,) = (row for row in csv.DictReader(io.StringIO(table)) if row["Metric"] == "latency")
    ends = [float(row[f"Ratio at another time {end}"]) for end in ("low", "high")]
    assert ends == pytest.approx([latency["rerun_low"], latency["rerun_high"]])
    filled.store.remove(ids)


def test_the_first_run_is_the_baseline(client):
    there, back = (
        client.get("/compare/file", params={"run": runs, "format": ".json"}).json() for runs in ([A, B], [B, A])
    )
    assert [one["comparisons"][0]["verdict"] for one in (there, back)] == ["faster", "slower"]
    page = client.get("/compare", params={"run": [A, B]}).text
    assert f'href="/compare?run={B}&amp;run={A}"' in page


def test_tags_and_beginnings_of_ids_name_runs(client):
    by_name = client.get("/compare", params={"run": ["golden", B]}).text
    assert f"edgewise compare {A} {B}" in by_name


def test_runs_measured_apart_lead_to_a_comparison_in_turns(client):
    page = client.get("/compare", params={"run": [A, C]}).text
    assert "measured one after the other, from 2026-03-04 05:06 to 2026-03-06 05:06 UTC." in page
    assert f'href="/new/compare?model={A}&amp;model={C}"' in page
    # The answer comes first.
    assert page.index("</h1>") < page.index("one after the other")


def test_two_profiles_lead_to_their_graph_and_those_that_took_turns_need_no_others(filled, client):
    first, second = profiled_run(41), faster_run(42)
    told = [
        InTurns(against=one.id, ratio=1.0, low=0.9, high=1.1, verdict="same", method="m") for one in (second, first)
    ]
    for run, turns in zip((first, second), told, strict=True):
        filled.store.save(replace(run, group=None, in_turns=(turns,)))
    page = client.get("/compare", params={"run": [first.id, second.id]}).text
    assert f'href="/runs/{first.id}/graph?with={second.id}"' in page and "one after the other" not in page
    assert "/graph?" not in client.get("/compare", params={"run": [A, C]}).text
    filled.store.remove([first.id, second.id])


def test_what_is_unfair_is_said_and_compared_on_request(client):
    page = client.get("/compare", params={"run": [A, UNFAIR]})
    assert page.status_code == 200
    assert "compared fairly" in page.text
    assert f'href="/compare?run={A}&amp;run={UNFAIR}&amp;force=1"' in page.text
    forced = client.get("/compare", params={"run": [A, UNFAIR], "force": "1"}).text
    assert "Not a fair comparison: it was forced" in forced
    assert f"edgewise compare {A} {UNFAIR} --force" in forced
    assert client.get("/compare/file", params={"run": [A, UNFAIR], "format": ".md"}).status_code == 400


@pytest.mark.parametrize("runs", [["nowhere"], ["all"], [A, "/etc/passwd"], ["\x00"], ["x" * 5000]])
def test_what_is_no_run_is_an_error_of_one_page(client, runs):
    answer = client.get("/compare", params={"run": runs})
    assert answer.status_code == 400
    assert 'class="problem"' in answer.text


def test_two_hundred_runs_are_refused_with_advice(filled, client):
    light = replace(make_run(1), measurements=(), group=run_id(9999))
    filled.store.merge(replace(light, id=run_id(5000 + number)) for number in range(200))
    answer = client.get("/compare", params={"run": f"group:{run_id(9999)}"})
    assert answer.status_code == 400
    assert re.search(says("runs-too-many-compare-one", ids_count=has("200")), answer.text)
    assert "pick at most 24" in answer.text
    filled.store.remove([run_id(5000 + number) for number in range(200)])


def test_runs_are_found_by_model_and_tag_and_those_picked_are_not_offered_again(client):
    def offered(**query):
        text = client.get("/compare", params=query).text
        return [one for one in (A, B, C, OTHER, UNFAIR) if f'type="checkbox" name="run" value="{one}"' in text]

    assert offered() == [A, B, C, OTHER, UNFAIR]
    assert offered(run=A) == [B, C]
    assert offered(run=A, q="vww") == [OTHER, UNFAIR]
    assert offered(run=B, q="golden") == [A]
    assert "No run for “nothing”" in client.get("/compare", params={"q": "nothing"}).text
    assert "No other run for “nothing”" in client.get("/compare", params={"run": A, "q": "nothing"}).text
    assert "No other run of the same model is stored." in client.get("/compare", params={"run": [A, B, C]}).text


def test_hostile_names_stay_text(filled, client):
    run = make_run(77)
    run = replace(run, job=replace(run.job, model=replace(run.job.model, name=HOSTILE)))
    filled.store.save(run)
    for query in ({"run": [A, run.id]}, {"q": HOSTILE.splitlines()[1]}, {"q": "</td><script>alert(1)"}):
        text = client.get("/compare", params=query).text
        assert "<script>alert" not in text
    filled.store.remove([run.id])


def test_two_runs_are_picked_in_a_browser(filled, open_page):
    page = open_page("/compare", at=filled)
    for name in (B, A):
        page.locator(f'input[type=checkbox][value="{name}"]').check()
    page.get_by_role("button", name="Compare", exact=True).click()
    page.wait_for_url("**/compare?run=*")
    assert page.url.endswith(f"/compare?run={A}&run={B}")
    assert "faster" in page.locator("h1").inner_text()
    assert page.locator("h1").count() == 1
    assert page.locator("figure svg").count() >= 1
    page.get_by_role("link", name="make baseline").click()
    page.wait_for_url(f"**/compare?run={B}&run={A}")
    assert "slower" in page.locator("h1").inner_text()
    assert page.url.endswith(f"/compare?run={B}&run={A}")
