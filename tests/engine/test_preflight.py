"""The pre-flight with real engines and passes: predictions, and workers that survive passes."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from edgewise.data import path as bundled
from edgewise.model.identity import open_model, read_graph
from edgewise.optimizing import preflight
from edgewise.optimizing.base import (
    CannotApply,
    Capabilities,
    Facts,
    PassResult,
    PassSettings,
    PassTask,
    Recipe,
    passes,
)
from edgewise.optimizing.preflight import Preflight
from edgewise.registry import Availability
from messages import wording
from patience import LIMIT_S
from scripted_clock import scripted_clock  # noqa: F401 - a fixture

pytestmark = pytest.mark.engine


def facts_of(path: Path) -> Facts:
    model = open_model(path)
    shapes = {spec.name: tuple(size if isinstance(size, int) else 1 for size in spec.shape or ())
              for spec in model.signature.inputs}  # fmt: skip
    return Facts(
        path=path, format=model.ref.format, graph=read_graph(path, shapes=shapes), signature=model.signature,
        quantized=False, runtimes=("onnxruntime", "litert"), cores=1,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("model", "name", "runtime", "module"),
    [
        ("digits_cnn.onnx", "ort-static", "onnxruntime", "onnxruntime"),
        ("digits_cnn.onnx", "nncf-ptq", "openvino", "nncf"),
        ("digits_cnn.tflite", "litert-static", "litert", "ai_edge_quantizer"),
        ("digits_cnn.tflite", "litert-dynamic", "litert", "ai_edge_quantizer"),
    ],
)
@pytest.mark.long
def test_a_real_pass_is_predicted_and_the_answer_kept(tmp_path, monkeypatch, model, name, runtime, module):
    pytest.importorskip(module, reason=f"{name} needs it")
    facts = facts_of(bundled(model))
    one = passes().get(name)
    recipe = one.recipes(facts)[0]
    told = Preflight(facts, budget_s=LIMIT_S, cache=tmp_path / "c").predict(one, recipe, engines=[runtime])[runtime]
    assert told.speedup is not None, told.because
    assert told.low is not None
    assert told.high is not None
    assert told.low < told.speedup < told.high
    assert "heavy operators" in told.because
    monkeypatch.setattr(preflight, "time_pass", None)
    assert Preflight(facts, cache=tmp_path / "c").predict(one, recipe, engines=[runtime])[runtime] == told


@dataclass(frozen=True, slots=True, kw_only=True)
class Doing(PassSettings):
    do: str = "copy"


class Clumsy:
    """A pass that does what its settings say."""

    name = "clumsy"
    title = "Clumsy"
    capabilities = Capabilities(kind="quantisation", reads=("onnx",), writes="onnx", calibrates=True)

    def availability(self) -> Availability:
        return Availability(True, version="1")

    def recipes(self, facts: Facts) -> tuple[Recipe, ...]:
        return ()

    def apply(self, task: PassTask) -> PassResult:
        from edgewise.optimizing.calibration import read_calibration

        print("noise on standard output", flush=True)
        target = task.folder / "made.onnx"
        match task.settings.do:
            case "crash":
                os.abort()
            case "refuse":
                raise CannotApply("nothing here can be changed")
            case "raise":
                raise RuntimeError("broken")
            case "memory":
                return PassResult(model=Path(str(bytearray(2**50))))
            case "hang":
                Path(os.environ["HANGS"]).touch()
                time.sleep(600)  # real time: it is ended
            case "nothing":
                return PassResult(model=Path(task.model), unchanged=True)
            case "garbage":
                target.write_bytes(b"no model")
                return PassResult(model=target)
        assert task.calibration is not None
        assert len(read_calibration(task.calibration)) > 0
        target.write_bytes(Path(task.model).read_bytes())
        return PassResult(model=target)


@pytest.fixture
def importable(monkeypatch):
    """Workers can import this module."""
    pytest.importorskip("onnxruntime", reason="the engine of these tests")
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parent}:{Path(__file__).parents[1]}")
    monkeypatch.setattr(Clumsy, "__module__", Path(__file__).stem)
    monkeypatch.setattr(Doing, "__module__", Path(__file__).stem)


@pytest.mark.parametrize(
    ("do", "because"),
    [
        ("crash", "it failed in a trial run: the pass crashed (SIGABRT)"),
        ("refuse", "it can't be applied: nothing here can be changed"),
        ("raise", "it failed in a trial run: RuntimeError: broken"),
        ("memory", "it failed in a trial run: there was not enough memory"),
        ("nothing", wording("finds-nothing-change")),
        ("garbage", "it failed in a trial run: its result can't be read"),
    ],
)
def test_a_pass_that_comes_to_grief_is_told(tmp_path, importable, do, because):
    flight = Preflight(facts_of(bundled("digits_cnn.onnx")), budget_s=LIMIT_S, cache=tmp_path / "c")
    told = flight.predict(Clumsy(), Recipe(settings=Doing(do=do)), engines=["onnxruntime"])["onnxruntime"]
    assert told.speedup is None
    assert told.because.startswith(because)


def test_a_pass_that_hangs_takes_no_longer_than_the_budget(tmp_path, importable, monkeypatch, clock):
    hangs = tmp_path / "hangs"
    monkeypatch.setenv("HANGS", str(hangs))
    clock.silent_when = hangs.exists
    flight = Preflight(facts_of(bundled("digits_cnn.onnx")), budget_s=20.0, cache=tmp_path / "c")
    begin = clock.now()
    told = flight.predict(Clumsy(), Recipe(settings=Doing(do="hang")), engines=["onnxruntime"])["onnxruntime"]
    assert told.because == wording("time-pre-flight-used-up")
    assert (
        flight.predict(Clumsy(), Recipe(settings=Doing(do="hang")), engines=["onnxruntime"])["onnxruntime"].speedup
        is None
    )
    assert clock.now() - begin == 20.0
