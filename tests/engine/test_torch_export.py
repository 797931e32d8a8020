"""PyTorch's own programs: what `torch.export` writes, and how many floating-point operations PyTorch counts in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch import nn  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from edgewise.converting.conversion import export_runnable  # noqa: E402
from edgewise.errors import BadInput  # noqa: E402
from edgewise.model.build import build_graph, give_shapes  # noqa: E402
from edgewise.model.cost import cost_of, total_of  # noqa: E402
from edgewise.model.graph import Graph  # noqa: E402
from edgewise.model.readers.base import HEAD_BYTES  # noqa: E402
from edgewise.model.readers.torch import TorchReader  # noqa: E402

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore")]

READER = TorchReader()


class Residual(nn.Module):
    """Convolutions of every sort around a sum."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU6())
        self.deep = nn.Conv2d(8, 8, 3, padding="same", groups=8)
        self.mix = nn.Conv2d(8, 8, 1, groups=2)
        self.up = nn.ConvTranspose2d(8, 4, 3, stride=2, output_padding=1)
        self.norm = nn.GroupNorm(2, 4)

    def forward(self, x):
        x = self.stem(x)
        x = x + self.mix(nn.functional.silu(self.deep(x)))
        x = nn.functional.max_pool2d(self.norm(self.up(x)), 2)
        return nn.functional.adaptive_avg_pool2d(x, 1).flatten(1).softmax(1)


class Encoder(nn.Module):
    """A transformer with a class token, over an embedding."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(40, 16)
        self.token = nn.Parameter(torch.zeros(1, 1, 16))
        layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, activation="gelu")
        self.layers = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), self.embed(x)], 1)
        return self.head(self.layers(x)[:, 0])


class Sequence(nn.Module):
    """Recurrent layers, stacked and in both directions."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(6, 5, num_layers=2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(10, 4)
        self.rnn = nn.RNN(4, 3, nonlinearity="relu", bias=False)

    def forward(self, x):
        x, _ = self.lstm(x)
        x, _ = self.gru(x)
        return self.rnn(x)[0].log_softmax(-1)


class Signal(nn.Module):
    """One- and three-dimensional layers, products, and layers without a class."""

    def __init__(self):
        super().__init__()
        self.one, self.three = nn.Conv1d(4, 6, 3, dilation=2), nn.Conv3d(1, 2, (1, 2, 3))
        self.scale = nn.Parameter(torch.ones(6, 1))

    def forward(self, x):
        y = self.one(x) * self.scale
        z = self.three(y[:, None, :, None, :].expand(-1, -1, -1, 4, -1))
        pairs = torch.einsum("bct,bdt->bcd", y, y) @ torch.baddbmm(y @ y.mT, y, y.mT, alpha=0.5)
        return pairs, nn.functional.interpolate(z, scale_factor=2), y.std(-1), y.clamp(0, 1).argmax(1)


class Choice(nn.Module):
    """A branch."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(4, 4)

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda y: self.gate(y).relu(), lambda y: self.gate(y) * 2.0, (x,))


MODELS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "residual": (Residual, (torch.zeros(2, 3, 16, 16),)),
    "encoder": (Encoder, (torch.zeros(2, 7, dtype=torch.long),)),
    "sequence": (Sequence, (torch.zeros(3, 4, 6),)),
    "signal": (Signal, (torch.zeros(2, 4, 12),)),
    "choice": (Choice, (torch.zeros(3, 4),)),
}


def save(name: str, path: Path, *, dynamic: bool = False, core: bool = False) -> tuple[Any, Graph]:
    make, inputs = MODELS[name]
    torch.manual_seed(0)
    module = make().eval()
    shapes = ({0: torch.export.Dim("n", min=2, max=64)},) if dynamic else None
    program = torch.export.export(module, inputs, dynamic_shapes=shapes)
    torch.export.save(program.run_decompositions() if core else program, path)
    return module, READER.read_graph(path)


@pytest.mark.parametrize("core", [False, True], ids=["as exported", "core operators"])
@pytest.mark.parametrize("name", MODELS)
def test_nothing_of_an_export_is_unknown(name: str, core: bool, tmp_path: Path):
    path = tmp_path / "m.pt2"
    module, made = save(name, path, core=core)
    with path.open("rb") as stream:
        assert READER.sniff(stream.read(HEAD_BYTES), path)
    assert [(each.op, cost_of(each, made).why) for each in made.operators if not each.kind] == []
    assert READER.read_signature(path).outputs
    for operator in made.operators:
        json.dumps(dict(operator.attributes), allow_nan=False)
    assert {name for name, tensor in made.tensors.items() if tensor.constant} >= set(dict(module.named_parameters()))


@pytest.mark.parametrize("core", [False, True], ids=["as exported", "core operators"])
@pytest.mark.parametrize("name", ["residual", "encoder", "sequence", "signal"])
def test_parameters_are_those_of_the_module(name: str, core: bool, tmp_path: Path):
    module, made = save(name, tmp_path / "m.pt2", core=core)
    running = sum(each.numel() for key, each in module.named_buffers() if "running" in key)
    assert total_of(made).parameters == sum(each.numel() for each in module.parameters()) + running


@pytest.mark.parametrize("name", ["residual", "encoder", "signal"])
def test_macs_are_half_of_the_operations_that_pytorch_counts(name: str, tmp_path: Path):
    module, made = save(name, tmp_path / "m.pt2")
    with (
        FlopCounterMode(display=False) as counter,
        torch.no_grad(),
        torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH),
    ):
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            module(*MODELS[name][1])
        finally:
            torch.backends.mha.set_fastpath_enabled(True)
    assert total_of(made).macs * 2 == counter.get_total_flops()


def test_recurrent_macs_are_those_of_its_products(tmp_path: Path):
    _, made = save("sequence", tmp_path / "m.pt2")
    # Two LSTM layers over 4 steps of 3 sequences, in both directions: 4 · 5 · (6 + 5), then 4 · 5 · (10 + 5).
    lstm = 24 * (220 + 300)
    # 12 cells of the GRU (3 · 4 · (10 + 4)) and of the RNN (3 · (4 + 3)).
    macs = [cost_of(each, made).macs for each in made.operators]
    assert [each for each in macs if each] == [lstm, 12 * 168, 12 * 21]


@pytest.mark.parametrize("name", ["residual", "encoder", "signal", "choice"])
def test_open_batches_take_the_shape_that_is_given(name: str, tmp_path: Path):
    _, fixed = save(name, tmp_path / "fixed.pt2")
    path = tmp_path / "open.pt2"
    _, loose = save(name, path, dynamic=True)
    assert total_of(loose).macs is None
    given = MODELS[name][1][0].shape
    bound = READER.read_graph(path, shapes={loose.inputs[0]: tuple(given)})
    assert total_of(bound).macs == total_of(fixed).macs
    assert total_of(bound).ops == total_of(fixed).ops


def test_reference_quantisation_is_read(tmp_path: Path):
    import torch.ao.quantization.fx._decomposed

    class Quantized(nn.Module):
        def forward(self, x):
            small = torch.ops.quantized_decomposed.quantize_per_tensor(x, 0.1, 3, -128, 127, torch.int8)
            return torch.ops.quantized_decomposed.dequantize_per_tensor(small, 0.1, 3, -128, 127, torch.int8)

    path = tmp_path / "q.pt2"
    torch.export.save(torch.export.export(Quantized(), (torch.zeros(4),)), path)
    made = READER.read_graph(path)
    assert [each.kind for each in made.operators] == ["quantize", "dequantize"]
    assert made.tensors["quantize_per_tensor"].quantization.scale == 0.1
    assert made.tensors["quantize_per_tensor"].dtype == "int8"


FACTORY = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, width=4, deep=False):
        super().__init__()
        self.first = nn.Linear(6, width)
        self.second = nn.Linear(width, width) if deep else nn.Identity()
    def forward(self, x, bias=None):
        y = self.second(self.first(x).relu())
        return y if bias is None else y + bias

def with_inputs(width=4, deep=False):
    return Net(width, deep), (torch.zeros(2, 6),)

def lightning(width=4):
    net = Net(width)
    net.example_input_array = torch.zeros(3, 6)
    return net

def exported():
    return torch.export.export(Net(), (torch.zeros(5, 6),))

class Branch(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        return -x

def branching():
    return Branch(), torch.zeros(2)
"""


@pytest.fixture
def factory(tmp_path: Path) -> str:
    file = tmp_path / "nets.py"
    file.write_text(FACTORY)
    return str(file)


@pytest.mark.parametrize(
    ("name", "what_if", "shapes", "macs"),
    [
        ("with_inputs", {}, {}, 2 * 24),
        ("with_inputs", {"width": 8, "deep": True}, {}, 2 * (48 + 64)),
        ("with_inputs", {}, {"x": (7, 6)}, 7 * 24),
        ("lightning", {"width": 2}, {}, 3 * 12),
        ("Net", {}, {"x": (1, 6)}, 24),
        ("Net", {}, {"": (1, 6)}, 24),
        ("exported", {}, {}, 5 * 24),
    ],
)
def test_modules_are_built(factory: str, name: str, what_if: dict[str, Any], shapes: dict[str, Any], macs: int):
    built = build_graph(f"{factory}:{name}", what_if=what_if, shapes=shapes)
    assert total_of(built.graph).macs == macs
    assert built.thing == ("a PyTorch export" if name == "exported" else "a PyTorch module")
    assert built.source["built"]["parameters"] == what_if


def test_a_built_network_takes_other_shapes(factory: str):
    built = build_graph(f"{factory}:with_inputs")
    assert total_of(give_shapes(built, {"x": (11, 6)}).graph).macs == 11 * 24


@pytest.mark.parametrize(
    ("name", "shapes", "words"),
    [
        ("Net", {}, "without example inputs"),
        ("Net", {"y": (1, 6)}, "has no input 'y'"),
        ("branching", {}, "torch.export can't export it"),
        ("with_inputs", {"bias": (4,)}, "not a tensor in its example inputs"),
    ],
)
def test_modules_that_can_not_be_exported_are_explained(factory: str, name: str, shapes: dict[str, Any], words: str):
    with pytest.raises(BadInput, match=words) as caught:
        build_graph(f"{factory}:{name}", shapes=shapes)
    assert caught.value.advice


def test_a_module_stays_as_it_was(factory: str):
    built = build_graph(f"{factory}:with_inputs")
    assert built.made.value.training


@pytest.mark.parametrize("name", ["with_inputs", "exported"])
def test_a_built_module_is_written_as_onnx(factory: str, name: str, tmp_path: Path):
    pytest.importorskip("onnxscript", reason="onnxscript, with which PyTorch writes ONNX, is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    built = build_graph(f"{factory}:{name}")
    path = export_runnable(built, tmp_path)
    session = runtime.InferenceSession(path)
    feed = {each.name: torch.ones(each.shape).numpy() for each in session.get_inputs()}
    module = built.made.value.module() if name == "exported" else built.made.value
    expected = module(*(torch.from_numpy(each) for each in feed.values())).detach()
    assert torch.allclose(torch.from_numpy(session.run(None, feed)[0]), expected, atol=1e-5)


def test_a_failed_export_prints_nothing_but_its_error(capfd):
    from edgewise.model.build_network import export_program
    from edgewise.model.model_object import describe_object

    network = describe_object((torch.nn.Linear(64, 10), torch.zeros(1, 32)))
    with pytest.raises(BadInput, match="can't export it: RuntimeError: a and b must have same reduction dim"):
        export_program(network, {}, "wrong")
    assert capfd.readouterr() == ("", "")
