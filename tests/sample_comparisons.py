"""Hand-made findings for tests of everything that reads comparisons: one, two and four variants, every verdict."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from edgewise.comparing.assessment import assess
from edgewise.comparing.comparison import (
    Comparison,
    ComparisonResult,
    Difference,
    ParetoFront,
    Ranked,
    Ranking,
    Side,
    Variant,
)
from edgewise.comparing.criteria import Criteria
from edgewise.comparing.gate import GateResult, judge
from edgewise.comparing.requirement import parse_requirements
from edgewise.report.comparison.document import comparison_document
from edgewise.report.document.text import plain_text, print_titled
from sample_runs import NO_ENERGY, failed_run, make_run, single_session

PAIRED = "Student's t on the log ratios of 18 pairs of fresh processes, several looks allowed for"
HOSTILE = "<script>alert(1)</script>|[x](http://evil.example)\n# \x1b[31mB*_`"


def row(metric: str, verdict: str = "same", /, **facts) -> Comparison:
    """A row of B against A."""
    sides = {"before": Side(value=None), "after": Side(value=None)}
    return Comparison(**{"a": "A", "b": "B", "metric": metric, "verdict": verdict, "margin": 0.03, **sides, **facts})


def latency_row(**facts) -> Comparison:
    """B takes 0.412 of A's time."""
    told = {
        "before": Side(value=4.21e-4, low=4.17e-4, high=4.26e-4, replicates=18),
        "after": Side(value=1.735e-4, low=1.72e-4, high=1.75e-4, replicates=18),
        "ratio": 0.412, "low": 0.405, "high": 0.419, "p_value": 1e-9, "p_adjusted": 4e-9,
        "design": "interleaved", "method": PAIRED,
    }  # fmt: skip
    return replace(row("latency", "faster"), **{**told, **facts})


def rows_of_two() -> tuple[Comparison, ...]:
    """Faster, inconclusive, faster throughput, larger memory, exact size, absent energy."""
    paired = {"design": "interleaved", "method": PAIRED}
    return (
        latency_row(),
        row("latency_p99", "inconclusive", before=Side(value=5.02e-4, low=4.9e-4, high=6.8e-4, replicates=18),
            after=Side(value=4.91e-4, replicates=18), ratio=0.978, low=0.93, high=1.03, p_value=0.2, p_adjusted=0.4,
            decides_in_s=39.2, **paired),
        row("throughput", "faster", before=Side(value=2375.0, low=2350.0, high=2400.0, replicates=18),
            after=Side(value=5764.0, low=5714.0, high=5814.0, replicates=18), ratio=2.427, low=2.387, high=2.469,
            p_value=1e-9, p_adjusted=3e-9, **paired),
        row("memory_peak", "slower", before=Side(value=48e6, low=47.9e6, high=48.1e6, replicates=18),
            after=Side(value=92e6, low=91.9e6, high=92.1e6, replicates=18), ratio=1.9167, low=1.9102, high=1.9231,
            p_value=1e-6, p_adjusted=2e-6, **paired),
        row("model_size", "same", before=Side(value=53936.0, low=53936.0, high=53936.0, replicates=1),
            after=Side(value=53936.0, low=53936.0, high=53936.0, replicates=1), ratio=1.0, low=1.0, high=1.0,
            p_value=1.0, p_adjusted=1.0, design="exact", method="both values are exact"),
        row("energy", "inconclusive", because=f"A and B have no energy: {NO_ENERGY}", margin=None),
    )  # fmt: skip


def two_variants() -> ComparisonResult:
    """B is clearly faster and takes more memory."""
    first = make_run(1, latency=4.21e-4, half=4.5e-6)
    second = make_run(2, runtime="openvino", latency=1.735e-4, half=1.5e-6, memory=92e6, cautions=(single_session(),))
    return ComparisonResult(
        variants=(Variant(label="A", run=first), Variant(label="B", run=second)),
        comparisons=rows_of_two(),
        stated=("engine: onnxruntime 1.2.3 → openvino 1.2.3",),
        stopped_because="every verdict is decided",
        elapsed_s=42.1,
        pairs=18,
    )


def stored_runs() -> ComparisonResult:
    """Runs of two days: nothing is known of what happened in between, and it was forced."""
    found = two_variants()
    later = Variant(label="B", run=make_run(2, latency=4.212e-4, half=4.4e-6, cautions=(single_session(),)))
    return replace(
        found,
        variants=(found.variants[0], later),
        comparisons=(
            latency_row(verdict="same", after=Side(value=4.212e-4, low=4.168e-4, high=4.256e-4, replicates=5), ratio=1.0004, low=0.99962, high=1.00117, p_adjusted=0.31, design="sessions",
                        method="Welch's t on the logarithms of 5 and 5 fresh processes"),
        ),
        stated=(),
        obstacles=("batch: 1 and 4",),
        not_excluded=("the runs are 3 days apart", "the kernel differs"),
        environments=(
            Difference(name="kernel", a="6.1.0", b="6.5.0"),
            Difference(name="governor", a="performance", b="not known"),
        ),
        notes=("both files are identical",),
        stopped_because="",
        elapsed_s=None,
        pairs=None,
    )  # fmt: skip


def four_variants() -> ComparisonResult:
    """C and D can't be told apart, A is the baseline, B is slower."""
    runs = {
        "A": make_run(1, latency=4.21e-4, half=4.5e-6),
        "B": make_run(2, runtime="fake", latency=5.0e-4, half=5e-6),
        "C": make_run(3, runtime="openvino", latency=1.735e-4, half=1.5e-6),
        "D": make_run(4, runtime="litert", latency=1.741e-4, half=1.5e-6),
    }
    return ComparisonResult(
        variants=tuple(Variant(label=label, run=run) for label, run in runs.items()),
        comparisons=(
            latency_row(b="B", verdict="slower", ratio=1.1876, low=1.1701, high=1.2054, after=Side(value=5.0e-4, low=4.95e-4, high=5.05e-4, replicates=18)),
            latency_row(b="C"),
            latency_row(b="D", ratio=0.4135, low=0.4062, high=0.4211, after=Side(value=1.741e-4, low=1.726e-4, high=1.756e-4, replicates=18)),
        ),
        ranking=Ranking(
            metric="latency",
            places=(
                Ranked(label="C", place=1, groups="a", value=1.735e-4, ratio=1.0, low=1.0, high=1.0),
                Ranked(label="D", place=1, groups="a", value=1.741e-4, ratio=1.0035, low=0.995, high=1.012),
                Ranked(label="A", place=3, groups="b", value=4.21e-4, ratio=2.427, low=2.387, high=2.469),
                Ranked(label="B", place=4, groups="c", value=5.0e-4, ratio=2.882, low=2.831, high=2.934),
            ),
        ),
        front=ParetoFront(metrics=("latency", "memory_peak"), members=("C", "D"), beaten={"A": ("C", "D"), "B": ("A", "C", "D")}),
        stopped_because="the time budget of 60 s is spent",
        elapsed_s=60.3,
        pairs=27,
    )  # fmt: skip


def one_failed() -> ComparisonResult:
    """B could not be measured."""
    return ComparisonResult(
        variants=(Variant(label="A", run=make_run(1)), Variant(label="B", run=failed_run(2))),
        comparisons=(),
        failures={"B": "Unsupported: operator 'Einsum' is not supported"},
        stopped_because="a variant failed",
        elapsed_s=1.2,
    )


def hostile() -> ComparisonResult:
    """Labels, names and reasons that want to be markup."""
    found = two_variants()
    return replace(
        found,
        variants=(found.variants[0], replace(found.variants[1], label=HOSTILE)),
        comparisons=tuple(replace(each, b=HOSTILE, method=f"{HOSTILE} method") for each in found.comparisons),
        stated=(f"engine: {HOSTILE}",),
        notes=(HOSTILE,),
        environments=(Difference(name=HOSTILE, a=HOSTILE, b="=cmd()"),),
        failures={HOSTILE: HOSTILE},
        stopped_because=HOSTILE,
    )


def judged(*, candidate=None, policy="retry", notes=()) -> GateResult:
    """An outcome with real checks of two sample runs: slower, small enough, energy absent."""
    baseline = make_run(1, latency=4.2e-4)
    candidate = candidate or make_run(2, latency=4.6e-4)
    requirements = parse_requirements(["3%"], ["model_size=1MB,energy=5mJ"])
    variants = (Variant(label="baseline", run=baseline), Variant(label="candidate", run=candidate))
    return GateResult(
        checks=judge(requirements, baseline, candidate),
        findings=assess(variants, Criteria(force=True)),
        policy=policy,
        attempts=1,
        notes=notes,
    )


def comparison_text(findings: ComparisonResult, *, width: int = 80, details: bool = True) -> str:
    """What is printed of `findings` as plain text without colours, at most `width` cells wide."""
    return plain_text(partial(print_titled, comparison_document(findings), details=details), width=width)
