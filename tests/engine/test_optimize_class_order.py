"""optimize stops on a part of the data where the classes are in another order than the outputs, unless it was given."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgewise import data
from edgewise.errors import BadInput
from edgewise.evaluating.data_options import DataOptions
from edgewise.model.identity import open_model
from edgewise.optimizing.accuracy import PART, AccuracyChecker
from edgewise.optimizing.candidate_checks import job_of
from edgewise.optimizing.search_settings import SearchSettings, build_settings
from edgewise.record import RuntimeSpec
from edgewise.run.run_builder import METERS_OFF, RunBuilder
from messages import says

pytestmark = pytest.mark.engine
OUTPUTS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
SORTED = tuple(sorted(OUTPUTS))


def checker_of(folder: Path, *, copies: int, classes: tuple[str, ...] = ()) -> AccuracyChecker:
    """Return the check of the digits network on `copies` of its data, whose classes are in the order of their names."""
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    with np.load(data.path("digits_test.npz")) as test:
        x = np.concatenate([test["x"]] * copies)
        labels = np.array([SORTED.index(OUTPUTS[label]) for label in test["y"]] * copies)
    np.savez(folder / "named.npz", x=x, y=labels, classes=np.array(SORTED))
    wanted = SearchSettings(model=str(data.path("digits_cnn.onnx")), runtimes=("onnxruntime",))
    options = DataOptions(
        source=str(folder / "named.npz"), task="classification", prepare=("scale=1/255",), classes=classes,
        file=plain_instructions(folder),
    )  # fmt: skip
    settings = build_settings(wanted, folder=folder / "out", options=options)
    job = job_of(open_model(wanted.model).ref, RuntimeSpec(name="onnxruntime"), settings)
    return AccuracyChecker(settings, job, builder=RunBuilder(save=lambda run: None, sensors=METERS_OFF))


def plain_instructions(folder: Path) -> Path:
    """Write instructions without the names of the outputs, which the bundled ones have."""
    (folder / "plain.yaml").write_text("edgewise: 1\n")
    return folder / "plain.yaml"


def test_an_order_that_the_answers_contradict_ends_the_search_on_a_part(tmp_path):
    checker = checker_of(tmp_path, copies=2)
    order = f"--classes {','.join(OUTPUTS)}"
    with pytest.raises(BadInput, match=says("original-answers-samples", n=PART)) as raised:
        checker.begin()
    assert f"in the order {', '.join(OUTPUTS)}: likely the order is wrong" in raised.value.message
    assert f"name the classes in this order: {order}; to keep" in raised.value.advice
    assert raised.value.advice.endswith(f"--classes {','.join(SORTED)}")
    assert checker.original is None


@pytest.mark.parametrize(("classes", "least", "most"), [(OUTPUTS, 0.98, 1.0), (SORTED, 0.0, 0.2)])
def test_a_given_order_is_kept_and_one_against_the_answers_is_doubted(tmp_path, classes, least, most):
    checker = checker_of(tmp_path, copies=1, classes=classes)
    assert not checker.begin().broken
    assert least <= checker.original.metrics["accuracy_top1"].value <= most
