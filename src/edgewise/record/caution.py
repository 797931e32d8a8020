"""The catalogue of cautions: every warning that a run can carry, with its advice and its effect on the grade."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from edgewise.errors import unmarked

#: code → (best grade that a run with this caution can get, advice with fields in marks). Grades: A best, D worst.
CAUTIONS: dict[str, tuple[str, str]] = {
    "too-few-samples": ("D", "raise ⟦iterations⟧ or ⟦duration⟧; in the scenario cold-start raise ⟦sessions⟧"),
    "single-session": ("B", "use ⟦sessions=3⟧ or more, so that the interval includes differences between processes"),
    "wide-interval": ("C", "measure longer, or stop other work; ignore differences smaller than the interval"),
    "very-wide-interval": (
        "D",
        "ignore smaller differences; raise ⟦sessions⟧ (five or more), measure longer or stop other work",
    ),
    "variation-assumed": (
        "B",
        "run 'edgewise doctor --calibrate 10min' to measure it, or spread the sessions with ⟦spread=10min⟧",
    ),
    "unusual-speed": (
        "B",
        "the machine changed since earlier runs (load, clock, temperature, neighbours); measure again before you quote",
    ),
    "suspect-device": ("C", "its lab was to measure it again: see 'edgewise lab status' before you quote it"),
    "sessions-differ": ("B", "processes differ by more than the noise within each; raise ⟦sessions⟧"),
    "drift": ("C", "latency rose or fell while measuring; let the machine settle (temperature, caches, other load)"),
    "multimodal": ("B", "samples form separate clusters; look at the histogram before quoting one number"),
    "outliers": ("A", "some samples are far from the rest; they are included and counted; see the percentiles"),
    "stalled": (
        "B",
        "the values are of all samples, this time among them; measure again if it is more than you can leave in",
    ),
    "mean-above-median": (
        "A",
        "throughput follows the mean; stop other programs, or compare percentiles if the model itself varies as much",
    ),
    "no-steady-state": ("C", "the warm-up did not end within the budget; raise ⟦warmup⟧ or ⟦duration⟧"),
    "stopped-early": (
        "B",
        "its time ended before the interval was narrow enough; raise ⟦duration⟧, or ⟦time_budget⟧ if it is set",
    ),
    "fewer-sessions": (
        "B",
        "the model is slow, or the time short; set the number of sessions with ⟦sessions⟧ and ⟦iterations⟧",
    ),
    "emulated-processor": (
        "A",
        "outputs, accuracy and sizes hold; measure times, energy and memory on a real device",
    ),
    "busy-host": ("C", "other processes used the processor; stop them or measure again"),
    "pinned-threads": (
        "A",
        "⟦set=ENABLE_CPU_PINNING=false⟧ lets the system move them to a free processor, as those of other engines",
    ),
    "steal": ("C", "the hypervisor gave processor time to other virtual machines; measure on dedicated hardware"),
    "memory-pressure": ("C", "the machine is short of memory and reclaims or swaps; stop other programs"),
    "context-switches": ("B", "the worker was interrupted often; leave one core free for it"),
    "throttled": ("C", "a cgroup quota paused the worker; lift the quota or measure elsewhere"),
    "charging": (
        "B",
        "charging heats a device; measure with a full or unplugged battery: 'adb tcpip 5555', unplug, 'adb connect'",
    ),
    "thermal-status": ("C", "the device limits its clocks because it is hot; let it cool down and measure again"),
    "nnapi-deprecated": (
        "A",
        "newer devices may run it on the processor; also measure benchmark_model/gpu or benchmark_model/npu",
    ),
    "limit-not-held": ("C", "results don't show the smaller device; see docs/constraints.md for better mechanisms"),
    "cache-not-dropped": (
        "B",
        "loading was faster than from a disk; put the model on a disk instead of a file system in memory",
    ),
    "load-not-held": ("C", "the conditions differ from the requested ones; see the method of each number"),
    "native-environment": (
        "B",
        "the program ran with what is installed on this machine; install the same packages before you compare",
    ),
    "paused-by-limit": (
        "B",
        "compare throughput or p99: the kernel pauses for parts of 0.1 s, and the median shows the time between pauses",
    ),
    "edgewise-paused": ("C", "edgewise was stopped, or its output was, while the command ran; measure again"),
    "cpu-not-used": (
        "B",
        "a slower processor may rank commands differently: waiting or other programs took a part of the time",
    ),
    "processes-left": ("A", "the program left processes running when it ended; they were killed and not waited for"),
    "overloaded": ("C", "inputs arrived faster than the engine could process them; lower ⟦fps⟧ or use a faster engine"),
    "oversubscribed": ("C", "⟦threads⟧ exceeds the number of usable cores; lower it"),
    "output-mismatch": (
        "C",
        "the outputs differ from those of other runtimes; find the cause before comparing its speed",
    ),
    "implausible-accuracy": (
        "A",
        "check the preparation (⟦prepare⟧: scale, mean and std, layout, channel order) and that labels use the same "
        "class numbers as the outputs (⟦classes⟧, ⟦task_option=offset=1⟧)",
    ),
    "unusual-values": ("A", "check the preparation as it was in training (⟦prepare⟧: scale, mean and std)"),
    "better-preparation": ("A", "prepare pictures as in training; another way to the input's size costs accuracy"),
    "samples-calibrated": (
        "A",
        "its accuracy may be slightly too high; samples on which it was not calibrated tell how it does on new ones",
    ),
    "samples-left-out": ("A", "fix or remove them; ⟦strict⟧ ends the evaluation at the first one"),
    "samples-changed": ("A", "check that the model was trained with samples changed in the same way"),
    "processors-differ": (
        "A",
        "name hosts with one kind of processor (⟦device⟧), or run the samples on one machine, before you compare close "
        "scores",
    ),
    "class-order": (
        "A",
        "give the data's names of the classes in the order of the model's outputs: ⟦classes⟧ FILE, one per line",
    ),
    "output-not-finite": ("C", "the outputs contain NaN or infinity; use real data with ⟦input_data⟧"),
    "precision-differs": ("B", "the runtimes computed in different precisions; set one with ⟦precision⟧"),
    "assumed-shape": ("A", "an open dimension got an assumed size; set it with ⟦shape=NAME=…⟧"),
    "fixed-dimensions": (
        "A",
        "⟦set=keep_open_dimensions=true⟧ measures the file as it is; a program gets this speed if it fixes the sizes, "
        "too, with reshape()",
    ),
    "input-converted": ("A", "the data was converted to the model's input type; store it in that type"),
    "slower-call": (
        "A",
        "the engine's fastest call can't run this model repeatedly; compare only with runs that timed the same call",
    ),
    "graph-breaks": (
        "A",
        "Python runs a part of each inference; TORCH_LOGS=graph_breaks shows each place in the module's code",
    ),
    "not-repeatable": (
        "B",
        "inferences may differ in work, and their outputs can't be compared; reset the state, or fix the random "
        "numbers, in the model",
    ),
    "keeps-state": (
        "A",
        "timed inferences are one sequence; evaluate starts each sample from the initial state, without ⟦keep_state⟧",
    ),
    "board-clock": (
        "C",
        "an emulator runs at another speed than this machine; on a real board, check the timer of its firmware",
    ),
    "imported": (
        "B",
        "add what you know on import: ⟦model⟧ FILE, ⟦device=NAME⟧, ⟦set=threads=4⟧; or measure with edgewise",
    ),
    "failed-executions": (
        "C",
        "find out why they failed: a program that fails may take much less time, or fail on certain inputs only",
    ),
    "statistics-only": ("C", "save the tool's single times, or measure with edgewise, to get an interval"),
    "layers-off": ("A", "measure again on a quiet machine before you quote shares of layers; the latency is as graded"),
    "low-roof": (
        "A",
        "shares of the roof may be too high, and avoidable cost may be missed; when nothing else runs, "
        "'edgewise doctor --forget' and a new profile measure the peaks anew",
    ),
    "not-default-precision": ("A", "it may be faster, and accuracy may differ; engines are compared in the same one"),
    "settings-ignored": ("B", "the engine ignored or changed a requested setting"),
}

ABOUT_DATA = (
    "samples-calibrated", "samples-left-out", "samples-changed", "class-order", "unusual-values", "better-preparation",
)  # fmt: skip
"""Codes of cautions on an accuracy, from the data that it was measured on and its preparation."""
OF_LOAD = ("busy-host", "steal")
"""Codes of cautions on what else ran, which limit the grade to C."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caution:
    """A typed warning about a run.

    Attributes:
        code: a key of `CAUTIONS`.
        message: the observation, with its numbers.
        advice: what the user can do.
    """

    code: str
    message: str
    advice: str = ""

    def __post_init__(self) -> None:
        """Name fields that are in marks (`edgewise.errors`) by their flags."""
        for name in ("message", "advice"):
            object.__setattr__(self, name, unmarked(getattr(self, name)))

    @classmethod
    def of(cls, code: str, message: str) -> Caution:
        """Return the caution `code` with the catalogue's advice. Raises KeyError for an unknown code."""
        return cls(code=code, message=message, advice=CAUTIONS[code][1])


def loads_of(cautions: Iterable[Caution]) -> list[str]:
    """How much of the processors others used, as those of `cautions` say that limit the grade for it."""
    return [each.message for each in cautions if each.code in OF_LOAD]
