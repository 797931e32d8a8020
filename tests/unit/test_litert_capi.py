"""Memory and libraries of LiteRT's C API that are not what was expected."""

import ctypes
import sys

import pytest

from edgewise.runtime.base import CannotProfile
from edgewise.runtime.litert_capi import CHECKED, Event, EventStructure, Library
from messages import says


def event(tag, kind, start_us=0, elapsed_us=0, index=0, subgraph=0):
    return Event(tag=tag, type=kind, start_us=start_us, elapsed_us=elapsed_us, index=index, subgraph=subgraph)


def test_an_event_has_the_size_that_was_checked():
    assert ctypes.sizeof(EventStructure) == 104


@pytest.mark.parametrize("version", ["2.1.5", "2.0.3", "1.4.0"])
def test_versions_that_are_too_old(tmp_path, version):
    with pytest.raises(CannotProfile, match=says("litert-profiler-needs-ai-edge", checked="2.1.6", version=version)):
        Library(tmp_path / "libLiteRt.so", version)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="refused on other systems before it is opened")
@pytest.mark.parametrize("version", ["2.2.1", "2.4.0", "2.4.0.dev20261026", "3.0"])
def test_versions_that_were_not_checked_are_tried_and_named(monkeypatch, tmp_path, version):
    monkeypatch.setattr(Library, "_bind", lambda *words: None)
    monkeypatch.setattr("edgewise.runtime.litert_capi.ctypes.CDLL", lambda path: None)
    assert f"not with {version}" in Library(tmp_path / "libLiteRt.so", version).note
    assert [Library(tmp_path / "libLiteRt.so", known).note for known in CHECKED] == [""] * len(CHECKED)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="refused on other systems before it is opened")
def test_libraries_that_are_none(tmp_path):
    with pytest.raises(CannotProfile, match=says("litert-library-cant-loaded")):
        Library(tmp_path / "libLiteRt.so", "2.3.0")


def scripted_library(count, fill):
    """The reader of events over a profiler that writes what `fill` puts into the memory it is given."""
    library = Library.__new__(Library)

    def write_count(profiler, into):
        into._obj.value = count
        return 0

    def write_events(profiler, number, into):
        fill(into, number)
        return 0

    library._functions = {"GetNumProfilerEvents": write_count, "GetProfilerEvents": write_events}
    return library


def good_event(memory, at, tag=b"CONV_2D", kind=2, source=1):
    layout = EventStructure
    kept = ctypes.create_string_buffer(tag)
    written = layout.from_buffer(memory, at * ctypes.sizeof(layout))
    written.tag, written.type, written.source = ctypes.addressof(kept), kind, source
    written.start_us, written.elapsed_us, written.index, written.subgraph = 11, 5, 3, 0
    KEPT.append(kept)


KEPT = []


def test_events_are_read():
    library = scripted_library(2, lambda memory, count: [good_event(memory, at) for at in range(count)])
    assert library.read_events(1) == [event("CONV_2D", 2, 11, 5, 3)] * 2


@pytest.mark.parametrize(
    ("count", "fill", "reason"),
    [
        pytest.param(0, lambda memory, count: None, says("litert-profiler-recorded-events", count=0), id="none"),
        pytest.param(
            10**7,
            lambda memory, count: None,
            says("litert-profiler-recorded-events", count=10000000),
            id="absurdly many",
        ),
        pytest.param(
            1,
            lambda memory, count: ctypes.memset(memory, 0, 112),
            says("litert-events-unexpected-size"),
            id="longer structure",
        ),
        pytest.param(1, lambda memory, count: None, says("litert-events-unexpected-fields"), id="nothing written"),
        pytest.param(
            1, lambda memory, count: ctypes.memset(memory, 0, 104), says("litert-events-unexpected-fields"), id="zeros"
        ),
        pytest.param(
            1, lambda memory, count: good_event(memory, 0, kind=3), says("litert-events-unexpected-fields"), id="type"
        ),
        pytest.param(
            1,
            lambda memory, count: good_event(memory, 0, source=7),
            says("litert-events-unexpected-fields"),
            id="source",
        ),
        pytest.param(
            1,
            lambda memory, count: good_event(memory, 0, tag=b"\xff\x01"),
            says("event-litert-profiler-no-readable"),
            id="name",
        ),
        pytest.param(
            2,
            lambda memory, count: [good_event(memory, 0), ctypes.memset(ctypes.addressof(memory) + 104, 0x41, 104)],
            says("litert-events-unexpected-fields"),
            id="garbage behind a good one",
        ),
    ],
)
def test_garbage_is_never_read_as_numbers(count, fill, reason):
    with pytest.raises(CannotProfile, match=reason):
        scripted_library(count, fill).read_events(1)
