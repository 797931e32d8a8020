"""Whole profiles of real models on real engines: nothing is lost, nothing is counted twice, nothing is impossible.

No time is compared with a number of seconds. Layers and latency are measured one after the other; where the machine
was busy with other work in between, both are measured again. Whether the latency is explained can't be judged where it
was busy all the time: such a test is skipped, once everything else was checked.
"""

from pathlib import Path

import pytest

import edgewise
import edgewise.data
from edgewise.model.identity import read_graph
from edgewise.profiling.conservation import TOLERANCE
from edgewise.profiling.layers import NAMELESS
from edgewise.run import peaks
from edgewise.runtime.base import runtimes

TINY = ("ad01_int8", "kws_ref_model", "pretrainedResnet_quant", "str_ww_ref_model", "vww_96_float", "vww_96_int8")
LIGHT = ("bvlc_alexnet", "densenet121", "inception_v2", "resnet50", "shufflenet", "squeezenet")
"""No two of one structure: VGG-19 and ZFNet have AlexNet's operators, and Inception v1 has its and v2's."""
QUICK = ("pretrainedResnet_quant",)
"""Models that are profiled on every engine in the README's line; the others are left to the long tests."""
LEAST_ATTRIBUTED = 0.99
ATTEMPTS = 2
MOST_OF_PEAK = 3.0
"""How far a layer may be above the fastest matrix product that was seen here before it must be a mistake: engines save
multiplications (Winograd's F(2×2, 3×3) 2.25 of them), and a product of one shape need not be the fastest there is."""
CLOCK_S = 1e-6
"""What the coarsest of the engines' clocks can tell."""

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def measure_peaks(tmp_path_factory):
    """Measures this machine's peaks, whatever was measured before."""
    find_peaks = peaks.find_peaks
    return lambda: find_peaks(("float32", "int8"), 1, cache=tmp_path_factory.mktemp("peaks") / "peaks.json")[0]


@pytest.fixture(scope="module")
def measured_peaks(measure_peaks):
    """This machine's peaks, measured once."""
    return measure_peaks()


@pytest.fixture(scope="module")
def fastest(measure_peaks, measured_peaks):
    """The fastest matrix product seen here, ops/s; where a layer seems too fast for it, peaks are measured again.

    The machine may have been busy when they were measured, and less so when the layer was.
    """
    seen = measured_peaks

    def find(rate):
        nonlocal seen
        for _ in range(ATTEMPTS):
            if rate <= MOST_OF_PEAK * fastest_of(seen):
                break
            seen = max(seen, measure_peaks(), key=fastest_of)
        return fastest_of(seen)

    return find


def fastest_of(measured):
    return max(peak.value for peak in measured if peak.kind == "compute")


@pytest.fixture
def profile(monkeypatch, measured_peaks):
    """Profiles one model on one runtime, with one process for the latency and one for the layers."""
    monkeypatch.setattr("edgewise.run.peaks.find_peaks", lambda dtypes, threads, **_: (measured_peaks, None))

    def profile(path, runtime):
        if not runtimes().get(runtime).availability():
            pytest.skip(f"{runtime}: {runtimes().get(runtime).availability().reason}")
        for _ in range(ATTEMPTS):
            (run,) = edgewise.profile(path, runtimes=[runtime], sessions=1)
            assert run.profile is not None, run.profile_absent_because
            if run.profile.attributed >= LEAST_ATTRIBUTED and abs(run.profile.conservation - 1) <= TOLERANCE:
                break
        return run

    return profile


def check(run, fastest):
    """What holds of every profile."""
    graph = read_graph(Path(run.job.model.path), shapes={spec.name: spec.shape for spec in run.job.workload.inputs})
    check_operators(run, graph)
    check_sums(run)
    check_rates(run, fastest)
    check_attributed(run)


def check_rates(run, fastest):
    """No layer is so fast that the time must be another's."""
    for layer in run.layers:
        if layer.kind == "operator" and layer.ops:
            least_rate = layer.ops / max(layer.high or layer.time, CLOCK_S)
            assert least_rate <= MOST_OF_PEAK * fastest(least_rate), f"{layer.name} can't reach {least_rate:.3g} ops/s"


def check_attributed(run):
    """What has no name is shown, and on a quiet machine the parts are the whole within 5 %."""
    profile = run.profile
    if profile.attributed < LEAST_ATTRIBUTED:
        gap = (1 - profile.attributed) * profile.latency
        assert gap == pytest.approx(profile.unattributed, rel=1e-6)
    if abs(profile.conservation - 1) > TOLERANCE:
        # Profiled and ordinary inferences saw another machine, twice over: a reader must have been told.
        assert any("the parts add up to" in note for note in profile.notes)
        pytest.skip(f"the parts are {profile.conservation:.1%} of the latency: {'; '.join(profile.notes)[-200:]}")


def check_operators(run, graph):
    """Every operator is in one row, and none that computes from what is fed has vanished."""
    rows = [index for layer in run.layers for index in layer.operators]
    assert sorted(rows) == list(range(len(graph.operators)))
    assert all(layer.kind != "overhead" for layer in run.layers if layer.operators)
    fed = set(graph.inputs)
    for operator in graph.operators:
        if fed.intersection(operator.inputs):
            fed.update(operator.outputs)
    executed = {index for layer in run.layers if layer.kind == "operator" for index in layer.operators}
    gone = [
        layer.name
        for layer in run.layers
        if layer.kind in ("eliminated", "unmatched")
        and layer.macs != 0
        and fed.intersection(each.name for each in layer.inputs)
        and not has_twin(graph, layer.operators[0], executed)
    ]
    assert gone == []
    assert all(
        layer.time is None and layer.time_absent_because
        for layer in run.layers
        if layer.kind in ("eliminated", "unmatched")
    )


def has_twin(graph, index, executed):
    """Whether an operator that is executed does the same to the same, however far back: engines compute such ones once.

    The weights of the light models are all of one value, so that those of one shape are the same.
    """
    meaning = {name: ("input", name) for name in graph.inputs}
    known = {}

    def number(thing):
        return known.setdefault(repr(thing), len(known))

    does = []
    for operator in graph.operators:
        taken = [
            number(meaning[name]) if name in meaning else (graph.tensors[name].shape, graph.tensors[name].dtype)
            for name in operator.inputs
            if name
        ]
        does.append(number((operator.op, dict(operator.attributes), taken)))
        meaning |= {name: ("made", does[-1], at) for at, name in enumerate(operator.outputs) if name}
    return any(does[other] == does[index] for other in executed)


def check_sums(run):
    """Layers, named overheads and what is unattributed are the latency, whatever was measured."""
    profile = run.profile
    operators = sum(layer.time for layer in run.layers if layer.kind == "operator")
    overheads = sum(layer.time for layer in run.layers if layer.kind == "overhead" and layer.op != NAMELESS)
    nameless = sum(layer.time for layer in run.layers if layer.op == NAMELESS)
    assert operators == pytest.approx(profile.operators_time, rel=1e-9)
    assert overheads == pytest.approx(profile.overheads_time, rel=1e-9, abs=1e-15)
    assert operators + overheads + profile.unattributed == pytest.approx(profile.latency, rel=1e-9)
    assert profile.conservation == pytest.approx((operators + overheads) / profile.latency, rel=1e-9)
    assert nameless <= (1 - LEAST_ATTRIBUTED) * profile.latency
    assert profile.findings == () or all(each.saving > 0 and each.evidence for each in profile.findings)


@pytest.mark.parametrize(
    ("runtime", "file", "rows"),
    [
        ("onnxruntime", "digits_cnn.onnx", 6),
        ("openvino", "digits_cnn.onnx", 6),
        pytest.param("openvino", "digits_cnn.tflite", 6, marks=pytest.mark.long),
        ("litert", "digits_cnn.tflite", 7),
    ],
)
def test_digits(profile, fastest, runtime, file, rows):
    run = profile(edgewise.data.path(file), runtime)
    check(run, fastest)
    # Five convolutions with their activations, a matrix product and a pooling are steps of their own in every engine.
    assert sum(1 for layer in run.layers if layer.macs and layer.kind == "operator") == 6
    assert sum(1 for layer in run.layers if layer.kind == "operator") >= rows
    assert {layer.supported for layer in run.layers} == {None}
    assert "provider-fallback" not in [finding.code for finding in run.profile.findings]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "runtime"),
    [
        pytest.param(name, runtime, marks=() if name in QUICK else pytest.mark.long)
        for name in TINY
        for runtime in ("litert", "openvino")
    ],
)
def test_mlperf_tiny(profile, fastest, shared_models, name, runtime):
    check(profile(shared_models / f"{name}.tflite", runtime), fastest)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "runtime"),
    [
        pytest.param(name, runtime, marks=() if name in QUICK else pytest.mark.long)
        for name, runtime in [
            *((name, "onnxruntime") for name in LIGHT),
            *((name, "openvino") for name in ("resnet50", "shufflenet", "squeezenet")),
        ]
    ],
)
def test_light_models(profile, fastest, name, runtime):
    onnx = pytest.importorskip("onnx")
    path = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / f"light_{name}.onnx"
    assert path.exists()
    check(profile(path, runtime), fastest)
