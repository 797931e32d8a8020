"""ExecuTorch's programs: what is read, and that no offset is followed out of the file.

The file is written by ``tests/pte_programs/write.py``.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from edgewise.errors import BadInput, BadModel
from edgewise.model.dialects.base import RawOperator
from edgewise.model.dialects.executorch import interpret_kernel, interpret_node
from edgewise.model.graph import Tensor
from edgewise.model.identity import open_model, read_graph
from edgewise.model.inspection import inspect_graph
from edgewise.model.sparsity import count_zeros
from edgewise.report.inspection.tables import totals_table
from messages import is_in

FILE = Path(__file__).parents[1] / "pte_programs" / "methods.pte"


def totals(signature="", **shapes):
    graph = read_graph(FILE, signature=signature, shapes=shapes)
    inspection = inspect_graph(graph, source={"name": "m"}, sets=())
    return {row[0].text: row[1].text for row in totals_table(inspection).rows}


def test_the_methods_are_signatures_and_forward_is_the_default():
    model = open_model(FILE)
    assert (model.ref.format, model.ref.name) == ("executorch", "methods.pte:forward")
    assert model.ref.signatures == ("forward", "count", "grow")
    ((taken,), (given,)) = model.signature.inputs, model.signature.outputs
    assert (taken.name, taken.shape, taken.dtype) == ("input_0", (1, 2, 8, 8), "float32")
    assert (given.name, given.shape, given.dtype) == ("output_0", (1, 4), "float32")


def test_layers_inside_and_outside_of_xnnpack():
    graph = read_graph(FILE)
    rows = [(each.op, each.attributes["runs_in"], each.attributes["instruction"]) for each in graph.operators]
    assert rows == [
        ("XNNStaticTranspose", "XnnpackBackend", 0),
        ("XNNConv2d", "XnnpackBackend", 0),
        ("XNNStaticTranspose", "XnnpackBackend", 0),
        ("aten.cumsum.out", "ExecuTorch's kernels", 1),
        ("aten.mean.out", "ExecuTorch's kernels", 2),
        ("XNNFullyConnected", "XnnpackBackend", 3),
    ]
    # Each takes what the one before made.
    assert all(one.outputs[0] in two.inputs for one, two in zip(graph.operators, graph.operators[1:], strict=False))
    assert graph.operators[1].geometry == {
        "reduction": 2 * 3 * 3, "depthwise": False, "bias": True, "activation": "relu",
    }  # fmt: skip
    assert graph.metadata["planned_bytes"] == [1008]
    assert [(each["backend"], each["steps"]) for each in graph.metadata["delegates"]] == [
        ("XnnpackBackend", 3),
        ("XnnpackBackend", 1),
    ]


def test_the_counts_are_those_of_the_network():
    inspection = inspect_graph(read_graph(FILE), source={"name": "m"}, sets=())
    # 36 positions × 3 filters of 2·3·3, and 3 × 4.
    assert inspection.total.macs == 36 * 3 * 18 + 12
    assert inspection.total.parameters == 3 * 18 + 3 + 3 * 4 + 4
    assert inspection.total.weight_bytes == 4 * inspection.total.parameters


def test_weights_are_found_in_the_file():
    found = count_zeros(read_graph(FILE), model=FILE)
    assert [(each.elements, each.zeros) for each in found.counted] == [(3 * 18, 0), (3 * 4, 0)]


def test_the_table_tells_what_runs_where_and_the_planned_memory():
    rows = totals()
    assert rows["XnnpackBackend"] == "4 layers: XNNStaticTranspose, XNNConv2d and XNNFullyConnected"
    assert rows["ExecuTorch's kernels"] == "2 layers: aten.cumsum.out and aten.mean.out"
    assert rows["Activations, planned"] == "1,008 B"


def test_sizes_that_may_change_are_open_and_their_bounds_told():
    graph = read_graph(FILE, signature="grow")
    assert graph.tensors["input_0"].shape == (None, None)
    assert graph.metadata["bounds"] == {"input_0": [8, 3]}
    assert totals("grow")["Largest input"] == "input_0 [8, 3]"
    assert read_graph(FILE, signature="grow", shapes={"input_0": (2, 3)}).tensors["input_0"].shape == (2, 3)


def test_what_is_read_before_it_is_made_is_a_state():
    graph = read_graph(FILE, signature="count")
    assert graph.states == ("value_0",)
    assert read_graph(FILE).states == ()


def test_a_shape_that_does_not_fit_is_refused():
    with pytest.raises(BadInput):
        read_graph(FILE, shapes={"input_0": (2, 2, 8, 8)})
    with pytest.raises(BadInput):
        read_graph(FILE, shapes={"x": (1, 2, 8, 8)})


def test_another_version_of_the_schema_is_refused(tmp_path):
    data = bytearray(FILE.read_bytes())
    data[4:8] = b"ET13"
    (tmp_path / "m.pte").write_bytes(data)
    with pytest.raises(BadModel) as caught:
        open_model(tmp_path / "m.pte")
    assert is_in("ET13", caught.value.message)


def test_damaged_files_are_refused_or_read(tmp_path):
    """Whatever is wrong with a file is `BadModel`: cut anywhere, or with wrong bytes."""
    whole, numbers = FILE.read_bytes(), random.Random(0)
    file, refused = tmp_path / "m.pte", 0
    for attempt in range(100):
        data = bytearray(whole)
        if attempt % 2:
            del data[numbers.randrange(8, len(data)) :]
        else:
            for _ in range(numbers.randrange(1, 30)):
                data[numbers.randrange(8, len(data))] = numbers.randrange(256)
        file.write_bytes(data)
        for method in ("", "count", "grow"):
            try:
                open_model(file, method)
                read_graph(file, signature=method)
            except (BadModel, BadInput):
                refused += 1
    assert refused > 100


class TestMeanings:
    def tensor(self, *shape, dtype="float32", name="t", constant=False):
        return Tensor(name=name, shape=shape, dtype=dtype, constant=constant)

    def test_a_kernel_whose_arguments_are_not_known_has_no_cost(self):
        raw = RawOperator(op="aten.grid_sampler_2d.out", inputs=[self.tensor(1, 1, 4, 4)], outputs=[self.tensor(1)])
        assert interpret_kernel(raw).kind == ""
        assert interpret_kernel(raw).why

    def test_a_grouped_convolution_of_a_kernel(self):
        raw = RawOperator(
            op="aten.convolution.out",
            attributes={"groups": 2, "transposed": False, "roles": ("input", "weight")},
            inputs=[self.tensor(1, 4, 8, 8), self.tensor(6, 2, 3, 3, constant=True)],
            outputs=[self.tensor(1, 6, 6, 6)],
        )
        found = interpret_kernel(raw)
        assert (found.kind, found.geometry["reduction"]) == ("convolution", 2 * 3 * 3)

    @pytest.mark.parametrize(
        ("source", "target", "kind", "operations"),
        [
            ("float32", "int8", "quantize", 4),
            ("int8", "float32", "dequantize", 2),
            ("float32", "float16", "elementwise", 1),
        ],
    )
    def test_conversions(self, source, target, kind, operations):
        ends = {"inputs": [self.tensor(4, dtype=source)], "outputs": [self.tensor(4, dtype=target)]}
        found = interpret_node(RawOperator(op="XNNConvert", **ends))
        assert (found.kind, found.geometry) == (kind, {"per_element": operations})

    def test_pooling_and_attention(self):
        fields = {"pooling_height": 2, "pooling_width": 3}
        ends = {"inputs": [self.tensor(1, 4, 6, 1)], "outputs": [self.tensor(1, 2, 2, 1)]}
        found = interpret_node(RawOperator(op="XNNAvgPooling2d", attributes=fields, **ends))
        assert found.geometry == {"window": 6, "average": True, "activation": "none"}
        three = [self.tensor(2, 8, 5, 16) for _ in range(3)]
        found = interpret_node(RawOperator(op="XNNScaledDotProductAttention", inputs=three, outputs=three[:1]))
        assert (found.geometry["batch"], found.geometry["queries"], found.geometry["depth"]) == (16, 5, 16)

    def test_a_node_that_is_not_known_has_no_kind(self):
        assert interpret_node(RawOperator(op="XNNArgMaxPooling2d")).kind == ""
