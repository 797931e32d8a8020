"""What users and scripts rest on, one line each: commands, flags, requests, Python names, JSON keys, exit codes, store.

``python tests/interface.py`` renews ``tests/golden/interface.txt`` where something was changed on purpose. A new key,
flag or name adds lines; a line that is gone, or reads otherwise, breaks somebody's script.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from edgewise.verbs.command import Command
from edgewise.verbs.option import Option

ROOT = Path(__file__).parents[1]
GOLDEN = ROOT / "tests" / "golden" / "interface.txt"
OPEN = (
    "doctor devices[].environment.*", "doctor fitness.*", "doctor limits[].*", "doctor meters[].resolution.*",
    "doctor runtimes[].providers*", "doctor variation.history*", "devices check clock.*", "devices check engines.*",
    "devices check environment.*", "devices check missing[]*", "devices check sensors.*", "*.attributes.*",
    "*.environment.*", "* model.metadata.*", "runs schema *properties.*.*", "*.sources.*", "*.settings.*",
)  # fmt: skip
"""Places whose keys depend on the machine, on what is installed, or on the model; with the command before them."""


def lines() -> list[str]:
    """The whole interface, sorted."""
    parts = (commands(), requests(), python_names(), json_keys(), exit_codes(), entry_point_groups(), tables())
    return sorted({line for part in parts for line in part})


# --- The command line -------------------------------------------------------------------------------------------------


def commands() -> Iterator[str]:
    """Every command, argument and option."""
    for name, command in all_commands():
        yield f"command {name}"
        for one in command.options if command is not None else ():
            yield f"command {name} {parameter(one)}"


def all_commands() -> Iterator[tuple[str, Command | None]]:
    """The words of each command, with what declares its arguments and options; None for a group."""
    from edgewise.cli.main import commands as names
    from edgewise.cli.main import declared

    for name in names():
        found = declared(name)
        if isinstance(found, Command):
            yield name, found
        else:
            yield name, None
            yield from ((f"{name} {inner}", command) for inner, command in found.items())


def parameter(one: Option) -> str:
    """One argument or option: its spellings, the word for its value, whether it repeats, its default and its panel."""
    default = None if one.is_required else one.default
    if not one.flags:
        return (
            f"{one.metavar}: {'several' if one.repeatable else 'one'}, "
            f"{'required' if one.is_required else f'default {default!r}'}"
        )
    spellings = " ".join(sorted(one.flags)) + (f"/{one.off}" if one.off else "")
    kind = "flag" if one.kind is bool else "repeatable" if one.repeatable else "once"
    facts = ["required"] * one.is_required
    return ", ".join([f"{spellings} {one.metavar}".rstrip() + f": {kind}", *facts, f"default {default!r}",
                      f"under {one.panel.replace('Options', 'Option')}"])  # fmt: skip


# --- Requests and Python ----------------------------------------------------------------------------------------------


def requests() -> Iterator[str]:
    """Every field of every request, by its name in JSON."""
    from edgewise.verbs.verb import VERBS

    for verb in VERBS.names():
        kind = VERBS.get(verb).request_type()
        shape = kind.model_json_schema(by_alias=True)
        for field, info in kind.model_fields.items():
            name = info.alias or field
            default = "required" if info.is_required() else f"default {info.get_default(call_default_factory=True)!r}"
            yield f"request {verb} {name}: {type_word(shape['properties'][name], shape)}, {default}"


def type_word(shape: Any, whole: Mapping[str, Any]) -> str:
    """A JSON schema in a few words: ``[integer]``, ``{number}``, ``string or null``."""
    if not isinstance(shape, Mapping):
        return "anything"
    if "$ref" in shape:
        return type_word(whole["$defs"][shape["$ref"].rpartition("/")[2]], whole)
    if "anyOf" in shape:
        return " or ".join(type_word(one, whole) for one in shape["anyOf"])
    if "const" in shape or "enum" in shape:
        return "|".join(map(str, shape.get("enum", [shape.get("const")])))
    if shape.get("type") == "array":
        return f"[{type_word(shape.get('items', {}), whole)}]"
    if shape.get("type") == "object":
        return f"{{{type_word(shape.get('additionalProperties') or {}, whole)}}}"
    return shape.get("type", "anything")


def python_names() -> Iterator[str]:
    """What ``import edgewise`` offers: each parameter of its functions, each public name of its classes."""
    import edgewise

    for name in edgewise.__all__:
        thing = getattr(edgewise, name)
        yield f"python edgewise.{name}"
        if inspect.isclass(thing):
            own = {*dir(thing), *getattr(thing, "__dataclass_fields__", ())} - {*dir(Exception)}
            yield from (f"python edgewise.{name}.{one}" for one in own if not one.startswith("_"))
        elif callable(thing):
            for at, one in enumerate(inspect.signature(thing).parameters.values()):
                place = f"argument {at + 1}" if one.kind is one.POSITIONAL_OR_KEYWORD else one.kind.description
                default = "required" if one.default is one.empty else f"default {one.default!r}"
                yield f"python edgewise.{name}({one.name}): {place}, {default}"


# --- JSON documents ---------------------------------------------------------------------------------------------------


def json_keys() -> Iterator[str]:
    """The keys of the ``--json`` documents of all commands, with their places in it."""
    with tempfile.TemporaryDirectory() as folder, in_folder(Path(folder)):
        for command, document in [*printed(), *made()]:
            yield from (f"json {path}" for path in keys(document, f"{command} "))


def keys(value: Any, path: str) -> Iterator[str]:
    """The path of every key in `value`, and the numbers of schemas; those of a run are given once, as ``run``."""
    if isinstance(value, Mapping):
        if {"job", "measurements", "status"} <= set(value) and not path.endswith("properties"):
            yield f"{path} is a run"
            path = "run "
        for key, inner in value.items():
            here = f"{path}{key}" if path.endswith(" ") else f"{path}.{key}"
            if not any(fnmatchcase(here, pattern.replace("[]", "[[]]")) for pattern in OPEN):
                yield f"{here} = {inner}" if key == "schema" and isinstance(inner, int) else here
                yield from keys(inner, here)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from keys(inner, f"{path}[]")


@contextlib.contextmanager
def in_folder(folder: Path) -> Iterator[None]:
    """Work in `folder`, with a store, devices and an atlas of its own and none of the programs of this machine."""
    from unittest import mock

    from edgewise.predicting import atlas

    own = {"EDGEWISE_STORE": str(folder / "runs.db"), "PATH": "", "HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    with (
        contextlib.chdir(folder),
        mock.patch.dict(os.environ, own),
        mock.patch.object(atlas, "atlas_folder", lambda: folder / "atlas"),
    ):
        yield


def printed() -> Iterator[tuple[str, Any]]:
    """The documents of the commands that measure nothing, as they print them."""
    from edgewise.store import open_store
    from estimates import dense_relu
    from sample_runs import make_run

    with open_store(os.environ["EDGEWISE_STORE"]) as store:
        store.save(make_run(1))
    table = "\n".join(f"m{at},{at},{at * 3.5 + at % 2},image" for at in range(1, 7))
    Path("measured.csv").write_text(f"model,host_latency_ms,latency_ms,family\n{table}\n")
    Path("new.csv").write_text("model,host_latency_ms\na,3.5\n")
    model = str(dense_relu(Path.cwd()))
    output_of(["devices", "add", "board", "ssh://nobody@192.0.2.1"])
    battery = "battery --energy 3mJ --capacity 10Wh --idle-power 5mW --per-hour 60"
    for command, line in {
        "inspect": f"inspect {model}",
        "calibrate": "calibrate phone --measurements measured.csv",
        "estimate (calibrated device)": "estimate new.csv -d phone --target latency=20ms",
        "estimate --devices": "estimate --devices",
        "estimate --fits": f"estimate {model} --fits",
        "battery": battery,
        "atlas list": "atlas list",
        "zoo list": "zoo list",
        "devices list": "devices list --atlas",
        "devices check": "devices check local",
        "doctor": "doctor",
        "runs list": "runs list",
        "runs list --count": "runs list --count",
        "runs show": "runs show last",
    }.items():
        yield command, json.loads(output_of([*line.split(), "--json"]))
    yield "runs schema", json.loads(output_of(["runs", "schema"]))


def output_of(words: list[str]) -> str:
    """What a command prints; it must succeed."""
    from edgewise.cli.main import run

    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        code = run(words)
    assert code == 0, (words, err.getvalue())
    return out.getvalue()


def made() -> Iterator[tuple[str, Any]]:
    """The documents of the commands that measure, of hand-made results."""
    import sample_comparisons
    import sample_optimizations
    from edgewise.converting.agreement import OutputAgreement
    from edgewise.converting.localizing import WrongOperator
    from edgewise.converting.result import Agreement, Conversion
    from edgewise.predicting.base import Subject
    from edgewise.predicting.features import OperatorProfile
    from edgewise.predicting.suggestion import Suggestion
    from edgewise.verbs.measuring import Measured
    from estimates import estimated
    from sample_profiles import profiled_run
    from sample_runs import all_runs, paced_run

    here = Path.cwd()
    apart = OutputAgreement(name="y", max_abs=1, max_rel=1, snr_db=0, top1=None, close=False, why="", allowed="")
    conversion = Conversion(
        source={}, to="onnx", path=here, model={}, steps=(), lost=(), agreement=Agreement(outputs=(apart,)),
        wrong=WrongOperator(),
    )  # fmt: skip
    network = Subject(name="n", profile=OperatorProfile(amounts=(1.0,) * 6))
    suggestion = Suggestion(device="d", subjects=(network,), measured=0, folder=here, table=here, steps=(("a", "b"),))
    results: dict[str, Sequence[Any]] = {
        "bench": [Measured(runs=[*all_runs(), paced_run()])],
        "profile": [Measured(runs=[profiled_run()])],
        "exec": [Measured(runs=all_runs())],
        "estimate": [estimated(here)],
        "suggest": [suggestion],
        "evaluate": [sample_optimizations.two_models(), sample_optimizations.with_failure()],
        "optimize": [sample_optimizations.found(), sample_optimizations.changed_search()],
        "convert": [conversion],
        "compare": [sample_comparisons.four_variants(), sample_comparisons.one_failed()],
        "gate": [sample_comparisons.judged()],
    }
    for verb, samples in results.items():
        for sample in samples:
            yield verb, json_document(verb, sample)


def json_document(verb: str, result: Any) -> Any:
    """The document that the command of a request of `verb` prints of a result."""
    from edgewise.verbs.verb import VERBS

    return VERBS.get(verb).presentation().document(result)


# --- Exit codes, plug-ins, store --------------------------------------------------------------------------------------


def exit_codes() -> Iterator[str]:
    """The codes that scripts look at, and the classes of errors that have them."""
    from edgewise import errors

    yield from (f"exit code {code.value}: {code.name}" for code in errors.ExitCode)
    kinds = (one for one in vars(errors).values() if inspect.isclass(one) and issubclass(one, errors.EdgewiseError))
    yield from (f"exit code of {kind.__name__}: {kind.exit_code.value}" for kind in kinds)


def entry_point_groups() -> Iterator[str]:
    """The groups that plug-ins register in, with the names of those that come with edgewise."""
    for one in distribution("edgewise").entry_points:
        if one.group != "console_scripts":
            yield f"entry point {one.group} {one.name}"


def tables() -> Iterator[str]:
    """Tables, columns and indexes of the store."""
    from edgewise.store.tables import metadata

    for table in metadata.tables.values():
        for column in table.columns:
            key = ", primary key" * column.primary_key
            yield f"store {table.name}.{column.name}: {column.type!r}{'' if column.nullable else ', not null'}{key}"
        yield from (f"store index {one.name}: {', '.join(map(str, one.expressions))}" for one in table.indexes)


def helpers_on_path() -> None:
    """Make the helpers of tests and docs importable, where pytest has not."""
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "docs")]


helpers_on_path()
if __name__ == "__main__":
    GOLDEN.write_text("\n".join(lines()) + "\n", encoding="utf-8")
