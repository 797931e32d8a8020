import json
import re
import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from importlib import import_module
from importlib.metadata import version

import pytest

from edgewise.cli.doctor import command as doctor
from edgewise.cli.doctor.bundle import cleaner
from edgewise.cli.main import run
from edgewise.errors import Unavailable
from edgewise.record import Failure, SessionRecord
from edgewise.record.reference import Reading, machine_key
from edgewise.registry import Availability, Registry
from edgewise.run import peaks
from edgewise.run.environment import fingerprint
from edgewise.run.reference import VERSION
from edgewise.run.variation import Variation
from edgewise.runtime.base import Provider
from edgewise.store import open_store
from messages import has, says, wording
from patience import LIMIT_S
from sample_runs import make_run


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch, tmp_path):
    """The quiet second is not slept, and the width is that of the narrowest terminal that is served."""
    examine = doctor.examine
    monkeypatch.setattr(doctor, "examine", lambda **given: examine(sleep=lambda seconds: None, **given))
    monkeypatch.setenv("EDGEWISE_STORE", str(tmp_path / "runs.db"))
    monkeypatch.setenv("COLUMNS", "80")


class Engine:
    formats = ("onnx",)
    providers = (Provider(name="cpu", title="CPU"),)
    in_default = True

    def __init__(self, title, availability, *, in_default=True):
        self.title = title
        self.in_default = in_default
        self._availability = availability

    def availability(self):
        if isinstance(self._availability, Exception):
            raise self._availability
        return self._availability


class Plugins(Registry):
    """A registry of made-up plug-ins; an exception in the place of one is raised by `get`."""

    def __init__(self, plugins):
        super().__init__("none", "plug-in")
        self.plugins = plugins

    def names(self):
        return tuple(self.plugins)

    def get(self, name):
        if isinstance(self.plugins[name], Exception):
            raise self.plugins[name]
        return self.plugins[name]


LEARNT = Variation(sigma=0.01, degrees=30.0, source="learnt", method="learnt")
ENGINES = Plugins(
    {
        "alpha": Engine("Alpha Engine", Availability(True, version="1.2.3")),
        "beta": Engine(
            "Beta", Availability(False, "the package beta is not installed", "pip install 'edgewise[beta]'")
        ),
        "broken": Unavailable("runtime 'broken' can't be loaded: no module", advice="reinstall it"),
        "hidden": Engine("Hidden", Availability(True, version="9"), in_default=False),
        "raises": Engine("Raises", RuntimeError("boom")),
    }
)


def load_executors():
    """Import what would otherwise take a replaced function for good, if a test here were the first to import it."""
    for name in ("board", "device_check", "device_tool.executor", "dispatch", "facts", "plan", "worker_executor"):
        import_module(f"edgewise.run.{name}")


load_executors()


@pytest.fixture
def engines(monkeypatch):
    monkeypatch.setattr("edgewise.runtime.base.runtimes", lambda: ENGINES)


def test_runtimes_as_rows(engines, capsys):
    assert run(["doctor", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["runtimes"]}
    assert list(rows) == ["alpha", "beta", "broken", "raises"]
    assert rows["alpha"] == {
        "name": "alpha",
        "title": "Alpha Engine",
        "available": True,
        "version": "1.2.3",
        "reason": None,
        "install_hint": None,
        "formats": ["onnx"],
        "providers": [{"name": "cpu", "title": "CPU", "precisions": ["f32"], "settings": []}],
    }
    assert (rows["beta"]["available"], rows["beta"]["install_hint"]) == (False, "pip install 'edgewise[beta]'")
    assert rows["broken"]["reason"] == "runtime 'broken' can't be loaded: no module"
    assert (rows["raises"]["available"], rows["raises"]["reason"]) == (
        False,
        "its own check failed: RuntimeError: boom",
    )


def test_tables_say_what_is_there_and_how_to_get_the_rest(engines, capsys):
    assert run(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "Alpha Engine 1.2.3 reads onnx" in out
    assert wording("pip-install-edgewise", extra="beta") in out  # brackets are not taken for markup
    assert "Hidden" not in out
    assert "RuntimeError: boom" in out


def test_json_is_the_only_thing_on_standard_output(capsys):
    assert run(["doctor", "--json"]) == 0
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert document["schema"] == 1
    assert {"runtimes", "meters", "devices", "fitness"} <= set(document)
    assert {"cpufreq", "rapl", "thermal"} <= {row["name"] for row in document["meters"]}
    for row in document["runtimes"] + document["meters"]:
        assert row["available"] or row["reason"]
    assert document["devices"][0]["name"] == "local"
    assert document["devices"][0]["environment"]["cpu"]["logical_cores"] >= 1
    fitness = document["fitness"]
    assert fitness["grade"] in "ABCD"
    assert len(fitness["reasons"]) == len(fitness["advice"])
    assert "observing the machine" in captured.err


def test_it_fits_80_columns(capsys):
    assert run(["doctor"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    for heading in ("Runtimes", "Meters", "Devices", "Fitness for measuring: "):
        assert f"\n{heading}" in f"\n{out}"


def test_the_grade_and_its_reasons_are_those_of_the_judgement(monkeypatch, capsys):
    from edgewise.run import fitness

    finding = fitness.Finding(ceiling="C", reason="it is [too] warm", advice="open a window")
    verdict = fitness.Fitness(grade="C", findings=(finding,))
    monkeypatch.setattr(fitness, "assess_fitness", lambda environment, counters: verdict)
    assert run(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "Fitness for measuring: C\n" in out
    assert "it is [too] warm" in out
    assert "open a window" in out


def test_the_answer_comes_first(engines, monkeypatch, capsys):
    """The grade stood below four tables."""
    from edgewise.run import fitness

    def answer(*findings):
        verdict = fitness.Fitness(grade=findings[0].ceiling if findings else "A", findings=findings)
        monkeypatch.setattr(fitness, "assess_fitness", lambda environment, counters: verdict)
        assert run(["doctor"]) == 0
        printed = capsys.readouterr().out
        assert printed.index("Fitness for measuring: ") < printed.index("\nRuntimes")
        return " ".join(printed.partition("\nFitness")[0].split())

    busy = fitness.Finding(ceiling="D", reason="others are [busy]", advice="stop them")
    told = answer(busy)
    assert told.startswith("local can measure models in alpha; meters that work: ")
    assert told.endswith("Expect grade D at best: others are [busy]")
    assert "Expect grade B at best: how its speed varies between runs is assumed: ± " in answer()
    monkeypatch.setattr("edgewise.run.variation.SpeedHistory.usual", lambda self: LEARNT)
    assert answer().endswith("Expect grade A")


def test_the_quiet_second_is_a_second(monkeypatch):
    slept = []
    monkeypatch.undo()
    document = doctor.examine(sleep=slept.append)
    assert slept == [1.0]
    assert document["fitness"]["watched"]["wall_s"] >= 0


def test_no_engine_is_imported():
    script = (
        "import sys; from edgewise.cli.doctor import command as doctor; doctor.examine(sleep=lambda s: None);"
        "engines = {'onnxruntime', 'openvino', 'ai_edge_litert', 'torch', 'tensorflow', 'onnx'} & set(sys.modules);"
        "sys.exit(f'imported: {engines}' if engines else 0)"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_flag_that_is_none(capsys):
    assert run(["doctor", "--fix"]) == 2
    assert "--fix" in capsys.readouterr().err


def test_the_variation_between_runs_is_told_before_and_after_it_was_learnt(capsys, tmp_path, monkeypatch):
    assert run(["doctor", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["variation"]
    assert (told["source"], told["half_width"] > told["sigma"]) == ("assumed", True)
    readings = [
        Reading(version=VERSION, at=30.0 * block + index, compute=1e-3 * (1.01 if block % 2 else 1.0), copy=1e-3)
        for block in range(40)
        for index in range(10)
    ]
    monkeypatch.setattr("edgewise.store.database.Store.readings", lambda self, machine: readings)
    with open_store(str(tmp_path / "runs.db")):
        pass
    assert run(["doctor", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["variation"]
    assert told["source"] == "learnt"
    assert told["sigma"] == pytest.approx(0.005, rel=0.1)
    assert "'compute': 40 blocks of sessions over 20 min" in told["method"]
    assert run(["doctor"]) == 0
    assert "Variation of the machine's speed between runs: ± 1.1% (95 %), learnt" in capsys.readouterr().out


def test_the_history_is_shown_by_period_and_forgotten(capsys, tmp_path, monkeypatch):
    """A noisy hour two hours ago: what widens intervals is named, and gone when it was forgotten."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # its peaks are forgotten, not those of this user
    now, store = time.time(), str(tmp_path / "runs.db")

    def run_at(number, ago_s, times):
        told = [{"at": now - ago_s + n, "compute_s": times[n % 2], "copy_s": 1e-3} for n in range(20)]
        records = tuple(
            SessionRecord(index=0, started_at="", pid=1, facts={"reference": {
                "version": VERSION, "start": told[n], "end": told[n + 1]}})
            for n in range(0, 20, 2)
        )  # fmt: skip
        return replace(make_run(number), environment=fingerprint(), sessions=records)

    with open_store(store) as opened:
        for number in range(1, 7):
            noisy = [1e-3, 2e-3] if number % 2 else [3e-3, 4e-3]
            opened.save(run_at(number, 7200.0 + 100 * number, noisy))
            opened.save(run_at(number + 10, 1800.0 + 100 * number, [1e-3, 1e-3]))
    assert run(["doctor", "--json"]) == 0
    hour, day = json.loads(capsys.readouterr().out)["variation"]["history"]
    assert (hour["title"], hour["blocks"], hour["half_width"]) == ("in the last hour", 12, 0.0)
    assert (day["title"], day["blocks"], day["half_width"] > 0.5) == ("in the day before it", 12, True)
    assert run(["doctor"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "± 0.0% in the last hour (12 blocks of sessions), ± " in words
    assert "edgewise doctor --forget" in words
    assert run(["doctor", "--forget", "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["variation"]["history"] == []
    assert "forgot 240 reference times and 0 peaks of local; its runs are kept" in captured.err
    with open_store(store) as opened:
        assert len(opened.list()) == 12


def test_the_best_peaks_are_shown_and_forgotten(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(peaks, "_ask", lambda place, request, **_: {"seconds": [1e-3] * 9, "load": 0.5})
    for _ in range(2):
        peaks.find_peaks((), 1)
    assert run(["doctor"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "Peaks, the limits of profiles → forget them: edgewise doctor --forget" in words
    assert "bandwidth in 256 MiB: 268 GB/s (numpy" in words and "1 thread, measured 2 times since 20" in words
    assert run(["doctor", "--forget", "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["peaks"] == []
    assert "forgot 0 reference times and 4 peaks of local; its runs are kept" in captured.err


def test_calibrating_measures_the_bundled_network_and_keeps_the_run(capsys, monkeypatch):
    pytest.importorskip("onnxruntime")
    asked = []

    def sleep(seconds):
        asked.append(seconds)

    monkeypatch.setattr("edgewise.run.dispatch.sleep", sleep)
    monkeypatch.setattr(doctor, "CALIBRATION_STEP_S", 120.0)
    assert run(["doctor", "--calibrate", "6min"]) == 0
    assert max(asked) > 200.0
    assert "digits_cnn.onnx" in capsys.readouterr().err
    with open_store() as store:
        (row,) = store.list()
        kept = store.get(row.id)
        assert (len(kept.sessions), kept.job.workload.stopping.spread_s) == (4, 360.0)
        assert len(store.readings(machine_key(kept.environment))) == 8


def test_too_short_a_calibration_is_refused(capsys):
    assert run(["doctor", "--calibrate", "2min"]) == 2
    assert re.search(says("min-more-10min-good-start", least_span_s=has("6")), capsys.readouterr().err)


def test_engines_of_language_models_are_listed_and_the_fake_one_is_not(capsys):
    assert run(["doctor", "--json"]) == 0
    names = [one["name"] for one in json.loads(capsys.readouterr().out)["runtimes"]]
    assert "openvino-genai" in names and "fake" not in names


def test_the_bundle_has_versions_and_failures_and_neither_names_nor_paths(engines, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("platform.node", lambda: "annas-laptop.example")
    monkeypatch.setattr("getpass.getuser", lambda: "anna")
    monkeypatch.setitem(
        ENGINES.plugins, "lost", Unavailable("no /srv/secret/engine.so on Annas-Laptop, see ssh://anna@pi4/", advice="")
    )
    with open_store(str(tmp_path / "runs.db")) as store:
        store.save(make_run(1))
        store.save(
            replace(make_run(2), status="failed", failure=Failure(cause="Killed", message="/home/anna/secret.onnx"))
        )
    file = tmp_path / "support.zip"
    assert run(["doctor", "--bundle", str(file)]) == 0
    assert f"wrote {file}: look at it before you send it" in capsys.readouterr().err
    with zipfile.ZipFile(file) as archive:
        texts = {name: archive.read(name).decode() for name in archive.namelist()}
    assert list(texts) == ["doctor.json", "versions.json", "failures.json"]
    rows = {row["name"]: row for row in json.loads(texts["doctor.json"])["runtimes"]}
    assert rows["lost"]["reason"] == "no PATH on NAME, see URL"
    (failed,) = json.loads(texts["failures.json"])["runs"]
    assert (failed["runtime"], failed["threads"], failed["cause"]) == ("onnxruntime", 1, "Killed")
    assert json.loads(texts["versions.json"])["numpy"] == version("numpy")
    everything = "".join(texts.values()).lower()
    words = ("anna", "secret", str(tmp_path), make_run(2).job.model.name, make_run(2).id)
    assert not [word for word in words if word in everything]


def test_a_bundle_is_not_written_over_a_file_and_tells_of_a_store_that_is_not_there(engines, capsys, tmp_path):
    (tmp_path / "support.zip").write_text("mine")
    assert run(["doctor", "--bundle", str(tmp_path / "support.zip")]) == 2
    assert "exists already" in capsys.readouterr().err
    assert run(["doctor", "--bundle", str(tmp_path / "support.zip"), "--force"]) == 0
    with zipfile.ZipFile(tmp_path / "support.zip") as archive:
        assert json.loads(archive.read("failures.json"))["absent_because"] == "there is no store at PATH"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("no /sys/class/powercap and /dev/ttyACM0", "no /sys/class/powercap and PATH"),
        ("onnxruntime/cpu 1/s", "onnxruntime/cpu 1/s"),
        (r"C:\Users\me\v, ~/models and (/opt/x)", "PATH, PATH and (PATH)"),
        ("pi4 of pi45", "NAME of pi45"),
        ({"pi4": [1, None, "PI4"]}, {"pi4": [1, None, "NAME"]}),
    ],
)
def test_what_a_bundle_leaves_out(text, clean):
    assert cleaner(("pi4",))(text) == clean
