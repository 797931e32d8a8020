"""Commands as click reads them, made from declared options; groups import only the command that is asked for."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgewise.cli.completing import completions
from edgewise.cli.project import FILE, Project
from edgewise.errors import BadInput, EdgewiseError, ExitCode
from edgewise.verbs.command import Command
from edgewise.verbs.option import Option, Values

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_SYNONYMS = (("rm", "remove", "delete", "del"), ("list", "ls"), ("show", "view", "info", "cat"))
"""Words for one subcommand, of which each group has one."""

_SAME_FLAGS = ("--duration", "--time-budget")
"""Flags for one thing, of which each command has one."""

_EXTRA = "Got unexpected extra argument"
_JUDGED = (
    "'edgewise gate B --baseline A --max-regression 3% --data DATA' judges accuracy and latency in one call, and "
    "'edgewise evaluate A B --data DATA' compares the accuracy"
)
_ELSEWHERE = {
    ("compare", "--data"): _JUDGED,
    ("compare", "--task"): _JUDGED,
    ("inspect", _EXTRA): "'edgewise diff A B' shows what changed in the network, without timing; 'edgewise compare A "
    "B' times both",
    ("runs list", "-o"): "edgewise runs export -o FILE",
    ("runs list", "--output"): "edgewise runs export -o FILE",
    ("runs show", "-o"): "edgewise runs export -o FILE",
    ("runs show", "--output"): "edgewise runs export -o FILE",
}
"""A command, and an option or an extra argument that is for another one → that one."""

_MODEL_FLAGS = {"-m", "--model"}


def parameter_of(one: Option) -> click.Parameter:
    """Return the click parameter of a declared option. It takes texts, which `values_of` converts."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return completions(one, incomplete, store=ctx.params.get("store"))

    common: dict[str, Any] = {"type": click.UNPROCESSED, "shell_complete": complete}
    common |= {"required": True} if one.is_required else {"default": None}
    if not one.flags:
        return click.Argument([one.name], nargs=-1 if one.repeatable else 1, metavar=one.metavar, **common)
    names = [one.name, *one.flags[:-1], f"{one.flag}/{one.off}" if one.off else one.flag]
    if one.kind is bool:
        return click.Option(names, is_flag=True, default=None, help=one.help)
    return click.Option(names, multiple=one.repeatable, help=one.help, metavar=one.metavar, **common)


def _helping(*flags: str, all_options: bool = False, hidden: bool = False) -> click.Option:
    def show(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        if value and not ctx.resilient_parsing:
            _print_help(ctx, all_options=all_options)
            ctx.exit()

    return click.Option(
        flags, is_flag=True, is_eager=True, expose_value=False, callback=show, hidden=hidden, help="Show this message."
    )


def _print_help(ctx: click.Context, *, all_options: bool = False) -> None:
    from edgewise.cli.help import print_command, print_group

    if isinstance(ctx.command, Group):
        print_group(ctx.command_path, ctx.command.help or "", ctx.command.members, is_root=ctx.parent is None)
    elif isinstance(ctx.command, Parsed):
        print_command(ctx.command_path, ctx.command.declared, all_options=all_options)


class Parsed(click.Command):
    """One command."""

    def __init__(self, name: str, declared: Command) -> None:
        params = [*map(parameter_of, declared.options), _helping("--help", "-h")]
        params.append(_helping("--help-all", all_options=True, hidden=True))
        super().__init__(name, params=params, help=declared.help, add_help_option=False)
        self.declared = declared

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words, and refuse what click would let pass: the last of several values of an option."""
        args = self._without_model_flag(args)
        given = list(args)
        if project := ctx.find_object(Project):
            ctx.default_map = project.defaults(ctx.command_path.split()[1:], self.declared.options)
        try:
            rest = super().parse_args(ctx, args)
            if not ctx.resilient_parsing:
                self._refuse_repetitions(ctx, given)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise
        return rest

    def _without_model_flag(self, args: list[str]) -> list[str]:
        """Return the words, where ``-m MODEL`` and ``--model MODEL`` are as good as the argument MODEL alone."""
        flags = {flag for one in self.declared.options for flag in one.flags}
        models = any(not one.flags and one.metavar.startswith("MODEL") for one in self.declared.options)
        if not models or flags & _MODEL_FLAGS:
            return args
        end = args.index("--") if "--" in args else len(args)
        own = [word.removeprefix("--model=") for word in args[:end] if word not in _MODEL_FLAGS]
        return own + args[end:]

    def _refuse_repetitions(self, ctx: click.Context, args: list[str]) -> None:
        _, _, order = self.make_parser(ctx).parse_args([*args])
        for one in self.declared.options:
            count = sum(param.name == one.name for param in order)
            if one.flags and count > 1 and not one.repeatable and (one.kind is not bool or one.off):
                flag = "/".join(filter(None, (one.flag, one.off)))
                advice = f"give it once; '{ctx.command_path}' takes one value of it"
                raise BadInput(f"{flag} is given {count} times", advice=f"{advice}{self._further_file(one, args)}")

    def _further_file(self, one: Option, args: Sequence[str]) -> str:
        """``"; --report page.html writes a report besides"``: where a command writes reports beside `one`; else ""."""
        report = next((other for other in self.declared.options if other.flag == "--report"), None)
        if report is None or one.panel != report.panel or one.kind not in (str, Path):
            return ""
        given = [word for flag, word in pairwise(args) if flag in one.flags and Path(word).suffix]
        return f"; {report.flag} {given[-1] if given else report.metavar} writes a report besides"

    def invoke(self, ctx: click.Context) -> int:
        """Carry the command out."""
        values = _values_of(self.declared.options, ctx)
        if not values.get("quiet"):
            _tell_project_defaults(self.declared.options, ctx)
        return self.declared(values)


def _values_of(options: Sequence[Option], ctx: click.Context) -> Values:
    """Return the values of options as click found them; defaults where they were not given. Raises `BadInput`."""
    found = {}
    for one in options:
        given = ctx.params[one.name]
        try:
            if one.repeatable:
                found[one.name] = [one.convert(text) for text in given] if given else one.default
            else:
                found[one.name] = one.default if given is None else one.convert(given)
        except BadInput as error:
            project = ctx.find_object(Project) if _is_from_project(one, ctx) else None
            place = f"{project.file}: " if project else ""
            advice = error.advice or f"see '{ctx.command_path} --help'"
            raise BadInput(f"{place}{one.flag} {error.message}", advice=advice) from None
    return found


def _is_from_project(one: Option, ctx: click.Context) -> bool:
    return ctx.get_parameter_source(one.name) is click.core.ParameterSource.DEFAULT_MAP


def _tell_project_defaults(options: Sequence[Option], ctx: click.Context) -> None:
    """One line on standard error with the options that the project file sets."""
    words: list[str] = []
    for one in options:
        if _is_from_project(one, ctx):
            given = ctx.params[one.name]
            texts = given if isinstance(given, tuple) else (given,)
            words += one.words(given) if one.kind is bool else [word for text in texts for word in (one.flag, text)]
    if words:
        from edgewise.terminal.console import err

        err().print(f"{FILE} sets {shlex.join(words)}", style="dim", markup=False, highlight=False, soft_wrap=True)


MOST_NEAR = 3
"""Number of commands that are named where there is none of a name."""


class Group(click.Group):
    """Commands by name.

    Attributes:
        members: name → heading in the help, and one line of help.
        load: the command of a name.
        synonyms: other word for a command → its name.
    """

    def __init__(
        self,
        name: str,
        members: Mapping[str, tuple[str, str]],
        load: Callable[[str], click.Command],
        *,
        help: str,
        params: Sequence[click.Parameter] = (),
        synonyms: Mapping[str, str] | None = None,
    ) -> None:
        helping = (_helping("--help", "-h"), _helping("--help-all", hidden=True))
        super().__init__(name, params=[*params, *helping], help=help, add_help_option=False, no_args_is_help=False)
        self.members, self._load, self._synonyms = members, load, synonyms or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the order of the help."""
        return list(self.members)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, imported now."""
        return self._load(cmd_name) if cmd_name in self.members else None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words; show the help where there are none."""
        if not args and not ctx.resilient_parsing:
            _print_help(ctx)
            ctx.exit(ExitCode.BAD_INPUT)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the words begin with.

        Raises `BadInput` for an unknown one, which names a near one.
        """
        name = args[0]
        if name not in self.members and not name.startswith("-") and not ctx.resilient_parsing:
            from difflib import get_close_matches  # only a mistake needs it

            near = [word for words in _SYNONYMS if name in words for word in words if word in self.members]
            near = [self._synonyms[name]] if name in self._synonyms else near
            near = near or self._within_groups(name) or get_close_matches(name, self.members, 1)
            # A line that can be typed as it is; of several groups with such a command, all.
            advice = " or ".join(f"{ctx.command_path} {each}" for each in near[:MOST_NEAR])
            advice = advice or f"see '{ctx.command_path} --help'"
            raise BadInput(f"No such command {name!r}.", advice=advice)
        return super().resolve_command(ctx, args)

    def _within_groups(self, name: str) -> list[str]:
        """Return ``["runs list"]``: commands of that name, or a word for it, of the groups among the members.

        The group with the most commands comes first.
        """
        groups: list[tuple[str, Group]] = []
        for each in self.members:
            with suppress(EdgewiseError):  # a plug-in that can't be loaded
                if isinstance(command := self._load(each), Group):
                    groups.append((each, command))
        same = next((words for words in _SYNONYMS if name in words), (name,))
        groups.sort(key=lambda found: -len(found[1].members))
        return [f"{each} {word}" for each, group in groups for word in same if word in group.members]

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names of commands with their help, without importing them; then flags."""
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=line) for name, (_, line) in self.members.items() if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]


def words_of(error: click.UsageError) -> tuple[str, str]:
    """Return what is wrong with a command line that can't be read, and what to do about it."""
    from difflib import get_close_matches

    ctx, param = error.ctx, getattr(error, "param", None)
    path = ctx.command_path if ctx is not None else "edgewise"
    message, advice = error.format_message(), f"see '{path} --help'"
    if ctx is not None and isinstance(error, click.MissingParameter) and isinstance(ctx.command, Parsed):
        if isinstance(param, click.Argument):
            from edgewise.cli.help import usage_of

            advice = f"write '{path} {usage_of(ctx.command.declared.options)}'; {advice}"
        elif isinstance(param, click.Option) and param.help:
            advice = f"{param.opts[-1]} takes: {param.help}; {advice}"
    word = _EXTRA if message.startswith(_EXTRA) else getattr(error, "option_name", "")
    elsewhere = _ELSEWHERE.get((path.partition(" ")[2], word))
    if isinstance(error, click.NoSuchOption) and ctx is not None:
        message = f"No such option: {error.option_name}"  # each version of click words it differently
        flags = [flag for one in ctx.command.params for flag in (*one.opts, *one.secondary_opts)]
        near = [flag for flag in _SAME_FLAGS if error.option_name in _SAME_FLAGS and flag in flags]
        near = near or get_close_matches(error.option_name, flags, cutoff=0.7)
        if near:
            advice = f"did you mean {' or '.join(near)}? {advice}"
        elif any(str(one.metavar).startswith("-- ") for one in ctx.command.params):
            advice = f"write -- before the program, so that its options are its own; {advice}"
    return message, elsewhere or advice


def group_of(name: str, commands: Mapping[str, Command], *, help: str) -> Group:
    """Return a group whose commands are known."""
    members = {each: ("Commands", command.help.partition("\n\n")[0]) for each, command in commands.items()}
    return Group(name, members, lambda each: Parsed(each, commands[each]), help=help)
