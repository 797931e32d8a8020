"""The runtime tensorflow: SavedModels and frozen graphs, what it refuses, its profile and TensorFlow's own numbers."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

from edgewise.cli.main import run
from edgewise.errors import BadModel
from edgewise.model.identity import open_model
from edgewise.runtime.base import CannotProfile, InvalidModel, LoadOptions, UnsupportedModel
from edgewise.runtime.tensorflow import TensorFlow, set_threads
from edgewise.testing import check_runtime
from keras_networks import small, two_inputs
from protobuf_writer import tensorflow_graph

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
pytestmark = pytest.mark.engine
# TensorFlow fixes its threads at its first use in a process.
set_threads(1)


@pytest.fixture(autouse=True)
def private_store(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGEWISE_STORE", f"sqlite:///{tmp_path}/store.db")


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The folder of a SavedModel that Keras exported, and the model."""
    import keras

    assert keras.backend.backend() == "tensorflow"
    folder, model = tmp_path_factory.mktemp("saved") / "small", small()
    model.export(folder, format="tf_saved_model", verbose=False)
    return folder, model


def save(folder, function, *specs, signatures=None, owner=None):
    """A SavedModel of a TensorFlow function; `signatures` None makes it ``serving_default``."""
    module = owner or tf.Module()
    module.run = tf.function(function)
    concrete = module.run.get_concrete_function(*specs)
    tf.saved_model.save(module, folder, signatures=concrete if signatures is None else signatures(concrete))
    return folder / "saved_model.pb"


VECTOR = tf.TensorSpec((None, 4), tf.float32, "x")


def load(path, provider="function", **options):
    return TensorFlow().load(path, LoadOptions(provider=provider, **options))


def infer(session, *arrays):
    session.bind(arrays)
    session.invoke()
    return session.read_outputs()


def images(batch=1):
    return np.random.default_rng(3).random((batch, 16, 16, 3), np.float32)


@pytest.mark.parametrize("provider", ["function", "xla"])
def test_it_keeps_the_contract(exported, provider):
    folder, _ = exported
    rules = check_runtime(TensorFlow(), folder / "saved_model.pb", shapes={"image": (2, 16, 16, 3)}, provider=provider)
    assert "threads" in rules
    assert ("layers" in rules) == (provider == "function")


@pytest.mark.parametrize("provider", ["function", "xla"])
def test_outputs_are_those_of_the_keras_model(exported, provider):
    folder, model = exported
    session = load(folder / "saved_model.pb", provider, shapes={"image": (3, 16, 16, 3)})
    (output,) = infer(session, images(3))
    np.testing.assert_allclose(output, model(images(3)).numpy(), atol=1e-6)
    effective = session.effective
    assert (effective["precision"], effective["signature"]) == ("f32", "serving_default")
    assert (
        effective["threads"] == tf.config.threading.get_intra_op_parallelism_threads() or effective["threads"] is None
    )


def test_a_frozen_graph(tmp_path):
    path = tmp_path / "graph.pb"
    path.write_bytes(tensorflow_graph())
    session = load(path)
    (spec,) = session.inputs
    (output,) = infer(session, np.full((3, 4), 0.5, np.float32))
    assert (spec.dtype, output.tolist()) == ("float32", [[2.0, 2.0]] * 3)


def test_inputs_follow_the_readers_order_and_outputs_their_names(tmp_path):
    two_inputs().export(tmp_path / "two", format="tf_saved_model", verbose=False)
    path = tmp_path / "two" / "saved_model.pb"
    sevens, ones = np.full((1, 4), 7, np.int32), np.ones((1, 4), np.float32)
    for names in (("zeta", "alpha"), ("alpha", "zeta")):
        session = load(path, shapes=dict.fromkeys(names, (1, 4)))
        assert tuple(spec.name for spec in session.inputs) == names
        outputs = infer(session, *({"zeta": sevens, "alpha": ones}[name] for name in names))
        assert [array[0, 0] for array in outputs] == [15.0, 13.0]


def test_openvino_reads_what_tensorflow_writes(exported, tmp_path, capsys):
    pytest.importorskip("openvino")
    folder, _ = exported
    frozen = tmp_path / "frozen.pb"
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    loaded = tf.saved_model.load(str(folder))
    frozen.write_bytes(
        convert_variables_to_constants_v2(loaded.signatures["serving_default"]).graph.as_graph_def().SerializeToString()
    )
    for path in (folder, frozen):
        words = ["bench", str(path), "-r", "openvino,tensorflow", "--threads", "1", "--iterations", "5"]
        assert run([*words, "--sessions", "1", "--no-meters", "--json", "-q"]) == 0
        runs = json.loads(capsys.readouterr().out)["runs"]
        assert [(each["job"]["runtime"]["name"], each["status"]) for each in runs] == [
            ("openvino", "done"),
            ("tensorflow", "done"),
        ]
        errors = [metric["value"] for each in runs for metric in each["measurements"]
                  if metric["metric"] == "output_max_abs_error" and metric["value"] is not None]  # fmt: skip
        assert errors
        assert max(errors) < 1e-6


def test_bench_prints_one_document_and_tells_its_settings(exported, capfd):
    folder, _ = exported
    words = ["bench", str(folder), "-r", "tensorflow/function,tensorflow/xla", "--threads", "2", "--iterations", "5"]
    assert run([*words, "--sessions", "1", "--no-meters", "--json", "-q"]) == 0
    told = capfd.readouterr()
    function, xla = json.loads(told.out)["runs"]
    assert "tensorflow" not in told.err.lower()
    for each in (function, xla):
        effective = each["job"]["runtime"]["effective"] if "effective" in each["job"]["runtime"] else each["effective"]
        compiled = [metric["value"] for metric in each["measurements"] if metric["metric"] == "compile_time"]
        assert bool(compiled and compiled[0]) == (each is xla)
        assert (effective["threads"], effective["intra_op_threads"], effective["inter_op_threads"]) == (2, 2, 1)


@pytest.mark.parametrize("provider", ["function", "xla"])
def test_offline_runs_one_request_per_thread(exported, capsys, monkeypatch, provider):
    # With oneDNN, two threads that call one function crash within a second on this network, on any x86 processor.
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "1")
    folder, _ = exported
    words = ["bench", str(folder), "-r", f"tensorflow/{provider}", "--scenario", "offline", "--threads", "2"]
    words += ["--duration", "2"]
    assert run([*words, "--sessions", "1", "--no-meters", "--json", "-q"]) == 0
    (record,) = json.loads(capsys.readouterr().out)["runs"]
    assert record["status"] == "done"
    assert {each["metric"] for each in record["measurements"] if each["value"]} >= {"throughput", "memory_peak"}


def test_a_profile_lists_operators_and_xla_has_none(exported):
    folder, _ = exported
    shapes = {"image": (1, 16, 16, 3)}
    session = load(folder / "saved_model.pb", shapes=shapes, profile=True)
    infer(session, images())
    profile = session.profile_layers(8)
    assert any("stem" in node.name and "Conv2D" in node.op for node in profile.nodes)
    compiled = load(folder / "saved_model.pb", "xla", shapes=shapes, profile=True)
    infer(compiled, images())
    with pytest.raises(CannotProfile, match="XLA fuses the operators"):
        compiled.profile_layers(4)


def test_signatures(tmp_path):
    def named(*names):
        return lambda concrete: dict.fromkeys(names, concrete)

    alone = save(tmp_path / "one", lambda x: {"y": x + 1}, VECTOR, signatures=named("classify"))
    assert load(alone).effective["signature"] == "classify"
    several = save(tmp_path / "several", lambda x: {"y": x + 1}, VECTOR, signatures=named("a", "b"))
    assert load(several).effective["signature"] == "a"
    assert load(several, signature="b").effective["signature"] == "b"
    with pytest.raises(UnsupportedModel, match=r"no signature 'c' \(it has: a, b\)"):
        load(several, signature="c")
    assert (open_model(several.parent).ref.signatures, open_model(alone.parent).ref.signatures) == (("a", "b"), ())
    assert open_model(several.parent, "b").ref.signature == "b"
    none = save(tmp_path / "none", lambda x: {"y": x + 1}, VECTOR, signatures=named())
    with pytest.raises(UnsupportedModel, match=r"has no signature: export it with model.export"):
        load(none)


class Counter(tf.Module):
    """Adds its input to a state."""

    def __init__(self):
        super().__init__()
        self.weight, self.sum = tf.Variable(2.0), tf.Variable(0.5, name="sum")


@pytest.mark.parametrize("provider", ["function", "xla"])
def test_a_variable_that_the_function_assigns_is_a_state(tmp_path, provider):
    owner = Counter()

    def add(x):
        return {"y": owner.sum.assign_add(owner.weight * tf.reduce_sum(x))}

    path = save(tmp_path / "counter", add, tf.TensorSpec((1, 2), tf.float32, "x"), owner=owner)
    session, ones = load(path, provider), np.ones((1, 2), np.float32)
    assert [float(infer(session, ones)[0]) for _ in range(3)] == [4.5, 8.5, 12.5]
    assert list(session.states) == ["sum"] and session.reset_state()
    assert float(infer(session, ones)[0]) == 4.5
    plain = save(
        tmp_path / "plain", lambda x: {"y": owner.weight * x}, tf.TensorSpec((1, 2), tf.float32, "x"), owner=owner
    )
    plain = load(plain)
    infer(plain, ones)
    assert not plain.states


def test_text_is_refused(tmp_path):
    text = tf.TensorSpec((None,), tf.string, "text")
    path = save(tmp_path / "text", lambda text: {"length": tf.strings.length(text)}, text)
    with pytest.raises(UnsupportedModel, match="input 'text' has type string"):
        load(path)


class Table(tf.Module):
    """Runs an operator while it is loaded."""

    def __init__(self):
        super().__init__()
        keys = tf.lookup.KeyValueTensorInitializer([1, 2], [3.0, 4.0], key_dtype=tf.int64)
        self.table = tf.lookup.StaticHashTable(keys, -1.0)


def write(x, target):
    with tf.control_dependencies([tf.io.write_file(target, "written")]):
        return {"y": x + 1}


@pytest.mark.parametrize("where", ["called", "branch"])
def test_operators_that_reach_files_are_refused_before_anything_runs(tmp_path, where):
    target = str(tmp_path / "written.txt")

    def function(x):
        if where == "called":
            return write(x, target)
        return tf.cond(tf.reduce_sum(x) > 0, lambda: write(x, target), lambda: {"y": x})

    path = save(tmp_path / "model", function, VECTOR)
    with pytest.raises(UnsupportedModel, match="its operator WriteFile can reach files"):
        load(path)
    assert not (tmp_path / "written.txt").exists()


def test_reading_a_file_and_calling_the_saver_are_refused(tmp_path):
    reading = save(
        tmp_path / "read", lambda x: {"y": x, "z": tf.strings.length(tf.io.read_file("/etc/hostname"))}, VECTOR
    )
    with pytest.raises(UnsupportedModel, match="its operator ReadFile"):
        load(reading)
    owner = tf.Module()
    owner.variable = tf.Variable(1.0)
    path = save(tmp_path / "saver", lambda x: {"y": x + owner.variable}, VECTOR, owner=owner)
    from tensorflow.core.protobuf import saved_model_pb2

    document = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    meta = document.meta_graphs[0]
    graph = meta.graph_def
    saver = next(node for node in graph.node if node.name == meta.saver_def.save_tensor_name.partition(":")[0])
    meta.object_graph_def.concrete_functions[saver.attr["f"].func.name].SetInParent()
    path.write_bytes(document.SerializeToString())
    with pytest.raises(UnsupportedModel, match="calls the functions that save and restore"):
        load(path)
    del meta.object_graph_def.concrete_functions[saver.attr["f"].func.name]
    body = next(each for each in graph.library.function if "signature_wrapper" in each.signature.name)
    body.node_def.add(name="again", op="StatefulPartitionedCall").attr["f"].CopyFrom(saver.attr["f"])
    path.write_bytes(document.SerializeToString())
    with pytest.raises(UnsupportedModel, match="calls the functions that save and restore"):
        load(path)


def test_tables_and_random_numbers_of_the_network_are_allowed(tmp_path):
    owner = Table()
    number = tf.TensorSpec((None,), tf.int64, "key")
    path = save(tmp_path / "table", lambda key: {"value": owner.table.lookup(key)}, number, owner=owner)
    (values,) = infer(load(path), np.array([2, 9], np.int64))
    assert values.tolist() == [4.0, -1.0]


def test_damaged_files(exported, tmp_path):
    import shutil

    folder = shutil.copytree(exported[0], tmp_path / "copy")
    (folder / "variables" / "variables.index").write_bytes(b"junk")
    with pytest.raises(InvalidModel):
        load(folder / "saved_model.pb")
    (folder / "saved_model.pb").write_bytes((exported[0] / "saved_model.pb").read_bytes()[:500])
    with pytest.raises(InvalidModel):
        load(folder / "saved_model.pb")


def test_shapes_and_settings_that_do_not_fit(exported):
    path = exported[0] / "saved_model.pb"
    with pytest.raises(UnsupportedModel, match=r"input 'image' has the fixed shape \[\?, 16, 16, 3\]"):
        load(path, shapes={"image": (1, 8, 8, 3)})
    with pytest.raises(UnsupportedModel, match="known shapes only"):
        load(path, "xla")
    with pytest.raises(UnsupportedModel, match="not in bf16"):
        load(path, precision="bf16")
    with pytest.raises(UnsupportedModel, match="setting 'file'"):
        load(path, extra={"file": "/tmp/x"})


def test_tensorflow_describes_what_openvino_does_not_read(tmp_path):
    number = tf.TensorSpec((None,), tf.int64, "key")
    owner = Table()
    path = save(tmp_path / "table", lambda key: {"value": owner.table.lookup(key)}, number, owner=owner)
    (spec,) = open_model(path.parent).signature.inputs
    assert (spec.name, spec.dtype) == ("key", "int64")
    text = tf.TensorSpec((None,), tf.string, "text")
    none = save(tmp_path / "none", lambda text: {"y": text}, text, signatures=lambda concrete: {})
    with pytest.raises(BadModel, match="no signature"):
        open_model(none.parent)
