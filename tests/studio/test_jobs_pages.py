"""The pages of jobs, over HTTP and in a browser."""

from __future__ import annotations

import json
import re

import pytest
from test_jobs import MS, bench, ended, fake, hanging, wait_until

from edgewise.verbs.bench.request import BenchRequest


@pytest.fixture(autouse=True)
def own_lock(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGEWISE_LOCKS", str(tmp_path))


def hang(studio, folder, title="Bench of two"):
    """A job whose first run is complete and whose second hangs."""
    request, sign = hanging(folder)
    job_id = studio.studio.jobs.add(request, title=title)
    wait_until(sign.exists)
    wait_until(lambda: "slow.fake" in studio.studio.jobs.live.get(job_id).where)  # said by then, and now read too
    return job_id


@pytest.mark.long
def test_the_list_and_the_page_of_jobs(studio, client, tmp_path):
    assert "No job is running or queued" in client.get("/jobs").text
    running = hang(studio, tmp_path, title='Bench "<script>alert(1)</script>"')
    queued = studio.studio.jobs.add(bench(tmp_path, "next.fake"), title="The next one")
    text = client.get("/jobs").text
    assert "&lt;script&gt;alert(1)" in text and "<script>alert" not in text
    assert "slow.fake" in text and "waits for its turn" in text
    assert text.index("alert(1)") < text.index("The next one")  # in the order in which they run
    page = client.get(f"/jobs/{running}").text
    assert "2.00 ms <small>Latency</small>" in page and "95 % interval" in page and "<svg" in page
    assert 'class="working"' in client.get("/runs").text and f'href="/jobs/{running}"' in client.get("/runs").text
    state = client.get(f"/jobs/{running}/state").json()
    assert (state["status"], state["runs"][0]["saved"], len(state["headlines"])) == ("running", True, 1)
    assert state["where"].startswith("2 of 2: slow.fake")
    assert "edgewise bench" in page and "--iterations 20" in page
    assert "It starts when the jobs before it have ended" in client.get(f"/jobs/{queued}").text
    assert client.post(f"/jobs/{queued}/cancel").headers["location"] == f"/jobs/{queued}"
    again = client.post(f"/jobs/{queued}/cancel")
    assert again.status_code == 400 and "this job is cancelled already" in again.text
    assert f'<a href="/jobs/{queued}">The job as it is now</a>' in again.text
    client.post(f"/jobs/{running}/cancel")
    (run,) = [each for each in ended(studio.store, running).runs if studio.store.get(each).status == "done"]
    page = client.get(f"/jobs/{running}").text
    assert "cancelled: what was finished is below" in page and f'href="/runs/{run}"' in page
    assert '<div class="result">' in page and page.count("<h1") == 1
    assert 'class="working" id="working" href="/jobs" hidden' in page
    assert client.post(f"/jobs/{queued}/again").headers["location"] == f"/jobs/{queued}"
    told = client.post(f"/jobs/{queued}/again")
    assert told.status_code == 400 and re.search("this job is (queued|running) already", told.text)


@pytest.mark.long
def test_the_files_of_a_job(studio, client, tmp_path):
    job_id = studio.studio.jobs.add(bench(tmp_path), title="A")
    assert ended(studio.store, job_id).status == "done"
    answer = client.get(f"/jobs/{job_id}/result.json")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == f'attachment; filename="edgewise-bench-{job_id[-12:]}.json"'
    assert json.loads(answer.text)["runs"][0]["job"]["model"]["name"] == "m.fake"
    assert "m.fake" in client.get(f"/jobs/{job_id}/log.txt").text
    assert client.get(f"/jobs/{job_id}/request.json").json()["verb"] == "bench"
    for name in ("part.html", "lock", "nothing", "..%2F..%2Fsecret", "%2e%2e", "result.html%00", "queue"):
        assert client.get(f"/jobs/{job_id}/{name}").status_code in (400, 404)
    again = client.post(f"/jobs/{job_id}/again").headers["location"]
    assert again != f"/jobs/{job_id}" and ended(studio.store, again.rpartition("/")[2]).status == "done"


def test_older_jobs_are_on_further_pages(studio, client):
    jobs = studio.store.jobs
    for number in range(53):
        jobs.cancel(jobs.add({"verb": "bench"}, title=f"job {number:02}", queue="other", device="local"))
    first = client.get("/jobs").text
    older = re.search(r'href="(/jobs\?before=[^"]+)"', first)[1]
    second = client.get(older).text
    assert [f"job {number:02}" in first for number in (52, 3, 2)] == [True, True, False]
    assert [f"job {number:02}" in second for number in (3, 2, 0)] == [False, True, True]
    assert "?before=" not in second
    assert client.get("/jobs?before=nothing").status_code == 400


@pytest.mark.long
def test_the_stream_of_events(studio, client, tmp_path):
    with client.stream("GET", "/events") as stream:
        assert stream.headers["content-type"] == "text/event-stream"
        lines = stream.iter_lines()
        assert next(lines) == "retry: 2000"
        wait_until(lambda: studio.studio.jobs.live.listeners)
        job_id = studio.studio.jobs.add(bench(tmp_path), title="A")
        found = []
        for line in lines:
            if line.startswith("id: "):
                number = line
            if line.startswith("data: ") and (state := json.loads(line[6:])):
                found.append(state["status"])
                if state["status"] == "done":
                    break
    assert set(found) == {"running", "done"} and state["id"] == job_id
    wait_until(lambda: not studio.studio.jobs.live.listeners)
    # Cut off before the last event, a browser gets it when it comes back.
    boot, last = re.fullmatch(r"id: (\w+)-(\d+)", number).groups()
    with client.stream("GET", "/events", headers={"last-event-id": f"{boot}-{int(last) - 1}"}) as stream:
        assert any(
            line.startswith("data: ") and json.loads(line[6:])["status"] == "done" for line in stream.iter_lines()
        )


def watched(page):
    """What the live page shows, apart from its log."""
    return page.locator("#headlines .figure").all_inner_texts(), page.locator("[data-field=where]").inner_text()


@pytest.mark.long
def test_a_live_job_in_two_tabs_and_after_a_reload(studio, open_page, tmp_path):
    page = open_page("/jobs")
    streams = []
    page.context.on("request", lambda request: streams.append(request.url) if "/events" in request.url else None)
    job_id = hang(studio, tmp_path)
    page.get_by_role("link", name="Bench of two").first.click()
    page.wait_for_selector("#headlines circle")
    page.locator("[data-field=where]", has_text="2 of 2: slow.fake").wait_for()
    before = watched(page)
    assert before[0] == ["2.00 ms Latency"]
    page.reload()
    page.wait_for_selector("#headlines circle")
    assert watched(page) == before
    other = page.context.new_page()
    other.goto(f"{studio.url}/jobs/{job_id}")
    assert watched(other) == before
    other.goto(f"{studio.url}/runs")
    badge = other.locator("#working")
    assert badge.is_visible() and "Bench of two" in badge.inner_text()
    badge.click()
    other.get_by_role("button", name="Cancel").click()
    for each in (page, other):  # the first tab is told by the stream that they share
        each.get_by_text("cancelled: what was finished is below").wait_for()
        each.wait_for_selector(".result h1")
        assert each.locator("#working").is_hidden()
    other.close()
    assert len(set(streams)) <= 3  # the lock goes from page to page, and no two hold it


@pytest.mark.long
def test_a_language_model_shows_tokens_a_second_while_it_runs(studio, open_page, tmp_path):
    """Requests of 97.4 ms by the script's clock; the eighth, whose number is 9 with the cold one, hangs."""
    sign = tmp_path / "hangs"
    behaviour = {"at": "invoke", "after": 7, "do": "hang", "touch": str(sign)}
    told = {"token_ns": [10 * MS, 30 * MS], "prefill_ns": MS, "encode_ns": 500_000, "decode_ns": 200_000}
    model = fake(tmp_path, "words.fake", generation=told, behaviour=behaviour)
    given = {"scenario": "generate", "prompt_tokens": (16,), "new_tokens": 5, "meters": False}
    job_id = studio.studio.jobs.add(BenchRequest(models=(model,), iterations=20, sessions=1, **given), title="Words")
    wait_until(sign.exists)
    page = open_page(f"/jobs/{job_id}")
    page.locator("#headlines circle").nth(1).wait_for()
    figures, where = watched(page)
    assert figures == ["50.0 tokens/s Generation rate", "1000 tokens/s Prompt rate"]
    assert where.endswith("session 1 of 1, 6 requests")
    page.get_by_role("button", name="Cancel").click()
    page.wait_for_selector("[data-field=status]:has-text('cancelled')")


@pytest.mark.long
def test_a_browser_without_streams_asks_now_and_then(studio, open_page, tmp_path):
    page = open_page("/jobs", expect=("ERR_FAILED",))
    page.context.add_init_script("delete window.EventSource")
    job_id = hang(studio, tmp_path)
    page.goto(f"{studio.url}/jobs/{job_id}")
    page.route("**/state", lambda route: route.abort())
    silent = page.get_by_text("The studio does not answer")
    silent.wait_for()
    page.unroute("**/state")
    silent.wait_for(state="hidden")
    studio.studio.jobs.cancel(job_id)
    page.wait_for_selector(".result h1")


def test_the_list_follows_where_the_stream_is_blocked(studio, open_page):
    page = open_page("/runs", expect=("ERR_FAILED",))
    page.route("**/events?*", lambda route: route.abort())
    page.goto(f"{studio.url}/jobs")
    page.get_by_text("No job is running or queued").wait_for()
    studio.store.jobs.add({"verb": "bench"}, title="One more", queue="without a dispatcher", device="local")
    page.get_by_role("link", name="One more").wait_for()


@pytest.mark.long
def test_without_scripts_a_job_is_watched_and_cancelled(studio, open_page, tmp_path):
    job_id = hang(studio, tmp_path)
    page = open_page(f"/jobs/{job_id}", java_script_enabled=False)
    assert page.locator("meta[http-equiv=refresh]").count() == 1
    assert page.locator("#headlines .figure").inner_text() == "2.00 ms Latency"
    page.get_by_role("button", name="Cancel").click()
    page.wait_for_selector(".result h1")  # the page refreshes itself


@pytest.mark.long
def test_a_job_says_for_whom_it_waits(studio, client, tmp_path):
    from edgewise.device.lease import measuring_on

    request = BenchRequest(models=(fake(tmp_path),), iterations=20, warmup=0, sessions=1)
    with measuring_on("local"):
        job_id = studio.studio.jobs.add(request, title="A")
        state = wait_until(lambda: (told := client.get(f"/jobs/{job_id}/state").json())["waiting"] and told)
        assert re.match("waiting for local: in use by .*process", state["waiting"])
        for place in ("/jobs", f"/jobs/{job_id}"):
            shown = client.get(place).text
            assert re.search(r'class="(pill )?poor"[^>]*>waiting<', shown) and ">running<" not in shown, place
        assert studio.store.list() == []
    assert ended(studio.store, job_id).status == "done"
