"""Hand-made profiled runs for tests of everything that shows profiles: no engine, no clock, the same everywhere.

A small network of eleven operators in eight layers, with fused, eliminated, unknown and hostile ones, overheads with
and without a place in time, findings, peaks and a memory plan. All sums are exact: operators 920 µs, overheads 60 µs,
end to end 1000 µs.
"""

from __future__ import annotations

from dataclasses import replace

from edgewise.record import Finding, Layer, LayerTensor, Peak, Profile, Run
from sample_runs import KWS, VWW, make_run, measured, missing, run_id

HOSTILE = "conv \"one\"\n</td><script>alert(1)</script> & 'two'"
FORMULA = "=HYPERLINK(A1)"
LONG = "MobilenetV2/expanded_conv_7/depthwise/BatchNorm/FusedBatchNormV3;MobilenetV2/expanded_conv_7/Relu6"
NO_COST = "no formula for the custom operator 'Whirl'"
NO_TIME = "the engine has no event for it"
MICRO = 1e-6

PEAKS = (
    Peak(
        kind="compute",
        dtype="float32",
        threads=1,
        value=60e9,
        low=58e9,
        high=61e9,
        method="matrix product of numpy, 512 × 512",
        measured_at="2026-03-04T05:00:00.000+00:00",
    ),
    Peak(kind="bandwidth", dtype=None, threads=1, value=12e9, low=11.5e9, high=12.2e9, method="copy of 64 MiB"),
)
MEMORY = {
    "arena_bytes": 98_304,
    "lower_bound_bytes": 90_112,
    "persistent_bytes": 0,
    "peak_operator": 3,
    "live_bytes": [20_000, 40_000, 60_000, 90_112, 70_000, 70_000, 30_000, 30_000, 12_000, 8_000, 4_000],
    "alignment": 16,
    "unknown": [],
}


def tensor(name: str, *shape: int | str | None, dtype: str = "float32") -> LayerTensor:
    """A tensor of a layer."""
    return LayerTensor(name=name, shape=shape, dtype=dtype)


def layer_of(index: int, name: str, op: str, micros: float, **more: object) -> Layer:
    """A layer that takes `micros` µs ± 2 % of 1000 µs end to end."""
    time = micros * MICRO
    values: dict[str, object] = {
        "nodes": (name,),
        "engine_op": f"{op}_kernel",
        "time": time,
        "low": time * 0.98,
        "high": time * 1.02,
        "share": micros / 1000,
        "dtype": "float32",
        "provider": "cpu",
    }
    return Layer(index=index, name=name, op=op, **(values | more))


def counted(index: int, name: str, op: str, micros: float, *, macs: int, moved: int, **more: object) -> Layer:
    """A layer with a known cost: two ops per MAC, `moved` bytes, and its place under the roofs of `PEAKS`."""
    ops, time = 2 * macs, micros * MICRO
    intensity = ops / moved
    roof = min(60e9, intensity * 12e9)
    cost = {
        "macs": macs,
        "ops": ops,
        "parameters": moved // 16,
        "weight_bytes": moved // 4,
        "activation_bytes": moved - moved // 4,
        "intensity": intensity,
        "ops_per_second": ops / time,
        "roof": roof,
        "roof_share": ops / time / roof,
        "bound": "compute" if roof == 60e9 else "memory",
    }
    return layer_of(index, name, op, micros, **(cost | more))


def sample_layers() -> tuple[Layer, ...]:
    """Eight layers of operators, three overheads, one eliminated operator."""
    return (
        counted(0, HOSTILE, "Conv", 300, macs=6_000_000, moved=400_000, start=10 * MICRO, operators=(0, 1, 2),
                nodes=(HOSTILE, "bn1", "relu1"), engine_nodes=("fused_conv_1",), engine_op="Conv_nchwc",
                inputs=(tensor("input", 1, 49, 10, 1),), outputs=(tensor("a", 1, 64, 25, 5),),
                attributes={"strides": [2, 2], "note": "<b>bold</b>"}),
        layer_of(1, "reorder a", "Reorder", 30, kind="overhead", engine_nodes=("reorder_a",), start=311 * MICRO),
        counted(2, LONG, "DepthwiseConv", 250, macs=400_000, moved=300_000, start=342 * MICRO, operators=(3,),
                inputs=(tensor("a", 1, 64, 25, 5),), outputs=(tensor("b", 1, 64, None, "w"),)),
        counted(3, "pw1", "Conv", 200, macs=4_000_000, moved=200_000, start=593 * MICRO, operators=(4, 5),
                nodes=("pw1", "relu2"), inputs=(tensor("b", 1, 64, 25, 5),), outputs=(tensor("c", 1, 64, 25, 5),)),
        layer_of(4, "identity", "Identity", 0, kind="eliminated", operators=(6,), time=None, low=None, high=None,
                 share=None, time_absent_because="the engine removed it", dtype=None, engine_op=""),
        layer_of(5, "whirl", "Whirl", 80, start=794 * MICRO, operators=(7,), cost_unknown_because=NO_COST,
                 inputs=(tensor("c", 1, 64, 25, 5),), outputs=(tensor("d", 1, 64, 25, 5),)),
        counted(6, FORMULA, "Gemm", 60, macs=64_000, moved=70_000, start=875 * MICRO, operators=(8,),
                inputs=(tensor("d", 1, 64, 25, 5),), outputs=(tensor("e", 1, 12),)),
        layer_of(7, "silent", "Reshape", 0, operators=(9,), time=None, low=None, high=None, share=None, macs=0, ops=0,
                 time_absent_because=NO_TIME, inputs=(tensor("e", 1, 12),), outputs=(tensor("f", 12),)),
        layer_of(8, "softmax", "Softmax", 30, macs=0, ops=60, parameters=0, weight_bytes=0, activation_bytes=96, start=936 * MICRO, operators=(10,),
                intensity=0.625, ops_per_second=2e6, roof=7.5e9, roof_share=2e6 / 7.5e9, supported=False,
                error="not an operator of the accelerator", inputs=(tensor("f", 12),), outputs=(tensor("out", 12),)),
        layer_of(9, "between operators", "dispatch", 20, kind="overhead", dtype=None),
        layer_of(10, "session", "call", 10, kind="overhead", low=None, high=None, dtype=None),
    )  # fmt: skip


FINDINGS = (
    Finding(
        code="far-from-roof",
        message=f"the depthwise layer {LONG} attains 3.2 GOP/s of 32 GOP/s",
        suggestion="try another runtime <or> a wider layer",
        saving=225e-6,
        layers=(2,),
        evidence={"time": 250e-6, "roof_share": 0.1, "ops_per_second": 3.2e9},
        method="time at the roof",
    ),
    Finding(
        code="layout",
        message="1 reorder takes 30.0 µs",
        suggestion="keep one layout",
        saving=30e-6,
        layers=(1,),
        evidence={"count": 1.0, "time": 30e-6},
        method="time of all reorders",
    ),
)


def sample_profile() -> Profile:
    """The sums of `sample_layers`."""
    return Profile(
        method="profiling JSON of the engine, durations in whole µs",
        outputs=(LayerTensor(name="logits", shape=(12,), dtype="float32"),),
        sessions=3,
        inferences=300,
        latency=1e-3,
        operators_time=920e-6,
        operators_low=905e-6,
        operators_high=935e-6,
        overheads_time=60e-6,
        conservation=0.98,
        attributed=0.98,
        unattributed=20e-6,
        profiled_latency=1.06e-3,
        peaks=PEAKS,
        memory=MEMORY,
        findings=FINDINGS,
        notes=("durations are cut to whole µs; half a µs was added to each",),
    )


def profiled_run(number: int = 21, *, tflite: bool = False) -> Run:
    """A run of 1 ms whose layers `sample_layers` are."""
    run = make_run(number, model=VWW if tflite else KWS, latency=1e-3, half=1e-5)
    rows = (*run.measurements, missing("cpu_cycles", "perf: no hardware counters in this virtual machine"))
    return replace(run, measurements=rows, layers=sample_layers(), profile=sample_profile())


def faster_run(number: int = 22) -> Run:
    """The same model on another runtime: relu2 is a layer of its own, pw1 is faster, one overhead is gone."""
    layers = []
    for layer in sample_layers():
        if layer.name == "pw1":
            layers.append(replace(layer, nodes=("pw1",), operators=(4,), time=90e-6, low=88e-6, high=92e-6, share=0.11))
            layers.append(
                layer_of(len(layers), "relu2", "Relu", 10, start=690e-6, operators=(5,), ops=8000, macs=0, share=0.0125)
            )
        elif layer.name != "reorder a":
            layers.append(layer)
    layers = [replace(layer, index=index) for index, layer in enumerate(layers)]
    run = make_run(number, runtime="openvino", latency=870e-6, half=9e-6)
    profile = replace(
        sample_profile(),
        latency=870e-6,
        operators_time=820e-6,
        overheads_time=30e-6,
        conservation=850 / 870,
        attributed=850 / 870,
        unattributed=20e-6,
        profiled_latency=900e-6,
        findings=(),
        peaks=(),
        peaks_absent_because="peaks were not measured",
        memory=None,
        memory_absent_because="an input has an open shape",
    )
    return replace(run, layers=tuple(layers), profile=profile)


def unprofiled_run(number: int = 23) -> Run:
    """A run that should have been profiled and was not."""
    run = make_run(number, runtime="litert", provider="interpreter")
    return replace(run, profile_absent_because="litert 9.9 is not a version whose profiler is known")


def many_layers_run(number: int = 24, count: int = 60) -> Run:
    """`count` layers of 10 µs each, in a network whose memory rises and falls."""
    layers = tuple(
        counted(index, f"block_{index // 4}/conv_{index}", ("Conv", "Relu", "Add", "Pool")[index % 4], 10,
                macs=20_000, moved=8_000, start=index * 10e-6, operators=(index,),
                inputs=(tensor(f"t{index}", 1, 8, 8, 8),), outputs=(tensor(f"t{index + 1}", 1, 8, 8, 8),))
        for index in range(count)
    )  # fmt: skip
    live = [4096 + 512 * min(index, count - index) for index in range(count)]
    peak = max(range(count), key=lambda index: live[index])
    memory = {**MEMORY, "live_bytes": live, "peak_operator": peak, "lower_bound_bytes": live[peak], "arena_bytes": live[peak]}  # fmt: skip
    run = make_run(number, latency=1e-3, half=1e-5)
    profile = replace(sample_profile(), memory=memory, operators_time=600e-6, overheads_time=0.0, unattributed=400e-6,
                      conservation=0.6, attributed=0.6, findings=())  # fmt: skip
    return replace(run, layers=layers, profile=profile)


__all__ = ["faster_run", "many_layers_run", "measured", "profiled_run", "run_id", "sample_layers", "unprofiled_run"]
