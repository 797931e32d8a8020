"""The records: jobs (requested) and runs (carried out). Pure data, standard library only."""

from edgewise.record.caution import ABOUT_DATA, CAUTIONS, Caution
from edgewise.record.evaluation import CalibratedPart, DataRef, Evaluation, Skipped
from edgewise.record.job import (
    Constraints,
    InputSpec,
    Job,
    ModelRef,
    Origin,
    RuntimeSpec,
    Scenario,
    Stopping,
    TargetSpec,
    Workload,
)
from edgewise.record.layer import Finding, Layer, LayerTensor, Peak, Profile
from edgewise.record.run import (
    SCHEMA,
    Disagreement,
    Failure,
    InTurns,
    LabPlace,
    Measurement,
    Run,
    SessionRecord,
    Summary,
    Trust,
    Variation,
    new_run_id,
)
from edgewise.record.source import Source
from edgewise.record.sustained import Sustained, Window

__all__ = [
    "ABOUT_DATA",
    "CAUTIONS",
    "SCHEMA",
    "CalibratedPart",
    "Caution",
    "Constraints",
    "DataRef",
    "Disagreement",
    "Evaluation",
    "Failure",
    "Finding",
    "InTurns",
    "InputSpec",
    "Job",
    "LabPlace",
    "Layer",
    "LayerTensor",
    "Measurement",
    "ModelRef",
    "Origin",
    "Peak",
    "Profile",
    "Run",
    "RuntimeSpec",
    "Scenario",
    "SessionRecord",
    "Skipped",
    "Source",
    "Stopping",
    "Summary",
    "Sustained",
    "TargetSpec",
    "Trust",
    "Variation",
    "Window",
    "Workload",
    "new_run_id",
]
