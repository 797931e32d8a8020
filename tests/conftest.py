"""Models for tests: small ones written on the spot, and the real ones where they are at hand."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tiny_models import write_tiny_onnx

SHARED = Path(__file__).resolve().parents[2] / "shared" / "models"
"""Real models; they lie beside the repository and are never copied into it."""


@pytest.fixture(autouse=True)
def ctrl_c_interrupts() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, whatever the shell that started the tests or a library made of it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before if before is not None else signal.SIG_DFL)


@pytest.fixture(scope="session")
def shared_models() -> Path:
    """The folder of the MLPerf Tiny models; the test is skipped where it is absent."""
    folder = SHARED / "mlperf_tiny"
    if not folder.is_dir():
        pytest.skip("the shared models (../shared/models/mlperf_tiny) are not here")
    return folder


@pytest.fixture
def tiny_onnx(tmp_path: Path) -> Callable[..., Path]:
    """A factory of ONNX models: ``y = relu(x @ w)`` with w [4, 2], see `write_tiny_onnx`."""

    def write(name: str = "tiny.onnx", **options: Any) -> Path:
        return write_tiny_onnx(tmp_path / name, **options)

    return write
