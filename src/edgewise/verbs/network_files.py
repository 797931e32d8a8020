"""One network that a function builds, as files for every engine: each engine gets the file of its best export path."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from edgewise.converting.base import TARGETS, Converted, ConvertOptions
from edgewise.converting.conversion import convert_model
from edgewise.converting.paths import KERAS_MODEL, MODULE, paths_from, reachable_from
from edgewise.device.devices import LOCAL
from edgewise.errors import EdgewiseError, RunFailed, Unavailable
from edgewise.model.build_network import BuiltModel, make_inputs
from edgewise.model.eager import example_inputs, read_document, write_eager
from edgewise.model.identity import open_model
from edgewise.progress import StageStarted, emit
from edgewise.record import Origin, TargetSpec
from edgewise.registry import Availability, Registry
from edgewise.run.facts import availability_at
from edgewise.run.plan import NetworkFile, is_default
from edgewise.runtime.base import Runtime
from edgewise.silence import silenced

KINDS = {"torch": MODULE, "exported": MODULE, "keras": KERAS_MODEL}
"""Kind of a built network → kind of source for converters; a function's other results are files already."""
_ORIGINAL = {MODULE: "eager", KERAS_MODEL: "keras"}
"""Kind of source → the format in which its own framework runs it."""


@dataclass(slots=True, kw_only=True)
class NetworkExports:
    """The files of one network, each made once, when the first engine needs it.

    Attributes:
        target: the function that built the network.
        name: of the network, as records have it.
        formats: format → whether it can be made, the original's first; an engine gets the first format that it reads.
        original: the format in which the network's own framework runs it.
        export: makes the file of a format. Raises `EdgewiseError`.
        identity: SHA-256 of the network; None takes that of its first file.
        input_data: as in `edgewise.run.plan.NetworkFile`.
    """

    target: str
    name: str
    formats: Mapping[str, Availability]
    original: str
    export: Callable[[str], Converted]
    identity: str | None = None
    input_data: Path | None = None
    _made: dict[str, Converted | str] = field(default_factory=dict)

    def make(self, form: str) -> Converted | str:
        """Return the file of a format, or why there is none."""
        if form not in self._made:
            self._made[form] = self._try(form)
        return self._made[form]

    def _try(self, form: str) -> Converted | str:
        availability = self.formats[form]
        if not availability:
            return availability.reason + (f" ({availability.install_hint})" if availability.install_hint else "")
        title = f"Storing the weights of {self.name}" if form == "eager" else f"Exporting {self.name} to {form}"
        emit(StageStarted(title=title))
        try:
            with silenced():
                return self.export(form)
        except EdgewiseError as error:
            return error.message

    def files(
        self, words: Sequence[str], registry: Registry[Runtime], target: TargetSpec, *, with_tools: bool
    ) -> tuple[list[NetworkFile], list[str]]:
        """Return the files with the engines that run them, the original first, and a line for each engine that
        runs none.

        Args:
            words: requested engines, as in `edgewise.run.plan.Axes`; empty for every usable one.

        Raises:
            Unavailable: a requested engine is unknown or not installed.
            RunFailed: no engine can run the network.
        """
        runs: dict[str, list[str]] = {}
        left_out: list[str] = []
        for word in words or [name for name, _ in registry]:
            name = word.partition("/")[0]
            runtime = registry.get(name)
            if not (words or is_default(runtime, target, with_tools=with_tools)):
                continue
            forms = [form for form in self.formats if form in runtime.formats]
            if not forms:
                left_out += [f"{word}: {self.name} can't be exported to a format that it reads"] if words else []
            elif not (availability := availability_at(target, name, runtime)):
                if words:
                    raise Unavailable(f"{name} can't be used: {availability.reason}", advice=availability.install_hint)
                left_out.append(f"{word}: {availability.reason} ({availability.install_hint})")
            elif (form := next((each for each in forms if isinstance(self.make(each), Converted)), None)) is not None:
                runs.setdefault(form, []).append(word)
                if forms[0] == self.original != form:
                    left_out.append(f"{word}: {self.make(self.original)}; its export to {form} is measured instead")
            else:
                left_out.append(f"{word}: {'; '.join(dict.fromkeys(str(self.make(each)) for each in forms))}")
        if not runs:
            raise RunFailed(f"no engine can run {self.target}", advice="; ".join(left_out) or "see 'edgewise doctor'")
        return [self._file(form, runs[form]) for form in self.formats if form in runs], left_out

    def _file(self, form: str, words: Sequence[str]) -> NetworkFile:
        made = self._made[form]
        assert isinstance(made, Converted)
        if self.identity is None:
            self.identity = open_model(made.path).ref.sha256
        origin = Origin(
            target=self.target,
            sha256=self.identity,
            steps=made.steps,
            lost=made.lost,
            original=form == self.original,
        )
        return NetworkFile(
            path=made.path, name=self.name, origin=origin, runtimes=tuple(words), input_data=self.input_data
        )


def exports_of(
    built: BuiltModel, folder: Path, *, name: str, target: TargetSpec, shapes: Mapping[str, tuple[int, ...]]
) -> NetworkExports:
    """Return the files that can be made of `built`, in `folder`.

    Args:
        name: of the network, as records have it.
        target: where the files run: a module's code is not sent to other devices.
        shapes: input name → shape; the name "" is the only input.

    Raises:
        BadInput: a PyTorch module has no example inputs and no shapes, or fails on them.
    """
    kind = KINDS[built.made.kind]
    if built.made.kind == "torch":
        inputs = make_inputs(built.made.value, built.made.inputs, shapes, built.target)
        built = replace(built, made=replace(built.made, inputs=inputs))
    words = {TARGETS[word].format: word for word in TARGETS}
    known = paths_from(kind)
    formats = {TARGETS[word].format: known[word] for word in reachable_from(kind)}
    original, input_data = _ORIGINAL[kind], None
    ready: dict[str, Converted] = {}
    unrepeatable: tuple[str, ...] = ()
    if original not in words and built.made.kind == "torch":
        place = folder / original
        place.mkdir()
        # Here and not when an engine needs it: it holds the identity of the network and its inputs.
        ready[original] = Converted(path=write_eager(built, place, name=name), format=original, steps=())
        input_data = example_inputs(ready[original].path)
        if not read_document(ready[original].path)["repeats"]:
            unrepeatable = ("the module's outputs change from call to call, by its state or by chance",)
        here = target.device == LOCAL
        reason = f"the code of {built.target} is not sent to {target.device}"
        formats[original] = Availability(here, "" if here else reason)
    if original in formats:
        formats = {original: formats.pop(original), **formats}

    def export(form: str) -> Converted:
        if form in ready:
            return ready[form]
        if built.unreadable is not None:
            raise built.unreadable
        place = folder / form
        place.mkdir()
        made = convert_model(built, words[form], place, options=ConvertOptions(name=name))
        return replace(made, lost=(*made.lost, *unrepeatable))

    identity = open_model(ready[original].path).ref.sha256 if ready else None
    return NetworkExports(
        target=built.target,
        name=name,
        formats=formats,
        original=original,
        export=export,
        identity=identity,
        input_data=input_data,
    )
