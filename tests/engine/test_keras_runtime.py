"""The runtime keras on whichever backend is installed: what it runs, refuses and times."""

from __future__ import annotations

import json
import os
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import edgewise
from edgewise.cli.main import run
from edgewise.registry import Availability
from edgewise.runtime.base import CannotProfile, InvalidModel, LoadOptions, UnsupportedModel
from edgewise.runtime.keras import Keras, _layers_of
from edgewise.runtime.tensorflow import set_threads
from edgewise.testing import check_runtime
from keras_networks import small, two_inputs

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
if not (available := Keras().availability()):
    pytest.skip(available.reason, allow_module_level=True)
keras = pytest.importorskip("keras")
BACKEND = keras.backend.backend()
pytestmark = [
    pytest.mark.engine,
    # Keras' own use of numpy 2.
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),
]
if BACKEND == "tensorflow":
    set_threads(1)  # before its first use; it fixes them


@pytest.fixture(autouse=True)
def private_store(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGEWISE_STORE", f"sqlite:///{tmp_path}/store.db")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The file of a Keras model, and the model."""
    path, model = tmp_path_factory.mktemp("keras") / "small.keras", small()
    model.save(path)
    return path, model


def load(path, provider="function", **options):
    return Keras().load(path, LoadOptions(provider=provider, **options))


def infer(session, *arrays):
    session.bind(arrays)
    session.invoke()
    return session.read_outputs()


def images(batch=1):
    return np.random.default_rng(3).random((batch, 16, 16, 3), np.float32)


@pytest.mark.parametrize("provider", ["function", "call", "predict"])
def test_it_keeps_the_contract(saved, provider):
    rules = check_runtime(Keras(), saved[0], shapes={"image": (2, 16, 16, 3)}, provider=provider)
    assert "threads" in rules
    assert ("layers" in rules) == (BACKEND == "tensorflow" and provider == "function")


@pytest.mark.parametrize("provider", ["function", "call", "predict"])
def test_outputs_are_those_of_the_model(saved, provider):
    path, model = saved
    session = load(path, provider, shapes={"image": (3, 16, 16, 3)})
    (output,) = infer(session, images(3))
    expected = keras.ops.convert_to_numpy(model(images(3), training=False))
    np.testing.assert_allclose(output, expected, atol=1e-6)
    effective = session.effective
    assert (effective["precision"], effective["backend"]) == ("f32", BACKEND)
    calls = {"function": {"tensorflow": "tf.function", "jax": "jax.jit"}, "predict": {}, "call": {}}
    words = {"predict": "model.predict_on_batch(x)", "call": "model(x, training=False)"}
    inference = f"{words['call']} in torch.inference_mode"
    assert effective["call"] == words.get(provider, calls[provider].get(BACKEND, inference))


def test_bf16_is_what_the_layers_compute_in(saved):
    session = load(saved[0], precision="bf16", shapes={"image": (1, 16, 16, 3)})
    exact = infer(load(saved[0], shapes={"image": (1, 16, 16, 3)}), images())[0]
    (output,) = infer(session, images())
    assert session.effective["precision"] == "bf16"
    assert output.dtype == np.float32
    assert 0 < np.abs(output - exact).max() < 0.02
    with pytest.raises(UnsupportedModel, match="not in f16"):
        load(saved[0], precision="f16")


def test_two_inputs_by_name(tmp_path):
    path = tmp_path / "two.keras"
    two_inputs().save(path)
    session = load(path, shapes={"zeta": (1, 4), "alpha": (1, 4)})
    outputs = infer(session, np.full((1, 4), 7, np.int32), np.ones((1, 4), np.float32))
    assert [array[0, 0] for array in outputs] == [15.0, 13.0]


@pytest.mark.skipif(BACKEND != "tensorflow", reason="TensorFlow's profiler times the layers")
@pytest.mark.parametrize(("onednn", "fused"), [("0", ["block/conv"]), ("1", ["block/conv", "add"])])
def test_layers_of_a_profile(tmp_path, capsys, monkeypatch, onednn, fused):
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", onednn)
    # TensorFlow lists operators of more than 8,000 cycles: on a fast processor, the layers of small images take less.
    small(side=128).save(tmp_path / "model.keras")
    words = ["profile", str(tmp_path / "model.keras"), "-r", "keras", "--iterations", "20", "--sessions", "1"]
    assert run([*words, "--json", "-q"]) == 0
    (record,) = json.loads(capsys.readouterr().out)["runs"]
    timed = [row["nodes"] for row in record["layers"] if row["time"]]
    assert ["stem"] in timed
    assert fused in timed


@pytest.mark.parametrize("provider", ["call", "predict"])
def test_other_calls_have_no_layers(saved, provider):
    session = load(saved[0], provider, profile=True)
    infer(session, images())
    with pytest.raises(CannotProfile, match="use --runtime keras/function"):
        session.profile_layers(3)


def test_bench_prints_one_document(saved, capfd):
    words = [
        "bench",
        str(saved[0]),
        "-r",
        "keras",
        "--threads",
        "1",
        "--iterations",
        "5",
        "--sessions",
        "1",
        "--json",
        "-q",
    ]
    assert run([*words, "--no-meters"]) == 0
    told = capfd.readouterr()
    (record,) = json.loads(told.out)["runs"]
    assert record["status"] == "done"
    assert "tensorflow" not in told.err.lower()


def rewrite(path, target, change=lambda text: text, **entries):
    """A copy of a ``.keras`` file with another configuration, and more entries."""
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(target, "w") as copy:
        for name in source.namelist():
            data = source.read(name)
            copy.writestr(name, change(data.decode()).encode() if name == "config.json" else data)
        for name, data in entries.items():
            copy.writestr(name, data)
    return target


def test_code_is_refused(saved, tmp_path):
    lambda_layer = rewrite(
        saved[0], tmp_path / "lambda.keras", lambda text: text.replace('"class_name": "Add"', '"class_name": "Lambda"')
    )
    with pytest.raises(UnsupportedModel, match="Lambda layer, which is Python code; edgewise runs no code"):
        load(lambda_layer)
    assert run(["bench", str(lambda_layer), "-r", "keras"]) == 2
    foreign = rewrite(
        saved[0], tmp_path / "os.keras", lambda text: text.replace('"module": "keras.layers"', '"module": "os"', 1)
    )
    with pytest.raises(UnsupportedModel, match="not one of Keras' own"):
        load(foreign)


@pytest.mark.parametrize("name", ["../evil.txt", "/tmp/evil.txt", "assets/../../evil", "evil.py", "assets\\..\\evil"])
def test_hostile_entries_are_refused(saved, tmp_path, name):
    hostile = rewrite(saved[0], tmp_path / "hostile.keras", **{name: "x"})
    with pytest.raises(InvalidModel, match="entry that Keras does not write"):
        load(hostile)


def test_damaged_files(saved, tmp_path):
    data = saved[0].read_bytes()
    cut = tmp_path / "cut.keras"
    cut.write_bytes(data[: len(data) // 2])
    with pytest.raises(InvalidModel, match=r"not a complete \.keras file"):
        load(cut)
    other = rewrite(saved[0], tmp_path / "other.keras", lambda text: text.replace('"units": 10', '"units": 11'))
    with pytest.raises(InvalidModel, match="Keras can't load it"):
        load(other)
    renamed = tmp_path / "model.bin"
    renamed.write_bytes(data)
    assert load(renamed).inputs[0].name == "image"


def test_old_files_are_refused_with_how_to_convert(tmp_path, capsys):
    path = tmp_path / "old.h5"
    path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(64))
    assert run(["bench", str(path)]) == 2
    message = capsys.readouterr().err
    assert "HDF5" in message
    assert ".keras" in message or "onnx" in message


def test_shapes_and_providers_that_do_not_fit(saved):
    with pytest.raises(UnsupportedModel, match=r"input 'image' has the fixed shape \[\?, 16, 16, 3\]"):
        load(saved[0], shapes={"image": (1, 8, 8, 3)})
    with pytest.raises(UnsupportedModel, match="no provider 'gpu'"):
        load(saved[0], "gpu")


def test_the_backend_that_is_asked_for_has_to_be_there(monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "numpy")
    answer = Keras().availability()
    assert (answer.available, answer.reason) == (False, "Keras' backend 'numpy' is not supported")
    monkeypatch.setattr("edgewise.runtime.keras.find_spec", lambda name: None)
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    assert Keras().availability() == Availability(
        False, "KERAS_BACKEND is jax, which is not installed", "pip install jax"
    )
    old = Availability(True, version="3.11.3")
    monkeypatch.setattr("edgewise.runtime.keras.package_availability", lambda *args, **kwargs: old)
    assert "Keras 3.11.3 may run code" in Keras().availability().reason
    monkeypatch.setattr(
        "edgewise.runtime.keras.package_availability", lambda *args, **kwargs: replace(old, version="3.12.0")
    )
    monkeypatch.delenv("KERAS_BACKEND")
    assert Keras().availability().reason == "Keras has no backend"


def test_layers_of_operators():
    known = {"conv", "conv_1", "block", "block/conv", "heads"}
    named = {
        "net_1/conv_1/BiasAdd": "conv_1",
        "net/conv_2/Relu": "conv",
        "StatefulPartitionedCall/net/block_1/conv_1/BiasAdd": "block/conv",
        "net/heads/query/einsum": "heads",
    }
    assert {name: _layers_of(name, known)[-1] for name in named} == named
    assert _layers_of("net/heads/query/einsum", known) == ("heads/query/einsum", "heads/query", "heads")
    assert _layers_of("Identity", known) == ()


@pytest.mark.skipif(BACKEND != "tensorflow", reason="Keras writes SavedModels with TensorFlow")
def test_a_factory_runs_on_keras_and_on_tensorflow(capsys):
    factory = str(Path(__file__).parent.parent / "keras_networks.py") + ":make"
    words = ["bench", factory, "-r", "keras,tensorflow", "--threads", "1", "--iterations", "5", "--sessions", "1"]
    assert run([*words, "--no-meters", "--json", "-q"]) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert [(each["job"]["runtime"]["name"], each["job"]["model"]["format"], each["status"]) for each in runs] == [
        ("keras", "keras", "done"),
        ("tensorflow", "savedmodel", "done"),
    ]
    (error,) = (
        metric["value"]
        for metric in runs[1]["measurements"]
        if metric["metric"] == "output_max_abs_error" and metric["value"] is not None
    )
    assert error < 1e-6


def test_a_model_in_memory_runs_as_it_is_and_exported():
    engine = "openvino" if BACKEND == "torch" else "tensorflow"
    model = small()
    runs = edgewise.bench(model, runtimes=["keras", engine], iterations=5, sessions=1, meters=False)
    assert [(each.job.runtime.name, each.job.model.name, each.status) for each in runs] == [
        ("keras", "Functional", "done"),
        (engine, "Functional", "done"),
    ]
    assert runs[0].job.model.family == runs[1].job.model.family
    assert runs[1].value("output_max_abs_error") < 1e-6
    assert edgewise.inspect(model).total.parameters == model.count_params()


def test_models_in_memory_are_compared():
    found = edgewise.compare([small(), small()], runtimes=["keras"], rounds=1, time_budget=600)
    assert [variant.run.job.runtime.name for variant in found.variants] == ["keras", "keras"]
    assert {variant.run.status for variant in found.variants} == {"done"}


def test_a_model_in_memory_is_evaluated(tmp_path):
    model = small()
    shape = model.inputs[0].shape[1:]
    inputs = np.random.default_rng(0).random((8, *shape), dtype=np.float32)
    labels = np.asarray(model.predict_on_batch(inputs)).argmax(axis=-1)
    np.savez(tmp_path / "data.npz", x_test=inputs, y_test=labels)
    found = edgewise.evaluate(model, data=tmp_path / "data.npz", task="classification", latency=False, meters=False)
    (one,) = found.runs
    assert one.job.runtime.name == "keras" and one.value("accuracy_top1") == 1.0


@pytest.mark.skipif(
    BACKEND == "torch", reason="takes minutes with PyTorch; continuous integration runs it on TensorFlow"
)
def test_the_table_of_keras_applications(capsys):
    assert run(["zoo", "keras-table", "MobileNetV3Small", "--iterations", "3", "--no-store", "--json", "-q"]) == 0
    (record,) = json.loads(capsys.readouterr().out)["runs"]
    found = {metric["metric"]: metric for metric in record["measurements"]}
    assert found["parameters"]["value"] == 2_554_968  # keras.applications.MobileNetV3Small().count_params()
    assert (found["accuracy_top1"]["value"], found["accuracy_top1"]["absent_because"]) == (
        None,
        "the weights are random",
    )
    assert found["latency"]["value"] > 0
    assert run(["zoo", "keras-table", "MobileNetV9"]) == 2
    assert "keras.applications has no MobileNetV9" in capsys.readouterr().err


@pytest.mark.parametrize("provider", ["function", "call", "predict"])
def test_a_stateful_layer_is_a_state(tmp_path, provider):
    layers = [keras.Input((5, 4), batch_size=1), keras.layers.LSTM(3, stateful=True, name="memory")]
    keras.Sequential(layers).save(tmp_path / "stateful.keras")
    session, ones = load(tmp_path / "stateful.keras", provider), np.ones((1, 5, 4), np.float32)
    (first,), (second,) = infer(session, ones), infer(session, ones)
    kept = not (BACKEND == "jax" and provider == "function")
    assert list(session.states) == (["memory"] if kept else [])
    assert np.array_equal(first, second) != kept
    assert session.reset_state()
    np.testing.assert_allclose(infer(session, ones)[0], first, atol=1e-6)
