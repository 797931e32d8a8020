"""A far target for tests: made once per test session, with settings of each test's own."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from edgewise.device import target
from edgewise.testing.far_target import FarTransport, make_python, write_plugin


@pytest.fixture(scope="session")
def far_python(tmp_path_factory) -> Path:
    found = [find_spec(name) for name in ("numpy", "onnxruntime", "torch")]
    packages = [Path(spec.origin).parents[1] for spec in found if spec is not None]
    return make_python(tmp_path_factory.mktemp("far") / "env", packages=list(dict.fromkeys(packages)))


@pytest.fixture
def far(far_python, tmp_path_factory):
    """A function that makes a far transport with some settings."""
    made = []

    def make(**settings) -> FarTransport:
        made.append(FarTransport(root=tmp_path_factory.mktemp("there"), python=far_python, **settings))
        return made[-1]

    yield make
    target.close_targets()


@pytest.fixture
def far_device(far_python, tmp_path, monkeypatch):
    """A function that makes a far target known as the device ``far``."""

    def register(**settings) -> None:
        folder = tmp_path / "plugin"
        folder.mkdir()
        write_plugin(folder, root=tmp_path / "there", python=far_python, **settings)
        monkeypatch.syspath_prepend(folder)

    yield register
    target.close_targets()
    sys.modules.pop("far_plugin", None)
