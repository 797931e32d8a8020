"""Which layer of a real network stays float, by profiles of ONNX Runtime: the one that is slow in int8."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgewise import data
from edgewise.optimizing import placement
from edgewise.optimizing.base import PassTask, passes
from edgewise.optimizing.calibration import write_calibration
from edgewise.optimizing.placement import find_placement, profile_both
from edgewise.optimizing.planning import facts_of
from edgewise.profiling.layer_matching import pair_layers
from edgewise.profiling.quantisation import is_integer
from edgewise.record import Scenario, Stopping, TargetSpec
from edgewise.run.plan import Axes, make_plan

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

MODEL = data.path("digits_cnn.onnx")


def quantize(folder, samples, *keep_float):
    folder.mkdir()
    one, facts = passes().get("ort-static"), facts_of(Path(MODEL))
    settings = one.recipes(facts)[0].settings
    return one.apply(PassTask(
        model=str(MODEL), format="onnx", settings=settings, folder=folder, calibration=samples, keep_float=keep_float
    )).model  # fmt: skip


def float_convolutions(path):
    model = onnx.load(str(path))
    weights = {tensor.name for tensor in model.graph.initializer}
    return [node.name for node in model.graph.node if node.op_type == "Conv" and node.input[1] in weights]


@pytest.fixture(scope="module")
def profiles(tmp_path_factory):
    """Runs of the float file and of its int8 file, and the samples."""
    folder = tmp_path_factory.mktemp("placement")
    rows = np.load(data.path("digits_calibration.npz"))["x"][:8]
    samples = folder / "samples.npz"
    facts = facts_of(Path(MODEL))
    shape = [size if isinstance(size, int) else 1 for size in facts.signature.inputs[0].shape]
    write_calibration(samples, [[row.reshape(shape).astype(np.float32) / 255] for row in rows], None)
    plan = make_plan(
        [str(MODEL), str(quantize(folder / "int8", samples))], axes=Axes(runtimes=("onnxruntime",), threads=(1,)),
        scenario=Scenario(), stopping=Stopping(), target=TargetSpec(),
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(placement, "_SESSIONS", 1)
        patch.setattr(placement, "_SESSION_S", 0.1)  # real time: how long it measures, no limit
        patch.setattr(placement, "MOST_S", 600.0)
        found = profile_both(*plan.jobs, left=600.0)
    assert found is not None
    return *found, samples, folder


def test_the_layer_that_is_slow_in_int8_is_float_in_the_file_and_the_others_are_not(profiles):
    before, after, samples, folder = profiles
    slow, *others = [
        next(layer for layer in pair.after if is_integer(layer))
        for pair in sorted(pair_layers(before, after), key=lambda pair: pair.name)
        if pair.op == "Conv" and any(map(is_integer, pair.after))
    ]
    assert len(others) >= 2

    def planted(layer):
        """Times in place of those that this machine has: int8 is ten times as fast, but one layer is far slower."""
        micros = 1e6 if layer.index == slow.index else 10.0 if is_integer(layer) else 1.0
        return replace(layer, time=micros * 1e-6, low=micros * 1e-6, high=micros * 1e-6) if layer.time else layer

    quick = replace(after, layers=tuple(map(planted, after.layers)))
    usual = tuple(
        replace(layer, time=100e-6, low=100e-6, high=100e-6) if layer.time else layer for layer in before.layers
    )
    found = find_placement(replace(before, layers=usual), quick)
    assert slow.name in found.layers and not {other.name for other in others} & set(found.layers)
    without = float_convolutions(after.job.model.path)
    mixed = float_convolutions(quantize(folder / "mixed", samples, *found.layers))
    assert set(mixed) - set(without) == {slow.name}
