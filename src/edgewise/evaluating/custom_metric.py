"""Custom metrics of the user: ``module:function`` or ``file.py:function``, with ``=lower`` where less is better.

A function with a parameter ``output`` is called for one sample at a time, ``f(output, label)``, and its results are
averaged; one that gives True or False is a share of samples. Any other function gets all samples at once,
``f(outputs, labels)``, two lists of the same length, and gives one number. An output is an array without the leading
batch dimension, a list of them where the model has several. Only numbers are kept of the first kind, all outputs of
the second. The function runs in this process: it is the user's own code, named by the user.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, ClassVar

import numpy as np

from edgewise.errors import BadInput
from edgewise.evaluating.dataset import Box
from edgewise.evaluating.task import MetricTable, Record, Scorer, Table
from edgewise.metrics import OWN_METRIC
from edgewise.model.callable_loader import find, import_module, is_factory, own_code, running
from edgewise.workload.arrays import Array

Compute = Callable[[Sequence[Any], Sequence[Any]], Mapping[str, float]]

_ADVICE = "give module:function or path/to/file.py:function, and =lower behind it where less is better"

MOST_RESAMPLES = 199
"""Calls of a function of all samples for its interval, whose ends are then off by 10 % of its half-width."""
MOST_SECONDS = 10.0


class CustomMetric:
    """The function that `text` names.

    Attributes:
        metric: its id: ``score:NAME``, or ``loss:NAME`` where less is better.
        target: ``module:function``.
        single: whether it is called for one sample at a time.
        group: the name of its list in the scorer's settings.

    Raises `BadInput`: there is no such function, or it can't be called with outputs and labels.
    """

    group: ClassVar[str] = "own_metrics"

    def __init__(self, text: str) -> None:
        target, sign, better = text.rpartition("=")
        if not sign:
            target, better = text, "higher"
        if better not in {"lower", "higher"} or not is_factory(target):
            raise BadInput(f"{text!r} is not a metric", advice=_ADVICE)
        module, _, name = target.rpartition(":")
        self.target = target
        self.metric = f"{'loss' if better == 'lower' else 'score'}:{name}"
        if re.fullmatch(OWN_METRIC, self.metric) is None:
            raise BadInput(
                f"{name!r} is not a name for a metric", advice="up to 64 letters, digits, _ and ., no others"
            )
        with own_code(module):
            self._function: Callable[..., Any] = find(import_module(module, target), name, target)
        self.single = self._check_parameters()

    @property
    def settings(self) -> dict[str, Any]:
        """Its description for the record: its source decides whether earlier records are still valid."""
        try:
            source = hashlib.sha256(inspect.getsource(self._function).encode()).hexdigest()
        except (OSError, TypeError):  # built-in, or made on the spot
            source = None
        return {"metric": self.metric, "function": self.target, "one_sample_at_a_time": self.single, "source": source}

    def call(self, outputs: Any, labels: Any) -> float | bool:
        """Return the function's number, NaN and infinity included. Raises `BadInput` naming the function."""
        with running(self.target):
            if not self.single:
                return self._number(self._function(outputs, labels))
            keywords = {"label": labels} if self._takes_label else {}
            return self._number(self._function(output=outputs, **keywords))

    def keep(self, output: Any, label: Any) -> Any:
        """Return the part of a sample's record that it needs, JSON-shaped: its number, or output and label."""
        if not self.single:
            return [encode(output), encode(label)]
        value = self.call(output, label)
        return value if math.isfinite(value) else None

    def tabulate(self, kept: Sequence[Any], records: Sequence[Record], scorer: Scorer | None) -> MetricTable:
        """Return the table, from the results of `keep`, and the task's records with their scorer."""
        if self.single:
            return MeanTable(self.metric, kept, target=self.target)
        outputs, labels = ([decode(each[place]) for each in kept] for place in (0, 1))
        return WholeTable(self._compute, outputs, labels, name=self.target)

    def _compute(self, outputs: Sequence[Any], labels: Sequence[Any]) -> dict[str, float]:
        return {self.metric: float(self.call(outputs, labels))}

    def _check_parameters(self) -> bool:
        try:
            signature = inspect.signature(self._function)
        except (ValueError, TypeError):  # some functions of extension modules have none
            self._takes_label = True
            return False
        self._takes_label = "label" in signature.parameters
        single = "output" in signature.parameters
        try:
            if single:
                signature.bind(**dict.fromkeys({"output", "label"} & signature.parameters.keys()))
            else:
                signature.bind([], [])
        except TypeError as error:
            raise BadInput(
                f"{self.target} can't be called with outputs and labels: {error}",
                advice="f(outputs, labels) of all samples, or f(output, label) of one",
            ) from error
        return single

    def _number(self, found: Any) -> float | bool:
        if isinstance(found, bool | np.bool_):
            return bool(found)
        if not isinstance(found, str | bytes):
            with contextlib.suppress(TypeError, ValueError, RuntimeError):
                return float(found)
        raise BadInput(
            f"{self.target} gave a {type(found).__name__} and no number",
            advice="a metric is one number: of all samples, or with a parameter called output of each",
        )


class MeanTable(Table):
    """Means of a function's values per sample; NaN where one is not a finite number."""

    def __init__(self, metric: str, values: Sequence[float | bool | None], *, target: str) -> None:
        self.n = len(values)
        self._metric, self._target = metric, target
        self._per_sample = np.array([math.nan if value is None else value for value in values], dtype=np.float64)
        shares = bool(values) and all(isinstance(value, bool) for value in values)
        self.proportions = {metric: self._per_sample} if shares else {}
        self.bounds = {metric: (-math.inf, math.inf)}

    def _calculate(self, counts: Array) -> Mapping[str, float]:
        used = counts > 0.0
        total = float(counts.sum())
        return {self._metric: float(counts[used] @ self._per_sample[used]) / total if total > 0.0 else math.nan}

    def explain(self, metric: str) -> str | None:
        """Return why there is no mean."""
        return f"{self._target} gave no finite number for {int(np.isnan(self._per_sample).sum())} of {self.n} samples"


class WholeTable(Table):
    """Metrics that a function computes from all samples at once.

    Args:
        compute: answers and labels → values by the metric's id. Raises `BadInput` where it can't.
        name: of the function, in messages.
    """

    most_resamples = MOST_RESAMPLES
    most_seconds = MOST_SECONDS

    def __init__(self, compute: Compute, answers: Sequence[Any], labels: Sequence[Any], *, name: str) -> None:
        self.n = len(labels)
        self._compute, self._answers, self._labels, self._name = compute, answers, labels, name
        self._whole = compute(list(answers), list(labels)) if self.n else {}
        # The bounds of a metric that others wrote are not known.
        self.bounds = dict.fromkeys(self._whole, (-math.inf, math.inf))

    def values(self, weights: Array | None = None) -> Mapping[str, float]:
        """As `MetricTable.values`; a resample that the function can't take has no value."""
        if weights is None:
            return dict(self._whole)
        chosen = np.repeat(np.arange(self.n), np.asarray(weights).astype(np.intp)).tolist()
        found: Mapping[str, float] = {}
        with contextlib.suppress(BadInput):  # such as one without one of the classes
            found = self._compute([self._answers[index] for index in chosen], [self._labels[index] for index in chosen])
        return {metric: found.get(metric, math.nan) for metric in self._whole}

    def explain(self, metric: str) -> str | None:
        """Return why there is no value."""
        return f"{self._name} gave no finite number"


def encode(value: Any) -> Any:
    """Return outputs and labels as JSON; `decode` is the inverse. Raises `BadInput`."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return encode(value.item())
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "fiub":
            return {"list": encode(value.tolist())}
        ordered = np.ascontiguousarray(value)
        data = base64.b64encode(ordered.tobytes()).decode("ascii")
        return {"array": data, "dtype": value.dtype.str, "shape": list(value.shape)}
    if isinstance(value, Box):
        return {"box": asdict(value)}
    if isinstance(value, tuple):
        return {"tuple": [encode(each) for each in value]}
    if isinstance(value, list):
        return [encode(each) for each in value]
    if isinstance(value, Mapping):
        return {"mapping": [[encode(key), encode(each)] for key, each in value.items()]}
    raise BadInput(f"a label of type {type(value).__name__} can't be kept", advice="use numbers, text or arrays")


def decode(value: Any) -> Any:
    """Return the inverse of `encode`."""
    if isinstance(value, list):
        return [decode(each) for each in value]
    if not isinstance(value, dict):
        return value
    if "array" in value:
        array = np.frombuffer(base64.b64decode(value["array"]), dtype=np.dtype(value["dtype"]))
        return array.reshape(value["shape"]).copy()
    if "box" in value:
        return Box(**value["box"])
    if "tuple" in value:
        return tuple(decode(each) for each in value["tuple"])
    if "mapping" in value:
        return {decode(key): decode(each) for key, each in value["mapping"]}
    return decode(value["list"])
