"""What takes part for one network: the float files, what tools made of them, and what edgewise chose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from edgewise.record import Job, RuntimeSpec, Scenario, Stopping, TargetSpec
from edgewise.run.plan import Axes, make_plan

Kind = Literal["float", "tool", "edgewise"]

ENGINES = {"onnxruntime": ("onnx",), "openvino": ("onnx", "tflite"), "litert": ("tflite",)}
"""Engine → the formats of the float file that it runs and that edgewise starts from, the first that there is."""
FREE = "free"


@dataclass(slots=True, kw_only=True)
class Entry:
    """One file in one engine.

    Attributes:
        name: unique for its network: ``float onnxruntime``, ``tool nncf-onnx``, ``edgewise free`` …
        key: of the float: its engine; of a tool: its name in `TOOLS`; of edgewise: the engine it was allowed, or free.
        spec: the engine and its settings.
        seconds: making or finding it took.
        why: what there is nothing for; of edgewise, what was decided.
        numbers: ``accuracy``, ``drop``, ``snr``, ``latency``, ``size``: each value, low, high.
    """

    name: str
    title: str
    kind: Kind
    key: str
    engine: str
    path: Path | None
    spec: RuntimeSpec | None = None
    seconds: float | None = None
    why: str = ""
    numbers: dict[str, dict[str, Any]] = field(default_factory=dict)

    def identity(self) -> tuple[str, str]:
        """Return what tells whether two entries are the same thing under two names: the file's hash, and all
        settings.
        """
        job = self.job()
        return job.model.sha256, repr(sorted(asdict(job.runtime).items()))

    def job(self) -> Job:
        """How it is run. Raises `BadInput`, `Unavailable`."""
        assert self.path is not None and self.spec is not None
        engine = f"{self.spec.name}/{self.spec.provider}" if self.spec.provider else self.spec.name
        axes = Axes(
            runtimes=(engine,),
            threads=(self.spec.threads or 1,),
            precisions=(self.spec.precision,) if self.spec.precision else (),
        )
        plan = make_plan([self.path], axes=axes, scenario=Scenario(), stopping=Stopping(), target=TargetSpec(), seed=0)
        job = plan.jobs[0]
        return replace(job, runtime=replace(job.runtime, options=dict(self.spec.options)))

    def to_document(self) -> dict[str, Any]:
        """JSON-shaped."""
        document = asdict(self)
        document["path"] = None if self.path is None else str(self.path)
        return document


def entry_of(document: Mapping[str, Any]) -> Entry:
    """Return what `Entry.to_document` gave."""
    fields = dict(document)
    spec = fields["spec"]
    fields["path"] = None if fields["path"] is None else Path(fields["path"])
    fields["spec"] = None if spec is None else RuntimeSpec(**spec)
    return Entry(**fields)
