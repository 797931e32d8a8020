"""Whatever is done to a model file, opening it ends in a model or in one clear error."""

from __future__ import annotations

from pathlib import Path

import onnx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgewise.errors import BadModel
from edgewise.model.identity import open_model
from edgewise.model.signature import Signature

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
IR = b"""<?xml version="1.0"?>
<net name="m" version="11"><layers>
<layer id="0" name="x" type="Parameter" version="opset1"><data shape="?,3,1..8" element_type="f32"/>
<output><port id="0" precision="FP32" names="x,y"><dim>-1</dim><dim>3</dim><dim>-1</dim></port></output></layer>
<layer id="1" name="r" type="Result" version="opset1">
<input><port id="0" precision="FP32"><dim>-1</dim><dim>3</dim><dim>-1</dim></port></input></layer>
</layers><edges><edge from-layer="0" from-port="0" to-layer="1" to-port="0"/></edges></net>
"""

EXTREMES = st.sampled_from([b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\0", b"\0\0\0\x80", b"\1\0\0\0"])
PATCHES = st.one_of(EXTREMES, st.binary(min_size=1, max_size=8))


@st.composite
def damages(draw):
    """Where (as a share of the file), how, and with what."""
    where = st.one_of(st.floats(0, 1, exclude_max=True), st.floats(0, 0.02))
    kind = st.sampled_from(["write", "insert", "delete", "truncate", "repeat"])
    return draw(st.lists(st.tuples(where, kind, PATCHES), min_size=1, max_size=6))


def damage(data, steps):
    changed = bytearray(data)
    for where, kind, patch in steps:
        at = int(where * len(changed))
        match kind:
            case "write":
                changed[at : at + len(patch)] = patch
            case "insert":
                changed[at:at] = patch
            case "delete":
                del changed[at : at + len(patch)]
            case "truncate":
                del changed[max(1, at) :]
            case "repeat":
                changed[at:at] = changed[at : at + 64] * 3
    return bytes(changed)


def check(path, data):
    path.write_bytes(data)
    try:
        model = open_model(path)
    except BadModel as error:
        assert error.message
        assert "\n" not in error.message
        assert error.advice or not data
    else:
        assert isinstance(model.signature, Signature)
        assert model.signature.outputs
        assert model.ref.size_bytes >= len(data)


def fuzz(count):
    hushed = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    return settings(max_examples=count, deadline=None, suppress_health_check=hushed)


@given(steps=damages())
@fuzz(150)
def test_damaged_onnx(tmp_path, steps):
    check(tmp_path / "m.onnx", damage((LIGHT / "light_bvlc_alexnet.onnx").read_bytes(), steps))


@given(steps=damages())
@fuzz(150)
def test_damaged_ir(tmp_path, steps):
    check(tmp_path / "m.xml", damage(IR, steps))


@given(steps=damages(), name=st.sampled_from(["kws_ref_model.tflite", "vww_96_int8.tflite", "ad01_int8.tflite"]))
@fuzz(150)
def test_damaged_tflite(tmp_path, shared_models, steps, name):
    check(tmp_path / "m.tflite", damage((shared_models / name).read_bytes(), steps))


@given(
    data=st.binary(min_size=1, max_size=200),
    mark=st.sampled_from([b"", b"\0\0\0\0TFL3", b"edgewise-fake 1\n", b"<net ", b"\x08\x08\x3a"]),
)
@fuzz(150)
def test_noise_behind_a_mark(tmp_path, data, mark):
    check(tmp_path / "m", mark + data)
