"""`edgewise tour`: what a new user runs first."""

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

import fake_passes
from edgewise.cli.main import run
from edgewise.cli.tour import command as tour
from edgewise.cli.tour.command import compare_request, optimize_request
from edgewise.cli.verb import Output
from edgewise.data import path
from edgewise.errors import Unavailable
from edgewise.estimating.base import estimators
from edgewise.optimizing.planning import installed_runtimes
from edgewise.registry import Availability, availability_of
from edgewise.runtime.base import runtimes
from edgewise.terminal.console import err
from edgewise.testing import write_fake_model
from edgewise.verbs.subjects import read_subjects
from edgewise.verbs.verb import command_of
from messages import says, wording
from sample_optimizations import found, nothing_found
from sample_runs import KWS, failed_run, same_model_runs


@pytest.mark.engine
@pytest.mark.long
def test_the_tour_ends_in_tables_pages_stored_runs_a_faster_variant_and_a_comparison(tmp_path, capsys, monkeypatch):
    if not all(runtimes().get(name).availability() for name in ("onnxruntime", "openvino", "litert")):
        pytest.skip("not all three engines are installed")
    monkeypatch.chdir(tmp_path)
    # .ci/run takes the tour in its whole length, with the README's first line.
    monkeypatch.setattr(tour, "SEARCH_S", 30.0)  # real time: how long is measured at most
    monkeypatch.setattr(tour, "COMPARE_S", 10.0)  # real time: how long is measured at most
    store = ["--store", str(tmp_path / "store.db")]
    assert run(["tour", "-o", "here", *store, "-q"]) == 0
    captured = capsys.readouterr()
    assert re.match(
        "Fastest: |Fastest of the ranked runs: |Among the fastest: |Not decided: |Among the fastest of the ranked runs: ",
        " ".join(captured.out.split()),
    )
    written = {path.name for path in (tmp_path / "here").iterdir()}
    tables = {"zoo.md", "platform.md", "watch.md", "accuracy.md"}
    pages = {"profile.html", "report.html", "evaluate.html", "optimize.html", "compare.html"}
    assert written - {"estimate.md"} == tables | pages | {"optimized"}
    assert ("estimate.md" in written) == ("skipped" not in captured.err.partition("7/7 Estimate")[2])
    zoo = (tmp_path / "here" / "zoo.md").read_text()
    assert "| Model | Task | Accuracy | Latency (ms) | Model Size (MB) | Platform | References |" in zoo
    named = [line for line in zoo.splitlines() if "digits_cnn" in line]
    assert sum(line.startswith("|") for line in named) == 4 and "Image Classification" in zoo
    assert zoo.count("digits_cnn") == 8  # below the table stands the run of each row
    rows = (tmp_path / "here" / "accuracy.md").read_text().splitlines()
    assert [row.split("|")[3].strip() for row in rows if row.startswith("| digits_cnn")] == [
        r"99.63 % \[98.65, 99.90\]"
    ] * 2
    # On a machine that is too busy for a race or a verdict nothing is chosen; without times a page has no chart.
    chosen = list((tmp_path / "here" / "optimized").glob("digits_cnn.*.onnx"))
    for page in pages if chosen else pages - {"optimize.html"}:
        assert "<svg" in (tmp_path / "here" / page).read_text(), page
    assert {path.name for path in tmp_path.iterdir()} - {"store.db-wal", "store.db-shm"} == {"here", "store.db"}
    assert run(["runs", "list", "--json", *store]) == 0
    names = [row["model"].partition(".")[0] for row in json.loads(capsys.readouterr().out)["rows"]]
    # Four benchmarked, one profiled, two judged, the original in the race and two compared at the end.
    assert names.count("digits_cnn") >= (10 if chosen else 9)
    order = ["Smallest: ", "Layers by time", "Accuracy and latency", "Before and after", "Basis of the verdicts"]
    assert sorted(order, key=captured.out.index) == order
    assert "of fresh processes in " in captured.out
    lines = captured.err.splitlines()
    titles = [line for line in lines if line[1:3] == "/7"]
    assert titles[:5] == [
        "1/7 Benchmark",
        "2/7 Profile",
        "3/7 Report",
        "4/7 Evaluate: is it right?",
        "5/7 Optimize: can it be smaller and faster, and still be right?",
    ]
    typed = {line.split()[1]: shlex.split(line)[1:] for line in lines if line.startswith("edgewise ")}
    commands = ["bench", "profile", "report", "evaluate", "optimize", "compare"]
    assert list(typed) == [*commands, "estimate"] if "estimate.md" in written else commands
    # Where nothing was chosen the two fastest meet.
    assert ("optimised" in titles[5]) == any(word.startswith("optimised=") for word in typed["compare"]) == bool(chosen)
    # What was printed can be typed; one round will do to see it.
    assert run([*typed["compare"], "--force", "--rounds", "1", "--json", "-q", *store]) == 0
    assert '"design": "interleaved"' in capsys.readouterr().out
    assert run([*typed["evaluate"], "--no-latency", "--json", "-q", "--force", *store]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"][0]["value"] == 538 / 540
    budget = typed["optimize"].index("--time-budget") + 1
    again = [*typed["optimize"][:budget], "20s", *typed["optimize"][budget + 1 :]]
    assert run([*again, "--force", "--json", "-q", *store, "-r", "onnxruntime"]) == 0
    assert json.loads(capsys.readouterr().out)["conditions"]["budget_s"] == 20.0


def test_the_estimate_is_of_the_int8_model_on_a_board(tmp_path, capsys):
    if not availability_of(estimators().get("cortex-m")):
        pytest.skip("the compiler or the emulator of the Cortex-M estimates is not installed")
    walk = tour.Tour(console=err(), folder=tmp_path, output=Output(quiet=True, force=True))
    assert walk._estimate() == 0
    captured = capsys.readouterr()
    assert "7/7 Estimate: the int8 model on a microcontroller\nedgewise estimate " in captured.err
    assert "digits_cnn_int8.tflite --device nucleo-l4r5zi" in captured.err
    assert "nucleo-l4r5zi" in captured.out and len(captured.out.splitlines()) <= 8
    assert "CONV_2D" in (tmp_path / "estimate.md").read_text()


def test_an_estimate_that_lacks_its_tools_says_what_to_install(tmp_path, monkeypatch, capsys):
    def lack(*words):
        raise Unavailable("no compiler", advice="apt-get install gcc-arm-none-eabi")

    monkeypatch.setattr("edgewise.estimating.base.find_device", lack)
    assert tour.Tour(console=err(), folder=tmp_path, output=Output())._estimate() == 0
    assert "skipped: no compiler; apt-get install gcc-arm-none-eabi" in capsys.readouterr().err


def test_a_file_in_the_folders_place_is_one_clear_error(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert run(["tour", "-o", str(tmp_path / "file")]) == 2
    assert re.search(says("not-folder"), capsys.readouterr().err)


def test_the_chosen_variant_meets_the_original():
    title, request = compare_request(_runs(), found(), cores=1)
    assert title == wording("compare-optimised-one-really-faster")
    assert request.subjects == (
        f"original={KWS.path},runtime=onnxruntime",
        "optimised=/out/kws.ort-static.onnx,runtime=openvino",
    )
    assert command_of(request).endswith("--time-budget 30s")


def test_where_nothing_was_chosen_the_two_fastest_meet():
    assert compare_request(_runs(), nothing_found(), cores=2) == compare_request(_runs(), None, cores=2)


class Absent(fake_passes.Scripted):
    """A pass whose package is not installed."""

    name = "absent"

    def availability(self):
        return Availability(False, "the package scripts is not installed", "pip install scripts")


@pytest.mark.parametrize(
    ("passes", "chosen"),
    [
        ({".onnx": ("absent", "deeds"), ".tflite": ("deeds",)}, "digits_cnn.onnx"),
        ({".onnx": ("absent",), ".tflite": ("deeds",)}, "digits_cnn.tflite"),
        ({".tflite": ("deeds",)}, "digits_cnn.tflite"),
    ],
)
def test_optimised_is_the_first_model_that_an_installed_pass_can_change(tmp_path, monkeypatch, passes, chosen):
    _install(monkeypatch, tmp_path, passes)
    models = [path(name) for name in tour.MODELS]
    request = optimize_request(models, data=path("digits_test.npz"), folder=Path("a b/optimized"))
    assert (Path(request.model).name, request.passes) == (chosen, ("deeds",))
    words = shlex.split(command_of(request))
    assert words[:3] == ["edgewise", "optimize", request.model]
    assert words[-2:] == ["--output", "a b/optimized"]


def test_without_any_pass_the_tour_says_what_to_install(tmp_path, monkeypatch):
    _install(monkeypatch, tmp_path, {".onnx": ("absent",)})
    models = [path(name) for name in tour.MODELS]
    why = optimize_request(models, data=path("digits_test.npz"), folder=tmp_path)
    assert why == "the package scripts is not installed; pip install scripts"
    assert optimize_request([], data=path("digits_test.npz"), folder=tmp_path) == wording("no-model-measured")


def _install(monkeypatch, folder, passes):
    fake_passes.install(monkeypatch, folder, Absent, fake_passes.Deeds)
    monkeypatch.setattr(tour, "PASSES", passes)


def test_a_model_that_no_installed_engine_reads_is_left_out(tmp_path):
    readable, other = path("digits_cnn.onnx"), tmp_path / "model.fake"
    write_fake_model(other)
    if not installed_runtimes("onnx"):
        pytest.skip("no engine that reads ONNX is installed")
    assert tour.readable([readable, other]) == [readable]
    # Where nothing can be read, the benchmark's own error says what to install.
    assert tour.readable([other]) == [other]


def test_the_two_fastest_meet_and_the_fastest_comes_first():
    slower, fastest, slowest = (
        _with_latency(one, seconds) for one, seconds in zip(_runs(), (2e-3, 1e-3, 3e-3), strict=True)
    )
    _, request = compare_request([slower, failed_run(), slowest, fastest], None, cores=2)
    path = fastest.job.model.path
    assert request.subjects == (
        f"{path},runtime={fastest.job.runtime.name}",
        f"{path},runtime={slower.job.runtime.name}",
    )
    assert command_of(request) == f"edgewise compare {' '.join(request.subjects)} --time-budget 30s"


def test_a_single_run_meets_itself_with_two_threads_where_there_are_two_cores():
    only = _runs()[0]
    word = f"{only.job.model.path},runtime={only.job.runtime.name}"
    _, request = compare_request([failed_run(), only], None, cores=2)
    assert (request.subjects, request.threads) == ((word,), (1, 2))
    assert command_of(request) == f"edgewise compare {word} --threads 1,2 --time-budget 30s"
    assert wording("only-one-run-only-one") in compare_request([only], None, cores=1)
    assert wording("nothing-measured-could-compared") in compare_request([failed_run()], None, cores=2)


def test_a_path_with_blanks_and_commas_survives_the_shell_and_the_comparison(tmp_path):
    folder = tmp_path / "a b,c"
    folder.mkdir()
    runs = []
    for number, one in enumerate(_runs()[:2]):
        file = folder / f"{number}=x.onnx"
        file.write_bytes(b"\x08\x07")
        model = replace(one.job.model, path=str(file))
        runs.append(replace(one, job=replace(one.job, model=model)))
    _, request = compare_request(runs, None, cores=2)
    words = shlex.split(command_of(request))[2:4]
    subjects = read_subjects(words, store=None)
    assert {subject.thing for subject in subjects} == {Path(one.job.model.path) for one in runs}
    assert {subject.settings["runtime"] for subject in subjects} == {one.job.runtime.name for one in runs}


def _runs():
    return [one for one in same_model_runs() if one.status == "done" and one.value("latency")][:3]


def _with_latency(one, seconds):
    rows = [replace(row, value=seconds) if row.metric == "latency" else row for row in one.measurements]
    return replace(one, measurements=tuple(rows))
