"""``edgewise convert`` with TensorFlow behind Keras, and SavedModels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgewise.cli.main import run
from edgewise.errors import ExitCode
from edgewise.model.identity import open_model

pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
pytest.importorskip("keras", reason="Keras is not installed")
pytestmark = pytest.mark.engine

NET = """
import keras

def make():
    image = keras.Input((8, 8, 3), name="image")
    x = keras.layers.Conv2D(4, 3, activation="relu")(image)
    return keras.Model(image, keras.layers.Dense(5)(keras.layers.Flatten()(x)))
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a network, its SavedModel and its ``.keras`` file."""
    folder = tmp_path_factory.mktemp("nets")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        (folder / "net.py").write_text(NET)
        assert run(["convert", "net.py:make", "--to", "savedmodel", "-o", "saved", "-q"]) == ExitCode.DONE
        assert run(["convert", "net.py:make", "-o", "net.keras", "-q"]) == ExitCode.DONE
    return folder


@pytest.mark.parametrize(("source", "ending"), [("saved", "tflite"), ("net.keras", "xml")])
def test_files_of_tensorflow_become(source: str, ending: str, place: Path, monkeypatch, capsys):
    monkeypatch.chdir(place)
    output = f"{source}-out.{ending}"
    assert run(["convert", source, "-o", output, "--json", "-q"]) == ExitCode.DONE
    document = json.loads(capsys.readouterr().out)
    (agreement,) = document["agreement"]["outputs"]
    assert agreement["close"] and agreement["top1"] == 1.0 and (place / output).is_file()
    assert document["agreement"]["source_engine"].split()[0] == {"saved": "tensorflow", "net.keras": "Keras"}[source]


@pytest.mark.parametrize("ending", ["tflite", "xml"])
@pytest.mark.parametrize(("signature", "output"), [("", "y"), ("decode", "z")])
def test_each_signature_of_a_saved_model_is_converted_alone(signature, output, ending, tmp_path, monkeypatch, capsys):
    import tensorflow as tf

    monkeypatch.chdir(tmp_path)
    net, spec = tf.Module(), tf.TensorSpec((1, 4), tf.float32, name="x")
    net.w, net.v = tf.Variable(tf.ones((4, 3))), tf.Variable(tf.ones((4, 7)))
    made = {
        "serving_default": tf.function(lambda x: {"y": x @ net.w}).get_concrete_function(spec),
        "decode": tf.function(lambda x: {"z": tf.nn.relu(x @ net.v)}).get_concrete_function(spec),
    }
    tf.saved_model.save(net, "two", signatures=made)
    words = ["--signature", signature] if signature else []
    assert run(["convert", "two", *words, "-o", f"made.{ending}", "--json", "-q"]) == ExitCode.DONE
    document = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in document["agreement"]["outputs"]] == [output] and document["agreement"]["close"]
    (shape,) = (each.shape for each in open_model(f"made.{ending}").signature.outputs)
    assert shape == {"y": (1, 3), "z": (1, 7)}[output]
    assert open_model(f"made.{ending}").ref.signatures == ()


def test_a_folder_with_other_files_is_never_replaced(place: Path, monkeypatch, capsys):
    monkeypatch.chdir(place)
    (place / "mine").mkdir(exist_ok=True)
    (place / "mine" / "notes.txt").write_text("mine")
    assert run(["convert", "net.py:make", "--to", "savedmodel", "-o", "mine", "--force", "-q"]) == ExitCode.BAD_INPUT
    assert "without a SavedModel" in capsys.readouterr().err and (place / "mine" / "notes.txt").is_file()
    assert run(["convert", "net.py:make", "--to", "savedmodel", "-o", "saved", "-q"]) == ExitCode.BAD_INPUT
