"""Searches the first release whose outputs differ: they are computed on the same inputs, and a release needs one look.

Outputs differ where the difference is more than roundings explain (`edgewise.run.agreement`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from edgewise.device.environments import ENGINES
from edgewise.errors import BadInput, EdgewiseError, Unavailable
from edgewise.model.identity import read_graph
from edgewise.model.precision import reduced_precision
from edgewise.progress import StageStarted, emit
from edgewise.record import Job, Scenario, Stopping
from edgewise.run.agreement import NOT_FINITE, Outputs, difference_of, difference_words
from edgewise.run.executor import facts_of
from edgewise.run.inference import Inference, InferenceFailed
from edgewise.run.plan import Axes, make_plan
from edgewise.run.run_builder import METERS_OFF, RunBuilder, reduced_words
from edgewise.verbs.bisect.result import Release
from edgewise.workload.inputs import make_arrays

if TYPE_CHECKING:
    from edgewise.verbs.bisect.request import BisectRequest

SAMPLES = 8
"""Random inputs on which outputs are compared."""


@dataclass(kw_only=True)
class OutputSearch:
    """The search among releases, of which the first is good.

    Attributes:
        environments: what is known of the machine and the packages, release by release in the order of the looks.
    """

    request: BisectRequest
    releases: list[Release]
    environments: list[Mapping[str, Any]] = field(default_factory=list)
    good: Outputs | None = None

    def differs(self, at: int) -> bool | None:
        """Whether a release gives other outputs than the good one; None where it can't run, which is noted.

        Raises `EdgewiseError` where the good one can't run, or its outputs can't be repeated.
        """
        release = self.releases[at]
        emit(StageStarted(title=f"{self.request.engine} {release.version} against {self.request.good}"))
        if self.good is None:
            self.good, again = (self._outputs(self.releases[0].version) for _ in range(2))
            told = difference_of(again, self.good)
            if told.why == NOT_FINITE:
                raise BadInput(
                    f"releases can't be told apart by the outputs of {self.request.model}: {NOT_FINITE}",
                    advice="compare ⟦on=latency⟧ or ⟦on=memory⟧",
                )
            if not told.close:
                raise BadInput(
                    f"the outputs of {self.request.model} differ between two runs of {self.releases[0].version}",
                    advice="no release can be found by them; does the model draw random numbers?",
                )
        try:
            found = self._outputs(release.version)
        except EdgewiseError as error:
            self.releases[at] = replace(release, skipped=error.message)
            return None
        told = difference_of(found, self.good)
        share = told.max_rel if np.isfinite(told.max_rel) else None
        self.releases[at] = replace(release, differs=not told.close, difference=share, outputs=difference_words(told))
        return not told.close

    def _outputs(self, version: str) -> Outputs:
        """Return what a release computes on random inputs. Raises `EdgewiseError`."""
        job = self._job(version)
        facts = facts_of(job.target)
        self.environments += [facts.environment] if facts is not None else []
        feeds = [make_arrays(job.workload.inputs, seed=seed) for seed in range(SAMPLES)]
        try:
            with Inference(job, builder=RunBuilder(save=lambda run: None, sensors=METERS_OFF)) as inference:
                answers = inference.infer(feeds)
        except InferenceFailed as error:
            raise Unavailable(f"{self.request.engine} {version}: {error}", advice=error.failure.advice) from error
        arrays = tuple(np.stack(each) for each in zip(*answers, strict=True))
        precision = inference.effective.get("precision") or job.runtime.precision
        reduced = reduced_words(job.runtime.name, precision, arrays) or _precision_of_model(job)
        return Outputs(run_id=version, label=version, arrays=arrays, reduced=reduced)

    def _job(self, version: str) -> Job:
        request = self.request
        axes = Axes(
            runtimes=(ENGINES[request.engine],),
            threads=(request.threads,),
            environments=(f"{request.engine}=={version}",),
        )
        plan = make_plan(
            [Path(request.model)], axes=axes, scenario=Scenario(), stopping=Stopping(), target=request.target()
        )
        return plan.jobs[0]


def _precision_of_model(job: Job) -> str:
    """State that the model itself computes in less than float32; "" where it does not, or nothing is known of it."""
    try:
        precision = reduced_precision(read_graph(job.model))
    except EdgewiseError:  # its reader tells no network
        return ""
    return f"the model computes in {precision}" if precision else ""


def first_that(differs: Callable[[int], bool | None], last: int) -> tuple[int, Sequence[int]]:
    """Return the first of the releases 1 … `last` that differs, by halving, and others that may be the first.

    The last one is known to differ.
    """
    good, bad = 0, last
    unknown: set[int] = set()
    while between := [at for at in range(good + 1, bad) if at not in unknown]:
        at = between[(len(between) - 1) // 2]
        found = differs(at)
        if found is None:
            unknown.add(at)
        elif found:
            bad = at
        else:
            good = at
    return bad, list(range(good + 1, bad))
