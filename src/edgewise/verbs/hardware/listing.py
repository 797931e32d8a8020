"""The devices that can be estimated, and those that are calibrated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from edgewise.estimating.base import SCHEMA, EstimatedDevice, Estimator, estimators
from edgewise.predicting.calibration import summaries
from edgewise.registry import Availability, availability_of
from edgewise.verbs.hardware.request import HardwareRequest
from edgewise.verbs.presentation import Unwritten

if TYPE_CHECKING:
    from edgewise.report.document import Document
    from edgewise.verbs.context import Context


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareList:
    """Estimators with their availability and devices, and what is told of each calibrated device."""

    estimated: Sequence[tuple[Estimator, Availability, Sequence[EstimatedDevice]]]
    calibrated: Sequence[Mapping[str, Any]]

    def to_document(self) -> dict[str, Any]:
        """JSON-shaped."""
        return {
            "schema": SCHEMA,
            "devices": [
                {**asdict(device), "available": bool(state), "reason": state.reason}
                for _, state, devices in self.estimated
                for device in devices
            ],
            "calibrated": self.calibrated,
        }

    def describe(self) -> Document:
        """Tables for a person."""
        from edgewise.report.estimate.document import devices_document
        from edgewise.report.estimate.forecast import calibrations_table

        document = devices_document(self.estimated)
        tables = (calibrations_table(self.calibrated), *document.tables) if self.calibrated else document.tables
        return replace(document, tables=tables)


def list_hardware(request: HardwareRequest, context: Context) -> HardwareList:
    """Return the devices; those that are calibrated belong to the context's store."""
    del request
    found = [(each, availability_of(each), each.devices()) for _, each in estimators()]
    return HardwareList(estimated=found, calibrated=summaries(context.store))


class HardwarePresentation(Unwritten[HardwareList]):
    """How they are shown."""

    noun = "a list of devices"
