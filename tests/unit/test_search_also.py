"""Searches that start from several files of one network."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

import fake_passes as scripted
from edgewise.errors import BadInput, BadModel, Unavailable
from edgewise.evaluating.calibrated import read_calibrated
from edgewise.model.identity import open_model
from messages import says
from search_bench import MS, original
from small_selections import NET, Rows, rows, selection

pytestmark = pytest.mark.usefixtures("few_turns")


def twin(bench, name="twin.fake", **script):
    """The network of the original in another file."""
    folder = bench.folder / Path(name).stem
    folder.mkdir()
    return original(folder, **script).rename(bench.folder / name)


def provenance_of(result):
    return json.loads(Path(result.files["provenance"]).read_text())


@pytest.mark.slow
def test_the_other_file_may_be_the_best_as_it_is(bench):
    other = twin(bench, latency_ns=[MS])
    result = bench.search(scripted.Same, also=(str(other),), calibration=selection(Rows(rows(20), [0] * 20)))
    assert provenance_of(result)["calibration"]["size"] == 20  # no pass of the chosen file saw any of them
    assert "samples" not in provenance_of(result)["calibration"]
    assert result.chosen == "twin.fake @ fake"
    chosen = result.candidate(result.chosen)
    assert chosen.passes == () and chosen.why.startswith("faster: 4.0")
    assert provenance_of(result)["parent"] == {
        "name": "twin.fake", "sha256": chosen.model.sha256, "format": "fake"
    }  # fmt: skip
    # No pass made it, so that there is nothing to make again: it is compared with the original.
    words = shlex.split(result.command)
    assert words[:2] == ["edgewise", "compare"] and words[3].startswith(str(other))
    assert result.root_of(result.chosen).sha256 == chosen.model.sha256 != result.baseline.model.sha256


@pytest.mark.slow
def test_passes_start_from_every_file_with_the_samples_prepared_for_it(bench):
    other = twin(bench, latency_ns=[2 * MS])
    calibration = selection(Rows(rows(20), [0] * 20, split="train"))
    result = bench.search(scripted.Looking, also=(str(other),), calibration=calibration)
    assert result.chosen == "twin.fake + looking @ fake"
    assert {one.id: one.passes[0].notes[0] for one in result.candidates if one.passes} == {
        "looking @ fake": "looked at calibration.npz",
        "twin.fake + looking @ fake": "looked at calibration-2.npz",
    }
    provenance = provenance_of(result)
    assert provenance["parent"]["name"] == "twin.fake"
    seen = [calibration.data.read(index).digest() for index in calibration.indices]
    assert provenance["calibration"]["samples"] == [digest[:16] for digest in seen]
    assert read_calibrated(open_model(result.files["chosen"]).ref) == {digest[:16] for digest in seen}
    words = shlex.split(result.command)
    assert words[words.index("--also") + 1] == str(other) and words[words.index("--passes") + 1] == "looking"
    runs = {run.job.model.sha256: run.artifacts[-1] for run in bench.saved if run.artifacts}
    parents = {one.id: runs[one.model.sha256]["parent"] for one in result.candidates}
    sha = {one.id: one.model.sha256 for one in (result.baseline, *result.candidates)}
    assert parents == {
        "twin.fake @ fake": sha["twin.fake @ fake"],
        "looking @ fake": sha["original"],
        "twin.fake + looking @ fake": sha["twin.fake @ fake"],
    }


@pytest.mark.slow
def test_a_layer_is_spared_in_the_file_that_has_it(bench):
    network = {"operators": [{**NET["operators"][0], "name": "blend"}]}
    other = twin(bench, graph=network)
    result = bench.search(scripted.Faster, also=(str(other),), keep_float=("blend",))
    assert {one.id: one.passes[0].keep_float for one in result.candidates if one.passes} == {
        "faster @ fake": (),
        "twin.fake + faster @ fake": ("blend",),
    }
    with pytest.raises(BadInput, match=says("no-layer-called", models="net.fake or twin.fake", name="blind")):
        bench.search(also=(str(other),), keep_float=("blind",))


@pytest.mark.slow
def test_a_file_that_answers_otherwise_is_no_base_and_says_why(bench):
    other = twin(bench, latency_ns=[MS], outputs_value=0.0)
    result = bench.search(scripted.Slower, also=(str(other),))
    assert result.chosen is None
    found = {one.id: one.why for one in result.candidates}
    assert found["twin.fake @ fake"].startswith("Top-1 accuracy −80.00 pt")
    with pytest.raises(KeyError):
        result.root_of("nobody")


@pytest.mark.slow
def test_files_of_one_name_are_told_apart(bench):
    first, second = (twin(bench, f"{name}.fake", import_ns=index) for index, name in enumerate("ab", start=1))
    for folder, file in (("one", first), ("two", second)):
        (bench.folder / folder).mkdir()
        file.rename(bench.folder / folder / "net.fake")
    paths = [str(bench.folder / folder / "net.fake") for folder in ("one", "two")]
    result = bench.search(scripted.Failing, also=tuple(paths))
    assert {"net.fake @ fake", f"{paths[1]} @ fake"} <= {one.id for one in result.candidates}


def test_files_that_make_no_sense_are_refused(bench):
    bench.install(scripted.Same)
    same = str(original(bench.folder).rename(bench.folder / "same.fake"))
    with pytest.raises(BadInput, match=says("also-same-file-another-one")):
        bench.search(also=(same,))
    with pytest.raises(BadInput, match=says("also-factory-also-takes-files")):
        bench.search(also=("package.module:build",))
    with pytest.raises(BadModel):
        bench.search(also=(str(bench.folder / "nowhere.onnx"),))
    (bench.folder / "broken.fake").write_text("edgewise-fake 1\n{")
    with pytest.raises(BadModel):
        bench.search(also=(str(bench.folder / "broken.fake"),))


def test_a_file_that_no_engine_reads_is_refused(bench, tmp_path):
    from tiny_models import write_tiny_onnx

    pytest.importorskip("onnx", reason="onnx is not installed")
    bench.install(scripted.Same)
    with pytest.raises(Unavailable, match=says("no-selected-engine-reads-in-pipeline")):
        bench.search(also=(str(write_tiny_onnx(tmp_path / "m.onnx")),))
