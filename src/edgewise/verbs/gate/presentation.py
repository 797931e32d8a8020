"""How results of ``gate`` are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgewise.errors import ExitCode, RunFailed
from edgewise.verbs.presentation import Ending, Presentation

if TYPE_CHECKING:
    from edgewise.comparing.gate import GateResult


class GatePresentation(Presentation["GateResult"]):
    """How the result of a gate is shown."""

    files = "GATE"

    def ending(self, result: GateResult, *, kept: bool) -> Ending:
        """The verdict alone: a store that fails changes nothing about it. A limit that is not met is an answer."""
        del kept
        unmeasured = (RunFailed(result.conclusion),) if result.exit_code == ExitCode.RUN_FAILED else ()
        return Ending(code=result.exit_code, shown=unmeasured)
