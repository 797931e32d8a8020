"""Who is raced: the fastest by a short measurement each, as many as the time has rounds for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgewise.optimizing import race
from edgewise.optimizing.race import FAR_BEHIND, MOST, how_many, screen, time_of
from sample_runs import failed_run, make_run, measured


def timed(call: float, own: float | None = None):
    """A run of an engine with a clock of its own where `own` is given."""
    run = make_run(1, latency=call if own is None else own)
    return run if own is None else replace(run, measurements=(*run.measurements, measured("latency_call", call)))


@pytest.fixture
def scripted(monkeypatch):
    """Makes the runs that short measurements give."""

    def install(*runs):
        class Dispatcher:
            def __init__(self, **settings):
                pass

            def execute(self, plan):
                assert len(plan.jobs) == len(runs)
                return runs

        monkeypatch.setattr(race, "Dispatcher", Dispatcher)
        return [(f"v{index}", make_run(1).job) for index in range(len(runs))]

    return install


@pytest.mark.parametrize(
    ("seconds", "each", "count"), [(120, 12, MOST), (60, 12, 4), (35, 12, 1), (24, 12, 1), (0, 12, 1), (-5, 12, 1),
                                   (47, 8, 4), (1000, 1, MOST)]
)  # fmt: skip
def test_so_many_have_room_beside_the_original(seconds, each, count):
    assert how_many(seconds, each) == count


def test_engines_are_timed_by_one_clock():
    assert time_of(timed(4e-4)) == 4e-4
    assert time_of(timed(4.1e-4, own=3.8e-4)) == 4.1e-4
    assert time_of(failed_run()) is None


def test_the_fastest_come_first_and_who_is_far_behind_not_at_all(scripted):
    limit = FAR_BEHIND * 1e-4
    entrants = scripted(
        timed(1.2e-4), timed(1e-4), failed_run(), timed(limit * 1.01), timed(limit), timed(1.1e-4, 9e-5)
    )
    order, runs = screen(entrants, observer=None)
    assert order == ["v1", "v5", "v0", "v4"]
    assert set(runs) == {f"v{index}" for index in range(6)}


def test_where_nothing_could_be_timed_nobody_races(scripted):
    order, runs = screen(scripted(failed_run(), failed_run()), observer=None)
    assert order == [] and len(runs) == 2
