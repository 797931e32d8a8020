"""Functions of the user's own as metrics."""

import json
import sys

import numpy as np
import pytest

from edgewise.errors import BadInput
from edgewise.evaluating import table_bootstrap
from edgewise.evaluating.added_metrics import with_custom_metrics
from edgewise.evaluating.custom_metric import CustomMetric, decode, encode
from edgewise.evaluating.dataset import Box, Sample
from edgewise.evaluating.scores import compare_tables, score
from edgewise.evaluating.task import HasConfusion, Preparation, ReadsAhead, RunsModel
from edgewise.evaluating.tasks.classification import Classification
from messages import says
from task_setting import context, judge_all

CODE = """
import numpy as np

def error(output, label):
    print("this must not reach stdout")
    return abs(float(output.sum()) - label)

def is_right(output, label):
    return bool(output.argmax() == label)

def energy(output):
    return np.float32(output[0])

def recall(outputs, labels):
    hits = [output.argmax() == label for output, label in zip(outputs, labels) if label == 1]
    return sum(hits) / len(hits)

def accuracy(outputs, labels):
    return np.mean([output.argmax() == label for output, label in zip(outputs, labels)])

def broken(output, label):
    return output[17]

def wordy(outputs, labels):
    return "fine"

def empty(outputs, labels):
    return float("nan")

def odd(output, label):
    return float("nan") if label == 1 else 1.0

def needs(output, label):
    import no_such_package_anywhere

def lonely(x):
    return 1.0
"""


@pytest.fixture(autouse=True)
def no_hurry(monkeypatch):
    """How busy the machine is changes nothing."""
    monkeypatch.setattr(table_bootstrap, "SECONDS", 1e9)


@pytest.fixture
def code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(CODE)
    return "mine.py:"


def judged(texts, outputs, labels, task=None):
    given = context((1, len(outputs[0])))
    scorer = with_custom_metrics(task and task.prepare(given), texts, given)
    records = json.loads(json.dumps(judge_all(scorer, outputs, labels)))
    return scorer, scorer.tabulate(records)


def outputs(n=40, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, n).tolist()
    found = rng.normal(size=(n, 3))
    found[np.arange(n), labels] += 1.0
    return found, labels


def test_one_sample_at_a_time(code, capsys):
    found, labels = outputs()
    scorer, table = judged([code + "error=lower"], found, labels)
    (result,) = score(table)
    assert result.metric == scorer.headline == "loss:error"
    assert result.value == pytest.approx(np.abs(found.sum(1) - labels).mean())
    assert result.low < result.value < result.high
    assert "BCa bootstrap" in result.method
    assert capsys.readouterr().out == ""


def test_truths_are_shares(code):
    found, labels = outputs()
    (result,) = score(judged([code + "is_right"], found, labels)[1])
    assert result.metric == "score:is_right"
    assert result.value == (found.argmax(1) == labels).mean()
    assert "Wilson" in result.method
    assert len(result.outcomes) == 40


def test_outputs_alone_will_do(code):
    found, labels = outputs()
    (result,) = score(judged([code + "energy"], found, labels)[1])
    assert result.value == pytest.approx(found[:, 0].mean(), rel=1e-6)


def test_all_samples_at_once(code):
    found, labels = outputs()
    _, table = judged([code + "recall"], found, labels)
    mine = np.array(labels) == 1
    (result,) = score(table)
    assert result.value == pytest.approx((found.argmax(1) == 1)[mine].mean())
    assert "bias-corrected bootstrap over samples, 199 resamples" in result.method
    assert result.low < result.value < result.high


def test_resamples_that_a_function_cannot_take_are_left_out(code):
    found = np.eye(3)[[0] * 9 + [1, 1, 0]]
    (result,) = score(judged([code + "recall"], found, [0] * 9 + [1, 1, 1])[1])  # no label 1 in 3 % of resamples
    assert result.value == pytest.approx(2 / 3)
    assert "without a value" in result.method or "have no value" in result.method


def test_beside_a_task(code):
    found, labels = outputs()
    scorer, table = judged([code + "accuracy", code + "error=lower"], found, labels, Classification())
    assert scorer.headline == "accuracy_top1"
    results = {each.metric: each for each in score(table)}
    assert list(results) == [
        *list(Classification.metrics[:1]),
        *Classification.metrics[2:],
        "score:accuracy",
        "loss:error",
    ]
    assert results["score:accuracy"].value == pytest.approx(results["accuracy_top1"].value)
    assert "1999 resamples" in results["f1_macro"].method  # not held up by the slow one
    assert isinstance(table, HasConfusion)
    assert not isinstance(scorer, RunsModel)
    assert not isinstance(scorer, ReadsAhead)
    assert [each["metric"] for each in scorer.settings["own_metrics"]] == ["score:accuracy", "loss:error"]
    assert list(table.values()) == list(results)
    differences = compare_tables(table, table)
    assert [difference.metric for difference in differences] == list(results)
    assert all(difference.difference == 0.0 for difference in differences)


def test_talents_of_the_tasks_judge_are_kept(code):
    class Driver:
        headline, settings = "bleu", {}

        def run_model(self, infer, arrays, sample):
            return [np.ones(1)]

    scorer = with_custom_metrics(Driver(), [code + "error"], context((1, 3)))
    assert isinstance(scorer, RunsModel)
    assert scorer.run_model(None, [], None) == [np.ones(1)]


def test_without_own_metrics_the_judge_stays_what_it_is():
    scorer = Classification().prepare(context((1, 3)))
    assert with_custom_metrics(scorer, (), context((1, 3))) is scorer
    with pytest.raises(BadInput, match=says("nothing-evaluate")):
        with_custom_metrics(None, (), context((1, 3)))


@pytest.mark.parametrize(("name", "message"), [
    ("broken", says("target-failed-name-message", target="mine.py:broken", name="IndexError")),
    ("wordy", says("gave-no-number", target="mine.py:wordy", name="str")),
    ("needs", says("needs-module-which-not-installed-in-callable-loader", target="mine.py:needs", name="no_such_package_anywhere")),
])  # fmt: skip
def test_errors_of_the_function_name_it(code, name, message):
    found, labels = outputs()
    with pytest.raises(BadInput, match=message):
        score(judged([code + name], found, labels)[1])


def test_no_number_is_no_value(code):
    found, labels = outputs()
    (whole,) = score(judged([code + "empty"], found, labels)[1])
    assert (whole.value, whole.absent_because) == (None, "mine.py:empty gave no finite number")
    (each,) = score(judged([code + "odd"], found, labels)[1])
    assert each.absent_because == f"mine.py:odd gave no finite number for {labels.count(1)} of 40 samples"


@pytest.mark.parametrize(("text", "message"), [
    ("nothing", says("not-metric-in-custom-metric")), ("mine.py:error=best", says("not-metric-in-custom-metric")), ("mine.py:none", says("does-not-exist-in-callable-loader")),
    ("other.py:error", says("no-such-file-in-callable-loader")), ("no_such_module_x:f", says("there-no-module")), ("mine.py:lonely", "can't be called"),
    ("", says("not-metric-in-custom-metric")), ("math:pi", "can't be called"),
])  # fmt: skip
def test_texts_that_name_no_metric(code, text, message):
    with pytest.raises(BadInput, match=message):
        with_custom_metrics(None, [text], context((1, 3)))


def test_two_of_one_name(code):
    with pytest.raises(BadInput, match=says("two-metrics-called", twice="error")):
        with_custom_metrics(None, [code + "error", code + "error=lower"], context((1, 3)))
    with pytest.raises(BadInput, match=says("no-labels")):
        with_custom_metrics(None, [code + "error"], context((1, 3), labelled=False))


def test_another_source_is_another_metric(code, tmp_path):
    before = CustomMetric("mine.py:error").settings["source"]
    (tmp_path / "again.py").write_text(CODE.replace("abs(", "2 * abs("))
    assert CustomMetric("again.py:error").settings["source"] != before


def test_functions_of_modules(code, tmp_path, monkeypatch):
    (tmp_path / "own_metrics_of_a_test.py").write_text(CODE)
    assert CustomMetric("own_metrics_of_a_test:accuracy").single is False
    monkeypatch.delitem(sys.modules, "own_metrics_of_a_test")


def test_several_outputs_are_a_list(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pair.py").write_text(
        "def both(output, label):\n    return output[0].sum() + output[1].sum() + label\n"
    )
    scorer = with_custom_metrics(None, ["pair.py:both"], context((1, 2), (1, 3)))
    sample = Sample(index=0, name="a", data=np.zeros(1), label=0.5)
    assert scorer.record([np.ones((1, 2)), np.ones((1, 3))], sample, Preparation()) == [None, [5.5]]


@pytest.mark.parametrize("value", [
    None, 3, 2.5, "cat", True, ("a", "b"), [1, [2]], {"a": 1}, np.arange(6, dtype=np.int16).reshape(2, 3),
    np.array(1.5), (Box(left=1, top=2, right=3, bottom=4, category=5),), np.array(["a", "b"]), {},
    np.zeros((0, 4), np.float32), np.array([True, False]),
])  # fmt: skip
def test_outputs_and_labels_survive_their_record(value):
    again = decode(json.loads(json.dumps(encode(value))))
    if isinstance(value, np.ndarray) and value.dtype.kind != "U":
        assert again.dtype == value.dtype
        assert again.shape == value.shape
        assert (again == value).all()
    elif isinstance(value, np.ndarray):
        assert again == value.tolist()
    else:
        assert again == value
        assert type(again) is type(value)


def test_labels_that_cannot_be_kept():
    with pytest.raises(BadInput, match=says("label-type-cant-kept")):
        encode(object())
