"""Samples that two models answer with different classes: counts, a table, and a gallery of pictures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from edgewise.optimizing.changed_answers import ORDER, Change, ChangedAnswers, ChangedSample
from edgewise.report.document import Cell, Column, Table, Tone
from edgewise.report.document.names import shorten
from edgewise.report.optimization.tables import number_cell
from edgewise.text import one_line
from edgewise.units import significant

_WORDS: Mapping[Change, tuple[str, Tone]] = {
    "lost": ("right → wrong", "bad"), "gained": ("wrong → right", "good"), "other": ("wrong → wrong", "fair"),
}  # fmt: skip
_LONGEST = 60
"""Characters of a name in a table."""


Roles = tuple[str, str]
"""What the two models are: the one whose answers count, and the other."""
VARIANTS: Roles = ("original", "variant")
AGAINST_REFERENCE: Roles = ("reference", "model")


def changed_tables(
    changed: Mapping[str, ChangedAnswers],
    roles: Roles = VARIANTS,
    *,
    thumbnails: tuple[Mapping[int, str], str] = ({}, ""),
) -> list[Table]:
    """Return the numbers of changed answers of all models, and the changed samples of the first model that has some.

    Args:
        thumbnails: pictures of the samples by their indices, and words on what has none.
    """
    tables = [_counts_table(changed, roles)] if changed else []
    pictures, words = thumbnails
    for name, one in [(name, one) for name, one in changed.items() if one.samples][:1]:
        table = _samples_table(name, one, roles)
        shown = tuple(pictures.get(sample.index) for sample in one.samples) if pictures else ()
        tables.append(replace(table, pictures=shown, notes=(*table.notes, *filter(None, [words]))))
    return tables


def _counts_table(changed: Mapping[str, ChangedAnswers], roles: Roles) -> Table:
    kinds = [change for change in ORDER if all("lost" in one.counts for one in changed.values())]
    columns = [Column(title=roles[1].capitalize())]
    titles = ("Samples", "Changed", "Share (95 % interval)", *(_WORDS[change][0].capitalize() for change in kinds))
    columns += [Column(title=title, numeric=True) for title in titles]
    rows = tuple(
        (
            Cell(text=one_line(name)),
            *(Cell(text=str(count), value=count) for count in (one.n, one.changed)),
            number_cell("error_rate", one.share, label="Changed answers"),
            *(Cell(text=str(one.counts[change]), value=one.counts[change]) for change in kinds),
        )
        for name, one in changed.items()
    )
    note = f"changed: of the samples that both models answered, those with another class than the {roles[0]}'s"
    return Table(title="Changed answers", columns=tuple(columns), rows=rows, notes=(note,), detail=True)


def _samples_table(name: str, changes: ChangedAnswers, roles: Roles) -> Table:
    titles = ("Sample", *(("Change", "Label") if "lost" in changes.counts else ()), *map(str.capitalize, roles))
    notes = (
        f"{len(changes.samples)} of {changes.changed} changed samples; in brackets the score, the model's output for "
        f"the class; of one kind of change, the {roles[0]}'s highest score comes first",
    )
    return Table(
        title=f"Changed samples: {one_line(name)}",
        columns=tuple(Column(title=title) for title in titles),
        rows=tuple(_samples_row(one, changes) for one in changes.samples),
        notes=notes,
        detail=True,
    )


def _samples_row(one: ChangedSample, changes: ChangedAnswers) -> tuple[Cell, ...]:
    def answer(number: int | None, score: float | None = None) -> Cell:
        name = "none (NaN)" if number is None else changes.classes.get(number) or f"class {number}"
        name = shorten(name, _LONGEST)
        tone: Tone = "plain" if one.label is None else "good" if number == one.label else "bad"
        return Cell(text=name if score is None else f"{name} ({significant(score)})", tone=tone)

    words, tone = _WORDS[one.change]
    known = [Cell(text=words, tone=tone), Cell(text=answer(one.label).text)] if "lost" in changes.counts else []
    sides = (answer(one.before, one.before_score), answer(one.after, one.after_score))
    return Cell(text=shorten(one.name, _LONGEST)), *known, *sides
