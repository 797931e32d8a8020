"""Whether a loss is within its limit, in the words that gate and optimize share."""

import pytest

from edgewise.comparing.allowed_loss import PairedAnswers, check_loss
from edgewise.stats.proportions import samples_to_decide

MANY, FEW = PairedAnswers(30, 20, 10_000), PairedAnswers(3, 2, 1_000)


def check(answers, limit, metric="accuracy_top1"):
    loss = (answers.lost - answers.gained) / answers.n
    return check_loss(loss, *answers.loss_interval(), limit=limit, metric=metric, answers=answers)


def test_answers_are_paired_sample_by_sample():
    assert PairedAnswers.of([1.0, 1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 1.0, 0.0, 0.0]) == PairedAnswers(2, 1, 5)
    with pytest.raises(ValueError):
        PairedAnswers.of([1.0], [1.0, 0.0])


@pytest.mark.parametrize(
    ("answers", "limit", "verdict", "end"),
    [
        (MANY, 0.01, "within", " on the same 10,000 samples"),
        (PairedAnswers(300, 20, 10_000), 0.01, "beyond", " on the same 10,000 samples"),
        (FEW, 0.005, "inconclusive", ": not proven to be within 0.5 pt, which needs about 2,000 to 6,300 samples if "
         "the loss stays 0.10 pt (5 of 1,000 changed)"),
        (PairedAnswers(12, 2, 1_000), 0.009, "inconclusive", ": not proven to be beyond 0.9 pt; how many samples would "
         "decide can't be told from 14 changed answers in 1,000: four times as many samples would tell more"),
        (PairedAnswers(1, 0, 300), 0.01, "inconclusive", ": not proven to be within 1 pt; how many samples would "
         "decide can't be told from 1 changed answer in 300: four times as many samples would tell more"),
    ],
)  # fmt: skip
def test_a_loss_is_within_its_limit_with_its_whole_interval(answers, limit, verdict, end):
    found = check(answers, limit)
    low, high = answers.loss_interval()
    assert found.verdict == verdict and found.because.endswith(end)
    assert (verdict == "within") == (high <= limit) and (verdict == "beyond") == (low > limit)
    needed = samples_to_decide(answers.lost, answers.gained, answers.n, limit=limit)
    told = needed if verdict == "inconclusive" and needed else (None, None)
    assert (found.samples_needed_low, found.samples_needed_high) == told


def test_a_gain_has_a_minus_and_the_ends_are_rounded_outwards():
    assert check(PairedAnswers(2, 30, 1_000), 0.01).because == (
        "loss −2.80 pt, 95 % interval −4.09 to −1.59 pt on the same 1,000 samples"
    )


def test_what_is_no_share_or_not_paired_names_no_number_of_samples():
    errors = check_loss(0.012, 0.005, 0.02, limit=0.015, metric="mae")
    assert errors.samples_needed_low is errors.samples_needed_high is None
    assert errors.because == "loss 0.0120, 95 % interval 0.00500 to 0.0200: not proven to be within 0.015"
    outwards = check_loss(0.012, -0.0012399, 0.020001, limit=0.015, metric="mae").because
    assert outwards == "loss 0.0120, 95 % interval −0.00124 to 0.0201: not proven to be within 0.015"
    aside = check_loss(
        0.0, -0.01, 0.02, limit=0.01, metric="accuracy_top1", aside=" (not paired: of different samples)"
    )
    assert aside.because == (
        "loss 0.00 pt, 95 % interval −1.00 to 2.00 pt (not paired: of different samples): not proven to be within 1 pt"
    )
