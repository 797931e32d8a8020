"""What the later steps of the tour ask for, which depends on what the earlier ones found."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.registry import availability_of

if TYPE_CHECKING:
    from edgewise.optimizing.variant import Optimization
    from edgewise.record import Run
    from edgewise.service.requests import CompareRequest, OptimizeRequest

SEARCH_S = 90.0
COMPARE_S = 30.0
PASSES = {".onnx": ("ort-static", "nncf-ptq"), ".tflite": ("litert-static",)}
"""Of each kind of file the passes that do the most for this network; the first that is installed is used. More of them
would leave a race of so short a search too few rounds to prove anything."""


def optimize_request(models: Sequence[Path], *, data: Path, folder: Path) -> OptimizeRequest | str:
    """Optimize the first of `models` that an installed pass can quantise; else why there is none.

    Args:
        folder: where variants go.
    """
    from edgewise.optimizing.base import passes
    from edgewise.service.reading import make_request
    from edgewise.service.requests import OptimizeRequest

    missing = ""
    for model in models:
        for name in PASSES.get(model.suffix, ()):
            availability = availability_of(passes().get(name))
            if availability:
                return make_request(
                    OptimizeRequest, model=model, data=data, passes=[name], time_budget=SEARCH_S, folder=folder
                )
            missing = missing or f"{availability.reason}; {availability.install_hint}"
    return missing or "no model was measured"


def compare_request(
    runs: Sequence[Run], result: Optimization | None, *, cores: int
) -> tuple[str, CompareRequest] | str:
    """Compare the original with what `result` chose; else the two fastest of `runs`, or one thread with two.

    Args:
        result: of the search; None where there was none.
        cores: processor cores that may be used.

    Returns:
        The question and the request; or why nothing can be compared.
    """
    if result is not None and result.chosen is not None:
        # The original in the engine that the search had it in, and the chosen file in its own.
        original, variant = result.baseline, result.candidate(result.chosen)
        assert original.model is not None
        words: tuple[str, ...] = (
            f"original={original.model.path},runtime={original.runtime.name}",
            f"optimised={result.files['chosen']},runtime={variant.runtime.name}",
        )
        return "Compare: is the optimised one really faster, once more?", _request(words)
    measured = {run.id: latency for run in runs if run.status == "done" and (latency := run.value("latency"))}
    first = sorted((run for run in runs if run.id in measured), key=lambda run: measured[run.id])[:2]
    words = tuple(f"{run.job.model.path},runtime={run.job.runtime.name}" for run in first)
    if not words:
        return "nothing was measured that could be compared"
    if len(words) > 1:
        return "Compare: is the fastest really faster than the runner-up?", _request(words)
    if cores < 2:
        return "one run, and no more than one core is known to be usable"
    return "Compare: one thread or two?", _request(words, threads=(1, 2))


def _request(words: tuple[str, ...], *, threads: tuple[int, ...] = ()) -> CompareRequest:
    from edgewise.service.reading import make_request
    from edgewise.service.requests import CompareRequest

    return make_request(CompareRequest, subjects=words, threads=threads, time_budget=COMPARE_S)
