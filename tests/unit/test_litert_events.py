"""What LiteRT's profiler tells: its events read, checked and turned into steps, without the engine."""

import numpy as np
import pytest

from edgewise.runtime.base import CannotProfile, LoadOptions
from edgewise.runtime.litert_capi import Event
from edgewise.runtime.litert_profile import (
    InterpreterGraph,
    ProfiledInference,
    _compare,
    _compare_times,
    _overheads,
    make_nodes,
    read_inference,
    read_structure,
    settings_of,
)
from edgewise.runtime.litert_xnnpack import LiteRtOperator
from messages import says

CONV = "Convolution (NHWC, QC8) IGEMM"
POINTWISE = "Fully Connected (NC, QS8, QC8W) GEMM"
RESHAPE = "Static Reshape (NC)"
BEGAN, ENDED = 1_000_000_500, 1_000_200_400


def event(tag, kind, start_us=0, elapsed_us=0, index=0, subgraph=0):
    return Event(tag=tag, type=kind, start_us=start_us, elapsed_us=elapsed_us, index=index, subgraph=subgraph)


def recorded(*steps, loop_us=100):
    """What an inference of 199.9 µs records around `steps`."""
    return [
        event("LiteRT::Run[buffer registration]", 1, 1_000_001, 15),
        event("invoke", 16, 1_000_030, loop_us + 28, 2**64 - 1),
        event("Invoke", 1, 1_000_044, loop_us),
        *steps,
        event("Invoke", 32, 0, 2**32, 2**64 - 1),
        event("LiteRT::Run[Buffer sync]", 1, 1_000_180, 13),
    ]


STEPS = (
    event(CONV, 8, 0, 30, 0),
    event(POINTWISE, 8, 0, 20, 1),
    event("AVERAGE_POOL_2D", 2, 1_000_120, 10, 2),
    event(RESHAPE, 8, 0, 0, 0),
    event(RESHAPE, 8, 0, 1, 1),
    event(POINTWISE, 8, 0, 5, 2),
    event("SOFTMAX", 2, 1_000_140, 4, 5),
)


def operators(*ops, first=0):
    return tuple(LiteRtOperator(index=first + at, op=op, output=f"t{first + at}") for at, op in enumerate(ops))


NETWORK = operators("CONV_2D", "CONV_2D", "AVERAGE_POOL_2D", "RESHAPE", "FULLY_CONNECTED", "SOFTMAX")
STRUCTURE = InterpreterGraph(operators=dict(enumerate(NETWORK)), partitions=(NETWORK[:2], NETWORK[3:5]))


# -- one inference


def test_steps_of_an_inference():
    inference = read_inference(recorded(*STEPS), BEGAN, ENDED)
    assert inference.steps == STEPS
    assert inference.loop_ns == 100_000
    assert inference.wall_ns == 199_900
    assert inference.reading_ns == 14_000
    assert inference.readings == 8
    # XNNPACK's steps end where the next timed operator, or the loop, begins or ends; the call began at 1,000,000.5 µs.
    assert [start / 1000 for start in inference.starts_ns] == [69.5, 99.5, 119.5, 133.5, 133.5, 134.5, 139.5]


def test_a_reading_of_memory_without_an_event_around_the_loop():
    events = [each for each in recorded(*STEPS) if each.type != 16]
    inference = read_inference(events, BEGAN, ENDED)
    # From 1,000,016, when the buffers were registered, to 1,000,044.
    assert (inference.reading_ns, inference.readings) == (28_000, 6)


def test_overheads():
    inference = read_inference(recorded(*STEPS), BEGAN, ENDED)
    [between] = _overheads([inference, inference], "interpreter")
    # 100 µs of the loop without 70 of the steps and one reading of 14.
    assert (between.name, between.times_ns) == ("between operators", (16_000.0, 16_000.0))
    between, around = _overheads([inference], "compiled")
    assert between.times_ns == (16_000.0,)
    # 199.9 µs of the call without the loop and seven readings.
    assert (around.name, around.times_ns) == ("buffers and call", (1_900.0,))


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        pytest.param(recorded(*STEPS)[2:], says("litert-profiler-recorded-no-event"), id="nothing before the loop"),
        pytest.param(
            [event("buffers", 1, 1_000_001, 60), *recorded(*STEPS)[2:]],
            says("litert-profiler-recorded-events-out"),
            id="overlapping events",
        ),
        pytest.param(recorded(event("A", 2, 900_000, 5)), says("litert-profiler-reports-times-outside"), id="before"),
        pytest.param(
            recorded(event("A", 2, 1_000_150, 900)), says("litert-profiler-reports-times-outside"), id="after"
        ),
        pytest.param(
            recorded(event(CONV, 8, 0, 201)), says("litert-profiler-reports-times-outside"), id="longer than the call"
        ),
        pytest.param(
            recorded(event("A", 4, 1_000_050, 5)),
            says("litert-profiler-recorded-event-unknown"),
            id=says("litert-profiler-recorded-event-unknown"),
        ),
        pytest.param(recorded(), says("litert-profiler-recorded-no-operators"), id="empty"),
        pytest.param(
            recorded(event("Invoke", 1, 1_000_050, 5), *STEPS),
            says("litert-profiler-recorded-runs-graph", loops_count=2),
            id="nested graph",
        ),
        pytest.param(list(STEPS), says("litert-profiler-recorded-runs-graph", loops_count=0), id="no graph"),
        pytest.param(recorded(*STEPS, loop_us=60), says("litert-profiler-reports-operators-together"), id="sum"),
    ],
)
def test_events_that_make_no_sense(events, reason):
    with pytest.raises(CannotProfile, match=reason):
        read_inference(events, BEGAN, ENDED)


def test_timed_operators_may_seem_a_microsecond_longer_each():
    steps = [event("A", 2, 1_000_050 + at, 10, at) for at in range(4)]
    assert read_inference(recorded(*steps, loop_us=36), BEGAN, ENDED).loop_ns == 36_000
    with pytest.raises(CannotProfile):
        read_inference(recorded(*steps, loop_us=35), BEGAN, ENDED)


# -- nodes


def test_nodes():
    slower = [each if each.type == 2 else event(each.tag, 8, 0, each.elapsed_us + 1, each.index) for each in STEPS]
    inferences = [read_inference(recorded(*steps), BEGAN, ENDED) for steps in (STEPS, slower, STEPS)]
    nodes = make_nodes(inferences, STRUCTURE)
    assert [node.times_ns for node in nodes[:3]] == [(30e3, 31e3, 30e3), (20e3, 21e3, 20e3), (10e3, 10e3, 10e3)]
    assert [node.originals for node in nodes] == [("t0",), ("t1",), ("t2",), ("t3",), ("t4",), ("t4",), ("t5",)]
    assert [node.provider for node in nodes] == ["XNNPACK", "XNNPACK", "built-in", *["XNNPACK"] * 3, "built-in"]
    assert [node.dtype for node in nodes] == ["int8", "int8", None, None, None, "int8", None]
    assert {node.role for node in nodes} == {"operator"}
    assert len({node.name for node in nodes}) == len(nodes)
    assert nodes[0].name == "Convolution (NHWC, QC8) IGEMM [XNNPACK 0.0]"
    assert nodes[2].name == "AVERAGE_POOL_2D [2]"
    assert nodes[0].start_ns == 69_500.0
    starts = [node.start_ns for node in nodes]
    assert starts == sorted(starts)


def test_partitions_that_do_not_agree_get_no_names():
    inference = read_inference(recorded(*STEPS), BEGAN, ENDED)
    nodes = make_nodes([inference], InterpreterGraph(operators=STRUCTURE.operators, partitions=(NETWORK[:2],)))
    assert [node.originals for node in nodes] == [(), (), ("t2",), (), (), (), ("t5",)]
    assert nodes[0].kinds == ("convolution",)


def test_a_tensor_without_a_name_of_its_own():
    network = (LiteRtOperator(index=0, op="A", output=""),)
    inference = ProfiledInference(
        steps=(event("A", 2, 1, 1),), starts_ns=(0.0,), loop_ns=1000, reading_ns=0, readings=2, wall_ns=9
    )
    assert make_nodes([inference], InterpreterGraph(operators=dict(enumerate(network))))[0].originals == ()


def test_inferences_with_other_steps():
    inferences = [read_inference(recorded(*steps), BEGAN, ENDED) for steps in (STEPS, STEPS[:-1])]
    with pytest.raises(CannotProfile, match=says("litert-ran-different-steps-different")):
        make_nodes(inferences, STRUCTURE)


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(event("SOFTMAX", 2, 1_000_140, 4, 9), id="index"),
        pytest.param(event("CONV_2D", 2, 1_000_140, 4, 5), id="type"),
        pytest.param(event("SOFTMAX", 2, 1_000_140, 4, 5, subgraph=1), id="subgraph"),
        pytest.param(event(CONV, 8, 0, 1, 7), id="number in the delegate"),
    ],
)
def test_steps_that_the_model_does_not_have(step):
    inference = read_inference(recorded(*STEPS[:-1], step), BEGAN, ENDED)
    with pytest.raises(CannotProfile):
        make_nodes([inference], STRUCTURE)


# -- the interpreter's list


class Listing:
    def __init__(self, nodes, names):
        self.nodes, self.names = nodes, names

    def _get_ops_details(self):
        return [
            {"index": index, "op_name": op, "inputs": inputs, "outputs": outputs}
            for index, op, inputs, outputs in self.nodes
        ]

    def get_tensor_details(self):
        return [{"index": at, "name": name} for at, name in enumerate(self.names)]


def test_structure():
    nodes = [
        (0, "CONV_2D", [0, 5], [1]),
        (1, "RELU", [1], [2]),
        (2, "SOFTMAX", [2], [3]),
        (3, "ADD", [3, 2], [4]),
        (4, "DELEGATE", [0, 5], [2]),
        (5, "DELEGATE", [3, 2], [4]),
    ]
    found = read_structure(Listing(nodes, ["in", "a", "b", "twice", "", "twice"]))
    assert [(each.op, each.output) for each in found.operators.values()] == [
        ("CONV_2D", "a"), ("RELU", "b"), ("SOFTMAX", ""), ("ADD", ""),
    ]  # fmt: skip
    assert [[each.index for each in partition] for partition in found.partitions] == [[0, 1], [3]]


def test_an_interpreter_that_lists_nothing():
    with pytest.raises(CannotProfile, match=says("litert-interpreter-does-not-list")):
        read_structure(object())


# -- settings, and whether the compiled model is the session's


def settings(provider="interpreter", threads=None, **extra):
    return settings_of(LoadOptions(provider=provider, threads=threads, extra=extra))


def test_settings():
    assert settings(threads=2, xnnpack_flags=1) == "num_threads = 2\nflags = 1\n"
    assert settings() == ""
    assert settings("interpreter-noxnnpack") == 'kernel_mode = "builtin"\n'
    assert settings("compiled", kernel_mode=2, xnnpack_flags=5, enable_ynnpack=False) == (
        'kernel_mode = "builtin"\nflags = 5\n'
    )


@pytest.mark.parametrize(
    ("provider", "extra"),
    [
        ("interpreter-reference", {}),
        ("compiled", {"kernel_mode": 1}),
        ("compiled", {"xnnpack_weight_cache_path": "w"}),
        ("interpreter", {"experimental_default_delegate_latest_features": True}),
    ],
)
def test_settings_that_the_profiled_pass_can_not_have(provider, extra):
    with pytest.raises(CannotProfile, match=r"no kernels like those of|omit it"):
        settings(provider, **extra)


def test_outputs_are_compared():
    floats = np.array([1.0, np.nan, -2.0, np.inf], np.float32)
    _compare([(floats, floats * np.float32(1.0001)), (np.array([3], np.int8), np.array([3], np.int8))])
    with pytest.raises(CannotProfile, match=says("compiled-model-litert-profiler-needs")):
        _compare([(floats, floats * np.float32(1.01))])
    with pytest.raises(CannotProfile, match=says("compiled-model-litert-profiler-needs")):
        _compare([(np.array([3], np.int8), np.array([4], np.int8))])


class Clock:
    """Time that passes only in calls."""

    def __init__(self, monkeypatch):
        self.now = 0
        for module in ("arrays", "litert_profile"):
            monkeypatch.setattr(f"edgewise.runtime.{module}.monotonic_ns", lambda: self.now)

    def call(self, *times_ns):
        """A function whose calls take these times, and from then on the last of them."""
        left = list(times_ns)

        def run():
            self.now += left.pop(0) if len(left) > 1 else left[0]

        return run


@pytest.mark.parametrize(
    ("own", "compiled"),
    [
        ([150_000], [240_000]),
        ([1_000_000], [1_900_000]),
        ([285_000], [629_000] * 500 + [300_000]),  # slowed down for 0.3 s
        ([704_000] * 500 + [300_000], [292_000]),
    ],
)
def test_times_are_compared(monkeypatch, own, compiled):
    clock = Clock(monkeypatch)
    _compare_times(clock.call(*own), clock.call(*compiled))
    assert clock.now < 1_000_000_000


@pytest.mark.parametrize(("own", "compiled"), [(1_676_000, 158_000), (158_000, 1_676_000)])
def test_a_compiled_model_that_stays_slower_or_faster_is_refused(monkeypatch, own, compiled):
    clock = Clock(monkeypatch)
    with pytest.raises(
        CannotProfile,
        match=says(
            "compiled-model-litert-profiler-needs-takes", fastest_compiled=compiled // 1000, fastest_own=own // 1000
        ),
    ):
        _compare_times(clock.call(own), clock.call(compiled))
    assert clock.now > 2_000_000_000
