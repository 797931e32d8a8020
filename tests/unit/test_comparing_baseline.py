"""The baseline's model is the very same file or none, and what is measured like a baseline is measured like it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgewise.comparing.jobs import JobSettings, find_model, make_job, make_job_like
from edgewise.errors import BadInput, BadModel
from edgewise.model.identity import open_model
from edgewise.record import Run, Scenario, Stopping
from edgewise.runtime.fake import FakeRuntime
from edgewise.testing import write_fake_model
from messages import says, wording
from sample_runs import make_run

OPEN = [{"name": "x", "shape": [None, "time", 4], "dtype": "float32"}]


@pytest.fixture
def model(tmp_path) -> Path:
    return write_fake_model(tmp_path / "m.fake", latency_ns=[1000])


def run_of(model: Path, **changes) -> Run:
    ref = replace(open_model(model).ref, **changes)
    base = make_run(1)
    return replace(base, job=replace(base.job, model=ref))


def test_the_recorded_path_is_looked_at_first_and_the_bundles_folder_next(model, tmp_path):
    assert find_model(run_of(model)).path == model
    gone = run_of(model, path=str(tmp_path / "gone" / "m.fake"))
    assert find_model(gone).path is None
    assert find_model(gone).because == f"none at {tmp_path}/gone/m.fake"
    assert find_model(gone, beside=tmp_path).path == model
    assert find_model(run_of(model, path="", name="")).because == wording("record-does-not-say-where")


def test_another_content_is_another_model(model, tmp_path):
    run = run_of(model)
    write_fake_model(model, latency_ns=[2000])
    found = find_model(run, beside=tmp_path)
    assert found.path is None
    assert found.because == f"{model} has changed since"
    with pytest.raises(BadInput, match=says("not-baseline-model-sha256-begins")):
        find_model(run, given=model)
    with pytest.raises(BadModel):
        find_model(run, given=tmp_path / "missing.fake")


def test_a_record_cannot_lead_out_of_the_bundles_folder(model, tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    run = run_of(model, path=str(tmp_path / "nowhere"), name="../m.fake")
    assert find_model(run, beside=inner).path is None
    shutil.copy(model, inner)
    assert find_model(run, beside=inner).path == inner / "m.fake"


def test_a_job_like_another_has_its_settings(tmp_path, monkeypatch):
    monkeypatch.setattr(FakeRuntime, "settings", ("some",), raising=False)
    first = write_fake_model(tmp_path / "a.fake", inputs=OPEN)
    second = write_fake_model(tmp_path / "b.fake", inputs=[OPEN[0] | {"name": "other"}])
    made = make_job(
        first,
        JobSettings(
            threads=3,
            batch=2,
            precision="bf16",
            shapes={"x": (2, 50, 4)},
            scenario=Scenario(kind="paced", fps=20.0),
            seed=7,
            stopping=Stopping(iterations=9, sessions=3),
        ),
    ).job
    made = replace(made, runtime=replace(made.runtime, options={"some": "option"}, threads=None))
    like = make_job_like(second, made, JobSettings()).job
    assert like.runtime == made.runtime
    assert like.workload.scenario == made.workload.scenario
    assert like.workload.stopping == made.workload.stopping
    assert (like.workload.seed, like.workload.batch) == (7, 2)
    # The only input of another name has the shape of the only input there.
    assert [spec.shape for spec in like.workload.inputs] == [(2, 50, 4)]
    other = make_job_like(
        second, made, JobSettings(threads=5, batch=1, precision="f16", seed=8, shapes={"": (1, 60, 4)})
    ).job
    assert (other.runtime.threads, other.runtime.precision, other.workload.seed) == (5, "f16", 8)
    assert [spec.shape for spec in other.workload.inputs] == [(1, 60, 4)]
    assert make_job_like(second, made, JobSettings(batch=3)).job.workload.inputs[0].shape == (3, 50, 4)


def test_inputs_that_do_not_fit_speak_for_themselves(tmp_path):
    first = make_job(write_fake_model(tmp_path / "a.fake", inputs=OPEN), JobSettings(shapes={"x": (1, 50, 4)})).job
    fixed = write_fake_model(tmp_path / "b.fake", inputs=[{"name": "x", "shape": [1, 9, 9], "dtype": "float32"}])
    assert make_job_like(fixed, first, JobSettings()).job.workload.inputs[0].shape == (1, 9, 9)
    narrow = write_fake_model(tmp_path / "c.fake", inputs=[{"name": "x", "shape": [None, "t", 5], "dtype": "float32"}])
    assert make_job_like(narrow, first, JobSettings()).job.workload.inputs[0].shape != (1, 50, 4)


def test_input_data_must_be_the_same_file(tmp_path):
    model = write_fake_model(tmp_path / "a.fake")
    data = tmp_path / "x.npz"
    np.savez(data, x=np.ones((1, 4), np.float32))
    job = make_job(model, JobSettings(input_data=data)).job
    assert make_job_like(model, job, JobSettings()).job.workload.input_data == job.workload.input_data
    np.savez(data, x=np.zeros((1, 4), np.float32))
    with pytest.raises(BadInput, match=says("input-data-baseline-sha256-not")) as caught:
        make_job_like(model, job, JobSettings())
    assert "--input-data" in caught.value.advice
    again = make_job_like(model, job, JobSettings(input_data=data)).job
    assert again.workload.input_data != job.workload.input_data


def test_where_the_engine_does_not_read_the_model_another_is_chosen(tmp_path, tiny_onnx):
    pytest.importorskip("onnxruntime")
    fake = make_job(write_fake_model(tmp_path / "a.fake"), JobSettings(threads=2, precision="bf16")).job
    job = make_job_like(tiny_onnx(), fake, JobSettings(runtime=None)).job
    assert job.runtime.name != "fake"
    assert (job.runtime.threads, job.runtime.precision) == (2, None)
