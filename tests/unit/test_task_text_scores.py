"""Scores of text: the definitions by hand, and sacreBLEU to 1e-9."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from edgewise.evaluating.scores import score
from edgewise.evaluating.tasks.text_scores import (
    Bleu,
    TextTable,
    f1_of_tokens,
    match_exactly,
    normalise,
)
from messages import wording

WORDS = [
    "the",
    "a",
    "cat",
    "dog,",
    "sat",
    "on",
    "mat.",
    "3.5",
    "1,000",
    "U.S.",
    "it's",
    "e-mail",
    '"so"',
    "&",
    "naïve",
    "<b>",
    "(x)",
    "—",
    "日本",
    "don't",
    "...",
    "$5",
    "5%",
]


def make_corpus(seed, size=30, most_references=3):
    source = random.Random(seed)
    answers, references = [], []
    for _ in range(size):
        truth = [source.choice(WORDS) for _ in range(source.randint(0, 14))]
        answer = [word if source.random() < 0.8 else source.choice(WORDS) for word in truth if source.random() < 0.95]
        answers.append(" ".join(answer))
        others = [
            [word for word in truth if source.random() < 0.8] for _ in range(source.randint(0, most_references - 1))
        ]
        references.append([" ".join(each) for each in (truth, *others)])
    return answers, references


def sacrebleu_of(answers, references):
    sacrebleu = pytest.importorskip("sacrebleu", reason="the oracle is sacrebleu")
    most = max(map(len, references))
    streams = [[each[k] if k < len(each) else None for each in references] for k in range(most)]
    return sacrebleu.corpus_bleu(answers, streams).score / 100


@pytest.fixture(scope="module")
def bleu():
    pytest.importorskip("sacrebleu", reason="BLEU is sacrebleu's")
    return Bleu()


@pytest.mark.parametrize("seed", range(8))
def test_bleu_equals_sacrebleu(bleu, seed):
    answers, references = make_corpus(seed)
    found = TextTable(answers, references, bleu=bleu).values()["bleu"]
    assert found == pytest.approx(sacrebleu_of(answers, references), abs=1e-9)
    assert 0.01 < found < 1


@pytest.mark.parametrize("seed", range(4))
def test_weighted_bleu_equals_sacrebleu_of_repeated_samples(bleu, seed):
    answers, references = make_corpus(seed)
    weights = np.random.default_rng(seed).multinomial(30, np.full(30, 1 / 30))
    chosen = np.repeat(np.arange(30), weights)
    found = TextTable(answers, references, bleu=bleu).values(weights.astype(float))["bleu"]
    expected = sacrebleu_of([answers[i] for i in chosen], [references[i] for i in chosen])
    assert found == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("answers", "references"),
    [
        (["cat"], [["cat"]]),  # no n-gram of order 2
        (["a b c d"], [["a b x d"]]),  # no match of orders 3 and 4: smoothed
        (["a b c d e"], [["v w x y z"]]),
        ([""], [["a cat"]]),
        (["a cat"], [[""]]),
        (["a b c d e f"], [["a b c d e f g h", "a b c d"]]),  # two references equally close: the shorter one
        (["a a a a a a a"], [["a a b a a"]]),
        (["Hello , world !"], [["Hello, world!"]]),
    ],
)
def test_bleu_at_its_corners_equals_sacrebleu(bleu, answers, references):
    found = TextTable(answers, references, bleu=bleu).values()["bleu"]
    assert found == pytest.approx(sacrebleu_of(answers, references), abs=1e-9)


def test_bleu_by_hand(bleu):
    statistics = bleu.statistics("a b c d x", ["a b c d e f"])
    assert statistics == [5, 6, 4, 3, 2, 1, 5, 4, 3, 2]
    precision = (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25
    assert bleu.score(statistics) == pytest.approx(math.exp(1 - 6 / 5) * precision, abs=1e-12)


def test_normalisation_is_that_of_squad():
    assert normalise("The  Cat, an  apple\tand A theory!") == "cat apple and theory"
    assert normalise("a.b the-end") == "ab theend"


@pytest.mark.parametrize(
    ("answer", "references", "exact", "f1"),
    [
        ("The cat.", ["cat"], 1, 1),
        ("dog", ["cat", "a dog"], 1, 1),
        ("big cat", ["cat"], 0, 2 / 3),
        ("cat cat", ["cat dog"], 0, 0.5),
        ("bird", ["cat", "dog"], 0, 0),
        ("", ["cat"], 0, 0),
        ("the", ["a"], 1, 1),  # nothing is left of either
        ("x y z", ["x", "y z w", "x y"], 0, 0.8),  # the best of several
    ],
)
def test_exact_match_and_f1_by_hand(answer, references, exact, f1):
    assert match_exactly(answer, references) == exact
    assert f1_of_tokens(answer, references) == pytest.approx(f1, abs=1e-15)


def test_a_table_gives_every_metric_with_its_interval(bleu):
    answers, references = make_corpus(3, size=40)
    table = TextTable(answers, references, bleu=bleu)
    scores = {each.metric: each for each in score(table)}
    assert list(scores) == ["exact_match", "f1_tokens", "rouge_l", "bleu"]
    assert all(each.low <= each.value <= each.high for each in scores.values())
    assert len(scores["exact_match"].outcomes) == 40


def test_without_sacrebleu_bleu_is_absent_with_the_reason():
    table = TextTable(["cat"], [["cat"]], bleu=None, missing="BLEU needs sacrebleu")
    assert math.isnan(table.values()["bleu"])
    assert table.values()["f1_tokens"] == 1
    assert table.explain("bleu") == wording("bleu-needs-sacrebleu")
    assert table.explain("exact_match") is None


def test_no_samples_no_values(bleu):
    assert all(math.isnan(each) for each in TextTable([], [], bleu=bleu).values().values())
    one = TextTable(["cat"], [["cat"]], bleu=bleu)
    assert all(math.isnan(each) for each in one.values(np.zeros(1)).values())
