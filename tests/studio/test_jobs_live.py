"""What those who watch a job are told: states, events, replay, rates."""

from __future__ import annotations

import json
import re

import pytest

from edgewise.progress import (
    BinDone,
    HeadlineUpdated,
    InferencesDone,
    JobStarted,
    LogLine,
    RequestsDone,
    RunFinished,
    SamplesDone,
    SamplesStarted,
    SessionStarted,
    StageStarted,
    VariantPredicted,
)
from edgewise.record import Run
from edgewise.run.measurements import headline_of
from edgewise.studio.jobs.chart import headline_chart
from edgewise.studio.jobs.live import Feed, Live, document_of
from edgewise.studio.jobs.messages import End, JobState, LogLines, Reporter
from edgewise.terminal.progress import ProgressLines
from edgewise.testing import write_fake_model
from edgewise.verbs.bench.request import BenchRequest
from edgewise.verbs.context import Context
from edgewise.verbs.verb import carry_out
from sample_runs import make_run

RUN = make_run(1)
JOB = JobStarted(job=RUN.job, index=1, total=3)
MS = 1_000_000
END = {"kind": "end", "status": "done", "message": "", "advice": ""}


def told(*events, clock=lambda: 0.0):
    """The messages of events."""
    found = []
    reporter = Reporter(found.append, clock=clock)
    for event in events:
        reporter(event)
    return found


def state_after(*events) -> JobState:
    state = JobState(id="j", title="T", verb="bench")
    for message in told(*events):
        state.apply(message)
    return state


def headline(value, sessions, *, half=0.1e-3):
    return HeadlineUpdated(
        metric="latency", unit="s", value=value, low=value - half, high=value + half, n=20 * sessions, sessions=sessions
    )


def test_how_far_it_is_in_words():
    assert state_after(StageStarted(title="Original")).stage == "Original"
    state = state_after(JOB, SessionStarted(index=1, total=5), InferencesDone(done=50, average_s=0.01))
    assert state.where == f"2 of 3: {RUN.job.label}, session 2 of 5, 50 inferences"
    assert state.share == 0.2
    state = state_after(SamplesStarted(job=RUN.job, total=10), SamplesDone(done=10, total=10))
    assert (state.where, state.share) == (f"{RUN.job.label}, 10 of 10 samples", 1.0)
    state = state_after(JOB, BinDone(elapsed_s=30.2, total_s=60.0, latency_s=0.002))
    assert state.where.endswith(", 30 of 60 s") and state.share == 0.5
    assert state_after(SessionStarted(index=5, total=90)).where == "round 6 of 90"
    state = state_after(JOB)
    assert (
        state.share is None
        and state_after(VariantPredicted(name="a", speedup=1, low=1, high=1, because="")).where == ""
    )


def test_for_whom_it_waits_until_it_goes_on():
    waits = LogLine(text="waiting for local: in use by anna, process 7")
    assert state_after(waits).waiting == "waiting for local: in use by anna, process 7"
    assert state_after(waits, JOB).waiting == ""
    assert state_after(LogLine(text="anything else")).waiting == ""


def test_a_job_that_waits_for_its_device_is_not_shown_as_running():
    waits = LogLine(text="waiting for local: in use by anna, process 7")
    assert (state_after(waits).status, state_after(waits).shown) == ("running", "waiting")
    assert document_of(state_after(waits))["shown"] == "waiting"
    assert state_after(waits, JOB).shown == state_after().shown == "running"
    ended = state_after(waits)
    ended.apply(End(status="cancelled", message="", advice="").to_message())
    assert ended.shown == "cancelled"


def test_counts_are_said_five_times_a_second_and_the_last_always():
    times = iter([0.0, 0.1, 0.19, 0.2, 0.3])
    events = [SamplesDone(done=number, total=7) for number in range(1, 8)]
    counts = [message["done"] for message in told(*events[:5], events[6], clock=lambda: next(times))]
    assert counts == [1, 4, 7]


def test_runs_are_linked_once_they_are_saved():
    state = state_after(JOB, RunFinished(run=RUN))
    assert document_of(state)["runs"] == [
        {"kind": "run", "id": RUN.id, "label": RUN.job.label, "status": "done", "saved": False}
    ]
    state.apply({"kind": "saved", "id": RUN.id})
    state.apply({"kind": "saved", "id": RUN.id})
    assert state.saved == [RUN.id] and document_of(state)["runs"][0]["saved"]


def test_the_log_is_what_the_command_line_prints_and_its_end_is_kept():
    from rich.console import Console

    messages = []
    lines = ProgressLines(Console(file=LogLines(messages.append), width=80, highlight=False))
    lines(LogLine(text="a <b>\x1b[31m"))
    lines(RunFinished(run=RUN))
    assert messages[0] == {"kind": "log", "text": "a <b> [31m"}
    assert "grade" in messages[1]["text"] and len(messages) == 2
    state = JobState(id="j", title="T", verb="bench")
    for number in range(300):
        state.apply({"kind": "log", "text": str(number)})
    assert list(state.log) == [str(number) for number in range(100, 300)]


def test_the_headline_has_its_interval_basis_and_chart():
    state = state_after(JOB, SessionStarted(index=0, total=3), headline(2e-3, 1), headline(2.01e-3, 2, half=0.05e-3))
    (one,) = document_of(state)["headlines"]
    assert (one["label"], one["name"], one["value"]) == (RUN.job.label, "Latency", "2.01 ms")
    assert one["basis"] == "95 % interval ± 0.05 ms; measured, 40 samples of 2 sessions so far"
    assert one["chart"].count("<circle") == 2 and one["chart"].count('class="whisker"') == 2
    assert "After 2 sessions: 2.01 ± 0.05 ms" in one["chart"]
    state.apply(told(JobStarted(job=RUN.job, index=2, total=3))[0])
    state.apply(told(headline(3e-3, 1))[0])
    assert len(document_of(state)["headlines"]) == 2


def speed(done, elapsed_s, prefill_rate=1000.0, decode_rate=50.0):
    return RequestsDone(done=done, elapsed_s=elapsed_s, prefill_rate=prefill_rate, decode_rate=decode_rate)


def test_the_speed_of_a_language_model_is_shown_over_the_time_of_its_sessions():
    sessions = [SessionStarted(index=index, total=2) for index in range(2)]
    state = state_after(JOB, sessions[0], speed(3, 0.5), speed(6, 1.0, None, 93.04))
    assert state.where.endswith(", session 1 of 2, 6 requests")
    for message in told(sessions[1], speed(2, 0.75, 900.0)):
        state.apply(message)
    assert [each["at_s"] for each in state.speeds] == [0.5, 1.0, 1.75]
    prompt, generation = document_of(state)["headlines"]
    assert (prompt["name"], prompt["value"]) == ("Prompt rate", "900 tokens/s")
    assert (generation["label"], generation["name"], generation["value"]) == (
        RUN.job.label, "Generation rate", "50.0 tokens/s",
    )  # fmt: skip
    assert (prompt["chart"].count("<circle"), generation["chart"].count("<circle")) == (2, 3)
    assert "<title>at 1 s: 93.0 /s</title>" in generation["chart"] and ">s of requests<" in generation["chart"]
    state.apply(told(JOB)[0])
    assert document_of(state)["headlines"] == []


def test_models_that_take_turns_have_no_chart_of_a_speed():
    state = state_after(SessionStarted(index=0, total=9), speed(3, 0.5))
    assert (document_of(state)["headlines"], state.where) == ([], "round 1 of 9")


def test_the_latest_speeds_are_kept():
    state = state_after(JOB, SessionStarted(index=0, total=1), *(speed(each, each / 2) for each in range(1, 301)))
    assert [state.speeds[0]["done"], state.speeds[-1]["done"]] == [61, 300]


@pytest.mark.parametrize("value", [0.0, 1e-12, 1e12])
@pytest.mark.parametrize("interval", [True, False])
def test_a_chart_of_one_value(value, interval):
    point = {"metric": "latency", "unit": "s", "value": value, "sessions": 1}
    chart = headline_chart(
        [point | {"low": value if interval else None, "high": value if interval else None}], sessions=1
    )
    assert chart.count("<circle") == 1 and "nan" not in chart and "inf" not in chart.replace("rule", "")


def test_a_very_wide_interval_does_not_stretch_the_axis():
    point = {"metric": "latency", "unit": "s", "value": 261e-6, "low": 8.29e-6, "high": 13400e-6, "sessions": 2}
    chart = headline_chart([point], sessions=5)
    ticks = [float(text) for text in re.findall(r'<text class="end"[^>]*>(\d+) µs<', chart)]
    assert ticks == [130, 326, 522] and chart.count('class="beyond"') == 2
    assert "8.29" in chart and "13400" in chart  # the words have the whole interval
    close = headline_chart([point | {"low": 250e-6, "high": 270e-6}], sessions=5)
    assert 'class="beyond"' not in close


def test_the_last_headline_is_the_results(tmp_path, monkeypatch):
    """The statistics of the running headline are those of the result, exactly."""
    monkeypatch.setenv("EDGEWISE_LOCKS", str(tmp_path))
    model = tmp_path / "m.fake"
    write_fake_model(model, latency_ns=[2 * MS, 3 * MS, 2 * MS, 5 * MS, 4 * MS])
    events = []
    request = BenchRequest(models=(str(model),), iterations=24, warmup=0, sessions=3)
    (run,) = carry_out(request, Context(keep=False, store=str(tmp_path / "s.db"), progress=events.append)).runs
    found = [event for event in events if isinstance(event, HeadlineUpdated)]
    assert [(each.sessions, each.n) for each in found] == [(1, 24), (2, 48), (3, 72)]
    row = run.measurement("latency")
    assert (found[-1].value, found[-1].low, found[-1].high) == (row.value, row.low, row.high)
    assert found[-1].metric == run.headline and found[0].low is not None


@pytest.mark.long
def test_a_failed_session_and_nobody_who_watches_give_no_headline(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGEWISE_LOCKS", str(tmp_path))
    model, events = tmp_path / "m.fake", []
    write_fake_model(model, behaviour={"at": "load", "do": "segfault"})
    request = BenchRequest(models=(str(model),), iterations=5, sessions=2)
    carry_out(request, Context(keep=False, store=str(tmp_path / "s.db"), progress=events.append))
    assert not [event for event in events if isinstance(event, HeadlineUpdated)]
    computed = []
    monkeypatch.setattr(
        "edgewise.run.run_builder.headline_of", lambda *given: computed.append(given) or headline_of(*given)
    )
    write_fake_model(model, latency_ns=[MS])
    (run,) = carry_out(request, Context(keep=False, store=str(tmp_path / "s.db"))).runs
    assert isinstance(run, Run) and run.status == "done"
    assert len(computed) == 1  # for the result, not after each of the two sessions


@pytest.fixture
def live():
    """Two running jobs."""
    found = Live()
    for job_id in ("a", "b"):
        found.begin(JobState(id=job_id, title=job_id.upper(), verb="bench"))
    return found


def read(events):
    """(number, job, first line of its log) of each event."""
    found = []
    for event in events:
        number, kind, data = re.fullmatch(rb"id: \w+-(\d+)\nevent: (\w+)\ndata: (.*)\n\n", event).groups()
        document = json.loads(data)
        found.append((int(number), document.get("id", kind.decode()), *document.get("log", ())[-1:]))
    return found


def say(live, job_id, text):
    live.tell(job_id, {"kind": "log", "text": text})


def test_a_browser_gets_everything_first_and_then_what_changes(live):
    feed = Feed(live, "")
    assert read(feed.due(0.0)) == [(1, "a"), (2, "b")]
    assert read(feed.due(0.0)) == [] and feed.wait_s(0.0) is None
    say(live, "a", "x")
    assert read(feed.due(0.1)) == [(3, "a", "x")]
    live.touch()
    assert read(feed.due(0.2)) == [(4, "list")]


def test_two_changes_a_second_and_the_latest_comes(live):
    feed = Feed(live, "")
    list(feed.due(0.0))
    seen = []
    for tenth in range(1, 31):
        say(live, "a", str(tenth))
        seen += [(tenth, *event[1:]) for event in read(feed.due(tenth / 10))]
    assert seen == [(1, "a", "1"), (10, "a", "10"), (11, "a", "11"), (20, "a", "20"), (21, "a", "21"), (30, "a", "30")]
    say(live, "a", "last")
    assert feed.wait_s(3.0) == pytest.approx(0.1)
    assert read(feed.due(3.1)) == [(live.number, "a", "last")]


def test_one_busy_job_holds_no_other_up(live):
    feed = Feed(live, "")
    list(feed.due(0.0))
    for text in ("1", "2", "3"):
        say(live, "a", text)
        list(feed.due(0.1))
    say(live, "b", "x")
    # The latest of "a", change 5, waits: a browser that is cut off now asks for what came after 4, and gets it.
    assert read(feed.due(0.2)) == [(4, "b", "x")]
    assert read(Feed(live, f"{live.boot}-4").due(0.3)) == [(5, "a", "3"), (6, "b", "x")]


def test_a_browser_that_was_away_gets_what_it_missed(live):
    feed = Feed(live, "")
    list(feed.due(0.0))
    say(live, "a", "missed")
    live.tell("b", END)
    assert [event[:2] for event in read(Feed(live, f"{live.boot}-2").due(0.0))] == [(3, "a"), (4, "b")]
    assert read(Feed(live, f"{live.boot}-4").due(0.0)) == []


@pytest.mark.parametrize("since", ["", "x", "other-4", "-4", f"{'9' * 5000}", "boot-²"])
def test_an_id_of_another_server_gives_everything(live, since):
    assert len(list(Feed(live, since.replace("boot", live.boot)).due(0.0))) == 2


def test_without_listeners_a_change_makes_no_event(live, monkeypatch):
    monkeypatch.setattr("edgewise.studio.jobs.live.document_of", lambda state: pytest.fail("made for nobody"))
    say(live, "a", "x")
    assert live.listeners == 0 and live.get("a").log[-1] == "x"
    called = []
    end = live.listen(lambda: called.append(1))
    say(live, "a", "y")
    end()
    say(live, "a", "z")
    assert called == [1]


def test_jobs_that_ended_long_ago_are_forgotten(live):
    for number in range(60):
        live.begin(JobState(id=str(number), title="", verb="bench"))
        live.tell(str(number), END)
    assert live.get("a").status == "running"
    assert live.get("0") is None and live.get("59").status == "done"
    assert len(live.changed_since(0)) <= 24
