"""Whatever was measured: what a profile says of a share at most fits beside what it says of all others at least."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from edgewise.record import Layer
from edgewise.report.profile.cells import by_type, layers_of, share_cell, share_of, sum_cells, time_cell, time_left
from sample_profiles import profiled_run
from sample_runs import measured

TIMES = st.floats(1e-6, 1e-3)
LAYERS = st.lists(
    st.tuples(st.sampled_from(("operator", "overhead")), st.sampled_from("abc"), TIMES, st.booleans(), TIMES),
    min_size=1,
    max_size=8,
)
DIGIT = 1.005
"""Upper ends are rounded up at their third digit, and shares at their first decimal."""


def run_of(rows, *, more: float):
    """A profile of layers, bounded ones among them, whose whole is `more` times the sum of the layers."""
    layers = tuple(
        Layer(
            index=at, name=f"n{at}", nodes=(f"n{at}",), op=op, kind=kind, time=time, low=0.0 if is_bounded else time * 0.9,
            high=time + width,
        )
        for at, (kind, op, time, is_bounded, width) in enumerate(rows)
    )  # fmt: skip
    latency = more * sum(layer.time for layer in layers)
    run = profiled_run()
    profile = replace(run.profile, latency=latency)
    return replace(run, layers=layers, profile=profile, measurements=(measured("latency", latency),))


def most_of(cell) -> float:
    """The upper end that a cell of shares shows."""
    return float(cell.text.removeprefix("< ").rpartition(" to ")[2])


def least_of(layers, run) -> float:
    """The least share that layers may have, %."""
    return sum(layer.low for layer in layers) / run.profile.latency * 100


@given(LAYERS, st.floats(1.0, 1.5))
def test_no_type_has_more_than_the_others_leave(rows, more):
    run = run_of(rows, more=more)
    groups = [*by_type(layers_of(run, "operator")).values(), layers_of(run, "overhead")]
    for layers in filter(None, groups):
        others = sum(least_of(other, run) for other in groups if other is not layers)
        assert most_of(sum_cells(layers, run, 1e6)[1]) <= (100.0 - others) * DIGIT + 0.1


@given(LAYERS, st.floats(1.0, 1.5))
def test_no_layer_has_more_than_the_others_leave(rows, more):
    run = run_of(rows, more=more)
    for layer in run.layers:
        cell = share_cell(layer, share_of(layer, run.profile), run)
        others = least_of([other for other in run.layers if other is not layer], run)
        assert most_of(cell) <= (100.0 - others) * DIGIT + 0.1
        assert most_of(cell) / 100 >= layer.time / run.profile.latency * 0.99 - 0.001


@given(LAYERS, st.floats(0.2, 1.5))
def test_a_bound_of_time_lies_within_the_whole_and_above_what_was_measured(rows, more):
    run = run_of(rows, more=more)
    for layer in run.layers:
        cell = time_cell(layer, 1.0, time_left([layer], run))
        if layer.is_bounded:
            assert min(layer.time, run.profile.latency) * (1 - 1e-9) <= cell.high <= layer.high * (1 + 1e-9)
