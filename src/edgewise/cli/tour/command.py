"""``edgewise tour``: the loop on a bundled real model: measure, explain, judge, improve, and prove it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from edgewise.cli.verb import Output, present, with_context
from edgewise.errors import BadInput, ExitCode, Unavailable
from edgewise.registry import availability_of
from edgewise.verbs import shared_options as options
from edgewise.verbs.command import takes
from edgewise.verbs.estimate.presentation import EstimatePresentation
from edgewise.verbs.option import Values, option
from edgewise.verbs.presentation import View
from edgewise.verbs.verb import VERBS, carry_out

if TYPE_CHECKING:
    from rich.console import Console

    from edgewise.estimating.base import Estimate
    from edgewise.evaluating.evaluation import EvaluationResults
    from edgewise.optimizing.variant import Optimization
    from edgewise.record import Run
    from edgewise.verbs.measuring import Measured
    from edgewise.verbs.request import Request

_STEP = "\n[bold]{number}/{total} {title}[/]\n[dim]{command}[/]"
MODELS = ("digits_cnn.onnx", "digits_cnn.tflite")
INT8_MODEL = "digits_cnn_int8.tflite"
BOARD = "nucleo-l4r5zi"
DATA = "digits_test.npz"
TABLES = ("zoo", "platform", "watch")
TASK = "Image Classification"
SESSIONS = 3
STEPS = 7
ROWS = 5
SEARCH_S = 90.0
COMPARE_S = 30.0
PASSES = {".onnx": ("ort-static", "nncf-ptq"), ".tflite": ("litert-static",)}
"""Of each kind of file the passes that do the most for this network; the first that is installed is used. More of them
would leave a race of so short a search too few rounds to prove anything."""

OPTIONS = (
    option(
        "-o --output FOLDER",
        options.OUTPUT,
        "Folder for the tables and the pages; created if missing",
        Path,
        default=Path("edgewise-tour"),
    ),
    options.STORE,
    options.NO_STORE,
    options.QUIET,
)


@takes(*OPTIONS)
def command(values: Values) -> int:
    """Run bench, profile, evaluate, optimize, compare and estimate on a bundled network, and write HTML reports."""
    from edgewise.terminal.console import err

    folder = values["output"]
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"{folder} is not a folder", advice="give another with -o FOLDER")
    output = Output(store=values["store"], keep=not values["no_store"], quiet=values["quiet"], top=ROWS, force=True)
    return Tour(console=err(), folder=folder, output=output).walk()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tour:
    """One walk.

    Attributes:
        folder: for tables and pages.
        output: where runs are kept, and how results are shown.
    """

    console: Console
    folder: Path
    output: Output

    def walk(self) -> int:
        """All steps; an interrupted one is the last. Gives the worst exit code."""
        from edgewise.data import path as bundled
        from edgewise.verbs.reading import request_for

        self.console.print(
            "A small convolutional network for handwritten digits, bundled as ONNX and as TFLite, goes round the loop "
            "on every runtime that is installed here. 'edgewise doctor' lists them."
        )
        paths = readable([bundled(name) for name in MODELS])
        benched: Measured
        benched, code = self._step(1, "Benchmark", request_for("bench", models=paths, sessions=SESSIONS))
        if not benched.runs or benched.interrupted:
            return code
        # The layers of the fastest run, so that the profile explains the number just seen.
        best = fastest(benched.runs).job
        request = request_for("profile", models=[best.model.path], runtimes=[best.runtime.name], sessions=SESSIONS)
        profiled: Measured
        profiled, worse = self._step(2, "Profile", request)
        self._report(benched, profiled)
        code = max(code, worse)
        if profiled.interrupted:
            return code
        models = [path for path in paths if any(_is_good(run, path) for run in benched.runs)]
        code = max(code, self._evaluate(models))
        if code == ExitCode.INTERRUPTED:
            return code
        result, ended = self._optimize(models)
        if ended == ExitCode.INTERRUPTED:
            return ended
        code = max(code, ended, self._compare(benched.runs, result))
        if code == ExitCode.INTERRUPTED:
            return code
        code = max(code, self._estimate())
        if self.output.keep:
            store = f" --store {shlex.quote(self.output.store)}" if self.output.store else ""
            self.console.print(
                f"\n'edgewise serve{store}' shows these runs as a web page.", soft_wrap=True, markup=False
            )
        return code

    def _report(self, benched: Measured, profiled: Measured) -> None:
        """Write tables and pages of what was measured so far."""
        from edgewise.report.files import write_report

        last = profiled.runs[0].id if profiled.runs else "last"
        self._say_step(3, "Report", f"edgewise report {last} -o profile.html")
        self.folder.mkdir(parents=True, exist_ok=True)
        files: list[tuple[Path, Sequence[Run], dict[str, Any]]] = [
            (self.folder / f"{table}.md", benched.runs, {"table": table, "task": TASK}) for table in TABLES
        ]
        if profiled.runs and profiled.runs[0].profile is not None:
            files.append((self.folder / "profile.html", profiled.runs, {"title": "edgewise tour: profile"}))
        files.append((self.folder / "report.html", benched.runs, {"title": "edgewise tour", "table": "bench"}))
        for file, runs, settings in files:
            write_report(runs, file, overwrite=True, known=(), **settings)
            self._say_written(file)

    def _evaluate(self, models: Sequence[Path]) -> int:
        """How right the models are, on the bundled test images; their row of a model zoo's table is then full."""
        from edgewise.data import path as bundled
        from edgewise.report.files import write_report
        from edgewise.verbs.reading import request_for

        if not models:
            self._say_step(4, "Evaluate", "skipped: no model was measured")
            return 0
        request = request_for("evaluate", models=models, data=bundled(DATA), sessions=SESSIONS)
        results: EvaluationResults
        results, code = self._step(4, "Evaluate: is it right?", request, page="evaluate.html")
        if results.models:
            table = self.folder / "accuracy.md"
            write_report([one.run for one in results.models], table, overwrite=True, table="zoo", task=TASK)
            self._say_written(table)
        return code

    def _optimize(self, models: Sequence[Path]) -> tuple[Optimization | None, int]:
        """Search for a faster variant, where a pass is installed that could make one."""
        from edgewise.data import path as bundled

        request = optimize_request(models, data=bundled(DATA), folder=self.folder / "optimized")
        if isinstance(request, str):
            self._say_step(5, "Optimize", f"skipped: {request}")
            return None, 0
        title = "Optimize: can it be smaller and faster, and still be right?"
        return self._step(5, title, request, page="optimize.html")

    def _compare(self, runs: Sequence[Run], result: Optimization | None) -> int:
        """Before and after in turns; where nothing was chosen, the two fastest of `runs`."""
        from edgewise.run.counters import usable_cores

        found = compare_request(runs, result, cores=len(usable_cores()))
        if isinstance(found, str):
            self._say_step(6, "Compare", f"skipped: {found}")
            return ExitCode.DONE
        title, request = found
        return self._step(6, title, request, page="compare.html")[1]

    def _estimate(self) -> int:
        """Estimate the same network in int8 on a microcontroller; without its packages, print what to install."""
        from edgewise.data import path as bundled
        from edgewise.estimating.base import find_device
        from edgewise.verbs.reading import request_for

        try:
            find_device(BOARD)
        except Unavailable as lacking:
            self._say_step(7, "Estimate", f"skipped: {lacking.message}; {lacking.advice}")
            return 0
        request = request_for("estimate", model=bundled(INT8_MODEL), device=BOARD)
        return self._step(7, "Estimate: the int8 model on a microcontroller", request, page="estimate.md")[1]

    def _step(self, number: int, title: str, request: Request, *, page: str = "") -> tuple[Any, int]:
        """Carry `request` out and show the result; gives the exit code too.

        Args:
            page: the report's name; empty writes none.
        """
        from edgewise.verbs.verb import command_of

        file = [self.folder / page] if page else []
        verb = VERBS.get(request.verb)
        flag = "-o" if verb.reports == "output" else f"--{verb.reports}"
        typed = shlex.join([word for path in file for word in (flag, str(path))])
        self._say_step(number, title, f"{command_of(request)} {typed}".rstrip())
        output = replace(self.output, files=file)
        result = with_context(output, partial(carry_out, request))
        shown = BRIEF if request.verb == "estimate" else verb.presentation()
        return result, present(result, shown, output)

    def _say_step(self, number: int, title: str, command: str) -> None:
        """Print a step's heading, and the line that does the same."""
        self.console.print(
            _STEP.format(number=number, total=STEPS, title=title, command=escape(command)), soft_wrap=True
        )

    def _say_written(self, file: Path) -> None:
        hint = ": open it in a browser" if file.suffix == ".html" else ""
        self.console.print(f"wrote {file}{hint}", soft_wrap=True, markup=False, highlight=False)


class BriefEstimate(EstimatePresentation):
    """One row of totals; the layers are in the report."""

    def show(self, result: Estimate, console: Console, *, view: View) -> None:
        """Print the row; nothing where there is no estimate."""
        from edgewise.report.document import Document
        from edgewise.report.document.text import print_document
        from edgewise.report.estimate.document import summary_table

        if result.refused is None:
            print_document(Document(title="", tables=(replace(summary_table(result), title=""),)), console)


BRIEF = BriefEstimate()


def readable(paths: Sequence[Path]) -> list[Path]:
    """Those that an installed runtime reads; all of them where none is, so that the benchmark says what to install."""
    from edgewise.model.identity import open_model
    from edgewise.optimizing.planning import installed_runtimes

    return [path for path in paths if installed_runtimes(open_model(path).ref.format)] or list(paths)


def _is_good(run: Run, path: Path) -> bool:
    return run.status == "done" and Path(run.job.model.path) == path


def fastest(runs: Sequence[Run]) -> Run:
    """Return the run with the lowest latency, of those that have one; else the first."""
    measured = [run for run in runs if run.value("latency")]
    return min(measured, key=lambda run: run.value("latency") or 0.0) if measured else runs[0]


def optimize_request(models: Sequence[Path], *, data: Path, folder: Path) -> Request | str:
    """Optimize the first of `models` that an installed pass can quantise; else why there is none.

    Args:
        folder: where variants go.
    """
    from edgewise.optimizing.base import passes
    from edgewise.verbs.reading import request_for

    missing = ""
    for model in models:
        for name in PASSES.get(model.suffix, ()):
            availability = availability_of(passes().get(name))
            if availability:
                return request_for(
                    "optimize", model=model, data=data, passes=[name], time_budget=SEARCH_S, folder=folder
                )
            missing = missing or f"{availability.reason}; {availability.install_hint}"
    return missing or "no model was measured"


def compare_request(runs: Sequence[Run], result: Optimization | None, *, cores: int) -> tuple[str, Request] | str:
    """Compare the original with what `result` chose; else the two fastest of `runs`, or one thread with two.

    Args:
        result: of the search; None where there was none.
        cores: processor cores that may be used.

    Returns:
        The question and the request; or why nothing can be compared.
    """
    if result is not None and result.chosen is not None:
        # The original in the engine that the search had it in, and the chosen file in its own.
        original, variant = result.baseline, result.candidate(result.chosen)
        assert original.model is not None
        words: tuple[str, ...] = (
            f"original={original.model.path},runtime={original.runtime.name}",
            f"optimised={result.files['chosen']},runtime={variant.runtime.name}",
        )
        return "Compare: is the optimised one really faster, once more?", _comparison(words)
    measured = {run.id: latency for run in runs if run.status == "done" and (latency := run.value("latency"))}
    first = sorted((run for run in runs if run.id in measured), key=lambda run: measured[run.id])[:2]
    words = tuple(f"{run.job.model.path},runtime={run.job.runtime.name}" for run in first)
    if not words:
        return "nothing was measured that could be compared"
    if len(words) > 1:
        return "Compare: is the fastest really faster than the runner-up?", _comparison(words)
    if cores < 2:
        return "only one run, and only one usable core is known"
    return "Compare: one thread or two?", _comparison(words, threads=(1, 2))


def _comparison(words: tuple[str, ...], **fields: Any) -> Request:
    from edgewise.verbs.reading import request_for

    return request_for("compare", subjects=words, time_budget=COMPARE_S, **fields)
