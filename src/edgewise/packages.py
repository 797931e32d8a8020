"""Installed packages, from their metadata: nothing is imported."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from edgewise.registry import Availability

SAME: dict[str, tuple[str, ...]] = {
    "tensorflow": ("tensorflow-cpu", "tensorflow", "tensorflow-intel", "tensorflow-macos", "tf-nightly")
}
"""Name of a package → all distributions that bring it."""


def versions_of(*distributions: str) -> dict[str, str]:
    """Distribution → version, of those that are installed, whichever of several brings a package (`SAME`)."""
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in distributions:
        for each in SAME.get(name, (name,)):
            with suppress(PackageNotFoundError):
                found[name] = version(each)
                break
    return found


def packages_availability(distributions: Sequence[str], *, extra: str) -> Availability:
    """Whether all `distributions` are installed; `extra` is edgewise's optional dependency with them."""
    found = versions_of(*distributions)
    for name in distributions:
        if name not in found:
            return Availability(False, f"the package {name} is not installed", f"pip install 'edgewise[{extra}]'")
    return Availability(True, version=", ".join(f"{name} {version}" for name, version in found.items()))
