"""Files with several signatures: every number is of one, which can be chosen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import edgewise
from edgewise.comparing.jobs import JobSettings, make_job, make_job_like
from edgewise.converting.losses import find_losses
from edgewise.errors import BadInput, Unavailable
from edgewise.model.identity import open_model
from edgewise.run.run_builder import _load_options
from edgewise.runtime.base import states_of
from edgewise.runtime.litert import LiteRt
from litert_networks import write_subgraphs
from messages import says, wording

pytestmark = pytest.mark.engine
RANDOM = np.random.default_rng(7)
ENCODE, DECODE, LAST = (RANDOM.standard_normal(shape).astype(np.float32) for shape in ((16, 64), (64, 16), (64, 64)))


@pytest.fixture(scope="module")
def codec(tmp_path_factory) -> Path:
    """``encode``: one layer of 64 → 16. ``decode``: layers of 16 → 64 → 64, to which it adds its last answer."""

    def build(schema, graph, tensor, step):
        def layer(place, x, name, weights):
            weight = tensor(place, f"{name}/w", weights.shape, weights)
            y = tensor(place, name, (1, len(weights)))
            step(place, "FULLY_CONNECTED", [x, weight, -1], [y], schema.FullyConnectedOptionsT())
            return y

        first, second = graph(), graph()
        x = tensor(first, "frames", (1, 64))
        first.inputs, first.outputs = [x], [layer(first, x, "codes", ENCODE)]
        z = tensor(second, "codes", (1, 16))
        second.inputs, second.outputs = [z], [layer(second, layer(second, z, "hidden", DECODE), "frames", LAST)]

    path = tmp_path_factory.mktemp("codec") / "codec.tflite"
    return write_subgraphs(path, build, signatures={"encode": 0, "decode": 1})


@pytest.mark.parametrize(("given", "name", "macs", "layers"), [("", "encode", 1024, 1), ("decode", "decode", 5120, 2)])
def test_totals_are_of_one_signature(codec, given, name, macs, layers):
    document = edgewise.inspect(codec, signature=given).to_dict()
    totals = document["totals"]
    assert (totals["macs"], totals["parameters"], totals["weight_bytes"]) == (macs, macs, 4 * macs)
    assert (totals["layers"], document["model"]["signature"]) == (layers, name)
    assert [each["name"] for each in document["model"]["signatures"]["decode"]["inputs"]] == ["codes"]
    said = ["signature: encode, the default; the file also has decode"]
    assert document["model"]["assumed"] == ([] if given else said)


def test_an_estimate_says_of_which_signature_it_is(codec):
    found = edgewise.estimate(codec, "esp32-c3-devkitm-1")
    assert found.measurement("parameters_size").value == 4 * 1024
    assert found.conditions[0] == "Only the signature encode is estimated; the file also has decode."


def test_a_signature_has_an_identity_of_its_own(codec):
    default, named, other = open_model(codec), open_model(codec, "encode"), open_model(codec, "decode")
    assert default == named and default.ref.sha256 != other.ref.sha256
    assert (default.ref.name, other.ref.name) == ("codec.tflite:encode", "codec.tflite:decode")
    assert default.ref.file_name == other.ref.file_name == "codec.tflite"
    assert [spec.name for spec in other.signature.inputs] == ["codes"]
    assert open_model(other.ref) == other
    assert other.ref.signature_words == "decode; the file also has encode (--signature encode)"


def test_an_unknown_name_lists_the_names(codec, tmp_path):
    with pytest.raises(BadInput, match=says("no-signature-in-identity", wanted="nope")) as error:
        edgewise.bench(codec, signatures=["nope"])
    assert error.value.advice == wording("signatures-known", known="encode, decode")
    alone = tmp_path / "alone.tflite"

    def build(schema, graph, tensor, step):
        place = graph()
        x, y = tensor(place, "x", (1, 4)), tensor(place, "y", (1, 4))
        step(place, "NEG", [x], [y], schema.NegOptionsT())
        place.inputs, place.outputs = [x], [y]

    with pytest.raises(BadInput, match=says("no-signature-in-identity", wanted="decode")):
        edgewise.inspect(write_subgraphs(alone, build), signature="decode")


@pytest.mark.parametrize("provider", ["interpreter", "interpreter-noxnnpack", "compiled"])
@pytest.mark.parametrize(("name", "weights"), [("encode", [ENCODE]), ("decode", [DECODE, LAST])])
def test_the_engine_runs_the_chosen_signature(codec, provider, name, weights):
    job = make_job(codec, JobSettings(runtime=f"litert/{provider}", signature=name)).job
    session = LiteRt().load(codec, _load_options(job))
    x = np.linspace(-1, 1, weights[0].shape[1], dtype=np.float32)[None]
    session.bind([x])
    session.invoke()
    for each in weights:
        x = x @ each.T
    np.testing.assert_allclose(session.read_outputs()[0], x, rtol=1e-4, atol=1e-4)
    assert states_of(session) == ()


def test_an_engine_without_signatures_is_left_out(codec, tmp_path):
    with pytest.raises(Unavailable, match=says("none-these-runtimes-can-run", signature="decode")) as error:
        edgewise.bench(codec, runtimes=["openvino"], signatures=["decode"])
    assert error.value.advice == "use runtimes=['litert']"


def test_a_job_like_another_runs_its_signature(codec):
    job = make_job(codec, JobSettings(runtime="litert", signature="decode")).job
    assert make_job_like(codec, job, JobSettings()).job.key == job.key
    first = make_job_like(codec, job, JobSettings(signature="encode")).job
    assert (first.model.name, first.key != job.key) == ("codec.tflite:encode", True)


def test_a_run_names_its_signature_and_the_others(codec, tmp_path):
    runs = edgewise.bench(
        codec, runtimes=["litert"], signatures=["encode", "decode"], sessions=1, iterations=20,
        store=str(tmp_path / "runs.db"),
    )  # fmt: skip
    assert [run.job.model.name for run in runs] == ["codec.tflite:encode", "codec.tflite:decode"]
    assert [run.value("macs") for run in runs] == [1024, 5120]
    assert [run.job.model.signatures for run in runs] == [("encode", "decode")] * 2
    stored = [edgewise.open_store(str(tmp_path / "runs.db")).get(run.id).job for run in runs]
    assert stored == [run.job for run in runs]


def test_a_conversion_names_the_signature_that_it_leaves_out(codec):
    assert wording("only-signature-converted-file-also", own="encode", others="decode") in find_losses(codec, codec)
