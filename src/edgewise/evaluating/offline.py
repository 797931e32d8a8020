"""Hugging Face's packages without the network."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

_VARIABLES = ("HF_EVALUATE_OFFLINE", "HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "HF_HUB_DISABLE_TELEMETRY")


@contextlib.contextmanager
def offline() -> Iterator[None]:
    """Keep Hugging Face's packages off the network inside; the environment is restored afterwards."""
    before = {name: os.environ.get(name) for name in _VARIABLES}
    os.environ.update(dict.fromkeys(_VARIABLES, "1"))
    # It read the variables when it was first imported, perhaps long ago.
    config: Any = sys.modules.get("evaluate.config")
    allowed = getattr(config, _VARIABLES[0], None)
    if config is not None:
        config.HF_EVALUATE_OFFLINE = True
    try:
        yield
    finally:
        if config is not None:
            config.HF_EVALUATE_OFFLINE = allowed
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
