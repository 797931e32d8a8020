"""From a question to runs with scores: whatever happens on the way, scores are those of the samples that were judged."""

from __future__ import annotations

import itertools
import json
import re
from contextlib import nullcontext
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn import metrics as oracle

from edgewise.cancellation import CancelToken, cancellable
from edgewise.errors import BadInput, StoreError, Unavailable
from edgewise.evaluating import custom_metric, table_bootstrap
from edgewise.evaluating.calibrated import read_calibrated
from edgewise.evaluating.data_options import DataOptions, find_task, open_splits, select_samples
from edgewise.evaluating.dataset import Sample
from edgewise.evaluating.evaluation import EvaluationPlan, plan_evaluation, run_evaluation, run_shard
from edgewise.evaluating.instructions import Instructions, read_flags
from edgewise.evaluating.task import tasks
from edgewise.model.identity import open_model
from edgewise.progress import SamplesDone, SamplesFinished, SamplesStarted, reporting_to
from edgewise.record import CalibratedPart, Caution, Stopping, TargetSpec
from edgewise.run.plan import Axes
from edgewise.stats.proportions import wilson_interval
from edgewise.store import codec
from edgewise.store.lab import LabDevice
from edgewise.testing import write_fake_model
from edgewise.verbs.checking import make_request
from edgewise.verbs.context import Context, Saver
from edgewise.verbs.evaluate import in_lab
from edgewise.verbs.evaluate.request import EvaluateRequest
from edgewise.verbs.outcome import Outcome, _ended_with
from edgewise.verbs.verb import VERBS
from messages import says, wording
from small_selections import NET, Rows, corrupt, job_of, rows, selection

COUNT = 60
CLASSES = 3
OUTPUTS = [{"name": "y", "shape": [1, CLASSES], "dtype": "float32"}]


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path, threads):
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
    """Notes the events of samples, and presses Ctrl-C once so many are done."""

    def __init__(self, at=None):
        self.at, self.told, self.kinds = at, [], []

    def __call__(self, event):
        self.kinds.append(type(event).__name__)
        match event:
            case SamplesStarted():
                self.told.append(("started", event.total))
            case SamplesDone():
                self.told.append((event.done, event.total))
                if self.at is not None and event.done >= self.at:
                    raise KeyboardInterrupt
            case SamplesFinished():
                self.told.append(("finished", event.answered + event.skipped))


def plan_of(*models, data, task="classification", latency=False, **settings):
    return EvaluationPlan(
        jobs=tuple(map(job_of, models)),
        selection=selection(data, strict=settings.pop("strict", False)),
        task=None if task is None else tasks().get(task),
        latency=latency,
        **settings,
    )


def evaluate(*models, saved=None, progress=None, **settings):
    keep = [] if saved is None else saved
    with reporting_to(progress):
        return run_evaluation(plan_of(*models, **settings), save=keep.append)


def test_scores_are_those_of_scikit_learn(tmp_path):
    data = labelled(on_read=corrupt(4, 31))
    saved = []
    (one,) = evaluate(classifier(tmp_path / "m.fake"), data=data, saved=saved).models
    used = [label for index, label in enumerate(data.labels) if index not in (4, 31)]
    results = [CLASSES - 1] * len(used)
    values = {score.metric: score.value for score in one.scores}
    assert values["accuracy_top1"] == oracle.accuracy_score(used, results)
    assert values["f1_macro"] == pytest.approx(oracle.f1_score(used, results, average="macro"), abs=1e-12)
    evaluation = one.run.evaluation
    assert (evaluation.n, evaluation.skipped_count) == (COUNT - 2, 2)
    assert [skipped.name for skipped in evaluation.skipped] == ["row[4]", "row[31]"]
    assert np.array(evaluation.confusion).tolist() == oracle.confusion_matrix(used, results).tolist()
    assert saved == [one.run] and one.run.status == "done" and one.headline == "accuracy_top1"
    assert one.run.measurement("accuracy_top1").value == values["accuracy_top1"]


def provenance(model, document):
    """Write `document` beside `model`, as the commands that make files do."""
    known = {"model": {"sha256": open_model(model).ref.sha256}, **document}
    model.with_name(f"{model.name}.provenance.json").write_text(json.dumps(known))


def test_samples_that_also_calibrated_the_model_are_counted_and_it_is_scored_without_them(tmp_path):
    data, model = labelled(on_read=corrupt(4)), classifier(tmp_path / "m.fake")
    seen = [0, 1, 2, 3, 7]
    digests = [Sample(index=0, name="", data=data.data[at], label=data.labels[at]).digest() for at in (*seen, 4)]
    provenance(model, {"calibration": {"samples": [*(each[:16] for each in digests), "of another data set"]}})
    (one,) = evaluate(model, data=data).models
    others = [label == CLASSES - 1 for index, label in enumerate(data.labels) if index not in (*seen, 4)]
    found = one.run.evaluation.calibrated
    low, high = wilson_interval(sum(others), 54)
    assert found == CalibratedPart(samples=5, metric="accuracy_top1", n=54, value=sum(others) / 54, low=low, high=high)
    (told,) = (each.message for each in one.run.cautions if each.code == "samples-calibrated")
    assert told.startswith("5 of 59 samples were also used to calibrate it; top-1 accuracy without them: ")
    assert one.run.measurement("accuracy_top1").value == pytest.approx(
        np.mean([label == CLASSES - 1 for index, label in enumerate(data.labels) if index != 4])
    )
    assert codec.decode(codec.encode(one.run)).evaluation.calibrated == found


def test_a_model_that_was_calibrated_on_every_sample_has_no_accuracy_without_them(tmp_path):
    data, model = labelled(), classifier(tmp_path / "m.fake")
    digests = [data.read(index).digest()[:16] for index in range(COUNT)]
    provenance(model, {"calibration": {"samples": digests}})
    (one,) = evaluate(model, data=data).models
    assert one.run.evaluation.calibrated == CalibratedPart(samples=COUNT, metric="accuracy_top1", n=0)
    assert "all 60 samples were also used to calibrate it: none is left to judge it on" in [
        each.message for each in one.run.cautions
    ]


@pytest.mark.parametrize(
    "document",
    [
        {}, {"calibration": None}, {"calibration": {"size": 4}}, {"calibration": {"samples": 3}}, {"model": "m"},
        {"model": {"sha256": "0" * 64}, "calibration": {"samples": ["a"]}},
    ],
)  # fmt: skip
def test_a_provenance_of_another_file_or_without_samples_tells_nothing(tmp_path, document):
    model = classifier(tmp_path / "m.fake")
    assert read_calibrated(open_model(model).ref) == frozenset()
    provenance(model, document)
    assert read_calibrated(open_model(model).ref) == frozenset()
    model.with_name("m.fake.provenance.json").write_bytes(b"\xff{")
    assert read_calibrated(open_model(model).ref) == frozenset()


def numbers(one):
    """Everything that must not depend on whether the pass was cut off."""
    evaluation = one.run.evaluation
    return one.scores, one.differences, evaluation.n, evaluation.confusion, evaluation.data.sha256, evaluation.skipped


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_pass_that_was_cut_off_comes_to_the_same_scores(tmp_path, cache, task):
    model = classifier(tmp_path / "m.fake")
    data = labelled(on_read=corrupt(40))
    if task == "regression":
        model = classifier(tmp_path / "r.fake", outputs=[{"name": "y", "shape": [1, 1], "dtype": "float32"}])
        data = Rows(rows(COUNT), [float(row.sum()) * 1.1 for row in rows(COUNT)], on_read=corrupt(40))
    (whole,) = evaluate(model, data=data, task=task).models
    assert list(cache.rglob("*.jsonl")) == []  # complete: nothing to resume
    first = evaluate(model, data=data, task=task, progress=Pressing(5))
    (part,) = first.models
    assert first.interrupted and part.run.status == "cancelled" and 5 <= part.run.evaluation.n < COUNT
    assert len(list(cache.rglob("*.jsonl"))) == 1
    progress = Pressing()
    second = evaluate(model, data=data, task=task, progress=progress)
    (resumed,) = second.models
    assert not second.interrupted and resumed.resumed >= 5
    assert numbers(resumed) == numbers(whole)
    assert progress.told[0] == ("started", COUNT) and progress.told[-1] == ("finished", COUNT)
    assert list(cache.rglob("*.jsonl")) == []


def test_ctrl_c_before_the_first_answer_is_no_fault_of_the_data(tmp_path):
    def read(index):
        raise KeyboardInterrupt

    saved = []
    found = evaluate(classifier(tmp_path / "m.fake"), data=labelled(on_read=read), saved=saved)
    assert found.interrupted and found.models[0].run.status == "cancelled" and found.models[0].scores == ()


def test_cancelling_while_scores_are_computed_keeps_the_samples(tmp_path, cache, monkeypatch):
    token = CancelToken()
    model, data = classifier(tmp_path / "m.fake"), labelled()
    whole = evaluate(model, data=data).models[0]
    saved = []

    def cancel_at_the_end(event):
        if isinstance(event, SamplesFinished):
            token.cancel()

    with cancellable(token):
        found = evaluate(model, data=data, saved=saved, progress=cancel_at_the_end)
    assert found.interrupted and found.models[0].run.status == "cancelled" and saved == list(found.runs)
    assert len(list(cache.rglob("*.jsonl"))) == 1
    (again,) = evaluate(model, data=data).models
    assert again.resumed == COUNT and again.scores == whole.scores


def test_a_cancelled_token_ends_a_wait_for_the_worker(tmp_path, clock):
    token, begin = CancelToken(), clock.now()
    hanging = classifier(tmp_path / "m.fake", behaviour={"at": "invoke", "after": 20, "do": "hang"})
    clock.after(1.0, token.cancel)
    with cancellable(token):
        found = evaluate(hanging, data=labelled())
    assert clock.now() - begin == 1.0  # the worker would be waited for until its timeout
    assert found.interrupted and 1 <= found.models[0].run.evaluation.n < COUNT


def test_events_tell_jobs_and_samples_in_order(tmp_path):
    progress = Pressing()
    evaluate(classifier(tmp_path / "a.fake"), classifier(tmp_path / "b.fake"), data=labelled(), progress=progress)
    once = ["JobStarted", "SamplesStarted", "SamplesDone", "SamplesFinished", "RunFinished"]
    assert [kind for kind, _ in itertools.groupby(progress.kinds)] == once * 2


def test_two_models_are_compared_on_the_samples_that_both_answered(tmp_path):
    good = classifier(tmp_path / "good.fake")
    bad = classifier(tmp_path / "bad.fake", outputs_value=0.0)  # the first class, whatever comes
    data = labelled()
    one, other = evaluate(good, bad, data=data).models
    right = np.array(data.labels)
    (difference,) = [difference for difference in other.differences if difference.metric == "accuracy_top1"]
    assert one.differences == () and difference.n == COUNT
    assert difference.difference == pytest.approx(float(np.mean(right == 0) - np.mean(right == CLASSES - 1)), abs=1e-12)
    assert f"{int(np.sum(right == 0))} gained, {int(np.sum(right == CLASSES - 1))} lost" in difference.method


def test_a_worker_that_dies_is_a_failed_run_and_the_next_model_is_judged(tmp_path, cache):
    dying = classifier(tmp_path / "a.fake", behaviour={"at": "invoke", "after": 20, "do": "segfault"})
    saved = []
    first, second = evaluate(dying, classifier(tmp_path / "b.fake"), data=labelled(), saved=saved).models
    assert first.run.status == "failed" and first.run.failure.signal == "SIGSEGV" and first.scores == ()
    assert second.run.status == "done" and second.scores and second.differences == ()
    assert [run.status for run in saved] == ["failed", "done"]
    assert len(list(cache.rglob("*.jsonl"))) == 1  # of the one that died, to go on


@pytest.mark.parametrize("latency", [True, False])
def test_data_that_do_not_fit_are_refused_before_anything_is_measured(tmp_path, latency):
    saved = []
    data = Rows(rows(COUNT, 5), [0] * COUNT, on_read=corrupt(0, 1))
    with pytest.raises(BadInput, match=says("shape-input-takes", sample="row[2]")):
        evaluate(classifier(tmp_path / "m.fake"), data=data, saved=saved, latency=latency)
    assert saved == []


@pytest.mark.parametrize("labels", [["cat"] * COUNT, [1.5] * COUNT, [-1] * COUNT, [99] * COUNT, [None] * COUNT])
def test_labels_that_are_no_classes_are_refused(tmp_path, labels):
    with pytest.raises(BadInput) as caught:
        evaluate(classifier(tmp_path / "m.fake"), data=Rows(rows(COUNT), labels))
    assert "row[0]" in caught.value.message or "label" in caught.value.message


def test_not_one_usable_sample_is_an_error_that_says_why(tmp_path):
    with pytest.raises(BadInput, match=says("none-samples-could-used", name="rows", why=" (row[0]: scratched)")):
        evaluate(classifier(tmp_path / "m.fake"), data=labelled(on_read=corrupt(*range(COUNT))))


def test_strict_is_an_error(tmp_path):
    with pytest.raises(BadInput, match=says("cant-used-in-data-options", name="row[9]")):
        evaluate(classifier(tmp_path / "m.fake"), data=labelled(on_read=corrupt(9)), strict=True)


def test_without_labels_there_is_nothing_to_judge_by(tmp_path):
    with pytest.raises(BadInput, match=says("no-labels")) as caught:
        evaluate(classifier(tmp_path / "m.fake"), data=Rows(rows(COUNT)))
    assert "--reference" in caught.value.advice


def test_a_task_for_other_samples_is_refused(tmp_path):
    with pytest.raises(BadInput, match=says("does-not-support-samples", name="detection", kind="array")):
        evaluate(classifier(tmp_path / "m.fake"), data=labelled(), task="detection")


def test_a_reference_takes_the_place_of_labels(tmp_path):
    model = classifier(tmp_path / "m.fake")
    reference = job_of(classifier(tmp_path / "r.fake", latency_ns=[7]))
    same, other = evaluate(
        model, classifier(tmp_path / "o.fake", outputs_value=0.0), data=Rows(rows(COUNT)), task=None, reference=reference
    ).models  # fmt: skip
    values = {score.metric: score.value for score in same.scores}
    assert (values["agreement_top1"], values["output_max_abs_error"], values["output_snr"]) == (1.0, 0.0, None)
    assert {score.metric: score.value for score in other.scores}["agreement_top1"] == 0.0
    assert same.run.evaluation.task == "agreement" and same.run.evaluation.reference == reference.model.sha256


def test_a_reference_answers_once_for_all_models(tmp_path, asked):
    reference = job_of(classifier(tmp_path / "r.fake", latency_ns=[7]))
    models = [classifier(tmp_path / f"{name}.fake", latency_ns=[place]) for place, name in enumerate("abc", start=1)]
    done = evaluate(*models, data=Rows(rows(COUNT)), task=None, reference=reference).models
    assert [one.run.evaluation.n for one in done] == [COUNT] * 3
    assert sum(count for _, count in asked) == (3 + 1) * COUNT


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [({"at": "load", "do": "abort"}, "SIGABRT"), ({"at": "invoke", "after": 20, "do": "exit"}, "exit code 7")],
)
def test_a_reference_that_fails_is_a_failed_run(tmp_path, behaviour, words):
    reference = job_of(classifier(tmp_path / "r.fake", behaviour=behaviour))
    (one,) = evaluate(classifier(tmp_path / "m.fake"), data=Rows(rows(COUNT)), task=None, reference=reference).models
    assert one.run.status == "failed" and re.search(says("reference-failed"), one.run.failure.message)
    assert words in one.run.failure.message


def test_latency_and_accuracy_stand_in_one_run(tmp_path):
    plan = plan_of(classifier(tmp_path / "m.fake"), data=labelled(), latency=True)
    job = plan.jobs[0]
    from dataclasses import replace

    short = replace(job, workload=replace(job.workload, stopping=Stopping(sessions=1, iterations=20, warmup=2)))
    saved = []
    (one,) = run_evaluation(replace(plan, jobs=(short,)), save=saved.append).models
    assert one.run.measurement("latency").value == pytest.approx(1e-3)
    assert one.run.measurement("accuracy_top1").value is not None
    assert saved[-1] == one.run and len({run.id for run in saved}) == 1


def test_a_model_whose_latency_could_not_be_measured_is_not_judged(tmp_path):
    broken = classifier(tmp_path / "m.fake", behaviour={"at": "first", "do": "abort"})
    progress = Pressing()
    (one,) = evaluate(broken, data=labelled(), latency=True, progress=progress).models
    assert one.run.status == "failed" and progress.told == []


def test_a_store_that_fails_loses_no_scores(tmp_path):
    class Full:
        def save(self, run):
            raise StoreError("no room")

    saver = Saver(Context(store=Full()))
    found = run_evaluation(plan_of(classifier(tmp_path / "m.fake"), data=labelled()), save=saver.save)
    assert found.models[0].scores and [error.message for error in saver.errors] == ["no room"]
    assert list(saver.unsaved) == [found.models[0].run.id]


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
        wish = DataOptions(source=source, limit=limit, seed=seed)
        return select_samples(wish, open_splits(wish)).indices

    source = archive()
    assert asked(10) == asked(10) and len(asked(10)) == 10 and asked(10) == tuple(sorted(asked(10)))
    assert set(asked(10)) < set(asked(25)) and asked(10) != asked(10, seed=1)
    assert asked(None) == asked(10_000) == tuple(range(COUNT))


@pytest.mark.parametrize("limit", [0, -3])
def test_a_limit_below_one_makes_no_sense(archive, limit):
    wish = DataOptions(source=archive(), limit=limit)
    with pytest.raises(BadInput, match=says("limit-must-least-1-not")):
        select_samples(wish, open_splits(wish))


def test_a_split_that_is_not_there_is_unavailable(archive):
    wish = DataOptions(source=archive(), split="holdout")
    with pytest.raises(Unavailable, match=says("data-no-split", asked="holdout")):
        select_samples(wish, open_splits(wish))


def test_nobody_says_what_the_task_is(archive, tmp_path):
    model = classifier(tmp_path / "m.fake")
    with pytest.raises(BadInput, match=says("no-task-given")) as caught:
        plan_evaluation([model], DataOptions(source=archive()), axes=Axes(), stopping=Stopping(), target=TargetSpec())
    assert "classification" in caught.value.advice
    with pytest.raises(Unavailable, match=says("unknown-noun-name-r", noun="task", name="clasification")):
        find_task("clasification", Instructions(), labelled())


def test_what_stands_beside_the_model_is_the_task_and_words_win_over_it(archive, tmp_path):
    model = classifier(tmp_path / "m.fake")
    model.with_suffix(".yaml").write_text("edgewise: 1\ntask: classification\n")

    def made(**wish):
        return plan_evaluation(
            [model], DataOptions(source=archive(), **wish), axes=Axes(runtimes=("fake",)), stopping=Stopping(),
            target=TargetSpec(), latency=False,
        )  # fmt: skip

    assert made().task.name == "classification" and made(task="regression").task.name == "regression"
    assert run_evaluation(made(), save=lambda run: None).models[0].run.evaluation.n == COUNT


def test_no_model_is_no_evaluation(archive):
    with pytest.raises(BadInput, match=says("no-model-given")):
        plan_evaluation([], DataOptions(source=archive()), axes=Axes(), stopping=Stopping(), target=TargetSpec())


def test_changed_data_is_not_resumed(archive, tmp_path):
    model = classifier(tmp_path / "m.fake")

    def run(progress=None):
        wish = DataOptions(source=source, task="classification")
        plan = plan_evaluation(
            [model], wish, axes=Axes(runtimes=("fake",)), stopping=Stopping(), target=TargetSpec(), latency=False
        )
        with reporting_to(progress):
            return run_evaluation(plan, save=lambda run: None)

    source = archive()
    assert run(Pressing(5)).interrupted
    archive(x=rows(COUNT, seed=9))
    assert run().models[0].resumed == 0


def test_a_metric_of_the_user_s_own_survives_a_cut(tmp_path, archive, monkeypatch):
    monkeypatch.setattr(custom_metric.WholeTable, "most_seconds", 1e9)  # of a busy machine's time
    monkeypatch.setattr(table_bootstrap, "SECONDS", 1e9)
    (tmp_path / "own.py").write_text(
        "import numpy as np\n\ndef spread(outputs, labels):\n    return float(np.std(outputs) + np.mean(labels) / 7)\n"
    )
    model = classifier(tmp_path / "m.fake")

    def run(progress=None):
        plan = plan_of(model, data=labelled(), own=(f"{tmp_path / 'own.py'}:spread",))
        with reporting_to(progress):
            return run_evaluation(plan, save=lambda run: None).models[0]

    whole = run()
    assert run(Pressing(5)).run.status == "cancelled"
    again = run()
    assert again.resumed > 0 and numbers(again) == numbers(whole)
    assert "score:spread" in {score.metric for score in again.scores}
    json.dumps(again.run.evaluation.settings)


def test_an_accuracy_that_guessing_reaches_is_doubted_with_what_was_fed(tmp_path):
    labels = [0] * (COUNT // 2) + [1] * (COUNT // 2)  # and the answer is always 2
    (one,) = evaluate(classifier(tmp_path / "m.fake"), data=Rows(rows(COUNT), labels)).models
    (caution,) = [each for each in one.run.cautions if each.code == "implausible-accuracy"]
    assert "Top-1 accuracy 0.00 % on 60 samples: no better than guessing among 3 classes" in caution.message
    assert "every sample is answered with class 2" in caution.message
    values = rows(COUNT)
    assert f"{min(map(np.min, values)):.3g}"[:4] in caution.message and re.search(says("values-fed"), caution.message)
    assert wording("fed-stored") in caution.message and "label i is output i" in caution.message
    assert one.run.trust is None or not any("guessing" in reason for reason in one.run.trust.reasons)


def test_a_plausible_accuracy_is_not_doubted(tmp_path):
    (one,) = evaluate(classifier(tmp_path / "m.fake"), data=Rows(rows(COUNT), [2] * COUNT)).models
    assert not any(each.code == "implausible-accuracy" for each in one.run.cautions)


def test_doubts_about_the_preparation_of_pictures_are_cautions_of_the_run(tmp_path, monkeypatch):
    """Values that few networks take, and another way that scores better, which only labels tell."""
    asked = []

    def better(tested, chosen, run, compare):
        asked.append((len(chosen.indices), run(tested, chosen).interrupted))
        return Caution.of("better-preparation", "pad=32,32 scores 13 points better")

    monkeypatch.setattr("edgewise.evaluating.other_preparation.find_better", better)
    model, samples = classifier(tmp_path / "m.fake"), rows(COUNT)
    scaled = Instructions(steps=read_flags(("scale=1/2000",)))

    def codes(labels, kind="image", **settings):
        data = Rows(samples, labels)
        data.kind = kind
        (one,) = evaluate(model, data=data, instructions=scaled, **settings).models
        return [each.code for each in one.run.cautions if each.code in ("better-preparation", "unusual-values")]

    labels = [2] * COUNT
    assert codes(labels) == ["better-preparation", "unusual-values"] and asked == [(COUNT, False)]
    assert codes(labels, kind="array") == [] and len(asked) == 1
    assert codes(labels, reference=job_of(model)) == [] and len(asked) == 1  # no accuracy is known


def odd_one(path):
    """A model whose input the samples don't fit."""
    return classifier(path, inputs=[{"name": "x", "shape": [1, 7], "dtype": "float32"}])


def test_a_model_that_the_samples_do_not_fit_leaves_the_scores_of_the_others(tmp_path):
    good, odd, saved = classifier(tmp_path / "a.fake"), odd_one(tmp_path / "b.fake"), []
    for models in ((good, odd), (odd, good)):
        found = evaluate(*models, data=labelled(), saved=saved).models
        by_name = {one.run.job.model.name: one for one in found}
        assert by_name["a.fake"].run.status == "done" and by_name["a.fake"].scores
        failed = by_name["b.fake"].run
        assert (failed.status, failed.failure.cause, failed.failure.phase) == ("failed", "BadInput", "evaluate")
        assert by_name["b.fake"].scores == () and failed in saved
    with pytest.raises(BadInput):  # none can be judged: it is about the data
        evaluate(odd, odd_one(tmp_path / "c.fake"), data=labelled())


class Lab:
    """A lab whose hosts run shards in this process; `dying` are the shards in which the first model dies."""

    def __init__(self, plan, dying=(), processors=("x", "x")):
        self.plan, self.dying, self.packer, self.jobs = plan, dying, None, SimpleNamespace(find=self.find)
        self.hosts = [
            LabDevice(host=f"h{at}", name="local", identity=str(at), answers=("local",), processor=each)
            for at, each in enumerate(processors)
        ]
        self.devices, self.ended, self.run = {"local": self.hosts}, {}, []

    def find(self, keys, *, ended):
        return {key: job for key, job in self.ended.items() if key in keys}

    def answering(self, device):
        return self.devices[device]

    def job(self, key, title, device, request):
        return {"id": key, "version": "1", "request": f"{request.shards}", "shards": request.shards}

    def carry_out(self, jobs):
        for job in jobs:
            number, count = job["shards"]
            self.run.append(number)
            plan = self.plan
            if number in self.dying:
                first = plan.jobs[0]
                dying = classifier(Path(first.model.path).with_name("dying.fake"), behaviour=DIES)
                plan = replace(plan, jobs=(replace(first, model=job_of(dying).model), *plan.jobs[1:]))
            results = run_shard(plan, number, count)
            fields = _ended_with(results, VERBS.get("evaluate").presentation())
            outcome = Outcome(key=job["id"], cell="c", seconds=1.0, finished=2.0, **fields)
            made = SimpleNamespace(
                id=job["id"], status=outcome.status, host=f"h{(number - 1) % len(self.hosts)}", finished=2.0,
                outcome=json.dumps(asdict(outcome)), title="t",
            )  # fmt: skip
            self.ended[job["id"]] = made
            yield made


DIES = {"at": "invoke", "after": 1, "do": "segfault"}


@pytest.fixture
def shared(monkeypatch, tmp_path):
    """Evaluates models on a `Lab`, each shard as a job."""
    monkeypatch.setattr(in_lab, "open_splits", lambda data: {})
    request = make_request(EvaluateRequest, models=["a.fake", "b.fake"], data=str(tmp_path), lab=True, shards=4)

    def evaluated(lab):
        store = SimpleNamespace(lab=SimpleNamespace(status=lambda: {"devices": []}))
        monkeypatch.setattr(in_lab, "lab_of", lambda context: nullcontext((store, lab)))
        lab.run.clear()
        shards = partial(in_lab.run_in_lab, request, lab.plan, None)
        return run_evaluation(lab.plan, save=lambda run: None, shards=shards).models

    return evaluated


def test_a_model_that_fails_in_a_shard_leaves_the_others_and_is_tried_again(tmp_path, shared):
    plan = plan_of(classifier(tmp_path / "a.fake"), classifier(tmp_path / "b.fake"), data=labelled())
    alone = run_evaluation(plan, save=lambda run: None).models
    lab = Lab(plan, dying=(2,))
    first, second = shared(lab)
    assert lab.run == [1, 2, 3, 4]
    assert first.run.status == "failed" and first.scores == ()
    assert first.run.failure.message.startswith("shard 2 of 4 at h1: ") and first.run.failure.cause == "EngineError"
    assert second.run.status == "done" and second.scores == alone[1].scores
    lab.dying = ()
    again = shared(lab)
    assert lab.run == [2] and [one.scores for one in again] == [one.scores for one in alone]


def test_hosts_with_different_processors_are_a_caution(tmp_path, shared):
    plan = plan_of(classifier(tmp_path / "a.fake"), classifier(tmp_path / "b.fake"), data=labelled())
    codes = [[each.code for each in one.run.cautions] for one in shared(Lab(plan))]
    assert not any("processors-differ" in each for each in codes)
    (told,) = [
        each for each in shared(Lab(plan, processors=("x", "y")))[0].run.cautions if each.code == "processors-differ"
    ]
    assert told.message.endswith("(x: h0; y: h1)")
    three = Lab(plan, processors=("x", "y", "z"))
    three.devices = {"local": three.hosts[:2]}  # the third has left the lab
    (told,) = [each for each in shared(three)[0].run.cautions if each.code == "processors-differ"]
    assert told.message.endswith("(x: h0; y: h1; not known: h2)")
