"""Rows of a profile: their names, bytes and sums."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from edgewise.profiling.layers import NAMELESS, NOT_THE_WHOLE, build_profile
from edgewise.run.profiled import with_layers
from edgewise.runtime.base import EngineNode, EngineOverhead, EngineProfile
from graphs import convnet, graph, op, tensor
from messages import wording
from sample_runs import make_run


def engine(*nodes, wall=100_000, overhead=10_000):
    count = 4
    return EngineProfile(
        method="fake",
        resolution_ns=1,
        truncates=False,
        nodes=tuple(
            EngineNode(name=name, op=f"k{name}", times_ns=(float(time),) * count, start_ns=float(at), **more)
            for at, (name, time, more) in enumerate(nodes)
        ),
        overheads=(EngineOverhead(name="between operators", times_ns=(float(overhead),) * count),),
        inference_ns=(wall,) * count,
        ordered=False,
    )


def by_name(layers):
    return {layer.name: layer for layer in layers}


def test_rows_add_up_to_the_latency():
    told = engine(
        ("a", 50_000, {"originals": ("Conv0", "Relu0")}),
        ("r", 5_000, {"role": "layout"}),
        ("b", 30_000, {"originals": ("Conv1", "Add0")}),
        ("?", 2_000, {}),
    )
    layers, profile = build_profile(convnet(), [told], latency=95e-6)
    times = [layer.time for layer in layers if layer.time is not None]
    assert sum(times) + profile.unattributed - 2e-6 == pytest.approx(95e-6)  # the nameless step is a row too
    assert profile.operators_time == pytest.approx(80e-6)
    assert profile.overheads_time == pytest.approx(5e-6 + 8e-6)
    assert profile.conservation == pytest.approx(93 / 95)
    assert profile.attributed == pytest.approx(93 / 95)
    assert [layer.index for layer in layers] == list(range(len(layers)))
    nameless = [layer for layer in layers if layer.op == NAMELESS]
    assert [layer.time for layer in nameless] == [pytest.approx(2e-6)]
    assert [layer.name for layer in layers if layer.kind == "eliminated"] == ["Reshape0"]
    assert [each.name for each in profile.outputs] == ["y"]


@pytest.mark.parametrize(("spent", "words"), [(75_000, "120%"), (82_000, ""), (90_000, ""), (120_000, "")])
def test_parts_that_are_longer_than_their_inferences_are_cautioned(monkeypatch, spent, words):
    told = engine(("a", 60_000, {"originals": ("Conv0", "Relu0")}), ("b", 30_000, {"originals": ("Conv1", "Add0")}))
    told = replace(
        told, processor_ns=(spent,) * 4, unprofiled_ns=(spent,) * 4, pairs_ns=((float(spent), float(spent)),) * 2
    )
    layers, profile = build_profile(convnet(), [told], latency=1.0)
    # Of 90 µs by the engine's clock, or of more.
    whole = max(spent, 90_000)
    assert {layer.name: layer.share for layer in layers if layer.engine_nodes} == pytest.approx(
        {"Conv0": 60_000 / whole, "Conv1": 30_000 / whole}
    )
    assert profile.conservation <= 1.0 + 1e-9
    notes = [note for note in profile.notes if note.startswith(NOT_THE_WHOLE)]
    if not words:
        assert notes == []
        return
    assert [f"they are {words} of the processor time" in note for note in notes] == [True]
    monkeypatch.setattr("edgewise.run.profiled.read_run_graph", lambda _: convnet())
    processes = [SimpleNamespace(failure=None, profile=told)]
    run = with_layers(make_run(1), processes, find_peaks=lambda *_, **__: ((), "none"))
    assert [each.code for each in run.cautions if each.message.startswith(NOT_THE_WHOLE)] == ["layers-off"]


def test_layers_are_called_as_their_operators_are():
    net = convnet()
    labelled = replace(net, operators=tuple(replace(each, label=f"features/{each.name}") for each in net.operators))
    told = engine(("a", 50_000, {"originals": ("Conv0", "Relu0")}), ("b", 30_000, {"originals": ("Conv1", "Add0")}))
    layers, _ = build_profile(labelled, [told], latency=95e-6)
    found = {layer.name: (layer.title, layer.nodes) for layer in layers if layer.nodes}
    assert found["Conv0"] == ("features/Conv0", ("Conv0", "Relu0"))
    assert found["Reshape0"] == ("features/Reshape0", ("Reshape0",))


def test_what_computes_is_never_called_removed():
    told = engine(("?", 90_000, {}), ("b", 3_000, {"originals": ("Add0",)}))
    layers, profile = build_profile(convnet(), [told], latency=95e-6)
    lost = [layer for layer in layers if layer.kind == "unmatched"]
    assert [layer.name for layer in lost] == ["Conv0", "Relu0", "Conv1"]
    why = "no step of the engine names it, and 1 steps that ran are unknown"
    assert {(layer.time, layer.share, layer.time_absent_because) for layer in lost} == {(None, None, why)}
    assert sum(layer.macs for layer in lost) == 6_912 + 1_024
    assert [layer.name for layer in layers if layer.kind == "eliminated"] == ["Reshape0"]
    assert profile.attributed == pytest.approx(5 / 95)


def test_why_an_operator_is_not_matched_where_every_step_has_a_name():
    layers, _ = build_profile(convnet(), [engine(("a", 90_000, {"originals": ("Conv0",)}))], latency=95e-6)
    lost = [layer for layer in layers if layer.kind == "unmatched"]
    assert [layer.name for layer in lost] == ["Conv1", "Add0"]
    assert all(wording("no-step-engine-names-either") in layer.time_absent_because for layer in lost)


def test_a_fused_row_moves_no_bytes_inside():
    told = engine(("a", 1, {"originals": ("Conv0", "Relu0", "Conv1", "Add0", "Reshape0")}))
    layers, _ = build_profile(convnet(), [told], latency=1e-6)
    (row,) = [layer for layer in layers if layer.kind == "operator"]
    # in: x 192 × 4 B, out: y 256 × 4 B; weights (108 + 4 + 16) × 4 B
    assert (row.activation_bytes, row.weight_bytes, row.parameters) == (768 + 1024, 512, 128)
    assert row.macs == 6_912 + 1_024
    assert row.name == "Conv0"


def qdq():
    """Two convolutions of one quantised weight: x → Q → DQ → Conv0 → Q → DQ → Conv1 → y."""
    return graph(
        [
            tensor("x", 1, 2, 4, 4), tensor("q0", 1, 2, 4, 4, dtype="int8"), tensor("d0", 1, 2, 4, 4),
            tensor("w", 2, 2, 1, 1, dtype="int8", constant=True), tensor("dw", 2, 2, 1, 1),
            tensor("c0", 1, 2, 4, 4), tensor("q1", 1, 2, 4, 4, dtype="int8"), tensor("d1", 1, 2, 4, 4),
            tensor("y", 1, 2, 4, 4),
        ],
        [
            op("Q0", "quantize", ["x"], ["q0"], per_element=4),
            op("DQ0", "dequantize", ["q0"], ["d0"], per_element=2),
            op("DQw", "dequantize", ["w"], ["dw"], weights=["w"], per_element=2),
            op("Conv0", "convolution", ["d0", "dw"], ["c0"], reduction=2),
            op("Q1", "quantize", ["c0"], ["q1"], per_element=4),
            op("DQ1", "dequantize", ["q1"], ["d1"], per_element=2),
            op("Conv1", "convolution", ["d1", "dw"], ["y"], reduction=2),
        ],
        inputs=["x"],
        outputs=["y"],
    )  # fmt: skip


def test_quantised_steps_read_integers():
    told = engine(
        ("q", 1, {"originals": ("Q0",)}),
        ("a", 1, {"originals": ("DQ0", "DQw", "Conv0", "Q1")}),
        ("b", 1, {"originals": ("DQ1", "Conv1")}),
    )
    rows = by_name(build_profile(qdq(), [told], latency=1e-6)[0])
    # both read 32 integers; the first hands on 32 integers, the second 32 floats; the weight is 4 integers
    assert (rows["Conv0"].activation_bytes, rows["Conv0"].weight_bytes) == (64, 4)
    assert (rows["Conv1"].activation_bytes, rows["Conv1"].weight_bytes) == (32 + 128, 4)
    assert rows["Conv1"].parameters == 4


def test_a_conversion_with_a_step_of_its_own_makes_floats():
    told = engine(
        ("q", 1, {"originals": ("Q0",)}),
        ("d", 1, {"originals": ("DQ0",)}),
        ("a", 1, {"originals": ("Conv0",)}),
    )
    rows = by_name(build_profile(qdq(), [told], latency=1e-6)[0])
    assert [each.name for each in rows["Conv0"].inputs] == ["d0"]


def test_a_row_is_called_after_what_it_does_and_not_after_a_conversion():
    made = graph(
        [tensor("a", 4, dtype="int8"), tensor("da", 4), tensor("s", 4), tensor("q", 4, dtype="int8")],
        [
            op("DQ", "dequantize", ["a"], ["da"], per_element=2),
            op("Add", "elementwise", ["da", "da"], ["s"], per_element=1),
            op("Q", "quantize", ["s"], ["q"], per_element=4),
        ],
        inputs=["a"],
        outputs=["q"],
    )
    told = engine(("n", 1, {"originals": ("DQ", "Add", "Q")}))
    assert build_profile(made, [told], latency=1e-6)[0][0].name == "Add"


def open_product():
    """Transpose → MatMul of tensors with open shapes → Sub → Pow → LayerNormalization's last step."""
    return graph(
        [tensor(name, None, None) for name in ("a", "b", "t", "m", "c", "p")],
        [
            op("Transpose0", "movement", ["b"], ["t"]),
            op("MatMul0", "matrix-multiplication", ["a", "t"], ["m"], reduction=None),
            op("Sub0", "elementwise", ["m", "a"], ["c"], per_element=1),
            op("Pow0", "elementwise", ["c"], ["p"], per_element=1),
        ],
        inputs=["a", "b"],
        outputs=["p"],
    )


def test_without_macs_a_row_is_named_after_what_its_step_is_for():
    product = {"originals": ("Transpose0", "MatMul0"), "kinds": ("matrix-multiplication",), "type": "FusedMatMul"}
    fused = {"originals": ("Sub0", "Pow0"), "kinds": ("normalization", "elementwise"), "type": "LayerNormalization"}
    layers, _ = build_profile(open_product(), [engine(("p", 50, product), ("n", 40, fused))], latency=1e-7)
    assert layers[0].macs is None
    assert [(layer.name, layer.op) for layer in layers if layer.kind == "operator"] == [
        ("MatMul0", "MatMul"),
        ("Sub0", "LayerNormalization"),
    ]


def test_the_longest_step_names_a_row_of_several():
    product = {"originals": ("MatMul0", "Sub0"), "kinds": ("matrix-multiplication",), "type": "MatMul"}
    fused = {"originals": ("Sub0", "Pow0"), "kinds": ("normalization",), "type": "SkipLayerNormalization"}
    layers, _ = build_profile(open_product(), [engine(("p", 50, product), ("n", 4, fused))], latency=1e-7)
    assert next(layer.op for layer in layers if len(layer.nodes) == 3) == "MatMul"


def test_an_accelerator_that_leaves_work_to_the_processor_is_told():
    told = engine(
        ("a", 1, {"originals": ("Conv0",), "provider": "NPU"}),
        ("b", 1, {"originals": ("Conv1",), "provider": "CPU"}),
    )
    rows = by_name(build_profile(convnet(), [told], latency=1e-6, provider="NPU")[0])
    assert rows["Conv0"].supported is True and rows["Conv0"].error is None
    assert rows["Conv1"].supported is False and "NPU does not support it" in rows["Conv1"].error
    assert by_name(build_profile(convnet(), [told], latency=1e-6)[0])["Conv1"].supported is None
