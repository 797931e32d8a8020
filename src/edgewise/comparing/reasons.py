"""Why one variant is faster than another, in one line: what profiles of both show, else how their files differ."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from edgewise.comparing.comparison import Comparison, ComparisonResult
from edgewise.errors import EdgewiseError
from edgewise.grouping import by_key
from edgewise.model.graph import Graph
from edgewise.model.identity import open_model, read_graph
from edgewise.model.precision import count_products
from edgewise.profiling.slowdown import explain_slowdown
from edgewise.record import ModelRef, Run
from edgewise.text import listing, one_line

_MOST_TYPES = 3
"""Types of operators whose numbers are named."""


def explain_verdicts(findings: ComparisonResult, typed: Mapping[str, str]) -> dict[str, str]:
    """Label → why it is faster or slower than the first, or which command shows it; without those that are neither.

    Args:
        typed: absolute path of a model's file → how the user named it.
    """
    runs = {variant.label: variant.run for variant in findings.variants}
    found = {}
    for row in findings.comparisons:
        if row.metric == "latency" and row.verdict in ("faster", "slower") and row.a in runs and row.b in runs:
            found[row.b] = _explain(row, runs[row.a], runs[row.b], typed)
    return found


def _explain(row: Comparison, a: Run, b: Run, typed: Mapping[str, str]) -> str:
    labels = one_line(row.a), one_line(row.b)
    told = explain_slowdown(a, b, labels=labels) or explain_files(a.job.model, b.job.model, labels)
    if told or _is_set_apart(a, b) or not {a.job.model.path, b.job.model.path} <= typed.keys():
        return told
    files = dict.fromkeys(typed[run.job.model.path] for run in (a, b))
    engines = ",".join(dict.fromkeys(run.job.runtime.name for run in (a, b)))
    command = shlex.join(["edgewise", "profile", *files, "-r", engines])
    return f"why is not known without profiles: '{command}' compares the layers"


def _is_set_apart(a: Run, b: Run) -> bool:
    """Whether one file ran on one engine with other settings, which are why."""
    one, other = (
        (job.runtime.threads, job.runtime.precision, job.runtime.options, job.workload.batch, job.target)
        for job in (a.job, b.job)
    )
    engines = {(job.model.sha256, job.runtime.name, job.runtime.provider) for job in (a.job, b.job)}
    return len(engines) == 1 and one != other


def explain_files(a: ModelRef, b: ModelRef, labels: tuple[str, str]) -> str:
    """How the arithmetic and the operators of two files differ; empty where they don't, or where one can't be read."""
    graphs = graphs_of_two(a, b)
    if not graphs:
        return ""
    products = [count_products(graph) for graph in graphs]
    told = []
    if products[0] != products[1] and all(products):
        before, after = (_say_types(counts) for counts in products)
        told.append(f"heavy operators compute in {after} in {labels[1]}, in {before} in {labels[0]}")
    if a.format == b.format and (changed := _say_operators(*graphs)):
        told.append(changed)
    return "; ".join(told)


def graphs_of_two(a: ModelRef, b: ModelRef) -> list[Graph]:
    """Return the graphs of two different files; none where one is not at hand or can't be read."""
    graphs: list[Graph] = []
    if a.sha256 != b.sha256:
        with suppress(EdgewiseError):
            graphs = [read_graph(ref) for ref in (a, b) if Path(ref.path).exists() and _is_unchanged(ref)]
    return graphs if len(graphs) == 2 else []


def _is_unchanged(ref: ModelRef) -> bool:
    return open_model(ref.path).ref.sha256 == ref.sha256


def _say_types(counts: Mapping[str, int]) -> str:
    """``"int8 (5 of 6) and float32 (1)"``, the most operators first; a type alone without its number."""
    total = sum(counts.values())
    ordered = sorted(counts, key=lambda word: -counts[word])
    if len(ordered) == 1:
        return f"{ordered[0]} (all {total})"
    return listing([f"{word} ({counts[word]} of {total})" for word in ordered])


def _say_operators(before: Graph, after: Graph) -> str:
    """``"24 operators where there were 39: fewer BatchNormalization (20) and Mul (2)"``; empty where they are equal."""
    old, new = (Counter(operator.op for operator in graph.operators) for graph in (before, after))
    if old == new:
        return ""
    changed = [op for op in {**old, **new} if new[op] != old[op]]
    ways = by_key(("fewer" if new[op] < old[op] else "more", op) for op in changed)
    words = [f"{way} {_few(ops, old, new)}" for way, ops in ways.items()]
    return f"{new.total()} operators where there were {old.total()}: {', '.join(words)}"


def _few(ops: Sequence[str], old: Counter[str], new: Counter[str]) -> str:
    ordered = sorted(ops, key=lambda op: -abs(new[op] - old[op]))
    words = [f"{one_line(op)} ({abs(new[op] - old[op])})" for op in ordered[:_MOST_TYPES]]
    return listing([*words, *(["others"] if len(ordered) > _MOST_TYPES else [])])
