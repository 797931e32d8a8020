"""From a question to runs with scores: whatever happens on the way, scores are those of the samples that were judged."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn import metrics as oracle

from edgewise.errors import BadInput, StoreError, Unavailable
from edgewise.evaluating.asking import DataWish, find_task, make_examination, make_question, open_splits
from edgewise.evaluating.examination import Examination, examine
from edgewise.evaluating.instructions import Instructions
from edgewise.evaluating.task import tasks
from edgewise.record import Stopping, TargetSpec
from edgewise.run.plan import Axes
from edgewise.testing import write_fake_model
from small_questions import NET, Rows, corrupt, job_of, question, rows

COUNT = 60
CLASSES = 3
OUTPUTS = [{"name": "y", "shape": [1, CLASSES], "dtype": "float32"}]


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    """Notebooks of this test alone."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def classifier(path: Path, **script) -> Path:
    """Its best class is always the last one: outputs are a number and the element's index."""
    return write_fake_model(path, **{"graph": NET, "outputs": OUTPUTS, "latency_ns": [1_000_000], **script})


def labelled(**settings):
    labels = np.random.default_rng(3).integers(0, CLASSES, COUNT)
    return Rows(rows(COUNT), [int(label) for label in labels], **settings)


class Pressing:
    """A spectator that presses Ctrl-C once so many are done."""

    def __init__(self, at=None):
        self.at, self.told = at, []

    def pass_started(self, job, *, total):
        self.told.append(("started", total))

    def answered(self, done, total):
        self.told.append((done, total))
        if self.at is not None and done >= self.at:
            raise KeyboardInterrupt

    def pass_finished(self, answers):
        self.told.append(("finished", len(answers.entries)))


def examination(*models, data, task="classification", latency=False, **settings):
    return Examination(
        jobs=tuple(map(job_of, models)),
        question=question(data, strict=settings.pop("strict", False)),
        task=None if task is None else tasks().get(task),
        instructions=Instructions(),
        latency=latency,
        **settings,
    )


def examined(*models, saved=None, spectator=None, **settings):
    keep = [] if saved is None else saved
    return examine(examination(*models, **settings), save=keep.append, spectator=spectator)


def test_scores_are_those_of_scikit_learn(tmp_path):
    data = labelled(on_read=corrupt(4, 31))
    saved = []
    (one,) = examined(classifier(tmp_path / "m.fake"), data=data, saved=saved).examined
    used = [label for index, label in enumerate(data.labels) if index not in (4, 31)]
    answers = [CLASSES - 1] * len(used)
    values = {score.metric: score.value for score in one.scores}
    assert values["accuracy_top1"] == oracle.accuracy_score(used, answers)
    assert values["f1_macro"] == pytest.approx(oracle.f1_score(used, answers, average="macro"), abs=1e-12)
    evaluation = one.run.evaluation
    assert (evaluation.n, evaluation.skipped_count) == (COUNT - 2, 2)
    assert [skipped.name for skipped in evaluation.skipped] == ["row[4]", "row[31]"]
    assert np.array(evaluation.confusion).tolist() == oracle.confusion_matrix(used, answers).tolist()
    assert saved == [one.run] and one.run.status == "done" and one.headline == "accuracy_top1"
    assert one.run.measurement("accuracy_top1").value == values["accuracy_top1"]


def numbers(one):
    """Everything that must not depend on whether the pass was cut off."""
    evaluation = one.run.evaluation
    return one.scores, one.gaps, evaluation.n, evaluation.confusion, evaluation.data.sha256, evaluation.skipped


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_pass_that_was_cut_off_comes_to_the_same_scores(tmp_path, cache, task):
    model = classifier(tmp_path / "m.fake")
    data = labelled(on_read=corrupt(40))
    if task == "regression":
        model = classifier(tmp_path / "r.fake", outputs=[{"name": "y", "shape": [1, 1], "dtype": "float32"}])
        data = Rows(rows(COUNT), [float(row.sum()) * 1.1 for row in rows(COUNT)], on_read=corrupt(40))
    (whole,) = examined(model, data=data, task=task).examined
    assert list(cache.rglob("*.jsonl")) == []  # complete: nothing to resume
    first = examined(model, data=data, task=task, spectator=Pressing(5))
    (part,) = first.examined
    assert first.interrupted and part.run.status == "cancelled" and 5 <= part.run.evaluation.n < COUNT
    assert len(list(cache.rglob("*.jsonl"))) == 1
    spectator = Pressing()
    second = examined(model, data=data, task=task, spectator=spectator)
    (resumed,) = second.examined
    assert not second.interrupted and resumed.resumed >= 5
    assert numbers(resumed) == numbers(whole)
    assert spectator.told[0] == ("started", COUNT) and spectator.told[-1] == ("finished", COUNT)
    assert list(cache.rglob("*.jsonl")) == []


def test_ctrl_c_before_the_first_answer_is_no_fault_of_the_data(tmp_path):
    def read(index):
        raise KeyboardInterrupt

    saved = []
    found = examined(classifier(tmp_path / "m.fake"), data=labelled(on_read=read), saved=saved)
    assert found.interrupted and found.examined[0].run.status == "cancelled" and found.examined[0].scores == ()


def test_two_models_are_compared_on_the_samples_that_both_answered(tmp_path):
    good = classifier(tmp_path / "good.fake")
    bad = classifier(tmp_path / "bad.fake", outputs_value=0.0)  # the first class, whatever comes
    data = labelled()
    one, other = examined(good, bad, data=data).examined
    right = np.array(data.labels)
    (gap,) = [gap for gap in other.gaps if gap.metric == "accuracy_top1"]
    assert one.gaps == () and gap.n == COUNT
    assert gap.difference == pytest.approx(float(np.mean(right == 0) - np.mean(right == CLASSES - 1)), abs=1e-12)
    assert f"{int(np.sum(right == 0))} gained, {int(np.sum(right == CLASSES - 1))} lost" in gap.method


def test_a_worker_that_dies_is_a_failed_run_and_the_next_model_is_judged(tmp_path, cache):
    dying = classifier(tmp_path / "a.fake", behaviour={"at": "invoke", "after": 20, "do": "segfault"})
    saved = []
    first, second = examined(dying, classifier(tmp_path / "b.fake"), data=labelled(), saved=saved).examined
    assert first.run.status == "failed" and first.run.failure.signal == "SIGSEGV" and first.scores == ()
    assert second.run.status == "done" and second.scores and second.gaps == ()
    assert [run.status for run in saved] == ["failed", "done"]
    assert len(list(cache.rglob("*.jsonl"))) == 1  # of the one that died, to go on


@pytest.mark.parametrize("latency", [True, False])
def test_data_that_do_not_fit_are_refused_before_anything_is_measured(tmp_path, latency):
    saved = []
    data = Rows(rows(COUNT, 5), [0] * COUNT, on_read=corrupt(0, 1))
    with pytest.raises(BadInput, match=r"row\[2\] has shape"):
        examined(classifier(tmp_path / "m.fake"), data=data, saved=saved, latency=latency)
    assert saved == []


@pytest.mark.parametrize("labels", [["cat"] * COUNT, [1.5] * COUNT, [-1] * COUNT, [99] * COUNT, [None] * COUNT])
def test_labels_that_are_no_classes_are_refused(tmp_path, labels):
    with pytest.raises(BadInput) as caught:
        examined(classifier(tmp_path / "m.fake"), data=Rows(rows(COUNT), labels))
    assert "row[0]" in caught.value.message or "label" in caught.value.message


def test_not_one_usable_sample_is_an_error_that_says_why(tmp_path):
    with pytest.raises(BadInput, match=r"not one sample of rows could be used \(row\[0\]: scratched\)"):
        examined(classifier(tmp_path / "m.fake"), data=labelled(on_read=corrupt(*range(COUNT))))


def test_strict_is_an_error(tmp_path):
    with pytest.raises(BadInput, match=r"row\[9\] can't be used"):
        examined(classifier(tmp_path / "m.fake"), data=labelled(on_read=corrupt(9)), strict=True)


def test_without_labels_there_is_nothing_to_judge_by(tmp_path):
    with pytest.raises(BadInput, match="no labels") as caught:
        examined(classifier(tmp_path / "m.fake"), data=Rows(rows(COUNT)))
    assert "--reference" in caught.value.advice


def test_a_task_for_other_samples_is_refused(tmp_path):
    with pytest.raises(BadInput, match="detection is no task for array samples"):
        examined(classifier(tmp_path / "m.fake"), data=labelled(), task="detection")


def test_a_reference_takes_the_place_of_labels(tmp_path):
    model = classifier(tmp_path / "m.fake")
    reference = job_of(classifier(tmp_path / "r.fake", latency_ns=[7]))
    same, other = examined(
        model, classifier(tmp_path / "o.fake", outputs_value=0.0), data=Rows(rows(COUNT)), task=None, reference=reference
    ).examined  # fmt: skip
    values = {score.metric: score.value for score in same.scores}
    assert (values["agreement_top1"], values["output_max_abs_error"], values["output_snr"]) == (1.0, 0.0, None)
    assert {score.metric: score.value for score in other.scores}["agreement_top1"] == 0.0
    assert same.run.evaluation.task == "agreement" and same.run.evaluation.reference == reference.model.sha256


def test_a_reference_answers_once_for_all_models(tmp_path, asked):
    reference = job_of(classifier(tmp_path / "r.fake", latency_ns=[7]))
    models = [classifier(tmp_path / f"{name}.fake", latency_ns=[place]) for place, name in enumerate("abc", start=1)]
    done = examined(*models, data=Rows(rows(COUNT)), task=None, reference=reference).examined
    assert [one.run.evaluation.n for one in done] == [COUNT] * 3
    assert sum(count for _, count in asked) == (3 + 1) * COUNT


def test_a_reference_that_fails_is_a_failed_run(tmp_path):
    reference = job_of(classifier(tmp_path / "r.fake", behaviour={"at": "load", "do": "abort"}))
    (one,) = examined(
        classifier(tmp_path / "m.fake"), data=Rows(rows(COUNT)), task=None, reference=reference
    ).examined  # fmt: skip
    assert (
        one.run.status == "failed"
        and "the reference failed: " in one.run.failure.message
        and "SIGABRT" in one.run.failure.message
    )


def test_a_reference_that_dies_on_the_way_is_a_failed_run(tmp_path):
    reference = job_of(
        classifier(tmp_path / "r.fake", behaviour={"at": "invoke", "after": 20, "do": "exit"})
    )  # fmt: skip
    (one,) = examined(
        classifier(tmp_path / "m.fake"), data=Rows(rows(COUNT)), task=None, reference=reference
    ).examined  # fmt: skip
    assert (
        one.run.status == "failed"
        and "the reference failed: " in one.run.failure.message
        and "exit code 7" in one.run.failure.message
    )


def test_latency_and_accuracy_stand_in_one_run(tmp_path):
    exam = examination(classifier(tmp_path / "m.fake"), data=labelled(), latency=True)
    job = exam.jobs[0]
    from dataclasses import replace

    short = replace(job, workload=replace(job.workload, stopping=Stopping(sessions=1, iterations=20, warmup=2)))
    saved = []
    (one,) = examine(replace(exam, jobs=(short,)), save=saved.append).examined
    assert one.run.measurement("latency").value == pytest.approx(1e-3)
    assert one.run.measurement("accuracy_top1").value is not None
    assert saved[-1] == one.run and len({run.id for run in saved}) == 1


def test_a_model_whose_latency_could_not_be_measured_is_not_judged(tmp_path):
    broken = classifier(tmp_path / "m.fake", behaviour={"at": "first", "do": "abort"})
    spectator = Pressing()
    (one,) = examined(broken, data=labelled(), latency=True, spectator=spectator).examined
    assert one.run.status == "failed" and spectator.told == []


def test_a_store_that_fails_loses_no_scores(tmp_path):
    def save(run):
        raise StoreError("no room")

    found = examine(examination(classifier(tmp_path / "m.fake"), data=labelled()), save=save)
    assert found.examined[0].scores and [error.message for error in found.save_errors] == ["no room"]


# --- from words to questions ---


@pytest.fixture
def archive(tmp_path):
    def write(name="d.npz", count=COUNT, **arrays):
        labels = np.random.default_rng(3).integers(0, CLASSES, count)
        np.savez(tmp_path / name, **{"x": rows(count), "y": labels, **arrays})
        return str(tmp_path / name)

    return write


def test_the_same_seed_asks_the_same_samples_and_a_larger_limit_more(archive):
    def asked(limit, seed=0):
        wish = DataWish(source=source, limit=limit, seed=seed)
        return make_question(wish, open_splits(wish)).indices

    source = archive()
    assert asked(10) == asked(10) and len(asked(10)) == 10 and asked(10) == tuple(sorted(asked(10)))
    assert set(asked(10)) < set(asked(25)) and asked(10) != asked(10, seed=1)
    assert asked(None) == asked(10_000) == tuple(range(COUNT))


@pytest.mark.parametrize("limit", [0, -3])
def test_a_limit_below_one_makes_no_sense(archive, limit):
    wish = DataWish(source=archive(), limit=limit)
    with pytest.raises(BadInput, match="makes no sense"):
        make_question(wish, open_splits(wish))


def test_a_split_that_is_not_there_is_unavailable(archive):
    wish = DataWish(source=archive(), split="holdout")
    with pytest.raises(Unavailable, match="no split 'holdout'"):
        make_question(wish, open_splits(wish))


def test_nobody_says_what_the_task_is(archive, tmp_path):
    model = classifier(tmp_path / "m.fake")
    with pytest.raises(BadInput, match="what the model's task is") as caught:
        make_examination([model], DataWish(source=archive()), axes=Axes(), stopping=Stopping(), target=TargetSpec())
    assert "classification" in caught.value.advice
    with pytest.raises(Unavailable, match="no task is called 'clasification'"):
        find_task("clasification", Instructions())


def test_what_stands_beside_the_model_is_the_task_and_words_win_over_it(archive, tmp_path):
    model = classifier(tmp_path / "m.fake")
    model.with_suffix(".yaml").write_text("edgewise: 1\ntask: classification\n")

    def made(**wish):
        return make_examination(
            [model], DataWish(source=archive(), **wish), axes=Axes(runtimes=("fake",)), stopping=Stopping(),
            target=TargetSpec(), latency=False,
        )  # fmt: skip

    assert made().task.name == "classification" and made(task="regression").task.name == "regression"
    assert examine(made(), save=lambda run: None).examined[0].run.evaluation.n == COUNT


def test_no_model_is_no_evaluation(archive):
    with pytest.raises(BadInput, match="no model"):
        make_examination([], DataWish(source=archive()), axes=Axes(), stopping=Stopping(), target=TargetSpec())


def test_changed_data_is_not_resumed(archive, tmp_path):
    model = classifier(tmp_path / "m.fake")

    def run(spectator=None):
        wish = DataWish(source=source, task="classification")
        exam = make_examination(
            [model], wish, axes=Axes(runtimes=("fake",)), stopping=Stopping(), target=TargetSpec(), latency=False
        )
        return examine(exam, save=lambda run: None, spectator=spectator)

    source = archive()
    assert run(Pressing(5)).interrupted
    archive(x=rows(COUNT, seed=9))
    assert run().examined[0].resumed == 0


def test_a_metric_of_the_user_s_own_survives_a_cut(tmp_path, archive):
    (tmp_path / "own.py").write_text(
        "import numpy as np\n\ndef spread(outputs, labels):\n    return float(np.std(outputs) + np.mean(labels) / 7)\n"
    )
    model = classifier(tmp_path / "m.fake")

    def run(spectator=None):
        exam = examination(model, data=labelled(), own=(f"{tmp_path / 'own.py'}:spread",))
        return examine(exam, save=lambda run: None, spectator=spectator).examined[0]

    whole = run()
    assert run(Pressing(5)).run.status == "cancelled"
    again = run()
    assert again.resumed > 0 and numbers(again) == numbers(whole)
    assert "score:spread" in {score.metric for score in again.scores}
    json.dumps(again.run.evaluation.settings)


def test_an_accuracy_that_guessing_reaches_is_doubted_with_what_was_fed(tmp_path):
    labels = [0] * (COUNT // 2) + [1] * (COUNT // 2)  # and the answer is always 2
    (one,) = examined(classifier(tmp_path / "m.fake"), data=Rows(rows(COUNT), labels)).examined
    (caution,) = [each for each in one.run.cautions if each.code == "implausible-accuracy"]
    assert "Top-1 accuracy 0.00 % on 60 samples: no better than guessing among 3 classes" in caution.message
    assert "every sample is answered with class 2" in caution.message
    values = rows(COUNT)
    assert f"{min(map(np.min, values)):.3g}"[:4] in caution.message and "values fed to" in caution.message
    assert "fed as stored" in caution.message and "label i is output i" in caution.message
    assert one.run.trust is None or not any("guessing" in reason for reason in one.run.trust.reasons)


def test_a_plausible_accuracy_is_not_doubted(tmp_path):
    (one,) = examined(classifier(tmp_path / "m.fake"), data=Rows(rows(COUNT), [2] * COUNT)).examined
    assert not any(each.code == "implausible-accuracy" for each in one.run.cautions)
