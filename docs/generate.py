"""Write the pages that follow from the code: metrics, cautions and the command line.

``python docs/generate.py`` writes them; with ``--check`` it writes nothing and fails where a page is out of date.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from edgewise.metrics import METRICS
from edgewise.record.caution import CAUTIONS

FOLDER = Path(__file__).parent
NOTE = "<!-- Written by docs/generate.py from the code; edit there. -->\n\n"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def metrics_page() -> str:
    """The catalogue of metrics."""
    introduction = (
        "# Metrics\n\n"
        "Every number in edgewise has one of these ids. Records, `--json` and the database hold SI base units; text "
        "and tables are rendered in ms, MB (10⁶ bytes), °C and so on. The *headline* is how one value follows from the "
        "samples. Which of them a run has depends on the scenario, the runtime and the sensors of the machine; one "
        "that can't be known is absent with the reason.\n\n"
    )
    better = {"lower": "lower", "higher": "higher", "none": "neither"}
    rows = (
        (f"`{metric.id}`", metric.label, metric.unit, better[metric.better], metric.aggregation, metric.definition)
        for metric in METRICS.values()
    )
    return NOTE + introduction + table(("Id", "Label", "Unit", "Better", "Headline", "Definition"), rows)


def cautions_table() -> str:
    """The catalogue of cautions, which the page on measuring includes."""
    rows = ((f"`{code}`", cap, advice) for code, (cap, advice) in CAUTIONS.items())
    return NOTE + table(("Caution", "Grade at best", "What to do"), rows)


def command_page() -> str:
    """Every command with its arguments and options, as the program itself declares them."""
    import typer.main

    from edgewise.cli.main import COMMANDS, build
    from edgewise.errors import ExitCode

    root: Any = typer.main.get_command(build("*"))
    commands = {name: root.commands[name] for name in COMMANDS}
    parts = [
        "# Command line\n\n",
        "This page is generated from the program; `edgewise COMMAND --help` prints the same. Results go to standard "
        "output, progress and cautions to standard error. With `--json`, standard output holds exactly one JSON "
        "document and nothing else.\n\n",
        table(("Command", "What it does"), ((f"[{n}](#edgewise-{n})", short(c)) for n, c in commands.items())),
        "\n`edgewise --version` prints the version. `--debug`, anywhere on the line, shows a traceback on errors.\n\n",
        "## Exit codes\n\n",
        table(("Code", "Meaning"), ((str(code.value), MEANING[code.name]) for code in ExitCode)),
        "\n## Environment\n\n",
        table(("Variable", "Meaning"), ENVIRONMENT),
    ]
    for name, command in commands.items():
        parts += describe(f"edgewise {name}", command, level=2)
    return NOTE + re.sub(r"\n{3,}", "\n\n", "".join(parts)).rstrip() + "\n"


MEANING = {
    "DONE": "done",
    "INTERNAL": "an error inside edgewise: please report it with what `--debug` prints",
    "BAD_INPUT": "bad usage or bad input; nothing was measured",
    "UNAVAILABLE": "a runtime, device, sensor, store or library is not available",
    "RUN_FAILED": "at least one run failed; the others are complete",
    "BUDGET_EXCEEDED": "a gate or a budget was exceeded",
    "INTERRUPTED": "interrupted with Ctrl-C; what was finished is kept",
}
ENVIRONMENT = (
    ("`EDGEWISE_STORE`", "where runs are kept when `--store` is not given"),
    ("`EDGEWISE_DEBUG`", "any text: the same as `--debug`"),
    ("`NO_COLOR`", "any text: no colours"),
)


def short(command: Any) -> str:
    """The first paragraph of a command's help on one line."""
    return " ".join((command.short_help or command.help or "").split("\n\n")[0].split())


def describe(name: str, command: Any, *, level: int) -> list[str]:
    """One command's section, and those of its subcommands."""
    heading = f"\n{'#' * level} {name}\n\n"
    text = [heading, plain(" ".join((command.help or "").split("\n\n")[0].split())) + "\n\n"]
    if hasattr(command, "commands"):
        for child_name, child in command.commands.items():
            text += describe(f"{name} {child_name}", child, level=level + 1)
        return text
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and not p.hidden]
    words = [name, "[OPTIONS]" if options else "", *(usage(argument) for argument in arguments)]
    text.append("```text\n" + " ".join(word for word in words if word) + "\n```\n\n")
    if any(argument_help(argument) for argument in arguments):
        rows = ((f"`{shown(argument)}`", plain(argument_help(argument))) for argument in arguments)
        text += [table(("Argument", "Meaning"), rows), "\n"]
    for panel in dict.fromkeys(panel_of(option) for option in options):
        chosen = [option for option in options if panel_of(option) == panel]
        rows = ((spelling(option, value_word(command, option)), plain(option_help(option))) for option in chosen)
        text += [table((panel, "Meaning"), rows), "\n"]
    return text


def panel_of(option: Any) -> str:
    """The heading that an option stands under in the program's own help."""
    return getattr(option, "rich_help_panel", None) or "Option"


def shown(argument: Any) -> str:
    """An argument's name for people."""
    return (argument.metavar or str(argument.name).upper()).strip("[]").replace("...", "…")


def usage(argument: Any) -> str:
    """An argument in the usage line."""
    name = shown(argument)
    name = f"{name}…" if argument.nargs != 1 and not name.endswith("…") else name
    return name if argument.required else f"[{name}]"


def argument_help(argument: Any) -> str:
    """Help of an argument; Typer keeps it on the parameter."""
    return getattr(argument, "help", None) or ""


def value_word(command: Any, option: Any) -> str:
    """What stands for an option's value, from the annotation of the function behind the command; "" for a flag.

    Typer's own words for types are private to it and change between versions.
    """
    if option.is_flag:
        return ""
    if option.metavar:
        return str(option.metavar)
    annotation = str(inspect.signature(command.callback, eval_str=True).parameters[option.name].annotation)
    words = {"Path": "FILE", "int": "N", "float": "X"}
    return next((word for kind, word in words.items() if re.search(rf"\b{kind}\b", annotation)), "TEXT")


def spelling(option: Any, value: str) -> str:
    """An option's names, short ones first, the long ones with the word for their value."""
    names = sorted(option.opts, key=len) + sorted(option.secondary_opts, key=len)
    return ", ".join(f"`{name} {value}`" if value and name.startswith("--") else f"`{name}`" for name in names)


def option_help(option: Any) -> str:
    """Help of an option, with its default where that says something."""
    text = option.help or ""
    default = option.default
    if isinstance(default, str | int | float) and default != "" and not option.is_flag:
        text += f" [{default}]"
    elif default is True:
        text += f" [{max(option.opts, key=len)}]"
    return text


def plain(text: str) -> str:
    """`text` without the terminal's markup and with Markdown's own characters escaped."""
    text = re.sub(r"\[/?(?:bold|dim|red|green|yellow|cyan|italic)[^\]]*\]", "", text)
    return re.sub(r"([<>*_\[\]])", r"\\\1", text)


PAGES = {
    "metrics.md": metrics_page,
    "generated/cautions.md": cautions_table,
    "cli.md": command_page,
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
