"""Files of one network: which are compared, in which layout, and what is said of them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace

import numpy as np
import pytest

from edgewise.comparing import files_agreement
from edgewise.comparing.files_agreement import compare_files
from edgewise.model.graph import Quantization
from edgewise.record import InputSpec, Measurement, ModelRef, Run
from edgewise.report.bench.answer import answer_of
from edgewise.run.agreement import compared_with
from graphs import graph, tensor
from messages import wording
from sample_runs import make_run

NETWORK = np.random.default_rng(0).normal(size=(5, 3 * 4 * 2))


def file_of(number: int, name: str, shape: tuple[int, ...], *, dtype: str = "float32", macs: float = 1e6) -> Run:
    """A run of a file of a network with one image as its input, which no other run was compared with."""
    run = make_run(number, model=ModelRef(name=name, path=f"/m/{name}", format="onnx", sha256=name, size_bytes=number))
    workload = replace(run.job.workload, inputs=(InputSpec(name="x", shape=shape, dtype=dtype),))
    rows = (row for row in run.measurements if not row.metric.startswith(("output_", "agreement_", "macs")))
    counted = Measurement.of("macs", macs, "counted", basis="derived")
    return replace(run, job=replace(run.job, workload=workload), measurements=(*rows, counted))


class FakeInference(AbstractContextManager["FakeInference"]):
    """The network, in the layout of the job's input; `FakeInference.errors` has what a file adds."""

    errors: dict[str, float] = {}

    def __init__(self, job, *, builder):
        del builder
        self.job = job

    def __exit__(self, *error):
        return None

    def infer(self, feeds):
        ((array,),) = feeds
        assert array.shape == self.job.workload.inputs[0].shape and array.dtype == self.job.workload.inputs[0].dtype
        real = array.astype(np.float64)
        if array.dtype == np.int8:
            real = (real + 128) / 255
        image = real if array.shape[1] == 3 else real.transpose(0, 3, 1, 2)
        return [[(NETWORK @ image.reshape(-1) + self.errors.get(self.job.model.name, 0.0)).astype("float32")[None]]]


@pytest.fixture(autouse=True)
def networks(monkeypatch):
    scale = Quantization(scale=1 / 255, zero_point=-128)

    def read(model):
        own = {"quantization": scale} if "int8" in model.name else {}
        return graph([tensor("x", 1, **own), tensor("y", 1)], [], inputs=("x",), outputs=("y",))

    monkeypatch.setattr(files_agreement, "Inference", FakeInference)
    monkeypatch.setattr(files_agreement, "read_graph", read)
    monkeypatch.setattr(files_agreement, "reduced_precision", lambda graph: "")
    monkeypatch.setattr(FakeInference, "errors", {})


def words(runs: list[Run]) -> list[str]:
    saved: list[Run] = []
    found = compare_files(runs, saved.append)
    changed = [run for run, before in zip(found, runs, strict=True) if run != before]
    assert [run.id for run in saved] == [run.id for run in changed]
    return [line for line in answer_of(found) if line.startswith("Outputs: ")]


def test_the_channels_are_moved_to_where_a_file_has_them():
    (line,) = words([file_of(1, "a.onnx", (1, 3, 4, 2)), file_of(2, "a.tflite", (1, 4, 2, 3))])
    assert line.startswith("Outputs: a.tflite agrees with a.onnx within ")


@pytest.mark.parametrize(
    ("share", "told"),
    [
        (9.01e-7, "0.901 parts per million"),
        (1e-5, "10 parts per million"),
        (0.0038, "0.380 %"),
        (2.0, "200 %"),
        (0.0, "at most 0.1 parts per million"),
        (3e-8, "at most 0.1 parts per million"),
    ],
)
def test_the_difference_is_the_measured_one_and_what_cannot_be_told_is_at_most(share, told):
    own = file_of(2, "a.tflite", (1, 4, 2, 3))
    own = replace(own, measurements=(Measurement.of("output_max_rel_error", share, compared_with("a.onnx")),))
    (line,) = (line for line in answer_of([file_of(1, "a.onnx", (1, 3, 4, 2)), own]) if line.startswith("Outputs: "))
    assert line == f"Outputs: a.tflite agrees with a.onnx within {told} of their scale"


def test_int8_values_stand_for_the_same_reals():
    (line,) = words([file_of(1, "a_int8.tflite", (1, 4, 2, 3), dtype="int8"), file_of(2, "a.onnx", (1, 3, 4, 2))])
    assert "a_int8.tflite" in line and "a.onnx" in line and "not compared" not in line


def test_a_file_that_computes_something_else_is_named_and_how_far(monkeypatch):
    monkeypatch.setattr(FakeInference, "errors", {"b.onnx": 2.0})
    shape = (1, 3, 4, 2)
    (line,) = words([file_of(1, "a.onnx", shape), file_of(2, "b.onnx", shape)])
    assert line.startswith("Outputs: b.onnx differs from a.onnx by ") and line.endswith(" % of their scale")


def test_other_networks_and_sizes_are_not_compared():
    shape = (1, 3, 4, 2)
    assert words([file_of(1, "a.onnx", shape), file_of(2, "b.onnx", shape, macs=2e6)]) == []
    assert words([file_of(1, "a.onnx", shape), file_of(2, "b.onnx", (1, 3, 8, 8))]) == []
    assert words([file_of(1, "a.onnx", shape)]) == []


def test_why_files_could_not_be_compared_is_said(monkeypatch):
    shape = (1, 3, 4, 2)
    other = file_of(2, "b.tflite", (1, 4, 2, 3), dtype="uint8")
    (line,) = words([file_of(1, "a.onnx", shape), other])
    assert line == "Outputs: b.tflite not compared with those of a.onnx: no scale is known of its uint8 inputs"


def test_sizes_that_were_assumed_stand_in_the_first_lines():
    run = file_of(1, "a.onnx", (1, 3, 224, 224))
    spec = replace(run.job.workload.inputs[0], note="open dimension 2 taken as 224 (a height)")
    run = replace(run, job=replace(run.job, workload=replace(run.job.workload, inputs=(spec,))))
    assert answer_of([run])[1] == wording(
        "assumed-other-sizes-take-other", enumerate_few="x 1×3×224×224", advice=" → set yours: --shape x=1x3x224x224"
    )
