"""The result of ``edgewise convert``: the file, how it was made, and how far it agrees with its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from edgewise.converting.agreement import OutputAgreement
from edgewise.converting.localizing import WrongOperator
from edgewise.record import SCHEMA
from edgewise.shown import Shown

RANDOM_INPUTS = "random inputs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How far the outputs of source and result are apart.

    Attributes:
        outputs: one per output of the source; empty where nothing was compared.
        inputs: what both ran on, in words.
        source_engine, result_engine: what computed the outputs.
        absent_because: why nothing was compared; "" where it was.
    """

    outputs: tuple[OutputAgreement, ...] = ()
    inputs: str = ""
    source_engine: str = ""
    result_engine: str = ""
    absent_because: str = ""

    @property
    def close(self) -> bool:
        """Whether every output is within what rounding explains, as far as it was compared."""
        return all(each.close for each in self.outputs)

    @property
    def worst(self) -> OutputAgreement | None:
        """The output that is the farthest from the source's."""
        return max(self.outputs, key=lambda each: (not each.close, each.compared, each.max_rel), default=None)

    def to_document(self) -> dict[str, Any]:
        """JSON-shaped."""
        return {
            "close": self.close if self.outputs else None, "outputs": [each.to_document() for each in self.outputs],
            "inputs": self.inputs, "source_engine": self.source_engine, "result_engine": self.result_engine,
            "absent_because": self.absent_because or None,
        }  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Conversion(Shown):
    """What ``edgewise convert`` did.

    Attributes:
        source: identity of the source, with the keys of `edgewise.model.identity.describe_file`.
        to: the word for the format.
        path: the file, or a SavedModel's folder; None where it was refused: nothing was written then.
        model: ``name``, ``format``, ``sha256`` and ``size_bytes`` of the result.
        steps: one line per converter, with its tool and version.
        lost: one line each on what the conversion dropped or changed.
        agreement: of the outputs.
        wrong: where a refused conversion goes wrong; None for one that was accepted.
        calibration: of an int8 file, what it was calibrated on: ``name``, ``split``, ``samples``, their digests, and
            ``sha256`` of all of them.
        provenance: the file with these facts beside `path`.
        command: the command that makes the result again.
    """

    source: Mapping[str, Any]
    to: str
    path: Path | None
    model: Mapping[str, Any]
    steps: tuple[str, ...]
    lost: tuple[str, ...]
    agreement: Agreement
    wrong: WrongOperator | None = None
    calibration: Mapping[str, Any] | None = None
    provenance: Path | None = None
    command: str = ""

    @property
    def accepted(self) -> bool:
        """Whether the result was written."""
        return self.wrong is None

    @property
    def refused_because(self) -> str:
        """Why nothing was written, in one sentence; "" where the result was accepted."""
        worst = self.agreement.worst
        if self.wrong is None or worst is None:
            return ""
        return f"output {worst.name} of the result is not the source's: {worst.words}"

    def to_document(self) -> dict[str, Any]:
        """JSON-shaped."""
        return {
            "schema": SCHEMA, "source": dict(self.source), "to": self.to, "accepted": self.accepted,
            "path": None if self.path is None else str(self.path), "model": dict(self.model), "steps": list(self.steps),
            "lost": list(self.lost), "agreement": self.agreement.to_document(),
            "wrong_operator": None if self.wrong is None else asdict(self.wrong),
            "provenance": None if self.provenance is None else str(self.provenance), "command": self.command,
        }  # fmt: skip
