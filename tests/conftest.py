"""Models for tests: small ones written on the spot, and the real ones where they are at hand."""

from __future__ import annotations

import fcntl
import gc
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers

import chromium
import warm_start
from tiny_models import write_tiny_onnx

# How long an example takes depends on the machine, and no test asserts real times.
# Each run draws other examples, so that few of them a run find as much in the end.
settings.register_profile("edgewise", deadline=None, max_examples=25)
settings.load_profile("edgewise")
# Hypothesis would read all our sources for constants to try: seconds in each worker, and other examples after each change.
providers._get_local_constants = lambda: providers._local_constants

# Images of containers often set PYTHONDONTWRITEBYTECODE. Here it would make every child process compile edgewise again,
# which takes longer than what most of them do, and pytest would compile every test file again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

SHARED = Path(__file__).resolve().parents[2] / "shared" / "models"
"""Real models; they lie beside the repository and are never copied into it."""
WARM = frozenset({"cli", "engine", "process", "property", "studio", "unit"})
"""Folders of tests whose workers are forked from a process that has imported what they need (`warm_start`)."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Spare the garbage collector the search of modules and tests, which stay to the end: it took 5 % of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        # Seldom, too: looking through what the tests made, again and again, took 7 % of their time.
        gc.set_threshold(50_000, 20, 50)
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    """Import each file in one worker at a time: the first one compiles it and what it imports, the others read that."""
    if not isinstance(collector, pytest.Module):
        return (yield)
    with collector.path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        return (yield)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files without long tests where only these are asked for: importing all files takes a minute.

    All of ``tests/process`` counts as long (its conftest).
    """
    if config.option.markexpr != "long" or collection_path.suffix != ".py" or collection_path.parent.name == "process":
        return None
    return None if re.search(rb"\bmark\.long\b|\bLONG\b", collection_path.read_bytes()) else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that open a browser."""
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.ui)
            item.add_marker(pytest.mark.skipif(chromium.PATH is None, reason="Chromium is not installed"))


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One for all pages: starting it takes longer than most tests. Each test has a context of its own."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    api.expect.set_options(timeout=chromium.LIMIT_MS)
    with api.sync_playwright() as playwright:
        browser = chromium.launch(playwright.chromium)
        yield browser
        browser.close()


@pytest.fixture(autouse=True)
def ctrl_c_interrupts() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, whatever the shell that started the tests or a library made of it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before if before is not None else signal.SIG_DFL)


@pytest.fixture(scope="session", autouse=True)
def own_lock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Measuring commands of these tests wait for one another, and not for anybody else on this machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGEWISE_LOCKS", str(tmp_path_factory.mktemp("locks")))
        yield


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What these tests keep, as the peaks of machines, stays out of the user's cache, and nothing there helps them.

    Workers of pytest-xdist share what is compiled and emulated: the kernels of a core take 4 s.
    """
    cache, base = tmp_path_factory.mktemp("cache"), tmp_path_factory.getbasetemp()
    compiled = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "compiled"
    compiled.mkdir(exist_ok=True)
    (cache / "edgewise").mkdir()
    (cache / "edgewise" / "mcu").symlink_to(compiled)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        yield


@pytest.fixture(scope="session")
def nursery() -> Iterator[warm_start.Nursery]:
    """The process that workers are forked from, one for all tests; it is started when it is first needed."""
    nursery = warm_start.Nursery()
    yield nursery
    nursery.close()


@pytest.fixture(autouse=True)
def warm_workers(request: pytest.FixtureRequest, nursery: warm_start.Nursery) -> Iterator[None]:
    """Workers start in milliseconds: in the folders whose tests are of what is done with them, not of their start."""
    warm_start.test_began = time.clock_gettime(time.CLOCK_BOOTTIME) - 0.02  # the kernel counts in ticks of 10 ms
    if request.path.parent.name not in WARM or request.node.get_closest_marker("cold"):
        yield
        return
    with warm_start.installed(nursery):
        yield


@pytest.fixture
def short_races(monkeypatch: pytest.MonkeyPatch) -> None:
    """Races of searches have one round, after which most verdicts are open: deciding takes a busy machine minutes.

    For tests of what a search makes and judges. Races to the end: ``tests/unit/test_optimizing_race.py`` by a script,
    ``tests/engine/test_optimize_digits.py`` with real engines.
    """
    from edgewise.comparing.trial import TrialSettings

    monkeypatch.setattr("edgewise.optimizing.race.TrialSettings", partial(TrialSettings, rounds=1))


@pytest.fixture(scope="session")
def shared_models() -> Path:
    """The folder of the MLPerf Tiny models; the test is skipped where it is absent."""
    folder = SHARED / "mlperf_tiny"
    if not folder.is_dir():
        pytest.skip("the shared models (../shared/models/mlperf_tiny) are not here")
    return folder


@pytest.fixture
def bound_by_modes() -> tuple[str, ...]:
    """What a command begins with so that file modes bind it even where the tests are run by root."""
    if os.geteuid() != 0:
        return ()
    prefix = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search")
    if (
        shutil.which("setpriv") is None
        or subprocess.run([*prefix, "true"], check=False, capture_output=True).returncode
    ):
        pytest.skip("run by root, which modes do not bind, and setpriv can't drop that")
    return prefix


@pytest.fixture
def tiny_onnx(tmp_path: Path) -> Callable[..., Path]:
    """A factory of ONNX models: ``y = relu(x @ w)`` with w [4, 2], see `write_tiny_onnx`."""

    def write(name: str = "tiny.onnx", **options: Any) -> Path:
        return write_tiny_onnx(tmp_path / name, **options)

    return write
