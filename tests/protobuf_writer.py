"""Models of TensorFlow and Paddle for tests, written as protobuf bytes, which know nothing of the readers.

Numbers of fields are those of tensorflow/core/framework/*.proto, tensorflow/core/protobuf/*.proto and
paddle/fluid/framework/framework.proto.
"""

from __future__ import annotations

import struct

import numpy as np

FLOAT = 1
"""``DT_FLOAT`` of TensorFlow."""
PADDLE_FLOAT, PADDLE_TENSOR, PADDLE_FEED, PADDLE_FETCH = 5, 7, 9, 10


def varint(value):
    value &= 2**64 - 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def message(*fields):
    """Bytes of (number, value) pairs: whole numbers, text, or the bytes of another message."""
    found = b""
    for number, value in fields:
        if isinstance(value, int):
            found += varint(number << 3) + varint(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            found += varint(number << 3 | 2) + varint(len(data)) + data
    return found


def node(name, op, *inputs, **attributes):
    """A ``NodeDef``."""
    entries = [(5, message((1, key), (2, value))) for key, value in attributes.items()]
    return 1, message((1, name), (2, op), *((3, each) for each in inputs), *entries)


def shape(*sizes):
    return message(*((2, message((1, size))) for size in sizes))


def constant(name, values):
    data = np.asarray(values, np.float32)
    tensor = message((1, FLOAT), (2, shape(*data.shape)), (4, data.tobytes()))
    return node(name, "Const", dtype=message((6, FLOAT)), value=message((8, tensor)))


def tensorflow_graph(width=4, classes=2):
    """A frozen ``GraphDef``: y = relu(x @ ones), x of shape [?, width]."""
    kind = message((6, FLOAT))
    return message(
        node("x", "Placeholder", dtype=kind, shape=message((7, shape(-1, width)))),
        constant("w", np.ones((width, classes))),
        node("result", "MatMul", "x", "w", T=kind),
        node("y", "Relu", "result", T=kind),
        (4, message((1, 987))),
    )


def saved_model(folder, **sizes):
    """The folder of a SavedModel of `tensorflow_graph`, without variables; answers the folder."""

    def described(name, *dims):
        return message((1, name), (2, FLOAT), (3, shape(*dims)))

    serving = message(
        (1, message((1, "image"), (2, described("x:0", -1, sizes.get("width", 4))))),
        (2, message((1, "scores"), (2, described("y:0", -1, sizes.get("classes", 2))))),
        (3, "tensorflow/serving/predict"),
    )
    graph = message(
        (1, message((4, "serve"), (5, "2.19.0"))),
        (2, tensorflow_graph(**sizes)),
        (5, message((1, "serving_default"), (2, serving))),
    )
    folder.mkdir()
    (folder / "saved_model.pb").write_bytes(message((1, 1), (2, graph)))
    return folder


def paddle_model(path, *, width=4, classes=2):
    """``NAME.pdmodel`` and ``NAME.pdiparams``: y = relu(x @ ones), x of shape [?, width]; answers the first."""

    def variable(name, kind, *sizes, kept=False):
        tensor = message((1, PADDLE_FLOAT), *((2, size) for size in sizes))
        detail = [(3, message((1, tensor)))] if kind == PADDLE_TENSOR else []
        return 3, message((1, name), (2, message((1, kind), *detail)), (3, int(kept)))

    def ends(number, **names):
        return [(number, message((1, key), (2, value))) for key, value in names.items()]

    def operator(kind, inputs, outputs, *attributes):
        return 4, message(*ends(1, **inputs), *ends(2, **outputs), (3, kind), *((4, each) for each in attributes))

    def flag(name, number, kind, value):
        return message((1, name), (2, kind), (number, value))

    block = message(
        (1, 0),
        (2, -1),
        variable("feed", PADDLE_FEED, kept=True),
        variable("fetch", PADDLE_FETCH, kept=True),
        variable("x", PADDLE_TENSOR, -1, width),
        variable("w", PADDLE_TENSOR, width, classes, kept=True),
        variable("result", PADDLE_TENSOR, -1, classes),
        variable("y", PADDLE_TENSOR, -1, classes),
        operator("feed", {"X": "feed"}, {"Out": "x"}, flag("col", 3, 0, 0)),
        operator("matmul_v2", {"X": "x", "Y": "w"}, {"Out": "result"},
                 flag("trans_x", 10, 6, 0), flag("trans_y", 10, 6, 0)),
        operator("relu", {"X": "result"}, {"Out": "y"}),
        operator("fetch", {"X": "y"}, {"Out": "fetch"}, flag("col", 3, 0, 0)),
    )  # fmt: skip
    path.write_bytes(message((1, block), (4, message((1, 0)))))
    described = message((1, PADDLE_FLOAT), (2, width), (2, classes))
    # uint32 version, uint64 levels of detail, uint32 version of the tensor, int32 length of what describes it.
    head = struct.pack("<IQIi", 0, 0, 0, len(described))
    path.with_suffix(".pdiparams").write_bytes(head + described + np.ones((width, classes), np.float32).tobytes())
    return path
