"""The passes on PyTorch modules, on a small network that is trained here on scikit-learn's digits."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("onnxscript", reason="onnxscript, which PyTorch writes ONNX with, is not installed")
datasets = pytest.importorskip("sklearn.datasets", reason="scikit-learn is not installed")

# Imports stand behind the checks for the libraries that they need (E402).
from edgewise.errors import BadInput  # noqa: E402
from edgewise.model.build import build_graph  # noqa: E402
from edgewise.model.cost import total_of  # noqa: E402
from edgewise.model.identity import read_graph  # noqa: E402
from edgewise.optimizing.base import CannotApply, PassResult, PassSettings, PassTask, passes  # noqa: E402
from edgewise.optimizing.calibration import write_calibration  # noqa: E402
from edgewise.optimizing.passes.torch_agreement import check_agreement  # noqa: E402
from edgewise.optimizing.passes.torch_training import (  # noqa: E402
    TrainingData,
    TrainingSettings,
    find_loss,
    make_training_data,
    train,
)
from messages import says  # noqa: E402
from pass_settings import settings_of  # noqa: E402

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

CODE = '''
from pathlib import Path

import numpy as np
import torch
from torch import nn


class Net(nn.Module):
    """A stem, a residual block of a depthwise and a pointwise convolution, a head."""

    def __init__(self, width=32):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.down = nn.Sequential(nn.Conv2d(width, width, 3, padding=1, stride=2), nn.ReLU())
        self.depthwise = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.pointwise = nn.Conv2d(width, width, 1)
        self.head = nn.Linear(width, 10)

    def forward(self, image):
        x = self.down(self.stem(image))
        x = x + self.pointwise(self.depthwise(x).relu()).relu()
        return self.head(x.mean((2, 3)))


def load(net):
    with np.load(Path(__file__).parent / "weights.npz") as data:
        net.load_state_dict({name: torch.from_numpy(data[name]) for name in data.files})
    return net


def trained():
    return load(Net()), torch.zeros(1, 1, 8, 8)


def bare():
    return load(Net())


def probabilities():
    return nn.Sequential(load(Net()), nn.Softmax(1)), torch.zeros(1, 1, 8, 8)


def exported():
    return torch.export.export(load(Net()).eval(), (torch.zeros(1, 1, 8, 8),))


class Stubborn(nn.Module):
    """Its code rests on the width of its first layer."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(64, 32), nn.Linear(32, 10)

    def forward(self, image):
        return self.second(self.first(image.flatten(1)).reshape(-1, 4, 8).flatten(1))


def stubborn():
    return Stubborn(), torch.zeros(1, 1, 8, 8)


def single():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), torch.zeros(1, 1, 8, 8)


def other():
    return b"rubbish"
'''


@pytest.fixture(scope="session")
def digits() -> dict[str, Any]:
    """8×8 images 0..1 in a fixed order: 1,200 to train on, the others to judge by."""
    raw = datasets.load_digits()
    order = np.random.default_rng(0).permutation(len(raw.target))
    images = (raw.images[order][:, None] / 16).astype(np.float32)
    labels = raw.target[order].astype(np.int64)
    return {"x": images[:1200], "y": labels[:1200], "test_x": images[1200:], "test_y": labels[1200:]}


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory, digits: dict[str, Any]) -> Path:
    """A folder with ``net.py`` and the weights of its trained network."""
    folder = tmp_path_factory.mktemp("net")
    (folder / "net.py").write_text(CODE)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net, images, labels = code_of(folder).Net(), torch.from_numpy(digits["x"]), torch.from_numpy(digits["y"])
    data = TrainingData(inputs=(images,), targets=(torch.zeros(len(labels), 10),), labels=labels, form="logits")
    train(net, data, TrainingSettings(epochs=20, batch=32, learning_rate=5e-3, soft=0.0), seed=0, max_seconds=300.0)
    np.savez(folder / "weights.npz", **{name: value.numpy() for name, value in net.state_dict().items()})
    return folder


def code_of(folder: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("net_of_the_tests", folder / "net.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def apply(home: Path, digits: dict[str, Any], tmp_path: Path) -> Callable[..., PassResult]:
    """Runs a pass on a factory of ``net.py``."""

    def run(
        name: str, factory: str = "trained", *, samples: int = 400, labels: bool = True, **options: Any
    ) -> PassResult:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        calibration = None
        if samples:
            calibration = folder.with_suffix(".npz")
            images, known = digits["x"][:samples], digits["y"][:samples].tolist()
            write_calibration(calibration, [[each[None]] for each in images], known if labels else None)
        one = passes().get(name)
        settings = settings_of(one, **options.pop("settings", {}))
        task = {"settings": settings, "calibration": calibration} | options
        return one.apply(PassTask(model=f"{home / 'net.py'}:{factory}", format="torch", folder=folder, **task))

    return run


def run_onnx(path: Path, images: Any) -> Any:
    evaluator = ReferenceEvaluator(str(path))
    name = evaluator.input_names[0]
    return np.concatenate([evaluator.run(None, {name: each[None]})[0] for each in images])


def accuracy(outputs: Any, digits: dict[str, Any]) -> float:
    return float((outputs.argmax(1) == digits["test_y"][: len(outputs)]).mean())


def accuracy_of(path: Path, digits: dict[str, Any]) -> float:
    return accuracy(run_onnx(path, digits["test_x"][:300]), digits)


@pytest.fixture(scope="session")
def original(home: Path, digits: dict[str, Any]) -> float:
    """Accuracy of the trained network."""
    with torch.no_grad():
        return accuracy(code_of(home).bare().eval()(torch.from_numpy(digits["test_x"][:300])).numpy(), digits)


def weights_of(path: Path) -> dict[str, Any]:
    return {each.name: numpy_helper.to_array(each) for each in onnx.load(path).graph.initializer}


def macs_of(target: str | Path) -> int:
    graph = read_graph(target) if isinstance(target, Path) else build_graph(target).graph
    macs = total_of(graph).macs
    assert macs is not None
    return macs


def test_the_original_is_worth_pruning(original):
    assert original > 0.95


def test_to_onnx_writes_what_the_module_computes(apply, home, digits):
    result = apply("torch-to-onnx")
    with torch.no_grad():
        wanted = code_of(home).bare().eval()(torch.from_numpy(digits["test_x"][:8])).numpy()
    np.testing.assert_allclose(run_onnx(result.model, digits["test_x"][:8]), wanted, atol=1e-4)
    assert max(each.version for each in onnx.load(result.model).opset_import) >= 17
    assert {"torch", "onnx", "onnxscript"} <= set(result.versions)


def test_to_onnx_opens_the_batch(apply, digits):
    path = apply("torch-to-onnx", settings={"open_batch": True}).model
    evaluator = ReferenceEvaluator(str(path))
    assert evaluator.run(None, {evaluator.input_names[0]: digits["test_x"][:3]})[0].shape == (3, 10)


def test_to_onnx_takes_exported_programs_and_needs_no_samples(apply, digits, original):
    result = apply("torch-to-onnx", "exported", samples=0)
    assert accuracy_of(result.model, digits) == pytest.approx(original, abs=0.005)
    with pytest.raises(CannotApply, match="whose shapes are fixed"):
        apply("torch-to-onnx", "exported", settings={"open_batch": True})


def test_shapes_stand_in_for_example_inputs(apply):
    with pytest.raises(BadInput, match="example inputs"):
        apply("torch-to-onnx", "bare")
    assert apply("torch-to-onnx", "bare", shapes={"image": (1, 1, 8, 8)}).model.is_file()


def test_what_is_no_module_is_refused(apply, tmp_path):
    with pytest.raises(BadInput):
        apply("torch-to-onnx", "other")
    (tmp_path / "a.pt2").write_text("rubbish")
    with pytest.raises(CannotApply, match=says("pytorch-cant-load-pt2-file")):
        passes().get("torch-to-onnx").apply(
            PassTask(model=str(tmp_path / "a.pt2"), format="torch", settings=PassSettings(), folder=tmp_path)
        )


def test_a_file_of_an_export_is_a_program_without_layers(home, digits, original, tmp_path):
    file = tmp_path / "net.pt2"
    torch.export.save(code_of(home).exported(), file)
    one = passes().get("torch-to-onnx")
    task = PassTask(model=str(file), format="torch", settings=settings_of(one), folder=tmp_path)
    assert accuracy_of(one.apply(task).model, digits) == pytest.approx(original, abs=0.005)
    with pytest.raises(CannotApply, match="layers"):
        passes().get("torch-prune").apply(task)


def test_a_file_that_computes_something_else_is_refused(apply, digits):
    path = apply("torch-to-onnx").model
    feed, right = digits["test_x"][:1], run_onnx(path, digits["test_x"][:1])
    assert "largest error" in check_agreement(path, [[feed]], [[right]])
    with pytest.raises(CannotApply, match="differs"):
        check_agreement(path, [[feed]], [[right + 0.05 * np.abs(right).max()]])
    with pytest.raises(CannotApply, match="shapes"):
        check_agreement(path, [[feed]], [[right[:, :9]]])
    with pytest.raises(CannotApply, match="differs"):
        check_agreement(path, [[feed]], [[right * np.nan]])


@pytest.mark.parametrize("name", ["torch-to-onnx", "torch-prune", "torch-distill"])
def test_samples_of_another_shape_or_type_are_named(name, apply, tmp_path):
    for number, wrong in enumerate((np.zeros((1, 8, 8, 1), np.float32), np.zeros((1, 1, 8, 8), np.int64))):
        file = tmp_path / f"wrong{number}.npz"
        write_calibration(file, [[wrong]] * 3, [0, 1, 2])
        with pytest.raises(BadInput, match="of the samples"):
            apply(name, calibration=file)


def test_half_of_the_channels_cost_little_accuracy(apply, home, digits, original):
    result = apply("torch-prune", samples=1200, settings={"ratio": 0.5})
    assert macs_of(result.model) < 0.5 * macs_of(f"{home / 'net.py'}:trained")
    assert accuracy_of(result.model, digits) >= original - 0.03
    assert any("multiply-accumulates" in note for note in result.notes)
    assert any("held-out" in note for note in result.notes)


def test_it_learns_without_labels_too(apply, digits, original):
    for factory in ("trained", "probabilities"):
        result = apply("torch-prune", factory, samples=1200, labels=False, settings={"ratio": 0.5})
        assert accuracy_of(result.model, digits) >= original - 0.04
        assert any("own outputs on 1200" in note and "labels" not in note for note in result.notes)


def test_without_training_it_is_worse(apply, digits, original):
    """The bound above is met by training, not by the network's being easy to prune."""
    result = apply("torch-prune", settings={"ratio": 0.5}, max_seconds=0.0)
    assert accuracy_of(result.model, digits) < original - 0.1
    assert any("limit of 0 s" in note for note in result.notes)
    assert any("cut the training short" in note for note in result.notes)


def test_the_same_seed_makes_the_same_weights(apply):
    quick = {"epochs": 2, "steps": 2}
    first, again, other = (
        weights_of(apply("torch-prune", samples=64, seed=seed, settings=quick).model) for seed in (1, 1, 2)
    )
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert any(not np.array_equal(first[name], other[name]) for name in first)


def kernels_of(path: Path) -> list[tuple[int, ...]]:
    """Shapes of the convolutions' kernels, in order: stem, down, depthwise, pointwise."""
    model = onnx.load(path)
    shapes = {each.name: tuple(each.dims) for each in model.graph.initializer}
    return [shapes[node.input[1]] for node in model.graph.node if node.op_type == "Conv"]


def test_kept_layers_stay_as_they_are_and_only_named_ones_change(apply):
    quick = {"epochs": 1, "steps": 1}
    assert kernels_of(apply("torch-prune", settings=quick).model)[:2] == [(16, 1, 3, 3), (16, 16, 3, 3)]
    kept = kernels_of(apply("torch-prune", settings=quick, keep_float=("conv2d_3",)).model)
    assert kept == [(16, 1, 3, 3), (32, 16, 3, 3), (32, 1, 3, 3), (32, 32, 1, 1)]
    with pytest.raises(CannotApply, match="no layer has channels"):  # it lies between the stem and the sum
        apply("torch-prune", settings=quick, keep_float=("conv2d_1",))
    with pytest.raises(BadInput, match="no operator"):
        apply("torch-prune", settings=quick, keep_float=("nobody",))
    only = kernels_of(apply("torch-prune", settings=quick, only=("conv2d",)).model)
    assert only[:2] == [(16, 1, 3, 3), (32, 16, 3, 3)]


@pytest.mark.parametrize(
    ("factory", "why"), [("stubborn", "fewer channels"), ("single", "no layer has channels"), ("exported", "layers")]
)
def test_what_cannot_be_pruned_says_why(factory, why, apply):
    with pytest.raises(CannotApply, match=why):
        apply("torch-prune", factory)


@pytest.mark.parametrize("name", ["torch-prune", "torch-distill", "torch-pt2e"])
def test_what_learns_or_observes_needs_samples(name, apply):
    if name == "torch-pt2e":
        pytest.importorskip("torchao", reason="torchao is not installed")
    with pytest.raises(CannotApply, match="needs samples"):
        apply(name, samples=0)


def test_labels_that_are_no_classes_are_refused(apply, digits, tmp_path):
    file = tmp_path / "labels.npz"
    write_calibration(file, [[each[None]] for each in digits["x"][:3]], [0, 10, 2])
    with pytest.raises(BadInput, match="labels must be one of the module's classes, 0 to 9"):
        apply("torch-prune", calibration=file)


def test_a_student_with_fewer_channels_learns_from_the_teacher(apply, digits, original):
    kept = apply("torch-distill", settings={"ratio": 0.5, "epochs": 20})
    assert accuracy_of(kept.model, digits) >= original - 0.05


def test_what_is_held_out_is_never_trained_on_in_any_stage():
    """A data in which only the held-out samples have the second class: nothing can learn it."""
    order = torch.randperm(60, generator=torch.Generator().manual_seed(3))
    labels = torch.zeros(60, dtype=torch.int64)
    labels[order[:6]] = 1
    torch.manual_seed(0)
    inputs, net = torch.eye(60), torch.nn.Linear(60, 2)
    data = TrainingData(inputs=(inputs,), targets=(torch.zeros(60, 2),), labels=labels, form="logits")
    rows = net.weight[:, order[:6]].detach().clone()
    for stage in range(3):
        settings = TrainingSettings(epochs=3, soft=0.0, learning_rate=0.1, held_out=0.1)
        result = train(net, data, settings, seed=3, max_seconds=300.0, stage=stage)
        assert (result.judged_on, result.held_out) == (6, True)
    # Their inputs are columns of their own: without a gradient only weight decay may shrink them.
    assert torch.all(net.weight[:, order[:6]].abs() <= rows.abs())


def test_the_loss_is_the_papers():
    """Against the sums written out: CE + T² Σ p log(p / q), the mean over samples."""
    made, taught = torch.tensor([[1.0, -2.0, 0.5], [0.3, 0.2, 0.1]]), torch.tensor([[2.0, -1.0, 0.0], [0.0, 1.0, 0.0]])
    labels = torch.tensor([0, 1])
    data = TrainingData(inputs=(made,), targets=(taught,), labels=labels, form="logits")
    p, q = (np.exp(each.numpy() / 4) / np.exp(each.numpy() / 4).sum(1, keepdims=True) for each in (taught, made))
    soft = 16 * (p * np.log(p / q)).sum(1).mean()
    plain = np.exp(made.numpy()) / np.exp(made.numpy()).sum(1, keepdims=True)
    hard = -np.log(plain[[0, 1], [0, 1]]).mean()
    assert float(find_loss([made], data, torch.tensor([0, 1]), TrainingSettings())) == pytest.approx(
        hard + soft, rel=1e-5
    )


def test_what_outputs_mean_is_found_out():
    images, flat = torch.rand(8, 4), torch.nn.Flatten()
    labels = np.zeros(8, np.int64)
    assert make_training_data(flat, (images,), labels, batch=3).form == "logits"
    assert make_training_data(flat, (images,), None, batch=3).form == "values"
    assert make_training_data(torch.nn.Softmax(1), (images,), None, batch=3).form == "probabilities"
    assert make_training_data(torch.nn.Unflatten(1, (2, 2)), (images,), labels, batch=3).labels is None


def test_pt2e_quantises_and_leaves_named_layers_alone(apply, digits, original):
    pytest.importorskip("torchao", reason="torchao is not installed")
    result = apply("torch-pt2e", samples=100)
    assert accuracy_of(result.model, digits) >= original - 0.02
    floats = float_convolutions(result.model)
    assert floats == []
    assert len(float_convolutions(apply("torch-pt2e", samples=50, keep_float=("conv2d_1",)).model)) == 1
    assert len(float_convolutions(apply("torch-pt2e", samples=50, only=("conv2d_1",)).model)) == 3


def float_convolutions(path: Path) -> list[str]:
    """Convolutions whose kernels are no int8."""
    model = onnx.load(path)
    makers = {output: node for node in model.graph.node for output in node.output}
    integers = {each.name for each in model.graph.initializer if each.data_type == onnx.TensorProto.INT8}
    return [
        node.name
        for node in model.graph.node
        if node.op_type == "Conv" and not (node.input[1] in makers and set(makers[node.input[1]].input) & integers)
    ]


def test_to_litert_writes_what_the_module_computes(apply, home, digits):
    pytest.importorskip("litert_torch", reason="litert-torch is not installed")
    from ai_edge_litert.interpreter import Interpreter

    result = apply("torch-to-litert")
    interpreter = Interpreter(model_path=str(result.model), num_threads=1)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], digits["test_x"][:1])
    interpreter.invoke()
    with torch.no_grad():
        wanted = code_of(home).bare().eval()(torch.from_numpy(digits["test_x"][:1])).numpy()
    np.testing.assert_allclose(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]), wanted, atol=1e-4)


def test_the_example_is_the_bundled_network():
    """``examples/digits/model.py`` gives the accuracy that its provenance states."""
    data = Path(__file__).parents[2] / "src" / "edgewise" / "data"
    example = f"{Path(__file__).parents[2] / 'examples' / 'digits' / 'model.py'}:make_model"
    built = build_graph(example)
    with np.load(data / "digits_test.npz") as test, torch.no_grad():
        outputs = built.made.value(torch.from_numpy(test["x"].astype(np.float32) / 255))
        measured = float((outputs.argmax(1).numpy() == test["y"]).mean())
    assert measured == pytest.approx(json.loads((data / "digits_cnn.json").read_text())["test_accuracy"], abs=1e-12)
