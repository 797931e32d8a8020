"""Carries out `bisect`: compares releases with the good one until one is likely enough to be the first bad one."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.device.devices import LOCAL
from edgewise.device.environment_targets import list_releases
from edgewise.device.environments import ENGINES, is_unreachable, nearest_versions, parse_versions
from edgewise.errors import BadInput, EdgewiseError, Unavailable
from edgewise.folders import check_place
from edgewise.model.identity import open_model
from edgewise.progress import StageStarted, emit
from edgewise.record import ModelRef, Run
from edgewise.text import one_line
from edgewise.verbs.bisect.part import Part, smallest_part
from edgewise.verbs.bisect.result import BisectResult, Release
from edgewise.verbs.bisect.search import Search
from edgewise.verbs.verb import carry_out, command_of, words_of

if TYPE_CHECKING:
    from edgewise.comparing.comparison import Comparison, ComparisonResult
    from edgewise.verbs.bisect.request import BisectRequest
    from edgewise.verbs.context import Context

_METRICS = {"latency": "latency", "memory": "memory_peak"}


def releases_of(package: str, device: str = LOCAL) -> list[str]:
    """Return the final releases of `package` that the index has for the Python of a device, the oldest first.

    Raises `Unavailable`, and `BadInput` for a device that keeps no environments.
    """
    told = list_releases(package, device)
    tail = told.get("tail", "")
    found = re.search(r"^Available versions: (.*)$", told.get("output", ""), re.MULTILINE)
    package += "" if device == LOCAL else f" on {device}"
    if is_unreachable(tail):
        raise Unavailable(f"pip can't list the releases of {package}", advice="the package index can't be reached")
    if told.get("failure") or found is None:
        lines = tail.strip().splitlines()
        reason = one_line(lines[-1])[:200] if lines else told.get("failure") or "no answer"
        advice = "install pip for it" if "No module named pip" in tail else "check the package index"
        raise Unavailable(f"pip can't list the releases of {package}: {reason}", advice=advice)
    return [str(one) for one in parse_versions(map(str.strip, found[1].split(","))) if not one.is_prerelease]


def bisect(request: BisectRequest, context: Context) -> BisectResult:
    """Find the first release that is worse than the good one.

    Raises:
        BadInput: a release that the index does not have, or in the wrong order.
        Unavailable: no index, or the good or the bad release can't be measured.
    """
    ref = open_model(request.model).ref
    if request.subgraph:
        check_place(Path(request.subgraph), overwrite=False, example="part.onnx")
        if ref.format != "onnx":
            raise BadInput(f"{ref.name} is no ONNX file, of which a part can be cut out", advice="leave out ⟦subgraph⟧")
    versions = _between(releases_of(request.engine, request.device), request)
    if request.on == "output":
        return _bisect_outputs(request, ref, versions)
    steps = _Steps(request=request, context=context, releases=[Release(version=one) for one in versions])
    result = _empty_result(request, ref, steps.releases)
    last = len(versions) - 1
    row = steps.compare(last)
    if row is None:
        raise Unavailable(f"{request.engine} {request.bad} can't be compared: {steps.releases[last].skipped}")
    if row.verdict != "slower":
        undecided = row.verdict == "inconclusive"
        environments = [run.environment for run in steps.runs]
        return replace(result, releases=steps.releases, environments=environments, undecided=undecided)
    spread, within = spread_of(row)
    search = Search(number=last, change=math.log(row.ratio or 1.0), spread=spread, within=within)
    interrupted = False
    try:
        steps.search(search)
    except KeyboardInterrupt:
        interrupted = True
    if not search.compared and last > 1:  # each release is as likely as the others
        return replace(
            result,
            releases=steps.releases,
            others=versions[1:],
            environments=[run.environment for run in steps.runs[-2:]],
            interrupted=interrupted,
            part_absent_because="the first slower release is not known" if request.subgraph else "",
        )
    first, probability = search.first
    profiles: Sequence[Run] = ()
    if request.profile and not interrupted:
        profiles = steps.profile(versions[first - 1], versions[first])
    part, why = None, ""
    if request.subgraph and not interrupted:
        try:
            part, why = steps.cut(profiles, versions[first - 1 : first + 1], to=Path(request.subgraph))
        except KeyboardInterrupt:
            interrupted, why = True, "interrupted"
    return replace(
        result,
        part=part,
        part_absent_because=why,
        releases=steps.releases,
        first=versions[first],
        probability=probability,
        others=[versions[at] for at in search.candidates() if at != first],
        between=[versions[at] for at in search.between],
        profiles=profiles,
        environments=[run.environment for run in (*profiles, *steps.runs)],
        interrupted=interrupted,
    )


def _empty_result(request: BisectRequest, ref: ModelRef, releases: Sequence[Release]) -> BisectResult:
    model = {"name": ref.name, "format": ref.format, "sha256": ref.sha256}
    return BisectResult(
        model=model, engine=request.engine, on=request.on, releases=releases, first=None, probability=None,
        command=command_of(request), device=request.device,
        asked=shlex.join(words_of(request, only=("model", "threads", "device"))),
    )  # fmt: skip


def _bisect_outputs(request: BisectRequest, ref: ModelRef, versions: Sequence[str]) -> BisectResult:
    """Find the first release whose outputs differ from those of the good one. Raises `Unavailable`."""
    from edgewise.verbs.bisect.outputs import OutputSearch, first_that

    search = OutputSearch(request=request, releases=[Release(version=one) for one in versions])
    last = len(versions) - 1
    differs = search.differs(last)
    if differs is None:
        raise Unavailable(f"{request.engine} {request.bad} can't be compared: {search.releases[last].skipped}")
    result = _empty_result(request, ref, search.releases)
    if not differs:
        return replace(result, environments=search.environments)
    try:
        first, others = first_that(search.differs, last)
    except KeyboardInterrupt:
        good = max((at for at, one in enumerate(search.releases) if one.differs is False), default=0)
        bad = next(at for at, one in enumerate(search.releases) if one.differs)
        return replace(result, others=versions[good + 1 : bad + 1], environments=search.environments, interrupted=True)
    return replace(
        result,
        first=versions[first],
        probability=None if others else 1.0,
        others=[versions[at] for at in others],
        environments=search.environments,
    )


def _between(versions: Sequence[str], request: BisectRequest) -> list[str]:
    """Return the releases from the good one to the bad one. Raises `BadInput`."""
    python = "this Python" if request.device == LOCAL else f"the Python on {request.device}"
    for flag, version in (("good", request.good), ("bad", request.bad)):
        if version not in versions:
            near = ", ".join(nearest_versions(version, versions))
            raise BadInput(
                f"the index has no {request.engine} {version} for {python} ({flag})",
                advice=f"versions near it: {near or 'none'}",
            )
    first, last = versions.index(request.good), versions.index(request.bad)
    if first > last:
        raise BadInput(f"{request.good} is newer than {request.bad}", advice="the good release is the older one")
    return list(versions[first : last + 1])


def spread_of(row: Comparison) -> tuple[float, float]:
    """Return the standard deviation of the logarithm of a ratio between comparisons, and the part that its interval
    tells.
    """
    own = math.log(row.high / row.low) / (2 * 1.96) if row.low and row.high else 0.0
    if row.rerun_sigma is not None:
        return row.rerun_sigma, own
    return max(own, 1e-6), 0.0  # exact numbers differ by nothing


@dataclass(kw_only=True)
class _Steps:
    """The comparisons of a bisection."""

    request: BisectRequest
    context: Context
    releases: list[Release]
    runs: list[Run] = field(default_factory=list)

    def search(self, search: Search) -> None:
        """Compare releases until one is likely enough, none can tell more, or there were enough."""
        unmeasurable: set[int] = set()
        probes = 0
        while not search.is_sure and probes < self.request.most_probes:
            at = search.next(unmeasurable)
            if at is None:
                return
            probes += 1
            row = self.compare(at)
            if row is None or not row.ratio:
                unmeasurable.add(at)
            else:
                search.update(at, math.log(row.ratio), *spread_of(row))

    def compare(self, at: int) -> Comparison | None:
        """Compare a release with the good one; None where it can't be measured, which is noted.

        Raises KeyboardInterrupt, and `BadInput`, `BadModel` for the model itself.
        """
        request, metric = self.request, _METRICS[self.request.on]
        release = self.releases[at]
        emit(StageStarted(title=f"{request.engine} {release.version} against {request.good}"))
        try:
            found = self._compare(request.model, request.good, release.version)
        except EdgewiseError as error:
            self.releases[at] = replace(release, skipped=f"{error.message}")
            return None
        if found.interrupted:
            raise KeyboardInterrupt
        self.runs += [variant.run for variant in found.variants if variant.run is not None]
        row: Comparison | None = next((row for row in found.comparisons if row.metric == metric), None)
        if row is None or row.ratio is None:
            why = "; ".join(found.failures.values()) or (row.because if row is not None else "") or "no ratio"
            self.releases[at] = replace(release, skipped=why)
            return None
        self.releases[at] = replace(
            release, ratio=row.ratio, low=row.low, high=row.high, pairs=release.pairs + (found.pairs or 0)
        )
        return row

    def _compare(self, model: str, before: str, after: str) -> ComparisonResult:
        """Measure a model with two releases in turns. Raises `EdgewiseError`."""
        from edgewise.verbs.compare.request import CompareRequest

        request = self.request
        asked = CompareRequest(
            subjects=(model,), environments=tuple(f"{request.engine}=={one}" for one in (before, after)),
            runtimes=(ENGINES[request.engine],), threads=(request.threads,), time_budget=request.time_budget,
            until=_METRICS[request.on], device=request.device,
        )  # fmt: skip
        found: ComparisonResult = carry_out(asked, replace(self.context, progress=None, cancel=None))
        return found

    def cut(self, profiles: Sequence[Run], releases: Sequence[str], *, to: Path) -> tuple[Part | None, str]:
        """Return the smallest part of the model that is slower in the second of both releases; or None, and why."""
        if not profiles:
            return None, "the operators of the two releases could not be profiled"
        before, after = releases

        def compare(file: str) -> Comparison | None:
            emit(StageStarted(title=f"A part of the model with {self.request.engine} {before} and {after}"))
            found = self._compare(file, before, after)
            if found.interrupted:
                raise KeyboardInterrupt
            return next((row for row in found.comparisons if row.metric == _METRICS["latency"]), None)

        return smallest_part(self.request.model, profiles, to=to, compare=compare)

    def profile(self, before: str, after: str) -> Sequence[Run]:
        """Profiles of two releases; none where they can't be had."""
        from edgewise.verbs.profile.request import SESSIONS, ProfileRequest

        request = self.request
        emit(StageStarted(title=f"The operators of {request.engine} {before} and {after}"))
        asked = ProfileRequest(
            models=(request.model,), environments=tuple(f"{request.engine}=={one}" for one in (before, after)),
            runtimes=(ENGINES[request.engine],), threads=(request.threads,), device=request.device,
            sessions=SESSIONS,  # and no turns
        )  # fmt: skip
        try:
            found = carry_out(asked, replace(self.context, progress=None, cancel=None))
        except EdgewiseError:
            return ()
        runs = [run for run in found.runs if run.profile is not None]
        return runs if len(runs) == 2 else ()
