"""The firmware that executes a lowered network in QEMU and reports its outputs and costs."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgewise.child_process import Outcome, run_child
from edgewise.errors import RunFailed
from edgewise.estimating.mcu.cache import cached_report, temporary_folder
from edgewise.estimating.mcu.cores import Core
from edgewise.estimating.mcu.costs import OperatorCosts
from edgewise.estimating.mcu.counter import (
    INTERFACES,
    NoCounter,
    build_counter,
    counter_option,
    read_counts,
    refuses_plugin,
)
from edgewise.estimating.mcu.lowering import Lowered
from edgewise.estimating.mcu.network import IntNetwork
from edgewise.estimating.mcu.toolchain import (
    GCC,
    aligned,
    build_library,
    image_bytes,
    link_image,
    version_of,
    write_sources,
)

QEMU = "qemu-system-arm"
SHIFT = 8
"""An instruction takes 2^SHIFT ns of the emulated clock: 5 to 8 ticks of SysTick, so that each one is told apart."""
PROGRAM = ("startup.c", "firmware.c")
"""Files of this package that execute a network and report."""
RUN_S = 120.0
_REPORTED = {"failed", "stack", "scratch", "ticks of nothing", "ticks of 200000 instructions"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulated:
    """What the firmware reported.

    Attributes:
        costs: per input, per operator.
        uncounted: why the classes of `costs` and their bytes from flash are not counted; "" where they are.
        outputs: per input, per output of the network, its bytes.
        stack_bytes: high-water mark.
        scratch_bytes: the most that a kernel of CMSIS-NN asked for.
        flash_bytes: of the image without the inputs; `weight_bytes` of it are constants of the network.
    """

    costs: Sequence[Sequence[OperatorCosts]]
    uncounted: str
    outputs: Sequence[Sequence[NDArray[np.int8]]]
    stack_bytes: int
    scratch_bytes: int
    flash_bytes: int
    weight_bytes: int
    compiler: str
    emulator: str


def emulate(
    network: IntNetwork, lowered: Lowered, *, core: Core, offsets: Mapping[int, int], arena_bytes: int,
    inputs: Sequence[Sequence[NDArray[Any]]], counter: bool = True, keep: bool = True,
) -> Emulated:  # fmt: skip
    """Build and run `lowered` once per entry of `inputs`, each an array per input of the network.

    What the firmware reports is always the same.

    Args:
        counter: use the plug-in that counts classes of instructions, where that is possible.
        keep: keep the report in the cache folder.

    Raises:
        Unavailable: the compiler, the emulator or CMSIS-NN is not installed.
        TooLarge: the network does not fit into the memories of the emulated board.
        RunFailed: it could not be built, crashed, or took too long.
    """
    with temporary_folder() as folder:
        write_sources(folder, network, lowered, core=core, offsets=offsets, arena_bytes=arena_bytes, inputs=inputs)
        compiler, emulator = (version_of(tool, folder) for tool in (GCC, QEMU))
        found = _report(folder, network, core, runs=len(inputs), counter=counter, emulator=emulator, keep=keep)
    # The inputs of the check are constants of the image, too, which no product has.
    flash = found["image_bytes"] - sum(len(aligned(array)) for arrays in inputs for array in arrays)
    return Emulated(
        **_parse(found, network, core, runs=len(inputs)), uncounted=found["uncounted"], flash_bytes=flash,
        weight_bytes=len(lowered.constants), compiler=compiler, emulator=emulator,
    )  # fmt: skip


def _report(
    folder: Path, network: IntNetwork, core: Core, *, runs: int, counter: bool, emulator: str, keep: bool
) -> Mapping[str, Any]:
    """Return what `_execute` returns for the sources in `folder`, from the cache where it has it."""
    library = build_library(core, folder)
    plugins, uncounted = _plugins(folder) if counter else ([], "not requested")
    own = resources.files("edgewise.estimating.mcu")
    tools = (library.name, [each.name for each in plugins], uncounted, emulator, core.board, SHIFT)
    identity = hashlib.sha256(repr(tools).encode())
    for source in (
        *(own / name for name in (*PROGRAM, "startup.h")),
        *(folder / name for name in ("network.c", "network.h", "constants.bin", "link.ld")),
    ):
        identity.update(source.read_bytes())

    def make() -> Mapping[str, Any]:
        image = link_image(core, library, folder, PROGRAM)
        found = _execute(image, plugins, network, core, folder) | {"image_bytes": image_bytes(image, folder)}
        _parse(found, network, core, runs=runs)  # what is damaged is not kept
        return found | ({"uncounted": uncounted} if uncounted else {})

    if not keep:
        return make()
    return cached_report(f"{core.target}-{identity.hexdigest()[:32]}.json", make, folder=folder)


def _plugins(folder: Path) -> tuple[list[Path], str]:
    """Return the plug-in of QEMU for each version of its interface, and why there is none."""
    try:
        return [build_counter(interface, folder=folder) for interface in INTERFACES], ""
    except NoCounter as error:
        return [], str(error)


def _execute(image: Path, plugins: Sequence[Path], network: IntNetwork, core: Core, folder: Path) -> dict[str, str]:
    """Return what the firmware prints, what the first plug-in counts that QEMU loads, and why none is loaded.

    Raises:
        RunFailed: the firmware or QEMU failed.
    """
    counts, refusal = folder / "counts", ""
    command = [QEMU, "-display", "none", "-monitor", "none", "-serial", "none", "-chardev", "stdio,id=report",
               "-semihosting-config", "enable=on,target=native,chardev=report", "-icount", f"shift={SHIFT}",
               "-M", core.board.name, "-kernel", str(image)]  # fmt: skip
    for plugin in (*plugins, None):
        option = counter_option(plugin, counts, board=core.board, watched=1 + len(network.operators)) if plugin else ""
        outcome = run_child([*command, "-plugin", option] if plugin else command, seconds=RUN_S, folder=folder)
        printed = outcome.output.decode("utf-8", "replace")
        if outcome.cause == "exit" and not printed and plugin and (said := refuses_plugin(outcome.tail)):
            refusal = said
            continue
        if outcome.cause:
            raise RunFailed(f"the emulated firmware failed: {_failure(outcome, printed, network)}")
        counted = counts.read_text() if counts.is_file() else ""
        return {"printed": printed, "counts": counted, "uncounted": "" if counted else refusal or "not requested"}
    raise AssertionError("QEMU was not started")


def _failure(outcome: Outcome, printed: str, network: IntNetwork) -> str:
    """Why the firmware failed, with the operator that it executed last."""
    begun = re.findall(r"^operator (\d{1,9})$", printed, re.MULTILINE)
    last = {operator.index: f"in operator {operator.index} ({operator.code})" for operator in network.operators}
    where = last.get(int(begun[-1]), "") if begun else "outside of the operators"
    found = {name: int(value) for name, value in re.findall(r"^fault (\w+) (\d{1,10})$", printed, re.MULTILINE)}
    if re.search(r"^stack overflow$", printed, re.MULTILINE):
        return f"stack overflow {where}"
    if not {"status", "instruction"} <= found.keys():
        lines = outcome.tail.splitlines()
        said = " ".join([line for line in lines if "qemu" in line] or lines[-3:])[:600]
        return f"{QEMU} {outcome.failure} {where}" + (f": {said}" if said else "")
    kind = "memory" if found["status"] & 0xFF else "bus" if found["status"] & 0xFF00 else "usage"
    data = f" at the address {found['address']:#x}" if "address" in found else ""
    return f"{kind} fault{data} {where}, by the instruction at {found['instruction']:#x}"


def _parse(found: Mapping[str, Any], network: IntNetwork, core: Core, *, runs: int) -> dict[str, Any]:
    """Attributes of `Emulated`, from what `_execute` returns. Raises `RunFailed` where that is damaged."""
    printed = found["printed"]
    ticks = [int(value) for value in re.findall(r"^t (\d{1,20})$", printed, re.MULTILINE)]
    outputs = [bytes.fromhex(value) for value in re.findall(r"^output ((?:[\da-f]{2})*)$", printed, re.MULTILINE)]
    numbers = {name: int(value) for name, value in re.findall(r"^([\w ]+) (\d{1,20})$", printed, re.MULTILINE)}
    operators, sizes = len(network.operators), [tensor.bytes for tensor in network.outputs] * runs
    if len(ticks) != runs * operators or [len(each) for each in outputs] != sizes or not numbers.keys() >= _REPORTED:
        raise RunFailed(f"the emulated firmware ended early or reported garbage: {' '.join(printed.split())[-300:]}")
    if numbers["failed"]:
        raise RunFailed(f"operator {numbers['failed'] - 1} failed in the emulated firmware")
    per_tick = 1e9 / core.board.tick_hz / 2**SHIFT
    if abs(numbers["ticks of 200000 instructions"] * per_tick / 200_000 - 1) > 0.001:
        raise RunFailed("the emulator's clock does not count instructions as expected")
    overhead = numbers["ticks of nothing"]
    per_input = [ticks[at * operators : (at + 1) * operators] for at in range(runs)]
    places = len(network.outputs)
    if found["counts"]:
        try:
            costs = read_counts(found["counts"], runs=runs, operators=operators)
        except ValueError as error:
            raise RunFailed(f"QEMU's plug-in reported garbage: {error}") from None
    else:
        costs = [[OperatorCosts(round(max(0, each - overhead) * per_tick)) for each in row] for row in per_input]
    return {
        "costs": costs,
        "outputs": [
            [np.frombuffer(each, np.int8) for each in outputs[at * places : (at + 1) * places]] for at in range(runs)
        ],
        "stack_bytes": numbers["stack"],
        "scratch_bytes": numbers["scratch"],
    }
