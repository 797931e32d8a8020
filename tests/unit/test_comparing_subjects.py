"""Who meets whom: models, settings and runs brought to one kind of evidence, through the public face."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

import edgewise
from edgewise.comparing.comparison import ComparisonResult
from edgewise.comparing.criteria import Criteria
from edgewise.comparing.jobs import Subject
from edgewise.comparing.subjects import ComparisonSettings, compare_subjects
from edgewise.comparing.trial import ComparisonInterrupted, TrialSettings
from edgewise.errors import BadInput, BadModel, EdgewiseError
from edgewise.record import Run
from edgewise.report.comparison.document import variants_table
from edgewise.run.dispatch import Interrupted
from edgewise.run.interleaving import Interleaver
from edgewise.testing import write_fake_model
from messages import says
from sample_runs import failed_run, make_run
from threaded_workers import Line, install, interrupt_round

MS = 1_000_000
OPEN = [{"name": "x", "shape": [None, 4], "dtype": "float32"}]
WIDE = [{"name": "x", "shape": [1, 8], "dtype": "float32"}]


@pytest.fixture(autouse=True)
def transport(monkeypatch):
    return install(monkeypatch, turns=8)


def fake(folder: Path, name: str, milliseconds: float = 1.0, **script) -> Path:
    return write_fake_model(folder / name, **{"latency_ns": [round(milliseconds * MS)], **script})


def recorded(path: Path, **settings) -> Run:
    """A run of `path` as `bench` makes it, three processes."""
    (run,) = edgewise.bench(path, sessions=3, iterations=20, meters=False, **settings)
    return run


def labels(findings: ComparisonResult) -> list[str]:
    return [variant.label for variant in findings.variants]


def ratio(findings: ComparisonResult, metric: str = "latency", place: int = 0) -> float | None:
    return [row for row in findings.comparisons if row.metric == metric][place].ratio


def designs(findings: ComparisonResult) -> set[str]:
    return {row.design for row in findings.comparisons if row.metric == "latency"}


# --- models ---


def test_two_models_take_turns(tmp_path, transport):
    findings = edgewise.compare([fake(tmp_path, "a.fake"), fake(tmp_path, "b.fake", 1.1)])
    assert labels(findings) == ["a.fake", "b.fake"]
    assert ratio(findings) == pytest.approx(1.1) and designs(findings) == {"interleaved"}
    assert findings.pairs == 5 and not findings.passed
    assert all(job["mode"] == "turns" for job in transport.jobs)
    assert {variant.run.job.runtime.threads for variant in findings.variants} == {1}


def test_the_outputs_of_two_files_are_compared_and_kept(tmp_path, monkeypatch):
    files = [fake(tmp_path, "a.fake"), fake(tmp_path, "b.fake", 1.1)]
    asked = []

    def compare_files(runs, save):
        asked.append([run.job.model.name for run in runs])
        return [replace(run, effective={"held": True}) for run in runs]

    monkeypatch.setattr("edgewise.comparing.subjects.compare_files", compare_files)
    findings = edgewise.compare(files)
    assert asked == [["a.fake", "b.fake"]]
    assert all(variant.run.effective == {"held": True} for variant in findings.variants)
    edgewise.compare([f"{files[0]},threads=1", f"{files[0]},threads=2"])
    assert len(asked) == 1  # one file


def test_the_device_is_taken_once_and_kept_until_outputs_are_compared(tmp_path, monkeypatch):
    events = []

    @contextmanager
    def holding():
        events.append("taken")
        yield
        events.append("given back")

    def compare_files(runs, save):
        events.append("outputs")
        return list(runs)

    monkeypatch.setattr("edgewise.comparing.subjects.compare_files", compare_files)
    subjects = [Subject(thing=fake(tmp_path, "a.fake")), Subject(thing=fake(tmp_path, "b.fake", 1.1))]
    terms = {"trial": TrialSettings(), "save": lambda run: None, "holding": holding}
    compare_subjects(subjects, ComparisonSettings(criteria=Criteria(), **terms))
    assert events == ["taken", "outputs", "given back"]
    with pytest.raises(BadInput):
        compare_subjects(subjects[:1], ComparisonSettings(criteria=Criteria(), **terms))
    assert len(events) == 3  # a refused request does not wait for the device


def test_ctrl_c_while_outputs_are_compared_keeps_the_verdict(tmp_path, monkeypatch):
    def compare_files(runs, save):
        raise KeyboardInterrupt

    monkeypatch.setattr("edgewise.comparing.subjects.compare_files", compare_files)
    with pytest.raises(ComparisonInterrupted) as stopped:
        edgewise.compare([fake(tmp_path, "a.fake"), fake(tmp_path, "b.fake", 1.1)])
    assert ratio(stopped.value.findings) == pytest.approx(1.1, rel=1e-6)


def test_text_is_a_path_too(tmp_path):
    findings = edgewise.compare([str(fake(tmp_path, "a.fake")), str(fake(tmp_path, "b.fake"))], rounds=1)
    assert labels(findings) == ["a.fake", "b.fake"]


def test_settings_of_one_model_are_variants(tmp_path):
    findings = edgewise.compare([fake(tmp_path, "a.fake")], threads=[1, 2, 4], rounds=1)
    assert labels(findings) == ["1 thread", "2 threads", "4 threads"]
    assert [variant.run.job.runtime.threads for variant in findings.variants] == [1, 2, 4]
    assert findings.ranking is not None


def test_settings_of_two_models_are_their_product(tmp_path):
    findings = edgewise.compare([fake(tmp_path, "a.fake"), fake(tmp_path, "b.fake")], threads=[1, 2], rounds=1)
    assert labels(findings) == ["a.fake · 1 thread", "a.fake · 2 threads", "b.fake · 1 thread", "b.fake · 2 threads"]


def test_precisions_are_variants_and_what_an_engine_lacks_is_told(tmp_path):
    findings = edgewise.compare([fake(tmp_path, "a.fake")], precisions=["f32", "bf16", "int4"], rounds=1)
    assert labels(findings) == ["f32", "bf16"]
    assert any("no precision int4" in note for note in findings.notes)


def test_what_is_left_out_is_told_once(tmp_path):
    paths = [fake(tmp_path, "a.fake", inputs=OPEN)]
    findings = edgewise.compare(paths, precisions=["f32", "int4"], batches=[1, 2], rounds=1, force=True)
    notes = [note for note in findings.notes if "int4" in note]
    assert len(notes) == len(set(notes)) == 1


def test_batches_are_other_amounts_of_work(tmp_path, transport):
    path = fake(tmp_path, "a.fake", inputs=OPEN)
    with pytest.raises(BadInput, match="batch 1, batch 8"):
        edgewise.compare([path], batches=[1, 8])
    assert transport.jobs == []
    findings = edgewise.compare([path], batches=[1, 8], force=True, rounds=5)
    assert labels(findings) == ["batch 1", "batch 8"]
    assert findings.obstacles


def test_one_file_twice_is_noise_and_said_to_be(tmp_path):
    path = fake(tmp_path, "a.fake")
    findings = edgewise.compare([path, path])
    assert labels(findings) == ["a.fake #1", "a.fake #2"]
    assert any("the same file with the same settings" in note for note in findings.notes)
    assert ratio(findings) == 1.0 and findings.passed


def test_a_copy_in_another_folder_is_the_same_file(tmp_path):
    (tmp_path / "copy").mkdir()
    paths = [fake(tmp_path, "a.fake"), fake(tmp_path / "copy", "a.fake")]
    findings = edgewise.compare(paths, rounds=1)
    assert any("the same file with the same settings" in note for note in findings.notes)
    assert len(set(labels(findings))) == 2


def test_names_can_be_given(tmp_path):
    paths = [fake(tmp_path, "a.fake"), fake(tmp_path, "b.fake")]
    assert labels(edgewise.compare(paths, labels=["old", "new"], rounds=1)) == ["old", "new"]
    assert labels(edgewise.compare(paths, labels=["old"], rounds=1)) == ["old", "b.fake"]
    assert labels(edgewise.compare(paths, labels=[None, "new"], rounds=1)) == ["a.fake", "new"]


def test_more_names_than_things_are_refused(tmp_path):
    with pytest.raises(BadInput):
        edgewise.compare([fake(tmp_path, "a.fake"), fake(tmp_path, "b.fake")], labels=["x", "y", "z"])


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param({"runtimes": ["onnxruntime"]}, id="a runtime that does not read it"),
        pytest.param({"runtimes": ["nonsense"]}, id="no such runtime"),
        pytest.param({"providers": ["gpu"]}, id="no such provider"),
        pytest.param({"threads": [0]}, id="no threads"),
        pytest.param({"batches": [0], "threads": [1, 2]}, id="no batch"),
        pytest.param({"scenario": "paced"}, id="paced without a rate"),
        pytest.param({"fps": 10.0}, id="a rate without paced"),
        pytest.param({"seed": -1}, id="seed"),
        pytest.param({"timeout": 0.0}, id="no time at all"),
        pytest.param({"memory_limit": -1}, id="memory"),
        pytest.param({"shapes": {"nope": (1, 4)}}, id="no such input"),
        pytest.param({"until": "latenzy"}, id="no such metric"),
        pytest.param({"time_budget": -1.0}, id="budget"),
        pytest.param({"input_data": "absent.npz"}, id="no such file"),
    ],
)
def test_impossible_settings_are_refused_before_anything_is_measured(tmp_path, transport, broken):
    with pytest.raises(EdgewiseError) as caught:
        edgewise.compare([fake(tmp_path, "a.fake"), fake(tmp_path, "b.fake")], **broken)
    assert caught.value.exit_code in (2, 3)
    assert transport.jobs == []


@pytest.mark.parametrize("content", [b"", b"nonsense", b"edgewise-fake 1\n{]"])
def test_a_file_that_is_no_model_is_refused_before_anything_is_measured(tmp_path, transport, content):
    (tmp_path / "b.fake").write_bytes(content)
    with pytest.raises(BadModel):
        edgewise.compare([fake(tmp_path, "a.fake"), tmp_path / "b.fake"])
    with pytest.raises(BadModel):
        edgewise.compare([fake(tmp_path, "a.fake"), tmp_path / "absent"])
    assert transport.jobs == []


def test_runs_are_kept_where_a_store_is_named(tmp_path):
    url = f"sqlite:///{tmp_path}/runs.db"
    findings = edgewise.compare([fake(tmp_path, "a.fake"), fake(tmp_path, "b.fake")], store=url, rounds=2)
    with edgewise.open_store(url) as store:
        kept = {run.id: run for run in store.resolve(["all"])}
    assert set(kept) == {variant.run.id for variant in findings.variants}
    assert {len(run.sessions) for run in kept.values()} == {2}
    # What was kept gives the same verdict as what was measured.
    again = edgewise.compare([kept[variant.run.id] for variant in findings.variants])
    assert [(row.metric, row.ratio, row.verdict) for row in again.comparisons] == [
        (row.metric, row.ratio, row.verdict) for row in findings.comparisons
    ]


# --- runs ---


def test_runs_alone_are_compared_by_their_samples(tmp_path, transport):
    runs = [recorded(fake(tmp_path, "a.fake")), recorded(fake(tmp_path, "b.fake", 2.0))]
    before = len(transport.jobs)
    findings = edgewise.compare(runs)
    assert len(transport.jobs) == before
    assert ratio(findings) == pytest.approx(2.0) and designs(findings) == {"sessions"}
    assert findings.pairs is None and findings.elapsed_s is None and findings.stopped_because == ""
    assert any("apart, not in turns" in text for text in findings.not_excluded)


@pytest.mark.parametrize(
    ("moments", "wanted"),
    [
        (("2026-11-30T14:02:09Z", "2026-11-30T14:05:00Z"), ["run 1 (14:02)", "run 2 (14:05)"]),
        (("2026-11-29T14:02:09Z", "2026-11-30T14:02:09Z"), ["run 1 (2026-11-29)", "run 2 (2026-11-30)"]),
        # A time that does not tell the runs apart is no part of their names.
        (("2026-11-30T14:02:09Z", "2026-11-30T14:02:30Z"), ["run 1", "run 2"]),
    ],
)
def test_runs_of_one_setting_have_their_place_and_the_shortest_time(tmp_path, moments, wanted):
    path = fake(tmp_path, "a.fake")
    runs = [replace(recorded(path), created_at=moment) for moment in moments]
    findings = edgewise.compare(runs)
    assert labels(findings) == wanted
    # Their ids and times are told once.
    found = variants_table(findings)
    titles = [column.title for column in found.columns]
    rows = [dict(zip(titles, (cell.text for cell in row), strict=True)) for row in found.rows]
    assert [(row["Variant"], row["Run"]) for row in rows] == [
        (name, run.id) for name, run in zip(wanted, runs, strict=True)
    ]
    assert [row["Measured (UTC)"] for row in rows] == [moment[:19].replace("T", " ") for moment in moments]
    assert not found.detail


def test_a_run_with_itself_is_the_same_run(tmp_path):
    run = recorded(fake(tmp_path, "a.fake"))
    findings = edgewise.compare([run, run])
    assert any("the same run" in note for note in findings.notes)
    assert len(set(labels(findings))) == 2 and ratio(findings) == 1.0


def test_a_run_beside_a_model_is_measured_again_in_turns(tmp_path, transport):
    run = recorded(fake(tmp_path, "a.fake"), threads=[2])
    transport.jobs.clear()
    findings = edgewise.compare([run, fake(tmp_path, "b.fake", 1.1)], rounds=5)
    assert designs(findings) == {"interleaved"} and ratio(findings) == pytest.approx(1.1)
    assert findings.variants[0].run.id != run.id
    # The model is measured as the run was.
    assert {variant.run.job.runtime.threads for variant in findings.variants} == {2}
    assert any("a.fake, was measured again, side by side" in note for note in findings.notes)


def test_the_order_of_run_and_model_is_kept(tmp_path):
    run = recorded(fake(tmp_path, "a.fake"))
    findings = edgewise.compare([fake(tmp_path, "b.fake", 1.1), run], rounds=5)
    assert labels(findings) == ["b.fake", "a.fake"]
    assert ratio(findings) == pytest.approx(1 / 1.1)


@pytest.mark.parametrize("how", ["changed", "gone"])
def test_a_run_whose_model_is_not_at_hand_is_compared_apart(tmp_path, transport, how):
    path = fake(tmp_path, "a.fake")
    run = recorded(path)
    path.unlink() if how == "gone" else fake(tmp_path, "a.fake", 5.0)
    findings = edgewise.compare([run, fake(tmp_path, "b.fake", 2.0)])
    assert findings.variants[0].run is run
    assert ratio(findings) == pytest.approx(2.0) and designs(findings) == {"sessions"}
    assert any("could not be measured again" in note and "stored samples" in note for note in findings.notes)
    assert findings.not_excluded


def test_stored_means_stored(tmp_path, transport):
    run = recorded(fake(tmp_path, "a.fake"))
    findings = edgewise.compare([run, fake(tmp_path, "b.fake", 2.0)], stored=True)
    assert findings.variants[0].run is run
    assert ratio(findings) == pytest.approx(2.0)
    assert all(job["mode"] == "measure" for job in transport.jobs)


def test_several_settings_beside_a_run_are_refused(tmp_path, transport):
    run = recorded(fake(tmp_path, "a.fake"))
    transport.jobs.clear()
    with pytest.raises(BadInput, match=says("several-stored-run-cant-compared", several="threads")):
        edgewise.compare([run, fake(tmp_path, "b.fake")], threads=[1, 2])
    assert transport.jobs == []


def test_one_setting_beside_a_run_is_the_models(tmp_path):
    run = recorded(fake(tmp_path, "a.fake"))
    findings = edgewise.compare([run, fake(tmp_path, "b.fake")], threads=[3], rounds=1)
    assert [variant.run.job.runtime.threads for variant in findings.variants] == [1, 3]
    assert any(text.startswith("threads:") for text in findings.stated)


@pytest.mark.parametrize("batches", [[8], [1, 8]])
def test_a_batch_beside_a_run_is_not_ignored(tmp_path, batches):
    run = recorded(fake(tmp_path, "a.fake", inputs=OPEN))
    with pytest.raises(BadInput):
        edgewise.compare([run, fake(tmp_path, "b.fake", inputs=OPEN)], batches=batches)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"timeout": 7.0}, lambda job: job.workload.stopping.timeout_s == 7.0),
        ({"memory_limit": 2**31}, lambda job: job.target.memory_limit_bytes == 2**31),
        ({"scenario": "offline"}, lambda job: job.workload.scenario.kind == "offline"),
    ],
)
def test_conditions_beside_a_run_are_kept_or_refused(tmp_path, asked, told):
    run = recorded(fake(tmp_path, "a.fake"))
    try:
        findings = edgewise.compare([run, fake(tmp_path, "b.fake")], rounds=1, **asked)
    except BadInput:
        return
    assert told(findings.variants[1].run.job)


def test_other_shapes_than_the_runs_are_refused_before_anything_is_measured(tmp_path, transport):
    run = recorded(fake(tmp_path, "a.fake"))
    transport.jobs.clear()
    with pytest.raises(BadInput, match="input shapes"):
        edgewise.compare([run, fake(tmp_path, "b.fake", inputs=WIDE)], stored=True)
    assert transport.jobs == []


def test_other_shapes_than_the_runs_are_refused(tmp_path):
    run = recorded(fake(tmp_path, "a.fake"))
    with pytest.raises(BadInput, match="input shapes"):
        edgewise.compare([run, fake(tmp_path, "b.fake", inputs=WIDE)])


def test_a_failed_run_says_why(tmp_path):
    findings = edgewise.compare([make_run(1), failed_run(2)])
    assert list(findings.failures) == [labels(findings)[1]]
    assert all(row.ratio is None and "failed" in row.because for row in findings.comparisons if row.metric == "latency")
    assert not findings.passed


def test_a_run_alone_is_no_comparison():
    with pytest.raises(BadInput, match=says("comparison-needs-two-variants-least")):
        edgewise.compare([make_run(1)])
    with pytest.raises(BadInput):
        edgewise.compare([])


def test_runs_of_other_scenarios_are_refused_unless_forced():
    other = make_run(2)
    workload = replace(other.job.workload, batch=8)
    runs: Sequence[Run] = [make_run(1), replace(other, job=replace(other.job, workload=workload))]
    with pytest.raises(BadInput, match="batch"):
        edgewise.compare(runs)
    assert edgewise.compare(runs, force=True).obstacles


# --- bad ends ---


def fail(line: Line) -> None:
    line.say_hello()
    line.send("failed", cause="Unsupported", message="no such operator")


def test_of_runs_and_models_measured_apart_one_fails(tmp_path, transport):
    run = recorded(fake(tmp_path, "a.fake"))
    transport.parts = {("b.fake", 0): fail}
    findings = edgewise.compare([run, fake(tmp_path, "b.fake"), fake(tmp_path, "c.fake", 2.0)], stored=True)
    assert list(findings.failures.values()) == ["no such operator"]
    assert ratio(findings, place=1) == pytest.approx(2.0)


def test_what_was_lost_is_a_warning_in_python(tmp_path):
    class Full:
        def save(self, run: Run) -> None:
            raise edgewise.errors.StoreError("disk full")

        def readings(self, machine: str) -> list[object]:
            return []

    with pytest.warns(RuntimeWarning, match="disk full"):
        findings = edgewise.compare([fake(tmp_path, "a.fake"), fake(tmp_path, "b.fake")], store=Full(), rounds=1)
    assert findings.save_errors and ratio(findings) == 1.0


# --- Ctrl-C ---


def test_ctrl_c_raises_with_what_was_found_until_then(tmp_path, monkeypatch):
    whole = edgewise.compare([fake(tmp_path, "a.fake"), fake(tmp_path, "b.fake", 1.1)])
    stopped = [replace(variant.run, status="cancelled") for variant in whole.variants]

    def execute(*words: object) -> None:
        raise Interrupted(stopped)

    monkeypatch.setattr(Interleaver, "execute", execute)
    with pytest.raises(KeyboardInterrupt) as caught:
        edgewise.compare([tmp_path / "a.fake", tmp_path / "b.fake"])
    assert isinstance(caught.value, ComparisonInterrupted)
    findings = caught.value.findings
    assert findings.interrupted and findings.stopped_because == "interrupted"
    assert [variant.run.id for variant in findings.variants] == [run.id for run in stopped]
    assert ratio(findings) == pytest.approx(1.1) and not findings.failures


def test_ctrl_c_in_the_second_round_keeps_the_first_in_the_store(tmp_path, transport, monkeypatch):
    interrupt_round(monkeypatch, 1)
    store = f"sqlite:///{tmp_path}/runs.db"
    with pytest.raises(ComparisonInterrupted) as caught:
        edgewise.compare([fake(tmp_path, "a.fake"), fake(tmp_path, "b.fake", 1.1)], store=store)
    runs = [variant.run for variant in caught.value.findings.variants]
    assert [(run.status, len(run.sessions)) for run in runs] == [("cancelled", 1)] * 2
    with edgewise.open_store(store) as opened:
        assert {(row.id, opened.get(row.id).status) for row in opened.list()} == {(run.id, run.status) for run in runs}
