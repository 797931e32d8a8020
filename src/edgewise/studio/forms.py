"""Forms of the verbs, made from the options of their commands: a new option of a command appears in its form.

    query, body or an earlier request → texts by name of the input → `Form.fill` → values as the command line has them
      → `Verb.read` → request

A form names no path of the server's disk, no address and no code: models and data are picked by key, devices by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from edgewise.constraints.base import MECHANISMS
from edgewise.converting.base import TARGETS
from edgewise.device.calibrations import names as calibrated_names
from edgewise.device.devices import LOCAL, read_devices
from edgewise.errors import BadInput, EdgewiseError, name_fields
from edgewise.metrics import METRICS
from edgewise.studio.catalogue import ESTIMATED, Catalogue, Choice, catalogue, listed
from edgewise.units import parse_frequency
from edgewise.verbs.command import place_of
from edgewise.verbs.option import Option, Values
from edgewise.verbs.shared_options import OUTPUT
from edgewise.verbs.verb import VERBS, Verb, words_of
from edgewise.verbs.verb import Form as DeclaredForm

if TYPE_CHECKING:
    from edgewise.studio.models import Models
    from edgewise.verbs.request import Request

Texts = Mapping[str, Sequence[str]]
"""What a browser sends: name of an input → its values."""

Kind = Literal["models", "model", "data", "device", "runtimes", "check", "choice", "whole", "number", "text", "lines"]
PICKED = ("models", "model", "data")
"""Kinds of fields whose values are keys of `edgewise.studio.models`."""

_MODELS = frozenset({"model", "models", "subjects"})
"""What options call the models that they are about; the input of a form is ``model``."""
_KINDS: Mapping[str, Kind] = {
    "models": "models", "subjects": "models", "also": "models", "model": "model", "reference": "model",
    "other": "model", "data": "data", "input_data": "data", "device": "device", "runtime": "runtimes",
}  # fmt: skip
_CHOICES = {
    "mechanism": listed(MECHANISMS),
    "to": listed(tuple(TARGETS)),
    "until": listed([name for name, row in METRICS.items() if row.better != "none"]),
}
"""Option → its values, where neither the request nor the catalogue lists them."""
_LABELS = {
    "set": "Settings", "to": "Format", "device": "Device", "runtime": "Runtimes", "fps": "FPS", "cpus": "CPUs",
    "min_snr": "Min SNR", "max_ram": "Max RAM", "target": "Values wanted",
}  # fmt: skip
_HELP = {
    "model": "Drop others on the page of models, or name their folder with --root.",
    "classes": "Names of the model's classes in the order of its outputs, with commas between them. Left empty, they "
    "come from the model's file, or from the data in alphabetical order.",
    "device": "Devices are registered with 'edgewise devices add', and calibrated with 'edgewise calibrate'.",
}
"""Name of an input → its help, where the option's names what a form does not take."""

_NAMES_OF_TENSORS = ("keep_float", "shape")
"""Options whose values may begin like a path and are none."""
_PATH = re.compile(r"(^|[\s=:,;])(/|\\|~|hf:|file:)|\.\.([/\\]|$)")
_RUN = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SWITCH = {"True": "yes", "False": "no"}
MOST_TEXT = 4000


def input_name(option: Option) -> str:
    """Return the name of the input of an option."""
    return "model" if option.name in _MODELS else option.name


def input_label(option: Option) -> str:
    """Return what an input is called on the page."""
    name = input_name(option)
    return _LABELS.get(name) or name.replace("_", " ").capitalize()


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One option as an input of a form; `choices` are its values where they are known."""

    option: Option
    kind: Kind
    choices: Sequence[Choice] = ()

    @property
    def name(self) -> str:
        """Of the input."""
        return input_name(self.option)

    @property
    def label(self) -> str:
        """What it is called on the page."""
        return input_label(self.option)

    @property
    def help(self) -> str:
        """The option's help, in words of a form."""
        text: str = _HELP.get(self.name) or self.option.help
        text = text.replace("; repeatable", "" if self.kind in PICKED else "; one per line")
        return text.replace(" or MODULE:FUNCTION", "").replace(" MODEL", " the model")

    @property
    def example(self) -> str:
        """A value as the option's help shows it; empty where it shows only a word for it."""
        shown: str = self.option.metavar
        return shown if re.search(r"[0-9=]", shown) else ""

    @property
    def default(self) -> str:
        """The value in effect where the field is empty; empty where the request finds it."""
        value = LOCAL if self.kind == "device" and self.option.repeatable else self.option.default
        if isinstance(value, bool):
            return "yes" if value else "no"
        return "" if value in (None, ...) else str(value)

    @property
    def unset(self) -> str:
        """What is done where nothing is chosen, as the option's help says it: ``default: found from the data``."""
        told = re.search(r"\(default: ([^()]+)\)", self.help)
        return f"default: {told[1]}" if told else "default"

    @property
    def is_required(self) -> bool:
        """Whether there is nothing to do without it."""
        return self.name == "model" or self.option.default is ... or (self.kind == "device" and not self.default)

    def read(self, texts: Sequence[str], models: Models) -> Any:
        """Return the value as the command line has it. Raises `BadInput`."""
        given = [text.strip() for text in texts if text.strip()]
        if not given and self.is_required:
            raise BadInput(f"{self.label} must be chosen")
        if not given:
            return self.option.default
        is_list = self.option.repeatable
        for text in given:
            self._check(text, lines=is_list)
        if self.kind in PICKED:
            paths = [self._path(key, models) for key in given]
            return paths if is_list else paths[-1]
        if is_list:
            value: Any = [line.strip() for text in given for line in text.splitlines() if line.strip()]
        else:
            value = self._scalar(given[-1])
        if self.option.read is not None:
            self.option.read(value)  # raises for what it can't read
        return value

    def _path(self, key: str, models: Models) -> str:
        if self.option.name == "subjects" and _RUN.fullmatch(key):
            return key
        return str(models.get(key, "data" if self.kind == "data" else "models").path)

    def _check(self, text: str, *, lines: bool) -> None:
        if len(text) > MOST_TEXT or not all(one.isprintable() or (lines and one in "\r\n") for one in text):
            raise BadInput(f"{self.label} must be at most {MOST_TEXT} printable characters")
        if self.kind in ("device", "choice", "check"):
            name, at, clock = text.partition("@")
            named = next((one for one in self.choices if one.value in (name, text)), None)
            if named is None or (at and not named.group.startswith(ESTIMATED)):
                raise BadInput(f"{self.label} must be one of those listed, not {text[:60]!r}")
            if at:
                parse_frequency(clock)
            return
        if self.option.name == "classes" and "," not in text:
            raise BadInput(f"{self.label} must be names with commas between them, such as cat, dog")
        has_path = any(map(_PATH.search, text.splitlines()))
        if has_path and self.kind not in PICKED and self.option.name not in _NAMES_OF_TENSORS:
            raise BadInput(f"{self.label} can't name files of this machine", advice="use the command line for it")

    def _scalar(self, text: str) -> Any:
        if self.option.kind is bool:
            return text == "yes"
        if self.kind not in ("whole", "number"):
            return text
        try:
            return self.option.convert(text)
        except BadInput as error:
            raise BadInput(f"{self.label} {error.message}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """What became of the texts of a form: a request, or by field what is wrong; "" is no single field."""

    request: Request | None = None
    problems: Mapping[str, EdgewiseError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Form:
    """The form of one verb, which has a `edgewise.verbs.verb.Form`."""

    verb: Verb

    @property
    def own(self) -> DeclaredForm:
        """What the verb declares of it."""
        assert self.verb.form is not None
        return self.verb.form

    @property
    def title(self) -> str:
        """Its heading."""
        return self.own.title or self.verb.name.capitalize()

    @property
    def action(self) -> str:
        """The words of a link to it."""
        return self.own.action or self.title

    @property
    def takes_models(self) -> bool:
        """Whether its requests are about models."""
        with suppress(Exception):  # a plug-in that is broken must not hide the other forms
            return any(option.name in _MODELS for option in self.verb.all_options())
        return False

    @property
    def sentence(self) -> str:
        """What it is for."""
        return self.own.intro or self.verb.help.partition("\n")[0]

    @property
    def _requests(self) -> list[type[Request]]:
        return [VERBS.get(name).request_type() for name in (self.verb.name, *self.own.also)]

    def fields(self) -> list[Field]:
        """Return the inputs, in the command's order. Raises `Unavailable`."""
        known = catalogue()
        return [self._field(one, known) for one in self.verb.all_options() if self._has(one)]

    def _has(self, option: Option) -> bool:
        if option.not_asked or (option.panel == OUTPUT and option.name not in self.own.kept):
            return False
        return bool(self._fields_of(option)) or _KINDS.get(option.name) == "models"

    def _fields_of(self, option: Option) -> list[Any]:
        """Return the pydantic field that an option fills, of each request class of the form that has it."""
        return [kind.model_fields[name] for kind in self._requests if (name := option.field_of(kind)) is not None]

    def _field(self, option: Option, known: Catalogue) -> Field:
        kind = _KINDS.get(option.name)
        choices = known.get(option.name) or _CHOICES.get(option.name) or self._words(option)
        if kind == "device":
            choices = self._devices(known)
        elif kind == "models" and not any(get_origin(one.annotation) is tuple for one in self._fields_of(option)):
            kind = "model"
        elif kind is None:
            kind = _plain_kind(option, has_choices=bool(choices))
        return Field(option=option, kind=kind, choices=choices)

    def _words(self, option: Option) -> Sequence[Choice]:
        """Return the values of an option, where its type or the request lists them."""
        if option.kind is bool:
            return listed(("yes", "no"))
        annotations = [one.annotation for one in self._fields_of(option)]
        parts = [part for one in annotations for part in (one, *get_args(one))]
        words = [get_args(part) for part in parts if all(isinstance(each, str) for each in get_args(part))]
        return listed(max(words, key=len, default=()))

    def _devices(self, known: Catalogue) -> list[Choice]:
        names = {"measured": [LOCAL, *read_devices()], "calibrated": calibrated_names()}
        found = {
            name: Choice(value=name, text="this machine" if name == LOCAL else name, group=place.capitalize())
            for place in self.own.places
            for name in names.get(place, ())
        }
        return [*found.values(), *(known["hardware"] if "estimated" in self.own.places else ())]

    def fill(self, texts: Texts, models: Models) -> Filled:
        """Return the request that `texts` describe, or what is wrong with them. Raises `Unavailable`."""
        fields = self.fields()
        values = {one.name: None if one.default is ... else one.default for one in self.verb.all_options()}
        values |= self.own.fixed
        problems: dict[str, EdgewiseError] = {}
        for one in fields:
            try:
                values[one.option.name] = one.read(_with_clock(one, texts), models)
            except EdgewiseError as error:
                name_fields(error, self.name_field)
                problems[one.name] = error
        if problems:
            return Filled(problems=problems)
        try:
            request = self._request(values)
            request.check_formats(self._formats(fields, texts, models))
            return Filled(request=request)
        except BadInput as error:
            field = self._field_of(error, fields)
            name_fields(error, self.name_field)
            return Filled(problems={field: error})

    def _formats(self, fields: Sequence[Field], texts: Texts, models: Models) -> dict[str, str]:
        """Return the models that are chosen → their formats."""
        keys = [key.strip() for one in fields if one.name == "model" for key in texts.get("model", ()) if key.strip()]
        entries = [models.get(key, "models") for key in keys if not _RUN.fullmatch(key)]
        return {entry.name: entry.format for entry in entries}

    def _request(self, values: Values) -> Request:
        request: Request = self.verb.read(values).in_effect()
        if request.functions:
            raise BadInput("a form can't run code", advice="use the command line for it")
        return request

    def _field_of(self, error: BadInput, fields: Sequence[Field]) -> str:
        """Return the name of the field that an error is about; empty where it does not say."""
        found = self.verb.option_of(error.field)
        return next((one.name for one in fields if found and one.option.name == found.name), "")

    def name_field(self, field: str, value: str | None = None) -> str:
        """Return the label of the input for a field; its flag where the form has none."""
        option = self.verb.option_of(field)
        if option is None or not self._has(option):
            return self.verb.flag_of(field, value)
        label = input_label(option)
        return label if value is None else f"{label} = {_SWITCH.get(value, value)}"

    def texts_of(self, request: Request, models: Models) -> dict[str, list[str]]:
        """Return the texts of which `fill` makes `request`; without models and data that can't be picked any more."""
        found: dict[str, list[str]] = {}
        for one in self.fields():
            names = (one.option.field_of(type(request)) or "", *(("model", "models") if one.name == "model" else ()))
            name = next((each for each in names if each in request.changed_fields()), "")
            if not name:
                continue
            words = words_of(request, only=(name,))
            if one.kind in PICKED:
                value = getattr(request, name)
                entries = models.entries("data" if one.kind == "data" else "models")
                keys = {str(entry.path): entry.key for entry in entries}
                things: Sequence[str] = value if isinstance(value, tuple) else (value,)
                found[one.name] = [keys.get(each, each) for each in things if each in keys or _RUN.fullmatch(each)]
            elif one.option.kind is bool:
                found[one.name] = ["no" if words[0].startswith("--no-") else "yes"]
            else:
                found[one.name] = ["\n".join(words[1::2] if one.option.flags else words)]
        return found


def _plain_kind(option: Option, *, has_choices: bool) -> Kind:
    if has_choices:
        return "check" if option.kind is bool and option.default is not None else "choice"
    if option.repeatable and "," not in option.metavar:
        return "lines"
    return "whole" if option.kind is int else "number" if option.kind is float else "text"


def _with_clock(one: Field, texts: Texts) -> Sequence[str]:
    """Return the texts of a field; a device's has the clock, which is an input of its own."""
    given, clock = texts.get(one.name, ()), "".join(texts.get("clock", ())).strip()
    return [f"{given[-1]}@{clock}"] if one.kind == "device" and given and clock and "@" not in given[-1] else given


def all_forms() -> list[Form]:
    """Return the forms, in the order of ``edgewise --help``."""
    forms = (Form(verb) for _, verb in VERBS if verb.form is not None)
    return sorted(forms, key=lambda form: (place_of(form.verb.group), form.verb.name))


def form_of(name: str) -> Form | None:
    """Return the form of the verb of that name; None where there is none."""
    verb = VERBS.get(name) if name in VERBS.names() else None
    return None if verb is None or verb.form is None else Form(verb)


def maker_of(name: str) -> Form | None:
    """Return the form that makes requests of the verb of that name; None where there is none."""
    makers = [form for form in all_forms() if name in (form.verb.name, *form.own.also)]
    return min(makers, key=lambda form: form.verb.name != name, default=None)  # its own first
