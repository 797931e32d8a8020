"""Formats that only engines take apart, and models that functions make, from the file to the measured run."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

from edgewise.cli.main import run
from edgewise.errors import BadModel
from edgewise.model.identity import open_model, read_graph
from edgewise.model.signature import TensorSpec
from edgewise.runtime.base import LoadOptions, runtimes
from messages import has, says
from protobuf_writer import paddle_model, saved_model, tensorflow_graph

pytestmark = pytest.mark.engine


@pytest.fixture(autouse=True)
def private_store(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGEWISE_STORE", f"sqlite:///{tmp_path}/store.db")


def make_ort(tmp_path, tiny_onnx):
    pytest.importorskip("onnxruntime")
    folder = tmp_path / "ort"
    folder.mkdir()
    source = shutil.copy(tiny_onnx(batch="n"), folder / "net.onnx")
    converter = [sys.executable, "-m", "onnxruntime.tools.convert_onnx_models_to_ort", str(source)]
    subprocess.run([*converter, "--optimization_style", "Fixed"], check=True, capture_output=True)
    return folder / "net.ort"


def make_pb(tmp_path, tiny_onnx):
    path = tmp_path / "graph.pb"
    path.write_bytes(tensorflow_graph())
    return path


MAKERS = {
    "ort": (make_ort, "onnxruntime"),
    "tensorflow": (make_pb, "openvino"),
    "savedmodel": (lambda tmp_path, tiny_onnx: saved_model(tmp_path / "saved"), "openvino"),
    "paddle": (lambda tmp_path, tiny_onnx: paddle_model(tmp_path / "net.pdmodel"), "openvino"),
}


@pytest.fixture(params=MAKERS)
def case(request, tmp_path, tiny_onnx, monkeypatch):
    """(format, path, engine); commands write into the test's own folder."""
    monkeypatch.chdir(tmp_path)
    make, engine = MAKERS[request.param]
    if not (available := runtimes().get(engine).availability()):
        pytest.skip(f"{engine}: {available.reason}")
    return request.param, make(tmp_path, tiny_onnx), engine


def test_bench_runs_it_and_every_other_command_says_what_to_do(case, capsys):
    form, path, engine = case
    assert (
        run(["bench", str(path), "-r", engine, "--iterations", "5", "--sessions", "1", "--no-meters", "--json", "-q"])
        == 0
    )
    (record,) = json.loads(capsys.readouterr().out)["runs"]
    job = record["job"]
    assert (job["model"]["format"], job["model"]["name"]) == (form, path.name)
    assert (job["runtime"]["name"], record["status"]) == (engine, "done")
    assert [spec["shape"] for spec in job["workload"]["inputs"]] == [[1, 4]]
    for name in ("inspect",) if form == "savedmodel" else ("inspect", "optimize"):
        assert run([name, str(path)]) == 2
        message = capsys.readouterr().err
        assert re.search(says("edgewise-cant-read-layers-format"), message)
        assert (".onnx file that it was made from" if form == "ort" else f"edgewise convert {path} -o ") in message


@pytest.mark.long
def test_profile_measures_it_and_says_why_there_are_no_layers(tmp_path, capsys):
    pytest.importorskip("openvino")
    words = [
        "profile",
        str(make_pb(tmp_path, None)),
        "-r",
        "openvino",
        "--iterations",
        "10",
        "--sessions",
        "1",
        "--json",
        "-q",
    ]
    assert run(words) == 3
    (record,) = json.loads(capsys.readouterr().out)["runs"]
    assert record["status"] == "done"
    assert (
        "can't read the layers of the format TensorFlow graph (.pb); edgewise convert "
        in record["profile_absent_because"]
    )


def test_what_it_computes(case):
    form, path, engine = case
    model = open_model(path)
    (spec,) = model.signature.inputs
    assert (spec.shape[1], spec.dtype, len(model.signature.outputs)) == (4, "float32", 1)
    runtime = runtimes().get(engine)
    session = runtime.load(model.files[0], LoadOptions(provider="cpu", shapes={spec.name: (3, 4)}))
    session.bind([np.full((3, 4), 0.5, np.float32)])
    session.invoke()
    (output,) = session.read_outputs()
    assert output.shape == (3, 2)
    if form != "ort":
        assert np.array_equal(output, np.full((3, 2), 2.0))


def test_names_and_open_sizes_are_the_engines(tmp_path):
    pytest.importorskip("openvino")
    signature = open_model(saved_model(tmp_path / "saved")).signature
    assert signature.inputs == (TensorSpec(name="image", shape=(None, 4), dtype="float32"),)
    assert signature.outputs == (TensorSpec(name="scores", shape=(None, 2), dtype="float32"),)


def test_the_content_decides_not_the_name(tmp_path, tiny_onnx):
    ort = make_ort(tmp_path, tiny_onnx)
    for source, name in ((ort, "model.bin"), (make_pb(tmp_path, None), "graph")):
        renamed = shutil.copy(source, tmp_path / name)
        assert open_model(renamed).signature == open_model(source).signature
    assert run(["bench", str(tmp_path / "model.bin"), "--iterations", "5", "--sessions", "1", "--no-meters", "-q"]) == 0


def test_a_saved_model_is_all_of_its_files(tmp_path):
    pytest.importorskip("openvino")
    folder = saved_model(tmp_path / "saved")
    alone = open_model(folder).ref
    (folder / "variables").mkdir()
    (folder / "variables" / "variables.index").write_bytes(b"")
    (folder / "variables" / "variables.data-00000-of-00001").write_bytes(b"1234")
    whole = open_model(folder)
    assert whole.ref.size_bytes == alone.size_bytes + 4
    assert whole.ref.sha256 != alone.sha256
    assert open_model(folder / "saved_model.pb").ref == whole.ref
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"5678")
    (folder / "assets").mkdir()
    (folder / "assets" / "words.txt").symlink_to(elsewhere)
    with pytest.raises(BadModel, match=says("link-file-outside-folder", where=has("assets/words.txt"))):
        open_model(folder)


@pytest.mark.parametrize("form", ["tensorflow", "paddle", "ort"])
def test_damaged_files_are_one_clear_error(tmp_path, tiny_onnx, form):
    make, engine = MAKERS[form]
    pytest.importorskip(engine)
    path = make(tmp_path, tiny_onnx)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 2 // 3])
    with pytest.raises(BadModel, match=says("cant-read-in-engine-formats", name=path.name)):
        open_model(path)
    with pytest.raises(BadModel):
        read_graph(path)


def test_paddle_without_its_weights(tmp_path):
    pytest.importorskip("openvino")
    path = paddle_model(tmp_path / "net.pdmodel")
    weights = path.with_suffix(".pdiparams")
    with pytest.raises(BadModel, match="the weights of a model") as caught:
        open_model(weights)
    assert f"edgewise bench {path}" in caught.value.advice
    weights.unlink()
    with pytest.raises(BadModel, match=says("cant-read-in-engine-formats", name="net.pdmodel")) as caught:
        open_model(path)
    assert caught.value.advice == "OpenVINO reads NAME.pdmodel with NAME.pdiparams beside it"
    with pytest.raises(BadModel, match=says("cant-read-in-engine-formats", title="OpenVINO", name=has("net"))):
        open_model(path.rename(tmp_path / "net.dat"))


FUNCTIONS = """
import onnx

def make():
    return onnx.load({path!r})

def place():
    return {path!r}
"""


def test_bench_and_compare_take_functions(tmp_path, tiny_onnx, capsys, monkeypatch):
    pytest.importorskip("onnxruntime")
    path = tiny_onnx()
    (tmp_path / "nets.py").write_text(FUNCTIONS.format(path=str(path)))
    monkeypatch.chdir(tmp_path)
    quick = ["--iterations", "5", "--sessions", "1", "--no-meters", "-r", "onnxruntime", "--json", "-q"]
    assert run(["bench", "nets.py:make", str(path), "nets.py:place", *quick]) == 0
    records = json.loads(capsys.readouterr().out)["runs"]
    assert [record["job"]["model"]["name"] for record in records] == ["nets-make.onnx", "tiny.onnx", "tiny.onnx"]
    assert {record["status"] for record in records} == {"done"}
    words = ["made=nets.py:make,threads=1", "nets.py:place", "--rounds", "1", "--time-budget", "600s", "--json", "-q"]
    assert run(["compare", *words]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {each["a"] for each in document["comparisons"]} == {"made"}
    assert run(["compare", "none.py:make", str(path)]) == 2
    assert "no such file: none.py" in capsys.readouterr().err
