"""Metrics in the form of Hugging Face's `evaluate` package, from a folder on this machine: ``hf:FOLDER``.

The folder holds Python code, which is run, as ``--metric module:function`` is. Nothing is downloaded.
"""

from __future__ import annotations

import hashlib
import numbers
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from edgewise.errors import BadInput, Unavailable
from edgewise.evaluating.custom_metric import WholeTable
from edgewise.evaluating.offline import offline
from edgewise.evaluating.task import HasAnswers, MetricTable, Record, Scorer
from edgewise.text import one_line

MODULE_PREFIX = "hf:"
"""Of a metric that is a module of the evaluate package, in a folder."""
_LARGEST_SCRIPT = 4 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class HuggingFaceMetric:
    """One module, loaded.

    Attributes:
        name: of its folder.
        kind: ``score`` where more is better, ``loss`` where less is.
        sha256: of its script.
        module: an ``evaluate.EvaluationModule``.
    """

    group: ClassVar[str] = "huggingface_metrics"
    name: str
    kind: str
    sha256: str
    module: Any

    def compute(self, predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, float]:
        """Return the module's numbers as ``score:NAME`` or ``loss:NAME``. Raises `BadInput` where it can't."""
        if references and isinstance(references[0], list) and not _takes_lists(self.module):
            references = [self._only(each) for each in references]
        try:
            with offline():
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

    @property
    def settings(self) -> dict[str, Any]:
        """Its description for the record."""
        return {"name": self.name, "less_is_better": self.kind == "loss", "sha256": self.sha256}

    def keep(self, output: Any, label: Any) -> None:
        """Return None: the task's record has all that the module takes."""

    def tabulate(self, kept: Sequence[Any], records: Sequence[Record], scorer: Scorer | None) -> MetricTable:
        """As `CustomMetric.tabulate`."""
        assert isinstance(scorer, HasAnswers)
        pairs = [scorer.answer(each) for each in records]
        answers, references = [answer for answer, _ in pairs], [reference for _, reference in pairs]
        return WholeTable(self.compute, answers, references, name=self.name)

    def _only(self, texts: Sequence[Any]) -> Any:
        if len(texts) != 1:
            raise BadInput(
                f"the metric {self.name} takes one reference per sample, and there are {len(texts)}",
                advice="use data with one reference, or another metric",
            )
        return texts[0]


def read_metric(word: str) -> HuggingFaceMetric:
    """Return the metric of ``hf:FOLDER`` or ``hf:FOLDER=lower`` (less is better).

    Raises:
        BadInput: no such folder, or nothing in it that can be loaded without downloading.
        Unavailable: the evaluate package is missing.
    """
    text = word.removeprefix(MODULE_PREFIX)
    path, _, direction = text.rpartition("=") if text.endswith(("=lower", "=higher")) else (text, "", "higher")
    folder = Path(path).absolute()
    script = folder / f"{folder.name}.py"
    if not path or not script.is_file():
        raise BadInput(
            f"no metric found at {path or word}: it must be a folder with a file {script.name}",
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


def _load(folder: Path, script: Path) -> Any:
    """Return the module in `script`, from this machine alone. Raises `BadInput`, `Unavailable`."""
    with offline():
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
            return evaluate.load(str(script), keep_in_memory=True)
        except BadInput:
            raise
        except Exception as error:  # somebody else's code may raise anything
            raise BadInput(
                f"the metric {folder.name} can't be loaded: {one_line(str(error))[:300]}",
                advice="is it a module of the evaluate package?",
            ) from error


def _takes_lists(module: Any) -> bool:
    """Return whether the module takes several references per sample."""
    from datasets import Value

    kinds = module.features if isinstance(module.features, list) else [module.features]
    return any(not isinstance(each.get("references"), Value) for each in kinds)


def _id(name: str) -> str:
    """Return `name` without characters that a metric's id can't have."""
    cleaned = re.sub(r"[^A-Za-z0-9_.]", "_", name)[:60]
    return cleaned if re.match(r"[A-Za-z_]", cleaned) else f"_{cleaned}"
