"""A verb, and a command without a request, that another package brings: one entry point, and every door has it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from installed_package import write_metadata
from patience import LIMIT_S

TESTS = Path(__file__).parents[1]
VERB = '''
"""Count inferences in a time."""
from edgewise.verbs.verb import Form, Verb


class Pace(Verb):
    """Count the inferences that fit into a time.

    Nothing is measured.
    """

    name = "pace"
    summary = "Count the inferences that fit into a time."
    group = "Predict"
    request = ".request:PaceRequest"
    work = ".work:count"
    form = Form(top=("within",))
'''
REQUEST = '''
"""The request of ``pace``: its annotations are no texts."""
from typing import Annotated, Literal

from edgewise.errors import BadField
from edgewise.units import parse_duration
from edgewise.verbs.option import argument, option
from edgewise.verbs.request import Number, Request, Texts, Whole
from edgewise.verbs.shared_options import MEASURE


class PaceRequest(Request):
    """How many fit."""

    verb: Literal["pace"] = "pace"
    every: Annotated[Number, argument("every", "Time of one inference", str, metavar="TIME", read=parse_duration)]
    within: Annotated[Number, option("--within 2s", MEASURE, "Time that they have", read=parse_duration)] = 1.0
    cores: Annotated[Whole, option("--cores N", MEASURE, "Number of cores")] = 1
    round_to: Annotated[Literal["down", "near"], option("--round WORD", MEASURE, "How to round")] = "down"
    notes: Annotated[Texts, option("--note A,B", MEASURE, "Words to repeat")] = ()
    strict: Annotated[bool, option("--strict", MEASURE, "Refuse a rest")] = False

    def check(self) -> None:
        """Refuse a time in which nothing fits."""
        if self.every > self.within:
            raise BadField(
                f"⟦every⟧ is {self.every:g} s, more than ⟦within⟧ has", advice="raise ⟦within⟧, such as ⟦within=2⟧"
            )
'''
WORK = '''
"""Carries out ``pace``."""
from dataclasses import dataclass

from edgewise.errors import RunFailed
from edgewise.report.document import Cell, Column, Document, table_of


@dataclass(frozen=True)
class Paced:
    count: int
    notes: tuple = ()

    def to_document(self):
        return {"count": self.count, "notes": list(self.notes)}

    def describe(self):
        columns = [(Column(title="Inferences", numeric=True), lambda each: Cell(text=str(each), value=each))]
        return Document(title="Pace", answer=(f"{self.count} inferences fit",), tables=(table_of("", [self.count], columns),))


def count(request, context):
    found = request.within / request.every * request.cores
    if request.strict and found != int(found):
        raise RunFailed("there is a rest", advice="leave --strict out")
    return Paced(round(found) if request.round_to == "near" else int(found), request.notes)
'''
COMMAND = '''
"""Print a number of lanes."""
from edgewise.errors import BadInput
from edgewise.verbs.command import PlainCommand, takes
from edgewise.verbs.option import option
from edgewise.verbs.shared_options import PLAIN


class Lanes(PlainCommand):
    """Print a number of lanes."""

    group = "Understand"
    command = ":lanes"
    synonyms = ("tracks",)


class Roads(PlainCommand):
    """Print numbers of roads."""

    command = ":SUBCOMMANDS"


@takes(option("--count N", PLAIN, "Number to print", int, default=3))
def lanes(values):
    """Print a number of lanes; there are some."""
    if values["count"] < 0:
        raise BadInput("there are no negative lanes", advice="give --count 0 or more")
    print(values["count"])


class Hollow(PlainCommand):
    """Lack a module."""

    command = ".work:command"


SUBCOMMANDS = {"paved": lanes}
'''
BROKEN = "raise OSError('no licence')"
CLASH = VERB.replace('"pace"', '"clash"').replace(".request:PaceRequest", ".clashing:ClashRequest")
CLASHING = REQUEST.replace('"pace"', '"clash"').replace("PaceRequest", "ClashRequest").replace("--strict", "--json")


@pytest.fixture(scope="module")
def door(tmp_path_factory):
    """Runs Python code in a process in which the packages are installed, and gives what it prints."""
    folder = tmp_path_factory.mktemp("site")
    for name, files in {
        "pace": {"__init__.py": VERB, "request.py": REQUEST, "work.py": WORK},
        "broken_verb": {"__init__.py": BROKEN},
        "clash": {"__init__.py": CLASH, "clashing.py": CLASHING, "work.py": WORK},
        "lanes": {"__init__.py": COMMAND},
        "other_pace": {"__init__.py": VERB.replace('"pace"', '"twice"')},
    }.items():
        (folder / name).mkdir()
        for file, text in files.items():
            (folder / name / file).write_text(text)
    points = {
        "pacing": {"pace": "pace:Pace", "broken": "broken_verb:Broken", "clash": "clash:Pace", "twice": "pace:Pace",
                   "bench": "pace:Pace", "doctor": "pace:Pace", "either": "pace:Pace"},
        "rival": {"twice": "other_pace:Pace"},
    }  # fmt: skip
    commands = {
        "pacing": {"lanes": "lanes:Lanes", "roads": "lanes:Roads", "either": "lanes:Lanes", "dead": "broken_verb:Dead",
                   "hollow": "lanes:Hollow",
                   "bench": "lanes:Lanes", "doctor": "lanes:Lanes"},
        "rival": {},
    }  # fmt: skip
    for name, verbs in points.items():
        write_metadata(folder, name, {"edgewise.verbs": verbs, "edgewise.commands": commands[name]})
    environment = {
        **os.environ, "PYTHONPATH": str(folder), "COLUMNS": "80", "EDGEWISE_STORE": str(folder / "runs.db"),
        "EDGEWISE_DEVICES": str(folder / "devices.toml"),
    }  # fmt: skip

    def run(*words, code="from edgewise.cli.main import run; sys.exit(run(sys.argv[1:]))", **more):
        command = [sys.executable, "-P", "-c", f"import sys\n{code}", *words]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=LIMIT_S, cwd=folder, env={**environment, **more},
            check=False,
        )  # fmt: skip

    return run


def test_the_command_line_has_its_command_with_help_and_values(door):
    listed = door("--help").stdout
    assert "Count the inferences that fit into a time." in listed
    shown = " ".join(door("pace", "--help-all").stdout.split())
    for text in (
        "edgewise pace [OPTIONS] TIME", "Nothing is measured.", "--within 2s Time that they have (default: 1s)",
        "--cores N Number of cores [default: 1]", "--round WORD How to round [default: down]", "--note A,B",
        "--strict Refuse a rest", "--json Print one JSON document", "--dry-run",
    ):  # fmt: skip
        assert text in shown, (text, shown)
    plain = door("pace", "300ms")
    assert plain.returncode == 0 and plain.stdout.startswith("3 inferences fit"), plain.stderr
    words = ("pace", "300ms", "--within", "2s", "--cores", "3", "--round", "near", "--note", "a,b", "--json")
    assert json.loads(door(*words).stdout) == {"count": 20, "notes": ["a", "b"]}


def test_a_shell_completes_it(door):
    def completed(line):
        words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1 + line.endswith(" "))}
        return door(_EDGEWISE_COMPLETE="bash_complete", **words).stdout

    assert "plain,pace" in completed("edgewise pa")
    assert "plain,--cores" in completed("edgewise pace --co")
    assert completed("edgewise pace --round ").split() == ["plain,down", "plain,near"]


def test_a_command_without_a_request_is_one_module(door):
    listed = " ".join(door("--help").stdout.split())
    assert "lanes Print a number of lanes." in listed and "two packages have a command 'either'" in listed
    assert door("lanes").stdout == "3\n" and door("roads", "paved", "--count", "2").stdout == "2\n"
    shown = " ".join(door("lanes", "--help").stdout.split())
    assert "Print a number of lanes; there are some." in shown and "--count N Number to print [default: 3]" in shown
    assert "paved Print a number of lanes; there are some." in " ".join(door("roads", "--help").stdout.split())
    assert "List runtimes and meters" in listed and "grade this machine" in listed


def test_a_request_is_written_and_carried_out(door, tmp_path):
    dry = door("pace", "0.5s", "--note", "x", "--dry-run")
    assert dry.stdout.startswith("would run: edgewise pace 0.5 --note x"), dry.stdout + dry.stderr
    (tmp_path / "request.json").write_text(door("pace", "0.5s", "--note", "x", "--dry-run", "--json").stdout)
    page = tmp_path / "pace.md"
    done = door("run", str(tmp_path / "request.json"), "--json", "-o", str(page))
    assert json.loads(done.stdout) == {"count": 2, "notes": ["x"]} and "2 inferences fit" in page.read_text()


def test_python_has_its_function(door):
    code = (
        "import edgewise, inspect, json\n"
        "print(json.dumps([edgewise.pace(0.25, notes=['a']).to_document(), str(inspect.signature(edgewise.pace)),"
        " edgewise.pace.__doc__]))"
    )
    result, signature, doc = json.loads(door(code=code).stdout)
    assert result == {"count": 4, "notes": ["a"]}
    assert signature.startswith("(every: float, *, within: float = 1.0, cores: int = 1, round_to:")
    assert doc.startswith("Count the inferences that fit into a time.") and "within: Time that they have" in doc


def test_the_studio_has_its_form(door):
    code = (
        "import json\n"
        "from pathlib import Path\n"
        "from edgewise.studio.forms import form_of\n"
        "from edgewise.studio.models import Models\n"
        "models, form = Models(folder=Path('uploads'), roots=()), form_of('pace')\n"
        "good = form.fill({'every': ['0.1s'], 'cores': ['2'], 'round': ['near'], 'strict': ['yes']}, models)\n"
        "bad = form.fill({'every': ['2s']}, models)\n"
        "print(json.dumps([form.title, form.sentence, {one.name: [one.kind, one.default] for one in form.fields()},"
        " good.request.to_document(), {name: error.message for name, error in bad.problems.items()}]))"
    )
    done = door(code=code)
    title, sentence, fields, request, problems = json.loads(done.stdout)
    assert (title, sentence) == ("Pace", "Count the inferences that fit into a time.")
    assert fields["every"][0] == "text" and fields["cores"][0] == "whole" and fields["round"][0] == "choice"
    assert fields["strict"] == ["check", "no"] and fields["note"][0] == "text"
    assert (request["every"], request["cores"], request["round_to"], request["strict"]) == (0.1, 2, "near", True)
    assert problems == {"every": "Every is 2 s, more than Within has"}


def test_the_studio_has_its_jobs(door):
    pytest.importorskip("starlette", reason="the studio is not installed")
    code = f"""
sys.path[:0] = {[str(TESTS / "studio"), str(TESTS)]!r}
import json
from pathlib import Path
from conftest import served
from test_jobs import ended
with served(Path.cwd() / "studio") as studio, studio.client() as client:
    found = []
    for strict in ("no", "yes"):
        sent = {{"every": "0.15s", "cores": "2", "note": "x", "strict": strict}}
        place = client.post("/new/pace", data=sent).headers["location"]
        job = ended(studio.store, place.rpartition("/")[2])
        found += [[job.title, job.status, job.message, job.device, client.get(place).text]]
        if strict == "no":
            found += [[client.get(place + "/result.json").json(), client.get("/new/pace?job=" + job.id).text]]
    print(json.dumps([*found, client.get("/new/lanes").status_code]))
"""
    done = door(code=code)
    assert done.returncode == 0, done.stderr
    (title, status, _, device, page), (result, again), failed, absent = json.loads(done.stdout)
    assert (title, status, device) == ("Pace", "done", "local")
    assert "13 inferences fit" in page and "edgewise pace 0.15 --cores 2 --note x" in page
    assert "Change and run" in page and "/graph" not in page
    assert result == {"count": 13, "notes": ["x"]}
    assert 'value="0.15"' in again
    assert failed[:3] == ["Pace", "failed", "there is a rest"] and "leave strict out" in failed[4].replace("--", "")
    assert absent == 404


@pytest.mark.parametrize(
    ("words", "error", "advice"),
    [
        (["pace", "2s"], "TIME is 2 s, more than --within has", "raise --within, such as --within 2"),
        (["pace", "1s", "--cores", "x"], "--cores must be a whole number, not 'x'", "see 'edgewise pace --help'"),
        (["pace", "1s", "--round", "up"], "--round must be 'down' or 'near'", "see 'edgewise pace --help'"),
        (["pace", "0.3s", "--strict"], "there is a rest", "leave --strict out"),
        (["broken", "x"], "verb 'broken' can't be loaded: no licence", "reinstall the package"),
        (["clash", "1s"], "ClashRequest declares --json twice", "report it to the authors of the verb"),
        (["lanes", "--count", "-1"], "there are no negative lanes", "give --count 0 or more"),
        (["lanes", "--count", "x"], "--count must be a whole number, not 'x'", "see 'edgewise lanes --help'"),
        (["tracks"], "No such command 'tracks'.", "edgewise lanes"),
        (["dead"], "command 'dead' can't be loaded: no licence", "reinstall the package"),
        (["hollow"], ".work:command of lanes can't be loaded: No module named 'lanes.work'", "reinstall the package"),
        (["either"], "two packages have a command 'either': pace:Pace and lanes:Lanes", "uninstall one of them"),
        (["twice", "1s"], "two packages have a verb 'twice': other_pace:Pace and pace:Pace", "uninstall one of them"),
    ],
)
def test_its_mistakes_are_told_as_the_command_line_calls_things(door, words, error, advice):
    done = door(*words)
    told = done.stderr.splitlines()
    assert done.returncode in (2, 3, 4) and done.stdout == "" and len(told) == 2, done.stderr
    assert error in told[0] and advice in told[1]


def test_python_calls_its_fields_by_their_names_and_other_verbs_go_on(door):
    code = (
        "import edgewise\n"
        "try:\n    edgewise.pace(2.0)\n"
        "except edgewise.BadInput as error:\n    print(error.message, '|', error.advice)\n"
    )
    assert door(code=code).stdout == "every is 2 s, more than within has | raise within, such as within=2.0\n"
    assert door("bench", "no.onnx", "--dry-run").returncode == 2
    assert "Measure models on every runtime" in door("bench", "--help").stdout
    newer = door(
        "run",
        "-",
        code='import io; sys.stdin = io.TextIOWrapper(io.BytesIO(b\'{"schema": 9, "verb": "pace"}\'))\n'
        "from edgewise.cli.main import run; sys.exit(run(sys.argv[1:]))",
    )
    assert newer.returncode == 2 and "schema 9" in newer.stderr
