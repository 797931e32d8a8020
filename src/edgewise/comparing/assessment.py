"""From measured variants to the result of a comparison: fairness, contrasts, ranking and Pareto front."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from edgewise.comparing.comparison import ComparisonResult, Difference, Variant
from edgewise.comparing.criteria import Criteria, check_criteria
from edgewise.comparing.environments import environment_differences
from edgewise.comparing.fairness import check_fairness, is_together
from edgewise.comparing.metrics import compare_runs
from edgewise.comparing.ranking import find_pareto_front, rank
from edgewise.comparing.token_agreement import compare_tokens
from edgewise.errors import BadInput
from edgewise.text import one_line


def assess(
    variants: Sequence[Variant],
    criteria: Criteria,
    *,
    seconds_per_pair: float | None = None,
    stopped_because: str = "",
    elapsed_s: float | None = None,
    pairs: int | None = None,
    notes: Sequence[str] = (),
) -> ComparisonResult:
    """Return the complete result of comparing `variants` with the first of them.

    Args:
        variants: two or more, of different labels.
        seconds_per_pair: what one more pair of fresh processes would cost, to say how long an open question takes.
        stopped_because, elapsed_s, pairs: of the measuring, where there was any.
        notes: further statements of one line.

    Raises:
        BadInput: what can't be compared fairly, unless `criteria.force`; fewer than two variants, two of one label, a
            metric that can't be compared.
    """
    check_criteria(criteria)
    fairness = check_fairness(variants)
    require_fair(fairness.obstacles, force=criteria.force)
    return ComparisonResult(
        variants=tuple(variants),
        comparisons=compare_runs(variants, criteria, seconds_per_pair=seconds_per_pair),
        ranking=rank(variants, criteria, variants[0].run.headline) if len(variants) > 2 else None,
        front=find_pareto_front(variants, criteria),
        stated=fairness.stated,
        obstacles=fairness.obstacles,
        not_excluded=fairness.not_excluded,
        environments=_environments(variants),
        notes=(*fairness.notes, *notes),
        stopped_because=stopped_because,
        elapsed_s=elapsed_s,
        pairs=pairs,
        failures=_failures(variants),
        agreement=compare_tokens(variants),
    )


def require_fair(
    obstacles: Sequence[str], *, force: bool = False, advice: str = "use ⟦force⟧ to compare anyway"
) -> None:
    """Refuse what has `obstacles`, naming all of them. Raises `BadInput` unless `force`."""
    if obstacles and not force:
        raise BadInput(f"this can't be compared fairly: {'; '.join(obstacles)}", advice=advice)


def _environments(variants: Sequence[Variant]) -> tuple[Difference, ...]:
    """Where the environments of runs measured apart differ from the first one's; with several, each row says whose."""
    first, found = variants[0], []
    for other in variants[1:]:
        if is_together(first.run, other.run):
            continue
        rows = environment_differences(first.run, other.run)
        whose = f" ({one_line(first.label)} against {one_line(other.label)})" if len(variants) > 2 else ""
        found += [replace(row, name=row.name + whose) for row in rows]
    return tuple(found)


def _failures(variants: Sequence[Variant]) -> dict[str, str]:
    """Label → why a run has no result."""
    return {
        variant.label: one_line(variant.run.failure.message)
        if variant.run.failure
        else "not measured, because another variant failed or the time was up"
        for variant in variants
        if variant.run.status == "failed" or (variant.run.status == "cancelled" and not variant.run.sessions)
    }
