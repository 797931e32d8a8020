"""Line formats of power meters: lines of real firmware's kinds, garbage, and patterns that can't be used."""

from __future__ import annotations

import re

import pytest

from edgewise.errors import BadInput
from edgewise.run.power_meter.line_format import LineFormat
from messages import says


@pytest.mark.parametrize(
    ("pattern", "line", "power_w", "energy_j", "time_s"),
    [
        ("{power:mW}", "1234.5\r\n", 1.2345, None, None),
        ("{power:W}", " +1.5e-1 ", 0.15, None, None),
        ("{time:ms},{voltage:V},{current:mA}", "1200, 5.02,312.5", 1.56875, None, 1.2),
        ("{time:us};{power:uW}", "5000000;250", 250e-6, None, 5.0),
        ('{*}"power":{power:W}{*}', '{"id": 3, "power": 1.52, "up": 99}', 1.52, None, None),
        ('{"V":{voltage:V},"I":{current:A}}', '{"V":5.0,"I":-.25}', -1.25, None, None),
        ("Bus Voltage: {voltage:V} V {*} Current: {current:mA} mA", "Bus Voltage:  5 V  Shunt: 2 mV Current: 10.5 mA", 0.0525, None, None),
        ("{*}A {energy:mWh} mWh", "5.10V 0.25A 12.50 mWh", None, 45.0, None),
    ],
)  # fmt: skip
def test_lines_that_fit(pattern, line, power_w, energy_j, time_s):
    found = LineFormat(pattern).parse(line)
    assert found is not None
    for value, expected in ((found.power_w, power_w), (found.energy_j, energy_j), (found.time_s, time_s)):
        assert value is None if expected is None else value == pytest.approx(expected)


@pytest.mark.parametrize(
    "line",
    ["", "1200,5.02", "1200,5.02,", "1200,5.02,31x", "1200,5.02,nan", "1,2,3,4", "x1200,5,3", "\ufffd\ufffd", "1200,5.02,1e999"],
)  # fmt: skip
def test_garbage(line):
    assert LineFormat("{time:ms},{voltage:V},{current:mA}").parse(line) is None


@pytest.mark.parametrize(
    ("pattern", "line", "steps"),
    [
        ("{power:mW}", "12.25", {"power": 1e-5}),
        ("{energy:mWh}", "12", {"energy": 3.6}),
        ("{voltage:V},{current:mA}", "5.0,100", {"power": 5.0 * 1e-3 + 0.1 * 0.1}),
    ],
)
def test_what_one_unit_of_the_last_digit_is(pattern, line, steps):
    assert LineFormat(pattern).parse(line).steps == pytest.approx(steps)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("{*}", says("line-format-must-power-unit")),
        ("power", says("line-format-must-power-unit")),
        ("{voltage:V}", says("line-format-must-power-unit")),
        ("{power:W},{energy:J}", says("line-format-must-power-unit")),
        ("{power:V}", says("not-quantity-unit")),
        ("{watts:W}", says("not-quantity-unit")),
        ("{power:W} {power:W}", says("there-twice-in-safety")),
        ("{*}{power:W}", says("line-format-needs-text-between", part="power:W")),
        ("{*} {power:W}", says("line-format-needs-text-between", part="power:W")),
    ],
)
def test_patterns_that_can_not_be_used(pattern, why):
    with pytest.raises(BadInput) as caught:
        LineFormat(pattern)
    assert re.search(why, caught.value.message)


def test_a_hostile_line_takes_no_longer_than_its_length():
    pattern = LineFormat("{*}a{*}a{*}a{*}a{*}a{*}b{power:W}")
    assert pattern.parse("a" * 1000) is None  # 10¹⁵ steps if it went back
