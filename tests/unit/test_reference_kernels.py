"""The reference kernels: what a reading is, on a scripted clock."""

from itertools import accumulate, cycle
from types import SimpleNamespace

import pytest

from edgewise.run import reference


def test_a_kernel_that_loses_its_core_for_a_while_keeps_its_time(monkeypatch):
    """Three of every hundred repetitions take 8 ms instead of 80 µs: their mean is 318 µs."""
    laps = cycle([8_000_000] * 3 + [80_000] * 97)
    clock = accumulate(laps, initial=0)
    monkeypatch.setattr(reference, "time", SimpleNamespace(time=lambda: 5.0, perf_counter_ns=lambda: next(clock)))
    monkeypatch.setattr(reference, "_LEAST_NS", 250_000_000)
    assert reference.time_reference() == {
        "at": 5.0, "compute_s": pytest.approx(80e-6), "copy_s": pytest.approx(80e-6)
    }  # fmt: skip
