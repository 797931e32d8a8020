"""The pages of forms: filled by their address, sent, shown again with what is wrong, with and without scripts."""

from __future__ import annotations

import json
import re
import shutil
from importlib.resources import files
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from messages import has, says
from patience import wait_until
from verb_forms import FORMS

DATA = Path(str(files("edgewise"))) / "data"
ONNX, TFLITE, SCRIPT = "nets/digits_cnn.onnx", "nets/digits_cnn.tflite", "nets/<script>alert(1)</script> 🙂.onnx"


@pytest.fixture(scope="module")
def forms(serve, tmp_path_factory):
    """A studio with three models, one of which has a hostile name."""
    folder = tmp_path_factory.mktemp("roots") / "nets"
    folder.mkdir()
    for key in (ONNX, TFLITE):
        shutil.copy(DATA / Path(key).name, folder)
    (folder / "<script>alert(1)<").mkdir()
    shutil.copy(DATA / "digits_cnn.onnx", folder / "<script>alert(1)<" / "script> 🙂.onnx")
    shutil.copy(DATA / "digits_test.npz", folder)
    return serve(roots=(folder,))


@pytest.fixture
def browse(forms):
    with forms.client() as client:
        yield client


def post(client, verb, fields):
    return client.post(f"/new/{verb}", data=fields)


def job_of(forms, answer):
    """The job that a form led to; it is cancelled, since no test here waits for it."""
    assert answer.status_code == 303
    job_id = answer.headers["location"].removeprefix("/jobs/")
    row = forms.store.jobs.get(job_id)
    forms.studio.jobs.cancel(job_id)
    return row


@pytest.mark.parametrize("verb", FORMS)
def test_every_form_is_a_page_that_names_its_fields(verb, browse):
    answer = browse.get(f"/new/{verb}", params={"model": ONNX})
    assert answer.status_code == 200
    text = answer.text
    assert re.search(rf'value="{ONNX}" checked', text)
    assert "/share" not in text  # a file of a form would do nothing
    assert "<script>alert" not in text and "&lt;script&gt;alert(1)&lt;/script&gt; 🙂.onnx" in text
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    wanted = {each for one in re.findall(r'(?:aria-describedby|for)="([^"]+)"', text) for each in one.split()}
    assert wanted <= set(ids)


def test_an_address_fills_the_form(browse):
    text = browse.get(
        "/new/bench?model=nets/digits_cnn.onnx&runtime=onnxruntime,mine&threads=1,2&scenario=paced&fps=30"
        "&meters=no&seed=7&set=a%3Db&set=c%3Dd"
    ).text
    for shown in (
        'name="runtime" value="onnxruntime" checked',
        'name="runtime" value="mine" checked',
        'value="1,2"',
        '<option value="paced" selected>',
        'value="30"',
        ">a=b\nc=d</textarea>",
        'value="7"',
    ):
        assert shown in text
    assert 'name="runtime" value="openvino">' in text
    assert not re.search(r'id="f-meters"[^>]* checked', text)
    (line,) = re.findall(r'<pre id="command"[^>]*>(.*?)</pre>', text)
    assert "--runtime onnxruntime,mine --threads 1,2" in line or "--runtime onnxruntime,mine" in line
    assert line.startswith("edgewise bench /") and "--no-meters" in line and line.endswith("runs.db")


def test_a_value_in_the_address_that_can_not_be_used_is_explained(browse):
    text = browse.get("/new/bench?device=ssh://pi@192.0.2.1&threads=&seed=0").text
    assert 'id="e-device"' in text and re.search(
        says("must-one-those-listed-not", label=has("Device"), text=has("&#39;ssh://")), text
    )
    assert re.findall(r' id="e-([a-z_]+)"', text) == ["device"]


def test_a_form_that_is_sent_becomes_a_job(browse, forms):
    answer = post(browse, "bench", {"model": ONNX, "runtime": ["onnxruntime"], "iterations": "5", "sessions": "1"})
    row = job_of(forms, answer)
    request = json.loads(row.request)
    assert (row.verb, row.title) == ("bench", "Bench digits_cnn.onnx")
    assert Path(request["models"][0]).name == "digits_cnn.onnx" and request["iterations"] == 5
    assert request["runtimes"] == ["onnxruntime"]


def test_the_same_again_with_changes(browse, forms):
    sent = {"model": [TFLITE, ONNX], "threads": "2", "duration": "2s", "meters": ["no"], "shape": "image=1x1x8x8"}
    row = job_of(forms, post(browse, "bench", sent))
    text = browse.get(f"/new/bench?job={row.id}&threads=4").text
    assert re.search(rf'value="{TFLITE}" checked.*value="{ONNX}" checked', text, re.S)
    assert 'value="4"' in text and 'value="2s"' in text and ">image=1x1x8x8</textarea>" in text
    assert "--threads 4" in text and "--no-meters" in text
    assert browse.get("/new/bench?job=nothing").status_code == 400


def test_what_is_wrong_stands_beside_its_field_and_what_was_typed_stays(browse, forms):
    before = len(forms.store.jobs.list())
    answer = post(browse, "bench", {"model": ONNX, "iterations": "many", "fps": "30", "shape": "x=1x2\ny=3"})
    assert answer.status_code == 422
    assert 'value="many" placeholder="" autocomplete="off" spellcheck="false" id="f-iterations"' in answer.text
    assert 'aria-describedby="h-iterations e-iterations" aria-invalid="true"' in answer.text
    assert "Iterations must be a whole number, not &#39;many&#39;" in answer.text
    assert ">x=1x2\ny=3</textarea>" in answer.text and 'value="30"' in answer.text
    assert len(forms.store.jobs.list()) == before
    again = post(browse, "bench", {"model": ONNX, "fps": "30"})
    assert again.status_code == 422 and re.search(
        says("fps-applies-only-scenario-paced", named_fps=has("--fps")), again.text
    )


def test_what_is_done_where_nothing_is_chosen_is_said(browse):
    """ "default" did not say whether a task is taken, and which."""
    text = browse.get("/new/evaluate").text
    unset = re.findall(r'<option value="">([^<]*)</option>', text)
    assert unset == [
        "default: from the YAML beside the model; of a folder per class, classification",
        "default: found from the data",
        "default: the best that works here",
    ]
    assert '<option value="">choose one</option>' in browse.get("/new/estimate").text


def test_every_choice_that_may_stay_open_says_what_is_done_then():
    assert [
        (form.verb.name, one.name)
        for form in FORMS.values()
        for one in form.fields()
        if one.kind == "choice" and not one.default and not one.is_required and one.unset == "default"
    ] == []


def test_the_command_is_told_to_scripts(browse):
    told = browse.get("/new/estimate/command", params={"model": TFLITE, "device": "cortex-m4", "clock": "80MHz"}).json()
    assert re.fullmatch(r"edgewise estimate \S+/digits_cnn.tflite --device cortex-m4@80MHz", told["command"])
    told = browse.get("/new/bench/command", params={"model": ONNX, "batch": "0"}).json()
    assert told == {"command": "", "problem": "Batch must be at least 1, not 0"}


def test_engines_that_do_not_read_the_model_stand_apart_with_the_reason(browse):
    text = browse.get("/new/bench", params={"model": TFLITE}).text
    here, _, others = text.partition("<summary>Not installed, or unable to read this model</summary>")
    assert re.findall(r'name="runtime" value="(\w+)"', here) == ["litert", "openvino"]
    assert re.search(r'value="onnxruntime"> ONNX Runtime <span[^>]*>does not read tflite<', others)
    text = browse.get("/new/bench", params={"model": [TFLITE, ONNX]}).text
    assert not re.search(r"does not read (onnx|tflite)<", text)  # each of them reads one, or neither


def test_one_model_to_compare_gets_two_engines(browse):
    text = browse.get("/new/compare", params={"model": TFLITE}).text
    assert re.findall(r'name="runtime" value="(\w+)" checked', text) == ["litert", "openvino"]
    both = browse.get("/new/compare", params={"model": [TFLITE, ONNX]}).text
    assert not re.findall(r'name="runtime" value="(\w+)" checked', both)


@pytest.mark.parametrize(("body", "status"), [(b"\xff=%ff&model=%00", 422), (b"&".join([b"model=x"] * 2000), 400)])
def test_what_is_no_form_makes_no_job(browse, forms, body, status):
    before = len(forms.store.jobs.list())
    headers = {"content-type": "application/x-www-form-urlencoded"}
    assert browse.post("/new/bench", content=body, headers=headers).status_code == status
    assert browse.post("/new/bench", content=b"{}", headers={"content-type": "application/json"}).status_code == 422
    assert len(forms.store.jobs.list()) == before


def test_there_is_no_form_of_another_verb(browse):
    for verb in ("exec", "gate", "run", "__init__", "Bench"):
        assert browse.get(f"/new/{verb}").status_code == 404 == post(browse, verb, {}).status_code


def test_a_browser_makes_a_job_by_the_keyboard_alone(open_page, forms):
    expect = pytest.importorskip("playwright.sync_api").expect
    page = open_page("/new/bench?model=nets/digits_cnn.onnx", at=forms)
    command = page.locator("#command")
    page.locator("#f-threads").focus()
    page.keyboard.type("2")
    expect(command).to_contain_text("--threads 2")
    assert parse_qs(urlsplit(page.url).query)["threads"] == ["2"]
    page.keyboard.press("Control+a")
    page.keyboard.type("two")
    expect(command).to_contain_text("not a whole number")
    assert not page.locator("#copy").is_visible()
    page.keyboard.press("Control+a")
    page.keyboard.type("1")
    for _ in range(4):  # to the first panel, which the keyboard opens
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.name") == "scenario"
    page.locator("input[name=runtime][value=onnxruntime]").focus()
    page.keyboard.press("Space")
    expect(command).to_contain_text("--runtime onnxruntime")
    assert "--threads 1" in command.inner_text()
    page.locator("#copy").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#copied")).to_have_text(re.compile("Copied|Selected"))
    page.reload()
    assert "--runtime onnxruntime" in command.inner_text()
    before = {row.id for row in forms.store.jobs.list()}
    page.get_by_role("button", name="Bench").focus()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/jobs/"))
    made = [row for row in forms.store.jobs.list() if row.id not in before]
    assert [row.title for row in made] == ["Bench digits_cnn.onnx"] and page.url.endswith(f"/jobs/{made[0].id}")
    forms.studio.jobs.cancel(made[0].id)


@pytest.mark.long
def test_a_second_click_at_once_sends_nothing(open_page, forms):
    page = open_page(f"/new/convert?model={ONNX}&to=openvino", at=forms)
    dropped = page.evaluate("""() => {
      const form = document.querySelector("form.new");
      return [1, 2].map(() => !form.dispatchEvent(new Event("submit", { cancelable: true })));
    }""")
    assert dropped == [False, True]


@pytest.mark.long
def test_a_form_works_without_scripts(open_page, forms):
    page = open_page("/new/compare", at=forms, java_script_enabled=False, expect=("status of 422",))
    page.get_by_role("button", name="Compare").click()
    assert page.get_by_role("alert").inner_text().startswith("One value has to change.")
    page.get_by_label(re.compile("digits_cnn.tflite")).check()
    page.get_by_label(re.compile("digits_cnn.onnx")).first.check()
    page.get_by_role("button", name="Show the command").click()
    assert re.search(r"edgewise compare \S+ \S+", page.locator("#command").inner_text())
    page.get_by_text("How to measure").click()
    page.get_by_label("Rounds").fill("91")
    page.get_by_role("button", name="Compare").click()
    assert "at most 90, not 91" in page.locator("#e-rounds").inner_text()
    assert page.get_by_label("Rounds").input_value() == "91" and page.get_by_label("Rounds").is_visible()


@pytest.mark.long
def test_a_job_of_a_form_measures_and_its_run_is_in_the_store(browse, forms):
    answer = post(browse, "bench", {"model": TFLITE, "runtime": "litert", "iterations": "20", "sessions": "1"})
    job_id = answer.headers["location"].removeprefix("/jobs/")
    row = wait_until(lambda: (found := forms.store.jobs.get(job_id)).finished and found)
    assert row.status == "done", row.message
    (run,) = forms.store.resolve(list(row.runs))
    assert run.job.runtime.name == "litert" and run.status == "done"


@pytest.mark.long
def test_a_difference_by_layer_is_on_the_graph_of_its_job(open_page, browse, forms):
    answer = post(browse, "diff", {"model": ONNX, "other": TFLITE, "limit": "2"})
    assert answer.status_code == 303, answer.text
    job_id = answer.headers["location"].removeprefix("/jobs/")
    row = wait_until(lambda: (found := forms.store.jobs.get(job_id)).finished and found)
    assert row.status == "done", row.message
    page = open_page(f"/jobs/{job_id}", at=forms)
    page.wait_for_selector("#graph-stage[data-drawn]:not([aria-busy])")
    assert page.get_attribute("#graph-stage", "data-metric") == "loss"
    assert page.locator("table.sortable tbody tr").count() > 3
    kept = browse.get("/share", params={"of": f"/jobs/{job_id}"}).text
    assert "graph-data" in kept and "layoutWorker" in kept
