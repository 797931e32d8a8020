"""A network in float32 against the same one in float16, which takes inputs of another type."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import edgewise

pytestmark = pytest.mark.engine
pytest.importorskip("onnxruntime")


def write(path, kind, dtype):
    x, y = (helper.make_tensor_value_info(name, kind, [2, 4]) for name in "xy")
    weight = numpy_helper.from_array(np.eye(4, dtype=dtype), "w")
    body = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"], name="product")], "g", [x], [y], [weight])
    onnx.save(helper.make_model(body, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_both_get_the_same_inputs_in_their_own_precision(tmp_path):
    wide = write(tmp_path / "wide.onnx", TensorProto.FLOAT, np.float32)
    narrow = write(tmp_path / "narrow.onnx", TensorProto.FLOAT16, np.float16)
    found = edgewise.diff(wide, narrow, limit=2)
    assert found.begins is None
    assert [each.name for each in found.layers] == ["x", "product"]
    # Inputs below 1 are rounded to 2⁻¹¹ of their size at most, and the product hands them on.
    assert 60 < found.layers[0].snr_db == pytest.approx(found.layers[1].snr_db, abs=1e-9)
    assert found.layers[0].largest <= 2**-12
    assert dict(found.retyped) == {"float32 → float16": 1}
