"""This machine's peaks, the best of all measurements: matrix products per data type, copies of memory per size.

The peak of a data type is the fastest of the installed engines' matrix products of 768 × 768 × 768, each in a fresh
process: what software on this machine was seen to reach, not what its makers promise. Bandwidth counts bytes read and
written by a copy between two buffers; its size is that of both together. A peak is that of the fastest tenth of
the repetitions, since whatever else the machine does only slows them; its interval reaches from their median to the
fastest one. The two shortest repetitions count for nothing: a clock that jumps can't make a peak that stays.

Other work can only lower what is measured, so the highest measurement on a machine is kept, with its time, for as long
as the machine stays what it is: its processor, the cores and the quota that a process may use, clock limits, container,
and the versions of what computes. Where a layer beats its roof, the peaks are measured once more, three times in all at
most. Peaks that were measured beside other work are measured again at every use, until once it was quiet.
"""

from __future__ import annotations

import json
import platform
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from edgewise.device.asking import ask
from edgewise.folders import job_folder
from edgewise.record import Peak, TargetSpec
from edgewise.run.counters import usable_cores
from edgewise.run.executor import target_of
from edgewise.run.facts import availability_at, cores_at, environment_at
from edgewise.run.trust import BUSY
from edgewise.runtime.base import runtimes

SIDE = 768
SIZES = (256 * 2**10, 2 * 2**20, 16 * 2**20, 256 * 2**20)
"""Bytes of the buffers that are copied: within second-level caches, beyond them, within last-level ones, memory."""
_LEAST_COPIED = 16 * 2**20
_TIMEOUT_S = 60.0
MOST_TIMES = 3
"""Largest number of measurements of a peak that layers beat."""
GLITCHES = 2
"""Number of shortest repetitions of a measurement that are left out."""
MOST_KEPT = 16
"""Number of machines, or conditions of one, whose peaks are kept: the last ones that were measured."""
_SCHEMA = 3
_WORKER = "edgewise.run.peak_worker"
#: data type → (data type of the product's input, execution precision to ask for)
_PRODUCTS: dict[str, tuple[str, str | None]] = {
    "float32": ("float32", None),
    "bfloat16": ("float32", "bf16"),
    "float16": ("float32", "f16"),
    "int8": ("uint8", None),
}


def find_peaks(
    dtypes: Sequence[str],
    threads: int,
    *,
    again: bool = False,
    cache: Path | None = None,
    target: TargetSpec | None = None,
) -> tuple[tuple[Peak, ...], str | None]:
    """Return the peaks of arithmetic in `dtypes` and of copying memory, with `threads` threads; measured where not
    yet known.

    Args:
        target: whose peaks; None is this machine.
        again: measure known ones too, and keep the higher.
        cache: where they are kept; None is the user's cache folder.

    Returns:
        The peaks, and why one that was wanted is missing.
    """
    place = target or TargetSpec()
    file, conditions = cache or _cache_file(place), _conditions(place)
    known = _peaks_under(conditions, _read(file))
    wanted = [f"{dtype}/{threads}" for dtype in dtypes if dtype in _PRODUCTS] + [f"bandwidth/{threads}"]
    # What could not be measured is tried again the next time: a machine that was busy may have time then.
    if lacking := [key for key in wanted if not known.get(key) or _may_be_low(known[key], beaten=again)]:
        known |= _keep(file, conditions, {key: _measure(key, place) for key in lacking})
    found = [peak for key in wanted for peak in known.get(key, ())]
    absent = [key.partition("/")[0] for key in wanted if not known.get(key)]
    why = f"no installed engine could be measured in {', '.join(absent)}" if absent else None
    return tuple(found), why


def known_rates(cache: Path | None = None) -> tuple[float, float] | None:
    """MACs/s of this machine by its kept peaks, with one thread and as many times that as it has cores; measures none.

    None where no peak of arithmetic is kept.
    """
    kept = kept_peaks(cache=cache)
    one = max((peak.value / peak.threads / 2 for peak in kept if peak.kind == "compute"), default=None)
    return None if one is None else (one, one * len(usable_cores()))


def kept_peaks(target: TargetSpec | None = None, *, cache: Path | None = None) -> list[Peak]:
    """Return the peaks that are kept of a machine as it is now; measures none.

    `target` and `cache` as of `find_peaks`.
    """
    place = target or TargetSpec()
    kept = _peaks_under(_conditions(place), _read(cache or _cache_file(place)))
    return [peak for peaks in kept.values() for peak in peaks]


def forget_peaks(target: TargetSpec | None = None, *, cache: Path | None = None) -> int:
    """Forget all peaks of a machine, also under other conditions; how many. Arguments as of `kept_peaks`."""
    place = target or TargetSpec()
    file = cache or _cache_file(place)
    machines, host = _read(file), _host(place)
    own = [each for each in machines if each["conditions"].get("host") == host]
    _write(file, [each for each in machines if each not in own])
    return sum(len(peaks) for each in own for peaks in _peaks_under(each["conditions"], [each]).values())


def is_disturbed(peak: Peak) -> bool:
    """Whether other work used the processor during every measurement of `peak`."""
    return peak.load is not None and peak.load > BUSY


def _may_be_low(known: Sequence[Peak], *, beaten: bool) -> bool:
    """Whether measuring once more may tell more: a kernel that beats the products (Winograd's) does so every time."""
    return any(map(is_disturbed, known)) or (beaten and min(peak.times_measured for peak in known) < MOST_TIMES)


def _higher(known: Sequence[Peak], found: Sequence[Peak]) -> list[Peak]:
    """Of two measurements of the same peaks the higher ones, size by size, with the lower load of the two.

    `known` counts as often as it was measured.
    """
    best = {peak.size_bytes: peak for peak in sorted((*known, *found), key=lambda peak: peak.value)}
    loads: dict[int | None, float] = {}
    for peak in (*known, *found):
        if peak.load is not None:
            loads[peak.size_bytes] = min(peak.load, loads.get(peak.size_bytes, peak.load))
    times = max((peak.times_measured for peak in known), default=0) + 1
    since = min(peak.since or peak.measured_at for peak in (*known, *found))
    return [
        replace(best[size], times_measured=times, since=since, load=loads.get(size))
        for size in sorted(best, key=lambda size: size or 0)
    ]


def _measure(key: str, place: TargetSpec) -> list[Peak]:
    """All peaks of one key; none where no probe worked."""
    name, _, count = key.partition("/")
    if name == "bandwidth":
        return [peak for size in SIZES if (peak := _bandwidth(size, int(count), place)) is not None]
    found = list(_products(name, int(count), place))
    return [max(found, key=lambda peak: peak.value)] if found else []


def _bandwidth(size: int, threads: int, place: TargetSpec) -> Peak | None:
    repeat = max(1, _LEAST_COPIED // size)
    answer = _ask(place, {"kind": "bandwidth", "size_bytes": size, "threads": threads, "repeat": repeat})
    moved = (size // 2) * 2 * repeat * threads
    method = f"numpy {answer.get('numpy')} copies of {size // 2} bytes, read and written bytes counted"
    return _peak("bandwidth", answer, moved, threads=threads, size_bytes=size, method=method)


def _products(dtype: str, threads: int, place: TargetSpec) -> Iterator[Peak]:
    """Yield the peak that each installed engine reaches in `dtype`."""
    registry = runtimes()
    source, precision = _PRODUCTS[dtype]
    with job_folder() as folder:
        model = folder / "product.onnx"
        model.write_bytes(make_product(SIDE, quantised=dtype == "int8"))
        for name, runtime in registry:
            cpu = runtime.providers[0]
            available = availability_at(place, name, runtime)
            if "onnx" not in runtime.formats or not available:
                continue
            if precision is not None and precision not in cpu.precisions:
                continue
            answer = _ask(
                place,
                {"kind": "product", "runtime": registry.location(name), "model": "{product.onnx}",
                 "shape": [SIDE, SIDE], "input": source, "threads": threads, "precision": precision},
                model=model,
            )  # fmt: skip
            method = f"{runtime.title} {available.version}: {SIDE}³ matrix product, constant right side"
            if peak := _peak("compute", answer, 2 * SIDE**3, threads=threads, dtype=dtype, method=method):
                yield peak


def _peak(kind: Any, answer: Mapping[str, Any], amount: int, **fields: Any) -> Peak | None:
    """`amount` per second of the fastest tenth of the repetitions but `GLITCHES`; None where there is no answer."""
    seconds = sorted(answer.get("seconds") or ())[GLITCHES:]
    if not seconds:
        return None
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Peak(
        kind=kind,
        value=amount / seconds[len(seconds) // 10],
        low=amount / seconds[len(seconds) // 2],
        high=amount / seconds[0],
        load=answer.get("load"),
        measured_at=now,
        since=now,
        **fields,
    )


def _ask(place: TargetSpec, request: Mapping[str, Any], *, model: Path | None = None) -> dict[str, Any]:
    """Return what a fresh worker answers; an empty answer where it crashed or hung."""
    threads = str(request["threads"])
    environment = {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
    files = {} if model is None else {model.name: model}
    try:
        with job_folder() as folder:
            return ask(
                target_of(place), _WORKER, request, folder=folder, files=files, timeout_s=_TIMEOUT_S,
                environment=environment,
            )  # fmt: skip
    except (OSError, ValueError, TypeError):
        return {}


def make_product(side: int, *, quantised: bool) -> bytes:
    """Return an ONNX model of ``x @ w`` with `side` × `side` matrices; quantised: 8-bit integers in, out and in
    between.
    """
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    generator = np.random.default_rng(0)
    if not quantised:
        weights = numpy_helper.from_array(generator.standard_normal((side, side), dtype=np.float32), "w")
        nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
        constants, kind = [weights], TensorProto.FLOAT
    else:
        constants = [
            numpy_helper.from_array(generator.integers(-127, 127, (side, side), np.int8), "w"),
            numpy_helper.from_array(np.float32(0.02), "scale"),
            numpy_helper.from_array(np.float32(4.0), "wide"),
            numpy_helper.from_array(np.uint8(128), "zero"),
            numpy_helper.from_array(np.int8(0), "signed"),
        ]
        nodes = [
            helper.make_node("DequantizeLinear", ["x", "scale", "zero"], ["a"]),
            helper.make_node("DequantizeLinear", ["w", "scale", "signed"], ["b"]),
            helper.make_node("MatMul", ["a", "b"], ["c"]),
            helper.make_node("QuantizeLinear", ["c", "wide", "zero"], ["y"]),
        ]
        kind = TensorProto.UINT8
    graph = helper.make_graph(
        nodes,
        "product",
        [helper.make_tensor_value_info("x", kind, [side, side])],
        [helper.make_tensor_value_info("y", kind, [side, side])],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(onnx.ModelProto.SerializeToString(model))


def _cache_file(place: TargetSpec) -> Path:
    from platformdirs import user_cache_path

    target = target_of(place)
    return user_cache_path("edgewise") / ("peaks.json" if target.is_here else f"peaks-{target.name}.json")


def _host(place: TargetSpec) -> str:
    """Return the name of this machine, whose user may have the same folder on others; "" for a target, which has a
    file.
    """
    return platform.node() if target_of(place).is_here else ""


def _conditions(place: TargetSpec) -> dict[str, Any]:
    """Return what peaks belong to: the machine as a process may use it now, and the versions of what computes."""
    environment = environment_at(place)
    found = {name: availability_at(place, name, runtime) for name, runtime in runtimes() if "onnx" in runtime.formats}
    from importlib.metadata import version  # slow to import

    conditions = {
        "schema": _SCHEMA,
        "host": _host(place),
        "cores": cores_at(place),
        **{name: environment.get(name) for name in ("cpu", "clock", "virtualisation")},
        "engines": {name: availability.version for name, availability in found.items()},
        "numpy": version("numpy") if target_of(place).is_here else None,
    }
    return dict(json.loads(json.dumps(conditions, default=str)))


def _read(file: Path) -> list[dict[str, Any]]:
    """``{"conditions": …, "peaks": {key: […]}}`` each, the last measured last; none of a file that is damaged."""
    try:
        machines = json.loads(file.read_text())["machines"]
        return [each for each in machines if isinstance(each["conditions"], dict) and isinstance(each["peaks"], dict)]
    except (OSError, ValueError, TypeError, KeyError):
        return []


def _peaks_under(conditions: Mapping[str, Any], machines: Sequence[Mapping[str, Any]]) -> dict[str, list[Peak]]:
    """Return the peaks that were measured under `conditions`."""
    kept: Mapping[str, Any] = next((each["peaks"] for each in machines if each["conditions"] == conditions), {})
    try:
        return {key: [Peak(**peak) for peak in peaks] for key, peaks in kept.items()}
    except TypeError:
        return {}


def _keep(file: Path, conditions: dict[str, Any], found: Mapping[str, Sequence[Peak]]) -> dict[str, list[Peak]]:
    """Add what was measured to what is kept by now: another process may have measured meanwhile; the sum of both."""
    machines = _read(file)
    known = _peaks_under(conditions, machines)
    known |= {key: _higher(known.get(key, []), peaks) for key, peaks in found.items() if peaks}
    others = [each for each in machines if each["conditions"] != conditions][1 - MOST_KEPT :]
    peaks = {key: [asdict(peak) for peak in each] for key, each in known.items()}
    _write(file, [*others, {"conditions": conditions, "peaks": peaks}])
    return known


def _write(file: Path, machines: Sequence[Mapping[str, Any]]) -> None:
    """Replace the file at once; a cache that can't be written costs only time."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False) as stream:
            json.dump({"machines": machines}, stream)
        Path(stream.name).replace(file)
    except OSError:
        return
