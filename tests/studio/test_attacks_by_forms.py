"""What a form can't ask for: files of the server, code, other machines. Every field of every form, by real requests."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("starlette")

from raw_http import parse, post, send

from tiny_models import write_tiny_onnx
from verb_forms import FORMS

REACHING = (
    "/etc/passwd",
    "file:///etc/passwd",
    "../../../../etc/passwd",
    "ssh://root@127.0.0.1",
    "adb://evil",
    "serial:///dev/ttyS0",
    "container://evil/image",
    "hf:someone/model",
    "os:system",
    "/tmp/evil.py:attack",
    "https://evil.example/x.onnx",
    "-o/tmp/evil",
    "--store=/tmp/evil.db",
    "postgresql://evil/x",
    "$(touch /tmp/evil)",
)

NAMES_OF_LAYERS = ("keep_float", "shape", "signature")
"""Fields whose text names parts of a model, whatever it looks like."""


@pytest.fixture(scope="module")
def studio(serve, tmp_path_factory):
    """A studio with a model to pick, whose jobs stay in the queue."""
    root = tmp_path_factory.mktemp("root")
    write_tiny_onnx(root / "net.onnx")
    (root / "evil.py").write_text("raise SystemExit\n")
    (root / "secret.txt").write_text("secret")
    (root / "link.onnx").symlink_to("/etc/passwd")
    (root / "up").symlink_to(root.parent, target_is_directory=True)
    running = serve(roots=(root,))
    running.studio.jobs.stop()
    return running


def texts_in(value) -> list[str]:
    if isinstance(value, str):
        return [value]
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for one in inside for text in texts_in(one)]


@pytest.mark.parametrize("verb", [pytest.param(verb, marks=[pytest.mark.long] * (verb != "bench")) for verb in FORMS])
def test_no_field_reaches_beyond_what_can_be_picked(studio, verb):
    (model,) = [entry.key for entry in studio.studio.models.entries() if entry.name == "net.onnx"]
    own = (studio.folder, *studio.settings.roots)
    with studio.client() as client:
        for number, field in enumerate(FORMS[verb].fields()):
            answer = client.post(
                f"/new/{verb}", data={"model": [model, model], field.name: [REACHING[number % len(REACHING)]]}
            )
            assert answer.status_code in (303, 400, 422), f"{field.name}: {answer.status_code}"
            if answer.status_code != 303 or field.name in NAMES_OF_LAYERS:
                continue
            request = json.loads(studio.store.jobs.get(answer.headers["location"].rpartition("/")[2]).request)
            for word in texts_in(request):
                assert not word.startswith(("ssh:", "adb:", "serial:", "container:", "hf:", "file:", "postgresql:"))
                assert not word.startswith("/") or any(Path(word).is_relative_to(folder) for folder in own)
                assert "evil.py" not in word
                # Names to look up; an environment has to be NAME==VERSION, and its job ends with that error.
                assert "os:system" not in word or field.name in ("runtime", "provider", "precision", "environment")
    assert not Path("/tmp/evil").exists()
    assert not Path("/tmp/evil.db").exists()


@pytest.mark.parametrize(
    "key",
    [
        "link.onnx",
        "up/x",
        "secret.txt",
        "evil.py",
        "../root/net.onnx",
        "/etc/passwd",
        "",
        ".",
        "net.onnx/",
        "net.onnx\0",
    ],
)
def test_a_root_gives_nothing_but_its_models(studio, key):
    name = studio.settings.roots[0].name
    keys = {entry.key for entry in studio.studio.models.entries()}
    assert keys == {f"{name}/net.onnx"}
    with studio.client() as client:
        before = len(studio.store.jobs.list())
        answer = client.post("/new/inspect" if "inspect" in FORMS else "/new/bench", data={"model": [f"{name}/{key}"]})
        assert answer.status_code in (400, 422)
        assert client.get("/models/" + re.sub("\0", "%00", f"{name}/{key}")).status_code in (400, 404)
        assert len(studio.store.jobs.list()) == before


def test_names_in_headers_split_no_answer(studio):
    """A name that a client chose stands in the header of no answer, or is quoted there."""
    name = 'a"\\\r\nSet-Cookie: a=b\r\n\r\n<script>.onnx'
    boundary = "x"
    model = (studio.settings.roots[0] / "net.onnx").read_bytes()
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode()
    body = head + model + f"\r\n--{boundary}--\r\n".encode()
    lines = [
        "POST /uploads HTTP/1.1", f"Host: {studio.url[7:]}", f"Cookie: {'='.join(studio.cookie)}", f"Origin: {studio.url}",
        "Connection: close", f"Content-Type: multipart/form-data; boundary={boundary}", f"Content-Length: {len(body)}",
    ]  # fmt: skip
    answer = parse(send(studio, "\r\n".join(lines).encode() + b"\r\n\r\n" + body))
    assert answer.status in (303, 400)
    assert answer.all("set-cookie") == []
    for value in answer.all("location"):
        assert value == "/" or re.fullmatch(r"/models/[0-9a-f]{64}", value)


@pytest.mark.parametrize(
    "target", ["//evil.example", "https://evil.example", "/\\evil.example", "/runs\r\nSet-Cookie: a=b"]
)
def test_no_form_leads_to_another_site(studio, target):
    body = "&".join(f"{field}={target}" for field in ("next", "url", "return", "of", "back", "redirect"))
    for path in ("/new/bench", "/uploads", "/runs/tag"):
        answer = post(studio, path, body=body.encode())
        assert not any("evil" in value for value in answer.all("location"))
        assert answer.all("set-cookie") == []
