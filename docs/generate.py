"""Write the pages that follow from the code: metrics, cautions, costs, operators, findings and the command line.

``python docs/generate.py`` writes them; with ``--check`` it writes nothing and fails where a page is out of date.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import improving_tables
from man_pages import man_pages
from markdown_tables import NOTE, plain, table, wrapped

from edgewise.cli.help import usage_of
from edgewise.errors import ExitCode
from edgewise.importing import IMPORTERS
from edgewise.importing.spec import SETTINGS
from edgewise.metrics import METRICS
from edgewise.model.cost import ACTIVATIONS, KINDS
from edgewise.model.dialects import keras, onnx, openvino, tflite, torch
from edgewise.model.dialects.base import RawOperator, Semantics
from edgewise.model.graph import Tensor
from edgewise.profiling import findings
from edgewise.record.caution import CAUTIONS, Caution
from edgewise.verbs.command import Command
from edgewise.verbs.option import Option
from edgewise.verbs.sweep.suite import Suite

FOLDER = Path(__file__).parent


def metrics_page() -> str:
    """The catalogue of metrics."""
    introduction = (
        "# Metrics\n\n"
        "Every number in edgewise has one of these ids. Records, `--json` and the database hold SI base units; text "
        "and tables are in ms, MiB (2²⁰ bytes), °C and so on. The *headline* is how one value follows from the "
        "samples. Which metrics a run has depends on the scenario, the runtime and the sensors of the machine; a "
        "metric that can't be known is absent, with the reason.\n\n"
    )
    better = {"lower": "lower", "higher": "higher", "none": "neither"}
    rows = (
        (f"`{metric.id}`", metric.label, metric.unit, better[metric.better], metric.aggregation, metric.definition)
        for metric in METRICS.values()
    )
    return NOTE + wrapped(introduction) + table(("Id", "Label", "Unit", "Better", "Headline", "Definition"), rows)


def suite_schema() -> str:
    """The JSON Schema of a sweep's suite, for editors."""
    document = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Suite.model_json_schema()}
    return json.dumps(document, indent=2) + "\n"


def list_for_agents() -> str:
    """``llms.txt``: the pages with a line each, as the first page lists them."""
    index = (FOLDER / "index.md").read_text(encoding="utf-8")
    rows = re.findall(r"^- \[\]\((.+\.md)\): (.+)$", index, re.MULTILINE)
    # Generated pages begin with a comment.
    texts = {page: (FOLDER / page).read_text(encoding="utf-8").removeprefix(NOTE) for page, _ in rows}
    titles = {page: text.lstrip().partition("\n")[0].removeprefix("# ") for page, text in texts.items()}
    lines = [f"- [{titles[page]}](docs/{page}): {what}" for page, what in rows]
    first = (
        "# edgewise\n\n> Measures and improves neural networks at the edge: one command line, library and local page."
    )
    links = "- [Commands and options](docs/cli.md)\n- [Skill for agents](skills/edgewise/SKILL.md)"
    return f"{first}\n\n## Pages\n\n" + "\n".join(lines) + f"\n\n## Reference\n\n{links}\n"


def cautions_table() -> str:
    """The catalogue of cautions, which the page on measuring includes."""
    rows = ((f"`{code}`", cap, Caution.of(code, "").advice) for code, (cap, _) in CAUTIONS.items())
    return NOTE + table(("Caution", "Grade at best", "What to do"), rows)


def importers_table() -> str:
    """What is taken from the files of other tools, which the page on importing includes."""
    rows = []
    for name, importer in IMPORTERS:
        for form in importer.forms:
            samples = {one.name for one in form.fields if one.samples}
            metrics = [f"{METRICS[each].label} (single values)" if each in samples else METRICS[each].label
                       for each in form.names if each in METRICS]  # fmt: skip
            metrics += ["layers"] if form.rows is not None or "layers" in form.names else []
            settings = [each for each in form.names if each in SETTINGS and each != "unit"]
            rows.append((f"`{name}`", form.title, ", ".join(metrics), ", ".join(settings) or "none"))
    return NOTE + table(("`--from`", "File", "Numbers", "Settings"), rows)


def kinds_table() -> str:
    """The kinds of operators with the formula of each, which the page on costs includes."""
    rows = ((f"`{name}`", kind.title, kind.formula, numbers_of(kind.geometry)) for name, kind in KINDS.items())
    text = table(("Kind", "What it is", "Formula", "Numbers in it"), rows)
    return NOTE + text.replace("`ACTIVATIONS`", "the table of functions")


def numbers_of(geometry: Mapping[str, str]) -> str:
    """The numbers that a formula takes, each with its meaning where its name does not say it."""
    return "; ".join(f"`{name}`: {words}" if words else f"`{name}`" for name, words in geometry.items()) or "none"


def activations_table() -> str:
    """Operations per element of each function, which the page on costs includes."""
    rows = ((f"`{name}`", str(ops)) for name, ops in ACTIVATIONS.items())
    return NOTE + table(("Function", "Operations per element"), rows)


def findings_table() -> str:
    """The catalogue of findings with the bounds that they go by, which the page on profiling includes."""
    rows = ((f"`{code}`", meaning) for code, meaning in findings.FINDINGS.items())
    bounds = (
        ("smallest saving that is reported", f"{findings.LEAST_SHARE:.0%} of the latency"),
        ("far from its roof", f"below {findings.FAR_FROM_ROOF:.0%} of it"),
        (
            "tiny",
            f"under {findings.TINY_SHARE:.1%} of the latency and under {findings.TINY_OPS:,} operations; "
            f"reported if there are at least {findings.STORM_LAYERS} such layers",
        ),
        (
            "slow first inference",
            f"over {findings.SLOW_START:.0f} times the steady one, and over {findings.LEAST_START_S * 1e3:.0f} ms more",
        ),
    )
    text = table(("Finding", "What it means"), rows) + "\n" + table(("Word", "Bound"), bounds)
    return NOTE + re.sub(r"(?<=\d)%", " %", text)


def operator_sets_table() -> str:
    """The targets whose support is told without running them, which the page on inspecting includes."""
    from edgewise.model import operator_sets

    sets = (
        operator_sets.OnnxRuntimeCpu(),
        operator_sets.OpenVinoOnnx(),
        operator_sets.LiteRtInterpreter(),
        operator_sets.OpenVinoTflite(),
        operator_sets.OpenVinoIr(),
    )
    rows = ((f"`{each.name}`", ", ".join(each.formats), each.engine, each.limits or "none found") for each in sets)
    return NOTE + table(("Engine", "Format", "Tried", "Limits"), rows)


#: format → how its operators are read, and their names with the set they are of
DIALECTS: tuple[tuple[str, Callable[[RawOperator], Semantics], Sequence[tuple[str, str]]], ...] = (
    ("ONNX", onnx.interpret, [(domain, op) for domain, ops in onnx.OPERATORS.items() for op in ops]),
    ("TFLite", tflite.interpret, [*(("", op) for op in tflite.BUILTIN), *(("custom", op) for op in tflite.CUSTOM)]),
    ("OpenVINO IR", openvino.interpret, [("", op) for op in openvino.OPERATIONS]),
    ("PyTorch", torch.interpret, [("", op) for op in torch.OPERATORS]),
    ("Keras", keras.interpret, [("", op) for op in keras.OPERATORS]),
)


def operators_page() -> str:
    """Every operator that has a kind, by format."""
    parts = [
        "# Operators\n\n",
        "Which of the [kinds](costs.md) each operator of each format is counted as. An operator that is not on this "
        "page has an unknown cost, and a model with one has unknown totals; it is never counted as 0. The kind "
        "of some operators depends on their options and shapes. Such an operator is in the row of the kind that it has "
        "for plain tensors; if it has none for these, it is in the last row.\n",
    ]
    for title, read, names in DIALECTS:
        by_kind: dict[str, list[str]] = {}
        for domain, op in names:
            by_kind.setdefault(usual_kind(read, domain, op), []).append(f"{domain}.{op}" if domain else op)
        rows = [
            (KINDS[kind].title if kind else "by its options, or unknown", plain(", ".join(sorted(set(by_kind[kind])))))
            for kind in (*KINDS, "")
            if kind in by_kind
        ]
        parts += [f"\n## {title}\n\n{len(names)} operators.\n\n", table(("Kind", "Operators"), rows)]
    return NOTE + wrapped("".join(parts))


def usual_kind(read: Callable[[RawOperator], Semantics], domain: str, op: str) -> str:
    """The kind of an operator on plain tensors, "" where it can't be told from those."""
    return next((kind for operator in plain_operators(domain, op) if (kind := read(operator).kind)), "")


def plain_operators(domain: str, op: str) -> Iterator[RawOperator]:
    """An operator with six inputs of every common rank and type, without options."""
    for dtype in ("float32", "int8", "bool"):
        for rank in (4, 3, 2, 1, 5):
            for constant in (False, True):
                inputs = [
                    Tensor(name=f"x{at}", shape=(2,) * rank, dtype=dtype, constant=constant and at > 0)
                    for at in range(6)
                ]
                output = Tensor(name="y", shape=(2,) * rank, dtype=dtype)
                yield RawOperator(op=op, domain=domain, inputs=inputs, outputs=[output], values=lambda at: (1,) * 4)


def boards_page() -> str:
    """The catalogue of boards with the source of every figure."""
    from edgewise.estimating.boards import CORE_TITLES, Board, boards, kib

    def clock(board: Board) -> str:
        return f"{board.clock_hz / 1e6:g} MHz"

    def memory(board: Board) -> str:
        region = board.ram_region_bytes
        return kib(board.ram_bytes) + ("" if region in (None, board.ram_bytes) else f" ({kib(region)} contiguous)")

    def flash(board: Board) -> str:
        waits = "" if board.wait_states is None else f"{board.wait_states} wait states"
        return "; ".join(filter(None, (kib(board.flash_bytes), waits, board.flash_access)))

    def figures(board: Board, source: str) -> str:
        names = (name for name, one in board.sources.items() if one == source)
        return ", ".join(re.sub(r"_(hz|bytes|w)$", "", name).replace("_", " ") for name in names)

    parts = [
        "# Boards\n\n",
        "The boards that `edgewise estimate -d BOARD` and `edgewise estimate --fits` know, see [](estimate.md). Clock "
        "is the highest clock of the core, and wait states are those of the flash at this clock. RAM and flash are in "
        "KiB (1,024 B); RAM is on the microcontroller. A figure without a source is left out.\n",
    ]
    known = boards().values()
    for core, title in CORE_TITLES.items():
        rows = [
            (f"`{each.name}`", f"{each.title}: {each.soc}", clock(each), memory(each), flash(each), each.accelerator)
            for each in known
            if each.core == core
        ]
        parts += rows and [f"\n## {title}\n\n", table(("-d", "Board", "Clock", "RAM", "Flash", "Accelerator"), rows)]
    power = ((f"`{each.name}`", f"{each.power_w * 1e3:.1f} mW", each.power_includes) for each in known if each.power_w)
    parts += ["\n## Power while a model runs\n\n", table(("-d", "Power", "Includes"), power), "\n## Sources\n\n"]
    sources = (
        (f"`{each.name}`", source, figures(each, source))
        for each in known
        for source in dict.fromkeys(each.sources.values())
    )
    return NOTE + wrapped("".join(parts)) + table(("-d", "Source", "Figures"), sources)


def command_page() -> str:
    """Every command with its arguments and options, as the program itself declares them."""
    from edgewise.cli.main import commands, declared

    lines = ((f"[{name}](#edgewise-{name})", line) for name, (_, line) in commands().items())
    parts = [
        "# Command line\n\n",
        "This page is generated from the program; `edgewise COMMAND --help-all` prints the same, and "
        "`--help` the common options. Results go to standard output, "
        "progress and cautions to standard error. With `--json`, standard output holds exactly one JSON "
        "document and nothing else.\n\n",
        table(("Command", "What it does"), lines),
        "\nAnywhere on the line, `--version` prints the version, and `--debug` shows a traceback on errors. "
        "Where a command takes MODEL, `-m MODEL` and `--model MODEL` are as good, and `hf:ORG/NAME:FILE` is a "
        "[file of the Hugging Face Hub](getting-started.md#models-of-the-hugging-face-hub). A project's defaults "
        "stand in "
        "[`edgewise.toml`](getting-started.md#defaults-for-a-project).\n\n",
        "## Exit codes\n\n",
        table(("Code", "Meaning"), CODES),
        "\n## Environment\n\n",
        table(("Variable", "Meaning"), ENVIRONMENT),
    ]
    for name, (_, line) in commands().items():
        found = declared(name)
        if isinstance(found, Command):
            parts += describe(f"edgewise {name}", found, level=2)
        else:
            parts.append(f"\n## edgewise {name}\n\n{plain(line)}\n\n")
            for inner, command in found.items():
                parts += describe(f"edgewise {name} {inner}", command, level=3)
    return NOTE + wrapped(re.sub(r"\n{3,}", "\n\n", "".join(parts))).rstrip() + "\n"


MEANING = {
    "DONE": "done",
    "INTERNAL": "an error inside edgewise: please report it with what `--debug` prints",
    "BAD_INPUT": "bad usage or bad input; nothing was measured",
    "UNAVAILABLE": "a runtime, device, sensor, store or library is not available",
    "RUN_FAILED": "at least one run failed, the others are complete; or nothing meets the bounds of `optimize`",
    "BUDGET_EXCEEDED": "a check of `gate` failed or stayed inconclusive",
    "INTERRUPTED": "interrupted with Ctrl-C; what was finished is kept",
}
CODES = tuple((str(code.value), MEANING[code.name]) for code in ExitCode)
ENVIRONMENT = (
    ("`EDGEWISE_STORE`", "where runs are kept when `--store` is not given"),
    ("`EDGEWISE_DEBUG`", "any text: the same as `--debug`"),
    ("`NO_COLOR`", "any text: no colours"),
)


def describe(name: str, command: Command, *, level: int) -> list[str]:
    """One command's section."""
    arguments = [one for one in command.options if not one.flags]
    options = [one for one in command.options if one.flags]
    heading = f"\n{'#' * level} {name}\n\n"
    text = [heading, plain(" ".join(command.help.split("\n\n")[0].split())) + "\n\n"]
    words = [name, "[OPTIONS]" if options else "", usage_of(arguments)]
    text.append("```text\n" + " ".join(word for word in words if word) + "\n```\n\n")
    if arguments:
        rows = ((f"`{one.metavar}`", plain(one.help)) for one in arguments)
        text += [table(("Argument", "Meaning"), rows), "\n"]
    for panel in dict.fromkeys(one.panel for one in options):
        rows = ((spelling(one), plain(with_default(one))) for one in options if one.panel == panel)
        text += [table((panel, "Meaning"), rows), "\n"]
    return text


def spelling(option: Option) -> str:
    """An option's names, short ones first, the long ones with the word for their value."""
    names = [*option.flags, option.off] if option.off else option.flags
    value = f" {option.metavar}" if option.metavar else ""
    return ", ".join(f"`{name}{value}`" if name.startswith("--") else f"`{name}`" for name in names)


def with_default(option: Option) -> str:
    """Help of an option, with its default where that says something."""
    return f"{option.help} [{option.shown_default}]" if option.shown_default else option.help


PAGES = {
    "metrics.md": metrics_page,
    "suite.schema.json": suite_schema,
    "generated/importers.md": importers_table,
    "generated/cautions.md": cautions_table,
    "generated/kinds.md": kinds_table,
    "generated/activations.md": activations_table,
    "generated/findings.md": findings_table,
    "generated/operator-sets.md": operator_sets_table,
    "generated/data-formats.md": improving_tables.formats_table,
    "generated/tasks.md": improving_tables.tasks_table,
    "generated/steps.md": improving_tables.steps_table,
    "generated/passes.md": improving_tables.passes_table,
    "operators.md": operators_page,
    "boards.md": boards_page,
    "cli.md": command_page,
    "../llms.txt": list_for_agents,
    **man_pages(CODES, ENVIRONMENT),
}


def outdated(folder: Path = FOLDER) -> list[str]:
    """The names of generated pages in `folder` that are not what the code says now."""
    return [
        name
        for name, page in PAGES.items()
        if not (folder / name).is_file() or (folder / name).read_text(encoding="utf-8") != page()
    ]


def main() -> int:
    """Write the pages, or check them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a page is out of date")
    names = outdated()
    if parser.parse_args().check:
        for name in names:
            print(f"docs/{name} is out of date: run python docs/generate.py", file=sys.stderr)
        return int(bool(names))
    for name in names:
        (FOLDER / name).parent.mkdir(exist_ok=True)
        (FOLDER / name).write_text(PAGES[name](), encoding="utf-8")
        print(f"wrote docs/{name}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
