"""The last step of the tour: is the fastest really faster than the runner-up?"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from edgewise.record import Run

BUDGET = "30s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """What meets what.

    Attributes:
        words: the things to compare, as they are typed.
        threads: counts of threads to compare; empty where the words differ themselves.
    """

    words: tuple[str, ...]
    threads: tuple[int, ...] = ()

    @property
    def command(self) -> str:
        """The line to type for the same comparison."""
        vary = ["--vary", f"threads={','.join(map(str, self.threads))}"] if self.threads else []
        return shlex.join(["edgewise", "compare", *self.words, *vary, "--time-budget", BUDGET])


def choose_contest(runs: Sequence[Run], *, cores: int) -> Contest | str:
    """The two fastest of `runs`; of a single one, one thread against two. Else why nothing can be compared.

    Args:
        cores: processor cores that may be used.
    """
    measured = {run.id: latency for run in runs if run.status == "done" and (latency := run.value("latency"))}
    first = sorted((run for run in runs if run.id in measured), key=lambda run: measured[run.id])[:2]
    words = tuple(f"{run.job.model.path},runtime={run.job.runtime.name}" for run in first)
    if not words:
        return "nothing was measured that could be compared"
    if len(words) > 1:
        return Contest(words=words)
    if cores < 2:
        return "one run, and no more than one core is known to be usable"
    return Contest(words=words, threads=(1, 2))


def compare(contest: Contest, file: Path, *, store: str | None, keep: bool, quiet: bool, console: Console) -> int:
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
    console.print(f"wrote {file}: open it in a browser", soft_wrap=True, markup=False)
    return finish(findings, kept=keep)
