"""The request of ``sweep``."""

from __future__ import annotations

from typing import Annotated, Literal

from edgewise.errors import BadField
from edgewise.run.limits import require_at_least
from edgewise.verbs.option import argument, option
from edgewise.verbs.request import FilePath, Request, Texts, Whole
from edgewise.verbs.shared_options import MEASURE, OUTPUT, VARY

MOST_CELLS = 10_000


class SweepRequest(Request):
    """Carry out a verb for every cell of a suite.

    Attributes:
        suite: a YAML file; relative paths in it count from its folder.
        only: parts or patterns (``*resnet*``) of cells' names; empty is all cells.
        again: whether finished cells are measured again.
        folder: where the results go; None is ``SUITE-results`` beside the suite.
        emit: write the unfinished cells for another scheduler instead of measuring them.
        lab: queue the cells for the hosts of a lab, and collect those that have ended.
        wait: with `lab`, until all have ended.
        most_cells: a suite with more is refused.
    """

    PATHS = ("suite", "folder")

    verb: Literal["sweep"] = "sweep"
    suite: Annotated[FilePath, argument("suite", "A suite: a YAML file.", str, metavar="FILE")]
    only: Annotated[
        Texts,
        option("--only PATTERN", VARY, "Only cells whose name has this part or matches it; repeatable", list[str]),
    ] = ()
    again: Annotated[bool, option("--again", MEASURE, "Measure finished cells again", bool)] = False
    folder: Annotated[
        FilePath | None, option("--folder FOLDER", OUTPUT, "Folder of the results (default: SUITE-results beside it)")
    ] = None
    emit: Annotated[
        Literal["github", "slurm", "kubernetes"] | None,
        option(
            "--emit NAME", OUTPUT, "Write the unfinished cells for a scheduler instead: github, slurm or kubernetes"
        ),
    ] = None
    lab: Annotated[
        bool,
        option(
            "--lab",
            MEASURE,
            "Let the hosts of the lab in the store (--store, EDGEWISE_STORE) carry out the cells",
            bool,
        ),
    ] = False
    wait: Annotated[bool, option("--wait", MEASURE, "With --lab: wait until all cells have ended", bool)] = False
    most_cells: Annotated[
        Whole, option("--most-cells N", MEASURE, "Refuse a suite with more cells", int, field="most_cells")
    ] = MOST_CELLS

    def check(self) -> None:
        """Reject amounts that mean nothing, and options that exclude one another."""
        if self.wait and not self.lab:
            raise BadField("⟦wait⟧ needs ⟦lab⟧", advice="leave ⟦wait⟧ out: a sweep without a lab waits anyway")
        if self.emit and self.lab:
            raise BadField("⟦emit⟧ and ⟦lab⟧ exclude one another", advice="leave one of them out")
        require_at_least(1, most_cells=self.most_cells)
