"""Findings of a profile as text: possible savings, why, and what to do."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TypedDict

from edgewise.errors import as_flag
from edgewise.formatting import VERY_WIDE, is_very_wide, plus_minus, quantity, time_unit_of
from edgewise.grouping import by_key
from edgewise.optimizing.processor import Processor
from edgewise.profiling.findings import IN_TWO, LEAST_SHARE, NOT_KNOWN
from edgewise.profiling.layer_matching import join_pairs, pair_layers
from edgewise.profiling.limits import LimitedTime, divide_at_roofs, has_arithmetic
from edgewise.profiling.slowdown import explain_slowdown
from edgewise.record import Finding, Layer, Profile, Run
from edgewise.record.caution import loads_of
from edgewise.record.facts import floats_of, threads_of, uses_int8
from edgewise.record.layer import Bound
from edgewise.registry import FOR_TESTS
from edgewise.report.document import Section, lines_of
from edgewise.report.document.names import layer_names
from edgewise.report.profile.cells import (
    FEW_SESSIONS,
    has_bounds_alone,
    layers_of,
    most_time,
    profile_of,
    roof_reason,
    whole_left,
)
from edgewise.report.runs.conditions import differ_in_engine, engine_of, labels_of, look_up
from edgewise.runtime.base import runtimes
from edgewise.text import listing, one_line
from edgewise.units import format_bytes, format_duration, format_si, significant

NAME_WIDTH = 34
"""Most characters of a layer's name in a finding."""
MOST_PARTS = 3
"""Types of operators that the time above the limits is divided into."""
_LIMITS: Mapping[Bound, str] = {"compute": "arithmetic at its peak", "memory": "memory at its bandwidth"}
_MORE_SESSIONS = f"give {as_flag('sessions')} 5"
_NO_NAMES: Mapping[str, str] = MappingProxyType({})
Known = Mapping[str, str]
NEXT = "Next"
"""The section of what to try."""
MOST_OF = 0.9
"""Share of the time of slow layers for which another engine must have the same work in rows of its own."""
BEFORE_AND_AFTER = 2
"""Number of runs of a comparison before and after."""


def titled(title: str, label: str) -> str:
    """`title`, with the run that it is about where there are several."""
    return f"{title}: {label}" if label else title


def finding_sections(run: Run, label: str = "", *, others: Sequence[Run] = ()) -> list[Section]:
    """Possible savings, the largest first, and what is known of them from `others`."""
    if run.profile is None:
        return []
    found = [with_others(finding, run, others) for finding in ranked_findings(run.profile)]
    if not found:
        return [Section(title=titled("Findings", label), lines=nothing_found(run))]
    names = names_in_messages(run, NAME_WIDTH)
    lines = tuple(f"{place}. {finding_line(finding, run.profile, names)}" for place, finding in enumerate(found, 1))
    return [Section(title=titled("Findings", label), lines=lines, tone="poor")]


def names_in_messages(run: Run, width: int) -> dict[str, str]:
    """Return name of a layer → what the tables call it, where that is another one."""
    short = layer_names(run, width)
    return {layer.name: short[layer.index] for layer in run.layers if layer.name != short[layer.index]}


def evidence_sections(run: Run, label: str = "") -> list[Section]:
    """Return the numbers behind each finding, and how its saving was computed; a terminal shows them on request."""
    found = ranked_findings(run.profile) if run.profile is not None else []
    lines = tuple(f"{place}. {_evidence_line(finding)}" for place, finding in enumerate(found, 1))
    return [Section(title=titled("Evidence of findings", label), lines=lines, brief="")] if lines else []


def nothing_found(run: Run) -> tuple[str, ...]:
    """State that a profile has no findings and what helps, and for which layers that is not known."""
    if run.source is not None or run.profile is None:
        return ("not searched: layers of another tool",)
    least = LEAST_SHARE * run.profile.latency
    every = list(filter(has_arithmetic, run.layers))
    layers = [each for each in every if not each.is_bounded or (each.high or 0.0) >= least]
    lacking = [layer for layer in layers if not layer.roof]
    lines = []
    if len(lacking) < len(layers) or not layers:
        helps = listing([*_ways(run), "another engine"], "or")
        lines.append(
            f"none: no single cost stands out that this engine could avoid at this precision; what may help: {helps}"
        )
    if lacking:
        reasons = "; ".join(dict.fromkeys(roof_reason(layer, run.profile) for layer in lacking))
        most = min(sum(layer.high or layer.time or 0.0 for layer in lacking), whole_left(lacking, run))
        most /= run.profile.latency or math.inf
        part = [f"{most * 100:.1f} % of the time at most"] if most else []
        small = len(every) - len(layers)
        part += [f"{small} more take less than {LEAST_SHARE:.0%} each".replace("%", " %")] if small else []
        words = f" ({'; '.join(part)})" if part else ""
        lines.append(f"not known for {len(lacking)} of the {len(every)} layers with arithmetic{words}: {reasons}")
    return tuple(lines)


def limit_lines(run: Run) -> list[str]:
    """How much of the time is the machine's limit, above it, and neither, and what follows; empty without a roof."""
    divided, profile = divide_at_roofs(run), run.profile
    if profile is None or profile.latency <= 0:
        return []
    if has_bounds_alone(run):
        return [
            "two sessions are too few for layers: their times have no intervals here, and their order is not proven; "
            f"{_MORE_SESSIONS}"
        ]
    timed = list(filter(has_arithmetic, run.layers))
    vague = [layer.is_bounded for layer in timed]
    if profile.sessions == FEW_SESSIONS and 2 * sum(is_very_wide(one.low, one.high) for one in timed) > len(timed):
        return [
            f"the interval of most layers {VERY_WIDE}: two processes hardly show how a third differs; {_MORE_SESSIONS}"
        ]
    if divided is None:
        absent = one_line(profile.peaks_absent_because or "") if vague and run.source is None else ""
        return [f"the machine's limit is not known: {absent}"] if absent else []
    # Operators that no step is known for may be computed in any of them, whose limit is then another.
    if any(layer.kind == "unmatched" and layer.macs != 0 for layer in run.layers):
        return []
    limit, least = sum(divided.least.values()), LEAST_SHARE * profile.latency
    parts = [f"{_LIMITS[bound]} {quantity(time, 's')}" for bound, time in divided.least.items() if time >= least]
    shown = f" ({', '.join(parts)})" if parts else ""
    advice = f": only {listing(_ways(run), 'or')} can shorten it" if limit >= divided.above else ""
    other_kernels = "" if advice else "; other kernels, such as another engine's, may save it"
    lines = [
        f"the machine's limit for this work is {_limit_words(run, profile, divided)}{shown}{advice}",
        f"{_above_words(run, profile, divided)}{other_kernels}",
    ]
    if loads_of(run.cautions):
        lines.append(
            "other processes ran meanwhile, so that the limit and the times can be far off: profile on a quiet machine"
        )
    if (others := profile.latency - limit - max(divided.above, 0.0)) >= least:
        where = ["overheads of the engine"] if any(layer.kind == "overhead" for layer in run.layers) else []
        where += ["layers without arithmetic"] if any(layer.macs == 0 for layer in run.layers) else []
        where += ["layers whose limit is not known"] if divided.unknown else []
        where += [f"{quantity(gap, 's')} unattributed"] if (gap := profile.unattributed) >= least else []
        taken = f"{quantity(others, 's')} ({_percent(others, profile)})"
        lines.append(f"{taken} is outside the layers with a limit: {listing(where) or 'not attributed'}")
    return lines


def _limit_words(run: Run, profile: Profile, divided: LimitedTime) -> str:
    """``"at least 170 µs, 60 to 75 % of the time"``, by the interval of the latency and the layers without a limit."""
    limit, latency = sum(divided.least.values()), run.measurement("latency")
    unknown = sum(layer.high or layer.time or 0.0 for layer in divided.unknown)
    shortest, longest = (latency and latency.low) or profile.latency, (latency and latency.high) or profile.latency
    most = whole_left(layers_of(run, "operator"), run) / profile.latency
    low, high = (significant(100 * min(most, share), 2) for share in (limit / longest, (limit + unknown) / shortest))
    share = low if low == high else f"{low} to {high}"
    return f"{'at least ' if unknown else ''}{quantity(limit, 's')}, {share} % of the time"


def _above_words(run: Run, profile: Profile, divided: LimitedTime) -> str:
    """Return the time above the limits; where its interval reaches 0, what it is at most."""
    above, spread = divided.above, divided.spread
    if (most := above + (spread or 0.0)) <= 0:
        return "no time is above that limit"
    if above <= (spread or 0.0):
        whole = most_time(run)
        least = sum(divided.least.values())
        longest = " at most" if whole > profile.latency else ""
        return (
            f"how much is above that limit can't be told: at most {quantity(min(most, whole - least), 's')} of the "
            f"{quantity(whole, 's')} that the whole takes{longest}, perhaps nothing"
        )
    unit, factor = time_unit_of(above)
    ends = (None, None) if spread is None else ((above - spread) * factor, (above + spread) * factor)
    text = f"{plus_minus(above * factor, *ends)} {unit} ({_percent(above, profile)}) is above that limit"
    sums = {op: sum(some) for op, some in by_key((one_line(layer.op), time) for time, layer in divided.excess).items()}
    ordered = [op for op in sorted(sums, key=lambda op: -sums[op]) if sums[op] > 0][:MOST_PARTS]
    parts = [f"{op} {quantity(sums[op], 's')}" for op in ordered]
    if len(sums) > 1:
        text += f": {', '.join(parts)}"
    most, layer = divided.excess[0]
    worst = f"; most in {layer_names(run, NAME_WIDTH)[layer.index]} ({quantity(most, 's')})"
    return text + (worst if divided.excess[1:] else "")


def _percent(seconds: float, profile: Profile) -> str:
    """``"25 %"`` of the latency."""
    return f"{significant(100 * seconds / profile.latency, 2)} %"


def _ways(run: Run) -> list[str]:
    """Return what lowers the least time that a model takes on this machine."""
    ways = ["less work (a smaller model)"]
    ways += ["a lower precision (int8, or bf16 where the engine has it)"] if _may_be_quantised(run) else []
    return ways + (["more threads"] if _idle_cores(run) else [])


def unmeasured_words(run: Run, known: Known = _NO_NAMES, others: Sequence[Run] = ()) -> str:
    """``"; what int8, bf16 and 2 threads would save was not measured: see Next"``; empty where none can be tried.

    Args:
        others: runs of which some may be of the same model in a lower precision.
        known: what stored runs measured of them already, a line by ``threads`` and ``int8``.
    """
    ways = ["int8"] if _may_be_quantised(run) and "int8" not in known else []
    ways += [precision] if (precision := _lower_precision(run, others)) else []
    ways += [f"{cores} threads"] if (cores := _idle_cores(run)) and "threads" not in known else []
    stored = listing([line.partition(" (")[0] for line in known.values()])
    stored = f"; measured before: {stored}, see Next" if stored else ""
    return stored + (f"; what {listing(ways)} would save was not measured: see Next" if ways else "")


def _may_be_quantised(run: Run) -> bool:
    """Whether `edgewise optimize` could try int8 on the model here."""
    is_read = run.job.target.device == "local" and run.job.model.format in ("onnx", "tflite", "openvino")
    return is_read and not (uses_int8(run) or _INTEGERS & _types_of_products(run))


_INTEGERS = frozenset({"int8", "uint8"})


def _types_of_products(run: Run) -> set[str]:
    """Return the types in which layers with multiplications compute: some engines report no precision, as LiteRT."""
    return {layer.dtype for layer in run.layers if layer.macs and layer.dtype is not None}


def _lower_precision(run: Run, others: Sequence[Run]) -> str:
    """Return the precision in which the processor computes faster than in f32 and an engine can run the model.

    "" where there is none, or one of `others` has it.
    """
    model, flags = run.job.model, (run.environment.get("cpu") or {}).get("flags")
    processor = Processor(model="", architecture="", flags=frozenset(flags) if flags else None)
    fast = [word for word, dtype in (("bf16", "bfloat16"), ("f16", "float16")) if processor.instructions(dtype)]
    measured = {floats_of(other) for other in others if other.job.model.sha256 == model.sha256}
    types = _types_of_products(run)
    if (
        not fast
        or measured & {*fast}
        or (types and types <= _INTEGERS)
        or floats_of(run) not in (None, "f32")
        or run.job.target.device != "local"
    ):
        return ""
    engines = [runtime for name, runtime in runtimes() if name not in FOR_TESTS and model.format in runtime.formats]
    has = {word for one in engines if one.availability() for word in one.providers[0].precisions}
    return next((word for word in fast if word in has), "")


def is_tried_next(run: Run, others: Sequence[Run]) -> bool:
    """Return whether *Next* of a profile has the precision in which the engine would compute by itself."""
    lower = _lower_precision(run, others) if run.profile is not None and run.source is None else ""
    return bool(lower) and run.effective.get("default_precision") == lower


def _idle_cores(run: Run) -> int:
    """Return the number of usable cores where the run used one of several; else 0."""
    known = [look_up(run.environment, f"cpu.{kind}_cores") for kind in ("usable", "quota")]
    cores = int(min((float(count) for count in known if count), default=0.0))
    return cores if threads_of(run) == 1 and cores > 1 else 0


class After(TypedDict, total=False):
    """What the next commands need beside the runs of a profile.

    Attributes:
        again: by verb, the options of the command of these runs that the next commands need too.
        typed: sha256 of a model → how that command named its file.
        known: by id of a run, what stored runs measured of other settings.
    """

    again: Mapping[str, Sequence[str]]
    typed: Mapping[str, str]
    known: Mapping[str, Known]


def next_section(
    runs: Sequence[Run],
    again: Mapping[str, Sequence[str]],
    typed: Mapping[str, str] = _NO_NAMES,
    known: Mapping[str, Known] = MappingProxyType({}),
) -> Section:
    """Return what to try where layers can't be made faster one by one: another precision, more threads, another engine.

    `again`, `typed` and `known` are those of `After`.
    """
    profiled = [run for run in runs if run.source is None and run.profile is not None]
    lines = lines_of(
        line for run in profiled for line in _next_lines(run, runs, again, typed, known.get(run.id, _NO_NAMES))
    )
    return Section(title=NEXT, lines=lines)


def _next_lines(
    run: Run,
    runs: Sequence[Run],
    again: Mapping[str, Sequence[str]],
    typed: Mapping[str, str],
    known: Known,
) -> list[str]:
    model, device = run.job.model, run.job.target.device
    name = one_line(model.origin.target if model.origin else typed.get(model.sha256, model.file_name))
    own = ["--signature", one_line(model.signature)] if model.signature else []
    lines = [f"{engine_of(run)}, {line}" for line in known.values()]
    if _may_be_quantised(run) and "int8" not in known:
        words = shlex.join(["edgewise", "optimize", name, *own, *again.get("optimize", ())])
        asked = "--data DATA --task TASK --prepare STEP=VALUE"
        lines.append(f"'{words} {asked}' tries int8 and other variants; these options are those of 'edgewise evaluate'")
    there = [] if device == "local" else ["-d", one_line(device)]
    lines = [*_proof_lines(run, runs, name, [*there, *own], again), *lines]
    threads = ["--threads", f"1,{cores}"] if (cores := _idle_cores(run)) and "threads" not in known else []
    lower = ["--precision", f"f32,{precision}"] if (precision := _lower_precision(run, runs)) else []
    words = shlex.join(["edgewise", "bench", name, *there, *threads, *lower, *own, *again.get("bench", ())])
    how = [f"with 1 thread as here and with {cores}"] if threads else []
    how += [f"in f32 and, where it can, in {precision}, in which this processor computes faster"] if lower else []
    return [*lines, f"'{words}' measures it on every engine{''.join(f', {each}' for each in how)}"]


def _proof_lines(
    run: Run, runs: Sequence[Run], name: str, own: Sequence[str], again: Mapping[str, Sequence[str]]
) -> list[str]:
    """Return the commands that measure what the suggestions of the findings of `run` save.

    Args:
        name: of the model's file, as the commands have it.
        own: options for the device and the signature of `run`.
    """
    spec = run.job.runtime
    engine = f"{spec.name}/{spec.provider}" if spec.provider else spec.name
    alone = ["-r", engine, *(["--threads", str(spec.threads)] if spec.threads not in (None, 1) else [])]

    def command(verb: str, *words: str) -> str:
        return f"'{shlex.join(['edgewise', verb, name, *words, *own, *again.get(verb, ())])}'"

    found = ranked_findings(profile_of(run))
    codes = [each.code for each in found if not each.is_refuted]
    lines = []
    if "denormal-weights" in codes:
        zeros = command("compare", "without-denormals.onnx", *alone)
        lines.append(
            f"docs/profile.md has the lines that write without-denormals.onnx, with zeros; then {zeros} measures "
            "in turns what they save"
        )
    if run.job.model.format == "onnx" and (simple := [code for code in codes if code in _SIMPLER]):
        tried = command("compare", "simplified.onnx", *alone)
        made = shlex.join(["onnxslim", name, "simplified.onnx"])
        lines.append(f"{tried} measures in turns what '{made}' saves ({listing(simple)})")
    elsewhere = [each.code for each in found if each.code in _ELSEWHERE or NOT_KNOWN in each.suggestion]
    if elsewhere and engine == "torch/eager":
        tried = command("compare", "-r", "torch/eager,torch/compile")
        lines.append(f"{tried} measures in turns what compiling saves ({listing(elsewhere)})")
    elif elsewhere and not any(other.job.model == run.job.model and differ_in_engine(run, other) for other in runs):
        lines.append(
            f"{command('profile')} times the slow layers in every engine, and in turns which engine is faster "
            f"({listing(list(dict.fromkeys(elsewhere)))})"
        )
    return lines


_SIMPLER = ("dynamic-shapes", "tiny-operators")
"""Findings that a simpler graph may save."""
_ELSEWHERE = (
    "depthwise-far-from-roof", "element-wise-chains", "integer-run-as-float", "layout-changes", "unfused-activation",
)  # fmt: skip
"""Findings that another engine may save."""


def with_others(finding: Finding, run: Run, others: Sequence[Run]) -> Finding:
    """Return `finding` with what other runs of the model show: which chains they fuse, which slow layers they do not
    have.
    """
    if NOT_KNOWN in finding.suggestion:
        return _with_faster(finding, run, others)
    if finding.code != "element-wise-chains":
        return finding
    chained = [set(layer.nodes) for layer in run.layers if layer.index in finding.layers]
    sha256, message, suggestion = run.job.model.sha256, finding.message.rstrip("."), finding.suggestion
    for other in others:
        if other.id == run.id or not sha256 or other.job.model.sha256 != sha256:
            continue
        suggestion = suggestion.replace(IN_TWO, "") if differ_in_engine(run, other) else suggestion
        steps = {node: set(layer.nodes) for layer in other.layers for node in layer.nodes}
        fused = sum(any(steps.get(node, nodes) - nodes for node in nodes) for nodes in chained)
        if fused:
            message += f"; {engine_of(other)} runs {fused} of these {len(chained)} together with other operators"
    return replace(finding, message=message, suggestion=suggestion)


def _with_faster(finding: Finding, run: Run, others: Sequence[Run]) -> Finding:
    """Return the finding of slow layers with what another engine takes for them: the one that saves the largest part
    of the time of those that it has.
    """
    found = []
    for other in others:
        if other.profile is None or other.job.model.sha256 != run.job.model.sha256 or not differ_in_engine(run, other):
            continue
        pairs = [pair for pair in pair_layers(run, other) if any(one.index in finding.layers for one in pair.before)]
        alike = [pair for pair in pairs if pair.is_paired and pair.is_alike and all(pair.times)]
        if alike and sum(pair.times[0] or 0.0 for pair in alike) >= MOST_OF * sum(p.times[0] or 0.0 for p in pairs):
            pair = join_pairs(alike)
            before, after = (time or 0.0 for time in pair.times)
            found.append((after / before, before, after, pair, engine_of(other)))
    if not found:
        return finding
    _, before, after, pair, engine = min(found, key=lambda each: each[0])
    held = _which_layers(pair.before, finding)
    words = f"{engine} takes {quantity(after, 's')} for the same work"
    if held:
        words = f"for {held}, {quantity(before, 's')} here, {engine} takes {quantity(after, 's')}"
    if after >= before:
        said = f"{NOT_KNOWN}, and no other engine of this profile is faster with {held or 'them'}"
    elif pair.is_clear:
        said = f"{NOT_KNOWN}, but it lies in this engine: {words}, {significant(before / after, 2)} times less"
    else:
        said = f"{NOT_KNOWN}; {words}, which is not proven here: profile again on a quiet machine"
    return replace(finding, suggestion=said)


def _which_layers(layers: Sequence[Layer], finding: Finding) -> str:
    """``"1 of these 2 layers"``, ``"these 2 layers and 1 beside them"``; "" where they are those of the finding."""
    told, timed = len(finding.layers), [layer.index for layer in layers if layer.kind != "eliminated"]
    held = sum(index in finding.layers for index in timed)
    beside = f" and {len(timed) - held} beside {'it' if told == 1 else 'them'}" if len(timed) > held else ""
    if held == told and not beside:
        return ""
    these = "this layer" if told == 1 else f"these {told} layers"
    return f"{these if held == told else f'{held} of {these}'}{beside}"


def headline_of(runs: Sequence[Run]) -> str:
    """Why a quantised model is slow, in one sentence, where one profile or a comparison of two shows it; else empty."""
    profiled = [run for run in runs if run.profile is not None]
    told = None
    if len(profiled) == BEFORE_AND_AFTER:
        told = explain_slowdown(*profiled, labels=names_of_models(profiled))
    elif len(profiled) == 1 and (profile := profiled[0].profile) is not None:
        told = next((each.message for each in profile.findings if each.code == "int8-held-back"), None)
    return one_line(told or "")


def names_of_models(runs: Sequence[Run]) -> tuple[str, str]:
    """Return the names of two runs' models; where they are equal, what else tells the runs apart."""
    names = [one_line(run.job.model.name) for run in runs]
    first, second = names if names[0] != names[1] else labels_of(runs)
    return first, second


def ranked_findings(profile: Profile) -> list[Finding]:
    """Return savings on every inference before savings once, the largest first; those that are refuted last."""
    return sorted(profile.findings, key=lambda finding: (finding.is_refuted, finding.once, -finding.saving))


def finding_line(finding: Finding, profile: Profile, names: Mapping[str, str] | None = None) -> str:
    """Return saving, what was seen, and what to do.

    Args:
        names: name of a layer → what the tables call it.
    """
    message, suggestion = message_of(finding, names or {}).rstrip("."), one_line(finding.suggestion)
    return f"{saving_words(finding, profile)}: {message} → {suggestion} ({one_line(finding.code)})"


def message_of(finding: Finding, names: Mapping[str, str]) -> str:
    """Return what was seen, with `names` of layers for those that they have in the file."""
    quoted = {repr(name): repr(short) for name, short in names.items()}
    words = "|".join(map(re.escape, quoted))
    message = one_line(finding.message)
    return re.sub(words, lambda found: quoted[found[0]], message) if quoted else message


def _evidence_line(finding: Finding) -> str:
    """``"far-from-roof: layers 2, worst 0.4 %; saving: their time minus …"``: the numbers behind a finding, and how."""
    words = [", ".join(f"{name} {text}" for name, text in evidence_of(finding))] if finding.evidence else []
    words += [f"saving: {one_line(finding.method)}"] if finding.method else []
    return f"{one_line(finding.code)}: {'; '.join(words) or 'no numbers'}"


def saving_words(finding: Finding, profile: Profile) -> str:
    """``"up to 12.3 µs (1.2 %)"``; once, where it is not with every inference; ``"7.4 ms (74.1 ± 0.6 %), measured in
    turns"``.
    """
    if finding.once:
        return f"up to {format_duration(finding.saving)} once, at the start"
    words = share_of_whole(finding, profile)
    if finding.is_refuted:
        return f"no saving is proven, measured in turns ({words or '0 %'})"
    share = f" ({words})" if words else ""
    if finding.low is not None:
        return f"{format_duration(finding.saving)}{share}, measured in turns"
    return f"up to {format_duration(finding.saving)}{share}"


def share_of_whole(finding: Finding, profile: Profile) -> str:
    """``"1.2 %"``, ``"74.1 ± 0.6 %"``: the saving by the latency, with its interval where it was measured; "" without
    one.
    """
    if profile.latency <= 0 or not finding.saving:
        return ""
    if finding.low is None or finding.high is None:
        return f"{finding.saving / profile.latency * 100:.1f} %"
    return f"{plus_minus(*(end / profile.latency * 100 for end in (finding.saving, finding.low, finding.high)))} %"


def evidence_of(finding: Finding) -> list[tuple[str, str]]:
    """Return the numbers behind a finding as a person reads them, by their names' endings."""
    return [(one_line(name).replace("_", " "), _evidence(name, value)) for name, value in finding.evidence.items()]


_SECONDS = {"time", "time_at_roof", "between_operators", "first", "steady", "saving", "latency"}
_SHARES = {"share", "worst", "ratio"}


def _evidence(name: str, value: float) -> str:
    last = name.rsplit("_", 1)[-1]
    if name in _SECONDS or last == "time":
        return format_duration(value)
    if last in _SHARES:
        return f"{value * 100:.1f} %"
    if last in ("bytes", "size"):
        return format_bytes(value)
    if last == "second":
        return format_si(value, "/s")
    if float(value).is_integer() and abs(value) < 1e6:
        return str(int(value))
    return significant(value)
