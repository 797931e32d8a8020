"""The memory: records in a database, their codec, upgrades and exchange.

Importing this package imports neither pydantic nor SQLAlchemy; using a name of it does.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgewise.store.codec import from_document, to_document
    from edgewise.store.database import Store, open_store

__all__ = ["Store", "from_document", "open_store", "to_document"]

_HOMES = {
    "Store": "edgewise.store.database",
    "open_store": "edgewise.store.database",
    "to_document": "edgewise.store.codec",
    "from_document": "edgewise.store.codec",
}


def __getattr__(name: str) -> Any:
    """Return the public name `name`, its module imported on first use. Raises AttributeError."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
