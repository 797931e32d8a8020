"""Cycles from instruction counts: exact values of a fit made by hand, and what the shipped fit must hold."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from edgewise.errors import BadInput
from edgewise.estimating.base import EstimatedDevice, EstimatedLayer, find_device
from edgewise.estimating.boards import boards
from edgewise.estimating.mcu.costs import CLASSES, OperatorCosts
from edgewise.estimating.mcu.latency import time_layers
from edgewise.estimating.mcu.timing import NoTiming, fitted, time_operators, work_of
from messages import says

FIT = {
    "coverage": 0.9,
    "work": {
        "classes": dict.fromkeys(CLASSES, 1) | {"load": 2, "branch": 3},
        "flash_byte": 0.5,
        "per_instruction": 1.25,
        "flash_per_instruction": 0.25,
    },
    "software": {
        "own": {
            "title": "made by hand", "factor": 2.0, "operator_cycles": 100.0, "inference_cycles": 50.0,
            "boards": ["here"], "half_width": math.log(1.2), "overhead_half_width": math.log(2.0),
            "leave_one_model_out": {"mape": 0.1, "rows": 7, "models": 3},
        }
    },
    "boards": {
        "here": {"core": "cortex-m4", "factor": 1.0, "half_width": 0.0, "engines": ["A"]},
        "there": {"core": "cortex-m4", "factor": 1.5, "half_width": 0.3, "engines": ["A", "B"]},
    },
    "cores": {"cortex-m4": {"factor": 1.25, "half_width": 0.4, "boards": ["here", "there"]}},
}  # fmt: skip
OPERATOR = OperatorCosts(100, {"load": 20, "branch": 10, "other": 70}, 40)


def timed(*operators, board="here", core="cortex-m4", software="own"):
    return time_operators(operators, core=core, board=board, software=software, fit=FIT)


def test_work_is_the_sum_of_documented_cycles_and_waits_for_flash():
    assert work_of(OPERATOR, FIT) == 20 * 2 + 10 * 3 + 70 + 40 * 0.5
    assert work_of(OperatorCosts(100, OPERATOR.classes), FIT) == 140 + 100 * 0.25
    assert work_of(OperatorCosts(100), FIT) == 100 * (1.25 + 0.25)
    assert work_of(OperatorCosts(0, {}, 0), FIT) == 0


def test_cycles_are_factor_times_work_and_overhead():
    found = timed(OPERATOR, OPERATOR)
    assert found.operators == (2 * 160 + 100, 2 * 160 + 100) and found.start == 50 and found.total == 890
    share = 640 / 890
    half = math.hypot(share * math.log(1.2), (1 - share) * math.log(2.0))
    assert (found.low, found.high) == pytest.approx((890 * math.exp(-half), 890 * math.exp(half)))
    assert found.coverage == 0.9 and "10% (7 published latencies of 3 models)" in found.method


def test_nothing_takes_no_time():
    found = time_layers(device("nucleo-l4r5zi", 120e6, software="vendor"), [layer(0, 0)], [None])
    assert [(row.value, row.low, row.high) for row in found.measurements] == [(0, 0, 0)] * 3


def test_an_error_of_the_counts_widens_the_interval():
    exact, rough = (
        time_operators([OPERATOR], core="cortex-m4", board="here", software="own", fit=FIT, count_error=error)
        for error in (0.0, 0.25)
    )
    share = 320 / 470
    assert rough.half_width == pytest.approx(math.hypot(exact.half_width, share * math.log(1.25)))


def test_another_board_has_its_own_factor_and_a_wider_interval():
    here, there, anywhere = timed(OPERATOR), timed(OPERATOR, board="there"), timed(OPERATOR, board="unknown")
    assert there.total == pytest.approx(1.5 * here.total) and anywhere.total == pytest.approx(1.25 * here.total)
    assert here.high / here.total < there.high / there.total < anywhere.high / anywhere.total
    assert "factor of there from A, B" in there.method and "factor of cortex-m4 from here, there" in anywhere.method


def test_what_is_not_known_is_an_error():
    with pytest.raises(NoTiming, match=says("no-published-latency-tells-how", measured="cortex-m4")):
        timed(OPERATOR, board=None, core="cortex-m55")
    with pytest.raises(BadInput, match=says("software-must-not", known="own", software="vendor")):
        timed(OPERATOR, software="vendor")


@pytest.mark.parametrize("software", fitted()["software"])
@pytest.mark.parametrize("core", fitted()["cores"])
def test_more_instructions_take_more_cycles_and_the_interval_contains_the_value(software, core):
    totals = [0.0]
    for scale in (0, 1, 10, 10_000):
        costs = [OperatorCosts(scale * 100, {"load": scale * 30, "multiply": scale * 70}, scale * 20)]
        found = time_operators(costs, core=core, software=software)
        assert 0 <= found.low <= found.total <= found.high
        totals.append(found.total)
    assert totals == sorted(totals) and totals[-1] > totals[1]


def test_the_shipped_fit_is_complete():
    fit, catalogue = fitted(), boards()
    assert set(fit["software"]) == {"tflm-reference", "cmsis-nn", "edge-impulse", "vendor"} and fit["sources"]
    assert set(fit["work"]["classes"]) == set(CLASSES)
    for name, entry in fit["boards"].items():
        assert catalogue[name].core == entry["core"] and entry["core"] in fit["cores"] and entry["factor"] > 0
    checked = {row["what"]: row for row in fit["checked"]}
    known = checked["cmsis-nn: the model"]
    assert known["rows"] == 26 and known["models"] == 22 and known["mape"] < 0.2 and known["coverage"] >= 0.85
    assert 0.85 <= checked["vendor: the model"]["coverage"] <= 0.95
    assert fit["power"]["mape"] <= 0.1


def test_the_documentation_has_the_errors_of_the_shipped_fit():
    page = (Path(__file__).parents[2] / "docs" / "microcontrollers.md").read_text(encoding="utf-8")
    for row in fitted()["checked"]:
        inside = f"{row['coverage']:.0%} | {row['width']:.2f}" if "coverage" in row else "– | –"
        assert f"| {row['what']} | {row['rows']} | {row['models']} | {row['mape']:.0%} | {inside} |" in page


def layer(index, instructions):
    return EstimatedLayer(index=index, name=str(index), op="ADD", unit="CPU" if instructions else "", macs=0)


def device(name, clock_hz, **settings):
    board = boards().get(name)
    core = board.core if board else name
    return EstimatedDevice(
        name=name, title=name, estimator="cortex-m", clock_hz=clock_hz, core=core, board=board, settings=settings
    )


def test_layers_have_cycles_and_times_and_add_up_to_the_total():
    found = time_layers(device("nucleo-l4r5zi", 120e6), [layer(0, 5), layer(1, 0)], [OPERATOR, None])
    rows = {row.metric: row for row in found.measurements}
    first, free, start = found.layers
    assert start.index is None and free.cycles is None and free.time is None
    assert first.cycles + start.cycles == pytest.approx(rows["cpu_cycles"].value)
    assert first.time + start.time == pytest.approx(rows["latency"].value) and rows["latency"].basis == "estimated"
    assert rows["energy"].value == pytest.approx(rows["latency"].value * boards()["nucleo-l4r5zi"].power_w)
    assert rows["energy"].high / rows["energy"].value > rows["latency"].high / rows["latency"].value
    assert found.coverage == dict.fromkeys(("cpu_cycles", "latency", "energy"), 0.9)


@pytest.mark.parametrize(
    ("name", "clock_hz", "reasons"),
    [
        (
            "cortex-m4",
            None,
            {"latency": "no clock is given: --device cortex-m4@120MHz", "energy": "a core has no power of its own"},
        ),
        ("cortex-m4", 1e8, {"energy": "a core has no power of its own"}),
        ("nucleo-f401re", 84e6, {"energy": "no source gives the power of this board"}),
        ("nucleo-l4r5zi", 8e7, {"energy": "was measured at 120 MHz"}),
        ("cortex-m55", 1e8, dict.fromkeys(("cpu_cycles", "latency", "energy"), "no published latency")),
    ],
)
def test_what_is_not_known_is_absent_with_the_reason(name, clock_hz, reasons):
    found = time_layers(device(name, clock_hz), [layer(0, 5)], [OPERATOR])
    absent = {row.metric: row.absent_because for row in found.measurements if row.value is None}
    assert absent.keys() == reasons.keys() and all(reasons[metric] in absent[metric] for metric in reasons)
    assert found.coverage.keys() == {"cpu_cycles", "latency", "energy"} - absent.keys()


@pytest.mark.parametrize("clock", ["0MHz", "11GHz", "1e400Hz"])
def test_a_clock_that_no_core_has_is_an_error(clock):
    with pytest.raises(
        BadInput,
        match=r"^the clock of cortex-m4( must be more than 0 and at most 10 GHz, not|: '1e400Hz' is not a freq)",
    ):
        find_device(f"cortex-m4@{clock}")
