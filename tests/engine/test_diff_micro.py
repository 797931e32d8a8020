"""`diff` of firmware on an emulated Cortex-M core: the same integers as tflite-micro's, and the layer of a fault."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from edgewise import data
from edgewise.cli.main import run
from edgewise.estimating.mcu import cores, lowering
from edgewise.estimating.mcu.network import read_network
from edgewise.verbs.diff import tensor_worker, work
from edgewise.verbs.diff.micro_engines import MICRO_ENGINES

pytestmark = pytest.mark.engine
runtime = pytest.importorskip("tflite_micro", reason="tflite-micro is not installed").runtime
pytest.importorskip("bakenn", reason="bakenn, which brings CMSIS-NN, is not installed")
if not shutil.which("arm-none-eabi-gcc") or not shutil.which("qemu-system-arm"):
    pytest.skip("gcc-arm-none-eabi or qemu-system-arm is not installed", allow_module_level=True)

FLOAT, INT8 = data.path("digits_cnn.tflite"), data.path("digits_cnn_int8.tflite")


def diff(capsys, *words):
    assert run(["diff", *map(str, words), "--limit", "2", "--json", "-q"]) == 0
    return json.loads(capsys.readouterr().out)


def test_every_tensor_of_the_firmware_is_that_of_tflite_micro(capsys):
    found = diff(capsys, INT8, "-r", "tflite-micro,cortex-m4")
    assert found["begins"] is None and found["basis"] == "simulated" and found["unmatched"] == []
    assert len(found["layers"]) > 5 and all(layer["exact"] and layer["cosine"] for layer in found["layers"])
    assert [model["engine"].split()[0] for model in found["models"]] == ["tflite-micro", "cortex-m4,"]


def test_few_weights_of_the_firmware_that_are_off_by_one_are_found(monkeypatch, capsys):
    second = [each for each in read_network(INT8).operators if each.code == "CONV_2D"][1]
    real = lowering.lower

    def lower(network, offsets):
        lowered = real(network, offsets)
        begin, kernel = lowered.constants.index(second.inputs[1].data.tobytes()), second.inputs[1].data[0].size
        lowered.constants[begin : begin + 8 * kernel : 36] = bytes(
            each ^ 1 for each in lowered.constants[begin : begin + 8 * kernel : 36]
        )
        return lowered

    monkeypatch.setattr(lowering, "lower", lower)
    monkeypatch.setattr(work, "_ask", lambda asked, *, seconds: tensor_worker.answer(asked))  # in this process
    found = diff(capsys, INT8, "-r", "tflite-micro,cortex-m4")
    (layer,) = [each for each in found["layers"] if each["name"] == found["begins"]]
    assert layer["tensors"][0] == second.outputs[0].name and 30 < layer["snr_db"] < 100
    assert all(each["exact"] for each in found["layers"][: found["layers"].index(layer)])


def test_tflite_micro_gives_the_tensors_that_its_own_interpreter_computes():
    feed = np.random.default_rng(3).random((1, 1, 32, 32)).astype(np.float32)
    network = read_network(FLOAT)
    interpreter = runtime.Interpreter.from_file(str(FLOAT))
    interpreter.set_input(feed, 0)
    interpreter.invoke()
    names = [network.inputs[0].name, network.outputs[0].name]
    found = MICRO_ENGINES["tflite-micro"](FLOAT, names).run([feed], names)
    assert np.array_equal(found[names[0]], feed)
    assert np.array_equal(found[names[1]], interpreter.get_output(0))


def test_what_no_firmware_executes_is_refused_before_anything_runs(monkeypatch, capsys):
    assert run(["diff", str(FLOAT), "-r", "litert,cortex-m4"]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "on float32, not on quantised int8" in told and "quantise the model to int8" in told
    network = read_network(INT8)
    kept = replace(network.operators[0].input(0), variable=True)
    with_state = replace(network.operators[0], inputs=(kept, *network.operators[0].inputs[1:]))
    stateful = replace(network, operators=(with_state, *network.operators[1:]))
    monkeypatch.setattr("edgewise.estimating.mcu.network.read_network", lambda path: stateful)
    assert run(["diff", str(INT8), "-r", "litert,cortex-m4"]) == 2
    assert "keeps states from one inference to the next" in " ".join(capsys.readouterr().err.split())


def test_every_core_can_be_a_side():
    assert set(MICRO_ENGINES) == {"tflite-micro", *cores.CORES}
