"""What is written of the chosen variant: files that load where they lie, names that tell variants apart, a line to type."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from edgewise.evaluating.instructions import Instructions
from edgewise.model.identity import open_model
from edgewise.optimizing.base import Capabilities, Recipe
from edgewise.optimizing.commission import Commission
from edgewise.optimizing.conclusion import _command, _copy
from edgewise.optimizing.planning import Attempt
from edgewise.optimizing.state import Entry, State
from edgewise.optimizing.variant import ORIGINAL, AppliedPass, Candidate
from edgewise.record import RuntimeSpec
from tiny_models import write_tiny_onnx


def candidate(path, *passes, runtime="onnxruntime", name="v"):
    return Candidate(
        id=name,
        parent=ORIGINAL,
        runtime=RuntimeSpec(name=runtime),
        model=open_model(path).ref,
        passes=tuple(AppliedPass(name=one, label=label, keep_float=kept) for one, label, kept in passes),
    )


def commission(folder, model="net.onnx", **settings):
    return Commission(model=str(model), format="onnx", folder=folder, instructions=Instructions(), **settings)


def external(path: Path, location: str) -> Path:
    """A tiny model with its weights in another file."""
    import onnx

    plain = onnx.load(write_tiny_onnx(path.with_name("plain.onnx")))
    (path.parent / location).parent.mkdir(parents=True, exist_ok=True)
    onnx.save_model(plain, path, save_as_external_data=True, location=location, size_threshold=0)
    return path


@pytest.mark.parametrize("location", ["weights.bin", "net.bin", "net.onnx.data", "deep/er/weights.bin"])
def test_weights_beside_a_model_are_found_beside_its_copy(tmp_path, location):
    source = tmp_path / "made"
    source.mkdir()
    path = external(source / "net.onnx", location)
    out = tmp_path / "out"
    out.mkdir()
    (out / location).parent.mkdir(parents=True, exist_ok=True)
    (out / location).write_bytes(b"somebody else's")
    file = _copy(candidate(path, ("ort-static", "", ())), commission(out))
    assert open_model(file).ref.sha256 == open_model(path).ref.sha256
    assert (out / location).read_bytes() == b"somebody else's"


def test_a_model_in_one_file_lies_in_the_folder_under_a_name_that_tells_its_passes(tmp_path):
    path = write_tiny_onnx(tmp_path / "model.onnx")
    passes = (("onnx-simplify", "", ()), ("ort-static", "percentile", ()), ("tune", "onnxruntime, 2 threads", ()))
    file = _copy(candidate(path, *passes), commission(tmp_path))
    assert file == tmp_path / "net.onnx-simplify-ort-static.onnx"


def test_the_line_to_type_has_every_pass_recipe_and_spared_layer(tmp_path):
    path = write_tiny_onnx(tmp_path / "model.onnx")
    one = candidate(path, ("onnx-simplify", "", ()), ("ort-static", "per-tensor entropy", ("/a b/Conv", "/c")))
    asked = commission(tmp_path, words=("my net.onnx", "--data", "d"), also=("my net.tflite",))
    words = shlex.split(_command(asked, one, one.model, engine="onnxruntime"))
    assert words[:7] == ["edgewise", "optimize", "my net.onnx", "--data", "d", "--also", "my net.tflite"]
    assert words[words.index("--passes") + 1] == "onnx-simplify,ort-static:per-tensor entropy"
    assert [words[at + 1] for at, word in enumerate(words) if word == "--keep-float"] == ["/a b/Conv", "/c"]


# --- names of variants ---


class Quantiser:
    name = "nncf-ptq"
    capabilities = Capabilities(kind="quantisation", reads=("onnx", "openvino"), writes="")


class Dynamic(Quantiser):
    name = "ort-dynamic"


def attempt(parent, one=Quantiser, label=""):
    return Attempt(one=one(), recipe=Recipe(label=label), parent=parent, engines=("openvino",))


def test_the_same_pass_on_two_files_has_two_names(tmp_path):
    path = write_tiny_onnx(tmp_path / "model.onnx")
    state = State(shapes={})
    parents = {
        ORIGINAL: (),
        "onnx-simplify @ onnxruntime": (("onnx-simplify", "", ()),),
        "onnx-to-openvino @ openvino": (("onnx-to-openvino", "", ()),),
        "onnx-prune 30 % @ onnxruntime": (("onnx-simplify", "", ()), ("onnx-prune", "30 %", ())),
    }
    for name, passes in parents.items():
        state.entries[name] = Entry(candidate=candidate(path, *passes, name=name))
    # The search starts from one file of each format: the original or its simplified form, and the converted one.
    for first in (ORIGINAL, "onnx-simplify @ onnxruntime"):
        bases = (first, "onnx-to-openvino @ openvino", "onnx-prune 30 % @ onnxruntime")
        names = [
            state.name(attempt(base, one, label), "openvino", suffix=suffix)
            for base in bases
            for one in (Quantiser, Dynamic)
            for label in ("", "thorough")
            for suffix in ("", " sparing 1")
        ]
        assert len(set(names)) == len(names) == 24
    assert state.name(attempt(ORIGINAL), "openvino") == "nncf-ptq @ openvino"
    added = state.add(attempt("onnx-prune 30 % @ onnxruntime"), "openvino")
    assert added.candidate.id == "onnx-prune 30 % + nncf-ptq @ openvino"
