"""A clock that tests write, workers that are threads, labs, and the mark of tests with real processes."""

from pathlib import Path

import pytest

from labs import lab, place, server, store, url  # noqa: F401 - fixtures
from scripted_clock import scripted_clock  # noqa: F401 - a fixture
from threaded_workers import threaded  # noqa: F401

WITHOUT = frozenset({"test_serial_boards.py"})
"""Where threads do, at the other end of a pseudo-terminal."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What only a process can do takes its time, the more the busier the machine is: `long`."""
    for item in items:
        if item.path.parent == Path(__file__).parent and item.path.name not in WITHOUT:
            item.add_marker(pytest.mark.long)
