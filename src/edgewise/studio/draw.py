"""The child process that draws: a request per line on standard input, an answer per line on standard output.

A request is ``{"store", "kind", "extension", "runs", "settings"}``; an answer is ``{"content"}``, compressed and in
base64, or ``{"error", "message", "advice"}``. An empty `extension` asks for a fragment of a page.
"""

from __future__ import annotations

import base64
import fcntl
import gc
import json
import os
import signal
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from edgewise.child_process import Limits
from edgewise.errors import BadInput, EdgewiseError
from edgewise.units import format_bytes

if TYPE_CHECKING:
    from edgewise.comparing.comparison import ComparisonResult
    from edgewise.evaluating.evaluation import EvaluationResults
    from edgewise.record import Run
    from edgewise.run.variation import History
    from edgewise.store import Store

MEMORY_BYTES = 2 * 2**30
"""Private memory; the drawing library reserves 0.7 GB of it."""
MOST_BYTES = 32 * 10**6
"""Of one answer, which the server holds in memory."""
MOST_S = 75
"""A drawing whose server is gone ends by then; the server itself is less patient."""

Settings = Mapping[str, Any]


def main() -> int:
    """Answer requests until standard input ends, which also ends what is being drawn."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print
    os.nice(10)  # a measurement goes first
    gc.set_threshold(20_000)  # records have few cycles, as in `edgewise.__main__`
    Limits(data_bytes=MEMORY_BYTES).apply()
    for line in sys.stdin.buffer:
        with _ended_by_server():
            text = json.dumps(answer(json.loads(line)))
        answers.write(text + "\n")
        answers.flush()
    return 0


@contextmanager
def _ended_by_server() -> Iterator[None]:
    """Inside, the kernel ends this process once nobody holds the other end of standard input, or after `MOST_S`.

    A thread that reads standard input is not enough: the drawing library holds the interpreter's lock for seconds. The
    server sends nothing while it waits for an answer, so that only its end raises the signal, which nobody handles.
    """
    flags = fcntl.fcntl(0, fcntl.F_GETFL)
    fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(0, fcntl.F_SETFL, flags | os.O_ASYNC)
    signal.alarm(MOST_S)
    try:
        yield
    finally:
        signal.alarm(0)
        fcntl.fcntl(0, fcntl.F_SETFL, flags)


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to one request."""
    try:
        store = _store(request["store"])
        runs, settings = store.resolve(request["runs"]), request["settings"]
        if request["kind"] == "trend":
            from edgewise.studio.trend_chart import render_trend

            drawn = render_trend(store, request["extension"], **settings)
        elif request["kind"] == "suite":
            drawn = draw_suite(store, settings["suite"])
        else:
            drawn = draw(request["kind"], runs, request["extension"], settings, store.readings)
        content = drawn if isinstance(drawn, bytes) else drawn.encode("utf-8", "replace")
        if len(content) > MOST_BYTES:
            raise BadInput(
                f"this would be {format_bytes(len(content))}", advice="use 'edgewise report RUN… -o F' for large files"
            )
    except EdgewiseError as error:
        return {"error": type(error).__name__, **error.marked._asdict()}
    except MemoryError:
        raise  # only the end of this process gives the memory back
    except Exception as error:
        message = f"internal error: {type(error).__name__}: {error}"
        return {"error": "EdgewiseError", "message": message, "advice": "report what 'edgewise report RUN' prints"}
    return {"content": base64.b64encode(zlib.compress(content)).decode()}


def draw(kind: str, runs: Sequence[Run], extension: str, settings: Settings, history: History) -> str | bytes:
    """Return a fragment of a page, or the content of a file for other people's eyes where `extension` is not empty.

    Args:
        history: the readings of earlier runs on a machine, given its key, for comparisons.

    Raises `BadInput` for an unknown kind or extension and for runs that have nothing of the kind; `Unavailable`.
    """
    from edgewise.report.document.page import as_part
    from edgewise.report.files import runs_for_others

    if extension:
        return _render(kind, runs_for_others(runs, extension), extension, settings, history)
    with as_part():
        return _render(kind, runs, ".html", settings, history)


def _render(kind: str, runs: Sequence[Run], extension: str, settings: Settings, history: History) -> str | bytes:
    from edgewise.report.files import profiled, render_report
    from edgewise.verbs.compare.presentation import FORMAT as COMPARISON
    from edgewise.verbs.evaluate.presentation import FORMAT as EVALUATION

    match kind:
        case "report":
            return render_report(runs, extension, **settings)
        case "runs":
            return render_report(runs, extension, **{"table": "bench", **settings})
        case "profile":
            return render_report(profiled(runs), extension, **{"table": "profile", **settings})
        case "comparison":
            return COMPARISON.render(contrast(runs, settings, history), extension)
        case "evaluation":
            return EVALUATION.render(evaluations(runs), extension)
        case "graph":
            from edgewise.studio.graph_part import render_graph

            return render_graph(runs, extension, **settings)
        case _:
            raise BadInput(
                f"there is no page of kind {kind!r}",
                advice="use runs, profile, graph, trend, comparison, evaluation or report",
            )


def draw_suite(store: Store, suite: str) -> str:
    """Return the results of the cells that a suite of a lab queued last, without the folders of their models."""
    from edgewise.report.document.page import as_part, render_document_page
    from edgewise.store.redaction import redact_paths
    from edgewise.verbs.sweep.in_lab import result_of_suite

    result = result_of_suite(store.lab, suite)
    with as_part():
        drawn = render_document_page(result.describe(), kind="sweep")
    return redact_paths(drawn, dict.fromkeys(cell.model for cell in result.cells))


def contrast(runs: Sequence[Run], settings: Settings, history: History) -> ComparisonResult:
    """Return what ``edgewise compare RUN RUN…`` says of stored runs: the later ones against the first.

    Args:
        settings: fields of `Criteria`, as ``force`` to compare what is not fair to compare.
        history: as `draw` takes it.

    Raises `BadInput` for fewer than two runs, and for what can't be compared fairly.
    """
    from edgewise.comparing.criteria import Criteria
    from edgewise.comparing.jobs import Subject
    from edgewise.comparing.rerun import with_reruns
    from edgewise.comparing.subjects import compare_stored

    subjects = [Subject(thing=run, argument=place) for place, run in enumerate(runs)]
    return with_reruns(compare_stored(subjects, Criteria(**settings)), history)


def evaluations(runs: Sequence[Run]) -> EvaluationResults:
    """Return the stored accuracies of `runs`. Differences on the same samples need the answers, which runs don't hold.

    Raises `BadInput` where no run has an accuracy.
    """
    from edgewise.evaluating.evaluation import EvaluationResults, ModelEvaluation
    from edgewise.evaluating.scores import Score
    from edgewise.report.runs.cells import chief_metric, judged_rows

    def scores(run: Run, n: int) -> tuple[Score, ...]:
        return tuple(
            Score(metric=row.metric, n=n, value=row.value, low=row.low, high=row.high, method=row.method,
                  absent_because=row.absent_because)
            for row in judged_rows(run)
        )  # fmt: skip

    found = tuple(
        ModelEvaluation(run=run, scores=scores(run, run.evaluation.n), headline=chief_metric(run) or "")
        for run in runs
        if run.evaluation is not None
    )
    if not found:
        raise BadInput("none of these runs was evaluated", advice="use 'edgewise evaluate MODEL --data PATH'")
    return EvaluationResults(models=found)


@cache
def _store(url: str | None) -> Store:
    from edgewise.store import open_store

    return open_store(url, create=False)


if __name__ == "__main__":
    raise SystemExit(main())
