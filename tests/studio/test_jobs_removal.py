"""Removing jobs that have ended, with their folders, and attempts to remove anything else."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
import threading
from dataclasses import replace

import pytest
from sqlalchemy import insert

from edgewise.record import new_run_id
from edgewise.store import open_store, tables
from edgewise.studio.jobs import Dispatcher
from messages import wording
from patience import LIMIT_S
from sample_runs import all_runs

ENDED = ("done", "failed", "cancelled", "lost")


def add(store, folder, status="done", *, title="Bench of one", queue=None, job_id=None, runs="[]"):
    """A job as it stands in the store, with files in its folder; its id."""
    row = {
        "id": job_id or new_run_id(), "queue": queue or (folder / "queue").read_text(), "device": "local",
        "created": 1.0, "started": 2.0, "finished": None if status in ("queued", "running") else 3.0, "verb": "bench",
        "title": title, "request": "{}", "status": status, "attempt": 1, "fence": 1, "holder": "", "cancelling": 0,
        "message": "", "advice": "", "exit_code": None, "runs": runs,
    }  # fmt: skip
    with store._database.writing() as connection:
        connection.execute(insert(tables.jobs).values(row))
    if job_id is None:
        add_files(folder / row["id"])
    return row["id"]


def add_files(place):
    (place / "files").mkdir(parents=True)
    (place / "files" / "variant.onnx").write_bytes(b"x" * 3_000_000)
    (place / "log.txt").write_text("measured\n")


@pytest.fixture
def folder(studio):
    return studio.folder / "jobs"


def remove(client, *ids):
    return client.post("/jobs/remove", data={"job": ids, "sure": "yes"})


def test_an_ended_job_goes_with_its_folder_after_a_confirmation_and_its_runs_stay(studio, client, folder):
    run = all_runs()[0]
    studio.store.save(run)
    one = add(studio.store, folder, title="Bench <b>", runs=f'["{run.id}"]')
    other = add(studio.store, folder, "lost")
    page = client.get(f"/jobs/{one}").text
    assert "Its files take 2.86 MiB" in page and f'name="job" value="{one}">Remove …</button>' in page
    asked = client.post("/jobs/remove", data={"job": one})
    assert asked.status_code == 200 and "Remove 1 job?" in asked.text
    assert "Bench &lt;b&gt;, done, 2.86 MiB" in asked.text and "The runs that it saved stay" in asked.text
    assert studio.store.jobs.get(one).runs == (run.id,) and (folder / one / "log.txt").exists()
    answer = remove(client, one)
    assert (answer.status_code, answer.headers["location"]) == (303, "/jobs")
    assert [job.id for job in studio.store.jobs.list()] == [other]
    assert {place.name for place in folder.iterdir()} == {other, "lock", "queue"}
    assert studio.store.get(run.id) == run
    gone = client.get(f"/jobs/{one}")
    assert gone.status_code == 400 and wording("there-no-such-job") in gone.text


def test_several_jobs_go_at_once_whatever_is_in_their_folders(studio, client, folder, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept.txt").write_text("kept")
    elsewhere.chmod(0o750)
    ids = [add(studio.store, folder, status) for status in ENDED]
    links, closed, linked, bare = ids
    (folder / links / "link").symlink_to(elsewhere)
    (folder / links / "broken").symlink_to("nowhere")
    (folder / closed / "files" / "link").symlink_to(elsewhere)
    (folder / closed / "files").chmod(0o500)
    for place in (linked, bare):
        subprocess.run(["rm", "-r", folder / place], check=True)
    (folder / linked).symlink_to(elsewhere)
    assert client.get(f"/jobs/{bare}").status_code == 200
    assert remove(client, *ids).status_code == 303
    assert list(studio.store.jobs.list()) == []
    assert {place.name for place in folder.iterdir()} == {"lock", "queue"}
    assert (elsewhere / "kept.txt").read_text() == "kept" and elsewhere.stat().st_mode & 0o777 == 0o750


def test_a_queued_or_running_job_stays_and_says_so(studio, client, folder):
    running = new_run_id()
    add_files(folder / running)
    with (folder / running / "lock").open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # as the job's process holds it; the studio ends a running job without a lock
        add(studio.store, folder, "running", title="Bench A", job_id=running)
        queued = add(studio.store, folder, "queued", title="Bench B")  # for the same device
        done = add(studio.store, folder)
        for one, words in ((running, "Bench A is running"), (queued, "Bench B is queued")):
            for sure in ({}, {"sure": "yes"}):
                answer = client.post("/jobs/remove", data={"job": [done, one], **sure})
                assert answer.status_code == 400 and words in answer.text and wording("cancel-wait-end") in answer.text
            assert f'value="{one}">Remove' not in client.get(f"/jobs/{one}").text
        assert len(studio.store.jobs.list()) == 3
        assert all((folder / one / "files" / "variant.onnx").exists() for one in (running, queued, done))


def test_nothing_else_is_removed(studio, client, folder):
    another = add(studio.store, folder, queue="of another studio")
    for planted in ("..", "../../runs.db", "queue", "lock"):  # by somebody who can write the store
        add(studio.store, folder, job_id=planted)
    mine = add(studio.store, folder)
    (studio.folder / "models").mkdir(exist_ok=True)
    before = sorted(studio.folder.rglob("*"))
    for told in (another, "..", "../../runs.db", "queue", "lock", "", "nothing", f"{mine}/", f"../jobs/{mine}", "\x00"):
        for sure in ({}, {"sure": "yes"}):
            answer = client.post("/jobs/remove", data={"job": told, **sure})
            assert answer.status_code == 400 or (told == another and not sure), (told, answer.text)
    assert client.post("/jobs/remove", data={"sure": "yes"}).status_code == 400
    assert sorted(studio.folder.rglob("*")) == before
    assert len(studio.store.jobs.list()) == 6


def test_of_two_tabs_one_removes_the_job_and_the_other_is_told(studio, client, folder):
    one, found = add(studio.store, folder), []
    threads = [threading.Thread(target=lambda: found.append(remove(client, one))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer.status_code for answer in found) == [303, 400, 400, 400]
    assert all(wording("there-no-such-job") in answer.text for answer in found if answer.status_code == 400)
    assert {place.name for place in folder.iterdir()} == {"lock", "queue"}


def test_a_store_that_is_read_only_keeps_the_folder(studio, client, folder, monkeypatch):
    one = add(studio.store, folder)
    monkeypatch.setattr(studio.store, "_database", replace(studio.store._database, read_only=True))
    for path, names in ((f"/jobs/{one}", ["Run again", "Remove …"]), ("/jobs", ["Run again", "Remove …"])):
        buttons = re.findall(r'<button [^>]*disabled="" aria-describedby="refusal">([^<]+)', client.get(path).text)
        assert buttons == names
    answer = remove(client, one)
    assert answer.status_code == 400 and "is read-only" in answer.text
    assert {place.name for place in folder.iterdir()} == {one, "lock", "queue"}
    assert (folder / one / "files" / "variant.onnx").stat().st_size == 3_000_000


def test_a_folder_that_can_not_be_removed_keeps_its_job(tmp_path, bound_by_modes):
    url, folder = str(tmp_path / "runs.db"), tmp_path / "runs.studio"
    with open_store(url) as store:
        Dispatcher(store, folder=folder, store_url=url)
        ids = [add(store, folder / "jobs") for _ in range(2)]
        script = (
            "import sys; from pathlib import Path; from edgewise.errors import StoreError\n"
            "from edgewise.store import open_store; from edgewise.studio.jobs import Dispatcher\n"
            "url, folder, *ids = sys.argv[1:]\n"
            "jobs = Dispatcher(open_store(url), folder=Path(folder), store_url=url)\n"
            "for closed, one in ((Path(folder, 'jobs', ids[0]), ids[0]), (Path(folder, 'jobs'), ids[1])):\n"
            "    closed.chmod(0o555)\n"
            "    try: jobs.remove(one)\n"
            "    except StoreError as error: print(error.message)\n"
            "    closed.chmod(0o755)\n"
        )
        command = [*bound_by_modes, sys.executable, "-c", script, url, str(folder), *ids]
        told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIMIT_S).stdout
        assert told.splitlines() == [
            f"the folder {folder / 'jobs' / one} can't be removed: Permission denied" for one in ids
        ]
        assert {job.id for job in store.jobs.list()} == set(ids)
    assert {place.name for place in (folder / "jobs").iterdir()} == {*ids, "lock", "queue"}
    assert all(os.listdir(folder / "jobs" / one / "files") == ["variant.onnx"] for one in ids)


def test_ticks_stay_while_the_list_follows_and_lead_to_the_question(studio, open_page, folder):
    first, second = (add(studio.store, folder, title=title) for title in ("Bench A", "Bench B"))
    page = open_page("/jobs")
    page.get_by_role("checkbox", name="Tick Bench A").check()
    third = add(studio.store, folder, title="Bench C")
    studio.studio.jobs.live.touch()
    page.get_by_role("link", name="Bench C").wait_for()
    assert page.get_by_role("checkbox", name="Tick Bench A").is_checked()
    page.get_by_role("checkbox", name="Tick Bench C").check()
    page.get_by_role("button", name="Remove …").click()
    page.get_by_role("heading", name="Remove 2 jobs?").wait_for()
    page.get_by_role("button", name="Remove permanently").click()
    page.wait_for_url(f"{studio.url}/jobs")
    assert [job.id for job in studio.store.jobs.list()] == [second]
    assert not (folder / first).exists() and not (folder / third).exists()


@pytest.mark.long
def test_without_scripts_a_job_is_removed_from_its_page(studio, open_page, folder):
    one = add(studio.store, folder)
    page = open_page(f"/jobs/{one}", java_script_enabled=False)
    page.get_by_role("button", name="Remove …").click()
    page.get_by_role("button", name="Remove permanently").click()
    page.get_by_text("No job has ended yet").wait_for()
    assert not (folder / one).exists()
