"""The middle of the tour: is the network right, and can it be made smaller and faster? As `evaluate` and `optimize`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.registry import availability_of

if TYPE_CHECKING:
    from rich.console import Console

    from edgewise.evaluating.examination import Results
    from edgewise.optimizing.variant import Optimization

DATA = "digits_test.npz"
BUDGET = "90s"
PASSES = {".onnx": ("ort-static", "nncf-ptq"), ".tflite": ("litert-static",)}
"""Of each kind of file the passes that do the most for this network, the first that is installed is taken. More of them
would leave a race of so short a search too few rounds to prove anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """What is optimised, with what.

    Attributes:
        folder: where variants go.
        report: the page.
    """

    model: Path
    data: Path
    passes: str
    folder: Path
    report: Path

    @property
    def command(self) -> str:
        """The line to type for the same search."""
        words = [*self.words, "--passes", self.passes, "--time-budget", BUDGET, "-o", str(self.folder)]
        return shlex.join(["edgewise", "optimize", *words, "--report", str(self.report)])

    @property
    def words(self) -> tuple[str, ...]:
        """Model and data as they are typed."""
        return (str(self.model), "--data", str(self.data))


def choose_errand(models: Sequence[Path], *, data: Path, output: Path) -> Errand | str:
    """The first of `models` that an installed pass can quantise; else why there is none.

    Args:
        output: folder of the tour.
    """
    from edgewise.optimizing.base import passes

    missing = ""
    for model in models:
        for name in PASSES.get(model.suffix, ()):
            availability = availability_of(passes().get(name))
            if availability:
                return Errand(
                    model=model,
                    data=data,
                    passes=name,
                    folder=output / "optimized",
                    report=output / "optimize.html",
                )
            missing = missing or f"{availability.reason}; {availability.install_hint}"
    return missing or "no model was measured"


def evaluate_command(models: Sequence[Path], data: Path, page: Path) -> str:
    """The line to type for `evaluate`."""
    return shlex.join(["edgewise", "evaluate", *map(str, models), "--data", str(data), "-o", str(page)])


def evaluate(
    models: Sequence[Path], data: Path, *, page: Path, sessions: int, store: str | None, keep: bool, quiet: bool
) -> tuple[Results, int]:
    """Judge `models`, print what is found and write it to `page`; gives the exit code too."""
    from edgewise.cli.evaluate import finish, run, show
    from edgewise.evaluating.asking import DataWish, make_examination
    from edgewise.record import Stopping, TargetSpec
    from edgewise.report.evaluation_files import write_evaluation
    from edgewise.run.plan import Axes

    exam = make_examination(
        models,
        DataWish(source=str(data)),
        axes=Axes(threads=(1,)),
        stopping=Stopping(sessions=sessions, timeout_s=120.0),
        target=TargetSpec(),
    )
    results = run(exam, store=store, keep=keep, meters=False, quiet=quiet)
    show(results, as_json=False)
    write_evaluation(results, page, overwrite=True)
    return results, finish(results, kept=keep)


def optimize(errand: Errand, *, store: str | None, keep: bool, quiet: bool) -> tuple[Optimization, int]:
    """Search, print what is found and write it to the errand's page; gives the exit code too."""
    from edgewise.cli.optimize import finish, run, show
    from edgewise.cli.settings import seconds
    from edgewise.evaluating.asking import DataWish
    from edgewise.optimizing.commission import Limits
    from edgewise.optimizing.ordering import make_commission
    from edgewise.report.optimization_files import write_optimization

    commission = make_commission(
        str(errand.model),
        folder=errand.folder,
        wish=DataWish(source=str(errand.data)),
        limits=Limits(),
        passes=(errand.passes,),
        budget_s=seconds(BUDGET) or 0.0,
        words=errand.words,
    )
    result = run(commission, store=store, keep=keep, quiet=quiet)
    show(result, as_json=False)
    write_optimization(result, errand.report, overwrite=True)
    return result, finish(result, kept=keep)


def say_written(console: Console, *files: Path) -> None:
    """A line for each file."""
    for file in files:
        hint = ": open it in a browser" if file.suffix == ".html" else ""
        console.print(f"wrote {file}{hint}", soft_wrap=True, markup=False, highlight=False)
