"""PyTorch exports for tests, written without PyTorch: the JSON of ``torch.export.save``, in either of its layouts."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

FLOAT, LONG = 7, 5


def size(value: int | str) -> dict[str, Any]:
    """A SymInt: a number, or an expression of symbols."""
    return {"as_int": value} if isinstance(value, int) else {"as_expr": {"expr_str": value, "hint": {"as_int": 2}}}


def meta(*sizes: int | str, dtype: int = FLOAT) -> dict[str, Any]:
    return {"dtype": dtype, "sizes": [size(each) for each in sizes], "requires_grad": False, "layout": 7}


def tensor(name: str) -> dict[str, Any]:
    return {"as_tensor": {"name": name}}


def node(target: str, arguments: dict[str, Any], *outputs: str, module: str = "") -> dict[str, Any]:
    """A step; arguments are unions, or names of tensors where they are text."""
    stack = {"nn_module_stack": f"L['self'],,M;L['self'].{module},{module},torch.nn.Module"} if module else {}
    return {
        "target": f"torch.ops.{target}",
        "inputs": [
            {"name": name, "arg": tensor(value) if isinstance(value, str) else value, "kind": 1}
            for name, value in arguments.items()
        ],
        "outputs": [tensor(name) for name in outputs],
        "metadata": stack,
        "name": outputs[0] if outputs else None,
    }


def graph(
    nodes: list[Any], tensors: dict[str, Any], inputs: list[str], outputs: list[str], **more: Any
) -> dict[str, Any]:
    return {
        "inputs": [tensor(name) for name in inputs],
        "outputs": [tensor(name) for name in outputs],
        "nodes": nodes,
        "tensor_values": tensors,
        "sym_int_values": {},
        "sym_bool_values": {},
        **more,
    }


def program(
    body: dict[str, Any], *, parameters: dict[str, str] | None = None, buffers: dict[str, str] | None = None,
    mutated: dict[str, str] | None = None, ranges: dict[str, Any] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """A whole program around the graph `body`.

    Args:
        parameters, buffers: the program's name → the module's.
        mutated: the output that a buffer takes → the buffer's name.
    """
    kept = {**(parameters or {}), **(buffers or {})}
    specs: list[Any] = []
    for entry in body["inputs"]:
        name = entry["as_tensor"]["name"]
        if name in (parameters or {}):
            specs.append({"parameter": {"arg": {"name": name}, "parameter_name": kept[name]}})
        elif name in (buffers or {}):
            specs.append({"buffer": {"arg": {"name": name}, "buffer_name": kept[name], "persistent": True}})
        else:
            specs.append({"user_input": {"arg": tensor(name)}})
    made = [
        {"buffer_mutation": {"arg": {"name": each["as_tensor"]["name"]}, "buffer_name": mutated[each["as_tensor"]["name"]]}}
        if mutated and each["as_tensor"]["name"] in mutated
        else {"user_output": {"arg": each}}
        for each in body["outputs"]
    ]  # fmt: skip
    return {
        "graph_module": {
            "graph": body,
            "signature": {"input_specs": specs, "output_specs": made},
            "module_call_graph": [],
        },
        "opset_version": {"aten": 10},
        "range_constraints": ranges or {},
        "schema_version": {"major": 8, "minor": 20},
        "torch_version": "2.13.0",
    }


def small_network() -> dict[str, Any]:
    """x [n, 3, 8, 8] → convolution to 4 channels, ReLU, mean, linear to 5."""
    n = "Symbol('n', positive=True, integer=True)"
    body = graph(
        [
            node("aten.sym_size.int", {"self": "x", "dim": {"as_int": 0}}),
            node(
                "aten.conv2d.default",
                {"input": "x", "weight": "p_c", "bias": "p_b", "stride": {"as_ints": [1, 1]}, "padding": {"as_ints": [1, 1]}},
                "conv", module="features.0",
            ),
            node("aten.relu.default", {"self": "conv"}, "relu"),
            node("aten.mean.dim", {"self": "relu", "dim": {"as_ints": [2, 3]}}, "mean"),
            node("aten.permute.default", {"self": "p_l", "dims": {"as_ints": [1, 0]}}, "turned"),
            node("aten.mm.default", {"self": "mean", "mat2": "turned"}, "y"),
        ],
        {
            "x": meta(n, 3, 8, 8), "p_c": meta(4, 3, 3, 3), "p_b": meta(4), "p_l": meta(5, 4), "conv": meta(n, 4, 8, 8),
            "relu": meta(n, 4, 8, 8), "mean": meta(n, 4), "turned": meta(4, 5), "y": meta(n, 5),
        },
        ["p_c", "p_b", "p_l", "x"],
        ["y"],
    )  # fmt: skip
    names = {"p_c": "features.0.weight", "p_b": "features.0.bias", "p_l": "head.weight"}
    return program(body, parameters=names, ranges={"n": {"min_val": 1, "max_val": 16}})


def write_program(path: Path, document: Any, *, layout: str = "new", compression: int = zipfile.ZIP_STORED) -> Path:
    """A ``.pt2`` with `document`, which may also be the bytes of a JSON text."""
    content = document if isinstance(document, bytes) else json.dumps(document).encode()
    with zipfile.ZipFile(path, "w", compression) as archive:
        if layout == "old":
            archive.writestr("version", "8.2")
            archive.writestr("serialized_exported_program.json", content)
            archive.writestr("serialized_state_dict.pt", b"\x80\x02not a pickle that anybody opens.")
        else:
            archive.writestr("m/data/weights/weight_0", b"\0" * 432)
            archive.writestr("m/models/model.json", content)
            archive.writestr("m/data/sample_inputs/model.pt", b"\x80\x02not a pickle that anybody opens.")
            archive.writestr("m/archive_format", "pt2")
    return path
