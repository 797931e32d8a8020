"""Which models and data pages can name: uploads, and what lies below the roots."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edgewise.studio import models
from edgewise.studio.models import Models, NotThere, clean_label, safe_name

KEY = "ab" * 32


def put(path: Path, text: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def root(tmp_path):
    """A root with models of three kinds, data, and things that must not be listed."""
    root = tmp_path / "lab"
    put(root / "kws.tflite", "12345")
    put(root / "deep" / "net.onnx")
    put(root / "ir" / "net.xml")
    put(root / "ir" / "net.bin", "123")
    put(root / "saved" / "saved_model.pb")
    put(root / "saved" / "assets" / "inner.onnx")
    put(root / "pom.xml")
    put(root / "train.py")
    put(root / ".hidden" / "net.onnx")
    put(root / ".net.onnx")
    put(root / "digits.npz")
    for name in ("cat", "dog"):
        put(root / "pets" / "test" / name / "1.png")
    secret = put(tmp_path / "elsewhere" / "secret.onnx")
    (root / "out.onnx").symlink_to(secret)
    (root / "outside").symlink_to(secret.parent)
    (root / "same.onnx").symlink_to(root / "deep" / "net.onnx")
    return root


def test_roots_are_listed_by_name(root, tmp_path):
    models = Models(folder=tmp_path / "own", roots=(root,))
    assert sorted(each.key for each in models.entries()) == [
        "lab/deep/net.onnx", "lab/ir/net.xml", "lab/kws.tflite", "lab/same.onnx", "lab/saved",
    ]  # fmt: skip
    assert sorted(each.key for each in models.entries("data")) == ["lab/digits.npz", "lab/pets"]
    found = {each.key: each for each in models.entries()}
    assert (found["lab/ir/net.xml"].format, found["lab/ir/net.xml"].size_bytes) == ("openvino", 4)
    assert (found["lab/kws.tflite"].size_bytes, found["lab/saved"].size_bytes) == (5, None)
    assert models.get("lab/deep/net.onnx").path == root / "deep" / "net.onnx"
    assert models.get("lab/pets", "data").format == "folders"


def test_models_that_nobody_chose_are_not_listed(tmp_path):
    root = tmp_path / "lab"
    for place in ("net-optimized/made.jsonl", "night-results/cells.jsonl"):
        put(root / place)
    chosen = put(root / "net-optimized" / "net.static-int8.onnx")
    put(root / "net-optimized" / "variants" / "static-0a" / "net.onnx")
    put(root / "night-results" / "models" / "ds-cnn.onnx")
    for own in ("models", "variants"):
        put(root / own / "mine.onnx")
    models = Models(folder=tmp_path / "own", roots=(root,))
    assert {each.path for each in models.entries()} == {
        chosen, root / "models" / "mine.onnx", root / "variants" / "mine.onnx",
    }  # fmt: skip


def test_newest_first(root, tmp_path):
    os.utime(root / "kws.tflite", (9e9, 9e9))
    assert Models(folder=tmp_path / "own", roots=(root,)).entries()[0].key == "lab/kws.tflite"


@pytest.mark.parametrize(
    "key",
    [
        "", "lab", "lab/", "lab/out.onnx", "lab/outside/secret.onnx", "lab/../elsewhere/secret.onnx", "lab//kws.tflite",
        "lab/./kws.tflite", "lab/.net.onnx", "lab/.hidden/net.onnx", "lab/train.py", "lab/pom.xml", "lab/none.onnx",
        "lab/kws.tflite\0", "other/kws.tflite", "/etc/passwd", "../lab/kws.tflite", KEY, f"../models/{KEY}",
        "lab/" + "x/" * 30 + "net.onnx", "lab/" + "n" * 300 + ".onnx", "lab/saved/saved_model.pb", "lab/digits.npz",
    ],
)  # fmt: skip
def test_nothing_else_can_be_named(root, tmp_path, key):
    models = Models(folder=tmp_path / "own", roots=(root,))
    with pytest.raises(NotThere):
        models.get(key)


def test_two_roots_of_one_name(tmp_path):
    roots = (put(tmp_path / "a" / "lab" / "x.onnx").parent, put(tmp_path / "b" / "lab" / "x.onnx").parent)
    models = Models(folder=tmp_path / "own", roots=roots)
    assert {each.key: each.path for each in models.entries()} == {
        "lab/x.onnx": roots[0] / "x.onnx",
        "lab-2/x.onnx": roots[1] / "x.onnx",
    }


def test_a_look_at_a_root_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(models, "MOST_SEEN", 30)
    root = tmp_path / "many"
    for number in range(3):
        for name in range(11):
            put(root / f"{number}" / f"{name}.txt")
    put(root / "0" / "first.onnx")
    put(root / "2" / "last.onnx")
    found = [each.key for each in Models(folder=tmp_path / "own", roots=(root,)).entries()]
    assert found == ["many/0/first.onnx"]


def test_names_of_clients_are_labels():
    assert clean_label("C:\\models\\net.onnx") == "net.onnx"
    assert clean_label("../../etc/pass\x00wd\x1b[1m.onnx") == "pass wd [1m.onnx"
    assert clean_label("🦄" * 300) == "🦄" * 79 + "…"
    assert safe_name("../Größe 1/my net (v2).onnx", otherwise="model") == "my_net_v2"
    assert safe_name("-rf.onnx", otherwise="model") == "rf"
    assert [safe_name(each, otherwise="model") for each in ("🦄.onnx", "...", "", "..")] == ["model"] * 4
    assert safe_name("a" * 500 + ".onnx", otherwise="model") == "a" * 60


def test_nobody_looks_where_a_link_leads_out(root, tmp_path, monkeypatch):
    """There may be a whole disk, and its data sets are found by reading every folder."""
    looked = []
    monkeypatch.setattr(models, "recognise", lambda path: looked.append(path.resolve()))
    put(tmp_path / "elsewhere" / "data" / "cat" / "1.png")
    (root / "data").symlink_to(tmp_path / "elsewhere" / "data")
    found = Models(folder=tmp_path / "own", roots=(root,))
    assert found.entries() and found.entries("data")
    assert looked and all(path.is_relative_to(root) for path in looked)
