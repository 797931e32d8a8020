"""Files that need a profile: traces, node data, MLTK's JSON, charts."""

from __future__ import annotations

from collections.abc import Sequence

from edgewise.errors import BadInput
from edgewise.record import Run
from edgewise.report.profile import is_profiled

PROFILE_EXTENSIONS = (".trace.json", ".nodes.json", ".mltk.json", ".svg", ".png")
"""Extensions of files that need a profile."""
SEVERAL = frozenset({".trace.json"})
"""Those that hold several runs."""


def render_profile_file(runs: Sequence[Run], extension: str, word: str = "") -> str | bytes:
    """The content of a file of a profile.

    Args:
        extension: one of `PROFILE_EXTENSIONS`.
        word: what stands before the extension: which chart (``roofline`` of ``x.roofline.svg``) or which node data
            (``macs`` of ``x.macs.nodes.json``); any other word, and none, is the first of them.

    Raises `BadInput` where no run is profiled, or several are and the format holds one; `Unavailable` where there is
    nothing to draw with.
    """
    found = profiled(runs)
    if extension == ".trace.json":
        from edgewise.report.trace import render_trace

        return render_trace(found)
    if len(found) > 1:
        raise BadInput(f"a {extension} file holds one run, and these are {len(found)}", advice="name one run")
    run = found[0]
    match extension:
        case ".nodes.json":
            from edgewise.report.model_explorer import METRICS, render_node_data

            return render_node_data(run, word if word in METRICS else "time")
        case ".mltk.json":
            from edgewise.report.mltk import to_json

            return to_json(run)
        case ".svg" | ".png":
            from edgewise.report.profile_charts import KINDS, render_chart

            return render_chart(run, word if word in KINDS else "layers", extension)
        case _:
            raise BadInput(f"no profile is a {extension} file", advice=f"one of: {', '.join(PROFILE_EXTENSIONS)}")


def profiled(runs: Sequence[Run]) -> list[Run]:
    """Those of `runs` that have a profile. Raises `BadInput` where none has."""
    found = [run for run in runs if is_profiled(run)]
    if not found:
        reasons = dict.fromkeys(run.profile_absent_because for run in runs if run.profile_absent_because)
        why = f": {'; '.join(reasons)}" if reasons else ""
        raise BadInput(f"none of these runs is profiled{why}", advice="measure with 'edgewise profile MODEL'")
    return found
