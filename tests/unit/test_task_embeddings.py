"""Retrieval against scikit-learn's nearest neighbours."""

import json

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from edgewise.errors import BadInput
from edgewise.evaluating.tasks import embeddings
from edgewise.evaluating.tasks.embeddings import Embeddings, rank_first
from messages import says
from task_setting import context, judge_all

TASK = Embeddings()


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
@pytest.mark.parametrize("cells", [1 << 21, 700])  # in one piece, and in many
def test_recall_is_that_of_nearest_neighbours(distance, cells, monkeypatch):
    monkeypatch.setattr(embeddings, "CELLS", cells)
    rng = np.random.default_rng(7)
    labels = rng.integers(0, 12, 150)
    vectors = (rng.normal(size=(12, 8))[labels] * 0.8 + rng.normal(size=(150, 8))).astype(np.float32)
    scorer = TASK.prepare(context((1, 8), distance=distance))
    values = scorer.tabulate(json.loads(json.dumps(judge_all(scorer, vectors, labels)))).values()
    near = NearestNeighbors(n_neighbors=11, metric=distance).fit(vectors.astype(float)).kneighbors(
        vectors.astype(float), return_distance=False
    )[:, 1:]  # fmt: skip
    same = labels[near] == labels[:, None]
    assert values == pytest.approx({f"recall_at_{k}": same[:, :k].any(1).mean() for k in (1, 5, 10)}, abs=1e-12)
    assert 0.2 < values["recall_at_1"] < values["recall_at_10"]


def test_lone_samples_are_missed_and_broken_ones_neither_find_nor_are_found():
    vectors = np.array([[1, 0], [1, 0.1], [0, 1], [np.nan, 0], [np.inf, 1]], dtype=np.float32)
    assert rank_first(vectors, np.array([0, 0, 1, 0, 0]), distance="cosine").tolist() == [0, 0, 5, 5, 5]


def test_the_first_of_equally_near_ones_comes_first():
    vectors = np.array([[1, 0], [1, 0], [1, 0], [0, 0]], dtype=np.float32)
    assert rank_first(vectors, np.array([0, 1, 0, 1]), distance="cosine").tolist() == [1, 2, 0, 1]


def test_small_sets_have_no_ranks_beyond_them():
    scorer = TASK.prepare(context((1, 2)))
    table = scorer.tabulate(judge_all(scorer, np.eye(2)[[0, 0, 1, 1, 1, 0]], [0, 0, 1, 1, 1, 0]))
    assert list(table.values()) == ["recall_at_1", "recall_at_5"]
    assert table.proportions["recall_at_1"].tolist() == [1.0] * 6
    assert scorer.tabulate([]).n == 0


def test_vectors_are_kept_exactly():
    scorer = TASK.prepare(context((1, 3)))
    vector = np.array([0.1, 1e-30, -3.4e38], dtype=np.float32)
    (record,) = judge_all(scorer, [vector], ["cat"])
    assert record[0] == "cat"
    import base64

    assert np.frombuffer(base64.b64decode(record[1]), "<f4").tolist() == vector.tolist()


def test_bad_input():
    scorer = TASK.prepare(context((1, None)))
    with pytest.raises(BadInput, match=says("embeddings-differ-size")):
        scorer.tabulate([*judge_all(scorer, [[1.0, 2.0]], [0]), *judge_all(scorer, [[1.0]], [0])])
    with pytest.raises(BadInput, match=says("label-which-not-class")):
        judge_all(scorer, [[1.0, 2.0]], [None])
    with pytest.raises(BadInput, match=says("output-numbers-not-embedding-1")):
        judge_all(scorer, [np.zeros(70_000)], [0])
    with pytest.raises(BadInput, match="distance must be cosine or euclidean"):
        TASK.prepare(context((1, 2), distance="manhattan"))
