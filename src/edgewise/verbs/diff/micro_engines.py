"""Engines of microcontrollers that give the tensors inside a model: tflite-micro, and firmware that QEMU executes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.estimating.mcu.cores import CORES, Core
from edgewise.registry import Availability
from edgewise.runtime.base import package_availability

if TYPE_CHECKING:
    import numpy as np

    from edgewise.estimating.mcu.network import IntNetwork, IntTensor

    Array = np.ndarray[Any, np.dtype[Any]]

MICRO = "tflite-micro"


class MicroTensors:
    """tflite-micro on this machine, which keeps all tensors."""

    formats = ("tflite",)

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        from importlib.metadata import version

        from tflite_micro import runtime

        from edgewise.estimating.mcu.network import read_network
        from edgewise.estimating.mcu.reference import AMPLE_BYTES

        network = read_network(path)
        self._inputs, self._tensors = network.inputs, _computed(network, names)
        kept = sum(each.bytes for operator in network.operators for each in operator.outputs)
        self._interpreter = runtime.Interpreter.from_file(
            str(path),
            arena_size=AMPLE_BYTES + 10 * path.stat().st_size + 2 * kept,
            intrepreter_config=runtime.InterpreterConfig.kPreserveAllTensors,
        )
        self.version = f"{MICRO} {version(MICRO)} on this machine"

    def run(self, feeds: Sequence[Array], names: Sequence[str]) -> Mapping[str, Array]:
        """As `edgewise.verbs.diff.engines.Tensors.run`."""
        for place, array in enumerate(feeds):
            self._interpreter.set_input(array, place)
        self._interpreter.invoke()
        found = {
            each.name: self._interpreter.GetTensor(each.index, 0)["tensor_data"].reshape(each.shape).copy()
            for each in self._tensors
        }
        return _with_inputs(found, self._inputs, feeds, names)


class FirmwareTensors:
    """Firmware of a Cortex-M core on CMSIS-NN, whose tensors all keep their memory to the end of an inference."""

    def __init__(self, path: Path, names: Sequence[str], core: Core) -> None:
        from edgewise.errors import BadModel
        from edgewise.estimating.mcu.arena import plan_arena
        from edgewise.estimating.mcu.cortex_m import SOFTWARE
        from edgewise.estimating.mcu.folding import fold_shapes
        from edgewise.estimating.mcu.lowering import lower
        from edgewise.estimating.mcu.network import read_network

        network = fold_shapes(read_network(path))
        if network.variables:  # each inference starts the firmware anew
            raise BadModel(f"{path.name} keeps states from one inference to the next, which {core.name} does not here")
        self._network = replace(network, outputs=_computed(network, names))
        plan, self._offsets = plan_arena(self._network)
        self._lowered = lower(self._network, self._offsets)
        self._core, self._arena_bytes = core, plan.arena_bytes or 0
        self.version = f"{core.name}, {SOFTWARE}, simulated by QEMU ({core.board.name})"

    def run(self, feeds: Sequence[Array], names: Sequence[str]) -> Mapping[str, Array]:
        """As `edgewise.verbs.diff.engines.Tensors.run`."""
        from edgewise.estimating.mcu.firmware import emulate
        from edgewise.estimating.mcu.network import LAYOUTS

        emulated = emulate(
            self._network, self._lowered, core=self._core, offsets=self._offsets, arena_bytes=self._arena_bytes,
            inputs=[feeds], counter=False, keep=False,
        )  # fmt: skip
        found = {
            each.name: values.view(LAYOUTS[each.dtype]).reshape(each.shape)
            for each, values in zip(self._network.outputs, emulated.outputs[0], strict=True)
        }
        return _with_inputs(found, self._network.inputs, feeds, names)


@dataclass(frozen=True, slots=True)
class Firmware:
    """Makes the firmware of a core."""

    core: Core
    formats: Sequence[str] = ("tflite",)

    def __call__(self, path: Path, names: Sequence[str]) -> FirmwareTensors:
        """Return the firmware of the model at `path`."""
        return FirmwareTensors(path, names, self.core)


MicroEngine = type[MicroTensors] | Firmware
MICRO_ENGINES: Mapping[str, MicroEngine] = {
    MICRO: MicroTensors, **{name: Firmware(core) for name, core in CORES.items()},
}  # fmt: skip
"""Engines whose integers are the same, byte for byte, where none has a fault."""


def micro_availability(engine: str) -> Availability:
    """Whether an engine of `MICRO_ENGINES` is installed."""
    from edgewise.estimating.mcu.cortex_m import emulation_availability

    return (
        emulation_availability() if engine in CORES else package_availability(MICRO, extra="mcu", module="tflite_micro")
    )


def _computed(network: IntNetwork, names: Sequence[str]) -> tuple[IntTensor, ...]:
    """Return the tensors of `names` that an inference computes, the first of each name."""
    found: dict[str, IntTensor] = {}
    for each in chain.from_iterable(operator.outputs for operator in network.operators):
        if each.name in names and each.data is None:
            found.setdefault(each.name, each)
    return tuple(found.values())


def _with_inputs(
    found: Mapping[str, Array], inputs: Sequence[IntTensor], feeds: Sequence[Array], names: Sequence[str]
) -> Mapping[str, Array]:
    """Return the computed tensors, and what was fed."""
    fed = {tensor.name: feed for tensor, feed in zip(inputs, feeds, strict=True) if tensor.name in names}
    return {**fed, **{name: values for name, values in found.items() if name in names}}
