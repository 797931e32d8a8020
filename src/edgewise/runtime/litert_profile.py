"""Layer times of LiteRT: a pass of the compiled-model API under the profiler that its C API has and Python lacks.

LiteRT runs its operators one after the other. Those outside a delegate are timed by two readings of a clock that counts
whole microseconds, so that their mean over many inferences is right; XNNPACK times its own steps in nanoseconds and
cuts each duration to whole microseconds. At both ends of the events around the operators the profiler reads the
process's memory use, which takes longer than many a small model. One such reading lies between two of these events with
nothing else, which tells how long it takes; one lies inside the loop over the operators, before the first.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from time import monotonic_ns, process_time_ns
from typing import TYPE_CHECKING, Any

from edgewise.errors import as_flag
from edgewise.model.signature import TensorSpec
from edgewise.runtime.arrays import own_copies, time_calls
from edgewise.runtime.base import CannotProfile, EngineNode, EngineOverhead, EngineProfile, LoadOptions, reset_state
from edgewise.runtime.litert_capi import Event, Library, TimedModel
from edgewise.runtime.litert_sessions import CompiledSession, InterpreterSession, replaced_by
from edgewise.runtime.litert_xnnpack import LiteRtOperator, StepMeaning, interpret_steps
from edgewise.runtime.profiler_cost import Alternation, Timed, take_turns

RESOLUTION_NS = 1000
UNCOMPARED = "the model keeps a state that LiteRT can't reset, so the outputs of the profiled model were not compared"
_REFERENCES = 20
"""Inferences without the profiler, by which the compiled model is compared with the session."""
_FACTOR, _MARGIN_NS, _PATIENCE_NS = 2, 100_000, 2_000_000_000
"""A compiled model whose fastest inference within this time takes this much longer or shorter than the session's, and
by this margin, does not run its kernels. Other programs slow one of the two down for some hundredths of a second."""

_LOOP, _OPERATOR, _DELEGATED, _WHOLE = 1, 2, 8, 16
_TELEMETRY = 0b1_1110_0000
_LOOP_TAG = "Invoke"

#: provider → the compiled model's setting for the same kernels
_KERNELS: Mapping[str, tuple[str, ...]] = {
    "interpreter": (),
    "compiled": (),
    "interpreter-noxnnpack": ('kernel_mode = "builtin"',),
}
_KERNEL_MODES = {0: (), 2: ('kernel_mode = "builtin"',)}


@dataclass(frozen=True, slots=True, kw_only=True)
class InterpreterGraph:
    """The model's first graph as the interpreter sees it.

    Attributes:
        operators: in the model's order, by index.
        partitions: of the delegate, in order: the operators that each replaced.
    """

    operators: Mapping[int, LiteRtOperator]
    partitions: tuple[tuple[LiteRtOperator, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledInference:
    """One profiled inference.

    Attributes:
        steps: events of operators and of the delegate's steps, in order.
        starts_ns: when each began after the call; XNNPACK tells none, its steps lie end to end before what follows.
        loop_ns: from before the first step to after the last, by the engine's clock.
        reading_ns: what one reading of the process's memory took.
        readings: how many there were, the one in the loop included.
        wall_ns: of the call.
    """

    steps: tuple[Event, ...]
    starts_ns: tuple[float, ...]
    loop_ns: int
    reading_ns: int
    readings: int
    wall_ns: int


class _TimesLayers:
    """Times the layers of a session in a compiled model of the same kernels, reached through the C API.

    `given`, `more`: what the session itself takes.
    """

    inputs: Sequence[TensorSpec]
    outputs: Sequence[TensorSpec]
    invoke: Callable[[], object]
    if TYPE_CHECKING:
        effective: Mapping[str, Any]

        def read_outputs(self) -> Sequence[Any]: ...
        def close(self) -> None: ...

    _path: Path

    def __init__(self, *given: Any, options: LoadOptions, **more: Any) -> None:
        super().__init__(*given, **more)
        self._options = options
        self._bound: list[Any] = []

    def bind(self, arrays: Sequence[Any]) -> None:
        """As every session does, keeping copies for the pass that times layers."""
        super().bind(arrays)  # type: ignore[misc]
        self._bound = own_copies(arrays, self.inputs)

    def _interpreter_of_model(self) -> Any:
        """Return an interpreter of the model: only that lists operators and what the delegate made of them."""
        from ai_edge_litert.interpreter import Interpreter

        try:
            interpreter = Interpreter(model_path=str(self._path))
            interpreter.allocate_tensors()
        except (ValueError, RuntimeError) as error:
            raise CannotProfile(f"LiteRT's interpreter does not support the model: {error}") from error
        return interpreter

    def profile_layers(self, inferences: int) -> EngineProfile:
        """Run inferences under LiteRT's profiler. Raises `CannotProfile` where that can't be done or trusted."""
        import ai_edge_litert

        structure = read_structure(self._interpreter_of_model())
        # Both begin with the initial state; where it can't be reset, their outputs tell nothing of each other.
        fresh = reset_state(self)
        self.invoke()
        found, provider = version("ai-edge-litert"), self._options.provider
        settings = settings_of(self._options)
        library = Library(Path(ai_edge_litert.__file__).parent / "libLiteRt.so", found)  # the package's own
        inputs, outputs = ([spec.name for spec in specs] for specs in (self.inputs, self.outputs))
        model = TimedModel(
            library, self._path, settings=settings, inputs=list(zip(inputs, self._bound, strict=True)),
            outputs=list(zip(outputs, self.read_outputs(), strict=True)),
        )  # fmt: skip
        try:
            model.run()
            if fresh:
                _compare(model.read_outputs())
            _compare_times(self.invoke, model.run)
            alone = self._options.threads == 1
            recorded, timing = _take_turns(model, self.invoke, inferences, alone=alone)
        finally:
            model.close()
        nodes = make_nodes(recorded, structure)
        return EngineProfile(
            method=f"LiteRT {found}: profiler of the C API", resolution_ns=RESOLUTION_NS,
            truncates=any(step.type == _DELEGATED for step in recorded[0].steps), nodes=nodes,
            overheads=tuple(_overheads(recorded, provider)), **timing.as_times(),
            notes=(*_notes(nodes, provider), *filter(None, [library.note, "" if fresh else UNCOMPARED])),
        )  # fmt: skip


class ProfiledInterpreterSession(_TimesLayers, InterpreterSession):
    """An interpreter's session that can time its layers."""

    def _interpreter_of_model(self) -> Any:
        return self._interpreter


class ProfiledCompiledSession(_TimesLayers, CompiledSession):
    """A compiled model's session that can time its layers."""


def _take_turns(
    model: TimedModel, invoke: Callable[[], object], inferences: int, *, alone: bool
) -> tuple[list[ProfiledInference], Alternation]:
    """Profiled inferences, in turns with as many ordinary ones of the session; `alone`: one thread does all."""
    recorded: list[ProfiledInference] = []
    spent: list[int] = []

    def clock() -> int:
        spent.append(process_time_ns())
        return monotonic_ns()

    def profiled(count: int) -> list[Timed]:
        times = []
        for _ in range(count):
            spent.clear()
            recorded.append(read_inference(*model.record(clock)))
            times.append((recorded[-1].wall_ns, spent[1] - spent[0]))
        return times

    timing = take_turns(invoke, profiled, inferences, by_processor=alone)
    return [recorded[at] for at in timing.counted], timing


def _overheads(recorded: Sequence[ProfiledInference], provider: str) -> Iterator[EngineOverhead]:
    between = (each.loop_ns - each.reading_ns - 1000 * sum(step.elapsed_us for step in each.steps) for each in recorded)
    yield EngineOverhead(name="between operators", times_ns=tuple(map(float, between)))
    # The interpreter hands no buffers over: what the compiled model does around its graph is no part of it.
    if provider == "compiled":
        around = (each.wall_ns - each.loop_ns - (each.readings - 1) * each.reading_ns for each in recorded)
        yield EngineOverhead(name="buffers and call", times_ns=tuple(map(float, around)))


def settings_of(options: LoadOptions) -> str:
    """TOML for the CPU accelerator with the session's threads and kernels; without a number it decides on the threads.

    Raises `CannotProfile` where the C API can't run the same kernels.
    """
    if options.provider not in _KERNELS:
        raise CannotProfile(
            "LiteRT's profiler works only with compiled models, which have no kernels like those of "
            f"{options.provider}; profile with {as_flag('provider')} interpreter or interpreter-noxnnpack"
        )
    lines = [] if options.threads is None else [f"num_threads = {options.threads}"]
    lines += _KERNELS[options.provider]
    for name, value in options.extra.items():
        if name == "kernel_mode" and (value is None or int(value) in _KERNEL_MODES):
            lines += _KERNEL_MODES[int(value or 0)]
        elif name == "xnnpack_flags" and (value is None or type(value) is int):
            lines += [] if value is None else [f"flags = {value}"]
        elif value:
            raise CannotProfile(f"the profiled pass does not support the engine setting {name}={value!r}; omit it")
    return "".join(f"{line}\n" for line in lines)


def _compare(outputs: Sequence[tuple[Any, Any]]) -> None:
    """Raise `CannotProfile` where the compiled model makes other outputs than the session did."""
    import numpy as np

    for expected, made in outputs:
        if expected.dtype.kind == "f":
            size = float(np.max(np.abs(expected[np.isfinite(expected)]), initial=0.0))
            same = np.allclose(made, expected, rtol=1e-3, atol=1e-4 * size, equal_nan=True)
        else:
            same = np.array_equal(made, expected)
        if not same:
            raise CannotProfile(
                "the compiled model that LiteRT's profiler needs gave other outputs than the session, so its times "
                "can't be used"
            )


def _compare_times(own: Callable[[], object], compiled: Callable[[], object]) -> None:
    """Call both in turns; raise `CannotProfile` where the compiled model must be running other kernels."""
    began = monotonic_ns()
    fastest_own = fastest_compiled = math.inf
    while True:
        fastest_own = min(fastest_own, *time_calls(own, _REFERENCES))
        fastest_compiled = min(fastest_compiled, *time_calls(compiled, _REFERENCES))
        short, long = sorted((fastest_own, fastest_compiled))
        if long <= _FACTOR * short or long - short <= _MARGIN_NS:
            return
        if monotonic_ns() - began > _PATIENCE_NS:
            raise CannotProfile(
                f"the compiled model that LiteRT's profiler needs takes {fastest_compiled / 1000:.0f} µs, but the "
                f"session takes {fastest_own / 1000:.0f} µs, so it runs other kernels"
            )


def read_inference(events: Sequence[Event], began_ns: int, ended_ns: int) -> ProfiledInference:
    """Check one inference's events and pick out the steps.

    `began_ns`, `ended_ns`: of the call around them, by the monotonic clock, which is the profiler's too. Raises
    `CannotProfile` where they are not what this was written for.
    """
    unknown = [each for each in events if each.type not in (_LOOP, _OPERATOR, _DELEGATED, _WHOLE)]
    for event in unknown:
        if not event.type & _TELEMETRY:
            raise CannotProfile(f"LiteRT's profiler recorded an event of an unknown type: {event.tag}")
    known = [each for each in events if each.type in (_LOOP, _OPERATOR, _DELEGATED, _WHOLE)]
    wall_us = (ended_ns - began_ns) // 1000 + 1
    first_us, last_us = began_ns // 1000, ended_ns // 1000
    for event in known:
        timed = event.type != _DELEGATED
        inside = not timed or first_us <= event.start_us <= event.start_us + event.elapsed_us <= last_us + 1
        if event.elapsed_us > wall_us or not inside:
            raise CannotProfile(f"LiteRT's profiler reports times of {event.tag} outside its inference")
    loops = [each for each in known if each.type == _LOOP and each.tag == _LOOP_TAG]
    steps = tuple(each for each in known if each.type in (_OPERATOR, _DELEGATED))
    if len(loops) != 1:
        raise CannotProfile(
            f"LiteRT's profiler recorded {len(loops)} runs of a graph in one inference; the steps of a model with "
            f"branches or loops can't be told apart"
        )
    if not steps:
        raise CannotProfile("LiteRT's profiler recorded no operators")
    total = sum(each.elapsed_us for each in steps)
    # Each timed operator may seem up to a microsecond longer than it was.
    if total > loops[0].elapsed_us + len(steps):
        raise CannotProfile("LiteRT's profiler reports operators that together take longer than their graph")
    return ProfiledInference(
        steps=steps, starts_ns=_starts(steps, loops[0], began_ns), loop_ns=1000 * loops[0].elapsed_us,
        reading_ns=_reading_ns(known, loops[0]), readings=2 * sum(each.type in (_LOOP, _WHOLE) for each in known),
        wall_ns=ended_ns - began_ns,
    )  # fmt: skip


def _reading_ns(events: Sequence[Event], loop: Event) -> int:
    """From the event before the loop, its beginning where it encloses the loop and else its end, to the loop."""
    at = events.index(loop)
    if at == 0 or events[at - 1].type not in (_LOOP, _WHOLE):
        raise CannotProfile("LiteRT's profiler recorded no event before the graph's")
    before = events[at - 1]
    begin = before.start_us + (0 if before.type == _WHOLE else before.elapsed_us)
    if begin > loop.start_us:
        raise CannotProfile("LiteRT's profiler recorded events out of order")
    return 1000 * (loop.start_us - begin)


def _starts(steps: Sequence[Event], loop: Event, began_ns: int) -> tuple[float, ...]:
    ends_us = loop.start_us + loop.elapsed_us
    starts = []
    for step in reversed(steps):
        ends_us = step.start_us if step.type == _OPERATOR else max(loop.start_us, ends_us - step.elapsed_us)
        starts.append(max(0.0, 1000.0 * ends_us - began_ns))
    return tuple(reversed(starts))


def make_nodes(recorded: Sequence[ProfiledInference], structure: InterpreterGraph) -> tuple[EngineNode, ...]:
    """One node per step, with its times in all inferences. Raises `CannotProfile` where inferences differ in steps."""
    first = recorded[0].steps
    shape = [(each.tag, each.type, each.index, each.subgraph) for each in first]
    for inference in recorded:
        if [(each.tag, each.type, each.index, each.subgraph) for each in inference.steps] != shape:
            raise CannotProfile("LiteRT ran different steps in different inferences")
    names, meanings = _interpret_steps(first, structure)
    return tuple(
        EngineNode(
            name=names[at], op=step.tag,
            times_ns=tuple(1000.0 * inference.steps[at].elapsed_us for inference in recorded), role=meanings[at].role,
            kinds=meanings[at].kinds, originals=meanings[at].originals,
            start_ns=median(inference.starts_ns[at] for inference in recorded),
            provider="XNNPACK" if step.type == _DELEGATED else "built-in", dtype=meanings[at].dtype,
            truncates=step.type == _DELEGATED,
        )
        for at, step in enumerate(first)
    )  # fmt: skip


def _interpret_steps(steps: Sequence[Event], structure: InterpreterGraph) -> tuple[list[str], list[StepMeaning]]:
    """Names and meanings of one inference's steps."""
    partitions = _split(steps)
    agree = len(partitions) == len(structure.partitions)
    names, meanings = [""] * len(steps), [StepMeaning()] * len(steps)
    for number, places in enumerate(partitions):
        replaced = structure.partitions[number] if agree else ()
        found = interpret_steps([steps[at].tag for at in places], replaced)
        for at, meaning in zip(places, found, strict=True):
            names[at], meanings[at] = f"{steps[at].tag} [XNNPACK {number}.{steps[at].index}]", meaning
    for at, step in enumerate(steps):
        if step.type == _OPERATOR:
            operator = structure.operators.get(step.index)
            if step.subgraph != 0 or operator is None or operator.op != step.tag:
                raise CannotProfile(f"LiteRT's profiler names an operator that the model does not have: {step.tag}")
            originals = (operator.output,) if operator.output else ()
            names[at], meanings[at] = f"{step.tag} [{step.index}]", StepMeaning(originals=originals)
    return names, meanings


def _split(steps: Sequence[Event]) -> list[list[int]]:
    """Positions of the delegate's steps by partition: its numbers begin again in each."""
    partitions: list[list[int]] = []
    for at, step in enumerate(steps):
        if step.type == _DELEGATED:
            if step.index == 0 or not partitions:
                partitions.append([])
            if step.index != len(partitions[-1]):
                raise CannotProfile("LiteRT's profiler numbers the steps of XNNPACK in an unexpected way")
            partitions[-1].append(at)
    return partitions


def _notes(nodes: Sequence[EngineNode], provider: str) -> tuple[str, ...]:
    notes = [
        "Layers were timed in LiteRT's compiled-model API, with the kernels, threads, inputs and outputs of the "
        f"provider {provider}. The profiler reads the process's memory use between operators, which lengthens the "
        "profiled inferences but is not part of the overheads."
    ]
    if any(node.provider == "XNNPACK" and median(node.times_ns) < RESOLUTION_NS for node in nodes):
        notes.append(
            "XNNPACK reports step times in whole microseconds, so shorter steps are known only to within a microsecond."
        )
    return tuple(notes)


def read_structure(interpreter: Any) -> InterpreterGraph:
    """Return operators and partitions of an allocated interpreter. Raises `CannotProfile` where it lists none."""
    try:
        nodes = interpreter._get_ops_details()
        tensors = {int(each["index"]): str(each["name"]) for each in interpreter.get_tensor_details()}
        return _structure(nodes, tensors)
    except (AttributeError, RuntimeError, ValueError, KeyError) as error:
        raise CannotProfile(f"LiteRT's interpreter does not list its operators: {error}") from error


def _structure(nodes: Sequence[Mapping[str, Any]], tensors: Mapping[int, str]) -> InterpreterGraph:
    uses = Counter(tensors.values())

    def own_name(node: Mapping[str, Any]) -> str:
        """Of its first output, where no other tensor has it."""
        name = next((tensors.get(int(tensor), "") for tensor in node["outputs"]), "")
        return name if uses[name] == 1 else ""

    plain = [node for node in nodes if node["op_name"] != "DELEGATE"]
    operators = {
        int(node["index"]): LiteRtOperator(index=int(node["index"]), op=str(node["op_name"]), output=own_name(node))
        for node in plain
    }
    producers = {int(tensor): node for node in plain for tensor in node["outputs"]}
    partitions = [
        tuple(operators[index] for index in sorted(replaced_by(node, producers)))
        for node in nodes
        if node["op_name"] == "DELEGATE"
    ]
    return InterpreterGraph(operators=operators, partitions=tuple(partitions))
