"""A net as the files that a user would have, ONNX and TFLite, what stands beside them, and what the files answer."""

from __future__ import annotations

import contextlib
import hashlib
import io
import logging
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

Array = np.ndarray[Any, np.dtype[Any]]

OPSET = 17
INPUT, OUTPUT = "image", "logits"


def export_onnx(model: nn.Module, example: torch.Tensor, path: Path) -> None:
    """One file, weights inside, the batch fixed to that of `example`: torch's exporter as it is by default.

    Raises:
        RuntimeError: the file has another opset than `OPSET`.
    """
    import onnx

    program = torch.onnx.export(
        model.eval(), (example,), dynamo=True, opset_version=OPSET, verbose=False,
        input_names=[INPUT], output_names=[OUTPUT],
    )  # fmt: skip
    assert program is not None  # it is where the exporter is given no path
    program.save(str(path), external_data=False)
    written = onnx.load(path)
    opsets = {each.domain or "ai.onnx": each.version for each in written.opset_import}
    if opsets != {"ai.onnx": OPSET}:
        raise RuntimeError(f"{path.name} has the operator sets {opsets}, not {OPSET}")
    onnx.checker.check_model(written, full_check=True)


def export_tflite(model: nn.Module, example: torch.Tensor, path: Path) -> None:
    """Float32, the same input as the ONNX file."""
    import litert_torch

    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        litert_torch.convert(model.eval(), (example,)).export(str(path))


def write_instructions(path: Path, *, steps: Sequence[str], classes: Sequence[str] = ()) -> None:
    """How `edgewise evaluate` and `edgewise optimize` feed the files of the same name, one line a step."""
    lines = ["edgewise: 1"]
    if classes:
        lines += ["task: classification", f"classes: [{', '.join(classes)}]"]
    lines += ["inputs:", *(f"  - {step}" for step in steps)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def answer_torch(model: nn.Module, inputs: Array, *, batch: int = 256) -> Array:
    """Return outputs (n, classes) of inputs (n, …)."""
    with torch.inference_mode():
        parts = [model.eval()(torch.from_numpy(inputs[at : at + batch])) for at in range(0, len(inputs), batch)]
    return np.concatenate([part.numpy() for part in parts])


def answer_onnx(path: Path, inputs: Array) -> Array:
    """Return outputs (n, classes) of inputs (n, …), one at a time on one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return np.concatenate([session.run(None, {INPUT: each[None]})[0] for each in inputs])


def answer_tflite(path: Path, inputs: Array) -> Array:
    """Return outputs (n, classes) of inputs (n, …), one at a time on one thread."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=str(path), num_threads=1)
    interpreter.allocate_tensors()
    place, result = interpreter.get_input_details()[0]["index"], interpreter.get_output_details()[0]["index"]
    outputs = []
    for each in inputs:
        interpreter.set_tensor(place, each[None])
        interpreter.invoke()
        outputs.append(interpreter.get_tensor(result))
    return np.concatenate(outputs)


def count_parameters(model: nn.Module) -> int:
    """Of all trained or drawn values; the statistics of batch normalisations are not among them."""
    return sum(each.numel() for each in model.parameters())


def count_macs(model: nn.Module, example: torch.Tensor) -> int:
    """Multiply-accumulates of convolutions and matrix products for one `example` of batch 1."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model.eval()(example)
    return int(counter.get_total_flops()) // 2


def hash_file(path: Path) -> str:
    """Its sha256."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def hush() -> None:
    """Keep the exporters' chatter off the terminal."""
    for name in ("torch.onnx", "onnxscript", "onnx_ir", "torch.export"):
        logging.getLogger(name).setLevel(logging.ERROR)
