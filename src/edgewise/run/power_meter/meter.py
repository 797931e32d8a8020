"""A power meter beside this machine that measures the supply of a device and prints lines.

The setting ``power_meter`` of a device in ``devices.toml`` names its port and the format of its lines:

    serial:///dev/ttyUSB0?baud=115200&format={time:ms},{voltage:V},{current:mA}
    tcp://192.168.1.9:4000?format={power:mW}
    file:///tmp/meter?format={*}"power":{power:W}{*}
    serial:///dev/ttyACM0?voltage=3.3V&format=lpm01a

``format`` comes last and is taken as it is; nothing in the URL is percent-encoded.
"""

from __future__ import annotations

import contextlib
import re
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from edgewise.cancellation import sleep
from edgewise.clock import now
from edgewise.device.devices import LOCAL, POWER_METER, find_device, read_devices
from edgewise.errors import BadInput
from edgewise.registry import Availability
from edgewise.run.meters.base import NoReading, Reading
from edgewise.run.meters.trace import EnergyCounter, PowerTrace
from edgewise.run.power_meter.line_format import LineFormat, LineReading
from edgewise.run.power_meter.lpm01a import Lpm01a
from edgewise.run.power_meter.port import Port, reason_of
from edgewise.text import one_line
from edgewise.units import parse_voltage

LISTEN_S = 4.0
"""Longest time to wait for the first lines; a meter that restarts when its port is opened needs 2 s."""
FIRST_LINES = 5
PAUSE_S = 0.02
SILENCE_S = 1.0
SILENT_PERIODS = 5.0
"""A meter has stopped if no line came for `SILENCE_S`, or for this many times its usual period."""
MOST_GARBAGE = 0.1
"""A window has no energy if more than this share of its lines does not fit the format."""
_URL = re.compile(r"(?P<scheme>serial|tcp|file)://(?P<address>[^?]+)\?(?:(?P<settings>[^?]*)&)?format=(?P<format>.+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a power meter is and what its lines are."""

    scheme: str
    address: str
    baud: int
    format: LineFormat | Lpm01a

    @classmethod
    def parse(cls, url: str) -> Source:
        """Return the source that `url` describes. Raises `BadInput`."""
        found = _URL.fullmatch(url)
        if found is None:
            raise BadInput(
                f"{url!r} is not the URL of a power meter",
                advice="write serial:///dev/ttyUSB0?baud=115200&format={power:mW}, or tcp://HOST:PORT?format=…",
            )
        settings = dict(word.partition("=")[::2] for word in (found["settings"] or "").split("&") if word)
        is_lpm01a = found["format"] == Lpm01a.name
        known = ["baud"] if found["scheme"] == "serial" else []
        known += ["voltage"] if is_lpm01a else []
        if unknown := sorted(set(settings) - set(known)):
            allowed = ", ".join([*known, "format"])
            raise BadInput(
                f"{url!r} has an unknown setting {unknown[0]!r}", advice=f"settings: {allowed}, in this order"
            )
        if is_lpm01a and "voltage" not in settings:
            raise BadInput(f"{url!r} needs the voltage of the supply", advice="for example voltage=3.3V before format")
        baud = settings.get("baud", str(Lpm01a.baud if is_lpm01a else 115200))
        if not baud.isdecimal() or not int(baud):
            raise BadInput(f"{url!r}: baud must be a whole number, not {baud!r}")
        if found["scheme"] == "tcp" and not re.fullmatch(r".+:\d{1,5}", found["address"]):
            raise BadInput(f"{url!r} needs HOST:PORT behind tcp://")
        line_format = Lpm01a(parse_voltage(settings["voltage"])) if is_lpm01a else LineFormat(found["format"])
        return cls(scheme=found["scheme"], address=found["address"], baud=int(baud), format=line_format)


class PowerMeter:
    """Reads a port while a window is open. See `edgewise.run.meters.base.Meter`.

    Attributes:
        rate_hz: lines per second; None until `availability` has seen some.
        resolution: step of the last printed digit.
    """

    name = "power-meter"
    metrics: Sequence[str] = ("energy",)
    place = "host"
    cannot_see = "what another supply feeds, such as a USB device with its own"

    def __init__(self, source: Source, *, clock: Callable[[], float] = now) -> None:
        self.title = f"power meter at {source.address}"
        self.rate_hz: float | None = None
        self.resolution: dict[str, float] = {}
        self._source = source
        self._clock = clock
        self._port: Port | None = None
        self._trace = PowerTrace()
        self._counter: EnergyCounter | None = None
        self._lines = self._garbage = 0
        self._example = ""
        self._last_s = 0.0

    def availability(self) -> Availability:
        """Open the port and listen until some lines fit the format; else why none does."""
        if self.rate_hz is None or self._port is None:
            try:
                self.rate_hz = self._listen()
            except NoReading as reason:
                return Availability(False, str(reason))
        return Availability(True)

    def begin(self) -> None:
        """Start a window. Raises `NoReading`."""
        port = self._open()
        self._trace = PowerTrace(longest_gap_s=self._silence_s)
        self._counter, self._lines, self._garbage = None, 0, 0
        try:
            port.flush()
        except OSError as error:
            raise self._broken(error) from None
        self._last_s = self._clock()

    def sample(self) -> None:
        """Read the lines that have arrived. Raises `NoReading`."""
        for at_s, reading in self._take():
            if reading.energy_j is not None:
                self._counter = self._counter or EnergyCounter()
                self._counter.add(at_s, reading.energy_j)
            elif reading.power_w is not None:
                self._trace.add(at_s, reading.power_w)

    def end(self) -> Sequence[Reading]:
        """Return the energy of the window. Raises `NoReading`."""
        self.sample()
        silent_s = self._clock() - self._last_s
        if silent_s > self._silence_s or not self._lines:
            raise NoReading(f"{self.title}: no line for {silent_s:.2g} s, the meter stopped")
        if self._garbage > MOST_GARBAGE * self._lines:
            raise NoReading(self._misfit())
        method = self.title
        if self._garbage:
            method += f", without {self._garbage} of {self._lines} lines that do not fit its format"
        return ((self._counter or self._trace).reading(method, covers="device"),)

    @property
    def _silence_s(self) -> float:
        return max(SILENCE_S, SILENT_PERIODS / self.rate_hz if self.rate_hz else 0.0)

    def _open(self) -> Port:
        """Open the port if it is not open yet. Raises `NoReading`."""
        if self._port is None:
            source = self._source
            try:
                port = Port(source.scheme, source.address, baud=source.baud)
            except OSError as error:
                raise self._broken(error) from None
            except ImportError:
                raise NoReading(f"{self.title} needs pyserial: pip install 'edgewise[serial]'") from None
            weakref.finalize(self, _release, port, source.format)
            try:
                source.format.start(port)
            except OSError as error:
                port.close()
                raise self._broken(error) from None
            self._port = port
        return self._port

    def _listen(self) -> float:
        """Return the rate of the first lines that fit, Hz. Raises `NoReading`."""
        self.begin()
        times: list[float] = []
        end_by = self._clock() + LISTEN_S
        while len(times) < FIRST_LINES and self._clock() < end_by:
            sleep(PAUSE_S)
            for at_s, reading in self._take():
                times.append(at_s)
                self.resolution = reading.steps
        if len(times) > 1 and times[-1] > times[0]:
            return (len(times) - 1) / (times[-1] - times[0])
        if self._garbage:
            raise NoReading(self._misfit())
        raise NoReading(f"{self.title}: fewer than two lines in {LISTEN_S:g} s")

    def _take(self) -> list[tuple[float, LineReading]]:
        """Return what has arrived, each reading with its time, on the meter's clock if the lines have it.

        Without it, lines that arrive together are spread evenly over the time since those before. Raises `NoReading`.
        """
        assert self._port is not None
        try:
            lines = [line for line in self._port.lines() if line]
        except OSError as error:
            raise self._broken(error) from None
        current, before = self._clock(), self._last_s
        found = []
        for index, line in enumerate(lines, 1):
            self._lines += 1
            reading = self._source.format.parse(line)
            if reading is None:
                self._garbage += 1
                self._example = one_line(line)[:60]
                continue
            self._last_s = current
            at_s = before + (current - before) * index / len(lines) if reading.time_s is None else reading.time_s
            if reading.power_w is not None or reading.energy_j is not None:
                found.append((at_s, reading))
        return found

    def _misfit(self) -> str:
        return (
            f"{self.title}: {self._garbage} of {self._lines} lines do not fit the format, such as {self._example!r}; "
            "check format and baud"
        )

    def _broken(self, error: OSError) -> NoReading:
        """Close the port, so that the next window opens it again."""
        if self._port is not None:
            self._port.close()
            self._port = None
        return NoReading(f"{self.title}: {reason_of(error)}")


def _release(port: Port, line_format: LineFormat | Lpm01a) -> None:
    """End the meter's stream and close its port."""
    with contextlib.suppress(OSError):  # the meter or its port is gone
        line_format.stop(port)
    port.close()


@cache
def open_meter(url: str) -> PowerMeter:
    """Return the meter at `url`, one per process, since a port has one reader. Raises `BadInput`."""
    return PowerMeter(Source.parse(url))


def meter_of(device: str) -> PowerMeter | None:
    """Return the power meter in the supply of a device, by the device's name; None if it has none. Raises
    `BadInput`.
    """
    registered = read_devices().get(LOCAL) if device == LOCAL else find_device(device)
    url = registered.settings.get(POWER_METER) if registered is not None else None
    return None if url is None else open_meter(url)
