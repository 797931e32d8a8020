"""Text scores equal torchmetrics' on the same answers. (Its detection is pycocotools, which has tests of its own.)"""

from __future__ import annotations

import random

import pytest

torch = pytest.importorskip("torch", reason="the oracle is torchmetrics, which needs torch")
text = pytest.importorskip("torchmetrics.text", reason="the oracle is torchmetrics")

pytestmark = pytest.mark.engine

WORDS = "the a cat dog, sat on mat. red? 3.5 blue-green an it's house".split()  # noqa: SIM905
SINGLE = 1e-6
"""torchmetrics adds up in single precision."""


def make_corpus(seed, size=25, references=1):
    source = random.Random(seed)
    answers, others = [], []
    for _ in range(size):
        truth = [source.choice(WORDS) for _ in range(source.randint(1, 9))]
        answers.append(" ".join(word if source.random() < 0.85 else source.choice(WORDS) for word in truth))
        others.append([" ".join(truth[: max(1, len(truth) - less)]) for less in range(references)])
    return answers, others


@pytest.mark.parametrize("seed", range(3))
def test_exact_match_and_f1_equal_squad(seed):
    from edgewise.evaluating.tasks.text_scores import TextTable

    answers, references = make_corpus(seed, references=2)
    scorer = text.SQuAD()
    for number, (answer, texts) in enumerate(zip(answers, references, strict=True)):
        scorer.update(
            [{"prediction_text": answer, "id": str(number)}],
            [{"answers": {"answer_start": [0] * len(texts), "text": texts}, "id": str(number)}],
        )
    expected = scorer.compute()
    found = TextTable(answers, references, bleu=None).values()
    assert found["exact_match"] == pytest.approx(float(expected["exact_match"]) / 100, abs=SINGLE)
    assert found["f1_tokens"] == pytest.approx(float(expected["f1"]) / 100, abs=SINGLE)
    assert 0 < found["exact_match"] < found["f1_tokens"] < 1


@pytest.mark.parametrize("seed", range(3))
def test_bleu_equals_sacre_bleu_score(seed):
    """With one reference: of two equally close ones sacreBLEU takes the shorter, torchmetrics the first."""
    pytest.importorskip("sacrebleu", reason="BLEU is sacrebleu's")
    from edgewise.evaluating.tasks.text_scores import Bleu, TextTable

    answers, references = make_corpus(seed)
    expected = float(text.SacreBLEUScore()(answers, references))
    found = TextTable(answers, references, bleu=Bleu()).values()["bleu"]
    assert found == pytest.approx(expected, abs=SINGLE)
