"""Records from anywhere: what is imported can be rendered, whatever stands in it; the rest is refused by name."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from edgewise.comparing.criteria import Criteria
from edgewise.comparing.gate_execution import Gate, run_gate
from edgewise.comparing.jobs import Subject
from edgewise.comparing.requirement import parse_requirements
from edgewise.comparing.subjects import compare_stored
from edgewise.errors import BadInput, EdgewiseError
from edgewise.record import Run
from edgewise.report.bench.document import bench_document
from edgewise.report.comparison.document import comparison_document
from edgewise.report.comparison.gate import gate_document
from edgewise.report.document.text import print_document
from edgewise.report.files import TABLES, render_report, report_document
from edgewise.report.profile.document import profile_document
from edgewise.report.runs.document import print_run
from edgewise.store import open_store, to_document
from edgewise.store.exchange import csv_lines, import_runs
from edgewise.verbs.compare.presentation import FORMAT as COMPARISON
from edgewise.verbs.gate.presentation import FORMAT as GATE
from messages import says
from sample_optimizations import detection_run, evaluated
from sample_profiles import faster_run, profiled_run
from sample_runs import failed_run, make_run, offline_run, paced_run

FEW_AND_MANY = [4, pytest.param(12, marks=pytest.mark.long)]
"""Rounds of mutations: every base record once in each."""
VALUES: list[Any] = [
    None, True, 0, -1, 2**31, 2**63, 10**30, 10**120, 0.0, -0.5, 1e-320, 1e308, -1e308, "", " ", "\x1b[31m", "a\nb",
    "|<b>`*", "\x00", "x" * 300, "9999-12-31T23:59:59+14:00", "measured", "s", [], {}, [None], [0], [""], {"a": None},
    {"": {}}, "é日本\u202e",
]  # fmt: skip


def bases() -> list[dict[str, Any]]:
    """A record of every kind, with few samples."""
    documents = [
        to_document(run)
        for run in (profiled_run(), faster_run(), failed_run(), paced_run(), offline_run(), make_run(1), detection_run(),
                    evaluated().run)
    ]  # fmt: skip
    for document in documents:
        for row in document["measurements"]:
            if len(row["samples"]) > 60:
                row["samples"] = row["samples"][:60]
                row["session_lengths"] = [12] * 5 if row["session_lengths"] else []
    golden = Path(__file__).parents[1] / "golden"
    return documents + [json.loads(path.read_text("utf-8")) for path in sorted(golden.glob("schema*/*.json"))]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container with each of its keys; of long lists the first items."""
    keys = list(value) if isinstance(value, dict) else range(min(len(value), 6)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from places(value[key])


def mutate(document: dict[str, Any], source: random.Random) -> None:
    """Change, cut or remove something in one to three places, mostly to something of the same kind."""
    for _ in range(source.choice([1, 1, 2, 3])):
        top = source.choice(sorted(document))
        at, key = source.choice([(document, top), *places(document[top])])
        old, chance = at[key], source.random()
        if chance < 0.1:
            del at[key]
        elif chance < 0.2 and isinstance(old, list):
            at[key] = old[: source.randrange(len(old) + 1)]
        else:
            same = [value for value in VALUES if type(value) is type(old)]
            at[key] = source.choice(same if same and source.random() < 0.6 else VALUES)


class Paper(io.StringIO):
    """What a terminal would be sent: nothing from a record may drive it."""

    def write(self, text: str) -> int:
        assert "\x1b" not in text and "\x00" not in text, text
        return super().write(text)


def paper() -> Console:
    return Console(file=Paper(), width=80)


def render_everything(run: Run, other: Run) -> Iterator[Any]:
    """Every form in which a run alone, or beside another one, is shown."""
    both = [other, run]
    yield lambda: print_run(run, paper())
    yield lambda: (list(csv_lines(both)), render_report(both, ".json"))
    for table in TABLES:
        yield lambda table=table: print_document(report_document(both, table=table), paper())
        for extension in (".md", ".csv"):
            yield lambda table=table, extension=extension: render_report(both, extension, table=table)
    yield lambda: (
        print_document(bench_document(both), paper()),
        print_document(profile_document(both, width=80), paper()),
    )
    for extension in (".trace.json", ".nodes.json", ".mltk.json"):
        yield lambda extension=extension: render_report([run], extension)

    def compare() -> None:
        subjects = [Subject(thing=each) for each in both]
        findings = compare_stored(subjects, Criteria(force=True))
        print_document(comparison_document(findings), paper())
        for extension in (".md", ".csv", ".json"):
            COMPARISON.render(findings, extension)

    def gate() -> None:
        requirements = parse_requirements(["3%"], ["latency=5ms"])
        asked = Gate(requirements=requirements, policy="fail", save=print)
        outcome = run_gate(asked, Subject(thing=run), Subject(thing=other))
        print_document(gate_document(outcome), paper())
        for extension in (".xml", ".md", ".json"):
            GATE.render(outcome, extension)

    yield from (compare, gate)


@pytest.mark.parametrize("index", range(len(bases())))
@pytest.mark.parametrize("rounds", FEW_AND_MANY)
def test_what_is_imported_is_stored_and_rendered(tmp_path, rounds, index):
    base = bases()[index]
    file = tmp_path / "run.json"
    file.write_text(json.dumps(base))
    other = replace(import_runs(file)[0], id="other")
    imported = 0
    with open_store("sqlite://") as store:
        for number in range(20 * rounds):
            if number >= rounds and imported:
                break
            document = json.loads(json.dumps(base))
            mutate(document, random.Random(1000 * index + number))
            file.write_text(json.dumps(document))
            try:
                (run,) = import_runs(file)
            except BadInput:
                continue
            imported += 1
            store.save(run)
            assert store.list()
            for render in render_everything(run, other):
                try:
                    render()
                except EdgewiseError:  # it says why this can't be shown so
                    continue
    assert imported


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"peak_operator": [""]}, says("profile-memory-not-count", name="peak_operator")),
        ({"arena_bytes": "many"}, says("profile-memory-not-count", name="arena_bytes")),
        ({"live_bytes": [1, None]}, says("profile-memory-not-count", name="live_bytes")),
        ({"unknown": 5}, says("profile-memory-not-list", name="unknown")),
        ({"arena_bytes": 10**120}, says("contains-number-beyond-larger-than")),
    ],
)
def test_a_plan_or_number_that_can_not_be_is_refused(tmp_path, change, message):
    document = to_document(profiled_run())
    document["profile"]["memory"] |= change
    file = tmp_path / "run.json"
    file.write_text(json.dumps(document))
    with pytest.raises(BadInput, match=message):
        import_runs(file)
