"""``edgewise example`` writes the files that the documentation uses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgewise.cli.example.command import FILES
from edgewise.cli.main import run
from edgewise.data import path
from edgewise.errors import ExitCode
from edgewise.evaluating.data_options import DataOptions, read_instructions
from messages import wording


def test_the_files_are_written_and_written_again(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["example"]) == ExitCode.DONE
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted(FILES)
    assert (tmp_path / "model.onnx").read_bytes() == path("digits_cnn.onnx").read_bytes()
    with np.load(tmp_path / "digits.npz") as data:
        assert {name: len(data[name]) for name in data.files} == {
            "x_train": 128, "y_train": 128, "x_test": 540, "y_test": 540
        }  # fmt: skip
    assert run(["example"]) == ExitCode.DONE
    written = "wrote model.onnx, model.tflite, model_int8.tflite, digits.npz, model.yaml, model_int8.yaml"
    assert capsys.readouterr().err.splitlines()[-1] == written


@pytest.mark.parametrize("name", ["model.onnx", "model.tflite", "model_int8.tflite"])
def test_the_files_say_their_task_and_how_they_are_fed(tmp_path, name):
    """So that `evaluate` and `optimize` need nothing but the model and the data, at a terminal and in the studio."""
    assert run(["example", str(tmp_path)]) == ExitCode.DONE
    found = read_instructions(tmp_path / name, DataOptions(source=str(tmp_path / "digits.npz")))
    assert found.task == "classification" and found.origins[-1] == f"{Path(name).stem}.yaml"
    assert [str(step) for steps in found.steps.values() for step in steps] == ["by=['1/255'] axis=None"]


def test_a_file_of_ones_own_stays(tmp_path, capsys):
    folder = tmp_path / "new" / "folder"
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(b"mine")
    assert run(["example", str(folder)]) == ExitCode.BAD_INPUT
    assert "--force" in capsys.readouterr().err
    assert [each.read_bytes() for each in folder.iterdir()] == [b"mine"]
    assert run(["example", str(folder), "--force"]) == ExitCode.DONE
    assert (folder / "model.onnx").read_bytes() != b"mine"


@pytest.mark.parametrize("what", ["file", "file/in/it"])
def test_a_place_that_is_no_folder_is_refused(tmp_path, capsys, what):
    (tmp_path / "file").write_text("")
    assert run(["example", str(tmp_path / what)]) == ExitCode.BAD_INPUT
    assert wording("name-another-folder") in capsys.readouterr().err
