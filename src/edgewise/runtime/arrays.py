"""What every engine's adapter does with shapes, arrays and messages before and after the engine is asked."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import count as count_up
from threading import Thread
from time import monotonic_ns
from typing import Any

from edgewise.model.signature import TensorSpec, shapes_fit
from edgewise.runtime.base import UnsupportedModel

Shape = tuple[int, ...]

REFUSES = "the model does not accept"
"""Begins the message of an engine that refuses the shapes of inputs."""


def shapes_in_order(names: Sequence[Collection[str]], shapes: Mapping[str, Shape]) -> list[Shape | None]:
    """Return the wanted shape of each of the engine's inputs; None where none is wanted.

    By name where the engine knows all of them, else by position, because some engines rename inputs.

    Args:
        names: every name of each input, in the engine's order.
        shapes: shapes by the model file's own names, in its order.

    Raises `UnsupportedModel` where neither names nor number agree.
    """
    if not shapes:
        return [None] * len(names)
    if all(sum(name in aliases for aliases in names) == 1 for name in shapes):
        return [next((shapes[name] for name in shapes if name in aliases), None) for aliases in names]
    if len(shapes) != len(names):
        raise UnsupportedModel(f"the model has {len(shapes)} inputs, but the engine has {len(names)}")
    return list(shapes.values())


def open_sizes(inputs: Sequence[TensorSpec], wanted: Sequence[Shape | None]) -> dict[str, dict[str, int]]:
    """Return input → each dimension that the file leaves open → the size that is wanted."""
    found = {
        own.name: {str(axis): size for axis, size in enumerate(shape) if not isinstance(own.shape[axis], int)}
        for own, shape in zip(inputs, wanted, strict=True)
        if own.shape is not None and shape is not None
    }
    return {name: sizes for name, sizes in found.items() if sizes}


def in_shapes(inputs: Sequence[TensorSpec], shapes: Mapping[str, Shape]) -> tuple[TensorSpec, ...]:
    """Return the inputs with the shapes that are wanted, as `shapes_in_order` finds them."""
    wanted = shapes_in_order([(spec.name,) for spec in inputs], shapes)
    return tuple(
        spec if shape is None else replace(spec, shape=shape) for spec, shape in zip(inputs, wanted, strict=True)
    )


def check_fits(inputs: Sequence[TensorSpec], wanted: Sequence[TensorSpec]) -> None:
    """Raise `UnsupportedModel` where an input's own shape does not allow the one in `wanted`."""
    for own, given in zip(inputs, wanted, strict=True):
        if own.shape is not None:
            check_rank(own.name, len(own.shape), given.shape or ())
            if not shapes_fit(own.shape, given.shape):
                raise UnsupportedModel(fixed_shape_message(own.name, own.shape, given.shape or ()))


def check_dtypes(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec] = ()) -> None:
    """Raise `UnsupportedModel` for an input or output whose type is none of numpy's numbers."""
    import numpy as np

    for kind, spec in (*(("input", each) for each in inputs), *(("output", each) for each in outputs)):
        try:
            known = np.dtype(spec.dtype).kind in "biuf"
        except (TypeError, ValueError):  # numpy takes a comma for a list of types
            known = False
        if not known:
            raise UnsupportedModel(f"{kind} {spec.name!r} has type {spec.dtype}, which is not a number type of numpy")


def tell(text: str, *, noise: str = r"$^") -> str:
    """Return an engine's message on one line: every line of it, for the reason often stands last.

    Left out are status codes, places in the engine's source and lines that begin with the expression `noise`. Of a
    message that is far too long the middle is.
    """
    lines = [re.sub(r"^[ └-]+", "", line).rstrip() for line in text.splitlines()]
    telling = [line for line in lines if line and not re.match(noise, line)] or [line for line in lines if line]
    found = " ".join(telling) or "no message"
    found = re.sub(r"\[ONNXRuntimeError\] : \d+ : \w+ : ", "", found)
    # "/src/model.cc:256 onnxruntime::Model::Model(const Path&) message", or the place alone
    found = re.sub(
        r"(?<!\S)/\S+\.(?:cc|h|hpp|cpp):\d+ (?:[\w:*&<>, ~]+\((?:[^()]|\([^()]*\))*\)(?: const)? )?", "", found
    )
    found = " ".join(found.split())
    return found if len(found) <= MOST_TOLD else f"{found[: MOST_TOLD // 3]} […] {found[-MOST_TOLD * 2 // 3 :]}"


MOST_TOLD = 1500
"""Characters of an engine's message that are kept."""


def fixed_shape_message(name: str, fixed: Sequence[object], wanted: Sequence[object]) -> str:
    """Return what to say where a model's own shape does not allow the one that is wanted."""
    own = ", ".join("?" if size is None else str(size) for size in fixed)
    return f"input {name!r} has the fixed shape [{own}], not [{', '.join(map(str, wanted))}]"


def refused(shapes: Mapping[str, Sequence[object]]) -> str:
    """How to begin the message of an engine that does not take these shapes; empty where none were given."""
    if not shapes:
        return ""
    words = ", ".join(f"{name}=[{', '.join(map(str, shape))}]" for name, shape in shapes.items())
    return f"{REFUSES} {words}: "


def check_rank(name: str, rank: int, wanted: Sequence[object]) -> None:
    """Raise `UnsupportedModel` for a shape of another rank than the model's; engines take it and go wrong later."""
    if len(wanted) != rank:
        raise UnsupportedModel(f"input {name!r} has {rank} dimensions, but the requested shape is {list(wanted)}")


def own_copies(arrays: Sequence[Any], specs: Sequence[TensorSpec]) -> list[Any]:
    """Contiguous copies of `arrays`, owned by the session.

    Raises ValueError where number, dtype or shape are not those of `specs`: an engine would convert, or read on past
    the end.
    """
    import numpy as np

    if len(arrays) != len(specs):
        raise ValueError(f"{len(arrays)} arrays for {len(specs)} inputs")
    copies = []
    for array, spec in zip(arrays, specs, strict=True):
        copy = np.array(array, order="C")
        fits = copy.dtype.kind == "U" if spec.dtype == "string" else copy.dtype == np.dtype(spec.dtype)
        if not fits:
            raise ValueError(f"input {spec.name!r} takes {spec.dtype}, not {copy.dtype}")
        if not shapes_fit(spec.shape, copy.shape):
            raise ValueError(f"input {spec.name!r} needs shape {spec.shape}, not {copy.shape}")
        copies.append(copy)
    return copies


def closed() -> None:
    """Stands for `invoke` once a session was closed or before anything was bound."""
    raise RuntimeError("nothing is bound to this session, or it was closed")


def time_calls(invoke: Callable[[], object], count: int) -> list[int]:
    """Nanoseconds of each of `count` calls by the monotonic clock."""
    clock, times = monotonic_ns, []
    for _ in range(count):
        begin = clock()
        invoke()
        times.append(clock() - begin)
    return times


def run_on_threads(
    invokes: Sequence[Callable[[], object]],
    *,
    clock: Callable[[], int],
    until_ns: int | None,
    count: int | None,
    completions: list[int],
) -> None:
    """Keep every one of `invokes` busy on a thread of its own; see `edgewise.runtime.base.RunsConcurrently`.

    The engine must release Python's lock while it infers. The first error of any thread stops all and is raised.
    """
    if until_ns is None and count is None:
        raise ValueError("neither an end time nor a number of inferences given")
    tickets = count_up()
    errors: list[BaseException] = []

    def work(invoke: Callable[[], object]) -> None:
        try:
            while not errors and (until_ns is None or clock() < until_ns):
                # next() on a counter and append() on a list are atomic in CPython.
                if count is not None and next(tickets) >= count:
                    return
                invoke()
                completions.append(clock())
        except BaseException as error:
            errors.append(error)

    if len(invokes) == 1:
        work(invokes[0])
    else:
        threads = [Thread(target=work, args=(invoke,), daemon=True) for invoke in invokes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]
