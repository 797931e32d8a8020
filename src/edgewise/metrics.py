"""The metric catalogue: what every number in edgewise is called, measured in and means.

One row a metric; a metric is data, never a class. The documentation's metrics table is generated from here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Better = Literal["lower", "higher", "none"]
Aggregation = Literal["median", "mean", "max", "last", "sum", "ratio"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the catalogue.

    Attributes:
        id: stable identifier used in records and on the command line.
        unit: SI base unit of every stored value (``s B J W K Hz 1/s 1``).
        label: what tables print.
        better: which direction is an improvement.
        aggregation: how the headline value follows from the samples.
        definition: exactly what was measured.
    """

    id: str
    unit: str
    label: str
    better: Better
    aggregation: Aggregation
    definition: str


_ROWS = (
    Metric("latency", "s", "Latency", "lower", "median",
           "Time of one inference after warm-up, back to back, inputs already bound and outputs left with the engine."),
    Metric("latency_p99", "s", "Latency p99", "lower", "ratio",
           "Time within which 99 of 100 inferences end, of the scenario's latency."),
    Metric("latency_call", "s", "Latency of the call", "lower", "median",
           "Wall time around the engine's Python call; given where the engine's own clock is the headline latency."),
    Metric("latency_first", "s", "First inference", "lower", "median",
           "Time of the first inference after loading (cold)."),
    Metric("latency_paced", "s", "Paced latency", "lower", "median",
           "Time of one inference when inputs arrive on a schedule with idle gaps between them."),
    Metric("response_time", "s", "Response time", "lower", "median",
           "Paced scenario: from the scheduled arrival of an input to the end of its inference, queueing included."),
    Metric("deadline_miss_rate", "1", "Deadline misses", "lower", "mean",
           "Paced scenario: share of inputs that were not finished when the next one was due."),
    Metric("idle_gap_penalty", "1", "Idle-gap penalty", "lower", "ratio",
           "Median paced latency over median back-to-back latency of the same process."),
    Metric("import_time", "s", "Engine import", "lower", "median", "Time to import the inference engine."),
    Metric("load_time", "s", "Load", "lower", "median",
           "Time from the model file to a session that can infer (parse, optimise, compile, allocate)."),
    Metric("startup_time", "s", "Start-up", "lower", "median",
           "Process start to the end of the first inference: interpreter, import, load, first inference."),
    Metric("deployment_time", "s", "Deployment", "lower", "median",
           "Bytes moved to the target plus load on the target."),
    Metric("throughput", "1/s", "Throughput", "higher", "mean",
           "Inferences (samples: runs × batch) per second of the scenario that is named beside it."),
    Metric("model_size", "B", "Model size", "lower", "last", "Size of the model's files on disk, weights included."),
    Metric("parameters_size", "B", "Parameters size", "lower", "last", "Bytes of the model's constant weights."),
    Metric("parameters", "1", "Parameters", "lower", "last", "Number of the model's constant weights."),
    Metric("depth", "1", "Depth", "none", "last", "Longest path through the graph, in operators with parameters."),
    Metric("memory_baseline", "B", "Memory baseline", "lower", "median",
           "Resident memory (VmRSS) of the fresh process with the engine imported, before the model is loaded."),
    Metric("memory_load", "B", "Memory after load", "lower", "median",
           "Resident memory (VmRSS) after the model was loaded, before the first inference."),
    Metric("memory_peak", "B", "Peak memory", "lower", "median",
           "Highest resident memory (VmHWM, reset through clear_refs after loading) in the first inferences."),
    Metric("memory_delta", "B", "Memory of the model", "lower", "median",
           "Peak memory in inference less the baseline: what this model added to the process."),
    Metric("memory_arena", "B", "Arena", "lower", "last", "Size of the engine's tensor arena."),
    Metric("flash", "B", "Flash", "lower", "last", "Read-only memory that model and code occupy on the device."),
    Metric("cpu_utilization", "1", "CPU utilisation", "none", "mean",
           "Processor time over wall time of the measured phase; 1 is one core fully busy."),
    Metric("clock_rate", "Hz", "Clock", "none", "median", "Frequency of the cores that ran the inference."),
    Metric("energy", "J", "Energy", "lower", "mean",
           "Energy of one inference above an idle baseline measured in the same run."),
    Metric("power", "W", "Power", "lower", "mean", "Mean power while inferring, above the idle baseline."),
    Metric("temperature", "K", "Temperature", "lower", "max", "Highest temperature while inferring."),
    Metric("network_bytes", "B", "Network", "lower", "sum", "Bytes that moving the job to its target sent."),
    Metric("macs", "1", "MACs", "none", "last", "Multiply-accumulate operations of one inference."),
    Metric("ops", "1", "Operations", "none", "last", "Arithmetic operations of one inference."),
    Metric("cpu_cycles", "1", "CPU cycles", "lower", "median", "Processor cycles of one inference."),
    Metric("accelerator_cycles", "1", "Accelerator cycles", "lower", "median", "Accelerator cycles of one inference."),
    Metric("instructions", "1", "Instructions", "lower", "median", "Instructions of one inference."),
    Metric("accuracy_top1", "1", "Top-1 accuracy", "higher", "mean", "Share of samples whose best class is the label."),
    Metric("accuracy_top5", "1", "Top-5 accuracy", "higher", "mean",
           "Share of samples whose label is in the top five."),
    Metric("error_rate", "1", "Error rate", "lower", "mean", "Share of samples that are wrong."),
    Metric("agreement_top1", "1", "Top-1 agreement", "higher", "mean",
           "Share of output rows whose largest element is where the reference runtime has it."),
    Metric("output_max_abs_error", "1", "Max abs error", "lower", "max",
           "Largest absolute difference of any output element from the reference runtime's, same inputs."),
    Metric("output_max_rel_error", "1", "Max rel error", "lower", "max",
           "Max abs error over the largest magnitude of the reference output (8/16-bit: over the type's range)."),
)  # fmt: skip

METRICS: dict[str, Metric] = {row.id: row for row in _ROWS}
