"""MLTK's command line on edgewise's estimates; the numbers in MLTK's own output are those of silabs-mltk 0.20.0."""

from __future__ import annotations

import csv
import json
import re
import zipfile

import pytest

from boards import fake_board
from edgewise.data import path as bundled
from edgewise.device.target import close_targets
from edgewise.errors import BadInput
from edgewise.estimating.base import estimators
from edgewise.registry import availability_of
from edgewise.report.profile.mltk import LAYER_LABELS, SUMMARY_LABELS
from edgewise.shims import mltk
from messages import says, wording

pytestmark = pytest.mark.engine
NPU = ["-a", "ethos-u55-128"]
# `mltk profile kws_ref_model.tflite` prints these; its JSON has them without prefixes.
KWS = {"Name": "kws_ref_model", "Input Shape": "1x49x10x1", "Input Data Type": "int8", "Output Shape": "1x12",
       "Output Data Type": "int8", "Layer Count": "13", "Operation Count": "5537672",
       "Multiply-Accumulate Count": "2656768"}  # fmt: skip
OPS = [664000, 168000, 1048000, 168000, 1048000, 168000, 1048000, 168000, 1048000, 8064, 0, 1548, 60]


@pytest.fixture
def kws(shared_models):
    pytest.importorskip("ethosu.vela", reason="ethos-u-vela is not installed")
    return shared_models / "kws_ref_model.tflite"


def test_the_summary_and_the_layers_are_mltks(kws, capsys):
    assert mltk.main(["profile", str(kws), *NPU, "--estimates", "--no-format"]) == 0
    shown = capsys.readouterr().out
    head, _, table = shown.partition("\nModel Layers\n")
    title, *lines = head.splitlines()
    values = dict(line.split(": ", 1) for line in lines)
    assert title == "Profiling Summary" and list(values) == list(SUMMARY_LABELS.values())
    assert {key: values[key] for key in KWS} == KWS
    assert values["Energy (J)"] == "n/a (Vela does not estimate energy)"
    rows = [line.split() for line in table.splitlines() if line[:1].isdigit()]
    assert [(int(row[0]), int(row[2])) for row in rows] == list(enumerate(OPS))
    assert rows[0][1] == "conv_2d"


def test_numbers_have_prefixes_unless_they_are_unwanted(kws, capsys):
    assert mltk.main(["profile", str(kws), *NPU, "--full-summary", "-v"]) == 0
    shown = capsys.readouterr().out
    assert "Flash, Model File Size (bytes): 53.9k\n" in shown and "Layer Count: 13\n" in shown
    assert "accelerator_utilization: " in shown and "\nSoftware: Vela " in shown


def test_the_report_has_mltks_names(kws, tmp_path, capsys):
    folder = tmp_path / "new" / "report"
    words = ["profile", str(kws), *NPU, "-o", str(folder)]
    assert mltk.main(words) == 0
    assert capsys.readouterr().out == ""
    stem = "profiling_report-npu-simulated"
    assert {path.name for path in folder.iterdir()} == {f"{stem}.txt", f"{stem}.json"}
    document = json.loads((folder / f"{stem}.json").read_text())
    assert [layer["ops"] for layer in document["layers"]] == OPS and document["basis"]["time"] == "estimated"
    (folder / f"{stem}-layers.csv").write_text("old")  # as MLTK, a report replaces an earlier one
    assert mltk.main([*words, "--format", "csv"]) == 0
    layers = list(csv.DictReader((folder / f"{stem}-layers.csv").read_text().splitlines()))
    assert list(layers[0]) == list(LAYER_LABELS) and [int(row["ops"]) for row in layers] == OPS
    (summary,) = csv.DictReader((folder / f"{stem}-summary.csv").read_text().splitlines())
    assert float(summary["macs"]) == 2656768 and summary["energy"] == ""


def test_the_accelerators_cycles_are_those_of_mltks_simulator(kws, tmp_path):
    """`mltk profile kws_ref_model.tflite -a MVP --no-format` prints these."""
    pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")
    if not availability_of(estimators().get("mvp")):
        pytest.skip("the tools of the MVP's estimates are not installed")
    assert mltk.main(["profile", str(kws), "-a", "MVP", "-o", str(tmp_path)]) == 0
    document = json.loads((tmp_path / "profiling_report-mvp-simulated.json").read_text())
    assert document["summary"]["accelerator_cycles"] == 1882586 and document["summary"]["accelerator"] == "MVP"
    assert document["summary"]["cpu_clock_rate"] == 78e6
    cycles = [layer["accelerator_cycles"] for layer in document["layers"]]
    assert cycles == [296618, 103104, 292064, 103104, 292064, 103104, 292064, 103104, 292064, 4096, 0, 1200, 0]


def test_an_archive_of_mltk_is_unpacked(kws, tmp_path, capsys):
    archive = tmp_path / "kws.mltk.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.write(kws, "kws.tflite")
        file.writestr("kws.test.tflite", b"x")
    assert mltk.main(["profile", str(archive), *NPU]) == 0
    assert "Name: kws\n" in capsys.readouterr().out
    archive.write_bytes(b"no archive")
    assert mltk.main(["profile", str(archive), *NPU]) == 2
    assert re.search(says("cant-unpacked"), capsys.readouterr().err)


def test_a_function_is_built(tmp_path, monkeypatch, capsys):
    for module in ("ethosu.vela", "ai_edge_quantizer", "ai_edge_litert"):
        pytest.importorskip(module, reason=f"{module} is not installed")
    (tmp_path / "mine.py").write_text(f"def make_model():\n    return {str(bundled('digits_cnn.tflite'))!r}\n")
    monkeypatch.chdir(tmp_path)
    assert mltk.main(["profile", "mine.py:make_model", "--build", *NPU]) == 0
    assert "Input Data Type: int8\n" in capsys.readouterr().out


def test_a_board_at_a_port_is_measured(capsys):
    pytest.importorskip("serial", reason="pyserial is not installed")
    with fake_board(results=[0.1] * 10) as board:
        words = ["profile", str(bundled("digits_cnn.tflite")), "--device", "--port", board.port, "--no-format"]
        assert mltk.main(words) == 0
    close_targets()
    shown = capsys.readouterr().out
    assert "Time (s): 0.002\n" in shown and "Layer Count: n/a" in shown and "Model Layers" not in shown


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["image_example1"], wording("give-tflite-mltk-zip-file")),
        (["image_example1", "--build"], "--build needs a function, not image_example1"),
        (["m.tflite", "-a", "tpu"], wording("accelerator-unknown", accelerator="tpu")),
        (["m.tflite", "--platform", "brd9999x"], wording("platform-unknown", platform="brd9999x")),
        (["m.tflite", "--device"], wording("device-needs-port")),
        (["m.py:f", "--build", "-d", "--port", "/dev/null"], wording("build-cant-combined-device")),
    ],
)
def test_what_can_not_be_done_is_said(words, problem, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.tflite").write_bytes(bundled("digits_cnn.tflite").read_bytes())
    assert mltk.main(["profile", *words]) == 2
    assert problem in " ".join(capsys.readouterr().err.split())


def test_flags_without_a_counterpart_are_named_with_the_reason(kws, capsys):
    assert mltk.main(["profile", str(kws), *NPU, "--post", "--app", "x.s37", "--runtime-buffer-size", "0"]) == 0
    notes = [line for line in capsys.readouterr().err.splitlines() if line.startswith("note: ")]
    assert [note.split(": ")[1] for note in notes] == ["--post", "--app", "--runtime-buffer-size"]


def test_mltks_accelerators_and_platforms_stand_for_devices():
    assert mltk._device(None, None) == mltk._device("CMSIS", None) == "cortex-m33@78MHz"
    assert mltk._device("MVP", None) == "xg24"
    assert mltk._device(None, "brd2601b") == "xg24-dk2601b"
    assert mltk._device("cortex-m4@100MHz", None) == "cortex-m4@100MHz"
    with pytest.raises(BadInput):
        mltk._device(None, "dk")
