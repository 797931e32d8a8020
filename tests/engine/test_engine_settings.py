"""``--set``: settings of engines by their own names, from the command line to the record."""

import json

import pytest

import edgewise
from edgewise.cli.main import run
from edgewise.data import path as bundled
from edgewise.run.plan import setting_value
from edgewise.runtime.base import runtimes
from edgewise.verbs.reading import read_request, request_for

pytestmark = [pytest.mark.engine]
MODEL = str(bundled("digits_cnn.onnx"))
QUICK = ["--iterations", "5", "--warmup", "1", "--sessions", "1", "--no-store", "-q"]


@pytest.fixture(autouse=True)
def both_engines():
    for name in ("onnxruntime", "openvino"):
        if not (availability := runtimes().get(name).availability()):
            pytest.skip(f"{name}: {availability.reason}")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("False", False),
        ("2", 2),
        ("0.5", 0.5),
        (" basic ", "basic"),
        ("nan", "nan"),
        ("1e999", "1e999"),
    ],
)
def test_values(text, value):
    found = setting_value(text)
    assert (found, type(found)) == (value, type(value))


def test_a_setting_goes_to_the_engines_that_have_it_and_the_others_are_a_line(capsys):
    words = ["-r", "onnxruntime,openvino", "--set", "graph_optimization_level=none", "--set", "NUM_STREAMS=1"]
    assert run(["bench", MODEL, *words, *QUICK, "--no-meters", "--json"]) == 0
    told = capsys.readouterr()
    records = json.loads(told.out)["runs"]
    assert [(each["job"]["runtime"]["options"], each["status"]) for each in records] == [
        ({"graph_optimization_level": "none"}, "done"),
        ({"NUM_STREAMS": 1}, "done"),
    ]
    assert records[1]["effective"]["streams"] == 1
    assert "not measured: graph_optimization_level on openvino/cpu: no such setting, measured without it" in told.err
    assert "not measured: NUM_STREAMS on onnxruntime/cpu: no such setting, measured without it" in told.err


@pytest.mark.long
def test_a_profile_shows_what_the_setting_does(capsys):
    """Without optimisation ONNX Runtime keeps the operators apart that it fuses otherwise."""
    counts = []
    for level in ("none", "all"):
        words = ["-r", "onnxruntime", "--set", f"graph_optimization_level={level}"]
        assert run(["profile", MODEL, *words, *QUICK, "--json"]) == 0
        (record,) = json.loads(capsys.readouterr().out)["runs"]
        counts.append(sum(1 for row in record["layers"] if row["index"] is not None and row["time"] is not None))
    assert counts[0] > counts[1]


def test_a_setting_that_no_engine_has_is_refused_with_those_that_they_have(capsys):
    assert run(["bench", MODEL, "-r", "onnxruntime,openvino", "--set", "speed=11", *QUICK]) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "no engine that measures here has the setting 'speed'" in error
    assert "enable_cpu_mem_arena" in error
    assert "PERFORMANCE_HINT" in error


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("graph_optimization_level=most", "can't be 'most' (it has: none, basic, extended, all)"),
        ("enable_mem_pattern=maybe", "enable_mem_pattern is true or false, not 'maybe'"),
    ],
)
def test_a_value_that_the_engine_refuses_fails_the_run(capsys, setting, problem):
    assert run(["bench", MODEL, "-r", "onnxruntime", "--set", setting, "--no-meters", *QUICK]) == 4
    assert problem in " ".join(capsys.readouterr().out.split())


def test_requests_keep_settings(capsys):
    words = ["bench", MODEL, "-r", "onnxruntime", "--set", "enable_mem_pattern=false"]
    assert run([*words, "--dry-run", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert read_request(document).set == {"enable_mem_pattern": "false"}
    assert request_for("bench", models=[MODEL], set={"enable_mem_pattern": False, "x": 2}).set == {
        "enable_mem_pattern": "false", "x": "2",
    }  # fmt: skip
    assert run([*words, "--dry-run"]) == 0
    assert "--set enable_mem_pattern=false" in " ".join(capsys.readouterr().out.split())


def test_python_takes_settings_and_they_are_part_of_the_job():
    quick = {"runtimes": ["onnxruntime"], "iterations": 5, "warmup": 1, "sessions": 1, "meters": False}
    (plain,) = edgewise.bench(MODEL, **quick)
    (changed,) = edgewise.bench(MODEL, settings={"enable_mem_pattern": False}, **quick)
    assert changed.job.runtime.options == {"enable_mem_pattern": False}
    assert changed.job.key != plain.job.key
    assert changed.job.label == "digits_cnn.onnx · onnxruntime/cpu 1T enable_mem_pattern=false"


@pytest.mark.parametrize("stored", [False, True])
def test_compare_measures_with_settings(stored):
    """A model beside a stored run takes the run's settings, and those that are given."""
    things = [MODEL, MODEL]
    if stored:
        quick = {"iterations": 5, "warmup": 1, "sessions": 1, "meters": False}
        settings = {"enable_mem_pattern": False}
        things[:1] = edgewise.bench(MODEL, runtimes=["onnxruntime"], settings=settings, **quick)
    found = edgewise.compare(
        things, runtimes=["onnxruntime"] if not stored else (), settings={"enable_mem_reuse": False}, rounds=1,
        time_budget=600.0,
    )  # fmt: skip
    given = {"enable_mem_reuse": False}
    before, after = (variant.run.job.runtime.options for variant in found.variants)
    assert after == ({"enable_mem_pattern": False} | given if stored else given)
    assert before == ({"enable_mem_pattern": False} if stored else given)
