"""Progress of calls in a Jupyter notebook, whose cells show it while they run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgewise.progress import Progress


def progress() -> Progress | None:
    """Return what prints progress below the cell that runs; None outside a notebook."""
    python = sys.modules.get("IPython")
    if python is None or getattr(python.get_ipython(), "kernel", None) is None:
        return None
    from edgewise.terminal.console import err
    from edgewise.terminal.progress import ProgressLines

    return ProgressLines(err())
