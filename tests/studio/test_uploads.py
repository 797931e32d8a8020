"""Uploads: what is taken, what is refused and why, and that nothing of it is left behind."""

from __future__ import annotations

import hashlib
import html
import io
import json
import os
import pickle
import re
import resource
import shutil
import stat
import threading
import time
import zipfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx as onnx_package
import pytest
from raw_http import connect

import edgewise.data
from edgewise.studio import model_worker, uploads
from messages import has, is_in, says, wording
from openvino_writer import Ir, const, parameter, relu, result
from patience import wait_until
from tiny_models import write_tiny_onnx

DATA = Path(edgewise.data.__file__).parent
DIGITS = (DATA / "digits_cnn_int8.tflite").read_bytes()
HOSTILE = "<script>alert(1)</script>\"'&\u202e\x00"


@pytest.fixture(scope="module")
def studio(serve):
    return serve(most_upload=400 * 10**6)


@pytest.fixture
def client(studio):
    """A client of a studio without uploads, which must have nothing half-done in the end."""
    with studio.client() as client:
        yield client
    wait_until_clean(studio)
    for kind, entries in (("models", studio.studio.models.entries()), ("data", studio.studio.models.entries("data"))):
        for entry in entries:
            studio.studio.models.remove(kind, entry.key)


def wait_until_clean(studio):
    """Return once nothing half-done is left; a studio that still reads what a client sends has some time for it."""
    wait_until(lambda: not os.listdir(studio.folder / "incoming"))


def upload(client, *files):
    """The answer to a form with these (name, content)."""
    return client.post("/uploads", files=[("file", each) for each in files])


def packed(*members, method=zipfile.ZIP_DEFLATED) -> bytes:
    """An archive of (name or ZipInfo, content)."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return stream.getvalue()


def member(name, mode):
    info = zipfile.ZipInfo("x")
    info.filename, info.external_attr, info.create_system = name, mode << 16, 3
    return info


@pytest.fixture(scope="module")
def onnx(tmp_path_factory) -> bytes:
    return write_tiny_onnx(tmp_path_factory.mktemp("onnx") / "tiny.onnx").read_bytes()


def test_a_model_is_kept_under_its_hash(studio, client):
    content = DIGITS
    answer = upload(client, ("digits int8.tflite", content))
    key = hashlib.sha256(content).hexdigest()
    assert (answer.status_code, answer.headers["location"]) == (303, f"/models/{key}")
    entry = studio.studio.models.get(key)
    assert (entry.name, entry.path.name, entry.format) == ("digits int8.tflite", "digits_int8.tflite", "tflite")
    assert entry.path.read_bytes() == content and entry.size_bytes == len(content)
    assert entry.path == studio.folder / "models" / key / "files" / "digits_int8.tflite"
    page = client.get("/").text
    assert f'href="/models/{key}"' in page and "digits int8.tflite" in page


def test_the_content_tells_the_format(studio, client, onnx):
    answer = upload(client, ("weights.bin", onnx))
    entry = studio.studio.models.get(answer.headers["location"].removeprefix("/models/"))
    assert (entry.name, entry.path.name, entry.format) == ("weights.bin", "weights.onnx", "onnx")


def test_the_same_file_twice_is_one_model(studio, client, onnx):
    first, second = upload(client, ("first.onnx", onnx)), upload(client, ("second.onnx", onnx))
    assert first.headers["location"] == second.headers["location"]
    assert [entry.name for entry in studio.studio.models.entries()] == ["first.onnx"]


def test_two_uploads_at_once(studio, client, onnx):
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(upload(client, ("net.onnx", onnx)))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answer.status_code for answer in answers] == [303, 303]
    assert [entry.name for entry in studio.studio.models.entries()] == ["net.onnx"]


def test_files_of_one_model_and_several_models_at_once(studio, client, onnx, tmp_path):
    layers = (parameter(0, (2, 3)), relu(1), result(2, (2, 3)), const(3, (2, 3), 0, 24), result(4, (2, 3)))
    Ir(tmp_path).read(layers, (0, 0, 1, 0), (1, 1, 2, 0), (3, 0, 4, 0), weights=bytes(range(24)))
    xml, weights = (tmp_path / "m.xml").read_bytes(), (tmp_path / "m.bin").read_bytes()
    answer = upload(client, ("my net.bin", weights), ("my net.xml", xml), ("tiny.onnx", onnx))
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    found = {entry.name: entry for entry in studio.studio.models.entries()}
    assert sorted(found) == ["my net.xml", "tiny.onnx"]
    entry = found["my net.xml"]
    assert entry.key == hashlib.sha256(xml + weights).hexdigest()
    assert sorted(os.listdir(entry.path.parent)) == ["my_net.bin", "my_net.xml"]


@pytest.mark.long
def test_an_archive_of_a_model_with_its_weights(studio, client, tmp_path):
    path = write_tiny_onnx(tmp_path / "net.onnx", external=True)
    content = packed(
        ("folder/net.onnx", path.read_bytes()),
        ("folder/weights.bin", (tmp_path / "weights.bin").read_bytes()),
        ("folder/net.yaml", "edgewise: 1\n"),
        ("__MACOSX/folder/._net.onnx", b"x"),
    )
    answer = upload(client, ("exported.zip", content))
    entry = studio.studio.models.get(answer.headers["location"].removeprefix("/models/"))
    assert str(entry.path).endswith("/files/exported/folder/net.onnx")
    assert sorted(os.listdir(entry.path.parent)) == ["net.onnx", "weights.bin"]
    assert entry.left_out == ["folder/net.yaml"]
    assert "folder/net.yaml" in client.get(answer.headers["location"]).text


def external_onnx(folder, location):
    """A model of 16 parameters with external data: its bytes, and those of its weight file at `location`."""
    path = write_tiny_onnx(folder / "net.onnx", external=True)
    model = onnx_package.load(path, load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            entry.value = location if entry.key == "location" else entry.value
    return model.SerializeToString(), (folder / "weights.bin").read_bytes()


@pytest.mark.parametrize("location", ["my net.onnx.data", "weights/my net.bin", "my_net.bin"])
def test_a_model_and_the_weight_file_that_it_names(studio, client, tmp_path, location):
    model, weights = external_onnx(tmp_path, location)
    answer = upload(client, (location.rpartition("/")[2], weights), ("my net.onnx", model), ("other.tflite", DIGITS))
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    found = {entry.name: entry for entry in studio.studio.models.entries()}
    assert sorted(found) == ["my net.onnx", "other.tflite"]
    entry = found["my net.onnx"]
    assert entry.key == hashlib.sha256(model + weights).hexdigest()
    assert (entry.path.name, (entry.path.parent / location).read_bytes()) == ("my_net.onnx", weights)


def test_a_weight_file_may_begin_with_zeros(studio, client, tmp_path):
    layers = (const(0, (100_000,), 0, 400_000), result(1, (100_000,)))
    Ir(tmp_path).read(layers, (0, 0, 1, 0), weights=bytes(400_000))
    answer = upload(client, ("m.bin", bytes(400_000)), ("m.xml", (tmp_path / "m.xml").read_bytes()))
    assert answer.status_code == 303 and [entry.name for entry in studio.studio.models.entries()] == ["m.xml"]


def problem(answer):
    assert answer.status_code == 400
    return " ".join(" ".join(re.findall(r'(?s)class="problem".*?</div>', answer.text)).replace("&#39;", "'").split())


def test_a_model_without_its_weight_file_says_what_to_drop(studio, client, tmp_path):
    model, weights = external_onnx(tmp_path, "net.onnx.data")
    both = "drop both files together, or a .zip with both"
    told = problem(upload(client, ("my net.onnx", model)))
    assert (
        wording("weight-file-missing", named="net.onnx.data", title="my net.onnx") in told
        and both in told
        and "beside" not in told
    )
    ir = Ir(tmp_path)
    ir.read((const(0, (2, 3), 0, 24), result(1, (2, 3))), (0, 0, 1, 0), weights=bytes(24))
    xml = (tmp_path / "m.xml").read_bytes()
    told = problem(upload(client, ("my net.xml", xml)))
    assert wording("weight-file-missing", named="my net.bin", title="my net.xml") in told and both in told
    for name, content, expected in (("my net.onnx", model, "net.onnx.data"), ("my net.xml", xml, "my net.bin")):
        told = problem(upload(client, (name, content), ("renamed.bin", weights)))
        assert re.search(
            says("names-weight-file-another-name", label=has(str(name)), missing=expected, label_2="renamed.bin"), told
        )
        assert wording("rename-drop-both-together", missing=expected) in told
    told = problem(upload(client, ("net.zip", packed(("a/net.onnx", model)))))
    assert re.search(
        says("lacks-weight-file", title=has("net.zip"), missing="a/net.onnx.data", name=has("net.onnx")), told
    )
    assert studio.studio.models.entries() == []


@pytest.mark.parametrize(
    "location", ["../up.data", "/tmp/up.data", "a/../../up.data", "C:up.data", "a\\up.data", "d/" * 20 + "up.data", ""]
)
def test_a_weight_file_whose_place_is_hostile_goes_nowhere(location):
    model, other = (uploads.Received(name=name, path=Path(name)) for name in ("n.onnx", "up.data"))
    groups = uploads.group([model, other], {"n.onnx": [location]})
    assert [(each.model, each.weights) for each in groups] == [(model, {}), (other, {})]


def test_a_model_is_no_weight_file_of_its_own():
    model = uploads.Received(name="n.onnx", path=Path("0"))
    other = uploads.Received(name="m.tflite", path=Path("1"))
    groups = uploads.group([model, other], {"0": ["n.onnx", "m.tflite"]})
    assert [(each.model, each.weights) for each in groups] == [(model, {"m.tflite": other})]


def test_code_is_no_weight_file(client, tmp_path):
    model, weights = external_onnx(tmp_path, "loader.py")
    assert re.search(
        says("file-can-run-code-which", suffix=".py"),
        problem(upload(client, ("net.onnx", model), ("loader.py", weights))),
    )


def test_data(studio, client):
    arrays = io.BytesIO()
    np.savez(arrays, x=np.zeros((3, 4), np.float32), y=np.arange(3))
    pets = packed(*((f"pets/{kind}/{n}.png", b"\x89PNG") for kind in ("cat", "dog") for n in range(2)))
    table = b"a,b,label\n1,2,0\n3,4,1\n"
    answer = upload(client, ("my data.npz", arrays.getvalue()), ("pets.zip", pets), ("table.csv", table))
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    found = {entry.name: entry for entry in studio.studio.models.entries("data")}
    assert {name: (entry.format, entry.path.name) for name, entry in found.items()} == {
        "my data.npz": ("npz", "my_data.npz"), "pets.zip": ("folders", "pets"), "table.csv": ("csv", "table.csv"),
    }  # fmt: skip
    assert found["table.csv"].key == hashlib.sha256(table).hexdigest()
    assert studio.studio.models.entries() == []


def arrays_of_objects() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    return stream.getvalue()


def torchscript() -> bytes:
    return packed(("net/data.pkl", pickle.dumps({})), ("net/code/__torch__.py", "def forward(x): return x"))


LINK, PIPE = stat.S_IFLNK | 0o777, stat.S_IFIFO | 0o644
REFUSED = {
    "text": (("notes.txt", b"not a model"), says("unknown-format")),
    "empty": (("net.onnx", b""), "empty"),
    "cut model": (("net.tflite", DIGITS[:3000]), "net.tflite"),
    "another program's model": (("llm.litertlm", b"LITERTLM" + b"\0" * 60), "LiteRT-LM"),
    "Python": (("factory.py", b"def make(): ..."), says("file-can-run-code-which", suffix=".py")),
    "pickle": (("net.pt", pickle.dumps({})), says("file-can-run-code-which", suffix=".pt")),
    "hidden pickle": (("net.onnx", pickle.dumps({"a": 1})), "pickle"),
    "TorchScript": (("net.pt2", torchscript()), "TorchScript"),
    "module of this process": (("net.eager", b"{}"), says("file-can-run-code-which", suffix=".eager")),
    "hidden module": (("net.onnx", b'{"schema": 1, "name": "x"}'), "net.onnx"),
    "objects": (("x.npy", arrays_of_objects()), wording("python-objects-which-never-unpickled")),
    "objects in an archive": (("x.npz", packed(("x.npy", arrays_of_objects()))), wording("python-objects-which-never-unpickled")),
    "code in data": (("x.npz", packed(("x.py", b"import os"))), says("not-written-numpy-not-npy")),
    "binary table": (("x.csv", b"\0\1\2"), says("not-table-text")),
    "MediaPipe bundle": (("hand.task", packed(("a.tflite", DIGITS))), "MediaPipe bundle of 1 model: a.tflite"),
    "no archive": (("net.zip", b"PK\x03\x04nonsense"), says("not-complete-zip-archive")),
    "no model in an archive": (("net.zip", packed(("readme.txt", b"hello"))), wording("archive-holds-no-model-no")),
    "two models": (("net.zip", packed(("a.onnx", b"a"), ("b.tflite", b"b"))), "a.onnx, b.tflite"),
    "code in an archive": (("net.zip", packed(("net/loader.py", b"import os"))), "loader.py"),
    "pickle in an archive": (("net.zip", packed(("net/data.PKL", b"x"))), says("file-can-run-code-which", suffix=".pkl")),
    "up": (("net.zip", packed(("../evil.onnx", b"x"))), says("archive-no-path-below-folder")),
    "up inside": (("net.zip", packed(("net/../../evil.onnx", b"x"))), says("archive-no-path-below-folder")),
    "absolute": (("net.zip", packed(("/tmp/evil.onnx", b"x"))), says("archive-no-path-below-folder")),
    "drive": (("net.zip", packed(("C:/evil.onnx", b"x"))), says("archive-no-path-below-folder")),
    "backslash": (("net.zip", packed(("..\\evil.onnx", b"x"))), says("archive-no-path-below-folder")),
    "function": (("net.zip", packed(("os:system.onnx", b"x"))), says("archive-no-path-below-folder")),
    "NUL": (("net.zip", packed((member("net\0.onnx", stat.S_IFREG | 0o644), b"x"))), says("archive-no-path-below-folder")),
    "direction": (("net.zip", packed(("net\u202exnno", b"x"))), says("archive-no-path-below-folder")),
    "deep": (("net.zip", packed(("d/" * 20 + "net.onnx", b"x"))), says("archive-too-deep-too-long")),
    "long": (("net.zip", packed(("n" * 300 + ".onnx", b"x"))), says("archive-too-deep-too-long")),
    "link": (("net.zip", packed((member("net.onnx", LINK), b"/etc/passwd"))), says("archive-link-special-file")),
    "pipe": (("net.zip", packed((member("net.onnx", PIPE), b""))), says("archive-link-special-file")),
    "a name twice": (("net.zip", packed(("a/x.txt", b"1"), ("a", b"2"))), "twice"),
    "bomb": (("net.zip", lambda: packed(("net.onnx", bytes(200 * 10**6)))), says("archive-would-unpack-more-than")),
    "many": (("net.zip", lambda: packed(*((f"{n}", b"") for n in range(50_001)), method=zipfile.ZIP_STORED)), says("archive-members-more-than", members_count=50001)),
}  # fmt: skip
"""What is uploaded, and a word of the reason for refusing it; large contents are made by the test."""


@pytest.mark.parametrize(("file", "reason"), REFUSED.values(), ids=REFUSED)
def test_refused(tmp_path, file, reason):
    name, content = file
    folder = tmp_path / "inner" / "made"
    folder.mkdir(parents=True)
    (folder / name).write_bytes(content() if callable(content) else content)
    request = {"take": [name], "title": name, "folder": str(folder), "most_bytes": 400 * 10**6}
    told = json.loads(model_worker.answer(json.dumps(request).encode()))
    assert told["error"].startswith("Bad") and is_in(reason, told["message"]), told
    assert str(tmp_path) not in told["message"] + told["advice"]
    assert os.listdir(tmp_path) == ["inner"] and os.listdir(tmp_path / "inner") == ["made"]


@pytest.mark.parametrize("kind", ["text", "up"])
def test_refused_by_the_studio(studio, client, kind):
    file, reason = REFUSED[kind]
    answer = upload(client, file)
    assert answer.status_code == 400 and is_in(reason, html.unescape(answer.text)), answer.text[-1500:]
    assert str(studio.folder) not in answer.text
    assert studio.studio.models.entries() == studio.studio.models.entries("data") == []


def test_an_archive_that_lies_about_its_sizes(studio, client):
    content = bytearray(packed(("net.onnx", bytes(10**6))))
    place = content.index(b"PK\x01\x02") + 24
    content[place : place + 4] = (10).to_bytes(4, "little")
    answer = upload(client, ("net.zip", bytes(content)))
    assert (answer.status_code, "damaged" in answer.text) == (400, True)


def test_an_encrypted_archive(client):
    content = bytearray(packed(("net.onnx", b"x")))
    for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(mark) + flags] |= 1
    answer = upload(client, ("net.zip", bytes(content)))
    assert (answer.status_code, "encrypted" in answer.text) == (400, True)


def test_hostile_names_are_labels(studio, client):
    names = ["🦄" * 300 + ".tflite", "../../../../etc/cron.d/x.tflite", HOSTILE + ".tflite"]
    body = b""
    for number, name in enumerate(names):
        quoted = name.encode().replace(b'"', b"%22").replace(b"\0", b"")
        body += b'--B\r\nContent-Disposition: form-data; name="file"; filename="%s"\r\n\r\n' % quoted
        body += DIGITS + bytes(number) + b"\r\n"
    answer = client.post(
        "/uploads", content=body + b"--B--\r\n", headers={"content-type": "multipart/form-data; boundary=B"}
    )
    assert answer.status_code == 303, answer.text
    entries = studio.studio.models.entries()
    assert len(entries) == len(names)
    for entry in entries:
        assert entry.path.parent.parent.parent == studio.folder / "models"
        assert entry.path.name.isascii() and entry.path.suffix == ".tflite" and len(entry.path.name) < 70
    page = client.get("/").text
    assert "<script>alert" not in page and "\u202e" not in page and "etc" not in page and "🦄" * 79 + "…" in page


def zeros(size):
    yield b'--B\r\nContent-Disposition: form-data; name="file"; filename="zeros.onnx"\r\n\r\n'
    block = bytes(2**20)
    for _ in range(size // len(block)):
        yield block
    yield b"\r\n--B--\r\n"


def post_zeros(client, size):
    return client.post("/uploads", content=zeros(size), headers={"content-type": "multipart/form-data; boundary=B"})


def test_zeros_fill_neither_memory_nor_disk(client):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answer = post_zeros(client, 300 * 2**20)
    assert (answer.status_code, wording("file-begins-zeros-no-model") in answer.text) == (400, True)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # KiB


@pytest.mark.long
def test_two_gigabytes_of_zeros(serve):
    with serve().client() as client:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        answer = post_zeros(client, 2 * 10**9)
        assert (answer.status_code, "begins with zeros" in answer.text) == (400, True)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # KiB


def test_a_large_field_is_not_held_in_memory(client):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def body():
        yield b'--B\r\nContent-Disposition: form-data; name="text"\r\n\r\n'
        for _ in range(200):
            yield b"a" * 2**20

    answer = client.post("/uploads", content=body(), headers={"content-type": "multipart/form-data; boundary=B"})
    assert answer.status_code == 400
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # KiB


def test_an_upload_makes_its_folder_where_that_is_missing(serve, onnx):
    studio = serve()
    shutil.rmtree(studio.folder / "incoming")  # as where the disk was read-only at the start
    with studio.client() as client:
        assert upload(client, ("net.onnx", onnx)).status_code == 303
    wait_until_clean(studio)


def test_more_than_the_cap_is_refused(serve, onnx):
    studio = serve(most_upload=10_000)
    with studio.client() as client:
        refused = upload(client, ("net.onnx", onnx + bytes(2 * 2**20)))
        assert refused.status_code == 413 and is_in(says("larger-than", format_bytes=has("1.01 MiB")), refused.text)
        # Without a length in the header, the studio counts.
        answer = client.post(
            "/uploads", content=iter([*zeros(2 * 2**20)]), headers={"content-type": "multipart/form-data; boundary=B"}
        )
        assert answer.status_code == 413
    wait_until_clean(studio)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("text/plain", b"hello"),
        ("multipart/form-data", b"--B--\r\n"),
        ("multipart/form-data; boundary=B", b"--C\r\n\r\nx"),
        ("multipart/form-data; boundary=B", b"--B\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n--B--\r\n"),
        ("multipart/form-data; boundary=B", b'--B\r\nContent-Disposition: form-data; filename="a.onnx"\r\n\r\nxx'),
        ("multipart/form-data; boundary=B", b"--B\r\n" + b"X-Long: " + b"a" * 100_000 + b"\r\n\r\nx\r\n--B--\r\n"),
        ("multipart/form-data; boundary=" + "B" * 2000, b""),
        (
            "multipart/form-data; boundary=B",
            b'--B\r\nContent-Disposition: form-data; filename="a.onnx"\r\n\r\nx\r\n' * 65 + b"--B--\r\n",
        ),
    ],
)
def test_other_forms_are_refused(studio, client, kind, body):
    answer = client.post("/uploads", content=body, headers={"content-type": kind})
    assert answer.status_code == 400, answer.text
    assert studio.studio.models.entries() == []


def test_an_upload_that_breaks_off_leaves_nothing(studio, client):
    with connect(studio) as connection:
        head = (
            f"POST /uploads HTTP/1.1\r\nHost: {studio.url.partition('://')[2]}\r\nCookie: {'='.join(studio.cookie)}\r\n"
        )
        head += (
            f"Origin: {studio.url}\r\nContent-Type: multipart/form-data; boundary=B\r\nContent-Length: 10000000\r\n\r\n"
        )
        part = '--B\r\nContent-Disposition: form-data; name="file"; filename="net.onnx"\r\n\r\n'
        connection.sendall((head + part).encode() + b"\x08" * 1_000_000)
        wait_until(lambda: os.listdir(studio.folder / "incoming"))
    wait_until_clean(studio)
    assert studio.studio.models.entries() == []


@contextmanager
def files_of_at_most(size):
    """Inside, this process and its children can't write larger files: what a full disk looks like to them."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.cold  # the limit is inherited
@pytest.mark.parametrize("name", ["net.onnx", "net.zip"])
def test_a_full_disk_gives_one_clear_error(studio, client, name):
    content = os.urandom(1_000_000) if name == "net.onnx" else packed(("net/net.onnx", b"\x08" * 10**6))
    with files_of_at_most(300_000):
        answer = upload(client, (name, content))
    assert (answer.status_code, "File too large" in answer.text) == (503, True), answer.text[-1000:]
    assert ("on a disk that can be written and has space" if name == "net.onnx" else "free some space") in answer.text
    assert studio.studio.models.entries() == []


def test_uploads_are_deleted(studio, client, onnx):
    place = upload(client, ("net.onnx", onnx)).headers["location"]
    key = place.removeprefix("/models/")
    wait_until(lambda: "refresh" not in client.get(place).headers)
    entry = studio.studio.models.get(key)
    assert studio.studio.readings.known(entry).sha256 == key
    assert client.post(f"/uploads/data/{key}/delete").status_code == 400
    assert client.post(f"/uploads/models/{key}/delete").headers["location"] == "/"
    assert client.get(place).status_code == 400
    assert os.listdir(studio.folder / "models") == []
    assert studio.studio.readings.known(entry) is None
    assert client.post(f"/uploads/models/{key}/delete").status_code == 400
    assert client.post("/uploads/models/..%2f..%2fruns.db/delete").status_code in (400, 404)


def test_a_killed_studio_leaves_nothing_for_long(tmp_path):
    from edgewise.folders import STALE_S
    from edgewise.studio.models import Models

    old = tmp_path / "incoming" / "edgewise-tmp-old"
    young = tmp_path / "incoming" / "edgewise-tmp-young"
    for folder in (old, young):
        folder.mkdir(parents=True)
        (folder / "0.onnx").write_bytes(b"half")
    os.utime(old, (time.time() - STALE_S - 10,) * 2)
    Models(folder=tmp_path)
    assert not old.exists() and young.exists()
