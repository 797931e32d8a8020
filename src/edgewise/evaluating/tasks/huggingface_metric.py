"""Metrics in the form of Hugging Face's `evaluate` package, from a folder on this machine: ``hf:FOLDER``.

The folder holds Python code, which is run, as ``--metric module:function`` is. Nothing is downloaded.
"""

from __future__ import annotations

import hashlib
import math
import numbers
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from edgewise.errors import BadInput, Unavailable
from edgewise.evaluating.offline import environment
from edgewise.evaluating.own_metric import MOST_RESAMPLES, MOST_SECONDS, JoinedTable
from edgewise.evaluating.task import Drives, Judge, Ranks, Record, Table, Watches
from edgewise.text import one_line

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

PREFIX = "hf:"
_OFFLINE = ("HF_EVALUATE_OFFLINE", "HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "HF_HUB_DISABLE_TELEMETRY")
_LARGEST_SCRIPT = 4 * 2**20


@runtime_checkable
class Answers(Protocol):
    """A judge whose records tell an answer and what would have been right."""

    def answer(self, record: Record) -> tuple[Any, Any]:
        """Answer and reference: class numbers, or a text and the list of texts that would be right."""


class Module(Protocol):
    """An ``evaluate.EvaluationModule``, as far as it is used here."""

    features: Any

    def compute(self, *, predictions: Sequence[Any], references: Sequence[Any]) -> Mapping[str, Any] | None:
        """The module's numbers by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HuggingFaceMetric:
    """One module, loaded.

    Attributes:
        name: of its folder.
        kind: ``score`` where more is better, ``loss`` where less is.
        sha256: of its script.
    """

    name: str
    kind: str
    sha256: str
    module: Module

    def compute(self, predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, float]:
        """What the module makes of answers and references: its numbers as ``score:NAME`` or ``loss:NAME``.

        Raises:
            BadInput: the module can't, or gives no number.
        """
        if references and isinstance(references[0], list) and not _takes_lists(self.module):
            references = [self._only(each) for each in references]
        try:
            with _offline():
                found = self.module.compute(predictions=list(predictions), references=list(references)) or {}
        except Exception as error:  # somebody else's code may raise anything
            raise BadInput(
                f"the metric {self.name} failed: {one_line(str(error))[:300]}",
                advice="does it take what this task's answers are?",
            ) from error
        values = {
            f"{self.kind}:{_id(name)}": float(value)
            for name, value in found.items()
            if isinstance(value, numbers.Real) and not isinstance(value, bool)
        }
        if not values:
            raise BadInput(f"the metric {self.name} gave no number", advice="its results must map names to numbers")
        return values

    def beside(self, judge: Judge) -> Judge:
        """A judge like `judge` whose tables have this metric too. Raises `BadInput` where its answers aren't told."""
        if not isinstance(judge, Answers):
            raise BadInput(
                f"the metric {self.name} can't be used here: this task has no single answer per sample",
                advice="it goes with classification and text tasks",
            )
        return ModuleJudge(judge, self)

    def _only(self, texts: Sequence[Any]) -> Any:
        if len(texts) != 1:
            raise BadInput(
                f"the metric {self.name} takes one reference per sample, and there are {len(texts)}",
                advice="use data with one reference, or another metric",
            )
        return texts[0]


def read_metric(word: str) -> HuggingFaceMetric:
    """The metric of ``hf:FOLDER`` or ``hf:FOLDER=lower`` (less is better).

    Raises:
        BadInput: no such folder, or nothing in it that can be loaded without downloading.
        Unavailable: the evaluate package is missing.
    """
    text = word.removeprefix(PREFIX)
    path, _, direction = text.rpartition("=") if text.endswith(("=lower", "=higher")) else (text, "", "higher")
    folder = Path(path).absolute()
    script = folder / f"{folder.name}.py"
    if not path or not script.is_file():
        raise BadInput(
            f"there is no metric at {path or word}: it must be a folder with a file {script.name}",
            advice="give a folder that is on this machine; nothing is downloaded",
        )
    if script.stat().st_size > _LARGEST_SCRIPT:
        raise BadInput(f"{script.name} is too large for a metric", advice="give a folder with a metric's code")
    return HuggingFaceMetric(
        name=folder.name,
        kind="loss" if direction == "lower" else "score",
        sha256=hashlib.sha256(script.read_bytes()).hexdigest(),
        module=_load(folder, script),
    )


class ModuleJudge:
    """A task's judge, and a metric beside its own. Records are the judge's."""

    def __init__(self, judge: Judge, metric: HuggingFaceMetric) -> None:
        assert isinstance(judge, Answers)
        self.headline = judge.headline
        told = {"name": metric.name, "less_is_better": metric.kind == "loss", "sha256": metric.sha256}
        own = [*judge.settings.get("huggingface_metrics", ()), told]
        self.settings: Mapping[str, Any] = {**judge.settings, "huggingface_metrics": own}
        self.record = judge.record
        self.answer = judge.answer
        self._judge, self._metric = judge, metric
        # Talents are found by the names of attributes: only what the task's judge can do is there.
        if isinstance(judge, Drives):
            self.drive = judge.drive
        if isinstance(judge, Watches):
            self.watch = judge.watch
        if isinstance(judge, Ranks):
            self.rank = judge.rank

    def tabulate(self, records: Sequence[Record]) -> Table:
        """The judge's table and the metric's."""
        pairs = [self.answer(each) for each in records]
        return JoinedTable([self._judge.tabulate(records), ModuleTable(self._metric, pairs)])


class ModuleTable:
    """What a module says of all samples at once.

    Args:
        pairs: answer and reference of every sample.
    """

    most_resamples = MOST_RESAMPLES
    most_seconds = MOST_SECONDS

    def __init__(self, metric: HuggingFaceMetric, pairs: Sequence[tuple[Any, Any]]) -> None:
        self.n = len(pairs)
        self.proportions: Mapping[str, Array] = {}
        self._metric = metric
        self._answers = [answer for answer, _ in pairs]
        self._references = [reference for _, reference in pairs]
        self._whole = metric.compute(self._answers, self._references) if pairs else {}
        # Nobody here knows the bounds of somebody else's metric.
        self.bounds: Mapping[str, tuple[float, float]] = dict.fromkeys(self._whole, (-math.inf, math.inf))

    def values(self, weights: Array | None = None) -> Mapping[str, float]:
        """As `Table.values`; a resample that the module can't take has no value."""
        import numpy as np

        if weights is None:
            return dict(self._whole)
        chosen = np.repeat(np.arange(self.n), np.asarray(weights).astype(np.intp)).tolist()
        found: Mapping[str, float] = {}
        with suppress(BadInput):  # such as one without one of the classes
            found = self._metric.compute([self._answers[i] for i in chosen], [self._references[i] for i in chosen])
        return {name: found.get(name, math.nan) for name in self._whole}

    def explain(self, metric: str) -> str | None:
        """Why there is no value."""
        return f"{self._metric.name} gave no finite number for {metric.partition(':')[2]}"


def _load(folder: Path, script: Path) -> Module:
    """The module in `script`, from this machine alone. Raises `BadInput`, `Unavailable`."""
    with _offline():
        try:
            import evaluate
            from evaluate.loading import get_imports
        except ImportError as error:
            raise Unavailable(
                "metrics of Hugging Face need the evaluate package", advice="pip install 'edgewise[huggingface]'"
            ) from error
        try:
            distant = [name for kind, name, *_ in get_imports(str(script)) if kind == "external"]
            if distant:
                raise BadInput(
                    f"the metric {folder.name} would download {', '.join(map(str, distant))}",
                    advice="put what it imports beside it, and leave the comment '# From:' out",
                )
            found: Module = evaluate.load(str(script), keep_in_memory=True)
        except BadInput:
            raise
        except Exception as error:  # somebody else's code may raise anything
            raise BadInput(
                f"the metric {folder.name} can't be loaded: {one_line(str(error))[:300]}",
                advice="is it a module of the evaluate package?",
            ) from error
    return found


@contextmanager
def _offline() -> Iterator[None]:
    """Hugging Face's packages are told not to reach for the network; afterwards they are as they were."""
    with environment(dict.fromkeys(_OFFLINE, "1")):
        try:
            from evaluate import config
        except ImportError:
            yield
            return
        # It read the variables when it was imported first, perhaps long ago.
        allowed, config.HF_EVALUATE_OFFLINE = config.HF_EVALUATE_OFFLINE, True
        try:
            yield
        finally:
            config.HF_EVALUATE_OFFLINE = allowed


def _takes_lists(module: Module) -> bool:
    """Whether the module takes several references per sample."""
    from datasets import Value

    kinds = module.features if isinstance(module.features, list) else [module.features]
    return any(not isinstance(each.get("references"), Value) for each in kinds)


def _id(name: str) -> str:
    """`name` as a metric's id may have it."""
    cleaned = re.sub(r"[^A-Za-z0-9_.]", "_", name)[:60]
    return cleaned if re.match(r"[A-Za-z_]", cleaned) else f"_{cleaned}"
