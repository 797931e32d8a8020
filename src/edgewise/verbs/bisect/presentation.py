"""How a bisection is shown."""

from __future__ import annotations

from edgewise.verbs.bisect.result import BisectResult
from edgewise.verbs.presentation import Presentation


class BisectPresentation(Presentation[BisectResult]):
    """How releases and the first bad one are shown."""

    left = "what was measured is above; its runs are in the store"
