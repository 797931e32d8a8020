"""Warnings as typed values, each with advice: a closed catalogue, never free text scattered over the code."""

from __future__ import annotations

from dataclasses import dataclass

#: code → (grade it can't be better than, advice). Grades: A best, D worst.
CAUTIONS: dict[str, tuple[str, str]] = {
    "too-few-samples": ("D", "measure longer: raise --iterations or --duration"),
    "single-session": ("B", "use --sessions 3 or more, so that the interval includes the difference between processes"),
    "wide-interval": ("C", "measure longer or quieten the machine; differences smaller than the interval mean nothing"),
    "very-wide-interval": (
        "D",
        "the number is known to an order of magnitude at best; raise --sessions (five or more), measure longer or "
        "quieten the machine",
    ),
    "variation-assumed": (
        "B",
        "learn it with 'edgewise doctor --calibrate 10min', or lay the sessions apart with --spread 10min",
    ),
    "unusual-speed": (
        "B",
        "something changed since the earlier runs (load, clock, heat, neighbours); measure again before quoting it",
    ),
    "sessions-differ": ("B", "fresh processes disagree by more than their own noise; raise --sessions"),
    "drift": ("C", "latency moved in one direction while measuring; let the machine settle (heat, caches, other load)"),
    "multimodal": ("B", "samples fall into separate clusters; look at the histogram before quoting one number"),
    "outliers": ("A", "some samples are far from the rest; they are kept and counted, see the percentiles"),
    "no-steady-state": ("C", "the warm-up did not end within the budget; raise --warmup or --duration"),
    "time-budget": ("B", "the time budget ended before the median was known well enough; give more with --duration"),
    "fewer-sessions": ("B", "the model is slow; ask for the sessions you want with --sessions and --iterations"),
    "busy-host": ("C", "other processes used the machine; stop them or measure again"),
    "steal": ("C", "the hypervisor took the processor away; measure on a machine of your own"),
    "context-switches": ("B", "the worker was interrupted often; leave it a free core"),
    "throttled": ("C", "a control group's quota held the worker back; lift the quota or measure elsewhere"),
    "overloaded": ("C", "inputs came faster than they could be served; lower --fps or use a faster engine"),
    "oversubscribed": ("C", "more threads than cores were asked for"),
    "output-mismatch": (
        "C",
        "this runtime's outputs differ from the others'; don't compare its speed before finding out why",
    ),
    "implausible-accuracy": (
        "A",
        "check how samples are prepared (--prepare: scale, mean and std, layout, order of channels) and that labels "
        "number the classes as the outputs do (--classes, --task-option offset=1)",
    ),
    "output-not-finite": (
        "C",
        "the outputs contain NaN or infinity for the inputs used; feed real data with --input-data",
    ),
    "precision-differs": ("B", "runtimes ran at different precisions; fix it with --precision"),
    "assumed-shape": ("A", "a dynamic dimension was given a default; fix it with --shape NAME=…"),
    "input-converted": ("A", "the data was given in another type than the model takes; store it in the model's type"),
    "slower-call": (
        "A",
        "the engine's fastest call can't run this model repeatedly; compare it only with runs that timed the same call",
    ),
    "settings-ignored": ("B", "the engine did not take a setting that was asked for"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Caution:
    """One typed warning.

    Attributes:
        code: a key of `CAUTIONS`.
        message: what was seen, with the numbers.
        advice: what to do about it.
    """

    code: str
    message: str
    advice: str = ""

    @classmethod
    def of(cls, code: str, message: str) -> Caution:
        """The caution `code` with the catalogue's advice. Raises KeyError for a code that is not in the catalogue."""
        return cls(code=code, message=message, advice=CAUTIONS[code][1])
