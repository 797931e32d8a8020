"""Where things are printed: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.console import Console


def out() -> Console:
    """Results. Rich finds out itself whether this is a terminal and how wide."""
    return Console(soft_wrap=False, highlight=False)


def err() -> Console:
    """Progress, cautions, errors."""
    return Console(stderr=True, highlight=False)


def print_json(document: Any) -> None:
    """Exactly one JSON document on standard output; NaN and infinity are not JSON and become null."""
    json.dump(_finite(document), sys.stdout, indent=2, ensure_ascii=False, allow_nan=False)
    sys.stdout.write("\n")


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
