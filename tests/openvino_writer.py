"""OpenVINO IR for tests, written as text; what it says is up to the test."""

from __future__ import annotations

import pytest

from edgewise.errors import BadModel
from edgewise.model.readers.openvino import OpenVinoReader


def port(number, dims, precision="FP32", names=""):
    named = f' names="{names}"' if names else ""
    sizes = "".join(f"<dim>{size}</dim>" for size in dims)
    return f'<port id="{number}" precision="{precision}"{named}>{sizes}</port>'


def layer(number, kind, inputs=(), outputs=(), *, name="", rest="", version="opset1", extra="", **options):
    written = "".join(f' {key}="{value}"' for key, value in options.items())
    return (
        f'<layer id="{number}" name="{name or f"{kind}_{number}"}" type="{kind}" version="{version}"{extra}>'
        f"<data{written}/>{rest}<input>{''.join(inputs)}</input><output>{''.join(outputs)}</output></layer>"
    )


def parameter(number, dims, *, shape=None, dtype="f32", names="", **options):
    text = ",".join(map(str, dims)) if shape is None else shape
    seen = [size if isinstance(size, int) else -1 for size in dims]
    return layer(number, "Parameter", (), [port(0, seen, names=names)], shape=text, element_type=dtype, **options)


def const(number, dims, offset, size, *, dtype="f32", precision="FP32", **options):
    text = ", ".join(map(str, dims))
    return layer(
        number, "Const", (), [port(0, dims, precision)],
        element_type=dtype, shape=text, offset=offset, size=size, **options,
    )  # fmt: skip


def result(number, dims, **options):
    return layer(number, "Result", [port(0, dims)], **options)


def relu(number, dims=(2, 3), **options):
    return layer(number, "ReLU", [port(0, dims)], [port(1, dims)], **options)


def edges(*ends):
    line = '<edge from-layer="{}" from-port="{}" to-layer="{}" to-port="{}"/>'
    return "".join(line.format(*end) for end in ends)


def network(layers, *ends):
    return f"<layers>{''.join(layers)}</layers><edges>{edges(*ends)}</edges>"


class Ir:
    """Writes an IR and reads its network."""

    def __init__(self, folder):
        self.path = folder / "m.xml"

    def read(self, layers, *ends, weights=b"", info="", shapes=None, version=11):
        head = f'<?xml version="1.0"?><net name="m" version="{version}">'
        self.path.write_text(f"{head}{network(layers, *ends)}{info}</net>")
        self.path.with_suffix(".bin").write_bytes(weights)
        return OpenVinoReader().read_graph(self.path, shapes=shapes)

    def refuse(self, *arguments, **options):
        """The message of the refusal."""
        with pytest.raises(BadModel) as caught:
            self.read(*arguments, **options)
        assert "\n" not in caught.value.message
        return caught.value.message
