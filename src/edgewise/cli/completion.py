"""``edgewise completion``: the script with which a shell completes commands, flags and values."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import redirect_stderr
from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.errors import BadInput
from edgewise.verbs.command import takes
from edgewise.verbs.option import Option, Values, argument

if TYPE_CHECKING:
    import click
    from click.shell_completion import CompletionItem

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_EDGEWISE_COMPLETE"
"""Environment variable by which the script asks for the words that fit."""


@takes(argument("shell", "bash, zsh or fish", str, metavar="SHELL", choices=SHELLS))
def command(values: Values) -> None:
    """Print the script that makes a shell complete commands, flags, files, runtimes, devices, tasks and stored runs.

    bash: echo 'eval "$(edgewise completion bash)"' >> ~/.bashrc

    zsh: echo 'eval "$(edgewise completion zsh)"' >> ~/.zshrc

    fish: edgewise completion fish > ~/.config/fish/completions/edgewise.fish
    """
    from edgewise.cli.main import root

    if values["shell"] not in SHELLS:
        raise BadInput(f"{values['shell']!r} can't be completed in", advice=f"one of: {', '.join(SHELLS)}")
    answer(root(), f"{values['shell']}_source")


def answer(root: click.Command, asked: str) -> int:
    """Print what a shell asks for: ``bash_source``, its script, or ``bash_complete``, words that fit."""
    from click.shell_completion import shell_complete

    return shell_complete(root, {}, "edgewise", VARIABLE, asked)


def completions(option: Option, incomplete: str, *, store: str | None = None) -> list[CompletionItem]:
    """The values of `option` that begin with `incomplete`, or its part after the last comma; else files.

    Args:
        store: the store that the command line names.
    """
    from click.shell_completion import CompletionItem

    if store:
        from edgewise.store.location import ENVIRONMENT_VARIABLE

        os.environ[ENVIRONMENT_VARIABLE] = store
    before, comma, last = incomplete.rpartition(",") if option.repeatable else ("", "", incomplete)
    found = [CompletionItem(before + comma + word) for word in _words_for(option) if word.startswith(last)]
    return found or ([CompletionItem(incomplete, type="file")] if option.takes_files else [])


def _words_for(option: Option) -> Sequence[str]:
    """All values; none where finding them fails, without a word."""
    try:
        with Path(os.devnull).open("w", encoding="utf-8") as nowhere, redirect_stderr(nowhere):
            return list(option.choices() if callable(option.choices) else option.choices)
    except Exception:  # a broken store, plug-in or file of devices must not end up on the line being typed
        return ()
