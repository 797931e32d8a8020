"""`edgewise tour`: what a new user runs first."""

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from edgewise.cli.main import run
from edgewise.cli.subjects import read_subjects
from edgewise.cli.tour_comparison import choose_contest
from edgewise.runtime.base import runtimes
from sample_runs import failed_run, same_model_runs


@pytest.mark.engine
@pytest.mark.slow
def test_the_tour_ends_in_tables_pages_stored_runs_and_a_comparison(tmp_path, capsys, monkeypatch):
    if not all(runtimes().get(name).availability() for name in ("onnxruntime", "openvino", "litert")):
        pytest.skip("not all three engines are installed")
    monkeypatch.chdir(tmp_path)
    store = ["--store", str(tmp_path / "store.db")]
    assert run(["tour", "-o", "here", *store, "-q"]) == 0
    captured = capsys.readouterr()
    assert "Recommended for digits_cnn.onnx" in captured.out
    written = {path.name for path in (tmp_path / "here").iterdir()}
    assert written == {"zoo.md", "platform.md", "watch.md", "profile.html", "report.html", "compare.html"}
    zoo = (tmp_path / "here" / "zoo.md").read_text()
    assert "| Model | Task | Accuracy | Latency (ms) | Model Size (MB) | Platform | References |" in zoo
    assert zoo.count("digits_cnn") == 4 and "Image Classification" in zoo
    page = (tmp_path / "here" / "report.html").read_text()
    assert "<svg" in page and "litert" in page
    assert {path.name for path in tmp_path.iterdir()} - {"store.db-wal", "store.db-shm"} == {"here", "store.db"}
    assert run(["runs", "list", "--json", *store]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    names = [row["model"].partition(".")[0] for row in rows]
    assert names == ["digits_cnn"] * 7  # four benchmarked, one profiled, two compared
    assert "Layers by time" in captured.out and "of the end-to-end latency" in captured.out
    assert captured.out.index("Layers by time") < captured.out.index("Before and after")
    assert "took turns in random order" in captured.out
    assert "<svg" in (tmp_path / "here" / "compare.html").read_text()
    lines = captured.err.splitlines()
    assert [line for line in lines if line.startswith(("1/4", "2/4", "3/4", "4/4"))] == [
        "1/4 Benchmark",
        "2/4 Profile",
        "3/4 Report",
        "4/4 Compare: is the fastest really faster than the runner-up?",
    ]
    (typed,) = [line for line in lines if line.startswith("edgewise compare ")]
    # What was printed can be typed; one round will do to see it.
    assert run([*shlex.split(typed)[1:], "--rounds", "1", "--json", "-q", *store]) == 0
    assert '"design": "interleaved"' in capsys.readouterr().out


def test_a_file_in_the_folders_place_is_one_clear_error(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert run(["tour", "-o", str(tmp_path / "file")]) == 2
    assert "is not a folder" in capsys.readouterr().err


def test_the_two_fastest_meet_and_the_fastest_comes_first():
    slower, fastest, slowest = (
        _with_latency(one, seconds) for one, seconds in zip(_runs(), (2e-3, 1e-3, 3e-3), strict=True)
    )
    contest = choose_contest([slower, failed_run(), slowest, fastest], cores=2)
    path = fastest.job.model.path
    assert contest.words == (
        f"{path},runtime={fastest.job.runtime.name}",
        f"{path},runtime={slower.job.runtime.name}",
    )
    assert contest.threads == ()
    assert contest.command == f"edgewise compare {contest.words[0]} {contest.words[1]} --time-budget 30s"


def test_a_single_run_meets_itself_with_two_threads_where_there_are_two_cores():
    only = _runs()[0]
    word = f"{only.job.model.path},runtime={only.job.runtime.name}"
    contest = choose_contest([failed_run(), only], cores=2)
    assert (contest.words, contest.threads) == ((word,), (1, 2))
    assert contest.command == f"edgewise compare {word} --vary threads=1,2 --time-budget 30s"
    assert "no more than one core" in choose_contest([only], cores=1)
    assert "nothing was measured" in choose_contest([failed_run()], cores=2)


def test_a_path_with_blanks_and_commas_survives_the_shell_and_the_comparison(tmp_path):
    folder = tmp_path / "a b,c"
    folder.mkdir()
    runs = []
    for number, one in enumerate(_runs()[:2]):
        file = folder / f"{number}=x.onnx"
        file.write_bytes(b"\x08\x07")
        model = replace(one.job.model, path=str(file))
        runs.append(replace(one, job=replace(one.job, model=model)))
    words = shlex.split(choose_contest(runs, cores=2).command)[2:4]
    subjects = read_subjects(words, store=None)
    assert {subject.path for subject in subjects} == {Path(one.job.model.path) for one in runs}
    assert {subject.settings["runtime"] for subject in subjects} == {one.job.runtime.name for one in runs}


def _runs():
    return [one for one in same_model_runs() if one.status == "done" and one.value("latency")][:3]


def _with_latency(one, seconds):
    rows = [replace(row, value=seconds) if row.metric == "latency" else row for row in one.measurements]
    return replace(one, measurements=tuple(rows))
