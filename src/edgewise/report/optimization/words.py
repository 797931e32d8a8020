"""The sentences of a search: factors, what became of each variant, and the conclusion of all."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import get_args

from edgewise.comparing.comparison import Verdict
from edgewise.comparing.criteria import THRESHOLD
from edgewise.evaluating.agreement import WORST
from edgewise.evaluating.class_order import doubt_order
from edgewise.formatting import ABSENT, factor_text, points_range, points_text, quantity, value_text
from edgewise.grouping import by_key
from edgewise.metrics import METRICS
from edgewise.optimizing.choice import PROBABLE, UNPROVEN, are_apart, drop_of, in_words, judged_words
from edgewise.optimizing.elsewhere import NO_ESTIMATE
from edgewise.optimizing.variant import (
    ABSENT_ENGINES,
    SMALLER,
    UNTRIED_SETTINGS,
    Candidate,
    Factor,
    MetricValue,
    Optimization,
    Stage,
)
from edgewise.report.optimization.elsewhere import conclude_elsewhere, device_lines
from edgewise.report.runs.cautions import FIXED, fixed_dimension_lines
from edgewise.report.runs.cells import label_of
from edgewise.text import listing, one_line

STAGES: tuple[Stage, ...] = get_args(Stage)
_OUT: Mapping[Stage, str] = {
    "planned": "not made", "made": "out at loading", "loaded": "out at agreement", "agreed": "out on the data",
    "sliced": "out on the data", "judged": "not raced", "screened": "out in the short race", "raced": "lost the race",
    "estimated": "out by its estimate",
}  # fmt: skip
NOT_REACHED = "it was rejected before this was measured"
NO_RACE = "the original was not raced, for no race was finished"
_MORE_TIME = "give more with --time-budget; what was made is kept"
_MOST_STEPS = 3
"""Most changed files of which the first lines say how fast they are beside the unchanged one."""
_ALIKE = ("same", "about the same", "not told apart")
_UNTRIED = re.compile(r"(.+?) was not tried: (.+)")


def verdict_of(result: Optimization, candidate: Candidate) -> str:
    """Return what became of a variant, in a few words."""
    if candidate.id == result.baseline.id:
        return "original"
    if candidate.id == result.chosen:
        return "chosen"
    if candidate.accepted:
        return "accepted"
    if not candidate.why:
        return f"unfinished ({candidate.stage})"
    if candidate.unreached and candidate.stage in ("made", "loaded", "agreed", "sliced"):
        return "not judged"
    if candidate.is_undecided or (candidate.stage == "raced" and _is_open(candidate)):
        return "undecided"
    return _OUT[candidate.stage]


def number_of(candidate: Candidate, metric: str) -> MetricValue:
    """Return a number of a variant; absent with a reason where it did not come that far."""
    found = candidate.metrics.get(metric)
    if found is not None:
        return found
    if candidate.elsewhere is not None:
        refused = candidate.elsewhere.refused
        if refused and candidate.parent is None:
            return MetricValue(value=None, absent_because=NO_ESTIMATE)
        return MetricValue(value=None, absent_because=f"no estimate: {refused}" if refused else "not estimated")
    because = candidate.why if candidate.unreached else NOT_REACHED
    return MetricValue(value=None, absent_because=NO_RACE if candidate.parent is None else because)


def speedup_text(value: float | None, low: float | None = None, high: float | None = None) -> str:
    """``"2.97× [2.91, 3.03]"``, the ends rounded outwards; ``n/a`` where it is not known."""
    return ABSENT if value is None else factor_text(value, low, high)


def speed_text(speed: MetricValue) -> str:
    """``"2.97× faster [2.91, 3.03]"``, ``"2.44× slower [2.38, 2.50]"``, ``"probably 1.05× slower [1.01, 1.09], not
    proven"`` where the interval leaves 1 out all the same, or else the variant's speed over the original's:
    ``"0.98× the speed [0.96, 1.01]"``.
    """
    if speed.value is None:
        return f"speed-up {ABSENT}"
    standing = standing_of(speed)
    if standing == "faster":
        return in_words(speed, "faster")
    if standing == "slower" and speed.value:
        return in_words(_inverse(speed), "slower")
    if is_probable(speed):
        slower = _standing_alone(speed) == "slower"
        words = in_words(_inverse(speed), "slower") if slower else in_words(speed, "faster")
        return f"probably {words}, not proven"
    return in_words(speed, "the speed")


def is_probable(speed: MetricValue) -> bool:
    """Whether a race proved nothing of a speed although its interval leaves 1 out."""
    return speed.verdict == "inconclusive" and _standing_alone(speed) in ("faster", "slower")


def memory_text(reduction: MetricValue) -> str:
    """``"1.62× larger [1.60, 1.64]"``, of a factor with an interval; ``"not told apart"`` where that holds 1."""
    assert reduction.low is not None and reduction.high is not None
    if reduction.low == reduction.high == 1.0:
        return "same"
    standing = standing_of(reduction)
    if standing == "faster":
        return in_words(reduction, "smaller")
    if standing == "slower" and reduction.value:
        return in_words(_inverse(reduction), "larger")
    return "about the same" if standing == "same" else "not told apart"


def _inverse(factor: MetricValue) -> MetricValue:
    assert factor.value is not None
    low, high = (1.0 / end if end else None for end in (factor.high, factor.low))
    return MetricValue(value=1.0 / factor.value, low=low, high=high)


def standing_of(factor: MetricValue) -> Verdict:
    """Return the verdict of a race on a factor; of an estimate, which has none, what its interval alone says."""
    return factor.verdict or _standing_alone(factor)


def _standing_alone(factor: MetricValue) -> Verdict:
    low, high = factor.low or 0.0, math.inf if factor.high is None else factor.high
    if low >= 1.0 / (1.0 + THRESHOLD) and high <= 1.0 + THRESHOLD:
        return "same"
    return "faster" if low > 1.0 else "slower" if high < 1.0 else "inconclusive"


def bytes_text(before: MetricValue, after: MetricValue) -> str:
    """``"3.56× smaller"``; empty where one is not known; ``"not told apart"`` where intervals overlap,
    ``"about the same"`` where a file of such a size does not count as smaller or larger.
    """
    if not before.value or not after.value:
        return ""
    if before.value == after.value:
        return "same"
    if not are_apart(before, after):
        return "not told apart"
    ratio = before.value / after.value
    if SMALLER <= ratio <= 1.0 / SMALLER:
        return "about the same"
    return f"{factor_text(max(ratio, 1.0 / ratio))} {'smaller' if ratio > 1.0 else 'larger'}"


def accuracy_text(drop: MetricValue, metric: str, *, unit: bool = True, space: bool = True) -> str:
    """``"−0.21 pt [−0.92, +0.51]"``."""
    change = drop_of(drop, metric)
    if change.value is None:
        return ABSENT
    interval = points_range(metric, change.low, change.high)
    text = points_text(metric, change.value, unit=unit)
    return f"{text} {interval if space else interval.replace(', ', ',')}".rstrip()


def gains_of(result: Optimization, candidate: Candidate) -> list[str]:
    """Return what a variant gains and loses against the original: speed, size, accuracy."""
    words = []
    speed = number_of(candidate, "speedup")
    if speed.value is not None:
        words.append(speed_text(speed))
    size = bytes_text(number_of(result.baseline, "model_size"), number_of(candidate, "model_size"))
    words += [f"size {size}" if size in _ALIKE else size] if size else []
    if result.conditions.get("aim") == "size":
        words.reverse()
    drop = candidate.metrics.get("accuracy_drop")
    if result.headline == WORST and candidate.parent is not None and candidate.metrics:
        words.append(judged_words(candidate.metrics, WORST))
    if result.headline and drop is not None and drop.value is not None:
        here = ", measured here" if result.device else ""
        value = value_text(result.headline, METRICS[result.headline].unit, candidate.value(result.headline))
        samples = f" of {result.judged:,} samples" if result.judged else ""
        words.append(f"{label_of(result.headline)} {value}{samples} ({accuracy_text(drop, result.headline)}{here})")
    memory = number_of(candidate, "memory_reduction")
    if standing_of(memory) == "slower":
        words.append(f"but peak memory {memory_text(memory)}")
    return words


def name_of(result: Optimization, candidate: Candidate) -> str:
    """``"ort-static @ openvino (int8)"``: a variant, and the family of the pass that made its file.

    A setting of the engine that has the name of a precision is called so, as the file may have another.
    """
    made, words = result.made(candidate), []
    if candidate.runtime.precision != made.runtime.precision:
        words = [f"engine setting {candidate.runtime.precision}"]
    if family := made.family:
        words.insert(0, f"{family} file" if words else family)
    return one_line(candidate.id + (f" ({', '.join(words)})" if words else ""))


def nearest_of(result: Optimization) -> Candidate | None:
    """Return the variant that was made, was not chosen and came farthest, of equals an int8 one, then the fastest.

    None where there is none. A variant that may still be faster comes before an int8 one.
    """
    known = {one.id: one for one in (result.baseline, *result.candidates)}
    if result.closest in known and result.closest != result.baseline.id:
        return known[result.closest]
    return max(
        (one for one in result.candidates if one.id != result.chosen and one.model is not None),
        key=lambda one: (
            STAGES.index(one.stage),
            _is_open(one) and (number_of(one, "speedup").value or 1.0) >= 1.0,
            one == result.best_int8,
            number_of(one, "speedup").value or 0.0,
        ),
        default=None,
    )


def headline_of(result: Optimization) -> tuple[str, str]:
    """Return the conclusion, and what it rests on or what stands in the way.

    One of them also says what was not tried and what data would win, so that the search is not taken as complete: the
    second where a variant was chosen or int8 raced, whose file and gain come first.
    """
    headline, evidence = _conclude(result)
    settings = next((one_line(note) for note in result.notes if note.startswith(UNTRIED_SETTINGS)), "")
    further = [] if result.interrupted else [_promised(result), _untried(result)]
    doubt = doubt_order(None if result.baseline.accuracy is None else result.baseline.accuracy.evaluation)
    settings = "" if result.interrupted else settings
    absent = [one_line(note) for note in result.notes if note.startswith(ABSENT_ENGINES)]
    if result.chosen is None and result.best_int8 is None:
        return _joined(headline, *absent, doubt, *further), _joined(evidence, settings)
    return headline, _joined(*absent, doubt, evidence, *further, settings)


def _joined(*parts: str) -> str:
    return "; ".join(filter(None, parts))


def precision_line(result: Optimization) -> str:
    """``"litert makes it 1.76× faster; int8 gains no speed: …"``: where the speed comes from if no inexact pass gains.

    Empty where a pass does, or where none raced beside the unchanged file in the chosen engine.
    """
    if result.chosen is None:
        return ""
    engine = result.candidate(result.chosen).runtime.name
    steps = [one for one in result.precision_steps
             if {result.candidate(name).runtime.name for name in (one.before, one.after)} == {engine}]  # fmt: skip
    beside_chosen = [one for one in steps if one.before == result.chosen]
    steps = beside_chosen or steps
    standings = {standing_of(one.number) for one in steps}
    if not steps or "faster" in standings:
        return ""
    plain = result.candidate(steps[0].before)
    gain = number_of(plain, "speedup")
    made = (
        f"{engine} makes it {speed_text(gain)}; "
        if standing_of(gain) == "faster" and not plain.runtime.precision
        else ""
    )
    families = list(dict.fromkeys(one.kind for one in steps))
    gains = ("gains", "is") if len(families) == 1 else ("gain", "are")
    proven = f"{gains[1]} not proven to gain" if "inconclusive" in standings else f"{gains[0]} no"
    beside = sorted((one for one in steps if one.before == plain.id), key=lambda one: -(one.number.value or 0.0))
    told = "; ".join(_step_words(result, one) for one in beside[:_MOST_STEPS])
    return one_line(f"{made}{listing(families)} {proven} speed over {plain.id}: {told}")


def int8_line(result: Optimization) -> str:
    """``"int8: 1.17× faster [1.10, 1.24] against the unchanged file, original @ openvino"``: what the chosen int8 file
    gains; else what the best one does over the chosen file and over the original, and where it is.

    Empty where nothing was chosen or no int8 raced.
    """
    best = result.fastest_int8
    if result.chosen is None or best is None:
        return ""
    chosen = result.candidate(result.chosen)
    made = result.made(chosen)
    if made.family == "int8":
        step = next((one for one in result.precision_steps if one.after == made.id), None)
        gain = "" if step is None else f"{speed_text(step.number)} against the unchanged file, {step.before}"
        return one_line(f"int8: {gain}") if gain and not precision_line(result) else ""
    told = {(one.before, one.after): one for one in result.precision_steps}
    step = told.get((chosen.id, best.id))
    beside = "in no race with the chosen one" if step is None else f"{speed_text(step.number)} against the chosen one"
    against = f"against the original: {', '.join(gains_of(result, best))}"
    words = [against] if step is not None and precision_line(result) else [beside, against]
    file = result.files.get("int8", "")
    return one_line("; ".join([f"the best int8 file, {best.id}: {words[0]}", *words[1:], *([file] if file else [])]))


def _step_words(result: Optimization, step: Factor) -> str:
    """``"litert-static: 1.41× slower [1.36, 1.45], 3.50× smaller"``."""
    size = bytes_text(*(number_of(result.candidate(name), "model_size") for name in (step.before, step.after)))
    size = f"size {size}" if size in _ALIKE else size
    return f"{step.what}: {', '.join(filter(None, (speed_text(step.number), size)))}"


def reason_line(result: Optimization) -> str:
    """Why the chosen variant is faster: its engine and pass, the parts of its speed-up and the layers; "" without one.

    For a device that is not at hand the estimate says it layer by layer.
    """
    if result.chosen is None or result.device:
        return ""
    parts = factors_text(result)
    parts = f"made of {parts}" if parts and len(result.factors) > 1 else parts
    why = one_line(result.reason) or "which layers gain is not known; 'edgewise profile' of both files shows it"
    return f"{name_of(result, result.candidate(result.chosen))}: {'; '.join(filter(None, (parts, why)))}"


def _promised(result: Optimization) -> str:
    """``"about 2.1× [1.8, 2.4] more with --data, estimated (ort-static @ onnxruntime)"``; empty where nothing is."""
    promise = result.with_data
    if promise is None or promise.prediction.speedup is None:
        return ""
    told = promise.prediction
    factor = factor_text(promise.prediction.speedup, told.low, told.high)
    chosen = result.baseline if result.chosen is None else result.candidate(result.chosen)
    changed = any(one.name != "tune" for one in chosen.passes)
    same = chosen.runtime.name == promise.engine and not changed
    words = "more with --data" if same else f"with --data over the model as it is in {promise.engine}"
    return f"about {factor} {words}, estimated ({one_line(promise.variant)})"


def _untried(result: Optimization) -> str:
    """``"no time for 3 of 9 variants; give it more, such as --time-budget 10min"``; empty where there was time.

    Without the advice where the conclusion has it.
    """
    untried = result.not_tried
    if not untried.variants:
        return ""
    among = f", including every {listing(list(untried.families))} one" if untried.families else ""
    more = (
        ""
        if untried.budget_s is None or (result.chosen is None and not result.unmet and _undecided(result))
        else f"; give it more, such as --time-budget {duration_flag(untried.budget_s)}"
    )
    return f"no time for {len(untried.variants)} of {untried.of} variants{among}{more}"


def duration_flag(seconds: float) -> str:
    """As flags take it: ``10min``, ``90s``."""
    return f"{seconds / 60:g}min" if seconds >= 60 and seconds % 60 == 0 else f"{seconds:g}s"


def factors_text(result: Optimization) -> str:
    """``"1.50× engine (openvino) × 2.00× precision (ort-static)"``; empty where there is only one part.

    Where no race tells any of them apart: their names, and why.
    """
    if len(result.factors) == 1:
        (whole,) = result.factors
        return f"not told apart: {whole.kind} ({one_line(whole.what)}), for no race had the variant between them"
    return " × ".join(
        f"{factor_text(one.number.value, one.number.low, one.number.high)} {one.kind} ({one_line(one.what)})"
        for one in result.factors
        if one.number.value is not None
    )


def _conclude(result: Optimization) -> tuple[str, str]:
    """Return the conclusion as far as it is known, and what it rests on."""
    if result.device:
        gains = [] if result.chosen is None else gains_of(result, result.candidate(result.chosen))
        return conclude_elsewhere(result, ", ".join(gains))
    if result.chosen is not None:
        chosen = result.candidate(result.chosen)
        begun = "interrupted; the best so far: " if result.interrupted else ""
        said = ", ".join(gains_of(result, chosen)) or one_line(chosen.why)
        parts = ""
        export = None if chosen.is_export else result.best_export
        if export is not None:
            gain = speed_text(number_of(export, "speedup"))
            parts = f"the best export without optimization, {export.id}, is {gain}"
        told = [
            one_line(chosen.unproven), parts, _unchanged(result, chosen), one_line(result.chosen_because),
            _missed(result, chosen),
        ]  # fmt: skip
        return f"{begun}{_name_both(result, chosen)}: {said}", "; ".join(filter(None, told))
    if result.unmet:
        bounds = listing([one_line(bound.words) for bound in result.bounds])
        closest = one_line(result.closest) if result.closest is not None else "none"
        return f"No variant meets {bounds}", f"the closest is {closest}; in the way: {one_line(result.unmet)}"
    begun = "Interrupted: nothing so far beats the original" if result.interrupted else "Nothing beats the original"
    promising = ""
    if undecided := _undecided(result):
        begun, promising = _conclude_undecided(result, undecided)
    if result.best_int8 is not None:
        begun += "; " if undecided else ": "
        return _conclude_int8(result, result.best_int8, begun=begun, promising=promising)
    int8, about_int8 = _tell_no_race_of_int8(result)
    if undecided:
        return begun + int8, _joined("" if about_int8.partition(": ")[0] in promising else about_int8, promising)
    nearest = nearest_of(result)
    if nearest is None and result.candidates:
        first = result.candidates[0]
        return f"{begun}: no variant could be made", f"{one_line(first.id)}: {one_line(first.why)}"
    if nearest is None:
        return f"{begun}: no variant was tried", ""
    why = one_line(nearest.why) or f"last stage: {nearest.stage}"
    return begun, f"the closest variant is {one_line(nearest.id)}: {why}"


def _name_both(result: Optimization, chosen: Candidate) -> str:
    """``"m.onnx, unchanged, on openvino, bf16 against onnxruntime"``, ``"out/m.int8.onnx against m.onnx"``: what was
    chosen and the original, with engines and settings where they differ.
    """
    original, file = result.baseline, one_line(result.files.get("chosen", "")) or name_of(result, chosen)
    given = one_line(original.model.name) if original.model else ""
    same = chosen.runtime.threads == original.runtime.threads
    at, other = (_place_of(one, threads=not same) for one in (chosen, original))
    if at == other:
        return f"{file} against {given}" if given else file
    if given and chosen.model == original.model:
        return f"{given}, unchanged, on {at} against {other}"
    return f"{file} on {at} against {f'{given} on ' if given else ''}{other}"


def _place_of(one: Candidate, *, threads: bool) -> str:
    """``"openvino, bf16, 2 threads"``."""
    runtime = one.runtime
    count = f"{runtime.threads} thread{'s' if runtime.threads > 1 else ''}" if threads and runtime.threads else ""
    return ", ".join(filter(None, (runtime.name, runtime.precision, count)))


def _undecided(result: Optimization) -> list[Candidate]:
    """Return the variants that more time, or a quiet machine, could decide on; none where the user cut it short."""
    return [] if result.interrupted else [one for one in result.candidates if _is_open(one)]


def _conclude_undecided(result: Optimization, undecided: Sequence[Candidate]) -> tuple[str, str]:
    """Return how many variants are undecided, with what to do, and the most promising of them where that is known."""
    hopeful = [one for one in undecided if (number_of(one, "speedup").value or 1.0) >= 1.0] or undecided
    # What nothing is known of comes before what was seen to be no faster.
    best = max(hopeful, key=lambda one: _hoped(one) or 1.0)
    budget_s, better = (
        result.conditions.get("budget_s"),
        "better" if result.conditions.get("aim") == "size" else "faster",
    )
    if best.is_undecided:
        why = ", as the machine was busy (→ search again on a quiet one)"
    else:
        why = f" in {budget_s:g} s (→ --time-budget {duration_flag(2 * budget_s)})" if budget_s else ""
    count = f"{len(undecided)} of {len(result.candidates)} {'was' if len(undecided) == 1 else 'were'} not decided"
    is_made = any(one.passes and one.model is not None for one in result.candidates)
    kept = "what was made is kept" if is_made and not best.is_undecided else ""
    known = len(hopeful) == 1 or _hoped(best)
    most = f"the most promising of them is {_promise(best)}: {one_line(best.why)}" if known else ""
    return f"No variant is proven {better}; {count}{why}", "; ".join(filter(None, (most, kept)))


def _tell_no_race_of_int8(result: Optimization) -> tuple[str, str]:
    """Return how far int8 came that was not raced, for the end of the first line, and why; empty without int8."""
    int8 = [one for one in result.candidates if one.family == "int8"]
    if not int8:
        return "", ""
    best = max(int8, key=lambda one: STAGES.index(one.stage))
    words = "no int8 file was made" if best.model is None else "int8 was made, but not judged in time"
    if STAGES.index(best.stage) >= STAGES.index("judged"):
        words = "int8 was made and judged, but no race decided on it"
    elif best.model is not None and best.rejected and not best.unreached:
        words = "int8 was made, but rejected"
    return f"; {words}", f"{one_line(best.id)}: {one_line(best.why)}"


def _conclude_int8(result: Optimization, best: Candidate, *, begun: str, promising: str) -> tuple[str, str]:
    """Return what the race found of int8, and its file, why it is not faster, and what is undecided.

    Args:
        begun: the begin of the conclusion.
    """
    raced = [one for one in result.candidates if one.stage == "raced"]
    count = sum(result.made(one).family == "int8" for one in raced)
    among = f"{len(raced)} variants, {count} of them int8, raced"
    if count == len(raced):
        among = f"{count} int8 variant{'s' if count > 1 else ''} raced"
    headline = f"{begun}{among}; the best int8 is {one_line(best.id)}: {', '.join(gains_of(result, best))}"
    file = one_line(result.files.get("int8", ""))
    told = best.predicted
    because = one_line(told.because) if told is not None and told.speedup is not None else ""
    if (best.value("speedup") or 0.0) > 1.0 and not _is_open(best):  # its speed does not say why it is not chosen
        because = one_line(best.why)
    return headline, _joined(f"int8 file: {file}" if file else "", because, promising)


def _unchanged(result: Optimization, chosen: Candidate) -> str:
    """Return what the given file gains in another precision without a pass; empty where that is not known."""
    tuned = [one for one in result.candidates if one.runtime.precision and one.model == result.baseline.model]
    best = max(tuned, key=lambda one: number_of(one, "speedup").value or 0.0, default=None)
    if best is None or best.id == chosen.id or (number_of(best, "speedup").value or 0.0) <= 1.0:
        return ""
    short = "" if number_of(best, "speedup").low is not None else " in a short race"
    return f"the file as it is, {one_line(best.id)}: {speed_text(number_of(best, 'speedup'))}{short}"


def _missed(result: Optimization, chosen: Candidate) -> str:
    """Return what had no time and should be faster than the choice; empty where that is not known of any.

    Predictions are within an engine: only in the original's own do they compare with what was measured.
    """
    own, speed = result.baseline.runtime.name, number_of(chosen, "speedup").value
    late = [one for one in result.candidates if _is_open(one) and not one.is_undecided and one.runtime.name == own]
    best = max(late, key=_hoped, default=None)
    if best is None or speed is None or result.interrupted or _hoped(best) <= speed:
        return ""
    return f"{_promise(best)} was not decided in time: {_MORE_TIME}"


def _is_open(one: Candidate) -> bool:
    """Whether nothing speaks against it but that there was no time to make it, judge it, or prove it."""
    if one.accepted:
        return False
    if STAGES.index(one.stage) >= STAGES.index("judged"):
        return one.is_undecided or "time budget" in one.why or one.why.startswith((UNPROVEN, PROBABLE))
    slower = (_foretold(one) or math.inf) <= 1.0
    return not slower and ("time budget" in one.why or one.why.startswith("gave up"))


def _promise(one: Candidate) -> str:
    """``"nncf-ptq @ onnxruntime (3.41× predicted)"``."""
    foretold = _foretold(one) if number_of(one, "speedup").value is None else None
    return one_line(one.id) + (f" ({factor_text(foretold)} predicted)" if foretold is not None else "")


def _foretold(one: Candidate) -> float | None:
    return None if one.predicted is None else one.predicted.speedup


def _hoped(one: Candidate) -> float:
    """How much faster it seems to be, by the race or else by the pre-flight; 0 where nothing is known."""
    return number_of(one, "speedup").value or _foretold(one) or 0.0


def reason_of(candidate: Candidate) -> str:
    """Why a variant was accepted or not, without the numbers of the accepted, which stand beside it in a table."""
    if not candidate.accepted:
        return one_line(candidate.why)
    told = candidate.predicted
    because = told.because if told is not None and told.speedup is not None else ""
    why = ": ".join(word for word in (candidate.why.partition(":")[0], because) if word)
    return one_line("; ".join(filter(None, (why, candidate.behind))))


def loss_lines(result: Optimization) -> list[str]:
    """Why each variant that was not accepted lost, or how much slower than the chosen one it is; those that share a
    reason share a line.
    """
    lost = [one for one in result.candidates if not one.accepted or one.behind]
    by_reason = by_key((one_line(one.behind or one.why) or verdict_of(result, one), one_line(one.id)) for one in lost)
    return [f"{listing(names)}: {why}" for why, names in by_reason.items()]


def folded_notes(notes: Sequence[str]) -> list[str]:
    """Return notes, those on passes that were not tried on one line per reason."""
    untried: dict[str, list[str]] = {}
    others = []
    for note in map(one_line, notes):
        match = _UNTRIED.fullmatch(note)
        if match:
            untried.setdefault(match[2], []).append(match[1])
        elif note:
            others.append(note)
    return [*dict.fromkeys(others), *(f"not tried: {listing(names)} – {why}" for why, names in untried.items())]


def fixed_lines(result: Optimization) -> list[str]:
    """Return what was fixed in the chosen file before its engine compiled it; none where nothing was."""
    chosen = None if result.chosen is None else result.candidate(result.chosen).measured
    if chosen is None:
        return []
    file = result.files.get("chosen", chosen.job.model.path)
    return fixed_dimension_lines([replace(chosen, job=replace(chosen.job, model=replace(chosen.job.model, path=file)))])


def fixed_messages(result: Optimization) -> list[str]:
    """Return what was fixed in raced files before engines compiled them."""
    raced = [one.measured for one in (result.baseline, *result.candidates) if one.measured is not None]
    return list(dict.fromkeys(each.message for run in raced for each in run.cautions if each.code == FIXED))


def condition_lines(result: Optimization) -> list[str]:
    """Threads, engine, data, calibration, budget and why it ended."""
    told = result.conditions
    threads = told.get("threads")
    words = [f"{threads} thread{'s' if threads != 1 else ''}"] if threads is not None else []
    words += [f"the original in {told['original_runtime']}"] if told.get("original_runtime") else []
    words += [f"aim {told['aim']}"] if told.get("aim") else []
    words += [f"seed {told['seed']}"] if told.get("seed") is not None else []
    lines = [*device_lines(result), *([", ".join(words)] if words else [])]
    shapes = told.get("shapes") or {}
    if isinstance(shapes, Mapping) and shapes:
        lines.append("shapes: " + ", ".join(f"{name} {'×'.join(map(str, shape))}" for name, shape in shapes.items()))
    lines += fixed_messages(result)
    lines += _data_lines(result)
    if result.bounds:
        lines.append(f"bounds: {', '.join(bound.words for bound in result.bounds)}")
    budget = told.get("budget_s")
    spent = "" if result.elapsed_s is None else f"took {quantity(result.elapsed_s, 's')}"
    limit = "" if budget is None else f"of a budget of {quantity(float(budget), 's')}"
    amount = " ".join(word for word in (spent, limit) if word)
    why = f"stopped because: {result.stopped_because}" if result.stopped_because else ""
    lines += ["; ".join(word for word in (amount, why) if word)] if amount or why else []
    return [one_line(line) for line in lines]


def _data_lines(result: Optimization) -> list[str]:
    if result.data is None:
        compared = "no data: outputs were compared with the original's"
        lines = ["no variant was judged on the data" if result.headline else compared]
    else:
        data = result.data
        task = f", task {result.task}" if result.task else ""
        lines = [f"judged on {data.name} ({data.format}, split {data.split}, "
                 f"{data.size if result.judged is None else result.judged} of {data.size} samples)"
                 f"{task}, {data.hashes()}"]  # fmt: skip
    if result.headline and (number := result.baseline.metrics.get(result.headline)) is not None and number.method:
        lines.append(f"{label_of(result.headline)}: {number.method}")
    if result.calibration is None:
        return [*lines, "no calibration: passes saw no samples"]
    seen = result.calibration
    told = seen.hashes()
    if shared := samples_line(result):
        return [*lines, f"{shared}; of the latter {told}"]
    return [*lines, f"calibrated on {seen.size} samples of {seen.name} (split {seen.split}), {told}"]


def samples_line(result: Optimization) -> str:
    """Which samples judge variants and which calibrate passes, where both are of one part of the data; else empty."""
    data, seen, seed = result.data, result.calibration, result.conditions.get("seed")
    if data is None or seen is None or result.judged is None or (data.name, data.split) != (seen.name, seen.split):
        return ""
    others = f"{seen.size} others" + (f", drawn at random (seed {seed + 1})," if isinstance(seed, int) else "")
    return f"of {data.size} samples of {data.name} {result.judged} judge variants, {others} calibrate passes"
