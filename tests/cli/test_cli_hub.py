"""``hf:ORG/NAME[:FILE]`` as a model: fetched only where it is asked for, through the real client."""

import hashlib
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from urllib.parse import unquote, urlsplit

import pytest

import edgewise
from edgewise.cli.main import run
from edgewise.errors import ExitCode, Unavailable
from edgewise.testing import write_fake_model
from edgewise.verbs.hub import fetch_models
from messages import is_in, says

hub = pytest.importorskip("huggingface_hub")
constants = pytest.importorskip("huggingface_hub.constants")
COMMIT = "c" * 40


class Hub(BaseHTTPRequestHandler):
    """What the client asks of the Hub: lists of files and files. ``gated/net`` lists what it does not give."""

    def do_GET(self):
        path = unquote(urlsplit(self.path).path).removeprefix("/api/models/").strip("/")
        name, asked = "/".join(path.split("/")[:2]), path.split("/")[2:]
        files = {file.relative_to(self.server.folder / name).as_posix(): file.read_bytes() for file in self.found(name)}
        if not files:
            self.answer(401, b"", {"X-Error-Code": "RepoNotFound"})
        elif asked[:1] in ([], ["revision"]):
            self.answer(200, {"id": name, "sha": COMMIT, "siblings": [{"rfilename": file} for file in files]})
        elif asked[0] == "tree":
            self.answer(200, [{"type": "file", "path": f, "size": len(files[f]), "oid": f} for f in files])
        elif name == "gated/net":
            self.answer(403, b"", {"X-Error-Code": "GatedRepo"})
        else:
            self.answer(200, files["/".join(asked[2:])], {"ETag": f'"{asked[-1]}"', "X-Repo-Commit": COMMIT})

    do_HEAD = do_GET

    def found(self, name):
        return [file for file in sorted((self.server.folder / name).rglob("*")) if file.is_file()]

    def answer(self, status, body, headers=MappingProxyType({})):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for word, value in {**headers, "Content-Length": len(body)}.items():
            self.send_header(word, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def served(tmp_path, monkeypatch):
    """The folder of ``org/net``, served to the real client by a hub on this machine; `tmp_path / "cache"` is the cache."""
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: tmp_path / "cache" / name)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "home"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    (repository := tmp_path / "repositories/org/net").mkdir(parents=True)
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        server.folder = tmp_path / "repositories"
        own, public = f"http://127.0.0.1:{server.server_port}", constants.ENDPOINT
        monkeypatch.setattr(constants, "ENDPOINT", own)
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(public, own)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield repository
        server.shutdown()
        thread.join()
    hub.close_session()


def test_a_run_keeps_the_hash_of_the_file_that_was_fetched(served, tmp_path, monkeypatch, capsys):
    file = write_fake_model(served / "model.onnx")
    monkeypatch.setenv("EDGEWISE_STORE", str(tmp_path / "runs.db"))
    assert run(["bench", "hf:org/net", "-r", "fake", "--iterations", "3", "--sessions", "1", "--json"]) == ExitCode.DONE
    (one,) = json.loads(capsys.readouterr().out)["runs"]
    model = one["job"]["model"]
    assert model["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
    assert (model["name"], model["path"]) == ("model.onnx", str(tmp_path / "cache/edgewise/hub/org/net/model.onnx"))


def test_python_takes_it_too(served):
    (served / "sub").mkdir()
    write_fake_model(served / "sub" / "a.onnx")
    (one,) = edgewise.bench("hf:org/net:sub/a.onnx", runtimes="fake", iterations=3, sessions=1)
    assert one.job.model.name == "a.onnx"


def test_weights_come_with_the_file_and_nothing_else(served, tmp_path):
    for name in ("a.onnx", "a.onnx_data", "a.onnx.data", "a.bin", "b.onnx", "README.md"):
        (served / name).write_text(name)
    place = tmp_path / "cache/edgewise/hub/org/net"
    word = "mine=hf:org/net:a.onnx,threads=2"
    assert fetch_models(["last", word]) == ["last", f"mine={place}/a.onnx,threads=2"]
    assert {file.name for file in place.iterdir() if file.is_file()} == {
        "a.onnx",
        "a.onnx_data",
        "a.onnx.data",
        "a.bin",
    }


def refused(capsys, word, error):
    code = run(["inspect", word])
    assert is_in(error, " ".join(capsys.readouterr().err.split()))
    return code


def test_several_models_none_and_a_file_that_is_not_there_are_refused(served, capsys):
    (served / "README.md").touch()
    assert refused(capsys, "hf:org/net", says("hf-models", name="org/net", models_count=0)) == ExitCode.BAD_INPUT
    for name in ("a.onnx", "b.tflite"):
        (served / name).write_text(name)
    assert refused(capsys, "hf:org/net", "2 models: a.onnx and b.tflite try: name one: hf:org/net:a.onnx") == 2
    for file in ("c.onnx", "../../../../repositories/org/net/a.onnx"):
        assert refused(capsys, f"hf:org/net:{file}", says("hf-no-file", file=file)) == ExitCode.BAD_INPUT


def test_a_repository_that_is_not_there_or_gives_its_files_to_few_is_told_as_that(served, tmp_path, capsys):
    error = "hf:org/none can't be fetched: the Hub has no such repository, or hides it from you try: check the name, or"
    assert refused(capsys, "hf:org/none:a.onnx", error) == ExitCode.UNAVAILABLE
    (tmp_path / "repositories/gated/net").mkdir(parents=True)
    (tmp_path / "repositories/gated/net/a.onnx").write_text("a")
    error = "can't be fetched: its owners give access on request, and you have none try: ask for it on the page"
    assert refused(capsys, "hf:gated/net", error) == ExitCode.UNAVAILABLE


@pytest.mark.parametrize("down", [{"HF_HUB_OFFLINE": True}, {"ENDPOINT": "http://127.0.0.1:9"}])
def test_without_a_network_what_was_fetched_is_taken_and_what_was_not_is_told(served, monkeypatch, capsys, down):
    (served / "a.onnx").write_text("a")
    fetched = fetch_models("hf:org/net:a.onnx")
    for name, value in down.items():
        monkeypatch.setattr(constants, name, value)
    hub.close_session()
    assert fetch_models("hf:org/net:a.onnx") == fetched and Path(fetched).read_text() == "a"
    for word in ("hf:org/net:b.onnx", "hf:org/net"):
        assert refused(capsys, word, says("hf-cant-fetched", name="org/net")) == ExitCode.UNAVAILABLE


def test_the_progress_of_the_client_is_not_in_what_is_printed(served, capfd):
    (served / "a.onnx").write_text("a")
    fetch_models("hf:org/net")
    assert capfd.readouterr() == ("", "")


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(Unavailable) as caught:
        fetch_models("hf:org/net")
    assert caught.value.advice == "pip install 'edgewise[hub]'"


@pytest.mark.parametrize("word", ["model.onnx", "hf:folder", "hf:a/b/c", "last", "hf", Path("x")])
def test_other_words_stay(word):
    assert fetch_models(word) is word


@pytest.mark.parametrize("own", ["0", None])
def test_an_agent_fetches_only_where_the_owner_says_so(monkeypatch, own):
    from edgewise.cli.mcp.jobs import _environment

    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    if own:
        monkeypatch.setenv("HF_HUB_OFFLINE", own)
    assert _environment()["HF_HUB_OFFLINE"] == (own or "1")
