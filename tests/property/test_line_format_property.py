"""Laws of line formats: what a meter printed is read, and no line does harm."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.run.power_meter.line_format import LineFormat

number = st.floats(-1e9, 1e9).map(lambda value: round(value, 9))
FORMATS = ("{power:mW}", "{time:ms},{voltage:V},{current:mA}", '{*}"power":{power:W}{*}', "{*}x{energy:Wh}x{*}x")


@given(number, number, st.text(alphabet=" \t", max_size=3))
def test_what_was_printed_is_read(volts, milliamperes, blank):
    found = LineFormat("{voltage:V};{current:mA}").parse(f"{volts!r}{blank};{blank}{milliamperes!r}\r\n")
    assert found is not None and found.power_w == pytest.approx(volts * milliamperes * 1e-3)


@given(st.sampled_from(FORMATS), st.one_of(st.text(), st.text(alphabet='0123456789+-.eE,;x" power:')))
def test_no_line_does_harm(pattern, line):
    found = LineFormat(pattern).parse(line)
    for value in () if found is None else (found.power_w, found.energy_j, found.time_s):
        assert value is None or not math.isnan(value)


@given(number)
def test_a_line_that_was_cut_off_is_garbage_where_a_field_is_missing(value):
    line = f"{value!r},5.0,"
    assert all(LineFormat(FORMATS[1]).parse(line[:end]) is None for end in range(len(line) + 1))
