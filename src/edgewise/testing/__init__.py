"""For the tests of plug-ins and of edgewise itself: a fake engine, a clock, and the conformance suites."""

from edgewise.runtime.fake import FakeClock, FakeRuntime
from edgewise.testing.meter import check_meter
from edgewise.testing.runtime import check_runtime, write_fake_model
from edgewise.testing.target import check_target
from edgewise.testing.transport import check_transport

__all__ = [
    "FakeClock",
    "FakeRuntime",
    "check_meter",
    "check_runtime",
    "check_target",
    "check_transport",
    "write_fake_model",
]
