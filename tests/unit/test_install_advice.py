"""How an engine gets onto a device: the advice is for that device, and for the Python that jobs run with there."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from edgewise.device.bootstrap import how_to_install
from edgewise.device.devices import Device, open_transport
from edgewise.device.link import NotAdmitted
from edgewise.device.transports.ssh import _KnownHosts
from edgewise.registry import Availability
from edgewise.run.worker_executor import _there
from messages import wording


@pytest.mark.parametrize(
    ("url", "settings", "engine", "advice"),
    [
        (
            "ssh://pi@host",
            {},
            "onnxruntime",
            wording("edgewise-devices-check-bootstrap", name="pi4", value=" --engines onnxruntime"),
        ),
        ("ssh://pi@host", {}, "numpy", "edgewise devices check pi4 --bootstrap"),
        (
            "ssh://pi@host",
            {"python": "~/v/bin/python"},
            "litert",
            wording("m-pip-install", where="on pi4", python="~/v/bin/python", get="ai-edge-litert"),
        ),
        (
            "ssh://pi@host",
            {},
            "torch",
            wording("edgewise-devices-check-bootstrap", name="pi4", value=" --engines torch"),
        ),
        (
            "ssh://pi@host",
            {"python": "/v/python"},
            "keras",
            wording("m-pip-install", where="on pi4", python="/v/python", get="keras tensorflow"),
        ),
        ("ssh://pi@host", {}, "own", "on pi4: pip install own"),
        ("container://image", {}, "openvino", "in the image: python3 -m pip install openvino"),
    ],
)
def test_the_advice_is_for_the_device(url, settings, engine, advice):
    pytest.importorskip("asyncssh", reason="needs asyncssh")
    transport = open_transport(Device(name="pi4", url=url, settings=settings))
    assert how_to_install(transport, engine, "pip install own") == advice
    # What the device tells of itself is of this machine's Python.
    found = _there(
        SimpleNamespace(transport=transport), engine, Availability(False, "not installed", "pip install own")
    )
    assert found == Availability(False, f"not installed on {transport.name}", advice)
    assert _there(SimpleNamespace(transport=transport), engine, Availability(True)) == Availability(True)


@pytest.mark.parametrize(
    ("url", "settings", "command"),
    [
        ("ssh://host", {}, "ssh host"),
        ("ssh://pi@host:2222", {"key": "~/.ssh/pi"}, "ssh -p 2222 -i ~/.ssh/pi pi@host"),
        (
            "ssh://pi@host",
            {"jump": "me@gate:22", "known_hosts": "/a b/keys"},
            "ssh -J me@gate:22 -o 'UserKnownHostsFile=/a b/keys' pi@host",
        ),
    ],
)
def test_an_unknown_host_key_is_advised_with_the_command_that_connects(url, settings, command):
    pytest.importorskip("asyncssh", reason="needs asyncssh")
    transport = open_transport(Device(name="pi4", url=url, settings=settings))
    keys = _KnownHosts(settings.get("known_hosts"))
    error = keys.explained("host", 22, OSError("no"), command=transport._command())
    assert isinstance(error, NotAdmitted)
    assert error.advice == (
        f"connect once, compare the fingerprint with the device's, and accept it: {command}; or name a file that has "
        "the key: edgewise devices add NAME URL --set known_hosts=FILE"
    )
