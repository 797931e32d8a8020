"""A fake engine that does what a script says, to the nanosecond, so that everything around engines can be tested.

A model is a text file: a first line ``edgewise-fake 1``, then one JSON object with any of

| key | meaning | default |
|---|---|---|
| ``inputs``, ``outputs`` | lists of ``{"name", "shape", "dtype"}``; an open dimension is null or its name | x float32 [1, 4] → y float32 [1, 2] |
| ``latency_ns`` | times of the inferences, cycled through | ``[1000000]`` |
| ``warmup_ns`` | times of the first inferences, before `latency_ns` begins | ``[]`` |
| ``import_ns``, ``load_ns`` | what the session's clock shows when it begins: their sum | 0 |
| ``tick_ns`` | what each reading of the clock itself takes | 0 |
| ``engine_latency_ns`` | the engine's own times, cycled through; only with it the session tells any | absent |
| ``reference_ns`` | what every reference kernel takes, cycled through; only with it the session times any | absent |
| ``requests`` | requests in flight of the offline scenario; only with it the session takes several | absent |
| ``layers`` | steps that a profiler would tell: a list of ``{"name", "op", "role", "kinds", "originals", "times_ns", "inputs", "outputs", "provider", "dtype"}`` as in `EngineNode`, the times cycled through; only with it a session that is loaded for a profile times any | absent |
| ``layer_overheads`` | a list of ``{"name", "times_ns"}``: time outside the layers, cycled through | ``[]`` |
| ``turns`` | true: the profiler also times ordinary inferences, in turns with the profiled ones | absent |
| ``speeds`` | a list of ``[ns, percent]``: from that reading of the session's clock on, an inference, a prompt or a new token takes this share of its time | ``[]`` |
| ``graph`` | operators and tensors that the format's reader tells (`edgewise.model.readers.fake`) | absent |
| ``outputs_value`` | a number, or a list with one number per output, that fills the outputs | a mix of the inputs |
| ``generation`` | makes text: ``{"token_ns", "prefill_ns", "encode_ns", "decode_ns", "tokens", "depth", "other_from", "kv_cache_type", "beginning", "end", "log_probabilities", "distributions"}``: times of new tokens, cycled through, of each token of a prompt, of making tokens of text and text of tokens; how many tokens it makes, whatever was asked; the depth that it takes; from which new token on others are made, unless the prompt begins with an a; tokens before each text, the token that ends one, and the log-probability of each token, by its number, halved behind the token 0; and rows with the log-probabilities of all tokens, cycled through by the number of the token before | absent |
| ``states`` | names of states: each inference adds the number of inferences since the last reset to the outputs | absent |
| ``effective`` | an object that is added to what the session says came into force | ``{}`` |
| ``behaviour`` | ``{"at", "after", "do", "touch"}``: when to misbehave and how, and a file made as it begins | absent |

``at`` is one of import, load, first (inference), invoke (any inference but the first, once `after` of those have ended),
outputs and profile; ``do`` is one of `edgewise.runtime.fake_script.DEEDS`. The import knows no model: what is to happen there happens when loading begins,
unless the environment variable ``EDGEWISE_FAKE_MODEL`` names the file.
"""  # noqa: E501

from __future__ import annotations

import heapq
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, cycle, pairwise
from pathlib import Path
from statistics import median
from typing import Any

from edgewise.model.signature import Dimension, TensorSpec, shapes_fit
from edgewise.registry import Availability
from edgewise.runtime.arrays import check_dtypes, closed, fixed_shape_message, own_copies, shapes_in_order
from edgewise.runtime.base import EngineNode, EngineOverhead, EngineProfile, LoadOptions, Provider, UnsupportedModel
from edgewise.runtime.fake_script import GENERATION, FakeBehaviour, read_script, read_spec
from edgewise.runtime.profiler_cost import Alternation, Timed, take_turns

VERSION = "1"
LETTERS = "abcdefghijklmnopqrstuvwxyz "
"""The tokens of a model that makes text."""


class FakeClock:
    """A clock that moves only by its methods.

    Attributes:
        now: ns.
        tick: what a reading takes, ns.
    """

    def __init__(self, now: int = 0, *, tick: int = 0) -> None:
        self.now = now
        self.tick = tick

    def __call__(self) -> int:
        """Now, ns; afterwards it is `tick` later."""
        now = self.now
        self.now += self.tick
        return now

    def advance(self, nanoseconds: int) -> None:
        """Let time pass."""
        self.now += nanoseconds

    def sleep(self, seconds: float) -> None:
        """Let that much time pass, without waiting."""
        self.now += round(seconds * 1e9)


class FakeRuntime:
    """The fake engine. It is never part of a sweep unless it is named or its own format is."""

    name = "fake"
    title = "Fake engine"
    formats: Sequence[str] = ("fake",)
    providers: Sequence[Provider] = (Provider(name="cpu", title="Fake", precisions=("f32", "bf16", "f16")),)
    in_default = False
    language_formats = frozenset(formats)

    def __init__(self) -> None:
        self._imported = False

    def availability(self) -> Availability:
        """Return that it is always there."""
        return Availability(True, version=VERSION)

    def import_engine(self) -> str:
        """Misbehave as the file named by ``EDGEWISE_FAKE_MODEL`` says, if there is one."""
        path = os.environ.get("EDGEWISE_FAKE_MODEL")
        if path and not self._imported:
            self._imported = True
            FakeBehaviour(read_script(Path(path))).happen("import")
        return VERSION

    def load(self, path: Path, options: LoadOptions) -> FakeSession:
        """Return a session that follows the script at `path`.

        Any leading dimension is taken, as engines that resize do; other dimensions must be the script's. Raises
        `InvalidModel` for a file that is no script, `UnsupportedModel`, or what the script says.
        """
        script = read_script(path)
        behaviour = FakeBehaviour(script)
        if not self._imported:
            behaviour.happen("import")
        behaviour.happen("load")
        if options.provider != "cpu":
            raise UnsupportedModel(f"the fake engine has no provider {options.provider!r} (it has: cpu)")
        return FakeSession(script, behaviour, options)


class FakeSession:
    """A scripted model. Attributes as in `edgewise.runtime.base.Session`; it has a clock of its own.

    The methods of optional protocols are there only where the script has their key.
    """

    def __init__(self, script: Mapping[str, Any], behaviour: FakeBehaviour, options: LoadOptions) -> None:
        inputs = tuple(map(read_spec, script["inputs"]))
        check_dtypes(inputs)
        wanted = shapes_in_order([(spec.name,) for spec in inputs], options.shapes)
        self.inputs: Sequence[TensorSpec] = tuple(map(_resolve, inputs, wanted))
        self.outputs: Sequence[TensorSpec] = _resolve_outputs(script["outputs"], inputs, self.inputs)
        check_dtypes((), self.outputs)
        self.clock = FakeClock(script["import_ns"] + script["load_ns"], tick=script["tick_ns"])
        self.sleep = self.clock.sleep
        self.invoke: Callable[[], object] = closed
        self._script = script
        self._engine_latency = 0
        if "reference_ns" in script:
            self.time_reference = partial(_reference_reading, cycle(script["reference_ns"]))
        self._engine_latencies = cycle(script.get("engine_latency_ns", ()))
        if "engine_latency_ns" in script:
            self.engine_latency_ns = lambda: self._engine_latency
        if "requests" in script:
            self.run_many = self._run_many
        self._since_reset = 0
        if "states" in script:
            self.states = tuple(script["states"])
            self.reset_state = self._reset_state
        if "generation" in script:
            told = {**GENERATION, **script["generation"]}
            self.vocabulary, self.kv_cache_type = len(LETTERS), told.get("kv_cache_type")
            self.encode, self.decode = partial(self._encode, told), partial(self._decode, told)
            self.fill, self.generate = partial(self._fill, told), partial(self._generate, told, cycle(told["token_ns"]))
            self.beginning, self.ends = told["beginning"], () if told["end"] is None else (told["end"],)
            self.log_probabilities = partial(self._log_probabilities, told["log_probabilities"])
            if rows := told["distributions"]:
                self.all_log_probabilities = partial(self._all_log_probabilities, rows)
        if "layers" in script and options.profile:
            self.profile_layers = self._profile_layers
        self._latencies: Iterator[int] = chain(script["warmup_ns"], cycle(script["latency_ns"]))
        self._value = script["outputs_value"]
        self._behaviour = behaviour
        self._arrays: list[Any] = []
        self._results: list[Any] = []
        self._requests = max(1, options.requests or options.streams or script.get("requests", 1))
        self.effective: Mapping[str, Any] = {
            "provider": "cpu", "precision": options.precision or "f32", "threads": options.threads,
            "streams": options.streams, "requests": self._requests if "requests" in script else 1,
        } | dict(script["effective"])  # fmt: skip

    def bind(self, arrays: Sequence[Any]) -> None:
        """Keep a copy of one array per input. Raises ValueError where they don't fit."""
        self._arrays = own_copies(arrays, self.inputs)
        self._results = []
        self.invoke = self._infer

    def read_outputs(self) -> Sequence[Any]:
        """Return copies of the outputs of the last inference."""
        import numpy as np

        self._behaviour.happen("outputs")
        not_finite = self._behaviour.not_finite
        return [
            np.full_like(array, np.nan) if not_finite and array.dtype.kind == "f" else array.copy()
            for array in self._results
        ]

    def close(self) -> None:
        """Forget everything."""
        self.invoke = closed
        self._arrays, self._results = [], []

    def _infer(self) -> None:
        self._begin()
        self.clock.advance(self._slowed(next(self._latencies)))

    def _encode(self, told: Mapping[str, Any], text: str) -> list[int]:
        self.clock.advance(told["encode_ns"])
        return [LETTERS.find(letter) % len(LETTERS) for letter in text]

    def _decode(self, told: Mapping[str, Any], tokens: Sequence[int]) -> str:
        self.clock.advance(told["decode_ns"])
        return "".join(LETTERS[token] for token in tokens)

    def _fill(self, told: Mapping[str, Any], tokens: Sequence[int], *, room: int = 0) -> None:
        if len(tokens) > told["depth"]:
            raise UnsupportedModel("the fake engine can't go on from a prompt")
        self.clock.advance(told["prefill_ns"] * len(tokens))

    def _generate(
        self,
        told: Mapping[str, Any],
        times: Iterator[int],
        tokens: Sequence[int],
        count: int,
        take: Callable[[int], None],
    ) -> None:
        self._behaviour.invoked()
        self.clock.advance(self._slowed(told["prefill_ns"] * len(tokens)))
        made = count if told["tokens"] < 0 else told["tokens"]
        for number in range(made):
            if number:
                self.clock.advance(self._slowed(next(times)))
            other = number >= told["other_from"] and tokens[0] != 0
            take((number + other) % len(LETTERS))

    def _log_probabilities(self, scripted: Sequence[float], tokens: Sequence[int]) -> list[float]:
        """By each token's number, and half as much behind the token 0, so that the order counts."""
        self._behaviour.invoked()
        pairs = pairwise(tokens)
        return [scripted[token % len(scripted)] / (1 if before else 2) for before, token in pairs]

    def _all_log_probabilities(self, rows: Sequence[Any], tokens: Sequence[int]) -> list[Any]:
        """By the number of the token before."""
        return [rows[token % len(rows)] for token in tokens[:-1]]

    def _slowed(self, nanoseconds: int) -> int:
        """Return what takes this time by the script takes just now."""
        percents = [percent for begin, percent in self._script["speeds"] if begin <= self.clock.now]
        return nanoseconds * percents[-1] // 100 if percents else nanoseconds

    def _reset_state(self) -> bool:
        self._since_reset = 0
        return True

    def _begin(self) -> None:
        self._behaviour.invoked()
        if "states" in self._script:
            self._results = []
        if not self._results:
            self._results = [self._make(index, spec) for index, spec in enumerate(self.outputs)]
            if "states" in self._script:
                self._results = [array + array.dtype.type(self._since_reset) for array in self._results]
        self._since_reset += 1
        self._engine_latency = next(self._engine_latencies, 0)

    def _make(self, index: int, spec: TensorSpec) -> Any:
        """One output: the scripted value, else the inputs' sum plus each element's index, wrapped into small types."""
        import numpy as np

        shape = tuple(size for size in spec.shape or () if isinstance(size, int))
        value = self._value[index] if isinstance(self._value, list) else self._value
        if value is not None:
            return np.full(shape, value, dtype=spec.dtype)
        total = sum(float(np.sum(array, dtype=np.float64)) for array in self._arrays)
        mixed = (np.arange(int(np.prod(shape, dtype=np.int64))) + total).reshape(shape)
        if np.dtype(spec.dtype).kind in "iu":
            mixed = np.mod(np.floor(mixed), 128)
        return mixed.astype(spec.dtype)

    def _run_many(
        self, *, clock: Callable[[], int], until_ns: int | None, count: int | None, completions: list[int]
    ) -> None:
        """Begin the request again that ends first; the script's times are dealt out in that order."""
        if until_ns is None and count is None:
            raise ValueError("neither an end time nor a number of inferences given")
        ends: list[int] = []
        begun = 0

        def may_begin() -> bool:
            return (count is None or begun < count) and (until_ns is None or clock() < until_ns)

        while ends or may_begin():
            while len(ends) < self._requests and may_begin():
                self._begin()
                heapq.heappush(ends, self.clock.now + next(self._latencies))
                begun += 1
            self.clock.now = max(self.clock.now, heapq.heappop(ends))
            completions.append(clock())

    def _profile_layers(self, inferences: int) -> EngineProfile:
        """Return the script's times; the clock moves by all of them. Raises what the script says."""
        self._behaviour.happen("profile")
        scripted, named = self._script["layers"], self._script.get("layer_overheads", [])
        scripts = [cycle(part["times_ns"]) for part in (*scripted, *named)]
        rows: list[list[int]] = []

        def profiled(count: int) -> list[Timed]:
            times = []
            for _ in range(count):
                begin = self.clock()
                rows.append([self._slowed(next(script)) for script in scripts])
                self.clock.advance(sum(rows[-1]))
                times.append((self.clock() - begin, 0))
            return times

        if self._script.get("turns"):
            turns = take_turns(self.invoke, profiled, inferences, clock=self.clock)
        else:
            turns = Alternation(walls=[wall for wall, _ in profiled(inferences)], counted=list(range(inferences)))
        columns = list(zip(*(rows[at] for at in turns.counted), strict=True))
        layers, overheads = columns[: len(scripted)], columns[len(scripted) :]
        # Overheads come after the layers, so that these begin where the ones before them end.
        starts = [[sum(column[:place]) for column in zip(*layers, strict=True)] for place in range(len(layers))]
        return EngineProfile(
            method="the script's own times",
            resolution_ns=1,
            truncates=False,
            nodes=tuple(map(_node, scripted, layers, starts)),
            overheads=tuple(
                EngineOverhead(name=overhead["name"], times_ns=tuple(map(float, times)))
                for overhead, times in zip(named, overheads, strict=True)
            ),
            **turns.as_times(),
        )


def _reference_reading(times: Iterator[int]) -> dict[str, float]:
    seconds = next(times) / 1e9
    return {"at": time.time(), "compute_s": seconds, "copy_s": seconds}


def _node(layer: Mapping[str, Any], times: Sequence[int], starts: Sequence[int]) -> EngineNode:
    return EngineNode(
        name=layer["name"], op=layer.get("op", ""), times_ns=tuple(map(float, times)),
        role=layer.get("role", "operator"), kinds=tuple(layer.get("kinds", ())),
        originals=tuple(layer.get("originals", ())), inputs=tuple(layer.get("inputs", ())),
        outputs=tuple(layer.get("outputs", ())), start_ns=float(median(starts)), provider=layer.get("provider"),
        dtype=layer.get("dtype"),
    )  # fmt: skip


def _resolve(spec: TensorSpec, wanted: tuple[int, ...] | None) -> TensorSpec:
    """`spec` with its concrete shape. Raises `UnsupportedModel` where more than the leading dimension differs."""
    own = spec.shape or ()
    if wanted is None:
        return TensorSpec(name=spec.name, shape=tuple(_size(size) for size in own), dtype=spec.dtype)
    if len(own) != len(wanted) or not shapes_fit(own[1:], wanted[1:]):
        raise UnsupportedModel(fixed_shape_message(spec.name, own, wanted))
    return TensorSpec(name=spec.name, shape=wanted, dtype=spec.dtype)


def _size(size: Dimension) -> int:
    return size if isinstance(size, int) else 1


def _resolve_outputs(
    entries: Sequence[Any], scripted: Sequence[TensorSpec], concrete: Sequence[TensorSpec]
) -> tuple[TensorSpec, ...]:
    """Return outputs whose named dimensions, and leading one where an input's was changed, follow the inputs."""
    named: dict[str, int] = {}
    leading: dict[Dimension, int] = {}
    for before, after in zip(scripted, concrete, strict=True):
        pairs = list(zip(before.shape or (), map(_size, after.shape or ()), strict=True))
        named |= {name: size for name, size in pairs if isinstance(name, str)}
        leading |= dict(pairs[:1])
    outputs = []
    for spec in map(read_spec, entries):
        shape = [named.get(size, 1) if isinstance(size, str) else _size(size) for size in spec.shape or ()]
        if spec.shape and spec.shape[0] in leading:
            shape[0] = leading[spec.shape[0]]
        outputs.append(TensorSpec(name=spec.name, shape=tuple(shape), dtype=spec.dtype))
    return tuple(outputs)
