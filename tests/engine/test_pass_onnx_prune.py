"""Magnitude pruning of ONNX files: what becomes zero, what stays, and that networks still run and agree."""

from __future__ import annotations

import gzip
import re

import numpy as np
import pytest
from onnx import TensorProto, helper, load, numpy_helper, save_model

from edgewise.data import path as bundled
from edgewise.model.identity import open_model, read_graph
from edgewise.optimizing.base import CannotApply, Facts, PassTask
from edgewise.optimizing.passes.onnx_prune import OnnxPrune
from edgewise.testing.passes import check_pass
from pass_settings import settings_of

PRUNE = OnnxPrune()
DIGITS = bundled("digits_cnn.onnx")
value = helper.make_tensor_value_info


@pytest.fixture
def apply(tmp_path):
    """Prune a file; the product."""

    def run(path, *, keep=(), only=(), **settings):
        folder = tmp_path / f"made{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        task = PassTask(
            model=str(path),
            format="onnx",
            settings=settings_of(PRUNE, **settings),
            folder=folder,
            keep_float=tuple(keep),
            only=tuple(only),
        )
        return PRUNE.apply(task)

    return run


def weights_of(path):
    """Name → values of what the main graph holds."""
    model = load(path)
    found = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant":
            found[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
    return found


def share(array):
    """Share of zeros."""
    return float(np.mean(array == 0))


def write(path, nodes, weights, *, size=8, outputs=("y",), external=False):
    """x [1, size] → the outputs."""
    graph = helper.make_graph(
        nodes, "net", [value("x", TensorProto.FLOAT, [1, size])],
        [value(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    save_model(model, path, save_as_external_data=external, location="weights.bin", size_threshold=0)
    return path


def normal(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).normal(0, 1, shape).astype(dtype)


def facts_of(path, *, quantized=False):
    return Facts(
        path=path, format="onnx", graph=read_graph(path), signature=open_model(path).signature, quantized=quantized,
        runtimes=(), cores=1,
    )  # fmt: skip


# The bundled network --------------------------------------------------------------------------------------------------


def pruned_of_digits():
    graph = read_graph(DIGITS)
    return {operator.weights[0]: operator.name for operator in graph.operators if operator.op in {"Conv", "Gemm"}}


@pytest.mark.parametrize("sparsity", [0.5, 0.7, 0.9])
def test_a_global_share_takes_the_smallest_of_all_layers(apply, sparsity):
    result = apply(DIGITS, sparsity=sparsity, scope="global")
    before, after = weights_of(DIGITS), weights_of(result.model)
    names = pruned_of_digits()
    old = np.concatenate([before[name].ravel() for name in names])
    new = np.concatenate([after[name].ravel() for name in names])
    assert abs(int((new == 0).sum()) - sparsity * old.size) <= 1
    assert np.array_equal(new[new != 0], old[new != 0])
    assert np.abs(old[new == 0]).max() <= np.abs(old[new != 0]).min()
    for name in before.keys() - names:
        assert np.array_equal(before[name], after[name]), "biases stay"
    shares = [share(after[name]) for name in names]
    assert max(shares) - min(shares) > 0.1, "layers differ where all are judged together"


def test_a_share_of_every_layer_is_the_same_in_each(apply):
    result = apply(DIGITS, sparsity=0.7, scope="layer")
    after = weights_of(result.model)
    for name in pruned_of_digits():
        assert abs(share(after[name]) - 0.7) <= 1 / after[name].size


def test_a_pattern_keeps_exactly_n_of_m_along_the_input_channels(apply):
    result = apply(DIGITS, pattern="2:4")
    before, after = weights_of(DIGITS), weights_of(result.model)
    spared = 0
    for name, layer in pruned_of_digits().items():
        assert layer
        if before[name].shape[1] % 4:
            assert np.array_equal(before[name], after[name])
            spared += 1
            continue
        moved = np.moveaxis(after[name], 1, -1).reshape(-1, 4)
        assert ((moved != 0).sum(axis=1) == 2).all()
    assert spared == 1, "the first convolution, of one channel"
    assert "layers left alone because their input dimension is not a multiple of 4: 1" in result.notes


@pytest.mark.engine
@pytest.mark.long
def test_the_pruned_digits_network_runs_and_keeps_its_accuracy_as_far_as_it_can(apply):
    """torch.nn.utils.prune.global_unstructured (L1) gives the same accuracies: 99.4 % at 30 %, 69.3 % at 50 %."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    with np.load(bundled("digits_test.npz")) as data:
        images, labels = data["x"].astype(np.float32) / np.float32(255), data["y"]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1

    def accuracy(path):
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        return float(np.mean(session.run(None, {"image": images})[0].argmax(1) == labels))

    assert accuracy(apply(DIGITS, sparsity=0.3).model) == pytest.approx(537 / 540, abs=1e-9)
    assert accuracy(apply(DIGITS, sparsity=0.5).model) == pytest.approx(374 / 540, abs=0.01)


def test_notes_tell_the_share_and_the_compressed_size(apply):
    result = apply(DIGITS, sparsity=0.9)
    total = sum(weights_of(DIGITS)[name].size for name in pruned_of_digits())
    assert result.notes[0] == f"{round(0.9 * total)} of {total} weights of 6 layers are zero (90.0 %)"
    before, after = map(int, re.findall(r"(\d+) bytes", result.notes[1]))
    for path, told in ((DIGITS, before), (result.model, after)):
        # gzip's header and trailer have 18 bytes.
        assert abs(len(gzip.compress(path.read_bytes(), 6)) - told) <= 32
    assert after < before / 3
    assert result.model.stat().st_size == pytest.approx(DIGITS.stat().st_size, rel=0.02)
    assert result.notes[2] == "the file is not smaller, and dense kernels compute zeros like any number"
    assert set(result.versions) == {"onnx", "numpy"}


# What is spared -------------------------------------------------------------------------------------------------------


def test_named_layers_are_spared_or_pruned_alone(apply):
    names = pruned_of_digits()
    weight, layer = list(names.items())[2]
    before = weights_of(DIGITS)
    kept = weights_of(apply(DIGITS, sparsity=0.9, keep=[layer]).model)
    assert np.array_equal(kept[weight], before[weight])
    others = np.concatenate([kept[name].ravel() for name in names if name != weight])
    assert abs(share(others) - 0.9) <= 1 / others.size
    alone = weights_of(apply(DIGITS, sparsity=0.9, only=[layer]).model)
    assert abs(share(alone[weight]) - 0.9) <= 1 / before[weight].size
    assert all(np.array_equal(alone[name], before[name]) for name in names if name != weight)
    both = {"keep": [layer], "only": [layer]}
    with pytest.raises(CannotApply, match="no float weights of Conv, Gemm or MatMul that may be pruned"):
        apply(DIGITS, sparsity=0.9, **both)


def test_a_weight_that_others_take_too_stays(apply, tmp_path):
    nodes = [
        helper.make_node("MatMul", ["x", "tied"], ["a"], "first"),
        helper.make_node("MatMul", ["a", "own"], ["b"], "second"),
        helper.make_node("Add", ["b", "tied"], ["y"], "sum"),
    ]
    path = write(tmp_path / "tied.onnx", nodes, {"tied": normal(8, 8), "own": normal(8, 8, seed=1)})
    result = apply(path, sparsity=0.5)
    after = weights_of(result.model)
    assert share(after["tied"]) == 0
    assert share(after["own"]) == 0.5
    assert "weights left alone because other operators share them: 1" in result.notes


def test_a_weight_of_two_layers_is_pruned_once_or_spared_with_either(apply, tmp_path):
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "first"),
        helper.make_node("MatMul", ["a", "w"], ["y"], "second"),
    ]
    path = write(tmp_path / "twice.onnx", nodes, {"w": normal(8, 8)})
    result = apply(path, sparsity=0.5)
    assert share(weights_of(result.model)["w"]) == 0.5
    assert result.notes[0].startswith("32 of 64 weights of 1 layers")
    with pytest.raises(CannotApply, match="nothing is left to prune; weights left alone"):
        apply(path, sparsity=0.5, keep=["second"])


def test_a_weight_that_a_branch_takes_stays(apply, tmp_path):
    def branch(name, kind):
        node = helper.make_node(kind, ["a", "w"], [f"{name}_out"], f"{name}_node")
        return helper.make_graph([node], name, [], [value(f"{name}_out", TensorProto.FLOAT, None)])

    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "outside"),
        helper.make_node("MatMul", ["a", "v"], ["b"], "free"),
        helper.make_node("ReduceSum", ["b"], ["s"], "total", keepdims=0),
        helper.make_node("Cast", ["s"], ["flag"], "flag", to=TensorProto.BOOL),
        helper.make_node(
            "If", ["flag"], ["y"], "if", then_branch=branch("t", "MatMul"), else_branch=branch("e", "Mul")
        ),
    ]
    path = write(tmp_path / "branch.onnx", nodes, {"w": normal(8, 8), "v": normal(8, 8, seed=1)})
    after = weights_of(apply(path, sparsity=0.5).model)
    assert (share(after["w"]), share(after["v"])) == (0, 0.5)


# Where the input dimension is -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("node", "shape", "axis"),
    [
        (helper.make_node("MatMul", ["x", "w"], ["y"], "n"), (8, 12), 0),
        (helper.make_node("MatMul", ["x", "w"], ["y"], "n"), (3, 8, 12), 1),
        (helper.make_node("Gemm", ["x", "w"], ["y"], "n"), (8, 12), 0),
        (helper.make_node("Gemm", ["x", "w"], ["y"], "n", transB=1), (12, 8), 1),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
def test_a_pattern_runs_along_the_summed_dimension(apply, tmp_path, node, shape, axis, dtype):
    before = normal(*shape, dtype=dtype)
    path = write(tmp_path / "net.onnx", [node], {"w": before})
    after = weights_of(apply(path, pattern="1:4").model)["w"]
    assert after.dtype == dtype
    groups, old = (np.moveaxis(each, axis, -1).reshape(-1, 4) for each in (after, before))
    assert ((groups != 0).sum(axis=1) == 1).all()
    assert np.array_equal(np.abs(groups).max(axis=1), np.abs(old).max(axis=1))


def test_a_constant_on_the_left_and_one_in_a_node_are_weights_too(apply, tmp_path):
    held = helper.make_node("Constant", [], ["w"], "held", value=numpy_helper.from_array(normal(4, 8), "inner"))
    nodes = [
        helper.make_node("Transpose", ["x"], ["column"], "turn"),
        held,
        helper.make_node("MatMul", ["w", "column"], ["y"], "result"),
    ]
    path = write(tmp_path / "left.onnx", nodes, {})
    after = weights_of(apply(path, pattern="2:4").model)["w"]
    assert ((after.reshape(-1, 4) != 0).sum(axis=1) == 2).all()


# Files and refusals ---------------------------------------------------------------------------------------------------


def test_weights_beside_the_model_are_read_and_counted(apply, tmp_path):
    node = helper.make_node("MatMul", ["x", "w"], ["y"], "n")
    path = write(tmp_path / "net.onnx", [node], {"w": normal(8, 4000)}, external=True)
    size = (tmp_path / "weights.bin").stat().st_size
    result = apply(path, sparsity=0.5)
    assert share(weights_of(result.model)["w"]) == 0.5
    before = int(re.findall(r"(\d+) bytes before", result.notes[1])[0])
    assert before > size / 2


def test_a_network_without_such_weights_is_refused(apply, tmp_path):
    path = write(tmp_path / "bare.onnx", [helper.make_node("Relu", ["x"], ["y"], "n")], {})
    with pytest.raises(CannotApply, match="no float weights"):
        apply(path, sparsity=0.5)
    assert not PRUNE.recipes(facts_of(path))
    with pytest.raises(CannotApply, match="no operator called nobody"):
        apply(DIGITS, sparsity=0.5, keep=["nobody"])
    with pytest.raises(CannotApply, match="nothing is left to prune; layers left alone because their input dimension"):
        apply(DIGITS, pattern="2:4", only=[next(iter(pruned_of_digits().values()))])


def test_recipes_come_after_what_makes_models_faster():
    recipes = PRUNE.recipes(facts_of(DIGITS))
    assert [recipe.rank for recipe in recipes] == [1, 1, 1, 2, 2, 2, 2]
    assert not PRUNE.recipes(facts_of(DIGITS, quantized=True))


def test_the_contract_of_passes_is_kept():
    assert {"import", "recipes", "result", "keep_float"} <= set(check_pass(PRUNE, facts_of(DIGITS)))
