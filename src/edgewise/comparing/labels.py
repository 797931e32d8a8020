"""Labels of compared jobs: only the words that distinguish them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from edgewise.record import Job
from edgewise.text import one_line, tells_apart

MOST_LETTERS = 60


def label_jobs(jobs: Sequence[Job], given: Sequence[str | None], *, hints: Sequence[str] = ()) -> list[str]:
    """One label per job, all different: the given one, else made from what distinguishes the jobs.

    Args:
        hints: a last word per job, such as when it was measured, for jobs that are otherwise alike.
    """
    parts: list[list[str]] = [
        [one_line(job.model.name).strip() or "model without a name" for job in jobs],
        _folders(jobs),
        [one_line("/".join(filter(None, (job.runtime.name, job.runtime.provider)))) for job in jobs],
        [_count(job.runtime.threads, "thread") for job in jobs],
        [f"batch {job.workload.batch}" for job in jobs],
        [job.runtime.precision or "own precision" for job in jobs],
        [one_line(job.runtime.options_in_words) or "no settings" for job in jobs],
        [job.workload.scenario.kind_in_words for job in jobs],
        [job.target.device for job in jobs],
        list(hints) or [""] * len(jobs),
    ]
    chosen: list[list[str]] = [[] for _ in jobs]
    for words in parts:
        for own, word, wanted in zip(chosen, words, tells_apart(chosen, words), strict=True):
            own.extend([word] if wanted else [])
    if not any(chosen):
        chosen = [[word] for word in parts[0]]
    made = [" · ".join(words)[:MOST_LETTERS] or name for words, name in zip(chosen, parts[0], strict=True)]
    return _numbered([label or own for label, own in zip(given, made, strict=True)])


def _numbered(labels: Sequence[str]) -> list[str]:
    """Labels that are alike get a number each; none becomes one that another has."""
    taken = {label for label in labels if labels.count(label) == 1}
    found: list[str] = []
    for label in labels:
        wanted, number = label, 0
        while labels.count(label) > 1 and (wanted in taken or not number):
            number += 1
            wanted = f"{label} #{number}"
        taken.add(wanted)
        found.append(wanted)
    return found


def _folders(jobs: Sequence[Job]) -> list[str]:
    """The nearest folder, for files of one name in several places; equal files are alike wherever they are."""
    return [one_line(PurePath(job.model.path).parent.name or "/") + f" {job.model.sha256[:4]}" for job in jobs]


def _count(number: int | None, noun: str) -> str:
    if number is None:
        return f"own {noun}s"
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
