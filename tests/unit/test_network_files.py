"""Files of one network: one table, outputs held against the original, the path in the record, engines without a file."""

import json
from dataclasses import replace

import pytest

from edgewise.converting.base import Converted
from edgewise.errors import BadInput, RunFailed, Unavailable
from edgewise.model.identity import open_model
from edgewise.record import Origin, Scenario, Stopping, TargetSpec
from edgewise.registry import Availability
from edgewise.report.bench.document import bench_document
from edgewise.report.bench.ranking import comparable_groups
from edgewise.report.bench.recommendation import recommendation
from edgewise.report.document.text import to_text
from edgewise.report.runs.document import run_document
from edgewise.run.dispatch import Dispatcher
from edgewise.run.plan import Axes, NetworkFile, make_plan
from edgewise.run.run_builder import METERS_OFF
from edgewise.runtime.base import runtimes
from edgewise.store.codec import from_document, to_document
from edgewise.verbs.network_files import NetworkExports
from messages import says, wording
from tiny_models import write_tiny_onnx

NETWORK = "0" * 64
STEPS = ("torch.onnx.export (torch 2.13.0)",)


def network_file(folder, name, *, value=0.5, latency=1_000_000, lost=(), original=False):
    path = folder / name
    script = {"inputs": [{"name": name, "shape": [1, 4], "dtype": "float32"}], "outputs_value": value,
              "latency_ns": [latency]}  # fmt: skip
    path.write_text("edgewise-fake 1\n" + json.dumps(script))
    origin = Origin(target="m.py:make", sha256=NETWORK, steps=() if original else STEPS, lost=lost, original=original)
    return NetworkFile(path=path, name="m-make", origin=origin, runtimes=("fake",))


def measure(files, **axes):
    plan = make_plan(
        files,
        axes=Axes(**axes),
        scenario=Scenario(),
        stopping=Stopping(iterations=20, warmup=1, sessions=3),
        target=TargetSpec(),
    )
    return Dispatcher(save=lambda run: None, sensors=METERS_OFF).execute(plan)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("network")
    return measure([
        network_file(folder, "original", latency=2_000_000, original=True),
        network_file(folder, "good"),
        network_file(folder, "wrong", value=0.75, latency=500_000, lost=("the buffer count",)),
        network_file(folder, "alike", value=0.75, latency=900_000),
    ])  # fmt: skip


def test_files_of_one_network_are_one_group_with_one_name(runs):
    assert [len(group) for group in comparable_groups(runs)] == [4]
    assert {run.job.model.name for run in runs} == {"m-make"}
    assert len({run.job.model.sha256 for run in runs}) == 4


def test_the_original_is_the_reference_even_where_most_exports_agree_with_each_other(runs):
    original, good, wrong, alike = runs
    assert original.measurement("output_max_abs_error").absent_because == wording("run-reference")
    assert original.cautions == good.cautions == ()
    assert [run.value("output_max_abs_error") for run in (good, wrong, alike)] == [0.0, 0.25, 0.25]
    for run in (wrong, alike):
        (caution,) = run.cautions
        assert caution.code == "output-mismatch"
        assert "differ from those of fake/cpu, the original" in caution.message


def test_the_fastest_export_that_agrees_is_recommended_against_the_original(runs):
    found = recommendation(runs)
    assert found.run == runs[1].id
    assert found.label == "fake/cpu · fake · #1"
    assert found.why[0] == (
        "2.000× faster than fake/cpu · original (median latency 1.00 ms against 2.00 ms), by their processes"
    )
    assert any(line.startswith("its outputs agree within 0 (outputs of one inference") for line in found.why)


def test_the_table_has_path_size_and_error_within_80_columns(runs):
    text = to_text(bench_document(runs), width=80)
    assert max(map(len, text.splitlines())) <= 80
    whole = " ".join(text.split())
    assert "columns left out for width: Memory" not in whole
    for title in ("Path", "error", "Grade", "agree", "original"):
        assert title in whole
    assert "torch.onnx.export (torch 2.13.0) → fake; lost: the buffer count" in whole
    assert "the network as m.py:make builds it" in whole


def test_the_record_keeps_the_path_and_older_records_have_none(runs):
    wrong = runs[2]
    assert wrong.job.model.origin == Origin(
        target="m.py:make", sha256=NETWORK, steps=STEPS, lost=("the buffer count",), original=False
    )
    document = to_document(wrong)
    assert from_document(document) == wrong
    assert "the buffer count" in to_text(run_document(wrong))
    del document["job"]["model"]["origin"]
    assert from_document(document).job.model.origin is None


def test_the_origin_is_no_part_of_a_jobs_key(runs):
    job = runs[1].job
    assert replace(job, model=replace(job.model, origin=None)).key == job.key


def test_settings_that_no_engine_supports_are_an_error(tmp_path):
    with pytest.raises(BadInput, match=says("no-engine-can-run-these")) as caught:
        measure([network_file(tmp_path, "original", original=True)], precisions=("int3",))
    assert "fake/cpu has no precision int3" in caught.value.advice


# -- which engine gets which file --------------------------------------------------------------------------------------


class Exports:
    """Formats that can be made; records which were."""

    def __init__(self, folder, **formats):
        self.folder, self.formats, self.made = folder, formats, []

    def export(self, form):
        self.made.append(form)
        if isinstance(self.formats[form], str):
            raise Unavailable(self.formats[form])
        path = write_tiny_onnx(self.folder / f"{form}.onnx")
        return Converted(path=path, format=form, steps=() if form == "fake" else (f"to {form}",))

    def files(self, *words):
        formats = {
            form: made if isinstance(made, Availability) else Availability(True) for form, made in self.formats.items()
        }
        exports = NetworkExports(
            target="m.py:make", name="m-make", formats=formats, original="fake", export=self.export
        )
        return exports.files(words, runtimes(), TargetSpec(), with_tools=True)


@pytest.mark.engine
def test_every_engine_gets_the_first_format_that_it_reads_and_a_format_is_made_once(tmp_path):
    pytest.importorskip("openvino")
    exports = Exports(tmp_path, fake=True, onnx=True, openvino=True)
    files, left_out = exports.files("openvino", "onnxruntime", "fake/cpu")
    assert [(file.origin.steps, file.runtimes) for file in files] == [
        ((), ("fake/cpu",)), (("to onnx",), ("openvino", "onnxruntime")),
    ]  # fmt: skip
    assert sorted(exports.made) == ["fake", "onnx"]
    assert [file.origin.original for file in files] == [True, False]
    assert left_out == []
    (family,) = {file.origin.sha256 for file in files}
    assert len(family) == 64


@pytest.mark.engine
def test_the_next_format_is_tried_where_an_export_fails(tmp_path):
    pytest.importorskip("openvino")
    exports = Exports(tmp_path, onnx="no ONNX function for aten::x", openvino=True)
    files, left_out = exports.files("onnxruntime", "openvino")
    assert [(file.origin.steps, file.runtimes) for file in files] == [(("to openvino",), ("openvino",))]
    assert left_out == ["onnxruntime: no ONNX function for aten::x"]
    assert exports.made == ["onnx", "openvino"]


def test_an_engine_whose_export_fails_is_a_line_as_long_as_one_runs(tmp_path):
    missing = Availability(False, "onnxscript is not installed", "pip install onnxscript")
    files, left_out = Exports(tmp_path, fake=True, onnx=missing).files("fake", "onnxruntime")
    assert [file.runtimes for file in files] == [("fake",)]
    assert left_out == ["onnxruntime: onnxscript is not installed (pip install onnxscript)"]


def test_nothing_that_runs_is_a_failed_command_with_every_reason(tmp_path):
    with pytest.raises(RunFailed, match=says("no-engine-can-run", target="m.py:make")) as caught:
        Exports(tmp_path, fake="it has no weights").files("fake")
    assert caught.value.advice == "fake: it has no weights"
    assert caught.value.exit_code == 4


def test_an_unknown_engine_is_an_error(tmp_path):
    with pytest.raises(Unavailable, match=says("unknown-noun-name-r", noun="runtime", name="nothing")):
        Exports(tmp_path, fake=True).files("nothing")


def test_an_engine_without_a_reachable_format_is_a_line(tmp_path):
    _, left_out = Exports(tmp_path, fake=True).files("fake", "onnxruntime")
    assert left_out == ["onnxruntime: m-make can't be exported to a format that it reads"]


def test_opening_a_file_of_a_network_is_opening_its_file(tmp_path):
    file = network_file(tmp_path, "original", original=True)
    assert open_model(file).ref.path == str(file.path)
