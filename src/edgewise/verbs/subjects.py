"""What the words of ``compare`` and ``gate`` name: models with settings, stored runs, exported files.

A word is ``[NAME=]THING[,key=value…]``. THING is a model file, a stored run (id, its beginning, tag, ``last``,
``last~2``, ``group:ID``) or a file of exported runs; what a file is, its content says. Settings belong to models.
`build_words` makes files of ``FILE.py:function``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.comparing.jobs import AXES, Subject
from edgewise.device.environments import CONTAINER, ENGINES, PYTHON, check_variables, names_of, requirement
from edgewise.errors import BadInput, BadModel, EdgewiseError, StoreError
from edgewise.folders import absolute_path
from edgewise.model.eager import EAGER, IN_MEMORY
from edgewise.model.identity import is_model_folder
from edgewise.model.recognition import PADDLE_JSON
from edgewise.record import Run, TargetSpec
from edgewise.text import one_line

if TYPE_CHECKING:
    from edgewise.run.plan import NetworkFile
    from edgewise.store import Store

SETTINGS = tuple(AXES)
"""The settings that can follow a comma, or be varied with ``--vary``."""

MAX_LABEL = 60
_COUNTS = ("threads", "batch")
PACKAGES = (*ENGINES, PYTHON, CONTAINER)
"""Settings whose values are versions, the path of an interpreter, or images."""
VARIABLE = "env."
"""How a setting begins that is an environment variable."""
_ADVICE = f"NAME=model.onnx,threads=2; settings: {', '.join(SETTINGS)}"
_HEAD_BYTES = 4096
_LABEL = re.compile(r"([^=,/]*)=(.*)", re.DOTALL)
_ENDING = re.compile(r"\.[A-Za-z][A-Za-z0-9]*$")
_ONLY_RUN = re.compile(r"last(~[0-9]+)?|group:.*|all", re.DOTALL)

SettingValue = str | int | tuple[str, ...]


def build_words(
    stack: ExitStack,
    words: Sequence[str],
    *,
    shapes: Mapping[str, tuple[int, ...]],
    runtimes: Sequence[str] = (),
    target: TargetSpec | None = None,
) -> list[list[tuple[str, NetworkFile | None]]]:
    """Of each word itself, or of a ``FILE.py:function`` a word and a file for every format that its engines need.

    Engines are those of a word's own settings, or else `runtimes`: the module as it is for ``runtime=torch/eager``.
    Without any, all words have one file that most engines read. See `edgewise.verbs.factories`.
    """
    from edgewise.run.plan import Axes
    from edgewise.verbs.factories import build_everywhere, build_files

    def build(word: str) -> list[tuple[str, NetworkFile | None]]:
        if (found := _function_in(word)) is None:
            return [(word, None)]
        label, function, settings = found
        own = [part.partition("=")[2].strip() for part in settings.split(",") if part.strip().startswith("runtime=")]
        if engines := own or runtimes:
            axes = Axes(runtimes=tuple(engines), shapes=shapes)
            made, _ = build_everywhere(stack, [function], axes=axes, target=target or TargetSpec(), cases=({},))
            return [
                (_join_word(label, os.fspath(file), settings), None if isinstance(file, str) else file) for file in made
            ]
        (file,) = build_files(stack, [function], shapes=shapes)
        return [(_join_word(label, file, settings), None)]

    return [build(word) for word in words]


def _function_in(word: str) -> tuple[str | None, str, str] | None:
    """Label, ``FILE.py:function`` and settings, where the word names a function and no model's file."""
    from edgewise.model.callable_loader import is_factory

    functions = []
    for label, thing, settings in _readings(word):
        if _is_model(Path(thing)):
            return None
        code = thing.rpartition(":")[0]
        if (code.endswith(".py") or code == IN_MEMORY) and is_factory(thing):
            functions.append((not _is_file(Path(code)), label, thing, settings))
    if not functions:
        return None
    # A file of that name is what is meant; without one the error says that there is none.
    _, label, thing, settings = min(functions, key=lambda each: each[0])
    return label, thing, settings


def functions_of(words: Sequence[str]) -> tuple[str, ...]:
    """Return the ``FILE.py:function`` among `words`."""
    found = [_function_in(word) for word in words]
    return tuple(one[1] for one in found if one is not None)


def with_path_from(word: str, folder: Path) -> str:
    """`word` with an absolute path, which counts from `folder`; a word that names a stored run stays."""
    for label, thing, settings in _readings(word):
        code = thing.rpartition(":")[0]
        if _is_model(folder / thing) or (code.endswith(".py") and _is_file(folder / code)):
            return _join_word(label, str(absolute_path(folder / thing)), settings)
    named = _LABEL.fullmatch(word)
    thing, _, settings = (named[2] if named else word).partition(",")
    if "/" in thing or _ENDING.search(thing):
        return _join_word(named[1] if named else None, str(absolute_path(folder / thing)), settings)
    return word


def _join_word(label: str | None, thing: str, settings: str) -> str:
    return ("" if label is None else f"{label}=") + thing + (f",{settings}" if settings else "")


def read_subjects(
    words: Sequence[str],
    *,
    store: str | Store | None,
    runs: Mapping[str, Run] | None = None,
    arguments: Sequence[int] | None = None,
) -> list[Subject]:
    """Return the subjects that `words` name, in order.

    Args:
        store: where runs are looked up; None is the user's own.
        runs: by id, those that need not be looked up.
        arguments: the position of the argument behind each word; None where every word is one.

    Raises:
        BadInput: a word that is neither a file nor a run, a wrong setting, a doubled label, a file that can't be read
            as runs (one of a newer schema among them).
        StoreError: the store can't be opened or read, and the word looks like a run.
    """
    found: list[Subject] = []
    for index, word in zip(range(len(words)) if arguments is None else arguments, words, strict=True):
        found.extend(_read_word(word, index, store=store, runs=runs or {}))
    seen: dict[str, int] = {}
    for subject in found:
        if subject.label is not None and seen.setdefault(subject.label, subject.argument) != subject.argument:
            raise BadInput(f"two subjects are called {subject.label!r}", advice="give each NAME= once")
    return found


def _read_word(word: str, index: int, *, store: str | Store | None, runs: Mapping[str, Run]) -> list[Subject]:
    if not word.strip():
        raise BadInput("a subject is empty", advice="name a model, a stored run or an exported file")
    for label, thing, settings in _readings(word):
        if _is_model(Path(thing)):
            return _read_file(word, index, label=label, path=Path(thing), settings=settings)
    named = _LABEL.fullmatch(word)
    label, reference = (_read_label(named[1], word), named[2]) if named else (None, word)
    reference, comma, settings = reference.partition(",")
    try:
        named_runs = [runs[reference]] if reference in runs else _look_up(reference, store=store)
    except BadInput as error:
        raise _explain(word, reference, error) from error
    except StoreError as error:
        if not _may_be_file(reference, store=store):
            raise
        raise _explain(word, reference, error) from error
    if comma:
        raise _no_settings(word, settings)
    if not named_runs:
        raise BadInput(f"{reference!r} names no runs: the store is empty", advice="measure a model first")
    alone = len(named_runs) == 1 and not named_runs[0].id.startswith(reference)
    return [
        Subject(thing=run, label=label, argument=index, word=one_line(reference) if alone else "") for run in named_runs
    ]


def _readings(word: str) -> Iterator[tuple[str | None, str, str]]:
    """Every way to read `word` as (label, thing, settings), the longest thing first: paths may contain = and , too."""
    named = _LABEL.fullmatch(word)
    bodies: list[tuple[str | None, str]] = [(None, word), *([(named[1], named[2])] if named else [])]
    for label, body in bodies:
        end = len(body)
        while end > 0:
            yield label, body[:end], body[end + 1 :]
            end = body.rfind(",", 0, end)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name too long for a file, a folder that may not be read
        return False


def _is_model(path: Path) -> bool:
    """Whether `path` is a file or a folder that holds a model; other folders may have the name of a run."""
    try:
        return path.is_file() or is_model_folder(path)
    except (OSError, ValueError):
        return False


def _read_file(word: str, index: int, *, label: str | None, path: Path, settings: str) -> list[Subject]:
    label = None if label is None else _read_label(label, word)
    if path.is_dir() or path.suffix == f".{EAGER}" or not _holds_json(path):
        return [Subject(thing=path, label=label, settings=_read_settings(word, settings), argument=index)]
    from edgewise.store.exchange import import_runs

    if settings:
        raise _no_settings(word, settings)
    runs = import_runs(path)
    if not runs:
        raise BadInput(f"{path} holds no runs", advice="export some with 'edgewise runs export -o F.json'")
    name = one_line(path.name) if len(runs) == 1 else ""
    return [Subject(thing=run, label=label, argument=index, file=path, word=name) for run in runs]


def _holds_json(path: Path) -> bool:
    """Whether the file begins like a JSON document other than Paddle's models. Raises `BadInput`."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError as error:
        raise BadInput(f"can't read {path}: {error.strerror}", advice="check the file's permissions") from error
    if not head:
        raise BadModel(f"{path} is empty", advice="export or download it again")
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[") and not PADDLE_JSON.search(head)


def _read_label(text: str, word: str) -> str:
    label = one_line(text)
    if not label or len(label) > MAX_LABEL:
        raise BadInput(
            f"{word!r} has no usable name", advice=f"1 to {MAX_LABEL} characters before the equals sign: {_ADVICE}"
        )
    return label


def _read_settings(word: str, text: str) -> dict[str, SettingValue]:
    settings: dict[str, SettingValue] = {}
    for part in text.split(",") if text else []:
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise BadInput(f"{word!r}: {part!r} is not key=value", advice=f"for example {_ADVICE}")
        name, setting = _read_setting(key, value, where=repr(word))
        if name == "variables":
            before = settings.get(name, ())
            if isinstance(before, tuple) and not names_of([str(setting)]) & names_of(before):
                settings[name] = (*before, str(setting))
                continue
            name = key
        if name in settings or key.startswith(VARIABLE):
            raise BadInput(f"{word!r} gives {name} twice", advice="to vary a setting: ⟦vary=threads=1,2⟧")
        settings[name] = setting
    return settings


def _read_setting(key: str, value: str, *, where: str) -> tuple[str, SettingValue]:
    """Return the name of a setting and its value; a package with a version names an environment.

    Raises `BadInput` naming `where` it stands.
    """
    if key.startswith(VARIABLE):
        variable = f"{key.removeprefix(VARIABLE)}={value}"
        check_variables([variable])
        return "variables", variable
    if key not in SETTINGS and key not in PACKAGES:
        known = (
            f"settings: {', '.join(SETTINGS)}; env.NAME; python=PATH; container=IMAGE; versions of {', '.join(ENGINES)}"
        )
        raise BadInput(f"{where}: unknown setting {key!r}", advice=known)
    if not value:
        raise BadInput(f"{where}: {key} has no value", advice=f"for example {key}={'2' if key in _COUNTS else 'NAME'}")
    if key in PACKAGES:
        return "environment", requirement(key, value)
    if key not in _COUNTS:
        return key, value
    if not re.fullmatch(r"[0-9]{1,9}", value) or int(value) < 1:
        raise BadInput(f"{where}: {key} {value!r} is not a whole number of 1 or more", advice=f"for example {key}=2")
    return key, int(value)


def _no_settings(word: str, settings: str) -> BadInput:
    return BadInput(
        f"{word!r}: {settings!r} can't be set on a run, which has been measured already",
        advice="settings belong to models: name the model's file",
    )


def _look_up(reference: str, *, store: str | Store | None) -> list[Run]:
    """Return the stored runs that `reference` names. Raises `BadInput`, `StoreError`."""
    if not reference.isprintable():  # bytes that are no text can't be asked for in a database
        raise BadInput(f"there is no run {reference!r}", advice="see 'edgewise runs list'")
    if not (store is None or isinstance(store, str)):
        return list(store.resolve([reference]))
    from edgewise.store import open_store

    with open_store(store, create=False) as opened:
        return list(opened.resolve([reference]))


def _may_be_file(reference: str, *, store: str | Store | None) -> bool:
    """Whether `reference` may be a misspelt file: it looks like one, or there is no store that could hold a run."""
    from edgewise.store.location import find_location

    if _ONLY_RUN.fullmatch(reference):
        return False
    place = find_location(store).path if store is None or isinstance(store, str) else None
    return "/" in reference or bool(_ENDING.search(reference)) or (place is not None and not place.exists())


def _explain(word: str, reference: str, error: EdgewiseError) -> BadModel:
    """Return the one error for a word that is neither a file nor a run."""
    path = Path(reference)
    try:
        what = "a folder, not a model file" if path.is_dir() else "not a readable file"
    except (OSError, ValueError):
        what = "not a readable file"
    named = _LABEL.fullmatch(word)
    advice = f"check the path, or {error.marked.advice or 'name a stored run'}"
    if named and named[1].strip() in SETTINGS:
        advice = f"to vary a setting: ⟦vary={word}⟧; to set it, behind the model: model.onnx,{word}"
    return BadModel(f"{reference!r} is {what}, nor a stored run: {error.marked.message}", advice=advice)


def pair_runs(first: Sequence[Run], second: Sequence[Run]) -> tuple[list[tuple[Run, Run]], list[str]]:
    """Return runs of two arguments matched by what was measured, so that like is compared with like.

    Matched are engine, provider, threads, precision, batch, scenario and device as they were asked for, and the model's
    name where an argument has several models. Of several runs of one kind the newest counts. One run each is a pair.

    Returns:
        The pairs in the order of `first`, and one line on every run without a counterpart or passed over.

    Raises:
        BadInput: no run has a counterpart.
    """
    if len(first) == 1 and len(second) == 1:
        return [(first[0], second[0])], []
    several = any(len({run.job.model.name for run in runs}) > 1 for runs in (first, second))
    notes: list[str] = []
    left, right = (_by_kind(runs, named=several, notes=notes) for runs in (first, second))
    pairs = [(run, right[kind]) for kind, run in left.items() if kind in right]
    if not pairs:
        examples = ", ".join(_describe(run) for run in (*first[:1], *second[:1]))
        raise BadInput(
            f"no run of the first argument has a counterpart in the second ({examples or 'there are none'})",
            advice="matched by engine, provider, threads, precision, batch, scenario and device; or name one run each",
        )
    for runs, others, which in ((left, right, "first"), (right, left, "second")):
        notes += [f"only the {which} has {_describe(run)}" for kind, run in runs.items() if kind not in others]
    return pairs, notes


def _by_kind(runs: Sequence[Run], *, named: bool, notes: list[str]) -> dict[tuple[object, ...], Run]:
    """Return the newest run of each kind."""
    groups: dict[tuple[object, ...], list[Run]] = {}
    for run in runs:
        runtime, workload = run.job.runtime, run.job.workload
        kind = (
            run.job.model.name if named else None,
            runtime.name,
            runtime.provider,
            runtime.threads,
            runtime.precision,
            workload.batch,
            workload.scenario,
            run.job.target.device,
        )
        groups.setdefault(kind, []).append(run)
    found = {kind: max(each, key=_moment) for kind, each in groups.items()}
    notes += [
        f"of {len(each)} runs of {_describe(found[kind])} the newest counts"
        for kind, each in groups.items()
        if len(each) > 1
    ]
    return found


def _moment(run: Run) -> tuple[float, str]:
    from edgewise.store.codec import parse_time

    return parse_time(run.created_at).timestamp(), run.id


def _describe(run: Run) -> str:
    return one_line(run.job.label)


def split_vary(values: Sequence[str] | None) -> dict[str, list[SettingValue]]:
    """``["threads=1,2", "runtime=onnxruntime,openvino"]`` → axis → its values, each once, in order.

    A repeated axis adds to its values. Raises `BadInput` naming ``--vary``.
    """
    found: dict[str, list[SettingValue]] = {}
    for value in values or ():
        key, equals, text = value.partition("=")
        if not equals:
            raise BadInput(f"⟦vary⟧ {value!r} is not KEY=VALUE,…", advice="for example ⟦vary=threads=1,2⟧")
        key = key.strip()
        words = [word.strip() for word in text.split(",")]
        if stray := next((word for word in words if _is_setting(word, key)), None):
            raise BadInput(f"⟦vary⟧ {value!r} varies two settings", advice=f"repeat the flag: ⟦vary⟧ {stray}")
        for word in words:
            name, setting = _read_setting(key, word, where="⟦vary⟧")
            axis = found.setdefault(name, [])
            if setting not in axis:
                axis.append(setting)
    return found


def _is_setting(word: str, key: str) -> bool:
    """Whether a value of `key` is another setting; the values of environment variables may contain ``=``."""
    name, equals, _ = word.partition("=")
    name = name.strip()
    known = name in SETTINGS or name in PACKAGES or name.startswith(VARIABLE)
    return bool(equals) and (known or not key.startswith(VARIABLE))
