"""How a difference by layer is shown."""

from __future__ import annotations

from edgewise.verbs.diff.result import DiffResult
from edgewise.verbs.presentation import Presentation


class DiffPresentation(Presentation[DiffResult]):
    """How the layers and the one where the error begins are shown."""

    files = "DIFF"
