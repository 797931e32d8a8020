"""Keras' own shapes and parameters, layer by layer, against those that follow from its configuration files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

os.environ.setdefault("KERAS_BACKEND", "torch")
pytest.importorskip("torch", reason="PyTorch, which stands behind Keras here, is not installed")
keras = pytest.importorskip("keras", reason="Keras is not installed")

from edgewise.converting.conversion import export_runnable  # noqa: E402
from edgewise.errors import BadInput  # noqa: E402
from edgewise.model.build import build_graph  # noqa: E402
from edgewise.model.cost import cost_of, total_of  # noqa: E402
from edgewise.model.dialects.base import RARE  # noqa: E402
from edgewise.model.graph import Graph  # noqa: E402
from edgewise.model.readers.keras import KerasReader  # noqa: E402

L = keras.layers

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore")]


def lenet():
    return keras.Sequential([
        keras.Input((28, 28, 1)), L.Conv2D(6, 5, padding="same", activation="tanh"), L.AveragePooling2D(2),
        L.Conv2D(16, 5, activation="tanh"), L.AveragePooling2D(2), L.Flatten(), L.Dense(120, activation="tanh"),
        L.Dense(84), L.PReLU(), L.Dense(10, activation="softmax"),
    ])  # fmt: skip


def mobilenet():
    return keras.applications.MobileNetV2((64, 64, 3), alpha=0.35, weights=None, classes=7)


def efficientnet():
    return keras.applications.EfficientNetB0(input_shape=(64, 64, 3), weights=None, classes=5)


def densenet():
    return keras.applications.DenseNet121(input_shape=(64, 64, 3), weights=None, include_top=False, pooling="avg")


def xception():
    return keras.applications.Xception(input_shape=(71, 71, 3), weights=None, classes=3)


def unet():
    start = keras.Input((32, 48, 3))
    a = L.SeparableConv2D(8, 3, padding="same", activation="relu", depth_multiplier=2)(start)
    b = L.MaxPooling2D(2, padding="same")(a)
    b = L.Conv2D(16, 3, strides=2, padding="same", groups=4)(b)
    b = L.GroupNormalization(4)(b)
    b = L.Conv2DTranspose(8, 3, strides=2, padding="same")(b)
    b = L.Conv2DTranspose(8, 4, strides=2, padding="valid", output_padding=1)(b)
    b = L.Cropping2D(((1, 2), (2, 1)))(b)
    c = L.Concatenate()([a, b])
    c = L.UpSampling2D(2, interpolation="bilinear")(c)
    c = L.ZeroPadding2D((1, 2))(c)
    c = L.Conv2D(2, (3, 2), dilation_rate=2, use_bias=False)(c)
    c = L.SpatialDropout2D(0.1)(L.LeakyReLU()(c))
    return keras.Model(start, [c, L.GlobalMaxPooling2D(keepdims=True)(c)])


def channels_first():
    start = keras.Input((3, 20, 24))
    x = L.Conv2D(4, 3, data_format="channels_first", padding="same", strides=2)(start)
    x = L.BatchNormalization(axis=1)(x)
    x = L.DepthwiseConv2D(3, depth_multiplier=2, data_format="channels_first")(x)
    x = L.MaxPooling2D(2, strides=1, data_format="channels_first")(x)
    return keras.Model(start, L.GlobalAveragePooling2D(data_format="channels_first")(x))


def transformer():
    start = keras.Input((12,), dtype="int32")
    x = L.Embedding(50, 16)(start)
    y = L.MultiHeadAttention(4, 8, value_dim=6, output_shape=16)(x, x)
    x = L.LayerNormalization()(L.Add()([x, y]))
    y = L.GroupQueryAttention(8, 4, 2)(x, x)
    x = L.RMSNormalization()(L.Average()([x, y]))
    y = L.Attention(use_scale=True)([x, x, x])
    y = L.AdditiveAttention()([y, x])
    y = L.EinsumDense("abc,cd->abd", output_shape=(None, 20), bias_axes="d", activation="gelu")(y)
    y = L.EinsumDense("...x,xy->...y", output_shape=16)(y)
    return keras.Model(start, L.Dense(3)(L.GlobalAveragePooling1D()(L.Multiply()([x, y]))))


def recurrent():
    start = keras.Input((10, 6))
    x = L.Bidirectional(L.LSTM(5, return_sequences=True))(start)
    x = L.Bidirectional(L.GRU(4, return_sequences=True, reset_after=False), merge_mode="sum")(x)
    x, state = L.GRU(7, return_sequences=True, return_state=True)(x)
    x = L.RNN(L.StackedRNNCells([L.LSTMCell(3), L.LSTMCell(4)]), return_sequences=True)(x)
    x = L.SimpleRNN(6, use_bias=False)(x)
    return keras.Model(start, [x, state])


def sequences():
    start = keras.Input((6, 20, 8))
    x = L.TimeDistributed(L.Conv1D(4, 3, padding="causal"))(start)
    x = L.TimeDistributed(keras.Sequential([L.Flatten(), L.Dense(5)]))(x)
    x = L.ConvLSTM1D(3, 3, padding="same", return_sequences=True)(L.Reshape((6, 5, 1))(x))
    x = L.Permute((2, 1, 3))(x)
    x = L.Flatten()(x)
    x = L.RepeatVector(4)(x)
    x = L.Conv1DTranspose(6, 4, strides=3)(x)
    x = L.Cropping1D((1, 1))(L.UpSampling1D(2)(L.ZeroPadding1D(3)(x)))
    x = L.SeparableConv1D(5, 3)(x)
    x = L.DepthwiseConv1D(3, strides=2)(x)
    return keras.Model(start, L.AveragePooling1D(3, strides=2)(x))


def volumes():
    return keras.Sequential([
        keras.Input((9, 10, 11, 2)), L.Conv3D(4, (3, 2, 3), strides=(1, 2, 2)), L.MaxPooling3D(2),
        L.Conv3DTranspose(3, 3, strides=2, padding="same"), L.Cropping3D(1), L.ZeroPadding3D((1, 0, 2)),
        L.UpSampling3D((1, 2, 1)), L.BatchNormalization(center=False, scale=False), L.GlobalMaxPooling3D(),
    ])  # fmt: skip


def nested():
    block = keras.Sequential([L.Dense(8, activation="relu"), L.Dropout(0.2), L.Dense(8)], name="block")
    first, second = keras.Input((8,)), keras.Input((8,))
    head = keras.Model(inner := keras.Input((8,)), [L.Dense(3)(inner), L.Dense(2, use_bias=False)(inner)], name="head")
    joined = L.Subtract()([block(first), block(second)])
    a, b = head(joined)
    return keras.Model([first, second], [a, b, L.Dot(axes=1)([first, second])])


def operations():
    start = keras.Input((4, 6))
    x = keras.ops.relu(start) * 2.0 + start
    x = keras.ops.transpose(x, (0, 2, 1))
    x = keras.ops.matmul(start, x)
    y = keras.ops.mean(x, axis=1, keepdims=True)
    x = keras.ops.expand_dims(x - y, axis=-1)
    x = keras.ops.reshape(x, (-1, 16))
    return keras.Model(start, keras.ops.softmax(x[:, 2:9]))


def preprocessing():
    return keras.Sequential([
        keras.Input((40, 30, 3)), L.Rescaling(1 / 255), L.Resizing(24, 20), L.CenterCrop(20, 16),
        L.Normalization(mean=[0.1, 0.2, 0.3], variance=[1.0, 1.0, 1.0]), L.RandomFlip(), L.AdaptiveAveragePooling2D((5, 4)),
        L.UnitNormalization(), L.Flatten(), L.Masking(), L.ELU(), L.GaussianNoise(0.1), L.Softmax(),
    ])  # fmt: skip


MODELS = [
    lenet, mobilenet, efficientnet, densenet, xception, unet, channels_first, transformer, recurrent, sequences, volumes,
    nested, operations, preprocessing,
]  # fmt: skip


#: Real architectures take some seconds to build.
LARGE = (mobilenet, efficientnet, densenet, xception)


@pytest.fixture(
    scope="module",
    params=[pytest.param(make, marks=[pytest.mark.slow] if make in LARGE else []) for make in MODELS],
    ids=[make.__name__ for make in MODELS],
)
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[object, Graph, Path]:
    keras.utils.clear_session()
    make: Callable[[], object] = request.param
    model = make()
    path = tmp_path_factory.mktemp("keras") / "m.keras"
    model.save(path)
    return model, KerasReader().read_graph(path), path


def calls(model: object, prefix: str = "") -> Iterator[tuple[str, object]]:
    """Path and layer of every layer, models in models opened."""
    for layer in model.layers:
        if isinstance(layer, keras.layers.InputLayer):
            continue
        path = prefix + layer.name
        if isinstance(layer, keras.Model | keras.Sequential):
            yield from calls(layer, f"{path}/")
        else:
            yield path, layer


def parameters(graph: Graph, path: str) -> int:
    """Elements of the weights under `path`, those of inner graphs among them."""
    names = {name: tensor for name, tensor in graph.tensors.items() if tensor.constant and name.startswith(path + "/")}
    return sum(tensor.elements for tensor in names.values()) + sum(
        parameters(inner, path) for inner in graph.subgraphs.values()
    )


def test_every_layer_has_keras_own_parameters(saved: tuple[object, Graph, Path]):
    model, graph, _ = saved
    ours = {path: parameters(graph, path) for path, _ in calls(model)}
    assert ours == {path: layer.count_params() for path, layer in calls(model)}
    assert total_of(graph).parameters == model.count_params()


def test_every_layer_has_keras_own_output_shape(saved: tuple[object, Graph, Path]):
    model, graph, _ = saved
    last = {}
    for operator in graph.operators:
        for path in parents(operator.attributes["layer"]):
            last[path] = operator
    compared = 0
    for path, layer in calls(model):
        shapes = layer.output.shape if not isinstance(layer.output, list | tuple) else layer.output[0].shape
        if path in last and len(getattr(layer, "_inbound_nodes", [])) == 1:
            # Keras leaves open what an EinsumDense keeps of its input's shape.
            pairs = list(zip(graph.tensors[last[path].outputs[0]].shape, shapes, strict=True))
            assert all(ours == theirs or (theirs is None and ours == 12) for ours, theirs in pairs), (path, pairs)
            compared += 1
    assert compared >= len(list(calls(model))) * 0.6
    assert [graph.tensors[name].shape for name in graph.outputs] == [tuple(each.shape) for each in model.outputs]


def parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[: at + 1]) for at in range(len(parts))]


RARE_LAYERS = {"AdditiveAttention", "ConvLSTM1D"}
"""Their operations are not counted (docs/costs.md)."""


def test_every_cost_is_known_once_the_batch_is(saved: tuple[object, Graph, Path]):
    _, graph, path = saved
    shapes = {name: (2, *graph.tensors[name].shape[1:]) for name in graph.inputs}
    graph = KerasReader().read_graph(path, shapes=shapes)
    unknown = {each.op: cost_of(each, graph).why for each in graph.operators if cost_of(each, graph).ops is None}
    assert set(unknown) <= RARE_LAYERS and all(RARE in why for why in unknown.values())


FACTORY = """
import keras

def functional(units=4):
    start = keras.Input((6,), name="x")
    return keras.Model(start, keras.layers.Dense(units)(start))

def sequential(units=4):
    return keras.Sequential([keras.Input((6,), name="x"), keras.layers.Dense(units, activation="softmax")])

class Own(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(3)
    def call(self, x):
        return self.dense(x)
"""


@pytest.fixture
def factory(tmp_path: Path) -> str:
    file = tmp_path / "nets.py"
    file.write_text(FACTORY)
    return str(file)


@pytest.mark.parametrize("name", ["functional", "sequential"])
def test_models_are_built(factory: str, name: str):
    built = build_graph(f"{factory}:{name}", what_if={"units": 5}, shapes={"": (2, 6)})
    assert total_of(built.graph).macs == 2 * 30
    assert built.thing == "a Keras model"


def test_a_class_of_its_own_is_explained(factory: str):
    with pytest.raises(BadInput, match="Python code") as caught:
        build_graph(f"{factory}:Own")
    assert caught.value.advice


def test_a_built_model_is_written_as_onnx(factory: str, tmp_path: Path):
    pytest.importorskip("onnxscript", reason="onnxscript, with which Keras writes ONNX, is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    built = build_graph(f"{factory}:sequential")
    session = runtime.InferenceSession(export_runnable(built, tmp_path))
    ones = keras.ops.convert_to_numpy(keras.ops.ones((1, 6)))
    made = session.run(None, {session.get_inputs()[0].name: ones})[0]
    assert abs(made - keras.ops.convert_to_numpy(built.made.value(ones))).max() < 1e-5
