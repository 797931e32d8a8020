"""The newest values of a model."""

import random
from dataclasses import replace
from datetime import datetime

import pytest

from edgewise.record import Measurement
from edgewise.store.trends import Trend
from random_runs import random_run
from stores import DATABASES, new_store


@pytest.fixture(params=DATABASES)
def store(request, tmp_path):
    with new_store(request.param, tmp_path) as opened:
        yield opened


def with_energy(run, value):
    energy = Measurement(metric="energy", unit="J", basis="measured", method="m", value=value, low=0.5)
    return replace(run, measurements=(*run.measurements, energy))


def test_a_trend_has_the_newest_values_of_a_whole_name(store):
    choose = random.Random(6)
    stored = [with_energy(random_run(number, choose), 1.5 if number % 3 else None) for number in range(240)]
    stored.append(replace(stored[0], id="longer", job=replace(stored[0].job, model=replace(stored[0].job.model, name="net_a.onnx2"))))  # fmt: skip
    store.merge(stored)
    for metric in (None, "latency", "energy"):
        for wanted in ({}, {"runtime": "litert"}, {"runtime": "onnxruntime", "device": "pi"}):
            expected = []
            for run in stored:
                row = run.measurement(metric or run.headline)
                settings = {"runtime": run.job.runtime.name, "device": run.job.target.device}
                chosen = run.job.model.name == "net_a.onnx" and wanted.items() <= settings.items()
                if chosen and run.status == "done" and row is not None and row.value is not None:
                    moment = datetime.fromisoformat(run.created_at)
                    expected.append((moment, run.id, row.metric, row.value, row.low, row.high, row.unit, row.basis))
            expected.sort(reverse=True)
            found = store.trend("net_a.onnx", metric=metric, **wanted)
            assert [
                (datetime.fromisoformat(p.created_at), p.id, p.metric, p.value, p.low, p.high, p.unit, p.basis)
                for p in found.points
            ] == expected
            assert len(expected) > 1 and not found.more
            cut = store.trend("net_a.onnx", metric=metric, limit=len(expected) - 1, **wanted)
            assert cut == Trend(points=found.points[:-1], more=True)
    assert store.trend("net_a") == Trend(points=(), more=False)
