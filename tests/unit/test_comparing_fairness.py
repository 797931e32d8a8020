"""What may be compared with what."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgewise.comparing.comparison import Variant
from edgewise.comparing.fairness import check_fairness, check_jobs, is_together
from edgewise.record import Constraints, InputSpec, Scenario, TargetSpec
from edgewise.store.codec import decode, encode
from sample_runs import GROUP, KWS, VWW, failed_run, make_run, offline_run


def variants(*runs):
    return [Variant(label="ABCD"[index], run=run) for index, run in enumerate(runs)]


def check(*runs):
    return check_fairness(variants(*runs))


def with_workload(run, **changes):
    return replace(run, job=replace(run.job, workload=replace(run.job.workload, **changes)))


def with_inputs(run, *shapes, dtype="float32"):
    return with_workload(
        run, inputs=tuple(InputSpec(name=f"i{index}", shape=shape, dtype=dtype) for index, shape in enumerate(shapes))
    )


def with_runtime(run, **changes):
    return replace(run, job=replace(run.job, runtime=replace(run.job.runtime, **changes)))


def with_outputs(run, *shapes):
    told = [{"name": f"o{index}", "shape": list(shape), "dtype": "float32"} for index, shape in enumerate(shapes)]
    return replace(run, effective=run.effective | {"outputs": told})


def in_turns(*runs, how="turns"):
    return [with_workload(run, interleave=how) for run in runs]


def test_processes_that_took_turns_on_one_file_leave_nothing_open():
    fairness = check(*in_turns(make_run(1), make_run(2, threads=2)))
    assert fairness.obstacles == fairness.not_excluded == fairness.notes == ()
    assert fairness.stated == ("threads: A 1, B 2",)


def test_files_of_one_name_differ_by_their_folders():
    model = replace(KWS, path="/nets/kws.onnx")
    runs = [make_run(1, model=model), make_run(2, model=replace(model, path="/nets/old/kws.onnx", sha256="e" * 64))]
    (line,) = check(*in_turns(*runs)).stated
    assert line == (
        "model: A nets/kws.onnx (onnx, 52.7 KiB, sha256 aaaaaaaa), B old/kws.onnx (onnx, 52.7 KiB, sha256 eeeeeeee)"
    )


@pytest.mark.parametrize(
    ("other", "obstacle"),
    [
        (
            with_inputs(make_run(2), (1, 96, 96, 3)),
            "input shapes: A 1×49×10×1, B 1×96×96×3 (a different amount of input data)",
        ),
        (
            with_inputs(make_run(2), (1, 49, 10, 1), (1, 4)),
            "input shapes: A 1×49×10×1, B 1×49×10×1 and 1×4 (a different amount of input data)",
        ),
        (make_run(2, batch=8), "batch: A 1, B 8 (a different amount of work)"),
        (
            make_run(2, scenario=Scenario(kind="paced", fps=30.0)),
            "scenario: A single-stream, B paced 30 fps (a different scenario)",
        ),
        (
            make_run(2, scenario=Scenario(kind="offline", streams=2, requests=4)),
            "scenario: A single-stream, B offline 2 streams 4 requests (a different scenario)",
        ),
        (
            replace(make_run(2), job=replace(make_run(2).job, target=TargetSpec(device="pi5"))),
            "device: A local, B pi5 (a different machine)",
        ),
    ],
)
def test_obstacles_are_told_before_and_after_measuring(other, obstacle):
    assert check_jobs(make_run(1).job, other.job) == [obstacle]
    assert check(make_run(1), other).obstacles == (obstacle,)


def test_obstacles_before_measuring_use_the_labels_that_are_given():
    found = check_jobs(make_run(1).job, make_run(2, batch=8).job, labels=("old\n", "new"))
    assert found == ["batch: old 1, new 8 (a different amount of work)"]


def test_rates_of_arrival_that_read_alike_are_still_different_scenarios():
    a, b = (make_run(1, scenario=Scenario(kind="paced", fps=fps)) for fps in (30.0, 30.0000001))
    assert len(check_jobs(a.job, b.job)) == 1


def test_another_batch_is_one_obstacle_and_not_other_shapes_too():
    assert [text.split(":")[0] for text in check(make_run(1), make_run(2, batch=8)).obstacles] == ["batch"]


@pytest.mark.parametrize("shape", [(1, 1, 49, 10), (1, 49, 10), (49, 10), (1, 10, 49, 1)])
def test_another_layout_of_the_same_sizes_is_stated(shape):
    fairness = check(make_run(1), with_inputs(make_run(2), shape))
    assert fairness.obstacles == ()
    words = "×".join(map(str, shape))
    assert fairness.stated == (f"layout of the inputs: A 1×49×10×1, B {words}",)


def test_the_batch_is_no_size_of_the_input():
    a = with_inputs(make_run(1, batch=4), (4, 4, 7))
    assert check_jobs(a.job, with_inputs(a, (4, 7, 4)).job) == []
    assert len(check_jobs(a.job, with_inputs(a, (4, 7, 7)).job)) == 1


def test_inputs_in_another_order_are_the_same():
    a, b = with_inputs(make_run(1), (1, 4), (1, 6, 2)), with_inputs(make_run(2), (1, 2, 6), (1, 4))
    assert check_jobs(a.job, b.job) == []


def test_runs_without_inputs_are_not_refused_but_named():
    fairness = check(make_run(1), with_workload(make_run(2), inputs=()))
    assert fairness.obstacles == ()
    assert "other inputs: no input shapes in the record of B" in fairness.not_excluded


def test_another_task_is_refused_where_both_tell_their_outputs():
    a, b = with_outputs(make_run(1), (1, 12)), with_outputs(make_run(2, model=VWW), (1, 2))
    assert check(a, b).obstacles == ("outputs: A 1×12, B 1×2 (a different task)",)
    assert check(a, with_outputs(make_run(2, model=VWW), (12,))).obstacles == ()
    assert check(a, with_outputs(make_run(2, model=VWW), (1, 12), (1, 4))).obstacles != ()


@pytest.mark.parametrize(
    "told", [None, [], "text", [{"shape": None}], [{"shape": ["n", 2]}], [{"shape": [True]}], ["x"], [{}]]
)
def test_outputs_that_are_not_told_leave_the_task_open(told):
    silent = replace(make_run(2, model=VWW), effective={"outputs": told})
    fairness = check(*in_turns(with_outputs(make_run(1), (1, 12)), silent))
    assert fairness.obstacles == ()
    assert fairness.not_excluded == ("another task: no output shapes in the record of B",)


def test_one_file_has_one_task():
    assert check(*in_turns(with_outputs(make_run(1), (1, 12)), make_run(2, threads=2))).not_excluded == ()


def test_everything_that_is_the_point_of_a_comparison_is_stated_once():
    b = with_runtime(
        make_run(2, runtime="openvino", model=replace(KWS, name="kws8.tflite", format="tflite", sha256="c" * 64)),
        options={"x": 1},
    )
    b = with_inputs(b, (1, 49, 10, 1), dtype="int8")
    b = replace(b, effective=b.effective | {"engine_version": "2026.4", "precision": "bf16", "threads": 4})
    b = replace(b, job=replace(b.job, target=TargetSpec(memory_limit_bytes=2_000_000_000)))
    b = with_workload(b, input_data="d" * 64, stopping=replace(b.job.workload.stopping, warmup=0))
    assert check(make_run(1), b).stated == (
        "model: A kws.onnx (onnx, 52.7 KiB, sha256 aaaaaaaa), B kws8.tflite (tflite, 52.7 KiB, sha256 cccccccc)",
        "engine: A onnxruntime 1.2.3 (cpu), B openvino 2026.4 (cpu)",
        'engine settings: A none, B {"x": 1}',
        "threads: A 1, B 4",
        "types of the inputs: A float32, B int8",
        "input data: A random (seed 0), B file dddddddd",
        "memory limit: A none asked for, B 2 GB (1.86 GiB)",
        "warm-up: A until the times are stable, B 0 inferences",
        "precision: A f32, B bf16",
    )


def test_a_quantised_network_is_called_so():
    b = make_run(2)
    b = replace(b, effective=b.effective | {"precision_of_operators": {"i8": 12, "f32": 2}})
    assert check(make_run(1), b).stated == ("precision: A f32, B int8 + f32",)


def test_what_an_engine_does_not_report_is_no_difference():
    """float32 may be what the other one computes in, too; with 8-bit products it is known not to be."""
    a, b = make_run(1), make_run(2)
    silent = replace(b, effective=b.effective | {"precision": None})
    assert check(a, silent).stated == ()
    assert (
        check(a, replace(b, effective={}, job=replace(b.job, runtime=replace(b.job.runtime, threads=None)))).stated
        == ()
    )
    int8 = replace(silent, effective=silent.effective | {"precision_of_products": {"i8": 12}})
    assert check(a, int8).stated == ("precision: A f32, B int8",)
    both = replace(int8, effective=int8.effective | {"precision": "f32"})
    assert check(int8, both).stated == ()


def test_requests_that_the_engine_chose_are_stated():
    runs = [make_run(n, scenario=Scenario(kind="offline")) for n in (1, 2)]
    runs = [
        replace(run, effective=run.effective | {"requests": count}) for run, count in zip(runs, (1, 4), strict=True)
    ]
    assert check(*runs).stated == ("requests in flight: A 1, B 4",)
    assert check(offline_run(1), offline_run(2)).stated == ()


def test_several_variants_share_a_line():
    runs = [make_run(1), make_run(2, threads=2), make_run(3, threads=4)]
    assert check(*in_turns(*runs)).stated == ("threads: A 1, B 2, C 4",)


def test_a_failed_run_states_no_precision():
    fairness = check(make_run(1), failed_run(2))
    assert not any("precision" in text for text in fairness.stated)


def test_one_after_the_other_is_not_in_turns():
    fairness = check(make_run(1), make_run(2, threads=2))
    assert fairness.not_excluded[0] == (
        "A and B were measured one after the other, not in turns: drift of the machine and other load"
    )


@pytest.mark.parametrize(
    ("later", "gap"),
    [
        ("2026-03-04T05:06:48.000+00:00", "41 s"),
        ("2026-03-04T05:36:07.000+00:00", "30 minutes"),
        ("2026-03-05T05:06:07.000+00:00", "24 hours"),
        ("2026-03-01T06:06:07.000+01:00", "3 days"),
    ],
)
def test_runs_of_different_commands_say_how_far_apart(later, gap):
    fairness = check(make_run(1), replace(make_run(2, threads=2), group="other", created_at=later))
    assert fairness.not_excluded[0] == (
        f"A and B were measured {gap} apart, not in turns: drift of the machine and other load"
    )


def test_other_hardware_and_conditions_are_not_excluded():
    b = make_run(2)
    environment = b.environment | {"cpu": {**b.environment["cpu"], "model": "Other CPU"}, "governor": "powersave"}
    found = check(make_run(1), replace(b, group="other", environment=environment)).not_excluded
    assert found[1] == "A and B ran on different hardware: processor: Example CPU @ 2.00 GHz against Other CPU"
    assert found[2] == "A and B ran under other conditions: processor, clock governor"


def test_hardware_that_is_not_told_is_said_to_be():
    found = check(make_run(1), make_run(2, threads=2)).not_excluded
    assert found[1] == "A and B may have run on different hardware: memory: neither run records it"


def test_turns_of_two_commands_are_apart():
    a, b = in_turns(make_run(1), replace(make_run(2), group="other"))
    assert not is_together(a, b)
    assert "not in turns" in check(a, b).not_excluded[0]
    assert not is_together(*in_turns(replace(a, group=None), replace(b, group=None)))
    assert not is_together(a, with_workload(a, interleave="duet"))


def test_of_stored_runs_that_ran_at_once_only_ratios_count():
    runs = in_turns(make_run(1), make_run(2, threads=2), how="duet")
    assert check(*(decode(encode(run)) for run in runs)).not_excluded == (
        "A and B were measured at the same time: each slows the other, so only their ratios count",
    )


def test_the_same_file_with_the_same_settings_is_noted():
    assert check(*in_turns(make_run(1), make_run(2))).notes == (
        "A and B are the same file with the same settings: what differs is noise",
    )
    assert check(make_run(1), make_run(2)).notes == (
        "A and B are the same file with the same settings: what differs is noise or the conditions",
    )
    assert check(make_run(1), make_run(2), make_run(3)).notes == (
        "A, B and C are the same file with the same settings: what differs is noise or the conditions",
    )
    assert check(make_run(1), make_run(2, threads=2)).notes == ()
    assert check(make_run(1), make_run(2, model=VWW)).notes == ()
    newer = make_run(2)
    newer = replace(newer, effective=newer.effective | {"engine_version": "1.2.4"})
    assert check(make_run(1), newer).notes == ()


def test_a_run_compared_with_itself_is_noted():
    fairness = check(make_run(1), make_run(1))
    assert fairness.notes == ("A and B are the same run: it is compared with itself",)
    assert fairness.not_excluded == ()


def test_texts_are_one_line_whatever_names_hold():
    b = make_run(2, model=replace(VWW, name="a\nb\x1b[31m"))
    b = with_runtime(replace(b, group=GROUP + "x"), name="run\ttime", options={"k\n": "v\x00"}, provider="p\r\n")
    fairness = check_fairness([Variant(label="A\n\x07", run=make_run(1)), Variant(label="B", run=b)])
    texts = (*fairness.stated, *fairness.obstacles, *fairness.not_excluded, *fairness.notes)
    assert len(texts) > 3
    assert all(text.isprintable() for text in texts)


def test_one_program_under_several_limits_is_compared_and_its_limits_are_stated():
    """Whether a program is slower with half a processor could not be asked: the limits were an obstacle."""

    def within(cpus, command):
        job = make_run(1).job
        target = replace(job.target, constraints=Constraints(cpus=cpus))
        return replace(make_run(1), job=replace(job, command=command, target=target))

    whole, half = within(1.0, ("python", "a.py")), within(0.5, ("python", "a.py"))
    found = check(whole, half)
    assert not found.obstacles and any(
        text.startswith("limits: ") and "0.5 processors" in text for text in found.stated
    )
    assert check_jobs(whole.job, half.job) == []
    other = within(0.5, ("python", "b.py"))
    assert any(text.startswith("limits: ") for text in check(whole, other).obstacles)
    model = within(0.5, ())
    assert any(text.startswith("limits: ") for text in check(within(1.0, ()), model).obstacles)
