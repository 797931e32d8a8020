"""ExecuTorch: the runtime, its profile, and conversion, on ``tests/pte_programs/methods.pte`` and a module."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from edgewise import data
from edgewise.api import optimize
from edgewise.cli.main import run as edgewise
from edgewise.model.identity import read_graph
from edgewise.optimizing.base import CannotApply, PassSettings, PassTask, passes
from edgewise.optimizing.calibration import write_calibration
from edgewise.runtime.base import CannotProfile, InvalidModel, LoadOptions, UnsupportedModel, reset_state
from edgewise.runtime.executorch import ExecuTorch
from edgewise.testing import check_runtime
from messages import says

pytest.importorskip("executorch.exir", reason="needs ExecuTorch: pip install 'edgewise[executorch]'")

pytestmark = [
    pytest.mark.engine,
    pytest.mark.filterwarnings("ignore"),  # the package's own imports warn, in any process that imports it
]

FILE = Path(__file__).parents[1] / "pte_programs" / "methods.pte"
IMAGE = np.linspace(0, 1, 128, dtype=np.float32).reshape(1, 2, 8, 8)

NETWORK = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3)
        self.linear = nn.Linear(4, 5)

    def forward(self, x):
        return self.linear(torch.cumsum(torch.relu(self.convolution(x)), dim=2).mean((2, 3)))

def make():
    torch.manual_seed(0)
    return Net(), torch.linspace(0.25, 0.5, 192).reshape(1, 3, 8, 8)
"""


def load(path=FILE, **options):
    return ExecuTorch().load(path, LoadOptions(provider="cpu", **options))


def infer(session, *arrays):
    session.bind([np.asarray(array, np.float32) for array in arrays])
    session.invoke()
    return session.read_outputs()


def test_the_contract_of_runtimes():
    assert {"outputs", "threads", "bad files", "layers"} <= set(check_runtime(ExecuTorch(), FILE))


def test_a_second_inference_gives_the_same_outputs():
    """The memory of inputs is used for other tensors while a method runs: without new inputs, outputs would change."""
    session = load(threads=1)
    (first,) = infer(session, IMAGE)
    for _ in range(3):
        session.invoke()
    (last,) = session.read_outputs()
    session.close()
    assert first.shape == (1, 4)
    assert np.array_equal(first, last)


def test_what_is_in_effect():
    session = load(threads=2)
    found = session.effective
    session.close()
    assert (found["threads"], found["method"], found["planned_bytes"]) == (2, "forward", 1008)
    assert (found["operators"], found["operators_delegated"]) == (6, 4)


def test_the_pool_is_not_taken_from_a_program_that_uses_it():
    first = load(threads=1)
    with pytest.raises(UnsupportedModel, match="1 threads"):
        load(threads=2)
    second = load(threads=1)
    first.close()
    first.close()
    assert infer(second, IMAGE)[0].shape == (1, 4)
    second.close()
    third = load(threads=2)
    assert third.effective["threads"] == 2
    third.close()


def test_other_methods_and_smaller_inputs():
    session = load(signature="grow", shapes={"input_0": (2, 3)})
    (found,) = infer(session, np.zeros((2, 3)))
    session.close()
    assert np.allclose(found, 1.0)
    assert found.shape == (2, 3)


def test_inputs_above_the_bound_are_refused():
    session = load(signature="grow", shapes={"input_0": (9, 3)})
    with pytest.raises(UnsupportedModel, match="input_0"):
        session.bind([np.zeros((9, 3), np.float32)])
    session.close()


def test_a_state_is_kept_and_reset():
    session = load(signature="count")
    assert session.states == ("value_0",)
    (start,) = infer(session, [0, 0])
    session.bind([np.array([1, 2], np.float32)])
    session.invoke()
    session.invoke()
    (after,) = session.read_outputs()
    assert np.allclose(after - start, [2, 4])
    assert reset_state(session)
    session.invoke()
    (again,) = session.read_outputs()
    session.close()
    assert np.allclose(again - start, [1, 2])


def test_damaged_and_unknown(tmp_path):
    (tmp_path / "m.pte").write_bytes(FILE.read_bytes()[:3000])
    with pytest.raises(InvalidModel):
        load(tmp_path / "m.pte")
    with pytest.raises(UnsupportedModel, match="no method"):
        load(signature="backward")
    with pytest.raises(UnsupportedModel, match="bf16"):
        load(precision="bf16")


@pytest.mark.parametrize(
    ("old", "new"), [(b"XnnpackBackend\0", b"NobodysBackend\0"), (b"aten::cumsum\0", b"aten::nosuch\0")]
)
def test_parts_that_the_package_lacks_are_named(tmp_path, old, new):
    (tmp_path / "m.pte").write_bytes(FILE.read_bytes().replace(old, new))
    with pytest.raises(UnsupportedModel, match=r"NobodysBackend|aten::nosuch"):
        load(tmp_path / "m.pte")


def test_the_layers_are_those_of_the_model():
    session = load(threads=1, profile=True)
    session.bind([IMAGE])
    session.invoke()
    found = session.profile_layers(6)
    session.close()
    assert [node.originals for node in found.nodes] == [(each.name,) for each in read_graph(FILE).operators]
    # Steps and overheads make up the whole of every inference.
    for at, whole in enumerate(found.inference_ns):
        parts = sum(each.times_ns[at] for each in (*found.nodes, *found.overheads))
        assert parts == pytest.approx(whole)
    assert len(found.unprofiled_ns) == len(found.inference_ns) >= 6


def test_a_package_without_the_event_tracer_can_not_profile(monkeypatch):
    session = load(profile=True)
    session.bind([IMAGE])

    class Silent:
        def has_etdump(self):
            return False

    monkeypatch.setattr(session, "load", lambda events: (Silent(), None))
    with pytest.raises(CannotProfile):
        session.profile_layers(3)
    session.close()


@pytest.fixture(scope="module")
def converted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("converted")
    (folder / "net.py").write_text(NETWORK)
    out = folder / "net.pte"
    assert edgewise(["convert", f"{folder / 'net.py'}:make", "-o", str(out)]) == 0
    return out


def test_a_converted_module_agrees_with_its_source(converted):
    provenance = json.loads(Path(f"{converted}.provenance.json").read_text())
    (output,) = provenance["agreement"]["outputs"]
    assert output["close"]
    assert provenance["agreement"]["result_engine"].startswith("executorch")
    (step,) = provenance["steps"]
    assert step.endswith("not run by XNNPACK: aten.cumsum, aten.mean.dim (mean.dim only supports keepdim=True)")


def test_the_same_module_gives_the_same_file(converted, tmp_path):
    shutil.copy(converted.with_name("net.py"), tmp_path)
    assert edgewise(["convert", f"{tmp_path / 'net.py'}:make", "-o", str(tmp_path / "net.pte")]) == 0
    assert (tmp_path / "net.pte").read_bytes() == converted.read_bytes()


@pytest.fixture(scope="module")
def apply(converted, tmp_path_factory):
    """Runs a pass on the module, or on a program of it."""
    images = tmp_path_factory.mktemp("samples") / "samples.npz"
    write_calibration(images, list(np.random.default_rng(0).random((20, 1, 1, 3, 8, 8), np.float32)), None)

    def run(name, *, samples=True, model=f"{converted.with_name('net.py')}:make"):
        folder = tmp_path_factory.mktemp(name)
        calibration = images if samples else None
        task = PassTask(
            model=model, format="torch", settings=PassSettings(), folder=folder, calibration=calibration, seed=1
        )
        return passes().get(name).apply(task)

    return run


def weights_of(path):
    """Operator of XNNPACK → type of its first weight."""
    graph = read_graph(path)
    return {each.op: graph.tensors[each.weights[0]].dtype for each in graph.operators if each.weights}


def test_a_pass_writes_the_program_that_convert_writes(apply, converted):
    result = apply("torch-to-executorch", samples=False)
    assert result.model.read_bytes() == converted.read_bytes()
    told, agreed = result.notes
    assert told == "not run by XNNPACK: aten.cumsum, aten.mean.dim (mean.dim only supports keepdim=True)"
    assert agreed.startswith("agrees with the original in ExecuTorch")


def test_static_int8_has_int8_weights_of_convolutions_and_linear_layers(apply):
    result = apply("executorch-static")
    assert weights_of(result.model) == {"XNNConv2d": "int8", "XNNFullyConnected": "int8"}
    assert result.notes[0] == "ranges from 20 samples"
    assert result.notes[1].startswith("not run by XNNPACK: aten.cumsum")
    with pytest.raises(CannotApply, match=says("needs-samples-give-data")):
        apply("executorch-static", samples=False)


def test_dynamic_int8_has_int8_weights_of_linear_layers(apply):
    result = apply("executorch-dynamic", samples=False)
    assert weights_of(result.model) == {"XNNConv2d": "float32", "XNNFullyConnected": "int8"}


@pytest.mark.slow
@pytest.mark.parametrize("form", ["module", "file"])
def test_a_search_for_executorch_compares_float_with_int8(form, tmp_path, short_races):
    model = f"{Path(__file__).parents[2] / 'examples' / 'digits' / 'model.py'}:make_model"
    if form == "file":
        assert edgewise(["convert", model, "-o", str(tmp_path / "net.pt2")]) == 0
        model = str(tmp_path / "net.pt2")
    with np.load(data.path("digits_test.npz")) as test, np.load(data.path("digits_calibration.npz")) as train:
        np.savez(tmp_path / "digits.npz", x_test=test["x"], y_test=test["y"], x_train=train["x"], y_train=train["y"])
    found = optimize(
        model, data=tmp_path / "digits.npz", task="classification", prepare=["scale=1/255"], runtimes=["executorch"],
        output=tmp_path / "out", store=f"sqlite:///{tmp_path / 'runs.db'}", time_budget=900.0,
    )  # fmt: skip
    assert found.baseline.model.format == "executorch"
    variants = {each.id: each for each in found.candidates}
    assert set(variants) == {"executorch-static @ executorch", "executorch-dynamic @ executorch"}
    static = variants["executorch-static @ executorch"]
    assert static.metrics["accuracy_drop"].value <= 0.01
    assert static.metrics["model_size"].value < 0.3 * found.baseline.metrics["model_size"].value
    assert static.passes[0].notes[1] == "XNNPACK runs all of its operators"
