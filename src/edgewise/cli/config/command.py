"""``edgewise config``: what the project file sets, the store and the devices, and where each comes from."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from edgewise.cli.project import FILE, PLACES, Project, read_project
from edgewise.device.devices import devices_file
from edgewise.errors import BadInput
from edgewise.store.location import find_location
from edgewise.terminal.console import out, print_json
from edgewise.text import one_line
from edgewise.verbs import shared_options as options
from edgewise.verbs.command import Command, takes
from edgewise.verbs.option import Values

SCHEMA = 1


@takes(options.JSON_TOO)
def show(values: Values) -> int:
    """Show each setting with its value and where it comes from; checks the whole project file.

    Options come from the command line first, then from the nearest edgewise.toml, then from edgewise. The tables of the
    file are named like commands: [bench] has the options of 'edgewise bench' without their dashes.
    """
    project = read_project()
    rows = [*_places(project), *_options(project)]
    file = None if project.file is None else str(project.file)
    if values["json"]:
        print_json({"schema": SCHEMA, "file": file, "settings": rows})
        return 0
    console = out()
    console.print(
        f"Project file: {file}" if file else f"No {FILE} in this folder or above it.", markup=False, soft_wrap=True
    )
    for row in rows:
        value = " ".join(row["value"]) if isinstance(row["value"], list) else row["value"]
        line = f"{row['setting']} = {value} ({row['source']})"
        console.print(one_line(line), markup=False, highlight=False, soft_wrap=True)
    return 0


def _places(project: Project) -> Iterator[dict[str, Any]]:
    """Yield the store, without a password in its URL, and the list of devices."""
    location = find_location()
    shown = {"store": str(location.path) if location.path else _without_password(location.url)}
    shown["devices-file"] = str(devices_file())
    for name, variable in PLACES.items():
        given = os.environ.get(variable)  # the file's own, too: the command line sets it where it is not set
        source = "default" if not given else FILE if given == project.place_of(name) else variable
        yield {"setting": name, "value": shown[name], "source": source}


def _without_password(url: str) -> str:
    from sqlalchemy import make_url

    return make_url(url).render_as_string(hide_password=True)


def _options(project: Project) -> Iterator[dict[str, Any]]:
    from edgewise.cli.main import commands, declared

    names = commands()
    for table, content in project.content.items():
        if table in PLACES:
            continue
        if table not in names:
            raise BadInput(f"{project.file}: [{table}] is no command", advice="see 'edgewise --help'")
        command = declared(table)
        members = {(table,): command} if isinstance(command, Command) else _members(project, table, command, content)
        for words, one in members.items():
            flags = {option.name: option.flag for option in one.options}
            for name, value in project.defaults(words, one.options).items():
                setting = f"{' '.join(words)} {flags[name]}"
                yield {"setting": setting, "value": value, "source": FILE}


def _members(
    project: Project, table: str, commands: Mapping[str, Command], content: Any
) -> dict[tuple[str, ...], Command]:
    for word in content if isinstance(content, Mapping) else ():
        if word not in commands:
            advice = f"tables may be {', '.join(f'[{table}.{name}]' for name in commands)}"
            raise BadInput(f"{project.file}: [{table}] {word} is no command of '{table}'", advice=advice)
    return {(table, word): command for word, command in commands.items()}


COMMANDS = {"show": show}
