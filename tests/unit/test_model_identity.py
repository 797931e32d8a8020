"""What a file is, from its content: formats, hashes, files, and every way in which a file can be wrong."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import struct
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from edgewise.errors import BadModel
from edgewise.model.identity import open_model
from edgewise.model.signature import TensorSpec
from messages import says


def refuse(path):
    """The error that `path` meets: one line, with advice."""
    with pytest.raises(BadModel) as caught:
        open_model(path)
    error = caught.value
    assert "\n" not in error.message
    assert error.advice
    return error


def test_an_onnx_model(tiny_onnx):
    path = tiny_onnx(batch="batch")
    model = open_model(path)
    data = path.read_bytes()
    assert model.ref.name == "tiny.onnx"
    assert model.ref.path == str(path)
    assert model.ref.format == "onnx"
    assert model.ref.sha256 == hashlib.sha256(data).hexdigest()
    assert model.ref.size_bytes == len(data)
    assert model.files == (path,)
    assert model.signature.inputs == (TensorSpec(name="x", shape=("batch", 4), dtype="float32"),)
    assert model.signature.outputs == (TensorSpec(name="y", shape=("batch", 2), dtype="float32"),)


@pytest.mark.parametrize("name", ["model.tflite", "model.bin", "model", "model.xml", "model.pt"])
def test_the_content_decides_not_the_name(tiny_onnx, name):
    assert open_model(tiny_onnx(name)).ref.format == "onnx"


def test_a_relative_path_becomes_absolute(tiny_onnx, monkeypatch):
    path = tiny_onnx()
    monkeypatch.chdir(path.parent)
    assert open_model("tiny.onnx").ref.path == str(path)
    assert open_model("./tiny.onnx").ref == open_model(path).ref


def test_the_hash_does_not_depend_on_the_path(tiny_onnx, tmp_path):
    path = tiny_onnx()
    other = tmp_path / "other.onnx"
    other.write_bytes(path.read_bytes())
    assert open_model(path).ref.sha256 == open_model(other).ref.sha256


def test_a_changed_file_is_read_anew(tmp_path):
    path = tmp_path / "m.fake"
    for name in ("a", "b"):
        spec = {"name": name, "shape": [1], "dtype": "float32"}
        path.write_text("edgewise-fake 1\n" + json.dumps({"inputs": [spec]}))
        assert open_model(path).signature.inputs[0].name == name


def test_missing(tmp_path):
    assert re.search(says("no-such-file-in-identity"), refuse(tmp_path / "none.onnx").message)


def test_a_name_with_a_nul():
    assert "can't read" in refuse("a\0b").message


def test_a_folder(tmp_path, tiny_onnx):
    assert "folder" in refuse(tmp_path).message
    assert str(tiny_onnx()) in refuse(tmp_path).advice
    (tmp_path / "saved_model.pb").write_bytes(b"x")
    assert "SavedModel" in refuse(tmp_path).advice


def test_a_pipe_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "pipe.onnx")
    assert re.search(says("not-regular-file"), refuse(tmp_path / "pipe.onnx").message)


def test_empty(tmp_path):
    (tmp_path / "m.onnx").touch()
    assert "empty" in refuse(tmp_path / "m.onnx").message


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable(tiny_onnx):
    path = tiny_onnx()
    path.chmod(0)
    assert "permissions" in refuse(path).advice


@pytest.mark.parametrize("suffix", [".onnx", ".tflite", ".xml"])
def test_random_bytes_with_a_good_name(tmp_path, suffix):
    path = tmp_path / f"m{suffix}"
    path.write_bytes(np.random.default_rng(0).bytes(5000))
    assert re.search(says("content-not-although-name-suggests"), refuse(path).message)


def test_an_unknown_format_lists_what_is_read(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("nothing to see here")
    error = refuse(path)
    assert re.search(says("unknown-format"), error.message)
    assert error.advice == (
        "formats that edgewise reads: ExecuTorch, GGUF, Keras, ONNX, ONNX Runtime GenAI (genai_config.json), "
        "OpenVINO IR (.xml), OpenVINO GenAI (openvino_model.xml), ONNX Runtime (.ort), Paddle (.pdmodel), "
        "TensorFlow SavedModel, TensorFlow graph (.pb), TFLite, PyTorch export"
    )


def test_every_truncation_of_onnx_is_noticed(tiny_onnx, tmp_path):
    data = tiny_onnx().read_bytes()
    path = tmp_path / "cut.onnx"
    for length in range(1, len(data)):
        path.write_bytes(data[:length])
        refuse(path)


def zip_of(name):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, b"x")
    return buffer.getvalue()


TAR = b"a" * 257 + b"ustar\x0000"
SAFETENSORS = struct.pack("<Q", 20) + b'{"__metadata__":{} }'


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("m.pt", zip_of("archive/data.pkl"), "PyTorch"),
        ("m.onnx", zip_of("m/data.pkl"), "PyTorch"),
        ("m.npz", zip_of("x.npy"), "arrays"),
        ("m.zip", zip_of("m.onnx"), "zip"),
        ("m.pkl", b"\x80\x04\x95abc", "pickle"),
        ("m.h5", b"\x89HDF\r\n\x1a\n" + b"\0" * 50, "HDF5"),
        ("m.safetensors", SAFETENSORS, "safetensors"),
        ("m.mlmodel", b"\x08\x04\x12\x03abc", "Core ML"),
        ("m.pb", b"\x0a\x03abc", "TensorFlow"),
        ("m.ort", b"\x10\0\0\0ORTM", ".ort"),
        ("m.onnx.gz", b"\x1f\x8b\x08\0", "gzip"),
        ("m.tar", TAR, "tar"),
        ("m.npy", b"\x93NUMPY\1\0", "numpy array"),
        ("m.onnx", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "Git LFS"),
        ("m.onnx", b"\n<!DOCTYPE html><html>", "web page"),
        ("m.xml", b"<?xml version='1.0'?><svg/>", "XML, but not"),
        ("m.bin", b"\0" * 64, "weights"),
    ],
)
def test_known_formats_that_are_not_read(tmp_path, name, content, what):
    (tmp_path / name).write_bytes(content)
    assert what in refuse(tmp_path / name).message


def test_the_weights_in_place_of_the_model(tmp_path):
    (tmp_path / "m.xml").write_text("<net/>")
    (tmp_path / "m.bin").write_bytes(b"\0" * 64)
    assert f"edgewise bench {tmp_path}/m.xml" in refuse(tmp_path / "m.bin").advice


def test_external_data_in_place_of_the_model(tiny_onnx, tmp_path):
    tiny_onnx()
    (tmp_path / "tiny.onnx.data").write_bytes(b"\0" * 64)
    assert f"edgewise bench {tmp_path}/tiny.onnx" in refuse(tmp_path / "tiny.onnx.data").advice


def test_fake_models(tmp_path):
    path = tmp_path / "m.fake"
    path.write_text("edgewise-fake 1\n{}")
    signature = open_model(path).signature
    assert signature.inputs == (TensorSpec(name="x", shape=(1, 4), dtype="float32"),)
    assert signature.outputs == (TensorSpec(name="y", shape=(1, 2), dtype="float32"),)
    spec = {"name": "a", "shape": ["batch", None, 3], "dtype": "int8"}
    path.write_text("edgewise-fake 1\n" + json.dumps({"inputs": [spec], "latency_ns": [5]}))
    assert open_model(path).ref.format == "fake"
    assert open_model(path).signature.inputs == (TensorSpec(name="a", shape=("batch", None, 3), dtype="int8"),)


@pytest.mark.parametrize(
    "text",
    [
        "edgewise-fake 2\n{}",
        "edgewise-fake\n{}",
        "edgewise-fake 1\n{",
        "edgewise-fake 1\n[]",
        "edgewise-fake 1\n" + "[" * 100_000,
        'edgewise-fake 1\n{"outputs": []}',
        'edgewise-fake 1\n{"inputs": [{"name": "x", "shape": [-3], "dtype": "int8"}]}',
        'edgewise-fake 1\n{"inputs": [{"name": "x", "shape": [1]}]}',
        'edgewise-fake 1\n{"inputs": [{"name": "x", "shape": [1], "dtype": "int8"},'
        ' {"name": "x", "shape": [1], "dtype": "int8"}]}',
    ],
)
def test_bad_fake_models(tmp_path, text):
    (tmp_path / "m.fake").write_text(text)
    refuse(tmp_path / "m.fake")


def test_importing_imports_no_model_library():
    code = (
        "import sys, edgewise.model.identity, edgewise.workload.inputs;"
        "bad = {'onnx', 'tflite', 'defusedxml', 'numpy', 'google'} & set(sys.modules); assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_weight_file_is_hashed_once_until_it_changes(tmp_path, monkeypatch):
    from edgewise.model import identity

    file = tmp_path / "m.fake"
    reads = []
    monkeypatch.setattr(identity, "_read_files", lambda files: reads.append(files) or ("0", 1))
    file.write_bytes(b"one")
    os.utime(file, ns=(10**18, 10**18))
    assert identity._hash_files([file]) == identity._hash_files([file]) == ("0", 1)
    assert len(reads) == 1
    os.utime(file, ns=(10**18, 10**18 + 1))
    identity._hash_files([file])
    assert len(reads) == 2
    os.utime(file)  # just now: it may change again without a trace
    identity._hash_files([file])
    identity._hash_files([file])
    assert len(reads) == 4


@pytest.mark.parametrize(
    ("shape", "other", "fits"),
    [((None, 3), (2, 3), True), (("batch", 3), (2, 3), True), ((1, 3), (2, 3), False), ((3,), (1, 3), False),
     (None, (1, 3), True), ((2, None), (None, 3), True), ((), (), True)],
)  # fmt: skip
def test_shapes_fit(shape, other, fits):
    from edgewise.model.signature import shapes_fit

    assert shapes_fit(shape, other) is shapes_fit(other, shape) is fits


def test_python_code_needs_the_name_of_a_function(tmp_path):
    (tmp_path / "net.py").write_text("def make():\n    return None\n")
    with pytest.raises(BadModel, match=says("python-code-no-function-named", name="net.py")) as caught:
        open_model(tmp_path / "net.py")
    assert caught.value.advice.endswith("net.py:FUNCTION")


def test_random_bytes_beside_an_onnx_file_are_no_weights_of_a_keras_file(tmp_path):
    (tmp_path / "net.onnx").write_bytes(b"\x08\x07")
    (tmp_path / "net.keras").write_bytes(bytes(range(255, 0, -1)))
    with pytest.raises(BadModel, match=says("content-not-although-name-suggests", expected="Keras")):
        open_model(tmp_path / "net.keras")
