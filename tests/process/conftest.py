"""A clock that tests write, and workers that are threads."""

from scripted_clock import scripted_clock  # noqa: F401 - fixtures
from threaded_workers import threaded  # noqa: F401
