"""The catalogue of boards, and whether a model fits their memories."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

import edgewise
from case_tables import with_each
from edgewise.cli.main import run as edgewise_command
from edgewise.errors import BadInput
from edgewise.estimating.base import find_device, similar_devices
from edgewise.estimating.boards import CORE_TITLES, Board, Fit, boards, kib
from edgewise.estimating.mcu.cores import CORES
from estimates import dense_relu
from mcu_graphs import Net
from messages import says, wording

RESULTS = Path(__file__).parents[3] / "shared" / "data" / "mlperf_tiny.csv"
FIGURES = (
    "core", "clock_hz", "ram_bytes", "ram_region_bytes", "flash_bytes", "wait_states", "flash_access", "accelerator",
    "power_w",
)  # fmt: skip
BOARD = Board(
    name="toy", title="Toy", vendor="Toys", soc="T1", core="cortex-m4", cores=1, clock_hz=1e6, ram_bytes=4096,
    ram_region_bytes=2048, flash_bytes=8192, sources={},
)  # fmt: skip


@with_each(boards().values())
def test_every_figure_of_a_board_has_a_source_and_is_plausible(board):
    given = {name for name in FIGURES if getattr(board, name) not in (None, "")}
    assert given == board.sources.keys() and all(board.sources.values())
    assert board.core in CORE_TITLES and 1 <= board.cores <= 8
    assert 16e6 <= board.clock_hz <= 1e9
    assert 2**14 <= (board.ram_region_bytes or board.ram_bytes) <= board.ram_bytes <= 2**23
    assert 2**15 <= board.flash_bytes <= 2**27
    assert board.wait_states is None or 0 <= board.wait_states <= 15
    assert (board.power_w is None) == (not board.power_includes)
    assert board.power_w is None or 1e-3 < board.power_w < 1
    assert board.name == board.name.lower() and "_" not in board.name and " " not in board.name


def test_the_boards_of_mlperf_tiny_are_known():
    names = {"nucleo-l4r5zi", "nucleo-h7a3zi-q", "b-u585i-iot02a", "cy8cproto-062-4343w", "nucleo-g0b1re", "ek-ra8d1"}
    assert names | {"xg24-dk2601b"} <= boards().keys()


def test_every_core_that_can_be_executed_has_a_title():
    assert CORES.keys() <= CORE_TITLES.keys()


def test_a_board_is_a_device_at_its_highest_clock():
    _, device = find_device("NUCLEO_L4R5ZI")
    assert (device.name, device.core, device.clock_hz) == ("nucleo-l4r5zi", "cortex-m4", 120e6)
    assert device.board is boards()["nucleo-l4r5zi"]
    assert find_device("nucleo-l4r5zi@80MHz")[1].clock_hz == 80e6


def test_a_clock_above_the_highest_one_is_an_error():
    with pytest.raises(
        BadInput, match="^" + says("clock-most-not", name="nucleo-l4r5zi", most="120 MHz", clock="120.1MHz") + "\n"
    ):
        find_device("nucleo-l4r5zi@120.1MHz")


def test_a_microcontroller_is_no_device_but_leads_to_its_boards():
    with pytest.raises(BadInput, match=says("unknown-device", name="rp2350")) as error:
        find_device("rp2350")
    assert error.value.advice.startswith(wording("did-you-mean-in-devices", near="rpi-pico2"))


@pytest.mark.parametrize(
    ("needs", "fits", "lacking", "text"),
    [
        ((4096, 8192, 2048), True, {}, "fits: RAM 4 of 4 KiB, 0 left; flash 8 of 8 KiB, 0 left"),
        ((4097, 8192, 2048), False, {"RAM": 1}, "does not fit: RAM 4.0 of 4 KiB; flash 8 of 8 KiB, 0 left; the board lacks 0.0 KiB RAM"),
        ((3072, 1024, 2560), False, {"contiguous RAM": 512}, "does not fit: RAM 3 of 4 KiB, 1 left; flash 1 of 8 KiB, 7 left; the board lacks 0.5 KiB contiguous RAM"),
        ((5120, 10240, 10), False, {"RAM": 1024, "flash": 2048}, "does not fit: RAM 5 of 4 KiB; flash 10 of 8 KiB; the board lacks 1 KiB RAM, 2 KiB flash"),
    ],
)  # fmt: skip
def test_a_fit_compares_every_memory(needs, fits, lacking, text):
    fit = Fit(board=BOARD, ram_bytes=needs[0], flash_bytes=needs[1], arena_bytes=needs[2])
    assert (fit.fits, dict(fit.lacking), str(fit)) == (fits, lacking, text)


def test_lower_bounds_prove_that_a_model_does_not_fit_and_never_that_it_fits():
    fit = Fit(board=BOARD, ram_bytes=10, flash_bytes=None, arena_bytes=10, at_least={"RAM": "arena"})
    assert fit.fits is None and str(fit) == "may fit: RAM at least 0.0 of 4 KiB; flash unknown"
    assert replace(fit, ram_bytes=5000).fits is False


def test_kib():
    assert [kib(size) for size in (0, 512, 1024, 1536, 2**21)] == ["0", "0.5", "1", "1.5", "2,048"]


def test_a_core_that_can_not_be_executed_gives_the_memory(tmp_path, capsys):
    found = edgewise.estimate(dense_relu(tmp_path), "esp32-c3-devkitm-1")
    assert found.refused is None
    assert found.measurement("memory_arena").value == 24 and found.measurement("parameters_size").value == 160
    latency = found.measurement("latency")
    assert latency.value is None and "RISC-V" in latency.absent_because
    told = found.to_document()["fit"]
    assert told["fits"] is True and told["ram_bytes"] == 24 and told["lacking"] == {}
    assert edgewise_command(["estimate", found.model["path"], "-d", "esp32-c3-devkitm-1"]) == 0
    assert (
        "fits: RAM at most 64.0 of 384 KiB, at least 320.0 left; flash at most 301.0 of\n4,096 KiB, at least 3,795.0 left"
        in capsys.readouterr().out
    )


def test_another_shape_than_the_file_has_is_not_executed_but_gives_the_memory(tmp_path):
    net = Net()
    given = net.tensor([1, 1, 8, 4], 0.1, name="x", marks=[1, -1, 8, 4])
    made = net.tensor([1, 1, 8, 4], 0.1, marks=[1, -1, 8, 4])
    net.step("RELU", [given], [made])
    net.inputs, net.outputs = [given], [made]
    path = net.finish(tmp_path / "open.tflite")
    found = edgewise.estimate(path, "nucleo-l4r5zi")
    assert found.refused == wording("input-here-file-which-alone", name="x_0", here="1x224x8x4", own="1x1x8x4")
    assert found.advice == wording("shape-export-model-shape", quote="x_0=1x1x8x4")
    assert found.fit.arena_bytes >= 2 * 224 * 8 * 4
    assert found.fit.fits is True and found.fit.at_least.keys() == {"RAM", "flash"}


def test_the_list_of_devices_has_the_boards_by_core(capsys):
    assert edgewise_command(["estimate", "--devices"]) == 0
    shown = capsys.readouterr().out
    assert shown.index("Boards with Arm Cortex-M3") < shown.index("bluepill-f103c8") < shown.index("Boards with Xtensa")
    assert edgewise_command(["estimate", "--devices", "--json"]) == 0
    told = {each["name"]: each for each in json.loads(capsys.readouterr().out)["devices"]}
    assert (
        told["nrf52840dk"]["board"]["ram_bytes"] == 256 * 1024 and told["nrf52840dk"]["board"]["sources"]["ram_bytes"]
    )
    assert told["cortex-m4"]["board"] is None


def test_clocks_and_powers_are_those_of_the_published_results():
    """The mean over the benchmarks of energy × inferences per second, for the submission that is the source."""
    if not RESULTS.is_file():
        pytest.skip("the published results (../shared/data/mlperf_tiny.csv) are not here")
    with RESULTS.open(encoding="utf-8", newline="") as file:
        rows = [{**row, "name": row["board"].lower().replace("_", "-")} for row in csv.DictReader(file)]
    clocks = {(row["name"], float(row["clock_mhz"])) for row in rows if row["name"] in boards()}
    assert len(clocks) == 7 and clocks == {(name, boards()[name].clock_hz / 1e6) for name, _ in clocks}
    for name, version, submitter in (
        ("nucleo-l4r5zi", "v0.5", "reference"),
        ("nucleo-h7a3zi-q", "v1.2", "STMicroelectronics"),
        ("xg24-dk2601b", "v1.0", "silicon_labs"),
    ):
        powers = [
            float(row["energy_uJ"]) * 1e-6 * float(row["energy_mode_inf_per_s"])
            for row in rows
            if (row["name"], row["round"], row["submitter"]) == (name, version, submitter) and row["energy_uJ"]
        ]
        assert len(powers) == 4 and boards()[name].power_w == pytest.approx(sum(powers) / 4, abs=0.06e-3)


@pytest.mark.parametrize(
    ("ram", "region", "flash", "fits"),
    [
        (70_000, None, 320_000, True),
        (70_000, 60_000, 320_000, None),
        (66_000, None, 320_000, None),
        (70_000, None, 301_000, None),
        (900, None, 320_000, False),
    ],
)
def test_upper_bounds_settle_what_lower_bounds_leave_open(ram, region, flash, fits):
    board = Board(
        name="b", title="B", vendor="V", soc="S", core="riscv32", cores=1, clock_hz=1e8, ram_bytes=ram,
        ram_region_bytes=region, flash_bytes=flash, sources={},
    )  # fmt: skip
    fit = Fit(
        board=board, ram_bytes=1000, flash_bytes=2000, arena_bytes=1000,
        at_least={"RAM": "the arena", "flash": "the weights"}, at_most={"RAM": 2 * 1000 + 65_536, "flash": 302_000},
    )  # fmt: skip
    assert fit.fits is fits
    assert set(fit.left) == {
        name for name, most, there in (("RAM", 67_536, region or ram), ("flash", 302_000, flash)) if most <= there
    }
    assert fit.needs.startswith("RAM at most 66.0 of " if "RAM" in fit.left else "RAM 1.0 to 66.0 of ")
    assert all(fit.left[name] == {"RAM": ram - 67_536, "flash": flash - 302_000}[name] for name in fit.left)
    assert replace(fit, at_most={"RAM": 67_536}).fits is (None if fits else fits)


@pytest.mark.parametrize("name", ["raspberry-pi", "Raspberry_Pi_4", "pi4", "jetson-nano", "cortex-a72", "pixel-8"])
def test_a_linux_board_or_a_phone_is_like_no_microcontroller(name):
    with pytest.raises(BadInput) as refused:
        find_device(f"{name}@1GHz", model="zoo/a b.tflite")
    assert "no Linux board, phone or application processor is built in" in str(refused.value.message)
    assert "did you mean" not in refused.value.advice
    for command in (
        "'edgewise inspect 'zoo/a b.tflite''",
        f"'edgewise devices add {name} ssh://USER@HOST'",
        f"'edgewise devices check {name} --bootstrap'",
        f"'edgewise bench 'zoo/a b.tflite' -d {name}'",
        f"'edgewise calibrate {name} --measurements FILE'",
        "'edgewise atlas import SOURCE FILE'",
    ):
        assert command in refused.value.advice
    assert similar_devices(name, ["pi5", "pi4"]) == (["pi4", "pi5"] if name == "pi4" else [])


@pytest.mark.parametrize(("name", "meant"), [("raspberry-pi-pico", "rpi-pico"), ("cortex-m44", "cortex-m4")])
def test_a_name_like_that_of_a_microcontroller_gets_that_one(name, meant):
    with pytest.raises(BadInput) as refused:
        find_device(name)
    assert meant in refused.value.advice and "ssh" not in refused.value.advice
