"""Classification against scikit-learn, and everything that outputs, labels and names may get wrong."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn import metrics

from edgewise.errors import BadInput
from edgewise.evaluating.table_bootstrap import HasGroups
from edgewise.evaluating.task import HasConfusion, tasks
from edgewise.evaluating.tasks.classification import AudioClassification, Classification, ClassificationTable
from messages import says
from task_setting import context, judge_all

TASK = Classification()


def oracle(labels, answers):
    with np.errstate(all="ignore"):
        macro = {"average": "macro", "zero_division": 0}
        return {
            "accuracy_top1": metrics.accuracy_score(labels, answers),
            "error_rate": 1 - metrics.accuracy_score(labels, answers),
            "precision_macro": metrics.precision_score(labels, answers, **macro),
            "recall_macro": metrics.recall_score(labels, answers, **macro),
            "f1_macro": metrics.f1_score(labels, answers, **macro),
        }


def test_values_are_scikit_learns():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(200, 12)).astype(np.float32)
    labels = rng.integers(0, 9, 200)  # three classes are never a label
    scores[np.arange(200), labels] += 1.5
    scores[:, 11] -= 50.0  # and one never an answer
    scorer = TASK.prepare(context((1, 12)))
    table = scorer.tabulate(judge_all(scorer, scores, labels))
    values = table.values()
    expected = oracle(labels, scores.argmax(1))
    assert {name: values[name] for name in expected} == pytest.approx(expected, abs=1e-12)
    assert values["accuracy_top5"] == pytest.approx(
        metrics.top_k_accuracy_score(labels, scores, k=5, labels=np.arange(12)), abs=1e-12
    )
    present = np.isin(scores.argmax(1), labels)
    assert not present.all()
    with pytest.warns(UserWarning, match="y_pred contains classes not in y_true"):
        balanced = metrics.balanced_accuracy_score(labels, scores.argmax(1))
    assert values["accuracy_balanced"] == pytest.approx(balanced, abs=1e-12)
    assert (
        np.array(table.confusion()).tolist()
        == metrics.confusion_matrix(labels, scores.argmax(1), labels=np.arange(12)).tolist()
    )


def test_weights_repeat_samples():
    rng = np.random.default_rng(1)
    labels, answers, weights = rng.integers(0, 6, 60), rng.integers(0, 6, 60), rng.integers(0, 4, 60)
    table = ClassificationTable(labels, answers, np.where(labels == answers, 0, 5), classes=6)
    again = ClassificationTable(
        np.repeat(labels, weights), np.repeat(answers, weights), np.repeat(np.where(labels == answers, 0, 5), weights),
        classes=6,
    )  # fmt: skip
    assert table.values(weights.astype(float)) == pytest.approx(again.values(), abs=1e-12)
    assert isinstance(table, HasGroups)
    assert isinstance(table, HasConfusion)
    counts = np.bincount(table.groups, weights=weights)
    assert table.values_of(counts) == pytest.approx(again.values(), abs=1e-12)


@pytest.mark.parametrize("shape", [(1, 4), (1, 1, 1, 4), (1, 4, 1, 1), (4,)])
def test_rows_of_any_shape(shape):
    scorer = TASK.prepare(context(shape))
    assert judge_all(scorer, [np.array([0, 3, 1, 2.0]).reshape(shape[1:] or (4,))], [1]) == [[1, 1, 0, 4, 3.0]]


def test_records_are_json_and_equal_scores_count_as_scikit_learn_counts_them():
    scorer = TASK.prepare(context((1, 6)))
    records = judge_all(scorer, [[1.0, 1, 0, 0, 0, 0], [1.0, 1, 0, 0, 0, 0], [0.0, 0, 0, 0, 0, 0]], [0, 1, 0])
    assert records == [[0, 0, 1, 6, 1.0], [1, 0, 0, 6, 1.0], [0, 0, 5, 6, 0.0]]
    table = scorer.tabulate(json.loads(json.dumps(records)))
    assert table.values()["accuracy_top1"] == pytest.approx(2 / 3)
    assert table.values()["accuracy_top5"] == pytest.approx(2 / 3)


@pytest.mark.parametrize("levels", [1, 2, 4, 16])
def test_equal_scores_give_scikit_learns_accuracies(levels):
    # As of an int8 model: few levels, most of them the lowest; labels of the first classes only.
    rng = np.random.default_rng(levels)
    scores = (rng.integers(0, levels, (300, 20)) * (rng.random((300, 20)) < 0.3)).astype(np.float32)
    labels = rng.integers(0, 8, 300)
    scores[np.arange(300), labels] += (levels > 1) * rng.integers(0, 2, 300)
    scorer = TASK.prepare(context((1, 20)))
    values = scorer.tabulate(judge_all(scorer, scores, labels)).values()
    assert values["accuracy_top1"] == metrics.accuracy_score(labels, scores.argmax(1))
    assert values["accuracy_top5"] == metrics.top_k_accuracy_score(labels, scores, k=5, labels=np.arange(20))


def test_a_constant_output_is_not_flattered():
    scorer = TASK.prepare(context((1, 10)))
    values = scorer.tabulate(judge_all(scorer, np.zeros((30, 10)), list(range(3)) * 10)).values()
    assert values["accuracy_top5"] == 0.0


def test_top5_needs_more_than_five_classes():
    scorer = TASK.prepare(context((1, 5)))
    assert "accuracy_top5" not in scorer.tabulate(judge_all(scorer, np.eye(5), range(5))).values()


def test_nan_is_wrong_and_no_class():
    scorer = TASK.prepare(context((1, 3)))
    table = scorer.tabulate(judge_all(scorer, [[np.nan, 1, 0], [0, 1, 0.0], [np.nan] * 3], [1, 1, 0]))
    values = table.values()
    assert values["accuracy_top1"] == pytest.approx(1 / 3)
    assert (values["precision_macro"], values["recall_macro"]) == (0.5, 0.25)
    assert np.array(table.confusion()).tolist() == [[0, 0, 0], [0, 1, 0], [0, 0, 0]]


def test_infinite_scores_still_have_a_best():
    scorer = TASK.prepare(context((1, 3)))
    assert judge_all(scorer, [[-np.inf, np.inf, 0.0]], [1]) == [[1, 1, 0, 3, np.inf]]


def test_a_single_output_must_say_what_it_is():
    with pytest.raises(BadInput, match=says("model-single-output-which-may")):
        TASK.prepare(context((1, 1)))
    logit = TASK.prepare(context((1, 1), positive="logit"))
    assert [r[1] for r in judge_all(logit, [[0.3], [-0.3], [0.0], [np.nan]], [1, 0, 0, 1])] == [1, 0, 0, -1]
    assert (logit.settings["positive"], logit.settings["threshold"]) == ("logit", 0.0)
    probability = TASK.prepare(context((1, 1), positive="probability"))
    assert [r[1] for r in judge_all(probability, [[0.3], [0.6], [0.5]], [1, 0, 0])] == [0, 1, 0]
    strict = TASK.prepare(context((1, 1), positive="probability", threshold=0.9))
    assert [r[1] for r in judge_all(strict, [[0.89], [0.91]], [1, 0])] == [0, 1]
    with pytest.raises(BadInput, match=says("name-data-label-labelshift-rest", label="", shift=2)):
        judge_all(logit, [[0.3]], [2])


def test_a_single_output_found_only_when_it_runs():
    scorer = TASK.prepare(context(("batch", None)))
    with pytest.raises(BadInput, match=says("model-single-output-which-may")):
        judge_all(scorer, [[0.4]], [1])


def test_positive_is_no_option_of_several_outputs():
    with pytest.raises(BadInput, match=says("model-outputs-best-one-answer", width=4)):
        TASK.prepare(context((1, 4), positive="logit"))


def test_outputs_that_are_the_answer_already():
    scorer = TASK.prepare(context((1,), dtype="int64"))
    records = [judge_all(scorer, [np.int64(answer)], [label])[0] for answer, label in ((3, 3), (2, 3), (-5, 1))]
    table = scorer.tabulate(records)
    assert table.values()["accuracy_top1"] == pytest.approx(1 / 3)
    assert "accuracy_top5" not in table.values()
    named = TASK.prepare(context((1, 1), dtype="int64", model=("a", "b")))
    with pytest.raises(BadInput, match=says("output-there-classes-most", name="x[0]", answer=7)):
        judge_all(named, [np.array([7])], [1])
    with pytest.raises(BadInput, match=says("output-there-classes-most")):
        judge_all(scorer, [np.int64(2**50)], [1])


def test_top_k_indices_are_not_taken_for_scores():
    scorer = TASK.prepare(context((1, 5), dtype="int64"))
    with pytest.raises(BadInput, match=says("output-neither-scores-classes-nor")):
        judge_all(scorer, [np.arange(5)], [1])


def test_several_outputs_need_a_choice():
    with pytest.raises(BadInput, match=says("model-outputs-reads-one", outputs_count=2)) as caught:
        TASK.prepare(context((1, 3), (1, 4)))
    assert "0: out0 [1, 3], 1: out1 [1, 4]" in caught.value.advice
    for asked in ("out1", "1"):
        assert TASK.prepare(context((1, 3), (1, 4), output=asked)).settings["output"] == "out1"
    for asked in ("out7", "2", "-1"):
        with pytest.raises(BadInput, match=says("model-no-output")):
            TASK.prepare(context((1, 3), (1, 4), output=asked))


def test_maps_are_no_rows():
    scorer = TASK.prepare(context((1, None, 8, 8)))
    with pytest.raises(BadInput, match=says("output-shape-not-one-row")):
        judge_all(scorer, [np.zeros((3, 8, 8))], [1])


@pytest.mark.parametrize(("options", "message"), [
    ({"top": "3"}, says("no-option", name="top")),
    ({"offset": "-1"}, "offset must be a whole number of at least 0, not -1"),
    ({"offset": "one"}, "offset must be a whole number of at least 0, not one"),
    ({"positive": "maybe"}, "positive must be logit or probability, not maybe"),
    ({"threshold": "nan"}, says("task-option-must-not", name="threshold", accepted="a number", given="nan")),
])  # fmt: skip
def test_bad_options(options, message):
    with pytest.raises(BadInput, match=message):
        TASK.prepare(context((1, 1), **options))


def test_labels_out_of_range_name_sample_label_and_classes():
    scorer = TASK.prepare(context((1, 3)))
    with pytest.raises(
        BadInput,
        match=says(
            "name-data-label-labelshift-rest",
            name="x[1]",
            data="pets.npz",
            label="",
            shift=3,
            rest=says("model-classes", known=3),
        ),
    ):
        judge_all(scorer, np.eye(3)[:2], [1, 3])
    with pytest.raises(BadInput, match=says("name-data-label-labelshift-rest", label="", shift=-1)):
        judge_all(scorer, np.eye(3)[:1], [-1])


@pytest.mark.parametrize("label", [None, "cat", 1.5, np.zeros(3), np.array([0, 1, 0])])
def test_labels_that_are_no_class(label):
    with pytest.raises(BadInput, match=says("label-which-not-class")):
        judge_all(TASK.prepare(context((1, 3))), np.eye(3)[:1], [label])


@pytest.mark.parametrize("label", [2, np.uint8(2), np.array(2), np.array([2]), np.int64(2)])
def test_labels_in_any_integer(label):
    assert judge_all(TASK.prepare(context((1, 3))), np.eye(3)[2:], [label]) == [[2, 2, 0, 3, 1.0]]


def test_data_without_labels_is_refused():
    with pytest.raises(BadInput, match=says("no-labels")):
        TASK.prepare(context((1, 3), labelled=False))


def test_a_background_class_shifts_labels():
    scorer = TASK.prepare(context((1, 4), data=("a", "b", "c"), offset=1))
    assert judge_all(scorer, [[0, 0, 1, 0.0]], [1]) == [[2, 2, 0, 4, 1.0]]
    assert scorer.settings["labels"] == "label i is output i + 1"
    with pytest.raises(BadInput, match=says("name-data-label-labelshift-rest", label="", shift="3 (output 4)")):
        judge_all(scorer, [[0, 0, 1, 0.0]], [3])


@pytest.mark.parametrize(("outputs", "offered"), [(3, True), (10, False)])
def test_a_background_class_is_offered_only_where_one_output_is_left(outputs, offered):
    with pytest.raises(BadInput) as caught:
        TASK.prepare(context((1, outputs), data=("a", "b")))
    assert ("offset=1" in caught.value.advice) == offered


def test_as_many_classes_as_outputs_or_somebody_says_which():
    with pytest.raises(BadInput, match=says("model-outputs", data="pets.npz", own="3 classes", count=4)) as caught:
        TASK.prepare(context((1, 4), data=("a", "b", "c")))
    assert "offset=1" in caught.value.advice
    late = TASK.prepare(context((1, None), data=("a", "b", "c")))
    with pytest.raises(BadInput, match=says("model-outputs", own="3 classes", count=4)):
        judge_all(late, [np.zeros(4)], [1])


def test_classes_are_matched_by_name():
    scorer = TASK.prepare(context((1, 4), data=("cat", "dog"), model=("background", "Dog", "cat", "tabby_cat")))
    assert [r[:2] for r in judge_all(scorer, [[0, 0, 1, 0.0], [0, 0, 1, 0.0]], [0, 1])] == [[2, 2], [1, 2]]
    assert scorer.settings["labels"] == "matched with the model's classes by name"
    assert scorer.settings["outputs_of_labels"] == [2, 1]
    same = TASK.prepare(context((1, 2), data=("cat", "dog"), model=("cat", "dog")))
    assert same.settings["labels"] == "label i is output i, of the same name"


@pytest.mark.parametrize(("data", "model", "options", "message"), [
    (("cat", "emu"), ("cat", "dog", "ant"), {}, says("classes-model-does-not", named="emu", more="")),
    (("cat", "crane"), ("cat", "crane", "crane"), {}, says("model-classes-called", numbers_count=2, name="crane")),
    (("Cat", "cat_"), ("cat", "dog", "ant"), {}, says("two-classes-one-model")),
    (("dog", "cat"), ("cat", "dog", "ant"), {"offset": "1"}, says("labels-matched-name-so-no")),
    ((), ("cat", "dog"), {}, says("names-classes-model-outputs", model_count=2, count=3)),
])  # fmt: skip
def test_names_that_do_not_fit(data, model, options, message):
    with pytest.raises(BadInput, match=message):
        TASK.prepare(context((1, 3), data=data, model=model, **options))


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ("⟦classes=names.txt⟧", "--classes names.txt"),
        ("⟦classes⟧", "--classes"),
        ("", "what names the model's classes"),
    ],
)
def test_a_class_that_a_list_lacks_is_told_with_the_list_and_the_similar_name(given, where):
    setting = context((1, 3), data=("bag", "boot", "emu"), model=("bags", "boots", "boot"))
    with pytest.raises(BadInput) as caught:
        TASK.prepare(replace(setting, classes_given=given))
    assert caught.value.message == f"pets.npz has classes that {where} does not have: bag (similar: bags), emu"


def test_no_confusion_of_many_classes():
    labels = np.array([0, 199, 5])
    table = ClassificationTable(labels, np.array([0, 5, 5]), np.zeros(3, np.intp), classes=200)
    found = table.confusion()
    assert (len(found), found[5][5], found[-1][5], sum(found[7])) == (200, 1, 1, 0)
    assert ClassificationTable(labels, labels, np.zeros(3, np.intp), classes=20_000).confusion() == []


def test_both_tasks_are_registered():
    assert tasks().get("classification").metrics[0] == "accuracy_top1"
    audio = tasks().get("audio-classification")
    assert isinstance(audio, AudioClassification)
    assert "audio" in audio.kinds
    assert audio.prepare(context((1, 12))).headline == "accuracy_top1"
