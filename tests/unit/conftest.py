"""A clock that tests write, workers that are threads, a bench for whole searches, and what models were asked."""

from __future__ import annotations

import pytest

from edgewise.evaluating.evaluator import ModelAdapter
from scripted_clock import scripted_clock  # noqa: F401 - fixtures
from search_bench import Bench
from threaded_workers import threaded  # noqa: F401


@pytest.fixture
def few_turns(threads, monkeypatch):
    """What is tested with it is found out in some turns as well as in a hundred."""
    monkeypatch.setattr("edgewise.run.interleaving.TURNS", 20)


@pytest.fixture
def bench(tmp_path, threads, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Bench(tmp_path, monkeypatch)


@pytest.fixture
def asked(monkeypatch):
    """Who was asked about how many samples: a prompter and a number each time."""
    seen = []
    infer = ModelAdapter.infer

    def spy(self, feeds):
        seen.append((self, len(feeds)))
        return infer(self, feeds)

    monkeypatch.setattr(ModelAdapter, "infer", spy)
    return seen
