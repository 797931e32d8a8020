"""ONNX to TFLite by onnx2tf: where the program comes from, what it is asked for, channels last, and who names it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import edgewise
from edgewise.converting import checked, onnx_tflite
from edgewise.converting.agreement import compare_tensor, match_tensors
from edgewise.converting.base import ConvertOptions
from edgewise.converting.losses import _compare
from edgewise.converting.paths import SEPARATE, find_path, paths_from, reachable_from
from edgewise.errors import BadInput, BadModel, Unavailable
from edgewise.model.signature import TensorSpec
from edgewise.run.facts import DOWNLOADS
from edgewise.verbs.convert.request import ConvertRequest
from messages import has, says

DATA = Path(edgewise.__file__).parent / "data"
FAKE = """#!/bin/sh
if [ "$1" = -V ]; then echo 2.6.9; exit; fi
echo "$@" > "$RECORD"
if [ -n "$FAILS" ]; then printf 'loading\\n\\033[31mERROR:\\033[0m Strange is not supported\\nbye\\n' >&2; exit 1; fi
echo simplified > "$2"
mkdir "$4" && echo flatbuffer > "$4/net_float32.tflite"
"""
"""Writes its arguments down, and overwrites the file that it reads, as onnx2tf does."""


@pytest.fixture
def program(tmp_path, monkeypatch):
    file = tmp_path / "bin" / "onnx2tf"
    file.parent.mkdir()
    file.write_text(FAKE)
    file.chmod(0o755)
    monkeypatch.setenv("RECORD", str(tmp_path / "record"))
    return file


@pytest.fixture
def network(tmp_path):
    return Path(shutil.copy(DATA / "digits_cnn.onnx", tmp_path / "net.onnx"))


def test_the_program_on_path_comes_before_an_environment(program, monkeypatch):
    monkeypatch.setattr(onnx_tflite, "python_of", lambda *words, **more: pytest.fail("an environment was made"))
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    assert onnx_tflite.find_program() == str(program)


def test_without_it_an_environment_is_made_of_one_version_and_its_size_is_told(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(onnx_tflite.shutil, "which", lambda name, **more: None)
    monkeypatch.setattr(
        onnx_tflite, "python_of", lambda name, **more: asked.append((name, more)) or "/cache/x/bin/python"
    )
    assert onnx_tflite.find_program() == "/cache/x/bin/onnx2tf"
    older = sys.version_info < (3, 12)
    assert asked == [("onnx2tf==2.6.9", {"any_python": older, "size": "170 MB"})]


def test_an_environment_that_can_not_be_made_leaves_the_program_of_ones_own(monkeypatch):
    def fail(*words, **more):
        raise Unavailable("no Python environment can be made: the package index can't be reached")

    monkeypatch.setattr(onnx_tflite.shutil, "which", lambda name, **more: None)
    monkeypatch.setattr(onnx_tflite, "python_of", fail)
    with pytest.raises(Unavailable, match="package index can't be reached") as caught:
        onnx_tflite.find_program()
    assert "onnx2tf of your own on PATH" in caught.value.advice


def test_open_sizes_are_given_pictures_get_channels_last_and_the_source_stays(network, program, tmp_path):
    source, path = network.read_bytes(), tmp_path / "out" / "net.tflite"
    path.parent.mkdir()
    told = onnx_tflite.write_tflite(network, path, ConvertOptions(program=str(program)))
    assert told == "version 2.6.9" and path.read_text() == "flatbuffer\n" and list(path.parent.iterdir()) == [path]
    assert network.read_bytes() == source
    assert (tmp_path / "record").read_text().split() == ["-i", "net.onnx", "-o", "made", "-ois", "image:1,1,32,32"]


def test_inputs_that_are_no_pictures_keep_their_layout_and_unknown_sizes_must_be_given():
    def settings(*shapes, **given):
        specs = [TensorSpec(name=f"x{at}", shape=shape, dtype="float32") for at, shape in enumerate(shapes)]
        return onnx_tflite._settings(specs, ConvertOptions(shapes=given))

    assert settings((1, 3, 8, 10)) == []
    assert settings((1, 8, 10, 3), (1, 6, 50), (1, 8, 8, 8)) == ["-kat", "x0", "x1", "x2"]
    assert settings((1, 6, None), x0=(1, 6, 40)) == ["-ois", "x0:1,6,40", "-kat", "x0"]
    with pytest.raises(BadInput, match="input x0 has open dimensions") as caught:
        settings((1, 3, None, None))
    assert "--shape x0=1x3x224x224" in caught.value.advice


def test_what_it_can_not_convert_is_told_in_its_words_and_nothing_stays(network, program, tmp_path, monkeypatch):
    monkeypatch.setenv("FAILS", "1")
    path = tmp_path / "out" / "net.tflite"
    path.parent.mkdir()
    with pytest.raises(Unavailable, match="onnx2tf can't write TFLite: RuntimeError: ERROR: Strange is not supported"):
        onnx_tflite.write_tflite(network, path, ConvertOptions(program=str(program)))
    assert not list(path.parent.iterdir())
    with pytest.raises(Unavailable, match="a function gives the network") as caught:
        onnx_tflite.write_tflite(network, path, ConvertOptions())
    assert ".onnx file" in caught.value.advice


def test_only_who_asks_for_tflite_of_an_onnx_file_gets_it():
    """Nothing is downloaded to measure a network, or on the way from another format."""
    assert [step.tool for step in find_path("onnx", "tflite", name="net.onnx")] == ["onnx2tf"]
    assert "tflite" not in reachable_from("onnx") and not paths_from("onnx")["tflite"]
    with pytest.raises((BadInput, Unavailable)):
        find_path("paddle", "tflite", name="net.pdmodel")
    assert ConvertRequest(model="net.onnx", to="litert").target_word == "tflite"


def test_the_program_is_looked_for_after_what_may_refuse(network, tmp_path, monkeypatch):
    monkeypatch.setattr(checked, "find_program", lambda: pytest.fail("something was downloaded"))
    (tmp_path / "there.tflite").write_text("mine")
    with pytest.raises(BadInput, match=has("there.tflite")):
        edgewise.convert(network, to="tflite", output=tmp_path / "there.tflite")


def test_tensors_with_channels_last_are_matched_compared_and_told():
    one, two = TensorSpec(name="a", shape=("N", 3, 8, 10), dtype="float32"), (1, 8, 10, 3)
    assert match_tensors(["a"], [(1, 3, 8, 10)], [TensorSpec(name="b", shape=two, dtype="float32")]) == [0]
    # Exact shapes come first: these two are not the source's with channels last.
    pair = [TensorSpec(name=name, shape=shape, dtype="float32") for name, shape in (("p", (1, 4, 3)), ("q", (1, 3, 4)))]
    assert match_tensors(["a", "b"], [(1, 3, 4), (1, 4, 3)], pair) == [1, 0]
    values = np.arange(240, dtype="float32").reshape(1, 3, 8, 10)
    moved = compare_tensor("a", [values], [np.moveaxis(values, 1, -1)], reduced="")
    assert moved.close and moved.max_abs == 0
    assert not compare_tensor("a", [values], [values.reshape(two)], reduced="").close
    assert _compare("input", [one], [TensorSpec(name="a", shape=two, dtype="float32")]) == [
        "input a has its channels last: N×3×8×10 → 1×8×10×3"
    ]


@pytest.mark.parametrize("device", ["nucleo-l4r5zi", "cortex-m4"])
def test_estimate_and_optimize_name_the_commands_that_lead_on(network, monkeypatch, device):
    monkeypatch.chdir(network.parent)
    with pytest.raises(BadModel, match=says("only-tflite-files-can-lowered", name="net.onnx")) as caught:
        edgewise.estimate("net.onnx", device)
    first = "edgewise convert net.onnx --to tflite, then edgewise optimize net.tflite"
    assert caught.value.advice == f"{first} --data DATA -d {device}"
    with pytest.raises(BadModel, match="convert it first") as caught:
        edgewise.optimize("net.onnx", data="my photos", max_accuracy_drop="2%", device=device)
    assert caught.value.advice == f"{first} --data 'my photos' --max-accuracy-drop 2% -d {device}"
    with pytest.raises(BadInput, match="has several steps"):  # and no command that repeats them
        edgewise.optimize("net.onnx", data="my photos", prepare=["pad=32,scale=1/255"], device=device)


def test_what_errors_promise_of_a_conversion_is_what_the_converters_do():
    assert set(DOWNLOADS) == {(step.reads, step.to) for step in SEPARATE}
