r"""One request per verb, and one function that carries it out: the layer under every door.

A door is the command line (`edgewise.cli`), ``import edgewise`` (`edgewise.api`), or a web page. It
makes a request, carries it out in a context, and shows the result. How a benchmark flows:

    edgewise bench m.onnx --threads 1,2          edgewise.bench("m.onnx", threads=[1, 2])     request.json
      cli/bench.py: options → fields               api.py: arguments → fields                   cli/run.py
                    \                                  |                                       /
                     requests/     BenchRequest: checked once; errors name fields, the CLI maps them to flags
                          |
                     carry_out(request, Context(store, progress, cancel))
                          |
                     measuring.py  request → jobs (run/plan.py)
                          |
                     run/dispatch.py  job after job, session after session; each run is saved at once (context.py)
                          |           emits events (progress.py), looks at the token (cancellation.py)
                     Measured: runs, recommendation, what was skipped, what could not be saved, whether cancelled
                          |
                     report/        the door prints it, writes it as JSON or to files, or returns it

Where what lives: the fields of a verb and the rules between them in `requests`; what a field is called on the command
line in `command_line`; what `FILE.py:function` becomes in `factories`; one module per verb carries requests out. A new
field is added to its request, to the options of its command, and to the keyword arguments of its Python function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    from edgewise.comparing.comparison import ComparisonResult
    from edgewise.comparing.gate import GateResult
    from edgewise.converting.result import Conversion
    from edgewise.estimating.base import Estimate
    from edgewise.estimating.fits import Fits
    from edgewise.evaluating.evaluation import EvaluationResults
    from edgewise.model.inspection import Inspection
    from edgewise.optimizing.variant import Optimization
    from edgewise.service.context import Context
    from edgewise.service.measuring import Measured
    from edgewise.service.request import Request
    from edgewise.service.requests import (
        BenchRequest,
        CompareRequest,
        ConvertRequest,
        EstimateRequest,
        EvaluateRequest,
        ExecRequest,
        FitsRequest,
        GateRequest,
        InspectRequest,
        OptimizeRequest,
        ProfileRequest,
    )


@overload
def carry_out(request: BenchRequest | ProfileRequest | ExecRequest, context: Context | None = None) -> Measured: ...
@overload
def carry_out(request: InspectRequest, context: Context | None = None) -> list[Inspection]: ...
@overload
def carry_out(request: EstimateRequest, context: Context | None = None) -> Estimate: ...
@overload
def carry_out(request: FitsRequest, context: Context | None = None) -> Fits: ...
@overload
def carry_out(request: EvaluateRequest, context: Context | None = None) -> EvaluationResults: ...
@overload
def carry_out(request: OptimizeRequest, context: Context | None = None) -> Optimization: ...
@overload
def carry_out(request: ConvertRequest, context: Context | None = None) -> Conversion: ...
@overload
def carry_out(request: CompareRequest, context: Context | None = None) -> ComparisonResult: ...
@overload
def carry_out(request: GateRequest, context: Context | None = None) -> GateResult: ...
@overload
def carry_out(request: Request, context: Context | None = None) -> Any: ...
def carry_out(request: Request, context: Context | None = None) -> Any:
    """Do what `request` asks for, in `context`.

    Returns:
        What the verb gives; a cancelled one gives what was finished, where something was.

    Raises:
        BadInput, BadModel, Unavailable: before anything was measured.
        RunFailed: of `optimize`, where the original model can't be run.
        KeyboardInterrupt: cancelled before anything was finished.
    """
    from importlib import import_module

    from edgewise.service.context import Context

    context = context or Context()
    request = request.in_effect()
    module, _, function = _HANDLERS[request.verb].partition(":")
    with context.in_force():
        return getattr(import_module(f"edgewise.service.{module}"), function)(request, context)


_HANDLERS = {
    "bench": "measuring:measure",
    "profile": "measuring:measure",
    "inspect": "measuring:inspect",
    "estimate": "estimation:estimate",
    "calibrate": "prediction:calibrate",
    "suggest": "suggestion:suggest",
    "predict": "prediction:predict",
    "fits": "estimation:fits",
    "evaluate": "evaluation:evaluate",
    "optimize": "optimization:optimize",
    "compare": "comparison:compare",
    "gate": "gate:gate",
    "exec": "execution:run_commands",
    "convert": "conversion:convert",
}
