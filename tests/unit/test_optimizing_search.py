"""Which quantised variant gets layers spared: one that may be the fast one, though a slow one kept its outputs."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from edgewise.optimizing import preflight
from edgewise.optimizing.base import Capabilities, EngineSettings, Recipe
from edgewise.optimizing.planning import PlannedTask, Source
from edgewise.optimizing.preflight import in_turns
from edgewise.optimizing.search import Search
from edgewise.optimizing.variant import ORIGINAL, Bound, Candidate, MetricValue, Prediction
from edgewise.record import RuntimeSpec
from sample_runs import make_run


class Static:
    name = "static"
    capabilities = Capabilities(
        kind="quantisation", reads=("onnx",), writes="onnx", calibrates=True, keeps_float=True, arithmetic="int8"
    )


class Dynamic(Static):
    name = "dynamic"
    capabilities = Capabilities(kind="quantisation", reads=("onnx",), writes="onnx", keeps_float=True)


def task(one, label=""):
    source = Source(variant=ORIGINAL, facts=None, model="m", format="onnx", digest="")
    return PlannedTask(one=one(), recipe=Recipe(label=label), source=source, engines=("fake",))


def checked(one, snr, *, alive, predicted=None, name=""):
    told = None if predicted is None else Prediction(speedup=predicted)
    return Candidate(
        id=name or one.name, parent=ORIGINAL, runtime=RuntimeSpec(name="fake"), stage="judged", predicted=told,
        metrics={"output_snr_worst": MetricValue(value=snr)}, task=task(one), job=object(), model=object(),
        rejected=not alive,
    )  # fmt: skip


def losing(*candidates, sensitivity="auto"):
    bound = Bound(metric="output_snr_worst", limit=20.0, words="--min-snr 20dB", upper=False)
    search = SimpleNamespace(
        _settings=SimpleNamespace(sensitivity=sensitivity, bounds=(bound,)),
        _found={one.id: one for one in candidates},
        _checks=SimpleNamespace(original=SimpleNamespace(metrics={})),
    )
    found = Search._find_losing(search)
    return None if found is None else found.id


@pytest.mark.parametrize(
    ("predicted", "spared"), [(None, "static"), (0.4, "static"), (1.3, None)]
)  # fmt: skip
def test_a_slow_variant_that_kept_its_outputs_does_not_stop_the_fast_one_from_being_mended(predicted, spared):
    """A mask network's dynamic int8 reached 23 dB at 0.38×, and static int8 with 17 dB was given up for it."""
    static = checked(Static, 17.0, alive=False, predicted=2.0)
    dynamic = checked(Dynamic, 23.0, alive=True, predicted=predicted)
    assert losing(static, dynamic) == spared


def test_of_those_that_lost_too_much_the_nearest_that_may_win_is_mended():
    far, near = checked(Static, 4.0, alive=False, name="far"), checked(Static, 17.0, alive=False, name="near")
    dynamic = checked(Dynamic, 19.0, alive=False)
    assert losing(far, near, dynamic) == "near"
    assert losing(near, checked(Static, 25.0, alive=True, name="good")) is None
    assert losing(near, sensitivity="off") is None
    assert losing(near, checked(Static, 25.0, alive=True, name="good"), sensitivity="on") == "good"


def test_the_pre_flight_is_asked_about_calibrated_passes_first():
    """Where its time did for one answer, that was about dynamic int8, for its name comes first."""
    asked = [task(Dynamic), task(Dynamic, "more"), task(Static), task(Static, "more")]
    assert [one.name for one in in_turns(asked)] == ["static", "dynamic", "static more", "dynamic more"]


def test_int8_that_may_win_is_made_before_what_seldom_does(monkeypatch):
    """Static int8 at 0.94× [0.83, 1.07] waited for dynamic int8 of which nothing was known, and had no time left."""
    told = {
        "static": Prediction(speedup=0.94, low=0.83, high=1.07),
        "static slow": Prediction(speedup=0.5, low=0.4, high=0.6),
        "static fast": Prediction(speedup=2.0, low=1.8, high=2.2),
    }
    unknown = Prediction(speedup=None, because="the time for the pre-flight was used up")
    monkeypatch.setattr(preflight, "Preflight", lambda *facts, **settings: None)
    monkeypatch.setattr(
        preflight, "_predict_task", lambda one, task, settings: {task.name: told.get(task.name, unknown)}
    )
    source = Source(variant=ORIGINAL, facts=SimpleNamespace(format="onnx"), model="m", format="onnx", digest="")
    asked = [(Dynamic, ""), (Static, "slow"), (Static, ""), (Static, "other"), (Static, "fast")]
    tasks = [replace(task(one, label), source=source) for one, label in asked]
    settings = SimpleNamespace(judge=None, races=True, budget_s=300.0, threads=None)
    ordered, _ = preflight.predict_tasks(tasks, settings, left=100.0)
    assert [one.name for one in ordered] == ["static fast", "static other", "static", "dynamic", "static slow"]


def test_precisions_of_an_engine_are_checked_on_the_given_files():
    """A time budget left out bf16, the engine's own default, while int8 was made and raced."""

    class Tuning:
        name = "tune"
        capabilities = Capabilities(kind="tuning", reads=("onnx",), writes="")

    source = Source(variant=ORIGINAL, facts=None, model="m", format="onnx", digest="")
    tasks = [
        PlannedTask(one=Tuning(), recipe=Recipe(label=f"openvino, {label}", settings=settings), source=source)
        for label, settings in (
            ("2 threads", EngineSettings(runtime="openvino", threads=2)),
            ("bf16", EngineSettings(runtime="openvino", precision="bf16")),
        )
    ]
    job = make_run(1).job
    known = {
        name: Candidate(id=name, parent=None, runtime=job.runtime, model=job.model, stage="judged", rejected=rejected,
                        job=replace(job, runtime=RuntimeSpec(name=engine)))
        for name, engine, rejected in (
            (ORIGINAL, "litert", False), ("original @ openvino", "openvino", False), ("b @ openvino", "openvino", True)
        )
    }  # fmt: skip
    checked: list[Candidate] = []
    search = SimpleNamespace(
        _settings=SimpleNamespace(judge=None, races=True, threads=None),
        _everything=known,
        _catalog=SimpleNamespace(choose=lambda source, **wanted: tasks),
        _source=lambda name: name,
        _check=checked.append,
    )
    Search._try_precisions(search)
    assert [one.id for one in checked] == ["original @ openvino, bf16"]
    search._settings.judge = object()  # for another device nothing is measured
    Search._try_precisions(search)
    assert len(checked) == 1


@pytest.mark.parametrize(
    ("alive", "readers", "races", "tried"),
    [
        (True, ("litert", "openvino"), True, ["original @ openvino"]),
        (False, ("litert", "openvino"), True, []),  # what was rejected does not race
        (True, ("litert",), True, []),  # that engine does not read the file as it was given
        (True, ("litert", "openvino"), False, []),
    ],
)
def test_the_unchanged_file_races_in_the_engine_of_an_int8_file_though_passes_were_named(alive, readers, races, tried):
    """With --passes the winner's engine and its precision were "not told apart"."""
    job = make_run(1).job
    original = Candidate(id=ORIGINAL, parent=None, runtime=RuntimeSpec(name="litert"), model=job.model, stage="judged",
                         job=job)  # fmt: skip
    files = [replace(checked(Static, 30.0, alive=alive, name=f"static @ {engine}"), runtime=RuntimeSpec(name=engine),
                     passes=("static",)) for engine in ("litert", "openvino")]  # fmt: skip
    known = {one.id: one for one in (original, *files)}
    asked: list[Candidate] = []
    search = SimpleNamespace(
        _settings=SimpleNamespace(judge=None, races=races), _everything=known, _found=known, _check=asked.append,
        _facts_of=lambda model: SimpleNamespace(runtimes=readers),
    )  # fmt: skip
    search._try_file = lambda *facts: Search._try_file(search, *facts)
    Search._try_unchanged(search)
    assert [one.id for one in asked] == tried
    assert all(one.model == job.model and not one.passes for one in asked)
