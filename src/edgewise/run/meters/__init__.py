"""Sensors for energy, temperature and clock, one a file; they run beside the model: standard library only."""

from edgewise.run.meters.base import Meter, Reading

__all__ = ["Meter", "Reading"]
