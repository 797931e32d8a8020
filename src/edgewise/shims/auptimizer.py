"""``python -m edgewise.shims.auptimizer``: the command line of auptimizer's Profiler (``python -m aup.profiler``).

It accepts ``-e/--environment``, ``-m/--modellist`` and ``-f/--modelfile``, prints the same summary and appends it to
``OUTPUTFILE``. The program runs in a container where Docker or Podman can build its image, otherwise on this machine
itself, within the same limits.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from edgewise.errors import BadInput, ExitCode, as_argument
from edgewise.terminal.context import in_context
from edgewise.terminal.errors import explain, tell_ending
from edgewise.text import one_line
from edgewise.verbs.checking import make_request
from edgewise.verbs.exec.env_file import read_env_file
from edgewise.verbs.exec.request import ExecRequest
from edgewise.verbs.measuring import RunPresentation
from edgewise.verbs.verb import carry_out, named_for_python


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code, as edgewise's own."""
    parser = argparse.ArgumentParser(prog="python -m edgewise.shims.auptimizer")
    parser.add_argument("-e", "--environment", type=Path, required=True, help="environment file")
    parser.add_argument("-m", "--modellist", default="", help="models, separated by commas")
    parser.add_argument("-f", "--modelfile", type=Path, help="file with one model per line")
    words = parser.parse_args(arguments)
    try:
        with named_for_python(_called):
            return _profile(words.environment, words.modellist, words.modelfile)
    except (Exception, KeyboardInterrupt) as error:
        return ExitCode.INTERRUPTED if isinstance(error, KeyboardInterrupt) else explain(error, debug=False)


def _called(field: str, value: str | None = None) -> str:
    """Return what this command line calls a field; the others are those of the environment file."""
    flag = {"model_names": "--modellist", "models_file": "--modelfile"}.get(field)
    return as_argument(field, value) if flag is None else " ".join(filter(None, (flag, value)))


def _profile(environment: Path, models: str, models_file: Path | None) -> int:
    from edgewise.report.runs.field_tables import as_text, usage_table

    env_file = read_env_file(environment)
    names = tuple(word.strip() for word in models.split(",") if word.strip())
    listed = None if models_file is None else str(models_file)
    fields = env_file.fields(has_models=bool(names or listed))
    request = make_request(ExecRequest, **fields, model_names=names, models_file=listed)
    result = in_context(lambda context: carry_out(request, context))
    text = as_text(usage_table(result.runs))
    print(f"Final Usage Stats\n{text}", end="")
    for caution in dict.fromkeys(f"{one.message} → {one.advice}" for run in result.runs for one in run.cautions):
        print(f"caution: {one_line(caution)}", file=sys.stderr)
    try:
        with env_file.output.open("a", encoding="utf-8") as file:
            file.write(f"Usage stats for Experiment ran on : {datetime.now()}\n{text}\n\n")
    except OSError as error:
        raise BadInput(f"can't write OUTPUTFILE {env_file.output}: {error.strerror}") from error
    return tell_ending(RunPresentation().ending(result, kept=True))


if __name__ == "__main__":
    sys.exit(main())
