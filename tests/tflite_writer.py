"""TFLite files for tests, written with the schema's generated classes, which know nothing of the reader."""

from __future__ import annotations

import flatbuffers
import numpy as np
import pytest
import tflite

from edgewise.errors import BadModel
from edgewise.model.readers.tflite import TfliteReader
from edgewise.model.readers.tflite_options import BUILTIN_OPTIONS, BUILTIN_OPTIONS_2
from edgewise.model.readers.tflite_schema import OPERATORS

FLOAT, HALF, INT32, INT8, INT4 = 0, 1, 2, 9, 17


class Ref(int):
    """Where a table was written."""


class Writer:
    """Writes TFLite files with the schema's generated classes, which know nothing of the reader."""

    def __init__(self):
        self.b = flatbuffers.Builder()

    def table(self, kind, **fields):
        made = {name: self.value(value) for name, value in fields.items() if value is not None}
        module = getattr(tflite, kind).__module__
        functions = vars(__import__(module, fromlist=["x"]))
        functions[f"{kind}Start"](self.b)
        for name, value in made.items():
            functions[f"{kind}Add" + "".join(part.capitalize() for part in name.split("_"))](self.b, value)
        return Ref(functions[f"{kind}End"](self.b))

    def value(self, value):
        if isinstance(value, str):
            return self.b.CreateString(value)
        if isinstance(value, bytes):
            return self.b.CreateByteVector(value)
        if isinstance(value, np.ndarray):
            return self.b.CreateNumpyVector(value)
        if isinstance(value, list):
            if value and isinstance(value[0], Ref):
                self.b.StartVector(4, len(value), 4)
                for each in reversed(value):
                    self.b.PrependUOffsetTRelative(each)
                return self.b.EndVector()
            return self.b.CreateNumpyVector(np.array(value, np.int32))
        return value

    def tensor(self, name, shape, kind=FLOAT, buffer=0, *, marks=None, variable=False, scale=None, **rest):
        quantization = rest.pop("quantization", None)
        if scale is not None:
            axis = rest.pop("axis", 0)
            zeros = np.zeros(len(scale), np.int64) + rest.pop("zero", 0)
            quantization = self.table(
                "QuantizationParameters",
                scale=np.array(scale, np.float32),
                zero_point=zeros,
                quantized_dimension=axis,
            )
        return self.table(
            "Tensor",
            shape=shape,
            type=kind,
            buffer=buffer,
            name=name,
            shape_signature=marks,
            is_variable=variable,
            quantization=quantization,
            **rest,
        )

    def operator(self, code, inputs, outputs, **options):
        """`options`: one keyword, a table's name without ``Options`` → its fields."""
        fields = {}
        for name, values in options.items():
            suffix, union = ("", BUILTIN_OPTIONS) if f"{name}Options" in BUILTIN_OPTIONS else ("_2", BUILTIN_OPTIONS_2)
            fields = {
                f"builtin_options{suffix}_type": union.index(f"{name}Options"),
                f"builtin_options{suffix}": self.table(f"{name}Options", **values),
            }
        return self.table("Operator", opcode_index=code, inputs=inputs, outputs=outputs, **fields)

    def graph(self, tensors, operators, inputs, outputs, name="main"):
        return self.table("SubGraph", tensors=tensors, operators=operators, inputs=inputs, outputs=outputs, name=name)

    def finish(self, graphs, codes, buffers=(), **rest):
        """`codes`: names of builtin operators, or of custom ones with a ``:`` in front. Buffer 0 is empty."""
        made = []
        for code in codes:
            number = OPERATORS.index("CUSTOM" if code.startswith(":") else code)
            custom = code[1:] if code.startswith(":") else None
            made.append(
                self.table(
                    "OperatorCode",
                    deprecated_builtin_code=min(number, 127),
                    builtin_code=number,
                    custom_code=custom,
                )
            )
        stored = [self.table("Buffer", data=data or None) for data in (b"", *buffers)]
        description = rest.pop("description", "made by hand")
        model = self.table(
            "Model", version=3, operator_codes=made, subgraphs=graphs, buffers=stored, description=description, **rest
        )
        self.b.Finish(model, file_identifier=b"TFL3")
        return bytes(self.b.Output())


def read(tmp_path, data, **shapes):
    path = tmp_path / "m.tflite"
    path.write_bytes(data)
    return TfliteReader().read_graph(path, shapes=shapes or None)


def refuse(tmp_path, data, error=BadModel, **shapes):
    with pytest.raises(error) as caught:
        read(tmp_path, data, **shapes)
    assert "\n" not in caught.value.message
    return caught.value.message


def floats(*shape):
    return np.ones(shape, np.float32).tobytes()


def one_step(op, tensors, inputs, outputs, *, buffers=(), graph_inputs=(0,), **options):
    """A model of one operator; `tensors` makes them with a writer."""
    w = Writer()
    made = tensors(w)
    step = w.operator(0, inputs, outputs, **options)
    return w.finish([w.graph(made, [step], [*graph_inputs], outputs)], [op], buffers)


def dense(batch=(1, 4), marks=None):
    """x [1, 4] → FULLY_CONNECTED with 3 outputs and RELU6 → y."""
    w = Writer()
    tensors = [
        w.tensor("x", [*batch], marks=marks),
        w.tensor("w", [3, 4], buffer=1),
        w.tensor("b", [3], buffer=2),
        w.tensor("y", [1, 3], marks=[-1, 3] if marks else None),
    ]
    step = w.operator(0, [0, 1, 2], [3], FullyConnected={"fused_activation_function": 3, "keep_num_dims": False})
    return w.finish([w.graph(tensors, [step], [0], [3])], ["FULLY_CONNECTED"], [floats(3, 4), floats(3)])


def with_buffers_behind(data, *, least=64):
    """The TFLite file `data` with its buffers of at least so many bytes behind the flatbuffer, as above 2 GB."""
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(data, 0))
    held = [(buffer, b"" if buffer.data is None else bytes(buffer.data)) for buffer in model.buffers]
    moved = [(buffer, data) for buffer, data in held if len(data) >= least]
    for buffer, held in moved:
        buffer.data, buffer.offset, buffer.size = None, 2, len(held)

    def pack():
        builder = flatbuffers.Builder()
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    end = -len(pack()) % 16 + len(pack())  # numbers of a fixed width: the same length with the right places
    for buffer, held in moved:
        buffer.offset, end = end, end + len(held) + -len(held) % 16
    return b"".join([_padded(pack()), *(_padded(held) for _, held in moved)])


def _padded(data):
    return data + bytes(-len(data) % 16)
