"""PyTorch modules as their authors have them: the format ``eager`` and the runtime ``torch``."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from edgewise.errors import BadInput, BadModel
from edgewise.model import eager
from edgewise.model.build import build_graph
from edgewise.model.identity import open_model, read_graph
from edgewise.runtime.base import LoadOptions
from edgewise.runtime.torch import Torch
from edgewise.testing import check_runtime

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'edgewise[torch]'")
nn = torch.nn

pytestmark = pytest.mark.engine

SOURCE = """
import torch
from torch import nn

def make(width=4):
    torch.manual_seed(torch.seed() % 1000)  # other weights in every call
    layers = nn.Sequential(nn.Conv2d(3, width, 3), nn.ReLU(), nn.Flatten(), nn.Linear(width * 36, 5))
    return layers, torch.linspace(0.25, 0.5, 192).reshape(1, 3, 8, 8)
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    file = tmp_path_factory.mktemp("source") / "net.py"
    file.write_text(SOURCE)
    return file


@pytest.fixture(scope="module")
def built(source):
    return build_graph(f"{source}:make", what_if={"width": 3})


@pytest.fixture(scope="module")
def written(built, tmp_path_factory):
    return eager.write_eager(built, tmp_path_factory.mktemp("eager"), name="net-make")


def session_of(path, provider="eager", **options):
    return Torch().load(path, LoadOptions(provider=provider, threads=1, **options))


def infer(session, *arrays):
    session.bind([np.asarray(array) for array in arrays])
    session.invoke()
    return session.read_outputs()


class TestFormat:
    def test_the_module_is_made_again_with_its_weights(self, built, written):
        session = session_of(written)
        x = np.random.default_rng(0).random((1, 3, 8, 8), dtype=np.float32)
        (found,) = infer(session, x)
        with torch.inference_mode():
            expected = built.made.value(torch.from_numpy(x)).numpy()
        session.close()
        assert np.array_equal(found, expected)
        assert not torch.is_inference_mode_enabled()

    def test_signature_size_and_graph_are_those_of_the_module(self, built, written):
        model = open_model(written)
        assert model.ref.format == "eager"
        assert [(each.name, each.shape) for each in model.signature.inputs] == [("input", (1, 3, 8, 8))]
        assert [each.shape for each in model.signature.outputs] == [(1, 5)]
        weights = written.with_name("net-make.weights.pt")
        assert model.ref.size_bytes == written.stat().st_size + weights.stat().st_size
        assert read_graph(written) is built.graph

    def test_the_hash_covers_weights_parameters_and_source(self, source, written, tmp_path):
        def digest(name, **parameters):
            folder = tmp_path / name
            folder.mkdir()
            again = build_graph(f"{source}:make", what_if=parameters)
            again.made.value.load_state_dict({k: torch.ones_like(v) for k, v in again.made.value.state_dict().items()})
            return open_model(eager.write_eager(again, folder, name="net")).ref.sha256

        first = digest("a", width=3)
        assert digest("b", width=3) == first
        assert digest("c", width=2) != first
        assert open_model(written).ref.sha256 != first
        source.write_text(SOURCE + "\n# changed\n")
        assert digest("d", width=3) != first

    def test_example_inputs_are_the_same_file_for_the_same_values_and_no_placeholders(self, tmp_path):
        def write(name, *inputs):
            (tmp_path / name).mkdir()
            path = eager.write_module(build_made(nn.Linear(4, 2), *inputs), tmp_path / name, name="m")
            return eager.example_inputs(path)

        given = torch.arange(4.0).reshape(1, 4)
        assert write("a", given).read_bytes() == write("b", given.clone()).read_bytes()
        assert write("zeros", torch.zeros(1, 4)) is None

    def test_a_file_from_elsewhere_is_refused(self, written, tmp_path, source):
        document = json.loads(written.read_bytes())
        evil = tmp_path / "evil.py"
        evil.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n" + SOURCE)
        other = tmp_path / "net-make.eager"
        other.write_text(json.dumps(document | {"target": f"{evil}:make"}))
        with pytest.raises(BadModel, match="this command did not write it"):
            open_model(other)
        program = (
            "import sys; from pathlib import Path; from edgewise.runtime.torch import Torch\n"
            "from edgewise.runtime.base import LoadOptions, InvalidModel\n"
            "try:\n Torch().load(Path(sys.argv[1]), LoadOptions(provider='eager'))\n"
            "except InvalidModel as error: print(error)\n"
        )
        for environment, path in (({}, written), ({eager.WRITTEN: os.environ[eager.WRITTEN]}, other)):
            clean = {name: value for name, value in os.environ.items() if name != eager.WRITTEN}
            done = subprocess.run(
                [sys.executable, "-c", program, str(path)],
                env=clean | environment,
                capture_output=True,
                text=True,
                check=True,
            )
            assert "this command did not write it" in done.stdout
        assert not (tmp_path / "ran").exists()

    def test_code_that_makes_another_module_is_one_clear_error(self, tmp_path):
        file = tmp_path / "random_width.py"
        file.write_text(
            "import itertools, torch\nfrom pathlib import Path\nmark = Path(__file__).with_name('mark')\n"
            "def make():\n    width = 3 if mark.exists() else 2\n    mark.touch()\n"
            "    return torch.nn.Linear(4, width), torch.zeros(1, 4)\n"
        )
        path = eager.write_eager(build_graph(f"{file}:make"), tmp_path)
        with pytest.raises(Exception, match="makes another module in every call"):
            session_of(path)

    def test_a_changed_pickle_is_refused(self, tmp_path):
        made = build_made(nn.Linear(4, 2), torch.zeros(1, 4))
        path = eager.write_module(made, tmp_path, name="linear")
        path.with_suffix(".pickle").write_bytes(b"cos\nsystem\n(S'touch ran'\ntR.")
        with pytest.raises(Exception, match="was changed since it was written"):
            session_of(path)


def build_made(module, *inputs, **keywords):
    from edgewise.model.model_object import ModelObject

    return ModelObject("torch", "a PyTorch module", module, inputs, keywords)


class Several(nn.Module):
    def forward(self, ids, pair, scale=1.0, *, mask=None):
        table = torch.arange(12.0).reshape(4, 3)
        first = table[ids] * scale + pair[0] + pair[1]["b"]
        return {"sum": first, "parts": (first.argmax(-1), first * mask)}


class TestSignatures:
    def test_nested_inputs_and_outputs_have_names(self, tmp_path):
        module = Several()
        given = (torch.tensor([[3, 1]]), (torch.ones(3), {"b": torch.zeros(3)}), 2.0)
        path = eager.write_module(build_made(module, *given, mask=torch.tensor(2.0)), tmp_path, name="several")
        signature = open_model(path).signature
        assert [(each.name, each.shape, each.dtype) for each in signature.inputs] == [
            ("ids", (1, 2), "int64"),
            ("pair_0", (3,), "float32"),
            ("pair_1_b", (3,), "float32"),
            ("mask", (), "float32"),
        ]
        assert [each.name for each in signature.outputs] == ["sum", "parts_0", "parts_1"]
        session = session_of(path)
        found = infer(session, *np.load(path.with_name("several.inputs.npz")).values())
        session.close()
        expected = module(*given, mask=torch.tensor(2.0))
        assert np.array_equal(found[0], expected["sum"].numpy())
        assert np.array_equal(found[1], expected["parts"][0].numpy())
        assert np.array_equal(found[2], expected["parts"][1].numpy())

    def test_inputs_that_forward_does_not_take_are_one_error(self, tmp_path):
        with pytest.raises(BadInput, match="forward\\(\\) can't take the example inputs: too many positional"):
            eager.write_module(build_made(nn.Linear(4, 2), torch.zeros(1, 4), torch.zeros(1)), tmp_path, name="m")
        with pytest.raises(BadInput, match="forward\\(\\) fails on the example inputs: RuntimeError: mat1 and mat2"):
            eager.write_module(build_made(nn.Linear(4, 2), torch.zeros(1, 3)), tmp_path, name="m")


def test_contract(written):
    rules = check_runtime(Torch(), written)
    assert "outputs" in rules
    assert "bad files" in rules


def test_bench_measures_the_module(written):
    import edgewise

    (run,) = edgewise.bench(written, iterations=20, sessions=1, meters=False)
    assert run.status == "done", run.failure
    assert run.job.runtime.name == "torch"
    assert run.job.runtime.provider == "eager"
    assert run.effective["threads"] == 1
    assert run.job.workload.input_data is not None
    assert {(each["low"], each["high"]) for each in run.effective["inputs"]} == {(0.25, 0.5)}
    assert run.value("macs") == 3 * 36 * 27 + 5 * 108


def test_code_is_not_sent_to_another_device(written):
    import edgewise

    with pytest.raises(BadInput, match="whose code is not sent to ssh://nowhere"):
        edgewise.bench(written, device="ssh://nowhere")
