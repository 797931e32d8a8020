"""Hand-made runs for tests of everything that reads runs: no engine, no clock, the same in every process.

Two models; three runtimes with intervals; a failed run; energy absent with its reason; paced and offline runs.
"""

from __future__ import annotations

import math
import random
import statistics
from dataclasses import replace
from functools import cache

from edgewise.metrics import METRICS
from edgewise.record import (
    Caution,
    Failure,
    InputSpec,
    Job,
    Measurement,
    ModelRef,
    Run,
    RuntimeSpec,
    Scenario,
    SessionRecord,
    Summary,
    TargetSpec,
    Trust,
    Variation,
    Workload,
)

Z95 = statistics.NormalDist().inv_cdf(0.975)
CREATED = "2026-03-04T05:06:07.000+00:00"
GROUP = "0195f0c0-0000-7000-8000-00000000ffff"
NO_ENERGY = "rapl: /sys/class/powercap has no intel-rapl domain"
NO_DEPLOYMENT = "the job ran on this machine, so nothing was deployed"
MISMATCH = (
    "the outputs of openvino/cpu differ from those of onnxruntime/cpu, fake/cpu, which agree (max abs error 0.31, "
    "31.00% of the largest output)"
)

KWS = ModelRef(name="kws.onnx", path="/models/kws.onnx", format="onnx", sha256="a" * 64, size_bytes=53_936)
VWW = ModelRef(name="vww.tflite", path="/models/vww.tflite", format="tflite", sha256="b" * 64, size_bytes=333_288)

ENVIRONMENT = {
    "os": "Debian GNU/Linux 12",
    "kernel": "6.1.0",
    "architecture": "x86_64",
    "python": "3.11.7",
    "cpu": {
        "model": "Example CPU @ 2.00 GHz",
        "physical_cores": 2,
        "logical_cores": 4,
        "flags": ["avx2", "avx512_vnni"],
    },
    "governor": None,
    "absent": {"governor": "no cpufreq in sysfs"},
}


def run_id(number: int) -> str:
    """The id of the sample run with that number."""
    return f"0195f0c0-0000-7000-8000-{number:012x}"


@cache
def samples_of(median: float, spread: float, *, seed: int, n: int = 1200) -> tuple[float, ...]:
    """Skewed, positive samples around `median`, with a few far ones."""
    source = random.Random(seed)
    values = [median * math.exp(source.gauss(0, spread) + (0.4 if source.random() < 0.01 else 0)) for _ in range(n)]
    shift = median / statistics.median(values)
    return tuple(round(value * shift, 10) for value in values)


def summary_of(samples: tuple[float, ...]) -> Summary:
    """Their statistics, percentiles only where there are enough samples."""
    found = _summary_of(samples)
    return replace(found, percentiles=dict(found.percentiles))


@cache
def _summary_of(samples: tuple[float, ...]) -> Summary:
    ordered = sorted(samples)
    median = statistics.median(ordered)
    percentiles = {
        name: ordered[min(len(ordered) - 1, math.ceil(p * len(ordered)) - 1)]
        for name, p in (("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99))
        if len(ordered) >= 10 / (1 - p)
    }
    return Summary(
        n=len(ordered),
        mean=statistics.fmean(ordered),
        std=statistics.pstdev(ordered),
        min=ordered[0],
        max=ordered[-1],
        median=median,
        mad=statistics.median(abs(value - median) for value in ordered),
        percentiles=percentiles,
        outliers=3,
        autocorrelation=0.12,
        between_sessions=0.004,
    )


def measured(metric: str, value: float, *, half: float | None = None, method: str = "sample method") -> Measurement:
    """A measurement with a symmetric interval of half-width `half`."""
    return Measurement(
        metric=metric,
        unit=METRICS[metric].unit,
        basis="measured",
        method=method,
        value=value,
        low=None if half is None else value - half,
        high=None if half is None else value + half,
    )


def missing(metric: str, reason: str) -> Measurement:
    """A measurement without a value."""
    return Measurement(
        metric=metric, unit=METRICS[metric].unit, basis=None, method="", value=None, absent_because=reason
    )


def sampled(metric: str, value: float, *, half: float, seed: int, n: int = 1200) -> Measurement:
    """A measurement with raw samples of five equal sessions."""
    samples = samples_of(value, 0.04, seed=seed, n=n)
    row = measured(metric, value, half=half, method="monotonic clock around each call of the engine, 5 fresh processes")
    return replace(row, samples=samples, session_lengths=(n // 5,) * 5, summary=summary_of(samples))


def make_run(
    number: int,
    *,
    model: ModelRef = KWS,
    runtime: str = "onnxruntime",
    provider: str = "cpu",
    threads: int = 1,
    latency: float = 4.2e-4,
    half: float = 1.1e-5,
    memory: float = 48e6,
    startup: float = 0.21,
    batch: int = 1,
    grade: str = "B",
    cautions: tuple[Caution, ...] = (),
    scenario: Scenario | None = None,
) -> Run:
    """A successful single-stream run; the keyword arguments are its headline figures in SI units."""
    rows = (
        sampled("latency", latency, half=half, seed=number),
        sampled("latency_first", latency * 6, half=latency * 0.4, seed=number + 100, n=5),
        measured("throughput", batch / latency, half=batch / latency * half / latency),
        measured("import_time", startup * 0.6, half=0.002),
        measured("load_time", startup * 0.1, half=0.001),
        measured("startup_time", startup, half=0.004),
        measured("memory_baseline", memory * 0.7, half=1e5),
        measured("memory_load", memory * 0.9, half=1e5),
        measured("memory_peak", memory, half=1e5),
        measured("memory_delta", memory * 0.3, half=1e5),
        measured("cpu_utilization", 0.998, half=0.001),
        measured("model_size", model.size_bytes),
        missing("energy", NO_ENERGY),
        missing("power", NO_ENERGY),
        missing("temperature", "thermal: no thermal zone"),
        missing("clock_rate", "cpufreq: no cpufreq in sysfs"),
        missing("deployment_time", NO_DEPLOYMENT),
        missing("network_bytes", "the job ran on this machine, so nothing was sent over a network"),
        measured(
            "output_max_abs_error",
            1.2e-7,
            method=("outputs of one inference compared with those of onnxruntime/cpu, on the same inputs"),
        ),
        measured(
            "agreement_top1",
            1.0,
            method=("outputs of one inference compared with those of onnxruntime/cpu, on the same inputs"),
        ),
    )
    return Run(
        id=run_id(number),
        created_at=CREATED,
        group=GROUP,
        job=job_of(
            model=model,
            runtime=runtime,
            provider=provider,
            threads=threads,
            batch=batch,
            scenario=scenario or Scenario(),
        ),
        status="done",
        effective={"provider": provider, "threads": threads, "precision": "f32", "engine_version": "1.2.3"},
        environment=ENVIRONMENT,
        measurements=rows,
        sessions=tuple(session(index) for index in range(5)),
        variation=Variation(
            sigma=round(half / latency / Z95, 5), degrees=None, source="learnt", method="of earlier runs"
        ),
        cautions=cautions,
        trust=Trust(grade=grade, reasons=tuple(f"{caution.message} (at best B)" for caution in cautions)),
    )


def job_of(*, model: ModelRef, runtime: str, provider: str, threads: int, batch: int, scenario: Scenario) -> Job:
    """A job on the machine at hand."""
    return Job(
        model=model,
        runtime=RuntimeSpec(name=runtime, version="1.2.3", provider=provider, threads=threads),
        target=TargetSpec(),
        workload=Workload(
            scenario=scenario, batch=batch, inputs=(InputSpec(name="input", shape=(batch, 49, 10, 1), dtype="float32"),)
        ),
    )


def session(index: int) -> SessionRecord:
    """One fresh process."""
    return SessionRecord(
        index=index,
        started_at=f"2026-03-04T05:06:{10 + index}.000+00:00",
        pid=1000 + index,
        phases={"python": 0.03, "import": 0.12, "load": 0.02, "first": 0.0025, "warmup": 0.05, "steady": 0.3},
        warmup=20,
        warmup_samples=(1e-3, 8e-4, 5e-4),
        stopped_because="precision reached",
        facts={"counters": {"steal_share": 0.0, "involuntary_per_s": 1.5}},
    )


def failed_run(number: int = 4, *, model: ModelRef = KWS, runtime: str = "litert", message: str = "") -> Run:
    """A run whose engine did not take the model."""
    return Run(
        id=run_id(number),
        created_at=CREATED,
        group=GROUP,
        job=job_of(model=model, runtime=runtime, provider="interpreter", threads=1, batch=1, scenario=Scenario()),
        status="failed",
        failure=Failure(
            cause="Unsupported",
            message=message or "operator 'Einsum' is not supported",
            phase="load",
            advice="try another runtime",
            stderr_tail="INFO: created delegate\nERROR: no kernel",
        ),
        environment=ENVIRONMENT,
        trust=Trust(grade="D", reasons=("no headline value",)),
    )


def paced_run(number: int = 6) -> Run:
    """A camera-like run at 30 frames per second."""
    run = make_run(
        number, model=VWW, runtime="litert", provider="interpreter", scenario=Scenario(kind="paced", fps=30.0)
    )
    kept = tuple(row for row in run.measurements if row.metric != "throughput")
    extra = (
        sampled("latency_paced", 9.1e-4, half=3e-5, seed=61),
        sampled("response_time", 9.9e-4, half=3e-5, seed=62),
        measured("deadline_miss_rate", 0.002, half=0.001),
        missing("throughput", "the paced scenario sets the rate of arrivals"),
    )
    return replace(run, measurements=extra + kept)


def offline_run(number: int = 7) -> Run:
    """As many inferences at once as it takes."""
    run = make_run(number, model=VWW, runtime="openvino", threads=4, scenario=Scenario(kind="offline", requests=4))
    kept = tuple(row for row in run.measurements if row.metric not in ("latency", "throughput"))
    extra = (
        missing("latency", "the offline scenario has several inferences in flight and measures throughput"),
        replace(sampled("throughput", 5200.0, half=60.0, seed=71, n=50)),
    )
    return replace(run, measurements=extra + kept)


def single_session(half: str = "2.6") -> Caution:
    """The caution of a run with one process."""
    return Caution.of("single-session", f"one process only; the interval is ± {half} %")


def same_model_runs() -> list[Run]:
    """Three runtimes on one model and one failure: openvino is clearly fastest, then fake, then onnxruntime."""
    return [
        make_run(1, cautions=(single_session(),)),
        make_run(
            2,
            runtime="openvino",
            latency=2.31e-4,
            half=4e-6,
            memory=92e6,
            startup=0.35,
            cautions=(single_session("1.7"),),
        ),
        make_run(3, runtime="fake", latency=3.3e-4, half=9e-6, memory=30e6, startup=0.05, grade="A"),
        failed_run(4),
    ]


def all_runs() -> list[Run]:
    """`same_model_runs`, a single-stream run of a second model, and its paced and offline runs."""
    second = make_run(5, model=VWW, runtime="litert", provider="interpreter", latency=2.1e-3, half=4e-5, memory=61e6)
    return [*same_model_runs(), second, paced_run(), offline_run()]
