"""Which of a model's operators the steps of XNNPACK execute, as LiteRT's delegate hands them over.

XNNPACK tells the type of each of its steps and nothing else. The delegate translates the operators of a partition one
after the other, each into one step that computes and, for some, steps around it: a fully connected layer reshapes its
input first, an addition with an activation clamps afterwards, a layer with dynamic quantisation converts its input.
XNNPACK may then drop steps that only rename or pad. So the steps that compute must stand for exactly the operators
that compute, in order; only then, and only where the steps between them leave no choice, they are given a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from edgewise.runtime.base import Role

_STEPS: Mapping[tuple[str, ...], str] = {
    ("convolution",): "Convolution", ("transposed-convolution",): "Deconvolution",
    # A convolution with a 1 × 1 filter runs as a fully connected layer over all pixels.
    ("matrix-multiplication", "convolution"): "Fully Connected|Dynamic Fully Connected",
    ("matrix-multiplication",): "Batch Matrix Multiply", ("pooling", "reduction"): "Average Pooling",
    ("pooling",): "Max Pooling|ArgMax Pooling", ("pooling", "movement"): "Unpooling",
    ("reduction", "pooling"): "Mean|Mean Squared|Sum|Reduce Max|Reduce Min", ("softmax",): "Softmax",
    ("normalization",): "Normalize", ("resize",): "Resize Bilinear",
    ("quantize", "dequantize", "elementwise"): "Convert",
    ("elementwise", "activation", "normalization"): "Add|Subtract|Multiply|Divide|Maximum|Minimum|Squared Difference|"
    "Modulus|Power|ATan2|Copy Sign|Binary Elementwise|Bitwise And|Bitwise Or|Bitwise Xor|Shift Left|"
    "Shift Right Arithmetic|Shift Right Logical",
    ("activation", "elementwise"): "Clamp|Sigmoid|TanH|HardSwish|ELU|GELU|ApproxGELU|LeakyReLU|PReLU|Abs|Negate|Exp|"
    "Log|Sine|Cosine|Square|Square Root|Cube Root|Reciprocal Square Root|Floor|Ceiling|Bankers Rounding|"
    "Bankders Rounding|Sign|Bitwise Not|Count Leading Zeros|Population Count|Unary Elementwise",
    ("movement",): "Copy|Constant Pad|Slice|Transpose|Depth To Space|Space To Depth|Static Reshape|Static Expand Dims|"
    "Fuse Dims|Split Dims|Pack LH",
}  # fmt: skip
KINDS_OF_STEPS = {step: kinds for kinds, steps in _STEPS.items() for step in steps.split("|")}
"""Type of an XNNPACK step → kinds of operators (`edgewise.model.cost.KINDS`) that it may execute."""

_COMPUTING: Mapping[str, frozenset[str]] = {
    name: frozenset(types.split("|"))
    for name, types in {
        "CONV_2D": "Convolution|Fully Connected", "DEPTHWISE_CONV_2D": "Convolution",
        "TRANSPOSE_CONV": "Deconvolution", "FULLY_CONNECTED": "Fully Connected|Dynamic Fully Connected",
        "BATCH_MATMUL": "Batch Matrix Multiply", "AVERAGE_POOL_2D": "Average Pooling|Mean",
        "MAX_POOL_2D": "Max Pooling", "MEAN": "Mean|Average Pooling", "SUM": "Sum", "REDUCE_MAX": "Reduce Max",
        "REDUCE_MIN": "Reduce Min", "SOFTMAX": "Softmax", "RESIZE_BILINEAR": "Resize Bilinear", "ADD": "Add",
        "SUB": "Subtract", "MUL": "Multiply", "DIV": "Divide", "MAXIMUM": "Maximum", "MINIMUM": "Minimum",
        "SQUARED_DIFFERENCE": "Squared Difference", "LOGISTIC": "Sigmoid", "TANH": "TanH", "HARD_SWISH": "HardSwish",
        "ELU": "ELU", "GELU": "GELU|ApproxGELU", "LEAKY_RELU": "LeakyReLU", "PRELU": "PReLU", "ABS": "Abs",
        "NEG": "Negate", "EXP": "Exp", "LOG": "Log", "SQRT": "Square Root", "RSQRT": "Reciprocal Square Root",
        "SQUARE": "Square", "FLOOR": "Floor", "CEIL": "Ceiling", "SIN": "Sine", "COS": "Cosine",
        "DEPTH_TO_SPACE": "Depth To Space", "SPACE_TO_DEPTH": "Space To Depth",
    }.items()
}  # fmt: skip
"""Operator that computes → types of the one step that does it."""

#: what it does → types of steps that may come with another or be dropped
_FREE_STEPS: Mapping[str, str] = {
    step: purpose
    for purpose, steps in {
        "reshape": "Static Reshape|Static Expand Dims|Fuse Dims|Split Dims", "pad": "Constant Pad",
        "transpose": "Transpose", "convert": "Convert", "clamp": "Clamp", "copy": "Copy|Slice", "pack": "Pack LH",
    }.items()
    for step in steps.split("|")
}  # fmt: skip
#: what it does → operators that XNNPACK may merge, drop or run as a step of their own
_FREE_OPERATORS: Mapping[str, str] = {
    operator: purpose
    for purpose, operators in {
        "reshape": "RESHAPE SQUEEZE EXPAND_DIMS", "pad": "PAD PADV2", "transpose": "TRANSPOSE",
        "convert": "QUANTIZE DEQUANTIZE CAST", "clamp": "RELU RELU6 RELU_N1_TO_1 RELU_0_TO_1",
        "copy": "CONCATENATION SLICE STRIDED_SLICE SPLIT",
    }.items()
    for operator in operators.split()
}  # fmt: skip

_DTYPES: Mapping[str, str] = {
    "F32": "float32", "F16": "float16", "BF16": "bfloat16", "PF32": "float32", "PF16": "float16",
    "QS8": "int8", "QC8": "int8", "QD8": "int8", "QP8": "int8", "PQS8": "int8", "S8": "int8",
    "QU8": "uint8", "U8": "uint8",
    "QDU8": "int8",  # the input is quantised to unsigned numbers as it comes; the weights are signed
}  # fmt: skip
"""XNNPACK's word for the type of a step's first operand → numpy's name of the type it multiplies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteRtOperator:
    """An operator of the model as the interpreter lists it.

    Attributes:
        index: in the model's order.
        op: ``CONV_2D`` …
        output: name of its first output, or "" where that is not a name of its own.
    """

    index: int
    op: str
    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMeaning:
    """What a step does, as far as it is certain."""

    role: Role = "operator"
    kinds: tuple[str, ...] = ()
    originals: tuple[str, ...] = ()
    dtype: str | None = None


def type_of(tag: str) -> str:
    """``Convolution`` of ``Convolution (NHWC, QC8) IGEMM``."""
    return tag.split(" (", 1)[0]


def dtype_of(tag: str) -> str | None:
    """Return the type of the arithmetic; None where the tag tells none (``Add (ND)``) or the step changes the type."""
    found = re.search(r"\((?:NC|NHWC|NCHW|ND), (\w+)", tag)
    if found is None or type_of(tag) == "Convert":
        return None
    return _DTYPES.get(found[1])


def interpret_steps(tags: Sequence[str], operators: Sequence[LiteRtOperator]) -> list[StepMeaning]:
    """Return what the steps of one partition do.

    Args:
        tags: of the steps, in order.
        operators: those that the partition replaced, in the model's order; empty where they aren't known.
    """
    names = _names(tags, operators)
    return [_meaning(tag, name, operators) for tag, name in zip(tags, names, strict=True)]


def _meaning(tag: str, original: LiteRtOperator | None, operators: Sequence[LiteRtOperator]) -> StepMeaning:
    # The model asks for conversions only by operators of their own.
    own = original is not None and _FREE_OPERATORS.get(original.op) == "convert"
    asked = own or not operators or any(_FREE_OPERATORS.get(each.op) == "convert" for each in operators)
    return StepMeaning(
        role="precision" if type_of(tag) == "Convert" and not asked else "operator",
        kinds=KINDS_OF_STEPS.get(type_of(tag), ()),
        originals=(original.output,) if original is not None and original.output else (),
        dtype=dtype_of(tag),
    )


def _names(tags: Sequence[str], operators: Sequence[LiteRtOperator]) -> list[LiteRtOperator | None]:
    names: list[LiteRtOperator | None] = [None] * len(tags)
    computing_steps = [at for at, tag in enumerate(tags) if type_of(tag) not in _FREE_STEPS]
    computing = [at for at, each in enumerate(operators) if each.op not in _FREE_OPERATORS]
    pairs = list(zip(computing_steps, computing, strict=False))
    fits = all(type_of(tags[step]) in _COMPUTING.get(operators[at].op, ()) for step, at in pairs)
    if len(computing_steps) != len(computing) or not fits:
        return names
    for step, at in pairs:
        names[step] = operators[at]
    fixed = [(-1, -1), *pairs, (len(tags), len(operators))]
    for (step, at), (next_step, next_at) in pairwise(fixed):
        between = _Gap(
            before=operators[at] if at >= 0 else None,
            after=operators[next_at] if next_at < len(operators) else None,
            operators=operators[at + 1 : next_at],
        )
        for place, name in between.name(range(step + 1, next_step), tags):
            names[place] = name
    return names


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gap:
    """What lies between two operators that compute."""

    before: LiteRtOperator | None
    after: LiteRtOperator | None
    operators: Sequence[LiteRtOperator]

    def name(self, steps: Iterable[int], tags: Sequence[str]) -> list[tuple[int, LiteRtOperator]]:
        """Return steps with the operator each belongs to, where only one comes into question."""
        by_purpose: dict[str, list[int]] = {}
        for at in steps:
            by_purpose.setdefault(_FREE_STEPS[type_of(tags[at])], []).append(at)
        found: list[tuple[int, LiteRtOperator]] = []
        for purpose, places in by_purpose.items():
            own = [each for each in self.operators if _FREE_OPERATORS[each.op] == purpose]
            found += self._settle(purpose, places, own)
        return found

    def _settle(self, purpose: str, places: list[int], own: list[LiteRtOperator]) -> list[tuple[int, LiteRtOperator]]:
        companion = self._companion(purpose)
        always = purpose == "reshape" and companion is not None
        if len(places) == len(own) and not always:
            return list(zip(places, own, strict=True))
        if companion is not None and len(places) == len(own) + 1:
            members = [companion, *own] if companion is self.before else [*own, companion]
            return list(zip(places, members, strict=True))
        return []

    def _companion(self, purpose: str) -> LiteRtOperator | None:
        """Return the neighbour that brings such a step with it."""
        if purpose == "clamp":
            return self.before
        after = self.after
        if purpose == "reshape":
            return after if after is not None and after.op == "FULLY_CONNECTED" else None
        return after if purpose in ("convert", "pack") else None
