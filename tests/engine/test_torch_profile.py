"""Layers of PyTorch: which rows a profile has, and that every operator, MAC and microsecond is in one of them."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

from edgewise.model.cost import total_of  # noqa: E402
from edgewise.model.eager import write_module  # noqa: E402
from edgewise.model.model_object import ModelObject  # noqa: E402
from edgewise.model.readers.torch import TorchReader  # noqa: E402
from edgewise.profiling.layers import NAMELESS, build_profile  # noqa: E402
from edgewise.profiling.module_operators import graph_of_steps  # noqa: E402
from edgewise.runtime.base import LoadOptions  # noqa: E402
from edgewise.runtime.torch import Torch  # noqa: E402
from edgewise.runtime.torch_profile import profile_torch  # noqa: E402

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore")]


class Perceptron(nn.Module):
    """Linear layers alone."""

    inputs = (torch.zeros(1, 16),)

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))

    def forward(self, x):
        return self.layers(x)


class Convolutional(nn.Module):
    """Functions of the module itself between its layers; one layer is used twice."""

    inputs = (torch.zeros(1, 3, 16, 16),)

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.again = nn.Conv2d(8, 8, 3, padding=1)
        self.last = nn.Linear(8, 4)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.first(x)), 2)
        x = torch.relu(self.again(F.relu(self.again(x))))
        return F.log_softmax(self.last(x.mean((2, 3))), dim=1)


class Mobile(nn.Module):
    """An inverted bottleneck with its batch norms."""

    inputs = (torch.zeros(1, 8, 12, 12),)

    def __init__(self):
        super().__init__()
        self.expand = nn.Sequential(nn.Conv2d(8, 16, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU6())
        self.deep = nn.Sequential(
            nn.Conv2d(16, 16, 3, padding=1, groups=16, bias=False), nn.BatchNorm2d(16), nn.ReLU6()
        )
        self.project = nn.Sequential(nn.Conv2d(16, 8, 1, bias=False), nn.BatchNorm2d(8))
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        x = x + self.project(self.deep(self.expand(x)))
        return self.head(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


def layers_of(call, graph, inputs, **given):
    """Layers and totals of 6 inferences; `graph` is None where the network could not be exported."""
    with torch.inference_mode():
        profile = profile_torch(lambda: call(*inputs), 6, **given)
    latency = sum(profile.unprofiled_ns) / len(profile.unprofiled_ns) * 1e-9
    if graph is None:
        graph = graph_of_steps(profile.nodes, "eager", because="a branch on values")
    return build_profile(graph, [profile], latency=latency)


def export(module, inputs, folder):
    """The path of its `.pt2`, and its graph."""
    path = folder / "model.pt2"
    with torch.no_grad():
        torch.export.save(torch.export.export(module, inputs), path)
    return path, TorchReader().read_graph(path)


@pytest.mark.parametrize("kind", [Perceptron, Convolutional, Mobile])
@pytest.mark.parametrize("exported", [False, True], ids=["module", "exported"])
def test_every_operator_has_a_row_and_the_parts_add_up(tmp_path, kind, exported):
    module = kind().eval()
    path, graph = export(module, module.inputs, tmp_path)
    call = torch.export.load(path).module() if exported else module
    layers, profile = layers_of(call, graph, module.inputs, module=None if exported else module)
    rows = [layer for layer in layers if layer.kind == "operator"]
    assert [layer.nodes for layer in rows] == [(operator.name,) for operator in graph.operators]
    assert not [layer for layer in layers if layer.op == NAMELESS]
    assert sum(layer.macs for layer in rows) == total_of(graph).macs
    assert {layer.name for layer in layers if layer.kind == "overhead"} <= {"between operators"}
    assert sum(layer.share for layer in layers if layer.share) == pytest.approx(profile.conservation)
    assert profile.operators_time + profile.overheads_time + profile.unattributed == pytest.approx(profile.latency)


def test_rows_are_labelled_with_their_modules(tmp_path):
    module = Mobile().eval()
    _, graph = export(module, module.inputs, tmp_path)
    layers, _ = layers_of(module, graph, module.inputs, module=module)
    labels = [layer.title for layer in layers if layer.kind == "operator"]
    assert labels[:4] == ["expand.0/conv2d", "expand.1/batch_norm", "expand.2/hardtanh", "deep.0/conv2d_1"]
    assert labels[-1] == "head/linear"
    assert "forward" not in vars(module.expand)


def test_a_layer_that_runs_in_one_call_has_all_operators_of_its_module(tmp_path):
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    inputs = (torch.zeros(1, 8, 16),)
    _, graph = export(encoder, inputs, tmp_path)
    layers, _ = layers_of(encoder, graph, inputs, module=encoder)
    rows = [layer for layer in layers if layer.kind == "operator"]
    assert [layer.engine_op for layer in rows] == ["aten::_transformer_encoder_layer_fwd"] * 2
    assert [len(layer.nodes) for layer in rows] == [len(graph.operators) // 2] * 2
    assert sum(layer.macs for layer in rows) == total_of(graph).macs


def test_a_module_that_cannot_be_exported_has_rows_by_module():
    module = Mobile().eval()
    layers, _ = layers_of(module, None, module.inputs, module=module)
    rows = [layer for layer in layers if layer.kind == "operator"]
    assert [layer.name for layer in rows[:3]] == ["expand.0/conv2d", "expand.1/batch_norm", "expand.2/hardtanh"]
    assert [layer.name for layer in rows[-4:]] == ["add", "adaptive_avg_pool2d", "flatten", "head/linear"]
    assert {(layer.macs, layer.parameters, layer.weight_bytes) for layer in rows} == {(None, None, None)}
    assert "a branch on values" in rows[0].cost_unknown_because


@pytest.mark.parametrize("provider", ["compile", "aoti"])
def test_compiled_code_is_attributed_by_inductors_own_table(tmp_path, provider):
    module = Convolutional().eval()
    _, graph = export(module, module.inputs, tmp_path)
    made = ModelObject("torch", "a PyTorch module", module, module.inputs)
    path = write_module(made, tmp_path, name="net")
    session = Torch().load(path, LoadOptions(provider=provider, threads=1, profile=True))
    arrays = [tensor.numpy() for tensor in module.inputs]
    try:
        # As the worker does it: the second binding needs no other code.
        session.bind(arrays)
        session.compile()
        calls = len(session._recorder.kernels)
        session.bind(arrays)
        session.invoke()
        assert len(session._recorder.kernels) == calls > 0
        found = session.profile_layers(6)
    finally:
        session.close()
    layers, profile = build_profile(graph, [found], latency=sum(found.unprofiled_ns) / len(found.unprofiled_ns) * 1e-9)
    rows = [layer for layer in layers if layer.kind == "operator"]
    assert sum(layer.macs for layer in rows) == total_of(graph).macs
    assert not [layer for layer in layers if layer.op == NAMELESS]
    executed = {name for layer in rows for name in layer.nodes}
    assert {"relu", "relu_1", "relu_2", "max_pool2d", "log_softmax"} <= executed
    fused = next(layer for layer in rows if "max_pool2d" in layer.nodes)
    assert "relu" in fused.nodes and "cpp_fused" in fused.engine_op
    assert sum(layer.share for layer in layers if layer.share) == pytest.approx(profile.conservation)
