"""``edgewise atlas``: import, list and remove tables of what models take on other devices."""

from __future__ import annotations

from pathlib import Path

from edgewise.terminal.console import err, out, print_json
from edgewise.text import one_line
from edgewise.verbs import choices
from edgewise.verbs.command import takes
from edgewise.verbs.option import Values, argument, option
from edgewise.verbs.shared_options import JSON_TOO, PLAIN

SCHEMA = 1


@takes(
    argument(
        "kind",
        "ncnn (benchmark/README.md), ai-hub (perf.yaml), timm (results/benchmark-infer-*.csv), litert-board "
        "(measurements.jsonl), tflite-hosted (hosted_models.md), stm32 and arm (README.md of models), rknn "
        "(README.md), hailo (docs/public_models), mlperf-tiny (the results of a round), table (CSV with the columns "
        "model, device, latency_ms …) or runs (from 'edgewise runs export'; without those that failed or have grade "
        "D).",
        str,
        metavar="SOURCE",
    ),
    argument("path", "Your copy: a file, or a folder with such files.", Path, metavar="PATH"),
    option("--name", PLAIN, "Name of the table (default: SOURCE; for table and runs, the name of the file)"),
    option("--source TEXT", PLAIN, "Where it is from, such as 'Tencent/ncnn@a4d2ea1'", default=""),
    option("--licence TEXT", PLAIN, "Its licence, such as BSD-3-Clause", default=""),
    option("--force", PLAIN, "Replace a table of that name", bool),
)
def import_table(values: Values) -> None:
    """Read published results, or your own, into the atlas; 'edgewise calibrate' then uses them."""
    from edgewise.predicting.atlas import save
    from edgewise.predicting.tables import read_source
    from edgewise.progress import LogLine, reporting_to

    def show(event: object) -> None:
        if isinstance(event, LogLine):
            err().print(event.text, markup=False, highlight=False, style="dim", soft_wrap=True)

    kind, path = values["kind"], values["path"]
    with reporting_to(show):
        rows = read_source(kind, path, source=values["source"], licence=values["licence"])
    name = values["name"] or (path.stem if kind in ("table", "runs") else kind)
    save(name, rows, overwrite=values["force"])
    devices, models = len({row.device for row in rows}), len({row.model for row in rows})
    err().print(f"{name}: measurements {len(rows)}, models {models}, devices {devices}", markup=False, highlight=False)


@takes(JSON_TOO)
def list_tables(values: Values) -> None:
    """List the tables of the atlas, with their sources and licences."""
    from edgewise.predicting.atlas import atlas_folder, stamp, tables

    found = [
        {
            "table": name,
            "measurements": len(rows),
            "devices": len({row.device for row in rows}),
            "models": len({(row.model, row.variant) for row in rows}),
            "runtimes": sorted({row.runtime for row in rows}),
            "sources": sorted({row.source for row in rows}),
            "licences": sorted({row.licence for row in rows if row.licence}),
        }
        for name, rows in tables(stamp()).items()
    ]
    if values["json"]:
        print_json({"schema": SCHEMA, "folder": str(atlas_folder()), "tables": found})
        return
    from rich.table import Table
    from rich.text import Text

    from edgewise.text import enumerate_few

    table = Table("Table", "Rows", "Devices", "Models", "Sources", "Licences", box=None, padding=(0, 2, 0, 0))
    for row in found:
        cells = [str(row[key]) for key in ("table", "measurements", "devices", "models")]
        cells += [one_line(enumerate_few([str(text) for text in row[key]], 2)) for key in ("sources", "licences")]  # type: ignore[attr-defined]  # a list of texts
        table.add_row(*map(Text, cells))
    out().print(table)


@takes(argument("name", "Name of the table.", str, metavar="NAME", choices=choices.tables))
def rm(values: Values) -> None:
    """Remove a table from the atlas. Your copy of the results stays."""
    from edgewise.predicting.atlas import remove

    err().print(f"{values['name']} removed: {remove(values['name'])}", markup=False, highlight=False)


COMMANDS = {"import": import_table, "list": list_tables, "rm": rm}
