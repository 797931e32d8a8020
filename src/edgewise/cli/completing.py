"""What a shell completes: the words that fit, for the script that 'edgewise completion' prints."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import redirect_stderr, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.errors import ExitCode
from edgewise.verbs.option import Option

if TYPE_CHECKING:
    import click
    from click.shell_completion import CompletionItem

SHELLS = ("bash", "zsh", "fish")


VARIABLE = "_EDGEWISE_COMPLETE"
"""Environment variable by which the script asks for the words that fit."""


def answer(root: click.Command, asked: str) -> int:
    """Print what a shell asks for: ``bash_source``, its script, or ``bash_complete``, words that fit."""
    from click.shell_completion import get_completion_class

    shell, _, what = asked.partition("_")
    kind = get_completion_class(shell) if shell in SHELLS else None
    if kind is None:
        return ExitCode.BAD_INPUT
    completer = kind(root, {}, "edgewise", VARIABLE)
    if what == "source":
        # Otherwise fish would end a word, and its help, at a comma.
        print(completer.source().replace('string split ","', 'string split -m 1 ","'))
        return ExitCode.DONE
    with suppress(Exception):  # nothing must end up on the line being typed
        given, word = completer.get_completion_args()
        args = [each for each in given if each != "="]  # bash takes --flag=value apart
        flag, equals, _ = word.partition("=")
        before = f"{flag}=" if equals and flag.startswith("--") else ""
        for item in completer.get_completions(args, word):
            item.value = before + item.value if item.type == "plain" else item.value
            print(completer.format_completion(item))
    return ExitCode.DONE


def completions(option: Option, incomplete: str, *, store: str | None = None) -> list[CompletionItem]:
    """Return the values of `option` that begin with `incomplete`, or its part after the last comma; else files.

    Args:
        store: the store that the command line names.
    """
    from click.shell_completion import CompletionItem

    if store:
        from edgewise.store.location import ENVIRONMENT_VARIABLE

        os.environ[ENVIRONMENT_VARIABLE] = store
    before, comma, last = incomplete.rpartition(",") if option.repeatable else ("", "", incomplete)
    found = [CompletionItem(before + comma + word) for word in _words_for(option) if word.startswith(last)]
    return found or ([CompletionItem(incomplete, type="file")] if option.files else [])


def _words_for(option: Option) -> Sequence[str]:
    """All values; none where finding them fails, without a word."""
    try:
        with Path(os.devnull).open("w", encoding="utf-8") as nowhere, redirect_stderr(nowhere):
            return list(option.choices() if callable(option.choices) else option.choices)
    except Exception:  # a broken store, plug-in or file of devices
        return ()
