"""``edgewise sweep``: cells of a suite, what is kept of them, and how a sweep goes on."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Literal

import pytest
import yaml

from edgewise.cli.main import run
from edgewise.errors import BadInput, ExitCode, RunFailed
from edgewise.metrics import METRICS
from edgewise.progress import StageStarted
from edgewise.record import InTurns, Run
from edgewise.record.caution import Caution
from edgewise.record.run import Failure, LabPlace, Trust
from edgewise.report.document import Cell
from edgewise.report.document.csv import render_csv
from edgewise.report.document.text import to_text
from edgewise.run.dispatch import Dispatcher
from edgewise.store import open_store
from edgewise.testing import write_fake_model
from edgewise.verbs.context import Context
from edgewise.verbs.outcome import Outcome
from edgewise.verbs.sweep import cells, work
from edgewise.verbs.sweep.cells import cells_of
from edgewise.verbs.sweep.ledger import Ledger
from edgewise.verbs.sweep.request import SweepRequest
from edgewise.verbs.sweep.result import SweepResult
from edgewise.verbs.sweep.suite import Suite, read_suite
from gguf_files import gguf
from sample_sweeps import around, evaluated, with_front

SUITE = {
    "models": ["nets/*.fake"],
    "runtimes": ["fake"],
    "threads": ["1", "2"],
    "options": {"iterations": "9", "sessions": "1"},
}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EDGEWISE_STORE", str(tmp_path / "runs.db"))
    (tmp_path / "nets").mkdir()
    for name, latency in (("slow", 4_000_000), ("fast", 1_000_000)):
        write_fake_model(f"nets/{name}.fake", latency_ns=[latency])
    return tmp_path


@dataclass
class Turns:
    """What measuring in turns finds: for each count of threads how many times as slow; which runs were asked for."""

    slower: dict[int, float] = field(default_factory=lambda: {1: 1.0, 2: 1.0})
    asked: list[list[str]] = field(default_factory=list)
    raises: BaseException | None = None
    at: int = 0
    close: Literal["same", "inconclusive"] = "inconclusive"


@pytest.fixture(autouse=True)
def turns(monkeypatch) -> Turns:
    """What turns find is what the values say, times a number for each count of threads, with an interval of 1 %."""
    found = Turns()

    def told(one: Run, other: Run) -> InTurns:
        first, second = (each.value("latency") * found.slower[each.job.runtime.threads] for each in (one, other))
        ratio = first / second
        verdict = "faster" if ratio < 0.98 else "slower" if ratio > 1.02 else found.close
        low, high = ratio * 0.99, ratio * 1.01
        return InTurns(against=other.id, ratio=ratio, low=low, high=high, verdict=verdict, method="made up")

    def with_turns(some, history, *, each_s):
        assert each_s == 60.0
        if found.raises is not None and len(found.asked) == found.at:
            raise found.raises
        found.asked.append([f"{one.job.model.name} {one.job.runtime.threads}" for one in some])
        return [replace(one, in_turns=tuple(told(one, other) for other in some if other is not one)) for one in some]

    monkeypatch.setattr("edgewise.comparing.finals.with_turns", with_turns)
    return found


def write(name: str = "suite.yaml", **parts: object) -> str:
    Path(name).write_text(yaml.safe_dump({**SUITE, **parts}))
    return name


def names(**parts: object) -> list[str]:
    return [cell.name for cell in cells_of(read_suite(Path(write(order="listed", **parts))), 100)]


def statuses() -> list[str]:
    return [json.loads(line)["status"] for line in Path("suite-results/cells.jsonl").read_text().splitlines()]


def runs() -> int:
    with open_store() as store:
        return len(store.list())


def test_every_cell_is_measured_once_and_the_table_marks_the_best(capsys):
    assert run(["sweep", write(limits={"latency": "2ms"}), "-q"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Latency: open for ")
    assert out.index("\n4 of 4 cells are finished\n") < out.index("★")
    assert "2 of 4 values are beyond 2.00 ms" in out
    lines = {line.split()[0]: line for line in out.splitlines() if line.startswith("nets/")}
    assert lines["nets/fast.fake"].count("1.00 ± ") == 2 and lines["nets/slow.fake"].count("4.00 ± ") == 2
    assert lines["nets/slow.fake"].count("!") == 2 and "!" not in lines["nets/fast.fake"]
    assert lines["nets/fast.fake"].count("★") == 1
    assert runs() == 4


def test_a_second_sweep_measures_what_is_new_and_again_measures_all(capsys):
    suite = write()
    assert run(["sweep", suite, "-q"]) == 0
    write_fake_model("nets/third.fake", latency_ns=[3_000_000])
    assert run(["sweep", suite, "--dry-run"]) == 0
    assert "2 of 6 cells to carry out" in capsys.readouterr().out
    assert run(["sweep", suite, "-q"]) == 0 and runs() == 6
    assert run(["sweep", suite, "-q"]) == 0 and runs() == 6
    assert run(["sweep", suite, "--only", "third", "--again", "-q"]) == 0 and runs() == 8
    write_fake_model("nets/third.fake", latency_ns=[5_000_000])  # another content is another model
    assert run(["sweep", suite, "-q"]) == 0 and runs() == 10


def test_a_dry_run_writes_nothing(place, capsys):
    suite = write(models=["nets/fast.fake", "zoo:ds-cnn@0.5"], runtimes=["fake", "onnxruntime"])
    before = sorted(place.rglob("*"))
    assert run(["sweep", suite, "--dry-run"]) == 0
    out, err = capsys.readouterr()
    assert sorted(place.rglob("*")) == before
    assert "4 of 4 cells to carry out; time: not known before one is finished" in out
    assert "left out: fake does not read onnx (2)" in err and "left out: onnxruntime does not read fake (2)" in err


def test_a_cell_that_fails_stops_no_other_and_is_tried_again_where_that_may_help(capsys):
    write_fake_model("nets/broken.fake", behaviour={"at": "load", "do": "unsupported"})
    write_fake_model("nets/crash.fake", behaviour={"at": "load", "do": "raise"})
    suite = write(threads=["1"])
    assert run(["sweep", suite, "-q"]) == ExitCode.RUN_FAILED
    out, err = capsys.readouterr()
    assert out.startswith("2 of 4 cells are finished; 2 failed\n") and "2 cells failed" in err
    assert "nets/broken.fake on fake, 1 thread: Unsupported" in " ".join(out.split())
    assert sorted(statuses()) == ["done", "done", "failed", "refused"]
    assert run(["sweep", suite, "-q"]) == ExitCode.RUN_FAILED
    assert sorted(statuses()) == ["done", "done", "failed", "failed", "refused"]


def test_a_lost_device_is_tried_once_more(monkeypatch):
    tries = []
    execute = Dispatcher.execute

    def lose_first(self, plan, **options):
        found = execute(self, plan, **options)
        tries.append(1)
        failure = Failure(cause="LinkLost", message="unplugged", phase="steady")
        return [replace(one, status="failed", failure=failure) for one in found] if len(tries) == 1 else found

    monkeypatch.setattr(Dispatcher, "execute", lose_first)
    assert run(["sweep", write(models=["nets/fast.fake"], threads=["1"]), "-q"]) == 0
    assert len(tries) == 2 and statuses() == ["done"]


def test_an_interrupted_sweep_keeps_what_is_finished_and_goes_on(monkeypatch, capsys):
    done = work._carry_out

    def stop_at_third(plan, at, context):
        if len(plan.ledger.outcomes) == 2:
            raise KeyboardInterrupt
        return done(plan, at, context)

    monkeypatch.setattr(work, "_carry_out", stop_at_third)
    suite = write()
    assert run(["sweep", suite, "-q"]) == ExitCode.INTERRUPTED
    out, err = capsys.readouterr()
    assert out.startswith("2 of 4 cells are finished; 2 left\n") and "the same command goes on from there" in err
    monkeypatch.setattr(work, "_carry_out", done)
    assert run(["sweep", suite, "-q"]) == 0
    assert statuses() == ["done"] * 4 and runs() == 4


def test_places_that_may_be_the_best_are_measured_in_turns_once(turns, capsys):
    suite = write(models=["nets/fast.fake"], order="listed")
    both = [["fast.fake 1", "fast.fake 2"]]
    turns.slower[1] = 1.25
    assert run(["sweep", suite, "--dry-run"]) == 0
    assert (
        "2 of 2 cells to carry out; time: not known before one is finished, then up to 2 min in turns, "
        "without waiting for busy devices"
    ) in " ".join(capsys.readouterr().out.split())
    assert run(["sweep", suite]) == 0
    out, err = capsys.readouterr()
    first = "Latency: best for nets/fast.fake: fake, 2 threads, 1.00 ms, proven in turns\n2 of 2 cells are finished\n"
    assert out.startswith(first) and turns.asked == both
    assert "measuring these 2 in turns, 120 s at most" in err and "nets/fast.fake: The first numbers of " in err
    best = {"metric": "latency", "model": "nets/fast.fake", "place": "fake, 2 threads", "why": "proven in turns",
            "in_turns": True, "ratios": {"fake, 1 thread": {"ratio": 1.25, "low": 1.2375, "high": 1.2625}},
            "alike": [], "equal": []}  # fmt: skip
    assert json.loads(Path("suite-results/board.json").read_text())["best"] == [best]
    assert run(["sweep", suite, "--dry-run"]) == 0 and "in turns" not in capsys.readouterr().out
    assert run(["sweep", suite, "-q"]) == 0 and turns.asked == both  # as they are in the store
    assert capsys.readouterr().out.startswith(first)
    assert run(["sweep", suite, "-q", "--again"]) == 0 and turns.asked == both * 2


def _took(monkeypatch, seconds: Mapping[str, float], **fields: object) -> None:
    """Make cells of a model whose name has a word take so long, s, and the time of day stand still at 12:00."""
    done = work.outcome_of

    def outcome_of(key, cell, *rest):
        outcome, result = done(key, cell, *rest)
        return replace(outcome, seconds=next(took for word, took in seconds.items() if word in cell), **fields), result

    still = SimpleNamespace(time=lambda: 12 * 3600.0, strftime=time.strftime, localtime=time.gmtime)
    monkeypatch.setattr(work, "outcome_of", outcome_of)
    monkeypatch.setattr(work, "time", still)


def _stages(monkeypatch) -> list[str]:
    titles: list[str] = []

    def note(event: object) -> None:
        if isinstance(event, StageStarted):
            titles.append(event.title)

    monkeypatch.setattr(work, "emit", note)
    monkeypatch.setattr("edgewise.verbs.measuring.emit", note)
    return titles


def test_the_end_that_is_foretold_has_cells_by_their_model_and_the_turns(monkeypatch, capsys):
    suite, titles = write(order="listed"), _stages(monkeypatch)
    _took(monkeypatch, {"slow": 300.0, "fast": 60.0})
    ticks = iter([0.0, 10.0, 10.0, 16.0])
    monkeypatch.setattr(work, "now", lambda: next(ticks))
    assert run(["sweep", suite, "-q"]) == 0
    assert [title.partition("; ")[2].partition("; nets")[0] for title in titles[:4]] == [
        "left: not known before one is finished, then up to 4 min in turns",
        "left: about 3 min for the cells (by 1 finished) and up to 4 min in turns, until 12:03 to 12:07",
        "left: about 2 min for the cells (by 2 finished) and up to 4 min in turns, until 12:02 to 12:06",
        "left: about 5 min for the cells (by 3 finished) and up to 4 min in turns, until 12:05 to 12:09",
    ]
    assert [title.partition(":  ")[0].partition(": The")[0] for title in titles[4:]] == [
        "In turns 1 of 2, up to 4 min left, until 12:04 at the latest; nets/fast.fake",
        "In turns 2 of 2, about 10 s left, until 12:00; nets/slow.fake",
    ]
    capsys.readouterr()
    assert run(["sweep", suite, "--again", "--dry-run"]) == 0
    assert (
        "4 of 4 cells to carry out; time: about 12 min for the cells (by 4 finished) and up to 4 min in turns, "
        "without waiting for busy devices"
    ) in " ".join(capsys.readouterr().out.split())
    assert run(["sweep", suite, "--dry-run"]) == 0
    assert "0 of 4 cells to carry out; time: 0 s\n" in capsys.readouterr().out


def test_a_network_of_the_zoo_has_its_name_in_the_suite_everywhere(capsys):
    """It had that of its file in the progress and in cautions, behind a folder's."""
    suite = write(models=["zoo:ds-cnn@0.25"], runtimes=["onnxruntime"], threads=["1"])
    assert run(["sweep", suite, "--details"]) == 0
    out, err = capsys.readouterr()
    assert "Cell 1 of 1: zoo:ds-cnn@0.25 on onnxruntime, 1 thread; " in err
    assert "[1/1] zoo:ds-cnn@0.25 · onnxruntime/cpu 1T " in err
    assert "ds-cnn-w0.25" not in err
    file = "zoo:ds-cnn@0.25: suite-results/models/ds-cnn-w0.25.onnx"
    assert out.count("ds-cnn-w0.25") == 1 and file in out
    with open_store() as store:
        assert store.get("last").job.model.name == "ds-cnn-w0.25.onnx", "as every other command has it"


def test_waiting_for_busy_devices_is_said_beside_the_time_that_is_left(monkeypatch):
    titles = _stages(monkeypatch)
    _took(monkeypatch, {"fast": 60.0}, waited=90.0)
    assert run(["sweep", write(models=["nets/fast.fake"], threads=["1"], repeats=2), "-q"]) == 0
    assert titles[1].partition("; ")[2] == (
        "left: about 1 min for the cells (by 1 finished), until 12:01; "
        "waiting for busy devices not counted, 1.5 min so far"
    )


def test_of_places_that_turns_cant_tell_apart_the_reason_of_reports_decides(capsys):
    assert run(["sweep", write(models=["nets/fast.fake"]), "-q"]) == 0
    assert " ".join(capsys.readouterr().out.split()).startswith(
        "Latency: open for nets/fast.fake: fake, 1 thread, 1.00 ms (fewest threads; fake 2T can't be told apart from it "
        "in turns) 2 of 2 cells are finished "
    )


def test_turns_that_are_interrupted_keep_everything_and_are_taken_next_time(turns, capsys):
    suite = write(order="listed")
    turns.raises, turns.at = KeyboardInterrupt(), 1
    assert run(["sweep", suite, "-q"]) == ExitCode.INTERRUPTED
    assert " ".join(capsys.readouterr().out.split()).startswith(
        "4 of 4 cells are finished; so far: Latency: open for all 2 models: fake, 1 thread can't be told from other "
        "places; not measured in turns for nets/slow.fake: edgewise sweep suite.yaml decides "
    )
    assert statuses() == ["done"] * 4 and [names[0] for names in turns.asked] == ["fast.fake 1"]
    turns.raises = None
    assert run(["sweep", suite, "-q"]) == 0
    assert [names[0] for names in turns.asked] == ["fast.fake 1", "slow.fake 1"] and runs() == 4


def test_turns_that_fail_are_said_and_cost_no_result(turns, capsys):
    turns.raises = RunFailed("the device is gone")
    assert run(["sweep", write(order="listed", models=["nets/fast.fake"])]) == 0
    out, err = capsys.readouterr()
    assert "nets/fast.fake is not measured in turns: the device is gone" in " ".join(err.split())
    assert "; not measured in turns: edgewise sweep suite.yaml decides" in " ".join(out.split())


def test_of_what_takes_no_turns_here_the_command_that_decides_is_said():
    write(models=["nets/fast.fake"], order="listed")
    found = work.sweep(SweepRequest(suite="suite.yaml"), Context())
    alone = replace(found, verb="evaluate", held=[replace(one, in_turns=()) for one in found.held])
    first = (
        "Latency: open for nets/fast.fake: fake, 1 thread, 1.00 ms (fewest threads; fake 2T can't be told apart from it)"
        "; not measured in turns: "
    )
    command = (
        "edgewise compare nets/fast.fake,runtime=fake/cpu,threads=1 nets/fast.fake,runtime=fake/cpu,threads=2 decides"
    )
    assert alone.describe().answer[0] == first + command
    in_lab = [replace(one, lab=LabPlace(job="j", attempt=1, fence=1, host="h", worker="w")) for one in alone.held]
    assert replace(alone, verb="bench", held=in_lab).describe().answer[0] == first + command
    assert list(replace(alone, verb="bench", held=in_lab).finals()) == []
    assert replace(alone, verb="bench").describe().answer[0] == f"{first}edgewise sweep suite.yaml decides"


def test_a_value_that_looks_better_than_what_turns_prove_is_said(turns):
    write(models=["nets/fast.fake"], order="listed")
    turns.slower[1] = 1.25
    found = work.sweep(SweepRequest(suite="suite.yaml"), Context())
    quick = tuple(
        replace(row, value=9e-4, low=8.9e-4, high=9.1e-4) if row.metric == "latency" else row
        for row in found.held[0].measurements
    )
    number = {**found.outcomes[0].rows[0]["metrics"]["latency"], "value": 9e-4}
    row = {**found.outcomes[0].rows[0], "grade": "D", "metrics": {"latency": number}}
    found = replace(
        found,
        held=[replace(found.held[0], measurements=quick, trust=Trust(grade="D", reasons=("few",))), found.held[1]],
        outcomes=[replace(found.outcomes[0], rows=[row]), found.outcomes[1]],
    )
    document = found.describe()
    assert document.answer[0] == (
        "Latency: best for nets/fast.fake: fake, 2 threads, 1.00 ms, proven in turns; fake 1T (900 µs, grade D, looks "
        "better) is slower"
    )
    assert not any("?" in cell.text for cell in document.tables[0].rows[0])  # turns rank it
    (ratios,) = (section.lines for section in document.sections if section.title == "In turns")
    assert ratios == ("nets/fast.fake, latency over that of fake, 2 threads: fake 1T 1.250× [1.237, 1.263]",)
    even = {"verdict": "inconclusive", "ratio": 1.0, "low": 0.99, "high": 1.01}
    open_ = [replace(one, in_turns=(replace(one.in_turns[0], **even),)) for one in found.held]
    assert replace(found, held=open_).describe().answer[0] == (
        "Latency: open for nets/fast.fake: fake, 1 thread, 900 µs, grade D (fewest threads; fake 2T can't be told apart "
        "from it in turns)"
    )


def test_a_place_that_is_as_fast_in_turns_is_equal_and_not_open(turns):
    turns.close = "same"
    found = work.sweep(SweepRequest(suite=write(models=["nets/fast.fake"], order="listed")), Context())
    document = found.describe()
    assert document.answer[0] == (
        "Latency: best for nets/fast.fake: fake, 1 thread, 1.00 ms (fewest threads; fake 2T is as fast in turns)"
    )
    assert [cell.text.split()[-1] for cell in document.tables[0].rows[0][1:]] == ["★", "="]
    assert document.tables[0].notes == ("★ best of its model", "= as fast as the best in turns, within 3 % or 0.2 µs")
    (best,) = found.to_document()["best"]
    assert (best["alike"], best["equal"]) == ([], ["fake, 2 threads"])


def test_a_place_whose_interval_in_turns_leaves_1_out_is_probably_faster(turns):
    turns.slower[1] = 1.015
    suite = write(models=["nets/fast.fake"], order="listed")
    answer = work.sweep(SweepRequest(suite=suite), Context()).describe().answer[0]
    assert answer == (
        "Latency: open for nets/fast.fake: fake, 1 thread, 1.00 ms (fewest threads; fake 2T is probably faster in turns, "
        "which is not proven)"
    )


def test_repeats_of_a_cell_are_one_in_turns(turns):
    suite = write(models=["nets/fast.fake"], order="listed", repeats=3)
    found = work.sweep(SweepRequest(suite=suite), Context())
    assert turns.asked == [["fast.fake 1", "fast.fake 2"]]
    assert sorted(bool(one.in_turns) for one in found.held) == [False] * 4 + [True] * 2
    assert work.sweep(SweepRequest(suite=suite), Context()).describe().answer == found.describe().answer
    assert len(turns.asked) == 1


def test_a_cell_that_a_crash_cut_short_is_measured_again():
    suite = write()
    assert run(["sweep", suite, "-q"]) == 0
    ledger = Path("suite-results/cells.jsonl")
    ledger.write_bytes(ledger.read_bytes()[:-40])
    assert run(["sweep", suite, "-q"]) == 0
    assert runs() == 5
    assert len([line for line in ledger.read_text().splitlines() if line.endswith("}")]) == 4


def test_the_same_command_with_a_report_goes_on_and_replaces_only_its_own(monkeypatch, capsys):
    words = ["sweep", write(threads=["1"]), "-q", "-o", "t.md", "-o", "t.html", "-o", "t.json", "-o", "t.csv"]
    assert run(words) == 0
    write_fake_model("nets/third.fake", latency_ns=[3_000_000])
    assert run(words) == 0 and "nets/third.fake" in Path("t.md").read_text() and runs() == 3
    Path("mine.md").write_text("# Notes\n")
    assert run([*words[:3], "-o", "mine.md"]) == ExitCode.BAD_INPUT
    assert Path("mine.md").read_text() == "# Notes\n"


def test_a_wait_for_a_device_is_said_apart(capsys):
    cells = cells_of(read_suite(Path(write(models=["nets/fast.fake"], threads=["1"]))), 9)
    (outcome,) = [Outcome(key="k", cell=one.name, status="done", seconds=3, finished=1, waited=41) for one in cells]
    found = SweepResult(suite="s", verb="bench", folder="f", cells=cells, outcomes=[outcome])
    assert [(one["seconds"], one["waited"]) for one in found.to_document()["cells"]] == [(3, 41)]
    assert "waited 41.0 s for busy devices (not part of the cells' times)" in found.describe().answer[-1]
    found = replace(found, outcomes=[replace(outcome, waited=None)])  # of an earlier version
    assert found.to_document()["cells"][0]["waited"] is None and "waited" not in found.describe().answer[-1]


def test_a_model_measured_in_one_place_has_no_best_and_a_vague_value_is_marked():
    cells = cells_of(read_suite(Path(write(runtimes=["fake"], threads=["1", "2"], order="listed"))), 9)

    def outcome(cell, grade):
        number = {"value": 1e-5, "low": 2.5e-6, "high": 4e-5, "unit": "s", "basis": "measured"}
        row = {"model": "m", "device": "local", "runtime": "fake", "threads": int(cell.threads), "precision": None,
               "status": "done", "headlines": ["latency"], "grade": grade, "metrics": {"latency": number}}  # fmt: skip
        return Outcome(key=cell.name, cell=cell.name, status="done", seconds=1, finished=1, rows=[row])

    outcomes = [outcome(cells[0], "B"), outcome(cells[1], "D"), outcome(cells[2], "B"), None]
    document = SweepResult(suite="s", verb="bench", folder="f", cells=cells, outcomes=outcomes).describe()
    first, second = document.tables[0].rows
    assert [cell.text.partition(" µs ")[2] for cell in (first[1], first[2], second[1])] == ["B", "D ?", "B"]
    assert "[2.50, 40.0]" in first[1].text
    assert document.answer[0] == (
        "Latency: no best can be named for nets/fast.fake: only fake, 1 thread could be ranked (elsewhere grade D); "
        "measure again with --again --only 'nets/fast.fake on *'"
    )
    missing = SweepResult(
        suite="s", verb="bench", folder="f", cells=[*cells[:2], cells[0]], outcomes=[*outcomes[:2], None],
        command="edgewise sweep suite.yaml",
    )  # fmt: skip
    assert (
        missing.describe()
        .answer[0]
        .endswith("(elsewhere grade D); first measure the missing cells with edgewise sweep suite.yaml")
    )
    assert document.tables[0].notes == ("? grade D: too uncertain to be ranked",)


def test_a_value_of_grade_d_is_never_the_best():
    cells = cells_of(read_suite(Path(write(models=["nets/fast.fake"], threads=["1", "2"], order="listed"))), 9)

    def best(*measured):
        outcomes = []
        for cell, (value, grade) in zip(cells, measured, strict=True):
            number = {"value": value, "low": value, "high": value, "unit": "s", "basis": "measured"}
            row = {"model": "m", "device": "local", "runtime": "fake", "threads": int(cell.threads), "precision": None,
                   "status": "done", "headlines": ["latency"], "grade": grade, "metrics": {"latency": number}}  # fmt: skip
            outcomes.append(Outcome(key=cell.name, cell=cell.name, status="done", seconds=1, finished=1, rows=[row]))
        return SweepResult(suite="s", verb="bench", folder="f", cells=cells, outcomes=outcomes).describe().answer[0]

    assert "fake, 1 thread" in best((336e-6, "C"), (301e-6, "D"))
    assert best((336e-6, "D"), (301e-6, "D")) == (
        "Latency: no best can be named: all 2 values have grade D; measure again with --again"
    )
    assert "fake, 2 threads" in best((336e-6, "C"), (301e-6, "C"))


def test_a_better_value_of_grade_d_is_said_not_to_be_ranked():
    def document(grade, models=("fast", "slow"), runtimes=("litert", "onnxruntime", "openvino")):
        found = places_of(["1"], runtimes)
        kept = [at for at, cell in enumerate(found.cells) if any(name in cell.model for name in models)]
        outcomes = [found.outcomes[at] for at in kept]
        outcomes = [
            replace(one, rows=[{**one.rows[0], "grade": grade if one.rows[0]["runtime"] == "litert" else "B"}])
            for one in outcomes
        ]
        return replace(found, cells=[found.cells[at] for at in kept], outcomes=outcomes).describe()

    vague = document("D")
    assert vague.answer[0] == (
        "Latency: best for all 2 models: onnxruntime, 1 thread; 200 µs of litert 1T for nets/fast.fake and 200 µs of "
        "litert 1T for nets/slow.fake are not ranked (grade D, looks better)"
    )
    assert vague.tables[0].notes == (
        "★ best of its model",
        "? grade D: too uncertain to be ranked",
    )
    (unreliable,) = [cell for cell in vague.tables[0].rows[0] if cell.text.endswith("?")]
    assert unreliable.text == "200 ± 20 µs D ?"
    assert document("D", ["fast"]).answer[0] == (
        "Latency: best for nets/fast.fake: onnxruntime, 1 thread, 300 µs; 200 µs of litert 1T is not ranked (grade D, "
        "looks better)"
    )
    assert document("C").answer[0] == "Latency: best for all 2 models: litert, 1 thread"
    assert len(document("C").tables[0].notes) == 1
    alone = document("D", runtimes=("litert", "onnxruntime"))
    assert alone.answer[0] == (
        "Latency: no best can be named: only onnxruntime, 1 thread could be ranked (elsewhere grade D); measure again "
        "with --again"
    )
    assert not any("★" in cell.text for row in alone.tables[0].rows for cell in row)


def test_marks_come_from_the_values_and_not_from_the_words_of_a_cell(monkeypatch):
    """A unit that has the character of a mark is no mark."""
    monkeypatch.setattr("edgewise.verbs.sweep.result.amount_cell", lambda *_: Cell(text="1 ?!", value=1.0))
    (table,) = places_of(["1"], ["litert", "onnxruntime"]).describe().tables
    assert [cell.text for cell in table.rows[0][1:]] == ["1 ?! B ★", "1 ?! B"]
    assert table.notes == ("★ best of its model",)


def test_many_places_are_rows_and_a_few_models_are_named_with_their_best():
    threads = [str(count) for count in range(1, 7)]
    models = ["nets/fast.fake", "nets/slow.fake"]
    cells = cells_of(read_suite(Path(write(models=models, runtimes=["fake"], threads=threads, order="listed"))), 99)

    def outcome(cell):
        value = 1e-3 * (int(cell.threads) if "fast" in cell.model else 7 - int(cell.threads))
        number = {"value": value, "low": value, "high": value, "unit": "s", "basis": "measured"}
        row = {"model": "m", "device": "local", "runtime": "fake", "threads": int(cell.threads), "precision": None,
               "status": "done", "headlines": ["latency"], "grade": "B", "metrics": {"latency": number}}  # fmt: skip
        return Outcome(key=cell.name, cell=cell.name, status="done", seconds=1, finished=1, rows=[row])

    outcomes = [*map(outcome, cells[:-1]), None]
    document = SweepResult(suite="s", verb="bench", folder="f", cells=cells, outcomes=outcomes).describe()
    (table,) = document.tables
    assert [column.title for column in table.columns] == ["Place", *models]
    assert [row[0].text for row in table.rows] == ["1 thread", *(f"{count} threads" for count in range(2, 7))]
    assert table.rows[0][1].text.endswith("★") and table.rows[4][2].text.endswith("★")
    assert table.rows[5][2].notes == ("not finished",)
    assert document.answer == (
        "Latency: best for nets/fast.fake: fake, 1 thread, 1.00 ms",
        "Latency: best for nets/slow.fake: fake, 5 threads, 2.00 ms",
        "11 of 12 cells are finished; 1 left",
    )


def places_of(threads, runtimes, value_of=lambda at, cell: 1e-4 * (1 + at + int(cell.threads))):
    """A result with a value of two models in each place, all of them alike but for the place."""
    parts = {"models": ["nets/fast.fake", "nets/slow.fake"], "runtimes": ["fake"], "order": "listed"}
    cells, outcomes = [], []
    for at, runtime in enumerate(runtimes):
        for cell in cells_of(read_suite(Path(write(threads=threads, **parts))), 99):
            value = value_of(at, cell)
            number = {"value": value, "low": value * 0.9, "high": value * 1.1, "unit": "s", "basis": "measured"}
            row = {"model": "m", "device": "local", "runtime": runtime, "threads": int(cell.threads),
                   "precision": None, "status": "done", "headlines": ["latency"], "grade": "B",
                   "metrics": {"latency": number}}  # fmt: skip
            cells.append(replace(cell, runtime=runtime))
            outcomes.append(Outcome(key=cell.name, cell=cell.name, status="done", seconds=1, finished=1, rows=[row]))
    return SweepResult(suite="s", verb="bench", folder="f", cells=cells, outcomes=outcomes)


def test_the_help_has_the_suite_of_the_documentation_line_by_line(capsys):
    page = Path(__file__).parents[2].joinpath("docs/sweep.md").read_text()
    suite = page.partition("<<'END'\n")[2].partition("END\n")[0]
    assert run(["sweep", "--help"]) == 0
    shown = "\n".join(line.strip(" ") for line in capsys.readouterr().out.splitlines())
    assert len(suite.splitlines()) == 6
    assert "\n".join(line.strip(" ") for line in suite.splitlines()) in shown
    Path("help.yaml").write_text(suite)
    assert read_suite(Path("help.yaml")).suite.threads


def test_a_narrow_terminal_has_a_row_for_each_value_with_interval_grade_and_mark():
    found = places_of(["1", "2"], ["litert", "onnxruntime"])
    found = replace(found, cells=found.cells[:7], outcomes=[*found.outcomes[:6], None]).describe()
    (table,) = found.tables
    wide, narrow = (to_text(found, width=width).splitlines() for width in (120, 80))
    at = narrow.index("Latency")
    assert narrow[at + 1 : at + 10] == [
        "Model            Place                        Latency   Grade",
        "─────────────────────────────────────────────────────────────",
        "nets/fast.fake   litert, 1 thread         200 ± 20 µs   B ★",
        "nets/fast.fake   onnxruntime, 1 thread    300 ± 30 µs   B",
        "nets/fast.fake   litert, 2 threads        300 ± 30 µs   B",
        "nets/fast.fake   onnxruntime, 2 threads   400 ± 40 µs   B",
        "nets/slow.fake   litert, 1 thread         200 ± 20 µs   B ★",
        "nets/slow.fake   litert, 2 threads        300 ± 30 µs   B",
        "· ★ best of its model",
    ]
    at = wide.index("Latency")
    assert wide[at + 1].split("  ")[0] == "Model" and "litert, 1 thread" in wide[at + 1] and "n/a [1]" in "".join(wide)
    assert "200 ± 20 µs B ★" in wide[at + 3] and table.rows[0][1].text == "200 ± 20 µs B ★"
    names = to_text(found, width=50).splitlines()
    assert names[names.index("Latency") + 1].split() == ["Model", "Place", "Latency", "Grade"]
    assert not any("…" in line or "left out" in line for line in names)


def test_values_of_grade_d_stand_below_the_others_of_their_model():
    found = places_of(["1", "2"], ["litert", "onnxruntime"])
    outcomes = [replace(found.outcomes[0], rows=[found.outcomes[0].rows[0] | {"grade": "D"}]), *found.outcomes[1:]]
    narrow = replace(found, outcomes=outcomes).describe().tables[0].narrow
    assert [(row[1].short, row[3].text) for row in narrow.rows[:4]] == [
        ("onnxruntime 1T", "B ★"), ("litert 2T", "B ≈"), ("onnxruntime 2T", "B"), ("litert 1T", "D ?"),
    ]  # fmt: skip


def test_the_engine_is_named_while_only_cells_of_one_are_finished():
    found = places_of(["1", "2"], ["litert", "onnxruntime"])
    titles = ["Model", "litert, 1 thread", "litert, 2 threads"]
    part = replace(found, outcomes=[*found.outcomes[:4], None, None, None, None]).describe()
    assert [column.title for column in part.tables[0].columns] == titles
    assert [column.title for column in found.describe().tables[0].columns][:3] == titles


def test_the_best_is_named_with_what_all_places_share():
    found = places_of(["2"], ["litert", "onnxruntime"]).describe()
    assert found.answer[0] == "Latency: best for all 2 models: litert, 2 threads"
    assert [column.title for column in found.tables[0].columns] == ["Model", "litert", "onnxruntime"]


def test_several_places_in_a_sentence_have_no_commas_of_their_own():
    def value(at, cell):
        return 1e-4 * (1 + 0.01 * (at if "fast" in cell.model else -at) + 0.001 * int(cell.threads))

    found = places_of(["1", "2"], ["litert", "openvino"], value).describe()
    assert found.answer[:2] == (
        "Latency: open for nets/fast.fake: litert, 1 thread, 100 µs (by its value alone; openvino 1T, litert 2T and "
        "openvino 2T can't be told apart from it)",
        "Latency: open for nets/slow.fake: openvino, 1 thread, 99.1 µs (by its value alone; litert 1T, litert 2T and "
        "openvino 2T can't be told apart from it)",
    )


def test_what_can_not_be_told_from_the_best_of_one_model_is_named():
    found = places_of(["2"], ["litert", "onnxruntime"], lambda at, cell: 1e-4)
    kept = [at for at, cell in enumerate(found.cells) if "fast" in cell.model]
    one = replace(found, cells=[found.cells[at] for at in kept], outcomes=[found.outcomes[at] for at in kept])
    assert one.describe().answer[0] == (
        "Latency: open for nets/fast.fake: litert, 2 threads, 100 µs (by its value alone; onnxruntime 2T can't be told "
        "apart from it)"
    )


def test_how_many_models_have_places_that_cannot_be_told_from_the_best_is_said():
    def answer(*near):
        value = {(0, name): 1e-4 for name in ("fast", "slow")} | {(1, "fast"): 1.1e-4, (1, "slow"): 1.1e-4}
        value |= {(1, name): 9e-4 for name in ("fast", "slow") if name not in near}
        found = places_of(["2"], ["litert", "onnxruntime"], lambda at, cell: value[at, cell.model[5:9]])
        return found.describe().answer[:-1]

    best = "Latency: best for all 2 models: litert, 2 threads"
    assert answer() == (best,)
    assert answer("slow") == (
        "Latency: best for nets/fast.fake: litert, 2 threads, 100 µs",
        "Latency: open for nets/slow.fake: litert, 2 threads, 100 µs (by its value alone; onnxruntime 2T can't be told "
        "apart from it)",
    )
    assert answer("fast", "slow") == (
        "Latency: open for all 2 models: litert, 2 threads can't be told from other places",
    )


def test_headings_of_a_csv_file_have_the_metric_and_its_unit():
    found = places_of(["2"], ["litert", "onnxruntime"])
    head, first, *_ = render_csv(found.all_metrics()).splitlines()
    assert head.startswith("Model,litert: Latency (s),onnxruntime: Latency (s),litert: Latency (s) low,")
    assert first.startswith("nets/fast.fake,0.0003,0.0004,0.00027,")


def test_a_csv_file_has_all_metrics_and_none_where_nothing_is_finished():
    found = places_of(["2"], ["litert"])
    accuracy = {"value": 0.9, "low": None, "high": None, "unit": "1", "basis": "measured"}
    first = found.outcomes[0]
    row = {**first.rows[0], "headlines": ["latency", "accuracy_top1"]}
    row["metrics"] = {**row["metrics"], "accuracy_top1": accuracy}
    found = replace(found, outcomes=(replace(first, rows=[row]), *found.outcomes[1:]))
    lines = render_csv(found.all_metrics()).splitlines()
    assert lines[0].startswith(f"Model,litert: Latency (s),litert: {METRICS['accuracy_top1'].label},")
    assert lines[1].startswith("nets/fast.fake,0.0003,0.9,") and lines[2].startswith("nets/slow.fake,0.0003,n/a,")
    empty = replace(found, outcomes=(None,) * len(found.cells))
    assert render_csv(empty.all_metrics()).splitlines() == ["Model,Notes"]


def test_what_a_verb_writes_has_a_folder_per_cell(monkeypatch):
    folders = []

    def carry_out(request, context):
        folders.append(request.folder)
        raise BadInput("enough")

    monkeypatch.setattr(work, "carry_out", carry_out)
    suite = write(verb="optimize", options={}, devices=["local", "nucleo-l4r5zi"], runtimes=[], threads=["1"])
    assert run(["sweep", suite, "-q"]) == ExitCode.RUN_FAILED
    assert len(set(folders)) == 4 and all(folder.startswith("suite-results/variants/") for folder in folders)


def test_two_sweeps_do_not_write_to_one_folder(capsys):
    suite = write()
    with Ledger(Path("suite-results")).held():
        assert run(["sweep", suite, "-q"]) == ExitCode.UNAVAILABLE
    assert "another sweep writes to suite-results" in capsys.readouterr().err


def test_a_model_that_changes_or_vanishes_meanwhile_fails_alone(monkeypatch):
    plan_of = work.plan_of

    def changing(request, store=None):
        plan = plan_of(request, store)
        write_fake_model("nets/fast.fake", latency_ns=[9_000_000])
        Path("nets/slow.fake").unlink()
        return plan

    monkeypatch.setattr(work, "plan_of", changing)
    assert run(["sweep", write(threads=["1"], models=["nets/*.fake"]), "-q"]) == ExitCode.RUN_FAILED
    causes = [json.loads(line)["cause"] for line in Path("suite-results/cells.jsonl").read_text().splitlines()]
    assert any("nets/fast.fake has changed since the sweep began" in cause for cause in causes)
    assert any("slow.fake" in cause for cause in causes) and runs() == 0


def test_axes_are_combined_excluded_and_included_as_in_a_matrix():
    assert names(exclude=[{"model": "*slow*", "threads": "2"}]) == [
        "nets/fast.fake on fake, 1 thread",
        "nets/fast.fake on fake, 2 threads",
        "nets/slow.fake on fake, 1 thread",
    ]
    file = read_suite(Path(write(include=[{"threads": "2", "batch": "8"}, {"model": "x.fake", "device": "pi4"}])))
    cells = cells_of(file, 100)
    assert {cell.threads: dict(cell.options).get("batch") for cell in cells if "nets" in cell.model} == {
        "1": None,
        "2": ("8",),
    }
    assert cells[-1].name == "x.fake on pi4" and dict(cells[-1].options)["iterations"] == ("9",)
    assert names(models=["nets/fast.fake"], threads=["1"], repeats=2)[1] == (
        "nets/fast.fake on fake, 1 thread, repeat 2"
    )


def test_cells_of_a_device_are_shuffled_by_the_seed_and_devices_come_one_after_the_other():
    def order(**parts):
        return [cell.name for cell in cells_of(read_suite(Path(write(devices=["a", "b"], **parts))), 100)]

    first = order(seed=1)
    assert first == order(seed=1) and sorted(first) == sorted(order(seed=2)) and first != order(seed=2)
    assert [" on a, " in name for name in first] == [True] * 4 + [False] * 4


@pytest.mark.parametrize(
    ("parts", "line", "words"),
    [
        ({"model": ["x"]}, "'model' is not part of a suite", "one of: verb, models, devices"),
        ({"threads": ["1", "many"]}, "threads.1 must be a whole number, not 'many'", ""),
        ({"options": {"duration": "2 parsecs"}}, "duration: '2 parsecs' is not a duration", "units"),
        ({"options": {"durration": "2"}}, "bench has no option 'durration'", "did you mean duration?"),
        ({"options": {"max-size": "1MB"}}, "has no option 'max-size', which is one of optimize", "--help-all"),
        ({"options": {"meters": "perhaps"}}, "meters is true or false, not 'perhaps'", ""),
        ({"options": {"iterations": ["1", "2"]}}, "iterations takes one value, not 2", ""),
        ({"options": {"iterations": "0"}}, "iterations", ""),
        ({"models": ["nets/*.onnx"]}, "no file matches nets/*.onnx", "paths count from"),
        ({"verb": "benchh"}, "'benchh' is not a verb", "one of: bench"),
        ({"runtimes": ["fake", "openvno"]}, "openvno", "did you mean"),
        ({"verb": "calibrate"}, "calibrate does not begin with a model", ""),
        ({"verb": "convert"}, "convert measures nothing on devices", "one that does: bench"),
        ({"verb": "estimate"}, "estimate has no option 'runtime'", ""),
        ({"exclude": [{"colour": "red"}]}, "'colour' is no axis", "one of: model, device"),
        ({"exclude": [{"model": "*"}]}, "no cell is left", ""),
        ({"include": [{"device": "pi4"}]}, "a new cell needs a model", "add model: FILE"),
        ({"limits": {"latency": "5mm"}}, "'5mm' is not a duration", ""),
        ({"models": ["zoo:no-such-network"]}, "no reference network 'no-such-network'", "one of: "),
        ({"models": ["zoo:ds-cnn@half"]}, "the width of zoo:ds-cnn@half is not a number", "such as zoo:NAME@0.5"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_suite_is_named_with_its_line(parts, line, words, capsys):
    code = run(["sweep", write(**parts), "-q"])
    out, err = capsys.readouterr()
    assert line in out + err and words in err
    assert code == ExitCode.BAD_INPUT
    number = int(err.partition("line ")[2].partition(":")[0])
    key = "runtimes" if "no option 'runtime'" in line else next(iter(parts))
    text = Path("suite.yaml").read_text().splitlines()
    assert any(each.startswith(f"{key}:") for each in text[:number])
    assert not any(each.startswith(f"{key}:") for each in text[number:])


@pytest.mark.parametrize("words", [["--dry-run"], [], ["--lab"], ["--emit", "slurm"]])
def test_a_suite_of_too_many_cells_is_refused_before_they_are_made(words, capsys, monkeypatch):
    monkeypatch.setattr("edgewise.verbs.sweep.cells.Cell", None)
    suite = write(threads=[str(count) for count in range(1, 1001)], repeats=1000)
    assert run(["sweep", suite, *words]) == ExitCode.BAD_INPUT
    assert "it has 2,000,000 cells, more than 10,000" in capsys.readouterr().err
    assert run(["sweep", write(), *words, "--most-cells", "3"]) == ExitCode.BAD_INPUT
    assert not Path("suite-results").exists()


def test_a_pattern_leaves_out_what_lies_beside_models(capsys):
    write_fake_model("nets/a.fake", latency_ns=[1])
    for name in ("a.yaml", "a.fake.provenance.json"):
        Path("nets", name).write_text("{}")
    assert run(["sweep", write(models=["nets/a*"], runtimes=["fake"], threads=[]), "--dry-run"]) == 0
    told = capsys.readouterr()
    said = told.out + told.err
    assert "a.fake" in said and "a.yaml" not in said and "provenance" not in said


def test_files_of_a_pattern_and_added_cells_count_as_cells(capsys):
    for name in "abc":
        write_fake_model(f"nets/{name}.fake", latency_ns=[1])
    suite = write(models=["nets/[a-c].fake"], runtimes=["fake"], threads=[])
    assert run(["sweep", suite, "--dry-run", "--most-cells", "3"]) == 0
    assert run(["sweep", suite, "--dry-run", "--most-cells", "2"]) == ExitCode.BAD_INPUT
    assert "more files match nets/[a-c].fake than the 2 cells allowed" in capsys.readouterr().err
    suite = write(
        models=["nets/a.fake"], runtimes=["fake"], threads=[], include=[{"model": f"{at}.fake"} for at in "bc"]
    )
    assert run(["sweep", suite, "--dry-run", "--most-cells", "2"]) == ExitCode.BAD_INPUT
    assert "it has 3 cells, more than 2" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["", "- a\n- b\n", "models: [a\n", "models: &a [x]\nthreads: *a\n", "\x00"])
def test_files_that_are_no_suite_are_one_clear_error(content, capsys):
    Path("bad.yaml").write_text(content)
    assert run(["sweep", "bad.yaml"]) == ExitCode.BAD_INPUT
    assert capsys.readouterr().err.startswith("error: bad.yaml")


def test_repeats_are_one_value_with_the_ends_of_all():
    def outcome(key, value, low, high):
        number = {"value": value, "low": low, "high": high, "unit": "s", "basis": "measured"}
        row = {"model": "m", "device": "local", "runtime": "fake", "threads": 1, "precision": None, "status": "done",
               "headlines": ["latency"], "metrics": {"latency": number}}  # fmt: skip
        return Outcome(key=key, cell=key, status="done", seconds=1, finished=1, rows=[row])

    cells = cells_of(read_suite(Path(write(models=["nets/fast.fake"], threads=["1"], repeats=3, order="listed"))), 9)
    outcomes = [
        outcome("a", 2e-3, 1.9e-3, 2.1e-3),
        outcome("b", 1e-3, 0.5e-3, 1.5e-3),
        outcome("c", 3e-3, 2.9e-3, 3.4e-3),
    ]
    (table,) = SweepResult(suite="s", verb="bench", folder="f", cells=cells, outcomes=outcomes).describe().tables
    assert (table.rows[0][1].value, table.rows[0][1].low, table.rows[0][1].high) == (2e-3, 0.5e-3, 3.4e-3)
    assert table.notes[0].startswith("medians of 3 repeats")


@pytest.mark.parametrize(("scheduler", "file"), [("github", "yml"), ("slurm", "sh"), ("kubernetes", "yaml")])
def test_unfinished_cells_are_written_for_a_scheduler_and_their_requests_run(scheduler, file, capsys):
    suite = write()
    assert run(["sweep", suite, "--only", "fast", "-q"]) == 0
    assert run(["sweep", suite, "--emit", scheduler, "-q", "--json"]) == 0
    document = json.loads(capsys.readouterr().out.rpartition('{\n  "schema"')[2].join(['{\n  "schema"', ""]))
    assert [cell["status"] for cell in document["cells"]].count("left") == 2
    text = Path(f"suite-results/{scheduler}.{file}").read_text()
    requests = sorted(Path("suite-results/requests").iterdir())
    assert len(requests) == 2 and all(path.name in text for path in requests)
    assert run(["run", str(requests[0]), "-q"]) == 0 and runs() == 3
    assert document["emitted"][1] == f"suite-results/{scheduler}.{file}"
    advice = "\n".join(document["emitted"][2:])
    assert "next: " in advice and f"{scheduler}.{file}" in advice and "afterwards: " in advice
    assert run(["sweep", suite, "-q"]) == 0
    assert run(["sweep", suite, "--emit", scheduler, "-q"]) == 0
    assert "nothing is left to carry out" in " ".join(capsys.readouterr().out.split())
    assert not list(Path("suite-results/requests").iterdir())
    if scheduler != "slurm":
        assert all(isinstance(each, dict) for each in yaml.safe_load_all(text))


def test_results_are_files_that_others_read():
    assert run(["sweep", write(threads=["1"]), "-q", "-o", "page.html", "-o", "table.csv"]) == 0
    rows = [json.loads(line) for line in Path("suite-results/measurements.jsonl").read_text().splitlines()]
    assert [(row["named"], row["runtime"], row["metrics"]["latency"]["value"]) for row in rows] == [
        ("nets/fast.fake", "fake", 1e-3),
        ("nets/slow.fake", "fake", 4e-3),
    ]
    board = json.loads(Path("suite-results/board.json").read_text())
    assert board["suite"] == "suite" and len(board["cells"]) == 2
    assert "nets/fast.fake" in Path("page.html").read_text() and "nets/fast.fake" in Path("table.csv").read_text()


def test_a_report_has_the_conditions_of_its_cells():
    assert run(["sweep", write(threads=["1"], order="listed"), "-q", "-o", "page.html"]) == 0
    found = work.sweep(SweepRequest(suite="suite.yaml"), Context())
    document = found.describe()
    with open_store() as store:
        days = sorted({row.created_at[:10] for row in store.list()})
        processor = store.list()[0].machine
    ended = [one.finished for one in found.outcomes if one is not None]
    assert [[cell.text for cell in row] for row in document.tables[1].rows] == [
        [f"nets/{name}.fake on fake, 1 thread", "B", "fake 1", found.outcomes[at].rows[0]["processor"],
         time.strftime("%Y-%m-%d %H:%M", time.gmtime(ended[at]))]
        for at, name in enumerate(("fast", "slow"))
    ]  # fmt: skip
    sections = {section.title: section for section in document.sections}
    assert sections["What was measured"].lines[-2:] == ("Engines: fake 1", f"Measured: {' to '.join(days)}")
    assert f"Processor: {processor}" in sections["What was measured"].lines
    assert sections["Cautions"].brief == "single-session (2 of 2 runs)"
    page = Path("page.html").read_text()
    assert all(words in page for words in ("What was measured", "Engines: fake 1", "single-session", ">Conditions<"))
    Path("runs.db").unlink()
    sections = {section.title: section.lines for section in replace(found, held=()).describe().sections}
    assert sections["Runs elsewhere"] == ("2 runs are not in the store of this machine: no cautions are known",)
    assert work.sweep(SweepRequest(suite="suite.yaml"), Context()).held == []


def test_an_interval_that_says_nothing_is_not_printed_and_said_once():
    write(models=["nets/fast.fake"], order="listed", options={"iterations": "9", "sessions": "2"})
    found = work.sweep(SweepRequest(suite="suite.yaml"), Context())

    def with_ends(*ends):
        numbers = [
            {**one.rows[0]["metrics"]["latency"], "low": low, "high": high}
            for one, (low, high) in zip(found.outcomes, ends, strict=True)
        ]
        rows = [
            {**one.rows[0], "grade": "D", "metrics": {"latency": number}}
            for one, number in zip(found.outcomes, numbers, strict=True)
        ]
        return replace(
            found, outcomes=[replace(one, rows=[row]) for one, row in zip(found.outcomes, rows, strict=True)]
        )

    wide = with_ends((1e-8, 1e2), (4e-4, 2.5e-3))
    document = wide.describe()
    first, second = document.tables[0].rows[0][1:]
    unknown = ("not even known within a factor of 10, by its 95 % interval",)
    assert (first.text.partition(" D")[0], first.notes) == ("1.00 ms", unknown)
    vague = ("known only within a factor of 3, by its 95 % interval",)
    assert (second.text.partition(" D")[0], second.notes) == ("1.00 [0.400, 2.50] ms", vague)
    assert (first.low, first.high) == (1e-8, 1e2)  # the page works with the numbers
    lines = {section.title: section.lines for section in document.sections}["Grade D"]
    assert lines[-1] == (
        "no interval is printed that reaches beyond a factor of 10; 2 sessions hardly show how a third one differs → "
        "more sessions narrow it: 'sessions: 5' among the suite's options, on a quiet machine"
    )
    assert wide.to_document()["unknown"] == [
        {"metric": "latency", "model": "nets/fast.fake", "place": "fake, 1 thread",
         "why": "not even known within a factor of 10"}
    ]  # fmt: skip
    narrow = with_ends((4e-4, 2.5e-3), (9e-4, 1.1e-3))
    assert narrow.to_document()["unknown"] == []
    assert not any(
        "sessions" in line for one in narrow.describe().sections for line in one.lines if "Grade" in one.title
    )


def test_cells_of_grade_d_are_named_with_the_load_and_the_command_that_repeats_them():
    write(models=["nets/fast.fake"], order="listed")
    found = work.sweep(SweepRequest(suite="suite.yaml"), Context())
    rows = [{**one.rows[0], "grade": "D"} for one in found.outcomes]
    vague = replace(found, outcomes=[replace(one, rows=[row]) for one, row in zip(found.outcomes, rows, strict=True)])
    busy = Caution.of("busy-host", "other processes used up to 80% of the processor time")
    trust = Trust(grade="D", reasons=("only 9 samples: unreliable",))
    held = [
        replace(one, cautions=cautions, trust=trust, in_turns=())
        for one, cautions in zip(found.held, ((busy,), ()), strict=True)
    ]

    def lines(**changed):
        return {section.title: section.lines for section in replace(vague, **changed).describe().sections}["Grade D"]

    one, two = (f"nets/fast.fake on fake, {words}" for words in ("1 thread", "2 threads"))
    command = "edgewise sweep suite.yaml --again"
    again = f"{command} measures them again"
    assert lines(held=held) == (
        f"{one}: the machine was busy: other processes used up to 80% of the processor time",
        f"{two}: only 9 samples: unreliable",
        again,
    )
    wide = [f"the 95 % interval, 220 [{low}, 315] µs, spans more than a factor of 2 (at best D)" for low in (150, 151)]
    several = [
        replace(one, trust=Trust(grade="D", reasons=(each, "samples form 2 clusters (at best B)")), cautions=())
        for one, each in zip(held, wide, strict=True)
    ]
    assert lines(held=several) == (f"all 2 cells: the 95 % interval spans more than a factor of 2; {again}",)
    assert lines(held=()) == (
        "all 2 cells: the reason is in the record of the run, which is not in the store of this machine; " + again,
    )
    held = [
        replace(run, cautions=(replace(busy, message=busy.message.replace("80", share)),))
        for run, share in zip(held, ("9", "85"), strict=True)
    ]
    assert lines(held=held) == (
        f"all 2 cells: the machine was busy: other processes used up to 85% of the processor time; {again}",
    )
    good = [replace(vague.outcomes[0], rows=[{**rows[0], "grade": "A"}]), vague.outcomes[1]]
    assert lines(held=held, outcomes=good) == (
        f"{two}: the machine was busy: other processes used up to 85% of the processor time; "
        f"{command} --only '{two}' measures them again",
    )
    two_runs = replace(vague.outcomes[1], rows=[rows[1], {**rows[1], "grade": "C"}])
    assert lines(held=held, outcomes=[vague.outcomes[0], two_runs], only=["fast"])[0].startswith(
        "2 of 3 runs of all 2 cells: the machine was busy: "
    )
    assert lines(held=held, only=["fast"])[0].endswith(f"; {command} --only fast measures them again")
    document = replace(vague, held=held).describe()
    assert document.answer[0] == (
        "Latency: no best can be named: all 2 values have grade D, as the machine was busy; not measured in turns: "
        "edgewise sweep suite.yaml decides"
    )
    assert document.tables[0].notes == ("? grade D: too uncertain to be ranked",)
    assert "Grade D" not in {section.title for section in found.describe().sections}


def test_python_gets_the_same_result():
    import edgewise

    found = edgewise.sweep(write(threads=["1"]))
    assert [one.status for one in found.outcomes] == ["done", "done"]
    assert work.sweep(SweepRequest(suite="suite.yaml"), Context()).to_document()["cells"][0]["status"] == "done"


def test_the_schema_for_editors_takes_what_the_program_takes():
    schema = json.loads((Path(__file__).parents[2] / "docs" / "suite.schema.json").read_text())
    assert set(schema["properties"]) == set(Suite.model_fields) and schema["required"] == ["models"]
    assert schema["additionalProperties"] is False
    assert {"type": ["string", "number", "boolean"]} in schema["properties"]["threads"]["anyOf"]


def test_a_suite_with_speed_and_accuracy_has_the_front_of_both():
    found = with_front().describe()
    (chart,) = found.charts()
    assert chart.title == "Latency against top-1 accuracy"
    kinds = {line.partition(",")[0]: line.rpartition(", ")[2] for line in chart.description.split("; ")}
    assert kinds == {
        "fast": "on the front", "slow": "on the front", "alike": "may be on the front",
        "worse": "behind the front", "same": "behind the front",
    }  # fmt: skip
    first = chart.spec["data"]["values"][0]
    assert first == {"kind": "on the front", "front": True, "n": 1,
                     "x": 1.0, "xlow": 0.99, "xhigh": 1.01, "y": 70.0, "ylow": 69.3, "yhigh": 70.7}  # fmt: skip
    assert "because one of the two is not known: 1." in chart.caption
    sections = {section.title: section.lines for section in found.sections}
    assert sections["Pareto front: latency and top-1 accuracy"] == (
        "1: fast, fake, 1 thread: 1.00 ± 0.01 ms, 70.00 % [69.30, 70.70]",
        "2: slow, fake, 1 thread: 4.00 ± 0.04 ms, 90.00 % [89.10, 90.90]",
    )
    assert sections["Failed"] == ("broken on fake, 1 thread: it broke",)


def test_values_of_grade_d_put_nothing_behind_the_front():
    given = {"fast": (around(1e-3), around(0.7)), "worse": (around(5e-3), around(0.6))}
    (chart,) = evaluated(given).describe().charts()
    assert chart.description.endswith(", behind the front")
    (chart,) = evaluated(given, grade="D").describe().charts()
    assert chart.description.endswith("± 0.05 ms (grade D), 60.00 % [59.40, 60.60], may be on the front")


def test_one_model_or_one_metric_has_no_front():
    for given in ({"one": (around(1e-3), around(0.7))}, {"one": (around(1e-3),), "two": (around(2e-3),)}):
        found = evaluated(given).describe()
        assert list(found.charts()) == [] and not any("front" in section.title for section in found.sections)


def test_a_language_model_without_room_is_refused_before_its_file_is_hashed(place, monkeypatch, capsys):
    """The hash of such a file takes minutes."""
    hashed: list[str] = []
    opened = cells.open_model
    monkeypatch.setattr(cells, "open_model", lambda path: hashed.append(Path(path).name) or opened(path))
    (place / "nets" / "large.gguf").write_bytes(gguf())
    options = {"scenario": "generate", "new_tokens": "4", "prompt_tokens": "8"}
    change = {"models": ["nets/large.gguf"], "runtimes": [], "threads": []}
    suite = write(**change, options={**options, "memory_limit": "100"})
    assert run(["sweep", suite, "--dry-run"]) == 0
    assert "of memory are available" in capsys.readouterr().err and hashed == []
    assert run(["sweep", write(**change, options=options), "--dry-run"]) == 0
    assert hashed == ["large.gguf"]
