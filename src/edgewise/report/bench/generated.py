"""What is told of runs of language models: the answer of each in a line, and the columns of their table."""

from __future__ import annotations

from collections.abc import Sequence

from edgewise.formatting import amount_text, plus_minus
from edgewise.record import Run
from edgewise.report.runs.cells import failure_of, reason_of_absence
from edgewise.report.runs.conditions import provider_of
from edgewise.text import one_line

GENERATED_COLUMNS = (
    ("ttft", 0, True), ("decode_rate", 0, True), ("prefill_rate", 1, False), ("ttft_model", 4, False),
    ("tpot", 3, True), ("ttft_first", 4, False), ("load_time", 5, False), ("memory_peak", 2, False),
    ("kv_cache_bytes", 3, False),
)  # fmt: skip
"""(metric, rank, interval in the text) of runs of language models."""
GENERATED_ENERGY = (
    ("energy_per_token", 2, False), ("energy", 6, False), ("prefill_energy", 6, False), ("decode_energy", 6, False),
)  # fmt: skip
"""The same of those with a meter."""


def is_generated(run: Run) -> bool:
    """Whether a language model made text in the run."""
    return run.job.workload.scenario.kind == "generate"


def generated_answer(runs: Sequence[Run]) -> list[str]:
    """``"first text after 120 ± 3 ms, then 98.2 ± 1.1 tokens/s at depth 0, after a prompt of 128"``, a line a run.

    Model and engine stand in front where there are several.
    """
    names = [f"{one_line(run.job.model.name)} on {provider_of(run)}" for run in runs]
    several = len(set(names)) > 1
    return [(f"{name}: " if several else "") + _answer_of(run) for run, name in zip(runs, names, strict=True)]


def _answer_of(run: Run) -> str:
    scenario = run.job.workload.scenario
    prompt = "prompts of the file" if scenario.prompt_tokens is None else f"a prompt of {scenario.prompt_tokens}"
    where = f"at depth {depth_of(run) or 'not told'}, after {prompt}"
    if run.status == "failed":
        return f"nothing was measured {where}: {failure_of(run)}"
    rate, text, first = run.measurement("decode_rate"), run.measurement("ttft"), "first text not known"
    if run.source is None and text is not None and text.value is None:
        first = f"no single time to first text ({reason_of_absence(run, 'ttft')})"
    for metric, what in (("ttft_model", "token"), ("ttft", "text")):
        row = run.measurement(metric)
        if row is not None and row.value is not None:
            first = f"first {what} after {amount_text(row.unit, row.value, row.low, row.high)}"
    if rate is None or rate.value is None:
        then = "no single rate" if run.source is None else "a rate that is not known"
        return f"{first}, then {then} {where}: {reason_of_absence(run, 'decode_rate')}"
    return f"{first}, then {plus_minus(rate.value, rate.low, rate.high)} tokens/s {where}"


def prompt_of(run: Run) -> str | None:
    """Tokens of the prompts: ``"128"``; None where no language model made text."""
    if not is_generated(run):
        return None
    tokens = run.job.workload.scenario.prompt_tokens
    return "own length" if tokens is None else str(tokens)


def depth_of(run: Run) -> str | None:
    """Tokens in the KV cache before the prompt; None where no language model made text, or an import does not tell."""
    depth = run.job.workload.scenario.depth
    if not is_generated(run) or (depth is None and run.source is not None):
        return None
    return str(depth or 0)
