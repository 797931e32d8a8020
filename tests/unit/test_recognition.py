"""What can't be run here: what it is, what reads it, and a next command that can be pasted."""

from __future__ import annotations

import ast
import json
import re
import shlex
import struct
import zipfile
from itertools import pairwise

import pytest

from edgewise.errors import BadInput, BadModel, Unavailable
from edgewise.model.identity import open_model
from edgewise.record import Scenario, Stopping, TargetSpec
from edgewise.registry import Availability
from edgewise.run.plan import Axes, make_plan
from edgewise.runtime.openvino import OpenVino
from edgewise.runtime.tensorflow import TensorFlow
from exported_programs import small_network, write_program
from messages import has, is_in, says, wording
from protobuf_writer import message, tensorflow_graph


def refuse(path):
    with pytest.raises(BadModel) as caught:
        open_model(path)
    return caught.value


def commands_of(advice):
    """The shell's words of an advice that is a command line; Python programs in it must be Python."""
    words = shlex.split(advice, comments=True)
    for flag, program in pairwise(words):
        if flag == "-c":
            ast.parse(program)
    return words


def archive(path, *names, **contents):
    with zipfile.ZipFile(path, "w") as file:
        for name in names:
            file.writestr(name, contents.get("data", b"x"))
    return path


def hugging_face(folder, *names):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"architectures": ["BertModel"], "model_type": "bert"}))
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(struct.pack("<Q", 20) + b'{"__metadata__":{} }')
    return folder


def test_torchscript_is_told_from_a_checkpoint(tmp_path):
    script = archive(tmp_path / "net 1.pt", "net/data.pkl", "net/code/__torch__.py", "net/constants.pkl", "net/version")
    error = refuse(script)
    assert "a TorchScript program; PyTorch reads it" in error.message
    words = commands_of(error.advice)
    assert f'torch.jit.load("{script}")' in " ".join(words)
    assert words[-3:] == ["edgewise", "bench", "net 1.onnx"]
    error = refuse(archive(tmp_path / "weights.pt", "w/data.pkl", "w/byteorder", "w/data/0"))
    assert "PyTorch checkpoint" in error.message
    assert commands_of(error.advice)[:3] == ["edgewise", "bench", "net.py:make"]
    error = refuse(archive(tmp_path / "yolo.pt", "y/data.pkl", data=b"\x80\x02cultralytics.nn.tasks\nDetectionModel"))
    assert re.search(says("yolo-export-model-format-onnx"), error.advice) and commands_of(error.advice)[-1] == str(
        tmp_path / "yolo.onnx"
    )


def test_a_converted_file_never_takes_the_place_of_its_source(tmp_path):
    error = refuse(archive(tmp_path / "net.onnx", "net/data.pkl", "net/code/__torch__.py"))
    assert commands_of(error.advice)[-1] == "net-exported.onnx"


def test_hugging_face_folders_and_their_files(tmp_path):
    folder = hugging_face(tmp_path / "bert", "model.safetensors")
    for path in (folder, folder / "model.safetensors", folder / "config.json"):
        error = refuse(path)
        assert "Hugging Face model folder" in error.message
        assert f"optimum-cli export onnx --model {folder} bert-onnx" in error.advice
        assert commands_of(error.advice)[-1] == "bert-onnx/model.onnx"
    ready = hugging_face(tmp_path / "ready", "onnx/model.onnx")
    assert refuse(ready).advice == f"edgewise bench {ready}/onnx/model.onnx"
    alone = tmp_path / "alone.safetensors"
    alone.write_bytes((folder / "model.safetensors").read_bytes())
    assert re.search(says("edgewise-bench-net-py-make"), refuse(alone).advice)


@pytest.mark.parametrize(
    ("name", "content", "what", "command"),
    [
        (
            "m.h5",
            b"\x89HDF\r\n\x1a\n" + b"\0" * 50,
            says("reads-edgewise-does-not", reader=has("Keras")),
            "keras.saving.load_model",
        ),
        ("m.engine", b"ftrt" + b"\0" * 50, "a TensorRT engine; TensorRT", says("trtexec-loadengine-model-built")),
        ("m.plan", b"\1" * 50, "a TensorRT engine", says("trtexec-loadengine-model-built")),
        (
            "no-suffix",
            message((1, 5), (2, message((1, message((1, "image")))))),
            "a Core ML model; Core ML",
            "onnxruntime/coreml",
        ),
        (
            "inference.json",
            b'{"base_code":{"magic":"pir","version":1}}',
            says("reads-edgewise-does-not", reader=has("PaddlePaddle")),
            "paddle2onnx ",
        ),
    ],
)
def test_other_formats(tmp_path, name, content, what, command):
    (tmp_path / name).write_bytes(content)
    error = refuse(tmp_path / name)
    assert is_in(what, error.message)
    assert re.search(command, error.advice)
    commands_of(error.advice)


def test_folders_of_core_ml_and_paddle(tmp_path):
    package = tmp_path / "net.mlpackage"
    package.mkdir()
    assert "Core ML" in refuse(package).message
    paddle = tmp_path / "paddle"
    paddle.mkdir()
    (paddle / "inference.json").write_text('{"base_code": {"magic": "pir"}}')
    (paddle / "inference.pdiparams").write_bytes(b"\0" * 8)
    assert f"--model_dir {paddle} --model_filename inference.json" in refuse(paddle).advice
    assert f"edgewise bench {paddle}/inference.json" in refuse(paddle / "inference.pdiparams").advice


def test_what_an_engine_does_not_read_gets_its_conversion(tmp_path):
    path = write_program(tmp_path / "net.pt2", small_network())
    axes = Axes(runtimes=("openvino",))
    with pytest.raises(
        BadInput, match=says("none-requested-runtimes-can-run", name="net.pt2", format="torch")
    ) as caught:
        make_plan([path], axes=axes, scenario=Scenario(), stopping=Stopping(), target=TargetSpec())
    assert caught.value.message.endswith(wording("cant-read-format", deaf="openvino"))
    assert caught.value.advice.endswith(f"edgewise convert {path} -o net.onnx && edgewise bench net.onnx")


def test_without_its_engine_the_advice_is_to_install_it(tmp_path, monkeypatch):
    for engine, hint in ((OpenVino, "pip install it"), (TensorFlow, "pip install the other")):
        monkeypatch.setattr(engine, "availability", lambda self, hint=hint: Availability(False, "gone", hint))
    (tmp_path / "m.pb").write_bytes(tensorflow_graph())
    with pytest.raises(
        Unavailable, match=says("no-installed-engine-reads-format", title=has("TensorFlow graph"))
    ) as caught:
        open_model(tmp_path / "m.pb")
    assert caught.value.advice == "pip install it or pip install the other"
