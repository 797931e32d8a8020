"""Measurements for minutes or hours: what the worker counts, and what the host concludes from it."""
