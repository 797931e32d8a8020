"""ExecuTorch: the runtime, its profile, and conversion, on ``tests/pte_programs/methods.pte`` and a module."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from edgewise.cli.main import run as edgewise
from edgewise.model.identity import read_graph
from edgewise.runtime.base import CannotProfile, InvalidModel, LoadOptions, UnsupportedModel, reset_state
from edgewise.runtime.executorch import ExecuTorch
from edgewise.testing import check_runtime

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
