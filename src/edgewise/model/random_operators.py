"""Operators that draw random numbers: outputs that depend on them differ at every call, and in every engine."""

from __future__ import annotations

from collections.abc import Iterator

from edgewise.model.graph import Graph, Operator

_NAMES: dict[str, frozenset[str]] = {
    "onnx": frozenset(
        {
            "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial",
            "Sampling",
        }
    ),
    "tflite": frozenset({"RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL", "MULTINOMIAL"}),
    "openvino": frozenset({"RandomUniform", "Multinomial"}),
    "torch": frozenset(
        {
            "rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "bernoulli", "normal",
            "normal_functional", "uniform", "multinomial", "poisson", "exponential", "binomial", "cauchy", "geometric",
            "log_normal", "random",
        }
    ),
}  # fmt: skip
_SHAPES = frozenset({"Shape", "Size", "SHAPE", "RANK", "ShapeOf", "sym_size"})
"""Operators whose outputs depend on the shape of their input alone."""


def random_words(graph: Graph) -> str:
    """Why the outputs of a network can't be compared: a sentence with the operators that draw; "" where none does.

    A fixed seed changes nothing: a session draws on at every call, and engines have generators of their own.
    """
    found = list(dict.fromkeys(_reaching(graph)))
    if not found:
        return ""
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    verb = "draws" if len(found) == 1 else "draw"
    return f"{', '.join(found[:3])}{more} {verb} random numbers, so outputs can't be compared"


def _reaching(graph: Graph) -> Iterator[str]:
    """Yield the operators that draw random numbers and on which an output depends, in their order."""
    drawn: dict[str, dict[str, None]] = {}
    for operator in graph.operators:
        sources: dict[str, None] = {}
        if operator.op not in _SHAPES:
            for name in operator.inputs:
                sources |= drawn.get(name, {})
        if _draws(operator, graph.format):
            sources[f"{operator.title} ({operator.op})"] = None
        for name in operator.subgraphs:
            inner = graph.subgraphs.get(name)
            if inner is not None:
                sources |= dict.fromkeys(_reaching(inner))
                # A value that a body captures is a tensor of both graphs.
                for captured in inner.tensors.keys() & drawn.keys():
                    sources |= drawn[captured]
        if sources:
            drawn |= {name: sources for name in operator.outputs if name}
    for name in graph.outputs:
        yield from drawn.get(name, {})


def _draws(operator: Operator, form: str) -> bool:
    if form == "torch":
        name = operator.op.split(".")[1].rstrip("_") if "." in operator.op else operator.op
        dropping = "dropout" in name and any(operator.attributes.get(key) is True for key in ("train", "training"))
        return name in _NAMES["torch"] or dropping
    if form == "onnx" and operator.op == "Dropout":  # in training, as its dialect has it
        return operator.kind == "elementwise" and operator.geometry.get("per_element") == 4
    return operator.op in _NAMES.get(form, ()) or (operator.op.startswith("Flex") and "Random" in operator.op)
