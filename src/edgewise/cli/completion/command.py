"""``edgewise completion``: the script with which a shell completes commands, flags and values."""

from __future__ import annotations

from edgewise.cli.completing import SHELLS, answer
from edgewise.cli.main import root
from edgewise.errors import BadInput
from edgewise.verbs.command import takes
from edgewise.verbs.option import Values, argument


@takes(argument("shell", "bash, zsh or fish", str, metavar="SHELL", choices=SHELLS))
def command(values: Values) -> None:
    """Print the script that makes a shell complete commands, flags, files, runtimes, devices, tasks and stored runs.

    bash: echo 'eval "$(edgewise completion bash)"' >> ~/.bashrc

    zsh: echo 'autoload -U compinit; compinit; eval "$(edgewise completion zsh)"' >> ~/.zshrc

    fish: echo 'edgewise completion fish | source' >> ~/.config/fish/config.fish
    """
    if values["shell"] not in SHELLS:
        raise BadInput(f"{values['shell']!r} can't be completed in", advice=f"one of: {', '.join(SHELLS)}")
    answer(root(), f"{values['shell']}_source")
