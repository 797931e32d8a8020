"""What a bisection gives: the releases that were measured, and the first that is slower, larger or gives others."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from edgewise.device.devices import LOCAL
from edgewise.device.environments import ENGINES
from edgewise.errors import as_flag
from edgewise.formatting import ratio_text
from edgewise.record import Run
from edgewise.report.document import Cell, Column, Document, Section, Table, absent
from edgewise.report.profile.diff import diff_table
from edgewise.report.runs.conditions import processor_in, system_in
from edgewise.text import listing, one_line
from edgewise.verbs.bisect.part import Part
from edgewise.verbs.bisect.search import SURE

SCHEMA = 1
WORDS = {"latency": "slower", "memory": "larger in memory", "output": "different in outputs"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A release, compared with the good one.

    Attributes:
        ratio, low, high: its value over that of the good one with its 95 % interval; None where it was not measured.
        pairs: pairs of fresh processes in all its comparisons.
        differs: whether its outputs are not those of the good one; None where they were not compared.
        difference: largest difference of outputs as a share of the largest output; None where it is infinite, too.
        outputs: the same in words.
        skipped: why it could not be measured; "" where it was, or was not needed.
    """

    version: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    pairs: int = 0
    differs: bool | None = None
    difference: float | None = None
    outputs: str = ""
    skipped: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectResult:
    """The releases from the good one to the bad one.

    Attributes:
        first: the first release that is worse, or the likeliest to be it; None where the bad one is not shown to be
            worse, or nothing tells which is the likeliest.
        probability: of `first`.
        others: other releases that may be the first; with no `first`, they are all as likely.
        between: releases whose ratio is between the two levels: more than one release changed it.
        profiles: of the release before `first` and of `first`; empty where there are none.
        command: that makes this again.
        asked: the model, threads and device as they were typed, for other commands.
        device: where it was measured.
        environments: what is known of the machine and the packages, of each run.
        part: the smallest part of the model that still is slower; None where it was not asked for.
        part_absent_because: why there is none.
        interrupted: whether it was interrupted, in the search or after it.
        undecided: whether more measuring might show that the bad release is worse.
    """

    model: Mapping[str, Any]
    engine: str
    on: str
    releases: Sequence[Release]
    first: str | None
    probability: float | None
    others: Sequence[str] = ()
    between: Sequence[str] = ()
    profiles: Sequence[Run] = ()
    command: str = ""
    asked: str = ""
    device: str = LOCAL
    environments: Sequence[Mapping[str, Any]] = ()
    interrupted: bool = False
    undecided: bool = False
    part: Part | None = None
    part_absent_because: str = ""

    @property
    def is_finished(self) -> bool:
        """Whether the search itself ended with an answer: one release is likely enough, or nothing else was to do."""
        return self.probability is None or self.probability >= SURE

    @property
    def _open(self) -> str:
        """Why a search without an answer has none, in words."""
        return "interrupted: the search is not finished" if self.interrupted else "not decided"

    @property
    def before(self) -> str | None:
        """The release before the first that is worse."""
        versions = [release.version for release in self.releases]
        return None if self.first is None else versions[versions.index(self.first) - 1]

    def to_document(self) -> dict[str, Any]:
        """JSON-shaped."""
        return {
            "schema": SCHEMA, "model": dict(self.model), "engine": self.engine, "on": self.on, "device": self.device,
            "releases": [asdict(release) for release in self.releases], "first": self.first,
            "probability": self.probability, "interrupted": self.interrupted,
            "others": list(self.others), "between": list(self.between),
            "profiles": [run.id for run in self.profiles], "command": self.command,
            "subgraph": None if self.part is None else asdict(self.part),
            "subgraph_absent_because": self.part_absent_because or None,
        }  # fmt: skip

    def describe(self) -> Document:
        """Return the answer, the releases, the operators that changed, and what makes it again."""
        tables = [self._table()]
        changed = diff_table(self.profiles) if len(self.profiles) == 2 else None
        sections = [Section(title="To make it again", lines=tuple(self._again()))]
        sections += self._requirement_files()
        told = [found for one in self._ends() if (found := self._environment_of(one))]
        conditions = _conditions(told or self.environments)
        sections += [Section(title="Machine", lines=tuple(conditions))] if conditions else []
        return Document(
            title=f"{self.engine}: which release made {one_line(str(self.model['name']))} {WORDS[self.on]}",
            answer=tuple(self._answer()),
            tables=tuple([*tables, changed] if changed is not None else tables),
            sections=tuple(sections),
        )

    def _ends(self) -> tuple[str, ...]:
        """Return the first release that is worse, and the one before it; empty without one."""
        return () if self.first is None or self.before is None else (self.before, self.first)

    def _environment_of(self, version: str) -> Mapping[str, Any]:
        """Return what is known of the machine and the packages with a release; empty where it was not run."""
        return next((one for one in self.environments if _packages_in(one).get(self.engine) == version), {})

    def _requirement_files(self) -> list[Section]:
        """Return the smallest files of requirements for both releases; numpy has a version where the release
        was run.
        """
        files = []
        for name, version in zip(("before.txt", "after.txt"), self._ends(), strict=False):
            numpy = _packages_in(self._environment_of(version)).get("numpy")
            pins = [f"{self.engine}=={version}"]
            pins += ["numpy" if numpy is None else f"numpy=={numpy}"] if self.engine != "numpy" else []
            files.append(Section(title=name, lines=(), drawing=tuple(map(one_line, pins))))
        return files

    def _answer(self) -> list[str]:
        name, worse = one_line(str(self.model["name"])), WORDS[self.on]
        last = self.releases[-1]
        if self.first is None:
            if self.others:
                return [f"{self._open}; the first release with which {name} is {worse} may be "
                        f"{listing(self.others, 'or')}"]  # fmt: skip
            if self.on == "output":
                return [f"{name} gives the same outputs with {self.engine} {last.version} as with "
                        f"{self.releases[0].version}: {last.outputs}"]  # fmt: skip
            ratio = _ratio_words(last)
            undecided = f"; not decided: give more {as_flag('time_budget')}" if self.undecided else ""
            return [f"{name} is not shown to be {worse} with {self.engine} {last.version} than with "
                    f"{self.releases[0].version}{ratio}{undecided}"]  # fmt: skip
        skipped = [release.version for release in self.releases if release.skipped]
        finding = f"{self.engine} {self.first} is the first release with which {name} is {worse}"
        before = f"; {self.before} could not be run" if self.before in skipped else ""
        if self.probability is None:
            lines = [f"{finding}{before}"]
        elif self.is_finished:
            lines = [f"{finding} (probability {self.probability:.0%}){before or f'; {self.before} is not'}"]
        else:
            share = f"{math.floor(100 * self.probability)}%, below the limit of {SURE:.0%}"
            lines = [f"{self._open}; most likely {finding} (probability {share}){before}"]
        measured = next(release for release in self.releases if release.version == self.first)
        if measured.outputs:
            lines.append(f"{self.first} against {self.releases[0].version}: {measured.outputs}")
        if measured.ratio is not None:
            lines.append(f"{self.first} against {self.releases[0].version}{_ratio_words(measured)}")
        if self.others:
            lines.append(f"it may also be {listing(self.others)}")
        if self.between:
            lines.append(f"{listing(self.between)}: between both levels, so more than one release changed it")
        return lines

    def _table(self) -> Table:
        found = "← first" if self.is_finished else "← most likely first"

        def cells(release: Release) -> tuple[Cell, ...]:
            reference = release is self.releases[0]
            why = release.skipped or "it was not needed"
            ratio = Cell(text="–" if self.on == "output" else "1") if reference else absent(why)
            if release.outputs:
                ratio = Cell(text="differ" if release.differs else "the same", notes=(release.outputs,))
            if release.ratio is not None:
                text = ratio_text(release.ratio, release.low, release.high)
                ratio = Cell(text=text, value=release.ratio, low=release.low, high=release.high)
            mark = "good" if reference else found if release.version == self.first else ""
            return Cell(text=release.version), ratio, Cell(text=str(release.pairs or "")), Cell(text=mark)

        good = self.releases[0].version
        heading = f"Outputs against {good}" if self.on == "output" else f"Against {good} (95 % interval)"
        columns = (
            Column(title="Release"),
            Column(title=heading, numeric=True),
            Column(title="Pairs", numeric=True),
            Column(title=""),
        )
        return Table(title=f"Releases of {self.engine}", columns=columns, rows=tuple(map(cells, self.releases)))

    def _again(self) -> list[str]:
        lines = [self.command]
        if self.first is not None:
            sides = f" --environment {self.engine}=={self.before} --environment {self.engine}=={self.first}"
            lines += [
                f"edgewise bench {self.asked} -r {ENGINES[self.engine]}{sides}"
                if self.on == "output"
                else f"edgewise compare {self.asked} --vary {self.engine}={self.before},{self.first}",
                "environments: pip install -r before.txt, and pip install -r after.txt",
            ]
        if self.part is not None:
            kinds = listing(list(dict.fromkeys(map(one_line, self.part.operators))))
            ratio = ratio_text(self.part.ratio, self.part.low, self.part.high)
            lines.append(f"{self.part.file}: {len(self.part.operators)} of {self.part.of} operators ({kinds}) with "
                         f"random weights, ratio {ratio} from {self.before} to {self.first}")  # fmt: skip
        if self.part_absent_because:
            lines.append(f"no part of the model: {one_line(self.part_absent_because)}")
        sha256 = self.model.get("sha256")
        return [*lines, f"model: {one_line(str(self.model['name']))}, {self.model.get('format')}, sha256 {sha256}"]


def _packages_in(environment: Mapping[str, Any]) -> Mapping[str, str]:
    packages = environment.get("packages")
    return packages if isinstance(packages, Mapping) else {}


def _conditions(environments: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the machine of runs with these environments, and their packages."""
    known = [one for one in environments if one]
    lines = [", ".join(filter(None, (processor_in(one), system_in(one)))) for one in known[:1]]
    lines += ["; ".join(f"{name} {version}" for name, version in _packages_in(one).items()) for one in known]
    return list(dict.fromkeys(filter(None, map(one_line, lines))))


def _ratio_words(release: Release) -> str:
    return "" if release.ratio is None else f": ratio {ratio_text(release.ratio, release.low, release.high)}"
