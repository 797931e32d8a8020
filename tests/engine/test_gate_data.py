"""`edgewise gate --data`: accuracy and latency in one call, on the same samples for both models."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from edgewise.cli.main import run
from edgewise.errors import ExitCode
from edgewise.store import open_store
from messages import has, is_in, says, wording

pytestmark = pytest.mark.engine
pytest.importorskip("onnxruntime", reason="the models are run by ONNX Runtime")

SAMPLES = 200
LIMITS = [
    "--data",
    "data.npz",
    "--task",
    "classification",
    "--budget",
    "latency=10s,accuracy_drop=5pt,accuracy_top1=90%",
]


def model(name: str, *, wrong: int = 0) -> None:
    """A model of four classes that takes the last `wrong` of them for the first."""
    weights = np.eye(4, dtype=np.float32)
    for column in range(4 - wrong, 4):
        weights[column] = weights[0]
    tensors = {key: helper.make_tensor_value_info(key, TensorProto.FLOAT, [1, 4]) for key in "xy"}
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [tensors["x"]], [tensors["y"]], [numpy_helper.from_array(weights, "w")]
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(made, name)


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch) -> Path:
    """Two models that are always right, one that is not, and labelled samples."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("EDGEWISE_STORE", str(tmp_path / "runs.db"))
    monkeypatch.setattr("edgewise.run.interleaving.TURNS", 20)  # what is gated here, 20 tell as well as 100
    (tmp_path / "old").mkdir()
    model("old/net.onnx")
    model("net.onnx")
    model("worse.onnx", wrong=1)
    labels = np.arange(SAMPLES) % 4
    np.savez("data.npz", x=np.eye(4, dtype=np.float32)[labels], y=labels)
    return tmp_path


def gate(capsys, *words: str) -> tuple[int, dict]:
    code = run(["gate", *words, "-r", "onnxruntime", "--time-budget", "600s", "--json", "-q"])
    return code, json.loads(capsys.readouterr().out)


def test_accuracy_and_latency_are_one_verdict_and_one_comment(capsys):
    code, document = gate(capsys, "net.onnx", "--baseline", "old/net.onnx", *LIMITS, "-o", "gate.md")
    assert code == ExitCode.DONE and document["passed"]
    checks = {(check["metric"], check["kind"]): check for check in document["checks"]}
    because = checks["accuracy_top1", "drop"]["because"]
    assert because.startswith("loss 0.00 pt, 95 % interval ") and because.endswith(f" on the same {SAMPLES} samples")
    assert (checks["accuracy_top1", "budget"]["value"], checks["latency", "budget"]["verdict"]) == (1.0, "pass")
    assert {row["metric"]: row["design"] for row in document["comparisons"]}["accuracy_top1"] == "paired"
    comment = Path("gate.md").read_text("utf-8")
    assert "Top-1 accuracy: at most 5 pt lost" in comment and "Latency: at most 10 s" in comment
    assert f"{SAMPLES} samples of data.npz" in comment and "baseline: old/net.onnx" in comment
    with open_store() as store:
        assert sum(stored.evaluation is not None for stored in store.resolve(["all"])) == 2


def test_limits_on_accuracies_alone_time_nothing(capsys, monkeypatch):
    def forbidden(*_, **__):
        raise AssertionError("a time was measured")

    monkeypatch.setattr("edgewise.comparing.gate_execution.run_trial", forbidden)
    monkeypatch.setattr("edgewise.comparing.gate_execution._measure_apart", forbidden)
    limits = [*LIMITS[:-1], "accuracy_drop=5pt"]
    expected = {"net.onnx": (ExitCode.DONE, "pass", 1.0), "worse.onnx": (ExitCode.BUDGET_EXCEEDED, "fail", 0.75)}
    for candidate, verdict in expected.items():
        code, document = gate(capsys, candidate, "--baseline", "old/net.onnx", *limits)
        (check,) = document["checks"]
        assert (code, check["verdict"], check["value"]) == verdict
    code, document = gate(capsys, "net.onnx", *limits[:-1], "accuracy_top1=90%")
    assert (code, document["checks"][0]["value"]) == (ExitCode.DONE, 1.0)


def test_a_model_that_lost_accuracy_fails_and_is_not_measured_again_for_it(capsys):
    code, document = gate(capsys, "worse.onnx", "--baseline", "net.onnx", *LIMITS)
    assert (code, document["attempts"]) == (ExitCode.BUDGET_EXCEEDED, 1)
    verdicts = {(check["metric"], check["kind"]): check["verdict"] for check in document["checks"]}
    assert (verdicts["accuracy_top1", "drop"], verdicts["accuracy_top1", "budget"]) == ("fail", "fail")


def test_a_model_alone_is_held_to_an_accuracy(capsys):
    code, document = gate(capsys, "net.onnx", *LIMITS[:-1], "accuracy_top1=90%,model_size=1MB")
    assert code == ExitCode.DONE and [check["verdict"] for check in document["checks"]] == ["pass", "pass"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["net.onnx", "--data", "data.npz", "--budget", "latency=1s"], says("data-measures-accuracy-no-limit")),
        (
            ["net.onnx", "--budget", "latency=1s,accuracy_top1=90%"],
            says("needs-labelled-samples-which-models", missing=has("accuracy_top1=90%")),
        ),
        (["net.onnx", "--baseline", "old/net.onnx", "--budget", "accuracy_drop=1pt"], "try: give them: --data;"),
        (["net.onnx", "--data", "absent.npz", *LIMITS[2:4], "--budget", "accuracy_top1=90%"], "absent.npz"),
        (["net.onnx", "--data", "data.npz", "--budget", "accuracy_top1=90%"], wording("no-task-given")),
    ],
)
def test_what_can_not_be_judged_is_refused_before_the_machine_is_held(capsys, monkeypatch, words, said):
    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("the machine was to be held")

    monkeypatch.setattr("edgewise.verbs.context.measuring_on", forbidden)
    assert run(["gate", *words]) == ExitCode.BAD_INPUT
    captured = capsys.readouterr()
    assert captured.out == "" and is_in(said, captured.err)


def test_a_stored_candidate_is_refused_and_a_stored_baseline_is_judged_by_its_model(capsys):
    words = ["bench", "old/net.onnx", "-r", "onnxruntime", "--iterations", "9", "--no-meters", "-q"]
    assert run(words) == ExitCode.DONE
    capsys.readouterr()
    assert run(["gate", "last", *LIMITS[:-1], "accuracy_top1=90%"]) == ExitCode.BAD_INPUT
    assert re.search(says("data-judges-models-candidate-stored"), capsys.readouterr().err)
    code, document = gate(capsys, "net.onnx", "--baseline", "last", *LIMITS)
    assert code == ExitCode.DONE, document["checks"]


# --- as the baseline was judged ---

COLOURS = ("red", "green", "blue")
DROP = ["--data", "photos", "--budget", "accuracy_drop=2pt"]


@pytest.fixture
def coloured(place, capsys) -> Path:
    """A model of colours, a copy of it, pictures, and a stored evaluation, tagged main, with classes and steps given."""
    for name, bias in (("a.onnx", 0.0), ("b.onnx", 0.001)):
        nodes = [
            helper.make_node("GlobalAveragePool", ["x"], ["means"]),
            helper.make_node("Flatten", ["means"], ["flat"]),
            helper.make_node("Add", ["flat", "bias"], ["y"]),
        ]
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 4, 4])
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])
        added = numpy_helper.from_array(np.full(3, bias, np.float32), "bias")
        graph = helper.make_graph(nodes, "g", [x], [y], [added])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), name)
    for number, colour in enumerate(COLOURS):
        folder = place / "photos" / colour
        folder.mkdir(parents=True)
        for index in range(20):
            pixels = np.zeros((2, 2, 3), np.uint8)
            pixels[..., number] = 100 + index
            Image.fromarray(pixels).save(folder / f"{index}.png")
    Path("classes.txt").write_text("\n".join(COLOURS), encoding="utf-8")
    steps = ["--prepare", "pad=4,4", "--prepare", "scale=1/255", "--classes", "classes.txt"]
    words = ["evaluate", "a.onnx", "--data", "photos", *steps, "-r", "onnxruntime", "--sessions", "1", "--no-meters"]
    assert run([*words, "-q"]) == ExitCode.DONE
    assert run(["runs", "tag", "main", "last"]) == ExitCode.DONE
    capsys.readouterr()
    return place


@pytest.mark.parametrize("more", [(), ("--stored",)])
def test_what_is_not_given_is_that_of_the_baselines_stored_evaluation(coloured, capsys, more):
    _, document = gate(capsys, "b.onnx", "--baseline", "main", *DROP, *more)
    (check,) = document["checks"]
    assert (check["before"], check["value"]) == (1.0, 1.0)
    told = document["gate_notes"][0]
    assert "as in the stored run" in told and "pad=4,4, scale=1/255" in told
    assert "3 classes (red, green and blue)" in told


def test_a_baseline_judged_otherwise_than_in_its_stored_run_makes_no_check_of_its_accuracy(coloured, capsys):
    Path("other.txt").write_text("\n".join(COLOURS[::-1]), encoding="utf-8")
    words = ["b.onnx", "--baseline", "main", *DROP, "--classes", "other.txt"]
    code, document = gate(capsys, *words)
    (check,) = document["checks"]
    assert (code, check["verdict"]) == (ExitCode.RUN_FAILED, "unmeasured")
    assert "the baseline has 33.33 % now, and 100.00 % in its stored run" in check["because"]
    assert "classes: stored red, green, blue, now blue, green, red" in check["because"]
    assert run(["gate", *words, "--stored"]) == ExitCode.BAD_INPUT
    assert "--classes differ" in capsys.readouterr().err


@pytest.mark.parametrize("with_steps", ["a", "b"])
def test_a_yaml_file_beside_one_of_two_models_serves_both(coloured, capsys, with_steps):
    store = ["--store", "empty.db"]
    words = ["b.onnx", "--baseline", "a.onnx", *DROP, "--classes", "classes.txt", *store]
    assert run(["gate", *words]) == ExitCode.BAD_INPUT
    assert "candidate b.onnx: " in capsys.readouterr().err.replace("baseline a.onnx: ", "candidate b.onnx: ")
    text = "edgewise: 1\ninputs: [{pad: [4, 4]}, {scale: 1/255}]\n"
    Path(f"{with_steps}.onnx.yaml").write_text(text, encoding="utf-8")
    _, document = gate(capsys, *words)
    (check,) = document["checks"]
    assert (check["before"], check["value"]) == (1.0, 1.0)
    label = "candidate b.onnx" if with_steps == "a" else "baseline a.onnx"
    assert document["gate_notes"][0] == (
        f"{label} names no preparation of its own: those of {with_steps}.onnx.yaml are taken for it"
    )


def test_evaluations_of_the_baselines_model_are_taken_only_where_they_were_judged_alike(coloured, capsys):
    words = ["b.onnx", "--baseline", "a.onnx", *DROP]
    _, document = gate(capsys, *words)
    assert document["checks"][0]["value"] == 1.0 and "as in the stored run" in document["gate_notes"][0]
    Path("other.txt").write_text("\n".join(COLOURS[::-1]), encoding="utf-8")
    gate(capsys, *words, "--classes", "other.txt")
    assert run(["gate", *words]) == ExitCode.BAD_INPUT
    assert "no step converts pixels" in capsys.readouterr().err
