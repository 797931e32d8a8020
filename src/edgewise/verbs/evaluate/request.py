"""The request of ``evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from edgewise.errors import BadField
from edgewise.record import Scenario, Stopping
from edgewise.run.limits import check_settings, require_at_least
from edgewise.verbs.fields import Lab, Models, Precisions, Providers, Runtimes, Signatures, Timeout
from edgewise.verbs.option import option, worded
from edgewise.verbs.request import FilePath, Texts, Whole
from edgewise.verbs.shared import DataRequest, LimitedTargetRequest
from edgewise.verbs.shared_options import DATA, MEASURE, OUTPUTS, REPORTING, VARY


class EvaluateRequest(LimitedTargetRequest, DataRequest):
    """Measure the accuracy of models on labelled data, or against another model's outputs.

    The fields are the arguments of `edgewise.evaluate`, but for:

    Attributes:
        own_metrics: its `metrics`.
        classes: names of the model's classes, or a file with one name a line.
        lab: whether hosts of a lab run the samples; `device` is a host's name or a tag.
        shards: number of jobs that share the samples; in such a job, which one it is, from 1, and of how many.
    """

    PATHS = ("models", "data", "own_metrics", "reference", "instructions", "classes")

    OTHER_OPTIONS = (OUTPUTS.worded("Also write .md, .html, .csv or .json; repeatable"), *REPORTING)

    verb: Literal["evaluate"] = "evaluate"
    models: Annotated[
        Models, worded(".onnx, .tflite, OpenVINO .xml or .gguf files, or folders of language models.")
    ] = Field(min_length=1)
    data: Annotated[
        FilePath,
        option("--data PATH", DATA, "Class folders, .npz, CSV, COCO, IDX, WAV, .txt … or MODULE:FUNCTION", common=True),
    ]
    own_metrics: Annotated[
        Texts,
        option(
            "--metric M",
            DATA,
            "A metric of your own: MODULE:FUNCTION, FILE.py:FUNCTION, hf:FOLDER; append =lower if less is better; "
            "repeatable",
            list[str],
            not_asked="a metric of one's own runs code",
        ),
    ] = ()
    reference: Annotated[
        FilePath | None,
        option("--reference MODEL", DATA, "Model whose outputs count as correct, for data without labels", Path),
    ] = None
    runtimes: Annotated[Runtimes, worded("Runtimes (default: the runtime of the model's own format)")] = ()
    providers: Providers = ()
    threads: Annotated[Whole, option("-t --threads N", VARY, "Number of inference threads", common=True)] = 1
    precisions: Precisions = ()
    signatures: Signatures = ()
    latency: Annotated[bool, option("--latency/--no-latency", MEASURE, "Measure the latency too", common=True)] = True
    sessions: Annotated[
        Whole, option("--sessions N", MEASURE, "Number of fresh processes for the latency", common=True)
    ] = 3
    meters: Annotated[bool, option("--meters/--no-meters", MEASURE, "Read sensors, about 3 s per run")] = False
    timeout: Timeout = 120.0
    keep_state: Annotated[
        bool, option("--keep-state", MEASURE, "Keep a model's state from sample to sample: they are one sequence")
    ] = False
    fresh: Annotated[bool, option("--fresh", MEASURE, "Start anew instead of resuming an interrupted evaluation")] = (
        False
    )

    lab: Annotated[
        Lab, worded("Let hosts of the lab in the store (--store, EDGEWISE_STORE) run the samples, without the latency")
    ] = False
    shards: Annotated[
        Whole | tuple[Whole, Whole] | None,
        option(
            "--shards N",
            MEASURE,
            "With --lab: number of jobs that share the samples (default: one per host)",
            int,
            not_asked="the studio works on this machine",
        ),
    ] = None

    def check(self) -> None:
        """Reject settings that no engine supports."""
        super().check()
        if self.lab and (left := [f"⟦{name}⟧" for name in ("keep_state", "meters") if getattr(self, name)]):
            raise BadField(f"⟦lab⟧ excludes {left[0]}: hosts share the samples", advice=f"leave {left[0]} out")
        if isinstance(self.shards, int):
            require_at_least(1, shards=self.shards)
            if not self.lab:
                raise BadField("⟦shards⟧ needs ⟦lab⟧", advice="leave ⟦shards⟧ out")
        elif self.shards is not None and (self.lab or not 1 <= self.shards[0] <= self.shards[1]):
            raise BadField(f"⟦shards⟧ can't be {self.shards}", advice="in a lab it is their number")
        if self.meters and not self.latency:
            raise BadField("⟦meters⟧ needs the latency, which is not measured", advice="leave ⟦latency=False⟧ out")
        check_settings(
            threads=(self.threads,),
            batches=(),
            scenario=Scenario(),
            stopping=Stopping(sessions=self.sessions, timeout_s=self.timeout),
            target=self.target(),
            seed=self.seed,
        )
