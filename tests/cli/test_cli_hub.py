"""``hf:ORG/NAME[:FILE]`` as a model: fetched only where it is asked for, through huggingface_hub's own functions."""

import fnmatch
import hashlib
import json
import shutil
import sys
from pathlib import Path

import pytest

import edgewise
from edgewise.cli.main import run
from edgewise.errors import ExitCode, Unavailable
from edgewise.testing import write_fake_model
from edgewise.verbs.hub import fetch_models
from messages import is_in, says

hub = pytest.importorskip("huggingface_hub")


@pytest.fixture
def served(tmp_path, monkeypatch):
    """The folder of a repository ``org/net``, which a hub in this process serves; `tmp_path / "cache"` is the cache."""
    repository = tmp_path / "repository"
    repository.mkdir()

    def names(name):
        assert name == "org/net"
        return [file.relative_to(repository).as_posix() for file in sorted(repository.rglob("*")) if file.is_file()]

    def download(name, *, allow_patterns, local_dir):
        for file in names(name):
            if any(fnmatch.fnmatch(file, pattern) for pattern in allow_patterns):
                place = Path(local_dir) / file
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(repository / file, place)
        return str(local_dir)

    monkeypatch.setattr(hub, "list_repo_files", names)
    monkeypatch.setattr(hub, "snapshot_download", download)
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: tmp_path / "cache" / name)
    return repository


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
    assert {file.name for file in place.iterdir()} == {"a.onnx", "a.onnx_data", "a.onnx.data", "a.bin"}


def refused(capsys, word, error):
    code = run(["inspect", word])
    assert is_in(error, " ".join(capsys.readouterr().err.split()))
    return code


def test_several_models_none_and_a_file_that_is_not_there_are_refused(served, capsys):
    assert refused(capsys, "hf:org/net", says("hf-models", name="org/net", models_count=0)) == ExitCode.BAD_INPUT
    for name in ("a.onnx", "b.tflite"):
        (served / name).write_text(name)
    assert refused(capsys, "hf:org/net", "2 models: a.onnx and b.tflite try: name one: hf:org/net:a.onnx") == 2
    for file in ("c.onnx", "../../../../repository/a.onnx"):
        assert refused(capsys, f"hf:org/net:{file}", says("hf-no-file", file=file)) == ExitCode.BAD_INPUT


def test_without_a_network_the_advice_says_what_helps(served, monkeypatch, capsys):
    def fail(name, **others):
        raise hub.errors.LocalEntryNotFoundError("Cannot reach the Hub\nand more")

    monkeypatch.setattr(hub, "snapshot_download", fail)
    error = "hf:org/net can't be fetched: Cannot reach the Hub try: check the name, the network"
    assert refused(capsys, "hf:org/net:a.onnx", error) == ExitCode.UNAVAILABLE


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
