"""A model that ONNX Runtime has loaded.

One inference is `run_with_iobinding` on values that were bound once: of the calls the engine has it is the one with the
least work around the inference (about 2.2 µs on a network of one operator where `run` takes 4.7 µs), and the only one
that neither looks at the inputs nor makes arrays of the outputs each time. It writes into the outputs of the inference
before, so it can't run a model whose outputs change their shape from run to run: such a model falls back to `run`.
``effective["call"]`` says which of them an inference is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from edgewise.model.signature import TensorSpec, shapes_fit
from edgewise.runtime.arrays import (
    check_dtypes,
    closed,
    fixed_shape_message,
    open_sizes,
    own_copies,
    run_on_threads,
    shapes_in_order,
)
from edgewise.runtime.base import INPUTS_FIRST, INPUTS_WITH_CALL, LoadOptions, UnsupportedModel

_BOUND, _RUN = "run_with_iobinding", "run"
#: types that the engine and numpy call differently
DTYPES = {"float": "float32", "double": "float64"}


class OnnxSession:
    """A model in ONNX Runtime. Attributes as in `edgewise.runtime.base.Session`."""

    def __init__(
        self, session: Any, *, options: LoadOptions, requests: int, placement: Mapping[str, int] | None
    ) -> None:
        self.inputs: Sequence[TensorSpec] = tuple(map(spec_of, session.get_inputs()))
        self.outputs: Sequence[TensorSpec] = tuple(map(spec_of, session.get_outputs()))
        self.invoke: Callable[[], object] = closed
        self._session = session
        self._bindings: list[Any] = []
        self._feed: dict[str, Any] = {}
        self._results: Sequence[Any] = ()
        check_dtypes([spec for spec in self.inputs if spec.dtype != "string"])
        wanted = shapes_in_order([(spec.name,) for spec in self.inputs], options.shapes)
        for spec, shape in zip(self.inputs, wanted, strict=True):
            if shape is not None and not shapes_fit(spec.shape, shape):
                raise UnsupportedModel(fixed_shape_message(spec.name, spec.shape or (), shape))
        self._requests = requests
        self.effective: Mapping[str, Any] = _effective(
            session, provider=options.provider, requests=requests, placement=placement
        )
        if sizes := open_sizes(self.inputs, wanted):
            self.effective = {**self.effective, "open_dimensions": sizes}
        if any(spec.dtype == "string" for spec in self.inputs):
            self.fall_back()  # text can't be bound

    def bind(self, arrays: Sequence[Any]) -> None:
        """Copy one array per input into values that stay bound. Raises ValueError where they don't fit."""
        from onnxruntime import OrtValue

        copies = own_copies(arrays, self.inputs)
        self._feed = {spec.name: copy for spec, copy in zip(self.inputs, copies, strict=True)}
        if self.effective["call"] == _RUN:
            self._bindings = [None] * self._requests
            self.invoke = self._infer
            return
        # The values share the copies' memory and keep them alive.
        values = [OrtValue.ortvalue_from_numpy(copy) for copy in copies]
        self._bindings = []
        for _ in range(self._requests):
            # A new one each time: a binding keeps the outputs of its last run, and their shapes may depend on the data.
            binding = self._session.io_binding()
            for spec, value in zip(self.inputs, values, strict=True):
                binding.bind_ortvalue_input(spec.name, value)
            for spec in self.outputs:
                binding.bind_output(spec.name)
            self._bindings.append(binding)
        self.invoke = self._call(self._bindings[0])

    def fall_back(self) -> bool:
        """Infer with `run` from now on; False where that is so already."""
        if self.effective["call"] == _RUN:
            return False
        self.effective = {**self.effective, "call": _RUN, **INPUTS_WITH_CALL}
        self.invoke = self._infer
        return True

    def _infer(self) -> None:
        self._results = self._session.run(None, self._feed)

    def _call(self, binding: Any) -> Callable[[], object]:
        """Return the shortest way to one inference on `binding`."""
        if self.effective["call"] == _RUN:
            return self._infer
        inner, values = getattr(self._session, "_sess", None), getattr(binding, "_iobinding", None)
        if self.effective["provider"] == "cpu" and inner is not None and values is not None:
            # What the public method calls after looking for graph capture, which only other providers have.
            return partial(inner.run_with_iobinding, values, None)
        return partial(self._session.run_with_iobinding, binding)

    def read_outputs(self) -> Sequence[Any]:
        """Return copies of the outputs of the last inference on the first request; None for a sequence or a map."""
        ran = self.effective["call"] == _RUN
        return [_array(value) for value in (self._results if ran else self._bindings[0].copy_outputs_to_cpu())]

    def run_many(
        self, *, clock: Callable[[], int], until_ns: int | None, count: int | None, completions: list[int]
    ) -> None:
        """As many Python threads as there are requests call the session, which releases Python's lock."""
        calls = [self._call(binding) for binding in self._bindings]
        run_on_threads(calls, clock=clock, until_ns=until_ns, count=count, completions=completions)

    def close(self) -> None:
        """Release the session."""
        self.invoke = closed
        self._bindings, self._feed, self._results = [], {}, ()
        self._session = None


def _array(value: Any) -> Any:
    """Return a copy of an array, of texts as numpy's own; None for what is none."""
    import numpy as np

    if not isinstance(value, np.ndarray):
        return None
    return np.array(value, dtype=str) if value.dtype.kind == "O" else np.array(value)


def _effective(session: Any, *, provider: str, requests: int, placement: Mapping[str, int] | None) -> Mapping[str, Any]:
    settings = session.get_session_options()
    intra = settings.intra_op_num_threads or None
    return {
        "provider": provider, "call": _BOUND, **INPUTS_FIRST,
        "execution_providers": list(session.get_providers()), "precision": None,
        "threads": None if intra is None else intra + requests - 1, "intra_op_threads": intra, "streams": None,
        "requests": requests, "graph_optimization": settings.graph_optimization_level.name,
        "operators_per_provider": placement,
    }  # fmt: skip


def spec_of(node: Any) -> TensorSpec:
    """Return an input or output of the engine."""
    match = re.fullmatch(r"tensor\((\w+)\)", node.type)
    dtype = DTYPES.get(match[1], match[1]) if match else node.type
    shape = None if node.shape is None else tuple(size if isinstance(size, int | str) else None for size in node.shape)
    return TensorSpec(name=node.name, shape=shape, dtype=dtype)
