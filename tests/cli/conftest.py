"""A clock and workers that tests write."""

from scripted_clock import scripted_clock  # noqa: F401 - fixtures
from threaded_workers import threaded  # noqa: F401 - fixtures
