"""Somebody else's broken plug-in takes nobody down."""

from importlib.metadata import EntryPoint

import pytest

from edgewise.errors import Unavailable
from edgewise.registry import Availability, Registry
from edgewise.runtime.base import availability_of


class Good:
    pass


class Broken:
    def __init__(self):
        raise ValueError("not today")


class Shy:
    def availability(self):
        raise OSError("no answer")


@pytest.fixture
def registry():
    registry = Registry("edgewise.nothing", "thing")
    points = {name: EntryPoint(name, f"{__name__}:{target}", "edgewise.nothing") for name, target in (
        ("bad", "Broken"), ("gone", "Missing"), ("good", "Good"), ("nowhere", "x"),
    )}  # fmt: skip
    points["nowhere"] = EntryPoint("nowhere", "no_such_module:Thing", "edgewise.nothing")
    registry.__dict__["_entry_points"] = points
    return registry


def test_names_need_no_import(registry):
    assert registry.names() == ("bad", "gone", "good", "nowhere")
    assert registry.location("good") == f"{__name__}:Good"


def test_what_loads_is_loaded_once(registry):
    assert isinstance(registry.get("good"), Good)
    assert registry.get("good") is registry.get("good")


@pytest.mark.parametrize(("name", "words"), [("bad", "not today"), ("gone", "Missing"), ("nowhere", "no_such_module")])
def test_what_does_not_load_is_unavailable_with_the_reason(registry, name, words):
    with pytest.raises(Unavailable, match=words):
        registry.get(name)


def test_an_unknown_name_lists_the_known_ones(registry):
    with pytest.raises(Unavailable) as caught:
        registry.get("other")
    assert "good" in caught.value.advice


def test_iteration_leaves_the_broken_ones_out(registry):
    assert [name for name, _ in registry] == ["good"]


def test_a_check_that_raises_is_not_available():
    availability = availability_of(Shy())
    assert not availability and "no answer" in availability.reason


def test_availability_is_its_truth():
    assert Availability(True) and not Availability(False, "why")
