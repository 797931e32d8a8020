"""Archives of models that are given as a model: their models are named, with the commands that unpack one."""

from __future__ import annotations

import io
import os
import shlex
import subprocess
import sys
import zipfile

import pytest

from edgewise.errors import BadModel
from edgewise.model import bundles
from edgewise.model.identity import open_model
from tflite_writer import dense


def packed(*members, method=zipfile.ZIP_STORED) -> bytes:
    """An archive of (name, content)."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return stream.getvalue()


def refuse(path, content):
    path.write_bytes(content)
    with pytest.raises(BadModel) as caught:
        open_model(path)
    return caught.value


@pytest.fixture(scope="module")
def tflite() -> bytes:
    return dense()


def test_a_bundle_names_its_models_and_the_command_that_unpacks_one(tmp_path, tflite):
    path = tmp_path / "my hand.task"
    error = refuse(
        path, packed(("hand_detector.tflite", tflite), ("landmarks.tflite", tflite), ("meta.binarypb", b"x"))
    )
    assert error.message == (
        "my hand.task is a MediaPipe bundle of 2 models: hand_detector.tflite and landmarks.tflite; "
        "MediaPipe reads it, but edgewise does not"
    )
    assert follow(error.advice, tmp_path) == "my hand/hand_detector.tflite"
    assert open_model(tmp_path / "my hand/hand_detector.tflite").ref.format == "tflite"


def follow(advice, folder):
    """Execute the commands of an advice but the last, and return the model that the last one inspects."""
    *commands, last = [shlex.split(words) for words in advice.split(" && ")]
    for command in commands:
        assert command[:3] == ["python", "-m", "zipfile"]
        subprocess.run([sys.executable, *command[1:]], cwd=folder, check=True)
    assert last[:2] == ["edgewise", "inspect"]
    return last[2]


def test_models_in_bundles_in_a_bundle_are_named_too(tmp_path, tflite):
    inner = packed(("a.tflite", tflite), ("b.tflite", tflite))
    error = refuse(tmp_path / "gesture.task", packed(("hand.task", inner), ("other.task", packed(("x", b"y")))))
    assert "3 models: a.tflite in hand.task, b.tflite in hand.task and other.task" in error.message
    assert follow(error.advice, tmp_path) == "gesture/hand/a.tflite"
    assert open_model(tmp_path / "gesture/hand/a.tflite").ref.format == "tflite"


def test_a_model_without_an_ending_is_known_by_its_content(tmp_path, tflite):
    error = refuse(tmp_path / "llm.task", packed(("TF_LITE_PREFILL_DECODE", tflite), ("METADATA", b"x" * 20)))
    assert "a MediaPipe bundle of 1 model: TF_LITE_PREFILL_DECODE;" in error.message


def test_other_archives_of_models_and_archives_without_one(tmp_path):
    error = refuse(tmp_path / "net.zip", packed(("folder/net.onnx", b"x"), ("folder/net.onnx.data", b"x")))
    assert "a zip archive of 1 model: folder/net.onnx; edgewise can't read it" in error.message
    assert follow(error.advice, tmp_path) == "net/folder/net.onnx"
    assert (tmp_path / "net/folder/net.onnx.data").exists()
    assert "is a zip archive; edgewise" in refuse(tmp_path / "n.zip", packed(("readme", b"x"))).message
    damaged = packed(("hand.tflite", b"x" * 100))[:-30]
    assert "a zip archive that is cut or damaged" in refuse(tmp_path / "hand.task", damaged).message
    language = refuse(tmp_path / "gemma.litertlm", b"LITERTLM" + bytes(24))
    assert "a LiteRT-LM bundle of a language model; LiteRT-LM reads it" in language.message


def test_hostile_bundles_are_read_within_bounds_and_written_nowhere(tmp_path, tflite, monkeypatch):
    evil = ("../up.tflite", "/root.tflite", "a\\b.tflite", "c:x.tflite", "\x1b[2J.tflite", "a//b.tflite", "./c.tflite")
    error = refuse(tmp_path / "evil.task", packed(*((name, tflite) for name in (*evil, "good; rm -rf $HOME.tflite"))))
    assert "1 model: good; rm -rf $HOME.tflite;" in error.message and error.advice.isprintable()
    assert shlex.split(error.advice)[-1] == "evil/good; rm -rf $HOME.tflite"
    assert sorted(os.listdir(tmp_path)) == ["evil.task"]
    monkeypatch.setattr(bundles, "MOST_INNER_BYTES", 10**6)
    bomb = packed(("x.tflite", bytes(10**7)), method=zipfile.ZIP_DEFLATED)
    large = packed(("y.tflite", os.urandom(2 * 10**6)))
    many = [(f"{n}.task", b"PK\x03\x04") for n in range(100)]
    error = refuse(tmp_path / "bomb.task", packed(("bomb.task", bomb), ("large.task", large), *many))
    assert (
        f"a MediaPipe bundle of {bundles.MOST_INNER} models: x.tflite in bomb.task, large.task, 0.task" in error.message
    )
