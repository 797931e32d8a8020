"""Models on the page: dropped, chosen, read; what the page of a model shows."""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from pathlib import Path

import pytest

import edgewise.data
from edgewise.model.identity import open_model
from edgewise.studio import reading
from edgewise.studio.views import home
from messages import has, says
from sample_runs import KWS, make_run, run_id
from tiny_models import write_tiny_onnx

DATA = Path(edgewise.data.__file__).parent
DIGITS = DATA / "digits_cnn_int8.tflite"
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&amp;\u202e"

DROP = """(files) => {
  const dataTransfer = new DataTransfer();
  for (const [name, content] of files) {
    const bytes = Uint8Array.from(atob(content), (each) => each.charCodeAt(0));
    dataTransfer.items.add(new File([bytes], name));
  }
  for (const kind of ["dragenter", "dragover", "drop"])
    document.querySelector("footer").dispatchEvent(new DragEvent(kind, { dataTransfer, bubbles: true, cancelable: true }));
}"""


def drop(page, *files):
    """Drop files of (name, content) somewhere on the page."""
    page.evaluate(DROP, [[name, base64.b64encode(content).decode()] for name, content in files])


def kws() -> Path:
    """The keyword spotter of MLPerf Tiny where the shared models are; else the bundled digits."""
    shared = Path(__file__).resolve().parents[3] / "shared" / "models" / "mlperf_tiny" / "kws_ref_model.tflite"
    return shared if shared.is_file() else DIGITS


@pytest.mark.ui
def test_a_dropped_model_is_shown_with_operators_and_memory(page):
    path = kws()
    drop(page, (path.name, path.read_bytes()))
    page.wait_for_url(re.compile("/models/[0-9a-f]{64}$"))
    page.locator("#charts").wait_for()  # the page loads itself again until the model is read
    assert page.locator("h1:visible").all_inner_texts() == [path.name]
    operators = page.get_by_role("region", name="Operators", exact=True).locator("tbody tr")
    found = {row.locator("th").inner_text(): row.locator("td").nth(1).inner_text() for row in operators.all()}
    assert found["CONV_2D"] == ("5" if path != DIGITS else found["CONV_2D"])
    boxes = page.locator("figure rect")
    assert boxes.count() >= 9 and boxes.first.locator("title").text_content().count("lives from operator 0") == 1
    assert page.get_by_text("openvino/cpu", exact=True).count() == 1
    links = page.get_by_role("list", name="What to do with this model").get_by_role("link")
    assert links.all_inner_texts() == [
        "Benchmark", "Compare", "Evaluate", "Diff", "Profile", "Convert", "Optimize", "Estimate", "Does it fit?",
        "Graph",
    ]  # fmt: skip
    assert links.first.get_attribute("href") == f"/new/bench?model={open_model(path).ref.sha256}"
    page.goto(page.url.rpartition("/models/")[0])
    assert page.get_by_role("link", name=path.name).count() == 1


@pytest.mark.ui
def test_a_file_that_is_no_model_is_refused_on_the_page(open_page):
    page = open_page("/", expect=["status of 400"])
    drop(page, ("factory.py", b"import os"))
    page.get_by_role("alert").get_by_text("a .py file can run code").wait_for()
    assert page.locator("tbody tr").count() == 0
    assert page.locator("#upload-state").is_hidden()


@pytest.mark.ui
def test_a_model_dropped_with_its_weight_file_is_shown_and_without_it_says_what_to_drop(open_page, tmp_path):
    model = write_tiny_onnx(tmp_path / "my net.onnx", external=True).read_bytes()
    weights = (tmp_path / "weights.bin").read_bytes()
    page = open_page("/", expect=["status of 400"])
    drop(page, ("my net.onnx", model))
    alert = page.get_by_role("alert")
    alert.get_by_text("the weight file 'weights.bin' of my net.onnx is missing").wait_for()
    alert.get_by_text("drop both files together, or a .zip with both").wait_for()
    drop(page, ("weights.bin", weights), ("my net.onnx", model))
    page.wait_for_url(re.compile("/models/[0-9a-f]{64}$"))
    page.locator("#charts").wait_for()
    assert page.locator("h1:visible").all_inner_texts() == ["my net.onnx"]


@pytest.mark.ui
@pytest.mark.long
def test_upload_read_and_delete_without_scripts(open_page):
    page = open_page("/", java_script_enabled=False)
    page.get_by_label("Drop a model anywhere on this page, or choose it:").set_input_files(DIGITS)
    page.get_by_role("button", name="Upload").click()
    page.locator("#charts").wait_for()
    assert page.locator("h1:visible").all_inner_texts() == [DIGITS.name]
    page.goto(page.url.rpartition("/models/")[0])
    page.get_by_text("Delete", exact=True).click()
    page.get_by_role("button", name="Delete this upload").click()
    page.get_by_text("No model yet").wait_for()


def write_hostile(path: Path) -> None:
    """A model whose layers, tensors and producer are scripts."""
    from onnx import TensorProto, helper, save_model

    def value(name):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4])

    nodes = [
        helper.make_node("Relu", ["x" + HOSTILE], ["a" + HOSTILE], name=HOSTILE),
        helper.make_node(HOSTILE, ["a" + HOSTILE], ["y" + HOSTILE], name="\x01\x1b[31m" + HOSTILE, domain=HOSTILE),
    ]
    graph = helper.make_graph(nodes, HOSTILE, [value("x" + HOSTILE)], [value("y" + HOSTILE)])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(HOSTILE, 1)]
    save_model(helper.make_model(graph, opset_imports=opsets, producer_name=HOSTILE, ir_version=8), path)


@pytest.fixture(scope="module")
def lab(serve, tmp_path_factory):
    """A studio with a root, and a client of it."""
    root = tmp_path_factory.mktemp("roots") / "lab"
    root.mkdir()
    for name in ("my model #1?.tflite", "slow.tflite"):
        (root / name).write_bytes(DIGITS.read_bytes())
    (root / "broken.onnx").write_bytes(b"\x08\x08 not a model")
    write_hostile(root / "hostile.onnx")
    studio = serve(roots=(root,))
    with studio.client() as client:
        yield studio, client


def page_of(client, place):
    """The page of a model once it is read."""
    page = client.get(place)
    while "refresh" in page.headers:
        page = client.get(place)
    return page.text


def test_a_model_that_takes_too_long_says_so(lab, monkeypatch):
    _, client = lab
    monkeypatch.setattr(reading, "READ_S", 0.0001)  # real time: it has to end, on any machine
    page = page_of(client, "/models/lab/slow.tflite")
    assert re.search(
        says(
            "process-reads",
            what=has("slow.tflite"),
            failure=has(says("took-longer-than-s-in-renderer", draw_s="0.0001")),
        ),
        page,
    )
    assert "/new/bench?model=" in page


def test_names_of_layers_are_text(lab):
    page = page_of(lab[1], "/models/lab/hostile.onnx")
    assert 'id="charts"' in page and "&lt;script&gt;alert(1)" in page
    assert "<script>alert" not in page and "<img" not in page and "\u202e" not in page and "\x1b" not in page


def test_a_model_that_can_not_be_read_says_why(lab):
    studio, client = lab
    page = page_of(client, "/models/lab/broken.onnx")
    assert 'role="alert"' in page and "broken.onnx" in page
    assert str(studio.settings.roots[0]) not in page


def test_a_file_of_a_root_and_its_runs(lab, monkeypatch):
    studio, client = lab
    monkeypatch.setattr(home, "WAIT_S", 120)
    sha256 = open_model(DIGITS).ref.sha256
    studio.store.save(make_run(1, model=replace(KWS, sha256=sha256)))
    studio.store.save(make_run(2, model=replace(KWS, name="my model #1?.tflite", sha256="0" * 64)))
    first = client.get("/").text
    assert "in a folder" not in first and ">Upload</th>" not in first  # nothing was uploaded
    # Runs are counted by the file's hash, whatever its name was then.
    assert re.findall('<a href="/runs[?]model=([^"]+)"[^>]*>([^<]+)</a>', first) == [(sha256, "1 run")]
    newest = first[first.index('id="newest"') : first.index("<h2>Models</h2>")]
    assert re.findall(r'<a href="/runs/[^"]+">([^<]+)</a>', newest) == ["my model #1?.tflite", "kws.onnx"]
    studio.store.remove([run_id(2)])
    place = re.search('href="(/models/lab/my[^"]+)"', first)[1]
    assert place == "/models/lab/my%20model%20%231%3F.tflite"
    page = page_of(client, place)
    assert 'id="charts"' in page and f"/runs?model={sha256}" in page and "Newest runs of this model" in page
    newest = page[page.index('id="runs"') : page.index("All runs of this model")]
    assert re.findall('<th scope="col"[^>]*>([^<]*)<', newest)[:4] == ["Made (UTC)", "Result", "95 % interval", "Trust"]
    assert re.findall('<th scope="row" class="([^"]*)">', newest) == ["keep"]  # a time is not broken
    assert "/new/bench?model=lab%2Fmy%20model%20%231%3F.tflite" in page
    assert f'<a href="/runs?model={sha256}"' in client.get("/").text
    assert client.get("/models/lab/../../etc/passwd").status_code in (400, 404)


def test_the_first_page_is_small_with_many_models(serve, tmp_path):
    import gzip

    root = tmp_path / "lab"
    root.mkdir()
    for number in range(300):
        (root / f"some-longer-name-of-a-network-{number}.onnx").write_bytes(b"x")
    studio = serve(roots=(root,))
    with studio.client() as client:
        text = client.get("/").text
        assert text.count("<tr>") == 201 and "Show all, 100 more" in text
        assert client.get("/?all=1").text.count("<tr>") == 301
        names = re.findall('(?:href|src)="(/static/[^"]+)"', text)
        sizes = [len(gzip.compress(client.get(name).content)) for name in names]
        assert len(gzip.compress(text.encode())) + sum(sizes) < 60_000
