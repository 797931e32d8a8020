"""A language model judged on data: perplexity, multiple choice and texts that it writes, of a scripted model."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

import edgewise
from edgewise.comparing.session_values import gather_evidence
from edgewise.errors import BadInput
from edgewise.evaluating.scores import compare_tables, score
from edgewise.evaluating.tasks.multiple_choice import ChoiceTable
from edgewise.evaluating.tasks.perplexity import PerplexityTable
from edgewise.evaluating.tasks.text_scores import rouge_l
from edgewise.run.language_samples import TOO_LONG, answer_question, pack_question
from edgewise.runtime.base import LoadOptions, UnsupportedModel
from edgewise.runtime.fake import LETTERS, FakeRuntime
from edgewise.testing import write_fake_model
from gguf_files import LLAMA, gguf
from messages import says, wording

pytestmark = pytest.mark.usefixtures("threads")

LN = [-1.0, -2.0, -4.0]
"""Log-probabilities of tokens by their numbers, modulo 3."""


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def model(tmp_path: Path, name: str = "m.fake", **told) -> Path:
    generation = {"log_probabilities": LN, "token_ns": [10_000_000], **told}
    return write_fake_model(tmp_path / name, inputs=[], outputs=[], generation=generation)


def lines(tmp_path: Path, *entries: object, name: str = "data.jsonl") -> Path:
    path = tmp_path / name
    path.write_text("".join(f"{each if isinstance(each, str) else json.dumps(each)}\n" for each in entries))
    return path


def judge(model: Path | list[Path], data: Path, task: str, **settings):
    return edgewise.evaluate(model, data=data, task=task, latency=False, **settings)


def nats_of(text: str, before: str) -> float:
    """−ln of the probability that the scripted model gives to `text` behind `before`."""
    tokens = [LETTERS.find(letter) % len(LETTERS) for letter in before + text]
    own = zip(tokens[len(before) - 1 :], tokens[len(before) :], strict=False)
    return -sum(LN[token % 3] / (1 if previous else 2) for previous, token in own)


def scores_of(results) -> dict[str, float]:
    return {each.metric: each.value for each in results.models[0].scores}


WORDS = "the quick brown fox jumps over a lazy dog and runs away "


def text(tmp_path: Path, words: str) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(words)
    return path


# --- perplexity ---


@pytest.mark.parametrize("context", [80, 400])
def test_perplexity_is_that_of_every_token_behind_the_first_word(tmp_path, context):
    words = WORDS * 12
    results = judge(
        model(tmp_path), text(tmp_path, words), "perplexity",
        data_options={"bytes": "64"}, task_options={"context": str(context)},
    )  # fmt: skip
    found, first = scores_of(results), words.index(" ")
    nats = nats_of(words[first:], words[:first])
    assert found["tokens_scored"] == len(words) - first
    assert found["perplexity"] == pytest.approx(math.exp(nats / (len(words) - first)), rel=1e-12)
    assert found["bits_per_byte"] == pytest.approx(nats / math.log(2) / (len(words) - first), rel=1e-12)
    (one,) = results.models
    assert one.headline == "perplexity"
    assert one.run.evaluation.settings["context"] == context
    assert one.run.job.workload.scenario.kind == "generate"
    row = one.run.measurement("perplexity")
    assert row.low < row.value < row.high
    assert math.exp(sum(map(math.log, row.samples)) / len(row.samples)) == pytest.approx(row.value, rel=1e-12)


def test_the_window_is_filled_with_the_text_before(tmp_path):
    words = WORDS * 12
    found = scores_of(
        judge(
            model(tmp_path),
            text(tmp_path, words),
            "perplexity",
            data_options={"bytes": "64"},
            task_options={"context": "100"},
        )
    )
    # A token is a letter here: pieces of about 64 leave 36 before them, but for the first ones.
    assert found["tokens_before"] == pytest.approx(36, abs=6)


def test_a_text_shorter_than_a_window_is_judged_in_what_there_is(tmp_path):
    (one,) = judge(model(tmp_path), text(tmp_path, "one two three"), "perplexity").models
    row = one.run.measurement("perplexity")
    assert one.run.evaluation.n == 1
    assert row.value == pytest.approx(math.exp(nats_of(" two three", "one") / 10))
    assert (row.low, row.high) == (None, None)


def test_tokens_before_each_text_stand_in_its_window(tmp_path):
    (one,) = judge(model(tmp_path, beginning=[1]), text(tmp_path, "one two three"), "perplexity").models
    assert scores_of(judge(model(tmp_path), text(tmp_path, "one two three"), "perplexity"))["tokens_before"] == 3
    assert {each.metric: each.value for each in one.scores}["tokens_before"] == 4


def test_a_piece_longer_than_the_context_is_left_out(tmp_path):
    options = {"data_options": {"bytes": "64"}, "task_options": {"context": "65"}}
    (one,) = judge(model(tmp_path), text(tmp_path, WORDS * 4), "perplexity", **options).models
    assert one.run.evaluation.skipped_count
    assert "samples-left-out" in {each.code for each in one.run.cautions}
    with pytest.raises(BadInput, match=says("tokens-too-many-context", context=65)):
        judge(model(tmp_path), text(tmp_path, WORDS * 4), "perplexity", strict=True, **options)


def test_two_models_are_paired_piece_by_piece(tmp_path):
    data = text(tmp_path, WORDS * 40)
    worse = model(tmp_path, "q.fake", log_probabilities=[-1.1, -2.2, -4.4])
    results = judge([model(tmp_path), worse], data, "perplexity", data_options={"bytes": "64"})
    gaps = {each.metric: each for each in results.models[1].differences}
    before, after = (each.run.value("perplexity") for each in results.models)
    assert math.log(after) == pytest.approx(1.1 * math.log(before))
    assert gaps["perplexity"].difference == pytest.approx(after - before)
    assert 0 < gaps["perplexity"].low < gaps["perplexity"].difference < gaps["perplexity"].high
    runs = [each.run for each in results.models]
    (row,) = [each for each in edgewise.compare(runs).comparisons if each.metric == "perplexity"]
    assert row.ratio == pytest.approx(after / before)
    assert row.design == "paired"


def test_other_tokenizers_have_no_difference_of_perplexity():
    a = PerplexityTable([[9.0, 3, 10, 5]] * 12)
    b = PerplexityTable([[8.0, 4, 10, 5]] * 12)
    gaps = {each.metric: each for each in compare_tables(a, b)}
    assert gaps["perplexity"].difference is None
    assert gaps["perplexity"].absent_because == wording("their-tokenizers-divide-text-differently-see")
    assert gaps["bits_per_byte"].difference == pytest.approx(-0.1 / math.log(2))


def test_stored_runs_of_other_texts_are_not_compared(tmp_path):
    runs = [
        judge(model(tmp_path), text(tmp_path, words), "perplexity", data_options={"bytes": "64"}).runs[0]
        for words in (WORDS * 20, WORDS[4:] * 20)
    ]
    (row,) = [each for each in edgewise.compare(runs).comparisons if each.metric == "perplexity"]
    assert (row.ratio, row.because) == (None, wording("they-different-texts"))
    evidence = gather_evidence(runs[0], "perplexity", name="A")
    assert evidence.tokens == runs[0].value("tokens_scored")


def test_a_probability_that_is_not_finite_gives_no_perplexity():
    table = PerplexityTable([[None, 3, 10, 5], *[[9.0, 3, 10, 5]] * 11])
    found = {each.metric: each for each in score(table)}
    assert found["perplexity"].value is None
    assert found["perplexity"].absent_because == table.explain("perplexity")
    assert "1 of 12" in table.explain("perplexity")
    assert all(math.isnan(each) for each in PerplexityTable([]).values().values())


def test_the_speed_stands_beside_the_quality(tmp_path):
    results = edgewise.evaluate(
        model(tmp_path), data=text(tmp_path, WORDS * 40), task="perplexity", sessions=1, data_options={"bytes": "64"}
    )
    (run,) = results.runs
    assert run.value("decode_rate") == pytest.approx(100)
    assert run.measurement("inference_time").absent_because == wording("language-model-timed-requests-not")
    assert "100 tokens/s" in str(results)


# --- multiple choice ---


def test_the_most_probable_choice_is_the_answer(tmp_path):
    # The space is token 26: −4; "a" is token 0: −1; "c" is token 2: −4. Each choice has one byte.
    data = lines(
        tmp_path,
        {"prompt": "b", "choices": ["a", "c"], "answer": 0},
        {"question": "b", "choices": ["a", "c"], "answer": "B"},
        {"prompt": "b", "choices": ["a", "c"], "answer": "a"},
    )
    (one,) = judge(model(tmp_path), data, "multiple-choice").models
    row = one.run.measurement("accuracy_top1")
    assert (row.value, row.samples) == (pytest.approx(2 / 3), (1.0, 0.0, 1.0))
    assert one.run.evaluation.example["top"] == [[0, -5.0], [1, -8.0]]


@pytest.mark.parametrize(("divide", "best"), [("bytes", 1), ("tokens", 1), ("none", 0)])
def test_a_choice_is_judged_by_its_length_as_stated(tmp_path, divide, best):
    # " c" has −4 − 4, " ddddddd" has −4 − 7.
    data = lines(tmp_path, {"prompt": "b", "choices": ["c", "ddddddd"], "answer": best})
    (one,) = judge(model(tmp_path), data, "multiple-choice", task_options={"divide": divide}).models
    assert one.run.value("accuracy_top1") == 1
    assert one.run.evaluation.settings["divided_by"] == divide


def test_no_better_than_guessing_is_told(tmp_path):
    wrong = [{"prompt": "b", "choices": ["a", "c", "f"], "answer": 1}] * 20
    (one,) = judge(model(tmp_path), lines(tmp_path, *wrong), "multiple-choice").models
    (doubt,) = [each for each in one.run.cautions if each.code == "implausible-accuracy"]
    assert "--task-option prompt=" in doubt.advice
    assert ChoiceTable([True], [0.25]).chance == 0.25
    assert math.isnan(ChoiceTable([], []).values()["accuracy_top1"])


def test_a_choice_longer_than_the_context_is_named(tmp_path):
    data = lines(
        tmp_path,
        {"prompt": "b", "choices": ["a", "c" * 40], "answer": 0},
        {"prompt": "b", "choices": ["a", "c"], "answer": 0},
    )
    (one,) = judge(model(tmp_path), data, "multiple-choice", task_options={"context": "20"}).models
    (left,) = one.run.evaluation.skipped
    reason = wording("tokens-too-many-context", what="choice 2", tokens=41, context=20)
    assert (left.name, left.reason) == ("data.jsonl, line 1", reason)


# --- texts that it writes ---


def test_answers_are_judged_as_of_other_models(tmp_path):
    data = lines(
        tmp_path,
        {"prompt": "x", "reference": "abcdefgh"},
        {"prompt": "y", "references": ["zz", "abcdefgh"]},
        {"prompt": "z", "answer": "nothing"},
    )
    options = {"max_new_tokens": "8"}
    results = judge(model(tmp_path), data, "text-generation", task_options=options)
    assert scores_of(results)["exact_match"] == pytest.approx(2 / 3)
    assert scores_of(results)["rouge_l"] == pytest.approx(2 / 3)
    stopped = judge(model(tmp_path), data, "text-generation", task_options={**options, "stop": "c"})
    assert scores_of(stopped)["exact_match"] == 0


def test_an_answer_ends_at_the_token_that_ends_a_text(tmp_path):
    data = lines(tmp_path, {"prompt": "x", "reference": "abc"})
    assert scores_of(judge(model(tmp_path, end=3), data, "text-generation"))["exact_match"] == 1


def test_a_prompt_without_room_for_an_answer_is_named(tmp_path):
    data = lines(tmp_path, {"prompt": "x" * 60, "reference": "a"}, {"prompt": "x", "reference": "a"})
    (one,) = judge(model(tmp_path), data, "text-generation", task_options={"context": "70"}).models
    (left,) = one.run.evaluation.skipped
    assert left.reason == wording(
        "tokens-too-many-context", what=wording("prompt-beside-new-tokens", most=64), tokens=60, context=70
    )


@pytest.mark.parametrize(
    ("answer", "references", "found"),
    [
        ("the cat sat on the mat", ["the cat is on the mat"], 10 / 12),
        ("police kill the gunman", ["police killed the gunman"], 6 / 8),
        ("the gunman police killed", ["police killed the gunman"], 4 / 8),
        ("A, b!", ["a b"], 1),
        ("", ["a"], 0),
        ("a", ["", "a c"], 2 / 3),
    ],
)
def test_rouge_l_by_hand(answer, references, found):
    assert rouge_l(answer, references) == pytest.approx(found)


def test_rouge_l_is_that_of_the_usual_recursion():
    def longest(a, b):
        row = [0] * (len(b) + 1)
        for one in a:
            corner = 0
            for place, other in enumerate(b, 1):
                corner, row[place] = row[place], corner + 1 if one == other else max(row[place], row[place - 1])
        return row[-1]

    chance = np.random.default_rng(3)
    for _ in range(50):
        a, b = (["abcd"[k] for k in chance.integers(0, 4, chance.integers(1, 90))] for _ in range(2))
        assert rouge_l(" ".join(a), [" ".join(b)]) == pytest.approx(2 * longest(a, b) / (len(a) + len(b)))


# --- what is refused ---


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"task": "classification"}, says("language-model-which-other-tasks")),
        ({"task": "perplexity", "prepare": ("scale=1/255",)}, says("takes-texts-they")),
        ({"task": "perplexity", "keep_state": True}, says("takes-texts-they")),
        ({"task": "perplexity", "metrics": ("x:y",)}, says("language-model-which-other-tasks")),
        ({"task": "perplexity", "task_options": {"context": "1"}}, "context must be"),
        ({"task": "multiple-choice", "task_options": {"prompt": "x"}}, says("prompt-no-place-sample")),
        ({"task": "multiple-choice"}, says("label-no-choices")),
    ],
)
def test_what_a_language_model_can_not_be_judged_by(tmp_path, settings, message):
    with pytest.raises(BadInput, match=message):
        judge(model(tmp_path), text(tmp_path, WORDS), settings.pop("task"), **settings)


def test_choices_are_no_text_to_predict(tmp_path):
    data = lines(tmp_path, {"prompt": "b", "choices": ["a", "c"], "answer": 0})
    with pytest.raises(BadInput, match=says("label-which-no-text-predict")):
        judge(model(tmp_path), data, "perplexity")


def test_a_model_that_is_fed_arrays_predicts_no_text(tmp_path):
    with pytest.raises(BadInput, match=says("needs-language-model", task="perplexity")):
        judge(write_fake_model(tmp_path / "m.fake"), text(tmp_path, WORDS), "perplexity")


def test_a_context_longer_than_the_model_s_is_refused(tmp_path):
    pytest.importorskip("openvino_genai")
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf({**LLAMA, "llama.context_length": 512}))
    message = says("context-tokens-more-than-model", context=1024, longest=512)
    with pytest.raises(BadInput, match=message):
        judge(path, text(tmp_path, WORDS), "perplexity", task_options={"context": "1024"})


def test_an_engine_that_tells_no_probabilities_is_named(tmp_path):
    session = FakeRuntime().load(model(tmp_path), LoadOptions(provider="cpu"))
    (answer,) = answer_question(session, pack_question({"before": "a", "texts": ["b" * 9], "context": 9}))
    assert answer[0, 1:].tolist() == [9, TOO_LONG]
    (answer,) = answer_question(session, pack_question({"before": "", "texts": ["b"], "context": 9}))
    assert answer[0, 1:].tolist() == [1, TOO_LONG + 1]
    del session.log_probabilities
    with pytest.raises(UnsupportedModel, match=says("engine-does-not-tell-how")):
        answer_question(session, pack_question({"before": "a", "texts": ["b"], "context": 9}))


def test_an_interrupted_evaluation_is_resumed(tmp_path, monkeypatch):
    from edgewise.evaluating.tasks.perplexity import PerplexityScorer

    data, options = text(tmp_path, WORDS * 20), {"data_options": {"bytes": "64"}}
    whole = scores_of(judge(model(tmp_path), data, "perplexity", **options))
    original, count = PerplexityScorer.record, 0

    def record(self, *arguments):
        nonlocal count
        count += 1
        if count == 5:
            raise KeyboardInterrupt
        return original(self, *arguments)

    monkeypatch.setattr(PerplexityScorer, "record", record)
    assert judge(model(tmp_path), data, "perplexity", **options).interrupted
    (one,) = judge(model(tmp_path), data, "perplexity", **options).models
    assert one.resumed == 4
    assert {each.metric: each.value for each in one.scores} == whole


@pytest.mark.parametrize(("scale", "verdict"), [(1.0, "pass"), (1.1, "fail")])
def test_the_gate_holds_a_perplexity_against_another_s(tmp_path, scale, verdict):
    worse = model(tmp_path, "q.fake", log_probabilities=[scale * each for each in LN])
    found = edgewise.gate(
        worse, baseline=model(tmp_path), scenario="generate", data=text(tmp_path, WORDS * 40), task="perplexity",
        data_options={"bytes": "64"}, max_regression="perplexity=2%", time_budget=30,
    )  # fmt: skip
    (check,) = found.checks
    assert check.verdict == verdict
