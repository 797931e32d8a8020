"""TFLite graphs: operators, options, weights, quantisation, subgraphs, shapes, and what is refused."""

from __future__ import annotations

import math
import re

import pytest

from edgewise import data as bundled
from edgewise.model.cost import cost_of, total_of
from edgewise.model.memory_plan import plan_memory
from edgewise.model.readers.base import ReadsGraph
from edgewise.model.readers.tflite import TfliteReader
from messages import has, is_in, says, wording
from tflite_writer import Writer, dense, floats, one_step, read, refuse


def test_the_reader_reads_graphs():
    assert isinstance(TfliteReader(), ReadsGraph)


def test_operators_options_and_weights(tmp_path):
    graph = read(tmp_path, dense())
    (step,) = graph.operators
    assert (step.name, step.op, step.kind, step.weights) == (
        "y",
        "FULLY_CONNECTED",
        "matrix-multiplication",
        ("w", "b"),
    )
    assert step.attributes == {
        "fused_activation_function": "RELU6",
        "weights_format": "DEFAULT",
        "keep_num_dims": False,
        "asymmetric_quantize_inputs": False,
        "quantized_bias_type": "FLOAT32",
        "quant_spec": (),
    }
    assert (graph.name, graph.format, graph.version, graph.inputs, graph.outputs) == (
        "main", "tflite", "schema 3", ("x",), ("y",),
    )  # fmt: skip
    assert graph.tensors["w"].constant and not graph.tensors["x"].constant
    # 3 × 4 products, 3 biases, 3 clamps of two.
    assert (total_of(graph).macs, total_of(graph).ops, total_of(graph).parameters) == (12, 33, 15)
    assert graph.metadata["description"] == "made by hand"


def test_the_bundled_model_by_hand():
    graph = TfliteReader().read_graph(bundled.path("digits_cnn.tflite"))
    assert [cost_of(operator, graph).macs for operator in graph.operators] == [
        0,  # reshape
        32 * 32 * 32 * 9,  # depthwise, one channel into 32
        32 * 32 * 32 * 9 * 32,
        0,  # pad
        16 * 16 * 64 * 9 * 32,
        0,  # pad
        8 * 8 * 64 * 9 * 64,
        8 * 8 * 64 * 9 * 64,
        0,  # average over 8 × 8
        10 * 64,
    ]
    assert total_of(graph).macs == 19_169_920
    # Biases, clamps of two, 64 additions and a division per average.
    outputs = 2 * 32 * 32 * 32 + 16 * 16 * 64 + 2 * 8 * 8 * 64
    assert total_of(graph).ops == 2 * 19_169_920 + 3 * outputs + 64 * 65 + 10
    assert total_of(graph).parameters == 320 + 9_248 + 18_496 + 2 * 36_928 + 650


#: (MACs, ops) of every layer as the profiler of Silicon Labs MLTK 0.20 counts them.
MLTK = {
    "ad01_int8": [
        (81920, 164224), (16384, 33152), (16384, 33152), (16384, 33152), (1024, 2072), (1024, 2432), (16384, 33152),
        (16384, 33152), (16384, 33152), (81920, 164480),
    ],
    "kws_ref_model": [
        (320000, 664000), (72000, 168000), (512000, 1048000), (72000, 168000), (512000, 1048000), (72000, 168000),
        (512000, 1048000), (72000, 168000), (512000, 1048000), (0, 8064), (0, 0), (768, 1548), (0, 60),
    ],
    "pretrainedResnet_quant": [
        (442368, 933888), (2359296, 4767744), (2359296, 4734976), (0, 16384), (1179648, 2383872), (2359296, 4726784),
        (131072, 270336), (0, 8192), (1179648, 2371584), (2359296, 4722688), (131072, 266240), (0, 4096), (0, 4160),
        (0, 0), (640, 1290), (0, 50),
    ],
    "str_ww_ref_model": [
        (3360, 7840), (143360, 297472), (15360, 33792), (393216, 795648), (19200, 40320), (245760, 497280),
        (1920, 3968), (4096, 8288), (0, 0), (96, 195), (0, 15),
    ],
    "vww_96_int8": [
        (497664, 1050624), (165888, 387072), (294912, 700416), (82944, 193536), (294912, 645120), (165888, 387072),
        (589824, 1234944), (41472, 96768), (294912, 617472), (82944, 193536), (589824, 1207296), (20736, 48384),
        (294912, 603648), *((41472, 96768), (589824, 1193472)) * 5, (10368, 24192), (294912, 596736), (20736, 48384),
        (589824, 1186560), (0, 2560), (0, 0), (512, 1026), (0, 10),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", MLTK)
def test_macs_and_ops_equal_those_of_mltk(name, shared_models):
    path = shared_models / f"{name}.tflite"
    inputs = TfliteReader().read_signature(path).inputs
    shapes = {each.name: tuple(1 if size is None else size for size in each.shape) for each in inputs}
    graph = TfliteReader().read_graph(path, shapes=shapes)
    expected = []
    for operator, (macs, ops) in zip(graph.operators, MLTK[name], strict=True):
        # That profiler leaves out the activation that is fused into an ADD: two operations per element here.
        clamped = operator.op == "ADD" and operator.attributes["fused_activation_function"] == "RELU"
        expected.append((macs, ops + 2 * graph.tensors[operator.outputs[0]].elements if clamped else ops))
    costs = [cost_of(operator, graph) for operator in graph.operators]
    assert [(cost.macs, cost.ops) for cost in costs] == expected
    assert not total_of(graph).unknown
    plan = plan_memory(graph)
    assert plan.arena_bytes >= plan.lower_bound_bytes and not plan.unknown


def test_values_of_newer_enumerations_are_numbers(tmp_path):
    data = one_step(
        "ADD",
        lambda w: [w.tensor(name, [2]) for name in "abc"],
        [0, 1],
        [2],
        graph_inputs=(0, 1),
        Add={"fused_activation_function": 9},
    )
    graph = read(tmp_path, data)
    assert graph.operators[0].attributes["fused_activation_function"] == "9"
    assert re.search(says("function-no-known-cost"), cost_of(graph.operators[0], graph).why)


def test_custom_operators(tmp_path):
    w = Writer()
    tensors = [w.tensor("a", [2]), w.tensor("b", [2])]
    step = w.table("Operator", opcode_index=0, inputs=[0], outputs=[1], custom_options=b"\1\2\3")
    graph = read(tmp_path, w.finish([w.graph(tensors, [step], [0], [1])], [":MyOwn"]))
    (operator,) = graph.operators
    assert (operator.op, operator.custom, operator.kind) == ("MyOwn", True, "")
    assert operator.attributes == {"custom_options": "uint8[3]"}
    assert cost_of(operator, graph).why == wording("no-formula", noun="custom", op="operator MyOwn")


def branching(references=(1, 2), shared_buffer=1):
    """IF of two subgraphs, each a FULLY_CONNECTED whose weights are `shared_buffer`, and one entry point."""
    w = Writer()

    def body(name, weights):
        tensors = [w.tensor("x", [1, 4]), w.tensor(weights, [3, 4], buffer=shared_buffer), w.tensor("y", [1, 3])]
        return w.graph(tensors, [w.operator(1, [0, 1, -1], [2], FullyConnected={})], [0], [2], name=name)

    main = [
        w.tensor("c", [], 6), w.tensor("x", [1, 4]), w.tensor("w", [3, 4], buffer=1), w.tensor("p", [1, 3]),
        w.tensor("q", [1, 3]),
    ]  # fmt: skip
    steps = [
        w.operator(1, [1, 2, -1], [3], FullyConnected={}),
        w.operator(0, [0, 1], [4], If={"then_subgraph_index": references[0], "else_subgraph_index": references[1]}),
    ]
    graphs = [w.graph(main, steps, [0, 1], [3, 4]), body("then", "w"), body("else", "v"), body("extra", "u")]
    maps = [w.table("TensorMap", name="features", tensor_index=0)]
    signature = w.table("SignatureDef", inputs=maps, outputs=maps, signature_key="more", subgraph_index=3)
    first = w.table("SignatureDef", signature_key="serve", subgraph_index=0)
    buffers = [floats(3, 4), floats(3, 4)]
    return w.finish(graphs, ["IF", "FULLY_CONNECTED"], buffers, signature_defs=[signature, first])


def test_subgraphs_and_signatures(tmp_path):
    graph = read(tmp_path, branching())
    assert graph.operators[1].subgraphs == ("then", "else")
    assert set(graph.subgraphs) == {"then", "else"}
    assert {name: [each.name for each in inputs] for name, inputs in graph.signatures.items()} == {
        "more": ["x"],
        "serve": ["c", "x"],
    }
    assert graph.signature == "serve"
    assert graph.metadata["signatures"]["more"] == {"inputs": {"features": "x"}, "outputs": {"features": "x"}}
    # Both branches cost the same, 12 MACs, as does the main graph's own layer; the other entry point does not count.
    assert total_of(graph).macs == 24
    # All four share one buffer: one weight.
    assert total_of(graph).parameters == 12
    assert graph.subgraphs["else"].operators[0].weights == ("w",)


def test_weights_that_are_only_called_the_same_are_two(tmp_path):
    graph = read(tmp_path, branching(shared_buffer=2))
    assert graph.subgraphs["then"].operators[0].weights == ("then/w",)
    assert total_of(graph).parameters > 12


@pytest.mark.parametrize(
    ("references", "reason"),
    [((1, 4), "subgraph 4 of 4"), ((-1, 1), "subgraph -1 of 4"), ((0, 1), says("subgraph-runs-itself"))],
)
def test_subgraphs_that_are_not_there(tmp_path, references, reason):
    assert is_in(reason, refuse(tmp_path, branching(references)))


def nest(levels, width):
    """Subgraph k runs subgraph k + 1 `width` times."""
    w = Writer()
    graphs = []
    for level in range(levels):
        steps = [w.operator(0, [], [], Call={"subgraph": level + 1})] * width if level + 1 < levels else []
        graphs.append(w.graph([w.tensor("x", [1])], steps, [0], [0], name=f"g{level}"))
    return w.finish(graphs, ["CALL"])


def test_nested_subgraphs_are_bounded(tmp_path):
    assert total_of(read(tmp_path, nest(8, 2))).macs == 0
    assert wording("subgraphs-nested-more-than-deep", max_depth=32) in refuse(tmp_path, nest(200, 1))
    assert wording("subgraphs-run-more-than-operators", max_nested_operators=300000) in refuse(tmp_path, nest(30, 4))


def test_names_are_unique(tmp_path):
    w = Writer()
    tensors = [w.tensor("a", [2]), w.tensor("a", [2]), w.tensor(None, [2]), w.tensor("a#1", [2])]
    steps = [w.operator(0, [3], [1]), w.operator(0, [1], [2]), w.operator(0, [2], [0])]
    graph = read(tmp_path, w.finish([w.graph(tensors, steps, [3], [0])], ["RELU"]))
    # Inputs and outputs keep theirs.
    assert (graph.inputs, graph.outputs) == (("a#1",), ("a",))
    assert len(graph.tensors) == 4
    assert [operator.name for operator in graph.operators] == ["a#1#1", "tensor_2", "a"]


def tensors_of(*names):
    return lambda w: [w.tensor(name, [2]) for name in names]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (lambda: one_step("RELU", tensors_of("a", "b"), [2], [1]), "tensor 2 of 2"),
        (lambda: one_step("RELU", tensors_of("a", "b"), [-2], [1]), "tensor -2 of 2"),
        (lambda: one_step("RELU", tensors_of("a", "b"), [0], [1], graph_inputs=(5,)), "tensor 5 of 2"),
        (lambda: one_step("RELU", tensors_of("a", "b", "c"), [2], [1]), says("operator-reads-before-made", name="c")),
        (lambda: one_step("RELU", tensors_of("a", "b"), [0], [0]), says("operator-makes-which-already-exists", name="a")),
        (lambda: one_step("SPLIT", tensors_of("a", "b"), [0], [1, 1]), says("operator-makes-which-already-exists", name="b")),
        (lambda: one_step("RELU", lambda w: [w.tensor("a", [2], buffer=9), w.tensor("b", [2])], [0], [1]), says("refers-buffer", record=9)),
        (
            lambda: one_step(
                "RELU", lambda w: [w.tensor("a", [9], buffer=1), w.tensor("b", [9])], [0], [1], buffers=[b"1234"]
            ),
            says("constant-only-bytes", length=4, needed=36),
        ),
        (
            lambda: one_step(
                "RELU", lambda w: [w.tensor("a", [2], buffer=1), w.tensor("b", [2])], [1], [0], graph_inputs=(1,),
                buffers=[floats(2)],
            ),
            says("operator-makes-which-already-exists", name="a"),
        ),
        (lambda: one_step("RELU", lambda w: [w.tensor("a", [2**31 - 1] * 3)] * 2, [0], [1]), says("would-more-than-bytes", max_tensor_bytes=has("922"))),
        (lambda: one_step("RELU", lambda w: [w.tensor("a", [2], marks=[-5])] * 2, [0], [1]), says("dimension-size", size=-5)),
        (lambda: one_step("RELU", lambda w: [w.tensor("a", [2], scale=[math.nan])] * 2, [0], [1]), says("quantisation-scale", scale="nan")),
        (
            lambda: one_step("RELU", lambda w: [w.tensor("a", [2], scale=[1, 2], axis=3)] * 2, [0], [1]),
            says("quantised-along-dimension-which-does", axis=3),
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(tmp_path, data, reason):
    assert is_in(reason, refuse(tmp_path, data()))


def test_small_files_do_not_become_big_ones(tmp_path):
    """Thousands of references to one tensor with a long name; operators that share one long list."""
    w = Writer()
    long = w.tensor("x" * 4000, [1])
    assert re.search(
        says("names-take-more-than-characters"),
        refuse(tmp_path, w.finish([w.graph([long] * 20_000, [], [0], [0])], [])),
    )
    w = Writer()
    step = w.operator(0, [0] * 5_000, [])
    copies = [w.table("Operator", opcode_index=0, inputs=[0] * 100_000) for _ in range(11)]
    data = w.finish([w.graph([w.tensor("x", [1])], [step, *copies], [0], [0])], ["ADD_N"])
    assert wording("lists-more-than-items", max_items=1000000) in refuse(tmp_path, data)


def test_an_operator_code_that_is_not_there(tmp_path):
    w = Writer()
    step = w.operator(3, [0], [1])
    data = w.finish([w.graph([w.tensor("a", [2]), w.tensor("b", [2])], [step], [0], [1])], ["RELU"])
    assert "operator code 3 of 1" in refuse(tmp_path, data)


def test_an_output_that_nobody_makes(tmp_path):
    w = Writer()
    data = w.finish([w.graph([w.tensor("a", [2]), w.tensor("b", [2])], [], [0], [1])], ["RELU"])
    assert "no operator makes its output 'b'" in refuse(tmp_path, data)


def test_a_signature_and_metadata_that_lead_nowhere(tmp_path):
    w = Writer()
    graph = w.graph([w.tensor("a", [2])], [], [0], [0])
    signature = w.table("SignatureDef", signature_key="s", subgraph_index=4)
    assert "subgraph 4 of 1" in refuse(tmp_path, w.finish([graph], [], signature_defs=[signature]))
    w = Writer()
    graph = w.graph([w.tensor("a", [2])], [], [0], [0])
    note = w.table("Metadata", name="min_runtime_version", buffer=7)
    assert "buffer 7 of 1" in refuse(tmp_path, w.finish([graph], [], metadata=[note]))


def test_the_oldest_runtime_is_told(tmp_path):
    w = Writer()
    graph = w.graph([w.tensor("a", [2])], [], [0], [0])
    note = w.table("Metadata", name="min_runtime_version", buffer=1)
    data = w.finish([graph], [], [b"2.14.0\0\0"], metadata=[note])
    assert read(tmp_path, data).metadata["min_runtime_version"] == "2.14.0"


def test_names_that_the_converter_joined_are_shortened_to_their_own_part(shared_models):
    graph = TfliteReader().read_graph(shared_models / "kws_ref_model.tflite")
    assert graph.operators[0].name.startswith("functional_1/activation/Relu;functional_1/batch_normalization/")
    assert [operator.title for operator in graph.operators[:3]] == [
        "functional_1/conv2d/Conv2D1",
        "functional_1/depthwise_conv2d/BiasAdd",
        "functional_1/conv2d_1/Conv2D1",
    ]
    titles = [operator.title for operator in graph.operators]
    assert len(set(titles)) == len(titles)
    assert not any(";" in title for title in titles)
    assert graph.operators[-1].label == ""  # its name is its own already


def test_modules_of_pytorch_are_named_by_their_class(tmp_path):
    w = Writer()
    inside = "__main__.Net_n/torch.nn.modules.container.Sequential_features"
    joined = [f"{inside}/torch.nn.modules.conv.Conv2d_{at};{at}" for at in range(2)]
    tensors = [w.tensor(name, [2]) for name in ("a", *joined)]
    steps = [w.table("Operator", opcode_index=0, inputs=[at], outputs=[at + 1]) for at in range(2)]
    operators = read(tmp_path, w.finish([w.graph(tensors, steps, [0], [2])], [":MyOwn"])).operators
    assert [operator.title for operator in operators] == [
        "Net_n/Sequential_features/Conv2d_0", "Net_n/Sequential_features/Conv2d_1",
    ]  # fmt: skip
