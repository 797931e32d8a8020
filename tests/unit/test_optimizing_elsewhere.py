"""A search for a device that is not at hand: accuracy is measured here, speed, memory and fit come from an estimate."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

import fake_passes as scripted
from edgewise.errors import BadInput, ExitCode, RunFailed
from edgewise.evaluating.instructions import find_instructions
from edgewise.optimizing.elsewhere import Judge
from edgewise.optimizing.pipeline import find_best_variant
from edgewise.optimizing.search_settings import Limits, SearchSettings
from edgewise.optimizing.variant import DeviceEstimate, MetricValue
from edgewise.report.document.text import plain_text
from edgewise.report.optimization.charts import front_chart
from edgewise.report.optimization.document import print_optimization
from edgewise.report.optimization.tables import csv_table
from edgewise.report.optimization.words import headline_of
from edgewise.verbs.optimize.presentation import FORMAT as OPTIMIZATION
from edgewise.verbs.optimize.presentation import OptimizePresentation
from messages import says, wording
from search_bench import Bench


def estimate(latency=None, *, low=None, high=None, sram=40e3, refused="", basis="estimated", cycles=None, left=()):
    """Of a model on a board."""
    metrics = {} if refused else {
        "latency": MetricValue(value=latency, low=low, high=high, basis=basis, method="cycles by clock", coverage=0.9),
        "memory_sram": MetricValue(value=sram, basis="simulated", method="linked image"),
    }  # fmt: skip
    if left:
        metrics["latency"] = MetricValue(value=None, absent_because="part of it", at_least=cycles / 1e6)
        metrics["accelerator_cycles"] = MetricValue(value=cycles, basis="estimated")
    bound = (
        f"at least {cycles / 1e3:g} ms on the NPU, and {', '.join(left)} on core, whose time is not known"
        if left
        else ""
    )
    return DeviceEstimate(
        device="board", title="a board", software="emulator 1.0", metrics=metrics, untimed=tuple(left), bound=bound,
        refused=refused, advice="do that",
    )  # fmt: skip


@pytest.fixture
def bench(tmp_path, monkeypatch):
    return Bench(tmp_path, monkeypatch)


def search(bench, original, *variants, **settings):
    """The result where the original and the variants of the scripted passes have these estimates, in order."""
    answers = iter(variants)
    asked: list[str] = []

    def answer(path):
        asked.append(path)
        found = original if Path(path).name == "net.fake" else next(answers)
        if isinstance(found, Exception):
            raise found
        return found

    bench.monkeypatch.setattr("search_bench.assert_proven", lambda result: None)  # nothing is raced
    result = bench.search(
        scripted.Faster, scripted.Slower, judge=Judge(device="board", estimate=answer, int8=True), **settings
    )
    assert all(one.measured is None for one in (result.baseline, *result.candidates)) and not bench.saved
    return result


FLOAT = estimate(refused="each of 9 operators works on float32")


def test_where_the_original_has_no_estimate_the_fastest_variant_is_named_first_with_every_basis(bench):
    result = search(bench, FLOAT, estimate(0.02, low=0.017, high=0.024), estimate(0.01, low=0.008, high=0.012))
    assert [one.accepted for one in result.candidates] == [True, True]
    assert result.chosen == result.candidates[1].id
    headline, evidence = headline_of(result)
    assert headline.startswith(f"{result.files['chosen']} for board: latency 10.0 ± 2.0 ms (estimated)")
    assert "RAM 39.1 KiB (simulated)" in headline and "measured here)" in headline
    doubt = (
        "loss 0.00 pt, 95 % interval −5.97 to 5.97 pt on the same 60 samples: not proven to be within 1 pt; how many "
        "samples would decide can't be told from 0 changed answers in 60: four times as many samples would tell more"
    )
    assert evidence == f"{doubt}; the original has no estimate there: each of 9 operators works on float32"
    document = json.loads(json.dumps(result.to_document()))
    found = document["variants"][1]["allowed_loss"]
    assert (found["limit"], found["verdict"], found["because"]) == (0.01, "inconclusive", doubt)
    assert found["samples_needed_low"] is found["samples_needed_high"] is None
    assert document["device"] == "board" and document["baseline"]["device"]["refused"] == FLOAT.refused
    number = next(one for one in document["variants"] if one["id"] == result.chosen)["metrics"]["latency"]
    assert (number["value"], number["basis"], number["coverage"]) == (0.01, "estimated", 0.9)
    text = plain_text(partial(print_optimization, result), width=80)
    told = " ".join(text.split())
    assert "emulator 1.0" in text and told.count("each of 9 operators") == 1
    assert told.count("[1] the original has no estimate there") == 1
    columns = [column.title for column in csv_table(result).columns]
    assert "Latency (estimated)" in columns and "RAM (simulated)" in columns
    page = OPTIMIZATION.render(result, ".html")
    assert "Latency (estimated)" in page and "90% interval" in page
    chart = front_chart(result)
    assert (
        chart is not None
        and "Latency (estimated)" in chart.title
        and "their latency is not known: 1 of 3" in chart.caption
    )


@pytest.mark.parametrize(
    ("latencies", "accepted"),
    [
        (((0.02, 0.018, 0.022), (0.005, 0.004, 0.006)), True),
        (((0.02, 0.015, 0.03), (0.016, 0.01, 0.02)), False),  # the intervals overlap
        (((0.02, None, None), (0.01, None, None)), True),
        (((0.02, None, None), (0.03, None, None)), False),
    ],
)
def test_an_estimated_variant_is_accepted_where_the_estimates_tell_it_apart(bench, latencies, accepted):
    before, after = (estimate(value, low=low, high=high) for value, low, high in latencies)
    result = search(bench, before, after, after)
    assert {one.accepted for one in result.candidates} == {accepted}
    assert (result.chosen is not None) is accepted
    headline, evidence = headline_of(result)
    assert accepted or headline == wording("nothing-shown-better-than-original", device="board")
    assert evidence.endswith("the original there: latency 20.0" + (
        " ms (estimated), RAM 39.1 KiB (simulated)" if latencies[0][1] is None
        else " ± 2.0 ms (estimated), RAM 39.1 KiB (simulated)" if accepted
        else " [15.0, 30.0] ms (estimated), RAM 39.1 KiB (simulated)"
    ) + (f"; {result.chosen_because}" if accepted else ""))  # fmt: skip


def test_what_has_no_estimate_either_is_rejected_with_the_reason(bench):
    result = search(bench, FLOAT, estimate(refused="not supported: FOO"), RunFailed("the emulator died", advice=""))
    assert result.chosen is None and result.runs_nowhere
    assert [one.why for one in result.candidates] == ["board: not supported: FOO", "board: the emulator died"]
    assert headline_of(result)[0] == "No variant for board"
    ending = OptimizePresentation().ending(result, kept=True)
    (problem,) = ending.problems
    assert ending.code == ExitCode.RUN_FAILED  # as of `estimate`
    assert (problem.message, problem.advice) == ("no variant for board: not supported: FOO", "do that")


def test_a_limit_of_memory_is_one_of_the_devices_sram(bench):
    result = search(
        bench, FLOAT, estimate(0.01, sram=90e3), estimate(0.02, sram=50e3), limits=Limits(memory_bytes=64_000)
    )
    assert result.chosen == result.candidates[1].id
    assert "--max-memory" in result.candidates[0].why


@pytest.mark.parametrize("known", [0.02, None])
def test_a_variant_without_a_time_comes_after_one_with_it(bench, known):
    result = search(bench, FLOAT, estimate(None), estimate(known))
    assert known is None or result.chosen == result.candidates[1].id
    assert result.chosen is not None and ("latency not known" in headline_of(result)[0]) is (known is None)


@pytest.mark.parametrize("aim", ["latency", "size"])
def test_of_equal_known_times_the_fewest_other_operators_win_and_the_bound_is_told(bench, aim):
    most, least = estimate(cycles=620, left=("QUANTIZE", "MEAN")), estimate(cycles=640, left=("MEAN",))
    result = search(bench, FLOAT, most, least, aim=aim)
    assert [one.accepted for one in result.candidates] == [True, True]
    assert result.chosen == result.candidates[1].id
    bound = "latency at least 0.64 ms on the NPU, and MEAN on core, whose time is not known"
    assert f" for board: {bound}, RAM" in headline_of(result)[0]
    text = plain_text(partial(print_optimization, result), width=80)
    assert "\u2265 620 \u00b5s" in text and "\u2265 640 \u00b5s" in text and "intervals of estimates" not in text
    documents = result.to_document()["variants"]
    assert [one["metrics"]["latency"]["at_least"] for one in documents] == [620e-6, 640e-6]
    assert [one["device"]["untimed"] for one in documents] == [["QUANTIZE", "MEAN"], ["MEAN"]]


def test_a_shorter_known_part_wins_over_fewer_other_operators(bench):
    result = search(bench, FLOAT, estimate(cycles=600, left=("QUANTIZE", "MEAN")), estimate(cycles=640, left=("MEAN",)))
    assert result.chosen == result.candidates[0].id


def test_fewer_cycles_of_a_part_are_no_speedup_of_the_whole(bench):
    parts = estimate(cycles=310, left=("MEAN", "SOFTMAX"))
    result = search(bench, estimate(0.00062), parts, parts)
    assert all("speedup" not in one.metrics or one.metrics["speedup"].value is None for one in result.candidates)
    assert "the time of the variant is known in part: at least 0.31 ms" in result.candidates[0].why


def test_of_variants_of_about_the_same_size_and_time_the_fastest_is_chosen(bench):
    result = search(bench, FLOAT, estimate(0.400), estimate(0.399))
    assert result.chosen == result.candidates[1].id


def test_a_bound_on_an_unknown_latency_tells_why_it_is_not_known(bench):
    because = "no clock is given: --device board@120MHz, for example"
    unknown = estimate()
    clockless = {"latency": MetricValue(value=None, absent_because=because), "memory_sram": MetricValue(value=5e4)}
    unknown = replace(unknown, metrics=clockless)
    limits = Limits(latency_s=0.1, memory_bytes=64_000)
    result = search(bench, FLOAT, unknown, unknown, limits=limits)
    assert (result.chosen, result.closest, result.unmet) == (None, None, f"--max-latency 100 ms: {because}")
    assert headline_of(result)[1].startswith(f"in the way: --max-latency 100 ms: {because}; the original has no")
    (problem,) = OptimizePresentation().ending(result, kept=True).problems
    assert because in problem.message and "closest" not in problem.advice


def test_cycles_without_a_clock_are_short_and_say_how_to_get_a_latency(bench):
    because = "no clock is given: --device board@120MHz, for example"
    cycles = MetricValue(value=53_321_234.5, low=34.6e6, high=82e6, basis="estimated")
    known = {"latency": MetricValue(value=None, absent_because=because), "cpu_cycles": cycles}
    clockless = replace(estimate(), metrics=known, fit="fits: 1 of 64 KiB RAM, 2 of 128 KiB flash")
    result = search(bench, FLOAT, clockless, clockless)
    headline, evidence = headline_of(result)
    assert "CPU cycles 53.3 [34.6, 82.0] M (estimated); fits: 1 of 64 KiB RAM" in headline
    assert (
        evidence.startswith(f"no latency: {because}; loss 0.00 pt, ") and "; the original has no estimate" in evidence
    )
    table = plain_text(partial(print_optimization, result), width=80).partition("variants")[2]
    assert "53.3 M" in table, table


def test_the_closest_variant_of_a_device_is_told_by_its_own_numbers(bench):
    limits = Limits(latency_s=0.1, memory_bytes=64_000)
    result = search(bench, FLOAT, estimate(0.3), estimate(0.2, sram=65e3), limits=limits)
    assert result.closest == result.candidates[1].id
    assert "Latency 200 ms is over --max-latency 100 ms" in result.unmet and "SRAM" not in result.unmet


def test_the_instructions_of_the_chosen_file_name_the_task_given_by_a_flag(bench):
    result = search(
        bench, FLOAT, estimate(0.01), estimate(0.02), task_name="classification", task_options={"offset": "0"}
    )
    written = find_instructions(Path(result.files["chosen"]), form="")
    assert (written.task, written.task_options) == ("classification", {"offset": "0"})


@pytest.mark.parametrize("there", [True, False])
def test_a_search_that_fails_at_once_leaves_no_empty_folder_of_its_own(tmp_path, there):
    folder = tmp_path / "net-optimized"
    if there:
        folder.mkdir()
    with pytest.raises(BadInput, match=says("no-such-file-in-identity")):
        find_best_variant(SearchSettings(model="net.onnx", format="onnx", folder=folder), save=print)
    assert folder.exists() is there
