"""Labels of compared jobs: only the words that distinguish them."""

from __future__ import annotations

from collections.abc import Sequence

from edgewise.comparing.fairness import limits_text
from edgewise.record import Job
from edgewise.record.facts import differing_variables, environment_words
from edgewise.record.names import model_names
from edgewise.text import one_line, tells_apart

MOST_LETTERS = 60


def label_jobs(jobs: Sequence[Job], given: Sequence[str | None], *, hints: Sequence[str] = ()) -> list[str]:
    """One label per job, all different: the given one, else made from what distinguishes the jobs.

    Args:
        hints: a last word per job, such as when it was measured, for jobs that are otherwise alike.
    """
    parts: list[list[str]] = [
        model_names([job.model for job in jobs], hashed=False),
        [one_line("/".join(filter(None, (job.runtime.name, job.runtime.provider)))) for job in jobs],
        [_count(job.runtime.threads, "thread") for job in jobs],
        [f"batch {job.workload.batch}" for job in jobs],
        [job.runtime.precision or "own precision" for job in jobs],
        [one_line(job.runtime.options_in_words) or "no settings" for job in jobs],
        [job.workload.scenario.kind_in_words for job in jobs],
        [job.target.device for job in jobs],
        [environment_words(job.target.environment) for job in jobs],
        limit_names(jobs),
        differing_variables([job.target.variables for job in jobs]),
        list(hints) or [""] * len(jobs),
    ]
    chosen: list[list[str]] = [[] for _ in jobs]
    for words in parts:
        for own, word, wanted in zip(chosen, words, tells_apart(chosen, words), strict=True):
            own.extend([word] if wanted else [])
    if not any(chosen):
        chosen = [[word] for word in parts[0]]
    made = [_cut(" · ".join(words)) or name for words, name in zip(chosen, parts[0], strict=True)]
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


def limit_names(jobs: Sequence[Job]) -> list[str]:
    """Return the limits of each job in words: ``"0.5 processors"``, or ``"no limits"``."""
    return ["no limits" if (limits := limits_text(job)) == "none" else limits for job in jobs]


def _cut(label: str) -> str:
    """At most `MOST_LETTERS`, the end kept: names and paths differ there."""
    return label if len(label) <= MOST_LETTERS else f"…{label[1 - MOST_LETTERS :]}"


def _count(number: int | None, noun: str) -> str:
    if number is None:
        return f"own {noun}s"
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
