"""The suite for targets, on this machine and on one far away."""

import pytest

from edgewise.device.transports.local import LocalTransport
from edgewise.testing import check_target
from far_targets import far, far_python  # noqa: F401


def test_this_machine(tmp_path):
    check_target(LocalTransport(), folder=tmp_path)


@pytest.mark.long
def test_far_away(far, tmp_path):  # noqa: F811
    check_target(far(), folder=tmp_path)
