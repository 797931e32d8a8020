"""Hand-made runs whose samples are given process by process, for tests of comparisons."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from edgewise.comparing.comparison import Comparison, Variant
from edgewise.comparing.criteria import Criteria
from edgewise.comparing.metrics import compare_runs
from edgewise.comparing.session_values import Evidence, gather_evidence
from edgewise.metrics import METRICS
from edgewise.record import Measurement, Run, Scenario, Workload
from edgewise.record.job import Interleave
from sample_runs import CREATED, GROUP, KWS, job_of, run_id, session


def row_of(metric: str, sessions: Sequence[Sequence[float]], *, value: float | None = None) -> Measurement:
    """A measurement with these samples of each process; the headline is their pooled median. No interval."""
    samples = tuple(sample for part in sessions for sample in part)
    return Measurement(
        metric=metric,
        unit=METRICS[metric].unit,
        basis="measured",
        method="sample method",
        value=statistics.median(samples) if value is None else value,
        samples=samples,
        session_lengths=tuple(map(len, sessions)),
    )


def run_of(
    *rows: Measurement,
    number: int = 1,
    processes: int = 5,
    group: str | None = GROUP,
    interleave: Interleave | None = None,
    scenario: Scenario | None = None,
    batch: int = 1,
) -> Run:
    """A run of `processes` fresh processes with these measurements and no others."""
    job = job_of(
        model=KWS, runtime="onnxruntime", provider="cpu", threads=1, batch=batch, scenario=scenario or Scenario()
    )
    workload: Workload = replace(job.workload, interleave=interleave)
    return Run(
        id=run_id(number),
        created_at=CREATED,
        group=group,
        job=replace(job, workload=workload),
        status="done",
        measurements=rows,
        sessions=tuple(session(index) for index in range(processes)),
    )


def pair_of(
    metric: str, a: Sequence[float], b: Sequence[float], *, interleave: Interleave | None = "turns"
) -> tuple[Variant, Variant]:
    """Two variants of one command, one sample a process."""
    runs = [
        run_of(row_of(metric, [[value] for value in values]), processes=len(values), interleave=interleave, number=n)
        for n, values in enumerate((a, b), start=1)
    ]
    return Variant(label="before", run=runs[0]), Variant(label="after", run=runs[1])


def noise(n: int, *, seed: int, sigma: float = 0.005, scale: float = 1e-3) -> list[float]:
    """`n` log-normal values around `scale`."""
    return [float(value) for value in scale * np.exp(sigma * np.random.default_rng(seed).standard_normal(n))]


def apart(metric: str, a: Sequence[float], b: Sequence[float], *, scenario: Scenario | None = None) -> list[Run]:
    """Two runs of different commands, one sample a process."""
    return [
        run_of(
            row_of(metric, [[value] for value in values]),
            processes=len(values),
            number=n,
            group=f"g{n}",
            scenario=scenario,
        )
        for n, values in enumerate((a, b), start=1)
    ]


def compare(*runs: Run, metrics: tuple[str, ...] = (), seconds_per_pair: float | None = None) -> tuple[Comparison, ...]:
    """The rows of runs called before, after and third."""
    variants = [Variant(label=label, run=run) for label, run in zip(("before", "after", "third"), runs, strict=False)]
    return compare_runs(variants, Criteria(metrics=metrics), seconds_per_pair=seconds_per_pair)


def only(*runs: Run, metric: str, seconds_per_pair: float | None = None) -> Comparison:
    """The row of two runs in one metric."""
    (row,) = compare(*runs, metrics=(metric,), seconds_per_pair=seconds_per_pair)
    return row


def evidence(run: Run, metric: str) -> Evidence:
    """What a run called A tells of a metric."""
    return gather_evidence(run, metric, name="A")
