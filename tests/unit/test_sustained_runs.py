"""Sustained runs: what they show, and what remains when the worker or the user ends them."""

from __future__ import annotations

import json

import pytest

import edgewise
from edgewise.cancellation import CancelToken, cancellable
from edgewise.cli.main import run as run_command
from edgewise.errors import BadInput
from edgewise.progress import BinDone
from edgewise.run.dispatch import Interrupted
from edgewise.store import from_document, to_document
from edgewise.testing import write_fake_model
from messages import says, wording
from threaded_workers import living

pytestmark = pytest.mark.usefixtures("threads")
MS = 1_000_000


def model(folder, **script):
    """A model of 10 ms that takes 15 ms from its 12,000th inference on: after 2 min."""
    return write_fake_model(folder / "m.fake", **{"warmup_ns": [10 * MS] * 12_000, "latency_ns": [15 * MS], **script})


def behaving(do, *, after):
    return {"behaviour": {"at": "invoke", "do": do, "after": after}}


def test_a_run_shows_when_the_engine_throttled_and_keeps_its_record(tmp_path):
    (run,) = edgewise.bench(model(tmp_path), sustained=240.0, meters=False)
    found = run.sustained
    assert (run.status, found.verdict) == ("done", "slower")
    assert found.cause in ("unknown", "disturbance")  # as busy as this machine is while the tests run
    assert found.ratio == pytest.approx(1.5) and found.slowdown_from_s == pytest.approx(120.0, abs=3.1)
    assert len(run.sessions) == 1 and run.sessions[0].stopped_because == wording("s-measuring", elapsed="240.005")
    assert found.absent["clock_rate"] == "meters were switched off"
    latency = run.measurement("latency")
    assert (latency.low, latency.high) == (None, None) and "it changed" not in latency.method
    assert latency.method.endswith("no interval, because the latency changed while it was measured")
    assert len(latency.samples) == sum(found.series["inferences"])
    assert "drift" not in {caution.code for caution in run.cautions}
    assert from_document(json.loads(json.dumps(to_document(run)))) == run
    for series, words in (({"median": [1.0]}, "no column begin_s"), ({"extra": [1.0]}, says("columns-unequal-length"))):
        document = to_document(run)
        kept = {} if "median" in series else document["sustained"]["series"]
        document["sustained"]["series"] = {**kept, **series}
        with pytest.raises(BadInput, match=words):
            from_document(document)


def test_a_steady_engine_keeps_its_interval(tmp_path):
    (run,) = edgewise.bench(model(tmp_path, latency_ns=[10 * MS]), sustained=240.0, meters=False)
    assert (run.sustained.verdict, run.sustained.slowdown_from_s) == ("same", None)
    latency = run.measurement("latency")
    assert latency.low is not None and latency.low <= latency.value == 0.01


@pytest.mark.parametrize(("do", "cause"), [("segfault", "EngineError"), ("raise", "EngineError")])
def test_a_worker_that_dies_leaves_what_it_measured(tmp_path, do, cause):
    (run,) = edgewise.bench(model(tmp_path, **behaving(do, after=18_000)), sustained=1800.0, meters=False)
    assert (run.status, run.failure.cause) == ("failed", cause)
    assert run.sustained.elapsed_s == pytest.approx(210.0, abs=4.0) and run.sustained.verdict == "slower"
    assert run.value("latency") == pytest.approx(0.01) and run.value("load_time") is not None
    assert run.value("memory_peak") is not None
    assert run.effective["engine_version"] == "1"


def test_a_worker_that_dies_in_its_first_bin_has_measured_nothing(tmp_path):
    (run,) = edgewise.bench(model(tmp_path, **behaving("segfault", after=10)), sustained=1800.0, meters=False)
    assert run.status == "failed" and run.sustained is None and run.measurement("latency") is None


def test_ctrl_c_keeps_what_was_measured_and_ends_the_worker(tmp_path):
    token = CancelToken()

    def progress(event):
        if isinstance(event, BinDone) and event.elapsed_s > 180:
            token.cancel("enough")

    long = model(tmp_path, **behaving("hang", after=20_000))  # 240 s
    with cancellable(token), pytest.raises(Interrupted) as stopped:
        edgewise.bench(long, sustained=1800.0, progress=progress, meters=False)
    (run,) = stopped.value.runs
    assert run.status == "cancelled" and run.failure is None
    assert 180 < run.sustained.elapsed_s <= 240 and run.sustained.verdict == "slower"
    assert run.sessions[0].stopped_because.startswith("it was ended after")
    assert living() == []


def test_paced_runs_have_paced_bins_and_their_misses(tmp_path):
    slow = model(tmp_path, latency_ns=[60 * MS], warmup_ns=[10 * MS] * 3000)  # 20 a second: 150 s
    (run,) = edgewise.bench(slow, scenario="paced", fps=20.0, sustained=240.0, meters=False)
    found = run.sustained
    assert (run.status, found.metric, found.verdict) == ("done", "latency_paced", "slower")
    assert found.slowdown_from_s == pytest.approx(150.0, abs=3.1)
    missed, arrivals = sum(found.series["missed"]), sum(found.series["inferences"])
    assert run.value("deadline_miss_rate") == pytest.approx(missed / arrivals) and missed > 0


def test_the_terminal_shows_the_verdict_within_80_columns(tmp_path, capsys):
    assert run_command(["bench", str(model(tmp_path)), "--sustained", "4min", "--no-store", "--no-meters"]) == 0
    shown = capsys.readouterr()
    assert "slower: latency 15.0 ms in the last minute, 10.0 ms in the first; ratio 1.50" in shown.out
    assert "slower by more than 5% from 2.01 min to the end" in shown.out
    assert wording("clock-not-readable") in shown.out
    assert "2 of 4 min, latency 10.0 ms" in shown.err
    assert max(map(len, shown.out.splitlines())) <= 80


def test_a_page_has_the_chart_and_the_json_has_the_series(tmp_path, capsys):
    command = ["bench", str(model(tmp_path)), "--sustained", "4min", "--no-store", "-q", "--json"]
    assert run_command([*command, "-o", str(tmp_path / "r.html")]) == 0
    (record,) = json.loads(capsys.readouterr().out)["runs"]
    assert record["job"]["workload"]["scenario"]["sustained_s"] == 240.0
    series = record["sustained"]["series"]
    assert len({len(column) for column in series.values()}) == 1 and series["begin_s"][0] == 0.0
    page = (tmp_path / "r.html").read_text()
    assert "Latency over time" in page and "The dashed line is where a slowdown" in page


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"sessions": 3}, says("why-excludes-listing", listing="sessions")),
        ({"iterations": 5, "warmup": 1}, "it excludes iterations and warmup"),
        ({"scenario": "offline"}, says("sustained-applies-only-scenarios-single")),
    ],
)
def test_settings_without_a_meaning_are_refused(tmp_path, fields, words):
    with pytest.raises(BadInput, match=words):
        edgewise.bench(model(tmp_path), sustained=10.0, **fields)
    with pytest.raises(BadInput, match=says("field-must-above-0-s", field="sustained")):
        edgewise.bench(model(tmp_path), sustained=0.0)
