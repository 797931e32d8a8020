"""Two runs as measuring both in turns found them, when they were made."""

from __future__ import annotations

from edgewise.comparing.comparison import Comparison, Side, Variant

WITH_TURNS = "estimated when both were measured in turns"
NO_P_VALUE = "measured in turns when both runs were made; their records keep no p-value"
UNPROVEN = (
    "in turns, when both runs were made, no difference was proven; "
    "to compare the files instead of the runs measures more of them"
)


def compare_in_turns(a: Variant, b: Variant) -> Comparison | None:
    """B against A in the headline, as their turns found it; None where the two took none."""
    told = b.run.turns_against(a.run)
    if told is None:
        return None
    metric = b.run.headline
    before, after = (
        Side(value=row.value, low=row.low, high=row.high) if row is not None else Side(value=None)
        for row in (a.run.measurement(metric), b.run.measurement(metric))
    )
    return Comparison(
        a=a.label,
        b=b.label,
        metric=metric,
        before=before,
        after=after,
        verdict=told.verdict,
        ratio=told.ratio,
        low=told.low,
        high=told.high,
        rerun_low=told.rerun_low,
        rerun_high=told.rerun_high,
        rerun_method=WITH_TURNS if told.rerun_low is not None else "",
        proof_low=told.proof_low,
        proof_high=told.proof_high,
        design="interleaved",
        method=told.method,
        because=UNPROVEN if told.verdict == "inconclusive" else NO_P_VALUE,
        disagreement=told.disagreement,
    )
