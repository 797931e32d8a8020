"""Which settings can be measured with: the one place that says so, for requests and for records of others."""

from __future__ import annotations

from collections.abc import Sequence

from edgewise.errors import BadField
from edgewise.record import Scenario, Stopping, TargetSpec
from edgewise.run.counters import usable_cores
from edgewise.text import listing

MAX_THREADS = 1024
LEAST_DUTY = 0.001
MOST_TOKENS = 2**20
LONGEST_S = 7 * 24 * 3600.0


def check_settings(
    *,
    threads: Sequence[int],
    batches: Sequence[int],
    scenario: Scenario,
    stopping: Stopping,
    target: TargetSpec,
    seed: int,
) -> None:
    """Reject settings that no engine supports, before anything is started. Raises `BadField`."""
    for count in threads:
        if not 1 <= count <= MAX_THREADS:
            raise BadField(
                f"⟦threads⟧ must be 1 to {MAX_THREADS}, not {count}",
                advice=f"usable cores: {len(usable_cores()) or 'unknown'}; default 1",
            )
    for batch in batches:
        require_at_least(1, batches=batch)
    _check_scenario(scenario)
    check_generation(scenario, batches)
    _check_stopping(stopping)
    prescribed = stopping.iterations or stopping.duration_s or stopping.warmup is not None
    if stopping.report_every and not (prescribed and scenario.kind == "single-stream"):
        raise BadField(
            "⟦report_every⟧ needs the scenario single-stream, and a number of iterations or a duration",
            advice="add ⟦iterations=100⟧, or ⟦duration=5⟧",
        )
    require_at_least(1, memory_limit=target.memory_limit_bytes)
    if not 0 <= seed < 2**64:
        raise BadField(f"⟦seed⟧ must be 0 to 2⁶⁴ - 1, not {seed}")


def require_at_least(least: int, **fields: int | None) -> None:
    """Reject a field below `least`; None is no value. Raises `BadField`."""
    for field, value in fields.items():
        if value is not None and value < least:
            raise BadField(f"⟦{field}⟧ must be at least {least}, not {value}")


def require_time(longest_s: float = LONGEST_S, **fields: float | None) -> None:
    """Reject a time (s) that is not above 0, or longer than `longest_s`; None is no value. Raises `BadField`."""
    for field, seconds in fields.items():
        if seconds is not None and not 0 < seconds <= longest_s:
            raise BadField(
                f"⟦{field}⟧ must be above 0 s and at most {longest_s / 3600:g} h, not {seconds:g} s",
                advice=f"for example ⟦{field}=5⟧",
            )


def _check_scenario(scenario: Scenario) -> None:
    if scenario.kind == "paced":
        if scenario.fps is None:
            raise BadField("the scenario paced needs ⟦fps⟧, the arrivals per second", advice="for example ⟦fps=30⟧")
        if not 0 < scenario.fps <= 1e5:
            raise BadField(f"⟦fps⟧ must be above 0 and at most 100000, not {scenario.fps:g}")
    elif scenario.fps is not None:
        raise BadField("⟦fps⟧ applies only to the scenario paced", advice="add ⟦scenario=paced⟧")
    require_at_least(1, streams=scenario.streams, requests=scenario.requests)
    _check_edge(scenario)
    require_time(sustained=scenario.sustained_s)
    if scenario.sustained_s is not None and scenario.kind not in ("single-stream", "paced"):
        raise BadField(
            "⟦sustained⟧ applies only to the scenarios single-stream and paced", advice="leave ⟦sustained⟧ out"
        )
    if scenario.kind != "offline" and (scenario.streams or scenario.requests):
        raise BadField("⟦streams⟧ and ⟦requests⟧ apply only to the scenario offline", advice="add ⟦scenario=offline⟧")


def check_generation(scenario: Scenario, batches: Sequence[int]) -> None:
    """Reject numbers of tokens that no request has, and those of a scenario without tokens. Raises `BadField`."""
    counts = {"prompt_tokens": scenario.prompt_tokens, "new_tokens": scenario.new_tokens, "depth": scenario.depth}
    if scenario.kind != "generate":
        if given := [f"⟦{name}⟧" for name, count in counts.items() if count is not None]:
            raise BadField(
                f"{listing(given)} {'apply' if len(given) > 1 else 'applies'} only to the scenario generate",
                advice="add ⟦scenario=generate⟧",
            )
        return
    if set(batches) - {1}:
        raise BadField("the scenario generate has one request at a time", advice="leave ⟦batch⟧ out")
    # The times between tokens need two; at a depth the first token of the prompt is the one that filling it has made.
    require_at_least(2, new_tokens=scenario.new_tokens)
    require_at_least(2 if scenario.depth else 1, prompt_tokens=scenario.prompt_tokens)
    require_at_least(0, depth=scenario.depth)
    if (most := max(count or 0 for count in counts.values())) > MOST_TOKENS:
        raise BadField(f"{most} tokens are more than {MOST_TOKENS}", advice="for example ⟦new_tokens=128⟧")


def _check_edge(scenario: Scenario) -> None:
    """Reject conditions of an edge device that the scenario can't have."""
    duty = scenario.duty_cycle
    if duty is not None and not LEAST_DUTY <= duty < 1:
        raise BadField(f"⟦duty_cycle⟧ must be at least {LEAST_DUTY:g} and below 1, not {duty:g}", advice="0.2 is 20%")
    if duty is not None and scenario.kind != "single-stream":
        raise BadField("⟦duty_cycle⟧ applies only to the scenario single-stream", advice="omit ⟦duty_cycle⟧")
    if scenario.drop_cache and scenario.kind != "cold-start":
        raise BadField("⟦drop_cache⟧ applies only to the scenario cold-start", advice="add ⟦scenario=cold-start⟧")
    if scenario.background_load is not None and not 1 <= scenario.background_load <= MAX_THREADS:
        raise BadField(f"⟦background_load⟧ must be 1 to {MAX_THREADS}, not {scenario.background_load}")
    if scenario.background_kind is not None and scenario.background_load is None:
        raise BadField("⟦background_kind⟧ needs ⟦background_load⟧", advice="for example ⟦background_load=1⟧")


def _check_stopping(stopping: Stopping) -> None:
    require_at_least(1, iterations=stopping.iterations, sessions=stopping.sessions, report_every=stopping.report_every)
    require_at_least(0, warmup=stopping.warmup)
    require_time(duration=stopping.duration_s, timeout=stopping.timeout_s, spread=stopping.spread_s)
    if stopping.spread_s is not None and stopping.sessions < 2:
        raise BadField("⟦spread⟧ needs at least two sessions", advice="add ⟦sessions=10⟧")
    if stopping.iterations is not None and stopping.duration_s is not None:
        raise BadField("⟦iterations⟧ and ⟦duration⟧ exclude each other", advice="give one of them")
