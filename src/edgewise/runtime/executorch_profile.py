"""Step times of ExecuTorch: the events that a program records when it is loaded so, written to a file (ETDump).

Kernels are timed in nanoseconds. XNNPACK times its own steps, and cuts each duration to whole microseconds. Recording
costs, so that a second copy of the program records, in turns with ordinary inferences of the first.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from edgewise.errors import BadModel
from edgewise.model.graph import Graph, Operator
from edgewise.model.readers.executorch_graph import XNNPACK
from edgewise.model.readers.executorch_schema import LAYOUTS
from edgewise.model.readers.tflite_tables import Tables, open_tables
from edgewise.runtime.base import CannotProfile, EngineNode, EngineOverhead, EngineProfile
from edgewise.runtime.litert_xnnpack import LiteRtOperator, StepMeaning, interpret_steps
from edgewise.runtime.profiler_cost import Timed, take_turns, time_both

if TYPE_CHECKING:
    from edgewise.runtime.executorch import ExecuTorchSession

WHOLE, KERNEL, DELEGATE = "Method::execute", "native_call_", "DELEGATE_CALL"
"""Names of events: an inference, the beginning of those of kernels, and what a delegate executes."""
_NUMBER = re.compile(r" #\d+$")
_XNNPACK_NS = 1000.0
_NODES = {
    "XNNConv2d": "CONV_2D", "XNNDepthwiseConv2d": "DEPTHWISE_CONV_2D", "XNNConvTranspose2d": "TRANSPOSE_CONV",
    "XNNFullyConnected": "FULLY_CONNECTED", "XNNBatchMatrixMultiply": "BATCH_MATMUL",
    "XNNAvgPooling2d": "AVERAGE_POOL_2D", "XNNGlobalAvgPooling2d": "MEAN", "XNNMaxPooling2d": "MAX_POOL_2D",
    "XNNSoftmax": "SOFTMAX", "XNNStaticResizeBilinear2D": "RESIZE_BILINEAR", "XNNAdd": "ADD", "XNNSubtract": "SUB",
    "XNNMultiply": "MUL", "XNNDiv": "DIV", "XNNMaximum": "MAXIMUM", "XNNMinimum": "MINIMUM", "XNNSigmoid": "LOGISTIC",
    "XNNTanh": "TANH", "XNNHardswish": "HARD_SWISH", "XNNELU": "ELU", "XNNGelu": "GELU", "XNNLeakyReLU": "LEAKY_RELU",
    "XNNPReLU": "PRELU", "XNNAbs": "ABS", "XNNNegate": "NEG", "XNNExp": "EXP", "XNNLog": "LOG",
    "XNNSquareRoot": "SQRT", "XNNReciprocalSquareRoot": "RSQRT", "XNNSquare": "SQUARE", "XNNFloor": "FLOOR",
    "XNNCeiling": "CEIL", "XNNSin": "SIN", "XNNCos": "COS", "XNNStaticReshape": "RESHAPE",
    "XNNStaticConstantPad": "PAD", "XNNStaticTranspose": "TRANSPOSE", "XNNConvert": "QUANTIZE", "XNNClamp": "RELU",
    **dict.fromkeys(("XNNConcatenate2", "XNNConcatenate3", "XNNConcatenate4", "XNNConcatenate5"), "CONCATENATION"),
    "XNNStaticSlice": "SLICE",
}  # fmt: skip
"""Node of an XNNPACK graph → TFLite's word for the same, by which `interpret_steps` knows it."""


@dataclass(frozen=True, slots=True)
class Event:
    """What was recorded: of a step of XNNPACK `delegated`, and its name; `start` and `length` in ns."""

    name: str
    instruction: int
    delegated: bool
    start: int
    length: int

    @property
    def op(self) -> str:
        """What is executed, without the number that tells equal steps apart."""
        return _NUMBER.sub("", self.name.removeprefix(KERNEL))

    @property
    def place(self) -> str:
        """The name with the instruction of the program."""
        return f"{self.name.removeprefix(KERNEL)} [{self.instruction}]"


@dataclass(frozen=True, slots=True)
class RecordedInference:
    """The steps of an inference in order, the length of its method, and its time by the clock around the call, ns."""

    steps: tuple[Event, ...]
    start: int
    method_ns: int
    wall_ns: int


def profile_executorch(session: ExecuTorchSession, inferences: int) -> EngineProfile:
    """Run `inferences` recorded inferences and as many ordinary ones in turns.

    Raises `CannotProfile`: the package records no events, other steps in each inference, or times that can't be.
    """
    program, method = session.load(events=True)
    if not program.has_etdump():
        raise CannotProfile("this package executorch was built without its event tracer; install the one from PyPI")
    recorded: list[RecordedInference] = []
    with tempfile.TemporaryDirectory() as folder:
        dump, debug = (Path(folder) / name for name in ("events.etdp", "debug.bin"))

        def profiled(count: int) -> list[Timed]:
            times = time_both(lambda: method.call(session.tensors, False), count)
            program.write_etdump_result_to_file(str(dump), str(debug))  # which begins the record anew
            recorded.extend(read_inferences(dump, [wall for wall, _ in times]))
            return times

        # The first one sets up what the others reuse, and its record has how the program was loaded.
        profiled(1)
        recorded.clear()
        alone = session.effective["threads"] == 1
        timing = take_turns(session.invoke, profiled, inferences, by_processor=alone)
    counted = [recorded[at] for at in timing.counted]
    nodes = make_nodes(counted, session.graph)
    cut = any(node.truncates for node in nodes)
    return EngineProfile(
        method="ExecuTorch's event tracer (ETDump), in a second copy of the program",
        resolution_ns=_XNNPACK_NS if cut else 1.0, truncates=cut, nodes=nodes, overheads=tuple(_overheads(counted)),
        **timing.as_times(), notes=_notes(nodes),
    )  # fmt: skip


def read_inferences(path: Path, walls: Sequence[int]) -> list[RecordedInference]:
    """Return the inferences in the record at `path`, one per time in `walls`. Raises `CannotProfile`."""
    try:
        with open_tables(path, LAYOUTS) as tables:
            events = read_events(tables)
    except BadModel as error:
        raise CannotProfile(f"ExecuTorch's record can't be read: {error.message}") from error
    runs = [block for block in events if any(each.name == WHOLE for each in block)]
    if len(runs) != len(walls):
        raise CannotProfile(f"ExecuTorch recorded {len(runs)} of {len(walls)} inferences")
    return [read_inference(block, wall) for block, wall in zip(runs, walls, strict=True)]


def read_events(tables: Tables) -> list[list[Event]]:
    """Return the events of each block of a record: of loading, and of each inference. Raises `Wrong`."""
    # The size stands before the flatbuffer.
    return [
        [_event(each["profile_event"]) for each in block["events"] if each["profile_event"] is not None]
        for block in tables.read_root("ETDump", 4)["run_data"]
    ]


def _event(record: Any) -> Event:
    own = record["delegate_debug_id_str"]
    return Event(
        name=own or record["name"],
        instruction=record["instruction_id"],
        delegated=bool(own) or record["delegate_debug_id_int"] >= 0,
        start=record["start_time"],
        length=record["end_time"] - record["start_time"],
    )


def read_inference(events: Sequence[Event], wall_ns: int | None = None) -> RecordedInference:
    """Return the steps of a block that has an inference.

    Args:
        wall_ns: time by the clock around the call; None takes that of the method.

    Raises `CannotProfile`: there are no steps, or times that can't be.
    """
    whole = next(each for each in events if each.name == WHOLE)
    wall_ns = whole.length if wall_ns is None else wall_ns
    inside = {each.instruction for each in events if each.delegated}
    steps = tuple(
        each
        for each in events
        if each.delegated or each.name.startswith(KERNEL) or (each.name == DELEGATE and each.instruction not in inside)
    )
    if not steps:
        raise CannotProfile("ExecuTorch recorded no steps of this program")
    # The steps of XNNPACK are cut to whole microseconds, so that their sum can be no longer than it was.
    if any(each.length < 0 for each in (*steps, whole)) or sum(each.length for each in steps) > whole.length <= wall_ns:
        raise CannotProfile("ExecuTorch recorded steps that together take longer than their method")
    if whole.length > wall_ns:
        raise CannotProfile("ExecuTorch recorded a method that takes longer than the call around it")
    return RecordedInference(steps=steps, start=whole.start, method_ns=whole.length, wall_ns=wall_ns)


def make_nodes(recorded: Sequence[RecordedInference], graph: Graph) -> tuple[EngineNode, ...]:
    """One node per step, with its times in all inferences. Raises `CannotProfile` where inferences differ in steps."""
    first = recorded[0].steps
    shape = [(each.name, each.instruction) for each in first]
    if any([(each.name, each.instruction) for each in one.steps] != shape for one in recorded):
        raise CannotProfile("ExecuTorch ran different steps in different inferences")
    own: dict[int, list[Operator]] = {}
    for operator in graph.operators:
        own.setdefault(operator.attributes["instruction"], []).append(operator)
    meanings = _interpret(first, own)
    return tuple(
        EngineNode(
            name=step.place, op=step.op,
            times_ns=tuple(float(one.steps[at].length) for one in recorded), role=meanings[at].role,
            kinds=meanings[at].kinds, originals=meanings[at].originals,
            start_ns=median(float(max(0, one.steps[at].start - one.start)) for one in recorded),
            provider=next((str(each.attributes["runs_in"]) for each in own.get(step.instruction, ())), ""),
            dtype=meanings[at].dtype, truncates=step.delegated,
        )
        for at, step in enumerate(first)
    )  # fmt: skip


def _interpret(steps: Sequence[Event], own: dict[int, list[Operator]]) -> list[StepMeaning]:
    """Return what each step executes: a kernel its instruction's operator, XNNPACK's what their types say in order."""
    meanings = [StepMeaning()] * len(steps)
    places: dict[int, list[int]] = {}
    for at, step in enumerate(steps):
        operators = own.get(step.instruction, [])
        if step.delegated and operators and operators[0].attributes["runs_in"] == XNNPACK:
            places.setdefault(step.instruction, []).append(at)
        elif not step.delegated:
            meanings[at] = StepMeaning(originals=tuple(each.name for each in operators))
    for instruction, found in places.items():
        # TFLite's words: both hand their graphs to the same library.
        nodes = [
            LiteRtOperator(index=each.index, op=_NODES.get(each.op, each.op), output=each.name)
            for each in own[instruction]
        ]
        tags = [steps[at].op for at in found]
        for at, meaning in zip(found, interpret_steps(tags, nodes), strict=True):
            meanings[at] = meaning
    return meanings


def _overheads(recorded: Sequence[RecordedInference]) -> Sequence[EngineOverhead]:
    between = [each.method_ns - sum(step.length for step in each.steps) for each in recorded]
    around = [each.wall_ns - each.method_ns for each in recorded]
    return (
        EngineOverhead(name="between operators", times_ns=tuple(map(float, between))),
        EngineOverhead(name="call", times_ns=tuple(map(float, around))),
    )


def _notes(nodes: Sequence[EngineNode]) -> tuple[str, ...]:
    if any(node.truncates and median(node.times_ns) < _XNNPACK_NS for node in nodes):
        return ("XNNPACK tells the times of its steps in whole microseconds, so those of shorter ones are not known",)
    return ()
