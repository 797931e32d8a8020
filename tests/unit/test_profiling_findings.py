"""Rooflines and findings on layers made by hand: every rule fires on its case, and on nothing else."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from edgewise.profiling.findings import FINDINGS, find
from edgewise.profiling.roofline import (
    bandwidth_of,
    beaten_peaks,
    describe_beaten,
    find_dtype,
    peak_dtypes,
    peak_of,
    place,
    share_of_roof,
)
from edgewise.record import Layer, LayerTensor, Peak, Profile
from graphs import convnet, graph, op, tensor
from messages import has, says

PEAKS = (
    Peak(kind="compute", dtype="float32", threads=1, value=100e9),
    Peak(kind="compute", dtype="int8", threads=1, value=400e9),
    Peak(kind="bandwidth", threads=1, size_bytes=2**18, value=80e9),
    Peak(kind="bandwidth", threads=1, size_bytes=2**24, value=20e9),
)


def layer(index, *, time=1e-3, operators=(), kind="operator", latency=10e-3, **more):
    base = {"name": f"l{index}", "op": "Op", "ops": 10**8, "macs": 5 * 10**7, "dtype": "f32"}
    return Layer(
        index=index, kind=kind, time=time, share=time / latency, operators=tuple(operators), **{**base, **more}
    )


def profile(**more):
    base = {
        "method": "m", "sessions": 1, "inferences": 1, "latency": 10e-3, "operators_time": 0.0, "overheads_time": 0.0,
        "conservation": 1.0, "attributed": 1.0, "unattributed": 0.0, "profiled_latency": 0.0, "peaks": PEAKS,
    }  # fmt: skip
    return Profile(**{**base, **more})


def codes(layers, made=None, *, first=None, **more):
    return [each.code for each in find(layers, profile(**more), graph=made or convnet(), first=first)]


def test_a_layer_under_its_roof():
    # 1e8 ops in 2 ms = 50 GFLOP/s; 100 ops/B × 80 GB/s = 8 TFLOP/s: compute is the roof
    (found,) = place([layer(0, time=2e-3, intensity=100.0, weight_bytes=10**5, activation_bytes=10**5)], PEAKS)
    assert found.ops_per_second == pytest.approx(50e9)
    assert (found.roof, found.bound) == (100e9, "compute")
    assert found.roof_share == pytest.approx(0.5)


def test_a_peak_that_a_layer_beats_is_no_roof():
    # 1e8 ops in at most 0.5 ms are 200 GFLOP/s, twice the measured peak; by the interval of l1 it may be below.
    fast = layer(0, time=4e-4, high=5e-4, intensity=100.0)
    unsure, slow = layer(1, time=9e-4, high=2e-3, intensity=100.0), layer(2, time=5e-3, high=5e-3, intensity=100.0)
    little = layer(3, time=1e8 / 104e9, high=1e8 / 104e9, intensity=100.0)
    assert beaten_peaks([unsure, slow, little], PEAKS) == {}
    found = beaten_peaks([fast, unsure, slow], PEAKS)
    assert found == {PEAKS[0]: fast}
    assert describe_beaten(PEAKS[0], fast) == (
        "the measured float32 peak, 100 Gop/s, is too low for a roof of l0: it attains at least 200 Gop/s"
    )
    placed = place([fast, unsure, slow], PEAKS, beaten=found)
    assert [(each.roof, each.roof_share, each.bound) for each in placed] == [(None, None, None)] * 3
    assert placed[0].ops_per_second == pytest.approx(250e9)


def test_a_layer_in_a_nearer_cache_than_the_copy_says_nothing_of_its_bandwidth():
    # 1e6 bytes at 20 GB/s are the roof of both, the copy had 16 MiB; one attains 100 GB/s.
    near = layer(0, time=1e-5, high=1e-5, ops=10**6, intensity=1.0)
    other = layer(1, time=1e-3, high=1e-3, ops=10**6, intensity=1.0)
    assert beaten_peaks([near, other], PEAKS) == {}
    assert [each.roof for each in place([near, other], PEAKS)] == [None, 20e9]
    large = layer(2, time=1e-4, high=1e-4, ops=10**7, intensity=1.0)
    found = beaten_peaks([large, other], PEAKS)
    assert found == {PEAKS[3]: large}
    assert describe_beaten(PEAKS[3], large) == (
        "the measured bandwidth in 16.0 MiB, 20.0 GB/s, is too low for a roof of l2: it attains at least 100 GB/s"
    )


def test_a_share_of_the_roof_above_one_is_at_the_limit_or_above_it_by_the_intervals():
    # A roof of 100 Gop/s: 1 ms. The fastest repetition of the product reached 105 Gop/s.
    peaks = (Peak(kind="compute", dtype="float32", threads=1, value=100e9, low=90e9, high=105e9), *PEAKS[2:])
    times = [(2e-3, 3e-3), (8e-4, 1e-3), (8e-4, 1e-3 / 1.05 / 1.03), (8e-4, None)]
    layers = place([layer(0, time=time, high=high, intensity=100.0) for time, high in times], peaks)
    assert [one.roof for one in layers] == [100e9, 100e9, 100e9, None]  # 0.8 ms beats the peak by 19 %
    assert share_of_roof(layers[3], peaks) is None
    shares = [share for one in layers if (share := share_of_roof(one, peaks))]
    assert [one.value for one in shares] == pytest.approx([0.5, 1.25, 1.25])
    assert [one.least for one in shares] == pytest.approx([1 / 3 / 1.05, 1 / 1.05, 1.03])
    assert [(one.is_at_limit, one.is_above, one.possible) for one in shares] == [
        (False, False, pytest.approx(0.5)), (True, False, 1.0), (False, True, None),
    ]  # fmt: skip
    assert beaten_peaks(layers[:3], peaks) == {}
    assert beaten_peaks(layers[:3], peaks, times=1.0) == {peaks[0]: layers[2]}
    assert beaten_peaks(layers[:2], peaks, times=1.0) == {}


def test_memory_is_the_roof_of_thin_layers():
    # 1 op/B × 20 GB/s (16 MB do not fit the small buffer) = 20 GFLOP/s
    (found,) = place([layer(0, time=10e-3, intensity=1.0, weight_bytes=0, activation_bytes=10**7)], PEAKS)
    assert (found.roof, found.bound) == (20e9, "memory")
    assert found.roof_share == pytest.approx(0.5)


@pytest.mark.parametrize(
    "changes",
    [
        {"ops": None},
        {"time": None, "share": None},
        {"kind": "overhead"},
        {"dtype": "float64"},
        {"intensity": None},
        {"ops": 0},
    ],
)
def test_without_facts_there_is_no_roof(changes):
    base = {
        "index": 0,
        "name": "l",
        "op": "Op",
        "time": 1e-3,
        "share": 0.1,
        "ops": 10,
        "dtype": "f32",
        "intensity": 1.0,
    }
    (found,) = place([Layer(**{**base, **changes})], PEAKS)
    assert found.roof is None and found.bound is None


def test_data_types_by_their_many_names():
    assert find_dtype(layer(0, dtype="QS8, QC8W")) == "int8"
    assert find_dtype(layer(0, dtype="bf16")) == "bfloat16"
    assert find_dtype(layer(0, dtype=None)) is None
    assert peak_dtypes([layer(0, dtype="i8"), layer(1, dtype="u8"), layer(2, macs=0), layer(3, dtype="f32")]) == (
        "int8",
        "float32",
    )


def test_the_bandwidth_of_the_right_size():
    assert bandwidth_of(PEAKS, 10).value == 80e9
    assert bandwidth_of(PEAKS, 2**20).value == 20e9
    assert bandwidth_of(PEAKS, 2**30).value == 20e9
    assert bandwidth_of((), 1) is None
    assert peak_of(PEAKS, "float16") is None


def test_layers_far_from_their_roof_with_denormal_weights():
    # Conv0 has 108 weights and 4 biases, Conv1 16 weights; both reach 1 % of their roof.
    layers = [
        layer(at, operators=[operator], time=4e-3, roof=25e11, roof_share=0.01) for at, operator in ((0, 0), (1, 2))
    ]
    found = find(layers, profile(), graph=convnet(), denormals={"w0": 30})
    assert [(each.code, each.layers) for each in found] == [("denormal-weights", (0,)), ("far-from-roof", (1,))]
    assert found[0].suggestion.startswith("30 of the 112 weights of these layers are denormal")
    assert "make them 0 in the file (docs/profile.md has the lines), or give --set session.set_denormal_as_zero=1" in (
        found[0].suggestion
    )
    assert found[0].suggestion.endswith("which holds in a program only if its first session of ONNX Runtime has it")
    # Conv1 may gain too, as Conv0 makes its inputs.
    assert found[0].saving == 10e-3 and found[0].method.startswith("the whole, less the lower ends of the times")
    assert "time_at_roof" not in found[0].evidence
    sure = [replace(layers[0], low=3e-3, high=5e-3), layers[1]]
    behind, ahead = find(sure, profile(), graph=convnet(), denormals={"w1": 3})
    assert (behind.code, behind.layers, behind.saving) == ("denormal-weights", (1,), pytest.approx(10e-3 - 3e-3))
    assert (ahead.code, ahead.layers) == ("far-from-roof", (0,))
    few = find(layers, profile(), graph=convnet(), denormals={"w0": 0.1})  # less than one in a thousand
    assert [each.code for each in few] == ["far-from-roof"]
    near = [layer(0, operators=[0], time=4e-3, roof=25e9, roof_share=1.0)]
    assert find(near, profile(), graph=convnet(), denormals={"w0": 30}) == ()


def test_nothing_to_find():
    assert codes([layer(0, operators=[0]), layer(1, operators=[2])]) == []


def test_provider_fallback():
    (found,) = find([layer(0, supported=False), layer(1, supported=True)], profile(), graph=convnet())
    assert (found.code, found.layers, found.saving) == ("provider-fallback", (0,), 1e-3)


def test_layout_changes_and_conversions():
    layers = [
        layer(0, kind="overhead", op="change of layout", engine_nodes=("r",), time=2e-3),
        layer(1, kind="overhead", op="conversion of type", engine_nodes=("c",), time=1e-3),
    ]
    assert codes(layers) == ["layout-changes", "type-conversions"]


def quantised(data="int8"):
    tensors = [
        tensor("x", 4), tensor("a", 4), tensor("q", 4, dtype="int8"), tensor("d", 4), tensor("w", 4, dtype=data, constant=True),
        tensor("dw", 4), tensor("c", 4), tensor("y", 4),
    ]  # fmt: skip
    operators = [
        op("Relu0", "activation", ["x"], ["a"], activation="relu"),
        op("Q0", "quantize", ["a"], ["q"], per_element=4),
        op("DQ0", "dequantize", ["q"], ["d"], per_element=2),
        op("DQ1", "dequantize", ["w"], ["dw"], per_element=2),
        op("Conv0", "convolution", ["d", "dw"], ["c"], reduction=1),
        op("Relu1", "activation", ["c"], ["y"], activation="relu"),
    ]
    return graph(tensors, operators, inputs=["x"], outputs=["y"])


def tensors_of(*names):
    return tuple(LayerTensor(name=name, shape=(4,), dtype="float32") for name in names)


def test_conversions_of_the_model_itself_inside_the_network():
    layers = [layer(0, operators=[1], inputs=tensors_of("a"), outputs=tensors_of("q"), macs=0)]
    assert codes(layers, quantised()) == ["type-conversions"]
    ends = [layer(0, operators=[1], inputs=tensors_of("x"), outputs=tensors_of("q"), macs=0)]
    assert codes(ends, quantised()) == []


def test_quantised_layers_in_floating_point():
    layers = [layer(0, operators=[4], time=4e-3)]
    (found,) = find(layers, profile(), graph=quantised())
    # 4 ms × (1 − 1/4): this machine's 8-bit products are four times as fast
    assert (found.code, found.saving) == ("integer-run-as-float", pytest.approx(3e-3))
    assert find([layer(0, operators=[4], dtype="i8")], profile(), graph=quantised()) == ()
    assert find(layers, profile(), graph=quantised("float32")) == ()
    assert find(layers, profile(peaks=()), graph=quantised()) == ()


def test_unfused_activation():
    behind = [layer(0, operators=[5], inputs=tensors_of("c"), outputs=tensors_of("y"), op="Relu", macs=0)]
    assert codes(behind, quantised()) == ["unfused-activation"]
    alone = [layer(0, operators=[0], inputs=tensors_of("x"), outputs=tensors_of("a"), op="Relu", macs=0)]
    assert codes(alone, quantised()) == []


def hard_swish(count=1, first="x"):
    """A convolution and `count` hard-swish functions of element-wise operators, as exporters of Paddle write them."""
    tensors, operators, at = [tensor("x", 4), tensor("c", 4)], [op("Conv", "convolution", ["x"], ["c"])], "c"
    for number in range(count):
        names = [f"{part}{number}" for part in ("add", "clip", "mul", "div")]
        tensors += [tensor(name, 4) for name in names]
        operators += [
            op("Add", "elementwise", [at], names[:1]),
            op("Clip", "activation", names[:1], names[1:2]),
            op("Mul", "elementwise", [at, names[1]], names[2:3]),
            op("Div", "elementwise", names[2:3], names[3:]),
        ]
        at = names[3]
    return graph(tensors, operators, inputs=[first], outputs=[at])


def steps_of(made, *, time=1e-3):
    """A layer per operator."""
    return [
        layer(each.index, operators=[each.index], op=each.op, time=time, macs=0, nodes=(each.name,),
              inputs=tensors_of(*each.inputs), outputs=tensors_of(*each.outputs))
        for each in made.operators
    ]  # fmt: skip


def test_element_wise_operators_in_a_row():
    made = hard_swish()
    (found,) = find(steps_of(made), profile(), graph=made)
    assert (found.code, found.layers) == ("element-wise-chains", (1, 2, 3, 4))
    assert found.saving == pytest.approx(4e-3)
    assert found.evidence == {"operators": 4, "time": pytest.approx(4e-3), "chains": 1}
    assert re.search(
        says(
            "element-wise-operators-chain",
            layers_count=4,
            chains_count=1,
            value=says("run-one-one", types="", more="Add, Clip, Mul, Div", share=has("4.00 ms")),
        ),
        found.message,
    )


def test_a_chain_behind_no_product_keeps_its_slowest_step():
    made = hard_swish()
    steps = steps_of(made)[2:]
    steps[1] = layer(3, operators=[3], op="Mul", time=2e-3, macs=0, inputs=tensors_of("clip0"))
    (found,) = find(steps, profile(), graph=made)
    assert (found.layers, found.saving) == ((2, 3, 4), pytest.approx(2e-3))


def test_what_the_engine_fuses_is_no_chain():
    made = hard_swish()
    whole = layer(0, operators=range(5))
    assert codes([whole], made) == []
    assert codes([layer(0, operators=[0]), layer(1, operators=range(1, 5), macs=0)], made) == []


def test_chains_that_meet_are_one():
    made = graph(
        [tensor(name, 4) for name in ("x", "a", "b", "y")],
        [
            op("Abs", "elementwise", ["x"], ["a"]),
            op("Neg", "elementwise", ["x"], ["b"]),
            op("Add", "elementwise", ["a", "b"], ["y"]),
        ],
    )
    (found,) = find(steps_of(made), profile(), graph=made)
    assert (found.evidence["chains"], found.layers, found.saving) == (1, (0, 1, 2), pytest.approx(2e-3))


def test_unfused_batch_norm():
    made = graph(
        [tensor("x", 4), tensor("a", 4), tensor("b", 4), tensor("y", 4)],
        [
            op("aten.conv2d.default", "convolution", ["x"], ["a"]),
            op("aten.batch_norm.default", "normalization", ["a"], ["b"]),
            op("aten.batch_norm.default", "normalization", ["b"], ["y"]),
        ],
    )
    behind = layer(0, operators=[1], inputs=tensors_of("a"), outputs=tensors_of("b"), macs=0)
    alone = layer(1, operators=[2], inputs=tensors_of("b"), outputs=tensors_of("y"), macs=0)
    (found,) = find([behind, alone], profile(), graph=made)
    assert (found.code, found.layers, found.saving) == ("unfused-batch-norm", (0,), pytest.approx(1e-3))
    whole = layer(0, operators=[0, 1], inputs=tensors_of("x"), outputs=tensors_of("b"))
    assert codes([whole, alone], made) == []


def test_eager_pytorch_is_advised_to_compile():
    relu = [layer(0, operators=[5], inputs=tensors_of("c"), outputs=tensors_of("y"), macs=0, engine_op="aten::relu")]
    (found,) = find(relu, profile(), graph=quantised())
    assert found.code == "unfused-activation" and "torch/compile" in found.suggestion
    (found,) = find([*relu, layer(1, engine_op="graph_0_cpp_fused_0")], profile(), graph=quantised())
    assert "torch/compile" not in found.suggestion


def depthwise():
    return graph([tensor("x", 4), tensor("y", 4)], [op("C", "convolution", ["x"], ["y"], reduction=1, depthwise=True)])


def test_far_from_the_roof():
    slow = layer(0, operators=[0], time=4e-3, roof=100e9, roof_share=0.25)
    (found,) = find([slow], profile(), graph=convnet())
    # 1e8 ops at 100 GFLOP/s take 1 ms
    assert (found.code, found.saving) == ("far-from-roof", pytest.approx(3e-3))
    assert codes([slow], depthwise()) == ["depthwise-far-from-roof"]
    near = layer(0, operators=[0], time=2e-3, roof=100e9, roof_share=0.5)
    assert codes([near]) == []
    # by its interval it may take 2 ms, half its roof: nothing is known that is worth a finding
    vague = layer(0, operators=[0], time=4e-3, low=2e-3, high=6e-3, roof=100e9, roof_share=0.25)
    assert codes([vague]) == []


def chained_convolutions(channels):
    """Two convolutions, the first with `channels`, the second with one."""
    made = graph(
        [*(tensor(name, 4) for name in "xhy"), tensor("v", channels, 8, 1, 1), tensor("w", 1, channels, 1, 1)],
        [
            op("A", "convolution", ["x", "v"], ["h"], reduction=1),
            op("B", "convolution", ["h", "w"], ["y"], reduction=1),
        ],
    )
    first, last = made.operators
    return replace(made, operators=(replace(first, weights=("v",)), replace(last, weights=("w",))))


def test_channels_are_not_advised_where_the_task_gives_their_number():
    """A last layer of one channel was advised to have a multiple of 8, and so were layers that have one."""
    made = chained_convolutions(12)
    slow = [layer(at, operators=[at], time=4e-3, roof=100e9, roof_share=0.25) for at in (0, 1)]
    for layers, channels in ((slow[1:], 12), (slow[:1], 16), (slow, 16), (slow, "n")):
        (found,) = find(layers, profile(), graph=chained_convolutions(channels) if channels != 12 else made)
        assert found.code == "far-from-roof" and "channel" not in found.suggestion


def convolutions(*channels):
    """Convolutions in a row, each with as many channels."""
    count = len(channels)
    tensors = [tensor(f"t{at}", 4) for at in range(count + 1)]
    tensors += [tensor(f"w{at}", size, 8, 1, 1) for at, size in enumerate(channels)]
    operators = [
        op(f"C{at}", "convolution", [f"t{at}"], [f"t{at + 1}"], weights=[f"w{at}"], reduction=1) for at in range(count)
    ]
    return graph(tensors, operators, inputs=["t0"], outputs=[f"t{count}"])


def test_channel_counts_hold_the_layers_that_have_such_counts_and_what_these_can_gain():
    """Layers of 768 → 384 channels were said to want multiples of 8, with all of their distance to the roof."""
    shares = (0.25, 0.1, 0.5, 0.2, 0.1)
    layers = [
        layer(at, operators=[at], time=1e-3 / share, roof=100e9, roof_share=share) for at, share in enumerate(shares)
    ]
    far, channels = find(layers, profile(latency=50e-3), graph=convolutions(12, 12, 48, 384, 1))
    assert (far.code, far.layers) == ("far-from-roof", (3, 4))
    assert far.saving == pytest.approx(13e-3)
    assert far.suggestion.startswith("why these layers are slow is not known: a profile in two engines (--runtime ")
    assert far.message.endswith("The most is lost in 'l4': 10.0 ms at 10.0% of its limit")
    # Layers of 48 and 384 channels reach 50 % and 20 %: at 35 % the others take 1 ms / 0.35.
    assert (channels.code, channels.layers) == ("channel-counts", (0, 1))
    assert channels.saving == pytest.approx(4e-3 + 10e-3 - 2e-3 / 0.35)
    assert channels.message.endswith(
        "half of the layers with such multiples reach 35% of theirs. The most is lost in 'l1'"
    )
    assert channels.suggestion.startswith("channel counts inside the network that are multiples of 8 or 16 suit most")
    assert channels.evidence["usual_share"] == pytest.approx(0.35)


def test_channel_counts_that_cost_little_leave_the_distance_unexplained():
    shares = (0.25, 0.26, 0.24)
    layers = [
        layer(at, operators=[at], time=1e-3 / share, roof=100e9, roof_share=share) for at, share in enumerate(shares)
    ]
    (found,) = find(layers, profile(latency=50e-3), graph=convolutions(12, 48, 384))
    assert (found.code, found.layers) == ("far-from-roof", (0, 1, 2))


def test_the_example_is_the_layer_that_loses_most():
    """A layer of 144 weights at 0.1 % that takes no time was the example."""
    layers = [
        layer(0, operators=[0], name="long", time=8e-3, roof=100e9, roof_share=0.125),
        layer(1, operators=[0], name="short", time=1e-4, ops=10**4, roof=100e9, roof_share=0.001),
    ]
    (found,) = find(layers, profile(latency=20e-3), graph=convnet())
    assert found.layers == (0, 1) and "The most is lost in 'long': 8.00 ms at 12.5% of its limit" in found.message


def test_slow_layers_that_another_finding_explains_are_not_said_to_be_unexplained():
    slow = [layer(0, operators=[4], time=8e-3, roof=100e9, roof_share=0.125)]
    found = find(slow, profile(), graph=quantised())
    assert [each.code for each in found] == ["far-from-roof", "integer-run-as-float"]
    assert found[0].suggestion == "try more work per call (batch), another layout or another engine"


def test_no_saving_is_above_the_whole():
    (found,) = find([layer(0, time=25e-3, supported=False)], profile(), graph=convnet())
    assert found.saving == 10e-3


def test_shapes_computed_while_running():
    made = graph([tensor("x", None, 3), tensor("s", 2, dtype="int64")], [op("Shape", "movement", ["x"], ["s"])])
    (found,) = find([layer(0, operators=[0], macs=0)], profile(), graph=made)
    assert found.code == "dynamic-shapes" and found.evidence["open_tensors"] == 1


def test_a_storm_of_tiny_operators():
    tiny = [layer(at, time=20e-6, ops=10, macs=0) for at in range(20)]
    (found,) = find(tiny, profile(), graph=convnet())
    assert (found.code, len(found.layers), found.saving) == ("tiny-operators", 20, pytest.approx(400e-6))
    assert codes(tiny[:19]) == []
    # No tool for ONNX files is advised for a network in another format.
    assert found.suggestion.startswith("simplify the graph (constant folding), or")
    (found,) = find(tiny, profile(), graph=replace(convnet(), format="onnx"))
    assert found.suggestion.startswith("simplify the graph (constant folding, onnxslim), or")


def test_much_outside_the_operators():
    places = [
        layer(0, kind="overhead", name="between operators", op="work", time=1.5e-3),
        layer(1, kind="overhead", name="call", op="call", time=0.5e-3),
    ]
    (found,) = find(places, profile(), graph=convnet())
    assert (found.code, found.saving, found.evidence["between_operators"]) == ("engine-overhead", 2e-3, 1.5e-3)
    assert codes([layer(0, kind="overhead", name="call", op="call", time=0.9e-3)]) == []
    ways = "use more work per inference (batch), fewer and larger operators"
    for threads in (None, 4):
        (found,) = find(places, profile(), graph=convnet(), threads=threads)
        assert found.suggestion == f"{ways}, another engine or one thread if several wait for each other"
    (alone,) = find(places, profile(), graph=convnet(), threads=1)
    assert alone.suggestion == f"{ways} or another engine"


def test_a_slow_start_comes_last_whatever_it_saves():
    found = find([layer(0, supported=False)], profile(), graph=convnet(), first=3.0)
    assert [each.code for each in found] == ["provider-fallback", "slow-first-inference"]
    assert found[1].once and found[1].saving == pytest.approx(2.99)
    assert codes([], first=0.012) == []


def test_what_saves_little_is_not_worth_a_line():
    assert codes([layer(0, supported=False, time=0.05e-3)]) == []


def test_findings_are_ranked_by_what_they_save_and_have_numbers():
    layers = [
        layer(0, kind="overhead", op="change of layout", engine_nodes=("r",), time=1e-3),
        layer(1, supported=False, time=3e-3),
    ]
    found = find(layers, profile(), graph=convnet(), first=1.0)
    assert [each.code for each in found] == ["provider-fallback", "layout-changes", "slow-first-inference"]
    for each in found:
        assert each.code in FINDINGS and each.evidence and each.suggestion and each.method
        assert re.search(r"\d", each.message)


def test_no_rate_and_no_finding_comes_from_a_time_that_is_only_a_bound():
    bound = {"time": 0.03e-3, "low": 0.0, "high": 2e-3, "supported": False, "intensity": 100.0}
    more = {"weight_bytes": 10**5, "activation_bytes": 10**5}
    sure, unsure = place([layer(0, **{**bound, **more, "low": 0.01e-3}), layer(1, **bound, **more)], PEAKS)
    assert sure.ops_per_second == pytest.approx(1e8 / 0.03e-3)
    assert (unsure.ops_per_second, unsure.roof, unsure.roof_share, unsure.bound) == (None, None, None, None)
    bounded = layer(0, time=1e-3, low=0.0, high=2e-3, supported=False)
    assert codes([bounded]) == []
    assert codes([layer(0, time=1e-3, low=0.5e-3, high=2e-3, supported=False)]) == ["provider-fallback"]
