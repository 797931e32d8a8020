"""The metric catalogue: what every number in edgewise is called, measured in and means.

One row a metric; a metric is data, never a class. The documentation's metrics table is generated from here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

Better = Literal["lower", "higher", "none"]
Aggregation = Literal["median", "mean", "max", "last", "sum", "ratio"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the catalogue.

    Attributes:
        id: stable identifier used in records and on the command line.
        unit: SI base unit of every stored value (``s B J W K Hz 1/s 1``), ``J/token``, or ``dB``.
        label: name in tables.
        better: direction of an improvement.
        aggregation: how the headline value is computed from the samples.
        definition: what exactly is measured.
    """

    id: str
    unit: str
    label: str
    better: Better
    aggregation: Aggregation
    definition: str


_ROWS = (
    Metric("latency", "s", "Latency", "lower", "median",
           "Time of one call of the engine after the warm-up. Calls follow one another directly; binding inputs and "
           "reading outputs are not included. All engines are timed with the same clock around the same kind of call."),
    Metric("latency_p99", "s", "Latency p99", "lower", "ratio",
           "99th percentile of the scenario's latency."),
    Metric("latency_mean", "s", "Latency (mean)", "lower", "mean",
           "Mean of the scenario's latency. The mean of skewed times is above their median."),
    Metric("latency_min", "s", "Latency (min)", "lower", "ratio", "Lowest latency of the scenario."),
    Metric("latency_max", "s", "Latency (max)", "lower", "max", "Highest latency of the scenario."),
    Metric("latency_std", "s", "Latency (std)", "lower", "ratio", "Standard deviation of the scenario's latency."),
    Metric("latency_p90", "s", "Latency p90", "lower", "ratio", "90th percentile of the scenario's latency."),
    Metric("latency_p95", "s", "Latency p95", "lower", "ratio", "95th percentile of the scenario's latency."),
    Metric("latency_engine", "s", "Latency (engine's clock)", "lower", "median",
           "Time of the same inferences by the engine's own clock, if it has one. The Python call is not included."),
    Metric("latency_first", "s", "First inference", "lower", "median",
           "Time of the first inference after loading (cold)."),
    Metric("inference_time", "s", "Inference time", "lower", "median",
           "Time of one complete inference on a sample: preparing the sample, copying it in, the call of the engine, "
           "copying the outputs, and computing the answer. Preparation and answer are computed by edgewise."),
    Metric("latency_paced", "s", "Paced latency", "lower", "median",
           "Time of one call of the engine when inputs arrive on a schedule, with idle time between them."),
    Metric("response_time", "s", "Response time", "lower", "median",
           "Paced scenario: time from the scheduled arrival of an input to the end of its inference, with queueing."),
    Metric("deadline_miss_rate", "1", "Deadline misses", "lower", "mean",
           "Paced scenario: share of inputs that were unfinished when the next one was due."),
    Metric("idle_gap_penalty", "1", "Idle-gap penalty", "lower", "ratio",
           "Median paced latency divided by the median back-to-back latency of the same process."),
    Metric("import_time", "s", "Engine import", "lower", "median", "Time to import the inference engine."),
    Metric("load_time", "s", "Load", "lower", "median",
           "Time to make a model file ready for inference (parse, optimise, compile, allocate)."),
    Metric("compile_time", "s", "Compile", "lower", "median",
           "Time to compile the model for its inputs, by engines that do this apart from loading. Only processes "
           "that compiled anew count, not those that took code from the job's cache."),
    Metric("startup_time", "s", "Start-up", "lower", "median",
           "Time from process start to the end of the first inference: Python, import, load, first inference; with "
           "compiling, unless an application is shipped with the compiled code."),
    Metric("deployment_time", "s", "Deployment", "lower", "median",
           "Time to copy the model to the target and load it there."),
    Metric("throughput", "1/s", "Throughput", "higher", "mean",
           "Samples (inferences × batch) per second in the run's scenario."),
    Metric("ttft", "s", "Time to first text", "lower", "median",
           "Language model: time of a request from its text to the first new token as text: the prompt is tokenised "
           "and computed, and the first token is made text. The first request of a process is not among them."),
    Metric("ttft_model", "s", "Time to first token", "lower", "median",
           "Language model: time from the tokens of the prompt to the first new token, without making tokens of text "
           "and text of tokens."),
    Metric("ttft_first", "s", "Time to first text (cold)", "lower", "median",
           "Language model: the time to first text of the first request of a process after loading."),
    Metric("tpot", "s", "Time per token", "lower", "mean",
           "Language model: (time of the last token − time of the first) / (tokens − 1), which is the mean of the gaps "
           "between the new tokens. Each gap is a sample."),
    Metric("prefill_rate", "1/s", "Prompt rate", "higher", "ratio",
           "Language model: tokens of the prompts divided by the sum of their times to first token, at the run's "
           "depth."),
    Metric("decode_rate", "1/s", "Generation rate", "higher", "ratio",
           "Language model: number of gaps between new tokens divided by their sum, 1 / time per token, at the run's "
           "depth and after its prompt."),
    Metric("kv_cache_bytes", "B", "KV cache", "lower", "last",
           "Language model: keys and values that attention keeps of the run's whole context: 2 × layers × heads of "
           "keys × size of a head × bytes of a number × tokens."),
    Metric("model_size", "B", "Model size", "lower", "last", "Size of the model's files on disk, with weights."),
    Metric("parameters_size", "B", "Parameters size", "lower", "last", "Size of the model's constant weights."),
    Metric("parameters", "1", "Parameters", "lower", "last", "Number of the model's constant weights."),
    Metric("depth", "1", "Depth", "none", "last",
           "Number of operators on the longest path from an input to an output, data movement included."),
    Metric("memory_baseline", "B", "Memory baseline", "lower", "median",
           "Resident memory (VmRSS) of the process after importing the engine, before loading the model."),
    Metric("memory_load", "B", "Memory after load", "lower", "median",
           "Resident memory (VmRSS) after loading the model, before the first inference."),
    Metric("memory_peak", "B", "Peak memory", "lower", "median",
           "Highest resident memory during the first inferences (VmHWM, reset through clear_refs after loading)."),
    Metric("memory_delta", "B", "Memory of the model", "lower", "median",
           "Peak memory minus the baseline: what the model added to the process."),
    Metric("memory_activations", "B", "Activations", "lower", "last",
           "Most bytes of activations alive at one time during an inference, computed from the model's graph. Weights, "
           "scratch memory of the engine and padding are not included."),
    Metric("memory_engine", "B", "Engine overhead", "lower", "median",
           "Memory of the model minus its weights and activations: what the engine adds."),
    Metric("memory_arena", "B", "Arena", "lower", "last", "Size of the engine's tensor arena."),
    Metric("memory_sram", "B", "RAM", "lower", "last",
           "On-chip memory that one inference needs on the device, with the software whose latency is given."),
    Metric("memory_scratch", "B", "Scratch memory", "lower", "last",
           "Part of the RAM: the most that a kernel needs beside the arena."),
    Metric("memory_stack", "B", "Stack", "lower", "last", "Part of the RAM: the stack of the deepest operator."),
    Metric("memory_sram_least", "B", "RAM without an interpreter", "lower", "last",
           "On-chip memory that one inference needs in a program of edgewise's, which has no interpreter."),
    Metric("memory_dram", "B", "DRAM", "lower", "last", "External memory that one inference needs on the device."),
    Metric("memory_arena_tflm", "B", "Arena of tflite-micro, 64-bit", "lower", "last",
           "Size of the arena that tflite-micro allocates for the model on this machine."),
    Metric("memory_arena_tflm_32bit", "B", "Arena of tflite-micro", "lower", "last",
           "Size of the arena that tflite-micro allocates for the model on a microcontroller, whose pointers have 32 "
           "bits."),
    Metric("memory_arena_smallest", "B", "Smallest arena of tflite-micro", "lower", "last",
           "Size of the smallest arena in which tflite-micro executes the model on this machine."),
    Metric("flash", "B", "Flash", "lower", "last", "Read-only memory occupied by model and code on the device."),
    Metric("battery_life", "s", "Battery life", "higher", "ratio",
           "Capacity of a battery divided by the mean power: idle power plus the energy of the inferences."),
    Metric("flash_read", "B", "Read from flash", "lower", "last",
           "Data that one inference reads from flash, without the instructions."),
    Metric("cpu_utilization", "1", "CPU utilisation", "none", "mean",
           "Processor time divided by wall time of the measured phase; 1 means one fully busy core."),
    Metric("total_time", "s", "Total time", "lower", "median",
           "Time from the start of a command to the end of its process."),
    Metric("cpu_time", "s", "CPU time", "lower", "median",
           "Processor time, user and system, of all processes of a command."),
    Metric("background_cpu", "1", "Background CPU", "none", "mean",
           "Processor time of the background load divided by wall time; 1 is one core."),
    Metric("cpu_utilization_peak", "1", "Peak CPU", "none", "max",
           "Highest CPU utilisation of a command between two samples."),
    Metric("throttled_time", "s", "Throttled", "none", "median",
           "Time for which the processor limit paused a command, summed over processors."),
    Metric("memory_average", "B", "Average memory", "lower", "mean",
           "Mean over samples of the memory of all processes of a command, without inactive page cache."),
    Metric("memory_group_peak", "B", "Peak memory (all processes)", "lower", "median",
           "Highest memory of all processes of a command together, page cache included, counted by the kernel; or "
           "more for one of the processes. Without a memory controller: highest resident memory of one of them."),
    Metric("memory_limit", "B", "Memory limit", "none", "last", "Memory limit of a command."),
    Metric("memory_limit_hits", "1", "Memory limit reached", "none", "median",
           "Number of times that a command reached its memory limit and the kernel had to reclaim memory."),
    Metric("network_received", "B", "Network in", "none", "median",
           "Bytes received on the machine's network interfaces, loopback excluded, while a command ran. Traffic of "
           "other processes is included."),
    Metric("network_sent", "B", "Network out", "none", "median",
           "Bytes sent on the same interfaces while a command ran, other processes included."),
    Metric("block_read", "B", "Block in", "none", "median", "Bytes that a command read from block devices."),
    Metric("block_written", "B", "Block out", "none", "median", "Bytes that a command wrote to block devices."),
    Metric("page_faults", "1", "Page faults", "none", "median",
           "Page faults of a command that the kernel served without reading from a device."),
    Metric("page_faults_major", "1", "Major page faults", "none", "median",
           "Page faults of a command that had to read from a device."),
    Metric("context_switches", "1", "Context switches", "none", "median",
           "Voluntary and involuntary context switches of a command."),
    Metric("clock_rate", "Hz", "Clock", "none", "median", "Frequency of the cores that ran the inference."),
    Metric("energy", "J", "Energy", "lower", "mean",
           "Energy of one inference, minus the idle consumption measured in the same run. Of a language model: of one "
           "request."),
    Metric("energy_per_token", "J/token", "Energy per token", "lower", "mean",
           "Language model: energy of one request, its prompt included, divided by its new tokens."),
    Metric("prefill_energy", "J/token", "Prompt energy", "lower", "mean",
           "Language model: energy of requests that end at their first token, divided by the tokens of the prompt."),
    Metric("decode_energy", "J/token", "Generation energy", "lower", "mean",
           "Language model: energy of one request minus that of one that ends at its first token, divided by the "
           "tokens behind the first one."),
    Metric("energy_per_op", "J", "Energy per operation", "lower", "ratio",
           "Energy of one inference divided by its arithmetic operations."),
    Metric("energy_per_mac", "J", "Energy per MAC", "lower", "ratio",
           "Energy of one inference divided by its multiply-accumulate operations."),
    Metric("power", "W", "Power", "lower", "mean", "Mean power during inference, minus the idle power."),
    Metric("gpu_utilization", "1", "GPU utilisation", "none", "mean",
           "Share of time in which the GPU was busy, as its driver counts it, all processes included."),
    Metric("temperature", "K", "Temperature", "lower", "max", "Highest temperature during inference."),
    Metric("network_bytes", "B", "Network", "lower", "sum",
           "Bytes sent and received for a run on another machine: files, requests and messages."),
    Metric("macs", "1", "MACs", "none", "last", "Multiply-accumulate operations of one inference."),
    Metric("ops", "1", "Operations", "none", "last", "Arithmetic operations of one inference."),
    Metric("cpu_cycles", "1", "CPU cycles", "lower", "median", "Processor cycles of one inference."),
    Metric("accelerator_cycles", "1", "Accelerator cycles", "lower", "median", "Accelerator cycles of one inference."),
    Metric("accelerator_utilization", "1", "Accelerator utilisation", "higher", "last",
           "MACs of one inference divided by what the accelerator could do in its cycles."),
    Metric("instructions", "1", "Instructions", "lower", "median", "Instructions of one inference."),
    Metric("accuracy_top1", "1", "Top-1 accuracy", "higher", "mean",
           "Share of samples whose best class is the label. Of equal scores, the first class is the best."),
    Metric("accuracy_top5", "1", "Top-5 accuracy", "higher", "mean",
           "Share of samples whose label is among the five best classes. Of equal scores, the last class comes first, "
           "as in scikit-learn's top_k_accuracy_score."),
    Metric("error_rate", "1", "Error rate", "lower", "mean", "Share of wrong answers."),
    Metric("accuracy_balanced", "1", "Balanced accuracy", "higher", "mean", "Mean recall of the classes."),
    Metric("precision_macro", "1", "Precision (macro)", "higher", "mean", "Mean precision of the classes."),
    Metric("recall_macro", "1", "Recall (macro)", "higher", "mean",
           "Mean recall of the classes that occur as labels or answers."),
    Metric("f1_macro", "1", "F1 (macro)", "higher", "mean",
           "Mean F1 (harmonic mean of precision and recall) of the classes."),
    Metric("map_50_95", "1", "mAP@[.50:.95]", "higher", "mean",
           "COCO's mean average precision over IoU 0.50 to 0.95 in steps of 0.05, all areas, 100 detections."),
    Metric("map_50", "1", "mAP@.50", "higher", "mean", "COCO's mean average precision at IoU 0.50."),
    Metric("map_75", "1", "mAP@.75", "higher", "mean", "COCO's mean average precision at IoU 0.75."),
    Metric("recall_100", "1", "AR@100", "higher", "mean",
           "COCO's average recall with 100 detections per image, over IoU 0.50 to 0.95."),
    Metric("miou", "1", "mIoU", "higher", "mean", "Mean over classes of the intersection over union of all pixels."),
    Metric("pixel_accuracy", "1", "Pixel accuracy", "higher", "mean", "Share of labelled pixels with the right class."),
    Metric("auroc", "1", "AUC (ROC)", "higher", "mean", "Area under the receiver operating characteristic."),
    Metric("average_precision", "1", "Average precision", "higher", "mean",
           "Sum over thresholds of precision times the gain in recall."),
    Metric("exact_match", "1", "Exact match", "higher", "mean",
           "Share of answers that equal a reference, both normalised."),
    Metric("f1_tokens", "1", "F1 (tokens)", "higher", "mean",
           "Mean over samples of the F1 of the tokens that answer and reference share."),
    Metric("rouge_l", "1", "ROUGE-L", "higher", "mean",
           "Mean over samples of the F1 of the longest common subsequence of words of answer and reference."),
    Metric("bleu", "1", "BLEU", "higher", "mean",
           "Corpus BLEU, 0 to 1, with brevity penalty, as sacreBLEU computes it."),
    Metric("perplexity", "1", "Perplexity", "lower", "ratio",
           "Language model: exp(−mean of ln p) of the tokens of a text, where p is the probability that the model "
           "gives a token behind those before it. Other tokenizers give other numbers."),
    Metric("bits_per_byte", "1", "Bits per byte", "lower", "ratio",
           "Language model: −log₂ of the probability of a text, divided by its bytes in UTF-8. Models with other "
           "tokenizers can be compared."),
    Metric("tokens_scored", "1", "Tokens predicted", "none", "sum",
           "Language model: number of tokens behind the perplexity."),
    Metric("tokens_before", "1", "Tokens before", "none", "mean",
           "Language model: mean number of tokens before those of a sample in the model's window."),
    Metric("mae", "1", "MAE", "lower", "mean", "Mean absolute error, in the labels' own unit."),
    Metric("rmse", "1", "RMSE", "lower", "mean", "Root of the mean squared error, in the labels' own unit."),
    Metric("r2", "1", "R²", "higher", "mean", "Coefficient of determination."),
    Metric("recall_at_1", "1", "Recall@1", "higher", "mean",
           "Share of queries whose nearest other sample has the same class."),
    Metric("recall_at_5", "1", "Recall@5", "higher", "mean",
           "Share of queries with a sample of the same class among the five nearest others."),
    Metric("recall_at_10", "1", "Recall@10", "higher", "mean",
           "Share of queries with a sample of the same class among the ten nearest others."),
    Metric("agreement_top1", "1", "Top-1 agreement", "higher", "mean",
           "Share of output rows whose largest element is at the same position as the reference's."),
    Metric("output_max_abs_error", "1", "Max abs error", "lower", "max",
           "Largest absolute difference of an output element from the reference's, on the same inputs."),
    Metric("output_max_rel_error", "1", "Max rel error", "lower", "max",
           "Max abs error divided by the largest magnitude of the reference's output (8 and 16 bits: by the type's "
           "range)."),
    Metric("output_snr", "dB", "Output SNR", "higher", "mean",
           "Signal-to-noise ratio: power of the reference's outputs divided by the power of the difference from them, "
           "over all samples."),
    Metric("output_snr_worst", "dB", "SNR of the worst output", "higher", "mean",
           "Lowest signal-to-noise ratio of a single output, over all samples. `optimize` uses a signal power of 1 for "
           "an output that is a single probability."),
    Metric("agreement_boxes", "1", "Box agreement", "higher", "mean",
           "2 × number of boxes that match a box of the reference, divided by the number of boxes of both, over all "
           "samples and without near-duplicates. Boxes match if they have the same class and an IoU of at least 0.5."),
)  # fmt: skip

SHARES = frozenset(
    row.id
    for row in _ROWS
    if row.unit == "1"
    and row.id.startswith(
        ("accuracy_", "precision_", "recall_", "f1_", "map_", "average_precision", "exact_match", "bleu", "rouge_",
         "auroc", "miou", "pixel_", "agreement_", "error_rate", "deadline_miss_rate")
    )
)  # fmt: skip
"""Metrics from 0 to 1 that are printed in percent."""

WITHOUT_A_RUN = frozenset({"model_size", "memory_limit"})
"""Metrics that are known before a run, so that one that failed has them too."""

_IDS = tuple(row.id for row in _ROWS)
_SCORES = frozenset(_IDS[_IDS.index("accuracy_top1") :])


def in_sentence(label: str) -> str:
    """Return a label as it stands inside a sentence: ``top-1 accuracy``; abbreviations keep their capitals."""
    return label if label[1:2].isupper() else label[:1].lower() + label[1:]


def is_score(metric: str) -> bool:
    """Whether a metric says how accurate the answers are."""
    return metric in _SCORES or _OWN.fullmatch(metric) is not None


_OWN = re.compile(r"(score|loss):([A-Za-z_][A-Za-z0-9_.]{0,63})")
_ENERGY = re.compile(r"energy:(.{1,160})")


class _Catalogue(dict[str, Metric]):
    """The rows by id, the user's metrics ``score:NAME`` (higher is better) and ``loss:NAME`` (lower is better), and
    ``energy:METER`` where several meters read energy.
    """

    def __missing__(self, key: str) -> Metric:
        found = self._own(key)
        if found is None:
            raise KeyError(key)
        return found

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or self._own(key) is not None

    def get(self, key: str, default: Any = None) -> Any:
        """Return the row of `key`, or `default`."""
        return super().get(key) or self._own(key) or default

    @staticmethod
    def _own(key: object) -> Metric | None:
        if isinstance(key, str) and (meter := _ENERGY.fullmatch(key)):
            return Metric(key, "J", f"Energy ({meter[1]})", "lower", "mean", "Energy of one inference, by one meter.")
        match = _OWN.fullmatch(key) if isinstance(key, str) else None
        if match is None:
            return None
        kind, name = match.groups()
        better: Better = "higher" if kind == "score" else "lower"
        return Metric(match.group(), "1", name, better, "mean", "The user's own metric.")


METRICS: dict[str, Metric] = _Catalogue({row.id: row for row in _ROWS})
"""Metrics by id. Iteration yields edgewise's metrics only; a user's metric is found by its id."""

OWN_METRIC = _OWN.pattern
"""Pattern of the id of a user's metric."""
