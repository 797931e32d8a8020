"""``edgewise zoo``, as a user runs it."""

from __future__ import annotations

import json

from edgewise.cli.main import run
from edgewise.zoo.networks import REFERENCES
from messages import wording


def test_the_list_names_every_network_the_smallest_first_and_why_there_is_no_accuracy(capsys):
    assert run(["zoo", "list"]) == 0
    printed = capsys.readouterr().out
    names = [line.split()[0] for line in printed.splitlines() if line.split()[0] in REFERENCES]
    assert sorted(names) == sorted(REFERENCES)
    assert (names[:3], names[-2:]) == (["autoencoder", "ds-cnn", "resnet-8"], ["r3d-18", "mc3-18"])
    assert "Accuracy: absent (the weights are random)" in printed
    assert run(["zoo", "list", "--json"]) == 0
    first, *rest = json.loads(capsys.readouterr().out)["networks"]
    assert first["name"] == "autoencoder" and first["macs"] == 264e3
    assert [first["macs"], *(row["macs"] for row in rest)] == sorted(row.macs for row in REFERENCES.values())
    assert first["accuracy"] is None and first["accuracy_absent_because"] == wording("weights-random")


def test_built_files_can_be_inspected(capsys, tmp_path):
    assert run(["zoo", "build", "autoencoder", "ds-cnn", "-o", str(tmp_path / "nets")]) == 0
    assert "ds-cnn.onnx" in capsys.readouterr().err
    assert run(["inspect", str(tmp_path / "nets" / "autoencoder.onnx"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["totals"]["macs"] == 264192


def test_a_mistake_has_one_message_and_its_exit_code(capsys, tmp_path):
    assert run(["zoo", "build", "ds-cnn", "--resolution", "96", "-o", str(tmp_path)]) == 2
    assert "its input is always 1×49×10" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
