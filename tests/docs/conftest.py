"""Makes ``pages.py`` and ``docs/generate.py`` importable for the tests beside it."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
for folder in (HERE, HERE.parents[1] / "docs"):
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
