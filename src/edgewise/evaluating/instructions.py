"""How to use a model: its task, the preparation of its samples, how to read its outputs, and its classes.

Instructions come from a YAML file beside the model (``digits.onnx.yaml`` for ``digits.onnx``, else ``digits.yaml``),
from metadata inside a ``.tflite``, and from flags; flags take precedence over the file, and the file over metadata. A
file counts where it has the key ``edgewise``::

    edgewise: 1
    task: classification
    task_options: {top: 5}
    classes: labels.txt            # beside this file, one per line; or a list
    inputs:                        # a list for the only input, or a mapping from input names to lists
      - resize: 256
      - crop: {size: [224, 224]}
      - scale: 1/255
      - layout: nchw
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from edgewise.errors import BadInput
from edgewise.evaluating.class_names import read_class_names
from edgewise.evaluating.litert_metadata import read_litert_metadata
from edgewise.evaluating.step_settings import Step, show, suggest
from edgewise.evaluating.steps import STEPS, parse_step
from edgewise.evaluating.steps_text import Tokenize
from edgewise.safe_yaml import format_yaml, parse_mapping, parse_value, read_lines, read_text, says_edgewise

SCHEMA = 1
_STEP_IN_FLAG = re.compile(rf"\s*(?:(.+?)\s*:\s*)??(none|{'|'.join(STEPS)})\s*(?:(=)(.*))?$", re.DOTALL)
"""``INPUT:STEP=VALUE``: input, step, equals sign, value."""
_STEP_AFTER_COMMA = re.compile(rf",\s*(?:{'|'.join(STEPS)})\s*=")
MAX_STEPS = 64
"""Of one input."""
MAX_CLASSES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Instructions:
    """Attributes:
    steps: input name → steps in order, with absolute paths of files; the name ``""`` is the only input (with
        text: for every input).
    task: name of a task; None where it is not given.
    task_options: how outputs are read.
    classes: names in the order of the model's outputs; empty where they are not known.
    classes_from: the source of `classes` where that is the model's own file, in words; else empty.
    origins: their sources, in words, such as ``digits.yaml`` or ``flags``.
    """

    steps: Mapping[str, tuple[Step, ...]] = field(default_factory=dict)
    task: str | None = None
    task_options: Mapping[str, str] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    classes_from: str = ""
    origins: tuple[str, ...] = ()

    def to_document(self) -> dict[str, Any]:
        """As the YAML file has it; `read_document` reads it back. Files are named as if they were beside it."""
        document: dict[str, Any] = {"edgewise": SCHEMA}
        if self.task is not None:
            document["task"] = self.task
        if self.task_options:
            document["task_options"] = dict(self.task_options)
        if self.classes:
            document["classes"] = list(self.classes)
        listed = {name: [_to_entry(step) for step in steps] for name, steps in self.steps.items()}
        if listed:
            document["inputs"] = listed[""] if list(listed) == [""] else listed
        return document


def _to_entry(step: Step) -> Any:
    settings = {
        name: Path(value).name if name == "file" else value[0] if isinstance(value, list) and len(value) == 1 else value
        for name, value in step.to_document().items()
        if value is not None
    }
    if not settings:
        return step.name
    return {step.name: settings[step.main] if step.main is not None and list(settings) == [step.main] else settings}


def find_instructions(model: Path, *, form: str, flags: Sequence[str] = (), file: Path | None = None) -> Instructions:
    """Return all instructions for the model at `model`.

    Args:
        form: the model's format.
        flags: ``STEP=VALUE`` words in order (``resize=256``, ``crop=224,224``, ``scale=1/255``,
            ``mean=0.485,0.456,0.406``, ``mono``, ``resize={size: 256, filter: bicubic}``); any of them replaces all
            steps of the file and of the metadata. ``INPUT:STEP=VALUE`` is for one of several inputs; ``none`` alone
            feeds samples as they are.
        file: a YAML file to read instead of the one beside the model.

    Raises `BadInput`: a file that is broken or names an unknown step, key or value: the file, the key and what is
    possible.
    """
    found = Instructions()
    named = (model.with_name(name) for name in (f"{model.name}.yaml", f"{model.stem}.yaml"))
    ours = (each for each in named if each != model and each.is_file() and says_edgewise(each))
    beside = next(ours, None) if file is None else file
    if form == "tflite":
        try:
            found = _read_metadata(model)
        except BadInput as error:
            if beside is None and not flags:
                raise
            # The user says how the model is used: broken metadata is not in the way, but it is reported.
            found = Instructions(origins=(f"metadata left out: {error.message}",))
    elif names := read_class_names(model, form):
        found = Instructions(classes=names, classes_from=f"metadata of {model.name}")
    if beside is not None:
        document = parse_mapping(read_text(beside), beside.name)
        if "edgewise" not in document:
            raise BadInput(f"{beside.name} has no key 'edgewise'", advice="begin it with edgewise: 1")
        written = read_document(document, folder=beside.parent, name=beside.name)
        found = Instructions(
            steps=written.steps or found.steps, task=written.task, task_options=written.task_options,
            classes=written.classes or found.classes, classes_from="" if written.classes else found.classes_from,
            origins=(*found.origins, beside.name),
        )  # fmt: skip
    if flags:
        found = replace(found, steps=read_flags(flags), origins=(*found.origins, "flags"))
    return found


def _read_metadata(model: Path) -> Instructions:
    known = read_litert_metadata(model)
    origin = f"metadata of {model.name}"
    if known is None or not (known.steps or known.classes):
        names = read_class_names(model, "tflite")
        return Instructions(classes=names, classes_from=origin if names else "")
    steps = {
        name: tuple(parse_step(step, raw, where=origin) for step, raw in listed) for name, listed in known.steps.items()
    }
    return Instructions(
        steps=steps, classes=known.classes, classes_from=origin if known.classes else "", origins=(origin,)
    )


class _Document(BaseModel):
    """The YAML file. A field's description is the advice where its value is wrong."""

    model_config = ConfigDict(extra="forbid", coerce_numbers_to_str=True)

    edgewise: str = Field(str(SCHEMA), description="edgewise: 1")
    task: Annotated[str, StringConstraints(pattern=r"\S")] | None = Field(
        None, description="give the name of a task, such as classification"
    )
    task_options: dict[str, str] = Field({}, description="give a mapping, such as {decode: yolov8}")
    classes: list[str] | str = Field([], description="give a list of names, or a file with one per line")
    inputs: Any = None


def read_document(document: Mapping[str, Any], *, folder: Path, name: str) -> Instructions:
    """Return the instructions of a document, as `Instructions.to_document` writes it.

    Args:
        folder: the document's files are relative to it.
        name: of the document in messages; it becomes the origin.

    Raises `BadInput`: an unknown key, step, setting or value; a file that is missing or outside `folder`.
    """
    given = {key: value for key, value in document.items() if value != "" or key not in ("task_options", "classes")}
    try:
        found = _Document.model_validate(given)
    except ValidationError as error:
        details = error.errors(include_url=False)[0]
        key = str(details["loc"][0])
        if details["type"] == "extra_forbidden":
            raise BadInput(
                f"{name} has the unknown key {show(key)}", advice=suggest(key, _Document.model_fields)
            ) from None
        advice = _Document.model_fields[key].description or ""
        raise BadInput(f"{name}: {key} is {show(document[key])}", advice=advice) from None
    if found.edgewise != str(SCHEMA):
        raise BadInput(
            f"{name} says edgewise: {show(found.edgewise)}, this version reads {SCHEMA}",
            advice="update edgewise, or set it to 1",
        )
    return Instructions(
        steps=_read_inputs(found.inputs, folder, name),
        task=found.task,
        task_options={
            key: str(find_beside(value, folder, f"{name}: {key}")) if _names_file(key, value) else value
            for key, value in found.task_options.items()
        },
        classes=_read_classes(found.classes, folder, name),
        origins=(name,),
    )


DATA_FOLDERS = frozenset({"images", "root"})
"""Options of data that name a folder with its files."""
_FILE_OPTIONS = frozenset({"anchors", "class_map", "tokenizer"}) | DATA_FOLDERS
"""Options of a task or of data that name a file or folder: in a document, relative to it; on the command line, relative
to the current folder."""
_CLASS_MAPS = ("identity", "coco80", "coco91")


def _names_file(option: str, value: str) -> bool:
    return option in _FILE_OPTIONS and value not in _CLASS_MAPS


def _read_classes(raw: list[str] | str, folder: Path, name: str) -> tuple[str, ...]:
    if isinstance(raw, str):
        raw = read_lines(read_text(find_beside(raw, folder, f"{name}: classes")))
    if len(raw) > MAX_CLASSES:
        raise BadInput(f"{name} has {len(raw)} classes, more than {MAX_CLASSES}", advice="is it the right file?")
    return tuple(raw)


def _read_inputs(raw: Any, folder: Path, name: str) -> dict[str, tuple[Step, ...]]:
    if isinstance(raw, Mapping):
        return {str(key): _read_steps(steps, folder, f"{name}: input {str(key)!r}") for key, steps in raw.items()}
    # An empty list means that samples are fed as they are; a missing one leaves it to metadata.
    return {} if raw is None else {"": _read_steps(raw, folder, f"{name}: inputs")}


def _read_steps(raw: Any, folder: Path, where: str) -> tuple[Step, ...]:
    if raw == "" or raw is None:
        return ()
    if not isinstance(raw, list | tuple):
        raise BadInput(f"{where} is {show(raw)}", advice="give a list of steps, each as '- resize: 256'")
    if len(raw) > MAX_STEPS:
        raise BadInput(f"{where} has {len(raw)} steps, more than {MAX_STEPS}", advice="is it the right file?")
    found = []
    for place, entry in enumerate(raw, start=1):
        here = f"{where}, step {place}"
        if isinstance(entry, str):
            step, settings = entry, None
        elif isinstance(entry, Mapping) and len(entry) == 1:
            step, settings = next(iter(entry.items()))
        else:
            raise BadInput(f"{here} is {show(entry)}", advice="each step is an entry of its own: '- resize: 256'")
        found.append(_resolve(parse_step(str(step), settings, where=here), folder, here))
    return tuple(found)


def _resolve(step: Step, folder: Path | None, where: str) -> Step:
    """Return the step with the absolute path of its file: relative to `folder`, else to the current folder."""
    if not isinstance(step, Tokenize):
        return step
    path = Path(step.file).absolute() if folder is None else find_beside(step.file, folder, where)
    return step.model_copy(update={"file": str(path)})


def find_beside(word: str, folder: Path, where: str) -> Path:
    """Return the file that a document names. Raises `BadInput` where it is not in `folder`, links followed."""
    if "\0" in word or len(word) > 4096:
        raise BadInput(f"{where} names the file {show(word)}", advice="give the name of a file beside it")
    path = (folder / word).absolute()
    try:
        inside = path.resolve().is_relative_to(folder.resolve())
        there = inside and path.is_file()
    except (OSError, RuntimeError) as error:
        raise BadInput(f"{where}: {show(word)} can't be looked at", advice=str(error)) from error
    if not inside or Path(word).is_absolute():
        raise BadInput(f"{where} names {show(word)}, which is outside its folder", advice="put the file beside it")
    if not there:
        raise BadInput(f"{where} names {show(word)}, which is not there", advice=f"put it into {folder}")
    return path


def read_flags(flags: Sequence[str]) -> dict[str, tuple[Step, ...]]:
    """Return steps by input from ``STEP=VALUE`` words, as `find_instructions` has them. Raises `BadInput`."""
    if list(flags) == ["none"]:
        return {"": ()}
    found: dict[str, list[Step]] = {}
    for flag in flags:
        name, step = _read_flag(flag)
        found.setdefault(name, []).append(_resolve(step, None, ""))
    return {name: tuple(steps) for name, steps in found.items()}


def _read_flag(flag: str) -> tuple[str, Step]:
    where = f"⟦prepare⟧ {show(flag)}"
    # The name of an input may have colons and equals signs: the first known step ends it.
    known = _STEP_IN_FLAG.match(flag)
    if known is not None:
        name, step, sign, value = known.groups(default="")
    else:
        word, sign, value = flag.rpartition("=") if "=" in flag else (flag, "", "")
        name, _, step = word.strip().rpartition(":")
    if step == "none":
        raise BadInput(f"{where} contradicts the other steps", advice="give none alone")
    if sign and not value.strip():
        raise BadInput(f"{where} has no value", advice="STEP=VALUE, such as resize=256")
    raw = parse_value(value, where) if value.lstrip().startswith(("{", "[")) else (value.strip() or None)
    try:
        return name, parse_step(step, raw, where=where)
    except BadInput:
        if isinstance(raw, Mapping | list) or not _STEP_AFTER_COMMA.search(flag):
            raise
    raise BadInput(f"{where} has several steps", advice="give each step by its own ⟦prepare⟧")


def change_flags(flags: Sequence[str], change: Callable[[str], str]) -> tuple[str, ...]:
    """Return ``STEP=VALUE`` words with the file of each step, a tokenizer, as `change` makes it. Raises `BadInput`."""
    found: list[str] = []
    for flag in flags:
        name, step = _read_flag(flag) if Tokenize.name in flag else ("", None)
        if isinstance(step, Tokenize):
            found += write_flags({name: (step.model_copy(update={"file": change(step.file)}),)})
        else:
            found.append(flag)
    return tuple(found)


def change_options(options: Mapping[str, str], change: Callable[[str], str]) -> dict[str, str]:
    """Return options of a task or of data with each that names a file or folder as `change` makes it."""
    return {name: change(value) if _names_file(name, value) else value for name, value in options.items()}


def files_of(document: Path) -> list[Path]:
    """Return the files that a YAML file with instructions names; none where these can't be read."""
    try:
        raw = parse_mapping(read_text(document), document.name)
        found = read_document(raw, folder=document.parent, name=document.name)
    except BadInput:
        return []
    steps = [step.file for steps in found.steps.values() for step in steps if isinstance(step, Tokenize)]
    options = [value for name, value in found.task_options.items() if _names_file(name, value)]
    classes = raw.get("classes")
    return [*map(Path, (*steps, *options)), *([document.parent / classes] if isinstance(classes, str) else [])]


def write_flags(steps: Mapping[str, Sequence[Step]]) -> list[str]:
    """Return steps as ``STEP=VALUE`` words, which `read_flags` reads back."""
    found = []
    for name, listed in steps.items():
        for step in listed:
            value = {key: each for key, each in step.to_document().items() if not step.is_default(key, each)}
            bare = step.main is not None and list(value) == [step.main]
            main = value[step.main or ""] if bare else None
            words = ",".join(map(str, main if isinstance(main, list) else [main])) if bare else json.dumps(value)
            found.append((f"{name}:" if name else "") + step.name + (f"={words}" if value else ""))
    return found


def write_instructions(instructions: Instructions, path: Path) -> None:
    """Write them as YAML that `find_instructions` reads. Files that steps need are copied beside it.

    Raises `BadInput`: it can't be written, or another file of such a name is in the way.
    """
    text = format_yaml(instructions.to_document())
    try:
        for step in (step for steps in instructions.steps.values() for step in steps):
            if isinstance(step, Tokenize):
                _copy_beside(Path(step.file), path.parent)
        path.write_text(text, encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise BadInput(f"can't write {path}: {error}", advice="check the folder and the space on the disk") from error


def _copy_beside(source: Path, folder: Path) -> None:
    target = folder / source.name
    content = source.read_bytes()
    if target.exists():
        if target.read_bytes() != content:
            raise BadInput(f"{target} is another file than {source}", advice="write to another folder")
        return
    target.write_bytes(content)
