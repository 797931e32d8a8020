"""A function's network on every engine: outputs agree with the module's, and what can't be exported is a line."""

import json
import textwrap

import pytest

pytest.importorskip("torch", reason="needs PyTorch: pip install 'edgewise[torch]'")
pytest.importorskip("onnxscript", reason="PyTorch exports ONNX through onnxscript")

from edgewise.cli.main import run
from far_targets import far_device, far_python  # noqa: F401

pytestmark = pytest.mark.engine

QUICK = ("--no-store", "--iterations", "5", "--warmup", "1", "--json", "-q")
NETS = """
import torch
from torch import nn


class TwoInTwoOut(nn.Module):
    def forward(self, a, b):
        return a - 2 * b, {"product": (a * b).sum(1, keepdim=True)}


class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(x) if x.sum() > 0 else -self.layer(x)


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        self.count += 1
        return x + self.count


class Training(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3))

    def forward(self, x):
        return self.net(x)


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(1000, 4)

    def forward(self, ids):
        return self.table(ids).sum(1)


def two():
    return TwoInTwoOut(), (torch.rand(1, 4), torch.rand(1, 4))


def branch():
    return Branch(), (torch.ones(1, 4),)


def counter():
    return Counter(), (torch.zeros(1, 4),)


def training():
    return Training().train(), (torch.zeros(2, 4),)


def tokens():
    return Tokens(), (torch.tensor([[7, 999, 3]]),)


def wrong():
    return Training(), (torch.zeros(2, 5),)


def shapeless():
    return nn.Linear(4, 3)
"""


@pytest.fixture(autouse=True)
def nets(tmp_path, monkeypatch):
    (tmp_path / "nets.py").write_text(textwrap.dedent(NETS))
    monkeypatch.chdir(tmp_path)


def bench(capfd, function, *words, code=0):
    capfd.readouterr()
    assert run(["bench", f"nets.py:{function}", *QUICK, *words]) == code
    out, err = capfd.readouterr()
    return (json.loads(out)["runs"] if out else []), err


def engines(runs):
    return {run["job"]["runtime"]["name"]: run for run in runs}


def value(run, metric):
    return next(row["value"] for row in run["measurements"] if row["metric"] == metric)


def test_several_inputs_and_outputs_agree_on_every_engine(capfd):
    runs, _ = bench(capfd, "two", "-r", "torch/eager,onnxruntime,openvino")
    found = engines(runs)
    assert list(found) == ["torch", "onnxruntime", "openvino"]
    assert {run["job"]["model"]["name"] for run in runs} == {"nets-two"}
    assert found["torch"]["job"]["model"]["origin"]["original"] is True
    assert found["onnxruntime"]["job"]["model"]["origin"]["steps"][0].startswith("torch.onnx.export (torch ")
    assert len({run["job"]["model"]["origin"]["sha256"] for run in runs}) == 1
    for name in ("onnxruntime", "openvino"):
        assert value(found[name], "output_max_abs_error") < 1e-5
        assert not [each for each in found[name]["cautions"] if each["code"] == "output-mismatch"]
    # All engines got the author's example inputs, which are not the same throughout.
    assert len({run["job"]["workload"]["input_data"] for run in runs} - {None}) == 1


def test_random_weights_and_training_mode_are_the_same_in_every_process_and_export(capfd):
    runs, _ = bench(capfd, "training", "-r", "torch/eager,onnxruntime", "--sessions", "2")
    assert value(engines(runs)["onnxruntime"], "output_max_abs_error") < 1e-5
    assert "inference mode" in " ".join(engines(runs)["onnxruntime"]["job"]["model"]["origin"]["lost"])


def test_indices_are_the_authors_because_random_ones_prove_little(capfd):
    runs, _ = bench(capfd, "tokens", "-r", "torch/eager,onnxruntime")
    assert value(engines(runs)["onnxruntime"], "output_max_abs_error") < 1e-5
    inputs = engines(runs)["onnxruntime"]["effective"]["inputs"]
    assert (inputs[0]["low"], inputs[0]["high"]) == (3, 999)


def test_what_can_not_be_exported_runs_as_it_is_and_the_other_engines_are_a_line(capfd):
    runs, err = bench(capfd, "branch", "-r", "torch/eager,onnxruntime")
    assert list(engines(runs)) == ["torch"]
    assert runs[0]["status"] == "done"
    assert "not measured: onnxruntime: nets.py:branch: torch.export can't export it" in err
    assert "class GraphModule" not in err
    assert "def forward" not in err


def test_an_export_of_state_that_changes_is_compared_with_the_module_in_its_initial_state(capfd):
    """Both agree there; that the module counts on, and the export does not, is said of each."""
    runs, _ = bench(capfd, "counter", "-r", "torch/eager,onnxruntime")
    found = engines(runs)
    (caution,) = (each for each in found["torch"]["cautions"] if each["code"] == "keeps-state")
    assert "count" in caution["message"]
    assert value(found["onnxruntime"], "output_max_abs_error") == 0.0
    assert "change from call to call" in " ".join(found["onnxruntime"]["job"]["model"]["origin"]["lost"])


@pytest.mark.parametrize(
    ("function", "said"),
    [("wrong", "forward() fails on the example inputs"), ("shapeless", "without example inputs")],
)
def test_inputs_that_do_not_fit_are_bad_input(capfd, function, said):
    _, err = bench(capfd, function, code=2)
    assert said in err


def test_a_shape_is_given_to_the_module_and_all_exports(capfd):
    runs, _ = bench(capfd, "shapeless", "-r", "torch/eager,onnxruntime", "--shape", "input=5x4")
    assert [run["job"]["workload"]["inputs"][0]["shape"] for run in runs] == [[5, 4], [5, 4]]
    assert value(engines(runs)["onnxruntime"], "output_max_abs_error") < 1e-5


def test_code_is_not_sent_to_another_device(capfd, far_device):  # noqa: F811
    far_device()
    runs, err = bench(capfd, "tokens", "-d", "far", "-r", "torch/eager,onnxruntime")
    assert "onnxruntime" in engines(runs)
    assert not [run for run in runs if run["job"]["model"]["format"] == "eager"]
    assert "not measured: torch/eager: the code of nets.py:tokens is not sent to far" in err


def test_optimize_starts_from_the_module_as_it_is(capfd, tmp_path):
    words = ["--passes", "onnx-simplify", "--time-budget", "10min", "--no-store", "--json", "-q", "-o", "out"]
    capfd.readouterr()
    assert run(["optimize", "nets.py:training", *words]) == 0
    document = json.loads(capfd.readouterr().out)
    assert document["baseline"]["runtime"]["name"] == "torch"
    assert document["baseline"]["runtime"]["provider"] == "eager"
    export = next(each for each in document["variants"] if each["id"] == "export @ onnxruntime")
    assert export["passes"] == []
    assert export["metrics"]["output_max_abs_error"]["value"] < 1e-5  # random weights, the same in all processes
    assert export["metrics"]["speedup"]["method"].startswith("latency of the original over the variant's")
    assert document["best_export"] == "export @ onnxruntime"


def test_without_an_engine_for_the_module_the_export_is_the_original(capfd, short_races):
    words = ["--passes", "onnx-simplify", "-r", "onnxruntime", "--time-budget", "10min", "--no-store", "--json", "-q"]
    capfd.readouterr()
    assert run(["optimize", "nets.py:training", *words]) == 0
    document = json.loads(capfd.readouterr().out)
    assert document["baseline"]["runtime"]["name"] == "onnxruntime"
    assert document["best_export"] is None


def test_compare_runs_the_module_as_it_is_where_a_subject_says_so(capfd):
    capfd.readouterr()
    subjects = ("nets.py:training,runtime=torch/eager", "nets.py:training,runtime=onnxruntime")
    assert run(["compare", *subjects, "--rounds", "1", "--time-budget", "10min", "--json", "-q", "--no-store"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert {(row["a"], row["b"]) for row in document["comparisons"]} == {("torch/eager", "onnxruntime/cpu")}
