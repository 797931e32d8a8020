"""The last step of the tour: what was optimised against what it was made of, else the two fastest."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgewise.optimizing.variant import Optimization
    from edgewise.record import Run

BUDGET = "30s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """What meets what.

    Attributes:
        title: the question.
        words: the things to compare, as they are typed.
        threads: counts of threads to compare; empty where the words differ themselves.
    """

    title: str
    words: tuple[str, ...]
    threads: tuple[int, ...] = ()

    @property
    def command(self) -> str:
        """The line to type for the same comparison."""
        vary = ["--vary", f"threads={','.join(map(str, self.threads))}"] if self.threads else []
        return shlex.join(["edgewise", "compare", *self.words, *vary, "--time-budget", BUDGET])


def choose_contest(runs: Sequence[Run], result: Optimization | None, *, cores: int) -> Contest | str:
    """The original and what `result` chose; without a choice the two fastest of `runs`, or one thread against two.

    Args:
        result: of the search; None where there was none.
        cores: processor cores that may be used.

    Returns:
        Why nothing can be compared, where nothing can.
    """
    if result is not None and result.chosen is not None:
        return _before_and_after(result, result.chosen)
    measured = {run.id: latency for run in runs if run.status == "done" and (latency := run.value("latency"))}
    first = sorted((run for run in runs if run.id in measured), key=lambda run: measured[run.id])[:2]
    words = tuple(f"{run.job.model.path},runtime={run.job.runtime.name}" for run in first)
    if not words:
        return "nothing was measured that could be compared"
    if len(words) > 1:
        return Contest(title="Compare: is the fastest really faster than the runner-up?", words=words)
    if cores < 2:
        return "one run, and no more than one core is known to be usable"
    return Contest(title="Compare: one thread or two?", words=words, threads=(1, 2))


def _before_and_after(result: Optimization, chosen: str) -> Contest:
    """The original in the engine that the search had it in, and the chosen file in its own."""
    original, variant = result.baseline, result.candidate(chosen)
    assert original.model is not None
    return Contest(
        title="Compare: is the optimised one really faster, once more?",
        words=(
            f"original={original.model.path},runtime={original.runtime.name}",
            f"optimised={result.files['chosen']},runtime={variant.runtime.name}",
        ),
    )


def compare(contest: Contest, file: Path, *, store: str | None, keep: bool, quiet: bool) -> int:
    """Measure `contest`, print what is found, write it to `file`; gives the exit code."""
    from edgewise.cli.compare import finish, run, show
    from edgewise.cli.settings import seconds
    from edgewise.cli.subjects import read_subjects
    from edgewise.comparing.contenders import Conditions
    from edgewise.comparing.terms import Terms
    from edgewise.comparing.trial import Trial
    from edgewise.report.comparison_files import write_comparison
    from edgewise.run.plan import Axes

    findings = run(
        read_subjects(contest.words, store=store),
        terms=Terms(),
        trial=Trial(budget_s=seconds(BUDGET)),
        conditions=Conditions(axes=Axes(threads=contest.threads)),
        stored=False,
        meters=False,
        store=store,
        keep=keep,
        quiet=quiet,
    )
    show(findings, as_json=False)
    write_comparison(findings, file, overwrite=True)
    return finish(findings, kept=keep)
