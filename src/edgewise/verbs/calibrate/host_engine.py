"""The engine of this machine whose values a device is learnt from: the device's own, or the one that predicts best."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from edgewise.errors import as_flag
from edgewise.record import Run
from edgewise.record.facts import is_only_vague
from edgewise.record.job import Job, RuntimeSpec
from edgewise.runtime.base import runtimes
from edgewise.stats.distributions import normal_quantile
from edgewise.text import enumerate_few
from edgewise.verbs.calibrate.device_runs import engine_text

MOST_COMPARED = 6
"""Engines whose laws are fitted to find the best one."""
MOST_TO_MEASURE = 10
"""Files in a command to measure them; more tell little beside them."""
MORE_SESSIONS = 10
UNMEASURED = "Without a value of this machine"
GRADE_D = "grade D and {}: a quieter machine and more sessions help"
USED, NOT_USED = "used, with more doubt, as too few are better", "not used"
WORSE = "not used, as predictions are expected to be better without"
_WORDS = {(one, how): f"{'is' if one else 'are'} {how}" for one in (True, False) for how in (USED, NOT_USED, WORSE)}
"""Whether it is one run, and how they are used → what is said of them."""
_AS_HERE: Mapping[tuple[str, str | None], tuple[str, str | None]] = {
    # TensorFlow Lite takes XNNPACK unless it is told otherwise, and so does LiteRT's interpreter.
    ("benchmark_model", None): ("litert", "interpreter"),
    ("benchmark_model", "xnnpack"): ("litert", "interpreter"),
    ("benchmark_model", "builtin"): ("litert", "interpreter-noxnnpack"),
    ("litert", "cpu"): ("litert", "compiled"),  # the processor, as litert-benchmark names it
    ("onnxruntime_perf_test", None): ("onnxruntime", None),
    ("onnxruntime_perf_test", "cpu"): ("onnxruntime", "cpu"),
}
"""Engine and provider of a device, as a tool names them → the same on this machine."""


def engine_here(job: Job) -> str:
    """Return the engine of this machine, as `engine_text`, that is the one of a device's run; "" where none is.

    That is the same library with the same provider and number of threads; a device's accelerator is not here.
    """
    spec = job.runtime
    name, provider = _AS_HERE.get((spec.name, spec.provider), (spec.name, spec.provider))
    if name not in runtimes().names():
        return ""
    known = {each.name: each for each in runtimes().get(name).providers}
    found = next(iter(known.values()), None) if provider is None else known.get(provider)
    if found is None or found.accelerator:
        return ""
    here = RuntimeSpec(name=name, provider=found.name, threads=spec.threads or 1)
    return engine_text(replace(job, runtime=here, target=replace(job.target, constraints=None)))


def choose_engine(counts: Mapping[str, int], *, own: str, enough: int, error_with: Callable[[str], float]) -> str:
    """Return the engine whose values of this machine are taken.

    Args:
        counts: engine → number of measured models that it has a value of.
        own: the device's engine on this machine; "" where none is known.
        enough: number of models that the laws need: with as many, `own` is taken.
        error_with: the error of the best law for models that were left out, with an engine's values.
    """
    if own and counts.get(own, 0) >= enough:
        return own
    most = sorted(counts, key=lambda each: (-counts[each], each))[:MOST_COMPARED]
    compared = [*([own] if own and own not in most else []), *most]
    return min(compared, key=lambda each: (round(error_with(each), 3), _unlike(each, own), -counts.get(each, 0), each))


def _unlike(engine: str, own: str) -> int:
    """In how much `engine` differs from `own`: 0 in nothing, 1 in threads or limits, 2 in the provider, 3 at all."""
    (library, *_), (own_library, *_) = (re.split("[/,]", each) for each in (engine, own))
    if not own or engine == own:
        return 0
    if engine.partition(",")[0] == own.partition(",")[0]:
        return 1
    return 2 if library == own_library else 3


def measuring(files: Sequence[str], engine: str = "", *, again: bool = False) -> str:
    """Return the command that measures `files` here by `engine`, see `engine_text`; "" is any.

    Args:
        again: whether runs of them were too uncertain, so that more sessions are needed.
    """
    runtime, *settings = engine.split(", ")
    threads = next((word.split()[0] for word in settings if re.fullmatch(r"\d+ threads?", word)), "1")
    words = [*files, *(["-r", runtime] if runtime else []), *(["-t", threads] if threads != "1" else [])]
    words += ["--sessions", str(MORE_SESSIONS)] if again else []
    return f"'edgewise bench {shlex.join(words)}' measures {'it' if len(files) == 1 else 'them'} here"


def tell_unmeasured(
    lacking: Mapping[str, str],
    engine: str,
    then: str,
    *,
    learnt: Sequence[str] = (),
    again: bool = False,
    is_own: bool = False,
    used: bool = False,
) -> list[str]:
    """State which files have no value of this machine by `engine`, and the command for it, as a sentence; [] for none.

    Args:
        lacking: files → names.
        then: what to do afterwards.
        learnt: files without one that the device was learnt from, which are in the same command.
        again: as for `measuring`.
        used: whether values of grade D are used as long as there is no better one.
        is_own: whether `engine` is that of the device, and another one's values are taken as long as it has too few.
    """
    if not lacking:
        return []
    files = [*lacking][:MOST_TO_MEASURE]
    files += [file for file in learnt if file not in files][:MOST_TO_MEASURE]
    names = enumerate_few([*lacking.values(), *(Path(file).name for file in learnt if file not in lacking)])
    by = f" by {engine.partition(',')[0]}, the device's engine" if is_own else ""
    which = f"{UNMEASURED}{by}{' above grade D' if used else ''}, which makes predictions mostly better"
    return [f"{which}: {names}. {measuring(files, engine, again=again)}, then {then}."]


def tell_grade_d(noisy: int, total: int, engine: str, *, used: bool, is_worse: bool = False) -> list[str]:
    """State how many of the runs here by `engine`, "" is any, have grade D, and whether they are used; [] for none.

    Args:
        is_worse: whether they are not used because the law is expected to err less without them.
    """
    if not noisy:
        return []
    by = f" by {engine.partition(',')[0]}" if engine else ""
    which = f"{noisy} of {total} run{'' if total == 1 else 's'} here{by} {'has' if noisy == 1 else 'have'}"
    words = _WORDS[noisy == 1, USED if used else WORSE if is_worse else NOT_USED]
    return [f"{which} {GRADE_D.format(words)} ({as_flag('sessions', str(MORE_SESSIONS))})."]


def is_told(sentence: str) -> bool:
    """Whether `sentence` is one of `tell_unmeasured` or `tell_grade_d`."""
    return sentence.startswith(UNMEASURED) or any(GRADE_D.format(words) in sentence for words in _WORDS.values())


def error_of_grade_d(run: Run) -> float | None:
    """Return the standard deviation of the logarithm of a latency of grade D; None where more than its interval is bad.

    The interval is of 95 %, and contains what other processes on this machine take.
    """
    row = run.measurement("latency")
    if not is_only_vague(run) or row is None or row.low is None or row.high is None or row.low <= 0:
        return None
    return math.log(row.high / row.low) / (2 * normal_quantile(0.975))
