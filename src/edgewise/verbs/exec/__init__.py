"""``exec``: run any program as if on a smaller device, and measure it."""

from __future__ import annotations

from edgewise.verbs.verb import Verb


class Exec(Verb):
    """Run a program with the processor and memory limits of a smaller device, and measure what it uses.

    The program's standard input is empty, and its output goes to standard error. This compares variants of a program,
    whose executions take turns: edgewise exec --repeat 25 --models plain,fft -- python fir.py {model}
    """

    name = "exec"
    summary = "Run any program as if on a smaller device, and measure it."
    examples = ("edgewise exec --cpus 1 --memory 512MiB --repeat 5 -- python infer.py",)
    group = "Measure"
    request = ".request:ExecRequest"
    work = ".work:run_commands"
    shown = "edgewise.verbs.measuring:RunPresentation"
    reader = ".reading:read"
