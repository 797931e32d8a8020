"""``edgewise zoo``: list and build reference networks."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.cli.verb import check_files, output_of, present, with_context
from edgewise.terminal.console import err, out, print_json
from edgewise.verbs import choices
from edgewise.verbs import shared_options as options
from edgewise.verbs.command import takes
from edgewise.verbs.declared import declared_options, request_of
from edgewise.verbs.measuring import RunPresentation
from edgewise.verbs.option import Values, argument, option
from edgewise.verbs.presentation import View
from edgewise.verbs.shared import ProtocolRequest

if TYPE_CHECKING:
    from rich.console import Console

    from edgewise.verbs.measuring import Measured

SCHEMA = 1


@takes(options.JSON_TOO)
def list_networks(values: Values) -> None:
    """List the reference networks, the fewest MACs first, with their published size at width 1.

    They have random weights, and no accuracy.
    """
    from edgewise.verbs.zoo.work import documents
    from edgewise.zoo.networks import WITHOUT_ACCURACY

    networks = documents()
    if values["json"]:
        print_json({"schema": SCHEMA, "networks": networks})
        return
    from rich.table import Table

    from edgewise.units import format_si

    table = Table("Name", "Data", "Input", box=None, padding=(0, 2, 0, 0))
    table.add_column("MACs", justify="right")
    table.add_column("Parameters", justify="right")
    for row in networks:
        sizes = [format_si(row[key], "") for key in ("macs", "parameters")]
        table.add_row(row["name"], row["family"], "×".join(map(str, row["input"])), *sizes)
    out().print(table)
    out().print(f"Accuracy: absent ({WITHOUT_ACCURACY}). Sources of the sizes: --json.", style="dim")


@takes(
    argument(
        "names", "Networks, as 'edgewise zoo list' names them.", list[str], metavar="NAME", choices=choices.networks
    ),
    option("-o --output DIR", options.PLAIN, "Folder to write to; created if missing", Path, default=Path()),
    option("--width 0.5", options.PLAIN, "Factor of the numbers of channels, from 0.1 to 2", float, default=1.0),
    option("--resolution 96", options.PLAIN, "Height and width of images and videos (default: as published)", int),
    option("--seed N", options.PLAIN, "Random seed of the weights", int, default=0),
    option(
        "--format FORMAT",
        options.PLAIN,
        "onnx or tflite (float32; needs the extra litert)",
        default="onnx",
        choices=("onnx", "tflite"),
    ),
    option("--force", options.PLAIN, "Overwrite existing files that differ", bool),
)
def build(values: Values) -> None:
    """Write reference networks with random weights, one file each; the same settings give the same bytes.

    The networks are for measuring latency, memory and energy. Their outputs mean nothing.
    """
    from edgewise.verbs.zoo.work import build as write

    settings = {name: values[name] for name in ("width", "resolution", "seed", "format")}
    paths = write(values["names"], values["output"], overwrite=values["force"], **settings)
    err().print(f"wrote {', '.join(map(str, paths))}", soft_wrap=True, markup=False)


KERAS_TABLE = (
    argument("names", "Networks of keras.applications, such as MobileNetV2; or 'all'", list[str], metavar="NAME…"),
    *(one for one in declared_options(ProtocolRequest) if one.name in ("threads", "batch", "iterations", "warmup")),
    option("--sessions N", options.MEASURE, "Number of fresh processes (default: 5; 1 with --iterations)", int),
    options.OUTPUTS,
    options.FORCE,
    options.DETAILS,
    options.AS_JSON,
    options.QUIET,
    options.STORE,
    options.NO_STORE,
)


class _KerasTable(RunPresentation):
    """Runs as the table of Keras Applications."""

    def show(self, result: Measured, console: Console, *, view: View) -> None:
        """Show the table ``long``."""
        from edgewise.report.document.text import print_document
        from edgewise.report.files import report_document

        if result.runs:
            print_document(report_document(result.runs, table="long"), console, details=view.details)

    def write(self, result: Measured, path: Path, *, overwrite: bool) -> None:
        """Write the table ``long`` in the format of the extension."""
        from edgewise.report.files import write_report

        write_report(result.runs, path, overwrite=overwrite, table="long")


@takes(*KERAS_TABLE)
def keras_table(values: Values) -> int:
    """Measure networks of Keras Applications on this CPU: size, parameters, depth and time per inference step.

    The networks have random weights, so there is no accuracy. For the batches and repetitions of Keras' published
    table, give --batch 32 --iterations 30 --sessions 10.
    """
    from edgewise.verbs.bench.request import BenchRequest
    from edgewise.verbs.zoo.keras_table import measure_networks

    presentation, output = _KerasTable(), output_of(values)
    check_files(output.files, presentation.check_file, overwrite=output.force)
    names = [] if values["names"] == ["all"] else values["names"]
    request = request_of(BenchRequest, KERAS_TABLE, values, models=("keras",), runtimes=("keras",), meters=False)
    return present(with_context(output, partial(measure_networks, names, request)), presentation, output)


COMMANDS = {"list": list_networks, "build": build, "keras-table": keras_table}
