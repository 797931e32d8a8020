"""Do source and result compute the same? Both run on the same inputs, in worker processes, and outputs are compared."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgewise.errors import BadInput, EdgewiseError, RunFailed, Unavailable
from edgewise.model.identity import Model, open_model, read_graph
from edgewise.model.precision import reduced_precision
from edgewise.model.signature import TensorSpec, channels_last, shapes_fit
from edgewise.record import Job, Scenario, Stopping, TargetSpec
from edgewise.registry import availability_of
from edgewise.run.agreement import NOT_FINITE, Outputs, difference_of
from edgewise.run.inference import Inference, InferenceFailed
from edgewise.run.plan import Axes, make_plan
from edgewise.run.run_builder import METERS_OFF, RunBuilder
from edgewise.runtime.base import runtimes
from edgewise.stats.differences import Sums, decibels
from edgewise.workload.arrays import Array

Answers = list[list[Array]]
"""Per input, one array per output."""

_ENGINES = ("onnxruntime", "litert", "tensorflow", "keras", "torch", "executorch", "openvino")
"""Engines in the order in which they are chosen: OpenVINO last, since it also converts what it then reads."""
_NUMBERED = re.compile(r"(?:args?|output|inputs?)_?(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputAgreement:
    """How far an output of the result is from the source's.

    Attributes:
        max_abs: largest absolute difference of any element.
        max_rel: the same over the largest magnitude of this output in the source.
        snr_db: power of the source's output over that of the difference, dB; None where there is no difference or no
            output.
        top1: share of rows whose largest element is in the same place; None where there are no rows.
        close: whether the difference is within what rounding explains.
        why: of an infinite difference, its cause; why there is none.
        allowed: the tolerance of `max_rel`, why it is this one, and how many elements are finite in neither.
    """

    name: str
    max_abs: float
    max_rel: float
    snr_db: float | None
    top1: float | None
    close: bool
    why: str
    allowed: str

    def to_document(self) -> dict[str, Any]:
        """JSON-shaped; infinite differences are None, with their cause in ``why``."""
        found = asdict(self)
        return found | {name: _finite(found[name]) for name in ("max_abs", "max_rel")}

    @property
    def compared(self) -> bool:
        """Whether any element is finite in source or result."""
        return self.why != NOT_FINITE

    @property
    def words(self) -> str:
        """The difference in words."""
        if self.why:
            return self.why
        return f"max abs error {self.max_abs:.3g}, {self.max_rel:.2%} of the output's scale; {self.allowed}"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


class Comparer:
    """Runs model files on inputs, and compares outputs.

    Args:
        timeout_s: a worker that is silent for this long is killed.
        memory_limit: bytes that a worker may allocate; None is the available memory.
    """

    def __init__(self, *, timeout_s: float, memory_limit: int | None) -> None:
        self._builder = RunBuilder(save=lambda run: None, sensors=METERS_OFF)
        self._stopping = Stopping(timeout_s=timeout_s)
        self._target = TargetSpec(memory_limit_bytes=memory_limit)

    def run(self, path: Path, feeds: Answers, names: Sequence[str]) -> tuple[Answers, str]:
        """Return outputs of the model at `path` in its own order, and the engine that computed them.

        Args:
            feeds: per input, one array per tensor.
            names: of these tensors in the source.

        Raises:
            Unavailable: no installed engine reads the model.
            BadInput: its inputs can't be matched with those of the source.
            RunFailed: every engine that reads the model fails.
        """
        specs = open_model(path).signature.inputs
        order = match_tensors(names, [array.shape for array in feeds[0]], specs)
        taken = [
            [_in_layout(feed[at], spec).astype(spec.dtype) for at, spec in zip(order, specs, strict=True)]
            for feed in feeds
        ]
        shapes = {spec.name: array.shape for spec, array in zip(specs, taken[0], strict=True)}
        failures = []
        # What one engine refuses (two nodes of one name, an operator) another one runs.
        for engine in _find_engines(open_model(path)):
            job = self._job(path, engine, shapes)
            try:
                with Inference(job, builder=self._builder) as inference:
                    outputs = [answer for feed in taken for answer in inference.infer([feed])]
            except InferenceFailed as error:
                failures.append(f"{engine} can't run {path.name}: {error}")
                continue
            return outputs, f"{job.runtime.name} {job.runtime.version or ''}".strip()
        raise RunFailed("; ".join(failures))

    def _job(self, path: Path, engine: str, shapes: dict[str, tuple[int, ...]]) -> Job:
        shapes = {name: shape for name, shape in shapes.items() if shape}
        plan = make_plan(
            [str(path)], axes=Axes(runtimes=(engine,), threads=(1,), shapes=shapes), scenario=Scenario(),
            stopping=self._stopping, target=self._target,
        )  # fmt: skip
        return plan.jobs[0]


def _find_engines(model: Model) -> list[str]:
    """Return the installed engines that read the model's format. Raises `Unavailable` where there is none."""
    found = {name: runtime for name, runtime in runtimes() if model.ref.format in runtime.formats}
    usable = [name for name in _ENGINES if name in found and availability_of(found[name])]
    if not usable:
        raise Unavailable(f"no installed engine reads {model.ref.name}", advice="see 'edgewise doctor'")
    return usable


def match_tensors(names: Sequence[str], shapes: Sequence[tuple[int, ...]], specs: Sequence[TensorSpec]) -> list[int]:
    """For each tensor of a result, the place of the source's tensor that it stands for.

    Tensors are matched by name, by the numbers in names such as ``args_0``, by position, and by shapes that occur once.
    Where none of that fits, the result may have channels last. Raises `BadInput`: none of these gives each tensor a
    counterpart of a fitting shape.
    """
    told = [spec.name for spec in specs]
    numbers = [_NUMBERED.search(name) for name in told]
    orders: list[list[int]] = []
    if sorted(told) == sorted(names):
        orders.append([list(names).index(name) for name in told])
    if all(numbers) and sorted(int(each[1]) for each in numbers if each) == list(range(len(names))):
        orders.append([int(each[1]) for each in numbers if each])
    if len(told) == len(names):
        orders.append(list(range(len(names))))
        by_shape = [[at for at, shape in enumerate(shapes) if shapes_fit(spec.shape, shape)] for spec in specs]
        if all(len(places) == 1 for places in by_shape):
            orders.append([places[0] for places in by_shape])
    for moved in (False, True):
        for order in orders:
            if len(set(order)) == len(names) and all(
                shapes_fit(spec.shape, shapes[at]) or (moved and shapes_fit(spec.shape, channels_last(shapes[at])))
                for at, spec in zip(order, specs, strict=True)
            ):
                return order
    ours = ", ".join(f"{name} {list(shape)}" for name, shape in zip(names, shapes, strict=True))
    theirs = ", ".join(f"{spec.name} {list(spec.shape or ())}" for spec in specs)
    raise BadInput(f"tensors of the source ({ours}) can't be matched with those of the result ({theirs})")


def _in_layout(array: Array, spec: TensorSpec) -> Array:
    """Return a tensor of the source as the result takes it: with channels last where its shape says so."""
    if array.ndim < 3 or shapes_fit(spec.shape, array.shape):
        return array
    return np.ascontiguousarray(np.moveaxis(array, 1, -1))


def compare_answers(
    names: Sequence[str], source: Answers, result: Answers, specs: Sequence[TensorSpec], *, reduced: str
) -> tuple[OutputAgreement, ...]:
    """Compare the outputs of a source with those of its result, over all inputs.

    Args:
        names: of the source's outputs.
        specs: the result's outputs.
        reduced: arithmetic or weights that are narrower than float32, in words; "" where none are.
    """
    if len(source[0]) != len(result[0]):
        why = f"the source has {len(source[0])} outputs, the result {len(result[0])}"
        return (_unlike(names[0] if names else "output", why),)
    try:
        made = [TensorSpec(name=spec.name, shape=array.shape, dtype=spec.dtype)
                for spec, array in zip(specs, result[0], strict=True)]  # fmt: skip
        order = match_tensors(names, [array.shape for array in source[0]], made)
    except (BadInput, ValueError):
        order = list(range(len(names)))
    found = []
    for place, name in enumerate(names):
        theirs = order.index(place)
        found.append(
            compare_tensor(name, [each[place] for each in source], [each[theirs] for each in result], reduced=reduced)
        )
    return tuple(found)


def compare_tensor(name: str, source: Sequence[Array], result: Sequence[Array], *, reduced: str) -> OutputAgreement:
    """Compare one tensor over all inputs; the result's may have channels last. Arguments as in `compare_answers`."""
    result = [
        np.moveaxis(theirs, -1, 1) if ours.shape != theirs.shape == channels_last(ours.shape) else theirs
        for ours, theirs in zip(source, result, strict=True)
    ]  # fmt: skip
    for ours, theirs in zip(source, result, strict=True):
        if ours.size != theirs.size:
            return _unlike(name, f"shape {list(ours.shape)} became {list(theirs.shape)}")
    reference, own = np.stack(source), np.stack([b.reshape(a.shape) for a, b in zip(source, result, strict=True)])
    narrow = next((str(each.dtype) for each in (reference, own) if each.dtype.kind in "iu" and each.itemsize == 1), "")
    reduced = reduced or (f"an output is {narrow}" if narrow else "")
    difference = difference_of(
        Outputs(run_id="result", label="result", arrays=(own,), reduced=reduced),
        Outputs(run_id="source", label="source", arrays=(reference,)),
    )
    return OutputAgreement(name=name, snr_db=_snr(reference, own), **asdict(difference))


def _unlike(name: str, why: str) -> OutputAgreement:
    return OutputAgreement(
        name=name, max_abs=math.inf, max_rel=math.inf, snr_db=None, top1=None, close=False, why=why, allowed=""
    )


def _snr(reference: Array, own: Array) -> float | None:
    """Signal-to-noise ratio, dB."""
    if reference.dtype.kind not in "biuf":
        return None
    sums = Sums()
    with np.errstate(over="ignore", invalid="ignore"):
        sums.add(*(each.astype(np.float64).ravel() for each in (reference, own)))
    return _finite(decibels(sums.signal, sums.noise))


def reduced_words(path: Path) -> str:
    """Which arithmetic of the model at `path` is narrower than float32; "" where none is or where that is unknown."""
    try:
        word = reduced_precision(read_graph(path))
    except EdgewiseError:
        return ""
    return f"the model computes in {word}" if word else ""
