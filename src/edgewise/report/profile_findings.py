"""Findings of a profile as text: possible savings, why, and what to do."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

from edgewise.formatting import quantity
from edgewise.grouping import by_key
from edgewise.profiling.findings import LEAST_SHARE
from edgewise.profiling.slowdown import explain_slowdown
from edgewise.record import Finding, Layer, Profile, Run
from edgewise.record.facts import threads_of, uses_int8
from edgewise.report.conditions import engine_of, labels_of, look_up
from edgewise.report.document import Section, lines_of
from edgewise.report.names import layer_names
from edgewise.text import one_line
from edgewise.units import format_bytes, format_duration, format_si, significant

NAME_WIDTH = 34
"""Most characters of a layer's name in a finding."""
MOST_PARTS = 3
"""Types of operators that the time above the limits is divided into."""
BEFORE_AND_AFTER = 2
"""Number of runs of a comparison before and after."""


def titled(title: str, label: str) -> str:
    """`title`, with the run that it is about where there are several."""
    return f"{title}: {label}" if label else title


def finding_sections(run: Run, label: str = "", *, others: Sequence[Run] = ()) -> list[Section]:
    """Possible savings, the largest first, and what `others` fuse of it."""
    if run.profile is None:
        return []
    found = [with_fusions(finding, run, others) for finding in ranked_findings(run.profile)]
    if not found:
        return [Section(title=titled("Findings", label), lines=(nothing_found(run),))]
    short = layer_names(run, NAME_WIDTH)
    names = {layer.name: short[layer.index] for layer in run.layers if len(one_line(layer.name)) > NAME_WIDTH}
    lines = tuple(f"{place}. {finding_line(finding, run.profile, names)}" for place, finding in enumerate(found, 1))
    return [Section(title=titled("Findings", label), lines=lines, tone="poor")]


def evidence_sections(run: Run, label: str = "") -> list[Section]:
    """The numbers behind each finding, and how its saving was computed; a terminal shows them on request."""
    found = ranked_findings(run.profile) if run.profile is not None else []
    lines = tuple(f"{place}. {_evidence_line(finding)}" for place, finding in enumerate(found, 1))
    return [Section(title=titled("Evidence of findings", label), lines=lines, brief="")] if lines else []


def nothing_found(run: Run) -> str:
    """That a profile has no findings, or why that is not known."""
    from edgewise.report.profile_cells import roof_reason

    if run.source is not None or run.profile is None:
        return "not searched: layers of another tool"
    vague = [layer for layer in run.layers if layer.kind == "operator" and layer.macs and layer.is_bounded]
    vague = [layer for layer in vague if (layer.high or 0.0) >= LEAST_SHARE * run.profile.latency]
    costly = [*_with_arithmetic(run), *vague]
    lacking = [layer for layer in costly if not layer.roof]
    if not lacking:
        return "none: no single cost stands out that this engine could avoid at this precision"
    reasons = "; ".join(dict.fromkeys(roof_reason(layer, run.profile) for layer in lacking))
    return f"not known for {len(lacking)} of {len(costly)} layers with arithmetic, which have no roof: {reasons}"


def _with_arithmetic(run: Run) -> list[Layer]:
    return [
        layer
        for layer in run.layers
        if layer.kind == "operator" and layer.macs != 0 and layer.time and not layer.is_bounded
    ]


def above_roof_words(run: Run) -> str:
    """``"layers with arithmetic take 36.6 µs (38 %) longer than at the machine's limits: Conv limited by memory …"``.

    The types of operators that lose most, with what limits them, and the layer; empty where no layer has a limit.
    """
    known = [layer for layer in _with_arithmetic(run) if layer.roof and layer.ops is not None]
    if not known or run.profile is None:
        return ""
    lost = [(max(0.0, (layer.time or 0.0) - (layer.ops or 0) / (layer.roof or 1.0)), layer) for layer in known]
    above = sum(seconds for seconds, _ in lost)
    share = f" ({100 * above / run.profile.latency:.0f} %)" if run.profile.latency else ""
    text = f"layers with arithmetic take {quantity(above, 's')}{share} longer than at the machine's limits"
    if not above:
        return text
    sums = {key: sum(some) for key, some in by_key((_limited(layer), seconds) for seconds, layer in lost).items()}
    parts = [f"{key} {quantity(sums[key], 's')}" for key in sorted(sums, key=lambda key: -sums[key])[:MOST_PARTS]]
    most, layer = max(lost, key=lambda pair: pair[0])
    worst = f"; most in {layer_names(run, NAME_WIDTH)[layer.index]} ({quantity(most, 's')})" if len(lost) > 1 else ""
    return f"{text}: {', '.join(parts)}{worst}"


def _limited(layer: Layer) -> str:
    """``"Conv limited by memory"``: the type of a layer, and which limit of the machine is its own."""
    limit = {"compute": " limited by arithmetic", "memory": " limited by memory"}.get(layer.bound or "", "")
    return f"{one_line(layer.op)}{limit}"


def next_section(runs: Sequence[Run], again: Mapping[str, Sequence[str]]) -> Section:
    """What to try where layers can't be made faster one by one: another precision, more threads, another engine.

    Args:
        again: by verb, the options of the command of `runs` that the next commands need too.
    """
    profiled = [run for run in runs if run.source is None and run.profile is not None]
    return Section(title="Next", lines=lines_of(line for run in profiled for line in _next_lines(run, again)))


def _next_lines(run: Run, again: Mapping[str, Sequence[str]]) -> list[str]:
    model, device = run.job.model, run.job.target.device
    name = one_line(model.origin.target if model.origin else model.file_name)
    own = ["--signature", one_line(model.signature)] if model.signature else []
    lines = []
    if device == "local" and model.format in ("onnx", "tflite", "openvino") and not uses_int8(run):
        words = shlex.join(["edgewise", "optimize", name, *own, *again.get("optimize", ())])
        asked = "--data DATA --task TASK --prepare STEP=VALUE"
        lines.append(f"'{words} {asked}' tries int8 and other variants; these options are those of 'edgewise evaluate'")
    there = [] if device == "local" else ["-d", one_line(device)]
    known = [look_up(run.environment, f"cpu.{kind}_cores") for kind in ("usable", "quota")]
    cores = int(min((float(count) for count in known if count), default=0.0))
    threads = ["--threads", f"1,{cores}"] if threads_of(run) == 1 and cores > 1 else []
    words = shlex.join(["edgewise", "bench", name, *there, *threads, *own, *again.get("bench", ())])
    how = f", with 1 thread as here and with {cores}" if threads else ""
    return [*lines, f"'{words}' measures it on every engine{how}"]


def with_fusions(finding: Finding, run: Run, others: Sequence[Run]) -> Finding:
    """`finding`, where it is of element-wise chains with how many of them other runs of the model fuse."""
    if finding.code != "element-wise-chains":
        return finding
    chained = [set(layer.nodes) for layer in run.layers if layer.index in finding.layers]
    sha256, message = run.job.model.sha256, finding.message.rstrip(".")
    for other in others:
        if other.id == run.id or not sha256 or other.job.model.sha256 != sha256:
            continue
        steps = {node: set(layer.nodes) for layer in other.layers for node in layer.nodes}
        fused = sum(any(steps.get(node, nodes) - nodes for node in nodes) for nodes in chained)
        if fused:
            message += f"; {engine_of(other)} runs {fused} of these {len(chained)} together with other operators"
    return replace(finding, message=message)


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
    """The names of two runs' models; where they are equal, what else tells the runs apart."""
    names = [one_line(run.job.model.name) for run in runs]
    first, second = names if names[0] != names[1] else labels_of(runs)
    return first, second


def ranked_findings(profile: Profile) -> list[Finding]:
    """Savings on every inference before savings once, the largest first."""
    return sorted(profile.findings, key=lambda finding: (finding.once, -finding.saving))


def finding_line(finding: Finding, profile: Profile, names: Mapping[str, str] | None = None) -> str:
    """Saving, what was seen, and what to do.

    Args:
        names: name of a layer → the same, short.
    """
    message, suggestion = one_line(finding.message).rstrip("."), one_line(finding.suggestion)
    for name, short in (names or {}).items():
        message = message.replace(repr(name), repr(short))
    return f"{saving_words(finding, profile)}: {message} → {suggestion} ({one_line(finding.code)})"


def _evidence_line(finding: Finding) -> str:
    """``"far-from-roof: layers 2, worst 0.4 %; saving: their time minus …"``: the numbers behind a finding, and how."""
    words = [", ".join(f"{name} {text}" for name, text in evidence_of(finding))] if finding.evidence else []
    words += [f"saving: {one_line(finding.method)}"] if finding.method else []
    return f"{one_line(finding.code)}: {'; '.join(words) or 'no numbers'}"


def saving_words(finding: Finding, profile: Profile) -> str:
    """``"up to 12.3 µs (1.2 %)"``; once, where it is not with every inference."""
    if finding.once:
        return f"up to {format_duration(finding.saving)} once, at the start"
    share = f" ({finding.saving / profile.latency * 100:.1f} %)" if profile.latency > 0 else ""
    return f"up to {format_duration(finding.saving)}{share}"


def evidence_of(finding: Finding) -> list[tuple[str, str]]:
    """The numbers behind a finding as a person reads them, by their names' endings."""
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
