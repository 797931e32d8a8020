"""Findings of a profile whose saving a setting of the engine shows: measured in turns with it and without it."""

from __future__ import annotations

from dataclasses import replace

from edgewise.comparing.finals import can_take_turns, with_turns
from edgewise.errors import as_flag
from edgewise.profiling.findings import NOT_KNOWN, TRIED
from edgewise.record import Finding, InTurns, Run, new_run_id
from edgewise.run.variation import History

TRIED_S = 20.0
"""Time limit for each side of a setting, s: slow models need it for a handful of processes. It ends once decided."""


def settings_to_try(run: Run) -> list[str]:
    """Return the settings, ``name=value``, that findings of `run` name and that can be tried where it was measured."""
    if run.profile is None or not run.profile.findings or not can_take_turns(run):
        return []
    codes = [each.code for each in run.profile.findings if each.low is None]
    return ["=".join(TRIED[code]) for code in codes if code in TRIED]


def with_measured_savings(run: Run, history: History, *, each_s: float = TRIED_S) -> Run:
    """Return `run` with what the settings of `settings_to_try` save; where one can't be measured, the bound stays.

    Args:
        each_s: time limit for each side of a setting, s.

    Raises `KeyboardInterrupt` where it is interrupted.
    """
    profile = run.profile
    if profile is None:
        return run
    able = settings_to_try(run)
    found = []
    for finding in profile.findings:
        name, value = TRIED.get(finding.code, ("", ""))
        if finding.low is None and f"{name}={value}" in able:
            spec = run.job.runtime
            tried = replace(spec, options={**spec.options, name: value})
            other = replace(run, id=new_run_id(), job=replace(run.job, runtime=tried), in_turns=())
            _, other = with_turns([replace(run, in_turns=()), other], history, each_s=each_s)
            told = next(iter(other.in_turns), None)
            setting = f"{name}={value}"
            found.append(_measured(finding, told, setting, profile.latency) or _without(finding, setting, each_s))
        else:
            found.append(finding)
    found.sort(key=lambda one: (one.once, -one.saving, one.code))
    return replace(run, profile=replace(profile, findings=tuple(found)))


def _without(finding: Finding, setting: str, each_s: float) -> Finding:
    """Return `finding` with its bound, and that trying `setting` did not tell more."""
    tried = f"{as_flag('set', setting)} was tried in turns, but {2 * each_s:g} s were too short for an interval"
    return replace(finding, method=f"{finding.method}; {tried}")


def _measured(finding: Finding, told: InTurns | None, setting: str, latency: float) -> Finding | None:
    """Return `finding` with what turns told of `setting`, as a share of `latency`, s; None where they told nothing."""
    if told is None or told.low is None or told.high is None:
        return None
    flag = as_flag("set", setting)
    ratio = f"ratio {told.ratio:.3f} ({told.method})"
    method = f"measured in turns with {flag} and without it, {ratio}; as a share of the latency"
    suggestion = finding.suggestion
    if told.verdict != "faster":
        suggestion = f"{flag} was tried, and a saving by it is not proven: {NOT_KNOWN}"
    saving, low, high = (latency * (1.0 - ratio) for ratio in (told.ratio, told.high, told.low))
    return replace(finding, saving=saving, low=low, high=high, method=method, suggestion=suggestion)
