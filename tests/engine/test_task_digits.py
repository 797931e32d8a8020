"""The bundled digits model, its outputs judged: scikit-learn's numbers on the same outputs, exactly."""

from importlib.resources import files

import numpy as np
import pytest
from sklearn import metrics

from edgewise.evaluating.scores import score
from edgewise.evaluating.tasks.classification import Classification
from task_setting import context, judge_all


@pytest.mark.engine
def test_digits_are_judged_as_scikit_learn_does():
    engine = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    folder = files("edgewise.data")
    stored = np.load(str(folder / "digits_test.npz"), allow_pickle=False)
    options = engine.SessionOptions()
    options.intra_op_num_threads = 1
    session = engine.InferenceSession(str(folder / "digits_cnn.onnx"), options, providers=["CPUExecutionProvider"])
    (logits,) = session.run(None, {session.get_inputs()[0].name: stored["x"].astype(np.float32) / 255.0})
    scorer = Classification().prepare(context((1, 10)))
    found = {each.metric: each for each in score(scorer.tabulate(judge_all(scorer, logits, stored["y"])))}
    answers = logits.argmax(1)
    assert found["accuracy_top1"].value == metrics.accuracy_score(stored["y"], answers) == 538 / 540
    assert found["f1_macro"].value == pytest.approx(metrics.f1_score(stored["y"], answers, average="macro"), abs=1e-12)
    assert found["accuracy_top1"].low < 538 / 540 < found["accuracy_top1"].high
