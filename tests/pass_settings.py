"""Settings of a pass by their names, in the type that the pass declares."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from edgewise.optimizing.base import Pass, PassSettings


def settings_of(one: Pass, **values: Any) -> PassSettings:
    """The settings that the module of a pass defines, `values` set and everything else as it is by default."""
    module = type(one).__module__
    known = vars(import_module(module)).values()
    own = [each for each in known if isinstance(each, type) and issubclass(each, PassSettings)]
    kind = next((each for each in own if each.__module__ == module), PassSettings)
    return kind(**values)
