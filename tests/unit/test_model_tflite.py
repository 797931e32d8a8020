"""TFLite: what is read, and that no offset is followed out of the file."""

from __future__ import annotations

import struct

import flatbuffers
import pytest
import tflite

from edgewise.errors import BadModel
from edgewise.model.identity import open_model
from edgewise.model.signature import TensorSpec
from messages import is_in, says, wording


def vector(builder, start, values, prepend):
    start(builder, len(values))
    for value in reversed(values):
        prepend(value)
    return builder.EndVector()


def build(tensors, *, inputs, outputs, buffers=((),)):
    """A TFLite file of one subgraph. `tensors`: (name, shape, shape signature or None, TensorType)."""
    b = flatbuffers.Builder()
    made = []
    for name, shape, marks, kind in tensors:
        text = b.CreateString(name) if name is not None else None
        sizes = vector(b, tflite.TensorStartShapeVector, shape, b.PrependInt32)
        open_sizes = vector(b, tflite.TensorStartShapeSignatureVector, marks, b.PrependInt32) if marks else None
        tflite.TensorStart(b)
        tflite.TensorAddShape(b, sizes)
        tflite.TensorAddType(b, kind)
        if text is not None:
            tflite.TensorAddName(b, text)
        if open_sizes is not None:
            tflite.TensorAddShapeSignature(b, open_sizes)
        made.append(tflite.TensorEnd(b))
    tensor_vector = vector(b, tflite.SubGraphStartTensorsVector, made, b.PrependUOffsetTRelative)
    input_vector = vector(b, tflite.SubGraphStartInputsVector, inputs, b.PrependInt32)
    output_vector = vector(b, tflite.SubGraphStartOutputsVector, outputs, b.PrependInt32)
    tflite.SubGraphStart(b)
    tflite.SubGraphAddTensors(b, tensor_vector)
    tflite.SubGraphAddInputs(b, input_vector)
    tflite.SubGraphAddOutputs(b, output_vector)
    graph = tflite.SubGraphEnd(b)
    graphs = vector(b, tflite.ModelStartSubgraphsVector, [graph], b.PrependUOffsetTRelative)
    stored = []
    for data in buffers:
        content = b.CreateByteVector(bytes(data)) if data else None
        tflite.BufferStart(b)
        if content is not None:
            tflite.BufferAddData(b, content)
        stored.append(tflite.BufferEnd(b))
    buffer_vector = vector(b, tflite.ModelStartBuffersVector, stored, b.PrependUOffsetTRelative)
    tflite.ModelStart(b)
    tflite.ModelAddVersion(b, 3)
    tflite.ModelAddSubgraphs(b, graphs)
    tflite.ModelAddBuffers(b, buffer_vector)
    b.Finish(tflite.ModelEnd(b), file_identifier=b"TFL3")
    return bytes(b.Output())


FLOAT, INT8 = tflite.TensorType.FLOAT32, tflite.TensorType.INT8


def read(tmp_path, data):
    (tmp_path / "m.tflite").write_bytes(data)
    return open_model(tmp_path / "m.tflite").signature


def refuse(tmp_path, data):
    with pytest.raises(BadModel) as caught:
        read(tmp_path, data)
    return caught.value.message


def test_inputs_and_outputs_in_the_subgraphs_order(tmp_path):
    tensors = [("a", [1, 4], [-1, 4], FLOAT), ("b", [], None, INT8), ("c", [0, 2], None, INT8)]
    signature = read(tmp_path, build(tensors, inputs=[1, 0], outputs=[2]))
    assert signature.inputs == (
        TensorSpec(name="b", shape=(), dtype="int8"),
        TensorSpec(name="a", shape=(None, 4), dtype="float32"),
    )
    assert signature.outputs[0].shape == (0, 2)


@pytest.mark.parametrize(
    ("number", "dtype"),
    [(0, "float32"), (1, "float16"), (3, "uint8"), (5, "string"), (6, "bool"), (7, "int16"), (9, "int8"),
     (10, "float64"), (17, "int4"), (18, "bfloat16"), (99, "tflite-type-99")],
)  # fmt: skip
def test_element_types(tmp_path, number, dtype):
    assert read(tmp_path, build([("a", [1], None, number)], inputs=[0], outputs=[0])).inputs[0].dtype == dtype


def test_every_type_of_the_schema_is_named(tmp_path):
    for name, number in vars(tflite.TensorType).items():
        if not name.startswith("_"):
            dtype = read(tmp_path, build([("a", [1], None, number)], inputs=[0], outputs=[0])).inputs[0].dtype
            assert dtype == name.lower()


def test_a_shape_signature_of_another_rank_is_not_used(tmp_path):
    signature = read(tmp_path, build([("a", [1, 4], [-1], FLOAT)], inputs=[0], outputs=[0]))
    assert signature.inputs[0].shape == (1, 4)


def test_a_tensor_without_a_name(tmp_path):
    assert read(tmp_path, build([(None, [1], None, FLOAT)], inputs=[0], outputs=[0])).inputs[0].name == "tensor_0"


@pytest.mark.parametrize(
    ("tensors", "inputs", "outputs", "reason"),
    [
        ([("a", [1], None, FLOAT)], [1], [0], "tensor 1 of 1"),
        ([("a", [1], None, FLOAT)], [-1], [0], "tensor -1 of 1"),
        ([("a", [1], None, FLOAT)], [0], [], wording("no-outputs")),
        ([("a", [-2], None, FLOAT)], [0], [0], says("dimension-size", size=-2)),
        ([("a", [1] * 65, None, FLOAT)], [0], [0], says("dimensions-more-than", length=65)),
        ([("a", [1], None, FLOAT), ("a", [1], None, FLOAT)], [0, 1], [0], says("two-inputs-name")),
        ([("a" * 5000, [1], None, FLOAT)], [0], [0], says("one-names-characters-more-than", text_count=5000)),
    ],
)
def test_what_is_wrong_is_said(tmp_path, tensors, inputs, outputs, reason):
    assert is_in(reason, refuse(tmp_path, build(tensors, inputs=inputs, outputs=outputs)))


def test_a_name_that_is_not_text(tmp_path):
    data = build([("NAMENAME", [1], None, FLOAT)], inputs=[0], outputs=[0])
    assert wording("contains-text-not-utf-8") in refuse(tmp_path, data.replace(b"NAMENAME", b"\xff" * 8))


def test_every_truncation_is_noticed(tmp_path):
    data = build([("a", [1, 4], [-1, 4], FLOAT)], inputs=[0], outputs=[0], buffers=((), b"w" * 64))
    for length in range(1, len(data.rstrip(b"\0")) + 1):  # behind it lies padding, which nobody misses
        refuse(tmp_path, data[:length])


def test_every_word_may_be_anything(tmp_path):
    """Each 4-byte word in turn becomes an extreme value: a signature or one clear error, never anything else."""
    data = build([("a", [1, 4], [-1, 4], FLOAT)], inputs=[0], outputs=[0], buffers=((), b"w" * 8))
    outcomes = set()
    for at in range(0, len(data) - 3, 2):
        for word in (0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, len(data), len(data) - 1):
            changed = bytearray(data)
            struct.pack_into("<I", changed, at, word)
            try:
                outcomes.add(type(read(tmp_path, bytes(changed))).__name__)
            except BadModel:
                outcomes.add("BadModel")
    assert outcomes == {"Signature", "BadModel"}


def test_no_subgraph(tmp_path):
    b = flatbuffers.Builder()
    tflite.ModelStart(b)
    b.Finish(tflite.ModelEnd(b), file_identifier=b"TFL3")
    assert wording("no-subgraph") in refuse(tmp_path, bytes(b.Output()))


def test_too_many_references_end_early(tmp_path):
    """A vector of millions of references to one and the same subgraph."""
    vtable = struct.pack("<HHHHHH", 10, 8, 0, 0, 4, 0)  # field 2, subgraphs, lies 4 bytes into the table
    head = struct.pack("<I4s", 8 + len(vtable), b"TFL3") + vtable + struct.pack("<iI", len(vtable), 4)
    count = 400_000
    data = head + struct.pack("<I", count) + struct.pack("<I", 4) * count
    assert wording("more-than-tables", max_tables=300000) in refuse(tmp_path, data)


def test_weights_appended_beyond_the_end(tmp_path):
    b = flatbuffers.Builder()
    tflite.BufferStart(b)
    tflite.BufferAddOffset(b, 100_000)
    tflite.BufferAddSize(b, 5)
    stored = [tflite.BufferEnd(b)]
    buffers = vector(b, tflite.ModelStartBuffersVector, stored, b.PrependUOffsetTRelative)
    tflite.ModelStart(b)
    tflite.ModelAddBuffers(b, buffers)
    b.Finish(tflite.ModelEnd(b), file_identifier=b"TFL3")
    assert wording("truncated-corrupt-offset-points-outside") in refuse(tmp_path, bytes(b.Output()))
