"""The cells of a suite: every combination of its axes, each with the request that carries it out."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from itertools import islice, product
from pathlib import Path
from typing import Any

from edgewise.device.devices import LOCAL
from edgewise.errors import BadInput, Unavailable, name_fields
from edgewise.folders import MODELS
from edgewise.model.callable_loader import is_factory
from edgewise.model.identity import open_model
from edgewise.record import SCHEMA
from edgewise.registry import availability_of
from edgewise.run.language_models import check_room
from edgewise.runtime.base import runtimes
from edgewise.text import listing
from edgewise.verbs.bench.request import BenchRequest
from edgewise.verbs.option import Option
from edgewise.verbs.request import Request, absolute
from edgewise.verbs.sweep.suite import AXES, Place, SuiteFile
from edgewise.verbs.verb import VERBS, Verb

ZOO = "zoo:"
Options = tuple[tuple[str, tuple[str, ...]], ...]
"""Names of options and their values."""
_GLOB = "*?["
NEAR = 0.75
"""The least likeness (of `difflib`) of a name to one that it may have been meant for."""
_MORE = "⟦most_cells⟧ allows more"
_NO, _YES = ("false", "no", "off", "0"), ("true", "yes", "on", "1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One combination.

    Attributes:
        model: as the suite names it; a pattern is replaced by each file that matches it.
        device, runtime, threads, precision: "" where the suite leaves it to the verb.
        options: name of an option → its values.
        repeat: from 0.
        number: its place in the suite, from 0; cells are carried out in another order.
    """

    model: str
    device: str
    runtime: str = ""
    threads: str = ""
    precision: str = ""
    options: Options = ()
    repeat: int = 0
    number: int = field(default=0, compare=False)

    @property
    def place(self) -> str:
        """``"pi4, onnxruntime, 2 threads"``: where and how, without the model."""
        return name_place(self.device, self.runtime, words_of_threads(self.threads), self.precision)

    @property
    def name(self) -> str:
        """``"mbv2.onnx on pi4, onnxruntime, 2 threads"``."""
        return f"{self.model} on {self.place}{f', repeat {self.repeat + 1}' if self.repeat else ''}"

    def has(self, wanted: Mapping[str, str]) -> bool:
        """Whether its axes match those of `wanted`, which may be patterns."""
        return all(fnmatchcase(getattr(self, axis), pattern) for axis, pattern in wanted.items())


def words_of_threads(threads: int | str | None) -> str:
    """``"2 threads"``; "" where their number is not known."""
    return f"{threads} thread{'s' if str(threads) != '1' else ''}" if threads else ""


def name_place(device: str, runtime: str, *settings: str) -> str:
    """``"onnxruntime, 2 threads"``: this machine is named only without a runtime, and what is "" never."""
    return ", ".join(filter(None, ("" if device == LOCAL and runtime else device, runtime, *settings)))


def cells_of(file: SuiteFile, most: int) -> list[Cell]:
    """All cells, in the order in which they are carried out: device by device.

    Raises:
        BadInput: a pattern that no file matches, an unknown runtime or axis, no cells, or more than `most`.
    """
    suite = file.suite
    for at, name in enumerate(suite.runtimes):
        try:
            runtimes().get(name.partition("/")[0])
        except Unavailable as error:
            raise file.error(("runtimes", at), *error.marked) from None
    models = [name for at, one in enumerate(suite.models) for name in _files(file, ("models", at), one, most)]
    axes = (models, suite.devices, suite.runtimes or ("",), [str(count) for count in suite.threads] or ("",),
            suite.precisions or ("",))  # fmt: skip
    number = suite.repeats
    for values in axes:
        number *= len(values)
    if number > most:
        raise _too_many(file, (), number, most)
    options = tuple(suite.options.items())
    cells = [_cell(dict(zip(AXES, values, strict=True)), options) for values in product(*axes)]
    for at, entry in enumerate(suite.exclude):
        _check_axes(file, ("exclude", at), entry)
        cells = [cell for cell in cells if not cell.has(entry)]
    cells = _included(file, cells)
    if len(cells) * suite.repeats > most:
        raise _too_many(file, ("include",), len(cells) * suite.repeats, most)
    if not cells:
        raise file.error(("exclude",), "no cell is left", "exclude fewer")
    repeated = [replace(cell, repeat=repeat) for repeat in range(suite.repeats) for cell in cells]
    numbered = [replace(cell, number=number) for number, cell in enumerate(dict.fromkeys(repeated))]
    return list(_in_order(numbered, suite.order == "random", suite.seed))


def _too_many(file: SuiteFile, place: Place, number: int, most: int) -> BadInput:
    return file.error(place, f"it has {number:,} cells, more than {most:,}", _MORE)


def _files(file: SuiteFile, place: tuple[str, int], name: str, most: int) -> list[str]:
    """Return `name`, or the files that match it as a pattern.

    Raises `BadInput` where these are more than `most`, and for an unknown reference network.
    """
    if name.startswith(ZOO):
        read_zoo_name(file, name, place)
    if name.startswith(ZOO) or not any(mark in name for mark in _GLOB):
        return [name]
    folder = file.path.parent
    pattern = Path(name)
    root, relative = (
        (Path(pattern.anchor), pattern.relative_to(pattern.anchor)) if pattern.anchor else (folder, pattern)
    )
    shown = (path for path in root.glob(str(relative)) if not path.name.startswith(".") and not _is_beside(path))
    found = sorted(islice(shown, most + 1))  # of a million files the others are not looked at
    if not found:
        raise file.error(place, f"no file matches {name}", f"paths count from {folder.absolute()}")
    if len(found) > most:
        raise file.error(place, f"more files match {name} than the {most:,} cells allowed", _MORE)
    return [str(path if pattern.anchor else path.relative_to(folder)) for path in found]


def _is_beside(path: Path) -> bool:
    """Whether a file lies beside models: how they are fed, or where they come from."""
    return path.name.endswith((".yaml", ".yml", ".provenance.json"))


def _check_axes(file: SuiteFile, place: tuple[str, int], entry: Mapping[str, Any]) -> None:
    if unknown := [name for name in entry if name not in AXES]:
        raise file.error((*place, unknown[0]), f"{unknown[0]!r} is no axis", f"one of: {', '.join(AXES)}")


def _included(file: SuiteFile, cells: list[Cell]) -> list[Cell]:
    """`cells` with the options of each entry where a cell has its axes; with one cell more where none has."""
    indexes: dict[tuple[str, ...], dict[tuple[str, ...], list[int]]] = {}  # axes → their values → places in `cells`

    def matching(axes: Mapping[str, str]) -> Sequence[int]:
        if any(mark in text for text in axes.values() for mark in _GLOB):
            return [place for place, cell in enumerate(cells) if cell.has(axes)]
        index = indexes.get(tuple(axes))
        if index is None:
            index = indexes[tuple(axes)] = {}
            for place, cell in enumerate(cells):
                index.setdefault(tuple(getattr(cell, name) for name in axes), []).append(place)
        return index.get(tuple(axes.values()), ())

    for at, entry in enumerate(file.suite.include):
        axes = {name: " ".join(values) for name, values in entry.items() if name in AXES}
        options = tuple((name, values) for name, values in entry.items() if name not in AXES)
        if places := matching(axes):
            for place in places if options else ():
                cells[place] = replace(cells[place], options=(*cells[place].options, *options))
            continue
        if "model" not in axes:
            problem = "no cell has these axes, and a new cell needs a model"
            raise file.error(("include", at), problem, "add model: FILE")
        cells.append(_cell({"device": LOCAL, **axes}, (*file.suite.options.items(), *options)))
        for names, index in indexes.items():
            index.setdefault(tuple(getattr(cells[-1], name) for name in names), []).append(len(cells) - 1)
    return cells


def _cell(axes: Mapping[str, str], options: Options) -> Cell:
    return Cell(options=options, **axes)  # type: ignore[arg-type]  # the names are those of AXES, all of them texts


def _in_order(cells: Sequence[Cell], shuffled: bool, seed: int) -> Iterator[Cell]:
    """Device by device in the order of the suite; the cells of one shuffled, repeat by repeat."""
    chance = random.Random(seed)  # noqa: S311 - an order, no secret
    for device in dict.fromkeys(cell.device for cell in cells):
        block = [cell for cell in cells if cell.device == device]
        if shuffled:
            chance.shuffle(block)
            block.sort(key=lambda cell: cell.repeat)
        yield from block


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model of a suite.

    Attributes:
        identity: tells it from others: the hash of a file, or the text that names a function or a network.
        format: "" for a function.
        is_file: whether `identity` is the hash of a file.
    """

    identity: str
    format: str
    is_file: bool = False


@dataclass(kw_only=True)
class Requests:
    """Makes and identifies the requests of cells.

    Requests of cells that differ in their model alone are checked once.

    Attributes:
        in_lab: whether the hosts of a lab carry the cells out.
    """

    file: SuiteFile
    store: str | None
    folder: Path
    in_lab: bool = False
    _checked: dict[Cell, Request] = field(default_factory=dict)
    _digests: dict[Cell, str] = field(default_factory=dict)

    @cached_property
    def verb(self) -> Verb:
        """The suite's verb. Raises `BadInput` where there is none of this name, or it takes no model."""
        name = self.file.suite.verb
        if name not in VERBS.names():
            raise self.file.error(("verb",), f"{name!r} is not a verb", f"one of: {', '.join(VERBS.names())}")
        verb = VERBS.get(name)
        if next((one.name for one in verb.all_options() if not one.flags), "") not in ("model", "models"):
            raise self.file.error(("verb",), f"{name} does not begin with a model", "one that does: bench, evaluate")
        if all(one.name != "device" for one in verb.all_options()):
            raise self.file.error(("verb",), f"{name} measures nothing on devices", "one that does: bench, evaluate")
        return verb

    @cached_property
    def _options(self) -> Mapping[str, Option]:
        """The options of the verb by their names, its arguments among them, in their order."""
        return {one.name: one for one in self.verb.all_options()}

    def check(self, cell: Cell) -> Request:
        """Return the request of `cell` with some cell's model. Raises `BadInput`, which names the line."""
        common = replace(cell, model="", repeat=0)
        if common not in self._checked:
            self._checked[common] = self._make(cell)
        return self._checked[common]

    def request(self, cell: Cell) -> Request:
        """Return what carries `cell` out, with absolute paths; a reference network is written first.

        Raises `BadInput`, which names the line, and `Unavailable`.
        """
        request = self.check(cell)
        several = "models" in type(request).model_fields
        named = self._model_path(cell.model)
        return request.model_copy(update={"models": (named,)} if several else {"model": named})

    def key(self, cell: Cell, model: Model) -> str:
        """16 hex digits: of the model's content, the request without it, the engines' versions, and the repeat.

        Of a cell on another device, or of a lab, the versions are not known before it is measured, and not part of it.
        """
        common = replace(cell, model="", repeat=0)
        if common not in self._digests:
            request = self.check(cell)
            document = request.with_changed_paths(lambda path: Path(path).name).to_document()
            document |= {"models": None, "model": None, "record": SCHEMA, "options": cell.options}
            here = cell.device == LOCAL and not self.in_lab
            document |= {"versions": versions_of_engines(cell.runtime) if here else None}
            paths = dict.fromkeys(type(request).PATHS)  # their texts are among the options
            self._digests[common] = hashlib.sha256(json.dumps(document | paths, sort_keys=True).encode()).hexdigest()
        whole = f"{self._digests[common]} {model.identity} {cell.repeat}"
        return hashlib.sha256(whole.encode()).hexdigest()[:16]

    def check_room(self, name: str, cells: Sequence[Cell]) -> None:
        """Refuse a language model that has no room in the memory of any of its `cells`, before its file is hashed.

        Raises `BadInput`, and `BadModel` for what is no model.
        """
        path = absolute(name, self.file.path.parent.absolute())
        targets = [each.target() for each in map(self.check, cells)
                   if isinstance(each, BenchRequest) and each.scenario == "generate"]  # fmt: skip
        if self.in_lab or name.startswith(ZOO) or is_factory(path) or len(targets) < len(cells):
            return
        refused: BadInput | None = None
        for target in targets:
            try:
                return check_room(path, target)
            except BadInput as error:
                refused = error
        if refused is not None:
            raise refused

    def model(self, name: str) -> Model:
        """Return what a model is now. Raises `BadInput` and `BadModel` for one that can't be read."""
        if name.startswith(ZOO):
            return Model(identity=name, format=zoo_format(name))
        path = absolute(name, self.file.path.parent.absolute())
        if not is_factory(path):
            ref = open_model(path).ref
            return Model(identity=ref.sha256, format=ref.format, is_file=True)
        code = Path(path.rpartition(":")[0])
        content = hashlib.sha256(code.read_bytes()).hexdigest() if code.is_file() else ""
        return Model(identity=f"{name} {content}", format="")

    def _model_path(self, model: str) -> str:
        if not model.startswith(ZOO):
            return absolute(model, self.file.path.parent.absolute())
        return str(zoo_file(self.file, model, self.folder / MODELS))

    def _make(self, cell: Cell) -> Request:
        values = {name: None if one.default is ... else one.default for name, one in self._options.items()}
        model = next(one for one in self._options.values() if not one.flags)
        values[model.name] = [cell.model] if model.repeatable else cell.model
        values["store"] = self.store
        given = [(axis, (getattr(cell, axis),)) for axis in AXES[1:] if getattr(cell, axis)]
        for name, texts in (*given, *cell.options):
            option = self._option(name)
            values[option.name] = self._value(option, texts, name)
        try:
            return self.verb.read(values).with_paths_from(self.file.path.parent.absolute())
        except BadInput as error:
            named = {self._option(name).name: name for name, _ in (*given, *cell.options)}

            def name_in_file(field: str, value: str | None = None) -> str:
                option = self.verb.option_of(field)
                name = named.get(option.name, option.name) if option else field
                return name if value is None else f"{name}: {value}"

            place = _place_of(name_in_file(error.field))
            name_fields(error, name_in_file)
            raise self.file.error(place, error.message, error.advice) from None

    def _option(self, name: str) -> Option:
        """Return the option of the verb that is called so. Raises `BadInput`."""
        wanted = name.replace("-", "_")
        option = self._options.get(wanted)
        if option is None or not option.flags:
            raise self._unknown(name)
        return option

    def _unknown(self, name: str) -> BadInput:
        """Return the error of an option that the verb lacks; other verbs may have it."""
        verb, wanted = self.verb.name, name.replace("-", "_")
        near = get_close_matches(wanted, [one.name for one in self._options.values() if one.flags], 1, NEAR)
        advice = f"did you mean {near[0]}?" if near else f"'edgewise {verb} --help-all' lists its options"
        others = [one.name for _, one in VERBS if any(each.name == wanted and each.flags for each in one.all_options())]
        which = f", which is one of {listing(others)}" if others and not near else ""
        return self.file.error(_place_of(name), f"{verb} has no option {name!r}{which}", advice)

    def _value(self, option: Option, texts: Sequence[str], name: str) -> Any:
        place = _place_of(name)
        if len(texts) > 1 and not option.repeatable:
            raise self.file.error(place, f"{name} takes one value, not {len(texts)}")
        if option.kind is bool:
            if texts[0].lower() not in (*_NO, *_YES):
                raise self.file.error(place, f"{name} is true or false, not {texts[0]!r}")
            return texts[0].lower() in _YES
        try:
            found = [option.convert(text) for text in texts]
        except BadInput as error:
            raise self.file.error(place, f"{name} {error.message}", error.advice) from None
        return found if option.repeatable else found[0]


def _place_of(name: str) -> tuple[str, ...]:
    """Where a suite has the values of an axis or an option."""
    return (f"{name}s",) if name in AXES else ("options", name)


@lru_cache
def versions_of_engines(runtime: str) -> Mapping[str, str | None]:
    """Return the installed version of the engine `runtime`, or of all engines."""
    registry = runtimes()
    names = [runtime.partition("/")[0]] if runtime else registry.names()
    return {name: availability_of(registry.get(name)).version for name in names if name in registry.names()}


def unreadable(runtime: str, form: str) -> str:
    """Why a runtime can't read models of a format; "" where it can, or where that is not known."""
    name = runtime.partition("/")[0]
    formats = _formats(name)
    return f"{name} does not read {form}" if form and formats is not None and form not in formats else ""


@lru_cache
def _formats(runtime: str) -> Sequence[str] | None:
    registry = runtimes()
    return registry.get(runtime).formats if runtime in registry.names() else None


def zoo_format(model: str) -> str:
    """Return the format in which ``zoo:NAME`` is written: ONNX, unless the name ends with ``.tflite``."""
    return "tflite" if model.removeprefix(ZOO).partition("@")[0].endswith(".tflite") else "onnx"


def read_zoo_name(file: SuiteFile, model: str, place: tuple[str | int, ...]) -> tuple[str, float]:
    """Return network and width of ``zoo:NAME@WIDTH``. Raises `BadInput`, which names the line."""
    from edgewise.zoo.networks import find

    name, _, width = model.removeprefix(ZOO).partition("@")
    try:
        return find(name.removesuffix(f".{zoo_format(model)}")).name, float(width or 1)
    except ValueError:
        raise file.error(place, f"the width of {model} is not a number", "such as zoo:NAME@0.5") from None
    except BadInput as error:
        raise file.error(place, *error.marked) from None


def zoo_file(file: SuiteFile, model: str, folder: Path) -> Path:
    """Return the file of ``zoo:NAME@WIDTH`` in `folder`, where it is written first.

    Raises `BadInput`, `Unavailable`.
    """
    from edgewise.verbs.zoo.work import build

    place = ("models", next((at for at, one in enumerate(file.suite.models) if one == model), 0))
    name, width = read_zoo_name(file, model, place)
    try:
        (path,) = build([name], folder, width=width, format=zoo_format(model))
    except BadInput as error:
        raise file.error(place, *error.marked) from None
    return path
