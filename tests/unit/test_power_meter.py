"""Power meters over real pseudo-terminals, sockets and files, with known power → known energy."""

from __future__ import annotations

import os
import re
import socket
import stat

import pytest

from edgewise.clock import timed_by
from edgewise.errors import BadInput
from edgewise.registry import Availability
from edgewise.run.meters.base import NoReading, traits_of
from edgewise.run.power_meter.meter import PowerMeter, Source
from edgewise.run.power_meter.port import Port
from edgewise.testing.meter import check_meter
from messages import says
from patience import LIMIT_S, wait_until
from power_meters import PowerShield, Streaming, Terminal
from scripted_clock import ScriptedClock

pytest.importorskip("serial")
TIMED = "{time:ms},{power:mW}"


class Clock:
    """A clock that a test moves."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def terminal():
    made = Terminal()
    yield made
    made.close()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def open_meter(terminal, clock):
    """A function that opens a meter on the terminal, in a window, with the start of a line seen."""
    opened = []

    def start(line_format):
        meter = PowerMeter(Source.parse(f"serial://{terminal.path}?baud=115200&format={line_format}"), clock=clock)
        opened.append(meter)
        meter.begin()
        terminal.write("rest of a line\n")
        meter.begin()
        return meter

    yield start
    opened.clear()


def window(meter, clock, terminal, text, seconds=1.0):
    terminal.write(text)
    clock.now += seconds
    return meter.end()


def test_energy_by_the_clock_of_the_meter(open_meter, terminal, clock):
    # 2 W, 2 W, 4 W, 4 W half a second apart: 1 + 1.5 + 2 J.
    (reading,) = window(open_meter(TIMED), clock, terminal, "0,2000\n500,2000\n1000,4000\n1500,4000\n")
    assert reading.value == pytest.approx(4.5) and reading.seconds == pytest.approx(1.5)
    assert (reading.metric, reading.covers) == ("energy", "device") and terminal.path in reading.method


def test_energy_by_the_clock_of_the_host(open_meter, terminal, clock):
    """Lines that arrive together are spread over the time since those before."""
    meter = open_meter("{voltage:V} {current:A}")
    for text in ("5 0.4\n5 0.4\n", "5 0.8\n5 0.8\n"):
        terminal.write(text)
        clock.now += 0.5
        meter.sample()
    # 2 W at 0.25 and 0.5 s, 4 W at 0.75 and 1 s.
    (reading,) = meter.end()
    assert reading.value == pytest.approx(0.5 + 0.75 + 1.0) and reading.seconds == pytest.approx(0.75)


def test_energy_by_the_counter_of_the_meter(open_meter, terminal, clock):
    meter = open_meter("{time:s},{energy:mWh}")
    (reading,) = window(meter, clock, terminal, "1,10.0\n2,10.5\n3,12.0\n")
    assert reading.value == pytest.approx(7.2) and reading.seconds == pytest.approx(2.0)
    assert "difference of a counter" in reading.method


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1,10.0\n2,9.0\n3,12.0\n", says("energy-counter-went-back-j", last="3.6")),
        ("1,10.0\n2,10.0\n", says("energy-counter-stood-still-window")),
        ("1,10.0\n", says("energy-counter-stood-still-window")),
    ],
)
def test_a_counter_that_tells_nothing(open_meter, terminal, clock, text, why):
    with pytest.raises(NoReading, match=why):
        window(open_meter("{time:s},{energy:mWh}"), clock, terminal, text)


def test_a_line_whose_start_was_not_seen_does_not_count(terminal, clock):
    meter = PowerMeter(Source.parse(f"serial://{terminal.path}?format={TIMED}"), clock=clock)
    meter.begin()
    (reading,) = window(meter, clock, terminal, "00,9000\n1000,2000\n2000,2000\n")
    assert reading.value == pytest.approx(2.0)


def test_what_arrived_before_the_window_does_not_count(open_meter, terminal, clock):
    meter = open_meter(TIMED)
    terminal.write("0,9000\n500,9000\n1000,9")
    meter.begin()
    (reading,) = window(meter, clock, terminal, "000\n1500,2000\n2500,2000\n")
    assert reading.value == pytest.approx(2.0) and reading.seconds == pytest.approx(1.0)


def test_a_few_lines_of_garbage_are_counted(open_meter, terminal, clock):
    lines = [f"{100 * index},1000\n" for index in range(30)]
    lines[7] = "garbage\n"
    (reading,) = window(open_meter(TIMED), clock, terminal, "".join(lines))
    assert reading.value == pytest.approx(2.9) and "without 1 of 30 lines that do not fit" in reading.method


def test_garbage_alone_gives_no_energy(open_meter, terminal, clock):
    with pytest.raises(NoReading, match=says("lines-do-not-fit-format", garbage=3, lines=4, example="x")):
        window(open_meter(TIMED), clock, terminal, b"0,2000\nx \x1b\nx \x1b\nx \x1b\n")


def test_bytes_without_an_end_are_one_line_of_garbage(open_meter, terminal, clock):
    meter = open_meter(TIMED)
    for _ in range(3):
        terminal.write(b"\xff" * 900)
        meter.sample()
    with pytest.raises(NoReading, match=says("lines-do-not-fit-format")):
        meter.end()


def test_a_meter_that_is_silent_has_stopped(open_meter, terminal, clock):
    meter = open_meter(TIMED)
    with pytest.raises(NoReading, match=says("no-line-s-meter-stopped", silent_s="0.3")):
        window(meter, clock, terminal, "", seconds=0.3)


def test_a_meter_that_stops_in_the_middle_of_a_window(open_meter, terminal, clock):
    meter = open_meter(TIMED)
    terminal.write("0,2000\n500,2000\n")
    meter.sample()
    clock.now += 2.0
    with pytest.raises(NoReading, match=says("no-line-s-meter-stopped", silent_s=2)):
        meter.end()


def test_a_clock_that_goes_back(open_meter, terminal, clock):
    with pytest.raises(NoReading, match=says("time-stamps-power-samples-went")):
        window(open_meter(TIMED), clock, terminal, "5000,2000\n5500,2000\n100,2000\n")


def test_a_meter_that_is_unplugged(clock):
    own = Terminal()
    meter = PowerMeter(Source.parse(f"serial://{own.path}?format={TIMED}"), clock=clock)
    meter.begin()
    own.close()
    with pytest.raises(NoReading, match=r"No such device"):
        meter.end()
    with pytest.raises(NoReading, match=r"No such file"):
        meter.begin()


def test_a_port_that_does_not_exist(tmp_path):
    meter = PowerMeter(Source.parse(f"serial://{tmp_path}/ttyUSB7?format={TIMED}"))
    state = meter.availability()
    assert not state and state.reason == f"power meter at {tmp_path}/ttyUSB7: No such file or directory"


def test_a_port_has_one_reader(terminal):
    source = Source.parse(f"serial://{terminal.path}?format={TIMED}")
    first, second = PowerMeter(source), PowerMeter(source)
    first.begin()
    with pytest.raises(NoReading, match=says("another-process-reads")):
        second.begin()
    del first
    second.begin()


def test_listening_finds_rate_and_resolution(terminal):
    stream = Streaming(terminal, period_s=0.01)
    try:
        meter = PowerMeter(Source.parse(f"serial://{terminal.path}?format={{power:W}}"))
        assert traits_of(meter).rate_hz is None
        assert meter.availability()
    finally:
        stream.stop()
    traits = traits_of(meter)
    assert traits.place == "host" and traits.rate_hz > 0 and traits.resolution == {"power": pytest.approx(1e-3)}


def test_the_contract_of_meters(terminal):
    class Fed(PowerMeter):
        """Has a new line whenever it is sampled: 2 W, 10 ms apart."""

        count = 0

        def sample(self):
            Fed.count += 10
            terminal.write(f"{Fed.count},2000\n")
            super().sample()

        def availability(self):
            self.begin()
            self.sample()
            self.sample()
            return Availability(True)

    (reading,) = check_meter(Fed(Source.parse(f"serial://{terminal.path}?format={TIMED}")))
    assert reading.value == pytest.approx(2.0 * reading.seconds)


def test_a_wrong_baud_or_format_is_found_by_listening(terminal):
    stream = Streaming(terminal, line="\xf8\x00\xe0 {:.0f}\n", period_s=0.01)
    source = Source.parse(f"serial://{terminal.path}?baud=9600&format={TIMED}")
    try:
        # Time passes with the lines: 40 of them are listened to.
        state = PowerMeter(source, clock=lambda: 0.1 * stream.printed).availability()
    finally:
        stream.stop()
    assert (
        not state
        and re.search(says("lines-do-not-fit-format"), state.reason)
        and re.search(says("lines-do-not-fit-format"), state.reason)
    )


def test_silence_is_found_by_listening(terminal):
    with timed_by(ScriptedClock()):
        state = PowerMeter(Source.parse(f"serial://{terminal.path}?format={TIMED}")).availability()
    assert not state and re.search(says("fewer-than-two-lines-s", listen_s=4), state.reason)


def test_a_meter_behind_a_socket(clock):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        meter = PowerMeter(Source.parse(f"tcp://127.0.0.1:{port}?format={TIMED}"), clock=clock)
        meter.begin()
        connection, _ = server.accept()
        with connection:
            connection.sendall(b"x\n0,2000\n1000,2000\n")
            _arrived(meter)
            assert meter.end()[0].value == pytest.approx(2.0)
    with socket.socket() as deaf:  # no other program can listen at its port
        deaf.bind(("127.0.0.1", 0))
        refused = PowerMeter(Source.parse(f"tcp://127.0.0.1:{deaf.getsockname()[1]}?format={TIMED}"))
        assert "refused" in refused.availability().reason


def _arrived(meter):
    """Until the lines have crossed the loopback interface."""
    wait_until(lambda: meter.sample() or meter._trace.seconds)


def test_a_file_that_another_program_writes(tmp_path, clock):
    file = tmp_path / "log"
    file.write_text("0,9000\n500,9000\n")
    meter = PowerMeter(Source.parse(f"file://{file}?format={TIMED}"), clock=clock)
    meter.begin()
    with file.open("a") as log:
        log.write("600,9000\n1000,2000\n2000,2000\n")
    clock.now += 1.0
    (reading,) = meter.end()
    assert reading.value == pytest.approx(2.0)  # the first line may have begun before
    with pytest.raises(NoReading, match=says("another-process-reads")):
        PowerMeter(Source.parse(f"file://{file}?format={TIMED}")).begin()


def test_a_pipe(tmp_path, clock):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    meter = PowerMeter(Source.parse(f"file://{pipe}?format={TIMED}"), clock=clock)
    meter.begin()
    with pipe.open("w") as writer:
        writer.write("x\n0,2000\n1000,2000\n")
    clock.now += 0.5
    assert meter.end()[0].value == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("/dev/ttyUSB0", says("not-url-power-meter")),
        ("usb:///dev/ttyUSB0?format={power:W}", says("not-url-power-meter")),
        ("serial:///dev/ttyUSB0", says("not-url-power-meter")),
        ("serial:///dev/ttyUSB0?bauds=9600&format={power:W}", says("unknown-setting-in-meter", unknown="bauds")),
        ("tcp://host:1?baud=9600&format={power:W}", says("unknown-setting-in-meter", unknown="baud")),
        ("serial:///dev/ttyUSB0?baud=fast&format={power:W}", says("baud-must-whole-number-not")),
        ("tcp://host?format={power:W}", says("needs-host-port-behind-tcp")),
        ("serial:///dev/ttyUSB0?format={power}", says("line-format-must-power-unit")),
        ("serial:///dev/ttyACM0?format=lpm01a", says("needs-voltage-supply")),
        ("serial:///dev/ttyACM0?voltage=5V&format=lpm01a", says("lpm01a-supplies-1-8-v", voltage=5)),
    ],
)
def test_urls_that_can_not_be_used(url, why):
    with pytest.raises(BadInput) as caught:
        Source.parse(url)
    assert re.search(why, caught.value.message)


def test_settings_of_a_url():
    source = Source.parse("serial:///dev/ttyUSB0?baud=9600&format=P={power:mW}&more=100%")
    assert (source.scheme, source.address, source.baud) == ("serial", "/dev/ttyUSB0", 9600)
    assert source.format.pattern == "P={power:mW}&more=100%"
    assert Source.parse("serial:///dev/ttyACM0?voltage=1800mV&format=lpm01a").baud == 3686400


def test_the_energy_monitor_of_mlperf_tiny(terminal):
    shield = PowerShield(terminal, sample="6409-06")
    meter = PowerMeter(Source.parse(f"serial://{terminal.path}?voltage=3.3V&format=lpm01a"))
    assert meter.availability()
    meter.begin()
    _arrived(meter)
    (reading,) = meter.end()
    assert reading.value / reading.seconds == pytest.approx(6.409e-3 * 3.3)
    del meter
    assert shield.released.wait(LIMIT_S)
    shield.close()
    assert shield.commands[:2] == ["stop", "htc"] and shield.commands[-2:] == ["stop", "hrc"]
    assert [word for word in shield.commands if word.startswith("volt")] == ["volt 3300m"]
    assert {"format ascii_dec", "output current", "freq 1k", "acqtime inf", "start"} <= set(shield.commands)


def test_a_closed_port_writes_to_no_other_file(terminal, tmp_path):
    port = Port("serial", terminal.path, baud=9600)
    port.close()
    # The lowest free numbers are given to these files, that of the port among them.
    others = [(tmp_path / name).open("w+b", buffering=0) for name in ("a", "b", "c", "d", "e", "f")]
    for call in (lambda: port.send("stop"), port.lines, port.flush):
        with pytest.raises(OSError, match="Bad file descriptor"):
            call()
    for other in others:
        assert other.tell() == 0
        other.close()


@pytest.mark.parametrize(
    ("refuses", "why"),
    [("freq 1k", "refuses 'freq 1k': PowerShield > error freq 1k"), (None, "does not acknowledge 'htc'")],
)
def test_an_energy_monitor_that_does_not_obey(terminal, monkeypatch, refuses, why):
    monkeypatch.setattr("edgewise.run.power_meter.lpm01a.ANSWER_S", 600.0)
    meter = PowerMeter(Source.parse(f"serial://{terminal.path}?voltage=3.3V&format=lpm01a"))
    if refuses:
        shield = PowerShield(terminal, refuses=refuses)
        state = meter.availability()
        shield.close()
    else:
        with timed_by(ScriptedClock()):
            state = meter.availability()
    assert not state and why in state.reason
