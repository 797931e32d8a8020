"""What the options of ``estimate`` ask for: an estimate, a prediction, the boards that fit, or the list of devices."""

from __future__ import annotations

import shlex

from edgewise.device.calibrations import is_calibrated
from edgewise.errors import BadInput
from edgewise.verbs.checking import make_request
from edgewise.verbs.declared import declared_options, request_of
from edgewise.verbs.estimate.request import EstimateRequest
from edgewise.verbs.fits.request import FitsRequest
from edgewise.verbs.hardware.request import HardwareRequest
from edgewise.verbs.option import Values
from edgewise.verbs.predict.request import PredictRequest
from edgewise.verbs.request import Request
from edgewise.verbs.shared_options import models_or_factory

FOR_FITS = ("max_latency", "max_ram", "max_flash", "capacity", "idle_power", "per_hour")


def read(values: Values) -> Request:
    """Return the request of these options. Raises `BadInput`."""
    if values["devices"]:
        return make_request(HardwareRequest)
    models = values["models"] or []
    if not (models or values["build"]) or (values["device"] is None) != values["fits"]:
        if not (models or values["build"]):
            message = "give a model, and either a device or ⟦fits⟧"
        else:
            message = "give a device or ⟦fits⟧, not both" if values["fits"] else "give a device, or ⟦fits⟧"
        advice = "edgewise estimate model.tflite -d ethos-u55-128, or with ⟦fits⟧ instead of ⟦device⟧"
        raise BadInput(message, advice=f"'edgewise estimate --devices' lists devices; {advice}")
    if unused := [flag for flag in FOR_FITS if values[flag] is not None and not values["fits"]]:
        own = "⟦target⟧ is the limit of a calibrated device; or " if unused[0] == "max_latency" else ""
        raise BadInput(f"⟦{unused[0]}⟧ applies only to ⟦fits⟧", advice=f"{own}add ⟦fits⟧ instead of ⟦device⟧")
    if values["device"] is not None and is_calibrated(values["device"], values["store"]):
        return _prediction(values)
    if unused := [name for name in ("target", "anyway") if values[name]]:
        instead = "⟦max_latency⟧, ⟦max_ram⟧ and ⟦max_flash⟧ limit boards" if values["fits"] else ""
        raise BadInput(
            f"⟦{unused[0]}⟧ applies only to calibrated devices", advice=instead or "'edgewise calibrate' learns one"
        )
    if len(models) > 1:
        where = "--fits" if values["fits"] else f"-d {shlex.quote(values['device'])}"
        loop = f'for model in {shlex.join(models)}; do edgewise estimate "$model" {where}; done'
        raise BadInput(f"one model can be estimated at a time, not {len(models)}", advice=loop)
    (model,) = models_or_factory(models, values["build"])
    kind = FitsRequest if values["fits"] else EstimateRequest
    return request_of(kind, declared_options(kind), values, model=model)


def _prediction(values: Values) -> Request:
    unused = [f"⟦{name}⟧" for name in ("build", "set", "shape", "signature") if values.get(name)]
    if unused:
        raise BadInput(
            f"{values['device']} is a calibrated device, which does not use {' and '.join(unused)}",
            advice="give model files",
        )
    fields = {"models": tuple(values["models"] or ()), "device": values["device"]}
    return request_of(PredictRequest, declared_options(PredictRequest), values, **fields)
