"""What the options of ``calibrate`` ask for: to learn a device, or to suggest what to measure on it."""

from __future__ import annotations

from edgewise.errors import BadInput
from edgewise.verbs.calibrate.request import CalibrateRequest
from edgewise.verbs.declared import declared_options, request_of
from edgewise.verbs.option import Values
from edgewise.verbs.request import Request
from edgewise.verbs.suggest.request import SuggestRequest


def read(values: Values) -> Request:
    """Return the request of these options. Raises `BadInput`."""
    options = declared_options(CalibrateRequest, SuggestRequest)
    if values["suggest"] is None:
        if values["format"] != "onnx":
            raise BadInput("⟦format⟧ applies only to ⟦suggest⟧", advice="leave it out")
        return request_of(CalibrateRequest, options, values)
    if unused := [name for name in ("measurements", "method", "host", "model_dir") if values[name]]:
        advice = "calibrate when the suggested models are measured"
        raise BadInput(f"⟦suggest⟧ and ⟦{unused[0]}⟧ exclude each other", advice=advice)
    folders = values["output"] or ()
    if len(folders) > 1:
        raise BadInput(f"⟦suggest⟧ writes to one folder, not {len(folders)}", advice="give ⟦output⟧ once")
    return request_of(SuggestRequest, options, values, folder=str(folders[0]) if folders else None)
