"""What ONNX's operators mean, in the standard set and in those of its runtime, each set a table.

Inputs that are parameters are named by position. Integers that take part in arithmetic or are moved about are shapes,
indices and counters, so they are no parameters; those that a network multiplies or dequantises are.
"""

from __future__ import annotations

from collections.abc import Mapping

from edgewise.model.cost import ACTIVATIONS
from edgewise.model.dialects import (
    onnx_arithmetic,
    onnx_contrib,
    onnx_network,
    onnx_sequence,
)
from edgewise.model.dialects.base import (
    OPEN,
    RawOperator,
    Rule,
    Semantics,
    Unclear,
    apply,
    counted,
    data_dependent,
    divide,
    drop_indices,
    each,
    elements,
    mean,
    moving,
    multiply,
    per_element,
    product_of,
    size,
    unknown,
)  # fmt: skip

_AFTERWARDS = {"NONE": "none", "LOGISTIC": "sigmoid"}


def read_linear_regressor(raw: RawOperator) -> Semantics:
    """Features × targets; the coefficients are an option of the operator and no tensor."""
    afterwards = raw.text("post_transform", "NONE")
    return mean(
        "matrix-multiplication",
        reduction=size(raw.input(0), -1),
        bias="intercepts" in raw.attributes,
        activation=_AFTERWARDS.get(afterwards, afterwards),
    )


def read_normalizer(raw: RawOperator) -> Semantics:
    """Each value over the maximum, or over the norm: absolute value or square, add, divide."""
    norm = raw.text("norm", "MAX")
    operations = {"MAX": 2, "L1": 3, "L2": 3}.get(norm)
    if operations is None:
        raise Unclear(f"it has no norm {norm!r}")
    return per_element(operations, kind="normalization")


def read_linear_classifier(raw: RawOperator) -> Semantics:
    """Features × classes, the function of the scores, and the largest of them; the coefficients are an option."""
    weights, scores = raw.length("coefficients"), elements(raw.output(1))
    rows, targets = product_of(raw.input(0), 0, -1), divide(weights, size(raw.input(0), -1))
    if not weights:
        raise Unclear(_NO_COEFFICIENTS)
    macs = multiply(rows, weights)
    afterwards = raw.text("post_transform", "NONE")
    per_score = {"NONE": 0, "LOGISTIC": ACTIVATIONS["sigmoid"], "SOFTMAX": 5}.get(afterwards)
    if macs is None or scores is None:
        return mean("counted", macs=macs, why=OPEN)
    if per_score is None:
        return mean("counted", macs=macs, why=f"the function {afterwards!r} has no known cost")
    if multiply(rows, targets) != scores:
        return mean("counted", macs=macs, why="how one score becomes those of two classes is the engine's affair")
    single = multiply(rows, raw.length("intercepts")) or 0
    return counted(macs, 2 * macs + single + scores * (per_score + 1))


def read_svm(raw: RawOperator) -> Semantics:
    """Return the MACs of the kernels (features × support vectors) and of the sums that the coefficients weight.

    Without support vectors the coefficients are those of a linear model.
    """
    weights = raw.length("support_vectors") + raw.length("coefficients")
    if not weights:
        raise Unclear(_NO_COEFFICIENTS)
    macs = multiply(product_of(raw.input(0), 0, -1), weights)
    return mean("counted", macs=macs, why=OPEN if macs is None else _KERNELS)


_NO_COEFFICIENTS = "it has no coefficients"
_KERNELS = "the operations of the kernels' functions, of votes and of probabilities are not counted"
_TREES = "the depth that it reaches in each tree depends on the data"
_TABLE = "the length of the table search depends on the data"
_STEP = "it is a step of training"

CLASSICAL: dict[str, Rule] = {
    "ArrayFeatureExtractor": moving(0),
    "FeatureVectorizer": lambda raw: moving(*raw.positions),
    "Binarizer": per_element(1),
    "Imputer": per_element(1),
    "Scaler": per_element(2),
    "Normalizer": read_normalizer,
    "LinearRegressor": read_linear_regressor,
    "LinearClassifier": read_linear_classifier,
    **each("TreeEnsemble TreeEnsembleClassifier TreeEnsembleRegressor", data_dependent(_TREES)),
    **each("SVMClassifier SVMRegressor", read_svm),
    **each("CategoryMapper LabelEncoder OneHotEncoder DictVectorizer", data_dependent(_TABLE)),
    **each("CastMap ZipMap", data_dependent("it works on maps, whose sizes depend on the data")),
}
"""Operator of ``ai.onnx.ml`` → what it means."""

_TREE = "nodes_values nodes_values_as_tensor"
_BASE = "base_values base_values_as_tensor"
_SVM = "coefficients support_vectors rho prob_a prob_b"
OPTION_WEIGHTS: dict[str, frozenset[str]] = {
    op: frozenset(names.split())
    for op, names in {
        "TreeEnsemble": "nodes_splits membership_values leaf_weights",
        "TreeEnsembleClassifier": f"{_TREE} class_weights class_weights_as_tensor {_BASE}",
        "TreeEnsembleRegressor": f"{_TREE} target_weights target_weights_as_tensor {_BASE}",
        "LinearClassifier": "coefficients intercepts",
        "LinearRegressor": "coefficients intercepts",
        "SVMClassifier": _SVM,
        "SVMRegressor": _SVM,
        "Scaler": "offset scale",
        "Imputer": "imputed_value_floats imputed_value_int64s",
    }.items()
}
"""Operator of ``ai.onnx.ml`` → the options that hold its parameters: numbers that were learnt."""

TRAINING: dict[str, Rule] = each("Adagrad Adam Gradient Momentum", unknown(_STEP))
"""Operator of ``ai.onnx.preview.training`` → what it means."""

PREVIEW: dict[str, Rule] = {
    "FlexAttention": unknown("its own subgraphs change its scores, and their cost is not counted"),
}
"""Operator of ``ai.onnx.preview`` → what it means."""


OPERATORS: Mapping[str, Mapping[str, Rule]] = {
    "": {
        **onnx_arithmetic.TABLE,
        **onnx_network.TABLE,
        **onnx_sequence.TABLE,
    },
    "ai.onnx.ml": CLASSICAL,
    "ai.onnx.preview": PREVIEW,
    "ai.onnx.preview.training": TRAINING,
    "com.microsoft": onnx_contrib.MICROSOFT,
    "com.microsoft.nchwc": onnx_contrib.BLOCKED,
}
"""Operator set → operator → what it means. ``ai.onnx`` is the other name of the standard set ""."""


def interpret(raw: RawOperator) -> Semantics:
    """Return what an operator is; an unknown one has no kind, and one that contradicts its definition says how.

    Options, shapes and constants are a file's: whatever they are, there is an answer and no exception.
    """
    domain = "" if raw.domain == "ai.onnx" else raw.domain
    return drop_indices(raw, apply(OPERATORS.get(domain, {}).get(raw.op), raw))
