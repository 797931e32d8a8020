"""Laws of the battery model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.run.battery import Quantity, battery_life

positive = st.floats(1e-6, 1e6)
share = st.floats(0.0, 1.0)


@st.composite
def settings(draw):
    def quantity():
        value, below, above = draw(positive), draw(share), draw(share)
        return Quantity(value, value * (1 - below), value * (1 + above))

    return {
        "capacity_j": draw(positive),
        "idle_power": quantity(),
        "energy": quantity(),
        "per_hour": draw(st.floats(0.0, 1e4)),
    }


@given(settings())
def test_the_interval_contains_the_life(given_settings):
    life = battery_life(**given_settings).life
    if life.low is not None:
        assert life.low <= life.value * (1 + 1e-12) and life.value <= life.high * (1 + 1e-12)


@given(settings(), st.floats(1.0, 1e3))
def test_the_life_is_proportional_to_the_capacity(given_settings, factor):
    more = given_settings | {"capacity_j": given_settings["capacity_j"] * factor}
    assert battery_life(**more).life.value == pytest.approx(battery_life(**given_settings).life.value * factor)


@given(settings(), st.floats(1.0, 1e3))
def test_more_inferences_or_more_energy_never_lengthen_the_life(given_settings, factor):
    before = battery_life(**given_settings).life.value
    energy = given_settings["energy"]
    for change in (
        {"per_hour": given_settings["per_hour"] * factor},
        {"energy": Quantity(energy.value * factor, None, None)},
    ):
        assert battery_life(**given_settings | change).life.value <= before * (1 + 1e-12)


@given(settings())
def test_the_energy_is_conserved(given_settings):
    """Over its life, the device takes what the battery had, and the inferences their share of it."""
    found = battery_life(**given_settings)
    count = found.life.value / 3600.0 * given_settings["per_hour"]
    taken = given_settings["idle_power"].value * found.life.value + count * given_settings["energy"].value
    assert taken == pytest.approx(given_settings["capacity_j"])
    assert found.inference_share * taken == pytest.approx(count * given_settings["energy"].value)
