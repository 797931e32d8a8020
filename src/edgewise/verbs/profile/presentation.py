"""How results of ``profile`` are shown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.errors import BadInput, EdgewiseError, RunFailed, Unavailable
from edgewise.verbs.measuring import RunPresentation
from edgewise.verbs.presentation import View

if TYPE_CHECKING:
    from rich.console import Console

    from edgewise.verbs.measuring import Measured
    from edgewise.verbs.profile.request import ProfileRequest


class ProfilePresentation(RunPresentation):
    """How profiles are shown."""

    profiles = True
    more_files: Sequence[str] = (".mltk.json", ".trace.json", ".nodes.json")

    def check_request(self, request: ProfileRequest, files: Sequence[Path]) -> None:
        """Refuse files that hold one run where there will be several, before measuring."""
        from edgewise.report.files import PROFILE_EXTENSIONS, SEVERAL, extension_of
        from edgewise.verbs.measuring import planned

        single = set(PROFILE_EXTENSIONS) - set(SEVERAL)
        path = next((path for path in files if extension_of(path) in single), None)
        if path is None:
            return
        with planned(request) as plan:
            if len(plan.jobs) > 1:
                raise BadInput(
                    f"{path.name} holds one run, and this measures {len(plan.jobs)}",
                    advice="name one runtime, such as ⟦runtime=onnxruntime⟧",
                )

    def show(self, result: Measured, console: Console, *, view: View) -> None:
        """Show the table of layers."""
        from edgewise.report.document.text import print_document
        from edgewise.report.profile.document import profile_document

        if result.runs:
            top = view.top or max(len(run.layers) for run in result.runs)
            document = profile_document(
                result.runs, top=top, width=console.width, again=result.again, typed=result.typed, known=result.known
            )
            print_document(document.led_by(result.led_by), console, details=view.details)

    def shown(self, result: Measured) -> list[EdgewiseError]:
        """Also runs without layers: where the process failed, and where the engine can't time them."""
        from edgewise.run.profiled import is_profiling_failed

        return super().shown(result) + [
            (RunFailed if is_profiling_failed(run) else Unavailable)(f"{run.job.label}: {run.profile_absent_because}")
            for run in result.runs
            if run.profile is None and run.status != "failed"
        ]
