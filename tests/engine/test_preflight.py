"""The pre-flight with real engines and passes: subgraphs compute what the network does, and workers survive passes."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
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
from edgewise.optimizing.subgraph import choose_subgraph, describe_cut
from edgewise.optimizing.subgraph_files import cut_model
from edgewise.registry import Availability
from messages import wording
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


def write_blocks(path: Path, blocks: int, *, external: bool = False) -> Path:
    """x [1, 4, 6, 6] → `blocks` residual blocks with the same weights."""
    from onnx import TensorProto, helper, numpy_helper, save_model

    random = np.random.default_rng(0)
    weights = [numpy_helper.from_array(random.normal(0, 0.2, (4, 4, 3, 3)).astype(np.float32), "w")]
    nodes, last = [], "x"
    for at in range(blocks):
        nodes += [
            helper.make_node("Conv", [last, "w"], [f"a{at}"], f"conv{at}", pads=[1, 1, 1, 1]),
            helper.make_node("LeakyRelu", [f"a{at}"], [f"b{at}"], alpha=0.1),
            helper.make_node("Add", [f"b{at}", last], [f"c{at}"]),
        ]
        last = f"c{at}"
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "blocks", [value("x", TensorProto.FLOAT, [1, 4, 6, 6])], [value(last, TensorProto.FLOAT, [1, 4, 6, 6])],
        weights,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    save_model(model, path, save_as_external_data=external, location="weights.bin", size_threshold=0)
    return path


def cut(path: Path, target: Path, seconds: float) -> tuple[Any, Path]:
    facts = facts_of(path)
    subgraph = choose_subgraph(facts.graph, seconds=seconds)
    assert subgraph is not None
    return subgraph, cut_model(path, target, describe_cut(facts.graph, subgraph))


def run_onnx(path: Path, feeds: dict[str, Any], outputs: list[str] | None = None) -> list[Any]:
    onnxruntime = pytest.importorskip("onnxruntime", reason="an oracle for ONNX")
    return list(onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(outputs, feeds))


@pytest.mark.parametrize("external", [False, True])
def test_samples_of_an_onnx_network_compute_what_it_does(tmp_path, external):
    import onnx

    path = write_blocks(tmp_path / "net.onnx", 20, external=external)
    subgraph, file = cut(path, tmp_path / "cut.onnx", 0.8)
    assert subgraph.extent == "sampled"
    assert subgraph.inputs
    # The oracle: the whole network with everything that the subgraph takes or makes as outputs.
    model = onnx.load(path)
    names = [boundary.name for boundary in subgraph.inputs] + list(subgraph.outputs)
    del model.graph.output[:]
    model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in names)
    onnx.save(model, tmp_path / "all.onnx")
    x = np.random.default_rng(1).random((1, 4, 6, 6), np.float32)
    known = dict(zip(names, run_onnx(tmp_path / "all.onnx", {"x": x}, names), strict=True)) | {"x": x}
    feeds = {spec.name: known[spec.name] for spec in open_model(file).signature.inputs}
    assert set(feeds) >= {boundary.name for boundary in subgraph.inputs}
    for name, array in zip(subgraph.outputs, run_onnx(file, feeds, list(subgraph.outputs)), strict=True):
        np.testing.assert_allclose(array, known[name], rtol=1e-5, atol=1e-6)


def run_tflite(path: Path, feeds: list[Any]) -> tuple[dict[str, Any], list[Any]]:
    """Every tensor by name, and the outputs in order."""
    interpreter = pytest.importorskip("ai_edge_litert.interpreter", reason="an oracle for TFLite")
    engine = interpreter.Interpreter(
        model_path=str(path),
        experimental_preserve_all_tensors=True,
        experimental_op_resolver_type=interpreter.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )
    engine.allocate_tensors()
    for detail, array in zip(engine.get_input_details(), feeds, strict=True):
        engine.set_tensor(detail["index"], array)
    engine.invoke()
    known = {}
    for detail in engine.get_tensor_details():
        try:
            known[detail["name"]] = np.array(engine.get_tensor(detail["index"]))
        except ValueError:  # a temporary tensor
            continue
    return known, [engine.get_tensor(detail["index"]) for detail in engine.get_output_details()]


def test_samples_of_a_tflite_network_compute_what_it_does(tmp_path):
    path = bundled("digits_cnn.tflite")
    subgraph, file = cut(path, tmp_path / "cut.tflite", 0.6)
    assert subgraph.extent == "sampled"
    assert subgraph.inputs
    shape = open_model(path).signature.inputs[0].shape
    x = np.random.default_rng(1).random(shape, np.float32)
    known, _ = run_tflite(path, [x])
    known[open_model(path).signature.inputs[0].name] = x
    feeds = [known[spec.name] for spec in open_model(file).signature.inputs]
    _, outputs = run_tflite(file, feeds)
    for name, array in zip(subgraph.outputs, outputs, strict=True):
        np.testing.assert_allclose(array, known[name], rtol=1e-5, atol=1e-6)
    assert file.stat().st_size < path.stat().st_size  # other operators' weights are left out


@pytest.mark.parametrize(
    ("model", "name", "runtime", "module"),
    [
        ("digits_cnn.onnx", "ort-static", "onnxruntime", "onnxruntime"),
        ("digits_cnn.tflite", "litert-dynamic", "litert", "ai_edge_quantizer"),
    ],
)
@pytest.mark.long
def test_a_real_pass_is_predicted_and_the_answer_kept(tmp_path, monkeypatch, model, name, runtime, module):
    pytest.importorskip(module, reason=f"{name} needs it")
    facts = facts_of(bundled(model))
    one = passes().get(name)
    recipe = one.recipes(facts)[0]
    told = Preflight(facts, cache=tmp_path / "c").predict(one, recipe, engines=[runtime])[runtime]
    assert told.speedup is not None, told.because
    assert told.low is not None
    assert told.high is not None
    assert told.low < told.speedup < told.high
    assert "heavy operators" in told.because
    monkeypatch.setattr(preflight, "time_pass", None)
    assert Preflight(facts, cache=tmp_path / "c").predict(one, recipe, engines=[runtime])[runtime] == told


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
def test_a_real_pass_can_be_rehearsed_on_an_excerpt(tmp_path, model, name, runtime, module):
    pytest.importorskip(module, reason=f"{name} needs it")
    facts = facts_of(bundled(model))
    one = passes().get(name)
    flight = Preflight(facts, subgraph_s=0.6, cache=tmp_path / "c")
    told = flight.predict(one, one.recipes(facts)[0], engines=[runtime])[runtime]
    assert told.speedup is not None, told.because
    assert f"of {len(facts.graph.operators)} operators" in told.method


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
    flight = Preflight(facts_of(bundled("digits_cnn.onnx")), cache=tmp_path / "c")
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
