"""``python -m edgewise.shims.mltk profile``: the command line of MLTK's model profiler (``mltk profile``).

It accepts the flags of MLTK 0.20, prints its summary and its table of layers, and writes its report files. As in MLTK,
the model is estimated on a Cortex-M33 at 78 MHz, and with ``--accelerator MVP`` on an EFR32xG24. A number that is not
known is ``n/a`` with the reason, where MLTK shows 0 or nothing.
"""

from __future__ import annotations

import argparse
import csv
import io
import shutil
import sys
import zipfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.errors import BadInput, BadModel, ExitCode, RunFailed, Unavailable
from edgewise.folders import job_folder
from edgewise.model.callable_loader import ADVICE, is_factory
from edgewise.report.document import Cell, Column, Document, Table
from edgewise.terminal.console import out
from edgewise.terminal.context import in_context
from edgewise.terminal.errors import explain, tell_ending
from edgewise.text import one_line
from edgewise.units import format_si, significant
from edgewise.verbs.verb import carry_out

if TYPE_CHECKING:
    from edgewise.estimating.base import Estimate
    from edgewise.record import Run

BASIC = "cortex-m33@78MHz"
ACCELERATORS = {"none": BASIC, "cmsis": BASIC, "mvp": "xg24"}
"""MLTK's accelerators in small letters → the device that is estimated."""
FORMATS = ("txt", "json", "csv")
UNFOLDED = 10_000
"""Width of a table whose columns are all wanted, in characters."""
LARGEST_MODEL = 512 * 2**20
NO_COUNTERPART = {
    "post": "--post: nothing leaves this machine",
    "app": "--app: the program of the board is its own; 'edgewise bench -d serial://PORT' works with any firmware that "
    "speaks the protocol of MLPerf Tiny's runner",
    "no_estimates": "--no-estimates: time, cycles and energy are shown wherever they can be estimated",
}
"""Flags that are accepted and change nothing, each with the reason."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code, as edgewise's own."""
    words = _parser().parse_args(arguments)
    for name, reason in NO_COUNTERPART.items():
        if getattr(words, name):
            print(f"note: {reason}", file=sys.stderr)
    try:
        with job_folder() as folder:
            return _profile(words, folder)
    except (Exception, KeyboardInterrupt) as error:
        return ExitCode.INTERRUPTED if isinstance(error, KeyboardInterrupt) else explain(error, debug=False)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m edgewise.shims.mltk")
    profile = parser.add_subparsers(required=True, metavar="profile").add_parser("profile", help="profile a model")
    add = profile.add_argument
    add("model", help=".tflite or .mltk.zip file; with --build, MODULE:FUNCTION or FILE.py:FUNCTION")
    add("-a", "--accelerator", help=f"one of {', '.join(ACCELERATORS)}, or a device of 'edgewise estimate --devices'")
    add("--build", action=argparse.BooleanOptionalAction, help="call the function MODEL and profile what it returns")
    add("-d", "--device", action="store_true", help="measure on the board at --port")
    add("--port", help="serial port of the board, such as /dev/ttyACM0")
    add("--platform", help="board, such as brd2601b or a device of 'edgewise estimate --devices'")
    add("--runtime-buffer-size", type=int, default=-1, metavar="N", help="arena in bytes; 0 finds the smallest one")
    add("--estimates", action="store_true", help="estimate time, cycles and energy (always done)")
    add("--no-estimates", action="store_true", help=argparse.SUPPRESS)
    add("-o", "--output", type=Path, metavar="DIR", help="folder for the report; created if missing")
    add("--format", action="append", choices=FORMATS, help="format of the report; repeatable (default: txt, json)")
    add("--no-format", action="store_true", help="print numbers without prefixes such as k and M")
    add("--full-summary", action="store_true", help="add all other numbers of the estimate")
    add("-v", "--verbose", action="store_true", help="add what the estimate rests on")
    add("--post", action="store_true", help=argparse.SUPPRESS)
    add("--app", help=argparse.SUPPRESS)
    return parser


def _profile(words: argparse.Namespace, folder: Path) -> int:
    from edgewise.verbs.estimate.presentation import EstimatePresentation

    if words.device:
        result: Run | Estimate = _measure(words, folder)
    else:
        result = _estimate(words, folder)
        if code := tell_ending(EstimatePresentation().ending(result, kept=True)):
            return code
    if words.output is None:
        print(_as_text(result, words, width=out().width if sys.stdout.isatty() else UNFOLDED), end="")
    else:
        _write(result, words)
    return ExitCode.DONE


def _estimate(words: argparse.Namespace, folder: Path) -> Estimate:
    from edgewise.estimating.base import find_device
    from edgewise.verbs.checking import make_request
    from edgewise.verbs.estimate.request import EstimateRequest

    device = _device(words.accelerator, words.platform)
    settings = {}
    if words.runtime_buffer_size >= 0:
        settings = {"arena": str(words.runtime_buffer_size)}
        if "arena" not in find_device(device)[0].settings:
            settings = {}
            print(f"note: --runtime-buffer-size: the arena of {device} can't be set", file=sys.stderr)
    if words.build and not is_factory(words.model):
        raise BadInput(f"--build needs a function, not {words.model}", advice=ADVICE)
    model = words.model if words.build else str(_file(Path(words.model), folder))
    request = make_request(EstimateRequest, model=model, device=device, set=settings)
    found: Estimate = in_context(lambda context: carry_out(request, context))
    return found


def _device(accelerator: str | None, platform: str | None) -> str:
    """Return the device that is estimated. Raises `BadInput`."""
    from edgewise.estimating.base import device_names, is_known

    if platform is not None:
        board = platform.lower().removeprefix("brd")
        if found := next((name for name in device_names() if board in (name, *name.split("dk"))), None):
            return found
        raise BadInput(f"--platform {platform} is unknown", advice="'edgewise estimate --devices' lists the boards")
    name = accelerator or "none"
    if name.lower() in ACCELERATORS:
        return ACCELERATORS[name.lower()]
    if is_known(name):
        return name
    raise BadInput(
        f"--accelerator {accelerator} is unknown",
        advice=f"one of {', '.join(ACCELERATORS)}, or a device of 'edgewise estimate --devices'",
    )


def _file(path: Path, folder: Path) -> Path:
    """Return the ``.tflite`` file: `path`, or that of an MLTK archive, unpacked to `folder`. Raises `BadInput`."""
    if not path.is_file():
        raise BadInput(
            f"there is no file {path}",
            advice="give a .tflite or .mltk.zip file, or a function with --build (MLTK's model specifications can't be "
            "read)",
        )
    if not path.name.endswith(".mltk.zip"):
        return path
    target = folder / f"{path.name.removesuffix('.mltk.zip')}.tflite"
    try:
        with zipfile.ZipFile(path) as archive:
            names = [each for each in archive.infolist() if Path(each.filename).name == target.name]
            if not names or names[0].file_size > LARGEST_MODEL:
                raise BadModel(f"{path} has no {target.name} of at most {LARGEST_MODEL // 2**20} MiB")
            with archive.open(names[0]) as source, target.open("wb") as copy:
                shutil.copyfileobj(source, copy)
    except (zipfile.BadZipFile, RuntimeError, OSError) as error:
        raise BadModel(f"{path} can't be unpacked: {error}") from error
    return target


def _measure(words: argparse.Namespace, folder: Path) -> Run:
    """Return the run of the board at the port. Raises `BadInput`, `Unavailable`."""
    from edgewise.verbs.bench.request import BenchRequest
    from edgewise.verbs.checking import make_request

    if words.port is None:
        raise BadInput("--device needs --port", advice="give the serial port of the board, such as --port /dev/ttyACM0")
    if words.build:
        raise BadInput("--build can't be combined with --device", advice="the board runs its own copy of the model")
    model = _file(Path(words.model), folder)
    request = make_request(BenchRequest, models=[str(model)], device=f"serial://{words.port}")
    measured = in_context(lambda context: carry_out(request, context), keep=False)
    if not measured.runs:
        raise Unavailable("; ".join(measured.skipped))
    run: Run = measured.runs[0]
    if run.failure is not None:
        raise RunFailed(run.failure.message, advice=run.failure.advice)
    return run


def _as_text(result: Run | Estimate, words: argparse.Namespace, *, width: int) -> str:
    """MLTK's report: the summary line by line, and the table of layers without the columns that have no value."""
    from edgewise.report.document.text import to_text
    from edgewise.report.profile.mltk import to_dict

    document, show = to_dict(result), partial(_shown, units=not words.no_format)
    summary, reasons, layers = document["summary"], document["absent_because"], document["layers"]
    lines = ["Profiling Summary"]
    for key, label in document["summary_labels"].items():
        lines.append(f"{label}: {f'n/a ({reasons[key]})' if key in reasons else show(summary[key])}")
    if words.full_summary:
        lines += [f"{row.metric}: {show(row.value)}" for row in result.measurements if row.value is not None]
    labels = {
        key: label
        for key, label in document["layer_labels"].items()
        if any(layer[key] not in (None, "") for layer in layers)
    }
    table = Table(
        title="Model Layers",
        columns=tuple(Column(title=label, rank=rank) for rank, label in enumerate(labels.values())),
        rows=tuple(tuple(Cell(text=show(layer[key])) for key in labels) for layer in layers),
    )
    lines += ["", to_text(Document(title="", tables=(table,) if layers else ()), width=width).rstrip()]
    if words.verbose and not words.device:
        lines += ["", f"Software: {result.software}", *result.conditions]  # type: ignore[union-attr]
    return "".join(f"{line}\n" for line in lines)


def _shown(value: Any, *, units: bool) -> str:
    """``53.9k`` as MLTK prints numbers, or the number itself."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not units:
        return "" if value is None else one_line(str(value))
    if 1 <= abs(value) < 1000 or not value:
        return str(value) if isinstance(value, int) else significant(value)
    return format_si(value, "").replace(" ", "")


def _write(result: Run | Estimate, words: argparse.Namespace) -> None:
    """Write MLTK's files, which replace those of an earlier report. Raises `BadInput`, `StoreError`."""
    from edgewise.report.files import make_folder
    from edgewise.report.profile.mltk import to_dict, to_json
    from edgewise.store.exchange import write_file

    document, folder = to_dict(result), words.output
    contents = {
        ".txt": _as_text(result, words, width=UNFOLDED),
        ".json": to_json(result),
        "-summary.csv": _as_csv([document["summary"]]),
        "-layers.csv": _as_csv(document["layers"]),
    }
    accelerator = str(document["summary"]["accelerator"] or "none").lower()
    kind = "embedded" if words.device else "simulated"
    make_folder(folder)
    for end, text in contents.items():
        if end.rpartition(".")[2] in (words.format or ("txt", "json")):
            path = folder / f"profiling_report-{accelerator}-{kind}{end}"
            write_file(path, text, overwrite=True)
            print(f"wrote {path}", file=sys.stderr)


def _as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """As MLTK writes it: keys, then values; nothing where a value is not known."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(rows[0]) if rows else [])
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


if __name__ == "__main__":
    sys.exit(main())
