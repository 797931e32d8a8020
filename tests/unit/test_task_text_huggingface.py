"""Metrics in the form of Hugging Face's evaluate: loaded from a folder, offline, beside a task's own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from test_task_text import IDS, LOGITS, Data, tokenizer  # noqa: F401 - a fixture

from edgewise.errors import BadInput
from edgewise.evaluating.added_metrics import CustomScorer, with_custom_metrics
from edgewise.evaluating.custom_metric import WholeTable
from edgewise.evaluating.dataset import Sample
from edgewise.evaluating.scores import compare_tables, score
from edgewise.evaluating.task import HasConfusion, Preparation, RunsModel, TaskContext
from edgewise.evaluating.tasks.classification import Classification
from edgewise.evaluating.tasks.huggingface_metric import read_metric
from edgewise.evaluating.tasks.text import TextGeneration
from edgewise.model.signature import Signature, TensorSpec

evaluate = pytest.importorskip("evaluate", reason="the metrics are modules of the evaluate package")

TEMPLATE = """
import datasets
import evaluate
{imports}

class Metric(evaluate.Metric):
    def _info(self):
        return evaluate.MetricInfo(
            description="", citation="", inputs_description="",
            features=datasets.Features({{"predictions": {predictions}, "references": {references}}}),
        )

    def _compute(self, predictions, references):
        {body}
"""
INT, TEXT = 'datasets.Value("int64")', 'datasets.Value("string")'
RIGHT = 'return {"right": sum(p == r for p, r in zip(predictions, references)) / len(predictions), "note": "text"}'


@pytest.fixture(scope="module", autouse=True)
def caches(tmp_path_factory):
    """The package keeps copies of what it loads; not in the home of whoever runs the tests."""
    folder = tmp_path_factory.mktemp("huggingface")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluate.config, "HF_MODULES_CACHE", str(folder / "modules"))
        patch.setattr(evaluate.config, "HF_METRICS_CACHE", str(folder / "metrics"))
        patch.setattr(sys, "path", list(sys.path))
        yield


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("something reached for the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def write_metric(folder: Path, name, *, body=RIGHT, predictions=INT, references=INT, imports=""):
    place = folder / name
    place.mkdir()
    text = TEMPLATE.format(imports=imports, predictions=predictions, references=references, body=body)
    (place / f"{name}.py").write_text(text)
    return place


def beside(scorer, *metrics):
    return CustomScorer(scorer, metrics, headline=scorer.headline)


def tabulate(scorer, records, *metrics):
    """The table of a task's records and these metrics."""
    return beside(scorer, *metrics).tabulate([[each, [None] * len(metrics)] for each in records])


def classify(rows, labels):
    spec = TensorSpec(name="logits", shape=(1, 3), dtype="float32")
    context = TaskContext(signature=Signature(inputs=(IDS,), outputs=(spec,)), data=Data(classes=("a", "b", "c")))
    scorer = Classification().prepare(context)
    records = [
        scorer.record([np.array([row], np.float32)], Sample(index=i, name=str(i), data="x", label=label), Preparation())
        for i, (row, label) in enumerate(zip(rows, labels, strict=True))
    ]
    return scorer, records


def random_classification(seed, size=30):
    rng = np.random.default_rng(seed)
    return classify(rng.normal(size=(size, 3)), rng.integers(0, 3, size).tolist())


def test_a_module_stands_beside_the_task_s_own_metrics(tmp_path):
    scorer, records = random_classification(0)
    metric = read_metric(f"hf:{write_metric(tmp_path, 'share')}")
    wrapped = beside(scorer, metric)
    assert wrapped.headline == scorer.headline
    assert not isinstance(wrapped, RunsModel)
    told = wrapped.settings["huggingface_metrics"]
    assert [(each["name"], each["less_is_better"], len(each["sha256"])) for each in told] == [("share", False, 64)]
    table = tabulate(scorer, records, metric)
    assert isinstance(table, HasConfusion)
    values = table.values()
    assert list(values) == [*scorer.tabulate(records).values(), "score:right"]
    assert values["score:right"] == pytest.approx(values["accuracy_top1"], abs=1e-12)
    weights = np.random.default_rng(1).multinomial(30, np.full(30, 1 / 30)).astype(float)
    weighted = table.values(weights)
    assert weighted["score:right"] == pytest.approx(weighted["accuracy_top1"], abs=1e-12)


def test_it_gets_an_interval_and_a_paired_difference(tmp_path, monkeypatch):
    monkeypatch.setattr(WholeTable, "most_seconds", 600.0)  # on a busy machine too
    metric = read_metric(f"hf:{write_metric(tmp_path, 'paired')}=lower")
    tables = []
    for seed in (0, 1):
        scorer, records = random_classification(seed)
        *_, own = tabulate(scorer, records, metric).parts
        tables.append(own)
    found = {each.metric: each for each in score(tables[0])}["loss:right"]
    assert found.low < found.value < found.high
    assert "199 resamples" in found.method
    difference = {each.metric: each for each in compare_tables(*tables)}["loss:right"]
    expected = tables[1].values()["loss:right"] - tables[0].values()["loss:right"]
    assert difference.difference == pytest.approx(expected, abs=1e-12)


def test_two_modules_and_scikit_learn(tmp_path):
    metrics = pytest.importorskip("sklearn.metrics", reason="the oracle is scikit-learn")
    body = 'return {"f1": f1_score(references, predictions, average="macro"), "eval-n/1": len(predictions)}'
    imports = "from sklearn.metrics import f1_score"
    f1 = read_metric(f"hf:{write_metric(tmp_path, 'f_one', body=body, imports=imports)}")
    share = read_metric(f"hf:{write_metric(tmp_path, 'share_two')}")
    scorer, records = random_classification(2, size=9)  # too few to be resampled, which takes seconds
    table = tabulate(scorer, records, f1, share)
    answers, labels = [each[1] for each in records], [each[0] for each in records]
    assert table.values()["score:f1"] == metrics.f1_score(labels, answers, average="macro")
    assert table.values()["score:eval_n_1"] == 9
    assert {each.metric for each in score(table)} >= {"score:f1", "score:right", "score:eval_n_1", "accuracy_top1"}


@pytest.mark.parametrize("references", [TEXT, f"datasets.Sequence({TEXT})"])
def test_texts_come_with_one_reference_or_a_list(tmp_path, tokenizer, references):  # noqa: F811
    body = RIGHT if references == TEXT else RIGHT.replace("p == r", "p in r")
    name = "texts" if references == TEXT else "texts_of_lists"
    metric = read_metric(f"hf:{write_metric(tmp_path, name, body=body, predictions=TEXT, references=references)}")
    context = TaskContext(
        signature=Signature(inputs=(IDS,), outputs=(LOGITS,)), data=Data(), options={"tokenizer": tokenizer}
    )
    scorer = TextGeneration().prepare(context)
    assert isinstance(beside(scorer, metric), RunsModel)
    records = [
        {"answer": "one", "references": ["one"], "tokens": 1},
        {"answer": "two", "references": ["x"], "tokens": 1},
    ]
    assert tabulate(scorer, records, metric).values()["score:right"] == 0.5
    several = [{"answer": "one", "references": ["one", "two"], "tokens": 1}]
    if references == TEXT:
        with pytest.raises(BadInput, match="takes one reference per sample, and there are 2"):
            tabulate(scorer, several, metric)
    else:
        assert tabulate(scorer, several, metric).values()["score:right"] == 1


@pytest.mark.parametrize(
    "word", ["hf:accuracy", "hf:someone/rouge", "hf:", "hf:=lower", "hf:https://x.org/m", "hf:/nowhere"]
)
def test_what_is_no_folder_here_is_refused_and_never_looked_for(word):
    with pytest.raises(BadInput, match="no metric found at") as caught:
        read_metric(word)
    assert "nothing is downloaded" in caught.value.advice


def test_a_module_that_would_download_is_refused(tmp_path):
    place = write_metric(tmp_path, "far", imports="from .scorer import x  # From: https://example.org/scorer.py")
    with pytest.raises(BadInput, match="far would download scorer"):
        read_metric(f"hf:{place}")
    marker = tmp_path / "ran"
    assert not marker.exists()


def test_a_folder_whose_name_ends_like_a_direction(tmp_path):
    assert read_metric(f"hf:{write_metric(tmp_path, 'plain')}=higher").kind == "score"


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("broken_syntax", {"imports": "def ("}, "can't be loaded"),
        ("missing_package", {"imports": "import no_such_package_here"}, "no_such_package_here"),
        ("raises", {"body": "raise KeyError('colour')"}, "raises failed: 'colour'"),
        ("no_number", {"body": 'return {"a": "text", "b": [1, 2]}'}, "no_number gave no number"),
        ("nothing", {"body": "return None"}, "nothing gave no number"),
        ("other_kind", {"predictions": "datasets.Sequence(datasets.Value('float32'))"}, "other_kind failed"),
    ],
)
def test_modules_that_fail_say_so_in_one_line(tmp_path, name, options, words):
    scorer, records = random_classification(0, size=4)
    with pytest.raises(BadInput, match=words) as caught:
        tabulate(scorer, records, read_metric(f"hf:{write_metric(tmp_path, name, **options)}"))
    assert "\n" not in caught.value.message


def test_a_resample_that_a_module_can_not_take_has_no_value(tmp_path):
    body = 'assert len(set(references)) == 3, "a class is missing"\n        return {"x": 1.0}'
    scorer, records = classify(np.eye(3), [0, 1, 2])
    table = tabulate(scorer, records, read_metric(f"hf:{write_metric(tmp_path, 'all_classes', body=body)}"))
    assert table.values()["score:x"] == 1
    assert np.isnan(table.values(np.array([3.0, 0, 0]))["score:x"])


def test_tasks_without_single_answers_can_not_use_it(tmp_path):
    class Other:
        headline, settings = "map_50", {}

    context = TaskContext(signature=Signature(inputs=(), outputs=()), data=Data())
    with pytest.raises(BadInput, match="no single answer per sample"):
        with_custom_metrics(Other(), [f"hf:{write_metric(tmp_path, 'boxes')}"], context)
    with pytest.raises(BadInput, match="needs a task's answers"):
        with_custom_metrics(None, [f"hf:{write_metric(tmp_path, 'more')}"], context)


def test_the_environment_is_left_as_it_was_and_no_import_is_needed_before(tmp_path):
    """In a fresh process: the package is imported offline, and the variables are gone afterwards."""
    place = write_metric(tmp_path, "fresh")
    code = (
        "import os\n"
        "from edgewise.evaluating.tasks.huggingface_metric import read_metric\n"
        f"metric = read_metric('hf:{place}')\n"
        "print(metric.compute([1, 2], [1, 3]), [key for key in os.environ if key.endswith('OFFLINE')])\n"
    )
    kept = {key: value for key, value in os.environ.items() if not key.endswith("OFFLINE")}
    found = subprocess.run(
        [sys.executable, "-c", code], env={**kept, "HF_HOME": str(tmp_path / "home")}, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.strip() == "{'score:right': 0.5} []"
