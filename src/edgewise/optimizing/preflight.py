"""Will a pass help *here*? Told before time is spent on it, from operator coverage, the processor and micro-kernels."""

from __future__ import annotations

from edgewise.optimizing.base import Facts, Pass, Recipe
from edgewise.optimizing.variant import Prediction


class Preflight:
    """Predicts what passes do to the speed of one model on this machine.

    Micro-kernels are measured when they are first needed, in processes of their own: the model's own heavy operators,
    float and as the pass would leave them, in the engine in question.

    Args:
        facts: of the model.
        threads: inference threads.
        budget_s: all measuring together takes no longer; what could not be measured has no prediction.
    """

    def __init__(self, facts: Facts, *, threads: int = 1, budget_s: float = 30.0) -> None:
        raise NotImplementedError

    def predict(self, one: Pass, recipe: Recipe, *, runtime: str) -> Prediction:
        """The speed-up to expect of the pass's result in `runtime` over the model as it is in the same engine."""
        raise NotImplementedError
