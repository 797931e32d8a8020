"""ONNX: types, initialised inputs, odd shapes and weights in other files."""

from __future__ import annotations

import hashlib
import re

import onnx
import pytest
from onnx import TensorProto, helper

from edgewise.errors import BadModel
from edgewise.model.identity import open_model
from edgewise.model.readers.onnx import OnnxReader
from edgewise.model.signature import TensorSpec
from messages import is_in, says, wording


def write(path, *, inputs=(), outputs=None, nodes=(), initialisers=(), opset=17):
    outputs = outputs or [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])]
    graph = helper.make_graph(list(nodes), "g", list(inputs), outputs, list(initialisers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


def external(name, location, *, offset=None, length=None, kind=TensorProto.FLOAT, dims=(2,)):
    tensor = TensorProto(name=name, data_type=kind, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        if value is not None:
            tensor.external_data.add(key=key, value=str(value))
    return tensor


def refuse(path):
    with pytest.raises(BadModel) as caught:
        open_model(path)
    return caught.value.message


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        (TensorProto.FLOAT, "float32"),
        (TensorProto.DOUBLE, "float64"),
        (TensorProto.FLOAT16, "float16"),
        (TensorProto.BFLOAT16, "bfloat16"),
        (TensorProto.INT8, "int8"),
        (TensorProto.UINT64, "uint64"),
        (TensorProto.BOOL, "bool"),
        (TensorProto.STRING, "string"),
        (TensorProto.INT4, "int4"),
        (TensorProto.FLOAT8E4M3FN, "float8_e4m3fn"),
        (999, "onnx-type-999"),
    ],
)
def test_element_types(tmp_path, kind, dtype):
    path = write(tmp_path / "m.onnx", inputs=[helper.make_tensor_value_info("x", kind, [1, 2])])
    assert open_model(path).signature.inputs == (TensorSpec(name="x", shape=(1, 2), dtype=dtype),)


def test_dimensions_as_the_file_has_them(tmp_path):
    info = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", None, 0, -1, 7, "?"])
    scalar = helper.make_tensor_value_info("s", TensorProto.FLOAT, [])
    unranked = helper.make_tensor_value_info("u", TensorProto.FLOAT, None)
    signature = open_model(write(tmp_path / "m.onnx", inputs=[info, scalar, unranked])).signature
    assert [spec.shape for spec in signature.inputs] == [("batch", None, 0, None, 7, None), (), None]


def test_types_that_are_no_tensors(tmp_path):
    tensor = helper.make_tensor_type_proto(TensorProto.INT64, [1])
    sequence = helper.make_sequence_type_proto(tensor)
    kinds = {
        "sequence(int64)": sequence,
        "optional(sequence(int64))": helper.make_optional_type_proto(sequence),
        "map(string, int64)": helper.make_map_type_proto(TensorProto.STRING, tensor),
        "sparse(float32)": helper.make_sparse_tensor_type_proto(TensorProto.FLOAT, [3]),
        "undefined": onnx.TypeProto(),
    }
    inputs = [helper.make_value_info(f"x{at}", kind) for at, kind in enumerate(kinds.values())]
    signature = open_model(write(tmp_path / "m.onnx", inputs=inputs)).signature
    assert [spec.dtype for spec in signature.inputs] == list(kinds)


def test_weights_are_not_inputs(tmp_path):
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("w", "x", "s")]
    weight = helper.make_tensor("w", TensorProto.FLOAT, [2], [1, 2])
    path = write(tmp_path / "m.onnx", inputs=infos, initialisers=[weight])
    model = onnx.load(path)
    values = helper.make_tensor("s", TensorProto.FLOAT, [1], [1])
    indices = helper.make_tensor("i", TensorProto.INT64, [1], [0])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [2]))
    path.write_bytes(model.SerializeToString())
    assert [spec.name for spec in open_model(path).signature.inputs] == ["x"]


def test_no_operator_set_and_no_outputs_and_no_graph(tmp_path):
    path = write(tmp_path / "m.onnx")
    model = onnx.load(path)
    del model.opset_import[:]
    path.write_bytes(model.SerializeToString())
    assert wording("names-no-operator-set") in refuse(path)
    model = onnx.load(write(path))
    del model.graph.output[:]
    path.write_bytes(model.SerializeToString())
    assert wording("no-outputs") in refuse(path)
    path.write_bytes(b"\x08\x08\x3a\x00")
    assert wording("names-no-operator-set") in refuse(path)


def test_a_name_that_is_not_text(tmp_path):
    info = helper.make_tensor_value_info("NAMENAME", TensorProto.FLOAT, [1])
    path = write(tmp_path / "m.onnx", inputs=[info])
    path.write_bytes(path.read_bytes().replace(b"NAMENAME", b"\xff\xfe\xff\xfe\xff\xfe\xff\xfe"))
    assert wording("contains-text-not-utf-8") in refuse(path)
    info = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["NAMENAME"])
    path = write(tmp_path / "m.onnx", inputs=[info])
    path.write_bytes(path.read_bytes().replace(b"NAMENAME", b"\xff\xfe\xff\xfe\xff\xfe\xff\xfe"))
    assert wording("contains-text-not-utf-8") in refuse(path)
    path = write(tmp_path / "m.onnx", initialisers=[external("w", "NAMENAME")])
    path.write_bytes(path.read_bytes().replace(b"NAMENAME", b"\xff\xfe\xff\xfe\xff\xfe\xff\xfe"))
    assert wording("contains-text-not-utf-8") in refuse(path)


def test_external_data_counts_in_hash_and_size(tiny_onnx, tmp_path):
    path = tiny_onnx(external=True)
    model = open_model(path)
    both = path.read_bytes() + (tmp_path / "weights.bin").read_bytes()
    assert model.files == (path, tmp_path / "weights.bin")
    assert model.ref.sha256 == hashlib.sha256(both).hexdigest()
    assert model.ref.size_bytes == len(both)
    assert len((tmp_path / "weights.bin").read_bytes()) == 32


def test_a_signature_does_not_need_the_weights(tiny_onnx, tmp_path):
    path = tiny_onnx(external=True)
    (tmp_path / "weights.bin").unlink()
    assert OnnxReader().read_signature(path).inputs[0].name == "x"
    assert re.search(says("cant-used-weight-file-missing", name_2="weights.bin"), refuse(path))


def test_a_missing_weight_file_is_named_with_its_place(tiny_onnx, tmp_path):
    path = tiny_onnx(external=True)
    weights = tmp_path / "weights.bin"

    def advice():
        with pytest.raises(BadModel) as caught:
            open_model(path)
        return caught.value.advice

    renamed = weights.rename(tmp_path / "my weights.data")
    assert advice() == (
        f"put it at {weights}: {path.name} names it so. If my weights.data is this file: mv '{renamed}' {weights}"
    )
    (tmp_path / "other.data").write_bytes(renamed.read_bytes())  # of two files, neither is more likely
    renamed.with_suffix(".long").write_bytes(bytes(33))
    assert advice() == f"put it at {weights}: {path.name} names it so"
    (tmp_path / "other.data").unlink()
    path.write_bytes(path.read_bytes().replace(b"weights.bin", b"weight/s.bi"))
    place = tmp_path / "weight" / "s.bi"
    assert advice().startswith(f"put it at {place}: ")
    assert advice().endswith(f": mkdir -p {place.parent} && mv '{renamed}' {place}")


def test_external_data_in_order_of_mention_and_in_every_place(tmp_path):
    for name in ("1", "2", "3", "4", "5"):
        (tmp_path / name).write_bytes(name.encode() * 8)
    body = helper.make_graph([], "body", [], [], [external("c", "3")])
    nodes = [
        helper.make_node("Constant", [], ["k"], value=external("k", "4")),
        helper.make_node("If", ["x"], ["y"], then_branch=body),
        helper.make_node("Constant", [], ["l"], sparse_value=helper.make_sparse_tensor(
            helper.make_tensor("v", TensorProto.FLOAT, [1], [1]), helper.make_tensor("i", TensorProto.INT64, [1], [0]), [2]
        )),
    ]  # fmt: skip
    first = [external("b", "2"), external("a", "1"), external("a2", "./1", offset=0, length=8)]
    path = write(tmp_path / "m.onnx", nodes=nodes, initialisers=first)
    model = onnx.load(path, load_external_data=False)
    function = helper.make_function(
        "d", "f", [], ["o"], [helper.make_node("Constant", [], ["o"], value=external("o", "5"))], []
    )
    model.functions.append(function)
    path.write_bytes(model.SerializeToString())
    files = open_model(path).files
    assert sorted(file.name for file in files[1:]) == ["1", "2", "3", "4", "5"]
    assert [file.name for file in files[:3]] == ["m.onnx", "2", "1"]
    assert open_model(path).ref.size_bytes == path.stat().st_size + 5 * 8


@pytest.mark.parametrize(
    "location",
    ["/etc/passwd", "../weights.bin", "sub/../../weights.bin", "..\\weights.bin", "C:\\w.bin", "\\\\host\\w.bin", ".."],
)
def test_external_data_outside_the_folder_is_refused(tmp_path, location):
    (tmp_path / "weights.bin").write_bytes(b"\0" * 8)
    (tmp_path / "model").mkdir()
    path = write(tmp_path / "model" / "m.onnx", initialisers=[external("w", location)])
    assert re.search(says("weights-outside-model-folder"), refuse(path))


def test_a_link_that_leads_outside_is_refused(tmp_path):
    (tmp_path / "weights.bin").write_bytes(b"\0" * 8)
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "w.bin").symlink_to(tmp_path / "weights.bin")
    (folder / "sub").symlink_to(tmp_path)
    for location in ("w.bin", "sub/weights.bin"):
        assert re.search(
            says("weights-outside-model-folder-through"),
            refuse(write(folder / "m.onnx", initialisers=[external("w", location)])),
        )
    (folder / "loop").symlink_to(folder / "loop")
    refuse(write(folder / "m.onnx", initialisers=[external("w", "loop")]))


def test_a_link_and_a_folder_inside_are_fine(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "real.bin").write_bytes(b"\0" * 8)
    (tmp_path / "w.bin").symlink_to(tmp_path / "sub" / "real.bin")
    path = write(tmp_path / "m.onnx", initialisers=[external("w", "w.bin"), external("v", "sub/real.bin")])
    assert [file.name for file in open_model(path).files] == ["m.onnx", "w.bin", "real.bin"]


@pytest.mark.parametrize(
    ("location", "offset", "length", "reason"),
    [
        ("w.bin", 4, 8, says("truncated-bytes-least-needed", size=8, weight_bytes=12)),
        ("w.bin", "-4", 8, says("external-data-tensor-bad-offset")),
        ("w.bin", "9" * 30, 8, says("external-data-tensor-bad-offset")),
        ("w.bin", 0, "1e3", says("external-data-tensor-bad-offset")),
        ("", None, None, wording("tensor-external-data-without-file")),
        (None, None, None, wording("tensor-external-data-without-file")),
        ("a\0b", None, None, wording("tensor-external-data-without-file")),
        ("sub", None, None, "missing"),
        ("x" * 5000, None, None, "can't be opened"),
    ],
)
def test_external_data_that_is_wrong(tmp_path, location, offset, length, reason):
    (tmp_path / "w.bin").write_bytes(b"\0" * 8)
    (tmp_path / "sub").mkdir()
    tensor = external("w", location, offset=offset, length=length)
    assert is_in(reason, refuse(write(tmp_path / "m.onnx", initialisers=[tensor])))


def test_too_large_for_protobuf(tmp_path):
    path = write(tmp_path / "m.onnx")
    with path.open("r+b") as file:
        file.truncate(2**31)  # sparse: takes no room on disk
    with pytest.raises(BadModel, match=says("bytes-exceed-limit-onnx-file")) as caught:
        OnnxReader().read_signature(path)
    assert wording("save-weights-external-data-onnx") in caught.value.advice
