"""Help, printed from declared options: panels of flags at most as wide as the terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from edgewise.terminal.console import out
from edgewise.verbs.command import Command
from edgewise.verbs.option import Option, option
from edgewise.verbs.shared_options import PLAIN

MOST_OPTIONS = 15
"""Number of options above which ``--help`` shows only the common ones."""
EXAMPLES = (
    ("edgewise bench model.onnx --threads 1,2", "which engine is fastest here?"),
    ("edgewise optimize model.onnx --data photos", "can it be made faster?"),
    ("edgewise estimate int8.tflite -d nucleo-l4r5zi", "what would a board take?"),
)
_HELP = option("-h --help", PLAIN, "Show this message and exit.", bool)
_ROOT = (
    option("--version", PLAIN, "Print the version and exit.", bool),
    option("--debug", PLAIN, "Show a traceback on errors.", bool),
    _HELP,
)


def print_command(path: str, command: Command, *, all_options: bool) -> None:
    """Print the help of one command; of many options the common ones, unless `all_options`."""
    is_short = len(command.options) > MOST_OPTIONS and not all_options
    shown = [one for one in command.options if not is_short or not one.flags or one.is_required or one.common]
    _print_head(f"{path} [OPTIONS] {usage_of(command.options)}".rstrip(), command.help)
    panels: dict[str, list[Option]] = {}
    for one in shown:
        panels.setdefault(one.panel, []).append(one)
    arguments = panels.pop("Arguments", [])
    own = panels.pop(PLAIN, [])
    shown_panels = {"Arguments": arguments} if arguments else {}
    for panel, members in {**shown_panels, PLAIN: [*own, _HELP], **panels}.items():
        _print_panel(panel, map(_row, members))
    if is_short:
        _print_foot(f"{len(command.options) - len(shown)} more options: {path} --help-all")


def print_group(path: str, text: str, members: Mapping[str, tuple[str, str]], *, is_root: bool) -> None:
    """Print the help of a group of commands."""
    _print_head(f"{path} [OPTIONS] COMMAND [ARGS]...", text)
    _print_panel(PLAIN, map(_row, _ROOT if is_root else (_HELP,)))
    panels: dict[str, list[tuple[Text, ...]]] = {}
    width = max(map(len, members))
    for name, (panel, line) in members.items():
        panels.setdefault(panel, []).append((Text(name.ljust(width), "bold cyan"), Text(line)))
    for panel, rows in panels.items():
        _print_panel(panel, rows)
    if is_root:
        width = max(len(line) for line, _ in EXAMPLES)
        _print_foot("\n\n".join(f"{line:<{width}}  {question}" for line, question in EXAMPLES))


def usage_of(options: Sequence[Option]) -> str:
    """Return the arguments in the usage line."""
    words = []
    for one in options:
        if not one.flags:
            name = one.metavar + ("…" if one.repeatable and not one.metavar.endswith("…") else "")
            words.append(name if one.is_required else f"[{name}]")
    return " ".join(words)


def _print_head(usage: str, text: str) -> None:
    console = out()
    head = Text.assemble("\n", ("Usage: ", "yellow"), (usage, "bold"), "\n")
    console.print(Padding(head, (0, 1)), soft_wrap=False)
    first, *others = text.split("\n\n")
    console.print(Padding(_marked(" ".join(first.split())), (0, 1)))
    for part in others:
        # An indented part is what a file has, line by line.
        shown = Text(part, "dim") if part.startswith("  ") else _marked(" ".join(part.split()), "dim")
        console.print(Padding(Text.assemble("\n", shown), (0, 1)))
    console.print()


def _print_foot(text: str) -> None:
    out().print(Padding(Text(text, "dim"), (1, 1)))


def _print_panel(title: str, rows: Iterable[tuple[Text, ...]]) -> None:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0), expand=True)
    found = list(rows)
    starred = any(len(row) > 2 for row in found)
    for _ in range(1 + starred):
        table.add_column(no_wrap=True)
    table.add_column(ratio=1, overflow="fold")
    for row in found:
        table.add_row(*([""] if starred and len(row) == 2 else []), *row)
    out().print(Panel(table, title=title, title_align="left", border_style="dim"))


def _row(one: Option) -> tuple[Text, ...]:
    """One option: whether it is required, its flags and value, its help."""
    names = Text(" ".join((one.flag, *one.flags[:-1])) if one.flags else one.metavar, "bold cyan")
    names.highlight_regex(r"(?<!\S)-\w\b", "bold green")
    if one.off:
        names.append(f" {one.off}", "bold magenta")
    if one.flags and one.kind is not bool:
        names.append(f" {one.metavar}", "bold yellow")
    text = _marked(one.help)
    least, most = one.minimum, one.maximum
    bounds = " to ".join(f"{limit:g}" for limit in (least, most) if limit is not None)
    if bounds:
        text.append(f" [{bounds if most is not None else f'{bounds} or more'}]", "dim yellow")
    if one.shown_default:
        text.append(f" [default: {one.shown_default}]", "dim")
    if one.is_required:
        text.append(" [required]", "dim red")
    return (Text("*", "red"), names, text) if one.is_required else (names, text)


def _marked(text: str, style: str = "") -> Text:
    """Help text with its flags in colour."""
    found = Text(text, style)
    found.highlight_regex(re.compile(r"(?<![\w-])--?[a-z][\w-]*"), "cyan")
    return found
