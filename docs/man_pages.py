"""Pages for ``man``, one per command, from the options as the program declares them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from edgewise.cli.help import usage_of
from edgewise.cli.main import commands, declared
from edgewise.verbs.command import Command
from edgewise.verbs.option import Option

FOLDER = "man"


def man_pages(codes: Iterable[tuple[str, str]], variables: Iterable[tuple[str, str]]) -> dict[str, Callable[[], str]]:
    """File name → the text of the page: of edgewise itself, and of each command.

    Args:
        codes: exit codes, with their meaning.
        variables: variables of the environment, with their meaning.
    """
    lines = {name: line for name, (_, line) in commands().items()}

    def main_page() -> str:
        parts = (
            ("COMMANDS", ((f"edgewise-{name}(1)", line) for name, line in lines.items())),
            ("EXIT STATUS", codes),
            ("ENVIRONMENT", variables),
        )
        return (
            _head("edgewise", "measure and improve neural networks at the edge")
            + _synopsis("edgewise [--version] [--debug] COMMAND [OPTIONS]…")
            + "".join(f".SH {title}\n{_list(rows)}" for title, rows in parts)
        )

    pages = {f"{FOLDER}/edgewise.1": main_page}
    return pages | {f"{FOLDER}/edgewise-{name}.1": lambda name=name: _page(name, lines[name]) for name in lines}


def _page(name: str, line: str) -> str:
    found = declared(name)
    text = _head(f"edgewise-{name}", line)
    if isinstance(found, Command):
        text += _synopsis(f"edgewise {name} [OPTIONS] {usage_of(found.options)}") + _described(found)
    else:
        text += _synopsis(f"edgewise {name} COMMAND [OPTIONS]")
        for inner, command in found.items():
            usage = f"edgewise {name} {inner} [OPTIONS] {usage_of(command.options)}"
            text += f".SH {_escaped(inner.upper())}\n.B {_escaped(usage.strip())}\n.PP\n" + _described(command, "SS")
    return f"{text}.SH SEE ALSO\n.BR edgewise (1)\n"


def _head(name: str, line: str) -> str:
    title, words = _escaped(name), line[:1].lower() + line[1:].rstrip(".")
    return f'.TH {name.upper()} 1 "" edgewise edgewise\n.SH NAME\n{title} \\- {_escaped(words)}\n'


def _synopsis(usage: str) -> str:
    return f".SH SYNOPSIS\n.B {_escaped(usage.strip())}\n"


def _described(command: Command, level: str = "SH") -> str:
    """What a command does, then its arguments and options by heading."""
    paragraphs = (_escaped(" ".join(part.split())) for part in command.help.split("\n\n"))
    text = ("" if level == "SS" else ".SH DESCRIPTION\n") + "\n.PP\n".join(paragraphs) + "\n"
    panels: dict[str, list[Option]] = {}
    for one in command.options:
        panels.setdefault(one.panel, []).append(one)
    for panel, options in panels.items():
        text += f".{level} {panel.upper()}\n" + _list((_names(one), _help(one)) for one in options)
    return text


def _names(one: Option) -> str:
    if not one.flags:
        return one.metavar
    names = [*one.flags, one.off] if one.off else one.flags
    return ", ".join(f"{name} {one.metavar}" if one.metavar and name.startswith("--") else name for name in names)


def _help(one: Option) -> str:
    return f"{one.help} [{one.shown_default}]" if one.shown_default else one.help


def _list(rows: Iterable[tuple[str, str]]) -> str:
    return "".join(f".TP\n.B {_escaped(name.strip('`'))}\n{_escaped(text)}\n" for name, text in rows)


def _escaped(text: str) -> str:
    """Text as roff reads it: hyphens that can be copied, nothing taken for a request."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\`").replace('"', "\\(dq").replace("'", "\\(aq")
    return re.sub(r"^(?=\.)", r"\\&", " ".join(text.split()))
