"""From words to search settings: bounds that mean what was said, and samples that are judged or looked at, never both."""

from __future__ import annotations

import math
import re
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from case_tables import with_each
from edgewise.errors import BadInput, BadModel, Unavailable
from edgewise.evaluating.data_options import DataOptions
from edgewise.evaluating.evaluator import SampleSelection
from edgewise.optimizing.search_settings import (
    CALIBRATION_SAMPLES,
    LEAST_CALIBRATION,
    Limits,
    SearchSettings,
    _part,
    _training,
    build_settings,
    make_bounds,
    usual_folder,
)
from edgewise.optimizing.variant import Bound
from edgewise.testing import write_fake_model
from messages import says, wording
from small_selections import NET, Rows, rows

TOP1 = "accuracy_top1"


# --- bounds ---


def test_limits_become_bounds_in_the_order_of_the_flags():
    found = make_bounds(
        Limits(latency_s=0.005, size_bytes=10**6, memory_bytes=2**26, accuracy_drop="2%", least_accuracy=0.9),
        headline=TOP1,
    )
    assert [(one.metric, one.limit, one.upper, one.relative_to) for one in found] == [
        ("latency", 0.005, True, None),
        ("model_size", 1e6, True, None),
        ("memory_peak", float(2**26), True, None),
        ("accuracy_drop", 0.02, True, TOP1),
        (TOP1, 0.9, False, None),
    ]
    assert [one.words.split()[0] for one in found] == [
        "--max-latency", "--max-size", "--max-memory", "--max-accuracy-drop", "--min-accuracy",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "headline", "limit", "relative"),
    [
        ("1pt", TOP1, 0.01, None),
        (" 1.5 PT ", TOP1, 0.015, None),
        ("0pt", TOP1, 0.0, None),
        (".5pt", TOP1, 0.005, None),
        ("150pt", TOP1, 1.5, None),
        ("2%", TOP1, 0.02, TOP1),
        ("2 %", "mae", 0.02, "mae"),
        ("0.05", TOP1, 0.05, None),
        ("1e-3", TOP1, 0.001, None),
        ("0.05", "mae", 0.05, None),
        ("12", "rmse", 12.0, None),
        ("0", TOP1, 0.0, None),
        (None, TOP1, 0.01, None),
        (None, "agreement_top1", 0.01, None),
        (None, "mae", 0.01, "mae"),
        (None, "score:mine", 0.01, "score:mine"),
    ],
)
def test_a_drop_in_points_percent_or_its_own_unit(text, headline, limit, relative):
    (found,) = make_bounds(Limits(accuracy_drop=text), headline=headline)
    assert found.limit == pytest.approx(limit) and (found.relative_to, found.metric) == (relative, "accuracy_drop")


NONSENSE = [
    "", " ", "pt", "%", "x", "-1pt", "-0.1", "nan", "nanpt", "inf", "infpt", "1e999", "1pt%", "1%pt", "1pt1", "1,5pt",
    "1_0pt", "0x1pt", "1 pt pt", "--", "1e", "٣pt", "1pt\n2pt", "None",
]  # fmt: skip


@with_each(product(NONSENSE, [TOP1, "mae"]))
def test_a_drop_that_makes_no_sense_is_refused(case):
    text, headline = case
    with pytest.raises(BadInput) as caught:
        make_bounds(Limits(accuracy_drop=text), headline=headline)
    assert "--max-accuracy-drop" in caught.value.message and caught.value.advice


@pytest.mark.parametrize("text", ["1", "1.0", "5", "100"])
def test_a_whole_share_may_not_be_lost_by_a_missing_unit(text):
    with pytest.raises(BadInput) as caught:
        make_bounds(Limits(accuracy_drop=text), headline=TOP1)
    assert f"{text}pt" in caught.value.advice


def test_points_of_what_is_no_share_are_refused():
    with pytest.raises(BadInput, match=says("max-accuracy-drop-no-percentage", label="MAE")):
        make_bounds(Limits(accuracy_drop="1pt"), headline="mae")


@given(st.text(max_size=12))
def test_any_text_is_a_bound_or_an_error(text):
    try:
        (found,) = make_bounds(Limits(accuracy_drop=text), headline=TOP1)
    except BadInput:
        return
    assert 0.0 <= found.limit < math.inf and (found.limit < 1.0 or text.strip()[-1] in "tT%")


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf])
@pytest.mark.parametrize("flag", ["latency_s", "size_bytes", "memory_bytes"])
def test_a_limit_that_makes_no_sense_is_refused(flag, value):
    with pytest.raises(BadInput, match=says("must-more-than-0")):
        make_bounds(Limits(**{flag: value}), headline="")


@pytest.mark.parametrize("value", [math.nan, math.inf, -0.1, 1.01, 95.0])
def test_a_share_is_between_none_and_all(value):
    with pytest.raises(BadInput, match=says("min-accuracy-not-valid")):
        make_bounds(Limits(least_accuracy=value), headline=TOP1)


def test_a_least_accuracy_of_an_error_is_a_most():
    *_, found = make_bounds(Limits(least_accuracy=12.0), headline="mae")
    assert found == Bound(metric="mae", limit=12.0, words="--min-accuracy 12", upper=True)


def test_without_data_there_is_no_bound_on_accuracy():
    assert make_bounds(Limits(accuracy_drop="1pt"), headline="") == ()
    with pytest.raises(BadInput, match=says("min-accuracy-needs-data-judge")):
        make_bounds(Limits(least_accuracy=0.9), headline="")


# --- samples ---


def split(count, name="all"):
    return Rows(rows(count), [0] * count, split=name)


def parts(splits, *, judged=None, indices=None, on=None, limit=None, seed=0):
    data = splits[judged or next(iter(splits))]
    chosen = tuple(range(len(data))) if indices is None else tuple(indices)
    asked = SampleSelection(data=data, indices=chosen, seed=seed)
    return _part(asked, splits, DataOptions(source="d", seed=seed), split=on, limit=limit)


@given(
    st.integers(1, 400),
    st.integers(0, 5),
    st.one_of(st.none(), st.integers(1, 300)),
    st.one_of(st.none(), st.integers(1, 400)),
)
def test_what_is_judged_is_never_looked_at(count, seed, limit, asked):
    splits = {"all": split(count)}
    indices = np.random.default_rng(seed).permutation(count)[: asked or count]
    try:
        judged, looked = parts(splits, indices=sorted(map(int, indices)), limit=limit, seed=seed)
    except BadInput as error:
        assert len(indices) < LEAST_CALIBRATION * 4 and re.search(
            says("samples-too-few-judge-calibrate"), error.message
        )
        return
    assert not set(judged.indices) & set(looked.indices)
    assert set(judged.indices) <= set(map(int, indices)) and len(judged.indices) >= len(indices) * 3 // 4
    assert 1 <= len(looked.indices) <= (limit or CALIBRATION_SAMPLES)
    assert list(looked.indices) == sorted(set(looked.indices)) and max(looked.indices) < count
    again = parts(splits, indices=sorted(map(int, indices)), limit=limit, seed=seed)
    assert [one.indices for one in again] == [judged.indices, looked.indices]
    if limit is None:
        assert _training(looked, judged, limit=None) is None


def test_another_seed_looks_at_others():
    splits = {"all": split(400)}
    assert parts(splits, seed=1)[1].indices != parts(splits, seed=2)[1].indices


def test_the_training_part_is_looked_at_and_all_of_the_test_part_judged():
    splits = {"test": split(50, "test"), "train": split(1000, "train")}
    judged, looked = parts(splits, judged="test")
    assert (judged.data.split, looked.data.split) == ("test", "train")
    assert len(judged.indices) == 50 and len(looked.indices) == CALIBRATION_SAMPLES
    training = _training(looked, judged, limit=None)
    assert training.data.split == "train" and len(training.indices) == 1000
    assert _training(looked, judged, limit=5) is None


def test_the_user_says_where_to_look():
    splits = {"test": split(50, "test"), "train": split(100, "train"), "spare": split(100, "spare")}
    assert parts(splits, judged="test", on="spare")[1].data.split == "spare"
    assert len(parts(splits, judged="test", on="spare", limit=7)[1].indices) == 7
    with pytest.raises(Unavailable, match=says("data-no-split", asked="gone")):
        parts(splits, judged="test", on="gone")


@pytest.mark.parametrize("name", ["test", "train", "all"])
def test_looking_where_is_judged_parts_the_samples(name):
    splits = {name: split(100, name), "other": split(100, "other")}
    judged, looked = parts(splits, judged=name, on=name)
    assert looked.data is judged.data and not set(judged.indices) & set(looked.indices)
    assert len(judged.indices) == 75 and len(looked.indices) == 25
    assert _training(looked, judged, limit=None) is None  # the rest of it is judged


@pytest.mark.parametrize("limit", [0, -5])
@pytest.mark.parametrize("names", [("all",), ("test", "train")])
def test_looking_at_fewer_than_one_makes_no_sense(names, limit):
    with pytest.raises(BadInput, match=f"--calibration-limit must be at least 1, not {limit}"):
        parts({name: split(100, name) for name in names}, limit=limit)


@pytest.mark.parametrize("count", [1, 3, 15])
def test_too_few_samples_for_both_are_refused(count):
    with pytest.raises(BadInput, match=says("samples-too-few-judge-calibrate", size=count, name="rows")) as caught:
        parts({"all": split(count)})
    assert "16" in caught.value.advice


def test_few_are_enough_where_few_are_asked_for():
    judged, looked = parts({"all": split(8)}, limit=2)
    assert (len(judged.indices), len(looked.indices)) == (6, 2)


def test_what_a_limit_leaves_over_is_looked_at_first():
    judged, looked = parts({"all": split(1000)}, indices=range(100))
    assert len(judged.indices) == 100 and len(looked.indices) == CALIBRATION_SAMPLES and min(looked.indices) >= 100


# --- search settings ---


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "d.npz"
    np.savez(path, x_train=rows(300), y_train=[0] * 300, x_test=rows(40, seed=1), y_test=[1] * 40)
    return DataOptions(source=str(path), task="classification")


@pytest.fixture
def model(tmp_path):
    return str(write_fake_model(tmp_path / "net.fake", graph=NET))


def settings(model, wish=None, *, limits=None, **settings):
    wanted = SearchSettings(model=model, limits=limits or Limits(), **settings)
    return build_settings(wanted, folder=None, options=wish)


def test_a_commission_judges_on_test_and_looks_at_train(model, archive):
    found = settings(model, archive)
    assert (found.judged.data.split, found.calibration.data.split) == ("test", "train")
    assert (found.format, found.task.name, str(found.folder)) == ("fake", "classification", "fake-optimized")
    assert [bound.words for bound in found.bounds] == ["--max-accuracy-drop 1pt"]


@pytest.mark.parametrize(
    ("there", "model", "folder"),
    [
        (["net.onnx"], "net.onnx", "net-optimized"),
        (["net.tflite"], "net.tflite", "net-optimized"),
        (["net.onnx", "net.tflite"], "net.onnx", "net-optimized"),
        (["net.onnx", "net.tflite"], "net.tflite", "net-tflite-optimized"),
        (["net.tflite", "net.py"], "net.py:build", "net-py-optimized"),
        (["net.py"], "net.py:build", "net-optimized"),
        ([], "package.net:build", "net-optimized"),
    ],
)
def test_models_that_share_a_name_have_a_folder_each(tmp_path, there, model, folder):
    """clothes.onnx and clothes.tflite left their files in one folder."""
    for name in there:
        (tmp_path / name).touch()
    place = f"{tmp_path}/{model}" if there else model
    assert str(usual_folder(place, "")) == folder
    assert str(usual_folder(place, "decode")) == folder.replace("net", "net-decode")


def test_without_data_there_is_nothing_to_judge_on(model):
    found = settings(model, limits=Limits(latency_s=0.01))
    assert (found.judged, found.calibration, found.task) == (None, None, None)
    assert [bound.metric for bound in found.bounds] == ["latency"]


@pytest.mark.parametrize("budget", [0.0, -1.0, math.nan, math.inf])
def test_a_budget_that_makes_no_sense_is_refused(model, budget):
    with pytest.raises(BadInput, match=says("time-budget-must-more-than")):
        settings(model, budget_s=budget)


def test_a_pass_that_needs_samples_needs_data(model):
    with pytest.raises(Unavailable, match=says("needs-samples")):
        settings(model, passes=("ort-static",))
    with pytest.raises(Unavailable, match=says("unknown-noun-name-r", noun="pass", name="ort-statik")):
        settings(model, passes=("ort-statik",))


def test_a_model_that_is_not_there_is_told(tmp_path):
    with pytest.raises(BadModel):
        settings(str(tmp_path / "none.onnx"))


def test_without_labels_the_original_is_right(model, tmp_path):
    path = tmp_path / "u.npz"
    np.savez(path, x=rows(100))
    found = settings(model, DataOptions(source=str(path)))
    assert found.task is None and not found.judged.data.labelled
    # What the bound is about depends on what the outputs are, which is not known before the original ran.
    assert found.bounds == () and found.limits == Limits()
    with pytest.raises(BadInput, match=says("max-accuracy-drop-not-valid", text="-1")):
        settings(model, DataOptions(source=str(path)), limits=Limits(accuracy_drop="-1"))
    with pytest.raises(BadInput, match=says("min-snr-must-0-db", limit="nan")):
        settings(model, DataOptions(source=str(path)), limits=Limits(least_snr_db=math.nan))


def test_the_bound_without_labels_follows_from_what_the_outputs_are():
    words = {
        headline: [bound.words for bound in make_bounds(Limits(), headline=headline)]
        for headline in ("agreement_top1", "agreement_boxes", "output_snr_worst")
    }
    assert words == {
        "agreement_top1": ["--max-accuracy-drop 1pt"],
        "agreement_boxes": ["--max-accuracy-drop 10pt"],
        "output_snr_worst": ["--min-snr 20dB"],
    }
    (found,) = make_bounds(Limits(least_snr_db=35.0), headline="output_snr_worst")
    assert found == Bound(metric="output_snr_worst", limit=35.0, words="--min-snr 35dB", upper=False)
    *_, found = make_bounds(Limits(least_snr_db=35.0), headline="agreement_top1")
    assert found.metric == "output_snr_worst"
    for limits in (Limits(accuracy_drop="1pt"), Limits(least_accuracy=0.9)):
        with pytest.raises(BadInput, match=says("there-no-accuracy-without-labels")) as caught:
            make_bounds(limits, headline="output_snr_worst")
        assert wording("min-snr-20db-task-classification") in caught.value.advice
    with pytest.raises(BadInput, match=says("min-snr-db-applies-outputs")):
        make_bounds(Limits(least_snr_db=20.0), headline=TOP1)
