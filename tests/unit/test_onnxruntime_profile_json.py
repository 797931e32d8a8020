"""ONNX Runtime's profile: what is read from it, and what is refused."""

import json

import pytest

from edgewise.profiling.step_times import StepTimings
from edgewise.runtime.base import CannotProfile
from edgewise.runtime.onnxruntime_mapping import MappedNode
from edgewise.runtime.onnxruntime_profile import _assemble, _stable_name, match_steps
from edgewise.runtime.onnxruntime_trace import KernelTimes, KernelTrace, parse_trace, read_trace
from edgewise.runtime.operator_mapping import Outline, OutlineNode
from edgewise.runtime.profiler_cost import Alternation, share_out
from messages import says


def event(name, start, duration, category="Node", **arguments):
    return {"cat": category, "name": name, "ts": start, "dur": duration, "ph": "X", "args": arguments}


def kernel(name, start, duration, op="Conv", index=0, **arguments):
    return event(f"{name}_kernel_time", start, duration, op_name=op, node_index=str(index), **arguments)


def inference(start, *kernels, execution=90, session=100):
    return [
        *kernels,
        event("SequentialExecutor::Execute", start + 5, execution, "Session"),
        event("model_run", start, session, "Session"),
    ]


def lines(entries, end=b"]\n"):
    """As the engine writes them."""
    return [b"[\n", *(json.dumps(entry).encode() + b",\n" for entry in entries), end]


TWO = [
    event("session_initialization", 1, 900, "Session"),
    *inference(1000, kernel("a", 1010, 40, index=1), kernel("b", 1055, 30, "Relu", index=2)),
    *inference(2000, kernel("a", 2011, 41, index=1), kernel("b", 2055, 31, "Relu", index=2), session=101),
]


def test_times_of_every_inference():
    trace = parse_trace(lines(TWO), inferences=2)
    assert [(step.name, step.op, step.durations, step.starts) for step in trace.steps] == [
        ("a", "Conv", (40, 41), (10, 11)),
        ("b", "Relu", (30, 31), (55, 55)),
    ]
    assert (trace.executions, trace.sessions) == ((90, 90), (100, 101))


def test_the_last_inferences_are_taken():
    trace = parse_trace(lines(TWO), inferences=1)
    assert trace.steps[0].durations == (41,)
    assert trace.sessions == (101,)


def test_some_inferences_can_be_selected():
    trace = parse_trace(lines(TWO), inferences=2, counted=[1])
    assert [step.durations for step in trace.steps] == [(41,), (31,)]
    assert (trace.steps[0].starts, trace.executions, trace.sessions) == ((11,), (90,), (101,))


def test_another_layout_of_the_same_list_is_read():
    whole = parse_trace([json.dumps(TWO).encode()], inferences=2)
    assert whole == parse_trace(lines(TWO), inferences=2)


def test_what_a_newer_engine_may_add_is_ignored():
    newer = [
        "a remark",
        {"cat": "Node", "name": "a_fence_before", "ts": "?", "dur": None},
        event("new", 1, 2, "Thread"),
        {"schema": 7},
    ]
    more = inference(
        3000,
        kernel(
            "a", 3010, 7, provider="CPUExecutionProvider", invented={"x": [1]}, input_type_shape=[{"float": [1, 2]}]
        ),
        *newer,
    )
    (step,) = parse_trace(lines([*newer, *more]), inferences=1).steps
    assert (step.provider, step.dtype, step.detail) == (
        "CPUExecutionProvider",
        "float32",
        {"input_shapes": [{"float": [1, 2]}]},
    )


def test_arguments_of_unexpected_kinds_are_left_out():
    entry = kernel("a", 3010, 7)
    entry["args"] = "none"
    (step,) = parse_trace(lines(inference(3000, entry)), inferences=1).steps
    assert (step.op, step.provider, step.dtype, step.detail) == ("", None, None, {})
    (step,) = parse_trace(
        lines(inference(3000, kernel("a", 3010, 7, input_type_shape=["x"], output_type_shape=[{"int8": []}]))),
        inferences=1,
    ).steps
    assert step.dtype == "int8"


def test_steps_of_a_body_are_inside_the_operator_that_runs_it():
    # The engine writes an event when it ends; a body has an executor of its own.
    run = [
        kernel("before", 10, 5, "Add", 1),
        kernel("inner", 20, 3, "Mul", 1),
        kernel("inner", 25, 4, "Mul", 1),
        event("SequentialExecutor::Execute", 20, 12, "Session"),
        kernel("loop", 20, 15, "Loop", 2),
        kernel("after", 36, 2, "Add", 3),
        event("SequentialExecutor::Execute", 9, 30, "Session"),
        event("model_run", 8, 33, "Session"),
    ]
    trace = parse_trace(lines(run), inferences=1)
    assert [(step.name, step.durations) for step in trace.steps] == [("before", (5,)), ("loop", (15,)), ("after", (2,))]
    assert trace.executions == (30,)
    assert trace.steps[1].detail["inner_steps"] == [
        {"name": "inner", "op": "Mul", "time_ns": 3000.0},
        {"name": "inner", "op": "Mul", "time_ns": 4000.0},
    ]


def test_a_step_too_short_for_the_clock_is_not_taken_for_an_inner_one():
    run = inference(0, kernel("a", 10, 0, index=1), kernel("b", 10, 6, index=2), kernel("c", 16, 0, index=3))
    assert [step.name for step in parse_trace(lines(run), inferences=1).steps] == ["a", "b", "c"]


OTHER = inference(3000, kernel("a", 3010, 40, index=1), kernel("c", 3055, 30, "Relu", index=2))
LONGER = inference(0, kernel("a", 10, 60), kernel("b", 70, 40), execution=90)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ([], says("onnx-runtime-profile-damaged-cut")),
        ([b"\x00\xff\x00"], says("onnx-runtime-profile-damaged-cut")),
        ([b"[" * 100_000], says("onnx-runtime-profile-damaged-cut")),
        ([b'{"traceEvents": []}'], says("onnx-runtime-profile-contains-inferences", runs_count=0, inferences=2)),
        (lines(TWO, end=b""), says("onnx-runtime-profile-cut-off")),
        ([*lines(TWO)[:-2], b'{"cat": "Node", "na'], says("onnx-runtime-profile-damaged-cut")),
        (lines(TWO[:-1]), says("onnx-runtime-profile-contains-inferences", runs_count=1, inferences=2)),
        (lines([*TWO[:-1], *OTHER]), "1 of 2|differ"),
        (lines([*TWO, *OTHER]), says("inferences-onnx-runtime-profile-different")),
        (lines([*inference(0), *inference(200)]), says("onnx-runtime-profile-contains-no")),
        (lines([*LONGER, *LONGER]), says("onnx-runtime-profile-shows-operators")),
        (lines([*TWO, event("model_run", 5, -1, "Session")]), says("event-onnx-runtime-profile-no", name="dur")),
        (lines([*TWO, event("model_run", 1e400, 1, "Session")]), says("event-onnx-runtime-profile-no", name="ts")),
        (lines([*TWO, {**kernel("a", 1, 1), "dur": True}]), says("event-onnx-runtime-profile-no", name="dur")),
        (lines([*TWO, {"cat": "Node", "name": "a_kernel_time"}]), says("event-onnx-runtime-profile-no", name="ts")),
    ],
)
def test_a_damaged_profile_is_refused(content, reason):
    with pytest.raises(CannotProfile, match=reason):
        parse_trace(content, inferences=2)


def test_a_profile_that_is_not_there(tmp_path):
    with pytest.raises(CannotProfile, match=says("onnx-runtime-profile-cant-read")):
        read_trace(tmp_path / "none.json", inferences=1)


def test_a_profile_in_a_file(tmp_path):
    file = tmp_path / "profile.json"
    file.write_bytes(b"".join(lines(TWO)))
    assert read_trace(file, inferences=2).sessions == (100, 101)


def test_cost_that_fits_between_the_steps_leaves_them_as_they_are():
    assert share_out(-5.0, [40, 30]) == [0, 0]


def test_cost_beyond_the_time_between_steps_was_inside_them():
    assert share_out(6.0, [42, 28]) == [3, 3]


def test_a_short_step_does_not_keep_the_cost_in_the_others():
    # A transformer has many reshapes: 10 of 40 µs are all that the short one can give, the others give the rest.
    assert share_out(38.0, [40, 10, 30]) == [14, 10, 14]
    assert share_out(38.0, [40, 0, 30]) == [0, 0, 0]
    # but hardly a step's record takes more than twice as long as the shortest step with its own
    assert share_out(900.0, [40, 10]) == [20, 10]


def test_a_difference_by_chance_is_no_cost():
    assert Alternation(pairs=[(100_000, 900_000), (900_000, 100_000)] * 5).excess_us(500_000) == 0.0
    assert Alternation(pairs=[(120_000, 70_000)] * 4).excess_us(120_000) == pytest.approx(50)
    # a machine that is half as fast for a while slows both kinds alike
    assert Alternation(pairs=[(120_000, 70_000), (240_000, 140_000)] * 2).excess_us(180_000) == pytest.approx(75)


def test_the_parts_of_a_profiled_transformer_add_up_to_an_ordinary_inference():
    # 6 reshapes of 4 µs and 2 products of 40 µs, 8 µs between them, by the profiler; 120 µs with it and 70 µs without it
    count, lengths = 40, [4] * 6 + [40] * 2
    steps = tuple(
        KernelTimes(
            name=f"n{at}",
            op="K",
            provider=None,
            dtype=None,
            durations=(length,) * count,
            starts=(0,) * count,
            detail={},
        )
        for at, length in enumerate(lengths)
    )
    traced = KernelTrace(steps, (sum(lengths) + 8,) * count, (sum(lengths) + 10,) * count)
    timing = Alternation(walls=[120_000] * count, plain=[70_000] * count, pairs=[(120_000, 70_000)] * (count // 5))
    told = _assemble(traced, timing, [MappedNode()] * len(steps), ())
    timings = StepTimings([told])
    everything = timings.duration(range(len(steps)))
    # 50 µs more with it, 8 of them between the steps, 42 inside them: 24 of the reshapes and the rest of the products,
    # but no more than 8 µs of each
    assert timings.profiler_s == pytest.approx(40e-6)
    assert timings.duration([7]).value == pytest.approx(32e-6)
    assert everything.value == pytest.approx(64e-6)
    # how the cost is shared out is an assumption: as much as was taken may be wrong
    assert timings.duration([7]).low == pytest.approx(24e-6)
    assert timings.duration([7]).high == pytest.approx(40e-6)
    assert timings.duration([0]).high == pytest.approx(4e-6)


def node(name, op, inputs=(), outputs=()):
    return OutlineNode(name=name, op=op, inputs=tuple(inputs), outputs=tuple(outputs))


def test_steps_are_found_in_the_saved_graph_by_name_and_type():
    graph = Outline((node("a", "Conv"), node("", "Relu"), node("a", "Conv"), node("", "Relu")))
    executed = [MappedNode(originals=(str(index),)) for index in range(4)]
    steps = parse_trace(
        lines(
            inference(
                0,
                kernel("Relu_7", 10, 1, "Relu", 7),
                kernel("a", 12, 1, "Conv", 1),
                kernel("a", 14, 1, "Conv", 5),
                kernel("Relu_9", 16, 1, "Relu", 9),
                kernel("b", 18, 1, "Conv", 6),
            )
        ),
        inferences=1,
    ).steps
    found, notes = match_steps(steps, graph, executed)
    assert [each.originals for each in found] == [("1",), ("0",), ("2",), ("3",), ()]
    assert notes == ("1 steps of the engine are not in the graph it saved",)


@pytest.mark.parametrize(
    ("name", "executed", "stable"),
    [
        ("conv", MappedNode(), "conv"),
        ("r1_nchwc_token_12", MappedNode(originals=("conv",), outputs=("r1",)), "r1_nchwc"),
        ("ReorderOutput_token_170", MappedNode(role="layout", inputs=("r2",), outputs=("r2",)), "ReorderOutput r2"),
        ("ReorderInput_token_9", MappedNode(role="layout", inputs=("x",)), "ReorderInput x"),
        ("ReorderInput", MappedNode(role="layout"), "ReorderInput"),
    ],
)
def test_names_do_not_have_numbers_that_differ_from_one_session_to_the_next(name, executed, stable):
    (step,) = parse_trace(lines(inference(0, kernel(name, 10, 1))), inferences=1).steps
    assert _stable_name(step, executed) == stable
