"""Memory of a model on a board: under the software whose latency is estimated, and in edgewise's own program."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgewise.estimating.boards import boards
from edgewise.estimating.mcu.memory import OwnProgram, memory_rows
from edgewise.estimating.memory_only import WITHOUT_INTERPRETER, fit_of
from edgewise.model.graph import Graph
from edgewise.record import Measurement
from estimates import on_board

OWN = OwnProgram(
    plan_bytes=16_000, scratch_bytes=1_200, stack_bytes=800, stack="high-water mark", basis="simulated",
    flash_bytes=51_200, flash=Measurement.absent("flash", "it is not built"),
)  # fmt: skip
ARENA = Measurement.of("memory_arena_tflm_32bit", 22_780, "by tflite-micro", basis="derived")
MISSING = Measurement.absent("memory_arena_tflm", "tflite-micro is not installed")


@pytest.mark.parametrize(
    ("software", "arenas", "sram", "because"),
    [
        ("cmsis-nn", [ARENA], 22_780 + 1_200 + 800, None),
        ("tflm-reference", [ARENA], 22_780 + 800, None),
        ("cmsis-nn", [MISSING], None, "tflite-micro's arena is not known: tflite-micro is not installed"),
        ("vendor", [ARENA], None, "the arena of vendor is not known"),
        ("edge-impulse", [ARENA], None, "the arena of edge-impulse is not known"),
    ],
)
def test_the_sram_is_that_of_the_software_or_has_a_bound(software, arenas, sram, because):
    rows, at_least = memory_rows(OWN, arenas, software=software)
    found = {row.metric: row for row in rows}
    assert found["memory_sram"].value == sram and found["memory_sram"].absent_because == because
    assert found["memory_sram_least"].value == 18_000 and found["memory_sram_least"].basis == "simulated"
    parts = [found[part].value for part in ("memory_scratch", "memory_stack") if part in found]
    assert parts == ([] if sram is None else [sram - int(ARENA.value) - 800, 800])
    assert found["flash"].value is None and found["flash"].absent_because == "it is not built"
    assert at_least == {"flash": 51_200} | ({} if sram else {"memory_sram": 18_000})


@pytest.mark.parametrize(
    ("board", "software", "fits"),
    [
        ("nucleo-l4r5zi", "cmsis-nn", True),  # 640 KiB RAM, 2 MiB flash
        ("nucleo-l4r5zi", "vendor", True),  # 2 arenas and 64 KiB fit
        ("bluepill-f103c8", "cmsis-nn", False),  # 20 KiB RAM: the arena of tflite-micro is larger
        ("bluepill-f103c8", "vendor", None),  # the least SRAM fits
    ],
)
def test_the_verdict_is_of_the_software_of_the_latency(board, software, fits):
    rows, at_least = memory_rows(OWN, [ARENA], software=software)
    plan = Measurement.of("memory_arena", OWN.plan_bytes, "plan", basis="derived")
    weights = Measurement.of("parameters_size", 24_000, "weights", basis="derived")
    one = replace(on_board("b", ram=1), measurements=(*rows, plan, weights, ARENA), at_least=at_least)
    nothing = Graph(name="", format="tflite", tensors={}, operators=(), inputs=(), outputs=())
    fit = fit_of(boards()[board], one, nothing)
    assert fit.fits is fits
    assert fit.ram_bytes == (24_780 if software == "cmsis-nn" else 18_000)
    assert fit.arena_bytes == (22_780 if software == "cmsis-nn" else 16_000)
    assert fit.at_most["flash"] == 24_000 + 300 * 1024
    # An interpreter keeps all of the file, of which the weights are a part.
    assert fit_of(boards()[board], one, nothing, file_bytes=60_000).at_most["flash"] == 60_000 + 300 * 1024
    assert fit.at_least == dict.fromkeys(["flash"] if software == "cmsis-nn" else ["RAM", "flash"], WITHOUT_INTERPRETER)
