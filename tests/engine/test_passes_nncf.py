"""Passes by OpenVINO and NNCF on the digits network: what they make loads, agrees, and changes what it was told to."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgewise import data
from edgewise.model.identity import open_model, read_graph
from edgewise.optimizing.base import CannotApply, Facts, PassTask, passes
from edgewise.optimizing.calibration import write_calibration
from edgewise.optimizing.passes.nncf_weights import CompressionSettings
from edgewise.optimizing.passes.qdq_types import carry_through, make_unsigned, quantize_biases
from edgewise.runtime.base import LoadOptions, runtimes
from edgewise.testing.passes import check_pass
from messages import says
from pass_settings import settings_of
from patience import LIMIT_S

pytest.importorskip("nncf", reason="nncf is not installed")
pytest.importorskip("openvino", reason="openvino is not installed")
onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
# NNCF and the libraries under it use what others deprecate.
pytestmark = [
    pytest.mark.engine,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

#: As many as there are: a process whose cores were narrowed would keep OpenVINO narrow for all later tests.
THREADS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
SECOND = "/features/features.1/features.1.0/Conv"
FORMATS = ("onnx", "openvino")


def describe(path):
    model = open_model(path)
    return Facts(
        path=Path(path),
        format=model.ref.format,
        graph=read_graph(path),
        signature=model.signature,
        quantized=False,
        runtimes=("onnxruntime", "openvino"),
        cores=1,
    )


@pytest.fixture(scope="module")
def networks(tmp_path_factory):
    """The digits network in both formats."""
    facts = describe(data.path("digits_cnn.onnx"))
    result = apply("onnx-to-openvino", facts, tmp_path_factory.mktemp("ir"), settings={})
    return {"onnx": facts, "openvino": describe(result.model)}


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    with np.load(data.path("digits_calibration.npz"), allow_pickle=False) as stored:
        images, labels = stored["x"].astype(np.float32) / np.float32(255), stored["y"]
    folder = tmp_path_factory.mktemp("samples")
    write_calibration(folder / "all.npz", [[image[None]] for image in images], None)
    feeds = [[image[None]] for image in images[:32]]
    write_calibration(folder / "labelled.npz", feeds, [int(each) for each in labels[:32]])
    write_calibration(folder / "bare.npz", feeds, None)
    return folder


@pytest.fixture(scope="module")
def images():
    with np.load(data.path("digits_test.npz"), allow_pickle=False) as stored:
        return (stored["x"].astype(np.float32) / np.float32(255))[:100]


def apply(name, facts, folder, *, settings, samples=None, **fields):
    one = passes().get(name)
    folder.mkdir(exist_ok=True)
    task = PassTask(
        model=str(facts.path),
        format=facts.format,
        settings=settings_of(one, **settings),
        folder=folder,
        calibration=samples,
        threads=THREADS,
        **fields,
    )
    return one.apply(task)


def infer(path, images, engine):
    runtime = runtimes().get(engine)
    session = runtime.load(Path(path), LoadOptions(provider="cpu", threads=1, shapes={"image": (1, 1, 32, 32)}))
    outputs = []
    for image in images:
        session.bind([image[None]])
        session.invoke()
        outputs.append(np.array(session.read_outputs()[0]))
    session.close()
    return np.concatenate(outputs)


def snr_db(reference, other):
    noise = np.sum((reference.astype(np.float64) - other) ** 2)
    return np.inf if noise == 0 else 10 * np.log10(np.sum(reference.astype(np.float64) ** 2) / noise)


def integer_layers(path):
    """Names of convolutions with weights in integers."""
    graph = read_graph(path)
    makers = graph.producers()
    found = set()
    for operator in graph.operators:
        if operator.op not in ("Conv", "Convolution"):
            continue
        name = operator.inputs[1]
        while name in makers and graph.operators[makers[name]].op in ("Convert", "Multiply", "Subtract"):
            name = graph.operators[makers[name]].inputs[0]
        maker = graph.operators[makers[name]].op if name in makers else ""
        if maker in ("DequantizeLinear", "FakeQuantize") or graph.tensors[name].dtype in ("int8", "uint8"):
            found.add(operator.name)
    return found


def test_conversion_changes_nothing(networks, images):
    expected = infer(networks["onnx"].path, images, "openvino")
    assert snr_db(expected, infer(networks["openvino"].path, images, "openvino")) > 100
    weights = [each.dtype for each in networks["openvino"].graph.tensors.values() if each.constant and each.elements]
    assert "float16" not in weights
    assert (networks["openvino"].path.with_suffix(".bin")).stat().st_size > 4 * 102_000


@pytest.mark.parametrize(("name", "format_"), [
    ("onnx-to-openvino", "onnx"), ("nncf-ptq", "onnx"), ("nncf-ptq", "openvino"), ("nncf-weights", "openvino"),
])  # fmt: skip
def test_passes_keep_their_contract(networks, samples, monkeypatch, name, format_):
    # One thread would narrow this process's cores, see THREADS.
    monkeypatch.setattr("edgewise.testing.passes.PassTask", lambda **fields: PassTask(**{**fields, "threads": THREADS}))
    assert "result" in check_pass(passes().get(name), networks[format_], calibration=samples / "labelled.npz")


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.long
def test_quantised_networks_agree_and_every_bias_correction_takes_effect(networks, samples, images, tmp_path, format_):
    facts = networks[format_]
    expected = infer(facts.path, images, "openvino")
    noise, answers = {}, {}
    for correction in ("fast", "thorough", "none"):
        settings = {"preset": "mixed", "bias_correction": correction}
        result = apply("nncf-ptq", facts, tmp_path / correction, samples=samples / "all.npz", settings=settings)
        assert "6 of 6 heavy operators quantised" in result.notes[0]
        assert "nncf" in result.versions
        for engine in ("openvino", "onnxruntime")[: 1 + (format_ == "onnx")]:
            got = infer(result.model, images, engine)
            assert snr_db(expected, got) > 20, (correction, engine)  # noise of less than 1 % of the power
            assert np.mean(got.argmax(1) == expected.argmax(1)) >= 0.95, (correction, engine)
        answers[correction], noise[correction] = got, snr_db(expected, got)
    # A network whose biases NNCF does not find comes out the same each time.
    assert not np.array_equal(answers["fast"], answers["none"])
    assert not np.array_equal(answers["thorough"], answers["none"])
    assert noise["thorough"] > noise["none"]


@pytest.mark.long
def test_biases_that_nncf_does_not_find_are_told(networks, samples, tmp_path):
    import openvino

    path = tmp_path / "hidden.xml"
    openvino.save_model(openvino.Core().read_model(str(networks["onnx"].path)), str(path), compress_to_fp16=False)
    result = apply("nncf-ptq", describe(path), tmp_path / "a", samples=samples / "bare.npz", settings={})
    assert "5 biases are not constants, so NNCF can't correct them" in result.notes
    plain = apply("nncf-ptq", networks["openvino"], tmp_path / "b", samples=samples / "bare.npz", settings={})
    assert not any("no constants" in note for note in plain.notes)


@pytest.mark.parametrize("format_", ["onnx", pytest.param("openvino", marks=pytest.mark.long)])
def test_layers_to_keep_stay_float_and_the_only_ones_change_alone(networks, samples, tmp_path, format_):
    facts = networks[format_]
    every = {each.name for each in facts.graph.operators if each.op in ("Conv", "Convolution")}
    layer = next(name for name in sorted(every) if "features.1/" in name)
    kept = apply("nncf-ptq", facts, tmp_path / "a", samples=samples / "bare.npz", settings={}, keep_float=(layer,))
    only = apply("nncf-ptq", facts, tmp_path / "b", samples=samples / "bare.npz", settings={}, only=(layer,))
    assert integer_layers(kept.model) == every - {layer}
    assert integer_layers(only.model) == {layer}


def test_a_float_stem_is_left_alone(networks, samples, tmp_path):
    result = apply("nncf-ptq", networks["onnx"], tmp_path, samples=samples / "bare.npz", settings={"float_stem": True})
    assert "5 of 6 heavy operators quantised" in result.notes[0]
    assert len(integer_layers(result.model)) == 4


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.long
def test_accuracy_is_controlled_with_labels_only(networks, samples, tmp_path, format_):
    facts = networks[format_]
    with pytest.raises(CannotApply, match="labels"):
        apply("nncf-accuracy", facts, tmp_path / "a", samples=samples / "bare.npz", settings={})
    result = apply("nncf-accuracy", facts, tmp_path / "b", samples=samples / "labelled.npz", settings={})
    assert "6 of 6" in result.notes[0]
    assert any("top-1 on 32 calibration samples: 1.0000 before" in note for note in result.notes)


def test_layers_that_cost_accuracy_go_back_to_float(networks, samples, images, tmp_path):
    """With labels that only the float network's own answers satisfy, and no drop allowed, nothing that errs remains."""
    facts = networks["openvino"]
    result = apply("nncf-accuracy", facts, tmp_path, samples=samples / "labelled.npz", settings={"max_drop": 0.0})
    with np.load(samples / "labelled.npz", allow_pickle=False) as stored:
        answers = infer(result.model, stored["input_0"], "openvino").argmax(1)
        np.testing.assert_array_equal(answers, stored["labels"])


@pytest.mark.parametrize(("mode", "dtype"), [("int8_sym", "int8"), ("int8_asym", "uint8")])
def test_weights_are_compressed(networks, images, tmp_path, mode, dtype):
    facts = networks["openvino"]
    result = apply("nncf-weights", facts, tmp_path, settings={"mode": mode})
    graph = read_graph(result.model)
    assert sum(tensor.dtype == dtype for tensor in graph.tensors.values() if tensor.constant) >= 6
    expected = infer(facts.path, images, "openvino")
    assert snr_db(expected, infer(result.model, images, "openvino")) > 30
    sizes = [sum(file.stat().st_size for file in open_model(path).files) for path in (facts.path, result.model)]
    assert sizes[1] < 0.5 * sizes[0]


def test_weights_of_named_layers_stay_as_they_are(networks, tmp_path):
    facts = networks["openvino"]
    every = {each.name for each in facts.graph.operators if each.op == "Convolution"}
    result = apply("nncf-weights", facts, tmp_path, settings={"mode": "int8_sym"}, keep_float=tuple(every))
    assert integer_layers(result.model) == set()
    assert result.notes == ("constants in integers now (weights and zero points): 1 i8",)


def test_4_bits_are_refused_where_only_the_last_layer_could_have_them(networks, tmp_path):
    with pytest.raises(CannotApply, match=says("nncf-stored-no-layer-4")):
        apply("nncf-weights", networks["openvino"], tmp_path, settings={"mode": "int4_sym"})


def test_names_that_are_in_no_layer_cannot_be_the_only_ones(networks, samples, tmp_path):
    for format_, facts in networks.items():
        with pytest.raises(CannotApply, match=says("none-named-layers-model")):
            apply("nncf-ptq", facts, tmp_path / format_, samples=samples / "bare.npz", settings={}, only=("nobody",))


def test_a_file_that_openvino_does_not_read_is_said_so(tmp_path):
    path = tmp_path / "m.xml"
    path.write_text("<net>")
    task = PassTask(model=str(path), format="openvino", settings=CompressionSettings(), folder=tmp_path)
    with pytest.raises(CannotApply, match=says("openvino-does-not-read-model")):
        passes().get("nncf-weights").apply(task)


def test_nothing_is_sent_to_anybody():
    """Both libraries do without the package that would send events, in a process that knows nothing of tests."""
    code = (
        "import sys\n"
        "from edgewise.optimizing.passes.openvino_tools import import_nncf\n"
        "import_nncf()\n"
        "import openvino.tools.ovc.telemetry_utils as told\n"
        "from nncf.telemetry import telemetry\n"
        "from unittest.mock import MagicMock\n"
        "assert isinstance(telemetry, MagicMock), type(telemetry)\n"
        "assert 'stub' in told.tm.__name__, told.tm\n"
        "assert sys.modules['openvino_telemetry'] is None\n"
        "assert not any(name.startswith('openvino_telemetry.') for name in sys.modules)\n"
        "assert 'pytest' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=LIMIT_S)


def test_sessions_that_libraries_open_keep_to_the_threads():
    import onnxruntime

    from edgewise.optimizing.passes.thread_limits import at_most

    made = onnxruntime.SessionOptions
    with at_most(THREADS):
        assert onnxruntime.SessionOptions().intra_op_num_threads == THREADS
    assert onnxruntime.SessionOptions is made
    code = (
        "import os\n"
        "from edgewise.optimizing.passes.thread_limits import at_most\n"
        "before = os.sched_getaffinity(0)\n"
        "with at_most(1):\n"
        "    assert len(os.sched_getaffinity(0)) == 1\n"
        "assert os.sched_getaffinity(0) == before\n"
    )
    if hasattr(os, "sched_setaffinity"):
        subprocess.run([sys.executable, "-c", code], check=True, timeout=LIMIT_S)


def quantised_gemm(path):
    """x → Q (int8) → DQ → Flatten → Gemm with int8 weights and a float bias → y; as NNCF leaves it."""
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(2)
    constants = {
        "xs": np.float32(0.02), "xz": np.int8(-3), "w": rng.integers(-127, 128, (6, 5)).astype(np.int8),
        "ws": rng.random(5, dtype=np.float32) * np.float32(0.01) + np.float32(0.001), "wz": np.zeros(5, np.int8),
        "b": rng.standard_normal(5).astype(np.float32),
    }  # fmt: skip
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "xs", "xz"], ["d"]),
        helper.make_node("Flatten", ["d"], ["f"], axis=1),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], axis=1),
        helper.make_node("Gemm", ["f", "wd", "b"], ["y"], name="gemm"),
    ]
    value = helper.make_tensor_value_info
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(
        nodes, "g", [value("x", TensorProto.FLOAT, [1, 6, 1])], [value("y", TensorProto.FLOAT, [1, 5])], tensors
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return model


def run(model):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    x = np.linspace(-2, 2, 6, dtype=np.float32).reshape(1, 6, 1)
    return session.run(None, {"x": x})[0]


def test_what_nncf_leaves_in_float_is_carried_on_in_integers(tmp_path):
    model = quantised_gemm(tmp_path / "m.onnx")
    before = run(model)
    assert carry_through(model) == 1
    np.testing.assert_array_equal(run(model), before)
    assert make_unsigned(model) == 2
    np.testing.assert_array_equal(run(model), before)
    assert quantize_biases(model) == 1
    # A bias is rounded to steps of the product of two scales.
    np.testing.assert_allclose(run(model), before, atol=0.02 * 0.011)
    onnx.checker.check_model(model)
    # All three again: there is nothing left to do.
    assert (carry_through(model), make_unsigned(model), quantize_biases(model)) == (0, 0, 0)
    types = {each.name: each.data_type for each in model.graph.initializer}
    gemm = next(node for node in model.graph.node if node.op_type == "Gemm")
    maker = next(node for node in model.graph.node if gemm.input[2] in node.output)
    assert types[maker.input[0]] == onnx.TensorProto.INT32


def test_the_file_given_is_never_changed(networks, samples, tmp_path):
    facts = networks["openvino"]
    before = [file.read_bytes() for file in open_model(facts.path).files]
    apply("nncf-ptq", replace(facts), tmp_path, samples=samples / "bare.npz", settings={})
    assert [file.read_bytes() for file in open_model(facts.path).files] == before


@pytest.mark.long
def test_a_tflite_network_is_quantised_by_way_of_openvino_s_format(tmp_path, images):
    """NNCF takes no TFLite file, though OpenVINO reads it: such a network was left to one tool."""
    source = describe(data.path("digits_cnn.tflite"))
    result = apply("litert-to-openvino", source, tmp_path / "ir", settings={})
    converted = describe(result.model)
    inputs = [one.shape for one in converted.signature.inputs]
    assert inputs == [one.shape for one in source.signature.inputs]
    feeds = [[image.reshape(inputs[0])] for image in images]
    write_calibration(tmp_path / "own.npz", feeds[:32], None)
    made = apply("nncf-ptq", converted, tmp_path / "int8", samples=tmp_path / "own.npz", settings={})
    runtime = runtimes().get("openvino")
    answers = []
    for path in (source.path, result.model, made.model):
        session = runtime.load(Path(path), LoadOptions(provider="cpu", threads=1))
        rows = []
        for feed in feeds:
            session.bind(feed)
            session.invoke()
            rows.append(session.read_outputs()[0].reshape(-1))
        session.close()
        answers.append(np.stack(rows))
    np.testing.assert_allclose(answers[1], answers[0], rtol=1e-3, atol=1e-3)
    assert (answers[2].argmax(1) == answers[0].argmax(1)).mean() > 0.95
    assert any("heavy operators quantised" in note for note in made.notes)
