"""Layers that a pass leaves in float stay in float in onnxruntime, however it optimises the file."""

import numpy as np
import pytest

from edgewise.model.identity import open_model, read_graph
from edgewise.optimizing.base import Facts, PassTask, passes
from edgewise.optimizing.calibration import write_calibration
from edgewise.optimizing.passes.qdq_float_layers import protect_float_layers

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

KINDS = ("conv", "grouped", "pooled", "transposed", "gemm", "gemm-transposed", "beside")
SHAPE = (1, 4, 8, 8)


def write_network(path, kind, *, channels=8, seed=7):
    """A layer called ``spared`` between two convolutions, with weights that 8 bits for the whole tensor can't hold.

    Its first input channel is always 0, and has weights of 1000.
    """
    rng = np.random.default_rng(seed)
    helper, weights = onnx.helper, {}

    def weight(name, *shape, scale=0.2):
        weights[name] = rng.normal(0, scale, shape).astype(np.float32)

    weight("w0", channels, 4, 3, 3)
    weight("b0", channels)
    weights["w0"][0], weights["b0"][0] = 0, 0
    nodes = [
        helper.make_node("Conv", ["x", "w0", "b0"], ["y0"], name="first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["y0"], ["r0"], name="relu"),
    ]
    source, flat = "r0", kind.startswith("gemm")
    if kind == "pooled":
        nodes.append(helper.make_node("MaxPool", ["r0"], ["p0"], name="pool", kernel_shape=[2, 2], strides=[2, 2]))
        source = "p0"
    if flat:
        nodes.append(helper.make_node("Flatten", ["r0"], ["f0"], name="flatten"))
        per = 64
        weight("w1", 16, channels * per, scale=0.02)
        weights["w1"][:, :per] = 1000
        if kind == "gemm":
            weights["w1"] = np.ascontiguousarray(weights["w1"].T)
        weight("b1", 16)
        nodes.append(helper.make_node("Gemm", ["f0", "w1", "b1"], ["y1"], name="spared", transB=int(kind != "gemm")))
        weight("w2", 16, 5)
        nodes += [
            helper.make_node("Relu", ["y1"], ["r1"], name="relu1"),
            helper.make_node("Gemm", ["r1", "w2"], ["y"], name="last"),
        ]
    else:
        groups = 2 if kind == "grouped" else 1
        weight("b1", channels)
        if kind == "transposed":
            weight("w1", channels, channels, 3, 3)
            weights["w1"][0] = 1000
            spared = helper.make_node("ConvTranspose", [source, "w1", "b1"], ["y1"], name="spared", pads=[1, 1, 1, 1])
        else:
            weight("w1", channels, channels // groups, 3, 3)
            weights["w1"][: channels // groups, 0] = 1000
            spared = helper.make_node("Conv", [source, "w1", "b1"], ["y1"], name="spared", group=groups,
                                      pads=[1, 1, 1, 1])  # fmt: skip
        nodes += [spared, helper.make_node("Relu", ["y1"], ["r1"], name="relu1")]
        weight("w2", 3, channels, 3, 3)
        nodes.append(helper.make_node("Conv", ["r1", "w2"], ["y"], name="last"))
        if kind == "beside":  # a quantised layer takes the same tensor
            weight("w3", 3, channels, 1, 1)
            nodes.append(helper.make_node("Conv", [source, "w3"], ["z"], name="neighbour"))
    result = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in ("y", "z")]
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, SHAPE)],
        result if kind == "beside" else result[:1],
        [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, path)
    return path


def infer(model, feeds, *, level="ALL"):
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, f"ORT_ENABLE_{level}", None) or (
        ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    )
    options.log_severity_level = 3
    content = model if isinstance(model, str) else model.SerializeToString()
    session = ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return np.concatenate([np.ravel(session.run(None, {"x": feed})[0]) for feed in feeds])


def snr_db(expected, found):
    return 10 * np.log10(np.sum(expected**2) / max(np.sum((expected - found) ** 2), 1e-30))


def quantize(path, folder, *, name="ort-static", keep=("spared",)):
    rng = np.random.default_rng(3)
    feeds = [rng.normal(size=SHAPE).astype(np.float32) for _ in range(24)]
    write_calibration(folder / "samples.npz", [[feed] for feed in feeds], None)
    one, opened = passes().get(name), open_model(path)
    facts = Facts(path=path, graph=read_graph(path), signature=opened.signature, format="onnx", quantized=False,
                  runtimes=("onnxruntime",), cores=1)  # fmt: skip
    (folder / "made").mkdir()
    task = PassTask(model=str(path), format="onnx", settings=one.recipes(facts)[0].settings, folder=folder / "made",
                calibration=folder / "samples.npz", keep_float=keep)  # fmt: skip
    return onnx.load(str(one.apply(task).model)), feeds


@pytest.mark.parametrize("kind", KINDS)
def test_a_spared_layer_stays_in_float_in_the_engine(tmp_path, kind):
    path = write_network(tmp_path / "net.onnx", kind)
    model, feeds = quantize(path, tmp_path)
    expected = infer(str(path), feeds)
    as_written, as_run = infer(model, feeds, level="DISABLE_ALL"), infer(model, feeds)
    assert snr_db(expected, as_written) > 20, "the file itself is sound"
    assert snr_db(expected, as_run) > 20, "and so is what the engine makes of it"


@pytest.mark.parametrize("kind", ["conv", "gemm"])
def test_without_that_the_engine_ruins_it(tmp_path, kind, monkeypatch):
    # Where this fails, onnxruntime does it no more, and the remedy is not needed.
    monkeypatch.setattr("edgewise.optimizing.passes.ort_static.protect_float_layers", lambda model: 0)
    path = write_network(tmp_path / "net.onnx", kind)
    model, feeds = quantize(path, tmp_path)
    expected = infer(str(path), feeds)
    assert snr_db(expected, infer(model, feeds)) < 10
    assert protect_float_layers(model) == 1
    onnx.checker.check_model(model)
    assert snr_db(expected, infer(model, feeds)) > 20


@pytest.mark.parametrize("kind", KINDS)
def test_it_changes_no_number_and_nothing_the_second_time(tmp_path, kind, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("edgewise.optimizing.passes.ort_static.protect_float_layers", lambda model: 0)
        model, feeds = quantize(write_network(tmp_path / "net.onnx", kind), tmp_path)
    before = infer(model, feeds, level="DISABLE_ALL")
    assert protect_float_layers(model) == 1 and protect_float_layers(model) == 0
    assert np.array_equal(before, infer(model, feeds, level="DISABLE_ALL"))


def test_a_network_without_spared_layers_is_left_as_it_is(tmp_path):
    model, _ = quantize(write_network(tmp_path / "net.onnx", "conv"), tmp_path, keep=())
    content = model.SerializeToString()
    assert protect_float_layers(model) == 0 and model.SerializeToString() == content


def test_nncf_spares_a_layer_in_the_engine_too(tmp_path):
    pytest.importorskip("nncf", reason="nncf is not installed")
    path = write_network(tmp_path / "net.onnx", "conv")
    model, feeds = quantize(path, tmp_path, name="nncf-ptq")
    assert snr_db(infer(str(path), feeds), infer(model, feeds)) > 20
