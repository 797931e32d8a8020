"""The version of edgewise."""

__version__ = "0.1.0"
