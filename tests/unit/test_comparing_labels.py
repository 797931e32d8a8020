"""Short names for what is compared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.comparing.labels import MOST_LETTERS, label_jobs
from edgewise.record import Constraints, Job, ModelRef, Origin, RuntimeSpec, Scenario, TargetSpec, Workload
from edgewise.record.names import model_names

HERE = Path.cwd()


def job_of(name: str = "m.onnx", *, folder: str = "/models", sha: str = "a" * 64, **facts) -> Job:
    runtime = {"name": "onnxruntime", "provider": "cpu", "threads": 1, "precision": None}
    workload = {"scenario": Scenario(), "batch": 1}
    return Job(
        model=ModelRef(name=name, path=f"{folder}/{name}", format="onnx", sha256=sha, size_bytes=1),
        runtime=RuntimeSpec(**{key: facts.get(key, value) for key, value in runtime.items()}),
        target=TargetSpec(device=facts.get("device", "local")),
        workload=Workload(**{key: facts.get(key, value) for key, value in workload.items()}),
    )


def labels(*jobs: Job, given: tuple[str | None, ...] = (), hints: tuple[str, ...] = ()) -> list[str]:
    names = given or (None,) * len(jobs)
    return label_jobs(jobs, names, hints=hints)


@pytest.mark.parametrize(
    ("jobs", "wanted"),
    [
        ([job_of("a.onnx"), job_of("b.onnx")], ["a.onnx", "b.onnx"]),
        ([job_of(threads=1), job_of(threads=2)], ["1 thread", "2 threads"]),
        ([job_of(threads=None), job_of(threads=4)], ["own threads", "4 threads"]),
        ([job_of(), job_of(provider="xnnpack")], ["onnxruntime/cpu", "onnxruntime/xnnpack"]),
        ([job_of(), job_of(name="m.onnx", batch=8)], ["batch 1", "batch 8"]),
        ([job_of(), job_of(precision="bf16")], ["own precision", "bf16"]),
        ([job_of(), job_of(scenario=Scenario(kind="offline"))], ["single-stream", "offline"]),
        ([job_of(), job_of(device="pi")], ["local", "pi"]),
        # Of one name, in two places: as few folders as tell them apart, from the working folder as people type them.
        ([job_of(folder="/old"), job_of(folder="/new", sha="b" * 64)], ["old/m.onnx", "new/m.onnx"]),
        ([job_of(folder="/a/old/x"), job_of(folder="/a/new/x")], ["old/x/m.onnx", "new/x/m.onnx"]),
        ([job_of(folder=f"{HERE}/new"), job_of(folder=str(HERE), sha="b" * 64)], ["new/m.onnx", "m.onnx"]),
        ([job_of(folder="/tmp/edgewise-build-1"), job_of(folder="/tmp/edgewise-build-2")], ["m.onnx #1", "m.onnx #2"]),
        ([job_of(), job_of()], ["m.onnx #1", "m.onnx #2"]),
        ([job_of()], ["m.onnx"]),
        ([], []),
        # Only where a word tells something apart is it said.
        (
            [job_of("a.onnx", threads=1), job_of("a.onnx", threads=2), job_of("b.onnx", threads=1)],
            ["a.onnx · 1 thread", "a.onnx · 2 threads", "b.onnx"],
        ),
    ],
)
def test_just_what_tells_them_apart(jobs, wanted):
    assert labels(*jobs) == wanted


def test_one_file_after_another_at_one_place_is_told_by_its_hash_where_nothing_else_tells():
    jobs = [job_of(), job_of(sha="b" * 64)]
    assert labels(*jobs, hints=("main", "last")) == ["main", "last"]
    assert model_names([job.model for job in jobs]) == ["m.onnx (sha256 aaaaaaaa)", "m.onnx (sha256 bbbbbbbb)"]


def test_networks_of_functions_have_the_folder_of_the_file_with_the_function():
    models = [
        replace(job_of("net-make", folder="/tmp/edgewise-build-1").model, origin=Origin(target=target, sha256=target))
        for target in ("old/net.py:make", "new/net.py:make")
    ]
    assert model_names(models) == ["old/net-make", "new/net-make"]
    assert model_names([replace(models[0], origin=Origin(target="net.py:make", sha256="a")), models[1]]) == [
        "net-make", "new/net-make",
    ]  # fmt: skip


def test_a_name_that_every_exporter_gives_has_its_folder_beside_other_names():
    int8 = job_of("model.onnx", folder="out/ort-static").model
    assert model_names([int8, job_of("net.onnx").model]) == ["ort-static/model.onnx", "net.onnx"]
    assert model_names([int8, int8]) == ["model.onnx", "model.onnx"]


def test_limits_tell_runs_of_one_program_apart_without_dates():
    limits = Constraints(cpus=0.3, memory_bytes=200_000_000)
    jobs = [replace(job_of(), target=TargetSpec(constraints=each)) for each in (limits, None)]
    assert labels(*jobs, hints=("monday", "tuesday")) == ["0.3 processors, 200 MB (191 MiB)", "no limits"]


def test_hints_come_last():
    assert labels(job_of(), job_of(), hints=("monday", "tuesday")) == ["monday", "tuesday"]
    assert labels(job_of("a"), job_of("b"), hints=("monday", "tuesday")) == ["a", "b"]
    assert labels(job_of(), job_of(), hints=("monday", "monday")) == ["m.onnx #1", "m.onnx #2"]


def test_given_names_win():
    assert labels(job_of(), job_of(), given=("before", None)) == ["before", "m.onnx"]
    assert labels(job_of("a"), job_of("b"), given=("before", "after")) == ["before", "after"]


def test_a_name_that_was_given_for_several_is_numbered():
    assert labels(job_of(), job_of(), given=("all", "all")) == ["all #1", "all #2"]


def test_a_made_name_does_not_take_a_given_one():
    found = labels(job_of("a.onnx"), job_of("b.onnx"), given=(None, "a.onnx"))
    assert len(set(found)) == 2


def test_a_given_name_that_looks_like_a_number_stays_what_it_is():
    found = labels(job_of(), job_of(), job_of("n.onnx"), given=(None, None, "m.onnx #1"))
    assert found[2] == "m.onnx #1" and len(set(found)) == 3


def test_long_names_are_cut_and_stay_apart():
    jobs = [job_of("x" * 200 + end) for end in ("a", "b")]
    found = labels(*jobs)
    assert len(set(found)) == 2 and all(len(label) < MOST_LETTERS + 5 for label in found)


def test_hostile_names_are_one_line():
    found = labels(job_of("a\nb\x1b[31m\r\t.onnx"), job_of("<script>\x00\u202e.onnx"))
    assert all(label.isprintable() and label for label in found)


@pytest.mark.parametrize("name", ["", " ", "\n"])
def test_a_model_without_a_name_has_a_label_to_be_seen(name):
    assert labels(job_of(name))[0].strip()


NAMES = st.sampled_from(["m", "m #1", "m #2", "a", "a\n", "x" * 80, "x" * 81, "[red]", "1 thread"])
JOBS = st.builds(
    lambda name, folder, sha, threads, batch: job_of(name, folder=folder, sha=sha * 64, threads=threads, batch=batch),
    NAMES,
    st.sampled_from(["/a", "/b", "/a/b", ""]),
    st.sampled_from("ab"),
    st.sampled_from([None, 1, 2]),
    st.sampled_from([1, 8]),
)


@given(st.lists(st.tuples(JOBS, st.none() | NAMES.filter(str.strip)), max_size=8))
def test_all_labels_differ_and_are_in_the_order_of_the_jobs(pairs):
    jobs, given = [job for job, _ in pairs], [name for _, name in pairs]
    found = label_jobs(jobs, given)
    assert len(found) == len(set(found)) == len(jobs)
    assert all(label.strip() for label in found)
    for label, name in zip(found, given, strict=True):
        assert name is None or label.startswith(name)


@given(st.lists(JOBS, max_size=6))
def test_labels_do_not_hang_on_what_nobody_sees(jobs):
    later = [replace(job, workload=replace(job.workload, seed=7)) for job in jobs]
    assert label_jobs(jobs, [None] * len(jobs)) == label_jobs(later, [None] * len(jobs))
