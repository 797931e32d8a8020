"""What passes on ONNX and OpenVINO models offer, without any of their libraries."""

from dataclasses import replace
from pathlib import Path

import pytest

from edgewise import data
from edgewise.model.identity import open_model, read_graph
from edgewise.optimizing.base import CannotApply, EngineSettings, Facts, PassTask, passes
from edgewise.optimizing.passes.onnx_files import load_model, name_nodes, raise_opset
from edgewise.optimizing.passes.ort_preparation import find_origins
from edgewise.optimizing.passes.tune import Tune
from edgewise.optimizing.processor import Processor
from edgewise.record import RuntimeSpec
from graphs import graph, op, tensor
from messages import has, says

QUANTISING = ("ort-static", "ort-dynamic", "nncf-ptq", "nncf-accuracy")
ALL = (*QUANTISING, "onnx-simplify", "ort-fuse", "onnx-fp16", "ort-int4", "onnx-to-openvino", "nncf-weights")


@pytest.fixture(scope="module")
def digits():
    path = data.path("digits_cnn.onnx")
    return Facts(
        path=path,
        format="onnx",
        graph=read_graph(path),
        signature=open_model(path).signature,
        quantized=False,
        runtimes=("onnxruntime", "openvino", "litert"),
        cores=4,
    )


def relu_only(facts):
    bare = graph([tensor("x", 1, 4), tensor("y", 1, 4)], [op("Relu0", "activation", ["x"], ["y"])], inputs=["x"])
    return replace(facts, graph=bare)


@pytest.mark.parametrize("name", QUANTISING)
def test_quantisers_offer_nothing_to_a_quantised_model(digits, name):
    one = passes().get(name)
    assert one.recipes(digits)
    assert one.recipes(replace(digits, quantized=True)) == ()


@pytest.mark.parametrize("name", [*QUANTISING, "onnx-fp16", "ort-int4", "nncf-weights"])
def test_nothing_is_offered_to_a_model_without_weights(digits, name):
    assert passes().get(name).recipes(relu_only(digits)) == ()


def test_a_network_without_a_matmul_is_offered_no_4_bit_weights(digits):
    assert passes().get("ort-int4").recipes(digits) == ()


@pytest.mark.parametrize("name", ALL)
def test_recipes_have_labels_of_their_own_and_come_in_the_order_of_their_ranks(digits, name):
    recipes = passes().get(name).recipes(digits)
    labels, ranks = [recipe.label for recipe in recipes], [recipe.rank for recipe in recipes]
    assert len(set(labels)) == len(labels)
    assert ranks == sorted(ranks)


def test_static_recipes_cover_every_calibration_and_type(digits):
    recipes = passes().get("ort-static").recipes(digits)
    assert sum(recipe.rank == 0 for recipe in recipes) <= 3
    seen = {(r.settings.method, r.settings.per_channel, r.settings.activations) for r in recipes}
    assert {method for method, _, _ in seen} == {"minmax", "entropy", "percentile"}
    assert {types for _, _, types in seen} == {"uint8", "int8"}
    assert {per for _, per, _ in seen} == {True, False}


def test_a_float_stem_is_offered_where_the_first_convolution_takes_few_channels(digits):
    def first(channels, group=1):
        return replace(
            digits,
            graph=graph(
                [tensor("x", 1, channels, 8, 8), tensor("w", 8, channels // group, 3, 3, constant=True), tensor("y")],
                [op("Conv0", "convolution", ["x", "w"], ["y"], weights=["w"], attributes={"group": group})],
                inputs=["x"],
                outputs=["y"],
            ),
        )

    def offered(facts):
        return [recipe.rank for recipe in passes().get("ort-static").recipes(facts) if recipe.settings.float_stem]

    assert min(offered(first(1))) == 0
    assert offered(first(3)) == [1]
    assert offered(first(16)) == []
    assert offered(first(4, group=4)) == []


@pytest.mark.parametrize(("processor", "expected"), [
    (Processor(model="", architecture="x86_64", flags=frozenset({"avx2"})), True),
    (Processor(model="", architecture="x86_64", flags=frozenset({"avx512_vnni"})), False),
    (Processor(model="", architecture="aarch64", flags=frozenset()), False),
    (Processor(model="", architecture="x86_64", flags=None), False),
])  # fmt: skip
def test_7_bit_weights_are_for_x86_without_vnni(monkeypatch, digits, processor, expected):
    from edgewise.optimizing import processor as module

    monkeypatch.setattr(module, "read_processor", lambda: processor)
    assert passes().get("ort-static").recipes(digits)[0].settings.reduce_range is expected


def test_tuning_offers_fields_of_a_runtime(digits):
    for recipe in Tune().recipes(digits):
        fields = recipe.settings.to_document()
        spec = RuntimeSpec(name=fields.pop("runtime"), **fields)
        assert spec.name in ("onnxruntime", "openvino")


def test_tuning_begins_with_threads_and_offers_none_on_one_core(digits):
    first = [recipe for recipe in Tune().recipes(digits) if recipe.rank == 0]
    assert [(r.settings.runtime, r.settings.threads) for r in first] == [
        ("onnxruntime", 1), ("onnxruntime", 4), ("openvino", 1), ("openvino", 4)]  # fmt: skip
    assert not any(recipe.settings.threads for recipe in Tune().recipes(replace(digits, cores=1)))


def test_tuning_offers_only_engines_that_are_here_and_read_the_format(digits):
    assert Tune().recipes(replace(digits, runtimes=())) == ()
    there = Tune().recipes(replace(digits, runtimes=("litert",)))
    assert there == ()
    assert {r.settings.runtime for r in Tune().recipes(replace(digits, format="tflite"))} == {"litert", "openvino"}


def test_tuning_makes_no_file(digits, tmp_path):
    with pytest.raises(CannotApply):
        Tune().apply(PassTask(model=str(digits.path), format="onnx", settings=EngineSettings(), folder=tmp_path))


def nodes(*triples, functions=()):
    from onnx import TensorProto, helper

    made = [helper.make_node(kind, list(inputs), list(outputs), name=name) for kind, name, inputs, outputs in triples]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(made, "g", [value("x", TensorProto.FLOAT, [4])], [value("y", TensorProto.FLOAT, [4])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def write(model, path: Path) -> Path:
    path.write_bytes(model.SerializeToString())
    return path


def test_nodes_get_the_names_of_the_operators_that_the_reader_tells(tmp_path):
    model = nodes(
        ("Relu", "", ["x"], ["a"]), ("Neg", "same", ["a"], ["b"]), ("Abs", "same", ["b"], ["c"]),
        ("Exp", "y", ["c"], ["d"]), ("Sqrt", "", ["d"], ["y"]),
    )  # fmt: skip
    path = write(model, tmp_path / "m.onnx")
    named = load_model(path)
    told = {each.outputs[0]: each.name for each in read_graph(path).operators}
    assert {node.output[0]: node.name for node in named.graph.node} == told
    assert len(set(told.values())) == 5
    assert told["a"] == "a" and told["b"] == "same" and told["c"] == "same (2)"


def test_a_constant_does_not_take_an_operators_name(tmp_path):
    from onnx import TensorProto, helper

    model = nodes(("Add", "n", ["x", "c"], ["y"]))
    value = helper.make_tensor("v", TensorProto.FLOAT, [1], [1.0])
    model.graph.node.insert(0, helper.make_node("Constant", [], ["c"], name="n", value=value))
    path = write(model, tmp_path / "m.onnx")
    name_nodes(model, path)
    names = {node.op_type: node.name for node in model.graph.node}
    assert names["Add"] == read_graph(path).operators[0].name == "n"
    assert names["Constant"] != "n"


def test_origins_are_found_by_tensors():
    before = nodes(
        ("MatMul", "result", ["x", "w"], ["a"]), ("Add", "bias", ["a", "b"], ["c"]), ("Relu", "relu", ["c"], ["y"])
    )
    after = nodes(("Gemm", "fused", ["x", "w", "b"], ["c"]), ("Relu", "relu", ["c"], ["y"]))
    origins = find_origins(before, after)
    assert origins == {"fused": frozenset({"result", "bias"}), "relu": frozenset({"relu"})}


def test_a_node_is_not_held_to_stand_for_what_others_compute_still():
    before = nodes(("Relu", "first", ["x"], ["a"]), ("Neg", "second", ["a"], ["y"]))
    # The optimiser feeds the second node from a copy under a name of its own.
    after = nodes(("Relu", "first", ["x"], ["a"]), ("Identity", "new", ["a"], ["a2"]), ("Neg", "second", ["a2"], ["y"]))
    assert find_origins(before, after) == {
        "first": frozenset({"first"}), "new": frozenset(), "second": frozenset({"second"})
    }  # fmt: skip


def test_an_old_operator_set_is_raised_and_weights_among_the_inputs_are_no_inputs():
    from onnx import TensorProto, helper, numpy_helper

    np = pytest.importorskip("numpy")
    model = nodes(("Add", "add", ["x", "w"], ["y"]))
    model.opset_import[0].version, model.ir_version = 9, 3
    model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [4]))
    model.graph.initializer.append(numpy_helper.from_array(np.ones(4, np.float32), "w"))
    raised = raise_opset(model)
    assert raised.opset_import[0].version == 13
    assert [info.name for info in raised.graph.input] == ["x"]


def test_an_operator_set_that_cannot_be_raised_is_said_so():
    model = nodes(("Upsample", "up", ["x", "s"], ["y"]))
    model.opset_import[0].version = 9
    with pytest.raises(CannotApply, match=says("operator-set-cant-raised", opset=9, per_channel_opset=has("13"))):
        raise_opset(model)
