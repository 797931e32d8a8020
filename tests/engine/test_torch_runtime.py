"""PyTorch modules as their authors have them: the format ``eager`` and the runtime ``torch``."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from edgewise.errors import BadInput, BadModel, Unavailable
from edgewise.model import eager
from edgewise.model.build import build_graph
from edgewise.model.identity import open_model, read_graph
from edgewise.report.runs.conditions import input_text
from edgewise.runtime.base import InvalidModel, LoadOptions, UnsupportedModel
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

    def test_the_same_network_is_one_model_from_every_folder_and_each_runs_its_own_code(self, tmp_path, monkeypatch):
        code = (
            "import torch\nfrom pathlib import Path\nFOLDER = Path(__file__).parent.name\n"
            "class Net(torch.nn.ReLU):\n pass\ndef make():\n return Net(), torch.zeros(1, 4)\n"
        )
        found = {}
        for folder, target in (("here", "net.py:make"), ("there", f"{tmp_path}/there/net.py:make")):
            (tmp_path / folder / "made").mkdir(parents=True)
            (tmp_path / folder / "net.py").write_text(code)
            monkeypatch.chdir(tmp_path / folder)
            found[folder] = eager.write_eager(build_graph(target), tmp_path / folder / "made", name="net-make")
        assert open_model(found["here"]).ref.sha256 == open_model(found["there"]).ref.sha256
        for folder, path in found.items():
            module = eager.load_eager(path).module
            assert (type(module).__module__, sys.modules["net"].FOLDER) == ("net", folder)

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

    (run,) = edgewise.bench(written, runtimes=["torch/eager"], iterations=20, sessions=1, meters=False)
    assert run.status == "done", run.failure
    assert run.job.runtime.name == "torch"
    assert run.job.runtime.provider == "eager"
    assert run.effective["threads"] == 1
    assert run.job.workload.input_data is not None
    assert input_text(run).endswith("; the example inputs of its author")


def test_settings_from_python_reach_the_module(written):
    import edgewise
    from edgewise.runtime.base import UnsupportedModel, settings_of

    settings = {"channels_last": True}
    (run,) = edgewise.bench(
        written, runtimes=["torch/eager"], settings=settings, iterations=5, sessions=1, meters=False
    )
    assert run.job.runtime.options == settings
    assert run.effective["channels_last"] is True
    taken = {provider.name: set(settings_of(Torch(), provider)) for provider in Torch().providers}
    assert taken["eager"] == {"channels_last"}
    assert taken["compile"] == {"channels_last", "freezing", "mode"}
    with pytest.raises(UnsupportedModel, match="channels_last is true or false, not 'yes'"):
        session_of(written, extra={"channels_last": "yes"})
    assert {(each["low"], each["high"]) for each in run.effective["inputs"]} == {(0.25, 0.5)}
    assert run.value("macs") == 3 * 36 * 27 + 5 * 108


def test_code_is_not_sent_to_another_device(written):
    import edgewise

    with pytest.raises(BadInput, match="whose code is not sent to ssh://nowhere"):
        edgewise.bench(written, device="ssh://nowhere")


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return x * self.calls


class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        y = self.layer(x)
        return y * 2 if y.sum() > 0 else y - 1


class Sums(nn.Module):
    """Keeps the sum of its inputs in a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("sum", torch.full((1, 4), 0.5))

    def forward(self, x):
        self.sum = self.sum + x
        return self.sum * 2


class Hides(nn.Module):
    """Keeps a number that is in no buffer."""

    calls = 0

    def forward(self, x):
        self.calls += 1
        return x * self.calls


class Noise(nn.Module):
    """Keeps nothing."""

    def forward(self, x):
        return x + torch.rand(1, 4)


class TestUnusualModules:
    def test_a_state_is_a_caution_and_the_users_module_keeps_its_own(self, tmp_path):
        module = Counter()
        session = session_of(eager.write_module(build_made(module, torch.ones(1, 4)), tmp_path, name="counter"))
        session.close()
        assert (list(session.states), session.cautions) == (["calls"], {})
        assert module.calls == 0

    @pytest.mark.parametrize(
        ("module", "states", "resets"),
        [(Sums(), ("sum",), True), (Hides(), (eager.HIDDEN,), False), (Noise(), (), True)],
    )
    def test_states_are_told_from_chance_and_reset_where_they_are_buffers(self, tmp_path, module, states, resets):
        session = session_of(eager.write_module(build_made(module, torch.ones(1, 4)), tmp_path, name="kept"))
        ones = np.ones((1, 4), np.float32)
        first, second = infer(session, ones), infer(session, ones)
        assert not np.array_equal(first, second)
        assert (tuple(session.states), session.reset_state()) == (states, resets)
        if states and resets:
            assert np.array_equal(infer(session, ones), first)
        session.close()

    def test_a_module_that_cannot_be_exported_has_no_layers_but_runs(self, tmp_path):
        (tmp_path / "branch.py").write_text(
            "import torch\nfrom torch import nn\n"
            "class Branch(nn.Module):\n    def __init__(self):\n        super().__init__(); self.layer = nn.Linear(4, 4)\n"
            "    def forward(self, x):\n        y = self.layer(x)\n        return y * 2 if y.sum() > 0 else y - 1\n"
            "def make():\n    return Branch(), torch.ones(1, 4)\n"
        )
        built = build_graph(f"{tmp_path / 'branch.py'}:make", needs_graph=False)
        path = eager.write_eager(built, tmp_path)
        graph = read_graph(path)
        assert graph.operators == ()
        assert "can't export" in graph.metadata[eager.UNEXPORTED]
        session = session_of(path)
        (found,) = infer(session, np.ones((1, 4), np.float32))
        session.close()
        with torch.inference_mode():
            assert np.array_equal(found, built.made.value(torch.ones(1, 4)).numpy())


class TestSettings:
    def test_bf16_converts_weights_and_inputs(self, built, written):
        x = np.random.default_rng(0).random((1, 3, 8, 8), dtype=np.float32)
        session = session_of(written, precision="bf16")
        (found,) = infer(session, x)
        session.close()
        assert session.effective["precision"] == "bf16"
        assert found.dtype == np.float32
        with torch.inference_mode():
            module = eager.load_eager(written).module.bfloat16()
            assert np.array_equal(found, module(torch.from_numpy(x).bfloat16()).float().numpy())

    def test_channels_last(self, written):
        x = np.random.default_rng(0).random((1, 3, 8, 8), dtype=np.float32)
        plain, last = session_of(written), session_of(written, extra={"channels_last": True})
        assert last.effective["channels_last"] is True
        assert last.module[0].weight.is_contiguous(memory_format=torch.channels_last)
        assert np.allclose(infer(plain, x)[0], infer(last, x)[0], atol=1e-6)
        plain.close()
        last.close()

    def test_compiling_needs_a_compiler(self, written, monkeypatch):
        monkeypatch.setenv("CXX", "no-such-compiler")
        assert Torch().default_providers == ("eager",)
        with pytest.raises(UnsupportedModel, match="needs a C\\+\\+ compiler, and no-such-compiler is not installed"):
            session_of(written, provider="compile")

    def test_cuda_is_no_provider(self, written):
        import edgewise

        with pytest.raises(Unavailable, match="torch/cuda can't be used: edgewise runs PyTorch on the processor only"):
            edgewise.bench(written, runtimes=["torch/cuda"])


class Dynamic(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(40, 3)

    def forward(self, ids, scale=2.0):
        return {"vectors": self.embedding(ids) * scale, "count": ids.shape[1]}


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("program") / "dynamic.pt2"
    dimension = torch.export.Dim("n", min=2, max=64)
    ids = torch.tensor([[1, 6, 3]])
    exported = torch.export.export(
        Dynamic().eval(), (ids,), {"scale": 3.0}, dynamic_shapes={"ids": {1: dimension}, "scale": None}
    )
    torch.export.save(exported, path)
    return path


def rewrite(program, path, change):
    """A copy of an archive with entries that `change` makes of their names and contents."""
    with zipfile.ZipFile(program) as old, zipfile.ZipFile(path, "w") as new:
        for entry in old.infolist():
            new.writestr(entry.filename, change(entry.filename, old.read(entry)))
    return path


class Payload:
    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return open, (str(self.mark), "w")


class TestPrograms:
    def test_open_sizes_constants_and_outputs(self, program):
        session = session_of(program, shapes={"ids": (1, 5)}, dtypes={"ids": "int64"})
        ids = np.array([[0, 1, 2, 5, 6]])
        (found,) = infer(session, ids)
        session.close()
        module = torch.export.load(program).module()
        assert np.array_equal(found, module(torch.from_numpy(ids), scale=3.0)["vectors"].detach().numpy())
        assert [each.name for each in session.inputs] == ["ids"]
        assert len(session.outputs) == 1

    def test_contract(self, program):
        assert "bad files" in check_runtime(Torch(), program, shapes={"ids": (1, 5)}, dtypes={"ids": "int64"})

    def test_a_changed_buffer_is_a_caution(self, tmp_path):
        path = tmp_path / "counter.pt2"
        torch.export.save(torch.export.export(Counter(), (torch.ones(1, 4),)), path)
        session = session_of(path)
        assert (session.states, session.reset_state()) == (("calls",), True)
        session.close()
        assert session.cautions == {}

    @pytest.mark.parametrize("word", ["torch.os.system", "_operator.attrgetter", "torch.ops.load_library"])
    def test_functions_that_are_no_operators_are_refused(self, program, tmp_path, word):
        def change(name, content):
            return (
                content.replace(b"torch.ops.aten.embedding.default", word.encode())
                if name.endswith(".json")
                else content
            )

        with pytest.raises(UnsupportedModel, match="is not an operator of PyTorch"):
            session_of(rewrite(program, tmp_path / "evil.pt2", change))

    def test_expressions_that_are_no_arithmetic_are_refused(self, program, tmp_path):
        mark = tmp_path / "ran"

        def change(name, content):
            if "models/" not in name:
                return content
            text = re.sub(
                rb'"expr_str": ?"[^"]*"', b'"expr_str": "open(\'' + str(mark).encode() + b"', 'w')\"", content
            )
            assert text != content
            return text

        with pytest.raises(UnsupportedModel, match="is not arithmetic"):
            session_of(rewrite(program, tmp_path / "evil.pt2", change))
        assert not mark.exists()

    def test_pickles_are_refused(self, program, tmp_path):
        mark = tmp_path / "ran"

        def change(name, content):
            if "sample_inputs" not in name:
                return content
            stream = io.BytesIO()
            torch.save((Payload(mark),), stream)
            return stream.getvalue()

        with pytest.raises((InvalidModel, UnsupportedModel)):
            session_of(rewrite(program, tmp_path / "evil.pt2", change))
        assert not mark.exists()

    def test_compiled_code_is_refused(self, program, tmp_path):
        path = rewrite(program, tmp_path / "evil.pt2", lambda name, content: content)
        with zipfile.ZipFile(path, "a") as archive:
            top = archive.namelist()[0].partition("/")[0]
            archive.writestr(f"{top}/data/aotinductor/model/x.so", b"\x7fELF")
        with pytest.raises(UnsupportedModel, match="contains compiled code"):
            session_of(path)

    def test_pickled_modules_and_torchscript_are_refused_with_the_command(self, tmp_path):
        torch.save(nn.Linear(2, 2), tmp_path / "pickled.pt")
        with pytest.raises(BadModel, match="is a PyTorch checkpoint") as caught:
            open_model(tmp_path / "pickled.pt")
        assert caught.value.advice.startswith("edgewise bench net.py:make")
        with zipfile.ZipFile(tmp_path / "script.pt", "w") as archive:
            archive.writestr("script/data.pkl", b"")
            archive.writestr("script/code/__torch__.py", b"")
        with pytest.raises(BadModel, match="is a TorchScript program") as caught:
            open_model(tmp_path / "script.pt")
        assert "torch.jit.load" in caught.value.advice


NOTEBOOK = """
import torch, edgewise
class Net(torch.nn.Module):  # in __main__, as in a notebook
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(9, 4)
    def forward(self, ids, scale=None):
        return self.embedding(ids) * (1.0 if scale is None else scale)
if __name__ == "__main__":
    net, settings = Net(), {"iterations": 9, "sessions": 1, "meters": False, "runtimes": ["torch/eager"]}
    ids = torch.tensor([[8, 0, 3]])
    before = torch.random.get_rng_state()
    for runs in (
        edgewise.bench(net, ids, **settings),
        edgewise.bench(net, {"ids": ids, "scale": torch.tensor(2.0)}, **settings),
        edgewise.bench([(net, ids)], **settings),
    ):
        run, = runs
        print(run.status, run.failure, run.job.model.name, [each["shape"] for each in run.effective["inputs"]])
        print([(each["low"], each["high"]) for each in run.effective["inputs"]], run.value("parameters"))
    print(torch.equal(before, torch.random.get_rng_state()), net.training)
    print(edgewise.inspect(net, ids).to_dict()["totals"]["parameters"])
    net.lock = __import__("threading").Lock()
    try:
        edgewise.bench(net, ids, **settings)
    except edgewise.errors.BadInput as error:
        print(error, error.advice)
"""


def test_modules_in_memory_are_measured_from_a_notebook(tmp_path):
    script = tmp_path / "notebook.py"
    script.write_text(NOTEBOOK)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "done None Net [[1, 3]]"
    assert lines[1] == "[(0.0, 8.0)] 36.0"
    assert lines[2] == "done None Net [[1, 3], []]"
    assert lines[4:6] == lines[0:2]
    assert lines[6] == "True True"
    assert lines[7] == "36"
    assert "Net can't be pickled: TypeError: cannot pickle '_thread.lock' object" in lines[8]
    assert "FILE.py:FUNCTION" in lines[8]


def test_modules_are_compared_as_they_are():
    import edgewise

    small, large = nn.Linear(8, 8), nn.Sequential(nn.Linear(8, 64), nn.Linear(64, 8))
    found = edgewise.compare([small, large], torch.rand(1, 8), rounds=1, time_budget=600)
    assert found.failures == {}
    assert [each.run.job.runtime.name for each in found.variants] == ["torch", "torch"]
    assert [each.run.job.model.name for each in found.variants] == ["Linear.eager", "Sequential.eager"]


def test_modules_are_compared_and_evaluated_on_the_engines_that_bench_takes(tmp_path):
    """On several engines, a file for each; all are fed the example inputs."""
    import edgewise

    small, large, inputs = nn.Linear(8, 8), nn.Sequential(nn.Linear(8, 64), nn.Linear(64, 8)), torch.rand(1, 8)
    engines = ["onnxruntime", "torch/eager"]
    found = edgewise.compare(
        [small, large], inputs, labels=["small", "large"], runtimes=engines, rounds=1, time_budget=600
    )
    jobs = [each.run.job for each in found.variants]
    assert found.failures == {} and {(job.model.name, job.runtime.name) for job in jobs} == {
        (name, engine) for name in ("Linear", "Sequential") for engine in ("onnxruntime", "torch")
    }
    assert len({job.workload.input_data for job in jobs}) == 1 and jobs[0].workload.input_data is not None
    assert [each.label.partition(" ")[0] for each in found.variants] == ["small", "small", "large", "large"]
    np.savez(tmp_path / "data.npz", x=np.eye(8, dtype=np.float32), y=np.arange(8))
    (one,) = edgewise.evaluate(
        [small], data=tmp_path / "data.npz", example_inputs=inputs, runtimes=["onnxruntime"], latency=False, meters=False,
        task="classification",
    ).models  # fmt: skip
    assert (one.run.status, one.run.job.runtime.name) == ("done", "onnxruntime")


def test_example_inputs_without_a_module_are_an_error():
    import edgewise

    with pytest.raises(BadInput, match="example_inputs belong to a PyTorch module"):
        edgewise.bench(["model.onnx"], torch.rand(1, 8))


@pytest.mark.long
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_compiled_modules_compute_the_same_and_tell_their_compile_time(built, written):
    import edgewise

    lines = []
    runs = edgewise.bench(
        written, runtimes=["torch/eager", "torch/compile", "torch/aoti"], iterations=9, sessions=2, meters=False,
        timeout=1800, progress=lambda event: lines.append(getattr(event, "text", "")),
    )  # fmt: skip
    assert [(run.status, run.job.runtime.provider) for run in runs] == [
        ("done", "eager"), ("done", "compile"), ("done", "aoti")
    ]  # fmt: skip
    assert runs[0].value("compile_time") is None
    for run in runs[1:]:
        (row,) = [row for row in run.measurements if row.metric == "compile_time"]
        assert len(row.samples) == 1
        assert "in 1 of 2 processes" in row.method
        assert run.value("latency") < row.value
        assert run.value("load_time") < row.value
        assert run.value("output_max_abs_error") < 1e-5
    assert runs[1].effective["graph_breaks"] == 0
    assert any("torch/compile compiles net-make.eager" in line for line in lines)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.*")
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_graph_breaks_are_counted(tmp_path):
    path = eager.write_module(build_made(Branch(), torch.ones(1, 4)), tmp_path, name="branch")
    compiled, ahead = session_of(path, provider="compile"), session_of(path, provider="aoti")
    x = np.ones((1, 4), np.float32)
    compiled.bind([x])
    compiled.compile()
    compiled.invoke()
    plain = session_of(path)
    assert np.allclose(compiled.read_outputs()[0], infer(plain, x)[0], atol=1e-6)
    assert compiled.effective["graph_breaks"] >= 1
    assert "graph-breaks" in compiled.cautions
    ahead.bind([x])
    with pytest.raises(UnsupportedModel, match="can't export the module, which torch/aoti needs"):
        ahead.compile()
    for session in (compiled, ahead, plain):
        session.close()


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.*", "ignore:.*LeafSpec:FutureWarning")
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_modules_compiled_in_one_process_compute_their_own_functions(tmp_path):
    x = np.linspace(-1, 1, 4, dtype=np.float32).reshape(1, 4)
    for name, module, expected in (("relu", nn.ReLU(), np.maximum(x, 0)), ("tanh", nn.Tanh(), np.tanh(x))):
        session = session_of(eager.write_module(build_made(module, torch.ones(1, 4)), tmp_path, name=name), "aoti")
        (found,) = infer(session, x)
        session.close()
        assert np.allclose(found, expected, atol=1e-6), name
