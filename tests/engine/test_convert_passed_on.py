"""A network that hands an input on as an output keeps it as one input when it is converted."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import edgewise
from edgewise.model.identity import open_model

pytestmark = pytest.mark.engine
pytest.importorskip("openvino")
pytest.importorskip("onnxruntime")


def test_an_input_that_is_an_output_too_stays_one_input(tmp_path):
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy")
    weight = numpy_helper.from_array(np.arange(9, dtype=np.float32).reshape(3, 3), "w")
    body = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [x], [y, x], [weight])
    onnx.save(helper.make_model(body, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    found = edgewise.convert(tmp_path / "m.onnx", output=tmp_path / "m.xml")
    assert [each.name for each in open_model(tmp_path / "m.xml").signature.inputs] == ["x"]
    assert found.agreement.absent_because == ""
    assert [each.close for each in found.agreement.outputs] == [True, True]
