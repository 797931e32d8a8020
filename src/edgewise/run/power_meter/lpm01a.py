"""The X-NUCLEO-LPM01A ("PowerShield"), the energy monitor of MLPerf Tiny, in its ASCII format.

The commands are those of ST's user manual UM2269 and of the runner in mlcommons/tiny: a command is acknowledged by
``PowerShield > ack COMMAND``; a sample ``6409-07`` is a current of 6409 · 10⁻⁷ A; ``TimeStamp: 001s 000ms, buff 00%``
comes once a second. Current times the supply's voltage is the power. The meter supplies the device.
"""

from __future__ import annotations

import re
from typing import ClassVar

from edgewise.cancellation import sleep
from edgewise.clock import now
from edgewise.errors import BadInput
from edgewise.run.power_meter.line_format import LineReading
from edgewise.run.power_meter.port import Port

COMMANDS = ("htc", "format ascii_dec", "output current", "freq 1k", "acqtime inf", "trigsrc sw", "trigdelay 0")
ANSWER_S = 2.0
PAUSE_S = 0.02
_SAMPLE = re.compile(r"(\d{4})([+-]\d{2})")
_OTHER = re.compile(r"TimeStamp: .*|PowerShield > .*|event \d+ \w+|")


class Lpm01a:
    """Starts the meter and reads its lines.

    Args:
        voltage: of the supply, V; 1.8 to 3.3.
    """

    name: ClassVar[str] = "lpm01a"
    baud: ClassVar[int] = 3686400

    def __init__(self, voltage: float) -> None:
        if not 1.8 <= voltage <= 3.3:
            raise BadInput(f"the LPM01A supplies 1.8 V to 3.3 V, not {voltage:g} V")
        self._voltage = voltage

    def start(self, port: Port) -> None:
        """Take control of the meter and start the stream. Raises OSError if it refuses a command or is silent."""
        port.send("stop")  # a stream that an earlier process left
        sleep(5 * PAUSE_S)
        for command in (*COMMANDS, f"volt {round(self._voltage * 1000)}m", "start"):
            port.flush()
            port.send(command)
            _await_answer(port, command)

    def stop(self, port: Port) -> None:
        """End the stream and release the control. Raises OSError."""
        port.send("stop")
        port.send("hrc")

    def parse(self, line: str) -> LineReading | None:
        """Return the power of a sample, nothing for a message of the meter, None for garbage."""
        if sample := _SAMPLE.fullmatch(line):
            power = self._voltage * int(sample[1]) * 10.0 ** int(sample[2])
            return LineReading(power_w=power)
        return LineReading() if _OTHER.fullmatch(line) else None


def _await_answer(port: Port, command: str) -> None:
    end_by = now() + ANSWER_S
    while now() < end_by:
        for line in port.lines():
            if f"ack {command}" in line:
                return
            if "error" in line.lower():
                raise OSError(f"the LPM01A refuses {command!r}: {line}")
        sleep(PAUSE_S)
    raise OSError(f"the LPM01A does not acknowledge {command!r}")
