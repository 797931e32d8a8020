"""The ranking of image classifiers within one CPU is that of the machine without limits, with one thread each."""

from __future__ import annotations

import json
import sys
from itertools import combinations
from pathlib import Path

import pytest

from edgewise.cli.main import run
from edgewise.errors import ExitCode

pytestmark = [pytest.mark.engine, pytest.mark.long]
onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
MODELS = ("shufflenet", "inception_v1", "inception_v2", "densenet121", "resnet50", "zfnet512")
SCRIPT = """
import sys
import numpy as np
import onnxruntime as ort

options = ort.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
options.log_severity_level = 3
session = ort.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
feeds = {one.name: np.ones(one.shape, np.float32) for one in session.get_inputs()}
for _ in range(8):
    session.run(None, feeds)
"""


def intervals(capfd, metric_ids, *limits):
    """Metric → model → its value's 95 % interval, over three executions of each model in random order."""
    models = ",".join(str(LIGHT / f"light_{name}.onnx") for name in MODELS)
    words = ["exec", *limits, "--no-store", "-q", "--json", "--sample", "0s", "--repeat", "3", "-m", models]
    assert run([*words, "--", sys.executable, "infer.py", "{model}"]) == ExitCode.DONE
    found = {metric: {} for metric in metric_ids}
    for record in json.loads(capfd.readouterr().out)["runs"]:
        for row in record["measurements"]:
            if row["metric"] in found:
                found[row["metric"]][record["job"]["model"]["name"]] = (row["low"], row["high"])
    return found


def order(rows):
    """The pairs that can be told apart, the faster one first."""
    found = set()
    for one, other in combinations(rows, 2):
        if rows[one][1] < rows[other][0]:
            found.add((one, other))
        elif rows[other][1] < rows[one][0]:
            found.add((other, one))
    return found


def test_the_ranking_of_image_classifiers_within_one_cpu_is_that_without_limits(capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("infer.py").write_text(SCRIPT)
    metrics = ("total_time", "cpu_time")
    free, limited = intervals(capfd, metrics), intervals(capfd, metrics, "--cpus", "1")
    for metric in metrics:
        before, after = order(free[metric]), order(limited[metric])
        assert not before & {(slow, fast) for fast, slow in after}
    # The processor time does not depend on what else the machine does, so most pairs differ in it.
    told = order(free["cpu_time"]) & order(limited["cpu_time"])
    assert len(told) >= len(MODELS)
