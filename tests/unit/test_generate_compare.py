"""Language models measured in turns: verdicts by metric, the same prompts for all, limits, and what is refused."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import edgewise
from edgewise.comparing import divergence
from edgewise.comparing.comparison import NO_KL, Variant
from edgewise.comparing.divergence import NO_TEXT, divergence_of
from edgewise.comparing.metrics import contrast_of
from edgewise.comparing.token_agreement import agreement_of
from edgewise.comparing.trial import ComparisonInterrupted
from edgewise.errors import BadInput
from edgewise.record import Scenario
from edgewise.report.comparison.document import comparison_document
from edgewise.run.generation import MOST_KEPT, Request, tell_answers
from edgewise.stats.proportions import wilson_interval
from edgewise.testing import write_fake_model
from edgewise.verbs.function import carry_out, context_of
from edgewise.verbs.gate.request import GateRequest
from messages import says

pytestmark = pytest.mark.usefixtures("threads")

MS = 1_000_000
TOLD = {"token_ns": [10 * MS, 30 * MS], "prefill_ns": MS, "encode_ns": 500_000, "decode_ns": 200_000}


def model(folder, name, **told):
    return write_fake_model(folder / f"{name}.fake", generation={**TOLD, **told})


def compare(*things, **settings):
    return edgewise.compare(things, **{"scenario": "generate", "prompt_tokens": 16, "new_tokens": 5, **settings})


def rows(findings):
    return {row.metric: row for row in findings.comparisons}


def test_two_models_take_turns_in_fresh_processes(tmp_path):
    found = compare(model(tmp_path, "a"), model(tmp_path, "b", token_ns=[5 * MS, 15 * MS]))
    assert found.pairs == 5
    assert "the verdict on tpot is decided" in found.stopped_because
    told = rows(found)
    assert told["tpot"].ratio == pytest.approx(0.5)
    assert (told["tpot"].verdict, told["tpot"].design, told["tpot"].word) == ("faster", "interleaved", "faster")
    assert told["ttft"].verdict == "same"
    assert {"tpot", "ttft", "model_size"} <= set(told)
    assert comparison_document(found).title.startswith("b.fake is 2.00× faster than a.fake in time per token")
    for variant in found.variants:
        workload = variant.run.job.workload
        assert (workload.interleave, workload.stopping.iterations) == ("rounds", 3)
        assert workload.scenario == Scenario(kind="generate", prompt_tokens=16, new_tokens=5, depth=0)
        assert [session.facts["generation"]["gaps"] for session in variant.run.sessions] == [[4, 4, 4]] * 5


def test_rates_are_compared_by_the_samples_behind_them(tmp_path):
    found = compare(
        model(tmp_path, "a"),
        model(tmp_path, "b", token_ns=[5 * MS, 15 * MS], prefill_ns=4 * MS),
        metrics=("decode_rate", "prefill_rate"),
    )
    told = rows(found)
    assert told["decode_rate"].ratio == pytest.approx(2)
    assert (told["decode_rate"].design, told["decode_rate"].word) == ("interleaved", "faster")
    assert told["prefill_rate"].ratio == pytest.approx(1 / 4)
    assert told["prefill_rate"].word == "slower"


def test_usual_numbers_and_depth(tmp_path):
    found = edgewise.compare(
        [model(tmp_path, "a"), model(tmp_path, "b")], scenario="generate", depth=64, rounds=1, new_tokens=2
    )
    assert {variant.run.job.workload.scenario for variant in found.variants} == {
        Scenario(kind="generate", prompt_tokens=128, new_tokens=2, depth=64)
    }


def test_settings_of_one_model(tmp_path):
    found = compare(model(tmp_path, "a"), threads=(1, 2))
    assert [variant.run.job.runtime.threads for variant in found.variants] == [1, 2]
    assert rows(found)["tpot"].verdict == "same"


def bench(path, **settings):
    given = {"prompt_tokens": 16, "new_tokens": 5, "iterations": 2, "sessions": 3, "meters": False, **settings}
    (run,) = edgewise.bench(path, scenario="generate", **given)
    return run


def test_stored_runs_and_a_run_beside_a_model(tmp_path):
    a, b = model(tmp_path, "a"), model(tmp_path, "b", token_ns=[5 * MS, 15 * MS])
    before = bench(a)
    told = rows(compare(before, bench(b)))
    assert told["tpot"].ratio == pytest.approx(0.5)
    assert told["tpot"].design == "sessions"
    again = edgewise.compare([before, b])
    assert rows(again)["tpot"].design == "interleaved"
    assert again.variants[1].run.job.workload.scenario == before.job.workload.scenario
    with pytest.raises(BadInput, match=says("cant-compared-fairly")):
        compare(before, bench(b, new_tokens=6))


def test_prompts_of_other_files_are_no_fair_comparison(tmp_path):
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for file, text in zip(files, ('"abc"\n', '"abcdefgh"\n'), strict=True):
        file.write_text(text)
    path = model(tmp_path, "a")
    first, second = (bench(path, input_data=file, prompt_tokens=()) for file in files)
    with pytest.raises(BadInput, match=says("cant-compared-fairly")) as caught:
        compare(first, second)
    assert "prompts of other lengths" in caught.value.message
    assert compare(first, first).comparisons


def test_a_speed_that_changes_leaves_pairs_comparable(tmp_path):
    """Neither has a single time per token, but both were slower in the same way and took turns."""
    times = [10 * MS] * 200 + [20 * MS] * 200
    found = compare(
        model(tmp_path, "a", token_ns=times),
        model(tmp_path, "b", token_ns=[time // 2 for time in times]),
        new_tokens=101,
        metrics=("tpot", "decode_rate"),
    )
    for metric, ratio in (("tpot", 0.5), ("decode_rate", 2.0)):
        row = rows(found)[metric]
        assert (row.before.value, row.after.value) == (None, None)
        assert row.ratio == pytest.approx(ratio)
        assert row.verdict == "faster"
    once = compare(model(tmp_path, "a", token_ns=times), model(tmp_path, "b", token_ns=times), new_tokens=101, rounds=1)
    assert "the speed changed" in rows(once)["tpot"].because
    alone = contrast_of(found.variants[0].run, bench(model(tmp_path, "c")), "tpot")
    assert alone.contrast is None
    assert "the speed changed" in alone.because


def gate(candidate, baseline=None, **settings):
    limits = {"max_regression": ("tpot=3%",)} if baseline is not None else {"budget": ("tpot=15ms,ttft=20ms",)}
    words = {"candidate": str(candidate), "baseline": None if baseline is None else str(baseline)}
    return carry_out("gate", context_of(None, None), **limits, **words, **settings)


def test_a_gate_measures_two_models_in_turns(tmp_path):
    given = {"scenario": "generate", "prompt_tokens": 16, "new_tokens": 5}
    a, b = model(tmp_path, "a"), model(tmp_path, "b", token_ns=[11 * MS, 33 * MS])
    slower = gate(b, a, **given)
    assert [check.verdict for check in slower.checks] == ["fail"]
    assert slower.checks[0].ratio == pytest.approx(1.1)
    assert gate(a, b, **given).passed
    budget = gate(model(tmp_path, "c", token_ns=[10 * MS, 11 * MS]), **given)
    assert [(check.requirement.metric, check.verdict) for check in budget.checks] == [
        ("tpot", "pass"),
        ("ttft", "pass"),
    ]


def test_a_gate_takes_the_scenario_of_the_baseline_run(tmp_path):
    baseline = bench(model(tmp_path, "a"), store=str(tmp_path / "runs.db"))
    found = carry_out(
        "gate",
        context_of(str(tmp_path / "runs.db"), None),
        candidate=str(model(tmp_path, "b")),
        baseline=baseline.id,
        max_regression=("3%",),
    )
    assert found.passed
    assert [check.requirement.metric for check in found.checks] == ["tpot"]
    assert {each.run.job.workload.scenario for each in found.findings.variants} == {baseline.job.workload.scenario}


def test_a_gate_of_a_speed_that_changed(tmp_path):
    """A limit against the baseline rests on the pairs; one on the value itself has none to rest on."""
    times = [10 * MS] * 200 + [20 * MS] * 200
    a, b = model(tmp_path, "a", token_ns=times), model(tmp_path, "b", token_ns=times)
    given = {"scenario": "generate", "prompt_tokens": 16, "new_tokens": 101}
    assert gate(a, b, **given).passed
    (tpot, _) = gate(a, **given, time_budget=600.0).checks
    assert tpot.verdict == "unmeasured"
    assert "the speed changed" in tpot.because


def prompts(folder, *texts):
    path = folder / "p.jsonl"
    path.write_text("".join(f'"{text}"\n' for text in texts))
    return path


def test_the_first_lines_say_how_far_the_tokens_agree(tmp_path):
    """Model b makes others from the fourth token on, unless the prompt begins with an a."""
    file = prompts(tmp_path, "abc", "bcd", "cde", "def")
    given = {"input_data": file, "prompt_tokens": None, "rounds": 1}
    found = compare(model(tmp_path, "a"), model(tmp_path, "b", other_from=3), **given)
    told = found.agreement["b.fake"]
    assert (told.prompts, told.equal_prompts, told.positions, told.equal_positions) == (4, 1, 20, 4 * 3 + 2)
    assert (told.first_difference, told.unsteady) == (4, ())
    assert (told.low, told.high) == wilson_interval(1, 4)
    document = comparison_document(found)
    assert (
        document.answer[0]
        == "tokens agree in 70.0 % of positions, and in full on 1 of 4 prompts; first difference at token 4"
    )
    section = next(each for each in document.sections if each.title == "Agreement of the tokens")
    assert "14 of 20 greedy tokens" in section.lines[0]
    assert "KL divergence of the logits is not known" in section.lines[-1]
    row = found.to_document()["agreement"]["b.fake"]
    assert (row["share"], row["kl_divergence"], row["because"]) == (0.7, None, None)
    same = compare(model(tmp_path, "a"), model(tmp_path, "c"), **given)
    assert comparison_document(same).answer[0] == "the same tokens on 4 prompts, all 20"


HALVES, QUARTER = [math.log(0.5)] * 2, [math.log(0.25), math.log(0.75)]
KL = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)


def scored(folder, name, **told):
    """A model that is fed with text alone, as those are that tell probabilities."""
    return write_fake_model(folder / f"{name}.fake", inputs=[], outputs=[], generation={**TOLD, **told})


def test_the_divergence_is_the_mean_over_all_places(tmp_path):
    """Behind a token of an odd number b has other probabilities; a, c, e … have even numbers."""
    file = prompts(tmp_path, "aceg", "bace", "a")
    given = {"input_data": file, "prompt_tokens": None, "rounds": 1}
    a = scored(tmp_path, "a", distributions=[HALVES, HALVES], log_probabilities=[-1.0])
    b = scored(tmp_path, "b", distributions=[HALVES, QUARTER], log_probabilities=[-1.0, -3.0])
    found = compare(a, b, **given)
    row = found.to_document()["agreement"]["b.fake"]
    assert (row["kl_places"], row["kl_absent_because"]) == (6, None)  # the prompt of one token predicts none
    assert row["kl_divergence"] == pytest.approx(KL / 6, abs=1e-6)
    assert (row["kl_low"], row["kl_high"]) == (None, None)
    assert row["log_probability_difference"] == 0
    lines = next(each for each in comparison_document(found).sections if each.title == "Agreement of the tokens").lines
    assert any(f"KL divergence {KL / 6:.3g} nats a token" in line and "no interval" in line for line in lines)


def test_engines_without_all_probabilities_tell_the_difference_of_the_text_s_own(tmp_path):
    file = prompts(tmp_path, "abab", "bb")
    given = {"input_data": file, "prompt_tokens": None, "rounds": 1}
    found = compare(scored(tmp_path, "a"), scored(tmp_path, "b", log_probabilities=[-1.0, -3.0]), **given)
    row = found.to_document()["agreement"]["b.fake"]
    assert row["kl_divergence"] is None
    assert row["kl_absent_because"].startswith("not given by the engine")
    # The second letters b differ by 2, halved behind an a: b, a, b of the first prompt, b of the second.
    assert row["log_probability_difference"] == pytest.approx((1 + 0 + 1 + 2) / 4)


def test_random_prompts_and_stored_runs_have_no_divergence(tmp_path):
    told = compare(model(tmp_path, "a"), model(tmp_path, "b"), rounds=1).to_document()["agreement"]["b.fake"]
    assert (told["kl_divergence"], told["kl_absent_because"]) == (None, NO_TEXT)
    stored = compare(bench(model(tmp_path, "a")), bench(model(tmp_path, "b")))
    assert stored.to_document()["agreement"]["b.fake"]["kl_absent_because"] == NO_KL


def test_an_interrupted_divergence_keeps_what_was_measured(tmp_path, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(divergence, "Inference", stop)
    given = {"input_data": prompts(tmp_path, "ab"), "prompt_tokens": None, "rounds": 1}
    with pytest.raises(ComparisonInterrupted) as stopped:
        compare(scored(tmp_path, "a"), scored(tmp_path, "b"), **given)
    found = stopped.value.findings
    assert found.interrupted and found.comparisons
    assert found.agreement["b.fake"].divergence.because == "interrupted"


def answer(tokens, rows):
    return [np.array(tokens), np.zeros(len(tokens) - 1), np.array(rows, np.float32)]


def test_an_interval_needs_ten_prompts_and_holds_the_value():
    ours = [answer([0, 1], [HALVES])] * 12
    theirs = [answer([0, 1], [QUARTER if place < 4 else HALVES]) for place in range(12)]
    found = divergence_of(ours, theirs)
    assert found.kl == pytest.approx(KL / 3, abs=1e-6)
    assert 0 <= found.low < found.kl < found.high < KL
    assert divergence_of(ours[:9], theirs[:9]).low is None
    assert divergence_of(ours, ours).kl == 0


@pytest.mark.parametrize(
    ("theirs", "reason"),
    [
        (answer([0, 2], [HALVES]), "tokenizers"),
        (answer([0, 1], [[math.log(1 / 3)] * 3]), "vocabularies have 2 and 3 tokens"),
        (answer([0, 1], [[0.0, -math.inf]]), "the probability 0"),
    ],
)
def test_what_can_not_be_set_against_each_other_says_why(theirs, reason):
    found = divergence_of([answer([0, 1], [HALVES])], [theirs])
    assert found.kl is None
    assert reason in found.because


def test_each_process_goes_on_with_other_prompts(tmp_path):
    file = prompts(tmp_path, *("abcdefghijklmnop"[:length] for length in range(1, 17)))
    (run,) = edgewise.bench(
        model(tmp_path, "a"), scenario="generate", input_data=file, new_tokens=2, iterations=3, sessions=3, meters=False
    )
    told = [session.facts["generation"]["prompt_tokens"] for session in run.sessions]
    assert told == [[2, 3, 4], [5, 6, 7], [8, 9, 10]]
    cold = {session.facts["generation"]["answers"][0][0] for session in run.sessions}
    assert len(cold) == 1
    found = compare(run, bench(model(tmp_path, "b"), input_data=file, prompt_tokens=(), new_tokens=2, iterations=3))
    assert found.agreement["b.fake"].prompts == 10


def test_random_prompts_agree_between_stored_runs(tmp_path):
    a, b = bench(model(tmp_path, "a")), bench(model(tmp_path, "b", other_from=2))
    told = compare(a, b).agreement["b.fake"]
    assert told.prompts == 1 + 3 * 2
    assert told.first_difference == 3
    other = compare(a, bench(model(tmp_path, "c"), seed=1)).agreement["c.fake"]
    assert other.share is None
    assert "no prompt in common" in other.because


def test_tokens_at_a_depth_and_without_a_record_are_not_compared(tmp_path):
    pair = model(tmp_path, "a"), model(tmp_path, "b")
    found = compare(*pair, depth=8, rounds=1)
    assert "at a depth" in found.agreement["b.fake"].because
    assert "agreement of the tokens is not known" in comparison_document(found).answer[0]
    a, b = map(bench, pair)
    (old,) = [replace(each, facts={}) for each in a.sessions[:1]]
    assert "no tokens on record of a.fake" in compare(replace(a, sessions=(old,)), b).agreement["b.fake"].because
    assert edgewise.compare([*pair], rounds=1).agreement == {}


def test_a_model_that_varies_itself_is_told(tmp_path):
    a, b = bench(model(tmp_path, "a")), bench(model(tmp_path, "b"))
    (prompt, tokens), *_ = b.sessions[1].facts["generation"]["answers"]
    changed = replace(b.sessions[1], facts={"generation": {"answers": [[prompt, [*tokens[:-1], 99]]]}})
    found = agreement_of(
        Variant(label="a", run=a), Variant(label="b", run=replace(b, sessions=(b.sessions[0], changed)))
    )
    assert found.unsteady == ("b",)
    assert found.share == 1.0


def test_a_request_keeps_so_many_tokens(tmp_path):
    told = [Request(prompt_tokens=1, prompt=str(number), made=[number] * 3000) for number in range(3)]
    kept = tell_answers(told)
    assert [(prompt, len(tokens)) for prompt, tokens in kept] == [("0", 3000), ("1", MOST_KEPT - 3000)]


def test_wrong_settings(tmp_path):
    pair = model(tmp_path, "a"), model(tmp_path, "b")
    with pytest.raises(BadInput, match=says("only-scenario-generate")):
        edgewise.compare(pair, prompt_tokens=8)
    with pytest.raises(BadInput, match=says("field-must-least-not", field="new_tokens")):
        compare(*pair, new_tokens=1)
    with pytest.raises(BadInput, match=says("only-scenario-generate")):
        GateRequest(candidate="a", depth=8, budget=("tpot=1s",)).check()
