"""Layer timing in PyTorch: operators and generated kernels as `torch.profiler` records them, with their modules.

The profiler records every call into PyTorch's dispatcher. A step is an outermost recorded operator: what it calls in
turn is part of it. The time between two steps is Python's: modules, arguments, the author's own code.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from edgewise.runtime.base import CannotProfile, EngineNode, EngineOverhead, EngineProfile, ModuleOperator, Role
from edgewise.runtime.profiler_cost import Alternation, Timed, share_out, take_turns, time_both
from edgewise.stats.undisturbed import usual_times

MOST_EVENTS = 400_000
"""Largest number of events that are recorded in all; fewer inferences are profiled where they have more."""
_METHOD = (
    "torch.profiler: the time of each outermost operator or generated kernel, minus the cost of profiling (measured in "
    "turns with inferences without it; the part inside the steps is divided equally)"
)
_INFERENCE = "edgewise inference"
_MODULE = "edgewise module "
_STEP = re.compile(r"\w+::\w+|graph_\d+_cpp_\w+|aoti_torch_\w+")
"""Operators of any library, and inductor's kernels and calls; other records only say where the program is."""
_GUARDS = "TorchDynamo Cache Lookup"


@dataclass(slots=True)
class _Recorded:
    """One profiled inference: of each step its name, its begin after the inference's, its length, and its module.

    Attributes:
        guards_ns: what torch.compile took to check that its code still fits.
        events: number of records.
    """

    names: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    modules: list[str] = field(default_factory=list)
    guards_ns: int = 0
    events: int = 0


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """One call in the code that inductor generated: the name of the kernel and the operators that it belongs to."""

    name: str
    executes: tuple[ModuleOperator, ...]


def profile_torch(
    invoke: Callable[[], object], inferences: int, *, module: Any = None, kernels: Sequence[CompiledKernel] = ()
) -> EngineProfile:
    """Run inferences under PyTorch's profiler, and as many ordinary ones in between.

    Args:
        invoke: runs one inference on the calling thread.
        inferences: number of profiled inferences; fewer where they have very many operators.
        module: the ``torch.nn.Module`` that `invoke` calls eagerly, whose submodules shall be told; None for others.
        kernels: calls in the code that inductor generated, in order, where `invoke` runs that.

    Raises `CannotProfile`: the profiler recorded no operator, or other ones in each inference.
    """
    (first,) = _record(invoke, 1)[1]
    count = max(3, min(inferences, MOST_EVENTS // max(1, first.events)))
    timing, recorded = _take_turns(invoke, count)
    names = recorded[0].names
    if not names:
        raise CannotProfile("PyTorch's profiler recorded no operator of this model")
    if any(each.names != names for each in recorded):
        raise CannotProfile("the model runs other operators from one inference to the next")
    executed, more = _find_kernels(names, kernels) if kernels else _find_modules(invoke, module, names)
    return _assemble(timing, recorded, executed, notes=more)


def _record(invoke: Callable[[], object], count: int) -> tuple[list[Timed], list[_Recorded]]:
    """Return times of `count` profiled inferences, and what was recorded of each."""
    import torch

    times: list[Timed] = []
    with torch.autograd.profiler.profile(use_kineto=True) as profiler:
        for _ in range(count):
            with torch.profiler.record_function(_INFERENCE):
                times += time_both(invoke, 1)
    try:
        found = [
            (event.start_ns(), event.duration_ns(), event.name(), event.start_thread_id())
            for event in profiler.kineto_results.events()
        ]
    except AttributeError as error:
        raise CannotProfile(f"the profiler of PyTorch {torch.__version__} can't be read: {error}") from error
    recorded = list(_split(found))
    if len(recorded) != count:
        raise CannotProfile(f"PyTorch's profiler recorded {len(recorded)} of {count} inferences")
    return times, recorded


def _split(events: Sequence[tuple[int, int, str, int]]) -> Iterator[_Recorded]:
    """Yield the steps of each inference, from (start, length, name, thread) of every record."""
    found: _Recorded | None = None
    thread = begin = end = step_end = 0
    modules: list[tuple[int, str]] = []
    for start, length, name, on in sorted(events, key=lambda event: (event[0], -event[1])):
        if name == _INFERENCE:
            if found is not None:
                yield found
            found, thread, begin, end, modules = _Recorded(), on, start, start + length, []
        if found is None or on != thread or start >= end:
            continue
        found.events += 1
        while modules and start >= modules[-1][0]:
            modules.pop()
        if name.startswith(_MODULE):
            modules.append((start + length, name.removeprefix(_MODULE)))
        elif name == _GUARDS:
            found.guards_ns += length
        elif start >= step_end and _STEP.fullmatch(name):
            step_end = start + length
            found.names.append(name)
            found.starts.append(start - begin)
            found.lengths.append(length)
            found.modules.append(modules[-1][1] if modules else "")
    if found is not None:
        yield found


def _take_turns(invoke: Callable[[], object], inferences: int) -> tuple[Alternation, list[_Recorded]]:
    """Profiled inferences, in turns with as many ordinary ones."""
    recorded: list[_Recorded] = []

    def profiled(count: int) -> list[Timed]:
        times, found = _record(invoke, count)
        recorded.extend(found)
        return times

    import torch

    timing = take_turns(invoke, profiled, inferences, by_processor=torch.get_num_threads() == 1)
    return timing, [recorded[at] for at in timing.counted]


def _find_modules(
    invoke: Callable[[], object], module: Any, names: Sequence[str]
) -> tuple[list[tuple[ModuleOperator, ...]], tuple[str, ...]]:
    """Return the operator of each step, with its module; that is found in one more inference, which is not timed."""
    modules, notes = [""] * len(names), list[str]()
    if module is not None:
        with _announced(module):
            ((found,)) = _record(invoke, 1)[1]
        if found.names == names:
            modules = found.modules
        else:
            notes = ["modules of operators are unknown, because the model runs otherwise while its modules are watched"]
    typed = [(path, _type_of(name)) for path, name in zip(modules, names, strict=True)]
    return [(each,) for each in _number(typed)], tuple(notes)


def _number(found: Sequence[tuple[str, str]]) -> list[ModuleOperator]:
    """Operators, given by module and type in order, with their places."""
    counts, numbered = Counter(found), []
    seen: Counter[tuple[str, str]] = Counter()
    for module, kind in found:
        numbered.append(ModuleOperator(module, kind, seen[module, kind], counts[module, kind]))
        seen[module, kind] += 1
    return numbered


@contextmanager
def _announced(module: Any) -> Iterator[None]:
    """Have each submodule record its path while it runs.

    ``forward`` is replaced on the object: hooks would switch off the fast paths that some modules choose themselves.
    """
    import torch

    def announce(path: str, forward: Callable[..., Any]) -> Callable[..., Any]:
        def announced(*given: Any, **named: Any) -> Any:
            with torch.profiler.record_function(_MODULE + path):
                return forward(*given, **named)

        return announced

    changed = []
    try:
        for path, each in module.named_modules():
            # Code that TorchScript compiled takes no other forward; a forward of its own is put back afterwards.
            with suppress(AttributeError, RuntimeError, TypeError):
                own = vars(each).get("forward")
                each.forward = announce(path, each.forward)
                changed.append((each, own))
        yield
    finally:
        for each, own in changed:
            if own is None:
                del each.forward
            else:
                each.forward = own


def _type_of(name: str) -> str:
    """``conv2d`` of ``aten::conv2d``; in-place forms lose their underscore."""
    kind = name.rpartition("::")[2]
    return kind[:-1] if kind.endswith("_") and not kind.endswith("__") else kind


def _find_kernels(
    names: Sequence[str], kernels: Sequence[CompiledKernel]
) -> tuple[list[tuple[ModuleOperator, ...]], tuple[str, ...]]:
    """Return the operators of each step of compiled code: its steps are the calls of that code, in order."""
    plain = [re.sub(r"^graph_\d+_", "", name) for name in names]
    # Code that was compiled anew comes last.
    for calls in (kernels, kernels[-len(names) :]):
        if _generated(plain) == _generated([each.name for each in calls]):
            return [each.executes for each in calls], ()
    by_name = {each.name: each.executes for each in kernels}
    note = f"inductor's code has {len(kernels)} calls of kernels, but {len(names)} were recorded: matched by name alone"
    return [by_name.get(name, ()) for name in plain], (note,)


def _generated(names: Sequence[str]) -> list[str]:
    """Return the names of generated kernels, and "" in place of others."""
    return [name if name.startswith("cpp_") else "" for name in names]


class KernelRecorder:
    """Inductor, whose generated code is recorded by the profiler: a backend of ``torch.compile``.

    Attributes:
        kernels: the calls in the code that it generated, in order.
    """

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        self.kernels: list[CompiledKernel] = []
        self._options = dict(options or {})

    def __call__(self, graph: Any, inputs: Any) -> Any:
        """Compile `graph`, a ``torch.fx.GraphModule``, for `inputs`."""
        from torch._inductor.compile_fx import compile_fx

        with self.recording(graph) as settings:
            return compile_fx(graph, inputs, config_patches={**self._options, **settings})

    @contextmanager
    def recording(self, graph: Any) -> Iterator[dict[str, Any]]:
        """Yield inductor's settings for compiling `graph`, a ``torch.fx.GraphModule``; reads its kernels at the end."""
        operators = _operators_of(graph)
        with tempfile.TemporaryDirectory(prefix="edgewise-inductor-") as folder:
            yield {
                "cpp.enable_kernel_profile": True,
                "trace.enabled": True,
                "trace.debug_dir": folder,
                "trace.provenance_tracking_level": 1,
                # What comes from the cache was not traced.
                "fx_graph_cache": False,
            }
            for file in sorted(Path(folder).rglob("inductor_provenance_tracking_node_mappings.json")):
                self.kernels += _read_kernels(json.loads(file.read_text(encoding="utf-8")), operators)


def _operators_of(graph: Any) -> dict[str, ModuleOperator]:
    """Name of a node of a ``torch.fx`` graph → the operator."""
    calls = [node for node in graph.graph.nodes if node.op in ("call_function", "call_method")]
    numbered = _number([(_module_of(node), _target_of(node)) for node in calls])
    return {node.name: each for node, each in zip(calls, numbered, strict=True)}


def _module_of(node: Any) -> str:
    """Path of the module that a node comes from: ``blocks.0`` of ``L['self'].blocks._modules['0']``."""
    stack = node.meta.get("nn_module_stack") or {}
    path = str(next(reversed(stack.values()))[0]) if stack else ""
    path = re.sub(r"\[['\"]?(\w+)['\"]?\]", r".\1", path.removeprefix("L['self']").replace("_modules", ""))
    return re.sub(r"\.+", ".", path).strip(".")


def _target_of(node: Any) -> str:
    """Type of the operator that a node calls: a method, one of PyTorch's operators or a Python function."""
    target = node.target
    if isinstance(target, str):
        return _type_of(target)
    name = str(target).split(".")[1] if "." in str(target) and hasattr(target, "_schema") else target.__name__
    return _PYTHON.get(name) or _type_of(name)


_PYTHON = {"iadd": "add", "isub": "sub", "imul": "mul", "truediv": "div", "itruediv": "div"}
"""Python's names of arithmetic → PyTorch's."""


_MOVES = frozenset(
    {"view", "_unsafe_view", "permute", "clone", "select", "squeeze", "unsqueeze", "transpose", "expand", "slice",
     "getitem", "copy", "_to_copy"}
)  # fmt: skip
"""Nodes that only move data, by their names without a number."""


def _read_kernels(mapping: Mapping[str, Any], operators: Mapping[str, ModuleOperator]) -> list[CompiledKernel]:
    """Return the calls in generated code, in order, from inductor's table of the nodes that each call comes from.

    A product runs in a call of its own. The kernels around it are also listed with its nodes: those that lay out its
    operands anew with the product itself, and those that read its result with the view of it. Neither executes it.
    """
    calls = sorted(mapping["cppCodeToPost"].items(), key=lambda item: int(item[0].rpartition(":")[2]))
    origins: Mapping[str, Sequence[str]] = mapping["postToPre"]
    called = {node for call, nodes in calls if not call.startswith("cpp_") for node in nodes if not _moves(node)}
    products = {origin for node in called for origin in origins.get(node, ())}
    found = []
    for call, nodes in calls:
        own = [node for node in nodes if not call.startswith("cpp_") or node not in called]
        named = [
            origin for node in own for origin in origins.get(node, ()) if not _moves(node) or origin not in products
        ]
        executes = tuple(operators[origin] for origin in dict.fromkeys(named) if origin in operators)
        found.append(CompiledKernel(call.rpartition(":")[0], executes))
    return found


def _moves(node: str) -> bool:
    return re.sub(r"_\d+$", "", node) in _MOVES


def _assemble(
    timing: Alternation,
    recorded: Sequence[_Recorded],
    executed: Sequence[tuple[ModuleOperator, ...]],
    *,
    notes: tuple[str, ...],
) -> EngineProfile:
    times = np.array([each.lengths for each in recorded], dtype=float).T  # steps × inferences, ns
    between = np.array(timing.walls) - times.sum(axis=0)
    means, whole = usual_times(np.vstack([times, between]), steps=len(times), processor=timing.processor)
    lengths = means[:-1]
    outside = whole - float(lengths.sum())
    taken = np.array(share_out(1e3 * timing.excess_us(whole) - outside, [float(each) for each in lengths]))
    times *= 1 - np.divide(taken, lengths, out=np.zeros_like(taken), where=lengths > 0)[:, None]
    guards = [float(each.guards_ns) for each in recorded]
    between = np.array(timing.walls) - times.sum(axis=0) - guards
    overheads = [EngineOverhead(name="between operators", times_ns=tuple(map(float, between)))]
    if any(guards):
        overheads.append(EngineOverhead(name="guards", times_ns=tuple(guards)))
    names, begins = recorded[0].names, np.array([each.starts for each in recorded])
    seen: Counter[str] = Counter()
    nodes = []
    for at, name in enumerate(names):
        seen[name] += 1
        generated = name.startswith("graph_")
        # A kernel without operators only lays out the operands of the product behind it anew.
        role: Role = "layout" if generated and not executed[at] else "operator"
        nodes.append(
            EngineNode(
                name=name if seen[name] == 1 else f"{name} ({seen[name]})", op=name,
                times_ns=tuple(map(float, times[at])), role=role, executes=executed[at],
                start_ns=median(map(float, begins[:, at])), type=name.replace("::", ".") if "::" in name else "",
                taken_out_ns=float(taken[at]),
            )
        )  # fmt: skip
    return EngineProfile(
        method=_METHOD, resolution_ns=1.0, truncates=False, nodes=tuple(nodes), overheads=tuple(overheads),
        **timing.as_times(), ordered=False, notes=(timing.describe_cost([each / 1e3 for each in taken]), *notes),
    )  # fmt: skip
