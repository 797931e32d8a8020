"""``edgewise tour``: the loop on a bundled real model. Later steps of the loop join here as they come to be."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

_STEP = "\n[bold]{number}/{total} {title}[/]\n[dim]{command}[/]"
MODELS = ("digits_cnn.onnx", "digits_cnn.tflite")
TABLES = ("zoo", "platform", "watch")
SESSIONS = 3


def command(
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder for the tables and the page; made if missing")
    ] = Path("edgewise-tour"),
    store: Annotated[str | None, typer.Option(help="Where runs are kept, any SQLAlchemy URL")] = None,
    no_store: Annotated[bool, typer.Option("--no-store", help="Keep nothing")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress")] = False,
) -> int:
    """Walk the whole loop on a bundled real model, ending in an HTML report."""
    from edgewise.api import stopping_of
    from edgewise.cli.console import err
    from edgewise.cli.measuring import finish, measure, show
    from edgewise.data import path as bundled
    from edgewise.errors import BadInput
    from edgewise.record import Scenario, TargetSpec
    from edgewise.report.files import write_report
    from edgewise.run.plan import Axes, make_plan

    if output.exists() and not output.is_dir():
        raise BadInput(f"{output} is not a folder", advice="give another with -o FOLDER")
    console = err()
    console.print(
        "A small convolutional network for handwritten digits, bundled as ONNX and as TFLite, goes round the loop "
        "on every runtime that is installed here. 'edgewise doctor' lists them.",
    )
    paths = [bundled(name) for name in MODELS]
    same = f"edgewise bench --sessions {SESSIONS} {' '.join(map(str, paths))}"
    console.print(_STEP.format(number=1, total=2, title="Benchmark", command=escape(same)), soft_wrap=True)
    plan = make_plan(
        paths,
        axes=Axes(),
        scenario=Scenario(),
        stopping=stopping_of(
            iterations=None, warmup=None, duration=None, sessions=SESSIONS, report_every=None, timeout=120.0
        ),
        target=TargetSpec(),
    )
    outcome = measure(plan, store=store, keep=not no_store, meters=True, quiet=quiet)
    show(outcome, as_json=False)
    if outcome.runs:
        console.print(
            _STEP.format(number=2, total=2, title="Report", command="edgewise report group:last -o report.html")
        )
        output.mkdir(parents=True, exist_ok=True)
        for table in TABLES:
            file = output / f"{table}.md"
            write_report(outcome.runs, file, table=table, task="Image Classification", overwrite=True)
            console.print(f"wrote {file}", soft_wrap=True)
        page = output / "report.html"
        write_report(outcome.runs, page, title="edgewise tour", overwrite=True)
        console.print(f"wrote {page}: open it in a browser", soft_wrap=True)
    return finish(outcome)
