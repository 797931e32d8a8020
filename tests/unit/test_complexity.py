"""What every run says of its model without running it."""

from __future__ import annotations

import pytest

import edgewise
from edgewise.data import path
from edgewise.record import InputSpec, Job, ModelRef, RuntimeSpec, Workload
from edgewise.run.complexity import COUNTED, complexity_of, file_precision
from edgewise.testing import write_fake_model
from messages import wording


def job(model, *inputs: InputSpec) -> Job:
    reference = ModelRef(name=model.name, path=str(model), format="onnx", sha256="0" * 64, size_bytes=1)
    return Job(model=reference, runtime=RuntimeSpec(name="fake"), workload=Workload(inputs=inputs))


@pytest.mark.parametrize("batch", [1, 4])
def test_the_counts_are_those_of_inspect(batch):
    model, shape = path("digits_cnn.onnx"), (batch, 1, 32, 32)
    rows = {row.metric: row for row in complexity_of(job(model, InputSpec(name="image", shape=shape, dtype="float32")))}
    inspection = edgewise.inspect(model, shapes={"image": shape})
    total = inspection.total
    assert tuple(rows) == COUNTED
    assert [row.value for row in rows.values()] == [
        total.parameters, total.weight_bytes, total.macs, total.ops, total.depth,
        inspection.plan.lower_bound_bytes,
    ]  # fmt: skip
    assert {row.basis for row in rows.values()} == {"derived"}


def test_a_network_that_cannot_be_read_is_absent_with_the_reason(tmp_path):
    model = tmp_path / "model.fake"
    write_fake_model(model)
    rows = complexity_of(job(model))
    assert {row.value for row in rows} == {None}
    assert all(wording("script-no-object-graph") in row.absent_because for row in rows)


def test_the_precision_of_the_file_is_told_where_its_network_can_be_read(tmp_path):
    model = path("digits_cnn.onnx")
    assert file_precision(job(model, InputSpec(name="image", shape=(1, 1, 32, 32), dtype="float32"))) == {
        "file_precision": "float32"
    }
    write_fake_model(tmp_path / "model.fake")
    assert file_precision(job(tmp_path / "model.fake")) == {}
