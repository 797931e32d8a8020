"""How an engine gets onto a device: the advice is for that device, and for the Python that jobs run with there."""

from __future__ import annotations

import pytest

from edgewise.device.bootstrap import how_to_install
from edgewise.device.devices import Device, open_transport


@pytest.mark.parametrize(
    ("url", "settings", "engine", "advice"),
    [
        ("ssh://pi@host", {}, "onnxruntime", "edgewise devices check pi4 --bootstrap --engines onnxruntime"),
        ("ssh://pi@host", {}, "numpy", "edgewise devices check pi4 --bootstrap"),
        (
            "ssh://pi@host",
            {"python": "~/v/bin/python"},
            "litert",
            "on pi4: ~/v/bin/python -m pip install ai-edge-litert",
        ),
        ("ssh://pi@host", {}, "torch", "on pi4: pip install 'edgewise[torch]'"),
        ("container://image", {}, "openvino", "in the image: python3 -m pip install openvino"),
    ],
)
def test_the_advice_is_for_the_device(url, settings, engine, advice):
    pytest.importorskip("asyncssh", reason="needs asyncssh")
    transport = open_transport(Device(name="pi4", url=url, settings=settings))
    assert how_to_install(transport, engine, "pip install 'edgewise[torch]'") == advice
