"""Inference engines, one a file. Each imports its engine inside functions only."""

from edgewise.runtime.base import LoadOptions, Provider, Runtime, Session

__all__ = ["LoadOptions", "Provider", "Runtime", "Session"]
