"""Finds out what the loops of the Cortex-M kernels cost, by emulating generated operators of many shapes.

    python tools/sweep_mcu_operators.py [--models FILE …] [--cores cortex-m4 …]

Writes ``src/edgewise/estimating/mcu/operator_costs.json``, with which `edgewise estimate` predicts instructions without
a compiler and an emulator. Run it again when a kernel, the compiler's options or CMSIS-NN change. It takes about ten
minutes.

The costs of an operator are a sum over the loops of its kernels (`edgewise.estimating.mcu.loops`): how often a loop
runs times what one run costs. Non-negative least squares of relative errors finds the latter, on two thirds of the
operators; the file states the errors on the rest. ``--models`` prints the errors on these models besides.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from edgewise.estimating.mcu.arena import plan_arena
from edgewise.estimating.mcu.calls import FAMILIES
from edgewise.estimating.mcu.cores import CORES, Core
from edgewise.estimating.mcu.cortex_m import sample_inputs
from edgewise.estimating.mcu.costs import CLASSES, OperatorCosts
from edgewise.estimating.mcu.firmware import Emulated, emulate
from edgewise.estimating.mcu.loops import kernel_loops
from edgewise.estimating.mcu.lowering import Lowered, lower
from edgewise.estimating.mcu.network import read_network
from edgewise.estimating.mcu.table import AROUND, FILE, CostTable
from mcu_graphs import Chain, Net, spatial

OUTPUT = Path(__file__).parent.parent / "src" / "edgewise" / "estimating" / "mcu" / FILE
CHANNELS = (1, 2, 3, 4, 5, 7, 8, 10, 13, 16, 16, 24, 32, 32, 40, 48, 64, 64, 96, 128)
FILE_BYTES = 1_000_000
"""Of weights, inputs and outputs in a file: the board of the Cortex-M55 has 2 MiB of RAM."""
MOST_MACS = 400_000
HELD_OUT = 3
"""Every third operator is not fitted."""


class Sample(Chain):
    """One operator with shapes of its own, appended to `net`."""

    def __init__(self, net: Net, random: np.random.Generator) -> None:
        self.net, self.random, self.bytes = net, random, 0

    def pick(self, values: Sequence[int]) -> int:
        """One of `values`."""
        return int(self.random.choice(values))

    def between(self, low: int, high: int) -> int:
        """Return a number from `low` to `high`, spread evenly on a logarithmic scale."""
        return min(high, int(np.exp(self.random.uniform(np.log(low), np.log(high + 1)))))

    def begin(self, shape: Sequence[int]) -> None:
        """Begin with a new input of the network with this shape."""
        self.value = self.net.tensor(shape, *self.quantization(), name="x")
        self.net.inputs.append(self.value)

    def end(self) -> None:
        """Make the value an output, unless it is the input still."""
        if self.value != self.net.inputs[-1] and self.value not in self.net.outputs:
            self.net.outputs.append(self.value)

    def other(self, code: str) -> None:
        """Add an operator as the tests generate it, with larger shapes."""
        rank = 4 if code not in ("PACK", "UNPACK") else 3
        shape = [self.between(1, 24), self.between(1, 24), self.pick(CHANNELS[:15])][-rank + 1 :]
        if code in ("SOFTMAX", "FULLY_CONNECTED"):
            shape = [self.pick((1, 1, 4)), 1, self.between(2, 200)]
        if code == "SVDF":
            shape = [self.between(1, 100)]
        if code == "UNPACK":
            shape = [self.between(2, 6), self.between(1, 64)]
        if code == "TRANSPOSE_CONV":
            shape = [self.between(1, 8), self.between(1, 8), self.pick(CHANNELS[:12])]
        self.begin([1, *shape])
        if code in ("DEQUANTIZE", "QUANTIZE"):
            self.floats(code)
        else:
            getattr(self, f"op_{code.lower()}", self.unary)(code)
        self.end()

    def floats(self, code: str) -> None:
        """Add a conversion between int8 and float32."""
        made = self.net.tensor(self.shape, kind=0, name=code)
        if code == "DEQUANTIZE":
            self.net.step(code, [self.value], [made], Dequantize={})
            self.value = made
        else:
            self.net.inputs[-1] = made
            self.net.step(code, [made], [self.value], Quantize={})

    def image_of(self, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int], *, channels: int,
                 same: bool, work: int) -> list[int] | None:  # fmt: skip
        """Return a new input for a window; the sizes of the output, or None where the window does not fit."""
        most = max(1, int((MOST_MACS / (kernel[0] * kernel[1] * channels * work)) ** 0.5) * max(stride))
        size = [self.between(1, min(most, 48)) for _ in range(2)]
        if not same:
            size = [max(each, (k - 1) * d + 1) for each, k, d in zip(size, kernel, dilation, strict=True)]
        made = [spatial(*each, same) for each in zip(size, kernel, stride, dilation, strict=True)]
        if size[0] * size[1] * channels > 40_000:
            return None
        self.begin([1, *size, channels])
        return made

    def convolution(self, kind: str) -> None:
        """Add a convolution of this kind."""
        kernel, stride, dilation = {
            "pointwise": ([1, 1], [1, 1], [1, 1]),
            "strided": ([1, 1], [self.pick((1, 2, 3)), 2], [1, 1]),
            "3x3": ([3, 3], [self.pick((1, 2))] * 2, [1, 1]),
            "row": ([1, self.pick((2, 3, 5, 7))], [1, self.pick((1, 1, 2))], [1, 1]),
            "any": ([self.between(1, 7), self.between(1, 10)], [self.pick((1, 2, 3)), self.pick((1, 2))], [1, 1]),
            "dilated": ([3, self.pick((2, 3))], [1, 1], [self.pick((1, 2, 3)), 2]),
        }[kind]
        channels, out, same = self.pick(CHANNELS), self.pick(CHANNELS), self.coin(0.6)
        if kernel[0] * kernel[1] * channels * out > 30_000:
            return
        if kind == "row":
            made = [1, 4 * self.between(1, 12)]
            width = made[1] * stride[1] if same else (made[1] - 1) * stride[1] + kernel[1]
            self.begin([1, 1, width, channels])
        else:
            made = self.image_of(kernel, stride, dilation, channels=channels, same=same, work=out)
        if made is None:
            return
        inputs, scale = self.weighted([out, *kernel, channels], out, axis=0, depth=kernel[0] * kernel[1] * channels)
        options = self.options(stride, dilation, same=same)
        self.emit("CONV_2D", inputs, [1, *made, out], scale, Conv2D=options)
        self.end()

    def options(self, stride: Sequence[int], dilation: Sequence[int], *, same: bool) -> dict[str, int]:
        """Return the options of a convolution."""
        return {"padding": int(not same), "stride_h": stride[0], "stride_w": stride[1],
                "dilation_h_factor": dilation[0], "dilation_w_factor": dilation[1],
                "fused_activation_function": self.pick((0, 1, 3))}  # fmt: skip

    def depthwise(self, kind: str) -> None:
        """Add a depthwise convolution of this kind."""
        kernel, multiple, dilation = [self.between(1, 7), self.between(1, 10)], 1, [1, 1]
        if kind == "3x3":
            kernel = [3, 3]
        elif kind == "several":
            multiple = self.pick((2, 3))
        elif kind == "fours":
            multiple = self.pick((4, 8))
        elif kind == "dilated":
            kernel, dilation = [3, 3], [self.pick((1, 2)), self.pick((2, 3))]
        stride = [1, 1] if kind == "dilated" else [self.pick((1, 2))] * 2
        channels = (
            self.pick(CHANNELS if multiple == 1 else CHANNELS[:12]) if kind != "fours" else self.pick((1, 1, 3, 8))
        )
        channels = self.pick((130, 192, 256)) if kind == "3x3" and self.coin(0.1) else channels
        same = self.coin(0.7)
        made = self.image_of(kernel, stride, dilation, channels=channels, same=same, work=multiple)
        if made is None:
            return
        out = channels * multiple
        inputs, scale = self.weighted([1, *kernel, out], out, axis=3, depth=kernel[0] * kernel[1])
        options = self.options(stride, dilation, same=same) | {"depth_multiplier": multiple}
        self.emit("DEPTHWISE_CONV_2D", inputs, [1, *made, out], scale, DepthwiseConv2D=options)
        self.end()

    def dense(self) -> None:
        """Add a fully connected layer."""
        rows, depth, columns = self.pick((1, 1, 1, 3)), self.between(1, 1000), self.between(1, 130)
        if depth * columns > 40_000:
            return
        self.begin([rows, depth])
        inputs, made = self.weighted([columns, depth], columns, axis=0, depth=depth, may_vary=False)
        self.emit("FULLY_CONNECTED", inputs, [rows, columns], made, FullyConnected={"fused_activation_function": 1})
        self.end()

    def pool(self, code: str) -> None:
        """Add a pooling layer."""
        kernel, stride, same = [self.between(1, 8), self.between(1, 8)], [self.pick((1, 2, 3))] * 2, self.coin(0.4)
        made = self.image_of(kernel, stride, [1, 1], channels=(channels := self.pick(CHANNELS)), same=same, work=1)
        if made is None:
            return
        self.moved(
            code, None, [1, *made, channels],
            Pool2D={"padding": int(not same), "stride_h": stride[0], "stride_w": stride[1], "filter_height": kernel[0],
                    "filter_width": kernel[1], "fused_activation_function": self.pick((0, 1))},
        )  # fmt: skip
        self.end()


def plan(scale: float) -> list[tuple[str, str, int]]:
    """Which operators to generate: the method of `Sample`, its argument, and the number of samples."""
    rows = [("convolution", kind, 60) for kind in ("pointwise", "strided", "3x3", "row", "any", "dilated")]
    rows += [("depthwise", kind, 60) for kind in ("3x3", "3x3", "any", "several", "fours", "dilated")]
    rows += [
        ("convolution", "pointwise", 40),
        ("dense", "", 100),
        ("pool", "AVERAGE_POOL_2D", 60),
        ("pool", "MAX_POOL_2D", 60),
    ]
    rows += [("other", code, 40) for code in (
        "ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM", "PRELU", "MEAN", "SUM", "SOFTMAX", "LOGISTIC", "TRANSPOSE_CONV",
        "PAD", "RESHAPE", "SVDF", "REDUCE_MAX", "ARG_MAX", "BATCH_MATMUL", "RESIZE_BILINEAR", "L2_NORMALIZATION",
        "RSQRT", "SQUARED_DIFFERENCE",
    )]  # fmt: skip
    rows += [("other", code, 20) for code in (
        "HARD_SWISH", "QUANTIZE", "DEQUANTIZE", "PADV2", "CONCATENATION", "PACK", "UNPACK", "SPLIT", "SLICE",
        "STRIDED_SLICE", "TRANSPOSE", "BROADCAST_TO", "SPACE_TO_DEPTH", "DEPTH_TO_SPACE", "RESIZE_NEAREST_NEIGHBOR",
    )]  # fmt: skip
    return [(method, argument, round(count * scale)) for method, argument, count in rows]


def write_files(folder: Path, *, scale: float) -> list[Path]:
    """Files with all the operators, mixed, of at most `FILE_BYTES` each."""
    random = np.random.default_rng(18)
    wanted = [(method, argument) for method, argument, count in plan(scale) for _ in range(count)]
    random.shuffle(wanted)
    files, net = [], Net()
    for method, argument in wanted:
        sample = Sample(net, random)
        getattr(sample, method)(*filter(None, [argument]))
        size = sum(int(np.prod(shape)) for shape in net.shapes) + sum(map(len, net.buffers))
        if size > FILE_BYTES:
            files.append(net.finish(folder / f"{len(files)}.tflite"))
            net = Net()
    return [*files, net.finish(folder / f"{len(files)}.tflite")]


@dataclass(frozen=True, slots=True)
class Observed:
    """An operator: the loops of its kernels, and its costs in the order of `COLUMNS`."""

    loops: Mapping[str, Mapping[str, int]]
    costs: Sequence[int]


def execute(path: Path, core: Core) -> tuple[Lowered, Emulated]:
    """Return the file as C, and what the emulator counted for one random input."""
    network = read_network(path)
    plan, offsets = plan_arena(network)
    lowered = lower(network, offsets)
    inputs, arena_bytes = sample_inputs(network)[:1], plan.arena_bytes or 0
    return lowered, emulate(network, lowered, core=core, offsets=offsets, arena_bytes=arena_bytes, inputs=inputs)


def observe(path: Path, core: Core) -> tuple[list[Observed], Emulated]:
    """Return the operators of a file."""
    lowered, emulated = execute(path, core)
    found = [
        Observed(kernel_loops(call, lowered.constants, FAMILIES[core.name]), numbers_of(costs))
        for call, costs in zip(lowered.calls, emulated.costs[0], strict=True)
    ]
    return [each for each in found if each.loops], emulated


def numbers_of(costs: OperatorCosts) -> list[int]:
    """Return the costs in the order of `COLUMNS`. Raises `ValueError` where the classes were not counted."""
    if costs.classes is None or costs.flash_bytes is None:
        raise ValueError("QEMU's plug-in does not work here: run 'edgewise estimate' for the reason")
    return [*(costs.classes.get(name, 0) for name in CLASSES), costs.flash_bytes]


def fit(rows: Sequence[Observed]) -> dict[str, dict[str, list[float]]]:
    """Return what one run of each loop of each kernel costs, by non-negative least squares; kernels that meet go
    together.
    """
    groups: list[set[str]] = []
    for row in rows:
        touching = [group for group in groups if group & row.loops.keys()]
        groups = [group for group in groups if group not in touching] + [set(row.loops).union(*touching)]
    fitted: dict[str, dict[str, list[float]]] = {}
    for group in groups:
        fitted |= _fit_group([row for row in rows if row.loops.keys() <= group])
    return fitted


def _fit_group(rows: Sequence[Observed]) -> dict[str, dict[str, list[float]]]:
    columns = sorted({(kernel, loop) for row in rows for kernel, counts in row.loops.items() for loop in counts})
    design = np.array([[row.loops.get(kernel, {}).get(loop, 0) for kernel, loop in columns] for row in rows], float)
    costs = np.array([row.costs for row in rows], float)
    weights = 1 / (costs[:, : len(CLASSES)].sum(1) + AROUND)
    design *= weights[:, None]
    sizes = design.max(0)
    found = [
        nnls(design / sizes, each * weights, maxiter=100 * len(columns))[0] / sizes
        if each.any()
        else np.zeros(len(columns))
        for each in costs.T
    ]
    fitted: dict[str, dict[str, list[float]]] = defaultdict(dict)
    for (kernel, loop), *values in zip(columns, *found, strict=True):
        fitted[kernel][loop] = [float(f"{value:.5g}") if value > 1e-6 else 0.0 for value in values]
    return fitted


def table_of(core: str, rows: Sequence[Observed], emulated: Emulated) -> dict[str, Any]:
    """Return the file's contents for one core, with the errors on the operators that are held out."""
    fitted = fit([row for at, row in enumerate(rows) if at % HELD_OUT])
    most: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in rows:
        for kernel, counts in row.loops.items():
            for loop, count in counts.items():
                most[kernel][loop] = max(most[kernel][loop], count)
    kernels = {name: {"median": 0.0, "p95": 0.0, "held_out": 0, "loops": loops} for name, loops in fitted.items()}
    told = {"compiler": emulated.compiler, "most": {FAMILIES[core]: most},
            "cores": {core: {"stack_bytes": emulated.stack_bytes, "kernels": kernels}}}  # fmt: skip
    errors: dict[str, list[float]] = defaultdict(list)
    for at, row in enumerate(rows):
        if at % HELD_OUT == 0 and row.loops.keys() <= kernels.keys():
            (main,) = sorted(row.loops, key=lambda name: predicted({name: row.loops[name]}, told, core))[-1:]
            counted = sum(row.costs[: len(CLASSES)])
            errors[main].append(abs(predicted(row.loops, told, core) - counted) / (counted + AROUND))
    together = [error for found in errors.values() for error in found]
    for name, kernel in kernels.items():
        found = errors.get(name, together)
        kernel |= {"median": round(float(np.median(found)), 4), "held_out": len(errors.get(name, ())),
                          "p95": round(float(np.quantile(found, 0.95)), 4)}  # fmt: skip
    return told


def predicted(loops: Mapping[str, Mapping[str, int]], told: Mapping[str, Any], core: str) -> int:
    """Instructions of an operator by the table."""
    return CostTable(**told).costs_of(loops, core).costs.instructions


def print_errors(told: Mapping[str, Any], core: Core, models: Sequence[Path]) -> None:
    """Print the errors per kernel and per model, as Markdown."""
    print(f"\n{core.title}\n\n| Kernel | Operators held out | Median error | 95th percentile |\n|---|---|---|---|")
    for name, kernel in sorted(told["cores"][core.name]["kernels"].items()):
        print(f"| `{name}` | {kernel['held_out']} | {kernel['median']:.2%} | {kernel['p95']:.2%} |")
    for path in models:
        lowered, emulated = execute(path, core)
        ours = sum(each.costs.instructions for each in CostTable(**told).predict(lowered, core.name))
        counted = sum(each.instructions for each in emulated.costs[0])
        print(f"| {path.stem} | {counted:,} counted | {ours:,} predicted | {ours / counted - 1:+.2%} |", flush=True)


def main() -> int:
    """Sweep the cores of the command line, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", type=Path, default=[], help="int8 .tflite models to print the errors on")
    parser.add_argument("--cores", nargs="+", choices=list(FAMILIES), default=list(FAMILIES), help="others are kept")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the number of operators (default: 1)")
    arguments = parser.parse_args()
    found = json.loads(OUTPUT.read_text()) if OUTPUT.exists() else {"cores": {}, "most": {}}
    with tempfile.TemporaryDirectory() as folder:
        files = write_files(Path(folder), scale=arguments.scale)
        for name in arguments.cores:
            observed = [observe(path, CORES[name]) for path in files]
            deepest = max((emulated for _, emulated in observed), key=lambda each: each.stack_bytes)
            told = table_of(name, [row for rows, _ in observed for row in rows], deepest)
            print_errors(told, CORES[name], arguments.models)
            found["compiler"] = told["compiler"]
            found["cores"] |= told["cores"]
            found["most"] |= told["most"]
            OUTPUT.write_text(json.dumps(found, separators=(",", ":")).replace('"loops":', '\n"loops":') + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
