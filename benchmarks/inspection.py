"""What inspecting an ONNX model takes: time against onnx-tool, memory against the file, bytes read of external weights.

python benchmarks/inspection.py [PYTHON]

PYTHON is an interpreter that has the package onnx-tool (the fastest peer); by default this one, and without the package
only our own times are printed. Both sides time themselves in processes of their own, beyond imports, in turns.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from models import light_onnx
from onnx import TensorProto, helper, numpy_helper

LIGHT = ("bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet", "squeezenet", "vgg19",
         "zfnet512")  # fmt: skip
ROUNDS, REPEATS = 5, 5

OURS = """
import json, sys, time
from pathlib import Path
from edgewise.model.cost import total_of
from edgewise.model.memory_plan import plan_memory
from edgewise.model.readers.onnx import OnnxReader

def inspect(path):
    begin = time.perf_counter()
    graph = OnnxReader().read_graph(Path(path))
    read = time.perf_counter()
    macs = total_of(graph).macs
    counted = time.perf_counter()
    plan_memory(graph)
    return read - begin, counted - read, time.perf_counter() - counted, macs
"""
PEERS = """
import contextlib, io, json, sys, time
import onnx_tool

def inspect(path):
    begin = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        model = onnx_tool.Model(path, {})
        model.graph.shape_infer(None)
        model.graph.profile()
    return time.perf_counter() - begin, model.graph.macs[0]
"""
TIMED = """
repeats, paths = int(sys.argv[1]), sys.argv[2:]
for path in paths:
    inspect(path)
print(json.dumps([[inspect(path) for _ in range(repeats)] for path in paths]))
"""
MEMORY = """
def high_water():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) * 1024

def read_bytes():
    return int(next(line for line in open("/proc/self/io") if line.startswith("rchar")).split()[1])

import onnx.shape_inference, numpy
before, bytes_before = high_water(), read_bytes()
inspect(sys.argv[1])
print(json.dumps([before, high_water(), read_bytes() - bytes_before]))
"""


def make_mobilenet(path: Path) -> Path:
    """MobileNetV2 (https://arxiv.org/abs/1801.04381) with random weights and folded normalisation, 14 MB."""
    rng = np.random.default_rng(0)
    nodes: list[Any] = []
    weights: list[Any] = [numpy_helper.from_array(np.float32(limit), name) for name, limit in (("low", 0), ("high", 6))]

    def convolve(fed: str, shape: tuple[int, ...], *, stride: int = 1, group: int = 1, bounded: bool = True) -> str:
        name = f"conv{len(nodes)}"
        for suffix, sizes in (("w", shape), ("b", shape[:1])):
            weights.append(numpy_helper.from_array(rng.normal(0, 0.1, sizes).astype(np.float32), f"{name}_{suffix}"))
        options = {"strides": [stride] * 2, "pads": [shape[2] // 2] * 4, "group": group, "kernel_shape": shape[2:]}
        nodes.append(helper.make_node("Conv", [fed, f"{name}_w", f"{name}_b"], [name], name=name, **options))
        if bounded:
            nodes.append(helper.make_node("Clip", [name, "low", "high"], [f"{name}_6"]))
        return f"{name}_6" if bounded else name

    value, channels = convolve("x", (32, 3, 3, 3), stride=2), 32
    for expansion, wide, count, first_stride in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    ):  # fmt: skip
        for index in range(count):
            stride, hidden, fed = first_stride if index == 0 else 1, channels * expansion, value
            if expansion > 1:
                value = convolve(value, (hidden, channels, 1, 1))
            value = convolve(value, (hidden, 1, 3, 3), stride=stride, group=hidden)
            value = convolve(value, (wide, hidden, 1, 1), bounded=False)
            if stride == 1 and channels == wide:
                nodes.append(helper.make_node("Add", [fed, value], [f"{value}_sum"]))
                value = f"{value}_sum"
            channels = wide
    value = convolve(value, (1280, channels, 1, 1))
    weights.append(numpy_helper.from_array(rng.normal(0, 0.1, (1280, 1000)).astype(np.float32), "classes"))
    nodes += [
        helper.make_node("GlobalAveragePool", [value], ["pooled"]), helper.make_node("Flatten", ["pooled"], ["flat"]),
        helper.make_node("Gemm", ["flat", "classes"], ["y"]),
    ]  # fmt: skip
    return save(path, nodes, weights, ([1, 3, 224, 224], [1, 1000]))


def save(path: Path, nodes: list[Any], weights: list[Any], shapes: tuple[list[int], list[int]]) -> Path:
    """One model with the input x and the output y."""
    inputs, outputs = (
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)]
        for name, shape in zip("xy", shapes, strict=True)
    )
    graph = helper.make_graph(nodes, path.stem, inputs, outputs, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), path)
    return path


def make_heavy(path: Path, *, external: bool) -> Path:
    """Matrix products of 64 MiB each: four inside the file, or sixteen (1 GiB) in a sparse file beside it."""
    weights, nodes = [], []
    for index in range(16 if external else 4):
        tensor = TensorProto(name=f"w{index}", data_type=TensorProto.FLOAT, dims=[4096, 4096])
        if external:
            tensor.data_location = TensorProto.EXTERNAL
            for key, given in (("location", "weights.bin"), ("offset", index * 2**26), ("length", 2**26)):
                tensor.external_data.add(key=key, value=str(given))
        else:
            tensor.raw_data = bytes(2**26)
        weights.append(tensor)
        nodes.append(helper.make_node("MatMul", [f"a{index}" if index else "x", f"w{index}"], [f"a{index + 1}"]))
    nodes.append(helper.make_node("Relu", [nodes[-1].output[0]], ["y"]))
    if external:
        with (path.parent / "weights.bin").open("wb") as file:
            file.truncate(2**30)
    return save(path, nodes, weights, ([1, 4096], [1, 4096]))


def ask(python: str, script: str, *arguments: str) -> Any:
    """Return what a script in a fresh process prints, None where it fails."""
    done = subprocess.run([python, "-c", script, *arguments], capture_output=True, text=True, check=False)
    if done.returncode and script.startswith(OURS):
        raise RuntimeError(done.stderr)
    return None if done.returncode else json.loads(done.stdout)


def compare(python: str, models: dict[str, Path]) -> None:
    """Print medians of both sides' times for every model, and ratios."""
    paths = [str(path) for path in models.values()]
    ours: list[list[Any]] = [[] for _ in paths]
    peers: list[list[Any]] = [[] for _ in paths]
    for _ in range(ROUNDS):
        for found, interpreter, script in ((ours, sys.executable, OURS), (peers, python, PEERS)):
            answer = ask(interpreter, script + TIMED, str(REPEATS), *paths)
            for times, more in zip(found, answer or [[]] * len(paths), strict=True):
                times.extend(more)
    if not all(peers):
        print(f"onnx-tool is not installed for {python}: times without a peer")
    print(
        f"{'model':14}{'read ms':>9}{'count ms':>9}{'plan ms':>9}{'onnx-tool ms':>14}{'ratio':>8}{'without plan':>14}"
    )
    for name, mine, theirs in zip(models, ours, peers, strict=True):
        read, count, plan = (statistics.median(row[at] for row in mine) for at in range(3))
        line = f"{name:14}{read * 1e3:9.1f}{count * 1e3:9.1f}{plan * 1e3:9.1f}"
        if theirs:
            peer = statistics.median(row[0] for row in theirs)
            line += f"{peer * 1e3:14.1f}{(read + count + plan) / peer:8.2f}{(read + count) / peer:14.2f}"
        print(line)


def main() -> int:
    python = sys.argv[1] if len(sys.argv) > 1 else sys.executable
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        mobilenet = make_mobilenet(here / "mobilenet_v2.onnx")
        compare(python, {"mobilenet_v2": mobilenet, **{name: light_onnx(name) for name in LIGHT}})
        print("a fresh process that has imported onnx, and what it takes more at its highest to inspect:")
        inside, outside = make_heavy(here / "inside.onnx", external=False), make_heavy(here / "out.onnx", external=True)
        for path, beside in ((mobilenet, 0), (inside, 0), (outside, 2**30)):
            before, after, read = ask(sys.executable, OURS + MEMORY, str(path))
            size = path.stat().st_size
            print(
                f"  {path.name} of {size / 1e6:.1f} MB{f' and {beside / 1e6:.0f} MB beside it' if beside else ''}: "
                f"{before / 1e6:.0f} MB + {(after - before) / 1e6:.1f} MB; bytes read by calls {read:,}"
            )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
