"""`edgewise profile` through the fake engine: exact layers from the command line to the store and back.

The peaks of the machine are given, so that nothing here measures them.
"""

import csv
import io
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from rich.cells import cell_len

from edgewise.cli.main import run as edgewise
from edgewise.comparing.comparison import Comparison, ComparisonResult, Side, Variant
from edgewise.record import Finding, Peak
from edgewise.run.layer_mode import BUDGET_NS
from edgewise.store import open_store
from edgewise.testing import write_fake_model
from messages import is_in, says, wording
from sample_runs import make_run

US = 1_000
PEAKS = (
    Peak(kind="compute", dtype="float32", threads=1, value=1e9, method="given"),
    Peak(kind="bandwidth", threads=1, size_bytes=2**20, value=2e9, method="given"),
)
HOSTILE = 'conv "1"\n</script>\x1b[31m'
FORMULA = "=HYPERLINK(A1)"


def network(first="conv", last="dense"):
    """Convolution (36 MACs, bias), ReLU and a matrix product (8 MACs) on float32 x [1, 4] → y [1, 2]."""
    return {
        "operators": [
            {"name": first, "op": "Conv", "kind": "convolution", "geometry": {"reduction": 9, "bias": True},
             "inputs": ["x", "w", "b"], "outputs": ["c"], "weights": ["w", "b"]},
            {"name": "relu", "op": "Relu", "kind": "activation", "geometry": {"activation": "relu"},
             "inputs": ["c"], "outputs": ["r"]},
            {"name": last, "op": "Gemm", "kind": "matrix-multiplication", "geometry": {"reduction": 4},
             "inputs": ["r", "m"], "outputs": ["y"], "weights": ["m"], "attributes": {"transB": 1}},
        ],
        "tensors": {
            "w": {"shape": [4, 9], "dtype": "float32", "constant": True},
            "b": {"shape": [4], "dtype": "float32", "constant": True},
            "m": {"shape": [4, 2], "dtype": "float32", "constant": True},
            "c": {"shape": [1, 4], "dtype": "float32"},
            "r": {"shape": [1, 4], "dtype": "float32"},
        },
    }  # fmt: skip


def steps(first="conv", last="dense"):
    """620 + 100 + 220 µs on average; what the first varies the last makes up for."""
    return [
        {"name": "fused_conv", "op": "FusedConv", "originals": [first, "relu"], "times_ns": [600 * US, 640 * US],
         "provider": "cpu", "dtype": "float32"},
        {"name": "reorder", "op": "Reorder", "role": "layout", "times_ns": [100 * US]},
        {"name": "gemm", "op": "Gemm", "originals": [last], "times_ns": [240 * US, 200 * US]},
    ]  # fmt: skip


OVERHEADS = [{"name": "between operators", "times_ns": [30 * US]}, {"name": "call", "times_ns": [20 * US]}]
SCRIPT = {
    "latency_ns": [1000 * US],
    "warmup_ns": [20_000 * US],
    "layers": steps(),
    "layer_overheads": OVERHEADS,
    "graph": network(),
}


def give_peaks(dtypes, threads, *, again=False, **_):
    assert (dtypes, threads) == (("float32",), 1)
    return PEAKS, None


@pytest.fixture(autouse=True)
def private(tmp_path, monkeypatch):
    """A store and peaks of this test's own; no terminal, 80 columns."""
    monkeypatch.setenv("EDGEWISE_STORE", f"sqlite:///{tmp_path}/store.db")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("edgewise.run.peaks.find_peaks", give_peaks)


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    """The document of `SCRIPT`'s run, for tests that only read it; one process timed its layers."""
    folder = tmp_path_factory.mktemp("profile")
    path = write_fake_model(folder / "m.fake", **SCRIPT)
    arguments = [
        "profile",
        str(path),
        "-r",
        "fake",
        "--sessions",
        "1",
        "-q",
        "--no-store",
        "-o",
        str(folder / "p.json"),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("edgewise.run.peaks.find_peaks", give_peaks)
        assert edgewise(arguments) == 0
    (run,) = json.loads((folder / "p.json").read_text())["runs"]
    return run


@pytest.fixture
def profile(tmp_path, capsys):
    """Profiles one scripted model; the exit code, standard output and standard error."""

    def profile(*words, **script):
        path = write_fake_model(tmp_path / "m.fake", **(SCRIPT | script))
        code = edgewise(["profile", str(path), "-r", "fake", "--sessions", "1", *words])
        answer = capsys.readouterr()
        return code, answer.out, answer.err

    return profile


def test_a_peak_measured_too_low_is_no_silent_roof(profile, monkeypatch):
    asked = []

    def low_peaks(dtypes, threads, *, again=False, **_):
        asked.append(again)
        compute = Peak(kind="compute", dtype="float32", threads=1, value=1e3, load=0.5)
        return (compute, Peak(kind="bandwidth", threads=1, value=1e9, load=0.5)), None

    monkeypatch.setattr("edgewise.run.peaks.find_peaks", low_peaks)
    code, out, _ = profile("--json")
    (run,) = json.loads(out)["runs"]
    assert code == 0 and asked == [False, True]
    assert [peak["kind"] for peak in run["profile"]["peaks"]] == ["bandwidth"]
    reason = run["profile"]["peaks_absent_because"]
    assert reason.startswith(
        "the measured float32 peak, 1.00 kop/s, is too low for a roof of conv: it attains at least "
    )
    assert all(layer["roof"] is None and layer["roof_share"] is None for layer in run["layers"])
    (caution,) = (each for each in run["cautions"] if each["code"] == "low-roof")
    assert caution["message"] == f"{reason}; other work used up to 50% of the processor while peaks were measured"
    _, out, _ = profile()
    words = " ".join(out.split())
    assert "stands out" not in words
    assert "too low for a roof" in words
    _, out, _ = profile("--details")
    assert "'edgewise doctor --forget' and a new profile measure the peaks anew" in " ".join(out.split())


@pytest.fixture
def record(profile):
    """The same as JSON: the one run's document."""

    def record(*words, **script):
        code, out, _ = profile("--json", *words, **script)
        assert code == 0
        (document,) = json.loads(out)["runs"]
        return document

    return record


def value_of(document, metric="latency"):
    (row,) = [row for row in document["measurements"] if row["metric"] == metric]
    return row["value"]


# -- numbers


def test_layers_are_the_scripts_to_the_digit(document):
    rows = document["layers"]
    assert [(row["index"], row["kind"], row["name"], row["op"]) for row in rows] == [
        (0, "operator", "conv", "Conv"),
        (1, "overhead", "reorder", "change of layout"),
        (2, "operator", "dense", "Gemm"),
        (3, "overhead", "call", "the call of the engine"),
        (4, "overhead", "between operators", "the engine's own work between operators"),
    ]
    assert [row["time"] for row in rows] == pytest.approx([620e-6, 100e-6, 220e-6, 20e-6, 30e-6], rel=1e-9)
    assert [row["share"] for row in rows] == pytest.approx([0.62, 0.1, 0.22, 0.02, 0.03], rel=1e-9)
    assert [row["start"] for row in rows[:3]] == pytest.approx([0, 620e-6, 720e-6], rel=1e-9)
    assert {row["start"] for row in rows[3:]} == {None}
    for row in rows[:3]:
        assert row["low"] <= row["time"] <= row["high"]
    assert (rows[0]["nodes"], rows[0]["operators"]) == (["conv", "relu"], [0, 1])
    assert (rows[0]["engine_nodes"], rows[0]["engine_op"]) == (["fused_conv"], "FusedConv")
    assert rows[2]["attributes"] == {"transB": 1}


def test_costs_and_roofs_follow_from_shapes_and_peaks(document):
    conv, _, dense, *_ = document["layers"]
    # 4 outputs × 9; two ops per MAC, a bias each, a ReLU each; weights 36 + 4, activations 4 in and 4 out, 4 bytes each.
    assert (conv["macs"], conv["ops"], conv["parameters"]) == (36, 76 + 4, 40)
    assert (conv["weight_bytes"], conv["activation_bytes"]) == (160, 32)
    assert conv["intensity"] == pytest.approx(80 / 192)
    assert conv["ops_per_second"] == pytest.approx(80 / 620e-6)
    assert conv["roof"] == pytest.approx(80 / 192 * 2e9)
    assert conv["roof_share"] == pytest.approx(80 / 620e-6 / (80 / 192 * 2e9))
    assert conv["bound"] == "memory"
    assert (dense["macs"], dense["ops"], dense["weight_bytes"], dense["activation_bytes"]) == (8, 16, 32, 24)
    assert [each["name"] for each in conv["inputs"]] == ["x"]
    assert [(each["name"], each["shape"], each["dtype"]) for each in conv["outputs"]] == [("r", [1, 4], "float32")]


def test_the_parts_add_up_to_the_whole(document):
    profile = document["profile"]
    assert value_of(document) == pytest.approx(1e-3)
    assert profile["latency"] == pytest.approx(1e-3)
    assert profile["operators_time"] == pytest.approx(840e-6)
    assert profile["overheads_time"] == pytest.approx(150e-6)
    assert profile["unattributed"] == pytest.approx(10e-6)
    assert profile["conservation"] == pytest.approx(0.99)
    assert profile["attributed"] == pytest.approx(0.99)
    assert profile["profiled_latency"] == pytest.approx(990e-6)
    # 181 inferences warm up in 0.2 s, the first taking 20 ms; then the budget at their mean.
    each = BUDGET_NS // ((20_000 + 180 * 1000) * US // 181)
    assert (profile["sessions"], profile["inferences"]) == (1, each)
    assert profile["method"] == "the script's own times"
    assert [peak["value"] for peak in profile["peaks"]] == [1e9, 2e9]


def test_a_machine_that_changes_its_speed_changes_no_share(record):
    """1.5 times slower from 0.3 s on: one latency, of the turns, and layers that are their shares of it."""
    run = record("--iterations", "100", turns=True, speeds=[[0, 100], [300_000 * US, 150]])
    profile, latency = run["profile"], value_of(run)
    # The process without the profiler ends before; of the one with it, 0.2 s are warm-up and the turns take 0.24 s.
    assert latency == pytest.approx(1.5e-3)
    assert profile["latency"] == latency
    assert profile["profiled_latency"] == pytest.approx(1.5e-3 * 0.99)
    assert [row["share"] for row in run["layers"]] == pytest.approx([0.62, 0.1, 0.22, 0.02, 0.03], rel=0.02)
    assert profile["conservation"] == pytest.approx(0.99, abs=1e-9)
    (row,) = [row for row in run["measurements"] if row["metric"] == "latency"]
    assert row["session_lengths"] == [100]
    assert re.search(says("monotonic-clock-around-each-call", pairs=20), row["method"])
    assert value_of(run, "throughput") == pytest.approx(100 / sum(row["samples"]))


def test_where_the_engine_takes_no_turns_a_note_says_so(document):
    assert any("are from other processes, not in turns" in note for note in document["profile"]["notes"])


def test_findings_have_their_numbers(document):
    profile = document["profile"]
    far, layout, start = profile["findings"]
    at_roof = 80 / (80 / 192 * 2e9) + 16 / (16 / 56 * 2e9)
    assert (far["code"], far["layers"]) == ("far-from-roof", [0, 2])
    assert far["saving"] == pytest.approx(840e-6 - at_roof)
    assert far["evidence"]["time_at_roof"] == pytest.approx(at_roof)
    assert (layout["code"], layout["layers"], layout["saving"]) == ("layout-changes", [1], pytest.approx(100e-6))
    assert (start["code"], start["once"], start["saving"]) == ("slow-first-inference", True, pytest.approx(19e-3))
    assert all(each["message"] and each["suggestion"] and each["method"] for each in profile["findings"])


def test_memory_of_the_activations(document):
    memory = document["profile"]["memory"]
    # x and c, then c and r, then r and y: 16 + 16, 16 + 16, 16 + 8 bytes.
    assert memory["live_bytes"] == [32, 32, 24]
    assert (memory["lower_bound_bytes"], memory["arena_bytes"], memory["peak_operator"]) == (32, 32, 0)


def test_a_step_nobody_can_name_is_unattributed_and_not_hidden(record):
    mystery = {"name": "mystery", "op": "Whirl", "times_ns": [10 * US]}
    profile = record(layers=[*steps(), mystery], layer_overheads=[])["profile"]
    assert profile["unattributed"] == pytest.approx(60e-6)
    assert profile["attributed"] == pytest.approx(0.94)


def test_steps_longer_than_the_whole_are_said_to_be(profile):
    code, out, _ = profile("--json", latency_ns=[800 * US])
    (document,) = json.loads(out)["runs"]
    assert code == 0
    assert document["profile"]["conservation"] == pytest.approx(940 / 800)
    assert document["profile"]["unattributed"] == pytest.approx(-140e-6)
    assert any("117.5%" in note for note in document["profile"]["notes"])


def test_an_operator_without_a_step_is_eliminated_without_a_time(record):
    layers = [{**steps()[0], "originals": ["conv"]}, *steps()[1:]]
    graph = network()
    graph["operators"][1] |= {"op": "Identity", "kind": "movement", "geometry": {}}
    (gone,) = [row for row in record(layers=layers, graph=graph)["layers"] if row["kind"] == "eliminated"]
    assert (gone["name"], gone["time"], gone["share"]) == ("relu", None, None)
    assert gone["time_absent_because"] == "it returns its input unchanged"


# -- what is shown


def test_json_is_one_document_and_progress_is_elsewhere(profile):
    code, out, err = profile("--json")
    assert code == 0
    assert json.loads(out)["runs"][0]["status"] == "done"
    assert "m.fake" in err
    assert profile("--json", "-q")[2] == ""


def test_the_next_command_has_the_shapes_and_inputs_of_this_one(profile, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "500")
    np.savez(tmp_path / "x.npz", x=np.zeros((1, 4), np.float32))
    code, out, _ = profile("-q", "--shape", "x=1x4", "--input-data", str(tmp_path / "x.npz"))
    assert code == 0
    (command,) = re.findall(
        rf"'(edgewise bench {re.escape(str(tmp_path))}/m\.fake .*)' measures it on every engine", out
    )
    assert "--shape x=1x4" in command and f"--input-data {tmp_path}/x.npz" in command


@pytest.mark.parametrize("columns", [80, 120])
def test_the_text_fits_the_terminal(profile, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    code, out, _ = profile("-q")
    assert code == 0
    assert max(map(cell_len, out.splitlines())) <= columns
    for word in ("conv", "dense", "change of l", "unattributed", "99.0 %", "far-from-roof", "layout-changes"):
        assert word in out, word


def test_hostile_names_can_not_speak_to_the_terminal_or_the_spreadsheet(profile, tmp_path):
    script = {"graph": network(HOSTILE, FORMULA), "layers": steps(HOSTILE, FORMULA)}
    code, out, _ = profile("-q", "-o", "p.csv", "-o", "p.html", "-o", "p.md", **script)
    assert code == 0
    assert "\x1b" not in out and max(map(cell_len, out.splitlines())) <= 80
    cells = [cell for row in csv.reader(io.StringIO((tmp_path / "p.csv").read_text())) for cell in row]
    assert any(FORMULA in cell for cell in cells)
    assert not any(cell.startswith(("=", "@", "\t")) for cell in cells)
    for name in ("p.csv", "p.html", "p.md"):
        assert "\x1b" not in (tmp_path / name).read_text()
    assert '"1"\n</script>' not in (tmp_path / "p.html").read_text()


def test_top_folds_the_rest(profile):
    """Only where that saves rows: a single folded layer is shown instead."""
    relu = {"name": "relu", "op": "Relu", "originals": ["relu"], "times_ns": [50 * US]}
    layers = [{**steps()[0], "originals": ["conv"]}, *steps()[1:], relu]
    out = profile("-q", "--top", "1", layers=layers)[1].partition("Layers by time")[2]
    assert "FusedConv" not in out and "conv" in out and "Gemm" not in out and "2 more" in out
    for top in ("0", "2"):
        shown = profile("-q", "--top", top, layers=layers)[1]
        assert "Gemm" in shown and "Relu" in shown


def test_files(profile, tmp_path):
    words = {
        "p.json": '"layers"',
        "p.trace.json": '"traceEvents"',
        "p.nodes.json": "conv",
        "p.mltk.json": "Conv",
        "p.csv": "conv",
        "p.md": "conv",
        "p.html": "<html",
    }
    code, _, err = profile(*(word for name in words for word in ("-o", name)))
    assert code == 0
    for name, word in words.items():
        assert f"wrote {name}" in err
        assert re.search(word, (tmp_path / name).read_text()), name


def test_an_output_that_is_there_is_refused_before_measuring(profile, tmp_path):
    (tmp_path / "p.html").write_text("mine")
    code, out, err = profile("-o", "p.html")
    assert (code, out) == (2, "") and "p.html" in err
    assert (tmp_path / "p.html").read_text() == "mine"
    assert profile("-o", "p.docx")[0] == 2


# -- the store


def test_the_store_keeps_layers(record, capsys, tmp_path):
    document = record()
    assert edgewise(["runs", "show", "last", "--json"]) == 0
    (stored,) = json.loads(capsys.readouterr().out)["runs"]
    assert (stored["layers"], stored["profile"]) == (document["layers"], document["profile"])
    assert edgewise(["runs", "show", "last"]) == 0
    shown = capsys.readouterr().out
    assert "dense" in shown and "far-from-roof" in shown
    assert edgewise(["runs", "export", "-o", "all.json"]) == 0
    assert edgewise(["runs", "import", "all.json", "--store", f"{tmp_path}/other.db"]) == 0
    with open_store() as mine, open_store(f"{tmp_path}/other.db") as other:
        (one,), (two,) = mine.resolve(["last"]), other.resolve(["last"])
    # An export does not say where the model lay.
    assert two.job.model.path == "m.fake" and one == replace(two, job=one.job)
    assert two.profile.findings and len(two.layers) == 5


# -- what can't be


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ({"layers": None}, wording("runtime-cant-time-layers")),
        ({"behaviour": {"at": "profile", "do": "cannot-profile"}}, "the script says so, at profile"),
        ({"graph": None}, wording("script-no-object-graph")),
    ],
)
def test_an_engine_that_can_not_profile_is_exit_code_3_with_the_latency(profile, script, reason, tmp_path):
    complete = {key: value for key, value in (SCRIPT | script).items() if value is not None}
    if "layers" not in complete:
        complete.pop("layer_overheads")
    path = write_fake_model(tmp_path / "n.fake", **complete)
    assert edgewise(["profile", str(path), "-r", "fake", "--sessions", "1", "-q", "-o", "p.json"]) == 3
    (document,) = json.loads((tmp_path / "p.json").read_text())["runs"]
    assert document["status"] == "done" and value_of(document) == pytest.approx(1e-3)
    assert reason in document["profile_absent_because"]
    assert (document["layers"], document["profile"]) == ([], None)


def test_the_reason_and_the_latency_are_shown(profile):
    code, out, _ = profile("-q", behaviour={"at": "profile", "do": "cannot-profile"})
    assert code == 3
    assert "the script says so, at profile" in re.sub(r"\s+", " ", out)
    assert re.search(r"1\.00\s+(± \S+ )?ms", out)
    assert max(map(cell_len, out.splitlines())) <= 80


def test_a_model_that_fails_is_exit_code_4_and_the_others_are_profiled(tmp_path, capsys):
    bad = write_fake_model(tmp_path / "bad.fake", behaviour={"at": "load", "do": "segfault"})
    good = write_fake_model(tmp_path / "good.fake", **SCRIPT)
    assert edgewise(["profile", str(bad), str(good), "-r", "fake", "--sessions", "1", "-q", "--json"]) == 4
    failed, done = json.loads(capsys.readouterr().out)["runs"]
    assert failed["failure"]["signal"] == "SIGSEGV" and failed["layers"] == []
    assert len(done["layers"]) == 5


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, wording("give-model-files-factory-build")),
        (["missing.fake"], 2, "missing.fake"),
        (["m.fake", "--sessions", "0"], 2, "--sessions"),
        (["m.fake", "--timeout", "soon"], 2, "not a duration"),
        (["m.fake", "--what-if", "width=1"], 2, "--what-if"),
        (["m.fake", "-r", "nope"], 3, "nope"),
        (["m.fake", "-d", "moon"], 3, "moon"),
        (["m.fake", "-r", "onnxruntime"], 2, says("none-requested-runtimes-can-run")),
    ],
)
def test_bad_settings_are_one_line_with_advice(tmp_path, capsys, words, code, said):
    write_fake_model(tmp_path / "m.fake", **SCRIPT)
    assert edgewise(["profile", *words]) == code
    captured = capsys.readouterr()
    assert captured.out == "" and is_in(said, captured.err)
    assert captured.err.startswith("error: ") and len(captured.err.strip().splitlines()) <= 2


def test_several_runs_take_turns_without_the_profiler_and_a_prescribed_protocol_is_left_alone(
    tmp_path, capsys, monkeypatch
):
    """Their latencies are far apart: the order could be the drift of the machine all the same."""
    asked = []

    def run_trial(jobs, *, labels, trial, **_):
        asked.append((jobs, trial.budget_s))
        runs = [replace(make_run(number), id=label) for number, label in enumerate(labels, 1)]
        variants = tuple(Variant(label=run.id, run=run) for run in runs)
        return ComparisonResult(variants=variants, comparisons=())

    def compared(variants, criteria):
        a, b = (variant.label for variant in variants)
        side = Side(value=1e-3)
        return [Comparison(a=a, b=b, metric="latency", before=side, after=side, verdict="slower", ratio=1.5,
                           low=1.4, high=1.6, method="in turns")], []  # fmt: skip

    monkeypatch.setattr("edgewise.comparing.finals.run_trial", run_trial)
    monkeypatch.setattr("edgewise.comparing.finals._of_leader_and_rest", compared)
    slow = SCRIPT | {"latency_ns": [9000 * US]}
    files = [str(write_fake_model(tmp_path / name, **each)) for name, each in (("a.fake", SCRIPT), ("b.fake", slow))]
    for more in (["--sessions", "1"], ["--iterations", "20"], ["--duration", "1s"]):
        assert edgewise(["profile", *files, "-r", "fake", *more, "--dry-run"]) == 0
        assert "in turns" not in capsys.readouterr().out
    assert edgewise(["profile", *files, "-r", "fake", "--dry-run"]) == 0
    assert "then in turns, without the profiler: up to 8 of them that can, 10 s each at most" in capsys.readouterr().out
    assert edgewise(["profile", *files, "-r", "fake"]) == 0
    ((jobs, budget_s),) = asked
    assert budget_s == 20.0 and not any(job.workload.profile for job in jobs)
    said = capsys.readouterr()
    assert re.search(r"Which of \S.* and \S.* is faster: measuring these 2 in turns, 20 s at most", said.err)
    assert " ".join(said.out.split()).startswith(
        "b.fake · fake/cpu is 1.50× slower than a.fake · fake/cpu (ratio 1.500, 95 % interval 1.400 to 1.600, measured in turns)"
    )
    with open_store() as store:
        assert (
            sum(
                bool(run.in_turns) and run.profile is not None
                for run in map(store.get, [row.id for row in store.list()])
            )
            == 2
        )


def test_settings_of_findings_are_tried_unless_the_protocol_is_prescribed(tmp_path, capsys, monkeypatch):
    def measured(run, history):
        found = Finding(code="denormal-weights", message="slow", suggestion="zeros", saving=7e-4, low=6e-4, high=8e-4)
        return replace(run, profile=replace(run.profile, findings=(found,)))

    monkeypatch.setattr("edgewise.comparing.tried_findings.settings_to_try", lambda run: ["a=1", "b=2"])
    monkeypatch.setattr("edgewise.comparing.tried_findings.with_measured_savings", measured)
    file = str(write_fake_model(tmp_path / "a.fake", **SCRIPT))
    assert edgewise(["profile", file, "-r", "fake", "--sessions", "1"]) == 0
    said = capsys.readouterr()
    assert "--set a=1" not in said.err and "measured in turns: zeros" not in said.out
    assert edgewise(["profile", file, "-r", "fake"]) == 0
    said = capsys.readouterr()
    assert re.search(r"fake/cpu: measuring in turns what --set a=1 and --set b=2 saves, 80 s at most", said.err)
    assert "measured in turns: zeros (denormal-weights)" in " ".join(said.out.split())
    with open_store() as store:
        (kept, *_) = store.resolve(["last"])
    assert kept.profile.findings[0].low == 6e-4
