"""The program beside a chosen file gives what the search's own engine gave for the same sample."""

from __future__ import annotations

import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from edgewise.data import path as bundled
from edgewise.evaluating.dataset import Sample
from edgewise.evaluating.formats.images import decode_image
from edgewise.evaluating.instructions import Instructions, find_instructions, write_instructions
from edgewise.evaluating.preparing import Preparer, prepare_as_written
from edgewise.optimizing.loader import write_loader
from edgewise.record import InputSpec, Scenario, Stopping, TargetSpec
from edgewise.run.plan import Axes, make_plan

pytestmark = pytest.mark.engine


def picture_network(folder: Path) -> Path:
    """Pictures of 32 by 24 pixels, channels first, of any number at once."""
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["image", "w"], ["features"], pads=[1, 1, 1, 1]),
         helper.make_node("Relu", ["features"], ["maps"])],
        "pictures",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 3, 24, 32])],
        [helper.make_tensor_value_info("maps", TensorProto.FLOAT, ["n", 4, 24, 32])],
        [numpy_helper.from_array(rng.normal(size=(4, 3, 3, 3)).astype(np.float32), "w")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "net.onnx")
    return folder / "net.onnx"


def job_of(model: Path, runtime: str, **settings):
    axes = Axes(runtimes=(runtime,), threads=(2,), **settings)
    return make_plan([model], axes=axes, scenario=Scenario(), stopping=Stopping(), target=TargetSpec(), seed=0).jobs[0]


def run(loader: Path, sample: Path) -> str:
    done = subprocess.run([sys.executable, str(loader), str(sample)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def reference(model: Path, arrays):
    import onnxruntime

    return onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"]).run(None, {"image": arrays[0]})


def shown(outputs):
    return [f"{output.dtype} {list(output.shape)}" for output in outputs]


def values_of(text: str) -> list[float]:
    line = text.partition("]")[2].strip().partition("...")[0]  # of many values numpy prints the first and the last
    return [float(word) for word in line.strip("[]\n ").split()]


@pytest.mark.parametrize("runtime", ["onnxruntime", "openvino"])
@pytest.mark.parametrize(
    "words",
    [
        ["resize=24,32", "scale=1/255", "mean=0.485,0.456,0.406", "std=0.229,0.224,0.225", "layout=nchw"],
        # What takes more than a few lines is left to edgewise.
        ["letterbox=24,32", "layout=nchw", "scale=1/127.5", "offset=-1"],
        ["resize=24,32", "scale=1/255"],
    ],
)
@pytest.mark.long
def test_a_picture_is_prepared_and_run_as_it_was(tmp_path, runtime, words):
    pytest.importorskip(runtime)
    image = pytest.importorskip("PIL.Image")
    model = picture_network(tmp_path)
    instructions = find_instructions(model, form="onnx", flags=words)
    write_instructions(instructions, tmp_path / "net.onnx.yaml")
    job = job_of(model, runtime)
    loader = write_loader(model, job, instructions, kind="image", title='Runs "it".')
    assert loader == tmp_path / "net.onnx.load.py"
    text = loader.read_text(encoding="utf-8")
    assert ("prepare_as_written" in text) == (words[0].startswith("letterbox"))
    assert ("and edgewise (for the preparation of samples)" in text) == ("prepare_as_written" in text)
    assert "2" in text and ("edgewise." in text) == ("prepare_as_written" in text)
    pixels = np.random.default_rng(1).integers(0, 256, (60, 50, 3), dtype=np.uint8)
    image.fromarray(pixels).save(tmp_path / "sample.png")
    arrays = prepare_as_written(str(model), pixels, kind="image", shapes={"image": (1, 3, 24, 32)})
    wanted = reference(model, arrays)
    out = run(loader, tmp_path / "sample.png")
    assert out.startswith(shown(wanted)[0])
    np.testing.assert_allclose(values_of(out), wanted[0].reshape(-1)[: len(values_of(out))], rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize("mode", ["L", "LA", "1", "RGB", "P", "RGBA", "I;16"])
@pytest.mark.parametrize("words", [["resize=24,32", "scale=1/255"], ["pad=32", "scale=1/255", "layout=auto"]])
@pytest.mark.parametrize("channels", [1, 3])
def test_a_picture_of_any_colours_becomes_what_evaluate_feeds(tmp_path, mode, words, channels):
    """The arrays of the program beside the file are those of the evaluation: grey becomes RGB, alpha is dropped."""
    pytest.importorskip("onnxruntime")
    image = pytest.importorskip("PIL.Image")
    size = [32, 32] if words[0] == "pad=32" else [24, 32]
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper

    shape = [1, *size, channels]
    graph = helper.make_graph(
        [helper.make_node("Relu", ["image"], ["out"])], "g",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, shape)],
    )  # fmt: skip
    model = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
    instructions = find_instructions(model, form="onnx", flags=words)
    write_instructions(instructions, tmp_path / "net.onnx.yaml")
    loader = write_loader(model, job_of(model, "onnxruntime"), instructions, kind="image", title="It.")
    rng = np.random.default_rng(1)
    deep = image.fromarray(rng.integers(0, 65536, (28, 28), dtype=np.uint16))
    picture = image.fromarray(rng.integers(0, 256, (28, 28, 4), dtype=np.uint8))
    (deep if mode == "I;16" else picture.convert(mode)).save(tmp_path / "sample.png")
    spec = InputSpec(name="image", shape=tuple(shape), dtype="float32")
    preparer = Preparer(instructions, specs=[spec], quantizations=[None], kind="image")
    decoded = decode_image(tmp_path / "sample.png", "sample")
    wanted = preparer.prepare(Sample(index=0, name="sample", data=decoded.data, stored=decoded.stored))[0]
    program = runpy.run_path(str(loader))
    made = program["prepare"](program["read"](str(tmp_path / "sample.png")))
    assert [each.dtype for each in made] == [np.float32]
    np.testing.assert_array_equal(made[0], wanted[0])


def test_the_program_says_how_it_is_called(tmp_path):
    pytest.importorskip("onnxruntime")
    model = picture_network(tmp_path)
    job = job_of(model, "onnxruntime", shapes={"image": (1, 3, 24, 32)})
    loader = write_loader(model, job, find_instructions(model, form="onnx"), kind="image", title="It.")
    assert "Needs the Python packages onnxruntime, numpy and Pillow." in loader.read_text(encoding="utf-8")
    done = subprocess.run([sys.executable, str(loader)], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr == f"usage: python {loader} SAMPLE; SAMPLE is a picture\n"


@pytest.mark.parametrize("provider", ["interpreter", "compiled"])
def test_an_array_in_litert(tmp_path, provider):
    pytest.importorskip("ai_edge_litert")
    model = tmp_path / "digits.tflite"
    shutil.copyfile(bundled("digits_cnn.tflite"), model)
    instructions = find_instructions(model, form="tflite", flags=["scale=1/255"])
    loader = write_loader(model, job_of(model, f"litert/{provider}"), instructions, kind="array", title="It.")
    with np.load(bundled("digits_test.npz")) as data:
        pixels, label = data["x"][0], int(data["y"][0])
    np.save(tmp_path / "sample.npy", pixels)
    assert "edgewise." not in loader.read_text(encoding="utf-8")
    out = run(loader, tmp_path / "sample.npy")
    assert out.startswith("float32 [1, 10]")
    assert label >= 8 or int(np.argmax(values_of(out))) == label


def test_a_name_is_never_code(tmp_path):
    pytest.importorskip("onnxruntime")
    hostile = tmp_path / 'net"""\nraise SystemExit(3)\n"\\.onnx'
    shutil.move(picture_network(tmp_path), hostile)
    np.save(tmp_path / "sample.npy", np.zeros((1, 3, 24, 32), np.float32))
    job = job_of(hostile, "onnxruntime", shapes={"image": (1, 3, 24, 32)})
    instructions = find_instructions(hostile, form="onnx")
    loader = write_loader(hostile, job, instructions, kind=None, title=f"Loads {hostile.name}")
    assert "float32 [1, 4, 24, 32]" in run(loader, tmp_path / "sample.npy")


def test_there_is_no_program_for_an_engine_that_is_not_known(tmp_path):
    from dataclasses import replace

    model = picture_network(tmp_path)
    job = job_of(model, "onnxruntime")
    job = replace(job, runtime=replace(job.runtime, name="somebody's"))
    assert write_loader(model, job, find_instructions(model, form="onnx"), kind=None, title="") is None


def test_the_classes_with_the_highest_scores_are_printed_by_their_names(tmp_path):
    """A program beside a classifier printed ten scores, though the file beside it names the classes."""
    pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper

    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["scores"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 4])],
    )  # fmt: skip
    model = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
    np.save(tmp_path / "sample.npy", np.array([[0.5, 8.0, -1.0, 2.0]], np.float32))
    job, names = job_of(model, "onnxruntime"), ("cat", 'it\'s a "dog"', "a\\b", "bird")
    for task, last in (("classification", ['it\'s a "dog": 8.0', "bird: 2.0", "cat: 0.5"]), ("regression", [])):
        loader = write_loader(model, job, Instructions(task=task, classes=names), kind="array", title="It.")
        assert run(loader, tmp_path / "sample.npy").splitlines()[1:] == last
