"""ExecuTorch's record of events: ``tests/pte_programs/events.etdp``, written by ``write.py`` there, has two inferences."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgewise.model.identity import read_graph
from edgewise.runtime.base import CannotProfile
from edgewise.runtime.executorch_profile import Event, make_nodes, read_inference, read_inferences

FOLDER = Path(__file__).parents[1] / "pte_programs"
WALLS = [110_000, 9_000]


@pytest.fixture
def recorded():
    return read_inferences(FOLDER / "events.etdp", WALLS)


def test_steps_of_each_inference(recorded):
    first, second = recorded
    assert (first.method_ns, first.wall_ns, second.method_ns, second.wall_ns) == (99_968, 110_000, 7_421, 9_000)
    assert [(each.name, each.instruction, each.delegated, each.length) for each in first.steps] == [
        ("Transpose (ND, X32) #1", 0, True, 9000),
        ("Convolution (NHWC, F32) IGEMM #1", 0, True, 3000),
        ("Transpose (ND, X32) #2", 0, True, 0),
        ("native_call_cumsum.out", 1, False, 29_734),
        ("native_call_mean.out", 2, False, 24_176),
        ("Fully Connected (NC, F32) GEMM #1", 3, True, 2000),
    ]
    assert [each.length for each in second.steps] == [0, 0, 0, 611, 841, 0]


def test_each_step_has_the_layer_that_it_executes(recorded):
    nodes = make_nodes(recorded, read_graph(FOLDER / "methods.pte"))
    assert [(each.name, each.originals, each.provider, each.truncates) for each in nodes] == [
        ("Transpose (ND, X32) #1 [0]", ("XnnpackBackend_0/StaticTranspose",), "XnnpackBackend", True),
        ("Convolution (NHWC, F32) IGEMM #1 [0]", ("XnnpackBackend_0/Conv2d",), "XnnpackBackend", True),
        ("Transpose (ND, X32) #2 [0]", ("XnnpackBackend_0/StaticTranspose_2",), "XnnpackBackend", True),
        ("cumsum.out [1]", ("cumsum",), "ExecuTorch's kernels", False),
        ("mean.out [2]", ("mean",), "ExecuTorch's kernels", False),
        ("Fully Connected (NC, F32) GEMM #1 [3]", ("XnnpackBackend_1/FullyConnected",), "XnnpackBackend", True),
    ]
    assert nodes[1].times_ns == (3000.0, 0.0)
    assert (nodes[1].op, nodes[1].dtype) == ("Convolution (NHWC, F32) IGEMM", "float32")


def test_inferences_that_ran_other_steps_are_refused(recorded):
    first, second = recorded
    with pytest.raises(CannotProfile):
        make_nodes([first, replace(second, steps=second.steps[:-1])], read_graph(FOLDER / "methods.pte"))


def test_a_record_of_another_number_of_inferences_is_refused():
    with pytest.raises(CannotProfile):
        read_inferences(FOLDER / "events.etdp", WALLS[:1])


def test_a_damaged_record_is_refused(tmp_path):
    data = (FOLDER / "events.etdp").read_bytes()
    (tmp_path / "events.etdp").write_bytes(data[: len(data) // 2])
    with pytest.raises(CannotProfile):
        read_inferences(tmp_path / "events.etdp", WALLS)


def event(name, length, *, instruction=0, delegated=False):
    return Event(name=name, instruction=instruction, delegated=delegated, start=1000, length=length)


WHOLE = event("Method::execute", 100)


def test_a_delegate_that_tells_no_steps_is_one():
    found = read_inference([event("DELEGATE_CALL", 60), event("native_call_add.out", 30, instruction=1), WHOLE], 110)
    assert [each.name for each in found.steps] == ["DELEGATE_CALL", "native_call_add.out"]


@pytest.mark.parametrize(
    ("events", "wall"),
    [
        ([WHOLE], 110),  # no steps
        ([event("native_call_add.out", 101), WHOLE], 110),  # longer than the method
        ([event("native_call_add.out", 60), event("native_call_mul.out", 50, instruction=1), WHOLE], 110),
        ([event("native_call_add.out", -1), WHOLE], 110),
        ([event("native_call_add.out", 50), WHOLE], 99),  # the method is longer than the call
    ],
)
def test_times_that_can_not_be_are_refused(events, wall):
    with pytest.raises(CannotProfile):
        read_inference(events, wall)
