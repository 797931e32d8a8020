"""``edgewise calibrate`` and ``estimate`` on calibrated devices, as a user runs them."""

from __future__ import annotations

import csv
import hashlib
import json
import math
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import edgewise
import edgewise.data
from edgewise.cli.main import run
from edgewise.device import calibrations
from edgewise.predicting import atlas
from edgewise.predicting.base import Point, Subject
from edgewise.predicting.calibration import Calibration
from edgewise.predicting.forecast import forecast
from edgewise.predicting.laws import Scale
from edgewise.record.caution import Caution
from edgewise.record.job import Constraints, RuntimeSpec
from edgewise.record.run import Trust
from edgewise.report.estimate.forecast import _off_text
from edgewise.store.exchange import export_runs, read_runs
from edgewise.verbs.calibrate import work as prediction
from edgewise.verbs.calibrate.device_runs import ModelFiles, Notes, engine_text, of_one_engine
from edgewise.verbs.calibrate.host_engine import (
    choose_engine,
    engine_here,
    error_of_grade_d,
    is_told,
    tell_grade_d,
    tell_unmeasured,
)
from edgewise.verbs.context import Context
from edgewise.verbs.optimize.request import OptimizeRequest
from edgewise.verbs.optimize.work import _find_judge
from estimates import dense_relu
from litert_networks import NetworkWriter
from sample_runs import all_runs
from tiny_models import write_tiny_onnx

TABLE = """model,host_latency_ms,latency_ms,family
MobileNetV1,12.1,45,image
MobileNetV2,11.0,41.5,image
InceptionV3,140,560,image
SqueezeNet,14,60,image
ResNet50,95,330,image
"""


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    monkeypatch.setattr(atlas, "atlas_folder", lambda: tmp_path / "atlas")
    monkeypatch.setenv("EDGEWISE_STORE", str(tmp_path / "runs.db"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "measured.csv").write_text(TABLE)
    (tmp_path / "new.csv").write_text("model,host_latency_ms\nEfficientNet,30\nDenseNet,110\n")


def test_five_models_of_a_phone_predict_two_others(capsys, tmp_path):
    assert run(["calibrate", "phone", "--measurements", "measured.csv", "-o", "c.md", "-o", "c.json"]) == 0
    table = (tmp_path / "c.md").read_text().replace("\\", "")
    offs = dict(re.findall(r"^\| ([A-Z]\w+) .*\| (\S+)% \|$", table, re.MULTILINE))
    most = r"on average where a model is left out, most for (\w+) \((\S+)%\)\."
    name, worst = re.search(most, " ".join(capsys.readouterr().out.split())).groups()
    assert len(offs) == 5 and offs[name] == worst and abs(float(worst)) == max(abs(float(off)) for off in offs.values())
    assert run(["estimate", "new.csv", "-d", "phone", "--target", "latency=200ms", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["models"] == document["estimates"] and document["refused"] is None
    small, large = document["estimates"]
    assert small["low"] < 0.115 < small["high"] and large["low"] < 0.42 < large["high"]
    assert small["on_target"] > 0.9 > 0.1 > large["on_target"]
    assert document["undecided"] == {"latency": []}
    assert run(["estimate", "new.csv", "-d", "phone", "-o", "e.csv", "-o", "e.md"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "EfficientNet" in printed and "90% interval" in printed
    said = re.search(rf"Its interval follows from the errors of the law: off by \d\.\d % {most}", printed)
    assert said.groups() == (name, worst)
    assert (tmp_path / "e.csv").read_text().startswith("Model")


def test_cautions_stand_once_below_the_answer_and_its_tables(capsys):
    """Of a calibration of one family, and of an estimate by it."""
    for command in (["calibrate", "phone", "--measurements", "measured.csv"], ["estimate", "new.csv", "-d", "phone"]):
        assert run(command) == 0
        printed = capsys.readouterr().out
        assert printed.count("\nCautions\n") == 1
        assert 0 < printed.rindex("───") < printed.index("\nCautions\n")


def test_the_line_of_auptimizer_is_there_with_its_error_beside_r2(capsys):
    assert run(["calibrate", "phone", "--measurements", "measured.csv", "--method", "linear", "--json"]) == 0
    (law,) = json.loads(capsys.readouterr().out)["metrics"]["latency"]["laws"]
    assert law["law"] == "linear" and law["r2"] > 0.98
    assert law["error"] > 3 * (1 - law["r2"])  # a high R² says little about small models
    assert "× host" in law["equation"]


def test_a_prediction_that_is_off_by_nothing_has_no_sign_and_a_little_is_not_nothing(capsys, tmp_path):
    hosts = (12.1, 11.0, 140, 14, 95, 61)
    (tmp_path / "exact.csv").write_text(
        "model,host_latency_ms,latency_ms\n" + "".join(f"M{at},{host},{4 * host}\n" for at, host in enumerate(hosts))
    )
    assert run(["calibrate", "phone", "--measurements", "exact.csv", "--method", "linear", "-o", "c.md"]) == 0
    offs = re.findall(r"^\| M\d .*\| (\S+%) \|$", (tmp_path / "c.md").read_text(), re.MULTILINE)
    assert offs == ["0%"] * len(hosts)
    assert [_off_text(share) for share in (-0.003, 0.12, -0.0097, 0.0)] == ["-0.3%", "+12%", "-1%", "0%"]


def test_a_refused_model_is_an_exit_code_of_its_own(capsys, tmp_path):
    assert run(["calibrate", "phone", "--measurements", "measured.csv"]) == 0
    (tmp_path / "huge.csv").write_text("model,host_latency_ms\nHuge,9000\nDenseNet,110\n")
    assert run(["estimate", "huge.csv", "-d", "phone"]) == 4
    told = capsys.readouterr()
    refused = (
        "Huge: its latency on this machine, 9.00 s, is 64.3 times the most of the measured models (InceptionV3, 140 ms)"
    )
    assert f"{refused}: check that value, and the unit of the column host_latency_… in the table of " in told.err
    assert "DenseNet" in told.out
    (tried,) = [line for line in told.err.splitlines() if line.startswith("try: ")]
    assert "--anyway predicts it with a wider interval" in tried
    assert run(["estimate", "huge.csv", "-d", "phone", "--anyway"]) == 0
    (tmp_path / "huge.csv").write_text("model,host_latency_ms\nHuge,9000\n")
    capsys.readouterr()
    assert run(["estimate", "huge.csv", "-d", "phone", "--anyway"]) == 0
    first = " ".join(capsys.readouterr().out.partition("───")[0].split())
    assert (
        first.startswith("Latency on phone: Huge, ") and "), doubtful: its latency on this machine, 9.00 s, is" in first
    )


def test_a_measured_model_with_another_value_here_is_told_so_and_not_to_be_measured(capsys, tmp_path):
    assert run(["calibrate", "phone", "--measurements", "measured.csv"]) == 0
    (tmp_path / "again.csv").write_text("model,host_latency_us\nMobileNetV2,11\n")
    capsys.readouterr()
    assert run(["estimate", "again.csv", "-d", "phone"]) == 4
    told = " ".join(capsys.readouterr().err.split())
    assert (
        "11.0 µs, is 1/1000 of the least of the measured models (MobileNetV2, 11.0 ms): it was measured itself" in told
    )
    assert (
        "the calibration has 11.0 ms for it on this machine: one of both is wrong" in told and "measure a" not in told
    )


def test_a_mistyped_calibrated_device_is_suggested(capsys, tmp_path):
    assert run(["calibrate", "phone", "--measurements", "measured.csv"]) == 0
    model = str(dense_relu(tmp_path))
    for command in (["estimate", model, "-d", "fone"], ["optimize", model, "-d", "fone"]):
        assert run(command) == 2
        assert "did you mean phone?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["calibrate", "phone", "--measurements", "absent.csv"], "can't be read"),
        (["calibrate", "cortex-m4", "--measurements", "measured.csv"], "cortex-m4 is a device that edgewise knows"),
        (["calibrate", "local", "--measurements", "measured.csv"], "local is a device that edgewise knows"),
        (["calibrate", "a/b", "--measurements", "measured.csv"], "can't be the name of a device"),
        (["calibrate", "phone", "--measurements", "measured.csv", "--method", "cubic"], "no method 'cubic'"),
        (["calibrate", "phone", "--measurements", "new.csv"], "no metric was measured on the device"),
        (["estimate", "new.csv", "-d", "phon"], "unknown device 'phon'"),
        (["estimate", "m.tflite", "-d", "cortex-m4", "--target", "latency=1ms"], "--target applies only"),
    ],
)
def test_mistakes_have_one_clear_message(capsys, arguments, words):
    assert run(arguments) == 2
    assert words in capsys.readouterr().err


def test_settings_of_estimators_and_targets_that_were_not_measured(capsys):
    assert run(["calibrate", "phone", "--measurements", "measured.csv"]) == 0
    assert run(["estimate", "new.csv", "-d", "phone", "--set", "a=b"]) == 2
    assert "does not use --set" in capsys.readouterr().err
    assert run(["estimate", "new.csv", "-d", "phone", "--target", "energy=1mJ"]) == 2
    assert "not calibrated for energy" in capsys.readouterr().err


def test_model_files_bring_their_operators_and_runs_on_this_machine_their_latency(capsys, tmp_path):
    digits = edgewise.data.path("digits_cnn.onnx")
    rows = [f"{digits},5"] + [f"other{at},{5 * at}" for at in range(2, 5)]
    (tmp_path / "files.csv").write_text("model,latency_ms\n" + "\n".join(rows) + "\n")
    assert run(["calibrate", "board", "--measurements", "files.csv"]) == 2  # names alone relate to nothing
    told = capsys.readouterr().err
    assert "nothing relates the models" in told
    assert "give the folder of their files to --model-dir; or add the column host_latency_ms with what " in told
    assert run(["bench", str(digits), "-r", "onnxruntime", "--iterations", "20", "--sessions", "1", "--quiet"]) == 0
    with edgewise.open_store() as opened:
        opened.save(replace(opened.get("last"), trust=Trust(grade="B")))
    for at in range(2, 5):
        rows[at - 1] = f"other{at},{5 * at},{at}"
    rows[0] += ","
    (tmp_path / "files.csv").write_text("model,latency_ms,host_latency_ms\n" + "\n".join(rows) + "\n")
    capsys.readouterr()
    assert run(["calibrate", "board", "--measurements", "files.csv", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    point = document["metrics"]["latency"]["points"][0]
    assert point["host"] > 0 and sum(point["profile"]["amounts"]) > 1e6
    assert document["runtime"].startswith("onnxruntime") and document["host"]
    text = "model,memory_peak_MB,host_memory_peak_MB\n" + f"{digits},90,\n" + "b,80,70\nc,100,90\n"
    (tmp_path / "memory.csv").write_text(text)
    assert run(["calibrate", "board2", "--measurements", "memory.csv", "--json"]) == 0
    (kept, *_) = json.loads(capsys.readouterr().out)["metrics"]["memory_peak"]["points"]
    assert kept["host"] > 1e7  # the peak of the same stored run, in bytes
    assert run(["estimate", str(digits), "-d", "board", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["estimates"]
    assert row["value"] > 0 and math.isfinite(row["high"])


def exported(tmp_path, name, *changes):
    """A file with a run of `sample_runs` for each of `changes`: fields of its model, its runtime and its target."""
    base = next(run for run in all_runs() if run.status == "done" and run.value("latency"))
    runs = []
    for at, change in enumerate(changes):
        job = replace(
            base.job,
            model=replace(base.job.model, name=change.get("model", f"m{at}"), path="", sha256=f"{at:064x}"),
            runtime=replace(base.job.runtime, name=change.get("runtime", "litert"), provider="cpu", threads=1),
            target=replace(base.job.target, device=change.get("device", "pi"), constraints=change.get("constraints")),
            workload=replace(base.job.workload, batch=change.get("batch", 1)),
        )
        runs.append(replace(base, id=f"{at + 1:026d}", job=job))
    export_runs(runs, tmp_path / name)
    return name


def with_limits(cpus):
    return Constraints(cpus=cpus, memory_bytes=2 * 2**30)


def test_both_columns_in_another_unit_are_told_by_what_this_machine_can_compute(capsys, tmp_path, monkeypatch):
    digits = edgewise.data.path("digits_cnn.onnx")
    (tmp_path / "k.csv").write_text(f"model,latency_ms,host_latency_ms\nb,800,200\n{digits},2000,500\nc,4000,1000\n")
    for peaks, compared in ((None, ": check"), ((4e9, 8e9), ", 1/10")):
        monkeypatch.setattr(prediction, "known_rates", lambda peaks=peaks: peaks)
        assert run(["calibrate", "board", "--measurements", "k.csv"]) == 0
        first = " ".join(capsys.readouterr().out.split()).partition("Latency by ")[0]
        assert re.search(
            r"By host_latency_ms of line 3 of k.csv, 500 ms, this machine computes 38\.\d MMAC/s for ", first
        )
        assert f"{digits}{compared}" in first


def test_models_whose_files_are_known_come_with_the_command_that_measures_them(tmp_path):
    digits = edgewise.data.path("digits_cnn.onnx")
    (tmp_path / "a b.onnx").write_bytes(digits.read_bytes())
    (tmp_path / "k.csv").write_text("model,latency_ms\na b.onnx,5\n" + f"{digits},6\nc.onnx,7\n")
    (tmp_path / "c.onnx").write_bytes(digits.read_bytes())
    with pytest.raises(edgewise.BadInput, match="nothing relates") as refused:
        edgewise.calibrate("board", "k.csv", method="scale", keep=False)
    command = f"'edgewise bench {shlex.join(['a b.onnx', str(digits), 'c.onnx'])}' measures them here"
    assert refused.value.advice.startswith(command)


def test_files_without_a_value_of_this_machine_come_with_the_command_that_measures_them():
    engine = "litert/interpreter, 2 threads"
    models = [
        prediction._Model(subject=Subject(name=name), path=f"my nets/{name}", stored=stored, hosts=hosts)
        for name, stored, hosts in (
            ("a", {}, {}), ("b", {engine: {"latency": 1.0}}, {}), ("c", {}, {"latency": 1.0}), ("d", {"x": {}}, {})
        )
    ]  # fmt: skip
    said = "Without a value of this machine, which makes predictions mostly better: "
    lacking = prediction._lacking_here(models, engine)
    assert tell_unmeasured(lacking, engine, "estimate again") == [
        f"{said}a and d. 'edgewise bench 'my nets/a' 'my nets/d' -r litert/interpreter -t 2' measures them here, then "
        "estimate again."
    ]
    assert tell_unmeasured(prediction._lacking_here(models, ""), "", "calibrate again") == [
        f"{said}a. 'edgewise bench 'my nets/a'' measures it here, then calibrate again."
    ]
    assert tell_unmeasured({"new.onnx": "new"}, "", "calibrate again", learnt=["nets/a", "b"]) == [
        f"{said}new, a and b. 'edgewise bench new.onnx nets/a b' measures them here, then calibrate again."
    ]
    assert tell_unmeasured(prediction._lacking_here(models[1:3], engine), engine, "estimate again") == []
    noisy = prediction._Model(subject=Subject(name="n"), path="n", noisy={engine: None})
    both = [noisy, prediction._Model(subject=Subject(name="e"))]
    lacking = prediction._lacking_here(both, engine)
    assert lacking == {"n": "n"} and prediction._count_runs_here([*both, *models], engine) == (1, 2)
    (told,) = tell_unmeasured(lacking, engine, "estimate again", again=True, is_own=True)
    assert told.startswith(
        "Without a value of this machine by litert/interpreter, the device's engine, which makes predictions mostly "
        "better: n. 'edgewise bench n -r litert/interpreter -t 2 --sessions 10' measures it here"
    )
    not_used = tell_grade_d(1, 2, engine, used=False)
    assert not_used == [
        "1 of 2 runs here by litert/interpreter has grade D and is not used: a quieter machine and more sessions help "
        "(--sessions 10)."
    ]
    assert all(map(is_told, (told, *not_used))) and tell_grade_d(0, 2, engine, used=True) == []


def test_runs_of_grade_d_give_values_only_where_too_few_are_better():
    engine = "litert/interpreter, 1 thread"

    def hosts(*grades, wide=True):
        """Host, its error and whether it is noisy, of models with runs of these grades."""
        models = [
            prediction._Model(
                subject=Subject(name=str(at)),
                values={"latency": 2.0, "energy": 1.0},
                stored={engine: {"latency": 1.0, "energy": 3.0}} if grade == "B" else {},
                noisy={engine: (1.5, 0.2) if wide else None} if grade == "D" else {},
            )
            for at, grade in enumerate(grades)
        ]
        points = [each.subject for each in prediction._points(models, "latency", engine)]
        assert not any(point.subject.host_error for point in prediction._points(models, "energy", engine))
        return [(each.host, each.host_error, each.noisy) for each in points]

    good, used, unused = (1.0, 0.0, False), (1.5, 0.2, False), (None, 0.0, True)
    assert hosts("B", "B", "D") == [good, good, used]
    assert hosts("B", "B", "B", "D") == [good, good, good, unused]
    assert hosts("B", "B", "D", wide=False) == [good, good, unused]


@pytest.mark.parametrize(
    ("with_them", "without", "host"), [(0.3, 0.2, None), (0.2, 0.3, 1.5), (0.3, 0.3, 1.5), (0.3, None, 1.5)]
)
def test_runs_of_grade_d_that_raise_the_expected_error_give_no_values(monkeypatch, with_them, without, host):
    engine = "litert/interpreter, 1 thread"
    models = [
        prediction._Model(subject=Subject(name=str(at)), values={"latency": 2.0}, noisy={engine: (1.5, 0.2)})
        for at in range(3)
    ]

    def choose(points, *, method):
        assert method == "line" and {point.device for point in points} == {"a device"}
        error = without if points[0].subject.host is None else with_them
        if error is None:
            raise edgewise.BadInput("nothing relates them")
        return SimpleNamespace(chosen=SimpleNamespace(expected_error=error))

    monkeypatch.setattr(prediction, "choose", choose)
    found = prediction._points(models, "latency", engine, device="a device", method="line")
    assert [(one.subject.host, one.subject.noisy) for one in found] == [(host, host is None)] * 3


def test_it_is_said_that_runs_of_grade_d_would_make_predictions_worse():
    (told,) = tell_grade_d(2, 5, "litert/interpreter, 1 thread", used=False, is_worse=True)
    assert told == (
        "2 of 5 runs here by litert/interpreter have grade D and are not used, as predictions are expected to be better "
        "without: a quieter machine and more sessions help (--sessions 10)."
    )
    assert is_told(told)


def test_the_error_of_a_run_of_grade_d_is_that_of_its_interval_alone():
    base = next(run for run in all_runs() if run.status == "done" and run.value("latency"))
    rows = [replace(row, low=row.value / 2, high=row.value * 2) if row.metric == "latency" else row
            for row in base.measurements]  # fmt: skip

    def error(*codes):
        cautions = tuple(Caution.of(code, "told") for code in codes)
        return error_of_grade_d(replace(base, measurements=tuple(rows), cautions=cautions))

    assert error("very-wide-interval", "single-session") == pytest.approx(math.log(4) / (2 * 1.96), rel=1e-4)
    assert error("very-wide-interval", "too-few-samples") is None and error() is None


def own_of(**changes):
    """What is the engine here of a device's run with this engine, provider and threads."""
    job = next(run for run in all_runs() if run.status == "done").job
    return engine_here(replace(job, runtime=RuntimeSpec(**changes)))


def test_the_engine_of_a_device_has_one_here_unless_it_is_an_accelerators():
    assert own_of(name="benchmark_model", threads=1) == "litert/interpreter, 1 thread"
    assert own_of(name="benchmark_model", provider="xnnpack", threads=4) == "litert/interpreter, 4 threads"
    assert own_of(name="benchmark_model", provider="builtin") == "litert/interpreter-noxnnpack, 1 thread"
    assert own_of(name="litert", provider="cpu", threads=2) == "litert/compiled, 2 threads"
    assert own_of(name="litert", provider="interpreter", threads=2) == "litert/interpreter, 2 threads"
    none = [("benchmark_model", "gpu"), ("onnxruntime_perf_test", "qnn"), ("ncnn", None), ("litert", "npu")]
    assert [own_of(name=name, provider=provider) for name, provider in none] == [""] * 4


def test_the_engine_of_the_device_is_taken_and_without_enough_values_the_one_that_predicts_best():
    own, other, third = "litert/interpreter, 1 thread", "openvino/cpu, 1 thread", "litert/interpreter, 2 threads"
    errors = {own: 0.3, other: 0.2, third: 0.2004}

    def chosen(of_device, **counts):
        named = {"own": own, "other": other, "third": third}
        found = {named[name]: count for name, count in counts.items()}
        return choose_engine(found, own=of_device, enough=3, error_with=lambda engine: errors[engine])

    assert chosen(own, own=3, other=9) == own
    assert chosen(own, own=2, other=3) == other
    assert chosen(own, own=2, other=9, third=3) == third  # as good, and more like the device's
    assert chosen("", own=9, other=3) == other
    errors[own] = 0.2
    assert chosen(own, other=9) == own  # without any value: the others' make nothing better


def test_one_command_measures_the_new_model_and_the_files_that_the_device_was_learnt_from(tmp_path):
    digits = edgewise.data.path("digits_cnn.onnx").read_bytes()
    for name in ("a", "b", "c", "new"):
        (tmp_path / f"{name}.onnx").write_bytes(digits)
    (tmp_path / "k.csv").write_text("model,latency_ms\na.onnx,5\nb.onnx,6\nc.onnx,7\n")
    learnt = edgewise.calibrate("board", "k.csv")
    assert learnt.unmeasured == ("a.onnx", "b.onnx", "c.onnx")
    found = edgewise.predict("new.onnx", "board")
    (said,) = [each for each in (*found.calibration.cautions, *found.cautions) if "bench" in each]
    command = "'edgewise bench new.onnx a.onnx b.onnx c.onnx' measures them here"
    assert said.endswith(f": new.onnx, a.onnx, b.onnx and c.onnx. {command}, then calibrate and estimate again.")


def test_runs_of_several_devices_engines_or_batches_are_told_apart(capsys, tmp_path):
    several = exported(tmp_path, "devices.json", {}, {"device": "phone"}, {})
    assert run(["calibrate", "board", "--measurements", several]) == 2
    assert "the runs are of several devices: phone, pi" in capsys.readouterr().err
    engines = exported(tmp_path, "engines.json", {"model": "a"}, {"model": "a", "runtime": "onnxruntime"}, {})
    assert run(["calibrate", "board", "--measurements", engines]) == 2
    told = capsys.readouterr().err
    assert "several engines: litert/cpu, 1 thread; onnxruntime/cpu, 1 thread" in told and "--runtime" in told
    assert run(["calibrate", "board", "--measurements", engines, "--runtime", "tvm"]) == 2
    assert "no run is of tvm" in capsys.readouterr().err
    batches = exported(tmp_path, "batches.json", {"batch": 8}, {"batch": 8})
    assert run(["calibrate", "board", "--measurements", batches]) == 2
    assert "left out (scenario single-stream, batch 8): m0 and m1" in capsys.readouterr().err


def test_runs_within_limits_are_apart_from_those_without(capsys, tmp_path):
    limited = {"constraints": with_limits(2.0)}
    mixed = exported(tmp_path, "limits.json", {}, limited, limited)
    assert run(["calibrate", "board", "--measurements", mixed]) == 2
    assert "litert/cpu, 1 thread; litert/cpu, 1 thread, within 2 CPUs, 2.15 GB" in " ".join(
        capsys.readouterr().err.split()
    )


def test_values_of_this_machine_are_of_one_engine_within_the_same_limits(tmp_path):
    digits = str(edgewise.data.path("digits_cnn.onnx"))
    store = f"sqlite:///{tmp_path}/runs.db"
    (measured,) = edgewise.bench(digits, runtimes=["onnxruntime"], iterations=10, sessions=1, store=store)
    halved = replace(measured.job, target=replace(measured.job.target, constraints=with_limits(0.5)))
    slower = [
        replace(each, value=3 * each.value) if each.metric == "latency" else each for each in measured.measurements
    ]
    measured = replace(measured, trust=Trust(grade="B"))
    with edgewise.open_store(store) as opened:
        opened.save(measured)
        opened.save(replace(measured, id=measured.id[:-1] + "z", job=halved, measurements=tuple(slower)))
    (tmp_path / "own.csv").write_text(f"model,latency_ms,host_latency_ms\n{digits},5,\nb,10,2\nc,15,3\n")
    for host, times in ((engine_text(measured.job), 1), (engine_text(halved), 3)):
        found = edgewise.calibrate("board", "own.csv", host=host, store=store, keep=False)
        assert found.points["latency"][0].subject.host == pytest.approx(times * measured.value("latency"))
        assert ("within 0.5 CPUs, 2.15 GB" in found.runtime) == (times == 3)


def test_python_calibrates_from_runs(tmp_path):
    runs = list(read_runs(tmp_path / exported(tmp_path, "runs.json", {}, {}, {})))
    table = "model,latency_ms,host_latency_ms\n" + "".join(f"{run.job.model.name},1,1\n" for run in runs)
    with pytest.raises(edgewise.BadInput, match="nothing relates"):
        edgewise.calibrate("board", runs, keep=False)
    (tmp_path / "more.csv").write_text(table.replace("m0", "a").replace("m1", "b").replace("m2", "c"))
    found = edgewise.calibrate("board", [*runs, "more.csv"], keep=False)
    assert [point.subject.name for point in found.points["latency"]] == ["a", "b", "c", "m0", "m1", "m2"]
    assert found.choices["latency"].chosen.number == 3


def test_three_files_of_several_families_are_enough_without_this_machine_or_an_atlas(capsys, tmp_path):
    build = ["zoo", "build", "mobilenet-v1", "squeezenet-1.1", "resnet-18", "mobilenet-v2", "--width", "0.5"]
    assert run([*build, "--resolution", "64", "-o", "nets"]) == 0
    measured = {"mobilenet-v1": (6.1, "mobile"), "squeezenet-1.1": (4.4, "fire"), "resnet-18": (14.9, "residual")}
    lines = [f"nets/{name}-w0.5-r64.onnx,{latency},{kind}" for name, (latency, kind) in measured.items()]
    (tmp_path / "three.csv").write_text("\n".join(["model,latency_ms,family", *lines]) + "\n")
    capsys.readouterr()
    assert run(["calibrate", "board", "--measurements", "three.csv"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    law = (
        "Latency by fleet, what the operators cost on other devices: as on 75 kinds of hardware: processors with ncnn."
    )
    assert law in told
    assert (
        run(["estimate", "nets/mobilenet-v2-w0.5-r64.onnx", "-d", "board", "--target", "latency=20ms", "--json"]) == 0
    )
    (row,) = json.loads(capsys.readouterr().out)["estimates"]
    assert 0.001 < row["low"] < row["value"] < row["high"] < 0.05 and row["on_target"] > 0.8
    assert row["method"].startswith("fleet: as on 75 kinds of hardware: processors with ncnn")


def test_estimate_looks_for_a_calibration_without_numpy():
    code = "import sys; from edgewise.device.calibrations import is_calibrated; is_calibrated('x')"
    code += "; sys.exit('numpy' in sys.modules or 'edgewise.predicting' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_failed_runs_and_other_batches_are_left_out_by_name():
    done, *_ = (run for run in all_runs() if run.status == "done" and run.job.workload.scenario.kind == "single-stream")
    failed = replace(done, status="failed")
    eight = replace(done, job=replace(done.job, workload=replace(done.job.workload, batch=8)))
    notes = Notes()
    kept = of_one_engine([failed, done, eight], notes, wanted=None)
    assert kept == [done]
    name = done.job.model.name
    assert notes.sentences == [
        f"Runs left out (failed): {name}.",
        f"Runs left out (scenario single-stream, batch 8): {name}.",
    ]


def test_a_file_that_changed_since_it_was_measured_lends_no_operators():
    digits = edgewise.data.path("digits_cnn.onnx")
    done = next(run for run in all_runs() if run.status == "done")
    model = replace(done.job.model, name="digits", path=str(digits), sha256=hashlib.sha256(b"before").hexdigest())
    notes, none = Notes(), ModelFiles([])
    found = prediction._from_run(replace(done, job=replace(done.job, model=model)), none, notes)
    assert found.subject.profile is None
    assert notes.sentences == ["The file has changed since, so that its operators are not known: digits."]
    same = replace(model, sha256=hashlib.sha256(digits.read_bytes()).hexdigest())
    found = prediction._from_run(replace(done, job=replace(done.job, model=same)), none, notes)
    assert found.subject.profile is not None and len(notes.sentences) == 1


def test_a_file_of_another_name_is_found_by_its_hash_and_goes_before_one_of_the_same_name(tmp_path):
    digits = edgewise.data.path("digits_cnn.onnx")
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets" / "renamed.onnx").write_bytes(digits.read_bytes())
    write_tiny_onnx(tmp_path / "nets" / "digits.onnx")
    done = next(run for run in all_runs() if run.status == "done")
    sha256 = hashlib.sha256(digits.read_bytes()).hexdigest()
    model = replace(done.job.model, name="digits.onnx", path="", sha256=sha256)
    notes, files = Notes(), ModelFiles([tmp_path / "nets"])
    found = prediction._from_run(replace(done, job=replace(done.job, model=model)), files, notes)
    assert (found.subject.name, found.path) == ("digits.onnx", str(tmp_path / "nets" / "renamed.onnx"))
    assert found.subject.profile is not None and found.sha256 == sha256 and notes.sentences == []


def test_a_mistyped_file_is_named_and_the_counts_say_how_many_models_the_fit_used(capsys, tmp_path):
    with (tmp_path / "measured.csv").open("a") as table:
        table.write("z/resnet5O.onnx,,90,image\n")
    assert run(["calibrate", "phone", "--measurements", "measured.csv"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert told.startswith("Latency on phone is learnt from 5 of 6 measured models: off by ")
    assert (
        "not used: z/resnet5O.onnx (it was not measured on this machine with the calibration's engine). Latency by scale"
        in told
    )
    assert "Predict others: edgewise estimate TABLE.csv -d phone, a table" in told
    assert "No such file was found, so that nothing but the name is known: z/resnet5O.onnx." in told
    assert run(["estimate", "--devices", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["calibrated"]
    assert (found["models"], found["measured"]) == ({"latency": 5}, {"latency": 6})
    assert run(["devices", "list"]) == 0
    assert "Latency: 5 of 6" in capsys.readouterr().out
    assert run(["calibrate", "phone", "--measurements", "measured.csv", "-o", "c.csv", "--json"]) == 0
    assert {law["n"] for law in json.loads(capsys.readouterr().out)["metrics"]["latency"]["laws"]} == {0, 5}
    head, *lines = (tmp_path / "c.csv").read_text().splitlines()
    assert head == "Model,Host (s),Measured (s),Predicted without it (s),Off,Notes"
    assert lines[0].startswith("MobileNetV1,0.0121,0.045,0.")
    last = "Predicted without it: it was not measured on this machine with the calibration's engine"
    assert lines[5] == f"z/resnet5O.onnx,n/a,0.09,n/a,n/a,{last}"


def test_a_model_that_was_measured_on_the_device_is_told_so_with_its_value(capsys, tmp_path):
    assert run(["calibrate", "phone", "--measurements", "measured.csv"]) == 0
    (tmp_path / "both.csv").write_text("model,host_latency_ms\nEfficientNet,30\nnets/ResNet50,95\n")
    capsys.readouterr()
    assert run(["estimate", "both.csv", "-d", "phone", "-o", "e.csv", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [row["measured"] for row in document["estimates"]] == [None, 0.33]
    efficient, resnet = csv.DictReader((tmp_path / "e.csv").read_text().splitlines())
    assert list(efficient)[1] == "Latency (s)"
    row = document["estimates"][0]
    for name, end in (("Latency (s)", "value"), ("Latency (s) low", "low"), ("Latency (s) high", "high")):
        assert float(efficient[name]) == pytest.approx(row[end], rel=1e-9)
    assert (efficient["Measured (s)"], resnet["Measured (s)"]) == ("n/a", "0.33")
    assert run(["estimate", "both.csv", "-d", "phone"]) == 0
    first = " ".join(capsys.readouterr().out.splitlines()[:2])
    assert first.startswith("Latency measured on phone: nets/ResNet50, 330 ms. The estimates are what the law says.")


def test_a_host_engine_without_runs_is_an_error(capsys):
    assert run(["calibrate", "phone", "--measurements", "measured.csv", "--host", "tvm"]) == 2
    assert "no runs of the models with tvm" in capsys.readouterr().err


HERE = {"a": 0.0002, "b": 0.0005, "c": 0.0011, "d": 0.0042, "e": 0.0009}
"""Model → latency of its stored run on this machine, in s."""


def store_runs_here():
    base = next(run for run in all_runs() if run.status == "done" and run.value("latency"))
    with edgewise.open_store() as opened:
        for at, (name, latency) in enumerate(HERE.items()):
            job = replace(
                base.job,
                model=replace(base.job.model, name=name, path="", sha256=f"{at + 1:064x}"),
                target=replace(base.job.target, device="local", constraints=None),
                workload=replace(base.job.workload, batch=1),
            )
            rows = [replace(row, value=latency) if row.metric == "latency" else row for row in base.measurements]
            made = replace(base, id=f"{at + 1:026d}", job=job, measurements=tuple(rows), trust=Trust(grade="B"))
            opened.save(made)


def calibrated_by(tmp_path, capsys, *, expected=0, hosts=None, **cells):
    """What `calibrate` prints, as one line, for a device 4 times as slow; `cells` replace latencies, in µs."""
    rows = [
        f"{name},{1e6 * 4 * host if name not in cells else cells[name]:.6g},{(hosts or {}).get(name, 1e6 * host):.6g}\n"
        for name, host in HERE.items()
    ]
    (tmp_path / "both.csv").write_text("model,latency_us,host_latency_us\n" + "".join(rows))
    assert run(["calibrate", "ph", "--measurements", "both.csv"]) == expected
    told = capsys.readouterr()
    return " ".join((told.err if expected else told.out).split())


def test_host_values_that_stored_runs_contradict_are_told_before_the_law(capsys, tmp_path):
    store_runs_here()
    assert "contradicts" not in calibrated_by(tmp_path, capsys)
    thousandfold = {name: 1e9 * host for name, host in HERE.items()}
    told = calibrated_by(
        tmp_path, capsys, hosts=thousandfold, **{name: 4 * each for name, each in thousandfold.items()}
    )
    doubt = "host_latency_us contradicts this machine's stored runs of the same files (5 of 5 models with such runs: "
    assert doubt + "a has 200 ms, 1000 times the 200 µs stored, line 2 of both.csv" in told
    assert told.index(doubt) < told.index("Latency by ") and told.count(doubt) == 1
    told = calibrated_by(tmp_path, capsys, hosts={"b": 50})
    assert "(1 of 5 models with such runs: b has 50.0 µs, 1/10.0 of the 500 µs stored, line 3 of both.csv)" in told
    (tmp_path / "new.csv").write_text("model,host_latency_us\nnew,700\n")
    assert run(["estimate", "new.csv", "-d", "ph"]) == 0
    assert "1/10.0 of the 500 µs stored" in " ".join(capsys.readouterr().out.partition("───")[0].split())
    calibrated_by(tmp_path, capsys)
    (tmp_path / "new.csv").write_text("model,host_latency_ms\na,2\n")
    assert run(["estimate", "new.csv", "-d", "ph"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert told.count("a has 2.00 ms, 10.0 times the 200 µs stored, line 2 of new.csv") == 1
    assert told.index("host_latency_ms contradicts") < told.index("───")


def test_a_wrong_cell_is_named_with_both_values_its_line_and_what_contradicts_it(capsys, tmp_path):
    told = calibrated_by(tmp_path, capsys, hosts={"b": 0.5}, expected=2)
    assert "It has 2.00 ms on the device and 500 ns on this machine; line 3 of both.csv" in told
    assert "contradict" not in told
    store_runs_here()
    told = calibrated_by(tmp_path, capsys, hosts={"b": 0.5}, expected=2)
    assert "line 3 of both.csv; this machine's stored runs of it have 500 µs, so that host_latency_us is what" in told


def test_a_model_that_does_not_fit_is_named_before_the_law_and_by_each_estimate(capsys, tmp_path):
    assert "not fit the others" not in calibrated_by(tmp_path, capsys)
    first, _, _ = calibrated_by(tmp_path, capsys, b=200).partition("Latency by ")
    doubt = r"Latency of b does not fit the others \(measured 200 µs, the others let expect 2\.\d+ ms: 1/\d\S* of it; "
    assert (
        re.search(doubt, first) and "The calibration uses it all the same; without it, the others are off by" in first
    )
    (tmp_path / "new.csv").write_text("model,host_latency_us\nnew,700\n")
    assert run(["estimate", "new.csv", "-d", "ph"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert re.search(doubt, told.partition("───")[0]) and told.count("does not fit") == 1
    (tmp_path / "three.csv").write_text("model,latency_ms,host_latency_ms\nA,45,12.1\nB,415,11\nC,560,140\n")
    assert run(["calibrate", "ph", "--measurements", "three.csv", "--json"]) == 0
    (doubt,) = json.loads(capsys.readouterr().out)["doubts"]
    assert doubt.startswith("Latency of one of A, B and C does not fit the others")
    assert re.search(
        r"only B would fit if its value were divided by 10: .* off by \d\.\d % on .*, not \d+\.\d %\.", doubt
    )


def test_a_whole_column_in_another_unit_is_told_before_the_law(capsys, tmp_path):
    told = calibrated_by(tmp_path, capsys, **{name: 4e9 * host for name, host in HERE.items()})
    assert told.count("check that the latencies are in the unit") == 1
    assert told.index("The device takes 4000 times") < told.index("Latency by ")


def test_where_the_values_of_this_machine_are_from_is_told(capsys, tmp_path):
    assert "host is the value in the table. " in calibrated_by(tmp_path, capsys)
    store_runs_here()
    told = calibrated_by(tmp_path, capsys)
    assert "host is the value in the table; of models to predict it is " in told
    (tmp_path / "some.csv").write_text("model,latency_us,host_latency_us\na,800,200\nb,2000,\nc,4400,\n")
    for path, words in ((("some.csv"), "table of 1 of 3 models; of others "), ("none.csv", "host is ")):
        if path == "none.csv":
            (tmp_path / path).write_text("model,latency_us\na,800\nb,2000\nc,4400\n")
        assert run(["calibrate", "ph", "--measurements", path]) == 0
        told = " ".join(capsys.readouterr().out.split())
        assert words in told and "the newest run of the best grade of each model." in told
    assert "value in the table" not in told


def test_calibrated_devices_are_listed_and_removed(capsys):
    assert run(["calibrate", "phone", "--measurements", "measured.csv"]) == 0
    capsys.readouterr()
    assert run(["devices", "list"]) == 0
    assert "Latency: 5" in capsys.readouterr().out
    assert run(["estimate", "--devices", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["calibrated"]
    counts = {"models": {"latency": 5}, "measured": {"latency": 5}}
    assert found == {"name": "phone", **counts, "sources": ["measured.csv"], "reason": None}
    assert run(["devices", "rm", "phone"]) == 0
    assert run(["devices", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["calibrated"] == []
    assert run(["devices", "rm", "--calibration", "phone"]) == 2


def test_a_metric_that_nothing_relates_to_is_a_caution_beside_one_that_is_predicted(capsys, tmp_path):
    text = "model,host_latency_ms,latency_ms,energy_mJ\n" + "".join(f"{n},{n},{4 * n},{9 * n}\n" for n in range(1, 5))
    (tmp_path / "two.csv").write_text(text)
    assert run(["calibrate", "phone", "--measurements", "two.csv", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert list(document["metrics"]) == ["latency"]
    assert "energy is not predicted: nothing relates" in document["cautions"][-1]


def test_python_has_the_same_doors(tmp_path):
    found = edgewise.calibrate("phone", "measured.csv")
    assert found.choices["latency"].chosen.predictor.name == "scale"
    forecasts = edgewise.predict("new.csv", "phone", targets={"latency": 0.2})
    assert [row.subject.name for row in forecasts.of("latency")] == ["EfficientNet", "DenseNet"]
    assert edgewise.calibrate("other", "measured.csv", keep=False).name == "other"
    assert calibrations.names() == ["phone"]


def test_variants_for_a_calibrated_device_are_judged_by_its_predictions():
    """Its numbers are those of `estimate`; a model too far from the measured ones has a reason in their place."""
    edgewise.calibrate("phone", "measured.csv")
    judge = _find_judge(OptimizeRequest(model="new.csv", device="phone"), Context())
    assert judge is not None and (judge.device, judge.int8) == ("phone", False)
    Path("one.csv").write_text("model,host_latency_ms\nEfficientNet,30\n")
    Path("huge.csv").write_text("model,host_latency_ms\nHuge,9000\n")
    (wanted,) = edgewise.predict("one.csv", "phone").of("latency")
    found, huge = judge.estimate("one.csv"), judge.estimate("huge.csv")
    latency = found.metrics["latency"]
    assert wanted.prediction is not None and found.refused == ""
    assert (latency.value, latency.basis, latency.coverage) == (wanted.prediction.value, "estimated", 0.9)
    assert huge.metrics["latency"].value is None and huge.refused == huge.metrics["latency"].absent_because != ""


def with_times(run, **times):
    """`run` with these times: grade, moment, value in ms."""
    rows = [replace(row, value=times["ms"] / 1e3) if row.metric == "latency" else row for row in run.measurements]
    made = f"2026-03-{times['day']:02d}T00:00:00+00:00"
    return replace(
        run, id=f"{times['day']:026d}", measurements=tuple(rows), created_at=made, trust=Trust(grade=times["grade"])
    )


def test_of_the_runs_on_this_machine_the_newest_of_the_best_grade_is_taken(tmp_path):
    digits = edgewise.data.path("digits_cnn.onnx")
    base = next(run for run in all_runs() if run.status == "done" and run.value("latency"))
    model = replace(
        base.job.model, name=digits.name, path=str(digits), sha256=hashlib.sha256(digits.read_bytes()).hexdigest()
    )
    base = replace(base, job=replace(base.job, model=model, target=replace(base.job.target, device="local")))
    (tmp_path / "own.csv").write_text(f"model,latency_ms,host_latency_ms\n{digits},50,\nb,10,2\nc,15,3\n")
    with edgewise.open_store() as opened:
        opened.save(with_times(base, day=4, grade="D", ms=19.6))
    with pytest.raises(
        edgewise.BadInput, match=r"nothing relates .*digits_cnn.onnx.*; 1 of 1 run here has grade D and is not used"
    ):
        edgewise.calibrate("board", "own.csv", keep=False)
    with (tmp_path / "own.csv").open("a") as table:
        table.write("d,20,4\n")
    found = edgewise.calibrate("board", "own.csv", keep=False)
    assert found.points["latency"][0].subject.host is None
    assert Scale().lacking(found.points["latency"][0].subject).startswith("its runs on this machine have grade D")
    assert found.doubts[0].startswith("1 of 1 run here has grade D and is not used: a quieter machine")
    assert found.cautions[0] == found.doubts[0] and found.unmeasured == (str(digits),)
    with edgewise.open_store() as opened:
        opened.save(with_times(base, day=1, grade="B", ms=11.0))
        opened.save(with_times(base, day=2, grade="B", ms=11.6))
        opened.save(with_times(base, day=3, grade="C", ms=9.0))
    found = edgewise.calibrate("board", "own.csv", keep=False)
    assert found.points["latency"][0].subject.host == pytest.approx(0.0116)
    assert not any("grade D" in caution for caution in found.cautions)


def test_without_measurements_the_runs_of_the_device_in_the_store_are_taken(capsys, tmp_path):
    assert run(["calibrate", "phone"]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "has no finished runs of the device phone" in told and "runs import F --device phone" in told
    runs = read_runs(tmp_path / exported(tmp_path, "p.json", *[{"device": "phone"}] * 4))
    with edgewise.open_store() as opened:
        for at, each in enumerate(runs):
            each = with_times(each, day=at + 1, grade="B", ms=4.0 * (at + 1))
            opened.save(each)
            opened.save(replace(with_times(each, day=at + 11, grade="D", ms=99.0)))
            here = replace(each.job, target=replace(each.job.target, device="local"))
            opened.save(replace(with_times(each, day=at + 21, grade="B", ms=1.0 * (at + 1)), job=here))
    assert run(["calibrate", "phone", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    points = document["metrics"]["latency"]["points"]
    found = sorted(number for point in points for number in (point["value"], 4 * point["host"]))
    assert found == pytest.approx([0.004 * n for n in (1, 1, 2, 2, 3, 3, 4, 4)])
    assert document["sources"] == [f"runs of phone in {tmp_path / 'runs.db'}"] and document["replaced"] is None


LOG = """INFO: STARTING!
INFO: Num threads: [1]
INFO: Loaded model /data/local/tmp/{name}.tflite
INFO: count=200 first=5050 curr=4990 min=4800 max=6000 avg={average} std=100 p5=4850 median={average} p95=5200
INFO: Inference timings in us: Init: 12345, First inference: 9000, Warmup (avg): 5211.1, Inference (avg): {average}
"""


def test_a_folder_of_a_tools_outputs_is_related_to_the_models_in_another_folder(capsys, tmp_path):
    names = ["mobilenet-v1", "squeezenet-1.1", "resnet-18", "mobilenet-v2"]
    assert (
        run(["zoo", "build", *names, "--width", "0.5", "--resolution", "64", "--format", "tflite", "-o", "nets"]) == 0
    )
    (tmp_path / "logs").mkdir()
    for name, average in zip(names, (6100, 4400, 14900, 5000), strict=True):
        log = LOG.format(name=f"{name}-w0.5-r64", average=average)
        (tmp_path / "logs" / f"{name}.txt").write_text(log)
    (tmp_path / "logs" / "notes.txt").write_text("a hot day\n")
    capsys.readouterr()
    assert run(["calibrate", "phone", "--measurements", "logs", "--model-dir", "nets", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    points = document["metrics"]["latency"]["points"]
    assert sorted(point["value"] for point in points) == pytest.approx([0.0044, 0.005, 0.0061, 0.0149])
    assert all(point["profile"] is not None and point["precision"] == "float32" for point in points)
    told = document["cautions"]
    assert sum(" measured by " in caution for caution in told) == 1  # once for all models
    assert any("taken for the file of the same name" in caution for caution in told)
    assert any("notes.txt" in caution for caution in told)
    assert run(["calibrate", "phone", "--measurements", "nets"]) == 2
    assert "nets holds no measurements" in capsys.readouterr().err


def test_values_here_are_of_the_devices_engine_and_runs_of_grade_d_are_counted_first(capsys, tmp_path):
    """Outputs of TensorFlow Lite's tool beside runs here: all by OpenVINO, of LiteRT three of grade D, then none."""
    names = ["mobilenet-v1", "squeezenet-1.1", "resnet-18", "mobilenet-v2", "ds-cnn"]
    resolution = ["--resolution", "64"]
    assert run(["zoo", "build", *names[:4], "--width", "0.5", *resolution, "--format", "tflite", "-o", "nets"]) == 0
    assert run(["zoo", "build", names[4], "--format", "tflite", "-o", "nets"]) == 0
    files = sorted((tmp_path / "nets").glob("*.tflite"))
    assert len(files) == 5
    (tmp_path / "logs").mkdir()
    base = next(run for run in all_runs() if run.status == "done" and run.value("latency"))
    here = [2000.0, 1500.0, 5000.0, 1700.0, 300.0]
    for file, micros in zip(files[:4], here, strict=False):
        (tmp_path / "logs" / f"{file.stem}.txt").write_text(LOG.format(name=file.stem, average=2 * micros))

    def store(runtime, provider, grades, day, factor):
        with edgewise.open_store() as opened:
            for at, (file, grade) in enumerate(zip(files, grades, strict=True)):
                model = replace(
                    base.job.model,
                    name=file.name, path=str(file), sha256=hashlib.sha256(file.read_bytes()).hexdigest(),
                )  # fmt: skip
                spec = RuntimeSpec(name=runtime, provider=provider, threads=1)
                target = replace(base.job.target, device="local", constraints=None)
                job = replace(base.job, model=model, runtime=spec, target=target)
                off = factor * (1.5 if at % 2 else 1.0)
                times = {"day": day + at, "grade": grade, "ms": here[at] * off / 1e3}
                opened.save(with_times(replace(base, job=job), **times))

    def told(*command):
        capsys.readouterr()
        assert run([*command, "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert run([*command]) == 0
        return document, " ".join(capsys.readouterr().out.split())

    calibrate = ["calibrate", "phone", "--measurements", "logs", "--model-dir", "nets"]
    document, text = told(*calibrate)
    assert (document["runtime"], document["host"]) == ("litert/interpreter, 1 thread", "")
    assert "-r litert/interpreter' measures them here" in text and "Points Measured: logs. Kept" in text
    store("openvino", "cpu", "BBBBB", 1, 1.0)
    store("litert", "interpreter", "DDDBD", 11, 1.0)
    document, text = told(*calibrate)
    used = "3 of 4 runs here by litert/interpreter have grade D and are not used: a quieter machine"
    assert text.index(used) < text.index("Latency by ") and text.count("grade D and are not used") == 1
    assert (document["host_engine"], document["host_runs"], document["host_runs_grade_d"]) == (
        "litert/interpreter, 1 thread", 4, 3,
    )  # fmt: skip
    (said,) = [each for each in document["cautions"] if each.startswith("Without a value of this machine")]
    listed = f"{files[0].name}, {files[1].name} and {files[2].name}. "
    assert f": {listed}'edgewise bench" in said and "-r litert/interpreter --sessions 10'" in said
    assert f": 4 models ({files[0].name}, {files[1].name} and 2 others)." in text
    document, text = told("estimate", str(files[4]), "-d", "phone")
    assert text.index("4 of 5 runs here by litert/interpreter have grade D and") < text.index("Latency, estimated")
    assert text.count("grade D and are not used") == 1 and "-r openvino" not in text
    assert f"edgewise bench {files[4]} " in text
    store("litert", "interpreter", "BBBBB", 21, 1.0)
    document, text = told(*calibrate)
    points = document["metrics"]["latency"]["points"]
    assert document["runtime"] == "litert/interpreter, 1 thread" and "grade D" not in text
    assert [point["host"] for point in points] == pytest.approx([micros * (1.5 if at % 2 else 1.0) / 1e6
                                                                 for at, micros in enumerate(here[:4])])  # fmt: skip


def test_weights_that_are_stored_in_half_precision_are_predicted_as_the_same_network(tmp_path):
    pytest.importorskip("ai_edge_litert")
    for half in (False, True):
        net = NetworkWriter()
        source, shape = net.tensor("x", (1, 32, 32, 8)), (1, 32, 32, 8)
        made = net.convolution(source, "a", shape, 8, half=half)
        net.save(tmp_path / f"{'half' if half else 'full'}.tflite", inputs=[source], outputs=[made])
    full, half = (prediction._from_file(tmp_path / f"{name}.tflite").subject for name in ("full", "half"))
    assert (full.precision, half.precision) == ("float32", "float32 with float16 weights")
    assert full.profile == half.profile
    known = tuple(Point(subject=replace(full, host=at / 1e3), value=at / 100) for at in range(1, 5))
    calibration = Calibration(name="phone", points={"latency": known})
    rows = forecast(calibration, [replace(one, host=0.002) for one in (full, half)]).rows
    assert rows[0].prediction == rows[1].prediction is not None


def test_a_calibration_belongs_to_its_store_and_says_what_it_replaces(capsys, tmp_path, monkeypatch):
    other = str(tmp_path / "other.db")
    edgewise.open_store(other).close()
    assert run(["calibrate", "phone", "--measurements", "measured.csv", "--store", other]) == 0
    assert "replaces" not in capsys.readouterr().out
    assert (tmp_path / "other.calibrations" / "phone.json").is_file()
    assert run(["estimate", "new.csv", "-d", "phone"]) == 2
    for arguments, there in ((["--store", other], True), ([], False)):
        capsys.readouterr()
        assert run(["estimate", "--devices", *arguments]) == 0
        assert ("Calibrated devices" in capsys.readouterr().out) == there
    assert run(["estimate", "new.csv", "-d", "phone", "--store", other]) == 0
    assert "EfficientNet, 115 ms" in capsys.readouterr().out.splitlines()[0]
    assert [row.subject.name for row in edgewise.predict("new.csv", "phone", store=other).rows]
    monkeypatch.setenv("EDGEWISE_STORE", other)
    assert run(["calibrate", "phone", "--measurements", "measured.csv"]) == 0
    assert "This replaces the calibration phone (latency of 5 models, from measured.csv)." in " ".join(
        capsys.readouterr().out.split()
    )


@pytest.mark.long
def test_suggested_networks_are_written_with_a_table_and_then_calibrate_the_device(capsys, tmp_path):
    assert run(["calibrate", "phone", "--suggest", "3", "-o", "nets", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    files = [row["file"] for row in found["models"]]
    assert len(files) == len({row["family"] for row in found["models"]}) == 3
    rows = (tmp_path / "nets" / "measured.csv").read_text().splitlines()
    assert rows[0] == "model,latency_ms,family"
    assert found["steps"][-1]["step"] == "edgewise calibrate phone --measurements nets/measured.csv"
    works = [row["work"] for row in found["models"]]
    values = [f"{name},{work / 1e7 + 0.1:.3f},{family}" for (name, _, family), work in zip(
        (row.split(",") for row in rows[1:]), works, strict=True)]  # fmt: skip
    (tmp_path / "nets" / "measured.csv").write_text("\n".join([rows[0], *values]) + "\n")
    assert run(["calibrate", "phone", "--measurements", "nets/measured.csv"]) == 0
    capsys.readouterr()
    assert run(["calibrate", "phone", "--suggest", "2", "-o", "nets"]) == 0
    printed = capsys.readouterr().out
    assert "beside the 3 measured ones" in printed
    assert not any(file.removeprefix("nets/") in printed.split("Next")[0] for file in files)
    assert (tmp_path / "nets" / "measured.csv").read_text().endswith("\n".join(values) + "\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--suggest", "3", "--measurements", "measured.csv"], "--suggest and --measurements exclude each other"),
        (["--suggest", "3", "--method", "line"], "--suggest and --method exclude each other"),
        (["--suggest", "99"], "reference networks suit this device"),
        (["--suggest", "0"], "--suggest must be greater than or equal to 1, not 0"),
        (["--suggest", "3", "-o", "a", "-o", "b"], "--suggest writes to one folder, not 2"),
        ([], "no measurements given"),
    ],
)
def test_what_does_not_go_together_with_suggestions(capsys, tmp_path, arguments, words):
    assert run(["calibrate", "phone", *arguments]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "phone-models").exists()


def test_a_dry_run_of_a_suggestion_is_a_request(capsys, tmp_path):
    assert run(["calibrate", "phone", "--suggest", "3", "-o", "nets", "--dry-run"]) == 0
    assert "would run: edgewise calibrate phone --suggest 3 --output nets" in capsys.readouterr().out
    assert not (tmp_path / "nets").exists()
    capsys.readouterr()
    assert run(["calibrate", "phone", "--suggest", "1", "-o", "nets", "--dry-run", "--json"]) == 0
    (tmp_path / "request.json").write_text(capsys.readouterr().out)
    assert run(["run", "request.json", "-o", "report.md"]) == 2
    assert "a suggestion has no report" in capsys.readouterr().err
    assert run(["run", "request.json", "--json"]) == 0
    (model,) = json.loads(capsys.readouterr().out)["models"]
    assert model["file"] == str(tmp_path / "nets" / "autoencoder-w0.5.onnx")


@pytest.mark.engine
def test_exported_runs_beside_the_networks_calibrate_a_device(capsys, tmp_path):
    pytest.importorskip("onnxruntime")
    assert run(["zoo", "build", "ds-cnn", "autoencoder", "resnet-8", "-o", "nets"]) == 0
    files = [f"nets/{name}.onnx" for name in ("ds-cnn", "autoencoder", "resnet-8")]
    bench = ["bench", *files, "-r", "onnxruntime", "--iterations", "20", "--sessions", "1", "-q"]
    assert run([*bench, "-o", "nets/measured.json"]) == 0
    with edgewise.open_store() as opened:  # whatever else this machine does
        for each in opened.resolve(["all"]):
            opened.save(replace(each, trust=Trust(grade="B")))
    capsys.readouterr()
    assert run(["calibrate", "phone", "--measurements", "nets/measured.json", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    points = found["metrics"]["latency"]["points"]
    assert [point["profile"] is None for point in points] == [False] * 3
    assert all(point["value"] == point["host"] for point in points)  # this machine is the device
    (tmp_path / "nets" / "measured.json").rename(tmp_path / "alone.json")
    assert run(["calibrate", "phone", "--measurements", "alone.json", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found["metrics"]) == ["latency", "memory_peak"]  # by the stored runs alone: the files are not beside it
    points = found["metrics"]["memory_peak"]["points"]
    assert all(point["value"] == point["host"] > 1e6 and point["profile"] is None for point in points)


@pytest.mark.long
@pytest.mark.engine
def test_suggested_networks_as_tflite_for_a_registered_device(capsys, tmp_path, monkeypatch):
    pytest.importorskip("ai_edge_litert")
    monkeypatch.setenv("EDGEWISE_DEVICES", str(tmp_path / "devices.toml"))
    assert run(["devices", "add", "phone", "ssh://me@phone"]) == 0
    assert run(["calibrate", "phone", "--suggest", "1", "-o", "nets", "--format", "tflite", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (model,) = [row["file"] for row in found["models"]]
    assert [(row["where"], row["step"]) for row in found["steps"]] == [
        ("on this machine", f"edgewise bench {model}"),
        ("on phone", f"edgewise bench {model} -d phone -o nets/measured.json"),
        ("then", "edgewise calibrate phone --measurements nets/measured.json"),
    ]
    assert [path.suffix for path in sorted((tmp_path / "nets").iterdir())] == [".tflite", ".csv"]
    assert run(["calibrate", "phone", "--suggest", "1", "--format", "ncnn"]) == 2
    assert run(["calibrate", "phone", "--measurements", "measured.csv", "--format", "tflite"]) == 2
    assert "--format applies only to --suggest" in capsys.readouterr().err


def test_a_table_without_an_engine_asks_for_a_table_of_the_new_model(capsys, tmp_path):
    (tmp_path / "three.csv").write_text("model,latency_ms,host_latency_ms\nA,25,10\nB,51,20\nC,99,40\n")
    assert run(["calibrate", "ph", "--measurements", "three.csv"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert (
        "Predict others: edgewise estimate TABLE.csv -d ph, a table with the columns of this machine's values" in text
    )
    assert run(["estimate", str(edgewise.data.path("digits_cnn.onnx")), "-d", "ph"]) == 4
    assert "ph was learnt from does not name the engine" in (told := capsys.readouterr().err)
    assert "estimate a table with the columns of these values, such as model,host_latency_ms" in told
    (tmp_path / "new.csv").write_text("model,host_latency_ms\nD,30\n")
    assert run(["estimate", "new.csv", "-d", "ph"]) == 0
    assert capsys.readouterr().out.startswith("Latency on ph: D, ")


def test_the_engine_of_a_tables_values_of_this_machine_is_named_and_its_stored_runs_are_taken(capsys, tmp_path):
    digits = edgewise.data.path("digits_cnn.onnx")
    base = next(run for run in all_runs() if run.status == "done" and run.value("latency"))
    model = replace(
        base.job.model, name=digits.name, path=str(digits), sha256=hashlib.sha256(digits.read_bytes()).hexdigest()
    )
    job = replace(base.job, model=model, target=replace(base.job.target, device="local"))
    rival = replace(job, runtime=replace(job.runtime, name="openvino", provider="cpu"))
    with edgewise.open_store() as opened:
        opened.save(with_times(replace(base, job=job), day=1, grade="B", ms=30.0))
        opened.save(with_times(replace(base, job=rival), day=2, grade="A", ms=90.0))
    (tmp_path / "three.csv").write_text("model,latency_ms,host_latency_ms\nA,25,10\nB,51,20\nC,99,40\n")
    unnamed = edgewise.calibrate("ph", "three.csv")
    assert unnamed.runtime == "" and any("No engine is named" in each for each in unnamed.cautions)
    engine = engine_text(job)
    assert engine.startswith("onnxruntime/cpu, 1 thread")
    named = edgewise.calibrate("ph", "three.csv", host=engine)
    assert named.runtime == engine and not any("No engine is named" in each for each in named.cautions)
    (row,) = edgewise.predict(digits, "ph").rows
    assert row.subject.host == pytest.approx(0.030)


def test_an_interval_that_says_nothing_is_not_printed(capsys, tmp_path):
    (tmp_path / "three.csv").write_text("model,latency_ms,host_latency_ms\nA,31,12\nB,1060,41\nC,13.9,5.2\n")
    assert run(["calibrate", "ph", "--measurements", "three.csv"]) == 0
    (tmp_path / "new.csv").write_text("model,host_latency_ms\nD,0.258\n")
    capsys.readouterr()
    assert run(["estimate", "new.csv", "-d", "ph", "--anyway"]) == 4
    captured = capsys.readouterr()
    assert "spans more than a factor of 1,000: that predicts nothing" in captured.err and "e+" not in captured.out


def test_a_law_that_says_nothing_so_far_away_gives_way_to_the_next(capsys, tmp_path):
    """A line that is off by 2 % predicted nothing for a model of a twentieth; --anyway promised a wider interval."""
    (tmp_path / "three.csv").write_text("model,latency_ms,host_latency_ms\nA,31,12\nB,106,41\nC,13.9,5.2\n")
    assert run(["calibrate", "ph", "--measurements", "three.csv"]) == 0
    assert "by line" in capsys.readouterr().out
    (tmp_path / "new.csv").write_text("model,host_latency_ms\nD,0.256\n")
    assert run(["estimate", "new.csv", "-d", "ph", "--anyway"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "The better law line predicts nothing for a model so unlike the measured ones; power does." in text
    assert "errors of the law power, as line can't be used for it: off by 2.1 % on average" in text
