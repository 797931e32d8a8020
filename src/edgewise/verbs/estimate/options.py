"""Options of ``estimate``, and what they ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgewise.errors import BadInput
from edgewise.verbs import choices, words
from edgewise.verbs import shared_options as options
from edgewise.verbs.option import Values, argument, option, request_of
from edgewise.verbs.shared_options import models_or_factory

if TYPE_CHECKING:
    from edgewise.verbs.request import Request

OPTIONS = (
    argument(
        "models",
        "Model file; several for a calibrated device, also tables and names of the atlas.",
        list[str],
        field="model",
        metavar="MODEL…",
        default=None,
    ),
    options.BUILD,
    options.CASES.worded("Keyword argument of the factory; repeatable"),
    option(
        "-d --device NAME",
        options.VARY,
        "Device to estimate, such as ethos-u55-128 or ethos-u55-128@400MHz, or one that you have calibrated",
        choices=choices.estimated_devices,
    ),
    option(
        "--target latency=30ms",
        options.LIMITS,
        "For a calibrated device: also print the probability of a value at or below this; repeatable",
        list[str],
        read=words.limits,
        field="targets",
    ),
    option(
        "--anyway",
        options.VARY,
        "For a calibrated device: widen the interval of models that the measured ones say little about (another "
        "precision, size or kind of operators), instead of refusing them",
        bool,
    ),
    options.SETTINGS.worded("Setting of the estimator; repeatable"),
    option("--devices", options.VARY, "List the devices that can be estimated, with their settings", bool),
    option("--fits", options.VARY, "List the boards of the catalogue that hold the model, instead of -d", bool),
    option("--max-latency 50ms", options.LIMITS, "With --fits: highest latency", read=words.time_with_unit),
    option("--max-ram 256KiB", options.LIMITS, "With --fits: RAM that the model may take", read=words.size_with_unit),
    option("--max-flash 1MiB", options.LIMITS, "With --fits: flash that it may take", read=words.size_with_unit),
    option("--capacity 10Wh", options.LIMITS, "With --fits: battery, such as 36kJ or 2000mAh@3.7V; adds its life"),
    option("--idle-power 5mW±1mW", options.LIMITS, "With --fits and --capacity: power between inferences"),
    option("--per-hour N", options.LIMITS, "With --fits and --capacity: number of inferences an hour", float),
    options.SHAPES,
    options.SIGNATURE,
    options.TOP,
    options.DETAILS,
    options.OUTPUTS.worded(
        "Also write a file: .md, .html, .txt, .csv (layers), .json or .mltk.json; or a folder with all of them; "
        "of a calibrated device .md, .html, .csv or .json; repeatable"
    ),
    options.FORCE,
    options.AS_JSON,
    options.QUIET,
    options.STORE.worded(
        "For a calibrated device: store that its calibration and the runs belong to (default: EDGEWISE_STORE)"
    ),
    options.DRY_RUN,
    options.ABSOLUTE,
)

FOR_FITS = ("max_latency", "max_ram", "max_flash", "capacity", "idle_power", "per_hour")


def read(values: Values) -> Request:
    """The request: an estimate, a prediction, the boards that fit, or the devices there are. Raises `BadInput`."""
    from edgewise.device.calibrations import is_calibrated
    from edgewise.verbs.checking import make_request
    from edgewise.verbs.estimate.request import EstimateRequest
    from edgewise.verbs.fits.request import FitsRequest
    from edgewise.verbs.hardware.request import HardwareRequest

    if values["devices"]:
        return make_request(HardwareRequest)
    given = values["models"] or []
    if not (given or values["build"]) or (values["device"] is None) != values["fits"]:
        if not (given or values["build"]):
            message = "give a model, and either a device or --fits"
        else:
            message = "give a device or --fits, not both" if values["fits"] else "give a device, or --fits"
        advice = "edgewise estimate model.tflite -d ethos-u55-128, or with --fits instead of -d"
        raise BadInput(message, advice=f"'edgewise estimate --devices' lists devices; {advice}")
    if unused := [flag for flag in FOR_FITS if values[flag] is not None and not values["fits"]]:
        raise BadInput(f"--{unused[0].replace('_', '-')} applies only to --fits", advice="add --fits instead of -d")
    if values["device"] is not None and is_calibrated(values["device"], values["store"]):
        return _prediction(values)
    if unused := [name for name in ("target", "anyway") if values[name]]:
        raise BadInput(f"--{unused[0]} applies only to calibrated devices", advice="'edgewise calibrate' learns one")
    if len(given) > 1:
        raise BadInput(f"one model can be estimated at a time, not {len(given)}", advice="estimate them one by one")
    (model,) = models_or_factory(given, values["build"])
    return request_of(FitsRequest if values["fits"] else EstimateRequest, OPTIONS, values, model=model)


def _prediction(values: Values) -> Request:
    from edgewise.verbs.predict.request import PredictRequest

    unused = [f"--{name}" for name in ("build", "set", "shape", "signature") if values.get(name)]
    if unused:
        raise BadInput(
            f"{values['device']} is a calibrated device, which does not use {' and '.join(unused)}",
            advice="give model files",
        )
    return request_of(PredictRequest, OPTIONS, values, models=tuple(values["models"] or ()))
