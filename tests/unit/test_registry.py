"""Somebody else's broken plug-in takes nobody down."""

import os
import re
import sys
import threading
from importlib.metadata import EntryPoint

import pytest

from edgewise.errors import Unavailable
from edgewise.registry import Availability, Registry, availability_of
from installed_package import write_metadata
from messages import says


class Good:
    pass


class Broken:
    def __init__(self):
        raise ValueError("not today")


class Quitter:
    def __init__(self):
        raise SystemExit("goodbye")


class Sleeper:
    def __init__(self):
        threading.Event().wait()


class Shy:
    def availability(self):
        raise OSError("no answer")


@pytest.fixture
def registry():
    registry = Registry("edgewise.nothing", "thing")
    points = {name: EntryPoint(name, f"{__name__}:{target}", "edgewise.nothing") for name, target in (
        ("bad", "Broken"), ("asleep", "Sleeper"), ("quits", "Quitter"), ("gone", "Missing"), ("good", "Good"), ("nowhere", "x"),
    )}  # fmt: skip
    points["nowhere"] = EntryPoint("nowhere", "no_such_module:Thing", "edgewise.nothing")
    registry.__dict__["_entry_points"] = points
    return registry


def test_names_need_no_import(registry):
    assert set(registry.names()) == {"asleep", "bad", "gone", "good", "nowhere", "quits"}
    assert registry.location("good") == f"{__name__}:Good"


def test_what_loads_is_loaded_once(registry):
    assert isinstance(registry.get("good"), Good)
    assert registry.get("good") is registry.get("good")


@pytest.mark.parametrize(("name", "words"), [
    ("bad", "not today"), ("gone", "Missing"), ("nowhere", "no_such_module"), ("quits", "goodbye"), ("asleep", says("no-answer-within-s")),
])  # fmt: skip
def test_what_does_not_load_is_unavailable_with_the_reason(registry, monkeypatch, name, words):
    monkeypatch.setattr("edgewise.registry.PATIENCE_S", 0.01 if name == "asleep" else 600.0)
    monkeypatch.setattr("edgewise.registry._silent", set())
    with pytest.raises(Unavailable, match=words):
        registry.get(name)


def test_a_plug_in_without_a_member_that_is_needed_can_not_be_used():
    registry = Registry("edgewise.nothing", "thing", members=("availability", "title"))
    point = EntryPoint("shy", f"{__name__}:Shy", "edgewise.nothing")
    registry.__dict__["_entry_points"] = {"shy": point}
    for _ in range(2):
        with pytest.raises(Unavailable, match="thing 'shy' can't be loaded: it lacks title"):
            registry.get("shy")
    assert not list(registry)


def test_an_unknown_name_lists_the_known_ones(registry):
    with pytest.raises(Unavailable) as caught:
        registry.get("other")
    assert "good" in caught.value.advice


def test_iteration_leaves_the_broken_ones_out(registry, monkeypatch):
    monkeypatch.setattr("edgewise.registry.PATIENCE_S", 600.0)
    monkeypatch.setattr("edgewise.registry._silent", {f"{__name__}:Sleeper"})
    assert [name for name, _ in registry] == ["good"]


def test_a_check_that_raises_is_not_available():
    availability = availability_of(Shy())
    assert not availability and "no answer" in availability.reason


@pytest.mark.parametrize(
    ("answer", "words"), [(lambda: sys.exit(7), "SystemExit"), (threading.Event().wait, "no answer")]
)
def test_a_check_that_exits_or_hangs_is_not_available(monkeypatch, answer, words):
    monkeypatch.setattr("edgewise.registry.PATIENCE_S", 0.01 if words == "no answer" else 600.0)
    monkeypatch.setattr("edgewise.registry._silent", set())
    shy = Shy()
    shy.availability = answer
    availability = availability_of(shy)
    assert not availability and words in availability.reason


def test_availability_is_its_truth():
    assert Availability(True) and not Availability(False, "why")


def test_a_plug_in_installed_while_the_process_runs_is_found(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    assert Registry("edgewise.test_things", "thing").names() == ()
    os.utime(tmp_path, ns=(0, 0))  # so that the change below is one, however coarse the file system's clock
    write_metadata(tmp_path, "late", {"edgewise.test_things": {"good": f"{__name__}:Good"}})
    assert Registry("edgewise.test_things", "thing").names() == ("good",)


def test_installed_packages_are_read_once(monkeypatch):
    Registry("edgewise.runtimes", "runtime").names()
    monkeypatch.setattr("importlib.metadata.entry_points", lambda: pytest.fail("read again"))
    assert "fake" in Registry("edgewise.runtimes", "runtime").names()
    assert "onnx" in Registry("edgewise.readers", "reader").names()


@pytest.mark.parametrize(
    ("word", "meant"),
    [("ort", "onnxruntime"), ("tflite", "litert"), ("cuda", "onnxruntime/cuda"), ("tensorrt", "onnxruntime/tensorrt")],
)
def test_a_word_that_users_write_for_an_engine_leads_to_its_name(word, meant):
    from edgewise.runtime.base import runtimes

    with pytest.raises(Unavailable) as caught:
        runtimes().get(word)
    assert re.match(says("did-you-mean-in-registry", near=meant), caught.value.advice)


def test_advice_tells_what_is_installed_from_what_is_not(monkeypatch):
    from edgewise.runtime.base import runtimes

    gone, here = (type(runtimes().get(name)) for name in ("onnxruntime", "litert"))
    monkeypatch.setattr(gone, "availability", lambda self: Availability(False, "gone"))
    monkeypatch.setattr(here, "availability", lambda self: Availability(True))
    with pytest.raises(Unavailable) as caught:
        runtimes().get("nothing")
    existing, _, missing = caught.value.advice.partition("; not installed here: ")
    assert "litert" in existing and "onnxruntime" in missing.split(", ")
    assert "onnxruntime" not in existing.split(", ")


def test_advice_does_not_offer_what_is_for_tests():
    from edgewise.runtime.base import runtimes

    with pytest.raises(Unavailable) as caught:
        runtimes().get("fakee")
    assert "fake" not in caught.value.advice and "onnxruntime" in caught.value.advice
    assert runtimes().get("fake").name == "fake"
