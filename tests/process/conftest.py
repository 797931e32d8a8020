"""A bench for whole searches."""

from __future__ import annotations

import pytest

from search_bench import Bench


@pytest.fixture
def few_turns(monkeypatch):
    """What is tested with it is found out in some turns as well as in a hundred."""
    monkeypatch.setattr("edgewise.run.interleaving.TURNS", 20)


@pytest.fixture
def bench(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Bench(tmp_path, monkeypatch)
